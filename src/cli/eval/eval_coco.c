/* eval_coco.c: matches the pictures of a folder and the model's classes with the images and
 * categories of an annotations file in COCO's format. */
#include <stdlib.h>
#include <string.h>

#include "cli/eval/eval.h"
#include "cli/eval/file_match.h"

/* ---- pictures ---- */

/* Reports pictures that the annotations list but the folder lacks. */
static int check_missing(const eval_run *r, const file_match *m)
{
    const annotations *a = &r->annotations;
    size_t missing = 0, first = 0;
    for (size_t i = a->images; i-- > 0;)
        if (m->file_of[i] == m->files) {
            missing++;
            first = i;
        }
    if (missing == a->images)
        return cli_fail(CLI_INPUT, "%s contains none of the pictures that %s lists, such as %s",
                        r->data_path, r->annotations_path, a->image[first].name);
    if (missing > 0 && r->common.strict)
        return cli_fail(CLI_INPUT, "%s lists %s, which is not in %s; add it, or leave out --strict",
                        r->annotations_path, a->image[first].name, r->data_path);
    if (missing > 0)
        cli_tell("%s: %zu of its %zu pictures are not in %s and are left out; the first is %s",
                 r->annotations_path, missing, a->images, r->data_path, a->image[first].name);
    if (m->folders_differ)
        cli_tell("%s: its folders differ from those of %s; pictures are matched only by file name",
                 r->annotations_path, r->data_path);
    return CLI_OK;
}

/* Keeps the folder's pictures that the annotations list, in the folder's order. */
static void keep_named(eval_run *r, const file_match *m)
{
    dataset *d = &r->data;
    size_t kept = 0;
    uint32_t *image = cli_alloc(d->n, sizeof *image);
    for (size_t i = 0; i < d->n; i++)
        image[i] = UINT32_MAX;
    for (size_t i = 0; i < m->names; i++)
        if (m->file_of[i] < m->files)
            image[m->file_of[i]] = (uint32_t)i;
    for (size_t i = 0; i < d->n; i++) {
        const dataset_file f = d->file[i];
        if (image[i] == UINT32_MAX) {
            free(f.path);
            free(f.mask);
            continue;
        }
        image[kept] = image[i];
        d->file[kept++] = f;
    }
    if (kept < d->n)
        cli_tell("%s: %zu of its %zu pictures are not in %s and are left out", r->data_path,
                 d->n - kept, d->n, r->annotations_path);
    d->n = kept;
    d->masks = 0; /* masks are not read */
    r->image_of = image;
}

static int choose_pictures(eval_run *r)
{
    const annotations *a = &r->annotations;
    if (!r->data.file)
        return cli_fail(CLI_INPUT,
                        "--annotations needs a folder of pictures, but %s is not a folder",
                        r->data_path);
    char **file = cli_alloc(r->data.n, sizeof *file);
    const char **name = cli_alloc(a->images, sizeof *name);
    size_t *file_of = cli_alloc(a->images, sizeof *file_of);
    for (size_t i = 0; i < r->data.n; i++)
        file[i] = r->data.file[i].path;
    for (size_t i = 0; i < a->images; i++)
        name[i] = a->image[i].name;
    file_match m = {.folder = r->data.folder,
                    .file = file,
                    .files = r->data.n,
                    .name = name,
                    .names = a->images,
                    .file_of = file_of};
    int code = CLI_OK;
    if (!file_match_find(&m)) {
        const char *const *two = m.doubtful_names ? name : (const char *const *)file;
        code = cli_fail(CLI_INPUT, "%s: %s and %s could both be the same picture of %s; rename one",
                        m.doubtful_names ? r->annotations_path : r->data_path, two[m.doubtful[0]],
                        two[m.doubtful[1]], m.doubtful_names ? r->data_path : r->annotations_path);
    }
    CLI_THEN(code, check_missing(r, &m));
    if (!code)
        keep_named(r, &m);
    free(file);
    free(name);
    free(file_of);
    return code;
}

/* ---- classes ---- */

/* Maps classes of the model to categories with the same name. Returns the number of categories that
 * have a class. */
static size_t match_names(eval_run *r)
{
    const annotations *a = &r->annotations;
    size_t found = 0;
    for (size_t c = 0; c < a->categories; c++) {
        const char *name = a->category[c].name;
        bool any = false;
        for (size_t k = 0; name && k < r->classes; k++) {
            const char *label = fovea_model_label(r->s.model, (uint32_t)k);
            if (label && eval_same_name(name, label)) {
                r->class_of[k] = (uint32_t)c;
                any = true;
            }
        }
        found += any;
    }
    return found;
}

/* Returns whether any class has a real name: transformers calls classes without names LABEL_0,
 * LABEL_1, ... */
static bool are_named(const eval_run *r, size_t named)
{
    for (size_t k = 0; k < named; k++) {
        const char *label = fovea_model_label(r->s.model, (uint32_t)k);
        char none[32];
        snprintf(none, sizeof none, "LABEL_%zu", k);
        if (label && strcmp(none, label) != 0)
            return true;
    }
    return false;
}

/* Sets *out to the class whose number is the category's id. Returns false if the id is not the
 * number of a class. */
static bool class_by_id(size_t *out, const char *id)
{
    char *end;
    const unsigned long n = strtoul(id, &end, 10);
    *out = n;
    return *id >= '0' && *id <= '9' && !*end && n < DATASET_CLASSES;
}

/* Maps classes without names in the order of the categories' ids. If the model has more classes
 * than there are categories, uses the id as the class. */
static int match_numbers(eval_run *r)
{
    const annotations *a = &r->annotations;
    const bool by_id = r->classes > a->categories;
    for (size_t c = 0; c < a->categories; c++) {
        size_t at = c;
        if ((by_id && !class_by_id(&at, a->category[c].id)) || at >= r->classes)
            return cli_fail(CLI_INPUT,
                            "%s: category %s is not one of the model's %zu classes, which have no "
                            "names; name them with \"id2label\" in config.json",
                            r->annotations_path, a->category[c].id, r->classes);
        r->class_of[at] = (uint32_t)c;
    }
    if (by_id)
        eval_tell_mapping(r, "the model's classes have no names: category ids are used as classes");
    else
        eval_tell_mapping(r,
                          "the model's classes have no names: the %zu categories in the order of "
                          "their ids are used as classes",
                          a->categories);
    return CLI_OK;
}

/* Returns the number of classes up to the last one with a name. */
static size_t count_named(const eval_run *r)
{
    enum { MOST = 1 << 16 }; /* largest number of classes of a detector */
    size_t named = 0;
    for (uint32_t k = 0; k < MOST; k++)
        named = fovea_model_label(r->s.model, k) ? k + 1 : named;
    return named;
}

static int match_categories(eval_run *r)
{
    const annotations *a = &r->annotations;
    const size_t named = count_named(r);
    const fovea_model_info *i = &r->s.info;
    const size_t own = i->classes ? i->classes : i->segments;
    const size_t known = own ? own : a->categories;
    r->classes = named ? named : known;
    r->class_of = cli_alloc(r->classes, sizeof *r->class_of);
    for (size_t k = 0; k < r->classes; k++)
        r->class_of[k] = UINT32_MAX;
    const size_t found = named ? match_names(r) : 0;
    if (found == 0 && !are_named(r, named))
        return match_numbers(r);
    if (found == 0)
        return cli_fail(CLI_INPUT,
                        "%s: none of its %zu categories is named like one of the model's %zu "
                        "classes; set \"id2label\" in config.json",
                        r->annotations_path, a->categories, r->classes);
    eval_tell_mapping(
        r, "classes are matched by name: %zu of %zu categories%s", found, a->categories,
        found < a->categories ? "; objects of the other categories count as not found" : "");
    return CLI_OK;
}

int eval_coco_begin(eval_run *r)
{
    CLI_TRY(choose_pictures(r));
    return match_categories(r);
}

uint32_t eval_coco_category(const eval_run *r, uint32_t label)
{
    return label < r->classes ? r->class_of[label] : UINT32_MAX;
}
