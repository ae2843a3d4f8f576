/* cl_info.c: describes a device, its driver and its limits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cl/cl_device.h"
#include "cl/cl_import.h"
#include "platform/os/os.h"

#define TEXT 8192 /* extensions are the longest text */

static void platform_text(const fv_cl_place *p, cl_platform_info what, char *out, size_t size)
{
    out[0] = 0;
    if (fv_cl.clGetPlatformInfo(p->platform, what, size, out, NULL) != CL_SUCCESS)
        out[0] = 0;
    out[size - 1] = 0;
}

/* A driver returns either the whole text or an error, so the text is read into a large buffer
 * first, and then cut to `size`. */
void fv_cl_device_text(const fv_cl_place *p, cl_device_info what, char *out, size_t size)
{
    char text[TEXT];
    text[0] = 0;
    if (fv_cl.clGetDeviceInfo(p->device, what, sizeof text, text, NULL) != CL_SUCCESS)
        text[0] = 0;
    text[TEXT - 1] = 0;
    snprintf(out, size, "%.*s", (int)size - 1, text);
}

/* A property that is a number of 32 or 64 bits or a size_t; 0 on failure. */
static uint64_t number_of(const fv_cl_place *p, cl_device_info what)
{
    union {
        cl_ulong wide;
        cl_uint narrow;
    } value = {.wide = 0};
    size_t size = 0;
    if (fv_cl.clGetDeviceInfo(p->device, what, sizeof value, &value, &size) != CL_SUCCESS)
        return 0;
    return size == sizeof value.narrow ? value.narrow : value.wide;
}

bool fv_cl_has_extension(const fv_cl_place *p, const char *name)
{
    char text[TEXT];
    fv_cl_device_text(p, CL_DEVICE_EXTENSIONS, text, sizeof text);
    const size_t n = strlen(name);
    for (const char *at = text; (at = strstr(at, name)); at += n)
        if ((at == text || at[-1] == ' ') && (at[n] == 0 || at[n] == ' '))
            return true;
    return false;
}

void *fv_cl_extension_function(const fv_cl_place *p, const char *name)
{
    return fv_cl.clGetExtensionFunctionAddressForPlatform
               ? fv_cl.clGetExtensionFunctionAddressForPlatform(p->platform, name)
               : NULL;
}

void fv_cl_read_limits(const fv_cl_place *p, fv_cl_limits *out)
{
    size_t items[16] = {0};
    *out = (fv_cl_limits){
        .memory = number_of(p, CL_DEVICE_GLOBAL_MEM_SIZE),
        .largest = number_of(p, CL_DEVICE_MAX_MEM_ALLOC_SIZE),
        .local = number_of(p, CL_DEVICE_LOCAL_MEM_SIZE),
        .texels = number_of(p, CL_DEVICE_IMAGE_SUPPORT)
                      ? number_of(p, CL_DEVICE_IMAGE_MAX_BUFFER_SIZE)
                      : 0,
        .units = (uint32_t)number_of(p, CL_DEVICE_MAX_COMPUTE_UNITS),
        .group = (uint32_t)number_of(p, CL_DEVICE_MAX_WORK_GROUP_SIZE),
        .cpu = number_of(p, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU,
        .unified = number_of(p, CL_DEVICE_HOST_UNIFIED_MEMORY) != 0,
        .own_local = number_of(p, CL_DEVICE_LOCAL_MEM_TYPE) == CL_LOCAL,
    };
    out->vectors = out->cpu && number_of(p, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT) > 1;
    if (fv_cl.clGetDeviceInfo(p->device, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof items, items,
                              NULL) == CL_SUCCESS &&
        items[0] && items[0] < out->group)
        out->group = (uint32_t)items[0];
}

/* ---- quirks ---- */

static void list_quirks(fovea_device_info *out, const fv_cl_place *p, const fv_cl_limits *l)
{
    char local[64], group[64], platform[32];
    platform_text(p, CL_PLATFORM_NAME, platform, sizeof platform);
    const bool half = fv_cl_has_extension(p, "cl_khr_fp16");
    /* Mesa's drivers support float16, but announce it only if RUSTICL_FEATURES asks for it. */
    const bool mesa = strcmp(platform, "rusticl") == 0, hidden = !half && !l->cpu && mesa;
    snprintf(local, sizeof local, "%llu bytes of local memory", (unsigned long long)l->local);
    snprintf(group, sizeof group, "work-groups of at most %u", l->group);
    const struct {
        bool there;
        const char *text;
    } quirks[] = {
        {!l->group, "reports no limits"},
        {p->direct, "driver opened directly, without a loader"},
        {!number_of(p, CL_DEVICE_COMPILER_AVAILABLE), "no compiler"},
        {!half && !hidden, "no float16 arithmetic"},
        {hidden, "no float16 arithmetic, which RUSTICL_FEATURES=fp16 may bring"},
        {!l->own_local && !l->cpu && !mesa, "local memory is main memory"},
        {l->local < 16 << 10, local},
        {l->group < 256, group},
        {l->largest < l->memory / 2, "buffers limited to less than half the memory"},
        {!(number_of(p, CL_DEVICE_QUEUE_PROPERTIES) & CL_QUEUE_PROFILING_ENABLE), "no timestamps"},
    };
    if (mesa)
        fv_gpu_check_driver_cache(out->quirks, "MESA_SHADER_CACHE_DIR", "mesa_shader_cache", NULL);
    if (strcmp(platform, "Portable Computing Language") == 0)
        fv_gpu_check_driver_cache(out->quirks, "POCL_CACHE_DIR", "pocl", NULL);
    for (size_t i = 0; i < sizeof quirks / sizeof *quirks; i++)
        if (quirks[i].there)
            fv_gpu_add_words(out->quirks, quirks[i].text);
}

void fv_cl_fill_info(fovea_device_info *out, int index, const fv_cl_place *p)
{
    fv_cl_limits limits;
    char version[64], driver[96];
    unsigned major = 0, minor = 0;
    fv_cl_read_limits(p, &limits);
    memset(out, 0, sizeof *out);
    snprintf(out->id, sizeof out->id, "cl:%d", index);
    fv_cl_device_text(p, CL_DEVICE_NAME, out->name, sizeof out->name);
    fv_cl_device_text(p, CL_DEVICE_VERSION, version, sizeof version);
    if (sscanf(version, "OpenCL %u.%u", &major, &minor) == 2)
        snprintf(out->features, sizeof out->features, "OpenCL %u.%u", major, minor);
    platform_text(p, CL_PLATFORM_NAME, driver, sizeof driver);
    fv_cl_device_text(p, CL_DRIVER_VERSION, version, sizeof version);
    snprintf(out->driver, sizeof out->driver, "%s %.31s", driver, version);
    out->units = limits.units;
    out->core_kinds = 1;
    out->memory = limits.memory;
    out->max_buffer = limits.largest;
    out->local_memory = limits.own_local ? limits.local : 0;
    out->group_limit = limits.group;
    out->int8 = fv_cl_has_extension(p, "cl_khr_integer_dot_product") ||
                fv_cl_has_extension(p, "cl_arm_integer_dot_product_accumulate_int8");
    list_quirks(out, p, &limits);
}

/* ---- identity ---- */

#ifndef CL_DEVICE_UUID_KHR
#define CL_DEVICE_UUID_KHR 0x106A
#define CL_DRIVER_UUID_KHR 0x106B
#endif

static size_t add_uuid(char *out, size_t size, const fv_cl_place *p, cl_device_info what)
{
    unsigned char uuid[16] = {0};
    if (size < 2 * sizeof uuid + 1 ||
        fv_cl.clGetDeviceInfo(p->device, what, sizeof uuid, uuid, NULL) != CL_SUCCESS)
        return 0;
    for (size_t i = 0; i < sizeof uuid; i++)
        snprintf(out + 2 * i, 3, "%02x", uuid[i]);
    out[2 * sizeof uuid] = '\n';
    out[2 * sizeof uuid + 1] = 0;
    return 2 * sizeof uuid + 1;
}

/* The library that contains the driver. A loader passes this call on to the platform's driver; a
 * driver that was opened directly handles it itself. Libraries that the driver loads in turn, such
 * as a compiler, show in its version strings only. */
static void driver_library(const fv_cl_place *p, char *out, size_t size)
{
    void *code = fv_cl_extension_function(p, "clIcdGetPlatformIDsKHR");
    if (!code)
        memcpy(&code, &fv_cl.clGetPlatformIDs, sizeof code);
    fv_os_library_of(code, out, size);
}

fovea_status fv_cl_identify(char **out, const fv_cl_place *p)
{
    static const cl_platform_info of_platform[] = {CL_PLATFORM_NAME, CL_PLATFORM_VENDOR,
                                                   CL_PLATFORM_VERSION};
    static const cl_device_info of_device[] = {
        CL_DEVICE_NAME,      CL_DEVICE_VENDOR,           CL_DEVICE_VERSION,
        CL_DRIVER_VERSION,   CL_DEVICE_OPENCL_C_VERSION, CL_DEVICE_PROFILE,
        CL_DEVICE_EXTENSIONS};
    const size_t size = 4 * TEXT;
    size_t n = 0;
    char *text;
    FV_TRY(fv_mem_alloc(&text, size, FV_MEM_DEVICE, "the device's identity"));
    for (size_t i = 0; i < sizeof of_platform / sizeof *of_platform; i++) {
        char line[512];
        platform_text(p, of_platform[i], line, sizeof line);
        n += (size_t)snprintf(text + n, size - n, "%s\n", line);
    }
    for (size_t i = 0; i < sizeof of_device / sizeof *of_device; i++) {
        fv_cl_device_text(p, of_device[i], text + n, TEXT / 2);
        n += strlen(text + n);
        text[n++] = '\n';
    }
    n += (size_t)snprintf(text + n, size - n, "%llu %u\n",
                          (unsigned long long)number_of(p, CL_DEVICE_VENDOR_ID),
                          (unsigned)number_of(p, CL_DEVICE_ADDRESS_BITS));
    if (fv_cl_has_extension(p, "cl_khr_device_uuid")) {
        n += add_uuid(text + n, size - n, p, CL_DEVICE_UUID_KHR);
        n += add_uuid(text + n, size - n, p, CL_DRIVER_UUID_KHR);
    }
    driver_library(p, text + n, 1024);
    *out = text;
    return FOVEA_OK;
}
