/* cmd_run.c: `fovea run`: labels, features and other outputs of pictures. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/interrupt.h"
#include "cli/run/runner.h"

/* ---- one frame ---- */

static float *append(float *all, const float *frame, size_t count, size_t frames)
{
    float *more = realloc(all, (frames + 1) * count * sizeof *more);
    if (!more)
        exit(cli_fail(CLI_UNSUPPORTED, "out of memory for the outputs of %zu frames", frames + 1));
    memcpy(more + frames * count, frame, count * sizeof *more);
    return more;
}

void run_keep(run_state *r)
{
    for (size_t i = 0; i < r->n; i++) {
        run_series *s = &r->series[i];
        if (s->saved || s->feature)
            s->all = append(s->all, s->frame, (size_t)(s->rows * s->columns), r->frames);
    }
    r->frames++;
}

static int draw(run_state *r, const char *path, const fovea_frame *frame)
{
    int code = CLI_OK;
    if (r->segments)
        code = run_segment(r, path, frame);
    if (r->pca)
        CLI_THEN(code, run_draw_features(r, path));
    return code;
}

static int map_attention(run_state *r, const char *path, const fovea_frame *frame)
{
    const run_series *q = run_find(r, r->query.q), *k = run_find(r, r->query.k);
    attention_map_free(&r->map);
    const attention_input in = {r->plan, (size_t)(q - r->series), q->info, k->info, q->frame,
                                k->frame};
    CLI_TRY(attention_map_make(&r->map, &r->query, &in));
    cli_image picture;
    int code = run_seen(&picture, r, frame);
    char *name = run_picture_name(r, r->query.path, path);
    CLI_THEN(code, attention_map_draw(&r->map, &picture, name));
    run_wrote(r, name);
    cli_image_free(&picture);
    return code;
}

int run_results(run_state *r, const char *name, const fovea_frame *frame, double seconds)
{
    const char *path = r->at.path;
    json_array_clear(r->written);
    CLI_TRY(run_detect(r, name));
    CLI_TRY(run_find_depth(r, path));
    CLI_TRY(run_find_masks(r, path, name));
    CLI_TRY(run_find_points(r));
    run_write_points(r, name);
    CLI_TRY(draw(r, path, frame));
    CLI_TRY(run_overlays(r) ? run_overlay(r, path, frame) : CLI_OK);
    CLI_TRY(r->query.path ? map_attention(r, path, frame) : CLI_OK);
    run_keep(r);
    r->pictures++;
    run_show(r, name, seconds);
    return CLI_OK;
}

int run_results_of_people(run_state *r, const char *name, const fovea_frame *frame, double seconds)
{
    json_array_clear(r->written);
    run_write_points(r, name);
    CLI_TRY(run_overlays(r) ? run_overlay(r, r->at.path, frame) : CLI_OK);
    r->pictures++;
    run_show(r, name, seconds);
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
    if (people_given(&r->people)) {
        code = run_in_boxes(r, path, &source);
    } else if (r->split) {
        code = run_in_parts(r, path, &source);
    } else {
        code = run_plan_for(r, source.format, source.yuv, image.width, image.height);
        CLI_THEN(code, run_frame(r, path, &frame, (size_t)image.width * image.height * 3));
    }
    cli_image_free(&image);
    return code;
}

/* Tensor `input` (B, 3, H, W), normalised already: one picture after the other. */
static int run_tensor(run_state *r, const char *path, cli_progress *bar)
{
    fovea_tensors *file;
    fovea_tensor t;
    if (people_given(&r->people))
        return cli_fail(CLI_USAGE, "%s: people are cut out of pictures, not out of tensors", path);
    CLI_TRY(cli_check(fovea_tensors_open(&file, path)));
    if (!fovea_tensors_find(file, "input", &t) || t.rank != 4 || t.shape[1] != 3 ||
        t.shape[2] > 65536 || t.shape[3] > 65536 || t.elements == 0) {
        fovea_tensors_close(file);
        return cli_fail(CLI_INPUT, "%s: holds no tensor \"input\" of shape (B, 3, H, W)", path);
    }
    const uint32_t height = (uint32_t)t.shape[2], width = (uint32_t)t.shape[3];
    const size_t plane = (size_t)height * width;
    float *pixels = cli_alloc(plane, 3 * sizeof *pixels);
    int code = run_plan_for(r, FOVEA_FORMAT_PLANES_F32, FOVEA_YUV_601, width, height);
    r->at.count = t.shape[0];
    for (uint64_t b = 0; b < t.shape[0] && !code && !interrupt_code(); b++) {
        const fovea_frame frame = {
            .pixels = {pixels, pixels + plane, pixels + 2 * plane},
            .stride = {width * sizeof *pixels, width * sizeof *pixels, width * sizeof *pixels}};
        char *name = cli_text("%s[%llu]", path, (unsigned long long)b);
        r->at.item = b;
        code = cli_check(fovea_tensors_read(&t, b * 3 * plane, 3 * plane, pixels));
        CLI_THEN(code, run_frame(r, name, &frame, 3 * plane * sizeof *pixels));
        free(name);
        if (r->paths == 1)
            cli_progress_show(bar, (double)b + 1, (double)t.shape[0]);
    }
    free(pixels);
    fovea_tensors_close(file);
    return code;
}

/* ---- the command ---- */

/* Whether all pictures go into one file. */
static bool one_file(const run_state *r)
{
    return r->output || r->features || r->boxes.path || r->points.path ||
           (r->masks.path && cli_ends_with(r->masks.path, ".json"));
}

static int run_input(run_state *r, const char *path, cli_progress *bar)
{
    r->at = (run_place){.path = path, .count = 1};
    if (run_is_video(r, path))
        return run_video(r, path);
    return cli_ends_with(path, ".safetensors") ? run_tensor(r, path, bar) : run_picture(r, path);
}

/* After Ctrl-C: what was finished has been kept like any other result. */
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
    cli_progress bar;
    int code = CLI_OK;
    cli_progress_begin(&bar, "run");
    bar.unit = "pictures";
    for (size_t i = 0; i < r->paths && !code && !r->cut && !interrupt_code(); i++) {
        code = run_input(r, r->path[i], &bar);
        /* What came before the broken frame of a video is kept. */
        if (code == CLI_INPUT && (r->cut || r->forgiving)) {
            r->skipped = code;
            code = CLI_OK;
        }
        if (r->paths > 1)
            cli_progress_show(&bar, (double)i + 1, (double)r->paths);
    }
    r->at.path = NULL;
    const int rest = run_together(r);
    cli_progress_end(&bar);
    CLI_THEN(code, rest);
    const bool none = interrupt_code() && r->frames == 0; /* no picture: no file of pictures */
    if (r->features && !none)
        CLI_THEN(code, run_save_features(r));
    if (r->output && !none)
        CLI_THEN(code, run_save_outputs(r));
    if (r->boxes.path && !none)
        CLI_THEN(code, run_save_coco(r, r->boxes.path, r->boxes.coco, "box", "boxes"));
    if (r->masks.path && cli_ends_with(r->masks.path, ".json") && !none)
        CLI_THEN(code, run_save_coco(r, r->masks.path, r->masks.coco, "mask", "masks"));
    if (r->points.path && !none)
        CLI_THEN(code, run_save_coco(r, r->points.path, r->points.coco, "pose", "poses"));
    CLI_THEN(code, end_interrupted(r));
    return code ? code : r->skipped;
}

static int check_names(const run_state *r)
{
    if (r->output && !cli_ends_with(r->output, ".safetensors"))
        return cli_fail(CLI_USAGE, "-o %s: the file is a .safetensors", r->output);
    if (r->features && !cli_ends_with(r->features, ".safetensors") &&
        !cli_ends_with(r->features, ".npy"))
        return cli_fail(CLI_USAGE, "--features %s: the file is a .safetensors or .npy",
                        r->features);
    const struct {
        const char *option, *path;
    } pictures[] = {
        {"pca", r->pca}, {"labels", r->labels}, {"overlay", r->overlay}, {"depth", r->depth.path}};
    for (int i = 0; i < 4; i++)
        if (pictures[i].path && !cli_ends_with(pictures[i].path, ".png"))
            return cli_fail(CLI_USAGE, "--%s %s: the file is a .png", pictures[i].option,
                            pictures[i].path);
    if (r->boxes.path && !cli_ends_with(r->boxes.path, ".json"))
        return cli_fail(CLI_USAGE, "--boxes %s: the file is a .json", r->boxes.path);
    if (r->points.path && !cli_ends_with(r->points.path, ".json"))
        return cli_fail(CLI_USAGE, "--pose %s: the file is a .json", r->points.path);
    if (r->masks.path && !cli_ends_with(r->masks.path, ".json") &&
        !cli_ends_with(r->masks.path, ".png"))
        return cli_fail(CLI_USAGE, "--masks %s: the file is a .png or .json", r->masks.path);
    if (r->hidden && !r->output)
        return cli_fail(CLI_USAGE, "--hidden adds to the file of -o, which is not given");
    return CLI_OK;
}

static void release(run_state *r)
{
    run_batch_free(r);
    for (size_t i = 0; i < r->n; i++)
        free(r->series[i].all);
    for (size_t i = 0; i < r->paths; i++)
        free(r->path[i]);
    free(r->path);
    free(r->series);
    cli_basis_free(&r->basis);
    attention_map_free(&r->map);
    run_boxes_free(&r->boxes);
    run_depth_free(&r->depth);
    run_masks_free(&r->masks);
    run_points_free(&r->points);
    people_free(&r->people);
    free(r->crops.pixels);
    json_decref(r->written);
    fovea_plan_free(r->plan);
    cli_close(&r->s);
    free(r);
}

/* How depth and masks are shown. */
static int read_results(run_state *r)
{
    run_masks *m = &r->masks;
    m->options = (fovea_mask_options)FOVEA_MASK_OPTIONS_INIT;
    CLI_TRY(cli_real(&r->score, "score", r->score_text, 0, 1));
    m->options.threshold = (float)r->score;
    if (m->rule && strcmp(m->rule, "instance") == 0)
        m->options.rule = FOVEA_MASKS_INSTANCE;
    else if (m->rule && strcmp(m->rule, "panoptic") != 0)
        return cli_fail(CLI_USAGE, "--mask-rule %s: panoptic or instance", m->rule);
    r->depth.map = r->depth.colours ? colour_map_find(r->depth.colours) : NULL;
    if (r->depth.colours && !r->depth.map)
        return cli_fail(CLI_USAGE, "--colormap %s: turbo, inferno, viridis or gray",
                        r->depth.colours);
    return r->depth.colours && !r->depth.path && !r->overlay
               ? cli_fail(CLI_USAGE, "--colormap is for --depth or --overlay")
               : CLI_OK;
}

/* As fovea_yuv_matrix has them. */
static const char *const yuv_names[] = {"601",  "601-full",  "709", "709-full",
                                        "2020", "2020-full", NULL};

/* Parts of pictures are only normalised, as their plan sees them. */
static void split_pictures(run_state *r)
{
    r->split = r->preprocess.split && r->s.info.masks > 0 && !r->s.settings.width;
    r->rule = r->preprocess;
    r->preprocess.split = 0;
    if (r->split)
        r->preprocess.resize = FOVEA_RESIZE_NONE;
}

/* All before the first frame; `argv` has what is not an option. */
static int prepare(run_state *r, int argc, char **argv)
{
    if (argc < 2)
        return cli_fail(CLI_USAGE, "run takes a MODEL and at least one INPUT; fovea run --help");
    CLI_TRY(check_names(r));
    CLI_TRY(attention_query_parse(&r->query, r->map_text, r->map_block));
    CLI_TRY(read_results(r));
    CLI_TRY(cli_number(&r->top, "top", r->top_text, 0, 1u << 20));
    CLI_TRY(cli_number(&r->batch, "batch", r->batch_text, 1, CLI_BATCH));
    CLI_TRY(r->raw_text ? video_raw_parse(&r->raw, r->raw_text) : CLI_OK);
    CLI_TRY(cli_choose(&r->yuv, "yuv", r->yuv_text, yuv_names));
    /* A broken picture stops the others where all go into one file, and with --strict. */
    r->forgiving = !one_file(r) && !r->common.strict;
    for (int i = 1; i < argc; i++)
        CLI_TRY(run_gather(&r->path, &r->paths, argv[i]));
    CLI_TRY(run_check_outputs(r, argv[0], argv + 1, argc - 1));
    CLI_TRY(run_open_basis(r));
    CLI_TRY(cli_open(&r->s, &r->common, argv[0]));
    r->preprocess = cli_preprocess(&r->s.settings, r->s.model);
    split_pictures(r);
    CLI_TRY(run_choose(r));
    return run_open_people(r);
}

int cli_run(const cli_command *self, int argc, char **argv)
{
    run_state *r = cli_alloc(1, sizeof *r);
    const cli_option own[] = {
        {"output", 'o', "FILE", "all outputs of the model, as .safetensors", &r->output},
        {"hidden", 0, NULL, "intermediate features too, into the file of -o", &r->hidden},
        {"features", 0, "FILE",
         "patch features (B, rows, columns, C): .npy, or .safetensors with every stage",
         &r->features},
        {"pca", 0, "FILE", "patch features as a picture, .png", &r->pca},
        {"pca-basis", 0, "FILE",
         "what gives features their colours, .safetensors: read if it is there, else made of the "
         "first picture; pictures of one basis can be compared",
         &r->basis_path},
        {"labels", 0, "FILE", "classes of a segmentation head as a picture of indices, .png",
         &r->labels},
        {"overlay", 0, "FILE",
         "what the model finds over the picture, .png: classes, masks, depth, boxes, key points",
         &r->overlay},
        {"depth", 0, "FILE",
         "depth, .png of 16 bits: metric models: millimetres, else larger is nearer",
         &r->depth.path},
        {"colormap", 0, "NAME", "depth in colours instead: turbo, inferno, viridis, gray",
         &r->depth.colours},
        {"masks", 0, "FILE", "masks: .png of their numbers, or .json as COCO has them",
         &r->masks.path},
        {"mask-rule", 0, "NAME", "panoptic (default), instance", &r->masks.rule},
        {"boxes", 0, "FILE", "boxes of a detector as COCO has them, .json", &r->boxes.path},
        {"score", 0, "P",
         "least score of masks, 0.8, and of boxes and points that are drawn and of --people, 0.3",
         &r->score_text},
        {"pose", 0, "FILE", "key points as COCO has them, .json", &r->points.path},
        {"box", 0, "X,Y,W,H",
         "a person's box in each picture, in pixels: upper left corner and size; several times for "
         "several people",
         &r->people.given, .again = true},
        {"people", 0, "FILE", "boxes of people, as --boxes of a detector or COCO have them, .json",
         &r->people.path},
        {"person", 0, "NAME|ID", "the category of --people that is a person: person, else 1",
         &r->people.category},
        {"attention-map", 0, "X,Y,FILE", "what the patch at pixel X,Y attends to, .png",
         &r->map_text},
        {"attention-block", 0, "I", "in block I; -1, the last, if not given", &r->map_block},
        {"batch", 0, "N", "pictures or frames of one size that run together, 1", &r->batch_text},
        {"raw", 0, "FORMAT:WxH[@RATE]",
         "the inputs are raw video, in a pixel format that ffmpeg calls so: rgb24, yuyv422, "
         "yuv420p, nv12, ...; or ppm[@RATE]: a PPM for every frame",
         &r->raw_text},
        {"yuv", 0, "RULE",
         "of a video's Y, U, V: 601, 601-full, 709, 709-full, 2020, 2020-full; as its tags say if "
         "not given",
         &r->yuv_text},
        {"top", 0, "K", "labels to show, 5", &r->top_text},
        {NULL},
    };
    r->common = (cli_common){CLI_STORES};
    char *joined = attention_query_join(&argc, argv);
    int first, code = cli_parse(&first, self, &r->common, own, argc, argv);
    r->top = 5;
    r->batch = 1;
    r->yuv = -1;
    r->written = json_array();
    r->boxes.coco = json_array();
    r->masks.coco = json_array();
    r->points.coco = json_array();
    if (!code && first && !(code = prepare(r, argc - first, argv + first))) {
        interrupt_catch(r->batch > 1 ? "batch of pictures" : "picture");
        code = run_all(r);
    }
    release(r);
    free(joined);
    return code;
}
