/* runner.h: `fovea run` under way: its inputs, the outputs of the model over all frames, and the
 * files they go to. */
#ifndef FOVEA_CLI_RUNNER_H
#define FOVEA_CLI_RUNNER_H

#include "cli/picture/colours.h"
#include "cli/run/attention_map.h"
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

/* Boxes of a detector. */
typedef struct run_box {
    fovea_detection box;
    size_t frame;
} run_box;

typedef struct run_boxes {
    const char *path; /* of --boxes; or NULL */
    bool wanted;
    fovea_detection *found; /* of the current frame */
    size_t count;
    run_box *all; /* of all frames */
    size_t kept;
    json_t *coco;
} run_boxes;

/* Depth of the current frame's pixels. */
typedef struct run_depth {
    const char *path, *colours; /* of --depth and --colormap; or NULL */
    const colour_map *map;      /* NULL: 16 bits, without colours */
    bool wanted;
    float *of_pixel;
    double least, median, greatest;
} run_depth;

/* Masks of a segmenter. */
typedef struct run_masks {
    const char *path, *rule; /* of --masks and --mask-rule; or NULL */
    bool wanted;
    fovea_mask_options options;
    fovea_mask *found; /* of the current frame */
    size_t count;
    uint16_t *map; /* the frame's pixels: 1 + which of them, or 0 */
    json_t *coco;
} run_masks;

/* Key points. */
typedef struct run_points {
    const char *path; /* of --pose; or NULL */
    bool wanted;
    fovea_keypoint *found; /* of the current picture: `count` of each of its people */
    people_box *box;       /* theirs */
    size_t people, capacity, count;
    json_t *coco;
} run_points;

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
    const char *path;     /* of the input; what names of files are made of */
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

typedef struct run_state { /* More than 25 fields: the options of the command, and its state */
    cli_session s;
    cli_common common;
    const char *output, *features, *pca, *labels, *overlay, *top_text, *score_text;
    const char *batch_text;
    double score; /* least: of masks, and of boxes and points that are drawn; 0: usual ones */
    const char *map_text, *map_block;
    const char *basis_path;
    attention_query query; /* path NULL: none */
    bool hidden;
    uint32_t top;

    char **path; /* inputs, directories unfolded */
    size_t paths;
    run_place at;                    /* the current frame; path NULL: no input is being read */
    const char *raw_text, *yuv_text; /* of --raw and --yuv; or NULL */
    video_raw raw;
    int yuv;         /* a fovea_yuv_matrix; -1: the video's own */
    bool cut;        /* a video ended in mid-frame, after whole ones */
    bool forgiving;  /* a broken input is left for the next one */
    int skipped;     /* CLI_INPUT if that has happened */
    size_t frames;   /* that were run */
    size_t pictures; /* that are done: of people in boxes one has several frames */

    fovea_plan *plan;
    fovea_plan_info info;
    fovea_pixel_format format; /* of the plan's frames */
    fovea_yuv_matrix plan_yuv;
    uint32_t width, height;
    fovea_preprocess preprocess;
    bool told; /* how pictures are preprocessed */
    fovea_preprocess
        rule;   /* the model's, where crops or parts are made by it and plans see those */
    bool split; /* parts are */

    uint32_t batch, n_waiting; /* frames that run together, at most; those that wait */
    run_waiting *waiting;
    fovea_frame *pixels; /* of each of them */
    fovea_output *every; /* the outputs of one frame after the other */

    run_series *series;
    size_t n;
    const fovea_output *outs;   /* of the current frame */
    run_series *dense;          /* the last token features; NULL: not asked for */
    run_series *segments;       /* logits of classes, or of masks; NULL: not asked for */
    double share[RUN_SEGMENTS]; /* of the current picture's pixels, by class */
    attention_map map;          /* of the current frame */
    run_boxes boxes;
    run_depth depth;
    run_masks masks;
    run_points points;
    people people;
    run_crops crops;
    json_t *written; /* names of the current frame's files */
    cli_basis basis; /* of --pca-basis; no columns: not known yet */
} run_state;

/* Of the current frame. */
static inline size_t run_pixels(const run_state *r)
{
    return (size_t)r->width * r->height;
}

/* cmd_run.c: what is wanted of the current frame, whose outputs have arrived. */
int run_results(run_state *r, const char *name, const fovea_frame *frame, double seconds);
/* Keeps the outputs of the current frame for the files of all, and counts it. */
void run_keep(run_state *r);
/* What is wanted of the current picture, whose people were run. */
int run_results_of_people(run_state *r, const char *name, const fovea_frame *frame, double seconds);

/* run_people.c: what boxes of people were given, and whether they can be used. */
int run_open_people(run_state *r);
/* The people of a picture, called `name`. */
int run_in_boxes(run_state *r, const char *name, const run_source *from);

/* run_batch.c: a plan for such frames, unless it exists. */
int run_plan_for(run_state *r, fovea_pixel_format format, fovea_yuv_matrix yuv, uint32_t width,
                 uint32_t height);
/* A frame of the plan's, which is run at once or together with those that follow; name: what is
 * shown. Its pixels are `bytes` from pixels[0] on, and may change afterwards. */
int run_frame(run_state *r, const char *name, const fovea_frame *frame, size_t bytes);
/* Runs the frames that wait. */
int run_together(run_state *r);
/* Makes frame `f` of those that were run together the current one. */
void run_look(run_state *r, uint32_t f);
/* The outputs of up to r->batch frames; the first is the current one. *seconds: a frame's share. */
int run_outputs(run_state *r, const fovea_frame *frame, uint32_t count, double *seconds);
void run_batch_free(run_state *r);

/* run_inputs.c: adds the path of a picture or .safetensors, or those of a directory's pictures. */
int run_gather(char ***path, size_t *count, const char *input);
/* The picture as the model saw it, from the frame that was run. To be freed. */
int run_seen(cli_image *out, const run_state *r, const fovea_frame *frame);

/* run_video.c: whether an input is a video; of standard input the first byte is looked at. */
bool run_is_video(const run_state *r, const char *path);
int run_video(run_state *r, const char *path);

/* run_outputs.c: which outputs, and their files. */
int run_choose(run_state *r);
/* The series of output `name`, made now if it has to be; NULL: the model has no such output. */
run_series *run_want(run_state *r, const char *name);
/* NULL: the model does not have this output, or it was not requested. */
run_series *run_find(const run_state *r, const char *name);
/* Rows of patches of the current frame. */
const float *run_patches(const run_series *s);
int run_save_outputs(const run_state *r);
int run_save_features(const run_state *r);
/* True if any output goes into a file. */
bool run_writes(const run_state *r);

/* run_names.c: the file of one picture: `name`; where there are several, the input's name up to its
 * last dot and the number of the item in it go between name and ending. To be freed. */
char *run_picture_name(const run_state *r, const char *name, const char *input);
/* Checks before the work that all outputs can be written and that no output is also an input or
 * another output. `input`: the arguments as given. */
int run_check_outputs(run_state *r, const char *model, char *const *input, int inputs);
/* Records a written file of the current frame; frees its name. */
void run_wrote(run_state *r, char *name);

/* run_show.c: results of the current frame. */
void run_show(run_state *r, const char *name, double seconds);
/* Reports a written file of all frames. */
void run_tell_written(const run_state *r, const char *path, const fovea_tensor *tensor, size_t n);

/* run_boxes.c: finds the current frame's boxes, if they are wanted; `name`: the picture's. */
int run_detect(run_state *r, const char *name);
/* Box i of the current frame as COCO has it, without the picture. */
json_t *run_box_json(const run_state *r, size_t i);
#define RUN_BOX_TENSORS 4
/* Those of all frames; their data are to be freed. */
size_t run_box_tensors(const run_state *r, fovea_tensor out[RUN_BOX_TENSORS]);
void run_boxes_free(run_boxes *b);

/* run_coco.c: adds to a record which picture it is of. */
void run_coco_picture(json_t *record, const run_state *r, const char *name);
/* Writes all frames' records; `one`, `many`: what they are called in the message. */
int run_save_coco(const run_state *r, const char *path, const json_t *coco, const char *one,
                  const char *many);

/* run_depth.c: depth of the current frame, if it is wanted, and its picture. */
int run_find_depth(run_state *r, const char *input);
/* The colour of a pixel; false: it has no depth. */
bool run_depth_colour(uint8_t rgb[3], const run_depth *d, size_t pixel, const colour_map *map);
json_t *run_depth_json(const run_state *r);
void run_depth_free(run_depth *d);

/* run_masks.c: masks of the current frame, if they are wanted; their picture, or what COCO has. */
int run_find_masks(run_state *r, const char *input, const char *name);
json_t *run_mask_json(const run_state *r, size_t i);
void run_masks_free(run_masks *m);

/* run_points.c: key points of the current frame, if they are wanted: of one person. */
int run_find_points(run_state *r);
/* run_begin_points allocates the points of a picture's n people, whose boxes are known;
 * run_box_points finds those of person i, whose crop is the current frame. */
void run_begin_points(run_state *r, size_t n);
int run_box_points(run_state *r, size_t i);
/* Adds the picture's people to the file. */
void run_write_points(run_state *r, const char *name);
/* Of person i; and of all, with their boxes. */
json_t *run_points_json(const run_state *r, size_t i);
json_t *run_people_json(const run_state *r);
void run_points_free(run_points *p);

/* run_overlay.c: what was found, drawn on the photograph. */
bool run_overlays(const run_state *r);
int run_overlay(run_state *r, const char *input, const fovea_frame *frame);

/* run_segments.c: pictures and shares of the classes of the current frame. */
int run_segment(run_state *r, const char *input, const fovea_frame *frame);
/* The same for a picture whose pixels' classes are known. */
int run_segment_whole(run_state *r, const char *path, const run_source *from, const uint16_t *map);

/* run_parts.c: a picture that is run in parts, in R, G, B. */
int run_in_parts(run_state *r, const char *name, const run_source *from);

/* run_pca.c: features as pictures. Reads the basis if its file exists. */
int run_open_basis(run_state *r);
int run_draw_features(run_state *r, const char *input);

#endif
