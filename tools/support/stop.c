#define _XOPEN_SOURCE 700

#include "tools/support/stop.h"

#include "tools/support/print.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "tools/support/bar.h"

/* Time between cancelling the calls and a forced exit. */
#define GRACE_US 70000

#define MAX_CONTEXTS 64

typedef enum reason { GOES_ON, INTERRUPTED, OUT_OF_TIME } reason_t;

/* A process runs one command. Signal handlers may read all fields. */
static struct {
    atomic_int reason;
    context_t *_Atomic contexts[MAX_CONTEXTS];
    char name[32];
    bool is_terminal, is_told;
    int64_t memory, iterations;
    double seconds;
    bool has_no_cache;
} stop;

const args_option_t stop_options[STOP_OPTIONS] = {
    {"--limit-memory", ARGS_BYTES, &stop.memory, "BYTES",
     "limit for the memory of each context, such as 512M or 2G (none)", 1, 0},
    {"--limit-time", ARGS_NUMBER, &stop.seconds, "SECONDS",
     "end the command with an error after this time (none)", 0, 0},
    {"--limit-iterations", ARGS_INTEGER, &stop.iterations, "N",
     "limit for the iterations of all loops in one call (1048576)", 1, INT64_MAX},
    {"--no-cache", ARGS_FLAG, &stop.has_no_cache, NULL,
     "neither use nor fill the store of packed weights (TESSERA_STORE)", 0, 0},
};

/* ---- signals ---- */

static void arm(time_t seconds, suseconds_t microseconds)
{
    const struct itimerval timer = {.it_value = {seconds, microseconds}};
    (void)setitimer(ITIMER_REAL, &timer, NULL);
}

static void write_text(const char *text)
{
    const ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written;
}

static const char *reason_text(void)
{
    return atomic_load(&stop.reason) == INTERRUPTED ? "interrupted" : "--limit-time is over";
}

static int code_of_reason(void)
{
    return atomic_load(&stop.reason) == INTERRUPTED ? EXIT_INTERRUPTED : EXIT_FAILED;
}

/* Ends the process. Calls only async-signal-safe functions. */
static void end_now(void)
{
    if (stop.is_terminal) write_text("\033[K");
    write_text("tessera");
    if (stop.name[0] != '\0') write_text(" ");
    write_text(stop.name);
    write_text(": ");
    write_text(reason_text());
    write_text("\n");
    _exit(code_of_reason());
}

static void handle(int signal_number)
{
    int goes_on = GOES_ON;
    const reason_t reason = signal_number == SIGINT ? INTERRUPTED : OUT_OF_TIME;
    if (!atomic_compare_exchange_strong(&stop.reason, &goes_on, reason)) end_now();
    for (int i = 0; i < MAX_CONTEXTS; i++) context_cancel(atomic_load(&stop.contexts[i]));
    arm(0, GRACE_US);
}

/* SIGINT stays ignored if the parent made it so, for example a script that starts a background
 * job. */
void stop_on_interrupt(void)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART}, before;
    sigemptyset(&action.sa_mask);
    stop.is_terminal = isatty(STDERR_FILENO) != 0;
    (void)sigaction(SIGALRM, &action, NULL);
    if (sigaction(SIGINT, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        (void)sigaction(SIGINT, &action, NULL);
}

void stop_at_limits(const char *command)
{
    snprintf(stop.name, sizeof stop.name, "%s", command);
    if (stop.seconds <= 0.0) return;
    const time_t whole = stop.seconds < 1e9 ? (time_t)stop.seconds : 1000000000;
    suseconds_t rest = (suseconds_t)((stop.seconds - (double)whole) * 1e6);
    if (whole == 0 && rest < 1) rest = 1;
    arm(whole, rest < 1000000 ? rest : 0);
}

/* ---- contexts ---- */

status_t stop_create(const context_options_t *options, context_t **out_ctx)
{
    context_options_t limited = {0};
    if (options != NULL) limited = *options;
    limited.limit_bytes = stop.memory;
    limited.limit_iterations = stop.iterations;
    if (stop.has_no_cache) limited.store = "off";
    const status_t status = context_create(&limited, out_ctx);
    if (status != STATUS_OK) return status;
    for (int i = 0; i < MAX_CONTEXTS; i++) {
        context_t *none = NULL;
        if (atomic_compare_exchange_strong(&stop.contexts[i], &none, *out_ctx)) break;
    }
    if (atomic_load(&stop.reason) != GOES_ON) context_cancel(*out_ctx);
    return STATUS_OK;
}

void stop_destroy(context_t *ctx)
{
    for (int i = 0; i < MAX_CONTEXTS; i++) {
        context_t *found = ctx;
        if (ctx != NULL) (void)atomic_compare_exchange_strong(&stop.contexts[i], &found, NULL);
    }
    /* The results are complete. The time in which the context writes to the store does not count.
     */
    struct itimerval left = {.it_value = {0, 0}};
    (void)fflush(stdout);
    if (atomic_load(&stop.reason) == GOES_ON)
        (void)setitimer(ITIMER_REAL, &(struct itimerval){0}, &left);
    context_destroy(ctx);
    if (left.it_value.tv_sec > 0 || left.it_value.tv_usec > 0)
        (void)setitimer(ITIMER_REAL, &left, NULL);
}

/* ---- the end ---- */

bool stop_tell(const char *message)
{
    if (atomic_load(&stop.reason) == GOES_ON) return false;
    if (!stop.is_told) {
        bar_end();
        fflush(stdout);
        print_error("tessera%s%s: %s%s%s%s\n", stop.name[0] != '\0' ? " " : "", stop.name,
                    reason_text(), message != NULL ? " (" : "", message != NULL ? message : "",
                    message != NULL ? ")" : "");
    }
    stop.is_told = true;
    return true;
}

int stop_exit_code(int code)
{
    return stop_tell(NULL) ? code_of_reason() : code;
}
