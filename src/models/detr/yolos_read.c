/* yolos_read.c: reads YOLOS as transformers saves it. */
#include <stdio.h>

#include "models/detr/yolos.h"
#include "models/vit/vit_reader.h"

#define CLASSES 65536
#define BETWEEN "encoder.mid_position_embeddings"

/* Fields of its configurations, in addition to a ViT's: they matter only in training, or are
 * read. */
static const char fields[] =
    "auxiliary_loss bbox_cost bbox_loss_coefficient class_cost eos_coefficient giou_cost "
    "giou_loss_coefficient num_detection_tokens use_mid_position_embeddings";

const fv_vit_names fv_yolos_names = {
    .origin = FV_VIT_HF,
    .patch = "embeddings.patch_embeddings.projection.",
    .cls = "embeddings.cls_token",
    .reg = "embeddings.detection_tokens",
    .pos = "embeddings.position_embeddings",
    .post = "layernorm.",
    .block = "encoder.layer.%u.",
    .ln1 = "layernorm_before.",
    .ln2 = "layernorm_after.",
    .q = "attention.attention.query.",
    .k = "attention.attention.key.",
    .v = "attention.attention.value.",
    .proj = "attention.output.dense.",
    .fc1 = "intermediate.dense.",
    .fc2 = "output.dense.",
};

static fovea_status read_encoder(fv_vit_reader *r)
{
    static const char *const prefixes[] = {"vit.", "", NULL};
    for (const char *const *p = prefixes; *p && !r->prefix; p++)
        if (fv_reader_unwrap(&r->t, *p, r->n->patch, "weight"))
            r->prefix = *p;
    if (!r->prefix)
        return fv_reader_fail_names(&r->t, "a YOLOS",
                                    "vit.embeddings.patch_embeddings.projection.weight");
    FV_TRY(fv_vit_read_sizes(r));
    FV_TRY(fv_vit_read_block_form(r));
    FV_TRY(fv_vit_read_embedding(r));
    FV_TRY(fv_vit_read_blocks(r));
    return fv_reader_norm(&r->v->post, &r->t, r->prefix, r->n->post, r->v->width);
}

/* Reads the positions that are added between blocks: (blocks - 1, 1, tokens, C), in the order
 * class, patches, detection tokens. The file may have more blocks than are run. */
static fovea_status read_between(fv_vit_reader *r, fv_yolos *y)
{
    const fv_vit *v = &y->vit;
    const uint32_t patches = v->table_width * v->table_height, rows = 1 + patches + y->tokens;
    const fv_tensor *t = fv_reader_find(&r->t, r->prefix, BETWEEN, "");
    const uint32_t blocks = fv_tensor_dimension(t, 0), least = v->depth - 1;
    const uint64_t shape[3] = {blocks > least ? blocks : least, rows, v->width}, row = v->width;
    bool has = true;
    FV_TRY(fv_config_bool(&has, &r->vision, "use_mid_position_embeddings"));
    if (!has || (v->depth == 1 && !t))
        return FOVEA_OK;
    FV_TRY(fv_reader_tensor(&t, &r->t, r->prefix, BETWEEN, "", 3, shape));
    if (v->depth == 1)
        return FOVEA_OK;
    FV_TRY(FV_MEM_ARRAY(&y->after, v->depth - 1, FV_MEM_MODEL, "positions between blocks"));
    for (uint32_t i = 0; i + 1 < v->depth; i++) {
        const uint64_t first = (uint64_t)i * rows * row;
        y->after[i].prefix = (fv_weight){.rows = v->prefix, .cols = v->width};
        y->after[i].table = (fv_weight){.rows = patches, .cols = v->width};
        fv_weight_add(&y->after[i].prefix,
                      (fv_weight_part){.tensor = t, .offset = first, .rows = 1, .cols = v->width});
        fv_weight_add(&y->after[i].prefix, (fv_weight_part){.tensor = t,
                                                            .offset = first + (1 + patches) * row,
                                                            .row0 = 1,
                                                            .rows = y->tokens,
                                                            .cols = v->width});
        fv_weight_add(&y->after[i].table,
                      (fv_weight_part){
                          .tensor = t, .offset = first + row, .rows = patches, .cols = v->width});
    }
    return FOVEA_OK;
}

static fovea_status read_head(fv_vit_reader *r, fv_layer *l, const char *head, uint32_t rows)
{
    const uint32_t c = r->v->width;
    for (uint32_t i = 0; i < FV_YOLOS_LAYERS; i++) {
        char stem[64];
        snprintf(stem, sizeof stem, "%s.layers.%u.", head, i);
        FV_TRY(fv_reader_linear(&l[i], &r->t, "", stem, i + 1 < FV_YOLOS_LAYERS ? c : rows, c));
    }
    return FOVEA_OK;
}

/* Reads the heads, if the file has them, and describes how boxes are decoded: one per detection
 * token, of the best class. */
static fovea_status read_heads(fv_vit_reader *r, fv_yolos *y)
{
    static const char classes[] = "class_labels_classifier", box[] = "bbox_predictor";
    fovea_model *m = r->t.m;
    uint32_t rows, most = y->tokens;
    if (!fv_reader_lists(&r->t, "", classes, ".layers.2.weight"))
        return FOVEA_OK;
    FV_TRY(fv_reader_dimension(&rows, &r->t, "", "class_labels_classifier.layers.2.", "weight", 0,
                               "number of classes", CLASSES));
    FV_TRY(fv_vit_check_size(r, "number of classes without the last one", rows - 1, CLASSES));
    FV_TRY(read_head(r, y->classes, classes, rows));
    FV_TRY(read_head(r, y->box, box, 4));
    FV_TRY(fv_config_u32(&most, &r->own, "max_per_img", 1, y->tokens));
    y->detection = (fv_detection){.levels = 1,
                                  .anchors = 1,
                                  .classes = rows - 1,
                                  .of_queries = true,
                                  .nothing = true,
                                  .nms_pre = most,
                                  .min_size = -1,
                                  .max_per_img = most};
    FV_TRY(fv_config_float(&y->detection.score_thr, &r->own, "score_thr", 0, 1));
    m->detection = &y->detection;
    m->info.classes = rows - 1;
    m->info.boxes = most;
    return FOVEA_OK;
}

static fovea_status fill_info(fv_vit_reader *r, const fv_yolos *y)
{
    fovea_model *m = r->t.m;
    snprintf(m->info.type, sizeof m->info.type, "yolos");
    fv_vit_describe(&m->info, &y->vit);
    m->preprocess =
        fv_processor_default(FV_PROCESSOR_LW_DETR, m->info.native_width, m->info.native_height);
    FV_TRY(FV_MEM_ARRAY(&m->outputs, y->vit.depth + 5ull, FV_MEM_MODEL, "list of outputs"));
    if (m->detection) {
        FV_TRY(fv_model_add_output(m, "logits"));
        FV_TRY(fv_model_add_output(m, "pred_boxes"));
    }
    FV_TRY(fv_model_add_output(m, "last_hidden_state"));
    for (uint32_t i = 0; i <= y->vit.depth; i++)
        FV_TRY(fv_model_add_output(m, "hidden%u", i));
    return FOVEA_OK;
}

fovea_status fv_yolos_read(fovea_model *m, const fv_source *source, const fv_config *config)
{
    fv_vit_reader r = {.t = {.m = m, .source = source, .config = config->file},
                       .config = config,
                       .vision = *config,
                       .kind = FV_VIT_YOLOS,
                       .n = &fv_yolos_names};
    FV_TRY(fv_config_type(&r.type, config));
    FV_TRY(fv_config_section(&r.own, config, "fovea"));
    FV_TRY(fv_fields_check(config, config, &r.own, fields));
    FV_TRY(fv_mem_alloc(&m->roles, sizeof(fv_yolos), FV_MEM_MODEL, "roles"));
    fv_yolos *y = m->roles;
    r.v = &y->vit;
    FV_TRY(read_encoder(&r));
    y->tokens = y->vit.prefix - y->vit.class_tokens;
    FV_TRY(fv_vit_check_size(&r, "number of detection tokens", y->tokens, CLASSES));
    FV_TRY(fv_reader_agree(&r.t, config, "num_detection_tokens", y->tokens));
    FV_TRY(read_between(&r, y));
    FV_TRY(read_heads(&r, y));
    FV_TRY(fill_info(&r, y));
    fv_reader_ignore(&r.t, r.prefix, "encoder.layer"); /* blocks from num_hidden_layers on */
    fv_reader_leave(&r.t, r.prefix, "pooler");
    return fv_reader_all_used(&r.t, r.prefix);
}

void fv_yolos_release(fovea_model *m)
{
    fv_yolos *y = m->roles;
    if (y)
        fv_mem_free(y->after);
    fv_vit_release(m);
}
