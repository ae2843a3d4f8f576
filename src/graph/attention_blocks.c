/* attention_blocks.c: one attention per block: "linear:elu1+softmax@0-3+mala@11". */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "graph/attention.h"
#include "ops/mech_traits.h"

#define NAME 64 /* maximum bytes of a name with its blocks */

/* Returns the end of the piece that begins at `text`: a '+' that is not followed by a digit,
 * because '+' and a digit are part of the map "elu+1". */
static const char *piece_end(const char *text)
{
    const char *end = strchr(text, '+');
    while (end && end[1] >= '0' && end[1] <= '9')
        end = strchr(end + 1, '+');
    return end ? end : text + strlen(text);
}

/* Reads a number of at most six digits; returns false if *text does not begin with one. */
static bool number(uint32_t *out, const char **text)
{
    const char *p = *text;
    uint32_t v = 0;
    while (*p >= '0' && *p <= '9' && p - *text < 6)
        v = 10 * v + (uint32_t)(*p++ - '0');
    if (p == *text)
        return false;
    *out = v;
    *text = p;
    return true;
}

/* Reads "3", "0-3" or "8-" as the blocks first to last. */
static fovea_status range(uint32_t *first, uint32_t *last, const char *piece, const char *text,
                          uint32_t blocks)
{
    bool ok = number(first, &text);
    *last = *first;
    if (ok && *text == '-') {
        text++;
        *last = blocks - 1;
        if (*text)
            ok = number(last, &text);
    }
    if (!ok || *text || (*last < *first && *first < blocks))
        return fv_fail(FOVEA_EINVAL,
                       "attention '%s': blocks must be a number, a range such as 0-3, or 8- for "
                       "all blocks from 8 on",
                       piece);
    if (*first >= blocks || *last >= blocks)
        return fv_fail(FOVEA_EINVAL,
                       "attention '%s': block %u does not exist; the model's blocks are 0 to %u",
                       piece, *first >= blocks ? *first : *last, blocks - 1);
    return FOVEA_OK;
}

static fovea_status set(fv_attention_name *out, const char *text, size_t size, bool base,
                        uint32_t blocks)
{
    char piece[NAME];
    fv_attention_name name;
    uint32_t first = 0, last = blocks - 1;
    snprintf(piece, sizeof piece, "%.*s", (int)(size < NAME ? size : NAME - 1), text);
    char *at = strchr(piece, '@');
    if (base == (at != NULL))
        return fv_fail(
            FOVEA_EINVAL,
            base ? "attention '%s': the first name applies to all blocks and must not list blocks; "
                   "write NAME+%s, where NAME is the attention of the other blocks"
                 : "attention '%s': a name after '+' must list its blocks; write %s@0-3",
            piece, piece);
    if (at) {
        FV_TRY(range(&first, &last, piece, at + 1, blocks));
        *at = 0;
    }
    FV_TRY(fv_attention_parse(&name, piece));
    for (uint32_t i = first; i <= last; i++)
        out[i] = name;
    return FOVEA_OK;
}

fovea_status fv_attention_blocks(fv_attention_name **out, const char *text, uint32_t blocks)
{
    assert(blocks > 0);
    fv_attention_name *name;
    FV_TRY(FV_MEM_ARRAY(&name, blocks, FV_MEM_PLAN, "attentions of the blocks"));
    for (const char *p = text, *end;; p = end + 1) {
        end = piece_end(p);
        const fovea_status status = set(name, p, (size_t)(end - p), p == text, blocks);
        if (status != FOVEA_OK) {
            fv_mem_free(name);
            return status;
        }
        if (!*end)
            break;
    }
    *out = name;
    return FOVEA_OK;
}

/* Refuses causal attentions, because models attend to all tokens, and attentions whose features may
 * be negative, because models divide by a sum of features. */
fovea_status fv_attention_blocks_check(const fv_attention_name *name, uint32_t blocks)
{
    char text[64];
    for (uint32_t i = 0; i < blocks; i++) {
        FV_TRY(fv_attention_check(&name[i], false));
        if (fv_mech_table[name[i].mech]->wants & FV_WANT_SIGNED)
            return fv_fail(FOVEA_ENOTSUP,
                           "attention %s cannot be used in a model, because its features may be "
                           "negative and cannot be normalised; use linear:elu1",
                           fv_attention_text(&name[i], text));
    }
    return FOVEA_OK;
}

fovea_status fv_attention_join(char **out, const char *const *name, uint32_t blocks)
{
    uint32_t base = 0, most = 0;
    size_t size = 1, at;
    for (uint32_t i = 0; i < blocks; i++) {
        uint32_t same = 0;
        for (uint32_t k = i; k < blocks; k++)
            same += strcmp(name[i], name[k]) == 0;
        if (same > most) {
            base = i;
            most = same;
        }
        size += strlen(name[i]) + sizeof "+@000000-000000";
    }
    FV_TRY(fv_mem_alloc(out, size, FV_MEM_MODEL, "attentions of the blocks"));
    at = (size_t)snprintf(*out, size, "%s", name[base]);
    for (uint32_t i = 0, end; i < blocks; i = end) {
        for (end = i + 1; end < blocks && strcmp(name[i], name[end]) == 0;)
            end++;
        if (strcmp(name[i], name[base]) == 0)
            continue;
        at += (size_t)snprintf(*out + at, size - at, "+%s@%u", name[i], i);
        if (end - 1 > i)
            at += (size_t)snprintf(*out + at, size - at, "-%u", end - 1);
    }
    return FOVEA_OK;
}
