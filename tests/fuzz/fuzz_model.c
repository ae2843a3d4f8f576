/* fuzz_model.c: any texts as the files of a model's folder. What is read is planned, and runs where
 * that is soon done: a file of a few bytes must not ask for minutes or gigabytes.
 *
 * A model of sequences is fed tokens, or rows, in pieces; what it remembers is saved and restored.
 *
 * An input is texts with bytes 0 between them: config.json, preprocessor_config.json, the header of
 * model.safetensors and that of segmentation.safetensors; one that is empty or not there is no
 * file. Tensors are zeros.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <fovea/prompts.h>
#include <fovea/sequences.h>

#include "checkpoint/config.h"
#include "checkpoint/source.h"
#include "models/model.h"
#include "tests/fuzz/fuzz.h"

enum { PARTS = 4, WIDTH = 64, HEIGHT = 48, OUTPUTS = 32, SEQUENCE_ROWS = 5 };

#define MEMORY (16u << 20)
#define FLOPS 1e8

static const char *const names[PARTS] = {"config.json", "preprocessor_config.json",
                                         "model.safetensors", "segmentation.safetensors"};

static void write_part(int i, const char *text, size_t size)
{
    if (size == 0)
        fuzz_remove(names[i]);
    else if (i < 2)
        fuzz_write(names[i], text, size, 0);
    else
        fuzz_write_tensors(names[i], text, size);
}

/* Makes the masks of a prompt from the features of a frame. */
static void run_prompt(fovea_segmenter *s, const fovea_output *features, size_t n)
{
    const fovea_prompt_point point[] = {{3, 4, 1}, {1, 2, -1}};
    const fovea_box box = {1, 1, 5, 7};
    const fovea_prompt prompt = {point, 2, &box};
    fovea_output out[2];
    fovea_mask mask;
    for (size_t i = 0; i < 2; i++) {
        fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
        fuzz_check(fovea_plan_output(fovea_segmenter_plan(s), i, &info), "masks and scores");
        out[i].size = (size_t)info.rows * info.columns * sizeof(float);
        out[i].data = malloc(out[i].size);
        fuzz_check(out[i].data != NULL, "memory");
    }
    fuzz_check(fovea_segmenter_begin(s, features, n) == FOVEA_OK, fovea_error());
    fuzz_check(fovea_segmenter_run(s, &prompt, out, 2) == FOVEA_OK, fovea_error());
    fuzz_check(fovea_segmenter_mask(s, out, 2, 1, &mask, NULL, 0) == FOVEA_OK, fovea_error());
    free(out[0].data);
    free(out[1].data);
}

static void segment(const fovea_plan *plan, const fovea_output *features, size_t n)
{
    fovea_segmenter_options o = FOVEA_SEGMENTER_OPTIONS_INIT;
    fovea_plan_info info = FOVEA_PLAN_INFO_INIT;
    fovea_segmenter *s;
    o.points = 2;
    o.memory_limit = MEMORY;
    o.dry = 1;
    if (fovea_segmenter_create(&s, plan, &o) != FOVEA_OK)
        return;
    fovea_plan_query(fovea_segmenter_plan(s), &info);
    fovea_segmenter_free(s);
    o.dry = 0;
    if (info.weights > MEMORY || info.flops > FLOPS)
        return;
    fuzz_check(fovea_segmenter_create(&s, plan, &o) == FOVEA_OK, fovea_error());
    run_prompt(s, features, n);
    fovea_segmenter_free(s);
}

static void run(fovea_plan *plan)
{
    static uint8_t pixels[3 * WIDTH * HEIGHT];
    const fovea_frame frame = {.pixels = {pixels}};
    fovea_output out[OUTPUTS];
    fovea_detection box;
    size_t n = 0, boxes;
    for (fovea_output_info info = FOVEA_OUTPUT_INFO_INIT; fovea_plan_output(plan, n, &info); n++) {
        out[n].size = (size_t)info.rows * info.columns * sizeof(float);
        out[n].data = malloc(out[n].size);
        fuzz_check(out[n].data != NULL, "memory");
    }
    fuzz_check(n > 0, "an output");
    fuzz_check(fovea_run(plan, &frame, out, n) == FOVEA_OK, fovea_error());
    fuzz_check(n == 1 || fovea_detections(plan, out, n, &box, 1, &boxes) == FOVEA_OK,
               fovea_error());
    segment(plan, out, n);
    while (n-- > 0)
        free(out[n].data);
}

/* ---- sequences ---- */

static void feed(fovea_sequence *s, const fovea_sequence_info *q, uint32_t n)
{
    static const uint32_t ids[SEQUENCE_ROWS];
    const size_t floats = q->vocabulary ? q->vocabulary : (size_t)q->width * n;
    float *out = calloc(floats, sizeof *out), *in = calloc((size_t)q->width * n, sizeof *in);
    fuzz_check(out && in, "memory");
    const fovea_status status =
        q->vocabulary ? fovea_sequence_feed(s, ids, n, out, floats)
                      : fovea_sequence_forward(s, (fovea_matrix){in, 0}, n, (fovea_matrix){out, 0});
    fuzz_check(status == FOVEA_OK, fovea_error());
    free(out);
    free(in);
}

static void run_sequence(fovea_sequence *s, const fovea_sequence_info *q)
{
    const size_t bytes = fovea_sequence_size(s);
    fovea_sequence *fork;
    void *saved = malloc(bytes);
    fuzz_check(saved != NULL, "memory");
    feed(s, q, SEQUENCE_ROWS);
    feed(s, q, 1);
    fuzz_check(fovea_sequence_save(s, saved, bytes) == FOVEA_OK, fovea_error());
    feed(s, q, SEQUENCE_ROWS - 1);
    fuzz_check(fovea_sequence_restore(s, saved, bytes - 1) == FOVEA_EFORMAT, "a state cut short");
    fuzz_check(fovea_sequence_restore(s, saved, bytes) == FOVEA_OK, fovea_error());
    fuzz_check(fovea_sequence_fork(&fork, s) == FOVEA_OK, fovea_error());
    feed(fork, q, 2);
    fovea_sequence_free(fork);
    free(saved);
}

static void make_sequence(const fovea_model *model)
{
    fovea_sequence_options o = FOVEA_SEQUENCE_OPTIONS_INIT;
    fovea_sequence_info q = FOVEA_SEQUENCE_INFO_INIT;
    fovea_sequence *s;
    o.rows = SEQUENCE_ROWS;
    o.context = 32;
    o.memory_limit = MEMORY;
    o.dry = 1;
    if (fovea_sequence_create(&s, model, fuzz_device(), &o) != FOVEA_OK)
        return;
    fovea_sequence_query(s, &q);
    fuzz_check(fovea_sequence_reset(s) == FOVEA_EINVAL, "a dry sequence remembers nothing");
    fovea_sequence_free(s);
    o.dry = 0;
    if (q.weights > MEMORY || q.states > MEMORY || q.flops * SEQUENCE_ROWS > FLOPS)
        return;
    fuzz_check(fovea_sequence_create(&s, model, fuzz_device(), &o) == FOVEA_OK, fovea_error());
    run_sequence(s, &q);
    fovea_sequence_free(s);
}

/* ---- pictures ---- */

/* Returns the outputs that boxes are computed from. */
static size_t want_boxes(const char *wanted[OUTPUTS], const fovea_model *model)
{
    fovea_model_info info = FOVEA_MODEL_INFO_INIT;
    const char *name;
    size_t n = 0;
    fovea_model_describe(model, &info);
    for (size_t i = 0; info.boxes && (name = fovea_model_output(model, i)); i++)
        if (strncmp(name, "cls.", 4) == 0 || strncmp(name, "box.", 4) == 0 ||
            strcmp(name, "logits") == 0 || strcmp(name, "pred_boxes") == 0)
            wanted[n++] = name;
    return n;
}

static void make_plan(const fovea_model *model, const fovea_preprocess *preprocess)
{
    fovea_plan_options o = FOVEA_PLAN_OPTIONS_INIT;
    const char *wanted[OUTPUTS];
    fovea_plan *plan;
    fovea_plan_info info = FOVEA_PLAN_INFO_INIT;
    o.frame.width = WIDTH;
    o.frame.height = HEIGHT;
    o.preprocess = preprocess;
    o.outputs = wanted;
    o.n_outputs = want_boxes(wanted, model);
    if (o.n_outputs == 0)
        o.outputs = NULL;
    o.memory_limit = MEMORY;
    o.dry = 1;
    if (fovea_plan_create(&plan, model, fuzz_device(), &o) != FOVEA_OK)
        return;
    fovea_plan_query(plan, &info);
    fovea_plan_free(plan);
    o.dry = 0;
    if (info.weights > MEMORY || info.flops > FLOPS)
        return;
    fuzz_check(fovea_plan_create(&plan, model, fuzz_device(), &o) == FOVEA_OK, fovea_error());
    run(plan);
    fovea_plan_free(plan);
}

/* Loading the same files through descriptors must give the same result: a model, or the same error.
 */
static void load_open_files(fovea_status expected)
{
    fovea_model_file file[PARTS];
    fovea_model_source source = FOVEA_MODEL_SOURCE_INIT;
    fovea_model *model = NULL;
    source.files = file;
    for (int i = 0; i < PARTS; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", fuzz_folder(), names[i]);
        const int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0)
            file[source.n_files++] = (fovea_model_file){.name = names[i], .descriptor = fd};
    }
    const bool none = source.n_files == 0;
    const fovea_status got = fovea_model_load_from(&model, &source, NULL);
    fuzz_check(got == (none ? FOVEA_EINVAL : expected), fovea_error());
    fovea_model_free(model);
    while (source.n_files > 0)
        close(file[--source.n_files].descriptor);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *at = (const char *)data, *const end = at + size;
    fovea_model *model;
    fovea_preprocess rule = FOVEA_PREPROCESS_INIT;
    for (int i = 0; i < PARTS; i++) {
        const char *stop = at < end ? memchr(at, 0, (size_t)(end - at)) : NULL;
        stop = stop ? stop : end;
        write_part(i, at, (size_t)(stop - at));
        at = stop < end ? stop + 1 : end;
    }
    const fovea_status status = fovea_model_load(&model, fuzz_folder());
    if (status != FOVEA_OK)
        fuzz_check(*fovea_error(), "a failure without a message");
    load_open_files(status);
    if (status != FOVEA_OK) {
        return 0;
    }
    fovea_model_info info = FOVEA_MODEL_INFO_INIT;
    fuzz_taken++;
    fovea_model_describe(model, &info);
    fovea_model_preprocess(model, &rule);
    for (size_t i = 0; fovea_model_output(model, i); i++)
        fuzz_check(strlen(fovea_model_output(model, i)) > 0, "an output's name");
    for (uint32_t i = 0; i < 3; i++)
        fovea_model_label(model, i);
    if (info.sequence) {
        make_sequence(model);
    } else {
        make_plan(model, NULL);
        make_plan(model, &rule);
    }
    fovea_model_free(model);
    return 0;
}

/* ---- seeds: the synthetic models, of a block a stage, or as many as have taps ---- */

static size_t add(uint8_t *out, size_t capacity, size_t used, const char *text)
{
    const size_t n = strlen(text);
    fuzz_check(used + n <= capacity, "room for a seed");
    memcpy(out + used, text, n);
    return used + n;
}

/* Returns whether the tensor belongs to a block after the first `blocks` blocks of a stage. */
static bool is_later(const char *name, uint32_t blocks)
{
    static const char *const before[] = {"blocks.", "encoder.layer.", "encoder.layers."};
    const char *at = strstr(name, "block"); /* "blockSTAGE.NUMBER." */
    if (strstr(name, "downsample"))         /* between stages */
        return false;
    at = at && at[5] != 's' ? strchr(at, '.') + 1 : NULL;
    if (strncmp(name, "layer.", 6) == 0) /* DINOv3's */
        at = name + 6;
    for (size_t i = 0; !at && i < sizeof before / sizeof *before; i++) {
        at = strstr(name, before[i]);
        at = at ? at + strlen(before[i]) : NULL;
    }
    if (!at && strncmp(name, "layers.", 7) == 0) /* EoMT's */
        at = name + 7;
    return at && strtoul(at, NULL, 10) >= blocks;
}

static size_t add_header(uint8_t *out, size_t capacity, size_t used, const fv_source *s,
                         uint32_t blocks)
{
    uint64_t offset = 0;
    const char *before = "{";
    for (uint32_t i = 0; i < s->count; i++) {
        const fv_tensor *t = s->by_name[i];
        char text[384];
        if (is_later(t->name, blocks))
            continue;
        size_t n = (size_t)snprintf(text, sizeof text, "%s\"%s\":{\"dtype\":\"F16\",\"shape\":[",
                                    before, t->name);
        for (uint32_t k = 0; k < t->rank; k++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%llu", k ? "," : "",
                                  (unsigned long long)t->shape[k]);
        snprintf(text + n, sizeof text - n, "],\"data_offsets\":[%llu,%llu]}",
                 (unsigned long long)offset, (unsigned long long)(offset + 2 * t->elements));
        offset += 2 * t->elements;
        used = add(out, capacity, used, text);
        before = ",";
    }
    return add(out, capacity, used, "}");
}

/* Reduces each stage to one block, and a backbone to one block per tap. Returns the number of
 * blocks. */
static uint32_t make_shallow(json_t *config)
{
    json_t *backbone = json_object_get(config, "backbone_config");
    json_t *taps = json_object_get(backbone, "out_indices");
    for (size_t i = 0; i < json_array_size(taps); i++)
        json_array_set_new(taps, i, json_integer((json_int_t)i + 1));
    json_object_del(backbone,
                    "window_block_indices"); /* of LW-DETR: none is beyond the last block */
    if (backbone && json_object_get(config, "num_queries")) /* RF-DETR */
        json_object_set_new(config, "num_queries", json_integer(4));
    json_t *depths = json_object_get(backbone ? backbone : config, "depths");
    for (size_t i = 0; i < json_array_size(depths); i++)
        json_array_set_new(depths, i, json_integer(1));
    if (backbone && !depths) {
        json_object_set_new(backbone, "num_hidden_layers",
                            json_integer((json_int_t)json_array_size(taps)));
        return (uint32_t)json_array_size(taps);
    }
    json_t *vision = json_object_get(config, "vision_config"); /* SAM */
    if (json_object_get(vision, "backbone_config")) /* SAM 2: its widths follow from its depths */
        return UINT32_MAX;
    json_object_set_new(vision, "global_attn_indexes", json_pack("[i]", 0));
    if (!vision)
        vision = config;
    if (json_object_get(vision, "num_hidden_layers"))
        json_object_set_new(vision, "num_hidden_layers", json_integer(1));
    if (json_object_get(config, "num_blocks")) /* EoMT */
        json_object_set_new(config, "num_blocks", json_integer(1));
    return 1;
}

/* Adds an mmsegmentation head in a separate file. */
static size_t add_head(uint8_t *out, size_t capacity, size_t used, uint32_t width)
{
    static const char *const norm[] = {"weight", "bias", "running_mean", "running_var"};
    char text[192];
    uint32_t offset = 6 * width + 6;
    snprintf(text, sizeof text,
             "{\"decode_head.conv_seg.weight\":{\"dtype\":\"F16\",\"shape\":[3,%u,1,1],"
             "\"data_offsets\":[0,%u]},\"decode_head.conv_seg.bias\":{\"dtype\":\"F16\",",
             width, 6 * width);
    used = add(out, capacity, used, text);
    snprintf(text, sizeof text, "\"shape\":[3],\"data_offsets\":[%u,%u]}", 6 * width, offset);
    used = add(out, capacity, used, text);
    for (size_t i = 0; i < sizeof norm / sizeof *norm; i++, offset += 2 * width) {
        snprintf(text, sizeof text,
                 ",\"decode_head.bn.%s\":{\"dtype\":\"F16\",\"shape\":[%u],"
                 "\"data_offsets\":[%u,%u]}",
                 norm[i], width, offset, offset + 2 * width);
        used = add(out, capacity, used, text);
    }
    return add(out, capacity, used, "}");
}

/* A tensor of a language model's block (rank 1 or 2, or 3 with a 1 in the middle), for the kinds
 * whose letters are in `kinds`: s, r, l, d, g. */
typedef struct language_tensor {
    const char *kinds, *name;
    uint32_t rank, rows, cols;
} language_tensor;

static size_t add_language_header(uint8_t *out, size_t capacity, size_t used, char kind)
{
    static const language_tensor list[] = {
        {"srldg", "model.embeddings.weight", 2, 11, 8},
        {"srldg", "model.norm.weight", 1, 8, 1},
        {"srldg", "model.layers.0.attn_norm.weight", 1, 8, 1},
        {"srldg", "model.layers.0.mlp_norm.weight", 1, 8, 1},
        {"srldg", "model.layers.0.mlp.gate_proj.weight", 2, 12, 8},
        {"srldg", "model.layers.0.mlp.up_proj.weight", 2, 12, 8},
        {"srldg", "model.layers.0.mlp.down_proj.weight", 2, 8, 12},
        {"srldg", "model.layers.0.attn.q_proj.weight", 2, 8, 8},
        {"srldg", "model.layers.0.attn.k_proj.weight", 2, 8, 8},
        {"srldg", "model.layers.0.attn.v_proj.weight", 2, 8, 8},
        {"srldg", "model.layers.0.attn.o_proj.weight", 2, 8, 8},
        {"rlg", "model.layers.0.attn.g_proj.weight", 2, 8, 8},
        {"rl", "model.layers.0.attn.g_norm_swish_gate.weight", 1, 4, 1},
        {"l", "model.layers.0.attn.gk_proj.0.weight", 2, 3, 8},
        {"l", "model.layers.0.attn.gk_proj.1.weight", 2, 8, 3},
        {"l", "model.layers.0.attn.gk_proj.1.bias", 1, 8, 1},
        {"lg", "model.layers.0.attn.sla_q.weight", 2, 4, 2},
        {"lg", "model.layers.0.attn.sla_k.weight", 2, 4, 2},
        {"dg", "model.layers.0.attn.q_conv1d.weight", 3, 8, 4},
        {"dg", "model.layers.0.attn.k_conv1d.weight", 3, 8, 4},
        {"dg", "model.layers.0.attn.v_conv1d.weight", 3, 8, 4},
        {"dg", "model.layers.0.attn.b_proj.weight", 2, 2, 8},
        {"dg", "model.layers.0.attn.o_norm.weight", 1, 4, 1},
        {"g", "model.layers.0.attn.a_proj.weight", 2, 2, 8},
        {"g", "model.layers.0.attn.A_log", 1, 2, 1},
        {"g", "model.layers.0.attn.dt_bias", 1, 2, 1},
    };
    static const char *const shapes[] = {NULL, "[%u]", "[%u,%u]", "[%u,1,%u]"};
    uint32_t offset = 0;
    const char *before = "{";
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        const language_tensor *t = &list[i];
        char shape[32], text[192];
        if (!strchr(t->kinds, kind))
            continue;
        const uint32_t bytes = 4 * t->rows * t->cols;
        snprintf(shape, sizeof shape, shapes[t->rank], t->rows, t->cols);
        snprintf(text, sizeof text,
                 "%s\"%s\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[%u,%u]}", before,
                 t->name, shape, offset, offset + bytes);
        used = add(out, capacity, used, text);
        offset += bytes;
        before = ",";
    }
    return add(out, capacity, used, "}");
}

/* Writes a language model of one block and two heads, one for each kind. Returns 0 after the last.
 */
static size_t language_seed(size_t index, uint8_t *out, size_t capacity)
{
    static const struct {
        const char *type, *more;
    } kinds[] = {
        {"transformer", ",\"window_size\":3"},
        {"retnet", ",\"feature_map\":\"relu\""},
        {"gla", ",\"fovea\":{\"read_gate\":\"post_norm\"}"},
        {"delta_net", ",\"fovea\":{\"attention\":\"delta-rule:nala\"}"},
        {"gated_deltanet", ",\"allow_neg_eigval\":true"},
    };
    char text[256];
    if (index >= sizeof kinds / sizeof *kinds)
        return 0;
    snprintf(text, sizeof text,
             "{\"model_type\":\"%s\",\"hidden_size\":8,\"num_heads\":2,\"num_hidden_layers\":1,"
             "\"vocab_size\":11,\"tie_word_embeddings\":true%s}",
             kinds[index].type, kinds[index].more);
    size_t used = add(out, capacity, 0, text);
    fuzz_check(used + 2 <= capacity, "room for a seed");
    out[used++] = 0;
    out[used++] = 0;
    return add_language_header(out, capacity, used, "srldg"[index]);
}

size_t fuzz_seed(size_t index, uint8_t *out, size_t capacity)
{
    static const char *const models[] = {"vit-ti16",
                                         "deit-ti",
                                         "dinov2-s-reg",
                                         "clip-b32",
                                         "siglip-b16",
                                         "block-64x4x2",
                                         "mavit-t",
                                         "nalaformer-xt",
                                         "pola-pvt-t",
                                         "pola-swin-t",
                                         "dinov3-s",
                                         "dinov3-s-plus",
                                         "owlv2-b16",
                                         "beitv2-b16",
                                         "sam-b16",
                                         "sam2-t",
                                         "depth-anything-s",
                                         "vitpose-s",
                                         "vitpose-s-simple",
                                         "mavit-t-fpn",
                                         "pola-swin-t-upernet",
                                         "nalaformer-xt-retinanet",
                                         "eomt-s",
                                         "rf-detr-n",
                                         "rf-detr-seg-n",
                                         "lw-detr-t",
                                         "yolos-s",
                                         "eomt-dinov3-s",
                                         "mask2former-s",
                                         "dpt-dinov2-s",
                                         "swin-t",
                                         "swin-t-mask2former",
                                         "nalaformer-xt-mask2former",
                                         "pola-pvt-t-mask-rcnn",
                                         "mavit-t-cascade-rcnn"};
    static const char processor[] =
        "{\"image_processor_type\":\"BitImageProcessor\",\"size\":{\"shortest_edge\":32},"
        "\"crop_size\":{\"height\":32,\"width\":32},\"resample\":3,\"image_mean\":[0.5,0.5,0.5]}";
    static const fovea_model_options usual = FOVEA_MODEL_OPTIONS_INIT;
    static const fv_additions whole = {.attention = "pola", .full_module = true};
    char name[64];
    fovea_model *m;
    if (index >= sizeof models / sizeof *models)
        return language_seed(index - sizeof models / sizeof *models, out, capacity);
    snprintf(name, sizeof name, "synthetic:%s", models[index]);
    fuzz_check(fv_model_load(&m, name, &usual, index == 0 ? &whole : NULL) == FOVEA_OK,
               fovea_error());
    const uint32_t blocks = make_shallow(m->config);
    if (index == 0)
        json_object_set_new(m->config, "fovea", json_pack("{s:s}", "attention", whole.attention));
    if (index == 5)
        json_object_set_new(m->config, "fovea",
                            json_pack("{s:s}", "attention", "linear:elu1+softmax@0-0+mala@0"));
    char *config = json_dumps(m->config, JSON_COMPACT);
    fuzz_check(config != NULL, "memory");
    size_t used = add(out, capacity, 0, config);
    out[used++] = 0;
    if (index % 2 == 0)
        used = add(out, capacity, used, processor);
    out[used++] = 0;
    used = add_header(out, capacity, used, m->source, blocks);
    out[used++] = 0;
    if (index % 3 == 0 && !m->decoder)
        used = add_head(out, capacity, used, m->info.width);
    free(config);
    fovea_model_free(m);
    return used;
}
