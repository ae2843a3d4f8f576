/* test_pyramid.c: tests MAViT and NaLaFormer checkpoints: names, wrappers, sizes, folding and
 * refusals. test_pyramid.py tests the results.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "models/fold.h"
#include "models/pyramid/pyramid.h"
#include "tests/temp_folder.h"

extern const fv_family fv_family_mavit, fv_family_nalaformer;
static const fv_family *const families[] = {&fv_family_mavit, &fv_family_nalaformer};

static const fv_pyramid_spec tiny = {
    "tiny", {8, 12, 16, 20}, {1, 2, 1, 1}, {2, 3, 1, 5}, 1.5, 6,
};
#define CLASSES 1000

/* ---- small checkpoints, written to the folder ---- */

#define TENSORS 400

struct checkpoint {
    fovea_tensor tensor[TENSORS];
    char name[TENSORS][128];
    size_t n;
    json_t *config;
};

static void succeed(fovea_status status)
{
    if (status != FOVEA_OK)
        fail_msg("%s: %s", fovea_status_text(status), fovea_error());
}

static void add(struct checkpoint *c, const char *prefix, const fv_tensor *t, float more)
{
    float *data = malloc(t->elements * sizeof *data);
    assert_non_null(data);
    assert_true(c->n < TENSORS);
    fv_tensor_read(t, 0, t->elements, data);
    for (uint64_t i = 0; i < t->elements; i++)
        data[i] += more;
    snprintf(c->name[c->n], sizeof c->name[c->n], "%s%s", prefix, t->name);
    c->tensor[c->n] = (fovea_tensor){.name = c->name[c->n],
                                     .dtype = "F32",
                                     .rank = t->rank,
                                     .data = data,
                                     .size = t->elements * sizeof *data};
    memcpy(c->tensor[c->n++].shape, t->shape, sizeof t->shape);
}

/* Adds the tiny model of a family, with `prefix` before the names and `more` added to the values.
 */
static void add_model(struct checkpoint *c, const fv_family *family, const char *prefix, float more)
{
    fv_source *source;
    succeed(fv_source_make(&source, "tiny", TENSORS));
    fv_synthetic made = {.ending = "", .root = "", .form = family->form, .source = source};
    json_t *config = fv_pyramid_make_synthetic(&made, &tiny);
    succeed(made.status);
    assert_non_null(config);
    for (uint32_t i = 0; i < source->made; i++)
        add(c, prefix, &source->tensor[i], more);
    fv_source_close(source);
    json_decref(c->config);
    c->config = config;
}

static struct checkpoint *checkpoint_of(const fv_family *family, const char *prefix)
{
    struct checkpoint *c = calloc(1, sizeof *c);
    assert_non_null(c);
    add_model(c, family, prefix, 0);
    return c;
}

static void add_vector(struct checkpoint *c, const char *name, uint64_t n, float value)
{
    add(c, "",
        &(const fv_tensor){.name = name, .rank = 1, .shape = {n}, .elements = n, .mean = value}, 0);
}

static fovea_tensor *find(struct checkpoint *c, const char *name)
{
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->name[i], name) == 0)
            return &c->tensor[i];
    fail_msg("%s is not there", name);
    return NULL;
}

static void free_checkpoint(struct checkpoint *c)
{
    for (size_t i = 0; i < c->n; i++)
        free((void *)(uintptr_t)c->tensor[i].data);
    json_decref(c->config);
    free(c);
}

static void write_text(const char *name, const char *text)
{
    FILE *f = fopen(in_folder(name), "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void write_tensors(const struct checkpoint *c)
{
    succeed(fovea_tensors_write(in_folder("model.safetensors"), c->tensor, c->n, NULL, 0));
}

static void write_config(const json_t *config)
{
    assert_int_equal(json_dump_file(config, in_folder("config.json"), 0), 0);
}

static void write_checkpoint(const struct checkpoint *c)
{
    write_tensors(c);
    write_config(c->config);
}

static fovea_model *load(void)
{
    fovea_model *m = NULL;
    succeed(fovea_model_load(&m, folder));
    return m;
}

static void expect_failure(fovea_status status, const char *says)
{
    fovea_model *m = NULL;
    const fovea_status got = fovea_model_load(&m, folder);
    if (got != status || !strstr(fovea_error(), says))
        fail_msg("expected %d \"%s\", got %d \"%s\"", status, says, got, got ? fovea_error() : "");
    assert_null(m);
    assert_int_equal(fv_mem_tagged(FV_MEM_MODEL), 0);
}

/* ---- sizes ---- */

static void published_sizes_have_their_parameters(void **state)
{
    static const struct {
        const char *name;
        double millions; /* as printed */
    } cases[] = {
        {"mavit-t", 16.45},      {"mavit-s", 27.14},      {"mavit-b", 49.79},
        {"mavit-l", 97.77},      {"nalaformer-xt", 6.14}, {"nalaformer-t", 15.91},
        {"nalaformer-s", 25.65}, {"nalaformer-b", 52.00}, {"nalaformer-l", 95.43},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[64];
        fovea_model *m = NULL;
        fovea_model_info info = FOVEA_MODEL_INFO_INIT;
        snprintf(path, sizeof path, "synthetic:%s", cases[i].name);
        succeed(fovea_model_load(&m, path));
        fovea_model_describe(m, &info);
        const double millions = (double)info.parameters * 1e-6;
        if (fabs(millions - cases[i].millions) > 0.005)
            fail_msg("%s has %.4fM parameters, not %.2fM", path, millions, cases[i].millions);
        assert_int_equal(info.classes, 1000);
        assert_int_equal(info.patch, 4);
        assert_int_equal(m->preprocess.short_edge, 256);
        assert_int_equal(m->preprocess.crop_width, 224);
        fovea_model_free(m);
    }
    assert_int_equal(fv_mem_tagged(FV_MEM_MODEL), 0);
}

static void outputs_are_listed(void **state)
{
    static const char *const names[] = {"logits", "patch_embed", "stage1", "down1",  "stage2",
                                        "down2",  "stage3",      "down3",  "stage4", "pooled"};
    struct checkpoint *c = checkpoint_of(families[0], "");
    (void)state;
    json_object_set_new(c->config, "img_size", json_integer(384));
    write_checkpoint(c);
    fovea_model *m = load();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_string_equal(fovea_model_output(m, i), names[i]);
    const size_t stages = sizeof names / sizeof *names;
    assert_string_equal(fovea_model_output(m, stages), "stage1.block0.q");
    assert_string_equal(fovea_model_output(m, stages + 1), "stage1.block0.k");
    assert_non_null(fovea_model_output(m, stages + 2 * m->info.depth - 1));
    assert_null(fovea_model_output(m, stages + 2 * m->info.depth));
    assert_string_equal(m->info.type, "mavit");
    assert_string_equal(m->info.attention, "mala");
    assert_int_equal(m->info.depth, 5);
    assert_int_equal(m->preprocess.short_edge, 384); /* not 438 */
    assert_int_equal(m->preprocess.crop_height, 384);
    assert_int_equal(m->preprocess.filter, FOVEA_FILTER_BICUBIC);
    assert_true(m->preprocess.mean[0] == 0.485f && m->preprocess.std[2] == 0.225f);
    fovea_model_free(m);

    json_object_set_new(c->config, "num_classes", json_integer(0));
    write_config(c->config);
    m = load(); /* its head is ignored */
    assert_string_equal(fovea_model_output(m, 0), "stage4");
    assert_string_equal(fovea_model_output(m, 8), "pooled");
    assert_int_equal(m->info.classes, 0);
    fovea_model_free(m);
    free_checkpoint(c);
}

/* ---- folding ---- */

static void layers_are_folded(void **state)
{
    struct checkpoint *c = checkpoint_of(families[0], "");
    (void)state;
    write_checkpoint(c);
    fovea_model *m = load();
    const fv_pyramid *p = m->roles;
    float row[108], bias[12];
    const float *w = find(c, "layers.0.downsample.reduction.weight")->data;
    const float *b = find(c, "layers.0.downsample.reduction.bias")->data;
    const float *g = find(c, "layers.0.downsample.norm.weight")->data;
    const float *beta = find(c, "layers.0.downsample.norm.bias")->data;
    const float *mu = find(c, "layers.0.downsample.norm.running_mean")->data;
    const float *var = find(c, "layers.0.downsample.norm.running_var")->data;
    fv_weight_read(&p->stage[0].down.b, 0, 1, bias);
    for (uint32_t o = 0; o < 12; o++) {
        const double factor = g[o] / sqrt((double)var[o] + 1e-5);
        fv_weight_read(&p->stage[0].down.w, o, 1, row);
        for (uint32_t i = 0; i < 72;
             i++) { /* (channel, tap) in the file, (tap, channel) in memory */
            const double want = w[o * 72 + i] * factor;
            assert_true(fabs(row[i % 9 * 8 + i / 9] - want) <= 2e-7 * fabs(want));
        }
        const double want = ((double)b[o] - mu[o]) * factor + beta[o];
        assert_true(fabs(bias[o] - want) <= 2e-7 * (fabs(want) + 0.1));
    }

    const fv_pyramid_block *block = &p->stage[1].block[1];
    const float *fc2 = find(c, "layers.1.blocks.1.ffn.fc2.weight")->data;
    const float *scale = find(c, "layers.1.blocks.1.gamma_2")->data;
    fv_weight_read(&block->fc2.w, 7, 1, row);
    for (uint32_t i = 0; i < 18; i++)
        assert_true(row[i] == fc2[7 * 18 + i] * scale[7]);
    const float *dw = find(c, "layers.1.blocks.1.ffn.dwconv.weight")->data;
    fv_weight_read(&block->dw.w, 5, 1, row);
    for (uint32_t i = 0; i < 9; i++)
        assert_true(row[i] == dw[5 * 9 + i] + (i == 4 ? 1 : 0));
    fovea_model_free(m);

    float *variance = (float *)(uintptr_t)find(c, "patch_embed.proj.4.running_var")->data;
    variance[1] = -0.5f;
    write_tensors(c);
    expect_failure(FOVEA_EFORMAT, "patch_embed.proj.4.running_var");
    variance[1] = NAN;
    write_tensors(c);
    expect_failure(FOVEA_EFORMAT, "patch_embed.proj.4.running_var");
    free_checkpoint(c);
}

/* ---- names ---- */

static float head_bias(const fovea_model *m)
{
    float bias[CLASSES];
    fv_weight_read(&((const fv_pyramid *)m->roles)->head.b, 0, 1, bias);
    return bias[0];
}

static void wrappers_are_passed_through(void **state)
{
    static const char *const prefixes[] = {"",
                                           "module.",
                                           "model.",
                                           "model.module.",
                                           "state_dict.module.",
                                           "model_ema.",
                                           "state_dict_ema.",
                                           "module.model.state_dict.",
                                           "backbone.",
                                           "_orig_mod.",
                                           "module._orig_mod."};
    (void)state;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        struct checkpoint *c = checkpoint_of(families[i % 2], prefixes[i]);
        add_vector(c, "optimizer.state.0.exp_avg", 3, 0);
        if (!prefixes[i][0])
            c->n--, free((void *)(uintptr_t)c->tensor[c->n].data);
        write_checkpoint(c);
        fovea_model_free(load());
        free_checkpoint(c);
    }
    /* Averaged weights have priority, whether they come before or after the others. */
    static const char *const pairs[][2] = {
        {"model.", "model_ema."}, {"model_ema.module.", "model."}, {"", "state_dict_ema."}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct checkpoint *c = calloc(1, sizeof *c);
        assert_non_null(c);
        for (int k = 0; k < 2; k++)
            add_model(c, families[0], pairs[i][k], strstr(pairs[i][k], "_ema") ? 1 : 0);
        write_checkpoint(c);
        fovea_model *m = load();
        assert_true(head_bias(m) > 0.9f);
        fovea_model_free(m);
        free_checkpoint(c);
    }
    struct checkpoint *c = checkpoint_of(families[0], "other.");
    write_checkpoint(c);
    expect_failure(FOVEA_EFORMAT, "patch_embed.proj.0.weight");
    free_checkpoint(c);
}

static void every_missing_or_misshapen_tensor_is_named(void **state)
{
    (void)state;
    for (int f = 0; f < 2; f++) {
        struct checkpoint *c = checkpoint_of(families[f], "");
        write_config(c->config);
        for (size_t i = 0; i < c->n; i++) {
            const fovea_tensor whole = c->tensor[i];
            const bool scale = strstr(whole.name, "blocks.0.gamma_1") != NULL;
            if (f == 1 &&
                !strstr(whole.name, "layers.1.blocks.1.")) /* the other tensors are equal */
                continue;
            c->tensor[i] = c->tensor[--c->n];
            write_tensors(c);
            c->tensor[c->n++] = c->tensor[i];
            if (!scale) /* which shows whether the stage has a layer scale */
                expect_failure(FOVEA_EFORMAT, whole.name);
            c->tensor[i] = whole;
            c->tensor[i].rank++;
            c->tensor[i].shape[whole.rank] = 2;
            c->tensor[i].shape[0] /= whole.shape[0] % 2 ? 1 : 2;
            c->tensor[i].size *= whole.shape[0] % 2 ? 2 : 1;
            float *twice = malloc(2 * whole.size);
            assert_non_null(twice);
            memcpy(twice, whole.data, whole.size);
            memcpy((char *)twice + whole.size, whole.data, whole.size);
            c->tensor[i].data = twice;
            write_tensors(c);
            expect_failure(FOVEA_EFORMAT, whole.name);
            free(twice);
            c->tensor[i] = whole;
        }
        free_checkpoint(c);
    }
}

static void tensors_without_a_role_are_refused(void **state)
{
    static const struct {
        const char *name;
        uint64_t n;
        float value;
        fovea_status status;
    } cases[] = {
        {"layers.0.blocks.0.attn.extra.weight", 4, 0, FOVEA_ENOTSUP},
        {"layers.1.blocks.2.norm1.norm.weight", 12, 0, FOVEA_ENOTSUP},
        {"layers.3.downsample.norm.weight", 4, 0, FOVEA_ENOTSUP},
        {"pos_embed", 4, 0, FOVEA_ENOTSUP},
        {"extra_norms.4.norm.weight", 4, 0, FOVEA_ENOTSUP},
        {"layers.0.RoPE.angle", 2, 1, FOVEA_OK},                 /* one pair: its angle is 1 */
        {"layers.0.RoPE.angle", 2, 0.5f, FOVEA_ENOTSUP},         /* another rotation */
        {"layers.0.RoPE.angle", 4, 1, FOVEA_EFORMAT},            /* num_heads is wrong */
        {"layers.0.blocks.0.attn.extra.weight", 0, 0, FOVEA_OK}, /* an empty tensor */
        {"aux_head.weight", 4, 0, FOVEA_OK},
        {"head_dist.bias", 4, 0, FOVEA_OK},
        {"layers.0.head.bias", 4, 0, FOVEA_ENOTSUP},
    };
    (void)state;
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        struct checkpoint *c = checkpoint_of(families[i % 2], "");
        add_vector(c, cases[i / 2].name, cases[i / 2].n, cases[i / 2].value);
        write_checkpoint(c);
        if (cases[i / 2].status == FOVEA_OK)
            fovea_model_free(load());
        else
            expect_failure(cases[i / 2].status, cases[i / 2].name);
        free_checkpoint(c);
    }
    struct checkpoint *c = checkpoint_of(families[0], "");
    static const int64_t batches = 7;
    c->tensor[c->n] = (fovea_tensor){
        .name = "norm.num_batches_tracked", .dtype = "I64", .data = &batches, .size = 8};
    c->n++;
    write_checkpoint(c);
    c->n--;
    fovea_model_free(load());
    free_checkpoint(c);
}

/* ---- config.json ---- */

static void hostile_configurations_are_refused(void **state)
{
    static const struct {
        const char *key, *value;
    } cases[] = {
        {"depths", "[1, -2, 1, 1]"},
        {"depths", "[1, 0, 1, 1]"},
        {"depths", "[1, 2, 1]"},
        {"depths", "[1, 2, 1, 1, 1]"},
        {"depths", "[1, 2.5, 1, 1]"},
        {"depths", "[1, 4294967298, 1, 1]"},
        {"depths", "\"1211\""},
        {"depths", "null"},
        {"embed_dims", "[2147483648, 12, 16, 20]"},
        {"embed_dims", "[8, -12, 16, 20]"},
        {"embed_dims", "[1, 12, 16, 20]"},
        {"embed_dims", "[]"},
        {"embed_dims", "{}"},
        {"embed_dims", "[8, 12, 16, 20, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8]"},
        {"embed_dims", "[8, [12], 16, 20]"},
        {"embed_dims", "[8, true, 16, 20]"},
        {"num_heads", "[2, 5, 1, 5]"},
        {"num_heads", "[4, 3, 1, 5]"},
        {"num_heads", "[0, 3, 1, 5]"},
        {"num_heads", "[2, 3, 1, 65536]"},
        {"num_heads", "[2, 3, 1]"},
        {"num_heads", "7"},
        {"mlp_ratios", "[1.5, 1e300, 1.5, 1.5]"},
        {"mlp_ratios", "[1.5, -1, 1.5, 1.5]"},
        {"mlp_ratios", "[1.5, 0.01, 1.5, 1.5]"},
        {"mlp_ratios", "[1.5, \"2\", 1.5, 1.5]"},
        {"mlp_ratios", "1.5"},
        {"flagss", "null"},
        {"flagss", "[[\"l\"], [\"l\"], [\"v\"], [\"v\"]]"},
        {"flagss", "[[\"l\"], [\"l\", \"x\"], [\"v\"], [\"v\"]]"},
        {"flagss", "[[\"l\"], [\"l\", 1], [\"v\"], [\"v\"]]"},
        {"flagss", "[\"l\", \"ll\", \"v\", \"v\"]"},
        {"flagss", "[[\"l\"], [\"l\", \"l\"], [\"v\"]]"},
        {"layerscales", "true"},
        {"layerscales", "[true, true, 2, true]"},
        {"layerscales", "[true]"},
        {"projection", "0"},
        {"projection", "4294967296"},
        {"projection", "[6]"},
        {"num_classes", "-1"},
        {"num_classes", "\"10\""},
        {"num_classes", "2147483647"},
        {"in_chans", "1"},
        {"in_chans", "\"rgb\""},
        {"img_size", "0"},
        {"image_size", "[1, 2, 3]"},
    };
    (void)state;
    for (int f = 0; f < 2; f++) {
        struct checkpoint *c = checkpoint_of(families[f], "");
        write_tensors(c);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            json_t *config = json_copy(c->config);
            json_t *value = json_loads(cases[i].value, JSON_DECODE_ANY, NULL);
            assert_non_null(value);
            json_object_set_new(config, cases[i].key, value);
            write_config(config);
            json_decref(config);
            expect_failure(strcmp(cases[i].value, "1") ? FOVEA_EFORMAT : FOVEA_ENOTSUP,
                           cases[i].key);
        }
        json_object_set_new(c->config, "norm_eps", json_real(0.1)); /* it would change the result */
        write_config(c->config);
        expect_failure(FOVEA_ENOTSUP, "\"norm_eps\" is not known");
        json_object_del(c->config, "norm_eps");
        /* Only the tensors show that these values are wrong. */
        json_object_set_new(c->config, "depths", json_pack("[i, i, i, i]", 1, 1024, 1, 1));
        json_t *flags = json_array();
        for (int i = 0; i < 1024; i++)
            json_array_append_new(flags, json_string("l"));
        json_array_set_new(json_object_get(c->config, "flagss"), 1, flags);
        write_config(c->config);
        expect_failure(FOVEA_EFORMAT, "layers.1.blocks.2.");
        free_checkpoint(c);
    }
}

static uint32_t draw(uint64_t *seed, uint32_t n)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % n;
}

/* Replaces a digit, a bracket or a word by another. */
static void mutate(char *text, size_t size, uint64_t *seed)
{
    static const char *const pieces[] = {"-",    "9",  "0",   "99999999", "[",     "]",    ",",
                                         "null", "{}", "1e9", "\"l\"",    "\"v\"", "true", "0.5",
                                         "[]",   ":",  "\"",  "4",        "8",     "12"};
    const size_t n = strlen(text);
    const size_t at = draw(seed, (uint32_t)n), cut = draw(seed, 4);
    const char *piece = pieces[draw(seed, sizeof pieces / sizeof *pieces)];
    char rest[2048];
    snprintf(rest, sizeof rest, "%s", text + (at + cut < n ? at + cut : n));
    snprintf(text + at, size - at, "%s%s", piece, rest);
}

/* An accepted model can be planned, or planning fails with a message. */
static void plan(const fovea_model *m, fovea_device *device, uint64_t *seed)
{
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    fovea_plan *p = NULL;
    options.frame.width = 1 + draw(seed, 90);
    options.frame.height = 1 + draw(seed, 90);
    options.dry = 1;
    if (fovea_plan_create(&p, m, device, &options) != FOVEA_OK)
        assert_true(fovea_error()[0] != 0);
    fovea_plan_free(p);
}

static void mutated_configurations_do_no_harm(void **state)
{
    uint64_t seed = 5;
    uint32_t accepted = 0;
    fovea_device *device;
    (void)state;
    succeed(fovea_device_open(&device, "cpu", NULL));
    for (int f = 0; f < 2; f++) {
        struct checkpoint *c = checkpoint_of(families[f], "");
        char *whole = json_dumps(c->config, 0);
        write_tensors(c);
        for (int i = 0; i < 2100; i++) {
            char text[2048];
            fovea_model *m = NULL;
            snprintf(text, sizeof text, "%s", whole);
            for (uint32_t k = draw(&seed, 3) + 1; k > 0; k--)
                mutate(text, sizeof text, &seed);
            write_text("config.json", text);
            if (fovea_model_load(&m, folder) == FOVEA_OK) {
                plan(m, device, &seed);
                accepted++;
            } else {
                assert_true(fovea_error()[0] != 0);
            }
            fovea_model_free(m);
        }
        free(whole);
        free_checkpoint(c);
    }
    fovea_device_close(device);
    assert_true(accepted > 10 && accepted < 1000);
    assert_int_equal(fv_mem_tagged(FV_MEM_MODEL), 0);
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    struct checkpoint *c = checkpoint_of(families[1], "model.");
    write_checkpoint(c);
    free_checkpoint(c);
    const char *const paths[] = {folder, "synthetic:mavit-t"};
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

static void every_failed_allocation_of_a_plan_is_survived(void **state)
{
    static const char *const names[] = {"logits", "down2", "pooled", "stage1"};
    fovea_device *device;
    (void)state;
    succeed(fovea_device_open(&device, "cpu", NULL));
    for (int f = 0; f < 2; f++) {
        struct checkpoint *c = checkpoint_of(families[f], "");
        write_checkpoint(c);
        free_checkpoint(c);
        fovea_model *m = load();
        const uint64_t before = fv_mem_tagged(FV_MEM_MODEL);
        fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
        options.frame.width = 37;
        options.frame.height = 29;
        options.outputs = names;
        options.n_outputs = sizeof names / sizeof *names;
        for (uint64_t n = 1, done = 0; !done; n++) {
            fovea_plan *p = NULL;
            fv_mem_fail_at(n);
            const fovea_status status = fovea_plan_create(&p, m, device, &options);
            fv_mem_fail_at(0);
            done = status == FOVEA_OK;
            assert_true(done || status == FOVEA_ENOMEM);
            fovea_plan_free(p);
            assert_int_equal(fv_mem_tagged(FV_MEM_PLAN), 0);
            assert_int_equal(fv_mem_tagged(FV_MEM_WEIGHTS), 0);
            assert_int_equal(fv_mem_tagged(FV_MEM_ARENA), 0);
            assert_int_equal(fv_mem_tagged(FV_MEM_MODEL), before);
        }
        fovea_model_free(m);
    }
    fovea_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_sizes_have_their_parameters),
        cmocka_unit_test(outputs_are_listed),
        cmocka_unit_test(layers_are_folded),
        cmocka_unit_test(wrappers_are_passed_through),
        cmocka_unit_test(every_missing_or_misshapen_tensor_is_named),
        cmocka_unit_test(tensors_without_a_role_are_refused),
        cmocka_unit_test(hostile_configurations_are_refused),
        cmocka_unit_test(mutated_configurations_do_no_harm),
        cmocka_unit_test(every_failed_allocation_is_survived),
        cmocka_unit_test(every_failed_allocation_of_a_plan_is_survived),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
