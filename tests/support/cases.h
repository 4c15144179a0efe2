/* The calls for which tests run each built-in operator: the files tests/ops/cases/<family>.txt.
 *
 *   file = {"#" comment | list}
 *   list = operator {operator} ":" {newline space case}
 *
 * Each operator gets the cases of all lists that name it. "~relu" names all operators with relu's
 * specification function, such as all activations. case.h describes a case. "attribute=*" stands
 * for a case for each name that the attribute may have. */
#ifndef TESSERA_TESTS_CASES_H
#define TESSERA_TESTS_CASES_H

#include "dispatch/opdef.h"

/* The cases of a built-in operator, NULL-terminated. The files are read at the first call. */
const char *const *cases_of(const opdef_t *op);

#endif
