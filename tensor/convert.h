/* The transitions between layouts, and reorders to a given format.
 *
 * to_mkldnn of a dense tensor that oneDNN can read as it lies moves no bytes: it is a snapshot, and
 * the one real reorder happens at the first consumer, straight into the format that one asks for,
 * and is kept for the next. A later write to the source copies the source first, so a snapshot
 * never changes. Of memory borrowed from the caller, who may write it at any time, it is a copy. */
#ifndef TESSERA_TENSOR_CONVERT_H
#define TESSERA_TENSOR_CONVERT_H

#include "tensor/counters.h"
#include "tensor/tensor.h"
#include "tensor/text.h"

TESSERA_BEGIN

/* The tensor as mkldnn; an mkldnn tensor is given back retained. f32, bf16, f16, s8, u8, s32 of
 * rank 1 to 12 with at least one element; others are UNSUPPORTED, with the reason. */
status_t to_mkldnn(context_t *ctx, const tensor_t *tensor, tensor_t **out_tensor)
    TESSERA_API(to_mkldnn);

/* The tensor as contiguous dense; a dense tensor is given back retained, strides as they are. */
status_t to_dense(context_t *ctx, const tensor_t *tensor, tensor_t **out_tensor)
    TESSERA_API(to_dense);

/* An mkldnn tensor in the format whose text is given ("aBcd16b"); a dense one is converted first.
 * INVALID_ARGUMENT when the text is no format of this rank, UNSUPPORTED when oneDNN lacks it. */
status_t convert_reorder(context_t *ctx, const tensor_t *tensor, const char *format,
                         tensor_t **out_tensor) TESSERA_API(convert_reorder);

/* A reorder or a copy that has run: what observers are told (dispatch.h), once for each that the
 * counters count. Pointers hold while the observer is told. */
typedef struct conversion {
    reorder_cause_t cause;
    const char *by; /* "onednn"; where it is a copy, "tessera", or "kernel" for a packed weight */
    bool is_copy;   /* by our own loops */
    const tensor_info_t *from, *to;
    const void *from_bytes, *to_bytes;
    uint64_t bytes; /* read plus written */
    uint64_t ns;
} conversion_t;

/* The format of an mkldnn tensor as text; FORMAT_TEXT_MAX bytes. */
const char *convert_format(const tensor_t *tensor, char *out_text) TESSERA_API(convert_format);

/* Appends the command line of benchdnn, oneDNN's own test, that repeats the reorder between two
 * infos of equal dtype and sizes; "# copy" and the infos where our own loops do it. No newline. */
void convert_repro(const tensor_info_t *from, const tensor_info_t *to, text_t *text)
    TESSERA_API(convert_repro);

TESSERA_END

#endif
