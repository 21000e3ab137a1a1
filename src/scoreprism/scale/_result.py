"""What comes back from scale: a decomposition without rows, its segments and periods, and how it drifted."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from scoreprism._validation import parse_choice, parse_confidence, refuse
from scoreprism.decomposition import Decomposition
from scoreprism.decomposition._table import TermTable
from scoreprism.estimation import SegmentDecompositions
from scoreprism.intervals import Interval

if TYPE_CHECKING:
    from scoreprism.scale._partial import Partial

#: What each period is compared with.
AGAINST = ("previous", "first")


@dataclass(frozen=True, eq=False, repr=False)
class ScaledDecomposition(Decomposition):
    """
    A decomposition made from sums: terms, intervals, bounds and advice, but no rows.

    Made by `scoreprism.scale.decompose` and `Partial.decompose`.

    Attributes
    ----------
    quantisation_error : float
        Bound of what summing by cell instead of by score did to the loss of C, and so to the reliability; 0 if every
        distinct score has its own line. It holds where the loss of C, as a function of the score, has a third
        derivative of one sign within each cell.
    segments, periods : SegmentDecompositions or None
        One decomposition per segment and per period, by laws of their own.
    partial : Partial
        The sums.

    Examples
    --------
    >>> import polars as pl
    >>> from scoreprism import scale
    >>> rows = pl.DataFrame({"y": [0, 1] * 500, "p": [0.3, 0.6] * 500})
    >>> d = scale.decompose(rows, target="y", score="p", loss="brier")
    >>> d.names, d.quantisation_error
    (('reliability', 'refinement'), 0.0)
    """

    quantisation_error: float = 0.0
    segments: SegmentDecompositions | None = None
    periods: SegmentDecompositions | None = None
    partial: Partial | None = None
    _weight: float = 0.0
    _held: int = 0

    @property
    def n_units(self) -> int:
        """Number of rows that have weight."""
        return self._held

    @property
    def _mass(self) -> float:
        return self._weight

    def drift(self, against: str = "previous") -> Drift:
        """
        How the terms changed from period to period.

        Parameters
        ----------
        against : {"previous", "first"}, default="previous"
            What each period is compared with.

        Returns
        -------
        Drift
            Changes with intervals.
        """
        if self.periods is None:
            refuse("drift must have periods", "a decomposition without them", "Pass time= to decompose.")
        return drift_between(self.periods, against)

    def to_dict(self) -> dict[str, Any]:
        """
        The summary as plain Python objects.

        Returns
        -------
        dict
            What `Decomposition.to_dict` gives, the quantisation error, segments and periods.
        """
        more: dict[str, Any] = {"quantisation_error": self.quantisation_error}
        for name in ("segments", "periods"):
            part = getattr(self, name)
            if part is not None:
                more[name] = part.to_dict()
        return {**super().to_dict(), **more}


def scaled(found: Decomposition, partial: Partial, error: float, mass: float, held: int) -> ScaledDecomposition:
    """A decomposition with what sums add to it."""
    given = {field.name: getattr(found, field.name) for field in fields(found)}
    if not partial.exact:
        share = error / min(found.std_error.values(), default=math.nan)
        note = (
            f"summing by cell moved the loss of C by at most {error:.2g} ({share:.2g} of the smallest standard error)"
        )
        given["notes"] = (*found.notes, note)
    return ScaledDecomposition(**given, quantisation_error=error, partial=partial, _weight=mass, _held=held)


@dataclass(frozen=True, eq=False, repr=False)
class Drift(TermTable):
    """
    Changes of the terms of a loss between periods.

    Attributes
    ----------
    names : tuple of str
        Terms in order.
    periods : SegmentDecompositions
        One decomposition per period.
    pairs : tuple of pairs
        The period and the one it is compared with.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> from scoreprism import scale
    >>> rng = np.random.default_rng(0)
    >>> p, late = rng.random(4000), np.arange(4000) >= 2000
    >>> y = (rng.random(4000) < np.where(late, p**2, p)).astype(int)
    >>> rows = pl.DataFrame({"y": y, "p": p, "half": np.where(late, 2, 1)})
    >>> drift = scale.decompose(rows, target="y", score="p", time="half", loss="brier").drift()
    >>> bool(drift.interval("reliability", 2).low > 0)
    True
    """

    periods: SegmentDecompositions
    pairs: tuple[tuple[Any, Any], ...]

    @property
    def terms(self) -> dict[str, float]:
        """Change of each term from the first to the last period."""
        first, last = self.periods[self.pairs[0][1]], self.periods[self.pairs[-1][0]]
        return {name: last.terms[name] - first.terms[name] for name in self.names}

    def interval(self, term: str, period: Any, level: float = 0.95) -> Interval:
        """
        Interval of the change of a term in one period.

        Parameters
        ----------
        term : str
            One of `names`.
        period : object
            The later period of a pair.
        level : float, default=0.95
            Confidence level.

        Returns
        -------
        Interval
            From the intervals of both periods.
        """
        name, confidence = parse_choice(term, self.names, "term"), parse_confidence(level)
        base = next(before for after, before in self.pairs if after == period)
        return change(self.periods[period], self.periods[base], name, confidence)

    def _columns(self) -> dict[str, list[Any]]:
        lines: dict[str, list[Any]] = {"period": [], "against": [], "term": [], "change": [], "low": [], "high": []}
        for after, before in self.pairs:
            for name in self.names:
                interval = self.interval(name, after)
                value = self.periods[after].terms[name] - self.periods[before].terms[name]
                for key, entry in zip(lines, (after, before, name, value, interval.low, interval.high), strict=True):
                    lines[key].append(entry)
        return lines

    def to_dict(self) -> dict[str, Any]:
        """
        Everything as plain Python objects.

        Returns
        -------
        dict
            Columns.
        """
        return self._columns()

    def _title(self) -> str:
        return "change of the terms between periods"


def change(after: Decomposition, before: Decomposition, name: str, level: float) -> Interval:
    """Interval of a difference from the intervals of two independent estimates (MOVER; Zou and Donner 2008)."""
    x, y = after.terms[name], before.terms[name]
    one, two = after.interval(name, level), before.interval(name, level)
    low = x - y - math.hypot(x - one.low, two.high - y)
    high = x - y + math.hypot(one.high - x, y - two.low)
    return Interval(low, high, level, "from both intervals (MOVER)")


def drift_between(periods: SegmentDecompositions, against: str) -> Drift:
    """Each period against the one before, or the first."""
    chosen = parse_choice(against, AGAINST, "against")
    labels = list(periods.decompositions)
    if len(labels) < 2:
        refuse("drift must have at least two periods", f"{len(labels)}", "Add the sums of further periods.")
    bases = labels[:-1] if chosen == "previous" else [labels[0]] * (len(labels) - 1)
    return Drift(periods.names, None, periods, tuple(zip(labels[1:], bases, strict=True)))
