/* wisdom.h: wisdom, the results of tuning, as facts: which kernel is fastest for a step on a
 * device, how a sweep runs, how long a frame takes, which candidates must not be tried again. A
 * store is a sorted list of facts, with at most one about each thing. The process has a store,
 * which is read from files at its first use; the tuner has other stores for the choices that it
 * tries. Functions lock the store that they are given. None of them is called while a frame runs.
 */
#ifndef FOVEA_SRC_WISDOM_H
#define FOVEA_SRC_WISDOM_H

#include <stdbool.h>

#include "device/backend.h"
#include "ops/products.h"

/* Maximum bytes of a fact's columns, with the terminating 0. */
#define FV_WISDOM_DEVICE 384
#define FV_WISDOM_SUBJECT 256
#define FV_WISDOM_CHOICE 160

enum fv_fact_kind {
    FV_FACT_STEP,     /* for a problem: kernel, revision and knobs */
    FV_FACT_SWEEP,    /* for the problems of a sweep: schedule and chunk */
    FV_FACT_PLAN,     /* for a model, its attention and size: the time of a frame */
    FV_FACT_SKIP,     /* for a problem or sweep: a choice that crashed the program or gave a wrong
                         result */
    FV_FACT_PRODUCTS, /* for a model's weights, attention and size: types of products that are
                         accurate enough */
    FV_FACT_KINDS
};

typedef struct fv_fact {
    uint8_t kind;  /* enum fv_fact_kind */
    uint8_t rigor; /* the fovea_rigor with which the fact was found */
    bool known;    /* this build has the kernel in this revision, with these knobs */
    bool foreign;  /* from the system's or an installed file: not saved in the user's file */
    const char *device, *subject, *choice;
    double seconds; /* time of the choice; 0: not measured */
    uint64_t date;  /* seconds since 1970 */
} fv_fact;

typedef struct fv_wisdom fv_wisdom;

/* ---- wisdom.c: the store ---- */

fovea_status fv_wisdom_create(fv_wisdom **out);
void fv_wisdom_free(fv_wisdom *w);  /* NULL is allowed */
fv_wisdom *fv_wisdom_process(void); /* returns the process's store, empty at first */
/* Adds a copy of the fact and its texts. It replaces the existing fact about the same thing. */
fovea_status fv_wisdom_put(fv_wisdom *w, const fv_fact *fact);
/* Adds a fact like fv_wisdom_put, but replaces an existing fact only if the new one outranks it. It
 * does if only its choice is known to this build. If both or neither are known, the more rigorous
 * fact outranks the other, then the newer one. */
fovea_status fv_wisdom_offer(fv_wisdom *w, const fv_fact *fact);
/* Offers all facts of `from` to `to`; with `fill`, none of them replaces an existing one. On
 * failure, nothing changes. Facts that are not added stay in `from`. */
fovea_status fv_wisdom_merge(fv_wisdom *to, fv_wisdom *from, bool fill);
void fv_wisdom_clear(fv_wisdom *w);
size_t fv_wisdom_count(fv_wisdom *w);

/* A copy of the contents of a fact. */
typedef struct fv_answer {
    char choice[FV_WISDOM_CHOICE];
    fovea_rigor rigor;
    double seconds;
} fv_answer;
bool fv_wisdom_find(fv_wisdom *w, enum fv_fact_kind kind, const char *device, const char *subject,
                    fv_answer *out);
/* Finds a fact that may be about any device of the same family (fv_wisdom_same_family). */
bool fv_wisdom_find_family(fv_wisdom *w, enum fv_fact_kind kind, const char *device,
                           const char *subject, fv_answer *out);
bool fv_wisdom_skips(fv_wisdom *w, const char *device, const char *subject, const char *choice);

/* fv_wisdom_each calls `visit` with every fact in order, as long as it returns FOVEA_OK. The store
 * is locked meanwhile. */
typedef fovea_status fv_wisdom_visit(void *ctx, const fv_fact *fact);
fovea_status fv_wisdom_each(fv_wisdom *w, fv_wisdom_visit *visit, void *ctx);

/* ---- wisdom_text.c: a store as text ---- */

/* Adds the facts of a whole text to an empty store. Facts that are not `known` are added too, and
 * counted in *unknown. The message of FOVEA_EWISDOM names the line. */
fovea_status fv_wisdom_parse(fv_wisdom *w, const char *text, uint64_t size, size_t *unknown);
/* Writes the store as text, terminated by 0, to `out` unless `out` is NULL. Sets *size to the
 * length without the 0. With `own`, foreign facts are left out. Returns FOVEA_EINVAL if `capacity`
 * is too small. */
fovea_status fv_wisdom_format(fv_wisdom *w, bool own, char *out, size_t capacity, size_t *size);
/* Writes the store's text to a file by fv_os_replace_file. `what` names the text in messages about
 * missing memory. */
fovea_status fv_wisdom_write(const char *path, fv_wisdom *w, bool own, bool only_ours,
                             const char *what);

/* ---- wisdom_files.c: the process's store ---- */

/* Returns the process's store. The first call reads the files of wisdom. */
fv_wisdom *fv_wisdom_global(void);

/* ---- wisdom_key.c: names of devices, problems and sweeps ---- */

/* Makes the key of a device: "cpu|avx512|AMD EPYC 9755|2|" and the driver. It contains everything
 * on which measured times depend. */
void fv_wisdom_device_key(char out[FV_WISDOM_DEVICE], const char *backend,
                          const fovea_device_info *info, uint32_t threads);
/* Returns whether two keys have the same backend and features. */
bool fv_wisdom_same_family(const char *a, const char *b);
/* Returns whether two keys are of the same device and driver, whatever their features: only an open
 * device knows which of its features work. */
bool fv_wisdom_same_device(const char *a, const char *b);

/* Makes the key of a problem. Numbers of tokens are rounded to powers of the square root of 2, then
 * moved by `away` such powers. Numbers that the planner chooses, such as the number of reduction
 * groups, are left out. */
void fv_wisdom_problem_key(char out[FV_WISDOM_SUBJECT], const fv_problem *p, int away);

/* ---- wisdom_choice.c: choices as text ---- */

/* Writes, for example, "gemm_f32_14x32_avx512 rev=1 kc=384 mc=176". */
void fv_wisdom_kernel_text(char out[FV_WISDOM_CHOICE], const fv_kernel *k, const fv_knobs *knobs);
/* Returns the kernel of `list` that the text names, or NULL if `list` has no kernel with this name,
 * revision and knobs. */
const fv_kernel *fv_wisdom_kernel_read(const char *text, const fv_kernel *list, int count,
                                       fv_knobs *knobs);
/* Writes, for example, "streamed chunk=168". */
void fv_wisdom_sweep_text(char out[FV_WISDOM_CHOICE], bool streamed, uint32_t chunk);
bool fv_wisdom_sweep_read(const char *text, bool *streamed, uint32_t *chunk);

/* The precision of a model's products, and its accuracy: cosines with float32. */
typedef struct fv_product_choice {
    fovea_compute compute; /* never FOVEA_COMPUTE_AUTO */
    fv_products bf16;      /* INT8: the products that stay BF16 */
    double cosine, worst;  /* minimum over all frames of the mean over rows, and minimum over all
                              rows */
    double bound;          /* the minimum `cosine` that was accepted */
} fv_product_choice;
/* Writes, for example, "int8 bf16=0000a1 cosine=0.999570 worst=0.998700 bound=0.999500". */
void fv_wisdom_products_text(char out[FV_WISDOM_CHOICE], const fv_product_choice *c);
bool fv_wisdom_products_read(const char *text, fv_product_choice *out);

/* Returns whether this build knows the kernel, schedule or types that a fact's choice names. */
bool fv_wisdom_known(const fv_fact *f);

#endif
