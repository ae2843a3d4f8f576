/* wisdom.c: the store of facts: sorted, with at most one fact about each thing, and with a lock. */
#include "wisdom/wisdom.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"

struct fv_wisdom {
    pthread_mutex_t lock;
    fv_fact *fact; /* the texts of a fact are one allocation, which begins at `device` */
    size_t count;
    uint32_t capacity;
};

fv_wisdom *fv_wisdom_process(void)
{
    static fv_wisdom process = {.lock = PTHREAD_MUTEX_INITIALIZER};
    return &process;
}

fovea_status fv_wisdom_create(fv_wisdom **out)
{
    fv_wisdom *w;
    FV_TRY(FV_MEM_NEW(&w, FV_MEM_WISDOM, "wisdom"));
    if (pthread_mutex_init(&w->lock, NULL) != 0) {
        fv_mem_free(w);
        return fv_fail(FOVEA_ENOMEM, "wisdom: not enough memory for a lock");
    }
    *out = w;
    return FOVEA_OK;
}

static void release(fv_fact *f)
{
    fv_mem_free((void *)(uintptr_t)f->device);
}

void fv_wisdom_clear(fv_wisdom *w)
{
    pthread_mutex_lock(&w->lock);
    for (size_t i = 0; i < w->count; i++)
        release(&w->fact[i]);
    fv_mem_free(w->fact);
    w->fact = NULL;
    w->count = w->capacity = 0;
    pthread_mutex_unlock(&w->lock);
}

void fv_wisdom_free(fv_wisdom *w)
{
    if (!w)
        return;
    fv_wisdom_clear(w);
    pthread_mutex_destroy(&w->lock);
    fv_mem_free(w);
}

size_t fv_wisdom_count(fv_wisdom *w)
{
    pthread_mutex_lock(&w->lock);
    const size_t count = w->count;
    pthread_mutex_unlock(&w->lock);
    return count;
}

/* ---- order ---- */

/* Replaces control characters, because tabs and line ends separate columns and facts. Names of
 * models and drivers may contain any characters, so they are replaced both in facts and in texts to
 * search for. */
static char plain(char c)
{
    return (unsigned char)c < ' ' || c == 127 ? '_' : c;
}

static int compare_texts(const char *a, const char *b)
{
    while (*a && *b && plain(*a) == plain(*b)) {
        a++;
        b++;
    }
    return *a && *b ? (unsigned char)plain(*a) - (unsigned char)plain(*b) : !!*a - !!*b;
}

/* Orders facts by kind, subject and device, so that the devices of one subject are neighbours. SKIP
 * facts are ordered by choice too, because several choices may be skipped. */
static int compare(const fv_fact *a, const fv_fact *b)
{
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    int order = compare_texts(a->subject, b->subject);
    if (!order)
        order = compare_texts(a->device, b->device);
    if (!order && a->kind == FV_FACT_SKIP)
        order = compare_texts(a->choice, b->choice);
    return order;
}

/* Returns the index of the first fact that is not before `key`. */
static size_t lower_bound(const fv_wisdom *w, const fv_fact *key)
{
    size_t low = 0, high = w->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare(&w->fact[middle], key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static const fv_fact *find(const fv_wisdom *w, const fv_fact *key)
{
    const size_t at = lower_bound(w, key);
    return at < w->count && compare(&w->fact[at], key) == 0 ? &w->fact[at] : NULL;
}

/* ---- change ---- */

static fovea_status copy_fact(fv_fact *out, const fv_fact *f)
{
    const size_t device = strlen(f->device) + 1, subject = strlen(f->subject) + 1;
    const size_t choice = strlen(f->choice) + 1;
    char *text;
    FV_TRY(fv_mem_alloc(&text, device + subject + choice, FV_MEM_WISDOM, "wisdom"));
    *out = *f;
    out->device = memcpy(text, f->device, device);
    out->subject = memcpy(text + device, f->subject, subject);
    out->choice = memcpy(text + device + subject, f->choice, choice);
    for (char *end = text + device + subject + choice; text < end; text++)
        *text = *text ? plain(*text) : 0;
    return FOVEA_OK;
}

static fovea_status grow(fv_wisdom *w)
{
    if (w->count < w->capacity)
        return FOVEA_OK;
    return fv_mem_grow(&w->fact, w->count, &w->capacity, w->capacity ? 2 * w->capacity : 64,
                       sizeof *w->fact, FV_MEM_WISDOM, "wisdom");
}

static fovea_status insert_fact(fv_wisdom *w, const fv_fact *f)
{
    fv_fact copy;
    FV_TRY(grow(w));
    FV_TRY(copy_fact(&copy, f));
    const size_t at = lower_bound(w, f);
    if (at < w->count && compare(&w->fact[at], f) == 0) {
        release(&w->fact[at]);
    } else {
        memmove(&w->fact[at + 1], &w->fact[at], (w->count - at) * sizeof *w->fact);
        w->count++;
    }
    w->fact[at] = copy;
    return FOVEA_OK;
}

/* Returns whether fact `a` replaces fact `b`. The text of the choice breaks ties, so that the order
 * of merging does not matter. */
static bool outranks(const fv_fact *a, const fv_fact *b)
{
    if (a->known != b->known)
        return a->known;
    if (a->rigor != b->rigor)
        return a->rigor > b->rigor;
    if (a->date != b->date)
        return a->date > b->date;
    return strcmp(a->choice, b->choice) > 0;
}

fovea_status fv_wisdom_put(fv_wisdom *w, const fv_fact *fact)
{
    fv_fact f = *fact;
    pthread_mutex_lock(&w->lock);
    const fv_fact *old = find(w, fact);
    if (old && old->rigor == f.rigor && old->date >= f.date)
        f.date = old->date + 1; /* makes the new fact also replace the old one in a file */
    const fovea_status status = insert_fact(w, &f);
    pthread_mutex_unlock(&w->lock);
    return status;
}

fovea_status fv_wisdom_offer(fv_wisdom *w, const fv_fact *fact)
{
    fovea_status status = FOVEA_OK;
    pthread_mutex_lock(&w->lock);
    const fv_fact *f = find(w, fact);
    if (!f || outranks(fact, f))
        status = insert_fact(w, fact);
    pthread_mutex_unlock(&w->lock);
    return status;
}

/* Merges two sorted stores. `from` receives the facts that are not kept. */
static fovea_status merge(fv_wisdom *to, fv_wisdom *from, bool fill)
{
    const uint64_t capacity = (uint64_t)to->count + from->count;
    if (from->count == 0)
        return FOVEA_OK;
    fv_fact *all;
    FV_TRY(FV_MEM_ARRAY(&all, capacity, FV_MEM_WISDOM, "wisdom"));
    size_t n = 0, a = 0, b = 0, left = 0;
    while (a < to->count || b < from->count) {
        const int order = a == to->count     ? 1
                          : b == from->count ? -1
                                             : compare(&to->fact[a], &from->fact[b]);
        if (order < 0) {
            all[n++] = to->fact[a++];
        } else if (order > 0) {
            all[n++] = from->fact[b++];
        } else {
            const bool newer = !fill && outranks(&from->fact[b], &to->fact[a]);
            all[n++] = newer ? from->fact[b] : to->fact[a];
            from->fact[left++] = newer ? to->fact[a] : from->fact[b];
            a++;
            b++;
        }
    }
    from->count = left;
    fv_mem_free(to->fact);
    to->fact = all;
    to->count = n;
    to->capacity = (uint32_t)capacity;
    return FOVEA_OK;
}

fovea_status fv_wisdom_merge(fv_wisdom *to, fv_wisdom *from, bool fill)
{
    pthread_mutex_lock(&to->lock);
    const fovea_status status = merge(to, from, fill);
    pthread_mutex_unlock(&to->lock);
    return status;
}

/* ---- look-ups ---- */

static void answer(fv_answer *out, const fv_fact *f)
{
    strncpy(out->choice, f->choice, sizeof out->choice - 1);
    out->choice[sizeof out->choice - 1] = 0;
    out->rigor = (fovea_rigor)f->rigor;
    out->seconds = f->seconds;
}

bool fv_wisdom_find(fv_wisdom *w, enum fv_fact_kind kind, const char *device, const char *subject,
                    fv_answer *out)
{
    const fv_fact key = {.kind = (uint8_t)kind, .device = device, .subject = subject, .choice = ""};
    pthread_mutex_lock(&w->lock);
    const fv_fact *f = find(w, &key);
    if (f)
        answer(out, f);
    pthread_mutex_unlock(&w->lock);
    return f != NULL;
}

bool fv_wisdom_find_family(fv_wisdom *w, enum fv_fact_kind kind, const char *device,
                           const char *subject, fv_answer *out)
{
    const fv_fact key = {.kind = (uint8_t)kind, .device = "", .subject = subject, .choice = ""};
    bool found = false;
    pthread_mutex_lock(&w->lock);
    for (size_t i = lower_bound(w, &key); i < w->count && !found; i++) {
        const fv_fact *f = &w->fact[i];
        if (f->kind != kind || compare_texts(f->subject, subject) != 0)
            break;
        found = fv_wisdom_same_family(f->device, device);
        if (found)
            answer(out, f);
    }
    pthread_mutex_unlock(&w->lock);
    return found;
}

bool fv_wisdom_skips(fv_wisdom *w, const char *device, const char *subject, const char *choice)
{
    const fv_fact key = {FV_FACT_SKIP, 0, true, false, device, subject, choice, 0, 0};
    pthread_mutex_lock(&w->lock);
    const bool found = find(w, &key) != NULL;
    pthread_mutex_unlock(&w->lock);
    return found;
}

fovea_status fv_wisdom_each(fv_wisdom *w, fv_wisdom_visit *visit, void *ctx)
{
    fovea_status status = FOVEA_OK;
    pthread_mutex_lock(&w->lock);
    for (size_t i = 0; i < w->count && status == FOVEA_OK; i++)
        status = visit(ctx, &w->fact[i]);
    pthread_mutex_unlock(&w->lock);
    return status;
}
