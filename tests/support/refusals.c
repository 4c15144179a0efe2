#include "tests/support/refusals.h"

int refusals_garbage;

void check_refused(const context_t *ctx, status_t status, const void *out, const char *call)
{
    if (status != STATUS_OK && out == NULL && context_status(ctx) == status) return;
    print_error("%s gave %s, its output is %p\n", call, status_name(status), out);
    fail();
}
