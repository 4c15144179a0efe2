// A C++ program with an installed Tessera, and with its own headers and macros.
#include "graph/graph.h"
#include "tensor/tensor.h"

#include <cstdio>
#include <tessera.h>

int main()
{
    context_t *ctx = nullptr;
    tensor_t *x = nullptr, *y = nullptr;
    const int64_t sizes[] = {2, 3};
    double value = 0.0;
    if (tessera_version() != TESSERA_VERSION) FAIL();
    if (context_create(nullptr, &ctx) != STATUS_OK || scope_begin(ctx) != STATUS_OK) return 1;
    tensor_full(ctx, DTYPE_F32, 2, sizes, -4.0, &x);
    op_abs(ctx, x, &y);
    op_sum(ctx, y, 0, nullptr, false, &y);
    tensor_item(ctx, y, &value);
    status_t status = scope_end(ctx);
    context_destroy(ctx);
    if (status != STATUS_OK || value != 24.0) FAIL();
    std::printf("%s\n", tessera_version_text());
    return 0;
}
