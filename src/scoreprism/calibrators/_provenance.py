"""Where a fitted map comes from: names, rows and the range of the scores it saw."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import refuse
from scoreprism._core.frames import column_names
from scoreprism._core.lazy_laws import ClassScores
from scoreprism._core.simplex import FloatArray
from scoreprism._maps.parts import REMEDY, brief, require_fields
from scoreprism._sample.fit_rows import FitRows

_FIELDS = {"score", "target", "labels", "rows", "counts", "ranges", "version"}


@dataclass(frozen=True)
class Provenance:
    """
    Where a fitted map comes from; kept in its file.

    Attributes
    ----------
    score : tuple of str or None
        Columns of the score: one, or one per class. None where they came without names.
    target : str or None
        Column of the outcomes, if it is known.
    labels : tuple of str
        Labels of the outcomes in the order of ``classes_``, which may be codes of them.
    rows : int
        Rows of positive weight.
    counts : tuple of int
        Rows of each class, in the order of ``classes_``.
    ranges : tuple of (float, float)
        Smallest and largest score that was seen: one pair for two classes, else one for each column.
    version : str
        The release of scoreprism that fitted the map.

    Examples
    --------
    >>> from scoreprism.calibrators import PlattCalibrator
    >>> result = PlattCalibrator().fit([0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1]).provenance_
    >>> result.rows, result.events, result.ranges
    (4, 2, ((0.2, 0.8),))
    """

    score: tuple[str, ...] | None
    target: str | None
    labels: tuple[str, ...]
    rows: int
    counts: tuple[int, ...]
    ranges: tuple[tuple[float, float], ...]
    version: str

    @property
    def events(self) -> int | None:
        """Rows of ``classes_[1]``, whose probability a score of two classes is; None for more classes."""
        return self.counts[1] if len(self.counts) == 2 else None

    def outside(self, scores: FloatArray) -> NDArray[np.bool_]:
        """
        Which scores are outside of the range that the map saw: there it extrapolates.

        Parameters
        ----------
        scores : array of shape (n,) or (n, K)
            Scores of the width of `ranges`; missing ones are not outside.

        Returns
        -------
        array of bool of shape (n,)
            True where any column is.
        """
        table = scores.reshape(len(scores), len(self.ranges))
        low, high = np.array(self.ranges).T
        is_outside: NDArray[np.bool_] = ((table < low) | (table > high)).any(axis=1)
        return is_outside

    def named(self, score: tuple[str, ...], target: str | None) -> Provenance:
        """
        The same under the names of a file's columns.

        Parameters
        ----------
        score : tuple of str
            Columns of the score.
        target : str or None
            Column of the outcomes.

        Returns
        -------
        Provenance
            A copy.
        """
        return replace(self, score=score, target=target)

    def to_dict(self) -> dict[str, Any]:
        """
        The provenance as plain numbers and strings.

        Returns
        -------
        dict
            What a map's file holds.
        """
        return {
            "score": None if self.score is None else list(self.score),
            "target": self.target,
            "labels": list(self.labels),
            "rows": self.rows,
            "counts": list(self.counts),
            "ranges": [list(pair) for pair in self.ranges],
            "version": self.version,
        }


def record_provenance(
    scores: object, y: object, classes: NDArray[Any], data: FitRows, table: FloatArray | None = None
) -> Provenance:
    """What a fit knows: names of what came in, and rows with weight; `table` where the map sees a reduction of it."""
    seen = data.score if table is None else table
    counts = np.bincount(data.codes, minlength=data.k)
    if isinstance(seen, ClassScores):
        ranges = seen.find_ranges()
    else:
        columns = seen.reshape(len(data.codes), -1)
        ranges = list(zip(columns.min(axis=0).tolist(), columns.max(axis=0).tolist(), strict=True))
    target = _find_names(y)
    return Provenance(
        score=_find_names(scores),
        target=target[0] if target is not None and len(target) == 1 else None,
        labels=tuple(str(label) for label in classes.tolist()),
        rows=len(data.codes),
        counts=tuple(counts.tolist()),
        ranges=tuple(ranges),
        version=_version(),
    )


def _find_names(value: object) -> tuple[str, ...] | None:
    """Names of the columns of a frame, or of a series; None where a column has none."""
    names = column_names(value)
    return None if names is None or not all(isinstance(name, str) and name for name in names) else names


@cache
def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("scoreprism")
    except PackageNotFoundError:  # run from its sources
        return "unknown"


def read_provenance(stored: object, k: int, columns: int) -> Provenance | None:
    """What a file says, checked: `k` classes, and as many ranges as the map sees columns."""
    if stored is None:
        return None
    data = require_fields(stored, _FIELDS, "provenance")
    score, target, labels, version = (data[name] for name in ("score", "target", "labels", "version"))
    rows, counts, ranges = (data[name] for name in ("rows", "counts", "ranges"))
    texts = all(isinstance(text, str) for text in (*(score if isinstance(score, list) else ()), version))
    if not texts or not (score is None or (isinstance(score, list) and score)) or not re.fullmatch(r".{1,40}", version):
        refuse("provenance must name columns and a version", brief(data), REMEDY)
    if not (target is None or isinstance(target, str)):
        refuse("provenance must name the target or none", brief(target), REMEDY)
    words = isinstance(labels, list) and all(isinstance(label, str) for label in labels)
    if not words or len(labels) != k or len(set(labels)) < k:
        refuse(f"provenance must name the labels of {k} classes", brief(labels), REMEDY)
    whole = isinstance(counts, list) and len(counts) == k and all(type(n) is int and n > 0 for n in [rows, *counts])
    if not whole or sum(counts) != rows or rows >= 2**62:
        refuse(f"provenance must count the rows of {k} classes", f"{brief(rows)} rows, {brief(counts)}", REMEDY)
    are_pairs = isinstance(ranges, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in ranges)
    if not are_pairs or len(ranges) != columns or not all(type(a) is type(b) is float and a <= b for a, b in ranges):
        refuse(f"provenance must have the range of {columns} columns", brief(ranges), REMEDY)
    pairs = tuple((pair[0], pair[1]) for pair in ranges)
    names = None if score is None else tuple(score)
    return Provenance(names, target, tuple(labels), rows, tuple(counts), pairs, version)
