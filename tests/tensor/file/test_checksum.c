#include "tests/support/support.h"

#include <string.h>

#include "tensor/file/file.h"

/* Values printed by checksum_values.py. */
static const struct {
    size_t size;
    uint64_t seed, checksum;
} known[] = {
    {0, UINT64_C(0x0), UINT64_C(0xef46db3751d8e999)},
    {0, UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0xc4349fc93c010000)},
    {1, UINT64_C(0x0), UINT64_C(0x1f25c8d0bc1f4bb6)},
    {1, UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0x79826bcd749d267a)},
    {3, UINT64_C(0x0), UINT64_C(0x31d2363f52e564c9)},
    {3, UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0x78efd77575e26575)},
    {4, UINT64_C(0x0), UINT64_C(0x9bb64b7d66ee9fda)},
    {4, UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0x6f0a6c97d68bf353)},
    {5, UINT64_C(0x0), UINT64_C(0xc7608efddb7051fe)},
    {5, UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0xa677b535c22b67a5)},
    {7, UINT64_C(0x0), UINT64_C(0x9a7b149959ce60d8)},
    {7, UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0xd97ede93c9d66a0d)},
    {8, UINT64_C(0x0), UINT64_C(0xdab99d95c6f90092)},
    {8, UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0xa2f1e28437a78a1b)},
    {11, UINT64_C(0x0), UINT64_C(0x7a52cc9457cf1a1f)},
    {11, UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0x8d2b0d24762d2b6e)},
    {12, UINT64_C(0x0), UINT64_C(0xd52e407833af5133)},
    {12, UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0xbcc9f0d616ff9a7b)},
    {31, UINT64_C(0x0), UINT64_C(0xa2aa5f33cc4a6119)},
    {31, UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0x755437271d1d0a84)},
    {32, UINT64_C(0x0), UINT64_C(0x23c3c17ef790fd97)},
    {32, UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0xbf624b932c090428)},
    {33, UINT64_C(0x0), UINT64_C(0x50a7cfc7ba588784)},
    {33, UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0x7aceaf1e9d34ea35)},
    {36, UINT64_C(0x0), UINT64_C(0xc0b52b0dcc5e3f7f)},
    {36, UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0xc2143dc58c007451)},
    {40, UINT64_C(0x0), UINT64_C(0xb620306b253d76b6)},
    {40, UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0x3b3666e250c83a50)},
    {63, UINT64_C(0x0), UINT64_C(0x5e3e54b431c7493c)},
    {63, UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0x2c8ddce5c85d0d9d)},
    {64, UINT64_C(0x0), UINT64_C(0xeb64b3ef6eeb01f)},
    {64, UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0x4af341f14e3a6fc9)},
    {65, UINT64_C(0x0), UINT64_C(0xa383b724b2bd12f1)},
    {65, UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0x8e9e580645400102)},
    {127, UINT64_C(0x0), UINT64_C(0xc2b3713c3edbeb3)},
    {127, UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0xf1e4a677a231980d)},
    {128, UINT64_C(0x0), UINT64_C(0x46fbcfbf0150793f)},
    {128, UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0x60d4184dd722fddc)},
    {999, UINT64_C(0x0), UINT64_C(0xc373150be8d9af9c)},
    {999, UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0x865bf10837cde934)},
    {1000, UINT64_C(0x0), UINT64_C(0x5f235fa033f1a3fb)},
    {1000, UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0x442acd0a822e86f6)},
};

static void fill(uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)(i * 7 + 3);
}

static void published_examples_have_their_checksums(void **state)
{
    (void)state;
    assert_int_equal(file_checksum("", 0, 0), UINT64_C(0xef46db3751d8e999));
    assert_int_equal(file_checksum(NULL, 0, 0), UINT64_C(0xef46db3751d8e999));
    assert_int_equal(file_checksum("a", 1, 0), UINT64_C(0xd24ec4f1a98c6e5b));
    assert_int_equal(file_checksum("abc", 3, 0), UINT64_C(0x44bc2cf5ad770999));
    assert_int_equal(file_checksum("xxhash", 6, 20141025), UINT64_C(0xb559b98d844e0635));
}

static void checksums_are_those_of_libxxhash(void **state)
{
    (void)state;
    uint8_t bytes[1000];
    fill(bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_int_equal(file_checksum(bytes, known[i].size, known[i].seed), known[i].checksum);
}

static void the_place_in_memory_does_not_matter(void **state)
{
    (void)state;
    uint8_t bytes[1000], moved[1008];
    fill(bytes, sizeof bytes);
    uint64_t checksum = file_checksum(bytes, sizeof bytes, 1);
    for (size_t shift = 1; shift < 8; shift++) {
        memcpy(moved + shift, bytes, sizeof bytes);
        assert_int_equal(file_checksum(moved + shift, sizeof bytes, 1), checksum);
    }
}

static void every_bit_counts(void **state)
{
    (void)state;
    uint8_t bytes[77];
    fill(bytes, sizeof bytes);
    uint64_t checksum = file_checksum(bytes, sizeof bytes, 0);
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] = (uint8_t)(bytes[bit / 8] ^ 1u << bit % 8);
        assert_int_not_equal(file_checksum(bytes, sizeof bytes, 0), checksum);
        bytes[bit / 8] = (uint8_t)(bytes[bit / 8] ^ 1u << bit % 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_examples_have_their_checksums),
        cmocka_unit_test(checksums_are_those_of_libxxhash),
        cmocka_unit_test(the_place_in_memory_does_not_matter),
        cmocka_unit_test(every_bit_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
