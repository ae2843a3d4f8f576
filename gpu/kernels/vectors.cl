/* vectors.cl: what kernels share that have 16 channels of a row in a vector, for devices whose
 * work-items run one after the other. */

#define PAD(n) (((n) + 15) / 16 * 16)

FV_FN float16 first_n(float16 x, uint n, float16 rest)
{
    const int16 lane = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return n >= 16 ? x : lane < (int16)(int)n ? x : rest;
}

/* The first n numbers of operand X at p, zeros after them. */
#define DEFINE_LOAD(name, X)                                                                       \
    FV_FN float16 name(global const FV_CELL(X) *p, uint n)                                         \
    {                                                                                              \
        if (n >= 16)                                                                               \
            return FV_GET16(X, p);                                                                 \
        float part[16];                                                                            \
        for (uint i = 0; i < 16; i++)                                                              \
            part[i] = i < n ? FV_GET(X, p + i) : 0.f;                                              \
        return vload16(0, part);                                                                   \
    }

/* The first n numbers of x to operand X at p. */
#define DEFINE_STORE(name, X)                                                                      \
    FV_FN void name(global FV_CELL(X) *p, float16 x, uint n)                                       \
    {                                                                                              \
        if (n >= 16) {                                                                             \
            FV_PUT16(X, p, x);                                                                     \
            return;                                                                                \
        }                                                                                          \
        float part[16];                                                                            \
        vstore16(x, 0, part);                                                                      \
        for (uint i = 0; i < n; i++)                                                               \
            FV_PUT(X, p + i, part[i]);                                                             \
    }

FV_FN float sum_of(float16 x)
{
    const float8 a = x.lo + x.hi;
    const float4 b = a.lo + a.hi;
    return b.x + b.y + (b.z + b.w);
}

FV_FN float max_of(float16 x)
{
    const float8 a = fmax(x.lo, x.hi);
    const float4 b = fmax(a.lo, a.hi);
    return fmax(fmax(b.x, b.y), fmax(b.z, b.w));
}

/* Prefetches [p, p + n). A head's part of a row is too short for the processor to predict the next
 * row. */
#if defined(__x86_64__) || defined(__aarch64__) /* a simulator of OpenCL does not know it */
#define SOON(p, n)                                                                                 \
    for (uint i_ = 0; i_ < (n); i_ += 64 / sizeof *(p))                                            \
    __builtin_prefetch((const void *)(size_t)((p) + i_))
#else
#define SOON(p, n)
#endif
