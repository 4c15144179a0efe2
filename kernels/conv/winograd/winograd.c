#include "kernels/conv/winograd/winograd_impl.h"

#include <string.h>

#include "kernels/conv/winograd/winograd_points_impl.h"
#include "kernels/tiles_impl.h"
#include "tensor/onednn/onednn.h"
#include "tensor/threads/threads_impl.h"

static const winograd_loops_t *const loops[ISA_COUNT] = ISA_TABLE(winograd);
static const winograd_loops_t *const loops_of_pairs[ISA_COUNT] = {
    [ISA_PORTABLE] = &winograd_pairs_portable,
#if defined(__x86_64__)
    [ISA_AVX512] = &winograd_pairs_avx512_bf16,
#endif
};

bool winograd_is_for_pairs(isa_t isa)
{
#if defined(__x86_64__)
    return isa == ISA_AVX512 && loops_of_pairs[isa] != NULL && isa_has(isa) &&
           onednn_isa_has(onednn_isa(), ONEDNN_ISA_BF16) && __builtin_cpu_supports("avx512bf16");
#else
    (void)isa;
    return false;
#endif
}

bool winograd_has_pairs(isa_t isa)
{
    return isa == ISA_PORTABLE || winograd_is_for_pairs(isa);
}

static const winograd_loops_t *find_loops(isa_t isa, bool in_pairs)
{
    return in_pairs ? loops_of_pairs[isa] : loops[isa];
}

/* Maximum tiles of a group with FUSED. Transforms and products of a group must fit in the
 * second-level cache. But with too few tiles, reading each block of the weight takes longer than
 * multiplying. */
#define TILES_FUSED 28
/* FUSED is faster if each thread has at least this many tiles (measured). */
#define MANY_TILES 14
#define MANY_TILES_APART 48
/* Maximum tiles of a group with PHASES. Their transforms must fit in the last-level cache. */
#define TILES_IN_PHASES WINOGRAD_MAX_TILES

/* Each thread's word has its own cache line. */
enum { LINE = 64, WORDS_APART = LINE / sizeof(int64_t) };

/* Rounds floats up to an odd number of cache lines. A power of two would put all elements of a tile
 * in the same set of the first-level cache. */
static int64_t odd_lines(int64_t n)
{
    return ((n + 15) / 16 | 1) * 16;
}

/* Number of points of a transformed tile of x. */
static int64_t count_points(const winograd_t *w)
{
    const int64_t side = winograd_side(w->tile, w->kernel, w->stride);
    return side * side;
}

/* ---- plans ---- */

typedef struct plan {
    const winograd_t *winograd;
    const winograd_loops_t *loops;
    int n_threads;
    bool is_fused;
    winograd_group_t whole; /* all tiles; groups are ranges of these */
    int64_t n_groups;
    int64_t n_weight_blocks;
    int64_t n_parts; /* groups in one phase; each has its own memory for transformed x */
    bool is_apart;   /* with PHASES: each thread transforms all of x for itself */
    /* floats: of the bias, of the sources of one group, of the products of one thread */
    int64_t n_bias, n_sources, n_products;
    float *bias, *sources, *products;
    int64_t *n_transformed; /* number of parts that each thread has transformed for itself, in
                               a cache line of the thread */
} plan_t;

static bool suits_fusing(const plan_t *plan)
{
    const winograd_t *w = plan->winograd;
    if (w->schedule != WINOGRAD_CHOOSE) return w->schedule == WINOGRAD_FUSED;
    const bool is_apart = plan->is_apart && w->stride == 1;
    return plan->whole.n_tiles >= plan->n_threads * (is_apart ? MANY_TILES_APART : MANY_TILES);
}

/* Reading elements that another core has written is slow. If each thread computes at least this
 * many output channels, transforms take little time compared with products, so each thread
 * transforms all of x for itself. With stride 2 there are twice as many transforms for the same
 * number of products. */
#define OUTPUTS_APART 64

/* Number of groups. If there are few, a multiple of the threads, so that all threads end at the
 * same time. */
static int64_t count_groups(const plan_t *plan)
{
    const int64_t n = plan->whole.n_tiles, n_threads = plan->n_threads;
    if (!plan->is_fused) return (n + TILES_IN_PHASES - 1) / TILES_IN_PHASES;
    const int64_t n_groups = (n + TILES_FUSED - 1) / TILES_FUSED;
    const int64_t even = round_up(n_groups, n_threads);
    return n_groups < 16 * n_threads && even <= n ? even : n_groups;
}

static int64_t group_begin(const plan_t *plan, int64_t group)
{
    return plan->whole.first + plan->whole.n_tiles * group / plan->n_groups;
}

/* Number of groups (parts) into which the tiles of a phase are divided, in addition to the blocks
 * of the weight. This makes at least two units of work for each thread, so that all threads end at
 * about the same time. */
static int64_t count_parts(const plan_t *plan)
{
    const int64_t n_units = 2 * plan->n_threads;
    const int64_t most = (plan->whole.n_tiles + plan->n_groups - 1) / plan->n_groups;
    const int64_t n_blocks = (most + plan->loops->n_rows - 1) / plan->loops->n_rows;
    if (plan->is_fused || plan->n_threads == 1) return 1;
    const int64_t n = (n_units + plan->n_weight_blocks - 1) / plan->n_weight_blocks;
    return n < n_blocks ? n : n_blocks;
}

/* Number of rows of tiles before a row of results, at which a tile begins or the image ends. */
static int64_t tile_row(const winograd_t *w, int64_t row)
{
    const int64_t of_long = winograd_count_long(w->out_height, w->tile) * w->tile;
    const int64_t n_long = (row < of_long ? row : of_long) / w->tile;
    return row <= of_long ? n_long : n_long + divide_up(row - of_long, w->tile - 1);
}

int64_t winograd_row_end(const winograd_t *w, int64_t row)
{
    const int64_t of_long = winograd_count_long(w->out_height, w->tile) * w->tile;
    const int64_t end = row <= of_long ? round_up(row, w->tile)
                                       : of_long + round_up(row - of_long, w->tile - 1);
    return end < w->out_height ? end : w->out_height;
}

static void make_plan(const winograd_t *w, isa_t isa, int n_threads, plan_t *plan)
{
    const int64_t lanes = isa_lanes(isa), width = lanes * WINOGRAD_VECTORS;
    const int64_t n_points = count_points(w);
    *plan = (plan_t){.winograd = w, .loops = find_loops(isa, w->in_pairs), .n_threads = n_threads};
    winograd_group_t *whole = &plan->whole;
    whole->winograd = w;
    whole->tiles_y = winograd_count_tiles(w->out_height, w->tile);
    whole->tiles_x = winograd_count_tiles(w->out_width, w->tile);
    whole->long_y = winograd_count_long(w->out_height, w->tile);
    whole->long_x = winograd_count_long(w->out_width, w->tile);
    whole->n_tiles = w->n_images * whole->tiles_y * whole->tiles_x;
    if (w->rows.last > 0) {
        whole->first = tile_row(w, w->rows.first) * whole->tiles_x;
        whole->n_tiles = tile_row(w, w->rows.last) * whole->tiles_x - whole->first;
    }
    whole->n_source_blocks = (w->n_inputs + lanes - 1) / lanes;
    plan->n_weight_blocks = (w->n_outputs + width - 1) / width;
    plan->is_apart = w->n_outputs >= n_threads * OUTPUTS_APART;
    plan->is_fused = suits_fusing(plan);
    plan->n_groups = count_groups(plan);
    plan->n_parts = count_parts(plan);
    plan->n_groups *= plan->n_parts;
    const int64_t most = (whole->n_tiles + plan->n_groups - 1) / plan->n_groups;
    whole->stride = odd_lines(most * whole->n_source_blocks * lanes);
    plan->n_bias = round_up(plan->n_weight_blocks * width, 16);
    plan->n_sources = n_points * whole->stride;
    plan->n_products = n_points * odd_lines(most * width);
}

/* Counts how many tiles of a group have each kind of points. */
static void count_tiles(const plan_t *plan, winograd_group_t *group)
{
    winograd_tile_t tile = winograd_first_tile(group);
    for (int64_t i = 0; i < group->n_tiles; i++) winograd_next_tile(group, &tile);
    for (int kind = 0; kind < WINOGRAD_KINDS; kind++) {
        group->n[kind] = tile.number[kind];
        group->n_blocks[kind] = (tile.number[kind] + plan->loops->n_rows - 1) / plan->loops->n_rows;
    }
}

static float *sources_at(const plan_t *plan, int64_t part)
{
    return plan->sources + part * plan->n_sources;
}

static void make_group(const plan_t *plan, int64_t number, winograd_group_t *group)
{
    *group = plan->whole;
    group->first = group_begin(plan, number);
    group->n_tiles = group_begin(plan, number + 1) - group->first;
    group->source = sources_at(plan, number % plan->n_parts);
    group->bias = plan->bias;
    count_tiles(plan, group);
}

static int64_t count_sources(const plan_t *plan)
{
    const int64_t n = plan->is_fused || plan->is_apart ? plan->n_threads : 1;
    return plan->n_sources * plan->n_parts * n;
}

static int64_t products_stride(const plan_t *plan)
{
    return plan->n_products / count_points(plan->winograd);
}

/* ---- FUSED ---- */

static void run_groups(void *user, int64_t first, int64_t last, int member)
{
    const plan_t *plan = user;
    winograd_group_t group;
    for (int64_t g = first; g < last; g++) {
        make_group(plan, g, &group);
        group.source = sources_at(plan, member);
        plan->loops->transform(&group, 0, group.n_tiles * group.n_source_blocks);
        for (int64_t b = 0; b < plan->n_weight_blocks; b++)
            plan->loops->multiply(&group, b, plan->products + member * plan->n_products,
                                  products_stride(plan));
    }
}

/* ---- PHASES ---- */

typedef struct phase {
    const plan_t *plan;
    int64_t first; /* number of the first of the phase's n_parts groups */
} phase_t;

/* Describes one group of a phase, with the memory of the transformed x that this member reads. */
static void make_part(const phase_t *phase, int64_t member, int64_t part, winograd_group_t *group)
{
    const plan_t *plan = phase->plan;
    make_group(plan, phase->first + part, group);
    if (plan->is_apart) group->source = sources_at(plan, member * plan->n_parts + part);
}

/* Transforms units [first, last) of the phase. A part has a unit for each tile and block of
 * sources; units are numbered from the first part to the last. */
static void transform_units(void *user, int64_t first, int64_t last)
{
    const phase_t *phase = user;
    const plan_t *plan = phase->plan;
    for (int64_t part = 0, begin = 0; part < plan->n_parts; part++) {
        winograd_group_t group;
        make_part(phase, 0, part, &group);
        const int64_t n = group.n_tiles * group.n_source_blocks;
        const int64_t from = first > begin ? first - begin : 0;
        const int64_t to = last < begin + n ? last - begin : n;
        if (from < to) plan->loops->transform(&group, from, to);
        begin += n;
    }
}

/* Transforms all parts of the phase for one member, before its first units. */
static void transform_apart(const phase_t *phase, int member)
{
    const plan_t *plan = phase->plan;
    int64_t *n_transformed = &plan->n_transformed[member * WORDS_APART];
    winograd_group_t group;
    if (*n_transformed > phase->first) return;
    for (int64_t part = 0; part < plan->n_parts; part++) {
        make_part(phase, member, part, &group);
        plan->loops->transform(&group, 0, group.n_tiles * group.n_source_blocks);
    }
    *n_transformed = phase->first + plan->n_parts;
}

static void multiply_units(void *user, int64_t first, int64_t last, int member)
{
    const phase_t *phase = user;
    const plan_t *plan = phase->plan;
    winograd_group_t group;
    if (plan->is_apart) transform_apart(phase, member);
    for (int64_t u = first; u < last; u++) {
        make_part(phase, member, u % plan->n_parts, &group);
        plan->loops->multiply(&group, u / plan->n_parts, plan->products + member * plan->n_products,
                              products_stride(plan));
    }
}

static void run_phases(const plan_t *plan)
{
    for (int64_t g = 0; g < plan->n_groups; g += plan->n_parts) {
        phase_t phase = {plan, g};
        const int64_t n_tiles = group_begin(plan, g + plan->n_parts) - group_begin(plan, g);
        if (!plan->is_apart)
            threads_share(plan->n_threads, n_tiles * plan->whole.n_source_blocks, transform_units,
                          &phase);
        threads_share_members(plan->n_threads, plan->n_weight_blocks * plan->n_parts,
                              multiply_units, &phase);
    }
}

/* ---- runs ---- */

size_t winograd_scratch(const winograd_t *winograd, isa_t isa, int n_threads)
{
    size_t most = 0;
    for (int n = 1; n <= n_threads; n++) {
        plan_t plan;
        make_plan(winograd, isa, n, &plan);
        const int64_t n_floats = plan.n_bias + count_sources(&plan) + plan.n_products * n;
        const size_t size = (size_t)n * LINE + (size_t)n_floats * sizeof(float);
        most = size > most ? size : most;
    }
    return most;
}

void winograd_run(const winograd_t *winograd, isa_t isa, int n_threads, void *scratch)
{
    plan_t plan;
    make_plan(winograd, isa, n_threads, &plan);
    plan.n_transformed = scratch;
    plan.bias = (float *)(void *)((char *)scratch + n_threads * LINE);
    plan.sources = plan.bias + plan.n_bias;
    plan.products = plan.sources + count_sources(&plan);
    memset(scratch, 0, (size_t)n_threads * LINE);
    memset(plan.bias, 0, (size_t)plan.n_bias * sizeof(float));
    if (winograd->bias != NULL)
        memcpy(plan.bias, winograd->bias, (size_t)winograd->n_outputs * sizeof(float));
    if (plan.is_fused)
        threads_share_members(n_threads, plan.n_groups, run_groups, &plan);
    else
        run_phases(&plan);
}

/* ---- the weight ---- */

winograd_weight_t winograd_plain_weight(int tile, int kernel, int stride, int64_t n_inputs,
                                        int64_t n_outputs, const float *from)
{
    const int64_t size = (int64_t)kernel * kernel;
    return (winograd_weight_t){.tile = tile,
                               .kernel = kernel,
                               .stride = stride,
                               .from = from,
                               .inputs = {n_inputs, 1, 0, size},
                               .outputs = {n_outputs, 1, 0, n_inputs * size},
                               .element = 1};
}

int64_t winograd_weight_elements(int tile, int kernel, int64_t n_inputs, int64_t n_outputs,
                                 isa_t isa)
{
    const int64_t lanes = isa_lanes(isa), side = tile + kernel - 1;
    return side * side * round_up(n_inputs, lanes) * round_up(n_outputs, lanes);
}

/* Makes the matrix that transforms a kernel in one dimension. Each row evaluates the kernel's
 * polynomial at one point, divided by the product of the distances to the other points, so that the
 * transform of x needs no division. The next row is the point at infinity, the polynomial's leading
 * coefficient. With stride 2, the polynomial has the two outer elements of the kernel, zero is not
 * a point, and the last row is the middle element. */
static void make_matrix(const winograd_weight_t *weight, double (*matrix)[WINOGRAD_MAX_KERNEL])
{
    double points[WINOGRAD_MAX_SIDE] = {0.0};
    const int kernel = weight->kernel, step = weight->stride, n_zeros = step == 1 ? 1 : 0;
    /* n: finite points */
    const int n_pairs = (weight->tile + kernel - 3) / 2, n = 2 * n_pairs + n_zeros;
    for (int p = 0; p < n_pairs; p++) {
        points[n_zeros + 2 * p] = (double)winograd_points[n_pairs - 1].point[p];
        points[n_zeros + 2 * p + 1] = -points[n_zeros + 2 * p];
    }
    for (int i = 0; i < n; i++) {
        double product = 1.0;
        for (int j = 0; j < n; j++) product *= i != j ? points[i] - points[j] : 1.0;
        matrix[i][0] = 1.0 / product;
        for (int k = step; k < kernel; k += step) matrix[i][k] = matrix[i][k - step] * points[i];
    }
    matrix[n][kernel - 1] = 1.0;
    if (step == 2) matrix[n + 1][1] = 1.0;
}

/* Weighted least squares: (M^T W M)^-1 M^T W, where M is the matrix of make_matrix. W divides by
 * the squared length of each row, because the rounding error of a transformed element is
 * proportional to the length of its row. */
void winograd_recovery(const winograd_t *winograd, double (*out)[WINOGRAD_MAX_SIDE])
{
    const int kernel = winograd->kernel, n = winograd->tile + kernel - 1;
    const winograd_weight_t weight = {
        .tile = winograd->tile, .kernel = kernel, .stride = winograd->stride};
    double matrix[WINOGRAD_MAX_SIDE][WINOGRAD_MAX_KERNEL] = {{0.0}};
    double sums[WINOGRAD_MAX_KERNEL][WINOGRAD_MAX_KERNEL] = {{0.0}};
    make_matrix(&weight, matrix);
    for (int i = 0; i < n; i++) {
        double square = 0.0;
        for (int k = 0; k < kernel; k++) square += matrix[i][k] * matrix[i][k];
        for (int k = 0; k < kernel; k++) {
            out[k][i] = matrix[i][k] / square;
            for (int j = 0; j < kernel; j++) sums[k][j] += out[k][i] * matrix[i][j];
        }
    }
    /* solves sums * x = out; sums is positive definite, so it needs no pivots */
    for (int k = 0; k < kernel; k++)
        for (int row = 0; row < kernel; row++) {
            const double factor = row != k ? sums[row][k] / sums[k][k] : 0.0;
            for (int j = 0; j < kernel; j++) sums[row][j] -= factor * sums[k][j];
            for (int i = 0; i < n; i++) out[row][i] -= factor * out[k][i];
        }
    for (int k = 0; k < kernel; k++)
        for (int i = 0; i < n; i++) out[k][i] /= sums[k][k];
}

typedef struct packing {
    winograd_packing_t packing;
    const winograd_loops_t *loops;
} packing_t;

static void pack_blocks(void *user, int64_t first, int64_t last)
{
    const packing_t *packing = user;
    packing->loops->pack(&packing->packing, first, last);
}

void winograd_pack(const winograd_weight_t *weight, isa_t isa, int n_threads, void *out)
{
    packing_t packing = {{weight, out, {{0.0}}}, find_loops(isa, weight->in_pairs)};
    const int64_t width = isa_lanes(isa) * WINOGRAD_VECTORS;
    make_matrix(weight, packing.packing.matrix);
    threads_share(n_threads, (weight->outputs.n + width - 1) / width, pack_blocks, &packing);
}
