/* Ends a command early: on Ctrl-C, and at the limits that every command has.
 *
 *   --limit-memory 512M    of each context
 *   --limit-time 10        seconds, of the whole command
 *   --limit-iterations N   of loops, in each call
 *
 * Ctrl-C or the time limit cancels the running calls of all contexts. If the command has not ended
 * shortly after, or on a second Ctrl-C, the process exits at once. Files that it was writing keep
 * their old content. */
#ifndef TESSERA_TOOLS_STOP_H
#define TESSERA_TOOLS_STOP_H

#include <tessera.h>

#include "tools/args.h"

/* Exit code after Ctrl-C: 128 plus the signal's number, as in shells. */
#define EXIT_INTERRUPTED 130

/* Options that the parser adds to every command. */
#define STOP_OPTIONS 3
extern const args_option_t stop_options[STOP_OPTIONS];

/* Call stop_on_interrupt when the program starts, and stop_at_limits after parsing the options. */
void stop_on_interrupt(void);
void stop_at_limits(const char *command);

/* Creates a context with the limits; Ctrl-C cancels it until it is destroyed. */
status_t stop_create(const context_options_t *options, context_t **out_ctx);
void stop_destroy(context_t *ctx);

/* Reports on stderr why the command is being stopped; returns false if it is not. */
bool stop_tell(const char *message);

/* Returns the program's exit code when the command returned `code`. */
int stop_exit_code(int code);

#endif
