/* wisdom_text.c: wisdom as text: a header, then one fact per line, in seven columns separated by
 * tabs.
 *
 *     fovea wisdom 1
 *     step <tab> device <tab> problem <tab> kernel rev=1 knob=value <tab> measure
 *     <tab> nanoseconds <tab> date
 *
 * Every line is complete and independent of the others, so that texts may be split, sorted and
 * concatenated by line. A text with any other line is refused as a whole. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "wisdom/wisdom.h"

#define HEADER "fovea wisdom 1"
#define LINE_MOST 1023
#define FACTS_MOST 16384
#define COLUMNS 7
#define DIGITS 15 /* maximum decimal digits of a number */
#define NUMBER_MOST UINT64_C(999999999999999)

static const char *const kinds[FV_FACT_KINDS] = {"step", "sweep", "plan", "skip", "products"};
static const char *const rigors[] = {NULL, "estimate", "measure", "exhaustive"};
#define RIGORS (sizeof rigors / sizeof *rigors)

/* ---- reading ---- */

static fovea_status refuse(size_t line, const char *why)
{
    return fv_fail(FOVEA_EWISDOM, "wisdom, line %zu: %s; nothing was imported", line, why);
}

/* Splits `line` into columns: replaces its tabs by 0. Returns false if the number of columns is
 * wrong, or if a column is empty. */
static bool cut(char *line, char *column[COLUMNS])
{
    for (int i = 0; i < COLUMNS; i++) {
        column[i] = line;
        line += strcspn(line, "\t");
        if (line == column[i] || (*line == 0) != (i == COLUMNS - 1))
            return false;
        *line++ = 0;
    }
    return true;
}

/* Reads a whole number. Fractions are not supported, because their notation depends on the
 * program's locale. */
static bool read_number(uint64_t *out, const char *text)
{
    const size_t digits = strspn(text, "0123456789");
    *out = strtoull(text, NULL, 10);
    return digits > 0 && digits <= DIGITS && !text[digits];
}

/* Reads the fact in a line. Returns a text that says what is wrong with the line, or NULL. */
static const char *read_fact(fv_fact *out, char *line)
{
    char *column[COLUMNS];
    uint64_t nanoseconds;
    for (const char *p = line; *p; p++)
        if (((unsigned char)*p < ' ' && *p != '\t') || *p == 127)
            return "the line has a control character";
    if (!cut(line, column))
        return "the line must have seven columns, separated by tabs";
    const int kind = fv_index_of(column[0], kinds, FV_FACT_KINDS);
    const int rigor = fv_index_of(column[4], rigors, RIGORS);
    if (kind < 0)
        return "the first column must be step, sweep, plan, skip or products";
    if (rigor < 0)
        return "the fifth column must be estimate, measure or exhaustive";
    if (strlen(column[1]) >= FV_WISDOM_DEVICE || strlen(column[2]) >= FV_WISDOM_SUBJECT ||
        strlen(column[3]) >= FV_WISDOM_CHOICE)
        return "a column is too long";
    *out = (fv_fact){.kind = (uint8_t)kind,
                     .rigor = (uint8_t)rigor,
                     .device = column[1],
                     .subject = column[2],
                     .choice = column[3]};
    if (!read_number(&nanoseconds, column[5]) || !read_number(&out->date, column[6]))
        return "the last two columns must be nanoseconds and a date, as whole numbers";
    out->seconds = (double)nanoseconds * 1e-9;
    return NULL;
}

/* Copies the next line of the text without its line end, and moves *at after it. Returns false if
 * no whole line is left, if it is too long, or if it contains a zero byte. */
static bool next_line(char line[LINE_MOST + 1], const char **at, const char *end)
{
    const size_t left = (size_t)(end - *at), most = left < LINE_MOST + 1 ? left : LINE_MOST + 1;
    const char *stop = memchr(*at, '\n', most);
    if (!stop || memchr(*at, 0, (size_t)(stop - *at)))
        return false;
    memcpy(line, *at, (size_t)(stop - *at));
    line[stop - *at] = 0;
    *at = stop + 1;
    return true;
}

fovea_status fv_wisdom_parse(fv_wisdom *w, const char *text, uint64_t size, size_t *unknown)
{
    char line[LINE_MOST + 1];
    const char *at = text, *const end = text + size;
    *unknown = 0;
    if (size == 0 || !next_line(line, &at, end) || strcmp(line, HEADER) != 0)
        return refuse(1, "the line must be \"" HEADER "\"");
    for (size_t n = 2; at < end; n++) {
        fv_fact f;
        if (n > FACTS_MOST + 1)
            return refuse(n, "the text has too many lines");
        if (!next_line(line, &at, end))
            return refuse(n, "the line is unterminated, too long or not text");
        const char *why = read_fact(&f, line);
        if (why)
            return refuse(n, why);
        f.known = fv_wisdom_known(&f);
        *unknown += !f.known;
        FV_TRY(fv_wisdom_offer(w, &f));
    }
    return FOVEA_OK;
}

/* ---- writing ---- */

struct writer {
    char *out;
    size_t capacity, used;
    bool own;
    uint64_t *date; /* dates of all facts, if a text cannot hold all of them */
    size_t facts;
    uint64_t oldest; /* facts with an earlier date are not written, nor are the first `passed`
                        facts with this date */
    size_t passed;
};

static void append(struct writer *w, const char *format, ...) FV_PRINTF(2, 3);
static void append(struct writer *w, const char *format, ...)
{
    const size_t left = w->used < w->capacity ? w->capacity - w->used : 0;
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(left ? w->out + w->used : NULL, left, format, args);
    va_end(args);
    w->used += n > 0 ? (size_t)n : 0;
}

static uint64_t number(uint64_t n)
{
    return n < NUMBER_MOST ? n : NUMBER_MOST;
}

static fovea_status add_fact(void *ctx, const fv_fact *f)
{
    struct writer *w = ctx;
    if ((w->own && f->foreign) || f->date < w->oldest)
        return FOVEA_OK;
    if (f->date == w->oldest && w->passed) {
        w->passed--;
        return FOVEA_OK;
    }
    const double nanoseconds = f->seconds * 1e9;
    append(w, "%s\t%s\t%s\t%s\t%s\t%.0f\t%" PRIu64 "\n", kinds[f->kind], f->device, f->subject,
           f->choice, rigors[f->rigor],
           nanoseconds >= 0 && nanoseconds < (double)NUMBER_MOST ? nanoseconds : 0,
           number(f->date));
    return FOVEA_OK;
}

static fovea_status count_fact(void *ctx, const fv_fact *f)
{
    struct writer *w = ctx;
    if (w->own && f->foreign)
        return FOVEA_OK;
    if (w->date)
        w->date[w->facts] = f->date;
    w->facts++;
    return FOVEA_OK;
}

static int by_date(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Sets w->oldest and w->passed so that the oldest facts are left out if there are more than readers
 * accept. */
static fovea_status pass_over(struct writer *w, fv_wisdom *from)
{
    fv_wisdom_each(from, count_fact, w);
    if (w->facts <= FACTS_MOST)
        return FOVEA_OK;
    const size_t facts = w->facts, more = facts - FACTS_MOST;
    FV_TRY(FV_MEM_ARRAY(&w->date, facts, FV_MEM_WISDOM, "the dates of wisdom"));
    w->facts = 0;
    fv_wisdom_each(from, count_fact, w);
    qsort(w->date, facts, sizeof *w->date, by_date);
    w->oldest = w->date[more];
    for (w->passed = 0; w->passed < more && w->date[more - 1 - w->passed] == w->oldest;)
        w->passed++;
    fv_mem_free(w->date);
    if (w->out)
        fv_log("wisdom: %zu facts are too many, so the %zu oldest are left out; a text holds at "
               "most %d",
               facts, more, FACTS_MOST);
    return FOVEA_OK;
}

fovea_status fv_wisdom_format(fv_wisdom *w, bool own, char *out, size_t capacity, size_t *size)
{
    struct writer writer = {.out = out, .capacity = out ? capacity : 0, .own = own};
    FV_TRY(pass_over(&writer, w));
    append(&writer, HEADER "\n");
    fv_wisdom_each(w, add_fact, &writer);
    *size = writer.used;
    if (out && writer.used >= capacity)
        return fv_fail(FOVEA_EINVAL,
                       "wisdom has %zu bytes and a terminating null, but `capacity` is %zu",
                       writer.used, capacity);
    return FOVEA_OK;
}
