/* rf_detr_read.c: reads the roles of RF-DETR from a checkpoint with its authors' names, which
 * transformers uses too, and those of LW-DETR with the names of transformers.
 *
 * The backbone is read in the same way as a ViT. A trained checkpoint has several groups of
 * queries, of which only the first is read. */
#include <stdio.h>
#include <string.h>

#include "models/detr/rf_detr.h"
#include "models/fold.h"
#include "models/vit/backbone.h"
#include "models/vit/vit_reader.h"
#include "ops/op.h"

#define MASKS "segmentation_head."
#define MOST 64 /* largest number of layers, pairs, points or windows */
#define QUERIES 65536

static const char backbone_fields[] =
    "cae_init_values dropout_prob num_windows num_windows_side pretrain_image_size "
    "use_absolute_position_embeddings=true window_block_indexes window_block_indices";

static const char fields[] =
    "activation_dropout activation_function attention_bias auxiliary_loss backbone_config "
    "batch_norm_eps bbox_cost bbox_loss_coefficient c2f_num_blocks class_cost "
    "class_loss_coefficient d_model "
    "decoder_activation_function decoder_cross_attention_heads decoder_ffn_dim decoder_layers "
    "decoder_n_points decoder_self_attention_heads dice_loss_coefficient disable_custom_kernels "
    "eos_coefficient focal_alpha giou_cost giou_loss_coefficient group_detr hidden_expansion "
    "init_std intermediate_size mask_class_loss_coefficient mask_dice_loss_coefficient "
    "mask_downsample_ratio "
    "mask_loss_coefficient mask_point_sample_ratio num_feature_levels num_queries "
    "projector_in_channels projector_out_channels projector_scale_factors "
    "segmentation_head_activation_function";

/* The backbone's reader, which also reads the other parts. `r->vision` is the backbone's
 * section. */
typedef fv_vit_reader reader;

static fv_rf_detr *roles(const reader *r)
{
    return r->t.m->roles;
}

static const fv_detr_names *of(const reader *r)
{
    return &fv_detr_names_of[roles(r)->lw];
}

/* Returns FOVEA_EFORMAT if `n`, the value of `key`, does not divide `whole`. */
static fovea_status divides(const reader *r, const char *key, uint32_t n, uint32_t whole)
{
    if (whole % n == 0)
        return FOVEA_OK;
    return fv_fail(FOVEA_EFORMAT, "%s: \"%s\" is %u, which does not divide the %u channels",
                   r->config->file, key, n, whole);
}

/* ---- the backbone ---- */

/* Reads the number of windows per side of the grid. LW-DETR's field counts all windows. */
static fovea_status read_window_count(reader *r)
{
    fv_rf_detr *d = roles(r);
    d->windows = 4;
    if (!d->lw)
        return fv_config_u32(&d->windows, &r->vision, "num_windows", 1, MOST);
    uint32_t all = 16, side = 1;
    FV_TRY(fv_config_u32(&all, &r->vision, "num_windows", 1, MOST * MOST));
    while (side * side < all)
        side++;
    d->windows = side;
    return side * side == all ? FOVEA_OK
                              : fv_config_fail(&r->vision, "num_windows", "a square number");
}

/* Reads which blocks attend over all windows: those that the list of windowed blocks does not have.
 * If RF-DETR's list is absent, these are the blocks whose number is that of a tap, and the blocks
 * after the last tap; if LW-DETR's is, all blocks. */
static fovea_status read_windows(reader *r)
{
    fv_rf_detr *d = roles(r);
    const char *key = of(r)->windows;
    const json_t *list = fv_config_get(&r->vision, key);
    uint32_t count = 0;
    FV_TRY(read_window_count(r));
    FV_TRY(FV_MEM_ARRAY(&d->global, r->v->depth, FV_MEM_MODEL, "kinds of blocks"));
    for (uint32_t i = 0; i < r->v->depth; i++)
        d->global[i] = list || d->lw || i > d->tap[d->taps - 1];
    for (uint32_t i = 0; !list && i < d->taps; i++)
        if (d->tap[i] < r->v->depth)
            d->global[d->tap[i]] = 1;
    if (!list || (json_is_array(list) && json_array_size(list) == 0))
        return FOVEA_OK;
    uint32_t *block;
    FV_TRY(fv_config_count(&count, &r->vision, key, r->v->depth + 1));
    FV_TRY(FV_MEM_ARRAY(&block, count, FV_MEM_MODEL, "kinds of blocks"));
    const fovea_status status = fv_config_u32s(block, count, &r->vision, key, 0, r->v->depth);
    for (uint32_t i = 0; status == FOVEA_OK && i < count; i++)
        if (block[i] < r->v->depth)
            d->global[block[i]] = 0;
    fv_mem_free(block);
    return status;
}

static fovea_status find_backbone(reader *r)
{
    r->kind = of(r)->kind;
    r->prefix = of(r)->backbone;
    for (r->n = fv_vit_schemes; r->n->patch; r->n++)
        if (r->n->origin == FV_VIT_HF && !r->n->in_memory && r->n->kinds >> r->kind & 1 &&
            fv_reader_unwrap(&r->t, r->prefix, r->n->patch, "weight"))
            return FOVEA_OK;
    return fv_reader_fail_names(&r->t, of(r)->model, "class_embed.weight");
}

/* Refuses parts that a ViT's reader knows but a block of RF-DETR does not have. */
static fovea_status check_blocks(const reader *r)
{
    for (uint32_t i = 0; i < r->v->depth; i++) {
        const fv_vit_block *b = &r->v->block[i];
        const struct {
            const char *what;
            const fv_weight *w;
        } parts[] = {{"gated heads", &b->sla_q},
                     {"learned feature maps of q and k", &b->map_q.w},
                     {"a convolution of its values", &b->module.dwc.w},
                     {"a norm of its attention's output", &b->module.ln.w},
                     {"a gate", &b->module.gate.w},
                     {"a norm inside its attention", &b->inner.w},
                     {"a norm inside its MLP", &b->inner_mlp.w},
                     {"biases of attention scores", &b->bias}};
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
            if (fv_weight_present(parts[k].w))
                return fv_fail(FOVEA_ENOTSUP, "%s: block %u has %s, which is not supported in %s",
                               r->t.source->name, i, parts[k].what, of(r)->model);
    }
    return FOVEA_OK;
}

/* Sets the native picture size: RF-DETR's is that of the position table, LW-DETR's is in
 * config.json. Both are rounded to a multiple of the windows. */
static fovea_status read_native(const reader *r)
{
    fovea_model_info *info = &r->t.m->info;
    const uint32_t unit = r->v->patch * roles(r)->windows;
    bool square;
    if (roles(r)->lw)
        FV_TRY(fv_config_size(&info->native_width, &info->native_height, &square, &r->vision,
                              "image_size"));
    info->native_width = (info->native_width + unit - 1) / unit * unit;
    info->native_height = (info->native_height + unit - 1) / unit * unit;
    return FOVEA_OK;
}

static fovea_status read_backbone(reader *r)
{
    fv_rf_detr *d = roles(r);
    const char *type = of(r)->backbone_type;
    bool grids = true;
    if (!r->vision.object)
        return fv_config_fail(r->config, "backbone_config", "an object");
    FV_TRY(fv_config_text(&type, &r->vision, "model_type"));
    FV_TRY(fv_config_bool(&grids, &r->vision, "reshape_hidden_states"));
    if (strcmp(type, of(r)->backbone_type) != 0 || !grids)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: the backbone is \"%.40s\"%s; only \"%s\" with "
                       "\"reshape_hidden_states\" is supported",
                       r->config->file, type, grids ? "" : " without \"reshape_hidden_states\"",
                       of(r)->backbone_type);
    FV_TRY(find_backbone(r));
    FV_TRY(fv_vit_read_sizes(r));
    FV_TRY(fv_vit_read_block_form(r));
    FV_TRY(fv_vit_read_embedding(r));
    FV_TRY(fv_vit_read_blocks(r));
    FV_TRY(check_blocks(r));
    FV_TRY(fv_backbone_read_taps(d->tap, &d->taps, FV_RF_DETR_TAPS, &r->vision, r->v->depth));
    FV_TRY(read_windows(r));
    FV_TRY(read_native(r));
    if (!d->lw) {
        d->tap_norm = true;
        FV_TRY(fv_config_bool(&d->tap_norm, &r->vision, "apply_layernorm"));
        FV_TRY(fv_reader_norm(&d->vit.post, &r->t, r->prefix, r->n->post, d->vit.width));
    }
    char embeddings[64];
    snprintf(embeddings, sizeof embeddings, "%sembeddings.", r->prefix);
    fv_reader_ignore(&r->t, embeddings, "mask_token");
    return fv_reader_all_used(&r->t, embeddings);
}

/* ---- the projector ---- */

static fovea_status read_conv(reader *r, fv_rf_detr_conv *c, const char *stem, uint32_t out,
                              uint32_t in, uint32_t size)
{
    char conv[80], norm[80];
    const uint32_t taps = size * size;
    const uint64_t shape[4] = {out, in, size, size};
    const fv_tensor *t;
    snprintf(conv, sizeof conv, "%sconv.", stem);
    snprintf(norm, sizeof norm, "%s%s", stem, of(r)->norm);
    if (roles(r)->lw)
        return fv_fold(&c->conv, &r->t, of(r)->projector,
                       &(const fv_fold_layer){.stem = conv,
                                              .norm = norm,
                                              .unbiased = true,
                                              .rows = out,
                                              .channels = in,
                                              .size = size,
                                              .by_tap = size > 1});
    FV_TRY(fv_reader_tensor(&t, &r->t, of(r)->projector, conv, "weight", 4, shape));
    c->conv.w = (fv_weight){.rows = out, .cols = taps * in};
    fv_weight_add(&c->conv.w,
                  (fv_weight_part){.tensor = t, .rows = out, .cols = taps * in, .taps = taps});
    return fv_reader_norm(&c->norm, &r->t, of(r)->projector, norm, out);
}

/* LW-DETR's larger models have feature maps of several scales. */
static fovea_status check_scale(const reader *r)
{
    const json_t *list = fv_config_get(r->config, "projector_scale_factors");
    if (!roles(r)->lw ||
        (json_array_size(list) == 1 && json_number_value(json_array_get(list, 0)) == 1))
        return FOVEA_OK;
    return fv_fail(
        FOVEA_ENOTSUP,
        "%s: \"projector_scale_factors\" must be [1.0]; models with other scales are not "
        "supported, use the tiny, small or medium one",
        r->config->file);
}

static fovea_status read_projector(reader *r)
{
    fv_rf_detr *d = roles(r);
    const fv_detr_names *n = of(r);
    char stem[80];
    FV_TRY(check_scale(r));
    FV_TRY(fv_reader_dimension(&d->width, &r->t, n->projector, n->projected, "weight", 0,
                               "width of the decoder", FV_VIT_WIDTH_MOST));
    FV_TRY(fv_reader_agree(&r->t, r->config, "d_model", d->width));
    if (d->width % 4)
        return fv_fail(
            FOVEA_EFORMAT,
            "%s: \"d_model\" is %u; it must be a multiple of 4, because a box has four numbers",
            r->config->file, d->width);
    snprintf(stem, sizeof stem, "%sconv.", n->first);
    FV_TRY(fv_reader_dimension(&d->half, &r->t, n->projector, stem, "weight", 0,
                               "width of the projector", FV_VIT_WIDTH_MOST));
    d->half /= 2;
    d->eps = 1e-5f;
    FV_TRY(fv_config_float(&d->eps, r->config, "layer_norm_eps", 0, 1));
    FV_TRY(fv_config_activation(&d->act, r->config, "activation_function", "silu"));
    d->pairs = fv_reader_count(&r->t, n->projector, n->pair, MOST);
    FV_TRY(fv_reader_agree(&r->t, r->config, "c2f_num_blocks", d->pairs));
    FV_TRY(fv_vit_check_size(r, "number of the projector's blocks", d->pairs, MOST));
    FV_TRY(FV_MEM_ARRAY(&d->pair, d->pairs, FV_MEM_MODEL, "the projector"));
    FV_TRY(read_conv(r, &d->first, n->first, 2 * d->half, d->taps * d->vit.width, 1));
    for (uint32_t i = 0; i < 2 * d->pairs; i++) {
        snprintf(stem, sizeof stem, n->pair_part, i / 2, i % 2 + 1);
        FV_TRY(read_conv(r, &d->pair[i / 2][i % 2], stem, d->half, d->half, 3));
    }
    FV_TRY(read_conv(r, &d->last, n->last, d->width, (2 + d->pairs) * d->half, 1));
    FV_TRY(fv_reader_norm(&d->projected, &r->t, n->projector, n->projected, d->width));
    return fv_reader_all_used(&r->t, n->projectors);
}

/* ---- proposals and queries ---- */

static fovea_status read_box(reader *r, fv_layer box[3], const char *prefix, const char *stem)
{
    const uint32_t width = roles(r)->width;
    char name[64];
    for (uint32_t i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%slayers.%u.", stem, i);
        FV_TRY(fv_reader_linear(&box[i], &r->t, prefix, name, i < 2 ? width : 4, width));
    }
    return FOVEA_OK;
}

static fovea_status read_proposals(reader *r)
{
    /* Except for the first of each, these are only for training. */
    static const char *const of_groups[] = {"enc_output.", "enc_output_norm.",
                                            "enc_out_class_embed.", "enc_out_bbox_embed."};
    fv_rf_detr *d = roles(r);
    const uint32_t width = d->width;
    const char *p = of(r)->transformer;
    uint32_t classes;
    FV_TRY(fv_reader_dimension(&classes, &r->t, "", "class_embed.", "weight", 0,
                               "number of classes", FV_VIT_WIDTH_MOST));
    FV_TRY(fv_reader_linear(&d->proposal, &r->t, p, "enc_output.0.", width, width));
    FV_TRY(fv_reader_norm(&d->proposal_norm, &r->t, p, "enc_output_norm.0.", width));
    FV_TRY(
        fv_reader_linear(&d->proposal_class, &r->t, p, "enc_out_class_embed.0.", classes, width));
    FV_TRY(read_box(r, d->proposal_box, p, "enc_out_bbox_embed.0."));
    FV_TRY(fv_reader_linear(&d->classes, &r->t, "", "class_embed.", classes, width));
    for (size_t i = 0; i < sizeof of_groups / sizeof *of_groups; i++) {
        char groups[64];
        snprintf(groups, sizeof groups, "%s%s", p, of_groups[i]);
        fv_reader_ignore(&r->t, groups, "");
    }
    return read_box(r, d->box, "", "bbox_embed.");
}

/* Reads the rows of the first group of queries. */
static fovea_status read_queries(reader *r, fv_weight *w, const char *stem, uint32_t cols)
{
    const uint32_t queries = roles(r)->queries;
    const uint32_t rows = fv_tensor_dimension(fv_reader_find(&r->t, "", stem, "weight"), 0);
    const uint64_t shape[2] = {rows, cols};
    const fv_tensor *t;
    FV_TRY(fv_reader_tensor(&t, &r->t, "", stem, "weight", 2, shape));
    if (rows < queries)
        return fv_fail(FOVEA_EFORMAT,
                       "%s: \"num_queries\" is %u, but \"%sweight\" of %s has %u rows",
                       r->config->file, queries, stem, r->t.source->name, rows);
    *w = fv_weight_of(t, queries, cols);
    return FOVEA_OK;
}

/* ---- the decoder ---- */

/* Reads q, k and v from separate tensors, and stacks q and k. */
static fovea_status read_separate(reader *r, fv_rf_detr_layer *l, const char *prefix)
{
    const fv_detr_names *n = of(r);
    const uint32_t width = roles(r)->width, rows[] = {width, width};
    const char *const qk[] = {n->q, n->k};
    bool biased = true;
    FV_TRY(fv_config_bool(&biased, r->config, "attention_bias"));
    if (biased) {
        FV_TRY(fv_reader_stacked(&l->qk, &r->t, prefix, qk, rows, 2, width));
        FV_TRY(fv_reader_linear(&l->v, &r->t, prefix, n->v, width, width));
        return fv_reader_linear(&l->self_out, &r->t, prefix, n->self_out, width, width);
    }
    l->qk.w = (fv_weight){.rows = 2 * width, .cols = width};
    for (uint32_t i = 0; i < 2; i++)
        FV_TRY(fv_reader_part(&l->qk.w, &r->t, prefix, qk[i], "weight",
                              (fv_weight_part){.row0 = i * width, .rows = width, .cols = width}));
    FV_TRY(fv_reader_matrix(&l->v.w, &r->t, prefix, n->v, "weight", width, width));
    return fv_reader_matrix(&l->self_out.w, &r->t, prefix, n->self_out, "weight", width, width);
}

static fovea_status read_self_attention(reader *r, fv_rf_detr_layer *l, const char *prefix)
{
    if (of(r)->q)
        return read_separate(r, l, prefix);
    const uint32_t width = roles(r)->width;
    const uint64_t whole[2] = {3ull * width, width};
    const bool biased = fv_reader_find(&r->t, prefix, "self_attn.in_proj_bias", "") != NULL;
    const fv_tensor *w, *b = NULL;
    FV_TRY(fv_reader_tensor(&w, &r->t, prefix, "self_attn.in_proj_weight", "", 2, whole));
    if (biased)
        FV_TRY(fv_reader_tensor(&b, &r->t, prefix, "self_attn.in_proj_bias", "", 1, whole));
    fv_layer_cut(&l->qk, w, b, width, 0, 2 * width);
    fv_layer_cut(&l->v, w, b, width, 2 * width, width);
    if (biased)
        return fv_reader_linear(&l->self_out, &r->t, prefix, of(r)->self_out, width, width);
    return fv_reader_matrix(&l->self_out.w, &r->t, prefix, of(r)->self_out, "weight", width, width);
}

/* Reads the offsets and the weights of the samples, and stacks them. */
static fovea_status read_sampling(reader *r, fv_layer *l, const char *prefix)
{
    const fv_rf_detr *d = roles(r);
    const uint32_t samples = d->cross_heads * d->points, rows[2] = {2 * samples, samples};
    const char *const stem[] = {"cross_attn.sampling_offsets.", "cross_attn.attention_weights."};
    return fv_reader_stacked(l, &r->t, prefix, stem, rows, 2, d->width);
}

static fovea_status read_layer(reader *r, uint32_t i)
{
    const fv_rf_detr *d = roles(r);
    const fv_detr_names *n = of(r);
    fv_rf_detr_layer *l = &d->layer[i];
    const uint32_t width = d->width;
    char p[64];
    snprintf(p, sizeof p, "%slayers.%u.", n->decoder, i);
    uint32_t hidden;
    FV_TRY(fv_reader_dimension(&hidden, &r->t, p, n->fc1, "weight", 0, "width of the decoder's MLP",
                               FV_VIT_HIDDEN_MOST));
    FV_TRY(fv_reader_agree(&r->t, r->config, "decoder_ffn_dim", hidden));
    FV_TRY(read_self_attention(r, l, p));
    FV_TRY(read_sampling(r, &l->sampling, p));
    FV_TRY(fv_reader_linear(&l->values, &r->t, p, "cross_attn.value_proj.", width, width));
    FV_TRY(fv_reader_linear(&l->cross_out, &r->t, p, "cross_attn.output_proj.", width, width));
    FV_TRY(fv_reader_linear(&l->fc1, &r->t, p, n->fc1, hidden, width));
    FV_TRY(fv_reader_linear(&l->fc2, &r->t, p, n->fc2, width, hidden));
    for (uint32_t k = 0; k < 3; k++)
        FV_TRY(fv_reader_norm(&l->norm[k], &r->t, p, n->norms[k], width));
    return FOVEA_OK;
}

/* Reads the layers of the positions. The first layer reads sines of x, y, w, h here, but the tensor
 * has y before x. */
static fovea_status read_positions(reader *r)
{
    fv_rf_detr *d = roles(r);
    const uint32_t width = d->width, part = width / 2;
    const uint64_t shape[2] = {width, 2ull * width};
    const uint32_t from[] = {part, 0, 2 * part}, cols[] = {part, part, 2 * part};
    const char *p = of(r)->decoder;
    const fv_tensor *t;
    FV_TRY(fv_reader_tensor(&t, &r->t, p, "ref_point_head.layers.0.", "weight", 2, shape));
    d->position[0].w = (fv_weight){.rows = width, .cols = 2 * width};
    for (uint32_t i = 0; i < 3; i++)
        fv_weight_add(&d->position[0].w, (fv_weight_part){.tensor = t,
                                                          .offset = from[i],
                                                          .rows = width,
                                                          .col0 = i * part,
                                                          .cols = cols[i],
                                                          .row_stride = 2ull * width});
    FV_TRY(fv_reader_matrix(&d->position[0].b, &r->t, p, "ref_point_head.layers.0.", "bias", 1,
                            width));
    return fv_reader_linear(&d->position[1], &r->t, p, "ref_point_head.layers.1.", width, width);
}

static fovea_status read_decoder_sizes(reader *r)
{
    fv_rf_detr *d = roles(r);
    uint32_t levels = 1;
    d->queries = 300;
    d->self_heads = 8;
    d->cross_heads = 16;
    d->points = 4;
    FV_TRY(fv_config_u32(&levels, r->config, "num_feature_levels", 1, 1));
    FV_TRY(fv_config_u32(&d->queries, r->config, "num_queries", 1, QUERIES));
    FV_TRY(fv_config_u32(&d->self_heads, r->config, "decoder_self_attention_heads", 1, 4096));
    FV_TRY(fv_config_u32(&d->cross_heads, r->config, "decoder_cross_attention_heads", 1, 4096));
    FV_TRY(fv_config_u32(&d->points, r->config, "decoder_n_points", 1, MOST));
    FV_TRY(divides(r, "decoder_self_attention_heads", d->self_heads, d->width));
    FV_TRY(divides(r, "decoder_cross_attention_heads", d->cross_heads, d->width));
    FV_TRY(fv_config_activation(&d->decoder_act, r->config, "decoder_activation_function", "relu"));
    char first[64];
    snprintf(first, sizeof first, "layers.%%u.%s", of(r)->norms[0]);
    d->layers = fv_reader_count(&r->t, of(r)->decoder, first, MOST);
    FV_TRY(fv_reader_agree(&r->t, r->config, "decoder_layers", d->layers));
    const fovea_model_info *info = &r->t.m->info;
    const uint64_t places =
        (uint64_t)(info->native_width / info->patch) * (info->native_height / info->patch);
    if (d->queries > places)
        return fv_fail(FOVEA_EFORMAT,
                       "%s: \"num_queries\" is %u, but a picture of %u x %u pixels has only %llu "
                       "candidate positions",
                       r->config->file, d->queries, info->native_width, info->native_height,
                       (unsigned long long)places);
    return fv_vit_check_size(r, "number of the decoder's layers", d->layers, MOST);
}

static fovea_status read_decoder(reader *r)
{
    fv_rf_detr *d = roles(r);
    FV_TRY(read_decoder_sizes(r));
    FV_TRY(FV_MEM_ARRAY(&d->layer, d->layers, FV_MEM_MODEL, "the decoder"));
    FV_TRY(read_queries(r, &d->query, of(r)->query, d->width));
    FV_TRY(read_queries(r, &d->reference, of(r)->reference, 4));
    FV_TRY(read_positions(r));
    for (uint32_t i = 0; i < d->layers; i++)
        FV_TRY(read_layer(r, i));
    FV_TRY(fv_reader_norm(&d->norm, &r->t, of(r)->decoder, of(r)->decoder_norm, d->width));
    return fv_reader_all_used(&r->t, of(r)->decoder);
}

/* ---- masks ---- */

/* Reads a linear layer of the head for masks, and extends it by a row without weights and with the
 * bias `last`. */
static fovea_status read_extended(reader *r, fv_layer *l, const char *stem, const fv_tensor *last)
{
    const uint32_t width = roles(r)->width;
    l->w = (fv_weight){.rows = width + 1, .cols = width};
    l->b = (fv_weight){.rows = 1, .cols = width + 1};
    FV_TRY(fv_reader_part(&l->w, &r->t, MASKS, stem, "weight",
                          (fv_weight_part){.rows = width, .cols = width}));
    FV_TRY(fv_reader_part(&l->b, &r->t, MASKS, stem, "bias",
                          (fv_weight_part){.rows = 1, .cols = width}));
    fv_weight_add(&l->b, (fv_weight_part){.tensor = last, .rows = 1, .col0 = width, .cols = 1});
    return FOVEA_OK;
}

static fovea_status read_mask_block(reader *r, fv_rf_detr_mask_block *k, uint32_t i)
{
    const uint32_t width = roles(r)->width;
    const uint64_t shape[4] = {width, 1, 3, 3};
    const fv_tensor *t;
    char p[64];
    snprintf(p, sizeof p, MASKS "blocks.%u.", i);
    FV_TRY(fv_reader_tensor(&t, &r->t, p, "dwconv.", "weight", 4, shape));
    k->filter.w = fv_weight_of(t, width, 9);
    FV_TRY(fv_reader_matrix(&k->filter.b, &r->t, p, "dwconv.", "bias", 1, width));
    FV_TRY(fv_reader_norm(&k->norm, &r->t, p, "norm.", width));
    return fv_reader_linear(&k->mix, &r->t, p, "pwconv1.", width, width);
}

static fovea_status read_mask_queries(reader *r, fv_rf_detr_masks *m)
{
    static const char mlp[] = MASKS "query_features_block.";
    const uint32_t width = roles(r)->width;
    uint32_t hidden;
    FV_TRY(fv_reader_dimension(&hidden, &r->t, mlp, "layers.0.", "weight", 0,
                               "width of the MLP for masks", FV_VIT_HIDDEN_MOST));
    FV_TRY(fv_reader_agree(&r->t, r->config, "intermediate_size", hidden));
    FV_TRY(fv_reader_norm(&m->norm, &r->t, mlp, "norm_in.", width));
    FV_TRY(fv_reader_linear(&m->fc1, &r->t, mlp, "layers.0.", hidden, width));
    return fv_reader_linear(&m->fc2, &r->t, mlp, "layers.2.", width, hidden);
}

/* Reads the head for masks, if the file has one or config.json names its class. */
static fovea_status read_masks(reader *r)
{
    fv_rf_detr *d = roles(r);
    fv_rf_detr_masks *m = &d->masks;
    const fv_tensor *bias, *one;
    const json_t *list = fv_config_get(r->config, "architectures");
    const char *class = json_string_value(json_array_get(list, 0));
    char named[FV_READER_NAME];
    float *data;
    if (!(class && strcmp(class, "RfDetrForInstanceSegmentation") == 0) &&
        !fv_reader_names(named, &r->t, MASKS))
        return FOVEA_OK;
    m->ratio = 4;
    FV_TRY(fv_config_u32(&m->ratio, r->config, "mask_downsample_ratio", 1, MOST));
    FV_TRY(
        fv_config_activation(&m->act, r->config, "segmentation_head_activation_function", "gelu"));
    const uint32_t blocks = fv_reader_count(&r->t, MASKS, "blocks.%u.norm.", MOST);
    if (blocks != d->layers)
        return fv_fail(FOVEA_EFORMAT,
                       "%s: the head for masks has %u blocks, but the decoder has %u layers; they "
                       "must be equal",
                       r->t.source->name, blocks, d->layers);
    FV_TRY(FV_MEM_ARRAY(&m->block, blocks, FV_MEM_MODEL, "the head for masks"));
    for (uint32_t i = 0; i < blocks; i++)
        FV_TRY(read_mask_block(r, &m->block[i], i));
    FV_TRY(read_mask_queries(r, m));
    FV_TRY(fv_reader_tensor(&bias, &r->t, MASKS, "bias", "", 1, (const uint64_t[]){1}));
    FV_TRY(fv_model_floats(&data, &one, r->t.m, 1, 1));
    data[0] = 1;
    FV_TRY(read_extended(r, &m->pixels, "spatial_features_proj.", one));
    FV_TRY(read_extended(r, &m->queries, "query_features_proj.", bias));
    r->t.m->info.masks = d->queries;
    return fv_reader_all_used(&r->t, MASKS);
}

/* ---- the whole ---- */

static void describe(reader *r)
{
    fovea_model_info *info = &r->t.m->info;
    fv_vit_describe(info, r->v);
    r->t.m->preprocess =
        fv_processor_default(roles(r)->lw ? FV_PROCESSOR_LW_DETR : FV_PROCESSOR_RF_DETR,
                             info->native_width, info->native_height);
}

/* Describes how boxes are decoded: at most as many as queries, best first, with any class of any
 * query. */
static fovea_status describe_boxes(reader *r)
{
    fv_rf_detr *d = roles(r);
    fv_detection *boxes = &d->detection;
    fovea_model *m = r->t.m;
    uint32_t most = d->queries;
    FV_TRY(fv_config_u32(&most, &r->own, "max_per_img", 1, d->queries));
    *boxes = (fv_detection){.levels = 1,
                            .anchors = 1,
                            .classes = d->classes.w.rows,
                            .of_queries = true,
                            .nms_pre = most,
                            .min_size = -1,
                            .max_per_img = most};
    FV_TRY(fv_config_float(&boxes->score_thr, &r->own, "score_thr", 0, 1));
    m->detection = boxes;
    m->info.classes = boxes->classes;
    m->info.boxes = most;
    return FOVEA_OK;
}

static fovea_status list_outputs(fovea_model *m)
{
    static const char *const names[] = {"logits", "pred_boxes", "pred_masks", "last_hidden_state",
                                        "backbone_features"};
    FV_TRY(FV_MEM_ARRAY(&m->outputs, sizeof names / sizeof *names + 1, FV_MEM_MODEL,
                        "list of outputs"));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (m->info.masks || strcmp(names[i], "pred_masks") != 0)
            FV_TRY(fv_model_add_output(m, "%s", names[i]));
    return FOVEA_OK;
}

/* Refuses models for key points, because their main output would silently be missing. */
static fovea_status refuse_keypoints(const reader *r)
{
    char named[FV_READER_NAME];
    if (fv_reader_names(named, &r->t, "keypoint_embed."))
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: this RF-DETR predicts key points (tensor \"%s\"), which is not "
                       "supported; use the detector of the same size",
                       r->t.source->name, named);
    return FOVEA_OK;
}

fovea_status fv_rf_detr_read(fovea_model *m, const fv_source *source, const fv_config *config)
{
    reader r = {.t = {.m = m, .source = source, .config = config->file}, .config = config};
    FV_TRY(fv_config_type(&r.type, config));
    FV_TRY(fv_config_section(&r.own, config, "fovea"));
    FV_TRY(fv_config_section(&r.vision, config, "backbone_config"));
    const bool lw = strcmp(r.type, "lw_detr") == 0;
    snprintf(m->info.type, sizeof m->info.type, lw ? "lw_detr" : "rf_detr");
    fv_reader_begin(&r.t);
    FV_TRY(refuse_keypoints(&r));
    FV_TRY(fv_fields_check(config, config, &r.own, fields));
    if (r.vision.object)
        FV_TRY(fv_fields_check(config, &r.vision, &r.own, backbone_fields));
    FV_TRY(fv_mem_alloc(&m->roles, sizeof(fv_rf_detr), FV_MEM_MODEL, "roles"));
    r.v = &roles(&r)->vit;
    roles(&r)->lw = lw;
    FV_TRY(read_backbone(&r));
    describe(&r);
    FV_TRY(read_projector(&r));
    FV_TRY(read_decoder(&r));
    FV_TRY(read_proposals(&r));
    FV_TRY(describe_boxes(&r));
    FV_TRY(read_masks(&r));
    return list_outputs(m);
}
