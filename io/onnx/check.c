/* Checks a model before the import: its opset, operators and functions. */
#include "io/onnx/function_impl.h"

#include <stdio.h>
#include <string.h>

#include "graph/ir/graph_impl.h"

#define MAX_FUNCTIONS 4096

static const char *text_or(const char *text, const char *other)
{
    return text != NULL && *text != '\0' ? text : other;
}

static const char *domain_of(const char *domain)
{
    return domain == NULL || strcmp(domain, "ai.onnx") == 0 ? "" : domain;
}

static status_t read_opset(onnx_t *onnx, size_t n, Onnx__OperatorSetIdProto *const *imports,
                           int64_t *out_opset)
{
    /* A model that uses only other domains does not declare ONNX's opset. */
    if (n > 0 && *out_opset == 0) *out_opset = ONNX_OPSET_LAST;
    for (size_t i = 0; i < n; i++)
        if (*domain_of(imports[i]->domain) == '\0') *out_opset = imports[i]->version;
    if (*out_opset < ONNX_OPSET_FIRST || *out_opset > ONNX_OPSET_LAST)
        FAIL(onnx->ctx, STATUS_UNSUPPORTED, "onnx: opset %lld, %d to %d are supported",
             (long long)*out_opset, ONNX_OPSET_FIRST, ONNX_OPSET_LAST);
    return STATUS_OK;
}

/* ---- fields missing in older versions of ONNX's schema ---- */

enum { OVERLOAD_OF_NODE = 8, OVERLOAD_OF_FUNCTION = 13, DEFAULTS_OF_FUNCTION = 11 };

/* Returns the bytes of a field that is missing in the schema, without their length prefix. */
static bool read_unknown(const ProtobufCMessageUnknownField *field, const uint8_t **out_bytes,
                         size_t *out_n)
{
    size_t at = 0;
    if (field->wire_type != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED) return false;
    while (at < field->len && (field->data[at] & 0x80) != 0) at++;
    at++;
    if (at > field->len) return false;
    *out_bytes = field->data + at;
    *out_n = field->len - at;
    return true;
}

/* Returns a string field, "" if it is missing. */
static const char *read_text(const ProtobufCMessage *message, unsigned tag, size_t *out_n)
{
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(
        message->descriptor, tag);
    const char *text = NULL;
    if (field != NULL) memcpy(&text, (const char *)message + field->offset, sizeof text);
    *out_n = text != NULL ? strlen(text) : 0;
    for (unsigned i = 0; field == NULL && i < message->n_unknown_fields; i++) {
        const uint8_t *bytes = NULL;
        if (message->unknown_fields[i].tag == tag &&
            read_unknown(&message->unknown_fields[i], &bytes, out_n))
            text = (const char *)bytes;
    }
    return text != NULL ? text : "";
}

static status_t add_default(onnx_t *onnx, const uint8_t *bytes, size_t n, onnx_function_t *function)
{
    context_t *ctx = onnx->ctx;
    TRY(onnx_wire_check(ctx, &onnx__attribute_proto__descriptor, bytes, n));
    TRY(context_grow(ctx, &function->defaults, &function->defaults_capacity,
                     function->n_defaults + 1, sizeof *function->defaults));
    Onnx__AttributeProto *attr = onnx__attribute_proto__unpack(&onnx->allocator, n, bytes);
    if (onnx->is_refused) return STATUS_OUT_OF_MEMORY;
    if (attr == NULL)
        FAIL(ctx, STATUS_CORRUPT, "onnx: a default of function \"%.64s\" is not an attribute",
             text_or(function->proto->name, ""));
    function->defaults[function->n_defaults++] = attr;
    return STATUS_OK;
}

/* Reads the default values of the function's attributes. If the schema of this build has the field,
 * they are borrowed from the message; otherwise they are unpacked from the unknown field. */
static status_t read_defaults(onnx_t *onnx, onnx_function_t *function)
{
    const ProtobufCMessage *message = &function->proto->base;
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(
        message->descriptor, DEFAULTS_OF_FUNCTION);
    if (field != NULL) {
        size_t n = 0;
        memcpy(&n, (const char *)message + field->quantifier_offset, sizeof n);
        memcpy(&function->defaults, (const char *)message + field->offset,
               sizeof function->defaults);
        function->n_defaults = (int)n;
        return STATUS_OK;
    }
    for (unsigned i = 0; i < message->n_unknown_fields; i++) {
        const uint8_t *bytes = NULL;
        size_t n = 0;
        if (message->unknown_fields[i].tag != DEFAULTS_OF_FUNCTION ||
            !read_unknown(&message->unknown_fields[i], &bytes, &n))
            continue;
        function->owns_defaults = true;
        TRY(add_default(onnx, bytes, n, function));
    }
    return STATUS_OK;
}

static status_t read_functions(onnx_t *onnx)
{
    const Onnx__ModelProto *model = onnx->model;
    if (model->n_functions > MAX_FUNCTIONS)
        FAIL(onnx->ctx, STATUS_UNSUPPORTED, "onnx: %zu functions, %d are the most",
             model->n_functions, MAX_FUNCTIONS);
    if (model->n_functions == 0) return STATUS_OK;
    TRY(context_get_zeroed(onnx->ctx, model->n_functions * sizeof *onnx->functions, "functions",
                           &onnx->functions));
    onnx->n_functions = (int)model->n_functions;
    for (int i = 0; i < onnx->n_functions; i++) {
        onnx->functions[i].proto = model->functions[i];
        TRY(read_defaults(onnx, &onnx->functions[i]));
    }
    return STATUS_OK;
}

void onnx_functions_end(onnx_t *onnx)
{
    for (int i = 0; i < onnx->n_functions; i++) {
        onnx_function_t *function = &onnx->functions[i];
        if (!function->owns_defaults) continue;
        for (int d = 0; d < function->n_defaults; d++)
            onnx__attribute_proto__free_unpacked(function->defaults[d], &onnx->allocator);
        context_put(onnx->ctx, (void *)function->defaults);
    }
    context_put(onnx->ctx, onnx->functions);
}

/* ---- operators and functions of nodes ---- */

onnx_function_t *onnx_function_of(const onnx_t *onnx, const Onnx__NodeProto *node)
{
    size_t n = 0, n_other = 0;
    if (onnx->n_functions == 0 || node->op_type == NULL) return NULL;
    const char *overload = read_text(&node->base, OVERLOAD_OF_NODE, &n);
    for (int i = 0; i < onnx->n_functions; i++) {
        const Onnx__FunctionProto *proto = onnx->functions[i].proto;
        if (strcmp(text_or(proto->name, ""), node->op_type) != 0 ||
            strcmp(domain_of(proto->domain), domain_of(node->domain)) != 0)
            continue;
        const char *other = read_text(&proto->base, OVERLOAD_OF_FUNCTION, &n_other);
        if (n == n_other && memcmp(overload, other, n) == 0) return &onnx->functions[i];
    }
    return NULL;
}

const onnx_operator_t *onnx_operator_of(const onnx_t *onnx, const Onnx__NodeProto *node)
{
    return node->op_type != NULL
               ? onnx_operator(domain_of(node->domain), node->op_type, onnx->opset)
               : NULL;
}

/* ---- unknown operators, all in one message ---- */

static bool is_same_operator(const Onnx__NodeProto *a, const Onnx__NodeProto *b)
{
    return strcmp(text_or(a->op_type, ""), text_or(b->op_type, "")) == 0 &&
           strcmp(domain_of(a->domain), domain_of(b->domain)) == 0;
}

/* Maximum number of unknown operators that the message lists. */
#define MAX_LISTED 32

static void list_unknown(const onnx_t *onnx, int n, const Onnx__NodeProto *const *unknown,
                         const int *n_nodes, text_t *text)
{
    text_append(text, "onnx: %d operator%s not supported: ", n, n == 1 ? " is" : "s are");
    for (int i = 0; i < n; i++) {
        const Onnx__NodeProto *node = unknown[i];
        bool is_ours = *domain_of(node->domain) == '\0';
        text_append(text, "%s%.64s%s%.64s (node \"%.64s\"", i > 0 ? ", " : "",
                    is_ours ? "" : node->domain, is_ours ? "" : ".", text_or(node->op_type, "\"\""),
                    onnx_path_of(node));
        if (n_nodes[i] > 1) text_append(text, " and %d more", n_nodes[i] - 1);
        if (is_ours) text_append(text, ", opset %lld", (long long)onnx->opset);
        text_append(text, ")");
    }
}

typedef struct unknown {
    int n;
    const Onnx__NodeProto *nodes[MAX_LISTED];
    int n_nodes[MAX_LISTED]; /* nodes that use that operator */
} unknown_t;

static void note_unknown(unknown_t *unknown, const Onnx__NodeProto *node)
{
    int at = 0;
    while (at < unknown->n && !is_same_operator(unknown->nodes[at], node)) at++;
    if (at == MAX_LISTED) return;
    if (at == unknown->n) unknown->nodes[unknown->n++] = node;
    unknown->n_nodes[at]++;
}

/* ---- checking all nodes ---- */

typedef struct walk {
    onnx_t *onnx;
    unknown_t unknown;
    int depth; /* nesting of function calls */
} walk_t;

static status_t walk_nodes(walk_t *walk, size_t n, Onnx__NodeProto *const *nodes,
                           int64_t *n_inlined);

static status_t fail_function(walk_t *walk, const onnx_function_t *function, const char *what)
{
    FAIL(walk->onnx->ctx, STATUS_UNSUPPORTED, "onnx: function \"%.64s\" of the model %s",
         text_or(function->proto->name, ""), what);
}

/* Checks a function once, together with the functions that it calls. */
static status_t walk_function(walk_t *walk, onnx_function_t *function, const Onnx__NodeProto *call)
{
    onnx_t *onnx = walk->onnx;
    const Onnx__FunctionProto *proto = function->proto;
    const int64_t opset = onnx->opset;
    for (size_t a = 0; a < call->n_attribute; a++)
        if (call->attribute[a]->g != NULL)
            return fail_function(walk, function, "is given a block of nodes");
    if (function->is_entered) return fail_function(walk, function, "calls itself");
    if (function->is_checked) return STATUS_OK;
    if (walk->depth == ONNX_MAX_CALL_DEPTH)
        return fail_function(walk, function, "is called by 32 others, one in the other");
    function->opset = opset;
    TRY(read_opset(onnx, proto->n_opset_import, proto->opset_import, &function->opset));
    onnx->opset = function->opset;
    function->is_entered = true;
    walk->depth++;
    status_t status = walk_nodes(walk, proto->n_node, proto->node, &function->n_nodes);
    walk->depth--;
    function->is_entered = false;
    function->is_checked = true;
    onnx->opset = opset;
    return status;
}

/* Checks nodes, the blocks in their attributes (onnx_wire_check limits their nesting) and the
 * functions they call. Adds the number of nodes after inlining to *n_inlined. */
static status_t walk_nodes(walk_t *walk, size_t n, Onnx__NodeProto *const *nodes,
                           int64_t *n_inlined)
{
    onnx_t *onnx = walk->onnx;
    for (size_t i = 0; i < n; i++) {
        const Onnx__NodeProto *node = nodes[i];
        onnx_function_t *function = onnx_function_of(onnx, node);
        *n_inlined += 1;
        if (function != NULL) {
            TRY(walk_function(walk, function, node));
            *n_inlined += function->n_nodes;
        } else if (onnx_operator_of(onnx, node) == NULL) {
            note_unknown(&walk->unknown, node);
        }
        if (onnx->n_functions > 0 && *n_inlined > ONNX_MAX_INLINED)
            FAIL(onnx->ctx, STATUS_UNSUPPORTED,
                 "onnx: functions make more than %lld nodes when they are inlined",
                 (long long)ONNX_MAX_INLINED);
        for (size_t a = 0; a < node->n_attribute; a++) {
            const Onnx__GraphProto *block = node->attribute[a]->g;
            if (block != NULL) TRY(walk_nodes(walk, block->n_node, block->node, n_inlined));
        }
    }
    return STATUS_OK;
}

status_t onnx_check_operators(onnx_t *onnx)
{
    const Onnx__ModelProto *model = onnx->model;
    walk_t walk = {.onnx = onnx};
    int64_t n_nodes = 0;
    if (model->graph == NULL) FAIL(onnx->ctx, STATUS_CORRUPT, "onnx: the model has no graph");
    TRY(read_opset(onnx, model->n_opset_import, model->opset_import, &onnx->opset));
    TRY(read_functions(onnx));
    TRY(walk_nodes(&walk, model->graph->n_node, model->graph->node, &n_nodes));
    if (walk.unknown.n == 0) return STATUS_OK;
    text_t text = text_begin(onnx->ctx);
    list_unknown(onnx, walk.unknown.n, walk.unknown.nodes, walk.unknown.n_nodes, &text);
    status_t status = text_status(&text);
    if (status == STATUS_OK)
        status = context_fail(onnx->ctx, STATUS_UNSUPPORTED, "%s", text_string(&text));
    text_clear(&text);
    return status;
}
