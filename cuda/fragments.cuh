/* fragments.cuh: code that programs for tensor cores share: numbers in units of 16 bytes, in which
 * they are moved through shared memory, and floats as sums of numbers that tensor cores
 * multiply. */

/* Bytes that one instruction moves: 4, 8 or 16. */
template <int BYTES> struct __align__(BYTES) fv_bytes
{
    uint w[BYTES / 4];
};
typedef fv_bytes<16> fv_words;

/* ---- numbers of a storage type C: float, half, or ushort for bfloat16 ---- */

/* How many numbers there are in fv_words. */
#define FV_PER_WORDS(C) ((int)(16 / sizeof(C)))

template <class C> struct fv_narrow; /* cells of 16 bits */
template <> struct fv_narrow<half> {
    static FV_DEVICE float from(ushort bits)
    {
        return fv_half_to_float(bits);
    }
    static FV_DEVICE uint pair(float low, float high)
    {
        return fv_half2_bits(low, high);
    }
};
template <> struct fv_narrow<ushort> {
    static FV_DEVICE float from(ushort bits)
    {
        return fv_float_of((uint)bits << 16);
    }
    static FV_DEVICE uint pair(float low, float high)
    {
        return fv_bf162_bits(low, high);
    }
};

/* Number i of a block's words. */
template <class C> inline float fv_number(const uint *words, int i)
{
    if constexpr (sizeof(C) == 4)
        return fv_float_of(words[i]);
    else
        return fv_narrow<C>::from((ushort)(words[i / 2] >> 16 * (i % 2)));
}

/* Rounds numbers to the nearest of storage type C; returns BYTES of them. */
template <class C, int BYTES> inline fv_bytes<BYTES> fv_bytes_of(const float *x)
{
    fv_bytes<BYTES> out;
#pragma unroll
    for (int i = 0; i < BYTES / 4; i++)
        if constexpr (sizeof(C) == 4)
            out.w[i] = fv_bits_of(x[i]);
        else
            out.w[i] = fv_narrow<C>::pair(x[2 * i], x[2 * i + 1]);
    return out;
}

inline float fv_read(const float *p)
{
    return *p;
}
inline float fv_read(const half *p)
{
    return fv_half_to_float(p->bits);
}
inline float fv_read(const ushort *p)
{
    return fv_float_of((uint)*p << 16);
}
inline void fv_write(float *p, float x)
{
    *p = x;
}
inline void fv_write(half *p, float x)
{
    p->bits = fv_float_to_half(x);
}
inline void fv_write(ushort *p, float x)
{
    *p = (ushort)fv_bf162_bits(x, 0.f);
}

template <class A, class B> struct fv_same {
    static constexpr bool value = false;
};
template <class A> struct fv_same<A, A> {
    static constexpr bool value = true;
};

/* ---- rows in global memory: `left` numbers from p on exist ---- */

/* How many bytes N numbers are moved by at a time. */
#define FV_MOVE(C, N) (N * sizeof(C) < 16 ? (int)(N * sizeof(C)) : 16)

/* Loads N numbers, with zeros past the end. WIDE: rows begin at multiples of 16 bytes. */
template <int N, bool WIDE, class C> inline void fv_load_row(float *x, const C *p, int left)
{
    const int bytes = FV_MOVE(C, N), n = bytes / (int)sizeof(C);
    if (WIDE && left >= N) {
#pragma unroll
        for (int i = 0; i < N / n; i++) {
            const fv_bytes<bytes> y = ((const fv_bytes<bytes> *)p)[i];
#pragma unroll
            for (int j = 0; j < n; j++)
                x[i * n + j] = fv_number<C>(y.w, j);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] = i < left ? fv_read(p + i) : 0.f;
}

/* Stores the first `left` of N numbers. */
template <int N, bool WIDE, class C> inline void fv_give(C *p, const float *x, int left)
{
    const int bytes = FV_MOVE(C, N), n = bytes / (int)sizeof(C);
    if (WIDE && left >= N) {
#pragma unroll
        for (int i = 0; i < N / n; i++)
            ((fv_bytes<bytes> *)p)[i] = fv_bytes_of<C, bytes>(x + i * n);
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        if (i < left)
            fv_write(p + i, x[i]);
}

/* 16 bytes of cells D. */
template <class D, bool WIDE, class C> inline fv_words fv_fetch(const C *from, int left)
{
    const int n = FV_PER_WORDS(D);
    if constexpr (WIDE && fv_same<C, D>::value)
        if (left >= n)
            return *(const fv_words *)from;
    float x[n];
    fv_load_row<n, WIDE>(x, from, left);
    return fv_bytes_of<D, 16>(x);
}

/* Copies numbers to shared memory. Asynchronously if they have the type D already and rows begin at
 * multiples of BYTES (4, 8 or 16), else through registers. */
template <class D, int BYTES, class C> inline void fv_copy_by(fv_words *to, const C *from, int left)
{
    if constexpr (BYTES >= 4 && fv_same<C, D>::value) {
        const int there = clamp(left * (int)sizeof(C), 0, 16);
#pragma unroll
        for (int at = 0; at < 16; at += BYTES) {
            const int part = clamp(there - at, 0, BYTES);
            const char *p = (const char *)from + (part ? at : 0);
            if constexpr (BYTES == 16)
                fv_cp_async16_part(to, p, part);
            else if constexpr (BYTES == 8)
                fv_cp_async8_part(to->w + at / 4, p, part);
            else
                fv_cp_async4_part(to->w + at / 4, p, part);
        }
    } else {
        *to = fv_fetch<D, BYTES == 16>(from, left);
    }
}

template <class D, bool WIDE, class C> inline void fv_copy(fv_words *to, const C *from, int left)
{
    fv_copy_by<D, WIDE ? 16 : 0>(to, from, left);
}

/* ---- over the four threads of a quad ---- */

inline float fv_quad_sum(float x)
{
    x += fv_shfl_xor(x, 1);
    return x + fv_shfl_xor(x, 2);
}
inline float fv_quad_max(float x)
{
    x = FV_MORE_OF(x, fv_shfl_xor(x, 1));
    return FV_MORE_OF(x, fv_shfl_xor(x, 2));
}

/* ---- floats as sums ---- */

/* Splits x into high + low with a relative error of 2^-23. Each has the 11 bits of significand that
 * tensor cores read of a float. If `high` would be infinite, it is 0 and `low` is x, so that
 * infinities are never subtracted from each other. */
inline void fv_split(float x, uint &high, uint &low)
{
    high = (fv_bits_of(x) + 0x1000u) & 0xffffe000u;
    high = fabs(fv_float_of(high)) < INFINITY ? high : 0u;
    low = fv_bits_of(x - fv_float_of(high)) & 0xffffe000u;
}

/* Four numbers of type C as two parts or as one. Numbers of 16 bits are exact in one part; floats
 * are rounded. */
struct fv_parts {
    uint high[4], low[4];
};
template <class C, int PARTS> inline void fv_set(fv_parts &to, int i, float x)
{
    if (PARTS > 1)
        fv_split(x, to.high[i], to.low[i]);
    else
        to.high[i] = sizeof(C) == 4 ? fv_tf32(x) : fv_bits_of(x);
}
