/* test_safetensors.c: tests that tensor files are read as they were written, and that broken files
 * are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "checkpoint/safetensors.h"
#include "tests/temp_folder.h"

/* A file in memory: header text and `data` bytes of zeros. */
static size_t build(char *out, const char *header, size_t data)
{
    const size_t length = strlen(header);
    memset(out, 0, 8 + length + data);
    for (int i = 0; i < 8; i++)
        out[i] = (char)(length >> 8 * i & 255);
    memcpy(out + 8, header, length);
    return 8 + length + data;
}

static fovea_status parse(const char *header, size_t data, uint32_t *count)
{
    static char bytes[4096];
    fv_safetensors *file = NULL;
    const size_t size = build(bytes, header, data);
    const fovea_status status = fv_safetensors_parse(&file, "file", bytes, size);
    if (status == FOVEA_OK && count)
        *count = file->count;
    fv_safetensors_close(file);
    return status;
}

#define TENSOR(name, dtype, shape, from, to)                                                       \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]" \
    "}"

static void refuses_broken_headers(void **state)
{
    static const struct {
        const char *header;
        size_t data;
        const char *says;
    } cases[] = {
        {"", 0, "JSON"},
        {"[]", 0, "object"},
        {"{", 0, "JSON"},
        {"{\"a\":1}", 0, "missing"},
        {"{\"a\":{}}", 0, "missing"},
        {"{" TENSOR("a", "F32", "[1]", "0", "4") "," TENSOR("a", "F32", "[1]", "4", "8") "}", 8,
         "JSON"},
        {"{" TENSOR("a", "F31", "[1]", "0", "4") "}", 4, "F31"},
        {"{" TENSOR("a", "F32", "[-1]", "0", "4") "}", 4, "natural"},
        {"{" TENSOR("a", "F32", "[1.0]", "0", "4") "}", 4, "natural"},
        {"{" TENSOR("a", "F32", "[1]", "4", "0") "}", 4, "range"},
        {"{" TENSOR("a", "F32", "[1]", "-4", "0") "}", 4, "range"},
        {"{" TENSOR("a", "F32", "[2]", "0", "8") "}", 4, "truncated"},
        {"{" TENSOR("a", "F32", "[2]", "0", "4") "}", 4, "differ"},
        {"{" TENSOR("a", "F32", "[1]", "0", "4") "}", 8, "after the last"},
        {"{" TENSOR("a", "F32", "[1]", "4", "8") "}", 8, "gap"},
        {"{" TENSOR("a", "F32", "[2]", "0", "8") "," TENSOR("b", "F32", "[1]", "4", "8") "}", 8,
         "overlaps"},
        {"{" TENSOR("a", "F32", "[2]", "0", "8") "," TENSOR("b", "F32", "[2]", "0", "8") "}", 8,
         "overlaps"},
        {"{" TENSOR("a", "F32", "[1,1,1,1,1,1,1,1,1]", "0", "4") "}", 4, "8 dimensions"},
        /* products that overflow to 0, to the right size, and before a zero */
        {"{" TENSOR("a", "F32", "[4294967296,4294967296]", "0", "0") "}", 0, "overflows"},
        {"{" TENSOR("a", "F32", "[4611686018427387905]", "0", "4") "}", 4, "overflows"},
        {"{" TENSOR("a", "F32", "[0,9223372036854775807,9223372036854775807]", "0", "0") "}", 0,
         "overflows"},
        {"{" TENSOR("a", "F32", "[99999999999999999999]", "0", "4") "}", 4, "not a natural number"},
        {"{" TENSOR("a", "F32", "[1]", "0", "4") ",\"__metadata__\":{\"k\":1}}", 4, "__metadata__"},
        {"{" TENSOR("a", "F32", "[1]", "0", "4") ",\"__metadata__\":[]}", 4, "__metadata__"},
        {"{" TENSOR("a\\n", "F32", "[1]", "0", "4") "}", 4, "control"},
        {"{\"a\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"
         "}",
         0, "nested"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const fovea_status status = parse(cases[i].header, cases[i].data, NULL);
        if (status != FOVEA_EFORMAT || !strstr(fovea_error(), cases[i].says))
            fail_msg("%s: %d, %s", cases[i].header, status, fovea_error());
    }
}

static void accepts_what_is_legal(void **state)
{
    uint32_t count;
    (void)state;
    assert_int_equal(parse("{}", 0, &count), FOVEA_OK);
    assert_int_equal(count, 0);
    assert_int_equal(parse("{\"__metadata__\":{\"k\":\"v\"}}   ", 0, &count), FOVEA_OK);
    assert_int_equal(parse("{" TENSOR("s", "F64", "[]", "0", "8") "}", 8, &count), FOVEA_OK);
    assert_int_equal(
        parse("{" TENSOR("b", "U8", "[3]", "4", "7") "," TENSOR(
                  "z", "F32", "[0,7]", "4", "4") "," TENSOR("a", "F32", "[1]", "0", "4") "}",
              7, &count),
        FOVEA_OK);
    assert_int_equal(count, 3);
}

static void refuses_every_truncation(void **state)
{
    static const char header[] =
        "{" TENSOR("a", "F32", "[1]", "0", "4") "," TENSOR("b", "U8", "[3]", "4", "7") "}";
    char bytes[256];
    const size_t size = build(bytes, header, 7);
    (void)state;
    for (size_t n = 0; n <= size; n++) {
        fv_safetensors *file = NULL;
        char *exact = malloc(
            n ? n : 1); /* an exact allocation, so that a sanitizer detects reads beyond the end */
        assert_non_null(exact);
        memcpy(exact, bytes, n);
        const fovea_status status = fv_safetensors_parse(&file, "file", exact, n);
        assert_int_equal(status, n == size ? FOVEA_OK : FOVEA_EFORMAT);
        fv_safetensors_close(file);
        free(exact);
    }
    memset(bytes, 0xff, 8); /* a header of 2^64 - 1 bytes */
    fv_safetensors *file = NULL;
    assert_int_equal(fv_safetensors_parse(&file, "file", bytes, size), FOVEA_EFORMAT);
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0\n";
    assert_int_equal(fv_safetensors_parse(&file, "file", pointer, sizeof pointer - 1),
                     FOVEA_EFORMAT);
    assert_non_null(strstr(fovea_error(), "git lfs pull"));
}

static void refuses_what_is_no_file(void **state)
{
    fovea_tensors *file = NULL;
    (void)state;
    assert_int_equal(fovea_tensors_open(&file, in_folder("none")), FOVEA_EIO);
    assert_non_null(strstr(fovea_error(), "none"));
    assert_int_equal(fovea_tensors_open(&file, folder), FOVEA_EIO);
    assert_int_equal(fovea_tensors_open(&file, "/dev/null"), FOVEA_EIO);
    assert_null(file);
}

static void reads_what_was_written(void **state)
{
    static const float f32[6] = {1, -2.5f, 3e38f, 1e-40f, 0, -0.0f};
    static const uint16_t f16[5] = {0x3c00, 0xc000, 0x7bff, 0x0001, 0xfc00};
    static const float f16_values[5] = {1, -2, 65504, 5.9604645e-8f, -1.0f / 0.0f};
    static const uint16_t bf16[2] = {0x3f80, 0xc040};
    static const double f64[1] = {0.1};
    static const int64_t i64[2] = {-7, 1 << 20};
    static const int8_t i8[3] = {-128, 0, 127};
    static const uint8_t u8[1] = {255};
    const fovea_tensor tensors[] = {
        {.name = "u8", .dtype = "U8", .rank = 0, .data = u8, .size = 1},
        {.name = "f32", .dtype = "F32", .rank = 2, .shape = {2, 3}, .data = f32, .size = 24},
        {.name = "f16", .dtype = "F16", .rank = 1, .shape = {5}, .data = f16, .size = 10},
        {.name = "bf16", .dtype = "BF16", .rank = 1, .shape = {2}, .data = bf16, .size = 4},
        {.name = "f64", .dtype = "F64", .rank = 1, .shape = {1}, .data = f64, .size = 8},
        {.name = "i64", .dtype = "I64", .rank = 1, .shape = {2}, .data = i64, .size = 16},
        {.name = "i8", .dtype = "I8", .rank = 1, .shape = {3}, .data = i8, .size = 3},
        {.name = "none", .dtype = "F32", .rank = 2, .shape = {0, 4}, .size = 0},
        {.name = "f8", .dtype = "F8_E4M3", .rank = 1, .shape = {1}, .data = u8, .size = 1},
    };
    const size_t n = sizeof tensors / sizeof *tensors;
    static const char *const metadata[][2] = {{"format", "pt"}, {"note", "ä \" \\"}};
    fovea_tensors *file;
    fovea_tensor t;
    float out[6];
    (void)state;
    assert_int_equal(fovea_tensors_write(in_folder("a.safetensors"), tensors, n, metadata, 2),
                     FOVEA_OK);
    assert_int_equal(fovea_tensors_open(&file, in_folder("a.safetensors")), FOVEA_OK);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(fovea_tensors_get(file, i, &t), 1);
        assert_string_equal(t.name, tensors[i].name);
        assert_string_equal(t.dtype, tensors[i].dtype);
        assert_int_equal(t.rank, tensors[i].rank);
        assert_memory_equal(t.shape, tensors[i].shape, sizeof t.shape);
        assert_int_equal(t.size, tensors[i].size);
        if (t.size)
            assert_memory_equal(t.data, tensors[i].data, t.size);
    }
    assert_int_equal(fovea_tensors_get(file, n, &t), 0);
    assert_int_equal(fovea_tensors_find(file, "missing", &t), 0);
    assert_string_equal(fovea_tensors_metadata(file, "note"), "ä \" \\");
    assert_null(fovea_tensors_metadata(file, "missing"));

    /* "u8" with one byte comes first, so that all others are unaligned. */
    assert_int_equal(fovea_tensors_find(file, "f32", &t), 1);
    assert_int_equal(fovea_tensors_read(&t, 1, 5, out), FOVEA_OK);
    assert_memory_equal(out, f32 + 1, 20);
    assert_int_equal(fovea_tensors_read(&t, 1, 6, out), FOVEA_EINVAL);
    assert_int_equal(fovea_tensors_read(&t, UINT64_MAX, 2, out), FOVEA_EINVAL);
    assert_int_equal(fovea_tensors_find(file, "f16", &t), 1);
    assert_int_equal(fovea_tensors_read(&t, 0, 5, out), FOVEA_OK);
    assert_memory_equal(out, f16_values, sizeof f16_values);
    assert_int_equal(fovea_tensors_find(file, "bf16", &t), 1);
    assert_int_equal(fovea_tensors_read(&t, 0, 2, out), FOVEA_OK);
    assert_true(out[0] == 1 && out[1] == -3);
    assert_int_equal(fovea_tensors_find(file, "f64", &t), 1);
    assert_int_equal(fovea_tensors_read(&t, 0, 1, out), FOVEA_OK);
    assert_true(out[0] == 0.1f);
    assert_int_equal(fovea_tensors_find(file, "i64", &t), 1);
    assert_int_equal(fovea_tensors_read(&t, 0, 2, out), FOVEA_OK);
    assert_true(out[0] == -7 && out[1] == 1 << 20);
    assert_int_equal(fovea_tensors_find(file, "i8", &t), 1);
    assert_int_equal(fovea_tensors_read(&t, 0, 3, out), FOVEA_OK);
    assert_true(out[0] == -128 && out[2] == 127);
    assert_int_equal(fovea_tensors_find(file, "none", &t), 1);
    assert_int_equal(fovea_tensors_read(&t, 0, 0, out), FOVEA_OK);
    assert_int_equal(fovea_tensors_find(file, "f8", &t), 1);
    assert_int_equal(fovea_tensors_read(&t, 0, 1, out), FOVEA_ENOTSUP);
    fovea_tensors_close(file);
}

/* Compares all 65536 half floats with the formula of IEEE 754. */
static void reads_every_half(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        const uint16_t bits = (uint16_t)h;
        const fovea_tensor t = {.name = "h", .dtype = "F16", .data = &bits, .size = 2};
        const int exponent = h >> 10 & 31, mantissa = h & 1023;
        float out, want = exponent ? 1 + mantissa / 1024.0f : mantissa / 1024.0f;
        assert_int_equal(fovea_tensors_read(&t, 0, 1, &out), FOVEA_OK);
        if (exponent == 31 && mantissa) {
            assert_true(out != out);
            continue;
        }
        for (int e = exponent ? exponent : 1; e < 15; e++)
            want /= 2;
        for (int e = 15; e < exponent; e++)
            want *= 2;
        if (exponent == 31)
            want = 1.0f / 0.0f;
        if (h & 0x8000)
            want = -want;
        assert_memory_equal(&out, &want, sizeof out);
    }
}

static void failed_writing_leaves_the_old_file(void **state)
{
    static const float one = 1;
    const fovea_tensor good = {.name = "a", .dtype = "F32", .rank = 0, .data = &one, .size = 4};
    fovea_tensor bad[2] = {good, good};
    fovea_tensors *file;
    fovea_tensor t;
    (void)state;
    assert_int_equal(fovea_tensors_write(in_folder("a.safetensors"), &good, 1, NULL, 0), FOVEA_OK);
    assert_int_equal(fovea_tensors_write(in_folder("a.safetensors"), bad, 2, NULL, 0),
                     FOVEA_EINVAL);
    bad[1].name = "b";
    bad[1].size = 3;
    assert_int_equal(fovea_tensors_write(in_folder("a.safetensors"), bad, 2, NULL, 0),
                     FOVEA_EINVAL);
    bad[1].name = "\xff";
    bad[1].size = 4;
    assert_int_equal(fovea_tensors_write(in_folder("a.safetensors"), bad, 2, NULL, 0),
                     FOVEA_EINVAL);
    assert_int_equal(fovea_tensors_write("/nonexistent/a.safetensors", &good, 1, NULL, 0),
                     FOVEA_EIO);
    assert_int_equal(fovea_tensors_open(&file, in_folder("a.safetensors")), FOVEA_OK);
    assert_int_equal(fovea_tensors_get(file, 0, &t), 1);
    assert_int_equal(fovea_tensors_get(file, 1, &t), 0);
    fovea_tensors_close(file);
}

static void survives_every_failed_allocation(void **state)
{
    static const float one = 1;
    const fovea_tensor tensor = {.name = "a", .dtype = "F32", .rank = 0, .data = &one, .size = 4};
    const uint64_t held = fv_mem_tagged(FV_MEM_MODEL);
    (void)state;
    for (uint64_t n = 1, done = 0; !done; n++) {
        fovea_tensors *file = NULL;
        fv_mem_fail_at(n);
        fovea_status status = fovea_tensors_write(in_folder("a.safetensors"), &tensor, 1, NULL, 0);
        if (status == FOVEA_OK)
            status = fovea_tensors_open(&file, in_folder("a.safetensors"));
        fv_mem_fail_at(0);
        done = status == FOVEA_OK;
        assert_true(done || status == FOVEA_ENOMEM);
        fovea_tensors_close(file);
        assert_int_equal(fv_mem_tagged(FV_MEM_MODEL), held);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_broken_headers),
        cmocka_unit_test(accepts_what_is_legal),
        cmocka_unit_test(refuses_every_truncation),
        cmocka_unit_test(refuses_what_is_no_file),
        cmocka_unit_test(reads_what_was_written),
        cmocka_unit_test(reads_every_half),
        cmocka_unit_test(failed_writing_leaves_the_old_file),
        cmocka_unit_test(survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
