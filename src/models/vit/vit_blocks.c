/* vit_blocks.c: reads the blocks of a ViT: attention, its gates and learned vectors, MLP. */
#include "graph/attention.h"
#include "models/vit/vit_reader.h"
#include "ops/mech_traits.h"

#define LEARNED 2
#define MAP_Q "attn.map_q." /* hedgehog's map: (heads, d, d), and an optional bias (C) */
#define MAP_K "attn.map_k."
#define VECTORS "attn.vectors" /* learned vectors of the attention's feature map: (vectors, C) */

/* Returns the rows (of a bias: columns) of q or k, from `offset` of a tensor on, with channels
 * paired for RoPE. */
static fv_weight_part rotated(const fv_tensor *t, uint64_t offset, uint32_t c, bool bias,
                              uint32_t paired)
{
    return (fv_weight_part){.tensor = t,
                            .offset = offset,
                            .rows = bias ? 1 : c,
                            .cols = c,
                            .paired_rows = bias ? 0 : paired,
                            .paired_cols = bias ? paired : 0};
}

/* Reads the mask by which DINOv3's authors multiply the bias of q, k and v: ones, except zeros for
 * k. */
static fovea_status read_mask(bool *masked, fv_vit_reader *r, const char *prefix, const char *stem)
{
    const uint32_t c = r->v->width;
    const fv_tensor *t;
    *masked = false;
    if (!fv_reader_find(&r->t, prefix, stem, "bias_mask"))
        return FOVEA_OK;
    FV_TRY(fv_reader_buffer(&t, &r->t, prefix, stem, "bias_mask", 3 * c));
    for (uint32_t i = 0; i < 3 * c; i++) {
        float value;
        fv_tensor_read(t, i, 1, &value);
        *masked = i == c ? value == 0 : *masked;
        const float expected = i / c == 1 && *masked ? 0 : 1;
        if (!(value == expected))
            return fv_fail(FOVEA_EFORMAT,
                           "%s: tensor \"%s\" holds %g at index %u, where %g is expected (1, and 0 "
                           "for k); fetch the file again",
                           r->t.source->name, t->name, (double)value, i, (double)expected);
    }
    return FOVEA_OK;
}

/* Extracts the rows, or biases, of q, k and v from one tensor. */
static fovea_status cut(fv_vit_reader *r, fv_weight *q, fv_weight *kv, const char *prefix,
                        const char *stem, bool bias, uint32_t paired)
{
    const uint32_t c = r->v->width, cols = bias ? 1 : c;
    const fv_tensor *t;
    bool masked = false;
    const uint64_t shape[2] = {3ull * c, cols};
    FV_TRY(fv_reader_tensor(&t, &r->t, prefix, stem, bias ? "bias" : "weight", 2, shape));
    if (bias)
        FV_TRY(read_mask(&masked, r, prefix, stem));
    *q = (fv_weight){.rows = bias ? 1 : c, .cols = c};
    *kv = (fv_weight){.rows = bias ? 1 : 2 * c, .cols = bias ? 2 * c : c};
    fv_weight_add(q, rotated(t, 0, c, bias, paired));
    if (!paired && !masked) {
        fv_weight_add(
            kv, (fv_weight_part){
                    .tensor = t, .offset = (uint64_t)c * cols, .rows = kv->rows, .cols = kv->cols});
        return FOVEA_OK;
    }
    if (!masked)
        fv_weight_add(kv, rotated(t, (uint64_t)c * cols, c, bias, paired));
    fv_weight_add(kv, (fv_weight_part){.tensor = t,
                                       .offset = 2ull * c * cols,
                                       .row0 = bias ? 0 : c,
                                       .rows = bias ? 1 : c,
                                       .col0 = bias ? c : 0,
                                       .cols = c});
    return FOVEA_OK;
}

fovea_status fv_vit_cut_qkv(fv_vit_reader *r, fv_layer *q, fv_layer *kv, const char *prefix,
                            const char *stem, bool bias, uint32_t paired)
{
    FV_TRY(cut(r, &q->w, &kv->w, prefix, stem, false, paired));
    return bias ? cut(r, &q->b, &kv->b, prefix, stem, true, paired) : FOVEA_OK;
}

/* Reads a vector as columns [col0, col0 + C) of the bias *b, which has `cols` columns. */
static fovea_status read_bias(fv_vit_reader *r, fv_weight *b, uint32_t cols, const char *stem,
                              const char *part, uint32_t col0, uint32_t paired)
{
    if (!fv_weight_present(b))
        *b = (fv_weight){.rows = 1, .cols = cols};
    return fv_reader_part(
        b, &r->t, r->block, stem, part,
        (fv_weight_part){.rows = 1, .col0 = col0, .cols = r->v->width, .paired_cols = paired});
}

/* Reads biases from separate tensors. The bias of k is zero if it does not exist. */
static fovea_status read_biases(fv_vit_reader *r, fv_vit_block *b)
{
    const fv_vit_names *n = r->n;
    const uint32_t c = r->v->width;
    const char *part = n->qkv ? "" : "bias";
    if (r->q_bias)
        FV_TRY(read_bias(r, &b->q.b, c, n->qkv ? n->q_bias : n->q, part, 0, r->paired));
    if (r->k_bias)
        FV_TRY(read_bias(r, &b->kv.b, 2 * c, n->k, part, 0, r->paired));
    if (r->v_bias)
        FV_TRY(read_bias(r, &b->kv.b, 2 * c, n->qkv ? n->v_bias : n->v, part, c, 0));
    return FOVEA_OK;
}

/* Reads q, k and v from separate tensors, and stacks k and v. */
static fovea_status join_kv(fv_vit_reader *r, fv_vit_block *b)
{
    const uint32_t c = r->v->width;
    const fv_vit_names *n = r->n;
    b->q.w = (fv_weight){.rows = c, .cols = c};
    b->kv.w = (fv_weight){.rows = 2 * c, .cols = c};
    const fv_weight_part turned = {.rows = c, .cols = c, .paired_rows = r->paired};
    FV_TRY(fv_reader_part(&b->q.w, &r->t, r->block, n->q, "weight", turned));
    FV_TRY(fv_reader_part(&b->kv.w, &r->t, r->block, n->k, "weight", turned));
    return fv_reader_part(&b->kv.w, &r->t, r->block, n->v, "weight",
                          (fv_weight_part){.row0 = c, .rows = c, .cols = c});
}

static fovea_status read_sla(fv_vit_reader *r, fv_weight *w, const char *stem)
{
    const uint32_t c = r->v->width, heads = r->v->linear.heads, d = c / heads;
    const uint64_t shape[2] = {r->sla == FV_VIT_SLA_Q_BLOCKDIAG ? d : c, heads};
    const fv_tensor *t;
    FV_TRY(fv_reader_tensor(&t, &r->t, r->block, stem, "weight", 2, shape));
    *w = (fv_weight){.rows = heads, .cols = c};
    if (r->sla != FV_VIT_SLA_Q_BLOCKDIAG) {
        fv_weight_add(
            w, (fv_weight_part){
                   .tensor = t, .rows = heads, .cols = c, .row_stride = 1, .col_stride = heads});
        return FOVEA_OK;
    }
    /* In each row, only the channels of the row's own head differ from 0. */
    float *wide;
    const fv_tensor *spread;
    FV_TRY(fv_model_floats(&wide, &spread, r->t.m, heads, c));
    for (uint32_t i = 0; i < c; i++)
        fv_tensor_read(t, (uint64_t)(i % d) * heads + i / d, 1, wide + (size_t)i / d * c + i);
    *w = fv_weight_of(spread, heads, c);
    return FOVEA_OK;
}

/* Adds hedgehog's maps, initialised as identity matrices. */
static fovea_status put_maps(fv_vit_reader *r)
{
    static const char *const stems[] = {MAP_Q, MAP_K};
    const uint32_t heads = r->v->linear.heads;
    for (int i = 0; i < 2; i++)
        if (!fv_reader_find(&r->t, r->block, stems[i], "weight"))
            FV_TRY(fv_reader_put_identity(&r->t, r->block, stems[i], "weight", heads,
                                          r->v->width / heads));
    return FOVEA_OK;
}

static fovea_status read_map(fv_vit_reader *r, fv_layer *l, const char *stem)
{
    const uint32_t c = r->v->width, d = c / r->v->linear.heads;
    const uint64_t shape[3] = {c / d, d, d};
    const fv_tensor *t;
    FV_TRY(fv_reader_tensor(&t, &r->t, r->block, stem, "weight", 3, shape));
    l->w = (fv_weight){.rows = c, .cols = c};
    fv_weight_add(&l->w, (fv_weight_part){.tensor = t,
                                          .rows = c,
                                          .cols = c,
                                          .diagonal = d,
                                          .row_stride = d,
                                          .paired_rows = r->paired,
                                          .paired_cols = r->paired});
    return fv_reader_find(&r->t, r->block, stem, "bias")
               ? read_bias(r, &l->b, c, stem, "bias", 0, r->paired)
               : FOVEA_OK;
}

/* Folds a map into the layer before it: M (W x + b) s + m = ((M W) x + M b + m / s) s, where s is
 * the scale of queries. Returns an absent layer if a part of W or b does not consist of whole,
 * unchanged heads. */
static fv_layer with_map(const fv_layer *l, const fv_layer *map, float scale)
{
    const fv_layer none = {.w = {.rows = 0}};
    const fv_tensor *m = map->w.part[0].tensor;
    fv_layer out = *l;
    if (!fv_weight_mix(&out.w, m) || !fv_weight_mix(&out.b, m))
        return none;
    if (!fv_weight_present(&map->b))
        return out;
    if (out.b.parts == FV_WEIGHT_PARTS)
        return none;
    fv_weight_part shift = map->b.part[0];
    shift.sum = true;
    shift.factor = 1 / scale;
    out.b.rows = 1;
    out.b.cols = map->b.cols;
    fv_weight_add(&out.b, shift);
    return out;
}

static fovea_status read_maps(fv_vit_reader *r, fv_vit_block *b)
{
    if (!fv_reader_find(&r->t, r->block, MAP_Q, "weight") &&
        !fv_reader_find(&r->t, r->block, MAP_K, "weight"))
        return FOVEA_OK;
    if (r->paired && r->v->linear.heads != r->v->heads)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: hedgehog's feature maps are for %u heads, but rotary positions are for "
                       "%u; leave linear_heads out",
                       r->t.source->name, r->v->linear.heads, r->v->heads);
    if (fv_weight_present(&b->norm_q))
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: hedgehog's feature maps are not supported in a model that normalises "
                       "queries and keys; use another feature map, such as linear:elu1",
                       r->t.source->name);
    FV_TRY(read_map(r, &b->map_q, MAP_Q));
    FV_TRY(read_map(r, &b->map_k, MAP_K));
    b->k = fv_vit_half(&b->kv, false);
    b->v = fv_vit_half(&b->kv, true);
    b->mapped_q = with_map(&b->q, &b->map_q, r->v->linear.q_scale);
    b->mapped_k = with_map(&b->k, &b->map_k, 1);
    return FOVEA_OK;
}

/* Adds the gates, vectors and maps of the student's attention, initialised so that they do not
 * change the result, and the modules that its authors put around it. */
static fovea_status put_learned(fv_vit_reader *r, uint32_t i)
{
    const uint64_t c = r->v->width, gates[2] = {c, r->v->linear.heads};
    fv_attention_name *name;
    FV_TRY(fv_attention_blocks(&name, r->t.m->additions->attention, r->v->depth));
    const uint32_t params = fv_mech_table[name[i].mech]->params;
    const uint64_t vectors[2] = {params, c};
    fovea_status status = FOVEA_OK;
    if (name[i].gated && !fv_reader_find(&r->t, r->block, FV_VIT_SLA_Q, "weight")) {
        status = fv_reader_put(&r->t, r->block, FV_VIT_SLA_Q, "weight", 2, gates, 0, 0);
        FV_THEN(status, fv_reader_put(&r->t, r->block, FV_VIT_SLA_K, "weight", 2, gates, 0, 0));
        r->sla = FV_VIT_SLA_Q_DENSE;
        json_t *own = json_object_get(r->config->object, "fovea");
        if (!own) {
            own = json_object();
            json_object_set_new(r->config->object, "fovea", own);
        }
        json_object_set_new(own, "sla_gates", json_string("q_dense"));
    }
    if (params && status == FOVEA_OK &&
        fv_tensor_dimension(fv_reader_find(&r->t, r->block, VECTORS, ""), 0) != params)
        status = fv_reader_put(&r->t, r->block, VECTORS, "", 2, vectors, 0, 0);
    if (name[i].mech == FV_MECH_HEDGEHOG && status == FOVEA_OK)
        status = put_maps(r);
    if (r->t.m->additions->full_module && status == FOVEA_OK)
        status = fv_vit_put_module(r, name[i].mech);
    fv_mem_free(name);
    return status;
}

/* Reads all vectors of the checkpoint's own attention. */
static fovea_status read_vectors(fv_vit_reader *r, fv_vit_block *b)
{
    const fv_tensor *t = fv_reader_find(&r->t, r->block, VECTORS, "");
    const uint32_t n = fv_tensor_dimension(t, 0);
    if (!t)
        return FOVEA_OK;
    FV_TRY(fv_vit_check_size(r, "number of learned vectors", n, LEARNED));
    return fv_reader_matrix(&b->vectors, &r->t, r->block, VECTORS, "", n, r->v->width);
}

/* Returns whether a product of a block has a bias. In most kinds, a missing bias is an error. */
static bool has_bias(const fv_vit_reader *r, const char *stem)
{
    return !(fv_vit_kinds[r->kind].parts & FV_VIT_HAS_RMS_NORMS) ||
           fv_reader_find(&r->t, r->block, stem, "bias");
}

static fovea_status read_linear(fv_vit_reader *r, fv_layer *l, const char *stem, uint32_t rows,
                                uint32_t cols)
{
    return has_bias(r, stem) ? fv_reader_linear(l, &r->t, r->block, stem, rows, cols)
                             : fv_reader_matrix(&l->w, &r->t, r->block, stem, "weight", rows, cols);
}

/* Reads the norm of each head's part of q or k. */
static fovea_status read_head_norm(fv_vit_reader *r, fv_weight *w, const char *stem)
{
    const uint32_t d = r->v->width / r->v->heads;
    *w = (fv_weight){.rows = 1, .cols = d};
    return fv_reader_part(w, &r->t, r->block, stem, "",
                          (fv_weight_part){.rows = 1, .cols = d, .paired_cols = r->paired});
}

static fovea_status read_attention(fv_vit_reader *r, fv_vit_block *b)
{
    const uint32_t c = r->v->width;
    const fv_vit_names *n = r->n;
    FV_TRY(fv_vit_read_norm(r, &b->ln1, r->block, n->ln1));
    const bool told = r->q_bias && !n->q_bias; /* and it can only be in one tensor */
    const bool joined = n->qkv && (told || fv_reader_find(&r->t, r->block, n->qkv, "bias"));
    if (n->qkv)
        FV_TRY(fv_vit_cut_qkv(r, &b->q, &b->kv, r->block, n->qkv, joined, r->paired));
    else
        FV_TRY(join_kv(r, b));
    if (!joined)
        FV_TRY(read_biases(r, b));
    if (fv_reader_find(&r->t, r->block, n->inner, "weight"))
        FV_TRY(fv_reader_norm(&b->inner, &r->t, r->block, n->inner, c));
    FV_TRY(read_linear(r, &b->proj, n->proj, c, c));
    if (fv_vit_kinds[r->kind].parts & FV_VIT_HAS_HEAD_NORMS) {
        FV_TRY(read_head_norm(r, &b->norm_q, n->norm_q));
        FV_TRY(read_head_norm(r, &b->norm_k, n->norm_k));
    }
    if (fv_reader_find(&r->t, r->block, FV_VIT_SLA_Q, "weight") ||
        fv_reader_find(&r->t, r->block, FV_VIT_SLA_K, "weight")) {
        FV_TRY(read_sla(r, &b->sla_q, FV_VIT_SLA_Q));
        FV_TRY(read_sla(r, &b->sla_k, FV_VIT_SLA_K));
    }
    FV_TRY(read_vectors(r, b));
    FV_TRY(read_maps(r, b));
    FV_TRY(fv_vit_read_module(r, b));
    if (r->rel_bias)
        FV_TRY(fv_vit_read_block_bias(r, &b->bias));
    return r->scaled ? fv_reader_matrix(&b->ls1, &r->t, r->block, n->ls1, "", 1, c) : FOVEA_OK;
}

/* Reads the two tensors of a gated MLP, and stacks them. */
static fovea_status join_gated(fv_vit_reader *r, fv_vit_block *b)
{
    const uint32_t h = r->v->hidden, c = r->v->width;
    const char *const stem[] = {r->n->gate, r->n->up};
    const bool biased = has_bias(r, stem[0]);
    b->fc1.w = (fv_weight){.rows = 2 * h, .cols = c};
    if (biased)
        b->fc1.b = (fv_weight){.rows = 1, .cols = 2 * h};
    for (uint32_t i = 0; i < 2; i++) {
        FV_TRY(fv_reader_part(&b->fc1.w, &r->t, r->block, stem[i], "weight",
                              (fv_weight_part){.row0 = i * h, .rows = h, .cols = c}));
        if (biased)
            FV_TRY(fv_reader_part(&b->fc1.b, &r->t, r->block, stem[i], "bias",
                                  (fv_weight_part){.rows = 1, .col0 = i * h, .cols = h}));
    }
    return FOVEA_OK;
}

static fovea_status read_mlp(fv_vit_reader *r, fv_vit_block *b)
{
    const fv_vit_names *n = r->n;
    const fv_vit *v = r->v;
    uint32_t rows = v->epi == FV_EPI_SWIGLU || v->gated ? 2 * v->hidden : v->hidden;
    FV_TRY(fv_vit_read_norm(r, &b->ln2, r->block, n->ln2));
    if (r->split)
        FV_TRY(join_gated(r, b));
    else
        FV_TRY(fv_reader_linear(&b->fc1, &r->t, r->block, r->gated ? n->gated1 : n->fc1, rows,
                                v->width));
    if (fv_reader_find(&r->t, r->block, n->inner_mlp, "weight"))
        FV_TRY(fv_reader_norm(&b->inner_mlp, &r->t, r->block, n->inner_mlp, v->hidden));
    FV_TRY(read_linear(r, &b->fc2, r->gated ? n->gated2 : n->fc2, v->width, v->hidden));
    return r->scaled ? fv_reader_matrix(&b->ls2, &r->t, r->block, n->ls2, "", 1, v->width)
                     : FOVEA_OK;
}

fovea_status fv_vit_read_blocks(fv_vit_reader *r)
{
    fv_vit *v = r->v;
    FV_TRY(FV_MEM_ARRAY(&v->block, v->depth, FV_MEM_MODEL, "blocks"));
    r->chunk = 0;
    for (uint32_t i = 0; i < v->depth; i++) {
        if (!fv_vit_find_block(r, i))
            return fv_reader_missing(&r->t, r->block, "of a block");
        if (r->t.m->additions && r->t.m->additions->attention)
            FV_TRY(put_learned(r, i));
        FV_TRY(read_attention(r, &v->block[i]));
        FV_TRY(read_mlp(r, &v->block[i]));
        /* Unread weights would make the result silently wrong. */
        FV_TRY(fv_reader_all_used(&r->t, r->block));
    }
    return FOVEA_OK;
}
