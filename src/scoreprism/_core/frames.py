"""Conversion from and to dataframes of pandas, polars and pyarrow, through narwhals."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.arrays import is_foreign, to_host
from scoreprism._spelling import mark
from scoreprism.exceptions import InputError

#: Eager dataframe libraries a result can be returned in.
BACKENDS = ("pandas", "polars", "pyarrow", "modin", "cudf")


@dataclass(frozen=True)
class Unwrapped:
    """The values of a dataframe object, with what a numpy array cannot hold."""

    values: Any  # an array where a series or frame came in, else the object itself
    missing: NDArray[np.bool_] | None = None  # (n,): rows with missing entries, if there are any
    backend: str | None = None  # the library
    categories: tuple[Any, ...] | None = None  # the categories of an ordered categorical, in their order


def backend_of(value: object) -> str | None:
    """The dataframe library an object belongs to."""
    root = type(value).__module__.partition(".")[0]
    return root if root in BACKENDS and root in sys.modules else None


def unwrap(value: object) -> Unwrapped:
    """Take the values out of a series or frame; leave everything else as it is."""
    backend = backend_of(value)
    if backend is None:
        return Unwrapped(to_host(value) if is_foreign(value) else value)
    import narwhals as nw

    if backend == "pyarrow" and type(value).__name__.endswith(("Array", "Scalar")):
        value = sys.modules["pyarrow"].chunked_array([value]) if hasattr(value, "null_count") else value
    if backend == "pandas" and not hasattr(value, "iloc"):  # a bare Categorical, Index or extension array
        value = sys.modules["pandas"].Series(value)
    columns = columns_of(value)
    if columns is not None:
        return _stack([unwrap(column) for column in columns], backend)
    native: Any = nw.from_native(value, allow_series=True, pass_through=True)
    if isinstance(native, nw.Series):
        native = native.alias("values")  # polars reads a name such as "^y|s$" as a regular expression
        missing = np.asarray(native.is_null().to_numpy(), dtype=bool)
        ordered = tuple(native.dtype.categories) if isinstance(native.dtype, nw.Enum) else None
        return Unwrapped(native.to_numpy(), missing if missing.any() else None, backend, ordered)
    if isinstance(native, nw.LazyFrame):
        raise InputError(
            f"scoreprism reads eager frames here; got a lazy {type(value).__name__}. Call .collect() first."
        )
    return Unwrapped(value)


def columns_of(value: Any) -> list[Any] | None:
    """The columns of an eager frame, by position: names may be numbers, repeated or nested."""
    if hasattr(value, "iloc"):
        return [value.iloc[:, j] for j in range(value.shape[1])] if value.ndim == 2 else None
    if hasattr(value, "get_columns"):
        return list(value.get_columns())
    return list(value.columns) if hasattr(value, "column_names") else None


def _stack(columns: list[Unwrapped], backend: str) -> Unwrapped:
    if not columns:
        return Unwrapped(np.empty((0, 0)), None, backend)
    missing = np.zeros(len(columns[0].values), dtype=bool)
    for column in columns:
        missing |= column.missing if column.missing is not None else False
    return Unwrapped(np.column_stack([c.values for c in columns]), missing if missing.any() else None, backend)


def column_names(value: object) -> tuple[Any, ...] | None:
    """Names of the columns of a frame, or of a series, unless they are just positions."""
    if backend_of(value) is None:
        return None
    names: Any = getattr(value, "column_names", None)
    names = getattr(value, "columns", None) if names is None else names
    if names is None:
        name = getattr(value, "name", None)
        return None if name is None or name == "" else (name,)
    if type(names).__name__ == "RangeIndex" and list(names) == list(range(len(names))):
        return None
    return tuple(names)


def require_aligned(columns: Mapping[str, object]) -> None:
    """Refuse pandas objects whose indexes hold the same labels in different orders: rows are taken by position."""
    indexed = {name: value.index for name, value in columns.items() if hasattr(value, "iloc")}  # type: ignore[attr-defined]
    if len(indexed) < 2:
        return
    first, index = next(iter(indexed.items()))
    for name, other in list(indexed.items())[1:]:
        if other.equals(index) or len(other) != len(index) or not (other.is_unique and index.is_unique):
            continue
        if other.isin(index).all():
            raise InputError(
                f"{mark(first)} and {mark(name)} must have their rows in the same order",
                "indexes with the same labels in another order",
                f"Align them first, for example {name}.loc[{first}.index].",
            )


def take_rows(value: Any, rows: NDArray[Any]) -> Any:
    """Some rows of anything tabular, in the container it came in."""
    if hasattr(value, "iloc"):
        return value.iloc[rows]
    if backend_of(value) is not None:
        return value.take(rows) if backend_of(value) == "pyarrow" else value[rows.tolist()]
    if isinstance(value, (list, tuple)):
        return [value[i] for i in rows.tolist()]
    if hasattr(value, "tocsr"):
        return value.tocsr()[rows]
    return value[rows] if hasattr(value, "shape") and hasattr(value, "__getitem__") else np.asarray(value)[rows]


def make_frame(columns: Mapping[str, object], backend: str | None = None) -> Any:
    """Build a dataframe of the chosen library, polars by default."""
    chosen = backend or "polars"
    if chosen not in BACKENDS:
        raise InputError(f"`backend` must be one of {', '.join(BACKENDS)}", repr(chosen), "Leave it out for polars.")
    import narwhals as nw

    try:
        return nw.from_dict(dict(columns), backend=chosen).to_native()  # type: ignore[arg-type]
    except ImportError as error:
        raise InputError(
            "`backend` must be an installed library",
            f"{chosen!r}, which is not",
            f"Run: python -m pip install {chosen}",
        ) from error
