"""Values and bindings of sessions, like onnxruntime.OrtValue and onnxruntime.IOBinding."""

from __future__ import annotations

import ctypes
from typing import Any, Sequence

import numpy

from .errors import InvalidArgument

# ONNX's numbers of element types, with numpy's dtypes and the names in "tensor(float)".
_TYPES = {
    1: ("float32", "float"), 2: ("uint8", "uint8"), 3: ("int8", "int8"), 4: ("uint16", "uint16"),
    5: ("int16", "int16"), 6: ("int32", "int32"), 7: ("int64", "int64"), 9: ("bool", "bool"),
    10: ("float16", "float16"), 11: ("float64", "double"), 12: ("uint32", "uint32"),
    13: ("uint64", "uint64"),
}  # fmt: skip
_NUMBERS = {numpy.dtype(name): number for number, (name, _) in _TYPES.items()}


def dtype_of(element_type: Any) -> numpy.dtype:
    """Returns the dtype for a number of ONNX, or for anything that numpy takes as a dtype."""
    if isinstance(element_type, int) and not isinstance(element_type, bool):
        if element_type not in _TYPES:
            raise InvalidArgument(f"element type {element_type} is not supported")
        return numpy.dtype(_TYPES[element_type][0])
    return numpy.dtype(element_type)


def _check_device(device_type: str) -> None:
    if device_type.lower() not in ("cpu", "cuda_pinned"):
        raise RuntimeError(f"device {device_type} is not available, only cpu")


class OrtValue:
    """A tensor in memory of its own or of a numpy array."""

    def __init__(self, array: Any):
        self._array = array

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: Any, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> "OrtValue":
        """Returns a value that uses the array's memory, or a copy if it is not contiguous."""
        _check_device(device_type)
        return cls(numpy.ascontiguousarray(numpy_obj).reshape(numpy.shape(numpy_obj)))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: Any, onnx_element_type: int) -> "OrtValue":
        """Returns a value that reads the array's bytes as elements of another type."""
        return cls(numpy.ascontiguousarray(data).view(dtype_of(onnx_element_type)))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls, shape: Sequence[int], element_type: Any, device_type: str = "cpu", device_id: int = 0,
        vendor_id: int = -1,
    ) -> "OrtValue":  # fmt: skip
        """Returns a value with memory of its own; its elements are zeros."""
        _check_device(device_type)
        return cls(numpy.zeros(tuple(shape), dtype_of(element_type)))

    def numpy(self) -> Any:
        """Returns the array, which shares the value's memory; a list for a sequence."""
        return self._array

    def data_ptr(self) -> int:
        """Returns the address of the first element."""
        return self._array.ctypes.data

    def data_type(self) -> str:
        """Returns the type, such as "tensor(float)"."""
        if not self.is_tensor():
            return "seq(tensor)"
        return f"tensor({_TYPES[self.element_type()][1]})"

    def element_type(self) -> int:
        """Returns ONNX's number of the element type."""
        return _NUMBERS[self._array.dtype]

    def device_name(self) -> str:
        """Returns "cpu"."""
        return "cpu"

    def has_value(self) -> bool:
        """Returns false for an optional value that is absent."""
        return self._array is not None

    def is_tensor(self) -> bool:
        """Returns true for a tensor."""
        return isinstance(self._array, numpy.ndarray)

    def is_tensor_sequence(self) -> bool:
        """Returns true for a list of tensors."""
        return isinstance(self._array, list)

    def is_sparse_tensor(self) -> bool:
        """Returns false."""
        return False

    def shape(self) -> list[int]:
        """Returns the sizes."""
        return list(self._array.shape)

    def tensor_size_in_bytes(self) -> int:
        """Returns the number of bytes of the elements."""
        return self._array.nbytes

    def update_inplace(self, data: Any) -> None:
        """Writes the elements of an array with the value's shape and dtype."""
        if data.shape != self._array.shape or data.dtype != self._array.dtype:
            raise RuntimeError(
                f"update_inplace: the data is {data.dtype}{list(data.shape)}, "
                f"the value {self._array.dtype}{self.shape()}"
            )
        numpy.copyto(self._array, data)

    def __dlpack__(self, *args: Any, **named: Any) -> Any:
        return self._array.__dlpack__(*args, **named)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


def _at(address: int, element_type: Any, shape: Sequence[int]) -> Any:
    """Returns an array that uses memory at an address, which the caller keeps alive."""
    dtype = dtype_of(element_type)
    n_bytes = int(numpy.prod(shape, dtype=numpy.int64)) * dtype.itemsize
    return numpy.frombuffer((ctypes.c_char * n_bytes).from_address(address), dtype).reshape(shape)


class IOBinding:
    """Inputs, and memory for outputs, of a session's run_with_iobinding."""

    def __init__(self, session: Any):
        self._session = session
        self._inputs: dict[str, Any] = {}
        self._bound: dict[str, OrtValue | None] = {}  # None: the run allocates the output
        self._outputs: list[OrtValue] = []

    def _check(self, name: str, args: Sequence[Any], what: str) -> None:
        if all(arg.name != name for arg in args):
            raise RuntimeError(f"Failed to find {what} name in the model: {name}")

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Binds an array; the run reads its elements."""
        self._check(name, self._session.get_inputs(), "input")
        self._inputs[name] = arr_on_cpu

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int],
        buffer_ptr: int,
    ) -> None:  # fmt: skip
        """Binds memory at an address, which must stay valid until the run ends."""
        _check_device(device_type)
        self.bind_cpu_input(name, _at(buffer_ptr, element_type, shape))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Binds a value."""
        self.bind_cpu_input(name, ortvalue.numpy())

    def bind_output(
        self, name: str, device_type: str = "cpu", device_id: int = 0, element_type: Any = None,
        shape: Sequence[int] | None = None, buffer_ptr: int | None = None,
    ) -> None:  # fmt: skip
        """Binds memory at an address for an output; without an address, the run allocates it."""
        _check_device(device_type)
        self._check(name, self._session.get_outputs(), "output")
        if buffer_ptr is not None and (element_type is None or shape is None):
            raise ValueError("`element_type` and `shape` are to be provided if pre-allocated memory is provided")
        has_memory = buffer_ptr is not None
        self._bound[name] = OrtValue(_at(buffer_ptr, element_type, shape)) if has_memory else None

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Binds a value, to which the run writes the output."""
        self._check(name, self._session.get_outputs(), "output")
        self._bound[name] = ortvalue

    def synchronize_inputs(self) -> None:
        """Does nothing: the memory is the CPU's."""

    def synchronize_outputs(self) -> None:
        """Does nothing: the memory is the CPU's."""

    def get_outputs(self) -> list[OrtValue]:
        """Returns the outputs of the last run, in the order in which they were bound."""
        return self._outputs

    def copy_outputs_to_cpu(self) -> list:
        """Returns the outputs of the last run as arrays."""
        return [value.numpy() for value in self._outputs]

    def clear_binding_inputs(self) -> None:
        """Forgets all inputs."""
        self._inputs = {}

    def clear_binding_outputs(self) -> None:
        """Forgets all outputs."""
        self._bound, self._outputs = {}, []

    def run(self, run_options: Any) -> None:
        """Runs the session; see InferenceSession.run_with_iobinding."""
        made = self._session.run(list(self._bound), self._inputs, run_options)
        outputs = []
        for (name, bound), array in zip(self._bound.items(), made):
            if bound is None:
                bound = OrtValue(array)
            elif bound.numpy().shape != array.shape or bound.numpy().dtype != array.dtype:
                raise InvalidArgument(
                    f"output {name} is {array.dtype}{list(array.shape)}, the memory bound to it is "
                    f"{bound.numpy().dtype}{bound.shape()}"
                )
            else:
                numpy.copyto(bound.numpy(), array)
            outputs.append(bound)
        self._outputs = outputs
