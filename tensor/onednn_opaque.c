/* Formats that no tag describes. Only 2.6 shows what they are made of: weights as its winograd
 * convolutions transform them. */
#include <string.h>

#include "tensor/onednn_impl.h"

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

dnnl_status_t onednn_md_of_words(const tensor_info_t *info, dnnl_data_type_t data_type,
                                 dnnl_memory_desc_t *out_md)
{
    const int64_t *words = info->format.words;
    if (data_type != dnnl_f32 || words[VERSION] != version_word()) return dnnl_unimplemented;
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
    (void)md;
    (void)out_words;
    return false;
}

dnnl_status_t onednn_md_of_words(const tensor_info_t *info, dnnl_data_type_t data_type,
                                 dnnl_memory_desc_t *out_md)
{
    (void)info;
    (void)data_type;
    (void)out_md;
    return dnnl_unimplemented;
}

#endif
