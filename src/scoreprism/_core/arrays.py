"""Arrays of other libraries and on other devices, through the array API standard."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism.exceptions import InputError

#: Libraries whose arrays follow the standard once array-api-compat has wrapped them.
_WRAPPED = ("torch", "cupy")
#: Numbers of a block of rows on a device other than the processor: few large steps instead of many small ones.
DEVICE_BLOCK = 1 << 26


def is_foreign(value: object) -> bool:
    """Whether this is an array of another library than numpy that follows the array API standard."""
    if isinstance(value, (np.ndarray, np.generic)) or value is None:
        return False
    root = type(value).__module__.partition(".")[0]
    if root in _WRAPPED:
        return root in sys.modules and hasattr(value, "dtype") and hasattr(value, "shape")
    return hasattr(value, "__array_namespace__") and hasattr(value, "shape")


def namespace(array: Any) -> Any:
    """The functions for an array: numpy, or the namespace of its library."""
    if isinstance(array, (np.ndarray, np.generic)):
        return np
    if type(array).__module__.partition(".")[0] not in _WRAPPED:
        return array.__array_namespace__()
    try:
        import array_api_compat
    except ImportError:
        library = type(array).__module__.partition(".")[0]
        raise InputError(
            f"arrays of {library} must come with the package array-api-compat",
            "an installation without it",
            'Run: python -m pip install "scoreprism[arrays]"',
        ) from None
    return array_api_compat.array_namespace(array)


def to_host(array: Any) -> NDArray[Any]:
    """A numpy array with the numbers of an array of any library on any device; half precision becomes float32."""
    if isinstance(array, np.ndarray):
        return array
    if type(array).__module__.partition(".")[0] == "torch":
        values = detach(array)
        values = values.float() if str(values.dtype) in ("torch.bfloat16", "torch.float16") else values
        return np.asarray(values.cpu().numpy())
    if hasattr(array, "get") and type(array).__module__.partition(".")[0] == "cupy":
        return np.asarray(array.get())
    try:
        return np.from_dlpack(array)
    except (BufferError, TypeError, ValueError, AttributeError, RuntimeError):
        return np.asarray(array)


def like(values: NDArray[Any], array: Any, dtype: Any = None) -> Any:
    """Values of numpy where another array lives."""
    if isinstance(array, np.ndarray):
        return values if dtype is None else values.astype(dtype, copy=False)
    xp = namespace(array)
    device = getattr(array, "device", None)
    if not values.flags.writeable or not values.flags.c_contiguous:
        values = np.array(values)
    placed = xp.asarray(values, device=device) if device is not None else xp.asarray(values)
    return placed if dtype is None else convert(placed, dtype)


def count_up(n: int, array: Any) -> Any:
    """0, 1, …, n − 1 where another array lives."""
    xp, device = namespace(array), getattr(array, "device", None)
    return xp.arange(n, dtype=xp.int64) if device is None else xp.arange(n, dtype=xp.int64, device=device)


def multiply(a: Any, b: Any) -> Any:
    """The matrix product in the precision of its factors: on a GPU, JAX keeps ten bits of them by default."""
    if type(a).__module__.partition(".")[0] in ("jax", "jaxlib"):
        return namespace(a).matmul(a, b, precision="highest")
    return a @ b


def convert(array: Any, dtype: Any) -> Any:
    """The numbers in another type, where the array lives; the array itself where it has that type."""
    if isinstance(array, np.ndarray):
        return array.astype(dtype, copy=False)
    return array if array.dtype == dtype else namespace(array).astype(array, dtype)


def is_real(array: Any) -> bool:
    """Whether an array of another library holds floating-point numbers."""
    return "float" in str(array.dtype)


def detach(array: Any) -> Any:
    """The array without the graph that gradients would follow: nothing is differentiated here."""
    if type(array).__module__.partition(".")[0] != "torch":
        return array
    if str(array.layout) != "torch.strided":
        raise InputError("tensors must be dense", f"the layout {array.layout}", "Pass .to_dense() of them.")
    return array.detach()


def widen(array: Any) -> Any:
    """The numbers as float64, where the array lives; as they are where its library has no float64."""
    if isinstance(array, np.ndarray):
        return array.astype(np.float64, copy=False)
    return convert(array, namespace(array).float64)


def take(array: Any, rows: slice | NDArray[Any]) -> Any:
    """Some rows of an array, by a slice or by their numbers."""
    if isinstance(rows, slice) or isinstance(array, np.ndarray):
        return array[rows, ...]
    return namespace(array).take(array, like(rows.astype(np.int64), array), axis=0)


def describe_place(array: Any) -> dict[str, str]:
    """The library of an array, the device where it lives, and the type of its numbers, in words."""
    root = type(array).__module__.partition(".")[0]
    library = {"jaxlib": "jax", "array_api_strict": "array-api-strict"}.get(root, root)
    device = str(getattr(array, "device", "cpu"))
    return {"library": library, "device": device, "dtype": str(array.dtype).rpartition(".")[2]}
