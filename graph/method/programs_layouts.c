/* Stores the layouts of a method's programs as lines of text. */
#include <string.h>

#include "graph/method/programs_impl.h"
#include "graph/passes/layout/layout_impl.h"
#include "tensor/context_impl.h"
#include "tensor/info_impl.h"

void programs_print_key(const programs_entry_t *entry, text_t *text)
{
    char info[INFO_TEXT_MAX];
    for (int i = 0; i < entry->n_inputs; i++)
        text_append(text, "%s%s", i > 0 ? " " : "", info_text(&entry->inputs[i], info));
    text_append(text, ";");
}

/* The text after the key in the line that begins with it; NULL if there is none. */
static const char *find_line(const char *lines, const char *key)
{
    size_t length = strlen(key);
    for (const char *at = lines; at != NULL && *at != '\0'; at = strchr(at, '\n') + 1)
        if (strncmp(at, key, length) == 0) return at + length;
    return NULL;
}

status_t programs_known_lines(context_t *ctx, const programs_t *programs,
                              const programs_entry_t *entry, char **out_lines)
{
    *out_lines = NULL;
    if (programs->layouts == NULL || programs->layouts_threads != entry->n_threads)
        return STATUS_OK;
    return context_string(ctx, programs->layouts, out_lines);
}

/* ---- similar sizes ---- */

/* Inputs may share a layout if their numbers of elements differ by at most this factor. With it,
 * ResNet-18 was at most 9 % slower than with its own layout; with a factor of 4, 31 %. */
#define REACH 1.5
#define MAX_ANCHORS 16

/* The largest factor between numbers of elements of two corresponding inputs. 0 if entry and anchor
 * are not comparable: ranks differ, or a size is 1 in only one of them. */
static double difference(const programs_entry_t *entry, const programs_anchor_t *anchor)
{
    double most = 1.0;
    if (entry->n_threads != anchor->n_threads || entry->n_inputs != anchor->n_inputs) return 0.0;
    for (int i = 0; i < entry->n_inputs; i++) {
        const tensor_info_t *x = &entry->inputs[i], *y = &anchor->inputs[i];
        double factor = 1.0;
        if (x->dtype != y->dtype || x->rank != y->rank) return 0.0;
        for (int d = 0; d < x->rank; d++) {
            if (x->sizes[d] == y->sizes[d]) continue;
            if (x->sizes[d] <= 1 || y->sizes[d] <= 1) return 0.0;
            factor *= (double)x->sizes[d] / (double)y->sizes[d];
        }
        if (factor < 1.0) factor = 1.0 / factor;
        most = factor > most ? factor : most;
    }
    return most;
}

/* The layout of the most similar anchor. NULL if all differ too much; then a search is needed,
 * which evaluates every operator in every format and takes most of the time for a new size. Plans
 * with the same layout also share packed weights. If there are measured times, each size gets its
 * own search. */
static const char *near_layout(const programs_t *programs, const programs_entry_t *entry)
{
    const char *nearest = NULL;
    double least = REACH;
    if (layout_has_timings(programs->layouts)) return NULL;
    for (programs_anchor_t *anchor = programs->anchors; anchor != NULL; anchor = anchor->next) {
        const double factor = difference(entry, anchor);
        if (factor == 0.0 || factor > least) continue;
        nearest = anchor->layout;
        least = factor;
    }
    return nearest;
}

static void end_anchor(const programs_t *programs, programs_anchor_t *anchor)
{
    allocator_put(&programs->allocator, anchor->layout);
    allocator_put(&programs->allocator, anchor);
}

void programs_end_anchors(programs_t *programs)
{
    while (programs->anchors != NULL) {
        programs_anchor_t *next = programs->anchors->next;
        end_anchor(programs, programs->anchors);
        programs->anchors = next;
    }
}

status_t programs_add_anchor(context_t *ctx, programs_t *programs, const programs_entry_t *entry,
                             const char *layout)
{
    programs_anchor_t *anchor = NULL, **at = &programs->anchors;
    const size_t bytes = (size_t)entry->n_inputs * sizeof *entry->inputs;
    TRY(programs_memory(ctx, programs, sizeof *anchor + bytes, "a layout", &anchor));
    TRY_OR(programs_string(ctx, programs, layout, &anchor->layout), end_anchor(programs, anchor));
    anchor->n_threads = entry->n_threads;
    anchor->n_inputs = entry->n_inputs;
    memcpy(anchor->inputs, entry->inputs, bytes);
    anchor->next = programs->anchors;
    programs->anchors = anchor;
    for (int n = 0; *at != NULL && n < MAX_ANCHORS; n++) at = &(*at)->next;
    if (*at != NULL) {
        end_anchor(programs, *at);
        *at = NULL;
    }
    return STATUS_OK;
}

/* Finds the line for exactly these inputs; NULL if there is none. */
static status_t find_given(context_t *ctx, const programs_t *programs,
                           const programs_entry_t *entry, const char **out_line)
{
    text_t key = text_begin(ctx);
    *out_line = NULL;
    if (programs->layouts == NULL || programs->layouts_threads != entry->n_threads)
        return STATUS_OK;
    programs_print_key(entry, &key);
    const status_t status = text_status(&key);
    if (status == STATUS_OK) *out_line = find_line(programs->layouts, text_string(&key));
    text_clear(&key);
    return status;
}

status_t programs_known_layout(context_t *ctx, const programs_t *programs,
                               const programs_entry_t *entry, char **out_layout)
{
    const char *layout = NULL;
    *out_layout = NULL;
    TRY(find_given(ctx, programs, entry, &layout));
    if (layout == NULL) layout = near_layout(programs, entry);
    if (layout == NULL) return STATUS_OK;
    const size_t length = strcspn(layout, "\n");
    TRY(context_get_zeroed(ctx, length + 1, "a layout", out_layout));
    memcpy(*out_layout, layout, length);
    return STATUS_OK;
}

/* Appends the entries' lines, oldest first, except lines whose keys are in the text already. */
static void print_entries(const programs_entry_t *entry, int n_threads, text_t *text)
{
    if (entry == NULL) return;
    print_entries(entry->next, n_threads, text);
    if (entry->state != PROGRAMS_READY || entry->n_threads != n_threads || entry->layout[0] == '\0')
        return;
    text_t key = text_begin(text->ctx);
    programs_print_key(entry, &key);
    if (text_status(&key) != STATUS_OK)
        text->status = text_status(&key);
    else if (find_line(text_string(text), text_string(&key)) == NULL)
        text_append(text, "%s%s\n", text_string(&key), entry->layout);
    text_clear(&key);
}

/* Appends those lines of another graph of the method whose keys are not in the text yet. */
static void append_new(const char *lines, text_t *text)
{
    const bool is_first = text->length == 0;
    if (is_first) text_append(text, "%s", lines);
    for (const char *at = lines; *at != '\0' && !is_first;) {
        const char *end = strchr(at, '\n') + 1, *semicolon = memchr(at, ';', (size_t)(end - at));
        text_t key = text_begin(text->ctx);
        text_append(&key, "%.*s", (int)((semicolon != NULL ? semicolon + 1 : end) - at), at);
        if (text_status(&key) != STATUS_OK)
            text->status = text_status(&key);
        else if (find_line(text_string(text), text_string(&key)) == NULL)
            text_append(text, "%.*s", (int)(end - at), at);
        text_clear(&key);
        at = end;
    }
}

status_t programs_layouts(context_t *ctx, programs_t *programs, text_t *text)
{
    int n_threads = context_threads(ctx);
    pthread_mutex_lock(&programs->lock);
    if (programs->layouts != NULL && programs->layouts_threads == n_threads)
        append_new(programs->layouts, text);
    print_entries(programs->entries, n_threads, text);
    pthread_mutex_unlock(&programs->lock);
    return text_status(text);
}

status_t programs_set_layouts(context_t *ctx, programs_t *programs, const char *lines)
{
    char *copy = NULL;
    TRY(programs_string(ctx, programs, lines, &copy));
    pthread_mutex_lock(&programs->lock);
    allocator_put(&programs->allocator, programs->layouts);
    programs->layouts = copy;
    programs->layouts_threads = context_threads(ctx);
    pthread_mutex_unlock(&programs->lock);
    return STATUS_OK;
}

status_t programs_add_layouts(context_t *ctx, programs_t *programs, const char *lines)
{
    text_t all = text_begin(ctx), old = text_begin(ctx);
    text_append(&all, "%s", lines);
    status_t status = programs_layouts(ctx, programs, &old);
    if (status == STATUS_OK) append_new(text_string(&old), &all);
    if (status == STATUS_OK) status = text_status(&all);
    if (status == STATUS_OK) status = programs_set_layouts(ctx, programs, text_string(&all));
    text_clear(&old);
    text_clear(&all);
    return status;
}
