/* run_boxes.c: boxes of a detector: found in the outputs of a frame, kept for the file of -o, and
 * written as COCO has them, in pixels of the photograph. */
#include <stdlib.h>
#include <string.h>

#include "cli/run/runner.h"

/* A box in pixels of the picture that was run, as the file of -o has them. */
static fovea_detection in_run_pixels(const fovea_detection *d, const fovea_plan_info *i)
{
    fovea_detection out = *d;
    out.x1 = (float)(((double)d->x1 - i->left) / i->scale_x);
    out.y1 = (float)(((double)d->y1 - i->top) / i->scale_y);
    out.x2 = (float)(((double)d->x2 - i->left) / i->scale_x);
    out.y2 = (float)(((double)d->y2 - i->top) / i->scale_y);
    return out;
}

int run_detect(run_state *r, const char *name)
{
    run_boxes *b = &r->boxes;
    if (!b->wanted)
        return CLI_OK;
    if (!b->found)
        b->found = cli_alloc(r->s.info.boxes, sizeof *b->found);
    int code =
        cli_check(fovea_detections(r->plan, r->outs, r->n, b->found, r->s.info.boxes, &b->count));
    for (size_t i = 0; !code && i < b->count; i++) {
        if (r->output) {
            b->all = cli_grow(b->all, b->kept, sizeof *b->all);
            b->all[b->kept++] = (run_box){in_run_pixels(&b->found[i], &r->info), r->frames};
        }
        if (!b->path)
            continue;
        json_t *box = run_box_json(r, i);
        const char *label = fovea_model_label(r->s.model, b->found[i].label);
        run_coco_picture(box, r, name);
        if (label)
            json_object_set_new(box, "label", cli_json_text(label));
        json_array_append_new(b->coco, box);
    }
    return code;
}

json_t *run_box_json(const run_state *r, size_t i)
{
    const fovea_detection *d = &r->boxes.found[i];
    double b[4];
    cli_place_box(b, d, r->width, r->height);
    return json_pack("{s:[f, f, f, f], s:f, s:i}", "bbox", b[0], b[1], b[2], b[3], "score",
                     (double)d->score, "category_id", (int)d->label);
}

size_t run_box_tensors(const run_state *r, fovea_tensor out[RUN_BOX_TENSORS])
{
    static const struct {
        const char *name;
        size_t columns, first; /* of the numbers of a box */
    } parts[RUN_BOX_TENSORS] = {{"detections.boxes", 4, 0},
                                {"detections.scores", 1, 4},
                                {"detections.labels", 1, 5},
                                {"detections.image", 1, 6}};
    const run_boxes *b = &r->boxes;
    for (size_t k = 0; b->wanted && k < RUN_BOX_TENSORS; k++) {
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
    return b->wanted ? RUN_BOX_TENSORS : 0;
}

void run_boxes_free(run_boxes *b)
{
    free(b->found);
    free(b->all);
    json_decref(b->coco);
}
