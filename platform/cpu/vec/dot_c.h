/* dot_c.h: products of integers in plain C, for gemm_i8_tmpl.c. */
#define SPLIT 1
#define BIAS 0
typedef int8_t number;
typedef struct {
    int32_t lane[FV_W];
} sums;
typedef const int8_t *numbers;

FV_WORD(sums, none, (void), (sums){{0}})

FV_WORD(numbers, columns, (const int8_t *w), w)
FV_WORD(numbers, steps, (const number *a), a)

FV_FN sums add(sums sum, numbers x, numbers column)
{
    for (int i = 0; i < FV_W; i++)
        for (int k = 0; k < 4; k++)
            sum.lane[i] += x[k] * column[4 * i + k];
    return sum;
}

FV_FN void put(int32_t *acc, const sums *sum)
{
    memcpy(acc, sum, sizeof *sum);
}

FV_FN fv_v of_whole(const int32_t *x, int32_t off)
{
    float lane[FV_W];
    for (int i = 0; i < FV_W; i++)
        lane[i] = (float)(x[i] - off);
    return fv_load(lane);
}

FV_FN void put_64(number *q, const fv_v x[FV_ROTATED], sums *total)
{
    (void)total; /* not needed: no operand has an offset */
    for (int v = 0; v < FV_ROTATED; v++) {
        float lane[FV_W];
        fv_store(lane, fv_round(x[v]));
        for (int i = 0; i < FV_W; i++)
            q[FV_W * v + i] = (int8_t)lane[i];
    }
}

FV_FN int32_t total_of(sums total)
{
    (void)total;
    return 0;
}
