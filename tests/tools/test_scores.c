/* Runs the zoo with pseudo-random weights in every mode, and compares scores with torchvision's
 * networks in PyTorch. scores.py writes scores.txt. */
#include "tools/support/mode.h"

#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "module/zoo.h"
#include "tests/support/drawn.h"
#include "tests/support/nets/networks.h"

enum { N_IMAGES = 2, N_CLASSES = 10 };

/* ---- weights and images, like `value` in scores.py ---- */

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), n = strlen(end);
    return length >= n && strcmp(text + length - n, end) == 0;
}

static status_t fill(context_t *ctx, const char *key, tensor_t *tensor)
{
    int rank = tensor_rank(tensor);
    const int64_t n = tensor_numel(tensor);
    double shift = 0, scale = 0.125; /* bias, running_mean */
    if (strcmp(key, "images") == 0) {
        scale = 2.0;
    } else if (rank > 1) {
        scale = sqrt(6.0 / (double)(n / tensor_sizes(tensor)[0]));
    } else if (ends_with(key, "weight")) {
        shift = 0.75, scale = 0.25;
    } else if (ends_with(key, "running_var")) {
        shift = 1.0, scale = 0.5;
    }
    void *data = NULL;
    TRY(tensor_data_mutable(ctx, tensor, &data));
    drawn_fill(key, shift, scale, n, data);
    return STATUS_OK;
}

static status_t fill_module(context_t *ctx, void *user, const char *path, module_t *module)
{
    (void)user;
    for (int i = 0; i < module_n_members(module); i++) {
        member_kind_t kind;
        char key[128];
        const char *name = module_member(module, i, &kind);
        if (kind != MEMBER_PARAMETER && kind != MEMBER_BUFFER) continue;
        if (strcmp(name, "num_batches_tracked") == 0) continue;
        tensor_t *tensor = kind == MEMBER_PARAMETER ? module_parameter(module, name)
                                                    : module_buffer(module, name);
        snprintf(key, sizeof key, "%s.%s", path, name);
        if (tensor != NULL) TRY(fill(ctx, key, tensor));
    }
    return STATUS_OK;
}

/* ---- a network in a mode ---- */

static void begin(context_t *ctx, const char *name, int64_t size, run_mode_t mode, runner_t *runner)
{
    zoo_options_t options = {.n_classes = N_CLASSES};
    model_t model = {.spec = name, .kind = MODEL_ZOO, .n_inputs = 1};
    tensor_t **images = &model.inputs[0].tensor;
    CHECK_OK(ctx, zoo_create(ctx, name, &options, &model.module, NULL));
    CHECK_OK(ctx, module_walk(ctx, model.module, fill_module, NULL));
    CHECK_OK(ctx, tensor_empty(ctx, DTYPE_F32, SHAPE(N_IMAGES, 3, size, size), images));
    CHECK_OK(ctx, fill(ctx, "images", *images));
    model.inputs[0].info = *tensor_info(*images);
    CHECK_OK(ctx, mode_prepare(ctx, &model, mode, runner));
    model_clear(&model);
}

/* Errors relative to the largest score of an image. Measured are 3.2e-6, and 1.3e-5 for frozen
 * AlexNet and VGG, whose linear layers have weights of 3 bytes an element. */
#define TOLERANCE 1e-5
#define TOLERANCE_FROZEN 2e-5

static void check_scores(const char *name, run_mode_t mode, const float *got, const double *wanted)
{
    for (int image = 0; image < N_IMAGES; image++) {
        double largest = 0, error = 0;
        for (int i = image * N_CLASSES; i < (image + 1) * N_CLASSES; i++) {
            largest = fmax(largest, fabs(wanted[i]));
            double difference = fabs((double)got[i] - wanted[i]);
            error = isnan(difference) ? INFINITY : fmax(error, difference);
        }
        if (error > (mode == MODE_FROZEN ? TOLERANCE_FROZEN : TOLERANCE) * largest)
            fail_msg("%s, mode %s: scores of image %d are off by %g of the largest", name,
                     mode_name(mode), image, error / largest);
    }
}

static void check_mode(const char *name, int64_t size, run_mode_t mode, const double *wanted)
{
    context_t *ctx = NULL;
    runner_t runner;
    tensor_t *out[METHOD_MAX_OUTPUTS];
    float scores[N_IMAGES * N_CLASSES];
    int n_out = 0;
    assert_int_equal(context_create(NULL, &ctx), STATUS_OK);
    begin(ctx, name, size, mode, &runner);
    CHECK_OK(ctx, mode_run(&runner, &n_out, out));
    assert_int_equal(n_out, 1);
    CHECK_OK(ctx, tensor_read(ctx, out[0], scores, sizeof scores));
    check_scores(name, mode, scores, wanted);
    mode_release_outputs(n_out, out);
    mode_clear(&runner);
    context_destroy(ctx);
}

/* Checks a network. Its line in scores.txt is "resnet18 63 3.7 -0.94 ...". */
static void check_network(const char *name)
{
    char line[1024];
    double wanted[N_IMAGES * N_CLASSES];
    const size_t length = strlen(name);
    FILE *file = fopen(TESSERA_SOURCE_DIR "/tests/tools/scores.txt", "r");
    assert_non_null(file);
    do {
        if (fgets(line, sizeof line, file) == NULL) fail_msg("scores.txt has no line of %s", name);
    } while (strncmp(line, name, length) != 0 || line[length] != ' ');
    fclose(file);
    char *end = NULL;
    const int64_t size = strtol(line + length, &end, 10);
    for (int i = 0; i < N_IMAGES * N_CLASSES; i++) {
        char *begin = end;
        wanted[i] = strtod(begin, &end);
        assert_true(end != begin);
    }
    for (int mode = MODE_DENSE; mode < MODE_COUNT; mode++)
        check_mode(name, size, (run_mode_t)mode, wanted);
}

#define NETWORK(name)                                                                              \
    static void name##_gives_the_scores_of_torchvision(void **state)                               \
    {                                                                                              \
        (void)state;                                                                               \
        check_network(#name);                                                                      \
    }

#define NETWORK_TEST(name) cmocka_unit_test(name##_gives_the_scores_of_torchvision),

#ifdef NDEBUG
#define ALL(X) NETWORKS(X)
#else
#define ALL(X) NETWORKS_BUT_VGG(X)
#endif

ALL(NETWORK)

int main(void)
{
    const struct CMUnitTest tests[] = {ALL(NETWORK_TEST)};
    return cmocka_run_group_tests_name("scores", tests, NULL, NULL);
}
