/* A checkpoint continues training with the same bits. If it does not fit, nothing changes. A
 * process that is killed while saving leaves a complete file. */
#include "tests/support/nets/losses.h"
#include "tests/support/scratch.h"
#include "tests/support/support.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "io/safetensors/checkpoint.h"
#include "io/safetensors/safetensors.h"
#include "module/layers/layers.h"
#include "module/mkldnn.h"
#include "module/state_dict.h"
#include "train/loss.h"
#include "train/trainer.h"

#ifdef TESSERA_HAVE_SAFETENSORS

static char path[128];

static int begin_directory(void **state)
{
    const int status = scratch_begin(state);
    snprintf(path, sizeof path, "%s/a.safetensors", scratch);
    return status;
}

/* Makes a convolution and a linear layer for f32[n,3,4,4]. */
static status_t make_net(context_t *ctx, int64_t channels, module_t **out)
{
    module_t *layers[4] = {NULL}, *net = NULL;
    const conv_attrs_t attrs = {.padding = {1, 1}};
    TRY(layer_sequential(ctx, &net));
    status_t status = layer_conv(ctx, 2, 3, channels, (const int64_t[]){3, 3}, &attrs, true,
                                 &layers[0]);
    if (status == STATUS_OK) status = layer_activation(ctx, ELTWISE_RELU, 0, 0, &layers[1]);
    if (status == STATUS_OK) status = layer_flatten(ctx, 1, -1, &layers[2]);
    if (status == STATUS_OK) status = layer_linear(ctx, channels * 16, 5, true, &layers[3]);
    int n = 0;
    while (n < 4 && status == STATUS_OK) status = layer_append_take(ctx, net, layers[n++]);
    for (; n < 4; n++) module_release(layers[n]);
    if (status == STATUS_OK) status = module_mkldnn(ctx, net, NULL);
    if (status != STATUS_OK) {
        module_release(net);
        return status;
    }
    *out = net;
    return STATUS_OK;
}

/* The objects that a checkpoint saves and loads. */
typedef struct training {
    context_t *ctx;
    module_t *net;
    optimizer_t *optimizer;
    trainer_t *trainer;
} training_t;

static void begin(context_t *ctx, uint64_t seed, int64_t channels, train_mode_t mode,
                  training_t *training)
{
    *training = (training_t){.ctx = ctx};
    context_seed(ctx, seed);
    CHECK_OK(ctx, make_net(ctx, channels, &training->net));
    CHECK_OK(ctx, optimizer_adamw(ctx, training->net, NULL, &training->optimizer));
    CHECK_OK(ctx,
             trainer_create(ctx, training->net, losses_cross_entropy, NULL, training->optimizer,
                            &(train_options_t){.mode = mode}, &training->trainer));
}

static void end(training_t *training)
{
    trainer_destroy(training->trainer);
    optimizer_destroy(training->optimizer);
    module_release(training->net);
}

/* Trains on random batches, which continue the context's sequence of random numbers. */
static void run(training_t *training, int n_steps)
{
    context_t *ctx = training->ctx;
    for (int step = 0; step < n_steps; step++) {
        tensor_t *x = NULL, *labels = NULL;
        double loss = 0.0;
        CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, 4, (int64_t[]){4, 3, 4, 4}, &x));
        CHECK_OK(ctx,
                 tensor_from(ctx, DTYPE_S64, 1, (int64_t[]){4}, (int64_t[]){0, 4, 2, 1}, &labels));
        CHECK_OK(ctx, trainer_step(ctx, training->trainer, 1, (const tensor_t *const *)&x, labels,
                                   NULL, &loss));
        tensor_release(x);
        tensor_release(labels);
    }
}

/* Capacity for all weights and states of a training. */
enum { MAX_BYTES = 65536 };

static size_t read_all(const training_t *training, char *bytes)
{
    context_t *ctx = training->ctx;
    const optimizer_t *optimizer = training->optimizer;
    size_t n = 0;
    for (int i = 0; i < optimizer_n_parameters(optimizer); i++) {
        const tensor_t *tensors[] = {optimizer_parameter(optimizer, i),
                                     optimizer_state(optimizer, i, 0),
                                     optimizer_state(optimizer, i, 1)};
        for (int t = 0; t < 3; t++) {
            if (tensors[t] == NULL) continue;
            CHECK_OK(ctx, tensor_read(ctx, tensors[t], bytes + n, MAX_BYTES - n));
            n += (size_t)tensor_numel(tensors[t]) * sizeof(float);
        }
    }
    return n;
}

static void check_resumed(context_t *ctx, train_mode_t mode)
{
    static char whole[MAX_BYTES], resumed[MAX_BYTES];
    training_t training;
    begin(ctx, 7, 17, mode, &training);
    run(&training, 3);
    CHECK_OK(ctx, optimizer_set_lr(ctx, training.optimizer, 0.0123));
    CHECK_OK(ctx, checkpoint_save(ctx, training.net, training.optimizer, path, NULL));
    run(&training, 3);
    const size_t n = read_all(&training, whole);
    end(&training);
    begin(ctx, 8, 17, mode, &training);
    run(&training, 1);
    CHECK_OK(ctx, checkpoint_load(ctx, training.net, training.optimizer, path, NULL));
    assert_int_equal(optimizer_n_steps(training.optimizer), 3);
    assert_true(optimizer_lr(training.optimizer) == 0.0123);
    run(&training, 3);
    assert_int_equal(tensor_layout(optimizer_state(training.optimizer, 0, 0)), LAYOUT_MKLDNN);
    assert_int_equal(read_all(&training, resumed), n);
    assert_memory_equal(resumed, whole, n);
    end(&training);
}

static void a_training_that_was_loaded_goes_on_with_the_same_bits(void **state)
{
    check_resumed(fixture_context(state), TRAIN_EAGER);
    check_resumed(fixture_context(state), TRAIN_PLANNED);
}

static datum_t *make_metadata(context_t *ctx, const char *key, const char *text)
{
    datum_t *value = NULL, *dict = NULL;
    CHECK_OK(ctx, datum_dict(ctx, 0, NULL, NULL, &dict));
    CHECK_OK(ctx, datum_string(ctx, text, &value));
    CHECK_OK(ctx, datum_put(ctx, dict, key, value));
    datum_release(value);
    return dict;
}

static void weights_are_plain_in_the_file_and_metadata_comes_back(void **state)
{
    context_t *ctx = fixture_context(state);
    training_t training;
    datum_t *metadata = make_metadata(ctx, "epoch", "12"), *found = NULL;
    safetensors_t *file = NULL;
    tensor_t *weight = NULL;
    double difference = 1.0;
    begin(ctx, 7, 3, TRAIN_EAGER, &training);
    run(&training, 1);
    CHECK_OK(ctx, checkpoint_save(ctx, training.net, training.optimizer, path, metadata));
    CHECK_OK(ctx, safetensors_open(ctx, path, &file));
    CHECK_OK(ctx, safetensors_tensor(ctx, file, "0.weight", &weight));
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, weight, module_parameter(training.net, "0.weight"),
                                      &difference));
    assert_true(difference == 0.0);
    assert_string_equal(safetensors_metadata(file, "tessera.optimizer"), "adamw");
    assert_non_null(safetensors_find(file, "optimizer.0.weight.exp_avg"));
    safetensors_close(file);
    tensor_release(weight);
    /* the optimizer may be NULL */
    CHECK_OK(ctx, checkpoint_load(ctx, training.net, NULL, path, &found));
    assert_int_equal(datum_length(found), 1);
    assert_string_equal(datum_as_string(datum_find(found, "epoch")), "12");
    datum_release(found);
    datum_release(metadata);
    end(&training);
}

/* ---- checkpoints that do not fit ---- */

/* Saves only the module, with this metadata and an invalid random state. */
static void save_with(context_t *ctx, module_t *module, const char *key, const char *text)
{
    datum_t *metadata = make_metadata(ctx, key, text), *value = NULL;
    CHECK_OK(ctx, datum_string(ctx, "nothing", &value));
    CHECK_OK(ctx, datum_put(ctx, metadata, "tessera.random", value));
    CHECK_OK(ctx, module_save_safetensors(ctx, module, path, metadata));
    datum_release(value);
    datum_release(metadata);
}

static void a_checkpoint_that_does_not_fit_changes_nothing(void **state)
{
    context_t *ctx = fixture_context(state);
    static char before[MAX_BYTES], after[MAX_BYTES];
    training_t training, other;
    optimizer_t *sgd = NULL;
    datum_t *found = NULL;
    begin(ctx, 7, 3, TRAIN_EAGER, &training);
    begin(ctx, 8, 7, TRAIN_EAGER, &other);
    run(&training, 2);
    run(&other, 1);
    const size_t n = read_all(&other, before);
    CHECK_OK(ctx, optimizer_sgd(ctx, other.net, NULL, &sgd));
    CHECK_OK(ctx, checkpoint_save(ctx, training.net, training.optimizer, path, NULL));
    CHECK_FAILS(ctx, checkpoint_load(ctx, other.net, sgd, path, &found), STATUS_INVALID_ARGUMENT,
                "was saved with optimizer adamw, sgd is given");
    CHECK_FAILS(ctx, checkpoint_load(ctx, other.net, other.optimizer, path, NULL),
                STATUS_INVALID_ARGUMENT,
                "optimizer_load_state_dict: \"0.weight.exp_avg\" is f32[3,3,3,3]");
    CHECK_FAILS(ctx, checkpoint_load(ctx, other.net, NULL, path, NULL), STATUS_INVALID_ARGUMENT,
                "load_state_dict: \"0.weight\" is [3,3,3,3], Sequential has [7,3,3,3]");
    CHECK_OK(ctx, checkpoint_save(ctx, training.net, NULL, path, NULL));
    CHECK_FAILS(ctx, checkpoint_load(ctx, other.net, other.optimizer, path, NULL),
                STATUS_INVALID_ARGUMENT, "was saved without an optimizer, adamw is given");
    save_with(ctx, training.net, "epoch", "1");
    CHECK_FAILS(ctx, checkpoint_load(ctx, other.net, NULL, path, NULL), STATUS_INVALID_ARGUMENT,
                "is no checkpoint, \"tessera.checkpoint\" is missing");
    save_with(ctx, training.net, "tessera.checkpoint", "2");
    CHECK_FAILS(ctx, checkpoint_load(ctx, other.net, NULL, path, NULL), STATUS_UNSUPPORTED,
                "is a checkpoint of version 2, this library reads 1");
    save_with(ctx, training.net, "tessera.checkpoint", "1");
    CHECK_FAILS(ctx, checkpoint_load(ctx, other.net, NULL, path, NULL), STATUS_CORRUPT,
                "\"tessera.random\" is no state of random numbers");
    assert_null(found);
    assert_int_equal(read_all(&other, after), n);
    assert_memory_equal(before, after, n);
    optimizer_destroy(sgd);
    end(&training);
    end(&other);
}

static void names_and_types_that_do_not_fit_are_told(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *module = NULL, *child = NULL;
    tensor_t *weight = NULL, *wide = NULL;
    datum_t *metadata = make_metadata(ctx, "tessera.mine", "1"), *text = NULL;
    CHECK_OK(ctx, datum_string(ctx, "text", &text));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, 1, (int64_t[]){2}, 1.0, &weight));
    CHECK_OK(ctx, tensor_cast(ctx, weight, DTYPE_F64, &wide));
    CHECK_OK(ctx, module_create(ctx, "Holder", &module));
    CHECK_OK(ctx, module_set_parameter(ctx, module, "weight", weight));
    CHECK_FAILS(ctx, checkpoint_save(ctx, module, NULL, path, metadata), STATUS_INVALID_ARGUMENT,
                "keys that begin with \"tessera.\" are the library's");
    CHECK_FAILS(ctx, checkpoint_save(ctx, module, NULL, path, text), STATUS_INVALID_ARGUMENT,
                "checkpoint_save: metadata is string, must be a dict of strings");
    CHECK_OK(ctx, checkpoint_save(ctx, module, NULL, path, NULL));
    CHECK_OK(ctx, module_set_parameter(ctx, module, "weight", wide));
    CHECK_FAILS(ctx, checkpoint_load(ctx, module, NULL, path, NULL), STATUS_INVALID_ARGUMENT,
                "\"weight\" is of type F32, the module has f64");
    CHECK_OK(ctx, module_create(ctx, "Holder", &child));
    CHECK_OK(ctx, module_set_parameter(ctx, child, "lr", weight));
    CHECK_OK(ctx, module_set_child(ctx, module, "optimizer", child));
    CHECK_FAILS(ctx, checkpoint_save(ctx, module, NULL, path, NULL), STATUS_INVALID_ARGUMENT,
                "names that begin with \"optimizer.\" are the optimizer's");
    module_release(module);
    module_release(child);
    tensor_release(weight);
    tensor_release(wide);
    datum_release(metadata);
    datum_release(text);
}

/* ---- memory and signals ---- */

static status_t step_and_save(context_t *ctx, module_t *net, optimizer_t *optimizer)
{
    tensor_t *gradients[4] = {NULL};
    status_t status = STATUS_OK;
    for (int i = 0; i < 4 && status == STATUS_OK; i++)
        status = tensor_clone(ctx, optimizer_parameter(optimizer, i), &gradients[i]);
    if (status == STATUS_OK) status = optimizer_step(ctx, optimizer, gradients);
    for (int i = 0; i < 4; i++) tensor_release(gradients[i]);
    if (status == STATUS_OK) status = checkpoint_save(ctx, net, optimizer, path, NULL);
    return status;
}

/* Loads the checkpoint. If that fails, the weights must not have changed. */
static status_t load_or_nothing(context_t *ctx, module_t *net, optimizer_t *optimizer)
{
    static float before[512], after[512];
    tensor_t *weight = module_parameter(net, "0.weight");
    TRY(tensor_fill(ctx, weight, 2.0));
    TRY(tensor_read(ctx, weight, before, sizeof before));
    const status_t status = checkpoint_load(ctx, net, optimizer, path, NULL);
    if (status != STATUS_OK && tensor_read(ctx, weight, after, sizeof after) == STATUS_OK)
        assert_memory_equal(before, after, (size_t)tensor_numel(weight) * sizeof(float));
    return status;
}

static status_t scenario(context_t *ctx)
{
    module_t *net = NULL;
    optimizer_t *optimizer = NULL;
    TRY(make_net(ctx, 3, &net));
    status_t status = optimizer_adamw(ctx, net, NULL, &optimizer);
    if (status == STATUS_OK) status = step_and_save(ctx, net, optimizer);
    if (status == STATUS_OK) status = load_or_nothing(ctx, net, optimizer);
    optimizer_destroy(optimizer);
    module_release(net);
    return status;
}

static void a_refused_allocation_leaves_weights_as_they_were(void **state)
{
    (void)state;
    check_allocations_by_turns(scenario);
}

static size_t read_file(char *bytes)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t n = fread(bytes, 1, MAX_BYTES, file);
    fclose(file);
    assert_true(n < MAX_BYTES);
    return n;
}

/* Counts files that were being written when the process was killed. There are none on file systems
 * that support unnamed files. */
static int count_temporaries(void)
{
    int n = 0;
    DIR *folder = opendir(scratch);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        n += strstr(entry->d_name, ".tmp") != NULL;
    closedir(folder);
    return n;
}

/* Saves the two trainings in turn until the process is killed. */
static void save_for_ever(const training_t *trainings)
{
    for (int i = 0;; i = 1 - i)
        if (checkpoint_save(trainings[i].ctx, trainings[i].net, trainings[i].optimizer, path,
                            NULL) != STATUS_OK)
            _exit(1);
}

static void a_killed_save_leaves_a_whole_checkpoint(void **state)
{
    context_t *ctx = fixture_context(state);
    enum { ROUNDS = 200 };
    static char whole[2][MAX_BYTES], found[MAX_BYTES];
    training_t trainings[2];
    size_t n[2];
    int n_left = 0;
    CHECK_OK(ctx, context_set_threads(ctx, 1)); /* fork copies no other threads */
    for (int i = 0; i < 2; i++) begin(ctx, (uint64_t)i, 7, TRAIN_EAGER, &trainings[i]);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(ctx, checkpoint_save(ctx, trainings[i].net, trainings[i].optimizer, path, NULL));
        n[i] = read_file(whole[i]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) save_for_ever(trainings);
        const struct timespec pause = {.tv_nsec = 1000000 + rand() % 9000000};
        nanosleep(&pause, NULL);
        int status = 0;
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        const size_t n_found = read_file(found);
        const int which = n_found == n[0] && memcmp(found, whole[0], n[0]) == 0 ? 0 : 1;
        assert_int_equal(n_found, n[which]);
        assert_memory_equal(found, whole[which], n[which]);
        n_left += count_temporaries();
    }
    CHECK_OK(ctx, checkpoint_save(ctx, trainings[0].net, trainings[0].optimizer, path, NULL));
    assert_int_equal(count_temporaries(), 0);
    CHECK_OK(ctx, checkpoint_load(ctx, trainings[0].net, trainings[0].optimizer, path, NULL));
    print_message("%d times a temporary was found after %d kills\n", n_left, ROUNDS);
    for (int i = 0; i < 2; i++) end(&trainings[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_training_that_was_loaded_goes_on_with_the_same_bits),
        TEST(weights_are_plain_in_the_file_and_metadata_comes_back),
        TEST(a_checkpoint_that_does_not_fit_changes_nothing),
        TEST(names_and_types_that_do_not_fit_are_told),
        TEST(a_refused_allocation_leaves_weights_as_they_were),
        TEST(a_killed_save_leaves_a_whole_checkpoint),
    };
    srand(11);
    return cmocka_run_group_tests_name("checkpoint", tests, begin_directory, scratch_end);
}

#else

static void a_build_without_jansson_says_so(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *module = NULL;
    CHECK_OK(ctx, module_create(ctx, "Holder", &module));
    CHECK_FAILS(ctx, checkpoint_save(ctx, module, NULL, "/tmp/none.safetensors", NULL),
                STATUS_UNSUPPORTED, "this build has no jansson");
    CHECK_FAILS(ctx, checkpoint_load(ctx, module, NULL, "/tmp/none.safetensors", NULL),
                STATUS_UNSUPPORTED, "this build has no jansson");
    module_release(module);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(a_build_without_jansson_says_so)};
    return cmocka_run_group_tests_name("checkpoint", tests, NULL, NULL);
}

#endif
