#include "tests/support/support.h"

static void every_code_has_its_name(void **state)
{
    (void)state;
    assert_string_equal(status_name(STATUS_OK), "OK");
    assert_string_equal(status_name(STATUS_INVALID_ARGUMENT), "INVALID_ARGUMENT");
    assert_string_equal(status_name(STATUS_UNSUPPORTED), "UNSUPPORTED");
    assert_string_equal(status_name(STATUS_OUT_OF_MEMORY), "OUT_OF_MEMORY");
    assert_string_equal(status_name(STATUS_IO), "IO");
    assert_string_equal(status_name(STATUS_CORRUPT), "CORRUPT");
    assert_string_equal(status_name(STATUS_ONEDNN), "ONEDNN");
    assert_string_equal(status_name((status_t)99), "UNKNOWN");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_code_has_its_name)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
