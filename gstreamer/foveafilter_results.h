/* foveafilter_results.h: what a plan gives for a frame: buffers that its outputs are written to,
 * and the structure in which an application finds them. */
#ifndef FOVEAFILTER_RESULTS_H
#define FOVEAFILTER_RESULTS_H

#include <gst/gst.h>

#include <fovea/fovea.h>

/* One output of the plan. Its buffers go round: one that nobody holds any more is written again. */
typedef struct Result {
    fovea_output_info info;
    gboolean labels; /* of the picture's classes, of which the best are reported by name */
    GstBufferPool *pool;
    GstBuffer *buffer; /* of the frame that is being run, or NULL */
    GstMapInfo map;
} Result;

typedef struct Results {
    const fovea_model *model;
    Result *result;
    fovea_output *out; /* what fovea_run takes */
    float *score;      /* of each class, of the frame that is reported */
    guint count, top;
} Results;

/* For the outputs of `plan`; of logits the `top` best are reported. FALSE: out of memory. Close it
 * in any case. */
gboolean foveafilter_results_open(Results *r, const fovea_model *model, const fovea_plan *plan,
                                  guint top);
void foveafilter_results_close(Results *r);

/* Buffers for a frame, in r->out; FALSE: out of memory. End it in any case. */
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

/* Adds structure `s` to `to` under `name`, and moves it into the list. */
void foveafilter_add(GstStructure *to, const char *name, GValue *list, GstStructure *s);

#endif
