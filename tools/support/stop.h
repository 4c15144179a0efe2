/* Ends a command early: on Ctrl-C, and at limits that every command can have.
 *
 *   --limit-memory 512M    for each context
 *   --limit-time 10        seconds, for the command
 *   --limit-iterations N   for loops of the model, in each call
 *   --no-cache             contexts have no store of packed weights
 *
 * Ctrl-C and the time limit cancel the running calls of all contexts. The process exits at once if
 * the command does not end shortly after that, or on a second Ctrl-C. Files that it was writing
 * keep their old contents. */
#ifndef TESSERA_TOOLS_SUPPORT_STOP_H
#define TESSERA_TOOLS_SUPPORT_STOP_H

#include <tessera.h>

#include "tools/support/args.h"

/* Exit code after Ctrl-C: 128 plus the signal's number, as in shells. */
#define EXIT_INTERRUPTED 130

/* Options that the parser adds to every command. */
#define STOP_OPTIONS 4
extern const args_option_t stop_options[STOP_OPTIONS];

/* Call stop_on_interrupt when the program starts, and stop_at_limits after parsing the options. */
void stop_on_interrupt(void);
void stop_at_limits(const char *command);

/* Creates a context with the limits; Ctrl-C cancels it until it is destroyed. */
status_t stop_create(const context_options_t *options, context_t **out_ctx);
void stop_destroy(context_t *ctx);

/* If the command is being stopped, prints the reason on stderr and returns true. */
bool stop_tell(const char *message);

/* Returns the exit code of the program, after the command has returned `code`. */
int stop_exit_code(int code);

#endif
