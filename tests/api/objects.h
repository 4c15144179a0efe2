/* Arguments that are right for their types, to call any public function with. */
#ifndef TESSERA_TESTS_OBJECTS_H
#define TESSERA_TESTS_OBJECTS_H

#include <stdbool.h>

#include "tensor/context.h"
#include "tests/api/calls.h"

/* Items of each array. */
#define OBJECTS_ARRAY 1024

/* A directory for files, as the current one, and its removal. */
bool objects_begin(void);
void objects_end(void);

/* Makes all objects anew, in a process of its own. */
void objects_make(void);

/* That of all objects. */
context_t *objects_context(void);

/* One of the right arguments of a type; NULL where it has none. */
argument_t objects_pick(char kind, const char *type, unsigned choice);

/* Whether the type is that of an array whose number of items another argument says. */
bool objects_is_array(const char *type);

#endif
