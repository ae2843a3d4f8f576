/* attention.c: parses and writes the names that users give attentions. */
#include "graph/attention.h"

#include <stdio.h>
#include <string.h>

#include <fovea/models.h>

#include "base/num.h"
#include "ops/mech_traits.h"

static const char gates[] = "sla-", linear[] = "linear:", foveated[] = "foveated";

enum {
    MARGIN = 4,
    MARGIN_MOST = 64
}; /* margin of foveated attention in tokens: default and maximum */

/* Backbones that accept any feature map, each with the name of its default. */
static const struct {
    const char *name, *map;
    enum fv_attention_kind kind;
} backbones[] = {
    {"linear", "elu1", FV_ATTENTION_LINEAR},
    {"retention", "identity", FV_ATTENTION_RETENTION},
    {"gla", "identity", FV_ATTENTION_GLA},
    {"delta-rule", "identity", FV_ATTENTION_DELTA},
    {"gated-delta-rule", "identity", FV_ATTENTION_GATED_DELTA},
};
#define BACKBONES (sizeof backbones / sizeof *backbones)

/* Returns whether the first n characters of `text` are `name`. */
static bool same(const char *text, size_t n, const char *name)
{
    return strlen(name) == n && strncmp(text, name, n) == 0;
}

/* Returns the mechanism whose title is the first n characters of `base`, or these characters
 * followed by ":map". */
static uint32_t by_title(const char *base, size_t n, const char *map)
{
    for (uint32_t m = FV_MECH_ANY + 1; m < FV_MECH_COUNT; m++) {
        const char *title = fv_mech_table[m]->title, *colon = strchr(title, ':');
        const size_t own = colon ? (size_t)(colon - title) : strlen(title);
        if (own == n && strncmp(title, base, n) == 0 && !colon == !map &&
            (!map || strcmp(colon + 1, map) == 0))
            return m;
    }
    return FV_MECH_ANY;
}

/* Returns the mechanism whose features a backbone with map `map` uses. */
static uint32_t by_map(const char *map)
{
    uint32_t mech = by_title("linear", strlen("linear"), map);
    if (mech == FV_MECH_ANY)
        mech = by_title(map, strlen(map), NULL);
    return fv_mech_table[mech]->causal ? mech : FV_MECH_ANY;
}

static fovea_status unknown(const char *text)
{
    char all[320] = "";
    size_t at = 0;
    for (uint32_t m = FV_MECH_ANY; m < FV_MECH_COUNT && at < sizeof all; m++)
        at += (size_t)snprintf(all + at, sizeof all - at, "%s, ", fv_mech_table[m]->title);
    return fv_fail(
        FOVEA_ENOTSUP,
        "attention '%.40s' is not supported; choose %smala-paper, foveated or foveated:N with a "
        "margin of N = 1 to 64 tokens; for causal attention also retention, gla, delta-rule or "
        "gated-delta-rule; all but softmax and foveated may have the prefix sla-",
        text, all);
}

const char *fovea_model_attention(size_t index)
{
    for (uint32_t m = FV_MECH_ANY; m < FV_MECH_COUNT; m++)
        if (!(fv_mech_table[m]->wants & FV_WANT_SIGNED) && index-- == 0)
            return fv_mech_table[m]->title;
    return index == 0 ? "mala-paper" : index == 1 ? foveated : NULL;
}

/* Parses "foveated" or "foveated:4". Returns false if `text` is neither. */
static bool parse_foveated(fv_attention_name *out, const char *text)
{
    const char *p = text + strlen(foveated);
    uint32_t margin = 0;
    if (!fv_begins_with(text, foveated))
        return false;
    *out = (fv_attention_name){.kind = FV_ATTENTION_FOVEATED, .margin = MARGIN};
    if (!*p)
        return true;
    if (*p++ != ':')
        return false;
    for (; *p >= '0' && *p <= '9' && margin <= MARGIN_MOST; p++)
        margin = 10 * margin + (uint32_t)(*p - '0');
    out->margin = margin;
    return !*p && margin >= 1 && margin <= MARGIN_MOST;
}

fovea_status fv_attention_parse(fv_attention_name *out, const char *text)
{
    fv_attention_name name = {.kind = FV_ATTENTION_MECHANISM, .gated = fv_begins_with(text, gates)};
    const char *base = name.gated ? text + strlen(gates) : text, *map = strchr(base, ':');
    const size_t n = strcspn(base, ":");
    if (map)
        map = strcmp(map, ":elu+1") == 0 ? "elu1" : map + 1;
    if (strcmp(text, "softmax") == 0) {
        *out = (fv_attention_name){.kind = FV_ATTENTION_SOFTMAX};
        return FOVEA_OK;
    }
    if (parse_foveated(out, text))
        return FOVEA_OK;
    for (size_t i = 0; i < BACKBONES; i++) {
        if (!same(base, n, backbones[i].name))
            continue;
        name.kind = backbones[i].kind;
        name.mech = by_map(map ? map : backbones[i].map);
    }
    if (name.kind == FV_ATTENTION_MECHANISM) {
        const bool paper = same(base, n, "mala-paper"), mala = same(base, n, "mala");
        if ((paper || mala) && map && strcmp(map, "elu1") == 0)
            map = NULL; /* the default map is not part of a title */
        if (paper)
            name.kind = FV_ATTENTION_MALA_PAPER;
        name.mech = paper ? by_title("mala", strlen("mala"), map) : by_title(base, n, map);
    }
    if (name.mech == FV_MECH_ANY)
        return unknown(text);
    *out = name;
    return FOVEA_OK;
}

/* Returns the map of a centred mechanism: the part of its title after the colon, or the default. */
static const char *map_of_title(const char *title)
{
    const char *colon = strchr(title, ':');
    return colon ? colon + 1 : "elu1";
}

const char *fv_attention_text(const fv_attention_name *name, char buf[64])
{
    const char *title = fv_mech_table[name->mech]->title, *base = "", *map = title;
    if (name->kind == FV_ATTENTION_FOVEATED) {
        snprintf(buf, 64, name->margin == MARGIN ? "%s" : "%s:%u", foveated, name->margin);
        return buf;
    }
    if (fv_begins_with(title, linear))
        map += strlen(linear);
    for (size_t i = 0; i < BACKBONES; i++)
        if (backbones[i].kind == name->kind)
            base = backbones[i].name;
    if (name->kind == FV_ATTENTION_MALA_PAPER) {
        base = "mala-paper";
        map = map_of_title(title);
    }
    snprintf(buf, 64, "%s%s%s%s", name->gated ? gates : "", base, *base ? ":" : "",
             *base ? map : title);
    return buf;
}

uint32_t fv_attention_map(const fv_attention_name *name)
{
    const fv_mech_traits *t = fv_mech_table[name->mech];
    return t->wants & FV_WANT_CENTRED ? by_map(map_of_title(t->title)) : name->mech;
}

fovea_status fv_attention_check(const fv_attention_name *name, bool causal)
{
    char text[64];
    const fv_mech_traits *t = fv_mech_table[name->mech];
    fv_attention_text(name, text);
    if (causal && (name->kind == FV_ATTENTION_FOVEATED ||
                   (name->kind == FV_ATTENTION_MECHANISM && !(t->wants & FV_WANT_CENTRED))))
        return fv_fail(
            FOVEA_ENOTSUP,
            "causal %s attention is not supported; use softmax, linear, mala, retention, gla or a "
            "delta rule (linear and the rules also with the feature map of nala)",
            text);
    if (name->kind == FV_ATTENTION_GLA && t->blocks > 1)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: the feature map gives %u features for each channel that decays; use a "
                       "map with one feature per channel, or retention",
                       text, t->blocks);
    if (!causal && name->kind >= FV_ATTENTION_RETENTION)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s attention is only for causal operations, but models attend to all "
                       "tokens; use linear",
                       text);
    if (!causal && name->kind == FV_ATTENTION_LINEAR && !fv_begins_with(t->title, linear))
        return fv_fail(FOVEA_ENOTSUP,
                       "%s attention is only causal; for attention to all tokens use %s", text,
                       t->title);
    return FOVEA_OK;
}
