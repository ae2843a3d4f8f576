/* sys/file.h: locks of whole files, exclusive ones alone. A second handle of the same process is
 * another owner, as flock has it; closing it unlocks. */
#ifndef FOVEA_PLATFORM_OS_WINDOWS_SYS_FILE_H
#define FOVEA_PLATFORM_OS_WINDOWS_SYS_FILE_H

#define LOCK_EX 2
#define LOCK_NB 4
int flock(int fd, int how); /* EAGAIN, ENOTSUP for a folder */
#undef EWOULDBLOCK
#define EWOULDBLOCK EAGAIN

#endif
