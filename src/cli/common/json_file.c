/* json_file.c: reads JSON files that users pass to the program. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/cli.h"
#include "json/json.h"

/* Reads the whole file. Returns NULL on failure, with the reason in errno. */
static char *read_all(size_t *size, const char *path)
{
    size_t capacity = 1 << 16;
    FILE *f = fopen(path, "rb");
    char *text = f ? cli_alloc(capacity, 1) : NULL;
    *size = 0;
    for (size_t got; f && text && (got = fread(text + *size, 1, capacity - *size, f)) > 0;) {
        *size += got;
        if (*size == capacity) {
            char *more = realloc(text, capacity *= 2);
            if (!more)
                free(text);
            text = more;
        }
    }
    if (f && ferror(f)) {
        free(text);
        text = NULL;
    }
    if (f)
        fclose(f);
    return text;
}

int cli_json_read(json_t **out, const char *path)
{
    fv_json_error error;
    size_t size;
    errno = 0;
    char *text = read_all(&size, path);
    if (!text)
        return cli_fail(CLI_INPUT, "%s: %s", path, strerror(errno));
    *out = fv_json_parse(text, size, 0, &error);
    free(text);
    return *out ? CLI_OK : cli_fail(CLI_INPUT, "%s: %s", path, error.text);
}
