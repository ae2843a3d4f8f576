/* foveated_keys.cl: finds any of the keys that a block sees from the key's number, so that
 * work-items can list a tile of keys together. */

/* What a block sees of a level: the cells of a ring, which are `keys` keys. */
typedef struct seen {
    fv_fovea_ring ring;
    /* keys: their number; first: row of the level's first cell; columns: cells in a row of the
     * level. */
    uint keys, first, columns;
} seen;

static inline seen seen_of(const fv_fovea *fovea, uint level, uint y, uint x)
{
    seen l;
    l.ring = fv_fovea_ring_of(fovea, level, y, x);
    l.keys = fv_fovea_size(l.ring.area) - fv_fovea_size(l.ring.hole);
    l.first = level > 0 ? fv_fovea_first(fovea, level) : fovea->prefix;
    l.columns = fv_fovea_columns(fovea, level);
    return l;
}

/* The position (y, x) of cell n of a ring, counted row by row. */
static inline uint2 cell_of(fv_fovea_ring r, uint n)
{
    const uint wide = r.area.x1 - r.area.x0, left = r.hole.x0 - r.area.x0;
    const uint narrow = wide - (r.hole.x1 - r.hole.x0);
    const uint above = (r.hole.y0 - r.area.y0) * wide, sides = (r.hole.y1 - r.hole.y0) * narrow;
    if (n < above)
        return (uint2)(r.area.y0 + n / wide, r.area.x0 + n % wide);
    n -= above;
    if (n >= sides)
        return (uint2)(r.hole.y1 + (n - sides) / wide, r.area.x0 + (n - sides) % wide);
    const uint x = n % narrow;
    return (uint2)(r.hole.y0 + n / narrow, x < left ? r.area.x0 + x : r.hole.x1 + x - left);
}

/* A key: its row among the tokens or the cells, and log2 of the number of its tokens. */
typedef struct key {
    uint row;
    float bias;
} key;

/* Key n of the keys that a block sees of a level. */
static inline key key_of(const fv_fovea *fovea, seen l, uint level, uint n)
{
    const uint2 at = cell_of(l.ring, n);
    const key k = {l.first + at.x * l.columns + at.y, fv_fovea_bias(fovea, level, at.x, at.y)};
    return k;
}

/* A tile: keys [first, first + n) of the tokens, prefix included, or of the cells of all levels. */
typedef struct tile {
    uint first, n;
    bool cells;
} tile;

/* How many tokens (x) and cells (y) are keys of the work-group's queries; 0 and 0 if it has no
 * queries. */
static inline uint2 keys_of(const fv_fovea *fovea, span s, uint size)
{
    const uint keys = has_queries(s, size) ? fv_fovea_keys(fovea, s.y, s.x) : 0;
    const uint near = fovea->prefix + fv_fovea_size(fv_fovea_region(fovea, 0, s.y, s.x));
    const uint tokens = min(keys, near);
    return (uint2)(tokens, keys - tokens);
}

/* Number of tiles of `size` keys; a tile has only tokens or only cells. */
static inline uint tiles_of(uint size, uint2 keys)
{
    return fv_ceil_div(keys.x, size) + fv_ceil_div(keys.y, size);
}

static inline tile tile_of(uint i, uint size, uint2 keys)
{
    const uint before = fv_ceil_div(keys.x, size);
    tile t;
    t.cells = i >= before;
    t.first = (t.cells ? i - before : i) * size;
    t.n = min((t.cells ? keys.y : keys.x) - t.first, size);
    return t;
}

static inline void list_levels(SHARED seen *levels, const fv_fovea *fovea, span s)
{
    for (uint l = get_local_id(0); l <= fovea->levels; l += FV_GROUP)
        levels[l] = seen_of(fovea, l, s.y, s.x);
}

/* Lists rows and biases of a tile's keys. Both lists are filled up to `size` with the last key. */
static inline void list_keys(SHARED uint *row, SHARED float *bias, SHARED const seen *levels,
                             const fv_fovea *fovea, tile t, uint size)
{
    for (uint j = get_local_id(0); j < size; j += FV_GROUP) {
        uint n = t.first + min(j, t.n - 1), level = t.cells ? 1 : 0;
        key k = {n, 0.f};
        if (t.cells || n >= fovea->prefix) {
            n -= t.cells ? 0 : fovea->prefix;
            for (; n >= levels[level].keys; level++)
                n -= levels[level].keys;
            k = key_of(fovea, levels[level], level, n);
        }
        row[j] = k.row;
        bias[j] = k.bias;
    }
}
