/* test_weights_cache.c: tests packed weights that are cached in files. Outputs have the same bits
 * with and without the cache, whatever happens to the files, the model and the folder. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/models/small_checkpoint.h"
#include "weights/packed_cache.h"

#define W 192
#define FOUR_W 768

/* Wide enough for weights to be cached: q, k, v, proj, fc1 and fc2 of two blocks. */
static const struct line wide[] = {
    {"embeddings.cls_token", 1, W, {CLS}},
    {"embeddings.position_embeddings", 1 + SIDE *SIDE, W, {POS}},
    {"embeddings.patch_embeddings.projection.weight", W, PIXELS, {PATCH_W}},
    {"embeddings.patch_embeddings.projection.bias", 1, W, {PATCH_B}},
    {"encoder.layer.%d.norm1.weight", 1, W, {LN1_W}},
    {"encoder.layer.%d.norm1.bias", 1, W, {LN1_B}},
    {"encoder.layer.%d.attention.attention.query.weight", W, W, {Q_W}},
    {"encoder.layer.%d.attention.attention.key.weight", W, W, {K_W}},
    {"encoder.layer.%d.attention.attention.value.weight", W, W, {V_W}},
    {"encoder.layer.%d.attention.attention.query.bias", 1, W, {Q_B}},
    {"encoder.layer.%d.attention.attention.key.bias", 1, W, {K_B}},
    {"encoder.layer.%d.attention.attention.value.bias", 1, W, {V_B}},
    {"encoder.layer.%d.attention.output.dense.weight", W, W, {PROJ_W}},
    {"encoder.layer.%d.attention.output.dense.bias", 1, W, {PROJ_B}},
    {"encoder.layer.%d.layer_scale1.lambda1", 1, W, {LS1}},
    {"encoder.layer.%d.norm2.weight", 1, W, {LN2_W}},
    {"encoder.layer.%d.norm2.bias", 1, W, {LN2_B}},
    {"encoder.layer.%d.mlp.fc1.weight", FOUR_W, W, {FC1_W}},
    {"encoder.layer.%d.mlp.fc1.bias", 1, FOUR_W, {FC1_B}},
    {"encoder.layer.%d.mlp.fc2.weight", W, FOUR_W, {FC2_W}},
    {"encoder.layer.%d.mlp.fc2.bias", 1, W, {FC2_B}},
    {"encoder.layer.%d.layer_scale2.lambda1", 1, W, {LS2}},
    {"layernorm.weight", 1, W, {POST_W}},
    {"layernorm.bias", 1, W, {POST_B}},
    {NULL, 0, 0, {0}},
};
#define WEIGHTS "model.safetensors"
#define CONFIG                                                                                     \
    "{\"model_type\":\"dinov2\",\"hidden_size\":192,\"num_hidden_layers\":2,"                      \
    "\"num_attention_heads\":3,\"image_size\":12,\"patch_size\":4}"
#define VALUES ((1 + SIDE * SIDE) * W)

enum { NAME_MOST = 300 }; /* bytes of a file name */

static char cache[128];

static const char *in_cache(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%.*s", cache, NAME_MOST - 1, name);
    return path;
}

/* Lists the names of all files in the cache folder. */
static size_t files_of_cache(char name[][NAME_MOST], size_t most)
{
    size_t n = 0;
    DIR *d = opendir(cache);
    for (struct dirent *e; d && (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            if (n < most)
                snprintf(name[n], NAME_MOST, "%s", e->d_name);
            n++;
        }
    if (d)
        closedir(d);
    return n;
}

static size_t count_files(void)
{
    return files_of_cache(NULL, 0);
}

static void clear_cache(void)
{
    char name[64][NAME_MOST];
    for (size_t n; (n = files_of_cache(name, 64)) > 0;)
        for (size_t i = 0; i < n && i < 64; i++)
            unlink(in_cache(name[i]));
    rmdir(cache);
}

static int set_up(void **state)
{
    if (make_folder(state) != 0)
        return -1;
    snprintf(cache, sizeof cache, "%s/.cache", folder);
    write_checkpoint(wide, CONFIG);
    return 0;
}

/* Returns the seconds since the model's file was changed. */
static double age(void)
{
    struct stat st;
    struct timespec now;
    assert_int_equal(stat(in_folder(WEIGHTS), &st), 0);
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)(now.tv_sec - st.st_ctim.tv_sec) +
           1e-9 * (double)(now.tv_nsec - st.st_ctim.tv_nsec);
}

/* A file that changed less than two seconds ago is identified by a hash of its bytes, later by its
 * location on disk, which gives other names in the cache. Waiting three seconds is safe. */
#define YOUNG 2
static void wait_until_settled(void)
{
    const struct timespec pause = {0, 50000000};
    while (age() < YOUNG + 1.1)
        nanosleep(&pause, NULL);
}

/* Runs before each test, so that cache names do not change during a test. */
static int settle(void **state)
{
    (void)state;
    wait_until_settled();
    return 0;
}

static int tear_down(void **state)
{
    clear_cache();
    return remove_folder(state);
}

/* ---- a model's output ---- */

struct choice {
    const char *cache;  /* NULL: none */
    const char *device; /* NULL: cpu */
    fovea_dtype weights;
    fovea_compute compute;
    int lock;
};

static fovea_status try_run(float *out, const struct choice *c, uint64_t *own)
{
    fovea_device *device;
    fovea_model *m = NULL;
    fovea_plan *p = NULL;
    fovea_model_options model = FOVEA_MODEL_OPTIONS_INIT;
    fovea_plan_options o = FOVEA_PLAN_OPTIONS_INIT;
    fovea_device_options d = FOVEA_DEVICE_OPTIONS_INIT;
    uint8_t pixels[3 * SIDE * PATCH * SIDE * PATCH];
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 37);
    const fovea_frame frame = {.pixels = {pixels}};
    const fovea_output to = {out, VALUES * sizeof *out};
    d.threads = 1;
    d.lock_memory = c->lock;
    model.weights_cache = c->cache ? c->cache : "";
    o.frame.width = o.frame.height = SIDE * PATCH;
    o.weights = c->weights;
    o.compute = c->compute;
    fovea_status status = fovea_device_open(&device, c->device ? c->device : "cpu", &d);
    if (status != FOVEA_OK)
        return status;
    status = fovea_model_load_with(&m, folder, &model);
    FV_THEN(status, fovea_plan_create(&p, m, device, &o));
    if (own)
        *own = fv_mem_tagged(FV_MEM_WEIGHTS);
    FV_THEN(status, fovea_run(p, &frame, &to, 1));
    fovea_plan_free(p);
    fovea_model_free(m);
    fovea_device_close(device);
    return status;
}

static uint64_t run(float *out, const char *with)
{
    const struct choice c = {.cache = with};
    uint64_t own;
    if (try_run(out, &c, &own) != FOVEA_OK)
        fail_msg("%s", fovea_error());
    return own;
}

/* Checks that the output with the cache equals `want`. */
static uint64_t expect(const float *want)
{
    static float got[VALUES];
    memset(got, 0, sizeof got);
    const uint64_t own = run(got, cache);
    assert_memory_equal(got, want, sizeof got);
    return own;
}

/* ---- mapped files ---- */

#define BIG (2 * (4ull * W * W + 2ull * W * FOUR_W) * sizeof(float))

/* Checks that the public function reports `files` files in the folder. */
static void describe(size_t files)
{
    fovea_weights_cache_info info = FOVEA_WEIGHTS_CACHE_INFO_INIT, none = info;
    uint64_t bytes = 0;
    char name[64][300];
    struct stat st;
    files_of_cache(name, 64);
    for (size_t i = 0; i < files; i++) {
        assert_int_equal(stat(in_cache(name[i]), &st), 0);
        bytes += (uint64_t)st.st_size;
    }
    assert_int_equal(fovea_weights_cache_describe(cache, &info), FOVEA_OK);
    assert_int_equal(info.files, files);
    assert_int_equal(info.bytes, bytes);
    assert_int_equal(fovea_weights_cache_describe(NULL, &none), FOVEA_OK);
    assert_int_equal(none.files, 0);
    setenv("FOVEA_WEIGHTS_CACHE", cache, 1);
    assert_int_equal(fovea_weights_cache_describe(NULL, &info), FOVEA_OK);
    assert_int_equal(info.files, files);
    assert_int_equal(fovea_weights_cache_describe("", &none), FOVEA_OK);
    assert_int_equal(none.files, 0);
    unsetenv("FOVEA_WEIGHTS_CACHE");
}

/* Checks that clearing removes the `files` cache files and an empty one, but no other file. */
static void clear_by_name(size_t files)
{
    static const char *const more[] = {"0123456789abcdef.weight", "notes.txt"};
    size_t removed = 1;
    for (int i = 0; i < 2; i++) {
        FILE *f = fopen(in_cache(more[i]), "wb");
        assert_non_null(f);
        fclose(f);
    }
    assert_int_equal(fovea_weights_cache_clear(NULL, &removed), FOVEA_OK);
    assert_int_equal(removed, 0);
    assert_int_equal(count_files(), files + 2);
    assert_int_equal(fovea_weights_cache_clear(cache, &removed), FOVEA_OK);
    assert_int_equal(removed, files + 1);
    assert_int_equal(count_files(), 1);
}

static void later_plans_map_what_is_there(void **state)
{
    static float want[VALUES];
    char name[64][NAME_MOST];
    struct stat before[64], after;
    (void)state;
    const uint64_t all = run(want, NULL);
    assert_int_equal(count_files(), 0);
    assert_true(expect(want) <= all - BIG);
    const size_t n = files_of_cache(name, 64);
    assert_true(n >= 8 && n <= 12);
    for (size_t i = 0; i < n; i++) {
        assert_true(fv_packed_file_name(name[i]));
        assert_int_equal(stat(in_cache(name[i]), &before[i]), 0);
        assert_int_equal(before[i].st_mode & 077, 0);
    }
    assert_true(expect(want) <= all - BIG);
    assert_int_equal(count_files(), n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(stat(in_cache(name[i]), &after), 0);
        assert_int_equal(before[i].st_ino, after.st_ino); /* no file was rewritten */
    }
    describe(n);

    /* The environment variable sets the folder; an empty option overrides it. Mapped weights can be
     * locked. */
    setenv("FOVEA_WEIGHTS_CACHE", cache, 1);
    fovea_model *m;
    assert_int_equal(fovea_model_load(&m, folder), FOVEA_OK);
    assert_non_null(m->shared.cache);
    fovea_model_free(m);
    assert_int_equal(run(want, NULL), all);
    unsetenv("FOVEA_WEIGHTS_CACHE");
    static float got[VALUES];
    const struct choice locked = {.cache = cache, .lock = 1};
    const fovea_status status = try_run(got, &locked, NULL);
    assert_true(status == FOVEA_ENOMEM || status == FOVEA_ENOTSUP ||
                (status == FOVEA_OK && memcmp(got, want, sizeof got) == 0));
    clear_by_name(n);
    clear_cache();
}

static void types_have_their_own_files(void **state)
{
    static const struct choice choices[] = {
        {.weights = FOVEA_DTYPE_F32},
        {.weights = FOVEA_DTYPE_BF16},
        {.weights = FOVEA_DTYPE_I8},
        {.weights = FOVEA_DTYPE_F32, .compute = FOVEA_COMPUTE_BF16},
        {.weights = FOVEA_DTYPE_F32, .compute = FOVEA_COMPUTE_INT8},
    };
    static float want[VALUES], got[VALUES];
    (void)state;
    for (int twice = 0; twice < 2; twice++)
        for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
            struct choice c = choices[i];
            assert_int_equal(try_run(want, &c, NULL), FOVEA_OK);
            c.cache = cache;
            assert_int_equal(try_run(got, &c, NULL), FOVEA_OK);
            assert_memory_equal(got, want, sizeof got);
        }
    clear_cache();
}

/* The key contains the values of the channels' factors, not their addresses. */
static void scales_have_their_own_files(void **state)
{
    static float data[W * W];
    const float factor[W] = {1, 2}, same[W] = {1, 2}, other[W] = {2, 1};
    const fv_tensor tensor = fv_tensor_of_floats(data, W, W);
    const fv_weight w = fv_weight_of(&tensor, W, W);
    const fv_packed plain = {.weight = w, .format = "f32", .size = sizeof data};
    const struct {
        const float *row, *col;
    } forms[] = {{NULL, NULL},  {factor, NULL}, {NULL, factor},
                 {other, NULL}, {NULL, other},  {same, NULL}};
    enum { FORMS = sizeof forms / sizeof *forms };
    fv_packed_key key[FORMS];
    fv_packed_cache *c;
    (void)state;
    assert_int_equal(fv_packed_cache_open(&c, cache), FOVEA_OK);
    for (size_t i = 0; i < FORMS; i++) {
        fv_packed p = plain;
        p.weight.row_factor = forms[i].row;
        p.weight.col_factor = forms[i].col;
        assert_true(fv_packed_key_make(&key[i], c, &p));
        for (size_t k = 0; k < i; k++)
            assert_true((memcmp(&key[i], &key[k], sizeof *key) == 0) == (i == FORMS - 1 && k == 1));
        assert_true(fv_weight_same(&p.weight, &w) == (i == 0));
    }
    fv_packed_cache_close(c);
}

/* Makes a channel of a norm `factor` times larger and the columns that read it smaller by the same
 * factor. The model computes the same function, but int8 packs other bytes. */
static void plant(float factor)
{
    static const char *const reader[] = {"query.weight", "key.weight", "value.weight"};
    const uint32_t channel = 5;
    struct checkpoint *c = checkpoint_of(wide);
    for (size_t i = 0; i < c->n; i++) {
        float *x = (float *)(uintptr_t)c->tensor[i].data;
        if (strstr(c->tensor[i].name, "norm1"))
            x[channel] *= factor;
        for (size_t k = 0; k < sizeof reader / sizeof *reader; k++)
            for (uint32_t r = 0; strstr(c->tensor[i].name, reader[k]) && r < W; r++)
                x[r * W + channel] /= factor;
    }
    assert_int_equal(fovea_tensors_write(in_folder(WEIGHTS), c->tensor, c->n, NULL, 0), FOVEA_OK);
    free_checkpoint(c);
    wait_until_settled();
}

static void equal_channels_are_kept(void **state)
{
    static const struct choice choices[] = {{.compute = FOVEA_COMPUTE_INT8},
                                            {.compute = FOVEA_COMPUTE_BF16},
                                            {.weights = FOVEA_DTYPE_I8}};
    static float want[VALUES], got[VALUES];
    (void)state;
    for (int planted = 0; planted < 2; planted++) {
        plant(planted ? 256 : 1);
        for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
            struct choice c = choices[i];
            assert_int_equal(try_run(want, &c, NULL), FOVEA_OK);
            c.cache = cache;
            for (int twice = 0; twice < 2; twice++) {
                const size_t before = count_files();
                assert_int_equal(try_run(got, &c, NULL), FOVEA_OK);
                assert_memory_equal(got, want, sizeof got);
                assert_true((count_files() > before) == (twice == 0));
            }
        }
    }
    clear_cache();
}

/* ---- damage ---- */

static off_t size_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_size;
}

static void flip(const char *path, off_t at, unsigned char bit)
{
    unsigned char byte;
    const int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= bit;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

/* Applies damage number i to a file; returns false if there are no more. */
static bool damage(const char *path, int i)
{
    const off_t size = size_of(path);
    const off_t ends[] = {0, 1, 8, 4095, 4096, 4097, size / 2, size - 1};
    const off_t bits[] = {0, 8, 16, 24, 40, 200, 4096, 4099, 5000, size / 2, size - 1};
    enum { ENDS = sizeof ends / sizeof *ends, BITS = sizeof bits / sizeof *bits };
    if (i < ENDS)
        return truncate(path, ends[i]) == 0;
    i -= ENDS;
    if (i < 2 * BITS) {
        flip(path, bits[i / 2], i % 2 ? 0x80 : 1);
        return true;
    }
    i -= 2 * BITS;
    if (i == 0)
        return truncate(path, size + 1) == 0;
    if (i == 1) { /* flips two sign bits in words that a checksum adds to the same lane */
        flip(path, 4096 + 7, 0x80);
        flip(path, 4096 + 64 + 7, 0x80);
    }
    if (i == 2)
        chmod(path, 0622);
    if (i == 3) {
        unlink(path);
        assert_int_equal(symlink("/dev/zero", path), 0);
    }
    return i < 4;
}

static void damaged_files_are_replaced(void **state)
{
    static float want[VALUES];
    char name[64][NAME_MOST];
    (void)state;
    run(want, NULL);
    const uint64_t own = expect(want);
    const size_t n = files_of_cache(name, 64);
    for (size_t file = 0; file < 2; file++)
        for (int i = 0;; i++) {
            char path[512];
            snprintf(path, sizeof path, "%s", in_cache(name[file]));
            const off_t size = size_of(path);
            if (!damage(path, i))
                break;
            assert_int_equal(expect(want),
                             own); /* the process that finds the damage also maps the new file */
            assert_int_equal(size_of(path), size);
            assert_int_equal(count_files(), n);
        }

    /* Another weight's file under this file's name. */
    char path[512];
    snprintf(path, sizeof path, "%s", in_cache(name[0]));
    for (size_t i = 1; i < n; i++)
        if (size_of(in_cache(name[i])) == size_of(path)) {
            unlink(path);
            assert_int_equal(link(in_cache(name[i]), path), 0);
            expect(want);
        }
    clear_cache();
}

/* ---- another model ---- */

/* Flips the sign of a float. */
static void overwrite(const char *path, off_t from_end)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    flip(path, st.st_size - from_end, 0x80);
    const struct timespec times[] = {st.st_atim, st.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* Replaces the model's file by a copy with the same bytes. */
static void copy_model(void)
{
    char copy[400], command[1200];
    snprintf(copy, sizeof copy, "%s", in_folder("copy"));
    snprintf(command, sizeof command, "cp %s %s", in_folder(WEIGHTS), copy);
    assert_int_equal(system(command), 0);
    assert_int_equal(rename(copy, in_folder(WEIGHTS)), 0);
}

/* A file that is modified in place with the same size and modification time differs only in its
 * status-change time. */
static void changed_models_are_packed_again(void **state)
{
    static float before[VALUES], after[VALUES];
    (void)state;
    for (int settled = 0; settled < 2; settled++) {
        write_checkpoint(wide, CONFIG);
        if (settled)
            wait_until_settled();
        run(before, NULL);
        expect(before);
        const size_t n = count_files();
        overwrite(in_folder(WEIGHTS), 4 * W * W + 1); /* of fc2 */
        if (settled)
            wait_until_settled(); /* otherwise its bytes are hashed */
        run(after, NULL);
        assert_memory_not_equal(after, before, sizeof after);
        expect(after);
        assert_true(count_files() > n);
        clear_cache();
    }

    /* A file that has not changed for YOUNG seconds is identified by its location, a younger one by
     * a hash of its bytes. A fresh copy therefore adds one set of cache files, and another copy
     * adds none. */
    wait_until_settled();
    run(before, NULL);
    expect(before);
    const size_t n = count_files();
    for (int copies = 0; copies < 2; copies++) {
        copy_model();
        expect(before);
        const size_t first = count_files();
        expect(before);
        if (age() >= YOUNG)
            break; /* the machine is too slow for this test */
        assert_int_equal(first, 2 * n);
        assert_int_equal(count_files(), 2 * n);
    }
    clear_cache();
}

/* Models in memory are identified by their bytes, because addresses differ between processes. */
static void models_in_memory_are_known_by_their_bytes(void **state)
{
    static char config[] = CONFIG;
    const off_t size = size_of(in_folder(WEIGHTS));
    char *bytes = malloc((size_t)size + 1);
    FILE *f = fopen(in_folder(WEIGHTS), "rb");
    fovea_model_options o = FOVEA_MODEL_OPTIONS_INIT;
    size_t files = 0;
    (void)state;
    assert_true(bytes && f);
    o.weights_cache = cache;
    for (int i = 0; i < 2; i++) { /* aligned, then unaligned */
        rewind(f);
        assert_int_equal(fread(bytes + i, 1, (size_t)size, f), size);
        fovea_model_file file[] = {{.name = "config.json", .data = config, .size = strlen(config)},
                                   {.name = WEIGHTS, .data = bytes + i, .size = (uint64_t)size}};
        fovea_model_source s = FOVEA_MODEL_SOURCE_INIT;
        fovea_model *m;
        fovea_plan *p;
        fovea_device *d;
        fovea_plan_options plan = FOVEA_PLAN_OPTIONS_INIT;
        s.files = file;
        s.n_files = 2;
        plan.frame.width = plan.frame.height = SIDE * PATCH;
        assert_int_equal(fovea_device_open(&d, "cpu", NULL), FOVEA_OK);
        assert_int_equal(fovea_model_load_from(&m, &s, &o), FOVEA_OK);
        assert_int_equal(fovea_plan_create(&p, m, d, &plan), FOVEA_OK);
        fovea_plan_free(p);
        fovea_model_free(m);
        fovea_device_close(d);
        assert_true(i == 0 || files == count_files());
        files = count_files();
        assert_true(files > 0);
    }
    fclose(f);
    free(bytes);
    clear_cache();
}

/* ---- folders ---- */

static void folders_that_cannot_be_used_cost_nothing(void **state)
{
    static float want[VALUES], got[VALUES];
    char path[512];
    (void)state;
    const uint64_t own = run(want, NULL);
    snprintf(path, sizeof path, "%s/below", in_folder("config.json"));
    assert_int_equal(run(got, path), own); /* no folder can be created here */
    assert_memory_equal(got, want, sizeof got);
    assert_int_equal(run(got, in_folder("config.json")), own);
    assert_memory_equal(got, want, sizeof got);

    /* Others may write to this folder, so the cache does not use it. */
    assert_int_equal(mkdir(cache, 0700), 0);
    assert_int_equal(chmod(cache, 0777), 0);
    assert_int_equal(expect(want), own);
    assert_int_equal(count_files(), 0);
    assert_int_equal(chmod(cache, 0700), 0);

    /* With a full disk no partial file remains. */
    const struct rlimit full = {5000, RLIM_INFINITY}, free_again = {RLIM_INFINITY, RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
    const uint64_t then = expect(want);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &free_again), 0);
    assert_int_equal(then, own);
    assert_int_equal(count_files(), 0);

    /* Other files stay. If the cache exceeds its size, the oldest weights are removed. */
    int fd = open(in_cache("0123456789abcdef.weight"), O_CREAT | O_WRONLY, 0600);
    assert_int_equal(ftruncate(fd, (off_t)5 << 30), 0);
    close(fd);
    fd = open(in_cache("notes"), O_CREAT | O_WRONLY, 0600);
    assert_int_equal(ftruncate(fd, (off_t)5 << 30), 0);
    close(fd);
    expect(want);
    assert_int_equal(access(in_cache("0123456789abcdef.weight"), F_OK), -1);
    assert_int_equal(access(in_cache("notes"), F_OK), 0);
    assert_true(count_files() > 8);
    clear_cache();
}

static void processes_begin_at_once(void **state)
{
    enum { PROCESSES = 6 };
    static float want[VALUES];
    char name[64][NAME_MOST];
    pid_t child[PROCESSES];
    (void)state;
    run(want, NULL);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < PROCESSES; i++) {
            child[i] = fork();
            assert_true(child[i] >= 0);
            if (child[i] == 0) {
                static float got[VALUES];
                const struct choice c = {.cache = cache};
                _exit(try_run(got, &c, NULL) != FOVEA_OK || memcmp(got, want, sizeof got) != 0);
            }
        }
        for (int i = 0; i < PROCESSES; i++) {
            int status;
            assert_int_equal(waitpid(child[i], &status, 0), child[i]);
            assert_int_equal(status, 0);
        }
        const size_t n = files_of_cache(name, 64);
        assert_true(n >= 8 && n <= 12);
        for (size_t i = 0; i < n; i++) /* nothing half-written */
            assert_int_equal(strlen(name[i]), strlen("0123456789abcdef.weight"));
        clear_cache();
    }
}

static void failed_allocations_are_survived(void **state)
{
    static float want[VALUES], got[VALUES];
    const struct choice c = {.cache = cache};
    (void)state;
    run(want, NULL);
    for (int there = 0; there < 2; there++) {
        uint64_t made = UINT64_MAX;
        for (uint64_t n = 1; n <= made; n++) {
            if (!there)
                clear_cache();
            fv_mem_fail_at(n);
            const fovea_status status = try_run(got, &c, NULL);
            made = fv_mem_fail_at(0);
            assert_true(status == FOVEA_OK || status == FOVEA_ENOMEM);
            if (status == FOVEA_OK)
                assert_memory_equal(got, want, sizeof got);
            else
                made = UINT64_MAX; /* it failed before all allocations were made */
            assert_int_equal(fv_mem_tagged(FV_MEM_MODEL) + fv_mem_tagged(FV_MEM_WEIGHTS), 0);
        }
    }
    clear_cache();
}

/* Devices with their own memory also load weights from the cache. */
static void devices_load_what_is_there(void **state)
{
    static float want[VALUES], got[VALUES];
    fovea_device_info info = FOVEA_DEVICE_INFO_INIT;
    (void)state;
    for (size_t i = 1; fovea_device_list(i, &info); i++) {
        struct choice c = {.device = info.id};
        assert_int_equal(try_run(want, &c, NULL), FOVEA_OK);
        c.cache = cache;
        size_t files = 0;
        for (int twice = 0; twice < 2; twice++) {
            memset(got, 0, sizeof got);
            assert_int_equal(try_run(got, &c, NULL), FOVEA_OK);
            assert_memory_equal(got, want, sizeof got);
            assert_true(count_files() > 0 && (!twice || count_files() == files));
            files = count_files();
        }
        clear_cache();
    }
    if (!fovea_device_list(1, &info)) {
        print_message("skipped: no device but the processor\n");
        skip();
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest devices = cmocka_unit_test_setup(devices_load_what_is_there, settle);
    (void)argv;
    if (argc > 1)
        return _cmocka_run_group_tests("devices", &devices, 1, set_up, tear_down);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(later_plans_map_what_is_there, settle),
        cmocka_unit_test_setup(types_have_their_own_files, settle),
        cmocka_unit_test(scales_have_their_own_files),
        cmocka_unit_test_setup(equal_channels_are_kept, settle),
        cmocka_unit_test_setup(damaged_files_are_replaced, settle),
        cmocka_unit_test_setup(changed_models_are_packed_again, settle),
        cmocka_unit_test_setup(models_in_memory_are_known_by_their_bytes, settle),
        cmocka_unit_test_setup(folders_that_cannot_be_used_cost_nothing, settle),
        cmocka_unit_test_setup(processes_begin_at_once, settle),
        cmocka_unit_test_setup(failed_allocations_are_survived, settle),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
