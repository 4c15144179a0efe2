#include "tensor/base/version.h"

#include "tests/support/support.h"

#include <stdio.h>

static void headers_and_library_have_one_version(void **state)
{
    (void)state;
    char text[64];
    assert_int_equal(tessera_version(), TESSERA_VERSION);
    snprintf(text, sizeof text, "%d.%d.%d", TESSERA_VERSION / 1000000,
             TESSERA_VERSION / 1000 % 1000, TESSERA_VERSION % 1000);
    assert_string_equal(tessera_version_text(), text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(headers_and_library_have_one_version)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
