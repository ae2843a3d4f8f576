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
    if (o->heads == 0 || o->heads > 4096)
        return fv_fail(FOVEA_EINVAL, "heads is %u; it must be from 1 to 4096", o->heads);
    if (o->head_dim == 0 || o->value_dim == 0 || widest * o->heads > 1u << 20)
        return fv_fail(FOVEA_EINVAL,
                       "head_dim is %u and value_dim is %u; both must be at least 1, and %u heads "
                       "must have at most 2^20 channels in all",
                       o->head_dim, o->value_dim, o->heads);
    if (keys > MAX_TOKENS)
        return fv_fail(FOVEA_EINVAL, "the attention has %u keys; at most 2^28 are supported", keys);
    if (name->mech == FV_MECH_ANY)
        return FOVEA_OK;
    const uint64_t state =
        o->heads * (uint64_t)fv_lattn_layout(t->blocks, t->wants, o->head_dim, o->value_dim).floats;
    if (state > FV_STATE_MOST)
        return fv_fail(FOVEA_EINVAL,
                       "attention with %u heads and dims %u and %u has states of %llu values; at "
                       "most 2^30 are supported: use smaller heads",
                       o->heads, o->head_dim, o->value_dim, (unsigned long long)state);
    if (o->value_dim % t->streams)
        return fv_fail(FOVEA_EINVAL,
                       "%s: the value dim is %u, but values are split into %u equal parts; use a "
                       "multiple of %u",
                       t->title, o->value_dim, t->streams, t->streams);
    return FOVEA_OK;
}

static fovea_status check_numbers(const fovea_attention_options *o, const fv_attention_name *name)
{
    const fv_mech_traits *t = fv_mech_table[name->mech];
    const bool divides = !o->causal || name->kind == FV_ATTENTION_LINEAR;
    if (!isfinite(o->scale))
        return fv_fail(FOVEA_EINVAL, "scale is %g; it must be finite", o->scale);
    if (!isfinite(o->eps) || o->eps < 0)
        return fv_fail(FOVEA_EINVAL, "eps is %g; it must be finite and at least 0", o->eps);
    if (!isfinite(o->alpha) || o->alpha < 0)
        return fv_fail(FOVEA_EINVAL, "alpha is %g; it must be finite and at least 0", o->alpha);
    if (o->causal && t->alpha > 0 && o->alpha > 0 && o->alpha != (double)t->alpha)
        return fv_fail(FOVEA_ENOTSUP,
                       "causal %s has the fixed constant alpha %g; set alpha to 0, not %g",
                       t->title, (double)t->alpha, o->alpha);
    if ((o->map_q || o->map_k) && fv_attention_map(name) != FV_MECH_HEDGEHOG)
        return fv_fail(FOVEA_EINVAL, "%s has no learned feature map; set map_q and map_k to NULL",
                       t->title);
    if ((o->channel_scale && t->params < 1) || (o->power && t->params < 2))
        return fv_fail(FOVEA_EINVAL, "%s has no learned %s; set it to NULL", t->title,
                       o->power ? "power" : "channel_scale");
    if (name->mech == FV_MECH_ANY || (t->wants & FV_WANT_CENTRED)) {
        if (!o->normalise)
            return fv_fail(FOVEA_EINVAL, "%s always divides by its normaliser; set `normalise`",
                           t->title);
        return FOVEA_OK;
    }
    if (divides && o->normalise && (t->wants & FV_WANT_SIGNED))
        return fv_fail(
            FOVEA_EINVAL,
            "%s cannot normalise, because its features may be negative; set `normalise` to 0",
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
            "the state of softmax attention has a capacity of %u tokens and %llu values; set "
            "`keys` to the maximum number of tokens, from 1 to 2^24, with at most 2^30 values",
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
                       "causal attention has %u queries and %u keys; set `keys` to the number of "
                       "queries or to 0",
                       o->rows, o->keys);
    FV_TRY(fv_known("form", (int)o->form, FOVEA_FORM_CHUNK));
    if (o->rope_cos || o->rope_sin || o->rope_width || o->rope_height)
        return fv_fail(FOVEA_EINVAL, "RoPE is only for bidirectional attention; set rope_cos, "
                                     "rope_sin, rope_width and rope_height to 0");
    if (o->local_size)
        return fv_fail(
            FOVEA_EINVAL,
            "the convolution of v is only for bidirectional attention; set local_size to 0");
    if (o->log_decay && name->kind != FV_ATTENTION_RETENTION)
        return fv_fail(FOVEA_EINVAL, "log_decay is only for retention; set it to NULL");
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
                       "RoPE cannot be used with %s, whose features are shifted; set `normalise` "
                       "to 0 or use linear:elu1",
                       t->title);
    if (o->keys && o->keys != o->rows)
        return fv_fail(
            FOVEA_EINVAL,
            "RoPE has %u queries and %u keys; set `keys` to the number of queries or to 0", o->rows,
            o->keys);
    if (tables && (!o->rope_cos || !o->rope_sin || grid))
        return fv_fail(FOVEA_EINVAL,
                       "RoPE needs either rope_cos and rope_sin, or rope_width and rope_height");
    if (grid && (uint64_t)o->rope_width * o->rope_height != o->rows)
        return fv_fail(FOVEA_EINVAL,
                       "RoPE has a grid of %u x %u, but %u tokens; their numbers must be equal",
                       o->rope_width, o->rope_height, o->rows);
    if (o->head_dim % (grid ? 4 : 2))
        return fv_fail(FOVEA_EINVAL, "RoPE needs a head dim that is a multiple of %d, not %u",
                       grid ? 4 : 2, o->head_dim);
    return FOVEA_OK;
}

static fovea_status check_local(const fovea_attention_options *o)
{
    if (o->local_size == 0)
        return o->local_weight
                   ? fv_fail(FOVEA_EINVAL,
                             "local_weight is set, but local_size is 0; set both or neither")
                   : FOVEA_OK;
    if (o->local_size % 2 == 0 || o->local_size > FV_DWCONV_LARGEST)
        return fv_fail(FOVEA_ENOTSUP, "local_size is %u; it must be odd and from 1 to %u",
                       o->local_size, FV_DWCONV_LARGEST);
    if (!o->local_weight)
        return fv_fail(FOVEA_EINVAL,
                       "local_size is set, but local_weight is NULL; set both or neither");
    if ((uint64_t)o->grid_width * o->grid_height != o->rows)
        return fv_fail(FOVEA_EINVAL,
                       "the convolution of v has a grid of %u x %u, but %u tokens; set grid_width "
                       "and grid_height",
                       o->grid_width, o->grid_height, o->rows);
    if (o->keys && o->keys != o->rows)
        return fv_fail(FOVEA_EINVAL,
                       "the convolution of v has %u queries and %u keys; set `keys` to the number "
                       "of queries or to 0",
                       o->rows, o->keys);
    return FOVEA_OK;
}

static fovea_status check_bidirectional(const fovea_attention_options *o,
                                        const fv_attention_name *name)
{
    if (o->l2norm || o->form != FOVEA_FORM_AUTO || o->log_decay)
        return fv_fail(FOVEA_EINVAL,
                       "%s is only for causal attention; set `causal`, or leave the option unset",
                       o->l2norm      ? "l2norm"
                       : o->log_decay ? "log_decay"
                                      : "form");
    FV_TRY(check_rope(o, name));
    return check_local(o);
}

static fovea_status check_gates(const fovea_attention_options *o, const fv_attention_name *name)
{
    const bool weights = o->gate_q || o->gate_k, made = o->gates >= FOVEA_GATES_X_DENSE;
    if ((unsigned)o->gates > FOVEA_GATES_Q_BLOCKDIAG)
        return fv_fail(FOVEA_EINVAL, "gates %d is unknown; choose a value of fovea_gates",
                       (int)o->gates);
    if (!name->gated) {
        char text[64];
        if (weights || o->gates != FOVEA_GATES_READY)
            return fv_fail(FOVEA_EINVAL,
                           "gates are given, but attention \"%s\" has none; use a gated attention, "
                           "such as sla-linear",
                           fv_attention_text(name, text));
        return FOVEA_OK;
    }
    if (made ? !o->gate_q || !o->gate_k : weights)
        return fv_fail(FOVEA_EINVAL,
                       made ? "gates computed from x or q need gate_q and gate_k; set both"
                            : "gates given as inputs need no gate_q and gate_k; set both to NULL");
    if (o->gates != FOVEA_GATES_X_DENSE)
        return FOVEA_OK;
    if (o->gate_width == 0 || o->gate_width > 1u << 20)
        return fv_fail(FOVEA_EINVAL,
                       "gate_width is %u; it must be from 1 to 2^20 for gates computed from x",
                       o->gate_width);
    if (o->keys && o->keys != o->rows)
        return fv_fail(FOVEA_EINVAL,
                       "gates are computed from x, which has one row per token, but there are %u "
                       "queries and %u keys; set `keys` to the number of queries or to 0",
                       o->rows, o->keys);
    return FOVEA_OK;
}

static fovea_status check_tail(const fovea_attention_options *o)
{
    if (o->norm_bias && !o->norm_weight)
        return fv_fail(FOVEA_EINVAL,
                       "norm_bias is set, but norm_weight is NULL; set both or only norm_weight");
    if (!isfinite(o->norm_eps) || o->norm_eps < 0)
        return fv_fail(FOVEA_EINVAL, "norm_eps is %g; it must be at least 0", o->norm_eps);
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
