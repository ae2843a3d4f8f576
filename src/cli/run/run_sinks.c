/* run_sinks.c: summarises what the options request from all sinks. */
#include "cli/run/run_sink.h"

static bool writes(const run_state *r, bool each_too)
{
    run_file file[RUN_FILES];
    RUN_EACH(r, i, files) {
        const size_t n = r->sink[i]->files(file, r, r->own[i]);
        for (size_t k = 0; k < n; k++)
            if (file[k].path && !file[k].aid && (each_too || !file[k].each))
                return true;
    }
    return false;
}

bool run_writes(const run_state *r)
{
    return writes(r, true);
}

bool run_writes_one(const run_state *r)
{
    return writes(r, false);
}

bool run_draws(const run_state *r)
{
    RUN_EACH(r, i, draw)
        if (r->sink[i]->shows(r, r->own[i]))
            return true;
    return false;
}

const char *run_needs_rgb(const run_state *r)
{
    run_file file[RUN_FILES];
    RUN_EACH(r, i, on_rgb) {
        const size_t n = r->sink[i]->files(file, r, r->own[i]);
        for (size_t k = 0; k < n; k++)
            if (file[k].path)
                return file[k].option;
    }
    return NULL;
}

int run_refuse_parts(const run_state *r)
{
    return r->in.split ? cli_fail(CLI_UNSUPPORTED,
                                  "this model's image processor splits pictures into parts; "
                                  "--size WxH runs the whole picture")
                       : CLI_OK;
}
