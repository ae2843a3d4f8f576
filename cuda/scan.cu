/* scan.cu: SCAN on tensor cores: causal linear attention with its state, 16 tokens at a time, as
 * scan.cl has it with FV_CHUNKED:
 *
 *     A_ij = q_i.k_j, j <= i, each product times the decays of the tokens j+1 .. i
 *     delta rule:  u_i = beta_i (v_i - (decays of 0 .. i) k_i S - sum_{j<i} B_ij u_j),
 *                  B of keys as A of queries, in place of V
 *     O = (decays of 0 .. i) Q S + A U;   S = (decays of all) S + ((those after j) K)^T U
 *
 * A work-group has a head and 64 value channels. A warp has 16 of them: their columns of the state
 * stay in its registers, transposed, as sums that the next chunk's products take as they are.
 *
 *                 feature 0 1 2 3 ..  8 nt + 2t, 8 nt + 2t + 1          thread (g, t), lane 4 g + t
 *     column g    |  S transposed  |      column g + 8 the same
 *
 * A and B are summed up without tensor cores: all decays between two tokens, of every channel, are
 * in their products, and no quotient is needed. All other products are of sums of tf32 numbers
 * (fv_split). What is added to the state is summed up for a chunk, and added once: tensor cores cut
 * sums off where others round.
 *
 * Nothing is multiplied with values of later tokens, not even by 0: they may be NaN.
 */
#include "fragments.cuh"
#include "scan_common.cl"
#include "row_statistics.cuh"

#define TOKENS 16
#define COLUMNS 64
#define SLICES ((FV_DV + COLUMNS - 1) / COLUMNS)
#define WIDTH (FV_BLOCKS * FV_D)   /* features of a token */
#define STATE_TILES ((WIDTH + 7) / 8)
#define PITCH ((WIDTH + 31) / 32 * 32 + 8) /* floats of a token: others lie in other banks */
#define VALUE_PITCH (COLUMNS + 8)
#define PAIR_PITCH (TOKENS + 4)
#define ITEMS ((2 * FV_D + FV_GROUP - 1) / FV_GROUP) /* channels of q or k that a thread reads */
#define VALUES (TOKENS * COLUMNS / FV_GROUP)

/* e^a x from e^a and what it lacks of 1, as in scan.cl. */
inline float faded(float x, float part, float lost)
{
    return part < 0.5f ? part * x : x - lost * x;
}

/* Four numbers as factors of tensor cores. */
typedef struct factors {
    uint high[4], low[4];
} factors;

inline factors factors_of(float a, float b, float c, float d)
{
    factors y;
    fv_split(a, y.high[0], y.low[0]);
    fv_split(b, y.high[1], y.low[1]);
    fv_split(c, y.high[2], y.low[2]);
    fv_split(d, y.high[3], y.low[3]);
    return y;
}

inline void multiply(float sum[4], const factors &a, float b0, float b1)
{
    uint high[2], low[2];
    fv_split(b0, high[0], low[0]);
    fv_split(b1, high[1], low[1]);
    fv_mma_tf32(sum, a.low, high);
    fv_mma_tf32(sum, a.high, low);
    fv_mma_tf32(sum, a.high, high);
}

/* Sums over a warp of 16 numbers: lane 2 i, and the next, get that of x[i]. */
inline float sum_of_sixteen(float x[TOKENS], uint lane)
{
    EACH(step, 4)
    {
        const int left = 8 >> step, mask = 16 >> step;
        EACH(i, left)
        {
            const float low = x[i], high = x[i + left];
            x[i] = (lane & mask ? high : low) + fv_shfl_xor(lane & mask ? low : high, mask);
        }
    }
    return x[0] + fv_shfl_xor(x[0], 1);
}

/* What belongs to a token. */
typedef struct token {
    float gate_q, gate_k, decay, beta;
} token;

kernel void scan(FV_IN(0), FV_IN(1), FV_IN(2), FV_IN(3), FV_IN(4), FV_IN(5), FV_IN(6), FV_OUT(7),
                 FV_OUT(8), FV_CALL)
{
    FV_SHARED float q[TOKENS * PITCH], k[TOKENS * PITCH], values[TOKENS * VALUE_PITCH];
    FV_SHARED float a[TOKENS * PAIR_PITCH], divisor[2][WIDTH], fade[2][STATE_TILES * 8];
    /* Of tokens: decay, and what it lacks of 1; decays since the begin and until the end of the
     * chunk; factors of q, k and the output. */
    FV_SHARED float part[TOKENS], lost[TOKENS], since[TOKENS], until[TOKENS], beta[TOKENS];
    FV_SHARED float scale_q[TOKENS], scale_k[TOKENS], scale_v[TOKENS], read[TOKENS];
#if DELTA
    FV_SHARED float b[TOKENS * PAIR_PITCH];
#endif
#if BY_CHANNEL
    FV_SHARED float parts[TOKENS * PITCH];
#endif
#if STATS
    FV_SHARED fv_row known[2 * TOKENS];
#endif
    const uint me = get_local_id(0), warp = me / 32, lane = me % 32, g = lane / 4, t = lane % 4;
    const uint head = get_group_id(0), step = u.s0 > 0 ? min(u.s0, (uint)TOKENS) : TOKENS;
    float *state = base7 + at7.x + (size_t)head * WIDTH * FV_DV;
    float *state_divisor = base7 + at7.x + ((size_t)FV_HEADS * FV_DV + head) * WIDTH;

    for (uint i = me; i < TOKENS * PITCH; i += FV_GROUP)
        q[i] = k[i] = 0.f;
    for (uint i = me; i < STATE_TILES * 8; i += FV_GROUP)
        fade[0][i] = fade[1][i] = 0.f;

    for (uint slice = get_group_id(1); slice < SLICES; slice += get_num_groups(1)) {
        const uint column = slice * COLUMNS + warp * 16 + g; /* and 8 more */
        float s[STATE_TILES][4];
        EACH(n, STATE_TILES)
        EACH(i, 4)
        {
            const uint c = 8 * n + 2 * t + i % 2, j = column + i / 2 * 8;
            s[n][i] = c < WIDTH && j < FV_DV ? state[(size_t)c * FV_DV + j] : 0.f;
        }
        uint now = 0; /* which divisor */
        for (uint c = me; NORMALISED && c < WIDTH; c += FV_GROUP)
            divisor[now][c] = state_divisor[c];

        /* What a thread reads of a chunk, while the one before is computed: channels of q and k,
         * numbered one after the other, and values. */
        float ahead[ITEMS][TOKENS], decays[BY_CHANNEL ? ITEMS : 1][TOKENS], some[VALUES];
        token own = {1.f, 1.f, 0.f, 0.f};
        const auto fetch = [&](uint row, uint n) {
            EACH(item, ITEMS)
            {
                const uint number = me + item * FV_GROUP, c = head * FV_D + number % FV_D;
                EACH(i, TOKENS)
                {
                    const bool there = i < n && number < 2 * FV_D;
                    const uint r = row + (there ? i : 0);
                    ahead[item][i] = !there            ? 0.f
                                     : number < FV_D ? FV_GET(0, FV_AT(0, r) + c)
                                                     : FV_GET(1, FV_AT(1, r) + c);
#if BY_CHANNEL
                    decays[item][i] =
                        there && number >= FV_D ? FV_GET(3, FV_AT(3, r) + c) : 0.f;
#endif
                }
            }
            EACH(i, VALUES)
            {
                const uint at = (me + i * FV_GROUP) / COLUMNS;
                const uint j = slice * COLUMNS + (me + i * FV_GROUP) % COLUMNS;
                some[i] = at < n && j < FV_DV ? FV_GET(2, FV_AT(2, row + at) + head * FV_DV + j)
                                              : 0.f;
            }
            if (me < n) {
#if GATED
                own.gate_q = FV_GET(5, FV_AT(5, row + me) + head);
                own.gate_k = FV_GET(6, FV_AT(6, row + me) + head);
#endif
                own.decay = BY_HEAD ? FV_GET(3, FV_AT(3, row + me) + head) : 0.f;
                own.beta = DELTA ? FV_GET(4, FV_AT(4, row + me) + head) : 1.f;
            } else {
                own = {1.f, 1.f, 0.f, 0.f};
            }
        };
        /* This thread's numbers of q and k as f of them. */
        const auto map = [&](const auto &f) {
            EACH(item, ITEMS)
            {
                const uint number = me + item * FV_GROUP, c = number % FV_D;
                const bool query = number < FV_D;
                EACH(i, TOKENS)
                if (number < 2 * FV_D)
                    f(query ? q : k, query, (uint)i, c, ahead[item][i]);
            }
        };

        fetch(0, min(step, rows));
        for (uint row = 0, n; row < rows; row += n) {
            n = min(step, rows - row);

            /* ---- features ---- */
            FV_BARRIER();
            if (me < TOKENS) {
                scale_q[me] = NORMALISED ? f.s0 : f.s0 * own.gate_q;
                scale_k[me] = DELTA ? 1.f : own.gate_k;
                scale_v[me] = DELTA ? own.gate_k : 1.f;
                read[me] = NORMALISED ? own.gate_q : 1.f;
                beta[me] = own.beta;
                part[me] = exp(own.decay);
                lost[me] = -expm1(own.decay);
            }
#if STATS
            map([&](float *to, bool query, uint i, uint c, float x) { to[i * PITCH + c] = x; });
            FV_BARRIER();
            {
                const int of_thread = (FV_D + 3) / 4;
                const uint at = me / 4 % TOKENS;
                const float *from = (warp < 2 ? q : k) + at * PITCH;
                float x[of_thread];
                EACH(i, of_thread)
                x[i] = 4 * i + t < FV_D ? from[4 * i + t] : 0.f;
                const auto there = [&](int i) { return 4 * i + t < FV_D; };
                const fv_row y = warp < 2
                                     ? fv_statistics<1, STATS, of_thread>(x, there, 1, 2, 0.f)
                                     : fv_statistics<0, FV_STATS_KEY, of_thread>(x, there, 1, 2, 0.f);
                if (t == 0)
                    known[me / 4] = y;
            }
#endif
            FV_BARRIER();
            map([&](float *to, bool query, uint i, uint c, float x) {
                float out_q[FV_BLOCKS], out_k[FV_BLOCKS];
#if STATS
                const fv_row r = known[(query ? 0 : TOKENS) + i];
#else
                const fv_row r = {{0.f, 0.f}, {0.f, 0.f, 0.f}, 0.f};
#endif
                if (query)
                    fv_phi(out_q, 1, x, r);
                else
                    fv_phi(out_k, 0, x, r);
                const float scale = UNIT ? 1.f : query ? scale_q[i] : scale_k[i];
                EACH(block, FV_BLOCKS)
                to[i * PITCH + block * FV_D + c] =
                    i < n ? scale * (query ? out_q[block] : out_k[block]) : 0.f;
            });
            EACH(i, VALUES)
            {
                const uint at = (me + i * FV_GROUP) / COLUMNS, j = (me + i * FV_GROUP) % COLUMNS;
                values[at * VALUE_PITCH + j] = at < n ? scale_v[at] * some[i] : 0.f;
            }
#if BY_CHANNEL
            float gone[ITEMS][TOKENS]; /* what decays lack of 1 */
            EACH(item, ITEMS)
            {
                const uint number = me + item * FV_GROUP;
                EACH(i, TOKENS)
                {
                    gone[item][i] = -expm1(decays[item][i]);
                    if (number >= FV_D && number < 2 * FV_D)
                        parts[i * PITCH + number - FV_D] = exp(decays[item][i]);
                }
            }
#endif
            if (row + n < rows)
                fetch(row + n, min(step, rows - row - n));
            FV_BARRIER();
            if (UNIT) {
                /* Four threads have a row of q or k. */
                const uint at = me / 4 % TOKENS;
                float *to = (warp < 2 ? q : k) + at * PITCH, square = 0.f;
                for (uint c = t; c < WIDTH; c += 4)
                    square += to[c] * to[c];
                square += fv_shfl_xor(square, 1);
                square += fv_shfl_xor(square, 2);
                const float scale = (warp < 2 ? scale_q : scale_k)[at] / sqrt(square + 1e-6f);
                for (uint c = t; c < WIDTH; c += 4)
                    to[c] *= scale;
                FV_BARRIER();
            }

            /* ---- products of tokens: a warp has every fourth key ---- */
            if (me < TOKENS) {
                float from = 1.f, to = 1.f;
                for (uint m = 0; BY_HEAD && m <= me; m++)
                    from *= part[m];
                for (uint m = me + 1; BY_HEAD && m < n; m++)
                    to *= part[m];
                since[me] = from;
                until[me] = to;
            }
            EACH(turn, TOKENS / 4)
            {
                const uint j = 4 * turn + warp;
                float of_q[TOKENS] = {}, of_k[TOKENS] = {};
                for (uint c = lane; c < WIDTH; c += 32) {
                    float key = k[j * PITCH + c];
                    EACH(i, TOKENS)
                    if (i >= 4 * turn && i >= j) {
#if BY_CHANNEL
                        if (i > j)
                            key *= parts[i * PITCH + c];
#else
                        if (BY_HEAD && i > j)
                            key *= part[i];
#endif
                        of_q[i] += q[i * PITCH + c] * key;
                        if (DELTA)
                            of_k[i] += k[i * PITCH + c] * key;
                    }
                }
                const float sum = sum_of_sixteen(of_q, lane);
                if (lane % 2 == 0)
                    a[lane / 2 * PAIR_PITCH + j] = sum;
#if DELTA
                const float other = sum_of_sixteen(of_k, lane);
                if (lane % 2 == 0)
                    b[lane / 2 * PAIR_PITCH + j] = other;
#endif
            }
            FV_BARRIER();

            /* ---- decays since the chunk's begin and until its end; the divisor ---- */
            float all = since[n - 1], all_gone = 0.f;
            for (uint i = 0; BY_HEAD && i < n; i++)
                all_gone += lost[i] * (i > 0 ? since[i - 1] : 1.f);
#if BY_CHANNEL
            EACH(item, ITEMS)
            {
                const uint number = me + item * FV_GROUP, c = number % FV_D;
                float from = 1.f, to = 1.f, away = 0.f, sum = 0.f;
                if (number < FV_D) {
                    EACH(i, TOKENS)
                    {
                        from *= i < n ? parts[i * PITCH + c] : 1.f;
                        q[i * PITCH + c] *= from;
                    }
                } else if (number < 2 * FV_D) {
                    EACH(i, TOKENS)
                    if (i < n) {
                        away += gone[item][i] * from;
                        from *= parts[i * PITCH + c];
                    }
                    EACH(i, TOKENS)
                    {
                        const uint at = TOKENS - 1 - i;
                        if (at < n) {
                            sum += k[at * PITCH + c] *= to;
                            to *= parts[at * PITCH + c];
                        }
                    }
                    fade[0][c] = from;
                    fade[1][c] = away;
                    if (NORMALISED)
                        divisor[1 - now][c] = faded(divisor[now][c], from, away) + sum;
                }
            }
            FV_BARRIER();
#else
            for (uint c = me; NORMALISED && c < WIDTH; c += FV_GROUP) {
                float sum = 0.f;
                for (uint i = 0; i < n; i++)
                    sum += until[i] * k[i * PITCH + c];
                const float was = divisor[now][c];
                divisor[1 - now][c] = (BY_HEAD ? faded(was, all, all_gone) : was) + sum;
            }
#endif
            if (NORMALISED) {
                /* Eight threads have a token. A value of 1 is what the divisor is of. */
                const uint at = me / 8, first_of = me % 8;
                float sum = 0.f;
                for (uint c = first_of; c < WIDTH; c += 8)
                    sum += q[at * PITCH + c] * divisor[now][c];
                sum *= since[at];
                for (uint j = first_of; j <= at; j += 8)
                    sum += a[at * PAIR_PITCH + j];
                for (int mask = 1; mask < 8; mask *= 2)
                    sum += fv_shfl_xor(sum, mask);
                if (first_of == 0)
                    read[at] /= sum + f.s1;
                now = 1 - now;
                FV_BARRIER();
            }

            /* ---- the chunk against the state ---- */
            float out[2][4] = {}, held[2][4] = {};
            EACH(i, STATE_TILES)
            {
                const factors x = factors_of(s[i][0], s[i][2], s[i][1], s[i][3]);
                EACH(m, 2)
                {
                    const uint at = (8 * m + g) * PITCH + 8 * i + 2 * t;
                    multiply(out[m], x, q[at], q[at + 1]);
                    if (DELTA)
                        multiply(held[m], x, k[at], k[at + 1]);
                }
            }
            float *mine = values + warp * 16; /* the warp's columns */
#if DELTA
            EACH(m, 2)
            EACH(i, 4)
            {
                const uint at = 8 * m + 2 * t + i % 2;
                mine[at * VALUE_PITCH + g + i / 2 * 8] -= since[at] * held[m][i];
            }
            fv_warp_sync();
            if (lane < 16) {
                float x[TOKENS];
                EACH(i, TOKENS)
                {
                    x[i] = mine[i * VALUE_PITCH + lane];
                    EACH(j, i)
                    x[i] -= b[i * PAIR_PITCH + j] * x[j];
                    x[i] *= beta[i];
                    mine[i * VALUE_PITCH + lane] = x[i];
                }
            }
            fv_warp_sync();
#endif
            float value[2][4]; /* tokens t and t + 4 of eight, columns g and g + 8 */
            bool finite = true;
            EACH(h, 2)
            EACH(i, 4)
            {
                value[h][i] = mine[(8 * h + t + i / 2 * 4) * VALUE_PITCH + g + i % 2 * 8];
                finite = finite && fabs(value[h][i]) <= FLT_MAX;
            }
            EACH(m, 2)
            EACH(i, 4)
            out[m][i] *= since[8 * m + 2 * t + i % 2];
            if (fv_ballot(!finite)) {
                EACH(m, 2)
                EACH(i, 4)
                {
                    const uint at = 8 * m + 2 * t + i % 2;
                    for (uint j = 0; j <= at; j++)
                        out[m][i] +=
                            a[at * PAIR_PITCH + j] * mine[j * VALUE_PITCH + g + i / 2 * 8];
                }
            } else {
                EACH(h, 2)
                {
                    const factors x =
                        factors_of(value[h][0], value[h][1], value[h][2], value[h][3]);
                    EACH(m, 2)
                    {
                        const float *pair = a + (8 * m + g) * PAIR_PITCH + 8 * h + t;
                        if (m >= h)
                            multiply(out[m], x, pair[0], pair[4]);
                    }
                }
            }
            EACH(m, 2)
            EACH(i, 4)
            {
                const uint at = 8 * m + 2 * t + i % 2, j = column + i / 2 * 8;
                if (at < n && j < FV_DV)
                    FV_PUT(8, FV_AT(8, row + at) + head * FV_DV + j, out[m][i] * read[at]);
            }

            /* ---- the state ---- */
            factors x[2];
            EACH(h, 2)
            {
                const float early = until[8 * h + t], late = until[8 * h + t + 4];
                x[h] = factors_of(early * value[h][0], early * value[h][1], late * value[h][2],
                                  late * value[h][3]);
            }
            EACH(i, STATE_TILES)
            {
                float more[4] = {};
                EACH(h, 2)
                {
                    const float *key = k + (8 * h + t) * PITCH + 8 * i + g;
                    multiply(more, x[h], key[0], key[4 * PITCH]);
                }
                EACH(e, 4)
                {
#if BY_CHANNEL
                    const uint c = 8 * i + 2 * t + e % 2;
                    all = fade[0][c];
                    all_gone = fade[1][c];
#endif
                    s[i][e] = (FADING ? faded(s[i][e], all, all_gone) : s[i][e]) + more[e];
                }
            }
        }

        EACH(n, STATE_TILES)
        EACH(i, 4)
        {
            const uint c = 8 * n + 2 * t + i % 2, j = column + i / 2 * 8;
            if (c < WIDTH && j < FV_DV)
                state[(size_t)c * FV_DV + j] = s[n][i];
        }
        if (NORMALISED) {
            FV_BARRIER();
            /* Slices of a head come one after the other: all begin with what was there. */
            for (uint c = me; slice == SLICES - 1 && c < WIDTH; c += FV_GROUP)
                state_divisor[c] = divisor[now][c];
            FV_BARRIER();
        }
    }
}
