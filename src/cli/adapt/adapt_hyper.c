/* adapt_hyper.c: hyper-parameters of a stage out of a file as the golden cases have them: the
 * attention, the tensors to train and to decay by name, rates, AdamW. */
#include <stdlib.h>
#include <string.h>

#include "cli/adapt/adapter.h"

static int wrong(const char *path, const char *what)
{
    return cli_fail(CLI_INPUT, "%s: %s", path, what);
}

/* The strings of a list, NULL at the end; they belong to the list. */
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

/* Member `key`, when it is there and a number. */
static void read_number(float *out, const json_t *from, const char *key)
{
    const json_t *v = json_object_get(from, key);
    if (json_is_number(v))
        *out = (float)json_number_value(v);
}

static bool read_count(uint32_t *out, const json_t *from, const char *key)
{
    const json_t *v = json_object_get(from, key);
    if (!v || json_is_null(v))
        return true;
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > INT32_MAX)
        return false;
    *out = (uint32_t)json_integer_value(v);
    return true;
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
        return wrong(path, "\"schedule\" is none of constant, linear, cosine");
    o->schedule = (fovea_lr_schedule)i;
    if (!json_is_number(json_object_get(lr, "base")))
        return wrong(path, "the stage has no \"lr\": {\"base\"}");
    read_number(&o->lr, lr, "base");
    read_number(&o->lr_end, lr, "end");
    read_number(&o->backbone_ratio, lr, "backbone_ratio");
    if (!read_count(&o->steps, lr, "total_steps") || !read_count(&o->warm_up, lr, "warmup_steps"))
        return wrong(path, "\"total_steps\" or \"warmup_steps\" is no number of steps");
    return CLI_OK;
}

static void read_optimizer(fovea_trainer_options *o, const json_t *from)
{
    const json_t *betas = json_object_get(from, "betas");
    if (json_array_size(betas) == 2) {
        o->beta1 = (float)json_number_value(json_array_get(betas, 0));
        o->beta2 = (float)json_number_value(json_array_get(betas, 1));
    }
    read_number(&o->eps, from, "eps");
    read_number(&o->weight_decay, from, "weight_decay");
    read_number(&o->clip, from, "grad_clip");
}

static int read_entry(adapt_hyper *h, fovea_trainer_options *o, const char *path,
                      const json_t *entry)
{
    const json_t *train = json_object_get(entry, "trainable");
    const json_t *decay = json_object_get(entry, "decay");
    const json_t *attention = json_object_get(entry, "attention");
    uint32_t stage = 0;
    if (!read_count(&stage, entry, "stage") || stage < 1 || stage > 3)
        return wrong(path, "the stage's \"stage\" is not 1, 2 or 3");
    if (!are_strings(train) || !are_strings(decay))
        return wrong(path, "the stage's \"trainable\" and \"decay\" are not lists of tensors");
    if (!json_is_string(attention))
        return wrong(path, "the stage has no \"attention\"");
    o->stage = (fovea_stage)stage;
    o->attention = json_string_value(attention);
    h->train = names(train);
    h->decay = names(decay);
    o->train = h->train;
    o->decay = h->decay;
    read_number(&o->lambda, entry, "lambda");
    return read_rate(o, path, json_object_get(entry, "lr"));
}

int adapt_hyper_read(adapt_hyper *h, fovea_trainer_options *o, const char *path, const char *name)
{
    json_error_t error;
    memset(h, 0, sizeof *h);
    h->root = json_load_file(path, 0, &error);
    if (!h->root)
        return cli_fail(CLI_INPUT, "%s: line %d: %s", path, error.line, error.text);
    const json_t *optimizer = json_object_get(h->root, "optimizer");
    const json_t *entry = json_object_get(json_object_get(h->root, "stages"), name);
    uint32_t accumulation = 1;
    if (!json_is_object(entry))
        return cli_fail(CLI_INPUT, "%s: has no stage \"%s\"", path, name);
    if (!read_count(&h->steps, h->root, "steps") ||
        !read_count(&accumulation, optimizer, "accumulation") || accumulation != 1)
        return wrong(path, "\"steps\" is no number, or \"accumulation\" is not 1");
    read_optimizer(o, optimizer);
    return read_entry(h, o, path, entry);
}

void adapt_hyper_free(adapt_hyper *h)
{
    json_decref(h->root);
    free(h->train);
    free(h->decay);
    memset(h, 0, sizeof *h);
}
