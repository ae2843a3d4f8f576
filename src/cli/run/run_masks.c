/* run_masks.c: writes masks of queries, or of objects that --point and --box mark: a picture of
 * mask numbers, or records in COCO's format, with pixels as run lengths. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/run_lengths.h"
#include "cli/run/run_sink.h"

enum { NUMBERS = 255 }; /* largest number of masks in a picture with one byte per pixel */

typedef struct masks {
    const char *path, *rule; /* arguments of --masks and --mask-rule; NULL if not given */
    bool wanted, detector;   /* detector: the model also finds boxes */
    bool marked;             /* the masks are those of marked objects, in this order */
    fovea_mask_options options;
    fovea_mask *found; /* masks of the current frame */
    size_t count;
    /* one value per pixel of the frame: 1 + the index of the pixel's mask, or 0 without a mask */
    uint16_t *map;
    json_t *coco;
} masks;

static bool is_coco(const masks *m)
{
    return m->path && cli_ends_with(m->path, ".json");
}

static size_t options(cli_option *out, run_state *r, void *own)
{
    masks *m = own;
    out[0] = (cli_option){
        "masks", 0, "FILE",
        "file for masks: a .png with the number of each pixel's mask, or a COCO .json", &m->path};
    out[1] = (cli_option){
        "mask-rule", 0, "NAME",
        "rule that chooses masks: panoptic or instance (default if the model finds boxes)",
        &m->rule};
    out[2] = (cli_option){"point",
                          0,
                          "X,Y[,LABEL[,OBJECT]]",
                          "point of an object whose mask SAM finds, in pixels; LABEL is 1 inside "
                          "(default) or 0 outside; repeat it for more points and objects",
                          &r->in.marks.points,
                          .again = true};
    return 3;
}

static size_t files(run_file *out, const run_state *r, const void *own)
{
    const masks *m = own;
    (void)r;
    out[0] = (run_file){"masks", m->path, !is_coco(m), false};
    return 1;
}

static int check(run_state *r, void *own)
{
    masks *m = own;
    m->coco = json_array();
    if (m->path && !is_coco(m) && !cli_ends_with(m->path, ".png"))
        return cli_fail(CLI_USAGE, "--masks %s: the file name must end with .png or .json",
                        m->path);
    m->options = (fovea_mask_options)FOVEA_MASK_OPTIONS_INIT;
    m->options.threshold = (float)r->score;
    if (m->rule && strcmp(m->rule, "instance") == 0)
        m->options.rule = FOVEA_MASKS_INSTANCE;
    else if (m->rule && strcmp(m->rule, "panoptic") != 0)
        return cli_fail(CLI_USAGE, "--mask-rule %s: it must be panoptic or instance", m->rule);
    return CLI_OK;
}

/* Requests the features from which masks of marked objects are made. */
static int want_marked(run_state *r, masks *m)
{
    if (m->rule)
        return cli_fail(CLI_USAGE, "--mask-rule is not possible with --point and --box");
    m->options.rule = FOVEA_MASKS_INSTANCE;
    const char *name;
    for (size_t i = 0; (name = fovea_model_prompt_output(r->s.model, i)); i++)
        run_want(r, name);
    return CLI_OK;
}

static int want(run_state *r, void *own)
{
    masks *m = own;
    static const char *const outputs[] = {"masks_queries_logits", "class_queries_logits",
                                          "pred_masks",           "pred_boxes",
                                          "pred_scores",          "logits"};
    m->detector = r->s.info.boxes > 0;
    m->marked = m->wanted = r->in.marks.objects > 0;
    if (m->marked)
        return want_marked(r, m);
    if (m->path && r->s.info.prompt_masks > 0)
        return cli_fail(CLI_USAGE, "--masks %s: mark the objects with --point X,Y or --box X,Y,W,H",
                        m->path);
    m->wanted = r->s.info.masks > 0 && (m->path || m->rule || (r->overlay && m->detector) ||
                                        (!run_writes(r) && !r->in.split));
    if (r->in.split && m->wanted)
        return cli_fail(CLI_UNSUPPORTED,
                        "--masks is not possible, because this model's image processor splits "
                        "pictures into parts and masks of parts cannot be merged; use --labels");
    if (m->path && !m->wanted)
        return cli_fail(CLI_UNSUPPORTED, "--masks %s: this model finds no masks", m->path);
    if (!m->rule && m->detector)
        m->options.rule = FOVEA_MASKS_INSTANCE;
    for (size_t i = 0; m->wanted && i < sizeof outputs / sizeof *outputs; i++)
        run_want(r, outputs[i]);
    return CLI_OK;
}

/* ---- records ---- */

/* Returns a mask in COCO's format, without its pixels and the picture. Marked objects have no
 * class, and are of COCO's first. */
static json_t *record(const masks *all, const fovea_mask *m)
{
    json_t *out = json_pack("{s:[f, f, f, f], s:f, s:i, s:I}", "bbox", (double)m->x1, (double)m->y1,
                            (double)m->x2 - (double)m->x1, (double)m->y2 - (double)m->y1, "score",
                            (double)m->score, "category_id", all->marked ? 1 : (int)m->label,
                            "area", (json_int_t)m->area);
    if (all->marked)
        json_object_set_new(out, "object", json_integer((json_int_t)m->query + 1));
    return out;
}

/* Returns the pixels of a mask as COCO's tools pack them. */
static json_t *segmentation(const uint8_t *inside, uint32_t width, uint32_t height)
{
    run_lengths lengths = run_lengths_of_pixels(inside, width, height);
    char *text = run_lengths_pack(&lengths);
    json_t *out = json_pack("{s:[i, i], s:s}", "size", (int)height, (int)width, "counts", text);
    free(text);
    run_lengths_free(&lengths);
    return out;
}

/* Finds the pixels of a mask. For instances, these include pixels that another mask covers. */
static int pixels_inside(uint8_t *inside, const run_state *r, const masks *m, size_t i)
{
    if (m->marked) {
        memcpy(inside, r->in.marks.inside + i * run_pixels(r), run_pixels(r));
        return CLI_OK;
    }
    if (m->options.rule == FOVEA_MASKS_INSTANCE)
        return cli_check(fovea_mask_pixels(r->plan, r->now.outs, r->n, m->found[i].query, inside,
                                           run_pixels(r)));
    for (size_t k = 0; k < run_pixels(r); k++)
        inside[k] = m->map[k] == i + 1;
    return CLI_OK;
}

static int add_records(run_state *r, masks *m)
{
    uint8_t *inside = cli_alloc(run_pixels(r), sizeof *inside);
    int code = CLI_OK;
    for (size_t i = 0; i < m->count && !code; i++) {
        json_t *mask = record(m, &m->found[i]);
        code = pixels_inside(inside, r, m, i);
        json_object_set_new(mask, "segmentation",
                            segmentation(inside, r->now.width, r->now.height));
        run_coco_picture(mask, r);
        json_array_append_new(m->coco, mask);
    }
    free(inside);
    return code;
}

/* Draws only the masks that the file `name` has numbers for. A mask that another one covers in
 * m->map may be visible here. */
static int draw_first(uint16_t *map, const run_state *r, const masks *m, const char *name)
{
    fovea_mask found[NUMBERS];
    size_t n;
    const int code = cli_check(fovea_masks(r->plan, r->now.outs, r->n, &m->options, found, NUMBERS,
                                           &n, map, run_pixels(r)));
    cli_tell("%s: a picture has numbers for %d masks; %zu more are left out, but --masks FILE.json "
             "holds all",
             name, NUMBERS, m->count - NUMBERS);
    return code;
}

static int write_numbers(run_state *r, const masks *m)
{
    const size_t n = m->count < NUMBERS ? m->count : NUMBERS;
    uint8_t palette[3 * (NUMBERS + 1)] = {0};
    uint8_t *index = cli_alloc(run_pixels(r), sizeof *index);
    uint16_t *map = cli_alloc(run_pixels(r), sizeof *map);
    char *name = run_picture_name(r, m->path, &r->now.at);
    int code = CLI_OK;
    memcpy(map, m->map, run_pixels(r) * sizeof *map);
    if (n < m->count)
        code = draw_first(map, r, m, name);
    for (size_t i = 0; i < n; i++)
        colour_of_instance(palette + 3 * (i + 1), i);
    for (size_t k = 0; k < run_pixels(r); k++)
        index[k] = (uint8_t)map[k];
    if (!code)
        code = cli_indices_write_png(name, index, r->now.width, r->now.height, palette,
                                     (uint32_t)n + 1);
    run_wrote(r, name);
    free(map);
    free(index);
    return code;
}

static int take(run_state *r, void *own)
{
    masks *m = own;
    if (!m->wanted)
        return CLI_OK;
    const size_t most = m->marked ? r->in.marks.objects : cli_most_masks(&r->s.info);
    if (!m->found)
        m->found = cli_alloc(most, sizeof *m->found);
    free(m->map);
    m->map = cli_alloc(run_pixels(r), sizeof *m->map);
    CLI_TRY(m->marked ? marks_find(&r->in.marks, r->plan, r->now.outs, r->n, r->score, m->found,
                                   &m->count, m->map, run_pixels(r))
                      : cli_check(fovea_masks(r->plan, r->now.outs, r->n, &m->options, m->found,
                                              most, &m->count, m->map, run_pixels(r))));
    if (!m->path)
        return CLI_OK;
    return is_coco(m) ? add_records(r, m) : write_numbers(r, m);
}

/* ---- shown ---- */

static bool shows(const run_state *r, const void *own)
{
    (void)r;
    return ((const masks *)own)->wanted;
}

/* Prints the box around each mask, in the format of boxes, and the mask's share of the
 * photograph. */
static void print(const run_state *r, const void *own)
{
    const masks *found = own;
    const size_t all = found->count, n = r->top < all ? r->top : all;
    if (all == 0 && found->marked) {
        puts("  no mask with such a score; a smaller --score P lowers the limit");
        return;
    }
    if (all == 0) {
        const bool half = found->detector || strcmp(r->s.info.type, "mask2former") == 0;
        const double usual = half ? 0.5 : 0.8;
        printf("  no mask with a score of at least %.2g; --score P lowers the limit\n",
               r->score > 0 ? r->score : usual);
        return;
    }
    printf("   score %s         x        y    width   height   share\n",
           found->marked ? "object" : " class");
    for (size_t i = 0; i < n; i++) {
        const fovea_mask *m = &found->found[i];
        char *text = found->marked ? NULL : cli_printable(run_label(r, m->label));
        printf("  %.4f  %5u %8.1f %8.1f %8.1f %8.1f  %.4f%s%s\n", (double)m->score,
               found->marked ? m->query + 1 : m->label, (double)m->x1, (double)m->y1,
               (double)m->x2 - (double)m->x1, (double)m->y2 - (double)m->y1,
               (double)m->area / ((double)r->now.width * r->now.height), text ? "  " : "",
               text ? text : "");
        free(text);
    }
    if (n < all)
        printf("  %zu more masks; --top %zu shows all\n", all - n, all);
}

static void describe(json_t *root, const run_state *r, const void *own)
{
    const masks *m = own;
    json_t *list = json_array();
    for (size_t i = 0; i < m->count; i++) {
        json_t *mask = record(m, &m->found[i]);
        if (!m->marked)
            json_object_set_new(mask, "label", cli_json_text(run_label(r, m->found[i].label)));
        json_array_append_new(list, mask);
    }
    json_object_set_new(root, "masks", list);
}

/* Returns whether another mask, or a pixel without a mask, is at most the width of a line away. */
static bool at_the_border(const run_state *r, const uint16_t *map, const draw_pen *p, uint32_t x,
                          uint32_t y)
{
    const uint16_t here = map[(size_t)y * r->now.width + x];
    for (uint32_t d = 1; d <= p->line; d++)
        if ((x >= d && map[(size_t)y * r->now.width + x - d] != here) ||
            (x + d < r->now.width && map[(size_t)y * r->now.width + x + d] != here) ||
            (y >= d && map[(size_t)(y - d) * r->now.width + x] != here) ||
            (y + d < r->now.height && map[(size_t)(y + d) * r->now.width + x] != here))
            return true;
    return false;
}

/* Finds the pixel of a mask that is nearest to the mask's centre of mass. */
static void middle(double at[2], const run_state *r, const uint16_t *map, size_t i)
{
    double sum[2] = {0}, n = 0, best = INFINITY;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t y = 0; y < r->now.height; y++)
            for (uint32_t x = 0; x < r->now.width; x++) {
                if (map[(size_t)y * r->now.width + x] != i + 1)
                    continue;
                const double away = hypot(x - sum[0] / n, y - sum[1] / n);
                if (pass == 0) {
                    sum[0] += x;
                    sum[1] += y;
                    n++;
                } else if (away < best) {
                    best = away;
                    at[0] = x;
                    at[1] = y;
                }
            }
}

/* Returns whether masks are drawn with labels. The boxes of a detector have labels already, and
 * marked objects have no class. */
static bool labelled(const masks *m)
{
    return !m->detector && !m->marked;
}

static void draw(const draw_pen *p, const run_state *r, const void *own, const char *file)
{
    const masks *found = own;
    (void)file;
    for (uint32_t y = 0; y < r->now.height; y++)
        for (uint32_t x = 0; x < r->now.width; x++) {
            const uint16_t mask = found->map[(size_t)y * r->now.width + x];
            uint8_t rgb[3];
            if (!mask)
                continue;
            colour_of_instance(rgb, mask - 1u);
            draw_blend(p->on, x, y, rgb, at_the_border(r, found->map, p, x, y) ? 1 : 0.5);
        }
    for (size_t i = 0; i < found->count && labelled(found); i++) {
        const fovea_mask *m = &found->found[i];
        uint8_t rgb[3];
        double at[2] = {(double)m->x1, (double)m->y1};
        middle(at, r, found->map, i);
        colour_of_instance(rgb, i);
        const double half = 0.5 * 6 * p->dot * 12; /* half the width of a usual label */
        run_write_label(p, r, at[0] - half, at[1] + 5.5 * p->dot, rgb, m->label, m->score);
    }
}

static int finish(run_state *r, void *own)
{
    const masks *m = own;
    return is_coco(m) ? run_save_coco(r, m->path, m->coco, "mask", "masks") : CLI_OK;
}

static void release(void *own)
{
    masks *m = own;
    free(m->found);
    free(m->map);
    json_decref(m->coco);
}

const run_sink run_sink_masks = {.size = sizeof(masks),
                                 .place = 5,
                                 .options = options,
                                 .files = files,
                                 .check = check,
                                 .want = want,
                                 .take = take,
                                 .shows = shows,
                                 .print = print,
                                 .describe = describe,
                                 .draw = draw,
                                 .finish = finish,
                                 .release = release};
