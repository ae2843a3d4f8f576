/* test_headers.c: compiles the public headers alone, as pedantic C11. */
#include <fovea/adapt.h>
#include <fovea/fovea.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
    fovea_plan_options plan = FOVEA_PLAN_OPTIONS_INIT;
    fovea_device_options device = FOVEA_DEVICE_OPTIONS_INIT;
    fovea_attention_options attention = FOVEA_ATTENTION_OPTIONS_INIT;
    fovea_gemm_options gemm = FOVEA_GEMM_OPTIONS_INIT;
    fovea_preprocess rule = FOVEA_PREPROCESS_INIT;
    fovea_trainer_options trainer = FOVEA_TRAINER_OPTIONS_INIT;
    fovea_tune_report report = FOVEA_TUNE_REPORT_INIT;
    const int good =
        trainer.struct_size == sizeof trainer && trainer.lambda == 1 && trainer.mask_height == 0 &&
        plan.struct_size == sizeof plan && device.struct_size == sizeof device &&
        attention.struct_size == sizeof attention && attention.eps > 0 && attention.normalise &&
        gemm.struct_size == sizeof gemm && rule.struct_size == sizeof rule &&
        report.struct_size == sizeof report && report.facts == 0 &&
        !strcmp(fovea_version(), FOVEA_VERSION) && fovea_status_text(FOVEA_ENOMEM)[0];
    printf("%d passed, %d failed, 0 skipped\n", good, !good);
    return !good;
}
