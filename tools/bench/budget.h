/* Budgets of reorders: a file of lines "MODEL BATCH MODE WEIGHT ACTIVATION COPIES". The last three
 * are limits for the weight reorders, activation reorders and copies of an inference.
 *
 *   # comments and blank lines
 *   resnet50.onnx * frozen 0 0 0
 *   "models/my net.onnx" 1 mkldnn 0 2 0
 *
 * MODEL is the model's path as passed to bench, or its last part; put it in quotes if it contains
 * spaces. BATCH is a number, or * for any. */
#ifndef TESSERA_TOOLS_BENCH_BUDGET_H
#define TESSERA_TOOLS_BENCH_BUDGET_H

#include "tools/bench/bench.h"

typedef struct budget_line {
    char model[256], batch[16], mode[16];
    uint64_t weight, activation, copies;
} budget_line_t;

typedef struct budget {
    const char *path; /* borrowed */
    int n_lines, capacity;
    budget_line_t *lines;
} budget_t;

/* Reads the file. Call it before measuring, so that a wrong line is reported early. IO, CORRUPT. */
status_t budget_read(context_t *ctx, const char *path, budget_t *out_budget);
void budget_clear(budget_t *budget);

/* Prints on stderr the counts that are above or below their budget, and how many modes have no
 * line. INVALID_ARGUMENT if a count exceeds its budget, or if no measured mode has a line. */
status_t budget_check(context_t *ctx, const bench_t *bench, const budget_t *budget);

#endif
