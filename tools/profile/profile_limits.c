/* Measures the limits of this machine, to compare the times of nodes with them. */
#include <math.h>

#include "perf/support/limit.h"
#include "tools/profile/profile.h"

#define FIRST_BYTES ((size_t)16 << 10) /* each further size is 4 times larger, up to 256 MB */
#define N_SAMPLES 15 /* the best one counts: other programs can only slow a sample */

static double best_read(const float *memory, size_t bytes, int n_threads)
{
    double best = 0;
    for (int i = 0; i < N_SAMPLES; i++) best = fmax(best, limit_read(memory, bytes, n_threads));
    return best;
}

bool profile_measure_limits(int n_threads, profile_limits_t *limits)
{
    const size_t most = FIRST_BYTES << (2 * (PROFILE_N_SIZES - 1));
    profile_limits_t now = {.gflops = 0};
    float *memory = limit_make(most, true, n_threads);
    if (memory == NULL) return false;
    for (int i = 0; i < N_SAMPLES; i++) now.gflops = fmax(now.gflops, limit_fma(n_threads));
    for (int i = PROFILE_N_SIZES - 1; i >= 0; i--) {
        const size_t bytes = FIRST_BYTES << (2 * i);
        now.bytes[i] = (double)bytes;
        now.gbs[i] = best_read(memory, bytes, n_threads);
        if (i + 1 < PROFILE_N_SIZES) now.gbs[i] = fmax(now.gbs[i], now.gbs[i + 1]);
    }
    limit_free(memory, most);
    limits->gflops = fmax(limits->gflops, now.gflops);
    for (int i = 0; i < PROFILE_N_SIZES; i++) {
        limits->bytes[i] = now.bytes[i];
        limits->gbs[i] = fmax(limits->gbs[i], now.gbs[i]);
    }
    return true;
}

/* The read rate for a size of data: linear in the size's logarithm between two measured sizes. */
static double rate_of(const profile_limits_t *limits, double bytes)
{
    if (bytes <= limits->bytes[0]) return limits->gbs[0];
    for (int i = 1; i < PROFILE_N_SIZES; i++) {
        if (bytes > limits->bytes[i]) continue;
        const double at = log(bytes / limits->bytes[i - 1]) /
                          log(limits->bytes[i] / limits->bytes[i - 1]);
        return limits->gbs[i - 1] + at * (limits->gbs[i] - limits->gbs[i - 1]);
    }
    return limits->gbs[PROFILE_N_SIZES - 1];
}

double profile_limit_ns(const profile_limits_t *limits, const profile_node_t *node)
{
    const double bytes = (double)node->bytes;
    const bool is_f32 = node->n_out > 0 && node->out[0].dtype == DTYPE_F32;
    return fmax(is_f32 ? node->flops / limits->gflops : 0, bytes / rate_of(limits, bytes));
}
