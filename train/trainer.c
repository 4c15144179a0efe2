/* Training steps, eager and planned. */
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "module/module_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"
#include "tensor/threads/interrupt_impl.h"
#include "train/clip.h"
#include "train/optimizer_impl.h"
#include "train/parallel_impl.h"
#include "train/program_impl.h"
#include "train/tape_impl.h"

/* A buffer of the module (such as a running mean), and its value before the forward pass. */
typedef struct kept_buffer {
    tensor_t *buffer, *before;
} kept_buffer_t;

struct trainer {
    context_t *ctx;
    module_t *module;
    train_loss_t loss;
    void *user;
    optimizer_t *optimizer; /* borrowed */
    train_options_t options;
    train_times_t times;
    int64_t n_steps;
    tape_t *tape;              /* eager mode */
    uint64_t changes;          /* module_changes() when the tape was created */
    uint64_t checked;          /* module_changes() at the last check of the parameters */
    train_program_t *programs; /* planned mode; the most recently used one first */
    tensor_t **gradients;      /* [parameters] */
    int n_spare;
    tensor_t **spare; /* [parameters] gradients of the last step, whose memory is reused */
    uint64_t simple;  /* module_changes() when may_update was computed */
    bool may_update;  /* updates may be part of the plan, see find_may_update */
    bool is_broken;   /* a step has failed after updating some of the parameters */
    /* State of the current step. */
    tensor_t *loss_value;
    tensor_t *output;
    bool wants_output;
    tensor_t *given; /* output for the caller, taken before the plan's first update */
    double loss_number;
    optimizer_run_t run;
    uint64_t update_ns;
    bool is_updated; /* the step's plan has updated the parameters */
    bool is_held;    /* the step has begun to write, and cannot be interrupted */
    kept_buffer_t *kept;
    int n_kept, kept_capacity;
};

/* ---- both modes ---- */

static status_t check_loss(trainer_t *trainer, double *out_loss)
{
    context_t *ctx = trainer->ctx;
    TRY(tensor_item(ctx, trainer->loss_value, out_loss));
    REQUIRE(ctx, isfinite(*out_loss),
            "trainer_step: the loss of step %lld is %g; the parameters are unchanged",
            (long long)trainer->n_steps + 1, *out_loss);
    return STATUS_OK;
}

static void drop_gradients(trainer_t *trainer)
{
    const int n = optimizer_n_parameters(trainer->optimizer);
    for (int i = 0; i < n; i++) {
        tensor_drop(trainer->gradients[i]);
        trainer->gradients[i] = NULL;
    }
}

/* Disables interruption; called before the first write of state or a parameter. */
static void hold(trainer_t *trainer)
{
    if (!trainer->is_held) interrupt_hold(trainer->ctx);
    trainer->is_held = true;
}

static status_t update(trainer_t *trainer)
{
    context_t *ctx = trainer->ctx;
    const uint64_t begin = context_now();
    if (trainer->is_updated) {
        trainer->n_steps++;
        return STATUS_OK;
    }
    if (trainer->options.max_norm > 0)
        TRY(clip_gradients(ctx, optimizer_n_parameters(trainer->optimizer), trainer->gradients,
                           trainer->options.max_norm, NULL));
    status_t status = optimizer_step(ctx, trainer->optimizer, trainer->gradients);
    if (status != STATUS_OK) parallel_leave(trainer->options.parallel); /* others updated */
    TRY(status);
    trainer->times.update_ns = context_now() - begin;
    trainer->n_steps++;
    return STATUS_OK;
}

/* Returns the output for the caller. An output that shares memory with a parameter is copied,
 * because the update will write the parameter. */
static status_t give_output(trainer_t *trainer, tensor_t **out_output)
{
    context_t *ctx = trainer->ctx;
    tensor_t *output = NULL;
    if (module_overlaps(trainer->module, trainer->output))
        TRY(tensor_duplicate(ctx, trainer->output, &output));
    else
        output = tensor_hold(trainer->output);
    return tensor_give(ctx, output, out_output);
}

/* ---- eager ---- */

static status_t run_forward(trainer_t *trainer, int n_in, const tensor_t *const *in,
                            const tensor_t *target)
{
    context_t *ctx = trainer->ctx;
    tensor_t *results[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = METHOD_MAX_OUTPUTS;
    TRY(module_call_tensors(ctx, trainer->module, "forward", n_in, in, &n_out, results));
    for (int i = 0; i < n_out; i++) scope_take(ctx, results[i]);
    if (n_out < 1)
        FAIL(ctx, STATUS_INVALID_ARGUMENT,
             "trainer_step: the module's first result is not a tensor");
    trainer->output = results[0];
    status_t status = trainer->loss(ctx, trainer->user, results[0], target, &trainer->loss_value);
    if (status == STATUS_OK) scope_take(ctx, trainer->loss_value);
    for (int i = 1; i < n_out; i++) tensor_drop(results[i]);
    return status;
}

/* Called when the gradient of a leaf (a watched tensor) is complete: starts to exchange it with the
 * other ranks. The index of a leaf is usually the index of its parameter. If two parameters are now
 * the same tensor, it is watched once, and later leaves have other indices than their parameters;
 * their gradients are exchanged at the end of the step. */
static void tell_ready(void *user, int leaf, const tensor_t *watched, const tensor_t *gradient)
{
    const trainer_t *trainer = user;
    if (optimizer_parameter(trainer->optimizer, leaf) == watched)
        parallel_ready(trainer->options.parallel, leaf, gradient);
}

/* Watches the parameters again if any of them may have been replaced. */
static status_t watch(trainer_t *trainer)
{
    context_t *ctx = trainer->ctx;
    const int n = optimizer_n_parameters(trainer->optimizer);
    const uint64_t changes = module_changes();
    if (trainer->tape != NULL && trainer->changes == changes) return STATUS_OK;
    tape_destroy(trainer->tape);
    trainer->tape = NULL;
    TRY(tape_create(ctx, &trainer->tape));
    tape_pause(trainer->tape);
    for (int i = 0; i < n; i++)
        TRY(tape_watch(ctx, trainer->tape, optimizer_parameter(trainer->optimizer, i)));
    trainer->changes = changes;
    if (trainer->options.parallel != NULL) tape_on_ready(trainer->tape, tell_ready, trainer);
    return STATUS_OK;
}

/* Takes a snapshot of each buffer, because layers write running statistics during the forward pass
 * and a step that fails later restores them. A snapshot copies bytes only when a layer writes. */
static status_t keep_buffer(context_t *ctx, void *user, const char *path, module_t *module)
{
    trainer_t *trainer = user;
    (void)path;
    for (int i = 0; i < module_n_members(module); i++) {
        member_kind_t kind;
        const char *name = module_member(module, i, &kind);
        tensor_t *buffer = kind == MEMBER_BUFFER ? module_buffer(module, name) : NULL;
        if (buffer == NULL) continue;
        TRY(context_grow(ctx, &trainer->kept, &trainer->kept_capacity, trainer->n_kept + 1,
                         sizeof *trainer->kept));
        tensor_t *before = NULL;
        TRY(tensor_snapshot(ctx, buffer, &buffer->info, buffer->offset, &before));
        trainer->kept[trainer->n_kept++] = (kept_buffer_t){tensor_hold(buffer), before};
    }
    return STATUS_OK;
}

static void drop_buffers(trainer_t *trainer)
{
    for (; trainer->n_kept > 0; trainer->n_kept--) {
        tensor_drop(trainer->kept[trainer->n_kept - 1].buffer);
        tensor_drop(trainer->kept[trainer->n_kept - 1].before);
    }
}

static status_t keep_buffers(trainer_t *trainer)
{
    status_t status = module_walk(trainer->ctx, trainer->module, keep_buffer, trainer);
    if (status != STATUS_OK) drop_buffers(trainer);
    return status;
}

/* Restores the buffers after a failed step. An error here is ignored; the caller sees the step's
 * error. */
static void put_buffers_back(trainer_t *trainer)
{
    scope_attempt(trainer->ctx);
    status_t status = STATUS_OK;
    for (int i = 0; i < trainer->n_kept && status == STATUS_OK; i++)
        status = tensor_copy(trainer->ctx, trainer->kept[i].buffer, trainer->kept[i].before);
    (void)scope_attempt_end(trainer->ctx, status, true);
}

static status_t run_eager(trainer_t *trainer, int n_in, const tensor_t *const *in,
                          const tensor_t *target, double *out_loss)
{
    context_t *ctx = trainer->ctx;
    const int n = optimizer_n_parameters(trainer->optimizer);
    uint64_t begin = context_now();
    TRY(watch(trainer));
    TRY(keep_buffers(trainer));
    tape_zero_gradients(trainer->tape);
    tape_resume(trainer->tape);
    status_t status = run_forward(trainer, n_in, in, target);
    tape_pause(trainer->tape);
    trainer->times.forward_ns = context_now() - begin;
    if (status == STATUS_OK) status = check_loss(trainer, out_loss);
    begin = context_now();
    if (status == STATUS_OK) status = tape_backward(ctx, trainer->tape, trainer->loss_value, NULL);
    tape_forget(trainer->tape);
    trainer->times.backward_ns = context_now() - begin;
    if (status != STATUS_OK) put_buffers_back(trainer);
    drop_buffers(trainer);
    TRY(status);
    hold(trainer);
    for (int i = 0; i < n; i++)
        trainer->gradients[i] = tensor_hold(
            tape_gradient(trainer->tape, optimizer_parameter(trainer->optimizer, i)));
    tape_zero_gradients(trainer->tape);
    return STATUS_OK;
}

/* ---- planned ---- */

/* Maximum number of programs (traced steps), one for each set of input sizes. A training run
 * usually has only a few: for example, the last batch is smaller. */
#define MAX_PROGRAMS 8

static void drop_programs(trainer_t *trainer, int n_kept)
{
    train_program_t **at = &trainer->programs;
    for (int i = 0; i < n_kept && *at != NULL; i++) at = &(*at)->next;
    while (*at != NULL) {
        train_program_t *program = *at;
        *at = program->next;
        train_program_destroy(trainer->ctx, program);
    }
}

/* Finds the program for these inputs. Creates it if there is none, or if the module has changed.
 * Makes it the first of the list. */
static status_t find_program(trainer_t *trainer, int n_in, const tensor_t *const *in,
                             train_program_t **out_program)
{
    train_program_t *program = NULL;
    for (train_program_t **at = &trainer->programs; *at != NULL; at = &(*at)->next)
        if ((*at)->may_update == trainer->may_update &&
            train_program_takes(trainer->ctx, *at, n_in, in)) {
            program = *at;
            *at = program->next;
            break;
        }
    if (program != NULL) {
        bool is_valid = false;
        status_t status = train_program_check(trainer->ctx, program, &is_valid);
        is_valid = is_valid && train_program_may_slice(program, trainer->optimizer);
        if (status != STATUS_OK || !is_valid) {
            train_program_destroy(trainer->ctx, program);
            program = NULL;
        }
        TRY(status);
    }
    const train_asked_t asked = {trainer->loss, trainer->user, trainer->options.keep_numerics,
                                 trainer->may_update, trainer->options.memory_limit};
    if (program == NULL)
        TRY(train_program_create(trainer->ctx, trainer->module, &asked, trainer->optimizer, n_in,
                                 in, &program));
    program->next = trainer->programs;
    trainer->programs = program;
    drop_programs(trainer, MAX_PROGRAMS);
    *out_program = program;
    return STATUS_OK;
}

/* Writes the new value of a buffer that the forward pass changes, such as a running mean. */
static status_t write_state(const trainer_t *trainer, const train_program_t *program,
                            const char *path, const tensor_t *value)
{
    tensor_t *buffer = module_buffer(program->step, path);
    if (buffer == NULL) buffer = module_parameter(program->step, path);
    if (buffer == NULL)
        FAIL(trainer->ctx, STATUS_INVALID_ARGUMENT, "trainer_step: the module no longer has %s",
             path);
    return tensor_copy(trainer->ctx, buffer, value);
}

/* Holds the gradient tensors that a plan has returned, so that the next step can reuse their
 * memory: the first write to new memory pages takes as long as computing the elements. They are
 * held separately, because parallel_exchange replaces trainer->gradients. */
static void keep_spare(trainer_t *trainer, const train_program_t *program, tensor_t *const *results)
{
    for (int i = 0; i < trainer->n_spare; i++) {
        if (program->gradients[i] < 0) continue;
        tensor_drop(trainer->spare[i]);
        trainer->spare[i] = tensor_hold(results[program->gradients[i]]);
    }
}

static status_t take_results(trainer_t *trainer, const train_program_t *program,
                             tensor_t *const *results, double *out_loss)
{
    const int n = optimizer_n_parameters(trainer->optimizer);
    keep_spare(trainer, program, results);
    trainer->loss_value = tensor_hold(results[TRAIN_RESULT_LOSS]);
    TRY(tensor_readable(trainer->ctx, results[TRAIN_RESULT_OUTPUT], &trainer->output));
    TRY(check_loss(trainer, out_loss));
    hold(trainer);
    for (int i = 0; i < program->n_states; i++)
        TRY(write_state(trainer, program, program->states[i].path,
                        results[program->states[i].result]));
    for (int i = 0; i < n; i++)
        if (program->gradients[i] >= 0)
            trainer->gradients[i] = tensor_hold(results[program->gradients[i]]);
    return STATUS_OK;
}

/* ---- planned mode if the plan contains the updates ---- */

/* The plan can contain the updates if no option needs all gradients together (max_norm, parallel,
 * update_apart), and if each parameter is f32 and has no gaps in memory. */
static void find_may_update(trainer_t *trainer)
{
    const train_options_t *options = &trainer->options;
    const uint64_t changes = module_changes();
    if (trainer->simple == changes) return;
    trainer->may_update = options->max_norm == 0 && options->parallel == NULL &&
                          !options->update_apart;
    for (int i = 0; i < optimizer_n_parameters(trainer->optimizer) && trainer->may_update; i++)
        trainer->may_update = step_may_be_late(optimizer_parameter(trainer->optimizer, i));
    trainer->simple = changes;
}

/* Callback before the first update: takes loss, output and state from `in`, writes the state, and
 * prepares the updates. */
static status_t begin_updates(context_t *ctx, void *user, const train_program_t *program,
                              datum_t *const *in)
{
    trainer_t *trainer = user;
    trainer->loss_value = tensor_hold(datum_as_tensor(in[TRAIN_RESULT_LOSS]));
    TRY(tensor_readable(ctx, datum_as_tensor(in[TRAIN_RESULT_OUTPUT]), &trainer->output));
    TRY(check_loss(trainer, &trainer->loss_number));
    if (trainer->wants_output) TRY(give_output(trainer, &trainer->given));
    hold(trainer);
    for (int i = 0; i < program->n_states; i++)
        TRY(write_state(trainer, program, program->states[i].path,
                        datum_as_tensor(in[TRAIN_RESULT_OUTPUT + 1 + i])));
    return optimizer_begin(ctx, trainer->optimizer, program->given, program->slices, &trainer->run);
}

static status_t update_one(context_t *ctx, void *user, int parameter, int64_t first,
                           const tensor_t *gradient)
{
    trainer_t *trainer = user;
    const uint64_t begin = context_now();
    status_t status = optimizer_late(ctx, trainer->optimizer, &trainer->run, parameter, first,
                                     gradient);
    trainer->update_ns += context_now() - begin;
    return status;
}

static status_t update_product(context_t *ctx, void *user, int parameter, const tensor_t *x,
                               const tensor_t *grad)
{
    trainer_t *trainer = user;
    const uint64_t begin = context_now();
    status_t status = optimizer_product(ctx, trainer->optimizer, &trainer->run, parameter, x, grad);
    trainer->update_ns += context_now() - begin;
    return status;
}

/* If some parameters were updated before the failure, marks the trainer as broken and says so in
 * the error message. */
static status_t tell_broken(trainer_t *trainer, status_t status)
{
    char why[CONTEXT_ERROR_MAX];
    const optimizer_run_t *run = &trainer->run;
    if (run->n_begun == 0) return status;
    trainer->is_broken = true;
    snprintf(why, sizeof why, "%s", context_error(trainer->ctx));
    return context_fail(trainer->ctx, status,
                        "trainer_step: %d of %d parameters were updated when step %lld failed, so "
                        "the parameters are inconsistent: %.300s",
                        run->n_begun, run->n_items, (long long)trainer->n_steps + 1, why);
}

static status_t run_updating(trainer_t *trainer, train_program_t *program, int n_in,
                             const tensor_t *const *in, double *out_loss)
{
    context_t *ctx = trainer->ctx;
    train_sink_t sink = {
        .user = trainer, .check = begin_updates, .update = update_one, .product = update_product};
    tensor_t *results[TRAIN_RESULT_OUTPUT + 1] = {NULL};
    const uint64_t begin = context_now();
    trainer->update_ns = 0;
    program->sink = &sink;
    status_t status = plan_execute(ctx, program->plan, n_in, in, results);
    program->sink = NULL;
    if (status != STATUS_OK) status = tell_broken(trainer, status);
    optimizer_end(ctx, trainer->optimizer, &trainer->run);
    trainer->times.forward_ns = 0;
    trainer->times.update_ns = trainer->update_ns;
    trainer->times.backward_ns = context_now() - begin - trainer->update_ns;
    if (status != STATUS_OK) return status;
    for (int i = 0; i <= TRAIN_RESULT_OUTPUT; i++) tensor_drop(results[i]);
    trainer->is_updated = true;
    *out_loss = trainer->loss_number;
    return STATUS_OK;
}

/* ---- one step in planned mode ---- */

/* Inputs of a plan must not share memory with the module. */
static status_t check_inputs(const trainer_t *trainer, int n_in, const tensor_t *const *in)
{
    for (int i = 0; i < n_in; i++)
        if (module_overlaps(trainer->module, in[i]))
            FAIL(trainer->ctx, STATUS_UNSUPPORTED,
                 "trainer_step: input %d, %s, shares memory with the module; use mode TRAIN_EAGER",
                 i, tensor_text(in[i]));
    return STATUS_OK;
}

/* Offers the memory of the last step's gradients to the plan, which can write this step's gradients
 * into it. Skips gradients that somebody else still holds. */
static void want_spare(const trainer_t *trainer, const train_program_t *program, tensor_t **wanted)
{
    for (int i = 0; i < optimizer_n_parameters(trainer->optimizer); i++) {
        tensor_t *spare = trainer->spare[i];
        const int result = program->gradients[i];
        if (spare == NULL || result < 0 || atomic_load(&spare->n_references) != 1 ||
            !storage_is_alone(spare->storage))
            continue;
        if (tensor_lies_like(&spare->info, &program->plan->results[result].info))
            wanted[result] = spare;
    }
}

static status_t run_planned(trainer_t *trainer, int n_in, const tensor_t *const *in,
                            const tensor_t *target, double *out_loss)
{
    context_t *ctx = trainer->ctx;
    const tensor_t *inputs[METHOD_MAX_OUTPUTS];
    train_program_t *program = NULL;
    tensor_t **results = NULL, **wanted = NULL;
    for (int i = 0; i < n_in; i++) inputs[i] = in[i];
    inputs[n_in] = target;
    TRY(check_inputs(trainer, n_in + 1, inputs));
    find_may_update(trainer);
    TRY(find_program(trainer, n_in + 1, inputs, &program));
    if (program->n_updates > 0) return run_updating(trainer, program, n_in + 1, inputs, out_loss);
    const int n_all = program->plan->n_results;
    TRY(context_get_zeroed(ctx, 2 * (size_t)n_all * sizeof(tensor_t *), "results of a step",
                           &results));
    wanted = results + n_all;
    want_spare(trainer, program, wanted);
    const uint64_t begin = context_now();
    status_t status = plan_execute_into(ctx, program->plan, n_in + 1, inputs, n_all, wanted,
                                        results);
    trainer->times.forward_ns = 0;
    trainer->times.backward_ns = context_now() - begin;
    const int n_results = status == STATUS_OK ? n_all : 0;
    if (status == STATUS_OK) status = take_results(trainer, program, results, out_loss);
    for (int i = 0; i < n_results; i++) tensor_drop(results[i]);
    context_put(ctx, results);
    return status;
}

/* ---- public functions ---- */

/* Checks that the module still has all parameters, with the same dtypes and sizes. Skips the check
 * if no module has changed since the last one. */
static status_t check_parameters(context_t *ctx, trainer_t *trainer)
{
    const uint64_t changes = module_changes();
    if (trainer->checked == changes) return STATUS_OK;
    for (int i = 0; i < optimizer_n_parameters(trainer->optimizer); i++) {
        tensor_t *parameter = NULL;
        TRY(optimizer_find(ctx, "trainer_step", trainer->optimizer, i, &parameter));
    }
    trainer->checked = changes;
    return STATUS_OK;
}

static status_t check_step(context_t *ctx, trainer_t *trainer, int n_in, const tensor_t *const *in,
                           const tensor_t *target)
{
    REQUIRE(ctx, n_in >= 1 && n_in < METHOD_MAX_OUTPUTS, "trainer_step: %d inputs, must be 1 to %d",
            n_in, METHOD_MAX_OUTPUTS - 1);
    if (in == NULL) return context_null(ctx, "trainer_step", "in");
    for (int i = 0; i < n_in; i++)
        if (in[i] == NULL) return context_null(ctx, "trainer_step", "an input");
    if (target == NULL) return context_null(ctx, "trainer_step", "target");
    return check_parameters(ctx, trainer);
}

/* Starts a step of all ranks. The number of items in this rank's batch is the first size of the
 * first input. */
static void begin_ranks(trainer_t *trainer, status_t status, const tensor_t *const *in)
{
    const bool has_sizes = status == STATUS_OK && tensor_rank(in[0]) > 0;
    parallel_begin(trainer->options.parallel, has_sizes ? tensor_sizes(in[0])[0] : 1);
}

status_t trainer_step(context_t *ctx, trainer_t *trainer, int n_in, const tensor_t *const *in,
                      const tensor_t *target, tensor_t **out_output, double *out_loss)
{
    double loss = 0.0;
    uint64_t random[CONTEXT_GENERATOR_STATE];
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    if (out_output != NULL) *out_output = NULL;
    if (trainer == NULL) return context_null(ctx, "trainer_step", "trainer");
    REQUIRE(ctx, trainer->ctx == ctx, "trainer_step: the trainer belongs to another context");
    REQUIRE(ctx, !trainer->is_broken,
            "trainer_step: an earlier step failed after updating some parameters; load a saved "
            "state and create a new trainer");
    trainer->wants_output = out_output != NULL;
    trainer->is_updated = false;
    context_generator_state(ctx, random);
    interrupt_begin(ctx, "trainer_step");
    status_t status = check_step(ctx, trainer, n_in, in, target);
    if (trainer->options.parallel != NULL) begin_ranks(trainer, status, in);
    if (status == STATUS_OK)
        status = trainer->options.mode == TRAIN_PLANNED
                     ? run_planned(trainer, n_in, in, target, &loss)
                     : run_eager(trainer, n_in, in, target, &loss);
    tensor_t *output = trainer->given;
    trainer->given = NULL;
    if (status == STATUS_OK && out_output != NULL && !trainer->is_updated)
        status = give_output(trainer, &output);
    if (trainer->options.parallel != NULL)
        status = parallel_exchange(ctx, trainer->options.parallel, status, trainer->optimizer,
                                   trainer->gradients, &loss);
    if (status == STATUS_OK) status = update(trainer);
    if (status == STATUS_OK) {
        if (out_loss != NULL) *out_loss = loss;
        if (out_output != NULL) *out_output = output;
    } else {
        scope_take(ctx, output);
        tensor_drop(output);
        memcpy(context_random_state(ctx), random, sizeof random);
    }
    drop_gradients(trainer);
    tensor_drop(trainer->output);
    tensor_drop(trainer->loss_value);
    trainer->output = trainer->loss_value = NULL;
    if (trainer->is_held) interrupt_release(ctx);
    trainer->is_held = false;
    return interrupt_end(ctx, status);
}

static status_t fill(context_t *ctx, trainer_t *trainer)
{
    const int n = optimizer_n_parameters(trainer->optimizer);
    TRY(context_get_zeroed(ctx, (size_t)n * sizeof(tensor_t *), "gradients of a trainer",
                           &trainer->gradients));
    TRY(context_get_zeroed(ctx, (size_t)n * sizeof(tensor_t *), "gradients of a trainer",
                           &trainer->spare));
    trainer->n_spare = n;
    TRY(module_train(ctx, trainer->module, true));
    if (trainer->options.parallel != NULL)
        TRY(parallel_broadcast(ctx, trainer->options.parallel, trainer->module,
                               trainer->optimizer));
    return trainer->options.mode == TRAIN_PLANNED ? STATUS_OK : watch(trainer);
}

status_t trainer_create(context_t *ctx, module_t *module, train_loss_t loss, void *user,
                        optimizer_t *optimizer, const train_options_t *options,
                        trainer_t **out_trainer)
{
    static const train_options_t defaults = {.mode = TRAIN_EAGER};
    trainer_t *trainer = NULL;
    TRY(context_output(ctx, "trainer_create", out_trainer));
    if (module == NULL) return context_null(ctx, "trainer_create", "module");
    if (loss == NULL) return context_null(ctx, "trainer_create", "loss");
    if (optimizer == NULL) return context_null(ctx, "trainer_create", "optimizer");
    if (options == NULL) options = &defaults;
    REQUIRE(ctx, options->mode == TRAIN_EAGER || options->mode == TRAIN_PLANNED,
            "trainer_create: mode %d, must be TRAIN_EAGER or TRAIN_PLANNED", (int)options->mode);
    REQUIRE(ctx, options->max_norm >= 0, "trainer_create: max_norm %g, must not be negative",
            options->max_norm);
    REQUIRE(ctx, options->memory_limit == 0 || options->mode == TRAIN_PLANNED,
            "trainer_create: memory_limit %zu, needs mode TRAIN_PLANNED", options->memory_limit);
    TRY(context_get_zeroed(ctx, sizeof *trainer, "a trainer", &trainer));
    *trainer = (trainer_t){.ctx = ctx,
                           .module = module_retain(module),
                           .loss = loss,
                           .user = user,
                           .optimizer = optimizer,
                           .options = *options};
    status_t status = fill(ctx, trainer);
    GIVE(status, out_trainer, trainer, trainer_destroy(trainer));
}

void trainer_destroy(trainer_t *trainer)
{
    if (trainer == NULL) return;
    context_t *ctx = trainer->ctx;
    drop_programs(trainer, 0);
    tape_destroy(trainer->tape);
    module_release(trainer->module);
    for (int i = 0; i < trainer->n_spare; i++) tensor_drop(trainer->spare[i]);
    CONTEXT_PUT(ctx, trainer->spare, trainer->gradients, trainer->kept, trainer);
}

train_times_t trainer_times(const trainer_t *trainer)
{
    return trainer != NULL ? trainer->times : (train_times_t){0};
}

const graph_t *trainer_graph(const trainer_t *trainer)
{
    return trainer != NULL && trainer->programs != NULL ? trainer->programs->graph : NULL;
}

size_t trainer_arena_bytes(const trainer_t *trainer)
{
    return trainer != NULL && trainer->programs != NULL ? plan_arena_bytes(trainer->programs->plan)
                                                        : 0;
}
