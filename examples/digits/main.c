/* Trains a network on handwritten digits with blocked weights, freezes it, saves it, and loads it.
 * The trained, the frozen and the loaded network must predict the same digits.
 *
 *     digits examples/digits [EPOCHS [FILE.tessera]]
 *
 * The folder has images.npy and labels.npy. The exit code is 1 if the predictions differ. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "digits.h"

enum { EPOCHS = 12 };

static bool check(const context_t *ctx, status_t status)
{
    if (status != STATUS_OK) fprintf(stderr, "digits: %s\n", context_error(ctx));
    return status == STATUS_OK;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void print_epoch(void *user, int64_t epoch, double loss)
{
    (void)user;
    printf("epoch %2lld  loss %.4f\n", (long long)epoch + 1, loss);
}

/* Trains a new network. Its weights are blocked from the first step to the last. */
static bool train(context_t *ctx, dataset_t *data, int64_t n_epochs, module_t **out_network)
{
    counters_t counters;
    double begin = now();
    context_seed(ctx, 1);
    if (!check(ctx, digits_network(ctx, out_network)) ||
        !check(ctx, module_mkldnn(ctx, *out_network, NULL)) ||
        !check(ctx, digits_train(ctx, *out_network, data, n_epochs, print_epoch, NULL)))
        return false;
    counters_read(ctx, &counters);
    printf("%.1f s; reorders: %llu of weights, %llu of gradients, %llu of activations\n",
           now() - begin, (unsigned long long)counters_weight_reorders(&counters),
           (unsigned long long)counters_gradient_reorders(&counters),
           (unsigned long long)counters_activation_reorders(&counters));
    return true;
}

static void print_accuracy(const int64_t *read, const int64_t *digits)
{
    int n_right = 0;
    for (int i = 0; i < DIGITS_TEST_N; i++) n_right += read[i] == digits[i];
    printf("held out: %d of %d right, %.2f %%\n", n_right, DIGITS_TEST_N,
           100.0 * n_right / DIGITS_TEST_N);
}

/* Returns true if the network predicts the wanted digits, and prints an error otherwise. */
static bool reads_alike(context_t *ctx, const char *name, module_t *network, const tensor_t *x,
                        const int64_t *wanted)
{
    int64_t read[DIGITS_TEST_N];
    if (!check(ctx, digits_predict(ctx, network, x, DIGITS_TEST_N, read))) return false;
    if (memcmp(read, wanted, sizeof read) == 0) return true;
    fprintf(stderr, "digits: the %s network predicts other digits than the trained one\n", name);
    return false;
}

static bool freeze_and_compare(context_t *ctx, module_t *network, const tensor_t *x,
                               const int64_t *wanted, const char *path)
{
    module_t *frozen = NULL, *loaded = NULL;
    bool is_done = check(ctx, graph_trace(ctx, network, "forward", 1, &x)) &&
                   check(ctx, freeze(ctx, network, NULL, &frozen)) &&
                   reads_alike(ctx, "frozen", frozen, x, wanted) &&
                   check(ctx, freeze_save(ctx, frozen, path)) &&
                   check(ctx, freeze_load(ctx, path, &loaded)) &&
                   reads_alike(ctx, "loaded", loaded, x, wanted);
    if (is_done) printf("frozen, saved and loaded: the same digits each time\n");
    module_release(loaded);
    module_release(frozen);
    return is_done;
}

static bool run(context_t *ctx, const char *folder, int64_t n_epochs, const char *path)
{
    static int64_t digits[DIGITS_TEST_N], read[DIGITS_TEST_N];
    dataset_t *data = NULL, *test = NULL;
    module_t *network = NULL;
    tensor_t *x = NULL;
    bool is_done = check(ctx, digits_load(ctx, folder, &data, &test)) &&
                   check(ctx, digits_test_batch(ctx, test, &x, digits)) &&
                   train(ctx, data, n_epochs, &network) &&
                   check(ctx, digits_predict(ctx, network, x, DIGITS_TEST_N, read));
    if (is_done) print_accuracy(read, digits);
    is_done = is_done && freeze_and_compare(ctx, network, x, read, path);
    tensor_release(x);
    module_release(network);
    dataset_release(test);
    dataset_release(data);
    return is_done;
}

int main(int argc, char **argv)
{
    context_t *ctx = NULL;
    long n_epochs = argc > 2 ? strtol(argv[2], NULL, 10) : EPOCHS;
    if (argc < 2 || argc > 4 || n_epochs < 1) {
        fprintf(stderr, "usage: digits FOLDER [EPOCHS [FILE.tessera]]\n");
        return 2;
    }
    if (!check(NULL, context_create(NULL, &ctx))) return EXIT_FAILURE;
    bool is_done = run(ctx, argv[1], n_epochs, argc > 3 ? argv[3] : "digits.tessera");
    context_destroy(ctx);
    return is_done ? EXIT_SUCCESS : EXIT_FAILURE;
}
