/* Operators on tensors with NaN, infinities, denormals and signed zeros, in both layouts, compared
 * with PyTorch. special_cases.py writes special_cases.txt. */
#include "tests/support/support.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/select_impl.h"
#include "ops/ops.h"
#include "tensor/onednn/candidates.h"

enum { MOST = 1024, MAX_INPUTS = 4 };

typedef struct special_case {
    const opdef_t *op;
    char title[160];
    _Alignas(16) char attrs[ATTRS_MAX];
    int n_in;
    tensor_t *in[MAX_INPUTS];
} special_case_t;

static void begin(context_t *ctx, char *line, special_case_t *c)
{
    memset(c, 0, sizeof *c);
    line[strcspn(line, "\n")] = '\0';
    snprintf(c->title, sizeof c->title, "%.*s", (int)sizeof c->title - 1, line);
    char *space = strchr(line, ' ');
    assert_non_null(space);
    *space = '\0';
    const char *at = space + 1;
    c->op = ops_find(line);
    assert_non_null(c->op);
    attrs_init(&c->op->attrs, c->attrs);
    while (*at != '\0') CHECK_OK(ctx, attrs_parse(ctx, line, &c->op->attrs, &at, c->attrs));
}

static int read_sizes(char **at, int64_t *out_sizes)
{
    int rank = 0;
    *at = strchr(*at, '[') + 1;
    while (**at != ']') {
        out_sizes[rank++] = strtoll(*at, at, 10);
        if (**at == ',') ++*at;
    }
    ++*at;
    return rank;
}

static void add_input(context_t *ctx, char *line, special_case_t *c)
{
    float numbers[MOST];
    uint8_t truths[MOST];
    int64_t sizes[TENSOR_MAX_RANK];
    const bool is_bool = line[1] == 'b';
    const int rank = read_sizes(&line, sizes);
    int64_t n = 1;
    for (int d = 0; d < rank; d++) n *= sizes[d];
    assert_true(n <= MOST && c->n_in < MAX_INPUTS);
    for (int64_t i = 0; i < n; i++) {
        numbers[i] = strtof(line, &line);
        truths[i] = numbers[i] != 0.0f;
    }
    CHECK_OK(ctx, tensor_from(ctx, is_bool ? DTYPE_BOOL : DTYPE_F32, rank, sizes,
                              is_bool ? (const void *)truths : numbers, &c->in[c->n_in++]));
}

/* Winograd (is_transformed) loses 1e-5 of the largest sums, which are about 1,000. */
static bool is_close(double wanted, double given, bool is_transformed)
{
    if (isnan(wanted) || isnan(given)) return isnan(wanted) && isnan(given);
    const double absolute = is_transformed ? 1e-2 : 2e-6;
    return wanted == given || fabs(wanted - given) <= 2e-5 * fabs(wanted) + absolute;
}

static status_t note_kernel(context_t *ctx, void *user, const op_event_t *event)
{
    (void)ctx;
    if (strcmp(event->op->name, "conv2d") == 0)
        *(bool *)user = strncmp(prepared_implementation(event->prepared), "winograd_", 9) == 0;
    return STATUS_OK;
}

/* Converts a float input to the layout. mkldnn means blocks of channels, or row-major if it has
 * none. */
static tensor_t *move(context_t *ctx, tensor_t *tensor, layout_t layout)
{
    tensor_t *moved = NULL;
    format_t candidates[CANDIDATES_MAX];
    char format[FORMAT_TEXT_MAX];
    if (layout == LAYOUT_DENSE || tensor_dtype(tensor) != DTYPE_F32) return tensor_retain(tensor);
    if (tensor_rank(tensor) >= 3 && tensor_rank(tensor) <= 5) {
        candidates_list(tensor_rank(tensor), candidates);
        CHECK_OK(ctx, op_reorder(ctx, tensor, format_text(&candidates[0], format), &moved));
    } else {
        CHECK_OK(ctx, op_to_mkldnn(ctx, tensor, &moved));
    }
    return moved;
}

static int check(context_t *ctx, char *line, const special_case_t *c, layout_t layout)
{
    tensor_t *in[MAX_INPUTS] = {NULL}, *out[OP_MAX_OUTPUTS] = {NULL}, *wide = NULL;
    double values[MOST];
    int64_t sizes[TENSOR_MAX_RANK];
    int n_wrong = 0;
    bool is_transformed = false;
    observer_t observer = {.user = &is_transformed, .op_end = note_kernel};
    const int rank = read_sizes(&line, sizes);
    for (int i = 0; i < c->n_in; i++) in[i] = move(ctx, c->in[i], layout);
    CHECK_OK(ctx, dispatch_add_observer(ctx, &observer));
    CHECK_OK(ctx, dispatch_run(ctx, c->op, c->op->attrs.bytes > 0 ? c->attrs : NULL, c->n_in,
                               (const tensor_t *const *)in, NULL, out));
    dispatch_remove_observer(ctx, &observer);
    assert_true(is_transformed == (strstr(c->title, "winograd") != NULL));
    assert_true(shape_equal(rank, sizes, tensor_rank(out[0]), tensor_info(out[0])->sizes));
    CHECK_OK(ctx, op_cast(ctx, out[0], DTYPE_F64, &wide));
    CHECK_OK(ctx, tensor_read(ctx, wide, values, (size_t)tensor_numel(wide) * sizeof *values));
    for (int64_t i = 0; i < tensor_numel(wide); i++) {
        const double wanted = strtod(line, &line);
        if (is_close(wanted, values[i], is_transformed)) continue;
        if (n_wrong++ == 0)
            print_error("%s, layout %d: element %d is %.9g, wanted %.9g\n", c->title, layout,
                        (int)i, values[i], wanted);
    }
    for (int i = 0; i < MAX_INPUTS; i++) tensor_release(in[i]);
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) tensor_release(out[i]);
    tensor_release(wide);
    return n_wrong > 0;
}

static void operators_on_special_values_agree_with_pytorch(void **state)
{
    context_t *ctx = fixture_context(state);
    FILE *file = fopen(TESSERA_SOURCE_DIR "/tests/ops/values/special_cases.txt", "r");
    static char line[1 << 16];
    static special_case_t c;
    int n_wrong = 0, n_cases = 0;
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        if (line[0] == '#') continue;
        if (line[0] == '<') {
            add_input(ctx, line, &c);
        } else if (line[0] == '=') {
            n_wrong += check(ctx, line, &c, LAYOUT_DENSE) | check(ctx, line, &c, LAYOUT_MKLDNN);
            for (int i = 0; i < c.n_in; i++) tensor_release(c.in[i]);
            n_cases++;
        } else {
            begin(ctx, line, &c);
        }
    }
    fclose(file);
    assert_true(n_cases > 200);
    assert_int_equal(n_wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(operators_on_special_values_agree_with_pytorch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
