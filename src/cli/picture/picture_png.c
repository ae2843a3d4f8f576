/* picture_png.c: reads PNG with libpng, with the same pixels as Pillow, and writes PNG. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef CLI_PNG
#include <png.h>
#endif

#include "cli/picture/orientation.h"
#include "cli/picture/picture_files.h"

#ifdef CLI_PNG

/* Largest number of pixels that one byte of a valid file can encode: deflate compresses at most
 * 1032-fold, and a byte holds 8 pixels. A header that claims more is refused before memory is
 * allocated. */
#define PIXELS_PER_BYTE (1032 * 8)
#define TEXT_MOST (1 << 20) /* largest text in bytes, the same limit as in Pillow */

struct reader {
    struct picture_bytes *b;
    const char *path;
    enum picture_what what;
    jmp_buf back;
    char text[128];   /* the error message */
    uint8_t *samples; /* unconverted samples from libpng */
    png_bytepp rows;
    bool done; /* all pixels were read */
};

static void failed(png_structp png, png_const_charp text)
{
    struct reader *r = png_get_error_ptr(png);
    snprintf(r->text, sizeof r->text, "%s", text);
    longjmp(r->back, 1);
}

static void warned(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static void take(png_structp png, png_bytep to, size_t n)
{
    struct picture_bytes *b = png_get_io_ptr(png);
    if (n > b->size - b->at)
        png_error(png, "the file ends early");
    memcpy(to, b->data + b->at, n);
    b->at += n;
}

/* ---- pixels ---- */

struct png {
    uint32_t width;
    int type, bits;
    uint8_t palette[256][4]; /* R, G, B and alpha */
    int hidden[3];           /* the transparent colour, as Pillow compares it; -1 for none */
};

static struct png describe(png_structp png, png_infop info)
{
    struct png p = {.width = png_get_image_width(png, info),
                    .type = png_get_color_type(png, info),
                    .bits = png_get_bit_depth(png, info),
                    .hidden = {-1, -1, -1}};
    png_colorp colour = NULL;
    png_bytep alpha = NULL;
    png_color_16p hidden = NULL;
    int colours = 0, alphas = 0;
    png_get_PLTE(png, info, &colour, &colours);
    png_get_tRNS(png, info, &alpha, &alphas, &hidden);
    for (int i = 0; i < 256; i++) {
        uint8_t *entry = p.palette[i];
        entry[0] = i < colours ? colour[i].red : 0;
        entry[1] = i < colours ? colour[i].green : 0;
        entry[2] = i < colours ? colour[i].blue : 0;
        entry[3] = alpha && i < alphas ? alpha[i] : 255;
    }
    if (hidden && p.type == PNG_COLOR_TYPE_RGB) {
        p.hidden[0] = hidden->red & 255;
        p.hidden[1] = hidden->green & 255;
        p.hidden[2] = hidden->blue & 255;
    } else if (hidden) {
        const int grey = p.bits > 1 ? hidden->gray & 255 : hidden->gray ? 255 : 0;
        p.hidden[0] = p.hidden[1] = p.hidden[2] = grey;
    }
    return p;
}

/* Converts a row of bytes or, with 16 bits, of pairs of bytes, high byte first. In 16-bit grey,
 * values above 255 become white; for colours the high byte is used. */
static void convert_row(uint8_t *to, const uint8_t *from, const struct png *p)
{
    const size_t bytes = p->bits == 16 ? 2 : 1;
    const bool grey = !(p->type & PNG_COLOR_MASK_COLOR), alpha = p->type & PNG_COLOR_MASK_ALPHA;
    const size_t channels = (grey ? 1 : 3) + alpha;
    if (p->type == PNG_COLOR_TYPE_PALETTE) {
        for (uint32_t x = 0; x < p->width; x++, to += 3)
            picture_put(to, p->palette[from[x]], p->palette[from[x]][3]);
        return;
    }
    for (uint32_t x = 0; x < p->width; x++, from += channels * bytes, to += 3) {
        uint8_t c[3];
        for (size_t k = 0; k < 3; k++)
            c[k] = from[grey ? 0 : k * bytes];
        if (grey && !alpha && bytes == 2)
            c[0] = c[1] = c[2] = from[0] ? 255 : from[1];
        const bool hidden = c[0] == p->hidden[0] && c[1] == p->hidden[1] && c[2] == p->hidden[2];
        picture_put(to, c, alpha ? from[(channels - 1) * bytes] : hidden ? 0 : 255);
    }
}

static int check_kind(const struct reader *r, png_structp png, png_infop info)
{
    const bool grey = png_get_color_type(png, info) == PNG_COLOR_TYPE_GRAY;
    const bool palette = png_get_color_type(png, info) == PNG_COLOR_TYPE_PALETTE;
    const bool deep = png_get_bit_depth(png, info) == 16;
    if (r->what == PICTURE_INDICES && (deep || !(grey || palette)))
        return picture_bad(r->path, "this PNG has colours or 16 bits; classes must be grey values "
                                    "or palette indices of 8 bits");
    if (r->what == PICTURE_DEPTHS && !(deep && grey))
        return picture_bad(r->path, "the file is not a grey PNG of 16 bits, as depths must be");
    return CLI_OK;
}

static int read_pixels(cli_image *out, struct reader *r, png_structp png, png_infop info)
{
    png_set_crc_action(png, PNG_CRC_DEFAULT, PNG_CRC_ERROR_QUIT);
    png_set_read_fn(png, r->b, take);
    png_set_user_limits(png, 0x7fffffff, 0x7fffffff); /* picture_begin() checks the size */
    png_set_chunk_malloc_max(png, TEXT_MOST);
    png_read_info(png, info);
    const uint64_t width = png_get_image_width(png, info), height = png_get_image_height(png, info);
    /* Ignores checksums of single chunks, as Pillow does; the compressed pixels have a checksum
     * over all of them. */
    png_set_crc_action(png, PNG_CRC_QUIET_USE, PNG_CRC_QUIET_USE);
    CLI_TRY(check_kind(r, png, info));
    CLI_TRY(picture_begin(out, r->path, r->b, width, height, PIXELS_PER_BYTE));
    const uint16_t one = 1;
    if (r->what == PICTURE_DEPTHS && *(const uint8_t *)&one) /* files store the high byte first */
        png_set_swap(png);
    png_set_packing(png);
    if (r->what == PICTURE_COLOURS && png_get_color_type(png, info) == PNG_COLOR_TYPE_GRAY)
        png_set_expand_gray_1_2_4_to_8(png);
    const struct png p = describe(png, info);
    const bool interlaced = png_set_interlace_handling(png) > 1;
    png_read_update_info(png, info);
    const size_t row = png_get_rowbytes(png, info);
    /* Rows that already have the requested format are decoded in place. Others go through a buffer
     * of one row, or of all rows if the file is interlaced. */
    const bool direct = r->what != PICTURE_COLOURS ||
                        (p.type == PNG_COLOR_TYPE_RGB && p.bits == 8 && p.hidden[0] < 0);
    if (!direct && !(r->samples = malloc(interlaced ? (size_t)height * row : row)))
        return picture_bad(r->path, "not enough memory for the pixels");
    if (interlaced) {
        r->rows = cli_alloc((size_t)height, sizeof *r->rows);
        for (uint64_t y = 0; y < height; y++)
            r->rows[y] = (direct ? out->rgb : r->samples) + y * row;
        png_read_image(png, r->rows);
    }
    for (uint64_t y = 0; y < height; y++) {
        uint8_t *to = out->rgb + y * width * r->what;
        if (!interlaced)
            png_read_row(png, direct ? to : r->samples, NULL);
        if (!direct)
            convert_row(to, r->samples + (interlaced ? y * row : 0), &p);
    }
    if (r->what == PICTURE_COLOURS && p.type == PNG_COLOR_TYPE_GRAY && p.bits == 16)
        picture_tell_deep(r->path, 16);
    r->done = true;
    png_read_end(png, info); /* reads texts after the pixels, which may contain the orientation */
    return CLI_OK;
}

/* Is a separate function, because a longjmp would leave the caller's variables undefined. Errors
 * after the pixels are ignored. */
static int decode(cli_image *out, struct reader *r, png_structp png, png_infop info)
{
    if (setjmp(r->back))
        return r->done ? CLI_OK : picture_bad(r->path, r->text);
    return read_pixels(out, r, png, info);
}

/* ---- orientation ---- */

static int digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Returns the orientation from a text. Its first three lines are an empty line, the profile's name
 * and the profile's length; the profile follows in hexadecimal. */
static int orientation_of_profile(const char *text)
{
    for (int lines = 0; *text && lines < 3; text++)
        lines += *text == '\n';
    uint8_t *data = cli_alloc(strlen(text) / 2 + 1, 1);
    size_t n = 0;
    int high = -1;
    for (; *text; text++) {
        const int d = digit(*text);
        if (d < 0)
            continue;
        if (high >= 0)
            data[n++] = (uint8_t)(high << 4 | d);
        high = high < 0 ? d : -1;
    }
    const int orientation = orientation_of_exif(data, n);
    free(data);
    return orientation;
}

static int orientation_of(png_structp png, png_infop info)
{
    int orientation = ORIENTATION_UNKNOWN;
    png_textp text = NULL;
    int texts = 0;
    png_get_text(png, info, &text, &texts);
#ifdef PNG_eXIf_SUPPORTED
    png_bytep exif;
    png_uint_32 size;
    if (png_get_eXIf_1(png, info, &size, &exif))
        orientation = orientation_of_exif(exif, size);
    else
#endif
        for (int i = 0; i < texts; i++)
            if (strcmp(text[i].key, "Raw profile type exif") == 0)
                orientation = orientation_of_profile(text[i].text);
    for (int i = 0; orientation == ORIENTATION_UNKNOWN && i < texts; i++)
        if (strcmp(text[i].key, "XML:com.adobe.xmp") == 0)
            orientation = orientation_of_xmp((const uint8_t *)text[i].text, strlen(text[i].text));
    return orientation;
}

int picture_read_png(cli_image *out, const char *path, struct picture_bytes *b,
                     enum picture_what what, int *orientation)
{
    struct reader r = {.b = b, .path = path, .what = what};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, failed, warned);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    const int code =
        info ? decode(out, &r, png, info) : picture_bad(path, "the PNG decoder cannot be started");
    if (!code)
        *orientation = orientation_of(png, info);
    free(r.rows);
    free(r.samples);
    png_destroy_read_struct(&png, &info, NULL);
    return code;
}

/* ---- out ---- */

int cli_indices_write_png(const char *path, const uint8_t *index, uint32_t width, uint32_t height,
                          const uint8_t *palette, uint32_t colours)
{
    png_image png;
    memset(&png, 0, sizeof png);
    png.version = PNG_IMAGE_VERSION;
    png.width = width;
    png.height = height;
    png.format = palette ? PNG_FORMAT_RGB_COLORMAP : PNG_FORMAT_RGB;
    png.colormap_entries = colours;
    cli_output o;
    CLI_TRY(cli_output_begin(&o, path));
    const bool written = png_image_write_to_stdio(&png, o.file, 0, index, 0, palette);
    return cli_output_end(&o, written ? NULL : png.message);
}

int cli_depth_write_png(const char *path, const uint16_t *depth, uint32_t width, uint32_t height)
{
    png_image png;
    memset(&png, 0, sizeof png);
    png.version = PNG_IMAGE_VERSION;
    png.width = width;
    png.height = height;
    png.format = PNG_FORMAT_LINEAR_Y;
    cli_output o;
    CLI_TRY(cli_output_begin(&o, path));
    const bool written = png_image_write_to_stdio(&png, o.file, 0, depth, 0, NULL);
    return cli_output_end(&o, written ? NULL : png.message);
}

#else

int picture_read_png(cli_image *out, const char *path, struct picture_bytes *b,
                     enum picture_what what, int *orientation)
{
    (void)out, (void)b, (void)what, (void)orientation;
    return cli_fail(CLI_UNSUPPORTED, "%s is a PNG, but this program was built without libpng",
                    path);
}

int cli_indices_write_png(const char *path, const uint8_t *index, uint32_t width, uint32_t height,
                          const uint8_t *palette, uint32_t colours)
{
    (void)index, (void)width, (void)height, (void)palette, (void)colours;
    return cli_fail(CLI_UNSUPPORTED, "%s is a PNG, but this program was built without libpng",
                    path);
}

int cli_depth_write_png(const char *path, const uint16_t *depth, uint32_t width, uint32_t height)
{
    (void)depth, (void)width, (void)height;
    return cli_fail(CLI_UNSUPPORTED, "%s is a PNG, but this program was built without libpng",
                    path);
}

#endif

int cli_image_write_png(const char *path, const cli_image *image)
{
    return cli_indices_write_png(path, image->rgb, image->width, image->height, NULL, 0);
}
