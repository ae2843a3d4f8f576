/* foreign.c: messages for a path that is a file of PyTorch, or a name on the Hugging Face hub,
 * instead of a model. */
#include "checkpoint/foreign.h"

#include <stdbool.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "checkpoint/paths.h"
#include "platform/os/os.h"

#define ALPHANUMERIC "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

/* ---- files of PyTorch ---- */

/* Finds whether `folder` has a configuration. Without one, `fovea convert` must be told the
 * architecture. */
static fovea_status describes(bool *out, const char *folder)
{
    static const char *const names[] = {"config.json", "open_clip_config.json"};
    *out = false;
    for (size_t i = 0; i < sizeof names / sizeof *names && !*out; i++) {
        char *path;
        FV_TRY(fv_path_in(&path, folder, names[i]));
        *out = fv_os_look(path) != FV_OS_NOTHING;
        fv_mem_free(path);
    }
    return FOVEA_OK;
}

static fovea_status fail_with_command(const char *path, const char *out, bool described)
{
    return fv_fail(FOVEA_EFORMAT,
                   "%s is in PyTorch's own format, which is not supported; \"fovea convert %s "
                   "%s%s\" converts it to a model in %s, and runs no code from the file",
                   path, path, out, described ? "" : " --architecture NAME", out);
}

/* The suggested command converts into the file's own folder if that folder has a configuration, or
 * else into a new folder named after the file. */
fovea_status fv_foreign_fail_file(const char *path)
{
    char *folder, *stem = NULL;
    bool described = false;
    FV_TRY(fv_path_folder(&folder, path));
    fovea_status status = describes(&described, folder);
    FV_THEN(status, fv_mem_text(&stem, path, FV_MEM_MODEL));
    if (status == FOVEA_OK) {
        char *dot = strrchr(stem, '.'), *slash = strrchr(stem, '/');
        if (dot && dot > stem && (!slash || dot > slash + 1))
            *dot = 0;
        const bool named = strcmp(stem, path) != 0;
        status = fail_with_command(path, described ? folder : named ? stem : "FOLDER", described);
    }
    fv_mem_free(stem);
    fv_mem_free(folder);
    return status;
}

/* Usual names of PyTorch checkpoints on hubs, in the order in which `fovea convert` looks for them.
 */
static const char *const usual[] = {"pytorch_model.bin", "pytorch_model.bin.index.json",
                                    "open_clip_pytorch_model.bin"};
static const char *const endings[] = {".bin", ".pth", ".pt", ".ckpt", ".pth.tar", NULL};

static bool ends_with_one(const char *path, const char *const *one)
{
    while (*one && !fv_ends_with(path, *one))
        one++;
    return *one != NULL;
}

/* Keeps in *ctx the alphabetically first file with the extension of a PyTorch file. */
static fovea_status keep_first(void *ctx, const char *path)
{
    char **first = ctx;
    if (!ends_with_one(path, endings) || (*first && strcmp(*first, path) < 0))
        return FOVEA_OK;
    fv_mem_free(*first);
    *first = NULL;
    return fv_mem_text(first, path, FV_MEM_MODEL);
}

/* Finds a PyTorch checkpoint in a folder, or sets *out to NULL. */
static fovea_status find_checkpoint(char **out, const char *folder)
{
    *out = NULL;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        FV_TRY(fv_path_in(out, folder, usual[i]));
        if (fv_os_look(*out) != FV_OS_NOTHING)
            return FOVEA_OK;
        fv_mem_free(*out);
        *out = NULL;
    }
    return fv_os_each_file(folder, keep_first, out);
}

fovea_status fv_foreign_fail_folder(const char *folder)
{
    char *file;
    bool described = false;
    fovea_status status = find_checkpoint(&file, folder);
    FV_THEN(status, describes(&described, folder));
    if (status == FOVEA_OK)
        status =
            file ? fail_with_command(file, folder, described)
                 : fv_fail(FOVEA_EIO,
                           "%s contains neither model.safetensors nor model.safetensors.index.json",
                           folder);
    fv_mem_free(file);
    return status;
}

/* ---- names of the hub ---- */

/* Returns whether a path may be OWNER/NAME on the hub: letters, digits and "-_.". A path that
 * begins with a dot, or has a file extension, is not such a name. */
static bool is_hub_name(const char *path)
{
    static const char owner[] = ALPHANUMERIC "-_", name[] = ALPHANUMERIC "-_.";
    static const char *const files[] = {".safetensors", ".json", NULL};
    if (ends_with_one(path, files) || ends_with_one(path, endings))
        return false;
    const size_t n = strspn(path, owner);
    return n > 0 && path[n] == '/' && path[n + 1] && path[n + 1] != '.' &&
           !path[n + 1 + strspn(path + n + 1, name)];
}

fovea_status fv_foreign_fail_nothing(const char *path)
{
    if (is_hub_name(path))
        return fv_fail(FOVEA_EIO,
                       "%s: no such file or folder; to use a model of the Hugging Face hub, "
                       "download config.json, model.safetensors and preprocessor_config.json into "
                       "a folder, from https://huggingface.co/%s/resolve/main/FILE",
                       path, path);
    return fv_fail(FOVEA_EIO,
                   "%s: no such file or folder; a model is a folder with config.json and "
                   "model.safetensors, or synthetic:NAME",
                   path);
}
