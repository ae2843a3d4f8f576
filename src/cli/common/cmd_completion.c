/* cmd_completion.c: `fovea completion`: writes scripts for bash, zsh and fish that complete
 * commands, options and their values. They are made from what --help prints. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/cli.h"

/* The values that may follow an option or a command's name, by their kind. */
typedef struct values {
    enum { ANYTHING, WORDS, FILES, MODELS } kind;
    char *words; /* for kind WORDS: the words, separated by blanks; the caller frees them */
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

static const char *const *listed; /* the choices of kind LISTED, set by `choice` */

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

/* Returns the values of a command's positional arguments. If its usage begins with a choice a|b|c,
 * these are a, b and c; else models or files. */
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

/* Prints `text` with a backslash before each character in `special`, and with `quote` instead of
 * each quote. */
static void escaped(const char *text, const char *special, const char *quote)
{
    for (; *text; text++) {
        if (*text == '\'') {
            fputs(quote, stdout);
            continue;
        }
        if (strchr(special, *text))
            putchar('\\');
        putchar(*text);
    }
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

/* Prints the bash script. It splits the line at blanks only. bash itself also splits at colons and
 * =, and uses only the part of COMPREPLY after the last of these. */
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

/* ---- zsh ---- */

static void zsh_values(const values *v)
{
    if (v->kind == WORDS) {
        putchar('(');
        escaped(v->words, ":", "");
        putchar(')');
    } else if (v->kind != ANYTHING)
        fputs(v->kind == MODELS ? "_fovea_models" : "_files", stdout);
}

static void zsh_help(const char *help)
{
    putchar('[');
    escaped(help, "[]\\", "'\\''");
    putchar(']');
}

static void zsh_option(const cli_option *o)
{
    if (o->letter)
        printf("'(-%c --%s)'{-%c,--%s%s}'", o->letter, o->name, o->letter, o->name,
               o->argument ? "=" : "");
    else
        printf("'--%s%s", o->name, o->argument ? "=" : "");
    zsh_help(o->help);
    if (o->argument) {
        values v = values_of_option(o);
        putchar(':');
        escaped(o->argument, ":\\", "");
        putchar(':');
        zsh_values(&v);
        free(v.words);
    }
    fputs("' \\\n            ", stdout);
}

static void zsh_command(const cli_description *d, void *unused)
{
    values v = values_of_command(d->command);
    (void)unused;
    printf("    %s)\n        _arguments -s ", d->command->name);
    for (size_t i = 0; i < d->options; i++)
        zsh_option(&d->option[i]);
    fputs("'(-h --help)'{-h,--help}'[print this text]' \\\n            ", stdout);
    if (v.kind == WORDS) {
        fputs("'1:what:", stdout);
        zsh_values(&v);
        fputs("' '*:file:_files'", stdout);
    } else {
        fputs("'*:file:", stdout);
        zsh_values(&v);
        putchar('\'');
    }
    puts(" ;;");
    free(v.words);
}

static void zsh(const char *commands, const char *models)
{
    puts("#compdef fovea\n# Completes fovea in zsh; written by: fovea completion zsh\n"
         "_fovea_models()\n{");
    printf("    local -a models=(%s)\n", models);
    puts("    _alternative 'models:model:compadd -a models' 'files:file:_files'\n}\n\n"
         "_fovea()\n{\n"
         "    local -a commands=(");
    for (const cli_command *c = cli_commands; c->name; c++) {
        printf("        '%s:", c->name);
        escaped(c->summary, ":\\", "'\\''");
        puts("'");
    }
    puts("    )\n"
         "    if ((CURRENT == 2)); then\n"
         "        _describe command commands\n"
         "        return\n"
         "    fi\n"
         "    local command=$words[2]\n"
         "    shift words\n"
         "    ((CURRENT--))\n"
         "    case $command in");
    printf("    help) _values command %s ;;\n", commands);
    for (const cli_command *c = cli_commands; c->name; c++)
        cli_describe(c, zsh_command, NULL);
    puts("    esac\n}\n\n"
         "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n"
         "    _fovea \"$@\"\n"
         "else\n"
         "    compdef _fovea fovea\n"
         "fi");
}

/* ---- fish ---- */

static void fish_text(const char *option, const char *text)
{
    printf(" %s '", option);
    escaped(text, "\\", "\\'");
    putchar('\'');
}

static void fish_values(const values *v, const char *models)
{
    if (v->kind == WORDS) {
        fputs(" -f", stdout);
        fish_text("-a", v->words);
    } else if (v->kind == ANYTHING)
        fputs(" -f", stdout);
    else {
        fputs(" -F", stdout);
        if (v->kind == MODELS)
            fish_text("-a", models);
    }
}

static void fish_command(const cli_description *d, void *models)
{
    const char *name = d->command->name;
    values v = values_of_command(d->command);
    printf("complete -c fovea -n '__fish_use_subcommand' -a %s", name);
    fish_text("-d", d->command->summary);
    printf("\ncomplete -c fovea -n '__fish_seen_subcommand_from %s'", name);
    fish_values(&v, models);
    putchar('\n');
    free(v.words);
    for (size_t i = 0; i < d->options; i++) {
        const cli_option *o = &d->option[i];
        printf("complete -c fovea -n '__fish_seen_subcommand_from %s' -l %s", name, o->name);
        if (o->letter)
            printf(" -s %c", o->letter);
        fish_text("-d", o->help);
        if (o->argument) {
            values behind = values_of_option(o);
            fputs(" -r", stdout);
            fish_values(&behind, models);
            free(behind.words);
        }
        putchar('\n');
    }
}

static void fish(char *models)
{
    puts("# Completes fovea in fish; written by: fovea completion fish\n"
         "complete -c fovea -f");
    for (const cli_command *c = cli_commands; c->name; c++)
        cli_describe(c, fish_command, models);
}

int cli_completion(const cli_command *self, int argc, char **argv)
{
    enum { BASH, ZSH, FISH };
    static const char *const shells[] = {"bash", "zsh", "fish", NULL};
    cli_common common = {0};
    int first, shell = BASH, code = cli_parse(&first, self, &common, NULL, argc, argv);
    if (code || !first)
        return code;
    while (first < argc && shells[shell] && strcmp(shells[shell], argv[first]) != 0)
        shell++;
    if (first + 1 != argc || !shells[shell])
        return cli_fail(CLI_USAGE, "completion takes one of bash, zsh and fish");
    char *models = joined(fovea_model_synthetic, "synthetic:");
    char *commands = joined(command_name, "");
    if (shell == BASH)
        bash(commands, models);
    else if (shell == ZSH)
        zsh(commands, models);
    else
        fish(models);
    free(commands);
    free(models);
    return CLI_OK;
}
