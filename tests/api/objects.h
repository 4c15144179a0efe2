/* Valid arguments of every type, with which tests can call any public function. */
#ifndef TESSERA_TESTS_OBJECTS_H
#define TESSERA_TESTS_OBJECTS_H

#include <stdbool.h>

#include "tensor/context.h"
#include "tests/api/calls.h"

/* Length of each array argument. */
#define OBJECTS_ARRAY 1024

/* objects_begin creates a directory for files and makes it the current one; objects_end removes
 * it. */
bool objects_begin(void);
void objects_end(void);

/* Makes all objects. Child processes get copies. */
void objects_make(void);

/* Writes those files again that a call has replaced or removed. */
void objects_reset(void);

/* Makes a call while a method is traced. Returns the status of the trace. */
int objects_trace(const call_t *call, const argument_t *arguments);

/* Returns the context of the objects. */
context_t *objects_context(void);

/* Returns one of the valid arguments of a type, or NULL if there is none. */
argument_t objects_pick(char kind, const char *type, unsigned choice);

/* Returns true if the type is an array whose length is another argument. */
bool objects_is_array(const char *type);

#endif
