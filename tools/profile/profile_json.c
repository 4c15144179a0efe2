/* A profile as one JSON object. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "tools/profile/profile.h"

/* The string cannot end a script element, because <, > and & are escaped. JSON must be UTF-8, so
 * invalid bytes become U+FFFD. */
void profile_put_string(text_t *text, const char *string)
{
    text_t quoted = text_begin(text->ctx);
    text_append_quoted(&quoted, string);
    const unsigned char *at = (const unsigned char *)text_string(&quoted);
    while (*at != '\0') {
        int n = *at < 0x80 ? 1 : *at >= 0xc2 && *at < 0xe0 ? 2 : *at >= 0xe0 && *at < 0xf0 ? 3 : 4;
        bool is_right = *at < 0x80 || (*at >= 0xc2 && *at < 0xf5);
        for (int i = 1; i < n && is_right; i++) is_right = (at[i] & 0xc0) == 0x80;
        /* Rejects overlong encodings, surrogates, and code points above U+10FFFF. */
        if (n == 3 && is_right)
            is_right = !(*at == 0xe0 && at[1] < 0xa0) && !(*at == 0xed && at[1] >= 0xa0);
        if (n == 4 && is_right)
            is_right = !(*at == 0xf0 && at[1] < 0x90) && !(*at == 0xf4 && at[1] >= 0x90);
        if (!is_right)
            text_append(text, "\\ufffd");
        else if (*at == '<' || *at == '>' || *at == '&')
            text_append(text, "\\u%04x", *at);
        else if (n == 3 && *at == 0xe2 && at[1] == 0x80 && (at[2] & 0xfe) == 0xa8)
            text_append(text, "\\u20%02x", at[2] & 0x3f);
        else
            text_append(text, "%.*s", n, (const char *)at);
        at += is_right ? n : 1;
    }
    if (text->status == STATUS_OK) text->status = text_status(&quoted);
    text_clear(&quoted);
}

static void put_text(text_t *text, const char *key, const char *value)
{
    text_append(text, "\"%s\":", key);
    profile_put_string(text, value);
    text_append(text, ",");
}

/* Appends a member. NaN and infinity become null, because JSON lacks them. */
static void put_number(text_t *text, const char *key, double value)
{
    text_append(text, "\"%s\":%.6g,", key, isfinite(value) ? value : 0.0);
}

/* Ends an object, and removes the comma after its last member. */
static void end_object(text_t *text, const char *end)
{
    if (text->length > 0 && text->bytes[text->length - 1] == ',')
        text->bytes[--text->length] = '\0';
    text_append(text, "%s", end);
}

/* Appends "f32[1,64,56,56]" and a format. */
static void put_info(text_t *text, const tensor_info_t *info)
{
    char format[FORMAT_TEXT_MAX];
    text_append(text, "[\"%s", dtype_name(info->dtype));
    for (int d = 0; d < info->rank; d++)
        text_append(text, "%s%" PRId64, d > 0 ? "," : "[", info->sizes[d]);
    text_append(text, "%s\",", info->rank > 0 ? "]" : "");
    profile_put_string(text, profile_format(info, format));
    text_append(text, "],");
}

static void put_infos(text_t *text, const char *key, int n, const tensor_info_t *infos)
{
    text_append(text, "\"%s\":[", key);
    for (int i = 0; i < n; i++) put_info(text, &infos[i]);
    end_object(text, "],");
}

static void put_reorder(text_t *text, const profile_reorder_t *reorder)
{
    char format[FORMAT_TEXT_MAX];
    text_append(text, "{");
    put_text(text, "cause", cause_name(reorder->cause));
    put_text(text, "by", reorder->by);
    text_append(text, "\"copy\":%s,", reorder->is_copy ? "true" : "false");
    put_text(text, "from", profile_format(&reorder->from, format));
    put_text(text, "to", profile_format(&reorder->to, format));
    put_number(text, "ms", reorder->ns / 1e6);
    text_append(text, "\"bytes\":%" PRIu64 ",", reorder->bytes);
    put_number(text, "begin_ms", reorder->begin_ns / 1e6);
    put_number(text, "shown_ms", reorder->shown_ns / 1e6);
    end_object(text, "},");
}

static void put_node(text_t *text, const profiling_t *profiling, const profile_mode_t *mode,
                     int index)
{
    const profile_node_t *node = profile_node(mode->profile, index);
    const double per_ns = node->ns > 0 ? 1 / node->ns : 0;
    text_append(text, "{\"index\":%d,", index + 1);
    put_text(text, "operator", profile_name(node));
    put_text(text, "path", node->path);
    put_text(text, "kernel", node->kernel);
    put_text(text, "implementation",
             node->op != NULL ? node->implementation : node->reorders[0].by);
    put_number(text, "ms", node->ns / 1e6);
    text_append(text, "\"share\":%.9g,", profile_share(mode, node->ns));
    put_number(text, "gflops", node->flops * per_ns);
    put_number(text, "gbs", (double)node->bytes * per_ns);
    put_number(text, "limit_share", profile_limit_ns(&profiling->limits, node) * per_ns);
    text_append(text, "\"slices\":%d,", node->n_slices);
    put_number(text, "flops", node->flops);
    text_append(text, "\"bytes\":%" PRIu64 ",", node->bytes);
    put_infos(text, "in", node->n_in, node->in);
    put_infos(text, "out", node->n_out, node->out);
    text_append(text, "\"producers\":[");
    for (int i = 0; i < node->n_in; i++)
        text_append(text, "%d,", node->producers[i] >= 0 ? node->producers[i] + 1 : 0);
    end_object(text, "],");
    put_number(text, "begin_ms", node->begin_ns / 1e6);
    put_number(text, "shown_ms", node->shown_ns / 1e6);
    text_append(text, "\"reorders\":[");
    for (int i = 0; i < node->n_reorders; i++) put_reorder(text, &node->reorders[i]);
    end_object(text, "]},");
}

static void put_sums(text_t *text, const char *key, const char *name, const profile_mode_t *mode,
                     const profile_sums_t *sums)
{
    text_append(text, "\"%s\":[", key);
    for (int i = 0; i < sums->n; i++) {
        const profile_sum_t *sum = &sums->items[i];
        text_append(text, "{");
        put_text(text, name, sum->name);
        text_append(text, "\"depth\":%d,\"nodes\":%d,", sum->depth, sum->n_nodes);
        put_number(text, "ms", sum->ns / 1e6);
        text_append(text, "\"share\":%.9g,", profile_share(mode, sum->ns));
        put_number(text, "flops", sum->flops);
        text_append(text, "\"reorders\":%d,", sum->n_reorders);
        put_number(text, "reorder_ms", sum->reorder_ns / 1e6);
        end_object(text, "},");
    }
    end_object(text, "],");
}

static void put_counters(text_t *text, const counters_t *counters)
{
    text_append(text,
                "\"weight_reorders\":%" PRIu64 ",\"activation_reorders\":%" PRIu64
                ",\"copies\":%" PRIu64 ",\"reorder_bytes\":%" PRIu64 ",",
                counters_weight_reorders(counters), counters_activation_reorders(counters),
                counters_copies(counters), counters->reorder_bytes);
    text_append(text, "\"reorders_by_cause\":{");
    for (int cause = 0; cause < CAUSE_COUNT; cause++)
        text_append(text, "\"%s\":%" PRIu64 ",", cause_name((reorder_cause_t)cause),
                    counters->reorders[cause]);
    end_object(text, "},");
}

static void put_mode(text_t *text, const profiling_t *profiling, const profile_mode_t *mode)
{
    profile_sums_t kinds, modules;
    double reorder_ns = 0;
    put_text(text, "mode", mode_name(mode->mode));
    text_append(text, "\"runs\":%d,", profile_n_runs(mode->profile));
    put_number(text, "run_ms", mode->run_ms);
    put_number(text, "watched_ms", profile_run_ns(mode->profile) / 1e6);
    put_number(text, "shown_run_ms", profile_shown_ns(mode->profile) / 1e6);
    put_number(text, "nodes_ms", mode->nodes_ms);
    put_counters(text, &mode->counters);
    text_append(text, "\"slowest\":%d,", profile_slowest(mode) + 1);
    text_append(text, "\"nodes\":[");
    for (int i = 0; i < profile_n_nodes(mode->profile); i++) {
        put_node(text, profiling, mode, i);
        reorder_ns += profile_reorder_ns(profile_node(mode->profile, i));
    }
    end_object(text, "],");
    put_number(text, "reorder_ms", reorder_ns / 1e6);
    bool is_summed = profile_sum_kinds(mode->profile, &kinds);
    is_summed = profile_sum_modules(mode->profile, &modules) && is_summed;
    put_sums(text, "kinds", "operator", mode, &kinds);
    put_sums(text, "modules", "path", mode, &modules);
    profile_sums_clear(&kinds);
    profile_sums_clear(&modules);
    if (!is_summed && text->status == STATUS_OK) text->status = STATUS_OUT_OF_MEMORY;
}

void profile_put_json(const profiling_t *profiling, text_t *text)
{
    const profile_limits_t *limits = &profiling->limits;
    text_append(text, "{");
    put_text(text, "model", profiling->spec);
    text_append(text, "\"batch\":%" PRId64 ",\"threads\":%d,", profiling->batch,
                profiling->n_threads);
    put_text(text, "onednn", onednn_version_text());
    put_text(text, "isa", onednn_isa_text());
    text_append(text, "\"limits\":{");
    put_number(text, "gflops", limits->gflops);
    text_append(text, "\"read\":[");
    for (int i = 0; i < PROFILE_N_SIZES; i++)
        text_append(text, "{\"bytes\":%.0f,\"gbs\":%.4g},", limits->bytes[i], limits->gbs[i]);
    end_object(text, "]},");
    put_mode(text, profiling, &profiling->modes[0]);
    if (profiling->n_modes > 1) {
        text_append(text, "\"against\":{");
        put_mode(text, profiling, &profiling->modes[1]);
        end_object(text, "}");
    }
    end_object(text, "}");
}
