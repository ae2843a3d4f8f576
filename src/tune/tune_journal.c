/* tune_journal.c: records the candidate under test on disk, so that a candidate that crashes the
 * program or the driver is not tried again. The journal is a wisdom text of `skip` facts: the
 * candidate under test, and those during which earlier runs crashed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "tune/tuner.h"

#define JOURNAL_MOST (1u << 20)

static fovea_status adopt(void *ctx, const fv_fact *fact)
{
    fv_tuner *t = ctx;
    if (fact->kind != FV_FACT_SKIP || !fact->known)
        return FOVEA_OK;
    fv_log("tuning: %s for %s crashed an earlier run and is skipped", fact->choice, fact->subject);
    t->report.skipped++;
    FV_TRY(fv_wisdom_put(t->estimate.wisdom, fact));
    return fv_wisdom_put(t->known.wisdom, fact);
}

static fovea_status recover(fv_tuner *t)
{
    const char *path = t->options->journal;
    void *text;
    uint64_t size;
    size_t unknown;
    if (fv_os_look(path) == FV_OS_NOTHING)
        return FOVEA_OK;
    FV_TRY(fv_os_read(path, JOURNAL_MOST, &text, &size));
    const fovea_status status = fv_wisdom_parse(t->crashed, text, size, &unknown);
    fv_mem_free(text);
    if (status == FOVEA_EWISDOM)
        return fv_fail(status, "%s is not a tuner's journal; use another file", path);
    FV_TRY(status);
    return fv_wisdom_each(t->crashed, adopt, t);
}

fovea_status fv_journal_open(fv_tuner *t)
{
    const char *path = t->options->journal;
    if (!path)
        return FOVEA_OK;
    FV_TRY(fv_os_lock_file(&t->journal, path));
    if (t->journal)
        return recover(t);
    fv_log("tuning: another tuner uses the journal %s; this one continues without a journal", path);
    return FOVEA_OK;
}

void fv_journal_close(fv_tuner *t)
{
    fv_os_unlock_file(t->journal);
    t->journal = NULL;
}

struct suspicion {
    const fv_kernel *kernel;
    uint32_t runs; /* number of runs that the candidate crashed */
};

static fovea_status count_ended(void *ctx, const fv_fact *fact)
{
    struct suspicion *s = ctx;
    const size_t length = strlen(s->kernel->name);
    s->runs += strncmp(fact->choice, s->kernel->name, length) == 0 && fact->choice[length] == ' ';
    return FOVEA_OK;
}

bool fv_journal_distrusts(const fv_tuner *t, const fv_kernel *k)
{
    struct suspicion s = {k, 0};
    fv_wisdom_each(t->crashed, count_ended, &s);
    return s.runs >= 2;
}

static fovea_status write_journal(const char *path, fv_wisdom *w)
{
    return fv_wisdom_write(path, w, false, true, "the tuner's journal");
}

fovea_status fv_journal_begin(fv_tuner *t, const char *choice, const char *subject, size_t stride,
                              uint32_t count)
{
    fv_fact trying = fv_tuner_fact(t, FV_FACT_SKIP, subject, choice);
    fv_wisdom *w;
    if (!t->journal)
        return FOVEA_OK;
    FV_TRY(fv_tuner_copy(&w, t->crashed));
    fovea_status status = FOVEA_OK;
    for (uint32_t i = 0; i < count && status == FOVEA_OK; i++) {
        trying.subject = subject + i * stride;
        status = fv_wisdom_put(w, &trying);
    }
    FV_THEN(status, write_journal(t->options->journal, w));
    fv_wisdom_free(w);
    return status;
}

fovea_status fv_journal_end(fv_tuner *t)
{
    if (!t->journal)
        return FOVEA_OK;
    if (fv_wisdom_count(t->crashed))
        return write_journal(t->options->journal, t->crashed);
    if (remove(t->options->journal) != 0 && errno != ENOENT)
        return fv_fail(FOVEA_EIO, "%s: cannot be removed: %s", t->options->journal,
                       strerror(errno));
    return FOVEA_OK;
}
