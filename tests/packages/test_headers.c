/* test_headers.c: the public headers by themselves, as pedantic C11. */
#include <fovea/adapt.h>
#include <fovea/fovea.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
    fovea_plan_options plan = FOVEA_PLAN_OPTIONS_INIT;
    fovea_device_options device = FOVEA_DEVICE_OPTIONS_INIT;
    fovea_op_options op = FOVEA_OP_OPTIONS_INIT;
    fovea_trainer_options trainer = FOVEA_TRAINER_OPTIONS_INIT;
    const int good = trainer.version == 1 && trainer.lambda == 1 && trainer.mask_height == 0 &&
                     !strcmp(fovea_version(), FOVEA_VERSION) && plan.version == 1 &&
                     device.version == 1 && op.version == 1 && op.eps > 0 &&
                     fovea_status_text(FOVEA_ENOMEM)[0];
    printf("%d passed, %d failed, 0 skipped\n", good, !good);
    return !good;
}
