/* emulated_cpu.c: replaces platform/cpu/cpu.c by a processor that also has the instruction sets
 * that emulated_x86.h emulates. */
#ifdef FV_ARCH_X86
#include <cpuid.h>

static int all_of_leaf_7(unsigned leaf, unsigned subleaf, unsigned *a, unsigned *b, unsigned *c,
                         unsigned *d)
{
    const int known = __get_cpuid_count(leaf, subleaf, a, b, c, d);
    if (leaf == 7 && subleaf == 0) {
        *a = *a ? *a : 1;
        *c |= 1u << 11; /* AVX-512 VNNI */
    } else if (leaf == 7) {
        *a |= 1u << 4 | 1u << 5; /* AVX-VNNI, AVX-512 BF16 */
    }
    return known || leaf == 7;
}
#define __get_cpuid_count all_of_leaf_7
#endif

#include "platform/cpu/cpu.c"
