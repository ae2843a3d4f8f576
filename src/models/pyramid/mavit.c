/* mavit.c: MAViT: magnitude-aware linear attention in the early stages, softmax in the late ones.
 *
 *     attn = (attention(q, k, v) + lepe(v)) * o
 */
#include "models/model.h"
#include "models/pyramid/pyramid.h"

static fv_view mix(const fv_pyramid_mix *m)
{
    return fv_pyramid_lepe(m, m->gate);
}

static const fv_pyramid_spec sizes[] = {
    {"mavit-t", {64, 128, 256, 512}, {2, 2, 6, 2}, {1, 2, 4, 8}, 3.5, 2048},
    {"mavit-s", {64, 128, 320, 512}, {3, 5, 9, 3}, {1, 2, 5, 8}, 3.5, 2048},
    {"mavit-b", {96, 192, 384, 512}, {4, 6, 12, 6}, {1, 2, 6, 8}, 3.5, 2048},
    {"mavit-l", {96, 192, 448, 640}, {4, 7, 19, 8}, {1, 2, 7, 10}, 3.5, 2560},
};

static const fv_pyramid_form form = {
    .type = "mavit",
    .mech = FV_MECH_MALA,
    .cpe1 = "pos.",
    .fused = "attn.qkvo.",
    .proj = "attn.proj.",
    .mix = mix,
};

FV_PYRAMID_FAMILY(mavit, "mala")
