/* cmd_fetch.c: `fovea fetch`: downloads models of the Hugging Face hub. */
#include <stdlib.h>
#include <string.h>

#include "cli/common/cli.h"
#include "cli/common/hub.h"

static int fetch(const char *name, const char *const *more, size_t n)
{
    hub_model m;
    char *folder;
    if (!hub_is_name(name))
        return cli_fail(CLI_USAGE, "%s is not the name of a model; use OWNER/NAME[@REVISION]",
                        name);
    for (size_t i = 0; i < n; i++)
        if (*more[i] == '/' || *more[i] == '.' || strstr(more[i], "..") ||
            strpbrk(more[i], "?#%\\"))
            return cli_fail(CLI_USAGE, "%s is not the path of a file in a model", more[i]);
    hub_model_begin(&m, name);
    const int code = hub_fetch(&folder, &m, more, n);
    if (!code)
        puts(folder);
    free(folder);
    hub_model_end(&m);
    return code;
}

static const char more[] =
    "\nWithout FILE, the files that Fovea reads are downloaded: config.json,\n"
    "preprocessor_config.json and the weights in safetensors. FILE are further files of the "
    "model.\n"
    "The folder of the files is printed. They are stored where huggingface_hub stores them:\n"
    "HF_HUB_CACHE, HF_HOME, HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE mean what they mean there.\n";

int cli_fetch(const cli_command *self, int argc, char **argv)
{
    const cli_option own[] = {{NULL}};
    cli_common common = {.more = more};
    int first, code = cli_parse(&first, self, &common, own, argc, argv);
    if (code || !first)
        return code;
    if (first >= argc)
        return cli_fail(CLI_USAGE, "fetch takes OWNER/NAME; see fovea fetch --help");
    return fetch(argv[first], (const char *const *)argv + first + 1, (size_t)(argc - first - 1));
}
