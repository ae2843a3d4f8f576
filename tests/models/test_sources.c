/* test_sources.c: tests models that are loaded from memory, file descriptors or callbacks. Each
 * source gives the same model; data that is short, missing or wrong is refused, and everything that
 * was opened is released exactly once. */
#include <fcntl.h>

#include <fovea/plans.h>

#include "checkpoint/source.h"
#include "tests/models/small_checkpoint.h"

#define FILES 8

/* The files of the test's folder. */
struct files {
    size_t n;
    char name[FILES][64];
    void *data[FILES];
    uint64_t size[FILES];
};

static struct files *read_folder(void)
{
    struct files *f = calloc(1, sizeof *f);
    assert_non_null(f);
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        assert_true(f->n < FILES);
        FILE *file = fopen(in_folder(e->d_name), "rb");
        assert_non_null(file);
        fseek(file, 0, SEEK_END);
        f->size[f->n] = (uint64_t)ftell(file);
        rewind(file);
        f->data[f->n] = malloc((size_t)f->size[f->n] + 1);
        assert_int_equal(fread(f->data[f->n], 1, (size_t)f->size[f->n], file), f->size[f->n]);
        fclose(file);
        snprintf(f->name[f->n++], 64, "%.63s", e->d_name);
    }
    closedir(d);
    return f;
}

static void free_files(struct files *f)
{
    for (size_t i = 0; i < f->n; i++)
        free(f->data[i]);
    free(f);
}

static size_t list(fovea_model_file *out, const struct files *f)
{
    for (size_t i = 0; i < f->n; i++)
        out[i] = (fovea_model_file){.name = f->name[i], .data = f->data[i], .size = f->size[i]};
    return f->n;
}

static fovea_status plan(const fovea_model *m)
{
    fovea_device *device;
    fovea_plan *p = NULL;
    fovea_plan_options o = FOVEA_PLAN_OPTIONS_INIT;
    o.frame.width = o.frame.height = SIDE * PATCH;
    assert_int_equal(fovea_device_open(&device, "cpu", NULL), FOVEA_OK);
    const fovea_status status = fovea_plan_create(&p, m, device, &o);
    fovea_plan_free(p);
    fovea_device_close(device);
    return status;
}

static void refused(const fovea_model_source *s, fovea_status status, const char *says)
{
    fovea_model *m = NULL;
    const fovea_status got = fovea_model_load_from(&m, s, NULL);
    if (got != status || !strstr(fovea_error(), says))
        fail_msg("expected %d \"%s\", got %d \"%s\"", status, says, got, got ? fovea_error() : "");
    assert_null(m);
    assert_int_equal(fv_mem_tagged(FV_MEM_MODEL), 0);
}

static fovea_model *load_from(const fovea_model_source *s)
{
    fovea_model *m = NULL;
    if (fovea_model_load_from(&m, s, NULL) != FOVEA_OK)
        fail_msg("%s", fovea_error());
    return m;
}

/* Checks that the folder's model equals the model from `s`. */
static void same_model(const fovea_model_source *s)
{
    fovea_model *a = load(folder), *b = load_from(s);
    fovea_preprocess p = FOVEA_PREPROCESS_INIT, q = FOVEA_PREPROCESS_INIT;
    same_roles(a, b);
    assert_int_equal(a->info.mapped_bytes, b->info.mapped_bytes);
    fovea_model_preprocess(a, &p);
    fovea_model_preprocess(b, &q);
    assert_memory_equal(&p, &q, sizeof p);
    assert_int_equal(plan(b), FOVEA_OK);
    fovea_model_free(a);
    fovea_model_free(b);
}

#define PROCESSOR                                                                                  \
    "{\"image_processor_type\":\"ViTImageProcessor\",\"size\":{\"height\":9,\"width\":7}}"

static void write_whole(void)
{
    clear_folder();
    write_checkpoint(dinov2, DINOV2_CONFIG(",\"id2label\":{\"0\":\"a\"}"));
    write_text("preprocessor_config.json", PROCESSOR);
}

/* Writes the tensors to two files with an index. */
static void write_shards(void)
{
    static char index[8192];
    write_whole();
    unlink(in_folder("model.safetensors"));
    struct checkpoint *c = checkpoint_of(dinov2);
    const size_t half = c->n / 2;
    assert_int_equal(fovea_tensors_write(in_folder("a.safetensors"), c->tensor, half, NULL, 0), 0);
    assert_int_equal(
        fovea_tensors_write(in_folder("b.safetensors"), c->tensor + half, c->n - half, NULL, 0), 0);
    strcpy(index, "{\"weight_map\":{");
    for (size_t i = 0; i < c->n; i++)
        sprintf(index + strlen(index), "%s\"%s\":\"%c.safetensors\"", i ? "," : "", c->name[i],
                i < half ? 'a' : 'b');
    strcat(index, "}}");
    write_text("model.safetensors.index.json", index);
    free_checkpoint(c);
}

/* ---- memory ---- */

static void memory_is_a_folder(void **state)
{
    (void)state;
    for (int sharded = 0; sharded < 2; sharded++) {
        (sharded ? write_shards : write_whole)();
        struct files *f = read_folder();
        fovea_model_file files[FILES];
        fovea_model_source s = FOVEA_MODEL_SOURCE_INIT;
        s.n_files = list(files, f);
        s.files = files;
        same_model(&s);
        free_files(f);
    }
    assert_int_equal(fv_mem_tagged(FV_MEM_MODEL), 0);
}

static size_t place_of(const struct files *f, const char *name)
{
    size_t i = 0;
    while (strcmp(f->name[i], name) != 0)
        i++;
    return i;
}

static void short_files_are_refused(void **state)
{
    (void)state;
    write_whole();
    struct files *f = read_folder();
    fovea_model_file files[FILES];
    fovea_model_source s = FOVEA_MODEL_SOURCE_INIT;
    const size_t weights = place_of(f, "model.safetensors");
    const size_t config = place_of(f, "config.json");
    s.name = "the asset";
    s.n_files = list(files, f);
    s.files = files;
    for (uint64_t size = 0; size < f->size[weights]; size += size < 64 ? 1 : 997) {
        /* an exact allocation, so that a sanitizer detects reads beyond the end */
        void *cut = malloc((size_t)size + 1);
        memcpy(cut, f->data[weights], (size_t)size);
        files[weights].data = size ? cut : f->data[weights];
        files[weights].size = size;
        refused(&s, FOVEA_EFORMAT, "the asset/model.safetensors");
        free(cut);
    }
    list(files, f);
    files[config].size -= 1;
    refused(&s, FOVEA_EFORMAT, "the asset/config.json");
    files[config].name = "config";
    refused(&s, FOVEA_EIO, "the asset/config.json: no such file");
    list(files, f);
    files[weights].name = "weights.safetensors";
    refused(&s, FOVEA_EIO, "the asset contains neither model.safetensors nor");
    free_files(f);
}

static void lists_that_cannot_be_are_refused(void **state)
{
    fovea_model *m = NULL;
    fovea_model_source s = FOVEA_MODEL_SOURCE_INIT;
    fovea_model_file file = {.name = "config.json", .data = "{}", .size = UINT64_MAX};
    (void)state;
    refused(&s, FOVEA_EINVAL, "no files");
    s.n_files = 1;
    refused(&s, FOVEA_EINVAL, "no files");
    s.files = &file;
    refused(&s, FOVEA_EINVAL, "memory/config.json: a size of 18446744073709551615 bytes");
    file = (fovea_model_file){.name = "config.json", .size = 1, .offset = UINT64_MAX};
    refused(&s, FOVEA_EINVAL, "memory/config.json: a size");
    file = (fovea_model_file){.data = "{}", .size = 2};
    refused(&s, FOVEA_EINVAL, "file 0 has no name");
    s.struct_size = 0;
    refused(&s, FOVEA_EINVAL, "FOVEA_MODEL_SOURCE_INIT");
    assert_int_equal(fovea_model_load_from(&m, NULL, NULL), FOVEA_EINVAL);
    assert_null(m);
}

/* ---- descriptors ---- */

/* Writes all files into one, one after the other, after `lead` bytes. */
static int pack_files(fovea_model_file *out, const struct files *f, size_t lead)
{
    const char *path = in_folder("package");
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    uint64_t at = lead;
    assert_true(fd >= 0);
    for (size_t i = 0; i < f->n; i++) {
        assert_int_equal(pwrite(fd, f->data[i], (size_t)f->size[i], (off_t)at), f->size[i]);
        out[i] = (fovea_model_file){
            .name = f->name[i], .descriptor = fd, .offset = at, .size = f->size[i]};
        at += f->size[i];
    }
    return fd;
}

static void descriptors_are_mapped(void **state)
{
    (void)state;
    write_whole();
    struct files *f = read_folder();
    fovea_model_file files[FILES];
    fovea_model_source s = FOVEA_MODEL_SOURCE_INIT;
    s.name = "package";
    s.files = files;
    s.n_files = f->n;
    for (size_t lead = 0; lead < 9000; lead += 4095) {
        const int fd = pack_files(files, f, lead);
        same_model(&s);
        fovea_model *m = load_from(&s);
        close(fd);
        unlink(in_folder("package"));
        assert_int_equal(plan(m), FOVEA_OK);
        fovea_model_free(m);
    }
    free_files(f);
    assert_int_equal(fv_mem_tagged(FV_MEM_MODEL), 0);
}

static int open_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void lying_descriptors_are_refused(void **state)
{
    (void)state;
    write_whole();
    struct files *f = read_folder();
    fovea_model_file files[FILES];
    fovea_model_source s = FOVEA_MODEL_SOURCE_INIT;
    const int fd = pack_files(files, f, 5), before = open_descriptors();
    const size_t weights = place_of(f, "model.safetensors");
    fovea_model_file *w = &files[weights];
    const fovea_model_file right = *w;
    int pipes[2];
    s.name = "package";
    s.files = files;
    s.n_files = f->n;
    w->size += 1ull << 40;
    refused(&s, FOVEA_EIO, "package/model.safetensors: ");
    w->size = right.size - 1;
    refused(&s, FOVEA_EFORMAT, "package/model.safetensors");
    *w = right;
    w->offset = 1ull << 50;
    refused(&s, FOVEA_EIO, "package/model.safetensors");
    *w = right;
    w->descriptor = -1;
    refused(&s, FOVEA_EIO, "descriptor -1");
    assert_int_equal(pipe(pipes), 0);
    w->descriptor = pipes[0];
    refused(&s, FOVEA_EIO, "not a regular file");
    close(pipes[0]);
    close(pipes[1]);

    /* An open file without a name is modified after it was loaded. */
    *w = right;
    fovea_model *m = load_from(&s);
    unlink(in_folder("package"));
    assert_int_equal(plan(m), FOVEA_OK);
    assert_int_equal(pwrite(fd, "x", 1, 0), 1);
    assert_int_equal(ftruncate(fd, (off_t)(right.offset + right.size + 100000)), 0);
    assert_int_equal(plan(m), FOVEA_EIO);
    assert_non_null(strstr(fovea_error(), "was written to"));
    fovea_model_free(m);
    assert_int_equal(open_descriptors(), before);
    close(fd);
    free_files(f);
}

/* ---- callbacks ---- */

/* Files whose contents exist only while they are open. */
struct vault {
    const struct files *files;
    int fail_at, opens; /* number of the call that fails; calls so far */
    int failure;
    size_t held;
};

static int open_vault(void *user, const char *name, const void **data, uint64_t *size)
{
    struct vault *v = user;
    if (++v->opens == v->fail_at)
        return v->failure;
    for (size_t i = 0; i < v->files->n; i++)
        if (strcmp(v->files->name[i], name) == 0) {
            void *copy = malloc((size_t)v->files->size[i]);
            memcpy(copy, v->files->data[i], (size_t)v->files->size[i]);
            *data = copy;
            *size = v->files->size[i];
            v->held++;
        }
    return 0;
}

static void release_vault(void *user, const void *data, uint64_t size)
{
    struct vault *v = user;
    bool known = false;
    for (size_t i = 0; i < v->files->n; i++)
        known |= v->files->size[i] == size && memcmp(v->files->data[i], data, (size_t)size) == 0;
    assert_true(known && v->held > 0);
    v->held--;
    free((void *)(uintptr_t)data);
}

static void callbacks_open_and_release(void **state)
{
    (void)state;
    for (int sharded = 0; sharded < 2; sharded++) {
        (sharded ? write_shards : write_whole)();
        struct files *f = read_folder();
        struct vault v = {.files = f};
        fovea_model_source s = FOVEA_MODEL_SOURCE_INIT;
        s.open = open_vault;
        s.release = release_vault;
        s.user = &v;
        same_model(&s);
        assert_int_equal(v.held, 0);

        /* The model holds the weights, and so does a plan made from it. */
        fovea_device *device;
        fovea_plan *p;
        fovea_plan_options o = FOVEA_PLAN_OPTIONS_INIT;
        o.frame.width = o.frame.height = SIDE * PATCH;
        fovea_model *m = load_from(&s);
        assert_int_equal(v.held, sharded ? 2 : 1);
        assert_int_equal(fovea_device_open(&device, "cpu", NULL), FOVEA_OK);
        assert_int_equal(fovea_plan_create(&p, m, device, &o), FOVEA_OK);
        fovea_device_close(device);
        fovea_model_free(m);
        assert_int_equal(v.held, sharded ? 2 : 1);
        fovea_plan_free(p);
        assert_int_equal(v.held, 0);

        v.opens = 0;
        fovea_model_free(load_from(&s));
        const int opens = v.opens;
        for (v.fail_at = 1; v.fail_at <= opens; v.fail_at++) {
            v.opens = 0;
            v.failure = -1 - v.fail_at;
            refused(&s, FOVEA_EIO, "the caller's `open` failed with -");
            assert_int_equal(v.held, 0);
        }
        v.fail_at = 0;
        for (uint64_t n = 1, done = 0; !done; n++) {
            fovea_model *none = NULL;
            fv_mem_fail_at(n);
            const fovea_status status = fovea_model_load_from(&none, &s, NULL);
            fv_mem_fail_at(0);
            done = status == FOVEA_OK;
            assert_true(done || status == FOVEA_ENOMEM);
            fovea_model_free(none);
            assert_int_equal(v.held, 0);
            assert_int_equal(fv_mem_tagged(FV_MEM_MODEL), 0);
        }
        free_files(f);
    }
}

/* The callback is not called for files in the list. */
static void a_list_comes_before_its_callback(void **state)
{
    (void)state;
    write_whole();
    struct files *f = read_folder();
    struct vault v = {.files = f};
    fovea_model_file config = {.name = "config.json", .data = "[]", .size = 2};
    fovea_model_source s = FOVEA_MODEL_SOURCE_INIT;
    s.files = &config;
    s.n_files = 1;
    s.open = open_vault;
    s.release = release_vault;
    s.user = &v;
    refused(&s, FOVEA_EFORMAT, "memory/config.json must contain a JSON object");
    assert_int_equal(v.held, 0);
    free_files(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_a_folder),
        cmocka_unit_test(short_files_are_refused),
        cmocka_unit_test(lists_that_cannot_be_are_refused),
        cmocka_unit_test(descriptors_are_mapped),
        cmocka_unit_test(lying_descriptors_are_refused),
        cmocka_unit_test(callbacks_open_and_release),
        cmocka_unit_test(a_list_comes_before_its_callback),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
