/* What a frozen network costs above the primitives in it: wall time of an inference without
 * oneDNN's verbose output, over the sum of times that a child process with verbose output reports
 * for one.
 *
 * usage: overhead [NETWORK] [PAIRS] [SIZE]
 * (default: resnet50, 5 pairs, interleaved, pictures of the network's own size; prints the least
 * ratio, and the least time above the primitives for a step of the plan. Small pictures show the
 * latter best: TESSERA_THREADS=1 overhead resnet18 9 32) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera.h>
#include <time.h>
#include <unistd.h>

#include "tools/try.h"

enum { ITERATIONS = 50 };
#define MARK "overhead: iteration\n"

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

/* size 0: the network's own. */
static status_t load(context_t *ctx, const char *name, int64_t size, module_t **out_frozen,
                     tensor_t **out_image)
{
    module_t *net = NULL;
    int64_t own_size = 224;
    status_t status = zoo_create(ctx, name, NULL, &net, &own_size);
    if (size == 0) size = own_size;
    if (status == STATUS_OK)
        status = tensor_randn(ctx, DTYPE_F32, SHAPE(1, 3, size, size), out_image);
    if (status == STATUS_OK)
        status = graph_trace(ctx, net, "forward", 1, (const tensor_t *[]){*out_image});
    if (status == STATUS_OK) status = freeze(ctx, net, NULL, out_frozen);
    module_release(net);
    return status;
}

/* Least wall time of an inference; with marks, a line before each. */
static status_t run(context_t *ctx, module_t *frozen, const tensor_t *image, bool marks,
                    double *out_ms)
{
    double least = 1e30;
    for (int i = 0; i < ITERATIONS; i++) {
        tensor_t *scores = NULL;
        if (marks) {
            fputs(MARK, stdout);
            fflush(stdout);
        }
        double begin = now_ms();
        status_t status = module_forward(ctx, frozen, image, &scores);
        double ms = now_ms() - begin;
        tensor_release(scores);
        if (status != STATUS_OK) return status;
        if (ms < least) least = ms;
    }
    *out_ms = least;
    return STATUS_OK;
}

/* Sums the last field of execution lines between marks, and gives the least sum. */
static double least_sum(FILE *log)
{
    char line[4096];
    double least = 1e30, sum = -1.0;
    while (fgets(line, sizeof line, log) != NULL) {
        const char *comma = strrchr(line, ',');
        if (strcmp(line, MARK) == 0) {
            if (sum > 0.0 && sum < least) least = sum;
            sum = 0.0;
        } else if (sum >= 0.0 && strstr(line, ",exec,cpu,") != NULL && comma != NULL) {
            sum += strtod(comma + 1, NULL);
        }
    }
    return sum > 0.0 && sum < least ? sum : least;
}

static double verbose_ms(const char *self, const char *name, int64_t size)
{
    char command[1024];
    snprintf(command, sizeof command, "ONEDNN_VERBOSE=1 '%s' --child '%s' %lld", self, name,
             (long long)size);
    FILE *log = popen(command, "r");
    if (log == NULL) return -1.0;
    double ms = least_sum(log);
    pclose(log);
    return ms;
}

/* Wall and primitives in turn; prints a line for each pair, then the least. */
static status_t compare(context_t *ctx, const char *self, const char *name, int64_t size, int pairs,
                        module_t *frozen, const tensor_t *image)
{
    double wall, least_ratio = 1e30, least_us = 1e30;
    TRY(run(ctx, frozen, image, false, &wall)); /* builds the plan */
    int n_steps = plan_n_steps(plan_of(frozen, "forward"));
    for (int i = 0; i < pairs; i++) {
        TRY(run(ctx, frozen, image, false, &wall));
        double primitives = verbose_ms(self, name, size);
        double ratio = wall / primitives, us = (wall - primitives) * 1e3 / n_steps;
        printf("%s: wall %.3f ms, primitives %.3f ms, ratio %.3f, %.3f us above for each of %d "
               "steps\n",
               name, wall, primitives, ratio, us, n_steps);
        if (ratio < least_ratio) least_ratio = ratio;
        if (us < least_us) least_us = us;
    }
    printf("%s: least ratio %.3f, least time above a step %.3f us\n", name, least_ratio, least_us);
    return STATUS_OK;
}

int main(int argc, char **argv)
{
    bool is_child = argc > 2 && strcmp(argv[1], "--child") == 0;
    const char *name = is_child ? argv[2] : argc > 1 ? argv[1] : "resnet50";
    int pairs = !is_child && argc > 2 ? atoi(argv[2]) : 5;
    int64_t size = argc > 3 ? atoll(argv[3]) : 0;
    context_t *ctx = NULL;
    module_t *frozen = NULL;
    tensor_t *image = NULL;
    double wall = 0.0;
    if (context_create(NULL, &ctx) != STATUS_OK) return 1;
    status_t status = load(ctx, name, size, &frozen, &image);
    if (status == STATUS_OK && is_child)
        status = run(ctx, frozen, image, true, &wall);
    else if (status == STATUS_OK)
        status = compare(ctx, argv[0], name, size, pairs, frozen, image);
    if (status != STATUS_OK) fprintf(stderr, "overhead: %s\n", context_error(ctx));
    tensor_release(image);
    module_release(frozen);
    context_destroy(ctx);
    return status == STATUS_OK ? 0 : 1;
}
