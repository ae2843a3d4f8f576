/* test_model_load.c: tests loading of models: refusals, shards, files that change, image
 * processors, leaks. test_model_names.c tests the names of tensors. */
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/source.h"
#include "models/dense/depth_anything.h"
#include "models/dense/eomt.h"
#include "models/dense/mask2former.h"
#include "models/dense/vitpose.h"
#include "models/detr/rf_detr.h"
#include "models/detr/yolos.h"
#include "models/pyramid/sam2.h"
#include "models/pyramid/swin.h"
#include "models/synthetic.h"
#include "models/vit/sam.h"
#include "tests/models/small_checkpoint.h"

/* ---- refusals ---- */

static void unusable_configurations_are_refused(void **state)
{
    static const struct {
        const char *config;
        fovea_status status;
        const char *says;
    } cases[] = {
        {"{", FOVEA_EFORMAT, "JSON"},
        {"[1]", FOVEA_EFORMAT, "object"},
        {"{\"model_type\":\"resnet\",\"model_type\":3,\"x\":NaN}", FOVEA_EFORMAT,
         "must be a string"},
        {"{}", FOVEA_EFORMAT, "model_type"},
        {"{\"model_type\":3}", FOVEA_EFORMAT, "\"model_type\" must be a string"},
        {"{\"model_type\":\"resnet\"}", FOVEA_ENOTSUP, "docs/models.md lists the supported types"},
        {"{\"model_type\":\"vit\"}", FOVEA_EFORMAT, "none of the tensor names of a vit"},
        {"{\"model_type\":\"dinov2\"}", FOVEA_EFORMAT, "heads"},
        {DINOV2_CONFIG(",\"fovea\":[]"), FOVEA_EFORMAT, "\"fovea\" must be an object"},
        {DINOV2_CONFIG(",\"fovea\":{\"heads\":5}"), FOVEA_EFORMAT, "5 heads do not divide"},
        {DINOV2_CONFIG(",\"fovea\":{\"heads\":-1}"), FOVEA_EFORMAT, "\"fovea.heads\" must be"},
        {DINOV2_CONFIG(",\"fovea\":{\"pos_interp\":\"cubic\"}"), FOVEA_EFORMAT, "plain, offset"},
        {DINOV2_CONFIG(",\"num_channels\":1"), FOVEA_ENOTSUP, "RGB"},
        {DINOV2_CONFIG(",\"hidden_act\":\"mish\""), FOVEA_ENOTSUP, "mish"},
        {DINOV2_CONFIG(",\"newest\":1"), FOVEA_ENOTSUP, "\"newest\" is not known"},
        {DINOV2_CONFIG(",\"newest\":NaN,\"num_channels\":1"), FOVEA_ENOTSUP, "RGB"},
        {DINOV2_CONFIG(",\"is_decoder\":NaN"), FOVEA_ENOTSUP, "\"is_decoder\" has a value"},
        {DINOV2_CONFIG(",\"pruned_heads\":3"), FOVEA_ENOTSUP, "\"pruned_heads\" has a value"},
        {DINOV2_CONFIG(",\"is_decoder\":1"), FOVEA_ENOTSUP, "\"is_decoder\" has a value"},
        {DINOV2_CONFIG(",\"is_decoder\":0,\"pruned_heads\":{},\"num_channels\":1"), FOVEA_ENOTSUP,
         "RGB"},
        {DINOV2_CONFIG(",\"qkv_bias\":2"), FOVEA_EFORMAT, "true or false"},
        {DINOV2_CONFIG(",\"qkv_bias\":0"), FOVEA_ENOTSUP, "not used by"},
        {DINOV2_CONFIG(",\"layer_norm_eps\":NaN"), FOVEA_EFORMAT, "layer_norm_eps\" must be"},
        {DINOV2_CONFIG(",\"layer_norm_eps\":\"1e-6\""), FOVEA_EFORMAT, "layer_norm_eps\" must be"},
        {DINOV2_CONFIG(",\"intermediate_size\":96.0"), FOVEA_EFORMAT, "(128, 64), but (96, 64)"},
        {DINOV2_CONFIG(",\"qkv_bias\":false"), FOVEA_ENOTSUP, "not used by"},
        {DINOV2_CONFIG(",\"intermediate_size\":96"), FOVEA_EFORMAT, "(128, 64), but (96, 64)"},
        {"{\"model_type\":\"dinov2\",\"hidden_size\":1e99}", FOVEA_EFORMAT, "integer"},
        {"{\"model_type\":\"dinov2\",\"hidden_size\":99999999}", FOVEA_EFORMAT, "1 to 65536"},
        {"{\"model_type\":\"dinov2\",\"hidden_size\":32,\"num_attention_heads\":1}", FOVEA_EFORMAT,
         "(64, 3, 4, 4), but (32, 3, 4, 4)"},
        {"{\"model_type\":\"dinov2\",\"num_hidden_layers\":3,\"num_attention_heads\":1}",
         FOVEA_EFORMAT, "encoder.layer.2."},
        {"{\"model_type\":\"dinov2\",\"num_attention_heads\":1,\"image_size\":16}", FOVEA_EFORMAT,
         "image_size"},
        {"{\"model_type\":\"dinov2\",\"num_attention_heads\":1,\"image_size\":[8]}", FOVEA_EFORMAT,
         "a size"},
        {"{\"model_type\":\"dinov2\",\"num_attention_heads\":1,\"patch_size\":[4,2]}",
         FOVEA_ENOTSUP, "square"},
    };
    (void)state;
    write_checkpoint(dinov2, DINOV2_CONFIG(""));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text("config.json", cases[i].config);
        expect_failure(cases[i].status, cases[i].says);
    }
    unlink(in_folder("config.json"));
    expect_failure(FOVEA_EIO, "config.json");
    write_text("config.json", DINOV2_CONFIG(""));
    unlink(in_folder("model.safetensors"));
    expect_failure(FOVEA_EIO, "neither");
    assert_int_equal(fv_mem_tagged(FV_MEM_MODEL), 0);
}

static void keep_message(const char *line, void *payload)
{
    snprintf(payload, 400, "%s", line);
}

static void blocks_that_are_left_out_are_told_of(void **state)
{
    char message[400] = "";
    (void)state;
    fovea_log_set(keep_message, message);
    write_checkpoint(dinov2, DINOV2_CONFIG(""));
    fovea_model_free(load(folder));
    assert_string_equal(message, "");
    write_text("config.json",
               "{\"model_type\":\"dinov2\",\"num_hidden_layers\":1,\"num_attention_heads\":1}");
    fovea_model *m = load(folder);
    assert_int_equal(m->info.depth, 1);
    assert_non_null(strstr(message, "num_hidden_layers is 1"));
    assert_non_null(strstr(message, "model.safetensors"));
    fovea_model_free(m);
    fovea_log_set(NULL, NULL);
}

static void every_missing_or_misshapen_tensor_is_named(void **state)
{
    (void)state;
    struct checkpoint *c = checkpoint_of(dinov2);
    write_text("config.json", DINOV2_CONFIG(""));
    for (size_t i = 0; i < c->n; i++) {
        const fovea_tensor whole = c->tensor[i], last = c->tensor[c->n - 1];
        if (strstr(whole.name, "mask_token"))
            continue;
        c->tensor[i] = last;
        assert_int_equal(
            fovea_tensors_write(in_folder("model.safetensors"), c->tensor, c->n - 1, NULL, 0),
            FOVEA_OK);
        c->tensor[i] = whole;
        expect_failure(FOVEA_EFORMAT,
                       strstr(whole.name, "projection.weight")  ? "none of the tensor names"
                       : strstr(whole.name, "0.norm1.weight")   ? "none of the tensor names"
                       : strstr(whole.name, "norm1.weight")     ? "layer.1."
                       : strstr(whole.name, "0.mlp.fc2.weight") ? "MLP"
                                                                : whole.name);
        c->tensor[i].shape[0]++;
        c->tensor[i].size += 4 * (whole.size / 4 / (c->tensor[i].shape[0] - 1));
        char *longer = calloc(1, c->tensor[i].size);
        assert_non_null(longer);
        c->tensor[i].data = longer;
        assert_int_equal(
            fovea_tensors_write(in_folder("model.safetensors"), c->tensor, c->n, NULL, 0),
            FOVEA_OK);
        expect_failure(FOVEA_EFORMAT, strstr(whole.name, "position") ? "position" : whole.name);
        free(longer);
        c->tensor[i] = whole;
        c->tensor[i].dtype = "I32";
        assert_int_equal(
            fovea_tensors_write(in_folder("model.safetensors"), c->tensor, c->n, NULL, 0),
            FOVEA_OK);
        expect_failure(FOVEA_ENOTSUP, "has type I32");
        c->tensor[i] = whole;
    }
    free_checkpoint(c);
}

static fovea_status plan(fovea_model *m, int dry)
{
    fovea_device *device;
    fovea_plan *p = NULL;
    fovea_plan_options o = FOVEA_PLAN_OPTIONS_INIT;
    o.frame.width = o.frame.height = SIDE * PATCH;
    o.dry = dry;
    assert_int_equal(fovea_device_open(&device, "cpu", NULL), FOVEA_OK);
    const fovea_status status = fovea_plan_create(&p, m, device, &o);
    fovea_plan_free(p);
    fovea_device_close(device);
    return status;
}

/* ---- shards ---- */

static void shards_are_joined(void **state)
{
    char index[8192] = "{\"weight_map\":{";
    (void)state;
    clear_folder();
    write_checkpoint(dinov2, DINOV2_CONFIG(""));
    fovea_model *whole = load(folder);
    unlink(in_folder("model.safetensors"));
    struct checkpoint *c = checkpoint_of(dinov2);
    const size_t cut = c->n / 2;
    assert_int_equal(fovea_tensors_write(in_folder("one.safetensors"), c->tensor, cut, NULL, 0),
                     FOVEA_OK);
    assert_int_equal(
        fovea_tensors_write(in_folder("two.safetensors"), c->tensor + cut, c->n - cut, NULL, 0),
        FOVEA_OK);
    for (size_t i = 0; i < c->n; i++)
        sprintf(index + strlen(index), "%s\"%s\":\"%s.safetensors\"", i ? "," : "", c->name[i],
                i < cut ? "one" : "two");
    free_checkpoint(c);
    strcat(index, "}}");
    write_text("model.safetensors.index.json", index);
    fovea_model *sharded = load(folder);
    same_roles(whole, sharded);
    assert_true(sharded->info.mapped_bytes > 0);
    fovea_model_free(sharded);
    sharded = load(in_folder("model.safetensors.index.json"));
    same_roles(whole, sharded);
    fovea_model_free(whole);
    fovea_model_free(sharded);

    static const char *const bad[][2] = {
        {"{}", "weight_map"},
        {"{\"weight_map\":{\"a\":1}}", "same folder"},
        {"{\"weight_map\":{\"a\":\"../one.safetensors\"}}", "same folder"},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "same folder"},
        {"{\"weight_map\":{\"a\":\"..\"}}", "same folder"},
        {"{\"weight_map\":{\"a\":\"one.safetensors\"}}", "none of the tensor names"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_text("model.safetensors.index.json", bad[i][0]);
        expect_failure(FOVEA_EFORMAT, bad[i][1]);
    }

    /* A tensor of the second shard that the index assigns to the first shard, to a file that does
     * not exist, or to a shard that lacks it. */
    char *last = strrchr(index, '"');
    memcpy(strstr(last - 17, "two"), "one", 3);
    write_text("model.safetensors.index.json", index);
    expect_failure(FOVEA_EFORMAT, "is not in one.safetensors");
    memcpy(strstr(last - 17, "one"), "six", 3);
    write_text("model.safetensors.index.json", index);
    expect_failure(FOVEA_EFORMAT, "is listed in six.safetensors, but is in");
    strcpy(last + 1, ",\"layernorm.scale\":\"two.safetensors\"}}");
    memcpy(strstr(last - 17, "six"), "two", 3);
    write_text("model.safetensors.index.json", index);
    expect_failure(FOVEA_EFORMAT, "\"layernorm.scale\" is not in two.safetensors");
    clear_folder();
}

/* Shards of a larger model may be missing or damaged if they contain no tensor of its vision tower.
 */
static void shards_of_others_stay_closed(void **state)
{
    char index[8192] = "{\"weight_map\":{\"text.norm.weight\":\"absent.safetensors\","
                       "\"lm_head.weight\":\"damaged.safetensors\"";
    (void)state;
    clear_folder();
    write_checkpoint(dinov2, DINOV2_CONFIG(""));
    fovea_model *whole = load(folder);
    unlink(in_folder("model.safetensors"));
    struct checkpoint *c = checkpoint_of(dinov2);
    assert_int_equal(fovea_tensors_write(in_folder("tower.safetensors"), c->tensor, c->n, NULL, 0),
                     FOVEA_OK);
    for (size_t i = 0; i < c->n; i++)
        sprintf(index + strlen(index), ",\"%s\":\"tower.safetensors\"", c->name[i]);
    free_checkpoint(c);
    write_text("damaged.safetensors", "no tensors at all");
    strcat(index, "}}");
    write_text("model.safetensors.index.json", index);
    fovea_model *tower = load(folder);
    same_roles(whole, tower);
    assert_int_equal(tower->source->files, 1);
    assert_int_equal(tower->info.mapped_bytes, whole->info.mapped_bytes);
    assert_int_equal(plan(tower, 0), FOVEA_OK);
    assert_int_equal(fv_source_open_all(tower->source), FOVEA_EIO); /* training needs all shards */
    assert_non_null(strstr(fovea_error(), "absent.safetensors"));
    fovea_model_free(whole);
    fovea_model_free(tower);

    /* One of the tower's tensors is in a missing or damaged shard. */
    static const char *const shard[] = {"absent.safetensors", "damaged.safetensors"};
    c = checkpoint_of(dinov2);
    assert_int_equal(
        fovea_tensors_write(in_folder("tower.safetensors"), c->tensor, c->n - 1, NULL, 0),
        FOVEA_OK);
    free_checkpoint(c);
    for (size_t i = 0; i < 2; i++) {
        char moved[8192];
        char *at = strstr(index, "layernorm.bias");
        snprintf(moved, sizeof moved, "%.*slayernorm.bias\":\"%s\"}}", (int)(at - index), index,
                 shard[i]);
        write_text("model.safetensors.index.json", moved);
        expect_failure(i ? FOVEA_EFORMAT : FOVEA_EIO, shard[i]);
    }
    clear_folder();
    assert_int_equal(fv_mem_tagged(FV_MEM_MODEL), 0);
}

/* ---- a part of a larger checkpoint ---- */

#define TOWER_FIELDS                                                                               \
    "\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":1,\"image_size\":12,"      \
    "\"patch_size\":4"

/* Writes a DINOv2 under "my.eyes.", and a second complete one without a prefix and with other
 * values. */
static void write_two(const char *config)
{
    struct checkpoint *c = checkpoint_of(dinov2);
    fovea_tensor both[2 * MAX_TENSORS];
    char name[MAX_TENSORS][96];
    float other[C * HIDDEN] = {7};
    for (size_t i = 0; i < c->n; i++) {
        both[i] = both[c->n + i] = c->tensor[i];
        both[i].data = other;
        assert_true(both[i].size <= sizeof other);
        snprintf(name[i], sizeof name[i], "my.eyes.%s", c->name[i]);
        both[c->n + i].name = name[i];
    }
    assert_int_equal(fovea_tensors_write(in_folder("model.safetensors"), both, 2 * c->n, NULL, 0),
                     FOVEA_OK);
    write_text("config.json", config);
    free_checkpoint(c);
}

static fovea_model *load_behind(const char *prefix)
{
    fovea_model *m = NULL;
    fovea_model_options o = FOVEA_MODEL_OPTIONS_INIT;
    o.prefix = prefix;
    if (fovea_model_load_with(&m, folder, &o) != FOVEA_OK)
        fail_msg("%s: %s", prefix ? prefix : "no prefix", fovea_error());
    return m;
}

static void a_prefix_chooses_the_tower(void **state)
{
    static const char *const good[] = {
        /* section "my" describes the model, whatever the other keys say */
        "{\"model_type\":\"chatty\",\"hidden_size\":9,\"x\":1,"
        "\"vision_config\":{\"model_type\":\"dinov2\"," TOWER_FIELDS "}}",
        "{\"model_type\":\"vit\",\"vision_config\":{\"model_type\":\"dinov2\"," TOWER_FIELDS "}}",
        "{\"model_type\":\"dinov2\",\"vision_config\":{" TOWER_FIELDS "}}",
        "{\"model_type\":\"vit\",\"fovea\":{\"model_type\":\"dinov2\"},\"vision_config\":{"
        "\"model_type\":\"eyes\"," TOWER_FIELDS "}}",
        /* the top level describes the model */
        DINOV2_CONFIG(""),
        /* only "fovea" describes the model */
        ("{\"model_type\":\"chatty\",\"hidden_size\":9,\"x\":1,"
         "\"fovea\":{\"model_type\":\"dinov2\",\"heads\":1}}"),
    };
    (void)state;
    clear_folder();
    fovea_model *alone = load_lines(dinov2, DINOV2_CONFIG(""));
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        write_two(good[i]);
        fovea_model *tower = load_behind(i % 2 ? "my.eyes" : "my.eyes.");
        same_roles(alone, tower);
        assert_string_equal(tower->info.type, "dinov2");
        assert_true(alone->info.parameters == tower->info.parameters);
        fovea_model_free(tower);
    }
    write_two(DINOV2_CONFIG(",\"fovea\":{\"prefix\":\"my.eyes\"}"));
    fovea_model *told = load(folder);
    same_roles(alone, told);
    fovea_model_free(told);
    told = load_behind(""); /* no prefix was given */
    same_roles(alone, told);
    fovea_model_free(told);
    fovea_model_free(alone);
    write_text("config.json", DINOV2_CONFIG(",\"fovea\":{\"prefix\":\"my.ears\"}"));
    expect_failure(FOVEA_EFORMAT, "no tensor's name begins with \"my.ears.\"");
    told = load_behind("my.eyes."); /* the given prefix overrides config.json */
    fovea_model_free(told);
    write_text("config.json", DINOV2_CONFIG(",\"fovea\":{\"prefix\":3}"));
    expect_failure(FOVEA_EFORMAT, "fovea.prefix");
    write_text("config.json", "{\"model_type\":\"chatty\",\"fovea\":{\"prefix\":\"my.eyes.\"}}");
    expect_failure(FOVEA_ENOTSUP,
                   "\"chatty\" does not name the model whose tensors have this prefix");

    fovea_model_options o = FOVEA_MODEL_OPTIONS_INIT;
    char longest[200] = "";
    fovea_model *none = NULL;
    memset(longest, 'x', sizeof longest - 1);
    o.prefix = longest;
    assert_int_equal(fovea_model_load_with(&none, folder, &o), FOVEA_EINVAL);
    assert_int_equal(fovea_model_load_with(&none, "synthetic:vit-b16", &o), FOVEA_EINVAL);
    clear_folder();
    assert_int_equal(fv_mem_tagged(FV_MEM_MODEL), 0);
}

/* ---- files that change ---- */

/* A replaced file stays mapped. A truncated file must be detected, because reading beyond its end
 * would crash the process. */
static void changed_files_are_not_read(void **state)
{
    (void)state;
    clear_folder();
    fovea_model *m = load_lines(dinov2, DINOV2_CONFIG(""));
    fovea_model *other = load(folder);
    struct stat st;
    assert_int_equal(plan(m, 0), FOVEA_OK);
    write_checkpoint(dinov2, DINOV2_CONFIG("")); /* renames */
    assert_int_equal(plan(m, 0), FOVEA_OK);
    fovea_model *cut = load(folder);
    assert_int_equal(stat(in_folder("model.safetensors"), &st), 0);
    assert_int_equal(truncate(in_folder("model.safetensors"), st.st_size / 2), 0);
    assert_int_equal(plan(cut, 0), FOVEA_EIO);
    assert_non_null(strstr(fovea_error(), "model.safetensors was written to"));
    assert_int_equal(plan(cut, 1), FOVEA_OK);
    assert_int_equal(plan(other, 0), FOVEA_OK);
    fovea_model_free(cut);
    fovea_model_free(other);
    fovea_model_free(m);
    clear_folder();
}

/* ---- preprocessing ---- */

static void image_processors_are_read(void **state)
{
    static const struct {
        const char *config;
        fovea_preprocess want;
    } cases[] = {
        {"{\"image_processor_type\":\"BitImageProcessor\",\"size\":{\"shortest_edge\":256},"
         "\"crop_size\":{\"height\":224,\"width\":200},\"resample\":3,\"do_center_crop\":true,"
         "\"image_mean\":[0.5,0.25,0.125],\"image_std\":[1,2,3]}",
         {0,
          FOVEA_RESIZE_SHORT,
          FOVEA_FILTER_BICUBIC,
          256,
          0,
          0,
          200,
          224,
          1 / 255.0f,
          {0.5f, 0.25f, 0.125f},
          {1, 2, 3}}},
        {"{\"feature_extractor_type\":\"ViTFeatureExtractor\",\"size\":384,\"resample\":2,"
         "\"image_mean\":[0,0,0],\"image_std\":[1,1,1]}",
         {0,
          FOVEA_RESIZE_EXACT,
          FOVEA_FILTER_BILINEAR,
          0,
          384,
          384,
          0,
          0,
          1 / 255.0f,
          {0, 0, 0},
          {1, 1, 1}}},
        {"{\"feature_extractor_type\":\"CLIPFeatureExtractor\",\"size\":224,\"crop_size\":224,"
         "\"resample\":1,\"do_normalize\":false,\"rescale_factor\":0.5}",
         {0,
          FOVEA_RESIZE_SHORT,
          FOVEA_FILTER_LANCZOS,
          224,
          0,
          0,
          224,
          224,
          0.5f,
          {0, 0, 0},
          {1, 1, 1}}},
        {"{\"size\":{\"height\":30,\"width\":40},\"do_rescale\":false,\"do_center_crop\":false,"
         "\"do_normalize\":false,\"resample\":0}",
         {0, FOVEA_RESIZE_EXACT, FOVEA_FILTER_NEAREST, 0, 40, 30, 0, 0, 1, {0, 0, 0}, {1, 1, 1}}},
        {"{\"image_processor_type\":\"SmolVLMImageProcessor\",\"do_image_splitting\":true,"
         "\"max_image_size\":{\"longest_edge\":512},\"size\":{\"longest_edge\":2048}}",
         {0,
          FOVEA_RESIZE_EXACT,
          FOVEA_FILTER_LANCZOS,
          0,
          512,
          512,
          0,
          0,
          1 / 255.0f,
          {0.5f, 0.5f, 0.5f},
          {0.5f, 0.5f, 0.5f}}},
        {"{\"image_processor_type\":\"DPTImageProcessor\",\"size\":{\"height\":518,\"width\":392},"
         "\"keep_aspect_ratio\":true,\"ensure_multiple_of\":14,\"resample\":3}",
         {0,
          FOVEA_RESIZE_FIT,
          FOVEA_FILTER_BICUBIC,
          0,
          392,
          518,
          0,
          0,
          1 / 255.0f,
          {0.5f, 0.5f, 0.5f},
          {0.5f, 0.5f, 0.5f}}},
        {"{\"image_processor_type\":\"DPTImageProcessor\",\"size\":384,\"keep_aspect_ratio\":false,"
         "\"do_normalize\":false}",
         {0,
          FOVEA_RESIZE_EXACT,
          FOVEA_FILTER_BICUBIC,
          0,
          384,
          384,
          0,
          0,
          1 / 255.0f,
          {0, 0, 0},
          {1, 1, 1}}},
    };
    (void)state;
    write_checkpoint(dinov2, DINOV2_CONFIG(""));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text("preprocessor_config.json", cases[i].config);
        fovea_model *m = load(folder);
        const fovea_preprocess *p = &m->preprocess, *w = &cases[i].want;
        assert_int_equal(p->struct_size, sizeof *p);
        assert_int_equal(p->resize, w->resize);
        assert_int_equal(p->filter, w->filter);
        assert_int_equal(p->short_edge, w->short_edge);
        assert_int_equal(p->resize_width, w->resize_width);
        assert_int_equal(p->resize_height, w->resize_height);
        assert_int_equal(p->crop_width, w->crop_width);
        assert_int_equal(p->crop_height, w->crop_height);
        assert_true(p->rescale == w->rescale);
        assert_memory_equal(p->mean, w->mean, sizeof p->mean);
        assert_memory_equal(p->std, w->std, sizeof p->std);
        fovea_model_free(m);
    }
    static const char *const bad[][2] = {
        {"{\"image_std\":[1,1]}", "image_std"},
        {"{\"image_std\":[1,1,0]}", "image_std"},
        {"{\"resample\":9}", "resample"},
        {"{\"size\":\"big\"}", "size"},
        {"{\"size\":{\"height\":5}}", "size"},
        {"{\"size\":-3}", "size"},
        {"{\"do_resize\":\"yes\"}", "do_resize"},
        {"{\"rescale_factor\":-1}", "rescale_factor"},
        {"{\"crop_size\":[1,2,3]}", "crop_size"},
        {"{\"image_processor_type\":\"DPTImageProcessor\",\"ensure_multiple_of\":0}",
         "ensure_multiple_of"},
        {"{\"image_processor_type\":\"DPTImageProcessor\",\"keep_aspect_ratio\":2}",
         "keep_aspect_ratio"},
        {"{\"size\":{\"longest_edge\":9}}", "size"},
        {"{\"image_processor_type\":\"SmolVLMImageProcessor\","
         "\"max_image_size\":{\"longest_edge\":0}}",
         "max_image_size.longest_edge"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_text("preprocessor_config.json", bad[i][0]);
        expect_failure(FOVEA_EFORMAT, bad[i][1]);
        assert_non_null(strstr(fovea_error(), "preprocessor_config.json"));
    }
    unlink(in_folder("preprocessor_config.json"));
}

/* ---- synthetic models ---- */

static void synthetic_models_load(void **state)
{
    const char *name;
    (void)state;
    for (size_t i = 0; (name = fovea_model_synthetic(i)) != NULL; i++) {
        char path[64];
        snprintf(path, sizeof path, "synthetic:%s", name);
        fovea_model *m = load(path);
        if (strcmp(m->family->name, "vit") != 0) {
            fovea_model_free(m);
            continue;
        }
        const fv_vit *v = m->roles;
        const fv_weight *w = &v->block[v->depth - 1].fc1.w;
        float rows[2][4608];
        double sum = 0, squares = 0;
        for (uint32_t r = 0; r < 64; r++) {
            fv_weight_read(w, r, 1, rows[0]);
            for (uint32_t k = 0; k < w->cols; k++) {
                sum += rows[0][k];
                squares += (double)rows[0][k] * rows[0][k];
            }
        }
        const double n = 64.0 * w->cols;
        assert_true(sum / n < 0.01 && sum / n > -0.01);
        assert_true(squares / n * w->cols > 0.9 && squares / n * w->cols < 1.1);
        fv_weight_read(w, 7, 2, rows[0]);
        fv_weight_read(w, 8, 1, rows[1]);
        assert_memory_equal(rows[0] + w->cols, rows[1], w->cols * sizeof(float));
        assert_true(m->info.mapped_bytes == 0 && m->info.parameters > 5000000);
        fovea_model_free(m);
    }
    fovea_model *none = NULL;
    assert_int_equal(fovea_model_load(&none, "synthetic:vit-x99"), FOVEA_EINVAL);
    assert_int_equal(fv_mem_tagged(FV_MEM_MODEL), 0);
}

/* Returns the number of parameters in transformers' classes that inference does not use: the mask
 * token of DINOv2, DINOv3, Depth Anything and RF-DETR; in Depth Anything and DPT also a unit of the
 * first fusion layer; in RF-DETR also twelve further groups of queries, as in LW-DETR; in SAM the
 * layers that read masks as prompts, in SAM 2 also the head of the object's presence, less the
 * frequencies of positions, which do not count there. */
static uint64_t unread(const fovea_model *m)
{
    if (strcmp(m->family->name, "depth_anything") == 0 || strcmp(m->family->name, "dpt") == 0) {
        const fv_depth_anything *d = m->roles;
        const uint64_t c = d->neck.width;
        const bool own = d->backbone.vit.patch == 16; /* a ViT without a mask token */
        const bool biased = fv_weight_present(&d->neck.level[0].fused.conv1.b);
        return (own ? 0 : m->info.width) + 2 * (9 * c * c + (biased ? c : 0));
    }
    if (strcmp(m->family->name, "sam") == 0)
        return 4684;
    if (strcmp(m->family->name, "sam2") == 0)
        return 136525 - 256;
    const bool lw = strcmp(m->family->name, "lw_detr") == 0;
    if (lw || strcmp(m->family->name, "rf_detr") == 0)
        return (lw ? 0 : m->info.width) +
               12 * (222303 + 260 * (uint64_t)((const fv_rf_detr *)m->roles)->queries);
    return strncmp(m->info.type, "dino", 4) == 0 ? m->info.width : 0;
}

/* Synthetic models have the number of parameters of transformers' classes in the published sizes,
 * including heads and projections. */
static void synthetic_models_have_the_published_sizes(void **state)
{
    static const struct {
        const char *name;
        uint64_t parameters;
    } published[] = {
        {"vit-ti16", 5717416},          {"vit-s16", 22050664},
        {"vit-b16", 86567656},          {"vit-b32", 88224232},
        {"vit-l16", 304326632},         {"vit-h14", 632045800},
        {"deit-ti", 5910800},           {"deit-s", 22436432},
        {"deit-b", 87338192},           {"dinov2-s", 22825576},
        {"dinov2-b", 88117480},         {"dinov2-l", 306417640},
        {"dinov2-g", 1139553768},       {"dinov2-s-reg", 22827112},
        {"dinov2-b-reg", 88120552},     {"dinov2-l-reg", 306421736},
        {"dinov2-g-reg", 1139559912},   {"dinov3-s", 21596544},
        {"dinov3-s-plus", 28692864},    {"dinov3-b", 85660416},
        {"dinov3-l", 303129600},        {"dinov3-h-plus", 840592640},
        {"ijepa-h14", 630762240},       {"ijepa-h16", 631668480},
        {"owlv2-b16", 88413696},        {"owlv2-l14", 308226048},
        {"clip-b32", 87849216},         {"clip-b16", 86192640},
        {"clip-l14", 303966208},        {"siglip-b16", 92884224},
        {"siglip-l16", 315956224},      {"siglip-so400m", 428225600},
        {"beitv2-b16", 86530984},       {"beitv2-l16", 304430568},
        {"sam-b16", 93735728},          {"sam-l16", 312343088},
        {"sam-h16", 641090864},         {"sam2-t", 31440721},
        {"sam2-s", 38538577},           {"sam2-b-plus", 73328401},
        {"sam2-l", 216924865},          {"depth-anything-s", 24785089},
        {"depth-anything-b", 97470785}, {"depth-anything-l", 335315649},
        {"vitpose-s-simple", 21722513}, {"vitpose-s", 24290577},
        {"vitpose-b-simple", 85912337}, {"vitpose-b", 89994513},
        {"vitpose-l", 308544785},       {"vitpose-h", 637208849},
        {"eomt-s", 23975942},           {"eomt-b", 93663110},
        {"eomt-l", 316695686},          {"eomt-dinov3-s", 23356934},
        {"eomt-dinov3-b", 92425094},    {"eomt-dinov3-l", 315032710},
        {"mask2former-s", 41999703},    {"mask2former-b", 106916439},
        {"mask2former-l", 324966487},   {"rf-detr-n", 30467298},
        {"rf-detr-s", 32111170},        {"rf-detr-m", 33687458},
        {"rf-detr-b", 32174530},        {"rf-detr-l", 33933218},
        {"rf-detr-seg-n", 33577475},    {"rf-detr-seg-s", 33711107},
        {"rf-detr-seg-m", 35694259},    {"rf-detr-seg-l", 35873971},
        {"rf-detr-seg-xl", 38113635},   {"rf-detr-seg-2xl", 38648163},
        {"lw-detr-t", 12052002},        {"lw-detr-s", 14557378},
        {"lw-detr-m", 28237378},        {"dpt-dinov2-s", 37197601},
        {"dpt-l", 343030465},           {"swin-t", 28288354},
        {"swin-s", 49606258},           {"swin-b", 87768224},
        {"swin-b384", 87903584},        {"swin-l", 196532476},
        {"swin-l384", 196735516},       {"yolos-ti", 6488736},
        {"yolos-s", 30684768},          {"yolos-b", 127798368},
    };
    size_t names = 0;
    (void)state;
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        char path[64];
        snprintf(path, sizeof path, "synthetic:%s", published[i].name);
        fovea_model *m = load(path);
        if (m->info.parameters + unread(m) != published[i].parameters)
            fail_msg("%s: %llu parameters, published are %llu", path,
                     (unsigned long long)m->info.parameters,
                     (unsigned long long)published[i].parameters);
        fovea_model_free(m);
    }
    const fv_synthetic_list *const lists[] = {
        &fv_vit_synthetics,     &fv_sam_synthetics,     &fv_depth_anything_synthetics,
        &fv_vitpose_synthetics, &fv_eomt_synthetics,    &fv_mask2former_synthetics,
        &fv_rf_detr_synthetics, &fv_lw_detr_synthetics, &fv_dpt_synthetics,
        &fv_swin_synthetics,    &fv_yolos_synthetics,   &fv_sam2_synthetics};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        names += lists[i]->count;
    assert_int_equal(names, sizeof published / sizeof *published); /* no model is missing */
}

/* Decoders over a Swin have the numbers of parameters of transformers' classes without the last
 * norm of the backbone and without an auxiliary head. */
static void decoders_have_the_published_sizes(void **state)
{
    static const struct {
        const char *path;
        uint64_t parameters;
    } published[] = {{"synthetic:swin-t-mask2former", 47439633},
                     {"synthetic:swin-l384-mask2former", 215488779},
                     {"synthetic:swin-t-upernet", 59018064}};
    (void)state;
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        fovea_model *m = load(published[i].path);
        assert_int_equal(m->info.parameters, published[i].parameters);
        fovea_model_free(m);
    }
}

/* ---- real checkpoints ---- */

static void golden_checkpoints_load(void **state)
{
    static const struct {
        const char *name;
        uint32_t width, depth, prefix, classes;
        const char *output;
    } cases[] = {
        {"vit-01", 64, 3, 1, 10, "logits"},
        {"vit-02", 72, 3, 1, 0, "last_hidden_state"},
        {"dinov2-01", 64, 3, 1, 0, "last_hidden_state"},
        {"dinov2-02", 96, 3, 1, 10, "logits"},
        {"dinov2-03", 64, 3, 1, 0, "last_hidden_state"},
        {"dinov2-with-registers-01", 64, 3, 5, 0, "last_hidden_state"},
        {"dinov2-with-registers-02", 64, 3, 4, 0, "last_hidden_state"},
        {"dinov2-with-registers-03", 64, 2, 2, 0, "last_hidden_state"},
        {"clip-vision-01", 64, 3, 1, 0, "last_hidden_state"},
        {"clip-vision-02", 72, 3, 1, 0, "last_hidden_state"},
        {"clip-vision-03", 64, 2, 1, 0, "last_hidden_state"},
        {"siglip-01", 64, 3, 0, 0, "last_hidden_state"},
        {"siglip-02", 72, 3, 0, 0, "last_hidden_state"},
    };
    const char *golden = getenv("FOVEA_GOLDEN");
    size_t found = 0;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[512];
        struct stat st;
        snprintf(path, sizeof path, "%s/models/%s", golden ? golden : TEST_DATA "/golden",
                 cases[i].name);
        if (stat(path, &st) != 0)
            continue;
        fovea_model *m = load(path);
        fovea_model_info info = FOVEA_MODEL_INFO_INIT;
        fovea_model_describe(m, &info);
        assert_int_equal(info.width, cases[i].width);
        assert_int_equal(info.depth, cases[i].depth);
        assert_int_equal(info.prefix, cases[i].prefix);
        assert_int_equal(info.classes, cases[i].classes);
        assert_string_equal(fovea_model_output(m, 0), cases[i].output);
        fovea_model_free(m);
        strcat(path, "/model.safetensors"); /* the file alone is a model, too */
        fovea_model_free(load(path));
        found++;
    }
    if (!found) {
        print_message("skipped: no such files here\n");
        skip();
    }
    assert_int_equal(fv_mem_tagged(FV_MEM_MODEL), 0);
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    write_checkpoint(dinov2, DINOV2_CONFIG(",\"id2label\":{\"0\":\"a\"}"));
    write_text("preprocessor_config.json", "{}");
    const char *const paths[] = {folder, "synthetic:siglip-b16"};
    for (size_t i = 0; i < 2; i++)
        for (uint64_t n = 1, done = 0; !done; n++) {
            fovea_model *m = NULL;
            fv_mem_fail_at(n);
            const fovea_status status = fovea_model_load(&m, paths[i]);
            fv_mem_fail_at(0);
            done = status == FOVEA_OK;
            assert_true(done || status == FOVEA_ENOMEM);
            fovea_model_free(m);
            assert_int_equal(fv_mem_tagged(FV_MEM_MODEL), 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_checkpoints_load),
        cmocka_unit_test(unusable_configurations_are_refused),
        cmocka_unit_test(blocks_that_are_left_out_are_told_of),
        cmocka_unit_test(every_missing_or_misshapen_tensor_is_named),
        cmocka_unit_test(shards_are_joined),
        cmocka_unit_test(shards_of_others_stay_closed),
        cmocka_unit_test(a_prefix_chooses_the_tower),
        cmocka_unit_test(changed_files_are_not_read),
        cmocka_unit_test(image_processors_are_read),
        cmocka_unit_test(synthetic_models_load),
        cmocka_unit_test(synthetic_models_have_the_published_sizes),
        cmocka_unit_test(decoders_have_the_published_sizes),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
