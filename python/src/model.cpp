// Models: import or map, freeze, run on arrays.
#include "native.h"

#include <algorithm>

#include <sys/stat.h>

#include <nanobind/stl/string.h>

namespace
{

// Import size for open sizes without a given shape. If the graph then holds only for this size, or
// the model does not accept it, the model is imported at the sizes of the first run.
constexpr int64_t open_size = 64;

// Maximum number of modules of one model for different sizes.
constexpr size_t max_variants = 8;

// The error of a call, kept while another attempt runs.
struct Failure {
    status_t status;
    std::string message;
};

Failure failure_of(context_t *ctx, status_t status)
{
    Failure failure = {status, context_error(ctx)};
    context_clear_error(ctx);
    return failure;
}

nb::object shape_of(const module_value_t &value)
{
    if (value.kind != DATUM_TENSOR || value.rank < 0) return nb::none();
    nb::list sizes;
    for (int d = 0; d < value.rank; d++) {
        if (value.sizes[d] >= 0)
            sizes.append(value.sizes[d]);
        else if (value.dims[d] != nullptr)
            sizes.append(nb::str(value.dims[d]));
        else
            sizes.append(nb::none());
    }
    return nb::tuple(sizes);
}

// Returns the shapes of the inputs by name, or nothing if an input is not a tensor.
std::vector<Shape> shapes_of(context_t *ctx, const module_t *module,
                             const std::vector<Datum> &inputs)
{
    std::vector<Shape> shapes;
    for (size_t i = 0; i < inputs.size(); i++) {
        module_value_t value;
        if (datum_kind(inputs[i].get()) != DATUM_TENSOR) return {};
        check(ctx, module_input(ctx, module, "forward", static_cast<int>(i), &value));
        const tensor_t *tensor = datum_as_tensor(inputs[i].get());
        const int64_t *sizes = tensor_sizes(tensor);
        shapes.push_back({value.name != nullptr ? value.name : "",
                          std::vector<int64_t>(sizes, sizes + tensor_rank(tensor))});
    }
    return shapes;
}

bool is_of(const std::vector<Shape> &shapes, const std::vector<Datum> &inputs)
{
    return std::equal(shapes.begin(), shapes.end(), inputs.begin(), inputs.end(),
                      [](const Shape &shape, const Datum &input) {
                          const tensor_t *tensor = datum_as_tensor(input.get());
                          if (tensor == nullptr) return false;
                          const int64_t *sizes = tensor_sizes(tensor);
                          return std::equal(shape.sizes.begin(), shape.sizes.end(), sizes,
                                            sizes + tensor_rank(tensor));
                      });
}

// Returns true if an input has open sizes without a given shape; false if a given shape matches no
// input.
bool is_open(context_t *ctx, const module_t *module, const std::vector<Shape> &given)
{
    size_t n_given = 0;
    bool is_open = false;
    for (int i = 0; i < module_n_inputs(module, "forward"); i++) {
        module_value_t value;
        check(ctx, module_input(ctx, module, "forward", i, &value));
        const bool is_given = std::any_of(given.begin(), given.end(), [&](const Shape &shape) {
            return value.name != nullptr && shape.input == value.name;
        });
        n_given += is_given;
        is_open |= !is_given && std::any_of(value.sizes, value.sizes + std::max(value.rank, 0),
                                            [](int64_t size) { return size < 0; });
    }
    return is_open && n_given == given.size();
}

std::vector<Shape> shapes_of_dict(const nb::dict &dict)
{
    std::vector<Shape> shapes;
    for (auto [name, sizes] : dict) {
        Shape shape = {nb::cast<std::string>(name), {}};
        for (nb::handle size : sizes) shape.sizes.push_back(nb::cast<int64_t>(size));
        shapes.push_back(std::move(shape));
    }
    return shapes;
}

} // namespace

// ---- importing ----

namespace
{

// Returns device, inode, size and time of the last change; zeros if there is no such file.
std::array<int64_t, 5> identify(const std::string &path)
{
    struct stat file = {};
    if (path.empty() || stat(path.c_str(), &file) != 0) return {};
    return {static_cast<int64_t>(file.st_dev), static_cast<int64_t>(file.st_ino), file.st_size,
            file.st_mtim.tv_sec, file.st_mtim.tv_nsec};
}

} // namespace

status_t Model::check_file(context_t *ctx) const
{
    if (identify(path_) == file_) return STATUS_OK;
    return context_fail(ctx, STATUS_IO, "%s: the file has changed since it was loaded",
                        path_.c_str());
}

// The options of a source, for onnx_load. The source owns the texts and tensors.
struct Options {
    std::vector<onnx_tensor_t> tensors;
    std::vector<const char *> guards;
    onnx_options_t options = {};

    explicit Options(const Source &source)
    {
        for (const Given &one : source.given)
            tensors.push_back({one.initializer.c_str(), one.tensor.get()});
        for (const std::string &guard : source.guards) guards.push_back(guard.c_str());
        options.n_tensors = static_cast<int>(tensors.size());
        options.tensors = tensors.data();
        options.n_guards = static_cast<int>(guards.size());
        options.guards = guards.data();
    }
};

status_t Model::import(context_t *ctx, const Source &source, const std::vector<Shape> &shapes,
                       int64_t open, ModuleOwner &module) const
{
    module_t *frozen = nullptr;
    std::vector<onnx_shape_t> given;
    if (const status_t status = check_file(ctx); status != STATUS_OK) return status;
    for (const Shape &shape : shapes)
        given.push_back(
            {shape.input.c_str(), static_cast<int>(shape.sizes.size()), shape.sizes.data()});
    freeze_options_t how = {};
    how.dtype = dtype_;
    const auto [elements, n_bytes] = bytes(source);
    const Options made(source);
    onnx_options_t options = made.options;
    options.n_shapes = static_cast<int>(given.size());
    options.shapes = given.data();
    options.open_size = open;
    status_t status;
    {
        const Unlocked unlocked(ctx, &running_);
        status = path_.empty()
                     ? onnx_load_frozen_bytes(ctx, elements, n_bytes, &options, &how, &frozen)
                     : onnx_load_frozen(ctx, path_.c_str(), &options, &how, &frozen);
    }
    module.reset(frozen);
    return status;
}

status_t Model::export_and_import(context_t *ctx, const std::vector<Shape> &shapes,
                                  ModuleOwner &module) const
{
    nb::dict given;
    for (const Shape &shape : shapes) {
        nb::list sizes;
        for (int64_t size : shape.sizes) sizes.append(size);
        given[shape.input.c_str()] = sizes;
    }
    const auto made = nb::cast<nb::tuple>(again_(given));
    const Source source = source_of(made[0], made[1], made[2]);
    return import(ctx, source, shapes, 0, module);
}

std::pair<const char *, size_t> Model::bytes(const Source &source) const
{
    PyObject *bytes = source.bytes.ptr();
    if (source.bytes.is_none()) return {nullptr, 0};
    return {PyBytes_AS_STRING(bytes), static_cast<size_t>(PyBytes_GET_SIZE(bytes))};
}

Source Model::source_of(nb::object bytes, const nb::dict &initializers,
                        const nb::list &guards) const
{
    Source source;
    if (!bytes.is_none()) source.bytes = nb::cast<nb::bytes>(bytes);
    for (auto [name, array] : initializers)
        source.given.push_back({nb::cast<std::string>(name), tensor_of_array(context(), array)});
    for (nb::handle guard : guards) source.guards.push_back(nb::cast<std::string>(guard));
    return source;
}

ModuleOwner Model::describe(context_t *ctx) const
{
    module_t *module = nullptr;
    const auto [elements, n_bytes] = bytes(source_);
    check(ctx, path_.empty() ? onnx_describe_bytes(ctx, elements, n_bytes, &module)
                             : onnx_describe(ctx, path_.c_str(), &module));
    return ModuleOwner(module);
}

void Model::take(std::vector<Shape> shapes, ModuleOwner module)
{
    variants_.push_back({std::move(shapes), std::move(module)});
    for (nb::handle value : values(false)) input_names_.emplace_back(nb::str(value.attr("name")));
    for (nb::handle value : values(true)) output_names_.emplace_back(nb::str(value.attr("name")));
}

std::unique_ptr<Model> Model::of_onnx(const std::string &path, nb::object bytes,
                                      const nb::dict &shapes, const Settings &settings,
                                      const std::string &dtype, const nb::dict &initializers,
                                      bool is_closed, const nb::list &guards, nb::object again)
{
    auto model = std::make_unique<Model>();
    model->settings_ = settings;
    model->path_ = path;
    model->file_ = identify(path);
    model->dtype_ = dtype_parse(dtype.c_str());
    if (!dtype.empty() && model->dtype_ == DTYPE_NONE)
        raise(STATUS_INVALID_ARGUMENT, "dtype is " + dtype + ", must be f32 or bf16");
    if (model->dtype_ == DTYPE_S8)
        raise(STATUS_INVALID_ARGUMENT, "dtype is s8, which needs examples: use tessera freeze "
                                       "--dtype s8 --calibrate DIR");
    model->source_ = model->source_of(bytes, initializers, guards);
    model->again_ = again;
    std::vector<Shape> given = shapes_of_dict(shapes);
    ModuleOwner module;
    context_t *ctx = model->context();
    const status_t status = model->import(ctx, model->source_, given, open_size, module);
    if (status == STATUS_INVALID_ARGUMENT || status == STATUS_UNSUPPORTED) {
        const Failure failure = failure_of(ctx, status);
        module = model->describe(ctx);
        if (is_closed || !is_open(ctx, module.get(), given)) raise(failure.status, failure.message);
        model->is_described_ = true;
    } else {
        check(ctx, status);
    }
    model->take(std::move(given), std::move(module));
    if (is_closed) {
        model->path_.clear();
        model->source_ = Source();
    }
    return model;
}

// Makes a module of one graph method, `forward`, and freezes it.
static status_t freeze_text(context_t *ctx, const char *text, const datum_t *pool,
                            module_t **out_frozen)
{
    graph_t *graph = nullptr;
    module_t *module = nullptr;
    status_t status = graph_parse(ctx, text, pool, &graph);
    if (status == STATUS_OK) status = graph_verify(ctx, graph);
    if (status == STATUS_OK) status = module_create(ctx, "Graph", &module);
    if (status == STATUS_OK) status = graph_set_method(ctx, module, "forward", graph);
    if (status == STATUS_OK) status = freeze(ctx, module, nullptr, out_frozen);
    module_release(module);
    graph_release(graph);
    return status;
}

std::unique_ptr<Model> Model::of_graph(const std::string &text, const nb::list &constants,
                                       const Settings &settings)
{
    auto model = std::make_unique<Model>();
    model->settings_ = settings;
    context_t *ctx = model->context();
    const Datum pool = datum_of_object(ctx, constants);
    module_t *frozen = nullptr;
    status_t status;
    {
        const Unlocked unlocked(ctx);
        status = freeze_text(ctx, text.c_str(), pool.get(), &frozen);
    }
    ModuleOwner owner(frozen);
    check(ctx, status);
    model->take({}, std::move(owner));
    return model;
}

std::unique_ptr<Model> Model::of_tessera(const std::string &path, const Settings &settings,
                                         bool is_copied, bool is_unchecked)
{
    freeze_load_options_t options = {};
    options.is_copied = is_copied;
    options.is_unchecked = is_unchecked;
    auto model = std::make_unique<Model>();
    model->settings_ = settings;
    module_t *module = nullptr;
    context_t *ctx = model->context();
    status_t status;
    {
        const Unlocked unlocked(ctx);
        status = freeze_load_with(ctx, path.c_str(), &options, &module);
        if (status == STATUS_OK) status = onnx_reopen(ctx, module);
    }
    ModuleOwner owner(module);
    check(ctx, status);
    model->take({}, std::move(owner));
    return model;
}

// ---- running ----

ModuleOwner Model::find(context_t *ctx, const std::vector<Datum> &inputs)
{
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto at = variants_.begin() + 1; at != variants_.end(); ++at) {
        if (!is_of(at->shapes, inputs) && !takes(ctx, at->module.get(), inputs)) continue;
        std::rotate(variants_.begin() + 1, at, at + 1);
        return ModuleOwner(module_retain(variants_[1].module.get()));
    }
    return nullptr;
}

bool Model::takes(context_t *ctx, const module_t *module, const std::vector<Datum> &inputs)
{
    std::vector<const tensor_info_t *> infos;
    for (const Datum &input : inputs) {
        const tensor_t *tensor = datum_as_tensor(input.get());
        infos.push_back(tensor != nullptr ? tensor_info(tensor) : nullptr);
    }
    const status_t status = module_check_inputs(ctx, module, "forward",
                                                static_cast<int>(infos.size()), infos.data());
    if (status != STATUS_OK) context_clear_error(ctx);
    return status == STATUS_OK;
}

// Importing releases the GIL, and destroying a module may, too. Neither may hold the lock, since
// another thread may wait for it with the GIL. So two threads may import at the same sizes; the
// second module is then dropped.
ModuleOwner Model::import_for(context_t *ctx, const std::vector<Datum> &inputs)
{
    const std::vector<Shape> shapes = shapes_of(ctx, first(), inputs);
    ModuleOwner module;
    status_t status = import(ctx, source_, shapes, 0, module);
    if (status == STATUS_INVALID_ARGUMENT && !again_.is_none()) {
        context_clear_error(ctx);
        status = export_and_import(ctx, shapes, module);
    }
    check(ctx, status);
    ModuleOwner kept = find(ctx, inputs);
    if (kept) return kept;
    Variant gone;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (variants_.size() == max_variants) {
        gone = std::move(variants_.back());
        variants_.pop_back();
    }
    variants_.insert(variants_.begin() + 1, {shapes, ModuleOwner(module_retain(module.get()))});
    return module;
}

status_t Model::run(context_t *ctx, module_t *module, const std::vector<Datum> &inputs,
                    std::vector<Datum> &outputs) const
{
    datum_t *in[METHOD_MAX_OUTPUTS], *out[METHOD_MAX_OUTPUTS];
    int n_out = METHOD_MAX_OUTPUTS;
    if (inputs.size() > METHOD_MAX_OUTPUTS)
        return context_fail(ctx, STATUS_INVALID_ARGUMENT, "%zu inputs, at most %d are possible",
                            inputs.size(), METHOD_MAX_OUTPUTS);
    for (size_t i = 0; i < inputs.size(); i++) in[i] = inputs[i].get();
    const Unlocked unlocked(ctx, &running_);
    const status_t status = module_call(ctx, module, "forward", static_cast<int>(inputs.size()), in,
                                        &n_out, out);
    for (int i = 0; status == STATUS_OK && i < n_out; i++) outputs.emplace_back(out[i]);
    return status;
}

void Model::run_where_it_fits(context_t *ctx, const std::vector<Datum> &inputs,
                              std::vector<Datum> &outputs, ModuleOwner &other)
{
    other = find(ctx, inputs);
    if (is_described_ && !other) other = import_for(ctx, inputs);
    status_t status = run(ctx, other ? other.get() : first(), inputs, outputs);
    if (status == STATUS_INVALID_ARGUMENT && !other && is_onnx()) {
        const Failure failure = failure_of(ctx, status);
        if (takes(ctx, first(), inputs)) raise(failure.status, failure.message);
        try {
            other = import_for(ctx, inputs);
        } catch (nb::python_error
                     &error) { // the model fails at these sizes, too: report the first error
            if (!error.matches(PyExc_Exception)) throw;
            raise(failure.status, failure.message);
        }
        status = run(ctx, other.get(), inputs, outputs);
    }
    check(ctx, status);
}

std::vector<nb::object> Model::run_on(std::vector<Datum> &inputs, Framework framework)
{
    context_t *ctx = context();
    std::vector<Datum> outputs;
    ModuleOwner other;
    run_where_it_fits(ctx, inputs, outputs, other);
    inputs.clear(); // so that a result that is also an input has a single owner
    std::vector<nb::object> objects;
    for (Datum &datum : outputs)
        objects.push_back(object_of_datum(ctx, std::move(datum), framework));
    return objects;
}

nb::object Model::call(nb::args args)
{
    std::vector<Datum> inputs;
    Framework framework = Framework::numpy;
    for (nb::handle arg : args) {
        if (framework_of(arg) == Framework::torch) framework = Framework::torch;
        inputs.push_back(datum_of_object(context(), arg));
    }
    std::vector<nb::object> objects = run_on(inputs, framework);
    if (objects.size() == 1) return objects[0];
    nb::list list;
    for (nb::object &object : objects) list.append(object);
    return nb::tuple(list);
}

nb::dict Model::run_by_names(const nb::dict &feed)
{
    std::vector<Datum> inputs;
    Framework framework = Framework::numpy;
    for (const nb::str &name : input_names_) {
        if (!feed.contains(name))
            raise(STATUS_INVALID_ARGUMENT,
                  std::string("input \"") + name.c_str() + "\" is missing");
        const nb::object array = feed[name];
        if (framework_of(array) == Framework::torch) framework = Framework::torch;
        inputs.push_back(datum_of_object(context(), array));
    }
    if (feed.size() != input_names_.size()) raise_unknown(feed);
    std::vector<nb::object> objects = run_on(inputs, framework);
    nb::dict made;
    for (size_t i = 0; i < objects.size(); i++) made[output_names_[i]] = objects[i];
    return made;
}

void Model::raise_unknown(const nb::dict &feed) const
{
    std::string names;
    for (auto [name, array] : feed) {
        bool is_known = false;
        for (const nb::str &known : input_names_) is_known |= known.equal(name);
        if (!is_known) names += (names.empty() ? "" : ", ") + nb::cast<std::string>(nb::str(name));
    }
    raise(STATUS_INVALID_ARGUMENT, "the model has no input " + names);
}

// ---- inputs and outputs ----

nb::list Model::values(bool is_output) const
{
    context_t *ctx = context();
    nb::list list;
    const int n = is_output ? module_n_outputs(first(), "forward")
                            : module_n_inputs(first(), "forward");
    for (int i = 0; i < n; i++) {
        module_value_t value;
        check(ctx, is_output ? module_output(ctx, first(), "forward", i, &value)
                             : module_input(ctx, first(), "forward", i, &value));
        const bool is_tensor = value.kind == DATUM_TENSOR;
        list.append(Value{value.name != nullptr ? value.name : "",
                          is_tensor ? dtype_name(value.dtype) : datum_kind_name(value.kind),
                          shape_of(value)});
    }
    return list;
}

namespace
{

// Adds the graphs of the other modules to the first. Skips a module whose attributes are not
// constant, since it cannot be added.
status_t add_all(context_t *ctx, module_t *module, const std::vector<ModuleOwner> &modules)
{
    status_t status = STATUS_OK;
    for (size_t i = 1; i < modules.size() && status == STATUS_OK; i++) {
        status = freeze_add(ctx, module, modules[i].get());
        if (status != STATUS_UNSUPPORTED) continue;
        context_clear_error(ctx);
        status = STATUS_OK;
    }
    return status;
}

} // namespace

// Other threads may run the first module, so a copy gets the other graphs and the ONNX model.
status_t Model::save_all(context_t *ctx, const std::vector<ModuleOwner> &modules,
                         const std::string &path) const
{
    module_t *all = nullptr;
    const auto [elements, n_bytes] = bytes(source_);
    const Options made(source_);
    freeze_options_t how = {};
    how.dtype = dtype_;
    status_t status = is_onnx() ? module_clone(ctx, modules[0].get(), &all) : STATUS_OK;
    const ModuleOwner owner(all);
    module_t *module = all != nullptr ? all : modules[0].get();
    if (status == STATUS_OK) status = add_all(ctx, module, modules);
    if (status == STATUS_OK) status = check_file(ctx);
    if (status == STATUS_OK && is_onnx())
        status = path_.empty()
                     ? onnx_keep_bytes(ctx, module, elements, n_bytes, &made.options, &how)
                     : onnx_keep(ctx, module, path_.c_str(), &made.options, &how);
    if (status == STATUS_IO) { // the source file is gone: the saved model serves its guards only
        context_clear_error(ctx);
        status = STATUS_OK;
    }
    if (status == STATUS_OK) status = plan_warm(ctx, module, "forward");
    return status == STATUS_OK ? freeze_save(ctx, module, path.c_str()) : status;
}

void Model::save(const std::string &path)
{
    context_t *ctx = context();
    if (is_described_ && variants_.size() == 1)
        raise(STATUS_INVALID_ARGUMENT, "the model's sizes are open, and no default fits: "
                                       "pass shapes, or run the model before saving it");
    // before releasing the GIL: another thread may add a variant
    std::vector<ModuleOwner> kept;
    for (size_t i = is_described_ ? 1 : 0; i < variants_.size(); i++)
        kept.emplace_back(module_retain(variants_[i].module.get()));
    status_t status;
    {
        const Unlocked unlocked(ctx, &running_);
        status = save_all(ctx, kept, path);
    }
    check(ctx, status);
}

// ---- steps ----

namespace
{

std::string formats_of(int n, const prepared_t *prepared,
                       const tensor_info_t *(*info_at)(const prepared_t *, int))
{
    std::string text;
    char format[FORMAT_TEXT_MAX];
    for (int i = 0; i < n; i++) {
        const tensor_info_t *info = info_at(prepared, i);
        if (!text.empty()) text += " ";
        text += info->dtype == DTYPE_NONE ? "none"
                : info->rank == 0         ? "scalar"
                                          : format_text(&info->format, format);
    }
    return text;
}

nb::dict row_of(const plan_step_t *step)
{
    const prepared_t *prepared = step->prepared;
    const char *name = prepared != nullptr ? prepared_implementation(prepared) : nullptr;
    nb::dict row;
    row["operator"] = step->name;
    row["path"] = step->path != nullptr ? step->path : "";
    row["kernel"] = prepared != nullptr ? prepared_kernel(prepared) : "";
    row["implementation"] = name != nullptr ? name : "";
    row["in"] = prepared != nullptr ? formats_of(step->n_in, prepared, prepared_input) : "";
    row["out"] = prepared != nullptr
                     ? formats_of(prepared_n_outputs(prepared), prepared, prepared_output)
                     : "";
    return row;
}

} // namespace

std::vector<Datum> Model::inputs_of(const nb::args &args) const
{
    context_t *ctx = context();
    std::vector<Datum> inputs;
    for (nb::handle arg : args) inputs.push_back(datum_of_object(ctx, arg));
    const int n_inputs = inputs.empty() ? module_n_inputs(first(), "forward") : 0;
    for (int i = 0; i < n_inputs; i++) {
        module_value_t value;
        tensor_t *zeros = nullptr;
        datum_t *datum = nullptr;
        check(ctx, module_input(ctx, first(), "forward", i, &value));
        if (value.kind != DATUM_TENSOR || value.rank < 0 ||
            std::any_of(value.made, value.made + value.rank, [](int64_t size) { return size < 0; }))
            raise(STATUS_INVALID_ARGUMENT,
                  std::string("pass inputs: the sizes of \"") + value.name + "\" are unknown");
        check(ctx, tensor_zeros(ctx, value.dtype, value.rank, value.made, &zeros));
        const Tensor tensor(zeros);
        check(ctx, datum_tensor(ctx, zeros, &datum));
        inputs.emplace_back(datum);
    }
    return inputs;
}

nb::object Model::explain(nb::args args)
{
    context_t *ctx = context();
    std::vector<Datum> outputs;
    ModuleOwner other;
    run_where_it_fits(ctx, inputs_of(args), outputs, other);
    const plan_t *plan = plan_of(other ? other.get() : first(), "forward");
    if (plan == nullptr)
        raise(STATUS_UNSUPPORTED, "the model has control flow around several plans: "
                                  "use profile instead of explain");
    nb::list rows;
    for (int i = 0; i < plan_n_steps(plan); i++) rows.append(row_of(plan_step(plan, i)));
    return nb::module_::import_("tessera.report").attr("table")(rows);
}
