/* tessera info: describes this build, the machine, the operators, and the content of a file. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/base/try_impl.h"
#include "tools/command/info_file.h"
#include "tools/support/command.h"
#include "tools/support/print.h"
#include "tools/support/session.h"
#include "tools/support/stop.h"
#include "tools/support/table.h"

#define NAME "info"

static const args_command_t command = {.name = NAME,
                                       .operands = "[FILE.safetensors | FILE.gguf]",
                                       .min_operands = 0,
                                       .max_operands = 1,
                                       .example = "tessera info --ops",
                                       .about = "Prints versions, threads, modes, networks of the "
                                                "zoo, environment variables and, with --ops,\n"
                                                "operators. For a file of weights prints its "
                                                "metadata, and the types, sizes and names of its\n"
                                                "tensors."};

static void print_networks(void)
{
    print("zoo:     ");
    for (const char *const *name = zoo_names(); *name != NULL; name++) print(" %s", *name);
    print("\nmodes:   ");
    for (int mode = 0; mode < MODE_COUNT; mode++) print(" %s", mode_name((run_mode_t)mode));
    print("\npasses:  ");
    const char *const *const pipelines[] = {pass_pipeline_freeze(), pass_pipeline_optimize(),
                                            pass_pipeline_plan()};
    for (size_t i = 0; i < sizeof pipelines / sizeof *pipelines; i++)
        for (const char *const *name = pipelines[i]; *name != NULL; name++) print(" %s", *name);
    print("\n");
}

static status_t print_environment(context_t *ctx)
{
    static const char *const columns[] = {"<environment", "<value", "<meaning"};
    table_t table;
    int n = 0;
    const environment_variable_t *variables = context_environment(&n);
    table_begin(ctx, &table, 3, columns);
    for (int i = 0; i < n; i++) {
        const char *value = getenv(variables[i].name);
        table_cell(&table, "%s", variables[i].name);
        table_cell(&table, "%s", value != NULL ? value : "-");
        table_cell(&table, "%s", variables[i].help);
    }
    return table_print(&table);
}

static const char *preference_name(op_preference_t preference)
{
    switch (preference) {
    case OP_DENSE: return "dense";
    case OP_FOLLOWS: return "follows";
    case OP_PREFERS: return "prefers";
    }
    return "?";
}

static void add_operands(const opdef_t *op, char *out_text, size_t capacity)
{
    out_text[0] = '\0';
    for (int i = 0; i < op->n_operands; i++) {
        size_t length = strlen(out_text);
        snprintf(out_text + length, capacity - length, "%s%s%s%s", i > 0 ? ", " : "",
                 op->operands[i].name, op->operands[i].is_optional ? "?" : "",
                 op->operands[i].is_variadic ? "..." : "");
    }
}

static status_t print_operators(context_t *ctx)
{
    static const char *const columns[] = {"<operator", "<layout", "<kernels", "<operands"};
    char text[256];
    table_t table;
    table_begin(ctx, &table, 4, columns);
    for (int i = 0; i < ops_count(); i++) {
        const opdef_t *op = ops_at(i);
        table_cell(&table, "%s", op->name);
        table_cell(&table, "%s", preference_name(op->preference));
        text[0] = '\0';
        for (const kernel_t *const *kernel = op->kernels; *kernel != NULL; kernel++) {
            size_t length = strlen(text);
            snprintf(text + length, sizeof text - length, "%s%s", length > 0 ? ", " : "",
                     (*kernel)->name);
        }
        table_cell(&table, "%s", text);
        add_operands(op, text, sizeof text);
        table_cell(&table, "%s", text);
    }
    TRY(table_print(&table));
    print("%d operators. Their operands become mkldnn (prefers) or dense (dense), or keep their "
          "layout (follows)\n",
          ops_count());
    return STATUS_OK;
}

static status_t print_info(context_t *ctx, bool has_operators)
{
    char bounds[128];
    print("tessera   %s\noneDNN    %s, %s\nthreads   %d: %s\n", tessera_version_text(),
          onednn_version_text(), onednn_isa_text(), context_threads(ctx),
          context_threads_text(bounds, sizeof bounds));
    print_networks();
    print("\n");
    TRY(print_environment(ctx));
    if (!has_operators) return STATUS_OK;
    print("\n");
    return print_operators(ctx);
}

static bool ends_in(const char *path, const char *ending)
{
    const size_t length = strlen(path), of_ending = strlen(ending);
    return length > of_ending && strcmp(path + length - of_ending, ending) == 0;
}

static status_t print_file(context_t *ctx, const char *path)
{
    return ends_in(path, ".gguf") ? info_gguf(ctx, path) : info_file(ctx, path);
}

int command_info(int argc, char **argv)
{
    bool has_operators = false;
    args_list_t operands;
    int code;
    const args_option_t table[] = {
        {"--ops", ARGS_FLAG, &has_operators, NULL, "also print the operators", 0, 0}};
    if (!args_parse(&command, table, 1, argc, argv, &operands, &code)) return code;
    const char *path = operands.n > 0 ? operands.items[0] : NULL;
    if (path != NULL && has_operators)
        return args_usage_error(NAME, "--ops must not be combined with a file, %s", path);
    if (path != NULL && !ends_in(path, ".safetensors") && !ends_in(path, ".gguf"))
        return args_usage_error(NAME, "\"%s\" is not FILE.safetensors or FILE.gguf", path);
    context_t *ctx = NULL;
    status_t status = stop_create(NULL, &ctx);
    if (status == STATUS_OK)
        status = path != NULL ? print_file(ctx, path) : print_info(ctx, has_operators);
    bool is_done = session_check(NAME, ctx, status);
    stop_destroy(ctx);
    return is_done ? EXIT_DONE : EXIT_FAILED;
}
