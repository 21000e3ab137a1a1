"""A journal of replicates on disk, and hashes that identify the problem it belongs to."""

from __future__ import annotations

import functools
import hashlib
import inspect
import math
import os
import re
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

import numpy as np

from scoreprism._core.checks import refuse
from scoreprism._core.frames import backend_of
from scoreprism._core.journal import Journal
from scoreprism._core.simplex import FloatArray

#: Version of the file format; changes of what is hashed raise it.
_MAGIC = "scoreprism pipeline bootstrap 2"
#: Fields of a line.
_FIELDS = {"redrawn", "replicate", "shape", "values"}


class Store:
    """Finished replicates, in memory."""

    def __init__(self, seed: int | None) -> None:
        self.done: dict[int, tuple[FloatArray, int]] = {}
        self.seed = int(np.random.default_rng().integers(2**62)) if seed is None else seed

    def add(self, replicate: int, values: FloatArray, redrawn: int) -> None:
        """Store a replicate."""
        self.done[replicate] = (values, redrawn)

    def require_shape(self, shape: tuple[int, ...]) -> None:
        """Replicates that were kept must have this shape."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return


def _is_exact(word: object) -> bool:
    """Whether a text is a number in the format of `float.hex`; mean losses may be infinite, but not NaN."""
    try:
        number = float.fromhex(word) if isinstance(word, str) else math.nan
    except (ValueError, OverflowError):
        return False
    return not math.isnan(number) and number.hex() == word


Identity = Mapping[str, str]
Scores = Callable[[int], str]


class Checkpoint(Store):
    """A file of finished replicates, locked while it is open."""

    def __init__(self, path: str | os.PathLike[str], identity: Identity, scores: Scores, seed: int | None) -> None:
        super().__init__(seed)
        self._journal = Journal(path, _MAGIC, "checkpoint", "pipeline_bootstrap", "replicates")
        try:
            self._open(dict(identity), scores, seed)
        except BaseException:
            self._journal.close()
            raise

    def _open(self, identity: dict[str, str], scores: Scores, seed: int | None) -> None:
        header = self._journal.header
        if header is None:
            self._journal.begin({"identity": identity | {"scores": scores(self.seed)}, "seed": self.seed})
            return
        self._compare(header, identity, scores, seed)
        self._journal.resume()
        self.seed = header["seed"]
        for line, content in enumerate(self._journal.entries, start=2):
            number, values, redrawn = self._read(content, line)
            if number in self.done:
                self._journal.refuse_line(line, f"replicate {number}, a second time,")
            super().add(number, values, redrawn)

    def _read(self, content: dict[str, Any], line: int) -> tuple[int, FloatArray, int]:
        """Read a replicate; its line is checked, as anybody can compute its hash."""
        counts = content.get("replicate"), content.get("redrawn")
        if set(content) != _FIELDS or not all(type(count) is int and count >= 0 for count in counts):
            self._journal.refuse_line(line, "no numbered replicate")
        shape, words = content["shape"], content["values"]
        if not isinstance(shape, list) or not all(type(length) is int and length > 0 for length in shape):
            self._journal.refuse_line(line, "no shape")
        if not isinstance(words, list) or math.prod(shape) != len(words) or not all(map(_is_exact, words)):
            self._journal.refuse_line(line, f"no {math.prod(shape)} numbers")
        return (
            content["replicate"],
            np.array([float.fromhex(word) for word in words]).reshape(shape),
            content["redrawn"],
        )

    def require_shape(self, shape: tuple[int, ...]) -> None:
        """Replicates that were kept must have this shape."""
        for line, (values, _) in enumerate(self.done.values(), start=2):
            if values.shape != shape:
                self._journal.refuse_line(line, f"values of shape {values.shape} instead of {shape}")

    def _compare(self, header: dict[str, Any], identity: dict[str, str], scores: Scores, seed: int | None) -> None:
        if not isinstance(header.get("identity"), dict) or type(header.get("seed")) is not int or header["seed"] < 0:
            self._journal.refuse_line(1, "no problem and seed")
        stored = dict(header["identity"])
        scored = stored.pop("scores", None)
        other = [key for key in {**identity, **stored} if identity.get(key) != stored.get(key)]
        if seed is not None and seed != header["seed"]:
            other.append("random_state")
        if not other and scored != scores(header["seed"]):
            other.append("scores of the classifier")
        if other:
            refuse(
                "a checkpoint must belong to this problem",
                f"{str(self._journal.path)!r} of another one: {', '.join(other)} differ",
                "Use another path; the file is left as it is.",
            )

    def add(self, replicate: int, values: FloatArray, redrawn: int) -> None:
        """Store a replicate, and write it unless it holds NaN, which `_read` would refuse."""
        if not np.isnan(values).any():
            numbers = [float(v).hex() for v in values.ravel()]  # exact
            content = {"redrawn": redrawn, "replicate": replicate, "shape": list(values.shape), "values": numbers}
            self._journal.append(content)
        super().add(replicate, values, redrawn)

    def __exit__(self, *_: object) -> None:
        self._journal.close()


# ── hashes of rows, classifiers, functions, options ─────────────────────────────────────────────────

#: Depth to which objects are hashed.
_DEPTH = 30
#: Bits of a probability that are hashed: sums over threads differ in the last ones of the 53.
_BITS = 2.0**24

Path = tuple[int, ...]  # ids of the objects around a value, to stop at cycles


def digest(value: Any) -> str:
    """A hash of the contents of arrays, frames, sparse matrices, estimators, functions or plain values."""
    return _hash(value, ())


def digest_of_scores(laws: Iterable[FloatArray]) -> str:
    """A hash of probabilities up to their last bits, small ones and those near 1 alike."""
    rounded = []
    for law in laws:
        mantissa, exponent = np.frexp(np.stack([law, 1.0 - law]))
        rounded.append(np.ldexp(np.round(mantissa * _BITS), exponent) + 0.0)
    return digest(rounded)


def _hash(value: Any, path: Path) -> str:
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
        state.update("".join(sorted(_hash(item, inside) for item in value)).encode())
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
    elif callable(getattr(value, "get_params", None)):  # an estimator, by its parameters
        _feed(state, value.get_params(deep=False), path)
    elif backend_of(value) is not None:
        _feed_frame(state, value, path)
    elif isinstance(value, np.random.RandomState):
        _feed(state, value.get_state(legacy=False), path)
    elif isinstance(value, np.random.Generator):
        _feed(state, value.bit_generator.state, path)
    else:
        _feed_attributes(state, value, path)


def _feed_routine(state: Any, value: Any, path: Path) -> None:
    """Hash a function by everything that determines what it does except globals; a class by its name."""
    state.update(f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}".encode())
    owner = getattr(value, "__self__", None)
    if owner is not None and not inspect.ismodule(owner):  # a method of an object
        _feed(state, owner, path)
    if isinstance(getattr(value, "__code__", None), types.CodeType):
        cells = [_get_contents(cell) for cell in value.__closure__ or ()]
        _feed(state, [value.__code__, value.__defaults__, value.__kwdefaults__, cells], path)


def _get_contents(cell: types.CellType) -> Any:
    """Contents of a closure's cell; None while the function is still being defined."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _feed_attributes(state: Any, value: Any, path: Path) -> None:
    """Hash the attributes of an object, slots included; an object without any by its repr."""
    slots = {name for kind in type(value).__mro__ for name in _list_slots(kind)}
    attributes = {name: getattr(value, name) for name in slots if hasattr(value, name)} | getattr(value, "__dict__", {})
    if attributes:
        _feed(state, attributes, path)
    else:
        state.update(re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value)).encode())  # without its address


def _list_slots(kind: type) -> tuple[str, ...]:
    slots = kind.__dict__.get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if not name.startswith("__"))


def _feed_array(state: Any, array: np.ndarray[Any, Any], path: Path) -> None:
    state.update(f"{array.dtype.str}{array.shape}".encode())
    if array.dtype.hasobject:
        for item in array.ravel():
            _feed(state, item, path)
    else:
        state.update(array.tobytes())


def _feed_frame(state: Any, frame: Any, path: Path) -> None:
    """Hash a frame by its columns, so that the library's memory layout does not matter."""
    import narwhals as nw

    table = nw.from_native(frame, eager_only=True, allow_series=True)
    for column in table.iter_columns() if isinstance(table, nw.DataFrame) else [table]:
        state.update(f"{column.name} {column.dtype}\0".encode())
        _feed_array(state, np.asarray(column.to_numpy()), path)
