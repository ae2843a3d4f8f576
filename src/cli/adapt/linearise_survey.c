/* linearise_survey.c: measures how much accuracy each block loses with other attentions, and how
 * much time they save. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/adapt/linearise.h"

enum { PICTURES = 4 }; /* largest number of pictures for the evaluation of a block */
enum { ROUNDS = 4 };   /* number of timed frames, which follow an untimed one */
/* largest share of the budget for the survey and the features of held-out pictures */
#define SURVEY_SHARE 0.2

/* ---- time and memory ---- */

static int run_once(double *seconds, fovea_plan *plan, const uint8_t *rgb)
{
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    fovea_plan_output(plan, 0, &info);
    const size_t count = (size_t)info.rows * info.columns;
    float *features = cli_alloc(count, sizeof *features);
    const fovea_frame frame = {.pixels = {rgb}};
    const fovea_output out = {features, count * sizeof *features};
    const double begin = cli_seconds();
    const int code = cli_check(fovea_run(plan, &frame, &out, 1));
    *seconds = cli_seconds() - begin;
    free(features);
    return code;
}

static int plan_case(linearise_case *c, const linearise_run *r)
{
    fovea_plan_info info = FOVEA_PLAN_INFO_INIT;
    CLI_TRY(adapt_validation_plan(&c->plan, &r->validation, r->validation.sizes - 1, c->model,
                                  c->attention));
    fovea_plan_query(c->plan, &info);
    c->cost.seconds = INFINITY;
    c->cost.bytes = info.residual + info.states + info.chunks + info.scratch + info.staging;
    return CLI_OK;
}

int linearise_measure(linearise_case *c, size_t n, const linearise_run *r, double until)
{
    const uint8_t *rgb = r->validation.set[r->validation.sizes - 1].rgb[0];
    int code = CLI_OK;
    for (size_t i = 0; i < n && !code; i++)
        code = plan_case(&c[i], r);
    /* Cases are measured alternately, so that disturbances affect all equally. The first round
     * warms up; it counts only if there is no time for a second round. */
    for (int round = 0; round <= ROUNDS && !code; round++) {
        if (round > 0 && cli_seconds() > until)
            break;
        for (size_t i = 0; i < n && !code; i++) {
            double seconds;
            code = run_once(&seconds, c[i].plan, rgb);
            if (!code)
                c[i].cost.seconds = round > 1 ? fmin(c[i].cost.seconds, seconds) : seconds;
        }
    }
    for (size_t i = 0; i < n; i++)
        fovea_plan_free(c[i].plan);
    return code;
}

/* ---- forms ---- */

static int name_forms(linearise_run *r)
{
    char **list;
    size_t items;
    CLI_TRY(cli_list(&list, &items, "attention", r->names));
    const int code = items < LINEARISE_FORMS
                         ? CLI_OK
                         : cli_fail(CLI_USAGE, "--attention %s: at most %d attentions are allowed",
                                    r->names, LINEARISE_FORMS - 1);
    for (size_t i = 0; i <= items && !code; i++)
        r->form[r->forms++] =
            (linearise_form){.name = cli_text("%s", i < items ? list[i] : "softmax"),
                             .lost = cli_alloc(r->blocks, sizeof(double))};
    cli_list_free(list);
    return code;
}

/* Parses --keep-softmax: "auto"; a number of blocks such as "3"; or a list of blocks such as
 * "0,1,7..9". */
static int read_kept(linearise_run *r)
{
    uint32_t n = 0;
    if (strcmp(r->keep, "auto") == 0)
        return CLI_OK;
    if (!strpbrk(r->keep, ",."))
        return cli_number(&r->kept, "keep-softmax", r->keep, 0, r->blocks - 1);
    char **list;
    size_t items;
    CLI_TRY(cli_list(&list, &items, "keep-softmax", r->keep));
    int code = CLI_OK;
    for (size_t i = 0; i < items && !code; i++) {
        code = cli_number(&n, "keep-softmax", list[i], 0, r->blocks - 1);
        if (!code)
            r->forced[n] = true;
    }
    cli_list_free(list);
    return code;
}

int linearise_read_forms(linearise_run *r)
{
    CLI_TRY(name_forms(r));
    return read_kept(r);
}

/* Measures how much the cosine falls if one block has the form, on `pictures` pictures of set
 * `size`. */
static int lose(double *lost, const linearise_run *r, size_t form, uint32_t block, size_t size,
                size_t pictures)
{
    adapt_score score;
    char *name = cli_text("softmax+%s@%u", r->form[form].name, block);
    const int code =
        adapt_validation_score(&score, &r->validation, size, r->validation.teacher, name, pictures);
    *lost = 1 - score.mean;
    free(name);
    return code;
}

/* Estimates the losses of the blocks from number `measured` on, which were not measured for lack of
 * time. For the first form, the estimate is the mean loss of the measured blocks. For other forms,
 * it is the first form's loss, so that they are not chosen. */
static void assume(linearise_run *r, size_t form, uint32_t measured)
{
    double *lost = r->form[form].lost, sum = 0;
    for (uint32_t i = 0; i < measured; i++)
        sum += lost[i];
    for (uint32_t i = measured; i < r->blocks; i++)
        lost[i] = form ? r->form[0].lost[i] : measured ? sum / measured : 0;
}

static void tell_form(const linearise_run *r, size_t form)
{
    const double *lost = r->form[form].lost;
    uint32_t most = 0;
    for (uint32_t i = 1; i < r->blocks; i++)
        most = lost[i] > lost[most] ? i : most;
    cli_tell("survey: %s in a single block loses at most %.4f, in block %u", r->form[form].name,
             lost[most], most);
}

/* Measures the losses of all forms except softmax, which loses nothing. This may take a fifth of
 * the budget. If the first measurement shows that the time does not suffice, fewer pictures are
 * used, and blocks that are not measured in time are estimated. */
static int measure_losses(linearise_run *r)
{
    const double begin = cli_seconds(), until = linearise_until(r, SURVEY_SHARE);
    const uint32_t cases = (uint32_t)(r->forms - 1) * r->blocks;
    const size_t size = r->validation.sizes > 1 ? 1 : 0;
    size_t pictures = PICTURES;
    cli_progress bar;
    int code = lose(&r->form[0].lost[0], r, 0, 0, size, 1);
    const double left = fmax(until - cli_seconds(), 0);
    /* seconds for all cases with one picture each */
    const double all = (cli_seconds() - begin) * cases;
    while (pictures > 1 && (double)pictures * all > left)
        pictures--;
    cli_tell("survey: %zu attentions, each in one of %u blocks at a time, measured on %zu "
             "picture%s of %u px",
             r->forms - 1, r->blocks, pictures, pictures > 1 ? "s" : "",
             r->validation.set[size].width);
    cli_progress_begin(&bar, "sensitivity of blocks");
    for (size_t f = 0; f + 1 < r->forms && !code; f++) {
        uint32_t i = 0;
        for (; i < r->blocks && !code && cli_seconds() <= until; i++) {
            code = lose(&r->form[f].lost[i], r, f, i, size, pictures);
            cli_progress_show(&bar, (double)f * r->blocks + i + 1., cases);
        }
        assume(r, f, i);
        cli_progress_hide();
        if (i == r->blocks)
            tell_form(r, f);
        else
            cli_tell("survey: there was no time to measure %s in blocks %u to %u", r->form[f].name,
                     i, r->blocks - 1);
    }
    cli_progress_end(&bar);
    return code;
}

static int measure_forms(linearise_run *r)
{
    linearise_case form[LINEARISE_FORMS] = {{NULL}};
    CLI_TRY(measure_losses(r));
    for (size_t f = 0; f < r->forms; f++)
        form[f] = (linearise_case){.model = r->validation.teacher, .attention = r->form[f].name};
    CLI_TRY(linearise_measure(form, r->forms, r, linearise_until(r, SURVEY_SHARE)));
    for (size_t f = 0; f < r->forms; f++)
        r->form[f].seconds = form[f].cost.seconds;
    r->softmax = form[r->forms - 1].cost;
    return CLI_OK;
}

/* ---- the choice ---- */

/* Makes the blocks that lose most with the first form keep softmax. */
static void force_most(linearise_run *r)
{
    bool *forced = r->forced;
    for (uint32_t k = 0; k < r->kept; k++) {
        uint32_t most = r->blocks;
        for (uint32_t i = 0; i < r->blocks; i++)
            if (!forced[i] && (most == r->blocks || r->form[0].lost[i] > r->form[0].lost[most]))
                most = i;
        forced[most] = true;
    }
}

/* Returns by how many seconds form `to` makes a block slower than form `from`. */
static double dearer(const linearise_run *r, size_t from, size_t to)
{
    return (r->form[to].seconds - r->form[from].seconds) / r->blocks;
}

/* Replaces forms by slower and more accurate ones, in the order of gain per second, while the total
 * grows by at most `left` seconds. Assumes that the losses of blocks add up. */
static void exchange(linearise_run *r, bool softmax, double left)
{
    for (;;) {
        size_t best_form = 0;
        uint32_t best = r->blocks;
        double most = 0;
        for (uint32_t i = 0; i < r->blocks; i++)
            for (size_t f = 0; f < r->forms - !softmax && !r->forced[i]; f++) {
                const double gain = r->form[r->chosen[i]].lost[i] - r->form[f].lost[i];
                const double time = dearer(r, r->chosen[i], f);
                const double worth = time > 0 ? gain / time : gain * 1e9;
                if (gain <= 0 || time > left || worth <= most)
                    continue;
                most = worth;
                best = i;
                best_form = f;
            }
        if (best == r->blocks)
            return;
        left -= dearer(r, r->chosen[best], best_form);
        r->chosen[best] = best_form;
    }
}

static void choose(linearise_run *r)
{
    const bool automatic = strcmp(r->keep, "auto") == 0;
    double seconds = r->form[0].seconds;
    force_most(r);
    for (uint32_t i = 0; i < r->blocks; i++) {
        r->chosen[i] = r->forced[i] ? r->forms - 1 : 0;
        seconds += r->forced[i] ? dearer(r, 0, r->forms - 1) : 0;
    }
    exchange(r, automatic, r->softmax.seconds / r->speedup - seconds);
}

/* Returns the model's attention as a text: the first form, then the blocks with other forms. */
static char *name_attention(const linearise_run *r)
{
    char *name = cli_text("%s", r->form[0].name);
    for (uint32_t i = 0; i < r->blocks; i++)
        if (r->chosen[i] > 0) {
            char *longer = cli_text("%s+%s@%u", name, r->form[r->chosen[i]].name, i);
            free(name);
            name = longer;
        }
    return name;
}

int linearise_survey(linearise_run *r)
{
    CLI_TRY(measure_forms(r));
    choose(r);
    r->attention = name_attention(r);
    return CLI_OK;
}
