/* Memory that the runs of several plans share: each run leases one block for its intermediate
 * results and scratch, and gives it back. So plans for 32 sizes need the memory of the largest one,
 * and a plan for a new size begins in pages that are in memory already. As many blocks exist as
 * runs were going on at once. */
#ifndef TESSERA_GRAPH_PROGRAM_ARENAS_IMPL_H
#define TESSERA_GRAPH_PROGRAM_ARENAS_IMPL_H

#include "tensor/context.h"

typedef struct arenas arenas_t;

status_t arenas_create(context_t *ctx, arenas_t **out_arenas);
arenas_t *arenas_retain(arenas_t *arenas);
void arenas_release(arenas_t *arenas);

/* At least so many bytes, uninitialised and aligned to 64; NULL: the allocator refused. */
char *arenas_lease(arenas_t *arenas, size_t bytes);
void arenas_return(arenas_t *arenas, char *block);

/* Frees idle blocks that are more than twice as large as any plan needs. */
void arenas_trim(arenas_t *arenas, size_t most);

/* Bytes of idle blocks. */
size_t arenas_bytes(arenas_t *arenas);

#endif
