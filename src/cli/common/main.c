/* main.c: the program `fovea`: finds the command and runs it. */
#include <stdio.h>
#include <string.h>

#ifdef CLI_TRAIN
#include <fovea/adapt.h>
#endif

#include "cli/common/cli.h"

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
    return cli_fail(CLI_USAGE, "command \"%s\" does not exist; %s%s%sfovea help lists them", name,
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
    cli_log_begin();
    if (argc < 2) {
        help(stderr);
        return CLI_USAGE;
    }
#ifdef CLI_TRAIN
    if (fovea_training_register())
        return cli_fail(CLI_UNSUPPORTED, "%s", fovea_error());
#endif
    const int code = run(argc - 1, argv + 1);
    if (fflush(stdout) || ferror(stdout))
        return code ? code
                    : cli_fail(CLI_INPUT, "cannot write to standard output; its reader may have "
                                          "ended, or the disk may be full");
    return code;
}
