/* vit_kinds.c: the kinds of ViTs, and the model types of each kind in a configuration. */
#include <string.h>

#include "base/num.h"
#include "models/vit/vit_reader.h"
#include "ops/op.h"

#define CLASS FV_VIT_HAS_CLASS
#define BIAS FV_VIT_HAS_PATCH_BIAS
#define SCALES FV_VIT_HAS_SCALES
#define CLIP_NORMS FV_VIT_HAS_CLIP_NORMS
const fv_vit_kind_info fv_vit_kinds[] = {
    [FV_VIT_PLAIN] = {"vit", 1e-12f, FV_EPI_GELU, FV_PROCESSOR_VIT, CLASS | BIAS, FV_POS_PLAIN,
                      FV_HEAD_CLS},
    [FV_VIT_DEIT] = {"deit", 1e-12f, FV_EPI_GELU, FV_PROCESSOR_DEIT, CLASS | BIAS, FV_POS_PLAIN,
                     FV_HEAD_CLS},
    [FV_VIT_DINOV2] = {"dinov2", 1e-6f, FV_EPI_GELU, FV_PROCESSOR_DINOV2, CLASS | BIAS | SCALES,
                       FV_POS_PLAIN, FV_HEAD_CLS_MEAN},
    [FV_VIT_REGISTERS] = {"dinov2_with_registers", 1e-6f, FV_EPI_GELU, FV_PROCESSOR_DINOV2,
                          CLASS | BIAS | SCALES, FV_POS_AA, FV_HEAD_CLS_MEAN},
    [FV_VIT_DINOV3] = {"dinov3_vit", 1e-5f, FV_EPI_GELU, FV_PROCESSOR_DINOV3, CLASS | BIAS | SCALES,
                       FV_POS_PLAIN, FV_HEAD_CLS},
    [FV_VIT_IJEPA] = {"ijepa", 1e-12f, FV_EPI_GELU, FV_PROCESSOR_VIT, BIAS, FV_POS_PLAIN,
                      FV_HEAD_MEAN},
    [FV_VIT_CLIP] = {"clip_vision_model", 1e-5f, FV_EPI_GELU_QUICK, FV_PROCESSOR_CLIP,
                     CLASS | CLIP_NORMS, FV_POS_PLAIN, FV_HEAD_MEAN},
    [FV_VIT_OWL] = {"owlv2_vision_model", 1e-5f, FV_EPI_GELU_QUICK, FV_PROCESSOR_OWL,
                    CLASS | CLIP_NORMS, FV_POS_PLAIN, FV_HEAD_MEAN},
    [FV_VIT_SIGLIP] = {"siglip_vision_model", 1e-6f, FV_EPI_GELU_TANH, FV_PROCESSOR_SIGLIP, BIAS,
                       FV_POS_PLAIN, FV_HEAD_MEAN},
    [FV_VIT_NAFLEX] = {"siglip2_vision_model", 1e-6f, FV_EPI_GELU_TANH, FV_PROCESSOR_NAFLEX, BIAS,
                       FV_POS_BILINEAR_AA, FV_HEAD_MEAN},
    [FV_VIT_IDEFICS] = {"idefics3_vision", 1e-6f, FV_EPI_GELU_TANH, FV_PROCESSOR_IDEFICS, BIAS,
                        FV_POS_BUCKETS, FV_HEAD_MEAN},
    [FV_VIT_RADIO] = {"radio", 1e-6f, FV_EPI_GELU, FV_PROCESSOR_RADIO, SCALES, FV_POS_CROPPED,
                      FV_HEAD_MEAN},
    [FV_VIT_BEIT] = {"beit", 1e-12f, FV_EPI_GELU, FV_PROCESSOR_BEIT, CLASS | BIAS, FV_POS_PLAIN,
                     FV_HEAD_POOL},
    [FV_VIT_POSE] = {"vitpose_backbone", 1e-12f, FV_EPI_GELU, FV_PROCESSOR_VITPOSE, BIAS,
                     FV_POS_PLAIN, FV_HEAD_MEAN},
    [FV_VIT_EVA] = {"eva", 1e-6f, FV_EPI_GELU, FV_PROCESSOR_TIMM, 0, FV_POS_AA, FV_HEAD_CLS},
};

/* The kind of a model_type of transformers, or of a name of timm or torch.hub, by the beginning of
 * the name and a part that it contains. The first line that fits applies. */
static const struct {
    const char *begin, *part; /* if part is NULL, the name is exactly `begin` */
    enum fv_vit_kind kind;
} types[] = {
    {"vit", NULL, FV_VIT_PLAIN},         {"deit", NULL, FV_VIT_DEIT},
    {"dinov2", NULL, FV_VIT_DINOV2},     {"dinov2_with_registers", NULL, FV_VIT_REGISTERS},
    {"dinov3_vit", NULL, FV_VIT_DINOV3}, {"ijepa", NULL, FV_VIT_IJEPA},
    {"radio", NULL, FV_VIT_RADIO},       {"vitpose_backbone", NULL, FV_VIT_POSE},
    {"beit", NULL, FV_VIT_BEIT},         {"data2vec-vision", NULL, FV_VIT_BEIT},
    {"owlv2", NULL, FV_VIT_OWL},         {"owlv2_vision_model", NULL, FV_VIT_OWL},
    {"owlvit", NULL, FV_VIT_OWL},        {"owlvit_vision_model", NULL, FV_VIT_OWL},
    {"clip", NULL, FV_VIT_CLIP},         {"clip_vision_model", NULL, FV_VIT_CLIP},
    {"siglip2", NULL, FV_VIT_NAFLEX},    {"siglip2_vision_model", NULL, FV_VIT_NAFLEX},
    {"siglip", NULL, FV_VIT_SIGLIP},     {"siglip_vision_model", NULL, FV_VIT_SIGLIP},
    {"idefics3", NULL, FV_VIT_IDEFICS},  {"idefics3_vision", NULL, FV_VIT_IDEFICS},
    {"smolvlm", NULL, FV_VIT_IDEFICS},   {"smolvlm_vision", NULL, FV_VIT_IDEFICS},
    {"dinov3_vit", "", FV_VIT_DINOV3},   {"dinov2_vit", "_reg", FV_VIT_REGISTERS},
    {"dinov2_vit", "", FV_VIT_DINOV2},   {"vit_", "_dinov3", FV_VIT_DINOV3},
    {"vit_", "_lingbot", FV_VIT_DINOV3}, {"vit_pe_", "", FV_VIT_EVA},
    {"vit_", "_rope_", FV_VIT_EVA},      {"beit_", "", FV_VIT_BEIT},
    {"beitv2_", "", FV_VIT_BEIT},        {"eva_", "", FV_VIT_EVA},
    {"eva02_", "", FV_VIT_EVA},          {"vit_", "_reg4_dinov2", FV_VIT_REGISTERS},
    {"vit_", "_dinov2", FV_VIT_DINOV2},  {"vit_", "_clip_", FV_VIT_CLIP},
    {"vit_", "_siglip_", FV_VIT_SIGLIP}, {"vit_", "", FV_VIT_PLAIN},
    {"deit", "", FV_VIT_DEIT},           {"flexivit_", "", FV_VIT_PLAIN},
    {"beit3_", "", FV_VIT_PLAIN},        {"test_vit", "", FV_VIT_PLAIN},
};

bool fv_vit_find_kind(enum fv_vit_kind *out, const char *type)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const char *part = types[i].part;
        if (part ? fv_begins_with(type, types[i].begin) && strstr(type, part)
                 : strcmp(type, types[i].begin) == 0) {
            *out = types[i].kind;
            return true;
        }
    }
    return false;
}

bool fv_vit_owns(const char *model_type)
{
    enum fv_vit_kind kind;
    return fv_vit_find_kind(&kind, model_type);
}
