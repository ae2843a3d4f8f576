/* softmax_scan.cl: SOFTMAX_SCAN with the tiles of softmax_tiles.cl: tiles of keys from the cache,
 * then tiles of the call's own keys. A separate pass writes those into the cache.
 *
 * FV_SHARING  heads of a kv head
 */
#define LOG2_E 1.44269504f

#define FV_TOUT FV_T5
#define baseOUT base5
#define atOUT at5
#define OPERANDS FV_IN(0), FV_IN(1), FV_IN(2), FV_IN(3), FV_OUT(4), FV_OUT(5), FV_CALL
#define OPERANDS_GIVEN                                                                             \
    FV_GIVEN(0), FV_GIVEN(1), FV_GIVEN(2), FV_GIVEN(3), FV_GIVEN(4), FV_GIVEN(5), FV_CALL_GIVEN
#define CAPACITY dim.s3 /* of the cache, in tokens */
#define KV_HEADS dim.s4
#define KV_HEAD (get_group_id(1) / FV_SHARING)
#define WINDOW u.s0

/* Rows of a work-group. */
typedef struct span {
    uint begin, last;
} span;

static inline uint query_row(span s, uint r)
{
    return min(s.begin + r, s.last);
}

static inline bool is_query(span s, uint r)
{
    return s.begin + r <= s.last;
}

/* n tokens from position `first` on. Positions from `own` on are the call's own tokens; those
 * before are in the cache. */
typedef struct tile {
    uint first, n, own;
} tile;

/* Channels c .. c + 3 of the key, and of the value, at a position. */
static inline float4 key_quad(OPERANDS, tile t, uint token, uint c)
{
    const uint kv = KV_HEAD;
    if (t.first >= t.own)
        return FV_GET_RUN(1, FV_AT(1, token - t.own) + kv * FV_D + c, FV_D - (int)c, 0.f);
    return FV_GET_RUN(4, base4 + at4.x + ((size_t)kv * CAPACITY + token) * FV_D + c, FV_D - (int)c,
                      0.f);
}

static inline float4 value_quad(OPERANDS, tile t, uint token, uint c)
{
    const uint kv = KV_HEAD;
    if (t.first >= t.own)
        return FV_GET_RUN(2, FV_AT(2, token - t.own) + kv * FV_DV + c, FV_DV - (int)c, 0.f);
    return FV_GET_RUN(4,
                      base4 + at4.x + (size_t)KV_HEADS * CAPACITY * FV_D +
                          ((size_t)kv * CAPACITY + token) * FV_DV + c,
                      FV_DV - (int)c, 0.f);
}

#define KEY_QUAD(j, c) key_quad(OPERANDS_GIVEN, t, t.first + min((j), t.n - 1), c)
#define VALUE_QUAD(j, c) value_quad(OPERANDS_GIVEN, t, t.first + (j), c)
#define KEY_MEMORY
#include "gpu/kernels/softmax_tiles.cl"

static inline float4 score_of(OPERANDS, float4 product, SHARED const group_memory *m, span s,
                              tile t, uint in_tile)
{
    const uint token = t.first + in_tile, mine = t.own + s.begin + 4 * (get_local_id(0) / ACROSS);
    const uint4 query = mine + (uint4)(0, 1, 2, 3);
    float4 score = product * (f.s0 * LOG2_E);
    if (in_tile >= t.n)
        score = -INFINITY;
    score = select(score, (float4)-INFINITY, token > query);
    if (WINDOW > 0)
        score = select((float4)-INFINITY, score, token + WINDOW > query);
    return score;
}

static inline uint first_position(float given)
{
    return given + 0.5f >= 0.f && given + 0.5f < 16777216.f ? (uint)(given + 0.5f) : 0;
}

/* Writes a row of a kv head into the cache, unless that is full. */
FV_KERNEL void softmax_scan_remember(OPERANDS)
{
    const uint r = get_group_id(0), kv = get_group_id(1);
    const size_t token = first_position(FV_GET(3, FV_AT(3, 0))) + r;
    global float *key = base4 + at4.x + (kv * (size_t)CAPACITY + token) * FV_D;
    global float *value = base4 + at4.x + (size_t)KV_HEADS * CAPACITY * FV_D +
                          (kv * (size_t)CAPACITY + token) * FV_DV;
    for (uint c = get_local_id(0); token < CAPACITY && c < FV_D; c += FV_GROUP)
        key[c] = FV_GET(1, FV_AT(1, r) + kv * FV_D + c);
    for (uint c = get_local_id(0); token < CAPACITY && c < FV_DV; c += FV_GROUP)
        value[c] = FV_GET(2, FV_AT(2, r) + kv * FV_DV + c);
}

FV_KERNEL void softmax_scan(OPERANDS)
{
    SHARED_VAR group_memory memory;
    SHARED group_memory *m = &memory;
    const uint position = first_position(FV_GET(3, FV_AT(3, 0)));
    const uint begin = get_group_id(0) * BLOCK, held = min(position, CAPACITY);
    const span s = {begin, min(begin + BLOCK, rows) - 1};
    const uint behind = position + begin + 1; /* the first row */
    const uint end = position + s.last + 1;
    const uint oldest = WINDOW > 0 && behind > WINDOW ? behind - WINDOW : 0;
    float4 top = -FLT_MAX, sum = 0.f, o[4][QUADS]; /* finite, because a whole tile may be masked */
    FV_TIMES(i, QUADS)
        o[0][i] = o[1][i] = o[2][i] = o[3][i] = 0.f;
    /* One loop for both kinds of tiles. PoCL does not inline functions that are called twice;
     * work-item numbers then become variables that all threads share. */
    for (uint j = oldest < held ? oldest : max(oldest, position), next; j < end; j = next) {
        const tile t = {j, min((j < held ? held : end) - j, (uint)KEYS), position};
        attend(OPERANDS_GIVEN, o, &top, &sum, m, s, t);
        next = j + t.n < held ? j + t.n : max(j + t.n, position);
    }
    write_rows(OPERANDS_GIVEN, o, m, sum, s);
}
