/* How a function that gives a status leaves when it cannot go on. Macros alone: the library's code
 * has them by tensor/status_impl.h, the command and the programs in perf beside tessera.h. Users
 * have context_fail. */
#ifndef TESSERA_TENSOR_TRY_IMPL_H
#define TESSERA_TENSOR_TRY_IMPL_H

/* Passes a failure on. */
#define TRY(expr)                                                                                  \
    do {                                                                                           \
        status_t try_status_ = (expr);                                                             \
        if (try_status_ != STATUS_OK) return try_status_;                                          \
    } while (0)

/* Leaves the function with a code and a message "<op>: <what was given>, <rule>". */
#define FAIL(ctx, code, ...) return context_fail((ctx), (code), __VA_ARGS__)

/* A rule about what the user gave. */
#define REQUIRE(ctx, cond, ...)                                                                    \
    do {                                                                                           \
        if (!(cond)) return context_fail((ctx), STATUS_INVALID_ARGUMENT, __VA_ARGS__);             \
    } while (0)

#endif
