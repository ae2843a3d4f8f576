/* vit_tokens.c: reads the parts that convert patches to tokens: embedding, prefix rows,
 * positions. */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "models/vit/vit_reader.h"

#define REGISTERS 4096
#define FRAMES 64
#define SIDE 4096     /* largest side of the position table, in patches */
#define PATCH_MOST 16 /* pictures have at most SIDE patches of this size per side */

/* The field with the size of the pictures that the positions are for. LW-DETR's "image_size" is
 * that of the detector's pictures. */
static const char *picture_field(const fv_vit_reader *r)
{
    return r->kind == FV_VIT_LW_DETR   ? "pretrain_image_size"
           : r->kind == FV_VIT_HUNYUAN ? "max_image_size"
                                       : "image_size";
}

fovea_status fv_vit_read_picture(const fv_vit_reader *r, uint32_t *width, uint32_t *height)
{
    fv_config arguments;
    bool square;
    *width = *height = 0;
    FV_TRY(fv_config_size(width, height, &square, &r->vision, picture_field(r)));
    FV_TRY(fv_config_section(&arguments, r->config, "model_args"));
    return arguments.object ? fv_config_size(width, height, &square, &arguments, "img_size")
                            : FOVEA_OK;
}

/* Splits the `rows` rows of the position table into `*lead` rows of prefix tokens and a grid: the
 * grid of the picture size in config.json, else a square. */
static fovea_status cut_table(fv_vit_reader *r, uint32_t rows, uint32_t *lead)
{
    fv_vit *v = r->v;
    uint32_t w = 0, h = 0;
    /* In timm's models, all prefix tokens may have positions, or none, or only the class tokens. */
    const bool unused_class =
        r->kind == FV_VIT_POSE || r->kind == FV_VIT_LW_DETR || r->kind == FV_VIT_HUNYUAN;
    const uint32_t first = unused_class ? 1 : v->class_tokens;
    const uint32_t leads[] = {r->n->patch_positions ? 0 : first, v->prefix, 0};
    const int n_leads = r->n->origin == FV_VIT_TIMM ? 3 : 1;
    if (r->kind != FV_VIT_RADIO) /* RADIO's table is for the largest picture */
        FV_TRY(fv_vit_read_picture(r, &w, &h));
    v->table_width = w / v->patch;
    v->table_height = h / v->patch;
    uint64_t expected = (uint64_t)v->table_width * v->table_height;
    for (int i = 0; i < n_leads && expected; i++)
        if (rows == leads[i] + expected) {
            *lead = leads[i];
            r->t.m->info.native_width = w;
            r->t.m->info.native_height = h;
            return fv_vit_check_size(r, "side of the position table",
                                     w > h ? w / v->patch : h / v->patch, SIDE);
        }
    if (expected)
        return fv_fail(FOVEA_EFORMAT,
                       "%s: the position table has %u rows, but \"%s\" in %s needs %u + %llu; "
                       "correct it to the size of the checkpoint",
                       r->t.source->name, rows, picture_field(r), r->config->file, leads[0],
                       (unsigned long long)expected);
    for (int i = 0; i < n_leads; i++)
        for (uint32_t side = 1; side <= SIDE; side++)
            if (rows > leads[i] && side * side == rows - leads[i]) {
                *lead = leads[i];
                v->table_width = v->table_height = side;
                r->t.m->info.native_width = r->t.m->info.native_height = side * v->patch;
                return FOVEA_OK;
            }
    return fv_fail(FOVEA_EFORMAT,
                   "%s: the position table has %u rows, which are not a square grid; add "
                   "\"%s\": [height, width] to %s",
                   r->t.source->name, rows, picture_field(r), r->config->file);
}

/* Reads the picture size of a model without a position table from config.json, rounded down to
 * whole patches. */
static fovea_status read_native(fv_vit_reader *r)
{
    fovea_model_info *info = &r->t.m->info;
    uint32_t w, h;
    FV_TRY(fv_vit_read_picture(r, &w, &h));
    w = w ? w : 224;
    h = h ? h : 224;
    info->native_width = w - w % r->v->patch;
    info->native_height = h - h % r->v->patch;
    FV_TRY(fv_vit_check_size(r, "width of the picture", info->native_width, SIDE * PATCH_MOST));
    return fv_vit_check_size(r, "height of the picture", info->native_height, SIDE * PATCH_MOST);
}

static fovea_status read_positions(fv_vit_reader *r)
{
    fv_vit *v = r->v;
    const fv_tensor *t = fv_reader_find(&r->t, r->prefix, r->n->pos, "");
    bool needed = v->rope.rule == FV_ROPE_NONE && r->kind != FV_VIT_BEIT, read = t != NULL;
    if (r->kind == FV_VIT_BEIT && r->n->origin == FV_VIT_HF) {
        FV_TRY(fv_config_bool(&needed, &r->vision, "use_absolute_position_embeddings"));
        read = needed;
    }
    if (!needed && !read)
        return read_native(r);
    if (!t)
        return fv_reader_missing(&r->t, r->n->pos, "of positions");
    /* In YOLOS, the positions of the detection tokens follow those of the patches. */
    const uint32_t last = r->kind == FV_VIT_YOLOS ? v->prefix - v->class_tokens : 0;
    uint64_t rows = t->elements / v->width;
    uint32_t lead = 0;
    const uint64_t shape[2] = {rows, v->width};
    const uint64_t grid[3] = {fv_tensor_dimension(t, 0), fv_tensor_dimension(t, 1), v->width};
    const bool gridded = r->kind == FV_VIT_KIMI;
    if (rows > (uint64_t)SIDE * SIDE + REGISTERS)
        return fv_vit_check_size(r, "length of the position table", UINT32_MAX, SIDE * SIDE);
    FV_TRY(fv_reader_tensor(&t, &r->t, r->prefix, r->n->pos, "", gridded ? 3 : 2,
                            gridded ? grid : shape));
    FV_TRY(fv_vit_check_size(r, "length of the position table",
                             rows > last ? (uint32_t)rows - last : 0, SIDE * SIDE + REGISTERS));
    FV_TRY(cut_table(r, (uint32_t)rows - last, &lead));
    uint32_t patches = v->table_width * v->table_height;
    v->table = (fv_weight){.rows = patches, .cols = v->width};
    fv_weight_add(&v->table, (fv_weight_part){.tensor = t,
                                              .offset = (uint64_t)lead * v->width,
                                              .rows = patches,
                                              .cols = v->width});
    /* the class is not a token here; its row is added to every patch */
    if (r->kind == FV_VIT_POSE) {
        fv_weight_add(&v->embed.b,
                      (fv_weight_part){.tensor = t, .rows = 1, .cols = v->width, .sum = true});
        return FOVEA_OK;
    }
    if (lead == 0 || v->prefix == 0) /* LW-DETR's table has an unused row for a class */
        return FOVEA_OK;
    v->prefix_add = (fv_weight){.rows = v->prefix, .cols = v->width};
    fv_weight_add(&v->prefix_add, (fv_weight_part){.tensor = t, .rows = lead, .cols = v->width});
    if (last)
        fv_weight_add(&v->prefix_add, (fv_weight_part){.tensor = t,
                                                       .offset = (rows - last) * v->width,
                                                       .row0 = lead,
                                                       .rows = last,
                                                       .cols = v->width});
    return FOVEA_OK;
}

static fovea_status read_position_rule(fv_vit_reader *r)
{
    static const char *const names[] = {[FV_POS_PLAIN] = "plain",
                                        [FV_POS_OFFSET] = "offset",
                                        [FV_POS_AA] = "aa",
                                        [FV_POS_BILINEAR] = "bilinear",
                                        [FV_POS_BILINEAR_AA] = "bilinear-aa",
                                        [FV_POS_CROPPED] = "cropped",
                                        [FV_POS_BUCKETS] = "buckets",
                                        [FV_POS_CORNERS] = "corners",
                                        [FV_POS_LINEAR_OFFSET] = "bilinear-offset"};
    const char *name = NULL;
    FV_TRY(fv_config_text(&name, &r->own, "pos_interp"));
    if (name) {
        const int rule = fv_index_of(name, names, sizeof names / sizeof *names);
        if (rule < 0)
            return fv_config_fail(&r->own, "pos_interp",
                                  "plain, offset, aa, bilinear, bilinear-aa, bilinear-offset, "
                                  "cropped, buckets or corners");
        r->v->pos_rule = (enum fv_pos_rule)rule;
        return FOVEA_OK;
    }
    bool registers = fv_reader_find(&r->t, r->prefix, r->n->reg, "") != NULL;
    switch (r->n->origin) {
    case FV_VIT_HF:
        r->v->pos_rule = fv_begins_with(r->type, "hy_v4_vl") ? FV_POS_LINEAR_OFFSET
                                                             : fv_vit_kinds[r->kind].pos_rule;
        return FOVEA_OK;
    case FV_VIT_DINO:
        r->v->pos_rule = registers ? FV_POS_AA : FV_POS_OFFSET;
        return FOVEA_OK;
    case FV_VIT_TIMM:
        if (strcmp(r->type, "dinov2") == 0)
            return fv_fail(
                FOVEA_EFORMAT,
                "%s has tensor names of timm or of DINOv2's authors, who resize positions "
                "differently; add \"fovea\": {\"pos_interp\": \"aa\"} (timm) or \"offset\"",
                r->config->file);
        r->v->pos_rule = FV_POS_AA;
        return FOVEA_OK;
    case FV_VIT_OPENAI:
        r->v->pos_rule = FV_POS_AA; /* as OpenCLIP does */
        return FOVEA_OK;
    }
    return FOVEA_OK;
}

/* Reads the rows before the patches: class, distillation, registers. */
static fovea_status read_prefix(fv_vit_reader *r)
{
    const fv_vit_names *n = r->n;
    fv_vit *v = r->v;
    const uint32_t c = v->width;
    bool hf = n->origin == FV_VIT_HF;
    bool cls = hf ? fv_vit_kinds[r->kind].parts & FV_VIT_HAS_CLASS
                  : fv_reader_find(&r->t, r->prefix, n->cls, "") != NULL;
    bool dist = cls && n->dist &&
                ((hf && r->kind == FV_VIT_DEIT) || fv_reader_find(&r->t, r->prefix, n->dist, ""));
    const fv_tensor *reg = fv_reader_find(&r->t, r->prefix, n->reg, "");
    uint32_t registers = 0;
    if (reg && reg->elements) {
        uint64_t rows = reg->elements / c;
        registers = rows > REGISTERS ? UINT32_MAX : (uint32_t)rows;
        FV_TRY(fv_vit_check_size(r, "number of registers", registers, REGISTERS));
    }
    if (hf && (r->kind == FV_VIT_REGISTERS || r->kind == FV_VIT_DINOV3 || r->kind == FV_VIT_TIPS))
        FV_TRY(fv_config_u32(&registers, &r->vision, "num_register_tokens", 0, REGISTERS));
    v->class_tokens = (cls ? 1 : 0) + (dist ? 1 : 0);
    if (r->kind == FV_VIT_PIXIO) {
        v->class_tokens = 8;
        FV_TRY(fv_config_u32(&v->class_tokens, &r->vision, "n_cls_tokens", 1, REGISTERS));
    }
    v->prefix = v->class_tokens + registers;
    if (v->prefix)
        v->prefix_rows = (fv_weight){.rows = v->prefix, .cols = c};
    if (cls)
        FV_TRY(
            fv_reader_part(&v->prefix_rows, &r->t, r->prefix, n->cls, "",
                           (fv_weight_part){.rows = v->class_tokens - (dist ? 1 : 0), .cols = c}));
    if (dist)
        FV_TRY(fv_reader_part(&v->prefix_rows, &r->t, r->prefix, n->dist, "",
                              (fv_weight_part){.row0 = 1, .rows = 1, .cols = c}));
    if (registers)
        FV_TRY(fv_reader_part(
            &v->prefix_rows, &r->t, r->prefix, n->reg, "",
            (fv_weight_part){.row0 = v->class_tokens, .rows = registers, .cols = c}));
    return FOVEA_OK;
}

/* Reads which class tokens the summary concatenates. */
static fovea_status read_summary(fv_vit_reader *r)
{
    fv_vit *v = r->v;
    uint32_t tokens = 1;
    FV_TRY(fv_config_u32(&tokens, &r->vision, "num_cls_tokens", 1, v->prefix));
    FV_TRY(fv_config_count(&v->summaries, &r->vision, "summary_idxs",
                           sizeof v->summary / sizeof *v->summary));
    return fv_config_u32s(v->summary, v->summaries, &r->vision, "summary_idxs", 0, tokens - 1);
}

/* Folds (x - mean) / std, which C-RADIO applies to its input, into the patch embedding. */
static fovea_status fold_colours(fv_vit_reader *r, const fv_tensor *t)
{
    fv_vit *v = r->v;
    const uint32_t plane = v->patch * v->patch;
    const char *prefix = "radio_model.", *stem = "input_conditioner.";
    const fv_tensor *means, *stds, *shifts;
    float mean[3], std[3], *shift, *row;
    FV_TRY(fv_reader_buffer(&means, &r->t, prefix, stem, "norm_mean", 3));
    FV_TRY(fv_reader_buffer(&stds, &r->t, prefix, stem, "norm_std", 3));
    fv_tensor_read(means, 0, 3, mean);
    fv_tensor_read(stds, 0, 3, std);
    v->embed.w = (fv_weight){.rows = v->width, .cols = 3 * plane};
    for (uint32_t c = 0; c < 3; c++) {
        if (!(fabsf(std[c]) > 0))
            return fv_fail(FOVEA_EFORMAT,
                           "%s: tensor \"%s\" would cause a division by 0; fetch the file again",
                           r->t.source->name, stds->name);
        fv_weight_add(&v->embed.w, (fv_weight_part){.tensor = t,
                                                    .offset = (uint64_t)c * plane,
                                                    .rows = v->width,
                                                    .col0 = c * plane,
                                                    .cols = plane,
                                                    .row_stride = 3ull * plane,
                                                    .factor = 1 / std[c]});
    }
    FV_TRY(fv_model_floats(&shift, &shifts, r->t.m, 1, v->width));
    FV_TRY(FV_MEM_ARRAY(&row, 3ull * plane, FV_MEM_MODEL, "a patch"));
    for (uint32_t i = 0; i < v->width; i++) {
        double sum = 0;
        fv_weight_read(&v->embed.w, i, 1, row);
        for (uint32_t k = 0; k < 3 * plane; k++)
            sum -= (double)row[k] * (double)mean[k / plane];
        shift[i] = (float)sum;
    }
    fv_mem_free(row);
    v->embed.b = fv_weight_of(shifts, 1, v->width);
    return FOVEA_OK;
}

/* Reads the embedding of patches of several frames. A picture counts as equal frames, so that the
 * filters of the frames are added. */
static fovea_status read_frames(fv_vit_reader *r)
{
    fv_vit *v = r->v;
    const uint32_t plane = v->patch * v->patch;
    const fv_tensor *found = fv_reader_find(&r->t, r->prefix, r->n->patch, "weight"), *t, *sums;
    const uint32_t frames = fv_tensor_dimension(found, 2);
    float *sum, *filter;
    FV_TRY(fv_vit_check_size(r, "number of frames", frames, FRAMES));
    const uint64_t shape[5] = {v->width, 3, frames, v->patch, v->patch};
    FV_TRY(fv_reader_tensor(&t, &r->t, r->prefix, r->n->patch, "weight", 5, shape));
    FV_TRY(fv_model_floats(&sum, &sums, r->t.m, v->width, 3 * plane));
    FV_TRY(FV_MEM_ARRAY(&filter, (uint64_t)frames * plane, FV_MEM_MODEL, "a filter"));
    for (uint32_t i = 0; i < 3 * v->width; i++) { /* a filter and a colour */
        fv_tensor_read(t, (uint64_t)i * frames * plane, frames * plane, filter);
        for (uint32_t k = 0; k < plane; k++) {
            double all = 0;
            for (uint32_t frame = 0; frame < frames; frame++)
                all += (double)filter[frame * plane + k];
            sum[(size_t)i * plane + k] = (float)all;
        }
    }
    fv_mem_free(filter);
    v->embed.w = fv_weight_of(sums, v->width, 3 * plane);
    return FOVEA_OK;
}

fovea_status fv_vit_read_embedding(fv_vit_reader *r)
{
    fv_vit *v = r->v;
    const fv_tensor *t;
    const uint64_t conv[4] = {v->width, 3, v->patch, v->patch};
    const uint64_t linear[2] = {v->width, 3ull * v->patch * v->patch};
    const uint32_t rank = fv_reader_find(&r->t, r->prefix, r->n->patch, "weight")->rank;
    if (rank == 5) {
        FV_TRY(read_frames(r));
    } else {
        FV_TRY(fv_reader_tensor(&t, &r->t, r->prefix, r->n->patch, "weight", rank == 2 ? 2 : 4,
                                rank == 2 ? linear : conv));
        v->embed.w = fv_weight_of(t, v->width, 3 * v->patch * v->patch);
    }
    if (r->kind == FV_VIT_NAFLEX) /* (pixel, channel) becomes (channel, pixel) */
        v->embed.w.part[0].taps = 3;
    if (r->kind == FV_VIT_RADIO)
        FV_TRY(fold_colours(r, t));
    if (r->kind == FV_VIT_POSE)
        v->patch_pad = 2;
    bool biased = r->n->origin == FV_VIT_HF
                      ? fv_vit_kinds[r->kind].parts & FV_VIT_HAS_PATCH_BIAS
                      : fv_reader_find(&r->t, r->prefix, r->n->patch, "bias") != NULL;
    if (biased)
        FV_TRY(fv_reader_matrix(&v->embed.b, &r->t, r->prefix, r->n->patch, "bias", 1, v->width));
    if (r->n->embed_norm)
        FV_TRY(fv_vit_read_norm(r, &v->embed_norm, r->prefix, r->n->embed_norm));
    FV_TRY(read_prefix(r));
    if (r->kind == FV_VIT_RADIO)
        FV_TRY(read_summary(r));
    FV_TRY(read_positions(r));
    FV_TRY(read_position_rule(r));
    bool pre = r->n->origin == FV_VIT_TIMM
                   ? fv_reader_find(&r->t, r->prefix, r->n->pre, "weight") != NULL
                   : fv_vit_kinds[r->kind].parts & FV_VIT_HAS_PRE_NORM;
    return pre && r->n->pre ? fv_vit_read_norm(r, &v->pre, r->prefix, r->n->pre) : FOVEA_OK;
}
