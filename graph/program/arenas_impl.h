/* Memory that the runs of several plans share. A run leases one block for intermediate results and
 * scratch, and returns it at its end. So plans for 32 sizes need only the memory of the largest
 * one, and a new plan uses pages that are already in memory. There are as many blocks as there were
 * runs at the same time. */
#ifndef TESSERA_GRAPH_PROGRAM_ARENAS_IMPL_H
#define TESSERA_GRAPH_PROGRAM_ARENAS_IMPL_H

#include "tensor/context.h"

typedef struct arenas arenas_t;

status_t arenas_create(context_t *ctx, arenas_t **out_arenas);
arenas_t *arenas_retain(arenas_t *arenas);
void arenas_release(arenas_t *arenas);

/* Leases at least this many bytes, uninitialised and 64-byte aligned; NULL if allocation fails. */
char *arenas_lease(arenas_t *arenas, size_t bytes);
void arenas_return(arenas_t *arenas, char *block);

/* Frees idle blocks that are larger than twice `most`, the bytes that the largest plan needs. */
void arenas_trim(arenas_t *arenas, size_t most);

/* The bytes of idle blocks. */
size_t arenas_bytes(arenas_t *arenas);

#endif
