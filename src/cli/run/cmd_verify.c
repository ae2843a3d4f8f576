/* cmd_verify.c: `fovea verify`: kernels, or a model layer by layer, against references. */
#include <stdint.h>

#include "cli/run/verify.h"

int cli_verify(const cli_command *self, int argc, char **argv)
{
    cli_common common = {CLI_STORES};
    const char *kernel = NULL, *image = NULL, *floor = NULL;
    const cli_option own[] = {
        {"kernel", 0, "TEXT", "without a model: only kernels whose names contain it", &kernel},
        {"image", 0, "FILE", "the model's picture, as PICTURE; without one it is made up", &image},
        {"accuracy", 0, "COSINE",
         "of the main output's rows with those in float32, on average: less is wrong (0.99)",
         &floor},
        {NULL},
    };
    cli_session s;
    int first, code = cli_parse(&first, self, &common, own, argc, argv);
    if (code || !first)
        return code;
    const char *model = first < argc ? argv[first] : NULL;
    verify_request request = {.model = model, .floor = 0.99, .json = common.json};
    if (model ? kernel != NULL : image || floor)
        return cli_fail(CLI_USAGE, "%s",
                        model   ? "--kernel is not for a model's steps"
                        : image ? "--image needs a MODEL"
                                : "--accuracy needs a MODEL");
    if (image && first + 1 < argc)
        return cli_fail(CLI_USAGE, "--image %s: name it as a PICTURE, as %s is", image,
                        argv[first + 1]);
    CLI_TRY(cli_real(&request.floor, "accuracy", floor, -1, 1));
    char *single = (char *)(uintptr_t)image;
    request.picture = image ? &single : argv + first + 1;
    request.pictures = image ? 1 : model ? (size_t)(argc - first - 1) : 0;
    CLI_TRY(cli_open(&s, &common, model));
    code = model ? verify_model(&s, &request) : verify_kernels(s.device, kernel, common.json);
    cli_close(&s);
    return code;
}
