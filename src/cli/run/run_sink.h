/* run_sink.h: a sink produces one kind of result of `fovea run`.
 *
 * It declares its options and requests outputs of the model. It computes its result for every
 * frame, prints and draws the result, and writes a file at the end. A new sink is a new source file
 * and a line in run_sinks.inc. */
#ifndef FOVEA_CLI_RUN_SINK_H
#define FOVEA_CLI_RUN_SINK_H

#include "cli/picture/draw.h"
#include "cli/run/runner.h"

/* A file that an option names. */
typedef struct run_file {
    const char *option, *path; /* path is NULL if the option is not given */
    bool each;                 /* one .png file for each picture */
    /* a file that later runs read, such as a basis of colours; not a result of this run */
    bool aid;
} run_file;
enum { RUN_FILES = 3, RUN_OPTIONS = 4 }; /* most files and options of a sink */

/* Any function may be NULL. `own` is the sink's state of `size` bytes, initially zero. */
typedef struct run_sink {
    size_t size;
    int place; /* order of its options in --help */
    /* `options` sets the sink's options, and `files` the files that these options name. Both return
     * the number of entries. */
    size_t (*options)(cli_option *out, run_state *r, void *own);
    size_t (*files)(run_file *out, const run_state *r, const void *own);
    /* Checks the options before the model is opened. */
    int (*check)(run_state *r, void *own);
    /* Decides whether the sink's result is needed for this model, and requests outputs
     * (run_want). */
    int (*want)(run_state *r, void *own);
    /* Stores what the sink needs from one run of the model. For people in boxes and for parts of a
     * picture, it is called once per crop or part. */
    int (*keep)(run_state *r, void *own);
    /* Computes the result for the current frame, and writes the frame's file. */
    int (*take)(run_state *r, void *own);
    /* Returns whether there is a result to print or describe as JSON, and to draw. */
    bool (*shows)(const run_state *r, const void *own);
    void (*print)(const run_state *r, const void *own);
    void (*describe)(json_t *root, const run_state *r, const void *own);
    /* Draws the result on the photograph; `file` is the name for messages. */
    void (*draw)(const draw_pen *p, const run_state *r, const void *own, const char *file);
    /* Sets tensors for the file of -o, at most RUN_TENSORS, and returns their number. The caller
     * frees their data. */
    size_t (*tensors)(fovea_tensor *out, const run_state *r, const void *own);
    /* Writes the file with the results of all frames. */
    int (*finish)(run_state *r, void *own);
    void (*release)(void *own);
    /* Returns whether the sink's result was requested but is not available for people in boxes. */
    bool (*refuses_people)(const run_state *r, const void *own);
    bool on_rgb; /* draws on photographs, which requires frames in R, G, B */
} run_sink;
enum { RUN_TENSORS = 4 };

/* Loops over the sinks of `r` that have the function `what`; sink and state are r->sink[i] and
 * r->own[i]. */
#define RUN_EACH(r, i, what)                                                                       \
    for (size_t i = 0; (r)->sink[i]; i++)                                                          \
        if ((r)->sink[i]->what)

/* run_sinks.c: run_writes returns whether the options request any file of results; run_writes_one,
 * whether they request a file with the results of all pictures. */
bool run_writes(const run_state *r);
bool run_writes_one(const run_state *r);
/* Returns whether any result is drawn on photographs. */
bool run_draws(const run_state *r);
/* Returns the option that requests drawing on photographs, which requires frames in R, G, B, or
 * NULL if there is none. */
const char *run_needs_rgb(const run_state *r);
/* Refuses pictures that are run in parts. */
int run_refuse_parts(const run_state *r);
/* Returns whether an object's score is high enough for drawing. */
static inline bool run_is_drawn(const run_state *r, float score)
{
    return (double)score >= (r->score > 0 ? r->score : RUN_SCORE);
}
/* run_overlay.c: reports how many objects were drawn, because with low scores the picture may be
 * unchanged. */
void run_tell_drawn(const run_state *r, const char *file, size_t drawn, size_t all,
                    const char *what);
/* Writes a label such as "cat 0.93" on a photograph, without characters that the font lacks. */
void run_write_label(const draw_pen *p, const run_state *r, double x, double y,
                     const uint8_t rgb[3], uint32_t label, float score);

#endif
