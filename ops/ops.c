/* The table of operators. */
#include <string.h>

#include "ops/ops_impl.h"

static const opdef_t *const table[] = {
#define OP(name) &op_def_##name,
#include "ops/ops.def"
#undef OP
};

int ops_count(void)
{
    return (int)(sizeof table / sizeof *table);
}

const opdef_t *ops_at(int index)
{
    return index >= 0 && index < ops_count() ? table[index] : NULL;
}

const opdef_t *ops_find(const char *name)
{
    if (name == NULL) return NULL;
    for (int i = 0; i < ops_count(); i++)
        if (strcmp(table[i]->name, name) == 0) return table[i];
    return NULL;
}
