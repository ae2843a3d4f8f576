/* test_wrappers.c: tests names that training programs have changed, models that are stored twice,
 * heads outside the encoder's prefix, and messages about tensors that are not used. */
#include "checkpoint/wrappers.h"
#include "models/nearest.h"
#include "tests/models/small_checkpoint.h"

/* ---- log messages ---- */

static char messages[4096];

static void keep_message(const char *line, void *payload)
{
    (void)payload;
    const size_t n = strlen(messages);
    snprintf(messages + n, sizeof messages - n, "%s\n", line);
}

static int listen(void **state)
{
    (void)state;
    messages[0] = 0;
    fovea_log_set(keep_message, NULL);
    return 0;
}

static int stop_listening(void **state)
{
    (void)state;
    fovea_log_set(NULL, NULL);
    return 0;
}

static void expect_message(const char *says)
{
    if (!strstr(messages, says))
        fail_msg("expected a remark \"%s\", got \"%s\"", says, messages);
}

/* ---- checkpoints with other names ---- */

typedef void rename_fn(char out[NAME], const char *name);

/* Adds the tensors of `lines` under renamed names; `other` selects the values of other pieces. */
static void join(struct checkpoint *to, const struct line *lines, rename_fn *rename, bool other)
{
    struct checkpoint *c = checkpoint_of(lines);
    for (size_t i = 0; i < c->n; i++) {
        fovea_tensor *t = &to->tensor[to->n];
        *t = c->tensor[i];
        rename(to->name[to->n], c->name[i]);
        t->name = to->name[to->n++];
        float *data = (float *)(uintptr_t)t->data;
        for (size_t k = 0; other && k < t->size / sizeof *data; k++)
            data[k] += 1;
    }
    free(c);
}

static void finish(struct checkpoint *c, const char *config)
{
    assert_int_equal(fovea_tensors_write(in_folder("model.safetensors"), c->tensor, c->n, NULL, 0),
                     FOVEA_OK);
    write_text("config.json", config);
    free_checkpoint(c);
}

static void write_renamed(const struct line *lines, rename_fn *rename, const char *config)
{
    struct checkpoint *c = calloc(1, sizeof *c);
    assert_non_null(c);
    join(c, lines, rename, false);
    finish(c, config);
}

static void same(char out[NAME], const char *name)
{
    strcpy(out, name);
}

/* Inserts `word` after the first `after` of a name. */
static void insert(char out[NAME], const char *name, const char *after, const char *word)
{
    const char *at = strstr(name, after);
    const size_t n = at ? (size_t)(at - name) + strlen(after) : 0;
    assert_true(strlen(name) + strlen(word) < NAME);
    memcpy(out, name, n);
    strcpy(out + n, at ? word : "");
    strcat(out, name + n);
}

static void compiled_encoder(char out[NAME], const char *name)
{
    insert(out, name, "encoder.", "_orig_mod.");
}

static void parallel_layers(char out[NAME], const char *name)
{
    char once[NAME];
    insert(once, name, "layer.0.", "module.");
    insert(out, once, "layer.1.", "_checkpoint_wrapped_module._fsdp_wrapped_module.");
}

static void everywhere(char out[NAME], const char *name)
{
    char inner[NAME];
    parallel_layers(inner, name);
    insert(out, inner, "", "_orig_mod.module.");
}

#define IN(function, prefix)                                                                       \
    static void function(char out[NAME], const char *name)                                         \
    {                                                                                              \
        insert(out, name, "", prefix);                                                             \
    }
/* Renames a tensor as LitEma does for averages. */
static void in_buffers(char out[NAME], const char *name)
{
    strcpy(out, "model_ema.");
    for (size_t n = strlen(out); *name; name++)
        if (*name != '.') {
            out[n++] = *name;
            out[n] = 0;
        }
}

IN(in_net, "net.")
IN(in_image_tower, "image_tower.")
IN(in_base_model, "base_model.model.")
IN(in_lightning, "model.")
IN(in_ema_model, "ema_model.module.")
IN(in_student, "student.backbone.")
IN(in_teacher, "teacher.backbone.")
IN(in_shadow, "ema.ema_model.")
IN(in_online, "ema.online_model.")
IN(in_unknown, "my.tower.")

static void modules_around_parts_are_passed_through(void **state)
{
    static rename_fn *const renames[] = {compiled_encoder, parallel_layers, everywhere,
                                         in_net,           in_image_tower,  in_base_model,
                                         in_student,       in_teacher,      in_ema_model};
    (void)state;
    fovea_model *bare = load_lines(dinov2, DINOV2_CONFIG(""));
    for (size_t i = 0; i < sizeof renames / sizeof *renames; i++) {
        write_renamed(dinov2, renames[i], DINOV2_CONFIG(""));
        fovea_model *m = load(folder);
        same_roles(bare, m);
        fovea_model_free(m);
    }
    assert_string_equal(messages, "");
    fovea_model_free(bare);
}

/* An index maps wrapped names to plain ones before shards are searched. */
static void shards_have_plain_names(void **state)
{
    static char index[32768];
    (void)state;
    fovea_model *bare = load_lines(dinov2, DINOV2_CONFIG(""));
    struct checkpoint *c = calloc(1, sizeof *c);
    assert_non_null(c);
    join(c, dinov2, parallel_layers, true);
    join(c, dinov2, in_buffers, false);
    strcpy(index, "{\"weight_map\":{");
    for (size_t i = 0; i < c->n; i++)
        sprintf(index + strlen(index), "%s\"%s\":\"one.safetensors\"", i ? "," : "", c->name[i]);
    strcat(index, "}}");
    finish(c, DINOV2_CONFIG(""));
    char whole[512];
    snprintf(whole, sizeof whole, "%s", in_folder("model.safetensors"));
    assert_int_equal(rename(whole, in_folder("one.safetensors")), 0);
    write_text("model.safetensors.index.json", index);
    fovea_model *m = load(folder);
    same_roles(bare, m);
    fovea_model_free(m);
    fovea_model_free(bare);
    assert_int_equal(remove(in_folder("one.safetensors")), 0);
    assert_int_equal(remove(in_folder("model.safetensors.index.json")), 0);
}

/* If a module was saved both with and without its wrapper, the model uses the plain one. */
static void two_tensors_of_one_plain_name_keep_their_own(void **state)
{
    (void)state;
    fovea_model *bare = load_lines(dinov2, DINOV2_CONFIG(""));
    struct checkpoint *c = calloc(1, sizeof *c);
    assert_non_null(c);
    join(c, dinov2, same, false);
    const struct line extra[] = {{"embeddings._orig_mod.cls_token", 1, C, {REG}},
                                 {NULL, 0, 0, {0}}};
    struct checkpoint *more = checkpoint_of(extra);
    strcpy(c->name[c->n], more->name[0]);
    c->tensor[c->n] = more->tensor[0];
    c->tensor[c->n].name = c->name[c->n];
    c->n++;
    free(more);
    finish(c, DINOV2_CONFIG(""));
    expect_failure(FOVEA_ENOTSUP, "embeddings._orig_mod.cls_token");
    fovea_model_free(bare);
}

static void averaged_weights_are_taken_and_said(void **state)
{
    static const struct {
        rename_fn *averaged, *raw;
        const char *said;
    } pairs[] = {
        {in_ema_model, in_lightning,
         "\"ema_model.\" (averaged weights) is used, and \"model.\" not"},
        {in_teacher, in_student, "\"teacher.backbone.\" (averaged weights) is used"},
        {in_shadow, in_online, "\"ema.ema_model.\" (averaged weights) is used"},
        {in_ema_model, same, "is used, and the tensors without a prefix not"},
        {in_buffers, in_lightning, "\"model_ema.\" (averaged weights) is used, and \"model.\" not"},
    };
    (void)state;
    fovea_model *bare = load_lines(dinov2, DINOV2_CONFIG(""));
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct checkpoint *c = calloc(1, sizeof *c);
        assert_non_null(c);
        messages[0] = 0;
        join(c, dinov2, pairs[i].raw, true);
        join(c, dinov2, pairs[i].averaged, false);
        finish(c, DINOV2_CONFIG(""));
        fovea_model *m = load(folder);
        same_roles(bare, m);
        fovea_model_free(m);
        expect_message(pairs[i].said);
    }
    fovea_model_free(bare);
}

/* ---- heads ---- */

static const struct line head[] = {{"classifier.weight", CLASSES, 2 * C, {HEAD_W}},
                                   {"classifier.bias", 1, CLASSES, {HEAD_B}},
                                   {NULL, 0, 0, {0}}};
static const struct line other_head[] = {{"classifier.weight", CLASSES, 3 * C, {HEAD_W}},
                                         {NULL, 0, 0, {0}}};
#define CLASSIFIES ",\"architectures\":[\"Dinov2ForImageClassification\"]"

static void in_backbone(char out[NAME], const char *name)
{
    insert(out, name, "", "model.backbone._orig_mod.");
}

static void a_head_outside_is_found_or_missed(void **state)
{
    static const struct {
        const struct line *head;
        rename_fn *rename;
        uint32_t classes;
        const char *said;
    } cases[] = {
        {head, in_lightning, CLASSES, ""},
        {head, same, CLASSES, ""},
        {other_head, in_lightning, 0, "not used: \"model.classifier.\" (1 tensor)"},
        {NULL, NULL, 0, "no tensor \"classifier.weight\""},
        {head, in_unknown, 0, "no tensor \"classifier.weight\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct checkpoint *c = calloc(1, sizeof *c);
        assert_non_null(c);
        messages[0] = 0;
        join(c, dinov2, in_backbone, false);
        if (cases[i].head)
            join(c, cases[i].head, cases[i].rename, false);
        finish(c, DINOV2_CONFIG(CLASSIFIES));
        fovea_model *m = load(folder);
        assert_int_equal(m->info.classes, cases[i].classes);
        fovea_model_free(m);
        expect_message(cases[i].said);
        if (!*cases[i].said)
            assert_string_equal(messages, "");
    }
}

/* ---- the rest ---- */

static void unread_parts_are_said_in_one_line(void **state)
{
    static const struct line rest[] = {{"text_model.layers.%d.weight", 2, 2, {99}},
                                       {"text_model.embedding", 2, 2, {99}},
                                       {"logit_scale", 1, 1, {99}},
                                       {NULL, 0, 0, {0}}};
    (void)state;
    struct checkpoint *c = calloc(1, sizeof *c);
    assert_non_null(c);
    join(c, dinov2, same, false);
    join(c, rest, same, false);
    finish(c, DINOV2_CONFIG(""));
    fovea_model_free(load(folder));
    expect_message("not used: \"logit_scale\", \"text_model.\" (3 tensors)\n");
    assert_ptr_equal(strchr(messages, '\n'), strrchr(messages, '\n'));
}

static void messages_say_what_helps(void **state)
{
    static const char other[] = "{\"model_type\":\"convnext\"}",
                      typo[] = "{\"model_type\":\"dinovv2\"}";
    (void)state;
    write_renamed(dinov2, in_unknown, DINOV2_CONFIG(""));
    expect_failure(FOVEA_EFORMAT,
                   "add --prefix my.tower., or \"fovea\": {\"prefix\": \"my.tower.\"}");
    write_renamed(dinov2, same, other);
    expect_failure(FOVEA_ENOTSUP, "add \"fovea\": {\"model_type\": \"dinov2\"} to this file;");
    write_renamed(dinov2, in_unknown, other);
    expect_failure(FOVEA_ENOTSUP, "run it with --prefix my.tower.");
    write_renamed(dinov2, in_unknown,
                  "{\"model_type\":\"convnext\",\"fovea\":{\"prefix\":\"my.tower\"}}");
    expect_failure(FOVEA_ENOTSUP, "{\"model_type\": \"dinov2\"}, the type that");
    const struct line nothing[] = {{"x", 1, 1, {99}}, {NULL, 0, 0, {0}}};
    write_renamed(nothing, same, typo);
    expect_failure(FOVEA_ENOTSUP, "the most similar type is \"dinov2\"");
    write_renamed(nothing, same, "{\"model_type\":\"blip_2_vision_modell\"}");
    expect_failure(FOVEA_ENOTSUP, "the most similar type is \"blip_2_vision_model\"");
    write_renamed(nothing, same, other);
    expect_failure(FOVEA_ENOTSUP, "is not supported; docs/models.md lists the");
    write_renamed(dinov2, same, "{\"model_type\":\"clip\"}");
    expect_failure(FOVEA_EFORMAT, "\"fovea\": {\"model_type\": \"dinov2\"}");
    /* The message names a tensor that determines a size. */
    struct line few[sizeof dinov2 / sizeof *dinov2];
    size_t n = 0;
    for (const struct line *l = dinov2; l->name; l++)
        if (!strstr(l->name, "fc2"))
            few[n++] = *l;
    few[n] = (struct line){NULL, 0, 0, {0}};
    write_renamed(few, same, DINOV2_CONFIG(""));
    expect_failure(FOVEA_EFORMAT, "encoder.layer.0.mlp.fc2.weight");
    const struct line adapter[] = {{"encoder.layer.0.mlp.fc2.lora_A.default.weight", 1, 1, {99}},
                                   {NULL, 0, 0, {0}}};
    struct checkpoint *c = calloc(1, sizeof *c);
    assert_non_null(c);
    join(c, few, same, false);
    join(c, adapter, same, false);
    finish(c, DINOV2_CONFIG(""));
    expect_failure(FOVEA_ENOTSUP, "merge_and_unload()");
}

/* A long message is shortened in the middle: its beginning and its remedy stay, and no UTF-8
 * character is split. */
static void long_messages_lose_their_middle(void **state)
{
    static char name[5001];
    (void)state;
    for (int i = 0; i < 5000; i += 2)
        memcpy(name + i, "\xc3\xa4", 2);
    assert_int_equal(fv_fail(FOVEA_EIO, "thing: %s; remedy", name), FOVEA_EIO);
    const char *text = fovea_error();
    assert_true(strlen(text) < FV_MESSAGE && strlen(text) > FV_MESSAGE - 8);
    assert_true(strncmp(text, "thing: \xc3\xa4", 9) == 0);
    assert_non_null(strstr(text, "\xc3\xa4 ... \xc3\xa4"));
    assert_string_equal(text + strlen(text) - strlen("\xc3\xa4; remedy"), "\xc3\xa4; remedy");
}

static void names_are_compared(void **state)
{
    static const char list[] = "vit, deit, dinov2, vit_*, rf_detr";
    const char *at = NULL;
    size_t letters = 0;
    uint32_t least = 2;
    (void)state;
    assert_int_equal(fv_nearest_distance("kitten", "sitting"), 3);
    assert_int_equal(fv_nearest_distance("", "abc"), 3);
    assert_int_equal(fv_nearest_distance("abc", ""), 3);
    fv_nearest_name(&at, &letters, &least, list, "swin");
    fv_nearest_name(&at, &letters, &least, list, "");
    assert_int_equal(letters, 0);
    fv_nearest_name(&at, &letters, &least, list, "rfdetr");
    assert_ptr_equal(at, strstr(list, "rf_detr"));
    assert_int_equal(letters, strlen("rf_detr"));
    assert_int_equal(least, 1);
    fv_nearest_name(&at, &letters, &least, "rfdetrs", "rfdetr"); /* not nearer */
    assert_ptr_equal(at, strstr(list, "rf_detr"));
}

#define HEARD(f) cmocka_unit_test_setup_teardown(f, listen, stop_listening)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HEARD(modules_around_parts_are_passed_through),
        HEARD(shards_have_plain_names),
        HEARD(two_tensors_of_one_plain_name_keep_their_own),
        HEARD(averaged_weights_are_taken_and_said),
        HEARD(a_head_outside_is_found_or_missed),
        HEARD(unread_parts_are_said_in_one_line),
        HEARD(messages_say_what_helps),
        cmocka_unit_test(long_messages_lose_their_middle),
        cmocka_unit_test(names_are_compared),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
