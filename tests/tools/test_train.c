/* tessera train and tessera bench --train as other programs see them: exit codes, messages, files,
 * JSON. The tests train a small model on the data of examples/digits. */
#include "tests/support/support.h"

#ifdef TESSERA_HAVE_ONNX

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/onnx/onnx_model.h"

#define DIGITS TESSERA_SOURCE_DIR "/examples/digits"
#define DATA " --data " DIGITS "/images.npy --labels " DIGITS "/labels.npy "
#define N_STEPS 6

typedef struct outcome {
    int code;
    char out[1 << 16], err[1 << 14];
} outcome_t;

static outcome_t outcome;
static char scratch[] = "/tmp/tessera-train-XXXXXX";

static void read_stream(FILE *file, char *out_text, size_t capacity)
{
    size_t length = fread(out_text, 1, capacity - 1, file);
    out_text[length] = '\0';
}

/* Runs `tessera ARGUMENTS` in a shell, in the scratch directory. */
static void tessera(const char *arguments)
{
    char line[4096];
    snprintf(line, sizeof line, "cd %s && " TESSERA_COMMAND " %s 2>stderr", scratch, arguments);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    read_stream(pipe, outcome.out, sizeof outcome.out);
    int status = pclose(pipe);
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    snprintf(line, sizeof line, "%s/stderr", scratch);
    FILE *file = fopen(line, "r");
    assert_non_null(file);
    read_stream(file, outcome.err, sizeof outcome.err);
    fclose(file);
}

static void check(const char *arguments, int code, const char *err)
{
    tessera(arguments);
    if (outcome.code != code || strstr(outcome.err, err) == NULL)
        fail_msg("repeat: tessera %s\nexit %d, wanted %d; stderr with %s\nstderr: %s\nstdout: %s",
                 arguments, outcome.code, code, err, outcome.err, outcome.out);
}

static void write_bytes(const char *name, const void *bytes, size_t n)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    fclose(file);
}

/* Writes a model: 64 pixels, a linear layer to 16, relu, and a linear layer to ten scores. If
 * has_idle, it also compares a parameter with the scores, and this parameter gets no gradient. */
static void write_model(const char *name, bool has_idle)
{
    static float weights[2][16 * 64];
    const float zeros[16] = {0};
    size_t n_bytes;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 16 * 64; k++) weights[i][k] = (float)((k * 37 + i) % 101 - 50) / 400;
    begin_model(17, DIMS(-1, 1, 8, 8));
    maker_initializer(&maker, "w1", FLOAT, DIMS(16, 64), weights[0], 16 * 64 * sizeof(float));
    maker_initializer(&maker, "w2", FLOAT, DIMS(10, 16), weights[1], 10 * 16 * sizeof(float));
    maker_initializer(&maker, "b2", FLOAT, DIMS(10), zeros, 10 * sizeof(float));
    maker_node(&maker, "Flatten", "flatten", "x", "rows");
    maker_int(maker_node(&maker, "Gemm", "first", "rows w1", "a"), "transB", 1);
    maker_node(&maker, "Relu", "relu", "a", "b");
    maker_int(maker_node(&maker, "Gemm", "second", "b w2 b2", has_idle ? "c" : "y"), "transB", 1);
    if (has_idle) {
        maker_initializer(&maker, "idle", FLOAT, DIMS(10), zeros, 10 * sizeof(float));
        maker_node(&maker, "Greater", "greater", "c idle", "d");
        maker_int(maker_node(&maker, "Cast", "cast", "d", "e"), "to", FLOAT);
        maker_node(&maker, "Add", "add", "c e", "y");
    }
    uint8_t *bytes = maker_pack(&maker, &n_bytes);
    write_bytes(name, bytes, n_bytes);
    free(bytes);
}

/* Reads the losses from the JSON that was printed. Returns their number. */
static int read_losses(double *out_losses)
{
    const char *at = strstr(outcome.out, "\"losses\":[");
    int n = 0;
    assert_non_null(at);
    for (at += strlen("\"losses\":["); *at != ']'; at += strspn(at, ",")) {
        char *end = NULL;
        assert_true(n < N_STEPS);
        out_losses[n++] = strtod(at, &end);
        at = end;
    }
    return n;
}

static bool is_file(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    return access(path, R_OK) == 0;
}

/* ---- valid calls ---- */

static void losses_fall_and_are_told_as_json(void **state)
{
    (void)state;
    double losses[2][N_STEPS];
    static const char *const modes[] = {"eager", "planned"};
    for (int i = 0; i < 2; i++) {
        char line[512];
        snprintf(line, sizeof line,
                 "train net.onnx" DATA
                 "--batch 300 --epochs 1 --optimizer adam --lr 0.05 --shuffle "
                 "--mode %s --json",
                 modes[i]);
        check(line, 0, "");
        assert_string_equal(outcome.err, ""); /* no progress bar, because stderr is a pipe */
        assert_int_equal(read_losses(losses[i]), 6);
        assert_true(losses[i][5] < losses[i][0]);
        assert_non_null(strstr(outcome.out, "\"step_ms\":"));
        assert_non_null(strstr(outcome.out, "\"accuracy\":"));
    }
    for (int i = 0; i < 6; i++) {
        double difference = losses[0][i] - losses[1][i];
        assert_true(difference < 1e-5 && difference > -1e-5);
    }
}

#ifdef TESSERA_HAVE_SAFETENSORS

static void a_run_that_goes_on_is_the_one_without_an_end(void **state)
{
    (void)state;
    double whole[N_STEPS], part[N_STEPS];
    check("train net.onnx" DATA "--optimizer adam --shuffle --json --steps 6", 0, "");
    assert_int_equal(read_losses(whole), 6);
    check("train net.onnx" DATA "--optimizer adam --shuffle --steps 3 -o half.safetensors", 0, "");
    assert_non_null(strstr(outcome.out, "3 steps in "));
    assert_true(is_file("half.safetensors"));
    assert_true(is_file("half.svg"));
    check("train net.onnx" DATA "--optimizer adam --shuffle --json --steps 6 --resume "
          "half.safetensors",
          0, "");
    assert_int_equal(read_losses(part), 3);
    assert_memory_equal(part, whole + 3, 3 * sizeof *part);
    check("train net.onnx" DATA "--optimizer adam --steps 3 --resume half.safetensors", 1,
          "half.safetensors has done 3 steps, --steps or --epochs set a total of 3");
    check("train net.onnx" DATA "--steps 6 --resume half.safetensors", 1, "optimizer adam");
}

static void a_loss_that_is_no_number_leaves_the_file(void **state)
{
    (void)state;
    write_bytes("old.safetensors", "old", 3);
    check("train net.onnx" DATA "--steps 6 --lr 1e30 -o old.safetensors", 1,
          "tessera train: step 1: trainer_step: the loss of step 2 is ");
    char path[128], text[8];
    snprintf(path, sizeof path, "%s/old.safetensors", scratch);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    read_stream(file, text, sizeof text);
    fclose(file);
    assert_string_equal(text, "old");
    assert_false(is_file("old.svg"));
}

static void files_are_written_every_so_many_steps(void **state)
{
    (void)state;
    check("train net.onnx" DATA "--steps 3 --lr 1e30 --save-every 1 -o each.safetensors "
          "--curve each.svg",
          1, "step 1: ");
    assert_true(is_file("each.safetensors")); /* written after step 1, which succeeded */
}

#endif

static void parameters_that_no_step_changes_are_warned_of(void **state)
{
    (void)state;
    check("train idle.onnx" DATA "--steps 2", 0,
          "warning: parameter idle has no gradient, it is not trained\n");
    check("train net.onnx" DATA "--steps 2", 0, "");
    assert_string_equal(outcome.err, "");
}

static void a_step_is_measured_in_each_mode(void **state)
{
    (void)state;
    static const char *const keys[] = {"{\"mode\":\"dense\",\"step_ms\":",
                                       "{\"mode\":\"mkldnn\",\"step_ms\":",
                                       "{\"mode\":\"planned\",\"step_ms\":",
                                       "\"forward_ms\":",
                                       "\"backward_ms\":",
                                       "\"update_ms\":",
                                       "\"weight_reorders\":",
                                       "\"activation_reorders\":",
                                       "\"gradient_reorders\":",
                                       "\"copies\":",
                                       "\"peak_rss_mb\":",
                                       "\"loss\":"};
    check("bench net.onnx --train --batch 4 --iterations 3 --json", 0, "");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strstr(outcome.out, keys[i]) == NULL) fail_msg("no %s: %s", keys[i], outcome.out);
    check("bench net.onnx --train --modes mkldnn --optimizer adam --iterations 3", 0, "");
    assert_non_null(strstr(outcome.out, "mkldnn "));
    check("bench net.onnx --train --modes frozen", 2, "must be some of dense,mkldnn,planned");
    check("bench net.onnx --train --optimizer lion", 2, "--optimizer lion, must be sgd, adam");
    check("bench net.onnx --train --tolerance 1", 2, "must not be combined with --train");
}

/* Most of a step's memory is for activations after batch norms, which can be computed again. */
static void a_planned_step_keeps_within_its_memory(void **state)
{
    (void)state;
    double losses[2];
    long long least = 0;
    check("bench zoo:resnet18 --train --modes planned --shape x=2x3x64x64 --iterations 1 --warm-up "
          "1 --memory-limit 1K",
          1, "trainer_step: memory_limit 1024, a step on these inputs needs ");
    assert_int_equal(sscanf(strstr(outcome.err, "inputs needs "), "inputs needs %lld", &least), 1);
    for (int i = 0; i < 2; i++) {
        char line[200];
        snprintf(line, sizeof line,
                 "bench zoo:resnet18 --train --modes planned --shape x=2x3x64x64 --iterations 1 "
                 "--warm-up 1 --json --memory-limit %lld%s",
                 i == 0 ? least : 1, i == 0 ? "" : "G");
        check(line, 0, "");
        assert_int_equal(sscanf(strstr(outcome.out, "\"loss\":"), "\"loss\":%lf", &losses[i]), 1);
    }
    assert_true(losses[0] == losses[1]);
    check("train net.onnx" DATA "--steps 1 --batch 8 --mode planned --memory-limit 1K", 1,
          "trainer_step: memory_limit 1024, a step on these inputs needs ");
    check("train net.onnx" DATA "--steps 1 --batch 8 --mode planned --memory-limit 512M", 0, "");
    check("train net.onnx" DATA "--memory-limit 512M", 2, "--memory-limit needs --mode planned");
    check("train net.onnx" DATA "--memory-limit 5T", 2,
          "--memory-limit 5T, must be bytes, at least 0, e.g. 1000000, 512M or 2G");
    check("train net.onnx" DATA "--memory-limit 9999999999G", 2, "must be bytes, at least 0");
    check("bench net.onnx --memory-limit 1G", 2, "--memory-limit needs --train");
}

/* ---- errors ---- */

static void data_that_do_not_fit_are_refused_before_a_step(void **state)
{
    (void)state;
    char twelve[1797 + 128];
    FILE *file = fopen(DIGITS "/labels.npy", "rb");
    assert_non_null(file);
    assert_int_equal(fread(twelve, 1, sizeof twelve, file), sizeof twelve);
    fclose(file);
    twelve[sizeof twelve - 1] = 12;
    write_bytes("twelve.npy", twelve, sizeof twelve);
    check("train net.onnx --data " DIGITS "/images.npy --labels twelve.npy", 1,
          "label 12 is out of range, net.onnx returns 10 scores, for labels from 0");
    check("train net.onnx" DATA "--loss mse", 1, "--loss mse: targets are s64[], must be floating");
    check("train net.onnx --data " DIGITS "/labels.npy --labels " DIGITS "/labels.npy", 1,
          "tessera train: ");
    check("train net.onnx --data none.npy --labels none.npy", 1, "none.npy, No such file");
}

static void wrong_usage_exits_with_2_and_says_why(void **state)
{
    (void)state;
    check("train net.onnx", 2, "--data is missing, X.npy or a folder of classes");
    check("train net.onnx --data x.npy", 2, "--data x.npy needs --labels Y.npy");
    check("train net.onnx --data . --labels y.npy", 2,
          "--data . is a folder, whose subfolders are the labels");
    check("train net.tessera" DATA, 2, "is not a model to train, must be zoo:NAME or file.onnx");
    check("train net.onnx" DATA "--loss l3", 2, "--loss l3, must be cross_entropy, nll, mse");
    check("train net.onnx" DATA "--optimizer lion", 2, "--optimizer lion, must be sgd, adam");
    check("train net.onnx" DATA "--optimizer adam --momentum 1", 2,
          "--momentum needs --optimizer sgd");
    check("train net.onnx" DATA "--schedule up", 2, "--schedule up, must be constant, step");
    check("train net.onnx" DATA "--mode fast", 2, "--mode fast, must be eager or planned");
    check("train net.onnx" DATA "--steps 1 --epochs 1", 2, "are both given, one is enough");
    check("train net.onnx" DATA "--save-every 2", 2, "--save-every needs -o FILE.safetensors");
}

static int begin(void **state)
{
    (void)state;
    if (mkdtemp(scratch) == NULL) return -1;
    write_model("net.onnx", false);
    write_model("idle.onnx", true);
    return 0;
}

static int end(void **state)
{
    (void)state;
    char line[64];
    snprintf(line, sizeof line, "rm -r %s", scratch);
    return system(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_fall_and_are_told_as_json),
#ifdef TESSERA_HAVE_SAFETENSORS
        cmocka_unit_test(a_run_that_goes_on_is_the_one_without_an_end),
        cmocka_unit_test(a_loss_that_is_no_number_leaves_the_file),
        cmocka_unit_test(files_are_written_every_so_many_steps),
#endif
        cmocka_unit_test(parameters_that_no_step_changes_are_warned_of),
        cmocka_unit_test(a_step_is_measured_in_each_mode),
        cmocka_unit_test(a_planned_step_keeps_within_its_memory),
        cmocka_unit_test(data_that_do_not_fit_are_refused_before_a_step),
        cmocka_unit_test(wrong_usage_exits_with_2_and_says_why),
    };
    return cmocka_run_group_tests(tests, begin, end);
}

#else

int main(void)
{
    return 0;
}

#endif
