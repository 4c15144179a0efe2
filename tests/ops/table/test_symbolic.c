/* Shape inference with symbolic sizes, for every operator and case. Names replace sizes and
 * attributes, and the rule runs once. Where the guards (conditions that it adds) hold, its result
 * must equal that of the rule for numbers.
 *
 * usage: test_symbolic [SEED [table]]; "test_symbolic 1 table" prints for each operator how many
 * calls were inferred, how many of them are valid for one size only ("pinned"), the number of
 * guards, at how many other sizes results were compared, and how many sizes a guard excludes
 * although results would be right. TESSERA_CASE=conv2d:3 runs one case of one operator. */
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/attrs_impl.h"
#include "dispatch/select_impl.h"
#include "ops/ops.h"
#include "tensor/scope.h"
#include "tensor/sym/sym.h"
#include "tests/support/case.h"
#include "tests/support/cases.h"

#define MAX_NAMES 128
#define N_WANTED 8 /* other sizes to compare per call */
#define N_TRIES 300

static uint64_t seed = 1;
static bool prints_table;

/* Which numbers of a call names replace. */
typedef enum round { ACTIVATIONS, OPERANDS, ATTRIBUTES, N_ROUNDS } round_t;

typedef struct subject {
    context_t *ctx;
    sym_space_t *space;
    const opdef_t *op;
    int index; /* index of the case */
    round_t round;
    uint64_t random;
    case_call_t call;
    int n_names;
    int64_t hints[MAX_NAMES], least[MAX_NAMES], sizes[MAX_NAMES];
    tensor_info_t in[CASE_MAX_INPUTS];
    _Alignas(16) char attrs[CASE_MAX_ATTRS];
    int n_out;
    tensor_info_t out[OP_MAX_OUTPUTS];
} subject_t;

typedef struct tally {
    int calls, pinned, guards, compared, failed;
    int narrow; /* sizes that a guard excludes although results would be right */
} tally_t;

static uint64_t draw(subject_t *s, uint64_t n)
{
    s->random = s->random * 6364136223846793005u + 1442695040888963407u;
    return (s->random >> 33) % n;
}

/* ---- names ---- */

/* Returns a new name for a size, or an old name for a size that was equal in this case (its
 * hint). */
static int64_t name_size(subject_t *s, int64_t hint, int64_t least)
{
    char text[16];
    for (int i = 0; i < s->n_names; i++)
        if (s->hints[i] == hint && s->least[i] == least && draw(s, 2) == 0) {
            snprintf(text, sizeof text, "s%d", i);
            return sym_name(s->ctx, text, hint, least, INT64_MAX);
        }
    if (s->n_names == MAX_NAMES) return hint;
    snprintf(text, sizeof text, "s%d", s->n_names);
    s->hints[s->n_names] = hint;
    s->least[s->n_names++] = least;
    return sym_name(s->ctx, text, hint, least, INT64_MAX);
}

static void name_sizes(subject_t *s, int operand)
{
    const case_operand_t *from = &s->call.in[operand];
    int64_t sizes[TENSOR_MAX_RANK];
    bool is_named = from->dtype != DTYPE_NONE && !from->is_number &&
                    (s->round != ACTIVATIONS ||
                     select_operand(s->op, operand)->role == ROLE_ACTIVATION);
    for (int d = 0; d < from->rank; d++)
        sizes[d] = is_named ? name_size(s, from->sizes[d], from->sizes[d] > 0) : from->sizes[d];
    s->in[operand] = from->dtype != DTYPE_NONE ? info_dense(from->dtype, from->rank, sizes)
                                               : (tensor_info_t){.dtype = DTYPE_NONE};
    s->in[operand].is_number = from->is_number;
}

/* Returns true for attributes that count elements. A zero that means a default keeps its value. */
static bool is_size(const attr_field_t *field)
{
    static const char *const names[] = {
        "sizes",       "start",      "end",           "size",          "k",      "before",
        "after",       "padding",    "extra_padding", "kernel",        "stride", "dilation",
        "output_size", "input_size", "shifts",        "output_padding"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(field->name, names[i]) == 0) return true;
    return false;
}

typedef int64_t (*replace_t)(subject_t *s, int64_t value);

static void replace_attrs(subject_t *s, replace_t replace, void *attrs)
{
    for (int f = 0; f < s->op->attrs.n_fields; f++) {
        const attr_field_t *field = &s->op->attrs.fields[f];
        if (field->kind == ATTR_NAME || !is_size(field)) continue;
        for (int i = 0; i < attrs_n_elements(field, attrs); i++) {
            const int64_t value = attrs_integer(field, attrs, i);
            if (value == INT64_MAX || value == -1 || (value == 0 && field->zero_is_default))
                continue;
            attrs_set_integer(field, attrs, i, replace(s, value));
        }
    }
}

static int64_t name_attr(subject_t *s, int64_t value)
{
    return draw(s, 2) == 0 ? name_size(s, value, value > 0 ? 1 : -100) : value;
}

/* ---- other sizes ---- */

static bool size_of(void *user, int name, const char *text, int64_t *out_size)
{
    (void)text;
    *out_size = ((subject_t *)user)->sizes[name];
    return true;
}

static int64_t number_of(subject_t *s, int64_t value)
{
    int64_t number = -12345;
    if (!sym_is(value)) return value;
    return sym_calculate(s->space, value, size_of, s, &number) ? number : -12345;
}

static int64_t draw_size(subject_t *s, int name)
{
    const int64_t hint = s->hints[name];
    const int64_t choices[] = {hint + 1,
                               hint - 1,
                               2 * hint,
                               4 * hint,
                               hint + 8,
                               (int64_t)draw(s, 24),
                               (int64_t)draw(s, 100),
                               1};
    const int64_t size = choices[draw(s, sizeof choices / sizeof *choices)];
    return size < s->least[name] ? s->least[name] : size;
}

/* Chooses other sizes: for one name, for all names of equal hint, or for all names. */
static void draw_sizes(subject_t *s)
{
    const int chosen = (int)draw(s, (uint64_t)s->n_names), way = (int)draw(s, 4);
    const int64_t hint = s->hints[chosen], factor = 2 + (int64_t)draw(s, 3);
    memcpy(s->sizes, s->hints, sizeof s->sizes);
    const int64_t other = draw_size(s, chosen);
    for (int i = 0; i < s->n_names; i++) {
        if (way == 0) s->sizes[i] = draw_size(s, i);
        if (way == 1 && s->hints[i] == hint && other >= s->least[i]) s->sizes[i] = other;
        if (way == 2) s->sizes[i] = s->hints[i] * factor;
    }
    if (way == 3) s->sizes[chosen] = other;
}

/* ---- comparison ---- */

static bool complain(subject_t *s, const char *what)
{
    char text[INFO_TEXT_MAX];
    print_error("%s%s, round %d: %s\n    sizes", s->op->name, cases_of(s->op)[s->index], s->round,
                what);
    for (int i = 0; i < s->n_names; i++)
        print_error(" s%d=%lld(%lld)", i, (long long)s->sizes[i], (long long)s->hints[i]);
    for (int i = 0; i < s->call.n_in; i++) {
        print_error("\n    input %d [", i);
        for (int d = 0; d < s->in[i].rank; d++)
            print_error(" %s", sym_text(s->ctx, s->in[i].sizes[d], sizeof text, text));
        print_error(" ]");
    }
    for (int i = 0; i < s->n_out; i++) {
        print_error("\n    output %d [", i);
        for (int d = 0; d < s->out[i].rank; d++)
            print_error(" %s", sym_text(s->ctx, s->out[i].sizes[d], sizeof text, text));
        print_error(" ]");
    }
    for (int k = 0; k < sym_n_guards(s->space); k++)
        print_error("\n    guard %s", sym_guard_text(s->space, k, sizeof text, text));
    print_error("\n    again: TESSERA_CASE=%s:%d test_symbolic %llu\n", s->op->name, s->index,
                (unsigned long long)seed);
    return false;
}

/* Runs the rule for numbers at these sizes, and compares with the symbolic result. Returns the
 * difference, or NULL. */
static const char *find_difference(subject_t *s)
{
    _Alignas(16) char attrs[CASE_MAX_ATTRS];
    tensor_info_t in[CASE_MAX_INPUTS], out[OP_MAX_OUTPUTS];
    const tensor_info_t *infos[CASE_MAX_INPUTS];
    int n_out = 0;
    for (int i = 0; i < s->call.n_in; i++) {
        in[i] = s->in[i];
        for (int d = 0; d < in[i].rank; d++) in[i].sizes[d] = number_of(s, s->in[i].sizes[d]);
        if (in[i].dtype != DTYPE_NONE) in[i] = info_dense(in[i].dtype, in[i].rank, in[i].sizes);
        in[i].is_number = s->in[i].is_number;
        infos[i] = &in[i];
    }
    memcpy(attrs, s->attrs, sizeof attrs);
    replace_attrs(s, number_of, attrs);
    if (dispatch_infer(s->ctx, s->op, attrs, s->call.n_in, infos, &n_out, out) != STATUS_OK)
        return context_error(s->ctx);
    if (n_out != s->n_out) return "another number of results";
    for (int i = 0; i < n_out; i++) {
        if (out[i].rank != s->out[i].rank || out[i].dtype != s->out[i].dtype)
            return "another rank or dtype";
        for (int d = 0; d < out[i].rank; d++)
            if (out[i].sizes[d] != number_of(s, s->out[i].sizes[d])) return "another size";
    }
    return NULL;
}

/* ---- one call ---- */

static void infer_case(subject_t *s, tally_t *tally)
{
    const tensor_info_t *infos[CASE_MAX_INPUTS];
    bool is_pinned = false;
    int first = 0;
    for (int i = 0; i < s->call.n_in; i++) {
        name_sizes(s, i);
        infos[i] = &s->in[i];
    }
    memcpy(s->attrs, s->call.attrs, sizeof s->attrs);
    if (s->round == ATTRIBUTES) replace_attrs(s, name_attr, s->attrs);
    if (s->n_names == 0) return;
    const op_call_t call = {.op = s->op, .attrs = s->attrs, .n_in = s->call.n_in, .in = infos};
    tally->calls++;
    if (dispatch_infer_symbolic(s->ctx, &call, &s->n_out, s->out, &is_pinned) != STATUS_OK) {
        tally->failed += !complain(s, context_error(s->ctx));
        return;
    }
    if (is_pinned && s->op->infers_symbols && getenv("TESSERA_CASE") != NULL)
        (void)complain(s, "pinned");
    tally->pinned += is_pinned;
    tally->guards += sym_n_guards(s->space);
    memcpy(s->sizes, s->hints, sizeof s->sizes);
    if (!sym_guards_hold(s->space, size_of, s, &first)) {
        tally->failed += !complain(s, "the hints do not satisfy a guard");
        return;
    }
    for (int i = 0, n = 0; i < N_TRIES && n < N_WANTED; i++) {
        const char *difference = find_difference(s);
        if (!sym_guards_hold(s->space, size_of, s, &first)) {
            tally->narrow += difference == NULL;
        } else if (difference != NULL) {
            tally->failed += !complain(s, difference);
            return;
        } else {
            n++;
            tally->compared += i > 0;
        }
        draw_sizes(s);
    }
}

static void check_case(context_t *ctx, const opdef_t *op, int index, tally_t *tally)
{
    for (int round = 0; round < N_ROUNDS; round++) {
        subject_t s = {.ctx = ctx,
                       .op = op,
                       .index = index,
                       .round = (round_t)round,
                       .random = seed * 1000003u + (uint64_t)index * 31u + (uint64_t)round};
        CHECK_OK(ctx, case_parse(ctx, op, cases_of(op)[index], &s.call));
        CHECK_OK(ctx, sym_space_create(ctx, &s.space));
        sym_space_t *before = sym_space_enter(ctx, s.space);
        infer_case(&s, tally);
        CHECK_OK(ctx, sym_status(ctx));
        sym_space_enter(ctx, before);
        sym_space_release(s.space);
    }
}

static bool is_chosen(const opdef_t *op, int index)
{
    const char *chosen = getenv("TESSERA_CASE");
    const size_t length = strlen(op->name);
    if (chosen == NULL) return true;
    if (strncmp(chosen, op->name, length) != 0) return false;
    return chosen[length] == '\0' || (chosen[length] == ':' && atoi(chosen + length + 1) == index);
}

/* No rule of the table may be pinned, except weight folding and formats, which need numbers. */
static void symbolic_sizes_are_right_at_all_sizes_that_the_guards_allow(void **state)
{
    context_t *ctx = fixture_context(state);
    int failed = 0;
    if (prints_table)
        printf("%-32s %6s %7s %7s %9s %7s\n", "operator", "calls", "pinned", "guards", "compared",
               "narrow");
    for (int i = 0; i < ops_count(); i++) {
        const opdef_t *op = ops_at(i);
        tally_t tally = {0};
        for (int k = 0; cases_of(op)[k] != NULL; k++)
            if (is_chosen(op, k)) check_case(ctx, op, k, &tally);
        if (prints_table)
            printf("%-32s %6d %7d %7d %9d %7d\n", op->name, tally.calls, tally.pinned, tally.guards,
                   tally.compared, tally.narrow);
        failed += tally.failed;
        if (tally.pinned != 0 && op->infers_symbols) {
            print_error("%s: %d of %d calls are pinned\n", op->name, tally.pinned, tally.calls);
            failed++;
        }
    }
    assert_int_equal(failed, 0);
}

/* ---- custom rules ---- */

static status_t give_size(const op_call_t *call, int64_t size, tensor_info_t *out)
{
    out[0] = info_dense(call->in[0]->dtype, 1, &size);
    return STATUS_OK;
}

static status_t infer_sum(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)ctx, (void)out_n;
    return give_size(call, call->in[0]->sizes[0] + 1, out);
}

static status_t infer_product(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)ctx, (void)out_n;
    return give_size(call, (int64_t)((uint64_t)call->in[0]->sizes[0] * 2), out);
}

static status_t infer_choice(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)ctx, (void)out_n;
    const int64_t size = call->in[0]->sizes[0];
    return give_size(call, size > 100 ? 100 : size, out);
}

static status_t infer_refusal(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    REQUIRE(ctx, call->in[0]->sizes[0] > 100, "own: size %lld, more than 100 are needed",
            (long long)call->in[0]->sizes[0]);
    return give_size(call, call->in[0]->sizes[0], out);
}

static status_t infer_same(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)ctx, (void)out_n;
    out[0] = info_dense(DTYPE_BOOL, call->in[0]->rank, call->in[0]->sizes);
    return STATUS_OK;
}

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};
static const kernel_t *const no_kernels[] = {NULL};

static opdef_t make_own(status_t (*infer)(context_t *, const op_call_t *, int *, tensor_info_t *))
{
    return (opdef_t){.name = "own",
                     .n_operands = 1,
                     .operands = operands,
                     .n_outputs = 1,
                     .infer = infer,
                     .kernels = no_kernels};
}

/* Infers the output for f32[N], where N has this hint (its size in the first run). */
static status_t infer_own(context_t *ctx, const opdef_t *op, int64_t hint, tensor_info_t *out,
                          bool *out_is_pinned, int *out_guards)
{
    sym_space_t *space = NULL;
    int n_out = 0;
    TRY(sym_space_create(ctx, &space));
    sym_space_enter(ctx, space);
    const int64_t size = sym_name(ctx, "N", hint, 1, INT64_MAX);
    const tensor_info_t x = info_dense(DTYPE_F32, 1, &size), *in[] = {&x};
    const op_call_t call = {.op = op, .n_in = 1, .in = in};
    status_t status = dispatch_infer_symbolic(ctx, &call, &n_out, out, out_is_pinned);
    *out_guards = sym_n_guards(space);
    sym_space_enter(ctx, NULL);
    sym_space_release(space);
    return status;
}

/* Rules that take symbols for numbers. If one claims to support symbols (`claims`), a wrong result
 * for the hint reveals it. */
static void a_rule_that_takes_handles_for_numbers_is_pinned(void **state)
{
    context_t *ctx = fixture_context(state);
    const struct {
        opdef_t op;
        int64_t wanted;
    } own[] = {
        {make_own(infer_sum), 51}, {make_own(infer_product), 100}, {make_own(infer_choice), 50}};
    for (int i = 0; i < 3; i++)
        for (int claims = 0; claims < 2; claims++) {
            opdef_t op = own[i].op;
            tensor_info_t out[OP_MAX_OUTPUTS];
            bool is_pinned = false;
            int n_guards = 0;
            op.infers_symbols = claims;
            if (claims && op.infer == infer_choice) continue;
            CHECK_OK(ctx, infer_own(ctx, &op, 50, out, &is_pinned, &n_guards));
            assert_true(is_pinned);
            assert_true(n_guards >= 1);
            assert_int_equal(out[0].sizes[0], own[i].wanted);
        }
}

static void the_error_of_a_rule_is_that_for_the_hint(void **state)
{
    context_t *ctx = fixture_context(state);
    const opdef_t op = make_own(infer_refusal);
    tensor_info_t out[OP_MAX_OUTPUTS];
    bool is_pinned = false;
    int n_guards = 0;
    assert_int_equal(infer_own(ctx, &op, 7, out, &is_pinned, &n_guards), STATUS_INVALID_ARGUMENT);
    assert_string_equal(context_error(ctx), "own: size 7, more than 100 are needed");
    assert_int_equal(n_guards, 0);
}

static void elementwise_rules_of_users_hold_at_all_sizes(void **state)
{
    context_t *ctx = fixture_context(state);
    opdef_t op = make_own(infer_same);
    tensor_info_t out[OP_MAX_OUTPUTS];
    bool is_pinned = true;
    int n_guards = -1;
    op.traits = TRAIT_ELEMENTWISE;
    CHECK_OK(ctx, infer_own(ctx, &op, 7, out, &is_pinned, &n_guards));
    assert_false(is_pinned);
    assert_int_equal(n_guards, 0);
    assert_int_equal(out[0].dtype, DTYPE_BOOL);
    assert_true(sym_is(out[0].sizes[0]));
}

/* ---- guards ---- */

typedef struct question {
    const char *op;
    int n_in;
    const char *in[3]; /* sizes separated by commas: numbers, or names with a hint */
    const char *attrs;
    const char *out, *guards;
} question_t;

static const struct {
    const char *name;
    int64_t hint;
} hints[] = {{"N", 4}, {"M", 4}, {"H", 64}, {"W", 48}, {"C", 8}, {"one", 1}, {"u", SYM_NO_HINT}};

static tensor_info_t read_info(context_t *ctx, const char *text)
{
    int64_t sizes[TENSOR_MAX_RANK];
    int rank = 0;
    char copy[64], *at = copy, *token = NULL;
    snprintf(copy, sizeof copy, "%s", text);
    for (token = strtok(at, ","); token != NULL; token = strtok(NULL, ",")) {
        sizes[rank] = strtoll(token, NULL, 10);
        for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
            if (strcmp(token, hints[i].name) == 0)
                sizes[rank] = sym_name(ctx, token, hints[i].hint, 1, INT64_MAX);
        rank++;
    }
    return info_dense(DTYPE_F32, rank, sizes);
}

static bool is_answered(context_t *ctx, const question_t *q)
{
    const opdef_t *op = ops_find(q->op);
    tensor_info_t in[3], out[OP_MAX_OUTPUTS];
    const tensor_info_t *infos[3];
    _Alignas(16) char attrs[CASE_MAX_ATTRS];
    const char *cursor = q->attrs;
    char sizes[256] = "", guards[256] = "", text[128];
    sym_space_t *space = NULL;
    int n_out = 0;
    bool is_pinned = false;
    CHECK_OK(ctx, sym_space_create(ctx, &space));
    sym_space_enter(ctx, space);
    for (int i = 0; i < q->n_in; i++) {
        in[i] = read_info(ctx, q->in[i]);
        infos[i] = &in[i];
    }
    attrs_init(&op->attrs, attrs);
    while (*cursor != '\0') {
        CHECK_OK(ctx, attrs_parse(ctx, op->name, &op->attrs, &cursor, attrs));
        cursor += strspn(cursor, " ");
    }
    const op_call_t call = {.op = op, .attrs = attrs, .n_in = q->n_in, .in = infos};
    if (dispatch_infer_symbolic(ctx, &call, &n_out, out, &is_pinned) != STATUS_OK) {
        snprintf(sizes, sizeof sizes, "%s", context_error(ctx));
        n_out = 0;
    }
    for (int i = 0; i < n_out; i++)
        for (int d = 0; d < out[i].rank; d++)
            snprintf(sizes + strlen(sizes), sizeof sizes - strlen(sizes), "%s%s",
                     d > 0   ? ","
                     : i > 0 ? " "
                             : "",
                     sym_text(ctx, out[i].sizes[d], sizeof text, text));
    for (int k = 0; k < sym_n_guards(space); k++)
        snprintf(guards + strlen(guards), sizeof guards - strlen(guards), "%s%s", k > 0 ? "; " : "",
                 sym_guard_text(space, k, sizeof text, text));
    sym_space_enter(ctx, NULL);
    sym_space_release(space);
    if (!is_pinned && strcmp(sizes, q->out) == 0 && strcmp(guards, q->guards) == 0) return true;
    print_error("%s %s: %s%s where %s\n    wanted %s where %s\n", q->op, q->attrs, sizes,
                is_pinned ? " (pinned)" : "", guards, q->out, q->guards);
    return false;
}

static void guards_are_few_and_general(void **state)
{
    static const question_t questions[] = {
        {"add", 2, {"N,C", "1,C"}, "", "N,C", ""},
        {"add", 2, {"N,C", "C"}, "", "N,C", ""},
        {"add", 2, {"N,8", "M,C"}, "", "N,8", "N == M; C == 8"},
        {"add", 2, {"N,H", "one,H"}, "", "N,H", "one == 1"},
        {"expand", 1, {"N,1"}, "sizes=[-1,5]", "N,5", ""},
        {"reshape", 1, {"N,C,H,W"}, "sizes=[-1,8]", "C*H*N*W/8,8", "C*H*N*W % 8 == 0"},
        {"reshape", 1, {"N,8,H"}, "sizes=[-1,4]", "2*H*N,4", ""},
        {"flatten", 1, {"N,8,H"}, "start_dim=1", "N,8*H", ""},
        {"squeeze", 1, {"N,1,one"}, "dims=[1]", "N,one", ""},
        {"slice", 1, {"N,H"}, "dim=1 start=1", "N,H-1", ""},
        {"slice", 1, {"N,H"}, "dim=1 start=-1", "N,1", ""},
        {"slice", 1, {"N,H"}, "dim=1 step=2", "N,(H+1)/2", ""},
        {"split", 1, {"N,C"}, "dim=1 sizes=[4,4]", "N,4 N,4", "C == 8"},
        {"concat", 2, {"N,C", "N,3"}, "dim=1", "N,C+3", ""},
        {"pad", 1, {"N,H"}, "before=[0,1] after=[0,2]", "N,H+3", ""},
        {"pad", 1, {"N,H"}, "before=[0,3] after=[0,0] mode=\"reflect\"", "N,H+3", "H >= 4"},
        {"conv2d", 3, {"N,3,H,W", "8,3,3,3", "8"}, "padding=[1,1]", "N,8,H,W", ""},
        {"conv2d",
         3,
         {"N,3,H,W", "8,3,3,3", "8"},
         "stride=[2,2] padding=[1,1]",
         "N,8,(H+1)/2,(W+1)/2",
         ""},
        {"conv_transpose2d", 3, {"N,3,H,W", "3,8,2,2", "8"}, "stride=[2,2]", "N,8,2*H,2*W", ""},
        {"max_pool2d",
         1,
         {"N,3,H,W"},
         "kernel=[3,3] stride=[2,2] padding=[1,1]",
         "N,3,(H+1)/2,(W+1)/2",
         ""},
        {"adaptive_avg_pool", 1, {"N,3,H,W"}, "output_size=[1,1]", "N,3,1,1", ""},
        {"matmul", 2, {"N,H,W", "N,W,H"}, "", "N,H,H", ""},
        {"softmax", 1, {"u,C"}, "dim=1", "u,C", ""},
        {"linear", 3, {"u,8", "3,8", "3"}, "", "u,3", ""},
        {"add", 2, {"u,8", "N,8"}, "", "a size depends on elements: u-N must be known", ""},
    };
    bool is_right = true;
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
        is_right = is_answered(fixture_context(state), &questions[i]) && is_right;
    assert_true(is_right);
}

/* Some negative numbers stand for symbols, but not these large ones. Refusing them must not change
 * what follows. */
static void refused_numbers_are_forgotten(void **state)
{
    context_t *ctx = fixture_context(state);
    const opdef_t op = make_own(infer_same);
    const opdef_t *lrn = ops_find("lrn");
    static const char *const texts[] = {"size=-9223372036854775808", "size=-4611686018427387905"};
    const tensor_info_t x = info_dense(DTYPE_F32, 4, (int64_t[]){1, 4, 8, 8}), *in[] = {&x};
    _Alignas(16) char attrs[CASE_MAX_ATTRS];
    tensor_info_t out[OP_MAX_OUTPUTS];
    bool is_pinned = false;
    int n_out = 0, n_guards = 0;
    for (int i = 0; i < 2; i++) {
        const char *cursor = texts[i];
        attrs_init(&lrn->attrs, attrs);
        CHECK_OK(ctx, attrs_parse(ctx, lrn->name, &lrn->attrs, &cursor, attrs));
        assert_int_equal(dispatch_infer(ctx, lrn, attrs, 1, in, &n_out, out),
                         STATUS_INVALID_ARGUMENT);
        CHECK_OK(ctx, infer_own(ctx, &op, 7, out, &is_pinned, &n_guards));
        assert_true(is_pinned);
    }
}

static void bounds_far_below_the_first_element_are_numbers(void **state)
{
    context_t *ctx = fixture_context(state);
    const opdef_t *slice = ops_find("slice");
    static const char *const texts[] = {"start=-9223372036854775808", "start=-4611686018427387905",
                                        "start=-9223372036854775807 end=-4611686018427387905"};
    const tensor_info_t x = info_dense(DTYPE_F32, 1, (int64_t[]){7}), *in[] = {&x};
    _Alignas(16) char attrs[CASE_MAX_ATTRS];
    tensor_info_t out[OP_MAX_OUTPUTS];
    int n_out = 0;
    for (int i = 0; i < 3; i++) {
        const char *cursor = texts[i];
        attrs_init(&slice->attrs, attrs);
        for (; *cursor != '\0'; cursor += strspn(cursor, " "))
            CHECK_OK(ctx, attrs_parse(ctx, slice->name, &slice->attrs, &cursor, attrs));
        CHECK_OK(ctx, dispatch_infer(ctx, slice, attrs, 1, in, &n_out, out));
        assert_int_equal(out[0].sizes[0], i < 2 ? 7 : 0);
    }
}

static status_t infer_convolution(context_t *ctx)
{
    sym_space_t *space = NULL;
    tensor_info_t out[OP_MAX_OUTPUTS];
    int n_out = 0;
    bool is_pinned = false;
    TRY(sym_space_create(ctx, &space));
    sym_space_enter(ctx, space);
    const int64_t n = sym_name(ctx, "N", 2, 1, INT64_MAX), h = sym_name(ctx, "H", 9, 1, INT64_MAX);
    const tensor_info_t x = info_dense(DTYPE_F32, 4, (int64_t[]){n, 4, h, h});
    const tensor_info_t weight = info_dense(DTYPE_F32, 4, (int64_t[]){8, 4, 3, 3});
    const tensor_info_t none = {.dtype = DTYPE_NONE}, *in[] = {&x, &weight, &none};
    const op_call_t call = {.op = ops_find("conv2d"), .n_in = 3, .in = in};
    status_t status = sym_status(ctx);
    if (status == STATUS_OK) status = dispatch_infer_symbolic(ctx, &call, &n_out, out, &is_pinned);
    assert_false(is_pinned);
    sym_space_enter(ctx, NULL);
    sym_space_release(space);
    return status;
}

static void a_refused_allocation_is_no_reason_to_pin(void **state)
{
    (void)state;
    check_every_allocation(infer_convolution);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(symbolic_sizes_are_right_at_all_sizes_that_the_guards_allow),
        TEST(a_rule_that_takes_handles_for_numbers_is_pinned),
        TEST(the_error_of_a_rule_is_that_for_the_hint),
        TEST(elementwise_rules_of_users_hold_at_all_sizes),
        TEST(guards_are_few_and_general),
        TEST(refused_numbers_are_forgotten),
        TEST(bounds_far_below_the_first_element_are_numbers),
        TEST(a_refused_allocation_is_no_reason_to_pin),
    };
    if (argc > 1) seed = strtoull(argv[1], NULL, 10);
    prints_table = argc > 2 && strcmp(argv[2], "table") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
