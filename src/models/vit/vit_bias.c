/* vit_bias.c: reads biases of softmax's scores by relative position (BEiT), resizes them, and
 * expands them to one value per pair of tokens. */
#include "base/num.h"
#include "graph/emit.h"
#include "models/vit/vit_reader.h"

#define OTHERS 3          /* number of rows that are not for pairs of patches */
#define SIDE 4096         /* largest side of the grid for which the biases were trained */
#define MOST (2ull << 30) /* most bytes of a plan's biases */
#define SHARED "use_shared_relative_position_bias"

/* ---- reading ---- */

const char fv_vit_bias_fields[] =
    "add_fpn auxiliary_channels auxiliary_concat_input auxiliary_loss_weight auxiliary_num_convs "
    "layer_scale_init_value pool_scales segmentation_indices use_absolute_position_embeddings "
    "use_auxiliary_head use_mean_pooling use_relative_position_bias "
    "use_shared_relative_position_bias vocab_size";

static uint64_t rows_for(uint32_t width, uint32_t height)
{
    return (2ull * width - 1) * (2ull * height - 1) + OTHERS;
}

/* Finds the grid of a table of `rows` rows: the grid of the picture size in config.json, else a
 * square. */
static fovea_status find_grid(fv_vit_reader *r, uint32_t rows)
{
    fv_vit *v = r->v;
    uint32_t w, h;
    FV_TRY(fv_vit_read_picture(r, &w, &h));
    v->bias_width = w / v->patch;
    v->bias_height = h / v->patch;
    if (w && h && v->bias_width <= SIDE && v->bias_height <= SIDE) {
        if (v->bias_width && v->bias_height && rows_for(v->bias_width, v->bias_height) == rows)
            return FOVEA_OK;
        return fv_fail(FOVEA_EFORMAT,
                       "%s: the biases of relative positions have %u rows, but a picture of %u x "
                       "%u pixels needs %llu; correct the size in %s to that of the checkpoint",
                       r->t.source->name, rows, w, h,
                       (unsigned long long)rows_for(v->bias_width, v->bias_height),
                       r->config->file);
    }
    for (uint32_t side = 1; side <= SIDE && rows_for(side, side) <= rows; side++)
        if (rows_for(side, side) == rows) {
            v->bias_width = v->bias_height = side;
            return FOVEA_OK;
        }
    return fv_fail(FOVEA_EFORMAT,
                   "%s: biases of relative positions with %u rows do not match a square grid; add "
                   "\"image_size\": [height, width] to %s",
                   r->t.source->name, rows, r->config->file);
}

/* Determines whether a checkpoint has biases per block or shared ones. transformers' configuration
 * specifies this. A checkpoint with biases that its configuration excludes is refused: shared ones
 * by this function, a block's by the check for unread tensors. */
static fovea_status read_form(fv_vit_reader *r, bool *shared)
{
    const fv_vit_names *n = r->n;
    const bool have_own = fv_reader_find(&r->t, r->block, n->rel_bias, "") != NULL;
    const bool have_shared = fv_reader_find(&r->t, r->prefix, n->rel_bias_shared, "") != NULL;
    r->rel_bias = have_own;
    *shared = have_shared;
    if (n->origin != FV_VIT_HF)
        return FOVEA_OK;
    r->rel_bias = *shared = false;
    FV_TRY(fv_config_bool(&r->rel_bias, &r->vision, "use_relative_position_bias"));
    FV_TRY(fv_config_bool(shared, &r->vision, SHARED));
    if (r->rel_bias && !have_own)
        return fv_reader_missing(&r->t, n->rel_bias, "of a block");
    if (*shared && !have_shared)
        return fv_reader_missing(&r->t, n->rel_bias_shared, "of all blocks");
    if (have_shared && !*shared)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s has a tensor \"%s%s\", but \"" SHARED
                       "\" in %s is not true; correct the one that is wrong",
                       r->t.source->name, r->prefix, n->rel_bias_shared, r->config->file);
    return FOVEA_OK;
}

fovea_status fv_vit_read_bias(fv_vit_reader *r)
{
    const fv_vit_names *n = r->n;
    fv_vit *v = r->v;
    const bool hf = n->origin == FV_VIT_HF;
    bool shared = false;
    if (r->kind != FV_VIT_BEIT)
        return FOVEA_OK;
    FV_TRY(read_form(r, &shared));
    if (!r->rel_bias && !shared)
        return FOVEA_OK;
    if (v->class_tokens != 1 || v->prefix != 1)
        return fv_reader_missing(&r->t, n->cls, "of the class, which has biases,");
    FV_TRY(find_grid(r, fv_tensor_dimension(
                            r->rel_bias ? fv_reader_find(&r->t, r->block, n->rel_bias, "")
                                        : fv_reader_find(&r->t, r->prefix, n->rel_bias_shared, ""),
                            0)));
    if (!fv_weight_present(&v->table)) {
        r->t.m->info.native_width = v->bias_width * v->patch;
        r->t.m->info.native_height = v->bias_height * v->patch;
    }
    v->bias_rule = hf ? FV_POS_BILINEAR : FV_POS_PROGRESSION;
    if (hf) { /* transformers swaps width and height before it resizes */
        const uint32_t width = v->bias_width;
        v->bias_width = v->bias_height;
        v->bias_height = width;
    }
    return shared ? fv_reader_matrix(&v->bias, &r->t, r->prefix, n->rel_bias_shared, "",
                                     (uint32_t)rows_for(v->bias_width, v->bias_height), v->heads)
                  : FOVEA_OK;
}

fovea_status fv_vit_read_block_bias(fv_vit_reader *r, fv_weight *bias)
{
    const fv_vit *v = r->v;
    FV_TRY(fv_reader_matrix(bias, &r->t, r->block, r->n->rel_bias, "",
                            (uint32_t)rows_for(v->bias_width, v->bias_height), v->heads));
    for (uint32_t i = 0; i < v->bias.parts; i++) {
        fv_weight_part part = v->bias.part[i];
        part.sum = true;
        fv_weight_add(bias, part);
    }
    return FOVEA_OK;
}

/* ---- expanding ---- */

bool fv_vit_has_bias(const fv_vit *v, uint32_t i)
{
    return fv_weight_present(&v->block[i].bias) || fv_weight_present(&v->bias);
}

/* Checks the size of the biases before they are allocated, because it grows with the square of the
 * number of tokens. */
static fovea_status check_memory(const fv_vit *v, const fv_builder *b)
{
    const uint64_t tokens = fv_grid_tokens(&b->options->grid);
    const uint64_t each = fv_size_mul(fv_size_mul(tokens, tokens), 4ull * v->heads);
    uint32_t own = 0, shared = 0;
    for (uint32_t i = 0; i < b->options->blocks; i++)
        if (fv_block_attention(b, i)->kind == FV_ATTENTION_SOFTMAX) {
            own += fv_weight_present(&v->block[i].bias);
            shared |= !fv_weight_present(&v->block[i].bias);
        }
    const uint64_t bytes = fv_size_mul(each, own + shared);
    if (bytes <= MOST)
        return FOVEA_OK;
    return fv_fail(FOVEA_ENOMEM,
                   "biases of relative positions need %.1f GiB for %u x %u patches with softmax "
                   "attention, but at most %.1f GiB are supported; use a smaller picture, or "
                   "linear or foveated attention, which have no biases",
                   (double)bytes / (1 << 30), b->options->grid.width, b->options->grid.height,
                   (double)MOST / (1 << 30));
}

/* Expands one head's values by offset to (tokens, tokens) biases. */
static void expand(float *out, const float *of, const float *others, const fv_grid *g)
{
    const size_t patches = (size_t)g->width * g->height, line = 2 * (size_t)g->width - 1;
    out[0] = others[2];
    for (size_t k = 0; k < patches; k++)
        out[1 + k] = others[0];
    for (size_t q = 0; q < patches; q++) {
        float *row = out + (1 + q) * (1 + patches);
        *row++ = others[1];
        for (size_t ky = 0; ky < g->height; ky++) {
            const size_t dy = q / g->width + g->height - 1 - ky;
            const float *at = of + dy * line + q % g->width + g->width - 1;
            for (size_t kx = 0; kx < g->width; kx++)
                *row++ = *at--;
        }
    }
}

static fv_weight emit_bias(const fv_vit *v, fv_builder *b, const fv_weight *table)
{
    const fv_grid offsets = {2 * b->options->grid.width - 1, 2 * b->options->grid.height - 1, 1, 0};
    const uint32_t tokens = fv_grid_tokens(&b->options->grid), heads = v->heads;
    const uint32_t count = fv_grid_tokens(&offsets);
    const fv_posemb trained = {.table = table,
                               .table_width = 2 * v->bias_width - 1,
                               .table_height = 2 * v->bias_height - 1,
                               .rule = v->bias_rule};
    float *values = NULL, *of, *out;
    FV_THEN(b->status, check_memory(v, b));
    const fv_weight resized = fv_emit_resized_table(b, &trained, &offsets);
    const fv_weight all = fv_emit_constant(b, heads * tokens, tokens, &out);
    FV_THEN(b->status, FV_MEM_ARRAY(&values, (uint64_t)heads * (count + OTHERS) + count,
                                    FV_MEM_PLAN, "biases by offset"));
    if (b->status != FOVEA_OK)
        return all;
    fv_weight_read(&resized, 0, count, values);
    fv_weight_read(table, table->rows - OTHERS, OTHERS, values + (size_t)heads * count);
    of = values + (size_t)heads * (count + OTHERS);
    for (uint32_t h = 0; h < heads; h++) {
        float others[OTHERS];
        for (uint32_t i = 0; i < count; i++)
            of[i] = values[(size_t)i * heads + h];
        for (uint32_t i = 0; i < OTHERS; i++)
            others[i] = values[(size_t)(count + i) * heads + h];
        expand(out + (size_t)h * tokens * tokens, of, others, &b->options->grid);
    }
    fv_mem_free(values);
    return all;
}

fv_weight fv_vit_emit_bias(const fv_vit *v, fv_builder *b, uint32_t i)
{
    const fv_weight *own = &v->block[i].bias;
    if (fv_weight_present(own))
        return emit_bias(v, b, own);
    if (b->bias_of != &v->bias) /* a student's biases differ from its teacher's */
        b->bias = emit_bias(v, b, &v->bias);
    b->bias_of = &v->bias;
    return b->bias;
}
