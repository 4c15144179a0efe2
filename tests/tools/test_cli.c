/* The command as other programs see it: exit codes, messages, stdout, and keys of its JSON. */
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/data/npy.h"
#include "tests/support/onnx/onnx_model.h"
#include "tests/support/scratch.h"
#include "tools/audit/audit.h"

#define MODEL "zoo:squeezenet1_1"
#define SMALL MODEL " --shape x=1x3x64x64" /* runs fast */
#define NORMED "zoo:mobilenet_v2" /* has batch norms, which run in oneDNN if channels are last */

/* Exit code and output of the last command line. */
typedef struct outcome {
    int code;
    char out[1 << 20];
    char err[1 << 16];
} outcome_t;

static outcome_t outcome;

static void read_stream(FILE *file, char *out_text, size_t capacity)
{
    size_t length = fread(out_text, 1, capacity - 1, file);
    out_text[length] = '\0';
}

/* Runs `tessera ARGUMENTS` in a shell, in the scratch directory. */
static void tessera(const char *arguments)
{
    char line[4096], path[256];
    snprintf(path, sizeof path, "%s/stderr", scratch);
    snprintf(line, sizeof line,
             "cd %s && tessera() { " TESSERA_COMMAND " \"$@\"; }; "
             "tessera %s 2>%s",
             scratch, arguments, path);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    read_stream(pipe, outcome.out, sizeof outcome.out);
    int status = pclose(pipe);
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    read_stream(file, outcome.err, sizeof outcome.err);
    fclose(file);
}

/* Checks the exit code of a command line, and texts in stderr and stdout (NULL: any). */
static void check(const char *arguments, int code, const char *err, const char *out)
{
    tessera(arguments);
    bool is_right = outcome.code == code && (err == NULL || strstr(outcome.err, err) != NULL) &&
                    (out == NULL || strstr(outcome.out, out) != NULL);
    if (!is_right)
        fail_msg("repeat: tessera %s\nexit %d, wanted %d%s%s%s%s\nstderr: %s\nstdout: %.2000s",
                 arguments, outcome.code, code, err != NULL ? "; stderr with " : "",
                 err != NULL ? err : "", out != NULL ? "; stdout with " : "",
                 out != NULL ? out : "", outcome.err, outcome.out);
}

static void write_file(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* ---- usage ---- */

static const char *const commands[] = {"run",    "bench", "train",   "freeze",
                                       "append", "graph", "explain", "profile",
                                       "diff",   "audit", "info",    "generate"};

static void help_begins_with_a_command_that_works(void **state)
{
    (void)state;
    check("--help", 0, NULL, "usage: tessera COMMAND");
    assert_true(strncmp(outcome.out, "tessera bench ", 14) == 0);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        char line[64], usage[64];
        snprintf(line, sizeof line, "%s --help", commands[i]);
        snprintf(usage, sizeof usage, "usage: tessera %s", commands[i]);
        check(line, 0, NULL, usage);
        assert_string_equal(outcome.err, "");
        *strchr(outcome.out, '\n') = '\0';
        snprintf(usage, sizeof usage, "tessera %s ", commands[i]);
        if (strstr(outcome.out, usage) == NULL) fail_msg("no example: %s", outcome.out);
    }
}

static void help_is_told_by_command_and_fits_a_terminal(void **state)
{
    (void)state;
    static char by_option[sizeof outcome.out];
    check("help", 0, NULL, "usage: tessera COMMAND");
    check("help help", 0, NULL, "usage: tessera COMMAND");
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        char line[64];
        snprintf(line, sizeof line, "%s --help", commands[i]);
        check(line, 0, NULL, NULL);
        memcpy(by_option, outcome.out, sizeof by_option);
        snprintf(line, sizeof line, "help %s", commands[i]);
        check(line, 0, NULL, NULL);
        assert_string_equal(outcome.out, by_option);
        for (const char *at = outcome.out; *at != '\0'; at += strcspn(at, "\n") + 1)
            if (strcspn(at, "\n") > 100) fail_msg("wide: %.*s", (int)strcspn(at, "\n"), at);
    }
    check("help run bench", 2, "\"bench\" is an extra operand", NULL);
}

static void options_mean_the_same_in_every_command(void **state)
{
    (void)state;
    static const char *const on_models[] = {"run",     "bench",   "freeze", "graph",
                                            "explain", "profile", "diff"};
    static const char *const options[] = {"\n  --batch N ", "\n  --shape NAME=1x3x320x480 ",
                                          "\n  --input NAME=FILE.npy ", "\n  --seed N ",
                                          "\n  --threads N "};
    static char first[sizeof outcome.out];
    for (size_t i = 0; i < sizeof on_models / sizeof on_models[0]; i++) {
        char line[64];
        snprintf(line, sizeof line, "help %s", on_models[i]);
        check(line, 0, NULL, NULL);
        if (i == 0) memcpy(first, outcome.out, sizeof first);
        for (size_t j = 0; j < sizeof options / sizeof options[0]; j++) {
            const char *here = strstr(outcome.out, options[j]), *there = strstr(first, options[j]);
            size_t n_bytes = 1; /* length of the option's line and the line break before it */
            if (here == NULL || there == NULL) fail_msg("%s has no %s", on_models[i], options[j]);
            while (here[n_bytes] != '\n' && here[n_bytes] != '\0') n_bytes++;
            assert_memory_equal(here, there, n_bytes);
        }
    }
}

static void misspelt_words_are_guessed(void **state)
{
    (void)state;
    check("bnech " MODEL, 2, "no command \"bnech\"; did you mean bench?", NULL);
    check("help frezee", 2, "no command \"frezee\"; did you mean freeze?", NULL);
    check("hlep", 2, "did you mean help?", NULL);
    check("run " MODEL " --mod dense", 2, "no option --mod; did you mean --mode?", NULL);
    check("run " MODEL " --sede=3", 2, "no option --sede=3; did you mean --seed?", NULL);
    check("bench " MODEL " --iteration 3", 2, "did you mean --iterations?", NULL);
    check("explain " MODEL " --mode forzen", 2, "graph or frozen; did you mean frozen?", NULL);
    check("bench " MODEL " --modes dense,grahp", 2, "did you mean graph?", NULL);
    check("run zoo:resnet5", 1, "did you mean resnet50?", NULL);
    check("info zoo", 2, NULL, NULL);
    check("fly", 2, "there is no command \"fly\"\nsee: tessera help", NULL);
    check("run zoo:lenet", 1, "squeezenet1_1, googlenet\n", NULL);
    check("run " MODEL " --mode fast", 2, "graph or frozen\n", NULL);
}

static void wrong_usage_exits_with_2_and_says_why(void **state)
{
    (void)state;
    check("", 2, "usage: tessera COMMAND", NULL);
    check("fly", 2, "there is no command \"fly\"", NULL);
    check("run", 2, "tessera run: MODEL is missing", NULL);
    check("run a.onnx b.onnx", 2, "\"b.onnx\" is an extra operand", NULL);
    check("run model.pt", 2, "\"model.pt\" is not a model", NULL);
    check("run --fast " MODEL, 2, "there is no option --fast", NULL);
    check("run --mode fast " MODEL, 2, "--mode fast, must be dense, nhwc", NULL);
    check("run " MODEL " --tolerance 1", 2, "--tolerance needs --compare DIR", NULL);
    check("run " MODEL " --shape x=1x3x0x4", 2, "--shape x=1x3x0x4, must be NAME=", NULL);
    check("run " MODEL " --seed", 2, "--seed needs a value", NULL);
    check("run " MODEL " --stats=1", 2, "--stats takes no value", NULL);
    check("run " MODEL " --verify none", 2, "--verify none, must be a whole number", NULL);
    check("run " MODEL " --tolerance nan", 2, "--tolerance nan, must be a number", NULL);
    check("bench " MODEL " --batch 0", 2, "--batch 0, must be a whole number from 1", NULL);
    check("bench " MODEL " --modes dense,fast", 2, "--modes dense,fast, must be some of", NULL);
    check("bench " MODEL " --modes dense,dense", 2, "--modes dense,dense, must be some of", NULL);
    check("bench " MODEL " --modes ,", 2, "--modes ,, must be some of", NULL);
    check("run " MODEL " --load copied", 2, "--load applies to file.tessera, not to", NULL);
    check("bench " MODEL " --unchecked", 2, "--unchecked applies to file.tessera", NULL);
    check("profile m.tessera --load coppied", 2, "or copied; did you mean copied?", NULL);
    check("run m.tessera --load fast", 2, "--load fast, must be mapped or copied", NULL);
    check("freeze " MODEL, 2, "-o is missing, must be FILE.tessera", NULL);
    check("freeze " MODEL " -o model.bin", 2, "-o model.bin, must be FILE.tessera", NULL);
    check("freeze " MODEL " -o m.tessera --preserve a,,b", 2, "--preserve a,,b", NULL);
    check("freeze " MODEL " -o m.tessera --dtype f16", 2, "--dtype f16, must be f32, bf16 or s8",
          NULL);
    check("freeze " MODEL " -o m.tessera --keep-f32 a", 2, "--keep-f32 needs --dtype", NULL);
    check("freeze " MODEL " -o m.tessera --max-layer-error 0.1", 2,
          "--max-layer-error needs --dtype", NULL);
    check("freeze " MODEL " -o m.tessera --dtype bf16 --no-optimize-numerics", 2,
          "--dtype bf16 must not be combined with --no-optimize-numerics", NULL);
    check("freeze " MODEL " -o m.tessera --dtype bf16 --keep-f32 nobody", 1,
          "freeze: keep_f32 \"nobody\" matches no operator", NULL);
    check("freeze " MODEL " -o m.tessera --tune 0", 2, "--tune 0, must be more than 0", NULL);
    check("freeze " MODEL " -o m.tessera --tune -1", 2, "--tune -1, must be a number, at least 0",
          NULL);
    check("freeze " MODEL " -o m.tessera --tune soon", 2, "--tune soon, must be a number", NULL);
    check("graph " MODEL " --after magic", 2, "--after magic is not a pass, there are:", NULL);
    check("graph " MODEL " --skip magic", 2, "--skip magic is not a pass", NULL);
    check("audit log extra", 2, "\"extra\" is an extra operand", NULL);
    assert_string_equal(outcome.out, "");
}

static void failures_exit_with_1_and_name_the_command(void **state)
{
    (void)state;
    check("run zoo:lenet", 1, "tessera run: zoo: unknown network \"lenet\"", NULL);
    check("run missing.onnx", 1, "tessera run: ", NULL);
    check("run missing.tessera", 1, "tessera run: ", NULL);
    check("run " MODEL " --input y=x.npy", 1, "has no input \"y\", there are: x", NULL);
    check("run " MODEL " --input x=missing.npy", 1, "missing.npy", NULL);
    check("run " MODEL " --input x", 1, "--input x, must be NAME=FILE.npy", NULL);
    check("audit missing.log", 1, "tessera audit: missing.log: No such file", NULL);
    check("info >/dev/full", 1, "stdout cannot be written", NULL);
}

/* ---- diff ---- */

static void diff_names_the_first_node_beyond_the_tolerance(void **state)
{
    (void)state;
    check("diff " SMALL, 0, NULL, "no node differs by more than 0.0001\nlargest difference: ");
    assert_non_null(strstr(outcome.out, " nodes compared\n"));
    check("diff " NORMED " --modes nhwc,dense --tolerance 0", 3, NULL, "first difference: ");
    assert_non_null(strstr(outcome.out, "\n  nhwc   "));
    assert_non_null(strstr(outcome.out, "\n  dense   f32[1,"));
    assert_non_null(strstr(outcome.out, " by onednn, "));
}

static void diff_takes_two_modes_that_run_operator_by_operator(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "dense", "dense,dense", "mkldnn,frozen", "graph,mkldnn", "dense,fast", "dense,nhwc,mkldnn",
        ","};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char line[128];
        snprintf(line, sizeof line, "diff " SMALL " --modes %s", wrong[i]);
        check(line, 2, "must be two of dense,nhwc,mkldnn", NULL);
    }
    check("diff " MODEL " --modes mkldn,dense", 2, "did you mean mkldnn?", NULL);
    check("diff missing.onnx", 1, "missing.onnx, No such file", NULL);
}

/* ---- audit and info ---- */

/* Checks a row of audit's table: reorders of a cause in all, in set-up, and per repetition. */
static void check_reorders(const char *row, int wanted, int wanted_first, int wanted_each)
{
    int n = -1, n_first = -1, n_each = -1;
    const char *at = strstr(outcome.out, "\nreorders ");
    at = at != NULL ? strstr(at, row) : NULL;
    if (at == NULL) fail_msg("no row%s in %s", row, outcome.out);
    sscanf(at, " %*s %d %*f %*f %*f %% %d %*f %d", &n, &n_first, &n_each);
    if (n != wanted || n_first != wanted_first || n_each != wanted_each)
        fail_msg("%d, %d, %d in row%s of %s", n, n_first, n_each, row, outcome.out);
}

static void audit_reads_a_file_and_stdin(void **state)
{
    (void)state;
    write_file("log", "onednn_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:abcd:f0 "
                      "dst_f32::blocked:ABcd16b16a:f0,,,64x64x3x3,0.5\nhello\n"
                      "onednn_verbose,exec,cpu,convolution,jit:avx2,forward,src,,,mb1,1.5\n");
    check("audit log", 0, NULL, "ABcd16b16a");
    assert_non_null(strstr(outcome.out, "25.0 %"));
    assert_non_null(strstr(outcome.out, "oneDNN (version not in the log): 2 executions; "
                                        "no steady state"));
    check("audit - <log", 0, NULL, "weight");
    check("audit " TESSERA_SOURCE_DIR "/tests/tools/logs/pytorch-onednn-3.12.txt", 0, NULL,
          "oneDNN 3.12.0: 24 executions; 6 of set-up, then a sequence of 6 repeated 3 times\n");
    check_reorders("\ncopy ", 7, 4, 1);
    check_reorders("\nweight ", 5, 2, 1);
    check_reorders("\nactivation ", 3, 0, 1);
    check_reorders("\nall ", 15, 6, 3);
    check("audit /dev/null", 1, "has no executions", NULL);
}

static void info_lists_variables_and_operators(void **state)
{
    (void)state;
    check("info", 0, NULL, "TESSERA_THREADS");
    assert_null(strstr(outcome.out, "conv2d"));
    check("info --ops", 0, NULL, "conv2d");
    check("--version", 0, NULL, "tessera ");
}

/* The script that makes the files has the expected names, types and sizes. */
/* Names of instruction sets, and the text that oneDNN logs for each. A name that is the beginning
 * of another one comes after it. */
static const char *const isas[][2] = {
    {"avx512_core_amx", "Intel AMX"},
    {"avx512_core_bf16", "bfloat16"},
    {"avx512_core_vnni", "DL Boost"},
    {"avx512_core", "AVX-512"},
    {"avx2_vnni", "AVX2 with"},
    {"avx2", "AVX2"},
    {"avx", "AVX"},
    {"sse41", "SSE4.1"},
    {"sve_512", "AArch64 SVE (512 bits)"},
    {"sve_256", "AArch64 SVE (256 bits)"},
    {"asimd", "AArch64 (with Advanced SIMD"},
};

static void the_isa_is_the_one_that_onednn_logs(void **state)
{
    (void)state;
    static const char *const limits[] = {"ALL", "AVX512_CORE", "AVX2", "SSE41"};
    for (size_t i = 0; i < 4; i++) {
        char line[512], isa[64] = "";
        size_t at = 0;
        snprintf(line, sizeof line,
                 "--version; export ONEDNN_MAX_CPU_ISA=%s; tessera info; "
                 "ONEDNN_VERBOSE=1 tessera run " MODEL " | grep ',isa:'",
                 limits[i]);
        check(line, 0, NULL, ",isa:");
        assert_int_equal(sscanf(strstr(outcome.out, "oneDNN "), "oneDNN %*s %63s", isa), 1);
        while (at < sizeof isas / sizeof *isas && strcmp(isas[at][0], isa) != 0) at++;
        if (at == sizeof isas / sizeof *isas) fail_msg("oneDNN has no ISA \"%s\"", isa);
        if (strstr(strstr(outcome.out, ",isa:"), isas[at][1]) == NULL) fail_msg("%s", outcome.out);
    }
}

/* ---- running ---- */

static void outputs_are_saved_and_compared(void **state)
{
    (void)state;
    check("run " SMALL " --mode dense --seed 3 --output-dir saved", 0, NULL, "output f32[1,1000]");
    check("run " SMALL " --mode mkldnn --seed 3 --compare saved", 0, NULL, "differs from saved");
    check("run " SMALL " --mode mkldnn --seed 4 --compare saved", 3, "is allowed", NULL);
    check("run " SMALL " --mode mkldnn --seed 4 --compare saved --tolerance 1000", 0, NULL, NULL);
    check("run " SMALL " --seed 3 --compare nowhere", 1, "nowhere/output.npy", NULL);
    check("run " NORMED " --mode dense --output-dir normed", 0, NULL, NULL);
    check("run " NORMED " --mode nhwc --compare normed --tolerance 0", 3, "0 is allowed",
          "differs from normed");
}

static void sizes_are_chosen_where_they_are_open(void **state)
{
    (void)state;
    check("run " MODEL " --shape x=2x3x64x96 --mode frozen --output-dir small", 0, NULL,
          "output f32[2,1000]");
    check("freeze " SMALL " -o open.tessera", 0, NULL, NULL);
    check("run open.tessera --shape x=2x3x64x96 --compare small", 0, NULL, "differs from small");
    check("run open.tessera --batch 2", 0, NULL, "output f32[2,1000]");
    check("freeze " MODEL " --shape x=1x3x64x96 -o small.tessera", 0, NULL, NULL);
    check("graph small.tessera", 0, NULL, "%x : f32[N=1,3,H=64,W=96]");
    check("bench " MODEL " --shape x=3x3x64x64 --modes mkldnn --iterations 1 --json", 0, NULL,
          "\"batch\":3");
    check("run " MODEL " --shape x=2x4x64x96", 1,
          "--shape x=2x4x64x96, but size 1 of input x is fixed to 3", NULL);
    check("run open.tessera --shape x=2x4x64x96", 1, "size 1 of input x is fixed to 3", NULL);
    check("run " MODEL " --shape x=2x3x64", 1, "but input x has 4 dimensions", NULL);
    check("run " MODEL " --shape y=2x3x64x96", 1, "has no input \"y\", there are: x", NULL);
    check("run " MODEL " --shape x=2x3x64x96 --batch 3", 1, "--batch 3, but --shape says 2", NULL);
}

static void every_mode_agrees_with_dense_and_with_the_specification(void **state)
{
    (void)state;
    static const char *const modes[] = {"dense", "nhwc", "mkldnn", "graph", "frozen"};
    check("run " SMALL " --mode dense --output-dir saved", 0, NULL, NULL);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        char line[256];
        snprintf(line, sizeof line, "run " SMALL " --mode %s --verify 4 --compare saved", modes[i]);
        check(line, 0, NULL, "0 failed");
    }
}

/* Sums the numbers of all rows "reorders, ...". */
static uint64_t sum_of_reorders(char *text)
{
    uint64_t sum = 0;
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        unsigned long long a, b, c;
        if (sscanf(line, "reorders, %*s %llu %llu %llu", &a, &b, &c) == 3) sum += a + b + c;
    }
    return sum;
}

static void counters_equal_onednn_s_own_log(void **state)
{
    (void)state;
    static const char *const modes[] = {"dense", "nhwc", "mkldnn", "graph", "frozen"};
    static char copy[sizeof outcome.out];
    static audit_t audit;
    setenv("ONEDNN_VERBOSE", "1", 1);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        char line[256];
        snprintf(line, sizeof line, "run " SMALL " --stats --mode %s", modes[i]);
        check(line, 0, NULL, "reorders, weight");
        memset(&audit, 0, sizeof audit);
        memcpy(copy, outcome.out, sizeof copy);
        for (char *at = strtok(copy, "\n"); at != NULL; at = strtok(NULL, "\n"))
            audit_line(&audit, at);
        assert_int_equal(audit.n_malformed, 0);
        assert_true(audit_of(&audit, "convolution").n > 0);
        uint64_t logged = audit_reorders(&audit).n, counted = sum_of_reorders(outcome.out);
        if (logged != counted)
            fail_msg("repeat: ONEDNN_VERBOSE=1 tessera %s\noneDNN logged %llu reorders, %llu were "
                     "counted",
                     line, (unsigned long long)logged, (unsigned long long)counted);
    }
    unsetenv("ONEDNN_VERBOSE");
}

/* ---- bench ---- */

static void bench_s_json_has_the_keys_of_the_contract_in_order(void **state)
{
    (void)state;
    static const char *const keys[] = {"{\"model\":\"" MODEL "\"",
                                       ",\"batch\":2",
                                       ",\"threads\":1",
                                       ",\"onednn\":\"",
                                       "\",\"isa\":\"",
                                       "\",\"rows\":[",
                                       "{\"mode\":\"dense\"",
                                       ",\"median_ms\":",
                                       ",\"min_ms\":",
                                       ",\"speedup\":1.0000",
                                       ",\"weight_reorders\":",
                                       ",\"activation_reorders\":",
                                       ",\"copies\":",
                                       ",\"reorder_bytes\":",
                                       ",\"reorder_ms\":",
                                       ",\"first_run_ms\":",
                                       ",\"peak_rss_mb\":",
                                       ",\"max_rel_diff\":0",
                                       ",\"p90_ms\":",
                                       ",\"p99_ms\":",
                                       ",\"items_per_s\":",
                                       ",\"load_ms\":",
                                       ",\"prepare_ms\":",
                                       ",\"first_inference_ms\":",
                                       ",\"cpu_ms\":",
                                       ",\"runs\":2",
                                       ",\"warm_up\":1",
                                       "},{\"mode\":\"mkldnn\"",
                                       ",\"median_ms\":",
                                       ",\"min_ms\":",
                                       ",\"speedup\":",
                                       ",\"weight_reorders\":0",
                                       ",\"activation_reorders\":",
                                       ",\"copies\":",
                                       ",\"reorder_bytes\":",
                                       ",\"reorder_ms\":",
                                       ",\"first_run_ms\":",
                                       ",\"peak_rss_mb\":",
                                       ",\"max_rel_diff\":",
                                       "}]}\n"};
    check("bench " MODEL " --json --modes dense,mkldnn --batch 2 --threads 1 --iterations 2 "
          "--warm-up 1",
          0, NULL, "\"rows\"");
    const char *at = outcome.out;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *found = strstr(at, keys[i]);
        if (found == NULL) fail_msg("%s is not behind %s", keys[i], outcome.out);
        at = found + strlen(keys[i]);
    }
    assert_string_equal(at, "");
    assert_ptr_equal(strchr(outcome.out, '\n'), outcome.out + strlen(outcome.out) - 1);
}

/* Returns the number after a key in the first row. */
static double value_of(const char *key)
{
    char wanted[64];
    double value = -1.0;
    snprintf(wanted, sizeof wanted, "\"%s\":", key);
    const char *at = strstr(outcome.out, wanted);
    if (at == NULL || sscanf(at + strlen(wanted), "%lf", &value) != 1) fail_msg("no %s", key);
    return value;
}

static void bench_s_percentiles_and_parts_of_the_first_run_fit_together(void **state)
{
    (void)state;
    check("freeze " SMALL " -o first.tessera", 0, NULL, NULL);
    check("bench first.tessera --batch 2 --iterations 4 --json", 0, NULL, "\"mode\":\"frozen\"");
    double least = value_of("min_ms"), median = value_of("median_ms"), p90 = value_of("p90_ms");
    double load = value_of("load_ms"), inference = value_of("first_inference_ms");
    double first = value_of("first_run_ms"), items = value_of("items_per_s");
    assert_true(0.0 < least && least <= median && median <= p90 && p90 <= value_of("p99_ms"));
    assert_true(items <= 2e3 / least && items >= 2e3 / (2.0 * value_of("p99_ms")));
    assert_true(load > 0.0 && inference > 0.0);
    assert_true(value_of("cpu_ms") > 0.0);
    double difference = first - (load + value_of("prepare_ms") + inference);
    assert_true(difference < 0.01 && difference > -0.01);
    assert_true(value_of("warm_up") == 3.0 && value_of("runs") == 4.0);
}

static void bench_prints_tables_that_fit_a_terminal(void **state)
{
    (void)state;
    check("bench " SMALL " --iterations 1 --warm-up 2", 0, NULL, "max rel diff");
    assert_null(strchr(outcome.out, '{'));
    assert_non_null(strstr(outcome.out, "; 1 runs after 2 of warm-up\n"));
    for (const char *at = outcome.out; *at != '\0'; at += strcspn(at, "\n") + 1)
        if (strcspn(at, "\n") > 100) fail_msg("wide: %.*s", (int)strcspn(at, "\n"), at);
}

static void bench_s_tolerance_is_that_of_run(void **state)
{
    (void)state;
    check("bench " SMALL " --modes dense,mkldnn --iterations 1 --tolerance 1e-4", 0, NULL, NULL);
    check("bench " NORMED " --modes dense,nhwc --iterations 1 --tolerance 0", 3,
          "mode nhwc differs from dense by", "max rel diff");
    assert_null(strstr(outcome.err, "mode dense differs"));
    check("bench model.tessera --tolerance 0", 2, "which model.tessera does not have", NULL);
}

static void a_budget_fails_when_counts_rise(void **state)
{
    (void)state;
    write_file("wide", "# reorders\n" MODEL " * mkldnn 1000 1000 1000\n");
    write_file("narrow", MODEL " 1 dense 0 0 0\n");
    write_file("wrong", MODEL " dense 0 0\n");
    check("bench " SMALL " --modes mkldnn --iterations 1 --budget wide", 0, "can be lowered", NULL);
    check("bench " SMALL " --modes dense --iterations 1 --budget narrow", 1,
          "counts are above the budget of narrow", NULL);
    check("bench " SMALL " --modes dense --iterations 1 --budget wrong", 1, "wrong: line 1", NULL);
    check("bench " SMALL " --modes dense --iterations 1 --budget none", 1, "none: No such file",
          NULL);
}

static void a_budget_may_hold_comments_blank_lines_and_other_models(void **state)
{
    (void)state;
    write_file("others", "\n# ours\n  \nzoo:resnet50 1 dense 0 0 0 # another model\n" MODEL
                         " 2 dense 0 0 0\n");
    write_file("typo", "\n" MODEL " 1 densely 0 0 0\n");
    write_file("risen", MODEL " * dense 0 99 9\n");
    write_file("quoted", "\"" MODEL "\" * dense 1000 1000 1000\n");
    check("bench " SMALL " --modes dense --iterations 1 --budget others", 1,
          "others: no line has " MODEL " at batch 1", NULL);
    check("bench " SMALL " --modes dense,mkldnn --iterations 1 --budget quoted", 0,
          "quoted has no line for 1 of 2 modes", NULL);
    check("bench " SMALL " --modes dense --iterations 1 --budget typo", 1,
          "typo: line 2, \"densely\" is no mode", NULL);
    assert_null(strstr(outcome.err, "first run"));
    check("bench " SMALL " --modes dense --iterations 1 --budget risen --json", 1,
          "mode dense: 26 weight reorders per inference, the budget is 0", "\"rows\"");
    assert_non_null(strstr(outcome.err, "1 counts are above the budget of risen"));
}

/* ---- graphs and files ---- */

static void explain_names_kernels_and_sums_up(void **state)
{
    (void)state;
    check("explain " SMALL " --wide", 0, NULL, "  reasons");
    assert_non_null(strstr(outcome.out, "mode mkldnn, one inference"));
    check("explain " SMALL " --mode frozen", 0, NULL, "plan: ");
    assert_null(strstr(outcome.out, "not constant"));
    check("freeze " SMALL " -o kept.tessera --preserve training", 0, NULL, NULL);
    check("explain kept.tessera", 0, NULL,
          "attributes that are not constant:\ntraining: preserved by name\n");
    check("explain " SMALL " --certificate", 0, NULL, "\nweights      ");
    assert_non_null(strstr(outcome.out, "\nbest uniform "));
    assert_non_null(strstr(outcome.out, "\ngap  "));
    check("explain " MODEL " --certificate --mode nhwc", 2, "needs mode graph or frozen", NULL);
}

static void graphs_are_printed_before_and_after_passes(void **state)
{
    (void)state;
    check("graph " SMALL, 0, NULL, "graph forward(");
    assert_non_null(strstr(outcome.out, "getattr("));
    check("graph " SMALL " --frozen", 0, NULL, "graph forward(");
    assert_null(strstr(outcome.out, "getattr("));
    check("graph " SMALL " --frozen --after each", 0, NULL, "// after ");
    check("graph " SMALL " --dot", 0, NULL, "digraph");
    check("graph " SMALL " --alias", 0, NULL, ": input\n");
    check("graph " MODEL " --alias --dot", 2, "--alias prints a table", NULL);
    check("graph " SMALL " --after fold_scale", 1, "is skipped, or not in mode graph", NULL);
    check("graph " SMALL " --after layout --skip layout", 1, "is skipped", NULL);
    check("graph " MODEL " --after each --dot", 2, "--after prints text", NULL);
}

static void a_picture_is_drawn_where_graphviz_is(void **state)
{
    (void)state;
    char line[256];
    check("graph " MODEL " --svg model.png", 2, "--svg model.png, must be FILE.svg", NULL);
    check("info >/dev/null; PATH=/nowhere tessera graph " MODEL " --svg model.svg", 1,
          "there is no dot in PATH", NULL);
    if (system("command -v dot >/dev/null") != 0) skip_without("dot");
    check("graph " SMALL " --frozen --svg model.svg", 0, NULL, NULL);
    assert_string_equal(outcome.out, "");
    snprintf(line, sizeof line, "grep -q '<svg' %s/model.svg", scratch);
    assert_int_equal(system(line), 0);
}

static void a_frozen_file_gives_the_model_s_outputs(void **state)
{
    (void)state;
    check("freeze " SMALL " -o model.tessera", 0, NULL, "model.tessera: ");
    check("run " SMALL " --mode dense --seed 5 --output-dir saved", 0, NULL, NULL);
    check("run model.tessera --seed 5 --compare saved", 0, NULL, "differs from saved");
    check("run model.tessera --mode dense", 1, "runs in mode frozen only", NULL);
    check("bench model.tessera --iterations 1 --json", 0, NULL, "\"mode\":\"frozen\"");
    assert_non_null(strstr(outcome.out, "\"speedup\":null"));
    check("bench model.tessera --iterations 1 --modes dense", 1, "runs in mode frozen only", NULL);
    check("freeze model.tessera -o again.tessera", 1, "is frozen already", NULL);
    check("freeze " SMALL " -o narrow.tessera --dtype bf16", 0, NULL,
          "bf16: errors are not measured; ");
    check("run narrow.tessera", 0, NULL, "output ");
    check("freeze " SMALL " -o tuned.tessera --tune 0.2", 0, NULL, "operators measured");
    check("run tuned.tessera --seed 5 --compare saved --tolerance 1e-3", 0, NULL, NULL);
}

/* A limit for the size of files (in blocks of 512 bytes) simulates a full disk: writing fails,
 * too. */
static void a_failed_save_leaves_no_file(void **state)
{
    (void)state;
    char line[256];
    check("freeze " MODEL " --shape x=1x3x64x64 -o old.tessera", 0, NULL, NULL);
    check("--version; cp old.tessera copy.tessera; (ulimit -f 64; "
          "tessera freeze " MODEL " -o new.tessera)",
          1, "new.tessera, File too large", NULL);
    check("--version; (ulimit -f 64; tessera freeze " MODEL " -o old.tessera)", 1,
          "old.tessera, File too large", NULL);
    check("--version; (ulimit -f 64; tessera append old.tessera --threads 3)", 1,
          "old.tessera, File too large", NULL);
    check("--version; (ulimit -f 1; tessera run " MODEL " --output-dir limited)", 1,
          "limited/output.npy, File too large", NULL);
    snprintf(line, sizeof line, "cd %s && cmp old.tessera copy.tessera", scratch);
    assert_int_equal(system(line), 0);
    snprintf(line, sizeof line, "test -z \"$(find %s -name '*.tmp' -o -name new.tessera)\"",
             scratch);
    assert_int_equal(system(line), 0);
}

static void a_frozen_onnx_model_keeps_its_names(void **state)
{
    (void)state;
    static const char model[] = TESSERA_ONNX_TESTDATA
        "/pytorch-converted/test_Conv2d_groups/model.onnx";
    char line[1024];
    if (access(model, R_OK) != 0) skip_without("libonnx-testdata");
    snprintf(line, sizeof line, "run %s --mode dense --output-dir onnx", model);
    check(line, 0, NULL, "3 f32[2,6,4,4]");
    snprintf(line, sizeof line, "freeze %s -o onnx.tessera", model);
    check(line, 0, NULL, NULL);
    check("run onnx.tessera --compare onnx", 0, NULL, "3 differs from onnx/3.npy");
    check("run onnx.tessera --input 0=onnx/3.npy", 1, "input 0: f32[2,6,4,4] was given", NULL);
    snprintf(line, sizeof line, "bench %s --batch 7", model);
    check(line, 1, "--batch 7, but the file's batch is fixed to 2", NULL);
}

#ifdef TESSERA_HAVE_ONNX

/* Writes a model that computes x.sum((0, 1)) / (x.shape[0] * x.shape[1]). */
static void write_means(const char *name)
{
    char path[256];
    size_t n_bytes = 0;
    begin_model(13, DIMS(-1, -1, 3));
    maker_open(&maker, 1, "T");
    maker_initializer(&maker, "outer", INT64, DIMS(2), (int64_t[]){0, 1}, 16);
    maker_int(maker_node(&maker, "ReduceSum", "", "x outer", "sum"), "keepdims", 0);
    maker_node(&maker, "Shape", "", "x", "shape");
    maker_node(&maker, "Gather", "", "shape outer", "sizes");
    maker_int(maker_node(&maker, "ReduceProd", "", "sizes", "n"), "keepdims", 0);
    maker_int(maker_node(&maker, "Cast", "", "n", "float"), "to", FLOAT);
    maker_node(&maker, "Div", "", "sum float", "y");
    uint8_t *bytes = maker_pack(&maker, &n_bytes);
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    fclose(file);
    free(bytes);
}

static void write_array(const char *name, int rank, const int64_t *sizes)
{
    context_t *ctx;
    tensor_t *zeros;
    char path[256];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    CHECK_OK(NULL, context_create(NULL, &ctx));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, rank, sizes, &zeros));
    CHECK_OK(ctx, npy_save(ctx, path, zeros));
    tensor_release(zeros);
    context_destroy(ctx);
}

static void every_pass_can_be_skipped_and_dumped_after(void **state)
{
    (void)state;
    static char passes[1024], each[sizeof outcome.out];
    char line[256], header[96];
    check("info", 0, NULL, "passes:");
    snprintf(passes, sizeof passes, "%s", strstr(outcome.out, "passes:") + 7);
    *strchr(passes, '\n') = '\0';
    write_means("skip.onnx");
    check("graph skip.onnx --shape x=1x2x3 --frozen --after each", 0, NULL, NULL);
    memcpy(each, outcome.out, sizeof each);
    for (char *name = strtok(passes, " "); name != NULL; name = strtok(NULL, " ")) {
        if (strchr("[]", name[0]) != NULL) continue;
        snprintf(header, sizeof header, "// after %s\n", name);
        if (strstr(each, header) == NULL) fail_msg("--after each leaves out %s", name);
        snprintf(line, sizeof line,
                 "graph skip.onnx --shape x=1x2x3 --frozen --after each --skip %s", name);
        check(line, 0, NULL, "// after ");
        if (strstr(outcome.out, header) != NULL) fail_msg("%s was not skipped", name);
    }
}

/* A graph frozen at one set of sizes must give the model's result at another. */
static void an_onnx_model_runs_at_sizes_that_it_leaves_open(void **state)
{
    (void)state;
    write_means("open.onnx");
    check("run open.onnx --batch 2", 1, "dimension 1 (\"T\") is not fixed, and no shape says",
          NULL);
    check("run open.onnx --shape x=3x5x3 --mode dense --output-dir three", 0, NULL, "y f32[3]");
    write_array("x.npy", SHAPE(3, 5, 3));
    check("run open.onnx --input x=x.npy --mode dense", 0, NULL, "y f32[3]");
    check("run open.onnx --input x=x.npy --shape x=3x6x3", 1, "given make it f32[3,5,3]", NULL);
    check("freeze open.onnx --shape x=1x2x3 -o means.tessera", 0, NULL, NULL);
    check("run means.tessera --shape x=3x5x3 --compare three", 0, NULL, "y differs from three");
    check("run means.tessera --batch 8", 0, NULL, "y f32[3]");
    check("bench means.tessera --batch 3 --iterations 1 --json", 0, NULL, "\"batch\":3");
    check("run open.onnx --shape x=1x2x4", 1, "size 4 in dimension 2, the file fixes it to 3",
          NULL);
    check("run means.tessera --shape x=1x2x4", 1, "size 2 of input x is fixed to 3", NULL);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_begins_with_a_command_that_works),
        cmocka_unit_test(help_is_told_by_command_and_fits_a_terminal),
        cmocka_unit_test(options_mean_the_same_in_every_command),
        cmocka_unit_test(misspelt_words_are_guessed),
        cmocka_unit_test(wrong_usage_exits_with_2_and_says_why),
        cmocka_unit_test(failures_exit_with_1_and_name_the_command),
        cmocka_unit_test(audit_reads_a_file_and_stdin),
        cmocka_unit_test(diff_names_the_first_node_beyond_the_tolerance),
        cmocka_unit_test(diff_takes_two_modes_that_run_operator_by_operator),
        cmocka_unit_test(info_lists_variables_and_operators),
        cmocka_unit_test(the_isa_is_the_one_that_onednn_logs),
        cmocka_unit_test(outputs_are_saved_and_compared),
        cmocka_unit_test(sizes_are_chosen_where_they_are_open),
        cmocka_unit_test(every_mode_agrees_with_dense_and_with_the_specification),
        cmocka_unit_test(counters_equal_onednn_s_own_log),
        cmocka_unit_test(bench_s_json_has_the_keys_of_the_contract_in_order),
        cmocka_unit_test(bench_s_percentiles_and_parts_of_the_first_run_fit_together),
        cmocka_unit_test(bench_prints_tables_that_fit_a_terminal),
        cmocka_unit_test(bench_s_tolerance_is_that_of_run),
        cmocka_unit_test(a_budget_fails_when_counts_rise),
        cmocka_unit_test(a_budget_may_hold_comments_blank_lines_and_other_models),
        cmocka_unit_test(explain_names_kernels_and_sums_up),
        cmocka_unit_test(graphs_are_printed_before_and_after_passes),
        cmocka_unit_test(a_picture_is_drawn_where_graphviz_is),
        cmocka_unit_test(a_frozen_file_gives_the_model_s_outputs),
        cmocka_unit_test(a_failed_save_leaves_no_file),
        cmocka_unit_test(a_frozen_onnx_model_keeps_its_names),
#ifdef TESSERA_HAVE_ONNX
        cmocka_unit_test(every_pass_can_be_skipped_and_dumped_after),
        cmocka_unit_test(an_onnx_model_runs_at_sizes_that_it_leaves_open),
#endif
    };
    return cmocka_run_group_tests(tests, scratch_begin, scratch_end);
}
