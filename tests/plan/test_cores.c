/* test_cores.c: tests which processors are chosen on machines that a folder describes: boards with
 * big and little cores, hybrids, and containers with a share of a machine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "platform/cpu/cpu.h"
#include "platform/os/os_cgroup.h"

static char root[] = "/tmp/fovea_cores_XXXXXX";

/* ---- a machine ---- */

static void plant(const char *text, const char *format, ...)
{
    char path[512];
    const int used = snprintf(path, sizeof path, "%s", root);
    va_list args;
    va_start(args, format);
    vsnprintf(path + used, sizeof path - (size_t)used, format, args);
    va_end(args);
    for (char *slash = strchr(path + used + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%s\n", text);
    fclose(f);
}

static int clear(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s/sys %s/proc", root, root);
    return system(command);
}

static void plant_each(uint32_t first, uint32_t last, const char *text, const char *file)
{
    for (uint32_t i = first; i <= last; i++)
        plant(text, "/sys/devices/system/cpu/cpu%u/%s", i, file);
}

#define CAPACITY "cpu_capacity"
#define CLOCK "cpufreq/cpuinfo_max_freq"
#define MIDR "regs/identification/midr_el1"

static void free_memory(void **state)
{
    (void)state;
    assert_true(fv_cgroup_free(root) == UINT64_MAX);
    plant("MemTotal:  8000000 kB\nMemFree:  1000 kB\nMemAvailable:   3000000 kB\nBuffers: 5 kB",
          "/proc/meminfo");
    assert_true(fv_cgroup_free(root) == UINT64_C(3000000) << 10);
    plant("0::/box", "/proc/self/cgroup");
    plant("1048576", "/sys/fs/cgroup/box/memory.max");
    assert_true(fv_cgroup_free(root) == 1 << 20);
}

/* Returns the machine as seen by a process that may use processors [0, n) except those in `denied`.
 */
static fv_cores seen(uint32_t n, const char *denied)
{
    static fv_cores cores;
    bool allowed[FV_PROCESSORS] = {false};
    for (uint32_t i = 0; i < n; i++)
        allowed[i] = fv_cores_listed(denied, i) != 1;
    fv_cores_read(&cores, root, allowed);
    return cores;
}

/* Returns the processors that `which` selects as a list, such as "4-7". */
static const char *chosen(const fv_cores *cores, const char *which)
{
    static char text[256];
    uint32_t id[FV_PROCESSORS], n;
    int used = 0;
    if (fv_cpu_cores(id, &n, cores, which) != FOVEA_OK)
        return fovea_error();
    for (uint32_t i = 0; i < n;) {
        uint32_t end = i;
        while (end + 1 < n && id[end + 1] == id[end] + 1)
            end++;
        used += snprintf(text + used, sizeof text - (size_t)used, end > i ? "%s%u-%u" : "%s%u",
                         i ? "," : "", id[i], id[end]);
        i = end + 1;
    }
    return text;
}

static void expect(const fv_cores *cores, uint32_t core_kinds, const char *big, const char *little)
{
    uint32_t kinds, fast, id[FV_PROCESSORS], n;
    fv_cpu_core_kinds(&kinds, &fast, cores);
    assert_int_equal(kinds, core_kinds);
    assert_string_equal(chosen(cores, NULL), big);
    assert_string_equal(chosen(cores, "little"), little);
    assert_int_equal(fv_cpu_cores(id, &n, cores, "big"), FOVEA_OK);
    assert_int_equal(fast, n);
}

/* ---- boards ---- */

static void nothing_known(void **state)
{
    (void)state;
    const fv_cores c = seen(4, "");
    expect(&c, 1, "0-3", "0-3");
    assert_int_equal(c.most, 4);
}

/* RK3588: four A55, two pairs of A76 whose clocks differ a little. */
static void four_and_two_pairs(void **state)
{
    (void)state;
    plant_each(0, 3, "414", CAPACITY);
    plant_each(4, 5, "1024", CAPACITY);
    plant_each(6, 7, "1003", CAPACITY);
    const fv_cores c = seen(8, "");
    expect(&c, 2, "4-7", "0-3");
    assert_string_equal(chosen(&c, "all"), "0-7");
    assert_string_equal(chosen(&c, "0,6-7"), "0,6-7");
    const fv_cores part = seen(8, "0-2,6-7"); /* a mask */
    expect(&part, 2, "4-5", "3");
    const fv_cores small =
        seen(8, "4-7"); /* only little cores are allowed, so these are the fastest ones */
    expect(&small, 1, "0-3", "0-3");
}

/* Snapdragon: a prime core, three middle ones, four little ones. Prime and middle are big. */
static void one_and_three_and_four(void **state)
{
    (void)state;
    plant_each(0, 3, "325", CAPACITY);
    plant_each(4, 6, "828", CAPACITY);
    plant_each(7, 7, "1024", CAPACITY);
    const fv_cores c = seen(8, "");
    expect(&c, 3, "4-7", "0-3");
}

/* RK3399 with a kernel that does not know the capacities: the clocks are close, but the core types
 * differ. */
static void clocks_and_what_cores_are(void **state)
{
    (void)state;
    plant_each(0, 5, "1024", CAPACITY);
    plant_each(0, 3, "1416000", CLOCK);
    plant_each(4, 5, "1800000", CLOCK);
    plant_each(0, 3, "0x00000000410fd034", MIDR);
    plant_each(4, 5, "0x00000000410fd082", MIDR);
    const fv_cores c = seen(6, "");
    expect(&c, 2, "4-5", "0-3");
}

static void hybrid(void **state)
{
    (void)state;
    plant("0-15", "/sys/devices/cpu_core/cpus");
    plant("16-23", "/sys/devices/cpu_atom/cpus");
    plant_each(0, 3, "5200000", CLOCK);
    plant_each(4, 15, "5000000", CLOCK); /* a turbo clock does not make another type of core */
    plant_each(16, 23, "3900000", CLOCK);
    const fv_cores c = seen(24, "");
    expect(&c, 2, "0-15", "16-23");
}

/* Capacities and clocks are not compared with each other. */
static void some_without_a_number(void **state)
{
    (void)state;
    plant_each(0, 2, "1024", CAPACITY);
    plant_each(0, 3, "1500000", CLOCK);
    const fv_cores c = seen(4, "");
    expect(&c, 1, "0-3", "0-3");
    plant_each(3, 3, "nonsense", CAPACITY);
    const fv_cores again = seen(4, "");
    expect(&again, 1, "0-3", "0-3");
}

static void some_are_off(void **state)
{
    (void)state;
    plant_each(0, 3, "400", CAPACITY);
    plant_each(4, 7, "1024", CAPACITY);
    plant("0-4,6", "/sys/devices/system/cpu/online");
    const fv_cores c = seen(8, "");
    expect(&c, 2, "4,6", "0-3");
}

/* ---- containers ---- */

static void quota_of_version_2(void **state)
{
    (void)state;
    plant("0::/robot/vision", "/proc/self/cgroup");
    plant("max 100000", "/sys/fs/cgroup/robot/vision/cpu.max");
    fv_cores c = seen(8, "");
    assert_int_equal(c.most, 8);
    plant("150000 100000", "/sys/fs/cgroup/robot/cpu.max"); /* the parent group's limit counts */
    c = seen(8, "");
    assert_int_equal(c.most, 2);
    assert_int_equal(c.n, 8);
    plant("50000 100000", "/sys/fs/cgroup/robot/vision/cpu.max");
    c = seen(8, "");
    assert_int_equal(c.most, 1);
    plant("1600000 100000", "/sys/fs/cgroup/robot/vision/cpu.max");
    plant("max 100000", "/sys/fs/cgroup/robot/cpu.max");
    c = seen(8, "");
    assert_int_equal(c.most, 8);
}

/* Inside the container the group's path differs: the mounted folder is the container's own group.
 */
static void quota_of_version_1(void **state)
{
    (void)state;
    plant("12:memory:/docker/f00\n4:cpu,cpuacct:/docker/f00\n0::/docker/f00", "/proc/self/cgroup");
    plant("-1", "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us");
    plant("100000", "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us");
    fv_cores c = seen(8, "");
    assert_int_equal(c.most, 8);
    plant("250000", "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us");
    c = seen(8, "");
    assert_int_equal(c.most, 3);
}

static void cpusets(void **state)
{
    (void)state;
    plant("0::/robot", "/proc/self/cgroup");
    plant("2-3", "/sys/fs/cgroup/robot/cpuset.cpus.effective");
    fv_cores c = seen(8, "");
    expect(&c, 1, "2-3", "2-3");
    assert_int_equal(c.most, 2);
    plant("", "/sys/fs/cgroup/robot/cpuset.cpus.effective");
    c = seen(8, "");
    assert_int_equal(c.n, 8);
    clear(NULL);
    plant("3:cpuset:/robot/eye", "/proc/self/cgroup");
    plant("4-5,7", "/sys/fs/cgroup/cpuset/robot/cpuset.cpus");
    c = seen(8, "");
    expect(&c, 1, "4-5,7", "4-5,7");
}

static void memory_of_containers(void **state)
{
    (void)state;
    assert_true(fv_cgroup_memory(root) == UINT64_MAX);
    plant("0::/robot/vision", "/proc/self/cgroup");
    plant("max", "/sys/fs/cgroup/robot/vision/memory.max");
    plant("max", "/sys/fs/cgroup/robot/vision/memory.high");
    assert_true(fv_cgroup_memory(root) == UINT64_MAX);
    plant("2147483648", "/sys/fs/cgroup/robot/memory.max"); /* the parent group's limit counts */
    assert_true(fv_cgroup_memory(root) == 2147483648u);
    plant("1073741824", "/sys/fs/cgroup/robot/vision/memory.high");
    assert_true(fv_cgroup_memory(root) == 1073741824u);
    plant("536870912", "/sys/fs/cgroup/robot/vision/memory.max");
    assert_true(fv_cgroup_memory(root) == 536870912u);
    clear(NULL);
    plant("12:memory:/docker/f00\n4:cpu,cpuacct:/docker/f00\n0::/docker/f00", "/proc/self/cgroup");
    plant("9223372036854771712", "/sys/fs/cgroup/memory/memory.limit_in_bytes");
    assert_true(fv_cgroup_memory(root) == 9223372036854771712u);
    plant("268435456", "/sys/fs/cgroup/memory/memory.limit_in_bytes");
    assert_true(fv_cgroup_memory(root) == 268435456u);
    plant("-1", "/sys/fs/cgroup/memory/docker/f00/memory.limit_in_bytes");
    plant("lots", "/sys/fs/cgroup/memory/docker/memory.limit_in_bytes");
    assert_true(fv_cgroup_memory(root) == 268435456u);
}

static void damaged_files(void **state)
{
    (void)state;
    plant("::::\n\nnonsense\n0::", "/proc/self/cgroup");
    plant("zero", "/sys/fs/cgroup/cpu.max");
    plant("7-2,x", "/sys/devices/system/cpu/online");
    plant_each(0, 3, "0", CAPACITY);
    plant_each(0, 3, "-5", CLOCK);
    plant_each(0, 3, "0xzz", MIDR);
    const fv_cores c = seen(4, "");
    assert_int_equal(c.n, 4);
    assert_int_equal(c.most, 4);
    assert_string_equal(chosen(&c, "all"), "0-3");
}

static void lists(void **state)
{
    (void)state;
    assert_int_equal(fv_cores_listed("0,4-7", 5), 1);
    assert_int_equal(fv_cores_listed("0,4-7", 3), 0);
    assert_int_equal(fv_cores_listed("4-", 4), -1);
    assert_int_equal(fv_cores_listed("7-4", 4), -1);
    assert_int_equal(fv_cores_listed("a", 4), -1);
    const fv_cores c = seen(2, "");
    assert_non_null(strstr(chosen(&c, "9"), "none of these"));
    assert_non_null(strstr(chosen(&c, "x"), "not a list"));
}

/* This machine has at least one processor that this thread may use. */
static void this_machine(void **state)
{
    (void)state;
    static fv_cores c;
    fv_cores_find(&c);
    assert_true(c.n >= 1 && c.most >= 1 && c.most <= c.n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(nothing_known, clear),
        cmocka_unit_test_teardown(four_and_two_pairs, clear),
        cmocka_unit_test_teardown(one_and_three_and_four, clear),
        cmocka_unit_test_teardown(clocks_and_what_cores_are, clear),
        cmocka_unit_test_teardown(hybrid, clear),
        cmocka_unit_test_teardown(some_without_a_number, clear),
        cmocka_unit_test_teardown(some_are_off, clear),
        cmocka_unit_test_teardown(quota_of_version_2, clear),
        cmocka_unit_test_teardown(quota_of_version_1, clear),
        cmocka_unit_test_teardown(cpusets, clear),
        cmocka_unit_test_teardown(memory_of_containers, clear),
        cmocka_unit_test_teardown(damaged_files, clear),
        cmocka_unit_test_teardown(lists, clear),
        cmocka_unit_test_teardown(free_memory, clear),
        cmocka_unit_test(this_machine),
    };
    if (!mkdtemp(root))
        return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(root);
    return failed;
}
