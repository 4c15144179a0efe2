/* The network is BERT with 6 layers of 12 heads. Then it averages the vectors of all words, and
 * scales the mean to length 1. */
#include <stdio.h>
#include <string.h>

#include "minilm.h"

#define WIDTH MINILM_WIDTH
#define WORDS 30522
#define POSITIONS 512
#define KINDS 2 /* type of sentence: 0, or 1 for the second of a pair */
#define HEADS 12
#define INNER 1536 /* width between the two linear layers after attention */
#define EPSILON 1e-12

#define TRY(expr)                                                                                  \
    do {                                                                                           \
        status_t status_ = (expr);                                                                 \
        if (status_ != STATUS_OK) return status_;                                                  \
    } while (0)

/* ---- forward methods: each runs in a scope, which releases its temporaries ---- */

/* attention.self: splits x [N][T][384] into heads, attends, and joins them. The mask is
 * [N][1][1][T]. */
static status_t attend(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                       int *n_out, tensor_t **out)
{
    static const char *const names[] = {"query", "key", "value"};
    static const int64_t order[] = {0, 2, 1, 3};
    (void)n_in;
    tensor_t *heads[3] = {NULL}, *mixed = NULL, *joined = NULL;
    const int64_t *sizes = tensor_sizes(in[0]);
    for (int i = 0; i < 3; i++) {
        tensor_t *flat = NULL, *split = NULL;
        TRY(module_run_child(ctx, self, names[i], in[0], &flat));
        TRY(op_reshape(ctx, flat, SHAPE(sizes[0], sizes[1], HEADS, WIDTH / HEADS), &split));
        TRY(op_permute(ctx, split, 4, order, &heads[i]));
    }
    TRY(op_scaled_dot_product_attention(ctx, heads[0], heads[1], heads[2], in[1], NULL, &mixed));
    TRY(op_permute(ctx, mixed, 4, order, &joined));
    *n_out = 1;
    return op_reshape(ctx, joined, SHAPE(sizes[0], sizes[1], WIDTH), out);
}

/* Computes LayerNorm(dense(x) + y), as attention.output and output do. */
static status_t add_and_norm(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                             int *n_out, tensor_t **out)
{
    tensor_t *dense = NULL, *sum = NULL;
    (void)n_in;
    *n_out = 1;
    TRY(module_run_child(ctx, self, "dense", in[0], &dense));
    TRY(op_add(ctx, dense, in[1], &sum));
    return module_run_child(ctx, self, "LayerNorm", sum, out);
}

static status_t call2(context_t *ctx, module_t *module, const char *method, const tensor_t *x,
                      const tensor_t *y, tensor_t **out)
{
    const tensor_t *in[] = {x, y};
    int n_out = 0;
    return module_call_tensors(ctx, module, method, 2, in, &n_out, out);
}

static status_t forward_layer(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                              int *n_out, tensor_t **out)
{
    tensor_t *mixed = NULL, *middle = NULL, *wide = NULL, *active = NULL;
    (void)n_in;
    *n_out = 1;
    TRY(call2(ctx, self, "attention.self.forward", in[0], in[1], &mixed));
    TRY(call2(ctx, self, "attention.output.forward", mixed, in[0], &middle));
    TRY(module_run_child(ctx, self, "intermediate.dense", middle, &wide));
    TRY(op_gelu(ctx, wide, false, &active));
    return call2(ctx, self, "output.forward", active, middle, out);
}

static status_t embed(context_t *ctx, module_t *self, const tensor_t *ids, tensor_t **out)
{
    tensor_t *words = NULL, *positions = NULL, *kind = NULL, *sum = NULL, *all = NULL;
    const tensor_t *position_weight = module_parameter(self,
                                                       "embeddings.position_embeddings.weight");
    const tensor_t *kind_weight = module_parameter(self, "embeddings.token_type_embeddings.weight");
    TRY(module_run_child(ctx, self, "embeddings.word_embeddings", ids, &words));
    TRY(op_slice(ctx, position_weight, 0, 0, tensor_sizes(ids)[1], 1, &positions));
    TRY(op_slice(ctx, kind_weight, 0, 0, 1, 1, &kind));
    TRY(op_add(ctx, words, positions, &sum));
    TRY(op_add(ctx, sum, kind, &all));
    return module_run_child(ctx, self, "embeddings.LayerNorm", all, out);
}

/* Computes the mean of the words that the mask [N][T] selects, and scales it to length 1. */
static status_t pool(context_t *ctx, const tensor_t *x, const tensor_t *mask, tensor_t **out)
{
    static const int64_t words = 1, numbers = 1;
    tensor_t *numeric = NULL, *weights = NULL, *some = NULL, *sum = NULL, *n = NULL, *mean = NULL;
    tensor_t *length = NULL, *bounded = NULL;
    const int64_t *sizes = tensor_sizes(x);
    TRY(op_cast(ctx, mask, DTYPE_F32, &numeric));
    TRY(op_reshape(ctx, numeric, SHAPE(sizes[0], sizes[1], 1), &weights));
    TRY(op_mul(ctx, x, weights, &some));
    TRY(op_sum(ctx, some, 1, &words, false, &sum));
    TRY(op_sum(ctx, weights, 1, &words, false, &n));
    TRY(op_div(ctx, sum, n, &mean));
    TRY(op_norm(ctx, mean, 2, 1, &numbers, true, &length));
    TRY(op_clamp(ctx, length, EPSILON, 1e30, &bounded));
    return op_div(ctx, mean, bounded, out);
}

/* Runs the layers that the module contains, in order. mask is [N][T]. */
static status_t run_layers(context_t *ctx, module_t *self, const tensor_t *x, const tensor_t *mask,
                           tensor_t **out)
{
    tensor_t *wide = NULL;
    TRY(op_unsqueeze(ctx, mask, 2, (const int64_t[]){1, 2}, &wide));
    for (int i = 0; i < MINILM_LAYERS; i++) {
        char name[64];
        snprintf(name, sizeof name, "encoder.layer.%d", i);
        if (module_child(self, name) == NULL) continue;
        snprintf(name, sizeof name, "encoder.layer.%d.forward", i);
        TRY(call2(ctx, self, name, x, wide, out));
        x = *out;
    }
    return STATUS_OK;
}

static status_t forward_model(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                              int *n_out, tensor_t **out)
{
    tensor_t *x = NULL, *y = NULL;
    (void)n_in;
    *n_out = 1;
    TRY(embed(ctx, self, in[0], &x));
    TRY(run_layers(ctx, self, x, in[1], &y));
    return pool(ctx, y, in[1], out);
}

static status_t forward_front(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                              int *n_out, tensor_t **out)
{
    tensor_t *x = NULL;
    (void)n_in;
    *n_out = 1;
    TRY(embed(ctx, self, in[0], &x));
    return run_layers(ctx, self, x, in[1], out);
}

static status_t forward_back(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                             int *n_out, tensor_t **out)
{
    tensor_t *x = NULL;
    (void)n_in;
    *n_out = 1;
    TRY(run_layers(ctx, self, in[0], in[1], &x));
    return pool(ctx, x, in[1], out);
}

/* ---- building: names as in the file ---- */

/* Takes ownership of the child. */
static status_t add_child(context_t *ctx, module_t *module, const char *name, module_t *child)
{
    status_t status = module_set_child(ctx, module, name, child);
    module_release(child);
    return status;
}

static status_t add_module(context_t *ctx, module_t *module, const char *name, forward_t forward)
{
    module_t *child = NULL;
    TRY(module_create(ctx, name, &child));
    if (forward != NULL && module_set_forward(ctx, child, "forward", forward) != STATUS_OK) {
        module_release(child);
        return context_status(ctx);
    }
    return add_child(ctx, module, name, child);
}

static status_t add_linear(context_t *ctx, module_t *module, const char *name, int64_t n_in,
                           int64_t n_out)
{
    module_t *child = NULL;
    TRY(layer_linear(ctx, n_in, n_out, true, &child));
    return add_child(ctx, module, name, child);
}

static status_t add_norm(context_t *ctx, module_t *module, const char *name)
{
    module_t *child = NULL;
    TRY(layer_layer_norm(ctx, SHAPE(WIDTH), EPSILON, true, true, &child));
    return add_child(ctx, module, name, child);
}

static status_t add_embedding(context_t *ctx, module_t *module, const char *name, int64_t n)
{
    module_t *child = NULL;
    TRY(layer_embedding(ctx, n, WIDTH, &child));
    return add_child(ctx, module, name, child);
}

static status_t add_layer(context_t *ctx, module_t *layers, const char *name)
{
    TRY(add_module(ctx, layers, name, forward_layer));
    module_t *layer = module_child(layers, name);
    TRY(add_module(ctx, layer, "attention", NULL));
    TRY(add_module(ctx, layer, "attention.self", attend));
    TRY(add_linear(ctx, layer, "attention.self.query", WIDTH, WIDTH));
    TRY(add_linear(ctx, layer, "attention.self.key", WIDTH, WIDTH));
    TRY(add_linear(ctx, layer, "attention.self.value", WIDTH, WIDTH));
    TRY(add_module(ctx, layer, "attention.output", add_and_norm));
    TRY(add_linear(ctx, layer, "attention.output.dense", WIDTH, WIDTH));
    TRY(add_norm(ctx, layer, "attention.output.LayerNorm"));
    TRY(add_module(ctx, layer, "intermediate", NULL));
    TRY(add_linear(ctx, layer, "intermediate.dense", WIDTH, INNER));
    TRY(add_module(ctx, layer, "output", add_and_norm));
    TRY(add_linear(ctx, layer, "output.dense", INNER, WIDTH));
    return add_norm(ctx, layer, "output.LayerNorm");
}

static status_t build(context_t *ctx, module_t *model)
{
    TRY(add_module(ctx, model, "embeddings", NULL));
    TRY(add_embedding(ctx, model, "embeddings.word_embeddings", WORDS));
    TRY(add_embedding(ctx, model, "embeddings.position_embeddings", POSITIONS));
    TRY(add_embedding(ctx, model, "embeddings.token_type_embeddings", KINDS));
    TRY(add_norm(ctx, model, "embeddings.LayerNorm"));
    TRY(add_module(ctx, model, "encoder", NULL));
    TRY(add_module(ctx, model, "encoder.layer", NULL));
    module_t *layers = module_child(model, "encoder.layer");
    for (int i = 0; i < MINILM_LAYERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        TRY(add_layer(ctx, layers, name));
    }
    return module_set_forward(ctx, model, "forward", forward_model);
}

/* Checks that the file has every parameter. It also has others: of a layer for training, and
 * position numbers. */
static bool has_all(const safetensors_t *file, const datum_t *state)
{
    for (int i = 0; i < datum_length(state); i++) {
        if (safetensors_find(file, datum_key(state, i)) != NULL) continue;
        fprintf(stderr, "minilm: the file has no %s\n", datum_key(state, i));
        return false;
    }
    return true;
}

static status_t load_weights(context_t *ctx, module_t *model, const char *path)
{
    safetensors_t *file = NULL;
    datum_t *state = NULL;
    TRY(module_state_dict(ctx, model, &state));
    status_t status = safetensors_open(ctx, path, &file);
    if (status == STATUS_OK && !has_all(file, state)) status = STATUS_INVALID_ARGUMENT;
    safetensors_close(file);
    datum_release(state);
    TRY(status);
    return module_load_safetensors(ctx, model, path, false);
}

status_t minilm_load(context_t *ctx, const char *path, module_t **out_model)
{
    module_t *model = NULL;
    *out_model = NULL;
    TRY(module_create(ctx, "MiniLM", &model));
    status_t status = build(ctx, model);
    if (status == STATUS_OK) status = load_weights(ctx, model, path);
    if (status == STATUS_OK)
        *out_model = model;
    else
        module_release(model);
    return status;
}

/* ---- splitting the layers ---- */

static status_t share_layers(context_t *ctx, module_t *model, int first, int end, module_t *part)
{
    TRY(add_module(ctx, part, "encoder", NULL));
    TRY(add_module(ctx, part, "encoder.layer", NULL));
    for (int i = first; i < end; i++) {
        char name[64];
        snprintf(name, sizeof name, "encoder.layer.%d", i);
        TRY(module_set_child(ctx, part, name, module_child(model, name)));
    }
    return STATUS_OK;
}

status_t minilm_split(context_t *ctx, module_t *model, int n_front, module_t **out_front,
                      module_t **out_back)
{
    module_t *front = NULL, *back = NULL;
    *out_front = *out_back = NULL;
    status_t status = module_create(ctx, "MiniLMFront", &front);
    if (status == STATUS_OK) status = module_create(ctx, "MiniLMBack", &back);
    if (status == STATUS_OK)
        status = module_set_child(ctx, front, "embeddings", module_child(model, "embeddings"));
    if (status == STATUS_OK) status = share_layers(ctx, model, 0, n_front, front);
    if (status == STATUS_OK) status = share_layers(ctx, model, n_front, MINILM_LAYERS, back);
    if (status == STATUS_OK) status = module_set_forward(ctx, front, "forward", forward_front);
    if (status == STATUS_OK) status = module_set_forward(ctx, back, "forward", forward_back);
    if (status != STATUS_OK) {
        module_release(front);
        module_release(back);
        return status;
    }
    *out_front = front;
    *out_back = back;
    return STATUS_OK;
}
