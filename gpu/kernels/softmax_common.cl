/* softmax_common.cl: definitions for the kernels of SOFTMAX and, with FV_WINDOW, of WSOFTMAX:
 * operands, the rows of a work-group, and relative positions, which are operand 3 with
 * FV_REL_POS. */
#define LOG2_E 1.44269504f

#define FV_TOUT FV_T4
#define baseOUT base4
#define atOUT at4
#define ATTENTION FV_CAT(FV_SOFTMAX_, FV_WINDOW)
#define FV_SOFTMAX_0 softmax
#define FV_SOFTMAX_1 wsoftmax
#define OPERANDS FV_IN(0), FV_IN(1), FV_IN(2), FV_IN(3), FV_OUT(4), FV_CALL
#define OPERANDS_GIVEN                                                                             \
    FV_GIVEN(0), FV_GIVEN(1), FV_GIVEN(2), FV_GIVEN(3), FV_GIVEN(4), FV_CALL_GIVEN

/* The rows of a work-group, counted from row `base`: the first of its window, or 0. */
typedef struct span {
    uint base;
    uint begin, last; /* its queries */
    uint end;         /* its keys are those before */
} span;

/* The rows of this work-group, if each work-group has `size` queries. */
#define SPAN(size) span_of(size, rows, row0, dim.s3)
static inline span span_of(uint size, uint rows, uint row0, uint keys)
{
    const uint queries = FV_WINDOW ? keys : rows, blocks = (queries + size - 1) / size;
    span s;
    s.base = FV_WINDOW ? get_group_id(0) / blocks * keys : 0;
    s.begin = (FV_WINDOW ? get_group_id(0) % blocks : get_group_id(0)) * size;
    s.last = min(s.begin + size, queries) - 1;
    s.end = FV_FLAGS & FV_FLAG_CAUSAL ? min(keys, row0 + s.last + 1) : keys;
    return s;
}

/* The row of query r of the work-group (beyond the last one, the last one's row); and whether there
 * is such a query. */
static inline uint query_row(span s, uint r)
{
    return s.base + min(s.begin + r, s.last);
}

static inline bool is_query(span s, uint r)
{
    return s.begin + r <= s.last;
}

#if FV_REL_POS
/* The relative position that is added to the score of key j and query r. */
#define RELATIVE(s, r, j) relative_of(FV_AT(3, query_row(s, r)), j, dim.s3, dim.s5)
static inline float relative_of(global const FV_CELL(3) *row, uint j, uint keys, uint width)
{
    row += get_group_id(1) * (keys / width + width);
    return FV_GET(3, row + j / width) + FV_GET(3, row + keys / width + j % width);
}
#endif
