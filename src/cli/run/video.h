/* video.h: frames of video that is not compressed: a Y4M stream, or raw frames without a header. */
#ifndef FOVEA_CLI_VIDEO_H
#define FOVEA_CLI_VIDEO_H

#include "cli/common/cli.h"

/* How a frame lies in the stream. */
typedef struct video_layout {
    const char *name;    /* ffmpeg's, of its pixel format */
    fovea_format format; /* of the frames that video_next gives */
    bool planar;         /* U and V are planes of their own, and are woven into one */
    bool grey;           /* Y alone, without a plane of U and V */
} video_layout;

/* What --raw says. */
typedef struct video_raw {
    const video_layout *layout;
    uint32_t width, height;
    double rate; /* frames a second; 0: unknown */
} video_raw;

typedef struct video {
    const char *path;
    FILE *file;
    bool y4m;
    video_raw of;
    fovea_yuv yuv;
    uint64_t frames; /* that were given */
    uint8_t *pixels;
    size_t luma, chroma; /* bytes of Y, or of a packed frame; bytes of U, and of V */
    fovea_frame frame;   /* in `pixels` */
} video;

/* FORMAT:WxH[@RATE], as in "nv12:1280x720@30000/1001". */
int video_raw_parse(video_raw *out, const char *text);
/* `raw` NULL: a Y4M, whose header is read. Path "-": standard input. `out->path` stays the
 * caller's. Without a failure it is to be closed. */
int video_open(video *out, const char *path, const video_raw *raw);
/* The next frame is in v->frame until the next call; *there false: the video ended after a whole
 * one. */
int video_next(video *v, bool *there);
void video_close(video *v);

#endif
