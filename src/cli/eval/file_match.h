/* file_match.h: finds the file in a folder that a path means which was written on another
 * machine. */
#ifndef FOVEA_CLI_FILE_MATCH_H
#define FOVEA_CLI_FILE_MATCH_H

#include <stdbool.h>
#include <stddef.h>

typedef struct file_match {
    const char *folder;      /* that all files are in */
    char *const *file;       /* with the folder in front */
    const char *const *name; /* paths of any folders, with '/', or bare names */
    size_t files, names;
    /* The result: for each name the index of its file, or `files`: not found. */
    size_t *file_of;
    bool folders_differ; /* only the last components agree */
    /* After a failure: two names that both match one file, or two files that both match one
     * name. */
    size_t doubtful[2];
    bool doubtful_names;
} file_match;

/* A file matches a name if the components of one path end with all components of the other:
 * "val/cam0/1.png" matches cam0/1.png in a folder, or 1.png in a folder cam0. If several match, the
 * one with the most common components is used. If no file matches, the last component decides.
 * False: two are equally good. */
bool file_match_find(file_match *m);

#endif
