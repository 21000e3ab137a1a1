"""Reading frames of repeated splits, ours or others': columns by name, methods by loss, splits side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import listed, parse_choice, plain, refuse
from scoreprism._core.frames import backend_of, column_names, columns_of, unwrap
from scoreprism._core.labels import parse_labels
from scoreprism._core.simplex import FloatArray


class Long(NamedTuple):
    """A long table: one entry per row in every array."""

    split: NDArray[Any]
    method: NDArray[Any]
    loss: NDArray[Any]
    columns: dict[str, Any]
    backend: str | None

    @property
    def methods(self) -> list[str]:
        """Methods in the order they came."""
        return list(dict.fromkeys(self.method.tolist()))

    @property
    def losses(self) -> list[str]:
        """Losses in the order they came; one without a name where there is no such column."""
        return list(dict.fromkeys(self.loss.tolist()))

    def numbers(self, name: str) -> FloatArray:
        """A column of numbers; NaN where one is missing."""
        if name not in self.columns:
            known = [key for key in self.columns if key not in ("split", "method", "loss")]
            parse_choice(name, known, "metric")
        column = unwrap(self.columns[name])
        try:
            values = np.asarray(column.values).astype(np.float64)
        except (TypeError, ValueError):
            refuse(f"column {name!r} must hold numbers", "something else", "Convert it first.")
        return values if column.missing is None else np.where(column.missing, np.nan, values)

    def only(self, loss: str | None) -> list[str]:
        """The losses asked for."""
        return self.losses if loss is None else [parse_choice(loss, self.losses, "loss")]


def read_long(frame: Any, names: dict[str, str]) -> Long:
    """A frame with columns for splits, methods and, perhaps, losses."""
    found = columns_of(frame) if backend_of(frame) is not None else None
    if found is None:
        remedy = "Pass what repeated_splits returns, or a frame like it."
        refuse("`frame` must be a dataframe of pandas, polars or pyarrow", type(frame).__name__, remedy)
    heads = [str(name) for name in column_names(frame) or range(len(found))]
    if len(set(heads)) < len(heads):
        refuse("`frame` must have columns of different names", "a repeated one", "Rename them.")
    columns = dict(zip(heads, found, strict=True))
    missing = [name for key, name in names.items() if name not in columns and key != "loss"]
    if missing:
        remedy = "Say what they are called, for example split='seed'."
        refuse(
            f"`frame` must have the columns {listed(map(repr, missing))}", f"the columns {listed(heads, 20)}", remedy
        )
    split, method = (parse_labels(columns[names[key]], f"column {names[key]!r}") for key in ("split", "method"))
    loss = np.full(split.shape, "", dtype=object)
    if names["loss"] in columns:
        loss = _words(parse_labels(columns[names["loss"]], f"column {names['loss']!r}"))
    return Long(split, _words(method), loss, columns, backend_of(frame))


def _words(labels: NDArray[Any]) -> NDArray[Any]:
    return np.array([str(label) for label in labels.tolist()], dtype=object)


def side_by_side(
    table: Long, metric: str, loss: str, methods: Sequence[str], *, infinite: bool = False
) -> dict[str, FloatArray]:
    """A metric of several methods on the same splits, each split once."""
    values, inside = table.numbers(metric), table.loss == loss
    where = f" of the {loss} loss" if loss else ""
    wanted = list(dict.fromkeys(table.split[inside].tolist()))
    found = {}
    for method in methods:
        rows = np.flatnonzero(inside & (table.method == method))
        place = {split: row for row, split in zip(rows.tolist(), table.split[rows].tolist(), strict=True)}
        if len(place) < rows.size:
            what = f"{rows.size} rows for {len(place)} splits of {method!r}{where}"
            refuse("`frame` must hold every split, method and loss once", what, "Pass one run of repeated_splits.")
        absent = [split for split in wanted if split not in place]
        if absent:
            what = f"{len(absent)} of {len(wanted)} splits missing for {method!r}{where} ({listed(absent)})"
            refuse("every method must have every split", what, "Drop these splits, or the method.")
        column = values[[place[split] for split in wanted]]
        if infinite and np.isinf(column).any() and not np.isnan(column).any():
            continue
        bad = np.flatnonzero(~np.isfinite(column))
        if bad.size:
            what = f"{plain(column[bad[0]])} in {bad.size} of {column.size} splits of {method!r}{where}"
            remedy = "Pass `clip`=1e-6 to repeated_splits, choose another `loss`= or metric, or drop these splits."
            refuse(f"{metric} must be finite", what, remedy)
        found[method] = column
    return found
