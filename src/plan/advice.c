/* advice.c: looks up the facts that wisdom contains about the steps and sweeps of a plan. */
#include "plan/advice.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "checkpoint/source.h"
#include "models/model.h"
#include "plan/plan.h"

/* Size buckets to look up, each half an octave of tokens wide; 0 is the bucket of the problem
 * itself. */
static const int buckets[] = {0, -1, 1};
#define BUCKETS ((int)(sizeof buckets / sizeof *buckets))

void fv_advice_begin(fv_advice *a, fv_wisdom *wisdom, const fovea_device *device, uint32_t threads)
{
    a->wisdom = wisdom;
    fv_wisdom_device_key(a->device, device->backend->name, &device->info, threads);
}

static bool silent(const fv_advice *a)
{
    return !a->wisdom || fv_wisdom_count(a->wisdom) == 0;
}

static const char *source(int attempt)
{
    return attempt == 0 ? "wisdom" : "prior";
}

/* ---- steps ---- */

bool fv_advice_skips(const fv_advice *a, const fv_kernel *k, const fv_knobs *knobs,
                     const fv_problem *p)
{
    char subject[FV_WISDOM_SUBJECT], choice[FV_WISDOM_CHOICE];
    if (silent(a))
        return false;
    fv_wisdom_problem_key(subject, p, 0);
    fv_wisdom_kernel_text(choice, k, knobs);
    return fv_wisdom_skips(a->wisdom, a->device, subject, choice);
}

/* Does look-up number `i`: first the buckets of this device, then those of its device family.
 * Returns whether wisdom has a fact. */
static bool ask(const fv_advice *a, const char *subject, int i, fv_answer *out)
{
    if (i < BUCKETS)
        return fv_wisdom_find(a->wisdom, FV_FACT_STEP, a->device, subject, out);
    return fv_wisdom_find_family(a->wisdom, FV_FACT_STEP, a->device, subject, out);
}

const fv_kernel *fv_advice_step(const fv_advice *a, const fv_kernel *list, int count,
                                uint32_t features, const fv_problem *p, fv_knobs *knobs,
                                const char **from)
{
    if (silent(a))
        return NULL;
    for (int i = 0; i <= BUCKETS; i++) {
        char subject[FV_WISDOM_SUBJECT];
        fv_answer answer;
        fv_wisdom_problem_key(subject, p, buckets[i % BUCKETS]);
        if (!ask(a, subject, i, &answer))
            continue;
        const fv_kernel *k = fv_wisdom_kernel_read(answer.choice, list, count, knobs);
        if (!k || !fv_kernel_fits(k, p, features) || fv_advice_skips(a, k, knobs, p))
            continue;
        *from = source(i);
        return k;
    }
    return NULL;
}

/* ---- sweeps ---- */

/* Hashes a text. The key of a sweep contains a hash of its steps' problems, because their list is
 * too long for a key. */
static uint64_t hash(uint64_t h, const char *text)
{
    return fv_hash(h, text, strlen(text) + 1);
}

void fv_advice_sweep_key(char out[FV_WISDOM_SUBJECT], const fv_graph *g,
                         const struct fv_plan_sweep *w, int away)
{
    char key[FV_WISDOM_SUBJECT], from[FV_WISDOM_SUBJECT] = "";
    uint64_t h = FV_HASH_BEGIN;
    uint32_t steps = 0;
    for (uint32_t k = w->first; k < w->first + w->count; k++) {
        if (g->step[k].dead)
            continue;
        fv_wisdom_problem_key(key, &g->step[k].prob, away);
        if (!steps++)
            snprintf(from, sizeof from, "%s", key);
        h = hash(h, key);
    }
    snprintf(out, FV_WISDOM_SUBJECT, "%u steps from %.160s %016" PRIx64, steps, from, h);
}

const char *fv_advice_sweep(const fv_advice *a, const fv_graph *g, const struct fv_plan_sweep *w,
                            bool *streamed, uint32_t *chunk)
{
    if (silent(a))
        return NULL;
    for (int i = 0; i < BUCKETS; i++) {
        char subject[FV_WISDOM_SUBJECT];
        fv_answer answer;
        fv_advice_sweep_key(subject, g, w, buckets[i]);
        if (fv_wisdom_find(a->wisdom, FV_FACT_SWEEP, a->device, subject, &answer) &&
            !fv_wisdom_skips(a->wisdom, a->device, subject, answer.choice) &&
            fv_wisdom_sweep_read(answer.choice, streamed, chunk))
            return source(i);
    }
    return NULL;
}

/* ---- plans ---- */

/* The beginning of a plan's key: its model and patch size. */
#define SHAPE "%s width %u depth %u heads %u patch %u"

/* Writes the attention that all blocks have. */
static void name_attention(char first[64], const fv_emit_options *o)
{
    char name[64];
    uint64_t h = FV_HASH_BEGIN;
    bool mixed = false;
    fv_attention_text(&o->attention[0], first);
    for (uint32_t i = 0; i < o->blocks; i++) {
        mixed |= strcmp(fv_attention_text(&o->attention[i], name), first) != 0;
        h = hash(h, name);
    }
    if (mixed)
        snprintf(first, 64, "mixed-%016" PRIx64, h);
}

size_t fv_advice_plan_key(char out[FV_WISDOM_SUBJECT], const fovea_model *model,
                          const fv_emit_options *o)
{
    static const char *const products[] = {
        [FOVEA_COMPUTE_BF16] = ", bf16 products", [FOVEA_COMPUTE_INT8] = ", int8 products"};
    const fovea_model_info *m = &model->info;
    const enum fv_type weights = o->int8_weights ? FV_I8 : o->weight_type;
    char attention[64];
    name_attention(attention, o);
    const size_t like =
        (size_t)snprintf(out, FV_WISDOM_SUBJECT, SHAPE ", %ux%u, %s, ", m->type, m->width, m->depth,
                         m->heads, m->patch, o->width, o->height, attention);
    const size_t n =
        like + (size_t)snprintf(out + like, FV_WISDOM_SUBJECT - like, "%s%s", fv_type_name(weights),
                                o->compute ? products[o->compute] : "");
    if (o->compute == FOVEA_COMPUTE_INT8 && fv_products_count(&o->bf16))
        snprintf(out + n, FV_WISDOM_SUBJECT - n, " but %016" PRIx64,
                 fv_hash(FV_HASH_BEGIN, &o->bf16, sizeof o->bf16));
    return like;
}

/* ---- products ---- */

void fv_advice_products_key(char out[FV_WISDOM_SUBJECT], const fovea_model *model,
                            const fv_emit_options *o)
{
    const fovea_model_info *m = &model->info;
    char attention[64];
    name_attention(attention, o);
    snprintf(out, FV_WISDOM_SUBJECT, SHAPE ", %s, weights %016" PRIx64 ", %ux%u", m->type, m->width,
             m->depth, m->heads, m->patch, attention, fv_source_fingerprint(model->source),
             o->width, o->height);
}

/* The state of a search for the fact whose frame size is nearest to that of `subject`. */
struct nearest {
    const char *device, *subject;
    size_t like; /* number of characters of the subject before the size */
    double pixels, away;
    fv_product_choice *out;
    bool found;
};

/* Returns the number of pixels of the frame size "WxH" at the end of a subject. */
static double pixels(const char *size)
{
    char *end;
    const double width = (double)strtoul(size, &end, 10);
    return *end == 'x' ? width * (double)strtoul(end + 1, NULL, 10) : 0;
}

static fovea_status look_for_nearer(void *ctx, const fv_fact *f)
{
    struct nearest *s = ctx;
    fv_product_choice choice;
    if (f->kind != FV_FACT_PRODUCTS || !f->known || strcmp(f->device, s->device) != 0 ||
        strncmp(f->subject, s->subject, s->like) != 0)
        return FOVEA_OK;
    const double of = pixels(f->subject + s->like);
    const double away = of > 0 ? fabs(log(of / s->pixels)) : INFINITY;
    if (away < s->away && fv_wisdom_products_read(f->choice, &choice)) {
        s->away = away;
        s->found = true;
        *s->out = choice;
    }
    return FOVEA_OK;
}

static fovea_status look_for_any(void *found, const fv_fact *f)
{
    *(bool *)found |= f->kind == FV_FACT_PRODUCTS;
    return FOVEA_OK;
}

/* Also uses a choice that was tuned at another size: the error of the products hardly depends on
 * the size, although their speed does. */
const char *fv_advice_products(const fv_advice *a, const fovea_model *model,
                               const fv_emit_options *o, fv_product_choice *out)
{
    char subject[FV_WISDOM_SUBJECT];
    fv_answer answer;
    bool any = false;
    if (a->wisdom)
        fv_wisdom_each(a->wisdom, look_for_any, &any);
    if (!any) /* returns here so that the weights are not read to compute their fingerprint */
        return NULL;
    fv_advice_products_key(subject, model, o);
    if (fv_wisdom_find(a->wisdom, FV_FACT_PRODUCTS, a->device, subject, &answer) &&
        fv_wisdom_products_read(answer.choice, out))
        return source(0);
    struct nearest s = {.device = a->device,
                        .subject = subject,
                        .like = (size_t)(strrchr(subject, ' ') + 1 - subject),
                        .pixels = (double)o->width * o->height,
                        .away = INFINITY,
                        .out = out};
    fv_wisdom_each(a->wisdom, look_for_nearer, &s);
    return s.found ? source(1) : NULL;
}
