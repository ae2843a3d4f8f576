/* test_wisdom.c: tests wisdom as text, as a store, in files, and in plans. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/fixture.h"
#include "tests/peek.h"
#include "tests/temp_folder.h"

#define HEADER "fovea wisdom 1\n"
/* A kernel that every machine supports. */
#define LAYERNORM "layernorm_f32_ref rev=1"
#define FACT(choice, rigor, date)                                                                  \
    "step\tcpu|a|b|2||\tlayernorm f32 64x32\t" choice "\t" rigor "\t1500\t" date "\n"

static void succeed(fovea_status status)
{
    if (status != FOVEA_OK)
        fail_msg("%s: %s", fovea_status_text(status), fovea_error());
}

static char *text_of(fv_wisdom *w)
{
    size_t size;
    succeed(fv_wisdom_format(w, false, NULL, 0, &size));
    char *text = malloc(size + 1);
    assert_non_null(text);
    succeed(fv_wisdom_format(w, false, text, size + 1, &size));
    assert_int_equal(strlen(text), size);
    return text;
}

static fv_wisdom *parsed(const char *text, size_t *unknown)
{
    fv_wisdom *w;
    succeed(fv_wisdom_create(&w));
    succeed(fv_wisdom_parse(w, text, strlen(text), unknown));
    return w;
}

/* ---- text ---- */

static void round_trip(void **state)
{
    (void)state;
    static const char text[] = HEADER FACT(
        LAYERNORM, "measure",
        "1700000000") "sweep\tcpu|a|b|2||\t3 steps from x 0123456789abcdef\tstreamed "
                      "chunk=84\texhaustive\t7\t9\n"
                      "plan\tcpu|a|b|2||\tdinov2 width 8\t-\tmeasure\t123456789\t1700000001\n"
                      "skip\tcpu|a|b|2||\tlayernorm f32 64x32\t" LAYERNORM "\tmeasure\t0\t1\n"
                      "products\tcpu|a|b|2||\tvit width 8\tint8 bf16=0000a1 cosine=0.999570 "
                      "worst=-0.100000 bound=0.999500\tmeasure\t5\t1\n";
    size_t unknown;
    fv_wisdom *w = parsed(text, &unknown);
    char *again = text_of(w);
    assert_int_equal(unknown, 0);
    assert_string_equal(again, text);
    free(again);
    fv_wisdom_free(w);
}

static void order_does_not_matter(void **state)
{
    (void)state;
    static const char *const lines[] = {
        FACT(LAYERNORM, "measure", "5"),
        FACT("layernorm_f32_c rev=1", "exhaustive", "3"),
        FACT("layernorm_f32_c rev=1", "measure", "9"),
        FACT("layernorm_of_tomorrow rev=1", "exhaustive", "99"),
    };
    char *first = NULL;
    for (int turn = 0; turn < 24; turn++) {
        char text[2048] = HEADER;
        int left[4] = {0, 1, 2, 3}, code = turn;
        for (int n = 4; n > 0; n--) {
            const int pick = code % n;
            code /= n;
            strcat(text, lines[left[pick]]);
            memmove(&left[pick], &left[pick + 1], (size_t)(n - pick - 1) * sizeof *left);
        }
        size_t unknown;
        fv_wisdom *w = parsed(text, &unknown);
        char *out = text_of(w);
        assert_int_equal(unknown, 1);
        assert_int_equal(fv_wisdom_count(w), 1);
        assert_non_null(strstr(out, "layernorm_f32_c rev=1\texhaustive\t1500\t3\n"));
        if (first)
            assert_string_equal(out, first);
        free(first);
        first = out;
        fv_wisdom_free(w);
    }
    free(first);
}

/* A store with any facts can be written as text and read again. */
static void hostile_facts(void **state)
{
    (void)state;
    fv_answer answer;
    fv_wisdom *w;
    succeed(fv_wisdom_create(&w));
    const fv_fact facts[] = {
        {FV_FACT_PLAN, FOVEA_RIGOR_MEASURE, true, false, "cpu|a|b", "vit_\tx\ny 2\x7f", "-", 1.5,
         7},
        {FV_FACT_PLAN, FOVEA_RIGOR_MEASURE, true, false, "cpu|a\r|b", "never ends", "-", INFINITY,
         7},
        {FV_FACT_PLAN, FOVEA_RIGOR_MEASURE, true, false, "cpu|a|b", "no time", "-", NAN,
         UINT64_MAX},
        {FV_FACT_PLAN, FOVEA_RIGOR_MEASURE, true, false, "cpu|a|b", "back", "-", -1, (uint64_t)-1},
        {FV_FACT_PLAN, FOVEA_RIGOR_MEASURE, true, false, "cpu|a|b", "long", "-", 1e9, 1},
    };
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        succeed(fv_wisdom_put(w, &facts[i]));
    char *text = text_of(w);
    fv_wisdom_free(w);
    size_t unknown;
    w = parsed(text, &unknown);
    assert_int_equal(fv_wisdom_count(w), sizeof facts / sizeof *facts);
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        assert_true(fv_wisdom_find(w, FV_FACT_PLAN, facts[i].device, facts[i].subject, &answer));
    assert_non_null(strstr(text, "\tvit__x_y 2_\t-\tmeasure\t1500000000\t7\n"));
    free(text);
    fv_wisdom_free(w);
}

static size_t messages;

static void count_message(const char *line, void *payload)
{
    messages += strstr(line, payload) != NULL;
}

/* If there are more facts than a text may have, the oldest are dropped. */
static void too_many_facts(void **state)
{
    (void)state;
    enum { MOST = 16384, MORE = 5 };
    fv_wisdom *w;
    size_t unknown;
    succeed(fv_wisdom_create(&w));
    for (unsigned i = 0; i < MOST + MORE;
         i++) { /* three are as old as the oldest fact that stays */
        char subject[16];
        snprintf(subject, sizeof subject, "%05u", i);
        const fv_fact f = {FV_FACT_PLAN,
                           FOVEA_RIGOR_MEASURE,
                           true,
                           false,
                           "cpu|a|b",
                           subject,
                           "-",
                           1,
                           i < 3   ? i
                           : i < 8 ? 5
                                   : i};
        succeed(fv_wisdom_put(w, &f));
    }
    char said[] = "5 oldest";
    fovea_log_set(count_message, said);
    char *text = text_of(w);
    fovea_log_set(NULL, NULL);
    assert_int_equal(messages, 1);
    fv_wisdom_free(w);
    w = parsed(text, &unknown);
    assert_int_equal(fv_wisdom_count(w), MOST);
    fv_answer answer;
    for (unsigned i = 0; i < 10; i++) {
        char subject[16];
        snprintf(subject, sizeof subject, "%05u", i);
        assert_int_equal(fv_wisdom_find(w, FV_FACT_PLAN, "cpu|a|b", subject, &answer), i >= 5);
    }
    free(text);
    fv_wisdom_free(w);
}

static void hostile_texts(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "fovea wisdom 1",
        "fovea wisdom 2\n",
        "fovea wisdom 1\r\n",
        HEADER "\n",
        HEADER "step\n",
        HEADER "step\tcpu|a\tp\tk rev=1\tmeasure\t1\n",
        HEADER "step\tcpu|a\tp\tk rev=1\tmeasure\t1\t2\t3\n",
        HEADER "step\t\tp\tk rev=1\tmeasure\t1\t2\n",
        HEADER "step\tcpu|a\tp\tk rev=1\tmeasure\t1\t\n",
        HEADER "step\tcpu|a\tp\tk rev=1\tmeasured\t1\t2\n",
        HEADER "guess\tcpu|a\tp\tk rev=1\tmeasure\t1\t2\n",
        HEADER "step\tcpu|a\tp\tk rev=1\tmeasure\t-1\t2\n",
        HEADER "step\tcpu|a\tp\tk rev=1\tmeasure\t1.5\t2\n",
        HEADER "step\tcpu|a\tp\tk rev=1\tmeasure\tnan\t2\n",
        HEADER "step\tcpu|a\tp\tk rev=1\tmeasure\t1\t99999999999999999999999\n",
        HEADER "step\tcpu|a\tp\x01\tk rev=1\tmeasure\t1\t2\n",
        HEADER "step\tcpu|a\tp\tk rev=1\tmeasure\t1\t2", /* cut short */
    };
    fovea_wisdom_forget();
    succeed(fovea_wisdom_import(HEADER FACT(LAYERNORM, "measure", "5"),
                                strlen(HEADER FACT(LAYERNORM, "measure", "5")), NULL));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (fovea_wisdom_import(bad[i], strlen(bad[i]), NULL) != FOVEA_EWISDOM)
            fail_msg("text %zu was taken", i);
        assert_non_null(strstr(fovea_error(), "line"));
        assert_int_equal(fv_wisdom_count(fv_wisdom_global()), 1);
    }
    static const char nul[] = HEADER "step\tcpu|a\tp\0\tk rev=1\tmeasure\t1\t2\n";
    assert_int_equal(fovea_wisdom_import(nul, sizeof nul - 1, NULL), FOVEA_EWISDOM);
    static const char after[] = HEADER "plan\tcpu|a\tmodel\t-\tmeasure\t1\t2\0and more\n";
    assert_int_equal(fovea_wisdom_import(after, sizeof after - 1, NULL), FOVEA_EWISDOM);
    /* Valid lines before an invalid one are ignored, too. */
    static const char late[] =
        HEADER "plan\tcpu|a\tmodel\t-\tmeasure\t1\t2\nplan\tcpu|b\tmodel\t-\tmeasure\t1\tx\n";
    assert_int_equal(fovea_wisdom_import(late, strlen(late), NULL), FOVEA_EWISDOM);
    assert_non_null(strstr(fovea_error(), "line 3"));
    assert_int_equal(fv_wisdom_count(fv_wisdom_global()), 1);
    fovea_wisdom_forget();
    assert_int_equal(fv_wisdom_count(fv_wisdom_global()), 0);
}

static void long_texts(void **state)
{
    (void)state;
    enum { LINES = 16387, LINE = 64, LONG = 1100 };
    char *text = malloc(LINES * LINE), *at = text;
    assert_non_null(text);
    at += sprintf(at, HEADER);
    for (int i = 0; i < LINES - 4; i++)
        at += sprintf(at, "plan\tcpu|a\tmodel %d\t-\tmeasure\t1\t2\n", i);
    succeed(fovea_wisdom_import(text, (size_t)(at - text), NULL));
    at += sprintf(at, "plan\tcpu|a\tmodel\t-\tmeasure\t1\t2\n");
    assert_int_equal(fv_wisdom_count(fv_wisdom_global()), LINES - 4);
    succeed(fovea_wisdom_import(text, (size_t)(at - text), NULL));
    at += sprintf(at, "plan\tcpu|a\tone more\t-\tmeasure\t1\t2\n");
    assert_int_equal(fovea_wisdom_import(text, (size_t)(at - text), NULL), FOVEA_EWISDOM);
    at = text + sprintf(text, HEADER "plan\tcpu|a\t");
    memset(at, 'x', LONG);
    at += LONG;
    at += sprintf(at, "\t-\tmeasure\t1\t2\n");
    assert_int_equal(fovea_wisdom_import(text, (size_t)(at - text), NULL), FOVEA_EWISDOM);
    free(text);
    fovea_wisdom_forget();
}

static void unknown_is_skipped(void **state)
{
    (void)state;
    static const char text[] =
        HEADER FACT("layernorm_f32_ref rev=77", "measure",
                    "1") "step\tcpu|a\tp\tno_such_kernel rev=1\tmeasure\t1\t2\n"
                         "step\tcpu|a\tq\t" LAYERNORM " kc=3\tmeasure\t1\t2\n"
                         "step\tcpu|a\tr\tsoftmax_f32_c rev=1 keys=63\tmeasure\t1\t2\n"
                         "step\tcpu|a\ts\tsoftmax_f32_c rev=1 keys=128\tmeasure\t1\t2\n"
                         "step\tabacus|a\tt\t" LAYERNORM "\tmeasure\t1\t2\n"
                         "sweep\tcpu|a\tu\tsideways chunk=3\tmeasure\t1\t2\n";
    fovea_wisdom_info info = FOVEA_WISDOM_INFO_INIT;
    succeed(fovea_wisdom_import(text, strlen(text), &info));
    assert_int_equal(info.taken, 1);
    assert_int_equal(info.skipped, 6);
    fovea_wisdom_forget();
}

/* ---- files ---- */

static char *file_text(const char *path)
{
    static char text[4096];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

/* A file keeps facts that are better than the new ones, and facts that only another version of the
 * library understands. */
static void saved_and_merged(void **state)
{
    (void)state;
    char path[400];
    static const char mine[] =
        HEADER FACT(LAYERNORM, "measure", "5") "plan\tcpu|a\tmodel\t-\tmeasure\t1\t2\n";
    strcpy(path, in_folder("wisdom"));
    write_file(path,
               HEADER FACT("layernorm_f32_c rev=1", "exhaustive",
                           "1") "step\tcpu|a\tother\tkernel_of_tomorrow rev=9\tmeasure\t1\t2\n");
    succeed(fovea_wisdom_import(mine, strlen(mine), NULL));
    succeed(fovea_wisdom_save(path));
    const char *text = file_text(path);
    assert_non_null(strstr(text, "layernorm_f32_c rev=1\texhaustive"));
    assert_null(strstr(text, LAYERNORM));
    assert_non_null(strstr(text, "kernel_of_tomorrow"));
    assert_non_null(strstr(text, "plan\tcpu|a\tmodel"));
    fovea_wisdom_forget();
    fovea_wisdom_info info = FOVEA_WISDOM_INFO_INIT;
    succeed(fovea_wisdom_load(path, &info));
    assert_int_equal(info.taken, 2);
    assert_int_equal(info.skipped, 1);

    write_file(path, "my notes\n"); /* must not be overwritten */
    assert_int_equal(fovea_wisdom_save(path), FOVEA_EWISDOM);
    assert_string_equal(file_text(path), "my notes\n");
    assert_int_equal(fovea_wisdom_load(path, NULL), FOVEA_EWISDOM);
    assert_non_null(strstr(fovea_error(), path));
    assert_int_equal(fovea_wisdom_load(in_folder("nothing"), NULL), FOVEA_EIO);
    assert_int_equal(fovea_wisdom_save(in_folder("no/such/folder")), FOVEA_EIO);
    fovea_wisdom_forget();
    unlink(path);
}

/* Several programs tune at the same time, and none loses the facts of another. */
static void saved_at_once(void **state)
{
    enum { SAVERS = 8 };
    (void)state;
    char path[400], fact[128];
    pid_t child[SAVERS];
    strcpy(path, in_folder("shared"));
    for (int i = 0; i < SAVERS; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            snprintf(fact, sizeof fact, HEADER "plan\tcpu|a\tmodel%d\t-\tmeasure\t1\t2\n", i);
            _exit(fovea_wisdom_import(fact, strlen(fact), NULL) || fovea_wisdom_save(path));
        }
        assert_true(child[i] > 0);
    }
    for (int i = 0; i < SAVERS; i++) {
        int status;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_int_equal(status, 0);
    }
    fovea_wisdom_info info = FOVEA_WISDOM_INFO_INIT;
    succeed(fovea_wisdom_load(path, &info));
    assert_int_equal(info.taken, SAVERS);
    fovea_wisdom_forget();
    unlink(path);
}

static void paths(void **state)
{
    (void)state;
    char path[64], *was = getenv("FOVEA_WISDOM");
    assert_non_null(was); /* tests must not read the user's wisdom */
    succeed(fovea_wisdom_path(path, sizeof path));
    assert_string_equal(path, "");
    assert_int_equal(fovea_wisdom_save(NULL), FOVEA_EINVAL);
    unsetenv("FOVEA_WISDOM");
    setenv("XDG_CACHE_HOME", "/somewhere", 1);
    succeed(fovea_wisdom_path(path, sizeof path));
    assert_string_equal(path, "/somewhere/fovea/wisdom");
    assert_int_equal(fovea_wisdom_path(path, 8), FOVEA_EINVAL);
    setenv("FOVEA_WISDOM", "/a/file", 1);
    succeed(fovea_wisdom_path(path, sizeof path));
    assert_string_equal(path, "/a/file");
    setenv("FOVEA_WISDOM", "", 1);
}

/* ---- plans ---- */

typedef struct setting {
    fovea_device *device;
    fovea_model *model;
    fv_wisdom *wisdom;
} setting;

static setting set_up(void)
{
    setting s = {fixture_device(2), fixture_load(), NULL};
    succeed(fv_wisdom_create(&s.wisdom));
    return s;
}

static void tear_down(setting *s)
{
    fv_wisdom_free(s->wisdom);
    fovea_model_free(s->model);
    fovea_device_close(s->device);
}

static fovea_plan *plan_as(const setting *s, fv_wisdom *wisdom, uint32_t width, uint32_t height,
                           fovea_compute compute)
{
    fovea_plan *p;
    fovea_plan_options options = fixture_options("linear:elu1", FOVEA_SCHEDULE_AUTO);
    options.frame.width = width;
    options.frame.height = height;
    options.compute = compute;
    options.dry = 1;
    succeed(fv_frame_plan(&p, s->model, s->device, &options, wisdom));
    return p;
}

static fovea_plan *plan_at(const setting *s, fv_wisdom *wisdom, uint32_t width, uint32_t height)
{
    return plan_as(s, wisdom, width, height, FOVEA_COMPUTE_F32);
}

static const fv_step *find_step(const fovea_plan *p, enum fv_op op)
{
    for (uint32_t i = 0; i < p->graph.steps; i++)
        if (!p->graph.step[i].dead && p->graph.step[i].prob.op == op)
            return &p->graph.step[i];
    fail_msg("no such step");
    return NULL;
}

static const fv_step_plan *find_plan(const fovea_plan *p, enum fv_op op)
{
    return fv_plan_of_step(p, find_step(p, op));
}

static void put_step(fv_wisdom *w, const char *device, const fv_problem *p, int away,
                     const char *choice, enum fv_fact_kind kind)
{
    char subject[FV_WISDOM_SUBJECT];
    fv_wisdom_problem_key(subject, p, away);
    const fv_fact f = {kind, FOVEA_RIGOR_MEASURE, true, false, device, subject, choice, 1e-3, 1};
    succeed(fv_wisdom_put(w, &f));
}

static void steps_take_wisdom(void **state)
{
    (void)state;
    setting s = set_up();
    fovea_plan *p = plan_at(&s, s.wisdom, 224, 224), *again;
    const fv_problem norm = find_step(p, FV_OP_LAYERNORM)->prob;
    assert_string_equal(find_plan(p, FV_OP_LAYERNORM)->source, "cost");
    assert_string_not_equal(find_plan(p, FV_OP_LAYERNORM)->kernel->name, "layernorm_f32_ref");

    put_step(s.wisdom, p->advice.device, &norm, 0, LAYERNORM, FV_FACT_STEP);
    again = plan_at(&s, s.wisdom, 224, 224);
    assert_string_equal(find_plan(again, FV_OP_LAYERNORM)->source, "wisdom");
    assert_string_equal(find_plan(again, FV_OP_LAYERNORM)->kernel->name, "layernorm_f32_ref");
    assert_string_equal(find_plan(again, FV_OP_GEMM)->source, "cost");
    fovea_plan_free(again);

    /* A picture of nearly the same size is in the same bucket, and one of half the pixels is in the
     * next. Facts do not apply to a picture of four times as many pixels. */
    again = plan_at(&s, s.wisdom, 238, 224);
    assert_string_equal(find_plan(again, FV_OP_LAYERNORM)->source, "wisdom");
    fovea_plan_free(again);
    again = plan_at(&s, s.wisdom, 196, 182);
    assert_string_equal(find_plan(again, FV_OP_LAYERNORM)->source, "prior");
    fovea_plan_free(again);
    again = plan_at(&s, s.wisdom, 448, 448);
    assert_string_equal(find_plan(again, FV_OP_LAYERNORM)->source, "cost");
    fovea_plan_free(again);

    /* A skipped kernel is not used, even if another fact recommends it. */
    put_step(s.wisdom, p->advice.device, &norm, 0, LAYERNORM, FV_FACT_SKIP);
    again = plan_at(&s, s.wisdom, 224, 224);
    assert_string_equal(find_plan(again, FV_OP_LAYERNORM)->source, "cost");
    assert_string_not_equal(find_plan(again, FV_OP_LAYERNORM)->kernel->name, "layernorm_f32_ref");
    fovea_plan_free(again);
    char usual[FV_WISDOM_CHOICE];
    const fv_step_plan *step = find_plan(p, FV_OP_LAYERNORM);
    fv_wisdom_clear(s.wisdom);
    fv_wisdom_kernel_text(usual, step->kernel, &step->knobs);
    put_step(s.wisdom, p->advice.device, &norm, 0, usual, FV_FACT_SKIP);
    again = plan_at(&s, s.wisdom, 224, 224);
    assert_string_not_equal(find_plan(again, FV_OP_LAYERNORM)->kernel->name, step->kernel->name);
    fovea_plan_free(again);
    fovea_plan_free(p);
    tear_down(&s);
}

/* Facts about products of one type do not apply to another type. */
static void products_have_facts_of_their_own(void **state)
{
    (void)state;
    static const fovea_compute types[] = {FOVEA_COMPUTE_F32, FOVEA_COMPUTE_BF16,
                                          FOVEA_COMPUTE_INT8};
    enum { TYPES = sizeof types / sizeof *types };
    setting s = set_up();
    char key[TYPES][FV_WISDOM_SUBJECT];
    for (int i = 0; i < TYPES; i++) {
        fovea_plan *p = plan_as(&s, s.wisdom, 224, 224, types[i]);
        fv_advice_plan_key(key[i], s.model, &p->options);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(key[i], key[k]);
        if (types[i] == FOVEA_COMPUTE_BF16)
            put_step(s.wisdom, p->advice.device, &find_step(p, FV_OP_LAYERNORM)->prob, 0, LAYERNORM,
                     FV_FACT_STEP);
        fovea_plan_free(p);
    }
    for (int i = 0; i < TYPES; i++) {
        fovea_plan *p = plan_as(&s, s.wisdom, 224, 224, types[i]);
        assert_string_equal(find_plan(p, FV_OP_LAYERNORM)->source,
                            types[i] == FOVEA_COMPUTE_F32 ? "cost" : "wisdom");
        fovea_plan_free(p);
    }
    tear_down(&s);
}

static void family_is_a_prior(void **state)
{
    (void)state;
    setting s = set_up();
    fovea_plan *p = plan_at(&s, NULL, 224, 224), *again;
    const fv_problem norm = find_step(p, FV_OP_LAYERNORM)->prob;
    char cousin[FV_WISDOM_DEVICE + 32];
    snprintf(cousin, sizeof cousin, "cpu|%s|another processor|64||", s.device->info.features);
    put_step(s.wisdom, cousin, &norm, 0, LAYERNORM, FV_FACT_STEP);
    put_step(s.wisdom, "cpu|of another kind|x|2||", &find_step(p, FV_OP_PATCH)->prob, 0,
             "patch_f32_ref rev=1", FV_FACT_STEP);
    again = plan_at(&s, s.wisdom, 224, 224);
    assert_string_equal(find_plan(again, FV_OP_LAYERNORM)->source, "prior");
    assert_string_equal(find_plan(again, FV_OP_PATCH)->source, "cost");
    fovea_plan_free(again);
    fovea_plan_free(p);
    tear_down(&s);
}

static void sweeps_take_wisdom(void **state)
{
    (void)state;
    setting s = set_up();
    fovea_plan *p = plan_at(&s, s.wisdom, 448, 448), *again;
    char subject[FV_WISDOM_SUBJECT];
    fv_advice_sweep_key(subject, &p->graph, &p->chosen.sweep[2], 0);
    for (int streamed = 0; streamed < 2; streamed++) {
        const fv_fact f = {FV_FACT_SWEEP,
                           FOVEA_RIGOR_MEASURE,
                           true,
                           false,
                           p->advice.device,
                           subject,
                           streamed ? "streamed chunk=50" : "stepwise chunk=70",
                           1e-3,
                           1};
        succeed(fv_wisdom_put(s.wisdom, &f));
        again = plan_at(&s, s.wisdom, 448, 448);
        assert_string_equal(again->chosen.sweep[2].source, "wisdom");
        assert_string_equal(again->chosen.sweep[0].source, "cost");
        assert_int_equal(again->chosen.sweep[2].streamed, streamed);
        assert_int_equal(again->chosen.sweep[2].target, streamed ? 50 : 70);
        assert_in_range(again->chosen.sweep[2].chunk, 40, streamed ? 50 : 70);
        fovea_plan_free(again);
    }
    /* A fact does not apply to a device with another number of threads, nor after its sweep ended a
     * run. */
    fovea_device *one = fixture_device(1);
    const setting other = {one, s.model, s.wisdom};
    again = plan_at(&other, s.wisdom, 448, 448);
    assert_string_equal(again->chosen.sweep[2].source, "cost");
    fovea_plan_free(again);
    fovea_device_close(one);
    const fv_fact skip = {.kind = FV_FACT_SKIP,
                          .rigor = FOVEA_RIGOR_MEASURE,
                          .known = true,
                          .device = p->advice.device,
                          .subject = subject,
                          .choice = "stepwise chunk=70"};
    fv_wisdom *wary;
    succeed(fv_wisdom_create(&wary));
    succeed(fv_wisdom_put(wary, &skip));
    const fv_fact said = {FV_FACT_SWEEP, FOVEA_RIGOR_MEASURE, true, false, p->advice.device,
                          subject,       "stepwise chunk=70", 1e-3, 1};
    succeed(fv_wisdom_put(wary, &said));
    again = plan_at(&s, wary, 448, 448);
    assert_string_equal(again->chosen.sweep[2].source, "cost");
    fovea_plan_free(again);
    fv_wisdom_free(wary);

    /* The caller's options and a memory limit have priority. */
    fovea_plan_options options = fixture_options("linear:elu1", FOVEA_SCHEDULE_STEPWISE);
    options.frame.width = options.frame.height = 448;
    options.dry = 1;
    succeed(fv_frame_plan(&again, s.model, s.device, &options, s.wisdom));
    assert_string_equal(again->chosen.sweep[2].source, "forced");
    assert_false(again->chosen.sweep[2].streamed);
    fovea_plan_free(again);
    fovea_plan_info info = FOVEA_PLAN_INFO_INIT;
    fovea_plan_query(p, &info);
    options.schedule = FOVEA_SCHEDULE_AUTO;
    options.memory_limit =
        (info.residual + info.states + info.chunks + info.scratch + info.staging) * 1 / 2;
    succeed(fv_frame_plan(&again, s.model, s.device, &options, s.wisdom));
    assert_string_equal(again->chosen.sweep[2].source, "cost");
    fovea_plan_free(again);
    fovea_plan_free(p);
    tear_down(&s);
}

/* ---- products ---- */

static void products_as_text(void **state)
{
    (void)state;
    static const char *const no[] = {
        "",
        "int4",
        "int8 bf16",
        "int8 bf16=",
        "int8 bf16=0g",
        "int8 =1",
        "bf16 bf16=1",
        "int8 bound=0,5",
        "int8 cosine=1e-3",
        "int8 cosine=.5",
        "int8 bf=01",
        "f32 bf16=0",
        "int8 worst=0.5x",
        "auto",
    };
    char text[FV_WISDOM_CHOICE], long_one[FV_WISDOM_CHOICE] = "int8 bf16=";
    fv_product_choice c = {FOVEA_COMPUTE_INT8, {{0}}, 0.99957, -0.25, 0.9995}, again;
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (fv_wisdom_products_read(no[i], &again))
            fail_msg("it takes '%s'", no[i]);
    memset(long_one + strlen(long_one), '0', FV_PRODUCTS / 4);
    assert_true(fv_wisdom_products_read(long_one, &again));
    strcat(long_one, "1");
    assert_false(fv_wisdom_products_read(long_one, &again));
    fv_products_add(&c.bf16, 0);
    fv_products_add(&c.bf16, 13);
    fv_wisdom_products_text(text, &c);
    assert_string_equal(text, "int8 bf16=2001 cosine=0.999570 worst=-0.250000 bound=0.999500");
    fv_products_add(&c.bf16, FV_PRODUCTS); /* there is no such bit */
    fv_products_add(&c.bf16, FV_PRODUCTS - 1);
    fv_wisdom_products_text(text, &c);
    assert_true(fv_wisdom_products_read(text, &again));
    assert_memory_equal(&again.bf16, &c.bf16, sizeof c.bf16);
    assert_int_equal(fv_products_count(&again.bf16), 3);
    assert_true(fabs(again.cosine - c.cosine) < 1e-6 && again.worst == -0.25);
}

static void put_products(fv_wisdom *w, const char *device, const char *subject, const char *choice)
{
    const fv_fact f = {
        FV_FACT_PRODUCTS, FOVEA_RIGOR_MEASURE, true, false, device, subject, choice, 1e-3, 1};
    succeed(fv_wisdom_put(w, &f));
}

/* Returns the products' type on a device without facts in wisdom. */
static fovea_compute fast(const setting *s)
{
    fovea_device_info info = FOVEA_DEVICE_INFO_INIT;
    fovea_device_describe(s->device, &info);
    return info.bf16 ? FOVEA_COMPUTE_BF16 : FOVEA_COMPUTE_F32;
}

/* Checks that FOVEA_COMPUTE_AUTO plans `compute` because of `source`, and that `bf16` products
 * which could be int8 are not. */
static void auto_is(const setting *s, const char *attention, uint32_t side, fovea_dtype weights,
                    fovea_compute compute, const char *source, uint32_t bf16)
{
    fovea_plan *p, *all;
    fovea_plan_info info = FOVEA_PLAN_INFO_INIT;
    fovea_plan_options options = fixture_options(attention, FOVEA_SCHEDULE_AUTO);
    uint32_t kept = 0;
    options.frame.width = options.frame.height = side;
    options.dry = 1;
    options.weights = weights;
    options.compute = FOVEA_COMPUTE_AUTO;
    succeed(fv_frame_plan(&p, s->model, s->device, &options, s->wisdom));
    succeed(fovea_plan_query(p, &info));
    assert_int_equal(info.compute, compute);
    assert_string_equal(info.compute_source, source);
    options.weights = FOVEA_DTYPE_F32;
    options.compute = FOVEA_COMPUTE_INT8;
    succeed(fv_frame_plan(&all, s->model, s->device, &options, NULL));
    if (compute == FOVEA_COMPUTE_INT8)
        assert_int_equal(all->graph.steps, p->graph.steps);
    for (uint32_t i = 0; i < p->graph.steps && compute == FOVEA_COMPUTE_INT8; i++)
        kept += all->graph.step[i].prob.acc == FV_I32 && p->graph.step[i].prob.acc != FV_I32;
    assert_int_equal(kept, bf16);
    fovea_plan_free(all);
    fovea_plan_free(p);
}

static void products_take_wisdom(void **state)
{
    (void)state;
    setting s = set_up();
    char subject[FV_WISDOM_SUBJECT], other[FV_WISDOM_SUBJECT];
    fovea_plan *p = plan_at(&s, NULL, 224, 224);
    fv_advice_products_key(subject, s.model, &p->options);
    auto_is(&s, "linear:elu1", 224, FOVEA_DTYPE_F32, fast(&s), "device", 0);
    put_products(s.wisdom, p->advice.device, subject, "int8 bf16=05");
    auto_is(&s, "linear:elu1", 224, FOVEA_DTYPE_F32, FOVEA_COMPUTE_INT8, "wisdom", 2);
    auto_is(&s, "linear:elu1", 448, FOVEA_DTYPE_F32, FOVEA_COMPUTE_INT8, "prior", 2);
    auto_is(&s, "softmax", 224, FOVEA_DTYPE_F32, fast(&s), "device", 0);
    auto_is(&s, "linear:elu1", 224, FOVEA_DTYPE_F16, FOVEA_COMPUTE_F32, "storage", 0);

    /* For other sizes the nearest fact applies. */
    strcpy(other, subject);
    strcpy(strrchr(other, ' ') + 1, "896x896");
    put_products(s.wisdom, p->advice.device, other, "bf16");
    auto_is(&s, "linear:elu1", 700, FOVEA_DTYPE_F32, FOVEA_COMPUTE_BF16, "prior", 0);
    auto_is(&s, "linear:elu1", 280, FOVEA_DTYPE_F32, FOVEA_COMPUTE_INT8, "prior", 2);

    /* Facts do not apply to other weights, whose errors differ, or to another device. */
    fv_wisdom_clear(s.wisdom);
    strcpy(other, subject);
    char *digit = strstr(other, "weights ") + strlen("weights ");
    *digit = *digit == '0' ? '1' : '0';
    put_products(s.wisdom, p->advice.device, other, "int8");
    put_products(s.wisdom, "cpu|a|b|2||", subject, "int8");
    auto_is(&s, "linear:elu1", 224, FOVEA_DTYPE_F32, fast(&s), "device", 0);
    fovea_plan_free(p);
    tear_down(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),           cmocka_unit_test(order_does_not_matter),
        cmocka_unit_test(hostile_facts),        cmocka_unit_test(too_many_facts),
        cmocka_unit_test(hostile_texts),        cmocka_unit_test(long_texts),
        cmocka_unit_test(unknown_is_skipped),   cmocka_unit_test(saved_and_merged),
        cmocka_unit_test(saved_at_once),        cmocka_unit_test(paths),
        cmocka_unit_test(steps_take_wisdom),    cmocka_unit_test(family_is_a_prior),
        cmocka_unit_test(sweeps_take_wisdom),   cmocka_unit_test(products_as_text),
        cmocka_unit_test(products_take_wisdom), cmocka_unit_test(products_have_facts_of_their_own),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
