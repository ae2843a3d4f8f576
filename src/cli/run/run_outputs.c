/* run_outputs.c: writes the model's outputs as tensors to the file of -o. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run/attention_map.h"
#include "cli/run/run_sink.h"

typedef struct outputs {
    bool hidden; /* --hidden */
} outputs;

static size_t options(cli_option *out, run_state *r, void *own)
{
    outputs *o = own;
    out[0] = (cli_option){"output", 'o', "FILE", "file for all outputs of the model, .safetensors",
                          &r->output};
    out[1] = (cli_option){"hidden", 0, NULL, "also write intermediate features to the file of -o",
                          &o->hidden};
    return 2;
}

static size_t files(run_file *out, const run_state *r, const void *own)
{
    (void)own;
    out[0] = (run_file){"output", r->output, false, false};
    return 1;
}

static int check(run_state *r, void *own)
{
    if (r->output && !cli_ends_with(r->output, ".safetensors"))
        return cli_fail(CLI_USAGE, "-o %s: the file name must end with .safetensors", r->output);
    if (((const outputs *)own)->hidden && !r->output)
        return cli_fail(CLI_USAGE, "--hidden needs -o, which is not given");
    return CLI_OK;
}

/* Outputs that -o writes also without --hidden, and their names in the file, which equal those in
 * the golden files. All other outputs are intermediate features. */
static const struct {
    const char *name, *in_file;
} results[] = {
    {"logits", "logits"},
    {"last_hidden_state", "last_hidden_state"},
    {"pooler_output", "pooler_output"},
    {"image_embeds", "out.image_embeds"},
    {"merged_patches", "merged_patches"},
    {"summary", "summary"},
    {"features", "features"},
    {"segmentation", "segmentation"},
    {"predicted_depth", "predicted_depth"},
    {"heatmaps", "heatmaps"},
    {"masks_queries_logits", "masks_queries_logits"},
    {"class_queries_logits", "class_queries_logits"},
    {"seg_logits", "seg_logits"},
    {"pred_scores", "pred_scores"},
    {"pred_boxes", "pred_boxes"},
    {"pred_masks", "pred_masks"},
    {"image_embeddings", "image_embeddings"},
    {"image_embeddings.0", "image_embeddings.0"},
    {"image_embeddings.1", "image_embeddings.1"},
    {"fpn_hidden_states.0", "fpn_hidden_states.0"},
    {"fpn_hidden_states.1", "fpn_hidden_states.1"},
    {"fpn_hidden_states.2", "fpn_hidden_states.2"},
};
enum { RESULTS = sizeof results / sizeof *results };

static const char *result_name(const run_state *r, const char *name)
{
    for (int i = 0; i < RESULTS; i++)
        if (strcmp(results[i].name, name) == 0)
            return results[i].in_file;
    return cli_makes_boxes(r->s.model, name) ? name : NULL;
}

/* ---- requested outputs ---- */

/* Requests the first output. Also requests the embeddings, if no file is written and the results
 * are printed as text. */
static int want(run_state *r, void *own)
{
    const outputs *o = own;
    const char *first = fovea_model_output(r->s.model, 0), *name;
    run_save(r, first);
    for (int i = 0; r->output && i < RESULTS; i++)
        run_save(r, results[i].name);
    for (size_t i = 0; o->hidden && (name = fovea_model_output(r->s.model, i)); i++)
        if (!attention_output(name))
            run_save(r, name);
    if (!run_writes(r) && !r->common.json && strcmp(first, "logits") != 0)
        run_want(r, "image_embeds");
    return CLI_OK;
}

/* ---- tensors ---- */

/* Returns a transposed copy of each of `frames` matrices, from (rows, columns) to (columns, rows).
 * The caller frees it. */
static float *transposed(const float *data, size_t frames, size_t rows, size_t columns)
{
    float *out = cli_alloc(frames * rows * columns, sizeof *out);
    for (size_t f = 0; f < frames; f++)
        for (size_t i = 0; i < rows; i++)
            for (size_t k = 0; k < columns; k++)
                out[(f * columns + k) * rows + i] = data[(f * rows + i) * columns + k];
    return out;
}

/* Returns an output of all frames, in the shape of the model's original code. Does not change the
 * series, because other sinks read it. Sets *copy to the memory that the caller frees, or to
 * NULL. */
static fovea_tensor saved_tensor(const run_state *r, const run_series *s, const char *name,
                                 float **copy)
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
        *copy = transposed(s->all, r->frames, (size_t)s->rows, (size_t)s->columns);
        return cli_tensor(name, *copy, 4, planes);
    case FOVEA_OUTPUT_LAYOUT_MAP:
        return cli_tensor(name, s->all, 3, map);
    case FOVEA_OUTPUT_LAYOUT_ROWS:
        break;
    }
    return cli_tensor(name, s->all, 3, tokens);
}

static int finish(run_state *r, void *own)
{
    (void)own;
    if (!r->output)
        return CLI_OK;
    const char *const metadata[][2] = {{"producer", "fovea"}, {"version", fovea_version()}};
    fovea_tensor *tensor = cli_alloc(r->n + RUN_SINKS * RUN_TENSORS, sizeof *tensor);
    char **name = cli_alloc(r->n, sizeof *name);
    float **copy = cli_alloc(r->n, sizeof *copy);
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++) {
        const run_series *s = &r->series[i];
        const char *known = result_name(r, s->name);
        if (!s->saved)
            continue;
        name[n] = cli_text("%s%s", known ? "" : "feat.", known ? known : s->name);
        tensor[n] = saved_tensor(r, s, name[n], &copy[n]);
        n++;
    }
    size_t more = 0;
    RUN_EACH(r, i, tensors)
        more += r->sink[i]->tensors(tensor + n + more, r, r->own[i]);
    int code = cli_check(fovea_tensors_write(r->output, tensor, n + more, metadata, 2));
    if (!code)
        run_tell_written(r, r->output, tensor, n + more);
    for (size_t i = 0; i < n; i++) {
        free(name[i]);
        free(copy[i]);
    }
    for (size_t i = n; i < n + more; i++)
        free((void *)(uintptr_t)tensor[i].data);
    free(name);
    free(copy);
    free(tensor);
    return code;
}

const run_sink run_sink_outputs = {.size = sizeof(outputs),
                                   .place = 0,
                                   .options = options,
                                   .files = files,
                                   .check = check,
                                   .want = want,
                                   .finish = finish};
