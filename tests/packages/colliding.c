/* A program, in C and in C++, with names of its own that are also in tessera.h. It uses the header
 * in which every name has a prefix. */
#include <stdio.h>
#include <string.h>

#define SHAPE 7
#define FAIL(text) return puts(text), 1
#define OP_MAX_INPUTS "mine"

typedef struct context {
    int id;
} context_t;
typedef double tensor_t;
typedef enum { STATUS_OK = 5, DTYPE_F32 = 6, LAYOUT_DENSE } status_t;
struct tensor {
    context_t context;
};

static status_t op_relu(context_t *ctx, tensor_t x)
{
    return ctx->id == SHAPE && x > 0 ? STATUS_OK : (status_t)DTYPE_F32;
}

static int context_create(void)
{
    return (int)strlen(OP_MAX_INPUTS);
}

#include <tessera_prefixed.h>

int main(void)
{
    struct tensor mine = {{context_create() + 3}};
    const int64_t sizes[] = {2, 3};
    tessera_context_t *ctx = NULL;
    tessera_tensor_t *x = NULL, *y = NULL;
    double sum = 0;

    if (op_relu(&mine.context, 1.0) != STATUS_OK) FAIL("its own names");
    if (tessera_context_create(NULL, &ctx) != TESSERA_STATUS_OK) FAIL("no context");
    tessera_scope_begin(ctx);
    tessera_tensor_full(ctx, TESSERA_DTYPE_F32, 2, sizes, -4.0, &x);
    tessera_op_abs(ctx, x, &y);
    tessera_op_sum(ctx, y, 0, NULL, false, &y);
    tessera_tensor_item(ctx, y, &sum);
#ifndef __cplusplus
    tessera_tensor_full(ctx, TESSERA_DTYPE_F32, TESSERA_SHAPE(1, 2), 1.0, &x);
    tessera_conv_attrs_t attrs = {.padding = {1, 1}};
    if (attrs.padding[1] != 1 || tessera_tensor_sizes(x)[1] != 2) FAIL("shapes");
#endif
    tessera_status_t status = tessera_scope_end(ctx);
    if (status != TESSERA_STATUS_OK) FAIL(tessera_context_error(ctx));
    tessera_context_destroy(ctx);
    if (sum != 24 || tessera_version() != TESSERA_VERSION) FAIL("another sum");
    puts("ok");
    return 0;
}
