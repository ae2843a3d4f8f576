/* test_gpu_cache.c: tests compiled kernels on disk and in memory: they are found again, and ignored
 * if anything is wrong with them. The second half needs an OpenCL device.
 */
#define _DEFAULT_SOURCE
#include <fcntl.h>
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
#include <utime.h>

#include <cmocka.h>

#include <fovea/operations.h>

#include "base/mem.h"
#include "gpu/gpu_note.h"
#include "platform/os/os.h"
#include "tests/temp_folder.h"

/* ---- entries ---- */

enum { BINARY = 300 };
static unsigned char binary[BINARY];

static fv_gpu_key key_of(const char *a, const char *b)
{
    fv_gpu_key k;
    const char *const part[] = {a, b};
    assert_int_equal(fv_gpu_key_make(&k, part, 2), FOVEA_OK);
    return k;
}

static fv_gpu_cache *open_cache(const char *path)
{
    fv_gpu_cache *c;
    assert_int_equal(fv_gpu_cache_open(&c, path), FOVEA_OK);
    return c;
}

static bool finds(const char *path, const fv_gpu_key *k, const void *want, size_t size)
{
    fv_gpu_cache *c = open_cache(path);
    fv_gpu_binary b;
    const bool found = fv_gpu_cache_find(c, k, "test", &b);
    if (found) {
        assert_int_equal(b.size, size);
        assert_memory_equal(b.data, want, size);
        fv_gpu_binary_free(&b);
    }
    fv_gpu_cache_close(c);
    return found;
}

static void store(const char *path, const fv_gpu_key *k, const void *data, size_t size)
{
    fv_gpu_cache *c = open_cache(path);
    fv_gpu_cache_store(c, k, "test", data, size);
    fv_gpu_cache_close(c);
}

/* Returns the only file of the folder. */
static const char *only_entry(void)
{
    static char path[384];
    unsigned n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
            n++;
        }
    closedir(d);
    assert_int_equal(n, 1);
    return path;
}

static size_t load(const char *path, unsigned char *out, size_t capacity)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t n = fread(out, 1, capacity, f);
    fclose(f);
    return n;
}

static void save(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    fclose(f);
}

static int set_up(void **state)
{
    for (int i = 0; i < BINARY; i++)
        binary[i] = (unsigned char)(i * 7);
    return make_folder(state);
}

static void found_again(void **state)
{
    (void)state;
    fv_gpu_key k = key_of("source", "options"), other = key_of("sourc", "eoptions");
    assert_false(finds(folder, &k, binary, BINARY));
    store(folder, &k, binary, BINARY);
    assert_true(finds(folder, &k, binary, BINARY));
    assert_false(finds(folder, &other, binary, BINARY));
    struct stat st;
    assert_int_equal(stat(only_entry(), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    store(folder, &k, binary, BINARY / 2); /* replaced */
    assert_true(finds(folder, &k, binary, BINARY / 2));
    fv_gpu_key_free(&k);
    fv_gpu_key_free(&other);
    clear_folder();
}

static void every_damage_is_seen(void **state)
{
    (void)state;
    static unsigned char good[1024], bad[1024];
    fv_gpu_key k = key_of("source", "options");
    store(folder, &k, binary, BINARY);
    const char *path = only_entry();
    const size_t n = load(path, good, sizeof good);
    for (size_t i = 0; i < n; i++) {
        memcpy(bad, good, n);
        bad[i] ^= (unsigned char)(1u << (i % 8));
        save(path, bad, n);
        assert_false(finds(folder, &k, binary, BINARY));
        save(path, good, i); /* truncated */
        assert_false(finds(folder, &k, binary, BINARY));
    }
    memcpy(bad, good, n);
    bad[n] = 0; /* longer than the stated size */
    save(path, bad, n + 1);
    assert_false(finds(folder, &k, binary, BINARY));
    save(path, good, n);
    assert_true(finds(folder, &k, binary, BINARY));
    fv_gpu_key_free(&k);
    clear_folder();
}

/* A valid entry under the name of another entry, as if both names had the same hash. */
static void anothers_entry(void **state)
{
    (void)state;
    char path[384];
    fv_gpu_key k = key_of("source", "options"), other = key_of("another source", "options");
    store(folder, &k, binary, BINARY);
    strcpy(path, only_entry());
    assert_int_equal(unlink(path), 0);
    store(folder, &other, binary, BINARY);
    assert_int_equal(rename(only_entry(), path), 0);
    assert_false(finds(folder, &k, binary, BINARY));
    store(folder, &k, binary, BINARY);
    assert_true(finds(folder, &k, binary, BINARY));
    fv_gpu_key_free(&k);
    fv_gpu_key_free(&other);
    clear_folder();
}

static void files_that_others_could_write(void **state)
{
    (void)state;
    char path[384], target[400];
    fv_gpu_key k = key_of("source", "options");
    store(folder, &k, binary, BINARY);
    strcpy(path, only_entry());
    assert_int_equal(chmod(path, 0620), 0);
    assert_false(finds(folder, &k, binary, BINARY));
    assert_int_equal(chmod(path, 0602), 0);
    assert_false(finds(folder, &k, binary, BINARY));
    assert_int_equal(chmod(path, 0600), 0);
    assert_true(finds(folder, &k, binary, BINARY));
    snprintf(target, sizeof target, "%s.elsewhere", path);
    assert_int_equal(rename(path, target), 0);
    assert_int_equal(symlink(target, path), 0);
    assert_false(finds(folder, &k, binary, BINARY));
    store(folder, &k, binary, BINARY); /* replaces the link, not its target */
    assert_true(finds(folder, &k, binary, BINARY));
    assert_int_equal(unlink(target), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0); /* nobody ever writes to the FIFO */
    assert_false(finds(folder, &k, binary, BINARY));
    fv_gpu_key_free(&k);
    clear_folder();
}

static unsigned messages;
static char last_message[512];

static void note(const char *line, void *payload)
{
    (void)payload;
    if (strncmp(line, "cache:", 6))
        return;
    messages++;
    snprintf(last_message, sizeof last_message, "%s", line);
}

static void folders_that_cannot_be_used(void **state)
{
    (void)state;
    fv_gpu_key k = key_of("source", "options");
    char shared[384], below[400];
    strcpy(shared, in_folder("shared"));
    assert_int_equal(mkdir(shared, 0700), 0);
    assert_int_equal(chmod(shared, 0770), 0);
    snprintf(below, sizeof below, "%s/file/below", shared);
    fovea_log_set(note, NULL);
    messages = 0;
    store(shared, &k, binary, BINARY);
    assert_int_equal(messages, 1);
    assert_non_null(strstr(last_message, shared));
    assert_false(finds(shared, &k, binary, BINARY));
    assert_int_equal(rmdir(shared), 0); /* nothing was written */
    save(shared, "x", 1);
    messages = 0;
    store(below, &k, binary, BINARY); /* the path goes through a file */
    assert_int_equal(messages, 1);
    fovea_log_set(NULL, NULL);
    assert_int_equal(unlink(shared), 0);
    snprintf(below, sizeof below, "%s/a/b", shared); /* created together with its parents */
    store(below, &k, binary, BINARY);
    assert_true(finds(below, &k, binary, BINARY));
    struct stat st;
    assert_int_equal(stat(below, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    char command[512];
    snprintf(command, sizeof command, "rm -r %s", shared);
    assert_int_equal(system(command), 0);
    fv_gpu_key_free(&k);
}

/* If a write is interrupted, the old entry stays under its name and the partial one has a temporary
 * name. The oldest entries are removed first. */
static bool any_name(const char *name)
{
    return strstr(name, ".bin") != NULL;
}

static void the_oldest_go(void **state)
{
    (void)state;
    static const char *const names[] = {"a.bin", "b.bin", "c.bin.1.0.tmp", "keep"};
    for (int i = 0; i < 4; i++) {
        const struct utimbuf then = {1000 + i, 1000 + i};
        save(in_folder(names[i]), binary, 100);
        assert_int_equal(utime(in_folder(names[i]), &then), 0);
    }
    fv_os_trim_folder(folder, 300, any_name);
    assert_int_equal(access(in_folder("a.bin"), F_OK), 0);
    fv_os_trim_folder(folder, 200, any_name);
    assert_int_equal(access(in_folder("a.bin"), F_OK), -1);
    assert_int_equal(access(in_folder("b.bin"), F_OK), 0);
    fv_os_trim_folder(folder, 0, any_name);
    assert_int_equal(access(in_folder("c.bin.1.0.tmp"), F_OK), -1);
    assert_int_equal(access(in_folder("keep"), F_OK), 0);
    clear_folder();
}

static void many_writers(void **state)
{
    (void)state;
    enum { WRITERS = 4, TIMES = 50 };
    fv_gpu_key k = key_of("source", "options");
    pid_t child[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        child[i] = fork();
        if (child[i])
            continue;
        for (int n = 0; n < TIMES; n++)
            store(folder, &k, binary, BINARY);
        _exit(0);
    }
    for (int n = 0; n < TIMES; n++)
        finds(folder, &k, binary, BINARY); /* complete whenever it exists */
    for (int i = 0; i < WRITERS; i++) {
        int status = -1;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_int_equal(status, 0);
    }
    assert_true(finds(folder, &k, binary, BINARY));
    only_entry(); /* no temporary file remains */
    fv_gpu_key_free(&k);
    clear_folder();
}

/* Detects every changed bit, and every truncation that is not between entries. */
static void packed_entries_are_checked(void **state)
{
    (void)state;
    fv_gpu_key k[2] = {key_of("one", ""), key_of("two", "")};
    unsigned char blob[2048], bad[2048];
    size_t n = 0;
    for (int i = 0; i < 2; i++) {
        fv_gpu_entry_write(blob + n, &k[i], binary + i, BINARY / 2);
        n += (size_t)fv_gpu_entry_size(&k[i], BINARY / 2);
    }
    for (size_t i = 0; i < n; i++) {
        memcpy(bad, blob, n);
        bad[i] ^= 0x10;
        const fovea_status status = fv_gpu_entries_check(bad, n);
        if (i != 7) /* another format version, which is ignored */
            assert_int_equal(status, FOVEA_EFORMAT);
        if (i && i != (size_t)fv_gpu_entry_size(&k[0], BINARY / 2))
            assert_int_equal(fv_gpu_entries_check(blob, i), FOVEA_EFORMAT);
    }
    assert_int_equal(fv_gpu_entries_check(NULL, 0), FOVEA_OK);
    assert_int_equal(fv_gpu_entries_check(blob, n), FOVEA_OK);
    fv_gpu_key_free(&k[0]);
    fv_gpu_key_free(&k[1]);
}

/* ---- notes ---- */

static fovea_status begin_note(fv_gpu_note **out, const fv_gpu_key *k, double limit)
{
    fv_gpu_cache *c = open_cache(folder);
    const fovea_status status = fv_gpu_note_begin(out, c, k, "gemm", limit);
    fv_gpu_cache_close(c);
    return status;
}

static bool may_compile(const fv_gpu_key *k, double limit)
{
    fv_gpu_note *n;
    const fovea_status status = begin_note(&n, k, limit);
    if (status != FOVEA_OK)
        assert_int_equal(status, FOVEA_ETIMEOUT);
    else
        fv_gpu_note_end(n);
    return status == FOVEA_OK;
}

/* A process begins to compile, and ends. */
static void leave_note(const fv_gpu_key *k)
{
    int status;
    const pid_t child = fork();
    if (child == 0) {
        fv_gpu_note *n;
        _exit(begin_note(&n, k, 10) == FOVEA_OK && n ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void a_note_is_locked_and_removed(void **state)
{
    (void)state;
    fv_gpu_note *n, *second;
    struct stat st;
    fv_gpu_key k = key_of("identity", "gemm.cl"), other = key_of("another identity", "gemm.cl");
    assert_int_equal(begin_note(&n, &k, 10), FOVEA_OK);
    assert_non_null(n);
    assert_int_equal(stat(only_entry(), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(begin_note(&second, &k, 10), FOVEA_OK); /* of another thread */
    assert_null(second);
    assert_true(may_compile(&other, 10));
    fv_gpu_note_end(n);
    assert_true(may_compile(&k, 10));
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(mkdir(folder, 0700), 0);
    fv_gpu_key_free(&k);
    fv_gpu_key_free(&other);
}

static void a_limit_of_time_is_noted(void **state)
{
    (void)state;
    fv_gpu_note *n;
    fv_gpu_key k = key_of("identity", "gemm.cl");
    assert_int_equal(begin_note(&n, &k, 10), FOVEA_OK);
    fv_gpu_note_give_up(n, 10);
    assert_false(may_compile(&k, 10));
    assert_non_null(strstr(fovea_error(), "gemm is not compiled"));
    assert_non_null(strstr(fovea_error(), "within 10 s"));
    fv_gpu_note_end(n); /* the compiler has returned after all */
    assert_true(may_compile(&k, 10));
    assert_int_equal(begin_note(&n, &k, 10), FOVEA_OK);
    fv_gpu_note_give_up(n, 10);
    assert_false(may_compile(&k, 10));
    assert_true(may_compile(&k, 10.5));
    fv_gpu_note_end(n);
    fv_gpu_key_free(&k);
    clear_folder();
}

static void a_note_is_left_by_a_process_that_ended(void **state)
{
    (void)state;
    unsigned char good[1024];
    char path[384];
    fv_gpu_key k = key_of("identity", "gemm.cl");
    leave_note(&k);
    assert_false(may_compile(&k, 10));
    assert_false(may_compile(&k, 100));
    strcpy(path, only_entry());
    const size_t n = load(path, good, sizeof good);
    for (size_t i = 0; i < n; i++) { /* the process ended before it compiled anything */
        save(path, good, i);
        assert_int_equal(chmod(path, 0600), 0);
        assert_true(may_compile(&k, 10));
    }
    save(path, good, n);
    assert_int_equal(chmod(path, 0620), 0); /* others could have written it */
    assert_true(may_compile(&k, 10));
    assert_int_equal(chmod(path, 0600), 0);
    assert_false(may_compile(&k, 10));
    fv_gpu_key_free(&k);
    clear_folder();
}

/* In a folder that cannot be written to, existing notes are heeded, and none is written. Root
 * may write anywhere, so this is tested as another user. */
static void check_read_only(const fv_gpu_key *k, const fv_gpu_key *left)
{
    fv_gpu_note *n;
    if ((geteuid() == 0 && setuid(65534) != 0) ||
        !mkdtemp(strcpy(folder, "/tmp/fovea_test_XXXXXX")))
        _exit(77);
    leave_note(left);
    char path[384];
    strcpy(path, only_entry());
    bool right = chmod(folder, 0500) == 0 && begin_note(&n, k, 10) == FOVEA_OK && !n;
    right = right && begin_note(&n, left, 10) == FOVEA_ETIMEOUT;
    const bool removed = chmod(folder, 0700) == 0 && unlink(path) == 0 && rmdir(folder) == 0;
    _exit(right && removed ? 0 : 1);
}

static void a_read_only_folder_is_no_failure(void **state)
{
    (void)state;
    int status;
    fv_gpu_key k = key_of("identity", "gemm.cl"), left = key_of("identity", "softmax.cl");
    const pid_t child = fork();
    if (child == 0)
        check_read_only(&k, &left);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77);
    fv_gpu_key_free(&k);
    fv_gpu_key_free(&left);
}

/* ---- a device ---- */

static struct {
    unsigned hits, built, refused;
} seen;

static void count(const char *line, void *payload)
{
    (void)payload;
    seen.hits += !strncmp(line, "cache: hit ", 11);
    seen.built += !strncmp(line, "cache: built ", 13);
    seen.refused += !strncmp(line, "cache: refused ", 15);
}

enum { N = 7 };

static fovea_device *open_device(const char *path)
{
    fovea_device *device = NULL;
    fovea_device_options options = FOVEA_DEVICE_OPTIONS_INIT;
    options.cache = path;
    memset(&seen, 0, sizeof seen);
    if (fovea_device_open(&device, "cl:0", &options) != FOVEA_OK)
        fail_msg("%s", fovea_error());
    return device;
}

/* Plans and runs one attention. The result must be correct whatever the cache contains. */
static void attend(fovea_device *device)
{
    static float first[N * 8];
    static bool have_first;
    float q[N * 8], out[N * 8];
    fovea_attention_options o = FOVEA_ATTENTION_OPTIONS_INIT;
    o.attention = "linear:elu1";
    o.rows = N;
    o.heads = 1;
    o.head_dim = o.value_dim = 8;
    fovea_plan *plan;
    if (fovea_attention_plan_create(&plan, device, &o) != FOVEA_OK)
        fail_msg("%s", fovea_error());
    for (int i = 0; i < N * 8; i++)
        q[i] = (float)(i % 11) * 0.1f - 0.5f;
    const fovea_matrix m[3] = {{.data = q}, {.data = q}, {.data = q}};
    if (fovea_op_run(plan, m, 3, (fovea_matrix){.data = out}) != FOVEA_OK)
        fail_msg("%s", fovea_error());
    fovea_plan_free(plan);
    if (!have_first)
        memcpy(first, out, sizeof first);
    have_first = true;
    assert_memory_equal(out, first, sizeof first);
}

static void start(const char *path)
{
    fovea_device *device = open_device(path);
    attend(device);
    fovea_device_close(device);
}

static void second_start_compiles_nothing(void **state)
{
    (void)state;
    start(folder);
    const unsigned programs = seen.built;
    assert_true(programs > 0);
    assert_int_equal(seen.hits, 0);
    start(folder);
    assert_int_equal(seen.built, 0);
    assert_int_equal(seen.refused, 0);
    /* Programs that measure the device are not needed again: their results are stored. */
    assert_in_range(seen.hits, 1, programs);
    start("");
    assert_int_equal(seen.built, programs);
}

/* Damages every entry in one way; requires the entries of the previous test. */
static void damage_all(void (*how)(const char *path))
{
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.')
            how(in_folder(e->d_name));
    closedir(d);
}

static void cut(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size * 2 / 3), 0);
}

static void flip(const char *path)
{
    struct stat st;
    char byte;
    const int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    assert_int_equal(pread(fd, &byte, 1, st.st_size / 2), 1);
    byte ^= 4;
    assert_int_equal(pwrite(fd, &byte, 1, st.st_size / 2), 1);
    close(fd);
}

/* A valid entry whose content no driver could load. */
static void fill_with_nonsense(const char *path)
{
    static unsigned char data[4 << 20];
    const size_t n = load(path, data, sizeof data);
    uint64_t sizes[2];
    memcpy(sizes, data + 8, sizeof sizes);
    assert_true(n > 32 + sizes[0]);
    fv_gpu_key k;
    void *text;
    assert_int_equal(fv_mem_alloc(&text, sizes[0], FV_MEM_DEVICE, "a key"), FOVEA_OK);
    memcpy(text, data + 32, (size_t)sizes[0]);
    k = (fv_gpu_key){text, sizes[0]};
    fv_gpu_entry_write(data, &k, binary, BINARY);
    save(path, data, (size_t)fv_gpu_entry_size(&k, BINARY));
    fv_gpu_key_free(&k);
}

static void damaged_entries_are_compiled_again(void **state)
{
    (void)state;
    void (*const how[])(const char *) = {cut, flip, fill_with_nonsense};
    for (int i = 0; i < 3; i++) {
        damage_all(how[i]);
        start(folder);
        assert_int_equal(seen.hits, 0);
        assert_true(seen.built > 0);
        assert_true(seen.refused >= seen.built); /* what was measured is refused as well */
        start(folder);
        assert_int_equal(seen.built, 0);
        assert_true(seen.hits > 0);
    }
}

static void unusable_folder_is_no_failure(void **state)
{
    (void)state;
    start("/proc/version/nowhere");
    assert_true(seen.built > 0);
}

static void packed_kernels_need_no_compiler(void **state)
{
    (void)state;
    size_t size, again, removed;
    clear_folder();
    start(folder);
    const unsigned programs = seen.built;
    assert_true(programs > 0);
    assert_int_equal(fovea_cache_pack(folder, NULL, 0, &size), FOVEA_OK);
    unsigned char *blob = malloc(size);
    assert_non_null(blob);
    assert_int_equal(fovea_cache_pack(folder, blob, size, &again), FOVEA_OK);
    assert_int_equal(fovea_cache_clear(folder, &removed), FOVEA_OK);
    assert_int_equal(fovea_cache_unpack(folder, blob, size, &again), FOVEA_OK);
    free(blob);
    start(folder);
    assert_int_equal(seen.built, 0);
    assert_in_range(seen.hits, 1, programs);
    clear_folder();
}

/* ---- the folder as a whole ---- */

typedef struct listed {
    uint32_t sound, unsound;
    char device[64], program[64];
} listed;

static int note_entry(const fovea_cache_entry *e, void *payload)
{
    listed *l = payload;
    *(*e->problem ? &l->unsound : &l->sound) += 1;
    if (!*e->problem) {
        snprintf(l->device, sizeof l->device, "%s", e->device);
        snprintf(l->program, sizeof l->program, "%s", e->program);
    }
    return 0;
}

static listed list(const char *path)
{
    listed l = {0};
    assert_int_equal(fovea_cache_list(path, note_entry, &l), FOVEA_OK);
    return l;
}

static void listed_packed_and_cleared(void **state)
{
    (void)state;
    size_t size, again, removed;
    fv_gpu_key k = key_of("one\ntwo\nthree\nMali\nfive", "gemm.cl");
    store(folder, &k, binary, BINARY);
    save(in_folder("0123456789abcdef.bin"), "damaged", 7);
    save(in_folder("notes.txt"), "not ours", 8);
    assert_int_equal(chmod(in_folder("0123456789abcdef.bin"), 0600), 0);
    const listed l = list(folder);
    assert_int_equal(l.sound, 1);
    assert_int_equal(l.unsound, 1);
    assert_string_equal(l.device, "Mali");
    assert_string_equal(l.program, "gemm.cl");

    assert_int_equal(fovea_cache_pack(folder, NULL, 0, &size), FOVEA_OK);
    unsigned char *blob = malloc(size);
    assert_non_null(blob);
    assert_int_equal(fovea_cache_pack(folder, blob, size - 1, &again), FOVEA_EINVAL);
    assert_int_equal(fovea_cache_pack(folder, blob, size, &again), FOVEA_OK);
    assert_int_equal(again, size);
    assert_int_equal(fovea_cache_clear(folder, &removed), FOVEA_OK);
    assert_int_equal(removed, 2);
    assert_int_equal(fv_os_look(in_folder("notes.txt")), FV_OS_FILE);
    assert_int_equal(list(folder).sound + list(folder).unsound, 0);

    blob[size / 2] ^= 1;
    assert_int_equal(fovea_cache_unpack(folder, blob, size, &again), FOVEA_EFORMAT);
    assert_int_equal(list(folder).sound, 0);
    blob[size / 2] ^= 1;
    assert_int_equal(fovea_cache_unpack(folder, blob, size, &again), FOVEA_OK);
    assert_int_equal(again, 1);
    assert_true(finds(folder, &k, binary, BINARY));
    free(blob);
    fv_gpu_key_free(&k);
    clear_folder();
}

/* An entry whose key is not terminated is refused; reading it would go beyond the file. */
static void a_key_without_an_end_is_refused(void **state)
{
    (void)state;
    size_t added;
    fv_gpu_key k = key_of("one\ntwo\nthree\nMali\nfive", "gemm.cl");
    const size_t size = (size_t)fv_gpu_entry_size(&k, BINARY);
    unsigned char *blob = malloc(size);
    assert_non_null(blob);
    k.text[k.size - 1] = 'x';
    fv_gpu_entry_write(blob, &k, binary, BINARY);
    assert_int_equal(fovea_cache_unpack(folder, blob, size, &added), FOVEA_EFORMAT);
    k.size = 0;
    fv_gpu_entry_write(blob, &k, binary, BINARY);
    assert_int_equal(
        fovea_cache_unpack(folder, blob, (size_t)fv_gpu_entry_size(&k, BINARY), &added),
        FOVEA_EFORMAT);
    assert_int_equal(added, 0);
    free(blob);
    fv_gpu_key_free(&k);
    clear_folder();
}

/* Kernels that could not be stored are not counted, and the caller gets an error. */
static void kernels_that_cannot_be_kept(void **state)
{
    (void)state;
    size_t added = 7;
    fv_gpu_key k = key_of("source", "options");
    const size_t size = (size_t)fv_gpu_entry_size(&k, BINARY);
    unsigned char *blob = malloc(size);
    assert_non_null(blob);
    fv_gpu_entry_write(blob, &k, binary, BINARY);
    assert_int_equal(fovea_cache_unpack("", blob, size, &added), FOVEA_OK);
    assert_int_equal(added, 0);
    save(in_folder("file"), "not a folder", 12);
    assert_int_equal(fovea_cache_unpack(in_folder("file"), blob, size, &added), FOVEA_EIO);
    assert_non_null(strstr(fovea_error(), "file"));
    assert_int_equal(chmod(folder, 0777), 0);
    assert_int_equal(fovea_cache_unpack(folder, blob, size, &added), FOVEA_EIO);
    assert_int_equal(added, 0);
    assert_int_equal(chmod(folder, 0700), 0);
    free(blob);
    fv_gpu_key_free(&k);
    clear_folder();
}

static void a_folder_that_others_may_change_is_not_touched(void **state)
{
    (void)state;
    size_t n;
    listed l = {0};
    fv_gpu_key k = key_of("source", "options");
    assert_int_equal(list(in_folder("missing")).sound, 0);
    assert_int_equal(fv_os_look(in_folder("missing")), FV_OS_NOTHING);
    store(folder, &k, binary, BINARY);
    assert_int_equal(chmod(folder, 0777), 0);
    assert_int_equal(fovea_cache_list(folder, note_entry, &l), FOVEA_EIO);
    assert_int_equal(fovea_cache_clear(folder, &n), FOVEA_EIO);
    assert_int_equal(fovea_cache_pack(folder, NULL, 0, &n), FOVEA_EIO);
    assert_int_equal(chmod(folder, 0700), 0);
    assert_int_equal(list(folder).sound, 1);
    fv_gpu_key_free(&k);
    clear_folder();
}

static int has_device(void)
{
    fovea_device_info info = FOVEA_DEVICE_INFO_INIT;
    for (size_t i = 0; fovea_device_list(i, &info); i++)
        if (!strcmp(info.id, "cl:0"))
            return 1;
    return 0;
}

int main(void)
{
    const struct CMUnitTest entries[] = {
        cmocka_unit_test(found_again),
        cmocka_unit_test(every_damage_is_seen),
        cmocka_unit_test(anothers_entry),
        cmocka_unit_test(files_that_others_could_write),
        cmocka_unit_test(folders_that_cannot_be_used),
        cmocka_unit_test(the_oldest_go),
        cmocka_unit_test(many_writers),
        cmocka_unit_test(packed_entries_are_checked),
        cmocka_unit_test(a_note_is_locked_and_removed),
        cmocka_unit_test(a_limit_of_time_is_noted),
        cmocka_unit_test(a_note_is_left_by_a_process_that_ended),
        cmocka_unit_test(a_read_only_folder_is_no_failure),
        cmocka_unit_test(listed_packed_and_cleared),
        cmocka_unit_test(a_key_without_an_end_is_refused),
        cmocka_unit_test(kernels_that_cannot_be_kept),
        cmocka_unit_test(a_folder_that_others_may_change_is_not_touched),
    };
    const struct CMUnitTest devices[] = {
        cmocka_unit_test(second_start_compiles_nothing),
        cmocka_unit_test(damaged_entries_are_compiled_again),
        cmocka_unit_test(unusable_folder_is_no_failure),
        cmocka_unit_test(packed_kernels_need_no_compiler),
    };
    const int failed = cmocka_run_group_tests(entries, set_up, remove_folder);
    if (failed || !has_device()) {
        if (!failed)
            printf("no OpenCL device: the cache of one is not tested\n");
        return failed;
    }
    fovea_log_set(count, NULL);
    return cmocka_run_group_tests(devices, make_folder, remove_folder);
}
