#include "tools/bench/budget.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/base/try_impl.h"

#include "tools/support/print.h"

/* ---- reading ---- */

/* Reads a model's name, in quotes or up to a space. Returns the text after it, or NULL. */
static const char *read_model(const char *text, char *out_model, size_t size)
{
    text += strspn(text, " \t");
    bool is_quoted = *text == '"';
    if (is_quoted) text++;
    size_t length = strcspn(text, is_quoted ? "\"" : " \t");
    if (length == 0 || length >= size || (is_quoted && text[length] != '"')) return NULL;
    memcpy(out_model, text, length);
    out_model[length] = '\0';
    return text + length + is_quoted;
}

static bool read_line(const char *text, budget_line_t *out_line)
{
    char rest[2];
    const char *behind = read_model(text, out_line->model, sizeof out_line->model);
    return behind != NULL && sscanf(behind, "%15s %15s %" SCNu64 " %" SCNu64 " %" SCNu64 " %1s",
                                    out_line->batch, out_line->mode, &out_line->weight,
                                    &out_line->activation, &out_line->copies, rest) == 5;
}

static status_t add_line(context_t *ctx, budget_t *budget, const budget_line_t *line)
{
    if (budget->n_lines == budget->capacity) {
        int capacity = budget->capacity > 0 ? budget->capacity * 2 : 16;
        budget_line_t *lines = realloc(budget->lines, (size_t)capacity * sizeof *lines);
        if (lines == NULL) FAIL(ctx, STATUS_OUT_OF_MEMORY, "%s: out of memory", budget->path);
        budget->lines = lines;
        budget->capacity = capacity;
    }
    budget->lines[budget->n_lines++] = *line;
    return STATUS_OK;
}

static status_t read_lines(context_t *ctx, FILE *file, budget_t *budget)
{
    char *text = NULL;
    size_t capacity = 0;
    status_t status = STATUS_OK;
    run_mode_t mode;
    for (int number = 1; status == STATUS_OK && getline(&text, &capacity, file) >= 0; number++) {
        budget_line_t line;
        text[strcspn(text, "#\r\n")] = '\0';
        if (text[strspn(text, " \t")] == '\0') continue;
        if (!read_line(text, &line))
            status = context_fail(ctx, STATUS_CORRUPT,
                                  "%s: line %d, must be MODEL BATCH MODE WEIGHT ACTIVATION COPIES",
                                  budget->path, number);
        else if (!mode_parse(line.mode, &mode))
            status = context_fail(ctx, STATUS_CORRUPT, "%s: line %d, \"%s\" is no mode",
                                  budget->path, number, line.mode);
        else
            status = add_line(ctx, budget, &line);
    }
    free(text);
    if (status == STATUS_OK && ferror(file))
        status = context_fail(ctx, STATUS_IO, "%s: %s", budget->path, strerror(errno));
    return status;
}

status_t budget_read(context_t *ctx, const char *path, budget_t *out_budget)
{
    budget_t budget = {.path = path};
    FILE *file = fopen(path, "r");
    if (file == NULL) FAIL(ctx, STATUS_IO, "%s: %s", path, strerror(errno));
    status_t status = read_lines(ctx, file, &budget);
    fclose(file);
    if (status == STATUS_OK)
        *out_budget = budget;
    else
        budget_clear(&budget);
    return status;
}

void budget_clear(budget_t *budget)
{
    free(budget->lines);
    *budget = (budget_t){0};
}

/* ---- checking ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static bool is_meant(const bench_t *bench, const bench_row_t *row, const budget_line_t *line)
{
    char batch[24];
    snprintf(batch, sizeof batch, "%" PRId64, bench->batch);
    return (strcmp(line->model, bench->spec) == 0 ||
            strcmp(line->model, base_name(bench->spec)) == 0) &&
           (strcmp(line->batch, "*") == 0 || strcmp(line->batch, batch) == 0) &&
           strcmp(line->mode, mode_name(row->mode)) == 0;
}

/* Prints a count that differs from its budget. Returns true if the count is higher. */
static bool check_count(const bench_t *bench, const bench_row_t *row, const char *what,
                        uint64_t sum, uint64_t allowed)
{
    char text[64];
    uint64_t n = row->n_runs > 0 ? (uint64_t)row->n_runs : 1;
    if (sum == allowed * n) return false;
    print_error("%s, mode %s: %s %s per inference, the budget is %" PRIu64 "%s\n", bench->spec,
                mode_name(row->mode), bench_per_run(row, sum, text, sizeof text), what, allowed,
                sum > allowed * n ? "" : " and can be lowered");
    return sum > allowed * n;
}

static int check_row(const bench_t *bench, const bench_row_t *row, const budget_line_t *line)
{
    return check_count(bench, row, "weight reorders", row->weight_reorders, line->weight) +
           check_count(bench, row, "activation reorders", row->activation_reorders,
                       line->activation) +
           check_count(bench, row, "copies", row->copies, line->copies);
}

status_t budget_check(context_t *ctx, const bench_t *bench, const budget_t *budget)
{
    int n_risen = 0, n_missed = 0;
    for (int r = 0; r < bench->n_rows; r++) {
        bool is_checked = false;
        for (int i = 0; i < budget->n_lines; i++) {
            if (!is_meant(bench, &bench->rows[r], &budget->lines[i])) continue;
            n_risen += check_row(bench, &bench->rows[r], &budget->lines[i]);
            is_checked = true;
        }
        n_missed += !is_checked;
    }
    REQUIRE(ctx, n_missed < bench->n_rows,
            "%s: no line has %s at batch %" PRId64 " in a mode that was measured", budget->path,
            bench->spec, bench->batch);
    if (n_missed > 0)
        print_error("%s has no line for %d of %d modes\n", budget->path, n_missed, bench->n_rows);
    REQUIRE(ctx, n_risen == 0, "%d counts are above the budget of %s", n_risen, budget->path);
    return STATUS_OK;
}
