/* Parts of bench that start separate processes. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/bench/bench.h"
#include "tools/support/bar.h"
#include "tools/support/print.h"

#define MARK "tessera-first-run"
#define MAX_WORDS (4 * ARGS_MAX + 40)
#define NUMBER_MAX 24

/* The words of a command line that runs this program. */
typedef struct words {
    int n;
    char *items[MAX_WORDS];
    char batch[NUMBER_MAX], threads[NUMBER_MAX], seed[NUMBER_MAX];
} words_t;

/* Adds a word. execv requires char * although it does not write to the words; memcpy drops
 * const. */
static void add(words_t *words, const char *word)
{
    memcpy(&words->items[words->n++], &word, sizeof word);
}

static void add_number(words_t *words, const char *option, int64_t number, char *buffer)
{
    snprintf(buffer, NUMBER_MAX, "%" PRId64, number);
    add(words, option);
    add(words, buffer);
}

static void add_each(words_t *words, const char *option, const args_list_t *values)
{
    for (int i = 0; i < values->n; i++) {
        add(words, option);
        add(words, values->items[i]);
    }
}

static void add_session(words_t *words, const session_options_t *options)
{
    if (options->model.batch > 0) add_number(words, "--batch", options->model.batch, words->batch);
    if (options->n_threads > 0) add_number(words, "--threads", options->n_threads, words->threads);
    add_number(words, "--seed", options->model.seed, words->seed);
    add_each(words, "--input", &options->model.inputs);
    add_each(words, "--shape", &options->model.shapes);
    if (options->model.load != NULL) {
        add(words, "--load");
        add(words, options->model.load);
    }
    if (options->model.is_unchecked) add(words, "--unchecked");
    if (bar_is_quiet()) add(words, "--quiet");
}

/* Starts the command line, and returns its stdout as a stream. The new process ends with this one,
 * also if only this one gets a signal. */
static FILE *start(const words_t *words, pid_t *out_pid)
{
    int ends[2];
    fflush(NULL);
    if (pipe(ends) != 0) return NULL;
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execv("/proc/self/exe", words->items);
        _exit(127);
    }
    close(ends[1]);
    FILE *stream = pid > 0 ? fdopen(ends[0], "r") : NULL;
    if (stream == NULL) close(ends[0]);
    *out_pid = pid;
    return stream;
}

/* Runs the command line and waits until it ends. Returns true if it exits with 0 and `take` has
 * accepted a line as the result; if take is NULL, no result is expected. */
static bool run(const words_t *words, bench_take_t take, void *user)
{
    pid_t pid = -1;
    FILE *stream = start(words, &pid);
    bool has_result = take == NULL;
    char *line = NULL;
    size_t capacity = 0;
    while (stream != NULL && getline(&line, &capacity, stream) >= 0)
        if (take != NULL && take(line, user)) has_result = true;
    free(line);
    if (stream != NULL) fclose(stream);
    int status = -1;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    return stream != NULL && WIFEXITED(status) && WEXITSTATUS(status) == 0 && has_result;
}

bool bench_run_apart(const char *spec, const session_options_t *options, int n_more,
                     const char *const *more, bench_take_t take, void *user)
{
    words_t words = {.n = 0};
    add(&words, "tessera");
    add(&words, "bench");
    add(&words, spec);
    for (int i = 0; i < n_more; i++) add(&words, more[i]);
    add_session(&words, options);
    return run(&words, take, user);
}

static bool take_first_run(const char *line, void *user)
{
    bench_row_t *row = user;
    return sscanf(line, MARK " %lf %lf %lf %lf", &row->load_ms, &row->prepare_ms,
                  &row->inference_ms, &row->peak_rss_mb) == 4;
}

static bool run_mode(const char *spec, run_mode_t mode, const session_options_t *options,
                     bench_row_t *row)
{
    const char *const more[] = {"--first-run", mode_name(mode)};
    return bench_run_apart(spec, options, 2, more, take_first_run, row);
}

static bool freeze_to(const char *spec, const char *path, const session_options_t *options)
{
    words_t words = {.n = 0};
    add(&words, "tessera");
    add(&words, "freeze");
    add(&words, spec);
    add(&words, "-o");
    add(&words, path);
    add_session(&words, options);
    return run(&words, NULL, NULL);
}

bool bench_freeze_apart(const char *spec, const session_options_t *options,
                        bench_frozen_t *out_frozen)
{
    const char *tmp = getenv("TMPDIR");
    char *dir = out_frozen->dir;
    *out_frozen = (bench_frozen_t){.dir = ""};
    if (model_kind(spec) == MODEL_FROZEN) {
        out_frozen->path = spec;
        return true;
    }
    snprintf(dir, sizeof out_frozen->dir, "%s/tessera-XXXXXX",
             tmp != NULL && tmp[0] != '\0' ? tmp : "/tmp");
    if (mkdtemp(dir) == NULL) {
        print_error("tessera bench: %s: %s\n", dir, strerror(errno));
        dir[0] = '\0';
        return false;
    }
    snprintf(out_frozen->made, sizeof out_frozen->made, "%s/model.tessera", dir);
    out_frozen->path = out_frozen->made;
    return freeze_to(spec, out_frozen->path, options);
}

void bench_remove_frozen(bench_frozen_t *frozen)
{
    if (frozen->dir[0] == '\0') return;
    unlink(frozen->made);
    rmdir(frozen->dir);
}

bool bench_measure_apart(const char *spec, run_mode_t mode, const session_options_t *options,
                         bench_row_t *row)
{
    bench_frozen_t frozen;
    if (mode != MODE_FROZEN) return run_mode(spec, mode, options, row);
    bool is_done = bench_freeze_apart(spec, options, &frozen) &&
                   run_mode(frozen.path, mode, options, row);
    bench_remove_frozen(&frozen);
    return is_done;
}

double bench_peak_mb(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss * 1024.0 / 1e6;
}

bool bench_report_first_run(const char *name, session_t *session)
{
    tensor_t *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = 0;
    double begin = session_now_ms();
    status_t status = mode_run(&session->runner, &n_out, out);
    double end = session_now_ms();
    if (!session_check(name, session->ctx, status)) return false;
    mode_release_outputs(n_out, out);
    print("%s %.6f %.6f %.6f %.3f\n", MARK, session->load_ms, session->prepare_ms, end - begin,
          bench_peak_mb());
    return true;
}
