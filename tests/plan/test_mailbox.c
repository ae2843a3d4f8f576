/* test_mailbox.c: tests that the newest frame is taken, that each frame has one owner at a time,
 * and that deadlines belong to frames.
 *
 * It is linked with --wrap=fv_machine_seconds, so that the test controls the time, and with
 * --wrap=fovea_wait, which records its arguments.
 */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <fovea/mailbox.h>

#include "base/mem.h"
#include "platform/os/os_machine.h"

double __real_fv_machine_seconds(void);
double __wrap_fv_machine_seconds(void);
fovea_status __wrap_fovea_wait(fovea_plan *plan, fovea_ticket ticket, double timeout);

static double clock_now; /* 0: the real clock */

double __wrap_fv_machine_seconds(void)
{
    return clock_now > 0 ? clock_now : __real_fv_machine_seconds();
}

/* The simulated frame needs `computing` more seconds; `asked` records the timeout of fovea_wait().
 */
static double computing, asked;
static fovea_ticket waited_for;

fovea_status __wrap_fovea_wait(fovea_plan *plan, fovea_ticket ticket, double timeout)
{
    (void)plan;
    asked = timeout;
    waited_for = ticket;
    const bool there = timeout < 0 || computing <= timeout;
    const double took = there ? computing : timeout + 1e-3;
    clock_now += took;
    computing -= took;
    return there ? FOVEA_OK : FOVEA_ETIMEOUT;
}

enum { FRAMES = 6 };

static int frame[FRAMES];
static int dropped[FRAMES], drops;

static void note_drop(void *ctx, void *which)
{
    assert_ptr_equal(ctx, dropped);
    dropped[drops++] = (int)((int *)which - frame);
}

static fovea_mailbox *mailbox;

static int open_mailbox(void **state)
{
    fovea_mailbox_options o = FOVEA_MAILBOX_OPTIONS_INIT;
    (void)state;
    o.drop = note_drop;
    o.ctx = dropped;
    drops = 0;
    clock_now = 1000;
    return fovea_mailbox_create(&mailbox, &o);
}

static int close_mailbox(void **state)
{
    (void)state;
    fovea_mailbox_free(mailbox);
    return 0;
}

static void put(int i, double deadline)
{
    assert_int_equal(fovea_mailbox_put(mailbox, &frame[i], deadline), FOVEA_OK);
}

/* Returns the frame's number, -1 if no more frames will come, or -2 if none is waiting. */
static int take(void)
{
    void *taken = &frame[0];
    const fovea_status status = fovea_mailbox_take(mailbox, 0, &taken);
    if (status == FOVEA_ETIMEOUT)
        return -2;
    assert_int_equal(status, FOVEA_OK);
    return taken ? (int)((int *)taken - frame) : -1;
}

static void counts(uint64_t puts, uint64_t taken, uint64_t replaced, uint64_t expired,
                   uint64_t late)
{
    fovea_mailbox_info info = FOVEA_MAILBOX_INFO_INIT;
    assert_int_equal(fovea_mailbox_query(mailbox, &info), FOVEA_OK);
    assert_int_equal(info.put, puts);
    assert_int_equal(info.taken, taken);
    assert_int_equal(info.replaced, replaced);
    assert_int_equal(info.expired, expired);
    assert_int_equal(info.late, late);
}

static void newest_wins(void **state)
{
    (void)state;
    fv_mem_fail_at(0);
    assert_int_equal(take(), -2);
    for (int i = 0; i < 3; i++)
        put(i, 0);
    assert_int_equal(take(), 2);
    assert_int_equal(take(), -2);
    put(3, 0);
    assert_int_equal(take(), 3);
    put(4, 0);
    put(5, 0);
    assert_int_equal(drops, 3);
    assert_int_equal(dropped[0], 0);
    assert_int_equal(dropped[1], 1);
    assert_int_equal(dropped[2], 4);
    counts(6, 2, 3, 0, 0);
    fovea_mailbox_free(mailbox);
    mailbox = NULL;
    assert_int_equal(drops, 4);
    assert_int_equal(dropped[3], 5);
    assert_int_equal(fv_mem_fail_at(0), 0);
}

static void old_frames_expire(void **state)
{
    (void)state;
    put(0, 0.1);
    clock_now += 0.05;
    assert_int_equal(take(), 0);
    put(1, 0.1);
    clock_now += 0.2;
    assert_int_equal(take(), -2);
    assert_int_equal(drops, 1);
    assert_int_equal(dropped[0], 1);
    put(2, 0);
    clock_now += 1e6;
    assert_int_equal(take(), 2);
    counts(3, 2, 0, 1, 0);
}

static void ends(void **state)
{
    (void)state;
    put(0, 0);
    fovea_mailbox_end(mailbox);
    assert_int_equal(fovea_mailbox_put(mailbox, &frame[1], 0), FOVEA_EINVAL);
    assert_non_null(strstr(fovea_error(), "fovea_mailbox_end"));
    assert_int_equal(take(), 0);
    assert_int_equal(take(), -1);
    assert_int_equal(take(), -1);
    assert_int_equal(drops, 0);
}

static void what_cannot_be(void **state)
{
    void *taken;
    (void)state;
    assert_int_equal(fovea_mailbox_put(mailbox, NULL, 0), FOVEA_EINVAL);
    assert_int_equal(fovea_mailbox_put(mailbox, &frame[0], -1), FOVEA_EINVAL);
    assert_int_equal(fovea_mailbox_put(mailbox, &frame[0], NAN), FOVEA_EINVAL);
    assert_int_equal(fovea_mailbox_put(NULL, &frame[0], 0), FOVEA_EINVAL);
    assert_int_equal(fovea_mailbox_take(NULL, 0, &taken), FOVEA_EINVAL);
    assert_int_equal(fovea_mailbox_take(mailbox, 0, NULL), FOVEA_EINVAL);
    assert_int_equal(fovea_mailbox_wait(NULL, NULL, 1), FOVEA_EINVAL);
    counts(0, 0, 0, 0, 0);
}

static void results_have_deadlines(void **state)
{
    (void)state;
    put(0, 0.5);
    clock_now += 0.125;
    assert_int_equal(take(), 0);
    put(1, 0.1); /* this frame's deadline does not count */
    computing = 0.25;
    assert_int_equal(fovea_mailbox_wait(mailbox, NULL, 7), FOVEA_OK);
    assert_int_equal(waited_for, 7);
    assert_true(asked == 0.375);
    counts(2, 1, 0, 0, 0);

    put(2, 0.5);
    assert_int_equal(take(), 2);
    computing = 2;
    assert_int_equal(fovea_mailbox_wait(mailbox, NULL, 8), FOVEA_ETIMEOUT);
    assert_int_equal(fovea_mailbox_wait(mailbox, NULL, 8), FOVEA_ETIMEOUT);
    assert_true(asked == 0);
    counts(3, 2, 1, 0, 1);

    put(3, 0.5); /* done, but late, as on the CPU */
    assert_int_equal(take(), 3);
    clock_now += 1;
    computing = 0;
    assert_int_equal(fovea_mailbox_wait(mailbox, NULL, 9), FOVEA_OK);
    counts(4, 3, 1, 0, 2);

    put(4, 0);
    assert_int_equal(take(), 4);
    computing = 1e6;
    assert_int_equal(fovea_mailbox_wait(mailbox, NULL, 10), FOVEA_OK);
    assert_true(asked < 0);
    counts(5, 4, 1, 0, 2);
}

/* ---- two threads ---- */

enum { MANY = 200000, PATIENCE = 30 };

static int number[MANY]; /* number of times that each frame was returned */
static fovea_mailbox *shared;

static void note_owner(void *ctx, void *which)
{
    (void)ctx;
    ++*(int *)which;
}

static void *bring(void *arg)
{
    (void)arg;
    for (int i = 0; i < MANY; i++) {
        if (fovea_mailbox_put(shared, &number[i], i % 3 ? 0 : 1e-5) != FOVEA_OK)
            return shared;
        if (i % 1000 == 0)
            fv_machine_nap(1e-4); /* lets the other thread fall asleep */
    }
    fovea_mailbox_end(shared);
    return NULL;
}

static void one_owner_each(void **state)
{
    fovea_mailbox_options o = FOVEA_MAILBOX_OPTIONS_INIT;
    fovea_mailbox_info info = FOVEA_MAILBOX_INFO_INIT;
    pthread_t thread;
    void *failed, *taken;
    int *before = NULL;
    (void)state;
    clock_now = 0;
    o.drop = note_owner;
    assert_int_equal(fovea_mailbox_create(&shared, &o), FOVEA_OK);
    assert_int_equal(pthread_create(&thread, NULL, bring, NULL), 0);
    for (;;) {
        const double begin = __real_fv_machine_seconds();
        assert_int_equal(fovea_mailbox_take(shared, PATIENCE, &taken), FOVEA_OK);
        if (__real_fv_machine_seconds() - begin > PATIENCE / 2)
            fail_msg("nobody was told of a frame that had come");
        if (!taken)
            break;
        int *one = taken;
        assert_true(!before || one > before);
        ++*one;
        before = one;
    }
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(number[i], 1);
    assert_int_equal(fovea_mailbox_query(shared, &info), FOVEA_OK);
    assert_int_equal(info.put, MANY);
    assert_int_equal(info.taken + info.replaced + info.expired, MANY);
    assert_true(info.taken > 0 && info.replaced > 0);
    fovea_mailbox_free(shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(newest_wins, open_mailbox, close_mailbox),
        cmocka_unit_test_setup_teardown(old_frames_expire, open_mailbox, close_mailbox),
        cmocka_unit_test_setup_teardown(ends, open_mailbox, close_mailbox),
        cmocka_unit_test_setup_teardown(what_cannot_be, open_mailbox, close_mailbox),
        cmocka_unit_test_setup_teardown(results_have_deadlines, open_mailbox, close_mailbox),
        cmocka_unit_test(one_owner_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
