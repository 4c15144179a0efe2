#include "tests/support/run_primitive.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/support.h"

void run_primitive_begin(context_t *ctx, const onednn_problem_t *problem, run_primitive_t *out_run)
{
    *out_run = (run_primitive_t){.ctx = ctx};
    CHECK_OK(ctx, onednn_describe(ctx, problem, &out_run->primitive));
    for (int a = 0; a < ONEDNN_ARGUMENT_COUNT; a++) {
        int index = onednn_argument_index(out_run->primitive, a);
        size_t bytes = onednn_argument_bytes(out_run->primitive, a);
        if (index < 0) continue;
        assert_true(bytes > 0);
        out_run->bytes[index] = malloc(bytes);
        assert_non_null(out_run->bytes[index]);
        memset(out_run->bytes[index], 0x5a, bytes);
    }
}

void run_primitive_end(run_primitive_t *run)
{
    for (int i = 0; i < ONEDNN_MAX_ARGUMENTS; i++) free(run->bytes[i]);
    onednn_release(run->primitive);
}

static void *bytes_of(const run_primitive_t *run, int argument, tensor_info_t *out_info)
{
    int index = onednn_argument_index(run->primitive, argument);
    assert_true(index >= 0);
    CHECK_OK(run->ctx, onednn_query(run->ctx, run->primitive, argument, out_info));
    return run->bytes[index];
}

/* Advances an index by one in row-major order. */
static void next(const tensor_info_t *info, int64_t *index)
{
    for (int d = info->rank - 1; d >= 0; d--) {
        if (++index[d] < info->sizes[d]) return;
        index[d] = 0;
    }
}

static void store(const tensor_info_t *info, char *bytes, const double *values)
{
    int64_t index[TENSOR_MAX_RANK] = {0};
    for (int64_t i = 0; i < info_numel(info); i++) {
        int64_t at = format_offset(&info->format, info->sizes, index);
        dtype_store(info->dtype, bytes + at * (int64_t)dtype_size(info->dtype), values[i]);
        next(info, index);
    }
}

void run_primitive_put(run_primitive_t *run, int argument, const double *values)
{
    tensor_info_t info;
    char *bytes = bytes_of(run, argument, &info);
    memset(bytes, 0, onednn_argument_bytes(run->primitive, argument));
    store(&info, bytes, values);
}

void run_primitive_pack(run_primitive_t *run, int argument, const tensor_info_t *plain,
                        const double *values)
{
    int index = onednn_argument_index(run->primitive, argument);
    char *bytes = malloc(info_bytes(plain));
    assert_true(index >= 0);
    assert_non_null(bytes);
    store(plain, bytes, values);
    CHECK_OK(run->ctx,
             onednn_pack(run->ctx, run->primitive, argument, plain, bytes, run->bytes[index]));
    free(bytes);
}

void run_primitive_get(const run_primitive_t *run, int argument, double *out_values)
{
    tensor_info_t info;
    const char *bytes = bytes_of(run, argument, &info);
    int64_t index[TENSOR_MAX_RANK] = {0};
    for (int64_t i = 0; i < info_numel(&info); i++) {
        int64_t at = format_offset(&info.format, info.sizes, index);
        out_values[i] = dtype_load(info.dtype, bytes + at * (int64_t)dtype_size(info.dtype));
        next(&info, index);
    }
}

void run_primitive_copy(run_primitive_t *run, int argument, const run_primitive_t *from)
{
    int to_index = onednn_argument_index(run->primitive, argument);
    int from_index = onednn_argument_index(from->primitive, argument);
    size_t bytes = onednn_argument_bytes(run->primitive, argument);
    assert_true(to_index >= 0 && from_index >= 0);
    assert_int_equal(bytes, onednn_argument_bytes(from->primitive, argument));
    memcpy(run->bytes[to_index], from->bytes[from_index], bytes);
}

void run_primitive_go(run_primitive_t *run)
{
    void *scratch = NULL;
    CHECK_OK(run->ctx, context_scratch(run->ctx, onednn_scratch_bytes(run->primitive), &scratch));
    CHECK_OK(run->ctx, onednn_run(run->ctx, run->primitive, run->bytes, scratch));
}

void run_primitive_check(const run_primitive_t *run, int argument, const double *expected,
                         double tolerance)
{
    tensor_info_t info;
    bytes_of(run, argument, &info);
    int64_t n = info_numel(&info);
    double *values = malloc((size_t)n * sizeof *values);
    assert_non_null(values);
    run_primitive_get(run, argument, values);
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(values[i] - expected[i]) <= tolerance * (1.0 + fabs(expected[i]))))
            fail_msg("%s: element %lld of argument %d is %g, not %g",
                     onednn_implementation(run->primitive), (long long)i, argument, values[i],
                     expected[i]);
    free(values);
}

void run_primitive_draw(uint64_t seed, int64_t n, double *out_values)
{
    uint64_t state = seed * 2654435761u + 12345u;
    for (int64_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        out_values[i] = (double)((int64_t)(state >> 33) % 127 - 63) / 64.0;
    }
}
