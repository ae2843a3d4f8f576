/* fuzz_video.c: reads arbitrary bytes as Y4M and as raw video. */
#include <stdio.h>
#include <string.h>

#include "cli/run/video_input.h"
#include "tests/fuzz/fuzz.h"

/* ---- the target ---- */

static const char *path(void)
{
    static char text[128];
    snprintf(text, sizeof text, "%s/video", fuzz_folder());
    return text;
}

/* Returns whether the file contained a frame. */
static bool play(const video_raw *raw)
{
    video v;
    bool there = true;
    if (video_open(&v, path(), raw, -1) != CLI_OK)
        return false;
    while (video_next(&v, &there) == CLI_OK && there) {
        const size_t rows = v.of.height;
        fuzz_look_at(v.frame.pixels[0], v.bytes);
        fuzz_look_at(v.frame.pixels[0], v.frame.stride[0] * rows);
        if (v.layout.format == FOVEA_FORMAT_NV12)
            fuzz_look_at(v.frame.pixels[1], v.frame.stride[1] * ((rows + 1) / 2));
    }
    const bool some = v.frames > 0;
    video_close(&v);
    return some;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const raw[] = {"rgb24:3x2",   "yuyv422:3x1",   "yuv420p:3x3",
                                      "nv12:3x3@25", "yuv444p10:3x1", "ppm"};
    video_raw of;
    fuzz_write("video", data, size, 0);
    bool taken = play(NULL);
    for (size_t i = 0; i < sizeof raw / sizeof *raw; i++) {
        fuzz_check(video_raw_parse(&of, raw[i]) == CLI_OK, raw[i]);
        taken |= play(&of) && of.ppm;
    }
    char text[64];
    snprintf(text, sizeof text, "%.*s", (int)(size < 63 ? size : 63), (const char *)data);
    taken |= video_raw_parse(&of, text) == CLI_OK;
    fuzz_taken += taken;
    return 0;
}

/* ---- seeds ---- */

size_t fuzz_seed(size_t index, uint8_t *out, size_t capacity)
{
    static const char *const seeds[] = {
        "YUV4MPEG2 W3 H3 F30:1 C420jpeg XCOLORRANGE=FULL\nFRAME Ip\n012345678uuuuvvvv",
        "YUV4MPEG2 W5 H2 F30000:1001 Cmono\nFRAME\n0123456789FRAME\n0123456789",
        "YUV4MPEG2 W3 H1 F30:1 C422p10 XCOLORRANGE=LIMITED\nFRAME\n0a1b2cu0u1v0v1",
        "YUV4MPEG2 W2 H2 C444\nFRAME\nyyyyuuuuvvvv",
        "P6\n# a comment\n2 1\n255\nrgbrgbP6 1 2\n65535\nrrggbbrrggbb",
        "nv12:1280x720@30000/1001",
    };
    if (index >= sizeof seeds / sizeof *seeds)
        return 0;
    return (size_t)snprintf((char *)out, capacity, "%s", seeds[index]);
}
