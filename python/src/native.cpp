// The extension module tessera._native: the C API for the Python files of the package.
#include "native.h"

#include <nanobind/stl/tuple.h>

#include <sstream>

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

extern "C" {
#include "tools/audit/audit.h"
}

namespace
{

nb::dict dict_of_counters()
{
    const counters_t counters = counters_of_thread();
    nb::dict dict, reorders, copies;
    for (int cause = 0; cause < CAUSE_COUNT; cause++) {
        const char *name = cause_name(static_cast<reorder_cause_t>(cause));
        reorders[name] = counters.reorders[cause];
        copies[name] = counters.copies[cause];
    }
    dict["reorders"] = reorders;
    dict["copies"] = copies;
    dict["weight_reorders"] = counters_weight_reorders(&counters);
    dict["activation_reorders"] = counters_activation_reorders(&counters);
    dict["to_mkldnn"] = counters.to_mkldnn;
    dict["to_dense"] = counters.to_dense;
    dict["reorder_bytes"] = counters.reorder_bytes;
    dict["reorder_ms"] = static_cast<double>(counters.reorder_ns) / 1e6;
    dict["operators"] = counters.operators;
    dict["primitives_built"] = counters.primitives_built;
    dict["weights_packed"] = counters.weights_packed;
    dict["weights_mapped"] = counters.weights_mapped;
    dict["models_imported"] = counters.models_imported;
    dict["models_mapped"] = counters.models_mapped;
    dict["plans_built"] = counters.plans_built;
    dict["plans_evicted"] = counters.plans_evicted;
    dict["tensor_bytes"] = counters.tensor_bytes;
    return dict;
}

nb::dict dict_of_total(const audit_total_t &total)
{
    nb::dict dict;
    dict["n"] = total.n;
    dict["bytes"] = total.bytes;
    dict["ms"] = total.ms;
    return dict;
}

nb::dict audit_text(const std::string &log)
{
    auto audit = std::make_unique<audit_t>();
    std::istringstream lines(log);
    for (std::string line; std::getline(lines, line);) audit_line(audit.get(), line.c_str());
    nb::dict dict, reorders, kinds;
    for (int cause = 0; cause < AUDIT_CAUSE_COUNT; cause++)
        reorders[audit_cause_name(static_cast<audit_cause_t>(cause))] = dict_of_total(
            audit->reorders[cause]);
    for (int i = 0; i < audit->n_kinds; i++) {
        nb::dict kind = dict_of_total(audit->kinds[i].total);
        kind["reference"] = audit->kinds[i].reference.n;
        kinds[static_cast<const char *>(audit->kinds[i].name)] = kind;
    }
    dict["onednn"] = static_cast<const char *>(audit->version);
    dict["executions"] = dict_of_total(audit->total);
    dict["reorders"] = reorders;
    dict["kinds"] = kinds;
    dict["malformed"] = audit->n_malformed;
    return dict;
}

// nanobind reports wrong arguments as a list of C++ signatures, so types are checked here instead.
[[noreturn]] void raise_type(const std::string &message)
{
    PyErr_SetString(PyExc_TypeError, message.c_str());
    throw nb::python_error();
}

std::string name_of_type(nb::handle object)
{
    return nb::cast<std::string>(nb::str(object.type().attr("__name__")));
}

void refuse_names(const nb::kwargs &names)
{
    for (auto [name, value] : names)
        raise_type("input " + nb::cast<std::string>(nb::str(name)) +
                   " is passed by name: a call takes inputs in order, run takes a dict of names");
}

int iterations_of(nb::handle object)
{
    if (!PyLong_Check(object.ptr()))
        raise_type("iterations is a " + name_of_type(object) + ", must be an integer");
    const long long number = PyLong_AsLongLong(object.ptr());
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    return number > INT32_MAX ? INT32_MAX : number < 0 ? 0 : static_cast<int>(number);
}

} // namespace

NB_MODULE(_native, m)
{
    // Dynamo's caches keep models of compiled functions until the process ends.
    nb::set_leak_warnings(false);
    m.doc() = "The C API, for the Python files of the package tessera.";
    nb::class_<Value>(m, "Value", "An input or output of a model.")
        .def_ro("name", &Value::name, "The name in the model's file.")
        .def_ro("dtype", &Value::dtype, "\"f32\", \"s64\", ...; \"list\" if it is not a tensor.")
        .def_prop_ro(
            "shape", [](const Value &value) { return value.shape; },
            nb::for_getter(nb::sig("def shape(self) -> tuple[int | str | None, ...] | None")),
            "A tuple of sizes: numbers, names of open sizes (equal names are equal sizes), or\n"
            "None if neither is known. None instead of a tuple if the rank is unknown.")
        .def("__repr__", [](const Value &value) {
            return value.name + ": " + value.dtype +
                   (value.shape.is_none() ? "" : nb::cast<std::string>(nb::str(value.shape)));
        });

    nb::class_<Model>(m, "Model", nb::is_weak_referenceable(),
                      "A frozen model. Several threads may call it at once.")
        .def(
            "__call__",
            [](Model &model, nb::args inputs, nb::kwargs names) {
                refuse_names(names);
                return model.call(inputs);
            },
            nb::sig("def __call__(self, *inputs: typing.Any) -> typing.Any"),
            "Runs the model on arrays, in the order of `inputs`. The arrays are of numpy, "
            "PyTorch,\n"
            "or another library with __dlpack__ on the CPU. They may have any strides, and are\n"
            "copied only if a stride is negative. Returns the output, or a tuple of outputs, as\n"
            "arrays of the same library with their own memory.")
        .def_prop_ro(
            "inputs", [](const Model &model) { return model.values(false); },
            nb::for_getter(nb::sig("def inputs(self) -> list[Value]")),
            "The inputs of the model, in order.")
        .def_prop_ro(
            "outputs", [](const Model &model) { return model.values(true); },
            nb::for_getter(nb::sig("def outputs(self) -> list[Value]")),
            "The outputs of the model, in order.")
        .def(
            "save",
            [](Model &model, nb::object path) {
                PyObject *encoded = nullptr;
                if (PyUnicode_FSConverter(path.ptr(), &encoded) == 0) throw nb::python_error();
                model.save(nb::steal<nb::bytes>(encoded).c_str());
            },
            nb::arg("path"), nb::sig("def save(self, path: str | bytes | os.PathLike) -> None"),
            "Writes a .tessera file, which loads by mapping. Saves are atomic.")
        .def(
            "cancel", &Model::cancel, nb::sig("def cancel(self) -> None"),
            "Ends the calls of this model that are running in other threads: they raise Cancelled.")
        .def("__repr__",
             [](const Model &model) {
                 const auto list = [](nb::list values) {
                     return nb::cast<std::string>(nb::str(", ").attr("join")(
                         nb::module_::import_("builtins")
                             .attr("map")(nb::module_::import_("builtins").attr("repr"), values)));
                 };
                 return "tessera.Model(" + list(model.values(false)) + " -> " +
                        list(model.values(true)) + ")";
             })
        .def(
            "run",
            [](Model &model, nb::object inputs) {
                if (!nb::isinstance<nb::dict>(inputs))
                    raise_type("run: inputs is a " + name_of_type(inputs) +
                               ", must be a dict of names and arrays");
                return model.run_by_names(nb::cast<nb::dict>(inputs));
            },
            nb::arg("inputs"),
            nb::sig("def run(self, inputs: dict[str, typing.Any]) -> dict[str, typing.Any]"),
            "Runs on a dict of inputs by name; returns a dict of outputs by name.")
        .def(
            "explain",
            [](Model &model, nb::args inputs, nb::kwargs names) {
                refuse_names(names);
                return model.explain(inputs);
            },
            nb::sig("def explain(self, *inputs: typing.Any) -> str"),
            "Returns a table of the steps that run on such inputs: operator, path, kernel,\n"
            "implementation, formats in and out. Without inputs, the steps are those for the "
            "sizes\n"
            "in the file.")
        .def(
            "profile",
            [](Model &model, nb::args inputs, nb::object iterations) {
                return model.profile(inputs, iterations_of(iterations));
            },
            nb::arg("inputs"), nb::arg("iterations") = 20,
            nb::sig("def profile(self, *inputs: typing.Any, iterations: int = 20) -> "
                    "tessera.report.Profile"),
            "Measures the nodes that run on such inputs, like `tessera profile`. Returns a list\n"
            "with one dict per node, with the keys of --json; str() of it is a table. Times are\n"
            "medians over the given number of runs.");

    m.def(
        "load_onnx", &Model::of_onnx, nb::arg("path"), nb::arg("bytes").none(), nb::arg("shapes"),
        nb::arg("settings"), nb::arg("dtype"), nb::arg("initializers") = nb::dict(),
        nb::arg("is_closed") = false, nb::arg("guards") = nb::list(),
        nb::arg("again").none() = nb::none(),
        nb::sig(
            "def load_onnx(path: str, bytes: typing.Any, shapes: dict[str, "
            "collections.abc.Sequence[int]], settings: tuple[int, int, float, int], dtype: str, "
            "initializers: dict[str, typing.Any] = ..., is_closed: bool = False, "
            "guards: list[str] = ..., again: typing.Any = None) -> Model"),
        "Loads a model from an ONNX file, or from bytes if the path is \"\". initializers: arrays\n"
        "that replace the initializers of these names; they are not copied. is_closed: the model\n"
        "accepts only the sizes it is loaded for, and the bytes are not kept. guards: conditions\n"
        "on the named sizes of inputs, such as \"H % 8 == 0\". again: a function that is called\n"
        "with a dict of shapes that the model rejects; it returns bytes, initializers and guards\n"
        "of the same model for these shapes.");
    m.def("load_graph", &Model::of_graph, nb::arg("text"), nb::arg("constants"),
          nb::arg("settings"),
          nb::sig("def load_graph(text: str, constants: list[typing.Any], "
                  "settings: tuple[int, int, float, int]) -> Model"),
          "Loads a model from the text of a graph, whose method is `forward`. $n in the text is\n"
          "constants[n], an array that is not copied.");
    m.def("load_tessera", &Model::of_tessera, nb::arg("path"), nb::arg("settings"),
          nb::arg("is_copied") = false, nb::arg("is_unchecked") = false,
          "Loads a model from a .tessera file. is_copied: copies the constants instead of mapping\n"
          "the file. is_unchecked: does not compare the constants with their checksums.");
    add_language_model(m);
    m.def("counters", dict_of_counters, nb::sig("def counters() -> dict[str, typing.Any]"),
          "Returns this thread's counters since it started or called reset_counters. \"reorders\"\n"
          "and \"copies\" are dicts by cause; the others are numbers.");
    m.def("reset_counters", reset_counters_of_thread, "Sets the counters of this thread to zero.");
    m.def("audit_text", audit_text, nb::arg("log"),
          nb::sig("def audit_text(log: str) -> dict[str, typing.Any]"),
          "Like tessera.audit, for the text of a log.");
    m.attr("__version__") = tessera_version_text();
    m.attr("onednn_version") = onednn_version_text();
    m.attr("isa") = onednn_isa_text();
}
