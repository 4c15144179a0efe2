#define _POSIX_C_SOURCE 200809L

#include "tests/support/support.h"

#include <pthread.h>

#include "ops/ops.h"
#include "tensor/convert/convert_impl.h"
#include "tensor/convert/form_impl.h"

/* Makes f32[1,16,2,2] of 0, 1, 2, ..., mkldnn in row-major order. The tests request its form (a
 * copy in another format) in blocks of 8. */
static tensor_t *counted(context_t *ctx)
{
    tensor_t *numbers = NULL, *view = NULL, *m = NULL;
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_F32, 64, 0, &numbers));
    CHECK_OK(ctx, tensor_view(ctx, numbers, SHAPE(1, 16, 2, 2), &view));
    CHECK_OK(ctx, to_mkldnn(ctx, view, &m));
    tensor_release(numbers);
    tensor_release(view);
    return m;
}

static tensor_info_t blocked(const tensor_t *tensor)
{
    format_t format = format_channel_blocks(4, 8);
    return info_mkldnn(tensor_info(tensor), &format);
}

static int n_forms(const tensor_t *tensor)
{
    tensor_t *forms[4];
    int n = form_list(tensor, 4, forms);
    for (int i = 0; i < n; i++) tensor_release(forms[i]);
    return n;
}

/* Returns element 1 in memory. In blocks of 8 it is the first element of channel 1. */
static double second_of(const tensor_t *tensor)
{
    return ((const float *)tensor_bytes(tensor))[1];
}

static void a_form_is_made_once_and_given_to_all(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *m = counted(ctx), *first = NULL, *second = NULL;
    tensor_info_t want = blocked(m);
    bool is_made = false;
    counters_reset(ctx);
    CHECK_OK(ctx, form_get(ctx, m, &want, NULL, CAUSE_MISMATCH, &is_made, &first));
    assert_true(is_made);
    CHECK_OK(ctx, form_get(ctx, m, &want, NULL, CAUSE_MISMATCH, &is_made, &second));
    assert_false(is_made);
    assert_ptr_equal(first, second);
    assert_true(second_of(first) == 4);
    counters_t counters;
    counters_read(ctx, &counters);
    assert_int_equal(counters.reorders[CAUSE_MISMATCH], 1);
    tensor_release(first);
    tensor_release(second);
    tensor_release(m);
}

static void a_write_through_a_view_is_seen_in_the_forms_of_all_that_share(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *m = counted(ctx), *view = NULL, *form = NULL;
    tensor_info_t want = blocked(m);
    CHECK_OK(ctx, convert_for_call(ctx, m, &want, CAUSE_MISMATCH, &form));
    tensor_release(form);
    assert_int_equal(n_forms(m), 1);
    CHECK_OK(ctx, tensor_over(ctx, &m->info, m->storage, m->offset, &view));
    CHECK_OK(ctx, tensor_fill(ctx, view, 7));
    assert_int_equal(n_forms(m), 0);
    CHECK_OK(ctx, convert_for_call(ctx, m, &want, CAUSE_MISMATCH, &form));
    assert_true(second_of(form) == 7);
    tensor_release(form);
    tensor_release(view);
    tensor_release(m);
}

static void a_form_that_is_given_out_is_not_written_through(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *m = counted(ctx), *mine = NULL, *again = NULL;
    CHECK_OK(ctx, convert_reorder(ctx, m, "aBcd8b", &mine));
    CHECK_OK(ctx, tensor_fill(ctx, mine, 9));
    CHECK_OK(ctx, convert_reorder(ctx, m, "aBcd8b", &again));
    assert_true(second_of(again) == 4);
    tensor_release(mine);
    tensor_release(again);
    tensor_release(m);
}

static void forms_that_nobody_holds_are_dropped(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *m = counted(ctx), *held = NULL, *idle = NULL;
    tensor_info_t want = blocked(m), other = want;
    other.format.block_sizes[0] = 16;
    CHECK_OK(ctx, form_get(ctx, m, &want, NULL, CAUSE_USER, NULL, &held));
    CHECK_OK(ctx, form_get(ctx, m, &other, NULL, CAUSE_USER, NULL, &idle));
    tensor_drop(idle);
    assert_int_equal(n_forms(m), 2);
    form_drop_idle(m->storage);
    assert_int_equal(n_forms(m), 1);
    assert_true(second_of(held) == 4);
    tensor_drop(held);
    form_drop_idle(m->storage);
    assert_int_equal(n_forms(m), 0);
    CHECK_OK(ctx, form_get(ctx, m, &want, NULL, CAUSE_USER, NULL, &held));
    assert_true(second_of(held) == 4);
    tensor_drop(held);
    tensor_release(m);
}

static void a_form_belongs_to_the_place_and_the_sizes_it_was_made_from(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *both = NULL, *parts[2] = {NULL}, *forms[2] = {NULL};
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_F32, 128, 0, &both));
    const int64_t sizes[4] = {1, 16, 2, 2};
    format_t plain = format_plain(4);
    tensor_info_t dense = info_dense(DTYPE_F32, 4, sizes), info = info_mkldnn(&dense, &plain);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(ctx, tensor_over(ctx, &info, both->storage, i * 256, &parts[i]));
        tensor_info_t want = blocked(parts[i]);
        CHECK_OK(ctx, form_get(ctx, parts[i], &want, NULL, CAUSE_USER, NULL, &forms[i]));
        assert_true(second_of(forms[i]) == 4 + i * 64);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(n_forms(parts[i]), 1);
        tensor_release(parts[i]);
        tensor_release(forms[i]);
    }
    tensor_release(both);
}

/* Four threads request the form of one tensor at once. */
#define N_THREADS 4

typedef struct asking {
    tensor_t *source, *form;
    bool is_made;
    pthread_barrier_t *start;
} asking_t;

static void *ask(void *user)
{
    asking_t *asking = user;
    context_t *ctx = NULL;
    tensor_info_t want = blocked(asking->source);
    bool is_right = context_create(NULL, &ctx) == STATUS_OK;
    pthread_barrier_wait(asking->start);
    is_right = is_right && form_get(ctx, asking->source, &want, NULL, CAUSE_WEIGHT,
                                    &asking->is_made, &asking->form) == STATUS_OK;
    context_destroy(ctx);
    return is_right ? user : NULL;
}

static void threads_that_ask_at_once_get_one_form(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int round = 0; round < 20; round++) {
        tensor_t *m = counted(ctx);
        pthread_barrier_t start;
        pthread_t threads[N_THREADS];
        asking_t asking[N_THREADS];
        int n_made = 0;
        assert_int_equal(pthread_barrier_init(&start, NULL, N_THREADS), 0);
        for (int i = 0; i < N_THREADS; i++) {
            asking[i] = (asking_t){.source = m, .start = &start};
            assert_int_equal(pthread_create(&threads[i], NULL, ask, &asking[i]), 0);
        }
        for (int i = 0; i < N_THREADS; i++) {
            void *result = NULL;
            assert_int_equal(pthread_join(threads[i], &result), 0);
            assert_ptr_equal(result, &asking[i]);
        }
        for (int i = 0; i < N_THREADS; i++) {
            assert_ptr_equal(asking[i].form, asking[0].form);
            n_made += asking[i].is_made;
        }
        assert_int_equal(n_made, 1);
        for (int i = 0; i < N_THREADS; i++) tensor_release(asking[i].form);
        pthread_barrier_destroy(&start);
        tensor_release(m);
    }
}

static status_t make_form(context_t *ctx)
{
    tensor_t *x = NULL, *m = NULL, *form = NULL;
    status_t status = tensor_full(ctx, DTYPE_F32, SHAPE(1, 16, 2, 2), 1, &x);
    if (status == STATUS_OK) status = to_mkldnn(ctx, x, &m);
    if (status == STATUS_OK) status = convert_reorder(ctx, m, "aBcd8b", &form);
    tensor_release(x);
    tensor_release(m);
    tensor_release(form);
    return status;
}

static void forms_survive_every_refused_allocation(void **state)
{
    (void)state;
    check_every_allocation(make_form);
}

/* ---- shed bytes ---- */

enum { SHED_NUMEL = 65 * 67 * 3 * 3 };

/* Makes f32[65,67,3,3] of 0, 1, 2, ... that may free ("shed") its plain bytes if a form has all
 * elements. It is so large that its bytes are not in one block with its handle. */
static tensor_t *shedding(context_t *ctx)
{
    tensor_t *numbers = NULL, *copy = NULL, *weight = NULL;
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_F32, SHED_NUMEL, 0, &numbers));
    CHECK_OK(ctx, tensor_view(ctx, numbers, SHAPE(65, 67, 3, 3), &copy));
    CHECK_OK(ctx, tensor_clone(ctx, copy, &weight));
    tensor_release(numbers);
    tensor_release(copy);
    storage_let_shed(weight->storage, true);
    return weight;
}

static tensor_t *form_of(context_t *ctx, const tensor_t *weight, const char *tag)
{
    format_t format;
    tensor_t *form = NULL;
    CHECK_OK(ctx, format_parse(ctx, tag, &format));
    tensor_info_t want = info_mkldnn(tensor_info(weight), &format);
    CHECK_OK(ctx, form_get(ctx, weight, &want, NULL, CAUSE_WEIGHT, NULL, &form));
    return form;
}

static void check_counts(const float *elements, float first)
{
    for (int i = 0; i < SHED_NUMEL; i++)
        if (elements[i] != (float)i + first) fail_msg("element %d is %g", i, (double)elements[i]);
}

static void plain_bytes_go_with_the_first_form_and_come_back_when_asked_for(void **state)
{
    static const char *const tags[] = {"ABcd16b16a", "Abcd8a", "ABcd2b8a4b", "acdb", "BAcd16a16b"};
    static float read[SHED_NUMEL];
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        tensor_t *weight = shedding(ctx);
        assert_false(storage_is_shed(weight->storage));
        tensor_t *form = form_of(ctx, weight, tags[i]);
        assert_true(storage_is_shed(weight->storage));
        tensor_release(form);
        form_drop(weight->storage); /* drops the only bytes that are left */
        CHECK_OK(ctx, tensor_read(ctx, weight, read, sizeof read));
        assert_false(storage_is_shed(weight->storage));
        check_counts(read, 0);
        tensor_release(weight);
    }
}

static void a_second_form_and_a_write_find_the_elements_again(void **state)
{
    static float read[SHED_NUMEL];
    context_t *ctx = fixture_context(state);
    tensor_t *weight = shedding(ctx), *one = NULL;
    tensor_release(form_of(ctx, weight, "ABcd16b16a"));
    tensor_t *second = form_of(ctx, weight, "Abcd8a");
    assert_true(storage_is_shed(weight->storage));
    CHECK_OK(ctx, tensor_read(ctx, second, read, sizeof read));
    check_counts(read, 0);
    tensor_release(second);
    CHECK_OK(ctx, tensor_narrow(ctx, weight, 0, 0, 1, &one));
    CHECK_OK(ctx, tensor_fill(ctx, one, -1));
    assert_int_equal(n_forms(weight), 0);
    CHECK_OK(ctx, tensor_read(ctx, weight, read, sizeof read));
    assert_true(read[0] == -1 && read[602] == -1 && read[603] == 603);
    tensor_release(one);
    tensor_release(weight);
}

static void bytes_that_somebody_else_has_stay(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *weight = shedding(ctx), *snapshot = NULL;
    const void *bytes = NULL;
    CHECK_OK(ctx, tensor_data(ctx, weight, &bytes));
    tensor_release(form_of(ctx, weight, "ABcd16b16a"));
    assert_false(storage_is_shed(weight->storage));
    assert_true(((const float *)bytes)[5] == 5);
    tensor_release(weight);

    weight = shedding(ctx);
    CHECK_OK(ctx, tensor_snapshot(ctx, weight, &weight->info, 0, &snapshot));
    tensor_release(form_of(ctx, weight, "ABcd16b16a"));
    assert_false(storage_is_shed(weight->storage));
    tensor_release(weight);
    tensor_release(snapshot);

    weight = shedding(ctx); /* a form of a part does not have all elements */
    tensor_t *part = NULL;
    CHECK_OK(ctx, tensor_narrow(ctx, weight, 0, 0, 64, &part));
    tensor_release(form_of(ctx, part, "ABcd16b16a"));
    assert_false(storage_is_shed(weight->storage));
    tensor_release(part);
    tensor_release(weight);
}

static void no_memory_for_bytes_to_come_back_is_a_status(void **state)
{
    static float read[SHED_NUMEL];
    fixture_t *fixture = *state;
    context_t *ctx = fixture->ctx;
    tensor_t *weight = shedding(ctx), *sum = NULL;
    tensor_release(form_of(ctx, weight, "ABcd16b16a"));
    counting_fail(&fixture->memory, 1, true);
    CHECK_FAILS(ctx, tensor_read(ctx, weight, read, sizeof read), STATUS_OUT_OF_MEMORY,
                "for the plain form of a tensor");
    counting_fail(&fixture->memory, 0, false);
    CHECK_OK(ctx, op_relu(ctx, weight, &sum));
    CHECK_OK(ctx, tensor_read(ctx, sum, read, sizeof read));
    check_counts(read, 0);
    tensor_release(sum);
    tensor_release(weight);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_form_is_made_once_and_given_to_all),
        TEST(a_write_through_a_view_is_seen_in_the_forms_of_all_that_share),
        TEST(a_form_that_is_given_out_is_not_written_through),
        TEST(forms_that_nobody_holds_are_dropped),
        TEST(a_form_belongs_to_the_place_and_the_sizes_it_was_made_from),
        TEST(threads_that_ask_at_once_get_one_form),
        TEST(forms_survive_every_refused_allocation),
        TEST(plain_bytes_go_with_the_first_form_and_come_back_when_asked_for),
        TEST(a_second_form_and_a_write_find_the_elements_again),
        TEST(bytes_that_somebody_else_has_stay),
        TEST(no_memory_for_bytes_to_come_back_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
