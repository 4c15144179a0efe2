/* Symbolic integers: their normal form and ranges, guards (conditions on them), and random
 * expressions compared with arithmetic on numbers. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/sym/sym.h"

static sym_space_t *enter(context_t *ctx)
{
    sym_space_t *space = NULL;
    CHECK_OK(ctx, sym_space_create(ctx, &space));
    assert_null(sym_space_enter(ctx, space));
    return space;
}

static void leave(context_t *ctx, sym_space_t *space)
{
    assert_ptr_equal(sym_space_enter(ctx, NULL), space);
    sym_space_release(space);
}

/* Makes the names H (64), W (48) and N (2), all at least 1, and u0, which has no hint (value in the
 * first run). */
static void make_names(context_t *ctx)
{
    sym_name(ctx, "H", 64, 1, INT64_MAX);
    sym_name(ctx, "W", 48, 1, INT64_MAX);
    sym_name(ctx, "N", 2, 1, INT64_MAX);
    sym_name(ctx, "u0", SYM_NO_HINT, 0, 1000);
}

static int64_t parse(context_t *ctx, const char *text)
{
    const char *cursor = text;
    const int64_t a = sym_parse(ctx, &cursor);
    CHECK_OK(ctx, sym_status(ctx));
    if (*cursor != '\0') fail_msg("\"%s\" is left of \"%s\"", cursor, text);
    return a;
}

static void check_text(context_t *ctx, int64_t a, const char *wanted)
{
    char text[512];
    assert_string_equal(sym_text(ctx, a, sizeof text, text), wanted);
}

static void check_form(context_t *ctx, const char *given, const char *wanted)
{
    char text[512];
    const int64_t a = parse(ctx, given);
    if (strcmp(sym_text(ctx, a, sizeof text, text), wanted) != 0)
        fail_msg("%s is \"%s\", not \"%s\"", given, text, wanted);
    if (parse(ctx, text) != a) fail_msg("%s is not read back", text);
}

static void check_guards(const sym_space_t *space, const char *wanted)
{
    char text[512], all[4096] = "";
    for (int k = 0; k < sym_n_guards(space); k++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", k > 0 ? ", " : "",
                 sym_guard_text(space, k, sizeof text, text));
    assert_string_equal(all, wanted);
}

static void numbers_need_no_space(void **state)
{
    context_t *ctx = fixture_context(state);
    assert_int_equal(sym_add(ctx, 3, 4), 7);
    assert_int_equal(sym_divide(ctx, -7, 2), -4);
    assert_int_equal(sym_modulo(ctx, -7, 2), 1);
    assert_int_equal(sym_modulo(ctx, 7, -2), -1);
    assert_int_equal(sym_divide_up(ctx, -7, 2), -3);
    assert_int_equal(sym_truncate(ctx, -7, 2), -3);
    assert_int_equal(sym_divide(ctx, 1, 0), SYM_NONE);
    assert_int_equal(sym_multiply(ctx, INT64_MAX, 2), SYM_NONE);
    assert_int_equal(sym_add(ctx, SYM_NONE, 2), SYM_NONE);
    assert_int_equal(sym_min(ctx, 3, 4) + sym_max(ctx, 3, 4), 7);
    assert_int_equal(sym_select(ctx, sym_is_less(ctx, 3, 4), 10, 20), 10);
    assert_true(sym_equal(ctx, 3, 3) && sym_less(ctx, 3, 4) && sym_at_most(ctx, 4, 4));
    assert_true(sym_divides(ctx, 4, 12) && !sym_divides(ctx, 4, 13));
    assert_int_equal(sym_pin(ctx, 5) + sym_hint(ctx, 6), 11);
    CHECK_OK(ctx, sym_status(ctx));
    /* in f32, 30 * 1.3f is 39; in f64 it is 38.9999986, whose floor is 38 */
    int64_t scale = sym_real(ctx, SYM_F32, 1.3);
    for (int i = 0; i < 5000; i++) (void)sym_real(ctx, SYM_F64, i);
    scale = sym_real(ctx, SYM_F32, 1.3);
    const int64_t scaled = sym_real_calculate(ctx, '*', sym_to_real(ctx, SYM_F32, 30), scale);
    assert_int_equal(sym_round(ctx, SYM_FLOOR, scaled), (int64_t)(30.0f * 1.3f));
    assert_true(sym_real_hint(ctx, scaled) == (double)(30.0f * 1.3f));
    CHECK_OK(ctx, sym_status(ctx));
}

static void equal_expressions_are_one_handle(void **state)
{
    static const char *const forms[][2] = {
        {"H+H", "2*H"},
        {"W*H-H*W", "0"},
        {"(H+1)*(H-1)", "H*H-1"},
        {"3-H", "3-H"},
        {"N*3*H*W", "3*H*N*W"},
        {"(4*H+8)/4", "H+2"},
        {"(H*W)/W", "H"},
        {"(H*W*2)/(W*4)", "H/2"},
        {"(8*H+W)/8", "W/8+H"},
        {"(9*H+11)/8", "(H+11)/8+H"},
        {"(4*H+3)/8", "H/2"},
        {"H/2/3", "H/6"},
        {"(H/2+1)/3", "(H+2)/6"},
        {"((H-1)/2+1-1)/2+1", "(H+3)/4"},
        {"H%8/8", "0"},
        {"H-H/2", "(H+1)/2"},
        {"H%8", "H%8"},
        {"H%2", "H%2"},
        {"3*(H%8)+H", "4*H-24*(H/8)"},
        {"3*(H%8)+W", "3*(H%8)+W"},
        {"(2*H+1)%2", "1"},
        {"(2*H+1)/2", "H"},
        {"(N)/4*4", "4*(N/4)"},
        {"4*((H+3)/4)-H", "4*((H+3)/4)-H"},
        {"(H*W+1)/W", "1/W+H"},
        {"(H+7)/8*W", "(H+7)/8*W"},
        {"(H*N+W*N)/(H+W)", "N"},
        {"H/N/W", "H/N/W"},
        {"min(H,H+1)", "H"},
        {"max(H,0)", "H"},
        {"min(W,min(H,3))", "min(3,H,W)"},
        {"max(H,W)-max(W,H)", "0"},
        {"min(H/2*2,H)", "2*(H/2)"},
        {"min(H,9223372036854775807)", "H"},
        {"(H<9223372036854775807)+(H==9223372036854775807)", "1"},
        {"(2*H-2*W==6)*W", "(H==W+3)*W"},
        {"(H<H+1)+0", "1"},
        {"select(H<W,H,W)", "select((H<W),H,W)"},
        {"select(H<W,H,H)", "H"},
        {"floor(f32(u0)*f32(2))", "2*u0"},
        {"floor(f32(u0)/f32(3))", "u0/3"},
        {"ceil(f32(u0)*f32(0.5))", "(u0+1)/2"},
        {"floor(f32(u0)*f32(1.3))", "floor(f32(u0)*f32(1.3))"},
        {"trunc((f64(H)+f64(0.1))*f64(2))", "trunc((f64(H)+f64(0.1))*f64(2))"},
        {"#2*3-#1", "3*#2-#1"},
        {"-H+3", "3-H"},
        {"(2*N+1)/3", "(2*N+1)/3"},
    };
    context_t *ctx = fixture_context(state);
    sym_space_t *space = enter(ctx);
    make_names(ctx);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        check_form(ctx, forms[i][0], forms[i][1]);
    check_guards(space, "");
    leave(ctx, space);
}

static void ranges_follow_operands(void **state)
{
    static const struct {
        const char *text;
        int64_t min, max;
    } cases[] = {{"H", 1, INT64_MAX},      {"u0*2+3", 3, 2003},  {"H%8", 0, 7},
                 {"H-8*(H/8)+1", 1, 8},    {"(u0+7)/8", 0, 125}, {"min(u0,10)", 0, 10},
                 {"(H<W)*5", 0, 5},        {"-u0", -1000, 0},    {"H-H/2*2-1", -1, 0},
                 {"max(u0,10)", 10, 1000}, {"u0/H", 0, 1000}};
    context_t *ctx = fixture_context(state);
    sym_space_t *space = enter(ctx);
    make_names(ctx);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t min, max;
        sym_range(ctx, parse(ctx, cases[i].text), &min, &max);
        if (min != cases[i].min || max != cases[i].max)
            fail_msg("%s is from %lld to %lld", cases[i].text, (long long)min, (long long)max);
    }
    leave(ctx, space);
}

static void decisions_become_guards(void **state)
{
    context_t *ctx = fixture_context(state);
    sym_space_t *space = enter(ctx);
    make_names(ctx);
    const int64_t h = parse(ctx, "H"), w = parse(ctx, "W"), n = parse(ctx, "N");
    const int64_t eighth = sym_divide(ctx, h, 8);
    sym_origin(ctx, "reshape \"r\"");
    assert_true(sym_divides(ctx, 8, h));
    assert_string_equal(sym_guard_origin(space, 0), "reshape \"r\"");
    assert_true(sym_divides(ctx, 4, h) && sym_divides(ctx, 2, h));
    assert_int_equal(sym_multiply(ctx, eighth, 8), h);
    assert_int_equal(sym_multiply(ctx, eighth, 4), sym_divide(ctx, h, 2));
    check_text(ctx, sym_add(ctx, eighth, 1), "(H+8)/8");
    assert_false(sym_equal(ctx, n, 1));
    assert_false(sym_equal(ctx, n, 1));
    int64_t min, max;
    sym_range(ctx, n, &min, &max);
    assert_int_equal(min, 2);
    assert_false(sym_less(ctx, w, 40));
    assert_true(sym_at_most(ctx, 30, w));
    assert_true(sym_less(ctx, w, h));
    assert_true(sym_less(ctx, w, sym_add(ctx, h, 3)));
    assert_true(sym_knows_less(ctx, w, h) && !sym_knows_less(ctx, w, 1000));
    assert_true(sym_less(ctx, w, INT64_MAX) && sym_at_most(ctx, w, INT64_MAX));
    assert_false(sym_less(ctx, INT64_MAX, w) || sym_equal(ctx, w, INT64_MAX));
    assert_int_equal(sym_min(ctx, w, INT64_MAX), w);
    check_guards(space, "H % 8 == 0, N != 1, W >= 40, H > W");
    assert_false(sym_divides(ctx, 7, w));
    assert_int_equal(sym_pin(ctx, n), 2);
    assert_int_equal(sym_add(ctx, n, 1), 3);
    check_guards(space, "H % 8 == 0, N != 1, W >= 40, H > W, W % 7 != 0, N == 2");
    leave(ctx, space);
}

static void an_equation_replaces_a_name(void **state)
{
    context_t *ctx = fixture_context(state);
    sym_space_t *space = enter(ctx);
    const int64_t h = sym_name(ctx, "H", 64, 1, INT64_MAX), w = sym_name(ctx, "W", 32, 1, 1000);
    const int64_t k = sym_name(ctx, "K", 33, 3, 1000);
    assert_true(sym_equal(ctx, h, sym_multiply(ctx, w, 2)));
    assert_true(sym_knows_equal(ctx, sym_divide(ctx, h, 2), w));
    assert_true(sym_equal(ctx, sym_subtract(ctx, h, w), sym_subtract(ctx, k, 1)));
    assert_true(sym_knows_equal(ctx, k, sym_add(ctx, w, 1)));
    assert_true(sym_knows_less(ctx, 1, w)); /* K is at least 3 */
    check_guards(space, "H == 2*W, K == W+1");
    leave(ctx, space);
}

/* A guard is about the operand that the minimum is, has no common factor, and is left out if it
 * always holds. */
static void a_guard_says_no_more_than_its_decision_needs(void **state)
{
    context_t *ctx = fixture_context(state);
    static const struct {
        const char *a, *b, *guards;
    } cases[] = {
        {"min(32,T)", "T", "T <= 32"},       {"max(T,32)", "T", "T >= 32"},
        {"min(40,T)", "T", "T <= 40"},       {"max(T,W)", "W", "W >= T"},
        {"64*N", "N*H", "H == 64"},          {"24*N", "48", "N == 2"},
        {"2*(H-min(H,64))", "0", "H <= 64"}, {"H/2*2-H+H%2", "0", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sym_space_t *space = enter(ctx);
        make_names(ctx);
        sym_name(ctx, "T", 32, 0, INT64_MAX);
        assert_true(sym_equal(ctx, parse(ctx, cases[i].a), parse(ctx, cases[i].b)));
        check_guards(space, cases[i].guards);
        leave(ctx, space);
    }
    sym_space_t *space = enter(ctx);
    make_names(ctx);
    const int64_t left = parse(ctx, "H-(7*H+1)/8"), other = parse(ctx, "W-(7*W+1)/8");
    assert_true(sym_at_most(ctx, 0, left));
    assert_true(sym_at_most(ctx, 0, sym_multiply(ctx, left, other)));
    check_guards(space, "");
    leave(ctx, space);
}

static void a_proven_guard_of_text_is_none(void **state)
{
    context_t *ctx = fixture_context(state);
    sym_space_t *space = enter(ctx);
    static const char *const guards[] = {"H % 8 == 0", "W >= 100",   "H%4==0", "W > 10",
                                         "N != 1",     "H == 2*W+N", "N <= 5"};
    for (size_t i = 0; i < sizeof guards / sizeof *guards; i++) {
        const char *cursor = guards[i];
        assert_true(sym_parse_guard(ctx, &cursor, "text"));
        assert_int_equal(*cursor, '\0');
    }
    check_guards(space, "H % 8 == 0, W >= 100, N != 1, H == N+2*W, N <= 5");
    const char *cursor = "p2o.Dim.1 != 7 from";
    assert_true(sym_parse_guard(ctx, &cursor, "text"));
    assert_string_equal(cursor, "from");
    cursor = "W < 50";
    assert_false(sym_parse_guard(ctx, &cursor, "text"));
    CHECK_FAILS(ctx, sym_status(ctx), STATUS_INVALID_ARGUMENT, "a guard that never holds");
    cursor = "H+";
    assert_int_equal(sym_parse(ctx, &cursor), SYM_NONE);
    CHECK_FAILS(ctx, sym_status(ctx), STATUS_INVALID_ARGUMENT, "a size: a name");
    CHECK_OK(ctx, sym_status(ctx));
    leave(ctx, space);
}

static bool size_of(void *user, int name, const char *text, int64_t *out_size)
{
    (void)text;
    *out_size = ((const int64_t *)user)[name];
    return *out_size != SYM_NONE;
}

static void guards_are_checked(void **state)
{
    context_t *ctx = fixture_context(state);
    sym_space_t *space = enter(ctx);
    make_names(ctx);
    int first = -1;
    const int64_t h = parse(ctx, "H"), w = parse(ctx, "W"), n = parse(ctx, "N");
    assert_true(sym_divides(ctx, 8, h) && !sym_equal(ctx, n, 1) && sym_at_most(ctx, 40, w));
    static const struct {
        int64_t sizes[4];
        int first;
    } cases[] = {{{64, 48, 2, 0}, -1}, {{8, 40, 5, 0}, -1}, {{12, 48, 2, 0}, 0},
                 {{8, 48, 1, 0}, 1},   {{8, 39, 2, 0}, 2},  {{SYM_NONE, 39, 2, 0}, 0},
                 {{0, 50, 0, 0}, -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t sizes[4];
        memcpy(sizes, cases[i].sizes, sizeof sizes);
        const bool holds = sym_guards_hold(space, size_of, sizes, &first);
        assert_int_equal(holds, cases[i].first < 0);
        if (!holds) assert_int_equal(first, cases[i].first);
    }
    leave(ctx, space);
}

static void arithmetic_on_handles_is_detected(void **state)
{
    context_t *ctx = fixture_context(state);
    sym_space_t *space = enter(ctx);
    make_names(ctx);
    const int64_t h = parse(ctx, "H"), w = parse(ctx, "W");
    assert_true(sym_is(h) && sym_is(w) && !sym_is(-1) && !sym_is(INT64_MAX));
    const int64_t wrong[] = {h + 1, h - 1, h + 224, h - 4096};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(sym_add(ctx, wrong[i], w), SYM_NONE);
        CHECK_FAILS(ctx, sym_status(ctx), STATUS_INVALID_ARGUMENT, "plain arithmetic on one");
    }
    for (int d = 2; d < 12; d++) assert_true(h % d != 0 && w % d != 0);
    assert_true(-h > INT64_C(1) << 61);
    assert_true((int64_t)((uint64_t)h + (uint64_t)w) > INT64_C(1) << 61);
    /* a name of another space */
    sym_space_t *other = NULL;
    CHECK_OK(ctx, sym_space_create(ctx, &other));
    sym_space_enter(ctx, other);
    make_names(ctx);
    assert_int_equal(sym_add(ctx, h, 1), SYM_NONE);
    CHECK_FAILS(ctx, sym_status(ctx), STATUS_INVALID_ARGUMENT, "of another space");
    sym_space_enter(ctx, space);
    sym_space_release(other);
    leave(ctx, space);
    assert_int_equal(sym_add(ctx, h, 1), SYM_NONE);
    CHECK_FAILS(ctx, sym_status(ctx), STATUS_INVALID_ARGUMENT, "where sizes must be numbers");
}

static void comparisons_of_unknown_sizes_are_undecided(void **state)
{
    context_t *ctx = fixture_context(state);
    sym_space_t *space = enter(ctx);
    make_names(ctx);
    const int64_t u = parse(ctx, "u0");
    assert_true(sym_less(ctx, u, 1001) && sym_at_most(ctx, 0, u));
    assert_int_equal(sym_hint(ctx, u), SYM_NONE);
    sym_origin(ctx, "slice \"s\"");
    assert_false(sym_less(ctx, u, 10));
    assert_int_equal(sym_add(ctx, u, 1), SYM_NONE); /* until the failure is taken */
    CHECK_FAILS(ctx, sym_status(ctx), STATUS_UNSUPPORTED,
                "slice \"s\": a size depends on elements: 9-u0 must be known");
    assert_true(sym_is(sym_add(ctx, u, 1)));
    assert_int_equal(sym_pin(ctx, u), SYM_NONE);
    CHECK_FAILS(ctx, sym_status(ctx), STATUS_UNSUPPORTED, "u0 must be known");
    assert_false(sym_equal(ctx, SYM_NONE, u));
    CHECK_FAILS(ctx, sym_status(ctx), STATUS_UNSUPPORTED, "a size overflows");
    leave(ctx, space);
}

static void limits_are_named(void **state)
{
    context_t *ctx = fixture_context(state);
    sym_space_t *space = enter(ctx);
    char name[16];
    int64_t sum = 0;
    for (int i = 0; i < 40 && sum != SYM_NONE; i++) {
        snprintf(name, sizeof name, "a%d", i);
        sum = sym_add(ctx, sum, sym_name(ctx, name, i, 0, 100));
    }
    assert_int_equal(sum, SYM_NONE);
    CHECK_FAILS(ctx, sym_status(ctx), STATUS_UNSUPPORTED, "more than 32 terms");
    int64_t product = 1;
    for (int i = 0; i < 40 && product != SYM_NONE; i++)
        product = sym_multiply(ctx, product, sym_name(ctx, "a1", 1, 0, 100));
    CHECK_FAILS(ctx, sym_status(ctx), STATUS_UNSUPPORTED, "more than 12 factors");
    leave(ctx, space);
}

/* ---- random expressions ---- */

#define N_NAMES 4
#define N_SIZES 6

/* A random expression, and its value for each set of sizes, computed with numbers. It may be
 * undefined. */
typedef struct drawn {
    int64_t handle;
    int64_t values[N_SIZES];
    bool is_defined[N_SIZES];
} drawn_t;

static uint64_t draw(uint64_t *seed, uint64_t n)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*seed >> 33) % n;
}

static bool fits(__int128 value)
{
    return value < INT64_C(1) << 55 && value > -(INT64_C(1) << 55);
}

static int64_t floor_divide(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* Computes function number `operation` with numbers. Returns false if the result is not defined. */
static bool direct(int operation, int64_t a, int64_t b, int64_t c, int64_t *out)
{
    __int128 value = 0;
    switch (operation) {
    case 0: value = (__int128)a + b; break;
    case 1: value = (__int128)a - b; break;
    case 2: value = (__int128)a * b; break;
    case 3: value = floor_divide(a, b); break;
    case 4: value = a - b * floor_divide(a, b); break;
    case 5: value = -floor_divide(-a, b); break;
    case 6: value = a / b; break;
    case 7: value = a < b ? a : b; break;
    case 8: value = a > b ? a : b; break;
    case 9: value = a == b; break;
    case 10: value = a < b; break;
    case 11: value = c != 0 ? a : b; break;
    case 12: value = (int64_t)floorf((float)a * 1.5f); break;
    case 13: value = (int64_t)ceil((double)a / 3.0); break;
    default: value = (int64_t)nearbyint((double)((float)a / 7.0f)); break;
    }
    *out = (int64_t)value;
    return fits(value);
}

static int64_t symbolic(context_t *ctx, int operation, int64_t a, int64_t b, int64_t c)
{
    switch (operation) {
    case 0: return sym_add(ctx, a, b);
    case 1: return sym_subtract(ctx, a, b);
    case 2: return sym_multiply(ctx, a, b);
    case 3: return sym_divide(ctx, a, b);
    case 4: return sym_modulo(ctx, a, b);
    case 5: return sym_divide_up(ctx, a, b);
    case 6: return sym_truncate(ctx, a, b);
    case 7: return sym_min(ctx, a, b);
    case 8: return sym_max(ctx, a, b);
    case 9: return sym_is_equal(ctx, a, b);
    case 10: return sym_is_less(ctx, a, b);
    case 11: return sym_select(ctx, c, a, b);
    case 12:
        return sym_round(ctx, SYM_FLOOR,
                         sym_real_calculate(ctx, '*', sym_to_real(ctx, SYM_F32, a),
                                            sym_real(ctx, SYM_F32, 1.5)));
    case 13:
        return sym_round(ctx, SYM_CEIL,
                         sym_real_calculate(ctx, '/', sym_to_real(ctx, SYM_F64, a),
                                            sym_real(ctx, SYM_F64, 3.0)));
    default:
        return sym_round(ctx, SYM_HALF_EVEN,
                         sym_real_calculate(ctx, '/', sym_to_real(ctx, SYM_F32, a),
                                            sym_real(ctx, SYM_F32, 7.0)));
    }
}

static bool is_division(int operation)
{
    return operation >= 3 && operation <= 6;
}

/* Makes an expression from three earlier ones. Returns false if its value is not defined for the
 * hints, or if it is SYM_NONE. */
static bool draw_expression(context_t *ctx, uint64_t *seed, const drawn_t *pool, int n,
                            drawn_t *out)
{
    const int operation = (int)draw(seed, 15);
    const drawn_t *a = &pool[draw(seed, (uint64_t)n)], *b = &pool[draw(seed, (uint64_t)n)];
    const drawn_t *c = &pool[draw(seed, (uint64_t)n)];
    for (int s = 0; s < N_SIZES; s++) {
        out->is_defined[s] = a->is_defined[s] && b->is_defined[s] && c->is_defined[s] &&
                             (!is_division(operation) || b->values[s] != 0);
        out->is_defined[s] = out->is_defined[s] && direct(operation, a->values[s], b->values[s],
                                                          c->values[s], &out->values[s]);
    }
    if (!out->is_defined[0]) return false;
    out->handle = symbolic(ctx, operation, a->handle, b->handle, c->handle);
    (void)sym_status(ctx);
    return out->handle != SYM_NONE;
}

static void check_drawn(context_t *ctx, const sym_space_t *space, const drawn_t *drawn,
                        int64_t sizes[N_SIZES][N_NAMES], int *n_compared)
{
    char text[1024];
    int64_t value, min, max;
    int first;
    if (sym_hint(ctx, drawn->handle) != drawn->values[0])
        fail_msg("%s is %lld at the hints, not %lld", sym_text(ctx, drawn->handle, 1024, text),
                 (long long)sym_hint(ctx, drawn->handle), (long long)drawn->values[0]);
    sym_range(ctx, drawn->handle, &min, &max);
    for (int s = 0; s < N_SIZES; s++) {
        if (!drawn->is_defined[s] || !sym_guards_hold(space, size_of, sizes[s], &first)) continue;
        if (!sym_calculate(space, drawn->handle, size_of, sizes[s], &value) ||
            value != drawn->values[s] || value < min || value > max)
            fail_msg("%s is %lld at %lld,%lld,%lld,%lld, not %lld; it is from %lld to %lld",
                     sym_text(ctx, drawn->handle, 1024, text), (long long)value,
                     (long long)sizes[s][0], (long long)sizes[s][1], (long long)sizes[s][2],
                     (long long)sizes[s][3], (long long)drawn->values[s], (long long)min,
                     (long long)max);
        (*n_compared)++;
    }
}

/* Makes 40 random expressions of names and numbers, with some decisions between them, and compares.
 * Returns the number of values compared. */
static int run_program(context_t *ctx, uint64_t *seed)
{
    static const char *const names[N_NAMES] = {"H", "W", "N", "T"};
    sym_space_t *space = enter(ctx);
    int64_t sizes[N_SIZES][N_NAMES];
    drawn_t pool[64];
    int n = 0, n_compared = 0;
    for (int s = 0; s < N_SIZES; s++)
        for (int k = 0; k < N_NAMES; k++) sizes[s][k] = (int64_t)(1 + draw(seed, s < 3 ? 12 : 700));
    for (int k = 0; k < N_NAMES; k++, n++) {
        pool[n].handle = sym_name(ctx, names[k], sizes[0][k], 1, INT64_MAX);
        for (int s = 0; s < N_SIZES; s++) {
            pool[n].values[s] = sizes[s][k];
            pool[n].is_defined[s] = true;
        }
    }
    for (int k = 0; k < 8; k++, n++) {
        pool[n].handle = (int64_t)draw(seed, 12) - 2;
        for (int s = 0; s < N_SIZES; s++) {
            pool[n].values[s] = pool[n].handle;
            pool[n].is_defined[s] = true;
        }
    }
    for (int i = 0; i < 40; i++) {
        if (!draw_expression(ctx, seed, pool, n, &pool[n])) continue;
        check_drawn(ctx, space, &pool[n], sizes, &n_compared);
        if (draw(seed, 8) == 0) {
            const drawn_t *other = &pool[draw(seed, (uint64_t)n)];
            const bool is_less = sym_less(ctx, pool[n].handle, other->handle);
            if (sym_status(ctx) == STATUS_OK)
                assert_int_equal(is_less, pool[n].values[0] < other->values[0]);
        } else if (draw(seed, 16) == 0) {
            const bool divides = sym_divides(ctx, 4, pool[n].handle);
            if (sym_status(ctx) == STATUS_OK) assert_int_equal(divides, pool[n].values[0] % 4 == 0);
        } else if (draw(seed, 16) == 0) {
            const drawn_t *other = &pool[draw(seed, (uint64_t)n)];
            const bool is_equal = sym_equal(ctx, pool[n].handle, other->handle);
            if (sym_status(ctx) == STATUS_OK)
                assert_int_equal(is_equal, pool[n].values[0] == other->values[0]);
        }
        n++;
    }
    /* compares again, because guards that were added later must not change values */
    for (int i = 0; i < n; i++) check_drawn(ctx, space, &pool[i], sizes, &n_compared);
    leave(ctx, space);
    return n_compared;
}

static void random_expressions_are_right(void **state)
{
    context_t *ctx = fixture_context(state);
    int n_compared = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t seed = i;
        n_compared += run_program(ctx, &seed);
    }
    assert_true(n_compared > 40000);
}

static bool put_height(void *user, int name, const char *text, int64_t *out_value)
{
    (void)name;
    *out_value = *(const int64_t *)user;
    return strcmp(text, "H") == 0;
}

static bool is_dimension(void *user, int name, const char *text)
{
    (void)user;
    (void)name;
    return text[0] == '#';
}

static void names_are_replaced(void **state)
{
    context_t *ctx = fixture_context(state);
    sym_space_t *space = enter(ctx), *other = NULL;
    char text[64];
    make_names(ctx);
    const int64_t a = parse(ctx, "min(H/8*W,#1+3)"), height = 20, huge = INT64_C(1) << 61;
    int64_t put = 0;
    assert_true(sym_any_name(space, a, is_dimension, NULL));
    assert_false(sym_any_name(space, parse(ctx, "H*W"), is_dimension, NULL));
    CHECK_OK(ctx, sym_put(ctx, space, a, space, put_height, (void *)(uintptr_t)&height, &put));
    check_text(ctx, put, "min(2*W,#1+3)");
    CHECK_FAILS(
        ctx,
        sym_put(ctx, space, parse(ctx, "4*H"), space, put_height, (void *)(uintptr_t)&huge, &put),
        STATUS_INVALID_ARGUMENT, "a computed size overflows");
    CHECK_OK(ctx, sym_space_create(ctx, &other));
    CHECK_OK(ctx, sym_put(ctx, space, a, other, NULL, NULL, &put));
    sym_space_enter(ctx, other);
    assert_string_equal(sym_text(ctx, put, sizeof text, text), "min(H/8*W,#1+3)");
    sym_space_enter(ctx, space);
    sym_space_release(other);
    leave(ctx, space);
}

static status_t scenario(context_t *ctx)
{
    sym_space_t *space = NULL;
    TRY(sym_space_create(ctx, &space));
    sym_space_enter(ctx, space);
    make_names(ctx);
    for (int i = 0; i < 70; i++) {
        const int64_t h = sym_name(ctx, "H", 64, 1, INT64_MAX);
        (void)sym_divides(ctx, 8, sym_add(ctx, sym_multiply(ctx, h, i), i));
    }
    status_t status = sym_status(ctx);
    sym_space_enter(ctx, NULL);
    sym_space_release(space);
    return status;
}

static void refused_memory_is_a_failure(void **state)
{
    (void)state;
    check_every_allocation(scenario);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(numbers_need_no_space),
        TEST(equal_expressions_are_one_handle),
        TEST(ranges_follow_operands),
        TEST(decisions_become_guards),
        TEST(an_equation_replaces_a_name),
        TEST(a_guard_says_no_more_than_its_decision_needs),
        TEST(a_proven_guard_of_text_is_none),
        TEST(guards_are_checked),
        TEST(arithmetic_on_handles_is_detected),
        TEST(comparisons_of_unknown_sizes_are_undecided),
        TEST(limits_are_named),
        TEST(names_are_replaced),
        TEST(random_expressions_are_right),
        TEST(refused_memory_is_a_failure),
    };
    return cmocka_run_group_tests_name("tensor/sym", tests, NULL, NULL);
}
