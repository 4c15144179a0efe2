/* The example finetune trains MiniLM's last layers on topics, with blocked weights, and changes no
 * other layer. Saved and loaded weights must predict the same. tools/models downloads MiniLM. */
#include "tests/support/support.h"

#ifdef TESSERA_HAVE_SAFETENSORS

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "examples/finetune/finetune.h"
#include "examples/minilm/minilm.h"

#define FOLDER TESSERA_SOURCE_DIR "/build/models/minilm"
#define SENTENCES TESSERA_SOURCE_DIR "/examples/finetune/sentences.txt"

/* Sanitizers make training ten times slower. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { EPOCHS = 1 };
#else
enum { EPOCHS = 4 };
#endif
enum { WANTED = 58 /* 90 % of 64 sentences */ };

static bool is_there(void)
{
    FILE *file = fopen(FOLDER "/model.safetensors", "rb");
    if (file != NULL) fclose(file);
    return file != NULL;
}

static void note(void *user, int64_t epoch, double loss)
{
    ((double *)user)[epoch] = loss;
}

static int count_right(const finetune_data_t *data, const int64_t *topics)
{
    int n = 0;
    for (int i = 0; i < FINETUNE_TEST_N; i++) n += topics[i] == data->wanted[FINETUNE_TRAIN_N + i];
    return n;
}

/* Checks the topics predicted by a new network with the weights of a file. */
static void check_loaded(context_t *ctx, const finetune_data_t *data, const char *path,
                         const int64_t *wanted)
{
    int64_t topics[FINETUNE_TEST_N];
    module_t *front = NULL, *network = NULL;
    CHECK_OK(ctx, finetune_network(ctx, FOLDER, &front, &network));
    CHECK_OK(ctx, module_load_safetensors(ctx, network, path, true));
    CHECK_OK(ctx, finetune_predict(ctx, network, data, topics));
    assert_memory_equal(topics, wanted, sizeof topics);
    module_release(front);
    module_release(network);
}

/* Sums all weights of a layer's first linear operator. */
static double sum_up(context_t *ctx, const module_t *front)
{
    static float weight[MINILM_WIDTH * MINILM_WIDTH];
    double sum = 0.0;
    CHECK_OK(ctx, tensor_read(
                      ctx, module_parameter(front, "encoder.layer.3.attention.self.query.weight"),
                      weight, sizeof weight));
    for (int i = 0; i < MINILM_WIDTH * MINILM_WIDTH; i++) sum += (double)weight[i];
    return sum;
}

static void the_last_layers_learn_topics_and_are_saved(void **state)
{
    context_t *ctx = fixture_context(state);
    char path[] = "/tmp/tessera_topics_XXXXXX";
    int64_t before[FINETUNE_TEST_N], after[FINETUNE_TEST_N];
    double losses[EPOCHS];
    counters_t counters;
    module_t *front = NULL, *network = NULL;
    finetune_data_t data;
    if (!is_there()) skip_without("tools/models");
    context_seed(ctx, 1);
    CHECK_OK(ctx, finetune_network(ctx, FOLDER, &front, &network));
    CHECK_OK(ctx, finetune_read(ctx, front, FOLDER, SENTENCES, &data));
    const double frozen = sum_up(ctx, front);
    assert_null(module_child(network, "back.encoder.layer.3"));
    assert_non_null(module_child(network, "back.encoder.layer.4"));
    CHECK_OK(ctx, finetune_predict(ctx, network, &data, before));
    CHECK_OK(ctx, module_mkldnn(ctx, network, NULL));
    counters_reset(ctx);
    CHECK_OK(ctx, finetune_train(ctx, network, &data, EPOCHS, note, losses));
    counters_read(ctx, &counters);
    assert_int_equal(counters_gradient_reorders(&counters), 0);
    assert_true(losses[EPOCHS - 1] < 1.3); /* guessing gives log 5 = 1.61 */
    assert_true(sum_up(ctx, front) == frozen);
    CHECK_OK(ctx, finetune_predict(ctx, network, &data, after));
    print_message("%d right before, %d after, of %d; losses %g to %g\n", count_right(&data, before),
                  count_right(&data, after), FINETUNE_TEST_N, losses[0], losses[EPOCHS - 1]);
    assert_true(count_right(&data, before) < WANTED / 2);
    assert_in_range(count_right(&data, after), WANTED, FINETUNE_TEST_N);
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    CHECK_OK(ctx, module_save_safetensors(ctx, network, path, NULL));
    check_loaded(ctx, &data, path, after);
    unlink(path);
    finetune_release(&data);
    module_release(front);
    module_release(network);
}

/* Running front and then back must equal running the model. */
static void two_halves_are_the_whole(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t ids[] = {101, 1996, 3712, 2003, 2630, 102};
    module_t *model = NULL, *front = NULL, *back = NULL;
    tensor_t *in[2] = {NULL, NULL}, *x = NULL, *vectors = NULL, *whole = NULL;
    double difference = 1.0;
    int n_out = 0;
    if (!is_there()) skip_without("tools/models");
    CHECK_OK(ctx, minilm_load(ctx, FOLDER "/model.safetensors", &model));
    CHECK_OK(ctx, minilm_split(ctx, model, FINETUNE_FROZEN, &front, &back));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, SHAPE(1, 6), ids, &in[0]));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_BOOL, SHAPE(1, 6), 1, &in[1]));
    const tensor_t *const *inputs = (const tensor_t *const *)in;
    CHECK_OK(ctx, module_call_tensors(ctx, model, "forward", 2, inputs, &n_out, &whole));
    CHECK_OK(ctx, module_call_tensors(ctx, front, "forward", 2, inputs, &n_out, &x));
    tensor_release(in[0]);
    in[0] = x;
    CHECK_OK(ctx, module_call_tensors(ctx, back, "forward", 2, inputs, &n_out, &vectors));
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, vectors, whole, &difference));
    assert_true(difference < 1e-6);
    tensor_release(in[0]);
    tensor_release(in[1]);
    tensor_release(vectors);
    tensor_release(whole);
    module_release(front);
    module_release(back);
    module_release(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(two_halves_are_the_whole),
        TEST(the_last_layers_learn_topics_and_are_saved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0;
}

#endif
