/* run_boxes.c: computes a detector's boxes from the outputs of a frame, keeps them for the file of
 * -o, and writes them in COCO's format, in pixels of the photograph. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run/run_sink.h"

/* A box, and the number of its frame among all frames. */
typedef struct kept_box {
    fovea_detection box;
    size_t frame;
} kept_box;

typedef struct boxes {
    const char *path; /* argument of --boxes, or NULL */
    bool wanted;
    fovea_detection *found; /* boxes of the current frame */
    size_t count;
    kept_box *all; /* boxes of all frames, for the file of -o */
    size_t kept;
    json_t *coco;
} boxes;

static size_t options(cli_option *out, run_state *r, void *own)
{
    boxes *b = own;
    out[0] =
        (cli_option){"boxes", 0, "FILE", "COCO file (.json) for the boxes of a detector", &b->path};
    out[1] = (cli_option){"score", 0, "P",
                          "lowest score of masks (default 0.8; with boxes and for Mask2Former "
                          "0.5), and of drawn boxes, "
                          "drawn points and --people (default 0.3)",
                          &r->score_text};
    return 2;
}

static size_t files(run_file *out, const run_state *r, const void *own)
{
    const boxes *b = own;
    (void)r;
    out[0] = (run_file){"boxes", b->path, false, false};
    return 1;
}

static int check(run_state *r, void *own)
{
    boxes *b = own;
    (void)r;
    b->coco = json_array();
    if (b->path && !cli_ends_with(b->path, ".json"))
        return cli_fail(CLI_USAGE, "--boxes %s: the file name must end with .json", b->path);
    return CLI_OK;
}

/* Requests all outputs that boxes are computed from. */
static int want(run_state *r, void *own)
{
    boxes *b = own;
    const char *name;
    b->wanted = r->s.info.boxes > 0 && (r->output || b->path || r->overlay || !run_writes(r));
    if (b->path && !b->wanted)
        return cli_fail(CLI_UNSUPPORTED, "--boxes %s: this model finds no boxes", b->path);
    for (size_t i = 0; b->wanted && (name = fovea_model_output(r->s.model, i)); i++)
        if (cli_makes_boxes(r->s.model, name))
            run_save(r, name);
    return CLI_OK;
}

/* Returns the box in pixels of the picture as it was run; the file of -o uses these pixels. */
static fovea_detection in_run_pixels(const fovea_detection *d, const fovea_plan_info *i)
{
    fovea_detection out = *d;
    out.x1 = (float)(((double)d->x1 - i->left) / i->scale_x);
    out.y1 = (float)(((double)d->y1 - i->top) / i->scale_y);
    out.x2 = (float)(((double)d->x2 - i->left) / i->scale_x);
    out.y2 = (float)(((double)d->y2 - i->top) / i->scale_y);
    return out;
}

/* Returns a box in COCO's format, without the picture. */
static json_t *record(const run_state *r, const fovea_detection *d)
{
    double b[4];
    cli_place_box(b, d, r->now.width, r->now.height);
    return json_pack("{s:[f, f, f, f], s:f, s:i}", "bbox", b[0], b[1], b[2], b[3], "score",
                     (double)d->score, "category_id", (int)d->label);
}

static int take(run_state *r, void *own)
{
    boxes *b = own;
    if (!b->wanted)
        return CLI_OK;
    if (!b->found)
        b->found = cli_alloc(r->s.info.boxes, sizeof *b->found);
    int code = cli_check(
        fovea_detections(r->plan, r->now.outs, r->n, b->found, r->s.info.boxes, &b->count));
    for (size_t i = 0; !code && i < b->count; i++) {
        if (r->output) {
            b->all = cli_grow(b->all, b->kept, sizeof *b->all);
            b->all[b->kept++] = (kept_box){in_run_pixels(&b->found[i], &r->info), r->frames};
        }
        if (!b->path)
            continue;
        json_t *box = record(r, &b->found[i]);
        const char *label = fovea_model_label(r->s.model, b->found[i].label);
        run_coco_picture(box, r);
        if (label)
            json_object_set_new(box, "label", cli_json_text(label));
        json_array_append_new(b->coco, box);
    }
    return code;
}

static bool shows(const run_state *r, const void *own)
{
    (void)r;
    return ((const boxes *)own)->wanted;
}

/* Prints the upper left corner, width and height of each box, in pixels of the photograph. */
static void print(const run_state *r, const void *own)
{
    const boxes *found = own;
    const size_t all = found->count, n = r->top < all ? r->top : all;
    puts("   score  class         x        y    width   height");
    for (size_t i = 0; i < n; i++) {
        const fovea_detection *d = &found->found[i];
        double b[4];
        char *text = cli_printable(run_label(r, d->label));
        cli_place_box(b, d, r->now.width, r->now.height);
        printf("  %.4f  %5u", (double)d->score, d->label);
        for (size_t k = 0; k < 4; k++)
            printf(" %8.1f", b[k]);
        printf("  %s\n", text);
        free(text);
    }
    if (n < all)
        printf("  %zu more boxes; --top %zu shows all\n", all - n, all);
}

static void describe(json_t *root, const run_state *r, const void *own)
{
    const boxes *b = own;
    json_t *list = json_array();
    for (size_t i = 0; i < b->count; i++) {
        json_t *box = record(r, &b->found[i]);
        json_object_set_new(box, "label", cli_json_text(run_label(r, b->found[i].label)));
        json_array_append_new(list, box);
    }
    json_object_set_new(root, "boxes", list);
}

static void draw(const draw_pen *p, const run_state *r, const void *own, const char *file)
{
    const boxes *found = own;
    size_t drawn = 0;
    for (size_t i = found->count; i-- > 0;) { /* in reverse order, so that the best box is on top */
        const fovea_detection *d = &found->found[i];
        double b[4];
        uint8_t rgb[3];
        if (!run_is_drawn(r, d->score))
            continue;
        cli_place_box(b, d, r->now.width, r->now.height);
        colour_of_instance(rgb, d->label);
        draw_box(p, b[0], b[1], b[0] + b[2], b[1] + b[3], rgb);
        run_write_label(p, r, b[0], b[1], rgb, d->label, d->score);
        drawn++;
    }
    run_tell_drawn(r, file, drawn, found->count, "boxes");
}

static size_t tensors(fovea_tensor *out, const run_state *r, const void *own)
{
    static const struct {
        const char *name;
        /* columns of the tensor; index of the member of a box for the first column */
        size_t columns, first;
    } parts[RUN_TENSORS] = {{"detections.boxes", 4, 0},
                            {"detections.scores", 1, 4},
                            {"detections.labels", 1, 5},
                            {"detections.image", 1, 6}};
    const boxes *b = own;
    (void)r;
    for (size_t k = 0; b->wanted && k < RUN_TENSORS; k++) {
        const size_t n = parts[k].columns;
        const uint64_t shape[2] = {b->kept, n};
        float *data = cli_alloc(b->kept * n + 1, sizeof *data);
        for (size_t i = 0; i < b->kept; i++) {
            const fovea_detection *d = &b->all[i].box;
            const float numbers[] = {
                d->x1, d->y1, d->x2, d->y2, d->score, (float)d->label, (float)b->all[i].frame};
            memcpy(data + i * n, numbers + parts[k].first, n * sizeof *data);
        }
        out[k] = cli_tensor(parts[k].name, data, n > 1 ? 2 : 1, shape);
    }
    return b->wanted ? RUN_TENSORS : 0;
}

static int finish(run_state *r, void *own)
{
    const boxes *b = own;
    return b->path ? run_save_coco(r, b->path, b->coco, "box", "boxes") : CLI_OK;
}

static void release(void *own)
{
    boxes *b = own;
    free(b->found);
    free(b->all);
    json_decref(b->coco);
}

const run_sink run_sink_boxes = {.size = sizeof(boxes),
                                 .place = 6,
                                 .options = options,
                                 .files = files,
                                 .check = check,
                                 .want = want,
                                 .take = take,
                                 .shows = shows,
                                 .print = print,
                                 .describe = describe,
                                 .draw = draw,
                                 .tensors = tensors,
                                 .finish = finish,
                                 .release = release};
