/* dlfcn.h: POSIX functions that open libraries at run time. */
#ifndef FOVEA_PLATFORM_OS_WINDOWS_DLFCN_H
#define FOVEA_PLATFORM_OS_WINDOWS_DLFCN_H

#define RTLD_NOW 0
#define RTLD_LOCAL 0
#define RTLD_GLOBAL 0

typedef struct Dl_info {
    const char *dli_fname; /* valid until this thread's next call */
} Dl_info;

void *dlopen(const char *name, int flags); /* NULL: the program */
void *dlsym(void *library, const char *name);
int dlclose(void *library);
const char *dlerror(void);
int dladdr(const void *address, Dl_info *out);

#endif
