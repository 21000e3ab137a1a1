"""A hash of the contents of anything that makes up a pipeline: rows, classifiers, functions, options."""

from __future__ import annotations

import functools
import hashlib
import inspect
import re
import types
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from scoreprism._core.frames import backend_of
from scoreprism._core.simplex import FloatArray

#: How deep objects are looked into.
_DEPTH = 30
#: Bits of a probability that count: sums over threads differ in the last ones of the 53.
_BITS = 2.0**24

Path = tuple[int, ...]  # ids of everything around a value: what holds itself would never end


def digest(value: Any) -> str:
    """
    A hash of the contents of anything: arrays, frames of any library, sparse matrices, estimators, plain values.

    Estimators count by their parameters, functions by their names, code, constants, defaults and what they enclose,
    other objects by their attributes. Global variables that a function reads are not looked up.
    """
    return _hashed(value, ())


def digest_of_scores(laws: Iterable[FloatArray]) -> str:
    """A hash of probabilities up to their last bits, small ones and those near 1 alike."""
    rounded = []
    for law in laws:
        mantissa, exponent = np.frexp(np.stack([law, 1.0 - law]))
        rounded.append(np.ldexp(np.round(mantissa * _BITS), exponent) + 0.0)
    return digest(rounded)


def _hashed(value: Any, path: Path) -> str:
    state = hashlib.blake2b(digest_size=16)
    _feed(state, value, path)
    return state.hexdigest()


def _feed(state: Any, value: Any, path: Path) -> None:
    state.update(f"\0{type(value).__module__}.{type(value).__qualname__}\0".encode())
    if value is None or isinstance(value, (str, bytes, bool, int, float, complex, np.generic)):
        state.update(repr(value).encode())
        return
    if len(path) > _DEPTH or id(value) in path:
        return
    inside = (*path, id(value))
    if isinstance(value, np.ndarray):
        _feed_array(state, value, inside)
    elif isinstance(value, Mapping):
        for key in sorted(value, key=str):
            _feed(state, key, inside)
            _feed(state, value[key], inside)
    elif isinstance(value, (list, tuple)):
        state.update(f"{len(value)}\0".encode())
        for item in value:
            _feed(state, item, inside)
    elif isinstance(value, (set, frozenset)):
        state.update("".join(sorted(_hashed(item, inside) for item in value)).encode())
    else:
        _feed_object(state, value, inside)


def _feed_object(state: Any, value: Any, path: Path) -> None:
    if callable(getattr(value, "tocoo", None)):  # a sparse matrix
        entries = value.tocoo()
        _feed(state, [entries.shape, entries.row, entries.col, entries.data], path)
    elif isinstance(value, types.CodeType):
        _feed(state, [value.co_code, value.co_consts, value.co_names, value.co_varnames, value.co_freevars], path)
    elif inspect.isroutine(value) or isinstance(value, type):
        _feed_routine(state, value, path)
    elif isinstance(value, functools.partial):
        _feed(state, [value.func, value.args, value.keywords], path)
    elif callable(getattr(value, "get_params", None)):
        _feed(state, value.get_params(deep=False), path)
    elif backend_of(value) is not None:
        _feed_frame(state, value, path)
    elif isinstance(value, (np.random.RandomState, np.random.Generator)):
        random = (
            value.get_state(legacy=False) if isinstance(value, np.random.RandomState) else value.bit_generator.state
        )
        _feed(state, random, path)
    else:
        _feed_attributes(state, value, path)


def _feed_routine(state: Any, value: Any, path: Path) -> None:
    """A function by all that decides what it does but for the globals it reads; a class by its name."""
    state.update(f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}".encode())
    owner = getattr(value, "__self__", None)
    if owner is not None and not inspect.ismodule(owner):  # a method of an object
        _feed(state, owner, path)
    if isinstance(getattr(value, "__code__", None), types.CodeType):
        cells = [_held(cell) for cell in value.__closure__ or ()]
        _feed(state, [value.__code__, value.__defaults__, value.__kwdefaults__, cells], path)


def _held(cell: types.CellType) -> Any:
    """What a cell of a closure holds; nothing yet, while the function is being made."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _feed_attributes(state: Any, value: Any, path: Path) -> None:
    """Attributes of an object, slots included; of what has none, what it says of itself."""
    slots = {name for kind in type(value).__mro__ for name in _slots(kind)}
    held = {name: getattr(value, name) for name in slots if hasattr(value, name)} | getattr(value, "__dict__", {})
    if held:
        _feed(state, held, path)
    else:
        state.update(re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value)).encode())  # without its address


def _slots(kind: type) -> tuple[str, ...]:
    found = kind.__dict__.get("__slots__", ())
    names = (found,) if isinstance(found, str) else tuple(found)
    return tuple(name for name in names if not name.startswith("__"))


def _feed_array(state: Any, array: np.ndarray[Any, Any], path: Path) -> None:
    state.update(f"{array.dtype.str}{array.shape}".encode())
    if array.dtype.hasobject:
        for item in array.ravel():
            _feed(state, item, path)
    else:
        state.update(array.tobytes())


def _feed_frame(state: Any, frame: Any, path: Path) -> None:
    """A frame by its columns, so that the library's inner layout does not matter."""
    import narwhals as nw

    table = nw.from_native(frame, eager_only=True, allow_series=True)
    for column in table.iter_columns() if isinstance(table, nw.DataFrame) else [table]:
        state.update(f"{column.name} {column.dtype}\0".encode())
        _feed_array(state, np.asarray(column.to_numpy()), path)
