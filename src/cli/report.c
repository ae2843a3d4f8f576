/* report.c: progress on the terminal, and the parts that results share. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "machine.h"

double cli_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void cli_progress_begin(cli_progress *p, const char *what)
{
    *p = (cli_progress){what, cli_seconds(), 0};
}

void cli_progress_show(cli_progress *p, double done, double total)
{
    enum { WIDTH = 30 };
    double now = cli_seconds(), spent = now - p->begin;
    if (spent < 1 || now - p->shown < 0.1 || total <= 0 || !isatty(STDERR_FILENO))
        return;
    double share = done < total ? done / total : 1;
    int full = (int)(share * WIDTH);
    p->shown = now;
    fprintf(stderr, "\r%s [%.*s%*s] %3.0f %%", p->what, full, "##############################",
            WIDTH - full, "", 100 * share);
    const double left = share > 0.02 ? spent * (1 - share) / share : 0;
    if (left > 2 * 3600)
        fprintf(stderr, "  %.1f h left ", left / 3600);
    else if (left > 120)
        fprintf(stderr, "  %.0f min left ", left / 60);
    else if (share > 0.02)
        fprintf(stderr, "  %.0f s left ", left);
    fputs("\033[K", stderr);
}

void cli_progress_end(cli_progress *p)
{
    if (p->shown != 0)
        fputs("\r\033[K", stderr);
    p->shown = 0;
}

json_t *cli_build(void)
{
    return json_pack("{s:s, s:s}", "version", fovea_version(), "compiler", __VERSION__);
}

json_t *cli_environment(const fovea_device *device)
{
    fovea_device_info info;
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
    puts(text ? text : "{}");
    free(text);
    json_decref(object);
}

const char *cli_bytes(char *buf, size_t size, uint64_t bytes)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double v = (double)bytes;
    size_t i = 0;
    for (; v >= 1024 && i + 1 < sizeof unit / sizeof *unit; i++)
        v /= 1024;
    snprintf(buf, size, i && v < 100 ? "%.1f %s" : "%.0f %s", v, unit[i]);
    return buf;
}
