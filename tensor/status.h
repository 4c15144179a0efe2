/* Status codes, and the macros that pass them on.
 *
 * Every fallible call returns status_t; the sentence that belongs to it is context_error(ctx).
 * Outputs are written only on success. Three classes are never mixed: an error of the user or of
 * data is a status with a message; a failed allocation is STATUS_OUT_OF_MEMORY; a broken invariant
 * of ours is INVARIANT, which aborts in debug builds only. */
#ifndef TESSERA_TENSOR_STATUS_H
#define TESSERA_TENSOR_STATUS_H

#include "tensor/api.h"

TESSERA_BEGIN

typedef enum status {
    STATUS_OK = 0,
    STATUS_INVALID_ARGUMENT, /* what was given breaks a rule */
    STATUS_UNSUPPORTED,      /* legal, but not to be had here; the message names what is missing */
    STATUS_OUT_OF_MEMORY,    /* the allocator refused */
    STATUS_IO,               /* the operating system refused a file */
    STATUS_CORRUPT,          /* a file's bytes contradict its format */
    STATUS_ONEDNN            /* oneDNN refused a call; the message has its status */
} status_t;

/* The code's name without prefix, "INVALID_ARGUMENT"; static. */
const char *status_name(status_t status) TESSERA_API(status_name);

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

TESSERA_END

#endif
