/* register.c: adds training to the library: its operations, their kernels, and the cases on which
 * the kernels are verified. */
#include <fovea/adapt.h>

#include <pthread.h>
#include <string.h>

#include "base/status.h"
#include "ops/extension.h"
#include "platform/cpu/cpu_backend.h"
#include "platform/cpu/cpu_kernels.h"
#include "train/cpu/train_cpu_kernels.h"
#include "train/verify_training.h"

static const fv_kernel own[] = {
#define FV_CPU_KERNEL(OP, MECH, kname, NEED, krev, khooks)                                         \
    {FV_KERNEL_LINE(OP, MECH, kname, NEED, krev, khooks), .code.cpu = fv_k_##kname},
#include "train/cpu/train_cpu_kernels.inc"
#undef FV_CPU_KERNEL
};

enum {
    OWN = sizeof own / sizeof *own,
    OF_LIBRARY = 0
#define FV_CPU_KERNEL(...) +1
#include "platform/cpu/cpu_kernels.inc"
#undef FV_CPU_KERNEL
};

static fv_kernel all[OF_LIBRARY + OWN];

static const fv_extension training = {
    .op =
        {
#define FV_OP(NAME, name)
#define FV_OP_TRAINING(NAME, name) [FV_OP_##NAME] = &fv_op_##name,
#include "ops/ops.inc"
#undef FV_OP
        },
    .cpu_kernel = all,
    .cpu_kernels = OF_LIBRARY + OWN,
    .cases = fv_cases_training,
    .narrow_cases = fv_cases_training_narrow,
};

static void add(void)
{
    int count;
    memcpy(all, fv_cpu_own_kernels(&count), OF_LIBRARY * sizeof *all);
    memcpy(all + OF_LIBRARY, own, sizeof own);
    fv_extension_add(&training);
}

fovea_status fovea_training_register(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int count;
    fv_cpu_own_kernels(&count);
    /* The library has another version, or kernels for other architecture levels. */
    if (strcmp(fovea_version(), FOVEA_VERSION) != 0 || count != OF_LIBRARY)
        return fv_fail(FOVEA_ENOTSUP,
                       "libfovea-train %s does not match libfovea %s; install both from one build",
                       FOVEA_VERSION, fovea_version());
    pthread_once(&once, add);
    return FOVEA_OK;
}
