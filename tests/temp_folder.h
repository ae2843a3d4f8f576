/* temp_folder.h: a temporary folder for a test program, made and removed by cmocka's group setup
 * and teardown. */
#ifndef FOVEA_TESTS_TEMP_FOLDER_H
#define FOVEA_TESTS_TEMP_FOLDER_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64];

/* Returns the path of `name` in the folder; valid until the next call. */
static const char *in_folder(const char *name)
{
    static char path[384];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/fovea_test_XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static void clear_folder(void)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.')
            unlink(in_folder(e->d_name));
    if (d)
        closedir(d);
}

static int remove_folder(void **state)
{
    (void)state;
    clear_folder();
    return rmdir(folder);
}

#endif
