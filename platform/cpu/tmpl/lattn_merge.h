/* lattn_merge.h: merges two states of a head. mech/mech.h must be included before it. */
#ifndef FOVEA_PLATFORM_TMPL_LATTN_MERGE_H
#define FOVEA_PLATFORM_TMPL_LATTN_MERGE_H

#include "platform/cpu/tmpl/lattn_layout.h"

/* Merges the state `p` into `s`.
 *
 * CENTRED: the primed state p has `np` tokens, s has `n`. S about their common mean is S + S' + u^T
 * (vmean' - vmean), where u = (n w' - np w) / (n + np). All differences are computed before any
 * product. */
static void merge_state(float *s, const float *p, const layout *l)
{
    const fv_lattn_state *at = &l->state;
    float rate = 0.f, rate_p = 0.f;
    if (CENTRED) {
        rate = s[at->count] / (s[at->count] + p[at->count]);
        rate_p = p[at->count] / (s[at->count] + p[at->count]);
    }
    const size_t width = FV_BLOCKS * l->d;
    for (size_t i = 0; i < width; i += FV_W) {
        const int n = fv_lanes(width - i);
        float fade[FV_W], fade_p[FV_W], u[FV_W];
        fv_v m = fv_load_n(s + at->m + i, n), m_p = fv_load_n(p + at->m + i, n);
        if (SHIFT) {
            const fv_v x = fv_load_n(s + at->shift + i, n), y = fv_load_n(p + at->shift + i, n);
            const fv_v top = fv_max(x, y);
            const fv_v f = fv_exp(fv_sub(x, top)), f_p = fv_exp(fv_sub(y, top));
            fv_store(fade, f);
            fv_store(fade_p, f_p);
            fv_store_n(s + at->shift + i, top, n);
            m = fv_mul(m, f);
            m_p = fv_mul(m_p, f_p);
        }
        fv_store_n(s + at->m + i, fv_add(m, m_p), n);
        if (CENTRED) {
            const fv_v w = fv_load_n(s + at->w + i, n), w_p = fv_load_n(p + at->w + i, n);
            fv_store(u, fv_sub(fv_mul(fv_set(rate), w_p), fv_mul(fv_set(rate_p), w)));
            fv_store_n(s + at->w + i, fv_add(w, w_p), n);
        }
        for (size_t j = 0; j < l->dv; j += FV_W) {
            const int nv = fv_lanes(l->dv - j);
            fv_v delta = fv_set(0.f);
            if (CENTRED)
                delta = fv_sub(fv_load_n(p + at->vmean + j, nv), fv_load_n(s + at->vmean + j, nv));
            for (int r = 0; r < n; r++) {
                const size_t cell = at->s + (i + (size_t)r) * l->dv + j;
                fv_v x = fv_load_n(s + cell, nv), y = fv_load_n(p + cell, nv);
                if (SHIFT) {
                    x = fv_mul(x, fv_set(fade[r]));
                    y = fv_mul(y, fv_set(fade_p[r]));
                }
                x = fv_add(x, y);
                if (CENTRED)
                    x = fv_fma(fv_set(u[r]), delta, x);
                fv_store_n(s + cell, x, nv);
            }
        }
    }
    for (size_t j = 0; CENTRED && j < l->dv; j += FV_W) {
        const int n = fv_lanes(l->dv - j);
        const fv_v x = fv_load_n(s + at->vmean + j, n), y = fv_load_n(p + at->vmean + j, n);
        fv_store_n(s + at->vmean + j, fv_fma(fv_set(rate_p), fv_sub(y, x), x), n);
    }
    if (CENTRED)
        s[at->count] += p[at->count];
}

#endif
