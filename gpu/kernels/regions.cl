/* regions.cl: detectors with regions: CANDIDATES, SUPPRESS, ROI_ALIGN, CLASS_MASK. The functions
 * are those of src/ops/ref/ref_regions.h. */

/* src/ops/contracts/regions.h */
#define SCORE 4
#define CLASS 5
#define COLUMNS 6

#if FV_COMPILES(candidates)
#define FV_FLAG_LARGEST (1u << 22) /* src/ops/op.h */

/* A work-item has a row. The table is the coder: means, standard deviations, stride, anchors. */
FV_KERNEL void candidates(FV_IN(0), FV_IN(1), FV_IN(2), FV_IN(3), FV_OUT(4), FV_CALL)
{
    const uint r = get_global_id(0), width = dim.s1, all = dim.s2 * width;
    if (r >= rows)
        return;
    uint number = row0 + r;
    if (FV_HAS0) {
        const float index = FV_GET(0, FV_AT(0, r));
        number = index >= 0.f && index < (float)all ? (uint)index : all;
    } else if (FV_FLAGS & FV_FLAG_LARGEST) {
        uint best = width;
        float most = 0.f;
        for (uint i = 0; i < width; i++) {
            const float x = FV_GET(1, FV_AT(1, number) + i);
            if (!isnan(x) && (best == width || x > most)) {
                best = i;
                most = x;
            }
        }
        number = best < width ? number * width + best : all;
    }
    uint there = number < all ? 1 : 0;
    number = there ? number : 0;
    const uint row = number / width, column = number % width;
    const uint place = dim.s3 > 1 ? 4 * column : 0;
    const float score = FV_GET(1, FV_AT(1, row) + column);
    float kind = (float)u.s1;
    if (FV_HAS3) {
        kind = (float)column;
        if (!(FV_GET(3, FV_AT(3, row) + CLASS) >= 0.f))
            there = 0;
    }
    if (!(score > f.s2))
        there = 0;
    float box[4];
    for (uint i = 0; i < 2; i++) {
        float low = 0.f, high = 0.f;
        if (FV_HAS3) {
            low = FV_GET(3, FV_AT(3, row) + i);
            high = FV_GET(3, FV_AT(3, row) + i + 2);
        } else {
            const float at = as_float(table[8]) * (float)(i ? row / u.s0 : row % u.s0);
            low = as_float(table[9 + 4 * column + i]) + at;
            high = as_float(table[11 + 4 * column + i]) + at;
        }
        const float side = high - low, end = i ? f.s1 : f.s0;
        const float move =
            FV_GET(2, FV_AT(2, row) + place + i) * as_float(table[4 + i]) + as_float(table[i]);
        const float wanted = FV_GET(2, FV_AT(2, row) + place + i + 2) * as_float(table[6 + i]) +
                             as_float(table[2 + i]);
        const float most = 4.135166556742356f;
        const float grow = wanted < -most ? -most : wanted > most ? most : wanted;
        const float centre = (low + high) * 0.5f + side * move;
        const float half_side = 0.5f * (side * exp(grow));
        const float from = centre - half_side, to = centre + half_side;
        box[i] = from < 0.f ? 0.f : from > end ? end : from;
        box[i + 2] = to < 0.f ? 0.f : to > end ? end : to;
        if (!isfinite(box[i]) || !isfinite(box[i + 2]) || !(half_side >= 0.f) ||
            (f.s3 >= 0.f && !(box[i + 2] - box[i] > f.s3)))
            there = 0;
    }
    for (uint i = 0; i < 4; i++)
        FV_PUT(4, FV_AT(4, r) + i, there ? box[i] : 0.f);
    FV_PUT(4, FV_AT(4, r) + SCORE, there ? score : 0.f);
    FV_PUT(4, FV_AT(4, r) + CLASS, there ? kind : -1.f);
}
#endif

#if FV_COMPILES(suppress)
/* Whether score x of row i precedes score y of row k. */
static inline uint precedes(float x, uint i, float y, uint k)
{
    return x > y || (!(x < y) && i < k);
}

/* One work-group finds one region after the other: each is the first, in their order, that follows
 * the previous one. Its work-items then compare it with the kept ones. */
FV_KERNEL void suppress(FV_IN(0), FV_OUT(1), FV_CALL)
{
    SHARED_VAR float score[FV_GROUP];
    SHARED_VAR uint place[FV_GROUP];
    const uint me = get_local_id(0), from = dim.s1, none = 0xffffffffu;
    uint kept = 0, last = none;
    float last_score = 0.f;
    for (uint turn = 0; turn < from && kept < rows; turn++) {
        uint best = none;
        float most = 0.f;
        for (uint i = me; i < from; i += FV_GROUP) {
            const float x = FV_GET(0, FV_AT(0, i) + SCORE);
            if (FV_GET(0, FV_AT(0, i) + CLASS) >= 0.f &&
                (last == none || precedes(last_score, last, x, i)) &&
                (best == none || precedes(x, i, most, best))) {
                best = i;
                most = x;
            }
        }
        FV_BARRIER();
        score[me] = most;
        place[me] = best;
        for (uint half_ = FV_GROUP / 2; half_ > 0; half_ /= 2) {
            FV_BARRIER();
            if (me < half_ && place[me + half_] != none &&
                (place[me] == none ||
                 precedes(score[me + half_], place[me + half_], score[me], place[me]))) {
                score[me] = score[me + half_];
                place[me] = place[me + half_];
            }
        }
        FV_BARRIER();
        last = place[0];
        last_score = score[0];
        FV_BARRIER();
        if (last == none)
            break;
        global const FV_CELL(0) *box = FV_AT(0, last);
        const float x1 = FV_GET(0, box), y1 = FV_GET(0, box + 1), x2 = FV_GET(0, box + 2);
        const float y2 = FV_GET(0, box + 3), kind = FV_GET(0, box + CLASS);
        const float area = (x2 - x1) * (y2 - y1);
        float covered = 0.f;
        for (uint k = me; k < kept; k += FV_GROUP) {
            global const FV_CELL(1) *other = FV_AT(1, k);
            const float left = FV_GET(1, other), top = FV_GET(1, other + 1);
            const float right = FV_GET(1, other + 2), bottom = FV_GET(1, other + 3);
            const float wide = (right < x2 ? right : x2) - (left > x1 ? left : x1);
            const float high = (bottom < y2 ? bottom : y2) - (top > y1 ? top : y1);
            const float both = (wide > 0.f ? wide : 0.f) * (high > 0.f ? high : 0.f);
            const float all = (right - left) * (bottom - top) + area - both;
            if (FV_GET(1, other + CLASS) == kind && both > f.s0 * all)
                covered = 1.f;
        }
        score[me] = covered;
        for (uint half_ = FV_GROUP / 2; half_ > 0; half_ /= 2) {
            FV_BARRIER();
            if (me < half_)
                score[me] = fmax(score[me], score[me + half_]);
        }
        FV_BARRIER();
        if (score[0] == 0.f) {
            for (uint i = me; i < COLUMNS; i += FV_GROUP)
                FV_PUT(1, FV_AT(1, kept) + i, FV_GET(0, box + i));
            kept++;
        }
        FV_STATE_BARRIER();
    }
    for (uint k = kept + me; k < rows; k += FV_GROUP)
        for (uint i = 0; i < COLUMNS; i++)
            FV_PUT(1, FV_AT(1, k) + i, i == CLASS ? -1.f : 0.f);
}
#endif

#if FV_COMPILES(roi_align)
/* The samples of one side of a cell: position of the first edge, step, number. */
static inline float4 samples_of(float low, float high, float scale, uint size, uint cell)
{
    const float first = low * scale - 0.5f, side = (high * scale - 0.5f) - first;
    const float cells = side / (float)size;
    uint n = cells < 1024.f ? (uint)fmax(cells, 0.f) : 1024;
    n += n < 1024 && (float)(n * size) < side ? 1 : 0;
    n -= n > 1 && (float)((n - 1) * size) >= side ? 1 : 0;
    if (!(side > 0.f))
        n = 0;
    return (float4)(first + (float)cell * cells, cells / (float)max(n, 1u), (float)n, 0.f);
}

/* The weight of the second value around sample i, or -1 outside of the level. */
static inline float between(float4 side, uint i, uint values, uint *low)
{
    const float at = side.s0 + ((float)i + 0.5f) * side.s1, last = (float)(values - 1);
    const uint inside = at >= -1.f && at <= (float)values;
    const float x = !inside || at < 0.f ? 0.f : at > last ? last : at;
    *low = (uint)x;
    return inside ? x - (float)*low : -1.f;
}

/* Adds the samples of a cell to four channels. */
#define ADD_LEVEL(n)                                                                               \
    for (uint iy = 0; iy < down; iy++) {                                                           \
        uint y, x;                                                                                 \
        const float low = between(side_y, iy, lines, &y);                                          \
        const uint y2 = min(y + 1, lines - 1);                                                     \
        for (uint ix = 0; ix < across; ix++) {                                                     \
            const float right = between(side_x, ix, columns, &x);                                  \
            const uint x2 = min(x + 1, columns - 1);                                               \
            if (low >= 0.f && right >= 0.f)                                                        \
                out +=                                                                             \
                    share *                                                                        \
                    ((1.f - low) *                                                                 \
                         ((1.f - right) *                                                          \
                              FV_GET_RUN(n, FV_AT(n, y * columns + x) + c, rest, 0.f) +            \
                          right * FV_GET_RUN(n, FV_AT(n, y * columns + x2) + c, rest, 0.f)) +      \
                     low * ((1.f - right) *                                                        \
                                FV_GET_RUN(n, FV_AT(n, y2 * columns + x) + c, rest, 0.f) +         \
                            right * FV_GET_RUN(n, FV_AT(n, y2 * columns + x2) + c, rest, 0.f)));   \
        }                                                                                          \
    }

/* A work-item has four channels of a row. The table has the levels: width, height, cells per pixel,
 * least area. */
FV_KERNEL void roi_align(FV_IN(0), FV_IN(1), FV_IN(2), FV_IN(3), FV_IN(4), FV_IN(5), FV_IN(6),
                         FV_OUT(7), FV_CALL)
{
    const uint runs = (dim.s1 + 3) / 4, size = dim.s2, cells = size * size;
    const uint2 me = fv_spread(runs);
    if (me.x >= rows || me.y >= runs)
        return;
    const uint number = (row0 + me.x) / cells, cell = (row0 + me.x) % cells;
    const uint c = 4 * me.y, rest = dim.s1 - c;
    global const FV_CELL(0) *region = FV_AT(0, number);
    const float x1 = FV_GET(0, region), y1 = FV_GET(0, region + 1);
    const float right_edge = FV_GET(0, region + 2), bottom_edge = FV_GET(0, region + 3);
    const float area = (right_edge - x1) * (bottom_edge - y1);
    uint at = 0;
    while (at + 1 < dim.s4 && area >= as_float(table[4 * at + 7]))
        at++;
    const uint columns = table[4 * at], lines = table[4 * at + 1];
    const float scale = as_float(table[4 * at + 2]);
    const float4 side_x = samples_of(x1, right_edge, scale, size, cell % size);
    const float4 side_y = samples_of(y1, bottom_edge, scale, size, cell / size);
    const uint there = FV_GET(0, region + CLASS) >= 0.f ? 1 : 0;
    const uint across = there ? (uint)side_x.s2 : 0, down = (uint)side_y.s2;
    const float share = 1.f / fmax(side_x.s2 * side_y.s2, 1.f);
    float4 out = 0.f;
#if FV_HAS1
    if (at == 0)
        ADD_LEVEL(1)
#endif
#if FV_HAS2
    if (at == 1)
        ADD_LEVEL(2)
#endif
#if FV_HAS3
    if (at == 2)
        ADD_LEVEL(3)
#endif
#if FV_HAS4
    if (at == 3)
        ADD_LEVEL(4)
#endif
#if FV_HAS5
    if (at == 4)
        ADD_LEVEL(5)
#endif
#if FV_HAS6
    if (at == 5)
        ADD_LEVEL(6)
#endif
    FV_PUT_RUN(7, FV_AT(7, me.x) + c, out, rest);
}
#endif

#if FV_COMPILES(class_mask)
/* A work-item has a row. */
FV_KERNEL void class_mask(FV_IN(0), FV_IN(1), FV_IN(2), FV_OUT(3), FV_CALL)
{
    const uint r = get_global_id(0), classes = dim.s1;
    if (r >= rows)
        return;
    const float k = FV_GET(1, FV_AT(1, (row0 + r) / dim.s2) + CLASS);
    const uint there = k >= 0.f && (classes == 1 || k < (float)classes) ? 1 : 0;
    const uint column = there && classes > 1 ? (uint)k : 0;
    const float x = FV_GET(0, FV_AT(0, r) + column);
    float sum = 0.f;
    if (FV_HAS2)
        sum = FV_GET(2, FV_AT(2, r));
    FV_PUT(3, FV_AT(3, r), there ? sum + f.s0 / (1.f + exp(-x)) : sum);
}
#endif
