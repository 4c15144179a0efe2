#include "module/zoo.h"

#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "module/state_dict.h"
#include "tensor/context_impl.h"
#include "tensor/scope.h"
#include "tensor/tensor_impl.h"

/* For each of torchvision's networks: numbers of parameters and of tensors in the state dict, and
 * some keys. */
typedef struct known {
    const char *name;
    int64_t n_parameters;
    int n_keys;
    struct {
        int index;
        const char *key;
        int rank;
        int64_t sizes[4];
    } keys[4];
} known_t;

static const known_t known[] = {
    {"alexnet",
     61100840,
     16,
     {{0, "features.0.weight", 4, {64, 3, 11, 11}},
      {9, "features.10.bias", 1, {256}},
      {10, "classifier.1.weight", 2, {4096, 9216}},
      {15, "classifier.6.bias", 1, {1000}}}},
    {"vgg16",
     138357544,
     32,
     {{0, "features.0.weight", 4, {64, 3, 3, 3}},
      {24, "features.28.weight", 4, {512, 512, 3, 3}},
      {26, "classifier.0.weight", 2, {4096, 25088}},
      {31, "classifier.6.bias", 1, {1000}}}},
    {"resnet18",
     11689512,
     122,
     {{0, "conv1.weight", 4, {64, 3, 7, 7}},
      {6, "layer1.0.conv1.weight", 4, {64, 64, 3, 3}},
      {42, "layer2.0.downsample.0.weight", 4, {128, 64, 1, 1}},
      {121, "fc.bias", 1, {1000}}}},
    {"resnet50",
     25557032,
     320,
     {{5, "bn1.num_batches_tracked", 0, {0}},
      {6, "layer1.0.conv1.weight", 4, {64, 64, 1, 1}},
      {24, "layer1.0.downsample.0.weight", 4, {256, 64, 1, 1}},
      {318, "fc.weight", 2, {1000, 2048}}}},
    {"resnext50_32x4d",
     25028904,
     320,
     {{6, "layer1.0.conv1.weight", 4, {128, 64, 1, 1}},
      {12, "layer1.0.conv2.weight", 4, {128, 4, 3, 3}},
      {306, "layer4.2.conv2.weight", 4, {1024, 32, 3, 3}},
      {319, "fc.bias", 1, {1000}}}},
    {"mobilenet_v2",
     3504872,
     314,
     {{6, "features.1.conv.0.0.weight", 4, {32, 1, 3, 3}},
      {12, "features.1.conv.1.weight", 4, {16, 32, 1, 1}},
      {18, "features.2.conv.0.0.weight", 4, {96, 16, 1, 1}},
      {312, "classifier.1.weight", 2, {1000, 1280}}}},
    {"densenet121",
     7978856,
     727,
     {{0, "features.conv0.weight", 4, {64, 3, 7, 7}},
      {11, "features.denseblock1.denselayer1.conv1.weight", 4, {128, 64, 1, 1}},
      {720, "features.norm5.weight", 1, {1024}},
      {725, "classifier.weight", 2, {1000, 1024}}}},
    {"squeezenet1_1",
     1235496,
     52,
     {{0, "features.0.weight", 4, {64, 3, 3, 3}},
      {2, "features.3.squeeze.weight", 4, {16, 64, 1, 1}},
      {48, "features.12.expand3x3.weight", 4, {256, 64, 3, 3}},
      {50, "classifier.1.weight", 4, {1000, 512, 1, 1}}}},
    {"googlenet",
     6624904,
     344,
     {{0, "conv1.conv.weight", 4, {64, 3, 7, 7}},
      {18, "inception3a.branch1.conv.weight", 4, {64, 192, 1, 1}},
      {30, "inception3a.branch2.1.conv.weight", 4, {128, 96, 3, 3}},
      {342, "fc.weight", 2, {1000, 1024}}}},
};
#define N_KNOWN (sizeof known / sizeof known[0])

static status_t count(context_t *ctx, void *user, const char *path, module_t *module)
{
    (void)ctx;
    (void)path;
    for (int i = 0; i < module_n_members(module); i++) {
        member_kind_t kind;
        const char *name = module_member(module, i, &kind);
        const tensor_t *tensor = kind == MEMBER_PARAMETER ? module_parameter(module, name) : NULL;
        if (tensor != NULL) *(int64_t *)user += tensor_numel(tensor);
    }
    return STATUS_OK;
}

static void check_known(context_t *ctx, const known_t *wanted)
{
    module_t *net = NULL;
    datum_t *dict = NULL;
    int64_t size = 0, n_parameters = 0;
    CHECK_OK(ctx, zoo_create(ctx, wanted->name, NULL, &net, &size));
    CHECK_OK(ctx, module_walk(ctx, net, count, &n_parameters));
    CHECK_OK(ctx, module_state_dict(ctx, net, &dict));
    assert_int_equal(size, 224);
    assert_int_equal(n_parameters, wanted->n_parameters);
    assert_int_equal(datum_length(dict), wanted->n_keys);
    for (int i = 0; i < 4; i++) {
        int index = wanted->keys[i].index;
        assert_string_equal(datum_key(dict, index), wanted->keys[i].key);
        const tensor_t *tensor = datum_as_tensor(datum_item(dict, index));
        assert_true(shape_equal(tensor_rank(tensor), tensor_sizes(tensor), wanted->keys[i].rank,
                                wanted->keys[i].sizes));
    }
    datum_release(dict);
    module_release(net);
}

static void networks_have_the_parameters_of_torchvision(void **state)
{
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < N_KNOWN; i++) {
        assert_string_equal(zoo_names()[i], known[i].name);
        check_known(ctx, &known[i]);
    }
    assert_null(zoo_names()[N_KNOWN]);
}

static void divided_widths_divide_evenly_down_to_eight(void **state)
{
    context_t *ctx = fixture_context(state);
    static const int64_t divisors[] = {2, 3, 8, 1000};
    for (const char *const *name = zoo_names(); *name != NULL; name++) {
        for (int i = 0; i < 4; i++) {
            module_t *net = NULL;
            zoo_options_t options = {.divide = divisors[i], .n_classes = 10};
            if (divisors[i] < 8 && strcmp(*name, "vgg16") == 0) continue; /* too large even so */
            CHECK_OK(ctx, zoo_create(ctx, *name, &options, &net, NULL));
            module_release(net);
        }
    }
    module_t *net = NULL;
    zoo_options_t options = {.divide = 8};
    CHECK_OK(ctx, zoo_create(ctx, "resnext50_32x4d", &options, &net, NULL));
    assert_int_equal(tensor_sizes(module_parameter(net, "layer1.0.conv2.weight"))[0], 16);
    assert_int_equal(tensor_sizes(module_parameter(net, "layer1.0.conv2.weight"))[1], 4);
    module_release(net);
}

static void weights_follow_the_seed_and_nothing_else(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *first = NULL, *second = NULL, *other = NULL;
    zoo_options_t options = {.divide = 8, .seed = 7};
    double difference = -1;
    context_seed(ctx, 1);
    uint64_t wanted = context_random(ctx);
    context_seed(ctx, 1);
    CHECK_OK(ctx, zoo_create(ctx, "resnet18", &options, &first, NULL));
    assert_true(context_random(ctx) == wanted);
    CHECK_OK(ctx, zoo_create(ctx, "resnet18", &options, &second, NULL));
    options.seed = 8;
    CHECK_OK(ctx, zoo_create(ctx, "resnet18", &options, &other, NULL));
    const tensor_t *weight = module_parameter(first, "layer3.1.conv2.weight");
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, module_parameter(second, "layer3.1.conv2.weight"),
                                      weight, &difference));
    assert_true(difference == 0);
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, module_parameter(other, "layer3.1.conv2.weight"), weight,
                                      &difference));
    assert_true(difference > 0.1);
    module_release(other);
    module_release(second);
    module_release(first);
}

/* Checks that activations neither vanish nor explode, and that scores depend on the image. */
static void check_scores(context_t *ctx, const char *name)
{
    enum { N_CLASSES = 16 };
    module_t *net = NULL;
    zoo_options_t options = {.divide = 8, .n_classes = N_CLASSES};
    CHECK_OK(ctx, zoo_create(ctx, name, &options, &net, NULL));
    CHECK_OK(ctx, scope_begin(ctx));
    tensor_t *x = NULL, *y = NULL;
    float scores[2 * N_CLASSES];
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(2, 3, 64, 64), &x));
    CHECK_OK(ctx, module_forward(ctx, net, x, &y));
    assert_true(shape_equal(tensor_rank(y), tensor_sizes(y), SHAPE(2, N_CLASSES)));
    CHECK_OK(ctx, tensor_read(ctx, y, scores, sizeof scores));
    double largest = 0, difference = 0;
    for (int i = 0; i < N_CLASSES; i++) {
        assert_true(isfinite(scores[i]) && isfinite(scores[N_CLASSES + i]));
        largest = fmax(largest, fabs((double)scores[i]));
        difference = fmax(difference, fabs((double)scores[i] - (double)scores[N_CLASSES + i]));
    }
    if (largest < 0.05 || largest > 200 || difference < 1e-3 * largest)
        fail_msg("%s: largest score %g, two images differ by %g", name, largest, difference);
    CHECK_OK(ctx, scope_end(ctx));
    module_release(net);
}

static void every_network_gives_sound_scores(void **state)
{
    context_t *ctx = fixture_context(state);
    for (const char *const *name = zoo_names(); *name != NULL; name++) check_scores(ctx, *name);
}

static void a_clone_gives_the_same_scores(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL, *copy = NULL;
    zoo_options_t options = {.divide = 8};
    CHECK_OK(ctx, zoo_create(ctx, "googlenet", &options, &net, NULL));
    CHECK_OK(ctx, module_clone(ctx, net, &copy));
    CHECK_OK(ctx, scope_begin(ctx));
    tensor_t *x = NULL, *y = NULL, *z = NULL;
    double difference = -1;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 3, 64, 64), &x));
    CHECK_OK(ctx, module_forward(ctx, net, x, &y));
    module_release(net);
    CHECK_OK(ctx, module_forward(ctx, copy, x, &z));
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, z, y, &difference));
    assert_true(difference == 0);
    CHECK_OK(ctx, scope_end(ctx));
    module_release(copy);
}

static void a_network_in_training_mode_tracks_statistics_of_its_batches(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL;
    tensor_t *x = NULL, *y = NULL;
    zoo_options_t options = {.divide = 8};
    CHECK_OK(ctx, zoo_create(ctx, "resnet18", &options, &net, NULL));
    CHECK_OK(ctx, module_train(ctx, net, true));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(2, 3, 64, 64), &x));
    CHECK_OK(ctx, module_forward(ctx, net, x, &y));
    const char *last = "layer4.1.bn2.num_batches_tracked";
    int64_t n_batches = 0;
    CHECK_OK(ctx, tensor_read(ctx, module_buffer(net, last), &n_batches, sizeof n_batches));
    assert_int_equal(n_batches, 1);
    tensor_release(y);
    tensor_release(x);
    module_release(net);
}

static void an_unknown_network_is_told_which_there_are(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL;
    CHECK_FAILS(ctx, zoo_create(ctx, "resnet34", NULL, &net, NULL), STATUS_INVALID_ARGUMENT,
                "zoo: unknown network \"resnet34\", known are alexnet, vgg16, resnet18, resnet50, "
                "resnext50_32x4d, mobilenet_v2, densenet121, squeezenet1_1, googlenet");
    CHECK_FAILS(ctx, zoo_create(ctx, "vgg16", &(zoo_options_t){.divide = -1}, &net, NULL),
                STATUS_INVALID_ARGUMENT, "zoo: widths divided by -1");
    CHECK_FAILS(ctx, zoo_create(ctx, "vgg16", &(zoo_options_t){.n_classes = -1}, &net, NULL),
                STATUS_INVALID_ARGUMENT, "zoo: -1 classes");
    assert_null(net);
}

static status_t build_squeezenet(context_t *ctx)
{
    module_t *net = NULL;
    zoo_options_t options = {.divide = 8, .n_classes = 2};
    TRY(zoo_create(ctx, "squeezenet1_1", &options, &net, NULL));
    module_release(net);
    return STATUS_OK;
}

static void building_survives_every_failed_allocation(void **state)
{
    (void)state;
    check_every_allocation(build_squeezenet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(networks_have_the_parameters_of_torchvision),
        TEST(divided_widths_divide_evenly_down_to_eight),
        TEST(weights_follow_the_seed_and_nothing_else),
        TEST(every_network_gives_sound_scores),
        TEST(a_clone_gives_the_same_scores),
        TEST(a_network_in_training_mode_tracks_statistics_of_its_batches),
        TEST(an_unknown_network_is_told_which_there_are),
        TEST(building_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests_name("zoo", tests, NULL, NULL);
}
