/* run_video.c: reads videos as inputs of `fovea run`. Each frame is run as soon as it is read, or
 * when its batch is complete. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/common/interrupt.h"
#include "cli/run/run_sink.h"

/* Refuses to draw on frames that are not in R, G, B. */
static int check_drawn(const run_state *r, const video *v)
{
    const char *drawn = run_needs_rgb(r);
    if (!drawn || v->of.ppm || v->layout.format == FOVEA_FORMAT_RGB8)
        return CLI_OK;
    return cli_fail(CLI_UNSUPPORTED,
                    "%s: --%s needs RGB frames: ffmpeg -v error -i VIDEO -f image2pipe -c:v ppm - "
                    "| fovea run MODEL - --raw ppm",
                    v->path, drawn);
}

static int run_next(run_state *r, video *v, bool *there)
{
    const int code = video_next(v, there);
    /* the last frame is incomplete because the interrupt also stopped its writer */
    if (code && code == interrupt_code()) {
        *there = false;
        return CLI_OK;
    }
    r->in.cut = code && v->frames > 0;
    if (code || !*there)
        return code;
    const run_source source = {v->frame, v->layout.format, v->yuv, v->of.width, v->of.height};
    const bool boxed = people_given(&r->in.people), split = r->in.split;
    if (split && source.format != FOVEA_FORMAT_RGB8)
        return cli_fail(
            CLI_UNSUPPORTED,
            "%s: parts can be cropped only from RGB frames; use --raw ppm, or --size WxH", v->path);
    CLI_TRY(boxed || split
                ? CLI_OK
                : run_plan_for(r, source.format, source.yuv, source.width, source.height));
    r->now.at.item = v->frames - 1;
    char *name = cli_text("%s[%llu]", v->path, (unsigned long long)r->now.at.item);
    const int ran = boxed   ? run_in_boxes(r, name, &source)
                    : split ? run_in_parts(r, name, &source)
                            : run_add_frame(r, name, &v->frame, v->bytes);
    free(name);
    return ran;
}

int run_video(run_state *r, const char *path)
{
    video v;
    bool there = true;
    const bool raw = r->in.raw_text && !run_is_y4m(path);
    CLI_TRY(video_open(&v, path, raw ? &r->in.raw : NULL, r->in.yuv));
    r->now.at.count = RUN_UNCOUNTED;
    r->now.at.rate = v.of.rate;
    int code = check_drawn(r, &v);
    /* stops if stdout cannot be written, for example to a closed pipe; main reports that error */
    while (!code && there && !ferror(stdout) && !interrupt_code())
        code = run_next(r, &v, &there);
    if (!code && v.frames == 0 && !interrupt_code())
        code = cli_fail(CLI_INPUT, "%s contains no frame", path);
    video_close(&v);
    return code;
}
