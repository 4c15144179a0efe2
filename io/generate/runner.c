/* Runs a frozen decoder: prompts in parts of fixed numbers of rows, then steps of one row for each
 * sequence. */
#include "io/generate/runner_impl.h"

#include <string.h>

#include "freeze/freeze.h"
#include "graph/ir/graph.h"
#include "io/generate/decoder_impl.h"
#include "ops/ops_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

#define TRACED 3 /* rows of the trace, which tries others, too: few, so that all fit in caches */

/* Runs of `forward`, each with its own plan: the number of rows, and the least number of tokens for
 * which these rows take less time than several smaller runs. Other tokens run by `step`. */
static const struct {
    int64_t rows, least;
} parts[] = {{RUNNER_PROMPT, 160}, {64, 33}, {16, 4}};
#define N_PARTS (int)(sizeof parts / sizeof *parts)

enum { TOKENS, POSITIONS, START, LENGTH, SLOTS, N_STEP, ROW = N_STEP, N_FORWARD };

/* ---- creating ---- */

/* Adds the bytes of a module's parameters. */
static status_t add_bytes(context_t *ctx, void *user, const char *path, module_t *module)
{
    int64_t *bytes = user;
    (void)ctx, (void)path;
    for (int i = 0; i < module_n_members(module); i++) {
        member_kind_t kind;
        const char *name = module_member(module, i, &kind);
        const tensor_t *tensor = kind == MEMBER_PARAMETER ? module_parameter(module, name) : NULL;
        if (tensor != NULL) *bytes += (int64_t)info_bytes(tensor_info(tensor));
    }
    return STATUS_OK;
}

/* Counts the bytes of the weights that a step reads. A step reads only one row of an embedding. */
static status_t count_bytes(context_t *ctx, module_t *model, int64_t *out_bytes)
{
    const tensor_t *embedding = module_parameter(model, "token_embd.weight");
    *out_bytes = 0;
    TRY(module_walk(ctx, model, add_bytes, out_bytes));
    if (module_parameter(model, "output.weight") != NULL)
        *out_bytes -= (int64_t)info_bytes(tensor_info(embedding));
    return STATUS_OK;
}

typedef struct inputs {
    tensor_info_t infos[N_FORWARD];
    const tensor_info_t *pointers[N_FORWARD];
} inputs_t;

/* Describes the inputs of `step`, or of `forward`, for n rows. */
static void describe(inputs_t *inputs, bool is_step, int64_t n)
{
    for (int i = 0; i < N_FORWARD; i++) {
        const bool is_each = is_step || i == TOKENS || i == POSITIONS;
        inputs->infos[i] = info_dense(DTYPE_S64, SHAPE(is_each ? n : 1));
        inputs->pointers[i] = &inputs->infos[i];
    }
}

/* Takes over the caller's reference to the model. */
static status_t freeze_model(context_t *ctx, module_t **model, module_t **out_frozen)
{
    static const char *const kept[] = {"step", NULL};
    inputs_t inputs;
    describe(&inputs, false, TRACED);
    TRY(graph_trace_for(ctx, *model, "forward", N_FORWARD, inputs.pointers));
    describe(&inputs, true, TRACED);
    TRY(graph_trace_for(ctx, *model, "step", N_STEP, inputs.pointers));
    return freeze_take(ctx, model, &(freeze_options_t){.preserved = kept}, out_frozen);
}

/* The number of rows of a step for n sequences: a power of 2, or all slots. */
static int64_t round_rows(const runner_t *runner, int n)
{
    int64_t rows = 1;
    while (rows < n) rows *= 2;
    return rows < runner->n_slots ? rows : runner->n_slots;
}

static status_t build_plans(context_t *ctx, const runner_t *runner)
{
    inputs_t inputs;
    for (int i = 0; i < N_PARTS; i++) {
        describe(&inputs, false, parts[i].rows);
        TRY(plan_warm_for(ctx, runner->model, "forward", N_FORWARD, inputs.pointers));
    }
    for (int n = 1, before = 0; n <= RUNNER_STEP && before != round_rows(runner, n); n *= 2) {
        before = (int)round_rows(runner, n);
        describe(&inputs, true, before);
        TRY(plan_warm_for(ctx, runner->model, "step", N_STEP, inputs.pointers));
    }
    return STATUS_OK;
}

static status_t open_model(context_t *ctx, const gguf_t *file, const decoder_options_t *options,
                           runner_t *runner)
{
    module_t *model = NULL;
    TRY(decoder_create(ctx, file, options, &model));
    const tensor_t *embedding = module_parameter(model, "token_embd.weight");
    runner->n_vocabulary = tensor_sizes(embedding)[0];
    runner->capacity = tensor_sizes(module_buffer(model, "rope.cos"))[0] - RUNNER_PROMPT;
    status_t status = count_bytes(ctx, model, &runner->step_bytes);
    if (status == STATUS_OK) status = freeze_model(ctx, &model, &runner->model);
    module_release(model);
    if (status == STATUS_OK) status = build_plans(ctx, runner);
    return status;
}

static status_t fill(context_t *ctx, const char *path, const decoder_options_t *options,
                     runner_t *runner)
{
    gguf_t *file = NULL;
    decoder_options_t longer = *options;
    runner->n_users = 1;
    TRY(gguf_open(ctx, path, &file));
    status_t status = STATUS_OK;
    longer.n_spare = RUNNER_PROMPT; /* a part of a prompt may end after the sequence */
    runner->n_slots = options->n_slots > 0 ? options->n_slots : 1;
    if (status == STATUS_OK && gguf_find_value(file, "tokenizer.ggml.model") != NULL)
        status = tokenizer_create(ctx, file, &runner->tokenizer);
    if (status == STATUS_OK) status = open_model(ctx, file, &longer, runner);
    gguf_close(file);
    TRY(status);
    TRY(context_get_zeroed(ctx, (size_t)runner->n_slots * sizeof *runner->is_used, "slots",
                           &runner->is_used));
    runner->is_used[0] = true;
    return context_get(ctx, (size_t)runner->n_vocabulary * sizeof *runner->candidates, "candidates",
                       &runner->candidates);
}

static void destroy(runner_t *runner)
{
    const allocator_t allocator = runner->allocator;
    tokenizer_destroy(runner->tokenizer);
    module_release(runner->model);
    allocator_put(&allocator, runner->is_used);
    allocator_put(&allocator, runner->candidates);
    allocator_put(&allocator, runner);
}

status_t runner_create(context_t *ctx, const char *path, const decoder_options_t *options,
                       runner_t **out_runner)
{
    runner_t *runner = NULL;
    TRY(context_get_zeroed(ctx, sizeof *runner, "a decoder", &runner));
    runner->allocator = *context_allocator(ctx);
    status_t status = fill(ctx, path, options, runner);
    if (status == STATUS_OK)
        *out_runner = runner;
    else
        destroy(runner);
    return status;
}

/* ---- slots ---- */

int runner_join(runner_t *runner)
{
    for (int i = 0; i < runner->n_slots; i++) {
        if (runner->is_used[i]) continue;
        runner->is_used[i] = true;
        runner->n_users++;
        return i;
    }
    return -1;
}

void runner_leave(runner_t *runner, int slot)
{
    runner->is_used[slot] = false;
    if (--runner->n_users == 0) destroy(runner);
}

/* ---- running ---- */

/* Values of a run. */
typedef struct run {
    int64_t n_rows;
    int64_t tokens[RUNNER_PROMPT], positions[RUNNER_PROMPT];
    int64_t starts[RUNNER_STEP], lengths[RUNNER_STEP], slots[RUNNER_STEP];
    int64_t row;
} run_t;

static status_t call(context_t *ctx, const runner_t *runner, const run_t *run, bool is_step,
                     tensor_t **out_logits)
{
    const int64_t *values[] = {run->tokens,  run->positions, run->starts,
                               run->lengths, run->slots,     &run->row};
    const int n_in = is_step ? N_STEP : N_FORWARD;
    tensor_t *in[N_FORWARD] = {NULL}, *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = METHOD_MAX_OUTPUTS;
    inputs_t inputs;
    status_t status = STATUS_OK;
    describe(&inputs, is_step, run->n_rows);
    for (int i = 0; i < n_in && status == STATUS_OK; i++)
        status = tensor_from(ctx, DTYPE_S64, 1, inputs.infos[i].sizes, values[i], &in[i]);
    if (status == STATUS_OK)
        status = module_call_tensors(ctx, runner->model, is_step ? "step" : "forward", n_in,
                                     (const tensor_t *const *)in, &n_out, out);
    for (int i = 0; i < n_in; i++) ops_drop(ctx, in[i]);
    TRY(status);
    scope_take(ctx, out[0]); /* it outlives an open scope */
    *out_logits = out[0];
    return STATUS_OK;
}

/* Runs n tokens, which begin at token `start` of the sequence, in a plan for n_rows. */
static status_t run_part(context_t *ctx, const runner_t *runner, int64_t slot, int64_t n,
                         int64_t n_rows, const int64_t *tokens, int64_t start,
                         tensor_t **out_logits)
{
    run_t run = {.n_rows = n_rows, .row = n - 1};
    memcpy(run.tokens, tokens, (size_t)n * sizeof *tokens);
    for (int64_t i = 0; i < n_rows; i++) run.positions[i] = start + i;
    run.starts[0] = start;
    run.lengths[0] = start + n_rows;
    run.slots[0] = slot;
    return call(ctx, runner, &run, false, out_logits);
}

status_t runner_feed(context_t *ctx, const runner_t *runner, int64_t slot, int64_t n,
                     const int64_t *tokens, int64_t start, tensor_t **out_logits)
{
    tensor_t *logits = NULL;
    for (int64_t at = 0; at < n;) {
        int64_t n_rows = 1, part = 0;
        while (part < N_PARTS && n - at < parts[part].least) part++;
        if (part < N_PARTS) n_rows = parts[part].rows;
        const int64_t left = n - at < n_rows ? n - at : n_rows;
        const runner_row_t row = {slot, start + at, tokens[at]};
        tensor_drop(logits);
        logits = NULL;
        if (n_rows == 1)
            TRY(runner_step(ctx, runner, 1, &row, &logits));
        else
            TRY(run_part(ctx, runner, slot, left, n_rows, tokens + at, start + at, &logits));
        at += left;
    }
    *out_logits = logits;
    return STATUS_OK;
}

/* Adds rows in slots of no other row. They write the last row of the caches, which is free. */
static void pad(const runner_t *runner, int n, run_t *run)
{
    const int64_t last = runner->capacity + RUNNER_PROMPT - 1;
    for (int64_t slot = 0; n < run->n_rows; slot++) {
        bool is_taken = false;
        for (int i = 0; i < n && !is_taken; i++) is_taken = run->slots[i] == slot;
        if (is_taken) continue;
        run->slots[n] = slot;
        run->starts[n] = last;
        run->lengths[n++] = 1;
    }
}

status_t runner_step(context_t *ctx, const runner_t *runner, int n, const runner_row_t *rows,
                     tensor_t **out_logits)
{
    run_t run = {.n_rows = round_rows(runner, n)};
    for (int i = 0; i < n; i++) {
        run.tokens[i] = rows[i].token;
        run.positions[i] = run.starts[i] = rows[i].start;
        run.lengths[i] = rows[i].start + 1;
        run.slots[i] = rows[i].slot;
    }
    pad(runner, n, &run);
    return call(ctx, runner, &run, true, out_logits);
}
