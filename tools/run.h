/* The part of tessera run behind its command line. */
#ifndef TESSERA_TOOLS_RUN_H
#define TESSERA_TOOLS_RUN_H

#include "tools/session.h"

typedef struct run_options {
    session_options_t session;
    const char *mode, *output_dir, *compare;
    double tolerance;
    int64_t n_verify;
    bool has_stats;
} run_options_t;

/* Runs a session that is prepared, does with its outputs what the options say, and gives the exit
 * code: EXIT_DIFFERS where they differ from those saved, or an operator from its specification. */
int run_session(session_t *session, const run_options_t *options);

#endif
