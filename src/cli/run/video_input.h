/* video_input.h: reads frames of uncompressed video: a Y4M stream, a stream of PPM pictures, or raw
 * frames without headers. */
#ifndef FOVEA_CLI_VIDEO_INPUT_H
#define FOVEA_CLI_VIDEO_INPUT_H

#include <fovea/video.h>

#include "cli/common/cli.h"

/* The argument of --raw. */
typedef struct video_raw {
    fovea_layout layout;
    bool ppm; /* each frame is a PPM, whose header specifies the size */
    uint32_t width, height;
    double rate; /* frames per second; 0 if unknown */
} video_raw;

typedef struct video {
    const char *path;
    FILE *file;
    bool y4m;
    video_raw of;
    fovea_yuv_matrix yuv;
    /* layout of frames in the stream; format of the returned frames */
    fovea_layout_info layout;
    uint64_t frames; /* number of frames returned */
    uint8_t *pixels;
    /* bytes of a frame in the stream; in `pixels`, the converted frame is stored after these
     * bytes */
    size_t coded;
    /* bytes of a sample in the stream, which becomes one byte: 2 in some PPMs, else 1 */
    size_t sample;
    fovea_frame frame; /* points into `pixels` */
    /* bytes of the returned frame's planes, including gaps, from the first plane on */
    size_t bytes;
} video;

/* Parses FORMAT:WxH[@RATE], such as "nv12:1280x720@30000/1001", or ppm[@RATE]. */
int video_raw_parse(video_raw *out, const char *text);
/* Opens a video. Path "-" is standard input. If `raw` is NULL, the video is a Y4M, whose header is
 * read at once. `yuv` is a fovea_yuv_matrix, or -1 to apply the rule of fovea_yuv_matrix_choose to
 * the video's tags. `path` must stay valid. The caller closes the video unless opening failed. */
int video_open(video *out, const char *path, const video_raw *raw, int yuv);
/* Reads the next frame into v->frame, which is valid until the next call. Sets *there to false if
 * the video ended after a complete frame. */
int video_next(video *v, bool *there);
void video_close(video *v);

#endif
