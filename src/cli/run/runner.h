/* runner.h: `fovea run` under way: the model, the inputs, the current frame, and the results that
 * are made of it, each of which is a sink (run_sink.h). */
#ifndef FOVEA_CLI_RUNNER_H
#define FOVEA_CLI_RUNNER_H

#include "cli/picture/colours.h"
#include "cli/run/people.h"
#include "cli/run/video_input.h"

enum { RUN_SEGMENTS = 256 };     /* classes of a picture with one byte per pixel */
#define RUN_SCORE 0.3            /* the least of boxes and points that are drawn, and of people */
#define RUN_UNCOUNTED UINT64_MAX /* pictures in a video */

/* One output of the model over all frames, batch first. */
typedef struct run_series {
    const char *name; /* the library's */
    bool saved;       /* goes into the file of -o */
    bool feature;     /* goes into the file of --features */
    fovea_output_info info;
    uint64_t rows, columns;
    const float *frame; /* of the current frame */
    float *all;         /* of all frames, when they are kept */
} run_series;

/* Pictures as a pose model sees people. */
typedef struct run_crops {
    uint32_t width, height;
    uint8_t *pixels; /* of as many as run together */
} run_crops;

/* What boxes are in. */
typedef struct run_source {
    fovea_frame frame;
    fovea_pixel_format format;
    fovea_yuv_matrix yuv;
    uint32_t width, height;
} run_source;

/* Where a frame comes from. */
typedef struct run_place {
    const char *path;     /* of the input; names of files are made of it */
    uint64_t item, count; /* which of how many pictures in one file */
    double rate;          /* of a video: frames in a second; 0: unknown */
} run_place;

/* A frame that waits for those that are to run with it. */
typedef struct run_waiting {
    run_place at;
    char *name; /* what is shown */
    uint8_t *pixels;
    size_t capacity; /* bytes */
} run_waiting;

/* The inputs, and the frames of them that wait to run together. */
typedef struct run_inputs {
    char **path; /* directories unfolded */
    size_t paths;
    const char *raw_text, *yuv_text, *batch_text; /* of --raw, --yuv, --batch; or NULL */
    video_raw raw;
    int yuv;        /* a fovea_yuv_matrix; -1: the video's own */
    bool cut;       /* a video ended in mid-frame, after whole ones */
    bool forgiving; /* a broken input is left for the next one */
    int skipped;    /* CLI_INPUT if that has happened */
    people people;
    run_crops crops;
    size_t person; /* of people: in whose crop the current frame is */
    bool split;    /* pictures are run in parts */
    bool told;     /* how pictures are preprocessed */
    fovea_preprocess
        rule; /* the model's, where crops or parts are made by it and plans see those */
    uint32_t batch, n_waiting; /* frames that run together, at most; those that wait */
    run_waiting *waiting;
    fovea_frame *pixels; /* of each of them */
} run_inputs;

/* Classes of a picture's pixels. */
typedef struct run_classes {
    uint8_t *of_pixel;
    uint32_t width, height;
    double share[RUN_SEGMENTS]; /* of the pixels, by class */
} run_classes;

/* The current frame; of people in boxes and of parts the picture that they are in. */
typedef struct run_frame {
    run_place at; /* path NULL: no input is being read */
    const char *name;
    fovea_frame pixels;
    uint32_t width, height;
    const fovea_output *outs; /* of a frame that was run */
    const uint16_t *parts;    /* the class of each pixel, of a picture in parts; else NULL */
    run_classes classes;      /* found where r->segments are wanted */
    json_t *written;          /* names of its files */
} run_frame;

struct run_sink;
enum { RUN_SINKS = 16 }; /* at most */

typedef struct run_state {
    cli_session s;
    cli_common common;

    /* Options that several results depend on. */
    const char *output, *overlay, *top_text, *score_text;
    double score; /* least: of masks, and of boxes and points that are drawn; 0: usual ones */
    uint32_t top;

    run_inputs in;
    run_frame now;
    size_t frames;   /* that were run */
    size_t pictures; /* that are done: of people in boxes one has several frames */

    fovea_plan *plan;
    fovea_plan_info info;
    fovea_pixel_format format; /* of the plan's frames */
    fovea_yuv_matrix yuv;
    uint32_t width, height;
    fovea_preprocess preprocess;

    run_series *series;
    size_t n;
    fovea_output *every;  /* the outputs of one frame after the other, of a batch */
    run_series *segments; /* logits of classes, or of masks; NULL: not asked for */

    const struct run_sink *const *sink; /* ends with NULL */
    void *own[RUN_SINKS];               /* the state of each */
} run_state;

/* Of the current frame. */
static inline size_t run_pixels(const run_state *r)
{
    return (size_t)r->now.width * r->now.height;
}

/* ---- run_frame.c: the outputs and the pictures of a frame ---- */

/* The series of output `name`, made now if it has to be; NULL: the model has no such output. */
run_series *run_want(run_state *r, const char *name);
/* Wants an output that the file of -o has, if there is one. */
void run_save(run_state *r, const char *name);
/* NULL: the model does not have this output, or it was not requested. */
run_series *run_find(const run_state *r, const char *name);
/* Rows of patches of the current frame. */
const float *run_patches(const run_series *s);
/* The name of a class of the model's head, or "". */
const char *run_label(const run_state *r, uint32_t class);
/* The picture as the model saw it. To be freed. */
int run_seen(cli_image *out, const run_state *r);
/* The picture in its own pixels: of a frame that was normalised already as the model sees it. */
int run_photograph(cli_image *out, const run_state *r);

/* The file of the current picture: `name`; where there are several, the input's name up to its last
 * dot and the number of the item in it go between name and ending. To be freed. */
char *run_picture_name(const run_state *r, const char *name, const run_place *at);
/* Records a written file of the current frame; frees its name. */
void run_wrote(run_state *r, char *name);
/* Reports a written file of all frames. */
void run_tell_written(const run_state *r, const char *path, const fovea_tensor *tensor, size_t n);

/* ---- run_coco.c ---- */

/* Adds to a record which picture it is of. */
void run_coco_picture(json_t *record, const run_state *r);
/* Writes all frames' records; `one`, `many`: what they are called in the message. */
int run_save_coco(const run_state *r, const char *path, const json_t *coco, const char *one,
                  const char *many);

/* ---- run_inputs.c ---- */

/* Adds the path of a picture or .safetensors, or those of a directory's pictures. */
int run_gather(char ***path, size_t *count, const char *input);
/* Whether an input is a video; of standard input the first byte is looked at. */
bool run_is_video(const run_state *r, const char *path);
bool run_is_y4m(const char *path);

/* ---- run_names.c ---- */

/* Checks before the work that all files can be written and that no output is also an input or
 * another output. `input`: the arguments as given. */
int run_check_outputs(run_state *r, const char *model, char *const *input, int inputs);

/* ---- run_results.c ---- */

/* Every sink's results of the current frame or picture, which are then shown. */
int run_results(run_state *r, double seconds);
/* Keeps the outputs of a frame that was run, and counts it. */
int run_keep(run_state *r);

/* ---- run_show.c ---- */

/* Shows the results of the current frame. */
void run_show(run_state *r, double seconds);

/* ---- run_batch.c ---- */

/* A plan for such frames, unless it is there. */
int run_plan_for(run_state *r, fovea_pixel_format format, fovea_yuv_matrix yuv, uint32_t width,
                 uint32_t height);
/* A frame of the plan's, which is run at once or together with those that follow; name: what is
 * shown. Its pixels are `bytes` from pixels[0] on, and may change afterwards. */
int run_add_frame(run_state *r, const char *name, const fovea_frame *frame, size_t bytes);
/* Runs the frames that wait. */
int run_together(run_state *r);
/* Makes frame `f` of those that were run together the current one. */
void run_look(run_state *r, uint32_t f);
/* The outputs of up to r->in.batch frames; the first is the current one. *seconds: a frame's share.
 */
int run_outputs(run_state *r, const fovea_frame *frame, uint32_t count, double *seconds);
void run_batch_free(run_state *r);

/* ---- inputs of each kind ---- */

/* run_people.c: what boxes of people were given, and whether they can be used. */
int run_open_people(run_state *r);
/* The people of a picture, called `name`. */
int run_in_boxes(run_state *r, const char *name, const run_source *from);
/* run_parts.c: a picture that is run in parts, in R, G, B. */
int run_in_parts(run_state *r, const char *name, const run_source *from);
/* run_video.c: each frame of a video. */
int run_video(run_state *r, const char *path);

#endif
