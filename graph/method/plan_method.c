/* The method class "plan": a graph, and its plans for the shapes it was called with. */
#include <string.h>

#include "graph/ir/graph_impl.h"
#include "graph/ir/rewrite_impl.h"
#include "graph/ir/size_impl.h"
#include "graph/method/method_impl.h"
#include "graph/passes/pass_impl.h"
#include "graph/program/plan_impl.h"
#include "tensor/context_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/trace.h"

typedef struct entry {
    struct entry *next;
    int n_threads, n_inputs;
    program_t *program;
    graph_t *graph;
    char *layout;           /* what the layout pass chose */
    tensor_info_t inputs[]; /* dtype and sizes matter */
} entry_t;

/* Entries are kept with the most recently used first. */
typedef struct plan_method {
    allocator_t allocator;
    graph_t *graph;
    int capacity;
    pthread_mutex_t lock;
    entry_t *entries;
    char *layouts; /* lines "infos;choice" of plans to come, for `layouts_threads`; NULL: none */
    int layouts_threads;
} plan_method_t;

static void entry_release(const allocator_t *allocator, entry_t *entry)
{
    program_release(entry->program);
    graph_release(entry->graph);
    allocator_put(allocator, entry->layout);
    allocator_put(allocator, entry);
}

static void release_method(void *state)
{
    plan_method_t *method = state;
    allocator_t allocator = method->allocator;
    while (method->entries != NULL) {
        entry_t *next = method->entries->next;
        entry_release(&allocator, method->entries);
        method->entries = next;
    }
    graph_release(method->graph);
    allocator_put(&allocator, method->layouts);
    pthread_mutex_destroy(&method->lock);
    allocator_put(&allocator, method);
}

/* What a method keeps is its own allocator's, whichever context runs it. */
static status_t method_get(context_t *ctx, const plan_method_t *method, size_t bytes,
                           const char *purpose, void *out_block)
{
    void *block = allocator_get(&method->allocator, bytes);
    if (block == NULL)
        FAIL(ctx, STATUS_OUT_OF_MEMORY, "out of memory: %zu bytes for %s, the allocator refused",
             bytes, purpose);
    memset(block, 0, bytes);
    memcpy(out_block, &block, sizeof block);
    return STATUS_OK;
}

static status_t method_string(context_t *ctx, const plan_method_t *method, const char *text,
                              char **out_text)
{
    size_t bytes = strlen(text) + 1;
    TRY(method_get(ctx, method, bytes, "a layout", out_text));
    memcpy(*out_text, text, bytes);
    return STATUS_OK;
}

static status_t create_method(context_t *ctx, graph_t *graph, int capacity, void **out_state)
{
    plan_method_t *method = NULL;
    TRY(context_get_zeroed(ctx, sizeof *method, "a plan method", &method));
    method->allocator = *context_allocator(ctx);
    method->graph = graph_retain(graph);
    method->capacity = capacity > 0 ? capacity : PLAN_CAPACITY;
    pthread_mutex_init(&method->lock, NULL);
    *out_state = method;
    return STATUS_OK;
}

/* Plans belong to the module they read parameters of: a clone begins without. */
static status_t clone_method(context_t *ctx, const void *state, void **out_state)
{
    const plan_method_t *method = state;
    return create_method(ctx, method->graph, method->capacity, out_state);
}

/* ---- specialising ---- */

typedef struct shapes {
    int n;
    const tensor_info_t *infos;
} shapes_t;

static bool fits(const graph_t *graph, const shapes_t *shapes)
{
    const graph_block_t *body = graph_body(graph);
    int input = 0;
    for (int i = 0; i < body->n_params; i++) {
        const graph_type_t *type = graph_value_type(graph, body->params[i]);
        if (type->kind == TYPE_MODULE) continue;
        if (input == shapes->n) return false;
        const tensor_info_t *info = &shapes->infos[input++];
        if (!type_is_static(type) || type->info.dtype != info->dtype ||
            !shape_equal(type->info.rank, type->info.sizes, info->rank, info->sizes))
            return false;
    }
    return input == shapes->n;
}

/* The graph with its parameters typed as these inputs, and all types that follow. */
static status_t retype(context_t *ctx, const graph_t *graph, const shapes_t *shapes,
                       graph_t **out_graph)
{
    if (fits(graph, shapes)) return graph_close(ctx, graph, out_graph);
    return graph_resize(ctx, graph, shapes->infos, false, out_graph);
}

static status_t find_sized(void *user, const graph_node_t *node)
{
    *(bool *)user |= node->n_sized > 0;
    return STATUS_OK;
}

/* What `size` and `shape` give becomes constants, and so does what is calculated from them, and
 * from constants by integers that follow sizes. */
static status_t compute_sizes(context_t *ctx, const graph_t *open, graph_t **graph)
{
    bool has_sized = false;
    (void)rewrite_visit(graph_body(open), find_sized, &has_sized);
    static const char *const find[] = {"sizes", NULL};
    static const char *const compute[] = {"constant_propagation", "dead_code", NULL};
    graph_t *found = NULL, *computed = NULL;
    TRY(pass_run(ctx, *graph, find, NULL, &found));
    status_t status = STATUS_OK;
    if (found != *graph || has_sized) {
        status = pass_run(ctx, found, compute, NULL, &computed);
        if (status == STATUS_OK) {
            graph_release(*graph);
            *graph = computed;
        }
    }
    graph_release(found);
    return status;
}

/* What a plan for these shapes is built from. `known` and `chosen` are of the layout pass, and may
 * be NULL. */
static status_t specialise(context_t *ctx, module_t *self, const graph_t *graph,
                           const shapes_t *shapes, const char *known, text_t *chosen,
                           graph_t **out_graph)
{
    graph_t *typed = NULL;
    pass_options_t options = {.self = self, .layout = known, .out_layout = chosen};
    TRY(retype(ctx, graph, shapes, &typed));
    status_t status = compute_sizes(ctx, graph, &typed);
    if (status == STATUS_OK)
        status = pass_run(ctx, typed, pass_pipeline_plan(), &options, out_graph);
    graph_release(typed);
    return status;
}

/* ---- what the layout pass chose ---- */

/* "f32[1,3,224,224] s64[4];" */
static void print_key(const entry_t *entry, text_t *text)
{
    char info[INFO_TEXT_MAX];
    for (int i = 0; i < entry->n_inputs; i++)
        text_append(text, "%s%s", i > 0 ? " " : "", info_text(&entry->inputs[i], info));
    text_append(text, ";");
}

/* The line behind this key, or NULL. */
static const char *find_line(const char *lines, const char *key)
{
    size_t length = strlen(key);
    for (const char *at = lines; at != NULL && *at != '\0'; at = strchr(at, '\n') + 1)
        if (strncmp(at, key, length) == 0) return at + length;
    return NULL;
}

/* What was chosen for these inputs by whoever made the file; NULL when it is not known. */
static status_t known_layout(context_t *ctx, const plan_method_t *method, const entry_t *entry,
                             char **out_layout)
{
    *out_layout = NULL;
    if (method->layouts == NULL || method->layouts_threads != entry->n_threads) return STATUS_OK;
    text_t key = text_begin(ctx);
    print_key(entry, &key);
    const char *line = find_line(method->layouts, text_string(&key));
    status_t status = text_status(&key);
    if (status == STATUS_OK && line != NULL) {
        size_t length = (size_t)(strchr(line, '\n') - line);
        status = context_get_zeroed(ctx, length + 1, "a layout", out_layout);
        if (status == STATUS_OK) memcpy(*out_layout, line, length);
    }
    text_clear(&key);
    return status;
}

static status_t choose_graph(context_t *ctx, module_t *self, const plan_method_t *method,
                             const shapes_t *shapes, entry_t *entry)
{
    char *known = NULL;
    text_t chosen = text_begin(ctx);
    TRY(known_layout(ctx, method, entry, &known));
    status_t status = specialise(ctx, self, method->graph, shapes, known, &chosen, &entry->graph);
    if (status == STATUS_OK) status = text_status(&chosen);
    if (status == STATUS_OK)
        status = method_string(ctx, method, text_string(&chosen), &entry->layout);
    text_clear(&chosen);
    context_put(ctx, known);
    return status;
}

static status_t fill_entry(context_t *ctx, module_t *self, const plan_method_t *method,
                           const shapes_t *shapes, entry_t *entry)
{
    TRY(choose_graph(ctx, self, method, shapes, entry));
    return program_create(ctx, entry->graph, self, &entry->program);
}

static bool matches(const entry_t *entry, int n_threads, int n_in, const tensor_info_t *const *in)
{
    if (entry->n_threads != n_threads || entry->n_inputs != n_in) return false;
    for (int i = 0; i < n_in; i++)
        if (in[i]->dtype != entry->inputs[i].dtype ||
            !shape_equal(in[i]->rank, in[i]->sizes, entry->inputs[i].rank, entry->inputs[i].sizes))
            return false;
    return true;
}

/* Under the lock: the entry for these inputs, moved to the front; made when there is none. */
static status_t find_entry(context_t *ctx, module_t *self, plan_method_t *method, int n_in,
                           const tensor_info_t *const *in, entry_t **out_entry)
{
    int n = 0;
    entry_t **last = &method->entries;
    for (entry_t **at = &method->entries; *at != NULL; at = &(*at)->next, n++) {
        last = at;
        if (!matches(*at, context_threads(ctx), n_in, in)) continue;
        entry_t *entry = *at;
        *at = entry->next;
        entry->next = method->entries;
        method->entries = entry;
        *out_entry = entry;
        return STATUS_OK;
    }
    TRY(graph_check_inputs(ctx, method->graph, n_in, in));
    entry_t *entry = NULL;
    size_t bytes = sizeof *entry + (size_t)n_in * sizeof(tensor_info_t);
    TRY(method_get(ctx, method, bytes, "a plan", &entry));
    entry->n_threads = context_threads(ctx);
    entry->n_inputs = n_in;
    for (int i = 0; i < n_in; i++)
        entry->inputs[i] = info_dense(in[i]->dtype, in[i]->rank, in[i]->sizes);
    shapes_t shapes = {n_in, entry->inputs};
    status_t status = fill_entry(ctx, self, method, &shapes, entry);
    if (status != STATUS_OK) {
        entry_release(&method->allocator, entry);
        return status;
    }
    context_counters(ctx)->plans_built++;
    if (n >= method->capacity) {
        text_t key = text_begin(ctx);
        print_key(*last, &key);
        trace_event(ctx, TRACE_PLAN, "evicted,%s,\"%s\",%d", graph_name(method->graph),
                    text_string(&key), method->capacity);
        text_clear(&key);
        context_counters(ctx)->plans_evicted++;
        entry_release(&method->allocator, *last);
        *last = NULL;
    }
    entry->next = method->entries;
    method->entries = entry;
    *out_entry = entry;
    return STATUS_OK;
}

/* ---- running ---- */

/* The program for these inputs, retained. */
static status_t find_program(context_t *ctx, module_t *self, plan_method_t *method, int n_in,
                             const tensor_info_t *const *infos, program_t **out_program)
{
    entry_t *entry = NULL;
    pthread_mutex_lock(&method->lock);
    status_t status = find_entry(ctx, self, method, n_in, infos, &entry);
    if (status == STATUS_OK) *out_program = program_retain(entry->program);
    pthread_mutex_unlock(&method->lock);
    return status;
}

static status_t run_method(context_t *ctx, module_t *self, void *state, int n_in,
                           datum_t *const *in, int *n_out, datum_t **out)
{
    plan_method_t *method = state;
    const tensor_info_t *infos[METHOD_MAX_OUTPUTS];
    for (int i = 0; i < n_in; i++) {
        bool is_tensor = n_in <= METHOD_MAX_OUTPUTS && in[i] != NULL &&
                         datum_kind(in[i]) == DATUM_TENSOR;
        if (!is_tensor) return graph_run(ctx, method->graph, self, n_in, in, n_out, out);
        infos[i] = &datum_as_tensor(in[i])->info;
    }
    program_t *program = NULL;
    status_t status = find_program(ctx, self, method, n_in, infos, &program);
    if (status == STATUS_OK) status = program_run(ctx, program, self, n_in, in, n_out, out);
    program_release(program);
    return status;
}

/* Only a plan writes results where they shall be: a program with control flow is not run here. */
static status_t run_into(context_t *ctx, module_t *self, void *state, int n_in,
                         const tensor_t *const *in, int n_wanted, tensor_t *const *wanted,
                         int *n_out, tensor_t **out)
{
    const tensor_info_t *infos[METHOD_MAX_OUTPUTS];
    program_t *program = NULL;
    *n_out = -1;
    if (n_in > METHOD_MAX_OUTPUTS) return STATUS_OK;
    for (int i = 0; i < n_in; i++) infos[i] = &in[i]->info;
    TRY(find_program(ctx, self, state, n_in, infos, &program));
    status_t status = STATUS_OK;
    if (program->plan != NULL) {
        status = plan_execute_into(ctx, program->plan, n_in, in, n_wanted, wanted, out);
        *n_out = program->plan->n_results;
    }
    program_release(program);
    return status;
}

static void *own_graph(void *state)
{
    plan_method_t *method = state;
    return method->graph;
}

static status_t describe_method(context_t *ctx, void *state, bool is_output, int index, int *out_n,
                                struct module_value *out_value)
{
    return graph_describe(ctx, own_graph(state), is_output, index, out_n, out_value);
}

static const method_class_t plan_class = {.name = "plan",
                                          .run = run_method,
                                          .release = release_method,
                                          .clone = clone_method,
                                          .graph = own_graph,
                                          .describe = describe_method,
                                          .run_into = run_into};

status_t plan_set_method(context_t *ctx, module_t *module, const char *method, graph_t *graph,
                         int capacity)
{
    if (module == NULL) return context_null(ctx, "plan_set_method", "module");
    if (graph == NULL) return context_null(ctx, "plan_set_method", "graph");
    void *state = NULL;
    TRY(create_method(ctx, graph, capacity, &state));
    return module_set_method_take(ctx, module, method, &plan_class, state);
}

static plan_method_t *find_method(const module_t *module, const char *method)
{
    void *state = NULL;
    return module_method(module, method, &state) == &plan_class ? state : NULL;
}

bool plan_is_method(const module_t *module, const char *method)
{
    return find_method(module, method) != NULL;
}

int plan_capacity(const module_t *module, const char *method)
{
    plan_method_t *found = find_method(module, method);
    if (found == NULL) return 0;
    pthread_mutex_lock(&found->lock);
    int capacity = found->capacity;
    pthread_mutex_unlock(&found->lock);
    return capacity;
}

void plan_set_capacity(module_t *module, const char *method, int capacity)
{
    plan_method_t *found = find_method(module, method);
    if (found == NULL) return;
    pthread_mutex_lock(&found->lock);
    found->capacity = capacity > 0 ? capacity : PLAN_CAPACITY;
    entry_t **end = &found->entries;
    for (int n = 0; *end != NULL && n < found->capacity; n++) end = &(*end)->next;
    while (*end != NULL) {
        entry_t *entry = *end;
        *end = entry->next;
        entry_release(&found->allocator, entry);
    }
    pthread_mutex_unlock(&found->lock);
}

/* The entries' lines, the oldest first, behind those that are known already. */
static void print_entries(const entry_t *entry, int n_threads, text_t *text)
{
    if (entry == NULL) return;
    print_entries(entry->next, n_threads, text);
    if (entry->n_threads != n_threads || entry->layout[0] == '\0') return;
    text_t key = text_begin(text->ctx);
    print_key(entry, &key);
    if (text_status(&key) != STATUS_OK)
        text->status = text_status(&key);
    else if (find_line(text_string(text), text_string(&key)) == NULL)
        text_append(text, "%s%s\n", text_string(&key), entry->layout);
    text_clear(&key);
}

status_t plan_layouts(context_t *ctx, module_t *module, const char *method, text_t *text)
{
    plan_method_t *found = find_method(module, method);
    if (found == NULL) return STATUS_OK;
    int n_threads = context_threads(ctx);
    pthread_mutex_lock(&found->lock);
    if (found->layouts != NULL && found->layouts_threads == n_threads)
        text_append(text, "%s", found->layouts);
    print_entries(found->entries, n_threads, text);
    pthread_mutex_unlock(&found->lock);
    return text_status(text);
}

status_t plan_set_layouts(context_t *ctx, module_t *module, const char *method, const char *lines)
{
    plan_method_t *found = find_method(module, method);
    if (found == NULL || lines[0] == '\0' || lines[strlen(lines) - 1] != '\n') return STATUS_OK;
    char *copy = NULL;
    TRY(method_string(ctx, found, lines, &copy));
    pthread_mutex_lock(&found->lock);
    allocator_put(&found->allocator, found->layouts);
    found->layouts = copy;
    found->layouts_threads = context_threads(ctx);
    pthread_mutex_unlock(&found->lock);
    return STATUS_OK;
}

program_t *program_of(const module_t *module, const char *method)
{
    plan_method_t *found = find_method(module, method);
    if (found == NULL) return NULL;
    pthread_mutex_lock(&found->lock);
    program_t *program = found->entries == NULL ? NULL : program_retain(found->entries->program);
    pthread_mutex_unlock(&found->lock);
    return program;
}

/* The method keeps the program that the plan belongs to. */
plan_t *plan_of(const module_t *module, const char *method)
{
    program_t *program = program_of(module, method);
    plan_t *plan = program == NULL ? NULL : program->plan;
    program_release(program);
    return plan;
}

status_t plan_warm(context_t *ctx, module_t *module, const char *method)
{
    if (module == NULL) return context_null(ctx, "plan_warm", "module");
    if (method == NULL) return context_null(ctx, "plan_warm", "method");
    plan_method_t *found = find_method(module, method);
    if (found == NULL) return STATUS_OK;
    const tensor_info_t *infos[METHOD_MAX_OUTPUTS];
    const graph_block_t *body = graph_body(found->graph);
    int n = 0;
    for (int i = 0; i < body->n_params; i++) {
        const graph_type_t *type = graph_value_type(found->graph, body->params[i]);
        if (type->kind == TYPE_MODULE) continue;
        if (!type_is_static(type) || n == METHOD_MAX_OUTPUTS) return STATUS_OK;
        infos[n++] = &type->info;
    }
    entry_t *entry = NULL;
    pthread_mutex_lock(&found->lock);
    status_t status = find_entry(ctx, module, found, n, infos, &entry);
    pthread_mutex_unlock(&found->lock);
    return status;
}

/* ---- for one set of inputs ---- */

static status_t check_tensors(context_t *ctx, const graph_t *graph)
{
    const graph_block_t *body = graph_body(graph);
    for (int i = 0; i < body->n_params; i++) {
        type_kind_t kind = graph_value_type(graph, body->params[i])->kind;
        REQUIRE(ctx, kind == TYPE_MODULE || kind == TYPE_TENSOR || kind == TYPE_UNKNOWN,
                "graph_for: %%%s of %s is no tensor, and tensors alone can be given",
                graph_value_name(graph, body->params[i]), graph_name(graph));
    }
    return STATUS_OK;
}

static status_t specialise_for(context_t *ctx, module_t *module, const graph_t *graph, int n_in,
                               const tensor_t *const *inputs, graph_t **out_graph)
{
    tensor_info_t *infos = NULL;
    for (int i = 0; i < n_in; i++)
        if (inputs[i] == NULL) return context_null(ctx, "graph_for", "an input");
    TRY(check_tensors(ctx, graph));
    TRY(context_get(ctx, (size_t)n_in * sizeof *infos, "infos of inputs", &infos));
    const tensor_info_t **given = NULL;
    status_t status = context_get(ctx, (size_t)n_in * sizeof *given, "infos of inputs", &given);
    for (int i = 0; i < n_in && status == STATUS_OK; i++) {
        given[i] = &inputs[i]->info;
        infos[i] = info_dense(given[i]->dtype, given[i]->rank, given[i]->sizes);
    }
    if (status == STATUS_OK) status = graph_check_inputs(ctx, graph, n_in, given);
    if (status == STATUS_OK)
        status = specialise(ctx, module, graph, &(shapes_t){n_in, infos}, NULL, NULL, out_graph);
    context_put(ctx, given);
    context_put(ctx, infos);
    return status;
}

status_t graph_for(context_t *ctx, module_t *module, const char *method, int n_in,
                   const tensor_t *const *inputs, graph_t **out_graph)
{
    TRY(context_output(ctx, "graph_for", out_graph));
    if (module == NULL) return context_null(ctx, "graph_for", "module");
    if (method == NULL) return context_null(ctx, "graph_for", "method");
    graph_t *graph = graph_of(module, method), *optimized = NULL;
    if (plan_is_method(module, method))
        return specialise_for(ctx, module, graph, n_in, inputs, out_graph);
    REQUIRE(ctx, graph != NULL,
            "graph_for: %s has no graph of method \"%s\", graph_trace or graph_define gives it one",
            module_type(module), method);
    TRY(pass_run(ctx, graph, pass_pipeline_graph(), &(pass_options_t){.self = module}, &optimized));
    status_t status = specialise_for(ctx, module, optimized, n_in, inputs, out_graph);
    graph_release(optimized);
    return status;
}
