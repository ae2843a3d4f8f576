/* dlfcn.h: libraries that are opened at run time. */
#ifndef FOVEA_PLATFORM_OS_WINDOWS_DLFCN_H
#define FOVEA_PLATFORM_OS_WINDOWS_DLFCN_H

#define RTLD_NOW 0
#define RTLD_LOCAL 0
#define RTLD_GLOBAL 0

typedef struct Dl_info {
    const char *dli_fname; /* of this thread until its next call */
} Dl_info;

void *dlopen(const char *name, int flags); /* NULL: the program */
void *dlsym(void *library, const char *name);
int dlclose(void *library);
const char *dlerror(void);
int dladdr(const void *address, Dl_info *out);

#endif
