/* cmd_run.c: `fovea run`: labels, features and other outputs of pictures. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

enum { OUTPUTS = 256 };

/* One output of the model over all frames, batch first. */
struct series {
    const char *name; /* the library's */
    fovea_output_info info;
    float *frame; /* of the current frame */
    float *all;   /* of all frames, when they are kept */
    uint64_t rows, columns;
    uint32_t grid_width;
};

struct runner {
    cli_session s;
    cli_common common;
    const char *output, *features, *pca, *top_text;
    bool hidden;
    uint32_t top;

    char **path; /* inputs, directories unfolded */
    size_t paths;
    size_t frames;

    fovea_plan *plan;
    fovea_plan_info info;
    fovea_format format; /* of the plan's frames */
    uint32_t width, height;
    fovea_preprocess preprocess;

    struct series series[OUTPUTS];
    size_t n;
    float *tokens; /* patch features of all frames, for --features */
};

/* ---- inputs ---- */

static bool is_picture(const char *name)
{
    static const char *const ends[] = {".jpg", ".jpeg", ".JPG", ".JPEG", ".png",
                                       ".PNG", ".ppm",  ".pgm", ".pnm"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (cli_ends_with(name, ends[i]))
            return true;
    return false;
}

static void add_path(struct runner *r, char *path)
{
    if ((r->paths & (r->paths - 1)) == 0) { /* the room is a power of two */
        char **more = cli_alloc(r->paths ? 2 * r->paths : 1, sizeof *more);
        if (r->paths)
            memcpy(more, r->path, r->paths * sizeof *more);
        free(r->path);
        r->path = more;
    }
    r->path[r->paths++] = path;
}

static int select_picture(const struct dirent *e)
{
    return is_picture(e->d_name);
}

static int gather(struct runner *r, const char *input)
{
    struct stat st;
    if (stat(input, &st))
        return cli_fail(CLI_INPUT, "%s: cannot be opened", input);
    if (!S_ISDIR(st.st_mode)) {
        add_path(r, cli_text("%s", input));
        return CLI_OK;
    }
    struct dirent **list;
    int n = scandir(input, &list, select_picture, alphasort);
    if (n < 0)
        return cli_fail(CLI_INPUT, "%s: cannot be read", input);
    for (int i = 0; i < n; i++) {
        add_path(r, cli_text("%s/%s", input, list[i]->d_name));
        free(list[i]);
    }
    free(list);
    return n ? CLI_OK : cli_fail(CLI_INPUT, "%s: holds no picture", input);
}

/* ---- outputs ---- */

static const char *model_output(const struct runner *r, const char *name)
{
    const char *own;
    for (size_t i = 0; (own = fovea_model_output(r->s.model, i)); i++)
        if (strcmp(own, name) == 0)
            return own;
    return NULL;
}

static void want(struct runner *r, const char *name)
{
    const char *own = model_output(r, name);
    for (size_t i = 0; i < r->n; i++)
        if (r->series[i].name == own)
            return;
    if (own && r->n < OUTPUTS)
        r->series[r->n++].name = own;
}

static struct series *find(struct runner *r, const char *name)
{
    for (size_t i = 0; i < r->n; i++)
        if (strcmp(r->series[i].name, name) == 0)
            return &r->series[i];
    return NULL;
}

static int choose_outputs(struct runner *r)
{
    static const char *const saved[] = {"last_hidden_state", "pooler_output", "image_embeds"};
    want(r, "logits");
    for (size_t i = 0; r->output && i < sizeof saved / sizeof *saved; i++)
        want(r, saved[i]);
    if (r->features || r->pca) {
        want(r, "last_hidden_state");
        if (!find(r, "last_hidden_state"))
            return cli_fail(CLI_UNSUPPORTED, "this model has no token features");
    }
    for (uint32_t i = 0; r->hidden && i <= r->s.info.depth; i++) {
        char name[32];
        snprintf(name, sizeof name, "hidden%u", i);
        want(r, name);
    }
    if (r->n == 0)
        want(r, fovea_model_output(r->s.model, 0));
    return CLI_OK;
}

/* ---- one frame ---- */

/* Sizes must stay the same where frames are kept side by side. */
static int make_room(struct runner *r)
{
    const bool kept = r->frames > 0 && (r->output || r->features);
    for (size_t i = 0; i < r->n; i++) {
        struct series *s = &r->series[i];
        fovea_plan_output(r->plan, i, &s->info);
        if (kept && (s->rows != s->info.rows || s->columns != s->info.columns ||
                     s->grid_width != s->info.grid_width))
            return cli_fail(CLI_INPUT,
                            "the inputs give outputs of different sizes, which one file cannot "
                            "hold; use --size, or one input at a time");
        free(s->frame);
        s->rows = s->info.rows;
        s->columns = s->info.columns;
        s->grid_width = s->info.grid_width;
        s->frame = cli_alloc((size_t)(s->rows * s->columns), sizeof *s->frame);
    }
    return CLI_OK;
}

/* A plan for such frames. The old one goes after the new one is there, so that packed weights stay.
 */
static int plan_for(struct runner *r, fovea_format format, uint32_t width, uint32_t height)
{
    if (r->plan && r->format == format && r->width == width && r->height == height)
        return CLI_OK;
    fovea_plan_options options;
    fovea_plan *plan;
    const char *names[OUTPUTS];
    cli_plan_options(&options, &r->s.settings);
    for (size_t i = 0; i < r->n; i++)
        names[i] = r->series[i].name;
    options.frame.format = format;
    options.frame.width = width;
    options.frame.height = height;
    options.preprocess = format == FOVEA_PLANES_F32 ? NULL : &r->preprocess;
    options.outputs = names;
    options.n_outputs = r->n;
    int code = cli_check(fovea_plan_create(&plan, r->s.model, r->s.device, &options));
    if (code)
        return code;
    fovea_plan_free(r->plan);
    r->plan = plan;
    r->format = format;
    r->width = width;
    r->height = height;
    fovea_plan_query(plan, &r->info);
    return make_room(r);
}

static float *append(float *all, const float *frame, size_t count, size_t frames)
{
    float *more = realloc(all, (frames + 1) * count * sizeof *more);
    if (!more)
        exit(cli_fail(CLI_UNSUPPORTED, "out of memory for the outputs of %zu frames", frames + 1));
    memcpy(more + frames * count, frame, count * sizeof *more);
    return more;
}

static int keep(struct runner *r, const char *path)
{
    for (size_t i = 0; r->output && i < r->n; i++) {
        struct series *s = &r->series[i];
        s->all = append(s->all, s->frame, (size_t)(s->rows * s->columns), r->frames);
    }
    struct series *last = find(r, "last_hidden_state");
    const float *patches = last ? last->frame + last->info.prefix * last->columns : NULL;
    if (r->features) {
        size_t count = (size_t)last->info.grid_width * last->info.grid_height * last->columns;
        r->tokens = append(r->tokens, patches, count, r->frames);
    }
    if (!r->pca)
        return CLI_OK;
    cli_image picture;
    cli_pca(&picture, patches, last->info.grid_width, last->info.grid_height,
            (uint32_t)last->columns, r->info.width, r->info.height);
    /* Several inputs: the input's name goes between the file's name and its ending. */
    const char *slash = strrchr(path, '/'), *stem = slash ? slash + 1 : path;
    char *name = r->paths > 1 ? cli_text("%.*s-%.*s.png", (int)strlen(r->pca) - 4, r->pca,
                                         (int)strcspn(stem, "."), stem)
                              : cli_text("%s", r->pca);
    int code = cli_image_write_png(name, &picture);
    free(name);
    cli_image_free(&picture);
    return code;
}

struct score {
    uint32_t class;
    double p;
};

static int by_probability(const void *a, const void *b)
{
    const struct score *x = a, *y = b;
    return x->p != y->p ? (x->p < y->p) - (x->p > y->p)
                        : (x->class > y->class) - (x->class < y->class);
}

static struct score *softmax(const float *logits, uint32_t n)
{
    struct score *s = cli_alloc(n, sizeof *s);
    double top = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < n; i++)
        top = fmax(top, logits[i]);
    for (uint32_t i = 0; i < n; i++)
        sum += s[i].p = exp(logits[i] - top);
    for (uint32_t i = 0; i < n; i++)
        s[i] = (struct score){i, s[i].p / sum};
    qsort(s, n, sizeof *s, by_probability);
    return s;
}

static const char *label(const struct runner *r, uint32_t class)
{
    const char *text = fovea_model_label(r->s.model, class);
    return text ? text : "";
}

static double norm(const struct series *s)
{
    double sum = 0;
    for (uint64_t i = 0; i < s->rows * s->columns; i++)
        sum += (double)s->frame[i] * s->frame[i];
    return sqrt(sum);
}

static void show(struct runner *r, const char *name, double seconds)
{
    const struct series *logits = find(r, "logits"), *main_output = &r->series[0];
    const bool files = r->output || r->features || r->pca;
    uint32_t classes = logits ? (uint32_t)logits->columns : 0;
    uint32_t top = r->top < classes ? r->top : classes;
    struct score *score = logits ? softmax(logits->frame, classes) : NULL;
    if (r->common.json) {
        json_t *root = json_pack("{s:s, s:s, s:i, s:i, s:i, s:f}", "schema", "fovea.run/1", "input",
                                 name, "width", (int)r->info.width, "height", (int)r->info.height,
                                 "tokens", (int)r->info.tokens, "ms", seconds * 1e3);
        json_t *list = json_array();
        for (uint32_t i = 0; i < top; i++)
            json_array_append_new(list,
                                  json_pack("{s:i, s:s, s:f}", "class", (int)score[i].class,
                                            "label", label(r, score[i].class), "p", score[i].p));
        json_object_set_new(root, "top", list);
        cli_print_json(root);
    } else if (logits) {
        printf("%s\n", name);
        for (uint32_t i = 0; i < top; i++)
            printf("  %.4f  %5u  %s\n", score[i].p, score[i].class, label(r, score[i].class));
    } else if (!files) {
        printf("%s\n  %s, %llu x %llu, norm %.6g\n", name, main_output->name,
               (unsigned long long)main_output->rows, (unsigned long long)main_output->columns,
               norm(main_output));
    }
    free(score);
}

static int run_frame(struct runner *r, const char *path, const char *name, const fovea_frame *frame)
{
    fovea_output outs[OUTPUTS];
    for (size_t i = 0; i < r->n; i++)
        outs[i] = (fovea_output){
            r->series[i].frame, (size_t)(r->series[i].rows * r->series[i].columns * sizeof(float))};
    double begin = cli_seconds();
    int code = cli_check(fovea_run(r->plan, frame, outs, r->n));
    double seconds = cli_seconds() - begin;
    if (code || (code = keep(r, path)))
        return code;
    r->frames++;
    show(r, name, seconds);
    return CLI_OK;
}

/* ---- inputs of each kind ---- */

static int run_picture(struct runner *r, const char *path)
{
    cli_image image;
    int code = cli_image_read(&image, path);
    if (code)
        return code;
    if (!(code = plan_for(r, FOVEA_RGB8, image.width, image.height))) {
        const fovea_frame frame = {.pixels = {image.rgb}, .stride = {(size_t)image.width * 3}};
        code = run_frame(r, path, path, &frame);
    }
    cli_image_free(&image);
    return code;
}

/* Tensor `input` (B, 3, H, W), normalised already: one picture after the other. */
static int run_tensor(struct runner *r, const char *path, cli_progress *bar)
{
    fovea_tensors *file;
    fovea_tensor t;
    int code = cli_check(fovea_tensors_open(&file, path));
    if (code)
        return code;
    if (!fovea_tensors_find(file, "input", &t) || t.rank != 4 || t.shape[1] != 3 ||
        t.shape[2] > 65536 || t.shape[3] > 65536 || t.elements == 0) {
        fovea_tensors_close(file);
        return cli_fail(CLI_INPUT, "%s: holds no tensor \"input\" of shape (B, 3, H, W)", path);
    }
    const uint32_t height = (uint32_t)t.shape[2], width = (uint32_t)t.shape[3];
    const size_t plane = (size_t)height * width;
    float *pixels = cli_alloc(plane, 3 * sizeof *pixels);
    code = plan_for(r, FOVEA_PLANES_F32, width, height);
    for (uint64_t b = 0; b < t.shape[0] && !code; b++) {
        const fovea_frame frame = {
            .pixels = {pixels, pixels + plane, pixels + 2 * plane},
            .stride = {width * sizeof *pixels, width * sizeof *pixels, width * sizeof *pixels}};
        char *name = cli_text("%s[%llu]", path, (unsigned long long)b);
        code = cli_check(fovea_tensors_read(&t, b * 3 * plane, 3 * plane, pixels));
        if (!code)
            code = run_frame(r, path, name, &frame);
        free(name);
        if (r->paths == 1)
            cli_progress_show(bar, (double)b + 1, (double)t.shape[0]);
    }
    free(pixels);
    fovea_tensors_close(file);
    return code;
}

/* ---- files ---- */

static fovea_tensor tensor_of(const char *name, const float *data, uint32_t rank,
                              const uint64_t *shape)
{
    fovea_tensor t = {0};
    t.name = name;
    t.dtype = "F32";
    t.rank = rank;
    t.elements = 1;
    for (uint32_t i = 0; i < rank; i++)
        t.elements *= t.shape[i] = shape[i];
    t.data = data;
    t.size = (size_t)t.elements * sizeof *data;
    return t;
}

/* Names in the file: hidden states and embeddings are called as in the golden files. */
static char *file_name(const char *name)
{
    return cli_text("%s%s",
                    strncmp(name, "hidden", 6) == 0     ? "feat."
                    : strcmp(name, "image_embeds") == 0 ? "out."
                                                        : "",
                    name);
}

static int write_tensors(const char *path, const fovea_tensor *t, size_t n)
{
    const char *const metadata[][2] = {{"producer", "fovea"}, {"version", fovea_version()}};
    return cli_check(fovea_tensors_write(path, t, n, metadata, 2));
}

static int save_outputs(struct runner *r)
{
    fovea_tensor tensor[OUTPUTS];
    char *name[OUTPUTS];
    for (size_t i = 0; i < r->n; i++) {
        const struct series *s = &r->series[i];
        const uint64_t tokens[3] = {r->frames, s->rows, s->columns};
        const uint64_t vector[2] = {r->frames, s->columns};
        name[i] = file_name(s->name);
        tensor[i] = s->info.grid_width ? tensor_of(name[i], s->all, 3, tokens)
                                       : tensor_of(name[i], s->all, 2, vector);
    }
    int code = write_tensors(r->output, tensor, r->n);
    for (size_t i = 0; i < r->n; i++)
        free(name[i]);
    return code;
}

static int save_features(struct runner *r)
{
    const struct series *last = find(r, "last_hidden_state");
    const uint64_t shape[4] = {r->frames, last->info.grid_height, last->info.grid_width,
                               last->columns};
    if (cli_ends_with(r->features, ".npy"))
        return cli_npy_write(r->features, r->tokens, shape, 4);
    const fovea_tensor t = tensor_of("features", r->tokens, 4, shape);
    return write_tensors(r->features, &t, 1);
}

/* ---- the command ---- */

static int run_all(struct runner *r)
{
    cli_progress bar;
    int code = CLI_OK, skipped = CLI_OK;
    cli_progress_begin(&bar, "run");
    for (size_t i = 0; i < r->paths && !code; i++) {
        code = cli_ends_with(r->path[i], ".safetensors") ? run_tensor(r, r->path[i], &bar)
                                                         : run_picture(r, r->path[i]);
        /* A broken picture stops the others only where all go into one file. */
        if (code == CLI_INPUT && !r->output && !r->features) {
            skipped = code;
            code = CLI_OK;
        }
        if (r->paths > 1)
            cli_progress_show(&bar, (double)i + 1, (double)r->paths);
    }
    cli_progress_end(&bar);
    if (!code && r->output)
        code = save_outputs(r);
    if (!code && r->features)
        code = save_features(r);
    return code ? code : skipped;
}

static int check_names(const struct runner *r)
{
    if (r->output && !cli_ends_with(r->output, ".safetensors"))
        return cli_fail(CLI_USAGE, "-o %s: the file is a .safetensors", r->output);
    if (r->features && !cli_ends_with(r->features, ".safetensors") &&
        !cli_ends_with(r->features, ".npy"))
        return cli_fail(CLI_USAGE, "--features %s: the file is a .safetensors or .npy",
                        r->features);
    if (r->pca && !cli_ends_with(r->pca, ".png"))
        return cli_fail(CLI_USAGE, "--pca %s: the file is a .png", r->pca);
    if (r->hidden && !r->output)
        return cli_fail(CLI_USAGE, "--hidden adds to the file of -o, which is not given");
    return CLI_OK;
}

static void release(struct runner *r)
{
    for (size_t i = 0; i < r->n; i++) {
        free(r->series[i].frame);
        free(r->series[i].all);
    }
    for (size_t i = 0; i < r->paths; i++)
        free(r->path[i]);
    free(r->path);
    free(r->tokens);
    fovea_plan_free(r->plan);
    cli_close(&r->s);
    free(r);
}

int cli_run(const cli_command *self, int argc, char **argv)
{
    struct runner *r = cli_alloc(1, sizeof *r);
    const cli_option own[] = {
        {"output", 'o', "FILE", "all outputs of the model, as .safetensors", CLI_TEXT, &r->output},
        {"hidden", 0, NULL, "hidden states too, into the file of -o", CLI_FLAG, &r->hidden},
        {"features", 0, "FILE", "patch features (B, rows, columns, C), .safetensors or .npy",
         CLI_TEXT, &r->features},
        {"pca", 0, "FILE", "patch features as a picture, .png", CLI_TEXT, &r->pca},
        {"top", 0, "K", "labels to show, 5", CLI_TEXT, &r->top_text},
        {NULL, 0, NULL, NULL, CLI_FLAG, NULL},
    };
    int first, code = cli_parse(&first, self, &r->common, own, argc, argv);
    bool go = !code && first;
    r->top = 5;
    if (go && first + 2 > argc)
        code = cli_fail(CLI_USAGE, "run takes a MODEL and at least one INPUT; fovea run --help");
    if (go && !code)
        code = check_names(r);
    if (go && !code)
        code = cli_number(&r->top, "top", r->top_text, 0, 1u << 20);
    for (int i = first + 1; go && !code && i < argc; i++)
        code = gather(r, argv[i]);
    if (go && !code)
        code = cli_open(&r->s, &r->common, argv[first]);
    if (go && !code) {
        r->preprocess = cli_preprocess(&r->s);
        code = choose_outputs(r);
        if (!code)
            code = run_all(r);
    }
    release(r);
    return code;
}
