/* linear_form.c: reads and sets the parameters of a model's linear attentions. */
#include "models/linear_form.h"

#include <math.h>

#define SECTION "fovea"

/* The ranges of the parameters. A power below 1 would have an infinite slope at 0, and the smallest
 * power of NaLa is lambda / 2. */
static const struct {
    const char *key;
    double low, high;
} numbers[] = {{"nala_lambda", 2, 8}, {"pola_alpha", 0.01, 16}, {"q_scale", 0.001, 1000}};
enum { NUMBERS = sizeof numbers / sizeof *numbers };
#define HEADS "linear_heads"
#define HEADS_MOST 65535

static float *number_of(fovea_linear_attention_params *f, int i)
{
    float *const at[NUMBERS] = {&f->nala_lambda, &f->pola_alpha, &f->q_scale};
    return at[i];
}

static fovea_status check(const fovea_linear_attention_params *given)
{
    fovea_linear_attention_params f = *given;
    for (int i = 0; i < NUMBERS; i++) {
        const double x = (double)*number_of(&f, i);
        if (x != 0 && !(x >= numbers[i].low && x <= numbers[i].high))
            return fv_fail(FOVEA_EINVAL,
                           "%s is %g; it must be from %g to %g, or 0 for the model's own value",
                           numbers[i].key, x, numbers[i].low, numbers[i].high);
    }
    return f.heads <= HEADS_MOST
               ? FOVEA_OK
               : fv_fail(FOVEA_EINVAL,
                         "%s is %u; it must be from 1 to %u, or 0 for the model's own value", HEADS,
                         f.heads, HEADS_MOST);
}

fovea_status fv_linear_form_set(json_t *config, const char *file,
                                const fovea_linear_attention_params *given)
{
    fovea_linear_attention_params f = *given;
    json_t *own = json_object_get(config, SECTION);
    bool good = true, any = f.heads > 0;
    FV_TRY(check(given));
    for (int i = 0; i < NUMBERS; i++)
        any |= *number_of(&f, i) > 0;
    if (!any)
        return FOVEA_OK;
    if (!own) {
        own = json_object();
        good = json_object_set_new(config, SECTION, own) == 0;
    }
    for (int i = 0; i < NUMBERS && good; i++)
        if (*number_of(&f, i) > 0)
            good =
                json_object_set_new(own, numbers[i].key, json_real((double)*number_of(&f, i))) == 0;
    if (good && f.heads)
        good = json_object_set_new(own, HEADS, json_integer(f.heads)) == 0;
    return good ? FOVEA_OK
                : fv_fail(FOVEA_EFORMAT,
                          "%s: keys cannot be added to \"%s\", because it is not an object", file,
                          SECTION);
}

fovea_status fv_linear_form_read(fovea_linear_attention_params *out, const fv_config *own)
{
    *out = (fovea_linear_attention_params){0};
    for (int i = 0; i < NUMBERS; i++)
        FV_TRY(fv_config_float(number_of(out, i), own, numbers[i].key, numbers[i].low,
                               numbers[i].high));
    return fv_config_u32(&out->heads, own, HEADS, 1, HEADS_MOST);
}

json_t *fv_linear_form_keys(const json_t *config)
{
    const json_t *own = json_object_get(config, SECTION);
    json_t *out = json_object();
    for (int i = 0; i <= NUMBERS && out; i++) {
        const char *key = i < NUMBERS ? numbers[i].key : HEADS;
        json_t *value = json_object_get(own, key);
        if (value && json_object_set(out, key, value) != 0) {
            json_decref(out);
            out = NULL;
        }
    }
    return out;
}
