/* teacher_features.h: caches the teacher's features of pictures for when the pictures recur. */
#ifndef FOVEA_SRC_ADAPT_TEACHER_FEATURES_H
#define FOVEA_SRC_ADAPT_TEACHER_FEATURES_H

#include "plan/plan.h"

/* Identifies a picture as it is passed to the trainer. All pictures have the same size and
 * format. */
typedef struct fv_picture_key {
    /* two different checksums of its bytes, because pictures are distinguished only by them */
    uint64_t sum[2];
} fv_picture_key;

typedef struct fv_teacher_features {
    uint64_t floats; /* floats of a picture's features */
    uint32_t kept, capacity;
    float *rows;
    fv_picture_key *key;
    /* a hash table of indices of cached pictures, from 1 on; 0 for an empty slot */
    uint32_t *place;
    uint32_t places; /* number of slots, a power of two */
} fv_teacher_features;

/* Allocates at most `bytes` bytes. Returns FOVEA_EINVAL if they do not suffice for one picture. */
fovea_status fv_teacher_features_take(fv_teacher_features *f, uint64_t floats, uint64_t bytes);
void fv_teacher_features_free(fv_teacher_features *f);
uint64_t fv_teacher_features_bytes(const fv_teacher_features *f);
/* Computes the key of a frame for the plan. Returns FOVEA_EINVAL if the plan does not accept the
 * frame. */
fovea_status fv_teacher_features_key(fv_picture_key *out, const fovea_plan *p,
                                     const fovea_frame *frame);
/* Returns the cached features of a picture, or NULL. */
const float *fv_teacher_features_find(const fv_teacher_features *f, const fv_picture_key *key);
/* Stores the features of a picture that is not in the cache, unless the cache is full. */
void fv_teacher_features_keep(fv_teacher_features *f, const fv_picture_key *key, const float *rows);

#endif
