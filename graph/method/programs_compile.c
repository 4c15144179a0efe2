/* Compiles the program of an entry. */
#include "graph/method/programs_impl.h"
#include "graph/method/specialise_impl.h"
#include "graph/passes/layout/layout_impl.h"

/* Changes "0:onednn d 1:taps " to "0 d 1 ", so that estimates choose the kernels again. */
static void drop_kernels(char *layout)
{
    char *to = layout;
    for (const char *from = layout; *from != '\0';) {
        if (*from == ':')
            while (*from != ' ') from++;
        *to++ = *from++;
    }
    *to = '\0';
}

/* Compiles the program. entry->layout has kernel names only if the kernels were chosen by measured
 * times. */
status_t programs_compile(context_t *ctx, const programs_t *programs, module_t *self,
                          const char *known, const char *timings, programs_entry_t *entry,
                          text_t *chosen)
{
    const shapes_t shapes = {entry->n_inputs, entry->inputs};
    graph_t *graph = NULL;
    const layout_talk_t layout = {.known = known,
                                  .chosen = chosen,
                                  .names_kernels = !layout_has_timings(timings),
                                  .timings = timings,
                                  .skip = programs->skip};
    status_t status = specialise(ctx, self, programs->computed, &shapes, &layout, &graph);
    if (status == STATUS_OK) status = text_status(chosen);
    if (status == STATUS_OK)
        status = programs_string(ctx, programs, text_string(chosen), &entry->layout);
    if (status == STATUS_OK && layout.names_kernels) drop_kernels(entry->layout);
    if (status == STATUS_OK) status = program_create(ctx, graph, self, &entry->program);
    if (status == STATUS_OK) {
        program_share_arenas(entry->program, programs->arenas);
        entry->own_bytes = program_own_bytes(entry->program);
    }
    graph_release(graph);
    allocator_trim(&programs->allocator); /* compiling takes several times the memory that stays */
    return status;
}
