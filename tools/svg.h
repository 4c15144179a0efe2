/* Draws pictures with Graphviz's command `dot`. */
#ifndef TESSERA_TOOLS_SVG_H
#define TESSERA_TOOLS_SVG_H

#include <tessera.h>

/* Writes a graph in Graphviz's language as an SVG file. UNSUPPORTED: no `dot` in PATH. IO: dot
 * fails; it reports why on stderr. */
status_t svg_write(context_t *ctx, const char *dot, const char *path);

#endif
