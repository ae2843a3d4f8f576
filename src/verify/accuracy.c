/* accuracy.c: measures the cosines of a plan's output rows with the same rows in float32. */
#include "verify/accuracy.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "platform/os/os_machine.h"

static const fv_value *output(const fovea_plan *p, uint32_t i)
{
    return &p->graph.value[p->graph.wanted[i].value];
}

/* Returns the cosine of two rows: 1 for equal rows, even if they are zeros, and -1, the worst
 * value, for a row with NaN. */
static double cosine(const float *a, const float *b, uint32_t n)
{
    double aa = 0, ab = 0, bb = 0;
    if (memcmp(a, b, n * sizeof *a) == 0)
        return 1;
    for (uint32_t i = 0; i < n; i++) {
        aa += (double)a[i] * a[i];
        ab += (double)a[i] * b[i];
        bb += (double)b[i] * b[i];
    }
    const double c = ab / (sqrt(aa) * sqrt(bb));
    if (aa == 0 || bb == 0)
        return aa == bb;
    return isfinite(c) ? fmax(fmin(c, 1), -1) : -1;
}

static void compare(fovea_accuracy *out, const fovea_plan *p, const float *right,
                    const float *given)
{
    for (uint32_t i = 0; i < p->graph.n_wanted; i++) {
        const fv_value *v = output(p, i);
        double sum = 0;
        for (uint32_t y = 0; y < v->rows; y++) {
            const double c = cosine(right, given, v->cols);
            out->worst = fmin(out->worst, c);
            sum += c;
            right += v->cols;
            given += v->cols;
        }
        out->cosine = fmin(out->cosine, sum / v->rows);
    }
}

/* Runs one frame, and lowers *seconds to its time if it is the fastest so far. */
static fovea_status run(fv_accuracy_frames *f, fovea_plan *p, size_t frame, float *to,
                        double *seconds)
{
    for (uint32_t i = 0; i < p->graph.n_wanted; i++) {
        const fv_value *v = output(p, i);
        const uint64_t floats = (uint64_t)v->rows * v->cols;
        f->outs[i] = (fovea_output){to, floats * sizeof *to};
        to += floats;
    }
    const double begin = fv_machine_seconds();
    FV_TRY(fovea_run(p, &f->frame[frame], f->outs, p->graph.n_wanted));
    const double device = fovea_plan_seconds(p);
    const double took = device > 0 ? device : fv_machine_seconds() - begin;
    *seconds = frame ? fmin(*seconds, took) : took;
    return FOVEA_OK;
}

static fovea_status open_frames(fv_accuracy_frames *f, fovea_plan *plan, fovea_accuracy *out)
{
    for (uint32_t i = 0; i < plan->graph.n_wanted; i++)
        f->floats += (uint64_t)output(plan, i)->rows * output(plan, i)->cols;
    FV_TRY(FV_MEM_ARRAY(&f->right, fv_size_mul(f->floats, f->count), FV_MEM_PLAN,
                        "the outputs of all frames"));
    FV_TRY(FV_MEM_ARRAY(&f->given, f->floats, FV_MEM_PLAN, "the outputs of a frame"));
    FV_TRY(FV_MEM_ARRAY(&f->outs, plan->graph.n_wanted, FV_MEM_PLAN, "the outputs of a frame"));
    *out = (fovea_accuracy){.tried = 1, .cosine = 1, .worst = 1};
    for (size_t i = 0; i < f->count; i++)
        FV_TRY(run(f, plan, i, f->right + i * f->floats, &out->seconds));
    return FOVEA_OK;
}

fovea_status fv_accuracy_open(fv_accuracy_frames *f, fovea_plan *plan, const fovea_frame *frame,
                              size_t count, fovea_accuracy *out)
{
    *f = (fv_accuracy_frames){.frame = frame, .count = count};
    return open_frames(f, plan, out);
}

void fv_accuracy_close(fv_accuracy_frames *f)
{
    fv_mem_free(f->right);
    fv_mem_free(f->given);
    fv_mem_free(f->outs);
    *f = (fv_accuracy_frames){NULL};
}

fovea_status fv_accuracy_run(fv_accuracy_frames *f, fovea_plan *plan, fovea_accuracy *out)
{
    *out = (fovea_accuracy){.tried = 1, .cosine = 1, .worst = 1};
    for (size_t i = 0; i < f->count; i++) {
        FV_TRY(run(f, plan, i, f->given, &out->seconds));
        compare(out, plan, f->right + i * f->floats, f->given);
    }
    return FOVEA_OK;
}
