/* Einsum: sums of products, with one label for each dimension of each operand.
 *
 * First, if an operand has a label twice, its diagonal is used. Then operands are multiplied from
 * left to right, each pair as one matrix product. A label of both operands is a batch dimension if
 * later operands or the result have it; otherwise the product sums over it. The other labels of the
 * pair become rows and columns. */
#include <string.h>

#include "ops/linear/einsum_impl.h"
#include "ops/ops_impl.h"
#include "tensor/context_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/shape.h"
#include "tensor/sym/sym.h"
#include "tensor/tensor_impl.h"

/* ---- the equation ---- */

#define LETTERS 52                         /* A to Z, a to z */
#define LABELS (LETTERS + TENSOR_MAX_RANK) /* the dimensions of "..." come after the letters */
#define MAX_TEXT 256

/* A tensor, with the label and the size of each of its dimensions. */
typedef struct term {
    int tensor, n;
    int labels[TENSOR_MAX_RANK];
    int64_t sizes[TENSOR_MAX_RANK];
} term_t;

typedef struct work {
    context_t *ctx;
    const einsum_maker_t *maker;
    char text[MAX_TEXT]; /* without blanks */
    int n_terms;
    term_t terms[EINSUM_MAX_OPERANDS];
    int n_hidden; /* number of dimensions that "..." stands for */
    int n_out;
    int out[TENSOR_MAX_RANK];
} work_t;

static int label_of(char letter)
{
    if (letter >= 'A' && letter <= 'Z') return letter - 'A';
    return letter >= 'a' && letter <= 'z' ? letter - 'a' + 26 : -1;
}

static status_t refuse(const work_t *work, const char *rule)
{
    FAIL(work->ctx, STATUS_INVALID_ARGUMENT, "einsum: equation \"%s\", %s", work->text, rule);
}

/* Reads the labels in [begin, end). *out_dots is the index of "..." among the labels, or -1. */
static status_t read_labels(const work_t *work, const char *begin, const char *end, int *out_n,
                            int *out_labels, int *out_dots)
{
    *out_n = 0;
    *out_dots = -1;
    for (const char *at = begin; at < end; at++) {
        if (end - at >= 3 && strncmp(at, "...", 3) == 0 && *out_dots < 0) {
            *out_dots = *out_n;
            at += 2;
            continue;
        }
        if (label_of(*at) < 0)
            return refuse(work, "letters, one ... in a term, commas and -> make one");
        if (*out_n == TENSOR_MAX_RANK) return refuse(work, "a term has too many letters");
        out_labels[(*out_n)++] = label_of(*at);
    }
    return STATUS_OK;
}

/* Inserts n labels for "..." at index `dots` of the labels. */
static status_t put_dots(const work_t *work, int dots, int n, int *n_labels, int *labels)
{
    if (dots < 0) return STATUS_OK;
    if (*n_labels + n > TENSOR_MAX_RANK) return refuse(work, "a term has too many dimensions");
    memmove(&labels[dots + n], &labels[dots], (size_t)(*n_labels - dots) * sizeof *labels);
    for (int i = 0; i < n; i++) labels[dots + i] = LETTERS + TENSOR_MAX_RANK - n + i;
    *n_labels += n;
    return STATUS_OK;
}

static status_t read_term(work_t *work, const char *begin, const char *end, int tensor,
                          const tensor_info_t *info, term_t *term)
{
    int dots = -1;
    term->tensor = tensor;
    TRY(read_labels(work, begin, end, &term->n, term->labels, &dots));
    const int n_hidden = info->rank - term->n;
    REQUIRE(work->ctx, dots >= 0 ? n_hidden >= 0 : n_hidden == 0,
            "einsum: equation \"%s\", \"%.*s\" does not fit %s", work->text, (int)(end - begin),
            begin, info_brief(info));
    TRY(put_dots(work, dots, n_hidden, &term->n, term->labels));
    if (dots >= 0 && n_hidden > work->n_hidden) work->n_hidden = n_hidden;
    memcpy(term->sizes, info->sizes, (size_t)info->rank * sizeof *term->sizes);
    return STATUS_OK;
}

static int count_label(const work_t *work, int label)
{
    int n = 0;
    for (int i = 0; i < work->n_terms; i++)
        for (int d = 0; d < work->terms[i].n; d++) n += work->terms[i].labels[d] == label;
    return n;
}

/* Without "->", the result has the dimensions of "...", then the letters that occur once, in
 * alphabetical order. */
static status_t imply_out(work_t *work)
{
    work->n_out = 0;
    TRY(put_dots(work, 0, work->n_hidden, &work->n_out, work->out));
    for (int label = 0; label < LETTERS; label++) {
        if (count_label(work, label) != 1) continue;
        if (work->n_out == TENSOR_MAX_RANK)
            return refuse(work, "the result has too many dimensions");
        work->out[work->n_out++] = label;
    }
    return STATUS_OK;
}

static status_t read_out(work_t *work, const char *text)
{
    int dots = -1;
    TRY(read_labels(work, text, text + strlen(text), &work->n_out, work->out, &dots));
    TRY(put_dots(work, dots, work->n_hidden, &work->n_out, work->out));
    for (int i = 0; i < work->n_out; i++) {
        if (count_label(work, work->out[i]) == 0)
            return refuse(work, "a letter of the result is in no operand");
        for (int k = 0; k < i; k++)
            if (work->out[k] == work->out[i])
                return refuse(work, "a letter stands twice in the result");
    }
    return STATUS_OK;
}

static status_t read_equation(work_t *work, const char *equation, int n,
                              const tensor_info_t *const *infos, const int *in)
{
    size_t length = 0;
    for (const char *at = equation; *at != '\0'; at++) {
        if (*at == ' ') continue;
        if (length + 1 == MAX_TEXT) return refuse(work, "it is too long");
        work->text[length++] = *at;
    }
    const char *arrow = strstr(work->text, "->"), *at = work->text;
    const char *end = arrow != NULL ? arrow : work->text + length;
    while (true) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *behind = comma != NULL ? comma : end;
        if (work->n_terms == n) break;
        TRY(read_term(work, at, behind, in[work->n_terms], infos[work->n_terms],
                      &work->terms[work->n_terms]));
        work->n_terms++;
        at = behind + 1;
        if (comma == NULL) break;
    }
    REQUIRE(work->ctx, work->n_terms == n && at == end + 1,
            "einsum: equation \"%s\" has another number of terms than the %d operands", work->text,
            n);
    return arrow != NULL ? read_out(work, arrow + 2) : imply_out(work);
}

/* ---- one operand ---- */

static int find(const term_t *term, int label)
{
    for (int d = 0; d < term->n; d++)
        if (term->labels[d] == label) return d;
    return -1;
}

static void cut(term_t *term, int dim)
{
    for (int d = dim; d + 1 < term->n; d++) {
        term->labels[d] = term->labels[d + 1];
        term->sizes[d] = term->sizes[d + 1];
    }
    term->n--;
}

/* Permutes the dimensions of a term into the order of these labels. */
static status_t arrange(work_t *work, term_t *term, const int *labels)
{
    int64_t dims[TENSOR_MAX_RANK];
    const term_t old = *term;
    for (int d = 0; d < old.n; d++) {
        dims[d] = find(&old, labels[d]);
        term->labels[d] = labels[d];
        term->sizes[d] = old.sizes[dims[d]];
    }
    return work->maker->permute(work->maker->user, old.tensor, old.n, dims, &term->tensor);
}

/* Computes a diagonal: moves two dimensions of size n to the end, merges them, and selects every (n
 * + 1)-th element. */
static status_t take_diagonal(work_t *work, term_t *term, int first, int second)
{
    const einsum_maker_t *maker = work->maker;
    const int64_t size = term->sizes[first];
    const int label = term->labels[first];
    int64_t dims[TENSOR_MAX_RANK], sizes[TENSOR_MAX_RANK];
    int n = 0;
    REQUIRE(work->ctx, sym_equal(work->ctx, size, term->sizes[second]),
            "einsum: equation \"%s\", a letter is %lld and %lld in one operand", work->text,
            (long long)sym_hint(work->ctx, size),
            (long long)sym_hint(work->ctx, term->sizes[second]));
    for (int d = 0; d < term->n; d++)
        if (d != first && d != second) dims[n++] = d;
    dims[n] = first;
    dims[n + 1] = second;
    for (int d = 0; d < n; d++) sizes[d] = term->sizes[dims[d]];
    sizes[n] = sym_multiply(work->ctx, size, size);
    TRY(maker->permute(maker->user, term->tensor, term->n, dims, &term->tensor));
    TRY(maker->reshape(maker->user, term->tensor, n + 1, sizes, &term->tensor));
    TRY(maker->stride(maker->user, term->tensor, n + 1, sizes[n], sym_add(work->ctx, size, 1),
                      &term->tensor));
    cut(term, second);
    cut(term, first);
    term->labels[term->n] = label;
    term->sizes[term->n++] = size;
    return STATUS_OK;
}

static status_t take_diagonals(work_t *work, term_t *term)
{
    for (int second = 1; second < term->n; second++)
        for (int first = 0; first < second; first++)
            if (term->labels[first] == term->labels[second]) {
                TRY(take_diagonal(work, term, first, second));
                return take_diagonals(work, term);
            }
    return STATUS_OK;
}

static bool is_needed(const work_t *work, int label, int first_term)
{
    for (int i = 0; i < work->n_out; i++)
        if (work->out[i] == label) return true;
    for (int i = first_term; i < work->n_terms; i++)
        if (find(&work->terms[i], label) >= 0) return true;
    return false;
}

/* Sums a term over the labels that neither `other` nor later operands nor the result have. */
static status_t drop_labels(work_t *work, term_t *term, const term_t *other, int next)
{
    int64_t dims[TENSOR_MAX_RANK];
    int n = 0;
    for (int d = 0; d < term->n; d++) {
        if (other != NULL && find(other, term->labels[d]) >= 0) continue;
        if (!is_needed(work, term->labels[d], next)) dims[n++] = d;
    }
    if (n == 0) return STATUS_OK;
    TRY(work->maker->sum(work->maker->user, term->tensor, n, dims, &term->tensor));
    for (int i = n - 1; i >= 0; i--) cut(term, (int)dims[i]);
    return STATUS_OK;
}

/* ---- two operands ---- */

/* Removes dimensions of size 1 that would broadcast. */
static status_t drop_ones(work_t *work, term_t *term, const term_t *other)
{
    context_t *ctx = work->ctx;
    bool has_changed = false;
    for (int d = term->n - 1; d >= 0; d--) {
        const int there = find(other, term->labels[d]);
        if (there < 0) continue;
        const int64_t size = term->sizes[d], size_there = other->sizes[there];
        bool is_one = sym_knows_equal(ctx, size, 1);
        if (sym_knows_equal(ctx, size_there, 1)) continue;
        if (!is_one && sym_equal(ctx, size, size_there)) continue;
        is_one = is_one || sym_equal(ctx, size, 1);
        REQUIRE(ctx, is_one || sym_equal(ctx, size_there, 1),
                "einsum: equation \"%s\", a letter is %lld in one operand and %lld in another",
                work->text, (long long)sym_hint(ctx, size), (long long)sym_hint(ctx, size_there));
        if (!is_one) continue;
        cut(term, d);
        has_changed = true;
    }
    if (!has_changed) return STATUS_OK;
    return work->maker->reshape(work->maker->user, term->tensor, term->n, term->sizes,
                                &term->tensor);
}

/* Labels of a product of two operands: BATCH and INNER (summed over) are in both, ROWS in the
 * first, COLUMNS in the second. */
typedef enum group { BATCH, ROWS, INNER, COLUMNS, GROUPS } group_t;
typedef struct groups {
    int n[GROUPS];
    int labels[GROUPS][TENSOR_MAX_RANK];
    int64_t sizes[GROUPS][TENSOR_MAX_RANK], size[GROUPS];
} groups_t;

static void add_label(context_t *ctx, groups_t *groups, group_t group, int label, int64_t size)
{
    groups->labels[group][groups->n[group]] = label;
    groups->sizes[group][groups->n[group]++] = size;
    groups->size[group] = sym_multiply(ctx, groups->size[group], size);
}

static groups_t group_labels(const work_t *work, const term_t *a, const term_t *b, int next)
{
    groups_t groups = {.size = {1, 1, 1, 1}};
    for (int d = 0; d < a->n; d++) {
        const int label = a->labels[d];
        const bool is_shared = find(b, label) >= 0;
        const group_t group = !is_shared ? ROWS : is_needed(work, label, next) ? BATCH : INNER;
        add_label(work->ctx, &groups, group, label, a->sizes[d]);
    }
    for (int d = 0; d < b->n; d++)
        if (find(a, b->labels[d]) < 0)
            add_label(work->ctx, &groups, COLUMNS, b->labels[d], b->sizes[d]);
    return groups;
}

/* Reshapes a term to [batch][first][second], or to [first][second] if there is no batch. */
static status_t make_matrices(work_t *work, term_t *term, const groups_t *groups, group_t first,
                              group_t second)
{
    const group_t order[] = {BATCH, first, second};
    int labels[TENSOR_MAX_RANK], n = 0;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < groups->n[order[i]]; k++) labels[n++] = groups->labels[order[i]][k];
    const int64_t sizes[] = {groups->size[BATCH], groups->size[first], groups->size[second]};
    const int skipped = groups->n[BATCH] == 0;
    TRY(arrange(work, term, labels));
    return work->maker->reshape(work->maker->user, term->tensor, 3 - skipped, sizes + skipped,
                                &term->tensor);
}

/* Replaces a with the product of a and b. `next` is the index of the next operand. */
static status_t multiply(work_t *work, term_t *a, term_t *b, int next)
{
    static const group_t result[] = {BATCH, ROWS, COLUMNS};
    const einsum_maker_t *maker = work->maker;
    TRY(drop_ones(work, a, b));
    TRY(drop_ones(work, b, a));
    TRY(drop_labels(work, a, b, next));
    TRY(drop_labels(work, b, a, next));
    const groups_t groups = group_labels(work, a, b, next);
    TRY(make_matrices(work, a, &groups, ROWS, INNER));
    TRY(make_matrices(work, b, &groups, INNER, COLUMNS));
    if (groups.n[INNER] == 0)
        TRY(maker->mul(maker->user, a->tensor, b->tensor, &a->tensor));
    else
        TRY(maker->matmul(maker->user, a->tensor, b->tensor, &a->tensor));
    if (groups.n[BATCH] + groups.n[ROWS] + groups.n[COLUMNS] > TENSOR_MAX_RANK)
        return refuse(work, "a product has too many dimensions");
    a->n = 0;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < groups.n[result[i]]; k++) {
            a->labels[a->n] = groups.labels[result[i]][k];
            a->sizes[a->n++] = groups.sizes[result[i]][k];
        }
    return maker->reshape(maker->user, a->tensor, a->n, a->sizes, &a->tensor);
}

status_t einsum_make(context_t *ctx, const char *equation, int n, const tensor_info_t *const *infos,
                     const int *in, const einsum_maker_t *maker, int *out)
{
    work_t work = {.ctx = ctx, .maker = maker};
    if (equation == NULL) return context_null(ctx, "einsum", "equation");
    REQUIRE(ctx, n >= 1 && n <= EINSUM_MAX_OPERANDS, "einsum: %d operands, 1 to %d are possible", n,
            EINSUM_MAX_OPERANDS);
    TRY(read_equation(&work, equation, n, infos, in));
    term_t *all = &work.terms[0];
    for (int i = 0; i < n; i++) TRY(take_diagonals(&work, &work.terms[i]));
    for (int i = 1; i < n; i++) TRY(multiply(&work, all, &work.terms[i], i + 1));
    work.n_terms = 0;
    TRY(drop_labels(&work, all, NULL, 0));
    TRY(arrange(&work, all, work.out));
    *out = all->tensor;
    return STATUS_OK;
}

/* ---- public: calls operators in a scope that releases intermediate tensors ---- */

#define MAX_TENSORS (12 * EINSUM_MAX_OPERANDS)

typedef struct eager {
    context_t *ctx;
    int n;
    const tensor_t *tensors[MAX_TENSORS];
    tensor_t *last; /* the most recent result */
} eager_t;

static status_t note(eager_t *eager, status_t status, tensor_t *made, int *out)
{
    TRY(status);
    REQUIRE(eager->ctx, eager->n < MAX_TENSORS, "einsum: more than %d steps", MAX_TENSORS);
    eager->tensors[eager->n] = eager->last = made;
    *out = eager->n++;
    return STATUS_OK;
}

static status_t eager_reshape(void *user, int x, int rank, const int64_t *sizes, int *out)
{
    eager_t *eager = user;
    tensor_t *made = NULL;
    status_t status = op_reshape(eager->ctx, eager->tensors[x], rank, sizes, &made);
    return note(eager, status, made, out);
}

static status_t eager_permute(void *user, int x, int n, const int64_t *dims, int *out)
{
    eager_t *eager = user;
    tensor_t *made = NULL;
    status_t status = op_permute(eager->ctx, eager->tensors[x], n, dims, &made);
    return note(eager, status, made, out);
}

static status_t eager_stride(void *user, int x, int rank, int64_t size, int64_t step, int *out)
{
    eager_t *eager = user;
    tensor_t *made = NULL;
    status_t status = op_slice(eager->ctx, eager->tensors[x], rank - 1, 0, size, step, &made);
    return note(eager, status, made, out);
}

static status_t eager_sum(void *user, int x, int n, const int64_t *dims, int *out)
{
    eager_t *eager = user;
    tensor_t *sum = NULL, *made = NULL;
    const dtype_t dtype = tensor_dtype(eager->tensors[x]);
    TRY(op_sum(eager->ctx, eager->tensors[x], n, dims, false, &sum));
    status_t status = op_cast(eager->ctx, sum, dtype, &made); /* sums of integers are s64 */
    return note(eager, status, made, out);
}

static status_t eager_mul(void *user, int a, int b, int *out)
{
    eager_t *eager = user;
    tensor_t *made = NULL;
    status_t status = op_mul(eager->ctx, eager->tensors[a], eager->tensors[b], &made);
    return note(eager, status, made, out);
}

static status_t eager_matmul(void *user, int a, int b, int *out)
{
    eager_t *eager = user;
    tensor_t *made = NULL;
    status_t status = op_matmul(eager->ctx, eager->tensors[a], eager->tensors[b], &made);
    return note(eager, status, made, out);
}

static status_t make_eagerly(context_t *ctx, const char *equation, int n,
                             const tensor_t *const *tensors, tensor_t **out)
{
    eager_t eager = {.ctx = ctx};
    const einsum_maker_t maker = {&eager,    eager_reshape, eager_permute, eager_stride,
                                  eager_sum, eager_mul,     eager_matmul};
    const tensor_info_t *infos[EINSUM_MAX_OPERANDS] = {NULL};
    int in[EINSUM_MAX_OPERANDS], last = 0;
    for (int i = 0; i < n && i < EINSUM_MAX_OPERANDS; i++) {
        if (tensors == NULL || tensors[i] == NULL) return context_null(ctx, "einsum", "operand");
        infos[i] = tensor_info(tensors[i]);
        eager.tensors[i] = tensors[i];
        in[i] = eager.n++;
    }
    TRY(einsum_make(ctx, equation, n, infos, in, &maker, &last));
    *out = eager.last;
    return STATUS_OK;
}

status_t op_einsum(context_t *ctx, const char *equation, int n, const tensor_t *const *tensors,
                   tensor_t **out)
{
    tensor_t *made = NULL;
    TRY(context_output(ctx, "einsum", out));
    TRY(scope_begin(ctx));
    status_t status = make_eagerly(ctx, equation, n, tensors, &made);
    if (status == STATUS_OK) scope_take(ctx, made);
    const status_t ended = scope_end(ctx);
    TRY(status);
    if (ended == STATUS_OK) status = scope_enter(ctx, made);
    if (ended == STATUS_OK && status == STATUS_OK)
        *out = made;
    else
        tensor_drop(made);
    return ended != STATUS_OK ? ended : status;
}
