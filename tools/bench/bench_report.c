/* Prints the results of bench. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/base/try_impl.h"
#include "tools/bench/bench.h"
#include "tools/support/print.h"
#include "tools/support/table.h"

static const bench_row_t *find_dense(const bench_t *bench)
{
    for (int i = 0; i < bench->n_rows; i++)
        if (bench->rows[i].mode == MODE_DENSE) return &bench->rows[i];
    return NULL;
}

/* Time in mode dense divided by the time of the row; NaN if dense was not measured. */
static double speedup(const bench_t *bench, const bench_row_t *row)
{
    const bench_row_t *dense = find_dense(bench);
    return dense != NULL && row->median_ms > 0.0 ? dense->median_ms / row->median_ms : (double)NAN;
}

/* In steady state all inferences have equal counts. A fraction shows that the state is not
 * steady. */
const char *bench_per_run(const bench_row_t *row, uint64_t sum, char *out_text, size_t capacity)
{
    uint64_t n = row->n_runs > 0 ? (uint64_t)row->n_runs : 1;
    if (sum % n == 0)
        snprintf(out_text, capacity, "%" PRIu64, sum / n);
    else
        snprintf(out_text, capacity, "%.3f", (double)sum / (double)n);
    return out_text;
}

/* decimals -1: prints two significant digits. */
static void number_cell(table_t *table, int decimals, double number)
{
    if (isnan(number))
        table_cell(table, "-");
    else if (decimals >= 0)
        table_cell(table, "%.*f", decimals, number);
    else
        table_cell(table, "%.2g", number);
}

static double first_run_ms(const bench_row_t *row)
{
    return row->load_ms + row->prepare_ms + row->inference_ms;
}

static status_t print_times(context_t *ctx, const bench_t *bench)
{
    static const char *const columns[] = {"<mode",   ">p50 ms",  ">p90 ms",  ">p99 ms",
                                          ">min ms", ">items/s", ">speedup", ">max rel diff"};
    table_t table;
    table_begin(ctx, &table, 8, columns);
    for (int i = 0; i < bench->n_rows; i++) {
        const bench_row_t *row = &bench->rows[i];
        table_cell(&table, "%s", mode_name(row->mode));
        number_cell(&table, 3, row->median_ms);
        number_cell(&table, 3, row->p90_ms);
        number_cell(&table, 3, row->p99_ms);
        number_cell(&table, 3, row->min_ms);
        number_cell(&table, 1, row->items_per_s);
        number_cell(&table, 2, speedup(bench, row));
        number_cell(&table, -1, row->max_rel_diff);
    }
    return table_print(&table);
}

static status_t print_reorders(context_t *ctx, const bench_t *bench)
{
    static const char *const columns[] = {"<reorders", ">weight", ">activation",
                                          ">copies",   ">MB",     ">ms"};
    char text[64];
    table_t table;
    table_begin(ctx, &table, 6, columns);
    for (int i = 0; i < bench->n_rows; i++) {
        const bench_row_t *row = &bench->rows[i];
        table_cell(&table, "%s", mode_name(row->mode));
        table_cell(&table, "%s", bench_per_run(row, row->weight_reorders, text, sizeof text));
        table_cell(&table, "%s", bench_per_run(row, row->activation_reorders, text, sizeof text));
        table_cell(&table, "%s", bench_per_run(row, row->copies, text, sizeof text));
        number_cell(&table, 2, (double)row->reorder_bytes / 1e6 / (double)row->n_runs);
        number_cell(&table, 3, row->reorder_ms);
    }
    return table_print(&table);
}

static status_t print_first_runs(context_t *ctx, const bench_t *bench)
{
    static const char *const columns[] = {"<first run",    ">load ms", ">prepare ms",
                                          ">inference ms", ">all ms",  ">peak MB"};
    table_t table;
    table_begin(ctx, &table, 6, columns);
    for (int i = 0; i < bench->n_rows; i++) {
        const bench_row_t *row = &bench->rows[i];
        table_cell(&table, "%s", mode_name(row->mode));
        number_cell(&table, 1, row->load_ms);
        number_cell(&table, 1, row->prepare_ms);
        number_cell(&table, 1, row->inference_ms);
        number_cell(&table, 1, first_run_ms(row));
        number_cell(&table, 1, row->peak_rss_mb);
    }
    return table_print(&table);
}

status_t bench_print_tables(context_t *ctx, const bench_t *bench)
{
    print("%s\nbatch %" PRId64 ", %d threads, oneDNN %s, %s; %" PRId64 " runs after %" PRId64
          " of warm-up\n\n",
          bench->spec, bench->batch, bench->n_threads, onednn_version_text(), onednn_isa_text(),
          bench->rows[0].n_runs, bench->n_warm_up);
    TRY(print_times(ctx, bench));
    print("\n");
    TRY(print_reorders(ctx, bench));
    print("\n");
    return print_first_runs(ctx, bench);
}

/* Appends a member. NaN and infinity become null, because JSON lacks them. */
static void json_number(text_t *text, const char *key, int decimals, double number)
{
    if (!isfinite(number))
        text_append(text, ",\"%s\":null", key);
    else if (decimals >= 0)
        text_append(text, ",\"%s\":%.*f", key, decimals, number);
    else
        text_append(text, ",\"%s\":%.6g", key, number);
}

static void json_count(text_t *text, const char *key, const bench_row_t *row, uint64_t sum)
{
    char number[64];
    text_append(text, ",\"%s\":%s", key, bench_per_run(row, sum, number, sizeof number));
}

status_t bench_print_json(context_t *ctx, const bench_t *bench)
{
    text_t text = text_begin(ctx);
    text_append(&text, "{\"model\":");
    text_append_quoted(&text, bench->spec);
    text_append(&text, ",\"batch\":%" PRId64 ",\"threads\":%d,\"onednn\":", bench->batch,
                bench->n_threads);
    text_append_quoted(&text, onednn_version_text());
    text_append(&text, ",\"isa\":");
    text_append_quoted(&text, onednn_isa_text());
    text_append(&text, ",\"rows\":[");
    for (int i = 0; i < bench->n_rows; i++) {
        const bench_row_t *row = &bench->rows[i];
        text_append(&text, "%s{\"mode\":\"%s\"", i > 0 ? "," : "", mode_name(row->mode));
        json_number(&text, "median_ms", 4, row->median_ms);
        json_number(&text, "min_ms", 4, row->min_ms);
        json_number(&text, "speedup", 4, speedup(bench, row));
        json_count(&text, "weight_reorders", row, row->weight_reorders);
        json_count(&text, "activation_reorders", row, row->activation_reorders);
        json_count(&text, "copies", row, row->copies);
        json_count(&text, "reorder_bytes", row, row->reorder_bytes);
        json_number(&text, "reorder_ms", 4, row->reorder_ms);
        json_number(&text, "first_run_ms", 3, first_run_ms(row));
        json_number(&text, "peak_rss_mb", 1, row->peak_rss_mb);
        json_number(&text, "max_rel_diff", -1, row->max_rel_diff);
        json_number(&text, "p90_ms", 4, row->p90_ms);
        json_number(&text, "p99_ms", 4, row->p99_ms);
        json_number(&text, "items_per_s", 3, row->items_per_s);
        json_number(&text, "load_ms", 3, row->load_ms);
        json_number(&text, "prepare_ms", 3, row->prepare_ms);
        json_number(&text, "first_inference_ms", 3, row->inference_ms);
        json_number(&text, "cpu_ms", 4, row->cpu_ms);
        text_append(&text, ",\"runs\":%" PRId64 ",\"warm_up\":%" PRId64 "}", row->n_runs,
                    bench->n_warm_up);
    }
    text_append(&text, "]}");
    status_t status = text_status(&text);
    if (status == STATUS_OK) print("%s\n", text_string(&text));
    text_clear(&text);
    return status;
}
