/* oneDNN's engine, conversion between formats and memory descriptors, and creation of primitives.
 * frame.c runs them. */
#define _POSIX_C_SOURCE 200809L
#include "tensor/onednn/onednn.h"

#include <ctype.h>
#include <omp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tensor/base/references_impl.h"
#include "tensor/onednn/onednn_impl.h"

/* ---- one engine, reference counted by the streams and primitives that use it ---- */

static pthread_mutex_t engine_lock = PTHREAD_MUTEX_INITIALIZER;
static dnnl_engine_t engine;
static int engine_users;

/* Limits oneDNN's own cache of primitives. By default it keeps 1,024 of them for the process, which
 * take up to 65 MB, although plans and contexts hold the primitives that they need. Does not change
 * a capacity that ONEDNN_PRIMITIVE_CACHE_CAPACITY has set. */
static void bound_primitive_cache(void)
{
    enum { DEFAULT = 1024, OURS = 64 };
    int capacity = 0;
    if (dnnl_get_primitive_cache_capacity(&capacity) == dnnl_success && capacity == DEFAULT)
        dnnl_set_primitive_cache_capacity(OURS);
}

static dnnl_status_t engine_retain(void)
{
    pthread_mutex_lock(&engine_lock);
    dnnl_status_t status = dnnl_success;
    if (engine_users == 0) status = dnnl_engine_create(&engine, dnnl_cpu, 0);
    if (engine_users == 0) bound_primitive_cache();
    if (status == dnnl_success) engine_users++;
    pthread_mutex_unlock(&engine_lock);
    return status;
}

static void engine_release(void)
{
    pthread_mutex_lock(&engine_lock);
    if (--engine_users == 0) {
        dnnl_engine_destroy(engine);
        engine = NULL;
    }
    pthread_mutex_unlock(&engine_lock);
}

dnnl_engine_t onednn_engine(void)
{
    return engine;
}

status_t onednn_stream_create(context_t *ctx, onednn_stream_t **out_stream)
{
    const dnnl_version_t *version = dnnl_version();
    if (version->major != DNNL_VERSION_MAJOR)
        FAIL(ctx, STATUS_UNSUPPORTED,
             "context_create: built for oneDNN %d, oneDNN %d.%d was loaded", DNNL_VERSION_MAJOR,
             version->major, version->minor);
    onednn_stream_t *stream = NULL;
    TRY(context_get_zeroed(ctx, sizeof *stream, "a stream", &stream));
    dnnl_status_t status = engine_retain();
    if (status == dnnl_success) {
        status = dnnl_stream_create(&stream->stream, engine, dnnl_stream_default_flags);
        if (status != dnnl_success) engine_release();
    }
    if (status != dnnl_success) {
        context_put(ctx, stream);
        return onednn_fail(ctx, (int)status, "dnnl_stream_create");
    }
    *out_stream = stream;
    return STATUS_OK;
}

void onednn_stream_destroy(context_t *ctx, onednn_stream_t *stream)
{
    if (stream == NULL) return;
    dnnl_stream_destroy(stream->stream);
    engine_release();
    context_put(ctx, stream);
}

status_t onednn_fail(context_t *ctx, int onednn_status, const char *call)
{
    status_t status = onednn_status == dnnl_out_of_memory ? STATUS_OUT_OF_MEMORY : STATUS_ONEDNN;
    return context_fail(ctx, status, "onednn: %s returned %s", call,
                        dnnl_status2str((dnnl_status_t)onednn_status));
}

static pthread_once_t version_once = PTHREAD_ONCE_INIT;
static char version_text[32];

static void write_version(void)
{
    const dnnl_version_t *version = dnnl_version();
    snprintf(version_text, sizeof version_text, "%d.%d.%d", version->major, version->minor,
             version->patch);
}

const char *onednn_version_text(void)
{
    pthread_once(&version_once, write_version);
    return version_text;
}

/* Names of instruction sets, smallest first. Each set's bits include those of the smaller ones; a
 * set without a name gets the largest name whose bits it includes. oneDNN has no names for Arm: bit
 * 0 is ASIMD, and one more bit is set for each 128 bits of the SVE vector length. */
static const struct {
    unsigned bits;
    const char *name;
} instruction_sets[] = {
#ifdef __aarch64__
    {0x1, "asimd"},
    {0x3, "sve_128"},
    {0x7, "sve_256"},
    {0x1f, "sve_512"},
#else
    {dnnl_cpu_isa_sse41, "sse41"},
    {dnnl_cpu_isa_avx, "avx"},
    {dnnl_cpu_isa_avx2, "avx2"},
    {dnnl_cpu_isa_avx2_vnni, "avx2_vnni"},
    {dnnl_cpu_isa_avx2_vnni_2, "avx2_vnni_2"},
    {dnnl_cpu_isa_avx512_core, "avx512_core"},
    {dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni"},
    {dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16"},
    {dnnl_cpu_isa_avx512_core_fp16, "avx512_core_fp16"},
    {dnnl_cpu_isa_avx512_core_amx, "avx512_core_amx"},
    {dnnl_cpu_isa_avx512_core_amx_fp16, "avx512_core_amx_fp16"},
#endif
};

static bool has_bits(unsigned isa, unsigned bits)
{
    return (isa & bits) == bits;
}

const char *onednn_isa_name(unsigned isa)
{
    const char *name = "other";
    for (size_t i = 0; i < sizeof instruction_sets / sizeof instruction_sets[0]; i++)
        if (has_bits(isa, instruction_sets[i].bits)) name = instruction_sets[i].name;
    return name;
}

bool onednn_isa_has(unsigned isa, onednn_isa_t wanted)
{
#ifdef __aarch64__
    return wanted == ONEDNN_ISA_SVE_512 && has_bits(isa, 0x1f);
#else
    static const unsigned bits[] = {[ONEDNN_ISA_AVX] = dnnl_cpu_isa_avx,
                                    [ONEDNN_ISA_AVX2] = dnnl_cpu_isa_avx2,
                                    [ONEDNN_ISA_AVX512] = dnnl_cpu_isa_avx512_core,
                                    [ONEDNN_ISA_BF16] = dnnl_cpu_isa_avx512_core_bf16,
                                    [ONEDNN_ISA_VNNI] = dnnl_cpu_isa_avx512_core_vnni,
                                    [ONEDNN_ISA_AVX2_VNNI] = dnnl_cpu_isa_avx2_vnni};
    return wanted != ONEDNN_ISA_SVE_512 && has_bits(isa, bits[wanted]);
#endif
}

bool onednn_isa_is_wide(unsigned isa)
{
    return onednn_isa_has(isa, ONEDNN_ISA_AVX512) || onednn_isa_has(isa, ONEDNN_ISA_SVE_512);
}

unsigned onednn_isa(void)
{
    return (unsigned)dnnl_get_effective_cpu_isa();
}

const char *onednn_isa_text(void)
{
    return onednn_isa_name(onednn_isa());
}

/* ---- formats ---- */

static const dnnl_data_type_t data_types[DTYPE_COUNT] = {
    [DTYPE_F32] = dnnl_f32, [DTYPE_BF16] = dnnl_bf16, [DTYPE_F16] = dnnl_f16,
    [DTYPE_S8] = dnnl_s8,   [DTYPE_U8] = dnnl_u8,     [DTYPE_S32] = dnnl_s32,
};

bool onednn_has_dtype(dtype_t dtype)
{
    return data_types[dtype] != dnnl_data_type_undef;
}

static dnnl_format_tag_t find_tag(const format_t *format)
{
    char text[FORMAT_TEXT_MAX];
    format_text(format, text);
    for (int tag = dnnl_format_tag_any + 1; tag < dnnl_format_tag_last; tag++)
        if (strcmp(dnnl_fmt_tag2str((dnnl_format_tag_t)tag), text) == 0)
            return (dnnl_format_tag_t)tag;
    return dnnl_format_tag_undef;
}

/* Makes the descriptor of a blocked format. If oneDNN lacks its tag, uses the tag with the same
 * blocks and the dimensions in alphabetical order, and permutes the axes of the descriptor. */
static dnnl_status_t create_blocked(const tensor_info_t *info, dnnl_data_type_t data_type,
                                    dnnl_memory_desc_t *out_md)
{
    const format_t *format = &info->format;
    dnnl_format_tag_t tag = find_tag(format);
    if (tag != dnnl_format_tag_undef)
        return dnnl_memory_desc_create_with_tag(out_md, info->rank, info->sizes, data_type, tag);

    format_t renamed = *format;
    int rename[TENSOR_MAX_RANK], permutation[TENSOR_MAX_RANK];
    dnnl_dims_t sizes;
    for (int i = 0; i < info->rank; i++) {
        rename[format->order[i]] = i;
        permutation[i] = format->order[i];
        sizes[i] = info->sizes[format->order[i]];
        renamed.order[i] = (uint8_t)i;
    }
    for (int b = 0; b < format->n_blocks; b++)
        renamed.block_dims[b] = (uint8_t)rename[format->block_dims[b]];
    tag = find_tag(&renamed);
    if (tag == dnnl_format_tag_undef) return dnnl_unimplemented;
    dnnl_memory_desc_t md = NULL;
    dnnl_status_t status = dnnl_memory_desc_create_with_tag(&md, info->rank, sizes, data_type, tag);
    if (status == dnnl_success) status = dnnl_memory_desc_permute_axes(out_md, md, permutation);
    if (md != NULL) dnnl_memory_desc_destroy(md);
    return status;
}

dnnl_status_t onednn_md_create(const tensor_info_t *info, dnnl_memory_desc_t *out_md)
{
    if (info == NULL) return dnnl_success;
    dnnl_data_type_t data_type = data_types[info->dtype];
    if (data_type == dnnl_data_type_undef) return dnnl_unimplemented;
    if (info->format.kind == FORMAT_ANY)
        return dnnl_memory_desc_create_with_tag(out_md, info->rank, info->sizes, data_type,
                                                dnnl_format_tag_any);
    if (info->format.kind == FORMAT_REGROUPED || info->format.kind == FORMAT_GROUPED)
        return dnnl_unimplemented;
    if (info->format.kind == FORMAT_OPAQUE) return onednn_md_of_words(info, data_type, out_md);
    if (info->format.n_blocks > 0) return create_blocked(info, data_type, out_md);
    dnnl_dims_t strides;
    format_strides(&info->format, info->sizes, strides);
    return dnnl_memory_desc_create_with_strides(out_md, info->rank, info->sizes, data_type,
                                                strides);
}

static dtype_t dtype_of(dnnl_data_type_t data_type)
{
    for (int dtype = 1; dtype < DTYPE_COUNT; dtype++)
        if (data_types[dtype] == data_type) return (dtype_t)dtype;
    return DTYPE_NONE;
}

/* Orders dimensions by falling stride. If strides are equal, dimensions whose outer size is 1 come
 * last, in ascending order; if is_last_first, in descending order. */
static void order_of_strides(int rank, const int64_t *outer, const int64_t *strides,
                             bool is_last_first, uint8_t *out_order)
{
    for (int i = 0; i < rank; i++) {
        int at = i;
        while (at > 0) {
            int before = out_order[at - 1];
            bool is_slower = strides[i] > strides[before] ||
                             (strides[i] == strides[before] && outer[before] == 1 &&
                              (outer[i] > 1 || is_last_first));
            if (!is_slower) break;
            out_order[at] = (uint8_t)before;
            at--;
        }
        out_order[at] = (uint8_t)i;
    }
}

/* True if a descriptor made from the info equals md. If md has additional padding or gaps, it does
 * not; the format is then opaque. */
static bool is_made_again(const tensor_info_t *info, const_dnnl_memory_desc_t md)
{
    dnnl_memory_desc_t again = NULL;
    bool is_equal = onednn_md_create(info, &again) == dnnl_success &&
                    dnnl_memory_desc_get_size(again) == dnnl_memory_desc_get_size(md);
    if (is_equal && info->format.n_blocks > 0) is_equal = dnnl_memory_desc_equal(again, md) != 0;
    if (again != NULL) dnnl_memory_desc_destroy(again);
    return is_equal;
}

static bool find_info(const_dnnl_memory_desc_t md, bool is_eager, tensor_info_t *out_info)
{
    dnnl_format_kind_t kind = dnnl_format_kind_undef;
    dnnl_data_type_t data_type = dnnl_data_type_undef;
    const dnnl_dim_t *dims = NULL, *padded = NULL, *strides = NULL, *blocks = NULL,
                     *block_dims = NULL;
    int rank = 0, n_blocks = 0;
    dnnl_memory_desc_query(md, dnnl_query_format_kind, &kind);
    dnnl_memory_desc_query(md, dnnl_query_ndims_s32, &rank);
    dnnl_memory_desc_query(md, dnnl_query_data_type, &data_type);
    dnnl_memory_desc_query(md, dnnl_query_dims, (void *)&dims);
    if (kind != dnnl_blocked) {
        *out_info = (tensor_info_t){.dtype = dtype_of(data_type),
                                    .layout = LAYOUT_MKLDNN,
                                    .rank = rank,
                                    .format = {.kind = FORMAT_OPAQUE, .rank = (uint8_t)rank}};
        memcpy(out_info->sizes, dims, (size_t)rank * sizeof *dims);
        return onednn_md_words(md, out_info->format.words);
    }
    dnnl_memory_desc_query(md, dnnl_query_padded_dims, (void *)&padded);
    dnnl_memory_desc_query(md, dnnl_query_strides, (void *)&strides);
    dnnl_memory_desc_query(md, dnnl_query_inner_nblks_s32, &n_blocks);
    dnnl_memory_desc_query(md, dnnl_query_inner_blks, (void *)&blocks);
    dnnl_memory_desc_query(md, dnnl_query_inner_idxs, (void *)&block_dims);
    if (n_blocks > FORMAT_MAX_BLOCKS) return false;

    tensor_info_t info = {.dtype = dtype_of(data_type), .layout = LAYOUT_MKLDNN, .rank = rank};
    memcpy(info.sizes, dims, (size_t)rank * sizeof *dims);
    if (n_blocks == 0) {
        info.format = format_of_strides(rank, dims, strides);
        *out_info = info;
        return is_made_again(&info, md);
    }
    int64_t outer[TENSOR_MAX_RANK];
    memcpy(outer, padded, (size_t)rank * sizeof *padded);
    info.format = (format_t){
        .kind = FORMAT_TAG, .rank = (uint8_t)rank, .n_blocks = (uint8_t)n_blocks};
    for (int b = 0; b < n_blocks; b++) {
        info.format.block_dims[b] = (uint8_t)block_dims[b];
        info.format.block_sizes[b] = (uint16_t)blocks[b];
        outer[block_dims[b]] /= blocks[b];
    }
    order_of_strides(rank, outer, strides, false, info.format.order);
    *out_info = info;
    if (is_made_again(&info, md)) return true;
    /* with dimensions of size 1 in reverse order, the format may have a tag, such as hwioG16g. Only
     * int8 weights need this, because native kernels read floating-point weights of this kind */
    if (info.dtype != DTYPE_S8 && !is_eager) return false;
    order_of_strides(rank, outer, strides, true, info.format.order);
    if (!is_made_again(&info, md)) return false;
    *out_info = info;
    return true;
}

bool onednn_md_info(const_dnnl_memory_desc_t md, tensor_info_t *out_info)
{
    return find_info(md, false, out_info);
}

bool onednn_md_info_of_any(const_dnnl_memory_desc_t md, tensor_info_t *out_info)
{
    return find_info(md, true, out_info);
}

/* ---- primitives ---- */

bool onednn_is_reference(const char *implementation)
{
    for (const char *at = implementation; (at = strstr(at, "ref")) != NULL; at += 3) {
        bool begins = at == implementation || !isalpha((unsigned char)at[-1]);
        if (begins && !isalpha((unsigned char)at[3])) return true;
    }
    return false;
}

/* A primitive and its problem in one memory block, followed by the infos to which the problem
 * points. */
typedef struct remembered {
    onednn_primitive_t primitive;
    onednn_problem_t problem;
    tensor_info_t infos[];
} remembered_t;

/* The problem's pointers to infos, except those of post-ops. */
typedef struct list {
    int first; /* onednn_argument_t */
    const tensor_info_t **infos;
} list_t;

#define N_LISTS 8

static void list_operands(onednn_problem_t *p, list_t out_lists[N_LISTS])
{
    const list_t lists[N_LISTS] = {{ONEDNN_ARGUMENT_SRC, &p->src},
                                   {ONEDNN_ARGUMENT_WEIGHT, &p->weight},
                                   {ONEDNN_ARGUMENT_BIAS, &p->bias},
                                   {ONEDNN_ARGUMENT_DST, &p->dst},
                                   {ONEDNN_ARGUMENT_DIFF_DST, &p->diff_dst},
                                   {ONEDNN_ARGUMENT_DIFF_SRC, &p->diff_src},
                                   {ONEDNN_ARGUMENT_DIFF_WEIGHT, &p->diff_weight},
                                   {ONEDNN_ARGUMENT_DIFF_BIAS, &p->diff_bias}};
    memcpy(out_lists, lists, sizeof lists);
}

static size_t remembered_bytes(const onednn_problem_t *problem)
{
    size_t bytes = sizeof(remembered_t);
    onednn_problem_t p = *problem;
    list_t lists[N_LISTS];
    list_operands(&p, lists);
    for (int i = 0; i < N_LISTS; i++)
        if (*lists[i].infos != NULL)
            bytes += (size_t)onednn_n_operands(&p, lists[i].first) * sizeof(tensor_info_t);
    for (int i = 0; i < p.n_post; i++)
        if (onednn_operand(&p, ONEDNN_ARGUMENT_OPERAND + i) != NULL) bytes += sizeof(tensor_info_t);
    for (int a = ONEDNN_ARGUMENT_SRC_SCALE; a <= ONEDNN_ARGUMENT_DST_ZERO; a++) {
        tensor_info_t info;
        const void *constant = NULL;
        if (onednn_quantity(&p, a, &info, &constant) && constant != NULL)
            bytes += info_bytes(&info);
    }
    return bytes;
}

static const tensor_info_t *remember_infos(remembered_t *block, int *n, int n_infos,
                                           const tensor_info_t *infos)
{
    if (infos == NULL) return NULL;
    tensor_info_t *to = &block->infos[*n];
    for (int i = 0; i < n_infos; i++) to[i] = infos[i];
    *n += n_infos;
    return to;
}

/* Copies constant scales and zeros to the memory after the infos. */
static void remember_constants(onednn_problem_t *p, char *to)
{
    onednn_quantization_t *each[] = {&p->src_quantization, &p->weight_quantization,
                                     &p->dst_quantization};
    for (int a = ONEDNN_ARGUMENT_SRC_SCALE; a <= ONEDNN_ARGUMENT_DST_ZERO; a++) {
        tensor_info_t info;
        const void *constant = NULL;
        if (!onednn_quantity(p, a, &info, &constant) || constant == NULL) continue;
        memcpy(to, constant, info_bytes(&info));
        if (a < ONEDNN_ARGUMENT_SRC_ZERO)
            each[a - ONEDNN_ARGUMENT_SRC_SCALE]->scale = (const float *)(const void *)to;
        else
            each[a - ONEDNN_ARGUMENT_SRC_ZERO]->zero = (const int32_t *)(const void *)to;
        to += info_bytes(&info);
    }
}

static void remember(remembered_t *block, const onednn_problem_t *problem)
{
    int n = 0;
    onednn_problem_t *p = &block->problem;
    *p = *problem;
    list_t lists[N_LISTS];
    list_operands(p, lists);
    for (int i = 0; i < N_LISTS; i++)
        *lists[i].infos = remember_infos(block, &n, onednn_n_operands(p, lists[i].first),
                                         *lists[i].infos);
    for (int i = 0; i < p->n_post; i++)
        p->post[i].operand = remember_infos(block, &n, 1,
                                            onednn_operand(problem, ONEDNN_ARGUMENT_OPERAND + i));
    remember_constants(p, (char *)&block->infos[n]);
    block->primitive.problem = p;
    block->primitive.forward = onednn_retain(problem->forward);
}

/* Checks a problem that oneDNN accepted. Returns a text about a known fault of the implementation,
 * or about a limit that the chosen formats exceed; NULL if all is well. */
static const char *find_obstacle(context_t *ctx, const onednn_primitive_t *primitive)
{
    tensor_info_t chosen[3];
    onednn_problem_t problem = *primitive->problem;
    const tensor_info_t **infos[] = {&problem.src, &problem.weight, &problem.dst};
    const int arguments[] = {ONEDNN_ARGUMENT_SRC, ONEDNN_ARGUMENT_WEIGHT, ONEDNN_ARGUMENT_DST};
    for (int i = 0; i < 3 && onednn_is_doubtful(primitive->implementation); i++) {
        if (*infos[i] == NULL || (*infos[i])->format.kind != FORMAT_ANY || problem.n_src > 1)
            continue;
        if (onednn_query(ctx, primitive, arguments[i], &chosen[i]) == STATUS_OK)
            *infos[i] = &chosen[i];
    }
    const char *fault = onednn_fault(&problem, primitive->implementation);
    return fault != NULL ? fault : onednn_limit_of_chosen(primitive);
}

TESSERA_PRINTF(2, 3) static status_t refuse(context_t *ctx, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(context_stream(ctx)->refusal, ONEDNN_REFUSAL_MAX, format, arguments);
    va_end(arguments);
    return STATUS_UNSUPPORTED;
}

const char *onednn_refusal(context_t *ctx)
{
    return context_stream(ctx)->refusal;
}

/* Makes a primitive from a description. Takes ownership of the description, also on failure. */
static status_t make_primitive(context_t *ctx, const onednn_problem_t *problem,
                               dnnl_primitive_desc_t description,
                               onednn_primitive_t **out_primitive)
{
    remembered_t *block = NULL;
    status_t failure = context_get_zeroed(ctx, remembered_bytes(problem), "a primitive", &block);
    if (failure == STATUS_OK && engine_retain() != dnnl_success) {
        context_put(ctx, block);
        failure = onednn_fail(ctx, (int)dnnl_runtime_error, "dnnl_engine_create");
    }
    if (failure != STATUS_OK) {
        dnnl_primitive_desc_destroy(description);
        return failure;
    }
    onednn_primitive_t *primitive = &block->primitive;
    remember(block, problem);
    atomic_init(&primitive->n_references, 1);
    pthread_mutex_init(&primitive->lock, NULL);
    primitive->allocator = *context_allocator(ctx);
    primitive->description = description;
    primitive->n_threads = omp_get_max_threads();
    primitive->implementation = "unknown";
    dnnl_primitive_desc_query(description, dnnl_query_impl_info_str, 0,
                              (void *)&primitive->implementation);
    const_dnnl_memory_desc_t scratch = dnnl_primitive_desc_query_md(description,
                                                                    dnnl_query_scratchpad_md, 0);
    primitive->scratch_bytes = scratch == NULL ? 0 : dnnl_memory_desc_get_size(scratch);
    onednn_list_arguments(primitive);
    *out_primitive = primitive;
    return STATUS_OK;
}

status_t onednn_describe(context_t *ctx, const onednn_problem_t *problem,
                         onednn_primitive_t **out_primitive)
{
    dnnl_primitive_desc_t description = NULL;
    onednn_primitive_t *primitive = NULL;
    if (problem->n_src > ONEDNN_MAX_SRC) return refuse(ctx, "more than %d sources", ONEDNN_MAX_SRC);
    const char *limit = onednn_limit(problem);
    if (limit != NULL) return refuse(ctx, "%s", limit);
    dnnl_status_t status = onednn_describe_problem(ctx, problem, &description);
    if (status == dnnl_out_of_memory)
        return onednn_fail(ctx, (int)status, "describing a primitive");
    if (status != dnnl_success) return refuse(ctx, "no implementation");
    TRY(make_primitive(ctx, problem, description, &primitive));
    const char *obstacle = find_obstacle(ctx, primitive);
    if (obstacle != NULL) {
        refuse(ctx, "%s: %s", primitive->implementation, obstacle);
        onednn_release(primitive);
        return STATUS_UNSUPPORTED;
    }
    *out_primitive = primitive;
    return STATUS_OK;
}

onednn_primitive_t *onednn_retain(onednn_primitive_t *primitive)
{
    if (primitive != NULL) references_add(&primitive->n_references);
    return primitive;
}

void onednn_release(onednn_primitive_t *primitive)
{
    if (primitive == NULL || !references_drop(&primitive->n_references)) return;
    onednn_frame_destroy(atomic_load(&primitive->idle));
    while (primitive->more != NULL) {
        onednn_frame_t *next = primitive->more->next;
        onednn_frame_destroy(primitive->more);
        primitive->more = next;
    }
    pthread_mutex_destroy(&primitive->lock);
    dnnl_primitive_t kernel = atomic_load(&primitive->kernel);
    if (kernel != NULL) dnnl_primitive_destroy(kernel);
    dnnl_primitive_desc_destroy(primitive->description);
    onednn_release(primitive->forward);
    engine_release();
    allocator_t allocator = primitive->allocator;
    allocator_put(&allocator, primitive);
}

const char *onednn_implementation(const onednn_primitive_t *primitive)
{
    return primitive->implementation;
}

size_t onednn_scratch_bytes(const onednn_primitive_t *primitive)
{
    return primitive->scratch_bytes;
}
