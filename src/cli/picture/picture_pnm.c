/* picture_pnm.c: reads PBM, PGM and PPM, in text or binary and with any maximum value, and PFM with
 * one channel, with the same pixels as Pillow. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/picture/picture_files.h"

enum { TOKEN = 10 }; /* most characters in a number, as in Pillow */

static bool is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Reads the next word of the header and the white space after it, and skips comments. Returns false
 * if there is no word, or if it is too long. */
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

/* Reads a whole number of the header. Returns -1 if there is none. */
static int64_t whole(struct picture_bytes *b)
{
    char text[TOKEN + 1];
    if (!word(b, text) || strspn(text, "0123456789") != strlen(text))
        return -1;
    return (int64_t)strtoll(text, NULL, 10);
}

struct pnm {
    char kind; /* the second letter of the signature */
    bool text, bits;
    size_t channels;
    int64_t width, height, top;
    double scale; /* scale of a PFM; negative if it is little-endian */
};

static int read_header(struct pnm *out, const char *path, struct picture_bytes *b)
{
    const char kind = (char)b->data[1];
    *out = (struct pnm){.kind = kind,
                        .text = kind >= '1' && kind <= '3',
                        .bits = kind == '1' || kind == '4',
                        .channels = kind == '3' || kind == '6' ? 3 : 1,
                        .top = 1};
    b->at = 2;
    out->width = whole(b);
    out->height = whole(b);
    if (out->width < 0 || out->height < 0)
        return picture_bad(path, "the header lacks width and height");
    if (kind == 'f') {
        char text[TOKEN + 1], *end = text;
        out->scale = word(b, text) ? strtod(text, &end) : 0;
        if (*end || !isfinite(out->scale) || out->scale == 0)
            return picture_bad(path, "the header lacks the scale");
    } else if (!out->bits) {
        out->top = whole(b);
        if (out->top < 1 || out->top > 65535)
            return picture_bad(path, "the maximum value in the header must be from 1 to 65535");
    }
    return CLI_OK;
}

/* ---- samples ---- */

/* Scales a sample to 0 to 255. For grey with more than 8 bits, uses the high byte of 16 bits. */
static uint8_t sample(const struct pnm *p, int64_t v)
{
    const bool deep = p->top > 255 && p->channels == 1;
    const double top = deep ? 65535 : 255, x = rint((double)v / (double)p->top * top);
    const uint32_t whole_number = x < top ? (uint32_t)x : (uint32_t)top;
    return (uint8_t)(deep ? whole_number >> 8 : whole_number);
}

/* Returns the next number of a text file, or for PBM the next digit, or -1 if there is none. */
static int64_t number(const struct pnm *p, struct picture_bytes *b)
{
    size_t digits = 0;
    int64_t v = 0;
    for (; b->at < b->size; b->at++) {
        const uint8_t c = b->data[b->at];
        if (c == '#') {
            while (b->at < b->size && b->data[b->at] != '\n' && b->data[b->at] != '\r')
                b->at++;
        } else if (is_space(c)) {
            if (digits)
                break;
        } else {
            if (c < '0' || c > '9' || ++digits > TOKEN)
                return -1;
            v = v * 10 + c - '0';
            if (p->bits) {
                b->at++;
                break;
            }
        }
    }
    return digits ? v : -1;
}

/* Reads the samples of a text file. With `stored`, samples keep the values of the file, which then
 * have at most 8 bits. */
static int read_text(uint8_t *to, size_t samples, const struct pnm *p, struct picture_bytes *b,
                     bool stored, const char *path)
{
    for (size_t i = 0; i < samples; i++) {
        const int64_t v = number(p, b);
        if (v > p->top)
            return picture_bad(path, "a pixel exceeds the maximum value in the header");
        if (v < 0)
            return picture_bad(
                path, b->at < b->size ? "the pixels contain other characters than digits and spaces"
                                      : "the file ends early");
        to[i] = p->bits ? (uint8_t)(v ? 0 : 255) : stored ? (uint8_t)v : sample(p, v);
    }
    return CLI_OK;
}

static void read_bits(uint8_t *to, const uint8_t *from, const struct pnm *p)
{
    const size_t width = (size_t)p->width, row = (width + 7) / 8;
    for (size_t y = 0; y < (size_t)p->height; y++, from += row)
        for (size_t x = 0; x < width; x++)
            *to++ = from[x / 8] >> (7 - x % 8) & 1 ? 0 : 255;
}

/* Reads the rows of a PFM from the bottom up, clamped to 0 to 255. */
static void read_floats(uint8_t *to, const uint8_t *from, const struct pnm *p)
{
    const size_t width = (size_t)p->width, height = (size_t)p->height;
    for (size_t i = 0; i < width * height; i++, from += 4) {
        uint32_t bits = 0;
        float v;
        for (int k = 0; k < 4; k++)
            bits = bits << 8 | from[p->scale < 0 ? 3 - k : k];
        memcpy(&v, &bits, sizeof v);
        to[(height - 1 - i / width) * width + i % width] = picture_cut(v);
    }
}

static int read_samples(uint8_t *to, const struct pnm *p, struct picture_bytes *b, bool stored,
                        const char *path)
{
    const size_t samples = (size_t)(p->width * p->height) * p->channels;
    const size_t bytes = p->kind == 'f' ? 4 : p->top > 255 ? 2 : 1;
    const size_t size = p->bits ? (size_t)(p->width + 7) / 8 * (size_t)p->height : samples * bytes;
    if (p->text)
        return read_text(to, samples, p, b, stored, path);
    if (b->size - b->at < size)
        return picture_bad(path, "the file ends early");
    const uint8_t *from = b->data + b->at;
    if (p->bits)
        read_bits(to, from, p);
    else if (p->kind == 'f')
        read_floats(to, from, p);
    else if (p->top == 255 || stored)
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
    if (classes && (p.bits || p.kind == 'f' || p.channels != 1 || p.top > 255))
        return picture_bad(path, "the file is not a PGM of 8 bits, as masks of classes must be");
    CLI_TRY(picture_begin(out, path, b, (uint64_t)p.width, (uint64_t)p.height, 8));
    CLI_TRY(read_samples(out->rgb, &p, b, classes, path));
    if (!classes && p.channels == 1)
        picture_spread_grey(out->rgb, (size_t)out->width * out->height);
    return CLI_OK;
}
