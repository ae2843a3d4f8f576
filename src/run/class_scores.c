/* class_scores.c: fovea_class_scores: computes the class scores of a picture. */
#include <math.h>

#include <fovea/results.h>

#include "models/model.h"
#include "run/sigmoid.h"

static void softmax(float *out, const float *logits, size_t n)
{
    float top = -INFINITY;
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        top = fmaxf(top, logits[i]);
    for (size_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - (double)top);
    for (size_t i = 0; i < n; i++)
        out[i] = (float)(exp((double)logits[i] - (double)top) / sum);
}

fovea_status fovea_class_scores(const fovea_model *model, const float *logits, size_t n,
                                float *scores)
{
    FV_TRY(fv_require(model, "the model"));
    FV_TRY(fv_require(logits, "the logits"));
    FV_TRY(fv_require(scores, "the pointer to the scores"));
    if (n != model->info.classes)
        return fv_fail(FOVEA_EINVAL, "the caller gave %zu logits, but the model has %u classes", n,
                       model->info.classes);
    switch (model->info.scores) {
    case FOVEA_SCORES_SOFTMAX:
        softmax(scores, logits, n);
        break;
    case FOVEA_SCORES_SIGMOID:
        for (size_t i = 0; i < n; i++)
            scores[i] = (float)fv_sigmoid((double)logits[i]);
        break;
    case FOVEA_SCORES_VALUES:
        for (size_t i = 0; i < n; i++)
            scores[i] = logits[i];
        break;
    }
    return FOVEA_OK;
}
