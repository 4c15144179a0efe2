/* Formats that no tag describes. oneDNN makes only one kind of these readable, and only in version
 * 2.6: weights of its Winograd convolutions. */
#include <string.h>

#include "tensor/onednn/onednn_impl.h"
#include "tensor/shape.h"

#if DNNL_VERSION_MAJOR == 2

enum { ELEMENTS, VERSION, KIND, R, ALPHA, IC, OC, IC_BLOCK, OC_BLOCK, IC2_BLOCK, OC2_BLOCK };

static int64_t version_word(void)
{
    const dnnl_version_t *version = dnnl_version();
    return version->major * 10000 + version->minor * 100 + version->patch;
}

bool onednn_md_words(const_dnnl_memory_desc_t md, int64_t *out_words)
{
    const dnnl_wino_desc_t *wino = &md->format_desc.wino_desc;
    bool is_float = md->data_type == dnnl_f32 && wino->adj_scale == 1.0f;
    if (md->format_kind != dnnl_format_kind_wino || !is_float || wino->size % sizeof(float) != 0)
        return false;
    memset(out_words, 0, FORMAT_WORDS * sizeof *out_words);
    out_words[ELEMENTS] = (int64_t)(wino->size / sizeof(float));
    out_words[VERSION] = version_word();
    out_words[KIND] = (int64_t)wino->wino_format;
    out_words[R] = wino->r;
    out_words[ALPHA] = wino->alpha;
    out_words[IC] = wino->ic;
    out_words[OC] = wino->oc;
    out_words[IC_BLOCK] = wino->ic_block;
    out_words[OC_BLOCK] = wino->oc_block;
    out_words[IC2_BLOCK] = wino->ic2_block;
    out_words[OC2_BLOCK] = wino->oc2_block;
    return true;
}

/* True if `padded` is at least `size` and a multiple of the block, and if the number of blocks is a
 * multiple of block_2. */
static bool is_blocked(int64_t padded, int64_t size, int64_t block, int64_t block_2)
{
    return size <= padded && padded <= INT32_MAX && block > 0 && padded % block == 0 &&
           block_2 > 0 && padded / block % block_2 == 0;
}

/* Checks the words of a format, because oneDNN divides by them and computes addresses from them
 * without checks. oneDNN's Winograd transforms are F(2x2, 3x3), and, in one of the formats, F(4x4,
 * 3x3). */
static bool are_of(const int64_t *words, const tensor_info_t *info)
{
    int first = info->rank - 4;
    int64_t kind = words[KIND];
    if (first < 0 || first > 1 || (first == 1 && info->sizes[0] != 1)) return false;
    if (kind < dnnl_wino_wei_aaOIoi || kind > dnnl_wino_wei_OBaaIBOIio) return false;
    bool is_4x4 = kind == dnnl_wino_wei_OBaaIBOIio;
    bool has_oc2 = is_4x4 || kind == dnnl_wino_wei_aaOBiOo;
    int64_t alpha = is_4x4 ? 6 : 4, elements = alpha * alpha;
    const int64_t *sizes = info->sizes + first;
    return words[R] == 3 && words[ALPHA] == alpha && sizes[2] == 3 && sizes[3] == 3 &&
           is_blocked(words[OC], sizes[0], words[OC_BLOCK], has_oc2 ? words[OC2_BLOCK] : 1) &&
           is_blocked(words[IC], sizes[1], words[IC_BLOCK], is_4x4 ? words[IC2_BLOCK] : 1) &&
           shape_multiply(elements, words[OC], &elements) &&
           shape_multiply(elements, words[IC], &elements) && words[ELEMENTS] >= elements;
}

dnnl_status_t onednn_md_of_words(const tensor_info_t *info, dnnl_data_type_t data_type,
                                 dnnl_memory_desc_t *out_md)
{
    const int64_t *words = info->format.words;
    if (data_type != dnnl_f32 || words[VERSION] != version_word() || !are_of(words, info))
        return dnnl_unimplemented;
    dnnl_status_t status = dnnl_memory_desc_create_with_tag(out_md, info->rank, info->sizes,
                                                            data_type, dnnl_format_tag_any);
    if (status != dnnl_success) return status;
    (*out_md)->format_kind = dnnl_format_kind_wino;
    (*out_md)->format_desc.wino_desc = (dnnl_wino_desc_t){
        .wino_format = (dnnl_wino_memory_format_t)words[KIND],
        .r = (int)words[R],
        .alpha = (int)words[ALPHA],
        .ic = (int)words[IC],
        .oc = (int)words[OC],
        .ic_block = (int)words[IC_BLOCK],
        .oc_block = (int)words[OC_BLOCK],
        .ic2_block = (int)words[IC2_BLOCK],
        .oc2_block = (int)words[OC2_BLOCK],
        .adj_scale = 1.0f,
        .size = (size_t)words[ELEMENTS] * sizeof(float)};
    return dnnl_success;
}

#else

bool onednn_md_words(const_dnnl_memory_desc_t md, int64_t *out_words)
{
    (void)md, (void)out_words;
    return false;
}

dnnl_status_t onednn_md_of_words(const tensor_info_t *info, dnnl_data_type_t data_type,
                                 dnnl_memory_desc_t *out_md)
{
    (void)info, (void)data_type, (void)out_md;
    return dnnl_unimplemented;
}

#endif
