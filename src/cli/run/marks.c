/* marks.c: see marks.h. */
#include "cli/run/marks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run/people.h"

/* ---- the objects ---- */

/* Returns the object with this number, from 1. */
static marks_object *object_of(marks *p, size_t number)
{
    while (p->objects < number) {
        p->object = cli_grow(p->object, p->objects, sizeof *p->object);
        p->object[p->objects++] = (marks_object){0};
    }
    return &p->object[number - 1];
}

static int parse_point(marks *p, const char *text)
{
    fovea_prompt_point at = {.label = 1};
    unsigned number = 1;
    int ends[3] = {0};
    sscanf(text, "%lf,%lf%n,%d%n,%u%n", &at.x, &at.y, &ends[0], &at.label, &ends[1], &number,
           &ends[2]);
    const int end = ends[2] ? ends[2] : ends[1] ? ends[1] : ends[0];
    if (!end || text[end] || at.label < -1 || at.label > 1 || number < 1 || number > MARKS_OBJECTS)
        return cli_fail(CLI_USAGE,
                        "--point %s: it must be X,Y[,LABEL[,OBJECT]]: pixels; 1 for a point inside "
                        "the object, 0 outside; the object's number, from 1 to %d",
                        text, MARKS_OBJECTS);
    marks_object *o = object_of(p, number);
    o->point = cli_grow(o->point, o->points, sizeof *o->point);
    o->point[o->points++] = at;
    return CLI_OK;
}

int marks_parse(marks *p)
{
    if (p->boxes.n > MARKS_OBJECTS)
        return cli_fail(CLI_USAGE, "--box is given %zu times; at most %d objects are possible",
                        p->boxes.n, MARKS_OBJECTS);
    for (size_t i = 0; i < p->boxes.n; i++) {
        marks_object *o = object_of(p, i + 1);
        CLI_TRY(people_parse_box(&o->box, p->boxes.text[i]));
        o->boxed = true;
    }
    for (size_t i = 0; i < p->points.n; i++)
        CLI_TRY(parse_point(p, p->points.text[i]));
    for (size_t i = 0; i < p->objects; i++)
        if (!p->object[i].points && !p->object[i].boxed)
            return cli_fail(CLI_USAGE, "object %zu has neither a --point nor a --box", i + 1);
    return CLI_OK;
}

/* ---- masks ---- */

/* Allocates the memory of a segmenter's outputs. */
static void make_outputs(marks *p)
{
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    for (size_t i = 0; fovea_plan_output(fovea_segmenter_plan(p->segmenter), i, &info); i++) {
        p->out[i].size = (size_t)info.rows * info.columns * sizeof(float);
        p->out[i].data = cli_alloc(p->out[i].size, 1);
    }
}

static int make_segmenter(marks *p, const fovea_plan *plan)
{
    fovea_segmenter_options options = FOVEA_SEGMENTER_OPTIONS_INIT;
    for (size_t i = 0; i < p->objects; i++)
        if (p->object[i].points > options.points)
            options.points = (uint32_t)p->object[i].points;
    CLI_TRY(cli_check(fovea_segmenter_create(&p->segmenter, plan, &options)));
    make_outputs(p);
    return CLI_OK;
}

static int find(marks *p, const marks_object *o, fovea_mask *found, uint8_t *inside, size_t pixels)
{
    const fovea_prompt prompt = {o->point, o->points, o->boxed ? &o->box : NULL};
    uint32_t index;
    CLI_TRY(cli_check(fovea_segmenter_run(p->segmenter, &prompt, p->out, 2)));
    /* a single point may mean a whole object or a part of it */
    CLI_TRY(cli_check(
        fovea_segmenter_choose(p->segmenter, p->out, 2, o->points == 1 && !o->boxed, &index)));
    return cli_check(fovea_segmenter_mask(p->segmenter, p->out, 2, index, found, inside, pixels));
}

int marks_find(marks *p, const fovea_plan *plan, const fovea_output *outs, size_t n_outs,
               double least, fovea_mask *found, size_t *count, uint16_t *map, size_t pixels)
{
    *count = 0;
    free(p->inside);
    p->inside = cli_alloc(p->objects, pixels);
    memset(map, 0, pixels * sizeof *map);
    if (!p->segmenter)
        CLI_TRY(make_segmenter(p, plan));
    CLI_TRY(cli_check(fovea_segmenter_begin(p->segmenter, outs, n_outs)));
    for (size_t i = 0; i < p->objects; i++) {
        uint8_t *inside = p->inside + *count * pixels;
        fovea_mask *mask = &found[*count];
        CLI_TRY(find(p, &p->object[i], mask, inside, pixels));
        if ((double)mask->score < least)
            continue;
        mask->query = (uint32_t)i;
        ++*count;
        for (size_t k = 0; k < pixels; k++)
            map[k] = inside[k] ? (uint16_t)*count : map[k];
    }
    return CLI_OK;
}

void marks_end(marks *p)
{
    fovea_segmenter_free(p->segmenter);
    p->segmenter = NULL;
    for (size_t i = 0; i < 2; i++) {
        free(p->out[i].data);
        p->out[i].data = NULL;
    }
}

void marks_free(marks *p)
{
    marks_end(p);
    for (size_t i = 0; i < p->objects; i++)
        free(p->object[i].point);
    free(p->object);
    free(p->inside);
    free(p->points.text);
    free(p->boxes.text);
}
