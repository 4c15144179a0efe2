/* Freezing turns attributes into constants, and folds, fuses and blocks weights. The result stays
 * so in memory, and in a file that can be mapped directly.
 *
 * freeze works on a copy, so later changes of the original have no effect. The module must be in
 * evaluation mode, and the methods to keep must be graph methods (from graph_trace, graph_define or
 * an imported model). */
#ifndef TESSERA_FREEZE_FREEZE_H
#define TESSERA_FREEZE_FREEZE_H

#include "graph/passes/pass.h"
#include "graph/program/plan.h"

TESSERA_BEGIN

/* A product that may be computed in another dtype, and its error on the examples. */
typedef struct freeze_layer {
    const char *path; /* "" for an operator without one */
    const char *op;
    /* The largest max |a-b| / max |b| over the examples: b is the f32 result, and a is the result
     * with only this layer's operands rounded (in bf16 its result too). */
    double error;
    bool is_kept; /* stays f32, since the error is above max_error */
} freeze_layer_t;

/* How to choose the range of a value from the examples; numbers outside are set to its bounds. */
typedef enum calibration {
    CALIBRATION_PERCENTILE, /* cuts off few numbers above and few below */
    CALIBRATION_ENTROPY, /* minimizes the lost information about the distribution of magnitudes */
    CALIBRATION_MINMAX   /* cuts off nothing */
} calibration_t;

typedef struct freeze_options {
    /* NULL-terminated paths of attributes, modules and methods to keep in addition to `forward`;
     * NULL: none. A module is kept completely, with its methods. An unknown name is
     * INVALID_ARGUMENT. */
    const char *const *preserved;
    bool keep_numerics; /* skip passes that may change the last bits */
    /* Limit for the error of approximate algorithms: winograd convolutions; Strassen in linears,
     * 1x1 convolutions and lstms; linears whose weight is stored in 3 bytes per element. It limits
     * the sum, over a method, of each operator's largest error divided by its largest result, as
     * measured with its own weight. 0 without has_rounding_error: 1e-4. In bf16, winograd may lose
     * 2^-7 per convolution; this is not counted, since rounding to bf16 loses as much. With
     * keep_numerics none of these algorithms is used. */
    double rounding_error;
    bool no_optimize; /* leave folding and fusing to freeze_optimize */
    /* NULL-terminated names of passes to skip, also when plans of the frozen module are made. A
     * loaded file uses all passes. */
    const char *const *skip;
    /* Computation dtype of f32 convolutions, linears and matmuls. DTYPE_NONE: f32.
     * bf16: also for the operators that follow them. Weights are stored in bf16, sums are f32,
     * inputs and results of methods keep their dtype.
     * s8: products of `forward` with a constant weight read 8-bit integers. Their scales come from
     * the examples; weights have one scale per output; sums are s32. */
    dtype_t dtype;
    /* NULL-terminated paths of operators that stay f32 whatever dtype says; a star matches any
     * text; NULL: none. */
    const char *const *keep_f32;
    int n_examples; /* inputs of `forward`, like those expected later: for measuring and for s8 */
    const tensor_t *const *const *examples; /* [n_examples], each NULL-terminated */
    calibration_t calibration;              /* for s8 */
    double percentile; /* % of elements below the upper bound and above the lower; 0: 99.99 */
    double max_error;  /* layers with a larger error stay f32; 0 without has_max_error: no limit */
    /* Called for each measured layer, in the order of running; NULL: not called. */
    void (*report)(void *user, const freeze_layer_t *layer);
    void *report_user;
    int plans; /* limit for the plans of each method, one per set of inputs; 0: PLAN_CAPACITY */
    const char *after; /* pass whose result is dumped, or "each" */
    void (*dump)(void *user, const char *pass, const char *text);
    void *dump_user;
    bool has_rounding_error, has_max_error; /* a 0 there is meant: no error is allowed */
} freeze_options_t;

/* Freezes a copy of the module: every attribute that no kept method can change becomes a constant;
 * attributes, modules and methods that are no longer needed are removed. For a module that is
 * already frozen it returns a copy, and only checks the names in options.
 *
 * INVALID_ARGUMENT  the module is in training mode or has no graph method; unknown names or
 *                   paths; a method that returns the module; a dtype other than f32, bf16 and
 *                   s8; bf16 or s8 with keep_numerics, or if no product of `forward` reads a
 *                   tensor of known sizes; examples that `forward` does not accept, or on which
 *                   a value that needs a range is not finite; s8 or max_error without examples;
 *                   s8 with no_optimize
 * UNSUPPORTED       examples, if the method keeps attributes or calls */
status_t freeze(context_t *ctx, module_t *module, const freeze_options_t *options,
                module_t **out_frozen) TESSERA_API(freeze);

/* Like freeze, but without a copy of the weights, for large models. Takes the caller's reference:
 * *module is NULL afterwards, and unchanged on failure. Other owners of the module or its tensors
 * may continue to use them; the first write to a tensor copies it. */
status_t freeze_take(context_t *ctx, module_t **module, const freeze_options_t *options,
                     module_t **out_frozen) TESSERA_API(freeze_take);

/* The step that no_optimize makes freeze skip: folds, fuses and merges operators in the methods of
 * a frozen module. Reads only keep_numerics, the rounding error, skip, dtype, keep_f32 and the dump
 * options; options may be NULL. A second call changes nothing. INVALID_ARGUMENT if the module is
 * not frozen, and for dtype s8. */
status_t freeze_optimize(context_t *ctx, module_t *frozen, const freeze_options_t *options)
    TESSERA_API(freeze_optimize);

/* Appends one line "path: reason" per remaining attribute; the reason names the node that changes
 * it. Appends nothing if none remain. INVALID_ARGUMENT if the module is not frozen. */
status_t freeze_explain(context_t *ctx, module_t *frozen, text_t *text) TESSERA_API(freeze_explain);

/* Sets the limit for the plans of each method, also for a loaded module; 0: PLAN_CAPACITY.
 * INVALID_ARGUMENT if the module is not frozen or the number is negative. */
status_t freeze_set_plans(context_t *ctx, module_t *frozen, int plans)
    TESSERA_API(freeze_set_plans);

/* Adds the graphs of another frozen module: the same model, made for other sizes. Inputs that no
 * graph of a method of `frozen` accepts are run by the first graph of `other` that accepts them.
 * Equal constants are stored once, so a file of both is little larger than a file of one. No other
 * thread may use `frozen` during the call; `other` does not change.
 *
 *     onnx_load(ctx, "net.onnx", &small, &model);  freeze_take(ctx, &model, NULL, &frozen);
 *     onnx_load(ctx, "net.onnx", &large, &model);  freeze_take(ctx, &model, NULL, &other);
 *     freeze_add(ctx, frozen, other);
 *
 * INVALID_ARGUMENT  one of them is not frozen; `other` lacks a method of `frozen`, or has other
 *                   inputs or results there
 * UNSUPPORTED       a method of `other` reads or writes attributes; too many graphs */
status_t freeze_add(context_t *ctx, module_t *frozen, const module_t *other)
    TESSERA_API(freeze_add);

/* The result of tuning. */
typedef struct freeze_tuned {
    int n_measured; /* operators; equal ones count once */
    double ratio;   /* run time tuned / untuned. 1: tuning chose nothing else. 0: not compared */
    bool is_kept;   /* the gain exceeds measurement noise, or runs were not compared; otherwise all
                       choices are as without tuning */
} freeze_tuned_t;

/* Chooses formats and kernels of `forward` by measuring on this machine, for inputs like these.
 * Measures the kernels of the operators with the longest estimated time, alternating, in each
 * format. The resulting choice is kept only if complete runs are clearly faster with it.
 * freeze_save stores choice and times for machines like this one (oneDNN, ISA, number of threads).
 * Loading there measures and searches nothing; other machines use estimates. A second call measures
 * again.
 *
 * The call takes about `seconds`, plus a few runs of the network. progress_listen receives "measure
 * operators"; equal operators count once. out_tuned may be NULL.
 *
 * INVALID_ARGUMENT  the module is not frozen; seconds is not a positive number; `forward` does
 *                   not accept the inputs
 * UNSUPPORTED       `forward` is not a graph method */
status_t freeze_tune(context_t *ctx, module_t *frozen, int n_in, const tensor_t *const *inputs,
                     double seconds, freeze_tuned_t *out_tuned) TESSERA_API(freeze_tune);

/* Like freeze_tune, for known sizes without values. It measures single kernels, and runs no
 * operator on made-up values. Complete runs are not compared, so the choice by kernel times is
 * always kept. */
status_t freeze_tune_for(context_t *ctx, module_t *frozen, int n_in,
                         const tensor_info_t *const *infos, double seconds,
                         freeze_tuned_t *out_tuned) TESSERA_API(freeze_tune_for);

/* True for modules from freeze or freeze_load. */
bool freeze_is_frozen(const module_t *module) TESSERA_API(freeze_is_frozen);

/* ---- freezing by name, in one graph method; the module does not change otherwise ---- */

/* Turns tensors into constants of the method: every attribute of the module or a module below it
 * that a convolution (1 to 3 dimensions, transposed or not) or a batch norm takes as the operand
 * `param`, even through conversions or after passes rewrote the batch norm. param is "weight",
 * "bias", "running_mean" or "running_var". The constant of %7 is named %7.weight; an absent tensor
 * becomes none. Later writes to the module through the API do not affect the constants. Calls in
 * the method are inlined. Attributes that a graph method of the module writes are left.
 *
 * INVALID_ARGUMENT  another param, "Invalid Param Name"; the method is not a graph method */
status_t freeze_params(context_t *ctx, module_t *module, const char *method, const char *param)
    TESSERA_API(freeze_params);

/* Replaces each `if` of the method whose condition is directly an attribute of this name, in any
 * module and with any value, by its branch for `value`. Other uses of the attribute, and the
 * attribute itself, do not change. Calls in the method are inlined.
 *
 * INVALID_ARGUMENT  the method is not a graph method */
status_t freeze_flags(context_t *ctx, module_t *module, const char *method, const char *flag,
                      bool value) TESSERA_API(freeze_flags);

/* ---- the file ---- */

/* Writes a frozen module: graphs without layouts, attributes, constants in the formats that its
 * plans use, and the choices of those plans for machines like this one (same oneDNN, ISA and number
 * of threads). Saves are atomic, even over a file that is mapped. IO; INVALID_ARGUMENT if the
 * module is not frozen; UNSUPPORTED names a method that is C code. */
status_t freeze_save(context_t *ctx, module_t *frozen, const char *path) TESSERA_API(freeze_save);

/* Maps a file. If the file contains this machine, nothing is searched and no weight is reordered.
 * On other machines the layout pass runs and weights are packed again. CORRUPT tells what is wrong
 * with the file, IO what the system reported. */
status_t freeze_load(context_t *ctx, const char *path, module_t **out_frozen)
    TESSERA_API(freeze_load);

/* How the constants of a file are loaded; zero-initialised options are those of freeze_load. */
typedef struct freeze_load_options {
    /* Copies constants into one block in the order of use, with huge pages if the allocator is the
     * default one. Threads copy and verify in one pass. Afterwards the file is not read and may be
     * changed or removed. Loading takes longer, and processes do not share the memory. If false,
     * constants are mapped, processes share pages, and pages of constants that are packed again
     * are released. */
    bool is_copied;
    /* Skips the checksums of constants, so that mapped bytes are read only on first use. For
     * trusted files only: damage would show up as wrong results. Everything else is still checked,
     * including sizes and bounds. */
    bool is_unchecked;
} freeze_load_options_t;

/* freeze_load with options, which may be NULL. */
status_t freeze_load_with(context_t *ctx, const char *path, const freeze_load_options_t *options,
                          module_t **out_frozen) TESSERA_API(freeze_load_with);

/* Loads a file and adds the packed forms and plan choices of this process, so that the next process
 * like it starts without copying. Data for other machines is kept. Two processes must not append to
 * one file at the same time: the later write wins, and the other's data is lost. Errors as in
 * freeze_load_with and freeze_save. */
status_t freeze_append(context_t *ctx, const char *path) TESSERA_API(freeze_append);

TESSERA_END

#endif
