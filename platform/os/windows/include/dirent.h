/* dirent.h: POSIX functions that list folders, with names in UTF-8. */
#ifndef FOVEA_PLATFORM_OS_WINDOWS_DIRENT_H
#define FOVEA_PLATFORM_OS_WINDOWS_DIRENT_H

#undef NAME_MAX
#define NAME_MAX 780 /* bytes in UTF-8 of 260 characters */

struct dirent {
    char d_name[NAME_MAX + 1];
};
typedef struct fv_posix_dir DIR;

DIR *opendir(const char *path);
struct dirent *readdir(DIR *folder);
void rewinddir(DIR *folder);
int closedir(DIR *folder);
int alphasort(const struct dirent **a, const struct dirent **b);
int scandir(const char *path, struct dirent ***out, int (*select)(const struct dirent *),
            int (*compare)(const struct dirent **, const struct dirent **));

#endif
