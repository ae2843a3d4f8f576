/* pyramid_read.c: reads the roles of a MAViT or NaLaFormer from its constructor's fields and the
 * tensors of its checkpoint. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint/config.h"
#include "checkpoint/processor.h"
#include "models/dense/decoder.h"
#include "models/fields.h"
#include "models/fold.h"
#include "models/pyramid/pyramid.h"
#include "models/segmentation.h"
#include "ops/rope.h"

#define STAGES FV_PYRAMID_MOST
#define WIDTH 65536
#define HIDDEN (1u << 20)
#define DEPTH 1024
#define CLASSES (1u << 24)
#define NATIVE 224
#define ANGLES 1e-2 /* tolerance of stored angles, which may be in float16 or bfloat16 */

struct reader {
    fv_tensor_reader t;
    fv_config config; /* the part of config.json that describes the pyramid */
    const fv_pyramid_form *form;
    fv_pyramid *p;
    bool scaled[STAGES];
    const json_t *flags[STAGES]; /* 'l' or 'v' for each block */
};

/* ---- config.json ---- */

/* Reads the list `key`, which has one item per stage. */
static fovea_status get_list(const json_t **out, const struct reader *r, const char *key)
{
    const json_t *list = fv_config_get(&r->config, key);
    char expected[64];
    if (list && json_is_array(list) && json_array_size(list) == r->p->stages) {
        *out = list;
        return FOVEA_OK;
    }
    snprintf(expected, sizeof expected, "a list of %u items, one for each stage", r->p->stages);
    return fv_config_fail(&r->config, key, expected);
}

static fovea_status read_widths(struct reader *r)
{
    static const char key[] = "embed_dims";
    uint32_t width[STAGES];
    FV_TRY(fv_config_count(&r->p->stages, &r->config, key, STAGES));
    FV_TRY(fv_config_u32s(width, r->p->stages, &r->config, key, 2, WIDTH));
    FV_TRY(FV_MEM_ARRAY(&r->p->stage, r->p->stages, FV_MEM_MODEL, "stages"));
    for (uint32_t i = 0; i < r->p->stages; i++)
        r->p->stage[i].width = width[i];
    return FOVEA_OK;
}

static fovea_status read_heads(struct reader *r)
{
    uint32_t heads[STAGES];
    FV_TRY(fv_config_u32s(heads, r->p->stages, &r->config, "num_heads", 1, UINT16_MAX));
    for (uint32_t i = 0; i < r->p->stages; i++) {
        const uint32_t width = r->p->stage[i].width;
        if (width % heads[i] != 0 || width / heads[i] % 4 != 0)
            return fv_fail(FOVEA_EFORMAT,
                           "%s: \"num_heads\" is %u for a width of %u; heads must have a multiple "
                           "of 4 channels",
                           r->config.file, heads[i], width);
        r->p->stage[i].heads = heads[i];
    }
    return FOVEA_OK;
}

/* Reads the widths of the MLPs, rounded like Python's int(width * ratio). */
static fovea_status read_hidden(struct reader *r)
{
    const json_t *list = NULL;
    FV_TRY(get_list(&list, r, "mlp_ratios"));
    for (uint32_t i = 0; i < r->p->stages; i++) {
        const json_t *item = json_array_get(list, i);
        double ratio = 0;
        const bool number = fv_json_number(&ratio, item);
        const double hidden = (double)r->p->stage[i].width * ratio;
        if (!number || !(hidden >= 1 && hidden < HIDDEN + 1.0)) {
            char expected[80];
            snprintf(expected, sizeof expected,
                     "a list of numbers that give hidden widths from 1 to %u", HIDDEN);
            return fv_config_fail(&r->config, "mlp_ratios", expected);
        }
        r->p->stage[i].hidden = (uint32_t)hidden;
    }
    return FOVEA_OK;
}

/* Reads the kinds of blocks. A list may have more entries than its stage has blocks, as in the
 * official sizes. */
static fovea_status read_flags(struct reader *r)
{
    const json_t *list = NULL;
    FV_TRY(get_list(&list, r, "flagss"));
    for (uint32_t i = 0; i < r->p->stages; i++) {
        r->flags[i] = json_array_get(list, i);
        bool good = json_array_size(r->flags[i]) >= r->p->stage[i].depth;
        for (uint32_t k = 0; good && k < r->p->stage[i].depth; k++) {
            const char *flag = json_string_value(json_array_get(r->flags[i], k));
            good = flag && (strcmp(flag, "l") == 0 || strcmp(flag, "v") == 0);
        }
        if (!good)
            return fv_config_fail(&r->config, "flagss",
                                  "a list of lists with \"l\" or \"v\" for every block");
    }
    return FOVEA_OK;
}

/* Reads which stages have layer scale. If config.json does not say, these are the stages with its
 * tensors. */
static fovea_status read_scaled(struct reader *r)
{
    const json_t *list = NULL;
    if (fv_config_get(&r->config, "layerscales"))
        FV_TRY(get_list(&list, r, "layerscales"));
    for (uint32_t i = 0; i < r->p->stages; i++) {
        const json_t *item = json_array_get(list, i);
        char prefix[40];
        snprintf(prefix, sizeof prefix, "layers.%u.blocks.0.", i);
        r->scaled[i] = fv_reader_find(&r->t, prefix, "gamma_1", "") != NULL;
        if (list && !fv_json_flag(&r->scaled[i], item))
            return fv_config_fail(&r->config, "layerscales", "a list of true and false");
    }
    return FOVEA_OK;
}

static fovea_status read_sizes(struct reader *r)
{
    uint32_t depth[STAGES], channels = 3;
    fovea_model_info *info = &r->t.m->info;
    bool square;
    info->native_width = info->native_height = NATIVE;
    FV_TRY(
        fv_config_size(&info->native_width, &info->native_height, &square, &r->config, "img_size"));
    FV_TRY(fv_config_size(&info->native_width, &info->native_height, &square, &r->config,
                          "image_size"));
    FV_TRY(fv_config_u32(&channels, &r->config, "in_chans", 1, WIDTH));
    if (channels != 3)
        return fv_fail(FOVEA_ENOTSUP, "%s: \"in_chans\" is %u; only RGB models are supported",
                       r->config.file, channels);
    FV_TRY(read_widths(r));
    FV_TRY(fv_config_u32s(depth, r->p->stages, &r->config, "depths", 1, DEPTH));
    for (uint32_t i = 0; i < r->p->stages; i++)
        r->p->stage[i].depth = depth[i];
    FV_TRY(read_heads(r));
    FV_TRY(read_hidden(r));
    FV_TRY(read_flags(r));
    return read_scaled(r);
}

/* ---- tensors ---- */

static fovea_status read_stem(struct reader *r)
{
    static const char *const convs[] = {"proj.0.", "proj.3.", "proj.6.", "proj.9."};
    static const char *const norms[] = {"proj.1.", "proj.4.", "proj.7.", "proj.10."};
    const uint32_t width = r->p->stage[0].width;
    for (int i = 0; i < FV_PYRAMID_STEM; i++)
        FV_TRY(fv_fold(&r->p->stem[i], &r->t, "patch_embed.",
                       &(const fv_fold_layer){.stem = convs[i],
                                              .norm = norms[i],
                                              .rows = i < FV_PYRAMID_STEM - 1 ? width / 2 : width,
                                              .channels = i == 0 ? 3 : width / 2,
                                              .size = 3,
                                              .by_tap = i > 0}));
    return FOVEA_OK;
}

static fovea_status read_filters(struct reader *r, fv_layer *l, const char *prefix,
                                 const char *stem, uint32_t channels, uint32_t size)
{
    const uint64_t shape[4] = {channels, 1, size, size};
    const fv_tensor *filters;
    FV_TRY(fv_reader_tensor(&filters, &r->t, prefix, stem, "weight", 4, shape));
    l->w = fv_weight_of(filters, channels, size * size);
    return fv_reader_matrix(&l->b, &r->t, prefix, stem, "bias", 1, channels);
}

static fovea_status read_attention(struct reader *r, fv_pyramid_block *b, const char *prefix,
                                   const fv_pyramid_stage *s, bool scaled)
{
    const fv_pyramid_form *f = r->form;
    const uint32_t c = s->width;
    const uint64_t weight[2] = {4ull * c, c}, bias[1] = {4ull * c};
    FV_TRY(fv_fold_residual(&b->cpe1, &r->t, prefix, f->cpe1, c, 3));
    FV_TRY(fv_reader_norm(&b->ln1, &r->t, prefix, "norm1.norm.", c));
    FV_TRY(fv_reader_tensor(&b->fused_w, &r->t, prefix, f->fused, "weight", 2, weight));
    FV_TRY(fv_reader_tensor(&b->fused_b, &r->t, prefix, f->fused, "bias", 1, bias));
    FV_TRY(read_filters(r, &b->lepe, prefix, "attn.lepe.", c, 5));
    if (f->inner)
        FV_TRY(fv_reader_norm(&b->inner, &r->t, prefix, f->inner, c));
    return fv_fold(&b->proj, &r->t, prefix,
                   &(const fv_fold_layer){.stem = f->proj,
                                          .scale = scaled ? "gamma_1" : NULL,
                                          .rows = c,
                                          .channels = c,
                                          .size = 1});
}

static fovea_status read_mlp(struct reader *r, fv_pyramid_block *b, const char *prefix,
                             const fv_pyramid_stage *s, bool scaled)
{
    const uint32_t c = s->width;
    if (r->form->cpe2)
        FV_TRY(fv_fold_residual(&b->cpe2, &r->t, prefix, r->form->cpe2, c, 3));
    FV_TRY(fv_reader_norm(&b->ln2, &r->t, prefix, "norm2.norm.", c));
    FV_TRY(fv_reader_linear(&b->fc1, &r->t, prefix, "ffn.fc1.", s->hidden, c));
    FV_TRY(fv_fold_residual(&b->dw, &r->t, prefix, "ffn.dwconv.", s->hidden, 3));
    return fv_fold(&b->fc2, &r->t, prefix,
                   &(const fv_fold_layer){.stem = "ffn.fc2.",
                                          .scale = scaled ? "gamma_2" : NULL,
                                          .rows = c,
                                          .channels = s->hidden,
                                          .size = 1});
}

/* Checks a stored rotation, which has no other use: its angles show whether num_heads is right. */
static fovea_status check_angles(struct reader *r, const fv_pyramid_stage *s, const char *prefix)
{
    static const char stem[] = "RoPE.", part[] = "angle";
    const uint32_t d = s->width / s->heads;
    const fv_tensor *angles;
    if (!fv_reader_find(&r->t, prefix, stem, part))
        return FOVEA_OK;
    FV_TRY(fv_reader_buffer(&angles, &r->t, prefix, stem, part, d / 2));
    for (uint32_t i = 0; i < d / 2; i++) {
        float angle;
        const double expected = fv_rope_angle(i / 2, d);
        fv_tensor_read(angles, i, 1, &angle);
        if (!(fabs((double)angle - expected) <= ANGLES * expected))
            return fv_fail(FOVEA_ENOTSUP,
                           "%s: tensor \"%s\" has the angle %g at index %u; with heads of %u "
                           "channels only %g is supported there",
                           r->t.source->name, angles->name, (double)angle, i, d, expected);
    }
    return FOVEA_OK;
}

static fovea_status read_stage(struct reader *r, uint32_t i)
{
    fv_pyramid_stage *s = &r->p->stage[i];
    char prefix[40];
    FV_TRY(FV_MEM_ARRAY(&s->block, s->depth, FV_MEM_MODEL, "blocks"));
    for (uint32_t k = 0; k < s->depth; k++) {
        fv_pyramid_block *b = &s->block[k];
        snprintf(prefix, sizeof prefix, "layers.%u.blocks.%u.", i, k);
        b->linear = strcmp(json_string_value(json_array_get(r->flags[i], k)), "l") == 0;
        FV_TRY(read_attention(r, b, prefix, s, r->scaled[i]));
        FV_TRY(read_mlp(r, b, prefix, s, r->scaled[i]));
    }
    snprintf(prefix, sizeof prefix, "layers.%u.", i);
    FV_TRY(check_angles(r, s, prefix));
    if (i + 1 < r->p->stages)
        FV_TRY(fv_fold(&s->down, &r->t, prefix,
                       &(const fv_fold_layer){.stem = "downsample.reduction.",
                                              .norm = "downsample.norm.",
                                              .rows = r->p->stage[i + 1].width,
                                              .channels = s->width,
                                              .size = 3,
                                              .by_tap = true}));
    snprintf(prefix, sizeof prefix, "extra_norms.%u.", i);
    return fv_reader_find(&r->t, prefix, "norm.", "weight")
               ? fv_reader_norm(&s->norm, &r->t, prefix, "norm.", s->width)
               : FOVEA_OK;
}

/* Reads projection and head. A backbone has neither; with "num_classes": 0, there is only the
 * projection. */
static fovea_status read_head(struct reader *r)
{
    fv_pyramid *p = r->p;
    const fv_tensor *proj = fv_reader_find(&r->t, "", "proj.", "weight");
    const fv_tensor *head = fv_reader_find(&r->t, "", "head.", "weight");
    uint32_t width = fv_tensor_dimension(proj, 0), classes = fv_tensor_dimension(head, 0);
    FV_TRY(fv_config_u32(&width, &r->config, "projection", 1, WIDTH));
    FV_TRY(fv_config_u32(&classes, &r->config, "num_classes", 0, CLASSES));
    const uint32_t wanted = r->t.m->additions ? r->t.m->additions->classes : 0;
    if (wanted && !proj)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: the backbone has no \"proj.weight\", which a classification head needs",
                       r->t.source->name);
    if (wanted && fv_tensor_dimension(head, 0) != wanted)
        FV_TRY(fv_reader_put_head(&r->t, "head.", wanted, width));
    classes = wanted ? wanted : classes;
    if (!proj && !head)
        return FOVEA_OK;
    FV_TRY(fv_fold(&p->proj, &r->t, "",
                   &(const fv_fold_layer){.stem = "proj.",
                                          .norm = "norm.",
                                          .rows = width,
                                          .channels = p->stage[p->stages - 1].width,
                                          .size = 1}));
    return classes ? fv_reader_linear(&p->head, &r->t, "", "head.", classes, width) : FOVEA_OK;
}

/* ---- the model ---- */

static fovea_status list_outputs(fovea_model *m)
{
    const fv_pyramid *p = m->roles;
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < p->stages; i++)
        blocks += p->stage[i].depth;
    FV_TRY(FV_MEM_ARRAY(&m->outputs, 2ull * p->stages + 4 + FV_DECODER_OUTPUTS + 2 * blocks,
                        FV_MEM_MODEL, "list of outputs"));
    FV_TRY(fv_decoder_list(m));
    if (fv_weight_present(&p->head.w))
        FV_TRY(fv_model_add_output(m, "logits"));
    else
        FV_TRY(fv_model_add_output(m, "stage%u", p->stages));
    FV_TRY(fv_model_add_output(m, "patch_embed"));
    for (uint32_t i = 1; i <= p->stages; i++) {
        FV_TRY(fv_model_add_output(m, "stage%u", i));
        if (i < p->stages)
            FV_TRY(fv_model_add_output(m, "down%u", i));
    }
    if (fv_weight_present(&p->proj.w))
        FV_TRY(fv_model_add_output(m, "pooled"));
    for (uint32_t i = 0; i < p->stages; i++)
        FV_TRY(fv_model_add_blocks(m, i, p->stage[i].depth));
    return FOVEA_OK;
}

static void fill_info(fovea_model *m)
{
    const fv_pyramid *p = m->roles;
    const fv_pyramid_stage *last = &p->stage[p->stages - 1];
    fovea_model_info *info = &m->info;
    info->width = last->width;
    info->heads = last->heads;
    for (uint32_t i = 0; i < p->stages; i++)
        info->depth += p->stage[i].depth;
    info->patch = 4;
    info->classes = p->head.w.rows;
    m->preprocess =
        fv_processor_default(FV_PROCESSOR_MAVIT, info->native_width, info->native_height);
}

fovea_status fv_pyramid_read(fovea_model *m, const fv_source *source, const fv_config *config)
{
    struct reader r = {.t = {.m = m, .source = source, .config = config->file},
                       .form = m->family->form};
    const char *prefix;
    snprintf(m->info.type, sizeof m->info.type, "%s", r.form->type);
    FV_TRY(fv_decoder_backbone(&r.config, &prefix, config, r.form->type));
    FV_TRY(fv_fields_check_pyramid(&r.config, config));
    FV_TRY(fv_mem_alloc(&m->roles, sizeof(fv_pyramid), FV_MEM_MODEL, "roles"));
    r.p = m->roles;
    fv_reader_begin(&r.t);
    const bool found = fv_reader_unwrap(&r.t, prefix, "patch_embed.proj.0.", "weight");
    FV_TRY(fv_reader_enter(&r.t, prefix));
    if (!found)
        return fv_reader_missing(&r.t, "patch_embed.proj.0.weight", "of the stem");
    FV_TRY(read_sizes(&r));
    FV_TRY(read_stem(&r));
    for (uint32_t i = 0; i < r.p->stages; i++)
        FV_TRY(read_stage(&r, i));
    FV_TRY(read_head(&r));
    fill_info(m);
    uint32_t width[STAGES];
    for (uint32_t i = 0; i < r.p->stages; i++)
        width[i] = r.p->stage[i].width;
    FV_TRY(fv_decoder_read(m, source, config, width, r.p->stages));
    if (!m->decoder)
        FV_TRY(fv_segmentation_read(m, source, config->file, width, r.p->stages));
    /* Unread weights would make the result silently wrong; only other heads may be skipped. */
    fv_reader_leave(&r.t, "", "head");
    FV_TRY(fv_reader_all_used(&r.t, ""));
    return list_outputs(m);
}

void fv_pyramid_release(fovea_model *m)
{
    fv_pyramid *p = m->roles;
    fv_decoder_release(m);
    for (uint32_t i = 0; p && p->stage && i < p->stages; i++)
        fv_mem_free(p->stage[i].block);
    if (p)
        fv_mem_free(p->stage);
    fv_mem_free(p);
    m->roles = NULL;
}
