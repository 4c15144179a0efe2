/* run --verify must notice if a step of a plan overwrites bytes that later steps need. The tests do
 * so with observers, which see each step before the next one runs. */
#include "tools/command/verify.h"

#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "freeze/freeze.h"
#include "kernels/isa_impl.h"
#include "tensor/tensor_impl.h"
#include "tests/support/nets/subject.h"
#include "tests/support/onnx/onnx_model.h"
#include "tools/command/run.h"

/* Overwrites the results of all operators of a name. Observers are called in reverse order:
 * `first`, added before that of --verify, overwrites results that were checked already, like a step
 * that is placed wrongly. `second` is added again at each event and overwrites results before the
 * check. */
typedef struct spoiler {
    const char *op;
    bool is_early;
    bool is_of_slice; /* only slice 1 of a batch */
    bool is_small;    /* only one element */
    observer_t first, second;
    int n_spoilt, n_planned;
} spoiler_t;

static void spoil(spoiler_t *spoiler, const op_event_t *event)
{
    if (strcmp(event->op->name, spoiler->op) != 0) return;
    if (spoiler->is_of_slice && (event->n_slices < 2 || event->slice != 1)) return;
    const tensor_t *out = event->out[0];
    const size_t bytes = spoiler->is_small ? sizeof(float) : info_bytes(tensor_info(out));
    memset((char *)(uintptr_t)tensor_bytes(out), 0x41, bytes);
    spoiler->n_spoilt++;
}

static status_t spoil_early(context_t *ctx, void *user, const op_event_t *event)
{
    (void)ctx;
    spoil(user, event);
    return STATUS_OK;
}

static status_t watch(context_t *ctx, void *user, const op_event_t *event)
{
    spoiler_t *spoiler = user;
    spoiler->n_planned += event->is_planned;
    if (!spoiler->is_early) {
        spoil(spoiler, event);
        return STATUS_OK;
    }
    dispatch_remove_observer(ctx, &spoiler->second);
    return dispatch_add_observer(ctx, &spoiler->second);
}

static void begin_model_at(session_t *session, const char *spec, run_mode_t mode)
{
    assert_true(session_begin("run", spec, &(session_options_t){0}, session));
    assert_true(session_prepare("run", session, mode));
}

static void begin(session_t *session, run_mode_t mode)
{
    begin_model_at(session, "zoo:squeezenet1_1", mode);
}

/* Runs verify_run. Checks that the exit code fits the result, and returns it. */
static int verify(session_t *session, spoiler_t *spoiler, verify_result_t *out_result)
{
    context_t *ctx = session->ctx;
    spoiler->first = (observer_t){.user = spoiler, .op_end = watch};
    spoiler->second = (observer_t){.user = spoiler, .op_end = spoil_early};
    tensor_t *out[METHOD_MAX_OUTPUTS];
    int n_out = 0;
    CHECK_OK(ctx, mode_run(&session->runner, &n_out, out)); /* builds the plan */
    mode_release_outputs(n_out, out);
    CHECK_OK(ctx, dispatch_add_observer(ctx, &spoiler->first));
    CHECK_OK(ctx, verify_run(&session->runner, 2, 7, out_result));
    int code = run_session(session, &(run_options_t){.n_verify = 2});
    dispatch_remove_observer(ctx, &spoiler->second);
    dispatch_remove_observer(ctx, &spoiler->first);
    return code;
}

static void an_element_of_a_plan_that_is_computed_wrongly_is_seen(void **state)
{
    (void)state;
    session_t session;
    spoiler_t spoiler = {.op = "max_pool2d", .is_early = true};
    verify_result_t result;
    begin(&session, MODE_FROZEN);
    assert_int_equal(verify(&session, &spoiler, &result), EXIT_DIFFERS);
    assert_true(spoiler.n_spoilt > 0 && spoiler.n_planned > 0);
    assert_true(result.n_failed > 0);
    assert_int_equal(result.n_overwritten, 0);
    session_end(&session);
}

static void a_value_that_is_overwritten_before_it_is_read_is_seen(void **state)
{
    (void)state;
    session_t session;
    spoiler_t spoiler = {.op = "max_pool2d"};
    verify_result_t result;
    begin(&session, MODE_FROZEN);
    assert_int_equal(verify(&session, &spoiler, &result), EXIT_DIFFERS);
    assert_true(spoiler.n_spoilt > 0 && spoiler.n_planned > 0);
    assert_int_equal(result.n_failed, 0);
    assert_true(result.n_overwritten > 0);
    session_end(&session);
}

/* Begins a session with a network that runs in slices: of one thread, or of two workers. */
static void begin_slices(session_t *session, int n_threads)
{
    static const char *const skip[] = {"fuse_post_ops", "merge_shared_inputs", NULL};
    context_t *ctx = NULL;
    module_t *net = NULL, *frozen = NULL;
    tensor_t *x = NULL;
    setenv("TESSERA_CPU_CACHE", "4194304", 1);
    assert_int_equal(context_create(&(context_options_t){.n_threads = n_threads}, &ctx), STATUS_OK);
    unsetenv("TESSERA_CPU_CACHE");
    context_seed(ctx, 7);
    net = subject_net(ctx, "d=32,1,3,3 p=32,32,1,1", "%x : f32[8,32,64,64]",
                      "  %1 = conv2d(%x, %d, none) padding=[1,1] groups=32\n"
                      "  %2 = relu(%1)\n"
                      "  %3 = conv2d(%2, %p, none)\n"
                      "  %4 = max_pool2d(%3) kernel=[2,2] stride=[2,2]\n"
                      "  %5 = reshape(%4) sizes=[64,4096]\n"
                      "  %6 = sigmoid(%5)\n"
                      "  return %6\n");
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(8, 32, 64, 64), &x));
    CHECK_OK(ctx,
             freeze(ctx, net, &(freeze_options_t){.skip = skip, .keep_numerics = true}, &frozen));
    module_release(net);
    *session = (session_t){
        .ctx = ctx,
        .runner = {.ctx = ctx, .mode = MODE_FROZEN, .module = frozen, .n_in = 1, .in = {x}}};
}

/* Without vector instructions plans use no slices, which would not help. */
static bool has_slices(void)
{
    return isa_best() > ISA_PORTABLE;
}

static void slices_are_right_when_nobody_spoils_them(void **state)
{
    (void)state;
    for (int n_threads = 1; n_threads <= 2 && has_slices(); n_threads++) {
        session_t session;
        spoiler_t spoiler = {.op = "none"};
        verify_result_t result;
        begin_slices(&session, n_threads);
        assert_int_equal(verify(&session, &spoiler, &result), EXIT_DONE);
        assert_true(spoiler.n_planned > 2 * result.n_operators);
        assert_int_equal(result.n_operators, 5);
        assert_true(result.n_values > 5);
        session_end(&session);
    }
}

static void an_element_of_a_slice_that_is_computed_wrongly_is_seen(void **state)
{
    (void)state;
    for (int n_threads = 1; n_threads <= 2 && has_slices(); n_threads++) {
        session_t session;
        spoiler_t spoiler = {.op = "conv2d", .is_early = true, .is_of_slice = true};
        verify_result_t result;
        begin_slices(&session, n_threads);
        assert_int_equal(verify(&session, &spoiler, &result), EXIT_DIFFERS);
        assert_true(spoiler.n_spoilt > 0 && spoiler.n_planned > 0);
        assert_true(result.n_failed > 0);
        assert_int_equal(result.n_overwritten, 0);
        session_end(&session);
    }
}

static void an_element_of_a_slice_that_is_overwritten_is_seen(void **state)
{
    (void)state;
    for (int n_threads = 1; n_threads <= 2 && has_slices(); n_threads++) {
        session_t session;
        spoiler_t spoiler = {.op = "conv2d", .is_of_slice = true, .is_small = true};
        verify_result_t result;
        begin_slices(&session, n_threads);
        assert_int_equal(verify(&session, &spoiler, &result), EXIT_DIFFERS);
        assert_true(spoiler.n_spoilt > 0 && spoiler.n_planned > 0);
        assert_int_equal(result.n_failed, 0);
        assert_true(result.n_overwritten > 0);
        session_end(&session);
    }
}

#ifdef TESSERA_HAVE_ONNX

/* Verifies the model that the maker has, while results of an operator are overwritten. */
static verify_result_t verify_spoilt(const char *op)
{
    char path[] = "/tmp/tessera-verify-XXXXXX.onnx";
    size_t n_bytes = 0;
    int file = mkstemps(path, (int)strlen(".onnx"));
    uint8_t *bytes = maker_pack(&maker, &n_bytes);
    assert_true(file >= 0 && write(file, bytes, n_bytes) == (ssize_t)n_bytes);
    close(file);
    free(bytes);
    session_t session;
    spoiler_t spoiler = {.op = op};
    verify_result_t result;
    begin_model_at(&session, path, MODE_FROZEN);
    int code = verify(&session, &spoiler, &result);
    unlink(path);
    assert_int_equal(code, EXIT_DIFFERS);
    session_end(&session);
    return result;
}

#endif

/* The convolution's result is blocked. The bytes are overwritten before the conversion to dense. */
static void a_result_that_is_overwritten_before_it_is_made_dense_is_seen(void **state)
{
    (void)state;
#ifdef TESSERA_HAVE_ONNX
    static float weight[16 * 16 * 3 * 3 / 4];
    for (size_t i = 0; i < sizeof weight / sizeof *weight; i++) weight[i] = (float)(i % 7) - 3.0f;
    begin_model(13, DIMS(1, 4, 8, 8));
    maker_initializer(&maker, "w", FLOAT, DIMS(16, 4, 3, 3), weight, sizeof weight);
    maker_node(&maker, "Conv", "conv", "x w", "y");
    assert_int_equal(verify_spoilt("conv2d").n_overwritten, 1);
#else
    skip_without("protobuf-c");
#endif
}

/* The reshape is no step of the plan: relu reads the bytes that sigmoid wrote. */
static void a_value_that_is_overwritten_before_a_view_of_it_is_read_is_seen(void **state)
{
    (void)state;
#ifdef TESSERA_HAVE_ONNX
    static const int64_t rows[] = {8, 32};
    begin_model(13, DIMS(1, 4, 8, 8));
    maker_initializer(&maker, "rows", INT64, DIMS(2), rows, sizeof rows);
    maker_node(&maker, "Sigmoid", "sigmoid", "x", "a");
    maker_node(&maker, "Reshape", "reshape", "a rows", "b");
    maker_node(&maker, "Relu", "relu", "b", "y");
    assert_int_equal(verify_spoilt("sigmoid").n_overwritten, 1);
#else
    skip_without("protobuf-c");
#endif
}

static void verification_passes_in_every_mode(void **state)
{
    (void)state;
    for (int mode = MODE_MKLDNN; mode < MODE_COUNT; mode++) {
        session_t session;
        verify_result_t result = {0};
        begin(&session, (run_mode_t)mode);
        assert_int_equal(run_session(&session, &(run_options_t){.n_verify = 2}), EXIT_DONE);
        CHECK_OK(session.ctx, verify_run(&session.runner, 2, 7, &result));
        assert_true(result.n_operators > 10);
        assert_int_equal(result.n_failed + result.n_overwritten, 0);
        assert_true((result.n_values > 10) == (mode != MODE_MKLDNN));
        session_end(&session);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_element_of_a_plan_that_is_computed_wrongly_is_seen),
        cmocka_unit_test(a_value_that_is_overwritten_before_it_is_read_is_seen),
        cmocka_unit_test(slices_are_right_when_nobody_spoils_them),
        cmocka_unit_test(an_element_of_a_slice_that_is_computed_wrongly_is_seen),
        cmocka_unit_test(an_element_of_a_slice_that_is_overwritten_is_seen),
        cmocka_unit_test(a_result_that_is_overwritten_before_it_is_made_dense_is_seen),
        cmocka_unit_test(a_value_that_is_overwritten_before_a_view_of_it_is_read_is_seen),
        cmocka_unit_test(verification_passes_in_every_mode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
