/* linearise_journal.c: records all measurements and choices in OUT/linearise.json, so that a
 * resumed run makes the same choices even if the machine's speed has changed. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/adapt/linearise.h"

static char *path_of(const linearise_run *r)
{
    return cli_text("%s/linearise.json", r->output);
}

/* Returns the options that the result depends on. Pictures are represented only by their number. */
static json_t *options_of(const linearise_run *r)
{
    json_t *sizes = json_array();
    for (size_t s = 0; s < r->validation.sizes; s++)
        json_array_append_new(sizes, json_integer((json_int_t)r->validation.set[s].width));
    json_t *o =
        json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:f, s:I, s:I, s:f, s:f, s:o, s:s}", "model",
                  r->model, "attention", r->names, "keep-softmax", r->keep, "pictures",
                  (json_int_t)r->data.n, "held-out", (json_int_t)r->validation.data.n, "seed",
                  (json_int_t)r->seed, "budget", r->budget, "steps", (json_int_t)r->steps, "batch",
                  (json_int_t)r->batch, "target", r->target, "speedup", r->speedup, "sizes", sizes,
                  "compute", cli_compute_name(r->settings.compute));
    const struct {
        const char *option, *text;
    } form[] = {{"nala-lambda", r->common.nala_lambda},
                {"pola-alpha", r->common.pola_alpha},
                {"q-scale", r->common.q_scale},
                {"linear-heads", r->common.linear_heads}};
    for (size_t i = 0; i < sizeof form / sizeof *form; i++)
        if (form[i].text)
            json_object_set_new(o, form[i].option, json_string(form[i].text));
    return o;
}

static json_t *form_json(const linearise_run *r, const linearise_form *f)
{
    json_t *lost = json_array();
    for (uint32_t i = 0; i < r->blocks; i++)
        json_array_append_new(lost, json_real(f->lost[i]));
    return json_pack("{s:s, s:f, s:o}", "name", f->name, "seconds", f->seconds, "lost", lost);
}

/* Returns the scores at every size, as pairs of mean and worst. */
static json_t *scores_json(const adapt_score *score, size_t sizes)
{
    json_t *out = json_array();
    for (size_t s = 0; s < sizes; s++)
        json_array_append_new(out, json_pack("[f, f]", score[s].mean, score[s].worst));
    return out;
}

static json_t *phase_json(const linearise_phase *p, size_t sizes)
{
    json_t *root =
        json_pack("{s:i, s:I, s:I, s:I, s:f, s:f, s:f}", "stage", (int)p->stage, "size",
                  (json_int_t)p->size, "batch", (json_int_t)p->batch, "steps", (json_int_t)p->steps,
                  "lr", p->lr, "share", p->share, "seconds", p->seconds);
    if (p->done) {
        json_object_set_new(root, "begun", scores_json(p->begun, sizes));
        json_object_set_new(root, "ended", scores_json(p->ended, sizes));
    }
    return root;
}

static json_t *sets_json(const linearise_run *r)
{
    json_t *out = json_array();
    for (size_t s = 0; s < r->validation.sizes; s++)
        json_array_append_new(out, json_integer((json_int_t)r->validation.set[s].pictures));
    return out;
}

int linearise_record(const linearise_run *r)
{
    json_t *forms = json_array(), *phases = json_array(), *chosen = json_array();
    for (size_t f = 0; f < r->forms; f++)
        json_array_append_new(forms, form_json(r, &r->form[f]));
    for (uint32_t i = 0; i < r->blocks; i++)
        json_array_append_new(chosen, json_integer((json_int_t)r->chosen[i]));
    for (size_t i = 0; i < r->phases; i++)
        json_array_append_new(phases, phase_json(&r->phase[i], r->validation.sizes));
    json_t *root = json_pack("{s:s, s:o, s:s, s:o, s:o, s:o, s:o, s:f}", "schema",
                             "fovea.linearise/1", "options", options_of(r), "attention",
                             r->attention, "forms", forms, "chosen", chosen, "phases", phases,
                             "judged_by", sets_json(r), "spent", cli_seconds() - r->begun);
    char *path = path_of(r);
    cli_output out;
    int code = cli_output_begin(&out, path);
    if (!code) {
        json_dumpf(root, out.file, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
        fputc('\n', out.file);
        code = cli_output_end(&out, NULL);
    }
    json_decref(root);
    free(path);
    return code;
}

static uint32_t count_of(const json_t *from, const char *key)
{
    return (uint32_t)json_integer_value(json_object_get(from, key));
}

static bool read_form(linearise_form *out, const json_t *from, uint32_t blocks)
{
    const json_t *lost = json_object_get(from, "lost");
    out->seconds = json_number_value(json_object_get(from, "seconds"));
    for (uint32_t i = 0; i < blocks; i++)
        out->lost[i] = json_number_value(json_array_get(lost, i));
    return json_array_size(lost) == blocks;
}

static bool read_scores(adapt_score *out, const json_t *from, size_t sizes)
{
    for (size_t s = 0; s < sizes && s < json_array_size(from); s++) {
        const json_t *pair = json_array_get(from, s);
        out[s] = (adapt_score){json_number_value(json_array_get(pair, 0)),
                               json_number_value(json_array_get(pair, 1))};
    }
    return json_array_size(from) == sizes;
}

static bool read_phase(linearise_phase *out, const json_t *from, size_t sizes)
{
    const json_t *begun = json_object_get(from, "begun"), *ended = json_object_get(from, "ended");
    *out = (linearise_phase){.stage = (fovea_stage)count_of(from, "stage"),
                             .size = count_of(from, "size"),
                             .batch = count_of(from, "batch"),
                             .steps = count_of(from, "steps"),
                             .lr = json_number_value(json_object_get(from, "lr")),
                             .share = json_number_value(json_object_get(from, "share")),
                             .seconds = json_number_value(json_object_get(from, "seconds"))};
    out->done = ended != NULL;
    if (out->done &&
        !(read_scores(out->begun, begun, sizes) && read_scores(out->ended, ended, sizes)))
        return false;
    return out->lr > 0 && out->size < sizes && (out->share > 0 || out->steps > 0) && out->batch > 0;
}

/* Returns false if the choices are incomplete. */
static bool read_choices(linearise_run *r, const json_t *root)
{
    const json_t *forms = json_object_get(root, "forms"), *phases = json_object_get(root, "phases");
    const json_t *attention = json_object_get(root, "attention");
    const json_t *chosen = json_object_get(root, "chosen");
    bool whole = json_is_string(attention) && json_array_size(forms) == r->forms &&
                 json_array_size(chosen) == r->blocks && json_array_size(phases) > 0 &&
                 json_array_size(phases) <= LINEARISE_PHASES;
    if (!whole)
        return false;
    r->attention = cli_text("%s", json_string_value(attention));
    for (size_t f = 0; f < r->forms; f++)
        whole &= read_form(&r->form[f], json_array_get(forms, f), r->blocks);
    for (uint32_t i = 0; i < r->blocks; i++) {
        r->chosen[i] = (size_t)json_integer_value(json_array_get(chosen, i));
        whole &= r->chosen[i] < r->forms;
    }
    r->phases = json_array_size(phases);
    for (size_t i = 0; i < r->phases; i++)
        whole &= read_phase(&r->phase[i], json_array_get(phases, i), r->validation.sizes);
    return whole;
}

static int compare(const linearise_run *r, const char *path, const json_t *root)
{
    json_t *before = json_object_get(root, "options");
    if (!json_object_get(before, "compute")) /* written by a release that multiplied only float32 */
        json_object_set_new(before, "compute", json_string("f32"));
    json_t *now = options_of(r), *value;
    const char *key;
    int code = CLI_OK;
    json_object_foreach(now, key, value)
        if (!code && !json_equal(value, json_object_get(before, key)))
            code = cli_fail(CLI_INPUT,
                            "%s was written with another %s; resume with the same options, or "
                            "choose another folder with -o",
                            path, key);
    json_decref(now);
    return code;
}

int linearise_check_output(const linearise_run *r)
{
    char *path = path_of(r);
    int code = CLI_OK;
    if (!r->resume && access(path, F_OK) == 0)
        code = cli_fail(CLI_USAGE,
                        "%s is from an earlier run; continue it with --resume, or remove it", path);
    free(path);
    return code;
}

void linearise_recall_sets(size_t pictures[VALIDATION_SIZES], double *spent, const linearise_run *r)
{
    char *path = path_of(r);
    json_t *root = r->resume ? json_load_file(path, 0, NULL) : NULL;
    const json_t *sets = json_object_get(root, "judged_by");
    for (size_t s = 0; s < VALIDATION_SIZES; s++)
        pictures[s] = (size_t)json_integer_value(json_array_get(sets, s));
    *spent = json_number_value(json_object_get(root, "spent"));
    json_decref(root);
    free(path);
}

int linearise_recall(linearise_run *r, bool *found)
{
    char *path = path_of(r);
    int code = CLI_OK;
    *found = false;
    json_t *root = r->resume ? json_load_file(path, 0, NULL) : NULL;
    if (root) {
        code = compare(r, path, root);
        if (!code && !read_choices(r, root))
            code = cli_fail(CLI_INPUT, "%s is damaged; remove it to start again", path);
        *found = !code;
    }
    json_decref(root);
    free(path);
    return code;
}
