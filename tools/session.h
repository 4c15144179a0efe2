/* What every command on a model begins with: a context, the model, its inputs, a mode. */
#ifndef TESSERA_TOOLS_SESSION_H
#define TESSERA_TOOLS_SESSION_H

#include "tools/mode.h"
#include "tools/options.h"

/* Zeroed is the default. */
typedef struct session_options {
    model_options_t model;
    int64_t n_threads;
} session_options_t;

typedef struct session {
    context_t *ctx;
    model_t model;
    runner_t runner;
    double load_ms;    /* making the context and loading the model */
    double prepare_ms; /* of session_prepare */
} session_t;

/* The options that every command on a model has, for its table. */
#define SESSION_OPTIONS(to)                                                                        \
    option_of(OPTION_BATCH, &(to).model.batch), option_of(OPTION_SHAPE, &(to).model.shapes),       \
        option_of(OPTION_INPUT, &(to).model.inputs), option_of(OPTION_SEED, &(to).model.seed),     \
        option_of(OPTION_THREADS, &(to).n_threads)

/* Of those that measure or run it, also how a frozen file is loaded. */
#define LOADING_OPTIONS(to)                                                                        \
    option_of(OPTION_LOAD, &(to).model.load), option_of(OPTION_UNCHECKED, &(to).model.is_unchecked)

/* True if the spec can be a model, and each option about it is right; else tells so, as wrong usage
 * of the command. */
bool session_check_model(const char *command, const char *spec, const session_options_t *options);

/* The mode of --mode, or for NULL the one that the model runs in when nothing is said. */
bool session_find_mode(const char *command, const char *spec, const char *text,
                       run_mode_t *out_mode);

/* The mode that a misspelt name may mean, or NULL. */
const char *session_nearest_mode(const char *name);

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
/* What this process has had of the processors, all threads together. */
double session_cpu_ms(void);

/* Tells a failure; gives true if there is none. */
bool session_check(const char *command, context_t *ctx, status_t status);

#endif
