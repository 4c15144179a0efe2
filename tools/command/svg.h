/* Draws graphs with Graphviz's command `dot`. */
#ifndef TESSERA_TOOLS_COMMAND_SVG_H
#define TESSERA_TOOLS_COMMAND_SVG_H

#include <tessera.h>

/* Writes a graph in Graphviz's language as an SVG file. UNSUPPORTED: `dot` is not in PATH. IO: dot
 * fails; it has then printed the reason on stderr. */
status_t svg_write(context_t *ctx, const char *dot, const char *path);

#endif
