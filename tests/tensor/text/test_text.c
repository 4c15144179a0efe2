#include "tests/support/support.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/context_impl.h"
#include "tensor/text/text.h"

static void an_unused_text_is_the_empty_string(void **state)
{
    text_t text = text_begin(fixture_context(state));
    assert_string_equal(text_string(&text), "");
    text_append(&text, "%s", "");
    assert_string_equal(text_string(&text), "");
    assert_null(text.bytes);
    assert_int_equal(text_status(&text), STATUS_OK);
    text_clear(&text);
}

/* Prints valid UTF-8 (Unicode 15, table 3-7) as it is, except control characters. All else is
 * escaped. */
static void control_characters_are_escaped(void **state)
{
    static const struct {
        const char *given, *shown;
    } cases[] = {{"plain, \t and\nlines", "plain, \t and\nlines"},
                 {"\x1b[31mred\x07", "\\x1b[31mred\\x07"},
                 {"\x7f\r\x01", "\\x7f\\x0d\\x01"},
                 {"\xc2\x9b"
                  "2J",
                  "\\xc2\\x9b2J"},
                 {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
                 {"\xff\xfe\xc3", "\\xff\\xfe\\xc3"},
                 {"\xc0\xaf\xe0\x80\xaf", "\\xc0\\xaf\\xe0\\x80\\xaf"},
                 {"\xed\xa0\x80\xf4\x90\x80\x80", "\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80"},
                 {NULL, ""}};
    context_t *ctx = fixture_context(state);
    char shown[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(text_escape(cases[i].given, shown, sizeof shown), strlen(cases[i].shown));
        assert_string_equal(shown, cases[i].shown);
        assert_int_equal(text_escape(cases[i].given, NULL, 0), strlen(cases[i].shown));
    }
    for (size_t room = 1; room < 12; room++) { /* characters are not cut */
        text_escape("\xe2\x82\xac\x1b.\xe2\x82\xac", shown, room);
        assert_true(strlen(shown) < room);
        assert_true(strlen(shown) == 0 || strlen(shown) == 3 || strlen(shown) >= 7);
    }
    context_fail(ctx, STATUS_CORRUPT, "io: name \"%s\"", "a\x1b]0;title\x07");
    assert_string_equal(context_error(ctx), "io: name \"a\\x1b]0;title\\x07\"");
    context_clear_error(ctx);
}

static void pieces_of_all_lengths_join(void **state)
{
    enum { LONGEST = 700 };
    text_t text = text_begin(fixture_context(state));
    char *wanted = calloc(1, LONGEST * LONGEST), piece[LONGEST + 1];
    size_t length = 0;
    assert_non_null(wanted);
    for (int n = 0; n <= LONGEST; n++) {
        memset(piece, 'a' + n % 26, (size_t)n);
        piece[n] = '\0';
        memcpy(wanted + length, piece, (size_t)n);
        length += (size_t)n;
        text_append(&text, "%s", piece);
        assert_int_equal(text.length, length);
    }
    assert_int_equal(text_status(&text), STATUS_OK);
    assert_string_equal(text_string(&text), wanted);
    free(wanted);
    text_clear(&text);
}

/* Appends a long text after texts of every length, to detect a capacity that is one byte too
 * small. */
static void the_room_fits_to_the_byte(void **state)
{
    char piece[300];
    memset(piece, 'x', sizeof piece);
    for (int first = 1; first < 300; first++) {
        for (int second = 240; second < 270; second++) {
            text_t text = text_begin(fixture_context(state));
            text_append(&text, "%.*s", first, piece);
            text_append(&text, "%.*s", second, piece);
            assert_int_equal(text.length, first + second);
            assert_int_equal(strlen(text_string(&text)), first + second);
            text_clear(&text);
        }
    }
}

static void quoted_strings_have_the_escapes_of_json(void **state)
{
    text_t text = text_begin(fixture_context(state));
    text_append_quoted(&text, "a\"b\\c/\b\f\n\r\t\x01\x1f\x7f \xc3\xa9%s");
    assert_string_equal(text_string(&text),
                        "\"a\\\"b\\\\c/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f \xc3\xa9%s\"");
    text_clear(&text);
    text_append_quoted(&text, "");
    assert_string_equal(text_string(&text), "\"\"");
    text_clear(&text);
}

static void numbers_take_their_shortest_form(void **state)
{
    static const struct {
        double value;
        const char *text;
    } known[] = {
        {0.0, "0.0"},
        {-0.0, "-0.0"},
        {1.0, "1.0"},
        {-1.0, "-1.0"},
        {10.0, "10.0"},
        {100.0, "100.0"},
        {9999999.0, "9999999.0"},
        {1e7, "1e+07"},
        {123456789.0, "123456789.0"},
        {0.1, "0.1"},
        {-2.5, "-2.5"},
        {1e-5, "1e-05"},
        {1.5e300, "1.5e+300"},
        {0.1 + 0.2, "0.30000000000000004"},
        {5e-324, "5e-324"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {1.0 / 3, "0.3333333333333333"},
        {INFINITY, "inf"},
        {-INFINITY, "-inf"},
        {NAN, "nan"},
        {(double)0.1f, "0.10000000149011612"},
        {9007199254740993.0, "9007199254740992.0"},
    };
    text_t text = text_begin(fixture_context(state));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        text_append_float(&text, known[i].value);
        assert_string_equal(text_string(&text), known[i].text);
        text_clear(&text);
    }
    text_append_float(&text, copysign(NAN, -1.0));
    assert_string_equal(text_string(&text), "nan");
    text_clear(&text);
}

static void check_round_trip(text_t *text, double value)
{
    text_clear(text);
    text_append_float(text, value);
    const char *written = text_string(text);
    assert_non_null(strpbrk(written, ".e"));
    double back = strtod(written, NULL);
    assert_memory_equal(&back, &value, sizeof back);

    char shorter[64];
    size_t digits = 0;
    for (const char *at = written; *at != '\0' && *at != 'e'; at++)
        if (*at >= '0' && *at <= '9' && (digits > 0 || *at != '0')) digits++;
    if (digits <= 1 || (fabs(value) < 1e7 && value == trunc(value))) return;
    if (strstr(written, ".0") != NULL && written[strlen(written) - 2] == '.') digits--;
    snprintf(shorter, sizeof shorter, "%.*e", (int)digits - 2, value);
    if (strtod(shorter, NULL) == value) print_error("%s is not the shortest form\n", written);
    assert_false(strtod(shorter, NULL) == value);
}

static void numbers_read_back_to_the_same_bits(void **state)
{
    context_t *ctx = fixture_context(state);
    text_t text = text_begin(ctx);
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = context_random(ctx);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value)) check_round_trip(&text, value);
        check_round_trip(&text, (double)(float)(bits >> 40) / 1024);
    }
    text_clear(&text);
}

static void the_locale_does_not_matter(void **state)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8"};
    const char *found = NULL;
    for (size_t i = 0; i < 4 && found == NULL; i++) found = setlocale(LC_NUMERIC, names[i]);
    text_t text = text_begin(fixture_context(state));
    text_append_float(&text, 0.25);
    text_append_float(&text, -1.5e300);
    text_append_float(&text, 7.0);
    setlocale(LC_NUMERIC, "C");
    assert_string_equal(text_string(&text), "0.25-1.5e+3007.0");
    text_clear(&text);
    if (found == NULL) skip_without("locale de_DE.UTF-8");
}

static void a_failed_allocation_is_remembered_and_cleared(void **state)
{
    fixture_t *fixture = *state;
    text_t text = text_begin(fixture->ctx);
    text_append(&text, "first");
    counting_fail(&fixture->memory, 1, false);
    text_append(&text, "%400d", 7);
    text_append(&text, "last");
    text_append_quoted(&text, "last");
    text_append_float(&text, 1.5);
    assert_int_equal(text_status(&text), STATUS_OUT_OF_MEMORY);
    assert_string_equal(text_string(&text), "first");
    text_clear(&text);
    assert_int_equal(text_status(&text), STATUS_OK);
    text_append(&text, "again");
    assert_string_equal(text_string(&text), "again");
    text_clear(&text);
}

static status_t print_much(context_t *ctx)
{
    text_t text = text_begin(ctx);
    for (int i = 0; i < 300; i++) {
        text_append(&text, "%d,", i);
        text_append_quoted(&text, "a\nb\x02");
        text_append_float(&text, i / 7.0);
    }
    text_append(&text, "%2000d", 1);
    status_t status = text_status(&text);
    text_clear(&text);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    check_every_allocation(print_much);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_unused_text_is_the_empty_string),
        TEST(control_characters_are_escaped),
        TEST(pieces_of_all_lengths_join),
        TEST(the_room_fits_to_the_byte),
        TEST(quoted_strings_have_the_escapes_of_json),
        TEST(numbers_take_their_shortest_form),
        TEST(numbers_read_back_to_the_same_bits),
        TEST(the_locale_does_not_matter),
        TEST(a_failed_allocation_is_remembered_and_cleared),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
