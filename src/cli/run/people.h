/* people.h: the boxes of people in each picture, from --box or from a file in the format of
 * --boxes. */
#ifndef FOVEA_CLI_PEOPLE_H
#define FOVEA_CLI_PEOPLE_H

#include <fovea/crops.h>

#include "cli/common/cli.h"

typedef struct people_box {
    fovea_box box;
    double score; /* score of the detector; NAN if unknown */
} people_box;

typedef struct people {
    cli_texts given;  /* arguments of --box: X,Y,W,H */
    const char *path; /* argument of --people, or NULL */
    /* argument of --person: name or number of the category; NULL for "person", or 1 without
     * names */
    const char *category;
    double least;    /* boxes in the file with a smaller score are left out */
    json_t *root;    /* the parsed file */
    people_box *box; /* boxes of the current picture */
    size_t n;
} people;

/* Returns whether boxes were requested. */
static inline bool people_given(const people *p)
{
    return p->path || p->given.n > 0;
}

/* Parses an argument of --box. */
int people_parse_box(fovea_box *out, const char *text);
/* Parses --box, and reads and checks the file. */
int people_open(people *p);
/* Finds the boxes in picture number `picture` of this run, whose name is `name`: first the boxes of
 * --box, then those of the file. */
void people_in(people *p, const char *name, size_t picture);
void people_free(people *p);

#endif
