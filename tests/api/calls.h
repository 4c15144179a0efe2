/* A table of all public functions, each of which can be called with arguments from an array.
 * make_calls.awk writes the table from tests/packages/abi.txt. */
#ifndef TESSERA_TESTS_CALLS_H
#define TESSERA_TESTS_CALLS_H

#include <stdbool.h>
#include <stdint.h>

typedef union argument {
    void *p;
    int64_t i;
    double d;
} argument_t;

#define CALL_MAX_ARGUMENTS 16

/* kind: p pointer, i integer, e enumerator, b bool, d double, f function. */
typedef struct call {
    const char *name;
    int (*run)(const argument_t *arguments); /* returns the status, or 0 */
    bool has_status;
    int n;
    struct {
        char kind;
        const char *type, *name;
    } takes[CALL_MAX_ARGUMENTS];
} call_t;

extern const call_t calls[];
extern const int n_calls;

#endif
