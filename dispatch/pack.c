/* Packed weights, attached to the storage of the weight they were made from. */
#include "dispatch/pack_impl.h"

#include "tensor/convert_impl.h"

/* Key: the packed tensor's info, and where in the storage the weight lies. The version is the
 * storage's business: a write drops attachments. */
typedef struct packed {
    storage_attachment_t head;
    allocator_t allocator;
    int64_t offset;
    tensor_info_t from;
    tensor_t *tensor;
} packed_t;

static const char owner; /* its address says that an attachment is ours */

static void packed_release(storage_attachment_t *self)
{
    packed_t *packed = (packed_t *)self;
    allocator_t allocator = packed->allocator;
    tensor_drop(packed->tensor);
    allocator_put(&allocator, packed);
}

static tensor_t *find(const tensor_t *weight, const tensor_info_t *want)
{
    for (storage_attachment_t *at = *storage_attachments(weight->storage); at != NULL;
         at = at->next) {
        packed_t *packed = (packed_t *)at;
        if (at->owner == &owner && packed->offset == weight->offset &&
            info_equal(&packed->tensor->info, want) && info_equal(&packed->from, &weight->info))
            return tensor_hold(packed->tensor);
    }
    return NULL;
}

/* The weight under the sizes of `want`: weights are wanted with groups apart, or spread over the
 * dimensions that were flattened before them. Same elements in row-major order. */
static status_t with_sizes_of(context_t *ctx, const tensor_t *weight, const tensor_info_t *want,
                              tensor_t **out_tensor)
{
    tensor_t *plain = NULL;
    tensor_info_t dense = info_dense(weight->info.dtype, weight->info.rank, weight->info.sizes);
    TRY(convert_to(ctx, weight, &dense, CAUSE_WEIGHT, &plain));
    tensor_info_t info = info_dense(want->dtype, want->rank, want->sizes);
    status_t status = tensor_over(ctx, &info, plain->storage, plain->offset, out_tensor);
    tensor_drop(plain);
    return status;
}

static bool has_sizes_of(const tensor_info_t *info, const tensor_info_t *want)
{
    return shape_equal(info->rank, info->sizes, want->rank, want->sizes);
}

status_t pack_convert(context_t *ctx, const tensor_t *weight, const tensor_info_t *want,
                      reorder_cause_t cause, tensor_t **out_packed)
{
    if (has_sizes_of(&weight->info, want)) return convert_to(ctx, weight, want, cause, out_packed);
    tensor_info_t inner = convert_inner_info(&weight->info);
    tensor_t *reshaped = NULL;
    if (has_sizes_of(&inner, want))
        TRY(tensor_over(ctx, &inner, weight->storage, weight->offset, &reshaped));
    else
        TRY(with_sizes_of(ctx, weight, want, &reshaped));
    status_t status = convert_to(ctx, reshaped, want, cause, out_packed);
    tensor_drop(reshaped);
    return status;
}

static status_t attach(context_t *ctx, const tensor_t *weight, tensor_t *form)
{
    packed_t *packed = allocator_get(context_allocator(ctx), sizeof *packed);
    if (packed == NULL)
        FAIL(ctx, STATUS_OUT_OF_MEMORY, "out of memory: %zu bytes for a packed weight",
             sizeof *packed);
    *packed = (packed_t){.head = {.owner = &owner, .release = packed_release},
                         .allocator = *context_allocator(ctx),
                         .offset = weight->offset,
                         .from = weight->info,
                         .tensor = tensor_hold(form)};
    storage_lock(weight->storage);
    storage_attachment_t **list = storage_attachments(weight->storage);
    packed->head.next = *list;
    *list = &packed->head;
    storage_unlock(weight->storage);
    return STATUS_OK;
}

status_t pack_weight(context_t *ctx, const tensor_t *weight, const tensor_info_t *want,
                     tensor_t **out_packed)
{
    tensor_info_t inner = convert_inner_info(&weight->info);
    bool is_packed = inner.layout == want->layout && has_sizes_of(&inner, want) &&
                     format_same(&inner.format, &want->format, want->sizes);
    if (is_packed || !storage_is_packable(weight->storage))
        return pack_convert(ctx, weight, want, CAUSE_WEIGHT, out_packed);
    storage_lock(weight->storage);
    tensor_t *found = find(weight, want);
    storage_unlock(weight->storage);
    if (found != NULL) {
        *out_packed = found;
        return STATUS_OK;
    }
    tensor_t *tensor = NULL;
    TRY(pack_convert(ctx, weight, want, CAUSE_WEIGHT, &tensor));
    status_t status = attach(ctx, weight, tensor);
    if (status != STATUS_OK) {
        tensor_drop(tensor);
        return status;
    }
    context_counters(ctx)->weights_packed++;
    *out_packed = tensor;
    return STATUS_OK;
}

/* ---- for files ---- */

static bool is_form_of(const storage_attachment_t *at, const tensor_t *tensor)
{
    const packed_t *packed = (const packed_t *)at;
    return at->owner == &owner && packed->offset == tensor->offset &&
           info_equal(&packed->from, &tensor->info);
}

int pack_forms(const tensor_t *tensor, int capacity, tensor_t **out_forms)
{
    int n = 0;
    storage_lock(tensor->storage);
    for (storage_attachment_t *at = *storage_attachments(tensor->storage);
         at != NULL && n < capacity; at = at->next)
        if (is_form_of(at, tensor)) out_forms[n++] = tensor_hold(((packed_t *)at)->tensor);
    storage_unlock(tensor->storage);
    return n;
}

status_t pack_attach(context_t *ctx, tensor_t *tensor, tensor_t *packed)
{
    storage_set_packable(tensor->storage, true);
    return attach(ctx, tensor, packed);
}
