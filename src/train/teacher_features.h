/* teacher_features.h: the teacher's features of pictures, kept for when they come again. */
#ifndef FOVEA_SRC_ADAPT_TEACHER_FEATURES_H
#define FOVEA_SRC_ADAPT_TEACHER_FEATURES_H

#include "plan/plan.h"

/* A picture as it is given to the trainer: size and format are the same for all of them. */
typedef struct fv_picture_key {
    uint64_t sum[2]; /* of its bytes: two different ones, as pictures are told apart by it alone */
} fv_picture_key;

typedef struct fv_teacher_features {
    uint64_t floats; /* of a picture */
    uint32_t kept, capacity;
    float *rows;
    fv_picture_key *key;
    uint32_t *place; /* a hash table: numbers of kept pictures from 1 on, 0: none */
    uint32_t places; /* a power of two */
} fv_teacher_features;

/* Takes at most `bytes` bytes. EINVAL if they are too few for one picture. */
fovea_status fv_teacher_features_take(fv_teacher_features *f, uint64_t floats, uint64_t bytes);
void fv_teacher_features_free(fv_teacher_features *f);
uint64_t fv_teacher_features_bytes(const fv_teacher_features *f);
/* The key of a frame for the plan; EINVAL for one that the plan does not take. */
fovea_status fv_teacher_features_key(fv_picture_key *out, const fovea_plan *p,
                                     const fovea_frame *frame);
/* What was kept of a picture, or NULL. */
const float *fv_teacher_features_find(const fv_teacher_features *f, const fv_picture_key *key);
/* Stores features of a picture that is not in the cache yet, unless that is full. */
void fv_teacher_features_keep(fv_teacher_features *f, const fv_picture_key *key, const float *rows);

#endif
