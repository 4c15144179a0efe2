/* Progress bar: one line of the terminal shows what a command does and how far it is.
 *
 *   [=========               ] measure 12/30  00:04 left
 *
 * Nothing is shown if stderr is not a terminal, after --quiet, and in the first 0.3 s. The line is
 * erased before anything else is written. */
#ifndef TESSERA_TOOLS_BAR_H
#define TESSERA_TOOLS_BAR_H

#include <tessera.h>

/* Redraws the line if it is older than 0.1 s. total 0: unknown. more: text to append, or NULL. All
 * steps of one activity pass the same `what`. */
void bar_show(const char *what, int64_t done, int64_t total, const char *more);

/* Erases the line. */
void bar_end(void);

/* Shows the progress that calls on this context report, alone (`what` NULL) or prefixed: "mode
 * frozen: pass fold_bn". The caller keeps the text alive. */
void bar_follow(context_t *ctx, const char *what);

/* For --quiet: shows nothing from now on. */
void bar_set_quiet(void);
bool bar_is_quiet(void);

#endif
