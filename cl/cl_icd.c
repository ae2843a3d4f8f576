/* cl_icd.c: explains why a loader of OpenCL drivers does not find the driver that an .icd file
 * names. A loader leaves out a library that cannot be opened, without a message. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cl/cl_loader.h"
#include "platform/os/os.h"

struct words {
    char *text;
    size_t size;
};

static bool is_icd(const char *path)
{
    const size_t length = strlen(path);
    return length > 4 && strcmp(path + length - 4, ".icd") == 0;
}

/* Notes why a library cannot be opened. Libraries that the loader has opened are left alone, and
 * one that opens is never closed, since drivers may have threads of their own. */
static void check_library(const struct words *w, const char *icd, const char *library)
{
    const size_t used = strlen(w->text);
    if (dlopen(library, RTLD_LAZY | RTLD_NOLOAD) || dlopen(library, RTLD_LAZY | RTLD_LOCAL))
        return;
    const char *why = dlerror();
    snprintf(w->text + used, w->size - used, "; the driver that %s names cannot be opened: %.200s",
             icd, why ? why : library);
}

static fovea_status check_file(void *ctx, const char *path)
{
    enum { MOST = 4096 };
    void *data;
    uint64_t size;
    char library[MOST];
    if (!is_icd(path) || fv_os_read(path, MOST - 1, &data, &size) != FOVEA_OK)
        return FOVEA_OK;
    snprintf(library, sizeof library, "%.*s", (int)size, size ? (const char *)data : "");
    fv_mem_free(data);
    library[strcspn(library, " \t\r\n")] = 0;
    if (*library)
        check_library(ctx, fv_os_file_name(path), library);
    return FOVEA_OK;
}

void fv_cl_explain_drivers(char *out, size_t size)
{
    struct words w = {out, size};
    const char *vendors = getenv("OCL_ICD_VENDORS");
    if (!vendors || !*vendors)
        vendors = getenv("OPENCL_VENDOR_PATH");
    if (!vendors || !*vendors)
        vendors = "/etc/OpenCL/vendors";
    *out = 0;
    if (fv_os_look(vendors) == FV_OS_FOLDER)
        (void)fv_os_each_file(vendors, check_file, &w);
    else
        (void)check_file(&w, vendors);
}
