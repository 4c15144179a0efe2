/* Conversions between layouts, and reorders to a given format.
 *
 * If oneDNN can read a dense tensor directly, to_mkldnn moves no bytes: the new tensor is a
 * snapshot that shares them. The first operator that reads the snapshot reorders it into the format
 * that the operator needs, and the reordered copy is stored for later readers. A later write to the
 * dense tensor copies its bytes first, so a snapshot never changes. Borrowed memory is copied at
 * once, because its owner may write to it at any time. */
#ifndef TESSERA_TENSOR_CONVERT_CONVERT_H
#define TESSERA_TENSOR_CONVERT_CONVERT_H

#include "tensor/counters.h"
#include "tensor/tensor.h"
#include "tensor/text/text.h"

/* Converts to mkldnn layout; if `tensor` has it already, returns `tensor` itself, retained.
 * Supports f32, bf16, f16, s8, u8 and s32 of rank 1 to 12 with at least one element; fails with
 * UNSUPPORTED for other tensors. */
status_t to_mkldnn(context_t *ctx, const tensor_t *tensor, tensor_t **out_tensor)
    TESSERA_API(to_mkldnn);

/* Converts an mkldnn tensor to a contiguous dense tensor. If `tensor` is dense already, returns
 * `tensor` itself, retained, even if it has gaps. */
status_t to_dense(context_t *ctx, const tensor_t *tensor, tensor_t **out_tensor)
    TESSERA_API(to_dense);

/* Converts to mkldnn layout in the format with this text ("aBcd16b", see format.h). Fails with
 * INVALID_ARGUMENT if the text is not a format of this rank, with UNSUPPORTED if oneDNN lacks the
 * format. */
status_t convert_reorder(context_t *ctx, const tensor_t *tensor, const char *format,
                         tensor_t **out_tensor) TESSERA_API(convert_reorder);

/* A finished reorder or copy, as observers (dispatch.h) receive it. There is one for each that the
 * counters count. Pointers are valid during the callback only. */
typedef struct conversion {
    reorder_cause_t cause;
    const char *by; /* "onednn"; for a copy "tessera", or "kernel" if a kernel packed a weight */
    bool is_copy;   /* by Tessera's own loops */
    const tensor_info_t *from, *to;
    const void *from_bytes, *to_bytes;
    uint64_t bytes;     /* read plus written */
    uint64_t begin, ns; /* when it began (context_now), and how long it took */
} conversion_t;

/* The format of an mkldnn tensor as text, in a buffer of FORMAT_TEXT_MAX bytes. */
const char *convert_format(const tensor_t *tensor, char *out_text) TESSERA_API(convert_format);

/* Appends the benchdnn command line (benchdnn is oneDNN's test program) that repeats the reorder
 * between two infos of equal dtype and sizes. If Tessera's own loops do the reorder, appends "#
 * copy" and the infos instead. No newline. */
void convert_repro(const tensor_info_t *from, const tensor_info_t *to, text_t *text)
    TESSERA_API(convert_repro);

#endif
