/* run_points.c: finds key points in the heat maps of a frame, and writes them in COCO's format, one
 * record per person. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/run/run_sink.h"

typedef struct points {
    const char *path; /* argument of --pose, or NULL */
    bool wanted;
    fovea_keypoint *found; /* key points of the current picture: `count` points for each person */
    people_box *box;       /* boxes of these persons */
    size_t people, capacity, count;
    json_t *coco;
} points;

static size_t options(cli_option *out, run_state *r, void *own)
{
    points *p = own;
    people *of = &r->in.people;
    out[0] = (cli_option){"pose", 0, "FILE", "COCO file (.json) for key points", &p->path};
    out[1] = (cli_option){"box",
                          0,
                          "X,Y,W,H",
                          "box of a person in each picture, in pixels: upper left corner and size; "
                          "repeat it for several people. For SAM: box of an object",
                          &of->given,
                          .again = true};
    out[2] =
        (cli_option){"people", 0, "FILE",
                     "COCO file (.json) with boxes of people, as --boxes writes it", &of->path};
    out[3] = (cli_option){"person", 0, "NAME|ID",
                          "category of a person in the file of --people (default: person, else 1)",
                          &of->category};
    return 4;
}

static size_t files(run_file *out, const run_state *r, const void *own)
{
    (void)r;
    out[0] = (run_file){"pose", ((const points *)own)->path, false, false};
    return 1;
}

static int check(run_state *r, void *own)
{
    points *p = own;
    (void)r;
    p->coco = json_array();
    if (p->path && !cli_ends_with(p->path, ".json"))
        return cli_fail(CLI_USAGE, "--pose %s: the file name must end with .json", p->path);
    return CLI_OK;
}

static int want(run_state *r, void *own)
{
    points *p = own;
    p->count = r->s.info.keypoints;
    p->wanted = p->count > 0 && (p->path || r->overlay || !run_writes(r));
    if (p->path && !p->wanted)
        return cli_fail(CLI_UNSUPPORTED, "--pose %s: this model finds no key points", p->path);
    if (p->wanted)
        run_want(r, "heatmaps");
    return CLI_OK;
}

/* ---- a picture ---- */

static json_t *box_json(const fovea_box *b)
{
    return json_pack("[f, f, f, f]", b->x, b->y, b->width, b->height);
}

static json_t *pose(const run_state *r, const points *p, size_t i)
{
    const fovea_keypoint *point = p->found + i * p->count;
    json_t *out = json_object(), *numbers = json_array();
    double sum = 0;
    for (size_t k = 0; k < p->count; k++) {
        json_array_append_new(numbers, json_real((double)point[k].x));
        json_array_append_new(numbers, json_real((double)point[k].y));
        json_array_append_new(numbers, json_real((double)point[k].score));
        sum += (double)point[k].score;
    }
    run_coco_picture(out, r);
    json_object_set_new(out, "category_id", json_integer(1));
    json_object_set_new(out, "bbox", box_json(&p->box[i].box));
    json_object_set_new(out, "keypoints", numbers);
    json_object_set_new(out, "num_keypoints", json_integer((json_int_t)p->count));
    json_object_set_new(out, "score", cli_json_number(sum / (double)p->count));
    return out;
}

static void reserve(points *p, size_t n)
{
    p->people = n;
    if (n <= p->capacity)
        return;
    free(p->found);
    free(p->box);
    p->capacity = n;
    p->found = cli_alloc(n * p->count, sizeof *p->found);
    p->box = cli_alloc(n, sizeof *p->box);
}

/* Keeps the key points of a person whose crop was run. */
static int keep(run_state *r, void *own)
{
    points *p = own;
    const people *of = &r->in.people;
    const size_t i = r->in.person;
    size_t count;
    if (!p->wanted || !people_given(of))
        return CLI_OK;
    if (i == 0)
        reserve(p, of->n);
    p->box[i] = of->box[i];
    return cli_check(fovea_box_keypoints(r->plan, r->now.outs, r->n, &p->box[i].box,
                                         p->found + i * p->count, p->count, &count));
}

/* Finds the key points of one person, unless crops were run. */
static int find(run_state *r, points *p)
{
    size_t count;
    reserve(p, 1);
    p->box[0] = (people_box){{0, 0, r->now.width, r->now.height}, NAN};
    return cli_check(fovea_keypoints(r->plan, r->now.outs, r->n, p->found, p->count, &count));
}

static int take(run_state *r, void *own)
{
    points *p = own;
    if (!p->wanted)
        return CLI_OK;
    if (people_given(&r->in.people))
        p->people = r->in.people.n;
    else
        CLI_TRY(find(r, p));
    for (size_t i = 0; p->path && i < p->people; i++)
        json_array_append_new(p->coco, pose(r, p, i));
    return CLI_OK;
}

/* ---- shown ---- */

static bool shows(const run_state *r, const void *own)
{
    (void)r;
    return ((const points *)own)->wanted;
}

static void print(const run_state *r, const void *own)
{
    const points *f = own;
    for (size_t i = 0; i < f->people; i++) {
        const fovea_box *b = &f->box[i].box;
        if (people_given(&r->in.people))
            printf("  person %zu of %zu, box %.1f,%.1f,%.1f,%.1f\n", i + 1, f->people, b->x, b->y,
                   b->width, b->height);
        puts("   score         x        y");
        for (size_t k = 0; k < f->count; k++) {
            const fovea_keypoint *p = &f->found[i * f->count + k];
            const char *name = fovea_model_keypoint(r->s.model, (uint32_t)k);
            printf("  %.4f  %8.1f %8.1f  %s\n", (double)p->score, (double)p->x, (double)p->y,
                   name ? name : "");
        }
    }
    if (f->people == 0)
        puts("  no box of a person");
}

static json_t *points_of(const run_state *r, const points *f, size_t i)
{
    json_t *list = json_array();
    for (size_t k = 0; k < f->count; k++) {
        const fovea_keypoint *p = &f->found[i * f->count + k];
        const char *name = fovea_model_keypoint(r->s.model, (uint32_t)k);
        json_array_append_new(list, json_pack("{s:s, s:f, s:f, s:f}", "name", name ? name : "", "x",
                                              (double)p->x, "y", (double)p->y, "score",
                                              (double)p->score));
    }
    return list;
}

static void describe(json_t *root, const run_state *r, const void *own)
{
    const points *p = own;
    json_t *list = json_array();
    for (size_t i = 0; i < p->people; i++) {
        const people_box *b = &p->box[i];
        json_t *person =
            json_pack("{s:o, s:o}", "box", box_json(&b->box), "keypoints", points_of(r, p, i));
        if (!isnan(b->score))
            json_object_set_new(person, "score", json_real(b->score));
        json_array_append_new(list, person);
    }
    json_object_set_new(root, "people", list);
    if (!people_given(&r->in.people))
        json_object_set_new(root, "keypoints", points_of(r, p, 0));
}

/* Pairs of COCO's 17 points to connect with lines: legs and hips, trunk, arms, head. */
static const uint8_t bones[][2] = {{15, 13}, {13, 11}, {16, 14}, {14, 12}, {11, 12}, {5, 11},
                                   {6, 12},  {5, 6},   {5, 7},   {7, 9},   {6, 8},   {8, 10},
                                   {1, 2},   {0, 1},   {0, 2},   {1, 3},   {2, 4}};
enum { PEOPLE = 17 };

/* Draws one person, and returns the number of points drawn. */
static size_t draw_pose(const draw_pen *p, const run_state *r, const fovea_keypoint *found,
                        size_t count)
{
    size_t drawn = 0;
    uint8_t rgb[3];
    for (size_t i = 0; count == PEOPLE && i < sizeof bones / sizeof *bones; i++) {
        const fovea_keypoint *a = &found[bones[i][0]], *b = &found[bones[i][1]];
        if (!run_is_drawn(r, a->score) || !run_is_drawn(r, b->score))
            continue;
        colour_of_instance(rgb, i);
        const draw_pen thick = {p->on, 2 * p->line, p->dot};
        draw_line(&thick, (double)a->x, (double)a->y, (double)b->x, (double)b->y, rgb);
    }
    for (size_t k = 0; k < count; k++) {
        if (!run_is_drawn(r, found[k].score))
            continue;
        colour_of_instance(rgb, k);
        draw_disc(p, (double)found[k].x, (double)found[k].y, 2.0 * p->line, rgb);
        drawn++;
    }
    return drawn;
}

static void draw(const draw_pen *p, const run_state *r, const void *own, const char *file)
{
    const points *f = own;
    size_t drawn = 0;
    for (size_t i = 0; i < f->people; i++)
        drawn += draw_pose(p, r, f->found + i * f->count, f->count);
    run_tell_drawn(r, file, drawn, f->people * f->count, "key points");
}

static int finish(run_state *r, void *own)
{
    const points *p = own;
    return p->path ? run_save_coco(r, p->path, p->coco, "pose", "poses") : CLI_OK;
}

static void release(void *own)
{
    points *p = own;
    free(p->found);
    free(p->box);
    json_decref(p->coco);
}

const run_sink run_sink_points = {.size = sizeof(points),
                                  .place = 7,
                                  .options = options,
                                  .files = files,
                                  .check = check,
                                  .want = want,
                                  .keep = keep,
                                  .take = take,
                                  .shows = shows,
                                  .print = print,
                                  .describe = describe,
                                  .draw = draw,
                                  .finish = finish,
                                  .release = release};
