/* video.c: Y4M and raw video, frame by frame, into one buffer. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/interrupt.h"
#include "cli/run/video.h"

#define PIXELS_MAX (UINT64_C(1) << 28)
enum { LINE_MAX_BYTES = 1024, GREY = 128 };

static const video_layout layouts[] = {
    {"rgb24", FOVEA_FORMAT_RGB8, false, false},   {"bgr24", FOVEA_FORMAT_BGR8, false, false},
    {"gray", FOVEA_FORMAT_GRAY8, false, false},   {"yuyv422", FOVEA_FORMAT_YUYV, false, false},
    {"yuv420p", FOVEA_FORMAT_NV12, true, false},  {"nv12", FOVEA_FORMAT_NV12, false, false},
    {"y4m gray", FOVEA_FORMAT_NV12, false, true},
};
enum { YUV420P = 4, Y4M_GREY = 6 }; /* places; --raw names those before the last */

static const char *const raw_names[] = {"rgb24",   "bgr24", "gray", "yuyv422",
                                        "yuv420p", "nv12",  NULL};

/* All of `text` up to `end`; 0 where it is no number. */
static uint32_t whole_number(const char *text, char end)
{
    uint64_t v = 0;
    for (; *text >= '0' && *text <= '9' && v < PIXELS_MAX; text++)
        v = v * 10 + (uint64_t)(*text - '0');
    return *text == end ? (uint32_t)v : 0;
}

/* ---- what --raw says ---- */

/* "30", "29.97", "30000/1001" */
static int parse_rate(double *out, const char *text)
{
    const char *slash = strchr(text, '/');
    double parts[2] = {0, 1};
    char *first = cli_text("%.*s", (int)(slash ? (size_t)(slash - text) : strlen(text)), text);
    int code = cli_real(&parts[0], "raw", first, 1e-6, 1e9);
    if (slash)
        CLI_THEN(code, cli_real(&parts[1], "raw", slash + 1, 1e-6, 1e9));
    *out = parts[0] / parts[1];
    free(first);
    return code;
}

int video_raw_parse(video_raw *out, const char *text)
{
    const char *colon = strchr(text, ':'), *by = colon ? strchr(colon, 'x') : NULL;
    const char *at = strchr(text, '@');
    int which = 0;
    *out = (video_raw){.width = by ? whole_number(colon + 1, 'x') : 0,
                       .height = by ? whole_number(by + 1, at ? '@' : 0) : 0};
    if (!out->width || !out->height)
        return cli_fail(CLI_USAGE, "--raw %s: FORMAT:WxH[@RATE], as in nv12:1280x720@30", text);
    char *name = cli_text("%.*s", (int)(colon - text), text);
    int code = cli_choose(&which, "raw", name, raw_names);
    free(name);
    out->layout = &layouts[which];
    if (at)
        CLI_THEN(code, parse_rate(&out->rate, at + 1));
    return code;
}

/* ---- Y4M ---- */

/* A line without its end; returns its bytes, 0 at the end of the file, and LINE_MAX_BYTES of what
 * is no line. */
static size_t read_line(char line[LINE_MAX_BYTES], FILE *from)
{
    size_t n = 0;
    for (int c; n + 1 < LINE_MAX_BYTES && (c = getc(from)) != EOF; n++) {
        if (c == '\n') {
            line[n] = 0;
            return n + 1;
        }
        line[n] = (char)c;
    }
    return n ? LINE_MAX_BYTES : 0;
}

static int choose_chroma(video *v, const char *name)
{
    static const char *const known[] = {"420", "420jpeg", "420mpeg2", "420paldv"};
    v->of.layout = strcmp(name, "mono") == 0 ? &layouts[Y4M_GREY] : NULL;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i]) == 0)
            v->of.layout = &layouts[YUV420P];
    if (v->of.layout)
        return CLI_OK;
    char *shown = cli_printable(name);
    const int code = cli_fail(CLI_INPUT,
                              "%s: is a Y4M with chroma %s; 4:2:0 and mono are read, and ffmpeg "
                              "writes that with -pix_fmt yuv420p",
                              v->path, shown);
    free(shown);
    return code;
}

static int read_parameter(video *v, const char *word, bool *full)
{
    const char *colon = strchr(word, ':');
    switch (*word) {
    case 'W':
        v->of.width = whole_number(word + 1, 0);
        break;
    case 'H':
        v->of.height = whole_number(word + 1, 0);
        break;
    case 'F': {
        const uint32_t above = whole_number(word + 1, ':');
        const uint32_t below = colon ? whole_number(colon + 1, 0) : 0;
        v->of.rate = below ? above / (double)below : 0;
        break;
    }
    case 'C':
        return choose_chroma(v, word + 1);
    case 'X':
        *full |= strcmp(word, "XCOLORRANGE=FULL") == 0;
        break;
    default: /* interlacing and the shape of pixels change nothing */
        break;
    }
    return CLI_OK;
}

static int read_header(video *v)
{
    static const char magic[] = "YUV4MPEG2";
    char line[LINE_MAX_BYTES], *rest = NULL;
    const size_t n = read_line(line, v->file);
    bool full = false;
    if (n == 0)
        return cli_fail(CLI_INPUT, "%s: is empty", v->path);
    if (n == LINE_MAX_BYTES || memcmp(line, magic, sizeof magic - 1) != 0)
        return cli_fail(CLI_INPUT, "%s: does not begin as a Y4M does, with a line of %s", v->path,
                        magic);
    v->of.layout = &layouts[YUV420P];
    strtok_r(line, " ", &rest);
    for (const char *word; (word = strtok_r(NULL, " ", &rest));)
        CLI_TRY(read_parameter(v, word, &full));
    const bool fine = v->of.height >= 720; /* what is that large is BT.709 */
    v->yuv = fine ? (full ? FOVEA_YUV_709_FULL : FOVEA_YUV_709)
                  : (full ? FOVEA_YUV_601_FULL : FOVEA_YUV_601);
    return CLI_OK;
}

/* ---- frames ---- */

/* Room for one frame, and behind it for the planes of U and V before they are woven. */
static int make_room(video *v)
{
    const uint64_t w = v->of.width, h = v->of.height, across = (w + 1) / 2, down = (h + 1) / 2;
    const video_layout *l = v->of.layout;
    if (w < 1 || h < 1 || w > PIXELS_MAX || h > PIXELS_MAX || w * h > PIXELS_MAX)
        return cli_fail(CLI_INPUT, "%s: frames of %llux%llu pixels; 1 to 2^28 pixels can be read",
                        v->path, (unsigned long long)w, (unsigned long long)h);
    const uint64_t row = l->format == FOVEA_FORMAT_YUYV ? 4 * across
                         : l->format == FOVEA_FORMAT_RGB8 || l->format == FOVEA_FORMAT_BGR8 ? 3 * w
                                                                                            : w;
    v->luma = (size_t)(row * h);
    v->chroma = l->format == FOVEA_FORMAT_NV12 ? (size_t)(across * down) : 0;
    v->pixels = malloc(v->luma + 4 * v->chroma);
    if (!v->pixels)
        return cli_fail(CLI_INPUT, "%s: no memory for frames of %llux%llu pixels", v->path,
                        (unsigned long long)w, (unsigned long long)h);
    if (l->grey)
        memset(v->pixels + v->luma, GREY, 2 * v->chroma);
    v->frame = (fovea_frame){.pixels = {v->pixels, v->chroma ? v->pixels + v->luma : NULL},
                             .stride = {(size_t)row, (size_t)(2 * across)}};
    return CLI_OK;
}

int video_open(video *out, const char *path, const video_raw *raw)
{
    *out = (video){.path = path, .y4m = !raw, .yuv = FOVEA_YUV_601};
    out->file = cli_is_stdin(path) ? stdin : fopen(path, "rb");
    if (!out->file)
        return cli_fail(CLI_INPUT, "%s: %s", path, strerror(errno));
    if (raw) {
        out->of = *raw;
        out->yuv = raw->height >= 720 ? FOVEA_YUV_709 : FOVEA_YUV_601;
    }
    int code = raw ? CLI_OK : read_header(out);
    CLI_THEN(code, make_room(out));
    if (code)
        video_close(out);
    return code;
}

static int ended_early(const video *v, size_t got, size_t whole)
{
    const unsigned long long frame = v->frames;
    if (interrupt_code()) /* the pipe's writer got the same Ctrl-C, or the read ended by it */
        return interrupt_code();
    if (ferror(v->file))
        return cli_fail(CLI_INPUT, "%s: frame %llu cannot be read: %s", v->path, frame,
                        strerror(errno));
    return cli_fail(CLI_INPUT, "%s: ends in frame %llu, after %zu of its %zu bytes", v->path, frame,
                    got, whole);
}

/* The line before a frame. */
static int begin_frame(video *v, bool *there)
{
    char line[LINE_MAX_BYTES];
    const size_t n = read_line(line, v->file);
    *there = n > 0;
    if (n == 0)
        return ferror(v->file) ? ended_early(v, 0, 0) : CLI_OK;
    if (n < LINE_MAX_BYTES && strncmp(line, "FRAME", 5) == 0 && (line[5] == 0 || line[5] == ' '))
        return CLI_OK;
    return cli_fail(CLI_INPUT, "%s: frame %llu does not begin with a line of FRAME", v->path,
                    (unsigned long long)v->frames);
}

static void weave(uint8_t *to, const uint8_t *u, const uint8_t *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[2 * i] = u[i];
        to[2 * i + 1] = v[i];
    }
}

int video_next(video *v, bool *there)
{
    const video_layout *l = v->of.layout;
    const size_t colours = l->grey ? 0 : 2 * v->chroma;
    uint8_t *planes = v->pixels + v->luma + (l->planar ? 2 * v->chroma : 0);
    *there = true;
    CLI_TRY(v->y4m ? begin_frame(v, there) : CLI_OK);
    if (!*there)
        return CLI_OK;
    size_t got = fread(v->pixels, 1, v->luma, v->file);
    if (got == v->luma && colours)
        got += fread(planes, 1, colours, v->file);
    if (got == 0 && !v->y4m && !ferror(v->file)) {
        *there = false;
        return CLI_OK;
    }
    if (got < v->luma + colours)
        return ended_early(v, got, v->luma + colours);
    if (l->planar)
        weave(v->pixels + v->luma, planes, planes + v->chroma, v->chroma);
    v->frames++;
    return CLI_OK;
}

void video_close(video *v)
{
    if (v->file && v->file != stdin)
        fclose(v->file);
    free(v->pixels);
    v->pixels = NULL;
    v->file = NULL;
}
