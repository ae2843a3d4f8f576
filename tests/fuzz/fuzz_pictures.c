/* fuzz_pictures.c: reads arbitrary bytes as a picture, and as a mask of classes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef CLI_JPEG
#include <jpeglib.h>
#endif
#ifdef CLI_WEBP
#include <webp/encode.h>
#endif

#include "cli/common/cli.h"
#include "tests/fuzz/fuzz.h"

/* ---- the target ---- */

static const char *path(void)
{
    static char text[128];
    snprintf(text, sizeof text, "%s/picture", fuzz_folder());
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cli_image image;
    bool taken = false;
    fuzz_write("picture", data, size, 0);
    if (cli_image_read(&image, path()) == CLI_OK) {
        fuzz_look_at(image.rgb, (size_t)image.width * image.height * 3);
        cli_image_free(&image);
        taken = true;
    }
    fuzz_check(!image.rgb, "pixels of a picture that was refused");
    if (cli_indices_read(&image, path()) == CLI_OK) {
        fuzz_look_at(image.rgb, (size_t)image.width * image.height);
        cli_image_free(&image);
        taken = true;
    }
    fuzz_check(!image.rgb, "pixels of a mask that was refused");
    fuzz_taken += taken;
    return 0;
}

/* ---- seeds ---- */

enum { WIDTH = 13, HEIGHT = 9 };

static size_t file(uint8_t *out, size_t capacity)
{
    FILE *f = fopen(path(), "rb");
    fuzz_check(f != NULL, path());
    const size_t size = fread(out, 1, capacity, f);
    fclose(f);
    return size;
}

static size_t jpeg(uint8_t *out, size_t capacity, const uint8_t *rgb)
{
#ifdef CLI_JPEG
    struct jpeg_compress_struct j;
    struct jpeg_error_mgr error;
    unsigned char *data = NULL;
    unsigned long size = 0;
    j.err = jpeg_std_error(&error);
    jpeg_create_compress(&j);
    jpeg_mem_dest(&j, &data, &size);
    j.image_width = WIDTH;
    j.image_height = HEIGHT;
    j.input_components = 3;
    j.in_color_space = JCS_RGB;
    jpeg_set_defaults(&j);
    jpeg_simple_progression(&j);
    jpeg_start_compress(&j, TRUE);
    for (size_t y = 0; y < HEIGHT; y++) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(rgb + 3 * WIDTH * y);
        jpeg_write_scanlines(&j, &row, 1);
    }
    jpeg_finish_compress(&j);
    jpeg_destroy_compress(&j);
    fuzz_check(size <= capacity, "room for a seed");
    memcpy(out, data, size);
    free(data);
    return size;
#else
    (void)rgb;
    return (size_t)snprintf((char *)out, capacity, "P5 2 2 255\nABCD");
#endif
}

/* EXIF data with the orientation "rotated by 90 degrees". */
static const uint8_t exif[] = {'I', 'I', '*', 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3,
                               0,   1,   0,   0, 0, 6, 0, 0, 0, 0, 0,    0, 0};

/* Inserts `more` after the first `at` bytes of a file. */
static size_t insert(uint8_t *file, size_t size, size_t at, const void *more, size_t n)
{
    memmove(file + at + n, file + at, size - at);
    memcpy(file + at, more, n);
    return size + n;
}

static size_t jpeg_of_a_camera(uint8_t *out, size_t capacity, const uint8_t *rgb)
{
    static const uint8_t head[] = {0xff, 0xe1, 0, 8 + sizeof exif, 'E', 'x', 'i', 'f', 0, 0};
    const size_t size = insert(out, jpeg(out, capacity - 64, rgb), 2, exif, sizeof exif);
    return insert(out, size, 2, head, sizeof head);
}

static size_t png_of_a_camera(uint8_t *out, size_t capacity, const cli_image *image)
{
    static const uint8_t head[] = {0, 0, 0, sizeof exif, 'e', 'X', 'I', 'f'};
    static const uint8_t sum[] = {0xb7, 0x48, 0x11, 0x29};
    const size_t begin = 33; /* signature and IHDR */
    size_t size = cli_image_write_png(path(), image) ? 0 : file(out, capacity - 64);
    if (size < begin)
        return 0;
    size = insert(out, size, begin, sum, sizeof sum);
    size = insert(out, size, begin, exif, sizeof exif);
    return insert(out, size, begin, head, sizeof head);
}

static size_t webp(uint8_t *out, size_t capacity, const uint8_t *rgb)
{
#ifdef CLI_WEBP
    uint8_t *data = NULL;
    const size_t size = WebPEncodeLosslessRGB(rgb, WIDTH, HEIGHT, 3 * WIDTH, &data);
    fuzz_check(size > 0 && size <= capacity, "a WebP");
    memcpy(out, data, size);
    WebPFree(data);
    return size;
#else
    return jpeg(out, capacity, rgb);
#endif
}

/* 2 x 2 pixels of 8 bits: a run, an end of line, single pixels, an end of file. */
static const uint8_t bmp_of_runs[] = {'B', 'M', 72, 0, 0, 0, 0, 0, 0, 0, 62, 0, 0, 0, 40, 0, 0,  0,
                                      2,   0,   0,  0, 2, 0, 0, 0, 1, 0, 8,  0, 1, 0, 0,  0, 10, 0,
                                      0,   0,   0,  0, 0, 0, 0, 0, 0, 0, 2,  0, 0, 0, 0,  0, 0,  0,
                                      9,   8,   7,  0, 1, 2, 3, 0, 2, 1, 0,  0, 1, 0, 1,  1, 0,  1};

/* 1 x 1 pixel with bit fields of 16 bits, and of four bytes. */
static const uint8_t bmp_of_fields[] = {
    'B', 'M', 70, 0, 0,  0, 0, 0,    0, 0, 66,   0, 0, 0, 40,   0, 0, 0, 1, 0, 0, 0, 1, 0,
    0,   0,   1,  0, 16, 0, 3, 0,    0, 0, 4,    0, 0, 0, 0,    0, 0, 0, 0, 0, 0, 0, 0, 0,
    0,   0,   0,  0, 0,  0, 0, 0xf8, 0, 0, 0xe0, 7, 0, 0, 0x1f, 0, 0, 0, 1, 2, 0, 0};

/* 2 x 1 pixels. */
static const uint8_t bmp[] = {'B', 'M', 62, 0, 0, 0, 0, 0,  0, 0, 54, 0, 0, 0, 40, 0, 0, 0, 2, 0, 0,
                              0,   1,   0,  0, 0, 1, 0, 24, 0, 0, 0,  0, 0, 8, 0,  0, 0, 0, 0, 0, 0,
                              0,   0,   0,  0, 0, 0, 0, 0,  0, 0, 0,  0, 1, 2, 3,  4, 5, 6, 0, 0};

static size_t copy(uint8_t *out, size_t capacity, const void *from, size_t size)
{
    fuzz_check(size <= capacity, "room for a seed");
    memcpy(out, from, size);
    return size;
}

/* 3 x 1 grey pixels, upside down. */
static size_t tiff(uint8_t *out, size_t capacity)
{
#ifdef CLI_TIFF
    static const uint8_t head[] = {'I', 'I', '*', 0, 12, 0, 0, 0, 9, 99, 200, 0, 9, 0};
    static const uint16_t entries[][2] = {{256, 3}, {257, 1}, {258, 8}, {259, 1}, {262, 1},
                                          {273, 8}, {274, 3}, {278, 1}, {279, 3}};
    size_t n = copy(out, capacity, head, sizeof head);
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        const uint8_t tag = (uint8_t)entries[i][0], value = (uint8_t)entries[i][1];
        const uint8_t entry[12] = {tag, 1, 3, 0,    1,
                                   0,   0, 0, value}; /* every tag is 256 plus a byte */
        n += copy(out + n, capacity - n, entry, sizeof entry);
    }
    return n + copy(out + n, capacity - n, (const uint8_t[4]){0}, 4);
#else
    return copy(out, capacity, bmp, sizeof bmp);
#endif
}

size_t fuzz_seed(size_t index, uint8_t *out, size_t capacity)
{
    static uint8_t rgb[3 * WIDTH * HEIGHT];
    static const uint8_t palette[6] = {0, 0, 0, 255, 9, 7};
    const cli_image image = {WIDTH, HEIGHT, rgb};
    for (size_t i = 0; i < sizeof rgb; i++)
        rgb[i] = (uint8_t)(index == 3 ? i % 2 : i * i);
    switch (index) {
    case 0:
        return (size_t)snprintf((char *)out, capacity, "P6 # red\n3 2\n255\nABCDEFGHIJKLMNOPQR");
    case 1:
        return (size_t)snprintf((char *)out, capacity, "P5\n3 2 255\nABCDEF");
    case 2:
        return cli_image_write_png(path(), &image) ? 0 : file(out, capacity);
    case 3:
        return cli_indices_write_png(path(), rgb, WIDTH, HEIGHT, palette, 2) ? 0
                                                                             : file(out, capacity);
    case 4:
        return jpeg(out, capacity, rgb);
    case 5:
        return jpeg_of_a_camera(out, capacity, rgb);
    case 6:
        return png_of_a_camera(out, capacity, &image);
    case 7:
        return copy(out, capacity, bmp, sizeof bmp);
    case 8:
        return tiff(out, capacity);
    case 9:
        return webp(out, capacity, rgb);
    case 10:
        return copy(out, capacity, bmp_of_runs, sizeof bmp_of_runs);
    case 11:
        return copy(out, capacity, bmp_of_fields, sizeof bmp_of_fields);
    case 12:
        return (size_t)snprintf((char *)out, capacity, "P3 2 1 # a\n7\n1 2 # b\n3 4 5 7\n");
    case 13:
        return (size_t)snprintf((char *)out, capacity, "P1 3 2\n010\n111\n");
    case 14:
        return (size_t)snprintf((char *)out, capacity, "P5 2 1 4095\n\1\2\3\4");
    case 15:
        return (size_t)snprintf((char *)out, capacity, "Pf 1 2 -1.0\nABC?abc?");
    default:
        return 0;
    }
}
