/* Compiling the program of an entry. */
#include "graph/method/programs_impl.h"
#include "graph/method/specialise_impl.h"

status_t programs_compile(context_t *ctx, const programs_t *programs, module_t *self,
                          const char *known, const char *timings, programs_entry_t *entry)
{
    const shapes_t shapes = {entry->n_inputs, entry->inputs};
    graph_t *graph = NULL;
    text_t chosen = text_begin(ctx);
    const layout_talk_t layout = {
        .known = known, .chosen = &chosen, .timings = timings, .skip = programs->skip};
    status_t status = specialise(ctx, self, programs->computed, &shapes, &layout, &graph);
    if (status == STATUS_OK) status = text_status(&chosen);
    if (status == STATUS_OK)
        status = programs_string(ctx, programs, text_string(&chosen), &entry->layout);
    if (status == STATUS_OK) status = program_create(ctx, graph, self, &entry->program);
    graph_release(graph);
    text_clear(&chosen);
    return status;
}
