/* cmd_completion.c: `fovea completion`: what completes commands, options and their values in bash,
 * made of what --help prints. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/cli.h"

/* The values that may follow an option, or a command. */
typedef struct values {
    enum { ANYTHING, WORDS, FILES, MODELS } kind;
    char *words; /* of WORDS, with blanks between; to be freed */
} values;

static char *joined(const char *(*at)(size_t), const char *before)
{
    const char *word;
    char *all = cli_text("%s", "");
    for (size_t i = 0; (word = at(i)); i++) {
        char *more = cli_text("%s%s%s%s", all, i ? " " : "", before, word);
        free(all);
        all = more;
    }
    return all;
}

static const char *const *listed; /* by `choice` */

static const char *choice(size_t i)
{
    return listed[i];
}

static const char *command_name(size_t i)
{
    return cli_commands[i].name;
}

static values values_of_option(const cli_option *o)
{
    static const char *const files[] = {"FILE", "FILE.npy", "DIR",   "FOLDER",
                                        "OUT",  "PATH",     "PHOTOS"};
    if (o->choices) {
        listed = o->choices;
        return (values){WORDS, joined(choice, "")};
    }
    if (strcmp(o->name, "attention") == 0)
        return (values){WORDS, joined(fovea_model_attention, "")};
    if (strncmp(o->argument, "MODEL", 5) == 0)
        return (values){MODELS, NULL};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strcmp(o->argument, files[i]) == 0)
            return (values){FILES, NULL};
    return (values){ANYTHING, NULL};
}

/* Of a command's arguments: usage begins with a choice of words, or says what it takes. */
static values values_of_command(const cli_command *c)
{
    const size_t n = strcspn(c->usage, " ");
    if (memchr(c->usage, '|', n)) {
        char *words = cli_text("%.*s", (int)n, c->usage);
        for (char *bar = words; (bar = strchr(bar, '|'));)
            *bar = ' ';
        return (values){WORDS, words};
    }
    if (strcmp(c->usage, "[COMMAND]") == 0)
        return (values){WORDS, joined(command_name, "")};
    return (values){c->takes & CLI_TAKES_MODEL ? MODELS : FILES, NULL};
}

/* ---- bash ---- */

static void bash_values(const values *v)
{
    switch (v->kind) {
    case WORDS:
        printf("words='%s'", v->words);
        break;
    case MODELS:
        fputs("[[ $word != syn* ]] || words=$models", stdout);
        break;
    case FILES:
        fputs("return", stdout);
        break;
    case ANYTHING:
        fputs("compopt +o default 2>/dev/null; return", stdout);
        break;
    }
}

static void bash_command(const cli_description *d, void *unused)
{
    (void)unused;
    printf("    %s)\n        case $before in\n", d->command->name);
    for (size_t i = 0; i < d->options; i++) {
        const cli_option *o = &d->option[i];
        if (!o->argument)
            continue;
        values v = values_of_option(o);
        printf("        --%s", o->name);
        if (o->letter)
            printf("|-%c", o->letter);
        fputs(") ", stdout);
        bash_values(&v);
        puts(" ;;");
        free(v.words);
    }
    fputs("        *) if [[ $word == -* ]]; then words='", stdout);
    for (size_t i = 0; i < d->options; i++)
        printf("--%s ", d->option[i].name);
    values v = values_of_command(d->command);
    printf("--help'; %s ", v.kind == WORDS ? "elif ((${#all[@]} == 1)); then" : "else");
    bash_values(&v);
    puts("; fi ;;\n        esac ;;");
    free(v.words);
}

/* The words of the line are split at blanks alone: bash splits at colons and = too, and takes only
 * what is after the last of these from COMPREPLY. */
static void bash(const char *commands, const char *models)
{
    puts("# Completes fovea in bash; written by: fovea completion bash\n"
         "_fovea()\n{\n"
         "    local line=${COMP_LINE:0:COMP_POINT} word= words= before head i all\n"
         "    line=${line#*\"$1\"}\n"
         "    read -ra all <<<\"$line\"\n"
         "    if [[ $line != *[[:space:]] ]]; then\n"
         "        word=${all[${#all[@]}-1]}\n"
         "        unset \"all[${#all[@]}-1]\"\n"
         "    fi\n"
         "    COMPREPLY=()\n"
         "    ((${#all[@]})) && before=${all[${#all[@]}-1]}\n"
         "    [[ $word != --*=* ]] || { before=${word%%=*}; word=${word#*=}; }");
    printf("    local models='%s'\n", models);
    puts("    case ${all[0]-} in");
    printf("    ''|help) words='%s'; [[ ${all[0]-} ]] || words+=' help version' ;;\n", commands);
    for (const cli_command *c = cli_commands; c->name; c++)
        cli_describe(c, bash_command, NULL);
    puts("    esac\n"
         "    [[ $words ]] || return 0\n"
         "    head=${word%\"${word##*,}\"}\n"
         "    COMPREPLY=($(compgen -P \"$head\" -W \"$words\" -- \"${word##*,}\"))\n"
         "    if [[ $word == *:* && $COMP_WORDBREAKS == *:* ]]; then\n"
         "        for i in \"${!COMPREPLY[@]}\"; do\n"
         "            COMPREPLY[i]=${COMPREPLY[i]#\"${word%\"${word##*:}\"}\"}\n"
         "        done\n"
         "    fi\n"
         "}\n"
         "complete -o default -F _fovea fovea");
}

int cli_completion(const cli_command *self, int argc, char **argv)
{
    cli_common common = {0};
    int first, code = cli_parse(&first, self, &common, NULL, argc, argv);
    if (code || !first)
        return code;
    if (first + 1 != argc || strcmp(argv[first], "bash") != 0)
        return cli_fail(CLI_USAGE,
                        "completion takes bash, whose functions zsh reads by bashcompinit");
    char *models = joined(fovea_model_synthetic, "synthetic:");
    char *commands = joined(command_name, "");
    bash(commands, models);
    free(commands);
    free(models);
    return CLI_OK;
}
