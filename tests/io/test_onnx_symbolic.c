/* Functions of the import compute with symbolic integers as with numbers. Expressions must have the
 * right value at every size, and only decisions may add guards. */
#include "tests/support/support.h"

#include <string.h>

#include "io/onnx/node_impl.h"
#include "io/onnx/onnx_impl.h"

static onnx_t onnx;
static onnx_node_t node;
static sym_space_t *space;
static int64_t batch, height; /* Symbols; their values in the first run are 2 and 24. */

static void begin(void **state)
{
    context_t *ctx = fixture_context(state);
    memset(&onnx, 0, sizeof onnx);
    memset(&node, 0, sizeof node);
    onnx.ctx = ctx;
    node.onnx = &onnx;
    assert_int_equal(sym_space_create(ctx, &space), STATUS_OK);
    (void)sym_space_enter(ctx, space);
    batch = sym_name(ctx, "N", 2, 1, INT32_MAX);
    height = sym_name(ctx, "H", 24, 1, INT32_MAX);
}

static void end(int n_guards)
{
    char text[128];
    for (int k = n_guards; k < sym_n_guards(space); k++)
        print_message("guard %s\n", sym_guard_text(space, k, sizeof text, text));
    assert_int_equal(sym_n_guards(space), n_guards);
    assert_int_equal(sym_status(onnx.ctx), STATUS_OK);
    (void)sym_space_enter(onnx.ctx, NULL);
    sym_space_release(space);
}

static bool size_of(void *user, int name, const char *text, int64_t *out_size)
{
    (void)name;
    *out_size = strcmp(text, "H") == 0 ? *(const int64_t *)user : 3;
    return true;
}

/* Returns the value of an expression for H = size and N = 3. */
static int64_t at(int64_t expression, int64_t size)
{
    int64_t value = 0;
    assert_true(sym_calculate(space, expression, size_of, &size, &value));
    return value;
}

/* ---- sizes ---- */

static void a_quotient_of_shapes_leaves_out_what_both_have(void **state)
{
    begin(state);
    context_t *ctx = onnx.ctx;
    const int64_t sizes[] = {batch, 3, height, 8}, divisors[] = {8, batch};
    assert_true(onnx_quotient(&node, 4, sizes, 2, divisors) == sym_multiply(ctx, height, 3));
    assert_int_equal(
        onnx_quotient(&node, 3, (const int64_t[]){0, 4, 6}, 2, (const int64_t[]){0, 3}), 8);
    end(0);
}

static void sizes_broadcast_as_numbers_do(void **state)
{
    int64_t sizes[4];
    int rank = 0;
    begin(state);
    assert_true(onnx_broadcast(&node, 3, (const int64_t[]){batch, 1, height}, 2,
                               (const int64_t[]){5, height}, &rank, sizes));
    assert_int_equal(rank, 3);
    assert_true(sizes[0] == batch && sizes[1] == 5 && sizes[2] == height);
    /* M and H are equal in the first run, so a guard says that they are always equal. */
    const int64_t other = sym_name(onnx.ctx, "M", 24, 1, INT32_MAX);
    assert_true(onnx_broadcast(&node, 1, &other, 1, &height, &rank, sizes));
    assert_true(onnx_same_sizes(&node, 1, &other, 1, &height));
    assert_false(onnx_broadcast(&node, 1, &batch, 1, (const int64_t[]){7}, &rank, sizes));
    assert_true(sym_n_guards(space) > 0);
    end(sym_n_guards(space));
}

static void a_negative_size_is_refused_with_its_hint(void **state)
{
    begin(state);
    context_t *ctx = onnx.ctx;
    const int64_t sizes[] = {batch, sym_subtract(ctx, height, 100)};
    assert_int_equal(onnx_check_shape(&node, "the shape", DTYPE_F32, 2, sizes),
                     STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(context_error(ctx), "size 1 is negative"));
    assert_int_equal(onnx_check_shape(&node, "the shape", DTYPE_F32, 1, &height), STATUS_OK);
    end(1);
}

static void messages_have_the_sizes_of_the_first_run(void **state)
{
    begin(state);
    tensor_info_t info = {.dtype = DTYPE_F32, .rank = 2, .sizes = {batch, height}};
    assert_string_equal(onnx_brief(&node, &info), "f32[2,24]");
    end(0);
}

static void pieces_have_to_make_up_a_symbolic_size(void **state)
{
    begin(state);
    context_t *ctx = onnx.ctx;
    const int64_t pieces[] = {10, sym_subtract(ctx, height, 10)};
    assert_int_equal(onnx_check_pieces(&node, 2, pieces, height), STATUS_OK);
    assert_int_equal(onnx_check_pieces(&node, 2, (const int64_t[]){10, 13}, height),
                     STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(context_error(ctx), "pieces of 23 in sum, the size is 24"));
    end(2); /* guards H >= 10 and H != 23 */
}

/* ---- windows ---- */

static void set_window(Onnx__NodeProto *proto, Onnx__AttributeProto *attributes, int64_t *kernel,
                       int64_t *stride, const char *auto_pad)
{
    static Onnx__AttributeProto *list[3];
    for (int i = 0; i < 3; i++) {
        onnx__attribute_proto__init(&attributes[i]);
        list[i] = &attributes[i];
    }
    memcpy(&attributes[0].name, &(const char *){"kernel_shape"}, sizeof attributes[0].name);
    attributes[0].n_ints = 1;
    attributes[0].ints = kernel;
    memcpy(&attributes[1].name, &(const char *){"strides"}, sizeof attributes[1].name);
    attributes[1].n_ints = 1;
    attributes[1].ints = stride;
    memcpy(&attributes[2].name, &(const char *){"auto_pad"}, sizeof attributes[2].name);
    attributes[2].s.len = strlen(auto_pad);
    memcpy(&attributes[2].s.data, &auto_pad, sizeof auto_pad);
    onnx__node_proto__init(proto);
    proto->n_attribute = 3;
    proto->attribute = list;
    node.proto = proto;
}

/* Checks padding for ceil(size / stride) outputs. If it is odd, the end has one more, or the
 * beginning if is_lower. */
static void check_padding(const onnx_window_t *window, int64_t kernel, int64_t stride,
                          bool is_lower)
{
    for (int64_t size = 1; size < 40; size++) {
        const int64_t n_out = (size + stride - 1) / stride;
        const int64_t total = (n_out - 1) * stride + kernel - size;
        const int64_t all = total > 0 ? total : 0, before = is_lower ? all - all / 2 : all / 2;
        assert_int_equal(at(window->begin[0], size), before);
        assert_int_equal(at(window->end[0], size), all - before);
    }
}

static void windows_of_the_same_size_are_padded_for_every_size(void **state)
{
    static const int64_t kernels[] = {1, 3, 4, 9}, strides[] = {1, 2, 3, 5};
    Onnx__NodeProto proto;
    Onnx__AttributeProto attributes[3];
    for (int i = 0; i < 4 * 4 * 2; i++) {
        int64_t kernel = kernels[i / 2 % 4], stride = strides[i / 8];
        const bool is_lower = i % 2 == 1;
        onnx_window_t window;
        begin(state);
        const tensor_info_t x = {.dtype = DTYPE_F32, .rank = 3, .sizes = {batch, 4, height}};
        set_window(&proto, attributes, &kernel, &stride, is_lower ? "SAME_LOWER" : "SAME_UPPER");
        assert_int_equal(onnx_window(&node, &x, NULL, &window), STATUS_OK);
        check_padding(&window, kernel, stride, is_lower);
        end(0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_quotient_of_shapes_leaves_out_what_both_have),
        TEST(sizes_broadcast_as_numbers_do),
        TEST(a_negative_size_is_refused_with_its_hint),
        TEST(messages_have_the_sizes_of_the_first_run),
        TEST(pieces_have_to_make_up_a_symbolic_size),
        TEST(windows_of_the_same_size_are_padded_for_every_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
