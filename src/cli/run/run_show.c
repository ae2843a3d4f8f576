/* run_show.c: what `fovea run` shows of a picture: its classes and what else it has on stdout, and
 * on stderr how it was seen, how long that took and what was written. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run/runner.h"

/* ---- scores ---- */

struct score {
    uint32_t class;
    double p;
};

/* As fovea_scores has them. */
static const char *const score_kinds[] = {"softmax", "sigmoid", "values"};

static int by_probability(const void *a, const void *b)
{
    const struct score *x = a, *y = b;
    const int order = (x->p < y->p) - (x->p > y->p);
    return order ? order : (x->class > y->class) - (x->class < y->class);
}

static struct score *rank(const double *p, uint32_t n)
{
    struct score *s = cli_alloc(n, sizeof *s);
    for (uint32_t i = 0; i < n; i++)
        s[i] = (struct score){i, p[i]};
    qsort(s, n, sizeof *s, by_probability);
    return s;
}

static struct score *score(const run_state *r, const run_series *logits)
{
    const uint32_t n = (uint32_t)logits->columns;
    float *of_class = cli_alloc(n, sizeof *of_class);
    double *p = cli_alloc(n, sizeof *p);
    if (fovea_class_scores(r->s.model, logits->frame, n, of_class) != FOVEA_OK)
        exit(cli_check(FOVEA_EINVAL));
    for (uint32_t i = 0; i < n; i++)
        p[i] = (double)of_class[i];
    struct score *s = rank(p, n);
    free(p);
    free(of_class);
    return s;
}

/* Labels name the classes of the picture's head where there is one, else of its pixels'. */
static const char *label(const run_state *r, uint32_t class, bool of_pixels)
{
    const bool named = !of_pixels || r->s.info.classes == 0;
    const char *text = named ? fovea_model_label(r->s.model, class) : NULL;
    return text ? text : "";
}

static json_t *scores(const run_state *r, const struct score *s, uint32_t n, bool of_pixels)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:i, s:o, s:o}", "class", (int)s[i].class, "label",
                                              cli_json_text(label(r, s[i].class, of_pixels)),
                                              of_pixels ? "share" : "p", cli_json_number(s[i].p)));
    return list;
}

static void print_scores(const run_state *r, const struct score *s, uint32_t n, bool of_pixels)
{
    for (uint32_t i = 0; i < n; i++) {
        char *text = cli_printable(label(r, s[i].class, of_pixels));
        printf("  %.4f  %5u  %s\n", s[i].p, s[i].class, text);
        free(text);
    }
}

static json_t *preprocess(const run_state *r)
{
    char *text = cli_preprocess_text(&r->preprocess, &r->s.info);
    json_t *json = cli_json_text(text);
    free(text);
    return json;
}

/* ---- boxes ---- */

static json_t *boxes(const run_state *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->boxes.count; i++) {
        json_t *box = run_box_json(r, i);
        json_object_set_new(box, "label", cli_json_text(label(r, r->boxes.found[i].label, false)));
        json_array_append_new(list, box);
    }
    return list;
}

/* Upper left corner, width and height, in pixels of the photograph. */
static void print_boxes(const run_state *r)
{
    const size_t all = r->boxes.count, n = r->top < all ? r->top : all;
    puts("   score  class         x        y    width   height");
    for (size_t i = 0; i < n; i++) {
        const fovea_detection *d = &r->boxes.found[i];
        json_t *json = run_box_json(r, i);
        const json_t *box = json_object_get(json, "bbox");
        char *text = cli_printable(label(r, d->label, false));
        printf("  %.4f  %5u", (double)d->score, d->label);
        for (size_t k = 0; k < 4; k++)
            printf(" %8.1f", json_number_value(json_array_get(box, k)));
        printf("  %s\n", text);
        free(text);
        json_decref(json);
    }
    if (n < all)
        printf("  %zu more boxes; --top %zu shows all\n", all - n, all);
}

/* ---- depth, masks, key points ---- */

static void print_depth(const run_state *r)
{
    const run_depth *d = &r->depth;
    printf("  depth %.4g to %.4g, median %.4g%s\n", d->least, d->greatest, d->median,
           r->s.info.metric ? " m" : ", larger is nearer");
}

static json_t *masks(const run_state *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->masks.count; i++) {
        json_t *mask = run_mask_json(r, i);
        json_object_set_new(mask, "label", cli_json_text(label(r, r->masks.found[i].label, false)));
        json_array_append_new(list, mask);
    }
    return list;
}

/* The box around a mask, as print_boxes has it, and its share of the photograph. */
static void print_masks(const run_state *r)
{
    const size_t all = r->masks.count, n = r->top < all ? r->top : all;
    if (all == 0) {
        printf("  no mask with a score of %.2g; --score P takes lower ones\n",
               r->score > 0 ? r->score : 0.8);
        return;
    }
    puts("   score  class         x        y    width   height   share");
    for (size_t i = 0; i < n; i++) {
        const fovea_mask *m = &r->masks.found[i];
        char *text = cli_printable(label(r, m->label, false));
        printf("  %.4f  %5u %8.1f %8.1f %8.1f %8.1f  %.4f  %s\n", (double)m->score, m->label,
               (double)m->x1, (double)m->y1, (double)m->x2 - (double)m->x1,
               (double)m->y2 - (double)m->y1, (double)m->area / ((double)r->width * r->height),
               text);
        free(text);
    }
    if (n < all)
        printf("  %zu more masks; --top %zu shows all\n", all - n, all);
}

static void print_points(const run_state *r)
{
    const run_points *f = &r->points;
    for (size_t i = 0; i < f->people; i++) {
        const fovea_box *b = &f->box[i].box;
        if (people_given(&r->people))
            printf("  person %zu of %zu, box %.1f,%.1f,%.1f,%.1f\n", i + 1, f->people, b->x, b->y,
                   b->width, b->height);
        puts("   score         x        y");
        for (size_t k = 0; k < f->count; k++) {
            const fovea_keypoint *p = &f->found[i * f->count + k];
            const char *name = fovea_model_keypoint(r->s.model, (uint32_t)k);
            printf("  %.4f  %8.1f %8.1f  %s\n", (double)p->score, (double)p->x, (double)p->y,
                   name ? name : "");
        }
    }
    if (f->people == 0)
        puts("  no box of a person");
}

/* ---- a frame ---- */

struct results {
    uint32_t classes, segments; /* of the picture, and those that some of its pixels have */
    struct score *score, *share;
};

static double norm(const run_series *s)
{
    double sum = 0;
    for (uint64_t i = 0; i < s->rows * s->columns; i++)
        sum += (double)s->frame[i] * s->frame[i];
    return sqrt(sum);
}

static void describe(const run_state *r, const struct results *f, const char *name, double seconds)
{
    const uint32_t top = r->top < f->classes ? r->top : f->classes;
    json_t *root =
        json_pack("{s:s, s:o, s:i, s:i, s:i, s:s, s:s, s:f}", "schema", "fovea.run/1", "input",
                  cli_json_text(name), "width", (int)r->info.width, "height", (int)r->info.height,
                  "tokens", (int)r->info.tokens, "compute", cli_compute_name(r->info.compute),
                  "compute_source", r->info.compute_source, "ms", seconds * 1e3);
    if (r->at.count == RUN_UNCOUNTED)
        json_object_set_new(root, "frame", json_integer((json_int_t)r->at.item));
    if (r->at.count == RUN_UNCOUNTED && r->at.rate > 0)
        json_object_set_new(root, "time", json_real((double)r->at.item / r->at.rate));
    json_object_set_new(root, "top", scores(r, f->score, top, false));
    if (f->score)
        json_object_set_new(root, "scores", json_string(score_kinds[r->s.info.scores]));
    if (r->segments)
        json_object_set_new(root, "segmentation", scores(r, f->share, f->segments, true));
    if (r->boxes.wanted)
        json_object_set_new(root, "boxes", boxes(r));
    if (r->depth.wanted)
        json_object_set_new(root, "depth", run_depth_json(r));
    if (r->masks.wanted)
        json_object_set_new(root, "masks", masks(r));
    if (r->points.wanted) {
        json_object_set_new(root, "people", run_people_json(r));
        if (!people_given(&r->people))
            json_object_set_new(root, "keypoints", run_points_json(r, 0));
    }
    if (r->map.rows)
        json_object_set_new(root, "attention", attention_map_describe(&r->map));
    if (r->info.untrained)
        json_object_set_new(root, "untrained", json_string(r->info.untrained));
    if (r->format != FOVEA_FORMAT_PLANES_F32)
        json_object_set_new(root, "preprocess", preprocess(r));
    json_object_set(root, "written", r->written);
    cli_print_json(root);
    fflush(stdout); /* whoever reads a pipe has each frame when it is done */
}

static void print_segments(const run_state *r, const struct results *f)
{
    const uint32_t n = r->top < f->segments ? r->top : f->segments;
    puts("   share  class");
    print_scores(r, f->share, n, true);
    if (n < f->segments)
        printf("  %u more classes; --top %u shows all\n", f->segments - n, f->segments);
}

static void print(const run_state *r, const struct results *f, const char *name)
{
    const run_series *shown[] = {run_find(r, "image_embeds"), &r->series[0]};
    const bool scored = f->score || f->share || r->boxes.wanted || r->depth.wanted ||
                        r->masks.wanted || r->points.wanted;
    if (!scored && !r->map.rows && run_writes(r))
        return;
    char *text = cli_printable(name);
    puts(text);
    free(text);
    if (f->score)
        print_scores(r, f->score, r->top < f->classes ? r->top : f->classes, false);
    if (f->share)
        print_segments(r, f);
    if (r->boxes.wanted)
        print_boxes(r);
    if (r->depth.wanted)
        print_depth(r);
    if (r->masks.wanted)
        print_masks(r);
    if (r->points.wanted)
        print_points(r);
    for (size_t i = 0; i < 2 && !scored && !run_writes(r); i++)
        if (shown[i] && (i == 0 || shown[1] != shown[0]))
            printf("  %s, %llu x %llu, norm %.6g\n", shown[i]->name,
                   (unsigned long long)shown[i]->rows, (unsigned long long)shown[i]->columns,
                   norm(shown[i]));
    if (r->map.rows)
        attention_map_print(&r->map);
    fflush(stdout); /* before messages on stderr */
}

static void say(const run_state *r, const char *name, double seconds)
{
    char *files = cli_text("%s", "");
    size_t i;
    json_t *file;
    json_array_foreach(r->written, i, file) {
        char *more = cli_text("%s%s%s", files, i ? ", " : " -> ", json_string_value(file));
        free(files);
        files = more;
    }
    if (!run_find(r, "logits") && !r->segments && !r->boxes.wanted && !r->depth.wanted &&
        !r->masks.wanted && !r->points.wanted && !run_writes(r)) {
        free(files);
        files = cli_text("; -o, --features and --pca keep what it found");
    }
    cli_tell("%s: %ux%u seen as %ux%u, %u tokens, %s%s, %.*f %s%s", name, r->width, r->height,
             r->info.width, r->info.height, r->info.tokens,
             cli_attention(&r->s.settings, &r->s.info), cli_products(&r->info).text,
             seconds < 0.01 || seconds >= 1, seconds < 1 ? seconds * 1e3 : seconds,
             seconds < 1 ? "ms" : "s", files);
    free(files);
}

void run_show(run_state *r, const char *name, double seconds)
{
    const run_series *logits = run_find(r, "logits");
    struct results f = {0};
    if (logits && logits->info.kind == FOVEA_OUTPUT_LOGITS) { /* not of queries */
        f.classes = (uint32_t)logits->columns;
        f.score = score(r, logits);
        if (f.classes > 0 && !isfinite(f.score[0].p))
            cli_tell("%s: its scores are not numbers; fovea verify tells where they come from",
                     name);
    }
    if (r->segments) {
        f.share = rank(r->share, r->s.info.segments);
        while (f.segments < r->s.info.segments && f.share[f.segments].p > 0)
            f.segments++;
    }
    cli_progress_hide();
    if (r->common.json) {
        describe(r, &f, name, seconds);
    } else {
        print(r, &f, name);
        say(r, name, seconds);
    }
    free(f.score);
    free(f.share);
}

/* ---- files ---- */

void run_wrote(run_state *r, char *name)
{
    json_array_append_new(r->written, cli_json_text(name));
    free(name);
}

void run_tell_written(const run_state *r, const char *path, const fovea_tensor *tensor, size_t n)
{
    char shape[128] = "";
    for (uint32_t d = 0; n == 1 && d < tensor->rank; d++) {
        const size_t at = strlen(shape);
        snprintf(shape + at, sizeof shape - at, "%s%llu", d ? " x " : "",
                 (unsigned long long)tensor->shape[d]);
    }
    if (r->common.json)
        return;
    if (n == 1)
        cli_tell("%s: %s, %s", path, tensor->name, shape);
    else
        cli_tell("%s: %zu tensors of %zu picture%s", path, n, r->frames, r->frames > 1 ? "s" : "");
}
