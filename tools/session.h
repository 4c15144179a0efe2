/* What every command on a model begins with: a context, the model, its inputs, a mode. */
#ifndef TESSERA_TOOLS_SESSION_H
#define TESSERA_TOOLS_SESSION_H

#include "tools/mode.h"

/* Zeroed is the default. */
typedef struct session_options {
    model_options_t model;
    int64_t n_threads;
} session_options_t;

typedef struct session {
    context_t *ctx;
    model_t model;
    runner_t runner;
} session_t;

/* Options that commands on models share, for their tables: --batch, --threads, --seed, --input. */
args_option_t session_option_batch(session_options_t *options);
args_option_t session_option_threads(session_options_t *options);
args_option_t session_option_seed(session_options_t *options);
args_option_t session_option_input(session_options_t *options);

/* True if the spec can be a model; else tells so, as wrong usage of the command. */
bool session_check_spec(const char *command, const char *spec);

/* Makes the context, loads the model and fills its inputs; session_prepare adds the mode. What
 * fails is told on stderr as "tessera <command>: <message>", and false is given. */
bool session_begin(const char *command, const char *spec, const session_options_t *options,
                   session_t *out_session);
bool session_prepare(const char *command, session_t *session, run_mode_t mode);
void session_end(session_t *session);

/* A model of its own for another mode: a fresh context and a copy of the module. Inputs are shared,
 * and so are frozen modules, which nothing changes. */
bool session_clone(const char *command, const session_t *session, session_t *out_session);

/* "FILE: 1.2 MB" on stdout. */
void session_print_size(const char *path);

/* Wall clock. */
double session_now_ms(void);

/* Tells a failure; gives true if there is none. */
bool session_check(const char *command, context_t *ctx, status_t status);

#endif
