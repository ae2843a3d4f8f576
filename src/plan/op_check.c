/* op_check.c: checks that the options of an attention are consistent. */
#include <math.h>

#include "graph/emit.h"
#include "ops/mech_traits.h"
#include "plan/op_plan.h"

#define MAX_TOKENS (1u << 28)

static fovea_status check_shape(const fovea_attention_options *o, const fv_attention_name *name)
{
    const fv_mech_traits *t = fv_mech_table[name->mech];
    const uint32_t keys = o->keys ? o->keys : o->rows;
    const uint64_t widest = o->head_dim > o->value_dim ? o->head_dim : o->value_dim;
    if (o->heads == 0 || o->head_dim == 0 || o->value_dim == 0 || o->heads > 4096 ||
        widest * o->heads > 1u << 20 || keys > MAX_TOKENS)
        return fv_fail(FOVEA_EINVAL,
                       "attention of %u heads, dims %u and %u, %u keys: each must be at least 1, "
                       "heads at most 4096, channels at most 2^20, keys at most 2^28",
                       o->heads, o->head_dim, o->value_dim, keys);
    if (name->mech == FV_MECH_ANY)
        return FOVEA_OK;
    const uint64_t state =
        o->heads * (uint64_t)fv_lattn_layout(t->blocks, t->wants, o->head_dim, o->value_dim).floats;
    if (state > FV_STATE_MOST)
        return fv_fail(
            FOVEA_EINVAL,
            "attention of %u heads, dims %u and %u: its states have %llu values, at most "
            "2^30 are supported; use smaller heads",
            o->heads, o->head_dim, o->value_dim, (unsigned long long)state);
    if (o->value_dim % t->streams)
        return fv_fail(FOVEA_EINVAL,
                       "%s with value dim %u: its values are cut into %u equal parts; use a "
                       "multiple of %u",
                       t->title, o->value_dim, t->streams, t->streams);
    return FOVEA_OK;
}

static fovea_status check_numbers(const fovea_attention_options *o, const fv_attention_name *name)
{
    const fv_mech_traits *t = fv_mech_table[name->mech];
    const bool divides = !o->causal || name->kind == FV_ATTENTION_LINEAR;
    if (!isfinite(o->scale) || !isfinite(o->eps) || o->eps < 0 || !isfinite(o->alpha) ||
        o->alpha < 0)
        return fv_fail(FOVEA_EINVAL,
                       "scale %g, eps %g, alpha %g: each must be finite, the last two at least 0",
                       o->scale, o->eps, o->alpha);
    if (o->causal && t->alpha > 0 && o->alpha > 0 && o->alpha != (double)t->alpha)
        return fv_fail(FOVEA_ENOTSUP, "causal %s with a constant of %g; it has %g, leave alpha 0",
                       t->title, o->alpha, (double)t->alpha);
    if ((o->map_q || o->map_k) && fv_attention_map(name) != FV_MECH_HEDGEHOG)
        return fv_fail(FOVEA_EINVAL, "%s has no learned map; leave map_q and map_k NULL", t->title);
    if ((o->channel_scale && t->params < 1) || (o->power && t->params < 2))
        return fv_fail(FOVEA_EINVAL, "%s has no learned %s; leave it NULL", t->title,
                       o->power ? "power" : "channel_scale");
    if (name->mech == FV_MECH_ANY || (t->wants & FV_WANT_CENTRED)) {
        if (!o->normalise)
            return fv_fail(FOVEA_EINVAL, "%s has no form without its divisor; set `normalise`",
                           t->title);
        return FOVEA_OK;
    }
    if (divides && o->normalise && (t->wants & FV_WANT_SIGNED))
        return fv_fail(FOVEA_EINVAL,
                       "the features of %s may be negative, there is nothing to divide by; set "
                       "`normalise` to 0",
                       t->title);
    return FOVEA_OK;
}

/* Checks the capacity of a cache. */
static fovea_status check_cache(const fovea_attention_options *o)
{
    const uint64_t floats = (uint64_t)o->keys * o->heads * ((uint64_t)o->head_dim + o->value_dim);
    if (o->keys == 0 || o->keys > FV_CACHE_TOKENS_MOST || floats > FV_STATE_MOST)
        return fv_fail(
            FOVEA_EINVAL,
            "a state of softmax attention with a capacity of %u tokens, %llu values; set "
            "`keys` to the most tokens of a sequence, 1 to 2^24, at most 2^30 values",
            o->keys, (unsigned long long)floats);
    return FOVEA_OK;
}

static fovea_status check_causal(const fovea_attention_options *o, const fv_attention_name *name,
                                 bool cached)
{
    if (cached)
        FV_TRY(check_cache(o));
    else if (o->keys && o->keys != o->rows)
        return fv_fail(FOVEA_EINVAL,
                       "causal attention of %u queries and %u keys; give as many of "
                       "both, or 0 keys",
                       o->rows, o->keys);
    FV_TRY(fv_known("form", (int)o->form, FOVEA_FORM_CHUNK));
    if (o->rope_cos || o->rope_sin || o->rope_width || o->rope_height)
        return fv_fail(FOVEA_EINVAL,
                       "RoPE is for bidirectional attention; leave rope_cos, rope_sin and "
                       "the grid out");
    if (o->local_size)
        return fv_fail(FOVEA_EINVAL, "the convolution of v is for bidirectional attention; set "
                                     "local_size to 0");
    if (o->log_decay && name->kind != FV_ATTENTION_RETENTION)
        return fv_fail(FOVEA_EINVAL, "log_decay is retention's; leave it NULL");
    for (uint32_t h = 0; o->log_decay && h < o->heads; h++)
        if (!(o->log_decay[h] <= 0))
            return fv_fail(FOVEA_EINVAL, "log_decay of head %u is %g; it must be at most 0", h,
                           (double)o->log_decay[h]);
    return FOVEA_OK;
}

static fovea_status check_rope(const fovea_attention_options *o, const fv_attention_name *name)
{
    const bool tables = o->rope_cos || o->rope_sin, grid = o->rope_width || o->rope_height;
    const fv_mech_traits *t = fv_mech_table[name->mech];
    if (!tables && !grid)
        return FOVEA_OK;
    if (name->mech == FV_MECH_ANY)
        return fv_fail(
            FOVEA_ENOTSUP,
            "RoPE is not supported with softmax attention; rotate q and k before the call");
    if ((t->wants & FV_WANT_SHIFT) && o->normalise)
        return fv_fail(FOVEA_ENOTSUP,
                       "RoPE with %s: its features are shifted, which rotation does not allow; "
                       "set `normalise` to 0 or use linear:elu1",
                       t->title);
    if (o->keys && o->keys != o->rows)
        return fv_fail(FOVEA_EINVAL, "RoPE with %u queries and %u keys; give as many of both",
                       o->rows, o->keys);
    if (tables && (!o->rope_cos || !o->rope_sin || grid))
        return fv_fail(FOVEA_EINVAL, "RoPE needs rope_cos and rope_sin, or a grid");
    if (grid && (uint64_t)o->rope_width * o->rope_height != o->rows)
        return fv_fail(FOVEA_EINVAL, "RoPE on a grid of %u x %u for %u tokens", o->rope_width,
                       o->rope_height, o->rows);
    if (o->head_dim % (grid ? 4 : 2))
        return fv_fail(FOVEA_EINVAL, "RoPE needs a head dim that is a multiple of %d, got %u",
                       grid ? 4 : 2, o->head_dim);
    return FOVEA_OK;
}

static fovea_status check_local(const fovea_attention_options *o)
{
    if (o->local_size == 0)
        return o->local_weight ? fv_fail(FOVEA_EINVAL, "local_weight without local_size; set it")
                               : FOVEA_OK;
    if (o->local_size % 2 == 0 || o->local_size > FV_DWCONV_LARGEST)
        return fv_fail(FOVEA_ENOTSUP, "local_size %u; odd sizes of 1 to %u are supported",
                       o->local_size, FV_DWCONV_LARGEST);
    if (!o->local_weight)
        return fv_fail(FOVEA_EINVAL, "local_size without local_weight; give both");
    if ((uint64_t)o->grid_width * o->grid_height != o->rows)
        return fv_fail(FOVEA_EINVAL,
                       "a convolution of v on a grid of %u x %u for %u tokens; set grid_width and "
                       "grid_height",
                       o->grid_width, o->grid_height, o->rows);
    if (o->keys && o->keys != o->rows)
        return fv_fail(FOVEA_EINVAL,
                       "the convolution of v with %u queries and %u keys; give as many of both",
                       o->rows, o->keys);
    return FOVEA_OK;
}

static fovea_status check_bidirectional(const fovea_attention_options *o,
                                        const fv_attention_name *name)
{
    if (o->l2norm || o->form != FOVEA_FORM_AUTO || o->log_decay)
        return fv_fail(FOVEA_EINVAL, "%s is for causal attention; set `causal` or leave it out",
                       o->l2norm      ? "l2norm"
                       : o->log_decay ? "log_decay"
                                      : "a form");
    FV_TRY(check_rope(o, name));
    return check_local(o);
}

static fovea_status check_gates(const fovea_attention_options *o, const fv_attention_name *name)
{
    const bool weights = o->gate_q || o->gate_k, made = o->gates >= FOVEA_GATES_X_DENSE;
    if ((unsigned)o->gates > FOVEA_GATES_Q_BLOCKDIAG)
        return fv_fail(FOVEA_EINVAL, "gates %d are unknown", (int)o->gates);
    if (!name->gated) {
        char text[64];
        if (weights || o->gates != FOVEA_GATES_READY)
            return fv_fail(
                FOVEA_EINVAL,
                "gates given, but attention \"%s\" has none; use a gated one, such as sla-linear",
                fv_attention_text(name, text));
        return FOVEA_OK;
    }
    if (made ? !o->gate_q || !o->gate_k : weights)
        return fv_fail(FOVEA_EINVAL,
                       made ? "gates from x or q need gate_q and gate_k"
                            : "gates given as inputs need no gate_q and gate_k; leave them NULL");
    if (o->gates != FOVEA_GATES_X_DENSE)
        return FOVEA_OK;
    if (o->gate_width == 0 || o->gate_width > 1u << 20)
        return fv_fail(FOVEA_EINVAL, "gates from x of %u channels; gate_width must be 1 to 2^20",
                       o->gate_width);
    if (o->keys && o->keys != o->rows)
        return fv_fail(FOVEA_EINVAL,
                       "gates from x for %u queries and %u keys; x has one row for both", o->rows,
                       o->keys);
    return FOVEA_OK;
}

static fovea_status check_tail(const fovea_attention_options *o)
{
    if (o->norm_bias && !o->norm_weight)
        return fv_fail(FOVEA_EINVAL, "norm_bias without norm_weight; give both");
    if (!isfinite(o->norm_eps) || o->norm_eps < 0)
        return fv_fail(FOVEA_EINVAL, "norm_eps %g; it must be at least 0", o->norm_eps);
    return fv_known("out_gate", (int)o->out_gate, FOVEA_OUT_GATE_SILU);
}

fovea_status fv_op_check(const fovea_attention_options *o, const fv_attention_name *name,
                         bool remembers)
{
    const bool cached = remembers && name->kind == FV_ATTENTION_SOFTMAX;
    if (name->kind == FV_ATTENTION_FOVEATED)
        return fv_fail(FOVEA_ENOTSUP, "foveated attention needs a grid of tokens, which a single "
                                      "operation does not have; use softmax");
    FV_TRY(fv_attention_check(name, o->causal != 0));
    FV_TRY(check_shape(o, name));
    FV_TRY(check_numbers(o, name));
    FV_TRY(o->causal ? check_causal(o, name, cached) : check_bidirectional(o, name));
    FV_TRY(check_gates(o, name));
    return check_tail(o);
}
