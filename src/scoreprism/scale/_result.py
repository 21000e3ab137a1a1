"""What comes back from scale: a decomposition without rows, its segments and its periods."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from scoreprism._core.checks import refuse
from scoreprism._core.progress import tracked
from scoreprism._document.result_json import SCALE, encode, fitting_together, read_summary, require_kinds
from scoreprism.decomposition import Decomposition
from scoreprism.estimation import SegmentDecompositions
from scoreprism.exceptions import InputError, ScoreprismError
from scoreprism.scale._drift import Drift, drift_between

if TYPE_CHECKING:
    from scoreprism.scale._partial import Partial


@dataclass(frozen=True, eq=False, repr=False)
class ScaledDecomposition(Decomposition):
    """
    A decomposition made from sums: terms, intervals, bounds and advice, but no rows.

    Made by `scoreprism.scale.decompose` and `Partial.decompose`.

    Attributes
    ----------
    quantisation_error : float
        Bound of what evaluating C on cells instead of at every score did to its loss, and so to the reliability; 0 if
        every distinct score has its own line. It holds where the loss of C, as a function of the score, has a third
        derivative of one sign within each cell; maps that jump there can exceed it. Half a standard error of it, and
        the advice says nothing of reliability but that more cells are needed.
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
    _options: Any = None

    @property
    def n_units(self) -> int:
        """Number of rows that have weight."""
        return self._held

    @property
    def _mass(self) -> float:
        return self._weight

    @property
    def _telling(self) -> str:
        return "pass q, a column of P(event | features),"

    def drift(self, against: Any = "previous") -> Drift:
        """
        How the terms changed from period to period.

        Parameters
        ----------
        against : {"previous", "first"} or period, default="previous"
            What each period is compared with: the one before, the first, or one that is named.

        Returns
        -------
        Drift
            Changes with intervals.
        """
        if self.periods is None:
            refuse("drift must have periods", "a decomposition without them", "Pass `time`= to decompose.")
        return drift_between(self.periods, against)

    def to_dict(self) -> dict[str, Any]:
        """
        The summary as plain Python objects.

        Returns
        -------
        dict
            What `Decomposition.to_dict` gives, and under ``"scale"`` the quantisation error, segments and periods.
        """
        return {**super().to_dict(), SCALE: self._scale()}

    def _scale(self) -> dict[str, Any]:
        more: dict[str, Any] = {"quantisation_error": self.quantisation_error, "weight": self._mass, "held": self._held}
        parts = {name: getattr(self, name) for name in _PARTS}
        return more | {name: part.to_dict() for name, part in parts.items() if part is not None}

    @classmethod
    def from_json(cls, text: str | bytes) -> ScaledDecomposition:
        """
        Read a summary back: terms, intervals and bounds of the whole, of segments and of periods; no sums.

        Parameters
        ----------
        text : str or bytes
            What `to_json` wrote; segments and periods come back under their names as text.

        Returns
        -------
        ScaledDecomposition
            Without `partial`.
        """
        found: Any = super().from_json(text)
        more = read_summary(text).get(SCALE)
        if not isinstance(more, dict) or not {"quantisation_error", "weight", "held"} <= set(more):
            refuse("the JSON must be that of a ScaledDecomposition", "no field 'scale'", "Use Decomposition.from_json.")
        with fitting_together():
            require_kinds(more, {"quantisation_error": (float, int), "held": (int,), "weight": (float, int)})
            parts = {name: cls._read_parts(more[name]) for name in _PARTS if name in more}
            error, held, mass = float(more["quantisation_error"]), more["held"], float(more["weight"])
            kept: ScaledDecomposition = replace(found, quantisation_error=error, _weight=mass, _held=held, **parts)
            return kept

    @classmethod
    def _read_parts(cls, data: dict[str, Any]) -> SegmentDecompositions:
        each: dict[Any, Decomposition] = {}
        for label, part in data["segments"].items():
            kind = cls if SCALE in part else Decomposition  # those of a sample were decomposed by rows
            each[label] = kind.from_json(json.dumps(encode(part)))
        skipped = dict(data["skipped"])
        if not each or not all(isinstance(reason, str) for reason in skipped.values()):
            raise ValueError("no segment, or a segment left out without a reason")
        return SegmentDecompositions(next(iter(each.values())).names, None, each, skipped)


#: Attributes that hold decompositions of their own.
_PARTS = ("segments", "periods")


#: A quantisation error above this share of a standard error is no longer beside the point, and advice stops.
_COARSE = 0.5


def scaled(found: Decomposition, partial: Partial, error: float, options: Any) -> ScaledDecomposition:
    """A decomposition with what sums add to it."""
    mass, held = float(partial.table["w"].sum()), int(partial.table["n"].sum())
    given = {field.name: getattr(found, field.name) for field in fields(found)}
    if not partial.exact:
        least = min(found.std_error.values(), default=math.nan)
        share = f" ({error / least:.2g} of the smallest standard error)" if least > 0.0 else ""
        note = f"summing by cell moved the loss of C by up to about {error:.2g}{share}"
        if error > _COARSE * found.std_error[found.names[0]] > 0.0:
            note = f"the cells are too coarse for so many rows: {note}. Pass more cells="
            given["_doubts"] = (*found._doubts, (1, note))
        given["notes"] = (*found.notes, note)
    more = {"quantisation_error": error, "partial": partial, "_weight": mass, "_held": held, "_options": options}
    return ScaledDecomposition(**given, **more)


def decomposed_each(
    parts: Mapping[tuple[Any, ...], Any],
    fit: Callable[[Any], Mapping[str, Decomposition]],
    losses: Iterable[str],
    what: str = "laws by segment",
) -> dict[str, SegmentDecompositions]:
    """Parts one by one; those that cannot be decomposed are named with the reason."""
    found: dict[str, dict[Any, Decomposition]] = {name: {} for name in losses}
    skipped: dict[Any, str] = {}
    for label, part in tracked(iter(parts.items()), len(parts), what):
        short = label[0] if len(label) == 1 else label
        try:
            for name, result in fit(part).items():
                found[name][short] = result
        except ScoreprismError as error:
            skipped[short] = str(error)
    if not any(found.values()):
        raise InputError(f"no segment could be decomposed; the first: {next(iter(skipped.values()))}")
    return {
        name: SegmentDecompositions(next(iter(results.values())).names, None, dict(results), skipped)
        for name, results in found.items()
    }
