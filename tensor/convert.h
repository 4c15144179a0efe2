/* Conversions between layouts, and reorders to a given format.
 *
 * to_mkldnn of a dense tensor that oneDNN can read directly moves no bytes: it makes a snapshot.
 * The first operator that reads the snapshot reorders it once, into the format it needs, and the
 * result is kept for later readers. A later write to the source copies the source first, so a
 * snapshot never changes. Borrowed memory is copied at once, because the caller may write to it at
 * any time. */
#ifndef TESSERA_TENSOR_CONVERT_H
#define TESSERA_TENSOR_CONVERT_H

#include "tensor/counters.h"
#include "tensor/tensor.h"
#include "tensor/text.h"

TESSERA_BEGIN

/* Converts to mkldnn; an mkldnn tensor is returned itself, retained. Supports f32, bf16, f16, s8,
 * u8, s32 of rank 1 to 12 with at least one element. UNSUPPORTED, with the reason, for others. */
status_t to_mkldnn(context_t *ctx, const tensor_t *tensor, tensor_t **out_tensor)
    TESSERA_API(to_mkldnn);

/* Converts to contiguous dense; a dense tensor is returned itself, retained, with its strides. */
status_t to_dense(context_t *ctx, const tensor_t *tensor, tensor_t **out_tensor)
    TESSERA_API(to_dense);

/* Converts to mkldnn in the format with this text ("aBcd16b"); dense tensors are converted
 * first. INVALID_ARGUMENT if the text is no format of this rank, UNSUPPORTED if oneDNN lacks the
 * format. */
status_t convert_reorder(context_t *ctx, const tensor_t *tensor, const char *format,
                         tensor_t **out_tensor) TESSERA_API(convert_reorder);

/* A finished reorder or copy. Observers (dispatch.h) receive one for each that the counters count.
 * Pointers are valid during the callback only. */
typedef struct conversion {
    reorder_cause_t cause;
    const char *by; /* "onednn"; for a copy "tessera", or "kernel" for a packed weight */
    bool is_copy;   /* by our own loops */
    const tensor_info_t *from, *to;
    const void *from_bytes, *to_bytes;
    uint64_t bytes; /* read plus written */
    uint64_t ns;
} conversion_t;

/* The format of an mkldnn tensor as text, in a buffer of FORMAT_TEXT_MAX bytes. */
const char *convert_format(const tensor_t *tensor, char *out_text) TESSERA_API(convert_format);

/* Appends the benchdnn command line (benchdnn is oneDNN's test program) that repeats the reorder
 * between two infos of equal dtype and sizes. Appends "# copy" and the infos if Tessera's own loops
 * copy. No newline. */
void convert_repro(const tensor_info_t *from, const tensor_info_t *to, text_t *text)
    TESSERA_API(convert_repro);

TESSERA_END

#endif
