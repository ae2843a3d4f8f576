/* file_match.h: which file of a folder a path means that was written on another machine. */
#ifndef FOVEA_CLI_FILE_MATCH_H
#define FOVEA_CLI_FILE_MATCH_H

#include <stdbool.h>
#include <stddef.h>

typedef struct file_match {
    const char *folder;      /* that all files are in */
    char *const *file;       /* with the folder in front */
    const char *const *name; /* after '/' of any folders, or none */
    size_t files, names;
    /* The answer: of each name its file, or `files`. */
    size_t *file_of;
    bool folders_differ; /* only the last parts are alike */
    /* Of a failure: two names that one file could be, or two files. */
    size_t doubtful[2];
    bool doubtful_names;
} file_match;

/* A file matches a name if the components of one path end with all components of the other:
 * "val/cam0/1.png" is cam0/1.png in a folder, or 1.png in a folder cam0. Of several matches the one
 * with the most common components counts. Where no file matches, the last component decides. False:
 * two are equally good. */
bool file_match_find(file_match *m);

#endif
