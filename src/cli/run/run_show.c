/* run_show.c: prints the results for a picture on stdout, and on stderr how the picture was seen,
 * how long it took and which files were written. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/run/run_sink.h"

static bool shows(const run_state *r)
{
    RUN_EACH(r, i, shows)
        if (r->sink[i]->shows(r, r->own[i]))
            return true;
    return false;
}

static json_t *preprocess(const run_state *r)
{
    char *text = cli_preprocess_text(&r->preprocess, &r->s.info);
    json_t *json = cli_json_text(text);
    free(text);
    return json;
}

static void describe(const run_state *r, double seconds)
{
    const run_place *at = &r->now.at;
    json_t *root = json_pack("{s:s, s:o, s:i, s:i, s:i, s:s, s:s, s:f}", "schema", "fovea.run/1",
                             "input", cli_json_text(r->now.name), "width", (int)r->info.width,
                             "height", (int)r->info.height, "tokens", (int)r->info.tokens,
                             "compute", cli_compute_name(r->info.compute), "compute_source",
                             r->info.compute_source, "ms", seconds * 1e3);
    if (at->count == RUN_UNCOUNTED)
        json_object_set_new(root, "frame", json_integer((json_int_t)at->item));
    if (at->count == RUN_UNCOUNTED && at->rate > 0)
        json_object_set_new(root, "time", json_real((double)at->item / at->rate));
    json_object_set_new(root, "top", json_array()); /* an empty list if the model has no classes */
    RUN_EACH(r, i, describe)
        if (r->sink[i]->shows(r, r->own[i]))
            r->sink[i]->describe(root, r, r->own[i]);
    if (r->info.untrained)
        json_object_set_new(root, "untrained", json_string(r->info.untrained));
    if (r->format != FOVEA_FORMAT_PLANES_F32)
        json_object_set_new(root, "preprocess", preprocess(r));
    json_object_set(root, "written", r->now.written);
    cli_print_json(root);
    fflush(stdout); /* a program that reads from a pipe receives each frame at once */
}

static double norm(const run_series *s)
{
    double sum = 0;
    for (uint64_t i = 0; i < s->rows * s->columns; i++)
        sum += (double)s->frame[i] * s->frame[i];
    return sqrt(sum);
}

/* Prints the norms of outputs, for models without other results. */
static void print_norms(const run_state *r)
{
    const run_series *shown[] = {run_find(r, "image_embeds"), &r->series[0]};
    for (size_t i = 0; i < 2; i++)
        if (shown[i] && (i == 0 || shown[1] != shown[0]))
            printf("  %s, %llu x %llu, norm %.6g\n", shown[i]->name,
                   (unsigned long long)shown[i]->rows, (unsigned long long)shown[i]->columns,
                   norm(shown[i]));
}

static void print(const run_state *r)
{
    const bool any = shows(r);
    if (!any && run_writes(r))
        return;
    char *text = cli_printable(r->now.name);
    puts(text);
    free(text);
    RUN_EACH(r, i, print)
        if (r->sink[i]->shows(r, r->own[i]))
            r->sink[i]->print(r, r->own[i]);
    if (!any)
        print_norms(r);
    fflush(stdout); /* so that the results precede messages on stderr */
}

static void say(const run_state *r, double seconds)
{
    char *files = cli_text("%s", "");
    size_t i;
    json_t *file;
    json_array_foreach(r->now.written, i, file) {
        char *more = cli_text("%s%s%s", files, i ? ", " : " -> ", json_string_value(file));
        free(files);
        files = more;
    }
    if (!shows(r) && !run_writes(r)) {
        free(files);
        files = cli_text("; -o, --features and --pca write the results");
    }
    cli_tell("%s: %ux%u seen as %ux%u, %u tokens, %s%s, %.*f %s%s", r->now.name, r->now.width,
             r->now.height, r->info.width, r->info.height, r->info.tokens,
             cli_attention(&r->s.settings, &r->s.info), cli_products(&r->info).text,
             seconds < 0.01 || seconds >= 1, seconds < 1 ? seconds * 1e3 : seconds,
             seconds < 1 ? "ms" : "s", files);
    free(files);
}

void run_show(run_state *r, double seconds)
{
    cli_progress_hide();
    if (r->common.json) {
        describe(r, seconds);
    } else {
        print(r);
        say(r, seconds);
    }
}
