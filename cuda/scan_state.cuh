/* scan_state.cuh: the state of scan.cu, in registers: products of a chunk's queries and the state,
 * the delta rule, and the update of the state by a chunk.
 */

/* This thread's part of the state: features 8 n + 2 t + i % 2 and columns g + 8 (i / 2) of its
 * warp. */
typedef float state_part[STATE_TILES][4];

/* Calls f(i, at) for the numbers of tile n that are inside a state of `columns` columns. `at` is
 * the offset from the thread's first number, that of feature 2 t and the thread's own column. */
template <class F> inline void each_of_tile(int n, uint t, uint column, uint columns, const F &f)
{
    EACH(i, 4) {
        const int c = 8 * n + i % 2, j = i / 2 * 8;
        if ((8 * n + 8 <= WIDTH || c + 2 * t < WIDTH) &&
            (columns % COLUMNS == 0 || column + j < columns))
            f(i, c * columns + j);
    }
}

/* Computes Q S for outputs and K S for the delta rule, both transposed. */
template <bool STATES>
inline void against_state(float out[2][4], float held[2][4], const chunk_memory &m, const place &p,
                          const state_part &s)
{
    EACH(i, STATE_TILES) {
        const split4 x = split4_of(s[i][0], s[i][2], s[i][1], s[i][3]);
        EACH(half_, 2) {
            const uint at = p.g * PITCH + 2 * p.t;
            const int further = 8 * (half_ * PITCH + i);
            if (!STATES)
                multiply(out[half_], x, next_to(m.q, at, further));
            if (DELTA)
                multiply(held[half_], x, next_to(m.k, at, further));
        }
    }
}

#if DELTA
/* Computes U in place of V in the warp's columns `mine`. */
inline void apply_delta(chunk_memory &m, const place &p, float *mine, const float held[2][4])
{
    const float *since = m.since + 2 * p.t;
    float *of_thread = mine + 2 * p.t * VALUE_PITCH + p.g;
    EACH(half_, 2)
        EACH(i, 4) {
            const int at = 8 * half_ + i % 2;
            of_thread[at * VALUE_PITCH + i / 2 * 8] -= since[at] * held[half_][i];
        }
    fv_warp_sync();
    if (p.lane < 16) {
        float x[TOKENS];
        EACH(i, TOKENS) {
            x[i] = mine[i * VALUE_PITCH + p.lane];
            EACH(j, i)
                x[i] -= m.b[i * PAIR_PITCH + j] * x[j];
            x[i] *= m.beta[i];
            mine[i * VALUE_PITCH + p.lane] = x[i];
        }
    }
    fv_warp_sync();
}
#endif

/* Loads the values of tokens t and t + 4 of eight, for columns g and g + 8 of the warp; returns
 * whether all are finite. */
inline bool values_of(float value[2][4], const place &p, const float *mine)
{
    const float *of_thread = mine + p.t * VALUE_PITCH + p.g;
    bool finite = true;
    EACH(h, 2)
        EACH(i, 4) {
            value[h][i] = of_thread[(8 * h + i / 2 * 4) * VALUE_PITCH + i % 2 * 8];
            finite = finite && fabs(value[h][i]) <= FLT_MAX;
        }
    return finite;
}

/* O = (decays since the beginning) Q S + A U. */
inline void add_products(float out[2][4], const chunk_memory &m, const place &p, const float *mine,
                         const float value[2][4], bool finite)
{
    const float *since = m.since + 2 * p.t;
    EACH(half_, 2)
        EACH(i, 4)
            out[half_][i] *= since[8 * half_ + i % 2];
    if (fv_ballot(!finite)) {
        EACH(half_, 2)
            EACH(i, 4) {
                const uint at = 8 * half_ + 2 * p.t + i % 2;
#pragma unroll 1
                for (uint j = 0; j <= at; j++)
                    out[half_][i] +=
                        m.a[at * PAIR_PITCH + j] * mine[j * VALUE_PITCH + p.g + i / 2 * 8];
            }
        return;
    }
    const float *pairs = m.a + p.g * PAIR_PITCH + p.t;
    EACH(h, 2) {
        const split4 x = split4_of(value[h][0], value[h][1], value[h][2], value[h][3]);
        EACH(half_, 2) {
            const float *pair = pairs + 8 * (half_ * PAIR_PITCH + h);
            if (half_ >= h)
                multiply(out[half_], x, couple_of(pair[0], pair[4]));
        }
    }
}

/* S = (decays of all) S + ((those until the end) K)^T U, for n tokens. A branch separates the
 * updates of each four tiles by eight tokens, because a compiler that interleaves all of them runs
 * out of registers. */
inline void renew_state(state_part &s, const chunk_memory &m, const place &p,
                        const float value[2][4], uint n)
{
    constexpr int ABREAST = 4;
    float all = m.whole[0], all_gone = m.whole[1];
    split4 x[2];
    const float *until = m.until + p.t;
#if BY_CHANNEL
    const float *part = m.fade[0] + 2 * p.t, *lost = m.fade[1] + 2 * p.t;
#endif
    EACH(h, 2) {
        const float early = until[8 * h], late = until[8 * h + 4];
        x[h] = split4_of(early * value[h][0], early * value[h][1], late * value[h][2],
                         late * value[h][3]);
    }
    EACH(pass, (STATE_TILES + ABREAST - 1) / ABREAST)
        EACH(h, 2) {
            if (h && n <= 8)
                continue;
            EACH(j, ABREAST) {
                const int i = pass * ABREAST + j;
                if (i >= STATE_TILES)
                    break;
                float more[4] = {};
                multiply(more, x[h], below(m.k, p.t * PITCH + p.g, 8 * (h * PITCH + i)));
                EACH(e, 4) {
#if BY_CHANNEL
                    all = part[8 * i + e % 2];
                    all_gone = lost[8 * i + e % 2];
#endif
                    s[i][e] = (FADING && !h ? faded(s[i][e], all, all_gone) : s[i][e]) + more[e];
                }
            }
        }
}
