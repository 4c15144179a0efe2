/* Explains why a frozen module still has attributes, one line for each. */
#include <string.h>

#include "freeze/freeze_impl.h"
#include "graph/analysis/keep_impl.h"
#include "graph/ir/graph_impl.h"
#include "module/module_impl.h"
#include "tensor/context_impl.h"

typedef struct explaining {
    context_t *ctx;
    text_t *text;
    tree_t tree;
    keeping_t keeping;
    const char **wishes;
} explaining_t;

static const char *path_of(const explaining_t *explaining, const module_t *module)
{
    for (int i = 0; i < explaining->tree.n; i++)
        if (explaining->tree.items[i].module == module) return explaining->tree.items[i].path;
    return "";
}

static void print_path(explaining_t *explaining, const module_t *owner, const char *name)
{
    const char *path = path_of(explaining, owner);
    text_append(explaining->text, "%s%s%s", path, path[0] != '\0' ? "." : "", name);
}

static void print_node(explaining_t *explaining, const kept_t *why, const char *what)
{
    text_append(explaining->text, "%s", what);
    if (why->node != NULL) {
        text_append(explaining->text, "`");
        graph_print_node(why->graph, why->node, explaining->text);
        text_append(explaining->text, "` in ");
    }
    text_append(explaining->text, "%s", graph_name(why->graph));
}

/* Says which node may write the value. A call or setattr counts as a write, since the later use of
 * the tensor is unknown. */
static void print_write(explaining_t *explaining, const kept_t *why)
{
    switch (why->node->kind) {
    case NODE_CALL: print_node(explaining, why, "passed to "); break;
    case NODE_SETATTR: print_node(explaining, why, "put into an attribute by "); break;
    default: print_node(explaining, why, "written in place by "); break;
    }
}

static void print_why(explaining_t *explaining, const attribute_t *attribute, const kept_t *why)
{
    text_t *text = explaining->text;
    switch (why->reason) {
    case KEEP_WISHED:
        if (why->name != NULL)
            text_append(text, "preserved by name");
        else
            text_append(text, "part of \"%s\", which is preserved by name", why->wish);
        break;
    case KEEP_PART:
        print_node(explaining, why,
                   why->node != NULL ? "part of a module that is used as a whole by "
                                     : "part of a module that is returned by ");
        break;
    case KEEP_SET: print_node(explaining, why, "set by "); break;
    case KEEP_WRITTEN: print_write(explaining, why); break;
    case KEEP_SHARED: {
        const kept_t *because = &explaining->keeping.kept[why->because];
        text_append(text, "shares bytes or lists with ");
        if (because->owner != NULL && because->name != NULL) {
            text_append(text, "\"");
            print_path(explaining, because->owner, because->name);
            text_append(text, "\", which is ");
        } else {
            text_append(text, "a value that is ");
        }
        print_why(explaining, attribute, because);
        break;
    }
    }
}

/* Explains one attribute. If nothing keeps it variable, it is only read, and the options have
 * skipped the pass that would make it a constant. */
static void explain_attribute(explaining_t *explaining, const attribute_t *attribute)
{
    kept_t why;
    print_path(explaining, attribute->owner, attribute->name);
    text_append(explaining->text, ": ");
    if (keep_holds(&explaining->keeping, attribute, &why))
        print_why(explaining, attribute, &why);
    else
        text_append(explaining->text, "read by a method, and not made a constant");
    text_append(explaining->text, "\n");
}

/* True for members that need no explanation: methods, children, and attributes that every frozen
 * module has. Such an attribute needs one if a method changes it. */
static bool speaks_for_itself(const explaining_t *explaining, const attribute_t *attribute)
{
    kept_t why;
    if (attribute->kind == MEMBER_METHOD || attribute->kind == MEMBER_CHILD) return true;
    bool is_own = strcmp(attribute->name, "training") == 0 ||
                  freeze_is_border(explaining->tree.items[0].module, attribute->owner,
                                   attribute->name);
    return is_own && (!keep_holds(&explaining->keeping, attribute, &why) || why.name == NULL);
}

static void explain_all(explaining_t *explaining)
{
    for (int i = 0; i < explaining->tree.n; i++) {
        attribute_t attribute = {.owner = explaining->tree.items[i].module};
        for (int m = 0; m < module_n_members(attribute.owner); m++) {
            attribute.name = module_member(attribute.owner, m, &attribute.kind);
            if (!speaks_for_itself(explaining, &attribute))
                explain_attribute(explaining, &attribute);
        }
    }
}

/* Reads the preserved paths from the mark. Skips other values, which a damaged file may contain. */
static status_t read_wishes(explaining_t *explaining, const datum_t *mark)
{
    int n = 0;
    TRY(context_get_zeroed(explaining->ctx,
                           (size_t)(datum_length(mark) + 1) * sizeof *explaining->wishes,
                           "preserved paths", &explaining->wishes));
    for (int i = 0; i < datum_length(mark); i++)
        if (datum_kind(datum_item(mark, i)) == DATUM_STRING)
            explaining->wishes[n++] = datum_as_string(datum_item(mark, i));
    return STATUS_OK;
}

status_t freeze_explain(context_t *ctx, module_t *frozen, text_t *text)
{
    if (frozen == NULL) return context_null(ctx, "freeze_explain", "frozen");
    if (text == NULL) return context_null(ctx, "freeze_explain", "text");
    REQUIRE(ctx, freeze_is_frozen(frozen), "freeze_explain: %s is not frozen, freeze it first",
            module_type(frozen));
    explaining_t explaining = {.ctx = ctx, .text = text};
    status_t status = read_wishes(&explaining, module_attribute(frozen, FREEZE_MARK));
    if (status == STATUS_OK) status = tree_collect(ctx, frozen, &explaining.tree);
    if (status == STATUS_OK)
        status = keep_find(ctx, frozen, explaining.wishes, NULL, NULL, &explaining.keeping);
    if (status == STATUS_OK) explain_all(&explaining);
    keep_clear(&explaining.keeping);
    tree_clear(ctx, &explaining.tree);
    context_put(ctx, explaining.wishes);
    return status == STATUS_OK ? text_status(text) : status;
}
