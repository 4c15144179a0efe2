/* The sizes that a file leaves open: their names, and their hints if nobody gives them. */
#include "io/onnx/onnx_impl.h"

#include <stdio.h>
#include <string.h>

#include "tensor/text/literal_impl.h"

static bool is_taken(const onnx_t *onnx, const char *name)
{
    for (int i = 0; i < onnx->n_open; i++)
        if (strcmp(onnx->open[i].name, name) == 0) return true;
    return false;
}

/* Makes a valid name for the graph from a name in the file: "2*N" becomes "N2_N". A size without a
 * name is called N if it is in dimension 0, else D1, D2, ... after its dimension. */
static void choose_name(const onnx_t *onnx, const char *param, int dim, char *out_name)
{
    char stem[ONNX_NAME_MAX - 16];
    if (param == NULL && dim == 0)
        snprintf(stem, sizeof stem, "N");
    else if (param == NULL)
        snprintf(stem, sizeof stem, "D%d", dim);
    else
        snprintf(stem, sizeof stem, "%s%.40s", literal_is_letter(*param) ? "" : "N", param);
    for (char *c = stem; *c != '\0'; c++)
        if (!literal_is_name(*c)) *c = '_';
    snprintf(out_name, ONNX_NAME_MAX, "%s", stem);
    for (int number = 1; is_taken(onnx, out_name); number++)
        snprintf(out_name, ONNX_NAME_MAX, "%s_%d", stem, number);
}

int onnx_open_find(onnx_t *onnx, const char *param, int dim, int64_t size)
{
    for (int i = 0; i < onnx->n_open; i++) {
        const onnx_open_t *open = &onnx->open[i];
        bool is_it = param != NULL ? open->param != NULL && strcmp(open->param, param) == 0
                                   : open->param == NULL && open->dim == dim &&
                                         (size < 0 || open->size < 0 || open->size == size);
        if (is_it) return i;
    }
    if (onnx->n_open == ONNX_MAX_OPEN) return ONNX_NOT_OPEN;
    onnx_open_t *open = &onnx->open[onnx->n_open];
    *open = (onnx_open_t){.param = param, .dim = dim, .size = -1};
    choose_name(onnx, param, dim, open->name);
    return onnx->n_open++;
}

/* ---- hints ---- */

/* The first import takes options->open_size. If it fails, the last guard says why: a reshape to
 * rows of 6 that fails at H = 64 leaves the guard H % 6 != 0. The next import takes sizes for which
 * this guard does not hold, and neither do those of the failures before: H = 66. Sizes only guide
 * decisions, as sizes of a first run do; the graph has a guard for each decision. */

#define MAX_SIZE 65536 /* if it changes alone */
#define MAX_PAIR 256   /* if two sizes change together */

static int find(const onnx_hints_t *hints, const char *name)
{
    for (int i = 0; i < hints->n; i++)
        if (strcmp(hints->sizes[i].name, name) == 0) return i;
    return -1;
}

int64_t onnx_hint(const onnx_t *onnx, const onnx_open_t *open)
{
    const int at = onnx->hints != NULL && open->is_free ? find(onnx->hints, open->name) : -1;
    return at >= 0 ? onnx->hints->sizes[at].size : open->size;
}

static bool size_of(void *user, int number, const char *name, int64_t *out_size)
{
    const onnx_hints_t *hints = user;
    const int at = find(hints, name);
    (void)number;
    if (at >= 0) *out_size = hints->sizes[at].size;
    return at >= 0;
}

/* True if no guard of the failures holds. */
static bool are_new(onnx_hints_t *hints)
{
    for (int i = 0; i < hints->n_failures; i++)
        if (!sym_guard_fails(hints->failures[i].space, hints->failures[i].guard, size_of, hints))
            return false;
    return true;
}

static bool is_read(void *user, int number, const char *name)
{
    (void)number;
    return strcmp(user, name) == 0;
}

/* Changes one size: to the next larger one that serves, or else to the next smaller one. */
static bool change_one(onnx_hints_t *hints, const int *at, int n)
{
    for (int step = 1; step >= -1; step -= 2)
        for (int i = n - 1; i >= 0; i--) {
            int64_t *size = &hints->sizes[at[i]].size;
            const int64_t before = *size;
            for (*size += step; *size >= 1 && *size <= MAX_SIZE; *size += step)
                if (are_new(hints)) return true;
            *size = before;
        }
    return false;
}

static bool change_two(onnx_hints_t *hints, int64_t *a, int64_t *b)
{
    const int64_t before[2] = {*a, *b};
    for (*a = 1; *a <= MAX_PAIR; ++*a)
        for (*b = 1; *b <= MAX_PAIR; ++*b)
            if (are_new(hints)) return true;
    *a = before[0];
    *b = before[1];
    return false;
}

static bool change(onnx_hints_t *hints)
{
    const onnx_failure_t *last = &hints->failures[hints->n_failures - 1];
    int at[ONNX_MAX_OPEN], n = 0;
    for (int i = 0; i < hints->n; i++)
        if (hints->sizes[i].is_free &&
            sym_any_name(last->space, sym_guard_value(last->space, last->guard), is_read,
                         hints->sizes[i].name))
            at[n++] = i;
    if (change_one(hints, at, n)) return true;
    for (int i = 0; i < n; i++)
        for (int k = i + 1; k < n; k++)
            if (change_two(hints, &hints->sizes[at[i]].size, &hints->sizes[at[k]].size))
                return true;
    return false;
}

bool onnx_hints_change(onnx_hints_t *hints, const onnx_t *onnx)
{
    const int n_guards = sym_n_guards(onnx->space);
    if (n_guards == 0 || hints->n_failures == ONNX_MAX_FAILURES) return false;
    for (int i = 0; i < onnx->n_open; i++) {
        const onnx_open_t *open = &onnx->open[i];
        const int64_t size = onnx_hint(onnx, open);
        int at = find(hints, open->name);
        if (at < 0 && hints->n == ONNX_MAX_OPEN) return false;
        if (at < 0) at = hints->n++;
        hints->sizes[at].size = size;
        hints->sizes[at].is_free = open->is_free;
        memcpy(hints->sizes[at].name, open->name, sizeof open->name);
    }
    sym_space_retain(onnx->space);
    hints->failures[hints->n_failures++] = (onnx_failure_t){onnx->space, n_guards - 1};
    return change(hints);
}

void onnx_hints_clear(onnx_hints_t *hints)
{
    for (int i = 0; i < hints->n_failures; i++) sym_space_release(hints->failures[i].space);
}
