/* adapt_train.c: runs a training: passes pictures to the trainer, takes steps, writes checkpoints
 * and results. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/adapt/adapter.h"
#include "cli/common/interrupt.h"

/* factor by which the loss must rise to be reported; larger than the variation between batches */
#define ROSE 1.05
#define CHECKPOINT_SECONDS 300 /* seconds between checkpoints without --every */

static bool is_first(const adapt_run *r)
{
    return r->processes.rank == 0;
}

/* ---- pictures ---- */

static const char *name_of(const adapt_run *r, size_t i)
{
    return r->data.file ? r->data.file[i].path : r->data.path;
}

/* Reads picture i or, if that fails, the next picture that can be read, so that the choice depends
 * only on the files. */
static int read_some(dataset_picture *out, const adapt_run *r, size_t *i)
{
    const size_t first = *i;
    int code = dataset_read(out, &r->data, *i);
    while (code == CLI_INPUT && !r->common.strict) {
        *i = (*i + 1) % r->data.n;
        if (*i == first)
            return cli_fail(CLI_INPUT, "%s: no picture can be read", r->data.path);
        code = dataset_read(out, &r->data, *i);
        if (!code)
            fprintf(stderr, "fovea: %s is used instead\n", name_of(r, *i));
    }
    return code;
}

static int feed_sample(adapt_run *r, uint64_t sample, const adapt_pixels *to)
{
    dataset_picture picture;
    size_t i = adapt_pick(r->policy.seed, r->data.n, sample);
    CLI_TRY(read_some(&picture, r, &i));
    int code = adapt_cut(to, &r->policy, &picture, sample, name_of(r, i));
    const fovea_frame frame = {.pixels = {to->rgb}};
    const fovea_target target = {.label = picture.label,
                                 .mask = picture.mask ? to->mask : NULL,
                                 .depth = picture.depth ? to->depth : NULL};
    if (!code && fovea_trainer_add(r->trainer, &frame, &target))
        code = cli_fail(CLI_INPUT, "%s: %s", name_of(r, i), fovea_error());
    dataset_picture_free(&picture);
    return code;
}

int adapt_feed(adapt_run *r, cli_progress *bar, uint64_t begun)
{
    const uint64_t step = r->info.step;
    const uint32_t rank = (uint32_t)r->processes.rank, count = (uint32_t)r->processes.count;
    if (r->batches.file)
        return adapt_batches_feed(&r->batches, r->trainer, step, rank, count);
    const size_t pixels = (size_t)r->policy.width * r->policy.height;
    const uint64_t first = (step * count + rank) * r->batch;
    const adapt_pixels to = {cli_alloc(pixels, 3), cli_alloc(pixels, 1),
                             cli_alloc(pixels, sizeof *to.depth)};
    int code = CLI_OK;
    for (uint32_t i = 0; i < r->batch && !code; i++) {
        code = feed_sample(r, first + i, &to);
        if (is_first(r))
            cli_progress_show(bar, (double)(step - begun) + (i + 1.0) / r->batch,
                              (double)(r->steps - begun));
    }
    free(to.rgb);
    free(to.mask);
    free(to.depth);
    return code;
}

/* ---- what is written ---- */

static int checkpoint(adapt_run *r)
{
    if (!is_first(r) || !r->state_path)
        return CLI_OK;
    adapt_log_sync(&r->log);
    return cli_check(fovea_trainer_write_state(r->trainer, r->state_path, r->note));
}

static int save_gradients(const adapt_run *r)
{
    fovea_tensor *tensor = cli_alloc(r->info.trained, sizeof *tensor);
    char **name = cli_alloc(r->info.trained, sizeof *name);
    char *path = cli_text("%s/grad.safetensors", r->output);
    size_t n = 0;
    while (n < r->info.trained && fovea_trainer_tensor(r->trainer, n, FOVEA_GRADIENT, &tensor[n])) {
        name[n] = cli_text("grad.%s", tensor[n].name);
        tensor[n].name = name[n];
        n++;
    }
    const int code = cli_check(fovea_tensors_write(path, tensor, n, NULL, 0));
    for (size_t i = 0; i < n; i++)
        free(name[i]);
    free(name);
    free(tensor);
    free(path);
    return code;
}

/* ---- resuming from a checkpoint ---- */

/* Fails if options differ from those of the checkpoint, and names them in the message. */
static int compare_notes(const adapt_run *r, const char *text)
{
    json_t *before = json_loads(text ? text : "{}", 0, NULL), *now = json_loads(r->note, 0, NULL);
    json_t *value;
    const char *key;
    int code = CLI_OK;
    json_object_foreach(now, key, value) {
        const json_t *other = json_object_get(before, key);
        if (code || json_equal(value, other))
            continue;
        char *a = other ? json_dumps(other, JSON_ENCODE_ANY) : NULL;
        char *b = json_dumps(value, JSON_ENCODE_ANY);
        code =
            cli_fail(CLI_INPUT, "%s was written with %s %s, not %s; resume with the same options",
                     r->state_path, key, a ? a : "unknown", b ? b : "?");
        free(a);
        free(b);
    }
    json_decref(before);
    json_decref(now);
    return code;
}

static int read_state(adapt_run *r)
{
    const char *note;
    if (!r->state_path || access(r->state_path, F_OK) != 0)
        return CLI_OK; /* the earlier run ended before its first checkpoint */
    if (!r->resume)
        return cli_fail(
            CLI_USAGE,
            "%s is a checkpoint of an earlier training; continue it with --resume, or remove it",
            r->state_path);
    int code = cli_check(fovea_trainer_read_state(r->trainer, r->state_path, &note));
    CLI_THEN(code, compare_notes(r, note));
    r->info.struct_size = sizeof r->info;
    fovea_trainer_query(r->trainer, &r->info);
    return code;
}

/* Returns whether a killed run left the file: a temporary file NAME.(digits).tmp. */
static bool is_left_over(const char *name)
{
    static const char *const names[] = {"checkpoint.",
                                        "model.safetensors.",
                                        "config.json.",
                                        "preprocessor_config.json.",
                                        "processor_config.json.",
                                        "open_clip_config.json.",
                                        "grad.safetensors."};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return cli_ends_with(name, ".tmp");
    return false;
}

static void remove_left_overs(const adapt_run *r)
{
    DIR *folder = opendir(r->output);
    for (struct dirent *e; folder && (e = readdir(folder));)
        if (is_left_over(e->d_name)) {
            char *path = cli_text("%s/%s", r->output, e->d_name);
            remove(path);
            free(path);
        }
    if (folder)
        closedir(folder);
}

static int restore(adapt_run *r)
{
    CLI_TRY(read_state(r));
    if (r->resume && is_first(r))
        remove_left_overs(r);
    double sum = (double)r->info.step;
    CLI_TRY(cli_processes_add(&r->processes, &sum));
    if (sum != (double)r->info.step * r->processes.count)
        return cli_fail(
            CLI_INPUT,
            "%s: the processes found different checkpoints; give all of them the same folder",
            r->output);
    return CLI_OK;
}

/* ---- the steps ---- */

/* Returns whether the loss no longer falls: its mean over the last `patience` steps is not below
 * its mean over the `patience` steps before. */
static bool is_flat(const adapt_run *r)
{
    const size_t n = r->patience;
    return n && r->log.steps >= 2 * n &&
           adapt_log_mean(&r->log, n, 0) >= adapt_log_mean(&r->log, n, n);
}

static bool reached(const adapt_run *r)
{
    double mean = 0;
    if (r->target <= 0 || r->judgements == 0 || !r->validation)
        return false;
    for (size_t s = 0; s < r->validation->sizes; s++)
        mean += r->judged[r->best].score[s].mean / (double)r->validation->sizes;
    return mean >= r->target;
}

/* Makes all processes end at the same step, whichever of them received the signal. */
static int ask_to_stop(adapt_run *r)
{
    const int own = interrupt_code();
    double stop = own ? 1 : is_first(r) && (is_flat(r) || reached(r)) ? 0.5 : 0;
    const int code = cli_processes_add(&r->processes, &stop);
    r->stopped = stop < 1 ? CLI_OK : own ? own : 128 + SIGTERM;
    r->flat = stop > 0 && !r->stopped;
    return code;
}

/* Returns whether `seconds` more and the last evaluation fit before the deadline. */
static bool has_time(const adapt_run *r, double seconds)
{
    return r->deadline <= 0 || cli_seconds() + seconds + r->judging < r->deadline;
}

static int step(adapt_run *r, double begin)
{
    fovea_trainer_report report = FOVEA_TRAINER_REPORT_INIT;
    CLI_TRY(cli_check(fovea_trainer_step(r->trainer, &report)));
    const double spent = cli_seconds() - begin;
    r->info.step = report.step;
    r->pictures += report.pictures;
    r->seconds += spent;
    if (!is_first(r))
        return CLI_OK;
    adapt_log_add(&r->log, &report, (double)report.pictures / spent);
    return r->save_grad && report.step == 1 ? save_gradients(r) : CLI_OK;
}

/* Writes the text next to the progress bar: recent loss, speed, and the result on held-out
 * pictures. */
static void describe(char *out, size_t size, const adapt_run *r)
{
    const size_t n = r->log.steps < 10 ? r->log.steps : 10;
    int at = 0;
    if (n)
        at = snprintf(out, size, "step %llu, loss %.4g, %.2f pictures/s",
                      (unsigned long long)r->info.step, adapt_log_mean(&r->log, n, 0),
                      (double)r->pictures / r->seconds);
    if (r->judgements > 0 && at > 0 && (size_t)at < size)
        snprintf(out + at, size - (size_t)at, ", held-out %.4g, best %.4g",
                 r->judged[r->judgements - 1].rank, r->judged[r->best].rank);
}

static int run_steps(adapt_run *r)
{
    const uint64_t begun = r->info.step;
    char text[96] = "adapt";
    cli_progress bar;
    double saved = cli_seconds(), each = 0;
    uint64_t saved_step = begun;
    int code = CLI_OK;
    cli_progress_begin(&bar, text);
    while (!code && r->info.step < r->steps) {
        const double begin = cli_seconds();
        if ((code = ask_to_stop(r)) || r->stopped || r->flat || (r->late = !has_time(r, each)))
            break;
        code = adapt_feed(r, &bar, begun);
        CLI_THEN(code, step(r, begin));
        each = cli_seconds() - begin;
        describe(text, sizeof text, r);
        if (is_first(r))
            cli_progress_show(&bar, (double)(r->info.step - begun), (double)(r->steps - begun));
        const bool due = r->every ? r->info.step - saved_step >= r->every
                                  : cli_seconds() - saved > CHECKPOINT_SECONDS;
        if (!code && is_first(r) && adapt_has_judge(r) && r->info.step % r->judge_every == 0 &&
            has_time(r, r->judging))
            code = adapt_judge(r);
        if (!code && due) {
            code = checkpoint(r);
            saved = cli_seconds();
            saved_step = r->info.step;
        }
    }
    cli_progress_end(&bar);
    return code || saved_step == r->info.step ? code : checkpoint(r);
}

/* ---- before and after ---- */

static void promise(const adapt_run *r)
{
    const fovea_trainer_info *i = &r->info;
    const struct {
        const char *what;
        uint64_t bytes;
    } kinds[] = {{"weights", i->weights}, {"gradients", i->gradients},
                 {"moments", i->moments}, {"averages", i->averages},
                 {"packed", i->packed},   {"activations", i->activations},
                 {"teacher", i->teacher}, {"process", i->process}};
    fprintf(stderr,
            "fovea: stage %d, %s, %s products, %u tokens, %u of %u tensors, %.3g GFLOP per "
            "picture\nfovea: memory %s:",
            (int)r->options.stage, i->attention, cli_compute_name(i->compute), i->tokens,
            i->trained, i->tensors, i->flops * 1e-9, cli_bytes(i->total + i->process).text);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (kinds[k].bytes)
            fprintf(stderr, " %s %s,", kinds[k].what, cli_bytes(kinds[k].bytes).text);
    fprintf(stderr, " batches of %u%s\n", r->batch * (uint32_t)r->processes.count,
            r->info.step ? ", resumed from a checkpoint" : "");
}

static void report(const adapt_run *r)
{
    const size_t n = r->log.steps, few = n < 10 ? n : 10;
    const double first = n ? r->log.loss[0] : 0, last = n ? adapt_log_mean(&r->log, few, 0) : 0;
    const double pace = r->seconds > 0 ? (double)r->pictures / r->seconds : 0;
    fovea_memory memory = FOVEA_MEMORY_INIT;
    fovea_memory_query(&memory);
    fovea_trainer_info info = FOVEA_TRAINER_INFO_INIT;
    fovea_trainer_query(r->trainer, &info);
    if (r->judgements > 0)
        cli_tell("%s contains the model of step %llu, the best of %zu evaluations", r->output,
                 (unsigned long long)r->judged[r->best].step, r->judgements);
    if (last > ROSE * first)
        fprintf(stderr, "fovea: the loss rose from %.4g to %.4g; try --lr %.2g\n", first, last,
                (double)r->options.lr / 10);
    if (!r->common.json) {
        printf("%s  stage %d, %s, %llu steps: loss %.6g -> %.6g, %.2f pictures/s, %.1f GFLOP/s\n",
               r->output, (int)r->options.stage, r->info.attention,
               (unsigned long long)r->info.step, first, last, pace, pace * r->info.flops * 1e-9);
        return;
    }
    json_t *bytes = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "total", (json_int_t)r->info.total,
        "process", (json_int_t)r->info.process, "weights", (json_int_t)r->info.weights, "gradients",
        (json_int_t)r->info.gradients, "moments", (json_int_t)r->info.moments, "averages",
        (json_int_t)r->info.averages, "packed", (json_int_t)r->info.packed, "activations",
        (json_int_t)r->info.activations, "teacher", (json_int_t)r->info.teacher, "peak",
        (json_int_t)memory.peak);
    json_t *root = json_pack(
        "{s:s, s:o, s:o, s:s, s:s, s:i, s:s, s:s, s:I, s:f, s:f, s:f, s:f, s:I, s:i, s:o, s:b}",
        "schema", "fovea.adapt/1", "build", cli_build(), "env", cli_environment(r->device), "model",
        r->model, "output", r->output, "stage", (int)r->options.stage, "attention",
        r->info.attention, "compute", cli_compute_name(r->info.compute), "steps",
        (json_int_t)r->info.step, "first_loss", first, "loss", last, "pictures_per_second", pace,
        "gflops", pace * r->info.flops * 1e-9, "recalled", (json_int_t)info.teacher_cache_hits,
        "processes", r->processes.count, "promised_bytes", bytes, "flat", r->flat);
    if (r->judgements > 0)
        json_object_set_new(root, "validation", adapt_judgement_json(r, &r->judged[r->best]));
    cli_print_json(root);
}

int adapt_make_folder(const char *path)
{
    struct stat st;
    if (mkdir(path, 0777) == 0 || (errno == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode)))
        return CLI_OK;
    return cli_fail(CLI_INPUT, "%s: cannot create this folder: %s", path, strerror(errno));
}

static int finish(adapt_run *r)
{
    adapt_log_sync(&r->log);
    if (!adapt_has_judge(r))
        CLI_TRY(cli_check(
            fovea_trainer_save(r->trainer, r->output, r->settings.dtype, r->options.ema > 0)));
    else if (!adapt_is_judged(r))
        CLI_TRY(adapt_judge(r));
    if (!r->part)
        report(r);
    return CLI_OK;
}

int adapt_train(adapt_run *r)
{
    if (r->find_rate) {
        CLI_TRY(adapt_make_folder(r->output));
        CLI_TRY(adapt_find_rate(r));
    }
    CLI_TRY(
        cli_check(fovea_trainer_create(&r->trainer, r->model, r->teacher, r->device, &r->options)));
    r->info.struct_size = sizeof r->info;
    fovea_trainer_query(r->trainer, &r->info);
    CLI_TRY(restore(r));
    if (is_first(r)) {
        promise(r);
        CLI_TRY(adapt_make_folder(r->output));
        CLI_TRY(adapt_log_open(&r->log, r->log_path, r->info.step));
    }
    interrupt_catch("step");
    /* the failure to write a log to a closed pipe is reported, and the training continues */
    signal(SIGPIPE, SIG_IGN);
    int code = is_first(r) && adapt_has_judge(r) ? adapt_judge_begin(r) : CLI_OK;
    CLI_THEN(code, run_steps(r));
    if (!code && r->stopped) {
        if (is_first(r))
            fprintf(stderr, "fovea: interrupted after step %llu%s\n",
                    (unsigned long long)r->info.step,
                    r->state_path ? "; --resume continues after this step" : "");
        return r->stopped;
    }
    if (!code && is_first(r))
        code = finish(r);
    const int closed = adapt_log_close(&r->log);
    return code ? code : closed;
}

void adapt_release(adapt_run *r)
{
    fovea_trainer_free(r->trainer);
    adapt_log_close(&r->log);
    free(r->judged);
    free(r->class_label);
    free(r->log_path);
    free(r->state_path);
    free(r->note);
}
