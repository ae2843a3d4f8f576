/* test_ptx.cpp: the functions of cuda/cuda_ptx.h, whose inline PTX is interpreted
 * (ptx_interpreter.c), against the same functions of the emulator: the same results for random
 * numbers and for hard ones. So what the emulator shows of kernels holds for their PTX. Then every
 * fault is planted in every asm statement: operands swapped, other constraints, no volatile, no
 * "memory", other instructions; each has to be found.
 */
#include <stdio.h>
#include <string.h>

#include "tests/cuda_emulator/ptx.h"
/* The emulator's definitions, some of whose names also exist in the C library. */
#include "tests/cuda_emulator/emulated_cuda.h"
#include "tests/cuda_emulator/emulated_ptx.h"

/* emulated_warp.h uses C's bool */
extern "C" {
void emulated_warp_sync(unsigned mask);
unsigned emulated_shuffle(unsigned mask, unsigned value, unsigned from);
unsigned emulated_ballot(unsigned mask, int true_here);
void emulated_load_matrices(unsigned *to, int matrices, const void *row, int transposed);
void emulated_multiply(enum emulated_product kind, void *d, const unsigned *a, const unsigned *b);
}

/* ---- statements ---- */

template <class T> struct ptx_is_float {
    enum { value = false };
};
template <> struct ptx_is_float<float> {
    enum { value = true };
};

template <class T> static ptx_operand ptx_out(const char *constraint, T &variable)
{
    return {constraint, &variable, 0, sizeof variable, ptx_is_float<T>::value};
}

template <class T> static ptx_operand ptx_in(const char *constraint, T value)
{
    ptx_operand o = {constraint, nullptr, 0, sizeof value, ptx_is_float<T>::value};
    memcpy(&o.value, &value, sizeof value);
    return o;
}

static size_t __cvta_generic_to_shared(const void *p)
{
    return (size_t)((const char *)p - ptx_shared) + PTX_SHARED_BEGIN;
}

#include "ptx_functions.h"

/* ---- numbers ---- */

static unsigned drawn = 1;

static unsigned draw()
{
    drawn ^= drawn << 13;
    drawn ^= drawn >> 17;
    drawn ^= drawn << 5;
    return drawn;
}

/* Limits of ranges, ties of every format, NaN. */
static const unsigned hard_bits[] = {
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff, 0x00800000, 0x80800000,
    0x3f800000, 0xbf800000, 0x3f801000, 0x3f803000, 0x3f801001, 0x3f800fff, 0xbf801000, 0xbf803000,
    0x3f808000, 0x3f818000, 0x3f808001, 0x3f807fff, 0xbf808000, 0x477fe000, 0x477fefff, 0x477ff000,
    0x477fffff, 0x47800000, 0xc77ff000, 0x38800000, 0x387fc000, 0x387fe000, 0x387fffff, 0x33800000,
    0x33000000, 0x33000001, 0x33c00000, 0x34200000, 0xb3000000, 0x7f7fffff, 0xff7fffff, 0x7f7f7fff,
    0x7f7f8000, 0x7f7fefff, 0x7f7ff000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x7f800001,
    0xff800001, 0x7f801000, 0x7fffffff, 0x7fbfffff, 0x00001000, 0x00000fff, 0x80001000, 0x00008000};
enum { HARD = sizeof hard_bits / sizeof *hard_bits };

/* Returns the n-th number: first hard ones, then random bits and numbers of moderate size
 * alternately. */
static float number(int n)
{
    if (n < HARD)
        return __uint_as_float(hard_bits[n]);
    const unsigned bits = draw();
    return n % 2 ? __uint_as_float(bits) : (float)(int)bits * 0x1p-24f;
}

static bool same(float a, float b)
{
    return __float_as_uint(a) == __float_as_uint(b) || (a != a && b != b);
}

static bool half_is_nan(unsigned h)
{
    return (h & 0x7fff) > 0x7c00;
}

static bool same_half(unsigned a, unsigned b)
{
    return a == b || (half_is_nan(a) && half_is_nan(b));
}

/* Runs all cases, or stops when a fault is found. */
static bool full;
static bool found()
{
    return !full && ptx_mistakes;
}

#define SAME(what, n, condition)                                                                   \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            ptx_wrong("%s differs for number %d", what, n);                                        \
            return;                                                                                \
        }                                                                                          \
        if (found())                                                                               \
            return;                                                                                \
    } while (0)

/* ---- functions of one thread ---- */

template <class P> static void check_halves()
{
    for (unsigned h = 0; h < 0x10000; h += full ? 1 : 97)
        SAME("fv_half_to_float", (int)h,
             same(P::fv_half_to_float((unsigned short)h), fv_half_to_float((unsigned short)h)));
    for (int n = 0; n < (full ? 100000 : 2 * HARD); n++) {
        const float x = number(n), y = number((n * 7 + 3) % (2 * HARD));
        const unsigned got = P::fv_half2_bits(x, y), want = fv_half2_bits(x, y);
        SAME("fv_float_to_half", n, same_half(P::fv_float_to_half(x), fv_float_to_half(x)));
        SAME("fv_half2_bits", n,
             same_half(got & 0xffff, want & 0xffff) && same_half(got >> 16, want >> 16));
    }
}

template <class P> static void check_integers()
{
    for (int n = 0; n < (full ? 10000 : HARD); n++) {
        const float x = number(n);
        const unsigned a = __float_as_uint(x), b = draw();
        SAME("fv_bits_of", n, P::fv_bits_of(x) == fv_bits_of(x));
        SAME("fv_float_of", n, same(P::fv_float_of(b), fv_float_of(b)));
        SAME("fv_leading_zeros", n, P::fv_leading_zeros(a) == fv_leading_zeros(a));
        SAME("fv_ones", n, P::fv_ones(a) == fv_ones(a));
        SAME("fv_low_halves", n, P::fv_low_halves(a, b) == fv_low_halves(a, b));
        SAME("fv_high_halves", n, P::fv_high_halves(a, b) == fv_high_halves(a, b));
        SAME("fv_dot4", n, P::fv_dot4(a, b, n) == fv_dot4(a, b, n));
        SAME("fv_negative_halves", n, P::fv_negative_halves(a) == fv_negative_halves(a));
        SAME("fv_negative_halves", n, P::fv_negative_halves(b) == fv_negative_halves(b));
    }
}

/* Equal up to a relative and an absolute error. */
static bool near(float a, float b, float relative, float absolute)
{
    const float d = a > b ? a - b : b - a, size = b < 0 ? -b : b;
    return same(a, b) || d <= relative * size + absolute;
}

template <class P> static void check_functions()
{
    for (int n = 0; n < (full ? 100000 : 2 * HARD); n++) {
        const float x = number(n), y = number((n * 5 + 1) % (2 * HARD));
        const float power = n % 3 ? x : (float)(n % 300 - 160) + 0.5f;
        SAME("fv_exp2_fast", n, near(P::fv_exp2_fast(power), fv_exp2_fast(power), 0x1p-21f, 0));
        SAME("fv_log2_fast", n, near(P::fv_log2_fast(x), fv_log2_fast(x), 0x1p-21f, 0x1p-21f));
        const float less = P::fv_less_of(x, y), more = P::fv_more_of(x, y);
        SAME("fv_less_of", n, same(less, fv_less_of(x, y)) || less == fv_less_of(x, y));
        SAME("fv_more_of", n, same(more, fv_more_of(x, y)) || more == fv_more_of(x, y));
    }
}

template <class P> static void check_types()
{
    for (int n = 0; n < (full ? 100000 : 2 * HARD); n++) {
        const float x = number(n), y = number((n * 11 + 5) % (2 * HARD));
        SAME("fv_bf162_bits", n, P::fv_bf162_bits(x, y) == fv_bf162_bits(x, y));
        const unsigned got = P::fv_tf32(x), want = fv_tf32(x);
        SAME("fv_tf32", n, got % 0x2000 == 0 && same(__uint_as_float(got), __uint_as_float(want)));
    }
}

/* ---- copies ---- */

static ptx_copies emulated_asked;

static void emulated_copy(void *to, const void *from, unsigned size, unsigned present)
{
    const ptx_copy copy = {'c', to, from, size, present, size == 16};
    ptx_note_copy(&emulated_asked, &copy);
}

static void emulated_commit()
{
    const ptx_copy copy = {'g', nullptr, nullptr, 0, 0, false};
    ptx_note_copy(&emulated_asked, &copy);
}

static void emulated_wait(unsigned groups)
{
    const ptx_copy copy = {'w', nullptr, nullptr, groups, 0, false};
    ptx_note_copy(&emulated_asked, &copy);
}

template <class P> static void check_copies()
{
    for (int n = 0; n < (full ? 200 : 4); n++) {
        char *to = ptx_shared + draw() % (PTX_BYTES / 16) * 16;
        const char *from = ptx_global + draw() % (PTX_BYTES / 16) * 16;
        const unsigned bytes = n % 2 ? draw() % 5 : 4;
        ptx_asked.count = emulated_asked.count = 0;
        P::fv_cp_async16(to, from);
        P::fv_cp_async4_part(to + 4, from + 8, bytes);
        P::fv_cp_async8_part(to + 8, from, 2 * bytes);
        P::fv_cp_async16_part(to, from, 4 * bytes);
        P::fv_cp_commit();
        P::template fv_cp_wait<0>();
        P::template fv_cp_wait<3>();
        fv_cp_async16(to, from);
        fv_cp_async4_part(to + 4, from + 8, bytes);
        fv_cp_async8_part(to + 8, from, 2 * bytes);
        fv_cp_async16_part(to, from, 4 * bytes);
        fv_cp_commit();
        fv_cp_wait<0>();
        fv_cp_wait<3>();
        SAME("copies", n, ptx_asked.count == emulated_asked.count);
        for (int i = 0; i < ptx_asked.count; i++) {
            const ptx_copy a = ptx_asked.copy[i], b = emulated_asked.copy[i];
            SAME("a copy", i,
                 a.what == b.what && a.to == b.to && a.from == b.from && a.size == b.size &&
                     a.present == b.present && a.past_l1 == b.past_l1);
        }
    }
}

/* Copies that are made at once. */
template <class P> static void check_plain_copies()
{
    alignas(16) char want[16];
    for (int n = 0; n < (full ? 2000 : 4); n++) {
        char *to = ptx_shared + draw() % (PTX_BYTES / 16) * 16;
        char *from = ptx_global + draw() % (PTX_BYTES / 16) * 16;
        const unsigned size = 4u << n % 3, bytes = n % 2 ? draw() % (size + 1) : size;
        for (int i = 0; i < 16; i++) {
            from[i] = (char)draw();
            want[i] = to[i] = (char)draw();
        }
        memset(want, 0, size);
        memcpy(want, from, bytes);
        if (size == 4)
            P::fv_cp_async4_part(to, from, bytes);
        else if (size == 8)
            P::fv_cp_async8_part(to, from, bytes);
        else
            P::fv_cp_async16_part(to, from, bytes);
        SAME("a copy", n, memcmp(to, want, sizeof want) == 0);
        P::fv_cp_async16(to, from);
        P::fv_cp_commit();
        P::template fv_cp_wait<0>();
        SAME("a whole copy", n, memcmp(to, from, 16) == 0);
    }
}

/* ---- functions of a warp ---- */

enum { F16, BF16, TF32, TYPES };

struct lane_data {
    unsigned x, a[TYPES][4], b[TYPES][2], bytes_a[4], bytes_b[2]; /* what it has, */
    float sums[TYPES][4];                                         /* and adds to */
    int whole[4];
    unsigned shuffled[3], ballot, matrix[4]; /* what it gets */
};
struct warp_data {
    lane_data lane[32];
};

template <class P> static void shuffle_lane(int lane, void *data)
{
    lane_data *l = &((warp_data *)data)->lane[lane];
    const float x = __uint_as_float(l->x);
    P::fv_warp_sync();
    l->shuffled[0] = __float_as_uint(P::fv_shfl_xor(x, 5));
    l->shuffled[1] = __float_as_uint(P::fv_shfl_up(x, 3));
    l->shuffled[2] = __float_as_uint(P::fv_shfl_down(x, 7));
    l->ballot = P::fv_ballot(l->x & 1);
}

template <class P> static void multiply_halves_lane(int lane, void *data)
{
    lane_data *l = &((warp_data *)data)->lane[lane];
    P::fv_ldmatrix_x4_trans(l->matrix, ptx_shared + 48 * (lane * 11 % 32));
    P::fv_mma_f16(l->sums[F16], l->a[F16], l->b[F16]);
}

template <class P> static void multiply_lane(int lane, void *data)
{
    lane_data *l = &((warp_data *)data)->lane[lane];
    multiply_halves_lane<P>(lane, data);
    P::fv_mma_bf16(l->sums[BF16], l->a[BF16], l->b[BF16]);
    P::fv_mma_tf32(l->sums[TF32], l->a[TF32], l->b[TF32]);
    P::fv_mma_s8(l->whole, l->bytes_a, l->bytes_b);
}

/* The emulator's functions, as P has them. */
struct emulator {
    static void fv_warp_sync()
    {
        ::fv_warp_sync();
    }
    static float fv_shfl_xor(float x, int mask)
    {
        return ::fv_shfl_xor(x, mask);
    }
    static float fv_shfl_up(float x, unsigned delta)
    {
        return ::fv_shfl_up(x, delta);
    }
    static float fv_shfl_down(float x, unsigned delta)
    {
        return ::fv_shfl_down(x, delta);
    }
    static unsigned fv_ballot(bool x)
    {
        return ::fv_ballot(x);
    }
    static void fv_ldmatrix_x4_trans(unsigned r[4], const void *row)
    {
        ::fv_ldmatrix_x4_trans(r, row);
    }
    static void fv_mma_f16(float d[4], const unsigned a[4], const unsigned b[2])
    {
        ::fv_mma_f16(d, a, b);
    }
    static void fv_mma_bf16(float d[4], const unsigned a[4], const unsigned b[2])
    {
        ::fv_mma_bf16(d, a, b);
    }
    static void fv_mma_tf32(float d[4], const unsigned a[4], const unsigned b[2])
    {
        ::fv_mma_tf32(d, a, b);
    }
    static void fv_mma_s8(int d[4], const unsigned a[4], const unsigned b[2])
    {
        ::fv_mma_s8(d, a, b);
    }
};

/* Whole numbers, whose sums are exact; `odd`: and some that are infinite or none. Tensor cores
 * leave out the lower bits of tf32. */
static unsigned factor_of(int type, bool odd)
{
    static const float none[] = {__builtin_inff(), -__builtin_inff(), __builtin_nanf("")};
    const float x = odd && draw() % 64 == 0 ? none[draw() % 3] : (float)((int)(draw() % 33) - 16);
    return type == F16    ? fv_float_to_half(x)
           : type == BF16 ? __float_as_uint(x) >> 16
                          : __float_as_uint(x) + (x == x && x - x == 0 ? draw() % 0x2000 : 0);
}

static unsigned operand_of(int type, bool odd)
{
    const unsigned low = factor_of(type, odd);
    return type == TF32 ? low : low | factor_of(type, odd) << 16;
}

static void draw_lane(lane_data *l, bool odd)
{
    l->x = draw();
    for (int type = 0; type < TYPES; type++)
        for (int i = 0; i < 4; i++) {
            l->a[type][i] = operand_of(type, odd);
            l->b[type][i / 2] = operand_of(type, odd);
            l->sums[type][i] = (float)((int)(draw() % 2001) - 1000);
        }
    for (int i = 0; i < 4; i++) {
        l->bytes_a[i] = draw();
        l->bytes_b[i / 2] = draw();
        l->whole[i] = (int)draw();
    }
}

static void draw_warp(warp_data *w, bool odd)
{
    memset(w, 0, sizeof *w);
    for (int lane = 0; lane < 32; lane++)
        draw_lane(&w->lane[lane], odd);
    for (int i = 0; i < PTX_BYTES; i++)
        ptx_shared[i] = (char)draw();
}

static bool same_lane(const lane_data *a, const lane_data *b)
{
    bool equal = !memcmp(a->shuffled, b->shuffled, sizeof a->shuffled) && a->ballot == b->ballot &&
                 !memcmp(a->matrix, b->matrix, sizeof a->matrix) &&
                 !memcmp(a->whole, b->whole, sizeof a->whole);
    for (int type = 0; type < TYPES; type++)
        for (int i = 0; i < 4; i++)
            equal = equal && same(a->sums[type][i], b->sums[type][i]);
    return equal;
}

static void check_warp(void (*lane)(int, void *), void (*emulated_lane_)(int, void *))
{
    static warp_data got, want;
    for (int n = 0; n < (full ? 2000 : 2); n++) {
        draw_warp(&got, n % 4 == 3);
        want = got;
        ptx_warp(lane, &got);
        ptx_warp(emulated_lane_, &want);
        for (int i = 0; i < 32; i++)
            SAME("a lane", i, same_lane(&got.lane[i], &want.lane[i]));
    }
}

/* ---- all ---- */

template <class P> static void check_common()
{
    check_halves<P>();
    check_integers<P>();
    check_functions<P>();
    check_warp(shuffle_lane<P>, shuffle_lane<emulator>);
}

static void check_sm75()
{
    check_common<ptx_sm75>();
    check_types<ptx_sm75>();
    check_plain_copies<ptx_sm75>();
    check_warp(multiply_halves_lane<ptx_sm75>, multiply_halves_lane<emulator>);
}

static void check_sm80()
{
    check_common<ptx_sm80>();
    check_types<ptx_sm80>();
    check_copies<ptx_sm80>();
    check_warp(multiply_lane<ptx_sm80>, multiply_lane<emulator>);
}

/* A fault that is none: the smaller of two numbers, or the sum of their products, is that of them
 * the other way round. */
static bool is_none(const ptx_fault *f, const char *description)
{
    return f->kind == ptx_fault::PTX_SWAP && f->operand == 1 &&
           (!strncmp(description, "min.", 4) || !strncmp(description, "max.", 4) ||
            !strncmp(description, "dp4a.", 5));
}

/* Plants all faults of the statements; those that were not found count as mistakes. */
static void plant_all(int first, int end, void (*check)(), int *planted, int *missed)
{
    for (int site = first; site < end; site++)
        for (int n = 0; ptx_fault_of(&ptx_planted, site, n); n++) {
            char description[400];
            const ptx_fault fault = ptx_planted;
            ptx_describe(&fault, description, sizeof description);
            if (fault.kind == ptx_fault::PTX_NONE || is_none(&fault, description))
                continue;
            ptx_mistakes = 0;
            check();
            ++*planted;
            if (ptx_mistakes)
                continue;
            ++*missed;
            printf("FAIL planted and not found: %s\n", description);
        }
    ptx_planted.kind = ptx_fault::PTX_NONE;
}

static emulated_calls calls;

int main()
{
    int failed = 0, planted = 0, missed = 0;
    calls = emulated_calls{nullptr,         emulated_warp_sync,     emulated_shuffle,
                           emulated_ballot, emulated_load_matrices, emulated_multiply,
                           emulated_copy,   emulated_commit,        emulated_wait,
                           nullptr};
    emulated.calls = &calls;
    full = true;
    check_sm75();
    check_sm80();
    failed = ptx_mistakes;
    for (int site = 0; site < ptx_sm80::end_site; site++)
        if (!ptx_was_run(site)) {
            printf("FAIL asm statement %d was never run\n", site);
            failed++;
        }
    full = false;
    if (!failed) {
        plant_all(ptx_sm75::first_site, ptx_sm75::end_site, check_sm75, &planted, &missed);
        plant_all(ptx_sm80::first_site, ptx_sm80::end_site, check_sm80, &planted, &missed);
    }
    printf("%d asm statements, %d planted faults found\n", (int)ptx_sm80::end_site,
           planted - missed);
    printf("%d passed, %d failed, 0 skipped\n", ptx_sm80::end_site + planted - missed,
           failed + missed);
    return failed || missed || planted < 200;
}
