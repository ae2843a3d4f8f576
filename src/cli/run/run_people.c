/* run_people.c: runs the people of a picture, one after the other or in batches. The pose model
 * sees each person in a crop around the person's box. */
#include <stdlib.h>

#include "cli/common/interrupt.h"
#include "cli/run/run_sink.h"

int run_open_people(run_state *r)
{
    run_crops *c = &r->in.crops;
    r->in.people.least = r->score > 0 ? r->score : RUN_SCORE;
    CLI_TRY(people_open(&r->in.people));
    c->width = r->preprocess.resize_width;
    c->height = r->preprocess.resize_height;
    if (r->s.info.keypoints == 0)
        return people_given(&r->in.people)
                   ? cli_fail(CLI_UNSUPPORTED,
                              "--box and --people need a pose model, but this model is %s",
                              r->s.info.type)
                   : CLI_OK;
    if (!people_given(&r->in.people)) {
        if (r->preprocess.resize == FOVEA_RESIZE_BOX)
            cli_tell("neither --box nor --people is given: each whole picture is used as the box "
                     "of one person");
        return CLI_OK;
    }
    RUN_EACH(r, i, refuses_people)
        if (r->sink[i]->refuses_people(r, r->own[i]))
            return cli_fail(CLI_USAGE,
                            "--box and --people work only with --pose, --overlay, --json and -o");
    /* the crops have the model's size, and are only normalised */
    r->preprocess.resize = FOVEA_RESIZE_NONE;
    c->pixels = cli_alloc((size_t)r->in.batch * c->width * c->height, 3);
    return CLI_OK;
}

/* Runs the crops of `count` people from `first` on together, and finds their key points. */
static int run_some(run_state *r, size_t first, uint32_t count, const run_source *from,
                    double *seconds)
{
    const run_crops *c = &r->in.crops;
    const size_t bytes = (size_t)c->width * c->height * 3;
    fovea_frame *frame = cli_alloc(count, sizeof *frame);
    int code = CLI_OK;
    for (uint32_t i = 0; i < count && !code; i++) {
        uint8_t *crop = c->pixels + i * bytes;
        frame[i].pixels[0] = crop;
        code = cli_check(fovea_box_crop(&from->frame, from->format, from->yuv, from->width,
                                        from->height, &r->in.people.box[first + i].box, crop,
                                        c->width, c->height));
    }
    CLI_THEN(code, run_outputs(r, frame, count, seconds));
    for (uint32_t i = 0; i < count && !code; i++) {
        run_look(r, i);
        r->in.person = first + i;
        code = run_keep(r);
    }
    free(frame);
    return code;
}

static int run_each(run_state *r, const run_source *from, double *seconds)
{
    const size_t n = r->in.people.n;
    int code = CLI_OK;
    for (size_t i = 0; i < n && !code; i += r->in.batch) {
        const uint32_t count = n - i < r->in.batch ? (uint32_t)(n - i) : r->in.batch;
        double each = 0;
        code = run_some(r, i, count, from, &each);
        *seconds += each * count;
    }
    return code;
}

int run_in_boxes(run_state *r, const char *name, const run_source *from)
{
    const run_crops *c = &r->in.crops;
    double seconds = 0;
    CLI_TRY(run_together(r));
    CLI_TRY(run_plan_for(r, FOVEA_FORMAT_RGB8, FOVEA_YUV_601, c->width, c->height));
    people_in(&r->in.people, name, r->pictures);
    CLI_TRY(run_each(r, from, &seconds));
    /* results are shown and drawn for the whole picture */
    r->now.name = name;
    r->now.pixels = from->frame;
    r->now.width = from->width;
    r->now.height = from->height;
    return run_results(r, seconds);
}
