/* wrappers.c: recognises the modules and keys around a model by the names of its tensors. */
#include "checkpoint/wrappers.h"

#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

/* Returns whether a component of a dotted name, of n characters, is `word`. */
static bool is_word(const char *at, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(at, word, n) == 0;
}

/* ---- modules that wrap modules ---- */

static bool is_module(const char *at, size_t n)
{
    static const char *const modules[] = {
        "module",                     /* DataParallel, DistributedDataParallel, AveragedModel */
        "_orig_mod",                  /* torch.compile */
        "_fsdp_wrapped_module",       /* FullyShardedDataParallel */
        "_fpw_module",                /* FullyShardedDataParallel before PyTorch 1.12 */
        "_checkpoint_wrapped_module", /* checkpointed activations */
        "_forward_module",            /* Lightning Fabric */
        "_original_module",           /* Lightning Fabric, for a module that a strategy has set
                                         up */
        "_module",                    /* Opacus */
    };
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if (is_word(at, n, modules[i]))
            return true;
    return false;
}

/* Returns the rest of the name after the modules that wrap the whole model. */
static const char *inside(const char *name)
{
    for (const char *dot; (dot = strchr(name, '.')) && is_module(name, (size_t)(dot - name));)
        name = dot + 1;
    return name;
}

fovea_status fv_wrappers_strip(char **out, const char *name)
{
    const char *const begin = inside(name), *at = begin;
    bool found = false;
    *out = NULL;
    for (const char *dot; !found && (dot = strchr(at, '.')); at = dot + 1)
        found = is_module(at, (size_t)(dot - at));
    if (!found)
        return FOVEA_OK;
    FV_TRY(fv_mem_text(out, name, FV_MEM_MODEL));
    char *to = *out + (begin - name);
    at = begin;
    for (const char *dot; (dot = strchr(at, '.')); at = dot + 1) {
        const size_t n = (size_t)(dot - at) + 1;
        if (is_module(at, n - 1))
            continue;
        memcpy(to, at, n);
        to += n;
    }
    memcpy(to, at, strlen(at) + 1);
    return FOVEA_OK;
}

/* ---- where a program saves a model ---- */

static enum fv_keeping keeping(const char *at, size_t n)
{
    static const struct {
        const char *word;
        enum fv_keeping keeping;
    } known[] = {
        {"model", FV_KEPT},
        {"base_model", FV_KEPT},
        {"state_dict", FV_KEPT},
        {"backbone", FV_KEPT},
        {"net", FV_KEPT},
        {"network", FV_KEPT},
        {"encoder", FV_KEPT},
        {"image_encoder", FV_KEPT},
        {"vision_encoder", FV_KEPT},
        {"visual_encoder", FV_KEPT},
        {"image_tower", FV_KEPT},
        {"feature_extractor", FV_KEPT},
        {"model_ema", FV_KEPT_AVERAGE},
        {"ema_model", FV_KEPT_AVERAGE},
        {"ema", FV_KEPT_AVERAGE},
        {"state_dict_ema", FV_KEPT_AVERAGE},
        {"averaged_model", FV_KEPT_AVERAGE},
        {"swa_model", FV_KEPT_AVERAGE},
        {"teacher", FV_KEPT_AVERAGE},
        {"teacher_model", FV_KEPT_AVERAGE},
        {"target_encoder", FV_KEPT_AVERAGE},
        {"target_network", FV_KEPT_AVERAGE},
        {"momentum_encoder", FV_KEPT_AVERAGE},
        {"student", FV_KEPT_RAW},
        {"student_model", FV_KEPT_RAW},
        {"online_model", FV_KEPT_RAW},
        {"online_encoder", FV_KEPT_RAW},
        {"online_network", FV_KEPT_RAW},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (is_word(at, n, known[i].word))
            return known[i].keeping;
    return is_module(at, n) ? FV_KEPT : FV_KEPT_NOWHERE;
}

enum fv_keeping fv_wrappers_keep(const char *name, size_t n)
{
    enum fv_keeping all = FV_KEPT;
    const char *const end = name + n;
    for (const char *at = name; at < end;) {
        const char *dot = memchr(at, '.', (size_t)(end - at));
        const enum fv_keeping own = dot ? keeping(at, (size_t)(dot - at)) : FV_KEPT_NOWHERE;
        if (own == FV_KEPT_NOWHERE)
            return own;
        if (own == FV_KEPT_RAW || all == FV_KEPT) /* "ema.online_model." is not an average */
            all = own;
        at = dot + 1;
    }
    return all;
}
