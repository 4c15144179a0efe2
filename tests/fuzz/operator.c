/* Calls of operators, as text. If the sizes of the result can be inferred, the call runs in the
 * layouts that the input requests, and its result must match the operator's specification.
 *
 *   input = digit digit " " operator case      "50 conv2d(f32[1,3,7,7], f32[4,3,3,3], none)"
 *
 * The digits choose the arrangements of the first activation and of the others
 * (tests/support/arrange.h). For cases see tests/support/case.h. */
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/select_impl.h"
#include "ops/ops.h"
#include "tests/support/arrange.h"
#include "tests/support/case.h"
#include "tests/support/cases.h"

#define MAX_NUMEL 4096 /* operands and results */
#define MAX_NUMBER 1e3 /* if attributes are larger, results are not checked */
#define N_LOOKS 24     /* elements to check per result */

/* Errors above this many times the bound are reported. Smaller ones are not, because exponents such
 * as lrn's beta=32 multiply the rounding of intermediate results; the conformance suite tests
 * them. */
#define MAX_ERROR 32.0

typedef struct call {
    const opdef_t *op;
    case_call_t call;
    arrangement_t first, others;
    tensor_t *in[CASE_MAX_INPUTS];
} call_t;

/* Parses a call. Returns false if the text is no call, or if the call is too large. */
static bool read_call(context_t *ctx, char *text, call_t *out)
{
    char *open = strchr(text, '(');
    if (strlen(text) < 4 || open == NULL || open - text < 4) return false;
    if (text[0] < '0' || text[0] > '9' || text[1] < '0' || text[1] > '9') return false;
    out->first = (arrangement_t)((text[0] - '0') % ARRANGE_COUNT);
    out->others = (arrangement_t)((text[1] - '0') % ARRANGE_COUNT);
    *open = '\0';
    out->op = ops_find(text + 3);
    *open = '(';
    if (out->op == NULL) return false;
    status_t status = case_parse(ctx, out->op, open, &out->call);
    fuzz_check_failure(ctx, status);
    if (status != STATUS_OK) return false;
    for (int i = 0; i < out->call.n_in; i++) {
        int64_t n = 0;
        const case_operand_t *operand = &out->call.in[i];
        for (int d = 0; d < operand->rank; d++)
            if (operand->sizes[d] < 0) return false;
        if (!shape_numel(operand->rank, operand->sizes, &n) || n > MAX_NUMEL) return false;
    }
    return true;
}

static bool make_input(context_t *ctx, call_t *call, int i, arrangement_t arrangement)
{
    tensor_t *dense = NULL;
    status_t status = case_fill(ctx, &call->call.in[i], &dense);
    fuzz_check_failure(ctx, status);
    if (dense == NULL) return status == STATUS_OK;
    bool is_activation = select_operand(call->op, i)->role == ROLE_ACTIVATION;
    if (!is_activation || !arrange_is_possible(dense, arrangement))
        arrangement = ARRANGE_CONTIGUOUS;
    status = arrange(ctx, dense, arrangement, &call->in[i]);
    tensor_release(dense);
    return status == STATUS_OK;
}

static bool make_inputs(context_t *ctx, call_t *call)
{
    for (int i = 0; i < call->call.n_in; i++)
        if (!make_input(ctx, call, i, i == 0 ? call->first : call->others)) return false;
    return true;
}

static bool is_tame(double number)
{
    return isfinite(number) && fabs(number) <= MAX_NUMBER;
}

/* Returns false for large numbers, whose intermediate results may overflow in one order of
 * operations and not in another. */
static bool has_tame_numbers(const call_t *call)
{
    const attr_table_t *table = &call->op->attrs;
    bool is_right = true;
    for (int i = 0; i < call->call.n_in; i++)
        is_right = is_right && is_tame(call->call.in[i].number) &&
                   (double)call->call.in[i].scale <= MAX_NUMBER;
    for (int f = 0; f < table->n_fields; f++) {
        const void *at = call->call.attrs + table->fields[f].offset;
        const floats_t *floats = at;
        if (table->fields[f].kind == ATTR_FLOAT)
            is_right = is_right && is_tame(*(const double *)at);
        if (table->fields[f].kind == ATTR_FLOATS)
            for (int i = 0; i < floats->n && i < TENSOR_MAX_RANK; i++)
                is_right = is_right && is_tame(floats->values[i]);
    }
    const post_ops_t *post = attrs_post(table, call->call.attrs);
    for (int i = 0; post != NULL && i < post->n; i++)
        is_right = is_right && is_tame(post->op[i].alpha) && is_tame(post->op[i].beta);
    return is_right;
}

static bool infer(context_t *ctx, const call_t *call)
{
    tensor_info_t out[OP_MAX_OUTPUTS];
    int n_out = 0;
    status_t status = case_infer(ctx, call->op, call->call.attrs, call->call.n_in, call->in, &n_out,
                                 out);
    fuzz_check_failure(ctx, status);
    for (int i = 0; status == STATUS_OK && i < n_out; i++)
        if (info_numel(&out[i]) > MAX_NUMEL) return false;
    return status == STATUS_OK;
}

/* Returns true if an operand has integers: they may be indices, which are checked only at run
 * time. */
static bool has_integers(const call_t *call)
{
    bool has = false;
    for (int i = 0; i < call->call.n_in; i++)
        has = has || dtype_is_integral(call->call.in[i].dtype);
    return has;
}

/* Returns true for operators whose float results jump or enlarge errors: remainders (6 % 1.2 is 0
 * or almost 1.2), activations whose operand is almost 0 when it is computed again, gradients of
 * norms of one element, which are 0 because large terms cancel, recurrent layers with steep
 * functions, and lrn, whose powers may leave f32's range although its result does not. */
static bool jumps(const call_t *call, const tensor_t *out)
{
    static const char *const names[] = {"remainder",
                                        "fmod",
                                        "div_floor",
                                        "div_trunc",
                                        "batch_norm_backward",
                                        "lstm",
                                        "gru",
                                        "rnn",
                                        "lrn",
                                        "lrn_backward",
                                        "group_norm_backward",
                                        "rms_norm_backward"};
    bool is_listed = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        is_listed = is_listed || strcmp(call->op->name, names[i]) == 0;
    return is_listed && dtype_is_floating(tensor_dtype(out));
}

static void run(context_t *ctx, const call_t *call, const char *text)
{
    const tensor_t *in[CASE_MAX_INPUTS], *given[OP_MAX_OUTPUTS];
    tensor_t *out[OP_MAX_OUTPUTS] = {NULL};
    int n_out = OP_MAX_OUTPUTS;
    double error = 0.0;
    for (int i = 0; i < call->call.n_in; i++) in[i] = call->in[i];
    status_t status = dispatch_run(ctx, call->op, call->call.attrs, call->call.n_in, in, &n_out,
                                   out);
    fuzz_check_failure(ctx, status);
    FUZZ_CHECK(status != STATUS_INVALID_ARGUMENT || has_integers(call), "%s was inferred: %s", text,
               context_error(ctx));
    if (status != STATUS_OK) return;
    bool is_empty = false;
    for (int i = 0; i < n_out; i++) {
        given[i] = out[i];
        is_empty = is_empty || tensor_numel(out[i]) == 0;
    }
    if (!is_empty && has_tame_numbers(call) && !jumps(call, out[0])) {
        status = dispatch_verify(ctx, call->op, call->call.attrs, call->call.n_in, in, n_out, given,
                                 N_LOOKS, &error);
        fuzz_check_failure(ctx, status);
        FUZZ_CHECK(status != STATUS_OK || error <= MAX_ERROR, "%s is off by %g times its bound",
                   text, error);
    }
    for (int i = 0; i < n_out; i++) tensor_release(out[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    context_t *ctx = fuzz_begin(16 << 20, 100000);
    call_t call = {0};
    char *text = malloc(n_bytes + 1);
    FUZZ_CHECK(text != NULL, "%zu bytes", n_bytes);
    if (n_bytes > 0) memcpy(text, bytes, n_bytes);
    text[n_bytes] = '\0';
    context_seed(ctx, 1);
    if (read_call(ctx, text, &call) && make_inputs(ctx, &call) && infer(ctx, &call))
        run(ctx, &call, text);
    for (int i = 0; i < CASE_MAX_INPUTS; i++) tensor_release(call.in[i]);
    free(text);
    fuzz_end(ctx);
    return 0;
}

#ifdef TESSERA_LIBFUZZER
/* ---- mutations that keep the grammar: most others make texts that are no case ---- */

size_t LLVMFuzzerMutate(uint8_t *bytes, size_t n, size_t max_n);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t n, size_t max_n, unsigned seed);

static bool is_digit(uint8_t byte)
{
    return byte >= '0' && byte <= '9';
}

/* Replaces the bytes from first to last - 1 by a word. */
static size_t replace(uint8_t *bytes, size_t n, size_t max_n, size_t first, size_t last,
                      const char *word)
{
    size_t length = strlen(word), grown = n - (last - first) + length;
    if (grown > max_n) return n;
    memmove(bytes + first + length, bytes + last, n - last);
    memcpy(bytes + first, word, length);
    return grown;
}

/* Writes a case of some operator, with some arrangements of its inputs. */
static size_t put_case(uint8_t *bytes, size_t n, size_t max_n, unsigned pick)
{
    char text[256];
    const opdef_t *op = ops_at((int)(pick % (unsigned)ops_count()));
    unsigned n_cases = 0;
    while (cases_of(op)[n_cases] != NULL) n_cases++;
    if (n_cases == 0) return n;
    pick /= (unsigned)ops_count();
    int length = snprintf(text, sizeof text, "%u%u %s%s", pick % 8, pick / 8 % 8, op->name,
                          cases_of(op)[pick / 64 % n_cases]);
    if (length < 0 || (size_t)length >= sizeof text || (size_t)length > max_n) return n;
    memcpy(bytes, text, (size_t)length);
    return (size_t)length;
}

/* Replaces a number, a dtype, or the whole input. */
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t n, size_t max_n, unsigned seed)
{
    static const char *const numbers[] = {"0", "1", "1", "2",  "2",  "3",  "3",  "4",  "5",  "6",
                                          "7", "8", "9", "12", "15", "16", "17", "31", "32", "33"};
    static const char *const dtypes[] = {"f32", "f32", "f64", "f16", "bf16",
                                         "s64", "s32", "s8",  "u8",  "bool"};
    const unsigned pick = seed >> 8;
    if (n < 4 || seed % 64 == 0) return put_case(bytes, n, max_n, pick);
    if (seed % 8 == 0) return LLVMFuzzerMutate(bytes, n, max_n);
    size_t first = pick % n;
    if (seed % 8 == 1) {
        while (first < n && bytes[first] != '[') first++;
        size_t last = first;
        while (first > 0 && bytes[first - 1] != '(' && bytes[first - 1] != ' ') first--;
        if (last == n) return LLVMFuzzerMutate(bytes, n, max_n);
        return replace(bytes, n, max_n, first, last, dtypes[pick / n % 10]);
    }
    while (first < n && !is_digit(bytes[first])) first++;
    size_t last = first + (first < 2); /* arrangements have one digit */
    while (first >= 2 && first > 2 && is_digit(bytes[first - 1])) first--;
    while (first >= 2 && last < n && is_digit(bytes[last])) last++;
    if (first == n) return LLVMFuzzerMutate(bytes, n, max_n);
    return replace(bytes, n, max_n, first, last, numbers[pick / n % (first < 2 ? 13 : 20)]);
}
#endif
