// Arrays of numpy, PyTorch and other DLPack libraries, and tensors that share their memory.
#include "native.h"

#include <nanobind/stl/string.h>

namespace
{

struct Pair {
    dtype_t dtype;
    nb::dlpack::dtype_code code;
    uint8_t bits;
};

const Pair pairs[] = {
    {DTYPE_F32, nb::dlpack::dtype_code::Float, 32},
    {DTYPE_F64, nb::dlpack::dtype_code::Float, 64},
    {DTYPE_BF16, nb::dlpack::dtype_code::Bfloat, 16},
    {DTYPE_F16, nb::dlpack::dtype_code::Float, 16},
    {DTYPE_S8, nb::dlpack::dtype_code::Int, 8},
    {DTYPE_U8, nb::dlpack::dtype_code::UInt, 8},
    {DTYPE_S16, nb::dlpack::dtype_code::Int, 16},
    {DTYPE_U16, nb::dlpack::dtype_code::UInt, 16},
    {DTYPE_S32, nb::dlpack::dtype_code::Int, 32},
    {DTYPE_U32, nb::dlpack::dtype_code::UInt, 32},
    {DTYPE_S64, nb::dlpack::dtype_code::Int, 64},
    {DTYPE_U64, nb::dlpack::dtype_code::UInt, 64},
    {DTYPE_BOOL, nb::dlpack::dtype_code::Bool, 8},
};

dtype_t dtype_of(nb::dlpack::dtype dtype)
{
    for (const Pair &pair : pairs)
        if (static_cast<uint8_t>(pair.code) == dtype.code && pair.bits == dtype.bits &&
            dtype.lanes == 1)
            return pair.dtype;
    return DTYPE_NONE;
}

nb::dlpack::dtype dlpack_of(dtype_t dtype)
{
    for (const Pair &pair : pairs)
        if (pair.dtype == dtype) return {static_cast<uint8_t>(pair.code), pair.bits, 1};
    return {};
}

using Array = nb::ndarray<nb::ro, nb::device::cpu>;

// Tensors have no negative strides.
bool is_backwards(const Array &array)
{
    bool is = false;
    for (size_t d = 0; d < array.ndim(); d++) is |= array.stride(d) < 0;
    return is;
}

// Returns "an input is numpy.ndarray, its dtype object"; for a tensor also its device and layout.
std::string words_of(nb::handle object)
{
    const nb::handle type = object.type();
    std::string words = "an input is ";
    const std::string module = nb::cast<std::string>(nb::str(type.attr("__module__")));
    if (module != "builtins") words += module + ".";
    words += nb::cast<std::string>(nb::str(type.attr("__qualname__")));
    for (const char *name : {"dtype", "device", "layout"}) {
        if (!nb::hasattr(object, name)) continue;
        const nb::object value = object.attr(name);
        words += std::string(", its ") + name + " " +
                 nb::cast<std::string>(nb::str(nb::handle(value)));
    }
    return words;
}

// Runs in whichever thread releases the last tensor over the array.
void release_array(void *user, void *)
{
    nb::gil_scoped_acquire gil;
    delete static_cast<Array *>(user);
}

// Results are writable in Python. If a tensor's memory is shared, e.g. an input that is returned or
// a constant, the result is a copy.
Tensor own(context_t *ctx, Tensor tensor)
{
    if (!tensor_is_shared(tensor.get())) return tensor;
    tensor_t *copy = nullptr;
    check(ctx, tensor_clone(ctx, tensor.get(), &copy));
    return Tensor(copy);
}

} // namespace

Framework framework_of(nb::handle array)
{
    const char *name = Py_TYPE(array.ptr())->tp_name;
    static const PyTypeObject *tensor = nullptr; // torch.Tensor, once it was seen
    if (Py_TYPE(array.ptr()) == tensor) return Framework::torch;
    const bool may_be = strcmp(name, "Tensor") == 0 || strcmp(name, "Parameter") == 0;
    if (!may_be) return Framework::numpy;
    const nb::handle type(reinterpret_cast<PyObject *>(Py_TYPE(array.ptr())));
    const nb::object module = type.attr("__module__");
    if (nb::cast<std::string>(module).rfind("torch", 0) != 0) return Framework::numpy;
    if (type.is(nb::module_::import_("torch").attr("Tensor")))
        tensor = reinterpret_cast<const PyTypeObject *>(type.ptr()); // PyTorch is never unloaded
    return Framework::torch;
}

Tensor tensor_of_array(context_t *ctx, nb::handle object)
{
    Array array;
    nb::object resolved;
    // PyTorch's conversion to numpy takes a third of the time of DLPack.
    if (framework_of(object) == Framework::torch) {
        PyObject *of_numpy = PyObject_CallMethod(object.ptr(), "numpy", nullptr);
        if (of_numpy == nullptr) {
            PyErr_Clear(); // a bf16 tensor, or one with a gradient or the negative bit
            resolved = object.attr("resolve_neg")();
            object = resolved;
        } else if (!nb::try_cast(nb::steal(of_numpy), array)) {
            array = Array();
        }
    }
    if (!array.is_valid() && nb::try_cast(object, array) && is_backwards(array))
        array = nb::cast<Array>(nb::module_::import_("numpy").attr("ascontiguousarray")(object));
    if (!array.is_valid()) {
        throw nb::type_error((words_of(object) +
                              ", must be an array of numbers on the CPU: numpy's, "
                              "PyTorch's or one with __dlpack__")
                                 .c_str());
    }
    const dtype_t dtype = dtype_of(array.dtype());
    if (dtype == DTYPE_NONE)
        throw nb::type_error(
            (words_of(object) + ", must have a dtype that Tessera supports").c_str());
    auto *keep = new Array(array);
    // Inputs are never written: in-place operators of a plan work on copies.
    void *data = const_cast<void *>(static_cast<const void *>(array.data()));
    tensor_t *tensor = nullptr;
    const status_t status = tensor_borrow(ctx, dtype, static_cast<int>(array.ndim()),
                                          array.shape_ptr(), array.stride_ptr(), data,
                                          release_array, keep, &tensor);
    if (status != STATUS_OK) {
        delete keep;
        raise(ctx, status);
    }
    return Tensor(tensor);
}

nb::object array_of_tensor(context_t *ctx, Tensor tensor, Framework framework)
{
    if (tensor_layout(tensor.get()) != LAYOUT_DENSE) {
        tensor_t *dense = nullptr;
        check(ctx, to_dense(ctx, tensor.get(), &dense));
        tensor.reset(dense);
    }
    tensor = own(ctx, std::move(tensor));
    const dtype_t dtype = tensor_dtype(tensor.get());
    if (dtype == DTYPE_BF16 && framework == Framework::numpy)
        throw nb::type_error(
            "an output is bf16, which numpy does not support: pass PyTorch tensors");
    const size_t rank = static_cast<size_t>(tensor_rank(tensor.get()));
    const int64_t *strides = nullptr;
    const void *data = nullptr;
    check(ctx, tensor_strides(ctx, tensor.get(), &strides));
    check(ctx, tensor_data(ctx, tensor.get(), &data));
    size_t sizes[TENSOR_MAX_RANK];
    for (size_t d = 0; d < rank; d++) sizes[d] = static_cast<size_t>(tensor_sizes(tensor.get())[d]);
    tensor_t *kept = tensor.get();
    nb::capsule owner(
        kept, [](void *object) noexcept { tensor_release(static_cast<tensor_t *>(object)); });
    tensor.release();
    void *bytes = const_cast<void *>(data);
    if (framework == Framework::torch && dtype == DTYPE_BF16)
        return nb::cast(nb::ndarray<nb::pytorch, nb::device::cpu>(bytes, rank, sizes, owner,
                                                                  strides, dlpack_of(dtype)));
    nb::object array = nb::cast(nb::ndarray<nb::numpy, nb::device::cpu>(bytes, rank, sizes, owner,
                                                                        strides, dlpack_of(dtype)));
    if (framework == Framework::numpy) return array;
    static PyObject *from_numpy = nullptr; // three times as fast as DLPack
    if (from_numpy == nullptr)
        from_numpy = nb::object(nb::module_::import_("torch").attr("from_numpy")).release().ptr();
    return nb::handle(from_numpy)(array);
}

Datum datum_of_object(context_t *ctx, nb::handle object)
{
    datum_t *datum = nullptr;
    if (object.is_none()) {
        check(ctx, datum_none(ctx, &datum));
        return Datum(datum);
    }
    if (nb::isinstance<nb::list>(object) || nb::isinstance<nb::tuple>(object)) {
        check(ctx, datum_list(ctx, 0, nullptr, &datum));
        Datum list(datum);
        for (nb::handle item : object)
            check(ctx, datum_append(ctx, list.get(), datum_of_object(ctx, item).get()));
        return list;
    }
    const Tensor tensor = tensor_of_array(ctx, object);
    check(ctx, datum_tensor(ctx, tensor.get(), &datum));
    return Datum(datum);
}

nb::object object_of_datum(context_t *ctx, Datum datum, Framework framework)
{
    const int n = datum_length(datum.get());
    switch (datum_kind(datum.get())) {
    case DATUM_TENSOR: {
        Tensor tensor(tensor_retain(datum_as_tensor(datum.get())));
        datum.reset();
        return array_of_tensor(ctx, std::move(tensor), framework);
    }
    case DATUM_INT: return nb::int_(datum_as_int(datum.get()));
    case DATUM_FLOAT: return nb::float_(datum_as_float(datum.get()));
    case DATUM_BOOL: return nb::bool_(datum_as_bool(datum.get()));
    case DATUM_STRING: return nb::str(datum_as_string(datum.get()));
    case DATUM_LIST:
    case DATUM_TUPLE: {
        nb::list list;
        for (int i = 0; i < n; i++) {
            Datum item(datum_retain(datum_item(datum.get(), i)));
            list.append(object_of_datum(ctx, std::move(item), framework));
        }
        return list;
    }
    case DATUM_DICT: {
        nb::dict dict;
        for (int i = 0; i < n; i++) {
            Datum item(datum_retain(datum_item(datum.get(), i)));
            dict[datum_key(datum.get(), i)] = object_of_datum(ctx, std::move(item), framework);
        }
        return dict;
    }
    default: return nb::none();
    }
}
