/* The smallest user of an installed Tessera in C. */
#include <stdio.h>
#include <tessera.h>

int main(void)
{
    context_t *ctx = NULL;
    if (context_create(NULL, &ctx) != STATUS_OK) return 1;
    printf("C: %d threads\n", context_threads(ctx));
    context_destroy(ctx);
    return 0;
}
