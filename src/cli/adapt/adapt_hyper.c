/* adapt_hyper.c: reads the hyper-parameters of a stage from a file in the format of the golden
 * cases: the attention, the names of the tensors to train and to decay, rates, and AdamW's
 * parameters. */
#include <stdlib.h>
#include <string.h>

#include "cli/adapt/adapter.h"
#include "json/json.h"

static int wrong(const char *path, const char *what)
{
    return cli_fail(CLI_INPUT, "%s: %s", path, what);
}

/* Returns the strings of a list, followed by NULL. The list still owns the strings. */
static const char **names(const json_t *list)
{
    const char **out = cli_alloc(json_array_size(list) + 1, sizeof *out);
    for (size_t i = 0; i < json_array_size(list); i++)
        out[i] = json_string_value(json_array_get(list, i));
    return out;
}

static bool are_strings(const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!json_is_string(json_array_get(list, i)))
            return false;
    return json_is_array(list);
}

static int wrong_value(const char *path, const char *key, const json_t *value, const char *expected)
{
    char shown[FV_JSON_SHOWN];
    return cli_fail(CLI_INPUT, "%s: \"%s\" is %s; it must be %s", path, key,
                    fv_json_show(shown, value), expected);
}

/* Reads member `key`, if it exists and is not null. */
static int read_number(float *out, const char *path, const json_t *from, const char *key)
{
    const json_t *v = json_object_get(from, key);
    double x = (double)*out;
    if (v && !json_is_null(v) && !fv_json_number(&x, v))
        return wrong_value(path, key, v, "a number");
    *out = (float)x;
    return CLI_OK;
}

static int read_count(uint32_t *out, const char *path, const json_t *from, const char *key)
{
    const json_t *v = json_object_get(from, key);
    int64_t n = *out;
    if (v && !json_is_null(v) && (!fv_json_whole(&n, v) || n < 0 || n > INT32_MAX))
        return wrong_value(path, key, v, "a whole number that is not negative");
    *out = (uint32_t)n;
    return CLI_OK;
}

static int read_rate(fovea_trainer_options *o, const char *path, const json_t *lr)
{
    static const char *const schedules[] = {"constant", "linear", "cosine"};
    const json_t *name = json_object_get(lr, "schedule");
    const char *schedule = json_is_string(name) ? json_string_value(name) : "constant";
    size_t i = 0;
    while (i < 3 && strcmp(schedules[i], schedule) != 0)
        i++;
    if (i == 3)
        return wrong(path, "\"schedule\" must be constant, linear or cosine");
    o->schedule = (fovea_lr_schedule)i;
    if (!json_object_get(lr, "base"))
        return wrong(path, "the stage has no \"lr\": {\"base\"}");
    CLI_TRY(read_number(&o->lr, path, lr, "base"));
    CLI_TRY(read_number(&o->lr_end, path, lr, "end"));
    CLI_TRY(read_number(&o->backbone_ratio, path, lr, "backbone_ratio"));
    CLI_TRY(read_count(&o->steps, path, lr, "total_steps"));
    return read_count(&o->warm_up, path, lr, "warmup_steps");
}

static int read_betas(fovea_trainer_options *o, const char *path, const json_t *betas)
{
    double beta[2] = {(double)o->beta1, (double)o->beta2};
    if (!betas || json_is_null(betas))
        return CLI_OK;
    if (json_array_size(betas) != 2 || !fv_json_number(&beta[0], json_array_get(betas, 0)) ||
        !fv_json_number(&beta[1], json_array_get(betas, 1)))
        return wrong_value(path, "betas", betas, "a list of two numbers");
    o->beta1 = (float)beta[0];
    o->beta2 = (float)beta[1];
    return CLI_OK;
}

static int read_optimizer(fovea_trainer_options *o, const char *path, const json_t *from)
{
    CLI_TRY(read_betas(o, path, json_object_get(from, "betas")));
    CLI_TRY(read_number(&o->eps, path, from, "eps"));
    CLI_TRY(read_number(&o->weight_decay, path, from, "weight_decay"));
    return read_number(&o->clip, path, from, "grad_clip");
}

static int read_entry(adapt_hyper *h, fovea_trainer_options *o, const char *path,
                      const json_t *entry)
{
    const json_t *train = json_object_get(entry, "trainable");
    const json_t *decay = json_object_get(entry, "decay");
    const json_t *attention = json_object_get(entry, "attention");
    uint32_t stage = 0;
    CLI_TRY(read_count(&stage, path, entry, "stage"));
    if (stage < 1 || stage > 3)
        return wrong(path, "\"stage\" of the stage must be 1, 2 or 3");
    if (!are_strings(train) || !are_strings(decay))
        return wrong(path,
                     "\"trainable\" and \"decay\" of the stage must be lists of tensor names");
    if (!json_is_string(attention))
        return wrong(path, "the stage has no \"attention\"");
    o->stage = (fovea_stage)stage;
    o->attention = json_string_value(attention);
    h->train = names(train);
    h->decay = names(decay);
    o->train = h->train;
    o->decay = h->decay;
    CLI_TRY(read_number(&o->lambda, path, entry, "lambda"));
    return read_rate(o, path, json_object_get(entry, "lr"));
}

int adapt_hyper_read(adapt_hyper *h, fovea_trainer_options *o, const char *path, const char *name)
{
    memset(h, 0, sizeof *h);
    CLI_TRY(cli_json_read(&h->root, path));
    const json_t *optimizer = json_object_get(h->root, "optimizer");
    const json_t *entry = json_object_get(json_object_get(h->root, "stages"), name);
    uint32_t accumulation = 1;
    if (!json_is_object(entry))
        return cli_fail(CLI_INPUT, "%s contains no stage \"%s\"", path, name);
    CLI_TRY(read_count(&h->steps, path, h->root, "steps"));
    CLI_TRY(read_count(&accumulation, path, optimizer, "accumulation"));
    if (accumulation != 1)
        return wrong(path, "\"accumulation\" must be 1");
    CLI_TRY(read_optimizer(o, path, optimizer));
    return read_entry(h, o, path, entry);
}

void adapt_hyper_free(adapt_hyper *h)
{
    json_decref(h->root);
    free(h->train);
    free(h->decay);
    memset(h, 0, sizeof *h);
}
