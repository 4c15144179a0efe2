#include "tests/support/drawn.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/support.h"

static uint32_t seed_of(const char *key)
{
    uint32_t seed = UINT32_C(2166136261);
    for (; *key != '\0'; key++) seed = (seed ^ (uint8_t)*key) * UINT32_C(16777619);
    return seed;
}

static double draw(uint32_t seed, int64_t i)
{
    uint32_t bits = (uint32_t)i * UINT32_C(0x9E3779B9) + seed;
    bits ^= bits >> 16;
    bits *= UINT32_C(0x7FEB352D);
    bits ^= bits >> 15;
    bits *= UINT32_C(0x846CA68B);
    bits ^= bits >> 16;
    return ((double)(bits >> 8) - 8388608.0) / 8388608.0;
}

void drawn_fill(const char *key, double shift, double scale, int64_t n, float *out_elements)
{
    const uint32_t seed = seed_of(key);
    for (int64_t i = 0; i < n; i++) out_elements[i] = (float)(shift + scale * draw(seed, i));
}

static status_t fill_member(context_t *ctx, void *user, const char *path, module_t *module)
{
    (void)user;
    for (int i = 0; i < module_n_members(module); i++) {
        member_kind_t kind;
        const char *name = module_member(module, i, &kind);
        char full[256];
        void *bytes = NULL;
        if (kind != MEMBER_PARAMETER && kind != MEMBER_BUFFER) continue;
        tensor_t *tensor = kind == MEMBER_PARAMETER ? module_parameter(module, name)
                                                    : module_buffer(module, name);
        if (tensor == NULL || tensor_dtype(tensor) != DTYPE_F32) continue;
        snprintf(full, sizeof full, "%s%s%s", path, path[0] != 0 ? "." : "", name);
        const int64_t numel = tensor_numel(tensor);
        double shift = 0.0, scale = 0.05;
        if (tensor_rank(tensor) > 1)
            scale = sqrt(3.0 / (double)(numel / tensor_sizes(tensor)[0]));
        else if (strstr(name, "running_var") != NULL || strcmp(name, "weight") == 0)
            shift = 1.0;
        CHECK_OK(ctx, tensor_data_mutable(ctx, tensor, &bytes));
        drawn_fill(full, shift, scale, numel, bytes);
    }
    return STATUS_OK;
}

void drawn_weights(context_t *ctx, module_t *module)
{
    CHECK_OK(ctx, module_walk(ctx, module, fill_member, NULL));
}

tensor_t *drawn_integers(context_t *ctx, const char *key, int64_t limit, int rank,
                         const int64_t *sizes)
{
    tensor_t *x = NULL;
    void *bytes = NULL;
    CHECK_OK(ctx, tensor_empty(ctx, DTYPE_S64, rank, sizes, &x));
    CHECK_OK(ctx, tensor_data_mutable(ctx, x, &bytes));
    const int64_t numel = tensor_numel(x);
    float *drawn = malloc((size_t)numel * sizeof *drawn);
    assert_non_null(drawn);
    drawn_fill(key, 0.0, 1.0, numel, drawn);
    for (int64_t i = 0; i < numel; i++)
        ((int64_t *)bytes)[i] = (int64_t)(((double)drawn[i] + 1.0) / 2.0 * (double)limit);
    free(drawn);
    return x;
}

tensor_t *drawn_tensor(context_t *ctx, const char *key, int rank, const int64_t *sizes)
{
    tensor_t *x = NULL;
    void *data = NULL;
    CHECK_OK(ctx, tensor_empty(ctx, DTYPE_F32, rank, sizes, &x));
    CHECK_OK(ctx, tensor_data_mutable(ctx, x, &data));
    drawn_fill(key, 0.0, 1.0, tensor_numel(x), data);
    return x;
}

tensor_t *drawn_ramp(context_t *ctx, int number, int rank, const int64_t *sizes)
{
    tensor_t *x = NULL;
    void *data = NULL;
    CHECK_OK(ctx, tensor_empty(ctx, DTYPE_F32, rank, sizes, &x));
    CHECK_OK(ctx, tensor_data_mutable(ctx, x, &data));
    for (int64_t i = 0; i < tensor_numel(x); i++)
        ((float *)data)[i] = (float)((i * 97 + number * 31 + 11) % 251 - 125) / 128.0F;
    return x;
}
