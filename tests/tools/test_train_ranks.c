/* mpirun starts tessera train in two processes, called ranks. Losses must equal those of one
 * process. If one rank is killed, the other one must end. */
#include "tests/support/support.h"

#if defined(TESSERA_HAVE_ONNX) && defined(TESSERA_HAVE_SAFETENSORS) && defined(TESSERA_HAVE_MPI)

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "io/safetensors/safetensors.h"
#include "tests/support/onnx/onnx_model.h"

#define DIGITS TESSERA_SOURCE_DIR "/examples/digits"
#define DATA " --data " DIGITS "/images.npy --labels " DIGITS "/labels.npy --threads 1 "
#define N_STEPS 6
/* Ignores Open MPI's leaks. Other tests count the library's own allocations. */
#define MPIRUN_WITH(options)                                                                       \
    "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 LSAN_OPTIONS=detect_leaks=0 "       \
    "timeout -s KILL 120 mpirun " options "--oversubscribe -n 2 "
#define MPIRUN MPIRUN_WITH("")

static char scratch[] = "/tmp/tessera-ranks-XXXXXX";
static char output[1 << 16];

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void pause_for(double seconds)
{
    const struct timespec time = {.tv_sec = (time_t)seconds,
                                  .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))};
    nanosleep(&time, NULL);
}

/* Runs a line of shell in the scratch directory. `output` has stdout and stderr. */
static int run(const char *line)
{
    char all[4096];
    snprintf(all, sizeof all, "cd %s && { %s; } 2>&1", scratch, line);
    FILE *pipe = popen(all, "r");
    assert_non_null(pipe);
    output[fread(output, 1, sizeof output - 1, pipe)] = '\0';
    const int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void check(const char *line, int code, const char *part)
{
    const int got = run(line);
    if (got != code || strstr(output, part) == NULL)
        fail_msg("repeat: %s\nexit %d, wanted %d; output with %s\n%s", line, got, code, part,
                 output);
}

/* Reads the start of a file in the scratch directory. A missing file gives "". */
static void read_text(const char *name, char *out_text, size_t capacity)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    FILE *file = fopen(path, "r");
    out_text[0] = '\0';
    if (file == NULL) return;
    out_text[fread(out_text, 1, capacity - 1, file)] = '\0';
    fclose(file);
}

/* Writes net.onnx: 64 pixels, a linear layer to 16, relu, and a linear layer to ten scores. */
static void write_model(void)
{
    static float weights[2][16 * 64];
    const float zeros[10] = {0};
    char path[256];
    size_t n_bytes;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 16 * 64; k++) weights[i][k] = (float)((k * 37 + i) % 101 - 50) / 400;
    begin_model(17, DIMS(-1, 1, 8, 8));
    maker_initializer(&maker, "w1", FLOAT, DIMS(16, 64), weights[0], 16 * 64 * sizeof(float));
    maker_initializer(&maker, "w2", FLOAT, DIMS(10, 16), weights[1], 10 * 16 * sizeof(float));
    maker_initializer(&maker, "b2", FLOAT, DIMS(10), zeros, sizeof zeros);
    maker_node(&maker, "Flatten", "flatten", "x", "rows");
    maker_int(maker_node(&maker, "Gemm", "first", "rows w1", "a"), "transB", 1);
    maker_node(&maker, "Relu", "relu", "a", "b");
    maker_int(maker_node(&maker, "Gemm", "second", "b w2 b2", "y"), "transB", 1);
    uint8_t *bytes = maker_pack(&maker, &n_bytes);
    snprintf(path, sizeof path, "%s/net.onnx", scratch);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    fclose(file);
    free(bytes);
}

/* Reads n losses from the JSON that was printed; only one rank may print. */
static void read_losses(int n, double *out_losses)
{
    const char *at = strstr(output, "\"losses\":[");
    assert_non_null(at);
    assert_null(strstr(at + 1, "\"losses\":["));
    at += strlen("\"losses\":[");
    for (int i = 0; i < n; i++) {
        char *end = NULL;
        out_losses[i] = strtod(at, &end);
        at = end + 1;
    }
}

static void compare(const double *losses, const double *others, int n)
{
    for (int i = 0; i < n; i++) {
        const double difference = losses[i] - others[i];
        assert_true(difference < 1e-5 * others[i] && difference > -1e-5 * others[i]);
    }
}

/* ---- valid calls ---- */

#define TRAIN                                                                                      \
    TESSERA_COMMAND " train net.onnx" DATA "--batch 301 --shuffle --lr 0.1 --momentum 0.9 "

static void two_processes_have_the_losses_of_one(void **state)
{
    (void)state;
    double alone[N_STEPS], together[N_STEPS];
    check(TRAIN "--steps 6 --json", 0, "\"losses\"");
    read_losses(N_STEPS, alone);
    check(MPIRUN TRAIN "--steps 6 --json", 0, "\"losses\"");
    read_losses(N_STEPS, together);
    compare(together, alone, N_STEPS);
    /* two processes go on from the file of one process */
    check(TRAIN "--steps 3 -o half.safetensors", 0, "");
    check(MPIRUN TRAIN "--steps 6 --resume half.safetensors --mode planned --json", 0,
          "\"first_step\":3");
    read_losses(N_STEPS - 3, together);
    compare(together, alone + 3, N_STEPS - 3);
    check(MPIRUN TRAIN "--steps 2 --bf16-gradients --json", 0, "\"losses\"");
    read_losses(2, together);
    assert_true(together[1] < 1.001 * alone[1] && together[1] > 0.999 * alone[1]);
}

static void an_error_of_one_rank_ends_all(void **state)
{
    (void)state;
    check(TRAIN "--steps 1 --bf16-gradients", 1, "--bf16-gradients needs several processes");
    check(MPIRUN TRAIN "--steps 4 --resume none.safetensors", 1, "none.safetensors");
}

/* ---- a rank is killed ---- */

#define N_KILLS (IS_SANITIZED ? 10 : 20)
#define N_AT_ONCE 5
#define MOST_SECONDS 120.0 /* from killing one rank to the end of the other */
/* If a rank has ended, mpirun asks the others to end and kills them a second later. On a busy
 * machine they may then not have printed the reason, so mpirun shall wait longer. */
#define PATIENT MPIRUN_WITH("--mca odls_base_sigkill_timeout 20 ")

/* Each rank runs this script, which writes the command's process id, messages and exit code to
 * files. The shell ignores SIGTERM. */
static void write_job(void)
{
    static const char job[] =
        "trap '' TERM\n"
        "name=$1.$OMPI_COMM_WORLD_RANK\n" TESSERA_COMMAND " train net.onnx" DATA
        "--batch 64 --steps 1000000 --shuffle --optimizer adam --save-every 1 "
        "-o $1.safetensors 2>$name.err >/dev/null &\n"
        "echo $! >$name.pid\n"
        "wait $!\n"
        "code=$?\n"
        "echo $code >$name.code\n"
        "exit $code\n";
    char path[256];
    snprintf(path, sizeof path, "%s/job.sh", scratch);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(job, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void start(int number)
{
    char line[2048];
    snprintf(line, sizeof line, "cd %s && " PATIENT "sh job.sh %d >/dev/null 2>&1 &", scratch,
             number);
    assert_int_equal(system(line), 0);
}

/* Returns a rank's process id, or 0 if the rank has not started. */
static pid_t find_rank(int number, int rank)
{
    char name[64], text[64];
    snprintf(name, sizeof name, "%d.%d.pid", number, rank);
    read_text(name, text, sizeof text);
    return strchr(text, '\n') != NULL ? (pid_t)strtol(text, NULL, 10) : 0;
}

static void check_end(int number, int killed, double killed_at)
{
    char name[64], code[64] = "", err[2048];
    const int other = 1 - killed;
    bool is_late = false;
    snprintf(name, sizeof name, "%d.%d.code", number, other);
    while (code[0] == '\0' && !is_late) { /* late: reads once more */
        is_late = now() - killed_at > MOST_SECONDS;
        read_text(name, code, sizeof code);
        pause_for(0.02);
    }
    snprintf(name, sizeof name, "%d.%d.err", number, other);
    read_text(name, err, sizeof err);
    if (strcmp(code, "1\n") != 0 || strstr(err, "has ended") == NULL)
        fail_msg("rank %d of run %d: status %s, %s", other, number, code, err);
}

/* Checks a run's checkpoint. Returns false if there is none. */
static bool check_file(context_t *ctx, int number)
{
    char path[256];
    datum_t *dict = NULL;
    snprintf(path, sizeof path, "%s/%d.safetensors", scratch, number);
    if (access(path, F_OK) != 0) return false;
    CHECK_OK(ctx, safetensors_load(ctx, path, &dict));
    assert_non_null(datum_find(dict, "optimizer.w1.exp_avg"));
    datum_release(dict);
    return true;
}

static bool has_file(int number)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%d.safetensors", scratch, number);
    return access(path, F_OK) == 0;
}

/* Kills a rank at a random moment after it started. In half of the runs, that is after the first
 * checkpoint. Returns the moment. */
static double kill_rank(int number, int rank)
{
    const double begin = now();
    while ((find_rank(number, 0) == 0 || find_rank(number, 1) == 0 ||
            (number / 2 % 2 == 1 && !has_file(number))) &&
           now() - begin < MOST_SECONDS)
        pause_for(0.01);
    const pid_t process = find_rank(number, rank);
    assert_true(process > 1);
    pause_for(0.4 * (double)rand() / RAND_MAX);
    assert_int_equal(kill(process, SIGKILL), 0);
    return now();
}

static void if_one_rank_is_killed_the_other_ends(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int first = 0; first < N_KILLS; first += N_AT_ONCE) {
        double killed_at[N_AT_ONCE];
        for (int i = 0; i < N_AT_ONCE; i++) start(first + i);
        for (int i = 0; i < N_AT_ONCE; i++) {
            const int number = first + i;
            killed_at[i] = kill_rank(number, number % 2);
        }
        for (int i = 0; i < N_AT_ONCE; i++) check_end(first + i, (first + i) % 2, killed_at[i]);
    }
    int n_files = 0;
    for (int i = 0; i < N_KILLS; i++) n_files += check_file(ctx, i);
    assert_in_range(n_files, N_KILLS / 2, N_KILLS);
}

static int begin(void **state)
{
    (void)state;
    if (mkdtemp(scratch) == NULL) return -1;
    write_model();
    write_job();
    return 0;
}

static int end(void **state)
{
    char line[128];
    (void)state;
    snprintf(line, sizeof line, "rm -rf %s", scratch);
    return system(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_processes_have_the_losses_of_one),
        cmocka_unit_test(an_error_of_one_rank_ends_all),
        TEST(if_one_rank_is_killed_the_other_ends),
    };
    return cmocka_run_group_tests(tests, begin, end);
}

#else

int main(void)
{
    return 0;
}

#endif
