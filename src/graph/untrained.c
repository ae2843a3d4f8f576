/* untrained.c: writes the note about an attention that the weights were not trained with. */
#include "graph/untrained.h"

#include <stdio.h>
#include <string.h>

/* Cosine similarity of patch features with those of softmax, as a mean over nine photographs, when
 * this attention runs in all blocks of a trained ViT-S/14 without further training, at 224 and at
 * 518 pixels. `sh bench/untrained.sh` measures the numbers. */
static const struct {
    const char *attention;
    double at_224, at_518;
} measured[] = {
    {"foveated", 0.99, 0.95},
    {"linear:elu1", 0.36, 0.42},
    {"linear:relu", 0.35, 0.42},
    {"linear:exp", 0.37, 0.44},
    {"linear:softplus", 0.36, 0.42},
    {"linear:softmax", 0.35, 0.40},
    {"mala", 0.52, 0.52},
    {"mala:relu", 0.46, 0.49},
    {"mala:exp", 0.04, 0.03},
    {"mala-paper", 0.01, 0.03},
    {"pola", 0.33, 0.37},
    {"nala", 0.40, 0.48},
    {"nala-paper", 0.40, 0.47},
    {"hedgehog", 0.37, 0.44},
    {"focused", 0.35, 0.44},
};

/* Returns the kind to look up. Foveated attention counts as softmax, because it only averages far
 * keys. */
static enum fv_attention_kind kind(const fv_attention_name *a)
{
    return a->kind == FV_ATTENTION_FOVEATED ? FV_ATTENTION_SOFTMAX : a->kind;
}

static bool keeps(const fv_attention_name *trained, const fv_attention_name *run)
{
    return kind(trained) == kind(run) && trained->mech == run->mech &&
           (run->gated || !trained->gated);
}

static bool same(const fv_attention_name *a, const fv_attention_name *b)
{
    return a->kind == b->kind && a->mech == b->mech && a->gated == b->gated;
}

/* Writes the measured cosines for softmax weights; the text is empty if nothing was measured. */
static void figures(char out[160], const fv_attention_name *trained, const fv_attention_name *run)
{
    char text[64];
    fv_attention_name plain = *run;
    plain.gated = false;
    fv_attention_text(&plain, text);
    out[0] = 0;
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++)
        if (kind(trained) == FV_ATTENTION_SOFTMAX && strcmp(measured[i].attention, text) == 0)
            snprintf(
                out, 160,
                " In all blocks of a trained ViT-S/14, this attention gave patch features with a "
                "cosine of %.2f at 224 pixels and %.2f at 518; foveated gave %.2f and %.2f.",
                measured[i].at_224, measured[i].at_518, measured[0].at_224, measured[0].at_518);
}

bool fv_untrained_note(char *line, size_t size, const fv_attention_name *trained,
                       const fv_attention_name *run, uint32_t blocks)
{
    uint32_t changed = 0, first = 0;
    bool mixed = false;
    for (uint32_t i = 0; i < blocks; i++) {
        if (keeps(&trained[i], &run[i]))
            continue;
        if (changed++ == 0)
            first = i;
        mixed |= !same(&run[i], &run[first]) || !same(&trained[i], &trained[first]);
    }
    if (changed == 0)
        return false;
    char own[64], now[64], loss[160], where[40] = "all blocks";
    fv_attention_text(&trained[first], own);
    fv_attention_text(&run[first], now);
    figures(loss, &trained[first], &run[first]);
    if (changed < blocks)
        snprintf(where, sizeof where, "%u of %u blocks", changed, blocks);
    snprintf(
        line, size,
        "%s%s attention runs in %s, whose weights were trained with %s.%s %s If the weights were "
        "trained with this attention, say so in config.json: \"fovea\": {\"attention\": ...}",
        now, mixed ? " and other" : "", where, own, loss,
        kind(&trained[first]) == FV_ATTENTION_SOFTMAX
            ? "`fovea linearise` chooses and trains attentions for such a model."
            : "Leave the option out to use the model's own attention.");
    return true;
}
