/* test_pool.c: tests that a thread that submits a job to the pool does not wait for another
 * thread's job. It is linked with --wrap=fv_machine_wake, so that a worker can be delayed at the
 * end of a job.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

#include "base/thread.h"
#include "platform/os/os_machine.h"

enum { HELD_MS = 60, PATIENCE_MS = 20000 };

void __real_fv_machine_wake(_Atomic uint32_t *word);
void __wrap_fv_machine_wake(_Atomic uint32_t *word);

static void pause_ms(long ms)
{
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static fv_pool *pool;
static fv_job brief, lengthy;
static _Atomic int held, returned, waited_for;

/* Delays a worker that has done the last unit of `brief`. */
void __wrap_fv_machine_wake(_Atomic uint32_t *word)
{
    if (word == &brief.done) {
        atomic_store(&held, 1);
        pause_ms(HELD_MS);
    }
    __real_fv_machine_wake(word);
}

/* The submitter's own unit ends first, so that the submitter waits for the worker's unit. */
static void brief_unit(void *arg, uint32_t phase, uint32_t unit, uint32_t slot)
{
    (void)arg, (void)phase, (void)unit;
    pause_ms(slot ? 30 : 5);
}

static void lengthy_unit(void *arg, uint32_t phase, uint32_t unit, uint32_t slot)
{
    (void)arg, (void)phase, (void)unit, (void)slot;
    for (int ms = 0; !atomic_load(&returned) && !atomic_load(&waited_for); ms++) {
        pause_ms(1);
        if (ms == PATIENCE_MS)
            atomic_store(&waited_for, 1);
    }
}

static void *submit_lengthy(void *arg)
{
    (void)arg;
    while (!atomic_load(&held))
        pause_ms(1);
    pause_ms(10); /* by now the other submitter knows that its units are done */
    fv_pool_run(pool, &lengthy);
    return NULL;
}

static void nobody_waits_for_another(void **state)
{
    (void)state;
    static const uint32_t units[] = {2};
    pthread_t other;
    brief = (fv_job){.fn = brief_unit, .units = units, .phases = 1};
    lengthy = (fv_job){.fn = lengthy_unit, .units = units, .phases = 1};
    assert_int_equal(fv_pool_create(&pool, &(fv_pool_settings){.threads = 3}), FOVEA_OK);
    assert_int_equal(pthread_create(&other, NULL, submit_lengthy, NULL), 0);
    fv_pool_run(pool, &brief);
    atomic_store(&returned, 1);
    atomic_store(&held, 1);
    pthread_join(other, NULL);
    fv_pool_free(pool);
    if (atomic_load(&waited_for))
        fail_msg("a brief job did not return before a lengthy one of another thread");
}

/* If the system gives threads small stacks, workers have the stack that they need. */
static void small_stacks(void **state)
{
    (void)state;
    pthread_attr_t usual, small;
    fv_pool *p;
    assert_int_equal(pthread_getattr_default_np(&usual), 0);
    assert_int_equal(pthread_attr_init(&small), 0);
    assert_int_equal(pthread_attr_setstacksize(&small, 64 << 10), 0);
    assert_int_equal(pthread_setattr_default_np(&small), 0);
    const fovea_status status = fv_pool_create(&p, &(fv_pool_settings){.threads = 3});
    assert_int_equal(pthread_setattr_default_np(&usual), 0);
    assert_int_equal(status, FOVEA_OK);
    fv_pool_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_waits_for_another),
        cmocka_unit_test(small_stacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
