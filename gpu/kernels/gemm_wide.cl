/* gemm_wide.cl: products on CPUs. A work-item has its group to itself. It computes FV_TILES tiles
 * of FV_TM rows, one below the other, of FV_TN columns, which are a vector.
 *
 * FV_SLAB steps of k are added to all tiles before the next ones, so that their weights stay in the
 * cache. Of other types than float32, both operands are converted a slab at a time, because a CPU
 * converts many numbers together faster than one alone; so are windows, whose rows may be outside
 * the grid. A CPU also reads one float into all elements of a vector faster than it spreads one of
 * several that it has read together.
 */
#define FV_SLAB 64

/* Number k of row i of a tile, in this slab. */
#if FV_IS_FLOAT(0) && !FV_CONV
#define FV_STAGE_ROW(i) staged[i] = run
#define FV_STAGED_ROWS global const float *staged[FV_TM]
#else
#define FV_STAGE_ROW(i) fv_convert_run(staged[i], run, n)
#define FV_STAGED_ROWS float staged[FV_TM][FV_SLAB]
/* Converts `n` numbers of a run, or stores zeros where the run is outside the grid. */
static inline void fv_convert_run(float *to, fv_source run, uint n)
{
    uint k = 0;
    for (; k + 16 <= n; k += 16)
        vstore16(run ? FV_GET16(0, run + k) : (float16)(0.f), 0, to + k);
    for (; k < n; k++)
        to[k] = FV_A1(run, k);
}
#endif

/* The weights of step k of the slab. */
#if FV_IS_FLOAT(1)
#define FV_STAGE_WEIGHTS global const float *slab = weight
#define FV_STAGED_WEIGHTS(k) FV_CAT(vload, FV_TN)(0, slab + (k)*FV_PANEL)
#else
#define FV_STAGE_WEIGHTS                                                                           \
    FV_V slab[FV_SLAB];                                                                            \
    for (uint k = 0; k < n; k++)                                                                   \
    slab[k] = FV_GET_W(FV_TN, weight + k * FV_PANEL, FV_SCALE(FV_TN, col))
#define FV_STAGED_WEIGHTS(k) slab[k]
#endif

FV_KERNEL void product(FV_ARGS)
{
    const uint top = get_group_id(0) * FV_TILES * FV_TM, col = get_group_id(1) * FV_TN;
    const uint tiles = min((rows - top + FV_TM - 1) / FV_TM, (uint)FV_TILES);
    fv_weight weight = FV_COLUMN(col);
    FV_V sums[FV_TILES][FV_TM];
    for (uint tile = 0; tile < tiles; tile++)
        FV_EACH(i)
            sums[tile][i] = (FV_V)(0.f);
    for (uint tap = 0; tap < FV_TAPS; tap++)
        for (uint k0 = 0; k0 < FV_DEPTH; k0 += FV_SLAB) {
            const uint n = min(FV_DEPTH - k0, (uint)FV_SLAB);
            FV_STAGE_WEIGHTS;
            for (uint tile = 0; tile < tiles; tile++) {
                FV_V acc[FV_TM];
                FV_STAGED_ROWS;
                FV_EACH(i) {
                    const uint row = min(top + tile * FV_TM + i, rows - 1);
                    fv_source run = FV_RUN(FV_PLACE(row), tap % FV_SIDE, tap / FV_SIDE);
                    run = run ? run + k0 : run;
                    FV_STAGE_ROW(i);
                    acc[i] = sums[tile][i];
                }
                for (size_t k = 0; k < n; k++) {
                    const FV_V x = FV_STAGED_WEIGHTS(k);
                    FV_EACH(i)
                        acc[i] = FV_MAD((FV_V)(staged[i][k]), x, acc[i]);
                }
                FV_EACH(i)
                    sums[tile][i] = acc[i];
            }
            weight += n * FV_PANEL;
        }
    for (uint i = 0; i < tiles * FV_TM && top + i < rows; i++)
        FV_FINISH_ROW(sums[i / FV_TM][i % FV_TM], top + i, col);
}
