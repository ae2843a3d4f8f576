/* picture_tiff.c: reads TIFF with libtiff, with the same pixels as Pillow.
 *
 * libtiff's own conversion to colours is used only for Y, Cb, Cr. For all others its colours differ
 * from Pillow's, so this file reads strips and tiles as samples, and converts rows of samples to
 * colours. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#ifdef CLI_TIFF
#include <tiffio.h>
#endif

#include "cli/picture/orientation.h"
#include "cli/picture/picture_files.h"

#ifdef CLI_TIFF

/* ---- a file in memory, and libtiff's first error about it ---- */

struct source {
    const uint8_t *data;
    uint64_t size, at;
    char fault[128];
};

static tmsize_t take(thandle_t handle, void *to, tmsize_t n)
{
    struct source *s = handle;
    const uint64_t left = s->at < s->size ? s->size - s->at : 0;
    const uint64_t got = n < 0 ? 0 : (uint64_t)n < left ? (uint64_t)n : left;
    memcpy(to, s->data + (left ? s->at : 0), (size_t)got);
    s->at += got;
    return (tmsize_t)got;
}

static tmsize_t put(thandle_t handle, void *from, tmsize_t n)
{
    (void)handle, (void)from, (void)n;
    return 0;
}

static toff_t seek(thandle_t handle, toff_t to, int whence)
{
    struct source *s = handle;
    s->at = whence == SEEK_SET ? to : whence == SEEK_CUR ? s->at + to : s->size + to;
    return s->at;
}

static int done(thandle_t handle)
{
    (void)handle;
    return 0;
}

static toff_t size(thandle_t handle)
{
    return ((struct source *)handle)->size;
}

static void failed(thandle_t handle, const char *module, const char *format, va_list args)
{
    struct source *s = handle;
    (void)module;
    if (s && !*s->fault)
        vsnprintf(s->fault, sizeof s->fault, format, args);
}

static int fault(const char *path, const struct source *s)
{
    return picture_bad(path, *s->fault ? s->fault : "this TIFF cannot be read");
}

/* ---- what the samples mean ---- */

enum { SAMPLES_MOST = 6 };
enum alpha { NO_ALPHA, ALPHA, MULTIPLIED }; /* MULTIPLIED: the colours are premultiplied by alpha */

struct tiff {
    TIFF *file;
    struct source *source;
    const char *path;
    uint32_t width, height;
    uint16_t photometric, bits, samples, format, compression;
    uint16_t colours; /* colour samples per pixel, without alpha and other extra samples */
    enum alpha alpha;
    bool planes;      /* each sample is stored in strips or tiles of its own */
    uint16_t *map[3]; /* the palette's red, green and blue */
};

static const char *kind_name(uint16_t photometric)
{
    switch (photometric) {
    case PHOTOMETRIC_CIELAB:
    case PHOTOMETRIC_ICCLAB:
    case PHOTOMETRIC_ITULAB:
        return "LAB";
    case PHOTOMETRIC_MASK:
        return "a transparency mask";
    case PHOTOMETRIC_LOGL:
    case PHOTOMETRIC_LOGLUV:
        return "LogLuv";
    case PHOTOMETRIC_CFA:
        return "raw sensor data";
    default:
        return "unknown colours";
    }
}

static int refuse_samples(const struct tiff *t)
{
    static const char *const formats[] = {"", "unsigned", "signed", "float"};
    return cli_fail(CLI_INPUT,
                    "%s is a TIFF with %u samples of %u bits (%s), which are not supported; "
                    "convert it to 8-bit grey or RGB",
                    t->path, t->samples, t->bits,
                    t->format < 4 ? formats[t->format] : "of an unknown format");
}

static bool are_read(const struct tiff *t)
{
    const uint16_t bits = t->bits, format = t->format;
    if (t->samples < t->colours || t->samples > SAMPLES_MOST)
        return false;
    /* Pillow does not invert such values */
    if (t->photometric == PHOTOMETRIC_MINISWHITE && bits > 8)
        return false;
    if (t->photometric == PHOTOMETRIC_PALETTE)
        return format == SAMPLEFORMAT_UINT &&
               (bits == 8 || (t->samples == 1 && bits < 8 && (bits == 1 || bits % 2 == 0)));
    if (t->colours > 1)
        return format == SAMPLEFORMAT_UINT && (bits == 8 || bits == 16);
    if (t->samples > 1)
        return format == SAMPLEFORMAT_UINT && bits == 8;
    if (format == SAMPLEFORMAT_IEEEFP)
        return bits == 32;
    if (format == SAMPLEFORMAT_INT)
        return bits == 8 || bits == 16 || bits == 32;
    return bits == 1 || bits == 2 || bits == 4 || bits == 8 || bits == 12 || bits == 16 ||
           bits == 32;
}

static int describe(struct tiff *t)
{
    uint16_t *extra = NULL, extras = 0, planar = PLANARCONFIG_CONTIG;
    TIFFGetField(t->file, TIFFTAG_IMAGEWIDTH, &t->width);
    TIFFGetField(t->file, TIFFTAG_IMAGELENGTH, &t->height);
    TIFFGetField(t->file, TIFFTAG_PHOTOMETRIC, &t->photometric);
    TIFFGetFieldDefaulted(t->file, TIFFTAG_BITSPERSAMPLE, &t->bits);
    TIFFGetFieldDefaulted(t->file, TIFFTAG_SAMPLESPERPIXEL, &t->samples);
    TIFFGetFieldDefaulted(t->file, TIFFTAG_SAMPLEFORMAT, &t->format);
    TIFFGetFieldDefaulted(t->file, TIFFTAG_COMPRESSION, &t->compression);
    TIFFGetFieldDefaulted(t->file, TIFFTAG_PLANARCONFIG, &planar);
    TIFFGetFieldDefaulted(t->file, TIFFTAG_EXTRASAMPLES, &extras, &extra);
    t->planes = planar == PLANARCONFIG_SEPARATE && t->samples > 1;
    switch (t->photometric) {
    case PHOTOMETRIC_MINISWHITE:
    case PHOTOMETRIC_MINISBLACK:
    case PHOTOMETRIC_PALETTE:
        t->colours = 1;
        break;
    case PHOTOMETRIC_RGB:
    case PHOTOMETRIC_YCBCR:
        t->colours = t->samples == 1 ? 1 : 3; /* Y without colours is grey */
        break;
    case PHOTOMETRIC_SEPARATED:
        t->colours = 4;
        break;
    default:
        return cli_fail(CLI_INPUT, "%s is a TIFF of %s; convert it to RGB", t->path,
                        kind_name(t->photometric));
    }
    /* Pillow treats a fourth sample of unknown meaning as alpha. */
    if (t->samples > t->colours && t->photometric != PHOTOMETRIC_SEPARATED)
        t->alpha = extras == 0                           ? ALPHA
                   : extra[0] == EXTRASAMPLE_ASSOCALPHA  ? MULTIPLIED
                   : extra[0] == EXTRASAMPLE_UNSPECIFIED ? NO_ALPHA
                                                         : ALPHA;
    if (!are_read(t) || (t->photometric == PHOTOMETRIC_RGB && t->colours == 1))
        return refuse_samples(t);
    if (t->photometric == PHOTOMETRIC_PALETTE &&
        !TIFFGetField(t->file, TIFFTAG_COLORMAP, &t->map[0], &t->map[1], &t->map[2]))
        return picture_bad(t->path, "this TIFF has palette colours, but no palette");
    return CLI_OK;
}

/* ---- a row of samples ---- */

/* Returns sample `i` of a row whose samples are contiguous. */
static uint32_t sample(const uint8_t *row, size_t i, uint32_t bits)
{
    if (bits == 8)
        return row[i];
    if (bits == 16) {
        uint16_t v;
        memcpy(&v, row + 2 * i, sizeof v);
        return v;
    }
    if (bits == 32) {
        uint32_t v;
        memcpy(&v, row + 4 * i, sizeof v);
        return v;
    }
    if (bits == 12) {
        const uint8_t *p = row + i / 2 * 3;
        return i % 2 ? (p[1] & 15u) << 8 | p[2] : (uint32_t)p[0] << 4 | p[1] >> 4;
    }
    return row[i * bits / 8] >> (8 - bits - i * bits % 8) & ((1u << bits) - 1);
}

/* Clamps grey of more than 8 bits to 0 to 255. */
static uint8_t grey(const struct tiff *t, uint32_t v)
{
    float real;
    if (t->bits < 8)
        v = v * 255 / ((1u << t->bits) - 1);
    if (t->bits <= 8)
        return (uint8_t)(t->photometric == PHOTOMETRIC_MINISWHITE ? 255 - v : v);
    if (t->format == SAMPLEFORMAT_IEEEFP) {
        memcpy(&real, &v, sizeof real);
        return picture_cut(real);
    }
    return picture_cut(t->bits == 32                   ? (int32_t)v
                       : t->format == SAMPLEFORMAT_INT ? (int16_t)v
                                                       : (int32_t)v);
}

static void colours_of(uint8_t *to, const struct tiff *t, const uint32_t *v)
{
    const uint32_t down = t->bits == 16 ? 8 : 0;
    uint8_t c[SAMPLES_MOST], alpha = 255;
    for (uint32_t k = 0; t->colours > 1 && k < t->samples; k++)
        c[k] = (uint8_t)(v[k] >> down);
    if (t->photometric == PHOTOMETRIC_SEPARATED) {
        picture_cmyk(to, c[0], c[1], c[2], c[3]);
        return;
    }
    if (t->photometric == PHOTOMETRIC_PALETTE)
        for (int k = 0; k < 3; k++)
            c[k] = (uint8_t)(t->map[k][v[0]] >> 8);
    else if (t->colours == 1)
        c[0] = c[1] = c[2] = grey(t, v[0]);
    if (t->alpha != NO_ALPHA)
        alpha = (uint8_t)(v[t->colours] >> down);
    for (int k = 0; k < 3 && t->alpha == MULTIPLIED; k++)
        c[k] = (uint8_t)(alpha == 0 ? 0 : c[k] * 255 / alpha < 255 ? c[k] * 255 / alpha : 255);
    picture_put(to, c, alpha);
}

/* Converts a row of `width` pixels. With planes, the samples of a pixel are `plane_stride` bytes
 * from each other. */
static void convert_row(uint8_t *to, const uint8_t *from, uint32_t width, size_t plane_stride,
                        const struct tiff *t)
{
    if (t->colours == 3 && t->samples == 3 && t->bits == 8 && !t->planes) {
        memcpy(to, from, (size_t)width * 3);
        return;
    }
    for (uint32_t x = 0; x < width; x++, to += 3) {
        uint32_t v[SAMPLES_MOST];
        for (size_t k = 0; k < t->samples; k++)
            v[k] = t->planes ? sample(from + k * plane_stride, x, t->bits)
                             : sample(from, (size_t)x * t->samples + k, t->bits);
        colours_of(to, t, v);
    }
}

/* ---- strips, tiles ---- */

/* One strip or tile of each plane: its position and size in pixels, and its bytes per row and in
 * total. */
struct block {
    uint32_t x, y, width, height;
    size_t row, bytes;
};

static bool read_block(const struct tiff *t, const struct block *b, uint8_t *to)
{
    const uint16_t planes = t->planes ? t->samples : 1;
    for (uint16_t k = 0; k < planes; k++, to += b->bytes) {
        const tmsize_t got = TIFFIsTiled(t->file)
                                 ? TIFFReadTile(t->file, to, b->x, b->y, 0, k)
                                 : TIFFReadEncodedStrip(t->file, TIFFComputeStrip(t->file, b->y, k),
                                                        to, (tmsize_t)b->bytes);
        if (got < 0)
            return false;
    }
    return true;
}

static int read_blocks(const cli_image *out, const struct tiff *t)
{
    const bool tiled = TIFFIsTiled(t->file);
    uint32_t width = t->width, height = t->height;
    TIFFGetField(t->file, tiled ? TIFFTAG_TILELENGTH : TIFFTAG_ROWSPERSTRIP, &height);
    if (tiled)
        TIFFGetField(t->file, TIFFTAG_TILEWIDTH, &width);
    else if (height > t->height)
        height = t->height;
    const tmsize_t bytes = tiled ? TIFFTileSize(t->file) : TIFFStripSize(t->file);
    const tmsize_t row = tiled ? TIFFTileRowSize(t->file) : TIFFScanlineSize(t->file);
    const uint64_t wanted =
        ((uint64_t)width * t->bits * (t->planes ? 1 : t->samples) + 7) / 8; /* bytes of a row */
    if (bytes <= 0 || row <= 0 || height == 0 || width == 0 || (uint64_t)row < wanted ||
        (uint64_t)bytes / height < wanted)
        return fault(t->path, t->source);
    /* Only tiles at the border can be larger than the picture. */
    if ((uint64_t)width * height > (uint64_t)t->width * t->height + (UINT64_C(1) << 22))
        return picture_bad(t->path, "this TIFF has tiles that are larger than the picture");
    uint8_t *samples = malloc((size_t)bytes * (t->planes ? t->samples : 1));
    if (!samples)
        return picture_bad(t->path, "not enough memory for the pixels");
    bool read = true;
    for (uint32_t y = 0; read && y < t->height; y += height)
        for (uint32_t x = 0; read && x < t->width; x += width) {
            const struct block b = {x, y, width, height, (size_t)row, (size_t)bytes};
            const uint32_t columns = t->width - x < width ? t->width - x : width;
            read = read_block(t, &b, samples);
            for (uint32_t i = 0; read && i < height && y + i < t->height; i++)
                convert_row(out->rgb + ((size_t)(y + i) * t->width + x) * 3, samples + i * b.row,
                            columns, b.bytes, t);
        }
    free(samples);
    if (read && t->colours == 1 && t->photometric != PHOTOMETRIC_PALETTE && t->bits > 8)
        picture_tell_deep(t->path, t->bits);
    return read ? CLI_OK : fault(t->path, t->source);
}

/* Reads Y, Cb, Cr, where several pixels may share their colour samples. */
static int read_by_libtiff(const cli_image *out, const struct tiff *t)
{
    const size_t pixels = (size_t)t->width * t->height;
    uint32_t *raster = malloc(pixels * sizeof *raster);
    if (!raster)
        return picture_bad(t->path, "not enough memory for the pixels");
    /* the caller applies the orientation */
    TIFFSetField(t->file, TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT);
    const bool read = TIFFReadRGBAImageOriented(t->file, t->width, t->height, raster,
                                                ORIENTATION_TOPLEFT, 1) != 0;
    for (size_t i = 0; read && i < pixels; i++) {
        out->rgb[3 * i] = (uint8_t)TIFFGetR(raster[i]);
        out->rgb[3 * i + 1] = (uint8_t)TIFFGetG(raster[i]);
        out->rgb[3 * i + 2] = (uint8_t)TIFFGetB(raster[i]);
    }
    free(raster);
    return read ? CLI_OK : fault(t->path, t->source);
}

static int decode(cli_image *out, struct tiff *t, const struct picture_bytes *b)
{
    CLI_TRY(describe(t));
    CLI_TRY(picture_begin(out, t->path, b, t->width, t->height, PICTURE_FLAT_PIXELS_PER_BYTE));
    const bool chroma = t->compression == COMPRESSION_OJPEG ||
                        (t->photometric == PHOTOMETRIC_YCBCR && t->colours == 3);
    if (chroma && (t->compression != COMPRESSION_JPEG || t->planes))
        return read_by_libtiff(out, t);
    if (chroma)
        TIFFSetField(t->file, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    return read_blocks(out, t);
}

static int orientation_of(TIFF *tiff)
{
    uint16_t turned = ORIENTATION_UNKNOWN;
    uint32_t n = 0;
    void *xmp = NULL;
    if (TIFFGetField(tiff, TIFFTAG_ORIENTATION, &turned))
        return turned >= 1 && turned <= 8 ? turned : ORIENTATION_UPRIGHT;
    return TIFFGetField(tiff, TIFFTAG_XMLPACKET, &n, &xmp) ? orientation_of_xmp(xmp, n)
                                                           : ORIENTATION_UNKNOWN;
}

int picture_read_tiff(cli_image *out, const char *path, const struct picture_bytes *b,
                      int *orientation)
{
    struct source s = {.data = b->data, .size = b->size};
    TIFFSetErrorHandler(NULL);
    TIFFSetWarningHandler(NULL);
    TIFFSetErrorHandlerExt(failed);
    TIFF *tiff = TIFFClientOpen(path, "rm", &s, take, put, seek, done, size, NULL, NULL);
    if (!tiff)
        return fault(path, &s);
    struct tiff t = {.file = tiff, .source = &s, .path = path};
    *orientation = orientation_of(tiff);
    const int code = decode(out, &t, b);
    TIFFClose(tiff);
    return code;
}

#else

int picture_read_tiff(cli_image *out, const char *path, const struct picture_bytes *b,
                      int *orientation)
{
    (void)out, (void)b, (void)orientation;
    return cli_fail(
        CLI_UNSUPPORTED,
        "%s is a TIFF, but this program was built without libtiff (Debian: libtiff-dev)", path);
}

#endif
