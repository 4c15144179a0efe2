/* Finds the steady state of a log: the sequence that repeats at the end. */
#include "tools/audit/audit.h"

/* Compares the log with the log without its last i executions, from their ends backwards:
 * out_matches[i] is the number of executions that are equal before the first difference. This is
 * the Z function of the reversed log, computed in linear time. */
static void match_suffixes(size_t n, const audit_execution_t *executions, size_t *out_matches)
{
    size_t left = 0, right = 0;
    out_matches[0] = n;
    for (size_t i = 1; i < n; i++) {
        size_t length = 0;
        if (i < right) {
            length = right - i;
            if (out_matches[i - left] < length) length = out_matches[i - left];
        }
        while (i + length < n &&
               executions[n - 1 - length].signature == executions[n - 1 - i - length].signature)
            length++;
        out_matches[i] = length;
        if (i + length > right) {
            left = i;
            right = i + length;
        }
    }
}

/* Finds a sequence whose repetitions end with execution n - 1. */
static bool find_at_end(size_t n, const audit_execution_t *executions, size_t *scratch,
                        audit_steady_t *out_steady)
{
    size_t covered = 0;
    match_suffixes(n, executions, scratch);
    for (size_t length = 1; length <= n / 2; length++) {
        size_t n_times = (length + scratch[length]) / length;
        if (n_times < 2 || n_times * length <= covered) continue;
        covered = n_times * length;
        *out_steady = (audit_steady_t){n - covered, length, (int64_t)n_times};
    }
    return covered > 0;
}

bool audit_find_steady(size_t n, const audit_execution_t *executions, size_t *scratch,
                       audit_steady_t *out_steady)
{
    for (size_t tail = 0; tail <= AUDIT_MAX_TAIL && tail < n; tail++) {
        audit_steady_t steady;
        if (!find_at_end(n - tail, executions, scratch, &steady)) continue;
        if (steady.length * (size_t)steady.n_times < (n + 3) / 4) continue;
        *out_steady = steady;
        return true;
    }
    return false;
}
