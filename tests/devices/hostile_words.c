/* hostile_words.c: source texts that are put before programs. They define functions of a device
 * whose arithmetic, products, images or subgroups differ from those of the real device, or are only
 * claimed. */
#include "tests/devices/hostile_cl.h"

/* Emulates float16 arithmetic with the functions of gemm_half.cl in float32. The product of two
 * float16 values is a float32 value, and its sum with a third is rounded to float16. Also answers
 * the probe (cl_probe.c). */
static const char emulated_half[] =
    "#if FV_PROBE == 1\n"
    "kernel void probe(global float *out)\n"
    "{\n"
    "    const uint i = get_global_id(0);\n"
    "    out[2 * i] = (i * 0.375f + 0.125f) + (i * 0.375f + 3.f);\n"
    "    out[2 * i + 1] = 2048 + 2 * i;\n"
    "}\n"
    "#undef FV_PROBE\n"
    "#define FV_PROBE 0\n"
    "#elif FV_PROBE == 8 && FV_HALF_FAST\n"
    "kernel void compute(global float *out, const uint turns)\n"
    "{\n"
    "    out[get_global_id(0)] = turns;\n"
    "}\n"
    "#undef FV_PROBE\n"
    "#define FV_PROBE 0\n"
    "#elif FV_PROBE == 8\n" /* as fast as float32 */
    "#undef FV_PROBE\n"
    "#define FV_PROBE 5\n"
    "#endif\n"
    "__attribute__((noinline)) float2 hostile_round2(float2 x)\n" /* hundreds in a loop */
    "{\n"
    "    ushort2 bits;\n"
    "    vstore_half2_rte(x, 0, (half *)&bits);\n"
    "    return vload_half2(0, (const half *)&bits);\n"
    "}\n"
    "inline float4 hostile_round4(float4 x)\n"
    "{\n"
    "    ushort4 bits;\n"
    "    vstore_half4_rte(x, 0, (half *)&bits);\n"
    "    return vload_half4(0, (const half *)&bits);\n"
    "}\n"
    "inline float8 hostile_round8(float8 x)\n"
    "{\n"
    "    return (float8)(hostile_round4(x.lo), hostile_round4(x.hi));\n"
    "}\n"
    "#define FV_H(n) FV_CAT(float, n)\n"
    "#define FV_H_GLOBAL(p) vload_half8(0, p)\n"
    "#define FV_H_LOCAL(p) vload_half8(0, p)\n"
    "#define FV_H_TEXEL(x) hostile_texel(x)\n"
    "inline float8 hostile_texel(uint4 bits)\n"
    "{\n"
    "    return vload_half8(0, (const half *)&bits);\n"
    "}\n"
    "#define FV_H_MAD(n, a, w, sum) FV_CAT(hostile_round, n)((a) * (w) + (sum))\n"
    "#define FV_H_FLOAT(n, x) (x)\n";

/* Products of int8, by the functions of one extension or the other. */
#define PRODUCTS                                                                                   \
    "inline int hostile_products(char4 a, char4 b)\n"                                              \
    "{\n"                                                                                          \
    "    const int4 x = convert_int4(a) * convert_int4(b);\n"                                      \
    "    return x.x + x.y + x.z + x.w;\n"                                                          \
    "}\n"
static const char *const emulated_dots[] = {
    "",
    PRODUCTS "#define dot_acc_sat_4x8packed_ss_int(a, b, sum) \\\n"
             "    (hostile_products(as_char4((uint)(a)), as_char4((uint)(b))) + (sum))\n",
    PRODUCTS "inline int arm_dot_acc(char4 a, char4 b, int sum)\n"
             "{\n"
             "    return hostile_products(a, b) + sum;\n"
             "}\n",
    PRODUCTS "inline int arm_dot_acc(char4 a, char4 b, int sum)\n"
             "{\n"
             "    return hostile_products(a, b);\n"
             "}\n",
};

/* Makes images appear fast: the loop that measures images reads none, and the loop that measures
 * buffers (probe 11) takes longer than any delay on a busy machine. */
static const char fast_images[] =
    "#if FV_PROBE == 14\n"
    "kernel void compute(global uint *out, read_only image1d_buffer_t room, const uint turns)\n"
    "{\n"
    "    out[get_global_id(0)] = turns;\n"
    "}\n"
    "#undef FV_PROBE\n"
    "#define FV_PROBE 0\n"
    "#elif FV_PROBE == 11\n"
    "kernel void compute(global uint *out, const uint turns)\n"
    "{\n"
    "    uint x = get_global_id(0);\n"
    "    for (uint t = 0; t < turns << 15; t++)\n"
    "        x = x * 1664525u + 1013904223u;\n"
    "    out[get_global_id(0)] = x;\n"
    "}\n"
    "#undef FV_PROBE\n"
    "#define FV_PROBE 0\n"
    "#endif\n";

/* Emulates the macros of subgroup.cl: lanes exchange values through local memory, and all use the
 * first lane's pointer, as Intel's do. Probes 15 and 16 measure speed. They are replaced by a large
 * and a small amount of work, so that a busy machine does not change the outcome. */
static const char subgroup_words[] =
    "#define FV_LANES 16\n"
    "#define FV_OF_LANES\n"
    "#define FV_LANE (get_local_id(0) % HOSTILE_LANES)\n"
    "#define FV_EXCHANGE local size_t hostile_at[2 * 64]; local float hostile_given[4 * 64];\n"
    "#define FV_BLOCK(name, p) const float8 name = hostile_block(p, hostile_at)\n"
    "#define FV_SPREAD(name, p) hostile_spread(p, hostile_at + 64, hostile_given)\n"
    "#define FV_GIVEN_BY(name, n, l) hostile_given[hostile_place(n, HOSTILE_GIVER(l))]\n"
    "inline uint hostile_place(uint n, uint l)\n"
    "{\n"
    "    return get_local_id(0) / HOSTILE_LANES * 4 * HOSTILE_LANES + n * HOSTILE_LANES + l;\n"
    "}\n"
    "inline global const half *hostile_first(global const half *p, local size_t *at)\n"
    "{\n"
    "    const uint me = get_local_id(0);\n" /* reads of the previous values ended before another
                                                barrier */
    "    if (FV_LANE == 0)\n"
    "        at[me / HOSTILE_LANES] = (size_t)p;\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    return (global const half *)at[me / HOSTILE_LANES];\n"
    "}\n"
    "inline float8 hostile_block(global const half *p, local size_t *at)\n"
    "{\n"
    "    float x[8];\n"
    "    p = hostile_first(p, at);\n"
    "    for (uint n = 0; n < 8; n++)\n"
    "        x[n] = vload_half(HOSTILE_NUMBER(n, 8), p);\n"
    "    return vload8(0, x);\n"
    "}\n"
    "inline void hostile_spread(global const half *p, local size_t *at, local float *given)\n"
    "{\n"
    "    p = hostile_first(p, at);\n"
    "    for (uint n = 0; n < 4; n++)\n"
    "        given[hostile_place(n, FV_LANE)] = vload_half(HOSTILE_NUMBER(n, 4), p);\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "}\n"
    "#if FV_PROBE == HOSTILE_SLOW || FV_PROBE == HOSTILE_FAST\n"
    "kernel void compute(global float *out, const uint turns)\n"
    "{\n"
    "    float x = get_global_id(0);\n"
    "    for (uint t = 0; t < turns * (FV_PROBE == HOSTILE_SLOW ? 4096 : 1); t++)\n"
    "        x = x * 0.999f + 0.001f;\n"
    "    out[get_global_id(0)] = x;\n"
    "}\n"
    "#undef FV_PROBE\n"
    "#define FV_PROBE 0\n"
    "#endif\n";
#define HOSTILE_SUBGROUPS(lanes, number, giver, slow, fast)                                        \
    "#define HOSTILE_LANES " #lanes "\n"                                                           \
    "#define HOSTILE_NUMBER(n, of) " number "\n"                                                   \
    "#define HOSTILE_GIVER(l) " giver "\n"                                                         \
    "#define HOSTILE_SLOW " #slow "\n"                                                             \
    "#define HOSTILE_FAST " #fast "\n"
#define IN_TURN "(FV_LANE + (n) * HOSTILE_LANES)"
#define NEIGHBOURS "(FV_LANE * (of) + (n))"
static const char *const subgroup_lies[] = {
    "",
    HOSTILE_SUBGROUPS(16, IN_TURN, "(l)", 16, 15),
    HOSTILE_SUBGROUPS(16, NEIGHBOURS, "(l)", 16, 15),
    HOSTILE_SUBGROUPS(16, IN_TURN, "FV_LANE", 16, 15),
    HOSTILE_SUBGROUPS(8, IN_TURN, "((l) % 8)", 16, 15),
    HOSTILE_SUBGROUPS(16, IN_TURN, "(l)", 15, 16),
};

void hostile_words(const char *all[HOSTILE_WORDS])
{
    const char *const now[HOSTILE_WORDS] = {
        hostile_lie(lie_half, 1) == 3 ? "#define FV_HALF_FAST 1\n" : "",
        hostile_lie(lie_half, 1) >= 2 ? emulated_half : "",
        emulated_dots[hostile_lie(lie_dots, 0)],
        hostile_lie(lie_images, 1) == 2 ? fast_images : "",
        subgroup_lies[hostile_lie(lie_subgroups, 0)],
        hostile_lie(lie_subgroups, 0) ? subgroup_words : "",
    };
    for (int i = 0; i < HOSTILE_WORDS; i++)
        all[i] = now[i];
}
