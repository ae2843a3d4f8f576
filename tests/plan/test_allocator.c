/* test_allocator.c: tests that a caller's allocator gets all memory back with the size and
 * alignment that were requested, that each of its calls may fail, and that it can be replaced at
 * any time. */
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <fovea/plans.h>

#include "base/mem.h"
#include "tests/fixture.h"

#define BLOCKS 65536

struct counting {
    uint64_t calls, fail_at; /* number of the call that fails; 0: none */
    size_t live, bytes;
    struct {
        void *data;
        size_t size, align;
    } block[BLOCKS];
    bool crooked; /* returns misaligned addresses */
};

static struct counting *fresh(void)
{
    static struct counting c;
    memset(&c, 0, sizeof c);
    return &c;
}

static void *count_alloc(void *user, size_t size, size_t align)
{
    struct counting *c = user;
    assert_true(align >= 64 && (align & (align - 1)) == 0 && size % align == 0);
    if (++c->calls == c->fail_at)
        return NULL;
    char *data = aligned_alloc(align, size + align);
    assert_true(data && c->live < BLOCKS);
    data += c->crooked ? 16 : 0;
    memset(data, 0xa5, size);
    c->block[c->live].data = data;
    c->block[c->live].size = size;
    c->block[c->live++].align = align;
    c->bytes += size;
    return data;
}

static void count_free(void *user, void *data, size_t size, size_t align)
{
    struct counting *c = user;
    size_t i = c->live;
    while (i > 0 && c->block[i - 1].data != data)
        i--;
    assert_true(i > 0); /* the block is from this allocator and is not freed yet */
    assert_true(c->block[i - 1].size == size && c->block[i - 1].align == align);
    c->block[i - 1] = c->block[--c->live];
    c->bytes -= size;
    free((char *)data - (c->crooked ? 16 : 0));
}

static void use(struct counting *c)
{
    fovea_allocator a = FOVEA_ALLOCATOR_INIT;
    a.alloc = count_alloc;
    a.free = count_free;
    a.user = c;
    assert_int_equal(fovea_allocator_set(c ? &a : NULL), FOVEA_OK);
}

/* Loads, plans and runs the model; sets *sum to a checksum of the output's bits. Uses one thread,
 * so that no other thread allocates. */
static fovea_status frame(uint32_t *sum)
{
    fovea_device *device = NULL;
    fovea_model *model = NULL;
    fovea_plan *plan = NULL;
    fovea_device_options d = FOVEA_DEVICE_OPTIONS_INIT;
    const fovea_plan_options o = fixture_options("linear:elu1", FOVEA_SCHEDULE_AUTO);
    d.threads = 1;
    fovea_status status = fovea_device_open(&device, "cpu", &d);
    FV_THEN(status, fovea_model_load(&model, fixture_model));
    FV_THEN(status, fovea_plan_create(&plan, model, device, &o));
    if (status == FOVEA_OK) {
        size_t values;
        float *out = fixture_run(plan, &values);
        for (size_t i = 0; i < values; i++) {
            uint32_t bits;
            memcpy(&bits, &out[i], sizeof bits);
            *sum = *sum * 31 + bits;
        }
        free(out);
    }
    fovea_plan_free(plan);
    fovea_model_free(model);
    fovea_device_close(device);
    return status;
}

static void all_memory_comes_from_it_and_goes_back(void **state)
{
    uint32_t want = 0, got = 0;
    fovea_memory memory = FOVEA_MEMORY_INIT, after = FOVEA_MEMORY_INIT;
    (void)state;
    assert_int_equal(frame(&want), FOVEA_OK); /* allocates what the process keeps */
    struct counting *c = fresh();
    use(c);
    fovea_memory_query(&memory);
    assert_int_equal(frame(&got), FOVEA_OK);
    fovea_memory_query(&after);
    use(NULL);
    assert_int_equal(got, want);
    assert_int_equal(c->calls, after.allocations - memory.allocations);
    assert_true(c->calls > 50);
    assert_int_equal(c->live, 0);
    assert_int_equal(c->bytes, 0);
}

static void every_call_may_fail(void **state)
{
    uint32_t sum = 0;
    (void)state;
    assert_int_equal(frame(&sum), FOVEA_OK);
    struct counting *c = fresh();
    use(c);
    assert_int_equal(frame(&sum), FOVEA_OK);
    const uint64_t calls = c->calls;
    for (uint64_t n = 1; n <= calls; n++) {
        c->calls = 0;
        c->fail_at = n;
        const fovea_status status = frame(&sum);
        assert_true(c->calls >= n);
        assert_true(status == FOVEA_ENOMEM || status == FOVEA_OK); /* a hint was left out */
        assert_true(status == FOVEA_OK || strstr(fovea_error(), "cannot allocate"));
        assert_int_equal(c->live, 0);
    }
    use(NULL);
}

static void crooked_addresses_are_refused(void **state)
{
    uint32_t sum = 0;
    (void)state;
    struct counting *c = fresh();
    c->crooked = true;
    use(c);
    assert_int_equal(frame(&sum), FOVEA_ENOMEM);
    assert_non_null(
        strstr(fovea_error(), "the allocator returned an address that is not a multiple of"));
    use(NULL);
    assert_true(c->calls > 0);
    assert_int_equal(c->live, 0);
}

/* Memory that is in use when the allocator is replaced returns to the old allocator. */
static void blocks_know_where_they_came_from(void **state)
{
    fovea_model *m;
    (void)state;
    struct counting *c = fresh();
    use(c);
    assert_int_equal(fovea_model_load(&m, fixture_model), FOVEA_OK);
    use(NULL);
    const uint64_t calls = c->calls;
    fovea_model_free(fixture_load());
    assert_int_equal(c->calls, calls);
    assert_true(c->live > 0);
    fovea_model_free(m);
    assert_int_equal(c->live, 0);
}

static void half_an_allocator_is_refused(void **state)
{
    fovea_allocator a = FOVEA_ALLOCATOR_INIT;
    (void)state;
    assert_int_equal(fovea_allocator_set(&a), FOVEA_EINVAL);
    a.alloc = count_alloc;
    assert_int_equal(fovea_allocator_set(&a), FOVEA_EINVAL);
    assert_non_null(strstr(fovea_error(), "both"));
    a.alloc = NULL;
    a.free = count_free;
    assert_int_equal(fovea_allocator_set(&a), FOVEA_EINVAL);
    a.struct_size = 0;
    assert_int_equal(fovea_allocator_set(&a), FOVEA_EINVAL);
    fovea_model_free(fixture_load()); /* from the C library's allocator again */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_memory_comes_from_it_and_goes_back),
        cmocka_unit_test(every_call_may_fail),
        cmocka_unit_test(crooked_addresses_are_refused),
        cmocka_unit_test(blocks_know_where_they_came_from),
        cmocka_unit_test(half_an_allocator_is_refused),
    };
    fixture_draw();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
