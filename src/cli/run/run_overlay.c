/* run_overlay.c: draws the results of a frame on the photograph; each sink draws its own. */
#include <stdlib.h>

#include "cli/run/run_sink.h"

/* Returns a label such as "cat 0.93", without characters that the font lacks. */
static char *caption(const run_state *r, uint32_t label, float score)
{
    const char *name = fovea_model_label(r->s.model, label);
    return name ? cli_text("%.40s %.2f", name, (double)score)
                : cli_text("class %u %.2f", label, (double)score);
}

void run_write_label(const draw_pen *p, const run_state *r, double x, double y,
                     const uint8_t rgb[3], uint32_t label, float score)
{
    char *text = caption(r, label, score);
    draw_label(p, x, y, rgb, text);
    free(text);
}

void run_tell_drawn(const run_state *r, const char *file, size_t drawn, size_t all,
                    const char *what)
{
    if (drawn < all)
        cli_tell("%s: %zu of %zu %s are drawn, which have a score of at least %.2g; --score sets "
                 "the limit",
                 file, drawn, all, what, r->score > 0 ? r->score : RUN_SCORE);
}

static size_t options(cli_option *out, run_state *r, void *own)
{
    (void)own;
    out[0] = (cli_option){
        "overlay", 0, "FILE",
        "picture with the results drawn on it, .png: classes, masks, depth, boxes, key points",
        &r->overlay};
    return 1;
}

static size_t files(run_file *out, const run_state *r, const void *own)
{
    (void)own;
    out[0] = (run_file){"overlay", r->overlay, true, false};
    return 1;
}

static int take(run_state *r, void *own)
{
    (void)own;
    if (!r->overlay || !run_draws(r))
        return CLI_OK;
    cli_image picture = {0};
    int code = run_photograph(&picture, r);
    char *name = run_picture_name(r, r->overlay, &r->now.at);
    if (!code) {
        const draw_pen pen = draw_pen_for(&picture);
        RUN_EACH(r, i, draw)
            if (r->sink[i]->shows(r, r->own[i]))
                r->sink[i]->draw(&pen, r, r->own[i], name);
    }
    CLI_THEN(code, cli_image_write_png(name, &picture));
    run_wrote(r, name);
    cli_image_free(&picture);
    return code;
}

const run_sink run_sink_overlay = {
    .place = 3, .options = options, .files = files, .take = take, .on_rgb = true};
