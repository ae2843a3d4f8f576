/* run_lengths.c: see run_lengths.h. */
#include "cli/common/run_lengths.h"

#include <stdlib.h>
#include <string.h>

#include <fovea/results.h>

#include "cli/common/cli.h"
#include "json/json.h"

static void append(run_lengths *m, uint64_t length)
{
    m->run = cli_grow(m->run, m->n, sizeof *m->run);
    m->run[m->n++] = (uint32_t)length;
}

static uint64_t pixels_of(const run_lengths *m)
{
    return (uint64_t)m->width * m->height;
}

run_lengths run_lengths_empty(uint32_t width, uint32_t height)
{
    run_lengths m = {.width = width, .height = height};
    append(&m, pixels_of(&m));
    return m;
}

void run_lengths_free(run_lengths *m)
{
    free(m->run);
    *m = (run_lengths){0};
}

run_lengths run_lengths_of_pixels(const uint8_t *inside, uint32_t width, uint32_t height)
{
    run_lengths m = {.width = width, .height = height};
    fovea_mask_runs(inside, width, height, NULL, 0, &m.n);
    m.run = cli_alloc(m.n, sizeof *m.run);
    fovea_mask_runs(inside, width, height, m.run, m.n, &m.n);
    return m;
}

/* ---- two masks ---- */

/* A position in a mask: the pixels that are left of the current run, number `at`. */
typedef struct cursor {
    const run_lengths *of;
    size_t at;
    uint64_t left;
} cursor;

static cursor begin(const run_lengths *m)
{
    return (cursor){m, 0, m->run[0]};
}

static bool is_inside(const cursor *c)
{
    return c->at % 2 == 1;
}

static void skip(cursor *c, uint64_t length)
{
    c->left -= length;
    while (c->left == 0 && c->at + 1 < c->of->n)
        c->left = c->of->run[++c->at];
}

/* Returns the number of pixels for which neither mask changes. 0: both have ended. */
static uint64_t common_run(cursor *a, cursor *b)
{
    skip(a, 0);
    skip(b, 0);
    return a->left < b->left ? a->left : b->left;
}

uint64_t run_lengths_shared(const run_lengths *a, const run_lengths *b)
{
    cursor x = begin(a), y = begin(b);
    uint64_t sum = 0, length;
    while ((length = common_run(&x, &y)) > 0) {
        sum += is_inside(&x) && is_inside(&y) ? length : 0;
        skip(&x, length);
        skip(&y, length);
    }
    return sum;
}

static run_lengths join(const run_lengths *a, const run_lengths *b)
{
    run_lengths m = {.width = a->width, .height = a->height};
    cursor x = begin(a), y = begin(b);
    uint64_t length, sum = 0;
    bool now = false;
    while ((length = common_run(&x, &y)) > 0) {
        if ((is_inside(&x) || is_inside(&y)) != now) {
            append(&m, sum);
            sum = 0;
            now = !now;
        }
        sum += length;
        skip(&x, length);
        skip(&y, length);
    }
    append(&m, sum);
    return m;
}

uint64_t run_lengths_area(const run_lengths *m)
{
    uint64_t sum = 0;
    for (size_t i = 1; i < m->n; i += 2)
        sum += m->run[i];
    return sum;
}

/* ---- polygons ----
 *
 * pycocotools walks along the border in steps of a fifth of a pixel. Where a step crosses the
 * middle of a column, it crosses the border there: below the crossing, pixels change between
 * outside and inside. */

enum { FINE = 5 }; /* steps per pixel */

/* Positions at which a mask changes between outside and inside. */
typedef struct changes {
    uint64_t *at;
    size_t n;
    uint32_t width, height;
} changes;

/* Adds a step between x and x + 1, whose upper end is at y, if it crosses the middle of a column.
 */
static void cross(changes *c, int x, int y)
{
    const int column = x / FINE, lowest = (int)c->height;
    if (x < 0 || x % FINE != FINE / 2 || column >= (int)c->width)
        return;
    const int row = y < -2 ? 0 : (y + 2) / FINE; /* the first row whose centre is not above y */
    c->at = cli_grow(c->at, c->n, sizeof *c->at);
    c->at[c->n++] = (uint64_t)column * c->height + (uint64_t)(row < lowest ? row : lowest);
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

/* Walks from one corner to the next one along the axis of the longer side. The other coordinate is
 * computed from the end with the smaller coordinate on that axis. */
static void walk(changes *c, const int from[2], const int to[2])
{
    const int length[2] = {abs(to[0] - from[0]), abs(to[1] - from[1])};
    const int axis = length[0] >= length[1] ? 0 : 1, steps = length[axis];
    const bool back = from[axis] > to[axis];
    const int *low = back ? to : from, *high = back ? from : to;
    const double slope = steps > 0 ? (double)(high[!axis] - low[!axis]) / steps : 0;
    int before[2] = {0};
    for (int i = 0; i <= steps; i++) {
        const int t = back ? steps - i : i;
        int at[2];
        at[axis] = low[axis] + t;
        at[!axis] = (int)(low[!axis] + slope * t + 0.5);
        if (i > 0 && at[0] != before[0])
            cross(c, smaller(at[0], before[0]), smaller(at[1], before[1]));
        memcpy(before, at, sizeof before);
    }
}

static int compare_positions(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Returns the mask that changes at these positions. Two changes at one position cancel. */
static run_lengths of_changes(const changes *c)
{
    run_lengths m = {.width = c->width, .height = c->height};
    uint64_t begin = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (i + 1 < c->n && c->at[i + 1] == c->at[i]) {
            i++;
            continue;
        }
        append(&m, c->at[i] - begin);
        begin = c->at[i];
    }
    append(&m, pixels_of(&m) - begin);
    return m;
}

static void corner(int out[2], const double *xy)
{
    for (int i = 0; i < 2; i++)
        out[i] = (int)(FINE * xy[i] + 0.5);
}

void run_lengths_add_polygon(run_lengths *to, const double *xy, size_t corners)
{
    changes c = {.width = to->width, .height = to->height};
    for (size_t i = 0; i < corners; i++) {
        int from[2], next[2];
        corner(from, xy + 2 * i);
        corner(next, xy + 2 * ((i + 1) % corners));
        walk(&c, from, next);
    }
    if (c.n > 0)
        qsort(c.at, c.n, sizeof *c.at, compare_positions);
    run_lengths polygon = of_changes(&c);
    const run_lengths both = join(to, &polygon);
    run_lengths_free(&polygon);
    run_lengths_free(to);
    *to = both;
    free(c.at);
}

/* ---- text ----
 *
 * A letter of the packed text has six bits. Five are digits of a number, the lowest first, and the
 * sixth says whether more letters follow. From the fourth run on, the number is the difference from
 * the run two before. */

enum { LETTER = 48, DIGITS = 5, DIGIT_MASK = 31, SIGN = 16, MORE = 32, LETTERS_OF_A_NUMBER = 7 };

static int64_t base_of(const run_lengths *m, size_t i)
{
    return i > 2 ? m->run[i - 2] : 0;
}

char *run_lengths_pack(const run_lengths *m)
{
    char *text = NULL;
    size_t used = 0;
    for (size_t i = 0; i < m->n; i++) {
        int64_t x = m->run[i] - base_of(m, i);
        bool more = true;
        while (more) {
            const int bits = (int)(x & DIGIT_MASK);
            x >>= DIGITS;
            more = bits & SIGN ? x != -1 : x != 0;
            text = cli_grow(text, used, 1);
            text[used++] = (char)(LETTER + (bits | (more ? MORE : 0)));
        }
    }
    text = cli_grow(text, used, 1);
    text[used] = 0;
    return text;
}

/* Reads a number from the text and sets *text to what follows it. Returns false if there is none.
 */
static bool unpack_number(int64_t *out, const char **text)
{
    bool more = true;
    *out = 0;
    for (int k = 0; more; k++) {
        const int letter = **text - LETTER;
        if (k == LETTERS_OF_A_NUMBER || letter < 0 || letter >= 2 * MORE)
            return false;
        ++*text;
        *out |= (int64_t)(letter & DIGIT_MASK) << DIGITS * k;
        more = letter & MORE;
        if (!more && (letter & SIGN))
            *out -= (int64_t)1 << DIGITS * (k + 1);
    }
    return true;
}

/* Appends a run to a mask whose runs have *sum pixels so far. Returns false if it does not fit. */
static bool append_checked(run_lengths *m, uint64_t *sum, int64_t length)
{
    if (length < 0 || (uint64_t)length > pixels_of(m) - *sum)
        return false;
    *sum += (uint64_t)length;
    append(m, (uint64_t)length);
    return true;
}

static bool read_runs(run_lengths *m, uint64_t *sum, const json_t *counts)
{
    int64_t length;
    if (json_is_string(counts)) {
        const char *text = json_string_value(counts);
        while (*text)
            if (!unpack_number(&length, &text) ||
                !append_checked(m, sum, length + base_of(m, m->n)))
                return false;
        return true;
    }
    for (size_t i = 0; i < json_array_size(counts); i++)
        if (!fv_json_whole(&length, json_array_get(counts, i)) || !append_checked(m, sum, length))
            return false;
    return json_is_array(counts);
}

bool run_lengths_read(run_lengths *out, const json_t *counts, uint32_t width, uint32_t height)
{
    uint64_t sum = 0;
    *out = (run_lengths){.width = width, .height = height};
    if (read_runs(out, &sum, counts) && out->n > 0 && sum == pixels_of(out))
        return true;
    run_lengths_free(out);
    return false;
}
