/* How library code leaves a function that cannot go on. Users have context_fail. */
#ifndef TESSERA_TENSOR_STATUS_IMPL_H
#define TESSERA_TENSOR_STATUS_IMPL_H

#include "tensor/context.h"

/* Passes a failure on. */
#define TRY(expr)                                                                                  \
    do {                                                                                           \
        status_t try_status_ = (expr);                                                             \
        if (try_status_ != STATUS_OK) return try_status_;                                          \
    } while (0)

/* Leaves the function with a code and a message "<op>: <what was given>, <rule>". */
#define FAIL(ctx, code, ...) return context_fail((ctx), (code), __VA_ARGS__)

/* A rule about the user's arguments. */
#define REQUIRE(ctx, cond, ...)                                                                    \
    do {                                                                                           \
        if (!(cond)) return context_fail((ctx), STATUS_INVALID_ARGUMENT, __VA_ARGS__);             \
    } while (0)

/* A rule about ourselves. */
#ifdef NDEBUG
#define INVARIANT(cond) ((void)sizeof(!(cond)))
#else
#define INVARIANT(cond) ((cond) ? (void)0 : __builtin_trap())
#endif

#endif
