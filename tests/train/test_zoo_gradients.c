/* Gradients of the zoo's networks, compared with PyTorch's in f64 for the same weights and images
 * (zoo_gradients.py): operator by operator, with blocked weights, and in a plan. The gradients are
 * read from SGD's momentum, which equals them after the first step. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/dispatch.h"
#include "module/mkldnn.h"
#include "module/zoo.h"
#include "tests/support/drawn.h"
#include "tests/support/nets/losses.h"
#include "train/loss.h"
#include "train/trainer.h"

#define CLASSES 10
#define BATCH 4
#define DIVIDE 8

enum { DENSE, MKLDNN, PLANNED, N_MODES };
static const char *const modes[] = {"dense", "mkldnn", "planned"};

/* Other networks run only if they are named: test_zoo_gradients resnet50. */
static const char *const usual[] = {"squeezenet1_1", "resnet18", "alexnet", "vgg16"};
/* Sanitizers make tests ten times slower. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define N_USUAL 1
#else
#define N_USUAL ((int)(sizeof usual / sizeof *usual))
#endif

static int n_named;
static char **named;

/* ---- PyTorch's ---- */

typedef struct expected {
    char parameter[96];
    double norm, projection, middle;
} expected_t;

typedef struct network {
    int side, picture;
    double loss, rounding, limit; /* limit: difference of a gradient, relative to its norm */
    int n;
    expected_t items[400];
} network_t;

static void read_network(const char *name, network_t *network)
{
    char line[256], first[32], second[96];
    double number[3];
    FILE *file = fopen(TESSERA_SOURCE_DIR "/tests/train/values/zoo_gradients.txt", "r");
    assert_non_null(file);
    network->n = 0;
    network->side = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        const int n = sscanf(line, "%31s %95s %lf %lf %lf", first, second, &number[0], &number[1],
                             &number[2]);
        assert_int_equal(n, 5);
        if (strcmp(first, name) != 0) continue;
        if (network->side == 0) {
            network->side = atoi(second);
            network->picture = (int)number[0];
            network->loss = number[1];
            network->rounding = number[2];
            continue;
        }
        assert_true(network->n < 400);
        expected_t *item = &network->items[network->n++];
        memcpy(item->parameter, second, sizeof second);
        item->norm = number[0];
        item->projection = number[1];
        item->middle = number[2];
    }
    fclose(file);
    assert_true(network->n > 0);
    /* Larger rounding errors can flip the sign of a relu's operand, and then gradients jump. */
    network->limit = network->rounding < 1e-5 ? 1e-3 : 0.02;
}

/* ---- Tessera's ---- */

static void set_dropouts(context_t *ctx, module_t *module)
{
    static const char *const paths[] = {"classifier.0.p", "classifier.2.p", "classifier.3.p",
                                        "classifier.5.p", "dropout.p"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        datum_t *zero = NULL;
        CHECK_OK(ctx, datum_float(ctx, 0.0, &zero));
        if (module_set_attribute(ctx, module, paths[i], zero) != STATUS_OK)
            context_clear_error(ctx);
        datum_release(zero);
    }
}

static tensor_t *draw_pictures(context_t *ctx, const network_t *network)
{
    char key[16];
    tensor_t *x = NULL;
    void *bytes = NULL;
    snprintf(key, sizeof key, "x%d", network->picture);
    CHECK_OK(ctx, tensor_empty(ctx, DTYPE_F32, SHAPE(BATCH, 3, network->side, network->side), &x));
    CHECK_OK(ctx, tensor_data_mutable(ctx, x, &bytes));
    drawn_fill(key, 0.0, 1.0, tensor_numel(x), bytes);
    return x;
}

/* Returns the largest difference of norm, projection and middle element, relative to the norm. */
static double compare(context_t *ctx, const expected_t *expected, const tensor_t *gradient)
{
    char key[128];
    const int64_t n = tensor_numel(gradient);
    float *elements = malloc((size_t)n * sizeof *elements);
    float *probe = malloc((size_t)n * sizeof *probe);
    double squares = 0.0, projection = 0.0;
    assert_non_null(elements);
    assert_non_null(probe);
    snprintf(key, sizeof key, "probe.%s", expected->parameter);
    drawn_fill(key, 0.0, 1.0, n, probe);
    CHECK_OK(ctx, tensor_read(ctx, gradient, elements, (size_t)n * sizeof *elements));
    for (int64_t i = 0; i < n; i++) {
        squares += (double)elements[i] * (double)elements[i];
        projection += (double)elements[i] * (double)probe[i];
    }
    const double differences[] = {sqrt(squares) - expected->norm, projection - expected->projection,
                                  (double)elements[n / 2] - expected->middle};
    double worst = 0.0;
    for (int i = 0; i < 3; i++) worst = fmax(worst, fabs(differences[i]) / expected->norm);
    free(elements);
    free(probe);
    return isnan(projection) ? INFINITY : worst;
}

static int find_parameter(const optimizer_t *optimizer, const char *name)
{
    for (int i = 0; i < optimizer_n_parameters(optimizer); i++)
        if (strcmp(optimizer_name(optimizer, i), name) == 0) return i;
    return -1;
}

static void check_gradients(context_t *ctx, const char *name, int mode, const network_t *network,
                            const optimizer_t *optimizer)
{
    double worst = 0.0;
    for (int i = 0; i < network->n; i++) {
        const expected_t *expected = &network->items[i];
        const int index = find_parameter(optimizer, expected->parameter);
        if (index < 0) fail_msg("%s has no parameter %s", name, expected->parameter);
        const tensor_t *gradient = optimizer_state(optimizer, index, 0);
        assert_non_null(gradient);
        const double difference = compare(ctx, expected, gradient);
        if (!(difference <= network->limit))
            fail_msg("%s, %s: the gradient of %s differs from PyTorch's by %g of its norm", name,
                     modes[mode], expected->parameter, difference);
        worst = fmax(worst, difference);
    }
    print_message("%s, %s: gradients %.2g, limit %.2g\n", name, modes[mode], worst, network->limit);
}

static void run_step(context_t *ctx, const char *name, int mode, const network_t *network)
{
    const zoo_options_t zoo = {.n_classes = CLASSES, .divide = DIVIDE};
    const train_options_t options = {.mode = mode == PLANNED ? TRAIN_PLANNED : TRAIN_EAGER};
    sgd_options_t sgd = sgd_options(1e-9);
    module_t *module = NULL;
    optimizer_t *optimizer = NULL;
    trainer_t *trainer = NULL;
    double loss = 0.0;
    sgd.momentum = 0.9;
    CHECK_OK(ctx, dispatch_set_policy(ctx, mode == DENSE ? POLICY_PER_OP : POLICY_AUTO));
    CHECK_OK(ctx, zoo_create(ctx, name, &zoo, &module, NULL));
    drawn_weights(ctx, module);
    set_dropouts(ctx, module);
    if (mode != DENSE) CHECK_OK(ctx, module_mkldnn(ctx, module, NULL));
    CHECK_OK(ctx, optimizer_sgd(ctx, module, &sgd, &optimizer));
    CHECK_OK(ctx, trainer_create(ctx, module, losses_cross_entropy, NULL, optimizer, &options,
                                 &trainer));
    tensor_t *x = draw_pictures(ctx, network);
    tensor_t *labels = drawn_integers(ctx, "labels", CLASSES, SHAPE(BATCH));
    CHECK_OK(ctx, trainer_step(ctx, trainer, 1, (const tensor_t *const *)&x, labels, NULL, &loss));
    if (!(fabs(loss - network->loss) <= 1e-4 * network->loss))
        fail_msg("%s, %s: the loss is %.9g, PyTorch's %.9g", name, modes[mode], loss,
                 network->loss);
    check_gradients(ctx, name, mode, network, optimizer);
    trainer_destroy(trainer);
    optimizer_destroy(optimizer);
    module_release(module);
    tensor_release(x);
    tensor_release(labels);
}

static void gradients_of_the_zoo_are_those_of_pytorch(void **state)
{
    static network_t network;
    for (int i = 0; i < (n_named > 0 ? n_named : N_USUAL); i++) {
        const char *name = n_named > 0 ? named[i] : usual[i];
        read_network(name, &network);
        for (int mode = 0; mode < N_MODES; mode++)
            run_step(fixture_context(state), name, mode, &network);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {TEST(gradients_of_the_zoo_are_those_of_pytorch)};
    n_named = argc - 1;
    named = argv + 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
