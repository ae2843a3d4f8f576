/* run_points.c: key points: found in the heat maps of a frame, and written as COCO has them, person
 * by person. */
#include <math.h>
#include <stdlib.h>

#include "cli/run/runner.h"

static json_t *box_json(const fovea_box *b)
{
    return json_pack("[f, f, f, f]", b->x, b->y, b->width, b->height);
}

static json_t *pose(const run_state *r, size_t i, const char *name)
{
    const run_points *p = &r->points;
    const fovea_keypoint *point = p->found + i * p->count;
    json_t *out = json_object(), *numbers = json_array();
    double sum = 0;
    for (size_t k = 0; k < p->count; k++) {
        json_array_append_new(numbers, json_real((double)point[k].x));
        json_array_append_new(numbers, json_real((double)point[k].y));
        json_array_append_new(numbers, json_real((double)point[k].score));
        sum += (double)point[k].score;
    }
    run_coco_picture(out, r, name);
    json_object_set_new(out, "category_id", json_integer(1));
    json_object_set_new(out, "bbox", box_json(&p->box[i].box));
    json_object_set_new(out, "keypoints", numbers);
    json_object_set_new(out, "num_keypoints", json_integer((json_int_t)p->count));
    json_object_set_new(out, "score", cli_json_number(sum / (double)p->count));
    return out;
}

/* Makes the arrays large enough for n people. */
static void reserve(run_state *r, size_t n)
{
    run_points *p = &r->points;
    p->people = n;
    p->count = r->s.info.keypoints;
    if (n <= p->capacity)
        return;
    free(p->found);
    free(p->box);
    p->capacity = n;
    p->found = cli_alloc(n * p->count, sizeof *p->found);
    p->box = cli_alloc(n, sizeof *p->box);
}

int run_find_points(run_state *r)
{
    run_points *p = &r->points;
    size_t count;
    if (!p->wanted)
        return CLI_OK;
    reserve(r, 1);
    p->box[0] = (people_box){{0, 0, r->width, r->height}, NAN};
    return cli_check(fovea_keypoints(r->plan, r->outs, r->n, p->found, p->count, &count));
}

void run_begin_points(run_state *r, size_t n)
{
    reserve(r, n);
    for (size_t i = 0; i < n; i++)
        r->points.box[i] = r->people.box[i];
}

int run_box_points(run_state *r, size_t i)
{
    run_points *p = &r->points;
    size_t count;
    return p->wanted ? cli_check(fovea_box_keypoints(r->plan, r->outs, r->n, &p->box[i].box,
                                                     p->found + i * p->count, p->count, &count))
                     : CLI_OK;
}

void run_write_points(run_state *r, const char *name)
{
    for (size_t i = 0; r->points.wanted && r->points.path && i < r->points.people; i++)
        json_array_append_new(r->points.coco, pose(r, i, name));
}

json_t *run_points_json(const run_state *r, size_t i)
{
    json_t *list = json_array();
    for (size_t k = 0; k < r->points.count; k++) {
        const fovea_keypoint *p = &r->points.found[i * r->points.count + k];
        const char *name = fovea_model_keypoint(r->s.model, (uint32_t)k);
        json_array_append_new(list, json_pack("{s:s, s:f, s:f, s:f}", "name", name ? name : "", "x",
                                              (double)p->x, "y", (double)p->y, "score",
                                              (double)p->score));
    }
    return list;
}

json_t *run_people_json(const run_state *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->points.people; i++) {
        const people_box *b = &r->points.box[i];
        json_t *person =
            json_pack("{s:o, s:o}", "box", box_json(&b->box), "keypoints", run_points_json(r, i));
        if (!isnan(b->score))
            json_object_set_new(person, "score", json_real(b->score));
        json_array_append_new(list, person);
    }
    return list;
}

void run_points_free(run_points *p)
{
    free(p->found);
    free(p->box);
    json_decref(p->coco);
}
