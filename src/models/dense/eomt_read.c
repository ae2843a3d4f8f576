/* eomt_read.c: reads EoMT over DINOv2 and over DINOv3, as transformers saves them. */
#include <string.h>

#include "models/dense/eomt.h"
#include "models/fold.h"
#include "models/vit/vit_reader.h"

#define QUERIES 65536
#define CLASSES 65536

/* Fields of its configurations, in addition to a ViT's. */
static const char fields[] =
    "class_weight dice_weight importance_sample_ratio mask_weight no_object_weight num_blocks "
    "num_queries num_upscale_blocks oversample_ratio rope_parameters train_num_points";

#define COMMON_NAMES                                                                               \
    .origin = FV_VIT_HF, .cls = "embeddings.cls_token", .reg = "embeddings.register_tokens",       \
    .post = "layernorm.", .block = "layers.%u.", .ln1 = "norm1.", .ln2 = "norm2.",                 \
    .q = "attention.q_proj.", .k = "attention.k_proj.", .v = "attention.v_proj.",                  \
    .ls1 = "layer_scale1.lambda1", .ls2 = "layer_scale2.lambda1"

/* The kind of the encoder, and the names of its tensors. */
static const struct form {
    const char *type;
    enum fv_vit_kind kind;
    fv_vit_names names;
} forms[] = {
    {"eomt",
     FV_VIT_REGISTERS,
     {COMMON_NAMES, .patch_positions = true, .patch = "embeddings.patch_embeddings.projection.",
      .pos = "embeddings.position_embeddings.weight", .proj = "attention.out_proj.",
      .fc1 = "mlp.fc1.", .fc2 = "mlp.fc2.", .gated1 = "mlp.weights_in.",
      .gated2 = "mlp.weights_out."}},
    {"eomt_dinov3",
     FV_VIT_DINOV3,
     {COMMON_NAMES, .patch = "embeddings.patch_embeddings.", .proj = "attention.o_proj.",
      .fc1 = "mlp.up_proj.", .fc2 = "mlp.down_proj.", .gate = "mlp.gate_proj.",
      .up = "mlp.up_proj.", .gated2 = "mlp.down_proj."}},
};
enum { FORMS = sizeof forms / sizeof *forms };

static const struct form *find_form(const char *type)
{
    for (int i = 0; i < FORMS; i++)
        if (strcmp(forms[i].type, type) == 0)
            return &forms[i];
    return NULL;
}

bool fv_eomt_owns(const char *model_type)
{
    return find_form(model_type) != NULL;
}

const fv_vit_names *fv_eomt_names(const char *model_type)
{
    return &find_form(model_type)->names;
}

static fovea_status read_encoder(fv_vit_reader *r)
{
    fv_vit *v = r->v;
    float eps = 1e-6f;
    if (!fv_reader_unwrap(&r->t, r->prefix, r->n->patch, "weight"))
        return fv_reader_fail_names(&r->t, "an EoMT", "mask_head.fc1.weight");
    FV_TRY(fv_vit_read_sizes(r));
    FV_TRY(fv_config_float(&eps, &r->vision, "layer_norm_eps", 0, 1));
    FV_TRY(fv_config_float(&eps, &r->own, "eps", 0, 1));
    v->eps = eps;
    FV_TRY(fv_vit_read_block_form(r));
    FV_TRY(fv_vit_read_embedding(r));
    FV_TRY(fv_vit_read_blocks(r));
    return fv_reader_norm(&v->post, &r->t, r->prefix, r->n->post, v->width);
}

/* Reads the number of queries, the block before which they join, and the blocks in which they
 * attend inside masks. */
static fovea_status read_queries(fv_vit_reader *r, fv_eomt *e)
{
    const fv_tensor *t = fv_reader_find(&r->t, r->prefix, "query.", "weight");
    const uint32_t depth = e->vit.depth;
    uint32_t queries = fv_tensor_dimension(t, 0);
    e->joined = depth < 4 ? depth : 4;
    FV_TRY(fv_config_u32(&queries, &r->vision, "num_queries", 1, QUERIES));
    FV_TRY(fv_config_u32(&e->joined, &r->vision, "num_blocks", 1, depth));
    FV_TRY(fv_vit_check_size(r, "number of queries", queries, QUERIES));
    FV_TRY(
        fv_reader_matrix(&e->query, &r->t, r->prefix, "query.", "weight", queries, e->vit.width));
    FV_TRY(FV_MEM_ARRAY(&e->masked, e->joined, FV_MEM_MODEL, "masked blocks"));
    if (!fv_reader_find(&r->t, r->prefix, "attn_mask_probs", ""))
        return FOVEA_OK;
    FV_TRY(fv_reader_buffer(&t, &r->t, r->prefix, "attn_mask_probs", "", e->joined));
    for (uint32_t i = 0; i < e->joined; i++) {
        float share;
        fv_tensor_read(t, i, 1, &share);
        if (share != 0 && share != 1)
            return fv_fail(FOVEA_ENOTSUP,
                           "%s: tensor \"%s\" holds %g: a random share of the queries would attend "
                           "inside masks; only 0 (after training) and 1 are supported",
                           r->t.source->name, t->name, (double)share);
        /* A block with 0 computes no masks, but uses those of an earlier block, if there are
         * any. */
        e->masked[i] = share == 1;
    }
    return FOVEA_OK;
}

static fovea_status read_upscale(fv_vit_reader *r, fv_eomt *e)
{
    const uint32_t c = e->vit.width, patch = e->vit.patch;
    const fv_fold_deconv deconv = {.stem = "conv1.", .channels = c, .rows = c, .stride = 2};
    e->upscales = 2;
    FV_TRY(fv_config_u32(&e->upscales, &r->vision, "num_upscale_blocks", 0, FV_EOMT_UPSCALES));
    if (patch % (1u << e->upscales))
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: \"num_upscale_blocks\" is %u, but a patch of %u pixels cannot be "
                       "halved that many times",
                       r->config->file, e->upscales, patch);
    for (uint32_t i = 0; i < e->upscales; i++) {
        fv_eomt_upscale *u = &e->upscale[i];
        const uint64_t filter[4] = {c, 1, 3, 3};
        const fv_tensor *t;
        char block[64], bias[80];
        snprintf(block, sizeof block, "%supscale_block.block.%u.", r->prefix, i);
        snprintf(bias, sizeof bias, "%sconv1.bias", block);
        FV_TRY(fv_fold_transposed(&u->deconv, &r->t, block, &deconv));
        if (!fv_weight_present(&u->deconv.b))
            return fv_reader_missing(&r->t, bias, "of an upscaling");
        FV_TRY(fv_reader_tensor(&t, &r->t, block, "conv2.", "weight", 4, filter));
        u->filter = fv_weight_of(t, c, 9);
        FV_TRY(fv_reader_norm(&u->norm, &r->t, block, "layernorm2d.", c));
    }
    return FOVEA_OK;
}

static fovea_status read_heads(fv_vit_reader *r, fv_eomt *e)
{
    static const char *const mask[] = {"mask_head.fc1.", "mask_head.fc2.", "mask_head.fc3."};
    const uint32_t c = e->vit.width;
    const fv_tensor *t = fv_reader_find(&r->t, r->prefix, "class_predictor.", "weight");
    const uint32_t classes = fv_tensor_dimension(t, 0);
    if (!t)
        return fv_reader_missing(&r->t, "class_predictor.weight", "of the classes");
    FV_TRY(fv_vit_check_size(r, "number of classes", classes ? classes - 1 : 0, CLASSES));
    FV_TRY(fv_reader_linear(&e->classes, &r->t, r->prefix, "class_predictor.", classes, c));
    for (int i = 0; i < 3; i++)
        FV_TRY(fv_reader_linear(&e->mask[i], &r->t, r->prefix, mask[i], c, c));
    return read_upscale(r, e);
}

static fovea_status fill_info(fv_vit_reader *r, uint32_t classes, uint32_t queries)
{
    const fv_vit *v = r->v;
    fovea_model *m = r->t.m;
    snprintf(m->info.type, sizeof m->info.type, "%s", r->type);
    fv_vit_describe(&m->info, v);
    m->info.segments = classes;
    m->info.masks = queries;
    m->preprocess =
        fv_processor_default(FV_PROCESSOR_EOMT, m->info.native_width, m->info.native_height);
    FV_TRY(FV_MEM_ARRAY(&m->outputs, v->depth + 5ull, FV_MEM_MODEL, "list of outputs"));
    FV_TRY(fv_model_add_output(m, "masks_queries_logits"));
    FV_TRY(fv_model_add_output(m, "class_queries_logits"));
    FV_TRY(fv_model_add_output(m, "last_hidden_state"));
    for (uint32_t i = 0; i <= v->depth; i++)
        FV_TRY(fv_model_add_output(m, "hidden%u", i));
    return FOVEA_OK;
}

fovea_status fv_eomt_read(fovea_model *m, const fv_source *source, const fv_config *config)
{
    fv_vit_reader r = {.t = {.m = m, .source = source, .config = config->file},
                       .config = config,
                       .vision = *config,
                       .prefix = ""};
    FV_TRY(fv_config_type(&r.type, config));
    FV_TRY(fv_config_section(&r.own, config, "fovea"));
    FV_TRY(fv_fields_check(config, config, &r.own, fields));
    const struct form *form = find_form(r.type);
    r.kind = form->kind;
    r.n = &form->names;
    FV_TRY(fv_mem_alloc(&m->roles, sizeof(fv_eomt), FV_MEM_MODEL, "roles"));
    fv_eomt *e = m->roles;
    r.v = &e->vit;
    FV_TRY(read_encoder(&r));
    FV_TRY(read_queries(&r, e));
    FV_TRY(read_heads(&r, e));
    fv_reader_ignore(&r.t, r.prefix, "criterion"); /* used only in training */
    fv_reader_ignore(&r.t, r.prefix, "layers");    /* blocks from num_hidden_layers on */
    FV_TRY(fv_reader_all_used(&r.t, r.prefix));
    /* the last one: the class "nothing" */
    return fill_info(&r, e->classes.w.rows - 1, e->query.rows);
}

void fv_eomt_release(fovea_model *m)
{
    fv_eomt *e = m->roles;
    if (e)
        fv_mem_free(e->masked);
    fv_vit_release(m);
}
