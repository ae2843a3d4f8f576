/* test_json.c: tests that JSON written by Python's json module is read with the values that Python
 * reads, and that invalid numbers are refused.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "json/json.h"

static json_t *parse(const char *text)
{
    fv_json_error error = {""};
    json_t *value = fv_json_parse(text, strlen(text), 0, &error);
    if (!value)
        fail_msg("%s: %s", text, error.text);
    return value;
}

static void refused(const char *text, size_t size, unsigned flags, const char *says)
{
    fv_json_error error = {""};
    assert_null(fv_json_parse(text, size, flags, &error));
    if (!strstr(error.text, says))
        fail_msg("\"%s\" does not say \"%s\"", error.text, says);
}

static void words_that_python_writes_are_read(void **state)
{
    (void)state;
    json_t *o =
        parse("{\"a\": NaN, \"b\":[-Infinity,Infinity, 1], \"c\": -1e999, \"d\": 1e308, \"NaN\": "
              "\"-Infinity NaN 1e999\", \"e\": 1.7976931348623157e+308, \"f\": 0.0e999}");
    double x = 3;
    char line[FV_JSON_SHOWN];
    assert_false(fv_json_number(&x, json_object_get(o, "a")));
    assert_string_equal(fv_json_show(line, json_object_get(o, "a")), "NaN");
    assert_string_equal(fv_json_show(line, json_array_get(json_object_get(o, "b"), 0)),
                        "-Infinity");
    assert_false(fv_json_number(&x, json_array_get(json_object_get(o, "b"), 1)));
    assert_false(fv_json_number(&x, json_object_get(o, "c")));
    assert_true(fv_json_unbounded(json_object_get(o, "c")));
    assert_false(fv_json_unbounded(json_object_get(o, "d")));
    assert_true(x == 3);
    assert_true(fv_json_number(&x, json_array_get(json_object_get(o, "b"), 2)) && x == 1);
    assert_true(fv_json_number(&x, json_object_get(o, "d")) && x == 1e308);
    assert_true(fv_json_number(&x, json_object_get(o, "e")) && x == 1.7976931348623157e308);
    assert_true(fv_json_number(&x, json_object_get(o, "f")) && x == 0);
    assert_string_equal(json_string_value(json_object_get(o, "NaN")), "-Infinity NaN 1e999");
    json_decref(o);
}

static void integers_have_any_length(void **state)
{
    (void)state;
    json_t *list = parse("[9223372036854775807, 9223372036854775808, -9223372036854775808, "
                         "1000000000000000019884624838656, 3.0, 3.5, true, \"3\"]");
    int64_t n = 7;
    double x;
    assert_true(fv_json_whole(&n, json_array_get(list, 0)) && n == INT64_MAX);
    assert_false(fv_json_whole(&n, json_array_get(list, 1)));
    assert_true(fv_json_number(&x, json_array_get(list, 1)) && x == 0x1p63);
    assert_true(fv_json_number(&x, json_array_get(list, 2)) && x == -0x1p63);
    assert_true(fv_json_number(&x, json_array_get(list, 3)) && x == 1e30);
    assert_true(fv_json_whole(&n, json_array_get(list, 4)) && n == 3);
    for (size_t i = 5; i < 8; i++)
        assert_false(fv_json_whole(&n, json_array_get(list, i)));
    assert_int_equal(n, 3);
    json_decref(list);
}

static void the_last_of_equal_keys_counts(void **state)
{
    static const char twice[] = "{\"a\": 1, \"a\": 2}";
    (void)state;
    json_t *o = parse(twice);
    assert_int_equal(json_integer_value(json_object_get(o, "a")), 2);
    json_decref(o);
    refused(twice, strlen(twice), FV_JSON_UNIQUE, "duplicate");
}

static void broken_escapes_become_the_replacement_character(void **state)
{
    (void)state;
    json_t *list = parse("[\"\\ud83d\", \"\\ude00x\", \"a\\u0000b\", \"\\ud83d\\ude00\", "
                         "\"\\\\ud83d\", \"\\u00e9\", \"\\ud83d\\u0041\"]");
    static const char *const want[] = {"\xef\xbf\xbd",
                                       "\xef\xbf\xbdx",
                                       "a\xef\xbf\xbd"
                                       "b",
                                       "\xf0\x9f\x98\x80",
                                       "\\ud83d",
                                       "\xc3\xa9",
                                       "\xef\xbf\xbd"
                                       "A"};
    for (size_t i = 0; i < 7; i++)
        assert_string_equal(json_string_value(json_array_get(list, i)), want[i]);
    json_decref(list);
}

/* Longer than jansson's read buffer, so that every token is split somewhere. */
static void long_texts_arrive_whole(void **state)
{
    enum { ITEMS = 5000 };
    static const char item[] = "NaN,-Infinity,123456789012345678901234567890,\"\\ud83dxyz\",17, ";
    const size_t n = strlen(item);
    char *text = malloc(ITEMS * n + 4);
    (void)state;
    text[0] = '[';
    for (size_t i = 0; i < ITEMS; i++)
        memcpy(text + 1 + i * n, item, n);
    memcpy(text + 1 + ITEMS * n, "0]", 3);
    json_t *list = parse(text);
    assert_int_equal(json_array_size(list), 5 * ITEMS + 1);
    for (size_t i = 0; i < ITEMS; i++) {
        char line[FV_JSON_ID];
        assert_string_equal(fv_json_id(line, json_array_get(list, 5 * i + 2)),
                            "123456789012345678901234567890");
        assert_string_equal(json_string_value(json_array_get(list, 5 * i + 3)), "\xef\xbf\xbdxyz");
        assert_int_equal(json_integer_value(json_array_get(list, 5 * i + 4)), 17);
    }
    json_decref(list);
    free(text);
}

static void what_is_no_json_is_refused(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "line 1"},
        {"{", "line 1"},
        {"{\n\"a\": nan}", "line 2"},
        {"{\"a\": NaNa}", "line 1"},
        {"{\"a\": -Inf}", "line 1"},
        {"{\"a\": 1NaN}", "line 1"},
        {"{\"a\": 012345678901234567890123}", "line 1"},
        {"{NaN: 1}", "line 1"},
        {"{123456789012345678901234567890: 1}", "line 1"},
        {"{\"a\": 1,}", "line 1"},
        {"{\"a\": 1} // so", "line 1"},
        {"{\"a\": \"\\u12\"}", "line 1"},
        {"{\"a\": \"\xff\"}", "line 1"},
        {"\xff\xfe{", "UTF-16"},
        {"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]", "32 levels"},
        {"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "32 levels"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(cases[i].text, strlen(cases[i].text), 0, cases[i].says);
    refused("[1, \0", 5, 0, "line 1");
    json_decref(parse("\xef\xbb\xbf[1]"));
    json_decref(parse("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"[[{\"]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"));
}

static void flags_are_booleans_or_bits(void **state)
{
    (void)state;
    json_t *list = parse("[true, 1, 1.0, false, 0, 0.0, 2, \"1\", null, -1, 0.5, []]");
    for (size_t i = 0; i < json_array_size(list); i++) {
        bool flag = i >= 3;
        assert_int_equal(fv_json_flag(&flag, json_array_get(list, i)), i < 6);
        assert_int_equal(flag, i < 3 || i >= 6);
    }
    assert_false(fv_json_flag(&(bool){false}, NULL));
    json_decref(list);
}

static void identifiers_are_compared_by_value(void **state)
{
    /* Groups of equal numbers in ascending order; 0 ends a group. */
    static const char *const ids[] = {"-12",
                                      "\"-12\"",
                                      "-12.0",
                                      NULL,
                                      "-3",
                                      "\"-03\"",
                                      NULL,
                                      "0",
                                      "-0.0",
                                      "\"-0\"",
                                      "\"000\"",
                                      NULL,
                                      "3",
                                      "3.0",
                                      "\"3\"",
                                      "\"3.0\"",
                                      "\"003\"",
                                      NULL,
                                      "139",
                                      "\"000000000139\"",
                                      NULL,
                                      "9223372036854775807",
                                      NULL,
                                      "9223372036854775947",
                                      "\"9223372036854775947\"",
                                      NULL,
                                      "9223372036854776093",
                                      NULL,
                                      "1e30",
                                      "1000000000000000019884624838656",
                                      NULL,
                                      "\"\"",
                                      NULL,
                                      "\"3.5x\"",
                                      NULL,
                                      "\"frame_3\"",
                                      NULL};
    (void)state;
    json_t *one[sizeof ids / sizeof *ids] = {NULL};
    int group[sizeof ids / sizeof *ids], n = 0, groups = 0;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        char text[64];
        snprintf(text, sizeof text, "[%s]", ids[i] ? ids[i] : "");
        if (!ids[i]) {
            groups++;
            continue;
        }
        group[n] = groups;
        one[n++] = parse(text);
    }
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            char a[FV_JSON_ID], b[FV_JSON_ID];
            const char *x = fv_json_id(a, json_array_get(one[i], 0));
            const char *y = fv_json_id(b, json_array_get(one[k], 0));
            const int order = fv_json_id_order(x, y);
            assert_int_equal((order > 0) - (order < 0),
                             (group[i] > group[k]) - (group[i] < group[k]));
            assert_int_equal(strcmp(x, y) == 0, group[i] == group[k]);
        }
    while (n-- > 0)
        json_decref(one[n]);
    json_t *none = parse("[true, null, [], {}, NaN, 1e999]");
    for (size_t i = 0; i < json_array_size(none); i++) {
        char line[FV_JSON_ID];
        assert_null(fv_json_id(line, json_array_get(none, i)));
    }
    json_decref(none);
}

static void values_are_shown_in_messages(void **state)
{
    static const char *const want[] = {
        "\"12px\"", "null", "true", "an object", "a list", "3.5", "123456789012345678901234567890"};
    (void)state;
    json_t *list = parse("[\"12px\", null, true, {}, [1], 3.5, 123456789012345678901234567890]");
    char line[FV_JSON_SHOWN];
    for (size_t i = 0; i < 7; i++)
        assert_string_equal(fv_json_show(line, json_array_get(list, i)), want[i]);
    json_decref(list);
    assert_string_equal(fv_json_show(line, NULL), "missing");
    list =
        parse("[\"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
              "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
              "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
              "\xc3\xa9\xc3\xa9\xc3\xa9\"]");
    json_t *shown = json_string(fv_json_show(line, json_array_get(list, 0)));
    assert_non_null(shown); /* valid UTF-8 */
    assert_string_equal(line + strlen(line) - 3, "...");
    json_decref(shown);
    json_decref(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_that_python_writes_are_read),
        cmocka_unit_test(integers_have_any_length),
        cmocka_unit_test(the_last_of_equal_keys_counts),
        cmocka_unit_test(broken_escapes_become_the_replacement_character),
        cmocka_unit_test(long_texts_arrive_whole),
        cmocka_unit_test(what_is_no_json_is_refused),
        cmocka_unit_test(flags_are_booleans_or_bits),
        cmocka_unit_test(identifiers_are_compared_by_value),
        cmocka_unit_test(values_are_shown_in_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
