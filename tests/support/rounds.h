/* Graphs through their text and back, and what they give, compared. */
#ifndef TESSERA_TESTS_ROUNDS_H
#define TESSERA_TESTS_ROUNDS_H

#include "graph/ir/graph.h"

/* The text of a graph reads back as a graph of the same text, which is the caller's. NULL when not:
 * the context says why, and both texts are printed. */
graph_t *rounds_of_text(context_t *ctx, const graph_t *graph);

/* A copy of the module whose graph methods all went through their text; fails the test. */
module_t *rounds_of_module(context_t *ctx, const module_t *module);

/* Appends a value as the literal that it is, with the elements of tensors: <1 2.5>. */
void rounds_show(context_t *ctx, const datum_t *datum, text_t *text);

/* As datum_equal; floats and tensors of floats within the tolerance, relative and absolute. */
bool rounds_near(context_t *ctx, const datum_t *a, const datum_t *b, double tolerance);

#endif
