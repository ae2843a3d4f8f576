/* scan.cu: SCAN on tensor cores: causal linear attention with its state, 16 tokens at a time, as in
 * scan.cl with FV_CHUNKED:
 *
 *     A_ij = q_i.k_j, j <= i, each product times the decays of the tokens j+1 .. i
 *     delta rule:  u_i = beta_i (v_i - (decays of 0 .. i) k_i S - sum_{j<i} B_ij u_j),
 *                  B of keys as A of queries, in place of V
 *     O = (decays of 0 .. i) Q S + A U;   S = (decays of all) S + ((those after j) K)^T U
 *
 * A work-group computes a head and 64 value channels. A warp has 16 of them: their columns of the
 * state stay in its registers, transposed, in the order in which the next chunk's products read
 * them.
 *
 *                 feature 0 1 2 3 ..  8 nt + 2t, 8 nt + 2t + 1          thread (g, t), lane 4 g + t
 *     column g    |  S transposed  |      column g + 8 the same
 *
 * If channels have their own decays, A is computed without tensor cores, with all decays between
 * two tokens in its products, so that no quotient is needed. All other products are of sums of tf32
 * numbers (fv_split). What is added to the state is summed over eight tokens, and added outside of
 * tensor cores, because those truncate sums instead of rounding.
 *
 * Values of later tokens are never multiplied, not even by 0: they may be NaN.
 *
 * FV_SEGMENTS: if a device has more multiprocessors than there are heads, the call's rows are
 * distributed over `groups` segments. Three kernels run in order:
 *
 *   scan_segments  for every segment but the last: L, the state at its end if it begins with zeros;
 *                  and how it changes the state that it begins with: a factor D, the product of its
 *                  tokens' decays, or by the delta rule a matrix, T = prod decay (1 - beta k k^T),
 *                  which is the final state of a segment that begins with the unit matrix and whose
 *                  tokens have no values
 *   scan_begins    the first state of each segment, one after the other: S of the next = T S + L
 *   scan           every segment from there on
 */
#include "cuda/fragments.cuh"
#include "gpu/kernels/scan_common.cl"

#include "cuda/row_statistics.cuh"
#include "cuda/scan_chunk.cuh"
#include "cuda/scan_state.cuh"

/* Layout of the table, which is the scratch. For every segment: its state, as the operand stores
 * it, first L and later the state that it begins with. For each head: T [WIDTH][WIDTH], or D and 1
 * - D of every feature. */
#define STATE (FV_HEADS * WIDTH * FV_DV) /* the divisors are after it */
#define PASSING (DELTA ? WIDTH * WIDTH : 2 * WIDTH)
#define SEGMENT (STATE + FV_HEADS * (NORMALISED * WIDTH + PASSING))
#define PASSING_SLICES (DELTA ? (WIDTH + COLUMNS - 1) / COLUMNS : 0)

inline float *segment_of(const uint *table, uint segment)
{
    return (float *)table + (size_t)segment * SEGMENT;
}
inline float *passing_of(const uint *table, uint segment, uint head)
{
    return segment_of(table, segment) + STATE + FV_HEADS * NORMALISED * WIDTH +
           (size_t)head * PASSING;
}

/* D of a segment. */
template <bool STATES>
inline void write_decays(float *d, const place &p, const decay_of_all<STATES> &all)
{
    for (uint c = p.me; !BY_CHANNEL && c < WIDTH; c += FV_GROUP) {
        d[2 * c] = all.part[0];
        d[2 * c + 1] = all.lost[0];
    }
    EACH(item, ITEMS) {
        const uint c = p.me + item * FV_GROUP; /* channel of k, since there is no q */
        if (BY_CHANNEL && c < FV_D) {
            d[2 * c] = all.part[item];
            d[2 * c + 1] = all.lost[item];
        }
    }
}

/* STATES: computes L, and T or D, of a segment instead of outputs. */
template <bool STATES> inline void tokens(OPERANDS)
{
    constexpr uint ALL_SLICES = SLICES + (STATES ? PASSING_SLICES : 0);
    FV_SHARED chunk_memory m;
    /* The remainder has no effect, but tells the compiler which channels a thread has. */
    const uint me = get_local_id(0) % FV_GROUP, head = get_group_id(0);
    const place p = {me, me / 32, me % 32, me % 32 / 4, me % 4, head};
    const uint step = u.s0 > 0 ? min(u.s0, (uint)TOKENS) : TOKENS;
    const uint segment = get_group_id(2), length = (rows + groups - 1) / groups + TOKENS - 1;
    const uint begin = min(segment * (length / TOKENS * TOKENS), rows);
    const uint end = groups > 1 ? min(begin + length / TOKENS * TOKENS, rows) : rows;
    const float *initial = groups > 1 ? segment_of(table, segment) : base7 + at7.x;
    float *result = STATES ? segment_of(table, segment) : base7 + at7.x;

    for (uint i = me; i < TOKENS * PITCH; i += FV_GROUP) {
        m.q.x[i] = m.k.x[i] = 0.f;
        set_part(m.q, i, 0, 0.f);
        set_part(m.k, i, 0, 0.f);
    }
    for (uint i = me; i < STATE_TILES * 8; i += FV_GROUP)
        m.fade[0][i] = m.fade[1][i] = 0.f;

    /* The slices of a head with a divisor are processed in order; others have work-groups of their
     * own. */
    for (uint slice = NORMALISED ? 0 : get_group_id(1); slice < ALL_SLICES; slice++) {
        const bool passing = STATES && slice >= SLICES; /* columns of T */
        const uint columns = passing ? WIDTH : FV_DV;
        /* This thread has this column and column + 8. */
        const uint column = (slice - (passing ? SLICES : 0)) * COLUMNS + p.warp * 16 + p.g;
        state_part s;
        const float *own = initial + ((size_t)head * WIDTH + 2 * p.t) * FV_DV + column;
        EACH(n, STATE_TILES) {
            EACH(i, 4) {
                const uint c = 8 * n + 2 * p.t + i % 2, j = column + i / 2 * 8;
                s[n][i] = passing && c == j && c < WIDTH;
            }
            if (!STATES)
                each_of_tile(n, p.t, column, FV_DV, [&](int i, uint at) { s[n][i] = own[at]; });
        }
        uint now = 0; /* which divisor */
        for (uint c = me; NORMALISED && c < WIDTH; c += FV_GROUP)
            m.divisor[now][c] = STATES ? 0.f : initial[STATE + head * WIDTH + c];
        decay_of_all<STATES> all;
        EACH(item, ITEMS) {
            all.part[item] = 1.f;
            all.lost[item] = 0.f;
        }

        loaded_chunk<STATES> loaded;
        loaded.own = {1.f, 1.f, 0.f, 0.f};
        read_chunk<STATES>(OPERANDS_GIVEN, loaded, p, slice, passing, begin,
                           min(step, end - begin));
        for (uint row = begin, n; row < end; row += n) {
            n = min(step, end - row);
            prepare_chunk<STATES>(OPERANDS_GIVEN, m, p, loaded, all, slice, passing, now, n,
                                  row + n, min(step, end - row - n));
            now = 1 - now;

            float out[2][4] = {}, held[2][4] = {}, value[2][4];
            float *mine = m.values + p.warp * 16; /* the warp's columns */
            against_state<STATES>(out, held, m, p, s);
#if DELTA
            apply_delta(m, p, mine, held);
#endif
            const bool finite = values_of(value, p, mine);
            if (!STATES) {
                add_products(out, m, p, mine, value, finite);
                auto *to = FV_AT(8, row + 2 * p.t) + head * FV_DV + column;
                EACH(half_, 2)
                    EACH(i, 4) {
                        const uint at = 8 * half_ + i % 2, j = i / 2 * 8;
                        if (2 * p.t + at < n && column + j < FV_DV)
                            FV_PUT(8, to + (size_t)at * at8.y + j,
                                   out[half_][i] * m.read[2 * p.t + at]);
                    }
            }
            renew_state(s, m, p, value, n);
        }

        const bool leaves = STATES || end == rows;
        float *to =
            (passing ? passing_of(table, segment, head) : result + (size_t)head * WIDTH * FV_DV) +
            2 * p.t * columns + column;
        if (leaves)
            EACH(n, STATE_TILES)
                each_of_tile(n, p.t, column, columns, [&](int i, uint at) { to[at] = s[n][i]; });
        if (NORMALISED) {
            FV_BARRIER();
            /* Slices of a head run in order, and all begin with the old divisor, so the last one
             * stores the new one. */
            for (uint c = me; leaves && slice == SLICES - 1 && c < WIDTH; c += FV_GROUP)
                result[STATE + head * WIDTH + c] = m.divisor[now][c];
            FV_BARRIER();
        }
        if (STATES && FADING && !DELTA && slice == 0)
            write_decays<STATES>(passing_of(table, segment, head), p, all);
        if (!NORMALISED)
            break;
    }
}

kernel void __launch_bounds__(FV_GROUP, LEAST) scan(OPERANDS)
{
    tokens<false>(OPERANDS_GIVEN);
}

#if FV_SEGMENTS
kernel void __launch_bounds__(FV_GROUP, LEAST) scan_segments(OPERANDS)
{
    tokens<true>(OPERANDS_GIVEN);
}

#if DELTA
/* A work-group computes a head and 64 value channels, as in `scan`, and reads T 16 columns at a
 * time. After a column is multiplied by its feature of the state, L of that feature is loaded in
 * its place. So there are two states in registers, and operands of tensor cores are made once. */
kernel void __launch_bounds__(FV_GROUP) scan_begins(OPERANDS)
{
    constexpr int BLOCKS = (WIDTH + TOKENS - 1) / TOKENS, BLOCK_PITCH = TOKENS + 8;
    constexpr int ABREAST = FV_GROUP / TOKENS; /* rows of T that a group copies at once: 8 */
    FV_SHARED float matrix[STATE_TILES * 8 * BLOCK_PITCH];
    const uint me = get_local_id(0) % FV_GROUP, warp = me / 32, lane = me % 32;
    const uint g = lane / 4, t = lane % 4, head = get_group_id(0);
    const uint column = get_group_id(1) * COLUMNS + warp * 16 + g;
    const size_t corner = ((size_t)head * WIDTH + 2 * t) * FV_DV + column;
    state_part s, next;
    float loaded[STATE_TILES];
    const uint of_row = me % TOKENS, row = me / TOKENS;
    const auto fetch = [&](uint segment, int block) {
        const float *from = passing_of(table, segment, head) + row * WIDTH + of_row;
        EACH(i, STATE_TILES) {
            const int c = block * TOKENS, r = i * ABREAST;
            loaded[i] = 0.f;
            if ((r + ABREAST <= WIDTH || r + row < WIDTH) &&
                (c + TOKENS <= WIDTH || c + of_row < WIDTH))
                loaded[i] = from[r * WIDTH + c];
        }
    };

    const float *given = base7 + at7.x + corner;
    EACH(n, STATE_TILES) {
        EACH(i, 4)
            s[n][i] = 0.f;
        each_of_tile(n, t, column, FV_DV, [&](int i, uint at) { s[n][i] = given[at]; });
    }
    fetch(0, 0);
    for (uint segment = 0; segment + 1 < groups; segment++) {
        float *own = segment_of(table, segment) + corner;
        EACH(n, STATE_TILES)
            EACH(i, 4)
                next[n][i] = 0.f;
        EACH(block, BLOCKS) {
            FV_BARRIER();
            EACH(i, STATE_TILES)
                matrix[(row + i * ABREAST) * BLOCK_PITCH + of_row] = loaded[i];
            if (block + 1 < BLOCKS)
                fetch(segment, block + 1);
            else if (segment + 2 < groups)
                fetch(segment + 1, 0);
            FV_BARRIER();
            EACH(half_, 2) {
                const int n = 2 * block + half_;
                if (n >= STATE_TILES)
                    break;
                const split4 x = split4_of(s[n][0], s[n][2], s[n][1], s[n][3]);
                each_of_tile(n, t, column, FV_DV, [&](int i, uint at) {
                    const float more = own[at];
                    own[at] = s[n][i];
                    s[n][i] = more;
                });
                EACH(m, STATE_TILES) {
                    const float *two = matrix + (8 * m + g) * BLOCK_PITCH + 8 * half_ + 2 * t;
                    multiply(next[m], x, couple_of(two[0], two[1]));
                }
            }
        }
        EACH(n, STATE_TILES)
            EACH(i, 4)
                s[n][i] += next[n][i];
    }
    float *last = segment_of(table, groups - 1) + corner;
    EACH(n, STATE_TILES)
        each_of_tile(n, t, column, FV_DV, [&](int i, uint at) { last[at] = s[n][i]; });
}
#else
/* A thread computes one value of a head's state, or of its divisor. */
kernel void scan_begins(OPERANDS)
{
    const uint head = get_group_id(0), i = get_group_id(1) * FV_GROUP + get_local_id(0);
    const bool divides = i >= WIDTH * FV_DV;
    if (i >= WIDTH * (FV_DV + NORMALISED))
        return;
    const uint c = divides ? i - WIDTH * FV_DV : i / FV_DV;
    const size_t at = divides ? STATE + (size_t)head * WIDTH + c : (size_t)head * WIDTH * FV_DV + i;
    float s = (base7 + at7.x)[at], more = segment_of(table, 0)[at];
    for (uint segment = 0; segment < groups; segment++) {
        const float *d = passing_of(table, segment, head) + 2 * c;
        const float now = more;
        if (segment + 2 < groups)
            more = segment_of(table, segment + 1)[at];
        segment_of(table, segment)[at] = s;
        if (segment + 1 < groups)
            s = (FADING ? faded(s, d[0], d[1]) : s) + now;
    }
}
#endif
#endif
