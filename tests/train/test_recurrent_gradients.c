/* Gradients of recurrent layers (two stacked layers, both directions), compared with PyTorch.
 * recurrent_gradient_values.py prints the table. Also tests errors of these gradients. */
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "module/layers/recurrent.h"
#include "module/mkldnn.h"
#include "ops/ops_impl.h"
#include "ops/recurrent/recurrent.h"
#include "train/tape.h"

enum { T = 5, N = 3, C = 4, H = 6, NUMBER_OF_X = 100, GRAD = 55, WEIGHTS = 77 };
enum { ROWS = 17 }; /* rows of the table per kind: x and 16 parameters */

/* For each gradient, a weighted sum of its elements, and the sum of their squares. */
static const struct {
    const char *name;
    double weighted, squares;
} table[] = {
    /* LSTM */
    {"x", 0.0604582167, 0.0307039593},
    {"weight_ih_l0", -0.017923461, 0.0109455004},
    {"weight_hh_l0", 0.00861132593, 0.00696443522},
    {"bias_ih_l0", -0.122098722, 0.156784431},
    {"bias_hh_l0", -0.122098722, 0.156784431},
    {"weight_ih_l0_reverse", 0.011774937, 0.00911186373},
    {"weight_hh_l0_reverse", -0.0428199702, 0.00318238188},
    {"bias_ih_l0_reverse", 0.103481525, 0.0934426351},
    {"bias_hh_l0_reverse", 0.103481525, 0.0934426351},
    {"weight_ih_l1", 0.0860896295, 0.0685976589},
    {"weight_hh_l1", 0.00403617593, 0.0292503605},
    {"bias_ih_l1", -0.180839276, 0.34972335},
    {"bias_hh_l1", -0.180839276, 0.34972335},
    {"weight_ih_l1_reverse", 0.0873083968, 0.0599546092},
    {"weight_hh_l1_reverse", 0.0797291821, 0.0236503682},
    {"bias_ih_l1_reverse", 0.209859737, 0.260933931},
    {"bias_hh_l1_reverse", 0.209859737, 0.260933931},
    /* GRU */
    {"x", 0.0957521608, 0.386727548},
    {"weight_ih_l0", -0.0706083225, 0.0903731303},
    {"weight_hh_l0", -0.0452162866, 0.0476991811},
    {"bias_ih_l0", -0.272930311, 1.57981139},
    {"bias_hh_l0", -0.230805369, 0.464608716},
    {"weight_ih_l0_reverse", 0.101833017, 0.108896885},
    {"weight_hh_l0_reverse", -0.202139617, 0.0582540557},
    {"bias_ih_l0_reverse", 0.484995209, 1.39989306},
    {"bias_hh_l0_reverse", 0.257652731, 0.401038135},
    {"weight_ih_l1", 0.0377308537, 0.593370256},
    {"weight_hh_l1", -0.152109724, 0.114734472},
    {"bias_ih_l1", -0.290187084, 0.812899152},
    {"bias_hh_l1", -0.200462689, 0.245645148},
    {"weight_ih_l1_reverse", 0.48918154, 0.866919688},
    {"weight_hh_l1_reverse", 0.193149003, 0.141171587},
    {"bias_ih_l1_reverse", 0.435676613, 1.06506816},
    {"bias_hh_l1_reverse", 0.289538233, 0.341560869},
    /* RNN */
    {"x", 0.211396785, 4.51292005},
    {"weight_ih_l0", -0.561556702, 0.996248083},
    {"weight_hh_l0", 0.605582443, 2.28491004},
    {"bias_ih_l0", -0.329663332, 0.720721206},
    {"bias_hh_l0", -0.329663332, 0.720721206},
    {"weight_ih_l0_reverse", 0.385870935, 0.787329692},
    {"weight_hh_l0_reverse", -1.13384769, 4.4779093},
    {"bias_ih_l0_reverse", -0.157685789, 2.01695326},
    {"bias_hh_l0_reverse", -0.157685789, 2.01695326},
    {"weight_ih_l1", -0.97109718, 4.60792726},
    {"weight_hh_l1", -0.392268473, 3.32717382},
    {"bias_ih_l1", -0.0384211844, 0.994292002},
    {"bias_hh_l1", -0.0384211844, 0.994292002},
    {"weight_ih_l1_reverse", -0.274423562, 5.63562044},
    {"weight_hh_l1_reverse", 0.719365003, 2.49168223},
    {"bias_ih_l1_reverse", -0.576055695, 1.44499512},
    {"bias_hh_l1_reverse", -0.576055695, 1.44499512},
};

static float value_at(int64_t i, int number)
{
    return (float)((i * 97 + number * 31 + 11) % 251 - 125) / 256;
}

static tensor_t *filled(context_t *ctx, int rank, const int64_t *sizes, int number)
{
    tensor_t *tensor = NULL;
    float values[1024];
    int64_t n = 0;
    assert_true(shape_numel(rank, sizes, &n) && n <= 1024);
    for (int64_t i = 0; i < n; i++) values[i] = value_at(i, number);
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, rank, sizes, values, &tensor));
    return tensor;
}

static void check_gradient(context_t *ctx, const tensor_t *grad, int row)
{
    float values[1024];
    double weighted = 0.0, squares = 0.0;
    assert_non_null(grad);
    const int64_t n = tensor_numel(grad);
    assert_true(n <= 1024);
    CHECK_OK(ctx, tensor_read(ctx, grad, values, sizeof values));
    for (int64_t i = 0; i < n; i++) {
        weighted += (double)values[i] * (double)value_at(i, WEIGHTS);
        squares += (double)values[i] * (double)values[i];
    }
    const double bound = 1e-5 * (1.0 + sqrt(table[row].squares));
    if (!(fabs(weighted - table[row].weighted) <= bound) ||
        !(fabs(squares - table[row].squares) <= 1e-4 * table[row].squares))
        fail_msg("%s, row %d: %.9g and %.9g, PyTorch gives %.9g and %.9g", table[row].name, row,
                 weighted, squares, table[row].weighted, table[row].squares);
}

static void check_layer(context_t *ctx, module_t *net, int row)
{
    tape_t *tape = NULL;
    tensor_t *x = filled(ctx, SHAPE(N, T, C), NUMBER_OF_X), *out[3] = {NULL};
    tensor_t *grad = filled(ctx, SHAPE(N, T, 2 * H), GRAD);
    int n_out = 3, n = 1;
    CHECK_OK(ctx, tape_create(ctx, &tape));
    CHECK_OK(ctx, tape_watch(ctx, tape, x));
    CHECK_OK(ctx, tape_watch_module(ctx, tape, net));
    CHECK_OK(ctx, module_call_tensors(ctx, net, "forward", 1, (const tensor_t *const[]){x}, &n_out,
                                      out));
    CHECK_OK(ctx, tape_backward(ctx, tape, out[0], grad));
    check_gradient(ctx, tape_gradient(tape, x), row);
    for (int i = 0; i < module_n_members(net); i++) {
        member_kind_t kind;
        const char *name = module_member(net, i, &kind);
        if (kind != MEMBER_PARAMETER) continue;
        assert_string_equal(table[row + n].name, name);
        check_gradient(ctx, tape_gradient(tape, module_parameter(net, name)), row + n++);
    }
    assert_int_equal(n, ROWS);
    tape_destroy(tape);
    for (int i = 0; i < n_out; i++) tensor_release(out[i]);
    tensor_release(x);
    tensor_release(grad);
}

static void layers_of_both_directions_pass_pytorchs_gradients(void **state)
{
    context_t *ctx = fixture_context(state);
    const layer_recurrent_options_t options = {
        .num_layers = 2, .bidirectional = true, .batch_first = true};
    for (int kind = 0; kind < 3; kind++) {
        module_t *net = NULL;
        int n = 0;
        if (kind == 0) CHECK_OK(ctx, layer_lstm(ctx, C, H, true, &options, &net));
        if (kind == 1) CHECK_OK(ctx, layer_gru(ctx, C, H, true, &options, &net));
        if (kind == 2) CHECK_OK(ctx, layer_rnn(ctx, C, H, true, &options, &net));
        for (int i = 0; i < module_n_members(net); i++) {
            member_kind_t member;
            const char *name = module_member(net, i, &member);
            if (member != MEMBER_PARAMETER) continue;
            const tensor_t *old = module_parameter(net, name);
            tensor_t *tensor = filled(ctx, tensor_rank(old), tensor_sizes(old), n++);
            CHECK_OK(ctx, module_set_parameter(ctx, net, name, tensor));
            tensor_release(tensor);
        }
        check_layer(ctx, net, ROWS * kind);
        CHECK_OK(ctx, module_mkldnn(ctx, net, NULL));
        check_layer(ctx, net, ROWS * kind); /* by now the weights are packed */
        check_layer(ctx, net, ROWS * kind);
        module_release(net);
    }
}

static void calls_without_gradient_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    const tensor_info_t none = {.dtype = DTYPE_NONE};
    const tensor_info_t x = info_dense(DTYPE_F32, 3, (int64_t[]){T, N, C});
    const tensor_info_t weight_ih = info_dense(DTYPE_F32, 2, (int64_t[]){3 * H, C});
    const tensor_info_t weight_hh = info_dense(DTYPE_F32, 2, (int64_t[]){3 * H, H});
    const tensor_info_t *in[] = {&x, &weight_ih, &weight_hh, &none, &none, &none, &none, &x, &none};
    const recurrent_attrs_t before = {.reset_before = true};
    tensor_info_t out[OP_MAX_OUTPUTS];
    int n = 0;
    CHECK_FAILS(ctx, dispatch_infer(ctx, &op_def_gru_backward, &before, 9, in, &n, out),
                STATUS_UNSUPPORTED,
                "gru_backward: reset_before=true, gradients pass layers that reset behind the "
                "product");
    CHECK_FAILS(ctx, dispatch_infer(ctx, &op_def_gru_backward, NULL, 9, in, &n, out),
                STATUS_INVALID_ARGUMENT,
                "gru_backward: grad_y is f32[5,3,4], the layer gives f32[5,3,6]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(layers_of_both_directions_pass_pytorchs_gradients),
        TEST(calls_without_gradient_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
