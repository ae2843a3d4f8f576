/* run_sink.h: a sink is one kind of result of `fovea run`: its options, which outputs of the model
 * it wants, what it takes of every frame, where it shows and draws that, and what it writes at the
 * end. A new one is a file, and a line of run_sinks.inc. */
#ifndef FOVEA_CLI_RUN_SINK_H
#define FOVEA_CLI_RUN_SINK_H

#include "cli/picture/draw.h"
#include "cli/run/runner.h"

/* A file that an option names. */
typedef struct run_file {
    const char *option, *path; /* path NULL: not given */
    bool each;                 /* of the pictures has one: .png */
    bool aid;                  /* for later runs, no result of this one */
} run_file;
enum { RUN_FILES = 3, RUN_OPTIONS = 4 }; /* of a sink, at most */

/* `own`: the sink's state, of `size` bytes, which are zeros at the beginning. Each function may be
 * NULL. */
typedef struct run_sink {
    size_t size;
    int place; /* of its options in --help */
    /* Returns how many options, or files, it has. */
    size_t (*options)(cli_option *out, run_state *r, void *own);
    size_t (*files)(run_file *out, const run_state *r, const void *own);
    /* Checks the options before the model is opened. */
    int (*check)(run_state *r, void *own);
    /* Decides whether it is wanted of this model, and asks for outputs (run_want). */
    int (*want)(run_state *r, void *own);
    /* Keeps what it needs of a frame that was run: of people in boxes and of parts of a picture
     * each one is such a frame. */
    int (*keep)(run_state *r, void *own);
    /* Finds its result in the current frame, and writes the frame's file. */
    int (*take)(run_state *r, void *own);
    /* Whether there is something to show: then it is printed or described, and drawn. */
    bool (*shows)(const run_state *r, const void *own);
    void (*print)(const run_state *r, const void *own);
    void (*describe)(json_t *root, const run_state *r, const void *own);
    /* Draws on the photograph; `file` is named in messages. */
    void (*draw)(const draw_pen *p, const run_state *r, const void *own, const char *file);
    /* Tensors that it adds to the file of -o, RUN_TENSORS at most; their data are to be freed. */
    size_t (*tensors)(fovea_tensor *out, const run_state *r, const void *own);
    /* Writes the file of all frames. */
    int (*finish)(run_state *r, void *own);
    void (*release)(void *own);
    /* Whether it is asked for and cannot be of people in boxes. */
    bool (*refuses_people)(const run_state *r, const void *own);
    bool on_rgb; /* its pictures are drawn on frames of R, G, B */
} run_sink;
enum { RUN_TENSORS = 4 };

/* For each sink of `r` that has the function `what`, with its state. */
#define RUN_EACH(r, i, what)                                                                       \
    for (size_t i = 0; (r)->sink[i]; i++)                                                          \
        if ((r)->sink[i]->what)

/* run_sinks.c: whether any file of results is asked for; and, of all pictures, a single one. */
bool run_writes(const run_state *r);
bool run_writes_one(const run_state *r);
/* Whether any result is drawn on photographs. */
bool run_draws(const run_state *r);
/* The option of a file that is drawn on frames of R, G, B; NULL: none is asked for. */
const char *run_needs_rgb(const run_state *r);
/* Refuses pictures in parts. */
int run_refuse_parts(const run_state *r);
/* Whether a score is high enough to be drawn. */
static inline bool run_is_drawn(const run_state *r, float score)
{
    return (double)score >= (r->score > 0 ? r->score : RUN_SCORE);
}
/* run_overlay.c: reports how many objects were drawn: with low scores the picture may be unchanged.
 */
void run_tell_drawn(const run_state *r, const char *file, size_t drawn, size_t all,
                    const char *what);
/* Writes "cat 0.93" on a photograph, in letters that there are. */
void run_write_label(const draw_pen *p, const run_state *r, double x, double y,
                     const uint8_t rgb[3], uint32_t label, float score);

#endif
