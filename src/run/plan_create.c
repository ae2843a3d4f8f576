/* plan_create.c: fovea_plan_create: tunes if the options ask for it, plans, then makes the fallback
 * plan. */
#include "base/abi.h"
#include "models/model.h"
#include "plan/frame_plan.h"
#include "plan/op_plan.h"
#include "run/fallback.h"
#include "tune/tune.h"
#include "wisdom/wisdom.h"

fovea_status fovea_plan_create(fovea_plan **out, const fovea_model *model, fovea_device *device,
                               const fovea_plan_options *options)
{
    FV_TRY(fv_require(model, "the model"));
    FV_TRY(fv_require(device, "the device"));
    FV_TRY(fv_require(options, "the plan's options"));
    fovea_plan_options o;
    fovea_preprocess rule;
    FV_TRY(fv_plan_options(&o, &rule, options));
    FV_TRY(fv_frame_check(&o));
    fovea_plan *p;
    FV_TRY(fv_tune_for(model, device, &o, NULL));
    const fovea_status status = fv_frame_plan(&p, model, device, &o, fv_wisdom_global());
    if (status != FOVEA_OK)
        return fv_fallback_instead(out, status, model, device, &o);
    FV_RETURN_MADE(out, p, fovea_plan_free, fv_fallback_make(p, &o));
}

static fovea_status create(fovea_plan **out, fovea_device *device, const fv_op_options *options)
{
    FV_TRY(fv_require(device, "the device"));
    FV_TRY(fv_op_options_check(options));
    FV_TRY(fv_tune_for(NULL, device, NULL, options));
    return fv_op_plan(out, device, options, NULL, fv_wisdom_global());
}

fovea_status fovea_attention_plan_create(fovea_plan **out, fovea_device *device,
                                         const fovea_attention_options *options)
{
    fovea_attention_options o = FOVEA_ATTENTION_OPTIONS_INIT;
    FV_TRY(fv_require(options, "the attention's options"));
    FV_TRY(FV_ABI_READ(o, options, FOVEA_ATTENTION_OPTIONS_INIT));
    const fv_op_options op = fv_op_of_attention(&o);
    return create(out, device, &op);
}

fovea_status fovea_gemm_plan_create(fovea_plan **out, fovea_device *device,
                                    const fovea_gemm_options *options)
{
    fovea_gemm_options o = FOVEA_GEMM_OPTIONS_INIT;
    FV_TRY(fv_require(options, "the product's options"));
    FV_TRY(FV_ABI_READ(o, options, FOVEA_GEMM_OPTIONS_INIT));
    const fv_op_options op = fv_op_of_gemm(&o);
    return create(out, device, &op);
}

void fovea_plan_free(fovea_plan *p)
{
    if (!p)
        return;
    fv_fallback_free(&p->run.fallback);
    fv_plan_free(p);
}
