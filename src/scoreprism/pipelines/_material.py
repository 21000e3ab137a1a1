"""What a pipeline is made from: three parts of rows, and how rows or clusters are drawn from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.arrays import parse_weights
from scoreprism._core.checks import refuse, require_rows
from scoreprism._core.frames import backend_of, require_aligned, take_rows
from scoreprism._core.labels import distinct, parse_groups, parse_labels
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._fitting.crossfit import REFITS
from scoreprism._spelling import mark
from scoreprism.pipelines._digest import digest

#: Draws of one resample before it is given up.
_DRAWS = 1000


@dataclass(frozen=True)
class Part:
    """
    Rows of one split: features, labels, weights (None for equal ones), and the unit of each row.

    `given` and `kept` are the number of rows that came, and which of them have weight (None for all).
    """

    name: str
    X: Any
    y: NDArray[Any]
    weight: FloatArray | None
    units: IntArray
    clustered: bool
    backend: str | None = None
    given: int = 0
    kept: IntArray | None = None

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.y.shape[0])

    @property
    def n_units(self) -> int:
        """Number of rows or clusters."""
        return int(self.units.max()) + 1

    @cached_property
    def digest(self) -> str:
        """A hash of the rows."""
        return digest([self.X, self.y, self.weight, self.units if self.clustered else None])

    def without_features(self) -> Part:
        """All that a replicate needs once the scores are known."""
        return replace(self, X=None)

    def taken(self, rows: IntArray) -> Part:
        """Some of the rows, clusters numbered anew."""
        weight = None if self.weight is None else self.weight[rows]
        units = np.unique(self.units[rows], return_inverse=True)[1].astype(np.intp)
        X = None if self.X is None else take_rows(self.X, rows)
        return replace(self, X=X, y=self.y[rows], weight=weight, units=units)


def parse_part(value: object, name: str, groups: Any) -> Part:
    """A split of the rows, parsed; rows without weight are left out."""
    if not isinstance(value, (tuple, list)) or len(value) not in (2, 3):
        size = f" of {len(value)}" if isinstance(value, (tuple, list)) else ""
        rule = f"{mark(name)} must be (X, y) or (X, y, sample_weight)"
        refuse(rule, f"{type(value).__name__}{size}", "Pass a tuple of features and outcomes.")
    X, y, *rest = value
    by_row = {f"{name} X": X, f"{name} y": y, f"{name} sample_weight": rest[0] if rest else None}
    require_aligned(by_row | {f"groups of {name}": groups})
    X = settled(X)
    labels = parse_labels(y, f"{name} y")
    distinct(labels, f"{name} y")  # labels that do not sort are refused here, in our words
    n = labels.shape[0]
    require_rows(_count(X, name), n, f"{name} X", f"{name} y")
    weight = parse_weights(rest[0], n, f"{name} y") if rest and rest[0] is not None else None
    parsed = parse_groups(groups, n, f"groups of {name}")
    units = np.arange(n) if parsed is None else parsed[1]
    backend = backend_of(y) or backend_of(X)
    part = Part(name, X, labels, weight, units.astype(np.intp), parsed is not None, backend, n)
    if weight is None or (weight > 0).all():
        return part
    kept = np.flatnonzero(weight)
    return replace(part.taken(kept), kept=kept)


def settled(X: Any) -> Any:
    """
    Features as rows are taken from them: converted once, not in every replicate, and laid out as pickling leaves them.

    A view with gaps arrives at a worker without gaps, and the last bits of a product of matrices depend on that.
    """
    if hasattr(X, "tocsr"):
        return X.tocsr()
    if type(X) is np.ndarray and not (X.flags.c_contiguous or X.flags.f_contiguous):
        return np.ascontiguousarray(X)
    return X.copy() if backend_of(X) == "pandas" else X  # its blocks may have gaps too, and do not tell


def _count(X: Any, name: str) -> int:
    if not hasattr(X, "shape") and not hasattr(X, "__len__"):
        refuse(f"the features of {name} must be an array, a frame or a list", type(X).__name__, "Pass a table.")
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def parse_parts(groups: object, *parts: tuple[object, str]) -> list[Part]:
    """All splits, with their clusters."""
    if groups is None:
        given: list[Any] = [None] * len(parts)
    elif isinstance(groups, (tuple, list)) and len(groups) == len(parts):
        given = list(groups)
    else:
        names = ", ".join(name for _, name in parts)
        rule = f"`groups` must be a tuple with the clusters of {names}, None for single rows"
        refuse(rule, type(groups).__name__, "For example `groups`=(None, clinic_of_calibration, clinic_of_test).")
    return [parse_part(value, name, group) for (value, name), group in zip(parts, given, strict=True)]


Accepts = Callable[[FloatArray], bool]


def draw(part: Part, rng: np.random.Generator, accepts: Accepts, needs: str) -> tuple[FloatArray, int]:
    """How often each row is drawn, with all rows of its unit; and how many draws were thrown away before."""
    rows, thrown = np.zeros(part.n), -1
    while thrown < _DRAWS and (thrown < 0 or not accepts(rows)):
        drawn = np.bincount(rng.integers(0, part.n_units, part.n_units), minlength=part.n_units)
        rows, thrown = drawn[part.units].astype(np.float64), thrown + 1
    if thrown == _DRAWS:
        remedy = "Pass more rows of each class."
        refuse(f"a resample of {part.name} must hold {needs}", f"none in {_DRAWS} draws", remedy)
    return rows, thrown


def every_class(part: Part) -> Accepts:
    """Every class that occurs must be drawn."""
    codes = np.unique(part.y, return_inverse=True)[1]
    return lambda counts: bool((np.bincount(codes, counts) > 0).all())


def two_of_each(part: Part) -> Accepts:
    """What delete-block refits of a map need: rows or groups of at least two classes."""
    codes = np.unique(part.y, return_inverse=True)[1]
    k = int(codes.max()) + 1
    first = np.unique(np.stack([part.units, codes]), axis=1, return_index=True)[1]  # a row for every unit and class

    def accepts(counts: FloatArray) -> bool:
        held = counts[first] > 0
        enough = np.bincount(codes[first][held], minlength=k) >= 2
        units = np.unique(part.units[first][held]).size
        return units >= REFITS and bool(enough.all() if k == 2 else enough.sum() >= 2)

    return accepts
