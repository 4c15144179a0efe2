/* A profile as trace events. Each mode is shown as a process with one thread, which contains the
 * run, modules, nodes and reorders, one within the other. Times are microseconds. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/profile/profile.h"

#define MAX_DEPTH 64

typedef struct span {
    double begin, end; /* ns */
} span_t;

static span_t span_of(const profile_node_t *node)
{
    return (span_t){node->begin_ns, node->begin_ns + node->shown_ns};
}

/* Writes an event except for its arguments. The caller writes these, then "}}". */
static void begin_event(text_t *text, int pid, const char *category, const char *name, span_t span)
{
    text_append(text,
                ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":1,\"cat\":\"%s\",\"ts\":%.3f,\"dur\":%.3f,",
                pid, category, span.begin / 1e3, (span.end - span.begin) / 1e3);
    text_append(text, "\"name\":");
    profile_put_string(text, name);
    text_append(text, ",\"args\":{");
}

static void put_metadata(text_t *text, int pid, const char *what, const char *name)
{
    text_append(text,
                "%s\n{\"ph\":\"M\",\"pid\":%d,\"tid\":1,\"ts\":0,\"name\":\"%s\",\"args\":{"
                "\"name\":",
                text->bytes[text->length - 1] == '[' ? "" : ",", pid, what);
    profile_put_string(text, name);
    text_append(text, "}}");
}

/* Splits a path into at most MAX_DEPTH names; ends[i] is the length of the first i + 1 names. */
static int cut_path(const char *path, size_t *ends)
{
    int n = 0;
    for (const char *at = path; *at != '\0' && n < MAX_DEPTH;) {
        at += strcspn(at, ".");
        ends[n++] = (size_t)(at - path);
        at += *at == '.';
    }
    return n;
}

/* Writes the modules that begin at a node: those on its path that do not contain the node before.
 * Each lasts until the last consecutive node inside it. */
static void put_modules(text_t *text, int pid, const profile_t *profile, int index)
{
    const profile_node_t *node = profile_node(profile, index);
    const profile_node_t *before = index > 0 ? profile_node(profile, index - 1) : NULL;
    size_t ends[MAX_DEPTH];
    const int n = cut_path(node->path, ends);
    for (int level = 0; level < n; level++) {
        const size_t length = ends[level];
        span_t span = span_of(node);
        char name[512];
        const bool is_in_it = before != NULL && strncmp(before->path, node->path, length) == 0 &&
                              (before->path[length] == '.' || before->path[length] == '\0');
        if (is_in_it) continue;
        for (int i = index + 1; i < profile_n_nodes(profile); i++) {
            const profile_node_t *next = profile_node(profile, i);
            if (strncmp(next->path, node->path, length) != 0 ||
                (next->path[length] != '.' && next->path[length] != '\0'))
                break;
            span.end = span_of(next).end;
        }
        snprintf(name, sizeof name, "%.*s", (int)length, node->path);
        begin_event(text, pid, "module", name, span);
        text_append(text, "}}");
    }
}

static void put_reorder(text_t *text, int pid, const profile_reorder_t *reorder, span_t within)
{
    char name[64], format[FORMAT_TEXT_MAX];
    span_t span = {reorder->begin_ns, reorder->begin_ns + reorder->shown_ns};
    if (span.begin < within.begin) span.begin = within.begin;
    if (span.end > within.end) span.end = within.end;
    if (span.end < span.begin) span.end = span.begin;
    snprintf(name, sizeof name, "%s %s", cause_name(reorder->cause),
             reorder->is_copy ? "copy" : "reorder");
    begin_event(text, pid, "reorder", name, span);
    text_append(text, "\"from\":");
    profile_put_string(text, profile_format(&reorder->from, format));
    text_append(text, ",\"to\":");
    profile_put_string(text, profile_format(&reorder->to, format));
    text_append(text, ",\"bytes\":%" PRIu64 "}}", reorder->bytes);
}

static void put_node(text_t *text, int pid, const profile_t *profile, int index)
{
    const profile_node_t *node = profile_node(profile, index);
    const span_t span = span_of(node);
    put_modules(text, pid, profile, index);
    begin_event(text, pid, node->op != NULL ? "operator" : "reorder", profile_name(node), span);
    text_append(text, "\"node\":%d,\"path\":", index + 1);
    profile_put_string(text, node->path);
    text_append(text, ",\"implementation\":");
    profile_put_string(text, node->implementation);
    text_append(text, ",\"median_us\":%.3f}}", node->ns / 1e3);
    for (int i = 0; i < node->n_reorders; i++) put_reorder(text, pid, &node->reorders[i], span);
}

void profile_put_trace(const profiling_t *profiling, text_t *text)
{
    text_append(text, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    for (int m = 0; m < profiling->n_modes; m++) {
        const profile_mode_t *mode = &profiling->modes[m];
        char name[32];
        snprintf(name, sizeof name, "mode %s", mode_name(mode->mode));
        put_metadata(text, m + 1, "process_name", name);
        put_metadata(text, m + 1, "thread_name", "inference");
        begin_event(text, m + 1, "run", profiling->spec,
                    (span_t){0, profile_shown_ns(mode->profile)});
        text_append(text, "}}");
        for (int i = 0; i < profile_n_nodes(mode->profile); i++)
            put_node(text, m + 1, mode->profile, i);
    }
    text_append(text, "\n]}\n");
}
