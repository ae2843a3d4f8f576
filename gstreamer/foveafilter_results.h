/* foveafilter_results.h: the results of a plan for a frame: the buffers to which its outputs are
 * written, and the structure that applications read. */
#ifndef FOVEAFILTER_RESULTS_H
#define FOVEAFILTER_RESULTS_H

#include <gst/gst.h>

#include <fovea/fovea.h>

/* One output of the plan. Its buffers are reused: one that nobody references any longer is written
 * again. */
typedef struct Result {
    fovea_output_info info;
    /* whether it has class logits of the picture, of which the best are reported by name */
    gboolean labels;
    GstBufferPool *pool;
    GstBuffer *buffer; /* for the current frame, or NULL */
    GstMapInfo map;
} Result;

typedef struct Results {
    const fovea_model *model;
    Result *result;
    fovea_output *out; /* what fovea_run takes */
    float *score;      /* score of each class in the frame that is being reported */
    guint count, top;
} Results;

/* Allocates results for the outputs of `plan`; the `top` best classes are reported. FALSE: out of
 * memory. Close it in any case. */
gboolean foveafilter_results_open(Results *r, const fovea_model *model, const fovea_plan *plan,
                                  guint top);
void foveafilter_results_close(Results *r);

/* Provides buffers for a frame, in r->out; FALSE: out of memory. End it in any case. */
gboolean foveafilter_results_begin(Results *r);
/* The frame is done. */
void foveafilter_results_written(Results *r);
/* Adds to `to`: `labels`, a list of
 *     label, class=(uint), label=(string), score=(double): fovea_class_scores
 * where there are logits; `outputs`, a list of
 *     output, name=(string), rows=(uint), columns=(uint), prefix=(uint), grid-width=(uint),
 *             grid-height=(uint), stride=(uint), values=(GstBuffer)
 * the values being float32, rows of columns, the rest as in fovea_output_info. Every item is a
 * field of its own as well, which languages without lists of GStreamer's can read: outputs by their
 * names (last_hidden_state), labels as label-0, the best, label-1, ... `values` FALSE: without
 * `values`. */
void foveafilter_results_describe(const Results *r, GstStructure *to, gboolean values);
void foveafilter_results_end(Results *r);

/* A pool of buffers of `bytes` bytes, of which one that nobody references any longer is used again;
 * NULL: out of memory. */
GstBufferPool *foveafilter_pool_open(gsize bytes);
void foveafilter_pool_close(GstBufferPool *pool); /* or NULL */

/* Adds structure `s` to `to` under `name`, and moves it to the end of the list. */
void foveafilter_add(GstStructure *to, const char *name, GValue *list, GstStructure *s);

#endif
