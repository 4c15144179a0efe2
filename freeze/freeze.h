/* Freezing: attributes become constants, weights are folded, fused and blocked, and stay so, in
 * memory and in a file that maps straight back in.
 *
 * freeze works on a copy: later edits of the original never show. The module must be in evaluation
 * mode, and the methods that are kept must be graph methods (graph_trace, graph_define, an imported
 * model). */
#ifndef TESSERA_FREEZE_FREEZE_H
#define TESSERA_FREEZE_FREEZE_H

#include "graph/passes/pass.h"
#include "graph/program/plan.h"

TESSERA_BEGIN

typedef struct freeze_options {
    const char *const *preserved; /* NULL-terminated paths of attributes, modules and methods that
                                     stay beside `forward`; NULL: none. A module stays whole, with
                                     its methods. An unknown name is INVALID_ARGUMENT */
    bool keep_numerics;           /* leave out passes that may change the last bits */
    bool no_optimize;             /* leave folding and fusing to freeze_optimize */
    const char *const *skip;      /* NULL-terminated passes to leave out */
    int plans;                    /* that each method keeps at most, for as many sets of inputs; 0:
                                     PLAN_CAPACITY */
    const char *after;            /* pass whose result is dumped, or "each" */
    void (*dump)(void *user, const char *pass, const char *text);
    void *dump_user;
} freeze_options_t;

/* What no preserved method can change becomes a constant; attributes, modules and methods that
 * nobody needs after go. A frozen module gives a copy of itself: of the options only the names are
 * checked.
 *
 * INVALID_ARGUMENT in training mode, for a module without graph methods, for unknown names, for a
 * method that returns the module. */
status_t freeze(context_t *ctx, module_t *module, const freeze_options_t *options,
                module_t **out_frozen) TESSERA_API(freeze);

/* The same without a copy of the weights, for large models: takes over the caller's reference, and
 * *module is NULL after; on failure it stays as it was. Others that hold the module or its tensors
 * may go on to use them: the first write to one copies it, so does not show. */
status_t freeze_take(context_t *ctx, module_t **module, const freeze_options_t *options,
                     module_t **out_frozen) TESSERA_API(freeze_take);

/* The step that freeze leaves out when no_optimize says so: folds, fuses and merges in the methods
 * of a frozen module. Of options keep_numerics, skip and dumping count; NULL: none. A second time
 * changes nothing. INVALID_ARGUMENT if it is not frozen. */
status_t freeze_optimize(context_t *ctx, module_t *frozen, const freeze_options_t *options)
    TESSERA_API(freeze_optimize);

/* Appends a line "path: why" for each attribute that is left, which names the node that changes it;
 * nothing when none is. INVALID_ARGUMENT if it is not frozen. */
status_t freeze_explain(context_t *ctx, module_t *frozen, text_t *text) TESSERA_API(freeze_explain);

/* How many plans each method keeps from now on, of what freeze_load gave, too; 0: PLAN_CAPACITY.
 * INVALID_ARGUMENT if it is not frozen, or for a negative number. */
status_t freeze_set_plans(context_t *ctx, module_t *frozen, int plans)
    TESSERA_API(freeze_set_plans);

/* Whether freeze made it (or freeze_load). */
bool freeze_is_frozen(const module_t *module) TESSERA_API(freeze_is_frozen);

/* ---- by name, in a graph method of a module that stays as it is ---- */

/* Makes tensors of one name constants of the method: attributes of the module and of those below
 * that a convolution (1 to 3 dimensions, transposed or not) or a batch norm, also one that passes
 * rewrote, takes as its operand of this name, conversions between them or not. param is "weight",
 * "bias", "running_mean" or "running_var". The constant of %7 is %7.weight; an absent tensor is the
 * constant none. Later writes to the module through the API do not show. Calls in the method
 * are inlined. What a graph method of the module writes stays an attribute.
 *
 * INVALID_ARGUMENT  another param, "Invalid Param Name"; the method is no graph method */
status_t freeze_params(context_t *ctx, module_t *module, const char *method, const char *param)
    TESSERA_API(freeze_params);

/* Decides each `if` of the method whose condition is itself an attribute of this name, of whatever
 * module and whatever its value: the branch of `value` stays. Other uses of it, and the attribute,
 * are left alone. Calls in the method are inlined.
 *
 * INVALID_ARGUMENT  the method is no graph method */
status_t freeze_flags(context_t *ctx, module_t *module, const char *method, const char *flag,
                      bool value) TESSERA_API(freeze_flags);

/* ---- the file ---- */

/* Writes a frozen module: graphs free of layout, attributes, and constants in the forms that its
 * plans run with, each with its format; and what those plans chose, for machines like this one: the
 * same oneDNN, ISA and number of threads. Whole or not at all, also over a file that is mapped. IO;
 * INVALID_ARGUMENT if it is not frozen; UNSUPPORTED names a method that is C code. */
status_t freeze_save(context_t *ctx, module_t *frozen, const char *path) TESSERA_API(freeze_save);

/* Maps a file. Where it knows this machine nothing is searched and no weight is reordered; on
 * others the layout pass runs, and weights are packed again from what is there. CORRUPT says what
 * is wrong with the file, IO what the system said. */
status_t freeze_load(context_t *ctx, const char *path, module_t **out_frozen)
    TESSERA_API(freeze_load);

/* Loads a file and adds the forms of its constants that this process runs with, and what its plans
 * chose, so that the next one like it starts without a copy. What the file has for other machines
 * stays. Two processes must not append to one file at once: the later one wins, and what the other
 * added is lost. Errors as those of loading and saving. */
status_t freeze_append(context_t *ctx, const char *path) TESSERA_API(freeze_append);

TESSERA_END

#endif
