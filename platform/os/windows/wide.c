/* wide.c: converts text between UTF-8 and UTF-16, and errors of Windows to those of POSIX. */
#include "platform/os/windows/wide.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

wchar_t *fv_wide(const char *text)
{
    const int n = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
    wchar_t *out = n > 0 ? malloc((size_t)n * sizeof *out) : NULL;
    errno = n > 0 ? ENOMEM : EILSEQ;
    if (out)
        MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, out, n);
    return out;
}

char *fv_narrow(const wchar_t *text)
{
    const int n = WideCharToMultiByte(CP_UTF8, 0, text, -1, NULL, 0, NULL, NULL);
    char *out = n > 0 ? malloc((size_t)n) : NULL;
    errno = n > 0 ? ENOMEM : EILSEQ;
    if (out)
        WideCharToMultiByte(CP_UTF8, 0, text, -1, out, n, NULL, NULL);
    return out;
}

/* Returns the absolute path after the prefix for long paths; the caller frees it with free(). */
static wchar_t *prefixed(const wchar_t *path)
{
    static const wchar_t local[] = L"\\\\?\\", share[] = L"\\\\?\\UNC\\";
    const DWORD length = GetFullPathNameW(path, 0, NULL, NULL);
    const size_t lead = sizeof share / sizeof *share;
    wchar_t *whole = malloc(((size_t)length + lead) * sizeof *whole);
    if (!whole)
        return NULL;
    GetFullPathNameW(path, length, whole + lead, NULL);
    wchar_t *begin = whole + lead;
    const wchar_t *prefix = local;
    if (wcsncmp(begin, local, 4) == 0)
        prefix = L"";
    else if (begin[0] == '\\' && begin[1] == '\\')
        prefix = share, begin += 2;
    memmove(whole, prefix, wcslen(prefix) * sizeof *prefix);
    memmove(whole + wcslen(prefix), begin, (wcslen(begin) + 1) * sizeof *begin);
    return whole;
}

wchar_t *fv_wide_path(const char *path)
{
    wchar_t *wide = fv_wide(strcmp(path, "/dev/null") == 0 ? "NUL" : path);
    for (wchar_t *c = wide; c && *c; c++)
        if (*c == '/')
            *c = '\\';
    /* The limit for folders is 12 characters shorter, to leave space for the names of files. */
    if (wide && wcslen(wide) >= MAX_PATH - 12) {
        wchar_t *whole = prefixed(wide);
        free(wide);
        wide = whole;
    }
    return wide;
}

int fv_windows_failed(void)
{
    static const struct {
        DWORD code;
        int error;
    } known[] = {
        {ERROR_FILE_NOT_FOUND, ENOENT},    {ERROR_PATH_NOT_FOUND, ENOENT},
        {ERROR_INVALID_NAME, ENOENT},      {ERROR_BAD_NETPATH, ENOENT},
        {ERROR_ACCESS_DENIED, EACCES},     {ERROR_SHARING_VIOLATION, EACCES},
        {ERROR_USER_MAPPED_FILE, EACCES},  {ERROR_WRITE_PROTECT, EROFS},
        {ERROR_LOCK_VIOLATION, EAGAIN},    {ERROR_FILE_EXISTS, EEXIST},
        {ERROR_ALREADY_EXISTS, EEXIST},    {ERROR_DIR_NOT_EMPTY, ENOTEMPTY},
        {ERROR_DIRECTORY, ENOTDIR},        {ERROR_DISK_FULL, ENOSPC},
        {ERROR_NOT_SAME_DEVICE, EXDEV},    {ERROR_INVALID_HANDLE, EBADF},
        {ERROR_INVALID_PARAMETER, EINVAL}, {ERROR_NOT_ENOUGH_MEMORY, ENOMEM},
    };
    const DWORD code = GetLastError();
    errno = EIO;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].code == code)
            errno = known[i].error;
    return -1;
}
