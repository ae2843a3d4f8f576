/* scan_chunk.cuh: a chunk of tokens of scan.cu: loads it in advance, and computes features, decays,
 * products between tokens and the divisor. The state is in scan_state.cuh.
 */

#define TOKENS 16
#define COLUMNS 64
#define SLICES ((FV_DV + COLUMNS - 1) / COLUMNS)
#define WIDTH (FV_BLOCKS * FV_D) /* features of a token */
#define STATE_TILES ((WIDTH + 7) / 8)
/* Stride of tokens in floats; tokens are in different banks. */
#define PITCH ((WIDTH + 31) / 32 * 32 + 8)
#define VALUE_PITCH (COLUMNS + 8)
#define PAIR_PITCH (TOKENS + 4)
#define LEAST (WIDTH <= 64 ? 3 : 2) /* work-groups of a unit */
#define PARTED (WIDTH <= 64)        /* features are also stored as the parts of fv_split */
#define VALUES (TOKENS * COLUMNS / FV_GROUP)

/* e^a x from e^a (`part`) and 1 - e^a (`lost`), as in scan.cl. */
inline float faded(float x, float part, float lost)
{
    return part < 0.5f ? part * x : x - lost * x;
}

/* Four numbers as operands of tensor cores: each is split into a high and a low part. */
typedef struct split4 {
    uint high[4], low[4];
} split4;

inline split4 split4_of(float a, float b, float c, float d)
{
    split4 y;
    fv_split(a, y.high[0], y.low[0]);
    fv_split(b, y.high[1], y.low[1]);
    fv_split(c, y.high[2], y.low[2]);
    fv_split(d, y.high[3], y.low[3]);
    return y;
}

/* Two numbers, split in the same way. */
typedef struct __align__(16) couple
{
    uint high[2], low[2];
}
couple;

inline couple couple_of(float a, float b)
{
    couple y;
    fv_split(a, y.high[0], y.low[0]);
    fv_split(b, y.high[1], y.low[1]);
    return y;
}

inline void multiply(float sum[4], const split4 &a, const couple &b)
{
    fv_mma_tf32(sum, a.low, b.high);
    fv_mma_tf32(sum, a.high, b.low);
    fv_mma_tf32(sum, a.high, b.high);
}

/* Features of a chunk's tokens, with a stride of PITCH: as floats and, if PARTED, in pairs as
 * operands. Otherwise each warp would have to make these for itself. */
typedef struct features {
    float x[TOKENS * PITCH];
    couple two[PARTED ? TOKENS * PITCH / 2 : 1];
} features;

/* An index is the sum of a thread's part and of `further`, which the compiler knows. So all
 * addresses of a loop are one register plus constants. `further` is even. */

/* Number `at` + `further`. */
inline void set_part(features &f, uint at, int further, float x)
{
    couple *two = f.two + at / 2 + further / 2;
    if (PARTED)
        fv_split(x, two->high[at % 2], two->low[at % 2]);
}

/* Numbers `at` + `further`, where `at` is even, and the next one. */
inline couple next_to(const features &f, uint at, int further)
{
    const float *x = f.x + at + further;
    return PARTED ? (f.two + at / 2)[further / 2] : couple_of(x[0], x[1]);
}

/* Number `at` + `further`, and that of the fourth token after it. */
inline couple below(const features &f, uint at, int further)
{
    const float *x = f.x + at + further;
    if (!PARTED)
        return couple_of(x[0], x[4 * PITCH]);
    const couple *two = f.two + at / 2 + further / 2;
    const uint i = at % 2;
    return {{two[0].high[i], two[2 * PITCH].high[i]}, {two[0].low[i], two[2 * PITCH].low[i]}};
}

#if BY_CHANNEL
/* Sums 16 numbers over a warp: lanes 2 i and 2 i + 1 get the sum of x[i]. */
inline float sum_of_sixteen(float x[TOKENS], uint lane)
{
    EACH(step, 4) {
        const int left = 8 >> step, mask = 16 >> step;
        EACH(i, left) {
            const float low = x[i], high = x[i + left];
            x[i] = (lane & mask ? high : low) + fv_shfl_xor(lane & mask ? low : high, mask);
        }
    }
    return x[0] + fv_shfl_xor(x[0], 1);
}
#endif

/* Loads a channel of n tokens; zero for other tokens. */
template <class C> inline void channel_of(float x[TOKENS], const C *from, uint ld, uint n)
{
    EACH(i, TOKENS) {
        x[i] = i < n ? fv_read(from) : 0.f;
        from += ld;
    }
}

/* What belongs to a token. */
typedef struct token {
    float gate_q, gate_k, decay, beta;
} token;

/* The shared memory of a work-group. */
typedef struct chunk_memory {
    features q, k;
    float values[TOKENS * VALUE_PITCH];
    float a[TOKENS * PAIR_PITCH], b[DELTA ? TOKENS * PAIR_PITCH : 1];
    float divisor[2][WIDTH], fade[2][STATE_TILES * 8];
    /* For each token: the decay, and 1 - decay; the products of decays since the beginning and
     * until the end of the chunk; factors of q, k and the output. */
    float part[TOKENS], lost[TOKENS], since[TOKENS], until[TOKENS], beta[TOKENS];
    float whole[2]; /* the product of all its tokens' decays, and 1 - that */
    float scale_q[TOKENS], scale_k[TOKENS], scale_v[TOKENS], read[TOKENS];
#if BY_CHANNEL
    float parts[TOKENS * PITCH];
#endif
#if STATS
    fv_row known[2 * TOKENS];
#endif
} chunk_memory;

/* A thread's position: in the work-group, in its warp, in a tile of tensor cores; its head. */
typedef struct place {
    uint me, warp, lane, g, t, head;
} place;

/* A thread's channels of q, which only outputs need, followed by those of k. */
template <bool STATES> struct numbers {
    static constexpr int FIRST = STATES ? FV_D : 0;
    static constexpr int ITEMS = (2 * FV_D - FIRST + FV_GROUP - 1) / FV_GROUP;
};
#define ITEMS numbers<STATES>::ITEMS
#define NUMBER(p, item) (numbers<STATES>::FIRST + (p).me + (item)*FV_GROUP)

/* What a thread loads of the next chunk while the current one is computed: channels of q and k, and
 * values. */
template <bool STATES> struct loaded_chunk {
    float channel[ITEMS][TOKENS], decays[BY_CHANNEL ? ITEMS : 1][TOKENS], some[VALUES];
    token own;
};

/* Loads `n` tokens from `row` on. The value channels are those of a slice; values are 0 if T is
 * computed. */
template <bool STATES>
inline void read_chunk(OPERANDS, loaded_chunk<STATES> &to, const place &p, uint slice, bool passing,
                       uint row, uint n)
{
    const uint me = p.me, head = p.head;
    EACH(item, ITEMS) {
        const uint number = NUMBER(p, item), c = head * FV_D + number % FV_D;
        if (number < FV_D)
            channel_of(to.channel[item], FV_AT(0, row) + c, at0.y, n);
        else if (number < 2 * FV_D)
            channel_of(to.channel[item], FV_AT(1, row) + c, at1.y, n);
#if BY_CHANNEL
        if (number >= FV_D && number < 2 * FV_D)
            channel_of(to.decays[item], FV_AT(3, row) + c, at3.y, n);
#endif
    }
    const uint j = slice * COLUMNS + me % COLUMNS;
    const auto *from = FV_AT(2, row + me / COLUMNS) + head * FV_DV + j;
    const bool there = j < FV_DV && !passing;
    EACH(i, VALUES) {
        const uint at = me / COLUMNS + i * (FV_GROUP / COLUMNS);
        to.some[i] = there && at < n ? FV_GET(2, from) : 0.f;
        from += (size_t)(FV_GROUP / COLUMNS) * at2.y;
    }
    if (me < n) {
#if GATED
        to.own.gate_q = FV_HAS5 ? FV_GET(5, FV_AT(5, row + me) + head) : 1.f;
        to.own.gate_k = FV_GET(6, FV_AT(6, row + me) + head);
#endif
        to.own.decay = BY_HEAD ? FV_GET(3, FV_AT(3, row + me) + head) : 0.f;
        to.own.beta = DELTA ? FV_GET(4, FV_AT(4, row + me) + head) : 1.f;
    } else {
        to.own = {1.f, 1.f, 0.f, 0.f};
    }
}

/* ---- features ---- */

inline void set_tokens(chunk_memory &m, const place &p, const token &own, float scale)
{
    if (p.me >= TOKENS)
        return;
    m.scale_q[p.me] = NORMALISED ? scale : scale * own.gate_q;
    m.scale_k[p.me] = DELTA ? 1.f : own.gate_k;
    m.scale_v[p.me] = DELTA ? own.gate_k : 1.f;
    m.read[p.me] = NORMALISED ? own.gate_q : 1.f;
    m.beta[p.me] = own.beta;
    m.part[p.me] = exp(own.decay);
    m.lost[p.me] = -expm1(own.decay);
}

/* Calls put(features, whether they are of q, token, channel, number) for each of this thread's
 * numbers of a chunk. */
template <bool STATES, class F>
inline void each_number(chunk_memory &m, const place &p, const loaded_chunk<STATES> &x,
                        const F &put)
{
    EACH(item, ITEMS) {
        const uint number = NUMBER(p, item), c = number % FV_D;
        const bool query = number < FV_D;
        EACH(i, TOKENS)
            if (number < 2 * FV_D)
                put(query ? m.q : m.k, query, i, c, x.channel[item][i]);
    }
}

#if STATS
template <bool STATES>
inline void row_statistics(chunk_memory &m, const place &p, const loaded_chunk<STATES> &x)
{
    each_number<STATES>(m, p, x, [&](features &to, bool query, int i, uint c, float number) {
        (to.x + c)[i * PITCH] = number;
    });
    FV_BARRIER();
    const int of_thread = (FV_D + 3) / 4;
    const uint at = p.me / 4 % TOKENS, t = p.t;
    const float *from = (p.warp < 2 ? m.q : m.k).x + at * PITCH;
    float row[of_thread];
    EACH(i, of_thread)
        row[i] = 4 * i + t < FV_D ? from[4 * i + t] : 0.f;
    const auto there = [&](int i) { return 4 * i + t < FV_D; };
    const fv_row y = p.warp < 2 ? fv_statistics<1, STATS, of_thread>(row, there, 1, 2, 0.f)
                                : fv_statistics<0, FV_STATS_KEY, of_thread>(row, there, 1, 2, 0.f);
    if (t == 0)
        m.known[p.me / 4] = y;
}
#endif

/* Stores features and values of a chunk of n tokens. */
template <bool STATES>
inline void make_features(chunk_memory &m, const place &p, const loaded_chunk<STATES> &x, uint n)
{
    each_number<STATES>(m, p, x, [&](features &to, bool query, int i, uint c, float number) {
        float out_q[FV_BLOCKS], out_k[FV_BLOCKS];
#if STATS
        const fv_row r = m.known[(query ? 0 : TOKENS) + i];
#else
        const fv_row r = {{0.f, 0.f}, {0.f, 0.f, 0.f}, 0.f, 0.f};
#endif
        if (query)
            fv_phi(out_q, 1, number, r);
        else
            fv_phi(out_k, 0, number, r);
        const float scale = UNIT ? 1.f : query ? m.scale_q[i] : m.scale_k[i];
        EACH(block, FV_BLOCKS) {
            const uint at = block * FV_D + c;
            const float x = (uint)i < n ? scale * (query ? out_q[block] : out_k[block]) : 0.f;
            (to.x + at)[i * PITCH] = x;
            if (!UNIT && !BY_CHANNEL)
                set_part(to, at, i * PITCH, x);
        }
    });
    const uint first_of = p.me / COLUMNS;
    float *value = m.values + first_of * VALUE_PITCH + p.me % COLUMNS;
    const float *scale = m.scale_v + first_of;
    EACH(i, VALUES) {
        const int at = i * (FV_GROUP / COLUMNS);
        value[at * VALUE_PITCH] = first_of + at < n ? scale[at] * x.some[i] : 0.f;
    }
}

/* Normalises rows of q and k to length 1, then multiplies them by their factors; four threads have
 * a row. */
inline void make_unit(chunk_memory &m, const place &p)
{
    const uint token = p.me / 4 % TOKENS;
    features &of = p.warp < 2 ? m.q : m.k;
    float square = 0.f;
    for (uint c = p.t; c < WIDTH; c += 4)
        square += of.x[token * PITCH + c] * of.x[token * PITCH + c];
    const float length = sqrt(fv_quad_sum(square) + 1e-6f);
    const float scale = (p.warp < 2 ? m.scale_q : m.scale_k)[token] / length;
    for (uint c = 2 * p.t; c < WIDTH; c += 8) {
        const uint at = token * PITCH + c; /* and the next one, which may be a zero */
        of.x[at] *= scale;
        of.x[at + 1] *= scale;
        if (PARTED && !BY_CHANNEL)
            of.two[at / 2] = couple_of(of.x[at], of.x[at + 1]);
    }
}

/* ---- decays ---- */

/* D of this thread's channels of k, or in [0] that of the head, and 1 - D. */
template <bool STATES> struct decay_of_all {
    float part[ITEMS], lost[ITEMS];
};

#if BY_CHANNEL
/* Computes the decays of channels, token by token, and their product over the chunk. */
template <bool STATES>
inline void channel_decays(chunk_memory &m, const place &p, const loaded_chunk<STATES> &x,
                           decay_of_all<STATES> &all)
{
    EACH(item, ITEMS) {
        const uint number = NUMBER(p, item), c = number - FV_D;
        float from = 1.f, sum = 0.f;
        if (number >= FV_D && number < 2 * FV_D) {
            EACH(i, TOKENS) {
                const float now = exp(x.decays[item][i]);
                sum += x.decays[item][i];
                from *= now;
                (m.parts + c)[i * PITCH] = now;
            }
            const float away = -expm1(sum);
            m.fade[0][c] = from;
            m.fade[1][c] = away;
            all.lost[item] += away * all.part[item];
            all.part[item] *= from;
        }
    }
}
#endif

/* Run by the first warp: the products of decays from the first token on, and of those after each
 * token. */
inline void token_decays(chunk_memory &m, uint lane)
{
    const uint here = lane % TOKENS;
    const float own_part = BY_HEAD ? m.part[here] : 1.f;
    float from = own_part, to = own_part;
    EACH(level, BY_HEAD ? 4 : 0) {
        const int far = 1 << level;
        const float before = fv_shfl_up(from, far), behind = fv_shfl_down(to, far);
        from *= here >= (uint)far ? before : 1.f;
        to *= here + far < TOKENS ? behind : 1.f;
    }
    const float before = fv_shfl_up(from, 1), behind = fv_shfl_down(to, 1);
    float gone = m.lost[here] * (here > 0 ? before : 1.f);
    EACH(level, BY_HEAD ? 4 : 0)
        gone += fv_shfl_xor(gone, 1 << level);
    if (lane < TOKENS) {
        m.since[here] = from;
        m.until[here] = BY_HEAD && here + 1 < TOKENS ? behind : 1.f;
    }
    if (lane == TOKENS - 1) {
        m.whole[0] = from;
        m.whole[1] = BY_HEAD ? gone : 0.f;
    }
}

/* ---- products of tokens: A, and by the delta rule B ---- */

#if BY_CHANNEL
/* A warp computes every fourth key. */
template <bool STATES> inline void token_products(chunk_memory &m, const place &p)
{
    EACH(pass, STATES ? 0 : TOKENS / 4) {
        const uint j = 4 * pass + p.warp;
        float sums[TOKENS] = {};
        EACH(run, (WIDTH + 31) / 32) {
            /* Beyond the last channel there are zeros. */
            const uint c = run * 32 + p.lane;
            const float *part = m.parts + p.lane + run * 32, *query = m.q.x + p.lane + run * 32;
            float key = (m.k.x + j * PITCH + p.lane)[run * 32];
            EACH(i, TOKENS)
                if (i >= 4 * pass) {
                    const float fades = i > 4 * pass + 3 || i > j ? part[i * PITCH] : 1.f;
                    key *= WIDTH % 32 == 0 || c < WIDTH ? fades : 1.f;
                    sums[i] += i > 4 * pass + 3 || i >= j ? query[i * PITCH] * key : 0.f;
                }
        }
        const float sum = sum_of_sixteen(sums, p.lane);
        if (p.lane % 2 == 0)
            m.a[p.lane / 2 * PAIR_PITCH + j] = sum;
    }
}
#else
/* Two warps compute A, eight keys each, the others B. */
template <bool STATES> inline void token_products(chunk_memory &m, const place &p)
{
    if (!(p.warp < 2 ? !STATES : DELTA))
        return;
    const uint key = p.warp % 2 * 8;
    float sum[4] = {};
    /* Each sum continues the previous one. All of them at once would take more registers, and no
     * less time. */
#pragma unroll 4
    for (int i = 0; i < STATE_TILES; i++) {
        const uint at = p.g * PITCH + 2 * p.t;
        const couple low = next_to(p.warp < 2 ? m.q : m.k, at, 8 * i);
        const couple high = next_to(p.warp < 2 ? m.q : m.k, at, 8 * (i + PITCH));
        const split4 x = {{low.high[0], high.high[0], low.high[1], high.high[1]},
                          {low.low[0], high.low[0], low.low[1], high.low[1]}};
        multiply(sum, x, next_to(m.k, key * PITCH + at, 8 * i));
    }
    const uint j = key + 2 * p.t;
    EACH(e, 2) {
        const uint i = p.g + 8 * e;
        float late = 1.f; /* product of the decays of tokens j + 2 .. i */
        EACH(between, BY_HEAD ? TOKENS : 0)
            late *= between > j + 1 && between <= i ? m.part[between] : 1.f;
        const float both = BY_HEAD ? late * m.part[j + 1] : 1.f;
        float *pair = (p.warp < 2 ? m.a : m.b) + i * PAIR_PITCH + j;
        pair[0] = j < i ? both * sum[2 * e] : j == i ? sum[2 * e] : 0.f;
        pair[1] = j + 1 <= i ? late * sum[2 * e + 1] : 0.f;
    }
}
#endif

/* ---- the divisor, and products of decays since the chunk's beginning and until its end ---- */

#if BY_CHANNEL
template <bool STATES> inline void fade_features(chunk_memory &m, const place &p, uint now)
{
    EACH(item, ITEMS) {
        const uint number = NUMBER(p, item), c = number % FV_D;
        const float *part = m.parts + c;
        float from = 1.f, to = 1.f, sum = 0.f;
        if (number < FV_D) {
            EACH(i, TOKENS) {
                from *= part[i * PITCH];
                set_part(m.q, c, i * PITCH, (m.q.x + c)[i * PITCH] *= from);
            }
        } else if (number < 2 * FV_D) {
            EACH(i, TOKENS) {
                const int at = (TOKENS - 1 - i) * PITCH;
                const float x = (m.k.x + c)[at] *= to;
                sum += x;
                set_part(m.k, c, at, x);
                to *= part[at];
            }
            if (NORMALISED)
                m.divisor[1 - now][c] = faded(m.divisor[now][c], m.fade[0][c], m.fade[1][c]) + sum;
        }
    }
}
#else
inline void add_to_divisor(chunk_memory &m, const place &p, uint now, uint n)
{
    for (uint c = p.me; NORMALISED && c < WIDTH; c += FV_GROUP) {
        float sum = 0.f;
        for (uint i = 0; i < n; i++)
            sum += m.until[i] * m.k.x[i * PITCH + c];
        const float was = m.divisor[now][c];
        m.divisor[1 - now][c] = (BY_HEAD ? faded(was, m.whole[0], m.whole[1]) : was) + sum;
    }
}
#endif

/* Computes the divisor; eight threads have a token. The divisor is like an output whose value is
 * always 1. */
inline void divide(chunk_memory &m, const place &p, uint now, float epsilon)
{
    const uint at = p.me / 8, first_of = p.me % 8;
    float sum = 0.f;
    for (uint c = first_of; c < WIDTH; c += 8)
        sum += m.q.x[at * PITCH + c] * m.divisor[now][c];
    sum *= m.since[at];
    for (uint j = first_of; j <= at; j += 8)
        sum += m.a[at * PAIR_PITCH + j];
    for (int mask = 1; mask < 8; mask *= 2)
        sum += fv_shfl_xor(sum, mask);
    if (first_of == 0)
        m.read[at] /= sum + epsilon;
}

/* ---- all of it ---- */

/* Computes features, products of tokens and the divisor for the chunk of n tokens in `loaded`. Then
 * loads the following chunk into it: `next` tokens from `row` on, or none. */
template <bool STATES>
inline void prepare_chunk(OPERANDS, chunk_memory &m, const place &p, loaded_chunk<STATES> &loaded,
                          decay_of_all<STATES> &all, uint slice, bool passing, uint now, uint n,
                          uint row, uint next)
{
    FV_BARRIER();
    set_tokens(m, p, loaded.own, f.s0);
#if STATS
    row_statistics<STATES>(m, p, loaded);
#endif
    FV_BARRIER();
    make_features<STATES>(m, p, loaded, n);
#if BY_CHANNEL
    channel_decays<STATES>(m, p, loaded, all);
#endif
    if (next)
        read_chunk<STATES>(OPERANDS_GIVEN, loaded, p, slice, passing, row, next);
    FV_BARRIER();
    if (UNIT) {
        make_unit(m, p);
        FV_BARRIER();
    }
    if (p.warp == 0)
        token_decays(m, p.lane);
    token_products<STATES>(m, p);
    FV_BARRIER();
#if BY_CHANNEL
    fade_features<STATES>(m, p, now);
    FV_BARRIER();
#else
    all.lost[0] += m.whole[1] * all.part[0];
    all.part[0] *= m.whole[0];
    add_to_divisor(m, p, now, n);
#endif
    if (NORMALISED && !STATES) {
        divide(m, p, now, f.s1);
        FV_BARRIER();
    }
}
