/* picture_tiff.c: TIFF, by libtiff. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#ifdef CLI_TIFF
#include <tiffio.h>
#endif

#include "cli/common/orientation.h"
#include "cli/common/picture_files.h"

#ifdef CLI_TIFF

/* A file in memory, and what libtiff said of it first. */
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
    return picture_bad(path, *s->fault ? s->fault : "is a TIFF that cannot be read");
}

static int decode(cli_image *out, const char *path, const struct picture_bytes *b, struct source *s,
                  TIFF *tiff)
{
    uint32_t width = 0, height = 0;
    uint16_t samples = 1, kind = 0;
    TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width);
    TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLESPERPIXEL, &samples);
    TIFFGetField(tiff, TIFFTAG_PHOTOMETRIC, &kind);
    if (kind == PHOTOMETRIC_SEPARATED)
        return picture_bad(path, "is a CMYK TIFF; convert it to RGB");
    CLI_TRY(picture_begin(out, path, b, width, height, PICTURE_FLAT_PIXELS_PER_BYTE));
    const size_t pixels = (size_t)width * height;
    uint32_t *raster = malloc(pixels * sizeof *raster);
    if (!raster)
        return picture_bad(path, "no memory for its pixels");
    /* As stored: it is turned elsewhere, and colours are not multiplied with alpha. */
    TIFFSetField(tiff, TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT);
    if (samples == 4)
        TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, 1, &(uint16_t){EXTRASAMPLE_ASSOCALPHA});
    const bool read =
        TIFFReadRGBAImageOriented(tiff, width, height, raster, ORIENTATION_TOPLEFT, 1) != 0;
    for (size_t i = 0; read && i < pixels; i++) {
        out->rgb[3 * i] = (uint8_t)TIFFGetR(raster[i]);
        out->rgb[3 * i + 1] = (uint8_t)TIFFGetG(raster[i]);
        out->rgb[3 * i + 2] = (uint8_t)TIFFGetB(raster[i]);
    }
    free(raster);
    return read ? CLI_OK : fault(path, s);
}

int picture_read_tiff(cli_image *out, const char *path, const struct picture_bytes *b,
                      int *orientation)
{
    struct source s = {.data = b->data, .size = b->size};
    uint16_t turned = ORIENTATION_UPRIGHT;
    TIFFSetErrorHandler(NULL);
    TIFFSetWarningHandler(NULL);
    TIFFSetErrorHandlerExt(failed);
    TIFF *tiff = TIFFClientOpen(path, "rm", &s, take, put, seek, done, size, NULL, NULL);
    if (!tiff)
        return fault(path, &s);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_ORIENTATION, &turned);
    const int code = decode(out, path, b, &s, tiff);
    TIFFClose(tiff);
    *orientation = turned;
    return code;
}

#else

int picture_read_tiff(cli_image *out, const char *path, const struct picture_bytes *b,
                      int *orientation)
{
    (void)out, (void)b, (void)orientation;
    return cli_fail(CLI_UNSUPPORTED,
                    "%s: is a TIFF; this program was built without libtiff (Debian: libtiff-dev)",
                    path);
}

#endif
