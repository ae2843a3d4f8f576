/* sys/file.h: exclusive locks of whole files. As with POSIX flock, a second handle of the same
 * process is another owner, and closing a handle unlocks. */
#ifndef FOVEA_PLATFORM_OS_WINDOWS_SYS_FILE_H
#define FOVEA_PLATFORM_OS_WINDOWS_SYS_FILE_H

#define LOCK_EX 2
#define LOCK_NB 4
int flock(int fd, int how); /* EAGAIN if it is locked; ENOTSUP for a folder */
#undef EWOULDBLOCK
#define EWOULDBLOCK EAGAIN

#endif
