/* gpu_host.h: what the OpenCL and the CUDA backend have in common. */
#ifndef FOVEA_GPU_GPU_HOST_H
#define FOVEA_GPU_GPU_HOST_H

#include "gpu/gpu_code.h"

/* ---- options ---- */

void fv_gpu_append(fv_gpu_text *t, const char *format, ...) FV_PRINTF(2, 3);
/* Adds the macros of prelude.cl for a step, except FV_HALF, and those of its kernel. */
void fv_gpu_specialise(fv_gpu_text *t, const fv_launch *l, uint32_t group);

/* ---- devices ---- */

/* Index of the device that `which` names: a number below `count`, or a part of a device's name as
 * `name` gives it; -1: no such device. */
int fv_gpu_find(const char *which, int count, void (*name)(int index, char *out, size_t size));
/* The first of the device files `nodes` (a list that ends with NULL) that exists but that this user
 * may not open; NULL: none. */
const char *fv_gpu_forbidden(const char *const *nodes);
enum { FV_GPU_WORDS = sizeof((fovea_device_info *)NULL)->quirks };
/* Adds to a list of the form `a; b`. `words` is such a list or a single item; what does not fit is
 * left out. */
void fv_gpu_add_words(char list[FV_GPU_WORDS], const char *words);
/* Adds to the quirks that the driver cannot write to the folder in which it keeps its own results:
 * it then compiles in every process, and some drivers (PoCL 3.1) build nothing. `variable` of the
 * environment names this folder; otherwise it is `name` in XDG_CACHE_HOME or ~/.cache, or `in_home`
 * in the user's home if that is not NULL. */
void fv_gpu_check_driver_cache(char quirks[FV_GPU_WORDS], const char *variable, const char *name,
                               const char *in_home);
/* How much of `free` bytes plans may use. `shared`: the memory is the host's, else the device's
 * own. */
uint64_t fv_gpu_share(uint64_t free, bool shared);
/* The most partial states of a reduction, for a device with `units` compute units. */
uint32_t fv_gpu_partials(uint32_t units);

/* Approximate peak rates of a device, described in gpu_store.h; 0: unknown. */
typedef struct fv_gpu_rates {
    double flops, bytes;
    double half, dot, local, image, subgroups, wide;
    bool tried; /* measuring was tried */
} fv_gpu_rates;

/* ---- steps ---- */

/* A bound step. It is the first member of each backend's own structure. */
typedef struct fv_gpu_step {
    fv_bound base;
    const fv_gpu_code *code;
    uint32_t operands, group;
    uint32_t piece;  /* most rows in a dispatch; 0: any number */
    uint32_t align;  /* rows in a dispatch are a multiple of this */
    uint32_t units;  /* fv_gpu_piece */
    uint64_t serial; /* unique number of the step */
} fv_gpu_step;

/* Whether the step's scratch is passed to kernels in place of a table. */
static inline bool fv_gpu_step_scratch(const fv_gpu_step *s)
{
    return s->code->before || (s->code->pre_pass[0].entry && s->base.l.scratch_mem);
}

/* Sets all fields except `group`, `piece` and `units`. ENOTSUP if an operand is too large. */
fovea_status fv_gpu_step_begin(fv_gpu_step *s, const fv_launch *l);
/* Work-items per work-group, at most `below`. The preferred number is halved until it fits the
 * device's maximum `most` and its `local` bytes of local memory. 0: no size fits. */
uint32_t fv_gpu_group(const fv_gpu_step *s, uint32_t below, uint32_t most, uint64_t local);
fovea_status fv_gpu_no_group(const fv_gpu_step *s); /* ENOTSUP: no size fits */
/* Estimated seconds of a dispatch of `rows` rows; rather too many than too few. */
double fv_gpu_step_seconds(const fv_gpu_step *s, uint32_t rows, const fv_gpu_rates *rates);
/* How many rows a dispatch may have to take about `seconds`; 0: all rows. */
uint32_t fv_gpu_step_rows(const fv_gpu_step *s, double seconds, const fv_gpu_rates *rates);
/* `rows` rounded down to a multiple of `align`, at least one multiple. */
uint32_t fv_gpu_whole_rows(uint32_t rows, uint32_t align);
/* A call of `rows` rows is cut into dispatches: rows in each except the last. */
uint32_t fv_gpu_step_cut(const fv_gpu_step *s, uint32_t rows);

/* One dispatch of a call, with the arguments of its kernels. */
typedef struct fv_gpu_dispatch {
    uint32_t at[FV_OPERANDS], ld[FV_OPERANDS];
    uint32_t row0, rows, first, groups;
    size_t count[3]; /* work-groups */
    uint32_t passes; /* number of pre-passes, and work-groups of each */
    size_t pre_pass[FV_GPU_PASSES][3];
} fv_gpu_dispatch;
/* Fills in a dispatch of rows [from, from + rows) of a call. `width`: as in fv_call_place. */
void fv_gpu_dispatch_fill(fv_gpu_dispatch *out, const fv_gpu_step *s, uint32_t width,
                          const fv_call *c, uint32_t from, uint32_t rows);

/* ---- frames ---- */

/* Copies rows of `row` bytes. */
void fv_gpu_copy_rows(char *to, uint64_t to_stride, const char *from, uint64_t from_stride,
                      uint64_t row, uint32_t rows);

#endif
