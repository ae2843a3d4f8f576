/* test_sequence.c: tests sequences: any split into calls, saving and resuming, forks, states of
 * other sequences, failing calls, many steps without growth, and a single mixer. test_language.py
 * tests the values.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fovea/sequences.h>

#include "tests/fixture.h"
#include "tests/temp_folder.h"

enum { C = 16, HEADS = 2, HIDDEN = 24, VOCABULARY = 29, LAYERS = 2, TOKENS = 90, ROWS = 32 };

/* ---- checkpoints ---- */

struct checkpoint {
    fovea_tensor tensor[64];
    char name[64][160];
    size_t n;
};

static void add(struct checkpoint *c, const char *prefix, const char *name, uint64_t rows,
                uint64_t cols, float mean, float spread)
{
    fovea_tensor *t = &c->tensor[c->n];
    float *data = malloc(rows * cols * sizeof *data);
    uint32_t x = (uint32_t)(c->n * 7919 + 17);
    assert_non_null(data);
    for (uint64_t i = 0; i < rows * cols; i++) {
        x = x * 1664525u + 1013904223u;
        data[i] = mean + spread * ((float)(x >> 8) / 8388608.f - 1);
    }
    snprintf(c->name[c->n], sizeof c->name[0], "%s%s", prefix, name);
    *t = (fovea_tensor){.name = c->name[c->n],
                        .dtype = "F32",
                        .rank = rows > 1 ? 2 : 1,
                        .shape = {rows > 1 ? rows : cols, rows > 1 ? cols : 0},
                        .data = data,
                        .size = rows * cols * sizeof *data};
    c->n++;
}

static void add_mixer(struct checkpoint *c, const char *p, bool softmax)
{
    static const char *const projections[] = {"q_proj.weight", "k_proj.weight", "v_proj.weight",
                                              "o_proj.weight", "g_proj.weight"};
    static const char *const convolutions[] = {"q_conv1d.weight", "k_conv1d.weight",
                                               "v_conv1d.weight"};
    for (int i = 0; i < (softmax ? 4 : 5); i++)
        add(c, p, projections[i], C, C, 0, 0.5f);
    if (softmax)
        return;
    for (int i = 0; i < 3; i++)
        add(c, p, convolutions[i], C, 4, 0, 0.9f);
    add(c, p, "a_proj.weight", HEADS, C, 0, 0.5f);
    add(c, p, "b_proj.weight", HEADS, C, 0, 0.5f);
    add(c, p, "A_log", 1, HEADS, 0, 1);
    add(c, p, "dt_bias", 1, HEADS, -3, 1);
    add(c, p, "o_norm.weight", 1, C / HEADS, 1, 0.2f);
}

static void write_model(const char *name, const struct checkpoint *c, const char *type)
{
    char path[512];
    snprintf(path, sizeof path, "%s", in_folder(name));
    assert_int_equal(fovea_tensors_write(path, c->tensor, c->n, NULL, 0), FOVEA_OK);
    FILE *f = fopen(in_folder("config.json"), "w");
    assert_non_null(f);
    fprintf(f, "{\"model_type\": \"%s\", \"num_heads\": %d}", type, HEADS);
    fclose(f);
    for (size_t i = 0; i < c->n; i++)
        free((void *)(uintptr_t)c->tensor[i].data);
}

static fovea_model *load(const char *name)
{
    fovea_model *m;
    if (fovea_model_load(&m, in_folder(name)) != FOVEA_OK)
        fail_msg("%s", fovea_error());
    return m;
}

/* Returns Gated DeltaNet or the transformer; `other` selects other weights. */
static fovea_model *language(bool softmax, bool other)
{
    struct checkpoint c = {.n = 0};
    add(&c, "model.", "embeddings.weight", VOCABULARY, C, 0, other ? 0.9f : 1);
    for (int i = 0; i < LAYERS; i++) {
        char p[32], attn[64];
        snprintf(p, sizeof p, "model.layers.%d.", i);
        snprintf(attn, sizeof attn, "%sattn.", p);
        add(&c, p, "attn_norm.weight", 1, C, 1, 0.2f);
        add_mixer(&c, attn, softmax);
        add(&c, p, "mlp_norm.weight", 1, C, 1, 0.2f);
        add(&c, p, "mlp.gate_proj.weight", HIDDEN, C, 0, 0.5f);
        add(&c, p, "mlp.up_proj.weight", HIDDEN, C, 0, 0.5f);
        add(&c, p, "mlp.down_proj.weight", C, HIDDEN, 0, 0.4f);
    }
    add(&c, "model.", "norm.weight", 1, C, 1, 0.2f);
    write_model("model.safetensors", &c, softmax ? "transformer" : "gated_deltanet");
    return load("model.safetensors");
}

static fovea_model *mixer(void)
{
    struct checkpoint c = {.n = 0};
    add_mixer(&c, "", false);
    write_model("mixer.safetensors", &c, "gated_deltanet");
    return load("mixer.safetensors");
}

/* ---- sequences ---- */

static fovea_sequence *create(const fovea_model *m, fovea_device *device, fovea_form form)
{
    fovea_sequence_options o = FOVEA_SEQUENCE_OPTIONS_INIT;
    fovea_sequence *s;
    o.rows = ROWS;
    o.context = TOKENS;
    o.form = form;
    o.all_logits = 1;
    if (fovea_sequence_create(&s, m, device, &o) != FOVEA_OK)
        fail_msg("%s", fovea_error());
    return s;
}

static uint32_t id_of(uint32_t i)
{
    return i * 2654435761u % VOCABULARY;
}

static void feed(fovea_sequence *s, uint32_t first, uint32_t n, float *logits)
{
    uint32_t ids[TOKENS];
    for (uint32_t i = 0; i < n; i++)
        ids[i] = id_of(first + i);
    if (fovea_sequence_feed(s, ids, n, logits, (size_t)n * VOCABULARY) != FOVEA_OK)
        fail_msg("%s", fovea_error());
}

static void close_to(const float *a, const float *b, size_t n, double allowed)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= allowed))
            fail_msg("value %zu: %g, %g", i, (double)a[i], (double)b[i]);
}

static void pieces(void **unused)
{
    (void)unused;
    static float whole[TOKENS * VOCABULARY], cut[TOKENS * VOCABULARY];
    for (uint32_t threads = 1; threads <= 3; threads++) {
        fovea_device *device = fixture_device(threads);
        for (int softmax = 0; softmax < 2; softmax++) {
            fovea_model *m = language(softmax, false);
            for (int form = FOVEA_FORM_AUTO; form <= FOVEA_FORM_CHUNK; form++) {
                fovea_sequence *s = create(m, device, (fovea_form)form);
                feed(s, 0, TOKENS, whole);
                for (uint32_t every = 1; every < TOKENS; every += 6) {
                    assert_int_equal(fovea_sequence_reset(s), FOVEA_OK);
                    for (uint32_t at = 0, n; at < TOKENS; at += n) {
                        n = every < TOKENS - at ? every : TOKENS - at;
                        feed(s, at, n, cut + (size_t)at * VOCABULARY);
                    }
                    close_to(whole, cut, TOKENS * VOCABULARY, 1e-4);
                }
                fovea_sequence_free(s);
            }
            fovea_model_free(m);
        }
        fovea_device_close(device);
    }
}

/* Any split gives the same bits, as long as no call has only one token. */
static void bits(void **unused)
{
    (void)unused;
    static float whole[TOKENS * VOCABULARY], cut[TOKENS * VOCABULARY];
    fovea_device *device = fixture_device(2);
    fovea_model *m = language(false, false);
    fovea_sequence *s = create(m, device, FOVEA_FORM_RECURRENT);
    feed(s, 0, TOKENS, whole);
    for (uint32_t every = 2; every <= 45; every++) {
        if (TOKENS % every)
            continue;
        fovea_sequence_reset(s);
        for (uint32_t at = 0; at < TOKENS; at += every)
            feed(s, at, every, cut + (size_t)at * VOCABULARY);
        assert_memory_equal(whole, cut, sizeof whole);
    }
    fovea_sequence_free(s);
    fovea_model_free(m);
    fovea_device_close(device);
}

static char *saved(const fovea_sequence *s)
{
    char *out = malloc(fovea_sequence_size(s));
    assert_non_null(out);
    assert_int_equal(fovea_sequence_save(s, out, fovea_sequence_size(s)), FOVEA_OK);
    return out;
}

/* A saved and restored sequence continues with the same bits, and so does a fork. Neither affects
 * the other.
 */
static void moved(void **unused)
{
    (void)unused;
    static float straight[TOKENS * VOCABULARY], resumed[TOKENS * VOCABULARY];
    fovea_device *device = fixture_device(2);
    for (int softmax = 0; softmax < 2; softmax++) {
        fovea_model *m = language(softmax, false);
        fovea_sequence *a = create(m, device, FOVEA_FORM_AUTO), *fork;
        fovea_sequence *b = create(m, device, FOVEA_FORM_AUTO);
        feed(a, 0, 41, straight);
        char *half = saved(a);
        assert_int_equal(fovea_sequence_fork(&fork, a), FOVEA_OK);
        feed(a, 41, 30, straight);

        feed(b, 7, 12, resumed);
        assert_int_equal(fovea_sequence_restore(b, half, fovea_sequence_size(b)), FOVEA_OK);
        feed(a, 3, 10, resumed);
        feed(b, 41, 30, resumed);
        assert_memory_equal(straight, resumed, 30 * VOCABULARY * sizeof *resumed);
        memset(resumed, 0, sizeof resumed);
        feed(fork, 41, 30, resumed);
        assert_memory_equal(straight, resumed, 30 * VOCABULARY * sizeof *resumed);
        fovea_sequence_info info = FOVEA_SEQUENCE_INFO_INIT;
        assert_int_equal(fovea_sequence_query(fork, &info), FOVEA_OK);
        assert_int_equal(info.tokens, 71);
        assert_int_equal(info.vocabulary, VOCABULARY);
        assert_int_equal(info.context, softmax ? TOKENS : 0);
        free(half);
        fovea_sequence_free(fork);
        fovea_sequence_free(b);
        fovea_sequence_free(a);
        fovea_model_free(m);
    }
    fovea_device_close(device);
}

/* The state of another sequence is refused and leaves the sequence unchanged. */
static void strangers(void **unused)
{
    (void)unused;
    fovea_device *device = fixture_device(1);
    fovea_model *m = language(false, false), *another = language(false, true);
    fovea_sequence *s = create(m, device, FOVEA_FORM_AUTO);
    fovea_sequence *t = create(another, device, FOVEA_FORM_AUTO);
    float logits[9 * VOCABULARY];
    feed(s, 0, 9, logits);
    feed(t, 0, 9, logits);
    const size_t n = fovea_sequence_size(s);
    char *own = saved(s), *others = saved(t), *bad = saved(s);
    assert_int_equal(fovea_sequence_size(t), n);
    assert_int_equal(fovea_sequence_restore(s, others, n), FOVEA_EFORMAT);
    assert_int_equal(fovea_sequence_restore(s, own, n - 1), FOVEA_EFORMAT);
    assert_int_equal(fovea_sequence_restore(s, own, 11), FOVEA_EFORMAT);
    for (size_t at = 0; at < 16; at += 8) { /* the magic, the version */
        memcpy(bad, own, n);
        bad[at] ^= 1;
        assert_int_equal(fovea_sequence_restore(s, bad, n), FOVEA_EFORMAT);
    }
    assert_int_equal(fovea_sequence_restore(s, NULL, n), FOVEA_EINVAL);
    assert_int_equal(fovea_sequence_save(s, bad, n - 1), FOVEA_EINVAL);
    char *after = saved(s);
    assert_memory_equal(own, after, n);
    free(own);
    free(others);
    free(bad);
    free(after);
    fovea_sequence_free(s);
    fovea_sequence_free(t);
    fovea_model_free(m);
    fovea_model_free(another);
    fovea_device_close(device);
}

static void errors(void **unused)
{
    (void)unused;
    fovea_device *device = fixture_device(1);
    fovea_model *m = language(true, false), *vit = fixture_load();
    fovea_sequence_options o = FOVEA_SEQUENCE_OPTIONS_INIT;
    fovea_sequence *s = create(m, device, FOVEA_FORM_AUTO), *none = NULL;
    float logits[TOKENS * VOCABULARY];
    uint32_t ids[TOKENS + 1] = {0};
    feed(s, 0, 9, logits);
    char *before = saved(s);
    const size_t n = fovea_sequence_size(s);
    const fovea_matrix rows = {logits, 0};
    assert_int_equal(fovea_sequence_feed(s, ids, 0, NULL, 0), FOVEA_EINVAL);
    assert_int_equal(fovea_sequence_feed(s, NULL, 1, NULL, 0), FOVEA_EINVAL);
    assert_int_equal(fovea_sequence_feed(s, ids, 2, logits, 2 * VOCABULARY - 1), FOVEA_EINVAL);
    assert_int_equal(fovea_sequence_feed(s, ids, TOKENS - 8, NULL, 0), FOVEA_EINVAL);
    assert_non_null(strstr(fovea_error(), "larger context"));
    assert_int_equal(fovea_sequence_forward(s, rows, 1, rows), FOVEA_EINVAL);
    assert_int_equal(fovea_sequence_seek(s, TOKENS + 1), FOVEA_EINVAL);
    ids[1] = VOCABULARY;
    assert_int_equal(fovea_sequence_feed(s, ids, 2, NULL, 0), FOVEA_EINVAL);
    char *after = saved(s);
    assert_memory_equal(before, after, n);
    assert_int_equal(fovea_sequence_create(&none, vit, device, &o), FOVEA_EINVAL);
    o.rows = 1u << 21;
    assert_int_equal(fovea_sequence_create(&none, m, device, &o), FOVEA_EINVAL);
    o.rows = 0;
    o.context = 1u << 25;
    assert_int_equal(fovea_sequence_create(&none, m, device, &o), FOVEA_EINVAL);
    assert_null(none);
    free(before);
    free(after);
    fovea_sequence_free(NULL);
    fovea_sequence_free(s);
    fovea_model_free(m);
    fovea_model_free(vit);
    fovea_device_close(device);
}

/* After a cache is truncated, the same tokens give the same results as the first time. */
static void cut(void **unused)
{
    (void)unused;
    float once[20 * VOCABULARY], again[20 * VOCABULARY];
    fovea_device *device = fixture_device(2);
    fovea_model *m = language(true, false);
    fovea_sequence *s = create(m, device, FOVEA_FORM_AUTO);
    feed(s, 0, 30, NULL);
    feed(s, 30, 20, once);
    assert_int_equal(fovea_sequence_seek(s, 30), FOVEA_OK);
    feed(s, 30, 20, again);
    assert_memory_equal(once, again, sizeof once);
    fovea_sequence_free(s);
    fovea_model_free(m);
    fovea_device_close(device);
}

/* After its creation a sequence allocates nothing. After 10^5 steps the values are still finite. */
static void steady(void **unused)
{
    (void)unused;
    fovea_device *device = fixture_device(1);
    fovea_model *m = language(false, false);
    fovea_sequence *s = create(m, device, FOVEA_FORM_AUTO);
    fovea_memory before = FOVEA_MEMORY_INIT, after = FOVEA_MEMORY_INIT;
    float logits[VOCABULARY];
    fovea_memory_query(&before);
    feed(s, 0, TOKENS, NULL);
    for (uint32_t i = 0; i < 100000; i++)
        feed(s, i, 1, logits);
    assert_int_equal(fovea_sequence_reset(s), FOVEA_OK);
    fovea_memory_query(&after);
    assert_int_equal(after.allocations, before.allocations);
    assert_int_equal(after.current, before.current);
    for (uint32_t i = 0; i < VOCABULARY; i++)
        assert_true(fabsf(logits[i]) < 1e3f);
    fovea_sequence_free(s);
    fovea_model_free(m);
    fovea_device_close(device);
}

/* A mixer alone, on rows with gaps, in pieces. */
static void lone(void **unused)
{
    (void)unused;
    enum { N = 50, STRIDE = C + 3 };
    float x[N * STRIDE], whole[N * C], parts[N * STRIDE];
    fovea_device *device = fixture_device(2);
    fovea_model *m = mixer();
    fovea_sequence *s = create(m, device, FOVEA_FORM_AUTO);
    for (int i = 0; i < N * STRIDE; i++)
        x[i] = (float)(i * 37 % 101) / 50 - 1;
    fovea_sequence_info info = FOVEA_SEQUENCE_INFO_INIT;
    fovea_sequence_query(s, &info);
    assert_int_equal(info.vocabulary, 0);
    assert_int_equal(info.width, C);
    if (fovea_sequence_forward(s, (fovea_matrix){x, STRIDE}, N, (fovea_matrix){whole, 0}) !=
        FOVEA_OK)
        fail_msg("%s", fovea_error());
    fovea_sequence_reset(s);
    for (int at = 0; at < N; at += 5)
        assert_int_equal(fovea_sequence_forward(s, (fovea_matrix){x + at * STRIDE, STRIDE}, 5,
                                                (fovea_matrix){parts + at * STRIDE, STRIDE}),
                         FOVEA_OK);
    double size = 0;
    for (int i = 0; i < N; i++) {
        close_to(whole + i * C, parts + i * STRIDE, C, 1e-5);
        size += fabs((double)whole[i * C]);
    }
    assert_true(size > 0.1);
    const uint32_t id = 1;
    assert_int_equal(fovea_sequence_feed(s, &id, 1, NULL, 0), FOVEA_EINVAL);
    assert_int_equal(
        fovea_sequence_forward(s, (fovea_matrix){x, C - 1}, 1, (fovea_matrix){whole, 0}),
        FOVEA_EINVAL);
    fovea_sequence_free(s);
    fovea_model_free(m);
    fovea_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces),    cmocka_unit_test(bits),   cmocka_unit_test(moved),
        cmocka_unit_test(strangers), cmocka_unit_test(errors), cmocka_unit_test(cut),
        cmocka_unit_test(steady),    cmocka_unit_test(lone),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
