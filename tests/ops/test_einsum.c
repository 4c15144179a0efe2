/* Einsum compared with PyTorch: einsum_values.py writes einsum_values.txt. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "tensor/scope.h"

enum { MAX_OPERANDS = 4, MAX_LINE = 4096 };

/* Parses sizes such as "3,4", or "-" for none, and moves *text to what follows. */
static int read_sizes(char **text, int64_t *out_sizes)
{
    int n = 0;
    if (**text == '-') {
        ++*text;
        return 0;
    }
    while (true) {
        out_sizes[n++] = strtoll(*text, text, 10);
        if (**text != ',') return n;
        ++*text;
    }
}

static tensor_t *make(context_t *ctx, dtype_t dtype, int number, int rank, const int64_t *sizes)
{
    tensor_t *x = NULL;
    void *data = NULL;
    CHECK_OK(ctx, tensor_empty(ctx, dtype, rank, sizes, &x));
    CHECK_OK(ctx, tensor_data_mutable(ctx, x, &data));
    for (int64_t i = 0; i < tensor_numel(x); i++)
        dtype_store(dtype, (char *)data + (size_t)i * dtype_size(dtype),
                    (double)((i * 97 + number * 31 + 11) % 251 - 125) / 128.0);
    return x;
}

static void check_line(context_t *ctx, char *line, dtype_t dtype)
{
    tensor_t *in[MAX_OPERANDS] = {NULL}, *out = NULL;
    int64_t sizes[TENSOR_MAX_RANK];
    const void *data = NULL;
    char *at = strchr(line, ' ');
    int n = 0;
    assert_non_null(at);
    *at = '\0';
    for (char *blank = line; (blank = strchr(blank, '_')) != NULL;) *blank = ' ';
    do {
        at++;
        assert_in_range(n, 0, MAX_OPERANDS - 1);
        const int rank = read_sizes(&at, sizes);
        in[n] = make(ctx, dtype, n, rank, sizes);
        n++;
    } while (*at == ';');
    CHECK_OK(ctx, op_einsum(ctx, line, n, (const tensor_t *const *)in, &out));
    at += strlen(" = ");
    const int rank = read_sizes(&at, sizes);
    if (!shape_equal(rank, sizes, tensor_rank(out), tensor_sizes(out)))
        fail_msg("%s: another shape", line);
    tensor_t *plain = NULL;
    CHECK_OK(ctx, tensor_contiguous(ctx, out, &plain));
    CHECK_OK(ctx, tensor_data(ctx, plain, &data));
    for (int64_t i = 0; i < tensor_numel(plain); i++) {
        const double wanted = strtod(at, &at);
        const double given = dtype_load(dtype, (const char *)data + (size_t)i * dtype_size(dtype));
        if (!(fabs(given - wanted) <= (dtype == DTYPE_F64 ? 1e-11 : 1e-5)))
            fail_msg("%s: element %d is %g, must be %g", line, (int)i, given, wanted);
    }
    for (int i = 0; i < n; i++) tensor_release(in[i]);
    tensor_release(out);
    tensor_release(plain);
}

static void equations_give_what_pytorch_gives(void **state)
{
    context_t *ctx = fixture_context(state);
    char line[MAX_LINE];
    int n = 0;
    FILE *file = fopen(TESSERA_SOURCE_DIR "/tests/ops/values/einsum_values.txt", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        char again[MAX_LINE];
        if (line[0] == '#') continue;
        memcpy(again, line, sizeof again);
        check_line(ctx, line, DTYPE_F64);
        check_line(ctx, again, DTYPE_F32);
        n++;
    }
    fclose(file);
    assert_int_equal(n, 26);
}

static void equations_that_are_none_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t sizes[] = {3, 4};
    tensor_t *x = make(ctx, DTYPE_F32, 0, 2, sizes), *out = NULL;
    const tensor_t *in[17];
    for (int i = 0; i < 17; i++) in[i] = x;
    static const struct {
        const char *equation;
        int n;
        const char *message;
    } cases[] = {
        {"i1->i", 1, "\"i1->i\", letters, one ... in a term, commas and -> make one"},
        {"ij,jk->ik", 1, "has another number of terms than the 1 operands"},
        {"ij", 2, "has another number of terms than the 2 operands"},
        {"ijk->i", 1, "\"ijk\" does not fit f32[3,4]"},
        {"ij,jk->ik", 2, "a letter is 4 in one operand and 3 in another"},
        {"ii->i", 1, "a letter is 3 and 4 in one operand"},
        {"ij->iz", 1, "a letter of the result is in no operand"},
        {"ij->ii", 1, "a letter stands twice in the result"},
        {"abcdefghijklm->a", 1, "a term has too many letters"},
        {"...->...abcdefghijkl", 1, "a term has too many dimensions"},
        {"ij->ij", 17, "einsum: 17 operands, 1 to 16 are possible"},
        {"ab,cd,ef,gh,ij,kl,mn->", 7, NULL},
        {"ab,cd,ef,gh,ij,kl,mn", 7, "the result has too many dimensions"},
        {"ab,cd,ef,gh,ij,kl,mn,abcn->", 8, "does not fit"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        status_t status = op_einsum(ctx, cases[i].equation, cases[i].n, in, &out);
        if (cases[i].message == NULL) {
            CHECK_OK(ctx, status);
            tensor_release(out);
            out = NULL;
        } else {
            CHECK_FAILS(ctx, status, STATUS_INVALID_ARGUMENT, cases[i].message);
            assert_null(out);
        }
    }
    context_clear_error(ctx);
    CHECK_FAILS(ctx, op_einsum(ctx, NULL, 1, in, &out), STATUS_INVALID_ARGUMENT, "equation");
    tensor_release(x);
}

/* Temporaries are released at once. The result belongs to the scope around the call. */
static void a_result_belongs_to_the_scope_around(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t sizes[] = {3, 4};
    tensor_t *out = NULL;
    CHECK_OK(ctx, scope_begin(ctx));
    tensor_t *x = make(ctx, DTYPE_F32, 0, 2, sizes);
    const tensor_t *in[] = {x, x};
    CHECK_OK(ctx, op_einsum(ctx, "ij,ij->i", 2, in, &out));
    assert_int_equal(tensor_numel(out), 3);
    CHECK_OK(ctx, scope_end(ctx));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(equations_give_what_pytorch_gives),
        TEST(equations_that_are_none_are_refused),
        TEST(a_result_belongs_to_the_scope_around),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
