#include "graph/ir/graph_impl.h"
#include "graph/passes/pass_impl.h"
#include "tensor/text/trace.h"

void pass_note(context_t *ctx, const char *pass, const graph_node_t *node, const char *reason)
{
    if (!trace_wanted(ctx, TRACE_PASS)) return;
    const char *op = node->kind == NODE_OP ? node->op->name : node->name;
    trace_event(ctx, TRACE_PASS, "%s,,,,%s: %s", pass,
                node->path != NULL ? node->path : (op != NULL ? op : "a node"), reason);
}
