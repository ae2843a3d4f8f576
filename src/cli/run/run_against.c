/* run_against.c: a picture run a second time, by another model or with other options, and how far
 * the two are apart: block by block, at the end, and in which patches. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/picture/heat_map.h"
#include "cli/run/attention_map.h"
#include "cli/run/runner.h"

/* ---- what is compared ---- */

struct option {
    const char *name;
    const char **of;
};

static int set_option(const struct option *options, size_t n, char *text)
{
    char *value = strchr(text, '=');
    const char *names[16] = {NULL};
    if (!value)
        return cli_fail(CLI_USAGE, "--against %s: wanted options such as compute=bf16, or a MODEL",
                        text);
    *value++ = 0;
    for (size_t i = 0; i < n; i++) {
        names[i] = options[i].name;
        if (strcmp(options[i].name, text) == 0) {
            *options[i].of = value;
            return CLI_OK;
        }
    }
    const char *likely = cli_likely(text, names);
    return cli_fail(CLI_USAGE, "--against: there is no option %s%s%s%s", text,
                    likely ? "; did you mean " : "", likely ? likely : "", likely ? "?" : "");
}

/* OPTIONS change those of the run, and "model" its MODEL. */
static int read_options(run_state *other, const char **model, char *text)
{
    cli_common *c = &other->common;
    const struct option options[] = {
        {"model", model},         {"attention", &c->attention}, {"compute", &c->compute},
        {"dtype", &c->dtype},     {"device", &c->device},       {"isa", &c->isa},
        {"threads", &c->threads}, {"schedule", &c->schedule},   {"chunk", &c->chunk},
        {"prefix", &c->prefix},
    };
    for (char *next = text; next;) {
        char *item = next;
        next = strchr(item, ',');
        if (next)
            *next++ = 0;
        CLI_TRY(set_option(options, sizeof options / sizeof *options, item));
    }
    return CLI_OK;
}

/* Blocks and stages in their order, then the last features, then scores. */
static bool is_block(const char *name)
{
    const bool stage = strncmp(name, "stage", 5) == 0 && !attention_output(name);
    return strncmp(name, "hidden", 6) == 0 || stage || strcmp(name, "patch_embed") == 0;
}

static void want_both(run_state *r, const char *name)
{
    if (cli_output_name(r->s.model, name) && cli_output_name(r->other->s.model, name)) {
        r->compared[r->n_compared++].name = run_want(r, name)->name;
        run_want(r->other, name);
    }
}

static int choose(run_state *r)
{
    const char *last = cli_features_output(r->s.model), *name;
    const char *first = fovea_model_output(r->s.model, 0);
    size_t all = 0;
    while (fovea_model_output(r->s.model, all))
        all++;
    r->compared = cli_alloc(all, sizeof *r->compared);
    if (!last || !cli_output_name(r->other->s.model, last))
        return cli_fail(CLI_UNSUPPORTED, "--against %s: the models have no features in common",
                        r->against);
    for (size_t i = 0; (name = fovea_model_output(r->s.model, i)); i++)
        if (is_block(name) && strcmp(name, last) != 0)
            want_both(r, name);
    want_both(r, last);
    r->features_at = r->n_compared - 1;
    if (strcmp(first, "logits") == 0)
        want_both(r, first);
    return CLI_OK;
}

int run_against_begin(run_state *r, const char *model)
{
    if (!r->against && r->against_picture)
        return cli_fail(CLI_USAGE, "--against-picture is for --against, which is not given");
    if (!r->against)
        return CLI_OK;
    run_state *o = r->other = cli_alloc(1, sizeof *o);
    o->common = r->common;
    o->batch = 1;
    o->arguments = cli_text("%s", r->against);
    o->model = model;
    if (strchr(r->against, '=') && access(r->against, F_OK) != 0) {
        CLI_TRY(read_options(o, &o->model, o->arguments));
    } else {
        o->model = o->arguments;
        o->common.prefix = NULL;
    }
    CLI_TRY(cli_open(&o->s, &o->common, o->model));
    o->preprocess = cli_preprocess(&o->s.settings, o->s.model);
    run_make_series(o);
    return choose(r);
}

/* ---- a picture ---- */

static int compare(run_likeness *out, const run_series *a, const run_series *b)
{
    const fovea_output_info *x = &a->info, *y = &b->info;
    if (a->rows != b->rows || a->columns != b->columns || x->grid_width != y->grid_width ||
        x->prefix != y->prefix)
        return cli_fail(CLI_UNSUPPORTED,
                        "--against: %s has %llu rows of %llu (%ux%u patches) and %llu of %llu "
                        "(%ux%u), which cannot be compared",
                        a->name, (unsigned long long)a->rows, (unsigned long long)a->columns,
                        x->grid_width, x->grid_height, (unsigned long long)b->rows,
                        (unsigned long long)b->columns, y->grid_width, y->grid_height);
    out->like = cli_compare_rows(run_patches(a), run_patches(b), (size_t)(a->rows - x->prefix),
                                 (size_t)a->columns);
    return CLI_OK;
}

static int by_cosine(const void *a, const void *b)
{
    const run_patch *x = a, *y = b;
    const int order = (x->cosine > y->cosine) - (x->cosine < y->cosine);
    return order ? order : (x->y > y->y) - (x->y < y->y);
}

/* Patches of the last features, the least alike first. */
static void rank(run_state *r, const run_series *a, const run_series *b)
{
    const fovea_output_info *g = &a->info;
    const float *x = run_patches(a), *y = run_patches(b);
    const size_t columns = (size_t)a->columns;
    r->patches = (size_t)g->grid_width * g->grid_height;
    free(r->patch);
    r->patch = cli_alloc(r->patches, sizeof *r->patch);
    for (size_t i = 0; i < r->patches; i++)
        r->patch[i] = (run_patch){(uint32_t)(i % g->grid_width) * g->stride + g->stride / 2,
                                  (uint32_t)(i / g->grid_width) * g->stride + g->stride / 2,
                                  cli_cosine(x + i * columns, y + i * columns, columns)};
}

/* 1 - cosine over the picture, from 0 to the largest. */
static int draw(run_state *r, const char *input, const fovea_frame *frame)
{
    const fovea_output_info *g = &run_find(r, r->compared[r->features_at].name)->info;
    const double most = 1 - r->compared[r->features_at].like.worst;
    double *plane = cli_alloc(r->patches, sizeof *plane);
    cli_image picture;
    for (size_t i = 0; i < r->patches && most > 0; i++)
        plane[i] = (1 - r->patch[i].cosine) / most;
    int code = run_seen(&picture, r, frame);
    heat_panel p = heat_panel_for(&picture);
    const uint32_t cell = p.width > HEAT_SIDE_LEAST ? p.width : HEAT_SIDE_LEAST;
    cli_image page = {2 * (cell + HEAT_GAP) + HEAT_GAP, p.height + HEAT_STRIP + 2 * HEAT_GAP, NULL};
    page.rgb = cli_alloc((size_t)page.width * page.height, 3);
    memset(page.rgb, 255, (size_t)page.width * page.height * 3);
    p.y = HEAT_GAP + HEAT_STRIP;
    for (int i = 0; i < 2; i++) {
        char *label = i ? cli_text("1 - cosine, 0 to %.3g", most)
                        : cli_text("%ux%u", picture.width, picture.height);
        p.x = HEAT_GAP + (i ? cell + HEAT_GAP : 0);
        heat_label(&page, &p, label);
        heat_draw(&page, &p, &picture, i ? plane : NULL, g);
        free(label);
    }
    char *name = run_picture_name(r, r->against_picture, input);
    CLI_THEN(code, cli_image_write_png(name, &page));
    run_wrote(r, name);
    cli_image_free(&page);
    cli_image_free(&picture);
    free(plane);
    return code;
}

int run_against(run_state *r, const char *input, const fovea_frame *frame)
{
    double seconds;
    CLI_TRY(run_plan_for(r->other, r->format, r->plan_yuv, r->width, r->height));
    CLI_TRY(run_outputs(r->other, frame, 1, &seconds));
    for (size_t i = 0; i < r->n_compared; i++) {
        const char *name = r->compared[i].name;
        CLI_TRY(compare(&r->compared[i], run_find(r, name), run_find(r->other, name)));
    }
    const char *features = r->compared[r->features_at].name;
    rank(r, run_find(r, features), run_find(r->other, features));
    CLI_TRY(r->against_picture ? draw(r, input, frame) : CLI_OK);
    qsort(r->patch, r->patches, sizeof *r->patch, by_cosine);
    return CLI_OK;
}

/* ---- what is shown ---- */

static uint32_t shown(const run_state *r)
{
    return r->top < r->patches ? r->top : (uint32_t)r->patches;
}

void run_against_print(const run_state *r)
{
    const run_state *o = r->other;
    printf("  against %s: %s%s; cosines: mean, worst\n", o->model,
           cli_attention(&o->s.settings, &o->s.info), cli_products(&o->info).text);
    for (size_t i = 0; i < r->n_compared; i++)
        printf("    %-18s %.6f  %.6f\n", r->compared[i].name, r->compared[i].like.mean,
               r->compared[i].like.worst);
    for (uint32_t i = 0; i < shown(r); i++)
        printf("%s%u,%u %.6f%s", i ? ", " : "    least alike at ", r->patch[i].x, r->patch[i].y,
               r->patch[i].cosine, i + 1 == shown(r) ? "\n" : "");
}

json_t *run_against_describe(const run_state *r)
{
    const run_state *o = r->other;
    fovea_device_info device = FOVEA_DEVICE_INFO_INIT;
    fovea_device_describe(o->s.device, &device);
    json_t *outputs = json_array(), *worst = json_array();
    for (size_t i = 0; i < r->n_compared; i++)
        json_array_append_new(outputs, json_pack("{s:s, s:f, s:f}", "output", r->compared[i].name,
                                                 "mean", r->compared[i].like.mean, "worst",
                                                 r->compared[i].like.worst));
    for (uint32_t i = 0; i < shown(r); i++)
        json_array_append_new(worst, json_pack("{s:i, s:i, s:f}", "x", (int)r->patch[i].x, "y",
                                               (int)r->patch[i].y, "cosine", r->patch[i].cosine));
    return json_pack("{s:o, s:s, s:s, s:s, s:o, s:o}", "model", cli_json_text(o->model),
                     "attention", cli_attention(&o->s.settings, &o->s.info), "compute",
                     cli_compute_name(o->info.compute), "device", device.id, "outputs", outputs,
                     "worst", worst);
}
