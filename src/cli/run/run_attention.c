/* run_attention.c: draws what a patch attends to as a picture (attention_map.h). */
#include <stdlib.h>

#include "cli/run/attention_map.h"
#include "cli/run/run_sink.h"

typedef struct attention {
    /* arguments of --attention-map and --attention-block; NULL if not given */
    const char *text, *block;
    attention_query query; /* path is NULL if no map is requested */
    attention_map map;     /* map of the current frame */
} attention;

static size_t options(cli_option *out, run_state *r, void *own)
{
    attention *a = own;
    (void)r;
    out[0] = (cli_option){"attention-map", 0, "X,Y,FILE",
                          "attention weights of the patch at pixel X,Y, drawn as a .png", &a->text};
    out[1] = (cli_option){"attention-block", 0, "I",
                          "block of --attention-map (default -1: the last one)", &a->block};
    return 2;
}

static size_t files(run_file *out, const run_state *r, const void *own)
{
    (void)r;
    out[0] = (run_file){"attention-map", ((const attention *)own)->query.path, true, false};
    return 1;
}

static int check(run_state *r, void *own)
{
    attention *a = own;
    (void)r;
    return attention_query_parse(&a->query, a->text, a->block);
}

static int want(run_state *r, void *own)
{
    attention *a = own;
    if (!a->query.path)
        return CLI_OK;
    CLI_TRY(run_refuse_parts(r));
    CLI_TRY(attention_query_choose(&a->query, &r->s));
    run_want(r, a->query.q);
    run_want(r, a->query.k);
    return CLI_OK;
}

static int take(run_state *r, void *own)
{
    attention *a = own;
    if (!a->query.path)
        return CLI_OK;
    const run_series *q = run_find(r, a->query.q), *k = run_find(r, a->query.k);
    const attention_input in = {r->plan, (size_t)(q - r->series), q->info, k->info, q->frame,
                                k->frame};
    attention_map_free(&a->map);
    CLI_TRY(attention_map_make(&a->map, &a->query, &in));
    cli_image picture;
    int code = run_seen(&picture, r);
    char *name = run_picture_name(r, a->query.path, &r->now.at);
    CLI_THEN(code, attention_map_draw(&a->map, &picture, name));
    run_wrote(r, name);
    cli_image_free(&picture);
    return code;
}

static bool shows(const run_state *r, const void *own)
{
    (void)r;
    return ((const attention *)own)->map.rows > 0;
}

static void print(const run_state *r, const void *own)
{
    (void)r;
    attention_map_print(&((const attention *)own)->map);
}

static void describe(json_t *root, const run_state *r, const void *own)
{
    (void)r;
    json_object_set_new(root, "attention", attention_map_describe(&((const attention *)own)->map));
}

static bool refuses_people(const run_state *r, const void *own)
{
    (void)r;
    return ((const attention *)own)->query.path != NULL;
}

static void release(void *own)
{
    attention_map_free(&((attention *)own)->map);
}

const run_sink run_sink_attention = {.size = sizeof(attention),
                                     .place = 8,
                                     .options = options,
                                     .files = files,
                                     .check = check,
                                     .want = want,
                                     .take = take,
                                     .shows = shows,
                                     .print = print,
                                     .describe = describe,
                                     .release = release,
                                     .refuses_people = refuses_people,
                                     .on_rgb = true};
