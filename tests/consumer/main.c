/* A C program that uses an installed Tessera. Its own headers, macros and functions have names that
 * Tessera uses internally. */
#include "graph/graph.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tessera.h>

#if TESSERA_VERSION < 1000
#error "a version is at least 0.1.0"
#endif

int context_get(void);
int context_get(void)
{
    return 1;
}
const char *hash_put(void);
const char *hash_put(void)
{
    return "mine";
}

static int fail(context_t *ctx)
{
    fprintf(stderr, "%s\n", context_error(ctx));
    context_destroy(ctx);
    return 1;
}

int main(void)
{
    my_graph_t graph = {context_get()};
    my_tensor_t mine = {(int)strlen(hash_put())};
    context_t *ctx = NULL;
    tensor_t *x = NULL, *w = NULL, *y = NULL, *z = NULL;
    double sum = 0.0;
    if (tessera_version() != TESSERA_VERSION) FAIL();
    if (context_create(NULL, &ctx) != STATUS_OK) return fail(NULL);
    REQUIRE(TRY(graph.n_nodes) == 1 && mine.rank == 4);
    if (scope_begin(ctx) != STATUS_OK) return fail(ctx);
    tensor_full(ctx, DTYPE_F32, SHAPE(1, 8, 6, 6), 1.0, &x);
    tensor_full(ctx, DTYPE_F32, SHAPE(8, 8, 3, 3), -0.5, &w);
    op_conv2d(ctx, x, w, NULL, &(conv_attrs_t){.padding = {1, 1}}, &y);
    op_abs(ctx, y, &y);
    op_sum(ctx, y, 0, NULL, false, &z);
    tensor_item(ctx, z, &sum);
    if (scope_end(ctx) != STATUS_OK) return fail(ctx);
    context_destroy(ctx);
    /* Each of 8 output channels sums 8 input channels: 16 elements see 9 inputs, 16 see 6, 4 see
     * 4. */
    if (fabs(sum - 8 * 8 * 0.5 * (16 * 9 + 16 * 6 + 4 * 4)) > 1e-3) FAIL();
    printf("%s\n", tessera_version_text());
    return 0;
}
