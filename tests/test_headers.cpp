// test_headers.cpp: the public header by itself, as pedantic C++17.
#include <fovea/fovea.h>

#include <cstdio>
#include <cstring>

int main()
{
    fovea_plan_options plan = FOVEA_PLAN_OPTIONS_INIT;
    fovea_device_options device = FOVEA_DEVICE_OPTIONS_INIT;
    fovea_op_options op = FOVEA_OP_OPTIONS_INIT;
    const bool good = !std::strcmp(fovea_version(), FOVEA_VERSION) && plan.version == 1 &&
                      device.version == 1 && op.version == 1 && op.eps > 0;
    std::printf("%d passed, %d failed, 0 skipped\n", good, !good);
    return !good;
}
