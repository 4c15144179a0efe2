/* All commands on a model begin with a session: a context, the model, its inputs and a mode. */
#ifndef TESSERA_TOOLS_SUPPORT_SESSION_H
#define TESSERA_TOOLS_SUPPORT_SESSION_H

#include "tools/support/mode.h"
#include "tools/support/options.h"

/* Zeros are the defaults. */
typedef struct session_options {
    model_options_t model;
    int64_t n_threads;
} session_options_t;

typedef struct session {
    context_t *ctx;
    model_t model;
    runner_t runner;
    double load_ms;    /* time to create the context and load the model */
    double prepare_ms; /* time of session_prepare */
} session_t;

/* Entries of the option table that all commands on a model have. */
#define SESSION_OPTIONS(to)                                                                        \
    option_of(OPTION_BATCH, &(to).model.batch), option_of(OPTION_SHAPE, &(to).model.shapes),       \
        option_of(OPTION_INPUT, &(to).model.inputs), option_of(OPTION_SEED, &(to).model.seed),     \
        option_of(OPTION_THREADS, &(to).n_threads)

/* Entries for commands that run a model: how to load a frozen file. */
#define LOADING_OPTIONS(to)                                                                        \
    option_of(OPTION_LOAD, &(to).model.load), option_of(OPTION_UNCHECKED, &(to).model.is_unchecked)

/* Returns true if spec has the form of a model and the options fit it. Otherwise reports a usage
 * error. */
bool session_check_model(const char *command, const char *spec, const session_options_t *options);

/* Parses --mode. If text is NULL, returns the default mode of the model. */
bool session_find_mode(const char *command, const char *spec, const char *text,
                       run_mode_t *out_mode);

/* Returns the mode that is closest to a misspelt name, or NULL. */
const char *session_nearest_mode(const char *name);

/* Sets the options so that an ONNX file is loaded as a frozen module, if the command runs it in
 * mode frozen only. */
void session_only_mode(session_options_t *options, run_mode_t mode);

/* Creates the context, loads the model and fills its inputs. session_prepare then prepares the
 * mode. On failure prints "tessera <command>: <message>" on stderr and returns false. */
bool session_begin(const char *command, const char *spec, const session_options_t *options,
                   session_t *out_session);
bool session_prepare(const char *command, session_t *session, run_mode_t mode);
void session_end(session_t *session);

/* Makes a copy for another mode, with a new context and a copy of the module. The copy shares
 * inputs, and a frozen module, which no run changes. */
bool session_clone(const char *command, const session_t *session, session_t *out_session);

/* Prints "FILE: 1.2 MB". */
void session_print_size(const char *path);

/* Returns wall clock time. */
double session_now_ms(void);
/* Returns the CPU time of this process, all threads together. */
double session_cpu_ms(void);

/* Returns true if status is OK; otherwise reports the context's error. */
bool session_check(const char *command, context_t *ctx, status_t status);

#endif
