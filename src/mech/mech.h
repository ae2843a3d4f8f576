/* mech.h: includes the header of the mechanism FV_MECHANISM, and makes the names of its kernels.
 * It uses the vector vocabulary if that was included before, else scalar.h.
 *
 * The header of a mechanism defines the following equations, for query i, key j, feature block b
 * and stream s, which owns a slice of dv / FV_STREAMS value channels. Means are over the keys:
 *
 *     S_b = mean_j phi_k_b(k_j)^T v_j         m_b = mean_j phi_k_b(k_j)
 *     o_s = sum_b phi_q_{b^s}(q_i) S_b        z_s = sum_b phi_q_{b^s}(q_i).m_b
 *     out = norm(z, eps) o + norm_mean(z, w, eps) vmean
 *
 *   FV_BLOCKS     feature blocks, 1 (the default) or 2: features are FV_BLOCKS * d wide
 *   FV_STREAMS    1 (the default), or 2: the second stream sees the blocks of q swapped
 *   FV_POLARISED  1: phi is fv_polarise of fv_phi_size; default 0
 *   FV_PARAMS     learned vectors, 0 (the default) to 2, one value per head and channel
 *   FV_WANTS      FV_WANT_* of wants.h; default 0
 *   FV_MODULE     FV_MODULE_* of wants.h; default 0
 *   FV_ALPHA      default of the operation's constant; default 0: the mechanism does not use it
 *   FV_STATS      row statistics of a query, 0 (the default) to 3, computed in order before phi
 *   FV_STATS_KEY  row statistics of a key, the first ones of FV_STATS; default 0
 *   FV_STAT_MAX   bit i set: statistic i is a maximum over the channels, else a sum
 *   FV_STAT_WIDE  1: statistics are over the channels of all heads; 0: of the row's head
 *
 *   fv_v fv_param(int i, fv_v raw, fv_v alpha)
 *       makes r.param[i], which phi reads, from learned vector i; alpha is the operation's constant
 *   fv_v fv_stat(int i, int query, fv_v x, fv_row r)
 *       the term of statistic i, from the parameters and the statistics before it
 *   fv_row fv_stats_done(int query, fv_row r)
 *       converts the complete statistics to the values that phi reads; called once per row
 *   void fv_phi(fv_v out[FV_BLOCKS], int query, fv_v x, fv_row r)
 *       the features of one channel. `query` is a compile-time constant, which is ignored if q and
 *       k share phi
 *   fv_v fv_phi_size(int query, fv_v x, fv_row r)
 *       FV_POLARISED: the feature that is not 0 of the two; >= 0
 *   fv_v fv_norm(fv_v z, fv_v eps)                   factor of o in the output
 *   fv_v fv_norm_mean(fv_v z, fv_v w, fv_v eps)      CENTRED: factor of vmean
 *
 * A function is needed only if its count is not 0, and fv_stats_done only with FV_STATS. With
 * FV_WANT_CENTRED, S_b = mean_j phi(k_j)^T (v_j - vmean), and w is z over rotated features. With
 * FV_WANT_SHIFT, r.shift of a key is the state's shift, and r.shift of a query is the negative of
 * that shift. Statistic 0 of a query is then the maximum of its row, and eps is already multiplied
 * by exp(-stat[0]).
 *
 * If FV_DERIVE is defined, a header also defines the gradients of the functions above. df is the
 * gradient of a channel's features. `sum` holds sums over the channels of a row, or over those of
 * all heads with FV_STAT_WIDE:
 *
 *   FV_SUMS, FV_SUMS_KEY   sums that the gradient of a query, of a key, needs; 0 (the default) to 2
 *   fv_v fv_sum_term(int i, int query, fv_v x, const fv_v df[FV_BLOCKS], fv_row r)
 *   fv_v fv_phi_grad(int query, fv_v x, const fv_v df[FV_BLOCKS], fv_row r, const fv_v sum[2])
 *       the gradient of x, through the statistics as well; shifts and their maximum are constants
 *   fv_v fv_norm_slope(fv_v z, fv_v eps)             d ln fv_norm / dz
 *   fv_v fv_norm_mean_slope_z(fv_v z, fv_v w, fv_v eps)   CENTRED: d fv_norm_mean / dz
 *   fv_v fv_norm_mean_slope_w(fv_v z, fv_v eps)           CENTRED: d fv_norm_mean / dw
 *   fv_v fv_param_term(int i, fv_v x, fv_v dx, fv_row r)
 *       the term of a row's channel, with gradient dx, in the gradient of r.param[i]
 *   fv_v fv_param_slope(int i, fv_v raw, fv_v alpha)  d fv_param / d raw
 */
#ifndef FOVEA_SRC_MECH_MECH_H
#define FOVEA_SRC_MECH_MECH_H

#ifndef FV_FN
#include "mech/scalar.h"
#endif
#include "mech/wants.h"

/* Data of a row or a channel that the functions of a mechanism get in addition to x. */
typedef struct fv_row {
    fv_v param[2]; /* parameters of the channel */
    fv_v stat[3];  /* statistics of the row, broadcast */
    fv_v shift;    /* shift of the channel */
    float alpha;   /* the operation's constant; 0: FV_ALPHA */
} fv_row;

#include "mech/maps.h"

#define FV_MECH_QUOTE(text) #text
#define FV_MECH_QUOTE_VALUE(text) FV_MECH_QUOTE(text)
#define FV_MECH_TEXT FV_MECH_QUOTE_VALUE(FV_MECHANISM)
#define FV_MECH_HEADER(name) FV_MECH_QUOTE(name.h)
#include FV_MECH_HEADER(FV_MECHANISM)

#ifndef FV_BLOCKS
#define FV_BLOCKS 1
#endif
#ifndef FV_STREAMS
#define FV_STREAMS 1
#endif
#ifndef FV_POLARISED
#define FV_POLARISED 0
#endif
#ifndef FV_PARAMS
#define FV_PARAMS 0
#endif
#ifndef FV_WANTS
#define FV_WANTS 0
#endif
#ifndef FV_MODULE
#define FV_MODULE 0
#endif
#ifndef FV_ALPHA
#define FV_ALPHA 0.f
#endif
#ifndef FV_STATS
#define FV_STATS 0
#endif
#ifndef FV_STATS_KEY
#define FV_STATS_KEY 0
#endif
#ifndef FV_STAT_MAX
#define FV_STAT_MAX 0
#endif
#ifndef FV_STAT_WIDE
#define FV_STAT_WIDE 0
#endif

#ifdef FV_DERIVE
#ifndef FV_SUMS
#define FV_SUMS 0
#endif
#ifndef FV_SUMS_KEY
#define FV_SUMS_KEY 0
#endif
#endif

#define FV_MECH_PASTE(op, mech, isa) op##_##mech##_##isa
#define FV_MECH_PASTE_VALUES(op, mech, isa) FV_MECH_PASTE(op, mech, isa)
/* Makes the name op_<mechanism>_<isa>. */
#define FV_MECH_NAME(op, isa) FV_MECH_PASTE_VALUES(op, FV_MECHANISM, isa)

#endif
