/* cmd_run.c: `fovea run`: computes labels, features and other outputs of pictures. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/interrupt.h"
#include "cli/run/attention_map.h"
#include "cli/run/run_sink.h"

/* ---- the sinks ---- */

#define RUN_SINK(name) extern const run_sink run_sink_##name;
#include "cli/run/run_sinks.inc"
#undef RUN_SINK

static const run_sink *const sinks[RUN_SINKS + 1] = {
#define RUN_SINK(name) &run_sink_##name,
#include "cli/run/run_sinks.inc"
#undef RUN_SINK
};

static void make_sinks(run_state *r)
{
    r->sink = sinks;
    for (size_t i = 0; r->sink[i]; i++)
        r->own[i] = cli_alloc(1, r->sink[i]->size + 1);
}

/* Collects the options of all sinks, in the order in which --help lists them. */
static size_t sink_options(cli_option *out, run_state *r)
{
    size_t n = 0;
    for (int place = 0; place < RUN_SINKS; place++)
        RUN_EACH(r, i, options)
            if (r->sink[i]->place == place)
                n += r->sink[i]->options(out + n, r, r->own[i]);
    return n;
}

static int check_sinks(run_state *r)
{
    RUN_EACH(r, i, check)
        CLI_TRY(r->sink[i]->check(r, r->own[i]));
    run_file file[RUN_FILES];
    RUN_EACH(r, i, files) {
        const size_t n = r->sink[i]->files(file, r, r->own[i]);
        for (size_t k = 0; k < n; k++)
            if (file[k].path && file[k].each && !cli_ends_with(file[k].path, ".png"))
                return cli_fail(CLI_USAGE, "--%s %s: the file name must end with .png",
                                file[k].option, file[k].path);
    }
    return CLI_OK;
}

static int want_outputs(run_state *r)
{
    size_t all = 0;
    while (fovea_model_output(r->s.model, all))
        all++;
    r->series = cli_alloc(all, sizeof *r->series); /* none is requested yet */
    RUN_EACH(r, i, want)
        CLI_TRY(r->sink[i]->want(r, r->own[i]));
    return CLI_OK;
}

/* ---- inputs of each kind ---- */

static int run_picture(run_state *r, const char *path)
{
    cli_image image;
    CLI_TRY(cli_image_read(&image, path));
    const fovea_frame frame = {.pixels = {image.rgb}, .stride = {(size_t)image.width * 3}};
    const run_source source = {frame, FOVEA_FORMAT_RGB8, FOVEA_YUV_601, image.width, image.height};
    int code;
    if (people_given(&r->in.people)) {
        code = run_in_boxes(r, path, &source);
    } else if (r->in.split) {
        code = run_in_parts(r, path, &source);
    } else {
        code = run_plan_for(r, source.format, source.yuv, image.width, image.height);
        CLI_THEN(code, run_add_frame(r, path, &frame, (size_t)image.width * image.height * 3));
    }
    cli_image_free(&image);
    return code;
}

/* Runs tensor `input` (B, 3, H, W), which is already normalised, one picture at a time. */
static int run_tensor(run_state *r, const char *path, cli_progress *bar)
{
    fovea_tensors *file;
    fovea_tensor t;
    if (people_given(&r->in.people))
        return cli_fail(CLI_USAGE, "%s: people cannot be cropped from tensors; give pictures",
                        path);
    CLI_TRY(cli_check(fovea_tensors_open(&file, path)));
    if (!fovea_tensors_find(file, "input", &t) || t.rank != 4 || t.shape[1] != 3 ||
        t.shape[2] > 65536 || t.shape[3] > 65536 || t.elements == 0) {
        fovea_tensors_close(file);
        return cli_fail(CLI_INPUT, "%s contains no tensor \"input\" of shape (B, 3, H, W)", path);
    }
    const uint32_t height = (uint32_t)t.shape[2], width = (uint32_t)t.shape[3];
    const size_t plane = (size_t)height * width;
    float *pixels = cli_alloc(plane, 3 * sizeof *pixels);
    int code = run_plan_for(r, FOVEA_FORMAT_PLANES_F32, FOVEA_YUV_601, width, height);
    r->now.at.count = t.shape[0];
    for (uint64_t b = 0; b < t.shape[0] && !code && !interrupt_code(); b++) {
        const fovea_frame frame = {
            .pixels = {pixels, pixels + plane, pixels + 2 * plane},
            .stride = {width * sizeof *pixels, width * sizeof *pixels, width * sizeof *pixels}};
        char *name = cli_text("%s[%llu]", path, (unsigned long long)b);
        r->now.at.item = b;
        code = cli_check(fovea_tensors_read(&t, b * 3 * plane, 3 * plane, pixels));
        CLI_THEN(code, run_add_frame(r, name, &frame, 3 * plane * sizeof *pixels));
        free(name);
        if (r->in.paths == 1)
            cli_progress_show(bar, (double)b + 1, (double)t.shape[0]);
    }
    free(pixels);
    fovea_tensors_close(file);
    return code;
}

/* ---- the command ---- */

static int run_input(run_state *r, const char *path, cli_progress *bar)
{
    r->now.at = (run_place){.path = path, .count = 1};
    if (run_is_video(r, path))
        return run_video(r, path);
    return cli_ends_with(path, ".safetensors") ? run_tensor(r, path, bar) : run_picture(r, path);
}

/* Reports an interruption by Ctrl-C. The results of finished pictures were kept. */
static int end_interrupted(const run_state *r)
{
    const int code = interrupt_code();
    if (code)
        cli_tell("interrupted after %zu picture%s%s", r->frames, r->frames == 1 ? "" : "s",
                 run_writes(r) && r->frames ? "; the files hold their results" : "");
    return code;
}

static int run_all(run_state *r)
{
    run_inputs *in = &r->in;
    cli_progress bar;
    int code = CLI_OK;
    cli_progress_begin(&bar, "run");
    bar.unit = "pictures";
    for (size_t i = 0; i < in->paths && !code && !in->cut && !interrupt_code(); i++) {
        code = run_input(r, in->path[i], &bar);
        /* Frames of a video before a broken frame are kept. */
        if (code == CLI_INPUT && (in->cut || in->forgiving)) {
            in->skipped = code;
            code = CLI_OK;
        }
        if (in->paths > 1)
            cli_progress_show(&bar, (double)i + 1, (double)in->paths);
    }
    r->now.at.path = NULL;
    const int rest = run_together(r);
    cli_progress_end(&bar);
    CLI_THEN(code, rest);
    /* files with results of all pictures are not written if the interrupt came before the first
     * picture */
    const bool none = interrupt_code() && r->frames == 0;
    if (!none)
        RUN_EACH(r, i, finish)
            CLI_THEN(code, r->sink[i]->finish(r, r->own[i]));
    CLI_THEN(code, end_interrupted(r));
    return code ? code : in->skipped;
}

static void release(run_state *r)
{
    run_batch_free(r);
    for (size_t i = 0; i < r->n; i++)
        free(r->series[i].all);
    for (size_t i = 0; i < r->in.paths; i++)
        free(r->in.path[i]);
    RUN_EACH(r, i, release)
        r->sink[i]->release(r->own[i]);
    for (size_t i = 0; r->sink[i]; i++)
        free(r->own[i]);
    free(r->in.path);
    free(r->series);
    people_free(&r->in.people);
    marks_free(&r->in.marks);
    free(r->in.crops.pixels);
    free(r->now.classes.of_pixel);
    json_decref(r->now.written);
    fovea_plan_free(r->plan);
    cli_close(&r->s);
    free(r);
}

/* Indexed by fovea_yuv_matrix. */
static const char *const yuv_names[] = {"601",  "601-full",  "709", "709-full",
                                        "2020", "2020-full", NULL};

/* Determines whether pictures are run in parts. The program crops each part to size, so that the
 * plan only normalises it. */
static void split_pictures(run_state *r)
{
    r->in.split = r->preprocess.split && r->s.info.masks > 0 && !r->s.settings.width;
    r->in.rule = r->preprocess;
    r->preprocess.split = 0;
    if (r->in.split)
        r->preprocess.resize = FOVEA_RESIZE_NONE;
}

/* Reads --point and --box for a model that finds masks of the objects that they mark. */
static int open_prompts(run_state *r)
{
    if (r->s.info.prompt_masks == 0)
        return r->in.marks.points.n == 0
                   ? CLI_OK
                   : cli_fail(CLI_UNSUPPORTED,
                              "--point needs a model that reads prompts, such as SAM with its mask "
                              "decoder, but this model is %s without one",
                              r->s.info.type);
    r->in.marks.boxes = r->in.people.given;
    r->in.people.given = (cli_texts){NULL};
    return marks_parse(&r->in.marks);
}

static int read_inputs(run_state *r, int argc, char **argv)
{
    run_inputs *in = &r->in;
    CLI_TRY(cli_number(&in->batch, "batch", in->batch_text, 1, CLI_BATCH));
    CLI_TRY(in->raw_text ? video_raw_parse(&in->raw, in->raw_text) : CLI_OK);
    CLI_TRY(cli_choose(&in->yuv, "yuv", in->yuv_text, yuv_names));
    /* A broken picture stops the run with --strict, or if one file contains all results. Otherwise
     * it is skipped. */
    in->forgiving = !run_writes_one(r) && !r->common.strict;
    for (int i = 1; i < argc; i++)
        CLI_TRY(run_gather(&in->path, &in->paths, argv[i]));
    return CLI_OK;
}

/* Prepares the run up to the first frame. `argv` has the positional arguments. */
static int prepare(run_state *r, int argc, char **argv)
{
    if (argc < 2)
        return cli_fail(CLI_USAGE,
                        "run needs a MODEL and at least one INPUT; see fovea run --help");
    CLI_TRY(cli_real(&r->score, "score", r->score_text, 0, 1));
    CLI_TRY(check_sinks(r));
    CLI_TRY(cli_number(&r->top, "top", r->top_text, 0, 1u << 20));
    CLI_TRY(read_inputs(r, argc, argv));
    CLI_TRY(run_check_outputs(r, argv[0], argv + 1, argc - 1));
    CLI_TRY(cli_open(&r->s, &r->common, argv[0]));
    r->preprocess = cli_preprocess(&r->s.settings, r->s.model);
    split_pictures(r);
    CLI_TRY(open_prompts(r));
    CLI_TRY(want_outputs(r));
    return run_open_people(r);
}

int cli_run(const cli_command *self, int argc, char **argv)
{
    run_state *r = cli_alloc(1, sizeof *r);
    const cli_option own[] = {
        {"batch", 0, "N", "number of pictures or frames of one size that run together (default 1)",
         &r->in.batch_text},
        {"raw", 0, "FORMAT:WxH[@RATE]",
         "read inputs as raw video, in a pixel format by ffmpeg's name: rgb24, yuyv422, yuv420p, "
         "nv12, ...; or ppm[@RATE]: one PPM per frame",
         &r->in.raw_text},
        {"yuv", 0, "RULE",
         "colour matrix and range of video: 601, 601-full, 709, 709-full, 2020, 2020-full "
         "(default: by the video's tags)",
         &r->in.yuv_text},
        {"top", 0, "K", "number of labels to print (default 5)", &r->top_text},
        {NULL},
    };
    cli_option all[RUN_SINKS * RUN_OPTIONS + sizeof own / sizeof *own];
    make_sinks(r);
    memcpy(all + sink_options(all, r), own, sizeof own);
    r->common = (cli_common){CLI_STORES};
    char *joined = attention_query_join(&argc, argv);
    int first, code = cli_parse(&first, self, &r->common, all, argc, argv);
    r->top = 5;
    r->in.batch = 1;
    r->in.yuv = -1;
    r->now.written = json_array();
    if (!code && first && !(code = prepare(r, argc - first, argv + first))) {
        interrupt_catch(r->in.batch > 1 ? "batch of pictures" : "picture");
        code = run_all(r);
    }
    release(r);
    free(joined);
    return code;
}
