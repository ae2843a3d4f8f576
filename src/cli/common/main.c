/* main.c: the program `fovea`: finds the command and sets up messages. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/cli.h"

/* A line on stderr. Names in it come from files and folders. */
static void say(const char *text)
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
    say(text);
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

/* Whether a remark came before, as one of another plan: with other numbers it is the same one. */
static bool was_said(const char *line)
{
    static char **said; /* without digits; for the life of the program */
    static size_t n;
    char *form = cli_text("%s", line);
    size_t length = 0;
    for (const char *c = line; *c; c++)
        if (*c < '0' || *c > '9')
            form[length++] = *c;
    form[length] = 0;
    for (size_t i = 0; i < n; i++)
        if (strcmp(said[i], form) == 0) {
            free(form);
            return true;
        }
    said = cli_grow(said, n, sizeof *said);
    said[n++] = form;
    return false;
}

/* Remarks of the library go to stderr, each once, but for the cache's, which say that all is well.
 * FOVEA_LOG=all keeps these and repeated ones too, off drops all, any other word keeps the lines
 * that hold it. */
static void log_line(const char *line, void *payload)
{
    const char *filter = payload;
    if (filter ? strstr(line, filter) != NULL : strncmp(line, "cache: ", 7) != 0 && !was_said(line))
        say(line);
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

static void list_commands(FILE *to, bool development)
{
    for (const cli_command *c = cli_commands; c->name; c++)
        if (c->development == development)
            fprintf(to, "  %-10s %-45s %s\n", c->name, c->usage, c->summary);
}

static void help(FILE *to)
{
    fputs("usage: fovea COMMAND ...   (fovea help COMMAND lists its options)\n\n", to);
    list_commands(to, false);
    fputs("\nfor development:\n", to);
    list_commands(to, true);
    fprintf(to, "\n%s\n", cli_model_words);
    fputs("exit status:\n", to);
    for (const cli_term *t = cli_exit_terms; t->name; t++)
        fprintf(to, "  %s  %s\n", t->name, t->meaning);
    fputs("environment:\n", to);
    for (const cli_term *t = cli_environment_terms; t->name; t++)
        fprintf(to, "  %-19s %s\n", t->name, t->meaning);
}

static int unknown(const char *name)
{
    enum { MOST = 32 };
    const char *names[MOST + 1] = {NULL};
    for (size_t i = 0; i < MOST && cli_commands[i].name; i++)
        names[i] = cli_commands[i].name;
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
    const cli_command *command = cli_command_find(name);
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
