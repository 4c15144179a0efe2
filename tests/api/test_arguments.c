/* Calls every public function with wrong arguments: none may crash or hang.
 *
 * Each call starts from valid arguments. First each argument is made wrong alone: pointers become
 * NULL, enumerators leave their range, numbers become negative or too large. Then several at once
 * are made wrong, chosen by a seed. Calls run in child processes, so that a crash costs one call.
 *
 * A failure must have a message, and must set the object that it would have made to NULL.
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

/* Rounds of valid arguments that are made wrong one by one, wrong values per kind, and calls per
 * child, which has its own objects. */
enum { ROUNDS = 2, FLAWS = 4, BATCH = 64, SECONDS = 10, SHOWN = 40, WRONG = 3 };

/* The call that a child is making, for the parent to report after a crash. */
typedef struct progress_note {
    int64_t next;
    char call[1024];
} note_t;

static note_t *note;
static uint64_t random_state;

static unsigned draw(unsigned n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % n;
}

/* True for numbers that exceed every array; such calls get no array. */
static bool is_huge(char kind, const char *type, argument_t argument)
{
    if (kind != 'i') return false;
    const bool is_size = strcmp(type, "size_t") == 0; /* -1 is the largest size_t */
    return argument.i > OBJECTS_ARRAY || argument.i < (is_size ? 0 : -OBJECTS_ARRAY);
}

/* True if a count and a stride may together leave an array. A function without status, such as
 * dtype_cast, cannot check that. */
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

/* Counts the systematic flaws of a call: every flaw of every argument. */
static int64_t count_flaws(const call_t *call)
{
    int64_t n = 0;
    for (int i = 0; i < call->n; i++) n += strchr("pf", call->takes[i].kind) ? 1 : FLAWS;
    return n;
}

static void spoil_one(const call_t *call, argument_t *arguments, int64_t flaw)
{
    for (int i = 0; i < call->n; i++) {
        const int64_t n = strchr("pf", call->takes[i].kind) ? 1 : FLAWS;
        if (flaw < n) {
            arguments[i] = spoil(call->takes[i].kind, (unsigned)flaw);
            return;
        }
        flaw -= n;
    }
}

/* Chooses the arguments of call `index` of a function: first the systematic flaws, then random
 * ones. */
static void choose(const call_t *call, int64_t index, uint64_t seed, argument_t *arguments)
{
    random_state = seed * 1000003u + (uint64_t)index * 7919u + 1;
    for (const char *c = call->name; *c; c++) random_state = random_state * 31 + (unsigned char)*c;
    for (int i = 0; i < 4; i++) draw(2);
    for (int i = 0; i < call->n; i++)
        arguments[i] = objects_pick(call->takes[i].kind, call->takes[i].type, draw(1 << 20));
    const int64_t n_flaws = count_flaws(call);
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

/* True for functions after which an argument must not be used again. */
static bool consumes(const char *name)
{
    static const char *const words[] = {"release", "destroy", "close",  "_take", "_end",
                                        "finish",  "leave",   "detach", "freeze"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strstr(name, words[i]) != NULL) return true;
    return false;
}

/* Returns the output of a call that makes one object; NULL for others, including arrays. */
static void **output_of(const call_t *call, const argument_t *arguments)
{
    const char *type = call->n > 0 ? call->takes[call->n - 1].type : "";
    const size_t length = strlen(type);
    /* The outputs of these are arrays. */
    if (strcmp(call->name, "op_split") == 0 || strcmp(call->name, "dispatch_run_prepared") == 0)
        return NULL;
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
    /* context_fail returns the given status; dispatch_select_fixed may answer no without a
     * message. */
    if (strcmp(call->name, "context_fail") == 0 || strcmp(call->name, "dispatch_select_fixed") == 0)
        return true;
    const bool has_context = strcmp(call->takes[0].type, "context_t *") == 0;
    void **out = output_of(call, arguments);
    if (!has_context || arguments[0].p == NULL) return true;
    return *context_error(arguments[0].p) != '\0' && (out == NULL || *out == NULL);
}

static void run_child(const call_t *call, int64_t end, uint64_t seed)
{
    if (getenv("ARGUMENTS_VERBOSE") == NULL) {
        const int null = open("/dev/null", O_RDWR);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
    }
    snprintf(note->call, sizeof note->call, "objects for %s", call->name);
    objects_make();
    const int64_t first = note->next;
    for (; note->next < end; note->next++) {
        argument_t arguments[CALL_MAX_ARGUMENTS];
        choose(call, note->next, seed, arguments);
        describe(call, arguments);
        context_clear_error(objects_context());
        alarm(SECONDS);
        if (!is_told(call, arguments, call->run(arguments))) _exit(WRONG);
        if (consumes(call->name) || note->next - first >= BATCH) {
            note->next++;
            _exit(0);
        }
    }
    _exit(0);
}

/* Returns the number of calls that crashed, hung, or returned without a message or with an output
 * left. */
static int check_function(const call_t *call, int64_t n_random, uint64_t seed)
{
    int n_failed = 0;
    const int64_t end = ROUNDS * count_flaws(call) + n_random;
    note->next = 0;
    while (note->next < end) {
        const pid_t child = fork();
        if (child == 0) run_child(call, end, seed);
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) != child) return n_failed + 1;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
        const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        if (n_failed++ < SHOWN)
            printf("%s: %s\n",
                   signal == 0         ? "no message, or an output is left"
                   : signal == SIGALRM ? "hang"
                                       : strsignal(signal),
                   note->call);
        fflush(stdout);
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
