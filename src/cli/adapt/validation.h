/* validation.h: measures how similar a student's features are to a teacher's on held-out pictures:
 * cosines of the features of patches, at several sizes. */
#ifndef FOVEA_CLI_VALIDATION_H
#define FOVEA_CLI_VALIDATION_H

#include "cli/adapt/adapt_data.h"

enum { VALIDATION_SIZES = 3 };

/* Cosines between a student's and the teacher's features of patches. */
typedef struct adapt_score {
    double mean;  /* mean over all pictures of the mean cosine of a picture */
    double worst; /* mean cosine of the picture with the lowest mean */
} adapt_score;

/* Pictures of one size, with the teacher's features for them. */
typedef struct validation_set {
    uint32_t width, height;
    size_t pictures;
    uint8_t **rgb; /* width x height pixels each, packed */
    float **features;
    uint32_t grid_width, grid_height, prefix, columns;
} validation_set;

typedef struct adapt_validation {
    fovea_device *device;
    fovea_model *teacher;
    dataset data; /* the held-out pictures */
    fovea_filter filter;
    validation_set set[VALIDATION_SIZES];
    size_t sizes;
} adapt_validation;

/* Begins without sizes, and takes ownership of the data, also on failure. `prefix` is the prefix of
 * the teacher's tensors. `linear` has the parameters of the teacher's linear attentions. Both may
 * be NULL. */
int adapt_validation_begin(adapt_validation *out, fovea_device *device, const char *teacher,
                           const char *prefix, const fovea_linear_attention_params *linear,
                           const dataset *data);
void adapt_validation_end(adapt_validation *v);
/* Adds a size with at most `pictures` pictures, and runs the teacher on them with softmax. Pictures
 * that cannot be read are left out. Returns CLI_INPUT if no picture can be read. After time
 * `until`, as cli_seconds counts it, no further picture is begun, except the first. INFINITY means
 * no limit. */
int adapt_validation_add(adapt_validation *v, uint32_t width, uint32_t height, size_t pictures,
                         double until);

/* Scores a student on the first `pictures` pictures of set `size`, with the given attention, or its
 * own if `attention` is NULL. */
int adapt_validation_score(adapt_score *out, const adapt_validation *v, size_t size,
                           const fovea_model *student, const char *attention, size_t pictures);
/* Scores the student in `folder` on all pictures of every size. */
int adapt_validation_judge(adapt_score *out, const adapt_validation *v, const char *folder);
/* Ranks a student by the mean of `mean` and `worst` over the sizes. `worst` counts because a model
 * that fails on some pictures is of little use. */
double adapt_validation_rank(const adapt_score *score, size_t sizes);

/* Makes a plan that computes last_hidden_state for the pictures of a set. */
int adapt_validation_plan(fovea_plan **out, const adapt_validation *v, size_t size,
                          const fovea_model *model, const char *attention);
/* Computes the features of all tokens up to the last patch for one picture of a set. The caller
 * frees them. */
int adapt_validation_features(float **out, const adapt_validation *v, size_t size, size_t picture,
                              const fovea_model *model, const char *attention);

#endif
