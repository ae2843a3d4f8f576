/* picture_pnm.c: binary PGM and PPM with any largest value, as Pillow reads them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/picture/picture_files.h"

enum { TOKEN = 10 }; /* characters of a number at most, as Pillow has it */

static bool is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The next word of the header, which one white space ends; comments may be anywhere. false: there
 * is none, or it is too long. */
static bool word(struct picture_bytes *b, char out[TOKEN + 1])
{
    size_t n = 0;
    for (; b->at < b->size && n <= TOKEN; b->at++) {
        const uint8_t c = b->data[b->at];
        if (c == '#') {
            while (b->at < b->size && b->data[b->at] != '\n' && b->data[b->at] != '\r')
                b->at++;
        } else if (!is_space(c)) {
            if (n < TOKEN)
                out[n] = (char)c;
            n++;
        } else if (n) {
            b->at++;
            break;
        }
    }
    if (n > TOKEN)
        return false;
    out[n] = 0;
    return n > 0;
}

/* -1: there is no number. */
static int64_t whole(struct picture_bytes *b)
{
    char text[TOKEN + 1];
    if (!word(b, text) || strspn(text, "0123456789") != strlen(text))
        return -1;
    return (int64_t)strtoll(text, NULL, 10);
}

struct pnm {
    size_t channels;
    int64_t width, height, top;
};

static int read_header(struct pnm *out, const char *path, struct picture_bytes *b)
{
    *out = (struct pnm){.channels = b->data[1] == '6' ? 3 : 1};
    b->at = 2;
    out->width = whole(b);
    out->height = whole(b);
    if (out->width < 0 || out->height < 0)
        return picture_bad(path, "has a header without its width and height");
    out->top = whole(b);
    if (out->top < 1 || out->top > 65535)
        return picture_bad(path, "has a largest value that is not in 1 to 65535");
    return CLI_OK;
}

/* ---- samples ---- */

/* 0 to 255. Of grey with more than 8 bits the high byte of 16. */
static uint8_t sample(const struct pnm *p, int64_t v)
{
    const bool deep = p->top > 255 && p->channels == 1;
    const double top = deep ? 65535 : 255, x = rint((double)v / (double)p->top * top);
    const uint32_t whole_number = x < top ? (uint32_t)x : (uint32_t)top;
    return (uint8_t)(deep ? whole_number >> 8 : whole_number);
}

static int read_samples(uint8_t *to, const struct pnm *p, const struct picture_bytes *b,
                        bool stored, const char *path)
{
    const size_t samples = (size_t)(p->width * p->height) * p->channels;
    const size_t bytes = p->top > 255 ? 2 : 1;
    if (b->size - b->at < samples * bytes)
        return picture_bad(path, "the file ends early");
    const uint8_t *from = b->data + b->at;
    if (p->top == 255 || stored)
        memcpy(to, from, samples);
    else
        for (size_t i = 0; i < samples; i++)
            to[i] = sample(p, bytes == 1 ? from[i] : from[2 * i] << 8 | from[2 * i + 1]);
    return CLI_OK;
}

int picture_read_pnm(cli_image *out, const char *path, struct picture_bytes *b,
                     enum picture_what what)
{
    struct pnm p;
    CLI_TRY(read_header(&p, path, b));
    const bool classes = what == PICTURE_INDICES;
    if (classes && (p.channels != 1 || p.top > 255))
        return picture_bad(path, "is no PGM of 8 bits, as classes are");
    CLI_TRY(picture_begin(out, path, b, (uint64_t)p.width, (uint64_t)p.height, 1));
    CLI_TRY(read_samples(out->rgb, &p, b, classes, path));
    if (!classes && p.channels == 1)
        picture_spread_grey(out->rgb, (size_t)out->width * out->height);
    return CLI_OK;
}
