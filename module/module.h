/* Modules: a tree of parameters, buffers, attributes, children and methods.
 *
 * As in torch.nn.Module, a parameter is a tensor that optimizers change; a buffer is a tensor that
 * they do not change (running statistics); an attribute is any datum (tensor/text/datum.h), such as
 * `training`; a child is a module. Several modules may share a child or a tensor. Modules are
 * reference-counted; setters retain their arguments. A path joins names of children and a member
 * with dots: "layer1.0.conv1.weight".
 *
 * A method has a class (a table of C functions) and a state. There are three classes: a C method
 * calls a C function, a graph method runs a graph, and a plan method runs a compiled graph (a plan:
 * a list of operators with fixed kernels and memory). C methods are implemented in this folder, the
 * others in graph/ and freeze/. */
#ifndef TESSERA_MODULE_MODULE_H
#define TESSERA_MODULE_MODULE_H

#include "tensor/tensor.h"
#include "tensor/text/datum.h"

typedef struct module module_t;
struct module_value;

/* The functions of a method; NULL if the class does not need one. `run` takes arguments and returns
 * results as datums. Several contexts may run it at the same time. */
typedef struct method_class {
    const char *name; /* "c", "graph", "plan" */
    status_t (*run)(context_t *ctx, module_t *self, void *state, int n_in, datum_t *const *in,
                    int *n_out, datum_t **out);
    void (*release)(void *state);
    status_t (*clone)(context_t *ctx, const void *state, void **out_state);
    /* Returns the graph_t that the method runs, borrowed, for graph_of. */
    void *(*graph)(void *state);
    /* Sets *out_n to the number of arguments, or of results if is_output; leaves it unchanged if
     * the number is not known. Describes argument or result `index`, if there is one. With index -1
     * it only counts, and ctx may be NULL. See signature.h. */
    status_t (*describe)(context_t *ctx, void *state, bool is_output, int index, int *out_n,
                         struct module_value *out_value);
    /* Like `run`, with tensors. Writes result i directly to wanted[i] if possible; out[i] is then a
     * tensor with the same memory. If the method cannot do this (its graph has control flow), it
     * runs nothing, sets *n_out to -1 and returns OK. In that case, or if run_into is NULL, the
     * caller uses `run` and copies the results. */
    status_t (*run_into)(context_t *ctx, module_t *self, void *state, int n_in,
                         const tensor_t *const *in, int n_wanted, tensor_t *const *wanted,
                         int *n_out, tensor_t **out);
    /* Fails with INVALID_ARGUMENT if `run` would reject tensors of this number, these dtypes or
     * these sizes. See signature.h. */
    status_t (*check_inputs)(context_t *ctx, void *state, int n_in, const tensor_info_t *const *in);
} method_class_t;
#define METHOD_MAX_OUTPUTS 32

/* The function of a C method, written by layers and users. It runs in its own scope (see scope.h).
 * If an operator fails in the function, the call fails, unless the function clears the error. A
 * result must be an input or a tensor made in the scope; to return any other tensor, such as a
 * parameter, retain it first. All other tensors made in the scope are released. */
typedef status_t (*forward_t)(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                              int *n_out, tensor_t **out);

/* ---- building ---- */

/* Creates a module with one member, attribute `training`, which is false. type_name ("Conv2d",
 * "BasicBlock") appears in printed modules and in error messages. */
status_t module_create(context_t *ctx, const char *type_name, module_t **out_module)
    TESSERA_API(module_create);
module_t *module_retain(module_t *module) TESSERA_API(module_retain);
void module_release(module_t *module) TESSERA_API(module_release);

/* Set a member. `name` may be a path, "layer1.0.conv1.weight": the modules on the path must exist,
 * and the last one receives the member. It replaces a member of the same kind and name; if that
 * name belongs to a member of another kind, the call fails with INVALID_ARGUMENT. A parameter may
 * be NULL, which means that it is absent (no bias). */
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
/* Takes ownership of the state, also on failure. */
status_t module_set_method_take(context_t *ctx, module_t *module, const char *method,
                                const method_class_t *class_, void *state)
    TESSERA_API(module_set_method_take);

/* ---- queries: results are borrowed, and NULL if absent; names may be paths ---- */

const char *module_type(const module_t *module) TESSERA_API(module_type);
tensor_t *module_parameter(const module_t *module, const char *path) TESSERA_API(module_parameter);
tensor_t *module_buffer(const module_t *module, const char *path) TESSERA_API(module_buffer);
datum_t *module_attribute(const module_t *module, const char *path) TESSERA_API(module_attribute);
module_t *module_child(const module_t *module, const char *path) TESSERA_API(module_child);
/* Returns the class of a method and its state; NULL if there is no such method. */
const method_class_t *module_method(const module_t *module, const char *name, void **out_state)
    TESSERA_API(module_method);

/* Members are in the order in which they were set. */
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

/* Sets attribute `training` of the module and of all modules below it. */
status_t module_train(context_t *ctx, module_t *module, bool is_training) TESSERA_API(module_train);
bool module_is_training(const module_t *module) TESSERA_API(module_is_training);

/* ---- running ---- */

/* Runs method "forward" with one tensor as argument and one as result. */
status_t module_forward(context_t *ctx, module_t *module, const tensor_t *x, tensor_t **out)
    TESSERA_API(module_forward);

/* Call a method. A path such as "layer1.forward" calls the method of a child. INVALID_ARGUMENT if
 * there is no such method. out has METHOD_MAX_OUTPUTS elements; the caller releases the results. */
status_t module_call(context_t *ctx, module_t *module, const char *method, int n_in,
                     datum_t *const *in, int *n_out, datum_t **out) TESSERA_API(module_call);
status_t module_call_tensors(context_t *ctx, module_t *module, const char *method, int n_in,
                             const tensor_t *const *in, int *n_out, tensor_t **out)
    TESSERA_API(module_call_tensors);

/* Like module_forward and module_call_tensors, but write the results to tensors that the caller
 * passes. These tensors may also use the caller's own memory (tensor_borrow). Their number, dtypes
 * and sizes must be those of the results; their layouts may differ. A frozen or loaded module
 * writes a result directly, without allocating, if the tensor is dense, contiguous, 64-byte aligned
 * and overlaps no input or parameter. Any other result is copied at the end, and counted as a copy
 * or a reorder. So a tensor may overlap an input: it is written after all reads of the input.
 *
 * INVALID_ARGUMENT  the tensors' dtypes, sizes or number are not those of the results; two tensors
 *                   overlap. Nothing has been written then. If an operator fails, tensors may be
 *                   partly written. */
status_t module_forward_into(context_t *ctx, module_t *module, const tensor_t *x, tensor_t *out)
    TESSERA_API(module_forward_into);
status_t module_call_into(context_t *ctx, module_t *module, const char *method, int n_in,
                          const tensor_t *const *in, int n_out, tensor_t *const *out)
    TESSERA_API(module_call_into);

/* Runs a child's forward. Call it in the forward of the parent: profiles and other observers then
 * see the child's path. */
status_t module_run_child(context_t *ctx, module_t *module, const char *name, const tensor_t *x,
                          tensor_t **out) TESSERA_API(module_run_child);

/* Deep copy. The copy's tensors are dense, with their own memory. Members that share a tensor share
 * one in the copy, too. */
status_t module_clone(context_t *ctx, const module_t *module, module_t **out_module)
    TESSERA_API(module_clone);

/* ---- walking ---- */

/* Visits the module and all modules below it, each once, parents first. If several paths lead to a
 * module, `path` is the first. The walk stops if a visit fails. */
typedef status_t (*module_visit_t)(context_t *ctx, void *user, const char *path, module_t *module);
status_t module_walk(context_t *ctx, module_t *module, module_visit_t visit, void *user)
    TESSERA_API(module_walk);

/* Appends the tree as text: names, types, parameters with shapes. */
status_t module_print(context_t *ctx, const module_t *module, text_t *text)
    TESSERA_API(module_print);

#endif
