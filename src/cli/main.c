/* main.c: the program `fovea`: finds the command and sets up messages. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const cli_command commands[] = {
    {"info", "[--kernels] [--models]", "devices, backends and kernels", cli_info},
    {"run", "MODEL INPUT...", "labels, features and other outputs of pictures", cli_run},
    {"plan", "MODEL [--size WxH]", "what a plan takes, before anything runs", cli_plan},
    {"op", "CASE.safetensors -o OUT.safetensors", "one operator call in the golden files' format",
     cli_op},
    {"tune", "[MODEL] [--size LIST]", "measures what is fastest here, and keeps it", cli_tune},
    {"verify", "[MODEL] [--kernel TEXT]", "kernels, or a model layer by layer, against definitions",
     cli_verify},
    {"cache", "list|verify|clear|export|import [FILE]", "wisdom and compiled kernels on disk",
     cli_cache},
#ifdef CLI_ADAPT
    {"adapt", "MODEL --stage 1|2|3 --data PATH -o OUT", "linear attention for a softmax checkpoint",
     cli_adapt},
#endif
    {"bench", "gemm|attention|block|model|kernel|floors", "verified speed and memory", cli_bench},
};

int cli_fail(int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("fovea: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return code;
}

int cli_check(fovea_status status)
{
    static const struct {
        fovea_status status;
        int code;
    } codes[] = {
        {FOVEA_EINVAL, CLI_INPUT},        {FOVEA_ENOMEM, CLI_INPUT},
        {FOVEA_EIO, CLI_INPUT},           {FOVEA_EFORMAT, CLI_INPUT},
        {FOVEA_ENOTSUP, CLI_UNSUPPORTED}, {FOVEA_ENODEV, CLI_UNSUPPORTED},
        {FOVEA_EWISDOM, CLI_INPUT},
    };
    if (status == FOVEA_OK)
        return CLI_OK;
    int code = CLI_DEVICE;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].status == status)
            code = codes[i].code;
    return cli_fail(code, "%s", fovea_error());
}

/* Remarks of the library go to stderr, but for the cache's, which say that all is well.
 * FOVEA_LOG=all keeps these too, off drops all, any other word keeps the lines that hold it. */
static void log_line(const char *line, void *payload)
{
    const char *filter = payload;
    if (filter ? strstr(line, filter) != NULL : strncmp(line, "cache: ", 7) != 0)
        fprintf(stderr, "fovea: %s\n", line);
}

static void log_begin(void)
{
    static char every[] = ""; /* is in each line */
    char *filter = getenv("FOVEA_LOG");
    if (filter && strcmp(filter, "off") == 0)
        return;
    if (filter && strcmp(filter, "all") == 0)
        filter = every;
    else if (filter && !*filter)
        filter = NULL;
    fovea_log_set(log_line, filter);
}

static void help(FILE *to)
{
    fputs("usage: fovea COMMAND ...   (fovea COMMAND --help tells its options)\n\n", to);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        fprintf(to, "  %-6s %-38s %s\n", commands[i].name, commands[i].usage, commands[i].summary);
    fputs(
        "\nMODEL is a Hugging Face directory, a .safetensors file with config.json beside it, or\n"
        "synthetic:NAME, which has random weights; fovea info --models lists the names.\n\n"
        "exit status: 0 ok, 1 usage, 2 not supported here, 3 failed verification, 4 device "
        "error,\n  5 unstable measurement, 6 slower than the baseline, 7 bad input\n"
        "environment: FOVEA_ISA, FOVEA_CACHE (folder of compiled kernels), "
        "FOVEA_LOG=off|all|WORD,\n  FOVEA_WISDOM (file of what tuning has found; empty: none), "
        "FOVEA_RIGOR=estimate|measure|exhaustive\n",
        to);
}

static int run(int argc, char **argv)
{
    if (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0) {
        help(stdout);
        return CLI_OK;
    }
    if (strcmp(argv[0], "--version") == 0) {
        printf("fovea %s\n", fovea_version());
        return CLI_OK;
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(argv[0], commands[i].name) == 0)
            return commands[i].run(&commands[i], argc, argv);
    return cli_fail(CLI_USAGE, "no command \"%s\"; fovea --help lists them", argv[0]);
}

int main(int argc, char **argv)
{
    log_begin();
    if (argc < 2) {
        help(stderr);
        return CLI_USAGE;
    }
    const int code = run(argc - 1, argv + 1);
    if (fflush(stdout) || ferror(stdout))
        return code ? code : cli_fail(CLI_INPUT, "cannot write to standard output");
    return code;
}
