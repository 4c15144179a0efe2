/* What a frozen network costs above the primitives in it: wall time of an inference without
 * oneDNN's verbose output, over the sum of times that a child process with verbose output reports
 * for one.
 *
 * usage: overhead [NETWORK] [PAIRS]    (default: resnet50, 5 pairs, interleaved; prints the least
 * ratio) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera.h>
#include <time.h>
#include <unistd.h>

enum { ITERATIONS = 20 };
#define MARK "overhead: iteration\n"

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static status_t load(context_t *ctx, const char *name, module_t **out_frozen, tensor_t **out_image)
{
    module_t *net = NULL;
    int64_t size = 224;
    status_t status = zoo_create(ctx, name, NULL, &net, &size);
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

static double verbose_ms(const char *self, const char *name)
{
    char command[1024];
    snprintf(command, sizeof command, "ONEDNN_VERBOSE=1 '%s' --child '%s'", self, name);
    FILE *log = popen(command, "r");
    if (log == NULL) return -1.0;
    double ms = least_sum(log);
    pclose(log);
    return ms;
}

int main(int argc, char **argv)
{
    bool is_child = argc > 2 && strcmp(argv[1], "--child") == 0;
    const char *name = is_child ? argv[2] : argc > 1 ? argv[1] : "resnet50";
    int pairs = !is_child && argc > 2 ? atoi(argv[2]) : 5;
    context_t *ctx = NULL;
    module_t *frozen = NULL;
    tensor_t *image = NULL;
    double wall = 0.0, least = 1e30;
    if (context_create(NULL, &ctx) != STATUS_OK) return 1;
    status_t status = load(ctx, name, &frozen, &image);
    if (status == STATUS_OK && is_child) status = run(ctx, frozen, image, true, &wall);
    for (int i = 0; i < pairs && status == STATUS_OK && !is_child; i++) {
        status = run(ctx, frozen, image, false, &wall);
        double primitives = verbose_ms(argv[0], name);
        printf("%s: wall %.2f ms, primitives %.2f ms, ratio %.3f\n", name, wall, primitives,
               wall / primitives);
        if (wall / primitives < least) least = wall / primitives;
    }
    if (status != STATUS_OK) fprintf(stderr, "overhead: %s\n", context_error(ctx));
    if (status == STATUS_OK && !is_child) printf("%s: least ratio %.3f\n", name, least);
    tensor_release(image);
    module_release(frozen);
    context_destroy(ctx);
    return status == STATUS_OK ? 0 : 1;
}
