/* Frozen modules and the store of packed forms: the second context maps what the first one packed,
 * and computes the same bits. */
#include "tensor/store/store.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "freeze/freeze.h"
#include "module/mkldnn.h"
#include "tests/support/nets/subject.h"
#include "tests/support/scratch.h"

static const char parameters[] = "a=64,64,3,3 b=64,64,3,3 c=10,64,1,1";
static const char input[] = "%x : f32[1,64,28,28]";
static const char body[] = "  %1 = conv2d(%x, %a, none) padding=[1,1]\n  %2 = relu(%1)\n"
                           "  %3 = conv2d(%2, %b, none) padding=[1,1]\n"
                           "  %4 = conv2d(%3, %c, none)\n  return %4\n";
enum { RESULT = 10 * 28 * 28 };
static char file[256], folder[256];

static context_t *with_store(const char *path)
{
    context_t *ctx = NULL;
    assert_int_equal(context_create(&(context_options_t){.n_threads = 2, .store = path}, &ctx),
                     STATUS_OK);
    return ctx;
}

static int n_weights, n_mapped; /* in the last plan */

static void count_weights(const plan_t *plan)
{
    int n = 0;
    n_weights = n_mapped = 0;
    assert_true(plan_n_steps(plan) > 0);
    for (int i = 0; i < plan_n_steps(plan); i++) {
        n_weights += plan_step_weights(plan, i, &n);
        n_mapped += n;
    }
    assert_int_equal(plan_step_weights(plan, plan_n_steps(plan), &n), 0);
    assert_int_equal(n, 0);
}

/* Loads the file, runs it, and copies its result and counters. */
static void run_file(const char *store, bool is_copied, float *out_result, counters_t *out_counters)
{
    context_t *ctx = with_store(store);
    module_t *frozen = NULL;
    tensor_t *x = NULL, *y = NULL;
    const void *data = NULL;
    CHECK_OK(ctx, freeze_load_with(ctx, file, &(freeze_load_options_t){.is_copied = is_copied},
                                   &frozen));
    context_seed(ctx, 5);
    count_weights(plan_of(frozen, "forward"));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 64, 28, 28), &x));
    CHECK_OK(ctx, module_forward(ctx, frozen, x, &y));
    CHECK_OK(ctx, tensor_data(ctx, y, &data));
    memcpy(out_result, data, RESULT * sizeof *out_result);
    counters_read(ctx, out_counters);
    tensor_release(x);
    tensor_release(y);
    module_release(frozen);
    context_destroy(ctx);
}

static void save_net(const char *store)
{
    context_t *ctx = with_store(store);
    module_t *net = subject_net(ctx, parameters, input, body), *frozen = NULL;
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    CHECK_OK(ctx, freeze_save(ctx, frozen, file));
    module_release(net);
    module_release(frozen);
    context_destroy(ctx);
}

static status_t count_entry(void *user, const store_entry_t *entry)
{
    *(int *)user += entry->is_whole;
    return STATUS_OK;
}

static int count_entries(const char *store)
{
    int n = 0;
    context_t *ctx = with_store(store);
    CHECK_OK(ctx, store_list(ctx, true, count_entry, &n));
    context_destroy(ctx);
    return n;
}

static void the_second_start_packs_nothing(void **state)
{
    static float first[RESULT], second[RESULT];
    counters_t counters;
    (void)state;
    snprintf(file, sizeof file, "%s/net.tessera", scratch);
    snprintf(folder, sizeof folder, "%s/store", scratch);
    save_net("off");
    run_file("off", false, first, &counters);
    assert_int_equal(counters.weights_packed, 2); /* Winograd's weights are not in the file */
    assert_int_equal(counters.weights_mapped, 0);
    for (int i = 0; i < 3; i++) {
        run_file(folder, i == 2, second, &counters);
        assert_memory_equal(first, second, sizeof first);
        assert_int_equal(counters.weights_packed, i == 0 ? 2 : 0);
        assert_int_equal(counters.weights_mapped, i == 0 ? 0 : 2);
        assert_int_equal(counters_weight_reorders(&counters), 0);
        assert_int_equal(n_weights, 3);
        assert_int_equal(n_mapped, i == 0 ? 1 : i == 1 ? 3 : 2);
        assert_int_equal(counters.copies[CAUSE_WEIGHT], i == 0 ? 2 : 0);
        assert_int_equal(count_entries(folder), 2);
    }
}

/* A file with all forms needs no store. */
static void forms_in_the_file_are_mapped(void **state)
{
    static float first[RESULT], second[RESULT];
    counters_t counters;
    (void)state;
    save_net("off");
    run_file("off", false, first, &counters);
    context_t *ctx = with_store("off");
    CHECK_OK(ctx, freeze_append(ctx, file));
    for (int i = 0; i < 3; i++) {
        run_file("off", false, second, &counters);
        assert_memory_equal(first, second, sizeof first);
        assert_int_equal(counters.weights_packed, i == 0 ? 2 : 0);
        assert_int_equal(counters_weight_reorders(&counters), 0);
        assert_int_equal(n_mapped, i == 0 ? 1 : 3);
        if (i < 2) CHECK_OK(ctx, (i == 0 ? freeze_append_forms : freeze_append)(ctx, file));
    }
    CHECK_FAILS(ctx, freeze_append_forms(ctx, NULL), STATUS_INVALID_ARGUMENT,
                "freeze_append_forms");
    context_destroy(ctx);
}

/* Once a file was found right, it is not read to check it again; a changed file is. */
static void a_changed_file_is_checked_again(void **state)
{
    counters_t counters;
    static float result[RESULT];
    char byte = 0;
    (void)state;
    sleep(3); /* the table of known hashes does not take files that have just changed */
    run_file(folder, false, result, &counters);
    const int open_file = open(file, O_RDWR);
    const off_t last = lseek(open_file, -1, SEEK_END);
    assert_int_equal(pread(open_file, &byte, 1, last), 1);
    for (int i = 0; i < 2; i++) {
        context_t *ctx = with_store(folder);
        module_t *frozen = NULL;
        byte = (char)~byte;
        assert_int_equal(pwrite(open_file, &byte, 1, last), 1);
        if (i == 0)
            CHECK_FAILS(ctx, freeze_load(ctx, file, &frozen), STATUS_CORRUPT, "is damaged");
        else
            CHECK_OK(ctx, freeze_load(ctx, file, &frozen));
        module_release(frozen);
        context_destroy(ctx);
    }
    close(open_file);
}

/* Forms of a module that this process freezes are found, too: their names follow from bytes. */
static void a_frozen_copy_shares_the_forms(void **state)
{
    counters_t counters;
    (void)state;
    context_t *ctx = with_store(folder);
    module_t *net = subject_net(ctx, parameters, input, body), *frozen = NULL;
    tensor_t *x = NULL, *y = NULL;
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 64, 28, 28), &x));
    CHECK_OK(ctx, module_forward(ctx, frozen, x, &y));
    counters_read(ctx, &counters);
    assert_int_equal(counters.weights_mapped, 2);
    tensor_release(x);
    tensor_release(y);
    module_release(net);
    module_release(frozen);
    context_destroy(ctx);
}

/* Weights of a module that may be trained change; they are not stored. */
static void weights_that_may_change_are_not_stored(void **state)
{
    char other[300];
    counters_t counters;
    (void)state;
    snprintf(other, sizeof other, "%s/none", scratch);
    context_t *ctx = with_store(other);
    module_t *net = subject_net(ctx, parameters, input, body);
    tensor_t *x = NULL, *y = NULL;
    CHECK_OK(ctx, module_mkldnn(ctx, net, NULL));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 64, 28, 28), &x));
    CHECK_OK(ctx, module_forward(ctx, net, x, &y));
    counters_read(ctx, &counters);
    assert_true(counters.weights_packed > 0);
    tensor_release(x);
    tensor_release(y);
    module_release(net);
    context_destroy(ctx);
    assert_int_equal(count_entries(other), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_second_start_packs_nothing),
        cmocka_unit_test(forms_in_the_file_are_mapped),
        cmocka_unit_test(a_changed_file_is_checked_again),
        cmocka_unit_test(a_frozen_copy_shares_the_forms),
        cmocka_unit_test(weights_that_may_change_are_not_stored),
    };
    return cmocka_run_group_tests(tests, scratch_begin, scratch_end);
}
