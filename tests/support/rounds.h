/* Prints graphs and parses their text again; compares results. */
#ifndef TESSERA_TESTS_ROUNDS_H
#define TESSERA_TESTS_ROUNDS_H

#include "graph/ir/graph.h"

/* Parses the text of a graph, and checks that the result prints the same text. The caller owns it.
 * Returns NULL on failure: the context has the message, and both texts are printed. */
graph_t *rounds_of_text(context_t *ctx, const graph_t *graph);

/* Returns a copy of the module with all graph methods parsed from their text; fails the test
 * otherwise. */
module_t *rounds_of_module(context_t *ctx, const module_t *module);

/* Appends a value as a literal, including the elements of tensors: <1 2.5>. */
void rounds_show(context_t *ctx, const datum_t *datum, text_t *text);

/* Like datum_equal, but floats and float tensors may differ by the relative or absolute
 * tolerance. */
bool rounds_near(context_t *ctx, const datum_t *a, const datum_t *b, double tolerance);

#endif
