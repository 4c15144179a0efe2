/* tessera bench --instances: runs several instances of a model at the same time. Each choice of the
 * number of instances has its own process, which opens one frozen file. An instance is a thread
 * with its own cores, context and OpenMP team. Instances are created one after another, start
 * together and run for the same time; then the process prints the result as one line. */
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/base/try_impl.h"
#include "tools/bench/bench.h"
#include "tools/bench/cores.h"
#include "tools/support/bar.h"
#include "tools/support/print.h"
#include "tools/support/stop.h"
#include "tools/support/table.h"

#define NAME "bench"
#define MARK "tessera-instances"
#define CORES_MAX 64 /* bytes for a list of processors, such as "0-3,8" */
#define NUMBER_MAX 24
#define ROUNDS 3 /* rounds of each choice, alternately with the others; the best counts */

/* A choice (number of instances, threads of each) and its results. */
typedef struct row {
    int n_instances, n_threads;
    int64_t batch, n_runs;
    double items_per_s, median_ms, p99_ms;
    double cpu_ms; /* CPU time of a run, for all threads of an instance */
    uint64_t weight_reorders, activation_reorders, copies; /* in all runs */
    double pss_mb, file_mb; /* memory of the process; the part of it in the mapped file */
    double own_mb;          /* anonymous pages, which no other process shares */
    char *cores;            /* processors of each instance: "0-1;2-3" */
    bench_frozen_t frozen;
} row_t;

typedef struct rows {
    int n;
    row_t *items;
} rows_t;

/* ---- an instance, in its thread ---- */

typedef struct team {
    const bench_instances_options_t *options;
    const session_t *base;
    const cores_t *cores;
    int n_instances;
    struct instance *instances;
    pthread_mutex_t turn;
    pthread_barrier_t start;
} team_t;

typedef struct instance {
    team_t *team;
    int index;
    pthread_t thread;
    session_t session;
    bool is_ready, is_done;
    char cores[CORES_MAX];
    double seconds, cpu_begin, cpu_end; /* cpu_begin, cpu_end: CPU time of the process */
    double *times;                      /* [n_runs] */
    int64_t n_times, capacity;
    counters_t counters;
} instance_t;

/* Binds this thread to its cores. The first run then creates the instance's OpenMP threads, which
 * inherit the binding. */
static bool set_up(instance_t *instance)
{
    const team_t *team = instance->team;
    int n_cores = team->cores->n / team->n_instances;
    if (!cores_bind(team->cores, instance->index * n_cores, n_cores) ||
        !cores_print(team->cores, instance->cores, sizeof instance->cores)) {
        print_error("tessera " NAME ": cannot bind an instance to its cores\n");
        return false;
    }
    session_t *session = &instance->session;
    return session_clone(NAME, team->base, session) &&
           session_prepare(NAME, session, MODE_FROZEN) &&
           session_check(NAME, session->ctx, mode_run_once(&session->runner));
}

static bool warm_up(instance_t *instance)
{
    status_t status = STATUS_OK;
    for (int64_t i = 0; i < instance->team->options->n_warm_up && status == STATUS_OK; i++)
        status = mode_run_once(&instance->session.runner);
    return session_check(NAME, instance->session.ctx, status);
}

static status_t run_for(instance_t *instance, double ms)
{
    context_t *ctx = instance->session.ctx;
    double begin = session_now_ms(), now = begin;
    instance->cpu_begin = session_cpu_ms();
    while (now - begin < ms) {
        if (instance->n_times == instance->capacity) {
            int64_t capacity = instance->capacity > 0 ? 2 * instance->capacity : 1024;
            double *grown = realloc(instance->times, (size_t)capacity * sizeof *grown);
            if (grown == NULL) FAIL(ctx, STATUS_OUT_OF_MEMORY, "no memory for times");
            instance->times = grown;
            instance->capacity = capacity;
        }
        double before = now;
        TRY(mode_run_once(&instance->session.runner));
        now = session_now_ms();
        instance->times[instance->n_times++] = now - before;
    }
    instance->seconds = (now - begin) / 1e3;
    instance->cpu_end = session_cpu_ms();
    return STATUS_OK;
}

static bool are_all_ready(const team_t *team)
{
    for (int i = 0; i < team->n_instances; i++)
        if (!team->instances[i].is_ready) return false;
    return true;
}

/* The instances are created one after another, so that the first one makes the data that all
 * share. */
static void *run_instance(void *user)
{
    instance_t *instance = user;
    team_t *team = instance->team;
    context_t *ctx = NULL;
    pthread_mutex_lock(&team->turn);
    instance->is_ready = set_up(instance);
    pthread_mutex_unlock(&team->turn);
    pthread_barrier_wait(&team->start);
    if (!are_all_ready(team)) return NULL;
    if (!warm_up(instance)) return NULL;
    ctx = instance->session.ctx;
    counters_reset(ctx);
    status_t status = run_for(instance, (double)team->options->n_seconds * 1e3);
    instance->is_done = session_check(NAME, ctx, status);
    counters_read(ctx, &instance->counters);
    return NULL;
}

/* ---- all instances of a choice, in its process ---- */

/* Reads this process's memory from /proc: proportional set size, the part of it in the mapped file,
 * and anonymous pages. */
static void read_memory(const char *path, row_t *row)
{
    char line[PATH_MAX + 128], file[PATH_MAX];
    bool is_file = false;
    FILE *maps = realpath(path, file) != NULL ? fopen("/proc/self/smaps", "r") : NULL;
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        unsigned long first, last;
        double kb;
        if (sscanf(line, "Anonymous: %lf", &kb) == 1) row->own_mb += kb * 1024.0 / 1e6;
        if (sscanf(line, "%lx-%lx ", &first, &last) == 2) is_file = strstr(line, file) != NULL;
        if (sscanf(line, "Pss: %lf", &kb) != 1) continue;
        row->pss_mb += kb * 1024.0 / 1e6;
        if (is_file) row->file_mb += kb * 1024.0 / 1e6;
    }
    if (maps != NULL) fclose(maps);
}

/* Adds up the results of all instances. Percentiles are those of all their runs. */
static bool sum_up(const team_t *team, row_t *row)
{
    int64_t n = 0;
    double cpu_begin = team->instances[0].cpu_begin, cpu_end = cpu_begin;
    for (int i = 0; i < team->n_instances; i++) row->n_runs += team->instances[i].n_times;
    double *times = calloc((size_t)row->n_runs + 1, sizeof *times);
    if (times == NULL) return session_check(NAME, NULL, STATUS_OUT_OF_MEMORY);
    for (int i = 0; i < team->n_instances; i++) {
        const instance_t *instance = &team->instances[i];
        memcpy(times + n, instance->times, (size_t)instance->n_times * sizeof *times);
        n += instance->n_times;
        row->items_per_s += (double)(row->batch * instance->n_times) / instance->seconds;
        row->weight_reorders += counters_weight_reorders(&instance->counters);
        row->activation_reorders += counters_activation_reorders(&instance->counters);
        row->copies += counters_copies(&instance->counters);
        if (instance->cpu_begin < cpu_begin) cpu_begin = instance->cpu_begin;
        if (instance->cpu_end > cpu_end) cpu_end = instance->cpu_end;
    }
    bench_sort_times(times, n);
    row->median_ms = bench_percentile(times, n, 0.5);
    row->p99_ms = bench_percentile(times, n, 0.99);
    row->cpu_ms = (cpu_end - cpu_begin) / (double)n;
    free(times);
    return true;
}

/* Runs all instances. Returns false if a thread could not be created or an instance failed. */
static bool run_team(team_t *team)
{
    int n = 0;
    pthread_mutex_lock(&team->turn);
    while (n < team->n_instances &&
           pthread_create(&team->instances[n].thread, NULL, run_instance, &team->instances[n]) == 0)
        n++;
    /* The threads created so far would wait for the missing ones at the barrier for ever. */
    if (n < team->n_instances) {
        print_error("tessera " NAME ": cannot make %d threads\n", team->n_instances);
        exit(EXIT_FAILED);
    }
    pthread_mutex_unlock(&team->turn);
    bool is_done = true;
    for (int i = 0; i < n; i++) pthread_join(team->instances[i].thread, NULL);
    for (int i = 0; i < n; i++) is_done = is_done && team->instances[i].is_done;
    return is_done;
}

static void print_line(const team_t *team, const row_t *row)
{
    print(MARK " %" PRId64 " %" PRId64 " %.9g %.6f %.6f %.6f %" PRIu64 " %" PRIu64 " %" PRIu64
               " %.3f %.3f %.3f ",
          row->batch, row->n_runs, row->items_per_s, row->median_ms, row->p99_ms, row->cpu_ms,
          row->weight_reorders, row->activation_reorders, row->copies, row->pss_mb, row->file_mb,
          row->own_mb);
    for (int i = 0; i < team->n_instances; i++)
        print("%s%s", i > 0 ? ";" : "", team->instances[i].cores);
    print("\n");
}

static bool measure_team(const char *spec, team_t *team)
{
    row_t row = {.batch = model_batch(&team->base->model)};
    team->instances = calloc((size_t)team->n_instances, sizeof *team->instances);
    if (team->instances == NULL) return session_check(NAME, NULL, STATUS_OUT_OF_MEMORY);
    for (int i = 0; i < team->n_instances; i++)
        team->instances[i] = (instance_t){.team = team, .index = i};
    pthread_mutex_init(&team->turn, NULL);
    pthread_barrier_init(&team->start, NULL, (unsigned)team->n_instances);
    bool is_done = run_team(team);
    read_memory(spec, &row);
    is_done = is_done && sum_up(team, &row);
    if (is_done) print_line(team, &row);
    for (int i = 0; i < team->n_instances; i++) {
        session_end(&team->instances[i].session);
        free(team->instances[i].times);
    }
    free(team->instances);
    pthread_barrier_destroy(&team->start);
    pthread_mutex_destroy(&team->turn);
    return is_done;
}

int bench_instances_here(const char *spec, const bench_instances_options_t *options)
{
    cores_t cores;
    session_t base;
    team_t team = {.options = options, .base = &base, .cores = &cores};
    team.n_instances = (int)strtol(options->instances, NULL, 10);
    if (!session_begin(NAME, spec, &options->session, &base)) return EXIT_FAILED;
    bool is_done = cores_find(&cores) && team.n_instances > 0 && measure_team(spec, &team);
    cores_clear(&cores);
    session_end(&base);
    return is_done ? EXIT_DONE : EXIT_FAILED;
}

/* ---- choices ---- */

static bool take_row(const char *line, void *user)
{
    row_t *row = user;
    int at = 0;
    if (sscanf(line,
               MARK " %" SCNd64 " %" SCNd64 " %lf %lf %lf %lf %" SCNu64 " %" SCNu64 " %" SCNu64
                    " %lf %lf %lf %n",
               &row->batch, &row->n_runs, &row->items_per_s, &row->median_ms, &row->p99_ms,
               &row->cpu_ms, &row->weight_reorders, &row->activation_reorders, &row->copies,
               &row->pss_mb, &row->file_mb, &row->own_mb, &at) != 12)
        return false;
    free(row->cores);
    row->cores = strndup(line + at, strcspn(line + at, "\n"));
    return row->cores != NULL;
}

/* Freezes a file for the row, because formats depend on the number of threads. */
static bool freeze_row(const char *spec, const bench_instances_options_t *options, row_t *row)
{
    session_options_t session = options->session;
    session.n_threads = row->n_threads;
    return bench_freeze_apart(spec, &session, &row->frozen);
}

static bool measure_row(const bench_instances_options_t *options, row_t *row)
{
    char instances[NUMBER_MAX], seconds[NUMBER_MAX], warm_up_runs[NUMBER_MAX];
    snprintf(instances, sizeof instances, "%d", row->n_instances);
    snprintf(seconds, sizeof seconds, "%" PRId64, options->n_seconds);
    snprintf(warm_up_runs, sizeof warm_up_runs, "%" PRId64, options->n_warm_up);
    const char *const more[] = {"--instances", instances,   "--first-run", "frozen", "--seconds",
                                seconds,       "--warm-up", warm_up_runs,  "--quiet"};
    session_options_t session = options->session;
    session.n_threads = row->n_threads;
    row_t round = {.n_instances = row->n_instances, .n_threads = row->n_threads};
    bool is_done = bench_run_apart(row->frozen.path, &session, (int)(sizeof more / sizeof more[0]),
                                   more, take_row, &round);
    if (is_done && round.items_per_s > row->items_per_s) {
        char *cores = row->cores;
        round.frozen = row->frozen;
        *row = round;
        round.cores = cores;
    }
    free(round.cores);
    return is_done;
}

static void add_row(rows_t *rows, int n_instances, int n_threads)
{
    rows->items[rows->n++] = (row_t){.n_instances = n_instances, .n_threads = n_threads};
}

/* Adds the baseline (one instance on all cores) and the requested number of instances; for "auto",
 * adds every divisor of the number of cores. If the options are wrong, prints a message and returns
 * false. */
static bool choose(const bench_instances_options_t *options, int n_cores, rows_t *rows)
{
    const char *text = options->instances;
    int64_t n_threads = options->session.n_threads;
    char *end = NULL;
    add_row(rows, 1, n_cores);
    if (strcmp(text, "auto") == 0) {
        for (int n = 2; n <= n_cores; n++)
            if (n_cores % n == 0) add_row(rows, n, n_cores / n);
        if (n_threads == 0) return true;
        args_usage_error(NAME, "--threads %" PRId64 ", but --instances auto uses all cores",
                         n_threads);
        return false;
    }
    long n = strtol(text, &end, 10);
    if (end == text || *end != '\0' || n < 1 || n > n_cores) {
        args_usage_error(
            NAME,
            "--instances %s, must be auto or a whole number from 1 to %d, the number of cores",
            text, n_cores);
        return false;
    }
    if (n_threads == 0) n_threads = n_cores / n;
    if (n * n_threads > n_cores) {
        args_usage_error(
            NAME, "--instances %ld of --threads %" PRId64 " need %" PRId64 " cores, there are %d",
            n, n_threads, n * n_threads, n_cores);
        return false;
    }
    if (n > 1 || n_threads < n_cores) add_row(rows, (int)n, (int)n_threads);
    return true;
}

/* ---- printing ---- */

static double speedup(const rows_t *rows, const row_t *row)
{
    return row->items_per_s / rows->items[0].items_per_s;
}

static const row_t *find_best(const rows_t *rows)
{
    const row_t *best = &rows->items[0];
    for (int i = 1; i < rows->n; i++)
        if (rows->items[i].items_per_s > best->items_per_s) best = &rows->items[i];
    return best;
}

static status_t print_table(context_t *ctx, const rows_t *rows)
{
    static const char *const columns[] = {">instances", ">threads", ">items/s",
                                          ">speedup",   ">p50 ms",  ">p99 ms",
                                          ">CPU ms",    ">PSS MB",  ">file MB"};
    table_t table;
    table_begin(ctx, &table, (int)(sizeof columns / sizeof columns[0]), columns);
    for (int i = 0; i < rows->n; i++) {
        const row_t *row = &rows->items[i];
        table_cell(&table, "%d", row->n_instances);
        table_cell(&table, "%d", row->n_threads);
        table_cell(&table, "%.1f", row->items_per_s);
        table_cell(&table, "%.2f", speedup(rows, row));
        table_cell(&table, "%.3f", row->median_ms);
        table_cell(&table, "%.3f", row->p99_ms);
        table_cell(&table, "%.3f", row->cpu_ms);
        table_cell(&table, "%.1f", row->pss_mb);
        table_cell(&table, "%.1f", row->file_mb);
    }
    return table_print(&table);
}

static status_t print_all(context_t *ctx, const char *spec,
                          const bench_instances_options_t *options, int n_cores, const rows_t *rows)
{
    const row_t *best = find_best(rows);
    print("%s\nbatch %" PRId64 ", %d cores, oneDNN %s, %s; %" PRId64 " s each after %" PRId64
          " runs of warm-up, best of %d\n\n",
          spec, rows->items[0].batch, n_cores, onednn_version_text(), onednn_isa_text(),
          options->n_seconds, options->n_warm_up, ROUNDS);
    TRY(print_table(ctx, rows));
    print("\nmost items/s: %d instances of %d threads, %.2f times one instance on all cores\n",
          best->n_instances, best->n_threads, speedup(rows, best));
    return STATUS_OK;
}

static void append_row(text_t *text, const rows_t *rows, const row_t *row)
{
    text_append(text, "{\"instances\":%d,\"threads\":%d,\"cores\":[", row->n_instances,
                row->n_threads);
    for (const char *at = row->cores; *at != '\0'; at += *at == ';') {
        int length = (int)strcspn(at, ";");
        text_append(text, "%s\"%.*s\"", at > row->cores ? "," : "", length, at);
        at += length;
    }
    text_append(
        text,
        "],\"items_per_s\":%.3f,\"speedup\":%.4f,\"median_ms\":%.4f,\"p99_ms\":%.4f,\"cpu_ms\":%.4f"
        ",\"runs\":%" PRId64 ",\"weight_reorders\":%" PRIu64 ",\"activation_reorders\":%" PRIu64
        ",\"copies\":%" PRIu64 ",\"pss_mb\":%.1f,\"file_mb\":%.1f,\"own_mb\":%.1f}",
        row->items_per_s, speedup(rows, row), row->median_ms, row->p99_ms, row->cpu_ms, row->n_runs,
        row->weight_reorders, row->activation_reorders, row->copies, row->pss_mb, row->file_mb,
        row->own_mb);
}

static status_t print_json(context_t *ctx, const char *spec,
                           const bench_instances_options_t *options, int n_cores,
                           const rows_t *rows)
{
    const row_t *best = find_best(rows);
    text_t text = text_begin(ctx);
    text_append(&text, "{\"model\":");
    text_append_quoted(&text, spec);
    text_append(&text, ",\"batch\":%" PRId64 ",\"cores\":%d,\"onednn\":", rows->items[0].batch,
                n_cores);
    text_append_quoted(&text, onednn_version_text());
    text_append(&text, ",\"isa\":");
    text_append_quoted(&text, onednn_isa_text());
    text_append(&text, ",\"seconds\":%" PRId64 ",\"warm_up\":%" PRId64 ",\"rows\":[",
                options->n_seconds, options->n_warm_up);
    for (int i = 0; i < rows->n; i++) {
        if (i > 0) text_append(&text, ",");
        append_row(&text, rows, &rows->items[i]);
    }
    text_append(&text, "],\"best\":{\"instances\":%d,\"threads\":%d,\"speedup\":%.4f}}",
                best->n_instances, best->n_threads, speedup(rows, best));
    status_t status = text_status(&text);
    if (status == STATUS_OK) print("%s\n", text_string(&text));
    text_clear(&text);
    return status;
}

static bool tell(const char *spec, const bench_instances_options_t *options, int n_cores,
                 const rows_t *rows)
{
    context_t *ctx = NULL;
    if (!session_check(NAME, NULL, stop_create(NULL, &ctx))) return false;
    status_t status = options->as_json ? print_json(ctx, spec, options, n_cores, rows)
                                       : print_all(ctx, spec, options, n_cores, rows);
    bool is_done = session_check(NAME, ctx, status);
    stop_destroy(ctx);
    return is_done;
}

static int measure_all(const char *spec, const bench_instances_options_t *options, int n_cores,
                       rows_t *rows)
{
    if (!choose(options, n_cores, rows)) return EXIT_USAGE;
    /* With binding, OpenMP would bind the first thread of every team to the same core. */
    setenv("OMP_PROC_BIND", "false", 1);
    unsetenv("OMP_PLACES");
    unsetenv("GOMP_CPU_AFFINITY");
    bool is_done = true;
    for (int i = 0; i < rows->n && is_done; i++)
        is_done = freeze_row(spec, options, &rows->items[i]);
    for (int i = 0; i < ROUNDS * rows->n && is_done; i++) {
        bar_show("instances, rounds", i, ROUNDS * rows->n, NULL);
        is_done = measure_row(options, &rows->items[i % rows->n]);
    }
    bar_end();
    return is_done && tell(spec, options, n_cores, rows) ? EXIT_DONE : EXIT_FAILED;
}

int bench_instances(const char *spec, const bench_instances_options_t *options)
{
    cores_t cores;
    rows_t rows = {0};
    int code = EXIT_FAILED;
    if (!cores_find(&cores))
        print_error("tessera " NAME ": cannot read the cores of this machine\n");
    else if ((rows.items = calloc((size_t)cores.n + 1, sizeof *rows.items)) == NULL)
        session_check(NAME, NULL, STATUS_OUT_OF_MEMORY);
    else
        code = measure_all(spec, options, cores.n, &rows);
    for (int i = 0; i < rows.n; i++) {
        bench_remove_frozen(&rows.items[i].frozen);
        free(rows.items[i].cores);
    }
    free(rows.items);
    cores_clear(&cores);
    return code;
}
