/* test_picture_pixels.c: the pixels of small files of every format that the program reads are those
 * that Pillow reads from them; files are refused with a reason. tests/data/make_picture_files.py
 * makes the files, and documents what is stored with them.
 *
 *     test_picture_pixels picture_files.safetensors [FORMAT...]
 *
 * FORMAT: what the program was built with besides BMP and PNM: jpeg, png, tiff, webp.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/common/cli.h"

enum { ROW_STEP = 100 }; /* for pictures of which only some rows are stored */

static const char *file;
static char **formats;
static char said[4096], path[] = "/tmp/fovea-picture-XXXXXX";

/* Replacements for functions of main.c. */
void cli_tell(const char *format, ...)
{
    (void)format;
}

int cli_fail(int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(said, sizeof said, format, args);
    va_end(args);
    return code;
}

int cli_check(fovea_status status)
{
    return (int)status;
}

static bool was_built(const char *name)
{
    static const char *const libraries[] = {"jpeg", "png", "tiff", "webp"};
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        if (strncmp(name, libraries[i], strlen(libraries[i])) != 0)
            continue;
        for (char **f = formats; *f; f++)
            if (strcmp(*f, libraries[i]) == 0)
                return true;
        return false;
    }
    return true;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static bool find(const fovea_tensors *t, const char *name, const char *more, fovea_tensor *out)
{
    char text[256];
    snprintf(text, sizeof text, "%s%s", name, more);
    return fovea_tensors_find(t, text, out);
}

/* Returns NULL if the image equals the tensor, otherwise the difference. */
static const char *compare(const cli_image *image, const fovea_tensor *want, size_t step)
{
    const size_t row = (size_t)image->width * 3;
    static char text[128];
    if (image->width != want->shape[1] ||
        (step == 1 ? image->height != want->shape[0]
                   : (image->height + step - 1) / step != want->shape[0]))
        return "another size";
    for (size_t i = 0; i < want->size; i++) {
        const size_t at = i / row * step * row + i % row;
        const int wanted = ((const uint8_t *)want->data)[i];
        if (image->rgb[at] == wanted)
            continue;
        snprintf(text, sizeof text, "%d for %d at row %zu, column %zu, channel %zu", image->rgb[at],
                 wanted, at / row, at % row / 3, at % 3);
        return text;
    }
    return NULL;
}

static size_t check_one(const fovea_tensors *all, const fovea_tensor *data)
{
    fovea_tensor rgb, words;
    cli_image image;
    const char *problem = NULL;
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fwrite(data->data, 1, data->size, f);
    fclose(f);
    *said = 0;
    const int code = cli_image_read(&image, path);
    if (find(all, data->name, ".words", &words)) {
        char wanted[128];
        snprintf(wanted, sizeof wanted, "%.*s", (int)words.size, (const char *)words.data);
        /* "... cut": any message of the library is accepted */
        problem = !code                                                 ? "read"
                  : !ends_with(wanted, " cut") && !strstr(said, wanted) ? said
                                                                        : NULL;
    } else {
        const size_t step = find(all, data->name, ".rgb", &rgb) ? 1 : ROW_STEP;
        assert_true(step == 1 || find(all, data->name, ".rows", &rgb));
        problem = code ? said : compare(&image, &rgb, step);
    }
    if (problem)
        print_error("%s: %s\n", data->name, problem);
    cli_image_free(&image);
    return problem != NULL;
}

static void every_file(void **state)
{
    (void)state;
    fovea_tensors *all;
    fovea_tensor t;
    size_t wrong = 0, checked = 0;
    assert_int_equal(fovea_tensors_open(&all, file), FOVEA_OK);
    for (size_t i = 0; fovea_tensors_get(all, i, &t); i++) {
        const char *const other[] = {".rgb", ".rows", ".words"};
        bool is_file = was_built(t.name);
        for (size_t k = 0; k < 3; k++)
            is_file &= !ends_with(t.name, other[k]);
        if (!is_file)
            continue;
        checked++;
        wrong += check_one(all, &t);
    }
    fovea_tensors_close(all);
    print_message("%zu files\n", checked);
    assert_true(checked > 50);
    assert_int_equal(wrong, 0);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 1;
    file = argv[1];
    formats = argv + 2;
    const int made = mkstemp(path);
    if (made < 0)
        return 1;
    close(made);
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_file)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove(path);
    return failed;
}
