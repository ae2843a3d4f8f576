/* picture_pixels.c: allocates memory for pixels, and converts pixels, for all readers of
 * picture_files.h. */
#ifdef __linux__
#define _GNU_SOURCE /* MADV_HUGEPAGE */
#endif
#include <stdlib.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include "cli/picture/picture_files.h"

#define PIXELS_MAX (UINT64_C(1) << 28)

int picture_bad(const char *path, const char *what)
{
    return cli_fail(CLI_INPUT, "%s: %s", path, what);
}

uint8_t *picture_alloc(size_t bytes)
{
#ifdef MADV_HUGEPAGE
    const size_t page = (size_t)1 << 21;
    const size_t whole = (bytes + page - 1) / page * page;
    void *memory;
    if (bytes >= 2 * page && posix_memalign(&memory, page, whole) == 0) {
        madvise(memory, whole, MADV_HUGEPAGE);
        return memory;
    }
#endif
    return malloc(bytes);
}

int picture_begin(cli_image *out, const char *path, const struct picture_bytes *b, uint64_t width,
                  uint64_t height, uint64_t pixels_per_byte)
{
    if (width < 1 || height < 1)
        return picture_bad(path, "the picture has no pixels");
    if (width > PIXELS_MAX || height > PIXELS_MAX || width * height > PIXELS_MAX)
        return cli_fail(CLI_INPUT,
                        "%s claims %llux%llu pixels, but at most 2^28 pixels are supported", path,
                        (unsigned long long)width, (unsigned long long)height);
    if (width * height / pixels_per_byte > b->size)
        return cli_fail(CLI_INPUT, "%s claims %llux%llu pixels in %zu bytes, so it is broken", path,
                        (unsigned long long)width, (unsigned long long)height, b->size);
    out->rgb = picture_alloc((size_t)(width * height * 3));
    if (!out->rgb)
        return picture_bad(path, "not enough memory for the pixels");
    out->width = (uint32_t)width;
    out->height = (uint32_t)height;
    return CLI_OK;
}

void cli_image_free(cli_image *image)
{
    free(image->rgb);
    memset(image, 0, sizeof *image);
}

/* ---- pixels ---- */

void picture_spread_grey(uint8_t *rgb, size_t pixels)
{
    while (pixels-- > 0)
        rgb[3 * pixels] = rgb[3 * pixels + 1] = rgb[3 * pixels + 2] = rgb[pixels];
}

void picture_tell_deep(const char *path, uint32_t bits)
{
    static bool told;
    if (!told)
        cli_tell("%s is a grey picture of %u bits; all values above 255 become white, as in "
                 "Pillow; scale it to 8 bits to avoid this",
                 path, bits);
    told = true;
}

bool picture_on_white;
void cli_images_on_white(bool white)
{
    picture_on_white = white;
}
