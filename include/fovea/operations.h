/* operations.h: attention, or a matrix product, as a single operation that is planned like a model,
 * and the state of causal attention. This header is part of fovea.h, whose rules apply here.
 *
 * Rows of q and k have heads * d columns, of which head h owns [h d, (h+1) d). Rows of v and of the
 * output have heads * dv columns. In the equations, phi is a feature map, mean_j is the mean over
 * the keys, and s is `scale`.
 *
 * Bidirectional (`causal` 0), `attention` =
 *   softmax            out_i = sum_j softmax_j(s q_i.k_j) v_j
 *   linear[:MAP]       w_ij = s phi(q_i).phi(k_j);   out_i = sum_j w_ij v_j / (sum_j w_ij + eps)
 *                      MAP: elu1 (ELU + 1, the default), relu, exp, softplus, softmax (over the d
 *                      channels), silu, identity; the last two require `normalise` 0, which
 *                      removes the divisor, and limits exp to e^88. (ViT-AdaLA: elu1)
 *   mala[:MAP]         z_i = s phi(q_i).mean_j phi(k_j)
 *                      out_i = (1 + 1/(z_i + eps)) s mean_j (R phi(q_i)).(R phi(k_j)) v_j
 *                              - z_i mean_j v_j
 *                      MAP: elu1 (default), relu, exp (limited to e^88); R: the rotation, or none
 *                      (official code of MALA, arXiv 2507.00698)
 *   mala-paper[:MAP]   the same with s = keys, eps = 0: equations 8 and 9 of the paper. (eps is the
 *                      smallest float: a row whose features are all 0 gives no 0/0)
 *   pola               q, k <- q, k / softplus(channel_scale);  p = 1 + alpha sigmoid(power)
 *                      x+ = relu(x)^p, x- = relu(-x)^p, K = [k+, k-];  Q = [q+, q-] for the
 *                      first half of each head's value channels, Q = [q-, q+] for the second
 *                      out_i = Q_i mean_j K_j^T v_j / (Q_i.mean_j K_j + eps)
 *                      (PolaFormer, arXiv 2501.15061); alpha 4, dv even
 *   nala               n = |q_i|;  p = l (1/2 + tanh n);  Q = [relu(q/n)^p, relu(-q/n)^p]
 *                      K = [relu(k)^l, relu(-k)^l];  R as for mala, for each half on its own
 *                      out_i = R Q_i mean_j (R K_j)^T v_j / (Q_i.mean_j K_j + eps)
 *                      (official code of NaLaFormer); l, its lambda, is `alpha`, 3 unless given;
 *                      a zero query gives 0, not 0/0
 *   nala-paper         Q = |q/n|^p [cos f(q/n), sin f(q/n)];  f(x) = pi/4 tanh x
 *                      K = |k|^l [cos f(k/|k|), sin f(k/|k|)]; out_i as for nala
 *                      (arXiv 2506.21137); a zero query gives 0
 *   hedgehog           phi(x) = softmax of [W x, -W x] over the 2 d channels, W of each head:
 *                      `map_q`, `map_k`, or the unit matrix; out_i as for linear, eps to the mean
 *                      (Hedgehog, arXiv 2402.04347)
 *   focused            y = (relu(x) + 1e-6) / softplus(channel_scale);  phi(x) = y^3 |y| / |y^3|,
 *                      norms over the channels of all heads; out_i as for linear, eps to the mean
 *                      (FLatten, arXiv 2308.00442)
 *   sla-NAME           any of these but softmax with the gates of SLA (arXiv 2602.01744):
 *                      phi(k_j) <- G^K_j phi(k_j);  out_i <- G^Q_i out_i
 *
 * `eps` is added to a sum for linear, and to a mean for the other mechanisms. `normalise` 0 is
 * supported for linear, pola and nala. Mechanisms whose equations have no s ignore `scale`.
 *
 * Causal (`causal` 1; keys == rows): S (d' x dv) is the state, and Z (d') its denominator. A
 * fovea_state stores both, or means instead for mala. `attention` =
 *   softmax            out_i = sum_{j<=i} softmax_j(s q_i.k_j) v_j; the state: keys and values
 *   linear[:MAP]       S_t = S_{t-1} + phi(k_t)^T v_t;  Z_t = Z_{t-1} + phi(k_t)
 *                      out_t = s phi(q_t) S_t, with normalise over s phi(q_t).Z_t + eps
 *   mala[:MAP]         z_t = s phi(q_t).mean_{j<=t} phi(k_j)
 *                      out_t = (1 + 1/(z_t + eps)) s phi(q_t) mean_{j<=t} phi(k_j)^T v_j
 *                              - z_t mean_{j<=t} v_j
 *                      MAP: elu1 (default), relu, exp (limited to e^88). The last token attends as
 *                      without `causal`. The state: number of tokens, means of phi(k) and
 *                      of v, and their covariance, which stay accurate over any number of
 *                      tokens. The number stops at 2^24; after that, old tokens fade
 *   mala-paper[:MAP]   the same with s = t, eps = 0 (the smallest float)
 *   retention[:MAP]    S_t = e^{a_h} S_{t-1} + phi(k_t)^T v_t;  out_t = s phi(q_t) S_t
 *                      a_h = log_decay[h], NULL: ln(1 - 2^(-5-h)) (RetNet)
 *   gla[:MAP]          S_t = diag(e^{a_t}) S_{t-1} + phi(k_t)^T v_t;  out_t as for retention
 *                      input a (rows x heads*d), at most 0 (GLA)
 *   delta-rule[:MAP]   u_t = beta_t (v_t - phi(k_t) S_{t-1});  S_t = S_{t-1} + phi(k_t)^T u_t
 *                      input beta (rows x heads) (DeltaNet)
 *   gated-delta-rule[:MAP]  the same with e^{g_t} S_{t-1} in place of S_{t-1}; inputs g, beta
 *                      (rows x heads)
 *   sla-NAME           phi(q) times G^Q, phi(k) times G^K; for the delta rules v times G^K instead;
 *                      with normalise out_t times G^Q instead
 *
 * `eps` applies to linear and mala, and `normalise` 0 only to linear; the others have no divisor.
 *
 * Except for mala, MAP is one of linear's maps, or nala, nala-paper or hedgehog (d' = 2 d; not for
 * gla). The default MAP is elu1 for linear, and identity for the others. `l2norm`: phi(q), phi(k)
 * <- x / sqrt(|x|^2 + 1e-6), before scale and gates.
 *
 * The inputs that apply have these names, in this order: q, k, v; log_decay (gla: a,
 * gated-delta-rule: g); beta; gate_q, gate_k: G^Q (rows x heads) and G^K (keys x heads), or their
 * logits, or x (rows x gate_width); out_gate (rows x heads*dv). q, k and v have type `storage`, the
 * output has type `out_storage`, and all others are float32. Arithmetic is float32, except for
 * products, whose precision is `compute`. */
#ifndef FOVEA_OPERATIONS_H
#define FOVEA_OPERATIONS_H

#include <fovea/plans.h>

FOVEA_BEGIN_DECLS

/* The way in which SLA's gates are computed. The weights W, gate_q for G^Q and gate_k for G^K, have
 * no bias. */
typedef enum fovea_gates {
    FOVEA_GATES_READY,       /* inputs are the gates */
    FOVEA_GATES_LOGITS,      /* inputs are logits: gates = softmax over the heads */
    FOVEA_GATES_X_DENSE,     /* logits = x W^T, W (heads, gate_width); keys == rows */
    FOVEA_GATES_Q_DENSE,     /* logits = [q_1 .. q_H] W^T, W (heads, heads*d); for G^K, of k */
    FOVEA_GATES_Q_BLOCKDIAG, /* logit of head h = q_h.w_h, W (heads, d) */
} fovea_gates;

/* The factor of the output; g is the input out_gate. */
typedef enum fovea_out_gate {
    FOVEA_OUT_GATE_PLAIN,  /* no factor */
    FOVEA_OUT_GATE_LINEAR, /* g */
    FOVEA_OUT_GATE_SILU    /* silu(g) */
} fovea_out_gate;

/* How a causal operation over many tokens is computed. */
typedef enum fovea_form {
    FOVEA_FORM_AUTO,      /* chosen automatically */
    FOVEA_FORM_RECURRENT, /* token by token */
    FOVEA_FORM_CHUNK,     /* matrix products over chunks of `chunk` tokens (0: chosen
                             automatically) */
} fovea_form;

typedef struct fovea_attention_options { /* More than 25 fields: a whole equation */
    size_t struct_size;
    const char *attention;               /* one of the names above; NULL: "softmax" */
    uint32_t rows;                       /* number of queries */
    uint32_t keys;                       /* number of keys; 0: that of queries */
    uint32_t heads, head_dim, value_dim; /* d and dv; must be given */
    double scale, eps;                   /* s and eps of the equations;
                                            FOVEA_ATTENTION_OPTIONS_INIT sets 1 and 1e-6, */
    int normalise;                       /* and 1 for this field */
    int causal;                          /* nonzero: token i attends only to tokens up to i */
    fovea_dtype storage, out_storage;    /* types of q, k, v, and of the output */
    fovea_form form;                     /* form of a causal operation */
    int l2norm;
    double alpha;               /* pola: alpha; 0: 4. nala and nala-paper: lambda; 0: 3. Causal
                                   attention always uses 3 */
    const float *power;         /* pola (heads*d): the learned vector; NULL: zeros */
    const float *channel_scale; /* pola, focused (heads*d): the learned vector; NULL: zeros */
    const float *log_decay;     /* retention (heads) */
    /* RoPE: rotates the features of bidirectional linear mechanisms (not of linear:exp with
     * `normalise`), keys == rows, in pairs (2j, 2j+1): y[2j] = x[2j] cos - x[2j+1] sin,
     * y[2j+1] = x[2j+1] cos + x[2j] sin. Tables cos and sin (rows x d), d even; or NULL and a grid
     * of rope_width x rope_height tokens, d a multiple of 4: RoPE2D of MAViT, n = d/4 angles
     * theta_j = 10000^(-j/(n-1)), the row times theta in the first half of the channels, the column
     * times theta in the second. */
    const float *rope_cos, *rope_sin;
    uint32_t rope_width, rope_height;
    fovea_gates gates;
    const float *gate_q, *gate_k; /* weights W of G^Q and of G^K */
    uint32_t gate_width;
    /* Further steps after the attention, in this order: adds a depthwise convolution of v over the
     * grid of tokens (bidirectional, keys == rows); layer normalisation over heads*dv; multiplies
     * by g or silu(g). */
    uint32_t grid_width, grid_height;
    uint32_t local_size; /* size of the filter, odd, up to 31, with zeros around the grid; 0: no
                            convolution */
    int local_shared;    /* nonzero: weight (dv, size, size), bias (dv), the same for all heads;
                            0: (heads*dv, size, size), (heads*dv) */
    const float *local_weight; /* weights of a cross-correlation */
    const float *local_bias;   /* NULL: no bias */
    const float *norm_weight;  /* (heads*dv); NULL: no normalisation */
    const float *norm_bias;    /* (heads*dv); NULL: no bias */
    double norm_eps;           /* 0: 1e-5 */
    fovea_out_gate out_gate;
    fovea_schedule schedule;
    uint32_t chunk;        /* rows per chunk; 0: chosen automatically */
    uint64_t memory_limit; /* this field and the next are as in fovea_plan_options; states are
                              never tuned */
    fovea_rigor rigor;
    double tune_seconds;
    fovea_compute compute;      /* INT8 means BF16, and AUTO means F32: see fovea_gemm_options */
    const float *map_q, *map_k; /* hedgehog: W of queries and of keys (heads, d, d); NULL: unit
                                   matrices */
} fovea_attention_options;
#define FOVEA_ATTENTION_OPTIONS_INIT                                                               \
    FOVEA_INIT(fovea_attention_options, FOVEA_SET(scale, 1), FOVEA_SET(eps, 1e-6),                 \
               FOVEA_SET(normalise, 1))

/* Plans an attention. The data that the options point to is copied. The plan is queried and freed
 * like any other; fovea_op_run runs it. Returns EINVAL for shapes that contradict each other, for
 * zero tokens, and for options that the mechanism does not have. Returns ENOTSUP for an attention
 * or a combination that is not supported, which the message names. Returns ENOMEM if memory runs
 * out. Thread-safe. */
FOVEA_API fovea_status fovea_attention_plan_create(fovea_plan **out, fovea_device *device,
                                                   const fovea_attention_options *options);

/* A matrix product: input a (rows x in), output (rows x out) = activation(a weight^T + bias). */
typedef struct fovea_gemm_options {
    size_t struct_size;
    uint32_t rows, in, out;
    fovea_dtype storage, out_storage; /* types of a and of the output; arithmetic is float32 */
    const float *weight;              /* (out, in); the plan packs a copy */
    const float *bias;                /* (out) or NULL */
    const char *activation; /* NULL, or a name such as "gelu": `fovea bench --help` lists all
                               names, and so does the message for an unknown name */
    fovea_schedule schedule;
    uint32_t chunk;        /* rows per chunk; 0: chosen automatically */
    uint64_t memory_limit; /* this field and the next are as in fovea_plan_options */
    fovea_rigor rigor;
    double tune_seconds;
    /* AUTO means F32. For the others, `a` is first converted to bfloat16 if it has another type. */
    fovea_compute compute;
} fovea_gemm_options;
#define FOVEA_GEMM_OPTIONS_INIT FOVEA_INIT(fovea_gemm_options, )

/* Plans a matrix product, as fovea_attention_plan_create plans an attention. Thread-safe. */
FOVEA_API fovea_status fovea_gemm_plan_create(fovea_plan **out, fovea_device *device,
                                              const fovea_gemm_options *options);
/* Describes the attention of a block as an operation. Output `index` of the model's plan must be
 * the queries of the block ("stage1.block0.q"); the operation reads rows of that output and of the
 * block's keys ("stage1.block0.k"). *out receives its name, sizes, scale, eps, learned vectors and
 * rotation; `keys` is the number of keys that one query attends to. Pointers in it belong to the
 * plan. The gates of sla-NAME are left out, and foveated attention is not such an operation.
 * Returns EINVAL for any other output. Thread-safe. */
FOVEA_API fovea_status fovea_plan_attention(const fovea_plan *plan, size_t index,
                                            fovea_attention_options *out);
/* Writes the numbers that are added to the scores of query `row` of such an output: (heads, rows of
 * the block's keys). They are -INFINITY for keys that the query does not attend to because they are
 * in another window. Returns EINVAL if `floats`, the number of elements of `bias`, is not heads
 * times the number of these rows. Thread-safe. */
FOVEA_API fovea_status fovea_plan_attention_bias(const fovea_plan *plan, size_t index, uint32_t row,
                                                 float *bias, size_t floats);

/* Returns the name of input `index` of the operation, from 0, such as "q" or "beta", or NULL past
 * the end. The string is static. Thread-safe. */
FOVEA_API const char *fovea_op_input(const fovea_plan *plan, size_t index);

typedef struct fovea_matrix {
    void *data;    /* aligned for its element type */
    size_t stride; /* row stride in elements; 0: rows are packed */
} fovea_matrix;
/* Runs the operation on its inputs, in the order of fovea_op_input. A causal operation begins with
 * a zero state. Returns EINVAL for another number of inputs, for missing data, and for a stride of
 * less than one row, or EDEVICE. One thread at a time per plan. */
FOVEA_API fovea_status fovea_op_run(fovea_plan *plan, const fovea_matrix *inputs, size_t n_inputs,
                                    fovea_matrix output);

/* --------------------------------------------------------------------------------------------- The
 * state of a causal operation, which advances with every token. One thread at a time per state. */

typedef struct fovea_state fovea_state;

/* Creates a zero state, and the plans that advance it by one token and by up to options->rows
 * tokens at a time. `options` are those of fovea_attention_plan_create, with `causal`. The state of
 * softmax is a cache: `keys` is its capacity, from 1 to 2^24 tokens. Other states have `keys` 0 or
 * `rows`. Nothing is allocated afterwards. Errors are those of fovea_attention_plan_create.
 * Thread-safe. */
FOVEA_API fovea_status fovea_state_create(fovea_state **out, fovea_device *device,
                                          const fovea_attention_options *options);
FOVEA_API void fovea_state_free(fovea_state *state);
/* Returns the name of input `index`, as fovea_op_input does. */
FOVEA_API const char *fovea_state_input(const fovea_state *state, size_t index);
/* Advances the state by one token, in recurrent form. Each input and the output have one row. */
FOVEA_API fovea_status fovea_state_step(fovea_state *state, const fovea_matrix *inputs,
                                        size_t n_inputs, fovea_matrix output);
/* Advances the state by `rows` tokens, from 1 to options->rows, in the form of the options. Any
 * split of a sequence into calls gives the same results up to rounding. Returns EINVAL as
 * fovea_op_run does, or for more tokens than the cache of softmax can hold; the state is then
 * unchanged. */
FOVEA_API fovea_status fovea_state_feed(fovea_state *state, uint32_t rows,
                                        const fovea_matrix *inputs, size_t n_inputs,
                                        fovea_matrix output);
/* Sets the state to zero, which is necessary after EDEVICE. */
FOVEA_API fovea_status fovea_state_reset(fovea_state *state);
/* Returns the number of floats of a saved state. It contains S (heads, d', dv), then with
 * `normalise` Z (heads, d'). d' is d, and 2 d for the maps nala and nala-paper; neither contains
 * `scale`. For mala, it contains the covariance of phi(k) and v (heads, d, dv), the means of phi(k)
 * (heads, d) and of v (heads, dv), then the number of tokens, once for each head. For softmax, it
 * contains keys (heads, `keys` of the options, d), values (heads, `keys`, dv), then the number of
 * tokens. */
FOVEA_API size_t fovea_state_size(const fovea_state *state);
/* Copies the state to `out`. Returns EINVAL if `floats` is not fovea_state_size. */
FOVEA_API fovea_status fovea_state_save(const fovea_state *state, float *out, size_t floats);
/* Replaces the state by a saved one. Returns EINVAL if `floats` is not fovea_state_size, or if the
 * cache of softmax cannot hold the number of tokens; the state is then unchanged. */
FOVEA_API fovea_status fovea_state_restore(fovea_state *state, const float *in, size_t floats);

FOVEA_END_DECLS

#endif
