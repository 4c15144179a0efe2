/* Shows what freezing keeps and what it removes. The modules are those of the documentation of
 * torch.jit.freeze. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera.h>

static void check(context_t *ctx, status_t status)
{
    if (status == STATUS_OK) return;
    fprintf(stderr, "freeze: %s\n", context_error(ctx));
    exit(EXIT_FAILURE);
}

static void define(context_t *ctx, const char *type, const char *text, module_t **out_module)
{
    check(ctx, module_create(ctx, type, out_module));
    if (text != NULL) check(ctx, graph_define(ctx, *out_module, text));
}

/* ---- parameters become constants of the graph ---- */

static status_t count(context_t *ctx, void *user, const char *path, module_t *module)
{
    (void)ctx, (void)path;
    for (int i = 0; i < module_n_members(module); i++) {
        member_kind_t kind;
        (void)module_member(module, i, &kind);
        *(int *)user += kind == MEMBER_PARAMETER;
    }
    return STATUS_OK;
}

static int count_parameters(context_t *ctx, module_t *module)
{
    int n = 0;
    check(ctx, module_walk(ctx, module, count, &n));
    return n;
}

static void show_parameters(context_t *ctx)
{
    module_t *net = NULL, *linear = NULL, *frozen = NULL;
    tensor_t *weight = NULL;
    check(ctx, module_create(ctx, "MyModule", &net));
    check(ctx, tensor_rand(ctx, DTYPE_F32, SHAPE(2, 3), &weight));
    check(ctx, module_set_parameter(ctx, net, "weight", weight));
    check(ctx, layer_linear(ctx, 2, 3, true, &linear));
    check(ctx, module_set_child(ctx, net, "linear", linear));
    check(ctx, graph_define(ctx, net,
                            "graph forward(%self : module, %input : f32[2,2]) {\n"
                            "  %1 = getattr(%self) name=\"weight\" : f32[2,3]\n"
                            "  %2 = matmul(%input, %1) : f32[2,3]\n"
                            "  %3 = slice(%2) dim=1 end=2 : f32[2,2]\n"
                            "  %4 = getattr(%self) name=\"linear.weight\" : f32[3,2]\n"
                            "  %5 = getattr(%self) name=\"linear.bias\" : f32[3]\n"
                            "  %6 = linear(%3, %4, %5) : f32[2,3] at \"linear\"\n"
                            "  return %6\n}\n"));
    check(ctx, freeze(ctx, net, NULL, &frozen));
    printf("parameters: %d, frozen: %d\n", count_parameters(ctx, net),
           count_parameters(ctx, frozen));
    module_release(frozen);
    module_release(linear);
    module_release(net);
}

/* ---- attributes that stay ---- */

static double forward(context_t *ctx, module_t *module, tensor_t *x)
{
    tensor_t *y = NULL;
    double value = 0;
    check(ctx, module_forward(ctx, module, x, &y));
    check(ctx, tensor_item(ctx, y, &value));
    return value;
}

static void show_state(context_t *ctx, dtype_t dtype)
{
    static const char *const preserved[] = {"version", NULL};
    module_t *net = NULL, *frozen = NULL;
    tensor_t *ten = NULL, *one = NULL;
    datum_t *version = NULL;
    text_t why = text_begin(ctx);
    define(ctx, "MyModule2",
           "graph forward(%self : module, %input : tensor) {\n"
           "  %1 = getattr(%self) name=\"modified_tensor\" : tensor\n"
           "  %2 = add_(%1, 1) : tensor\n"
           "  %3 = add(%input, %2) : tensor\n"
           "  return %3\n}\n",
           &net);
    check(ctx, tensor_full(ctx, dtype, 0, NULL, 10, &ten));
    check(ctx, module_set_buffer(ctx, net, "modified_tensor", ten));
    check(ctx, datum_int(ctx, 1, &version));
    check(ctx, module_set_attribute(ctx, net, "version", version));
    datum_release(version);

    check(ctx, freeze(ctx, net, &(freeze_options_t){.preserved = preserved}, &frozen));
    printf("\n%s: version %d", dtype_name(dtype),
           (int)datum_as_int(module_attribute(frozen, "version")));
    check(ctx, datum_int(ctx, 2, &version));
    check(ctx, module_set_attribute(ctx, frozen, "version", version));
    datum_release(version);
    printf(", written %d\n", (int)datum_as_int(module_attribute(frozen, "version")));
    check(ctx, tensor_full(ctx, dtype, 0, NULL, 1, &one));
    printf("forward(1) = %g\n", forward(ctx, frozen, one));
    printf("forward(1) = %g\n", forward(ctx, frozen, one));
    check(ctx, freeze_explain(ctx, frozen, &why));
    printf("what is left, and why:\n%s", text_string(&why));
    text_clear(&why);
    module_release(frozen);
    module_release(net);
}

/* ---- batch norm is folded into the convolution ---- */

static bool mentions(context_t *ctx, const module_t *frozen, const char *word)
{
    text_t text = text_begin(ctx);
    check(ctx, graph_print(ctx, graph_of(frozen, "forward"), NULL, &text));
    bool is_there = strstr(text_string(&text), word) != NULL;
    text_clear(&text);
    return is_there;
}

static void show_batch_norm(context_t *ctx)
{
    module_t *net = NULL, *layer = NULL, *plain = NULL, *optimized = NULL;
    tensor_t *x = NULL;
    check(ctx, layer_sequential(ctx, &net));
    check(ctx, layer_conv2d(ctx, 3, 32, 3, &(conv_attrs_t){.stride = {2, 2}}, true, &layer));
    check(ctx, layer_append_take(ctx, net, layer));
    check(ctx, layer_batch_norm(ctx, 32, 1e-3, &layer));
    check(ctx, layer_append_take(ctx, net, layer));
    check(ctx, tensor_rand(ctx, DTYPE_F32, SHAPE(1, 3, 32, 32), &x));
    check(ctx, graph_trace(ctx, net, "forward", 1, (const tensor_t *[]){x}));
    check(ctx, freeze(ctx, net, &(freeze_options_t){.keep_numerics = true}, &plain));
    check(ctx, freeze(ctx, net, NULL, &optimized));
    printf("\n\"batch_norm\" in the graph, numerics kept: %s, optimised: %s\n",
           mentions(ctx, plain, "batch_norm") ? "yes" : "no",
           mentions(ctx, optimized, "batch_norm") ? "yes" : "no");
    module_release(plain);
    module_release(optimized);
    module_release(net);
}

/* ---- errors ---- */

static void show_errors(context_t *ctx)
{
    module_t *net = NULL, *frozen = NULL;
    define(ctx, "MyModule", NULL, &net);
    printf("\nno graph:      %s\n",
           freeze(ctx, net, NULL, &frozen) == STATUS_OK ? "frozen" : context_error(ctx));
    module_release(net);
    define(ctx, "MyModule", "graph forward(%self : module, %x : f32[1]) {\n  return %x\n}\n", &net);
    check(ctx, module_train(ctx, net, true));
    printf("training mode: %s\n",
           freeze(ctx, net, NULL, &frozen) == STATUS_OK ? "frozen" : context_error(ctx));
    module_release(net);
    context_clear_error(ctx);
}

int main(void)
{
    context_t *ctx = NULL;
    if (context_create(NULL, &ctx) != STATUS_OK) return EXIT_FAILURE;
    check(ctx, scope_begin(ctx));
    show_parameters(ctx);
    show_state(ctx, DTYPE_F32);
    show_state(ctx, DTYPE_S64);
    show_batch_norm(ctx);
    check(ctx, scope_end(ctx));
    show_errors(ctx);
    context_destroy(ctx);
    return EXIT_SUCCESS;
}
