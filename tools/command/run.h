/* The part of tessera run that follows the parsing of its command line.
 *
 * The folder tools/command contains the main function, and the commands of one or two sources. */
#ifndef TESSERA_TOOLS_COMMAND_RUN_H
#define TESSERA_TOOLS_COMMAND_RUN_H

#include "tools/support/session.h"

typedef struct run_options {
    session_options_t session;
    const char *mode, *output_dir, *compare;
    double tolerance;
    int64_t n_verify;
    bool has_stats;
} run_options_t;

/* Runs a prepared session, and shows, saves or checks its outputs as the options say. Returns the
 * exit code: EXIT_DIFFERS if outputs differ from saved ones, or operators from specifications. */
int run_session(session_t *session, const run_options_t *options);

#endif
