/* cmd_manual.c: `fovea manual`: prints manual pages in roff, made from what --help prints. */
#include <stdio.h>
#include <string.h>

#include "cli/common/cli.h"

/* a manual page needs a date; a date of the build would make builds differ */
#define WRITTEN "2026-11-28"

/* Prints the first n bytes of `text`, with all characters escaped that roff would interpret. */
static void words(const char *text, size_t n)
{
    bool begins = true; /* at the beginning of a line */
    for (size_t i = 0; i < n; i++) {
        const char c = text[i];
        if (begins && (c == '.' || c == '\''))
            fputs("\\&", stdout);
        if (c == '\\')
            fputs("\\e", stdout);
        else if (c == '-')
            fputs("\\-", stdout);
        else if (c == '\'')
            fputs("\\(aq", stdout);
        else if (c == '^' || c == '~')
            fputs(c == '^' ? "\\(ha" : "\\(ti", stdout);
        else
            putchar(c);
        begins = c == '\n';
    }
}

static void text(const char *t)
{
    words(t, strlen(t));
}

static void section(const char *name)
{
    printf(".SH %s\n", name);
}

/* Prints `lines` unfilled, without the empty lines at the beginning and the end. */
static void verbatim(const char *lines)
{
    size_t n = strlen(lines);
    while (n && lines[n - 1] == '\n')
        n--;
    const size_t skipped = strspn(lines, "\n");
    puts(".nf");
    words(lines + skipped, n - skipped);
    puts("\n.fi");
}

static void title(const char *name, const char *summary)
{
    const bool whole = !name;
    printf(".TH FOVEA%s", whole ? "" : "\\-");
    for (const char *c = whole ? "" : name; *c; c++)
        putchar(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
    printf(" 1 " WRITTEN " \"fovea %s\" \"Fovea\"\n", fovea_version());
    section("NAME");
    printf("fovea%s%s \\- ", whole ? "" : "\\-", whole ? "" : name);
    text(summary);
    putchar('\n');
    section("SYNOPSIS");
}

static void terms(const char *name, const cli_term *t)
{
    section(name);
    for (; t->name; t++) {
        printf(".TP\n.B %s\n", t->name);
        text(t->meaning);
        putchar('\n');
    }
}

static void option(char letter, const char *name, const char *argument, const char *help)
{
    fputs(".TP\n", stdout);
    if (letter)
        printf("\\fB\\-%c\\fR, ", letter);
    fputs("\\fB\\-\\-", stdout);
    text(name);
    fputs("\\fR", stdout);
    if (argument) {
        fputs(" \\fI", stdout);
        text(argument);
        fputs("\\fR", stdout);
    }
    putchar('\n');
    text(help);
    putchar('\n');
}

static void page(const cli_description *d, void *unused)
{
    const cli_command *c = d->command;
    (void)unused;
    title(c->name, c->summary);
    printf(".B fovea %s\n", c->name);
    text(c->usage);
    puts(" [options]");
    section("DESCRIPTION");
    text(c->summary);
    putchar('\n');
    if (c->takes & CLI_TAKES_MODEL) {
        puts(".PP");
        text(cli_model_words);
    }
    section("OPTIONS");
    for (size_t i = 0; i < d->options; i++)
        option(d->option[i].letter, d->option[i].name, d->option[i].argument, d->option[i].help);
    option('h', "help", NULL, "print a short form of this page");
    if (d->more) {
        section("NOTES");
        verbatim(d->more);
    }
    terms("EXIT STATUS", cli_exit_terms);
    terms("ENVIRONMENT", cli_environment_terms);
    section("EXAMPLES");
    verbatim(c->examples);
    section("SEE ALSO");
    puts(".BR fovea (1)");
}

static void program_page(void)
{
    title(NULL, "vision transformers on edge devices");
    puts(".B fovea\n.I COMMAND\n[options]");
    section("DESCRIPTION");
    text(cli_model_words);
    section("COMMANDS");
    for (const cli_command *c = cli_commands; c->name; c++) {
        printf(".TP\n\\fB%s\\fR ", c->name);
        text(c->usage);
        putchar('\n');
        text(c->summary);
        putchar('\n');
    }
    terms("EXIT STATUS", cli_exit_terms);
    terms("ENVIRONMENT", cli_environment_terms);
    section("EXAMPLES");
    puts(".nf");
    for (const cli_command *c = cli_commands; c->name; c++)
        if (!c->development)
            words(c->examples, strcspn(c->examples, "\n") + 1);
    puts(".fi");
    section("SEE ALSO");
    for (const cli_command *c = cli_commands; c->name; c++)
        printf(".BR fovea\\-%s (1)%s\n", c->name, c[1].name ? "," : "");
}

int cli_manual(const cli_command *self, int argc, char **argv)
{
    cli_common common = {0};
    int first, code = cli_parse(&first, self, &common, NULL, argc, argv);
    if (code || !first)
        return code;
    if (first + 1 < argc)
        return cli_fail(CLI_USAGE, "manual takes one COMMAND, or none");
    if (first == argc) {
        program_page();
        return CLI_OK;
    }
    const cli_command *command = cli_command_find(argv[first]);
    if (!command)
        return cli_fail(CLI_USAGE, "manual %s: this command does not exist; fovea help lists them",
                        argv[first]);
    return cli_describe(command, page, NULL);
}
