#include <string.h>

#include "dispatch/dispatch.h"
#include "module/module_impl.h"
#include "module/signature_impl.h"
#include "tensor/convert/convert_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"
#include "tensor/threads/interrupt_impl.h"

#define MAX_INPUTS 64

/* ---- C methods ---- */

typedef struct c_method {
    allocator_t allocator;
    forward_t forward;
    signature_t *signature; /* NULL: module_describe was not called */
} c_method_t;

static status_t make_c_method(context_t *ctx, forward_t forward, c_method_t **out_method)
{
    TRY(context_get(ctx, sizeof **out_method, "a method", out_method));
    **out_method = (c_method_t){*context_allocator(ctx), forward, NULL};
    return STATUS_OK;
}

static void release_c_method(void *state)
{
    c_method_t *method = state;
    allocator_t allocator = method->allocator;
    signature_release(method->signature);
    allocator_put(&allocator, method);
}

static status_t clone_c_method(context_t *ctx, const void *state, void **out_state)
{
    const c_method_t *method = state;
    const signature_t *said = method->signature;
    c_method_t *copy = NULL;
    TRY(make_c_method(ctx, method->forward, &copy));
    status_t status = STATUS_OK;
    if (said != NULL)
        status = signature_create(ctx, said->n_in, said->values, said->n_out,
                                  said->values + said->n_in, &copy->signature);
    if (status != STATUS_OK)
        release_c_method(copy);
    else
        *out_state = copy;
    return status;
}

static status_t describe_c_method(context_t *ctx, void *state, bool is_output, int index,
                                  int *out_n, struct module_value *out_value)
{
    (void)ctx;
    return signature_describe(((const c_method_t *)state)->signature, is_output, index, out_n,
                              out_value);
}

static status_t tensors_of(context_t *ctx, const module_t *module, int n, datum_t *const *datums,
                           const tensor_t **out_tensors)
{
    REQUIRE(ctx, n >= 0 && n <= MAX_INPUTS, "module: %d arguments to a C method of %s, at most %d",
            n, module_type(module), MAX_INPUTS);
    for (int i = 0; i < n; i++) {
        datum_kind_t kind = datums[i] != NULL ? datum_kind(datums[i]) : DATUM_NONE;
        REQUIRE(ctx, kind == DATUM_TENSOR || kind == DATUM_NONE,
                "module: argument %d to a C method of %s is %s, must be a tensor", i,
                module_type(module), datum_kind_name(kind));
        out_tensors[i] = kind == DATUM_TENSOR ? datum_as_tensor(datums[i]) : NULL;
    }
    return STATUS_OK;
}

static void release_tensors(int n, tensor_t *const *tensors)
{
    for (int i = 0; i < n; i++) tensor_drop(tensors[i]);
}

static void release_datums(int n, datum_t *const *datums)
{
    for (int i = 0; i < n; i++) datum_release(datums[i]);
}

/* Converts n tensors to datums; NULL becomes a datum of kind DATUM_NONE. */
static status_t wrap(context_t *ctx, int n, const tensor_t *const *tensors, datum_t **out_datums)
{
    for (int i = 0; i < n; i++) {
        tensor_t *tensor = NULL;
        memcpy(&tensor, &tensors[i], sizeof tensor);
        status_t status = tensor != NULL ? datum_tensor(ctx, tensor, &out_datums[i])
                                         : datum_none(ctx, &out_datums[i]);
        if (status != STATUS_OK) {
            release_datums(i, out_datums);
            return status;
        }
    }
    return STATUS_OK;
}

static status_t run_c_method(context_t *ctx, module_t *self, void *state, int n_in,
                             datum_t *const *in, int *n_out, datum_t **out)
{
    const tensor_t *inputs[MAX_INPUTS] = {NULL};
    tensor_t *made[METHOD_MAX_OUTPUTS] = {NULL};
    int n_made = 0;
    TRY(tensors_of(ctx, self, n_in, in, inputs));
    TRY(module_run_forward(ctx, self, "a C method", ((c_method_t *)state)->forward, n_in, inputs,
                           &n_made, made));
    datum_t *wrapped[METHOD_MAX_OUTPUTS] = {NULL};
    status_t status = wrap(ctx, n_made, (const tensor_t *const *)made, wrapped);
    release_tensors(n_made, made);
    TRY(status);
    memcpy(out, wrapped, (size_t)n_made * sizeof *out);
    *n_out = n_made;
    return STATUS_OK;
}

const method_class_t module_c_methods = {.name = "c",
                                         .run = run_c_method,
                                         .release = release_c_method,
                                         .clone = clone_c_method,
                                         .describe = describe_c_method};

status_t module_set_forward(context_t *ctx, module_t *module, const char *method, forward_t forward)
{
    if (forward == NULL) return context_null(ctx, "module_set_forward", "forward");
    c_method_t *state = NULL;
    TRY(make_c_method(ctx, forward, &state));
    return module_set_method_take(ctx, module, method, &module_c_methods, state);
}

static status_t check_values(context_t *ctx, int n, const module_value_t *values)
{
    REQUIRE(ctx, n >= 0 && n <= MAX_INPUTS, "module_describe: %d values, must be 0 to %d", n,
            MAX_INPUTS);
    if (n > 0 && values == NULL) return context_null(ctx, "module_describe", "values");
    for (int i = 0; i < n; i++) {
        REQUIRE(ctx, values[i].rank >= -1 && values[i].rank <= TENSOR_MAX_RANK,
                "module_describe: value %d of rank %d, must be -1 to %d", i, values[i].rank,
                TENSOR_MAX_RANK);
        for (int d = 0; d < values[i].rank; d++)
            REQUIRE(ctx, values[i].sizes[d] >= -1 && values[i].made[d] >= -1,
                    "module_describe: size %lld of value %d, must be at least -1",
                    (long long)values[i].sizes[d], i);
    }
    return STATUS_OK;
}

status_t module_describe(context_t *ctx, module_t *module, const char *method, int n_in,
                         const module_value_t *in, int n_out, const module_value_t *out)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    if (module == NULL) return context_null(ctx, "module_describe", "module");
    if (method == NULL) return context_null(ctx, "module_describe", "method");
    const member_t *found = module_find(module, method, MEMBER_METHOD);
    if (found == NULL) return module_no_member(ctx, module, method, MEMBER_METHOD);
    REQUIRE(ctx, found->is.method.class_ == &module_c_methods,
            "module_describe: %s of %s is not a C method, its signature is known already", method,
            module_type(module));
    TRY(check_values(ctx, n_in, in));
    TRY(check_values(ctx, n_out, out));
    signature_t *signature = NULL;
    TRY(signature_create(ctx, n_in, in, n_out, out, &signature));
    c_method_t *state = found->is.method.state;
    signature_release(state->signature);
    state->signature = signature;
    return STATUS_OK;
}

forward_t module_c_forward(const member_t *method)
{
    if (method->is.method.class_ != &module_c_methods) return NULL;
    return ((const c_method_t *)method->is.method.state)->forward;
}

/* Makes the caller own one reference for each result. If the scope does not hold a result, either
 * the function has retained it, or it is the same tensor as an earlier result, which needs another
 * reference. Returns false if a result is NULL. */
static bool take_results(context_t *ctx, int n, tensor_t *const *made)
{
    bool is_whole = true;
    for (int i = 0; i < n; i++) {
        if (made[i] == NULL) {
            is_whole = false;
        } else if (!scope_give(ctx, made[i])) {
            for (int j = 0; j < i; j++) {
                if (made[j] != made[i]) continue;
                tensor_hold(made[i]);
                break;
            }
        }
    }
    return is_whole;
}

/* Runs the function in its own scope. The caller owns the results in `made`, also on failure. */
static status_t run_in_scope(context_t *ctx, module_t *module, const char *method,
                             forward_t forward, int n_in, const tensor_t *const *in, int *n_out,
                             tensor_t **made)
{
    TRY(scope_begin_call(ctx, n_in, in));
    status_t status = forward(ctx, module, n_in, in, n_out, made);
    if (status == STATUS_OK && (*n_out < 0 || *n_out > METHOD_MAX_OUTPUTS))
        status = context_fail(ctx, STATUS_INVALID_ARGUMENT,
                              "module: %s of %s returned %d results, must be 0 to %d", method,
                              module_type(module), *n_out, METHOD_MAX_OUTPUTS);
    if (status != STATUS_OK && context_status(ctx) == STATUS_OK)
        context_fail(ctx, status, "module: %s of %s returned %s without a message", method,
                     module_type(module), status_name(status));
    if (status != STATUS_OK) *n_out = 0;
    bool is_whole = take_results(ctx, *n_out, made);
    status_t ended = scope_end(ctx);
    if (ended != STATUS_OK) return ended;
    if (status == STATUS_OK && !is_whole)
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "module: %s of %s returned NULL as one of %d results",
             method, module_type(module), *n_out);
    return status;
}

status_t module_run_forward(context_t *ctx, module_t *module, const char *method, forward_t forward,
                            int n_in, const tensor_t *const *in, int *n_out, tensor_t **out)
{
    tensor_t *made[METHOD_MAX_OUTPUTS] = {NULL};
    int n_made = 1;
    TRY_OR(run_in_scope(ctx, module, method, forward, n_in, in, &n_made, made),
           release_tensors(n_made, made));
    memcpy(out, made, (size_t)n_made * sizeof *out);
    *n_out = n_made;
    return STATUS_OK;
}

/* ---- calls ---- */

/* Checks the arrays of a call; `in` may be NULL if n_in is 0. */
static status_t check_call(context_t *ctx, const char *op, int n_in, const void *in,
                           const int *n_out, const void *out)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    if (n_in > 0 && in == NULL) return context_null(ctx, op, "in");
    if (n_out == NULL || out == NULL) return context_null(ctx, op, "the output");
    return STATUS_OK;
}

/* Finds a method by its path, and sets *module to the module that has the method. */
static status_t find_method(context_t *ctx, module_t **module, const char *name,
                            const member_t **out_method)
{
    if (*module == NULL) return context_null(ctx, "module", "module");
    module_t *owner = *module;
    const member_t *method = module_find_owned(&owner, name, MEMBER_METHOD);
    if (method == NULL) return module_no_member(ctx, *module, name, MEMBER_METHOD);
    *module = owner;
    *out_method = method;
    return STATUS_OK;
}

/* Layers that module_mkldnn has skipped run under policy per_op, and so do all layers and operators
 * that their methods call. `before` is the policy to restore. */
typedef struct layer_policy {
    bool is_switched;
    policy_t before;
} layer_policy_t;

static layer_policy_t enter_layer(context_t *ctx, const module_t *module)
{
    layer_policy_t policy = {atomic_load_explicit(&module->runs_dense, memory_order_relaxed),
                             POLICY_AUTO};
    if (policy.is_switched) {
        policy.before = dispatch_policy(ctx);
        (void)dispatch_set_policy(ctx, POLICY_PER_OP);
    }
    return policy;
}

static void leave_layer(context_t *ctx, layer_policy_t policy)
{
    if (policy.is_switched) (void)dispatch_set_policy(ctx, policy.before);
}

status_t module_call(context_t *ctx, module_t *module, const char *method, int n_in,
                     datum_t *const *in, int *n_out, datum_t **out)
{
    TRY(check_call(ctx, "module_call", n_in, in, n_out, out));
    *n_out = 0;
    const member_t *found = NULL;
    TRY(find_method(ctx, &module, method, &found));
    interrupt_begin(ctx, "module_call");
    const layer_policy_t policy = enter_layer(ctx, module);
    status_t status = found->is.method.class_->run(ctx, module, found->is.method.state, n_in, in,
                                                   n_out, out);
    leave_layer(ctx, policy);
    return interrupt_end(ctx, status);
}

/* Runs a method that is not a C method: converts tensors to datums and back. The caller owns the
 * results. The method may replace members, even itself, so `name` must not belong to the method,
 * and `method` is not read after the run. */
static status_t run_method(context_t *ctx, module_t *module, const char *name,
                           const member_t *method, int n_in, const tensor_t *const *in, int *n_out,
                           tensor_t **out)
{
    REQUIRE(ctx, n_in >= 0 && n_in <= MAX_INPUTS, "module: %d arguments to %s of %s, at most %d",
            n_in, name, module_type(module), MAX_INPUTS);
    datum_t *inputs[MAX_INPUTS] = {NULL};
    datum_t *results[METHOD_MAX_OUTPUTS] = {NULL};
    int n_results = 0;
    TRY(wrap(ctx, n_in, in, inputs));
    status_t status = method->is.method.class_->run(ctx, module, method->is.method.state, n_in,
                                                    inputs, &n_results, results);
    release_datums(n_in, inputs);
    TRY(status);
    for (int i = 0; i < n_results && status == STATUS_OK; i++) {
        datum_kind_t kind = datum_kind(results[i]);
        if (kind != DATUM_TENSOR)
            status = context_fail(
                ctx, STATUS_INVALID_ARGUMENT,
                "module: result %d of %s of %s is %s, only module_call can return that", i, name,
                module_type(module), datum_kind_name(kind));
    }
    if (status == STATUS_OK) {
        for (int i = 0; i < n_results; i++) out[i] = tensor_hold(datum_as_tensor(results[i]));
        *n_out = n_results;
    }
    release_datums(n_results, results);
    return status;
}

static status_t call_tensors(context_t *ctx, module_t *module, const char *name, int n_in,
                             const tensor_t *const *in, int *n_out, tensor_t **out)
{
    const member_t *method = NULL;
    TRY(find_method(ctx, &module, name, &method));
    forward_t forward = module_c_forward(method);
    interrupt_begin(ctx, "module_forward");
    const layer_policy_t policy = enter_layer(ctx, module);
    status_t status = forward == NULL
                          ? run_method(ctx, module, name, method, n_in, in, n_out, out)
                          : module_run_forward(ctx, module, name, forward, n_in, in, n_out, out);
    leave_layer(ctx, policy);
    return interrupt_end(ctx, status);
}

status_t module_call_tensors(context_t *ctx, module_t *module, const char *method, int n_in,
                             const tensor_t *const *in, int *n_out, tensor_t **out)
{
    TRY(check_call(ctx, "module_call_tensors", n_in, in, n_out, out));
    *n_out = 0;
    tensor_t *made[METHOD_MAX_OUTPUTS] = {NULL};
    int n_made = 0;
    TRY(call_tensors(ctx, module, method, n_in, in, &n_made, made));
    for (int i = 0; i < n_made; i++) {
        status_t status = tensor_give(ctx, made[i], &made[i]);
        if (status != STATUS_OK) {
            release_tensors(n_made - i - 1, made + i + 1);
            return status;
        }
    }
    memcpy(out, made, (size_t)n_made * sizeof *out);
    *n_out = n_made;
    return STATUS_OK;
}

status_t module_forward(context_t *ctx, module_t *module, const tensor_t *x, tensor_t **out)
{
    TRY(context_output(ctx, "module_forward", out));
    if (module == NULL) return context_null(ctx, "module_forward", "module");
    if (x == NULL) return context_null(ctx, "module_forward", "x");
    tensor_t *made[METHOD_MAX_OUTPUTS] = {NULL};
    int n_made = 0;
    TRY(call_tensors(ctx, module, "forward", 1, &x, &n_made, made));
    if (n_made != 1) {
        release_tensors(n_made, made);
        FAIL(ctx, STATUS_INVALID_ARGUMENT,
             "module: forward of %s returned %d results, module_forward needs one",
             module_type(module), n_made);
    }
    return tensor_give(ctx, made[0], out);
}

/* ---- results in the caller's memory ---- */

static status_t check_wanted(context_t *ctx, const module_t *module, const char *name, int n,
                             tensor_t *const *wanted)
{
    REQUIRE(ctx, n >= 0 && n <= METHOD_MAX_OUTPUTS,
            "module: %d tensors for results of %s of %s, must be 0 to %d", n, name,
            module_type(module), METHOD_MAX_OUTPUTS);
    for (int i = 0; i < n; i++) {
        if (wanted[i] == NULL) return context_null(ctx, "module_call_into", "a tensor of out");
        for (int j = 0; j < i; j++)
            REQUIRE(ctx, !tensor_overlaps(wanted[i], wanted[j]),
                    "module: tensors for results %d and %d of %s of %s overlap, each needs its own "
                    "memory",
                    j, i, name, module_type(module));
    }
    return STATUS_OK;
}

static status_t check_results(context_t *ctx, const module_t *module, const char *name, int n,
                              tensor_t *const *made, int n_wanted, tensor_t *const *wanted)
{
    REQUIRE(ctx, n == n_wanted, "module: %s of %s returned %d results, the call has tensors for %d",
            name, module_type(module), n, n_wanted);
    for (int i = 0; i < n; i++) TRY(module_check_result(ctx, i, &made[i]->info, &wanted[i]->info));
    return STATUS_OK;
}

status_t module_check_result(context_t *ctx, int index, const tensor_info_t *made,
                             const tensor_info_t *wanted)
{
    char text[INFO_TEXT_MAX], other[INFO_TEXT_MAX];
    REQUIRE(ctx,
            made->dtype == wanted->dtype &&
                shape_equal(made->rank, made->sizes, wanted->rank, wanted->sizes),
            "module: result %d is %s, the tensor for it is %s, dtype and sizes must be equal",
            index, info_text(made, text), info_text(wanted, other));
    return STATUS_OK;
}

static bool is_same(const tensor_t *a, const tensor_t *b)
{
    return a->storage == b->storage && a->offset == b->offset &&
           tensor_lies_like(&a->info, &b->info);
}

/* Makes a copy of each result that overlaps one of the caller's tensors, because writing that
 * tensor would change the result. A result that already is in its caller's tensor needs no copy. */
static status_t save_overlapping(context_t *ctx, int n, tensor_t **made, tensor_t *const *wanted)
{
    for (int i = 0; i < n; i++) {
        bool is_in_the_way = false;
        for (int j = 0; j < n; j++)
            if (!is_same(made[i], wanted[i]) && tensor_overlaps(made[i], wanted[j]))
                is_in_the_way = true;
        tensor_t *copy = NULL;
        if (!is_in_the_way) continue;
        TRY(tensor_duplicate(ctx, made[i], &copy));
        tensor_drop(made[i]);
        made[i] = copy;
    }
    return STATUS_OK;
}

/* Copies a result to the caller's tensor. tensor_copy counts only reorders, so this function counts
 * a copy between equal formats. */
static status_t copy_result(context_t *ctx, const tensor_t *made, tensor_t *wanted)
{
    if (is_same(made, wanted)) return STATUS_OK;
    const uint64_t begin = context_now();
    TRY(tensor_copy(ctx, wanted, made));
    if (format_same(&made->info.format, &wanted->info.format, made->info.sizes)) {
        const uint64_t numel = (uint64_t)tensor_numel(made);
        convert_tell(ctx,
                     (conversion_t){.cause = CAUSE_OUTPUT,
                                    .by = "tessera",
                                    .is_copy = true,
                                    .from = &made->info,
                                    .to = &wanted->info,
                                    .from_bytes = tensor_bytes(made),
                                    .to_bytes = tensor_bytes(wanted),
                                    .bytes = 2 * numel * dtype_size(made->info.dtype)},
                     begin);
    }
    return STATUS_OK;
}

/* Lets the method write to the caller's tensors if it can. Otherwise the results are new
 * tensors. */
static status_t run_into(context_t *ctx, module_t *module, const char *name, int n_in,
                         const tensor_t *const *in, int n_wanted, tensor_t *const *wanted,
                         int *n_made, tensor_t **made)
{
    const member_t *method = NULL;
    module_t *owner = module;
    TRY(find_method(ctx, &owner, name, &method));
    const method_class_t *class_ = method->is.method.class_;
    bool are_all_given = n_in >= 0 && n_in <= MAX_INPUTS;
    for (int i = 0; are_all_given && i < n_in; i++) are_all_given = in[i] != NULL;
    *n_made = -1;
    if (class_->run_into != NULL && are_all_given) {
        interrupt_begin(ctx, "module_call_into");
        const layer_policy_t policy = enter_layer(ctx, owner);
        status_t status = class_->run_into(ctx, owner, method->is.method.state, n_in, in, n_wanted,
                                           wanted, n_made, made);
        leave_layer(ctx, policy);
        TRY(interrupt_end(ctx, status));
    }
    if (*n_made >= 0) return STATUS_OK;
    *n_made = 0;
    return call_tensors(ctx, module, name, n_in, in, n_made, made);
}

status_t module_call_into(context_t *ctx, module_t *module, const char *method, int n_in,
                          const tensor_t *const *in, int n_out, tensor_t *const *out)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    if (module == NULL) return context_null(ctx, "module_call_into", "module");
    if (method == NULL) return context_null(ctx, "module_call_into", "method");
    if (n_in > 0 && in == NULL) return context_null(ctx, "module_call_into", "in");
    if (n_out > 0 && out == NULL) return context_null(ctx, "module_call_into", "out");
    TRY(check_wanted(ctx, module, method, n_out, out));
    tensor_t *made[METHOD_MAX_OUTPUTS] = {NULL};
    int n_made = 0;
    TRY(run_into(ctx, module, method, n_in, in, n_out, out, &n_made, made));
    status_t status = check_results(ctx, module, method, n_made, made, n_out, out);
    if (status == STATUS_OK) status = save_overlapping(ctx, n_made, made, out);
    for (int i = 0; i < n_made && status == STATUS_OK; i++)
        status = copy_result(ctx, made[i], out[i]);
    release_tensors(n_made, made);
    return status;
}

status_t module_forward_into(context_t *ctx, module_t *module, const tensor_t *x, tensor_t *out)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    if (x == NULL) return context_null(ctx, "module_forward_into", "x");
    if (out == NULL) return context_null(ctx, "module_forward_into", "out");
    return module_call_into(ctx, module, "forward", 1, &x, 1, &out);
}

status_t module_run_child(context_t *ctx, module_t *module, const char *name, const tensor_t *x,
                          tensor_t **out)
{
    TRY(context_output(ctx, "module_run_child", out));
    if (module == NULL) return context_null(ctx, "module_run_child", "module");
    module_t *child = module_child(module, name);
    if (child == NULL) return module_no_member(ctx, module, name, MEMBER_CHILD);
    dispatch_enter_module(ctx, name);
    FINISH(module_forward(ctx, child, x, out), dispatch_leave_module(ctx, name));
}
