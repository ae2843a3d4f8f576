/* class_order.c: determines which class of the model each folder of pictures contains: from its
 * name, from the order of all names, from its number, or from a file. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/eval/eval.h"
#include "json/json.h"

#define SHOWN 3 /* most folders that a message lists */

/* Skips separators between words, so that "potted plant" equals "pottedplant" and
 * "potted_plant". */
static const char *skip(const char *text)
{
    while (*text == ' ' || *text == '_' || *text == '-')
        text++;
    return text;
}

/* Skips leading zeros of a number, so that 007 equals 7. */
static const char *skip_zeros(const char *text)
{
    if (!*text || text[strspn(text, "0123456789")])
        return text;
    while (*text == '0' && text[1])
        text++;
    return text;
}

bool eval_same_name(const char *name, const char *label)
{
    if (strcmp(name, label) == 0)
        return true;
    name = skip_zeros(name);
    label = skip_zeros(label);
    for (;; name++, label++) {
        name = skip(name);
        label = skip(label);
        if (!*name || !*label || *label == ',')
            return !*name && (!*label || *label == ',');
        if (tolower((unsigned char)*name) != tolower((unsigned char)*label))
            return false;
    }
}

/* ---- by the names of classes ---- */

/* Returns the first class of the model, from class k on, that has the folder's name, or `classes`
 * if there is none. */
static uint32_t find_label(const eval_run *r, const char *folder, uint32_t k)
{
    const uint32_t classes = r->s.info.classes;
    for (; k < classes; k++) {
        const char *label = fovea_model_label(r->s.model, k);
        if (label && eval_same_name(folder, label))
            return k;
    }
    return classes;
}

/* Returns the number of folders that have the name of a class. Sets *missing to a folder that does
 * not. */
static size_t match_labels(eval_run *r, size_t *missing)
{
    size_t found = 0;
    for (size_t i = 0; i < r->data.classes; i++) {
        r->class_of[i] = find_label(r, r->data.class_name[i], 0);
        if (r->class_of[i] < r->s.info.classes)
            found++;
        else
            *missing = i;
    }
    return found;
}

/* Reports folders whose name belongs to several classes: ImageNet has two classes "crane". */
static void tell_doubles(const eval_run *r)
{
    size_t doubles = 0, first = 0;
    for (size_t i = r->data.classes; i-- > 0;)
        if (find_label(r, r->data.class_name[i], r->class_of[i] + 1) < r->s.info.classes) {
            doubles++;
            first = i;
        }
    if (doubles == 0)
        return;
    const uint32_t k = r->class_of[first];
    cli_tell("%zu folder%s named like several classes, of which the first is used: %s is %u and "
             "%u; use --class-order FILE to tell them apart",
             doubles, doubles > 1 ? "s are" : " is", r->data.class_name[first], k,
             find_label(r, r->data.class_name[first], k + 1));
}

/* ---- by numbers ---- */

typedef struct numbered {
    unsigned long number;
    size_t folder;
} numbered;

static int by_number(const void *a, const void *b)
{
    const numbered *x = a, *y = b;
    return x->number != y->number ? (x->number > y->number) - (x->number < y->number)
                                  : (x->folder > y->folder) - (x->folder < y->folder);
}

/* Finds the number that a name begins with, or else the last number in the name: 7, "7_cat",
 * "class_7". */
static bool number_in(unsigned long *out, const char *name)
{
    const char *at = isdigit((unsigned char)*name) ? name : NULL;
    for (const char *c = name; !at && *c; c++)
        if (isdigit((unsigned char)*c) && !strpbrk(c + strspn(c, "0123456789"), "0123456789"))
            at = c;
    errno = 0;
    *out = at ? strtoul(at, NULL, 10) : 0;
    return at && errno == 0;
}

/* Returns the folders sorted by number, or NULL if some have no number; *without is then the first
 * of these. */
static numbered *sort_numbers(const dataset *d, size_t *without)
{
    numbered *out = cli_alloc(d->classes, sizeof *out);
    for (size_t i = 0; i < d->classes; i++) {
        out[i].folder = i;
        if (!number_in(&out[i].number, d->class_name[i])) {
            *without = i;
            free(out);
            return NULL;
        }
    }
    qsort(out, d->classes, sizeof *out, by_number);
    return out;
}

/* Sets class_of from the folders' numbers. If there are as many folders as classes, their order
 * gives the class; if there are fewer, the number itself is the class. */
static int take_numbers(eval_run *r, const numbered *by)
{
    const dataset *d = &r->data;
    const bool all = d->classes == r->s.info.classes;
    for (size_t i = 0; i < d->classes; i++) {
        const unsigned long k = all ? i : by[i].number;
        const char *name = d->class_name[by[i].folder];
        if (i > 0 && by[i].number == by[i - 1].number)
            return cli_fail(
                CLI_INPUT,
                "%s: folders %s and %s have the same number; rename one, or use --class-order name",
                r->data_path, d->class_name[by[i - 1].folder], name);
        if (k >= r->s.info.classes)
            return cli_fail(CLI_INPUT,
                            "%s: folder %s has number %lu, but the model's classes are 0 to %u",
                            r->data_path, name, k, r->s.info.classes - 1);
        r->class_of[by[i].folder] = (uint32_t)k;
    }
    return CLI_OK;
}

static int match_numbers(eval_run *r)
{
    size_t without = 0;
    numbered *by = sort_numbers(&r->data, &without);
    if (!by)
        return cli_fail(
            CLI_INPUT,
            "--class-order number: folder %s has no number in its name; use --class-order name",
            r->data.class_name[without]);
    const int code = take_numbers(r, by);
    free(by);
    return code;
}

/* Returns whether all folders have numbers and their numeric order differs from the order of the
 * names. */
static bool numbers_differ(const dataset *d)
{
    size_t without;
    numbered *by = sort_numbers(d, &without);
    bool differ = false;
    for (size_t i = 0; by && i < d->classes; i++)
        differ = differ || by[i].folder != i;
    free(by);
    return differ;
}

/* ---- by a file ---- */

/* Returns whether a line is the name, or begins with the name, as in synset_words.txt. */
static bool line_names(const char *line, const char *name)
{
    const size_t n = strlen(name);
    return strncmp(line, name, n) == 0 && (!line[n] || strchr(" \t,", line[n]));
}

/* Returns the class that a JSON file gives a folder, or -1 if there is none. The JSON is one of
 * these:
 *
 *     - a list of names;
 *     - an object that maps each name to its class (torchvision's class_to_idx);
 *     - an object that maps each class to its name or to [name, label] (Keras'
 *       imagenet_class_index.json). */
static int64_t class_in_json(json_t *root, const char *name)
{
    const char *key;
    json_t *value;
    size_t i;
    int64_t k = -1;
    json_array_foreach(root, i, value)
        if (json_is_string(value) && strcmp(json_string_value(value), name) == 0)
            return (int64_t)i;
    if (fv_json_whole(&k, json_object_get(root, name)))
        return k;
    json_object_foreach(root, key, value) {
        const json_t *first = json_is_array(value) ? json_array_get(value, 0) : value;
        if (json_is_string(first) && strcmp(json_string_value(first), name) == 0)
            return strtol(key, NULL, 10);
    }
    return -1;
}

static void trim(char *line)
{
    for (size_t n = strlen(line); n > 0 && isspace((unsigned char)line[n - 1]); n--)
        line[n - 1] = 0;
}

/* Reads the lines of a text file as a JSON list. */
static int read_lines(json_t **out, const char *path)
{
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t capacity = 0;
    if (!f)
        return cli_fail(CLI_INPUT,
                        "--class-order %s: %s; use name, number or the path of an existing file",
                        path, strerror(errno));
    *out = json_array();
    while (getline(&line, &capacity, f) > 0) {
        trim(line);
        if (*line)
            json_array_append_new(*out, cli_json_text(line));
    }
    free(line);
    fclose(f);
    return CLI_OK;
}

static int64_t class_in_lines(json_t *lines, const char *name)
{
    size_t i;
    json_t *line;
    int64_t whole = class_in_json(lines, name);
    json_array_foreach(lines, i, line)
        if (whole < 0 && line_names(json_string_value(line), name))
            whole = (int64_t)i;
    return whole;
}

static int match_file(eval_run *r)
{
    const char *path = r->class_order;
    const bool is_json = cli_ends_with(path, ".json");
    json_t *order = NULL;
    int code = is_json ? cli_json_read(&order, path) : read_lines(&order, path);
    for (size_t i = 0; i < r->data.classes && !code; i++) {
        const char *name = r->data.class_name[i];
        const int64_t k = is_json ? class_in_json(order, name) : class_in_lines(order, name);
        if (k < 0)
            code = cli_fail(CLI_INPUT, "--class-order %s has no folder %s; add it", path, name);
        else if (k >= r->s.info.classes)
            code = cli_fail(CLI_INPUT,
                            "--class-order %s: %s is class %lld, but the model has only %u classes",
                            path, name, (long long)k, r->s.info.classes);
        else
            r->class_of[i] = (uint32_t)k;
    }
    json_decref(order);
    return code;
}

/* ---- any ---- */

/* Returns the first few classes as text: "a is class 0 (tench), b is class 1 (shark), ..." */
static char *some_of(const eval_run *r)
{
    const dataset *d = &r->data;
    char *text = cli_text("%s", "");
    for (size_t i = 0; i < d->classes && i < SHOWN; i++) {
        const char *label = fovea_model_label(r->s.model, r->class_of[i]);
        char *longer =
            cli_text("%s%s%s is class %u%s%.40s%s", text, i ? ", " : "", d->class_name[i],
                     r->class_of[i], label ? " (" : "", label ? label : "", label ? ")" : "");
        free(text);
        text = longer;
    }
    char *whole = cli_text("%s%s", text, d->classes > SHOWN ? ", ..." : "");
    free(text);
    return whole;
}

static void tell(eval_run *r, const char *how, const char *remedy)
{
    char *some = some_of(r);
    eval_tell_mapping(r, "classes are in the order of %s: %s%s", how, some, remedy);
    free(some);
}

/* Uses the order of the folders' names, if there are as many folders as classes. */
static int match_order(eval_run *r)
{
    const dataset *d = &r->data;
    const uint32_t classes = r->s.info.classes;
    CLI_TRY(dataset_check_classes(d));
    if (d->classes != classes)
        return cli_fail(
            CLI_INPUT, "%s: none of its %zu folders is named like one of the model's %u classes%s",
            r->data_path, d->classes, classes,
            d->classes < classes ? "; use --class-order number if the names contain numbers, or "
                                   "--class-order FILE for the order in a file"
                                 : "");
    for (size_t i = 0; i < d->classes; i++)
        r->class_of[i] = (uint32_t)i;
    tell(r, "the folders' names as text, as torchvision's ImageFolder does",
         numbers_differ(d) ? "; --class-order number sorts 10 after 9" : "");
    return CLI_OK;
}

static int match_packed(eval_run *r)
{
    for (size_t i = 0; i < r->data.classes; i++)
        r->class_of[i] = (uint32_t)i;
    if (r->class_order)
        return cli_fail(
            CLI_USAGE,
            "--class-order needs folders, but %s already has class numbers; leave it out",
            r->data_path);
    if (r->data.classes > r->s.info.classes)
        return cli_fail(CLI_INPUT, "%s has class %zu, but the model has only %u classes",
                        r->data_path, r->data.classes - 1, r->s.info.classes);
    eval_tell_mapping(r, "labels are class numbers, counted from 0");
    return CLI_OK;
}

int eval_match_classes(eval_run *r)
{
    const size_t folders = r->data.classes;
    size_t missing = 0;
    r->class_of = cli_alloc(folders, sizeof *r->class_of);
    if (!r->data.class_name)
        return match_packed(r);
    if (r->class_order && strcmp(r->class_order, "name") == 0)
        return match_order(r);
    if (r->class_order && strcmp(r->class_order, "number") == 0) {
        CLI_TRY(match_numbers(r));
        tell(r, "the folders' numbers", "");
        return CLI_OK;
    }
    if (r->class_order) {
        CLI_TRY(match_file(r));
        tell(r, r->class_order, "");
        return CLI_OK;
    }
    const size_t found = match_labels(r, &missing);
    if (found == 0)
        return match_order(r);
    if (found < folders)
        return cli_fail(CLI_INPUT,
                        "%s: only %zu of %zu folders are named like a class of the model; %s is "
                        "not; use --class-order for another rule",
                        r->data_path, found, folders, r->data.class_name[missing]);
    tell_doubles(r);
    eval_tell_mapping(r, "classes are matched by name: %zu of %zu", found, folders);
    return CLI_OK;
}
