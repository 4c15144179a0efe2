/* Macros that return early from a function that returns a status. Library code includes them
 * through tensor/status_impl.h; the command-line program and the programs in perf include this file
 * and tessera.h.
 *
 * The folder tensor/base contains what needs no context: macros of all headers, status codes,
 * reference counts, the version. */
#ifndef TESSERA_TENSOR_BASE_TRY_IMPL_H
#define TESSERA_TENSOR_BASE_TRY_IMPL_H

/* Returns from the function if expr fails. */
#define TRY(expr)                                                                                  \
    do {                                                                                           \
        status_t try_status_ = (expr);                                                             \
        if (try_status_ != STATUS_OK) return try_status_;                                          \
    } while (0)

/* Runs `undo` and returns from the function if expr fails: TRY_OR(read(file), file_close(file)) */
#define TRY_OR(expr, undo)                                                                         \
    do {                                                                                           \
        const status_t try_status_ = (expr);                                                       \
        if (try_status_ != STATUS_OK) {                                                            \
            undo;                                                                                  \
            return try_status_;                                                                    \
        }                                                                                          \
    } while (0)

/* Ends a function that makes `value`: writes it to *out, or runs `undo` if the status is a failure.
 * Returns the status. */
#define GIVE(status, out, value, undo)                                                             \
    do {                                                                                           \
        TRY_OR(status, undo);                                                                      \
        *(out) = (value);                                                                          \
        return STATUS_OK;                                                                          \
    } while (0)

/* Returns the status of expr, after `cleanup`. */
#define FINISH(expr, cleanup)                                                                      \
    do {                                                                                           \
        const status_t try_status_ = (expr);                                                       \
        cleanup;                                                                                   \
        return try_status_;                                                                        \
    } while (0)

/* Returns with a code and a message "<op>: <what was given>, <rule>". */
#define FAIL(ctx, code, ...) return context_fail((ctx), (code), __VA_ARGS__)

/* Returns INVALID_ARGUMENT unless the argument satisfies a condition. */
#define REQUIRE(ctx, cond, ...)                                                                    \
    do {                                                                                           \
        if (!(cond)) return context_fail((ctx), STATUS_INVALID_ARGUMENT, __VA_ARGS__);             \
    } while (0)

#endif
