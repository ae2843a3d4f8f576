/* segmentation.c: reads a linear segmentation head and emits its step. */
#include "models/segmentation.h"

#include <math.h>

#include "base/mem.h"
#include "models/layer.h"
#include "models/tensor_reader.h"

#define CLASSES 65536
#define BATCH_NORM_EPS 1e-5 /* torch's default, which every head of mmsegmentation uses */

static const char output[] = "segmentation";

/* Names of a head's tensors. */
struct form {
    const char *all;      /* prefix of all names */
    const char *linear;   /* stem of weight and bias */
    const char *norms[2]; /* possible stems of a batch normalisation of the head's input */
};

static const struct form forms[] = {
    {"segmentation_head.", "segmentation_head.", {NULL, NULL}},
    {"decode_head.", "decode_head.conv_seg.", {"decode_head.bn.", "decode_head.norm."}},
};
#define FORMS (sizeof forms / sizeof *forms)

static const struct form *find_form(fv_tensor_reader *t)
{
    for (size_t i = 0; i < FORMS; i++)
        if (fv_reader_unwrap(t, "", forms[i].linear, "weight"))
            return &forms[i];
    return NULL;
}

/* ---- batch normalisation ---- */

struct batch_norm {
    fv_layer affine;
    const fv_tensor *mean, *var;
};

static fovea_status read_norm(struct batch_norm *out, fv_tensor_reader *t, const char *stem,
                              uint32_t c)
{
    FV_TRY(fv_reader_norm(&out->affine, t, "", stem, c));
    FV_TRY(fv_reader_buffer(&out->mean, t, "", stem, "running_mean", c));
    return fv_reader_buffer(&out->var, t, "", stem, "running_var", c);
}

/* Computes factor and shift of every channel such that the normalisation of x is factor x +
 * shift. */
static fovea_status affine(float *factor, float *shift, const struct batch_norm *n,
                           const fv_tensor_reader *t)
{
    const uint32_t c = n->affine.w.cols;
    float *mean;
    FV_TRY(FV_MEM_ARRAY(&mean, c, FV_MEM_MODEL, "batch normalisation"));
    fv_tensor_read(n->var, 0, c, shift);
    fv_weight_read(&n->affine.w, 0, 1, factor);
    fv_tensor_read(n->mean, 0, c, mean);
    fovea_status status = FOVEA_OK;
    for (uint32_t i = 0; i < c && status == FOVEA_OK; i++) {
        if (!(shift[i] >= 0 && isfinite(shift[i])))
            status =
                fv_fail(FOVEA_EFORMAT,
                        "%s: tensor \"%s\" holds %g, which is not a variance; fetch the file again",
                        t->source->name, n->var->name, (double)shift[i]);
        factor[i] = (float)(factor[i] / sqrt(shift[i] + BATCH_NORM_EPS));
    }
    fv_weight_read(&n->affine.b, 0, 1, shift);
    for (uint32_t i = 0; i < c; i++)
        shift[i] -= mean[i] * factor[i];
    fv_mem_free(mean);
    return status;
}

/* Makes W (factor x + shift) + b one linear layer. The model owns its numbers. */
static fovea_status fold(fv_segmentation *s, fv_tensor_reader *t, const char *stem)
{
    const uint32_t classes = s->head.w.rows, c = s->head.w.cols;
    const fv_tensor *w, *b;
    float *row, *bias, *scratch;
    struct batch_norm norm;
    FV_TRY(read_norm(&norm, t, stem, c));
    FV_TRY(fv_model_floats(&row, &w, t->m, classes, c));
    FV_TRY(fv_model_floats(&bias, &b, t->m, 1, classes));
    FV_TRY(FV_MEM_ARRAY(&scratch, 2ull * c, FV_MEM_MODEL, "batch normalisation"));
    float *factor = scratch, *shift = scratch + c;
    const fovea_status status = affine(factor, shift, &norm, t);
    if (fv_weight_present(&s->head.b))
        fv_weight_read(&s->head.b, 0, 1, bias);
    for (uint32_t k = 0; k < classes && status == FOVEA_OK; k++, row += c) {
        double sum = bias[k];
        fv_weight_read(&s->head.w, k, 1, row);
        for (uint32_t i = 0; i < c; i++) {
            sum += (double)row[i] * shift[i];
            row[i] *= factor[i];
        }
        bias[k] = (float)sum;
    }
    fv_mem_free(scratch);
    s->head.w = fv_weight_of(w, classes, c);
    s->head.b = fv_weight_of(b, 1, classes);
    return status;
}

/* ---- the head ---- */

static fovea_status choose_stage(uint32_t *stage, const fv_tensor_reader *t,
                                 const fv_tensor *weight, const uint32_t *widths, uint32_t n)
{
    const uint32_t c = fv_tensor_dimension(weight, 1);
    for (uint32_t i = n; i-- > 0;)
        if (widths[i] == c) {
            *stage = i;
            return FOVEA_OK;
        }
    return fv_fail(FOVEA_ENOTSUP,
                   "%s: tensor \"%s\" is a head for %u channels, but the last stage of this %s has "
                   "%u; only heads that read one stage are supported",
                   t->source->name, weight->name, c, t->m->info.type, widths[n - 1]);
}

static fovea_status read_head(fv_tensor_reader *t, const struct form *f, const uint32_t *widths,
                              uint32_t n)
{
    fv_segmentation *s = &t->m->segmentation;
    const fv_tensor *weight = fv_reader_find(t, "", f->linear, "weight");
    const uint32_t classes = fv_tensor_dimension(weight, 0);
    FV_TRY(choose_stage(&s->stage, t, weight, widths, n));
    if (classes == 0 || classes > CLASSES)
        return fv_fail(FOVEA_EFORMAT,
                       "%s: tensor \"%s\" has %u classes; from 1 to %u are supported",
                       t->source->name, weight->name, classes, CLASSES);
    FV_TRY(fv_reader_matrix(&s->head.w, t, "", f->linear, "weight", classes, widths[s->stage]));
    if (fv_reader_find(t, "", f->linear, "bias"))
        FV_TRY(fv_reader_matrix(&s->head.b, t, "", f->linear, "bias", 1, classes));
    for (int i = 0; i < 2; i++)
        if (fv_reader_find(t, "", f->norms[i], "weight")) {
            FV_TRY(fold(s, t, f->norms[i]));
            break;
        }
    t->m->info.segments = classes;
    return fv_reader_all_used(t, f->all); /* unread layers show that this is another head */
}

/* Adds a head, unless a trainable one with the same number of classes exists: linear, without a
 * folded normalisation. */
static fovea_status put_head(fv_tensor_reader *t, const struct form **f, uint32_t c)
{
    const uint32_t classes = t->m->additions->segments;
    if (*f == &forms[0] &&
        fv_tensor_dimension(fv_reader_find(t, "", forms[0].linear, "weight"), 0) == classes)
        return FOVEA_OK;
    *f = &forms[0];
    return fv_reader_put_head(t, forms[0].linear, classes, c);
}

fovea_status fv_segmentation_read(fovea_model *m, const fv_source *source, const char *config,
                                  const uint32_t *widths, uint32_t n)
{
    fv_tensor_reader t = {.m = m,
                          .source = m->segmentation_source ? m->segmentation_source : source,
                          .config = config};
    fv_reader_begin(&t);
    const struct form *f = find_form(&t);
    if (m->additions && m->additions->segments)
        FV_TRY(put_head(&t, &f, widths[n - 1]));
    if (f)
        FV_TRY(read_head(&t, f, widths, n));
    else if (m->segmentation_source)
        return fv_fail(
            FOVEA_EFORMAT,
            "%s contains neither \"segmentation_head.weight\" nor \"decode_head.conv_seg.weight\"",
            t.source->name);
    fv_tensor_reader rest = {.m = m, .source = source};
    fv_reader_begin(&rest);
    fv_reader_leave(&rest, "", "_head"); /* heads of other kinds, used in training */
    return FOVEA_OK;
}

bool fv_segmentation_wants(const fovea_model *m, const fv_builder *b, uint32_t stage)
{
    return fv_weight_present(&m->segmentation.head.w) && m->segmentation.stage == stage &&
           fv_emit_wants(b, output);
}

void fv_segmentation_emit(const fovea_model *m, fv_builder *b, uint32_t stage, fv_view in,
                          const fv_grid *grid)
{
    if (!fv_segmentation_wants(m, b, stage))
        return;
    const fv_segmentation *s = &m->segmentation;
    const fv_grid patches = {grid->width, grid->height, grid->stride, 0};
    const uint32_t rows = fv_grid_tokens(&patches);
    fv_layer_write(b, "segmentation head", &s->head, in,
                   fv_emit_task_output(b, output, FOVEA_OUTPUT_CLASS_MAP, rows, s->head.w.rows,
                                       &patches, false),
                   rows);
    fv_emit_layout(b, output, FOVEA_OUTPUT_LAYOUT_ROWS);
}
