/* Convolutions, transposed convolutions, pooling and their gradients are compared with their
 * specifications: with random stride, dilation, kernel and padding up to 2^31 - 1, on tensors of a
 * few elements in every layout. A kernel must decline numbers that are too large for its integers.
 *
 * usage: test_far_windows [CALLS [FIRST]]. "test_far_windows 1 217" repeats call 217. */
#include "tests/support/support.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ops/ops.h"
#include "tests/support/arrange.h"
#include "tests/support/case.h"
#include "tests/support/seeded.h"

#define N_CALLS 600
#define MOST 2147483647
#define SECONDS 60 /* time limit of a call */

static int64_t n_calls = N_CALLS, first_call = 1;
static char text[1024]; /* the current call */

/* ---- numbers ---- */

static int64_t below(int64_t n)
{
    return (((int64_t)seeded_below(1 << 20) << 20) + seeded_below(1 << 20)) % n;
}

/* Returns a number up to `most`. Half of the time it is small; otherwise it has any number of bits
 * and is often a power of 2 or next to one. */
static int64_t far(int64_t most)
{
    int64_t power = (int64_t)1 << seeded_below(32), number = 1 + seeded_below(3);
    if (seeded_below(2) == 0) number = seeded_below(2) == 0 ? power + below(power) : power;
    if (seeded_below(3) == 0) number += seeded_below(3) - 1;
    if (seeded_below(12) == 0) number = most;
    return number < 1 ? 1 : number > most ? most : number;
}

/* ---- geometry of one dimension ---- */

typedef struct axis {
    int64_t in, out, kernel, stride, dilation, padding, extra;
} axis_t;

/* Chooses windows over an input of a few elements. Padding has room for `out` windows, and one of
 * their elements is inside the input. Returns false if there is no such padding. */
static bool draw_conv(axis_t *axis)
{
    *axis = (axis_t){.in = 1 + seeded_below(6), .out = 1 + seeded_below(3)};
    axis->kernel = 1 + seeded_below(3);
    axis->stride = far(MOST);
    axis->dilation = far(MOST);
    int64_t total = (axis->out - 1) * axis->stride + (axis->kernel - 1) * axis->dilation + 1 -
                    axis->in + below(axis->stride < 4 ? axis->stride : 4);
    if (total < 0) return false;
    axis->padding = below(axis->out) * axis->stride + below(axis->kernel) * axis->dilation -
                    below(axis->in);
    if (axis->padding < 0) axis->padding = 0;
    if (axis->padding > total) axis->padding = total;
    axis->extra = total - 2 * axis->padding;
    return axis->padding <= MOST && axis->extra <= MOST;
}

/* Chooses a transposed convolution whose result is a few elements, cut from the middle of a large
 * one. */
static bool draw_transposed(axis_t *axis)
{
    *axis = (axis_t){.in = 1 + seeded_below(4), .kernel = 1 + seeded_below(3)};
    axis->stride = far(MOST);
    axis->dilation = far(MOST);
    const int64_t whole = (axis->in - 1) * axis->stride + (axis->kernel - 1) * axis->dilation + 1;
    axis->out = 1 + below(whole < 5 ? whole : 5);
    if ((whole - axis->out) % 2 != 0) axis->out++;
    axis->padding = (whole - axis->out) / 2;
    return axis->out <= whole && axis->padding < MOST;
}

/* Chooses a pooling, whose padding must be smaller than its window. */
static bool draw_pool(axis_t *axis)
{
    *axis = (axis_t){.in = 1 + seeded_below(6), .kernel = far(MOST), .stride = far(MOST)};
    axis->dilation = seeded_below(2) == 0 ? 1 : far(MOST);
    const int64_t window = (axis->kernel - 1) * axis->dilation + 1;
    const int64_t room = window < MOST ? window : MOST;
    axis->padding = seeded_below(2) == 0 ? room - 1 : below(room);
    axis->extra = -axis->padding + (seeded_below(2) == 0 ? room - 1 : below(room));
    const int64_t rest = axis->in + 2 * axis->padding + axis->extra - window;
    axis->out = rest / axis->stride + 1;
    return rest >= 0 && axis->out <= 6 && axis->extra <= MOST;
}

/* ---- a call ---- */

typedef struct drawn {
    int n;     /* number of dimensions with windows */
    int64_t c; /* channels of x and of the result, in each group */
    int64_t k, groups;
    axis_t axis[3];
} drawn_t;

static bool draw(drawn_t *d, bool (*draw_axis)(axis_t *axis))
{
    static const int64_t channels[] = {1, 2, 3, 8, 16, 17, 32};
    d->n = 1 + seeded_below(3);
    d->c = channels[seeded_below(7)];
    d->k = channels[seeded_below(7)];
    d->groups = 1;
    if (seeded_below(4) == 0) d->groups = d->k = d->c;
    for (int i = 0; i < d->n; i++)
        if (!draw_axis(&d->axis[i])) return false;
    return true;
}

static TESSERA_PRINTF(1, 2) void add(const char *format, ...)
{
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, sizeof text - used, format, arguments);
    va_end(arguments);
}

/* Appends a number for each dimension, such as " stride=[1,2]"; for a shape (name NULL) ",3,4". */
static void add_each(const drawn_t *d, const char *name, size_t member)
{
    if (name != NULL) add(" %s=[", name);
    for (int i = 0; i < d->n; i++) {
        const int64_t *value = (const int64_t *)(const void *)((const char *)&d->axis[i] + member);
        add("%s%lld", name == NULL || i > 0 ? "," : "", (long long)*value);
    }
    if (name != NULL) add("]");
}

#define SHAPE_OF(member) add_each(d, NULL, offsetof(axis_t, member))
#define ATTRIBUTE(name, member) add_each(d, name, offsetof(axis_t, member))

static void add_tensor(const drawn_t *d, int64_t n, int64_t channels, size_t member)
{
    add("f32[%lld,%lld", (long long)n, (long long)channels);
    add_each(d, NULL, member);
    add("]");
}

#define TENSOR(n, channels, member) add_tensor(d, n, channels, offsetof(axis_t, member))

static void add_windows(const drawn_t *d)
{
    ATTRIBUTE("stride", stride);
    ATTRIBUTE("padding", padding);
    ATTRIBUTE("dilation", dilation);
}

/* The functions draw_any_... append operands and attributes, and return the operator's name. */
static const char *draw_any_conv(drawn_t *d, char *name, size_t room)
{
    static const char *const suffixes[] = {"", "", "_backward_data", "_backward_weight"};
    const int which = seeded_below(4);
    if (!draw(d, draw_conv)) return NULL;
    snprintf(name, room, "conv%dd%s", d->n, suffixes[which]);
    add("(");
    if (which == 2)
        TENSOR(2, d->k, out);
    else
        TENSOR(2, d->c, in);
    add(", ");
    if (which == 3)
        TENSOR(2, d->k, out);
    else
        TENSOR(d->k, d->c / d->groups, kernel);
    add("%s) groups=%lld", which < 2 ? ", none" : "", (long long)d->groups);
    add_windows(d);
    if (which < 2) ATTRIBUTE("extra_padding", extra);
    if (which == 2) ATTRIBUTE("size", in);
    if (which == 3) ATTRIBUTE("size", kernel);
    return name;
}

static const char *draw_any_transposed(drawn_t *d, char *name, size_t room)
{
    if (!draw(d, draw_transposed)) return NULL;
    snprintf(name, room, "conv_transpose%dd", d->n);
    add("(");
    TENSOR(2, d->c, in);
    add(", ");
    TENSOR(d->c, d->k / d->groups, kernel);
    add(", none) groups=%lld", (long long)d->groups);
    add_windows(d);
    return name;
}

static const char *draw_any_pool(drawn_t *d, char *name, size_t room)
{
    static const char *const stems[] = {"max_pool", "avg_pool", "max_pool", "avg_pool", "max_pool"};
    static const char *const suffixes[] = {"", "", "_backward", "_backward", "_with_indices"};
    const int which = seeded_below(5);
    if (!draw(d, draw_pool)) return NULL;
    snprintf(name, room, "%s%dd%s", stems[which], d->n, suffixes[which]);
    add("(");
    if (which != 3) TENSOR(2, d->c, in);
    if (which == 2) add(", ");
    if (which == 2 || which == 3) TENSOR(2, d->c, out);
    add(")");
    add_windows(d);
    ATTRIBUTE("kernel", kernel);
    ATTRIBUTE("extra_padding", extra);
    if (which == 3) ATTRIBUTE("input_size", in);
    if (which == 1 || which == 3)
        add(" count_include_pad=%s", seeded_below(2) == 0 ? "true" : "false");
    return name;
}

static const opdef_t *draw_call(void)
{
    static const char *(*const draws[])(drawn_t *, char *, size_t) = {
        draw_any_conv, draw_any_conv, draw_any_transposed, draw_any_pool};
    char name[64];
    const char *drawn = NULL;
    while (drawn == NULL) {
        drawn_t d = {0};
        text[0] = '\0';
        drawn = draws[seeded_below(4)](&d, name, sizeof name);
    }
    return ops_find(drawn);
}

/* ---- running ---- */

static void run(context_t *ctx, int64_t number)
{
    static const arrangement_t arrangements[] = {ARRANGE_CONTIGUOUS, ARRANGE_LAST,
                                                 ARRANGE_SNAPSHOT,   ARRANGE_BLOCKS_16,
                                                 ARRANGE_BLOCKS_8,   ARRANGE_MKLDNN_LAST};
    seeded_begin((uint64_t)number);
    context_seed(ctx, (uint64_t)number);
    const opdef_t *op = draw_call();
    const arrangement_t as = arrangements[seeded_below(6)];
    const policy_t policy = seeded_below(4) == 0 ? POLICY_PER_OP : POLICY_AUTO;
    case_call_t call;
    tensor_t *in[CASE_MAX_INPUTS] = {NULL}, *out[OP_MAX_OUTPUTS] = {NULL};
    int n_out = OP_MAX_OUTPUTS;
    double error = 0.0;
    CHECK_OK(ctx, case_parse(ctx, op, text, &call));
    for (int i = 0; i < call.n_in; i++) {
        tensor_t *dense = NULL;
        if (call.in[i].dtype == DTYPE_NONE) continue;
        CHECK_OK(ctx, case_fill(ctx, &call.in[i], &dense));
        if (op->operands[i].role == ROLE_ACTIVATION && arrange_is_possible(dense, as))
            CHECK_OK(ctx, arrange(ctx, dense, as, &in[i]));
        else
            in[i] = tensor_retain(dense);
        tensor_release(dense);
    }
    add(" on %s, call %lld of %s", arrange_name(as), (long long)number, op->name);
    CHECK_OK(ctx, dispatch_set_policy(ctx, policy));
    alarm(SECONDS);
    const tensor_t *const *given = (const tensor_t *const *)in;
    status_t status = dispatch_run(ctx, op, call.attrs, call.n_in, given, &n_out, out);
    if (status == STATUS_OK)
        status = dispatch_verify(ctx, op, call.attrs, call.n_in, given, n_out,
                                 (const tensor_t *const *)out, 0, &error);
    alarm(0);
    if (status != STATUS_OK) fail_msg("%s: %s", text, context_error(ctx));
    if (!(error <= 1.0)) fail_msg("%s: off by %g times its bound", text, error);
    for (int i = 0; i < call.n_in; i++) tensor_release(in[i]);
    for (int o = 0; o < n_out; o++) tensor_release(out[o]);
}

/* Prints the call if it crashes or hangs. */
static void tell(int signal_number)
{
    static const char what[] = "\nended by a signal: ";
    if (write(STDERR_FILENO, what, sizeof what - 1) > 0 &&
        write(STDERR_FILENO, text, strlen(text)) > 0)
        (void)!write(STDERR_FILENO, "\n", 1);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void windows_of_any_size_compute_what_they_say(void **state)
{
    context_t *ctx = fixture_context(state);
    signal(SIGSEGV, tell);
    signal(SIGFPE, tell);
    signal(SIGALRM, tell);
    for (int64_t i = 0; i < n_calls; i++) run(ctx, first_call + i);
}

/* ---- examples with obvious results ---- */

static void check_values(context_t *ctx, const tensor_t *out, int64_t n, const float *expected)
{
    float values[8] = {0};
    assert_int_equal(tensor_numel(out), n);
    CHECK_OK(ctx, tensor_read(ctx, out, values, (size_t)n * sizeof *values));
    for (int64_t i = 0; i < n; i++) assert_true(values[i] == expected[i]);
}

/* Each convolution has one window, which does not touch the input: the first begins in the padding
 * before it, the second has elements 2^31 - 1 apart. The transposed convolution adds to each
 * element at most once. */
static void windows_that_miss_the_input_give_zero(void **state)
{
    context_t *ctx = fixture_context(state);
    static const float ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    static const float three[] = {1, 2, 3};
    const int64_t stride = MOST, half = MOST / 2;
    tensor_t *x = NULL, *weight = NULL, *out = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(1, 1, 1, 3), three, &x));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(1, 1, 1, 1), ones, &weight));
    CHECK_OK(ctx, op_conv2d(ctx, x, weight, NULL,
                            &(conv_attrs_t){.stride = {1, stride}, .padding = {0, 2}}, &out));
    check_values(ctx, out, 1, (const float[]){0});
    tensor_release(out);
    CHECK_OK(ctx, op_conv_transpose2d(ctx, weight, x, NULL,
                                      &(conv_transpose_attrs_t){.stride = {1, stride}}, &out));
    check_values(ctx, out, 3, three);
    tensor_release(out);
    tensor_release(x);
    tensor_release(weight);
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(1, 4, 2, 2), ones, &x));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(1, 4, 2, 2), ones, &weight));
    CHECK_OK(ctx, op_conv2d(ctx, x, weight, NULL,
                            &(conv_attrs_t){.dilation = {MOST, 1}, .padding = {half, 0}}, &out));
    check_values(ctx, out, 1, (const float[]){0});
    tensor_release(out);
    tensor_release(x);
    tensor_release(weight);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {TEST(windows_that_miss_the_input_give_zero),
                                       TEST(windows_of_any_size_compute_what_they_say)};
    if (argc > 1) n_calls = strtoll(argv[1], NULL, 10);
    if (argc > 2) first_call = strtoll(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
