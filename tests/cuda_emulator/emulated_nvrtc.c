/* emulated_nvrtc.c: NVRTC for the emulated driver. It compiles CUDA C++ for this processor, with
 * the definitions of emulated_cuda.h and emulated_ptx.h.
 *
 * The text is preprocessed first, to find its kernels; each gets an entry in the module's table.
 * The environment variable EMULATED_KEEP names a folder that keeps all texts. */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cuda_emulator/emulated_driver.h"

enum { WRONG_INPUT = 3, WRONG_PROGRAM = 4, WRONG_OPTION = 5, FAILED = 6, INTERNAL = 11 };

struct _nvrtcProgram {
    char *text, *log;
    emulated_image *image; /* and the shared object after it */
    size_t size;
};

static nvrtcResult enter(const char *name)
{
    const CUresult error = hostile_enter(name);
    return error == CUDA_SUCCESS               ? NVRTC_SUCCESS
           : error == CUDA_ERROR_OUT_OF_MEMORY ? NVRTC_ERROR_OUT_OF_MEMORY
                                               : INTERNAL;
}
#define ENTER_NVRTC(name)                                                                          \
    do {                                                                                           \
        const nvrtcResult error_ = enter(#name);                                                   \
        if (error_ != NVRTC_SUCCESS)                                                               \
            return error_;                                                                         \
    } while (0)

/* ---- files ---- */

static char *read_all(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    long n = 0;
    if (f && fseek(f, 0, SEEK_END) == 0)
        n = ftell(f);
    char *data = calloc((size_t)n + 1, 1);
    if (!f || !data || fseek(f, 0, SEEK_SET) != 0 || fread(data, 1, (size_t)n, f) != (size_t)n) {
        free(data);
        data = NULL;
    }
    if (f)
        fclose(f);
    *size = (size_t)n;
    return data;
}

static void write_all(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        abort();
}

/* ---- the compiler ---- */

typedef struct command {
    const char *word[96];
    int words;
} command;

static void add(command *c, const char *word)
{
    if (c->words + 1 == (int)(sizeof c->word / sizeof *c->word))
        abort();
    c->word[c->words++] = word;
    c->word[c->words] = NULL;
}

static bool run(const command *c, const char *log)
{
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status = -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    const bool started = posix_spawnp(&child, c->word[0], &actions, NULL,
                                      (char *const *)(uintptr_t)c->word, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    if (started)
        waitpid(child, &status, 0);
    return started && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- entries ---- */

/* Returns the name of the function declared at `at`, and its maximum number of threads per block.
 */
static const char *name_of(const char *at, int *length, unsigned *bound)
{
    static const char mark[] = "emulated_bound(";
    const char *end = strpbrk(at, ";{");
    const char *bounded = strstr(at, mark);
    *bound = bounded && bounded < end ? (unsigned)strtoul(bounded + strlen(mark), NULL, 10) : 0;
    for (;;) {
        while (*at == ' ' || *at == '\n')
            at++;
        if (strncmp(at, "__attribute__", strlen("__attribute__")) == 0) {
            at += strcspn(at, "(");
            for (int depth = 1; depth;)
                depth += *++at == '(' ? 1 : *at == ')' ? -1 : 0;
            at++;
            continue;
        }
        *length =
            (int)strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
        if (*length == 0)
            return NULL;
        if (at[*length + strspn(at + *length, " \n")] == '(')
            return at;
        at += *length;
    }
}

/* Returns the whole program: the preprocessed text and its table. */
static char *with_entries(const char *text)
{
    static const char mark[] = "__attribute__((emulated_global))";
    char *out = NULL;
    size_t size;
    FILE *f = open_memstream(&out, &size);
    fprintf(f,
            "%s\nextern \"C\" {\n__attribute__((visibility(\"default\"))) extern const "
            "emulated_entry emulated_entries[];\n}\nconst emulated_entry emulated_entries[] = {\n",
            text);
    for (const char *at = text; (at = strstr(at, mark));) {
        int length;
        unsigned bound;
        at += strlen(mark);
        const char *name = name_of(at, &length, &bound);
        if (name)
            fprintf(f, "emulated_entry_of<decltype(%.*s), %.*s>(\"%.*s\", %u),\n", length, name,
                    length, name, length, name, bound);
    }
    fprintf(f, "{}};\n");
    fclose(f);
    return out;
}

/* ---- programs ---- */

static const char frame[] = "#include \"tests/cuda_emulator/emulated_cuda.h\"\n"
                            "#include \"tests/cuda_emulator/emulated_ptx.h\"\n"
                            "namespace {\n#line 1 \"program\"\n";

static const char *const compile_words[] = {EMULATED_CXX,
                                            "-std=c++17",
                                            "-O1",
                                            "-march=native",
                                            "-ffp-contract=fast",
                                            "-fno-math-errno",
                                            "-fPIC",
                                            "-shared",
                                            "-nostdlib",
                                            "-fvisibility=hidden",
                                            "-fno-gnu-unique",
                                            "-fno-exceptions",
                                            "-fno-rtti",
                                            "-fno-strict-aliasing",
                                            "-fno-threadsafe-statics",
                                            "-fsanitize=alignment,bounds",
                                            "-fno-sanitize-recover=all",
                                            "-w",
                                            NULL};

/* Parses an architecture such as "--gpu-architecture=sm_80". Returns false for an option that NVRTC
 * does not know. */
static bool take_option(const char *option, command *to, emulated_image *image)
{
    static const char *const known[] = {"-default-device", "-std=c++17", "--std=c++17", "-w",
                                        "--fmad=true",     "-lineinfo"};
    static const char architecture[] = "--gpu-architecture=";
    if (strncmp(option, "-D", 2) == 0) {
        add(to, option);
        return true;
    }
    if (strncmp(option, architecture, strlen(architecture)) == 0) {
        const char *name = option + strlen(architecture);
        image->exact = strncmp(name, "sm_", 3) == 0;
        image->sm = atoi(name + strcspn(name, "0123456789"));
        return true;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(option, known[i]) == 0)
            return true;
    return false;
}

typedef struct paths {
    char folder[32], text[64], plain[64], object[64], log[64];
} paths;

static bool preprocess(const command *options, const paths *p, int sm)
{
    char define[32];
    command c = {.words = 0};
    snprintf(define, sizeof define, "-D__CUDA_ARCH__=%d", 10 * sm);
    add(&c, EMULATED_CXX);
    add(&c, "-E");
    add(&c, "-std=c++17");
    add(&c, "-I" EMULATED_HEADERS);
    add(&c, define);
    for (int i = 0; i < options->words; i++)
        add(&c, options->word[i]);
    add(&c, p->text);
    add(&c, "-o");
    add(&c, p->plain);
    return run(&c, p->log);
}

static bool compile(const paths *p)
{
    command c = {.words = 0};
    for (const char *const *w = compile_words; *w; w++)
        add(&c, *w);
    add(&c, p->plain);
    add(&c, "-o");
    add(&c, p->object);
    add(&c, "-lm");
    add(&c, "-lgcc");
    return run(&c, p->log);
}

static bool build(nvrtcProgram program, const command *options, const paths *p, int sm)
{
    size_t size;
    write_all(p->text, program->text);
    if (!preprocess(options, p, sm))
        return false;
    char *plain = read_all(p->plain, &size);
    char *whole = with_entries(plain);
    write_all(p->plain, whole);
    free(plain);
    free(whole);
    return compile(p);
}

static void take_image(nvrtcProgram program, const paths *p, emulated_image header)
{
    size_t size;
    char *data = read_all(p->object, &size);
    if (!data)
        abort();
    header.size = size;
    header.sum = emulated_sum(data, size);
    program->size = sizeof header + size;
    program->image = malloc(program->size);
    if (!program->image)
        abort();
    *program->image = header;
    memcpy(program->image + 1, data, size);
    free(data);
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char *const *options)
{
    emulated_image header = {.magic = EMULATED_MAGIC, .sm = 75};
    command defined = {.words = 0};
    paths p = {.folder = "/tmp/fovea_nvrtc_XXXXXX"};
    const char *keep = getenv("EMULATED_KEEP");
    size_t ignored;
    ENTER_NVRTC(nvrtcCompileProgram);
    for (int i = 0; i < count; i++)
        if (!take_option(options[i], &defined, &header)) {
            fprintf(stderr, "emulated NVRTC: no option is called %s\n", options[i]);
            return WRONG_OPTION;
        }
    if (!hostile_lie(EMULATED_LIE_build, 1))
        return FAILED;
    if (!mkdtemp(p.folder))
        return INTERNAL;
    snprintf(p.text, sizeof p.text, "%s/program.cpp", p.folder);
    snprintf(p.plain, sizeof p.plain, "%s/program.ii", p.folder);
    snprintf(p.object, sizeof p.object, "%s/program.so", p.folder);
    snprintf(p.log, sizeof p.log, "%s/log", p.folder);
    const bool good = build(program, &defined, &p, header.sm);
    free(program->log);
    program->log = read_all(p.log, &ignored);
    if (good)
        take_image(program, &p, header);
    if (keep && *keep) {
        char to[512];
        snprintf(to, sizeof to, "%s/%s", keep, strrchr(p.folder, '/') + 1);
        if (rename(p.folder, to) == 0)
            return good ? NVRTC_SUCCESS : FAILED;
    }
    unlink(p.text);
    unlink(p.plain);
    unlink(p.object);
    unlink(p.log);
    rmdir(p.folder);
    return good ? NVRTC_SUCCESS : FAILED;
}

nvrtcResult nvrtcVersion(int *major, int *minor)
{
    ENTER_NVRTC(nvrtcVersion);
    *major = (int)hostile_lie(EMULATED_LIE_version, 13000) / 1000;
    *minor = 0;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *text, const char *name,
                               int headers, const char *const *header, const char *const *include)
{
    (void)name, (void)header, (void)include;
    ENTER_NVRTC(nvrtcCreateProgram);
    if (headers)
        return WRONG_INPUT;
    nvrtcProgram p = calloc(1, sizeof *p);
    if (!p || asprintf(&p->text, "%s%s\n}\n", frame, text) < 0)
        abort();
    pthread_mutex_lock(&hostile_lock);
    hostile_born(EMULATED_PROGRAM, p);
    pthread_mutex_unlock(&hostile_lock);
    *program = p;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program)
{
    nvrtcProgram p = *program;
    pthread_mutex_lock(&hostile_lock);
    const bool alive = hostile_dies(EMULATED_PROGRAM, p);
    pthread_mutex_unlock(&hostile_lock);
    if (!alive)
        return WRONG_PROGRAM;
    free(p->text);
    free(p->log);
    free(p->image);
    free(p);
    *program = NULL;
    return NVRTC_SUCCESS;
}

/* ---- results ---- */

static nvrtcResult size_of(nvrtcProgram p, bool exact, size_t *size)
{
    *size = p->image && p->image->exact == exact ? p->size : 0;
    return p->image ? NVRTC_SUCCESS : WRONG_PROGRAM;
}

static nvrtcResult copy_to(nvrtcProgram p, bool exact, char *out)
{
    if (!p->image || p->image->exact != exact)
        return WRONG_PROGRAM;
    memcpy(out, p->image, p->size);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *size)
{
    ENTER_NVRTC(nvrtcGetCUBINSize);
    return size_of(program, true, size);
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *cubin)
{
    ENTER_NVRTC(nvrtcGetCUBIN);
    return copy_to(program, true, cubin);
}

/* Not real PTX, but the emulated driver loads it like PTX. */
nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t *size)
{
    ENTER_NVRTC(nvrtcGetPTXSize);
    return size_of(program, false, size);
}

nvrtcResult nvrtcGetPTX(nvrtcProgram program, char *ptx)
{
    ENTER_NVRTC(nvrtcGetPTX);
    return copy_to(program, false, ptx);
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *size)
{
    ENTER_NVRTC(nvrtcGetProgramLogSize);
    *size = (program->log ? strlen(program->log) : 0) + 1;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *log)
{
    ENTER_NVRTC(nvrtcGetProgramLog);
    strcpy(log, program->log ? program->log : "");
    return NVRTC_SUCCESS;
}

/* The architectures of CUDA 12 and 13. */
static const int architectures[] = {50, 52, 53, 60, 61, 62, 70,  72,
                                    75, 80, 86, 87, 89, 90, 100, 120};

static int first_architecture(void)
{
    return hostile_lie(EMULATED_LIE_version, 13000) >= 13000 ? 8 : 0;
}

nvrtcResult nvrtcGetNumSupportedArchs(int *count)
{
    ENTER_NVRTC(nvrtcGetNumSupportedArchs);
    *count = (int)(sizeof architectures / sizeof *architectures) - first_architecture();
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetSupportedArchs(int *archs)
{
    ENTER_NVRTC(nvrtcGetSupportedArchs);
    memcpy(archs, architectures + first_architecture(),
           sizeof architectures - (size_t)first_architecture() * sizeof *architectures);
    return NVRTC_SUCCESS;
}
