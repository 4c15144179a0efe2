// Shared declarations of the extension module: contexts of threads, errors, arrays, models.
#pragma once

#include <array>
#include <cstdint>
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

// Settings of a context: the number of threads, and the limits of bytes, seconds and iterations. 0
// stands for the library's default.
using Settings = std::tuple<int, int64_t, double, int64_t>;

// Returns the calling thread's context with these settings. It is created at the first call and
// destroyed when the thread ends.
context_t *context_of_thread(const Settings &settings);

// counters_of_thread returns the sum of the counters of the calling thread's contexts.
// reset_counters_of_thread sets those counters to zero.
counters_t counters_of_thread();
void reset_counters_of_thread();

// Raises tessera.Error, or the subclass for the status, with the context's message.
[[noreturn]] void raise(context_t *ctx, status_t status);
[[noreturn]] void raise(status_t status, const std::string &message);

inline void check(context_t *ctx, status_t status)
{
    if (status != STATUS_OK) raise(ctx, status);
}

// The running calls of one model, in all threads.
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

// Releases the GIL during a call of the library. Ctrl-C cancels the call if it runs in the main
// thread; `running` can cancel it from any thread.
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

// ---- reference-counted objects of the C API ----

template <typename T, void (*release)(T *)> struct Releases {
    void operator()(T *object) const { release(object); }
};
using Tensor = std::unique_ptr<tensor_t, Releases<tensor_t, tensor_release>>;
using Datum = std::unique_ptr<datum_t, Releases<datum_t, datum_release>>;
using ModuleOwner = std::unique_ptr<module_t, Releases<module_t, module_release>>;

// ---- arrays ----

// The library that an array belongs to. A call returns PyTorch tensors if any of its inputs is one,
// and numpy arrays otherwise.
enum class Framework { numpy, torch };
Framework framework_of(nb::handle array);

// Makes a tensor that uses an array's memory, and keeps the array alive as long as the tensor. The
// array must have __dlpack__ or the buffer protocol, be on the CPU, and have a dtype that Tessera
// supports; otherwise TypeError is raised. Any strides are allowed; an array with a negative stride
// is copied.
Tensor tensor_of_array(context_t *ctx, nb::handle array);

// Makes an array that uses a tensor's memory. If the tensor has a blocked layout, or its memory is
// shared with another tensor or has another owner, the array uses a copy.
nb::object array_of_tensor(context_t *ctx, Tensor tensor, Framework framework);

// datum_of_object makes an input of a graph from an array, None, or a list or tuple of these.
// object_of_datum makes a Python object from a result of a graph.
Datum datum_of_object(context_t *ctx, nb::handle object);
nb::object object_of_datum(context_t *ctx, Datum datum, Framework framework);

// ---- models ----

// An input or output of a model. In `shape`, a size is a number, the name of an open size, or None
// if the size is open and has no name. If the rank is unknown, `shape` is None.
struct Value {
    std::string name, dtype;
    nb::object shape;
};

struct Shape {
    std::string input;
    std::vector<int64_t> sizes;
};

// A tensor that replaces an initializer of an ONNX model, so that it need not be in the model's
// bytes.
struct Given {
    std::string initializer;
    Tensor tensor;
};

// The source of an ONNX import that is not a file: the model's bytes, separate initializers, and
// the exporter's conditions on sizes, e.g. "H % 8 == 0".
struct Source {
    nb::object bytes = nb::none();
    std::vector<Given> given;
    std::vector<std::string> guards;
};

// A frozen model. If an ONNX model has open sizes, but the module imported from it accepts only
// some sizes, the model is imported again for other sizes. The modules that were used last are
// kept.
class Model
{
  public:
    // Imports an ONNX model from a file or from bytes, with initializers and guards as in Source.
    //
    //     shapes     the shapes of inputs with open sizes
    //     dtype      "bf16": f32 products are computed in bf16; "f32" or "": the dtypes of the file
    //                are used
    //     is_closed  the model is never imported at other sizes, so its bytes are not kept
    //     again      None, or a function that is called with the shapes of inputs that the model
    //                rejects. It returns bytes, initializers and guards of the same model for these
    //                shapes.
    static std::unique_ptr<Model> of_onnx(const std::string &path, nb::object bytes,
                                          const nb::dict &shapes, const Settings &settings,
                                          const std::string &dtype, const nb::dict &initializers,
                                          bool is_closed, const nb::list &guards, nb::object again);
    // Freezes the graph of a text, whose first parameter is the module (graph.h has the grammar).
    // $n in the text is constants[n], an array that is not copied.
    static std::unique_ptr<Model> of_graph(const std::string &text, const nb::list &constants,
                                           const Settings &settings);
    static std::unique_ptr<Model> of_tessera(const std::string &path, const Settings &settings,
                                             bool is_copied, bool is_unchecked);

    // Runs on arrays, in the order of the inputs. Returns the output, or a tuple if there are
    // several.
    nb::object call(nb::args inputs);
    nb::dict run_by_names(const nb::dict &feed);
    nb::list values(bool is_output) const;
    void save(const std::string &path);
    // Ends the running calls in all threads.
    void cancel() { running_.cancel(); }
    // profile runs the model on these inputs and returns a tessera.report.Profile. explain returns
    // a table of the plan's steps for these inputs. If no inputs are passed, both use zeros of the
    // sizes that the model was made for.
    nb::object profile(nb::args inputs, int iterations);
    nb::object explain(nb::args inputs);

  private:
    struct Variant {
        std::vector<Shape> shapes;
        ModuleOwner module;
    };

    context_t *context() const { return context_of_thread(settings_); }
    // Returns the address and number of a source's bytes, or NULL and 0 if it has none, since the
    // model is a file.
    std::pair<const char *, size_t> bytes(const Source &source) const;
    Source source_of(nb::object bytes, const nb::dict &initializers, const nb::list &guards) const;
    status_t import(context_t *ctx, const Source &source, const std::vector<Shape> &shapes,
                    int64_t open_size, ModuleOwner &module) const;
    // Calls again_ with these shapes, and imports the model that it returns.
    status_t export_and_import(context_t *ctx, const std::vector<Shape> &shapes,
                               ModuleOwner &module) const;
    // Reads inputs and outputs from the file, without importing the graph.
    ModuleOwner describe(context_t *ctx) const;
    module_t *first() const { return variants_.front().module.get(); }
    // Returns a module, other than the first, that was imported for the sizes of these inputs or
    // accepts them. Returns NULL if there is none.
    ModuleOwner find(context_t *ctx, const std::vector<Datum> &inputs);
    // Imports a module for the sizes of these inputs, which the first module rejects.
    ModuleOwner import_for(context_t *ctx, const std::vector<Datum> &inputs);
    // Returns true if a module accepts the dtypes and sizes of the inputs.
    static bool takes(context_t *ctx, const module_t *module, const std::vector<Datum> &inputs);
    // Runs a module that accepts the inputs. If that is not the first module, `other` receives it.
    void run_where_it_fits(context_t *ctx, const std::vector<Datum> &inputs,
                           std::vector<Datum> &outputs, ModuleOwner &other);
    std::vector<nb::object> run_on(std::vector<Datum> &inputs, Framework framework);
    std::vector<Datum> inputs_of(const nb::args &args) const;
    [[noreturn]] void raise_unknown(const nb::dict &feed) const;
    void take(std::vector<Shape> shapes, ModuleOwner module); // adds the first variant
    status_t save_all(context_t *ctx, const std::vector<ModuleOwner> &modules,
                      const std::string &path) const;
    bool is_onnx() const { return !path_.empty() || !source_.bytes.is_none(); }
    status_t run(context_t *ctx, module_t *module, const std::vector<Datum> &inputs,
                 std::vector<Datum> &outputs) const;
    // IO if the file at path_ is another one than that which was loaded: its weights may differ.
    status_t check_file(context_t *ctx) const;

    Settings settings_;
    dtype_t dtype_ = DTYPE_NONE; // dtype of f32 products; DTYPE_NONE: f32
    // The source of an ONNX model that may be imported again. Other models have neither a path nor
    // bytes.
    std::string path_;
    std::array<int64_t, 5> file_ = {}; // identifies the file at path_ when it was loaded
    Source source_;
    nb::object again_ = nb::none();
    mutable Running running_;
    mutable std::mutex mutex_;      // protects variants_
    std::vector<Variant> variants_; // the first is never dropped
    bool is_described_ =
        false; // the first variant only describes inputs and outputs: no import has succeeded yet
    std::vector<nb::str> input_names_, output_names_;
};

// ---- language models ----

// Adds the class NativeLanguageModel.
void add_language_model(nb::module_ &m);
