#include "tests/support/support.h"

#include <pthread.h>
#include <string.h>

#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"
#include "tensor/text/datum.h"

static long n_live(void **state)
{
    return atomic_load(&((fixture_t *)*state)->memory.live);
}

static void a_scope_releases_what_was_made_in_it(void **state)
{
    context_t *ctx = fixture_context(state);
    long before = n_live(state);
    CHECK_OK(ctx, scope_begin(ctx));
    for (int i = 0; i < 50; i++) {
        tensor_t *x = NULL, *view = NULL;
        CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(2, 3), &x));
        CHECK_OK(ctx, tensor_view(ctx, x, SHAPE(6), &view));
    }
    CHECK_OK(ctx, scope_end(ctx));
    assert_int_equal(n_live(state), before);
}

static void kept_tensors_belong_to_the_caller(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *y = NULL, *z = NULL;
    CHECK_OK(ctx, scope_begin(ctx));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2), 1, &x));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2), 2, &y));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2), 3, &z));
    scope_keep(ctx, y);
    scope_keep(ctx, NULL);
    CHECK_OK(ctx, scope_end(ctx));
    assert_true(((const float *)tensor_bytes(y))[1] == 2);
    tensor_release(y);
}

static void a_tensor_given_out_twice_is_kept_once_at_a_time(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *same = NULL;
    CHECK_OK(ctx, scope_begin(ctx));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2), 1, &x));
    CHECK_OK(ctx, tensor_contiguous(ctx, x, &same));
    assert_ptr_equal(x, same);
    scope_keep(ctx, same);
    CHECK_OK(ctx, scope_end(ctx));
    assert_int_equal(atomic_load(&x->n_references), 1);
    tensor_release(x);
}

static void scopes_nest_and_an_inner_one_can_keep_from_an_outer(void **state)
{
    context_t *ctx = fixture_context(state);
    long before = n_live(state);
    tensor_t *outer = NULL, *inner = NULL, *kept = NULL;
    CHECK_OK(ctx, scope_begin(ctx));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2), 1, &outer));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2), 2, &kept));
    CHECK_OK(ctx, scope_begin(ctx));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2), 3, &inner));
    scope_keep(ctx, kept);
    CHECK_OK(ctx, scope_end(ctx));
    assert_true(((const float *)tensor_bytes(outer))[0] == 1);
    CHECK_OK(ctx, scope_end(ctx));
    assert_true(((const float *)tensor_bytes(kept))[0] == 2);
    tensor_release(kept);
    assert_int_equal(n_live(state), before);
}

static void the_end_tells_the_first_failure_since_the_beginning(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *y = NULL;
    context_fail(ctx, STATUS_IO, "before: not ours");
    CHECK_OK(ctx, scope_begin(ctx));
    assert_int_equal(tensor_empty(ctx, DTYPE_NONE, SHAPE(1), &x), STATUS_INVALID_ARGUMENT);
    assert_int_equal(tensor_clone(ctx, x, &y), STATUS_INVALID_ARGUMENT);
    context_fail(ctx, STATUS_CORRUPT, "later: another");
    CHECK_FAILS(ctx, scope_end(ctx), STATUS_INVALID_ARGUMENT, "tensor_empty: dtype 0");
}

static void a_failure_from_before_is_told_once_something_passes_it_on(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *y = NULL;
    context_fail(ctx, STATUS_IO, "load: no such file");
    CHECK_OK(ctx, scope_begin(ctx));
    CHECK_OK(ctx, scope_end(ctx));
    CHECK_OK(ctx, scope_begin(ctx));
    assert_int_equal(tensor_clone(ctx, NULL, &y), STATUS_IO);
    CHECK_FAILS(ctx, scope_end(ctx), STATUS_IO, "load: no such file");
}

static void a_failure_inside_is_one_of_the_outer_scope_too(void **state)
{
    context_t *ctx = fixture_context(state);
    CHECK_OK(ctx, scope_begin(ctx));
    CHECK_OK(ctx, scope_begin(ctx));
    context_fail(ctx, STATUS_CORRUPT, "inner: broken");
    CHECK_FAILS(ctx, scope_end(ctx), STATUS_CORRUPT, "inner: broken");
    CHECK_FAILS(ctx, scope_end(ctx), STATUS_CORRUPT, "inner: broken");
}

static void a_failure_that_was_cleared_does_not_come_back(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *y = NULL;
    CHECK_OK(ctx, scope_begin(ctx));
    CHECK_OK(ctx, scope_begin(ctx));
    context_fail(ctx, STATUS_CORRUPT, "inner: broken");
    CHECK_FAILS(ctx, scope_end(ctx), STATUS_CORRUPT, "inner: broken");
    context_clear_error(ctx);
    CHECK_FAILS(ctx, tensor_clone(ctx, NULL, &y), STATUS_INVALID_ARGUMENT,
                "tensor_clone: tensor is NULL");
    context_clear_error(ctx);
    CHECK_OK(ctx, scope_end(ctx));
    assert_int_equal(context_status(ctx), STATUS_OK);
}

static void a_scope_starts_clean_and_gives_back_the_failure_from_before(void **state)
{
    context_t *ctx = fixture_context(state);
    context_fail(ctx, STATUS_IO, "before: not ours");
    CHECK_OK(ctx, scope_begin(ctx));
    assert_int_equal(context_status(ctx), STATUS_OK);
    assert_string_equal(context_error(ctx), "");
    context_fail(ctx, STATUS_CORRUPT, "inside: handled");
    context_clear_error(ctx);
    CHECK_OK(ctx, scope_end(ctx));
    assert_int_equal(context_status(ctx), STATUS_IO);
    assert_string_equal(context_error(ctx), "before: not ours");
}

static void outside_of_scopes_null_passes_on_no_failure_from_before_a_tensor(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *y = NULL;
    context_fail(ctx, STATUS_IO, "load: no such file");
    CHECK_FAILS(ctx, tensor_clone(ctx, NULL, &y), STATUS_IO, "load: no such file");
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1), &x));
    CHECK_FAILS(ctx, tensor_clone(ctx, NULL, &y), STATUS_INVALID_ARGUMENT,
                "tensor_clone: tensor is NULL");
    tensor_release(x);
}

static void a_question_that_fails_is_no_failure_of_the_scope(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *y = NULL;
    CHECK_OK(ctx, scope_begin(ctx));
    CHECK_FAILS(ctx, context_decline(ctx, STATUS_INVALID_ARGUMENT, "input: index %d", 2),
                STATUS_INVALID_ARGUMENT, "input: index 2");
    CHECK_OK(ctx, scope_end(ctx));
    context_decline(ctx, STATUS_INVALID_ARGUMENT, "input: index %d", 2);
    CHECK_FAILS(ctx, tensor_clone(ctx, NULL, &y), STATUS_INVALID_ARGUMENT,
                "tensor_clone: tensor is NULL");
}

static void a_tensor_released_inside_is_given_up_early(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *y = NULL, *same = NULL;
    CHECK_OK(ctx, scope_begin(ctx));
    long before = n_live(state);
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(4), &x));
    long with_x = n_live(state);
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(4), &y));
    tensor_release(y);
    assert_int_equal(n_live(state), with_x);
    CHECK_OK(ctx, tensor_contiguous(ctx, x, &same));
    tensor_release(same);
    assert_int_equal(atomic_load(&x->n_references), 1);
    tensor_release(x);
    assert_true(n_live(state) - before <= 1); /* the scope's list */
    CHECK_OK(ctx, scope_end(ctx));
}

static void retain_and_release_in_pairs_change_nothing(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *outside = NULL, *x = NULL, *y = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(4), &outside));
    CHECK_OK(ctx, scope_begin(ctx));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(4), &x));
    CHECK_OK(ctx, scope_begin(ctx));
    tensor_release(tensor_retain(x));
    tensor_release(tensor_retain(outside));
    CHECK_OK(ctx, tensor_contiguous(ctx, outside, &y)); /* also belongs to the scope */
    tensor_release(tensor_retain(outside));
    CHECK_OK(ctx, scope_end(ctx));
    assert_int_equal(atomic_load(&x->n_references), 1);
    assert_int_equal(atomic_load(&outside->n_references), 1);
    tensor_retain(x);
    CHECK_OK(ctx, scope_end(ctx));
    assert_int_equal(atomic_load(&x->n_references), 1);
    tensor_release(x);
    tensor_release(outside);
}

/* A datum holds its tensor, so the tensor stays although the user's release drops the scope's
 * reference. */
static void a_holder_of_the_library_keeps_a_tensor_that_is_released_early(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL;
    datum_t *holder = NULL;
    CHECK_OK(ctx, scope_begin(ctx));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(4), &x));
    CHECK_OK(ctx, datum_tensor(ctx, x, &holder));
    tensor_release(x);
    CHECK_OK(ctx, scope_end(ctx));
    assert_int_equal(atomic_load(&x->n_references), 1);
    datum_release(holder);
}

static void *retain_and_release(void *tensor)
{
    for (int i = 0; i < 1000; i++) tensor_release(tensor_retain(tensor));
    tensor_retain(tensor);
    return NULL;
}

static void a_retain_of_another_thread_is_not_undone_by_this_one(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL;
    pthread_t thread;
    CHECK_OK(ctx, scope_begin(ctx));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(4), &x));
    assert_int_equal(pthread_create(&thread, NULL, retain_and_release, x), 0);
    for (int i = 0; i < 1000; i++) tensor_release(tensor_retain(x));
    assert_int_equal(pthread_join(thread, NULL), 0);
    tensor_release(x);
    CHECK_OK(ctx, scope_end(ctx));
    assert_int_equal(atomic_load(&x->n_references), 1);
    tensor_release(x);
}

static void a_forgiven_failure_of_an_attempt_is_no_failure_of_the_scopes(void **state)
{
    context_t *ctx = fixture_context(state);
    CHECK_OK(ctx, scope_begin(ctx));
    CHECK_OK(ctx, scope_begin(ctx));
    scope_attempt(ctx);
    status_t status = context_fail(ctx, STATUS_UNSUPPORTED, "attempt: cannot");
    assert_int_equal(scope_attempt_end(ctx, status, true), STATUS_UNSUPPORTED);
    assert_int_equal(context_status(ctx), STATUS_OK);
    CHECK_OK(ctx, scope_end(ctx));
    CHECK_OK(ctx, scope_end(ctx));
    scope_attempt(ctx); /* without a scope */
    assert_int_equal(scope_attempt_end(ctx, STATUS_OK, false), STATUS_OK);
}

static void another_failure_of_an_attempt_is_one_of_the_scopes(void **state)
{
    context_t *ctx = fixture_context(state);
    CHECK_OK(ctx, scope_begin(ctx));
    scope_attempt(ctx);
    status_t status = context_fail(ctx, STATUS_CORRUPT, "attempt: broken");
    assert_int_equal(scope_attempt_end(ctx, status, false), STATUS_CORRUPT);
    CHECK_FAILS(ctx, scope_end(ctx), STATUS_CORRUPT, "attempt: broken");
}

static void an_end_without_a_beginning_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    CHECK_FAILS(ctx, scope_end(ctx), STATUS_INVALID_ARGUMENT, "scope_end: no scope is open");
}

static void the_end_of_the_context_ends_open_scopes(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL;
    CHECK_OK(ctx, scope_begin(ctx));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(4), &x));
    CHECK_OK(ctx, scope_begin(ctx));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(4), &x));
}

static status_t work_in_scope(context_t *ctx)
{
    tensor_t *x = NULL, *y = NULL;
    TRY(scope_begin(ctx));
    for (int i = 0; i < 10; i++) {
        x = y = NULL;
        tensor_randn(ctx, DTYPE_F32, SHAPE(2, 3), &x);
        tensor_permute(ctx, x, SHAPE(1, 0), &y);
        tensor_contiguous(ctx, y, &y);
    }
    scope_keep(ctx, y);
    status_t status = scope_end(ctx);
    tensor_release(y);
    return status;
}

static void scopes_survive_every_refused_allocation(void **state)
{
    (void)state;
    check_every_allocation(work_in_scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_scope_releases_what_was_made_in_it),
        TEST(kept_tensors_belong_to_the_caller),
        TEST(a_tensor_given_out_twice_is_kept_once_at_a_time),
        TEST(scopes_nest_and_an_inner_one_can_keep_from_an_outer),
        TEST(the_end_tells_the_first_failure_since_the_beginning),
        TEST(a_failure_from_before_is_told_once_something_passes_it_on),
        TEST(a_failure_inside_is_one_of_the_outer_scope_too),
        TEST(a_failure_that_was_cleared_does_not_come_back),
        TEST(a_scope_starts_clean_and_gives_back_the_failure_from_before),
        TEST(outside_of_scopes_null_passes_on_no_failure_from_before_a_tensor),
        TEST(a_question_that_fails_is_no_failure_of_the_scope),
        TEST(a_tensor_released_inside_is_given_up_early),
        TEST(retain_and_release_in_pairs_change_nothing),
        TEST(a_holder_of_the_library_keeps_a_tensor_that_is_released_early),
        TEST(a_retain_of_another_thread_is_not_undone_by_this_one),
        TEST(a_forgiven_failure_of_an_attempt_is_no_failure_of_the_scopes),
        TEST(another_failure_of_an_attempt_is_one_of_the_scopes),
        TEST(an_end_without_a_beginning_is_refused),
        TEST(the_end_of_the_context_ends_open_scopes),
        TEST(scopes_survive_every_refused_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
