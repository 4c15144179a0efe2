#include "tests/api/objects.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tessera.h"

enum { BYTES = 1 << 16, LARGEST = 1 << 26, KINDS = 8 };

static char folder[] = "/tmp/tessera_arguments_XXXXXX";

/* Refuses very large blocks, like any allocation that fails. */
static void *get(void *user, size_t bytes)
{
    (void)user;
    return bytes > LARGEST ? NULL : aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
}
static void put(void *user, void *block)
{
    (void)user;
    free(block);
}

static struct {
    context_t *ctx;
    tensor_t *tensors[KINDS];
    datum_t *data[KINDS];
    module_t *modules[4];
    graph_t *graph;
    graph_builder_t *builder;
    plan_t *plan;
    optimizer_t *optimizer;
    tape_t *tape;
    profile_t *profile;
    dataset_t *dataset;
    loader_t *loader;
    trainer_t *trainer;
    prepared_t *prepared;
    parallel_t *parallel;
    safetensors_t *safetensors;
    gguf_t *gguf;
    generator_t *generator;
    tokenizer_t *tokenizer;
    file_mapping_t *mapping;
    file_writer_t *writer;
    text_t text;
    format_t format;
    observer_t observer;
    FILE *stream;
    const tensor_t *tensor_list[OBJECTS_ARRAY];
    const datum_t *datum_list[OBJECTS_ARRAY];
    const tensor_info_t *info_list[OBJECTS_ARRAY];
    const char *name_list[OBJECTS_ARRAY];
    int64_t numbers[3][OBJECTS_ARRAY];
    value_t values[OBJECTS_ARRAY];
    double doubles[OBJECTS_ARRAY];
} made;

/* Zeroed options and other input structs, and memory for outputs. */
static _Alignas(64) char zeros[BYTES], room[BYTES];

static status_t see(context_t *ctx, void *user, const op_event_t *event)
{
    (void)ctx, (void)user, (void)event;
    return STATUS_OK;
}
static status_t forward(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                        int *n_out, tensor_t **out)
{
    (void)self, (void)n_in, (void)n_out;
    return op_relu(ctx, in[0], out);
}
static status_t visit(context_t *ctx, void *user, const char *path, module_t *module)
{
    (void)ctx, (void)user, (void)path, (void)module;
    return STATUS_OK;
}
static status_t loss(context_t *ctx, void *user, const tensor_t *output, const tensor_t *target,
                     tensor_t **out_loss)
{
    (void)user;
    return loss_mse(ctx, output, target, REDUCTION_MEAN, out_loss);
}
static void sink(void *user, const progress_t *progress)
{
    (void)user, (void)progress;
}
static void drop(void *user, void *data)
{
    (void)user, (void)data;
}

static void make_tensors(void)
{
    context_t *ctx = made.ctx;
    tensor_rand(ctx, DTYPE_F32, SHAPE(2, 3, 8, 8), &made.tensors[0]);
    tensor_rand(ctx, DTYPE_F32, SHAPE(3, 3, 3, 3), &made.tensors[1]);
    tensor_zeros(ctx, DTYPE_S64, SHAPE(3), &made.tensors[2]);
    tensor_rand(ctx, DTYPE_F32, SHAPE(3), &made.tensors[3]);
    to_mkldnn(ctx, made.tensors[0], &made.tensors[4]);
    tensor_number(ctx, 2, &made.tensors[5]);
    tensor_zeros(ctx, DTYPE_BOOL, SHAPE(2, 3, 8, 8), &made.tensors[6]);
    tensor_rand(ctx, DTYPE_F32, SHAPE(2, 0, 8), &made.tensors[7]);
    for (int i = 0; i < OBJECTS_ARRAY; i++) {
        made.tensor_list[i] = made.tensors[i % KINDS];
        made.info_list[i] = tensor_info(made.tensors[i % KINDS]);
        made.numbers[0][i] = 1 + i % 3;
        made.numbers[1][i] = i % 3;
        made.numbers[2][i] = i;
        made.values[i] = i % 3;
        made.doubles[i] = 0.5;
        made.name_list[i] = i < 3 ? (const char *const[]){"forward", "weight", "x"}[i] : NULL;
    }
}

static void make_data(void)
{
    context_t *ctx = made.ctx;
    datum_tensor(ctx, made.tensors[0], &made.data[0]);
    datum_int(ctx, 3, &made.data[1]);
    datum_float(ctx, 0.5, &made.data[2]);
    datum_bool(ctx, true, &made.data[3]);
    datum_string(ctx, "text", &made.data[4]);
    datum_list(ctx, 2, made.data, &made.data[5]);
    datum_dict(ctx, 2, (const char *[]){"a", "b"}, made.data, &made.data[6]);
    datum_tuple(ctx, 2, made.data, &made.data[7]);
    for (int i = 0; i < OBJECTS_ARRAY; i++) made.datum_list[i] = made.data[i % KINDS];
}

static void make_modules(void)
{
    context_t *ctx = made.ctx;
    module_t *conv = NULL, *relu = NULL;
    const tensor_t *x = made.tensors[0];
    for (int i = 0; i < 3; i++) {
        layer_sequential(ctx, &made.modules[i]);
        layer_conv2d(ctx, 3, 3, 3, &(conv_attrs_t){.padding = {1, 1}}, true, &conv);
        layer_append_take(ctx, made.modules[i], conv);
        layer_activation(ctx, ELTWISE_RELU, 0, 0, &relu);
        layer_append_take(ctx, made.modules[i], relu);
        if (i > 0) graph_trace(ctx, made.modules[i], "forward", 1, &x);
    }
    freeze(ctx, made.modules[1], NULL, &made.modules[3]);
    graph_for(ctx, made.modules[1], "forward", 1, &x, &made.graph);
    plan_create(ctx, made.graph, made.modules[1], &made.plan);
}

static void make_training(void)
{
    context_t *ctx = made.ctx;
    const sgd_options_t options = {.lr = 0.1};
    optimizer_sgd(ctx, made.modules[0], &options, &made.optimizer);
    dataset_from_tensors(ctx, made.tensors[0], made.tensors[0], &made.dataset);
    loader_create(ctx, made.dataset, &(loader_options_t){.batch = 1}, &made.loader);
    trainer_create(ctx, made.modules[0], loss, NULL, made.optimizer, NULL, &made.trainer);
    tape_create(ctx, &made.tape);
    tape_pause(made.tape);
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

void objects_reset(void)
{
    static const char *const names[] = {"net.tessera", "net.safetensors", "x.npy"};
    static struct stat written[3];
    struct stat now;
    for (int i = 0; i < 3; i++) {
        if (stat(names[i], &now) == 0 && is_same(&now, &written[i])) continue;
        if (i == 0) freeze_save(made.ctx, made.modules[3], names[i]);
        if (i == 1) module_save_safetensors(made.ctx, made.modules[0], names[i], NULL);
        if (i == 2) npy_save(made.ctx, names[i], made.tensors[0]);
        stat(names[i], &written[i]);
    }
    context_clear_error(made.ctx);
}

/* A file with the number "0", the string "weight" and the tensor "x". */
static void make_gguf(void)
{
    static const char bytes[] = "GGUF\3\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0"
                                "\1\0\0\0\0\0\0\0"
                                "0\4\0\0\0\7\0\0\0"
                                "\6\0\0\0\0\0\0\0"
                                "weight\x8\0\0\0\1\0\0\0\0\0\0\0"
                                "a"
                                "\1\0\0\0\0\0\0\0"
                                "x\0\0\0\0\x18\0\0\0\0\0\0\0\0\0\0\0";
    static const char padding[32] = {5}; /* the tensor's byte is among the padding */
    FILE *file = fopen("x.gguf", "wb");
    if (file == NULL) return;
    fwrite(bytes, 1, sizeof bytes - 1, file);
    for (int i = 0; i < 2; i++) fwrite(padding, 1, sizeof padding, file);
    fclose(file);
    gguf_open(made.ctx, "x.gguf", &made.gguf);
}

static void put_text(FILE *file, const char *text)
{
    const uint64_t length = strlen(text);
    fwrite(&length, 8, 1, file);
    fwrite(text, 1, length, file);
}

/* A tokenizer with one token, "a", and a chat template. */
static void make_tokenizer(void)
{
    static const uint32_t version = 3, string = 8, array = 9;
    static const uint64_t counts[2] = {0, 3}, one = 1;
    gguf_t *vocabulary = NULL;
    FILE *file = fopen("tokenizer.gguf", "wb");
    if (file == NULL) return;
    fwrite("GGUF", 1, 4, file);
    fwrite(&version, 4, 1, file);
    fwrite(counts, 8, 2, file);
    put_text(file, "tokenizer.ggml.model");
    fwrite(&string, 4, 1, file);
    put_text(file, "llama");
    put_text(file, "tokenizer.ggml.tokens");
    fwrite(&array, 4, 1, file);
    fwrite(&string, 4, 1, file);
    fwrite(&one, 8, 1, file);
    put_text(file, "a");
    put_text(file, "tokenizer.chat_template");
    fwrite(&string, 4, 1, file);
    put_text(file, "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
                   "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if "
                   "add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}");
    fclose(file);
    if (gguf_open(made.ctx, "tokenizer.gguf", &vocabulary) == STATUS_OK)
        tokenizer_create(made.ctx, vocabulary, &made.tokenizer);
    gguf_close(vocabulary);
}

void objects_make(void)
{
    const allocator_t allocator = {.get = get, .put = put};
    memset(&made, 0, sizeof made);
    context_create(&(context_options_t){.allocator = &allocator, .n_threads = 1}, &made.ctx);
    context_t *ctx = made.ctx;
    make_tensors();
    make_data();
    make_modules();
    make_training();
    objects_reset();
    graph_builder_create(ctx, "forward", &made.builder);
    graph_add_param(made.builder, "self", &(graph_type_t){.kind = TYPE_MODULE});
    dispatch_select(ctx, ops_find("relu"), NULL, 1, made.info_list, POLICY_AUTO, &made.prepared);
    safetensors_open(ctx, "net.safetensors", &made.safetensors);
    make_gguf();
    make_tokenizer();
    generator_create(ctx, TESSERA_SOURCE_DIR "/tests/io/decoder_llama.gguf",
                     &(generator_options_t){.capacity = 8}, &made.generator);
    file_map(ctx, "net.safetensors", &made.mapping);
    file_write_begin(ctx, "written", &made.writer);
    made.text.ctx = ctx;
    format_parse(ctx, "aBcd8b", &made.format);
    made.observer = (observer_t){.op_end = see};
    made.stream = fopen("/dev/null", "w");
    context_clear_error(ctx);
}

static struct {
    const call_t *call;
    const argument_t *arguments;
} traced;

static status_t forward_call(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                             int *n_out, tensor_t **out)
{
    const int status = traced.call->run(traced.arguments);
    if (status != STATUS_OK && traced.call->has_status) return (status_t)status;
    return forward(ctx, self, n_in, in, n_out, out);
}

int objects_trace(const call_t *call, const argument_t *arguments)
{
    const tensor_t *in = made.tensors[0];
    module_t *module = NULL;
    traced.call = call;
    traced.arguments = arguments;
    status_t status = module_create(made.ctx, "Traced", &module);
    if (status == STATUS_OK) status = module_set_forward(made.ctx, module, "forward", forward_call);
    if (status == STATUS_OK) status = graph_trace(made.ctx, module, "forward", 1, &in);
    module_release(module);
    return (int)status;
}

context_t *objects_context(void)
{
    return made.ctx;
}

static const char *pick_text(unsigned choice)
{
    static char path[300];
    if (path[0] == '\0') memset(path, 'n', sizeof path - 1);
    static const char *const texts[] = {
        "forward",        "weight", "x",      "0.weight", "net.safetensors", "x.gguf",
        "tokenizer.gguf", "relu",   "aBcd8b", "0",        "net.tessera",     "x.npy",
        "\x1b[31m",       "",       "a.b",    "\xff\xfe"};
    const unsigned n = sizeof texts / sizeof texts[0];
    return choice % (n + 1) == n ? path : texts[choice % (n + 1)];
}

/* Returns an object of this type, whose name is passed without a leading const. */
static void *pick_pointer(const char *type, unsigned choice)
{
    static const pool_attrs_t pool = {.kernel = {2, 2, 2}};
    static const upsample_attrs_t upsample = {.size = {4, 4}};
    static const loader_options_t loader_options = {.batch = 1};
    static const chat_message_t messages[OBJECTS_ARRAY] = {{"user", "a"}};
    static uint64_t generator[4] = {1}; /* some functions write it */
    static const char *const passes[] = {"dead_code", NULL};
    const unsigned n = choice % KINDS;
    const struct {
        const char *type;
        const void *object;
    } objects[] = {
        {"context_t *", made.ctx},
        {"tensor_t *", made.tensors[n]},
        {"datum_t *", made.data[n]},
        {"module_t *", made.modules[choice % 4]},
        {"graph_t *", made.graph},
        {"graph_builder_t *", made.builder},
        {"graph_node_t *", graph_producer(made.graph, (value_t)(choice % 4))},
        {"graph_type_t *", graph_value_type(made.graph, (value_t)(choice % 2))},
        {"plan_t *", made.plan},
        {"optimizer_t *", made.optimizer},
        {"tape_t *", made.tape},
        {"profile_t *", made.profile},
        {"dataset_t *", made.dataset},
        {"loader_t *", made.loader},
        {"trainer_t *", made.trainer},
        {"prepared_t *", made.prepared},
        {"parallel_t *", made.parallel},
        {"safetensors_t *", made.safetensors},
        {"gguf_t *", made.gguf},
        {"tokenizer_t *", made.tokenizer},
        {"generator_t *", made.generator},
        {"chat_message_t *", messages},
        {"file_mapping_t *", made.mapping},
        {"file_writer_t *", made.writer},
        {"text_t *", &made.text},
        {"observer_t *", &made.observer},
        {"format_t *", &made.format},
        {"tensor_info_t *", made.info_list[n]},
        {"opdef_t *", ops_at((int)(choice % 300))},
        {"attr_table_t *", &ops_at((int)(choice % 100))->attrs},
        {"FILE *", made.stream},
        {"emitter_t *", NULL},
        {"char *", pick_text(choice)},
        {"pool_attrs_t *", &pool},
        {"upsample_attrs_t *", &upsample},
        {"loader_options_t *", &loader_options},
        {"uint64_t *", generator},
        {"int64_t *", made.numbers[choice % 3]},
        {"value_t *", made.values},
        {"double *", made.doubles},
        {"tensor_t *const *", made.tensor_list},
        {"datum_t *const *", made.datum_list},
        {"tensor_info_t *const *", made.info_list},
        {"char *const *", choice % 2 ? made.name_list : passes},
    };
    for (size_t i = 0; i < sizeof objects / sizeof objects[0]; i++)
        if (strcmp(type, objects[i].type) == 0) return (void *)(uintptr_t)objects[i].object;
    return zeros;
}

/* Returns memory that a function may write to. */
static void *pick_output(const char *type, unsigned choice)
{
    if (strcmp(type, "char *") == 0 || strcmp(type, "int64_t *") == 0) return room;
    if (strcmp(type, "tensor_info_t *") == 0 || strcmp(type, "format_t *") == 0) return room;
    if (strcmp(type, "double *") == 0 || strcmp(type, "value_t *") == 0) return room;
    const size_t length = strlen(type);
    if (length > 3 && strcmp(type + length - 3, " **") == 0) {
        memset(room, 0, 64);
        *(void **)(void *)room = made.ctx;
        return room;
    }
    void *object = pick_pointer(type, choice);
    return object == zeros ? room : object;
}

static argument_t pick_function(const char *type)
{
    const struct {
        const char *type;
        uintptr_t address;
    } functions[] = {
        {"forward_t", (uintptr_t)forward},
        {"module_visit_t", (uintptr_t)visit},
        {"progress_sink_t", (uintptr_t)sink},
        {"train_loss_t", (uintptr_t)loss},
        {"void (*) (void *, void *)", (uintptr_t)drop},
    };
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (strcmp(type, functions[i].type) == 0)
            return (argument_t){.i = (int64_t)functions[i].address};
    return (argument_t){.p = NULL};
}

argument_t objects_pick(char kind, const char *type, unsigned choice)
{
    static const double doubles[] = {0.5, 1, 0, 1e-5, 2};
    if (kind == 'd') return (argument_t){.d = doubles[choice % 5]};
    if (kind == 'b') return (argument_t){.i = choice % 2};
    if (kind == 'e') return (argument_t){.i = choice % 3};
    if (kind == 'i') return (argument_t){.i = choice % 4};
    if (kind == 'f') return pick_function(type);
    if (strncmp(type, "const ", 6) == 0) return (argument_t){.p = pick_pointer(type + 6, choice)};
    return (argument_t){.p = pick_output(type, choice)};
}

bool objects_is_array(const char *type)
{
    const size_t length = strlen(type);
    static const char *const arrays[] = {"const int64_t *", "const value_t *", "const double *",
                                         "const float *",   "const void *",    "void *",
                                         "int64_t *"};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        if (strcmp(type, arrays[i]) == 0) return true;
    return length > 7 && strcmp(type + length - 7, "const *") == 0;
}

bool objects_begin(void)
{
    return mkdtemp(folder) != NULL && chdir(folder) == 0;
}

void objects_end(void)
{
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (chdir("/") != 0 || system(command) != 0) fprintf(stderr, "%s is left\n", folder);
}
