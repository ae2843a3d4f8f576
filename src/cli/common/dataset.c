/* dataset.c: reads labelled pictures: a folder with classes, masks or depths, or a packed file. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/common/dataset.h"
#include "cli/common/depth_truth.h"

static const char mask_end[] = "_mask";

#define DEPTH 64 /* most levels of nested folders */

/* ---- a folder ---- */

static int select_any(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static void names_free(struct dirent **names, int n)
{
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
}

/* Names of pictures in a folder, sorted. */
struct names {
    char **list;
    size_t n;
};

static size_t stem_size(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? (size_t)(dot - name) : strlen(name);
}

/* Returns the file in `in` whose name without extension is the first `stem` characters of `name`
 * followed by `more`, or NULL if there is none. */
static const char *find_stem(const struct names *in, const char *name, size_t stem,
                             const char *more)
{
    char *wanted = cli_text("%.*s%s", (int)stem, name, more);
    const size_t size = strlen(wanted);
    size_t low = 0, high = in->n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (strcmp(in->list[middle], wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    const char *found = NULL;
    for (; low < in->n && strncmp(in->list[low], wanted, size) == 0 && !found; low++)
        if (stem_size(in->list[low]) == size)
            found = in->list[low];
    free(wanted);
    return found;
}

/* Returns whether the name is NAME_mask.png, with the extension in upper or lower case. */
static bool is_mask(const char *name)
{
    const size_t stem = stem_size(name), end = strlen(mask_end);
    return stem >= end && strncmp(name + stem - end, mask_end, end) == 0 &&
           strcasecmp(name + stem, ".png") == 0;
}

/* Returns the mask of picture `name`: NAME_mask.png in the picture's folder, else the file of the
 * same name in `masks_folder`. Returns NULL if the picture has no mask. */
static char *mask_of(const char *folder, const struct names *in, const char *masks_folder,
                     const struct names *masks, const char *name)
{
    const size_t stem = stem_size(name);
    const char *found = find_stem(in, name, stem, mask_end);
    if (found)
        return cli_text("%s/%s", folder, found);
    found = find_stem(masks, name, stem, "");
    return found ? cli_text("%s/%s", masks_folder, found) : NULL;
}

static void add_file(dataset *d, char *path, char *mask, uint32_t label)
{
    d->file = cli_grow(d->file, d->n, sizeof *d->file);
    d->file[d->n++] = (dataset_file){path, mask, label};
    d->masks += mask != NULL;
}

/* Adds the pictures in `folder`, all with `label`. masks_folder is NULL if there is no folder of
 * masks. */
static int add_folder(dataset *d, const char *folder, const char *masks_folder, uint32_t label)
{
    struct names in = {0}, masks = {0};
    int code = cli_folder_pictures(&in.list, &in.n, folder);
    if (masks_folder)
        CLI_THEN(code, cli_folder_pictures(&masks.list, &masks.n, masks_folder));
    for (size_t i = 0; !code && i < in.n; i++)
        if (!is_mask(in.list[i]))
            add_file(d, cli_text("%s/%s", folder, in.list[i]),
                     mask_of(folder, &in, masks_folder, &masks, in.list[i]), label);
    cli_list_free(in.list);
    cli_list_free(masks.list);
    return code;
}

/* Lists the names of the visible folders in `folder`, sorted by bytes. */
static int list_folders(struct names *out, const char *folder)
{
    struct dirent **names;
    const int n = scandir(folder, &names, select_any, alphasort);
    if (n < 0)
        return cli_fail(CLI_INPUT, "%s: the folder cannot be read", folder);
    out->list = cli_alloc((size_t)n + 1, sizeof *out->list);
    for (int i = 0; i < n; i++) {
        char *path = cli_text("%s/%s", folder, names[i]->d_name);
        if (cli_is_folder(path))
            out->list[out->n++] = cli_text("%s", names[i]->d_name);
        free(path);
    }
    names_free(names, n);
    return CLI_OK;
}

static bool has_folder(const char *folder, const char *name)
{
    char *path = cli_text("%s/%s", folder, name);
    const bool has = cli_is_folder(path);
    free(path);
    return has;
}

/* Returns whether folder `name` contains masks or depths for the pictures in the sibling folder
 * `images`. */
static bool is_truth(const char *folder, const char *name)
{
    return (strcmp(name, "masks") == 0 || strcmp(name, "depth") == 0) &&
           has_folder(folder, "images");
}

/* Adds the pictures in `folder` and, recursively, in its subfolders. The folder of masks has the
 * same subfolders. */
static int add_tree(dataset *d, const char *folder, const char *masks_folder, uint32_t label,
                    int depth)
{
    struct names in = {0};
    if (depth > DEPTH)
        return cli_fail(
            CLI_INPUT,
            "%s is nested deeper than %d folders; remove links that point back to an outer folder",
            folder, DEPTH);
    int code = add_folder(d, folder, masks_folder, label);
    CLI_THEN(code, list_folders(&in, folder));
    for (size_t i = 0; i < in.n && !code; i++) {
        char *path = cli_text("%s/%s", folder, in.list[i]);
        char *masks = masks_folder && has_folder(masks_folder, in.list[i])
                          ? cli_text("%s/%s", masks_folder, in.list[i])
                          : NULL;
        if (!is_truth(folder, in.list[i]))
            code = add_tree(d, path, masks, label, depth + 1);
        free(path);
        free(masks);
    }
    cli_list_free(in.list);
    return code;
}

static void add_class(dataset *d, const char *name)
{
    d->class_name = cli_grow(d->class_name, d->classes, sizeof *d->class_name);
    d->class_name[d->classes++] = cli_text("%s", name);
}

/* Returns whether all pictures from number `first` on are in subfolders of the folder, none in the
 * folder itself. */
static bool are_deeper(const dataset *d, size_t first, const char *folder)
{
    const size_t length = strlen(folder);
    for (size_t i = first; i < d->n; i++)
        if (!strchr(d->file[i].path + length + 1, '/'))
            return false;
    return true;
}

/* Makes each subfolder with pictures at any depth a class, in the order of the names. */
static int add_classes(dataset *d, const char *folder)
{
    struct names in = {0};
    size_t deeper = 0;
    int code = list_folders(&in, folder);
    for (size_t i = 0; i < in.n && !code; i++) {
        char *path = cli_text("%s/%s", folder, in.list[i]);
        const size_t before = d->n;
        code = add_tree(d, path, NULL, (uint32_t)d->classes, 1);
        if (!code && d->n > before) {
            add_class(d, in.list[i]);
            deeper += are_deeper(d, before, path);
        } else if (!code) {
            cli_tell("%s contains no picture, so it is not a class", path);
        }
        free(path);
    }
    d->deep = d->classes > 0 && deeper == d->classes;
    cli_list_free(in.list);
    return code;
}

static int check_pictures(const dataset *d, const char *where)
{
    return d->n > 0 ? CLI_OK : cli_fail(CLI_INPUT, "%s contains no pictures, %s", d->path, where);
}

/* Reports which subfolders are left out because the folder itself contains pictures, so that the
 * subfolders may not be classes. */
static int tell_folders(const dataset *d)
{
    struct names in = {0};
    const int code = list_folders(&in, d->folder);
    if (in.n > 0)
        cli_tell("%s contains pictures itself; its %zu folder%s, %s%s, %s left out", d->path, in.n,
                 in.n > 1 ? "s" : "", in.list[0], in.n > 1 ? " and others" : "",
                 in.n > 1 ? "are" : "is");
    cli_list_free(in.list);
    return code;
}

static int open_folder(dataset *d)
{
    const char *folder = d->folder;
    char *images = cli_text("%s/images", folder), *masks = cli_text("%s/masks", folder);
    char *with_depths = depth_truth_pictures(folder);
    d->depths = with_depths != NULL;
    const bool parallel = d->depths || (cli_is_folder(images) && cli_is_folder(masks));
    int code = parallel
                   ? add_tree(d, images, cli_is_folder(masks) ? masks : NULL, DATASET_NO_LABEL, 0)
                   : add_folder(d, folder, NULL, DATASET_NO_LABEL);
    if (!parallel)
        CLI_THEN(code, d->n == 0 ? add_classes(d, folder) : tell_folders(d));
    free(images);
    free(masks);
    free(with_depths);
    CLI_THEN(code, check_pictures(d, "neither directly nor in folders named by class"));
    for (size_t i = 0; d->masks && i < d->n && !code; i++)
        if (!d->file[i].mask)
            code = cli_fail(CLI_INPUT,
                            "%s has no mask, but others in %s do; add it, or remove all masks",
                            d->file[i].path, d->path);
    return code;
}

int dataset_check_classes(const dataset *d)
{
    return !d->deep ? CLI_OK
                    : cli_fail(CLI_INPUT,
                               "%s: its folders contain folders of pictures, such as %s; use "
                               "--data %s/%s if its folders are the classes",
                               d->path, d->file[0].path, d->path, d->class_name[0]);
}

/* ---- a packed file ---- */

static bool is_packed(const fovea_tensor *t, uint32_t rank)
{
    return strcmp(t->dtype, "U8") == 0 && t->rank == rank && t->elements > 0;
}

static int wrong_tensor(const char *path, const char *name, const char *wanted)
{
    return cli_fail(CLI_INPUT, "%s: tensor \"%s\" must be %s", path, name, wanted);
}

static int open_packed(dataset *d, const char *path)
{
    CLI_TRY(cli_check(fovea_tensors_open(&d->packed, path)));
    const fovea_tensor *t = &d->images;
    if (!fovea_tensors_find(d->packed, "images", &d->images))
        return cli_fail(CLI_INPUT, "%s contains no tensor \"images\"", path);
    if (!is_packed(t, 4) || t->shape[3] != 3 || t->shape[1] > DATASET_SIDE ||
        t->shape[2] > DATASET_SIDE)
        return wrong_tensor(path, "images", "bytes (n, height, width, 3)");
    d->n = (size_t)t->shape[0];
    if (fovea_tensors_find(d->packed, "masks", &d->packed_masks)) {
        const fovea_tensor *m = &d->packed_masks;
        if (!is_packed(m, 3) || memcmp(m->shape, t->shape, 3 * sizeof *m->shape) != 0)
            return wrong_tensor(path, "masks",
                                "bytes (n, height, width) of the same shape as the images");
        d->masks = d->n;
    }
    if (!fovea_tensors_find(d->packed, "labels", &d->packed_labels))
        return CLI_OK;
    if (d->packed_labels.rank != 1 || d->packed_labels.shape[0] != d->n)
        return wrong_tensor(path, "labels", "one class per picture (n)");
    float *label = cli_alloc(d->n, sizeof *label);
    d->label = cli_alloc(d->n, sizeof *d->label);
    int code = cli_check(fovea_tensors_read(&d->packed_labels, 0, d->n, label));
    for (size_t i = 0; i < d->n && !code; i++) {
        if (!(label[i] >= 0 && label[i] < DATASET_CLASSES))
            code = cli_fail(
                CLI_INPUT,
                "%s: label %zu is %g, which is not a class; classes are whole numbers from 0", path,
                i, label[i]);
        else
            d->label[i] = (uint32_t)label[i];
        if (!code && d->label[i] >= d->classes)
            d->classes = (size_t)d->label[i] + 1;
    }
    free(label);
    return code;
}

/* ---- either ---- */

static void begin(dataset *d, const char *path)
{
    memset(d, 0, sizeof *d);
    d->path = path;
    d->folder = cli_text("%s", path);
    for (size_t n = strlen(path); n > 1 && d->folder[n - 1] == '/'; n--)
        d->folder[n - 1] = 0;
}

static int wrong_path(const char *path, const char *wanted)
{
    return cli_fail(CLI_INPUT, "--data %s is %s", path, wanted);
}

int dataset_open(dataset *d, const char *path)
{
    begin(d, path);
    if (cli_is_folder(path))
        return open_folder(d);
    if (cli_ends_with(path, ".safetensors"))
        return open_packed(d, path);
    return wrong_path(path, "neither a folder of pictures nor a .safetensors file");
}

int dataset_open_pictures(dataset *d, const char *path)
{
    begin(d, path);
    if (!cli_is_folder(path))
        return wrong_path(path, "not a folder of pictures");
    CLI_TRY(add_tree(d, d->folder, NULL, DATASET_NO_LABEL, 0));
    d->masks = 0;
    return check_pictures(d, "neither directly nor in its folders");
}

const char *const dataset_reductions[] = {"no", "yes", NULL};

int dataset_reduce(dataset *d, const char *text, const fovea_model_info *model)
{
    int reduce = model->reduced_labels != 0;
    CLI_TRY(cli_choose(&reduce, "reduce-labels", text, dataset_reductions));
    d->reduce = reduce;
    return CLI_OK;
}

void dataset_close(dataset *d)
{
    for (size_t i = 0; d->file && i < d->n; i++) {
        free(d->file[i].path);
        free(d->file[i].mask);
    }
    for (size_t i = 0; d->class_name && i < d->classes; i++)
        free(d->class_name[i]);
    free(d->class_name);
    free(d->folder);
    free(d->file);
    free(d->label);
    fovea_tensors_close(d->packed);
    memset(d, 0, sizeof *d);
}

/* Changes class k to k - 1 and class 0 to no class (255); 255 remains. */
static void reduce(uint8_t *mask, size_t pixels)
{
    for (size_t i = 0; i < pixels; i++)
        mask[i] = (uint8_t)(mask[i] == 255 ? 255 : mask[i] - 1);
}

static int read_file(dataset_picture *out, const dataset_file *f, bool masked)
{
    cli_image mask;
    CLI_TRY(cli_image_read(&out->own, f->path));
    out->rgb = out->own.rgb;
    out->width = out->own.width;
    out->height = out->own.height;
    out->label = f->label;
    if (!masked)
        return CLI_OK;
    CLI_TRY(cli_indices_read(&mask, f->mask));
    out->own_mask = mask.rgb;
    out->mask = out->own_mask;
    if (mask.width != out->width || mask.height != out->height)
        return cli_fail(CLI_INPUT,
                        "%s has %ux%u pixels, but its picture has %ux%u; make them equal", f->mask,
                        mask.width, mask.height, out->width, out->height);
    return CLI_OK;
}

/* Scales the depth picture `map` to the size of its picture, with nearest-neighbour
 * interpolation. */
static void take_depth(dataset_picture *out, const cli_image *map, double scale)
{
    const uint16_t *units = (const uint16_t *)(const void *)map->rgb;
    float *depth = cli_alloc((size_t)out->width * out->height, sizeof *depth);
    for (uint32_t y = 0; y < out->height; y++) {
        const size_t row = (size_t)((y + 0.5) * map->height / out->height) * map->width;
        for (uint32_t x = 0; x < out->width; x++)
            depth[(size_t)y * out->width + x] =
                (float)(units[row + (size_t)((x + 0.5) * map->width / out->width)] / scale);
    }
    out->depth = out->own_depth = depth;
}

static int read_depth(dataset_picture *out, const dataset *d, const char *picture)
{
    cli_image map;
    char *path = depth_truth_path(d->path, picture);
    const int code = cli_depth_read(&map, path);
    free(path);
    CLI_TRY(code);
    take_depth(out, &map, d->depth_scale);
    cli_image_free(&map);
    return CLI_OK;
}

int dataset_read(dataset_picture *out, const dataset *d, size_t i)
{
    memset(out, 0, sizeof *out);
    if (d->file) {
        int code = read_file(out, &d->file[i], d->masks > 0);
        if (d->depth_scale > 0)
            CLI_THEN(code, read_depth(out, d, d->file[i].path));
        if (!code && out->mask && d->reduce)
            reduce(out->own_mask, (size_t)out->width * out->height);
        if (code)
            dataset_picture_free(out);
        return code;
    }
    const size_t height = (size_t)d->images.shape[1], width = (size_t)d->images.shape[2];
    out->height = (uint32_t)height;
    out->width = (uint32_t)width;
    out->rgb = (const uint8_t *)d->images.data + i * height * width * 3;
    out->mask = d->masks ? (const uint8_t *)d->packed_masks.data + i * height * width : NULL;
    out->label = d->label ? d->label[i] : DATASET_NO_LABEL;
    if (out->mask && d->reduce) {
        out->own_mask = cli_alloc(height * width, 1);
        memcpy(out->own_mask, out->mask, height * width);
        reduce(out->own_mask, height * width);
        out->mask = out->own_mask;
    }
    return CLI_OK;
}

void dataset_picture_free(dataset_picture *p)
{
    cli_image_free(&p->own);
    free(p->own_mask);
    free(p->own_depth);
    memset(p, 0, sizeof *p);
}
