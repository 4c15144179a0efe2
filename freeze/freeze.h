/* Freezing turns attributes into constants, then folds, fuses and packs them. A frozen module keeps
 * its weights packed, and its file contains packed weights, so that loading only maps the file.
 *
 * freeze works on a copy, so later changes to the original have no effect. The module must be in
 * evaluation mode. The methods to keep must be graph methods, made by graph_trace or graph_define,
 * or imported. */
#ifndef TESSERA_FREEZE_FREEZE_H
#define TESSERA_FREEZE_FREEZE_H

#include "graph/passes/pass.h"
#include "graph/program/plan.h"

/* A product (convolution, linear layer or matmul) that can be computed in another dtype, and its
 * error. */
typedef struct freeze_layer {
    const char *path; /* "" for an operator without one */
    const char *op;
    /* max |a-b| / max |b|, for the example for which this is largest. b is the result in f32; a is
     * the result if only this layer's operands are rounded (for bf16, its result too). */
    double error;
    bool is_kept; /* stays f32, because the error exceeds max_error */
} freeze_layer_t;

/* How the examples determine the range of a value. Numbers outside become the range's bounds. */
typedef enum calibration {
    CALIBRATION_PERCENTILE, /* few numbers are above the range, and few below */
    CALIBRATION_ENTROPY,    /* the distribution of magnitudes loses the least information */
    CALIBRATION_MINMAX      /* no number is outside of the range */
} calibration_t;

typedef struct freeze_options {
    /* NULL-terminated paths of attributes, modules and methods to keep besides `forward`; NULL:
     * none. A module is kept with all its members and methods. INVALID_ARGUMENT for an unknown
     * name. */
    const char *const *preserved;
    bool keep_numerics; /* skip passes that may change the last bits */
    /* Limit for the errors of approximate algorithms: Winograd convolutions; Strassen's algorithm
     * in linear layers, 1x1 convolutions and LSTMs; linear layers whose weight is stored in 3 bytes
     * per element. An operator's error is its largest error divided by its largest result, measured
     * with its own weight; the limit is for the sum over a method. 0 without has_rounding_error:
     * 1e-4. In bf16, Winograd may lose 2^-7 per convolution, which does not count, since rounding
     * to bf16 loses as much. With keep_numerics these algorithms are not used. */
    double rounding_error;
    bool no_optimize; /* do not fold and fuse; freeze_optimize can do so later */
    /* NULL-terminated names of passes to skip, also in plans of the frozen module. A loaded file
     * does not skip them. */
    const char *const *skip;
    /* Dtype in which f32 convolutions, linear layers and matmuls compute. DTYPE_NONE: f32.
     * bf16: operators after products use bf16 too. Weights are stored in bf16, sums are f32, and
     * inputs and results of methods keep their dtype.
     * s8: products of `forward` with a constant weight read 8-bit integers, with scales from the
     * examples; weights have one scale for each output; sums are s32. */
    dtype_t dtype;
    /* NULL-terminated paths of operators that stay f32 for any dtype; `*` matches any text; NULL:
     * none. */
    const char *const *keep_f32;
    int n_examples; /* typical inputs of `forward`, for measuring errors and for s8 */
    const tensor_t *const *const *examples; /* [n_examples], each NULL-terminated */
    calibration_t calibration;              /* for s8 */
    /* This % of elements is not above the range, and as many are not below it; 0: 99.99. */
    double percentile;
    double max_error; /* layers with larger errors stay f32; 0 without has_max_error: no limit */
    /* Called for each measured layer, in execution order; NULL: not called. */
    void (*report)(void *user, const freeze_layer_t *layer);
    void *report_user;
    int plans; /* limit for plans of a method, one for each set of inputs; 0: PLAN_CAPACITY */
    const char *after; /* name of the pass after which to dump the graph, or "each" */
    void (*dump)(void *user, const char *pass, const char *text);
    void *dump_user;
    bool has_rounding_error, has_max_error; /* if true, a limit of 0 allows no error */
} freeze_options_t;

/* Freezes a copy of the module: every attribute that no kept method can change becomes a constant,
 * and attributes, modules and methods that are no longer needed are removed. If the module is
 * frozen already, this only checks the names in options and returns a copy.
 *
 * INVALID_ARGUMENT  the module is in training mode or has no graph method; unknown names or
 *                   paths; a method that returns the module; a dtype other than f32, bf16 and
 *                   s8; bf16 or s8 with keep_numerics, or if `forward` has products but none reads
 *                   a tensor of known sizes; examples that `forward` does not accept, or on which
 *                   a value that needs a range is not finite; s8 or max_error without examples;
 *                   s8 with no_optimize
 * UNSUPPORTED       examples, if the method keeps attributes or calls */
status_t freeze(context_t *ctx, module_t *module, const freeze_options_t *options,
                module_t **out_frozen) TESSERA_API(freeze);

/* Like freeze, but does not copy the weights, for large models. Takes over the caller's reference:
 * *module becomes NULL, or is unchanged on failure. Other owners of the module or its tensors may
 * continue to use them; the first write to a tensor copies that tensor. */
status_t freeze_take(context_t *ctx, module_t **module, const freeze_options_t *options,
                     module_t **out_frozen) TESSERA_API(freeze_take);

/* Does what freeze skips with no_optimize: folds, fuses and merges operators in the methods of a
 * frozen module. Reads only keep_numerics, the rounding error, skip, dtype, keep_f32 and the dump
 * options; options may be NULL. A second call changes nothing. INVALID_ARGUMENT if the module is
 * not frozen, and for dtype s8. */
status_t freeze_optimize(context_t *ctx, module_t *frozen, const freeze_options_t *options)
    TESSERA_API(freeze_optimize);

/* Appends one line "path: reason" for each attribute that is left; the reason names the node that
 * changes the attribute. INVALID_ARGUMENT if the module is not frozen. */
status_t freeze_explain(context_t *ctx, module_t *frozen, text_t *text) TESSERA_API(freeze_explain);

/* Sets the limit for the plans of each method, also for a loaded module; 0: PLAN_CAPACITY.
 * INVALID_ARGUMENT if the module is not frozen or the number is negative. */
status_t freeze_set_plans(context_t *ctx, module_t *frozen, int plans)
    TESSERA_API(freeze_set_plans);

/* Adds the graphs of another frozen module: of the same model, frozen for other sizes. If no graph
 * of `frozen` accepts a call's inputs, the first graph of `other` that does runs. Equal constants
 * are stored once, so a file of both modules is little larger than a file of one. No other thread
 * may use `frozen` during the call; `other` does not change.
 *
 *     onnx_load(ctx, "net.onnx", &small, &model);  freeze_take(ctx, &model, NULL, &frozen);
 *     onnx_load(ctx, "net.onnx", &large, &model);  freeze_take(ctx, &model, NULL, &other);
 *     freeze_add(ctx, frozen, other);
 *
 * INVALID_ARGUMENT  one of them is not frozen; `other` lacks a method of `frozen`, or its inputs or
 *                   results differ
 * UNSUPPORTED       a method of `other` reads or writes attributes; too many graphs */
status_t freeze_add(context_t *ctx, module_t *frozen, const module_t *other)
    TESSERA_API(freeze_add);

/* The result of tuning. */
typedef struct freeze_tuned {
    int n_measured; /* operators; equal ones count once */
    double ratio;   /* time of a run after / before. 1: tuning changed nothing. 0: not compared */
    bool is_kept;   /* the new choices are used: the gain exceeds measurement noise, or runs were
                       not compared */
} freeze_tuned_t;

/* Chooses formats and kernels of `forward` by measuring on this machine, for inputs like these.
 * Measures kernels alternately, in each format, starting with the operators with the longest
 * estimated time. The new choices are used only if they make complete runs clearly faster.
 * freeze_save stores choices and times for machines like this one (oneDNN, ISA, number of threads),
 * which then load the file without measuring or searching; other machines use estimates. A second
 * call measures again.
 *
 * Takes about `seconds`, plus a few runs of the network. The step that progress_listen reports is
 * "measure operators"; equal operators count once. out_tuned may be NULL.
 *
 * INVALID_ARGUMENT  the module is not frozen; seconds is not a positive number; `forward` does
 *                   not accept the inputs
 * UNSUPPORTED       `forward` is not a graph method */
status_t freeze_tune(context_t *ctx, module_t *frozen, int n_in, const tensor_t *const *inputs,
                     double seconds, freeze_tuned_t *out_tuned) TESSERA_API(freeze_tune);

/* Like freeze_tune, for inputs whose sizes are known but not their values. Measures single kernels,
 * but does not run the network on random values. So complete runs are not compared, and the new
 * choices are always used. */
status_t freeze_tune_for(context_t *ctx, module_t *frozen, int n_in,
                         const tensor_info_t *const *infos, double seconds,
                         freeze_tuned_t *out_tuned) TESSERA_API(freeze_tune_for);

/* True for modules that freeze or freeze_load made. */
bool freeze_is_frozen(const module_t *module) TESSERA_API(freeze_is_frozen);

/* ---- freezing by name, in one graph method; the rest of the module does not change ---- */

/* Makes constants, in this method, of tensors that convolutions (1 to 3 dimensions, transposed or
 * not) and batch norms read as operand `param`: "weight", "bias", "running_mean" or "running_var".
 * They are attributes of the module or its descendants, perhaps read through conversions or by
 * operators that replaced a batch norm. The constant of %7 is named %7.weight; an absent tensor
 * becomes none. Later writes to the module through the API do not affect the constants. Calls in
 * the method are inlined. Attributes that a graph method of the module writes stay.
 *
 * INVALID_ARGUMENT  another param, "Invalid Param Name"; the method is not a graph method */
status_t freeze_params(context_t *ctx, module_t *module, const char *method, const char *param)
    TESSERA_API(freeze_params);

/* If the condition of an `if` in the method is an attribute of this name, in any module and with
 * any value, replaces the `if` by its branch for `value`. Other uses of the attribute, and the
 * attribute itself, do not change. Calls in the method are inlined.
 *
 * INVALID_ARGUMENT  the method is not a graph method */
status_t freeze_flags(context_t *ctx, module_t *module, const char *method, const char *flag,
                      bool value) TESSERA_API(freeze_flags);

/* ---- the file ---- */

/* Writes a frozen module: graphs without layouts, attributes, constants in the formats that its
 * plans use, and the choices of these plans for machines like this one (same oneDNN, ISA and number
 * of threads). Saves are atomic, even over a file that is mapped. IO; INVALID_ARGUMENT if the
 * module is not frozen; UNSUPPORTED names a method that is C code. */
status_t freeze_save(context_t *ctx, module_t *frozen, const char *path) TESSERA_API(freeze_save);

/* Maps a file. If the file was saved for a machine like this one, loading searches no layouts and
 * reorders no weights; otherwise the layout pass runs, and weights are packed again. CORRUPT: the
 * message says what is wrong with the file. IO: it has the system's reason. */
status_t freeze_load(context_t *ctx, const char *path, module_t **out_frozen)
    TESSERA_API(freeze_load);

/* How the constants of a file are loaded; zero-initialised options load as freeze_load does. */
typedef struct freeze_load_options {
    /* True: copies the constants into one block in the order of use, in huge pages if the allocator
     * is the default one. Threads copy and verify in one pass. After loading, the file is not read
     * and may be changed or removed. Loading takes longer, and processes do not share the memory.
     * False: constants are mapped, processes share their pages, and pages of constants that are
     * packed again are released. */
    bool is_copied;
    /* True: does not compute checksums of constants, so mapped bytes are read only on first use.
     * For trusted files only: damaged constants give wrong results. Everything else is checked,
     * including sizes and bounds. False: checksums are computed, unless the store knows that a
     * mapped file was right and has not changed since (docs/store.md). */
    bool is_unchecked;
} freeze_load_options_t;

/* freeze_load with options, which may be NULL. */
status_t freeze_load_with(context_t *ctx, const char *path, const freeze_load_options_t *options,
                          module_t **out_frozen) TESSERA_API(freeze_load_with);

/* Loads a file, and adds this process's packed forms and choices to it, so that later processes on
 * such a machine load them. Data for other machines stays. Two processes must not append to a file
 * at the same time: the data of the process that writes first is lost. Errors as in
 * freeze_load_with and freeze_save. */
status_t freeze_append(context_t *ctx, const char *path) TESSERA_API(freeze_append);

/* freeze_append, which also adds forms that are much larger than their weights, such as those of
 * Winograd's convolution. Processes on such a machine then map all forms from the file and need no
 * store. The file becomes about twice as large. */
status_t freeze_append_forms(context_t *ctx, const char *path) TESSERA_API(freeze_append_forms);

#endif
