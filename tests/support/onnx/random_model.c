#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/number.h"
#include "tests/support/onnx/onnx_maker.h"
#include "tests/support/onnx/random_model.h"

#define FLOAT ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT
#define INT64 ONNX__TENSOR_PROTO__DATA_TYPE__INT64
/* A list of integers, preceded by its length. */
#define DIMS(...)                                                                                  \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[])                                       \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

#define MAX_NODES 8
#define MAX_VALUES (2 * MAX_NODES + 1)
#define OPSET 17

/* A value of the model. Known sizes are at least 1. A negative number stands for an unknown size;
 * equal negative numbers are equal sizes. */
typedef struct value {
    char name[8];
    int rank;
    int64_t sizes[MAKER_DIMS];
    bool is_read;
} item_t;

static maker_t maker;

typedef struct draft {
    const uint8_t *bytes;
    size_t n_bytes, at;
    item_t values[MAX_VALUES];
    int n_values;
    int64_t n_symbols;
    char texts[MAX_NODES * 6][64]; /* names, which the maker borrows */
    int n_texts;
} draft_t;

/* ---- choosing ---- */

static int draw(draft_t *draft, int n)
{
    return draft->at < draft->n_bytes ? draft->bytes[draft->at++] % n : 0;
}

static char *text(draft_t *draft)
{
    return draft->texts[draft->n_texts++];
}

/* Chooses one of the last four values for a node to read. */
static item_t *pick(draft_t *draft)
{
    int back = draw(draft, draft->n_values < 4 ? draft->n_values : 4);
    item_t *value = &draft->values[draft->n_values - 1 - back];
    value->is_read = true;
    return value;
}

/* Adds a value with the sizes of x; the caller then changes them. */
static item_t *add_value(draft_t *draft, const item_t *x)
{
    item_t *value = &draft->values[draft->n_values];
    *value = *x;
    value->is_read = false;
    snprintf(value->name, sizeof value->name, "v%d", draft->n_values++);
    return value;
}

static int64_t new_symbol(draft_t *draft)
{
    return -1 - draft->n_symbols++;
}

/* Adds a weight whose elements are spread around `middle`; returns its name. */
static const char *weight(draft_t *draft, int rank, const int64_t *sizes, double middle)
{
    static float elements[4096];
    char *name = text(draft);
    int64_t numel = 1;
    for (int d = 0; d < rank; d++) numel *= sizes[d];
    assert_in_range(numel, 0, 4096);
    const double scale = rank > 1 ? 1.0 / sqrt((double)(numel / sizes[0])) : 0.2;
    for (int64_t i = 0; i < numel; i++)
        elements[i] = (float)(middle + scale * number_of(i * 7 + draft->n_texts, 0.0) / 2);
    snprintf(name, 64, "w%d", draft->n_texts);
    maker_initializer(&maker, name, FLOAT, rank, sizes, elements, (size_t)numel * sizeof(float));
    return name;
}

static const char *integers(draft_t *draft, int n, const int64_t *values)
{
    char *name = text(draft);
    snprintf(name, 64, "w%d", draft->n_texts);
    maker_initializer(&maker, name, INT64, 1, (int64_t[]){n}, values, (size_t)n * sizeof *values);
    return name;
}

static maker_node_t *add_node(draft_t *draft, const char *type, const char *inputs,
                              const char *output)
{
    char *kept = text(draft);
    snprintf(kept, 64, "%s", inputs);
    return maker_node(&maker, type, "", kept, output);
}

static bool has_channels(const item_t *x)
{
    return x->rank == 4 && x->sizes[1] > 0 && x->sizes[1] <= 64;
}

/* ---- nodes: each function returns false, and adds nothing, if x is not suitable ---- */

static bool add_unary(draft_t *draft, item_t *x)
{
    static const char *const types[] = {"Relu",        "Sigmoid",  "Tanh", "LeakyRelu", "HardSwish",
                                        "HardSigmoid", "Softplus", "Abs",  "Neg",       "Identity"};
    const char *type = types[draw(draft, 10)];
    add_node(draft, type, x->name, add_value(draft, x)->name);
    return true;
}

static bool add_conv(draft_t *draft, item_t *x)
{
    static const int64_t widths[] = {1, 3, 8, 16, 17};
    if (!has_channels(x)) return false;
    const int64_t in = x->sizes[1], kernel = 1 + 2 * draw(draft, 2), stride = 1 + draw(draft, 2);
    const bool is_depthwise = draw(draft, 4) == 0;
    const int64_t n = is_depthwise ? in : widths[draw(draft, 5)], pad = kernel / 2;
    char inputs[48];
    if (n * in * kernel * kernel > 4096 && !is_depthwise) return false;
    const int64_t sizes[] = {n, is_depthwise ? 1 : in, kernel, kernel};
    const char *w = weight(draft, 4, sizes, 0.0);
    snprintf(inputs, sizeof inputs, "%s %s", x->name, w);
    if (draw(draft, 2) == 0) {
        const char *bias = weight(draft, 1, &n, 0.1);
        snprintf(inputs, sizeof inputs, "%s %s %s", x->name, w, bias);
    }
    item_t *y = add_value(draft, x);
    maker_node_t *node = add_node(draft, "Conv", inputs, y->name);
    maker_ints(node, "kernel_shape", DIMS(kernel, kernel));
    maker_ints(node, "pads", DIMS(pad, pad, pad, pad));
    maker_ints(node, "strides", DIMS(stride, stride));
    if (is_depthwise) maker_int(node, "group", in);
    y->sizes[1] = n;
    for (int d = 2; d < 4 && stride > 1; d++) y->sizes[d] = new_symbol(draft);
    return true;
}

static bool add_batch_norm(draft_t *draft, item_t *x)
{
    char inputs[64];
    if (!has_channels(x)) return false;
    const int64_t n = x->sizes[1];
    const char *names[4];
    for (int i = 0; i < 4; i++) names[i] = weight(draft, 1, &n, i == 0 || i == 3 ? 2.0 : 0.0);
    snprintf(inputs, sizeof inputs, "%s %s %s %s %s", x->name, names[0], names[1], names[2],
             names[3]);
    add_node(draft, "BatchNormalization", inputs, add_value(draft, x)->name);
    return true;
}

static bool is_same_size(const item_t *a, const item_t *b)
{
    return a->rank == b->rank &&
           memcmp(a->sizes, b->sizes, (size_t)a->rank * sizeof *a->sizes) == 0;
}

static bool add_binary(draft_t *draft, item_t *x)
{
    static const char *const types[] = {"Add", "Sub", "Mul", "Max", "Min"};
    const char *type = types[draw(draft, 5)];
    char inputs[48];
    item_t *other = pick(draft);
    const char *name = is_same_size(x, other) ? other->name : NULL;
    if (name == NULL && has_channels(x))
        name = weight(draft, 3, (int64_t[]){x->sizes[1], 1, 1}, 0.5);
    if (name == NULL) return false;
    const bool is_first = draw(draft, 2) == 0;
    snprintf(inputs, sizeof inputs, "%s %s", is_first ? x->name : name, is_first ? name : x->name);
    add_node(draft, type, inputs, add_value(draft, x)->name);
    return true;
}

static bool add_pool(draft_t *draft, item_t *x)
{
    if (x->rank != 4) return false;
    const bool is_max = draw(draft, 2) == 0;
    const int64_t kernel = 2 + draw(draft, 2), stride = 1 + draw(draft, 2), pad = draw(draft, 2);
    item_t *y = add_value(draft, x);
    maker_node_t *node = add_node(draft, is_max ? "MaxPool" : "AveragePool", x->name, y->name);
    maker_ints(node, "kernel_shape", DIMS(kernel, kernel));
    maker_ints(node, "strides", DIMS(stride, stride));
    maker_ints(node, "pads", DIMS(pad, pad, pad, pad));
    maker_int(node, "ceil_mode", draw(draft, 2));
    for (int d = 2; d < 4; d++) y->sizes[d] = new_symbol(draft);
    return true;
}

static bool add_global_pool(draft_t *draft, item_t *x)
{
    if (x->rank != 4) return false;
    item_t *y = add_value(draft, x);
    add_node(draft, draw(draft, 2) == 0 ? "GlobalAveragePool" : "GlobalMaxPool", x->name, y->name);
    y->sizes[2] = y->sizes[3] = 1;
    return true;
}

static bool add_concat(draft_t *draft, item_t *x)
{
    char inputs[48];
    item_t *other = pick(draft);
    if (x->rank < 2 || x->sizes[1] < 1 || x->sizes[1] > 32 || !is_same_size(x, other)) return false;
    item_t *y = add_value(draft, x);
    snprintf(inputs, sizeof inputs, "%s %s", x->name, other->name);
    maker_int(add_node(draft, "Concat", inputs, y->name), "axis", 1);
    y->sizes[1] *= 2;
    return true;
}

static bool add_transpose(draft_t *draft, item_t *x)
{
    static const int64_t orders[][4] = {{0, 2, 3, 1}, {0, 3, 1, 2}, {0, 2, 1, 3}, {1, 0, 3, 2}};
    if (x->rank != 4) return false;
    const int64_t *order = orders[draw(draft, 4)];
    item_t *y = add_value(draft, x);
    maker_ints(add_node(draft, "Transpose", x->name, y->name), "perm", 4, order);
    for (int d = 0; d < 4; d++) y->sizes[d] = x->sizes[order[d]];
    return true;
}

/* Reshapes [a, b, c, d] to [a, b, c * d], or [a, b, c] to [a, b, 1, c]. */
static bool add_reshape(draft_t *draft, item_t *x)
{
    char inputs[48];
    if (x->rank < 3) return false;
    item_t *y = add_value(draft, x);
    const char *sizes = x->rank == 4 ? integers(draft, 3, (int64_t[]){0, 0, -1})
                                     : integers(draft, 4, (int64_t[]){0, 0, 1, -1});
    snprintf(inputs, sizeof inputs, "%s %s", x->name, sizes);
    add_node(draft, "Reshape", inputs, y->name);
    y->sizes[2] = x->rank == 4 ? new_symbol(draft) : 1;
    y->sizes[3] = x->sizes[2];
    y->rank = 7 - x->rank;
    return true;
}

static bool add_softmax(draft_t *draft, item_t *x)
{
    const int axis = draw(draft, x->rank);
    maker_int(add_node(draft, "Softmax", x->name, add_value(draft, x)->name), "axis", axis);
    return true;
}

static bool add_reduction(draft_t *draft, item_t *x)
{
    static const char *const types[] = {"ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2"};
    const char *type = types[draw(draft, 4)];
    const int axis = draw(draft, x->rank);
    item_t *y = add_value(draft, x);
    maker_ints(add_node(draft, type, x->name, y->name), "axes", DIMS(axis));
    y->sizes[axis] = 1;
    return true;
}

static bool add_slice(draft_t *draft, item_t *x)
{
    char inputs[64];
    const int axis = draw(draft, x->rank);
    const bool is_reversed = draw(draft, 3) == 0;
    item_t *y = add_value(draft, x);
    const char *begin = integers(draft, 1, (int64_t[]){is_reversed ? -1 : 0});
    const char *end = integers(draft, 1, (int64_t[]){is_reversed ? INT64_MIN : INT64_MAX});
    const char *axes = integers(draft, 1, (int64_t[]){axis});
    const char *step = integers(draft, 1, (int64_t[]){is_reversed ? -1 : 2});
    snprintf(inputs, sizeof inputs, "%s %s %s %s %s", x->name, begin, end, axes, step);
    add_node(draft, "Slice", inputs, y->name);
    if (is_reversed) return true;
    y->sizes[axis] = x->sizes[axis] > 0 ? (x->sizes[axis] + 1) / 2 : new_symbol(draft);
    return true;
}

static bool add_matmul(draft_t *draft, item_t *x)
{
    static const int64_t widths[] = {1, 5, 16, 17};
    char inputs[48];
    const int64_t k = x->sizes[x->rank - 1], n = widths[draw(draft, 4)];
    if (k < 1 || k * n > 4096) return false;
    item_t *y = add_value(draft, x);
    snprintf(inputs, sizeof inputs, "%s %s", x->name, weight(draft, 2, (int64_t[]){k, n}, 0.0));
    add_node(draft, "MatMul", inputs, y->name);
    y->sizes[y->rank - 1] = n;
    return true;
}

static bool add_pad(draft_t *draft, item_t *x)
{
    static const char *const modes[] = {"constant", "edge", "reflect"};
    char inputs[48];
    if (x->rank != 4) return false;
    const char *mode = modes[draw(draft, 3)];
    item_t *y = add_value(draft, x);
    snprintf(inputs, sizeof inputs, "%s %s", x->name,
             integers(draft, 8, (int64_t[]){0, 0, 1, 0, 0, 0, 0, 1}));
    maker_string(add_node(draft, "Pad", inputs, y->name), "mode", mode);
    for (int d = 2; d < 4; d++) y->sizes[d] = new_symbol(draft);
    return true;
}

typedef bool (*adder_t)(draft_t *draft, item_t *x);
static const adder_t adders[] = {add_unary,     add_conv,   add_batch_norm, add_binary,
                                 add_pool,      add_concat, add_transpose,  add_reshape,
                                 add_softmax,   add_slice,  add_matmul,     add_pad,
                                 add_reduction, add_conv,   add_unary,      add_global_pool};
enum { N_ADDERS = sizeof adders / sizeof *adders };

/* Makes a model of 1 to MAX_NODES random nodes. Values that no node reads become its outputs. */
static void draft_model(draft_t *draft)
{
    static const int64_t channels[] = {1, 3, 7, 16, 17, 31};
    static const char *const names[] = {"N", NULL, "H", "W"};
    item_t *x = &draft->values[0];
    *x = (item_t){.name = "x", .rank = 4};
    draft->n_values = 1;
    for (int d = 0; d < 4; d++) x->sizes[d] = d == 1 ? channels[draw(draft, 6)] : new_symbol(draft);
    maker_begin(&maker, OPSET);
    maker_input(&maker, "x", FLOAT, 4, x->sizes);
    for (int d = 0; d < 4; d++)
        if (names[d] != NULL) maker_open(&maker, d, names[d]);
    const int n = 1 + draw(draft, MAX_NODES);
    for (int i = 0; i < n; i++) {
        item_t *from = pick(draft);
        if (!adders[draw(draft, N_ADDERS)](draft, from)) add_unary(draft, from);
    }
    for (int i = 1; i < draft->n_values; i++)
        if (!draft->values[i].is_read) maker_output(&maker, draft->values[i].name);
}

uint8_t *random_model_make(const uint8_t *bytes, size_t n_bytes,
                           int64_t out_sizes[RANDOM_MODEL_RUNS][4], size_t *out_n_packed)
{
    static draft_t draft;
    draft = (draft_t){.bytes = bytes, .n_bytes = n_bytes};
    for (int i = 0; i < RANDOM_MODEL_RUNS; i++)
        for (int d = 0; d < 4; d++)
            out_sizes[i][d] = d == 0 ? 1 + draw(&draft, 2) : 1 + draw(&draft, 9);
    draft_model(&draft);
    for (int i = 0; i < RANDOM_MODEL_RUNS; i++) out_sizes[i][1] = draft.values[0].sizes[1];
    return maker_pack(&maker, out_n_packed);
}

void random_model_fill(int64_t n, double shake, float *out_elements)
{
    for (int64_t i = 0; i < n; i++) out_elements[i] = (float)number_of(i, shake) / 2;
}
