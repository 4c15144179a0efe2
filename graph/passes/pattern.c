#include "graph/passes/pattern_impl.h"

#include <ctype.h>
#include <math.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/select_impl.h"
#include "tensor/context_impl.h"

/* ---- text ---- */

static void skip_spaces(const char **text)
{
    while (**text == ' ') (*text)++;
}

static bool read_word(const char **text, char *out_word)
{
    int n = 0;
    skip_spaces(text);
    while (isalnum((unsigned char)**text) || **text == '_') {
        if (n == PATTERN_LENGTH - 1) return false;
        out_word[n++] = *(*text)++;
    }
    out_word[n] = '\0';
    skip_spaces(text);
    return n > 0;
}

static bool add_name(pattern_t *pattern, const char *name, int *out_index)
{
    for (*out_index = 0; *out_index < pattern->n_names; (*out_index)++)
        if (strcmp(pattern->names[*out_index], name) == 0) return true;
    if (pattern->n_names == PATTERN_NAMES) return false;
    memcpy(pattern->names[pattern->n_names++], name, PATTERN_LENGTH);
    return true;
}

static bool parse_term(pattern_t *pattern, const char **text, int *out_term);

static bool parse_operands(pattern_t *pattern, const char **text, pattern_term_t *term)
{
    int *link = &term->child;
    do {
        (*text)++;
        if (!parse_term(pattern, text, link)) return false;
        link = &pattern->terms[*link].next;
        skip_spaces(text);
    } while (**text == ',');
    return *(*text)++ == ')';
}

static bool parse_named(pattern_t *pattern, const char **text, pattern_term_t *term)
{
    char word[PATTERN_LENGTH] = "";
    if (!read_word(text, word)) return false;
    term->kind = TERM_VALUE;
    if (**text == ':') {
        (*text)++;
        if (!add_name(pattern, word, &term->name) || !read_word(text, word) || **text != '(')
            return false;
    }
    if (**text != '(') return add_name(pattern, word, &term->name);
    term->kind = TERM_OP;
    memcpy(term->op, word, sizeof term->op);
    return parse_operands(pattern, text, term);
}

static bool parse_term(pattern_t *pattern, const char **text, int *out_term)
{
    if (pattern->n_terms == PATTERN_TERMS) return false;
    *out_term = pattern->n_terms;
    pattern_term_t *term = &pattern->terms[pattern->n_terms++];
    *term = (pattern_term_t){.name = -1, .child = -1, .next = -1};
    skip_spaces(text);
    if (**text == '-' || isdigit((unsigned char)**text)) {
        char *end = NULL;
        term->number = strtod(*text, &end);
        *text = end;
        return true;
    }
    if (**text != '?') return parse_named(pattern, text, term);
    (*text)++;
    char word[PATTERN_LENGTH] = "";
    term->kind = TERM_ANY_NUMBER;
    return read_word(text, word) && add_name(pattern, word, &term->name);
}

void pattern_parse(const char *text, pattern_t *out_pattern)
{
    int whole = 0;
    out_pattern->n_terms = out_pattern->n_names = 0;
    const bool is_pattern = parse_term(out_pattern, &text, &whole) && *text == '\0';
    INVARIANT(is_pattern);
    if (!is_pattern) out_pattern->n_terms = 0;
}

/* ---- the graph ---- */

bool pattern_number(const graph_t *graph, value_t value, double *out_number)
{
    const datum_t *datum = value < 0 ? NULL : graph_constant(graph, value);
    const bool is_some = datum != NULL &&
                         (datum_kind(datum) == DATUM_INT || datum_kind(datum) == DATUM_FLOAT);
    if (is_some) *out_number = datum_as_float(datum);
    return is_some;
}

/* The operator that produces a value; NULL if the operator writes, or if another node writes the
 * value. */
static const graph_node_t *operator_at(const match_t *match, value_t value)
{
    const alias_t *alias = match->alias;
    const graph_node_t *node = value < 0 ? NULL : graph_producer(alias->graph, value);
    if (node == NULL || node->kind != NODE_OP || node->is_in_place || node->n_outputs != 1 ||
        alias_is_mutated(alias, value))
        return NULL;
    const post_ops_t *post = rewrite_post(node); /* patterns have no notation for post-ops */
    return post == NULL || post->n == 0 ? node : NULL;
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-6 * fabs(b);
}

/* Adds a node to the match. False if the match has too many nodes. */
static bool note_node(match_t *match, const graph_node_t *node)
{
    for (int i = 0; i < match->n_nodes; i++)
        if (match->nodes[i] == node) return true;
    if (match->n_nodes == PATTERN_NODES) return false;
    match->nodes[match->n_nodes++] = node;
    return true;
}

static bool bind(match_t *match, int name, value_t value)
{
    if (name < 0) return true;
    if (match->values[name] != VALUE_NONE) return match->values[name] == value;
    match->values[name] = value;
    return value >= 0 && !alias_is_mutated(match->alias, value);
}

static bool match_term(match_t *match, const pattern_term_t *term, value_t value);

/* ---- products and sums ---- */

enum { MAX_PARTS = 8 };

/* A factor or summand of a pattern. sign is -1 for a divisor or subtrahend. */
typedef struct part {
    const pattern_term_t *term;
    int sign;
    bool is_taken;
} part_t;

typedef struct group {
    bool is_product;
    part_t parts[MAX_PARTS];
    int n_parts;
    double number; /* product or sum of all numbers in the pattern */
    int name;      /* index of the name of an arbitrary number; -1: the number is fixed */
} group_t;

/* Values that have not been assigned to parts yet. */
typedef struct pending {
    value_t values[MAX_PARTS];
    int signs[MAX_PARTS];
    int n;
    double number;
} pending_t;

static bool is_op(const pattern_term_t *term, const char *op)
{
    return term->kind == TERM_OP && strcmp(term->op, op) == 0;
}

static double combine(bool is_product, double a, double b, int sign)
{
    if (!is_product) return a + sign * b;
    return sign > 0 ? a * b : a / b;
}

static bool collect(const pattern_t *pattern, const pattern_term_t *term, int sign, group_t *group);

static bool collect_operands(const pattern_t *pattern, const pattern_term_t *term, int sign,
                             group_t *group)
{
    const bool inverts = is_op(term, "div") || is_op(term, "sub");
    int place = 0;
    for (int i = term->child; i >= 0; i = pattern->terms[i].next, place++)
        if (!collect(pattern, &pattern->terms[i], inverts && place > 0 ? -sign : sign, group))
            return false;
    return true;
}

/* Adds a term to the group, or its operands if it is an unnamed product (or sum) itself. */
static bool collect(const pattern_t *pattern, const pattern_term_t *term, int sign, group_t *group)
{
    const bool is_same = group->is_product ? is_op(term, "mul") || is_op(term, "div")
                                           : is_op(term, "add") || is_op(term, "sub");
    if (is_same && term->name < 0) return collect_operands(pattern, term, sign, group);
    if (term->kind == TERM_NUMBER) {
        group->number = combine(group->is_product, group->number, term->number, sign);
    } else if (term->kind == TERM_ANY_NUMBER) {
        group->name = term->name;
    } else {
        if (group->n_parts == MAX_PARTS) return false;
        group->parts[group->n_parts++] = (part_t){term, sign, false};
    }
    return true;
}

static bool push(pending_t *pending, value_t value, int sign)
{
    if (pending->n == MAX_PARTS) return false;
    pending->values[pending->n] = value;
    pending->signs[pending->n++] = sign;
    return true;
}

static bool push_product(const match_t *match, const graph_node_t *node, int sign,
                         pending_t *pending)
{
    double times = rewrite_is_op(node, "square") ? 2.0 : 0.0;
    if (rewrite_is_op(node, "mul") || rewrite_is_op(node, "div"))
        return push(pending, node->inputs[0], sign) &&
               push(pending, node->inputs[1], rewrite_is_op(node, "div") ? -sign : sign);
    if (rewrite_is_op(node, "reciprocal")) return push(pending, node->inputs[0], -sign);
    if (rewrite_is_op(node, "neg")) {
        pending->number = -pending->number;
        return push(pending, node->inputs[0], sign);
    }
    if (rewrite_is_op(node, "pow"))
        (void)pattern_number(match->alias->graph, node->inputs[1], &times);
    if (times != 2.0 && times != 3.0) return false;
    for (int i = 0; i < (int)times; i++)
        if (!push(pending, node->inputs[0], sign)) return false;
    return true;
}

static bool push_sum(const graph_node_t *node, int sign, pending_t *pending)
{
    if (rewrite_is_op(node, "neg")) return push(pending, node->inputs[0], -sign);
    if (!rewrite_is_op(node, "add") && !rewrite_is_op(node, "sub")) return false;
    return push(pending, node->inputs[0], sign) &&
           push(pending, node->inputs[1], rewrite_is_op(node, "sub") ? -sign : sign);
}

static bool assign(match_t *match, group_t *group, const pending_t *pending);

/* Replaces a value by the operands of the operator that produces it. */
static bool open_value(match_t *match, group_t *group, const pending_t *rest, value_t value,
                       int sign)
{
    const graph_node_t *node = operator_at(match, value);
    const match_t before = *match;
    pending_t pending = *rest;
    if (node == NULL || !note_node(match, node)) return false;
    if ((group->is_product ? push_product(match, node, sign, &pending)
                           : push_sum(node, sign, &pending)) &&
        assign(match, group, &pending))
        return true;
    *match = before;
    return false;
}

static bool has_number(const match_t *match, value_t value)
{
    const graph_node_t *node = operator_at(match, value);
    double unused;
    return node != NULL && node->n_inputs == 2 &&
           (pattern_number(match->alias->graph, node->inputs[0], &unused) ||
            pattern_number(match->alias->graph, node->inputs[1], &unused));
}

/* Matches rsqrt(x) where the pattern has 1 / sqrt(x). */
static bool match_root(match_t *match, const part_t *part, value_t value, int sign)
{
    const graph_node_t *node = operator_at(match, value);
    return is_op(part->term, "sqrt") && part->sign == -sign && rewrite_is_op(node, "rsqrt") &&
           note_node(match, node) && bind(match, part->term->name, value) &&
           match_term(match, &match->pattern->terms[part->term->child], node->inputs[0]);
}

static bool match_part(match_t *match, const part_t *part, value_t value, int sign)
{
    return (part->sign == sign && match_term(match, part->term, value)) ||
           match_root(match, part, value, sign);
}

static bool fits(match_t *match, const group_t *group, double number)
{
    for (int i = 0; i < group->n_parts; i++)
        if (!group->parts[i].is_taken) return false;
    if (group->name < 0) return is_near(number, group->number);
    match->numbers[group->name] = number;
    return true;
}

/* Assigns a part to each value, or replaces the value by its operands. Backtracks. */
static bool assign(match_t *match, group_t *group, const pending_t *pending)
{
    if (pending->n == 0) return fits(match, group, pending->number);
    pending_t rest = *pending;
    const value_t value = rest.values[--rest.n];
    const int sign = rest.signs[rest.n];
    double number = 0.0;
    if (pattern_number(match->alias->graph, value, &number)) {
        rest.number = combine(group->is_product, rest.number, number, sign);
        return assign(match, group, &rest);
    }
    const bool opens_first = group->name >= 0 && has_number(match, value);
    if (opens_first && open_value(match, group, &rest, value, sign)) return true;
    for (int i = 0; i < group->n_parts; i++) {
        part_t *part = &group->parts[i];
        const match_t before = *match;
        if (part->is_taken) continue;
        part->is_taken = true;
        if (match_part(match, part, value, sign) && assign(match, group, &rest)) return true;
        part->is_taken = false;
        *match = before;
    }
    return !opens_first && open_value(match, group, &rest, value, sign);
}

static bool match_group(match_t *match, const pattern_term_t *term, bool is_product, value_t value)
{
    group_t group = {.is_product = is_product, .number = is_product ? 1.0 : 0.0, .name = -1};
    const pending_t pending = {.values = {value}, .signs = {1}, .n = 1, .number = group.number};
    return collect_operands(match->pattern, term, 1, &group) && assign(match, &group, &pending);
}

/* ---- all terms ---- */

static bool match_op(match_t *match, const pattern_term_t *term, value_t value)
{
    const graph_node_t *node = operator_at(match, value);
    int n = 0;
    if (!rewrite_is_op(node, term->op) || !note_node(match, node)) return false;
    for (int i = term->child; i >= 0; i = match->pattern->terms[i].next, n++)
        if (n == node->n_inputs || !match_term(match, &match->pattern->terms[i], node->inputs[n]))
            return false;
    for (; n < node->n_inputs; n++)
        if (node->inputs[n] != VALUE_NONE) return false;
    return true;
}

static bool match_term(match_t *match, const pattern_term_t *term, value_t value)
{
    double number = 0.0;
    switch (term->kind) {
    case TERM_NUMBER:
        return pattern_number(match->alias->graph, value, &number) && is_near(number, term->number);
    case TERM_ANY_NUMBER:
        return pattern_number(match->alias->graph, value, &match->numbers[term->name]);
    case TERM_VALUE: return bind(match, term->name, value);
    case TERM_OP: break;
    }
    if (!bind(match, term->name, value)) return false;
    if (is_op(term, "mul") || is_op(term, "div")) return match_group(match, term, true, value);
    if (is_op(term, "add") || is_op(term, "sub")) return match_group(match, term, false, value);
    return match_op(match, term, value);
}

bool pattern_match(const pattern_t *pattern, const alias_t *alias, value_t value,
                   match_t *out_match)
{
    *out_match = (match_t){.alias = alias, .pattern = pattern};
    for (int i = 0; i < PATTERN_NAMES; i++) out_match->values[i] = VALUE_NONE;
    return pattern->n_terms > 0 && match_term(out_match, &pattern->terms[0], value);
}

/* ---- queries ---- */

static int find_name(const match_t *match, const char *name)
{
    int index = 0;
    while (index < match->pattern->n_names && strcmp(match->pattern->names[index], name) != 0)
        index++;
    return index < match->pattern->n_names ? index : -1;
}

value_t match_value(const match_t *match, const char *name)
{
    const int index = find_name(match, name);
    return index < 0 ? VALUE_NONE : match->values[index];
}

double match_number(const match_t *match, const char *name)
{
    const int index = find_name(match, name);
    return index < 0 ? 0.0 : match->numbers[index];
}

const graph_node_t *match_node(const match_t *match, const char *name)
{
    const value_t value = match_value(match, name);
    return value < 0 ? NULL : graph_producer(match->alias->graph, value);
}

bool match_is_closed(const match_t *match, value_t whole)
{
    for (int i = 0; i < match->n_nodes; i++) {
        const value_t value = match->nodes[i]->outputs[0];
        int n_inside = 0;
        for (int k = 0; k < match->n_nodes; k++)
            for (int input = 0; input < match->nodes[k]->n_inputs; input++)
                n_inside += match->nodes[k]->inputs[input] == value;
        if (value != whole && graph_n_uses(match->alias->graph, value) != n_inside) return false;
    }
    return true;
}

const tensor_info_t *pattern_info(const graph_t *graph, value_t value)
{
    const graph_type_t *type = value < 0 ? NULL : graph_value_type(graph, value);
    const bool is_known = type != NULL && type->kind == TYPE_TENSOR && type->has_info &&
                          type_is_static(type);
    return is_known ? &type->info : NULL;
}

bool pattern_same(const graph_t *graph, value_t a, value_t b)
{
    const tensor_info_t *x = pattern_info(graph, a), *y = pattern_info(graph, b);
    return x != NULL && y != NULL && x->dtype == y->dtype &&
           shape_equal(x->rank, x->sizes, y->rank, y->sizes);
}

/* ---- replacing ---- */

status_t pattern_add(rewrite_t *rewrite, const char *op, const char *attrs, int n_inputs,
                     const value_t *inputs, const char *path, value_t *out_value)
{
    alignas(16) char parsed[ATTRS_MAX];
    const opdef_t *def = ops_find(op);
    attrs_init(&def->attrs, parsed);
    while (*attrs != '\0') TRY(attrs_parse(rewrite->ctx, op, &def->attrs, &attrs, parsed));
    *out_value = graph_add_op(rewrite->to, def, parsed, n_inputs, inputs, path);
    return STATUS_OK;
}

status_t pattern_replace(rewrite_t *rewrite, const graph_node_t *node, const char *op,
                         const char *attrs, int n_inputs, const value_t *inputs)
{
    value_t value = VALUE_NONE;
    TRY(pattern_add(rewrite, op, attrs, n_inputs, inputs, node->path, &value));
    rewrite_map(rewrite, node->outputs[0], value);
    return STATUS_OK;
}
