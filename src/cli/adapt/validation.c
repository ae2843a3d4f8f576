/* validation.c: see validation.h. */
#include "cli/adapt/validation.h"

#include <stdlib.h>
#include <string.h>

int adapt_validation_begin(adapt_validation *v, fovea_device *device, const char *teacher,
                           const char *prefix, const fovea_linear_attention_params *linear,
                           const dataset *data)
{
    fovea_preprocess rule = FOVEA_PREPROCESS_INIT;
    *v = (adapt_validation){.device = device, .data = *data};
    CLI_TRY(cli_load_model(&v->teacher, teacher, prefix, linear));
    fovea_model_preprocess(v->teacher, &rule);
    v->filter = rule.filter;
    return CLI_OK;
}

void adapt_validation_end(adapt_validation *v)
{
    for (size_t s = 0; s < v->sizes; s++) {
        for (size_t i = 0; i < v->set[s].pictures; i++) {
            free(v->set[s].rgb[i]);
            free(v->set[s].features[i]);
        }
        free(v->set[s].rgb);
        free(v->set[s].features);
    }
    fovea_model_free(v->teacher);
    dataset_close(&v->data);
    *v = (adapt_validation){NULL};
}

/* ---- running a model ---- */

int adapt_validation_plan(fovea_plan **out, const adapt_validation *v, size_t size,
                          const fovea_model *model, const char *attention)
{
    const validation_set *s = &v->set[size];
    static const char *const outputs[] = {"last_hidden_state"};
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    options.frame.format = FOVEA_FORMAT_RGB8;
    options.frame.width = s->width;
    options.frame.height = s->height;
    options.attention = attention;
    options.outputs = outputs;
    options.n_outputs = 1;
    return cli_check(fovea_plan_create(out, model, v->device, &options));
}

static int run_one(float **out, fovea_plan *plan, const uint8_t *rgb)
{
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    fovea_plan_output(plan, 0, &info);
    const size_t count = (size_t)info.rows * info.columns;
    *out = cli_alloc(count, sizeof **out);
    const fovea_frame frame = {.pixels = {rgb}};
    const fovea_output result = {*out, count * sizeof **out};
    return cli_check(fovea_run(plan, &frame, &result, 1));
}

int adapt_validation_features(float **out, const adapt_validation *v, size_t size, size_t picture,
                              const fovea_model *model, const char *attention)
{
    const validation_set *s = &v->set[size];
    fovea_plan *plan;
    CLI_TRY(adapt_validation_plan(&plan, v, size, model, attention));
    const int code = run_one(out, plan, s->rgb[picture]);
    fovea_plan_free(plan);
    return code;
}

/* ---- the pictures and their teacher ---- */

static void describe_rows(validation_set *s, const fovea_plan *plan)
{
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    fovea_plan_output(plan, 0, &info);
    s->grid_width = info.grid_width;
    s->grid_height = info.grid_height;
    s->prefix = info.prefix;
    s->columns = info.columns;
}

/* Reads picture i in the set's size. Returns CLI_INPUT if it cannot be read. */
static int cut_picture(uint8_t **out, const adapt_validation *v, const validation_set *s, size_t i)
{
    const adapt_policy policy = {.width = s->width,
                                 .height = s->height,
                                 .crop = ADAPT_CENTRE,
                                 .least = 1,
                                 .most = 1,
                                 .filter = v->filter};
    dataset_picture picture;
    CLI_TRY(dataset_read(&picture, &v->data, i));
    picture.mask = NULL;
    *out = cli_alloc((size_t)s->width * s->height, 3);
    const int code = adapt_cut(&(adapt_pixels){.rgb = *out}, &policy, &picture, 0,
                               v->data.file ? v->data.file[i].path : v->data.path);
    dataset_picture_free(&picture);
    if (code)
        free(*out);
    return code;
}

static int fill_set(validation_set *s, const adapt_validation *v, fovea_plan *plan, size_t pictures,
                    double until)
{
    cli_progress bar;
    int code = CLI_OK;
    cli_progress_begin(&bar, "features of held-out pictures");
    bar.unit = "pictures";
    for (size_t i = 0; i < v->data.n && s->pictures < pictures && !code; i++) {
        uint8_t *rgb;
        if (s->pictures > 0 && cli_seconds() > until)
            break;
        if (cut_picture(&rgb, v, s, i))
            continue; /* the file was named in a message */
        s->rgb[s->pictures] = rgb;
        code = run_one(&s->features[s->pictures++], plan, rgb);
        cli_progress_show(&bar, (double)s->pictures, (double)pictures);
    }
    cli_progress_end(&bar);
    return code;
}

int adapt_validation_add(adapt_validation *v, uint32_t width, uint32_t height, size_t pictures,
                         double until)
{
    validation_set *s = &v->set[v->sizes];
    const size_t most = pictures < v->data.n ? pictures : v->data.n;
    fovea_plan *plan;
    *s = (validation_set){.width = width, .height = height};
    CLI_TRY(adapt_validation_plan(&plan, v, v->sizes, v->teacher, "softmax"));
    describe_rows(s, plan);
    s->rgb = cli_alloc(most, sizeof *s->rgb);
    s->features = cli_alloc(most, sizeof *s->features);
    v->sizes++;
    int code = fill_set(s, v, plan, most, until);
    fovea_plan_free(plan);
    if (!code && s->pictures == 0)
        code = cli_fail(CLI_INPUT, "%s: no held-out picture can be read", v->data.path);
    return code;
}

/* ---- scores ---- */

static double score_picture(const validation_set *s, const float *a, const float *b)
{
    const size_t patches = (size_t)s->grid_width * s->grid_height, skip = s->prefix * s->columns;
    return cli_compare_rows(a + skip, b + skip, patches, s->columns).mean;
}

int adapt_validation_score(adapt_score *out, const adapt_validation *v, size_t size,
                           const fovea_model *student, const char *attention, size_t pictures)
{
    const validation_set *s = &v->set[size];
    const size_t n = pictures < s->pictures ? pictures : s->pictures;
    fovea_plan *plan;
    CLI_TRY(adapt_validation_plan(&plan, v, size, student, attention));
    *out = (adapt_score){0, 1};
    int code = CLI_OK;
    for (size_t i = 0; i < n && !code; i++) {
        float *features;
        code = run_one(&features, plan, s->rgb[i]);
        const double kept = code ? 0 : score_picture(s, s->features[i], features);
        out->mean += kept / (double)n;
        out->worst = kept < out->worst ? kept : out->worst;
        free(features);
    }
    fovea_plan_free(plan);
    return code;
}

int adapt_validation_judge(adapt_score *out, const adapt_validation *v, const char *folder)
{
    fovea_model *student;
    cli_progress bar;
    CLI_TRY(cli_load_student(&student, folder));
    int code = CLI_OK;
    cli_progress_begin(&bar, "held-out pictures");
    for (size_t s = 0; s < v->sizes && !code; s++) {
        code = adapt_validation_score(&out[s], v, s, student, NULL, v->set[s].pictures);
        cli_progress_show(&bar, (double)s + 1, (double)v->sizes);
    }
    cli_progress_end(&bar);
    fovea_model_free(student);
    return code;
}

double adapt_validation_rank(const adapt_score *score, size_t sizes)
{
    double sum = 0;
    for (size_t s = 0; s < sizes; s++)
        sum += (score[s].mean + score[s].worst) / 2;
    return sum / (double)sizes;
}
