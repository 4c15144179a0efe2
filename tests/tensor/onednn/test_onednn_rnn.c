/* oneDNN's recurrent layers, compared with loops in double. Gradients are compared with finite
 * differences of these loops. */
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "tests/support/run_primitive.h"

enum { T = 3, N = 2, MAX = 8192, STATE = 256 };

enum {
    SRC = ONEDNN_ARGUMENT_SRC,
    WEIGHT = ONEDNN_ARGUMENT_WEIGHT,
    BIAS = ONEDNN_ARGUMENT_BIAS,
    DST = ONEDNN_ARGUMENT_DST,
    DIFF_DST = ONEDNN_ARGUMENT_DIFF_DST,
    WORKSPACE = ONEDNN_ARGUMENT_WORKSPACE,
    DIFF_SRC = ONEDNN_ARGUMENT_DIFF_SRC,
    DIFF_WEIGHT = ONEDNN_ARGUMENT_DIFF_WEIGHT,
    DIFF_BIAS = ONEDNN_ARGUMENT_DIFF_BIAS
};

typedef struct cell {
    onednn_algorithm_t algorithm;
    onednn_direction_t direction;
    int layers, in, hidden;
    int projected; /* 0: no projection */
    bool has_states, has_peephole, is_plain;
} cell_t;

/* A layer's inputs and outputs. */
typedef struct values {
    double src[3][STATE], weight[4][MAX], bias[STATE], dst[3][STATE];
} values_t;

static int gates_of(const cell_t *c)
{
    if (c->algorithm == ONEDNN_RNN_LSTM) return 4;
    return c->algorithm == ONEDNN_RNN_GRU || c->algorithm == ONEDNN_RNN_LBR_GRU ? 3 : 1;
}

static int biases_of(const cell_t *c)
{
    return gates_of(c) + (c->algorithm == ONEDNN_RNN_LBR_GRU);
}

static int directions_of(const cell_t *c)
{
    return c->direction == ONEDNN_BOTH_CONCATENATED || c->direction == ONEDNN_BOTH_SUMMED ? 2 : 1;
}

static int width_of(const cell_t *c)
{
    return c->projected > 0 ? c->projected : c->hidden;
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* The weights of a layer in one direction. */
typedef struct part {
    const double *layer, *iter, *peephole, *projection, *bias;
    int in;
} part_t;

/* Returns the sum over i of x[i] * w[i][gate][j]. */
static double product(const cell_t *c, int n, const double *x, const double *w, int gate, int j)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i] * w[(i * gates_of(c) + gate) * c->hidden + j];
    return sum;
}

static void step_lstm(const cell_t *c, const part_t *p, const double *x, double *h, double *state)
{
    double out[64];
    for (int j = 0; j < c->hidden; j++) {
        double z[4], old = state[j];
        for (int g = 0; g < 4; g++)
            z[g] = p->bias[g * c->hidden + j] + product(c, p->in, x, p->layer, g, j) +
                   product(c, width_of(c), h, p->iter, g, j);
        const double *peep = p->peephole + j;
        if (c->has_peephole) z[0] += peep[0] * old;
        if (c->has_peephole) z[1] += peep[c->hidden] * old;
        state[j] = sigmoid(z[1]) * old + sigmoid(z[0]) * tanh(z[2]);
        if (c->has_peephole) z[3] += peep[2 * c->hidden] * state[j];
        out[j] = sigmoid(z[3]) * tanh(state[j]);
    }
    for (int k = 0; k < width_of(c); k++) {
        h[k] = c->projected > 0 ? 0 : out[k];
        for (int j = 0; c->projected > 0 && j < c->hidden; j++)
            h[k] += out[j] * p->projection[j * c->projected + k];
    }
}

static void step_gru(const cell_t *c, const part_t *p, const double *x, double *h)
{
    double update[64], reset[64], kept[64], out[64];
    const double *b = p->bias;
    int n = c->hidden;
    for (int j = 0; j < n; j++) {
        update[j] = sigmoid(b[j] + product(c, p->in, x, p->layer, 0, j) +
                            product(c, n, h, p->iter, 0, j));
        reset[j] = sigmoid(b[n + j] + product(c, p->in, x, p->layer, 1, j) +
                           product(c, n, h, p->iter, 1, j));
    }
    for (int j = 0; j < n; j++) kept[j] = reset[j] * h[j];
    for (int j = 0; j < n; j++) {
        double own = c->algorithm == ONEDNN_RNN_GRU
                         ? product(c, n, kept, p->iter, 2, j)
                         : reset[j] * (product(c, n, h, p->iter, 2, j) + b[3 * n + j]);
        out[j] = tanh(b[2 * n + j] + product(c, p->in, x, p->layer, 2, j) + own);
    }
    for (int j = 0; j < n; j++) h[j] = update[j] * h[j] + (1 - update[j]) * out[j];
}

static void step(const cell_t *c, const part_t *p, const double *x, double *h, double *state)
{
    double out[64];
    if (c->algorithm == ONEDNN_RNN_LSTM) {
        step_lstm(c, p, x, h, state);
    } else if (gates_of(c) == 3) {
        step_gru(c, p, x, h);
    } else {
        for (int j = 0; j < c->hidden; j++) {
            double z = p->bias[j] + product(c, p->in, x, p->layer, 0, j) +
                       product(c, c->hidden, h, p->iter, 0, j);
            out[j] = c->algorithm == ONEDNN_RNN_TANH ? tanh(z) : z > 0 ? z : 0;
        }
        memcpy(h, out, (size_t)c->hidden * sizeof *h);
    }
}

static void run_cells(const cell_t *c, values_t *v)
{
    int directions = directions_of(c), gates = gates_of(c), width = width_of(c), in = c->in;
    int stride = c->direction == ONEDNN_BOTH_CONCATENATED ? 2 * width : width;
    double input[STATE];
    memcpy(input, v->src[0], sizeof input);
    for (int l = 0; l < c->layers; l++) {
        memset(v->dst[0], 0, sizeof v->dst[0]);
        for (int d = 0; d < directions; d++) {
            int at = l * directions + d;
            part_t p = {v->weight[0] + at * c->in * gates * c->hidden,
                        v->weight[1] + at * width * gates * c->hidden,
                        v->weight[2] + at * 3 * c->hidden,
                        v->weight[3] + at * c->hidden * width,
                        v->bias + at * biases_of(c) * c->hidden,
                        in};
            bool is_backward = c->direction == ONEDNN_RIGHT_TO_LEFT || d == 1;
            for (int n = 0; n < N; n++) {
                double *h = v->dst[1] + (at * N + n) * width;
                double *state = v->dst[2] + (at * N + n) * c->hidden;
                for (int j = 0; j < width; j++)
                    h[j] = c->has_states ? v->src[1][(at * N + n) * width + j] : 0;
                for (int j = 0; j < c->hidden; j++)
                    state[j] = c->has_states ? v->src[2][(at * N + n) * c->hidden + j] : 0;
                for (int i = 0; i < T; i++) {
                    int t = is_backward ? T - 1 - i : i;
                    double *y = v->dst[0] + (t * N + n) * stride;
                    if (c->direction == ONEDNN_BOTH_CONCATENATED) y += d * width;
                    step(c, &p, input + (t * N + n) * in, h, state);
                    for (int j = 0; j < width; j++) y[j] += h[j];
                }
            }
        }
        memcpy(input, v->dst[0], sizeof input);
        in = stride;
    }
}

/* ---- problems ---- */

typedef struct infos {
    tensor_info_t src[3], weight[4], bias, dst[3]; /* row-major */
    tensor_info_t wanted[4]; /* formats of weights that the primitive shall use */
} infos_t;

static tensor_info_t plain(int rank, const int64_t *sizes)
{
    tensor_info_t dense = info_dense(DTYPE_F32, rank, sizes);
    format_t format = format_plain(rank);
    return info_mkldnn(&dense, &format);
}
#define PLAIN(...) plain((int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]){__VA_ARGS__})

static infos_t infos_of(const cell_t *c)
{
    infos_t infos = {0};
    int l = c->layers, d = directions_of(c), g = gates_of(c), width = width_of(c);
    bool is_lstm = c->algorithm == ONEDNN_RNN_LSTM;
    infos.src[0] = PLAIN(T, N, c->in);
    infos.dst[0] = PLAIN(T, N, c->direction == ONEDNN_BOTH_CONCATENATED ? 2 * width : width);
    if (c->has_states) infos.src[1] = infos.dst[1] = PLAIN(l, d, N, width);
    if (c->has_states && is_lstm) infos.src[2] = infos.dst[2] = PLAIN(l, d, N, c->hidden);
    infos.weight[0] = PLAIN(l, d, c->in, g, c->hidden);
    infos.weight[1] = PLAIN(l, d, width, g, c->hidden);
    if (c->has_peephole) infos.weight[2] = PLAIN(l, d, 3, c->hidden);
    if (c->projected > 0) infos.weight[3] = PLAIN(l, d, c->hidden, width);
    infos.bias = PLAIN(l, d, biases_of(c), c->hidden);
    memcpy(infos.wanted, infos.weight, sizeof infos.wanted);
    for (int i = 0; i < 4 && !c->is_plain; i++)
        if (i != 2) infos.wanted[i].format = (format_t){.kind = FORMAT_ANY};
    return infos;
}

static onednn_problem_t problem_of(const cell_t *c, const infos_t *infos)
{
    return (onednn_problem_t){.kind = ONEDNN_RNN,
                              .algorithm = c->algorithm,
                              .direction = c->direction,
                              .n_src = 3,
                              .src = infos->src,
                              .weight = infos->wanted,
                              .bias = &infos->bias,
                              .dst = infos->dst};
}

static void draw(const infos_t *infos, values_t *out)
{
    memset(out, 0, sizeof *out);
    for (int i = 0; i < 3; i++)
        if (infos->src[i].dtype != DTYPE_NONE)
            run_primitive_draw((uint64_t)i + 1, info_numel(&infos->src[i]), out->src[i]);
    for (int i = 0; i < 4; i++)
        if (infos->weight[i].dtype != DTYPE_NONE)
            run_primitive_draw((uint64_t)i + 11, info_numel(&infos->weight[i]), out->weight[i]);
    run_primitive_draw(21, info_numel(&infos->bias), out->bias);
}

static void put_inputs(run_primitive_t *run, const infos_t *infos, const values_t *v)
{
    for (int i = 0; i < 3; i++)
        if (infos->src[i].dtype != DTYPE_NONE) run_primitive_put(run, SRC + i, v->src[i]);
    for (int i = 0; i < 4; i++)
        if (infos->weight[i].dtype != DTYPE_NONE)
            run_primitive_pack(run, WEIGHT + i, &infos->weight[i], v->weight[i]);
    run_primitive_put(run, BIAS, v->bias);
}

/* ---- inference ---- */

static void check_inference(context_t *ctx, const cell_t *c)
{
    values_t v;
    infos_t infos = infos_of(c);
    onednn_problem_t p = problem_of(c, &infos);
    run_primitive_t run;
    draw(&infos, &v);
    run_cells(c, &v);
    run_primitive_begin(ctx, &p, &run);
    assert_int_equal(onednn_argument_index(run.primitive, WORKSPACE), -1);
    assert_int_equal(onednn_argument_index(run.primitive, SRC + 1) >= 0, c->has_states);
    put_inputs(&run, &infos, &v);
    run_primitive_go(&run);
    for (int i = 0; i < 3; i++)
        if (infos.dst[i].dtype != DTYPE_NONE) run_primitive_check(&run, DST + i, v.dst[i], 2e-5);
    run_primitive_end(&run);
}

static const onednn_algorithm_t cells[] = {ONEDNN_RNN_TANH, ONEDNN_RNN_RELU, ONEDNN_RNN_LSTM,
                                           ONEDNN_RNN_GRU, ONEDNN_RNN_LBR_GRU};

static void recurrent_layers_run_in_every_direction(void **state)
{
    static const int sizes[][2] = {{1, 3}, {7, 17}, {3, 1}, {16, 16}};
    for (int i = 0; i < 5 * 4 * 4 * 2 * 2; i++) {
        cell_t c = {.algorithm = cells[i % 5],
                    .direction = (onednn_direction_t)(i / 5 % 4),
                    .layers = 1,
                    .in = sizes[i / 20 % 4][0],
                    .hidden = sizes[i / 20 % 4][1],
                    .has_states = i / 80 % 2 == 1,
                    .is_plain = i / 160 == 1};
        check_inference(fixture_context(state), &c);
    }
}

static void layers_stand_on_one_another(void **state)
{
    for (int i = 0; i < 5; i++) {
        cell_t c = {.algorithm = cells[i], .layers = 2, .in = 7, .hidden = 7, .has_states = true};
        check_inference(fixture_context(state), &c);
    }
}

static void lstm_has_peepholes_and_projections(void **state)
{
    for (int i = 0; i < 4 * 2; i++) {
        cell_t c = {.algorithm = ONEDNN_RNN_LSTM,
                    .direction = (onednn_direction_t)(i / 2),
                    .layers = 1,
                    .in = 3,
                    .hidden = 7,
                    .projected = i % 2 == 0 ? 0 : 5,
                    .has_states = true,
                    .has_peephole = i % 2 == 0};
        check_inference(fixture_context(state), &c);
    }
}

/* ---- gradients ---- */

/* Returns the sum of the results times dst's gradient, so its derivatives are the gradients. */
static double loss(const cell_t *c, const infos_t *infos, const values_t *v,
                   double weights[3][STATE])
{
    static values_t again;
    double sum = 0;
    again = *v;
    run_cells(c, &again);
    for (int i = 0; i < 3; i++)
        for (int e = 0; infos->dst[i].dtype != DTYPE_NONE && e < info_numel(&infos->dst[i]); e++)
            sum += weights[i][e] * again.dst[i][e];
    return sum;
}

static void differences(const cell_t *c, const infos_t *infos, values_t *v,
                        double weights[3][STATE], int64_t n, double *at, double *out)
{
    const double width = 1e-4;
    for (int64_t i = 0; i < n; i++) {
        double kept = at[i];
        at[i] = kept + width;
        double above = loss(c, infos, v, weights);
        at[i] = kept - width;
        out[i] = (above - loss(c, infos, v, weights)) / (2 * width);
        at[i] = kept;
    }
}

static void check_gradients(context_t *ctx, const cell_t *c)
{
    static values_t v;
    double dy[3][STATE], expected[MAX], zeros[MAX] = {0};
    infos_t infos = infos_of(c);
    onednn_problem_t p = problem_of(c, &infos);
    run_primitive_t forward, backward;
    draw(&infos, &v);
    run_cells(c, &v);
    p.propagation = ONEDNN_TRAINING;
    run_primitive_begin(ctx, &p, &forward);
    assert_true(onednn_argument_bytes(forward.primitive, WORKSPACE) > 0);
    put_inputs(&forward, &infos, &v);
    run_primitive_go(&forward);
    p.propagation = ONEDNN_BACKWARD;
    p.forward = forward.primitive;
    p.diff_src = infos.src;
    p.diff_weight = infos.weight;
    p.diff_bias = &infos.bias;
    p.diff_dst = infos.dst;
    run_primitive_begin(ctx, &p, &backward);
    put_inputs(&backward, &infos, &v);
    run_primitive_copy(&backward, WORKSPACE, &forward);
    for (int i = 0; i < 3; i++) {
        if (infos.dst[i].dtype == DTYPE_NONE) continue;
        run_primitive_check(&forward, DST + i, v.dst[i], 2e-5);
        run_primitive_put(&backward, DST + i, v.dst[i]);
        run_primitive_draw((uint64_t)i + 31, info_numel(&infos.dst[i]), dy[i]);
        run_primitive_put(&backward, DIFF_DST + i, dy[i]);
    }
    for (int i = 0; i < 2; i++) run_primitive_put(&backward, DIFF_WEIGHT + i, zeros);
    run_primitive_put(&backward, DIFF_BIAS, zeros);
    run_primitive_go(&backward);
    for (int i = 0; i < 3; i++) {
        if (infos.src[i].dtype == DTYPE_NONE) continue;
        differences(c, &infos, &v, dy, info_numel(&infos.src[i]), v.src[i], expected);
        run_primitive_check(&backward, DIFF_SRC + i, expected, 1e-4);
    }
    for (int i = 0; i < 2; i++) {
        differences(c, &infos, &v, dy, info_numel(&infos.weight[i]), v.weight[i], expected);
        run_primitive_check(&backward, DIFF_WEIGHT + i, expected, 1e-4);
    }
    differences(c, &infos, &v, dy, info_numel(&infos.bias), v.bias, expected);
    run_primitive_check(&backward, DIFF_BIAS, expected, 1e-4);
    run_primitive_end(&backward);
    run_primitive_end(&forward);
}

static void recurrent_layers_give_gradients(void **state)
{
    for (int i = 0; i < 5 * 2; i++) {
        cell_t c = {.algorithm = cells[i % 5],
                    .direction = i / 5 == 0 ? ONEDNN_LEFT_TO_RIGHT : ONEDNN_BOTH_CONCATENATED,
                    .layers = 1,
                    .in = 3,
                    .hidden = 5,
                    .has_states = true};              /* see onednn_fault */
        if (c.algorithm == ONEDNN_RNN_RELU) continue; /* no finite differences at its kink */
        check_gradients(fixture_context(state), &c);
    }
}

static void invalid_cells_are_unsupported(void **state)
{
    context_t *ctx = fixture_context(state);
    cell_t c = {.algorithm = ONEDNN_RNN_GRU, .layers = 1, .in = 3, .hidden = 3};
    infos_t infos = infos_of(&c);
    onednn_problem_t p = problem_of(&c, &infos);
    onednn_primitive_t *primitive = NULL;
    p.algorithm = ONEDNN_SOFTMAX_LOG;
    assert_int_equal(onednn_describe(ctx, &p, &primitive), STATUS_UNSUPPORTED);
    p.algorithm = ONEDNN_RNN_GRU;
    p.propagation = ONEDNN_BACKWARD_DATA;
    assert_int_equal(onednn_describe(ctx, &p, &primitive), STATUS_UNSUPPORTED);
    assert_null(primitive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(recurrent_layers_run_in_every_direction), TEST(layers_stand_on_one_another),
        TEST(lstm_has_peepholes_and_projections),      TEST(recurrent_layers_give_gradients),
        TEST(invalid_cells_are_unsupported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
