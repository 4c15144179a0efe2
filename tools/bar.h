/* What a command is doing and how far it is, on one line of the terminal:
 *
 *   [=========               ] measure 12/30  00:04 left
 *
 * Nothing is drawn where stderr is no terminal, after --quiet, and in the first moments of the
 * program. The line is taken away before anything else is written. */
#ifndef TESSERA_TOOLS_BAR_H
#define TESSERA_TOOLS_BAR_H

#include <tessera.h>

/* Draws it, if some time has passed since it was drawn last. total 0: not known. more: what is told
 * beside it, or NULL. Who shows the steps of one thing gives it the same name. */
void bar_show(const char *what, int64_t done, int64_t total, const char *more);

/* Takes the line away. */
void bar_end(void);

/* Shows what the context's calls tell by progress_tell, while nothing is shown of its own (`what`
 * NULL), or as a part of that: "mode frozen: pass fold_bn". The text has to stay. */
void bar_follow(context_t *ctx, const char *what);

/* --quiet: nothing is shown. */
void bar_set_quiet(void);
bool bar_is_quiet(void);

#endif
