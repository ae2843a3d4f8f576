/* run_outputs.c: which outputs of the model `fovea run` wants, and the tensors it writes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run/runner.h"

/* Outputs that -o writes whether or not --hidden is there, and their names in the file: those of
 * the golden files. All others are intermediate features. */
static const struct {
    const char *name, *in_file;
} results[] = {
    {"logits", "logits"},
    {"last_hidden_state", "last_hidden_state"},
    {"pooler_output", "pooler_output"},
    {"image_embeds", "out.image_embeds"},
    {"summary", "summary"},
    {"features", "features"},
    {"segmentation", "segmentation"},
    {"predicted_depth", "predicted_depth"},
    {"heatmaps", "heatmaps"},
    {"masks_queries_logits", "masks_queries_logits"},
    {"class_queries_logits", "class_queries_logits"},
    {"seg_logits", "seg_logits"},
    {"pred_boxes", "pred_boxes"},
};
enum { RESULTS = sizeof results / sizeof *results };

static const char *result_name(const run_state *r, const char *name)
{
    for (int i = 0; i < RESULTS; i++)
        if (strcmp(results[i].name, name) == 0)
            return results[i].in_file;
    return cli_makes_boxes(r->s.model, name) ? name : NULL;
}

/* ---- the choice ---- */

run_series *run_find(const run_state *r, const char *name)
{
    for (size_t i = 0; i < r->n; i++)
        if (strcmp(r->series[i].name, name) == 0)
            return &r->series[i];
    return NULL;
}

run_series *run_want(run_state *r, const char *name)
{
    const char *own = cli_output_name(r->s.model, name);
    run_series *s = run_find(r, name);
    if (s || !own)
        return s;
    s = &r->series[r->n++];
    s->name = own;
    return s;
}

static void save(run_state *r, const char *name)
{
    run_series *s = run_want(r, name);
    if (s)
        s->saved = r->output != NULL;
}

static cli_word stage_name(uint32_t i)
{
    cli_word name;
    snprintf(name.text, sizeof name.text, "stage%u", i);
    return name;
}

/* The last hidden state or the last stage; for --features every stage. */
static int want_dense(run_state *r)
{
    const char *last = cli_features_output(r->s.model);
    if (!last)
        return cli_fail(CLI_UNSUPPORTED, "this model has no token features");
    if (r->features && strncmp(last, "stage", 5) == 0)
        for (uint32_t i = 1; strcmp(stage_name(i).text, last) != 0; i++)
            run_want(r, stage_name(i).text)->feature = true;
    r->dense = run_want(r, last);
    r->dense->feature = r->features != NULL;
    return CLI_OK;
}

/* What classes of pixels are made of, if the model has it. */
static void choose_segments(run_state *r)
{
    const char *name = cli_segments_output(r->s.model);
    r->segments = name ? run_want(r, name) : NULL;
    if (!name && run_want(r, "class_queries_logits"))
        r->segments = run_want(r, "masks_queries_logits");
}

/* All that boxes are made of. */
static int want_boxes(run_state *r)
{
    const char *name;
    r->boxes.wanted =
        r->s.info.boxes > 0 && (r->output || r->boxes.path || r->overlay || !run_writes(r));
    if (r->boxes.path && !r->boxes.wanted)
        return cli_fail(CLI_UNSUPPORTED, "--boxes %s: this model finds no boxes", r->boxes.path);
    for (size_t i = 0; r->boxes.wanted && (name = fovea_model_output(r->s.model, i)); i++)
        if (cli_makes_boxes(r->s.model, name))
            save(r, name);
    return CLI_OK;
}

static int want_segments(run_state *r)
{
    choose_segments(r);
    if (!r->segments)
        return cli_fail(CLI_UNSUPPORTED,
                        "this model has no segmentation head; put a linear one into its folder as "
                        "segmentation.safetensors");
    if (r->s.info.segments > RUN_SEGMENTS)
        return cli_fail(CLI_UNSUPPORTED,
                        "a head of %u classes; pictures of classes have %d at most, -o has the "
                        "logits",
                        r->s.info.segments, RUN_SEGMENTS);
    return CLI_OK;
}

/* What the results of results.h are made of. */
static int want_results(run_state *r)
{
    const bool shown = !run_writes(r), metric = cli_output_name(r->s.model, "predicted_depth");
    r->depth.wanted = metric && (r->depth.path || r->overlay || shown);
    r->points.wanted = r->s.info.keypoints > 0 && (r->points.path || r->overlay || shown);
    const bool split = r->split;
    r->masks.wanted = r->s.info.masks > 0 && (r->masks.path || r->masks.rule || (shown && !split));
    if (split && r->masks.wanted)
        return cli_fail(CLI_UNSUPPORTED,
                        "--masks: this model's image processor splits pictures into parts, whose "
                        "classes are put together, not their masks; --labels has them");
    if (split && (r->pca || r->features || r->query.path))
        return cli_fail(CLI_UNSUPPORTED,
                        "this model's image processor splits pictures into parts; --size WxH runs "
                        "the whole picture");
    if (split)
        CLI_TRY(want_segments(r));
    if (r->depth.path && !r->depth.wanted)
        return cli_fail(CLI_UNSUPPORTED, "--depth %s: this model gives no depth", r->depth.path);
    if (r->points.path && !r->points.wanted)
        return cli_fail(CLI_UNSUPPORTED, "--pose %s: this model finds no key points",
                        r->points.path);
    if (r->masks.path && !r->masks.wanted)
        return cli_fail(CLI_UNSUPPORTED, "--masks %s: this model finds no masks", r->masks.path);
    if (r->depth.wanted)
        run_want(r, "predicted_depth");
    if (r->points.wanted)
        run_want(r, "heatmaps");
    if (r->masks.wanted) {
        run_want(r, "masks_queries_logits");
        run_want(r, "class_queries_logits");
    }
    return CLI_OK;
}

static int want_attention(run_state *r)
{
    CLI_TRY(attention_query_choose(&r->query, &r->s));
    run_want(r, r->query.q);
    run_want(r, r->query.k);
    return CLI_OK;
}

/* What a person wants to see of a model where nothing is to be written: embeddings, classes of
 * pixels. */
static void want_to_show(run_state *r)
{
    const char *name = fovea_model_output(r->s.model, 0);
    if (strcmp(name, "logits") != 0)
        run_want(r, "image_embeds");
    if (r->s.info.segments > 0 && r->s.info.segments <= RUN_SEGMENTS)
        choose_segments(r);
}

bool run_writes(const run_state *r)
{
    return r->output || r->features || r->pca || r->labels || r->overlay || r->boxes.path ||
           r->depth.path || r->masks.path || r->points.path || r->query.path;
}

int run_choose(run_state *r)
{
    const char *name;
    size_t all = 0;
    while (fovea_model_output(r->s.model, all))
        all++;
    r->series = cli_alloc(all, sizeof *r->series); /* none is wanted yet */
    save(r, fovea_model_output(r->s.model, 0));
    for (int i = 0; r->output && i < RESULTS; i++)
        save(r, results[i].name);
    for (size_t i = 0; r->hidden && (name = fovea_model_output(r->s.model, i)); i++)
        if (!attention_output(name))
            save(r, name);
    if (!run_writes(r) && !r->common.json)
        want_to_show(r);
    CLI_TRY(want_boxes(r));
    CLI_TRY(want_results(r));
    CLI_TRY(r->labels || (r->overlay && !run_overlays(r)) ? want_segments(r) : CLI_OK);
    CLI_TRY(r->features || r->pca ? want_dense(r) : CLI_OK);
    return r->query.path ? want_attention(r) : CLI_OK;
}

const float *run_patches(const run_series *s)
{
    return s->frame + s->info.prefix * s->columns;
}

/* ---- tensors ---- */

/* Each of `frames` matrices (rows, columns) turned into (columns, rows). */
static void transpose(float *data, size_t frames, size_t rows, size_t columns)
{
    float *turned = cli_alloc(rows * columns, sizeof *turned);
    for (size_t f = 0; f < frames; f++, data += rows * columns) {
        for (size_t i = 0; i < rows; i++)
            for (size_t k = 0; k < columns; k++)
                turned[k * rows + i] = data[i * columns + k];
        memcpy(data, turned, rows * columns * sizeof *data);
    }
    free(turned);
}

/* In the shape that the model's original code gives the output, of all frames. */
static fovea_tensor saved_tensor(const run_state *r, const run_series *s, const char *name)
{
    const fovea_output_info *i = &s->info;
    const uint64_t tokens[3] = {r->frames, s->rows, s->columns};
    const uint64_t vector[2] = {r->frames, s->columns};
    const uint64_t planes[4] = {r->frames, s->columns, i->grid_width ? i->grid_height : 1,
                                i->grid_width ? i->grid_width : 1};
    const uint64_t map[3] = {planes[0], planes[2], planes[3]};
    switch (i->layout) {
    case FOVEA_OUTPUT_LAYOUT_VECTOR:
        return cli_tensor(name, s->all, 2, vector);
    case FOVEA_OUTPUT_LAYOUT_PLANES:
        transpose(s->all, r->frames, (size_t)s->rows, (size_t)s->columns);
        return cli_tensor(name, s->all, 4, planes);
    case FOVEA_OUTPUT_LAYOUT_MAP:
        return cli_tensor(name, s->all, 3, map);
    case FOVEA_OUTPUT_LAYOUT_ROWS:
        break;
    }
    return cli_tensor(name, s->all, 3, tokens);
}

int run_save_outputs(const run_state *r)
{
    const char *const metadata[][2] = {{"producer", "fovea"}, {"version", fovea_version()}};
    fovea_tensor *tensor = cli_alloc(r->n + RUN_BOX_TENSORS, sizeof *tensor);
    char **name = cli_alloc(r->n, sizeof *name);
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++) {
        const run_series *s = &r->series[i];
        const char *known = result_name(r, s->name);
        if (!s->saved)
            continue;
        name[n] = cli_text("%s%s", known ? "" : "feat.", known ? known : s->name);
        tensor[n] = saved_tensor(r, s, name[n]);
        n++;
    }
    const size_t boxes = run_box_tensors(r, tensor + n);
    int code = cli_check(fovea_tensors_write(r->output, tensor, n + boxes, metadata, 2));
    if (!code)
        run_tell_written(r, r->output, tensor, n + boxes);
    for (size_t i = 0; i < n; i++)
        free(name[i]);
    for (size_t i = n; i < n + boxes; i++)
        free((void *)(uintptr_t)tensor[i].data);
    free(name);
    free(tensor);
    return code;
}

/* ---- features ---- */

/* The patch rows of all frames, (B, h, w, C); data to be freed. */
static fovea_tensor grids(const run_state *r, const run_series *s, const char *name)
{
    const fovea_output_info *i = &s->info;
    const size_t columns = (size_t)s->columns, prefix = i->prefix * columns;
    const size_t patches = (size_t)i->grid_width * i->grid_height * columns;
    const uint64_t shape[4] = {r->frames, i->grid_height, i->grid_width, columns};
    float *data = cli_alloc(r->frames * patches, sizeof *data);
    for (size_t f = 0; f < r->frames; f++)
        memcpy(data + f * patches, s->all + f * (prefix + patches) + prefix,
               patches * sizeof *data);
    return cli_tensor(name, data, 4, shape);
}

int run_save_features(const run_state *r)
{
    const bool npy = cli_ends_with(r->features, ".npy"); /* which holds one */
    fovea_tensor *tensor = cli_alloc(r->n + 1, sizeof *tensor);
    const char *(*metadata)[2] = cli_alloc(r->n + 3, sizeof *metadata);
    char **text = cli_alloc(2 * (r->n + 1), sizeof *text);
    size_t n = 0;
    tensor[n++] = grids(r, r->dense, "features");
    for (size_t i = 0; i < r->n && !npy; i++)
        if (r->series[i].feature && strncmp(r->series[i].name, "stage", 5) == 0)
            tensor[n++] = grids(r, &r->series[i], r->series[i].name);
    metadata[0][0] = "producer";
    metadata[0][1] = "fovea";
    metadata[1][0] = "version";
    metadata[1][1] = fovea_version();
    for (size_t i = 0; i < n; i++) {
        const run_series *s = i ? run_find(r, tensor[i].name) : r->dense;
        metadata[2 + i][0] = text[2 * i] = cli_text("%s.stride", tensor[i].name);
        metadata[2 + i][1] = text[2 * i + 1] = cli_text("%u", s->info.stride);
    }
    const int code = npy ? cli_npy_write(r->features, tensor->data, tensor->shape, 4)
                         : cli_check(fovea_tensors_write(r->features, tensor, n,
                                                         (const char *const(*)[2])metadata, n + 2));
    if (!code)
        run_tell_written(r, r->features, tensor, n);
    for (size_t i = 0; i < n; i++) {
        free((void *)(uintptr_t)tensor[i].data);
        free(text[2 * i]);
        free(text[2 * i + 1]);
    }
    free(text);
    free(metadata);
    free(tensor);
    return code;
}
