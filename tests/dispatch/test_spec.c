#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dispatch/opdef.h"

static tensor_info_t dense(dtype_t dtype, int rank, const int64_t *sizes, const int64_t *strides)
{
    tensor_info_t info = {.dtype = dtype, .rank = rank, .format = {.kind = FORMAT_STRIDED}};
    info.format.rank = (uint8_t)rank;
    for (int d = 0; d < rank; d++) info.sizes[d] = sizes[d];
    for (int d = 0; d < rank; d++) info.format.strides[d] = strides[d];
    return info;
}

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

static void an_element_is_found_by_its_strides(void **state)
{
    (void)state;
    const float numbers[6] = {0, 1, 2, 3, 4, 5};
    tensor_info_t rows = dense(DTYPE_F32, 2, DIMS(2, 3), DIMS(3, 1));
    tensor_info_t columns = dense(DTYPE_F32, 2, DIMS(3, 2), DIMS(1, 3));
    tensor_info_t backwards = dense(DTYPE_F32, 1, DIMS(6), DIMS(-1));
    const tensor_info_t *in[] = {&rows, &columns, &backwards};
    const void *data[] = {numbers, numbers, numbers + 5};
    spec_call_t call = {.n_in = 3, .in = in, .data = data};
    assert_true(spec_at(&call, 0, DIMS(1, 2)) == 5);
    assert_true(spec_at(&call, 0, DIMS(0, 1)) == 1);
    assert_true(spec_at(&call, 1, DIMS(2, 1)) == 5);
    assert_true(spec_at(&call, 1, DIMS(1, 0)) == 1);
    assert_true(spec_at(&call, 2, DIMS(4)) == 1);
}

static void a_number_of_rank_0_is_its_one_element(void **state)
{
    (void)state;
    const int64_t number = -7;
    tensor_info_t info = dense(DTYPE_S64, 0, NULL, NULL);
    const tensor_info_t *in[] = {&info};
    const void *data[] = {&number};
    spec_call_t call = {.n_in = 1, .in = in, .data = data};
    assert_true(spec_at(&call, 0, NULL) == -7);
    assert_true(spec_at_broadcast(&call, 0, 3, DIMS(4, 5, 6)) == -7);
}

static void broadcasting_drops_leading_dims_and_reads_index_0_of_sizes_1(void **state)
{
    (void)state;
    const float numbers[6] = {0, 1, 2, 3, 4, 5};
    tensor_info_t same = dense(DTYPE_F32, 2, DIMS(2, 3), DIMS(3, 1));
    tensor_info_t row = dense(DTYPE_F32, 1, DIMS(3), DIMS(1));
    tensor_info_t column = dense(DTYPE_F32, 2, DIMS(2, 1), DIMS(3, 100));
    const tensor_info_t *in[] = {&same, &row, &column};
    const void *data[] = {numbers, numbers, numbers};
    spec_call_t call = {.n_in = 3, .in = in, .data = data};
    assert_true(spec_at_broadcast(&call, 0, 2, DIMS(1, 1)) == 4);
    assert_true(spec_at_broadcast(&call, 0, 4, DIMS(8, 9, 1, 1)) == 4);
    assert_true(spec_at_broadcast(&call, 1, 2, DIMS(1, 2)) == 2);
    assert_true(spec_at_broadcast(&call, 2, 2, DIMS(1, 2)) == 3);
}

static void numbers_are_rounded_otherwise_where_a_probe_shakes_them(void **state)
{
    (void)state;
    spec_probe_t probe = {.shake = 0.25, .seed = 1};
    spec_call_t call = {.n_in = 0};
    assert_true(spec_rounding(&call, 0, 8) == 0);
    call.probe = &probe;
    double first = spec_rounding(&call, 0, 8), second = spec_rounding(&call, 1, 8);
    assert_true(first != 0 && first >= -2 && first <= 2);
    assert_true(second != 0 && second >= -2 && second <= 2);
    assert_true(first != second);
    assert_true(spec_rounding(&call, 0, 8) == first);
    assert_true(spec_rounding(&call, 0, 16) == 2 * first);
    probe.seed = 2;
    assert_true(spec_rounding(&call, 0, 8) != first);
}

static void post_ops_apply_in_order_and_take_operands_in_turn(void **state)
{
    (void)state;
    const float residual[6] = {10, 20, 30, 40, 50, 60}, scale[3] = {2, 3, -4};
    tensor_info_t full = dense(DTYPE_F32, 2, DIMS(2, 3), DIMS(3, 1));
    tensor_info_t row = dense(DTYPE_F32, 1, DIMS(3), DIMS(1));
    const tensor_info_t *in[] = {&row, &full, &row, &full};
    const void *data[] = {NULL, residual, scale, residual};
    spec_call_t call = {.n_in = 4, .in = in, .data = data, .out = &full};
    const int64_t *index = DIMS(1, 2);
    post_ops_t post = {4,
                       {{.kind = POST_SUM},
                        {.kind = POST_ELTWISE, .eltwise = ELTWISE_CLAMP, .alpha = 0, .beta = 50},
                        {.kind = POST_MUL},
                        {.kind = POST_ADD}}};
    assert_true(spec_post(&call, &post, 1, 5, index) == -140);
    post.op[1] = (post_op_t){.kind = POST_MUL};
    post.op[2] = (post_op_t){.kind = POST_ELTWISE, .eltwise = ELTWISE_CLAMP, .beta = 50};
    assert_true(spec_post(&call, &post, 1, 5, index) == 60);
    assert_true(spec_post(&call, &(post_ops_t){0}, 1, 5, index) == 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_element_is_found_by_its_strides),
        cmocka_unit_test(a_number_of_rank_0_is_its_one_element),
        cmocka_unit_test(broadcasting_drops_leading_dims_and_reads_index_0_of_sizes_1),
        cmocka_unit_test(numbers_are_rounded_otherwise_where_a_probe_shakes_them),
        cmocka_unit_test(post_ops_apply_in_order_and_take_operands_in_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
