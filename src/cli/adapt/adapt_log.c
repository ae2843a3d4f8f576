/* adapt_log.c: writes the log of a training: one line of JSON per step. A resumed training
 * continues the log after the checkpoint's step. Later lines are dropped, because their steps are
 * repeated.
 *
 * A failure to write the log does not end the training, whose weights are worth more. The failure
 * is reported once, when it happens, and adapt_log_close() returns it. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/adapt/adapter.h"

static int failed(const char *path)
{
    return cli_fail(CLI_INPUT, "%s: cannot be written: %s", path, strerror(errno));
}

static void give_up(adapt_log *log)
{
    log->code = failed(log->path);
    fclose(log->file);
    log->file = NULL;
}

/* Flushes the file, and makes it survive a crash of the machine. Returns false on failure. Pipes,
 * terminals and some file systems cannot guarantee that; they do not count as failures. */
static bool make_durable(FILE *file)
{
    if (fflush(file))
        return false;
    return fsync(fileno(file)) == 0 || errno == EINVAL || errno == EROFS || errno == ENOTSUP;
}

static void note(adapt_log *log, double loss)
{
    log->loss = cli_grow(log->loss, log->steps, sizeof *log->loss);
    log->loss[log->steps++] = loss;
}

/* Copies the lines of the first `steps` steps in order. */
static int copy_lines(adapt_log *log, FILE *from, uint64_t steps)
{
    char *line = NULL;
    size_t capacity = 0;
    int code = CLI_OK;
    while (!code && log->steps < steps && getline(&line, &capacity, from) > 0) {
        json_t *root = json_loads(line, 0, NULL);
        const json_t *step = json_object_get(root, "step");
        if (json_is_integer(step) && json_integer_value(step) == (json_int_t)log->steps + 1) {
            note(log, json_number_value(json_object_get(root, "loss")));
            if (fputs(line, log->file) < 0)
                code = failed(log->path);
        }
        json_decref(root);
    }
    free(line);
    if (!code && log->steps < steps)
        code = cli_fail(CLI_INPUT,
                        "%s holds only %zu of the %llu steps before the checkpoint; use --log "
                        "/dev/null to resume without them",
                        log->path, log->steps, (unsigned long long)steps);
    return code;
}

/* Copies the retained lines to a new file, which then replaces the old file. */
static int continue_log(adapt_log *log, uint64_t steps)
{
    FILE *from = fopen(log->path, "r");
    if (!from)
        return cli_fail(CLI_INPUT,
                        "%s cannot be read, but its checkpoint continues it; use --log /dev/null "
                        "to resume without it",
                        log->path);
    char *replacement = cli_text("%s.new", log->path);
    log->file = fopen(replacement, "w");
    int code = log->file ? copy_lines(log, from, steps) : failed(replacement);
    fclose(from);
    if (!code && (!make_durable(log->file) || rename(replacement, log->path)))
        code = failed(log->path);
    if (code && log->file)
        remove(replacement);
    free(replacement);
    return code;
}

int adapt_log_open(adapt_log *log, const char *path, uint64_t steps)
{
    struct stat st;
    /* a stream cannot be read again */
    const bool stream = stat(path, &st) == 0 && !S_ISREG(st.st_mode);
    *log = (adapt_log){.path = path};
    if (steps && !stream)
        return continue_log(log, steps);
    log->file = fopen(path, "w");
    return log->file ? CLI_OK : failed(path);
}

void adapt_log_add(adapt_log *log, const fovea_trainer_report *r, double rate)
{
    note(log, r->loss);
    if (!log->file)
        return;
    json_t *root = json_pack("{s:I, s:f}", "step", (json_int_t)r->step, "loss", r->loss);
    if (r->layer_loss) {
        json_t *layers = json_array();
        for (uint32_t i = 0; i < r->layers; i++)
            json_array_append_new(layers, json_real(r->layer_loss[i]));
        json_object_set_new(root, "loss_layers", layers);
    }
    json_object_set_new(root, "lr", json_real(r->lr));
    json_object_set_new(root, "grad_norm", json_real(r->gradient_norm));
    json_object_set_new(root, "pictures", json_integer((json_int_t)r->pictures));
    json_object_set_new(root, "pictures_per_second", json_real(rate));
    char *text = json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(12));
    json_decref(root);
    if (!text || fprintf(log->file, "%s\n", text) < 0 || fflush(log->file))
        give_up(log);
    free(text);
}

void adapt_log_sync(adapt_log *log)
{
    if (log->file && !make_durable(log->file))
        give_up(log);
}

int adapt_log_close(adapt_log *log)
{
    const bool ok = !log->file || fclose(log->file) == 0;
    const int code = log->code || ok ? log->code : failed(log->path);
    free(log->loss);
    *log = (adapt_log){NULL};
    return code;
}

double adapt_log_mean(const adapt_log *log, size_t n, size_t before)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += log->loss[log->steps - before - n + i];
    return sum / (double)n;
}
