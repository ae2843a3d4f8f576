/* images.c: JPEG, PNG, PPM and PGM in, and what picture_files.h reads, also as indices of classes
 * or depths; PNG out; numpy arrays out. */
#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef CLI_PNG
#include <png.h>
#endif

#include "cli/common/orientation.h"
#include "cli/common/picture_files.h"

#define PIXELS_MAX (UINT64_C(1) << 28)
#define FILE_MAX (UINT64_C(1) << 30)

/* Pixels that one byte of a valid file can stand for, at most: deflate shrinks 1032-fold at best
 * and a byte holds 8 pixels. A header that claims more is
 * refused before anything is allocated. */
#define PNG_PIXELS_PER_BYTE (1032 * 8)

/* What a file is read as, and how many bytes a pixel then has. */
enum what { DEPTHS = 2, INDICES = 1, COLOURS = 3 };

int picture_bad(const char *path, const char *what)
{
    return cli_fail(CLI_INPUT, "%s: %s", path, what);
}

static int read_file(struct picture_bytes *out, const char *path)
{
    FILE *f = cli_is_stdin(path) ? stdin : fopen(path, "rb");
    if (!f)
        return picture_bad(path, strerror(errno));
    size_t room = 1 << 16, size = 0;
    uint8_t *data = cli_alloc(room, 1);
    for (size_t got; (got = fread(data + size, 1, room - size, f)) > 0;) {
        size += got;
        if (size > FILE_MAX)
            break;
        if (size == room) {
            uint8_t *more = realloc(data, room *= 2);
            if (!more)
                break;
            data = more;
        }
    }
    bool failed = ferror(f) || !feof(f);
    if (f != stdin)
        fclose(f);
    *out = (struct picture_bytes){data, size, 0};
    if (!failed && size > 0)
        return CLI_OK;
    free(data);
    return picture_bad(path, failed ? "cannot be read, or is larger than 1 GiB" : "is empty");
}

int picture_begin(cli_image *out, const char *path, const struct picture_bytes *b, uint64_t width,
                  uint64_t height, uint64_t pixels_per_byte)
{
    if (width < 1 || height < 1)
        return picture_bad(path, "has no pixels");
    if (width > PIXELS_MAX || height > PIXELS_MAX || width * height > PIXELS_MAX)
        return cli_fail(CLI_INPUT, "%s: claims %llux%llu pixels; the limit is 2^28 pixels", path,
                        (unsigned long long)width, (unsigned long long)height);
    if (width * height / pixels_per_byte > b->size)
        return cli_fail(CLI_INPUT, "%s: claims %llux%llu pixels in %zu bytes; it is broken", path,
                        (unsigned long long)width, (unsigned long long)height, b->size);
    out->rgb = malloc((size_t)(width * height * 3));
    if (!out->rgb)
        return picture_bad(path, "no memory for its pixels");
    out->width = (uint32_t)width;
    out->height = (uint32_t)height;
    return CLI_OK;
}

/* ---- PNG ---- */

#ifdef CLI_PNG

struct png_fault {
    jmp_buf back;
    char text[128];
};

static void png_failed(png_structp png, png_const_charp text)
{
    struct png_fault *fault = png_get_error_ptr(png);
    snprintf(fault->text, sizeof fault->text, "%s", text);
    longjmp(fault->back, 1);
}

static void png_warned(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static void png_take(png_structp png, png_bytep to, size_t n)
{
    struct picture_bytes *b = png_get_io_ptr(png);
    if (n > b->size - b->at)
        png_error(png, "the file ends early");
    memcpy(to, b->data + b->at, n);
    b->at += n;
}

/* Colours as Pillow's convert("RGB") gives them: gamma is not applied, alpha is dropped. Of
 * INDICES one byte a pixel: the place in the palette, or the grey value as it is stored. */
static void png_convert(png_structp png, png_infop info, enum what what)
{
    png_byte type = png_get_color_type(png, info);
    const uint16_t one = 1;
    if (what == DEPTHS && *(const uint8_t *)&one) /* files have the high byte first */
        png_set_swap(png);
    if (what != COLOURS) {
        png_set_packing(png);
        png_set_interlace_handling(png);
        png_read_update_info(png, info);
        return;
    }
    if (png_get_bit_depth(png, info) == 16)
        png_set_strip_16(png);
    if (type == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(png);
    else if (!(type & PNG_COLOR_MASK_COLOR)) {
        png_set_expand_gray_1_2_4_to_8(png);
        png_set_gray_to_rgb(png);
    }
    png_set_strip_alpha(png);
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
}

/* Apart from the caller, whose variables a longjmp would leave undefined. */
static int decode_png(cli_image *out, const char *path, struct picture_bytes *b, enum what what,
                      struct png_fault *fault, png_structp png, png_infop info, png_bytepp *rows)
{
    if (setjmp(fault->back))
        return picture_bad(path, fault->text);
    png_set_read_fn(png, b, png_take);
    png_set_user_limits(png, 0x7fffffff, 0x7fffffff); /* picture_begin() judges the size */
    png_read_info(png, info);
    uint64_t width = png_get_image_width(png, info), height = png_get_image_height(png, info);
    CLI_TRY(picture_begin(out, path, b, width, height, PNG_PIXELS_PER_BYTE));
    png_convert(png, info, what);
    static const char *const wrong[] = {
        [COLOURS] = "is a PNG of an unknown kind",
        [INDICES] = ("is a PNG with colours or 16 bits; classes are grey values or a palette's "
                     "places"),
        [DEPTHS] = "is no grey PNG of 16 bits, as depths are",
    };
    const uint64_t row = width * what;
    const bool deep =
        png_get_bit_depth(png, info) == 16 && png_get_color_type(png, info) == PNG_COLOR_TYPE_GRAY;
    if (png_get_rowbytes(png, info) != row || (what == DEPTHS && !deep))
        return picture_bad(path, wrong[what]);
    *rows = cli_alloc((size_t)height, sizeof **rows);
    for (uint64_t y = 0; y < height; y++)
        (*rows)[y] = out->rgb + y * row;
    png_read_image(png, *rows);
    png_read_end(png, NULL);
    return CLI_OK;
}

/* The data of the first chunk of that name, and its size; NULL where there is none or chunks do not
 * lie in the file. */
static const uint8_t *png_chunk(const struct picture_bytes *b, const char *name, size_t *size)
{
    enum { SIGNATURE = 8, AROUND = 12 }; /* length, name, check sum */
    for (size_t at = SIGNATURE; b->size - at >= AROUND;) {
        const uint8_t *p = b->data + at;
        *size = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
        if (*size > b->size - at - AROUND)
            return NULL;
        if (memcmp(p + 4, name, 4) == 0)
            return p + 8;
        if (memcmp(p + 4, "IEND", 4) == 0)
            return NULL;
        at += AROUND + *size;
    }
    return NULL;
}

static int png_orientation(const struct picture_bytes *b)
{
    size_t size;
    const uint8_t *exif = png_chunk(b, "eXIf", &size);
    return exif ? orientation_of_exif(exif, size) : ORIENTATION_UPRIGHT;
}

static int read_png(cli_image *out, const char *path, struct picture_bytes *b, enum what what)
{
    struct png_fault fault;
    size_t end;
    if (!png_chunk(b, "IEND", &end)) /* libpng takes as much memory as a chunk claims to have */
        return picture_bad(path, "the file ends early");
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &fault, png_failed, png_warned);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    png_bytepp rows = NULL;
    int code = info ? decode_png(out, path, b, what, &fault, png, info, &rows)
                    : picture_bad(path, "the PNG decoder does not start");
    free(rows);
    png_destroy_read_struct(&png, &info, NULL);
    return code;
}

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

static int read_png(cli_image *out, const char *path, struct picture_bytes *b, enum what what)
{
    (void)out, (void)b, (void)what;
    return cli_fail(CLI_UNSUPPORTED, "%s: is a PNG; this program was built without libpng", path);
}

static int png_orientation(const struct picture_bytes *b)
{
    (void)b;
    return ORIENTATION_UPRIGHT;
}

int cli_indices_write_png(const char *path, const uint8_t *index, uint32_t width, uint32_t height,
                          const uint8_t *palette, uint32_t colours)
{
    (void)index, (void)width, (void)height, (void)palette, (void)colours;
    return cli_fail(CLI_UNSUPPORTED, "%s: is a PNG; this program was built without libpng", path);
}

int cli_depth_write_png(const char *path, const uint16_t *depth, uint32_t width, uint32_t height)
{
    (void)depth, (void)width, (void)height;
    return cli_fail(CLI_UNSUPPORTED, "%s: is a PNG; this program was built without libpng", path);
}

#endif

int cli_image_write_png(const char *path, const cli_image *image)
{
    return cli_indices_write_png(path, image->rgb, image->width, image->height, NULL, 0);
}

/* ---- PPM and PGM ---- */

/* The next number of the header; white space and comments go before it. 0: there is none. */
static uint64_t pnm_number(struct picture_bytes *b)
{
    uint64_t v = 0;
    while (b->at < b->size && (b->data[b->at] == '#' || strchr(" \t\r\n", b->data[b->at]))) {
        if (b->data[b->at] == '#')
            while (b->at + 1 < b->size && b->data[b->at] != '\n')
                b->at++;
        b->at++;
    }
    for (; b->at < b->size && b->data[b->at] >= '0' && b->data[b->at] <= '9'; b->at++)
        if (v < PIXELS_MAX)
            v = v * 10 + (uint64_t)(b->data[b->at] - '0');
    return v;
}

static int read_pnm(cli_image *out, const char *path, struct picture_bytes *b, enum what what)
{
    const size_t channels = b->data[1] == '6' ? 3 : 1, wanted = what;
    if (what == INDICES && channels != 1)
        return picture_bad(path, "is a PPM; classes are a PGM's grey values");
    b->at = 2;
    uint64_t width = pnm_number(b), height = pnm_number(b), top = pnm_number(b);
    if (top != 255)
        return picture_bad(path, "is a PPM or PGM whose largest value is not 255");
    CLI_TRY(picture_begin(out, path, b, width, height, 1));
    size_t pixels = (size_t)(width * height);
    b->at++; /* one white space */
    if (b->at > b->size || b->size - b->at < pixels * channels)
        return picture_bad(path, "the file ends early");
    const uint8_t *from = b->data + b->at;
    for (size_t i = 0; i < pixels * wanted; i++)
        out->rgb[i] = from[channels == wanted ? i : i / 3];
    return CLI_OK;
}

/* ---- any ---- */

static bool as_stored; /* ignore EXIF's orientation */

void cli_images_as_stored(void)
{
    as_stored = true;
}

static bool is_read(enum picture_format format, enum what what)
{
    if (format == PICTURE_UNKNOWN || format == PICTURE_OTHER)
        return false;
    return what == COLOURS || format == PICTURE_PNG || (what == INDICES && format == PICTURE_PNM);
}

static int refuse(const char *path, const struct picture_kind *kind, enum what what)
{
    static const char *const read[] = {[COLOURS] = "JPEG, PNG, WebP, TIFF, BMP, PBM, PGM or PPM",
                                       [INDICES] = "PNG or PGM, as classes are",
                                       [DEPTHS] = "PNG, as depths are"};
    if (!kind->name)
        return cli_fail(CLI_INPUT, "%s: is no %s", path, read[what]);
    if (!kind->remedy)
        return cli_fail(CLI_INPUT, "%s: is %s, no %s", path, kind->name, read[what]);
    return cli_fail(CLI_INPUT, "%s: is %s; %s", path, kind->name, kind->remedy);
}

static int read_picture(cli_image *out, const char *path, enum what what)
{
    struct picture_bytes b;
    int orientation = ORIENTATION_UPRIGHT;
    memset(out, 0, sizeof *out);
    int code = CLI_OK;
    CLI_TRY(read_file(&b, path));
    const struct picture_kind kind = picture_recognise(b.data, b.size);
    if (!is_read(kind.format, what))
        code = refuse(path, &kind, what);
    else if (kind.format == PICTURE_JPEG) {
        code = picture_read_jpeg(out, path, &b, &orientation);
    } else if (kind.format == PICTURE_PNG) {
        code = read_png(out, path, &b, what);
        orientation = png_orientation(&b);
    } else if (kind.format == PICTURE_PNM)
        code = read_pnm(out, path, &b, what);
    else if (kind.format == PICTURE_WEBP)
        code = picture_read_webp(out, path, &b, &orientation);
    else if (kind.format == PICTURE_TIFF)
        code = picture_read_tiff(out, path, &b, &orientation);
    else
        code = picture_read_bmp(out, path, &b);
    free(b.data);
    if (!code && !as_stored && !orientation_apply(out, what, orientation))
        code = picture_bad(path, "no memory to turn it upright");
    if (code)
        cli_image_free(out);
    return code;
}

int cli_image_read(cli_image *out, const char *path)
{
    return read_picture(out, path, COLOURS);
}

int cli_indices_read(cli_image *out, const char *path)
{
    return read_picture(out, path, INDICES);
}

int cli_depth_read(cli_image *out, const char *path)
{
    return read_picture(out, path, DEPTHS);
}

bool cli_is_stdin(const char *path)
{
    return strcmp(path, "-") == 0;
}

void cli_image_free(cli_image *image)
{
    free(image->rgb);
    memset(image, 0, sizeof *image);
}

/* ---- arrays ---- */

fovea_tensor cli_tensor(const char *name, const float *data, uint32_t rank, const uint64_t *shape)
{
    fovea_tensor t = {.name = name, .dtype = "F32", .rank = rank, .elements = 1, .data = data};
    for (uint32_t i = 0; i < rank; i++)
        t.elements *= t.shape[i] = shape[i];
    t.size = (size_t)t.elements * sizeof *data;
    return t;
}

int cli_npy_write(const char *path, const float *data, const uint64_t *shape, uint32_t rank)
{
    char text[256];
    size_t elements = 1,
           n = (size_t)snprintf(text, sizeof text,
                                "{'descr': '<f4', 'fortran_order': False, 'shape': (");
    for (uint32_t i = 0; i < rank; i++) {
        elements *= (size_t)shape[i];
        n += (size_t)snprintf(text + n, sizeof text - n, "%llu, ", (unsigned long long)shape[i]);
    }
    n += (size_t)snprintf(text + n, sizeof text - n, "), }");
    while ((10 + n + 1) % 64)
        text[n++] = ' ';
    text[n++] = '\n';
    uint8_t head[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (uint8_t)n, (uint8_t)(n >> 8)};
    cli_output o;
    CLI_TRY(cli_output_begin(&o, path));
    fwrite(head, 1, 10, o.file);
    fwrite(text, 1, n, o.file);
    fwrite(data, sizeof *data, elements, o.file);
    return cli_output_end(&o, NULL);
}
