/* attend.c: computes one linear attention on random data, and checks it against a plain loop.
 *
 *   cc attend.c -o attend $(pkg-config --cflags --libs fovea) -lm
 *   ./attend [tokens]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <fovea/fovea.h>

enum { HEADS = 4, D = 32, WIDE = HEADS * D };

static float *random_rows(size_t rows)
{
    float *x = malloc(rows * WIDE * sizeof *x);
    for (size_t i = 0; x && i < rows * WIDE; i++)
        x[i] = (float)rand() / (float)RAND_MAX * 2 - 1;
    return x;
}

/* The feature map of "linear:elu1". */
static double elu1(double x)
{
    return x > 0 ? x + 1 : exp(x);
}

/* Computes row `row` of one head by the formula, with a weight for every key, in O(tokens). */
static void attend(const float *q, const float *k, const float *v, size_t tokens, size_t row,
                   size_t head, double *out)
{
    double sum = 1e-6; /* eps */
    for (size_t c = 0; c < D; c++)
        out[c] = 0;
    for (size_t j = 0; j < tokens; j++) {
        double weight = 0;
        for (size_t c = head * D; c < (head + 1) * D; c++)
            weight += elu1((double)q[row * WIDE + c]) * elu1((double)k[j * WIDE + c]);
        sum += weight;
        for (size_t c = 0; c < D; c++)
            out[c] += weight * (double)v[j * WIDE + head * D + c];
    }
    for (size_t c = 0; c < D; c++)
        out[c] /= sum;
}

int main(int argc, char **argv)
{
    const size_t tokens = argc > 1 ? strtoul(argv[1], NULL, 10) : 2000;
    float *q = random_rows(tokens), *k = random_rows(tokens), *v = random_rows(tokens);
    float *out = random_rows(tokens);
    if (!q || !k || !v || !out)
        return fprintf(stderr, "out of memory\n"), 1;

    /* Plan once: all decisions and allocations happen here. */
    fovea_device *device = NULL;
    fovea_plan *plan = NULL;
    fovea_attention_options options = FOVEA_ATTENTION_OPTIONS_INIT;
    options.attention = "linear:elu1"; /* or "softmax", "mala", "pola", "nala", ... */
    options.rows = (uint32_t)tokens;
    options.heads = HEADS;
    options.head_dim = options.value_dim = D;
    if (fovea_device_open(&device, "cpu", NULL) ||
        fovea_attention_plan_create(&plan, device, &options))
        return fprintf(stderr, "%s\n", fovea_error()), 1;

    /* Repeat this for new inputs. Matrices have a row per token, which contains all heads. */
    const fovea_matrix inputs[] = {{q, 0}, {k, 0}, {v, 0}};
    if (fovea_op_run(plan, inputs, 3, (fovea_matrix){out, 0}))
        return fprintf(stderr, "%s\n", fovea_error()), 1;

    double error = 0, largest = 0;
    for (size_t row = 0; row < tokens; row += 1 + tokens / 50)
        for (size_t head = 0; head < HEADS; head++) {
            double want[D];
            attend(q, k, v, tokens, row, head, want);
            for (size_t c = 0; c < D; c++) {
                error = fmax(error, fabs((double)out[row * WIDE + head * D + c] - want[c]));
                largest = fmax(largest, fabs(want[c]));
            }
        }
    printf("%zu tokens, %d heads of %d channels: largest error %.1e of the largest value\n", tokens,
           HEADS, D, error / largest);
    fovea_plan_free(plan);
    fovea_device_close(device);
    free(q);
    free(k);
    free(v);
    free(out);
    return !(error <= 1e-5 * largest);
}
