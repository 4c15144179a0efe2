// The smallest user of an installed Tessera in C++.
#include <cstdio>
#include <tessera.h>

int main()
{
    context_t *ctx = nullptr;
    if (context_create(nullptr, &ctx) != STATUS_OK) return 1;
    std::printf("C++: %d threads\n", context_threads(ctx));
    context_destroy(ctx);
    return 0;
}
