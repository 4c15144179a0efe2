/* What ends a command early: Ctrl-C, and the limits that every command has.
 *
 *   --limit-memory 512M    of each context
 *   --limit-time 10        seconds, of the whole command
 *   --limit-iterations N   of loops, in each call
 *
 * Ctrl-C, or the end of the time, cancels what the contexts run. A command that has not ended a
 * moment later, or gets Ctrl-C twice, is ended on the spot: files that it was writing are as they
 * were before. */
#ifndef TESSERA_TOOLS_STOP_H
#define TESSERA_TOOLS_STOP_H

#include <tessera.h>

#include "tools/args.h"

/* Of a command that Ctrl-C ended: 128 and the signal's number, as shells have it. */
#define EXIT_INTERRUPTED 130

/* The options, for the parser of every command. */
#define STOP_OPTIONS 3
extern const args_option_t stop_options[STOP_OPTIONS];

/* At the program's begin, and when the options of a command were read. */
void stop_on_interrupt(void);
void stop_at_limits(const char *command);

/* Makes a context with the limits, which Ctrl-C cancels until it is destroyed. */
status_t stop_create(const context_options_t *options, context_t **out_ctx);
void stop_destroy(context_t *ctx);

/* Says on stderr why the command ends, if it is being stopped; false if it is not. */
bool stop_tell(const char *message);

/* What the program exits with, when the command gave `code`. */
int stop_exit_code(int code);

#endif
