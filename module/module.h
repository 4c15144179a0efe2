/* Modules: a tree of parameters, buffers, attributes, children and methods.
 *
 * As torch.nn.Module: a parameter is a tensor that training changes, a buffer one that it does not
 * (running statistics), an attribute any datum (`training`, `version`). A child is a module; the
 * same module or tensor may stand in several places and stays shared. Modules are counted; setters
 * retain what they are given. A path is names joined by dots: "layer1.0.conv1.weight".
 *
 * A method is a class of functions and a state: C methods live here, graph and plan methods in the
 * folders to the right. */
#ifndef TESSERA_MODULE_MODULE_H
#define TESSERA_MODULE_MODULE_H

#include "tensor/datum.h"
#include "tensor/tensor.h"

TESSERA_BEGIN

typedef struct module module_t;
struct module_value;

/* What a method is. run gets arguments and gives results as datums; it may be called again while it
 * runs, in other contexts. Absent functions are NULL. */
typedef struct method_class {
    const char *name; /* "c", "graph", "plan" */
    status_t (*run)(context_t *ctx, module_t *self, void *state, int n_in, datum_t *const *in,
                    int *n_out, datum_t **out);
    void (*release)(void *state);
    status_t (*clone)(context_t *ctx, const void *state, void **out_state);
    void *(*graph)(
        void *state); /* the graph_t that the method runs, borrowed: what graph_of gives */
    /* How many arguments the method takes (results it gives, if is_output), where it is known; and
     * value `index` of these, where there is one. ctx may be NULL for index -1, which only counts.
     * signature.h */
    status_t (*describe)(context_t *ctx, void *state, bool is_output, int index, int *out_n,
                         struct module_value *out_value);
    /* Runs on tensors and writes result i straight into wanted[i] where that can be: out[i] is then
     * a tensor with the same bytes. *n_out is -1 where nothing was run, and nothing failed: then,
     * and where this is NULL, `run` is called, and results are copied. */
    status_t (*run_into)(context_t *ctx, module_t *self, void *state, int n_in,
                         const tensor_t *const *in, int n_wanted, tensor_t *const *wanted,
                         int *n_out, tensor_t **out);
    /* INVALID_ARGUMENT where a call with such tensors is refused for their number, dtypes or sizes.
     * signature.h */
    status_t (*check_inputs)(context_t *ctx, void *state, int n_in, const tensor_info_t *const *in);
} method_class_t;
#define METHOD_MAX_OUTPUTS 32

/* A method in C on tensors: what layers and users write. It runs in a scope of its own (see
 * scope.h): a failure inside that was not cleared fails the call. Results are tensors made inside
 * or inputs; any other, such as a parameter, is retained first. The rest of what was made is
 * released. */
typedef status_t (*forward_t)(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                              int *n_out, tensor_t **out);

/* ---- building ---- */

/* type_name ("Conv2d", "BasicBlock") tells users what it is. The module has attribute `training`,
 * false. */
status_t module_create(context_t *ctx, const char *type_name, module_t **out_module)
    TESSERA_API(module_create);
module_t *module_retain(module_t *module) TESSERA_API(module_retain);
void module_release(module_t *module) TESSERA_API(module_release);

/* A name may be a path, "layer1.0.conv1.weight": the modules on it must be there already, the last
 * name is set in the last of them. A name that is taken is replaced, if it is of the same kind;
 * else INVALID_ARGUMENT. A tensor NULL is a parameter that is absent (a bias). */
status_t module_set_parameter(context_t *ctx, module_t *module, const char *name, tensor_t *tensor)
    TESSERA_API(module_set_parameter);
status_t module_set_buffer(context_t *ctx, module_t *module, const char *name, tensor_t *tensor)
    TESSERA_API(module_set_buffer);
status_t module_set_attribute(context_t *ctx, module_t *module, const char *name, datum_t *value)
    TESSERA_API(module_set_attribute);
status_t module_set_child(context_t *ctx, module_t *module, const char *name, module_t *child)
    TESSERA_API(module_set_child);
status_t module_set_forward(context_t *ctx, module_t *module, const char *method, forward_t forward)
    TESSERA_API(module_set_forward);
/* Takes over the state, also on failure. */
status_t module_set_method_take(context_t *ctx, module_t *module, const char *method,
                                const method_class_t *class_, void *state)
    TESSERA_API(module_set_method_take);

/* ---- asking: borrowed, NULL when absent; paths may be dotted ---- */

const char *module_type(const module_t *module) TESSERA_API(module_type);
tensor_t *module_parameter(const module_t *module, const char *path) TESSERA_API(module_parameter);
tensor_t *module_buffer(const module_t *module, const char *path) TESSERA_API(module_buffer);
datum_t *module_attribute(const module_t *module, const char *path) TESSERA_API(module_attribute);
module_t *module_child(const module_t *module, const char *path) TESSERA_API(module_child);
/* The class of a method and its state, or NULL. */
const method_class_t *module_method(const module_t *module, const char *name, void **out_state)
    TESSERA_API(module_method);

/* Members in order of setting. */
typedef enum member_kind {
    MEMBER_PARAMETER,
    MEMBER_BUFFER,
    MEMBER_ATTRIBUTE,
    MEMBER_CHILD,
    MEMBER_METHOD
} member_kind_t;
int module_n_members(const module_t *module) TESSERA_API(module_n_members);
const char *module_member(const module_t *module, int index, member_kind_t *out_kind)
    TESSERA_API(module_member);
status_t module_remove(context_t *ctx, module_t *module, const char *name)
    TESSERA_API(module_remove);

/* Attribute `training` of the whole tree. */
status_t module_train(context_t *ctx, module_t *module, bool is_training) TESSERA_API(module_train);
bool module_is_training(const module_t *module) TESSERA_API(module_is_training);

/* ---- running ---- */

/* forward with one tensor in and one out. */
status_t module_forward(context_t *ctx, module_t *module, const tensor_t *x, tensor_t **out)
    TESSERA_API(module_forward);

/* Any method; that of a dotted name runs on the module it belongs to. INVALID_ARGUMENT when there
 * is no such method. out has room for METHOD_MAX_OUTPUTS; the caller releases. */
status_t module_call(context_t *ctx, module_t *module, const char *method, int n_in,
                     datum_t *const *in, int *n_out, datum_t **out) TESSERA_API(module_call);
status_t module_call_tensors(context_t *ctx, module_t *module, const char *method, int n_in,
                             const tensor_t *const *in, int *n_out, tensor_t **out)
    TESSERA_API(module_call_tensors);

/* The same, with results written into tensors of the caller's: made by him, or over his memory by
 * tensor_borrow. n_out and the tensors' dtypes and sizes have to be those of the results; layouts
 * may be any. A result of a plan (frozen and loaded modules) is written where it shall be, and
 * nothing is allocated for it, if the tensor is dense, contiguous and aligned to 64 bytes, and no
 * input or parameter lies in it; any other is copied once, which is counted as a copy or a reorder.
 * So a tensor may lie over an input: what is read is the input as it was.
 *
 * INVALID_ARGUMENT  other dtype, sizes or number of results; two tensors that overlap. Nothing has
 *                   been written then; where a kernel fails, tensors may be half written */
status_t module_forward_into(context_t *ctx, module_t *module, const tensor_t *x, tensor_t *out)
    TESSERA_API(module_forward_into);
status_t module_call_into(context_t *ctx, module_t *module, const char *method, int n_in,
                          const tensor_t *const *in, int n_out, tensor_t *const *out)
    TESSERA_API(module_call_into);

/* Calls a child from inside a forward: observers see its path. */
status_t module_run_child(context_t *ctx, module_t *module, const char *name, const tensor_t *x,
                          tensor_t **out) TESSERA_API(module_run_child);

/* Deep copy: tensors with bytes of their own, plain; sharing inside is kept. */
status_t module_clone(context_t *ctx, const module_t *module, module_t **out_module)
    TESSERA_API(module_clone);

/* ---- walking ---- */

/* Visits the module and all below it once each, parents first, with the path of the first way to
 * it. A failing visit ends the walk. */
typedef status_t (*module_visit_t)(context_t *ctx, void *user, const char *path, module_t *module);
status_t module_walk(context_t *ctx, module_t *module, module_visit_t visit, void *user)
    TESSERA_API(module_walk);

/* The tree as text: names, types, parameters with shapes. */
status_t module_print(context_t *ctx, const module_t *module, text_t *text)
    TESSERA_API(module_print);

TESSERA_END

#endif
