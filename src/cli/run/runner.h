/* runner.h: the state of `fovea run`: the model, the inputs, the current frame, and its results,
 * each of which is produced by a sink (run_sink.h). */
#ifndef FOVEA_CLI_RUNNER_H
#define FOVEA_CLI_RUNNER_H

#include "cli/picture/colours.h"
#include "cli/run/people.h"
#include "cli/run/video_input.h"

enum { RUN_SEGMENTS = 256 };     /* most classes in a picture with one byte per pixel */
#define RUN_SCORE 0.3            /* least score of boxes and points that are drawn, and of people */
#define RUN_UNCOUNTED UINT64_MAX /* pictures in a video */

/* One output of the model for all frames, batch first. */
typedef struct run_series {
    const char *name; /* the library's */
    bool saved;       /* is written to the file of -o */
    bool feature;     /* is written to the file of --features */
    fovea_output_info info;
    uint64_t rows, columns;
    const float *frame; /* of the current frame */
    float *all;         /* of all frames; NULL if they are not kept */
} run_series;

/* Crops of people, in the size that a pose model sees. */
typedef struct run_crops {
    uint32_t width, height;
    uint8_t *pixels; /* of one batch */
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
    const char *path;     /* the input; names of output files are made from it */
    uint64_t item, count; /* index of the picture in the input, and how many the input has */
    double rate;          /* of a video: frames per second; 0: unknown */
} run_place;

/* A frame that waits until its batch is complete. */
typedef struct run_waiting {
    run_place at;
    char *name; /* what is shown */
    uint8_t *pixels;
    size_t capacity; /* bytes */
} run_waiting;

/* The inputs, and those of their frames that wait to run together. */
typedef struct run_inputs {
    char **path; /* directories unfolded */
    size_t paths;
    /* arguments of --raw, --yuv and --batch; NULL: not given */
    const char *raw_text, *yuv_text, *batch_text;
    video_raw raw;
    int yuv;        /* a fovea_yuv_matrix; -1: the one that the video names */
    bool cut;       /* a video ended inside a frame, after complete ones */
    bool forgiving; /* a broken input is skipped */
    int skipped;    /* CLI_INPUT if that has happened */
    people people;
    run_crops crops;
    size_t person; /* index of the person in whose crop the current frame is */
    bool split;    /* pictures are run in parts */
    bool told;     /* how pictures are preprocessed */
    fovea_preprocess
        /* the model's preprocessing; the program cuts crops or parts by it, and plans only
         * normalise them */
        rule;
    uint32_t batch, n_waiting; /* most frames in a batch; frames that wait */
    run_waiting *waiting;
    fovea_frame *pixels; /* of each of them */
} run_inputs;

/* Classes of a picture's pixels. */
typedef struct run_classes {
    uint8_t *of_pixel;
    uint32_t width, height;
    double share[RUN_SEGMENTS]; /* of the pixels, by class */
} run_classes;

/* The current frame; for people in boxes and for parts, the picture that contains them. */
typedef struct run_frame {
    run_place at; /* path NULL: no input is being read */
    const char *name;
    fovea_frame pixels;
    uint32_t width, height;
    const fovea_output *outs; /* outputs of the frame that was run */
    const uint16_t *parts;    /* of a picture in parts: the class of each pixel; else NULL */
    run_classes classes;      /* found where r->segments are wanted */
    json_t *written;          /* names of its files */
} run_frame;

struct run_sink;
enum { RUN_SINKS = 16 }; /* at most */

typedef struct run_state {
    cli_session s;
    cli_common common;

    /* Options that several sinks use. */
    const char *output, *overlay, *top_text, *score_text;
    /* argument of --score: least score of masks, of boxes and points that are drawn, and of people;
     * 0: not given */
    double score;
    uint32_t top;

    run_inputs in;
    run_frame now;
    size_t frames; /* that were run */
    /* pictures that are done; one with people in boxes counts as several `frames` */
    size_t pictures;

    fovea_plan *plan;
    fovea_plan_info info;
    fovea_pixel_format format; /* of the plan's frames */
    fovea_yuv_matrix yuv;
    uint32_t width, height;
    fovea_preprocess preprocess;

    run_series *series;
    size_t n;
    fovea_output *every;  /* outputs of a batch: all of the first frame, then those of the next */
    run_series *segments; /* class logits of pixels, or logits of masks; NULL: not requested */

    const struct run_sink *const *sink; /* ends with NULL */
    void *own[RUN_SINKS];               /* the state of each */
} run_state;

/* Of the current frame. */
static inline size_t run_pixels(const run_state *r)
{
    return (size_t)r->now.width * r->now.height;
}

/* ---- run_frame.c: the outputs and the pictures of a frame ---- */

/* Requests output `name`, and returns its series; NULL: the model has no such output. */
run_series *run_want(run_state *r, const char *name);
/* Requests output `name`, if the model has it, for the file of -o. */
void run_save(run_state *r, const char *name);
/* The series of an output; NULL: the model does not have it, or it was not requested. */
run_series *run_find(const run_state *r, const char *name);
/* Rows of a series for the patches of the current frame. */
const float *run_patches(const run_series *s);
/* The name of a class of the model's head; "" if it has none. */
const char *run_label(const run_state *r, uint32_t class);
/* The picture in the size and cut that the model saw; to be freed. */
int run_seen(cli_image *out, const run_state *r);
/* The picture in its own pixels. For input that was already normalised, the picture that the model
 * saw. */
int run_photograph(cli_image *out, const run_state *r);

/* The name, to be freed, of the current picture's file for an option with argument `name`. With
 * several pictures, the input's name up to its last dot, and the item's number if it has several,
 * are inserted before the ending. */
char *run_picture_name(const run_state *r, const char *name, const run_place *at);
/* Records that a file for the current frame was written; frees its name. */
void run_wrote(run_state *r, char *name);
/* Reports that a file for all frames was written. */
void run_tell_written(const run_state *r, const char *path, const fovea_tensor *tensor, size_t n);

/* ---- run_coco.c ---- */

/* Adds to a record the fields that identify its picture. */
void run_coco_picture(json_t *record, const run_state *r);
/* Writes the records of all frames; the message calls them `one` or `many`. */
int run_save_coco(const run_state *r, const char *path, const json_t *coco, const char *one,
                  const char *many);

/* ---- run_inputs.c ---- */

/* Adds the path of a picture or .safetensors, or the pictures in a folder. */
int run_gather(char ***path, size_t *count, const char *input);
/* Whether an input is a video; of standard input the first byte is examined. */
bool run_is_video(const run_state *r, const char *path);
bool run_is_y4m(const char *path);

/* ---- run_names.c ---- */

/* Checks before any work that all output files can be written, and that none is also an input or
 * another output. `input`: the arguments as given. */
int run_check_outputs(run_state *r, const char *model, char *const *input, int inputs);

/* ---- run_results.c ---- */

/* Computes the results of all sinks for the current frame or picture, and shows them. */
int run_results(run_state *r, double seconds);
/* Keeps the outputs of a frame that was run, and counts the frame. */
int run_keep(run_state *r);

/* ---- run_show.c ---- */

/* Shows the results of the current frame. */
void run_show(run_state *r, double seconds);

/* ---- run_batch.c ---- */

/* Creates a plan for such frames, unless the current one already fits. */
int run_plan_for(run_state *r, fovea_pixel_format format, fovea_yuv_matrix yuv, uint32_t width,
                 uint32_t height);
/* Runs a frame at once, or queues it until its batch is complete; `name` is for output. Pixels
 * extend `bytes` from pixels[0] on, and are copied if they are needed later. */
int run_add_frame(run_state *r, const char *name, const fovea_frame *frame, size_t bytes);
/* Runs the frames that wait. */
int run_together(run_state *r);
/* Makes frame `f` of the batch that was run the current one. */
void run_look(run_state *r, uint32_t f);
/* Runs up to r->in.batch frames; the first becomes the current one. *seconds: time per frame. */
int run_outputs(run_state *r, const fovea_frame *frame, uint32_t count, double *seconds);
void run_batch_free(run_state *r);

/* ---- inputs of each kind ---- */

/* run_people.c: reads the boxes of people that were given, and checks that they can be used. */
int run_open_people(run_state *r);
/* Runs the people of a picture called `name`. */
int run_in_boxes(run_state *r, const char *name, const run_source *from);
/* run_parts.c: runs a picture in R, G, B in parts. */
int run_in_parts(run_state *r, const char *name, const run_source *from);
/* run_video.c: runs each frame of a video. */
int run_video(run_state *r, const char *path);

#endif
