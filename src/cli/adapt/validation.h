/* validation.h: how much of a teacher's features a student keeps, on pictures that it never learns
 * from: cosines of the features of patches, at several sizes. */
#ifndef FOVEA_CLI_VALIDATION_H
#define FOVEA_CLI_VALIDATION_H

#include "cli/adapt/adapt_data.h"

enum { VALIDATION_SIZES = 3 };

/* Cosine of a patch's features with the teacher's. */
typedef struct adapt_score {
    double mean;  /* over pictures, of their means */
    double worst; /* the mean of the worst picture */
} adapt_score;

/* Pictures of one size, with the teacher's features. */
typedef struct validation_set {
    uint32_t width, height;
    size_t pictures;
    uint8_t **rgb; /* width x height, packed */
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

/* Begins with no size, and takes over the data, on failure too. `prefix`: of the teacher's tensors,
 * `linear`: of the attentions other than softmax that it is run with; or NULL. */
int adapt_validation_begin(adapt_validation *out, fovea_device *device, const char *teacher,
                           const char *prefix, const fovea_linear_attention_params *linear,
                           const dataset *data);
void adapt_validation_end(adapt_validation *v);
/* Adds a size, with as many of the pictures as `pictures` says at most; the teacher runs on them
 * with softmax. Pictures that cannot be read are left out; CLI_INPUT when none can. No picture but
 * the first is begun after `until`, in cli_seconds; INFINITY: no limit. */
int adapt_validation_add(adapt_validation *v, uint32_t width, uint32_t height, size_t pictures,
                         double until);

/* Scores of a student, by its own attention or another one, on the first `pictures` of set `size`.
 */
int adapt_validation_score(adapt_score *out, const adapt_validation *v, size_t size,
                           const fovea_model *student, const char *attention, size_t pictures);
/* The same for all pictures of every size; the student is in `folder`. */
int adapt_validation_judge(adapt_score *out, const adapt_validation *v, const char *folder);
/* What a student is ranked by: over the sizes the mean of `mean` and `worst`, as a model that is
 * itself on most pictures and another one on some is of little use. */
double adapt_validation_rank(const adapt_score *score, size_t sizes);

/* A plan of last_hidden_state for the pictures of a set. */
int adapt_validation_plan(fovea_plan **out, const adapt_validation *v, size_t size,
                          const fovea_model *model, const char *attention);
/* Features of patches and all before them, of one picture of a set. Free them. */
int adapt_validation_features(float **out, const adapt_validation *v, size_t size, size_t picture,
                              const fovea_model *model, const char *attention);

#endif
