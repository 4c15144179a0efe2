/* tessera audit: what a oneDNN verbose log says about reorders. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tessera.h>

#include "tools/audit.h"
#include "tools/command.h"
#include "tools/table.h"
#include "tools/try.h"

#define MAX_PAIRS_SHOWN 12

static const args_command_t command = {
    .name = "audit",
    .operands = "LOG",
    .min_operands = 1,
    .max_operands = 1,
    .example = "ONEDNN_VERBOSE=1 python model.py | tessera audit -",
    .about =
        "Counts what oneDNN executed, from the verbose output of any program and any version:\n"
        "totals by primitive kind, reorders by cause and by formats. LOG is a file, or - for "
        "stdin.",
    .more =
        "causes are judged from formats:\n"
        "  weight      a form that only weights have: inner blocks in two dimensions (ABcd16b16a)"
        "\n              or in the first, or an order that does not begin with the first\n"
        "  activation  row-major on one side: a tensor enters or leaves a chosen format\n"
        "  mismatch    neither: two chosen formats meet\n"
        "bytes are read plus written, without padding; share is of all executions' time"};

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

static status_t print_reorders(context_t *ctx, audit_t *audit)
{
    static const char *const columns[] = {"<reorders", ">count", ">MB", ">ms", ">share"};
    static const char *const pair_columns[] = {"<from", "<to", "<cause", ">count",
                                               ">MB",   ">ms", ">share"};
    table_t table;
    table_begin(ctx, &table, 5, columns);
    for (int cause = 0; cause < AUDIT_CAUSE_COUNT; cause++) {
        table_cell(&table, "%s", audit_cause_name((audit_cause_t)cause));
        reorder_cells(&table, audit, &audit->reorders[cause]);
    }
    audit_total_t all = audit_reorders(audit);
    table_cell(&table, "all");
    reorder_cells(&table, audit, &all);
    TRY(table_print(&table));
    if (audit->n_pairs == 0) return STATUS_OK;

    printf("\n");
    qsort(audit->pairs, (size_t)audit->n_pairs, sizeof audit->pairs[0], compare_pairs);
    table_begin(ctx, &table, 7, pair_columns);
    for (int i = 0; i < audit->n_pairs && i < MAX_PAIRS_SHOWN; i++) {
        const audit_pair_t *pair = &audit->pairs[i];
        table_cell(&table, "%s", pair->src);
        table_cell(&table, "%s", pair->dst);
        table_cell(&table, "%s", audit_cause_name(pair->cause));
        reorder_cells(&table, audit, &pair->total);
    }
    TRY(table_print(&table));
    if (audit->n_pairs > MAX_PAIRS_SHOWN)
        printf("... and %d more pairs of formats\n", audit->n_pairs - MAX_PAIRS_SHOWN);
    return STATUS_OK;
}

static bool read_log(const char *path, audit_t *audit)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
    if (file == NULL) {
        fprintf(stderr, "tessera audit: %s: %s\n", path, strerror(errno));
        return false;
    }
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, file) >= 0) audit_line(audit, line);
    bool is_read = !ferror(file);
    if (!is_read) fprintf(stderr, "tessera audit: %s: %s\n", path, strerror(errno));
    free(line);
    if (file != stdin) fclose(file);
    return is_read;
}

static int print_audit(audit_t *audit)
{
    context_t *ctx = NULL;
    status_t status = context_create(NULL, &ctx);
    if (status == STATUS_OK) status = print_kinds(ctx, audit);
    if (status == STATUS_OK) {
        printf("\n");
        status = print_reorders(ctx, audit);
    }
    if (status != STATUS_OK)
        fprintf(stderr, "tessera audit: %s\n", ctx != NULL ? context_error(ctx) : "no memory");
    context_destroy(ctx);
    return status == STATUS_OK ? EXIT_DONE : EXIT_FAILED;
}

int command_audit(int argc, char **argv)
{
    args_list_t operands;
    int code = EXIT_FAILED;
    if (!args_parse(&command, NULL, 0, argc, argv, &operands, &code)) return code;
    audit_t *audit = calloc(1, sizeof *audit);
    if (audit == NULL) {
        fprintf(stderr, "tessera audit: no memory\n");
        return EXIT_FAILED;
    }
    if (!read_log(operands.items[0], audit)) {
        free(audit);
        return EXIT_FAILED;
    }
    if (audit->n_malformed > 0)
        fprintf(stderr, "tessera audit: %llu lines begin like executions but are cut or garbled\n",
                (unsigned long long)audit->n_malformed);
    if (audit->total.n > 0) {
        code = print_audit(audit);
    } else {
        fprintf(stderr,
                "tessera audit: %s has no executions in %llu lines; run the program with "
                "ONEDNN_VERBOSE=1 (MKLDNN_VERBOSE=1, DNNL_VERBOSE=1 for old versions)\n",
                operands.items[0], (unsigned long long)audit->n_lines);
        code = EXIT_FAILED;
    }
    free(audit);
    return code;
}
