/* file_match.h: maps paths that were written on another machine to the files of a folder. */
#ifndef FOVEA_CLI_FILE_MATCH_H
#define FOVEA_CLI_FILE_MATCH_H

#include <stdbool.h>
#include <stddef.h>

typedef struct file_match {
    const char *folder;      /* folder that contains all files */
    char *const *file;       /* paths of the files, which begin with `folder` */
    const char *const *name; /* paths from any folder, with '/', or bare names */
    size_t files, names;
    /* The result: for each name, the index of its file, or `files` if there is none. */
    size_t *file_of;
    bool folders_differ; /* match files of which only the last components agree */
    /* After a failure: two names that match one file equally well, or two files that match one name
     * equally well. */
    size_t doubtful[2];
    bool doubtful_names;
} file_match;

/* Finds the file for each name. A file matches a name if the components of one path end with all
 * components of the other: "val/cam0/1.png" matches cam0/1.png in a folder, or 1.png in a folder
 * cam0. If several match, the one with the most common components is used. If no file matches any
 * name, the last component decides. Returns false if two candidates are equally good. */
bool file_match_find(file_match *m);

#endif
