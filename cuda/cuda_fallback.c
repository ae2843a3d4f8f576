/* cuda_fallback.c: the PTX of programs that were compiled when the library was built, unpacked: raw
 * deflate (RFC 1951) of a text whose registers are named by what they differ by, as embed_ptx.py
 * has written it. The data is our own, but a read past its end or a write past the text's is an
 * error all the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cuda/cuda_sources.h"

enum { MOST_BITS = 15, LITERALS = 288, DISTANCES = 32, LENGTHS = 19, END = 256 };

/* A stream of compressed bits, and the bytes that were decompressed from it. */
typedef struct stream {
    const uint8_t *in;
    size_t left;
    uint32_t bits, count; /* bits that were read but not used yet */
    uint8_t *out;
    size_t at, size;
    bool bad;
} stream;

/* A prefix code: how many codes have each length, and the symbols in the codes' order. */
typedef struct code {
    uint16_t count[MOST_BITS + 1], symbol[LITERALS];
} code;

static uint32_t bits(stream *s, uint32_t n)
{
    for (; s->count < n; s->count += 8) {
        s->bad = s->bad || s->left == 0;
        if (s->left) {
            s->bits |= (uint32_t)*s->in++ << s->count;
            s->left--;
        }
    }
    const uint32_t value = s->bits & ((1u << n) - 1);
    s->bits >>= n;
    s->count -= n;
    return value;
}

static void make_code(code *c, const uint8_t *length, uint32_t n)
{
    uint16_t next[MOST_BITS + 1] = {0};
    memset(c->count, 0, sizeof c->count);
    for (uint32_t i = 0; i < n; i++)
        c->count[length[i]]++;
    c->count[0] = 0;
    for (uint32_t b = 1; b < MOST_BITS; b++)
        next[b + 1] = (uint16_t)(next[b] + c->count[b]);
    for (uint32_t i = 0; i < n; i++)
        if (length[i])
            c->symbol[next[length[i]]++] = (uint16_t)i;
}

/* The next symbol: codes of one length are consecutive numbers. */
static uint32_t decode(stream *s, const code *c)
{
    int32_t value = 0, first = 0, index = 0;
    for (uint32_t b = 1; b <= MOST_BITS; b++) {
        value |= (int32_t)bits(s, 1);
        const int32_t count = c->count[b];
        if (value - first < count)
            return c->symbol[index + value - first];
        index += count;
        first = (first + count) << 1;
        value <<= 1;
    }
    s->bad = true;
    return END;
}

static void put_byte(stream *s, uint8_t byte)
{
    if (s->at < s->size)
        s->out[s->at++] = byte;
    else
        s->bad = true;
}

/* A symbol past END is a length: groups of four, or of two for distances, share how many bits more
 * follow. */
static void repeat(stream *s, uint32_t symbol, const code *distances)
{
    uint32_t length = symbol - END + 2, more;
    if (symbol == END + 29) {
        length = 258;
    } else if (symbol >= END + 9 && symbol < END + 29) {
        more = (symbol - END - 5) / 4;
        length = 3 + ((4 + (symbol - END - 1) % 4) << more) + bits(s, more);
    }
    const uint32_t far = decode(s, distances);
    if (symbol > END + 29 || far > 29) {
        s->bad = true;
        return;
    }
    size_t distance = far + 1;
    if (far >= 4) {
        more = far / 2 - 1;
        distance = 1 + ((size_t)(2 + far % 2) << more) + bits(s, more);
    }
    s->bad = s->bad || distance > s->at;
    while (length-- && !s->bad)
        put_byte(s, s->out[s->at - distance]);
}

static void fixed_codes(code *literals, code *distances)
{
    uint8_t length[LITERALS];
    memset(length, 8, 144);
    memset(length + 144, 9, 112);
    memset(length + 256, 7, 24);
    memset(length + 280, 8, 8);
    make_code(literals, length, LITERALS);
    memset(length, 5, DISTANCES);
    make_code(distances, length, DISTANCES);
}

/* Reads the codes of a dynamic Huffman block. The code lengths of literals and of distances form
 * one sequence, which is itself compressed with a third Huffman code. */
static void own_codes(stream *s, code *literals, code *distances)
{
    static const uint8_t order[LENGTHS] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                           11, 4,  12, 3, 13, 2, 14, 1, 15};
    uint8_t length[LITERALS + DISTANCES] = {0}, first[LENGTHS] = {0};
    const uint32_t of_literals = bits(s, 5) + 257, of_distances = bits(s, 5) + 1;
    const uint32_t of_lengths = bits(s, 4) + 4, total = of_literals + of_distances;
    for (uint32_t i = 0; i < of_lengths; i++)
        first[order[i]] = (uint8_t)bits(s, 3);
    make_code(literals, first, LENGTHS);
    for (uint32_t i = 0; i < total && !s->bad;) {
        const uint32_t symbol = decode(s, literals);
        uint32_t times = 1;
        uint8_t value = (uint8_t)symbol;
        if (symbol >= 16) {
            value = symbol == 16 && i > 0 ? length[i - 1] : 0;
            times = symbol == 16 ? 3 + bits(s, 2) : symbol == 17 ? 3 + bits(s, 3) : 11 + bits(s, 7);
        }
        s->bad = s->bad || times > total - i;
        while (times-- && !s->bad)
            length[i++] = value;
    }
    if (s->bad || of_literals > LITERALS) {
        s->bad = true;
        return;
    }
    make_code(literals, length, of_literals);
    make_code(distances, length + of_literals, of_distances);
}

static void block(stream *s, uint32_t kind)
{
    code literals, distances;
    if (kind == 1)
        fixed_codes(&literals, &distances);
    else
        own_codes(s, &literals, &distances);
    for (uint32_t symbol = 0; !s->bad && symbol != END;) {
        symbol = decode(s, &literals);
        if (symbol < END)
            put_byte(s, (uint8_t)symbol);
        else if (symbol > END)
            repeat(s, symbol, &distances);
    }
}

/* As it is, from the next byte on. */
static void plain(stream *s)
{
    s->bits = s->count = 0;
    const uint32_t n = bits(s, 16);
    s->bad = s->bad || bits(s, 16) != (n ^ 0xffff);
    for (uint32_t i = 0; i < n && !s->bad; i++)
        put_byte(s, (uint8_t)bits(s, 8));
}

static bool inflate(stream *s)
{
    for (bool last = false; !last && !s->bad;) {
        last = bits(s, 1);
        const uint32_t kind = bits(s, 2);
        if (kind == 0)
            plain(s);
        else if (kind == 3)
            s->bad = true;
        else
            block(s, kind);
    }
    return !s->bad && s->at == s->size;
}

/* ---- registers ---- */

/* The last register of each class that was named as the first, second, ... of a line. */
enum { CLASSES = 16, LETTERS = 8, PLACES = 8 };
typedef struct registers {
    char name[CLASSES][LETTERS];
    uint32_t last[CLASSES][PLACES];
} registers;

/* Of the class whose name begins at `name`; NULL: there are too many, or it is too long. */
static uint32_t *last_of(registers *r, const char *name, size_t letters, uint32_t place)
{
    int i = 0;
    if (letters >= LETTERS)
        return NULL;
    while (i < CLASSES && r->name[i][0] &&
           (strncmp(r->name[i], name, letters) != 0 || r->name[i][letters]))
        i++;
    if (i == CLASSES)
        return NULL;
    memcpy(r->name[i], name, letters);
    return &r->last[i][place < PLACES ? place : PLACES - 1];
}

/* Writes the text with registers' own numbers, `size` bytes and a zero; whether it is as long. */
static bool restore(char *out, size_t size, const char *in)
{
    registers r = {.name = {{0}}};
    size_t at = 0;
    for (uint32_t place = 0; *in; place = *in == '\n' ? 0 : place) {
        if (at == size)
            return false;
        const bool named = *in == '%';
        out[at++] = *in++;
        const size_t letters = named ? strspn(in, "abcdefghijklmnopqrstuvwxyz") : 0;
        if (!letters || !strchr("-0123456789", in[letters]) || !in[letters])
            continue;
        uint32_t *last = last_of(&r, in, letters, place++);
        if (!last)
            return false;
        char *end;
        *last += (uint32_t)strtol(in + letters, &end, 10);
        const int n = snprintf(out + at, size - at + 1, "%.*s%u", (int)letters, in, *last);
        if (n < 0 || (size_t)n > size - at)
            return false;
        at += (size_t)n;
        in = end;
    }
    return at == size;
}

static uint32_t adler32(const char *text)
{
    uint32_t a = 1, b = 0;
    for (; *text; text++) {
        a = (a + (uint8_t)*text) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

fovea_status fv_cuda_ptx_text(char **out, const fv_cuda_ptx *e)
{
    stream s = {.in = e->packed, .left = e->packed_size, .size = e->near_size};
    FV_TRY(fv_mem_alloc(&s.out, e->near_size + (size_t)1, FV_MEM_DEVICE, "a program's PTX"));
    fovea_status status = fv_mem_alloc(out, e->size + (size_t)1, FV_MEM_DEVICE, "a program's PTX");
    if (status == FOVEA_OK) {
        s.out[s.size] = (*out)[e->size] = 0;
        if (!inflate(&s) || !restore(*out, e->size, (const char *)s.out) ||
            adler32(*out) != e->sum) {
            fv_mem_free(*out);
            *out = NULL;
            status = fv_fail(FOVEA_EFORMAT,
                             "the library's PTX of %s is damaged; rebuild the library", e->program);
        }
    }
    fv_mem_free(s.out);
    return status;
}
