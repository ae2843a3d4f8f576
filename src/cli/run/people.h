/* people.h: the boxes of people in each picture, from --box or from a file such as --boxes
 * writes. */
#ifndef FOVEA_CLI_PEOPLE_H
#define FOVEA_CLI_PEOPLE_H

#include <fovea/crops.h>

#include "cli/common/cli.h"

typedef struct people_box {
    fovea_box box;
    double score; /* from the detector that found it; NAN: unknown */
} people_box;

typedef struct people {
    cli_texts given;  /* X,Y,W,H of --box */
    const char *path; /* of --people, or NULL */
    /* argument of --person: name or number of the category; NULL: "person", else 1 */
    const char *category;
    double least;    /* boxes of the file with a smaller score are left out */
    json_t *root;    /* the file */
    people_box *box; /* of the current picture */
    size_t n;
} people;

/* Whether boxes are asked for. */
static inline bool people_given(const people *p)
{
    return p->path || p->given.n > 0;
}

/* Parses --box, and reads and checks the file. */
int people_open(people *p);
/* Finds the boxes in picture number `picture` of this run, called `name`: first those of --box,
 * then those of the file. */
void people_in(people *p, const char *name, size_t picture);
void people_free(people *p);

#endif
