/* How functions of the command, and of the programs in perf, leave when they cannot go on. */
#ifndef TESSERA_TOOLS_TRY_H
#define TESSERA_TOOLS_TRY_H

#include <tessera.h>

/* Passes a failure on. */
#define TRY(expr)                                                                                  \
    do {                                                                                           \
        status_t try_status_ = (expr);                                                             \
        if (try_status_ != STATUS_OK) return try_status_;                                          \
    } while (0)

/* Leaves the function with a code and a message "<command>: <what was given>, <rule>". */
#define FAIL(ctx, code, ...) return context_fail((ctx), (code), __VA_ARGS__)

/* A rule about what the user gave. */
#define REQUIRE(ctx, cond, ...)                                                                    \
    do {                                                                                           \
        if (!(cond)) return context_fail((ctx), STATUS_INVALID_ARGUMENT, __VA_ARGS__);             \
    } while (0)

#endif
