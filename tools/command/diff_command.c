/* tessera diff: finds the first node whose results differ between two modes. */
#include <stdio.h>
#include <string.h>

#include "tensor/base/try_impl.h"
#include "tools/command/diff.h"
#include "tools/support/command.h"
#include "tools/support/print.h"
#include "tools/support/session.h"

#define NAME "diff"
#define DEFAULT_MODES "mkldnn,dense"
#define DEFAULT_TOLERANCE 1e-4

static const args_command_t command = {
    .name = NAME,
    .operands = "MODEL",
    .min_operands = 1,
    .max_operands = 1,
    .example = "tessera diff zoo:squeezenet1_1 --modes mkldnn,dense",
    .about = "Runs a model in two modes on the same inputs. Prints the first node whose result "
             "differs by\n"
             "more than the tolerance, with operator, module path, both formats and the "
             "difference, and\n"
             "the node with the largest difference. Exits with 3 if a node differs.",
    .more =
        "modes: dense, nhwc, mkldnn (mkldnn,dense if not given). graph and frozen fuse nodes,\n"
        "  which have no counterpart in other modes: tessera run MODEL --verify N checks those."};

/* Parses two modes. They must differ, and both must run operator by operator. */
static bool parse_modes(const char *given, run_mode_t *out_modes)
{
    char text[256], hint[ARGS_HINT_MAX];
    args_list_t names;
    const char *nearest = NULL;
    snprintf(text, sizeof text, "%s", given);
    bool is_right = strlen(given) < sizeof text && args_split(text, &names) && names.n == 2;
    for (int i = 0; is_right && i < 2; i++) {
        is_right = mode_parse(names.items[i], &out_modes[i]);
        if (!is_right) nearest = session_nearest_mode(names.items[i]);
        is_right = is_right && out_modes[i] != MODE_GRAPH && out_modes[i] != MODE_FROZEN;
    }
    if (is_right && out_modes[0] != out_modes[1]) return true;
    args_usage_error(NAME, "--modes %s, must be two of dense,nhwc,mkldnn%s", given,
                     args_hint(nearest, hint));
    return false;
}

static void print_node(const diff_node_t *node)
{
    print("%s%s%s, max |a-b| / max |b| = %.3g\n", node->name, node->path[0] != '\0' ? " at " : "",
          node->path, node->difference);
}

static void print_how(run_mode_t mode, const char *how)
{
    print("  %-6s  %s\n", mode_name(mode), how);
}

static void print_result(const diff_result_t *result, const run_mode_t *modes, double tolerance)
{
    if (result->has_first) {
        print("first difference: ");
        print_node(&result->first);
        print_how(modes[0], result->first.a);
        print_how(modes[1], result->first.b);
    } else {
        print("no node differs by more than %.3g\n", tolerance);
    }
    if (result->n_nodes > 0) {
        print("largest difference: ");
        print_node(&result->largest);
    }
    print("%d nodes compared", result->n_nodes);
    if (result->n_alone > 0) print(", %d in one of the modes only", result->n_alone);
    print("\n");
}

/* Runs each mode in its own session, because contexts have one policy, and modules hold the packed
 * weights. */
static int diff(const char *spec, const session_options_t *options, const run_mode_t *modes,
                double tolerance)
{
    session_t first, second;
    diff_result_t result;
    if (!session_begin(NAME, spec, options, &first)) return EXIT_FAILED;
    bool is_done = session_clone(NAME, &first, &second);
    if (is_done) {
        is_done = session_prepare(NAME, &first, modes[0]) &&
                  session_prepare(NAME, &second, modes[1]) &&
                  session_check(NAME, first.ctx,
                                diff_runs(&first.runner, &second.runner, tolerance, &result));
        session_end(&second);
    }
    session_end(&first);
    if (!is_done) return EXIT_FAILED;
    print_result(&result, modes, tolerance);
    return result.has_first ? EXIT_DIFFERS : EXIT_DONE;
}

int command_diff(int argc, char **argv)
{
    session_options_t options = {.n_threads = 0};
    const char *modes_text = DEFAULT_MODES;
    double tolerance = DEFAULT_TOLERANCE;
    run_mode_t modes[2];
    args_list_t operands;
    int code;
    const args_option_t table[] = {
        option_of(OPTION_MODES, &modes_text),
        option_of(OPTION_TOLERANCE, &tolerance),
        SESSION_OPTIONS(options),
    };
    int n_options = (int)(sizeof table / sizeof *table);
    if (!args_parse(&command, table, n_options, argc, argv, &operands, &code)) return code;
    const char *spec = operands.items[0];
    if (!session_check_model(NAME, spec, &options) || !parse_modes(modes_text, modes))
        return EXIT_USAGE;
    return diff(spec, &options, modes, tolerance);
}
