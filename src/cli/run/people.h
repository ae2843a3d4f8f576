/* people.h: the boxes of people in each picture: of --box, or of a file such as --boxes writes. */
#ifndef FOVEA_CLI_PEOPLE_H
#define FOVEA_CLI_PEOPLE_H

#include <fovea/crops.h>

#include "cli/common/cli.h"

typedef struct people_box {
    fovea_box box;
    double score; /* of who has found it; NAN: nobody said */
} people_box;

typedef struct people {
    cli_texts given;      /* X,Y,W,H of --box */
    const char *path;     /* of --people, or NULL */
    const char *category; /* of --person: name or number; NULL: "person", else 1 */
    double least;         /* score of boxes in the file */
    json_t *root;         /* the file */
    people_box *box;      /* of the current picture */
    size_t n;
} people;

/* Whether boxes are asked for. */
static inline bool people_given(const people *p)
{
    return p->path || p->given.n > 0;
}

/* Reads and checks what was given. */
int people_open(people *p);
/* The boxes in picture number `picture` of this run, which is called `name`: those of --box, then
 * those of the file. */
void people_in(people *p, const char *name, size_t picture);
void people_free(people *p);

#endif
