/* run_parts.c: runs a picture that the model's image processor splits into overlapping parts. It
 * runs all parts, and computes the classes of pixels from the masks of all parts together. */
#include <stdlib.h>
#include <string.h>

#include "cli/run/runner.h"

/* Runs the parts from `first` on. `kept` collects the outputs until all parts have run. */
static int run_some(run_state *r, fovea_output *kept, const fovea_frame *frame, size_t first,
                    size_t count, double *seconds)
{
    double each = 0;
    CLI_TRY(run_outputs(r, frame + first, (uint32_t)count, &each));
    *seconds += each * (double)count;
    for (size_t i = 0; i < count; i++) {
        run_look(r, (uint32_t)i);
        CLI_TRY(run_keep(r));
        for (size_t k = 0; k < r->n; k++)
            memcpy(kept[(first + i) * r->n + k].data, r->now.outs[k].data, r->now.outs[k].size);
    }
    return CLI_OK;
}

static int run_all(run_state *r, fovea_parts *parts, const run_source *from, size_t count,
                   uint16_t *map, double *seconds)
{
    fovea_frame *frame = cli_alloc(count, sizeof *frame);
    fovea_output *kept = cli_alloc(count * r->n, sizeof *kept);
    for (size_t i = 0; i < count * r->n; i++)
        kept[i] = (fovea_output){cli_alloc(r->every[i % r->n].size, 1), r->every[i % r->n].size};
    int code = cli_check(fovea_parts_cut(parts, &from->frame, frame, count));
    for (size_t i = 0; i < count && !code; i += r->in.batch)
        code =
            run_some(r, kept, frame, i, count - i < r->in.batch ? count - i : r->in.batch, seconds);
    if (!code)
        code = cli_check(fovea_parts_class_map(parts, kept, count * r->n, map,
                                               (size_t)from->width * from->height));
    for (size_t i = 0; i < count * r->n; i++)
        free(kept[i].data);
    free(kept);
    free(frame);
    return code;
}

int run_in_parts(run_state *r, const char *name, const run_source *from)
{
    fovea_parts_info info = FOVEA_PARTS_INFO_INIT;
    fovea_parts *parts;
    double seconds = 0;
    CLI_TRY(run_together(r));
    CLI_TRY(cli_check(fovea_parts_describe(&r->in.rule, from->width, from->height, &info)));
    CLI_TRY(run_plan_for(r, FOVEA_FORMAT_RGB8, FOVEA_YUV_601, info.width, info.height));
    CLI_TRY(cli_check(fovea_parts_create(&parts, r->plan, &r->in.rule, from->width, from->height)));
    uint16_t *map = cli_alloc((size_t)from->width * from->height, sizeof *map);
    int code = run_all(r, parts, from, info.count, map, &seconds);
    fovea_parts_free(parts);
    /* results are shown for the whole picture */
    r->now.name = name;
    r->now.pixels = from->frame;
    r->now.width = from->width;
    r->now.height = from->height;
    r->now.parts = map;
    CLI_THEN(code, run_results(r, seconds));
    r->now.parts = NULL;
    free(map);
    return code;
}
