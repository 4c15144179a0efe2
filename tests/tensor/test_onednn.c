#include "tests/support/support.h"

#include <string.h>

#include "tensor/onednn/onednn.h"

/* The bits of instruction sets as oneDNN's headers have them, from AVX-512 with fp16 on those of
 * versions after 3.2. */
static void an_instruction_set_of_a_later_version_goes_by_the_best_known_in_it(void **state)
{
    (void)state;
    static const struct {
        unsigned isa;
        const char *name;
        bool has_avx512, has_avx2;
    } sets[] = {
        {0x0, "other", false, false},
        {0x1, "sse41", false, false},
        {0x3, "avx", false, false},
        {0x7, "avx2", false, true},
        {0x27, "avx512_core", true, true},
        {0x67, "avx512_core_vnni", true, true},
        {0xe7, "avx512_core_bf16", true, true},
        {0x1ef, "avx512_core_fp16", true, true},
        {0x201ff, "avx512_core_fp16", true, true},
        {0x1fef, "avx512_core_amx_fp16", true, true},
        {0x22fff, "avx512_core_", true, true},
    };
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        const char *name = onednn_isa_name(sets[i].isa);
        assert_memory_equal(name, sets[i].name, strlen(sets[i].name));
        assert_int_equal(onednn_isa_has(sets[i].isa, ONEDNN_ISA_AVX512), sets[i].has_avx512);
        assert_int_equal(onednn_isa_has(sets[i].isa, ONEDNN_ISA_AVX2), sets[i].has_avx2);
    }
}

static void the_version_is_three_numbers(void **state)
{
    (void)state;
    int dots = 0;
    for (const char *at = onednn_version_text(); *at != '\0'; at++) {
        assert_true(*at == '.' || (*at >= '0' && *at <= '9'));
        dots += *at == '.';
    }
    assert_int_equal(dots, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_instruction_set_of_a_later_version_goes_by_the_best_known_in_it),
        TEST(the_version_is_three_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
