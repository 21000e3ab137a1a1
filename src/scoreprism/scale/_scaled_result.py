"""Results of scale: decompositions from sums or from passes, with their segments and periods."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from scoreprism._core.checks import refuse
from scoreprism._core.progress import track
from scoreprism._document.result_json import SCALE, encode, fitting_together, read_summary, require_kinds
from scoreprism._findings.finding import Finding
from scoreprism.decomposition import Chain, Decomposition, SegmentDecompositions
from scoreprism.exceptions import InputError, ScoreprismError
from scoreprism.losses import ProperLoss
from scoreprism.scale._drift import Drift
from scoreprism.scale._sums_to_sample import Lines, bound_quantisation

if TYPE_CHECKING:
    from scoreprism.scale._sums import Sums

#: From this share of a standard error on, a quantisation error suppresses advice on reliability.
_COARSE = 0.5
#: Attributes that hold further decompositions.
_PARTS = ("segments", "periods")


@dataclass(frozen=True, eq=False, repr=False)
class ScaledDecomposition(Decomposition):
    """
    A decomposition made from sums: terms, intervals, bounds and advice, but no rows.

    Made by `scoreprism.scale.decompose` and `Sums.decompose`.

    Attributes
    ----------
    quantisation_error : float
        Bound on the change of the loss of C, and so of the reliability, from evaluating C on cells instead of at
        scores; 0 if every distinct score has its own line. It holds where the loss of C, as a function of the score,
        has a third derivative of one sign within each cell; maps that jump there can exceed it. From half a standard
        error on, the advice on reliability is only that more cells are needed.
    segments, periods : SegmentDecompositions or None
        One decomposition per segment and per period, each with its own C.
    sums : Sums
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
    sums: Sums | None = None
    _total: float = 0.0  # sum of the weights
    _held: int = 0  # rows that have weight

    @classmethod
    def _of(cls, result: Decomposition, **more: Any) -> Self:
        """Extend a decomposition."""
        return cls(**{one.name: getattr(result, one.name) for one in fields(Decomposition)}, **more)

    @property
    def n_units(self) -> int:
        """Number of rows that have weight."""
        return self._held

    @property
    def _mass(self) -> float:
        return self._total

    @property
    def splits_the_rest(self) -> str:
        """The argument that would split the remaining loss into grouping and irreducible loss."""
        return "q"

    def drift(self, baseline: Any = "previous") -> Drift:
        """
        How the terms changed from period to period.

        Parameters
        ----------
        baseline : {"previous", "first"} or period, default="previous"
            What each period is compared with: the one before, the first, or one that is named.

        Returns
        -------
        Drift
            Changes with intervals.
        """
        if self.periods is None:
            refuse("drift must have periods", "a decomposition without them", "Pass `time`= to decompose.")
        return Drift.of(self.periods, baseline)

    def to_dict(self) -> dict[str, Any]:
        """
        The summary as plain Python objects.

        Returns
        -------
        dict
            The content of `Decomposition.to_dict`, and under ``"scale"`` the quantisation error, segments and periods.
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
            Without `sums`.
        """
        summary: Any = super().from_json(text)
        more = read_summary(text).get(SCALE)
        if not isinstance(more, dict) or not {"quantisation_error", "weight", "held"} <= set(more):
            refuse("the JSON must be that of a ScaledDecomposition", "no field 'scale'", "Use Decomposition.from_json.")
        with fitting_together():
            require_kinds(more, {"quantisation_error": (float, int), "held": (int,), "weight": (float, int)})
            parts = {name: cls._read_parts(more[name]) for name in _PARTS if name in more}
            error, held, mass = float(more["quantisation_error"]), more["held"], float(more["weight"])
            result: ScaledDecomposition = replace(summary, quantisation_error=error, _total=mass, _held=held, **parts)
            return result

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


_Scaled = TypeVar("_Scaled", bound=ScaledDecomposition)

#: Attributes of several classes.
_OF_CLASSES = ("rows_in_all", "risk_in_all", "passes", "risk_std_error", "parameters")


@dataclass(frozen=True, eq=False, repr=False)
class ClassDecomposition(ScaledDecomposition):
    """
    A decomposition of several classes made where the data lives.

    Attributes
    ----------
    rows_in_all : int
        Rows of the data; ``n`` of them were used.
    risk_in_all : float
        Mean loss of the prediction over all rows, not only the sampled ones.
    risk_std_error : float
        Its standard error.
    passes : int
        How often the data was read.
    parameters : dict of str to list
        ``slopes`` and ``intercepts`` of the fit to all rows (temperature: equal slopes 1/T); empty for a sample.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> from scoreprism import scale
    >>> rng = np.random.default_rng(0)
    >>> law = rng.dirichlet([1, 1, 1], 5000)
    >>> rows = pl.DataFrame({f"p_{k}": law[:, k] for k in range(3)})
    >>> rows = rows.with_columns(y=(rng.random((5000, 1)) > law.cumsum(axis=1)).sum(axis=1), id=np.arange(5000))
    >>> d = scale.decompose(
    ...     rows, target="y", score=["p_0", "p_1", "p_2"], loss="log", calibrator="temperature", fold_key="id"
    ... )
    >>> d.n == d.rows_in_all, bool(abs(d.parameters["slopes"][0] - 1) < 0.1)
    (True, True)
    """

    rows_in_all: int = 0
    risk_in_all: float = math.nan
    risk_std_error: float = math.nan
    passes: int = 0
    parameters: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def _scale(self) -> dict[str, Any]:
        return super()._scale() | {name: getattr(self, name) for name in _OF_CLASSES}

    @classmethod
    def from_json(cls, text: str | bytes) -> ClassDecomposition:
        """
        Read a summary back.

        Parameters
        ----------
        text : str or bytes
            What `to_json` wrote.

        Returns
        -------
        ClassDecomposition
            With all of its attributes, but no sums.
        """
        summary: Any = super().from_json(text)
        more = read_summary(text)[SCALE]
        if not set(_OF_CLASSES) <= set(more):
            refuse("the JSON must be that of a ClassDecomposition", "another", "Use ScaledDecomposition.from_json.")
        with fitting_together():
            require_kinds(more, dict.fromkeys(("rows_in_all", "passes"), (int,)) | {"parameters": (dict,)})
            require_kinds(more, dict.fromkeys(("risk_in_all", "risk_std_error"), (float, int)))
        result: ClassDecomposition = replace(summary, **{name: more[name] for name in _OF_CLASSES})
        return result


class SumChain(Chain):
    """A chain fitted to sums, whose decompositions bound the effect of summing by cell."""

    sums: Sums
    lines: Lines
    fit: Any

    @classmethod
    def of_sums(cls, sums: Sums, lines: Lines, chain: Chain) -> Self:
        """The chain of `fit_sums`, with the sums it was fitted to."""
        fitted: Any = cls.of(chain.sample, chain.levels, chain.terms, findings=chain.findings, fit=chain.fit)
        fitted.sums, fitted.lines = sums, lines
        return cast("Self", fitted)

    def decompose(
        self, loss: str | ProperLoss = "log", form: str = "debiased", *, clip: float | None = None
    ) -> ScaledDecomposition:
        """As `Chain.decompose`; `clip` is that of the sums, which cannot be changed afterwards."""
        summed = self.sums.settings.clip
        if summed is not None and clip not in (None, summed):
            refuse(
                "`clip` must be that of the sums", f"{clip!r} and {summed!r}", "Leave it out, or sum the rows again."
            )
        decomposition = super().decompose(loss, form, clip=summed if clip is None else clip)
        return cast("ScaledDecomposition", decomposition)

    def _assemble(self, loss: ProperLoss, form: str, clip: float | None) -> Decomposition:
        settings, sums = self.sums.settings, self.sums
        if form == "plugin" and len(settings.levels) > 1:
            refuse(
                "`form`='plugin' must have the probabilities of all rows, which sums do not hold",
                f"the levels {', '.join(settings.levels)}",
                "Use `form`='debiased' or 'difference'.",
            )
        result = super()._assemble(loss, form, clip)
        if self.fit is None:  # parts of a chain, its resolution form for instance
            return result
        findings = list(result.findings)
        if clip != settings.clip and settings.levels[1:]:  # sums of losses cannot be clipped after the fact
            findings.append(Finding("unclipped_levels", subject=", ".join(settings.levels[1:])))
        error = bound_quantisation(sums, self.lines, self, loss, clip)
        findings += [] if sums.exact else [_find_quantisation(result, error)]
        return ScaledDecomposition._of(
            replace(result, findings=tuple(findings)),
            quantisation_error=error,
            sums=sums,
            _total=float(sums.table["w"].sum()),
            _held=int(sums.table["n"].sum()),
        )


def _find_quantisation(result: Decomposition, error: float) -> Finding:
    """Bound on the effect of summing by cell, and a doubt if cells are too coarse."""
    least = min(result.std_error.values(), default=math.nan)
    is_coarse = error > _COARSE * result.std_error[result.names[0]] > 0.0
    kind, level = ("cells_too_coarse", 1) if is_coarse else ("quantised", None)
    return Finding(kind, level=level, value=error, facts={"share_of_error": error / least} if least > 0.0 else {})


def share_floor(whole: Decomposition) -> dict[str, float]:
    """The floor of a whole with an infinite loss, for its parts."""
    twin = whole.floored
    return {} if twin is None or twin.clip is None else {str(whole.loss): twin.clip}


def attach_parts(
    whole: _Scaled,
    kind: str,
    parts: Mapping[tuple[Any, ...], Any],
    fit: Callable[[Any], Decomposition],
    what: str = "fits by segment",
) -> _Scaled:
    """Decompose the parts of a whole, `kind` being one of `_PARTS`; what cannot be decomposed is listed with why."""
    each: dict[Any, Decomposition] = {}
    skipped: dict[Any, str] = {}
    for label, part in track(iter(parts.items()), len(parts), what):
        short = label[0] if len(label) == 1 else label
        try:
            each[short] = fit(part)
        except ScoreprismError as error:
            skipped[short] = str(error)
    if not each:
        raise InputError(f"no segment could be decomposed; the first: {next(iter(skipped.values()))}")
    together = SegmentDecompositions(next(iter(each.values())).names, None, each, skipped)
    attached: dict[str, Any] = {kind: together}
    return replace(whole, **attached)
