/* Makes the nodes of a profile (profile_node_t) from its records of operator calls and conversions
 * (reorders and copies): assigns conversions to calls, finds the producers of inputs, computes
 * medians. */
#include <stdlib.h>
#include <string.h>

#include "dispatch/profile/profile_impl.h"

/* State while nodes are made. The conversion of a call's input is recorded before the call. It is
 * stored at the end of `inside` and counts as waiting until the record of the call is read. A plan
 * may run a step several times, each time for a slice (part) of the batch; each slice has its own
 * record. */
typedef struct build {
    profile_t *profile;
    int shown;        /* index of the run whose times are shown (profile_finish) */
    int *node_record; /* [n_nodes] the node's record, or the record of its first slice */
    int *next_slice;  /* [n_records] record of the same step's next slice, or -1 */
    int *first;       /* [n_nodes] index of its first conversion in `inside` */
    int *inside;      /* records of conversions, grouped by node */
    int n_inside, n_waiting;
    uint64_t *times; /* [n_runs] */
} build_t;

static const sample_t *sample_of(const build_t *build, int run, int record)
{
    return &build->profile->samples[run * build->profile->n_records + record];
}

static int compare_times(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts the times. If n is even, the median is the mean of the two middle ones. */
static double median_of(uint64_t *times, int n)
{
    qsort(times, (size_t)n, sizeof *times, compare_times);
    const int low = (n - 1) / 2, high = n / 2;
    return ((double)times[low] + (double)times[high]) / 2;
}

/* Time of a record plus the times of later slices of the same step. */
static uint64_t time_of(const build_t *build, int run, int record)
{
    uint64_t ns = 0;
    for (; record >= 0; record = build->next_slice[record]) ns += sample_of(build, run, record)->ns;
    return ns;
}

static double median_of_record(build_t *build, int record)
{
    const int n = build->profile->n_runs;
    for (int run = 0; run < n; run++) build->times[run] = time_of(build, run, record);
    return median_of(build->times, n);
}

/* Selects the run whose time is nearest to the median. */
static void choose_shown(build_t *build)
{
    profile_t *profile = build->profile;
    memcpy(build->times, profile->run_ns, (size_t)profile->n_runs * sizeof *build->times);
    profile->median_ns = median_of(build->times, profile->n_runs);
    double nearest = -1;
    for (int run = 0; run < profile->n_runs; run++) {
        const double off = (double)profile->run_ns[run] - profile->median_ns;
        if (nearest >= 0 && (off < 0 ? -off : off) >= nearest) continue;
        nearest = off < 0 ? -off : off;
        build->shown = run;
        profile->shown_ns = (double)profile->run_ns[run];
    }
}

/* ---- which conversion belongs to which node ---- */

static void add_node(build_t *build, int record, int first)
{
    build->node_record[build->profile->n_nodes] = record;
    build->first[build->profile->n_nodes++] = first;
}

/* Turns the first n waiting conversions into separate nodes. */
static void put_alone(build_t *build, int n)
{
    const int first = build->n_inside - build->n_waiting;
    for (int i = 0; i < n; i++) add_node(build, build->inside[first + i], first + i);
    build->n_waiting -= n;
}

static uint64_t end_of(const build_t *build, int record)
{
    const sample_t *sample = sample_of(build, 0, record);
    return sample->begin + sample->ns;
}

/* Adds the node of a call. Earlier records of events that ended after the call began belong to the
 * call. These are conversions of its inputs, and operators that its kernel called; the nodes of
 * such operators are removed. */
static void put_call(build_t *build, int record)
{
    profile_t *profile = build->profile;
    const uint64_t begin = sample_of(build, 0, record)->begin;
    int n_before = 0, first = build->n_inside - build->n_waiting;
    while (profile->n_nodes > 0 &&
           end_of(build, build->node_record[profile->n_nodes - 1]) > begin) {
        first = build->first[--profile->n_nodes];
        build->n_waiting = build->n_inside - first;
    }
    while (n_before < build->n_waiting && end_of(build, build->inside[first + n_before]) <= begin)
        n_before++;
    put_alone(build, n_before);
    first += n_before;
    build->n_waiting = 0;
    add_node(build, record, first);
}

/* If the record is a later slice (slice > 0) of a step that has a node, adds it to that node and
 * returns true; otherwise returns false. */
static bool put_slice(build_t *build, int record)
{
    const record_t *records = build->profile->records, *slice = &records[record];
    for (int i = build->profile->n_nodes - 1; slice->slice > 0 && i >= 0; i--) {
        int last = build->node_record[i];
        while (build->next_slice[last] >= 0) last = build->next_slice[last];
        if (records[last].prepared != slice->prepared || records[last].slice != slice->slice - 1)
            continue;
        build->next_slice[last] = record;
        return true;
    }
    return false;
}

static void make_structure(build_t *build)
{
    const profile_t *profile = build->profile;
    for (int i = 0; i < profile->n_records; i++) build->next_slice[i] = -1;
    for (int i = 0; i < profile->n_records; i++) {
        if (profile->records[i].op != NULL) {
            if (!put_slice(build, i)) put_call(build, i);
        } else {
            build->inside[build->n_inside++] = i;
            build->n_waiting++;
        }
    }
    put_alone(build, build->n_waiting);
}

/* ---- contents of nodes ---- */

/* The last node before `node` that wrote these bytes, or -1. */
static int find_producer(const build_t *build, int node, const char *bytes)
{
    for (int i = node - 1; i >= 0 && bytes != NULL; i--) {
        const record_t *record = &build->profile->records[build->node_record[i]];
        for (int k = 0; k < record->n_out; k++)
            if (bytes >= record->out_bytes[k].begin && bytes < record->out_bytes[k].end) return i;
    }
    return -1;
}

static profile_reorder_t reorder_of(build_t *build, int index)
{
    const record_t *record = &build->profile->records[index];
    const sample_t *shown = sample_of(build, build->shown, index);
    return (profile_reorder_t){.cause = record->cause,
                               .is_copy = record->is_copy,
                               .by = record->by,
                               .from = record->in[0],
                               .to = record->out[0],
                               .bytes = record->bytes,
                               .ns = median_of_record(build, index),
                               .begin_ns = (double)shown->begin,
                               .shown_ns = (double)shown->ns};
}

static void fill_node(build_t *build, int index, int *producers)
{
    profile_t *profile = build->profile;
    const record_t *record = &profile->records[build->node_record[index]];
    const sample_t *shown = sample_of(build, build->shown, build->node_record[index]);
    const int first = build->first[index];
    const int end = index + 1 < profile->n_nodes ? build->first[index + 1] : build->n_inside;
    int n_slices = 0;
    double flops = 0.0;
    uint64_t bytes = 0;
    for (int i = 0; i < record->n_in; i++)
        producers[i] = find_producer(build, index, record->in_bytes[i]);
    for (int r = build->node_record[index]; r >= 0; r = build->next_slice[r]) {
        n_slices++;
        flops += profile->records[r].flops;
        bytes += profile->records[r].bytes;
    }
    profile->nodes[index] = (profile_node_t){
        .op = record->op,
        .path = record->path,
        .kernel = record->kernel,
        .implementation = record->implementation,
        .n_in = record->n_in,
        .n_out = record->n_out,
        .in = record->in,
        .out = record->out,
        .producers = producers,
        .n_reorders = end - first,
        .reorders = profile->reorders + first,
        .n_slices = n_slices,
        .flops = flops,
        .bytes = bytes,
        .ns = median_of_record(build, build->node_record[index]),
        .begin_ns = (double)shown->begin,
        .shown_ns = (double)time_of(build, build->shown, build->node_record[index])};
}

static status_t fill_nodes(build_t *build)
{
    profile_t *profile = build->profile;
    context_t *ctx = profile->ctx;
    const char *what = "nodes of a profile";
    size_t n_inputs = 0;
    for (int i = 0; i < profile->n_nodes; i++)
        n_inputs += (size_t)profile->records[build->node_record[i]].n_in;
    TRY(context_get(ctx, (size_t)profile->n_nodes * sizeof *profile->nodes, what, &profile->nodes));
    TRY(context_get(ctx, (size_t)build->n_inside * sizeof *profile->reorders, what,
                    &profile->reorders));
    TRY(context_get(ctx, n_inputs * sizeof *profile->producers, what, &profile->producers));
    for (int i = 0; i < build->n_inside; i++)
        profile->reorders[i] = reorder_of(build, build->inside[i]);
    int *producers = profile->producers;
    for (int i = 0; i < profile->n_nodes; i++) {
        fill_node(build, i, producers);
        producers += profile->nodes[i].n_in;
    }
    return STATUS_OK;
}

status_t profile_build(profile_t *profile)
{
    context_t *ctx = profile->ctx;
    const size_t n = (size_t)profile->n_records * sizeof(int);
    const char *what = "nodes of a profile";
    build_t build = {.profile = profile};
    status_t status = context_get(ctx, n, what, &build.node_record);
    if (status == STATUS_OK) status = context_get(ctx, n, what, &build.next_slice);
    if (status == STATUS_OK) status = context_get(ctx, n, what, &build.first);
    if (status == STATUS_OK) status = context_get(ctx, n, what, &build.inside);
    if (status == STATUS_OK)
        status = context_get(ctx, (size_t)profile->n_runs * sizeof *build.times, what,
                             &build.times);
    if (status == STATUS_OK) {
        choose_shown(&build);
        make_structure(&build);
        status = fill_nodes(&build);
    }
    if (status != STATUS_OK) profile->n_nodes = 0;
    CONTEXT_PUT(ctx, build.times, build.inside, build.first, build.next_slice, build.node_record);
    return status;
}
