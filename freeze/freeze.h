/* Freezing: attributes become constants, weights are folded, fused and blocked, and stay so, in
 * memory and in a file that maps straight back in.
 *
 * freeze works on a copy: later edits of the original never show. The module must be in evaluation
 * mode, and the methods that are kept must be graph methods (graph_trace, graph_define, an imported
 * model). */
#ifndef TESSERA_FREEZE_FREEZE_H
#define TESSERA_FREEZE_FREEZE_H

#include "graph/pass.h"
#include "graph/plan.h"

TESSERA_BEGIN

typedef struct freeze_options {
    const char *const *preserved; /* NULL-terminated attributes and methods that stay beside
                                     `forward`; NULL: none. An unknown name is INVALID_ARGUMENT */
    bool keep_numerics;           /* leave out passes that may change the last bits */
    const char *const *skip;      /* NULL-terminated passes to leave out */
    const char *after;            /* pass whose result is dumped, or "each" */
    void (*dump)(void *user, const char *pass, const char *text);
    void *dump_user;
} freeze_options_t;

/* INVALID_ARGUMENT in training mode, for a module without graph methods, for unknown names. */
status_t freeze(context_t *ctx, module_t *module, const freeze_options_t *options,
                module_t **out_frozen) TESSERA_API(freeze);

/* Whether freeze made it (or freeze_load). */
bool freeze_is_frozen(const module_t *module) TESSERA_API(freeze_is_frozen);

/* Writes a frozen module: graphs free of layout, constants, and the packed weights of the plans it
 * has, each with its format; atomic. IO, INVALID_ARGUMENT if it is not frozen. */
status_t freeze_save(context_t *ctx, module_t *frozen, const char *path) TESSERA_API(freeze_save);

/* Maps a file. Packed weights are used as they lie where this machine's oneDNN wants that very
 * format, else packed again. CORRUPT says what is wrong with the file, IO what the system said. */
status_t freeze_load(context_t *ctx, const char *path, module_t **out_frozen)
    TESSERA_API(freeze_load);

TESSERA_END

#endif
