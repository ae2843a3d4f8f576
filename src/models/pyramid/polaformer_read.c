/* polaformer_read.c: reads the roles that both PolaFormer families have, from their constructors'
 * fields and the tensors of a checkpoint. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "checkpoint/processor.h"
#include "models/fields.h"
#include "models/pyramid/polaformer.h"
#include "models/segmentation.h"

#define CHANNELS 65536 /* most channels of the picture */
#define HIDDEN (1u << 20)
#define DEPTH 1024
#define PATCH 1024
#define CLASSES (1u << 24)
#define TOKENS (1u << 28)
#define NATIVE 224

/* ---- config.json ---- */

/* Reads the kinds of blocks, such as "LLSS": one letter per stage. If a letter is M, also reads the
 * number of linear blocks. */
static fovea_status read_kinds(fv_pola_reader *r)
{
    static const char key[] = "attn_type";
    const char *text = NULL;
    FV_TRY(fv_config_text(&text, &r->config, key));
    if (!text)
        return FOVEA_OK;
    const size_t letters = strspn(text, "LSM"), digits = strspn(text + letters, "0123456789");
    const bool mixed = strchr(text, 'M') != NULL;
    if (letters != r->p->stages || text[letters + digits] || digits > 4 || (mixed && !digits)) {
        char expected[96];
        snprintf(expected, sizeof expected,
                 "a string of %u letters L, S or M, and with M the number of linear blocks",
                 r->p->stages);
        return fv_config_fail(&r->config, key, expected);
    }
    r->kinds = text;
    for (size_t i = 0; i < digits; i++)
        r->mixed = 10 * r->mixed + (uint32_t)(text[letters + i] - '0');
    return FOVEA_OK;
}

static fovea_status read_picture(fv_pola_reader *r)
{
    fovea_model_info *info = &r->t.m->info;
    fv_pola *p = r->p;
    uint32_t channels = 3, high = 4;
    bool square;
    info->native_width = info->native_height = NATIVE;
    p->patch = high;
    FV_TRY(
        fv_config_size(&info->native_width, &info->native_height, &square, &r->config, "img_size"));
    FV_TRY(fv_config_size(&p->patch, &high, &square, &r->config, "patch_size"));
    FV_TRY(fv_config_u32(&channels, &r->config, "in_chans", 1, CHANNELS));
    if (channels != 3)
        return fv_fail(FOVEA_ENOTSUP, "%s: \"in_chans\" is %u; only RGB models are supported",
                       r->config.file, channels);
    if (p->patch != high || p->patch > PATCH)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: \"patch_size\" is %u x %u; only squares of up to %u are supported",
                       r->config.file, p->patch, high, PATCH);
    const uint64_t tokens =
        (uint64_t)(info->native_width / p->patch) * (info->native_height / p->patch);
    if (tokens == 0 || tokens > TOKENS)
        return fv_fail(
            FOVEA_EFORMAT,
            "%s: \"img_size\" %u x %u with patches of %u gives %llu tokens, which is out of range",
            r->config.file, info->native_width, info->native_height, p->patch,
            (unsigned long long)tokens);
    p->stage[0].native_width = info->native_width / p->patch;
    p->stage[0].native_height = info->native_height / p->patch;
    return FOVEA_OK;
}

fovea_status fv_pola_read_sizes(fv_pola_reader *r)
{
    fv_pola *p = r->p;
    uint32_t depth[FV_POLA_STAGES];
    FV_TRY(fv_config_count(&p->stages, &r->config, "depths", FV_POLA_STAGES));
    FV_TRY(fv_config_u32s(depth, p->stages, &r->config, "depths", 1, DEPTH));
    for (uint32_t i = 0; i < p->stages; i++)
        p->stage[i].depth = depth[i];
    FV_TRY(read_picture(r));
    FV_TRY(read_kinds(r));
    p->kernel = 5;
    p->alpha = 4;
    FV_TRY(fv_config_u32(&p->kernel, &r->config, "kernel_size", 1, FV_DWCONV_LARGEST));
    if (p->kernel % 2 == 0)
        return fv_config_fail(&r->config, "kernel_size", "odd");
    FV_TRY(fv_config_float(&p->alpha, &r->config, "alpha", 0, 1000));
    return fv_config_float(&p->qk_scale, &r->config, "qk_scale", 1e-9, 1e9);
}

/* Reads the widths of the MLPs, rounded like Python's int(width * ratio). */
static fovea_status read_hidden(fv_pola_reader *r, const char *key)
{
    const json_t *ratio = fv_config_get(&r->config, key);
    const bool listed = json_is_array(ratio);
    bool good = !listed || json_array_size(ratio) == r->p->stages;
    for (uint32_t i = 0; good && i < r->p->stages; i++) {
        fv_pola_stage *s = &r->p->stage[i];
        const json_t *item = listed ? json_array_get(ratio, i) : ratio;
        double of_width = 4;
        good = !item || fv_json_number(&of_width, item);
        const double hidden = (double)s->width * of_width;
        good = good && hidden >= 1 && hidden <= HIDDEN;
        if (good)
            s->hidden = (uint32_t)hidden;
    }
    if (good)
        return FOVEA_OK;
    char expected[96];
    snprintf(
        expected, sizeof expected,
        "a number, or a list of one for each of %u stages, that gives MLPs of 1 to %u channels",
        r->p->stages, HIDDEN);
    return fv_config_fail(&r->config, key, expected);
}

fovea_status fv_pola_read_widths(fv_pola_reader *r, const uint32_t *width, const char *mlp)
{
    uint32_t heads[FV_POLA_STAGES];
    FV_TRY(fv_config_u32s(heads, r->p->stages, &r->config, "num_heads", 1, UINT16_MAX));
    for (uint32_t i = 0; i < r->p->stages; i++) {
        fv_pola_stage *s = &r->p->stage[i];
        if (width[i] % heads[i] != 0)
            return fv_fail(FOVEA_EFORMAT,
                           "%s: \"num_heads\": %u heads do not divide the %u channels of stage %u",
                           r->config.file, heads[i], width[i], i + 1);
        s->width = width[i];
        s->heads = heads[i];
    }
    return read_hidden(r, mlp);
}

/* ---- tensors ---- */

fovea_status fv_pola_read_conv(fv_layer *l, fv_pola_reader *r, const char *prefix, const char *stem,
                               const uint32_t shape[3], bool by_tap)
{
    const uint32_t taps = shape[2] * shape[2], cols = shape[1] * taps;
    const uint64_t whole[4] = {shape[0], shape[1], shape[2], shape[2]};
    const fv_tensor *t;
    FV_TRY(fv_reader_tensor(&t, &r->t, prefix, stem, "weight", 4, whole));
    l->w = (fv_weight){.rows = shape[0], .cols = cols};
    fv_weight_add(
        &l->w,
        (fv_weight_part){.tensor = t, .rows = shape[0], .cols = cols, .taps = by_tap ? taps : 0});
    return fv_reader_matrix(&l->b, &r->t, prefix, stem, "bias", 1, shape[0]);
}

fovea_status fv_pola_read_fused(fv_pola_fused *out, fv_pola_reader *r, const fv_pola_stage *s,
                                const char *stem, uint32_t blocks)
{
    const uint64_t shape[2] = {(uint64_t)blocks * s->width, s->width};
    bool biased = fv_reader_find(&r->t, r->block, stem, "bias") != NULL;
    *out = (fv_pola_fused){.width = s->width};
    FV_TRY(fv_config_bool(&biased, &r->config, "qkv_bias"));
    FV_TRY(fv_reader_tensor(&out->w, &r->t, r->block, stem, "weight", 2, shape));
    return biased ? fv_reader_tensor(&out->b, &r->t, r->block, stem, "bias", 1, shape) : FOVEA_OK;
}

void fv_pola_empty(fv_layer *l, uint32_t blocks, uint32_t width, bool biased)
{
    l->w = (fv_weight){.rows = blocks * width, .cols = width};
    l->b = (fv_weight){.rows = biased ? 1 : 0, .cols = blocks * width};
}

void fv_pola_cut(fv_layer *l, const fv_pola_fused *f, uint32_t from, uint32_t to, uint32_t count)
{
    const uint32_t c = f->width;
    fv_weight_add(&l->w, (fv_weight_part){.tensor = f->w,
                                          .offset = (uint64_t)from * c * c,
                                          .row0 = to * c,
                                          .rows = count * c,
                                          .cols = c});
    if (f->b)
        fv_weight_add(&l->b, (fv_weight_part){.tensor = f->b,
                                              .offset = (uint64_t)from * c,
                                              .rows = 1,
                                              .col0 = to * c,
                                              .cols = count * c});
}

fovea_status fv_pola_find_block(fv_pola_reader *r, uint32_t i, uint32_t j, const char *prefix,
                                const char *linear, const char *softmax)
{
    fv_pola_block *b = &r->p->stage[i].block[j];
    snprintf(r->block, sizeof r->block, "%s%u.", prefix, j);
    b->linear = fv_reader_find(&r->t, r->block, linear, "weight") != NULL;
    b->reduction = 1;
    if (!r->kinds)
        return FOVEA_OK;
    const char kind = r->kinds[i];
    const bool expected = kind == 'L' || (kind == 'M' && j < r->mixed);
    if (b->linear != expected)
        return fv_fail(FOVEA_EFORMAT,
                       "%s: by \"attn_type\" \"%.20s\", block %u of stage %u is %s, but %s has no "
                       "\"%s%sweight\"",
                       r->config.file, r->kinds, j, i + 1, expected ? "linear" : "softmax",
                       r->t.source->name, r->block, expected ? linear : softmax);
    return FOVEA_OK;
}

/* Reads the scale and the power of every channel, as two rows. */
static fovea_status read_learned(fv_pola_reader *r, const fv_pola_stage *s, fv_pola_block *b)
{
    const uint32_t c = s->width;
    const uint64_t by_head[2] = {s->heads, fv_pola_head_dim(s)};
    const fv_tensor *power;
    b->learned = (fv_weight){.rows = 2, .cols = c};
    FV_TRY(fv_reader_part(&b->learned, &r->t, r->block, "attn.scale", "",
                          (fv_weight_part){.rows = 1, .cols = c}));
    FV_TRY(fv_reader_tensor(&power, &r->t, r->block, "attn.power", "", 2, by_head));
    fv_weight_add(&b->learned, (fv_weight_part){.tensor = power, .row0 = 1, .rows = 1, .cols = c});
    return FOVEA_OK;
}

static fovea_status read_linear(fv_pola_reader *r, const fv_pola_stage *s, fv_pola_block *b,
                                uint64_t keys)
{
    const uint32_t d = fv_pola_head_dim(s), k = r->p->kernel;
    const uint64_t filters[3] = {d, k, k};
    const fv_tensor *t;
    if (d % 2 != 0)
        return fv_fail(FOVEA_EFORMAT,
                       "%s: \"num_heads\" gives heads of %u channels; the number must be even, "
                       "because a linear block halves its values",
                       r->config.file, d);
    FV_TRY(read_learned(r, s, b));
    FV_TRY(fv_reader_matrix(&b->positions, &r->t, r->block, "attn.positional_encoding", "",
                            (uint32_t)keys, s->width));
    FV_TRY(fv_reader_tensor(&t, &r->t, r->block, "attn.dwc.", "weight", 3, filters));
    b->dwc.w = fv_weight_of(t, d, k * k);
    return fv_reader_matrix(&b->dwc.b, &r->t, r->block, "attn.dwc.", "bias", 1, d);
}

fovea_status fv_pola_read_block(fv_pola_reader *r, const fv_pola_stage *s, fv_pola_block *b,
                                uint64_t keys)
{
    const uint32_t c = s->width;
    const char *p = r->block;
    FV_TRY(fv_reader_norm(&b->ln1, &r->t, p, "norm1.", c));
    if (b->linear)
        FV_TRY(read_linear(r, s, b, keys));
    FV_TRY(fv_reader_linear(&b->proj, &r->t, p, "attn.proj.", c, c));
    FV_TRY(fv_reader_norm(&b->ln2, &r->t, p, "norm2.", c));
    FV_TRY(fv_reader_linear(&b->fc1, &r->t, p, "mlp.fc1.", s->hidden, c));
    return fv_reader_linear(&b->fc2, &r->t, p, "mlp.fc2.", c, s->hidden);
}

uint32_t fv_pola_new_classes(const fv_pola_reader *r)
{
    return r->t.m->additions ? r->t.m->additions->classes : 0;
}

static fovea_status read_head(fv_pola_reader *r)
{
    fv_pola *p = r->p;
    const uint32_t width = p->stage[p->stages - 1].width, wanted = fv_pola_new_classes(r);
    const fv_tensor *t = fv_reader_find(&r->outer, "", r->head, "weight");
    uint32_t classes = fv_tensor_dimension(t, 0);
    if (t)
        FV_TRY(fv_config_u32(&classes, &r->config, "num_classes", 0, CLASSES));
    if (wanted && fv_tensor_dimension(t, 0) != wanted)
        FV_TRY(fv_reader_put_head(&r->outer, r->head, wanted, width));
    classes = wanted ? wanted : classes;
    return classes ? fv_reader_linear(&p->head, &r->outer, "", r->head, classes, width) : FOVEA_OK;
}

/* ---- the model ---- */

fovea_status fv_pola_begin(fv_pola_reader *r, fovea_model *m, const fv_source *source,
                           const fv_config *config)
{
    *r = (fv_pola_reader){
        .t = {.m = m, .source = source, .config = config->file}, .whole = config, .head = "head."};
    snprintf(m->info.type, sizeof m->info.type, "%s", m->family->name);
    FV_TRY(fv_decoder_backbone(&r->config, &r->prefix, config, m->info.type));
    FV_TRY(fv_mem_alloc(&m->roles, sizeof(fv_pola), FV_MEM_MODEL, "roles"));
    r->p = m->roles;
    fv_reader_begin(&r->t);
    r->outer = r->t;
    return FOVEA_OK;
}

fovea_status fv_pola_start(fv_pola_reader *r, fovea_model *m, const fv_source *source,
                           const fv_config *config, const char *first)
{
    FV_TRY(fv_pola_begin(r, m, source, config));
    FV_TRY(fv_fields_check_pyramid(&r->config, config));
    /* if it is missing, its reader fails */
    fv_reader_unwrap(&r->t, r->prefix, first, "weight");
    FV_TRY(fv_reader_enter(&r->t, r->prefix));
    r->outer = r->t;
    return FOVEA_OK;
}

fovea_status fv_pola_finish(fv_pola_reader *r)
{
    const fv_pola *p = r->p;
    const fv_pola_stage *last = &p->stage[p->stages - 1];
    fovea_model_info *info = &r->t.m->info;
    uint32_t width[FV_POLA_STAGES];
    FV_TRY(read_head(r));
    info->width = last->width;
    info->heads = last->heads;
    for (uint32_t i = 0; i < p->stages; i++) {
        info->depth += p->stage[i].depth;
        width[i] = p->stage[i].width;
    }
    info->patch = p->patch;
    info->classes = p->head.w.rows;
    r->t.m->preprocess =
        fv_processor_default(FV_PROCESSOR_SWIN, info->native_width, info->native_height);
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < p->stages; i++)
        blocks += p->stage[i].depth;
    FV_TRY(FV_MEM_ARRAY(&r->t.m->outputs, 2ull * p->stages + 5 + FV_DECODER_OUTPUTS + 2 * blocks,
                        FV_MEM_MODEL, "list of outputs"));
    FV_TRY(fv_decoder_read(r->t.m, r->t.source, r->whole, width, p->stages));
    if (!r->t.m->decoder)
        FV_TRY(fv_segmentation_read(r->t.m, r->t.source, r->config.file, width, p->stages));
    FV_TRY(fv_decoder_list(r->t.m));
    /* Unread weights would make the result silently wrong; only other heads may be skipped. */
    fv_reader_leave(&r->outer, "", "head");
    return fv_reader_all_used(&r->outer, "");
}

fovea_status fv_pola_list_blocks(const fv_pola_reader *r)
{
    for (uint32_t i = 0; i < r->p->stages; i++)
        FV_TRY(fv_model_add_blocks(r->t.m, i, r->p->stage[i].depth));
    return FOVEA_OK;
}

void fv_pola_release(fovea_model *m)
{
    fv_pola *p = m->roles;
    fv_decoder_release(m);
    for (uint32_t i = 0; p && i < FV_POLA_STAGES; i++)
        fv_mem_free(p->stage[i].block);
    fv_mem_free(p);
    m->roles = NULL;
}
