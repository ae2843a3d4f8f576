/* gpu_sources.h: the texts of the .cl files, and of the mechanisms for them; embed.py generates
 * them. */
#ifndef FOVEA_GPU_GPU_SOURCES_H
#define FOVEA_GPU_GPU_SOURCES_H

typedef struct fv_gpu_source {
    const char *name; /* "prelude" for prelude.cl */
    const char *text;
} fv_gpu_source;

/* The text with this name in a list; NULL: there is none. */
const char *fv_gpu_source_text(const fv_gpu_source *list, const char *name);

extern const fv_gpu_source fv_gpu_sources[]; /* NULL name at the end */
extern const char fv_gpu_names[];            /* FV_FLAG_*, FV_EPI_* as macros */
/* The text of mech.h with the header of each mechanism, in the order of enum fv_mech; [0] is "". */
extern const char *const fv_gpu_mechanisms[];

#endif
