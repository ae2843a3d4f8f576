/* video_input.h: reads frames of uncompressed video: a Y4M stream, a stream of PPM pictures, or raw
 * frames without a header. */
#ifndef FOVEA_CLI_VIDEO_INPUT_H
#define FOVEA_CLI_VIDEO_INPUT_H

#include <fovea/video.h>

#include "cli/common/cli.h"

/* What --raw says. */
typedef struct video_raw {
    fovea_layout layout;
    bool ppm; /* each frame is a PPM, whose header has the size */
    uint32_t width, height;
    double rate; /* frames a second; 0: unknown */
} video_raw;

typedef struct video {
    const char *path;
    FILE *file;
    bool y4m;
    video_raw of;
    fovea_yuv_matrix yuv;
    /* layout of frames in the stream; format of the frames that are returned */
    fovea_layout_info layout;
    uint64_t frames; /* that were given */
    uint8_t *pixels;
    /* bytes of a frame in the stream; the buffer for the converted frame follows it */
    size_t coded;
    /* bytes of a sample in the stream that becomes one byte: 2 in some PPMs, else 1 */
    size_t sample;
    fovea_frame frame; /* in `pixels` */
    /* bytes of the returned frame's planes and the gaps between them, from the first plane on */
    size_t bytes;
} video;

/* Parses FORMAT:WxH[@RATE], as in "nv12:1280x720@30000/1001", or ppm[@RATE]. */
int video_raw_parse(video_raw *out, const char *text);
/* Opens a video; path "-": standard input. `raw` NULL: a Y4M, whose header is read now. `yuv`: a
 * fovea_yuv_matrix, the meaning of Y, U, V; -1: as the video's tags say, by the rule of
 * fovea_yuv_matrix_choose. `path` must stay valid. Close it unless opening failed. */
int video_open(video *out, const char *path, const video_raw *raw, int yuv);
/* Reads the next frame into v->frame, valid until the next call. *there false: the video ended
 * after a complete frame. */
int video_next(video *v, bool *there);
void video_close(video *v);

#endif
