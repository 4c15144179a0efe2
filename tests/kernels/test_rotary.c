/* Rotation of pairs with each instruction set of the machine, compared with double. */
#include "tests/support/support.h"

#include <math.h>

#include "kernels/attention/rotary_impl.h"

enum { MOST = 70 };

static void check(isa_t isa, bool is_interleaved, int64_t n)
{
    float x[2 * MOST], cosines[MOST], sines[MOST], out[2 * MOST + 1];
    for (int64_t i = 0; i < 2 * MOST; i++) x[i] = (float)(i * 37 % 101) / 7.0f - 6.0f;
    for (int64_t i = 0; i < MOST; i++) {
        cosines[i] = cosf((float)i);
        sines[i] = sinf((float)i);
    }
    out[2 * n] = 42.0f;
    rotary_turn(isa, is_interleaved, n, x, cosines, sines, out);
    assert_true(out[2 * n] == 42.0f);
    for (int64_t i = 0; i < n; i++) {
        const int64_t first = is_interleaved ? 2 * i : i,
                      second = is_interleaved ? first + 1 : n + i;
        const double a = x[first], b = x[second], c = cosines[i], s = sines[i];
        const double wanted[] = {a * c - b * s, b * c + a * s};
        if (!(fabs(out[first] - wanted[0]) <= 4e-6 && fabs(out[second] - wanted[1]) <= 4e-6))
            fail_msg("%s, %lld pairs%s, pair %lld: (%.9g, %.9g), wanted (%.9g, %.9g)",
                     isa_name(isa), (long long)n, is_interleaved ? " of neighbours" : "",
                     (long long)i, (double)out[first], (double)out[second], wanted[0], wanted[1]);
    }
}

static void pairs_are_rotated_as_in_double(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 3, 7, 8, 15, 16, 17, 31, 32, 33, MOST};
    for (isa_t isa = ISA_PORTABLE; isa < ISA_COUNT; isa++)
        for (size_t i = 0; isa_has(isa) && i < sizeof sizes / sizeof *sizes; i++) {
            check(isa, false, sizes[i]);
            check(isa, true, sizes[i]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pairs_are_rotated_as_in_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
