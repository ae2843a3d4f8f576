/* adapt_rate_search.c: finds the learning rate. It trains a few steps from the start with each of
 * several rates, and selects the rate with the lowest loss afterwards. The result depends only on
 * weights, pictures and options. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/adapt/adapter.h"

enum { STEPS = 8, WARM_UP = 2, LAST = 3, BATCH = 8 };

/* a loss that exceeds the best by this factor ends the search, because higher rates are worse */
#define DIVERGED 1.2

static const float rates[] = {1e-6f, 3e-6f, 1e-5f, 3e-5f, 1e-4f, 3e-4f, 1e-3f, 3e-3f, 1e-2f};
enum { RATES = sizeof rates / sizeof *rates };

/* Sets *loss to the mean loss of the last steps with one rate, or to infinity if the mean is
 * NaN. */
static int try_rate(adapt_run *r, float rate, cli_progress *bar, double *loss)
{
    fovea_trainer_options options = r->options;
    options.lr = rate;
    options.lr_end = 0;
    options.schedule = FOVEA_LR_CONSTANT;
    options.warm_up = WARM_UP;
    CLI_TRY(
        cli_check(fovea_trainer_create(&r->trainer, r->model, r->teacher, r->device, &options)));
    const uint32_t batch = r->batch;
    int code = CLI_OK;
    *loss = 0;
    r->batch = batch < BATCH ? batch : BATCH;
    for (r->info.step = 0; r->info.step < STEPS && !code && isfinite(*loss); r->info.step++) {
        fovea_trainer_report report = FOVEA_TRAINER_REPORT_INIT;
        code = adapt_feed(r, bar, 0);
        if (!code && fovea_trainer_step(r->trainer, &report))
            *loss = INFINITY; /* weights became NaN */
        else if (r->info.step + LAST >= STEPS)
            *loss += report.loss / LAST;
    }
    r->batch = batch;
    r->info.step = 0;
    fovea_trainer_free(r->trainer);
    r->trainer = NULL;
    return code;
}

static char *file_of(const adapt_run *r)
{
    return cli_text("%s/rate.json", r->output);
}

static int keep(const adapt_run *r, json_t *tried)
{
    char *path = file_of(r);
    cli_output out;
    json_t *root = json_pack("{s:f, s:O}", "lr", (double)r->options.lr, "tried", tried);
    int code = cli_output_begin(&out, path);
    if (!code) {
        json_dumpf(root, out.file, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
        fputc('\n', out.file);
        code = cli_output_end(&out, NULL);
    }
    json_decref(root);
    free(path);
    return code;
}

/* Reads the rate that an earlier run of the same training found. Returns false if there is none. */
static bool recall(adapt_run *r)
{
    char *path = file_of(r);
    json_t *root = r->resume ? json_load_file(path, 0, NULL) : NULL;
    const double rate = json_number_value(json_object_get(root, "lr"));
    json_decref(root);
    free(path);
    if (!(rate > 0))
        return false;
    r->options.lr = (float)rate;
    return true;
}

int adapt_find_rate(adapt_run *r)
{
    cli_progress bar;
    json_t *tried = json_array();
    double best = INFINITY;
    int code = CLI_OK;
    if (recall(r)) {
        json_decref(tried);
        return CLI_OK;
    }
    cli_progress_begin(&bar, "learning rate");
    for (size_t i = 0; i < RATES && !code; i++) {
        double loss = INFINITY;
        code = try_rate(r, rates[i], &bar, &loss);
        json_array_append_new(
            tried, json_pack("{s:f, s:o}", "lr", (double)rates[i], "loss", cli_json_number(loss)));
        if (loss < best) {
            best = loss;
            r->options.lr = rates[i];
        } else if (loss > DIVERGED * best) {
            break;
        }
    }
    cli_progress_end(&bar);
    if (!code && !isfinite(best))
        code = cli_fail(CLI_INPUT,
                        "%s: the loss is NaN or infinite at every learning rate; check the data",
                        r->model);
    if (r->processes.rank == 0)
        CLI_THEN(code, keep(r, tried));
    json_decref(tried);
    if (!code)
        cli_tell("learning rate %.2g: loss %.4g after %d steps", (double)r->options.lr, best,
                 (int)STEPS);
    return code;
}
