/* scan.cl: SCAN: causal linear attention with its state, over the features of a mechanism. A
 * work-group computes a head and a slice of the value channels, since no column of the state
 * depends on another. Tokens are processed a few at a time. All work-items compute their features
 * into local memory, as [WIDTH][TOKENS]. The columns of the state are in registers, ACROSS of them,
 * each split over FV_DOWN work-items.
 *
 *   FV_CHUNKED  0: token by token. 1: the tokens as a chunk, of which only the last result becomes
 *               the state:
 *                   A_ij = q_i.k_j, j <= i, each product times the decays of the tokens j+1 .. i
 *                   delta rule, B of keys as A of queries, in place of V:
 *                   u_i = beta_i (v_i - (decays of 0 .. i) k_i S - sum_{j<i} B_ij u_j)
 *                   O = (decays of 0 .. i) Q S + A V
 *                   S = (decays of all) S + ((those after j) K)^T V
 *               Decays are running products of e^a, never quotients, so nothing overflows.
 *   FV_TOKENS   taken at a time at most, a multiple of 4
 *   FV_DOWN     a power of two
 *
 * With centred features, keys and values become differences to their means, values also divided by
 * the number of tokens. S is then a sum with an ordinary decay, (n - 1) / n at token n.
 *
 * The slices of a head that has a divisor are processed in order, because all of them need its old
 * Z. Values of later tokens are never multiplied, not even by 0: they may be NaN.
 */
#include "gpu/kernels/scan_common.cl"

#define WIDTH (FV_BLOCKS * FV_D) /* features of a token */
#define ACROSS (FV_GROUP / FV_DOWN)
#define MINE ((WIDTH + FV_DOWN - 1) / FV_DOWN) /* elements of a column that a work-item has */
/* Loops over these; unrolled, so that they are in registers, unless a small group leaves a
 * work-item too many. */
#if MINE <= 64
#define FV_EACH(i) FV_TIMES(i, MINE)
#else
#define FV_EACH(i) for (uint i = 0; i < MINE; i++)
#endif
#define FEATURES (MINE * FV_DOWN * FV_TOKENS)
#define SLICES ((FV_DV + ACROSS - 1) / ACROSS)
#define TEAM (FV_GROUP < 32 ? FV_GROUP : 32) /* work-items that have Z */
#define OF_Z ((WIDTH + TEAM - 1) / TEAM)

/* Defines a function that computes the statistics of one row of operand X, for one head. */
#define DEFINE_STATISTICS(name, X, COUNT, QUERY)                                                   \
    FV_FN void name(SHARED float *stat, global const FV_CELL(X) *x)                                \
    {                                                                                              \
        fv_row done = fv_row_of(0.f);                                                              \
        FV_TIMES(s, COUNT) {                                                                       \
            float sum = FV_STAT_MAX >> s & 1 ? -INFINITY : 0.f;                                    \
            for (uint i = 0; i < FV_D; i++) {                                                      \
                const float term = fv_stat(s, QUERY, FV_GET(X, x + i), done);                      \
                sum = FV_STAT_MAX >> s & 1 ? fv_max(sum, term) : sum + term;                       \
            }                                                                                      \
            done.stat[s] = sum;                                                                    \
        }                                                                                          \
        if (COUNT > 0)                                                                             \
            done = fv_stats_done(QUERY, done);                                                     \
        FV_TIMES(s, 3)                                                                             \
            stat[s] = done.stat[s];                                                                \
    }
DEFINE_STATISTICS(statistics_of_query, 0, STATS, 1)
DEFINE_STATISTICS(statistics_of_key, 1, FV_STATS_KEY, 0)

FV_FN fv_row known(SHARED const float *stat)
{
    fv_row r = fv_row_of(0.f);
    FV_TIMES(s, 3)
        r.stat[s] = FV_STATS ? stat[s] : 0.f;
    return r;
}

/* e^a x from e^a (`part`) and 1 - e^a (`lost`), each of full precision. If e^a is near 1, x - lost
 * x is used, so that the state does not drift. */
FV_FN float faded(float x, float part, float lost)
{
    return part < 0.5f ? part * x : x - lost * x;
}

/* What belongs to a token. */
typedef struct token {
    float scale_q, scale_k, scale_v, beta;
    float read;  /* factor of the output */
    float share; /* centred: coefficient of the values' mean in the output */
    /* Decay of all channels; in chunks, the product since the chunk's beginning and until its
     * end. */
    float part, lost;
    float since, until;
} token;

/* The local memory of a work-group. */
typedef struct chunk_memory {
    float q[FEATURES], k[FEATURES], outs[FV_TOKENS * FV_GROUP], sums[FV_TOKENS * TEAM];
    float stat[FV_TOKENS * 6];
    token of[FV_TOKENS];
#if CENTRED
    float means[FV_TOKENS * ACROSS]; /* of the values */
    float before;                    /* number of tokens before the call */
#endif
#if BY_CHANNEL
    float part[FEATURES], lost[FEATURES];
#endif
#if FV_CHUNKED
    float vs[FV_TOKENS * ACROSS], a[FV_TOKENS * FV_TOKENS], fade[2 * MINE * FV_DOWN];
#if DELTA
    float b[FV_TOKENS * FV_TOKENS];
#endif
#else
    float scratch[2 * FV_GROUP];
#endif
} chunk_memory;

/* ---- features, of n tokens from `row` on ---- */

FV_FN void set_tokens(OPERANDS, SHARED chunk_memory *m, uint row, uint n)
{
    const uint me = get_local_id(0), head = get_group_id(0);
    for (uint t = me; t < FV_TOKENS; t += FV_GROUP) {
        const uint r = row + min(t, n - 1);
        const float gate_q = GATED && FV_HAS5 ? FV_GET(5, FV_AT(5, r) + head) : 1.f;
        const float gate_k = GATED ? FV_GET(6, FV_AT(6, r) + head) : 1.f;
        const float decay = GIVEN_DECAY && t < n ? FV_GET(3, FV_AT(3, r) + head) : 0.f;
        m->of[t].scale_q = NORMALISED ? f.s0 : f.s0 * gate_q;
        m->of[t].scale_k = DELTA ? 1.f : gate_k;
        m->of[t].scale_v = DELTA ? gate_k : 1.f;
        m->of[t].beta = DELTA ? FV_GET(4, FV_AT(4, r) + head) : 1.f;
        m->of[t].read = NORMALISED ? gate_q : 1.f;
        m->of[t].part = exp(decay);
        m->of[t].lost = -expm1(decay);
#if CENTRED
        const float before = fmin(m->before + (float)(row + t), COUNT_MOST), now = before + 1.f;
        m->of[t].scale_q = f.s0 + f.s2 * now;
        m->of[t].part = t < n ? before / now : 1.f;
        m->of[t].lost = t < n ? 1.f / now : 0.f;
#endif
    }
    for (uint i = me; FV_STATS && i < 2 * n; i += FV_GROUP) {
        if (i < n)
            statistics_of_query(m->stat + 3 * i, FV_AT(0, row + i) + head * FV_D);
        else
            statistics_of_key(m->stat + 3 * (FV_TOKENS + i - n),
                              FV_AT(1, row + i - n) + head * FV_D);
    }
}

FV_FN void make_features(OPERANDS, SHARED chunk_memory *m, uint row, uint n)
{
    const uint head = get_group_id(0);
    SHARE_DOWN(i, n * FV_D) {
        const uint t = i / FV_D, c = i % FV_D;
        float of_q[FV_BLOCKS], of_k[FV_BLOCKS];
        fv_phi(of_q, 1, FV_GET(0, FV_AT(0, row + t) + head * FV_D + c), known(m->stat + 3 * t));
        fv_phi(of_k, 0, FV_GET(1, FV_AT(1, row + t) + head * FV_D + c),
               known(m->stat + 3 * (FV_TOKENS + t)));
        FV_TIMES(block, FV_BLOCKS) {
            const uint at = (block * FV_D + c) * FV_TOKENS + t;
            m->q[at] = of_q[block] * (UNIT ? 1.f : m->of[t].scale_q);
            m->k[at] = of_k[block] * (UNIT ? 1.f : m->of[t].scale_k);
        }
#if BY_CHANNEL
        const float decay = FV_GET(3, FV_AT(3, row + t) + head * FV_D + c);
        m->part[c * FV_TOKENS + t] = exp(decay);
        m->lost[c * FV_TOKENS + t] = -expm1(decay);
#endif
    }
    /* Zeros for tokens that do not exist. */
    for (uint i = n * FV_D + get_local_id(0); i < FV_TOKENS * FV_D; i += FV_GROUP) {
        const uint t = i / FV_D, c = i % FV_D;
        FV_TIMES(block, FV_BLOCKS) {
            const uint at = (block * FV_D + c) * FV_TOKENS + t;
            m->q[at] = m->k[at] = 0.f;
        }
#if BY_CHANNEL
        m->part[c * FV_TOKENS + t] = 1.f;
        m->lost[c * FV_TOKENS + t] = 0.f;
#endif
    }
}

/* Normalises rows to length 1, then multiplies them by their factors. */
FV_FN void make_unit(SHARED chunk_memory *m, uint n)
{
    const uint me = get_local_id(0);
    for (uint i = me; i < 2 * n; i += FV_GROUP) {
        const uint t = i < n ? i : i - n;
        SHARED const float *of_token = (i < n ? m->q : m->k) + t;
        float square = 0.f;
        for (uint c = 0; c < WIDTH; c++)
            square += of_token[c * FV_TOKENS] * of_token[c * FV_TOKENS];
        if (i < n)
            m->of[t].scale_q /= sqrt(square + 1e-6f);
        else
            m->of[t].scale_k /= sqrt(square + 1e-6f);
    }
    FV_BARRIER();
    for (uint i = me; i < WIDTH * FV_TOKENS; i += FV_GROUP) {
        m->q[i] *= m->of[i % FV_TOKENS].scale_q;
        m->k[i] *= m->of[i % FV_TOKENS].scale_k;
    }
}

/* ---- Z, and what outputs are divided by ---- */

FV_FN void divide(SHARED chunk_memory *m, float *z, uint n, float epsilon)
{
    const uint me = get_local_id(0);
    for (uint t = 0; me < TEAM && t < n; t++) {
        float sum = 0.f;
        FV_TIMES(j, OF_Z) {
            const uint i = me + TEAM * j;
            if (i >= WIDTH)
                continue;
#if CENTRED
            const float away = m->k[i * FV_TOKENS + t] - z[j];
            m->k[i * FV_TOKENS + t] = away;
            z[j] += away * m->of[t].lost;
#else
#if BY_CHANNEL
            z[j] = faded(z[j], m->part[i * FV_TOKENS + t], m->lost[i * FV_TOKENS + t]);
#else
            z[j] = faded(z[j], m->of[t].part, m->of[t].lost);
#endif
            z[j] += m->k[i * FV_TOKENS + t];
#endif
            sum += m->q[i * FV_TOKENS + t] * z[j];
        }
        m->sums[t * TEAM + me] = sum;
    }
    FV_BARRIER();
    for (uint t = me; t < n; t += FV_GROUP) {
        float sum = CENTRED ? 0.f : epsilon;
        for (uint i = 0; i < TEAM; i++)
            sum += m->sums[t * TEAM + i];
#if CENTRED
        const float over = m->of[t].read / (sum + epsilon);
        m->of[t].share = over * sum;
        m->of[t].read += over;
#else
        m->of[t].read /= sum;
#endif
    }
}

#if CENTRED
/* Advances the mean of a value channel, for write_outputs. Returns what the value adds to S. */
FV_FN float centre_value(SHARED chunk_memory *m, float *mean, float value, uint t)
{
    const uint me = get_local_id(0);
    *mean += (value - *mean) * m->of[t].lost;
    if (me < ACROSS)
        m->means[t * ACROSS + me] = *mean;
    return (value - *mean) * m->of[t].lost;
}
#endif

#if FV_CHUNKED
/* ---- a chunk ---- */

/* Computes A and, for the delta rule, B. */
FV_FN void token_products(SHARED chunk_memory *m, uint n)
{
    for (uint i = get_local_id(0); i < FV_TOKENS * FV_TOKENS; i += FV_GROUP) {
        const uint t = i / FV_TOKENS, j = i % FV_TOKENS;
        float of_q = 0.f, of_k = 0.f;
        for (uint c = 0; t < n && j <= t && c < WIDTH; c++) {
            float key = m->k[c * FV_TOKENS + j];
#if BY_CHANNEL
            for (uint between = j + 1; between <= t; between++)
                key *= m->part[c * FV_TOKENS + between];
#endif
            of_q += m->q[c * FV_TOKENS + t] * key;
            if (DELTA)
                of_k += m->k[c * FV_TOKENS + t] * key;
        }
        for (uint between = j + 1; BY_HEAD && between <= t; between++) {
            of_q *= m->of[between].part;
            of_k *= m->of[between].part;
        }
        m->a[i] = of_q;
#if DELTA
        m->b[i] = of_k;
#endif
    }
}

FV_FN void read_values(OPERANDS, SHARED chunk_memory *m, float *mean, uint slice, uint row, uint n)
{
#if CENTRED
    const uint x = get_local_id(0) % ACROSS, column = slice * ACROSS + x;
    for (uint t = 0; t < FV_TOKENS; t++) {
        global const FV_CELL(2) *from = FV_AT(2, row + t) + get_group_id(0) * FV_DV + column;
        float add = 0.f;
        if (t < n)
            add = centre_value(m, mean, column < FV_DV ? FV_GET(2, from) : 0.f, t);
        if (get_local_id(0) < ACROSS)
            m->vs[t * ACROSS + x] = add;
    }
#else
    for (uint i = get_local_id(0); i < FV_TOKENS * ACROSS; i += FV_GROUP) {
        const uint t = i / ACROSS, c = slice * ACROSS + i % ACROSS;
        global const FV_CELL(2) *from = FV_AT(2, row + t) + get_group_id(0) * FV_DV + c;
        m->vs[i] = t < n && c < FV_DV ? m->of[t].scale_v * FV_GET(2, from) : 0.f;
    }
#endif
}

/* Computes the products of decays since the chunk's beginning and until its end. */
FV_FN void chunk_decays(SHARED chunk_memory *m, uint n)
{
    const uint me = get_local_id(0);
#if BY_CHANNEL
    /* Not a loop from `me` on: if only some work-items take a branch that contains a loop of n
     * iterations, PoCL executes it for all of them. */
    for (uint c0 = 0; c0 < WIDTH; c0 += FV_GROUP) {
        const uint c = c0 + me, count = c < WIDTH ? n : 0;
        float from = 1.f, to = 1.f, gone = 0.f;
        for (uint t = 0; t < count; t++) {
            gone += m->lost[c * FV_TOKENS + t] * from;
            from *= m->part[c * FV_TOKENS + t];
            m->q[c * FV_TOKENS + t] *= from;
        }
        for (uint t = count; t > 1; t--) {
            to *= m->part[c * FV_TOKENS + t - 1];
            m->k[c * FV_TOKENS + t - 2] *= to;
        }
        if (c < WIDTH) {
            m->fade[2 * c] = from;
            m->fade[2 * c + 1] = gone;
        }
    }
#endif
    for (uint t = me; t < FV_TOKENS; t += FV_GROUP) {
        float since = 1.f, until = 1.f;
        for (uint i = 0; i <= t; i++)
            since *= m->of[i].part;
        for (uint i = t + 1; i < n; i++)
            until *= m->of[i].part;
        m->of[t].since = since;
        m->of[t].until = until;
    }
}

/* Computes this work-item's part of `features` times its column of the state, s, for all tokens:
 * m->outs [FV_TOKENS][FV_GROUP]. A macro, because a function that is not inlined would have s in
 * memory. */
#define AGAINST_STATE(m, s, features)                                                              \
    do {                                                                                           \
        const uint me_ = get_local_id(0), y_ = me_ / ACROSS;                                       \
        for (uint t = 0; t < FV_TOKENS; t += 4) {                                                  \
            SHARED float *to_ = (m)->outs + t * FV_GROUP + me_;                                    \
            float4 sum_ = 0.f;                                                                     \
            FV_EACH(i)                                                                             \
                sum_ += s[i] * vload4(0, (features) + (y_ + FV_DOWN * i) * FV_TOKENS + t);         \
            to_[0] = sum_.s0;                                                                      \
            to_[FV_GROUP] = sum_.s1;                                                               \
            to_[2 * FV_GROUP] = sum_.s2;                                                           \
            to_[3 * FV_GROUP] = sum_.s3;                                                           \
        }                                                                                          \
    } while (0)

#if DELTA
/* U in place of V. */
FV_FN void apply_delta(SHARED chunk_memory *m, uint n)
{
    const uint x = get_local_id(0) % ACROSS, y = get_local_id(0) / ACROSS;
    for (uint t = 0; y == 0 && t < n; t++) {
        float held = 0.f;
        for (uint i = 0; i < FV_DOWN; i++)
            held += m->outs[t * FV_GROUP + x + ACROSS * i];
        held *= m->of[t].since;
        for (uint j = 0; j < t; j++)
            held += m->b[t * FV_TOKENS + j] * m->vs[j * ACROSS + x];
        m->vs[t * ACROSS + x] = m->of[t].beta * (m->vs[t * ACROSS + x] - held);
    }
}
#endif

/* Computes S after the chunk, four tokens at a time. */
FV_FN void renew_state(SHARED const chunk_memory *m, float *s, uint n)
{
    const uint x = get_local_id(0) % ACROSS, y = get_local_id(0) / ACROSS;
    SHARED const token *of = m->of;
#if BY_CHANNEL
    FV_EACH(j) {
        const uint i = y + FV_DOWN * j;
        s[j] = i < WIDTH ? faded(s[j], m->fade[2 * i], m->fade[2 * i + 1]) : 0.f;
    }
#else
    const float since = of[n - 1].since;
    float gone = 0.f;
    for (uint t = 0; BY_HEAD && t < n; t++)
        gone += of[t].lost * (t > 0 ? of[t - 1].since : 1.f);
    FV_EACH(j)
        s[j] = faded(s[j], since, gone);
#endif
    for (uint t = 0; t < FV_TOKENS; t += 4) {
        const float4 more = (float4)(of[t].until * m->vs[t * ACROSS + x],
                                     of[t + 1].until * m->vs[(t + 1) * ACROSS + x],
                                     of[t + 2].until * m->vs[(t + 2) * ACROSS + x],
                                     of[t + 3].until * m->vs[(t + 3) * ACROSS + x]);
        FV_EACH(j)
            s[j] += dot(vload4(0, m->k + (y + FV_DOWN * j) * FV_TOKENS + t), more);
    }
}

/* Processes the tokens as a chunk; stores the parts of Q S to `outs`. */
FV_FN void run_chunk(OPERANDS, SHARED chunk_memory *m, const float *s, float *mean, uint slice,
                     uint row, uint n)
{
    token_products(m, n);
    read_values(OPERANDS_GIVEN, m, mean, slice, row, n);
    FV_BARRIER();
    chunk_decays(m, n);
    FV_BARRIER();
#if DELTA
    AGAINST_STATE(m, s, m->k);
    FV_BARRIER();
    apply_delta(m, n);
    FV_BARRIER();
#endif
    AGAINST_STATE(m, s, m->q);
}
#else
/* Processes the tokens one by one; stores the parts of their outputs to `outs`. */
FV_FN void run_steps(OPERANDS, SHARED chunk_memory *m, float *s, float *mean, uint slice, uint row,
                     uint n)
{
    const uint me = get_local_id(0), x = me % ACROSS, y = me / ACROSS;
    const uint column = slice * ACROSS + x;
    FV_BARRIER();
    FV_LOOP(t, n) {
        global const FV_CELL(2) *from = FV_AT(2, row + t) + get_group_id(0) * FV_DV + column;
        const float value = column < FV_DV ? FV_GET(2, from) : 0.f;
        float add = m->of[t].scale_v * value, out = 0.f;
#if CENTRED
        add = centre_value(m, mean, value, t);
#endif
#if BY_CHANNEL
        FV_EACH(i) {
            const uint at = (y + FV_DOWN * i) * FV_TOKENS + t;
            s[i] = faded(s[i], m->part[at], m->lost[at]);
        }
#elif FADING
        FV_EACH(i)
            s[i] = faded(s[i], m->of[t].part, m->of[t].lost);
#endif
        if (DELTA) {
            float held = 0.f;
            FV_EACH(i)
                held += m->k[(y + FV_DOWN * i) * FV_TOKENS + t] * s[i];
            if (FV_DOWN > 1) {
                SHARED float *buffer = m->scratch + t % 2 * FV_GROUP;
                buffer[me] = held;
                FV_BARRIER();
                held = 0.f;
                for (uint i = 0; i < FV_DOWN; i++)
                    held += buffer[x + ACROSS * i];
            }
            add = m->of[t].beta * (add - held);
        }
        FV_EACH(i) {
            const uint at = (y + FV_DOWN * i) * FV_TOKENS + t;
            s[i] += m->k[at] * add;
            out += m->q[at] * s[i];
        }
        m->outs[t * FV_GROUP + me] = out;
    }
}
#endif

/* Adds up the parts of the outputs and, for a chunk, A V. */
FV_FN void write_outputs(OPERANDS, SHARED const chunk_memory *m, uint slice, uint row, uint n)
{
    SHARE_DOWN(i, n * ACROSS) {
        const uint t = i / ACROSS, across = i % ACROSS, c = slice * ACROSS + across;
        float sum = 0.f;
        for (uint j = 0; j < FV_DOWN; j++)
            sum += m->outs[t * FV_GROUP + across + ACROSS * j];
#if FV_CHUNKED
        if (!BY_CHANNEL)
            sum *= m->of[t].since;
        for (uint j = 0; j <= t; j++)
            sum += m->a[t * FV_TOKENS + j] * m->vs[j * ACROSS + across];
#endif
        sum *= m->of[t].read;
#if CENTRED
        sum += m->of[t].share * m->means[t * ACROSS + across];
#endif
        if (c < FV_DV)
            FV_PUT(8, FV_AT(8, row + t) + get_group_id(0) * FV_DV + c, sum);
    }
}

FV_KERNEL void scan(OPERANDS)
{
    SHARED_VAR chunk_memory memory;
    SHARED chunk_memory *m = &memory;
    const uint me = get_local_id(0), x = me % ACROSS, y = me / ACROSS, head = get_group_id(0);
    const uint step = FV_CHUNKED && u.s0 > 0 ? min(u.s0, (uint)FV_TOKENS) : FV_TOKENS;
    global float *state = base7 + at7.x + (size_t)head * WIDTH * FV_DV;
    global float *divisor = base7 + at7.x + ((size_t)get_num_groups(0) * FV_DV + head) * WIDTH;
    /* The means follow the divisors of all heads, if there are any. */
    global float *behind = base7 + at7.x + (size_t)get_num_groups(0) * (FV_DV + 1) * WIDTH;
    global float *means = behind + head * FV_DV;
    float s[MINE], z[OF_Z];
#if CENTRED
    global float *count = behind + get_num_groups(0) * FV_DV + head;

    if (me == 0) /* no other work-item touches it */
        m->before = *count;
#endif

    for (uint i = me; i < FEATURES; i += FV_GROUP) {
        m->q[i] = m->k[i] = 0.f;
#if BY_CHANNEL
        m->part[i] = 1.f;
        m->lost[i] = 0.f;
#endif
    }
    for (uint slice = get_group_id(1); slice < SLICES; slice += get_num_groups(1)) {
        const uint column = slice * ACROSS + x;
        FV_EACH(j) {
            const uint i = y + FV_DOWN * j;
            s[j] = i < WIDTH && column < FV_DV ? state[(size_t)i * FV_DV + column] : 0.f;
        }
        FV_TIMES(j, OF_Z)
            z[j] = NORMALISED && me < TEAM && me + TEAM * j < WIDTH ? divisor[me + TEAM * j] : 0.f;
        float mean = CENTRED && column < FV_DV ? means[column] : 0.f;

        for (uint row = 0, n; row < rows; row += n) {
            n = min(step, rows - row);
            FV_BARRIER();
            set_tokens(OPERANDS_GIVEN, m, row, n);
            FV_BARRIER();
            make_features(OPERANDS_GIVEN, m, row, n);
            FV_BARRIER();
            if (UNIT) {
                make_unit(m, n);
                FV_BARRIER();
            }
            if (NORMALISED)
                divide(m, z, n, f.s1);
#if FV_CHUNKED
            run_chunk(OPERANDS_GIVEN, m, s, &mean, slice, row, n);
#else
            run_steps(OPERANDS_GIVEN, m, s, &mean, slice, row, n);
#endif
            FV_BARRIER();
            write_outputs(OPERANDS_GIVEN, m, slice, row, n);
#if FV_CHUNKED
            renew_state(m, s, n);
#endif
        }

        FV_EACH(j) {
            const uint i = y + FV_DOWN * j;
            if (i < WIDTH && column < FV_DV)
                state[(size_t)i * FV_DV + column] = s[j];
        }
        if (CENTRED && me < ACROSS && column < FV_DV)
            means[column] = mean;
    }
#if CENTRED
    if (me == 0)
        *count = fmin(m->before + (float)rows, COUNT_MOST);
#endif
    FV_TIMES(j, OF_Z)
        if (NORMALISED && me < TEAM && me + TEAM * j < WIDTH)
            divisor[me + TEAM * j] = z[j];
}
