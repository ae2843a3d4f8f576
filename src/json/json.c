/* json.c: see json.h.
 *
 * jansson gets the text through a callback that replaces the few things jansson refuses. NaN and
 * Infinity become {"__float__": "NaN"}, as transformers itself writes them where it avoids the bare
 * words. Integers beyond 64 bits become {"__int__": "1000000000000000000000"}. Code that does not
 * read such a member is not affected; code that does must get its number from fv_json_number.
 */
#include "json/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REAL "__float__"
#define WHOLE "__int__"
#define WHOLE_MOST "9223372036854775807"
#define REAL_DIGITS 309 /* digits before the decimal point of the largest double */
#define EXPONENT_MOST 100000

/* ---- the text that jansson sees ---- */

struct piece {
    const char *at;
    size_t n;
};

struct rewriter {
    const char *text;
    size_t size, at;
    bool quoted; /* `at` is in a string */
    bool too_deep;
    int depth;
    struct piece queue[3]; /* the text that jansson gets next */
    int first, queued;
};

static void push(struct rewriter *r, const char *at, size_t n)
{
    r->queue[r->queued++] = (struct piece){at, n};
}

/* Queues an object that replaces a number which jansson does not accept. */
static void push_marked(struct rewriter *r, const char *begin, const char *at, size_t n)
{
    push(r, begin, strlen(begin));
    push(r, at, n);
    push(r, "\"}", 2);
}

static bool follows(const struct rewriter *r, const char *word)
{
    const size_t n = strlen(word);
    return r->size - r->at >= n && memcmp(r->text + r->at, word, n) == 0;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Returns the code unit of the escape \uXXXX at `at`, or -1 if there is no such escape at `at`. */
static int unit_at(const struct rewriter *r, size_t at)
{
    int unit = 0;
    if (r->size < 6 || at > r->size - 6 || r->text[at] != '\\' || r->text[at + 1] != 'u')
        return -1;
    for (size_t i = at + 2; i < at + 6; i++) {
        const int digit = hex_digit(r->text[i]);
        if (digit < 0)
            return -1;
        unit = unit * 16 + digit;
    }
    return unit;
}

/* Returns the length in bytes of the escape at `at`, and sets *known to whether jansson accepts the
 * escape. jansson accepts neither half of a surrogate pair nor a zero, which would end a C string.
 */
static size_t escape_length(bool *known, const struct rewriter *r, size_t at)
{
    const int unit = unit_at(r, at);
    *known = true;
    if (unit < 0)
        return at + 2 <= r->size ? 2 : 1;
    if (unit >= 0xd800 && unit < 0xdc00) {
        const int other = unit_at(r, at + 6);
        *known = other >= 0xdc00 && other < 0xe000;
        return *known ? 12 : 6;
    }
    *known = unit != 0 && (unit < 0xdc00 || unit >= 0xe000);
    return 6;
}

/* Queues text up to the end of the string, or up to an escape that is replaced. */
static void push_quoted(struct rewriter *r)
{
    const size_t begin = r->at;
    while (r->at < r->size) {
        bool known = true;
        const char c = r->text[r->at];
        const size_t n = c == '\\' ? escape_length(&known, r, r->at) : 1;
        if (!known) {
            push(r, r->text + begin, r->at - begin);
            push(r, "\\ufffd", 6);
            r->at += n;
            return;
        }
        r->at += n;
        if (c == '"') {
            r->quoted = false;
            break;
        }
    }
    push(r, r->text + begin, r->at - begin);
}

static size_t count_digits(const char *text, size_t n)
{
    size_t digits = 0;
    while (digits < n && text[digits] >= '0' && text[digits] <= '9')
        digits++;
    return digits;
}

/* Returns whether a number that has a fraction or an exponent is larger than any double; `text`
 * begins after the sign. */
static bool is_huge(const char *text, size_t n)
{
    const size_t before = count_digits(text, n);
    size_t at = before, after = 0, zeros = 0;
    if (at < n && text[at] == '.') {
        after = count_digits(text + at + 1, n - at - 1);
        at += 1 + after;
    }
    while (zeros < before + after && text[zeros < before ? zeros : zeros + 1] == '0')
        zeros++;
    if (zeros == before + after)
        return false;
    long exponent = 0, sign = 1;
    if (at < n && (text[at] == 'e' || text[at] == 'E')) {
        at++;
        if (at < n && (text[at] == '-' || text[at] == '+'))
            sign = text[at++] == '-' ? -1 : 1;
        for (; at < n && text[at] >= '0' && text[at] <= '9' && exponent < EXPONENT_MOST; at++)
            exponent = exponent * 10 + (text[at] - '0');
    }
    return (double)before - (double)zeros + (double)(sign * exponent) > REAL_DIGITS;
}

static void push_number(struct rewriter *r)
{
    const char *begin = r->text + r->at;
    const size_t sign = *begin == '-' ? 1 : 0;
    size_t n = sign;
    if (sign && r->size - r->at > 1 && begin[1] == 'I') {
        r->at++;
        const bool infinite = follows(r, "Infinity");
        if (infinite) {
            r->at += strlen("Infinity");
            push_marked(r, "{\"" REAL "\":\"", "-Infinity", strlen("-Infinity"));
        } else {
            push(r, begin, 1);
        }
        return;
    }
    while (n < r->size - r->at && strchr("0123456789.eE+-", begin[n]) && begin[n])
        n++;
    r->at += n;
    const size_t digits = count_digits(begin + sign, n - sign), most = strlen(WHOLE_MOST);
    const bool whole = sign + digits == n;
    if (whole && begin[sign] != '0' &&
        (digits > most || (digits == most && memcmp(begin + sign, WHOLE_MOST, most) > 0)))
        push_marked(r, "{\"" WHOLE "\":\"", begin, n);
    else if (!whole && is_huge(begin + sign, n - sign))
        push_marked(r, "{\"" REAL "\":\"", sign ? "-Infinity" : "Infinity",
                    strlen("Infinity") + sign);
    else
        push(r, begin, n);
}

/* Queues words and the text between values, up to a string, a number or a word that is replaced. */
static void push_plain(struct rewriter *r)
{
    static const char *const words[] = {"NaN", "Infinity"};
    const size_t begin = r->at;
    for (; r->at < r->size && !r->too_deep; r->at++) {
        const char c = r->text[r->at];
        if (c == '"' || c == '-' || (c >= '0' && c <= '9') || c == 'N' || c == 'I')
            break;
        if (c == '{' || c == '[')
            r->too_deep = ++r->depth > FV_JSON_DEPTH;
        else if (c == '}' || c == ']')
            r->depth--;
    }
    if (r->at > begin) {
        push(r, r->text + begin, r->at - begin);
        return;
    }
    for (int i = 0; i < 2; i++)
        if (follows(r, words[i])) {
            push_marked(r, "{\"" REAL "\":\"", words[i], strlen(words[i]));
            r->at += strlen(words[i]);
            return;
        }
    r->quoted = r->text[r->at] == '"';
    push(r, r->text + r->at++, 1);
}

static void push_next(struct rewriter *r)
{
    const char c = r->text[r->at];
    r->first = r->queued = 0;
    if (r->quoted)
        push_quoted(r);
    else if (c == '-' || (c >= '0' && c <= '9'))
        push_number(r);
    else
        push_plain(r);
}

/* Gives jansson the next bytes of the text. jansson recurses once per level, so this function
 * counts the levels before jansson sees them. */
static size_t fill(void *buffer, size_t capacity, void *data)
{
    struct rewriter *r = data;
    size_t n = 0;
    while (n < capacity) {
        if (r->first == r->queued) {
            if (r->at == r->size || r->too_deep)
                break;
            push_next(r);
            continue;
        }
        struct piece *p = &r->queue[r->first];
        const size_t some = p->n < capacity - n ? p->n : capacity - n;
        memcpy((char *)buffer + n, p->at, some);
        n += some;
        p->at += some;
        p->n -= some;
        r->first += p->n == 0;
    }
    return r->too_deep ? 0 : n;
}

json_t *fv_json_parse(const char *text, size_t size, unsigned flags, fv_json_error *error)
{
    json_error_t said;
    struct rewriter r = {.text = text, .size = size};
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        r.at = 3;
    if (size >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0)) {
        snprintf(error->text, sizeof error->text, "the text is UTF-16; save it as UTF-8");
        return NULL;
    }
    json_t *value =
        json_load_callback(fill, &r, flags & FV_JSON_UNIQUE ? JSON_REJECT_DUPLICATES : 0, &said);
    if (value && !r.too_deep)
        return value;
    json_decref(value);
    if (r.too_deep)
        snprintf(error->text, sizeof error->text, "the JSON is nested deeper than %d levels",
                 FV_JSON_DEPTH);
    else
        snprintf(error->text, sizeof error->text, "line %d is not valid JSON: %s", said.line,
                 said.text);
    return NULL;
}

/* ---- values ---- */

/* Returns the text of an object that replaces a number of `kind`, REAL or WHOLE, or NULL for other
 * values. */
static const char *marked(const json_t *value, const char *kind)
{
    return json_object_size(value) == 1 ? json_string_value(json_object_get(value, kind)) : NULL;
}

bool fv_json_number(double *out, const json_t *value)
{
    const char *digits = marked(value, WHOLE);
    if (!json_is_number(value) && !digits)
        return false;
    const double x = digits ? strtod(digits, NULL) : json_number_value(value);
    if (!isfinite(x))
        return false;
    *out = x;
    return true;
}

bool fv_json_whole(int64_t *out, const json_t *value)
{
    const double x = json_is_real(value) ? json_real_value(value) : 0, limit = 9223372036854775808.;
    if (!json_is_number(value) || x != floor(x) || x < -limit || x >= limit)
        return false;
    *out = json_is_real(value) ? (int64_t)x : (int64_t)json_integer_value(value);
    return true;
}

bool fv_json_flag(bool *out, const json_t *value)
{
    int64_t n = json_is_true(value);
    if (!json_is_boolean(value) && (!fv_json_whole(&n, value) || n < 0 || n > 1))
        return false;
    *out = n != 0;
    return true;
}

bool fv_json_unbounded(const json_t *value)
{
    return marked(value, REAL) != NULL;
}

/* ---- identifiers ---- */

/* Returns whether a text consists of digits, with or without a minus sign, and with or without a
 * fraction of zeros. */
static bool is_numeral(const char *text)
{
    const size_t sign = *text == '-', digits = count_digits(text + sign, SIZE_MAX);
    const char *rest = text + sign + digits;
    if (*rest == '.' && rest[1] == '0')
        rest += 1 + strspn(rest + 1, "0");
    return digits > 0 && !*rest;
}

static const char *plain_numeral(char shown[FV_JSON_ID], const char *text)
{
    const bool negative = *text == '-';
    const char *first = text + negative;
    while (*first == '0' && first[1] >= '0' && first[1] <= '9')
        first++;
    const size_t digits = count_digits(first, SIZE_MAX);
    if (digits + 2 > FV_JSON_ID)
        return text;
    snprintf(shown, FV_JSON_ID, "%s%.*s", negative && *first != '0' ? "-" : "", (int)digits, first);
    return shown;
}

const char *fv_json_id(char shown[FV_JSON_ID], const json_t *value)
{
    const char *digits = marked(value, WHOLE);
    if (digits)
        return plain_numeral(shown, digits);
    if (json_is_string(value)) {
        const char *text = json_string_value(value);
        return is_numeral(text) ? plain_numeral(shown, text) : text;
    }
    if (json_is_integer(value))
        snprintf(shown, FV_JSON_ID, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(shown, FV_JSON_ID,
                 json_real_value(value) == floor(json_real_value(value)) ? "%.0f" : "%.17g",
                 json_real_value(value) + 0.0); /* adding 0 makes -0 positive */
    else
        return NULL;
    return shown;
}

int fv_json_id_order(const char *a, const char *b)
{
    const bool numeral = is_numeral(a), negative = *a == '-';
    if (numeral != is_numeral(b))
        return numeral ? -1 : 1;
    if (!numeral)
        return strcmp(a, b);
    if (negative != (*b == '-'))
        return negative ? -1 : 1;
    const size_t n = strlen(a), m = strlen(b);
    const int order = n != m ? (n > m) - (n < m) : strcmp(a, b);
    return negative ? -order : order;
}

/* ---- messages ---- */

const char *fv_json_show(char shown[FV_JSON_SHOWN], const json_t *value)
{
    const char *word = marked(value, REAL) ? marked(value, REAL) : marked(value, WHOLE);
    if (!value)
        return "missing";
    if (json_is_object(value) && !word)
        return "an object";
    if (json_is_array(value))
        return "a list";
    char *text = word ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
    const char *whole = word ? word : text ? text : "?";
    const size_t most = FV_JSON_SHOWN - 4;
    size_t n = strlen(whole);
    if (n > most)
        for (n = most; n > 0 && ((unsigned char)whole[n] & 0xc0) == 0x80;)
            n--; /* do not cut a character in half */
    snprintf(shown, FV_JSON_SHOWN, "%.*s%s", (int)n, whole, whole[n] ? "..." : "");
    free(text);
    return shown;
}
