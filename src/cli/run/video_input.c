/* video_input.c: reads Y4M, PPM and raw video, frame by frame, into one buffer. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/interrupt.h"
#include "cli/run/video_input.h"

#define PIXELS_MAX (UINT64_C(1) << 28)
enum { LINE_MAX_BYTES = 1024 };

/* Parses `text` up to `end` as a whole number. Returns 0 if it is not one. */
static uint32_t whole_number(const char *text, char end)
{
    uint64_t v = 0;
    for (; *text >= '0' && *text <= '9' && v < PIXELS_MAX; text++)
        v = v * 10 + (uint64_t)(*text - '0');
    return *text == end ? (uint32_t)v : 0;
}

/* ---- what --raw says ---- */

/* Parses a rate such as "30", "29.97" or "30000/1001". */
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

/* Finds the pixel layout for ffmpeg's name of it. With more than 8 bits, the name may end with
 * "le". */
static int find_layout(fovea_layout *out, const char *name)
{
    const char *known;
    const size_t given = strlen(name);
    char *all = cli_text("ppm");
    for (size_t i = 0; (known = fovea_layout_name(i)); i++) {
        const size_t whole = strlen(known), least = whole - (cli_ends_with(known, "le") ? 2 : 0);
        if ((given == whole || given == least) && strncmp(name, known, given) == 0) {
            *out = (fovea_layout)i;
            free(all);
            return CLI_OK;
        }
        char *longer = cli_text("%s, %s", all, known);
        free(all);
        all = longer;
    }
    char *shown = cli_printable(name);
    const int code = cli_fail(CLI_USAGE, "--raw %s: the format must be one of %s", shown, all);
    free(shown);
    free(all);
    return code;
}

int video_raw_parse(video_raw *out, const char *text)
{
    const char *colon = strchr(text, ':'), *by = colon ? strchr(colon, 'x') : NULL;
    const char *at = strchr(text, '@');
    *out = (video_raw){.width = by ? whole_number(colon + 1, 'x') : 0,
                       .height = by ? whole_number(by + 1, at ? '@' : 0) : 0,
                       .ppm = strncmp(text, "ppm", 3) == 0 && (!text[3] || text[3] == '@')};
    if (!out->ppm && (!out->width || !out->height))
        return cli_fail(
            CLI_USAGE,
            "--raw %s: it must be FORMAT:WxH[@RATE], such as nv12:1280x720@30, or ppm[@RATE]",
            text);
    char *name = out->ppm ? NULL : cli_text("%.*s", (int)(colon - text), text);
    int code = name ? find_layout(&out->layout, name) : CLI_OK;
    free(name);
    if (at)
        CLI_THEN(code, parse_rate(&out->rate, at + 1));
    return code;
}

/* ---- room ---- */

/* Allocates a buffer for one frame as read, followed by a buffer for the converted frame. */
static int allocate(video *v)
{
    const uint64_t w = v->of.width, h = v->of.height;
    fovea_layout_info *l = &v->layout;
    if (w < 1 || h < 1 || w > PIXELS_MAX || h > PIXELS_MAX || w * h > PIXELS_MAX)
        return cli_fail(CLI_INPUT,
                        "%s: frames have %llux%llu pixels; they must have from 1 to 2^28 pixels",
                        v->path, (unsigned long long)w, (unsigned long long)h);
    *l = (fovea_layout_info)FOVEA_LAYOUT_INFO_INIT;
    if (fovea_layout_query(v->of.layout, v->of.width, v->of.height, v->yuv, l))
        return cli_fail(CLI_INPUT, "%s: %s", v->path, fovea_error());
    v->coded = 0;
    for (uint32_t p = 0; p < l->planes; p++)
        v->coded += l->bytes[p] * l->rows[p] * v->sample;
    free(v->pixels);
    v->pixels = malloc(v->coded + l->buffer_size);
    if (!v->pixels)
        return cli_fail(CLI_INPUT, "%s: not enough memory for frames of %llux%llu pixels", v->path,
                        (unsigned long long)w, (unsigned long long)h);
    return CLI_OK;
}

static int ended_early(const video *v, size_t got, size_t whole)
{
    const unsigned long long frame = v->frames;
    /* the writer of the pipe received the same Ctrl-C, or the signal ended the read */
    if (interrupt_code())
        return interrupt_code();
    if (ferror(v->file))
        return cli_fail(CLI_INPUT, "%s: frame %llu cannot be read: %s", v->path, frame,
                        strerror(errno));
    return cli_fail(CLI_INPUT, "%s ends in frame %llu, after %zu of its %zu bytes", v->path, frame,
                    got, whole);
}

/* ---- Y4M ---- */

/* Reads a line without its line feed, and returns its length: 0 at the end of the file,
 * LINE_MAX_BYTES if the line is too long. */
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

static int choose_chroma(video *v, const char *name, fovea_colours *colours)
{
    static const struct {
        const char *name;
        fovea_layout layout;
        fovea_siting siting;
    } known[] = {
        {"420", FOVEA_LAYOUT_I420, FOVEA_SITING_UNKNOWN},
        {"420jpeg", FOVEA_LAYOUT_I420, FOVEA_SITING_CENTRE},
        {"420mpeg2", FOVEA_LAYOUT_I420, FOVEA_SITING_LEFT},
        {"420paldv", FOVEA_LAYOUT_I420, FOVEA_SITING_TOP_LEFT},
        {"420p10", FOVEA_LAYOUT_I420P10, FOVEA_SITING_UNKNOWN},
        {"420p12", FOVEA_LAYOUT_I420P12, FOVEA_SITING_UNKNOWN},
        {"420p16", FOVEA_LAYOUT_I420P16, FOVEA_SITING_UNKNOWN},
        {"422", FOVEA_LAYOUT_I422, FOVEA_SITING_UNKNOWN},
        {"422p10", FOVEA_LAYOUT_I422P10, FOVEA_SITING_UNKNOWN},
        {"422p12", FOVEA_LAYOUT_I422P12, FOVEA_SITING_UNKNOWN},
        {"422p16", FOVEA_LAYOUT_I422P16, FOVEA_SITING_UNKNOWN},
        {"444", FOVEA_LAYOUT_I444, FOVEA_SITING_UNKNOWN},
        {"444p10", FOVEA_LAYOUT_I444P10, FOVEA_SITING_UNKNOWN},
        {"444p12", FOVEA_LAYOUT_I444P12, FOVEA_SITING_UNKNOWN},
        {"444p16", FOVEA_LAYOUT_I444P16, FOVEA_SITING_UNKNOWN},
        {"411", FOVEA_LAYOUT_I411, FOVEA_SITING_UNKNOWN},
        {"mono", FOVEA_LAYOUT_GRAY, FOVEA_SITING_UNKNOWN},
        {"mono10", FOVEA_LAYOUT_GRAY10, FOVEA_SITING_UNKNOWN},
        {"mono12", FOVEA_LAYOUT_GRAY12, FOVEA_SITING_UNKNOWN},
        {"mono16", FOVEA_LAYOUT_GRAY16, FOVEA_SITING_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0) {
            v->of.layout = known[i].layout;
            colours->siting = known[i].siting;
            return CLI_OK;
        }
    char *shown = cli_printable(name);
    const int code = cli_fail(CLI_INPUT,
                              "%s is a Y4M with chroma %s; 4:2:0, 4:2:2, 4:4:4 and mono of 8, 10, "
                              "12 or 16 bits and 4:1:1 are supported; use ffmpeg -pix_fmt yuv444p",
                              v->path, shown);
    free(shown);
    return code;
}

static int read_parameter(video *v, const char *word, fovea_colours *colours)
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
        return choose_chroma(v, word + 1, colours);
    case 'X':
        if (strcmp(word, "XCOLORRANGE=FULL") == 0)
            colours->range = FOVEA_RANGE_FULL;
        else if (strcmp(word, "XCOLORRANGE=LIMITED") == 0)
            colours->range = FOVEA_RANGE_LIMITED;
        break;
    default: /* interlacing and the pixel aspect ratio are ignored */
        break;
    }
    return CLI_OK;
}

static int read_header(video *v, fovea_colours *colours)
{
    static const char magic[] = "YUV4MPEG2";
    char line[LINE_MAX_BYTES], *rest = NULL;
    const size_t n = read_line(line, v->file);
    if (n == 0)
        return cli_fail(CLI_INPUT, "%s is empty%s", v->path,
                        cli_is_stdin(v->path) ? "; ffmpeg cannot write Y4M of this video: use -f "
                                                "image2pipe -c:v ppm in ffmpeg, and --raw ppm here"
                                              : "");
    if (n == LINE_MAX_BYTES || memcmp(line, magic, sizeof magic - 1) != 0)
        return cli_fail(CLI_INPUT,
                        "%s does not begin with a Y4M header, a line that starts with %s", v->path,
                        magic);
    v->of.layout = FOVEA_LAYOUT_I420;
    strtok_r(line, " ", &rest);
    for (const char *word; (word = strtok_r(NULL, " ", &rest));)
        CLI_TRY(read_parameter(v, word, colours));
    return CLI_OK;
}

/* Reads the line before a frame. */
static int begin_y4m(video *v, bool *there)
{
    char line[LINE_MAX_BYTES];
    const size_t n = read_line(line, v->file);
    *there = n > 0;
    if (n == 0)
        return ferror(v->file) ? ended_early(v, 0, 0) : CLI_OK;
    if (n < LINE_MAX_BYTES && strncmp(line, "FRAME", 5) == 0 && (line[5] == 0 || line[5] == ' '))
        return CLI_OK;
    return cli_fail(CLI_INPUT, "%s: frame %llu does not begin with a FRAME line", v->path,
                    (unsigned long long)v->frames);
}

/* ---- PPM ---- */

static bool is_blank(int c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Returns the next number of a PPM header, after blanks and comments, or 0 if there is none. Also
 * consumes the character after the number. */
static uint32_t header_number(FILE *from)
{
    uint64_t n = 0;
    bool comment = false;
    int c = getc(from);
    while (c != EOF && (comment || is_blank(c) || c == '#')) {
        comment = c == '#' || (comment && c != '\n');
        c = getc(from);
    }
    for (; c >= '0' && c <= '9' && n < PIXELS_MAX; c = getc(from))
        n = n * 10 + (uint64_t)(c - '0');
    return is_blank(c) ? (uint32_t)n : 0;
}

/* Reads the header of a PPM frame, whose size may differ from the previous frame's. */
static int begin_ppm(video *v, bool *there)
{
    const video before = *v;
    const int first = getc(v->file);
    *there = first != EOF;
    if (!*there)
        return ferror(v->file) ? ended_early(v, 0, 0) : CLI_OK;
    const bool ppm = first == 'P' && getc(v->file) == '6';
    v->of.width = ppm ? header_number(v->file) : 0;
    v->of.height = v->of.width ? header_number(v->file) : 0;
    const uint32_t white = v->of.height ? header_number(v->file) : 0;
    if (white != UINT8_MAX && white != UINT16_MAX)
        return cli_fail(CLI_INPUT,
                        "%s: frame %llu is not a binary PPM of 8 or 16 bits, as ffmpeg -f "
                        "image2pipe -c:v ppm writes",
                        v->path, (unsigned long long)v->frames);
    v->sample = white == UINT16_MAX ? 2 : 1;
    const bool same = v->pixels && before.of.width == v->of.width &&
                      before.of.height == v->of.height && before.sample == v->sample;
    return same ? CLI_OK : allocate(v);
}

/* Converts big-endian 16-bit numbers to bytes. */
static void narrow(uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t value = (uint32_t)bytes[2 * i] << 8 | bytes[2 * i + 1];
        bytes[i] = (uint8_t)((value * UINT8_MAX + UINT16_MAX / 2) / UINT16_MAX);
    }
}

/* ---- frames ---- */

int video_open(video *out, const char *path, const video_raw *raw, int yuv)
{
    fovea_colours colours = FOVEA_COLOURS_INIT;
    *out = (video){.path = path, .y4m = !raw, .sample = 1};
    out->file = cli_is_stdin(path) ? stdin : fopen(path, "rb");
    if (!out->file)
        return cli_fail(CLI_INPUT, "%s: %s", path, strerror(errno));
    if (raw)
        out->of = *raw;
    int code = raw ? CLI_OK : read_header(out, &colours);
    colours.layout = out->of.layout;
    colours.height = out->of.height;
    CLI_THEN(code, cli_check(fovea_yuv_matrix_choose(&out->yuv, &colours)));
    if (yuv >= 0)
        out->yuv = (fovea_yuv_matrix)yuv;
    if (!out->of.ppm)
        CLI_THEN(code, allocate(out));
    if (code)
        video_close(out);
    return code;
}

/* Converts the frame in v->pixels to the format of the plan. */
static int convert(video *v)
{
    const fovea_layout_info *l = &v->layout;
    const uint8_t *end = v->pixels + v->coded + l->buffer_size;
    fovea_frame coded = {{v->pixels}, {l->bytes[0], l->bytes[1], l->bytes[2]}};
    for (uint32_t p = 1; p < l->planes; p++)
        coded.pixels[p] = (const uint8_t *)coded.pixels[p - 1] + l->bytes[p - 1] * l->rows[p - 1];
    CLI_TRY(
        cli_check(fovea_layout_convert(&v->frame, &coded, v->of.layout, v->of.width, v->of.height,
                                       v->yuv, v->pixels + v->coded, l->buffer_size)));
    v->bytes = (size_t)(end - (const uint8_t *)v->frame.pixels[0]);
    return CLI_OK;
}

int video_next(video *v, bool *there)
{
    *there = true;
    if (v->y4m || v->of.ppm)
        CLI_TRY(v->y4m ? begin_y4m(v, there) : begin_ppm(v, there));
    if (!*there)
        return CLI_OK;
    const size_t got = fread(v->pixels, 1, v->coded, v->file);
    if (got == 0 && !v->y4m && !v->of.ppm && !ferror(v->file)) {
        *there = false;
        return CLI_OK;
    }
    if (got < v->coded)
        return ended_early(v, got, v->coded);
    if (v->sample == 2)
        narrow(v->pixels, v->coded / 2);
    CLI_TRY(convert(v));
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
