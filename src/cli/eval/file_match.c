/* file_match.c: see file_match.h. */
#define _XOPEN_SOURCE 700 /* realpath */

#include "cli/eval/file_match.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/cli.h"

/* The similarity of a file to the name that fits it best. */
typedef struct likeness {
    /* name: the best name; other: another name that is equally good, or `names` if there is none */
    size_t name, other;
    int parts;
    bool whole; /* all components of one path end the other */
} likeness;

static int count_parts(const char *path)
{
    int n = 1;
    for (; *path; path++)
        n += *path == '/';
    return n;
}

/* Returns the number of path components at the end that both paths have. */
static int equal_parts(const char *a, const char *b)
{
    size_t i = strlen(a), j = strlen(b);
    int n = 0;
    while (i > 0 && j > 0 && a[i - 1] == b[j - 1]) {
        n += a[i - 1] == '/';
        i--;
        j--;
    }
    return n + ((i == 0 || a[i - 1] == '/') && (j == 0 || b[j - 1] == '/'));
}

/* A name and its last component, for sorting. */
typedef struct entry {
    const char *last;
    size_t name;
} entry;

static int by_last_part(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    const int order = strcmp(x->last, y->last);
    return order ? order : (x->name > y->name) - (x->name < y->name);
}

/* Returns the index of the first sorted name whose last component does not precede `last`. */
static size_t first_of(const file_match *m, const entry *sorted, const char *last)
{
    size_t low = 0, high = m->names;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (strcmp(sorted[middle].last, last) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Finds the name that is most similar to a file; `whole_path` is the file's absolute path. */
static likeness look_at(const file_match *m, const entry *sorted, const char *whole_path,
                        const char *in_folder)
{
    likeness best = {.name = m->names, .other = m->names};
    const char *last = cli_file_name(in_folder);
    const int own = count_parts(in_folder);
    for (size_t i = first_of(m, sorted, last); i < m->names && strcmp(sorted[i].last, last) == 0;
         i++) {
        const char *name = m->name[sorted[i].name];
        const int equal = equal_parts(whole_path, name);
        const int parts = strcmp(name, in_folder) == 0 ? INT_MAX : equal;
        if (parts == best.parts) {
            best.other = sorted[i].name;
        } else if (parts > best.parts) {
            best = (likeness){sorted[i].name, m->names, parts,
                              equal >= own || equal == count_parts(name)};
        }
    }
    return best;
}

static bool doubt(file_match *m, size_t a, size_t b, bool names)
{
    m->doubtful[0] = a;
    m->doubtful[1] = b;
    m->doubtful_names = names;
    return false;
}

/* Gives each name the file that is most similar to it. */
static bool choose(file_match *m, const likeness *like)
{
    size_t *rival = cli_alloc(m->names + 1, sizeof *rival);
    bool good = true;
    for (size_t k = 0; k < m->names; k++)
        m->file_of[k] = rival[k] = m->files;
    for (size_t i = 0; i < m->files && good; i++) {
        const likeness *l = &like[i];
        if (l->name == m->names || l->whole == m->folders_differ)
            continue;
        if (l->other < m->names)
            good = doubt(m, l->name, l->other, true);
        size_t *of = &m->file_of[l->name];
        const int before = *of < m->files ? like[*of].parts : 0;
        if (l->parts == before)
            rival[l->name] = i;
        if (l->parts > before) {
            *of = i;
            rival[l->name] = m->files;
        }
    }
    for (size_t k = 0; k < m->names && good; k++)
        if (rival[k] < m->files)
            good = doubt(m, m->file_of[k], rival[k], false);
    free(rival);
    return good;
}

bool file_match_find(file_match *m)
{
    likeness *like = cli_alloc(m->files + 1, sizeof *like);
    entry *sorted = cli_alloc(m->names + 1, sizeof *sorted);
    char *root = realpath(m->folder, NULL);
    const size_t folder = strlen(m->folder);
    for (size_t k = 0; k < m->names; k++)
        sorted[k] = (entry){cli_file_name(m->name[k]), k};
    qsort(sorted, m->names, sizeof *sorted, by_last_part);
    m->folders_differ = true;
    for (size_t i = 0; i < m->files; i++) {
        const char *in_folder = m->file[i] + folder;
        while (*in_folder == '/')
            in_folder++;
        char *path = cli_text("%s/%s", root ? root : m->folder, in_folder);
        like[i] = look_at(m, sorted, path, in_folder);
        m->folders_differ = m->folders_differ && !like[i].whole;
        free(path);
    }
    const bool good = choose(m, like);
    free(root);
    free(sorted);
    free(like);
    return good;
}
