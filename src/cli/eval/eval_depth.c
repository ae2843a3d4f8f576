/* eval_depth.c: depth: errors against depth pictures, at their own resolution. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/eval/eval.h"

static const char images[] = "images", depths[] = "depth";

static char *folder_in(const char *path, const char *name)
{
    struct stat st;
    char *folder = cli_text("%s/%s", path, name);
    if (stat(folder, &st) == 0 && S_ISDIR(st.st_mode))
        return folder;
    free(folder);
    return NULL;
}

char *eval_depth_pictures(const char *path)
{
    char *truth = folder_in(path, depths), *pictures = truth ? folder_in(path, images) : NULL;
    free(truth);
    return pictures;
}

static int begin(eval_run *r)
{
    return eval_want(r, "predicted_depth")
               ? CLI_OK
               : cli_fail(CLI_UNSUPPORTED, "%s: gives no depth; --against MODEL2 compares features",
                          r->path);
}

/* DIR/depth/NAME.png of DIR/images/NAME.jpg. To be freed. */
static char *truth_of(const eval_run *r, size_t index)
{
    const char *name = cli_file_name(r->data.file[index].path), *dot = strrchr(name, '.');
    return cli_text("%s/%s/%.*s.png", r->data_path, depths, (int)(dot - name), name);
}

/* Where the middle of cell 0 of the output and one cell further are, along one side of a depth
 * picture of `pixels`, which shows what the frame of `frame` pixels does. */
typedef struct axis {
    double from, step; /* cells = from + step * pixel */
} axis;

static axis axis_of(uint32_t pixels, uint32_t frame, double left, double covered, uint32_t cells)
{
    const double per = cells / covered, scale = (double)frame / pixels;
    return (axis){(0.5 * scale - left) * per - 0.5, scale * per};
}

/* Pixels whose depth is known and seen: found and true values. */
static size_t gather(double *found, double *truth, const eval_run *r, const eval_runner *run,
                     const cli_image *map)
{
    const fovea_plan_info *v = &run->info;
    const uint32_t columns = run->out.grid_width, rows = run->out.grid_height;
    const axis x = axis_of(map->width, run->width, v->left, v->scale_x * v->width, columns);
    const axis y = axis_of(map->height, run->height, v->top, v->scale_y * v->height, rows);
    const float *data = eval_patches(run);
    const uint16_t *depth = (const uint16_t *)(const void *)map->rgb;
    double *grid = cli_alloc((size_t)columns * rows, sizeof *grid);
    size_t n = 0;
    for (size_t i = 0; i < (size_t)columns * rows; i++)
        grid[i] = data[i];
    for (uint32_t j = 0; j < map->height; j++)
        for (uint32_t i = 0; i < map->width; i++) {
            const uint16_t unit = depth[(size_t)j * map->width + i];
            const double at_x = x.from + x.step * i, at_y = y.from + y.step * j;
            if (unit == 0 || at_x < -0.5 || at_y < -0.5 || at_x > columns - 0.5 ||
                at_y > rows - 0.5)
                continue;
            truth[n] = unit / r->depth_scale;
            found[n++] = cli_sample(grid, columns, rows, at_x, at_y);
        }
    free(grid);
    return n;
}

static int compare(json_t *record, const eval_run *r, const eval_runner *run, const cli_image *map,
                   const char *path)
{
    const size_t room = (size_t)map->width * map->height;
    double *found = cli_alloc(2 * room, sizeof *found), *truth = found + room;
    const size_t n = gather(found, truth, r, run, map);
    if (n > 0) {
        depth_align(found, truth, n, r->align);
        const depth_errors e = depth_compare(found, truth, n);
        json_object_set_new(record, "abs_rel", cli_json_number(e.abs_rel));
        json_object_set_new(record, "rmse", cli_json_number(e.rmse));
        json_object_set_new(record, "delta1", json_real(e.delta1));
    }
    free(found);
    return n > 0 ? CLI_OK : cli_fail(EVAL_SKIP, "%s: holds no depth that is seen", path);
}

static int measure(json_t *record, eval_run *r, eval_case *c, const dataset_picture *p,
                   size_t index)
{
    cli_image map;
    (void)p;
    if (c->run.out.columns != 1 || c->run.out.grid_width == 0)
        return cli_fail(CLI_UNSUPPORTED, "%s: its depth is no picture", r->path);
    char *path = truth_of(r, index);
    int code = cli_depth_read(&map, path) ? EVAL_SKIP : CLI_OK;
    if (!code) {
        code = compare(record, r, &c->run, &map, path);
        cli_image_free(&map);
    }
    free(path);
    return code;
}

static json_t *metrics(const eval_run *r, const json_t *records)
{
    (void)r;
    return json_pack("{s:o, s:o, s:o}", "abs_rel", cli_json_number(eval_mean(records, "abs_rel")),
                     "rmse", cli_json_number(eval_mean(records, "rmse")), "delta1",
                     cli_json_number(eval_mean(records, "delta1")));
}

static double first_metric(const json_t *result)
{
    return eval_metric(result, "abs_rel");
}

static const eval_column columns[] = {{"abs_rel", "AbsRel", first_metric},
                                      {"rmse", "RMSE m", NULL},
                                      {"delta1", "delta1", NULL},
                                      {NULL}};
const eval_task eval_depth = {"depth", columns, begin, measure, metrics};
