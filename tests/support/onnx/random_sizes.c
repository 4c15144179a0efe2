#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/onnx/onnx_maker.h"
#include "tests/support/onnx/random_sizes.h"

#define FLOAT ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT
#define INT64 ONNX__TENSOR_PROTO__DATA_TYPE__INT64
#define OPSET 13

enum { N_SIZE_BYTES = 3 * RANDOM_SIZES_RUNS, MAX_STEPS = 4, MAX_VALUES = 480, MAX_DEPTH = 3 };

static maker_t maker, blocks[2];

typedef struct program {
    const uint8_t *bytes;
    size_t n_bytes, at;
    char names[MAX_VALUES][8]; /* borrowed by the maker */
    int n_names;
    maker_node_t *last;
    bool has_branch;
} program_t;

static int draw(program_t *program, int n)
{
    return program->at < program->n_bytes ? program->bytes[program->at++] % n : 0;
}

static const char *new_name(program_t *program)
{
    char *name = program->names[program->n_names];
    assert_in_range(program->n_names, 0, MAX_VALUES - 1);
    snprintf(name, sizeof program->names[0], "v%d", program->n_names++);
    return name;
}

/* ---- nodes ---- */

static const char *apply(program_t *program, const char *type, int n, const char *const *in)
{
    char inputs[128] = "";
    const char *out = new_name(program);
    for (int i = 0; i < n; i++)
        snprintf(inputs + strlen(inputs), sizeof inputs - strlen(inputs), "%s%s", i > 0 ? " " : "",
                 in[i]);
    program->last = maker_node(&maker, type, "", inputs, out);
    return out;
}
#define APPLY(program, type, ...)                                                                  \
    apply(program, type, (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)),            \
          (const char *[]){__VA_ARGS__})

static const char *integers(program_t *program, int rank, int64_t n, const int64_t *values)
{
    const char *name = new_name(program);
    maker_initializer(&maker, name, INT64, rank, &n, values, (size_t)n * sizeof *values);
    return name;
}

static const char *integer(program_t *program, int64_t value)
{
    return integers(program, 1, 1, &value);
}

static const char *scalar(program_t *program, int64_t value)
{
    return integers(program, 0, 1, &value);
}

static const char *floats(program_t *program, int64_t n, const float *values)
{
    const char *name = new_name(program);
    maker_initializer(&maker, name, FLOAT, 1, &n, values, (size_t)n * sizeof *values);
    return name;
}

static const char *cast(program_t *program, const char *x, int type)
{
    const char *y = APPLY(program, "Cast", x);
    maker_int(program->last, "to", type);
    return y;
}

static const char *concat(program_t *program, int n, const char *const *in)
{
    const char *y = apply(program, "Concat", n, in);
    maker_int(program->last, "axis", 0);
    return y;
}

/* ---- integers, s64 [1] ---- */

static const char *size_of(program_t *program, const char *x, int dim)
{
    const char *shape = APPLY(program, "Shape", x);
    if (draw(program, 2) == 0)
        return APPLY(program, "Slice", shape, integer(program, dim), integer(program, dim + 1),
                     integer(program, 0));
    return APPLY(program, "Unsqueeze", APPLY(program, "Gather", shape, scalar(program, dim)),
                 integer(program, 0));
}

static const char *scaled(program_t *program, const char *a)
{
    static const float factors[] = {0.5F, 0.25F, 1.5F, 2.0F};
    const char *real = cast(program, a, FLOAT);
    real = APPLY(program, "Mul", real, floats(program, 1, &factors[draw(program, 4)]));
    return cast(program, APPLY(program, draw(program, 2) == 0 ? "Floor" : "Ceil", real), INT64);
}

static const char *number(program_t *program, const char *x, int depth)
{
    static const struct {
        const char *type;
        int64_t operands[4];
    } operations[] = {{"Div", {2, 3, 4, 8}},
                      {"Add", {1, 2, 7, -1}},
                      {"Mul", {2, 3, 2, 3}},
                      {"Sub", {1, 2, 1, 2}},
                      {"Mod", {2, 4, 8, 3}}};
    static const int dims[] = {0, 2, 3, 2};
    const int what = depth < MAX_DEPTH ? draw(program, 9) : 8;
    if (what > 6) return size_of(program, x, dims[draw(program, 4)]);
    const char *a = number(program, x, depth + 1);
    if (what == 6) return scaled(program, a);
    if (what == 5)
        return APPLY(program, draw(program, 2) == 0 ? "Min" : "Max", a,
                     number(program, x, MAX_DEPTH));
    return APPLY(program, operations[what].type, a,
                 integer(program, operations[what].operands[draw(program, 4)]));
}

static const char *positive(program_t *program, const char *x)
{
    return APPLY(program, "Max", number(program, x, 0), integer(program, 1));
}

/* ---- steps ---- */

static const char *pool(program_t *program, const char *x)
{
    const char *y = APPLY(program, "MaxPool", x);
    maker_ints(program->last, "kernel_shape", 2, (int64_t[]){2, 2});
    maker_ints(program->last, "strides", 2, (int64_t[]){2, 2});
    return y;
}

static const char *resize(program_t *program, const char *x)
{
    static const float scales[][4] = {{1, 1, 2, 2}, {1, 1, 0.5F, 0.5F}, {1, 1, 1.5F, 2}};
    const char *by = floats(program, 4, scales[draw(program, 3)]);
    const char *y = APPLY(program, "Resize", x, "-", by);
    maker_string(program->last, "mode", "nearest");
    maker_string(program->last, "coordinate_transformation_mode", "asymmetric");
    maker_string(program->last, "nearest_mode", "floor");
    return y;
}

static const char *crop(program_t *program, const char *x, const char *end, int axis)
{
    return APPLY(program, "Slice", x, integer(program, 0), end, integer(program, axis));
}

static const char *crop_half(program_t *program, const char *x)
{
    const char *half = APPLY(program, "Div", size_of(program, x, 2), integer(program, 2));
    return crop(program, x, APPLY(program, "Max", half, integer(program, 1)), 2);
}

static const char *crop_columns(program_t *program, const char *x)
{
    return crop(program, x, positive(program, x), 3);
}

static const char *windows(program_t *program, const char *x)
{
    const char *window = integer(program, draw(program, 2) == 0 ? 2 : 4);
    const char *sizes[] = {size_of(program, x, 0), integer(program, 3),
                           APPLY(program, "Div", size_of(program, x, 2), window), window,
                           size_of(program, x, 3)};
    const char *y = APPLY(program, "Reshape", x, concat(program, 5, sizes));
    y = APPLY(program, "ReduceMean", y);
    maker_ints(program->last, "axes", 1, (int64_t[]){3});
    maker_int(program->last, "keepdims", 0);
    return y;
}

static const char *flatten(program_t *program, const char *x)
{
    const char *n = size_of(program, x, 0), *h = size_of(program, x, 2);
    const char *area = APPLY(program, "Mul", h, size_of(program, x, 3));
    const char *flat[] = {n, integer(program, 3), area};
    const char *back[] = {n, integer(program, 3), h, integer(program, -1)};
    const char *y = APPLY(program, "Reshape", x, concat(program, 3, flat));
    y = APPLY(program, "Softmax", y);
    maker_int(program->last, "axis", 2);
    return APPLY(program, "Reshape", y, concat(program, 4, back));
}

static const char *pad(program_t *program, const char *x)
{
    static const int64_t multiples[] = {2, 4, 8}, zeros[6];
    const char *multiple = integer(program, multiples[draw(program, 3)]);
    const char *left = APPLY(program, "Mod", size_of(program, x, 2), multiple);
    left = APPLY(program, "Mod", APPLY(program, "Sub", multiple, left), multiple);
    const char *pads[] = {integers(program, 1, 6, zeros), left, integer(program, 0)};
    return APPLY(program, "Pad", x, concat(program, 3, pads));
}

static const char *positions(program_t *program, const char *x)
{
    const char *count = APPLY(program, "Squeeze", positive(program, x), integer(program, 0));
    const char *range = APPLY(program, "Range", scalar(program, 0), count, scalar(program, 1));
    const char *sum = APPLY(program, "ReduceSum", cast(program, range, FLOAT), integer(program, 0));
    maker_int(program->last, "keepdims", 0);
    return APPLY(program, "Add", x, sum);
}

static const char *expand(program_t *program, const char *x)
{
    const char *sizes[] = {positive(program, x), integer(program, 1)};
    const char *ones = APPLY(program, "Expand", floats(program, 1, (float[]){0.5F}),
                             concat(program, 2, sizes));
    const char *sum = APPLY(program, "ReduceSum", ones, integers(program, 1, 2, (int64_t[]){0, 1}));
    maker_int(program->last, "keepdims", 0);
    return APPLY(program, "Add", x, sum);
}

/* Adds an If whose branches multiply x by 2 and by 3. A model has at most one; later calls add a
 * Transpose. */
static const char *branch(program_t *program, const char *x)
{
    static const char *const ends[] = {"then_branch", "else_branch"};
    static const int64_t bounds[] = {3, 6, 12};
    if (program->has_branch) {
        const char *y = APPLY(program, "Transpose", x);
        maker_ints(program->last, "perm", 4, (int64_t[]){0, 1, 3, 2});
        return y;
    }
    program->has_branch = true;
    const char *count = APPLY(program, "Squeeze", number(program, x, 0), integer(program, 0));
    const char *bound = scalar(program, bounds[draw(program, 3)]);
    const char *y = APPLY(program, "If", APPLY(program, "Greater", count, bound));
    maker_node_t *node = program->last;
    for (int i = 0; i < 2; i++) {
        const char *by = floats(program, 1, (float[]){(float)(2 + i)}), *out = new_name(program);
        char inputs[24];
        snprintf(inputs, sizeof inputs, "%s %s", x, by);
        maker_begin(&blocks[i], OPSET);
        maker_node(&blocks[i], "Mul", "", inputs, out);
        maker_output(&blocks[i], out);
        maker_attr_graph(node, ends[i], &blocks[i]);
    }
    return y;
}

typedef const char *(*step_t)(program_t *program, const char *x);
static const step_t steps[] = {pool,    resize, crop_half, crop_columns, windows,
                               flatten, pad,    positions, expand,       branch};
enum { N_STEPS = sizeof steps / sizeof *steps };

/* Three bytes per run choose sizes; they precede the bytes that choose the model. */
void random_sizes_draw(const uint8_t *bytes, size_t n_bytes,
                       int64_t out_sizes[RANDOM_SIZES_RUNS][4])
{
    static const int64_t sizes[] = {1, 2, 3, 5, 7, 8, 12, 16, 17, 24, 32, 33};
    enum { N = sizeof sizes / sizeof *sizes };
    program_t program = {.bytes = bytes, .n_bytes = n_bytes};
    for (int i = 0; i < RANDOM_SIZES_RUNS; i++) {
        out_sizes[i][0] = 1 + draw(&program, 3);
        out_sizes[i][1] = 3;
        for (int d = 2; d < 4; d++) out_sizes[i][d] = sizes[draw(&program, N)];
    }
}

uint8_t *random_sizes_make(const uint8_t *bytes, size_t n_bytes, const int64_t *sizes,
                           size_t *out_n_packed)
{
    static const int64_t open[] = {-1, 3, -1, -1};
    static program_t program;
    const size_t skipped = n_bytes < N_SIZE_BYTES ? n_bytes : N_SIZE_BYTES;
    program = (program_t){.bytes = bytes + skipped, .n_bytes = n_bytes - skipped};
    const char *x = "x";
    maker_begin(&maker, OPSET);
    maker_input(&maker, x, FLOAT, 4, sizes != NULL ? sizes : open);
    if (sizes == NULL) {
        maker_open(&maker, 2, "H");
        maker_open(&maker, 3, "W");
    }
    const int n = 1 + draw(&program, MAX_STEPS);
    for (int i = 0; i < n; i++) x = steps[draw(&program, N_STEPS)](&program, x);
    maker_output(&maker, x);
    maker_output(&maker, number(&program, x, 0));
    return maker_pack(&maker, out_n_packed);
}
