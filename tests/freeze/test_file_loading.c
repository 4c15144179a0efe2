/* Ways to load a file: mapped or copied, with or without checksums of constants. */
#define _POSIX_C_SOURCE 200809L

#include "freeze/freeze.h"

#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph/ir/graph.h"
#include "tensor/tensor_impl.h"
#include "tests/support/frozen_file.h"
#include "tests/support/nets/nets.h"
#include "tests/support/nets/subject.h"

#define PATH "test_file_loading.tessera"
#define OTHER "test_file_loading_other.tessera"

enum { N_WAYS = 4 };

static const freeze_load_options_t ways[N_WAYS] = {
    {0}, {.is_unchecked = true}, {.is_copied = true}, {.is_copied = true, .is_unchecked = true}};

static module_t *save(context_t *ctx)
{
    module_t *net = net_residual(ctx), *frozen = NULL;
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    CHECK_OK(ctx, freeze_save(ctx, frozen, PATH));
    module_release(net);
    return frozen;
}

static tensor_t *run(context_t *ctx, module_t *module)
{
    tensor_t *x = NULL, *y = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(1, 3, 32, 32), 0.5, &x));
    CHECK_OK(ctx, module_forward(ctx, module, x, &y));
    tensor_release(x);
    return y;
}

static double difference_of(context_t *ctx, module_t *a, module_t *b)
{
    tensor_t *of_a = run(ctx, a), *of_b = run(ctx, b);
    double difference = 1.0;
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, of_b, of_a, &difference));
    tensor_release(of_a);
    tensor_release(of_b);
    return difference;
}

/* Returns true if this process has mapped the file. */
static bool is_mapped(const char *name)
{
    char line[512];
    bool is_there = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps) != NULL) is_there |= strstr(line, name) != NULL;
    fclose(maps);
    return is_there;
}

static void every_way_gives_the_same_and_reorders_no_weight(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *frozen = save(ctx);
    size_t n = 0, n_again = 0;
    char *bytes = frozen_file_read(PATH, &n);
    for (int w = 0; w < N_WAYS; w++) {
        module_t *loaded = NULL;
        counters_t counters;
        counters_reset(ctx);
        CHECK_OK(ctx, freeze_load_with(ctx, PATH, &ways[w], &loaded));
        counters_read(ctx, &counters);
        assert_int_equal(counters_weight_reorders(&counters), 0);
        assert_int_equal(is_mapped(PATH), !ways[w].is_copied);
        assert_true(difference_of(ctx, frozen, loaded) == 0.0);
        CHECK_OK(ctx, freeze_save(ctx, loaded, OTHER));
        char *again = frozen_file_read(OTHER, &n_again);
        assert_int_equal(n_again, n);
        assert_memory_equal(again, bytes, n);
        free(again);
        module_release(loaded);
    }
    free(bytes);
    module_release(frozen);
    remove(PATH);
    remove(OTHER);
}

/* A single pixel with 88 channels has the same bytes in blocks of 8 channels as without blocks. The
 * packed weight must still match the format that the layout pass chose. */
static void weights_at_one_pixel_are_in_the_file_as_they_are_read(void **state)
{
    context_t *ctx = fixture_context(state);
    static const int channels[][2] = {{88, 22}, {48, 12}, {104, 26}, {96, 24}, {64, 20}, {176, 44}};
    for (size_t i = 0; i < sizeof channels / sizeof *channels; i++) {
        const int c = channels[i][0], k = channels[i][1];
        char parameters[128];
        module_t *frozen = NULL, *loaded = NULL;
        tensor_t *x = NULL, *y = NULL, *z = NULL;
        counters_t counters;
        double difference = 1.0;
        snprintf(parameters, sizeof parameters, "a=%d,16,1,1 b=%d,%d,1,1 c=%d,%d,1,1", c, k, c, c,
                 k);
        module_t *net = subject_net(ctx, parameters, "%x : f32[1,16,24,24]",
                                    "  %1 = conv2d(%x, %a, none)\n"
                                    "  %2 = relu(%1)\n"
                                    "  %3 = adaptive_avg_pool(%2) output_size=[1,1]\n"
                                    "  %4 = conv2d(%3, %b, none)\n"
                                    "  %5 = relu(%4)\n"
                                    "  %6 = conv2d(%5, %c, none)\n"
                                    "  %7 = sigmoid(%6)\n"
                                    "  %8 = mul(%2, %7)\n"
                                    "  return %8\n");
        CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 16, 24, 24), &x));
        CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
        CHECK_OK(ctx, freeze_save(ctx, frozen, PATH));
        counters_reset(ctx);
        CHECK_OK(ctx, freeze_load(ctx, PATH, &loaded));
        CHECK_OK(ctx, module_forward(ctx, loaded, x, &y));
        counters_read(ctx, &counters);
        if (counters.weights_packed > 0 || counters_weight_reorders(&counters) > 0)
            fail_msg("%d to %d channels: %d weights packed", c, k, (int)counters.weights_packed);
        CHECK_OK(ctx, module_forward(ctx, net, x, &z));
        CHECK_OK(ctx, tensor_max_rel_diff(ctx, y, z, &difference));
        assert_true(difference <= 1e-5);
        tensor_release(x);
        tensor_release(y);
        tensor_release(z);
        module_release(loaded);
        module_release(frozen);
        module_release(net);
    }
    remove(PATH);
}

/* The file has a method's constants in the order in which the graph uses them. */
static void copied_constants_lie_in_the_order_of_use(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *frozen = save(ctx), *loaded = NULL;
    CHECK_OK(ctx,
             freeze_load_with(ctx, PATH, &(freeze_load_options_t){.is_copied = true}, &loaded));
    const graph_t *graph = graph_of(loaded, "forward");
    const char *last = NULL;
    int n = 0;
    for (value_t value = 0; value < graph_n_values(graph); value++) {
        const datum_t *constant = graph_constant(graph, value);
        if (constant == NULL || datum_kind(constant) != DATUM_TENSOR) continue;
        const char *bytes = tensor_bytes(datum_as_tensor(constant));
        assert_int_equal((uintptr_t)bytes % 64, 0);
        assert_true(last == NULL || (bytes > last && bytes < last + 100000));
        last = bytes;
        n++;
    }
    assert_true(n >= 3);
    module_release(loaded);
    module_release(frozen);
    remove(PATH);
}

/* ---- damage ---- */

static file_blob_t blob_of(const char *bytes, size_t index)
{
    file_header_t header;
    file_blob_t blob;
    memcpy(&header, bytes, sizeof header);
    assert_true(index < header.blobs.bytes / sizeof blob);
    memcpy(&blob, bytes + header.blobs.offset + index * sizeof blob, sizeof blob);
    return blob;
}

static void put_blob(char *bytes, size_t index, const file_blob_t *blob)
{
    file_header_t header;
    memcpy(&header, bytes, sizeof header);
    memcpy(bytes + header.blobs.offset + index * sizeof *blob, blob, sizeof *blob);
}

static void a_damaged_constant_is_refused_unless_it_is_unchecked(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *frozen = save(ctx);
    size_t n = 0;
    char *bytes = frozen_file_read(PATH, &n);
    const file_blob_t blob = blob_of(bytes, 0);
    memset(bytes + blob.at.offset, 0x40, blob.at.bytes); /* all elements become 3.0 */
    frozen_file_write(OTHER, bytes, n);
    for (int w = 0; w < N_WAYS; w++) {
        module_t *loaded = NULL;
        status_t status = freeze_load_with(ctx, OTHER, &ways[w], &loaded);
        if (!ways[w].is_unchecked) {
            CHECK_FAILS(ctx, status, STATUS_CORRUPT, "freeze_load: " OTHER ": blob 0 is damaged");
            assert_null(loaded);
            continue;
        }
        CHECK_OK(ctx, status);
        assert_true(difference_of(ctx, frozen, loaded) > 0.01);
        module_release(loaded);
    }
    free(bytes);
    module_release(frozen);
    remove(PATH);
    remove(OTHER);
}

static void check_refused(context_t *ctx, const char *bytes, size_t n, const char *part)
{
    frozen_file_write(OTHER, bytes, n);
    for (int w = 0; w < N_WAYS; w++) {
        module_t *loaded = NULL;
        CHECK_FAILS(ctx, freeze_load_with(ctx, OTHER, &ways[w], &loaded), STATUS_CORRUPT, part);
        context_clear_error(ctx);
        assert_null(loaded);
    }
}

/* The files are damaged outside of constants, and then get correct checksums. */
static void all_but_the_bytes_of_constants_is_checked_in_every_way(void **state)
{
    context_t *ctx = fixture_context(state);
    module_release(save(ctx));
    size_t n = 0;
    char *bytes = frozen_file_read(PATH, &n);
    const file_blob_t first = blob_of(bytes, 0), second = blob_of(bytes, 1);
    file_blob_t lie = second;
    lie.at.offset = first.at.offset + first.at.bytes / 128 * 64;
    put_blob(bytes, 1, &lie);
    frozen_seal(bytes, n);
    check_refused(ctx, bytes, n, "blob 1 overlaps the one before it");
    lie.at.offset = (n + 63) / 64 * 64;
    put_blob(bytes, 1, &lie);
    frozen_seal(bytes, n);
    check_refused(ctx, bytes, n, "blob 1 is outside the file");
    put_blob(bytes, 1, &second);
    frozen_seal(bytes, n);
    check_refused(ctx, bytes, n - 64, "bytes, ");
    bytes[(sizeof(file_header_t) + 63) / 64 * 64] ^= 1;
    check_refused(ctx, bytes, n, "the text is damaged");
    free(bytes);
    remove(PATH);
    remove(OTHER);
}

/* ---- ownership of bytes ---- */

static void modules_of_one_file_do_not_see_each_other(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *frozen = save(ctx), *loaded[N_WAYS] = {NULL};
    for (int w = 0; w < N_WAYS; w++)
        CHECK_OK(ctx, freeze_load_with(ctx, PATH, &ways[w], &loaded[w]));
    for (int w = 0; w < N_WAYS; w++) {
        assert_true(difference_of(ctx, frozen, loaded[w]) == 0.0);
        module_release(loaded[w]);
        for (int other = w + 1; other < N_WAYS; other++)
            assert_true(difference_of(ctx, frozen, loaded[other]) == 0.0);
    }
    module_release(frozen);
    remove(PATH);
}

/* Reading a mapping of a file that was truncated since would crash. */
static void a_copied_module_needs_no_file(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *frozen = save(ctx), *loaded[2] = {NULL};
    for (int i = 0; i < 2; i++)
        CHECK_OK(ctx, freeze_load_with(ctx, PATH, &ways[2 + i], &loaded[i]));
    assert_int_equal(truncate(PATH, 1), 0);
    remove(PATH);
    for (int i = 0; i < 2; i++) {
        assert_true(difference_of(ctx, frozen, loaded[i]) == 0.0);
        CHECK_OK(ctx, freeze_save(ctx, loaded[i], OTHER));
        module_release(loaded[i]);
    }
    module_release(frozen);
    remove(OTHER);
}

static void a_mapped_file_may_be_removed(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *frozen = save(ctx), *loaded = NULL;
    CHECK_OK(ctx, freeze_load_with(ctx, PATH, &ways[1], &loaded));
    remove(PATH);
    assert_true(difference_of(ctx, frozen, loaded) == 0.0);
    module_release(loaded);
    module_release(frozen);
}

static status_t load_copied(context_t *ctx)
{
    module_t *loaded = NULL;
    status_t status = freeze_load_with(ctx, PATH, &(freeze_load_options_t){.is_copied = true},
                                       &loaded);
    module_release(loaded);
    return status;
}

static void every_failing_allocation_is_a_status(void **state)
{
    context_t *ctx = fixture_context(state);
    module_release(save(ctx));
    check_every_allocation(load_copied);
    remove(PATH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_way_gives_the_same_and_reorders_no_weight),
        TEST(weights_at_one_pixel_are_in_the_file_as_they_are_read),
        TEST(copied_constants_lie_in_the_order_of_use),
        TEST(a_damaged_constant_is_refused_unless_it_is_unchecked),
        TEST(all_but_the_bytes_of_constants_is_checked_in_every_way),
        TEST(modules_of_one_file_do_not_see_each_other),
        TEST(a_copied_module_needs_no_file),
        TEST(a_mapped_file_may_be_removed),
        TEST(every_failing_allocation_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
