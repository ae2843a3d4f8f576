/* adamw.c: the AdamW update. */
#include <math.h>
#include <string.h>

#include "train/trainer.h"

/* Calls fn(master, arg) for every trained tensor. */
struct each {
    fovea_trainer *t;
    void (*fn)(const fovea_trainer *t, fv_master *m, const void *arg);
    const void *arg;
};

static void run_one(void *arg, uint32_t phase, uint32_t unit, uint32_t slot)
{
    const struct each *e = arg;
    fv_master *m = &e->t->masters.master[unit];
    (void)phase, (void)slot;
    if (m->trained)
        e->fn(e->t, m, e->arg);
}

static void for_each(fovea_trainer *t, void (*fn)(const fovea_trainer *, fv_master *, const void *),
                     const void *arg)
{
    struct each e = {t, fn, arg};
    t->device->backend->spread(t->device->device, t->masters.count, run_one, &e);
}

static void clear(const fovea_trainer *t, fv_master *m, const void *arg)
{
    (void)t, (void)arg;
    memset(m->gradient, 0, (size_t)m->tensor->elements * sizeof *m->gradient);
}

void fv_trainer_clear(fovea_trainer *t)
{
    for_each(t, clear, NULL);
}

/* Computes the sum of squares. Several partial sums hide the latency of additions. */
static void measure(const fovea_trainer *t, fv_master *m, const void *arg)
{
    enum { SUMS = 8 };
    const float share = *(const float *)arg;
    const uint64_t n = m->tensor->elements;
    double sum[SUMS] = {0};
    (void)t;
    for (uint64_t i = 0; i < n; i += SUMS)
        for (uint64_t k = 0; k < SUMS && i + k < n; k++) {
            const float g = m->gradient[i + k] *= share;
            sum[k] += (double)g * g;
        }
    m->square = 0;
    for (int k = 0; k < SUMS; k++)
        m->square += sum[k];
}

double fv_trainer_norm(fovea_trainer *t, float share)
{
    double all = 0;
    for_each(t, measure, &share);
    for (uint32_t i = 0; i < t->masters.count; i++)
        if (t->masters.master[i].trained)
            all += t->masters.master[i].square;
    return sqrt(all);
}

struct update {
    float beta1, beta2, eps; /* eps has been multiplied by the root of the second bias correction */
    float rate;              /* includes both bias corrections */
    float keep;              /* 1 - rate * decay */
    float factor;            /* factor of the gradient */
};

static void change(const fv_master *m, const struct update *u)
{
    float *w = m->weight, *first = m->first, *second = m->second;
    const float *gradient = m->gradient;
    for (uint64_t i = 0; i < m->tensor->elements; i++) {
        const float g = u->factor * gradient[i];
        first[i] = u->beta1 * first[i] + (1 - u->beta1) * g;
        second[i] = u->beta2 * second[i] + (1 - u->beta2) * g * g;
        w[i] = u->keep * w[i] - u->rate * first[i] / (sqrtf(second[i]) + u->eps);
    }
}

static void follow(const fv_master *m, float ema)
{
    for (uint64_t i = 0; i < m->tensor->elements; i++)
        m->average[i] = ema * m->average[i] + (1 - ema) * m->weight[i];
}

struct step {
    double rate, factor; /* factor: of the gradient */
};

static void update(const fovea_trainer *t, fv_master *m, const void *arg)
{
    const fovea_trainer_options *o = &t->o;
    const struct step *s = arg;
    const double number = (double)(t->step + 1);
    const double of_first = 1 - pow((double)o->beta1, number);
    const double of_second = sqrt(1 - pow((double)o->beta2, number));
    const bool slow = o->stage == FOVEA_STAGE_TASK && !m->head;
    const double own = slow ? s->rate * (double)o->backbone_ratio : s->rate;
    const struct update u = {
        .beta1 = o->beta1,
        .beta2 = o->beta2,
        .eps = (float)((double)o->eps * of_second),
        .rate = (float)(own * of_second / of_first),
        .keep = (float)(1 - (m->decays ? own * (double)o->weight_decay : 0)),
        .factor = (float)s->factor,
    };
    change(m, &u);
    if (m->average)
        follow(m, o->ema);
}

void fv_trainer_update(fovea_trainer *t, double rate, double factor)
{
    const struct step s = {rate, factor};
    for_each(t, update, &s);
}
