/* hostile_open.c: opens the drivers of hostile.h for tests. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/devices/hostile.h"

hostile_driver hostile;

static const char *const cl_functions[] = {
#define FV_CL_CALL(name) #name,
#include "cl/cl_calls.inc"
#undef FV_CL_CALL
    NULL};
static const char *const cuda_functions[] = {
#define FV_CUDA_CALL(name, symbol, parameters) #name,
#define FV_CUDA_OPTION FV_CUDA_CALL
#define FV_NVRTC_CALL FV_CUDA_CALL
#define FV_NVRTC_OPTION FV_CUDA_CALL
#include "cuda/cuda_calls.inc"
    NULL};

static void *library;

void *hostile_symbol(const char *name)
{
    return dlsym(library, name);
}

bool hostile_open(const char *path)
{
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        printf("%s\n", dlerror());
        return false;
    }
    *(void **)&hostile.set = dlsym(library, "hostile_set");
    *(void **)&hostile.only = dlsym(library, "hostile_only");
    *(void **)&hostile.calls = dlsym(library, "hostile_calls");
    *(void **)&hostile.counted = dlsym(library, "hostile_counted");
    *(void **)&hostile.failed = dlsym(library, "hostile_failed");
    *(void **)&hostile.live = dlsym(library, "hostile_live");
    *(void **)&hostile.misuse = dlsym(library, "hostile_misuse");
    *(void **)&hostile.depth = dlsym(library, "hostile_depth");
    hostile.cuda = hostile.depth;
    hostile.functions = hostile.cuda ? cuda_functions : cl_functions;
    hostile.device = hostile.cuda ? "cuda:0" : "cl:0";
    const bool named = hostile.cuda
                           ? !setenv("FOVEA_CUDA", path, 1) && !setenv("FOVEA_NVRTC", path, 1)
                           : !setenv("FOVEA_OPENCL", path, 1);
    return named && hostile.set && hostile.only && hostile.calls && hostile.counted &&
           hostile.failed && hostile.live && hostile.misuse;
}
