/* foveated_common.cl: code that the kernels of FOVEATED share: operands, the queries of a
 * work-group, and the keys that they see. */
#include "gpu/kernels/foveated_grid.cl"

#define LOG2_E 1.44269504f

#define FV_TOUT FV_T5
#define baseOUT base5
#define atOUT at5
#define OPERANDS FV_IN(0), FV_IN(1), FV_IN(2), FV_IN(3), FV_IN(4), FV_OUT(5), FV_CALL
#define OPERANDS_GIVEN                                                                             \
    FV_GIVEN(0), FV_GIVEN(1), FV_GIVEN(2), FV_GIVEN(3), FV_GIVEN(4), FV_GIVEN(5), FV_CALL_GIVEN

/* Queries in a block. Prefix tokens are treated as a grid that is as wide as a block. */
#define QUERIES (FV_FOVEA_BLOCK * FV_FOVEA_BLOCK)

/* The queries of this work-group, which are some of a block's. */
typedef struct span {
    uint begin; /* the group's first query in the block, counted row by row */
    /* row: the block's first row in the call, wrapping around if the call begins later. pitch: rows
     * from one line of the grid to the next. across: queries in a line. */
    uint row, pitch, across;
    uint rows;  /* end of the rows that may be queries of the block */
    uint y, x;  /* the block's first token */
    bool whole; /* prefix: all tokens are keys */
} span;

static inline span span_of(const fv_fovea *fovea, uint size, uint row0, uint rows)
{
    const uint parts = (QUERIES + size - 1) / size, width = fovea->width;
    const uint prefix_rows = row0 < fovea->prefix ? min(fovea->prefix - row0, rows) : 0;
    const uint blocks = fv_ceil_div(prefix_rows, QUERIES), block = get_group_id(0) / parts;
    const uint across = fv_ceil_div(width, FV_FOVEA_BLOCK);
    span s;
    s.begin = get_group_id(0) % parts * size;
    s.whole = block < blocks;
    if (s.whole) {
        s.y = s.x = 0;
        s.row = block * QUERIES;
        s.pitch = s.across = FV_FOVEA_BLOCK;
        s.rows = prefix_rows;
    } else {
        const uint top = (row0 + prefix_rows - fovea->prefix) / width / FV_FOVEA_BLOCK;
        s.y = (top + (block - blocks) / across) * FV_FOVEA_BLOCK;
        s.x = (block - blocks) % across * FV_FOVEA_BLOCK;
        s.row = fovea->prefix + s.y * width + s.x - row0;
        s.pitch = width;
        s.across = min(width - s.x, (uint)FV_FOVEA_BLOCK);
        s.rows = rows;
    }
    return s;
}

/* The row in the call of query r of the group; an arbitrary number if there is no such query. */
static inline uint row_of(span s, uint r)
{
    return s.row + (s.begin + r) / FV_FOVEA_BLOCK * s.pitch + (s.begin + r) % FV_FOVEA_BLOCK;
}

/* Whether query r exists: it must be inside the grid and belong to this call. */
static inline bool is_query(span s, uint r)
{
    return (s.begin + r) % FV_FOVEA_BLOCK < s.across && row_of(s, r) < s.rows;
}

static inline uint query_row(span s, uint r)
{
    return is_query(s, r) ? row_of(s, r) : 0;
}

/* Whether the group has any query at all, if it can have `size`. */
static inline bool has_queries(span s, uint size)
{
    bool any = false;
    for (uint r = 0; r < size; r++)
        any = any || is_query(s, r);
    return any;
}
