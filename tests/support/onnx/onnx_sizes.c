#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "freeze/freeze.h"
#include "tests/support/onnx/onnx_sizes.h"

#define MAX_ELEMENTS 65536

const char *sizes_file = "test_onnx_sizes.tessera";

int sizes_remove_file(void **state)
{
    (void)state;
    remove(sizes_file);
    return 0;
}

/* ---- running ---- */

double sizes_element(int64_t i)
{
    return (double)((i * 37 + 11) % 64) / 8 - 4;
}

static float elements[MAX_ELEMENTS];

static void check_elements(context_t *ctx, const sizes_trial_t *trial, const int64_t *sizes,
                           const tensor_t *y)
{
    int64_t shape[TENSOR_MAX_RANK], index[TENSOR_MAX_RANK] = {0}, i = 0;
    int rank = trial->rank;
    memcpy(shape, sizes, (size_t)rank * sizeof *shape);
    if (trial->shape != NULL) trial->shape(sizes, &rank, shape);
    assert_int_equal(tensor_rank(y), rank);
    for (int d = 0; d < rank; d++) assert_int_equal(tensor_sizes(y)[d], shape[d]);
    float *got = malloc((size_t)tensor_numel(y) * sizeof *got);
    assert_non_null(got);
    CHECK_OK(ctx, tensor_read(ctx, y, got, (size_t)tensor_numel(y) * sizeof *got));
    do {
        double wanted = trial->wanted(sizes, index);
        if (fabs((double)got[i] - wanted) > 1e-4 * (1 + fabs(wanted))) {
            print_error("first size %lld, element %lld: %g, must be %g\n", (long long)sizes[0],
                        (long long)i, (double)got[i], wanted);
            fail();
        }
        i++;
    } while (shape_next(rank, shape, index));
    free(got);
}

status_t sizes_run_at(context_t *ctx, module_t *model, int rank, const int64_t *sizes,
                      tensor_t **out)
{
    tensor_t *x = NULL;
    int64_t numel = 1;
    for (int d = 0; d < rank; d++) numel *= sizes[d];
    assert_in_range(numel, 1, MAX_ELEMENTS);
    for (int64_t i = 0; i < numel; i++) elements[i] = (float)sizes_element(i);
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, rank, sizes, elements, &x));
    status_t status = module_forward(ctx, model, x, out);
    tensor_release(x);
    return status;
}

bool sizes_next_form(context_t *ctx, int form, module_t **model)
{
    module_t *next = NULL;
    if (form == 1) CHECK_OK(ctx, freeze(ctx, *model, NULL, &next));
    if (form == 2) {
        CHECK_OK(ctx, freeze_save(ctx, *model, sizes_file));
        CHECK_OK(ctx, freeze_load(ctx, sizes_file, &next));
    }
    if (form > 0) {
        module_release(*model);
        *model = next;
    }
    return form < 3;
}

void sizes_check_at(context_t *ctx, const sizes_trial_t *trial, int n, const int64_t (*sizes)[4])
{
    for (int base = 0; base < n; base++) {
        onnx_shape_t shape = {"x", trial->rank, sizes[base]};
        module_t *model = NULL;
        CHECK_OK(ctx,
                 load_model_with(ctx, &(onnx_options_t){.n_shapes = 1, .shapes = &shape}, &model));
        for (int form = 0; sizes_next_form(ctx, form, &model); form++) {
            for (int i = 0; i < n; i++) {
                tensor_t *y = NULL;
                CHECK_OK(ctx, sizes_run_at(ctx, model, trial->rank, sizes[i], &y));
                check_elements(ctx, trial, sizes[i], y);
                tensor_release(y);
            }
        }
        module_release(model);
    }
}

void sizes_check_refused_at(context_t *ctx, int rank, int n, const int64_t (*sizes)[4],
                            const char *words)
{
    onnx_shape_t shape = {"x", rank, sizes[0]};
    module_t *model = NULL;
    tensor_t *y = NULL;
    CHECK_OK(ctx, load_model_with(ctx, &(onnx_options_t){.n_shapes = 1, .shapes = &shape}, &model));
    for (int form = 0; sizes_next_form(ctx, form, &model); form++) {
        CHECK_OK(ctx, sizes_run_at(ctx, model, rank, sizes[0], &y));
        tensor_release(y);
        y = NULL;
        for (int i = 1; i < n; i++)
            CHECK_FAILS(ctx, sizes_run_at(ctx, model, rank, sizes[i], &y), STATUS_INVALID_ARGUMENT,
                        words);
    }
    module_release(model);
}

/* ---- making ---- */

void sizes_vector(const char *name, int n, const int64_t *values)
{
    maker_initializer(&maker, name, INT64, 1, (int64_t[]){n}, values, (size_t)n * sizeof *values);
}

void sizes_number(const char *name, int64_t value)
{
    maker_initializer(&maker, name, INT64, 0, NULL, &value, sizeof value);
}

void sizes_weight(const char *name, int rank, const int64_t *sizes)
{
    float weight[1024];
    int64_t numel = 1;
    for (int d = 0; d < rank; d++) numel *= sizes[d];
    assert_in_range(numel, 1, 1024);
    for (int64_t i = 0; i < numel; i++) weight[i] = (float)sizes_element(i);
    maker_initializer(&maker, name, FLOAT, rank, sizes, weight, (size_t)numel * sizeof *weight);
}

void sizes_numbers(void)
{
    sizes_number("zero", 0);
    sizes_number("one", 1);
    sizes_vector("v0", DIMS(0));
    sizes_vector("v1", DIMS(1));
}

void sizes_size_of(const char *of, const char *shape, const char *dim, const char *out)
{
    char inputs[64];
    static char kept[8][64]; /* the maker borrows its texts */
    static int n;
    snprintf(inputs, sizeof inputs, "%s %s", shape, dim);
    char *place = strcpy(kept[n++ % 8], inputs);
    maker_node(&maker, "Shape", "", of, shape);
    maker_node(&maker, "Gather", "", place, out);
}

void sizes_open(const char *const *names)
{
    for (int d = 0; d < 4; d++)
        if (names[d] != NULL) maker_open(&maker, d, names[d]);
}
