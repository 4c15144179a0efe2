/* Calls every public function with wrong arguments. No call may crash or hang.
 *
 * Each call starts from valid arguments, if possible from ones with which the function succeeds.
 * Three series of calls make them wrong: (1) one pointer is NULL, in plain calls and then in calls
 * that a trace records; (2) one argument is wrong: a number out of range, or a NULL; (3) several
 * random arguments are wrong. Calls run in child processes, so the test goes on after a crash.
 *
 * A NULL must fail with INVALID_ARGUMENT and a message such as "x is NULL", where x is the
 * argument's name in the header. is_optional lists the exceptions. A call that fails must set a
 * message, and must set the pointer to its result to NULL.
 *
 * usage: test_arguments [CALLS [SEED [FUNCTION]]]   number of random calls after the systematic
 * ones */
#include "tests/api/calls.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tessera.h"
#include "tests/api/objects.h"

/* ROUNDS: how often every wrong value is tried, with other valid arguments. FLAWS: wrong values of
 * a number. BATCH: calls of one child. SECONDS: time limit of a call. SHOWN: failures to print.
 * WRONG: exit code of a failed child. TRIES: choices of arguments to search for a success.
 * REFUSALS: refused allocations after which this search ends. */
enum {
    ROUNDS = 2,
    FLAWS = 4,
    BATCH = 64,
    SECONDS = 10,
    SHOWN = 40,
    WRONG = 3,
    TRIES = 1000,
    REFUSALS = 20
};

/* Written by a child, so that the parent can report the call in which it crashed. */
typedef struct progress_note {
    int64_t next;
    int64_t valid; /* choice of arguments with which the function succeeds */
    char call[1024];
} note_t;

static note_t *note;
static uint64_t random_state;

static unsigned draw(unsigned n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % n;
}

/* True for counts that exceed every array: the function then gets NULL instead of an array. */
static bool is_huge(char kind, const char *type, argument_t argument)
{
    if (kind != 'i') return false;
    const bool is_size = strcmp(type, "size_t") == 0; /* -1 is the largest size_t */
    return argument.i > OBJECTS_ARRAY || argument.i < (is_size ? 0 : -OBJECTS_ARRAY);
}

/* True if a count and a stride may together exceed an array. Functions that return no status, such
 * as dtype_cast, cannot check that. */
static bool leaves_arrays(const call_t *call, const argument_t *arguments)
{
    double product = 1.0;
    int n_numbers = 0;
    bool has_negative = false;
    for (int i = 0; i < call->n; i++) {
        if (call->takes[i].kind != 'i') continue;
        product *= fmax(fabs((double)arguments[i].i), 1.0);
        has_negative |= arguments[i].i < 0;
        n_numbers++;
    }
    return !call->has_status && n_numbers > 1 && (has_negative || product > OBJECTS_ARRAY);
}

static argument_t spoil(char kind, unsigned flaw)
{
    static const int64_t numbers[] = {-1, 200, INT64_MAX, INT64_MIN};
    static const int64_t members[] = {-1, 77, INT32_MAX, INT32_MIN};
    static const double doubles[] = {NAN, INFINITY, -1e308, -1};
    argument_t argument = {.p = NULL};
    if (kind == 'i') argument.i = numbers[flaw % FLAWS];
    if (kind == 'e') argument.i = members[flaw % FLAWS];
    if (kind == 'b') argument.i = flaw % 2;
    if (kind == 'd') argument.d = doubles[flaw % FLAWS];
    return argument;
}

static void describe(const call_t *call, const argument_t *arguments)
{
    char *text = note->call;
    size_t size = sizeof note->call;
    int length = snprintf(text, size, "%s(", call->name);
    for (int i = 0; i < call->n && (size_t)length < size; i++) {
        const char kind = call->takes[i].kind;
        const char *comma = i > 0 ? ", " : "";
        char *end = text + length;
        const size_t left = size - (size_t)length;
        if (kind == 'd')
            length += snprintf(end, left, "%s%g", comma, arguments[i].d);
        else if (kind != 'p' && kind != 'f')
            length += snprintf(end, left, "%s%lld", comma, (long long)arguments[i].i);
        else if (arguments[i].p == NULL)
            length += snprintf(end, left, "%sNULL", comma);
        else if (strcmp(call->takes[i].type, "const char *") == 0)
            length += snprintf(end, left, "%s\"%.40s\"", comma, (const char *)arguments[i].p);
        else
            length += snprintf(end, left, "%s%s", comma, call->takes[i].type);
    }
    if ((size_t)length < size) snprintf(text + length, size - (size_t)length, ")");
}

static bool is_pointer(const call_t *call, int i)
{
    return strchr("pf", call->takes[i].kind) != NULL;
}

static int64_t count_pointers(const call_t *call)
{
    int64_t n = 0;
    for (int i = 0; i < call->n; i++) n += is_pointer(call, i);
    return n;
}

/* Returns the index of the n-th pointer among the arguments, counted from 0. */
static int find_pointer(const call_t *call, int64_t n)
{
    for (int i = 0; i < call->n; i++)
        if (is_pointer(call, i) && n-- == 0) return i;
    return -1;
}

/* Counts the calls of series 2: one for each wrong value of each argument. */
static int64_t count_flaws(const call_t *call)
{
    return count_pointers(call) + FLAWS * (call->n - count_pointers(call));
}

static void spoil_one(const call_t *call, argument_t *arguments, int64_t flaw)
{
    for (int i = 0; i < call->n; i++) {
        const int64_t n = is_pointer(call, i) ? 1 : FLAWS;
        if (flaw < n) {
            arguments[i] = spoil(call->takes[i].kind, (unsigned)flaw);
            return;
        }
        flaw -= n;
    }
}

static void begin_choice(const call_t *call, uint64_t seed)
{
    random_state = seed;
    for (const char *c = call->name; *c; c++) random_state = random_state * 31 + (unsigned char)*c;
    for (int i = 0; i < 4; i++) draw(2);
}

/* In the first half of the choices, counts are not 0, because arrays may be NULL if their count is
 * 0. */
static void choose_valid(const call_t *call, int64_t choice, argument_t *arguments)
{
    begin_choice(call, (uint64_t)choice * 7919u);
    for (int i = 0; i < call->n; i++) {
        arguments[i] = objects_pick(call->takes[i].kind, call->takes[i].type, draw(1 << 20));
        if (call->takes[i].kind == 'i' && choice < TRIES / 2 && arguments[i].i == 0)
            arguments[i].i = 1;
    }
}

/* Chooses the arguments of call `index`: first series 1 (pointers that are NULL), then 2 and 3. */
static void choose(const call_t *call, int64_t index, uint64_t seed, argument_t *arguments)
{
    const int64_t n_pointers = count_pointers(call), n_flaws = count_flaws(call);
    choose_valid(call, note->valid, arguments);
    if (index < 2 * n_pointers) {
        arguments[find_pointer(call, index % n_pointers)].p = NULL;
        return;
    }
    index -= 2 * n_pointers;
    if (index >= n_flaws) {
        begin_choice(call, seed * 1000003u + (uint64_t)index * 7919u + 1);
        for (int i = 0; i < call->n; i++)
            arguments[i] = objects_pick(call->takes[i].kind, call->takes[i].type, draw(1 << 20));
    }
    if (index < ROUNDS * n_flaws)
        spoil_one(call, arguments, index % n_flaws);
    else
        for (int i = 0; i < call->n; i++)
            if (draw(3) == 0) arguments[i] = spoil(call->takes[i].kind, draw(FLAWS));
    bool huge = leaves_arrays(call, arguments);
    for (int i = 0; i < call->n; i++)
        huge |= is_huge(call->takes[i].kind, call->takes[i].type, arguments[i]);
    for (int i = 0; huge && i < call->n; i++)
        if (objects_is_array(call->takes[i].type)) arguments[i].p = NULL;
}

/* True for functions that consume an argument: the next call needs a new object. */
static bool consumes(const char *name)
{
    static const char *const words[] = {"release", "destroy", "close",  "_take", "_end",
                                        "finish",  "leave",   "detach", "freeze"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strstr(name, words[i]) != NULL) return true;
    return false;
}

/* Returns the last argument if it is the only output and is one object; otherwise NULL. */
static void **output_of(const call_t *call, const argument_t *arguments)
{
    const char *type = call->n > 0 ? call->takes[call->n - 1].type : "";
    const size_t length = strlen(type);
    if (strcmp(call->name, "op_split") == 0) return NULL; /* its outputs are an array */
    int n_outputs = 0;
    for (int i = 0; i < call->n; i++) {
        if (strcmp(call->takes[i].type, "int *") == 0) return NULL;
        n_outputs += strstr(call->takes[i].type, " **") != NULL;
    }
    if (n_outputs > 1) return NULL;
    const bool is_object = length > 3 && strcmp(type + length - 3, " **") == 0 &&
                           strncmp(type, "const ", 6) != 0;
    return is_object ? arguments[call->n - 1].p : NULL;
}

static bool is_told(const call_t *call, const argument_t *arguments, int status)
{
    if (status == 0 || !call->has_status) return true;
    /* context_fail returns the status that it was given. dispatch_select_fixed may fail without a
     * message. */
    if (strcmp(call->name, "context_fail") == 0 || strcmp(call->name, "dispatch_select_fixed") == 0)
        return true;
    const bool has_context = strcmp(call->takes[0].type, "context_t *") == 0;
    void **out = output_of(call, arguments);
    if (!has_context || arguments[0].p == NULL) return true;
    return *context_error(arguments[0].p) != '\0' && (out == NULL || *out == NULL);
}

/* True for arguments that may be NULL: contexts, attributes, options, user data, and those listed
 * here by index. parallel_* are listed because other arguments of the test fail first. */
static bool is_optional(const call_t *call, int argument)
{
    static const char optional[] =
        " attrs_check:2 checkpoint_load:24 checkpoint_save:24 clip_gradients:4 context_fail:2 "
        "context_status:0 dispatch_run:5 dispatch_select_fixed:6 freeze_tune:5 "
        "freeze_tune_for:5 generator_add:2 generator_reset:2 graph_parse:2 graph_parse_next:2 "
        "graph_print:2 "
        "graph_run:2 "
        "loader_next:4 "
        "loss_bce_with_logits:34 mkldnn_adam_step:5 mkldnn_sgd_step:3 "
        "module_save_safetensors:3 module_set_parameter:3 op_argmax:2 op_argmin:2 "
        "op_batch_norm:23 op_batch_norm_conv2d:345 op_batch_norm_training:23 "
        "op_cached_attention:46 "
        "op_compress:3 "
        "op_conv1d:3 op_conv1d_integer:34 op_conv1d_quantized:35 op_conv2d:3 "
        "op_conv2d_integer:34 op_conv2d_quantized:35 op_conv3d:3 op_conv3d_integer:34 "
        "op_conv3d_quantized:35 op_conv_transpose1d:3 op_conv_transpose2d:3 "
        "op_conv_transpose3d:3 op_dequantize:3 op_fold_bias:23456 op_fold_weight:23 "
        "op_group_norm:34 op_gru:23 op_instance_norm:23 op_layer_norm:34 op_linear:3 op_lstm:234 "
        "op_lstm_quantized:234 "
        "op_matmul_integer:34 op_quantize:3 op_repeat_interleave:3 op_requantize:34 "
        "op_rms_norm:3 op_rnn:23 op_roll:4 op_scaled_dot_product_attention:4 op_slice_by:23 "
        "op_slice_scatter:5 op_slice_scatter_:5 "
        "op_unique:2567 plan_create:2 parallel_broadcast:23 parallel_sum:3 prepared_decline:01 "
        "safetensors_save:3 store_trim:2 store_verify:1 tape_backward:3 tokenizer_decode:5 "
        "tensor_borrow:4 trainer_step:56 zoo_create:4 ";
    const char *type = call->takes[argument].type;
    if (strcmp(type, "context_t *") == 0 || strstr(type, "void *") != NULL) return true;
    if (strstr(type, "attrs_t *") != NULL || strstr(type, "options_t *") != NULL) return true;
    char key[128];
    const int length = snprintf(key, sizeof key, " %s:", call->name);
    const char *at = strstr(optional, key);
    return at != NULL && memchr(at + length, '0' + argument, strcspn(at + length, " ")) != NULL;
}

/* True if the error message says that this argument is NULL. The message may use the argument's
 * name in the header, the word "output" or "target", or a synonym from the list. */
static bool names_argument(const call_t *call, const char *error, int argument)
{
    static const char other[] =
        " format:text frozen:module in:inputs in:values infos:inputs "
        "method:name multiplier:scale out_n:pieces out:values tensors:operand ";
    const char *name = call->takes[argument].name;
    const char *noun = strstr(error, " is NULL");
    if (noun == NULL) return false;
    while (noun > error && noun[-1] != ' ') noun--;
    const int length = (int)strcspn(noun, " ");
    const bool is_output = strncmp(name, "out", 3) == 0 || strncmp(name, "n_out", 5) == 0;
    const bool is_target = argument == 1 && call->name[strlen(call->name) - 1] == '_';
    if (is_output && strncmp(noun, "output ", 7) == 0) return true;
    if (is_target && strncmp(noun, "target ", 7) == 0) return true;
    char pair[128];
    snprintf(pair, sizeof pair, " %s:%.*s ", name, length, noun);
    if (strstr(other, pair) != NULL) return true;
    if (strncmp(name, "out_", 4) == 0 && strncmp(noun, "out_", 4) != 0) name += 4;
    return (int)strlen(name) == length && strncmp(noun, name, (size_t)length) == 0;
}

/* True if a call with a NULL failed with the right status and message, or if the NULL is
 * allowed. */
static bool is_refused(const call_t *call, const argument_t *arguments, int argument, int status)
{
    if (!call->has_status || is_optional(call, argument)) return true;
    if (status != STATUS_INVALID_ARGUMENT) return false;
    const bool has_context = strcmp(call->takes[0].type, "context_t *") == 0;
    return !has_context || names_argument(call, context_error(arguments[0].p), argument);
}

static void be_quiet(void)
{
    if (getenv("ARGUMENTS_VERBOSE") != NULL) return;
    const int null = open("/dev/null", O_RDWR);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
}

/* Starts a child. If an earlier one changed the files, they are written again first. */
static pid_t fork_with_files(void)
{
    objects_reset();
    fflush(stdout);
    return fork();
}

/* Searches arguments with which the function succeeds. */
static void search_child(const call_t *call)
{
    be_quiet();
    int n_refused = 0;
    for (const int64_t first = note->valid; note->valid < TRIES; note->valid++) {
        argument_t arguments[CALL_MAX_ARGUMENTS];
        choose_valid(call, note->valid, arguments);
        alarm(SECONDS);
        const int status = call->run(arguments);
        if (status == STATUS_OK) _exit(note->valid > first ? WRONG : 0);
        n_refused += status == STATUS_OUT_OF_MEMORY;
        if (n_refused == REFUSALS) note->valid = TRIES - 1; /* as zoo_alexnet, always too large */
    }
    _exit(0);
}

static void run_child(const call_t *call, int64_t end, uint64_t seed)
{
    be_quiet();
    const int64_t first = note->next, n_pointers = count_pointers(call);
    for (; note->next < end; note->next++) {
        argument_t arguments[CALL_MAX_ARGUMENTS];
        choose(call, note->next, seed, arguments);
        describe(call, arguments);
        context_clear_error(objects_context());
        alarm(SECONDS);
        const bool is_inside = note->next >= n_pointers && note->next < 2 * n_pointers;
        const int status = is_inside ? objects_trace(call, arguments) : call->run(arguments);
        if (!is_told(call, arguments, status)) _exit(WRONG);
        if (note->next < 2 * n_pointers &&
            !is_refused(call, arguments, find_pointer(call, note->next % n_pointers), status))
            _exit(WRONG);
        if (consumes(call->name) || note->next - first >= BATCH) {
            note->next++;
            _exit(0);
        }
    }
    _exit(0);
}

/* Finds arguments with which the function succeeds, or uses choice 0. If the success followed other
 * calls, a new child repeats it, because those calls may have changed the objects. */
static void find_valid(const call_t *call)
{
    int status = 1;
    for (note->valid = 0; note->valid < TRIES && status != 0;) {
        const pid_t child = fork_with_files();
        if (child == 0) search_child(call);
        if (child < 0 || waitpid(child, &status, 0) != child) return;
        /* Crashed: a sanitizer exits with a code of its own. */
        if (WIFSIGNALED(status) || (status != 0 && WEXITSTATUS(status) != WRONG)) note->valid++;
    }
    if (note->valid == TRIES) note->valid = 0;
}

/* Returns the number of calls that crashed, hung, accepted a NULL, set no message or left an output
 * that is not NULL. */
static int check_function(const call_t *call, int64_t n_random, uint64_t seed)
{
    int n_failed = 0;
    const int64_t end = 2 * count_pointers(call) + ROUNDS * count_flaws(call) + n_random;
    find_valid(call);
    note->next = 0;
    while (note->next < end) {
        const pid_t child = fork_with_files();
        if (child == 0) run_child(call, end, seed);
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) != child) return n_failed + 1;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
        const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        if (n_failed++ < SHOWN)
            printf("%s: %s\n",
                   signal != 0 ? signal == SIGALRM ? "hang" : strsignal(signal)
                   : note->next < 2 * count_pointers(call)
                       ? "NULL is not refused, or not by the argument's name"
                       : "no message, or an output is left",
                   note->call);
        if (n_failed > SHOWN) return n_failed;
        note->next++;
    }
    return n_failed;
}

int main(int argc, char **argv)
{
    const int64_t n_random = argc > 1 ? atoll(argv[1]) : 850;
    const uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    const char *only = argc > 3 ? argv[3] : NULL;
    note = mmap(NULL, sizeof *note, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (note == MAP_FAILED) return 2;
    if (!objects_begin()) return 2;
    objects_make();
    int n_failed = 0, n_functions = 0;
    for (int i = 0; i < n_calls; i++) {
        if (only != NULL && strcmp(calls[i].name, only) != 0) continue;
        const int failed = check_function(&calls[i], (n_random + n_calls - 1) / n_calls, seed);
        n_functions += failed > 0;
        n_failed += failed;
    }
    objects_end();
    if (n_failed > 0)
        printf("%d calls of %d functions failed; to repeat one: %s %lld %llu FUNCTION\n", n_failed,
               n_functions, argv[0], (long long)n_random, (unsigned long long)seed);
    return n_failed > 0;
}
