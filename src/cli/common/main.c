/* main.c: the program `fovea`: finds the command and sets up messages. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/cli.h"

enum {
    MODEL = CLI_TAKES_ISA | CLI_TAKES_DEVICE | CLI_TAKES_PLAN | CLI_TAKES_WISDOM | CLI_TAKES_SIZE |
            CLI_TAKES_JSON | CLI_TAKES_MODEL,
};

static const cli_command commands[] = {
    {"info", "[--kernels] [--models] [--attentions]", "devices, backends and kernels", cli_info,
     CLI_TAKES_ISA | CLI_TAKES_JSON},
    {"run", "MODEL INPUT...", "labels, features and other outputs of pictures", cli_run,
     MODEL | CLI_TAKES_PICTURES | CLI_TAKES_STRICT},
    {"plan", "MODEL [--size WxH]", "time, memory and steps of a model, before anything runs",
     cli_plan, MODEL},
    {"tune", "[MODEL] [--size LIST], or MODEL --accuracy X PICTURE...",
     "measures what is fastest here, and keeps it", cli_tune, MODEL | CLI_TAKES_PICTURES},
    {"verify", "[MODEL [PICTURE...]] [--kernel TEXT]",
     "kernels, or a model layer by layer, against references", cli_verify,
     MODEL | CLI_TAKES_PICTURES},
    {"cache", "list|verify|clear|export|import [FILE]", "wisdom and compiled kernels on disk",
     cli_cache, CLI_TAKES_WISDOM | CLI_TAKES_JSON},
#ifdef CLI_ADAPT
    {"linearise", "MODEL --data PHOTOS -o OUT", "a softmax checkpoint becomes linear in tokens",
     cli_linearise, (MODEL & ~(unsigned)CLI_TAKES_SIZE) | CLI_TAKES_PICTURES | CLI_TAKES_STRICT},
    {"adapt", "MODEL --stage 1|2|3 --data PATH -o OUT", "linear attention for a softmax checkpoint",
     cli_adapt, MODEL | CLI_TAKES_PICTURES | CLI_TAKES_STRICT},
#endif
    {"lm", "MODEL --ids 1,2,3 [--generate N]", "tokens that follow others, of a language model",
     cli_lm, MODEL & ~(unsigned)CLI_TAKES_SIZE},
    {"eval", "MODEL --data DIR", "how good a model is on pictures with known answers", cli_eval,
     MODEL | CLI_TAKES_PICTURES | CLI_TAKES_STRICT},
    {"bench", "gemm|attention|block|model|lm|kernel|floors", "verified speed and memory", cli_bench,
     MODEL | CLI_TAKES_STRICT},
    /* From here on, for those who work on Fovea itself. */
    {"op", "CASE.safetensors -o OUT.safetensors", "one operator call in the golden files' format",
     cli_op, MODEL & ~(unsigned)(CLI_TAKES_JSON | CLI_TAKES_SIZE | CLI_TAKES_MODEL)},
};
enum { COMMANDS = sizeof commands / sizeof *commands, FOR_USERS = COMMANDS - 1 };

/* A line on stderr. Names in it come from files and folders. */
static void tell(const char *text)
{
    char *line = cli_printable(text);
    cli_progress_hide();
    fprintf(stderr, "fovea: %s\n", line);
    free(line);
}

static void tell_formatted(const char *format, va_list args)
{
    char text[4096];
    vsnprintf(text, sizeof text, format, args);
    tell(text);
}

void cli_tell(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tell_formatted(format, args);
    va_end(args);
}

int cli_fail(int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tell_formatted(format, args);
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
        tell(line);
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

static void list_commands(FILE *to, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++)
        fprintf(to, "  %-6s %-45s %s\n", commands[i].name, commands[i].usage, commands[i].summary);
}

static void help(FILE *to)
{
    fputs("usage: fovea COMMAND ...   (fovea help COMMAND lists its options)\n\n", to);
    list_commands(to, 0, FOR_USERS);
    fputs("\nfor development:\n", to);
    list_commands(to, FOR_USERS, COMMANDS);
    fputs(
        "\nMODEL is a Hugging Face directory, a .safetensors file with config.json beside it, or\n"
        "synthetic:NAME, which has random weights; fovea info --models lists the names.\n\n"
        "exit status: 0 ok, 1 usage, 2 not supported here, 3 failed verification, 4 device "
        "error,\n  5 unstable measurement, 6 slower than the baseline, 7 bad input\n"
        "environment: FOVEA_ISA (as --isa), FOVEA_CACHE (folder of compiled kernels),\n"
        "  FOVEA_WISDOM (file of what tuning has found; empty: none),\n"
        "  FOVEA_RIGOR=estimate|measure|exhaustive, FOVEA_LOG (remarks on stderr: off; all; or a "
        "word that\n  a remark must hold: cache, wisdom, tuning, device, cuda)\n",
        to);
}

static const cli_command *find(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0)
            return &commands[i];
    return NULL;
}

static int unknown(const char *name)
{
    const char *names[COMMANDS + 1] = {NULL};
    for (size_t i = 0; i < COMMANDS; i++)
        names[i] = commands[i].name;
    const char *likely = cli_likely(name, names);
    return cli_fail(CLI_USAGE, "no command \"%s\"; %s%s%sfovea help lists them", name,
                    likely ? "did you mean \"" : "", likely ? likely : "", likely ? "\"? " : "");
}

static bool is(const char *text, const char *command, const char *option)
{
    return strcmp(text, command) == 0 || strcmp(text, option) == 0;
}

static int run(int argc, char **argv)
{
    const bool helps = is(argv[0], "help", "--help") || strcmp(argv[0], "-h") == 0;
    const char *name = helps && argc > 1 ? argv[1] : argv[0];
    const cli_command *command = find(name);
    if (helps && argc < 2) {
        help(stdout);
        return CLI_OK;
    }
    if (is(name, "version", "--version")) {
        printf("fovea %s\n", fovea_version());
        return CLI_OK;
    }
    if (!command)
        return unknown(name);
    char *ask[] = {argv[0], (char[]){"--help"}, NULL};
    return helps ? command->run(command, 2, ask) : command->run(command, argc, argv);
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
