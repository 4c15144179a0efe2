#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#define HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif
#ifdef HAS_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(bytes, n) ((void)(bytes), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(bytes, n) ((void)(bytes), (void)(n))
#endif

#include "tests/support/number.h"

#define MAX_ELEMENTS 4096 /* a larger graph does not run */
#define MAX_NODES 64
#define MAX_SECONDS 3 /* per call; some specifications take minutes for large windows */
#define MAX_IN 16

/* ---- failures ---- */

void fuzz_fail(const char *condition, const char *file, int line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s:%d: %s: ", file, line, condition);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    abort();
}

void fuzz_check_failure(const context_t *ctx, status_t status)
{
    FUZZ_CHECK(status == STATUS_OK || context_error(ctx)[0] != '\0', "%s", status_name(status));
}

/* ---- memory ---- */

/* A block's size is stored before it. */
#define FRONT 64

static struct limits {
    size_t max_bytes, n_bytes;
    long max_requests, n_requests, n_alive;
} limits;

static void *get_limited(void *user, size_t bytes)
{
    (void)user;
    if (bytes > limits.max_bytes - limits.n_bytes) return NULL;
    if (++limits.n_requests > limits.max_requests) return NULL;
    unsigned char *block = aligned_alloc(64, FRONT + (bytes + 63) / 64 * 64);
    if (block == NULL) return NULL;
    memcpy(block, &bytes, sizeof bytes);
    limits.n_bytes += bytes;
    limits.n_alive++;
    return block + FRONT;
}

static void put_limited(void *user, void *block)
{
    (void)user;
    size_t bytes = 0;
    if (block == NULL) return;
    memcpy(&bytes, (unsigned char *)block - FRONT, sizeof bytes);
    limits.n_bytes -= bytes;
    limits.n_alive--;
    free((unsigned char *)block - FRONT);
}

/* Keeps one context all the time, so that oneDNN's engine is created only once. */
static void keep_engine(void)
{
    static context_t *ctx;
    if (ctx != NULL) return;
    FUZZ_CHECK(context_create(&(context_options_t){.n_threads = 1}, &ctx) == STATUS_OK, "engine");
}

context_t *fuzz_begin(size_t max_bytes, long max_requests)
{
    static const allocator_t allocator = {NULL, get_limited, put_limited};
    context_t *ctx = NULL;
    keep_engine();
    limits = (struct limits){.max_bytes = max_bytes, .max_requests = max_requests};
    context_options_t options = {
        .allocator = &allocator, .n_threads = 1, .limit_seconds = MAX_SECONDS};
    FUZZ_CHECK(context_create(&options, &ctx) == STATUS_OK, "no context");
    return ctx;
}

void fuzz_end(context_t *ctx)
{
    context_destroy(ctx);
    FUZZ_CHECK(limits.n_alive == 0, "%ld blocks", limits.n_alive);
}

/* ---- files ---- */

const char *fuzz_file(const void *bytes, size_t n_bytes)
{
    static int descriptor = -1;
    static char path[64];
    if (descriptor < 0) {
        char name[] = "/dev/shm/tessera-fuzz-XXXXXX";
        descriptor = mkstemp(name);
        FUZZ_CHECK(descriptor >= 0 && unlink(name) == 0, "%s", name);
        snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    }
    FUZZ_CHECK(ftruncate(descriptor, 0) == 0, "%s", path);
    for (size_t done = 0; done < n_bytes;) {
        ssize_t n = pwrite(descriptor, (const char *)bytes + done, n_bytes - done, (off_t)done);
        FUZZ_CHECK(n > 0, "%s", path);
        done += (size_t)n;
    }
    return path;
}

/* Makes reads beyond the end of a mapped file crash: the page after it is unreadable, and the
 * unused bytes of its last page are poisoned. The linker replaces mmap and munmap by these
 * functions. */

void *__real_mmap(void *address, size_t n, int protection, int flags, int descriptor, off_t offset);
int __real_munmap(void *address, size_t n);
void *__wrap_mmap(void *address, size_t n, int protection, int flags, int descriptor, off_t offset);
int __wrap_munmap(void *address, size_t n);

static size_t whole_pages(size_t n)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (n + page - 1) / page * page;
}

void *__wrap_mmap(void *address, size_t n, int protection, int flags, int descriptor, off_t offset)
{
    size_t pages = whole_pages(n);
    char *bytes = __real_mmap(address, pages + whole_pages(1), PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED) return bytes;
    bytes = __real_mmap(bytes, n, protection, flags | MAP_FIXED, descriptor, offset);
    if (bytes != MAP_FAILED) ASAN_POISON_MEMORY_REGION(bytes + n, pages - n);
    return bytes;
}

int __wrap_munmap(void *address, size_t n)
{
    size_t pages = whole_pages(n);
    ASAN_UNPOISON_MEMORY_REGION((char *)address + n, pages - n);
    return __real_munmap(address, pages + whole_pages(1));
}

/* ---- running ---- */

static bool is_small(const graph_type_t *type)
{
    if (type->kind == TYPE_UNKNOWN) return false;
    for (int i = 0; i < type->n_items; i++)
        if (!is_small(&type->items[i])) return false;
    if (type->kind != TYPE_TENSOR) return true;
    if (!type->has_info) return false;
    int64_t n = 1;
    for (int d = 0; d < type->info.rank; d++) {
        int64_t size = type->info.sizes[d];
        if (size < 0 || size > MAX_ELEMENTS || (n *= size > 0 ? size : 1) > MAX_ELEMENTS)
            return false;
    }
    return true;
}

static bool is_quick(const graph_t *graph)
{
    for (value_t v = 0; v < graph_n_values(graph); v++)
        if (!is_small(graph_value_type(graph, v))) return false;
    return graph_n_nodes(graph) <= MAX_NODES;
}

double fuzz_number(int64_t i, double shake)
{
    return number_of(i, shake);
}

double fuzz_shake(const graph_t *graph)
{
    double shake = 1e-4;
    for (value_t v = 0; v < graph_n_values(graph); v++) {
        const graph_type_t *type = graph_value_type(graph, v);
        dtype_t dtype = type->kind == TYPE_TENSOR && type->has_info ? type->info.dtype : DTYPE_NONE;
        if (dtype == DTYPE_BF16 || dtype == DTYPE_F16) shake = 0.03;
    }
    return shake;
}

/* Makes an input. Floats are fuzz_number; other elements alternate between 0 and 1, which are good
 * indices and conditions. */
static status_t make_tensor(context_t *ctx, const tensor_info_t *info, double shake, datum_t **out)
{
    tensor_t *tensor = NULL, *typed = NULL, *shaped = NULL;
    bool is_floating = dtype_is_floating(info->dtype);
    int64_t n = info_numel(info);
    float values[MAX_ELEMENTS];
    for (int64_t i = 0; i < n; i++)
        values[i] = is_floating ? (float)fuzz_number(i, shake) : (float)(i % 2);
    TRY(tensor_from(ctx, DTYPE_F32, 1, &n, values, &tensor));
    status_t status = tensor_cast(ctx, tensor, info->dtype, &typed);
    if (status == STATUS_OK) status = tensor_view(ctx, typed, info->rank, info->sizes, &shaped);
    if (status == STATUS_OK) status = datum_tensor(ctx, shaped, out);
    tensor_release(tensor);
    tensor_release(typed);
    tensor_release(shaped);
    return status;
}

static status_t make_input(context_t *ctx, const graph_type_t *type, double shake, datum_t **out)
{
    switch (type->kind) {
    case TYPE_TENSOR: return make_tensor(ctx, &type->info, shake, out);
    case TYPE_INT: return datum_int(ctx, 2, out);
    case TYPE_FLOAT: return datum_float(ctx, 0.5 * (1.0 + shake), out);
    case TYPE_BOOL: return datum_bool(ctx, true, out);
    case TYPE_STRING: return datum_string(ctx, "weight", out);
    case TYPE_NONE: return datum_none(ctx, out);
    default: return STATUS_UNSUPPORTED;
    }
}

/* Makes the inputs of a graph. Returns false if a parameter has a type without inputs, or if out of
 * memory. */
static bool make_inputs(context_t *ctx, const graph_t *graph, double shake, int *out_n,
                        datum_t **out)
{
    const graph_block_t *body = graph_body(graph);
    int first = body->n_params > 0 && graph_value_type(graph, body->params[0])->kind == TYPE_MODULE;
    if (body->n_params - first > MAX_IN) return false;
    for (int i = first; i < body->n_params; i++) {
        const graph_type_t *type = graph_value_type(graph, body->params[i]);
        if (make_input(ctx, type, shake, &out[*out_n]) != STATUS_OK) return false;
        ++*out_n;
    }
    return true;
}

static double *read_elements(context_t *ctx, const tensor_t *tensor)
{
    const tensor_info_t *info = tensor_info(tensor);
    const size_t size = dtype_size(info->dtype);
    const int64_t n = info_numel(info);
    if (n > MAX_ELEMENTS) return NULL;
    char *bytes = malloc((size_t)n * size + 1);
    double *elements = malloc((size_t)n * sizeof *elements + 1);
    FUZZ_CHECK(bytes != NULL && elements != NULL, "%lld elements", (long long)n);
    if (tensor_read(ctx, tensor, bytes, (size_t)n * size) == STATUS_OK) {
        for (int64_t i = 0; i < n; i++)
            elements[i] = dtype_load(info->dtype, bytes + (size_t)i * size);
    } else {
        free(elements);
        elements = NULL;
    }
    free(bytes);
    return elements;
}

/* Stores status and outputs of a run in *outcome. Takes ownership of the outputs. */
static void tell(context_t *ctx, fuzz_outcome_t *outcome, status_t status, int n_out, datum_t **out)
{
    *outcome = (fuzz_outcome_t){.status = status, .n = status == STATUS_OK ? n_out : 0};
    for (int i = 0; i < METHOD_MAX_OUTPUTS; i++) {
        FUZZ_CHECK(status == STATUS_OK || out[i] == NULL, "an output of a failure");
        if (out[i] == NULL) continue;
        bool is_tensor = datum_kind(out[i]) == DATUM_TENSOR;
        FUZZ_CHECK(i < n_out, "output %d of %d", i, n_out);
        outcome->kinds[i] = datum_kind(out[i]);
        if (is_tensor) {
            outcome->infos[i] = *tensor_info(datum_as_tensor(out[i]));
            outcome->elements[i] = read_elements(ctx, datum_as_tensor(out[i]));
        }
        datum_release(out[i]);
    }
}

void fuzz_outcome_clear(fuzz_outcome_t *outcome)
{
    for (int i = 0; i < METHOD_MAX_OUTPUTS; i++) free(outcome->elements[i]);
    *outcome = (fuzz_outcome_t){0};
}

static bool run(context_t *ctx, const graph_t *graph, module_t *self, bool as_method, double shake,
                fuzz_outcome_t *outcome)
{
    datum_t *in[MAX_IN] = {NULL}, *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_in = 0, n_out = METHOD_MAX_OUTPUTS;
    *outcome = (fuzz_outcome_t){0};
    if (!is_quick(graph)) return false;
    bool has_inputs = make_inputs(ctx, graph, shake, &n_in, in);
    if (has_inputs) {
        status_t status = as_method
                              ? module_call(ctx, self, graph_name(graph), n_in, in, &n_out, out)
                              : graph_run(ctx, graph, self, n_in, in, &n_out, out);
        fuzz_check_failure(ctx, status);
        tell(ctx, outcome, status, n_out, out);
    }
    for (int i = 0; i < n_in; i++) datum_release(in[i]);
    return has_inputs;
}

bool fuzz_run_graph(context_t *ctx, const graph_t *graph, module_t *self, double shake,
                    fuzz_outcome_t *outcome)
{
    return run(ctx, graph, self, false, shake, outcome);
}

void fuzz_run_method(context_t *ctx, const graph_t *graph, module_t *self)
{
    fuzz_outcome_t outcome;
    run(ctx, graph, self, true, 0.0, &outcome);
    fuzz_outcome_clear(&outcome);
}

/* ---- comparison ---- */

static bool are_alike(const tensor_info_t *a, const tensor_info_t *b)
{
    return a->dtype == b->dtype && shape_equal(a->rank, a->sizes, b->rank, b->sizes);
}

/* Returns the largest difference of elements that are finite in both. *out_largest is the largest
 * magnitude in a. */
static double difference(int64_t n, const double *a, const double *b, double *out_largest)
{
    double most = 0.0;
    *out_largest = 0.0;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(a[i]) || !isfinite(b[i])) continue;
        most = fmax(most, fabs(a[i] - b[i]));
        *out_largest = fmax(*out_largest, fabs(a[i]));
    }
    return most;
}

static void check_elements(const fuzz_outcome_t *a, const fuzz_outcome_t *shaken,
                           const fuzz_outcome_t *b, int i)
{
    const tensor_info_t *info = &a->infos[i];
    double largest = 0.0;
    if (shaken->status != STATUS_OK || shaken->n != a->n || shaken->kinds[i] != DATUM_TENSOR ||
        !are_alike(info, &shaken->infos[i]))
        return;
    if (a->elements[i] == NULL || b->elements[i] == NULL || shaken->elements[i] == NULL) return;
    const int64_t n = info_numel(info);
    double allowed = difference(n, a->elements[i], shaken->elements[i], &largest);
    double found = difference(n, a->elements[i], b->elements[i], &largest);
    if (dtype_is_floating(info->dtype))
        allowed += (16 * dtype_epsilon(info->dtype) + 1e-6) * largest;
    FUZZ_CHECK(found <= allowed, "output %d differs by %g, %g is allowed", i, found, allowed);
}

void fuzz_check_same(const context_t *ctx, const fuzz_outcome_t *a, const fuzz_outcome_t *shaken,
                     const fuzz_outcome_t *b)
{
    if (a->status != STATUS_OK || b->status == STATUS_OUT_OF_MEMORY) return;
    FUZZ_CHECK(b->status == STATUS_OK, "%s", context_error(ctx));
    FUZZ_CHECK(a->n == b->n, "%d and %d outputs", a->n, b->n);
    for (int i = 0; i < a->n; i++) {
        FUZZ_CHECK(a->kinds[i] == b->kinds[i], "output %d", i);
        if (a->kinds[i] != DATUM_TENSOR) continue;
        FUZZ_CHECK(are_alike(&a->infos[i], &b->infos[i]), "output %d", i);
        check_elements(a, shaken, b, i);
    }
}
