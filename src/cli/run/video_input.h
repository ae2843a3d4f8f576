/* video_input.h: frames of video that is not compressed: a Y4M stream, a stream of PPM pictures, or
 * raw frames without a header. */
#ifndef FOVEA_CLI_VIDEO_INPUT_H
#define FOVEA_CLI_VIDEO_INPUT_H

#include <fovea/video.h>

#include "cli/common/cli.h"

/* What --raw says. */
typedef struct video_raw {
    fovea_layout layout;
    bool ppm; /* a PPM for every frame, which says its own size */
    uint32_t width, height;
    double rate; /* frames a second; 0: unknown */
} video_raw;

typedef struct video {
    const char *path;
    FILE *file;
    bool y4m;
    video_raw of;
    fovea_yuv_matrix yuv;
    fovea_layout_info layout; /* of the stream's frames, and the format of those that are given */
    uint64_t frames;          /* that were given */
    uint8_t *pixels;
    size_t coded;      /* bytes of a frame in the stream; a buffer for the converted ones follows */
    size_t sample;     /* bytes of a number in it that is to be one byte: 2 in some PPMs, else 1 */
    fovea_frame frame; /* in `pixels` */
    size_t bytes;      /* of its planes and the gaps between them, from the first plane on */
} video;

/* FORMAT:WxH[@RATE], as in "nv12:1280x720@30000/1001", or ppm[@RATE]. */
int video_raw_parse(video_raw *out, const char *text);
/* `raw` NULL: a Y4M, whose header is read. `yuv`: what luma and chroma stand for, a
 * fovea_yuv_matrix; -1: as the video's tags say, by the rule of fovea_yuv_matrix_choose. Path "-":
 * standard input. `out->path` stays the caller's. Without a failure it is to be closed. */
int video_open(video *out, const char *path, const video_raw *raw, int yuv);
/* The next frame is in v->frame until the next call; *there false: the video ended after a whole
 * one. */
int video_next(video *v, bool *there);
void video_close(video *v);

#endif
