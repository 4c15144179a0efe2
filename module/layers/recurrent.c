#include "module/layers/recurrent.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "module/layers/layers_impl.h"
#include "tensor/tensor_impl.h"

/* Maximum of layers * directions, because one operator call concatenates all final states. */
#define MAX_STATES 64

typedef enum kind { LSTM, GRU, RNN } kind_t;

static const struct {
    const char *type, *maker;
    int n_gates, n_states;
} kinds[] = {{"LSTM", "layer_lstm", 4, 2}, {"GRU", "layer_gru", 3, 1}, {"RNN", "layer_rnn", 1, 1}};

/* Makes a name such as "weight_ih_l1_reverse". */
#define NAME_BYTES 48
static void name_of(const char *what, int64_t layer, int64_t direction, char *out_name)
{
    snprintf(out_name, NAME_BYTES, "%s_l%d%s", what, (int)layer, direction == 1 ? "_reverse" : "");
}

/* ---- running ---- */

/* The state of one forward: its attributes and intermediate tensors. */
typedef struct stack {
    context_t *ctx;
    const module_t *self;
    kind_t kind;
    int64_t n_layers, n_directions;
    recurrent_attrs_t attrs;
    bool is_single;                  /* x is one sequence, without a batch dimension */
    const tensor_t *given[2];        /* initial states h0 and c0, or NULL */
    tensor_t *states[2][MAX_STATES]; /* final states, [1][N][H] each */
    const tensor_t *x;
} stack_t;

static status_t read_attributes(stack_t *s)
{
    bool is_bidirectional = false;
    double dropout = 0;
    TRY(layer_read_int(s->ctx, s->self, "num_layers", &s->n_layers));
    TRY(layer_read_bool(s->ctx, s->self, "bidirectional", &is_bidirectional));
    TRY(layer_read_bool(s->ctx, s->self, "batch_first", &s->attrs.batch_first));
    TRY(layer_read_float(s->ctx, s->self, "dropout", &dropout));
    s->n_directions = is_bidirectional ? 2 : 1;
    REQUIRE(s->ctx, s->n_layers >= 1 && s->n_layers <= MAX_STATES / s->n_directions,
            "module: attribute \"num_layers\" of %s is %lld, must be 1 to %lld",
            module_type(s->self), (long long)s->n_layers,
            (long long)(MAX_STATES / s->n_directions));
    if (module_is_training(s->self) && dropout > 0 && s->n_layers > 1)
        FAIL(s->ctx, STATUS_UNSUPPORTED,
             "%s: the layer is in training mode with dropout %g, only inference is supported; "
             "module_train switches it",
             module_type(s->self), dropout);
    if (s->kind != RNN) return STATUS_OK;
    const datum_t *name = module_attribute(s->self, "nonlinearity");
    const char *text = name != NULL && datum_kind(name) == DATUM_STRING ? datum_as_string(name)
                                                                        : "";
    REQUIRE(s->ctx, strcmp(text, "tanh") == 0 || strcmp(text, "relu") == 0,
            "module: attribute \"nonlinearity\" of RNN is \"%s\", must be tanh or relu", text);
    s->attrs.candidate.function = strcmp(text, "relu") == 0 ? RECURRENT_RELU : RECURRENT_TANH;
    return STATUS_OK;
}

/* Adds a batch dimension of 1 to a single sequence and its states. */
static status_t widen(stack_t *s)
{
    const int64_t batch_dim = s->attrs.batch_first ? 0 : 1, state_dim = 1;
    tensor_t *wide = NULL;
    s->is_single = tensor_rank(s->x) == 2;
    if (!s->is_single) return STATUS_OK;
    TRY(op_unsqueeze(s->ctx, s->x, 1, &batch_dim, &wide));
    s->x = wide;
    for (int i = 0; i < 2; i++) {
        if (s->given[i] == NULL) continue;
        TRY(op_unsqueeze(s->ctx, s->given[i], 1, &state_dim, &wide));
        s->given[i] = wide;
    }
    return STATUS_OK;
}

static status_t check_states(const stack_t *s)
{
    static const char *const names[] = {"h0", "c0"};
    const int64_t n = s->n_layers * s->n_directions;
    for (int i = 0; i < 2; i++) {
        const tensor_t *given = s->given[i];
        if (given == NULL) continue;
        REQUIRE(s->ctx, tensor_rank(given) == 3 && tensor_sizes(given)[0] == n,
                "%s: %s is %s, the layer needs [%lld,N,H] for %lld layers of %lld directions",
                module_type(s->self), names[i], tensor_text(given), (long long)n,
                (long long)s->n_layers, (long long)s->n_directions);
    }
    return STATUS_OK;
}

/* Extracts the initial state [N][H] of one layer and direction (`index`) from h0 or c0 (`which`).
 * Sets NULL if it was not passed. */
static status_t take_state(const stack_t *s, int which, int64_t index, tensor_t **out)
{
    tensor_t *part = NULL;
    const int64_t dim = 0;
    *out = NULL;
    if (s->given[which] == NULL) return STATUS_OK;
    TRY(op_slice(s->ctx, s->given[which], 0, index, index + 1, 1, &part));
    return op_squeeze(s->ctx, part, 1, &dim, out);
}

static status_t run_direction(stack_t *s, int64_t layer, int64_t direction, tensor_t **out_y)
{
    static const char *const names[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
    const int64_t index = layer * s->n_directions + direction, dim = 0;
    const tensor_t *parameters[4];
    tensor_t *h0 = NULL, *c0 = NULL, *states[2] = {NULL};
    recurrent_attrs_t attrs = s->attrs;
    attrs.reverse = direction == 1;
    for (int i = 0; i < 4; i++) {
        char name[NAME_BYTES];
        name_of(names[i], layer, direction, name);
        parameters[i] = module_parameter(s->self, name);
    }
    const recurrent_weights_t weights = {.weight_ih = parameters[0],
                                         .weight_hh = parameters[1],
                                         .bias_ih = parameters[2],
                                         .bias_hh = parameters[3]};
    TRY(take_state(s, 0, index, &h0));
    TRY(take_state(s, 1, index, &c0));
    if (s->kind == LSTM)
        TRY(op_lstm(s->ctx, s->x, h0, c0, NULL, &weights, &attrs, out_y, &states[0], &states[1]));
    else
        TRY((s->kind == GRU ? op_gru : op_rnn)(s->ctx, s->x, h0, NULL, &weights, &attrs, out_y,
                                               &states[0]));
    for (int i = 0; i < kinds[s->kind].n_states; i++)
        TRY(op_unsqueeze(s->ctx, states[i], 1, &dim, &s->states[i][index]));
    return STATUS_OK;
}

static status_t join(context_t *ctx, int64_t n, tensor_t *const *parts, int64_t dim, tensor_t **out)
{
    *out = parts[0];
    return n == 1 ? STATUS_OK : op_concat(ctx, (int)n, (const tensor_t *const *)parts, dim, out);
}

/* Sets the results in the order y, h, c. */
static status_t finish(stack_t *s, tensor_t *y, int *n_out, tensor_t **out)
{
    const int64_t batch_dim = s->attrs.batch_first ? 0 : 1, state_dim = 1;
    *n_out = 1 + kinds[s->kind].n_states;
    out[0] = y;
    for (int i = 0; i < kinds[s->kind].n_states; i++)
        TRY(join(s->ctx, s->n_layers * s->n_directions, s->states[i], 0, &out[1 + i]));
    if (!s->is_single) return STATUS_OK;
    TRY(op_squeeze(s->ctx, y, 1, &batch_dim, &out[0]));
    for (int i = 1; i < *n_out; i++) TRY(op_squeeze(s->ctx, out[i], 1, &state_dim, &out[i]));
    return STATUS_OK;
}

static status_t forward(context_t *ctx, const module_t *self, kind_t kind, int n_in,
                        const tensor_t *const *in, int *n_out, tensor_t **out)
{
    const int n_states = kinds[kind].n_states;
    stack_t s = {.ctx = ctx, .self = self, .kind = kind};
    tensor_t *parts[2], *y = NULL;
    REQUIRE(ctx, n_in == 1 || n_in == 1 + n_states,
            "module: forward of %s with %d inputs, takes x alone or with %d state%s",
            module_type(self), n_in, n_states, n_states == 1 ? "" : "s");
    TRY(read_attributes(&s));
    s.x = in[0];
    for (int i = 1; i < n_in; i++) s.given[i - 1] = in[i];
    TRY(widen(&s));
    TRY(check_states(&s));
    for (int64_t layer = 0; layer < s.n_layers; layer++) {
        for (int64_t d = 0; d < s.n_directions; d++) TRY(run_direction(&s, layer, d, &parts[d]));
        TRY(join(ctx, s.n_directions, parts, 2, &y));
        s.x = y;
    }
    return finish(&s, y, n_out, out);
}

static status_t forward_lstm(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                             int *n_out, tensor_t **out)
{
    return forward(ctx, self, LSTM, n_in, in, n_out, out);
}

static status_t forward_gru(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                            int *n_out, tensor_t **out)
{
    return forward(ctx, self, GRU, n_in, in, n_out, out);
}

static status_t forward_rnn(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                            int *n_out, tensor_t **out)
{
    return forward(ctx, self, RNN, n_in, in, n_out, out);
}

/* ---- building ---- */

typedef struct recurrent_init {
    kind_t kind;
    int64_t input_size, hidden_size;
    bool has_bias;
    layer_recurrent_options_t options;
} recurrent_init_t;

static status_t init_weights(context_t *ctx, module_t *module, const recurrent_init_t *init,
                             int64_t layer, int64_t direction)
{
    const double bound = sqrt(1 / (double)init->hidden_size);
    const int64_t n_directions = init->options.bidirectional ? 2 : 1;
    const int64_t n_in = layer == 0 ? init->input_size : n_directions * init->hidden_size;
    const int64_t rows = kinds[init->kind].n_gates * init->hidden_size;
    const struct {
        const char *what;
        int rank;
        int64_t sizes[2];
    } parameters[] = {{"weight_ih", 2, {rows, n_in}},
                      {"weight_hh", 2, {rows, init->hidden_size}},
                      {"bias_ih", 1, {rows}},
                      {"bias_hh", 1, {rows}}};
    for (int i = 0; i < (init->has_bias ? 4 : 2); i++) {
        char name[NAME_BYTES];
        name_of(parameters[i].what, layer, direction, name);
        TRY(layer_parameter(ctx, module, name, parameters[i].rank, parameters[i].sizes,
                            FILL_UNIFORM, -bound, bound));
    }
    return STATUS_OK;
}

static status_t fill_layer(context_t *ctx, module_t *module, const recurrent_init_t *init)
{
    const layer_recurrent_options_t *options = &init->options;
    for (int64_t layer = 0; layer < options->num_layers; layer++)
        for (int64_t d = 0; d < (options->bidirectional ? 2 : 1); d++)
            TRY(init_weights(ctx, module, init, layer, d));
    TRY(layer_set_int(ctx, module, "num_layers", options->num_layers));
    TRY(layer_set_bool(ctx, module, "bidirectional", options->bidirectional));
    TRY(layer_set_bool(ctx, module, "batch_first", options->batch_first));
    TRY(layer_set_float(ctx, module, "dropout", options->dropout));
    if (init->kind != RNN) return STATUS_OK;
    datum_t *name = NULL;
    TRY(datum_string(ctx, options->is_relu ? "relu" : "tanh", &name));
    FINISH(module_set_attribute(ctx, module, "nonlinearity", name), datum_release(name));
}

static status_t build(context_t *ctx, const recurrent_init_t *init, module_t **out_module)
{
    static const forward_t forwards[] = {forward_lstm, forward_gru, forward_rnn};
    module_t *module = NULL;
    TRY(module_create(ctx, kinds[init->kind].type, &module));
    status_t status = fill_layer(ctx, module, init);
    if (status == STATUS_OK)
        status = module_set_forward(ctx, module, "forward", forwards[init->kind]);
    GIVE(status, out_module, module, module_release(module));
}

static status_t make(context_t *ctx, kind_t kind, int64_t input_size, int64_t hidden_size,
                     bool has_bias, const layer_recurrent_options_t *options, module_t **out_module)
{
    const char *maker = kinds[kind].maker;
    recurrent_init_t init_of = {
        .kind = kind, .input_size = input_size, .hidden_size = hidden_size, .has_bias = has_bias};
    int64_t rows = 0, columns = 0, elements = 0;
    TRY(context_output(ctx, maker, out_module));
    if (options != NULL) init_of.options = *options;
    if (init_of.options.num_layers == 0) init_of.options.num_layers = 1;
    const int64_t n_layers = init_of.options.num_layers;
    const int64_t most = MAX_STATES / (init_of.options.bidirectional ? 2 : 1);
    REQUIRE(ctx, input_size > 0 && hidden_size > 0, "%s: %lld to %lld elements, must be positive",
            maker, (long long)input_size, (long long)hidden_size);
    REQUIRE(ctx,
            shape_multiply(hidden_size, 4, &rows) && shape_multiply(hidden_size, 2, &columns) &&
                shape_multiply(rows, columns, &elements) &&
                shape_multiply(rows, input_size, &elements),
            "%s: %lld to %lld elements, too many for 64-bit sizes", maker, (long long)input_size,
            (long long)hidden_size);
    REQUIRE(ctx, n_layers >= 1 && n_layers <= most, "%s: %lld layers, must be 1 to %lld", maker,
            (long long)n_layers, (long long)most);
    REQUIRE(ctx, init_of.options.dropout >= 0 && init_of.options.dropout <= 1,
            "%s: dropout %g, must be 0 to 1", maker, init_of.options.dropout);
    return build(ctx, &init_of, out_module);
}

status_t layer_lstm(context_t *ctx, int64_t input_size, int64_t hidden_size, bool has_bias,
                    const layer_recurrent_options_t *options, module_t **out_module)
{
    return make(ctx, LSTM, input_size, hidden_size, has_bias, options, out_module);
}

status_t layer_gru(context_t *ctx, int64_t input_size, int64_t hidden_size, bool has_bias,
                   const layer_recurrent_options_t *options, module_t **out_module)
{
    return make(ctx, GRU, input_size, hidden_size, has_bias, options, out_module);
}

status_t layer_rnn(context_t *ctx, int64_t input_size, int64_t hidden_size, bool has_bias,
                   const layer_recurrent_options_t *options, module_t **out_module)
{
    return make(ctx, RNN, input_size, hidden_size, has_bias, options, out_module);
}
