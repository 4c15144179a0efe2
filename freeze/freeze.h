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

/* A product that may be computed in another dtype, as measured on examples. */
typedef struct freeze_layer {
    const char *path; /* "" for an operator without one */
    const char *op;
    double error; /* the largest max |a-b| / max |b| of its result, b that of f32, where its
                     operands, and in bf16 its result, alone are rounded */
    bool is_kept; /* in f32: the error is above max_error */
} freeze_layer_t;

/* Where the numbers that a value has on the examples are cut; what lies outside is taken for the
 * bound. */
typedef enum calibration {
    CALIBRATION_PERCENTILE, /* few above and few below */
    CALIBRATION_ENTROPY,    /* where the integers tell most of the distribution of magnitudes */
    CALIBRATION_MINMAX      /* not at all */
} calibration_t;

typedef struct freeze_options {
    const char *const *preserved; /* NULL-terminated paths of attributes, modules and methods that
                                     stay beside `forward`; NULL: none. A module stays whole, with
                                     its methods. An unknown name is INVALID_ARGUMENT */
    bool keep_numerics;           /* leave out passes that may change the last bits */
    double rounding_error;        /* what convolutions by winograd, linears, 1x1 convolutions and
                                     lstms by Strassen's algorithm, and linears whose weight is kept
                                     in 3 bytes an element, may lose: the sum over a method of each
                                     one's largest error over its largest result, measured with its
                                     own weight; 0 without has_rounding_error: 1e-4. In bf16 winograd
                                     may lose 2^-7 in each convolution; this does not count, since
                                     rounding loses it anyway. With keep_numerics none of this is done */
    bool no_optimize;             /* leave folding and fusing to freeze_optimize */
    const char *const *skip;     /* NULL-terminated passes to leave out, also when plans are made of
                                    the frozen module; those of its file are made with all */
    dtype_t dtype;               /* that convolutions, linears and matmuls of f32, and what follows
                                    them, are computed in: bf16; DTYPE_NONE: f32, as they are.
                                    Weights are kept in it, sums are f32, inputs and results of
                                    methods stay what they were. Or s8: those with a constant
                                    weight, of `forward`, read integers of 8 bits, whose scales
                                    come from the examples; weights have one for each output, sums
                                    are s32 */
    const char *const *keep_f32; /* NULL-terminated paths of operators that stay f32 with a dtype;
                                    a star stands for any text; NULL: none */
    int n_examples;              /* inputs of `forward` on which each product is measured, and s8
                                    calibrated: they should be like those that will come */
    const tensor_t *const *const *examples; /* [n_examples], each NULL-terminated */
    calibration_t calibration;              /* of s8 */
    double percentile; /* of the elements that lie below the upper bound, and as many above the
                          lower one; 0: 99.99 */
    double max_error;  /* a layer with a larger error on the examples stays f32; 0 without
                          has_max_error: none does */
    void (*report)(void *user, const freeze_layer_t *layer); /* is told each layer that was
                                     measured, in the order they run; NULL: nobody */
    void *report_user;
    int plans;         /* that each method keeps at most, for as many sets of inputs; 0:
                          PLAN_CAPACITY */
    const char *after; /* pass whose result is dumped, or "each" */
    void (*dump)(void *user, const char *pass, const char *text);
    void *dump_user;
    bool has_rounding_error, has_max_error; /* 0 is meant there: nothing may be lost */
} freeze_options_t;

/* What no preserved method can change becomes a constant; attributes, modules and methods that
 * nobody needs after go. A frozen module gives a copy of itself: of the options only the names are
 * checked.
 *
 * INVALID_ARGUMENT in training mode, for a module without graph methods, for unknown names and
 * paths, for a method that returns the module, for another dtype than f32, bf16 and s8, and for
 * these with keep_numerics, or where no product of `forward` reads a tensor of known sizes; for
 * examples that `forward` does not take, or on which a value that has
 * to have a range is not finite, for s8 and a bound without examples, and for s8 with no_optimize.
 * UNSUPPORTED for examples of a method with attributes or calls that stay. */
status_t freeze(context_t *ctx, module_t *module, const freeze_options_t *options,
                module_t **out_frozen) TESSERA_API(freeze);

/* The same without a copy of the weights, for large models: takes over the caller's reference, and
 * *module is NULL after; on failure it stays as it was. Others that hold the module or its tensors
 * may go on to use them: the first write to one copies it, so does not show. */
status_t freeze_take(context_t *ctx, module_t **module, const freeze_options_t *options,
                     module_t **out_frozen) TESSERA_API(freeze_take);

/* The step that freeze leaves out when no_optimize says so: folds, fuses and merges in the methods
 * of a frozen module. Of options keep_numerics, rounding_error, skip, dtype, keep_f32 and dumping
 * count; NULL: none. A second time changes nothing. INVALID_ARGUMENT if it is not frozen, and for
 * dtype s8. */
status_t freeze_optimize(context_t *ctx, module_t *frozen, const freeze_options_t *options)
    TESSERA_API(freeze_optimize);

/* Appends a line "path: why" for each attribute that is left, which names the node that changes it;
 * nothing when none is. INVALID_ARGUMENT if it is not frozen. */
status_t freeze_explain(context_t *ctx, module_t *frozen, text_t *text) TESSERA_API(freeze_explain);

/* How many plans each method keeps from now on, of what freeze_load gave, too; 0: PLAN_CAPACITY.
 * INVALID_ARGUMENT if it is not frozen, or for a negative number. */
status_t freeze_set_plans(context_t *ctx, module_t *frozen, int plans)
    TESSERA_API(freeze_set_plans);

/* Adds the graphs of another frozen module, of the same model made for other sizes: inputs that no
 * graph of a method of `frozen` takes are run by the first graph of `other` that takes them.
 * Constants that are equal are kept once, so a file of both is little larger than one of either.
 * Nobody else may use `frozen` meanwhile; `other` stays as it is.
 *
 *   onnx_load(ctx, "net.onnx", &small, &model);  freeze_take(ctx, &model, NULL, &frozen);
 *   onnx_load(ctx, "net.onnx", &large, &model);  freeze_take(ctx, &model, NULL, &other);
 *   freeze_add(ctx, frozen, other);
 *
 * INVALID_ARGUMENT: one of them is not frozen; a method of `frozen` is none of `other`, or has
 * other inputs or results there. UNSUPPORTED: a method of `other` reads or writes attributes; too
 * many graphs. */
status_t freeze_add(context_t *ctx, module_t *frozen, const module_t *other)
    TESSERA_API(freeze_add);

/* What measuring on this machine, in place of estimating, gave. */
typedef struct freeze_tuned {
    int n_measured; /* operators, those that are alike counted once */
    double ratio;   /* of a run's time tuned to that untuned, in turns; 1: nothing else was chosen;
                       0: runs were not compared (freeze_tune_for) */
    bool is_kept;   /* it is faster by more than runs differ, or runs were not compared; else all is
                       chosen as without tuning */
} freeze_tuned_t;

/* Chooses formats and kernels of `forward` for inputs like these by times that are measured here:
 * kernels of the operators that take longest by estimate run in turns, in each format, and the
 * choice by their times stays if the whole runs clearly faster by it. freeze_save keeps choice and
 * times for machines like this one (oneDNN, ISA, number of threads); loaded there, nothing is
 * measured or searched for, and loaded elsewhere estimates count. A second call measures anew.
 * It takes about as long as is asked for, and a few runs of the network longer; progress_listen
 * gets "measure operators", those that are alike counted once. out_tuned may be NULL.
 *
 * INVALID_ARGUMENT  it is not frozen, seconds are 0, negative or no number, `forward` does not take
 *                   the inputs
 * UNSUPPORTED       `forward` is no graph method */
status_t freeze_tune(context_t *ctx, module_t *frozen, int n_in, const tensor_t *const *inputs,
                     double seconds, freeze_tuned_t *out_tuned) TESSERA_API(freeze_tune);

/* The same where sizes are known and values are not: kernels are measured, each by itself, and no
 * operator runs on made-up values. Whole runs are not compared, so what kernels' times say is kept
 * in any case. */
status_t freeze_tune_for(context_t *ctx, module_t *frozen, int n_in,
                         const tensor_info_t *const *infos, double seconds,
                         freeze_tuned_t *out_tuned) TESSERA_API(freeze_tune_for);

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

/* Where the constants of a file are once it is loaded; zeroed is what freeze_load does. */
typedef struct freeze_load_options {
    bool is_copied; /* in one block of the allocator's, in huge pages where it is the default one,
                       in the order in which they are used; threads copy and check in one pass.
                       The file is not read again, and may be changed or removed. It takes longer
                       to load, and processes do not share the memory. Without: they are mapped,
                       processes share their pages, and pages whose constants are packed anew are
                       given back */
    bool is_unchecked; /* checksums of constants are not computed, so that bytes of a mapping are
                          read when they are used first. Only for files that are trusted to be
                          whole: damage shows in results. All else is checked as always, sizes and
                          bounds, too */
} freeze_load_options_t;

/* freeze_load with options; NULL: none. */
status_t freeze_load_with(context_t *ctx, const char *path, const freeze_load_options_t *options,
                          module_t **out_frozen) TESSERA_API(freeze_load_with);

/* Loads a file and adds the forms of its constants that this process runs with, and what its plans
 * chose, so that the next one like it starts without a copy. What the file has for other machines
 * stays. Two processes must not append to one file at once: the later one wins, and what the other
 * added is lost. Errors as those of loading and saving. */
status_t freeze_append(context_t *ctx, const char *path) TESSERA_API(freeze_append);

TESSERA_END

#endif
