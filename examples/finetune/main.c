/* Teaches MiniLM the topics of sentences: trains its last two layers and a new linear layer, saves
 * their weights, and loads them into a new network, which must predict the same.
 *
 *     finetune build/models/minilm examples/finetune [EPOCHS [FILE.safetensors]]
 *
 * The first folder is the one that the example minilm uses; the second has sentences.txt. The exit
 * code is 1 if the loaded network predicts differently. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "finetune.h"

enum { EPOCHS = 4, PATH_BYTES = 4096 };

static bool check(const context_t *ctx, status_t status)
{
    if (status != STATUS_OK) fprintf(stderr, "finetune: %s\n", context_error(ctx));
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

static bool say(context_t *ctx, module_t *network, const finetune_data_t *data, const char *when,
                int64_t *out_topics)
{
    int n_right = 0;
    if (!check(ctx, finetune_predict(ctx, network, data, out_topics))) return false;
    for (int i = 0; i < FINETUNE_TEST_N; i++)
        n_right += out_topics[i] == data->wanted[FINETUNE_TRAIN_N + i];
    printf("held out, %s: %d of %d right, %.1f %%\n", when, n_right, FINETUNE_TEST_N,
           100.0 * n_right / FINETUNE_TEST_N);
    return true;
}

/* Trains the network. Its weights are blocked from the first step to the last. */
static bool train(context_t *ctx, module_t *network, const finetune_data_t *data, int64_t n_epochs,
                  int64_t *out_topics)
{
    counters_t counters;
    if (!say(ctx, network, data, "before", out_topics) ||
        !check(ctx, module_mkldnn(ctx, network, NULL)))
        return false;
    counters_reset(ctx);
    const double begin = now();
    if (!check(ctx, finetune_train(ctx, network, data, n_epochs, print_epoch, NULL))) return false;
    counters_read(ctx, &counters);
    printf("%.1f s; reorders: %llu of weights, %llu of gradients, %llu of activations\n",
           now() - begin, (unsigned long long)counters_weight_reorders(&counters),
           (unsigned long long)counters_gradient_reorders(&counters),
           (unsigned long long)counters_activation_reorders(&counters));
    return say(ctx, network, data, "after", out_topics);
}

static bool load_and_compare(context_t *ctx, const char *folder, const finetune_data_t *data,
                             const char *path, const int64_t *wanted)
{
    int64_t topics[FINETUNE_TEST_N];
    module_t *front = NULL, *network = NULL;
    bool is_done = check(ctx, finetune_network(ctx, folder, &front, &network)) &&
                   check(ctx, module_load_safetensors(ctx, network, path, true)) &&
                   check(ctx, finetune_predict(ctx, network, data, topics));
    if (is_done && memcmp(topics, wanted, sizeof topics) != 0) {
        fprintf(stderr,
                "finetune: the loaded network predicts other topics than the trained one\n");
        is_done = false;
    }
    if (is_done) printf("saved and loaded: the same topics\n");
    module_release(front);
    module_release(network);
    return is_done;
}

static bool run(context_t *ctx, const char *folder, const char *texts, int64_t n_epochs,
                const char *path)
{
    char sentences[PATH_BYTES];
    int64_t topics[FINETUNE_TEST_N];
    finetune_data_t data = {.x = NULL};
    module_t *front = NULL, *network = NULL;
    snprintf(sentences, sizeof sentences, "%s/sentences.txt", texts);
    context_seed(ctx, 1);
    bool is_done = check(ctx, finetune_network(ctx, folder, &front, &network)) &&
                   check(ctx, finetune_read(ctx, front, folder, sentences, &data)) &&
                   train(ctx, network, &data, n_epochs, topics) &&
                   check(ctx, module_save_safetensors(ctx, network, path, NULL)) &&
                   load_and_compare(ctx, folder, &data, path, topics);
    finetune_release(&data);
    module_release(front);
    module_release(network);
    return is_done;
}

int main(int argc, char **argv)
{
    context_t *ctx = NULL;
    long n_epochs = argc > 3 ? strtol(argv[3], NULL, 10) : EPOCHS;
    if (argc < 3 || argc > 5 || n_epochs < 1) {
        fprintf(stderr, "usage: finetune FOLDER SENTENCES [EPOCHS [FILE.safetensors]]\n");
        return 2;
    }
    if (!check(NULL, context_create(NULL, &ctx))) return EXIT_FAILURE;
    bool is_done = run(ctx, argv[1], argv[2], n_epochs, argc > 4 ? argv[4] : "topics.safetensors");
    context_destroy(ctx);
    return is_done ? EXIT_SUCCESS : EXIT_FAILURE;
}
