/* hub_cache.c: names of models, and the cache that is shared with huggingface_hub. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/common/cli.h"
#include "cli/common/hub.h"
#include "json/json.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define ALPHANUMERIC LETTERS "0123456789"
#define PREFIX "models--"

/* ---- names ---- */

static bool has_ending(const char *name, size_t n)
{
    static const char *const endings[] = {".safetensors", ".json", ".bin",  ".pt",
                                          ".pth",         ".gguf", ".onnx", ".ckpt"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t m = strlen(endings[i]);
        if (n >= m && memcmp(name + n - m, endings[i], m) == 0)
            return true;
    }
    return false;
}

bool hub_is_name(const char *text)
{
    const size_t owner = strspn(text, ALPHANUMERIC "-_.");
    if (owner == 0 || *text == '.' || text[owner] != '/')
        return false;
    const char *name = text + owner + 1;
    const size_t n = strspn(name, ALPHANUMERIC "-_.");
    if (n == 0 || *name == '.' || has_ending(name, n))
        return false;
    const char *revision = name + n;
    if (!*revision)
        return true;
    const size_t r = strspn(revision + 1, ALPHANUMERIC "-_./");
    return *revision == '@' && r > 0 && !revision[1 + r] && revision[1] != '.' &&
           revision[1] != '/' && !strstr(revision, "..");
}

void hub_model_begin(hub_model *out, const char *name)
{
    const char *at = strchr(name, '@');
    const int n = at ? (int)(at - name) : (int)strlen(name);
    char *cache = hub_cache();
    *out = (hub_model){.name = cli_text("%.*s", n, name),
                       .revision = cli_text("%s", at ? at + 1 : HUB_REVISION)};
    const char *slash = strchr(out->name, '/');
    out->folder =
        cli_text("%s/" PREFIX "%.*s--%s", cache, (int)(slash - out->name), out->name, slash + 1);
    free(cache);
}

void hub_model_end(hub_model *m)
{
    free(m->name);
    free(m->revision);
    free(m->folder);
    *m = (hub_model){0};
}

/* ---- folders ---- */

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* Returns the path with the user's folder in place of a leading "~". */
static char *expanded(const char *path)
{
    const char *home = variable("HOME");
    return home && path[0] == '~' && (path[1] == '/' || !path[1]) ? cli_text("%s%s", home, path + 1)
                                                                  : cli_text("%s", path);
}

char *hub_home(void)
{
    const char *home = variable("HF_HOME"), *cache = variable("XDG_CACHE_HOME");
    if (home)
        return expanded(home);
    char *base = expanded(cache ? cache : "~/.cache");
    char *out = cli_text("%s/huggingface", base);
    free(base);
    return out;
}

char *hub_cache(void)
{
    const char *own = variable("HF_HUB_CACHE");
    if (!own)
        own = variable("HUGGINGFACE_HUB_CACHE");
    if (own)
        return expanded(own);
    char *home = hub_home();
    char *out = cli_text("%s/hub", home);
    free(home);
    return out;
}

bool hub_is_offline(void)
{
    static const char *const yes[] = {"1", "ON", "YES", "TRUE"};
    const char *value = variable("HF_HUB_OFFLINE");
    for (size_t i = 0; value && i < sizeof yes / sizeof *yes; i++)
        if (strcasecmp(value, yes[i]) == 0)
            return true;
    return false;
}

char *hub_snapshot_of(const hub_model *m, const char *commit)
{
    return cli_text("%s/snapshots/%s", m->folder, commit);
}

/* ---- models in the cache ---- */

static bool exists(const char *folder, const char *name)
{
    char *path = cli_text("%s/%s", folder, name);
    struct stat st;
    const bool there = stat(path, &st) == 0 && S_ISREG(st.st_mode);
    free(path);
    return there;
}

/* Returns whether a part of weights has a name that is safe to use as a path in the folder. */
static bool is_plain(const char *name)
{
    static const char ending[] = ".safetensors";
    const size_t n = strspn(name, ALPHANUMERIC "-_.");
    return n == strlen(name) && n > strlen(ending) && *name != '.' &&
           strcmp(name + n - strlen(ending), ending) == 0;
}

static bool listed(char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

int hub_parts(char ***names, size_t *n, const char *index)
{
    json_t *root, *part;
    const char *tensor;
    *names = NULL;
    *n = 0;
    CLI_TRY(cli_json_read(&root, index));
    json_t *map = json_object_get(root, "weight_map");
    int code = json_object_size(map) > 0 ? CLI_OK
                                         : cli_fail(CLI_INPUT, "%s: weight_map is missing", index);
    json_object_foreach(map, tensor, part) {
        const char *name = json_string_value(part);
        if (!code && (!name || !is_plain(name)))
            code = cli_fail(CLI_INPUT, "%s: weight_map does not name a file for %s", index, tensor);
        if (code || listed(*names, *n, name))
            continue;
        *names = cli_grow(*names, *n, sizeof **names);
        (*names)[(*n)++] = cli_text("%s", name);
    }
    *names = cli_grow(*names, *n, sizeof **names);
    (*names)[*n] = NULL;
    json_decref(root);
    return code;
}

bool hub_is_whole(const char *folder)
{
    if (!exists(folder, HUB_CONFIG))
        return false;
    if (exists(folder, HUB_WEIGHTS))
        return true;
    if (!exists(folder, HUB_INDEX))
        return false;
    char *index = cli_text("%s/%s", folder, HUB_INDEX), **part;
    size_t n;
    bool whole = hub_parts(&part, &n, index) == CLI_OK;
    for (size_t i = 0; i < n; i++)
        whole &= exists(folder, part[i]);
    cli_list_free(part);
    free(index);
    return whole;
}

/* Returns the commit that a revision of the cache refers to: that of the branch, or the revision
 * itself. */
static char *commit_of(const hub_model *m)
{
    char line[64] = "";
    char *path = cli_text("%s/refs/%s", m->folder, m->revision);
    FILE *f = fopen(path, "r");
    const bool read = f && fgets(line, sizeof line, f);
    if (f)
        fclose(f);
    free(path);
    line[strspn(line, ALPHANUMERIC)] = 0;
    return cli_text("%s", read && *line ? line : m->revision);
}

char *hub_find(const hub_model *m)
{
    char *commit = commit_of(m), *folder = hub_snapshot_of(m, commit);
    free(commit);
    if (hub_is_whole(folder))
        return folder;
    free(folder);
    return NULL;
}

void hub_each(void (*see)(void *ctx, const char *name, const char *folder), void *ctx)
{
    char *cache = hub_cache();
    struct dirent **entry = NULL;
    const int n = scandir(cache, &entry, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        const char *owner = entry[i]->d_name + strlen(PREFIX);
        const char *gap =
            strncmp(entry[i]->d_name, PREFIX, strlen(PREFIX)) == 0 ? strstr(owner, "--") : NULL;
        if (gap) {
            char *name = cli_text("%.*s/%s", (int)(gap - owner), owner, gap + 2);
            hub_model m;
            hub_model_begin(&m, name);
            char *folder = hub_find(&m);
            if (folder)
                see(ctx, name, folder);
            free(folder);
            hub_model_end(&m);
            free(name);
        }
        free(entry[i]);
    }
    free(entry);
    free(cache);
}
