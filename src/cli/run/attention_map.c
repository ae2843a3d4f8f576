/* attention_map.c: computes which keys one token attends to, under several mechanisms, as numbers
 * and as a picture.
 *
 * The output of attention is linear in the values. If each key's value is 1 in its own channel and
 * 0 in all others, the output of the library's operation is that key's weight. A whole row of
 * weights is computed for one block of keys at a time. This needs no N x N matrix, and no second
 * implementation of any mechanism. */
#include "cli/run/attention_map.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/picture/heat_map.h"

enum { KEYS = 32 }; /* keys per block */

/* ---- the request ---- */

char *attention_query_join(int *argc, char **argv)
{
    for (int i = 1; i + 2 < *argc; i++) {
        const char *at = argv[i + 1];
        if (strcmp(argv[i], "--attention-map") != 0 || at[strspn(at, "0123456789,")] ||
            !cli_ends_with(argv[i + 2], ".png") || access(argv[i + 2], F_OK) == 0)
            continue; /* the second word names an existing file, which may be an input */
        char *joined = cli_text("%s,%s", at, argv[i + 2]);
        argv[i + 1] = joined;
        (*argc)--;
        memmove(&argv[i + 2], &argv[i + 3], (size_t)(*argc - i - 1) * sizeof *argv);
        return joined;
    }
    return NULL;
}

int attention_query_parse(attention_query *out, const char *text, const char *block)
{
    unsigned x = 0, y = 0;
    int end = 0;
    if (!text && block)
        return cli_fail(CLI_USAGE, "--attention-block needs --attention-map, which is not given");
    if (!text)
        return CLI_OK;
    if (!isdigit((unsigned char)*text) || sscanf(text, "%u,%u,%n", &x, &y, &end) != 2 || !end ||
        !cli_ends_with(text + end, ".png"))
        return cli_fail(CLI_USAGE, "--attention-map %s: it must be X,Y,OUT.png as one argument",
                        text);
    *out = (attention_query){.x = x, .y = y, .path = text + end, .block = -1};
    double number = -1;
    CLI_TRY(cli_real(&number, "attention-block", block, -4096, 4096));
    if (number != floor(number))
        return cli_fail(CLI_USAGE, "--attention-block %s: it must be a whole number", block);
    out->block = (int)number;
    return CLI_OK;
}

bool attention_output(const char *name)
{
    return cli_ends_with(name, ".q") || cli_ends_with(name, ".k");
}

int attention_query_choose(attention_query *q, const cli_session *s)
{
    const char *name;
    int blocks = 0, at = 0;
    for (size_t i = 0; (name = fovea_model_output(s->model, i)); i++)
        blocks += cli_ends_with(name, ".q");
    if (!blocks)
        return cli_fail(CLI_UNSUPPORTED,
                        "--attention-map is not possible, because %s models do not output q and k",
                        s->info.type);
    const int wanted = q->block < 0 ? blocks + q->block : q->block;
    if (wanted < 0 || wanted >= blocks)
        return cli_fail(CLI_USAGE, "--attention-block %d: the model's blocks are 0 to %d", q->block,
                        blocks - 1);
    for (size_t i = 0; (name = fovea_model_output(s->model, i)); i++)
        if (cli_ends_with(name, ".q") && at++ == wanted)
            q->q = name;
    char *key = cli_text("%.*sk", (int)strlen(q->q) - 1, q->q);
    q->k = cli_output_name(s->model, key);
    free(key);
    q->device = s->device;
    return CLI_OK;
}

/* ---- rows ---- */

/* The operation for one mechanism, over the keys that the token sees. Softmax with biases needs one
 * additional channel: 1 in the query; in each key, its bias divided by the scale. */
struct scan {
    fovea_plan *plan;
    uint32_t heads, d, keys;
    uint32_t rows, row;  /* number of rows of the operation; index of the query's row */
    float *q, *k;        /* (rows, heads * d), (keys, heads * d) */
    float *values, *out; /* (keys, heads * 2 KEYS), (rows, heads * 2 KEYS) */
};

/* Sets the values of the keys from `first` on to `value`. Each key has one channel in both halves
 * of every head, because in some mechanisms the halves have different weights. */
static void mark(struct scan *s, uint32_t first, float value)
{
    for (uint32_t i = 0; i < KEYS && first + i < s->keys; i++)
        for (uint32_t h = 0; h < 2 * s->heads; h++)
            s->values[((size_t)(first + i) * 2 * s->heads + h) * KEYS + i] = value;
}

/* Stores the weights of the keys from `first` on, averaged over heads and halves. */
static void collect(double *weight, const struct scan *s, const attention_map *m, uint32_t first)
{
    const float *out = s->out + (size_t)s->row * s->heads * 2 * KEYS;
    for (uint32_t i = 0; i < KEYS && first + i < s->keys; i++) {
        double sum = 0;
        for (uint32_t h = 0; h < 2 * s->heads; h++)
            sum += out[(size_t)h * KEYS + i];
        weight[m->key[first + i]] = sum / (2 * s->heads);
    }
}

static bool is_rotated(const fovea_attention_options *o)
{
    return o->rope_cos || o->rope_width;
}

static int plan_row(struct scan *s, const attention_map *m, const fovea_attention_options *kind)
{
    fovea_attention_options o = *kind;
    o.rows = s->rows;
    o.keys = s->keys;
    o.heads = s->heads;
    o.head_dim = s->d;
    o.value_dim = 2 * KEYS;
    return cli_check(fovea_attention_plan_create(&s->plan, m->query->device, &o));
}

/* Copies one row of `in` for the operation. If s->d > d, each head gets an additional channel for
 * biases. */
static void copy_row(float *out, const struct scan *s, const float *in, uint32_t d)
{
    for (uint32_t h = 0; h < s->heads; h++)
        for (uint32_t c = 0; c < d; c++)
            out[(size_t)h * s->d + c] = in[(size_t)h * d + c];
}

static void fill_rows(struct scan *s, const attention_map *m, bool biased, double scale)
{
    const uint32_t d = m->own.head_dim, rows_of_k = m->in.k_info.rows;
    const size_t from = (size_t)s->heads * d, to = (size_t)s->heads * s->d;
    for (uint32_t i = 0; i < s->rows; i++)
        copy_row(s->q + i * to, s, m->in.q + (s->rows > 1 ? i : m->token) * from, d);
    for (uint32_t j = 0; j < s->keys; j++)
        copy_row(s->k + j * to, s, m->in.k + m->key[j] * from, d);
    for (uint32_t h = 0; biased && h < s->heads; h++) {
        s->q[(size_t)h * s->d + d] = 1;
        for (uint32_t j = 0; j < s->keys; j++)
            s->k[j * to + (size_t)h * s->d + d] =
                (float)(m->bias[(size_t)h * rows_of_k + m->key[j]] / scale);
    }
}

static bool has_bias(const attention_map *m)
{
    for (size_t i = 0; i < (size_t)m->own.heads * m->in.k_info.rows; i++)
        if (isfinite(m->bias[i]) && fabsf(m->bias[i]) > 0)
            return true;
    return false;
}

static void free_scan(struct scan *s)
{
    fovea_plan_free(s->plan);
    free(s->q);
    free(s->k);
    free(s->values);
    free(s->out);
}

/* Computes the weight of each key under mechanism `kind`. */
static int attention_weights(double *weight, const attention_map *m,
                             const fovea_attention_options *kind, bool own, cli_progress *bar)
{
    const bool biased = own && strcmp(kind->attention, "softmax") == 0 && has_bias(m);
    /* rotations take positions from the row numbers, so the operation needs all queries */
    const bool whole = is_rotated(kind);
    struct scan s = {.heads = m->own.heads,
                     .d = m->own.head_dim + biased,
                     .keys = m->keys,
                     .rows = whole ? m->keys : 1,
                     .row = whole ? m->token : 0};
    int code = plan_row(&s, m, kind);
    if (code)
        return code;
    s.q = cli_alloc((size_t)s.rows * s.heads, s.d * sizeof *s.q);
    s.k = cli_alloc((size_t)s.keys * s.heads, s.d * sizeof *s.k);
    s.values = cli_alloc((size_t)s.keys * s.heads, 2 * KEYS * sizeof *s.values);
    s.out = cli_alloc((size_t)s.rows * s.heads, 2 * KEYS * sizeof *s.out);
    fill_rows(&s, m, biased, kind->scale);
    const fovea_matrix in[] = {{s.q, 0}, {s.k, 0}, {s.values, 0}};
    for (uint32_t first = 0; first < s.keys && !code; first += KEYS) {
        mark(&s, first, 1);
        code = cli_check(fovea_op_run(s.plan, in, 3, (fovea_matrix){s.out, 0}));
        mark(&s, first, 0);
        collect(weight, &s, m, first);
        cli_progress_show(bar, (double)m->rows + (double)first / s.keys, ATTENTION_ROWS);
    }
    free_scan(&s);
    return code;
}

static void measure(attention_row *r, uint32_t n)
{
    double sum = 0, negative = 0;
    for (uint32_t j = 0; j < n; j++) {
        sum += fmax(r->weight[j], 0);
        negative += fmax(-r->weight[j], 0);
    }
    for (uint32_t j = 0; j < n; j++)
        if (r->weight[j] > 0)
            r->entropy -= r->weight[j] / sum * log(r->weight[j] / sum);
    r->negative = negative > 0 ? negative / (sum + negative) : 0;
}

static int add_row(attention_map *m, const fovea_attention_options *kind, bool own,
                   cli_progress *bar)
{
    const size_t n = m->in.k_info.rows;
    double *weight = cli_alloc(n, sizeof *weight);
    int code = attention_weights(weight, m, kind, own, bar);
    if (code) {
        free(weight);
        return code;
    }
    /* The list may already have the model's own attention under another name. The weights are then
     * equal. */
    for (size_t i = 0; own && i < m->rows; i++)
        if (memcmp(m->row[i].weight, weight, n * sizeof *weight) == 0) {
            m->row[i].own = true;
            free(weight);
            return CLI_OK;
        }
    attention_row *r = &m->row[m->rows++];
    *r = (attention_row){.name = kind->attention, .own = own, .weight = weight};
    measure(r, m->in.k_info.rows);
    return CLI_OK;
}

static int find_keys(attention_map *m)
{
    const size_t n = m->in.k_info.rows;
    m->bias = cli_alloc(m->own.heads * n, sizeof *m->bias);
    m->key = cli_alloc(n, sizeof *m->key);
    CLI_TRY(cli_check(
        fovea_plan_attention_bias(m->in.plan, m->in.index, m->token, m->bias, m->own.heads * n)));
    for (uint32_t j = 0; j < n; j++)
        if (isfinite(m->bias[j]))
            m->key[m->keys++] = j;
    return CLI_OK;
}

/* Returns whether q and k determine the weights. Gates need other inputs, and foveated attention
 * needs the grid, so their weights cannot be computed from q and k. */
static bool computable(const char *attention)
{
    return strncmp(attention, "sla-", 4) != 0 && strncmp(attention, "foveated", 8) != 0;
}

int attention_map_make(attention_map *out, const attention_query *query, const attention_input *in)
{
    static const char *const names[] = {"softmax", "linear:elu1", "mala", "pola", "nala"};
    const fovea_output_info *info = &in->q_info;
    const uint32_t column = query->x / info->stride, row = query->y / info->stride;
    *out = (attention_map){.query = query, .in = *in, .own = FOVEA_ATTENTION_OPTIONS_INIT};
    if (column >= info->grid_width || row >= info->grid_height)
        return cli_fail(
            CLI_USAGE,
            "--attention-map %u,%u: the point must be within the %ux%u pixels that the model sees",
            query->x, query->y, info->grid_width * info->stride, info->grid_height * info->stride);
    out->token = info->prefix + row * info->grid_width + column;
    CLI_TRY(cli_check(fovea_plan_attention(in->plan, in->index, &out->own)));
    CLI_TRY(find_keys(out));
    cli_progress bar;
    int code = CLI_OK;
    cli_progress_begin(&bar, "attention");
    for (size_t i = 0; i < sizeof names / sizeof *names && !code; i++) {
        fovea_attention_options plain = FOVEA_ATTENTION_OPTIONS_INIT;
        plain.attention = names[i];
        plain.scale = 1 / sqrt(out->own.head_dim);
        code = add_row(out, &plain, false, &bar);
    }
    if (computable(out->own.attention))
        CLI_THEN(code, add_row(out, &out->own, true, &bar));
    cli_progress_end(&bar);
    return code;
}

void attention_map_free(attention_map *m)
{
    for (size_t i = 0; i < m->rows; i++)
        free(m->row[i].weight);
    free(m->bias);
    free(m->key);
    *m = (attention_map){0};
}

/* ---- numbers ---- */

void attention_map_print(const attention_map *m)
{
    const attention_query *q = m->query;
    printf("  attention of token %u at %u,%u in %.*s, %u keys; uniform: PSE %.4f\n", m->token, q->x,
           q->y, (int)strlen(q->q) - 2, q->q, m->keys, log(m->keys));
    for (size_t i = 0; i < m->rows; i++) {
        const attention_row *r = &m->row[i];
        printf("    %-16s PSE %.4f", r->name, r->entropy);
        if (r->negative > 0)
            printf(", %.1f %% negative", 100 * r->negative);
        puts(r->own ? "  (the model's own)" : "");
    }
}

json_t *attention_map_describe(const attention_map *m)
{
    const attention_query *q = m->query;
    json_t *rows = json_array();
    for (size_t i = 0; i < m->rows; i++) {
        const attention_row *r = &m->row[i];
        json_t *weights = json_array();
        for (uint32_t j = 0; j < m->in.k_info.rows; j++)
            json_array_append_new(weights, cli_json_number(r->weight[j]));
        json_array_append_new(rows,
                              json_pack("{s:s, s:b, s:o, s:o, s:o}", "attention", r->name, "own",
                                        r->own, "pse", cli_json_number(r->entropy), "negative",
                                        cli_json_number(r->negative), "weights", weights));
    }
    return json_pack("{s:o, s:i, s:i, s:i, s:i, s:i, s:f, s:o}", "block",
                     json_sprintf("%.*s", (int)strlen(q->q) - 2, q->q), "x", (int)q->x, "y",
                     (int)q->y, "token", (int)m->token, "keys", (int)m->keys, "heads",
                     (int)m->own.heads, "pse_uniform", log(m->keys), "rows", rows);
}

/* ---- the picture ---- */

/* Draws a frame around the query's patch: white between black lines, which is visible on any
 * background. */
static void frame(const cli_image *on, const attention_map *m, const heat_panel *p)
{
    static const double white[3] = {255, 255, 255}, black[3] = {0, 0, 0};
    const double side = m->in.q_info.stride * p->scale;
    const int x0 = (int)(m->query->x / m->in.q_info.stride * side);
    const int y0 = (int)(m->query->y / m->in.q_info.stride * side);
    for (int ring = -2; ring <= 1; ring++) {
        const double *colour = ring == -2 || ring == 1 ? black : white;
        const int low_x = x0 + ring, low_y = y0 + ring;
        const int high_x = (int)(x0 + side) - 1 - ring, high_y = (int)(y0 + side) - 1 - ring;
        for (int y = low_y; y <= high_y; y++)
            for (int x = low_x; x <= high_x; x++)
                if ((x == low_x || x == high_x || y == low_y || y == high_y) && x >= 0 && y >= 0 &&
                    x < (int)p->width && y < (int)p->height)
                    heat_pixel(on, p->x + (uint32_t)x, p->y + (uint32_t)y, colour);
    }
}

/* Draws the panel of one mechanism; if `row` is NULL, draws only the picture. Colours show the
 * square root of the weight on the panel's own scale, because otherwise a few large weights would
 * hide all others. */
static void draw_panel(const cli_image *on, const attention_map *m, const cli_image *picture,
                       const attention_row *row, const heat_panel *p)
{
    const fovea_output_info *g = &m->in.k_info;
    const size_t patches = (size_t)g->grid_width * g->grid_height;
    double *plane = cli_alloc(patches, sizeof *plane), top = 0;
    for (size_t i = 0; row && i < patches; i++)
        top = fmax(top, row->weight[g->prefix + i]);
    for (size_t i = 0; row && i < patches && top > 0; i++)
        plane[i] = sqrt(fmax(row->weight[g->prefix + i], 0) / top);
    heat_draw(on, p, picture, row ? plane : NULL, g);
    free(plane);
    frame(on, m, p);
}

int attention_map_draw(const attention_map *m, const cli_image *picture, const char *path)
{
    const uint32_t panels = (uint32_t)m->rows + 1, columns = (panels + 1) / 2;
    heat_panel p = heat_panel_for(picture);
    /* the panel of a tall picture must still be wide enough for its label */
    const uint32_t cell = p.width > HEAT_SIDE_LEAST ? p.width : HEAT_SIDE_LEAST;
    cli_image all = {columns * (cell + HEAT_GAP) + HEAT_GAP,
                     2 * (p.height + HEAT_STRIP + HEAT_GAP) + HEAT_GAP, NULL};
    all.rgb = cli_alloc((size_t)all.width * all.height, 3);
    memset(all.rgb, 255, (size_t)all.width * all.height * 3);
    for (uint32_t i = 0; i < panels; i++) {
        const attention_row *row = i ? &m->row[i - 1] : NULL;
        p.x = HEAT_GAP + i % columns * (cell + HEAT_GAP);
        p.y = HEAT_GAP + HEAT_STRIP + i / columns * (p.height + HEAT_STRIP + HEAT_GAP);
        char *label = row ? cli_text("%s%s PSE %.3f", row->name, row->own ? "*" : "", row->entropy)
                          : cli_text("%u,%u of %ux%u", m->query->x, m->query->y, picture->width,
                                     picture->height);
        heat_label(&all, &p, label);
        free(label);
        draw_panel(&all, m, picture, row, &p);
    }
    int code = cli_image_write_png(path, &all);
    cli_image_free(&all);
    return code;
}
