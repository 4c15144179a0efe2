/* Measures the time and memory of a model up to its first result.
 *
 * usage: startup FILE.tessera|FILE.onnx [copied] [unchecked] [hold]
 *
 * Loads a frozen file with these options (freeze_load_options_t), or an ONNX file with
 * onnx_load_frozen, and prints one line: ms of context_create and loading; ms from then to the
 * first result; ms of a run in steady state; weight reorders up to the first result; whether the
 * model was imported; bytes of the arena, and resident and private bytes of this process. With
 * `hold`, the process then waits for the end of its standard input. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera.h>
#include <time.h>

enum { STEADY = 10 };

typedef struct startup {
    double load_ms, first_ms, steady_ms;
    unsigned long long weight_reorders, imported;
    size_t arena_bytes;
} startup_t;

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static status_t run(context_t *ctx, module_t *frozen, const tensor_t *input)
{
    tensor_t *result = NULL;
    status_t status = module_forward(ctx, frozen, input, &result);
    tensor_release(result);
    return status;
}

static status_t measure(context_t *ctx, module_t *frozen, double begin, startup_t *out)
{
    const graph_t *graph = graph_of(frozen, "forward");
    const graph_block_t *body = graph_body(graph);
    const graph_type_t *type = graph_value_type(graph, body->params[body->n_params - 1]);
    tensor_t *input = NULL;
    counters_t counters;
    double made = now_ms();
    status_t status = tensor_randn(ctx, DTYPE_F32, type->info.rank, type->info.sizes, &input);
    double start = now_ms();
    if (status == STATUS_OK) status = run(ctx, frozen, input);
    double end = now_ms();
    counters_read(ctx, &counters);
    out->load_ms = made - begin;
    out->first_ms = made - begin + end - start;
    out->weight_reorders = counters_weight_reorders(&counters);
    out->imported = counters.models_imported;
    out->arena_bytes = plan_arena_bytes(plan_of(frozen, "forward"));
    out->steady_ms = 1e30;
    for (int i = 0; status == STATUS_OK && i < STEADY; i++) {
        start = now_ms();
        status = run(ctx, frozen, input);
        end = now_ms();
        if (end - start < out->steady_ms) out->steady_ms = end - start;
    }
    tensor_release(input);
    return status;
}

/* Reads a field of the process's memory statistics in /proc, in kB. */
static long memory_kb(const char *field)
{
    char line[256];
    long kb = 0, sum = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, field, strlen(field)) == 0 &&
            sscanf(strchr(line, ':') + 1, "%ld", &kb) == 1)
            sum += kb;
    if (file != NULL) fclose(file);
    return sum;
}

static bool parse(int argc, char **argv, freeze_load_options_t *options, bool *out_holds)
{
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "copied") == 0)
            options->is_copied = true;
        else if (strcmp(argv[i], "unchecked") == 0)
            options->is_unchecked = true;
        else if (strcmp(argv[i], "hold") == 0)
            *out_holds = true;
        else
            return false;
    }
    return argc >= 2;
}

static status_t load(context_t *ctx, const char *path, const freeze_load_options_t *options,
                     module_t **out_frozen)
{
    const char *end = strrchr(path, '.');
    if (end != NULL && strcmp(end, ".onnx") == 0)
        return onnx_load_frozen(ctx, path, NULL, NULL, out_frozen);
    return freeze_load_with(ctx, path, options, out_frozen);
}

int main(int argc, char **argv)
{
    context_t *ctx = NULL;
    module_t *frozen = NULL;
    startup_t result = {0};
    freeze_load_options_t options = {0};
    bool holds = false;
    if (!parse(argc, argv, &options, &holds)) {
        fprintf(stderr, "usage: startup FILE [copied] [unchecked] [hold]\n");
        return 2;
    }
    double begin = now_ms();
    if (context_create(NULL, &ctx)) return 1;
    status_t status = load(ctx, argv[1], &options, &frozen);
    if (status == STATUS_OK) status = measure(ctx, frozen, begin, &result);
    if (status != STATUS_OK) {
        fprintf(stderr, "startup: %s\n", context_error(ctx));
    } else {
        printf("{\"load_ms\": %.2f, \"first_ms\": %.2f, \"steady_ms\": %.2f, "
               "\"weight_reorders\": %llu, \"imported\": %llu, \"arena_kb\": %zu, "
               "\"resident_kb\": %ld, \"private_kb\": %ld}\n",
               result.load_ms, result.first_ms, result.steady_ms, result.weight_reorders,
               result.imported, result.arena_bytes / 1024, memory_kb("Rss:"),
               memory_kb("Private_"));
        fflush(stdout);
        if (holds) (void)getchar();
    }
    module_release(frozen);
    context_destroy(ctx);
    return status != STATUS_OK;
}
