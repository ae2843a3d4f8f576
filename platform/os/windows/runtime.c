/* runtime.c: implements the functions of the C library and the system in posix.h, dlfcn.h and
 * sys/utsname.h. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/utsname.h>

#include <windows.h>

#include "platform/os/windows/wide.h"

/* ---- the environment ---- */

/* Values that were returned are never freed, because callers of getenv do not say when they are
 * done. */
struct variable {
    struct variable *next;
    char *name, *value;
};
static struct variable *given;
static pthread_mutex_t given_lock = PTHREAD_MUTEX_INITIALIZER;

/* Returns the variable's value, to be freed with free(); NULL: it is not set. */
static char *read_variable(const char *name)
{
    wchar_t value[32768];
    wchar_t *wide = fv_wide(name);
    if (!wide)
        return NULL;
    SetLastError(NO_ERROR);
    const DWORD n = GetEnvironmentVariableW(wide, value, sizeof value / sizeof *value);
    const bool set = n > 0 || GetLastError() == NO_ERROR;
    free(wide);
    return set ? fv_narrow(value) : NULL;
}

static char *keep(const char *name, char *value)
{
    struct variable *v = given;
    while (v && (strcmp(v->name, name) != 0 || strcmp(v->value, value) != 0))
        v = v->next;
    if (v) {
        free(value);
        return v->value;
    }
    v = malloc(sizeof *v);
    if (v)
        *v = (struct variable){given, strdup(name), value};
    if (!v || !v->name) {
        free(v);
        free(value);
        return NULL;
    }
    given = v;
    return value;
}

char *fv_posix_getenv(const char *name)
{
    char *value = read_variable(name);
    if (!value && strcmp(name, "HOME") == 0)
        value = read_variable("USERPROFILE");
    if (!value)
        return NULL;
    pthread_mutex_lock(&given_lock);
    value = keep(name, value);
    pthread_mutex_unlock(&given_lock);
    return value;
}

static int set_variable(const char *name, const char *value)
{
    wchar_t *wide = fv_wide(name), *text = value ? fv_wide(value) : NULL;
    const BOOL good = wide && (text || !value) && SetEnvironmentVariableW(wide, text);
    free(wide);
    free(text);
    return good ? 0 : -1;
}

int fv_posix_setenv(const char *name, const char *value, int replace)
{
    char *old = replace ? NULL : read_variable(name);
    const bool there = old != NULL;
    free(old);
    return there ? 0 : set_variable(name, value);
}

int fv_posix_unsetenv(const char *name)
{
    return set_variable(name, NULL);
}

/* ---- the C library ---- */

ssize_t fv_posix_getline(char **line, size_t *capacity, FILE *from)
{
    size_t n = 0;
    for (int c; (c = getc(from)) != EOF;) {
        if (n + 2 > *capacity || !*line) {
            const size_t more = *line ? 2 * *capacity + 128 : 128;
            char *longer = realloc(*line, more);
            if (!longer)
                return -1;
            *line = longer;
            *capacity = more;
        }
        (*line)[n++] = (char)c;
        if (c == '\n')
            break;
    }
    if (n == 0)
        return -1;
    (*line)[n] = 0;
    return (ssize_t)n;
}

int fv_posix_getentropy(void *out, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned value;
        if (rand_s(&value) != 0) {
            errno = EIO;
            return -1;
        }
        ((unsigned char *)out)[i] = (unsigned char)value;
    }
    return 0;
}

long fv_posix_sysconf(int name)
{
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return (long)(name == _SC_PAGESIZE ? info.dwAllocationGranularity : info.dwNumberOfProcessors);
}

/* Sets a signal handler. The C library resets a handler when it calls it, and calls the handler of
 * Ctrl-C in a thread of its own. */
int fv_posix_sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
    if (number == SIGPIPE || number == SIGBUS)
        return 0;
    void (*old)(int) = signal(number, action->sa_handler);
    if (old == SIG_ERR)
        return -1;
    if (before)
        *before = (struct sigaction){old, SA_RESETHAND};
    return 0;
}

int uname(struct utsname *out)
{
    typedef LONG WINAPI version(OSVERSIONINFOW *);
    OSVERSIONINFOW v = {.dwOSVersionInfoSize = sizeof v};
    version *ask = (version *)(void *)GetProcAddress(GetModuleHandleW(L"ntdll"), "RtlGetVersion");
    if (!ask || ask(&v) != 0)
        return -1;
    snprintf(out->sysname, sizeof out->sysname, "Windows");
    snprintf(out->release, sizeof out->release, "%lu.%lu.%lu", v.dwMajorVersion, v.dwMinorVersion,
             v.dwBuildNumber);
    snprintf(out->machine, sizeof out->machine, sizeof(void *) == 8 ? "x86_64" : "x86");
    return 0;
}

/* ---- libraries ---- */

static _Thread_local char problem[320];

static void note(const char *name)
{
    wchar_t text[160] = L"";
    FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, GetLastError(),
                   0, text, sizeof text / sizeof *text, NULL);
    char *narrow = fv_narrow(text);
    if (narrow)
        narrow[strcspn(narrow, "\r\n")] = 0;
    snprintf(problem, sizeof problem, "%s: %s", name, narrow ? narrow : "cannot be opened");
    free(narrow);
}

void *dlopen(const char *name, int flags)
{
    (void)flags;
    if (!name)
        return GetModuleHandleW(NULL);
    wchar_t *wide = fv_wide(name);
    HMODULE library = wide ? LoadLibraryW(wide) : NULL;
    if (!library)
        note(name);
    free(wide);
    return library;
}

void *dlsym(void *library, const char *name)
{
    FARPROC found = GetProcAddress(library, name);
    void *out;
    if (!found)
        note(name);
    memcpy(&out, &found, sizeof out);
    return out;
}

int dlclose(void *library)
{
    return FreeLibrary(library) ? 0 : -1;
}

const char *dlerror(void)
{
    return problem;
}

int dladdr(const void *address, Dl_info *out)
{
    static _Thread_local char name[3 * MAX_PATH];
    wchar_t wide[MAX_PATH];
    HMODULE module;
    const DWORD how =
        GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
    if (!GetModuleHandleExW(how, address, &module) || !GetModuleFileNameW(module, wide, MAX_PATH) ||
        !WideCharToMultiByte(CP_UTF8, 0, wide, -1, name, sizeof name, NULL, NULL))
        return 0;
    out->dli_fname = name;
    return 1;
}
