/* vit_heads.c: reads the parts after the blocks of a ViT: norm, pooling, heads. */
#include <string.h>

#include "base/num.h"
#include "models/vit/vit_reader.h"

#define CLASSES (1u << 24)

static fovea_status read_map(fv_vit_reader *r)
{
    const fv_vit_names *n = r->n;
    const uint32_t c = r->v->width;
    const char *p = r->prefix;
    fv_vit *v = r->v;
    v->pool = FV_POOL_MAP;
    uint32_t hidden;
    FV_TRY(fv_reader_dimension(&hidden, &r->t, p, n->map_fc1, "weight", 0,
                               "width of the pooling MLP", FV_VIT_HIDDEN_MOST));
    FV_TRY(fv_reader_matrix(&v->map.probe, &r->t, p, n->probe, "", 1, c));
    /* timm pools only the patches, except in one of its models and in EVA's descendants, whose
     * pooling has 8 heads. */
    v->map.heads = r->kind == FV_VIT_EVA ? 8 : v->heads;
    v->map.patches =
        n->origin == FV_VIT_TIMM && r->kind != FV_VIT_EVA && !fv_begins_with(r->type, "test_vit3");
    if (c % v->map.heads)
        return fv_fail(FOVEA_EFORMAT, "%s: %u heads of the pooling do not divide its width of %u",
                       r->config->file, v->map.heads, c);
    if (n->map_qkv) {
        FV_TRY(fv_vit_cut_qkv(r, &v->map.q, &v->map.kv, p, n->map_qkv, true, 0));
    } else {
        FV_TRY(fv_reader_linear(&v->map.q, &r->t, p, n->map_q, c, c));
        FV_TRY(fv_reader_linear(&v->map.kv, &r->t, p, n->map_kv, 2 * c, c));
    }
    FV_TRY(fv_reader_linear(&v->map.out, &r->t, p, n->map_proj, c, c));
    FV_TRY(fv_reader_norm(&v->map.ln, &r->t, p, n->map_ln, r->v->width));
    FV_TRY(fv_reader_linear(&v->map.fc1, &r->t, p, n->map_fc1, hidden, c));
    return fv_reader_linear(&v->map.fc2, &r->t, p, n->map_fc2, c, hidden);
}

/* Reads the last norm of transformers' BEiT, which is applied to the mean of the patches or to all
 * tokens. A file with only the encoder may lack the norm of the mean. */
static fovea_status read_beit_pool(fv_vit_reader *r)
{
    const fv_vit_names *n = r->n;
    fv_vit *v = r->v;
    bool mean = true;
    FV_TRY(fv_config_bool(&mean, &r->vision, "use_mean_pooling"));
    if (!mean) {
        v->pool = FV_POOL_CLS;
        return fv_reader_norm(&v->post, &r->t, r->prefix, n->post, v->width);
    }
    if (!fv_reader_find(&r->t, r->prefix, n->fc_norm, "weight") &&
        !fv_reader_find(&r->t, "", n->head, "weight"))
        return FOVEA_OK;
    v->pool = FV_POOL_MEAN;
    return fv_reader_norm(&v->fc_norm, &r->t, r->prefix, n->fc_norm, v->width);
}

/* Returns whether no norm follows the last block, as in Perception Encoders and in encoders of
 * larger models. */
static bool ends_in_blocks(const fv_vit_reader *r)
{
    return r->kind == FV_VIT_EVA || strstr(r->type, "_radio_v") || strstr(r->type, "_intern300m_");
}

/* Reads "global_pool" of config.json or of "model_args". If it is missing, a norm after the pooling
 * shows that patches are averaged. FV_POOL_NONE means that the pooling depends on whether there is
 * a class token. */
static fovea_status read_timm_pool(fv_vit_reader *r)
{
    static const char *const names[] = {"", "token", "avg", "max", "avgmax"};
    static const uint8_t pools[] = {FV_POOL_NONE, FV_POOL_NONE, FV_POOL_MEAN, FV_POOL_LARGEST,
                                    FV_POOL_MEAN_LARGEST};
    const char *pool = "";
    fv_config args;
    FV_TRY(fv_config_text(&pool, r->config, "global_pool"));
    FV_TRY(fv_config_section(&args, r->config, "model_args"));
    if (args.object)
        FV_TRY(fv_config_text(&pool, &args, "global_pool"));
    const int known = fv_index_of(pool, names, sizeof names / sizeof *names);
    if (known < 0)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: \"global_pool\" is \"%.20s\"; only token, avg, max, avgmax and map "
                       "(with tensors attn_pool) are supported",
                       r->config->file, pool);
    r->v->pool = *pool || !fv_weight_present(&r->v->fc_norm.w) ? (enum fv_vit_pool)pools[known]
                                                               : FV_POOL_MEAN;
    return FOVEA_OK;
}

fovea_status fv_vit_read_pool(fv_vit_reader *r)
{
    const fv_vit_names *n = r->n;
    fv_vit *v = r->v;
    const bool timm = n->origin == FV_VIT_TIMM;
    /* no last norm and no pooling, because its outputs are `summary` and the patches */
    if (r->kind == FV_VIT_RADIO)
        return FOVEA_OK;
    if (n->origin == FV_VIT_HF && r->kind == FV_VIT_BEIT)
        return read_beit_pool(r);
    if (r->kind == FV_VIT_INTERN) {
        bool mean = true; /* only in a classifier; without a last norm */
        FV_TRY(fv_config_bool(&mean, &r->vision, "use_mean_pooling"));
        return mean ? FOVEA_OK : fv_reader_norm(&v->post, &r->t, r->prefix, n->post, v->width);
    }
    if (fv_reader_find(&r->t, r->prefix, n->fc_norm, "weight"))
        FV_TRY(fv_reader_norm(&v->fc_norm, &r->t, r->prefix, n->fc_norm, v->width));
    /* Some of timm's models have a norm after the pooling instead of the last norm, and some have
     * no norm. */
    const bool without =
        !n->post || (timm && (fv_weight_present(&v->fc_norm.w) || ends_in_blocks(r)));
    if (!without || fv_reader_find(&r->t, r->prefix, n->post, "weight"))
        FV_TRY(fv_vit_read_norm(r, &v->post, r->prefix, n->post));
    v->post_on_pooled = !timm && fv_vit_kinds[r->kind].parts & FV_VIT_HAS_POOLED_NORM;
    if (fv_reader_find(&r->t, r->prefix, n->probe, ""))
        return read_map(r);
    if (fv_reader_find(&r->t, r->prefix, n->pooler, "weight")) {
        v->pool = FV_POOL_CLS_TANH;
        return fv_reader_linear(&v->pooler, &r->t, r->prefix, n->pooler, v->width, v->width);
    }
    if (timm)
        FV_TRY(read_timm_pool(r));
    if (v->pool != FV_POOL_NONE)
        return FOVEA_OK;
    const bool without_pool =
        n->origin == FV_VIT_HF &&
        (r->kind == FV_VIT_PLAIN || r->kind == FV_VIT_DEIT || r->kind == FV_VIT_PIXIO ||
         r->kind == FV_VIT_GIT || r->kind == FV_VIT_MGP);
    v->pool = v->class_tokens && !without_pool ? FV_POOL_CLS : FV_POOL_NONE;
    if (r->kind == FV_VIT_BLIP) /* the pooled row is normalised a second time */
        v->fc_norm = v->post;
    return FOVEA_OK;
}

/* Finds the root of a head: the root of the encoder, or a shorter prefix. With a shorter prefix,
 * the head must read `width` channels. */
static bool find_head(fv_tensor_reader *out, const fv_vit_reader *r, const char *stem,
                      uint32_t width)
{
    if (!stem || !fv_reader_find_outside(out, &r->t, stem, "weight"))
        return false;
    return strcmp(out->root, r->t.root) == 0 ||
           fv_tensor_dimension(fv_reader_find(out, "", stem, "weight"), 1) == width;
}

/* Reads two heads whose logits are averaged as one head: half of each weight, concatenated, and
 * half the sum of the biases. */
static fovea_status read_head_pair(fv_vit_reader *r, fv_tensor_reader *t)
{
    const fv_vit_names *n = r->n;
    fv_vit *v = r->v;
    const uint32_t c = v->width;
    uint32_t classes;
    FV_TRY(fv_reader_dimension(&classes, t, "", n->head_cls, "weight", 0, "number of classes",
                               CLASSES));
    v->head = FV_HEAD_CLS_DIST;
    v->classifier.w = (fv_weight){.rows = classes, .cols = 2 * c};
    v->classifier.b = (fv_weight){.rows = 1, .cols = classes};
    FV_TRY(fv_reader_part(&v->classifier.w, t, "", n->head_cls, "weight",
                          (fv_weight_part){.rows = classes, .cols = c, .factor = 0.5f}));
    FV_TRY(fv_reader_part(&v->classifier.w, t, "", n->head_dist, "weight",
                          (fv_weight_part){.rows = classes, .col0 = c, .cols = c, .factor = 0.5f}));
    FV_TRY(fv_reader_part(&v->classifier.b, t, "", n->head_cls, "bias",
                          (fv_weight_part){.rows = 1, .cols = classes, .factor = 0.5f}));
    return fv_reader_part(
        &v->classifier.b, t, "", n->head_dist, "bias",
        (fv_weight_part){.rows = 1, .cols = classes, .factor = 0.5f, .sum = true});
}

static enum fv_vit_head head_form(const fv_vit_reader *r)
{
    const fv_vit *v = r->v;
    switch (r->n->origin) {
    case FV_VIT_HF:
        break;
    case FV_VIT_DINO:
        return FV_HEAD_CLS_MEAN;
    case FV_VIT_TIMM:
    case FV_VIT_OPENAI:
        return v->pool == FV_POOL_NONE ? FV_HEAD_MEAN : FV_HEAD_POOL;
    }
    return fv_vit_kinds[r->kind].head;
}

static fovea_status put_head(fv_vit_reader *r, uint32_t classes)
{
    const bool both = r->v->head == FV_HEAD_CLS_MEAN;
    if (!r->n->head || (r->v->head == FV_HEAD_POOL && r->v->pool == FV_POOL_NONE))
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: checkpoints with this one's tensor names have no classification head",
                       r->t.source->name);
    return fv_reader_put_head(&r->t, r->n->head, classes, r->v->width * (both ? 2 : 1));
}

/* Logs that the configuration describes a head, but the checkpoint has no tensors of it. */
static fovea_status tell_missing(const fv_vit_reader *r)
{
    static const char classifier[] = "ForImageClassification";
    const json_t *list = fv_config_get(r->config, "architectures");
    const char *name = json_string_value(json_array_get(list, 0));
    uint32_t classes = 0;
    if (fv_config_get(r->config, "architecture"))
        FV_TRY(fv_config_u32(&classes, r->config, "num_classes", 0, UINT32_MAX));
    if (!r->n->head || !(classes || (name && fv_ends_with(name, classifier))))
        return FOVEA_OK;
    fv_log("%s has no tensor \"%sweight\", though %s says %s; the model has no logits",
           r->t.source->name, r->n->head, r->config->file, classes ? "that it has classes" : name);
    return FOVEA_OK;
}

fovea_status fv_vit_read_head(fv_vit_reader *r)
{
    const fv_vit_names *n = r->n;
    fv_vit *v = r->v;
    fv_tensor_reader t;
    if (r->kind != FV_VIT_PIXIO && v->class_tokens == 2 && find_head(&t, r, n->head_dist, v->width))
        return read_head_pair(r, &t);
    const uint32_t wanted = r->t.m->additions ? r->t.m->additions->classes : 0;
    const enum fv_vit_head form = head_form(r);
    const uint32_t cols = form == FV_HEAD_CLS_MEAN ? 2 * v->width : v->width;
    bool found = find_head(&t, r, n->head, cols);
    if (!found && !wanted)
        return tell_missing(r);
    v->head = form;
    if (wanted &&
        (!found || fv_tensor_dimension(fv_reader_find(&t, "", n->head, "weight"), 0) != wanted)) {
        FV_TRY(put_head(r, wanted));
        t = r->t;
    }
    uint32_t classes;
    FV_TRY(
        fv_reader_dimension(&classes, &t, "", n->head, "weight", 0, "number of classes", CLASSES));
    FV_TRY(fv_reader_matrix(&v->classifier.w, &t, "", n->head, "weight", classes, cols));
    return fv_reader_find(&t, "", n->head, "bias")
               ? fv_reader_matrix(&v->classifier.b, &t, "", n->head, "bias", 1, classes)
               : FOVEA_OK;
}

fovea_status fv_vit_read_embeds(fv_vit_reader *r)
{
    fv_vit *v = r->v;
    fv_tensor_reader outside;
    uint32_t out;
    if (r->n->embeds && fv_reader_find_outside(&outside, &r->t, r->n->embeds, "")) {
        FV_TRY(fv_reader_dimension(&out, &outside, "", r->n->embeds, "", 0,
                                   "width of the projection", FV_VIT_WIDTH_MOST));
        return fv_reader_matrix(&v->embeds.w, &outside, "", r->n->embeds, "", out, v->width);
    }
    const fv_tensor *t;
    t = fv_reader_find(&r->t, r->prefix, r->n->embeds_transposed, "");
    if (!t)
        return FOVEA_OK;
    out = fv_tensor_dimension(t, 1);
    const uint64_t shape[2] = {v->width, out};
    FV_TRY(fv_vit_check_size(r, "width of the projection", out, FV_VIT_WIDTH_MOST));
    FV_TRY(fv_reader_tensor(&t, &r->t, r->prefix, r->n->embeds_transposed, "", 2, shape));
    v->embeds.w = (fv_weight){.rows = out, .cols = v->width};
    fv_weight_add(
        &v->embeds.w,
        (fv_weight_part){
            .tensor = t, .rows = out, .cols = v->width, .row_stride = 1, .col_stride = out});
    return FOVEA_OK;
}

fovea_status fv_vit_read_merger(fv_vit_reader *r)
{
    const fv_vit_names *n = r->n;
    fv_vit *v = r->v;
    uint32_t out, side = 2;
    if (!n->merger_norm || !fv_reader_find(&r->t, r->prefix, n->merger_norm, "weight"))
        return FOVEA_OK;
    FV_TRY(fv_config_u32(&side, &r->vision, "spatial_merge_size", 1, FV_VIT_MERGED_MOST));
    FV_TRY(fv_vit_read_norm(r, &v->merger.norm, r->prefix, n->merger_norm));
    const uint32_t joined = side * side * v->width;
    FV_TRY(fv_reader_linear(&v->merger.fc1, &r->t, r->prefix, n->merger_fc1, joined, joined));
    FV_TRY(fv_reader_dimension(&out, &r->t, r->prefix, n->merger_fc2, "weight", 0,
                               "width of the merger", FV_VIT_WIDTH_MOST));
    FV_TRY(fv_reader_linear(&v->merger.fc2, &r->t, r->prefix, n->merger_fc2, out, joined));
    v->merger.side = side;
    return FOVEA_OK;
}
