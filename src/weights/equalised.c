/* equalised.c: estimates, from weights, the sizes of channels and of the columns that read them,
 * and computes the exponents that make the sizes of channels similar. */
#include "weights/equalised.h"

#include <string.h>

#include "ops/equalise.h"
#include "platform/os/os.h"
#include "weights/packed_cache.h"

/* Rows of a weight that are read at a time: transposed weights are read in square tiles. */
#define SLAB 64

struct fv_equalised {
    struct fv_equalised *next;
    fv_equal_sources sources;
    int8_t *exponent;
};

struct fv_equal_scales {
    struct fv_equal_scales *next;
    uint32_t n;
    float *factor;
};

static double square(double x)
{
    return x * x;
}

/* ---- reading ---- */

/* Reads a weight's rows, SLAB of them at a time. */
typedef struct slabs {
    const fv_weight *w;
    float *rows;
    uint32_t first, n; /* `rows` holds the weight's rows [first, first + n) */
} slabs;

static fovea_status slabs_open(slabs *s, const fv_weight *w)
{
    *s = (slabs){.w = w};
    return fv_mem_array(&s->rows, (uint64_t)SLAB * w->cols, sizeof(float), FV_MEM_PLAN,
                        "rows of a weight");
}

static const float *row_of(slabs *s, uint32_t row)
{
    if (row < s->first || row >= s->first + s->n) {
        s->first = row;
        s->n = s->w->rows - row < SLAB ? s->w->rows - row : SLAB;
        fv_weight_read(s->w, row, s->n, s->rows);
    }
    return s->rows + (size_t)(row - s->first) * s->w->cols;
}

/* Reads a vector; an absent vector gives zeros. */
static fovea_status vector(float **out, const fv_weight *w, uint32_t n)
{
    FV_TRY(FV_MEM_ARRAY(out, n, FV_MEM_PLAN, "a weight's numbers"));
    if (fv_weight_present(w))
        fv_weight_read(w, 0, 1, *out);
    return FOVEA_OK;
}

/* ---- sizes ---- */

/* Adds the mean squares of a norm's output channels. Before its weight and bias are applied, the
 * channels have variance 1. */
static fovea_status add_norm(double *size, uint32_t period, uint32_t channels, const fv_weight *w,
                             const fv_weight *b)
{
    float *weight = NULL, *bias = NULL;
    fovea_status status = vector(&weight, w, w->cols);
    FV_THEN(status, vector(&bias, b, w->cols));
    for (uint32_t c = 0; status == FOVEA_OK && c < channels; c++)
        size[c % period] += square((double)weight[c % w->cols]) + square((double)bias[c % w->cols]);
    fv_mem_free(weight);
    fv_mem_free(bias);
    return status;
}

static double length(const float *row, const double *in, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += square((double)row[i]) * in[i];
    return sum;
}

/* Computes the mean squares of a product's input channels from the norm that writes them; they are
 * 1 if no norm is known. */
static fovea_status sizes_of_input(double **out, const fv_equal_source *s)
{
    const uint32_t n = s->w.cols;
    FV_TRY(FV_MEM_ARRAY(out, n, FV_MEM_PLAN, "the sizes of channels"));
    if (fv_weight_present(&s->in_w))
        return add_norm(*out, n, n, &s->in_w, &s->in_b);
    for (uint32_t i = 0; i < n; i++)
        (*out)[i] = 1;
    return FOVEA_OK;
}

static void add_rows(double *size, const fv_equal_sources *all, const fv_equal_source *s,
                     slabs *weight, slabs *gates, const double *in, const float *bias,
                     const float *scale)
{
    for (uint32_t c = 0; c < all->channels; c++) {
        const uint32_t row = s->row + c;
        double made = length(row_of(weight, row), in, s->w.cols) + square((double)bias[row]);
        if (s->gates) {
            const uint32_t gate = s->gates - 1 + c;
            made *= length(row_of(gates, gate), in, s->w.cols) + square((double)bias[gate]);
        }
        if (fv_weight_present(&s->scale))
            made *= square((double)scale[c + (s->gates ? s->gates - 1 : s->row)]);
        size[c % all->period] += made;
    }
}

static fovea_status add_maker(double *size, const fv_equal_sources *all, const fv_equal_source *s)
{
    slabs weight = {.rows = NULL}, gates = {.rows = NULL};
    double *in = NULL;
    float *bias = NULL, *scale = NULL;
    fovea_status status = sizes_of_input(&in, s);
    FV_THEN(status, slabs_open(&weight, &s->w));
    FV_THEN(status, slabs_open(&gates, &s->w));
    FV_THEN(status, vector(&bias, &s->b, s->w.rows));
    FV_THEN(status, vector(&scale, &s->scale, s->w.rows));
    if (status == FOVEA_OK)
        add_rows(size, all, s, &weight, &gates, in, bias, scale);
    fv_mem_free(weight.rows);
    fv_mem_free(gates.rows);
    fv_mem_free(in);
    fv_mem_free(bias);
    fv_mem_free(scale);
    return status;
}

static fovea_status add_reader(double *columns, const fv_equal_sources *all,
                               const fv_equal_source *s)
{
    slabs weight;
    FV_TRY(slabs_open(&weight, &s->w));
    for (uint32_t r = 0; r < s->w.rows; r++) {
        const float *row = row_of(&weight, r);
        for (uint32_t c = 0; c < all->channels; c++)
            columns[c % all->period] += square((double)row[c]);
    }
    fv_mem_free(weight.rows);
    return FOVEA_OK;
}

static fovea_status add(double *size, double *columns, const fv_equal_sources *all,
                        const fv_equal_source *s)
{
    if (s->role == FV_EQUAL_NORM)
        return add_norm(size, all->period, all->channels, &s->w, &s->b);
    const fovea_status status =
        s->role == FV_EQUAL_MAKER ? add_maker(size, all, s) : add_reader(columns, all, s);
    fv_packed_release_sources(&s->w);
    return status;
}

static fovea_status choose(int8_t *exponent, const fv_equal_sources *s)
{
    double *size = NULL, *columns = NULL;
    fovea_status status = FV_MEM_ARRAY(&size, s->period, FV_MEM_PLAN, "the sizes of channels");
    FV_THEN(status, FV_MEM_ARRAY(&columns, s->period, FV_MEM_PLAN, "the sizes of channels"));
    for (uint32_t i = 0; i < s->n; i++)
        FV_THEN(status, add(size, columns, s, &s->of[i]));
    FV_THEN(status, fv_equalise(exponent, size, columns, s->period));
    fv_mem_free(size);
    fv_mem_free(columns);
    return status;
}

/* Reads the exponents from a cached file, or else computes them and writes the file for later
 * plans. */
static fovea_status look_up(int8_t *exponent, fv_packed_cache *cache, const fv_equal_sources *s)
{
    fv_packed_key key;
    fv_packed file = {.size = s->period};
    const bool kept = fv_packed_key_equalised(&key, cache, s);
    if (kept && fv_packed_cache_find(cache, &key, &file)) {
        memcpy(exponent, file.data, s->period);
        fv_os_unmap(file.map);
        return FOVEA_OK;
    }
    FV_TRY(choose(exponent, s));
    file.data = exponent;
    if (kept)
        fv_packed_cache_store(cache, &key, &file);
    return FOVEA_OK;
}

/* ---- data that the model keeps ---- */

static bool same(const fv_equal_sources *a, const fv_equal_sources *b)
{
    bool equal = a->channels == b->channels && a->period == b->period && a->n == b->n;
    for (uint32_t i = 0; equal && i < a->n; i++) {
        const fv_equal_source *x = &a->of[i], *y = &b->of[i];
        equal = x->role == y->role && x->row == y->row && x->gates == y->gates &&
                fv_weight_same(&x->w, &y->w) && fv_weight_same(&x->b, &y->b) &&
                fv_weight_same(&x->scale, &y->scale) && fv_weight_same(&x->in_w, &y->in_w) &&
                fv_weight_same(&x->in_b, &y->in_b);
    }
    return equal;
}

static void free_one(struct fv_equalised *e)
{
    fv_mem_free(e->sources.of);
    fv_mem_free(e->exponent);
    fv_mem_free(e);
}

static fovea_status make(struct fv_equalised **out, fv_packed_cache *cache,
                         const fv_equal_sources *s)
{
    struct fv_equalised *e;
    FV_TRY(FV_MEM_NEW(&e, FV_MEM_MODEL, "channel scales"));
    e->sources = (fv_equal_sources){.channels = s->channels, .period = s->period, .n = s->n};
    fovea_status status =
        fv_mem_array(&e->sources.of, s->n, sizeof *s->of, FV_MEM_MODEL, "channel scales");
    FV_THEN(status, FV_MEM_ARRAY(&e->exponent, s->period, FV_MEM_MODEL, "channel scales"));
    if (status == FOVEA_OK)
        memcpy(e->sources.of, s->of, s->n * sizeof *s->of);
    FV_THEN(status, look_up(e->exponent, cache, s));
    FV_RETURN_MADE(out, e, free_one, status);
}

fovea_status fv_equalised_find(int8_t *exponent, fv_shared_weights *shared,
                               const fv_equal_sources *s, bool own)
{
    fovea_status status = FOVEA_OK;
    if (!own)
        return choose(exponent, s);
    pthread_mutex_lock(&shared->lock);
    struct fv_equalised *e = shared->equalised;
    while (e && !same(&e->sources, s))
        e = e->next;
    if (!e) {
        status = make(&e, shared->cache, s);
        if (status == FOVEA_OK) {
            e->next = shared->equalised;
            shared->equalised = e;
        }
    }
    if (status == FOVEA_OK)
        memcpy(exponent, e->exponent, s->period);
    pthread_mutex_unlock(&shared->lock);
    return status;
}

static fovea_status keep(struct fv_equal_scales **out, const float *factor, uint32_t n)
{
    struct fv_equal_scales *f;
    FV_TRY(FV_MEM_NEW(&f, FV_MEM_MODEL, "channel scales"));
    f->n = n;
    const fovea_status status = FV_MEM_ARRAY(&f->factor, n, FV_MEM_MODEL, "channel scales");
    if (status == FOVEA_OK)
        memcpy(f->factor, factor, n * sizeof *factor);
    FV_RETURN_MADE(out, f, fv_mem_free, status);
}

fovea_status fv_equalised_scales(const float **out, fv_shared_weights *shared, const float *factor,
                                 uint32_t n)
{
    fovea_status status = FOVEA_OK;
    pthread_mutex_lock(&shared->lock);
    struct fv_equal_scales *f = shared->equal_scales;
    while (f && !(f->n == n && memcmp(f->factor, factor, n * sizeof *factor) == 0))
        f = f->next;
    if (!f) {
        status = keep(&f, factor, n);
        if (status == FOVEA_OK) {
            f->next = shared->equal_scales;
            shared->equal_scales = f;
        }
    }
    pthread_mutex_unlock(&shared->lock);
    if (status == FOVEA_OK)
        *out = f->factor;
    return status;
}

void fv_equalised_free(fv_shared_weights *shared)
{
    while (shared->equalised) {
        struct fv_equalised *e = shared->equalised;
        shared->equalised = e->next;
        free_one(e);
    }
    while (shared->equal_scales) {
        struct fv_equal_scales *f = shared->equal_scales;
        shared->equal_scales = f->next;
        fv_mem_free(f->factor);
        fv_mem_free(f);
    }
}
