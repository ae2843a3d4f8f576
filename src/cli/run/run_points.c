/* run_points.c: key points: found in the heat maps of a frame, and written as COCO has them. */
#include <stdlib.h>

#include "cli/run/runner.h"

static json_t *pose(const run_state *r, const char *name)
{
    const run_points *p = &r->points;
    json_t *out = json_object(), *numbers = json_array();
    double sum = 0;
    for (size_t k = 0; k < p->count; k++) {
        json_array_append_new(numbers, json_real((double)p->found[k].x));
        json_array_append_new(numbers, json_real((double)p->found[k].y));
        json_array_append_new(numbers, json_real((double)p->found[k].score));
        sum += (double)p->found[k].score;
    }
    run_coco_picture(out, r, name);
    json_object_set_new(out, "category_id", json_integer(1));
    json_object_set_new(out, "keypoints", numbers);
    json_object_set_new(out, "num_keypoints", json_integer((json_int_t)p->count));
    json_object_set_new(out, "score", cli_json_number(sum / (double)p->count));
    return out;
}

int run_find_points(run_state *r, const char *name)
{
    run_points *p = &r->points;
    const size_t room = r->s.info.keypoints;
    if (!p->wanted)
        return CLI_OK;
    if (!p->found)
        p->found = cli_alloc(room, sizeof *p->found);
    CLI_TRY(cli_check(fovea_keypoints(r->plan, r->outs, r->n, p->found, room, &p->count)));
    if (p->path)
        json_array_append_new(p->coco, pose(r, name));
    return CLI_OK;
}

json_t *run_points_json(const run_state *r)
{
    json_t *list = json_array();
    for (size_t k = 0; k < r->points.count; k++) {
        const fovea_keypoint *p = &r->points.found[k];
        const char *name = fovea_model_keypoint(r->s.model, (uint32_t)k);
        json_array_append_new(list, json_pack("{s:s, s:f, s:f, s:f}", "name", name ? name : "", "x",
                                              (double)p->x, "y", (double)p->y, "score",
                                              (double)p->score));
    }
    return list;
}

void run_points_free(run_points *p)
{
    free(p->found);
    json_decref(p->coco);
}
