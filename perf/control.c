/* Measures the cost of control flow in frozen models: a loop, compared with the same loop unrolled;
 * and an `if` between two stages of convolutions, compared with the stages without it.
 *
 * usage: control [SAMPLES]    (default: 51 of each, alternating)
 *
 * Prints for each pair the medians of the inference times in us, their ratio, and the reorders of
 * an inference. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <tessera.h>

#include "tensor/base/try_impl.h"

#define STEPS 50
#define FEATURES 512
#define ROWS 16
#define TEXT_MAX 65536

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* ---- the methods ---- */

static void write_loop(char *text)
{
    snprintf(text, TEXT_MAX,
             "graph forward(%%self : module, %%x : f32[%d,%d]) {\n"
             "  %%w = getattr(%%self) name=\"w\" : f32[%d,%d]\n"
             "  %%b = getattr(%%self) name=\"b\" : f32[%d]\n"
             "  %%y = loop(%d, true, %%x) do (%%i, %%h) {\n"
             "    %%a = linear(%%h, %%w, %%b)\n"
             "    %%t = tanh(%%a)\n"
             "    yield true, %%t\n"
             "  }\n"
             "  return %%y\n"
             "}\n",
             ROWS, FEATURES, FEATURES, FEATURES, FEATURES, STEPS);
}

static void write_unrolled(char *text)
{
    int at = snprintf(text, TEXT_MAX,
                      "graph forward(%%self : module, %%t0 : f32[%d,%d]) {\n"
                      "  %%w = getattr(%%self) name=\"w\" : f32[%d,%d]\n"
                      "  %%b = getattr(%%self) name=\"b\" : f32[%d]\n",
                      ROWS, FEATURES, FEATURES, FEATURES, FEATURES);
    for (int i = 0; i < STEPS; i++)
        at += snprintf(text + at, (size_t)(TEXT_MAX - at),
                       "  %%a%d = linear(%%t%d, %%w, %%b)\n"
                       "  %%t%d = tanh(%%a%d)\n",
                       i, i, i + 1, i);
    snprintf(text + at, (size_t)(TEXT_MAX - at), "  return %%t%d\n}\n", STEPS);
}

/* Writes two stages of convolutions on 28x28. Between them is a relu, or an `if` with the relu as
 * one of its branches. */
static void write_stages(char *text, const char *between, const char *parameters)
{
    snprintf(text, TEXT_MAX,
             "graph forward(%%self : module, %%x : f32[1,64,28,28]%s) {\n"
             "  %%v = getattr(%%self) name=\"v\" : f32[64,64,3,3]\n"
             "  %%u = getattr(%%self) name=\"u\" : f32[64,64,3,3]\n"
             "  %%p = conv2d(%%x, %%v, none) padding=[1,1]\n"
             "  %%q = conv2d(%%p, %%u, none) padding=[1,1]\n"
             "%s"
             "  %%s = conv2d(%%r, %%v, none) padding=[1,1]\n"
             "  %%t = conv2d(%%s, %%u, none) padding=[1,1]\n"
             "  return %%t\n"
             "}\n",
             parameters, between);
}

static const char branch[] = "  %r = if(%c) {\n"
                             "    %r1 = tanh(%q)\n"
                             "    yield %r1\n"
                             "  } else {\n"
                             "    %r2 = sigmoid(%q)\n"
                             "    yield %r2\n"
                             "  }\n";

/* ---- running ---- */

typedef struct subject {
    context_t *ctx;
    module_t *frozen;
    int n_in;
    const tensor_t *in[2];
    double times[1001];
    uint64_t weight_reorders, activation_reorders;
} subject_t;

static status_t set_random(context_t *ctx, module_t *net, const char *name, int rank,
                           const int64_t *sizes)
{
    tensor_t *tensor = NULL, *small = NULL;
    TRY(tensor_randn(ctx, DTYPE_F32, rank, sizes, &tensor));
    status_t status = tensor_full(ctx, DTYPE_F32, 0, NULL, 0.04, &small);
    tensor_t *scaled = NULL;
    if (status == STATUS_OK) status = op_mul(ctx, tensor, small, &scaled);
    if (status == STATUS_OK) status = module_set_parameter(ctx, net, name, scaled);
    tensor_release(scaled);
    tensor_release(small);
    tensor_release(tensor);
    return status;
}

static status_t make(subject_t *subject, const char *text)
{
    context_t *ctx = subject->ctx;
    module_t *net = NULL;
    TRY(module_create(ctx, "Net", &net));
    status_t status = set_random(ctx, net, "w", SHAPE(FEATURES, FEATURES));
    if (status == STATUS_OK) status = set_random(ctx, net, "b", SHAPE(FEATURES));
    if (status == STATUS_OK) status = set_random(ctx, net, "u", SHAPE(64, 64, 3, 3));
    if (status == STATUS_OK) status = set_random(ctx, net, "v", SHAPE(64, 64, 3, 3));
    if (status == STATUS_OK) status = graph_define(ctx, net, text);
    if (status == STATUS_OK) status = freeze(ctx, net, NULL, &subject->frozen);
    module_release(net);
    return status;
}

static status_t run(subject_t *subject)
{
    tensor_t *out[METHOD_MAX_OUTPUTS];
    int n = METHOD_MAX_OUTPUTS;
    TRY(module_call_tensors(subject->ctx, subject->frozen, "forward", subject->n_in, subject->in,
                            &n, out));
    for (int i = 0; i < n; i++) tensor_release(out[i]);
    return STATUS_OK;
}

static status_t count_reorders(subject_t *subject)
{
    counters_t counters;
    counters_reset(subject->ctx);
    TRY(run(subject));
    counters_read(subject->ctx, &counters);
    subject->weight_reorders = counters_weight_reorders(&counters);
    subject->activation_reorders = counters_activation_reorders(&counters);
    return STATUS_OK;
}

static double median(subject_t *subject, int n)
{
    qsort(subject->times, (size_t)n, sizeof subject->times[0], compare_times);
    return subject->times[n / 2];
}

static status_t compare(const char *name, subject_t *with, subject_t *without, int n_samples)
{
    subject_t *both[] = {with, without};
    for (int i = -5; i < n_samples; i++)
        for (int s = 0; s < 2; s++) {
            double begin = now_us();
            TRY(run(both[s]));
            if (i >= 0) both[s]->times[i] = now_us() - begin;
        }
    for (int s = 0; s < 2; s++) TRY(count_reorders(both[s]));
    double a = median(with, n_samples), b = median(without, n_samples);
    printf("%-28s %10.1f %10.1f %8.3f   %llu+%llu   %llu+%llu\n", name, a, b, a / b,
           (unsigned long long)with->weight_reorders, (unsigned long long)with->activation_reorders,
           (unsigned long long)without->weight_reorders,
           (unsigned long long)without->activation_reorders);
    return STATUS_OK;
}

static status_t measure(context_t *ctx, int n_samples)
{
    static char text[TEXT_MAX];
    static subject_t loop, unrolled, stages, straight;
    tensor_t *x = NULL, *image = NULL, *condition = NULL;
    TRY(tensor_randn(ctx, DTYPE_F32, SHAPE(ROWS, FEATURES), &x));
    TRY(tensor_randn(ctx, DTYPE_F32, SHAPE(1, 64, 28, 28), &image));
    TRY(tensor_full(ctx, DTYPE_BOOL, 0, NULL, 1, &condition));
    loop = unrolled = (subject_t){.ctx = ctx, .n_in = 1, .in = {x}};
    stages = (subject_t){.ctx = ctx, .n_in = 2, .in = {image, condition}};
    straight = (subject_t){.ctx = ctx, .n_in = 1, .in = {image}};
    write_loop(text);
    TRY(make(&loop, text));
    write_unrolled(text);
    TRY(make(&unrolled, text));
    write_stages(text, branch, ", %c : bool[]");
    TRY(make(&stages, text));
    write_stages(text, "  %r = tanh(%q)\n", "");
    TRY(make(&straight, text));
    printf("%-28s %10s %10s %8s   %s\n", "", "with, us", "without", "ratio",
           "reorders: weights + activations");
    TRY(compare("loop of 50, linear and tanh", &loop, &unrolled, n_samples));
    TRY(compare("if between two stages", &stages, &straight, n_samples));
    module_release(loop.frozen);
    module_release(unrolled.frozen);
    module_release(stages.frozen);
    module_release(straight.frozen);
    tensor_release(condition);
    tensor_release(image);
    tensor_release(x);
    return STATUS_OK;
}

int main(int argc, char **argv)
{
    int n_samples = argc > 1 ? atoi(argv[1]) : 51;
    if (n_samples < 1 || n_samples > 1001) {
        fprintf(stderr, "usage: control [SAMPLES]    (1 to 1001)\n");
        return 2;
    }
    context_t *ctx = NULL;
    if (context_create(NULL, &ctx)) return 1;
    status_t status = measure(ctx, n_samples);
    if (status) fprintf(stderr, "control: %s\n", context_error(ctx));
    context_destroy(ctx);
    return status != STATUS_OK;
}
