#include "module/signature_impl.h"

#include <stdio.h>
#include <string.h>

#include "module/module_impl.h"
#include "tensor/scope_impl.h"

/* ---- signatures of C methods ---- */

static size_t text_bytes(const char *text)
{
    return text != NULL ? strlen(text) + 1 : 0;
}

static const char *copy_text(const char *text, char **at)
{
    size_t bytes = text_bytes(text);
    char *copy = *at;
    if (bytes == 0) return NULL;
    memcpy(copy, text, bytes);
    *at += bytes;
    return copy;
}

static size_t value_bytes(const module_value_t *value)
{
    size_t bytes = sizeof *value + text_bytes(value->name);
    for (int d = 0; d < value->rank; d++) bytes += text_bytes(value->dims[d]);
    return bytes;
}

static void copy_value(const module_value_t *value, module_value_t *out_copy, char **texts)
{
    *out_copy = *value;
    out_copy->name = copy_text(value->name, texts);
    for (int d = 0; d < TENSOR_MAX_RANK; d++)
        out_copy->dims[d] = d < value->rank ? copy_text(value->dims[d], texts) : NULL;
}

status_t signature_create(context_t *ctx, int n_in, const module_value_t *in, int n_out,
                          const module_value_t *out, signature_t **out_signature)
{
    size_t bytes = sizeof **out_signature;
    for (int i = 0; i < n_in; i++) bytes += value_bytes(&in[i]);
    for (int i = 0; i < n_out; i++) bytes += value_bytes(&out[i]);
    signature_t *signature = NULL;
    TRY(context_get(ctx, bytes, "a signature", &signature));
    signature->allocator = *context_allocator(ctx);
    signature->n_in = n_in;
    signature->n_out = n_out;
    char *texts = (char *)(signature->values + n_in + n_out);
    for (int i = 0; i < n_in; i++) copy_value(&in[i], &signature->values[i], &texts);
    for (int i = 0; i < n_out; i++) copy_value(&out[i], &signature->values[n_in + i], &texts);
    *out_signature = signature;
    return STATUS_OK;
}

void signature_release(signature_t *signature)
{
    if (signature == NULL) return;
    allocator_t allocator = signature->allocator;
    allocator_put(&allocator, signature);
}

status_t signature_describe(const signature_t *signature, bool is_output, int index, int *out_n,
                            module_value_t *out_value)
{
    if (signature == NULL) return STATUS_OK;
    *out_n = is_output ? signature->n_out : signature->n_in;
    if (index >= 0 && index < *out_n)
        *out_value = signature->values[is_output ? signature->n_in + index : index];
    return STATUS_OK;
}

/* ---- queries ---- */

typedef struct question {
    const char *op;
    bool is_output;
    int index; /* -1: only count arguments or results */
} question_t;

/* Asks a method for the number of its arguments or results, and for one of them. Sets *out_n to -1
 * if the number is not known. */
static status_t ask(context_t *ctx, const module_t *module, const char *method,
                    const question_t *question, int *out_n, module_value_t *out_value)
{
    module_t *owner;
    memcpy(&owner, &module, sizeof owner);
    const member_t *member = module_find_owned(&owner, method, MEMBER_METHOD);
    *out_n = -1;
    if (member == NULL && ctx == NULL) return STATUS_OK;
    if (member == NULL) return module_no_member(ctx, module, method, MEMBER_METHOD);
    const method_class_t *class_ = member->is.method.class_;
    if (class_->describe == NULL) return STATUS_OK;
    TRY(class_->describe(ctx, member->is.method.state, question->is_output, question->index, out_n,
                         out_value));
    if (question->index < 0 || question->index >= *out_n || strcmp(member->name, "forward") != 0)
        return STATUS_OK;
    const datum_t *names = module_attribute(owner,
                                            question->is_output ? "output_names" : "input_names");
    const datum_t *name = names != NULL && datum_kind(names) == DATUM_LIST
                              ? datum_item(names, question->index)
                              : NULL;
    if (name != NULL && datum_kind(name) == DATUM_STRING) out_value->name = datum_as_string(name);
    return STATUS_OK;
}

static int count(const module_t *module, const char *method, bool is_output)
{
    const question_t question = {"", is_output, -1};
    int n = -1;
    if (module == NULL || method == NULL) return -1;
    return ask(NULL, module, method, &question, &n, NULL) == STATUS_OK ? n : -1;
}

int module_n_inputs(const module_t *module, const char *method)
{
    return count(module, method, false);
}

int module_n_outputs(const module_t *module, const char *method)
{
    return count(module, method, true);
}

static status_t answer(context_t *ctx, const module_t *module, const char *method,
                       const question_t *question, module_value_t *out_value)
{
    const char *op = question->op, *what = question->is_output ? "results" : "arguments";
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    if (module == NULL) return context_null(ctx, op, "module");
    if (method == NULL) return context_null(ctx, op, "method");
    if (out_value == NULL) return context_null(ctx, op, "the output");
    module_value_t value = {.rank = -1};
    int n = -1;
    /* A negative index is an error here, but `ask` would only count. INT32_MAX is an index that no
     * value has. */
    question_t asked = *question;
    if (asked.index < 0) asked.index = INT32_MAX;
    TRY(ask(ctx, module, method, &asked, &n, &value));
    if (n < 0)
        return context_decline(
            ctx, STATUS_UNSUPPORTED,
            "%s: %s of %s is C code whose %s are not described, use graph_trace or module_describe",
            op, method, module_type(module), what);
    if (question->index < 0 || question->index >= n)
        return context_decline(ctx, STATUS_INVALID_ARGUMENT, "%s: index %d, %s of %s has %d %s", op,
                               question->index, method, module_type(module), n, what);
    *out_value = value;
    return STATUS_OK;
}

status_t module_check_inputs(context_t *ctx, const module_t *module, const char *method, int n_in,
                             const tensor_info_t *const *in)
{
    const char *op = "module_check_inputs";
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    if (module == NULL) return context_null(ctx, op, "module");
    if (method == NULL) return context_null(ctx, op, "method");
    if (in == NULL && n_in > 0) return context_null(ctx, op, "the inputs");
    module_t *owner;
    memcpy(&owner, &module, sizeof owner);
    const member_t *member = module_find_owned(&owner, method, MEMBER_METHOD);
    if (member == NULL) return module_no_member(ctx, module, method, MEMBER_METHOD);
    const method_class_t *class_ = member->is.method.class_;
    if (class_->check_inputs == NULL)
        return context_decline(ctx, STATUS_UNSUPPORTED,
                               "%s: %s of %s is C code, which checks its arguments when it runs",
                               op, method, module_type(module));
    char message[CONTEXT_ERROR_MAX];
    scope_attempt(ctx);
    status_t status = class_->check_inputs(ctx, member->is.method.state, n_in, in);
    const bool is_refused = status == STATUS_INVALID_ARGUMENT;
    snprintf(message, sizeof message, "%s", is_refused ? context_error(ctx) : "");
    status = scope_attempt_end(ctx, status, is_refused);
    return is_refused ? context_decline(ctx, status, "%s", message) : status;
}

status_t module_input(context_t *ctx, const module_t *module, const char *method, int index,
                      module_value_t *out_value)
{
    return answer(ctx, module, method, &(question_t){"module_input", false, index}, out_value);
}

status_t module_output(context_t *ctx, const module_t *module, const char *method, int index,
                       module_value_t *out_value)
{
    return answer(ctx, module, method, &(question_t){"module_output", true, index}, out_value);
}
