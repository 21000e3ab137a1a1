"""A hash of the contents of anything that makes up a pipeline: rows, classifiers, options."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from scoreprism.frames import backend_of

#: How deep objects are looked into; what holds itself would never end.
_DEPTH = 30


def digest(value: Any) -> str:
    """
    A hash of the contents of anything: arrays, frames of any library, sparse matrices, estimators, plain values.

    Estimators count by their parameters, functions by their names and code, other objects by their attributes.

    Parameters
    ----------
    value : object
        What to hash.

    Returns
    -------
    str
        32 hexadecimal digits, the same in every process.

    Examples
    --------
    >>> digest(np.arange(3)) == digest(np.arange(3)), digest([1, 2]) == digest([2, 1])
    (True, False)
    """
    state = hashlib.blake2b(digest_size=16)
    _feed(state, value, 0)
    return state.hexdigest()


def _feed(state: Any, value: Any, depth: int) -> None:
    state.update(f"\0{type(value).__module__}.{type(value).__qualname__}\0".encode())
    if depth > _DEPTH:
        return
    if isinstance(value, np.ndarray):
        _feed_array(state, value)
    elif isinstance(value, Mapping):
        for key in sorted(value, key=str):
            _feed(state, key, depth + 1)
            _feed(state, value[key], depth + 1)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _feed(state, item, depth + 1)
    elif isinstance(value, (set, frozenset)):
        _feed(state, sorted(map(_words, value)), depth + 1)
    else:
        _feed_object(state, value, depth)


def _feed_object(state: Any, value: Any, depth: int) -> None:
    if callable(getattr(value, "tocoo", None)):  # a sparse matrix
        entries = value.tocoo()
        _feed(state, [entries.shape, entries.row, entries.col, entries.data], depth + 1)
    elif inspect.isroutine(value) or isinstance(value, type):
        code = getattr(getattr(value, "__code__", None), "co_code", b"")
        state.update(f"{value.__module__}.{value.__qualname__}".encode() + code)
    elif callable(getattr(value, "get_params", None)):
        _feed(state, value.get_params(deep=False), depth + 1)
    elif backend_of(value) is not None:
        _feed_frame(state, value)
    elif isinstance(value, (np.random.RandomState, np.random.Generator)):
        random = (
            value.get_state(legacy=False) if isinstance(value, np.random.RandomState) else value.bit_generator.state
        )
        _feed(state, random, depth + 1)
    elif getattr(value, "__dict__", None):
        _feed(state, vars(value), depth + 1)
    else:
        state.update(_words(value).encode())


def _words(value: Any) -> str:
    """What an object says of itself, without its address."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def _feed_array(state: Any, array: np.ndarray[Any, Any]) -> None:
    state.update(f"{array.dtype.str}{array.shape}".encode())
    if array.dtype.hasobject:
        for item in array.ravel():
            state.update(f"{type(item).__name__} {_words(item)}\0".encode())
    else:
        state.update(array.tobytes())


def _feed_frame(state: Any, frame: Any) -> None:
    """A frame by its columns, so that the library's inner layout does not matter."""
    import narwhals as nw

    table = nw.from_native(frame, eager_only=True, allow_series=True)
    for column in table.iter_columns() if isinstance(table, nw.DataFrame) else [table]:
        state.update(f"{column.name} {column.dtype}\0".encode())
        _feed_array(state, np.asarray(column.to_numpy()))
