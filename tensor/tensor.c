#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

#include "tensor/base/references_impl.h"
#include "tensor/info_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"
#include "tensor/threads/interrupt_impl.h"

#define TEXT_RING 8

/* ---- lifetime ---- */

/* Initialises a tensor and takes over the caller's reference to the storage. */
static void init_handle(context_t *ctx, tensor_t *tensor, const tensor_info_t *info,
                        storage_t *storage, int64_t offset)
{
    atomic_init(&tensor->n_references, 1);
    atomic_init(&tensor->n_scopes, 0);
    tensor->allocator = *context_allocator(ctx);
    tensor->info = *info;
    tensor->storage = storage;
    tensor->offset = offset;
    atomic_init(&tensor->hash, 0);
    atomic_init(&tensor->stamp, 0);
    atomic_init(&tensor->taped, 0);
    tensor->is_in_block = false;
}

status_t tensor_over(context_t *ctx, const tensor_info_t *info, storage_t *storage, int64_t offset,
                     tensor_t **out_tensor)
{
    tensor_t *tensor = NULL;
    TRY(context_get(ctx, sizeof *tensor, "a tensor's handle", &tensor));
    init_handle(ctx, tensor, info, storage_retain(storage), offset);
    *out_tensor = tensor;
    return STATUS_OK;
}

status_t tensor_snapshot(context_t *ctx, const tensor_t *tensor, const tensor_info_t *info,
                         int64_t offset, tensor_t **out_tensor)
{
    storage_t *storage = NULL;
    TRY(storage_snapshot(ctx, tensor->storage, &storage));
    FINISH(tensor_over(ctx, info, storage, offset, out_tensor), storage_release(storage));
}

status_t tensor_count_bytes(context_t *ctx, const tensor_info_t *info, size_t *out_bytes)
{
    int64_t n_elements, n_bytes;
    if (!format_elements(&info->format, info->sizes, &n_elements) ||
        !shape_multiply(n_elements, (int64_t)dtype_size(info->dtype), &n_bytes))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "tensor: %s, its bytes overflow", info_brief(info));
    *out_bytes = (size_t)n_bytes;
    return STATUS_OK;
}

status_t tensor_make(context_t *ctx, const tensor_info_t *info, tensor_t **out_tensor)
{
    size_t n_bytes = 0;
    TRY(tensor_count_bytes(ctx, info, &n_bytes));
    void *bytes = NULL;
    return tensor_make_of(ctx, info, n_bytes, 0, out_tensor, &bytes);
}

uint64_t tensor_hash(const tensor_t *tensor)
{
    atomic_uint_fast64_t *kept = &((tensor_t *)(uintptr_t)tensor)->hash;
    uint64_t hash = atomic_load_explicit(kept, memory_order_relaxed);
    if (hash == 0) {
        hash = info_identity_hash(&tensor->info);
        atomic_store_explicit(kept, hash, memory_order_relaxed);
    }
    return hash;
}

uint64_t tensor_new_stamp(void)
{
    static atomic_uint_fast64_t last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

status_t tensor_make_of(context_t *ctx, const tensor_info_t *info, size_t n_bytes, uint64_t hash,
                        tensor_t **out_tensor, void **out_bytes)
{
    storage_t *storage = NULL;
    void *handle = NULL;
    TRY(storage_create_for(ctx, sizeof(tensor_t), n_bytes, &handle, &storage));
    tensor_t *tensor = handle;
    init_handle(ctx, tensor, info, storage, 0);
    tensor->is_in_block = true;
    atomic_init(&tensor->hash, hash);
    *out_bytes = (void *)(uintptr_t)storage_data(storage);
    *out_tensor = tensor;
    return STATUS_OK;
}

status_t tensor_hollow(context_t *ctx, const tensor_info_t *info, atomic_int *looks,
                       tensor_t **out_tensor)
{
    static const int64_t none[TENSOR_MAX_RANK];
    tensor_info_t hollow = info_strided(info->dtype, info->rank, info->sizes, none);
    size_t bytes = dtype_size(info->dtype);
    storage_t *storage = NULL;
    void *data = NULL;
    hollow.is_number = info->is_number;
    TRY(storage_create(ctx, bytes, &storage));
    status_t status = storage_writable(ctx, storage, &data);
    if (status == STATUS_OK) {
        memset(data, 0, bytes);
        storage_set_hollow(storage, looks);
        status = tensor_over(ctx, &hollow, storage, 0, out_tensor);
    }
    storage_release(storage);
    return status;
}

status_t tensor_give(context_t *ctx, tensor_t *tensor, tensor_t **out_tensor)
{
    status_t status = scope_enter(ctx, tensor);
    GIVE(status, out_tensor, tensor, tensor_drop(tensor));
}

tensor_t *tensor_hold(tensor_t *tensor)
{
    if (tensor != NULL) references_add(&tensor->n_references);
    return tensor;
}

void tensor_drop(tensor_t *tensor)
{
    if (tensor == NULL || !references_drop(&tensor->n_references)) return;
    allocator_t allocator = tensor->allocator;
    bool is_in_block = tensor->is_in_block; /* then the tensor is freed with its storage */
    storage_release(tensor->storage);
    if (!is_in_block) allocator_put(&allocator, tensor);
}

tensor_t *tensor_retain(tensor_t *tensor)
{
    if (tensor != NULL && atomic_load(&tensor->n_scopes) > 0) scope_note_retained(tensor);
    return tensor_hold(tensor);
}

void tensor_release(tensor_t *tensor)
{
    if (tensor != NULL && atomic_load(&tensor->n_scopes) > 0) scope_note_released(tensor);
    tensor_drop(tensor);
}

status_t tensor_writable(context_t *ctx, tensor_t *tensor, void **out_bytes)
{
    void *data = NULL;
    TRY(storage_writable(ctx, tensor->storage, &data));
    *out_bytes = data != NULL ? (char *)data + tensor->offset : NULL;
    return STATUS_OK;
}

/* ---- constructors ---- */

status_t tensor_check(context_t *ctx, const char *op, dtype_t dtype, int rank, const int64_t *sizes)
{
    REQUIRE(ctx, dtype > DTYPE_NONE && dtype < DTYPE_COUNT,
            "%s: dtype %d, an element type is needed", op, (int)dtype);
    if (rank > 0 && sizes == NULL) return context_null(ctx, op, "sizes");
    return shape_check(ctx, op, dtype, rank, sizes);
}

tensor_info_t info_strided(dtype_t dtype, int rank, const int64_t *sizes, const int64_t *strides)
{
    tensor_info_t info = info_dense(dtype, rank, sizes);
    for (int d = 0; d < rank; d++) info.format.strides[d] = strides[d];
    return info;
}

/* Makes a contiguous, uninitialised tensor. Does not enter it in a scope. */
static status_t make_dense(context_t *ctx, const char *op, dtype_t dtype, int rank,
                           const int64_t *sizes, tensor_t **out_tensor, void **out_bytes)
{
    TRY(tensor_check(ctx, op, dtype, rank, sizes));
    tensor_info_t info = info_dense(dtype, rank, sizes);
    tensor_t *tensor = NULL;
    TRY(tensor_make(ctx, &info, &tensor));
    status_t status = tensor_writable(ctx, tensor, out_bytes);
    GIVE(status, out_tensor, tensor, tensor_drop(tensor));
}

status_t tensor_empty(context_t *ctx, dtype_t dtype, int rank, const int64_t *sizes,
                      tensor_t **out_tensor)
{
    TRY(context_output(ctx, "tensor_empty", out_tensor));
    tensor_t *tensor = NULL;
    void *bytes = NULL;
    TRY(make_dense(ctx, "tensor_empty", dtype, rank, sizes, &tensor, &bytes));
    return tensor_give(ctx, tensor, out_tensor);
}

status_t tensor_zeros(context_t *ctx, dtype_t dtype, int rank, const int64_t *sizes,
                      tensor_t **out_tensor)
{
    TRY(context_output(ctx, "tensor_zeros", out_tensor));
    tensor_t *tensor = NULL;
    void *bytes = NULL;
    TRY(make_dense(ctx, "tensor_zeros", dtype, rank, sizes, &tensor, &bytes));
    memset(bytes, 0, storage_bytes(tensor->storage));
    return tensor_give(ctx, tensor, out_tensor);
}

status_t tensor_full(context_t *ctx, dtype_t dtype, int rank, const int64_t *sizes, double value,
                     tensor_t **out_tensor)
{
    TRY(context_output(ctx, "tensor_full", out_tensor));
    tensor_t *tensor = NULL;
    void *bytes = NULL;
    TRY(make_dense(ctx, "tensor_full", dtype, rank, sizes, &tensor, &bytes));
    TRY_OR(tensor_fill(ctx, tensor, value), tensor_drop(tensor));
    return tensor_give(ctx, tensor, out_tensor);
}

/* Number of random bits that the dtype holds exactly, so that no number is rounded up to 1. */
static int digits(dtype_t dtype)
{
    switch (dtype) {
    case DTYPE_BF16: return 8;
    case DTYPE_F16: return 11;
    case DTYPE_F64: return 53;
    default: return 24;
    }
}

static void draw_uniform(context_t *ctx, dtype_t dtype, int n, double *out)
{
    int bits = digits(dtype);
    for (int i = 0; i < n; i++) out[i] = ldexp((double)(context_random(ctx) >> (64 - bits)), -bits);
}

/* Makes two normally distributed numbers from two uniform ones (Box-Muller). The first uniform
 * number is never 0. */
static void draw_normal(context_t *ctx, dtype_t dtype, int n, double *out)
{
    (void)dtype;
    const double two_pi = 6.283185307179586476925;
    for (int i = 0; i < n; i += 2) {
        double u = (double)((context_random(ctx) >> 11) + 1) * 0x1p-53;
        double v = (double)(context_random(ctx) >> 11) * 0x1p-53;
        double radius = sqrt(-2.0 * log(u));
        out[i] = radius * cos(two_pi * v);
        if (i + 1 < n) out[i + 1] = radius * sin(two_pi * v);
    }
}

typedef void (*draw_t)(context_t *ctx, dtype_t dtype, int n, double *out);

static status_t make_random(context_t *ctx, const char *op, dtype_t dtype, int rank,
                            const int64_t *sizes, draw_t draw, tensor_t **out_tensor)
{
    TRY(tensor_check(ctx, op, dtype, rank, sizes));
    REQUIRE(ctx, dtype_is_floating(dtype), "%s: dtype %s, random numbers need a floating type", op,
            dtype_name(dtype));
    tensor_t *tensor = NULL;
    void *bytes = NULL;
    TRY(make_dense(ctx, op, dtype, rank, sizes, &tensor, &bytes));
    int64_t n = tensor_numel(tensor);
    double drawn[256];
    for (int64_t i = 0; i < n; i += 256) {
        status_t status = i % (1 << 16) == 0 ? interrupt_check(ctx, op) : STATUS_OK;
        if (status != STATUS_OK) {
            tensor_drop(tensor);
            return status;
        }
        int count = n - i < 256 ? (int)(n - i) : 256;
        draw(ctx, dtype, count, drawn);
        dtype_cast(count, DTYPE_F64, drawn, 1, dtype, (char *)bytes + (size_t)i * dtype_size(dtype),
                   1);
    }
    return tensor_give(ctx, tensor, out_tensor);
}

status_t tensor_rand(context_t *ctx, dtype_t dtype, int rank, const int64_t *sizes,
                     tensor_t **out_tensor)
{
    TRY(context_output(ctx, "tensor_rand", out_tensor));
    return make_random(ctx, "tensor_rand", dtype, rank, sizes, draw_uniform, out_tensor);
}

status_t tensor_randn(context_t *ctx, dtype_t dtype, int rank, const int64_t *sizes,
                      tensor_t **out_tensor)
{
    TRY(context_output(ctx, "tensor_randn", out_tensor));
    return make_random(ctx, "tensor_randn", dtype, rank, sizes, draw_normal, out_tensor);
}

/* Computes elements of integral types as integers, because doubles are not exact above 2^53. */
status_t tensor_arange(context_t *ctx, dtype_t dtype, int64_t n, double first,
                       tensor_t **out_tensor)
{
    TRY(context_output(ctx, "tensor_arange", out_tensor));
    TRY(tensor_check(ctx, "tensor_arange", dtype, 1, &n));
    bool is_integral = dtype_is_integral(dtype);
    int64_t start = 0, last;
    if (is_integral) {
        REQUIRE(ctx, first >= -0x1p63 && first < 0x1p63,
                "tensor_arange: first %g, must fit into 64 bits", first);
        start = (int64_t)first;
        REQUIRE(ctx, !__builtin_add_overflow(start, n, &last),
                "tensor_arange: %lld elements from %g, must fit into 64 bits", (long long)n, first);
    }
    tensor_t *tensor = NULL;
    void *bytes = NULL;
    TRY(make_dense(ctx, "tensor_arange", dtype, 1, &n, &tensor, &bytes));
    for (int64_t i = 0; i < n; i++) {
        void *element = (char *)bytes + (size_t)i * dtype_size(dtype);
        if (is_integral)
            dtype_store_integer(dtype, element, start + i);
        else
            dtype_store(dtype, element, first + (double)i);
    }
    return tensor_give(ctx, tensor, out_tensor);
}

status_t tensor_from(context_t *ctx, dtype_t dtype, int rank, const int64_t *sizes,
                     const void *elements, tensor_t **out_tensor)
{
    TRY(context_output(ctx, "tensor_from", out_tensor));
    tensor_t *tensor = NULL;
    void *bytes = NULL;
    TRY(make_dense(ctx, "tensor_from", dtype, rank, sizes, &tensor, &bytes));
    size_t n_bytes = storage_bytes(tensor->storage);
    if (n_bytes > 0 && elements == NULL) {
        tensor_drop(tensor);
        return context_null(ctx, "tensor_from", "elements");
    }
    if (n_bytes > 0) memcpy(bytes, elements, n_bytes);
    return tensor_give(ctx, tensor, out_tensor);
}

static status_t make_number(context_t *ctx, dtype_t dtype, const void *value, tensor_t **out_tensor)
{
    tensor_t *tensor = NULL;
    void *bytes = NULL;
    TRY(make_dense(ctx, "tensor_number", dtype, 0, NULL, &tensor, &bytes));
    memcpy(bytes, value, dtype_size(dtype));
    tensor->info.is_number = true;
    return tensor_give(ctx, tensor, out_tensor);
}

status_t tensor_number(context_t *ctx, double value, tensor_t **out_tensor)
{
    TRY(context_output(ctx, "tensor_number", out_tensor));
    return make_number(ctx, DTYPE_F64, &value, out_tensor);
}

status_t tensor_integer(context_t *ctx, int64_t value, tensor_t **out_tensor)
{
    TRY(context_output(ctx, "tensor_integer", out_tensor));
    return make_number(ctx, DTYPE_S64, &value, out_tensor);
}

static status_t check_borrowed(context_t *ctx, const tensor_info_t *info, const void *data)
{
    int64_t n_elements, n_bytes;
    REQUIRE(ctx,
            format_elements(&info->format, info->sizes, &n_elements) &&
                shape_multiply(n_elements, (int64_t)dtype_size(info->dtype), &n_bytes),
            "tensor_borrow: %s, its bytes overflow", info_brief(info));
    if (info_numel(info) > 0 && data == NULL) return context_null(ctx, "tensor_borrow", "data");
    REQUIRE(ctx, (uintptr_t)data % dtype_size(info->dtype) == 0,
            "tensor_borrow: data at %p, %s needs a multiple of %zu bytes", data,
            dtype_name(info->dtype), dtype_size(info->dtype));
    return STATUS_OK;
}

/* Sets the deleter last, so that after a failure the caller still owns the memory. */
status_t tensor_borrow(context_t *ctx, dtype_t dtype, int rank, const int64_t *sizes,
                       const int64_t *strides, void *data, void (*deleter)(void *user, void *data),
                       void *user, tensor_t **out_tensor)
{
    TRY(context_output(ctx, "tensor_borrow", out_tensor));
    TRY(tensor_check(ctx, "tensor_borrow", dtype, rank, sizes));
    for (int d = 0; strides != NULL && d < rank; d++)
        REQUIRE(ctx, strides[d] >= 0, "tensor_borrow: stride %lld of dimension %d, must be >= 0",
                (long long)strides[d], d);
    tensor_info_t info = strides != NULL ? info_strided(dtype, rank, sizes, strides)
                                         : info_dense(dtype, rank, sizes);
    TRY(check_borrowed(ctx, &info, data));

    storage_t *storage = NULL;
    tensor_t *tensor = NULL;
    size_t n_bytes = info_numel(&info) > 0 ? info_bytes(&info) : 0;
    TRY(storage_borrow(ctx, data, n_bytes, false, NULL, NULL, &storage));
    status_t status = tensor_over(ctx, &info, storage, 0, &tensor);
    if (status == STATUS_OK) status = scope_enter(ctx, tensor);
    if (status == STATUS_OK) {
        storage_set_deleter(storage, deleter, user);
        *out_tensor = tensor;
    } else {
        tensor_drop(tensor);
    }
    storage_release(storage);
    return status;
}

/* ---- queries ---- */

dtype_t tensor_dtype(const tensor_t *tensor)
{
    return tensor != NULL ? tensor->info.dtype : DTYPE_NONE;
}

layout_t tensor_layout(const tensor_t *tensor)
{
    return tensor != NULL ? tensor->info.layout : LAYOUT_DENSE;
}

int tensor_rank(const tensor_t *tensor)
{
    return tensor != NULL ? tensor->info.rank : 0;
}

/* If the tensor is a placeholder (tensor_hollow), counts an access to its sizes: the program may
 * make a decision that depends on them. */
static void note_look(const tensor_t *tensor)
{
    atomic_int *looks = tensor != NULL ? storage_looks(tensor->storage) : NULL;
    if (looks != NULL) atomic_fetch_add(looks, 1);
}

const int64_t *tensor_sizes(const tensor_t *tensor)
{
    note_look(tensor);
    return tensor != NULL ? tensor->info.sizes : NULL;
}

int64_t tensor_numel(const tensor_t *tensor)
{
    note_look(tensor);
    return tensor != NULL ? info_numel(&tensor->info) : 0;
}

bool tensor_is_shared(const tensor_t *tensor)
{
    note_look(tensor);
    return tensor != NULL &&
           (atomic_load(&tensor->n_references) > 1 || !storage_is_alone(tensor->storage));
}

const tensor_info_t *tensor_info(const tensor_t *tensor)
{
    note_look(tensor);
    return tensor != NULL ? &tensor->info : NULL;
}

status_t tensor_need_dense(context_t *ctx, const char *op, const tensor_t *tensor)
{
    if (tensor == NULL) return context_null(ctx, op, "tensor");
    if (tensor->info.layout != LAYOUT_DENSE)
        FAIL(ctx, STATUS_UNSUPPORTED, "%s: %s is opaque, use to_dense", op, tensor_text(tensor));
    return STATUS_OK;
}

status_t tensor_strides(context_t *ctx, const tensor_t *tensor, const int64_t **out_strides)
{
    TRY(context_output(ctx, "tensor_strides", out_strides));
    TRY(tensor_need_dense(ctx, "tensor_strides", tensor));
    *out_strides = tensor->info.format.strides;
    return STATUS_OK;
}

/* Checks that the tensor is not a placeholder, and restores plain bytes that are dirty or shed. */
static status_t need_elements(context_t *ctx, const char *op, const tensor_t *tensor)
{
    REQUIRE(ctx, storage_looks(tensor->storage) == NULL,
            "%s: %s has sizes but no elements while a method is traced at other sizes", op,
            tensor_text(tensor));
    return storage_restore(ctx, tensor->storage, CAUSE_USER);
}

status_t tensor_data(context_t *ctx, const tensor_t *tensor, const void **out_data)
{
    TRY(context_output(ctx, "tensor_data", out_data));
    TRY(tensor_need_dense(ctx, "tensor_data", tensor));
    TRY(need_elements(ctx, "tensor_data", tensor));
    storage_expose(tensor->storage);
    *out_data = tensor_bytes(tensor);
    return STATUS_OK;
}

status_t tensor_data_mutable(context_t *ctx, tensor_t *tensor, void **out_data)
{
    TRY(context_output(ctx, "tensor_data_mutable", out_data));
    TRY(tensor_need_dense(ctx, "tensor_data_mutable", tensor));
    TRY(need_elements(ctx, "tensor_data_mutable", tensor));
    storage_expose(tensor->storage);
    return tensor_writable(ctx, tensor, out_data);
}

/* Checks that the tensor has exactly one element, which is at offset 0 in every format. */
static status_t need_one(context_t *ctx, const char *op, const tensor_t *tensor)
{
    if (tensor == NULL) return context_null(ctx, op, "tensor");
    REQUIRE(ctx, tensor_numel(tensor) == 1, "%s: %s has %lld elements, must have one", op,
            tensor_text(tensor), (long long)tensor_numel(tensor));
    return need_elements(ctx, op, tensor);
}

status_t tensor_item(context_t *ctx, const tensor_t *tensor, double *out_value)
{
    if (out_value == NULL) return context_null(ctx, "tensor_item", "the output");
    TRY(need_one(ctx, "tensor_item", tensor));
    *out_value = dtype_load(tensor->info.dtype, tensor_bytes(tensor));
    return STATUS_OK;
}

status_t tensor_item_integer(context_t *ctx, const tensor_t *tensor, int64_t *out_value)
{
    if (out_value == NULL) return context_null(ctx, "tensor_item_integer", "the output");
    TRY(need_one(ctx, "tensor_item_integer", tensor));
    *out_value = dtype_load_integer(tensor->info.dtype, tensor_bytes(tensor));
    return STATUS_OK;
}

/* ---- text ---- */

const char *info_brief(const tensor_info_t *info)
{
    static _Thread_local char ring[TEXT_RING][INFO_TEXT_MAX];
    static _Thread_local unsigned next;
    return info_text(info, ring[next++ % TEXT_RING]);
}

const char *tensor_text(const tensor_t *tensor)
{
    return tensor != NULL ? info_brief(&tensor->info) : "none";
}
