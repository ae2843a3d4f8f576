/* run_results.c: computes the results of the current frame, sink by sink. */
#include <stdlib.h>
#include <string.h>

#include "cli/run/run_sink.h"

static float *append(float *all, const float *frame, size_t count, size_t frames)
{
    float *more = realloc(all, (frames + 1) * count * sizeof *more);
    if (!more)
        exit(cli_fail(CLI_UNSUPPORTED, "out of memory for the outputs of %zu frames", frames + 1));
    memcpy(more + frames * count, frame, count * sizeof *more);
    return more;
}

int run_keep(run_state *r)
{
    RUN_EACH(r, i, keep)
        CLI_TRY(r->sink[i]->keep(r, r->own[i]));
    for (size_t i = 0; i < r->n; i++) {
        run_series *s = &r->series[i];
        if (s->saved || s->feature)
            s->all = append(s->all, s->frame, (size_t)(s->rows * s->columns), r->frames);
    }
    r->frames++;
    return CLI_OK;
}

int run_results(run_state *r, double seconds)
{
    /* outputs were kept earlier, crop by crop or part by part */
    const bool kept = r->now.parts || people_given(&r->in.people);
    json_array_clear(r->now.written);
    RUN_EACH(r, i, take)
        CLI_TRY(r->sink[i]->take(r, r->own[i]));
    CLI_TRY(kept ? CLI_OK : run_keep(r));
    r->pictures++;
    run_show(r, seconds);
    return CLI_OK;
}
