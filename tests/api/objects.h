/* Valid arguments of every type, to call any public function with. */
#ifndef TESSERA_TESTS_OBJECTS_H
#define TESSERA_TESTS_OBJECTS_H

#include <stdbool.h>

#include "tensor/context.h"
#include "tests/api/calls.h"

/* Items of each array. */
#define OBJECTS_ARRAY 1024

/* Creates a directory for files and makes it the current one; removes it. */
bool objects_begin(void);
void objects_end(void);

/* Makes all objects. Child processes get copies. */
void objects_make(void);

/* Writes the files again, which calls may have replaced. */
void objects_reset(void);

/* Makes a call in the forward of a module that is traced. Returns the status of the trace. */
int objects_trace(const call_t *call, const argument_t *arguments);

/* Returns the context of the objects. */
context_t *objects_context(void);

/* Returns one of the valid arguments of a type, or NULL if there is none. */
argument_t objects_pick(char kind, const char *type, unsigned choice);

/* Returns true if the type is an array whose length is another argument. */
bool objects_is_array(const char *type);

#endif
