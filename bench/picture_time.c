/* picture_time.c: how long a picture takes from its file to pixels of the size that a model sees,
 * for picture_time.py.
 *
 *     picture_time PICTURE SIDE PIXELS
 *
 * Writes the decoded pixels to PIXELS. Then, for every line of standard input, it reads the picture
 * and runs it through a model of one small block at SIDE x SIDE, and prints the milliseconds of
 * both.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/stopwatch.h"
#include "cli/common/cli.h"

/* Functions of the program's main.c, which is not linked here. */
void cli_tell(const char *format, ...)
{
    (void)format;
}

int cli_fail(int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return code;
}

int cli_check(fovea_status status)
{
    return status ? cli_fail(CLI_INPUT, "%s", fovea_error()) : CLI_OK;
}

/* Creates a plan for frames of the picture's size. Its model is one block of 64 channels. */
static fovea_plan *plan_for(const cli_image *image, uint32_t side)
{
    fovea_device *device;
    fovea_model *model;
    fovea_plan *plan;
    fovea_preprocess preprocess = FOVEA_PREPROCESS_INIT;
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    if (fovea_device_open(&device, "cpu", NULL) ||
        fovea_model_load(&model, "synthetic:block-64x1x4"))
        fail(fovea_error());
    fovea_model_preprocess(model, &preprocess);
    preprocess.resize = FOVEA_RESIZE_EXACT;
    preprocess.filter = FOVEA_FILTER_BICUBIC;
    preprocess.resize_width = preprocess.resize_height = side;
    preprocess.crop_width = preprocess.crop_height = 0;
    options.frame.format = FOVEA_FORMAT_RGB8;
    options.frame.width = image->width;
    options.frame.height = image->height;
    options.preprocess = &preprocess;
    if (fovea_plan_create(&plan, model, device, &options))
        fail(fovea_error());
    return plan;
}

int main(int argc, char **argv)
{
    cli_image image;
    char line[16];
    if (argc != 4)
        fail("usage: picture_time PICTURE SIDE PIXELS");
    FILE *pixels = fopen(argv[3], "wb");
    if (!pixels || cli_image_read(&image, argv[1]))
        return CLI_INPUT;
    fwrite(image.rgb, 3, (size_t)image.width * image.height, pixels);
    fclose(pixels);
    fovea_plan *plan = plan_for(&image, (uint32_t)atoi(argv[2]));
    cli_image_free(&image);
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    fovea_plan_output(plan, 0, &info);
    const size_t size = (size_t)info.rows * info.columns * sizeof(float);
    const fovea_output out = {cli_alloc(size, 1), size};
    while (fgets(line, sizeof line, stdin)) {
        const double begin = seconds();
        if (cli_image_read(&image, argv[1]))
            return CLI_INPUT;
        const double read = seconds();
        const fovea_frame frame = {.pixels = {image.rgb}};
        if (fovea_run(plan, &frame, &out, 1))
            fail(fovea_error());
        cli_image_free(&image);
        printf("%.3f %.3f\n", 1e3 * (read - begin), 1e3 * (seconds() - read));
        fflush(stdout);
    }
    return 0;
}
