/* held_out.c: selects pictures that a training never uses: some of its own, or those of another
 * folder. The selection depends on the bytes of the files, not on their names or order, so that a
 * copy under another name is not used for training either. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/adapt/adapt_data.h"

/* Returns the FNV-1a hash of a file, or UINT64_MAX if the file cannot be read. */
static uint64_t hash_file(const char *path)
{
    uint8_t part[1 << 14];
    uint64_t h = 0xcbf29ce484222325u;
    FILE *f = fopen(path, "rb");
    if (!f)
        return UINT64_MAX;
    for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;)
        for (size_t i = 0; i < n; i++)
            h = (h ^ part[i]) * 0x100000001b3u;
    fclose(f);
    return h;
}

static uint64_t *hash_all(const dataset *d)
{
    uint64_t *hash = cli_alloc(d->n ? d->n : 1, sizeof *hash);
    for (size_t i = 0; i < d->n; i++)
        hash[i] = hash_file(d->file[i].path);
    return hash;
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void move_file(dataset *to, dataset_file *file)
{
    to->file = cli_grow(to->file, to->n, sizeof *to->file);
    to->file[to->n++] = *file;
}

/* Removes the files whose hashes are in `held` from the data. Moves the first file with each hash
 * to `out` and drops its copies. If `out` is NULL, drops all of these files. */
static void take_out(dataset *d, const uint64_t *hash, const uint64_t *held, size_t n, dataset *out)
{
    bool *taken = cli_alloc(n ? n : 1, sizeof *taken);
    size_t left = 0;
    for (size_t i = 0; i < d->n; i++) {
        const uint64_t *at = bsearch(&hash[i], held, n, sizeof *held, compare);
        if (!at) {
            d->file[left++] = d->file[i];
            continue;
        }
        if (out && !taken[at - held]) {
            taken[at - held] = true;
            move_file(out, &d->file[i]);
            continue;
        }
        free(d->file[i].path);
        free(d->file[i].mask);
    }
    d->n = left;
    free(taken);
}

/* Moves the `wanted` smallest different hashes to the front, and returns their number. */
static size_t choose(uint64_t *hash, size_t n, size_t wanted)
{
    size_t kept = 0;
    qsort(hash, n, sizeof *hash, compare);
    for (size_t i = 0; i < n && kept < wanted; i++)
        if (kept == 0 || hash[i] != hash[kept - 1])
            hash[kept++] = hash[i];
    return kept;
}

int adapt_hold_out(dataset *held, dataset *d, size_t wanted)
{
    memset(held, 0, sizeof *held);
    held->path = d->path;
    if (!d->file)
        return cli_fail(
            CLI_INPUT,
            "%s: pictures can be held out only from a folder; give another folder with --val",
            d->path);
    uint64_t *hash = hash_all(d), *chosen = hash_all(d);
    const size_t before = d->n, n = choose(chosen, before, wanted);
    take_out(d, hash, chosen, n, held);
    free(hash);
    free(chosen);
    if (d->n > 0)
        return CLI_OK;
    return cli_fail(CLI_INPUT,
                    "%s has %zu picture%s; at least two different ones are needed, one for "
                    "training and one for evaluation",
                    d->path, before, before == 1 ? "" : "s, all identical");
}

int adapt_leave_out(dataset *d, const dataset *held)
{
    const size_t before = d->n;
    if (!d->file || !held->file)
        return CLI_OK;
    uint64_t *hash = hash_all(d), *others = hash_all(held);
    qsort(others, held->n, sizeof *others, compare);
    take_out(d, hash, others, held->n, NULL);
    free(hash);
    free(others);
    if (d->n < before)
        cli_tell("%s: %zu of %zu pictures are left out because they are also in %s", d->path,
                 before - d->n, before, held->path);
    if (d->n > 0)
        return CLI_OK;
    return cli_fail(CLI_INPUT,
                    "%s: all pictures are also in %s, so none is left for training; add others",
                    d->path, held->path);
}
