/* tessera audit: reports the reorders in a log of oneDNN's verbose output. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tessera.h>

#include "tensor/base/try_impl.h"
#include "tools/audit/audit.h"
#include "tools/support/command.h"
#include "tools/support/print.h"
#include "tools/support/session.h"
#include "tools/support/stop.h"
#include "tools/support/table.h"

#define MAX_PAIRS_SHOWN 12

static const args_command_t command = {
    .name = "audit",
    .operands = "LOG",
    .min_operands = 1,
    .max_operands = 1,
    .example = "ONEDNN_VERBOSE=1 python model.py | tessera audit -",
    .about =
        "Reads a verbose log of oneDNN, of any program and any version. Counts the primitives\n"
        "by kind, and the reorders by cause and by formats. Shows which of them belong to the\n"
        "set-up and which are repeated in each inference. LOG is a file, or - for stdin.",
    .more =
        "causes are derived from formats:\n"
        "  copy        both formats are equal: nothing is reordered\n"
        "  weight      a format that only weights have: inner blocks in two dimensions\n"
        "              (ABcd16b16a) or in the first, or an order that does not begin with the\n"
        "              first\n"
        "  activation  one side is row-major: a tensor enters or leaves a format that an\n"
        "              operator chose\n"
        "  mismatch    neither side is row-major: two operators chose different formats\n"
        "the steady state is the sequence of executions that is repeated at the end of the log;\n"
        "  set-up is everything before it. Run the model at least three times, so that the\n"
        "  sequence can be found\n"
        "bytes are those read and written, without padding; share is of the total time"};

/* A log that has been read. */
typedef struct log {
    audit_t audit;
    size_t n, capacity;
    audit_execution_t *executions;
    bool has_steady;
    audit_steady_t steady;
} log_t;

static int compare_totals(const audit_total_t *a, const audit_total_t *b)
{
    if (a->ms != b->ms) return a->ms < b->ms ? 1 : -1;
    return a->n < b->n ? 1 : a->n > b->n ? -1 : 0;
}

static int compare_kinds(const void *a, const void *b)
{
    return compare_totals(&((const audit_kind_t *)a)->total, &((const audit_kind_t *)b)->total);
}

static int compare_pairs(const void *a, const void *b)
{
    return compare_totals(&((const audit_pair_t *)a)->total, &((const audit_pair_t *)b)->total);
}

static double share(const audit_t *audit, double ms)
{
    return audit->total.ms > 0.0 ? 100.0 * ms / audit->total.ms : 0.0;
}

static status_t print_kinds(context_t *ctx, audit_t *audit)
{
    static const char *const columns[] = {"<primitive", ">executions", ">ms",
                                          ">share",     ">by ref",     ">ref ms"};
    table_t table;
    if (audit->n_kinds > 0)
        qsort(audit->kinds, (size_t)audit->n_kinds, sizeof audit->kinds[0], compare_kinds);
    table_begin(ctx, &table, 6, columns);
    for (int i = 0; i < audit->n_kinds; i++) {
        const audit_kind_t *kind = &audit->kinds[i];
        table_cell(&table, "%s", kind->name);
        table_cell(&table, "%llu", (unsigned long long)kind->total.n);
        table_cell(&table, "%.3f", kind->total.ms);
        table_cell(&table, "%.1f %%", share(audit, kind->total.ms));
        table_cell(&table, "%llu", (unsigned long long)kind->reference.n);
        table_cell(&table, "%.3f", kind->reference.ms);
    }
    table_cell(&table, "all");
    table_cell(&table, "%llu", (unsigned long long)audit->total.n);
    table_cell(&table, "%.3f", audit->total.ms);
    for (int i = 0; i < 3; i++) table_cell(&table, "%s", "");
    return table_print(&table);
}

static void reorder_cells(table_t *table, const audit_t *audit, const audit_total_t *total)
{
    table_cell(table, "%llu", (unsigned long long)total->n);
    table_cell(table, "%.3f", (double)total->bytes / 1e6);
    table_cell(table, "%.3f", total->ms);
    table_cell(table, "%.1f %%", share(audit, total->ms));
}

/* The total of the reorders in executions begin to end - 1. Counts one cause, or all causes if
 * cause is AUDIT_CAUSE_COUNT. */
static audit_total_t sum_reorders(const log_t *log, size_t begin, size_t end, int cause)
{
    audit_total_t total = {.n = 0};
    for (size_t i = begin; i < end; i++) {
        const audit_execution_t *execution = &log->executions[i];
        if (!execution->is_reorder) continue;
        if (cause != AUDIT_CAUSE_COUNT && (int)execution->cause != cause) continue;
        total.n++;
        total.bytes += execution->bytes;
        total.ms += execution->ms;
    }
    return total;
}

/* Adds cells for the set-up and for one repetition: counts of a repetition, and the mean time of
 * all repetitions. */
static void steady_cells(table_t *table, const log_t *log, int cause)
{
    const audit_steady_t *steady = &log->steady;
    size_t n_times = (size_t)steady->n_times, end = steady->first + steady->length * n_times;
    if (!log->has_steady) {
        for (int i = 0; i < 4; i++) table_cell(table, "-");
        return;
    }
    audit_total_t before = sum_reorders(log, 0, steady->first, cause);
    audit_total_t within = sum_reorders(log, steady->first, end, cause);
    table_cell(table, "%llu", (unsigned long long)before.n);
    table_cell(table, "%.3f", before.ms);
    table_cell(table, "%llu", (unsigned long long)(within.n / n_times));
    table_cell(table, "%.3f", within.ms / (double)n_times);
}

static status_t print_causes(context_t *ctx, const log_t *log)
{
    static const char *const columns[] = {"<reorders", ">count", ">MB",        ">ms", ">share",
                                          ">set-up",   ">ms",    ">each time", ">ms"};
    const audit_t *audit = &log->audit;
    table_t table;
    table_begin(ctx, &table, 9, columns);
    for (int cause = 0; cause < AUDIT_CAUSE_COUNT; cause++) {
        table_cell(&table, "%s", audit_cause_name((audit_cause_t)cause));
        reorder_cells(&table, audit, &audit->reorders[cause]);
        steady_cells(&table, log, cause);
    }
    audit_total_t all = audit_reorders(audit);
    table_cell(&table, "all");
    reorder_cells(&table, audit, &all);
    steady_cells(&table, log, AUDIT_CAUSE_COUNT);
    return table_print(&table);
}

static status_t print_pairs(context_t *ctx, audit_t *audit)
{
    static const char *const columns[] = {"<from", "<to", "<cause", ">count",
                                          ">MB",   ">ms", ">share"};
    table_t table;
    if (audit->n_pairs > 0)
        qsort(audit->pairs, (size_t)audit->n_pairs, sizeof audit->pairs[0], compare_pairs);
    table_begin(ctx, &table, 7, columns);
    for (int i = 0; i < audit->n_pairs && i < MAX_PAIRS_SHOWN; i++) {
        const audit_pair_t *pair = &audit->pairs[i];
        table_cell(&table, "%s", pair->src);
        table_cell(&table, "%s", pair->dst);
        table_cell(&table, "%s", audit_cause_name(pair->cause));
        reorder_cells(&table, audit, &pair->total);
    }
    TRY(table_print(&table));
    if (audit->n_pairs > MAX_PAIRS_SHOWN)
        print("... and %d more pairs of formats\n", audit->n_pairs - MAX_PAIRS_SHOWN);
    return STATUS_OK;
}

static void print_heading(const log_t *log)
{
    const audit_steady_t *steady = &log->steady;
    if (log->audit.version[0] != '\0')
        print("oneDNN %s: ", log->audit.version);
    else
        print("oneDNN (version not in the log): ");
    print("%zu executions; ", log->n);
    if (!log->has_steady) {
        print("no steady state: nothing repeats at the end\n\n");
        return;
    }
    size_t n_steady = steady->length * (size_t)steady->n_times;
    print("%zu of set-up, then a sequence of %zu repeated %lld times", steady->first,
          steady->length, (long long)steady->n_times);
    if (log->n > steady->first + n_steady)
        print(", and %zu after it", log->n - steady->first - n_steady);
    print("\n\n");
}

static status_t print_log(context_t *ctx, log_t *log)
{
    print_heading(log);
    TRY(print_kinds(ctx, &log->audit));
    print("\n");
    TRY(print_causes(ctx, log));
    if (log->audit.n_pairs == 0) return STATUS_OK;
    print("\n");
    return print_pairs(ctx, &log->audit);
}

/* ---- reading ---- */

static bool keep_execution(log_t *log)
{
    if (log->n == log->capacity) {
        size_t capacity = log->capacity > 0 ? 2 * log->capacity : 1024;
        audit_execution_t *grown = realloc(log->executions, capacity * sizeof *grown);
        if (grown == NULL) return false;
        log->executions = grown;
        log->capacity = capacity;
    }
    log->executions[log->n++] = log->audit.last;
    return true;
}

static bool find_steady(log_t *log)
{
    size_t *scratch = calloc(log->n + 1, sizeof *scratch);
    if (scratch == NULL) return false;
    log->has_steady = audit_find_steady(log->n, log->executions, scratch, &log->steady);
    free(scratch);
    return true;
}

static bool read_log(const char *path, log_t *log)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
    if (file == NULL) {
        print_error("tessera audit: %s: %s\n", path, strerror(errno));
        return false;
    }
    char *line = NULL;
    size_t capacity = 0;
    bool has_memory = true;
    while (has_memory && getline(&line, &capacity, file) >= 0)
        if (audit_line(&log->audit, line)) has_memory = keep_execution(log);
    bool is_read = !ferror(file);
    if (!is_read) print_error("tessera audit: %s: %s\n", path, strerror(errno));
    free(line);
    if (file != stdin) fclose(file);
    has_memory = has_memory && find_steady(log);
    if (!has_memory) print_error("tessera audit: no memory\n");
    return is_read && has_memory;
}

static bool print_audit(log_t *log)
{
    context_t *ctx = NULL;
    status_t status = stop_create(NULL, &ctx);
    if (status == STATUS_OK) status = print_log(ctx, log);
    bool is_done = session_check("audit", ctx, status);
    stop_destroy(ctx);
    return is_done;
}

static bool audit(const char *path, log_t *log)
{
    if (!read_log(path, log)) return false;
    if (log->audit.n_malformed > 0)
        print_error("tessera audit: %llu lines begin like executions but are cut or garbled\n",
                    (unsigned long long)log->audit.n_malformed);
    if (log->n > 0) return print_audit(log);
    print_error("tessera audit: %s has no executions in %llu lines; run the program with "
                "ONEDNN_VERBOSE=1 (MKLDNN_VERBOSE=1, DNNL_VERBOSE=1 for old versions)\n",
                path, (unsigned long long)log->audit.n_lines);
    return false;
}

int command_audit(int argc, char **argv)
{
    args_list_t operands;
    int code = EXIT_FAILED;
    if (!args_parse(&command, NULL, 0, argc, argv, &operands, &code)) return code;
    log_t *log = calloc(1, sizeof *log);
    if (log == NULL) {
        print_error("tessera audit: no memory\n");
        return EXIT_FAILED;
    }
    bool is_done = audit(operands.items[0], log);
    free(log->executions);
    free(log);
    return is_done ? EXIT_DONE : EXIT_FAILED;
}
