"""What comes back from scale: a decomposition without rows, its segments and its periods."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from scoreprism._validation import refuse
from scoreprism.decomposition import Decomposition
from scoreprism.decomposition._summary import SCALE, encode, read_summary
from scoreprism.estimation import SegmentDecompositions
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
            refuse("drift must have periods", "a decomposition without them", "Pass time= to decompose.")
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
        parts = {name: cls._read_parts(more[name]) for name in _PARTS if name in more}
        error, held, mass = float(more["quantisation_error"]), int(more["held"]), float(more["weight"])
        kept: ScaledDecomposition = replace(found, quantisation_error=error, _weight=mass, _held=held, **parts)
        return kept

    @classmethod
    def _read_parts(cls, data: dict[str, Any]) -> SegmentDecompositions:
        each = {label: cls.from_json(json.dumps(encode(part))) for label, part in data["segments"].items()}
        return SegmentDecompositions(next(iter(each.values())).names, None, dict(each), dict(data["skipped"]))


#: Attributes that hold decompositions of their own.
_PARTS = ("segments", "periods")


def scaled(found: Decomposition, partial: Partial, error: float, options: Any) -> ScaledDecomposition:
    """A decomposition with what sums add to it."""
    mass, held = float(partial.table["w"].sum()), int(partial.table["n"].sum())
    given = {field.name: getattr(found, field.name) for field in fields(found)}
    if not partial.exact:
        share = error / min(found.std_error.values(), default=math.nan)
        note = (
            f"summing by cell moved the loss of C by at most {error:.2g} ({share:.2g} of the smallest standard error)"
        )
        given["notes"] = (*found.notes, note)
    more = {"quantisation_error": error, "partial": partial, "_weight": mass, "_held": held, "_options": options}
    return ScaledDecomposition(**given, **more)
