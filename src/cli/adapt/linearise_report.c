/* linearise_report.c: writes the results of a linearisation, for people and for programs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/adapt/linearise.h"

enum { SHOWN = 2 };  /* number of pictures whose features are drawn */
enum { GAP = 8 };    /* pixels between the pictures */
enum { SIDE = 518 }; /* most pixels per side of a picture */

/* ---- features side by side ---- */

static void paste(cli_image *on, uint32_t x, const uint8_t *rgb, uint32_t width, uint32_t height,
                  uint32_t step)
{
    for (uint32_t i = 0; i < height / step; i++)
        for (uint32_t j = 0; j < width / step; j++)
            memcpy(on->rgb + 3 * ((size_t)i * on->width + x + j),
                   rgb + 3 * ((size_t)i * step * width + (size_t)j * step), 3);
}

/* Draws the picture, the teacher's features and the student's features next to each other. The
 * features share one basis, so that their colours can be compared. */
static int draw(const linearise_run *r, const fovea_model *student, size_t picture)
{
    const size_t size = r->validation.sizes - 1;
    const validation_set *s = &r->validation.set[size];
    const size_t patches = (size_t)s->grid_width * s->grid_height, skip = s->prefix * s->columns;
    float *features;
    CLI_TRY(adapt_validation_features(&features, &r->validation, size, picture, student, NULL));
    float *both = cli_alloc(2 * patches * s->columns, sizeof *both);
    memcpy(both, s->features[picture] + skip, patches * s->columns * sizeof *both);
    memcpy(both + patches * s->columns, features + skip, patches * s->columns * sizeof *both);
    const uint32_t step = (s->width > s->height ? s->width : s->height) / SIDE;
    const uint32_t shrink = step > 1 ? step : 1;
    const uint32_t width = s->width / shrink, height = s->height / shrink;
    cli_image maps,
        page = {3 * width + 2 * GAP, height, cli_alloc((size_t)(3 * width + 2 * GAP) * height, 3)};
    memset(page.rgb, 255, (size_t)page.width * page.height * 3);
    cli_basis basis = cli_basis_of(both, 2 * patches, s->columns);
    cli_pca(&maps, &basis, both, s->grid_width, 2 * s->grid_height, width, 2 * height);
    cli_basis_free(&basis);
    paste(&page, 0, s->rgb[picture], s->width, s->height, shrink);
    paste(&page, width + GAP, maps.rgb, width, height, 1);
    paste(&page, 2 * (width + GAP), maps.rgb + 3 * (size_t)width * height, width, height, 1);
    char *path = cli_text("%s/features-%zu.png", r->output, picture + 1);
    const int code = cli_image_write_png(path, &page);
    free(path);
    cli_image_free(&maps);
    cli_image_free(&page);
    free(both);
    free(features);
    return code;
}

/* ---- text ---- */

static void write_scores(FILE *to, const linearise_run *r)
{
    fprintf(to, "| cosine of patches with softmax's: mean, worst picture | pictures | untrained | "
                "trained |\n|---|---:|---:|---:|\n");
    for (size_t s = 0; s < r->validation.sizes; s++) {
        const validation_set *v = &r->validation.set[s];
        fprintf(to, "| %u x %u px | %zu | %.4f, %.4f | %.4f, %.4f |\n", v->width, v->height,
                v->pictures, r->untrained[s].mean, r->untrained[s].worst, r->score[s].mean,
                r->score[s].worst);
    }
}

static void write_costs(FILE *to, const linearise_run *r)
{
    const validation_set *v = &r->validation.set[r->validation.sizes - 1];
    const struct {
        const char *name;
        const linearise_cost *cost;
    } rows[] = {{"softmax", &r->softmax}, {"the result", &r->result}};
    fprintf(
        to,
        "| a frame of %u x %u px | time | times as fast | activations |\n|---|---:|---:|---:|\n",
        v->width, v->height);
    for (int i = 0; i < 2; i++)
        fprintf(to, "| %s | %s | %.2f | %s |\n", rows[i].name,
                cli_duration(rows[i].cost->seconds).text,
                r->softmax.seconds / rows[i].cost->seconds, cli_bytes(rows[i].cost->bytes).text);
}

/* Writes the loss of each block, measured with only this block changed. */
static void write_blocks(FILE *to, const linearise_run *r)
{
    fputs("| block |", to);
    for (size_t f = 0; f + 1 < r->forms; f++)
        fprintf(to, " lost by %s |", r->form[f].name);
    fputs(" has |\n|---:|", to);
    for (size_t f = 0; f + 1 < r->forms; f++)
        fputs("---:|", to);
    fputs("---|\n", to);
    for (uint32_t i = 0; i < r->blocks; i++) {
        fprintf(to, "| %u |", i);
        for (size_t f = 0; f + 1 < r->forms; f++)
            fprintf(to, " %.5f |", r->form[f].lost[i]);
        fprintf(to, " %s |\n", r->form[r->chosen[i]].name);
    }
}

static int write_page(const linearise_run *r)
{
    char *path = cli_text("%s/report.md", r->output);
    const size_t last = r->validation.sizes - 1;
    cli_output out;
    int code = cli_output_begin(&out, path);
    if (!code) {
        fprintf(out.file, "# %s with %s\n\n", r->model, r->attention);
        fprintf(out.file, "Trained with %zu pictures, evaluated with %zu others.\n\n", r->data.n,
                r->validation.data.n);
        write_scores(out.file, r);
        fputc('\n', out.file);
        write_costs(out.file, r);
        fprintf(out.file,
                "\nHeld-out pictures at %u px, features with softmax, features of the "
                "result; one basis:\n\n",
                r->validation.set[last].width);
        for (size_t i = 0; i < SHOWN && i < r->validation.set[last].pictures; i++)
            fprintf(out.file, "![picture, softmax, result](features-%zu.png)\n", i + 1);
        for (size_t i = 0; i < r->phases; i++)
            fprintf(out.file, "\nPhase %zu: stage %d at %u px, %u steps of %u pictures.\n", i + 1,
                    (int)r->phase[i].stage, r->validation.set[r->phase[i].size].width,
                    r->phase[i].steps, r->phase[i].batch);
        fputc('\n', out.file);
        write_blocks(out.file, r);
        code = cli_output_end(&out, NULL);
    }
    free(path);
    return code;
}

/* ---- for programs ---- */

static json_t *cost_json(const linearise_cost *c)
{
    return json_pack("{s:f, s:I}", "ms", c->seconds * 1e3, "bytes", (json_int_t)c->bytes);
}

static json_t *describe(const linearise_run *r)
{
    json_t *scores = json_array(), *lost = json_array(), *held = json_array();
    for (size_t s = 0; s < r->validation.sizes; s++) {
        const validation_set *v = &r->validation.set[s];
        json_array_append_new(scores, json_pack("{s:i, s:i, s:I, s:f, s:f, s:f, s:f}", "width",
                                                (int)v->width, "height", (int)v->height, "pictures",
                                                (json_int_t)v->pictures, "untrained_mean",
                                                r->untrained[s].mean, "untrained_worst",
                                                r->untrained[s].worst, "mean", r->score[s].mean,
                                                "worst", r->score[s].worst));
    }
    for (uint32_t i = 0; i < r->blocks; i++)
        json_array_append_new(lost, json_real(r->form[0].lost[i]));
    for (size_t i = 0; i < r->validation.data.n && r->validation.data.file; i++)
        json_array_append_new(held, cli_json_text(r->validation.data.file[i].path));
    return json_pack("{s:s, s:o, s:o, s:s, s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:o}", "schema",
                     "fovea.linearise/1", "build", cli_build(), "env", cli_environment(r->device),
                     "model", r->model, "output", r->output, "attention", r->attention, "pictures",
                     (json_int_t)r->data.n, "held_out", held, "scores", scores, "lost", lost,
                     "softmax", cost_json(&r->softmax), "result", cost_json(&r->result));
}

static int write_json(const linearise_run *r)
{
    char *path = cli_text("%s/report.json", r->output);
    json_t *root = describe(r);
    cli_output out;
    int code = cli_output_begin(&out, path);
    if (!code) {
        json_dumpf(root, out.file, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
        fputc('\n', out.file);
        code = cli_output_end(&out, NULL);
    }
    free(path);
    if (!code && r->common.json)
        cli_print_json(root);
    else
        json_decref(root);
    return code;
}

int linearise_report(linearise_run *r)
{
    fovea_model *student;
    CLI_TRY(cli_load_student(&student, r->output));
    /* Softmax is measured again together with the result, because the run may have begun on another
     * machine. */
    linearise_case both[] = {{r->validation.teacher, "softmax"}, {student, NULL}};
    int code = linearise_measure(both, 2, r, linearise_until(r, 0.97));
    r->softmax = both[0].cost;
    r->result = both[1].cost;
    for (size_t i = 0; i < SHOWN && i < r->validation.set[r->validation.sizes - 1].pictures; i++)
        CLI_THEN(code, draw(r, student, i));
    fovea_model_free(student);
    CLI_THEN(code, write_page(r));
    CLI_THEN(code, write_json(r));
    if (!code && !r->common.json) {
        write_scores(stdout, r);
        putchar('\n');
        write_costs(stdout, r);
    }
    return code;
}
