/* cl_sources.h: the text of the .cl files, and of the mechanisms for them; written by embed.py. */
#ifndef FOVEA_CL_CL_SOURCES_H
#define FOVEA_CL_CL_SOURCES_H

typedef struct fv_cl_source {
    const char *name; /* "prelude" for prelude.cl */
    const char *text;
} fv_cl_source;

/* The text of that name in a list; NULL: there is none. */
const char *fv_cl_source_text(const fv_cl_source *list, const char *name);

extern const fv_cl_source fv_cl_sources[]; /* NULL name at the end */
extern const char fv_cl_names[];           /* FV_FLAG_*, FV_EPI_* as macros */
/* mech.h with the header of each mechanism, in the order of enum fv_mech; [0] is "". */
extern const char *const fv_cl_mechanisms[];

#endif
