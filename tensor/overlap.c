/* Tests whether two tensors share bytes. Compares address ranges first. If these overlap and a
 * tensor is strided, also tests whether single elements overlap: the even and the odd columns of a
 * matrix do not. */
#include "tensor/tensor_impl.h"

/* The numbers x * step, for integers x from 0 to last. */
typedef struct term {
    int64_t step, last;
    int64_t below;   /* largest sum of the preceding terms */
    int64_t divisor; /* greatest common divisor of this step and all preceding ones */
} term_t;

/* A set of numbers: all sums that add one number of each term. Terms are in order of increasing
 * step. A sum_t describes the distances of a tensor's elements from its first element: f32[2,3]
 * with strides [10,2] has the terms x * 2 for x up to 2, and x * 10 for x up to 1. */
typedef struct sum {
    int n;
    term_t terms[2 * TENSOR_MAX_RANK + 2];
} sum_t;

static void add_term(sum_t *sum, int64_t step, int64_t last)
{
    int at = sum->n;
    if (step == 0 || last == 0) return;
    while (at > 0 && sum->terms[at - 1].step >= step) at--;
    if (at < sum->n && sum->terms[at].step == step) {
        sum->terms[at].last += last;
        return;
    }
    for (int i = sum->n++; i > at; i--) sum->terms[i] = sum->terms[i - 1];
    sum->terms[at] = (term_t){.step = step, .last = last};
}

/* Merges terms whose sums have no gaps: 2 * x for x up to 4 and 10 * x for x up to 2 become 2 * x
 * for x up to 14. */
static void join_terms(sum_t *sum)
{
    int n = 0;
    for (int i = 0; i < sum->n; i++) {
        const term_t *term = &sum->terms[i];
        term_t *before = n > 0 ? &sum->terms[n - 1] : NULL;
        if (before != NULL && term->step % before->step == 0 &&
            term->step / before->step <= before->last + 1)
            before->last += term->step / before->step * term->last;
        else
            sum->terms[n++] = *term;
    }
    sum->n = n;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static void measure_terms(sum_t *sum)
{
    int64_t below = 0, divisor = 0;
    for (int i = 0; i < sum->n; i++) {
        term_t *term = &sum->terms[i];
        divisor = common_divisor(term->step, divisor);
        term->below = below;
        term->divisor = divisor;
        below += term->step * term->last;
    }
}

/* True if the first n terms can add up to `total`. */
static bool reaches(const sum_t *sum, int n, int64_t total)
{
    if (n == 0 || total < 0) return total == 0;
    const term_t *term = &sum->terms[n - 1];
    if (total % term->divisor != 0) return false;
    const int64_t most = total / term->step < term->last ? total / term->step : term->last;
    for (int64_t x = most; x >= 0 && total - x * term->step <= term->below; x--)
        if (reaches(sum, n - 1, total - x * term->step)) return true;
    return false;
}

/* Adds the distances of a tensor's elements, in units of `unit` bytes (the size of its dtype, or
 * 1). */
static void add_elements(sum_t *sum, const tensor_info_t *info, int64_t unit)
{
    const int64_t width = (int64_t)dtype_size(info->dtype);
    if (info->format.kind != FORMAT_STRIDED) {
        add_term(sum, 1, ((int64_t)info_bytes(info) + unit - 1) / unit - 1);
        return;
    }
    for (int d = 0; d < info->rank; d++)
        add_term(sum, info->format.strides[d] * (width / unit), info->sizes[d] - 1);
    add_term(sum, 1, width / unit - 1);
}

static int64_t find_last(const tensor_info_t *info, int64_t unit)
{
    sum_t sum = {0};
    int64_t last = 0;
    add_elements(&sum, info, unit);
    for (int i = 0; i < sum.n; i++) last += sum.terms[i].step * sum.terms[i].last;
    return last;
}

/* An element of a at distance x and one of b at distance y have the same address if x + (last - y)
 * = distance + last, where `last` is the distance of b's last element. The distances last - y have
 * the same terms as y. */
static bool has_common_element(const tensor_info_t *a, const tensor_info_t *b, int64_t distance)
{
    const int64_t width = (int64_t)dtype_size(a->dtype);
    const bool is_even = dtype_size(b->dtype) == dtype_size(a->dtype) && distance % width == 0;
    const int64_t unit = is_even ? width : 1;
    sum_t sum = {0};
    add_elements(&sum, a, unit);
    add_elements(&sum, b, unit);
    join_terms(&sum);
    measure_terms(&sum);
    return reaches(&sum, sum.n, distance / unit + find_last(b, unit));
}

/* Finds the addresses of the first elements, for comparison. In the same storage, offsets are used
 * instead, because its bytes may be shed (storage_impl.h). Returns false if an address is unknown,
 * or a tensor is empty. */
static bool find_begins(const tensor_t *a, const tensor_t *b, uintptr_t *out_a, uintptr_t *out_b)
{
    *out_a = *out_b = 0;
    if (a->storage != b->storage) {
        *out_a = (uintptr_t)storage_place(a->storage);
        *out_b = (uintptr_t)storage_place(b->storage);
        if (*out_a == 0 || *out_b == 0) return false;
    }
    *out_a += (uintptr_t)a->offset;
    *out_b += (uintptr_t)b->offset;
    return info_numel(&a->info) > 0 && info_numel(&b->info) > 0;
}

bool tensor_overlaps(const tensor_t *a, const tensor_t *b)
{
    uintptr_t a_begin = 0, b_begin = 0;
    if (!find_begins(a, b, &a_begin, &b_begin) || a_begin >= b_begin + info_bytes(&b->info) ||
        b_begin >= a_begin + info_bytes(&a->info))
        return false;
    if (a->info.format.kind != FORMAT_STRIDED && b->info.format.kind != FORMAT_STRIDED) return true;
    return a_begin <= b_begin
               ? has_common_element(&a->info, &b->info, (int64_t)(b_begin - a_begin))
               : has_common_element(&b->info, &a->info, (int64_t)(a_begin - b_begin));
}

bool tensor_has_bytes_of(const tensor_t *a, const tensor_t *b)
{
    uintptr_t a_begin = 0, b_begin = 0;
    sum_t a_sum = {0}, b_sum = {0};
    if (!find_begins(a, b, &a_begin, &b_begin) || a_begin != b_begin) return false;
    add_elements(&a_sum, &a->info, 1);
    add_elements(&b_sum, &b->info, 1);
    join_terms(&a_sum);
    join_terms(&b_sum);
    bool is_same = a_sum.n == b_sum.n;
    for (int i = 0; i < a_sum.n && is_same; i++)
        is_same = a_sum.terms[i].step == b_sum.terms[i].step &&
                  a_sum.terms[i].last == b_sum.terms[i].last;
    return is_same;
}

bool tensor_shares_writes(const tensor_t *a, const tensor_t *b)
{
    if (a->storage != b->storage && !(storage_is_lent(a->storage) && storage_is_lent(b->storage)))
        return false;
    return tensor_overlaps(a, b);
}
