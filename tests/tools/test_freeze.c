/* tessera freeze of ONNX models: what it must know about their inputs. */
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "freeze/file_impl.h"
#include "io/data/npy.h"
#include "tests/support/frozen_seal.h"
#include "tests/support/onnx/onnx_model.h"
#include "tests/support/scratch.h"

#define BOOL ONNX__TENSOR_PROTO__DATA_TYPE__BOOL

static maker_t block;

/* Runs `tessera ARGUMENTS` in the scratch directory. Checks the exit code and a part of the
 * output. */
static void check(const char *arguments, int code, const char *part)
{
    static char text[1 << 16];
    char line[1024];
    snprintf(line, sizeof line, "cd %s && timeout 300 " TESSERA_COMMAND " %s 2>&1", scratch,
             arguments);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    text[fread(text, 1, sizeof text - 1, pipe)] = '\0';
    const int status = pclose(pipe);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != code || strstr(text, part) == NULL)
        fail_msg("repeat: tessera %s\nstatus %d, wanted %d with %s:\n%s", arguments, status, code,
                 part, text);
}

static void path_in_scratch(const char *name, char *out_path)
{
    snprintf(out_path, 256, "%s/%s", scratch, name);
}

static void write_model(const char *name)
{
    char path[256];
    size_t n_bytes = 0;
    uint8_t *bytes = maker_pack(&maker, &n_bytes);
    path_in_scratch(name, path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    fclose(file);
    free(bytes);
}

static void write_array(context_t *ctx, const char *name, dtype_t dtype, int rank,
                        const int64_t *sizes, const void *elements)
{
    char path[256];
    tensor_t *tensor = NULL;
    CHECK_OK(ctx, tensor_from(ctx, dtype, rank, sizes, elements, &tensor));
    path_in_scratch(name, path);
    CHECK_OK(ctx, npy_save(ctx, path, tensor));
    tensor_release(tensor);
}

/* Checks all elements of an array that a command wrote. */
static void check_array(context_t *ctx, const char *name, int n, const float *wanted)
{
    char path[256];
    tensor_t *tensor = NULL;
    const void *elements = NULL;
    path_in_scratch(name, path);
    CHECK_OK(ctx, npy_load(ctx, path, &tensor));
    assert_int_equal(tensor_numel(tensor), n);
    CHECK_OK(ctx, tensor_data(ctx, tensor, &elements));
    for (int i = 0; i < n; i++)
        assert_float_equal(((const float *)elements)[i], wanted[i], 1e-5f * (1.0f + wanted[i]));
    tensor_release(tensor);
}

/* ---- models that fail with random values ---- */

/* y = float(a / b) for integers. Random ones would divide by 0. */
static void make_quotient(context_t *ctx)
{
    int64_t a[24], b[24];
    float y[24];
    maker_begin(&maker, 17);
    maker_input(&maker, "a", INT64, DIMS(4, 6));
    maker_input(&maker, "b", INT64, DIMS(4, 6));
    maker_output(&maker, "y");
    maker_node(&maker, "Div", "quotient", "a b", "q");
    maker_int(maker_node(&maker, "Cast", "cast", "q", "y"), "to", FLOAT);
    for (int i = 0; i < 24; i++) {
        a[i] = 97 * i - 1000;
        b[i] = i % 2 == 0 ? i + 3 : -i;
        y[i] = (float)(a[i] / b[i]);
    }
    write_model("quotient.onnx");
    write_array(ctx, "a.npy", DTYPE_S64, DIMS(4, 6), a);
    write_array(ctx, "b.npy", DTYPE_S64, DIMS(4, 6), b);
    check("freeze quotient.onnx -o m.tessera", 0, "m.tessera: ");
    check("run m.tessera --input a=a.npy --input b=b.npy --output-dir out", 0, "y f32[4,6]");
    check_array(ctx, "out/y.npy", 24, y);
}

/* y = float(range(2, n, 3)). Its length depends on the value of n. */
static void make_range(context_t *ctx)
{
    maker_begin(&maker, 17);
    maker_input(&maker, "n", INT64, 0, NULL);
    maker_output(&maker, "y");
    maker_initializer(&maker, "from", INT64, 0, NULL, (int64_t[]){2}, sizeof(int64_t));
    maker_initializer(&maker, "by", INT64, 0, NULL, (int64_t[]){3}, sizeof(int64_t));
    maker_node(&maker, "Range", "range", "from n by", "r");
    maker_int(maker_node(&maker, "Cast", "cast", "r", "y"), "to", FLOAT);
    write_model("range.onnx");
    write_array(ctx, "n.npy", DTYPE_S64, 0, NULL, (int64_t[]){12});
    check("freeze range.onnx -o m.tessera", 0, "m.tessera: ");
    check("run m.tessera --input n=n.npy --output-dir out", 0, "y f32[4]");
    check_array(ctx, "out/y.npy", 4, (float[]){2, 5, 8, 11});
}

/* y is x, doubled while it is less than `bound`. Random values may make an endless loop. */
static void make_loop(context_t *ctx)
{
    maker_begin(&block, 17);
    maker_input(&block, "i", INT64, 0, NULL);
    maker_input(&block, "c", BOOL, 0, NULL);
    maker_input(&block, "h", FLOAT, 0, NULL);
    maker_output(&block, "go");
    maker_output(&block, "g");
    maker_node(&block, "Add", "sum", "h h", "g");
    maker_node(&block, "Less", "less", "g bound", "go");
    maker_begin(&maker, 17);
    maker_input(&maker, "x", FLOAT, 0, NULL);
    maker_input(&maker, "bound", FLOAT, 0, NULL);
    maker_input(&maker, "first", BOOL, 0, NULL);
    maker_output(&maker, "y");
    maker_attr_graph(maker_node(&maker, "Loop", "loop", "- first x", "y"), "body", &block);
    write_model("loop.onnx");
    write_array(ctx, "x.npy", DTYPE_F32, 0, NULL, (float[]){3});
    write_array(ctx, "bound.npy", DTYPE_F32, 0, NULL, (float[]){40});
    write_array(ctx, "first.npy", DTYPE_BOOL, 0, NULL, (bool[]){true});
    check("freeze loop.onnx -o m.tessera", 0, "m.tessera: ");
    check("run m.tessera --input x=x.npy --input bound=bound.npy --input first=first.npy "
          "--output-dir out",
          0, "y f32[]");
    check_array(ctx, "out/y.npy", 1, (float[]){48});
}

/* The first run packs the weights of nodes outside of plans. The second run must use them. */
static void check_second_run(context_t *ctx)
{
    static const char *const names[] = {"m.tessera", "x.npy", "shape.npy"};
    char paths[3][256];
    module_t *frozen = NULL;
    tensor_t *in[2] = {NULL}, *y = NULL;
    counters_t counters;
    int n_out = 1;
    for (int i = 0; i < 3; i++) path_in_scratch(names[i], paths[i]);
    CHECK_OK(ctx, freeze_load(ctx, paths[0], &frozen));
    for (int i = 0; i < 2; i++) CHECK_OK(ctx, npy_load(ctx, paths[i + 1], &in[i]));
    for (int run = 0; run < 2; run++) {
        counters_reset(ctx);
        CHECK_OK(ctx, module_call_tensors(ctx, frozen, "forward", 2, (const tensor_t *const *)in,
                                          &n_out, &y));
        tensor_release(y);
    }
    counters_read(ctx, &counters);
    assert_true(counters.operators > 0);
    assert_int_equal(counters_weight_reorders(&counters), 0);
    for (int i = 0; i < 2; i++) tensor_release(in[i]);
    module_release(frozen);
}

/* y = reshape(x w, shape) v. The input of the second product depends on the elements of `shape`. */
static void make_reshape(context_t *ctx)
{
    float x[24], w[6 * 8], v[4 * 3], p[32], y[24];
    for (int i = 0; i < 48; i++) w[i] = (float)(i * i % 13 - 6);
    for (int i = 0; i < 24; i++) x[i] = (float)(i % 7 - 3);
    for (int i = 0; i < 12; i++) v[i] = (float)(i % 5 - 2);
    for (int i = 0; i < 32; i++) {
        p[i] = 0.0f;
        for (int k = 0; k < 6; k++) p[i] += x[i / 8 * 6 + k] * w[k * 8 + i % 8];
    }
    for (int i = 0; i < 24; i++) {
        y[i] = 0.0f;
        for (int k = 0; k < 4; k++) y[i] += p[i / 3 * 4 + k] * v[k * 3 + i % 3];
    }
    maker_begin(&maker, 17);
    maker_input(&maker, "x", FLOAT, DIMS(4, 6));
    maker_input(&maker, "shape", INT64, DIMS(2));
    maker_output(&maker, "y");
    maker_initializer(&maker, "w", FLOAT, DIMS(6, 8), w, sizeof w);
    maker_initializer(&maker, "v", FLOAT, DIMS(4, 3), v, sizeof v);
    maker_node(&maker, "MatMul", "first", "x w", "p");
    maker_node(&maker, "Reshape", "reshape", "p shape", "r");
    maker_node(&maker, "MatMul", "second", "r v", "y");
    write_model("reshape.onnx");
    write_array(ctx, "x.npy", DTYPE_F32, DIMS(4, 6), x);
    write_array(ctx, "shape.npy", DTYPE_S64, DIMS(2), (int64_t[]){8, 4});
    check("freeze reshape.onnx -o m.tessera", 0, "m.tessera: ");
    check("run m.tessera --input x=x.npy --input shape=shape.npy --output-dir out", 0,
          "y f32[8,3]");
    check_array(ctx, "out/y.npy", 24, y);
    check_second_run(ctx);
    check("freeze reshape.onnx -o m.tessera --tune 0.1", 0, "m.tessera: ");
    check("freeze reshape.onnx -o m.tessera --dtype bf16", 0,
          "bf16: errors are not measured; that needs --input of every");
    check("freeze reshape.onnx -o m.tessera --input x=x.npy --input shape=shape.npy --dtype bf16",
          0, "outputs differ from f32 by 0");
}

static void models_that_random_values_break_are_frozen(void **state)
{
    context_t *ctx = fixture_context(state);
    make_quotient(ctx);
    make_range(ctx);
    make_loop(ctx);
    make_reshape(ctx);
}

/* ---- measurements on values ---- */

#define NETWORK "zoo:squeezenet1_1"
#define IMAGE NETWORK " --input x=image.npy"

static void options_that_measure_on_values_need_values(void **state)
{
    context_t *ctx = fixture_context(state);
    char path[256];
    tensor_t *image = NULL;
    path_in_scratch("image.npy", path);
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, DIMS(1, 3, 64, 64), &image));
    CHECK_OK(ctx, npy_save(ctx, path, image));
    tensor_release(image);
    check("freeze " NETWORK " -o m.tessera --dtype bf16 --max-layer-error 1e-9", 1,
          "--max-layer-error, needs values: --input of every input, or --calibrate DIR");
    check("freeze " NETWORK " -o m.tessera --dtype bf16 --min-agreement 1", 1,
          "--min-agreement, needs values");
    check("freeze " IMAGE " -o m.tessera --dtype bf16", 0, "0 kept in f32; outputs differ");
    check("freeze " IMAGE " -o m.tessera --dtype bf16 --max-layer-error 1e-9", 0, "kept in f32: ");
    check("run " IMAGE " --output-dir saved", 0, "output ");
    check("freeze " NETWORK " --shape x=1x3x64x64 -o m.tessera --tune 0.2", 0, "tuned: ");
    check("run m.tessera --input x=image.npy --compare saved --tolerance 1e-3", 0, "differs");
    check("freeze " IMAGE " -o m.tessera --tune 0.2", 0, "of the time by estimates");
    check("run m.tessera --input x=image.npy --compare saved --tolerance 1e-3", 0, "differs");
}

/* ---- several sizes ---- */

enum { K = 64, P = 96 };

/* y = (x * s) w for x f32[N,64] and s f32[M,64]. All sizes need three graphs, for N == M, M == 1
 * and N == 1, because the broadcast differs. */
static void begin_broadcast(float *weight)
{
    for (int i = 0; i < K * P; i++) weight[i] = (float)(i * i % 31 - 15) / 16.0f;
    maker_begin(&maker, 17);
    maker_input(&maker, "x", FLOAT, DIMS(-1, K));
    maker_open(&maker, 0, "N");
    maker_input(&maker, "s", FLOAT, DIMS(-1, K));
    maker_open(&maker, 0, "M");
    maker_output(&maker, "y");
    maker_initializer(&maker, "w", FLOAT, DIMS(K, P), weight, sizeof(float) * K * P);
    maker_node(&maker, "Mul", "scale", "x s", "p");
    maker_node(&maker, "MatMul", "product", "p w", "y");
}

static tensor_t *make_rows(context_t *ctx, int64_t rows, int step)
{
    float elements[32 * K];
    tensor_t *tensor = NULL;
    for (int i = 0; i < rows * K; i++) elements[i] = (float)(i * step % 17 - 8) / 8.0f;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, DIMS(rows, K), elements, &tensor));
    return tensor;
}

/* Runs the model for sizes N and M, and compares with sums in double. */
static void check_broadcast(context_t *ctx, module_t *frozen, const float *weight, int64_t n,
                            int64_t m)
{
    const int64_t rows = n > m ? n : m;
    tensor_t *x = make_rows(ctx, n, 5), *s = make_rows(ctx, m, 3), *y = NULL;
    const tensor_t *in[] = {x, s};
    const void *of_x = NULL, *of_s = NULL, *of_y = NULL;
    int n_out = 1;
    CHECK_OK(ctx, module_call_tensors(ctx, frozen, "forward", 2, in, &n_out, &y));
    assert_int_equal(tensor_sizes(y)[0], rows);
    CHECK_OK(ctx, tensor_data(ctx, x, &of_x));
    CHECK_OK(ctx, tensor_data(ctx, s, &of_s));
    CHECK_OK(ctx, tensor_data(ctx, y, &of_y));
    for (int64_t i = 0; i < rows * P; i++) {
        double sum = 0.0;
        for (int k = 0; k < K; k++)
            sum += (double)((const float *)of_x)[(n > 1 ? i / P : 0) * K + k] *
                   ((const float *)of_s)[(m > 1 ? i / P : 0) * K + k] * weight[k * P + i % P];
        assert_float_equal(((const float *)of_y)[i], sum, 1e-4);
    }
    tensor_release(y);
    tensor_release(s);
    tensor_release(x);
}

static void refuse_broadcast(context_t *ctx, module_t *frozen, const char *words)
{
    tensor_t *x = make_rows(ctx, 2, 5), *s = make_rows(ctx, 3, 3), *y = NULL;
    const tensor_t *in[] = {x, s};
    int n_out = 1;
    CHECK_FAILS(ctx, module_call_tensors(ctx, frozen, "forward", 2, in, &n_out, &y),
                STATUS_INVALID_ARGUMENT, words);
    tensor_release(s);
    tensor_release(x);
}

static const int64_t pairs[][2] = {{8, 8}, {20, 20}, {8, 1}, {30, 1}, {1, 8}, {1, 5}, {1, 1}};

static long file_size_of(const char *name)
{
    char path[256];
    path_in_scratch(name, path);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    fclose(file);
    return size;
}

static void a_file_has_a_graph_for_each_shape_that_needs_one(void **state)
{
    context_t *ctx = fixture_context(state);
    static float weight[K * P];
    char path[256];
    module_t *frozen = NULL, *clone = NULL;
    counters_t counters;
    begin_broadcast(weight);
    write_model("scale.onnx");
    check("freeze scale.onnx -o one.tessera --shape x=8x64 --shape s=8x64", 0, "of 1: N == M");
    check("freeze scale.onnx -o m.tessera --shape x=8x64 --shape s=8x64 --shape x=8x64 "
          "--shape s=1x64 --shape x=1x64 --shape s=8x64 --shape x=20x64 --shape s=20x64",
          0, "graph 1 of 3: N == M\ngraph 2 of 3: M == 1\ngraph 3 of 3: N == 1\n");
    check("freeze scale.onnx -o x.tessera --shape x=8x64 --shape s=8x64 --shape s=1x64", 0,
          "graph 2 of 2: M == 1");
    check("freeze scale.onnx -o x.tessera --shape x=1x64 --shape x=2x64 --shape s=1x64 "
          "--shape x=8x64 --shape s=8x64",
          2, "--shape s=1x64, an input needs one --shape, or one for each set");
    check("graph m.tessera", 0, "  guard N == M from Mul \"scale\"\n");
    check("graph m.tessera", 0, "  guard N == 1 from Mul \"scale\"\n");
    /* if both graphs use one form of the weight, the file has it once */
    assert_true(file_size_of("x.tessera") < file_size_of("one.tessera") + 4096);
    check("append m.tessera --threads 1", 0, "m.tessera: ");
    path_in_scratch("m.tessera", path);
    CHECK_OK(ctx, freeze_load(ctx, path, &frozen));
    assert_int_equal(plan_n_graphs(frozen, "forward"), 3);
    assert_true(plan_graph_at(frozen, "forward", 0) == graph_of(frozen, "forward"));
    assert_null(plan_graph_at(frozen, "forward", 3));
    counters_reset(ctx);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        check_broadcast(ctx, frozen, weight, pairs[i][0], pairs[i][1]);
    refuse_broadcast(ctx, frozen,
                     "the graph holds where N == M (Mul \"scale\"); none of its 3 graphs takes "
                     "these inputs");
    counters_read(ctx, &counters);
    assert_int_equal(counters.plans_built, 4); /* loading made three of them */
    CHECK_OK(ctx, freeze_optimize(ctx, frozen, NULL));
    CHECK_OK(ctx, module_clone(ctx, frozen, &clone));
    module_release(frozen);
    assert_int_equal(plan_n_graphs(clone, "forward"), 3);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        check_broadcast(ctx, clone, weight, pairs[i][0], pairs[i][1]);
    module_release(clone);
}

static module_t *freeze_at(context_t *ctx, int64_t n, int64_t m)
{
    module_t *model = NULL, *frozen = NULL;
    const int64_t of_x[] = {n, K}, of_s[] = {m, K};
    const onnx_shape_t shapes[] = {{"x", 2, of_x}, {"s", 2, of_s}};
    CHECK_OK(ctx, load_model_with(ctx, &(onnx_options_t){.n_shapes = 2, .shapes = shapes}, &model));
    CHECK_OK(ctx, freeze_take(ctx, &model, NULL, &frozen));
    return frozen;
}

/* Returns the graph's only constant of this size. */
static const tensor_t *weight_of(const graph_t *graph)
{
    const graph_block_t *body = graph_body(graph);
    for (int i = 0; i < body->n_nodes; i++) {
        const graph_node_t *node = body->nodes[i];
        if (node->kind == NODE_CONSTANT && datum_kind(node->datum) == DATUM_TENSOR &&
            tensor_numel(datum_as_tensor(node->datum)) == K * P)
            return datum_as_tensor(node->datum);
    }
    fail_msg("the graph has no weight");
    return NULL;
}

static void graphs_of_one_model_are_added(void **state)
{
    context_t *ctx = fixture_context(state);
    static float weight[K * P];
    module_t *frozen = NULL, *other = NULL;
    begin_broadcast(weight);
    frozen = freeze_at(ctx, 8, 8);
    other = freeze_at(ctx, 8, 1);
    refuse_broadcast(ctx, frozen, "forward: M is 3, N is 2, the graph holds where N == M");
    CHECK_FAILS(ctx, freeze_add(ctx, frozen, frozen), STATUS_INVALID_ARGUMENT, "added to itself");
    CHECK_OK(ctx, freeze_add(ctx, frozen, other));
    module_release(other);
    other = freeze_at(ctx, 1, 8);
    CHECK_OK(ctx, freeze_add(ctx, frozen, other));
    module_release(other);
    text_t guards = text_begin(ctx);
    for (int i = 0; i < plan_n_graphs(frozen, "forward"); i++) {
        CHECK_OK(ctx, graph_guards(ctx, plan_graph_at(frozen, "forward", i), &guards));
        text_append(&guards, ";");
    }
    assert_string_equal(text_string(&guards), "N == M;M == 1;N == 1;");
    text_clear(&guards);
    assert_true(weight_of(plan_graph_at(frozen, "forward", 0)) ==
                weight_of(plan_graph_at(frozen, "forward", 2)));
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        check_broadcast(ctx, frozen, weight, pairs[i][0], pairs[i][1]);
    begin_model(17, DIMS(-1, K));
    maker_node(&maker, "Relu", "relu", "x", "y");
    module_t *model = load_model(ctx);
    CHECK_FAILS(ctx, freeze_add(ctx, frozen, model), STATUS_INVALID_ARGUMENT,
                "is not frozen, freeze it first");
    CHECK_OK(ctx, freeze_take(ctx, &model, NULL, &other));
    CHECK_FAILS(ctx, freeze_add(ctx, frozen, other), STATUS_INVALID_ARGUMENT,
                "freeze_add: forward of the other module has other inputs or results than");
    assert_int_equal(plan_n_graphs(frozen, "forward"), 3);
    module_release(other);
    module_release(frozen);
}

static status_t add_frozen(context_t *ctx)
{
    static float weight[K * P];
    module_t *frozen[2] = {NULL}, *model = NULL;
    const int64_t sizes[][2] = {{8, K}, {1, K}};
    status_t status = STATUS_OK;
    begin_broadcast(weight);
    for (int i = 0; i < 2 && status == STATUS_OK; i++) {
        const onnx_shape_t shapes[] = {{"x", 2, sizes[0]}, {"s", 2, sizes[i]}};
        status = load_model_with(ctx, &(onnx_options_t){.n_shapes = 2, .shapes = shapes}, &model);
        if (status == STATUS_OK) status = freeze_take(ctx, &model, NULL, &frozen[i]);
        module_release(model);
        model = NULL;
    }
    if (status == STATUS_OK) status = freeze_add(ctx, frozen[0], frozen[1]);
    module_release(frozen[0]);
    module_release(frozen[1]);
    return status;
}

static void every_allocation_of_an_addition_may_fail(void **state)
{
    (void)state;
    check_allocations_by_turns(add_frozen);
}

/* Freezes a model, replaces the last `from` in the file's text by `to`, which has the same length,
 * and corrects the checksums. Loading must fail with these words. */
static void check_lie(context_t *ctx, const char *from, const char *to, const char *words)
{
    static char bytes[1 << 18];
    char path[256];
    module_t *loaded = NULL;
    file_header_t header;
    path_in_scratch("lie.tessera", path);
    check("freeze scale.onnx -o lie.tessera --shape x=8x64 --shape s=8x64 --shape s=1x64", 0,
          "graph 2 of 2");
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    const size_t n = fread(bytes, 1, sizeof bytes, file);
    assert_true(n < sizeof bytes);
    memcpy(&header, bytes, sizeof header);
    assert_int_equal(header.version, FILE_VERSION_GRAPHS);
    char *at = NULL, *text = bytes + header.text.offset;
    for (char *c = text; c + strlen(from) <= text + header.text.bytes; c++)
        if (memcmp(c, from, strlen(from)) == 0) at = c;
    assert_non_null(at);
    memcpy(at, to, strlen(from));
    frozen_seal(bytes, n);
    rewind(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    fclose(file);
    CHECK_FAILS(ctx, freeze_load(ctx, path, &loaded), STATUS_CORRUPT, words);
}

static void a_graph_that_is_like_no_method_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    static float weight[K * P];
    begin_broadcast(weight);
    write_model("scale.onnx");
    check_lie(ctx, "g:forward", "g:forwars",
              "lie.tessera: a graph of method \"forwars\" does not match its first one");
    check_lie(ctx, "m:forward", "g:forward",
              "lie.tessera: member \"g:forward\" has an unknown kind");
    check_lie(ctx, "%s : f32[M=1,64]", "%s : f64[M=1,64]", "lie.tessera: ");
}

/* Freezing needs no --shape: it assumes sizes, and the graph runs at all others that its guards
 * allow. */
static void open_sizes_need_no_shape(void **state)
{
    (void)state;
    static float weight[K * P];
    begin_broadcast(weight);
    write_model("scale.onnx");
    check("freeze scale.onnx -o open.tessera", 0, "graph 1 of 1: N == M");
    maker_begin(&maker, 17);
    maker_input(&maker, "x", FLOAT, DIMS(-1, -1, K));
    maker_open(&maker, 1, "T");
    maker_output(&maker, "y");
    maker_initializer(&maker, "w", FLOAT, DIMS(K, P), weight, sizeof weight);
    maker_node(&maker, "MatMul", "product", "x w", "y");
    write_model("rows.onnx");
    check("freeze rows.onnx -o open.tessera", 0, "open.tessera: ");
    check("run rows.onnx --shape x=3x7x64 --output-dir seven --mode dense", 0, "y f32[3,7,96]");
    check("run open.tessera --shape x=3x7x64 --compare seven --tolerance 1e-4", 0, "differs");
    const float kernel[100 * 100] = {1.0f};
    begin_model(17, DIMS(1, 1, -1, 128));
    maker_open(&maker, 2, "H");
    maker_initializer(&maker, "w", FLOAT, DIMS(1, 1, 100, 100), kernel, sizeof kernel);
    maker_node(&maker, "Conv", "conv", "x w", "y");
    write_model("tall.onnx");
    check("freeze tall.onnx -o open.tessera", 0, "graph 1 of 1: H >= 100");
    const int64_t rows[] = {3, 7, 12};
    begin_model(17, DIMS(-1));
    maker_open(&maker, 0, "L");
    maker_initializer(&maker, "rows", INT64, DIMS(3), rows, sizeof rows);
    maker_node(&maker, "Reshape", "rows", "x rows", "y");
    write_model("table.onnx");
    check("freeze table.onnx -o open.tessera", 0, "graph 1 of 1: L == 252");
}

/* ---- nothing runs ---- */

static status_t note_run(context_t *ctx, void *user, const op_event_t *event)
{
    (void)ctx, (void)event;
    ++*(int *)user;
    return STATUS_OK;
}

/* Plans are made and tuned for sizes. Counters and observers must show that no operator runs. */
static void no_operator_runs_while_a_plan_is_made_of_sizes(void **state)
{
    context_t *ctx = fixture_context(state);
    static const float weight[16 * 16 * 9] = {1.0f};
    int n_runs = 0;
    observer_t observer = {.user = &n_runs, .op_end = note_run};
    module_t *model = NULL, *frozen = NULL;
    freeze_tuned_t tuned;
    counters_t counters;
    begin_model(17, DIMS(-1, 16, 24, 24));
    maker_initializer(&maker, "w", FLOAT, DIMS(16, 16, 3, 3), weight, sizeof weight);
    maker_node(&maker, "Conv", "conv", "x w", "c");
    maker_node(&maker, "Relu", "relu", "c", "y");
    model = load_model(ctx);
    CHECK_OK(ctx, freeze_take(ctx, &model, NULL, &frozen));
    const tensor_info_t info = info_dense(DTYPE_F32, 4, (const int64_t[]){2, 16, 24, 24});
    const tensor_info_t *infos[] = {&info};
    CHECK_OK(ctx, dispatch_add_observer(ctx, &observer));
    counters_reset(ctx);
    CHECK_OK(ctx, plan_warm_for(ctx, frozen, "forward", 1, infos));
    CHECK_OK(ctx, freeze_tune_for(ctx, frozen, 1, infos, 0.05, &tuned));
    CHECK_OK(ctx, plan_warm_for(ctx, frozen, "forward", 1, infos));
    counters_read(ctx, &counters);
    dispatch_remove_observer(ctx, &observer);
    assert_int_equal(n_runs, 0);
    assert_int_equal(counters.operators, 0);
    assert_true(tuned.n_measured > 0);
    assert_int_equal(counters.plans_built, 2);
    assert_non_null(plan_of(frozen, "forward"));
    const tensor_info_t other = info_dense(DTYPE_F32, 4, (const int64_t[]){2, 8, 24, 24});
    CHECK_FAILS(ctx, plan_warm_for(ctx, frozen, "forward", 1, (const tensor_info_t *[]){&other}),
                STATUS_INVALID_ARGUMENT, "f32[2,8,24,24]");
    CHECK_OK(ctx, plan_warm_for(ctx, frozen, "forward", 1, (const tensor_info_t *[]){NULL}));
    module_release(frozen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(models_that_random_values_break_are_frozen),
        TEST(options_that_measure_on_values_need_values),
        TEST(a_file_has_a_graph_for_each_shape_that_needs_one),
        TEST(graphs_of_one_model_are_added),
        TEST(every_allocation_of_an_addition_may_fail),
        TEST(a_graph_that_is_like_no_method_is_refused),
        TEST(open_sizes_need_no_shape),
        TEST(no_operator_runs_while_a_plan_is_made_of_sizes),
    };
    return cmocka_run_group_tests(tests, scratch_begin, scratch_end);
}
