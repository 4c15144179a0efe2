#include "tensor/text/trace.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tensor/context_impl.h"
#include "tensor/text/text.h"
#include "tensor/text/trace_impl.h"

#define LINE_MAX_BYTES 8192

static const struct {
    unsigned bit;
    const char *name;
    const char *columns;
} categories[] = {
    {TRACE_DISPATCH, "dispatch", "operator,kernel,implementation,inputs,outputs,us"},
    {TRACE_CONVERT, "convert", "cause,by,source,destination,bytes,us"},
    {TRACE_PASS, "pass", "name,nodes_before,nodes_after,us"},
    {TRACE_PLAN, "plan", "event,method,inputs,capacity"},
};
enum { N_CATEGORIES = sizeof categories / sizeof categories[0] };

static unsigned category_bits(const char *name, size_t length)
{
    unsigned all = 0;
    for (int i = 0; i < N_CATEGORIES; i++) {
        all |= categories[i].bit;
        if (strlen(categories[i].name) == length && memcmp(categories[i].name, name, length) == 0)
            return categories[i].bit;
    }
    return length == 3 && memcmp(name, "all", 3) == 0 ? all : 0;
}

bool trace_parse(const char *text, unsigned *out_categories)
{
    bool is_known = true;
    unsigned bits = 0;
    while (*text != '\0') {
        size_t length = strcspn(text, ", ");
        unsigned bit = category_bits(text, length);
        if (length > 0 && bit == 0) is_known = false;
        bits |= bit;
        text += length;
        if (*text != '\0') text++;
    }
    *out_categories = bits;
    return is_known;
}

bool trace_wanted(const context_t *ctx, trace_category_t category)
{
    if (ctx == NULL) return false;
    return context_traces(ctx, category);
}

static void print_template(context_t *ctx, int index)
{
    unsigned *told = context_trace_told(ctx);
    if ((*told & categories[index].bit) != 0) return;
    *told |= categories[index].bit;
    char line[256];
    snprintf(line, sizeof line, "tessera,%s,%s", categories[index].name, categories[index].columns);
    context_trace_line(ctx, line);
}

/* A line that exceeds the buffer is cut and ends in "...". */
void trace_event(context_t *ctx, trace_category_t category, const char *format, ...)
{
    if (ctx == NULL || format == NULL || !context_traces(ctx, category)) return;
    int index = 0;
    while (index < N_CATEGORIES && categories[index].bit != (unsigned)category) index++;
    if (index == N_CATEGORIES) return;
    print_template(ctx, index);

    char line[LINE_MAX_BYTES], shown[2 * LINE_MAX_BYTES];
    int prefix = snprintf(line, sizeof line, "tessera,%s,", categories[index].name);
    size_t room = sizeof line - (size_t)prefix;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line + prefix, room, format, arguments);
    va_end(arguments);
    if (length < 0) return;
    if ((size_t)length >= room) memcpy(line + sizeof line - 4, "...", 4);
    text_escape(line, shown, sizeof shown);
    context_trace_line(ctx, shown);
}
