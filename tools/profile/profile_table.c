/* A profile on the terminal: one line for each node, then sums. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tensor/base/try_impl.h"
#include "tools/profile/profile.h"
#include "tools/support/print.h"
#include "tools/support/table.h"

#define CELL_MAX 512
#define RED "\x1b[31m"
#define PLAIN "\x1b[0m"

/* Writes "aBcd8b ABcd8b8a a"; equal formats in succession are written as "aBcd8b x4". */
static const char *list_formats(int n, const tensor_info_t *infos, char *out_cell)
{
    size_t length = 0;
    out_cell[0] = '\0';
    for (int i = 0; i < n && length < CELL_MAX;) {
        char text[FORMAT_TEXT_MAX], other[FORMAT_TEXT_MAX], times[16] = "";
        const char *format = profile_format(&infos[i], text);
        int same = 1;
        while (i + same < n && strcmp(profile_format(&infos[i + same], other), format) == 0) same++;
        if (same > 1) snprintf(times, sizeof times, " x%d", same);
        length += (size_t)snprintf(out_cell + length, CELL_MAX - length, "%s%s%s", i > 0 ? " " : "",
                                   format, times);
        i += same;
    }
    return out_cell;
}

/* Writes "input abcd>aBcd8b, weight abcd>ABcd8b8a"; a conversion by our own loops is a "copy". */
static const char *list_reorders(const profile_node_t *node, char *out_cell)
{
    size_t length = 0;
    out_cell[0] = '\0';
    for (int i = 0; i < node->n_reorders && length < CELL_MAX; i++) {
        const profile_reorder_t *reorder = &node->reorders[i];
        char from[FORMAT_TEXT_MAX], to[FORMAT_TEXT_MAX];
        length += (size_t)snprintf(
            out_cell + length, CELL_MAX - length, "%s%s%s %s>%s", i > 0 ? ", " : "",
            cause_name(reorder->cause), reorder->is_copy ? " copy" : "",
            profile_format(&reorder->from, from), profile_format(&reorder->to, to));
    }
    return out_cell;
}

static void rate_cell(table_t *table, double amount, double ns)
{
    if (amount > 0 && ns > 0)
        table_cell(table, "%.1f", amount / ns);
    else
        table_cell(table, "-");
}

static void put_node(table_t *table, const profiling_t *profiling, const profile_mode_t *mode,
                     int index)
{
    const profile_node_t *node = profile_node(mode->profile, index);
    char cell[CELL_MAX];
    const bool is_red = node->n_reorders > 0 && isatty(STDOUT_FILENO);
    table_cell(table, "%d", index + 1);
    table_cell(table, "%s", profile_name(node));
    table_cell(table, "%s", node->path);
    table_cell(table, "%.4f", node->ns / 1e6);
    table_cell(table, "%.1f", 100 * profile_share(mode, node->ns));
    rate_cell(table, node->flops, node->ns);
    rate_cell(table, (double)node->bytes, node->ns);
    rate_cell(table, 100 * profile_limit_ns(&profiling->limits, node), node->ns);
    const char *by = node->op == NULL                  ? node->reorders[0].by
                     : node->implementation[0] != '\0' ? node->implementation
                                                       : node->kernel;
    if (node->n_slices > 1)
        table_cell(table, "%s x %d", by, node->n_slices);
    else
        table_cell(table, "%s", by);
    table_cell(table, "%s", list_formats(node->n_in, node->in, cell));
    table_cell(table, "%s", list_formats(node->n_out, node->out, cell));
    table_cell(table, "%s%s%s", is_red ? RED : "", list_reorders(node, cell), is_red ? PLAIN : "");
}

static status_t print_nodes(context_t *ctx, const profiling_t *profiling,
                            const profile_mode_t *mode)
{
    static const char *const columns[] = {">#",       "<operator", "<path", ">ms",
                                          ">share %", ">GFLOP/s",  ">GB/s", ">limit %",
                                          "<by",      "<in",       "<out",  "<reorders"};
    table_t table;
    table_begin(ctx, &table, 12, columns);
    for (int i = 0; i < profile_n_nodes(mode->profile); i++) put_node(&table, profiling, mode, i);
    return table_print(&table);
}

static status_t print_sums(context_t *ctx, const profile_mode_t *mode, const char *column,
                           const profile_sums_t *sums)
{
    const char *const columns[] = {column, ">nodes", ">ms", ">share %", ">reorders", ">reorder ms"};
    table_t table;
    table_begin(ctx, &table, 6, columns);
    for (int i = 0; i < sums->n; i++) {
        const profile_sum_t *sum = &sums->items[i];
        const char *last = strrchr(sum->name, '.');
        const bool is_module = sum->depth > 0;
        table_cell(&table, "%*s%s", 2 * sum->depth, "",
                   is_module && last != NULL ? last + 1
                   : sum->name[0] != '\0'    ? sum->name
                                             : "(all)");
        table_cell(&table, "%d", sum->n_nodes);
        table_cell(&table, "%.4f", sum->ns / 1e6);
        table_cell(&table, "%.1f", 100 * profile_share(mode, sum->ns));
        table_cell(&table, "%d", sum->n_reorders);
        table_cell(&table, "%.4f", sum->reorder_ns / 1e6);
    }
    return table_print(&table);
}

static void print_summary(const profile_mode_t *mode)
{
    const int slowest = profile_slowest(mode);
    const counters_t *counters = &mode->counters;
    print("\nmode %s: %.3f ms an inference, median of %d runs; nodes %.3f ms, profiled runs %.3f "
          "ms\n",
          mode_name(mode->mode), mode->run_ms, profile_n_runs(mode->profile), mode->nodes_ms,
          profile_run_ns(mode->profile) / 1e6);
    if (slowest >= 0) {
        const profile_node_t *node = profile_node(mode->profile, slowest);
        print("slowest: #%d %s%s%s, %.4f ms, %.1f %%\n", slowest + 1, profile_name(node),
              node->path[0] != '\0' ? " at " : "", node->path, node->ns / 1e6,
              100 * profile_share(mode, node->ns));
    }
    print("reorders:");
    for (int cause = 0; cause < CAUSE_COUNT; cause++)
        print(" %s %" PRIu64, cause_name((reorder_cause_t)cause), counters->reorders[cause]);
    print("; copies %" PRIu64 "; %.3f ms\n", counters_copies(counters),
          (double)counters->reorder_ns / 1e6);
}

static status_t print_mode(context_t *ctx, const profiling_t *profiling, const profile_mode_t *mode)
{
    profile_sums_t kinds, modules;
    TRY(print_nodes(ctx, profiling, mode));
    bool is_summed = profile_sum_kinds(mode->profile, &kinds);
    is_summed = profile_sum_modules(mode->profile, &modules) && is_summed;
    status_t status = is_summed ? STATUS_OK : STATUS_OUT_OF_MEMORY;
    if (status == STATUS_OK) {
        print("\n");
        status = print_sums(ctx, mode, "<by operator", &kinds);
    }
    if (status == STATUS_OK) {
        print("\n");
        status = print_sums(ctx, mode, "<by module", &modules);
    }
    profile_sums_clear(&kinds);
    profile_sums_clear(&modules);
    if (status == STATUS_OK) print_summary(mode);
    return status;
}

static void print_comparison(const profiling_t *profiling)
{
    const profile_mode_t *a = &profiling->modes[0], *b = &profiling->modes[1];
    print("\n%s / %s: %.3f of the time, %d and %d nodes\n", mode_name(a->mode), mode_name(b->mode),
          b->run_ms > 0 ? a->run_ms / b->run_ms : 0, profile_n_nodes(a->profile),
          profile_n_nodes(b->profile));
}

status_t profile_print_tables(context_t *ctx, const profiling_t *profiling)
{
    const profile_limits_t *limits = &profiling->limits;
    print("%s\nbatch %" PRId64 ", %d threads, oneDNN %s, %s\nmeasured here: %.0f GFLOP/s f32;"
          " GB/s read of",
          profiling->spec, profiling->batch, profiling->n_threads, onednn_version_text(),
          onednn_isa_text(), limits->gflops);
    for (int i = 0; i < PROFILE_N_SIZES; i++)
        print("%s %.0f KB: %.0f", i > 0 ? "," : "", limits->bytes[i] / 1024, limits->gbs[i]);
    print("\n");
    for (int m = 0; m < profiling->n_modes; m++) {
        print("\n");
        TRY(print_mode(ctx, profiling, &profiling->modes[m]));
    }
    if (profiling->n_modes > 1) print_comparison(profiling);
    return STATUS_OK;
}
