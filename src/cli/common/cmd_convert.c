/* cmd_convert.c: `fovea convert`: runs the Python module fovea.convert, which reads checkpoints of
 * PyTorch and quantised ones as data. */
#define _XOPEN_SOURCE 700 /* realpath */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/common/cli.h"

/* Possible locations of the Python module, relative to the program: after installation, in a wheel,
 * and in a build folder of the repository. */
static const char *const locations[] = {"../share/fovea/convert", "../../fovea/convert",
                                        "../../../python/fovea/convert"};

/* Runs the module from an installed Python package. Arguments after -c go to the module. */
static const char run_module[] =
    "import sys\n"
    "try:\n"
    "    from fovea.convert.command import main\n"
    "except Exception as e:\n"
    "    print('fovea: convert runs the Python module fovea.convert, which is not here (%s); '\n"
    "          'pip install fovea, or apt install python3-fovea' % e, file=sys.stderr)\n"
    "    sys.exit(2)\n"
    "main(sys.argv[1:])\n";

static char *readable(char *file)
{
    if (file && access(file, R_OK) == 0)
        return file;
    free(file);
    return NULL;
}

/* Returns the path of the module, relative to the program's folder or in CLI_CONVERT_FOLDER; the
 * caller frees it. Returns NULL if the module was not found. */
static char *find_module(void)
{
    char *program = realpath("/proc/self/exe", NULL), *found = NULL;
    for (size_t i = 0; program && !found && i < sizeof locations / sizeof *locations; i++)
        found = readable(cli_text("%.*s%s/__main__.py", (int)(cli_file_name(program) - program),
                                  program, locations[i]));
    free(program);
    return found ? found : readable(cli_text("%s/__main__.py", CLI_CONVERT_FOLDER));
}

/* Replaces this process by Python. Returns only after a failure, with an exit code. */
static int run_python(const char **argv)
{
    static const char *const names[] = {"python3", "python"};
    fflush(NULL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        argv[0] = names[i];
        execvp(argv[0], (char *const *)(uintptr_t)argv); /* execvp does not change argv */
        if (errno != ENOENT && errno != EACCES && errno != ENOTDIR)
            return cli_fail(CLI_UNSUPPORTED, "convert cannot run %s: %s", argv[0], strerror(errno));
    }
    return cli_fail(
        CLI_UNSUPPORTED,
        "convert needs Python 3, but PATH has no python3; install it (apt install python3)");
}

int cli_convert(const cli_command *self, int argc, char **argv)
{
    const char *architecture = NULL, *weights = NULL;
    cli_common common = {
        .more = "\nCHECKPOINT is a .bin, .pth or .pt file of PyTorch, or a folder with one. It is "
                "read as\n"
                "data, and no code in it is run. CHECKPOINT may also be a folder with quantised\n"
                "safetensors, which are converted to float32: int8 of torchao, bitsandbytes,\n"
                "compressed-tensors, FP8. This needs numpy. python3 -m fovea.convert is the same "
                "program.\n"};
    const cli_option own[] = {
        {"architecture", 0, "NAME", "architecture of the checkpoint, if there is no config.json",
         &architecture},
        {"weights", 0, "KEY",
         "key of the weights to use, if there are several sets (default: averaged weights, if "
         "there are any)",
         &weights},
        {NULL},
    };
    int first, code = cli_parse(&first, self, &common, own, argc, argv);
    if (code || !first)
        return code;
    const int n = argc - first;
    if (n < 2 || n > 3)
        return cli_fail(CLI_USAGE,
                        "convert takes a CHECKPOINT and a FOLDER; see fovea convert --help");
    char *module = find_module();
    const char *run[16] = {"", module ? "-B" : "-c", module ? module : run_module}, **at = run + 3;
    if (architecture) {
        *at++ = "--architecture";
        *at++ = architecture;
    }
    if (weights) {
        *at++ = "--weights";
        *at++ = weights;
    }
    *at++ = "--";
    for (int i = first; i < argc; i++)
        *at++ = argv[i];
    code = run_python(run);
    free(module);
    return code;
}
