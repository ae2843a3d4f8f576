/* cl_run.c: runs kernels outside a plan. */
#include "cl/cl_probe.h"
#include "platform/os/os_machine.h"

size_t fv_cl_probe_group(const fv_device *d, cl_kernel k, size_t most)
{
    size_t group = most, limit = 0, fixed[3] = {0};
    if (fv_cl.clGetKernelWorkGroupInfo(k, d->place.device, CL_KERNEL_COMPILE_WORK_GROUP_SIZE,
                                       sizeof fixed, fixed, NULL) == CL_SUCCESS &&
        fixed[0])
        return fixed[0];
    if (fv_cl.clGetKernelWorkGroupInfo(k, d->place.device, CL_KERNEL_WORK_GROUP_SIZE, sizeof limit,
                                       &limit, NULL) != CL_SUCCESS)
        limit = 1;
    while (group > 1 && (group > d->limits.group || group > limit))
        group /= 2;
    return group;
}

fovea_status fv_cl_probe_set(cl_kernel k, cl_uint index, size_t size, const void *value)
{
    FV_CL_TRY("a probe", clSetKernelArg, (k, index, size, value));
    return FOVEA_OK;
}

fovea_status fv_cl_probe_run(fv_device *d, cl_kernel k, size_t items, size_t group, double *seconds)
{
    cl_event event = NULL;
    const double begin = fv_machine_seconds();
    FV_CL_TRY("a probe", clEnqueueNDRangeKernel,
              (d->service, k, 1, NULL, &items, &group, 0, NULL, &event));
    FV_TRY(fv_cl_finish(d, d->service, event, 0));
    if (seconds)
        *seconds = fv_machine_seconds() - begin;
    return FOVEA_OK;
}
