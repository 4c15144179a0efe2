/* Measures limits of the machine: the rate of f32 multiply-adds, and of reading and copying memory
 * in pages of 4 KB and in huge pages.
 *
 * usage: limits [THREADS] [SAMPLES]    (default: the context's threads, 15 samples)
 *
 * The best sample counts, since other programs can only make a sample slower. */
#include <stdio.h>
#include <stdlib.h>
#include <tessera.h>

#include "support/limit.h"

enum { MEGABYTES = 512 };

static void keep_more(double value, double *best)
{
    if (value > *best) *best = value;
}

static int measure(int n_threads, int n_samples)
{
    const size_t bytes = (size_t)MEGABYTES << 20;
    double fma = 0, read[2] = {0}, copy[2] = {0};
    for (int is_huge = 0; is_huge < 2; is_huge++) {
        float *memory = limit_make(bytes, is_huge != 0, n_threads);
        if (memory == NULL) {
            fprintf(stderr, "limits: no memory\n");
            return 1;
        }
        for (int i = 0; i < n_samples; i++) {
            keep_more(limit_fma(n_threads), &fma);
            keep_more(limit_read(memory, bytes, n_threads), &read[is_huge]);
            keep_more(limit_copy(memory, bytes, n_threads), &copy[is_huge]);
        }
        limit_free(memory, bytes);
    }
    printf("%d threads: %.0f GFLOP/s f32\n", n_threads, fma);
    printf("%-24s %8s %8s\n", "GB/s", "read", "copied");
    printf("%-24s %8.1f %8.1f\n", "pages of 4 KB", read[0], copy[0]);
    printf("%-24s %8.1f %8.1f\n", "huge pages", read[1], copy[1]);
    return 0;
}

int main(int argc, char **argv)
{
    context_t *ctx = NULL;
    if (context_create(NULL, &ctx) != STATUS_OK) return 1;
    const int n_threads = argc > 1 ? atoi(argv[1]) : context_threads(ctx);
    const int n_samples = argc > 2 ? atoi(argv[2]) : 15;
    context_destroy(ctx);
    if (argc > 3 || n_threads < 1 || n_samples < 1) {
        fprintf(stderr, "usage: limits [THREADS] [SAMPLES]\n");
        return 2;
    }
    return measure(n_threads, n_samples);
}
