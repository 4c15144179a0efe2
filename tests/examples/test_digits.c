/* The example digits trains with blocked weights. The frozen network, before and after saving, must
 * predict the same digits. */
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "examples/digits/digits.h"

#define FOLDER TESSERA_SOURCE_DIR "/examples/digits"

/* Sanitizers make training ten times slower. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { EPOCHS = 4, WANTED = 323 /* 90 % of the test images */ };
#else
enum { EPOCHS = 12, WANTED = 354 /* 98.5 % */ };
#endif

typedef struct losses {
    int n;
    double last;
} losses_t;

static void note(void *user, int64_t epoch, double loss)
{
    losses_t *losses = user;
    assert_int_equal(epoch, losses->n);
    losses->n++;
    losses->last = loss;
}

static int count_right(const int64_t *read, const int64_t *digits)
{
    int n = 0;
    for (int i = 0; i < DIGITS_TEST_N; i++) n += read[i] == digits[i];
    return n;
}

static void held_out_pictures_are_not_trained_on(void **state)
{
    context_t *ctx = fixture_context(state);
    dataset_t *train = NULL, *test = NULL;
    CHECK_OK(ctx, digits_load(ctx, FOLDER, &train, &test));
    assert_int_equal(dataset_n(train) + dataset_n(test), DIGITS_N);
    assert_int_equal(dataset_n(test), DIGITS_TEST_N);
    assert_int_equal(dataset_classes(train), 10);
    assert_int_equal(dataset_classes(test), 10);
    dataset_release(train);
    dataset_release(test);
}

static void a_blocked_network_learns_and_is_frozen_as_it_is(void **state)
{
    context_t *ctx = fixture_context(state);
    static int64_t digits[DIGITS_TEST_N], read[DIGITS_TEST_N], again[DIGITS_TEST_N];
    char path[] = "/tmp/tessera_digits_XXXXXX";
    losses_t losses = {0};
    dataset_t *train = NULL, *test = NULL;
    module_t *network = NULL, *frozen = NULL, *loaded = NULL;
    tensor_t *x = NULL;
    CHECK_OK(ctx, digits_load(ctx, FOLDER, &train, &test));
    CHECK_OK(ctx, digits_test_batch(ctx, test, &x, digits));
    context_seed(ctx, 1);
    CHECK_OK(ctx, digits_network(ctx, &network));
    CHECK_OK(ctx, module_mkldnn(ctx, network, NULL));
    CHECK_OK(ctx, digits_train(ctx, network, train, EPOCHS, note, &losses));
    assert_int_equal(losses.n, EPOCHS);
    assert_true(losses.last < 0.5);
    CHECK_OK(ctx, digits_predict(ctx, network, x, DIGITS_TEST_N, read));
    assert_in_range(count_right(read, digits), WANTED, DIGITS_TEST_N);

    CHECK_OK(ctx, graph_trace(ctx, network, "forward", 1, (const tensor_t *[]){x}));
    CHECK_OK(ctx, freeze(ctx, network, NULL, &frozen));
    CHECK_OK(ctx, digits_predict(ctx, frozen, x, DIGITS_TEST_N, again));
    assert_memory_equal(again, read, sizeof read);
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    CHECK_OK(ctx, freeze_save(ctx, frozen, path));
    CHECK_OK(ctx, freeze_load(ctx, path, &loaded));
    CHECK_OK(ctx, digits_predict(ctx, loaded, x, DIGITS_TEST_N, again));
    assert_memory_equal(again, read, sizeof read);
    unlink(path);
    module_release(loaded);
    module_release(frozen);
    module_release(network);
    tensor_release(x);
    dataset_release(test);
    dataset_release(train);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(held_out_pictures_are_not_trained_on),
        TEST(a_blocked_network_learns_and_is_frozen_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
