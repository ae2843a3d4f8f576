/* fuzz_pictures.c: any bytes as a picture, and as a mask of classes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef CLI_JPEG
#include <turbojpeg.h>
#endif

#include "cli.h"
#include "fuzz.h"

/* ---- the target ---- */

static const char *path(void)
{
    static char text[128];
    snprintf(text, sizeof text, "%s/picture", fuzz_folder());
    return text;
}

/* That all of its pixels are there shows in a sanitizer. */
static void look_at(const uint8_t *pixels, size_t size)
{
    static volatile uint8_t sink;
    uint8_t sum = 0;
    for (size_t i = 0; i < size; i++)
        sum = (uint8_t)(sum + pixels[i]);
    sink = sum;
    (void)sink;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cli_image image;
    bool taken = false;
    fuzz_write("picture", data, size, 0);
    if (cli_image_read(&image, path()) == CLI_OK) {
        look_at(image.rgb, (size_t)image.width * image.height * 3);
        cli_image_free(&image);
        taken = true;
    }
    fuzz_check(!image.rgb, "pixels of a picture that was refused");
    if (cli_indices_read(&image, path()) == CLI_OK) {
        look_at(image.rgb, (size_t)image.width * image.height);
        cli_image_free(&image);
        taken = true;
    }
    fuzz_check(!image.rgb, "pixels of a mask that was refused");
    fuzz_taken += taken;
    return 0;
}

/* ---- seeds ---- */

enum { WIDTH = 13, HEIGHT = 9 };

static size_t file(uint8_t *out, size_t room)
{
    FILE *f = fopen(path(), "rb");
    fuzz_check(f != NULL, path());
    const size_t size = fread(out, 1, room, f);
    fclose(f);
    return size;
}

static size_t jpeg(uint8_t *out, size_t room, const uint8_t *rgb)
{
#ifdef CLI_JPEG
    tjhandle h = tjInitCompress();
    unsigned char *data = NULL;
    unsigned long size = 0;
    fuzz_check(h && tjCompress2(h, rgb, WIDTH, 0, HEIGHT, TJPF_RGB, &data, &size, TJSAMP_420, 70,
                                TJFLAG_PROGRESSIVE) == 0,
               "a JPEG");
    fuzz_check(size <= room, "room for a seed");
    memcpy(out, data, size);
    tjFree(data);
    tjDestroy(h);
    return size;
#else
    (void)rgb;
    return (size_t)snprintf((char *)out, room, "P5 2 2 255\nABCD");
#endif
}

size_t fuzz_seed(size_t index, uint8_t *out, size_t room)
{
    static uint8_t rgb[3 * WIDTH * HEIGHT];
    static const uint8_t palette[6] = {0, 0, 0, 255, 9, 7};
    const cli_image image = {WIDTH, HEIGHT, rgb};
    for (size_t i = 0; i < sizeof rgb; i++)
        rgb[i] = (uint8_t)(index == 3 ? i % 2 : i * i);
    switch (index) {
    case 0:
        return (size_t)snprintf((char *)out, room, "P6 # red\n3 2\n255\nABCDEFGHIJKLMNOPQR");
    case 1:
        return (size_t)snprintf((char *)out, room, "P5\n3 2 255\nABCDEF");
    case 2:
        return cli_image_write_png(path(), &image) ? 0 : file(out, room);
    case 3:
        return cli_indices_write_png(path(), rgb, WIDTH, HEIGHT, palette, 2) ? 0 : file(out, room);
    case 4:
        return jpeg(out, room, rgb);
    default:
        return 0;
    }
}
