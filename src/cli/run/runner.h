/* runner.h: the state of `fovea run`: the model, the inputs, the current frame and its results.
 * Each result is produced by a sink (run_sink.h). */
#ifndef FOVEA_CLI_RUNNER_H
#define FOVEA_CLI_RUNNER_H

#include "cli/picture/colours.h"
#include "cli/run/marks.h"
#include "cli/run/people.h"
#include "cli/run/video_input.h"

enum { RUN_SEGMENTS = 256 }; /* largest number of classes in a picture with one byte per pixel */
#define RUN_SCORE 0.3        /* least score of drawn boxes and points, and of people */
#define RUN_UNCOUNTED UINT64_MAX /* number of pictures in a video, which is unknown */

/* One output of the model for all frames, batch first. */
typedef struct run_series {
    const char *name; /* the library's name of the output */
    bool saved;       /* written to the file of -o */
    bool feature;     /* written to the file of --features */
    fovea_output_info info;
    uint64_t rows, columns;
    const float *frame; /* rows of the current frame */
    float *all;         /* rows of all frames; NULL if they are not kept */
} run_series;

/* Crops of people, in the input size of a pose model. */
typedef struct run_crops {
    uint32_t width, height;
    uint8_t *pixels; /* pixels of one batch */
} run_crops;

/* The frame that boxes or parts are cropped from. */
typedef struct run_source {
    fovea_frame frame;
    fovea_pixel_format format;
    fovea_yuv_matrix yuv;
    uint32_t width, height;
} run_source;

/* The origin of a frame. */
typedef struct run_place {
    const char *path;     /* path of the input, from which names of output files are made */
    uint64_t item, count; /* index of the picture in the input; number of pictures in the input */
    double rate;          /* frames per second of a video; 0 if unknown */
} run_place;

/* A frame that waits until its batch is complete. */
typedef struct run_waiting {
    run_place at;
    char *name; /* name in the output */
    uint8_t *pixels;
    size_t capacity; /* bytes */
} run_waiting;

/* The inputs, and the frames that wait to run together. */
typedef struct run_inputs {
    char **path; /* the inputs, with directories expanded */
    size_t paths;
    /* arguments of --raw, --yuv and --batch; NULL if not given */
    const char *raw_text, *yuv_text, *batch_text;
    video_raw raw;
    int yuv;        /* a fovea_yuv_matrix; -1 for the matrix that the video specifies */
    bool cut;       /* a video ended inside a frame, after complete frames */
    bool forgiving; /* broken inputs are skipped */
    int skipped;    /* CLI_INPUT if an input was skipped */
    people people;
    marks marks; /* objects that SAM finds */
    run_crops crops;
    size_t person; /* index of the person whose crop is the current frame */
    bool split;    /* pictures are run in parts */
    bool told;     /* the preprocessing was reported */
    /* the model's preprocessing; the program crops people or parts by it, and plans only normalise
     * the crops */
    fovea_preprocess rule;
    uint32_t batch, n_waiting; /* most frames in a batch; number of frames that wait */
    run_waiting *waiting;
    fovea_frame *pixels; /* pixels of each waiting frame */
} run_inputs;

/* Classes of a picture's pixels. */
typedef struct run_classes {
    uint8_t *of_pixel;
    uint32_t width, height;
    double share[RUN_SEGMENTS]; /* share of the pixels of each class */
} run_classes;

/* The current frame; for people in boxes and for parts, the picture that contains them. */
typedef struct run_frame {
    run_place at; /* path is NULL while no input is being read */
    const char *name;
    fovea_frame pixels;
    uint32_t width, height;
    const fovea_output *outs; /* outputs of the frame that was run */
    const uint16_t *parts; /* class of each pixel of a picture in parts; NULL for other pictures */
    run_classes classes;   /* computed if r->segments was requested */
    json_t *written;       /* names of the files written for this frame */
} run_frame;

struct run_sink;
enum { RUN_SINKS = 16 }; /* largest number of sinks */

typedef struct run_state {
    cli_session s;
    cli_common common;

    /* Options that several sinks use. */
    const char *output, *overlay, *top_text, *score_text;
    /* argument of --score: least score of masks, of drawn boxes and points, and of people; 0 if not
     * given */
    double score;
    uint32_t top;

    run_inputs in;
    run_frame now;
    size_t frames; /* number of frames that were run */
    /* number of finished pictures; a picture with people in boxes counts as several `frames` */
    size_t pictures;

    fovea_plan *plan;
    fovea_plan_info info;
    fovea_pixel_format format; /* pixel format of the plan's frames */
    fovea_yuv_matrix yuv;
    uint32_t width, height;
    fovea_preprocess preprocess;

    run_series *series;
    size_t n;
    /* outputs of a batch: all outputs of the first frame, then those of the next */
    fovea_output *every;
    run_series *segments; /* class logits of pixels, or logits of masks; NULL if not requested */

    const struct run_sink *const *sink; /* list of the sinks, ended by NULL */
    void *own[RUN_SINKS];               /* state of each sink */
} run_state;

/* Returns the number of pixels of the current frame. */
static inline size_t run_pixels(const run_state *r)
{
    return (size_t)r->now.width * r->now.height;
}

/* ---- run_frame.c: the outputs and the pictures of a frame ---- */

/* Requests output `name`, and returns its series, or NULL if the model has no such output. */
run_series *run_want(run_state *r, const char *name);
/* Requests output `name` for the file of -o, if the model has it. */
void run_save(run_state *r, const char *name);
/* Returns the series of an output, or NULL if it does not exist or was not requested. */
run_series *run_find(const run_state *r, const char *name);
/* Returns the rows of a series that belong to patches of the current frame. */
const float *run_patches(const run_series *s);
/* Returns the name of a class of the model's head, or "" if it has none. */
const char *run_label(const run_state *r, uint32_t class);
/* Makes the picture as the model saw it, resized and cropped. The caller frees it. */
int run_seen(cli_image *out, const run_state *r);
/* Makes the picture in its original pixels. If the input was already normalised, makes the picture
 * that the model saw. */
int run_photograph(cli_image *out, const run_state *r);

/* Returns the name of the current picture's file for an option with argument `name`; the caller
 * frees it. With several pictures, the input's name up to its last dot is inserted before the
 * ending, and the item's number if the input has several items. */
char *run_picture_name(const run_state *r, const char *name, const run_place *at);
/* Records that a file for the current frame was written, and frees its name. */
void run_wrote(run_state *r, char *name);
/* Reports that a file for all frames was written. */
void run_tell_written(const run_state *r, const char *path, const fovea_tensor *tensor, size_t n);

/* ---- run_coco.c ---- */

/* Adds to a record the fields that identify its picture. */
void run_coco_picture(json_t *record, const run_state *r);
/* Writes the records of all frames. The message calls one record `one`, and several `many`. */
int run_save_coco(const run_state *r, const char *path, const json_t *coco, const char *one,
                  const char *many);

/* ---- run_inputs.c ---- */

/* Appends the path of a picture or .safetensors, or the paths of the pictures in a folder. */
int run_gather(char ***path, size_t *count, const char *input);
/* Returns whether an input is a video. For standard input, examines the first byte. */
bool run_is_video(const run_state *r, const char *path);
bool run_is_y4m(const char *path);

/* ---- run_names.c ---- */

/* Checks before any work that all output files can be written, and that no output is also an input
 * or another output. `input` are the arguments as given. */
int run_check_outputs(run_state *r, const char *model, char *const *input, int inputs);

/* ---- run_results.c ---- */

/* Computes the results of all sinks for the current frame or picture, and shows the results. */
int run_results(run_state *r, double seconds);
/* Stores the outputs of a frame that was run, and counts the frame. */
int run_keep(run_state *r);

/* ---- run_show.c ---- */

/* Shows the results of the current frame. */
void run_show(run_state *r, double seconds);

/* ---- run_batch.c ---- */

/* Creates a plan for frames with these properties, unless the current plan already fits. */
int run_plan_for(run_state *r, fovea_pixel_format format, fovea_yuv_matrix yuv, uint32_t width,
                 uint32_t height);
/* Runs a frame at once, or queues it until its batch is complete. `name` is its name in the output.
 * The pixels occupy `bytes` bytes from pixels[0] on, and are copied if they are needed later. */
int run_add_frame(run_state *r, const char *name, const fovea_frame *frame, size_t bytes);
/* Runs the frames that wait in the queue. */
int run_together(run_state *r);
/* Selects frame `f` of the batch that was run as the current frame. */
void run_look(run_state *r, uint32_t f);
/* Runs at most r->in.batch frames, and selects the first as the current frame. Sets *seconds to the
 * time per frame. */
int run_outputs(run_state *r, const fovea_frame *frame, uint32_t count, double *seconds);
void run_batch_free(run_state *r);

/* ---- inputs of each kind ---- */

/* run_people.c: reads the given boxes of people, and checks that they can be used. */
int run_open_people(run_state *r);
/* Runs the people of a picture whose name is `name`. */
int run_in_boxes(run_state *r, const char *name, const run_source *from);
/* run_parts.c: runs a picture in R, G, B in parts. */
int run_in_parts(run_state *r, const char *name, const run_source *from);
/* run_video.c: runs each frame of a video. */
int run_video(run_state *r, const char *path);

#endif
