/* resample.h: the tables of a separable resize: filters, and the rounding of the libraries that are
 * followed. */
#ifndef FOVEA_SRC_RESAMPLE_H
#define FOVEA_SRC_RESAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include <fovea/models.h>

#include "base/status.h"

/* A pass along one axis: output position o is the sum of in[start[o] + t] times its weight t over
 * t < count[o]. A pass that leaves bytes has whole numbers for weights, and leaves
 *   clip8((sum + (1 << (bits - 1))) >> bits);
 * one that leaves floats has float weights, multiplies bytes by `scale`, rounded to float32, before
 * they are weighted, and leaves the sum. */
typedef struct fv_resize_table {
    uint32_t size;        /* output positions */
    uint32_t taps;        /* stored weights per position, the unused ones are 0 */
    uint32_t most;        /* the largest count */
    uint32_t first, used; /* input positions [first, first + used) are read */
    uint32_t bits;        /* fractional bits of `whole`; 0: weights are `real` */
    float scale;
    uint32_t *start, *count;
    union {
        int32_t *whole;
        float *real;
    };
    /* `whole` again where it fits 16 bits, for instructions that multiply and add pairs: position o
     * has `pairs` of them, of which the first is of input positions start[o] & ~1 and the next.
     * NULL: a weight is too large, or the pass has no use for them. */
    int16_t *narrow;
    uint32_t pairs;
} fv_resize_table;

/* How a picture is resampled along both axes; see fovea_preprocess. */
typedef struct fv_resampling {
    fovea_filter filter;
    fovea_resample resample;
    bool antialias;
    bool fused; /* FLOAT without antialias: coordinates are rounded once, as PyTorch's kernel for
                   small results does */
} fv_resampling;

/* One axis: `in` positions become `whole`, of which [offset, offset + size) are kept; those outside
 * [0, whole) and [offset, offset + kept) have no taps. Input positions from `there` on are black. A
 * Gaussian of standard deviation `sigma` (0: none), which is mirrored at the borders, comes first.
 */
typedef struct fv_axis {
    uint32_t in, there, whole, kept, size;
    int64_t offset;
    float sigma;
} fv_axis;

/* EINVAL for what cannot be resampled so. Allocates with FV_MEM_PLAN; release with
 * fv_resize_table_free, also after failure. */
fovea_status fv_resize_table_make(fv_resize_table *out, const fv_axis *a, const fv_resampling *how);
void fv_resize_table_free(fv_resize_table *t);
/* The bytes that it takes. */
uint64_t fv_resize_table_bytes(const fv_resize_table *t);

/* Sets `most`, `first` and `used`, which is at least 1, from the other fields; positions without
 * taps then start at `first`. */
void fv_resize_span(fv_resize_table *t);
/* Makes `narrow` if the weights fit. */
fovea_status fv_resize_narrow(fv_resize_table *t);

/* ---- filters, also of position tables ---- */

typedef struct fv_filter {
    double (*value)(double x);
    double support; /* it is zero from there on */
} fv_filter;

/* FOVEA_FILTER_NEAREST has no window: it is sampled. */
extern const fv_filter fv_filters[6];

/* Taps of a position at most. */
uint32_t fv_window_taps(const fv_filter *f, uint32_t in, uint32_t out);
/* The filter stretched over `in / out` input positions when the axis shrinks, and normalised: taps
 * of position `o`, of which the first is *start. Returns their number. */
uint32_t fv_window(double *weight, uint32_t *start, const fv_filter *f, uint32_t in, uint32_t out,
                   uint32_t o);
/* Of a filter that is not stretched, around input coordinate `at`: tap t of 2 (linear) or 4 (cubic,
 * a = -0.75), of which taps / 2 - 1 precede floor(at). */
double fv_point_weight(uint32_t taps, uint32_t t, double at);

#endif
