// What the files of the extension module share: contexts of threads, errors, arrays, the model.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <tessera.h>

namespace nb = nanobind;

// ---- contexts ----

// What a context is made with: threads of operators, and limits of bytes, seconds and iterations; 0
// for what the library chooses.
using Settings = std::tuple<int, int64_t, double, int64_t>;

// The calling thread's context with these, made when it is first asked for, destroyed when the
// thread ends.
context_t *context_of_thread(const Settings &settings);

// The sums of the calling thread's contexts, and back to zero.
counters_t counters_of_thread();
void reset_counters_of_thread();

// Raises tessera.Error, or the subclass that belongs to the status, with the context's message.
[[noreturn]] void raise(context_t *ctx, status_t status);
[[noreturn]] void raise(status_t status, const std::string &message);

inline void check(context_t *ctx, status_t status)
{
    if (status != STATUS_OK) raise(ctx, status);
}

// Calls of one model that run, in any threads.
class Running
{
  public:
    void add(context_t *ctx);
    void remove(context_t *ctx);
    void cancel();

  private:
    std::mutex mutex_;
    std::vector<context_t *> contexts_;
};

// Gives the GIL up for a call of the library, which Ctrl-C cancels if it runs in the main thread,
// and `running` may cancel.
class Unlocked
{
  public:
    explicit Unlocked(context_t *ctx, Running *running = nullptr);
    ~Unlocked();
    Unlocked(const Unlocked &) = delete;
    Unlocked &operator=(const Unlocked &) = delete;

  private:
    context_t *ctx_;
    Running *running_;
    bool is_interruptible_ = false;
    PyThreadState *state_;
};

// ---- counted objects of the C API ----

template <typename T, void (*release)(T *)> struct Releases {
    void operator()(T *object) const { release(object); }
};
using Tensor = std::unique_ptr<tensor_t, Releases<tensor_t, tensor_release>>;
using Datum = std::unique_ptr<datum_t, Releases<datum_t, datum_release>>;
using ModuleOwner = std::unique_ptr<module_t, Releases<module_t, module_release>>;

// ---- arrays ----

// Whose arrays a call gives: those of the library that its first array is of.
enum class Framework { numpy, torch };
Framework framework_of(nb::handle array);

// A tensor over an array's memory, which is kept for as long as the tensor lives: whatever has
// __dlpack__ or the buffer protocol, on the CPU, with any strides. TypeError for anything else.
Tensor tensor_of_array(context_t *ctx, nb::handle array);

// An array over a tensor's memory, which is its own: nobody else writes there. An mkldnn tensor is
// reordered first.
nb::object array_of_tensor(context_t *ctx, Tensor tensor, Framework framework);

// Lists and tuples of arrays become those of the graph, None none.
Datum datum_of_object(context_t *ctx, nb::handle object);
nb::object object_of_datum(context_t *ctx, Datum datum, Framework framework);

// ---- models ----

// An input or output: sizes are numbers, names of open ones, or None.
struct Value {
    std::string name, dtype;
    nb::object shape;
};

struct Shape {
    std::string input;
    std::vector<int64_t> sizes;
};

// An initializer of an ONNX model that is in memory already.
struct Given {
    std::string initializer;
    Tensor tensor;
};

// What an ONNX model is imported from, if it is no file: its bytes, initializers apart from them,
// and what sizes have to satisfy, as its exporter says: "H % 8 == 0".
struct Source {
    nb::object bytes = nb::none();
    std::vector<Given> given;
    std::vector<std::string> guards;
};

// A frozen model. Where its file leaves sizes open and its graph holds for the sizes only that it
// was imported at, it is imported again for others, a few of which are kept.
class Model
{
  public:
    // An ONNX file, or its bytes, with initializers and guards as in Source; shapes of inputs whose
    // sizes are open; dtype "", "f32" or "bf16". is_closed: it is never imported at other sizes, so
    // the bytes are not kept. again: called with the shapes of inputs that the model refuses; gives
    // bytes, initializers and guards of a model of the same values that takes them.
    static std::unique_ptr<Model> of_onnx(const std::string &path, nb::object bytes,
                                          const nb::dict &shapes, const Settings &settings,
                                          const std::string &dtype, const nb::dict &initializers,
                                          bool is_closed, const nb::list &guards, nb::object again);
    static std::unique_ptr<Model> of_tessera(const std::string &path, const Settings &settings,
                                             bool is_copied, bool is_unchecked);

    // Runs on arrays in order of the inputs: a tuple of outputs, or the one that there is.
    nb::object call(nb::args inputs);
    nb::dict run_by_names(const nb::dict &feed);
    nb::list values(bool is_output) const;
    void save(const std::string &path);
    // Ends the calls that run now, in any threads.
    void cancel() { running_.cancel(); }
    // What runs on these inputs (none: zeros of the sizes that the model was made at), and how long
    // it takes: tessera.report.Profile. A table of the plan's steps.
    nb::object profile(nb::args inputs, int iterations);
    nb::object explain(nb::args inputs);

  private:
    struct Variant {
        std::vector<Shape> shapes;
        ModuleOwner module;
    };

    context_t *context() const { return context_of_thread(settings_); }
    // A source's bytes; none where the model is a file.
    std::pair<const char *, size_t> bytes(const Source &source) const;
    Source source_of(nb::object bytes, const nb::dict &initializers, const nb::list &guards) const;
    status_t import(context_t *ctx, const Source &source, const std::vector<Shape> &shapes,
                    int64_t open_size, ModuleOwner &module) const;
    // The same, of what again_ gives for these shapes.
    status_t export_and_import(context_t *ctx, const std::vector<Shape> &shapes,
                               ModuleOwner &module) const;
    // Its inputs and outputs, as the file says them.
    ModuleOwner describe(context_t *ctx) const;
    module_t *first() const { return variants_.front().module.get(); }
    // The module that was imported again at the sizes of these inputs, or NULL.
    ModuleOwner find(context_t *ctx, const std::vector<Datum> &inputs);
    // Imports it; the first refuses these sizes.
    ModuleOwner import_for(context_t *ctx, const std::vector<Datum> &inputs);
    // Whether a module takes inputs of these dtypes and sizes, whatever their elements are.
    static bool takes(context_t *ctx, const module_t *module, const std::vector<Datum> &inputs);
    // On the module that has these sizes, which is given if it is not the first.
    void run_where_it_fits(context_t *ctx, const std::vector<Datum> &inputs,
                           std::vector<Datum> &outputs, ModuleOwner &other);
    std::vector<nb::object> run_on(std::vector<Datum> &inputs, Framework framework);
    std::vector<Datum> inputs_of(const nb::args &args) const;
    [[noreturn]] void raise_unknown(const nb::dict &feed) const;
    void take(std::vector<Shape> shapes, ModuleOwner module); // the first of all
    bool is_onnx() const { return !path_.empty() || !source_.bytes.is_none(); }
    status_t run(context_t *ctx, module_t *module, const std::vector<Datum> &inputs,
                 std::vector<Datum> &outputs) const;

    Settings settings_;
    dtype_t dtype_ = DTYPE_NONE; // that products are computed in; none: as they are
    // Of an ONNX model that may be imported again; no path and no bytes: it is not.
    std::string path_;
    Source source_;
    nb::object again_ = nb::none();
    mutable Running running_;
    mutable std::mutex mutex_;      // of variants_
    std::vector<Variant> variants_; // the first always stays
    bool is_described_ = false;     // the first only says what there is: no size was right yet
    std::vector<nb::str> input_names_, output_names_;
};
