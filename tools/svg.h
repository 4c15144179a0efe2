/* Pictures by Graphviz's command `dot`. */
#ifndef TESSERA_TOOLS_SVG_H
#define TESSERA_TOOLS_SVG_H

#include <tessera.h>

/* Draws a graph in Graphviz's language into an SVG file. UNSUPPORTED when there is no `dot` in
 * PATH; IO when it fails, whose own words are on stderr. */
status_t svg_write(context_t *ctx, const char *dot, const char *path);

#endif
