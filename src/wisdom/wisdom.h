/* wisdom.h: what tuning has found, as facts: which kernel a step takes on a device, how a sweep
 * runs, how long a frame takes, what must not be tried again.
 *
 * A store is a sorted list of facts, no two of which say something about the same thing. One is the
 * process's, read from files when it is first asked for; the tuner's own hold what it is trying.
 * Functions lock the store they are given; none is called while a frame runs.
 */
#ifndef FOVEA_SRC_WISDOM_H
#define FOVEA_SRC_WISDOM_H

#include <stdbool.h>

#include "device/backend.h"
#include "ops/products.h"

/* Bytes of a fact's columns at most, the terminating 0 included. */
#define FV_WISDOM_DEVICE 384
#define FV_WISDOM_SUBJECT 256
#define FV_WISDOM_CHOICE 160

enum fv_fact_kind {
    FV_FACT_STEP,     /* a problem: kernel, revision and knobs */
    FV_FACT_SWEEP,    /* the problems of a sweep: schedule and chunk */
    FV_FACT_PLAN,     /* a model, its attention and size: the seconds of a frame */
    FV_FACT_SKIP,     /* a problem or sweep and a choice that took the program down */
    FV_FACT_PRODUCTS, /* a model's weights, attention and size: types that are accurate enough */
    FV_FACT_KINDS
};

typedef struct fv_fact {
    uint8_t kind;  /* enum fv_fact_kind */
    uint8_t rigor; /* fovea_rigor with which it was found */
    bool known;    /* this build has the kernel in that revision, with these knobs */
    bool foreign;  /* of the system or shipped: not to be saved among the user's */
    const char *device, *subject, *choice;
    double seconds; /* of what was chosen; 0: not measured */
    uint64_t date;  /* seconds since 1970 */
} fv_fact;

typedef struct fv_wisdom fv_wisdom;

/* ---- wisdom.c: the store ---- */

fovea_status fv_wisdom_create(fv_wisdom **out);
void fv_wisdom_free(fv_wisdom *w);  /* NULL is fine */
fv_wisdom *fv_wisdom_process(void); /* the process's, empty at first */
/* Copies the fact and its texts, in the place of what was known about the same thing. */
fovea_status fv_wisdom_put(fv_wisdom *w, const fv_fact *fact);
/* The same, but only if it outranks that one: its choice is known here, else it was found with more
 * rigor, else it is newer. */
fovea_status fv_wisdom_offer(fv_wisdom *w, const fv_fact *fact);
/* Offers all facts of `from`; with `fill` only those about things that `to` has no fact of. On
 * failure nothing changes. Facts that are not taken stay in `from`. */
fovea_status fv_wisdom_merge(fv_wisdom *to, fv_wisdom *from, bool fill);
void fv_wisdom_clear(fv_wisdom *w);
size_t fv_wisdom_count(fv_wisdom *w);

/* A copy of a fact's answer. */
typedef struct fv_answer {
    char choice[FV_WISDOM_CHOICE];
    fovea_rigor rigor;
    double seconds;
} fv_answer;
bool fv_wisdom_find(fv_wisdom *w, enum fv_fact_kind kind, const char *device, const char *subject,
                    fv_answer *out);
/* The same from another device of the same family (fv_wisdom_same_family). */
bool fv_wisdom_find_family(fv_wisdom *w, enum fv_fact_kind kind, const char *device,
                           const char *subject, fv_answer *out);
bool fv_wisdom_skips(fv_wisdom *w, const char *device, const char *subject, const char *choice);

/* Calls `visit` with every fact in order, as long as it gives FOVEA_OK, under the lock. */
typedef fovea_status fv_wisdom_visit(void *ctx, const fv_fact *fact);
fovea_status fv_wisdom_each(fv_wisdom *w, fv_wisdom_visit *visit, void *ctx);

/* ---- wisdom_text.c: a store as text ---- */

/* Adds the facts of a whole text to an empty store; those that are not `known` are in it too, and
 * counted in *unknown. EWISDOM names the line. */
fovea_status fv_wisdom_parse(fv_wisdom *w, const char *text, uint64_t size, size_t *unknown);
/* Writes the text, terminated by 0, to `out` unless it is NULL; *size gets its bytes without the 0.
 * `own`: foreign facts are left out. EINVAL when `capacity` is too small. */
fovea_status fv_wisdom_format(fv_wisdom *w, bool own, char *out, size_t capacity, size_t *size);
/* Its text as a file, as fv_os_replace_file writes it; `what` is named where memory lacks. */
fovea_status fv_wisdom_write(const char *path, fv_wisdom *w, bool own, bool only_ours,
                             const char *what);

/* ---- wisdom_files.c: the process's store ---- */

/* The process's store, once the files that there are have been read. */
fv_wisdom *fv_wisdom_global(void);

/* ---- wisdom_key.c: how devices, problems and sweeps are called ---- */

/* "cpu|AMD EPYC 9755|avx512|2|" and the driver: all that times depend on. */
void fv_wisdom_device_key(char out[FV_WISDOM_DEVICE], const char *backend,
                          const fovea_device_info *info, uint32_t threads);
/* Whether two keys have the same backend and features. */
bool fv_wisdom_same_family(const char *a, const char *b);

/* The problem as text. Numbers of tokens are rounded to powers of the square root of 2, then moved
 * by `away` such buckets. What the planner decides, as reduction groups, is left out. */
void fv_wisdom_problem_key(char out[FV_WISDOM_SUBJECT], const fv_problem *p, int away);

/* ---- wisdom_choice.c: what is chosen, as text ---- */

/* "gemm_f32_14x32_avx512 rev=1 kc=384 mc=176" */
void fv_wisdom_kernel_text(char out[FV_WISDOM_CHOICE], const fv_kernel *k, const fv_knobs *knobs);
/* The kernel of `list` that is meant; NULL when there is none of that name, revision and knobs. */
const fv_kernel *fv_wisdom_kernel_read(const char *text, const fv_kernel *list, int count,
                                       fv_knobs *knobs);
/* "streamed chunk=168" */
void fv_wisdom_sweep_text(char out[FV_WISDOM_CHOICE], bool streamed, uint32_t chunk);
bool fv_wisdom_sweep_read(const char *text, bool *streamed, uint32_t *chunk);

/* The precision of a model's products, and its accuracy: cosines with float32. */
typedef struct fv_product_choice {
    fovea_compute compute; /* never FOVEA_COMPUTE_AUTO */
    fv_products bf16;      /* INT8: the products that stay BF16 */
    double cosine, worst;  /* the lowest mean of a frame's rows, the lowest of a row */
    double bound;          /* of `cosine`, that was asked for */
} fv_product_choice;
/* "int8 bf16=0000a1 cosine=0.999570 worst=0.998700 bound=0.999500" */
void fv_wisdom_products_text(char out[FV_WISDOM_CHOICE], const fv_product_choice *c);
bool fv_wisdom_products_read(const char *text, fv_product_choice *out);

/* Whether this build knows what a fact's choice says. */
bool fv_wisdom_known(const fv_fact *f);

#endif
