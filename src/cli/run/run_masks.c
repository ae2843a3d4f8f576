/* run_masks.c: masks of a segmenter: a picture of their numbers, or records as COCO has them, with
 * their pixels in run lengths. */
#include <stdlib.h>
#include <string.h>

#include "cli/run/runner.h"

enum { MASKS = 255 }; /* a picture of numbers has no more */

/* ---- run lengths, as COCO's tools pack them ---- */

typedef struct packed_runs {
    char *text;
    size_t used;
    long before[2]; /* the last two runs: a run is encoded as the difference from the one two before
                     */
    size_t runs;
} packed_runs;

/* Five bits a letter, from the lowest on; the sixth says that more follow. */
static void add_run(packed_runs *p, long length)
{
    long x = p->runs > 2 ? length - p->before[p->runs % 2] : length;
    bool more = true;
    while (more) {
        const int bits = (int)(x & 31);
        x >>= 5;
        more = bits & 16 ? x != -1 : x != 0;
        p->text = cli_grow(p->text, p->used, sizeof *p->text);
        p->text[p->used++] = (char)(48 + (bits | (more ? 32 : 0)));
    }
    p->before[p->runs++ % 2] = length;
}

/* Column by column, beginning with pixels that are outside. */
static json_t *run_lengths(const uint8_t *inside, uint32_t width, uint32_t height)
{
    packed_runs p = {0};
    long length = 0;
    uint8_t now = 0;
    for (uint32_t x = 0; x < width; x++)
        for (uint32_t y = 0; y < height; y++, length++)
            if (inside[(size_t)y * width + x] != now) {
                add_run(&p, length);
                length = 0;
                now = !now;
            }
    add_run(&p, length);
    json_t *out = json_pack("{s:[i, i], s:s#}", "size", (int)height, (int)width, "counts", p.text,
                            (int)p.used);
    free(p.text);
    return out;
}

/* ---- records ---- */

json_t *run_mask_json(const run_state *r, size_t i)
{
    const fovea_mask *m = &r->masks.found[i];
    return json_pack("{s:[f, f, f, f], s:f, s:i, s:I}", "bbox", (double)m->x1, (double)m->y1,
                     (double)m->x2 - (double)m->x1, (double)m->y2 - (double)m->y1, "score",
                     (double)m->score, "category_id", (int)m->label, "area", (json_int_t)m->area);
}

/* A mask's own pixels: of instances also those that another one covers. */
static int pixels_inside(uint8_t *inside, const run_state *r, size_t i)
{
    const run_masks *m = &r->masks;
    if (m->options.rule == FOVEA_MASKS_INSTANCE)
        return cli_check(
            fovea_mask_pixels(r->plan, r->outs, r->n, m->found[i].query, inside, run_pixels(r)));
    for (size_t k = 0; k < run_pixels(r); k++)
        inside[k] = m->map[k] == i + 1;
    return CLI_OK;
}

static int add_records(run_state *r, const char *name)
{
    uint8_t *inside = cli_alloc(run_pixels(r), sizeof *inside);
    int code = CLI_OK;
    for (size_t i = 0; i < r->masks.count && !code; i++) {
        json_t *mask = run_mask_json(r, i);
        code = pixels_inside(inside, r, i);
        json_object_set_new(mask, "segmentation", run_lengths(inside, r->width, r->height));
        run_coco_picture(mask, r, name);
        json_array_append_new(r->masks.coco, mask);
    }
    free(inside);
    return code;
}

static int write_numbers(run_state *r, const char *input)
{
    uint8_t palette[3 * (MASKS + 1)] = {0};
    uint8_t *index = cli_alloc(run_pixels(r), sizeof *index);
    for (size_t i = 0; i < r->masks.count; i++)
        colour_of_instance(palette + 3 * (i + 1), i);
    for (size_t k = 0; k < run_pixels(r); k++)
        index[k] = (uint8_t)r->masks.map[k];
    char *name = run_picture_name(r, r->masks.path, input);
    const int code = cli_indices_write_png(name, index, r->width, r->height, palette,
                                           (uint32_t)r->masks.count + 1);
    run_wrote(r, name);
    free(index);
    return code;
}

int run_find_masks(run_state *r, const char *input, const char *name)
{
    run_masks *m = &r->masks;
    if (!m->wanted)
        return CLI_OK;
    if (!m->found)
        m->found = cli_alloc(MASKS, sizeof *m->found);
    free(m->map);
    m->map = cli_alloc(run_pixels(r), sizeof *m->map);
    CLI_TRY(cli_check(fovea_masks(r->plan, r->outs, r->n, &m->options, m->found, MASKS, &m->count,
                                  m->map, run_pixels(r))));
    if (!m->path)
        return CLI_OK;
    return cli_ends_with(m->path, ".json") ? add_records(r, name) : write_numbers(r, input);
}

void run_masks_free(run_masks *m)
{
    free(m->found);
    free(m->map);
    json_decref(m->coco);
}
