/* images.c: reads pictures with the readers of picture_files.h, and writes numpy arrays. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/picture/orientation.h"
#include "cli/picture/picture_files.h"

#define FILE_MAX (UINT64_C(1) << 30)

static int read_file(struct picture_bytes *out, const char *path)
{
    FILE *f = cli_is_stdin(path) ? stdin : fopen(path, "rb");
    if (!f)
        return picture_bad(path, strerror(errno));
    size_t capacity = 1 << 16, size = 0;
    uint8_t *data = cli_alloc(capacity, 1);
    for (size_t got; (got = fread(data + size, 1, capacity - size, f)) > 0;) {
        size += got;
        if (size > FILE_MAX)
            break;
        if (size == capacity) {
            uint8_t *more = realloc(data, capacity *= 2);
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
    return picture_bad(path, failed ? "the file cannot be read, or is larger than 1 GiB"
                                    : "the file is empty");
}

static bool as_stored; /* ignore EXIF's orientation */

void cli_images_as_stored(void)
{
    as_stored = true;
}

static bool is_read(enum picture_format format, enum picture_what what)
{
    return picture_is_read(format) && (what == PICTURE_COLOURS || format == PICTURE_PNG ||
                                       (what == PICTURE_INDICES && format == PICTURE_PNM));
}

static int refuse(const char *path, const struct picture_kind *kind, enum picture_what what)
{
    static const char *const read[] = {
        [PICTURE_COLOURS] = "JPEG, PNG, WebP, TIFF, BMP, PBM, PGM or PPM",
        [PICTURE_INDICES] = "PNG or PGM, as masks of classes must be",
        [PICTURE_DEPTHS] = "PNG, as depths must be"};
    if (!kind->name)
        return cli_fail(CLI_INPUT, "%s is not a %s", path, read[what]);
    if (!kind->remedy)
        return cli_fail(CLI_INPUT, "%s is %s, not a %s", path, kind->name, read[what]);
    return cli_fail(CLI_INPUT, "%s is %s; %s", path, kind->name, kind->remedy);
}

static int read_picture(cli_image *out, const char *path, enum picture_what what)
{
    struct picture_bytes b;
    int orientation = ORIENTATION_UPRIGHT;
    memset(out, 0, sizeof *out);
    int code = CLI_OK;
    CLI_TRY(read_file(&b, path));
    const struct picture_kind kind = picture_recognise(b.data, b.size);
    if (!is_read(kind.format, what))
        code = refuse(path, &kind, what);
    else if (kind.format == PICTURE_JPEG)
        code = picture_read_jpeg(out, path, &b, &orientation);
    else if (kind.format == PICTURE_PNG)
        code = picture_read_png(out, path, &b, what, &orientation);
    else if (kind.format == PICTURE_PNM)
        code = picture_read_pnm(out, path, &b, what);
    else if (kind.format == PICTURE_WEBP)
        code = picture_read_webp(out, path, &b, &orientation);
    else if (kind.format == PICTURE_TIFF)
        code = picture_read_tiff(out, path, &b, &orientation);
    else
        code = picture_read_bmp(out, path, &b);
    free(b.data);
    if (!code && !as_stored && !orientation_apply(out, what, orientation))
        code = picture_bad(path, "not enough memory to rotate the picture");
    if (code)
        cli_image_free(out);
    return code;
}

int cli_image_read(cli_image *out, const char *path)
{
    return read_picture(out, path, PICTURE_COLOURS);
}

int cli_indices_read(cli_image *out, const char *path)
{
    return read_picture(out, path, PICTURE_INDICES);
}

int cli_depth_read(cli_image *out, const char *path)
{
    return read_picture(out, path, PICTURE_DEPTHS);
}

bool cli_is_stdin(const char *path)
{
    return strcmp(path, "-") == 0;
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
