/* attention_map.c: what one token attends to, by several mechanisms, as numbers and as a picture.
 *
 * The output of attention is linear in the values. With values that are 1 for one key each and 0
 * elsewhere, an operation of the library gives the weights of these keys; a block of keys at a time
 * gives a whole row, never N x N, and no mechanism is written down a second time here.
 */
#include "cli/run/attention_map.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/run/heat_map.h"

enum { KEYS = 32 }; /* at a time */

/* ---- what is asked for ---- */

char *attention_query_join(int *argc, char **argv)
{
    for (int i = 1; i + 2 < *argc; i++) {
        const char *at = argv[i + 1];
        if (strcmp(argv[i], "--attention-map") != 0 || at[strspn(at, "0123456789,")] ||
            !cli_ends_with(argv[i + 2], ".png") || access(argv[i + 2], F_OK) == 0)
            continue; /* a file that is there may be an input */
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
        return cli_fail(CLI_USAGE, "--attention-block is for --attention-map, which is not given");
    if (!text)
        return CLI_OK;
    if (!isdigit((unsigned char)*text) || sscanf(text, "%u,%u,%n", &x, &y, &end) != 2 || !end ||
        !cli_ends_with(text + end, ".png"))
        return cli_fail(CLI_USAGE, "--attention-map %s: wanted X,Y,OUT.png in one word", text);
    *out = (attention_query){.x = x, .y = y, .path = text + end, .block = -1};
    double number = -1;
    CLI_TRY(cli_real(&number, "attention-block", block, -4096, 4096));
    if (number != floor(number))
        return cli_fail(CLI_USAGE, "--attention-block %s: wanted a whole number", block);
    out->block = (int)number;
    return CLI_OK;
}

bool attention_output(const char *name)
{
    return cli_ends_with(name, ".q") || cli_ends_with(name, ".k");
}

/* The attention of one block: of "linear+softmax@3+mala@8-" the last name that is for it. */
static void own_attention(attention_query *q, const char *text, unsigned block)
{
    for (const char *end; *text; text = *end ? end + 1 : end) {
        end = text + strcspn(text, "+");
        while (*end && isdigit((unsigned char)end[1])) /* the map "elu+1" */
            end += 1 + strcspn(end + 1, "+");
        const char *at = memchr(text, '@', (size_t)(end - text));
        unsigned first = 0, last = 0;
        char to = 0;
        const int read = at ? sscanf(at, "@%u%c%u", &first, &to, &last) : 0;
        if (read == 1 || (read > 1 && to != '-'))
            last = first;
        else if (read < 3)
            last = UINT_MAX;
        if (block >= first && block <= last)
            snprintf(q->own, sizeof q->own, "%.*s", (int)((at ? at : end) - text), text);
    }
}

int attention_query_choose(attention_query *q, const cli_session *s)
{
    const char *name;
    int blocks = 0, at = 0;
    for (size_t i = 0; (name = fovea_model_output(s->model, i)); i++)
        blocks += cli_ends_with(name, ".q");
    if (!blocks)
        return cli_fail(CLI_UNSUPPORTED, "--attention-map: %s models do not offer q and k",
                        s->info.type);
    const int wanted = q->block < 0 ? blocks + q->block : q->block;
    if (wanted < 0 || wanted >= blocks)
        return cli_fail(CLI_USAGE, "--attention-block %d: the model has blocks 0 to %d", q->block,
                        blocks - 1);
    for (size_t i = 0; (name = fovea_model_output(s->model, i)); i++)
        if (cli_ends_with(name, ".q") && at++ == wanted)
            q->q = name;
    char *key = cli_text("%.*sk", (int)strlen(q->q) - 1, q->q);
    q->k = cli_output_name(s->model, key);
    free(key);
    own_attention(q, cli_attention(&s->settings, &s->info), (unsigned)wanted);
    const bool softmax = strcmp(q->own, "softmax") == 0 || strncmp(q->own, "foveated", 8) == 0;
    q->linear = s->info.linear;
    q->heads = softmax || !q->linear.heads ? s->info.heads : q->linear.heads;
    q->device = s->device;
    return CLI_OK;
}

/* ---- rows ---- */

struct scan {
    fovea_plan *plan;
    uint32_t heads, keys;
    float *values, *out; /* (keys, heads * 2 KEYS), (heads * 2 KEYS) */
};

/* Values of the keys from `first` on: one channel each in both halves of every head, because there
 * are mechanisms whose halves see different weights. */
static void mark(struct scan *s, uint32_t first, float value)
{
    for (uint32_t i = 0; i < KEYS && first + i < s->keys; i++)
        for (uint32_t h = 0; h < 2 * s->heads; h++)
            s->values[((size_t)(first + i) * 2 * s->heads + h) * KEYS + i] = value;
}

/* Adds the weights of the keys from `first` on, mean over heads and halves. */
static void collect(double *weight, const struct scan *s, uint32_t first)
{
    for (uint32_t i = 0; i < KEYS && first + i < s->keys; i++) {
        double sum = 0;
        for (uint32_t h = 0; h < 2 * s->heads; h++)
            sum += s->out[(size_t)h * KEYS + i];
        weight[first + i] = sum / (2 * s->heads);
    }
}

static int plan_row(struct scan *s, const attention_map *m, const char *name)
{
    fovea_attention_options o = FOVEA_ATTENTION_OPTIONS_INIT;
    o.attention = name;
    o.rows = 1;
    o.keys = s->keys;
    o.heads = s->heads;
    o.head_dim = m->info.columns / s->heads;
    o.value_dim = 2 * KEYS;
    o.scale = 1 / sqrt(o.head_dim);
    if (strstr(name, "nala"))
        o.alpha = (double)m->query->linear.nala_lambda;
    if (strstr(name, "pola"))
        o.alpha = (double)m->query->linear.pola_alpha;
    return cli_check(fovea_attention_plan_create(&s->plan, m->query->device, &o));
}

/* The weights that mechanism `name` gives all keys. */
static int attention_weights(double *weight, const attention_map *m, const char *name,
                             const float *q, const float *k, cli_progress *bar)
{
    struct scan s = {.heads = m->query->heads, .keys = m->info.rows};
    int code = CLI_OK;
    CLI_TRY(plan_row(&s, m, name));
    s.values = cli_alloc((size_t)s.keys * s.heads, 2 * KEYS * sizeof *s.values);
    s.out = cli_alloc(s.heads, 2 * KEYS * sizeof *s.out);
    const fovea_matrix in[] = {
        {(float *)(uintptr_t)(q + (size_t)m->token * m->info.columns), 0},
        {(float *)(uintptr_t)k, 0},
        {s.values, 0},
    };
    for (uint32_t first = 0; first < s.keys && !code; first += KEYS) {
        mark(&s, first, 1);
        code = cli_check(fovea_op_run(s.plan, in, 3, (fovea_matrix){s.out, 0}));
        mark(&s, first, 0);
        collect(weight, &s, first);
        cli_progress_show(bar, (double)m->rows + (double)first / s.keys, ATTENTION_ROWS);
    }
    fovea_plan_free(s.plan);
    free(s.values);
    free(s.out);
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

static int add_row(attention_map *m, const char *name, bool own, const float *q, const float *k,
                   cli_progress *bar)
{
    const size_t n = m->info.rows;
    double *weight = cli_alloc(n, sizeof *weight);
    int code = attention_weights(weight, m, name, q, k, bar);
    if (code) {
        free(weight);
        return code;
    }
    /* The model's own may be there under another of its names: the same numbers tell. */
    for (size_t i = 0; own && i < m->rows; i++)
        if (memcmp(m->row[i].weight, weight, n * sizeof *weight) == 0) {
            m->row[i].own = true;
            free(weight);
            return CLI_OK;
        }
    attention_row *r = &m->row[m->rows++];
    *r = (attention_row){.name = name, .own = own, .weight = weight};
    measure(r, m->info.rows);
    return CLI_OK;
}

int attention_map_make(attention_map *out, const attention_query *query,
                       const fovea_output_info *info, const float *q, const float *k)
{
    const char *const names[ATTENTION_ROWS] = {"softmax", "linear:elu1", "mala",
                                               "pola",    "nala",        query->own};
    const uint32_t column = query->x / info->stride, row = query->y / info->stride;
    *out = (attention_map){.query = query, .info = *info};
    if (column >= info->grid_width || row >= info->grid_height)
        return cli_fail(CLI_USAGE, "--attention-map %u,%u: the model sees %ux%u pixels", query->x,
                        query->y, info->grid_width * info->stride,
                        info->grid_height * info->stride);
    out->token = info->prefix + row * info->grid_width + column;
    cli_progress bar;
    int code = CLI_OK;
    cli_progress_begin(&bar, "attention");
    /* Gates are made of what is not in q and k: without them it would be another attention. */
    const size_t rows = ATTENTION_ROWS - (strncmp(query->own, "sla-", 4) == 0);
    for (size_t i = 0; i < rows && !code; i++)
        code = add_row(out, names[i], i + 1 == ATTENTION_ROWS, q, k, &bar);
    cli_progress_end(&bar);
    return code;
}

void attention_map_free(attention_map *m)
{
    for (size_t i = 0; i < m->rows; i++)
        free(m->row[i].weight);
    m->rows = 0;
}

/* ---- numbers ---- */

void attention_map_print(const attention_map *m)
{
    const attention_query *q = m->query;
    printf("  attention of token %u at %u,%u in %.*s, %u keys; uniform: PSE %.4f\n", m->token, q->x,
           q->y, (int)strlen(q->q) - 2, q->q, m->info.rows, log(m->info.rows));
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
        for (uint32_t j = 0; j < m->info.rows; j++)
            json_array_append_new(weights, cli_json_number(r->weight[j]));
        json_array_append_new(rows,
                              json_pack("{s:s, s:b, s:o, s:o, s:o}", "attention", r->name, "own",
                                        r->own, "pse", cli_json_number(r->entropy), "negative",
                                        cli_json_number(r->negative), "weights", weights));
    }
    return json_pack("{s:o, s:i, s:i, s:i, s:i, s:i, s:f, s:o}", "block",
                     json_sprintf("%.*s", (int)strlen(q->q) - 2, q->q), "x", (int)q->x, "y",
                     (int)q->y, "token", (int)m->token, "keys", (int)m->info.rows, "heads",
                     (int)q->heads, "pse_uniform", log(m->info.rows), "rows", rows);
}

/* ---- the picture ---- */

/* A frame around the query's patch: white between black, to stand out from anything. */
static void frame(const cli_image *on, const attention_map *m, const heat_panel *p)
{
    static const double white[3] = {255, 255, 255}, black[3] = {0, 0, 0};
    const double side = m->info.stride * p->scale;
    const int x0 = (int)(m->query->x / m->info.stride * side);
    const int y0 = (int)(m->query->y / m->info.stride * side);
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

/* One mechanism, or the picture alone (`row` NULL). The root of the weight is shown, on the panel's
 * own scale: a few large weights would leave nothing else to see. */
static void draw_panel(const cli_image *on, const attention_map *m, const cli_image *picture,
                       const attention_row *row, const heat_panel *p)
{
    const fovea_output_info *g = &m->info;
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
    /* A tall picture still leaves room for its label. */
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
