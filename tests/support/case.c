#include "tests/support/case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/select_impl.h"
#include "tensor/convert/convert.h"
#include "tensor/status_impl.h"

static const char *skip(const char *at)
{
    return at + strspn(at, " ");
}

static bool read_integer(const char **at, int64_t *out_value)
{
    char *end = NULL;
    *out_value = strtoll(*at, &end, 10);
    if (end == *at) return false;
    *at = end;
    return true;
}

static bool read_number(const char **at, case_operand_t *operand)
{
    char *end = NULL;
    double value = strtod(*at, &end);
    if (end == *at || !(fabs(value) <= 0x1p53)) return false;
    bool is_floating = memchr(*at, '.', (size_t)(end - *at)) != NULL;
    *operand = (case_operand_t){
        .dtype = is_floating ? DTYPE_F64 : DTYPE_S64, .is_number = true, .number = value};
    *at = end;
    return true;
}

static bool read_sizes(const char **at, case_operand_t *operand)
{
    if (**at != '[') return false;
    for (++*at; **at != ']';) {
        if (operand->rank > 0) {
            if (**at != ',') return false;
            ++*at;
        }
        if (operand->rank == TENSOR_MAX_RANK) return false;
        if (!read_integer(at, &operand->sizes[operand->rank++])) return false;
    }
    (*at)++;
    return true;
}

static bool read_operand(const char **at, case_operand_t *operand)
{
    char name[16] = "";
    if ((**at >= '0' && **at <= '9') || **at == '-') return read_number(at, operand);
    size_t length = strcspn(*at, "[,)");
    if (length >= sizeof name) return false;
    memcpy(name, *at, length);
    *operand = (case_operand_t){.dtype = dtype_parse(name)};
    *at += length;
    if (strcmp(name, "none") == 0) return true;
    if (operand->dtype == DTYPE_NONE || !read_sizes(at, operand)) return false;
    if (**at == '+') {
        operand->is_positive = true;
        (*at)++;
    }
    if (**at == '<') {
        (*at)++;
        return read_integer(at, &operand->limit) && operand->limit > 0;
    } else if (**at == '*') {
        (*at)++;
        return read_integer(at, &operand->scale) && operand->scale > 0;
    }
    return true;
}

status_t case_parse(context_t *ctx, const opdef_t *op, const char *text, case_call_t *out_call)
{
    const char *at = skip(text);
    case_call_t call = {0};
    REQUIRE(ctx, *at == '(', "case: \"%s\", ( is missing", text);
    at++;
    REQUIRE(ctx, op->attrs.bytes <= sizeof call.attrs, "case: attributes of %s are too large",
            op->name);
    for (at = skip(at); *at != ')'; at = skip(at)) {
        if (call.n_in > 0) {
            REQUIRE(ctx, *at == ',', "case: \"%s\", a comma is missing at \"%s\"", text, at);
            at = skip(at + 1);
        }
        REQUIRE(ctx, call.n_in < CASE_MAX_INPUTS && read_operand(&at, &call.in[call.n_in]),
                "case: \"%s\", no operand at \"%s\"", text, at);
        call.n_in++;
    }
    attrs_init(&op->attrs, call.attrs);
    for (at = skip(at + 1); *at != '\0'; at = skip(at))
        TRY(attrs_parse(ctx, op->name, &op->attrs, &at, call.attrs));
    *out_call = call;
    return STATUS_OK;
}

static void fill_integers(const case_operand_t *operand, int64_t n, const double *uniform,
                          void *data)
{
    const int64_t size = (int64_t)dtype_size(operand->dtype);
    for (int64_t i = 0; i < n; i++) {
        int64_t value = (int64_t)(uniform[i] *
                                  (operand->limit > 0 ? (double)operand->limit : 11.0));
        if (operand->limit == 0 && !dtype_is_unsigned(operand->dtype)) value -= 5;
        if (operand->is_positive) value = (value < 0 ? -value : value) + 1;
        if (operand->dtype == DTYPE_BOOL) value = uniform[i] < 0.5;
        dtype_store_integer(operand->dtype, (char *)data + i * size, value);
    }
}

static void make_positive(const case_operand_t *operand, int64_t n, void *data)
{
    const int64_t size = (int64_t)dtype_size(operand->dtype);
    for (int64_t i = 0; i < n; i++) {
        char *element = (char *)data + i * size;
        dtype_store(operand->dtype, element, fabs(dtype_load(operand->dtype, element)) + 0.1);
    }
}

static void multiply(const case_operand_t *operand, int64_t n, void *data)
{
    const int64_t size = (int64_t)dtype_size(operand->dtype);
    for (int64_t i = 0; i < n; i++) {
        char *element = (char *)data + i * size;
        double value = dtype_load(operand->dtype, element);
        dtype_store(operand->dtype, element, value * (double)operand->scale);
    }
}

status_t case_fill(context_t *ctx, const case_operand_t *operand, tensor_t **out_tensor)
{
    tensor_t *tensor = NULL, *uniform = NULL;
    void *data = NULL;
    const void *draws = NULL;
    *out_tensor = NULL;
    if (operand->dtype == DTYPE_NONE) return STATUS_OK;
    if (operand->is_number)
        return operand->dtype == DTYPE_F64
                   ? tensor_number(ctx, operand->number, out_tensor)
                   : tensor_integer(ctx, (int64_t)operand->number, out_tensor);
    bool is_floating = dtype_is_floating(operand->dtype);
    status_t status = is_floating ? tensor_randn(ctx, operand->dtype, operand->rank, operand->sizes,
                                                 &tensor)
                                  : tensor_empty(ctx, operand->dtype, operand->rank, operand->sizes,
                                                 &tensor);
    if (status == STATUS_OK) status = tensor_data_mutable(ctx, tensor, &data);
    if (status == STATUS_OK && !is_floating) {
        status = tensor_rand(ctx, DTYPE_F64, operand->rank, operand->sizes, &uniform);
        if (status == STATUS_OK) status = tensor_data(ctx, uniform, &draws);
        if (status == STATUS_OK) fill_integers(operand, tensor_numel(tensor), draws, data);
    }
    if (status == STATUS_OK && operand->is_positive && is_floating)
        make_positive(operand, tensor_numel(tensor), data);
    if (status == STATUS_OK && operand->scale > 0 && is_floating)
        multiply(operand, tensor_numel(tensor), data);
    tensor_release(uniform);
    if (status == STATUS_OK)
        *out_tensor = tensor;
    else
        tensor_release(tensor);
    return status;
}

status_t case_infer(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                    tensor_t *const *in, int *out_n, tensor_info_t *out)
{
    static const tensor_info_t absent = {.dtype = DTYPE_NONE};
    _Alignas(16) char normalised[CASE_MAX_ATTRS];
    const tensor_info_t *infos[CASE_MAX_INPUTS];
    const void *data[CASE_MAX_INPUTS] = {NULL};
    tensor_t *dense[CASE_MAX_INPUTS] = {NULL}, *plain = NULL;
    const bool is_measured = (op->traits & TRAIT_MEASURES) != 0;
    status_t status = STATUS_OK;
    for (int i = 0; i < n_in; i++) {
        infos[i] = in[i] != NULL ? tensor_info(in[i]) : &absent;
        if (!is_measured || in[i] == NULL) continue;
        if (status == STATUS_OK) status = to_dense(ctx, in[i], &plain);
        if (status == STATUS_OK) status = tensor_contiguous(ctx, plain, &dense[i]);
        tensor_release(plain);
        plain = NULL;
        if (status != STATUS_OK) continue;
        infos[i] = tensor_info(dense[i]);
        data[i] = tensor_bytes(dense[i]);
    }
    attrs_normalize(&op->attrs, attrs, normalised);
    op_call_t call = {.op = op,
                      .attrs = normalised,
                      .n_in = n_in,
                      .in = infos,
                      .data = is_measured ? data : NULL};
    if (status == STATUS_OK)
        status = is_measured ? select_infer(ctx, &call, out_n, out)
                             : dispatch_infer(ctx, op, attrs, n_in, infos, out_n, out);
    for (int i = 0; i < n_in; i++) tensor_release(dense[i]);
    return status;
}
