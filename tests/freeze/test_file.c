#include "freeze/freeze.h"

#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/file.h"
#include "tests/support/nets.h"

#define PATH "test_file.tessera"
#define HEADER_BYTES 136
#define DAMAGED "test_file_damaged.tessera"

static void save(context_t *ctx, module_t *(*make)(context_t *), module_t **out_frozen)
{
    module_t *net = make(ctx);
    datum_t *version = NULL;
    const char *const preserved[] = {"version", NULL};
    CHECK_OK(ctx, datum_int(ctx, 7, &version));
    CHECK_OK(ctx, module_set_attribute(ctx, net, "version", version));
    CHECK_OK(ctx, freeze(ctx, net, &(freeze_options_t){.preserved = preserved}, out_frozen));
    CHECK_OK(ctx, freeze_save(ctx, *out_frozen, PATH));
    datum_release(version);
    module_release(net);
}

static void check_same(context_t *ctx, module_t *a, module_t *b, int64_t batch)
{
    tensor_t *x = net_input(ctx, batch), *expected = NULL, *actual = NULL;
    double difference = 1.0;
    CHECK_OK(ctx, module_forward(ctx, a, x, &expected));
    CHECK_OK(ctx, module_forward(ctx, b, x, &actual));
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, actual, expected, &difference));
    assert_true(difference < 1e-6);
    tensor_release(x);
    tensor_release(expected);
    tensor_release(actual);
}

static void a_loaded_module_gives_the_same_and_reorders_no_weight(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *(*const nets[])(context_t *) = {net_grouped, net_residual};
    for (int i = 0; i < 2; i++) {
        module_t *frozen = NULL, *loaded = NULL;
        counters_t counters;
        save(ctx, nets[i], &frozen);
        counters_reset(ctx);
        CHECK_OK(ctx, freeze_load(ctx, PATH, &loaded));
        check_same(ctx, frozen, loaded, 1);
        counters_read(ctx, &counters);
        assert_int_equal(counters_weight_reorders(&counters), 0);
        check_same(ctx, frozen, loaded, 3);
        assert_true(freeze_is_frozen(loaded));
        assert_int_equal(datum_as_int(module_attribute(loaded, "version")), 7);
        module_release(frozen);
        module_release(loaded);
    }
    remove(PATH);
}

static void another_number_of_threads_still_gives_the_same(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *frozen = NULL, *loaded = NULL;
    save(ctx, net_grouped, &frozen);
    CHECK_OK(ctx, context_set_threads(ctx, 1));
    CHECK_OK(ctx, freeze_load(ctx, PATH, &loaded));
    check_same(ctx, frozen, loaded, 1);
    module_release(frozen);
    module_release(loaded);
    remove(PATH);
}

static void saving_over_the_file_that_is_mapped_is_safe(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *frozen = NULL, *loaded = NULL, *again = NULL;
    save(ctx, net_residual, &frozen);
    CHECK_OK(ctx, freeze_load(ctx, PATH, &loaded));
    CHECK_OK(ctx, freeze_save(ctx, loaded, PATH));
    check_same(ctx, frozen, loaded, 1);
    CHECK_OK(ctx, freeze_load(ctx, PATH, &again));
    check_same(ctx, frozen, again, 1);
    module_release(frozen);
    module_release(loaded);
    module_release(again);
    remove(PATH);
}

static char *read_all(context_t *ctx, size_t *out_n)
{
    file_mapping_t *mapping = NULL;
    CHECK_OK(ctx, file_map(ctx, PATH, &mapping));
    *out_n = file_size(mapping);
    char *bytes = malloc(*out_n);
    assert_non_null(bytes);
    memcpy(bytes, file_bytes(mapping), *out_n);
    file_release(mapping);
    return bytes;
}

/* Loading these bytes is refused with a message; nothing is left. */
static void check_refused(context_t *ctx, const char *bytes, size_t n)
{
    module_t *loaded = NULL;
    FILE *file = fopen(DAMAGED, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    fclose(file);
    status_t status = freeze_load(ctx, DAMAGED, &loaded);
    assert_true(status == STATUS_CORRUPT || status == STATUS_UNSUPPORTED);
    assert_non_null(strstr(context_error(ctx), "freeze_load: "));
    assert_null(loaded);
}

static void every_flipped_bit_of_the_header_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *frozen = NULL;
    size_t n = 0;
    save(ctx, net_residual, &frozen);
    char *bytes = read_all(ctx, &n);
    for (size_t bit = 0; bit < HEADER_BYTES * 8; bit++) {
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << bit % 8));
        check_refused(ctx, bytes, n);
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << bit % 8));
    }
    free(bytes);
    module_release(frozen);
    remove(PATH);
    remove(DAMAGED);
}

static void damage_anywhere_and_truncation_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *frozen = NULL;
    size_t n = 0;
    save(ctx, net_residual, &frozen);
    char *bytes = read_all(ctx, &n);
    for (size_t length = 1; length < n; length += length < 4096 ? 61 : 997)
        check_refused(ctx, bytes, length);
    size_t text = 0;
    while (text + 8 < n && memcmp(bytes + text, "graph me", 8) != 0) text++;
    assert_true(text + 8 < n);
    for (size_t i = 0; i < 40; i++) {
        size_t at = text + i * 11;
        bytes[at] = (char)(bytes[at] ^ 4);
        check_refused(ctx, bytes, n);
        bytes[at] = (char)(bytes[at] ^ 4);
    }
    free(bytes);
    module_release(frozen);
    remove(PATH);
    remove(DAMAGED);
}

static void what_is_no_file_of_ours_is_named(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = net_grouped(ctx), *loaded = NULL;
    char garbage[400] = "this is no model";
    CHECK_FAILS(ctx, freeze_save(ctx, net, PATH), STATUS_INVALID_ARGUMENT, "is not frozen");
    CHECK_FAILS(ctx, freeze_load(ctx, "no_such_file.tessera", &loaded), STATUS_IO,
                "no_such_file.tessera");
    check_refused(ctx, garbage, sizeof garbage);
    module_release(net);
    remove(DAMAGED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_loaded_module_gives_the_same_and_reorders_no_weight),
        TEST(another_number_of_threads_still_gives_the_same),
        TEST(saving_over_the_file_that_is_mapped_is_safe),
        TEST(every_flipped_bit_of_the_header_is_refused),
        TEST(damage_anywhere_and_truncation_are_refused),
        TEST(what_is_no_file_of_ours_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
