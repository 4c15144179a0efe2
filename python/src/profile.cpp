// Profiles of a model's runs: the same rows as `tessera profile --json`.
#include "native.h"

#include <cmath>

#include <nanobind/stl/string.h>

extern "C" {
#include "tools/profile/profile.h"
}

namespace
{

using Profile = std::unique_ptr<profile_t, Releases<profile_t, profile_destroy>>;

// Measures once per number of threads, since it takes a second. Other Python threads run meanwhile.
bool find_limits(int n_threads, profile_limits_t &limits)
{
    static std::mutex mutex;
    static std::map<int, profile_limits_t> all;
    const nb::gil_scoped_release unlocked;
    const std::lock_guard<std::mutex> lock(mutex);
    const auto found = all.find(n_threads);
    if (found == all.end() && !profile_measure_limits(n_threads, &limits)) return false;
    if (found == all.end()) all[n_threads] = limits;
    limits = all[n_threads];
    return true;
}

profile_limits_t limits_of(int n_threads)
{
    profile_limits_t limits = {};
    if (!find_limits(n_threads, limits))
        raise(STATUS_OUT_OF_MEMORY, "out of memory while measuring the limits of this machine");
    return limits;
}

std::string format_of(const tensor_info_t &info)
{
    char text[FORMAT_TEXT_MAX];
    format_t format = info.format;
    if (info.dtype == DTYPE_NONE) return "none";
    if (info.rank == 0) return "scalar";
    if (format.kind == FORMAT_OPAQUE) return "packed";
    if (info.layout == LAYOUT_DENSE && format.kind == FORMAT_STRIDED)
        format = format_of_strides(info.rank, info.sizes, format.strides);
    return format_text(&format, text);
}

// ("f32[1,64,56,56]", "aBcd8b")
nb::tuple pair_of(const tensor_info_t &info)
{
    std::string text = dtype_name(info.dtype);
    for (int d = 0; d < info.rank; d++) text += (d > 0 ? "," : "[") + std::to_string(info.sizes[d]);
    return nb::make_tuple(text + (info.rank > 0 ? "]" : ""), format_of(info));
}

nb::list pairs_of(int n, const tensor_info_t *infos)
{
    nb::list list;
    for (int i = 0; i < n; i++) list.append(pair_of(infos[i]));
    return list;
}

nb::dict dict_of_reorder(const profile_reorder_t &reorder)
{
    nb::dict dict;
    dict["cause"] = cause_name(reorder.cause);
    dict["by"] = reorder.by;
    dict["copy"] = reorder.is_copy;
    dict["from"] = format_of(reorder.from);
    dict["to"] = format_of(reorder.to);
    dict["ms"] = reorder.ns / 1e6;
    dict["bytes"] = reorder.bytes;
    return dict;
}

nb::dict row_of(const profile_node_t &node, int index, double all_ns,
                const profile_limits_t &limits)
{
    const double per_ns = node.ns > 0 ? 1 / node.ns : 0;
    nb::dict row;
    nb::list reorders;
    for (int i = 0; i < node.n_reorders; i++) reorders.append(dict_of_reorder(node.reorders[i]));
    row["index"] = index + 1;
    row["operator"] = node.op != nullptr         ? node.op->name
                      : node.reorders[0].is_copy ? "copy"
                                                 : "reorder";
    row["path"] = node.path;
    row["kernel"] = node.kernel;
    row["implementation"] = node.op != nullptr ? node.implementation : node.reorders[0].by;
    row["ms"] = node.ns / 1e6;
    row["share"] = all_ns > 0 ? node.ns / all_ns : 0;
    row["gflops"] = node.flops * per_ns;
    row["gbs"] = static_cast<double>(node.bytes) * per_ns;
    row["limit_share"] = profile_limit_ns(&limits, &node) * per_ns;
    row["slices"] = node.n_slices;
    row["flops"] = node.flops;
    row["bytes"] = node.bytes;
    row["in"] = pairs_of(node.n_in, node.in);
    row["out"] = pairs_of(node.n_out, node.out);
    row["reorders"] = reorders;
    return row;
}

} // namespace

nb::object Model::profile(nb::args args, int iterations)
{
    if (iterations < 1)
        raise(STATUS_INVALID_ARGUMENT,
              "iterations is " + std::to_string(iterations) + ", must be 1 or more");
    context_t *ctx = context();
    const std::vector<Datum> inputs = inputs_of(args);
    std::vector<Datum> outputs;
    ModuleOwner other;
    for (int i = 0; i < 2; i++) { // builds plans, which must not be timed
        outputs.clear();
        run_where_it_fits(ctx, inputs, outputs, other);
    }
    module_t *module = other ? other.get() : first();
    profile_t *made = nullptr;
    check(ctx, profile_create(ctx, &made));
    const Profile profile(made);
    for (int i = 0; i < iterations; i++) {
        outputs.clear();
        check(ctx, profile_begin_run(made));
        const status_t status = run(ctx, module, inputs, outputs);
        check(ctx, profile_end_run(made));
        check(ctx, status);
    }
    check(ctx, profile_finish(made));
    const profile_limits_t limits = limits_of(context_threads(ctx));
    double all_ns = 0;
    for (int i = 0; i < profile_n_nodes(made); i++) all_ns += profile_node(made, i)->ns;
    nb::list rows;
    for (int i = 0; i < profile_n_nodes(made); i++)
        rows.append(row_of(*profile_node(made, i), i, all_ns, limits));
    return nb::module_::import_("tessera.report")
        .attr("Profile")(rows, profile_run_ns(made) / 1e6, profile_n_runs(made));
}
