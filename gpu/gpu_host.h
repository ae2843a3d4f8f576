/* gpu_host.h: what the backends of GPUs, OpenCL's and CUDA's, do alike. */
#ifndef FOVEA_GPU_GPU_HOST_H
#define FOVEA_GPU_GPU_HOST_H

#include "gpu/gpu_code.h"

/* ---- options ---- */

void fv_gpu_append(fv_gpu_text *t, const char *format, ...) FV_PRINTF(2, 3);
/* Adds the macros of prelude.cl for a step, FV_HALF left out, and those of its kernel. */
void fv_gpu_specialise(fv_gpu_text *t, const fv_launch *l, uint32_t group);

/* ---- devices ---- */

/* Index of the device that `which` names: a number below `count`, or a part of the text that `name`
 * gives; -1: none. */
int fv_gpu_find(const char *which, int count, void (*name)(int index, char *out, size_t size));
/* A device's file among `nodes`, which end with NULL, that this user may not open; NULL: none. */
const char *fv_gpu_forbidden(const char *const *nodes);
enum { FV_GPU_WORDS = sizeof((fovea_device_info *)NULL)->quirks };
/* Adds to a list of what is said of a device, `a; b`: such a list, or what there is one of. What
 * does not fit is left out. */
void fv_gpu_add_words(char list[FV_GPU_WORDS], const char *words);
/* What plans may take of `free` bytes, which are the host's (`shared`) or the device's own. */
uint64_t fv_gpu_share(uint64_t free, bool shared);
/* Maximum partial states of a reduction, for a device with `units` compute units. */
uint32_t fv_gpu_partials(uint32_t units);

/* Approximate peak rates of a device, as gpu_store.h has them; 0: not known. */
typedef struct fv_gpu_rates {
    double flops, bytes;
    double half, dot, local, image, subgroups;
    bool tried; /* measuring was tried */
} fv_gpu_rates;

/* ---- steps ---- */

/* A bound step: the first member of each backend's own. */
typedef struct fv_gpu_step {
    fv_bound base;
    const fv_gpu_code *code;
    uint32_t operands, group;
    uint32_t piece;  /* rows of a dispatch at most; 0: any */
    uint32_t align;  /* rows of one are a multiple of it */
    uint32_t units;  /* fv_gpu_piece */
    uint64_t serial; /* no two steps have the same */
} fv_gpu_step;

/* Whether kernels of a step get its scratch in place of a table. */
static inline bool fv_gpu_step_scratch(const fv_gpu_step *s)
{
    return s->code->before || (s->code->ahead[0].entry && s->base.l.scratch_mem);
}

/* Fills in all but `group`, `piece` and `units`. ENOTSUP where an operand is too large. */
fovea_status fv_gpu_step_begin(fv_gpu_step *s, const fv_launch *l);
/* Work-items per work-group, at most `below`: halved until it is within the device's maximum `most`
 * and its `local` bytes of local memory; 0: no size is left to try. */
uint32_t fv_gpu_group(const fv_gpu_step *s, uint32_t below, uint32_t most, uint64_t local);
fovea_status fv_gpu_no_group(const fv_gpu_step *s); /* ENOTSUP: no size fits */
/* Estimated seconds of a dispatch of `rows` rows; it errs on the high side. */
double fv_gpu_step_seconds(const fv_gpu_step *s, uint32_t rows, const fv_gpu_rates *rates);
/* Rows of a dispatch that takes about `seconds`; 0: all rows. */
uint32_t fv_gpu_step_rows(const fv_gpu_step *s, double seconds, const fv_gpu_rates *rates);
/* `rows` rounded down to a multiple of `align`, at least one multiple. */
uint32_t fv_gpu_whole_rows(uint32_t rows, uint32_t align);
/* Rows of each dispatch but the last, which a call of `rows` is cut into. */
uint32_t fv_gpu_step_cut(const fv_gpu_step *s, uint32_t rows);

/* One dispatch of a call, as the kernels' arguments have it. */
typedef struct fv_gpu_dispatch {
    uint32_t at[FV_OPERANDS], ld[FV_OPERANDS];
    uint32_t row0, rows, first, groups;
    size_t count[3]; /* work-groups */
    uint32_t passes; /* number of pre-passes, and the work-groups of each */
    size_t ahead[FV_GPU_PASSES][3];
} fv_gpu_dispatch;
/* The rows [from, from + rows) of a call; `width`: as fv_call_place has it. */
void fv_gpu_dispatch_fill(fv_gpu_dispatch *out, const fv_gpu_step *s, uint32_t width,
                          const fv_call *c, uint32_t from, uint32_t rows);

/* ---- frames ---- */

/* Copies rows of `row` bytes. */
void fv_gpu_copy_rows(char *to, uint64_t to_stride, const char *from, uint64_t from_stride,
                      uint64_t row, uint32_t rows);

#endif
