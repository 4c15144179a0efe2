/* Progress bar: one line on the terminal shows what a command does, and how much of it is done.
 *
 *   [=========               ] measure 12/30  00:04 left
 *
 * Shows nothing if stderr is not a terminal, after --quiet, and in the first 0.3 s. The line is
 * erased before anything else is printed. */
#ifndef TESSERA_TOOLS_SUPPORT_BAR_H
#define TESSERA_TOOLS_SUPPORT_BAR_H

#include <tessera.h>

/* Prints the line, unless it did so less than 0.1 s ago. total 0: unknown. more: text to append, or
 * NULL. `what` names the activity; all steps of one activity pass the same text. */
void bar_show(const char *what, int64_t done, int64_t total, const char *more);

/* Erases the line. */
void bar_end(void);

/* Shows the progress that calls on this context report. `what` precedes it, as in "mode frozen:
 * pass fold_batch_norm", unless it is NULL. The caller keeps the text alive. */
void bar_follow(context_t *ctx, const char *what);

/* For --quiet: from now on, nothing is shown. */
void bar_set_quiet(void);
bool bar_is_quiet(void);

#endif
