/* Names in expressions: searching and substitution. */
#include "tensor/sym/sym_impl.h"

bool sym_any_name(const sym_space_t *space, int64_t a, sym_is_name_t is_name, void *user)
{
    const sym_node_t *node = sym_is(a) && space != NULL ? sym_find(space, a) : NULL;
    if (node == NULL || node->kind == SYM_REAL) return false;
    if (node->kind == SYM_NAME) return is_name(user, node->name, node->text);
    for (int i = 0; i < node->n; i++)
        if (sym_any_name(space, node->operands[i], is_name, user)) return true;
    return false;
}

typedef struct putting {
    const sym_space_t *from;
    sym_space_t *to;
    sym_put_t put;
    void *user;
} putting_t;

static int64_t put_operand(void *user, int64_t operand)
{
    putting_t *putting = user;
    const sym_node_t *node = sym_is(operand) ? sym_find(putting->from, operand) : NULL;
    if (!sym_is(operand)) return operand;
    if (node == NULL) return SYM_NONE;
    if (node->kind != SYM_NAME) return sym_rebuild(putting->to, node, put_operand, putting);
    int64_t value = SYM_NONE;
    if (putting->put != NULL && putting->put(putting->user, node->name, node->text, &value))
        return value;
    sym_node_t *other = sym_find_name(putting->to, node->text);
    if (other == NULL)
        other = sym_new_name(putting->to, node->text,
                             node->has_hint ? node->hint.integer : SYM_NO_HINT, 0, SYM_HIGHEST);
    return other != NULL ? sym_simplest(putting->to, other->handle) : SYM_NONE;
}

status_t sym_put(context_t *ctx, const sym_space_t *from, int64_t a, sym_space_t *to, sym_put_t put,
                 void *user, int64_t *out_value)
{
    putting_t putting = {from, to, put, user};
    pthread_mutex_lock(&to->lock);
    const int64_t value = put_operand(&putting, a);
    const status_t status = to->status;
    char message[sizeof to->message];
    for (size_t i = 0; i < sizeof message; i++) message[i] = to->message[i];
    to->status = STATUS_OK;
    pthread_mutex_unlock(&to->lock);
    if (status != STATUS_OK) FAIL(ctx, status, "%s", message);
    REQUIRE(ctx, value != SYM_NONE, "a computed size overflows");
    *out_value = value;
    return STATUS_OK;
}
