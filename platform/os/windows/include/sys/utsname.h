/* sys/utsname.h: the system's name and version. */
#ifndef FOVEA_PLATFORM_OS_WINDOWS_SYS_UTSNAME_H
#define FOVEA_PLATFORM_OS_WINDOWS_SYS_UTSNAME_H

struct utsname {
    char sysname[16], release[32], machine[16];
};
int uname(struct utsname *out);

#endif
