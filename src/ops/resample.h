/* resample.h: makes the tables of a separable resize: filters, and rounding as in the libraries
 * that Fovea reproduces. */
#ifndef FOVEA_SRC_RESAMPLE_H
#define FOVEA_SRC_RESAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include <fovea/models.h>

#include "base/status.h"

/* A pass along one axis: output position o is the sum over t < count[o] of in[start[o] + t] times
 * weight t of o. If the result is bytes, weights are integers, and the result is
 *   clip8((sum + (1 << (bits - 1))) >> bits).
 * If it is floats, weights are floats, bytes are multiplied by `scale` and rounded to float32
 * before they are weighted, and the result is the sum. */
typedef struct fv_resize_table {
    uint32_t size;        /* number of output positions */
    uint32_t taps;        /* stored weights per position; unused weights are 0 */
    uint32_t most;        /* maximum of `count` */
    uint32_t first, used; /* input positions [first, first + used) are read */
    uint32_t bits;        /* fractional bits of `whole`; 0: the weights are `real` */
    float scale;
    uint32_t *start, *count;
    union {
        int32_t *whole;
        float *real;
    };
    /* A 16-bit copy of `whole`, for instructions that multiply and add pairs. Position o has
     * `pairs` pairs of weights, the first for input positions start[o] & ~1 and the next. NULL: a
     * weight is too large, or the pass needs no copy. */
    int16_t *narrow;
    uint32_t pairs;
} fv_resize_table;

/* How a picture is resampled along both axes; see fovea_preprocess. */
typedef struct fv_resampling {
    fovea_filter filter;
    fovea_resample resample;
    bool antialias;
    bool fused; /* FLOAT without antialias: coordinates are rounded once, as in PyTorch's kernel
                   for small results */
} fv_resampling;

/* One axis: `in` positions are resized to `whole`, of which [offset, offset + size) are kept.
 * Positions outside [0, whole) and [offset, offset + kept) have no taps. Input positions from
 * `there` on are black. Before the resize, the axis is blurred by a Gaussian of standard deviation
 * `sigma` (0: none), mirrored at the borders. */
typedef struct fv_axis {
    uint32_t in, there, whole, kept, size;
    int64_t offset;
    float sigma;
} fv_axis;

/* Makes the table of an axis. Returns FOVEA_EINVAL if the library cannot resample in this way.
 * Allocates with FV_MEM_PLAN; release with fv_resize_table_free, also after failure. */
fovea_status fv_resize_table_make(fv_resize_table *out, const fv_axis *a, const fv_resampling *how);
void fv_resize_table_free(fv_resize_table *t);
/* Returns the bytes of the table. */
uint64_t fv_resize_table_bytes(const fv_resize_table *t);

/* Sets `most`, `first` and `used`, which is at least 1, from the other fields, and makes positions
 * without taps start at `first`. */
void fv_resize_span(fv_resize_table *t);
/* Makes `narrow` if all weights fit 16 bits. */
fovea_status fv_resize_narrow(fv_resize_table *t);

/* ---- filters, also for position tables ---- */

typedef struct fv_filter {
    double (*value)(double x);
    double support; /* the filter is zero beyond this distance */
} fv_filter;

/* FOVEA_FILTER_NEAREST is not a window: it uses one position. */
extern const fv_filter fv_filters[6];

/* Returns the maximum number of taps of a position. */
uint32_t fv_window_taps(const fv_filter *f, uint32_t in, uint32_t out);
/* Computes the taps of position `o`, sets *start to the position of the first one, and returns
 * their number. If the axis shrinks, the filter is stretched over in / out input positions. The
 * weights sum to 1. */
uint32_t fv_window(double *weight, uint32_t *start, const fv_filter *f, uint32_t in, uint32_t out,
                   uint32_t o);
/* Returns, for a filter that is not stretched and is centred at input coordinate `at`, the weight
 * of tap t of 2 (linear) or 4 (cubic, a = -0.75). taps / 2 - 1 taps precede floor(at). */
double fv_point_weight(uint32_t taps, uint32_t t, double at);

#endif
