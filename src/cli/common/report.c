/* report.c: formats the parts that results of several commands contain, as text and as JSON. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/cli.h"
#include "cli/common/machine.h"

/* Returns the length in bytes of the UTF-8 character at the beginning of `text`, or 0 if the bytes
 * are not valid. */
static size_t character(const char *text)
{
    size_t n = 1 + ((unsigned char)*text >= 0xc0) + ((unsigned char)*text >= 0xe0) +
               ((unsigned char)*text >= 0xf0);
    /* checks that the bytes are valid */
    json_t *one = strnlen(text, n) == n ? json_stringn(text, n) : NULL;
    n = one ? n : 0;
    json_decref(one);
    return n;
}

json_t *cli_json_text(const char *text)
{
    static const char unknown[] = "\xef\xbf\xbd";
    char *out = cli_alloc(strlen(text) + 1, sizeof unknown), *to = out;
    for (size_t n; *text; text += n ? n : 1) {
        n = character(text);
        to = memcpy(to, n ? text : unknown, n ? n : 3);
        to += n ? n : 3;
    }
    json_t *value = json_string(out);
    free(out);
    return value;
}

json_t *cli_json_number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

json_t *cli_build(void)
{
    return json_pack("{s:s, s:s}", "version", fovea_version(), "compiler", __VERSION__);
}

json_t *cli_environment(const fovea_device *device)
{
    fovea_device_info info = FOVEA_DEVICE_INFO_INIT;
    fovea_device_describe(device, &info);
    json_t *env = json_pack("{s:s, s:s, s:s, s:i, s:i}", "device", info.id, "name", info.name,
                            "isa", info.features, "processors", (int)info.units, "threads",
                            (int)fovea_device_threads(device));
    const struct {
        const char *key, *text;
    } own[] = {{"driver", info.driver}, {"quirks", info.quirks}};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (*own[i].text)
            json_object_set_new(env, own[i].key, json_string(own[i].text));
    machine_identify(env);
    return env;
}

json_t *cli_plan_bytes(const fovea_plan_info *info)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "weights", (json_int_t)info->weights,
                     "residual", (json_int_t)info->residual, "states", (json_int_t)info->states,
                     "chunks", (json_int_t)info->chunks, "scratch", (json_int_t)info->scratch,
                     "staging", (json_int_t)info->staging, "largest", (json_int_t)info->largest);
}

void cli_print_json(json_t *object)
{
    char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9));
    if (!text)
        exit(cli_fail(CLI_INPUT,
                      "cannot write the JSON result: a string is not UTF-8, or memory ran out"));
    puts(text);
    free(text);
    json_decref(object);
}

cli_word cli_products(const fovea_plan_info *plan)
{
    static const char *const sources[][2] = {{"wisdom", " (as tuned)"},
                                             {"prior", " (as tuned at another size)"}};
    cli_word out = {""};
    const char *from = "";
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        if (strcmp(plan->compute_source, sources[i][0]) == 0)
            from = sources[i][1];
    if (plan->compute != FOVEA_COMPUTE_F32 || *from)
        snprintf(out.text, sizeof out.text, ", %s products%s", cli_compute_name(plan->compute),
                 from);
    return out;
}

cli_word cli_duration(double seconds)
{
    static const struct {
        double unit, below; /* seconds */
        const char *format;
    } scale[] = {
        {1e-6, 1e-4, "%.0f us"}, {1e-3, 1, "%.1f ms"},        {1, 120, "%.1f s"},
        {60, 7200, "%.0f min"},  {3600, 48 * 3600, "%.1f h"}, {24 * 3600, 0, "%.1f days"},
    };
    cli_word out;
    size_t i = 0;
    while (i + 1 < sizeof scale / sizeof *scale && seconds >= scale[i].below)
        i++;
    snprintf(out.text, sizeof out.text, scale[i].format, seconds / scale[i].unit);
    return out;
}

cli_word cli_bytes(uint64_t bytes)
{
    cli_word out;
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double v = (double)bytes;
    size_t i = 0;
    for (; v >= 1024 && i + 1 < sizeof unit / sizeof *unit; i++)
        v /= 1024;
    snprintf(out.text, sizeof out.text, i && v < 100 ? "%.1f %s" : "%.0f %s", v, unit[i]);
    return out;
}
