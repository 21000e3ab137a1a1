"""Drift: how the terms of a loss changed between periods, with intervals and tests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from scoreprism._core.checks import abbreviate, parse_choice, parse_confidence, refuse, write_plain
from scoreprism._core.labels import sort_key
from scoreprism._document.result import TermTable
from scoreprism._findings.finding import Finding
from scoreprism._findings.wording import plural, write_fixed
from scoreprism._kernels.holm import MARKED, holm
from scoreprism._kernels.term_intervals import ROLES, Interval, TermInference, quantile, tail
from scoreprism.decomposition import Decomposition, SegmentDecompositions
from scoreprism.scale._shift import LineTable, Shifts, assess_maps, split_change


@dataclass(frozen=True, eq=False, repr=False)
class Drift(LineTable):
    """
    Changes of a loss and of its terms between periods whose rows are independent.

    Made by ``decompose(…, time=…).drift()`` and `Sums.drift`. The changes of the terms add up to that of the loss.

    Attributes
    ----------
    names : tuple of str
        Terms in order.
    periods : SegmentDecompositions
        One decomposition per period, each with its own C.
    pairs : tuple of pairs
        Each period that is compared, and the one it is compared with.
    baseline : object
        "previous", "first" or the period that all others are compared with.

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
    >>> bool(drift.interval("reliability", 2).low > 0), bool(drift.pvalues("reliability")[2] < 0.001)
    (True, True)
    """

    periods: SegmentDecompositions
    pairs: tuple[tuple[Any, Any], ...]
    baseline: Any = "previous"
    BASELINES: ClassVar = ("previous", "first")  # rules for what a period is compared with
    LOSS: ClassVar = "loss"  # the loss itself, among the terms

    @classmethod
    def of(cls, periods: SegmentDecompositions, baseline: Any = "previous") -> Drift:
        """
        Compare periods with each other; rows without a period are left out.

        Parameters
        ----------
        periods : SegmentDecompositions
            One decomposition per period.
        baseline : {"previous", "first"} or period, default="previous"
            What each period is compared with: the one before, the first, or one that is named.

        Returns
        -------
        Drift
            Changes with intervals.
        """
        labels = sorted((label for label in periods.decompositions if label is not None), key=sort_key)
        if len(labels) < 2:
            left = f", {len(periods.skipped)} left out" if periods.skipped else ""
            refuse("drift must have at least two periods", f"{len(labels)}{left}", "Add the sums of further periods.")
        return cls(periods.names, periods._backend, periods, tuple(_pair_periods(labels, baseline)), baseline)

    @property
    def floored(self) -> Drift | None:
        """The same with scores kept away from 0 and 1, if the loss of a period is infinite; otherwise None."""
        twins = self.periods.floored
        return None if twins is None else Drift(self.names, self._backend, twins, self.pairs, self.baseline)

    def _twin(self) -> TermTable | None:
        return self.floored

    @property
    def terms(self) -> dict[str, float]:
        """Change of each term from the first to the last period that is compared."""
        ordered = sorted({label for pair in self.pairs for label in pair}, key=sort_key)
        first, last = self.periods[ordered[0]], self.periods[ordered[-1]]
        return {name: last.terms[name] - first.terms[name] for name in self.names}

    def change(self, term: str, period: Any) -> float:
        """
        Change of a term in one period.

        Parameters
        ----------
        term : str
            One of `names`, or "loss".
        period : object
            A period that is compared.

        Returns
        -------
        float
            The term in this period minus the term in the one it is compared with.
        """
        after, before = self._bracket_both(term, period)
        return after.value - before.value

    def interval(self, term: str, period: Any, confidence_level: float = 0.95) -> Interval:
        """
        Interval of the change of a term in one period.

        Parameters
        ----------
        term : str
            One of `names`, or "loss".
        period : object
            A period that is compared.
        confidence_level : float, default=0.95
            Confidence level.

        Returns
        -------
        Interval
            From the intervals of both periods; for this change alone, not adjusted for the number of periods.
        """
        after, before = self._bracket_both(term, period)
        confidence = parse_confidence(confidence_level)
        low, high = _combine_ends(after, before, quantile(confidence, two_sided=True))
        return Interval(low, high, confidence, "clt" if term == Drift.LOSS else "from both intervals (MOVER)")

    def pvalues(self, term: str = "reliability", *, adjusted: bool = True) -> dict[Any, float]:
        """
        Evidence that a term has changed, in each period that is compared.

        Parameters
        ----------
        term : str, default="reliability"
            One of `names`, or "loss".
        adjusted : bool, default=True
            By Holm's method, over the periods.

        Returns
        -------
        dict
            Period → p-value: one minus the level at which the interval reaches 0.
        """
        raw = {after: _find_pvalue(*self._bracket_both(term, after)) for after, _ in self.pairs}
        return dict(zip(raw, holm(list(raw.values())), strict=True)) if adjusted else raw

    def mix(self, confidence_level: float = 0.95) -> Shifts:
        """
        Split the change of the loss into that from other scores and that from other outcomes at the same score.

        Parameters
        ----------
        confidence_level : float, default=0.95
            Confidence level.

        Returns
        -------
        Shifts
            ``mix``: the change if P(Y | S) were still that of the baseline, at the scores of this period.
            ``outcomes``: the rest, 0 if P(Y | S) has not changed. They add up to the change of the loss. Scores outside
            the range of the baseline are treated as the nearest ones within it.
        """
        return split_change(self.periods, self.pairs, confidence_level)

    def stale(self, confidence_level: float = 0.95) -> Shifts:
        """
        Assess recalibration maps that were fitted in the baseline.

        Parameters
        ----------
        confidence_level : float, default=0.95
            Confidence level.

        Returns
        -------
        Shifts
            ``gains``: by how much the baseline's map still lowers the loss, negative where it does harm. ``loses``: the
            reliability of the recalibrated scores, which a map fitted now would save; it includes the noise of the map,
            and so is not quite 0 where nothing changed.
        """
        return assess_maps(self.periods, self.pairs, confidence_level)

    def _bracket_both(self, term: str, period: Any) -> tuple[TermBracket, TermBracket]:
        name = parse_choice(term, (*self.names, Drift.LOSS), "term")
        before = [base for after, base in self.pairs if after == period]
        if not before:
            known = abbreviate(write_plain(after) for after, _ in self.pairs)
            refuse(f"the period must be one of {known}", write_plain(period), "Other periods are not compared.")
        return _bracket(self.periods[period], name), _bracket(self.periods[before[0]], name)

    # ── tables ──────────────────────────────────────────────────────────────────────────────────────

    def _lines(self) -> list[dict[str, Any]]:
        terms = (Drift.LOSS, *self.names)
        raw = {name: self.pvalues(name, adjusted=False) for name in terms}
        adjusted = {name: self.pvalues(name) for name in terms}
        lines: list[dict[str, Any]] = []
        for after, before in self.pairs:
            for name in terms:
                now, base = self._bracket_both(name, after)
                interval = self.interval(name, after)
                values = {"before": base.value, "after": now.value, "change": now.value - base.value}
                ends = {"low": interval.low, "high": interval.high}
                tests = {"p": raw[name][after], "p_holm": adjusted[name][after]}
                lines.append({"period": after, "baseline": before, "term": name, **values, **ends, **tests})
        return lines

    def _decimals(self) -> int:
        return max(d._decimals() or 5 for d in self.periods.decompositions.values())

    def _shown_columns(self) -> dict[str, list[Any]]:
        """One line for each period, for readers."""
        columns: dict[str, list[Any]] = {
            "period": [str(after) for after, _ in self.pairs],
            "baseline": [str(before) for _, before in self.pairs],
            "rows": [self.periods[after].n for after, _ in self.pairs],
        }
        for name in (Drift.LOSS, *self.names):
            tests = self.pvalues(name)
            columns[f"Δ {name}"] = [_write_change(self, name, after, tests[after]) for after, _ in self.pairs]
        return columns

    def _kinds(self) -> Mapping[str, str]:
        return {f"Δ {name}": "number" for name in (Drift.LOSS, *self.names)}  # intervals are not wrapped

    def to_dict(self) -> dict[str, Any]:
        """
        Everything as plain Python objects.

        Returns
        -------
        dict
            The loss, what is compared with what, one entry for each period and term, and what was left out.
        """
        first = next(iter(self.periods.decompositions.values()))
        return {
            "loss": str(first.loss),
            "baseline": self.baseline,
            "names": list(self.names),
            "changes": self._lines(),
            "skipped": {str(period): why for period, why in self.periods.skipped.items()},
        }

    def _title(self) -> str:
        first = next(iter(self.periods.decompositions.values()))
        words = {"previous": "the period before", "first": "the first period"}
        mark = f", {first._mark}" if first._mark else ""
        which = words.get(str(self.baseline), f"period {write_plain(self.baseline)}")
        return f"{first.loss!s} loss, changes from {which}{mark}"

    def _footer(self) -> list[str]:
        count = plural(len(self.pairs), "change")
        return [f"In brackets: 95 % intervals, each by itself; *: p < {MARKED:g} by Holm's method over {count}."]

    def _findings(self) -> Sequence[Finding]:
        skipped = self.periods.skipped.items()
        return [Finding("left_out", subject=f"period {one}", facts={"reason": why}) for one, why in skipped]


def _write_change(drift: Drift, name: str, period: Any, pvalue: float) -> str:
    """A change with its interval, and a star where it is significant."""
    value = drift.change(name, period)
    if not math.isfinite(value):
        return "–"
    interval, d = drift.interval(name, period), drift._decimals()
    low, high = (write_fixed(end, d, "+") for end in (interval.low, interval.high))
    return f"{write_fixed(value, d, '+')}{'*' if pvalue < MARKED else ''} ({low} to {high})"


# ── intervals of a change ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class TermBracket:
    """An estimate and the reach of its interval; for the loss itself, `inference` is None."""

    value: float
    error: float
    inference: TermInference | None = None

    def find_distances(self, z: float) -> tuple[float, float]:
        """Distances of the ends of the interval below and above the estimate; NaN stays NaN."""
        if self.inference is None:
            return z * self.error, z * self.error
        ends = np.array([self.inference.low(z, any_shape=True), self.inference.high(z, any_shape=True)])
        low, high = np.maximum(ends, 0.0) if ROLES[self.inference.role].nonnegative else ends
        return float(np.maximum(self.value - low, 0.0)), float(np.maximum(high - self.value, 0.0))


def _bracket(result: Decomposition, name: str) -> TermBracket:
    if name == Drift.LOSS:
        steps = dict.fromkeys(range(len(result.level_names)), 1.0)
        return TermBracket(result.risk, result._moments.std_error(steps))
    return TermBracket(result.terms[name], result.std_error[name], result._inference(name))


def _combine_ends(after: TermBracket, before: TermBracket, z: float) -> tuple[float, float]:
    """Ends of the interval of a difference of two independent estimates (MOVER; Zou and Donner 2008)."""
    # ends of reliabilities are cut at 0: uncut ones would always cover, with intervals 40 % wider (docs/scale.md)
    with np.errstate(invalid="ignore"):
        change = float(np.subtract(after.value, before.value))  # two infinite losses have no difference
    (below, above), (base_below, base_above) = after.find_distances(z), before.find_distances(z)
    return change - math.hypot(below, base_above), change + math.hypot(above, base_below)


#: Beyond this many standard errors a p-value is 0 in double precision.
_FAR = 38.5


def _find_pvalue(after: TermBracket, before: TermBracket) -> float:
    """One minus the confidence at which the interval reaches 0, by bisection."""
    low, high = _combine_ends(after, before, 0.0)
    if not (math.isfinite(low) and math.isfinite(high)):
        return math.nan
    if low <= 0.0 <= high:
        return 1.0
    inside, outside = _FAR, 0.0
    for _ in range(60):
        middle = 0.5 * (inside + outside)
        low, high = _combine_ends(after, before, middle)
        if low <= 0.0 <= high:
            inside = middle
        else:
            outside = middle
    return 2.0 * tail(inside)


# ── what is compared with what ──────────────────────────────────────────────────────────────────────


def _pair_periods(labels: Sequence[Any], baseline: Any) -> list[tuple[Any, Any]]:
    if isinstance(baseline, str) and baseline in Drift.BASELINES and baseline not in labels:
        bases = labels[:-1] if baseline == "previous" else [labels[0]] * (len(labels) - 1)
        return list(zip(labels[1:], bases, strict=True))
    if baseline not in labels:
        rule = (
            f"baseline must be one of {', '.join(Drift.BASELINES)}, or a period: {abbreviate(map(write_plain, labels))}"
        )
        refuse(rule, write_plain(baseline), "Write a period as in `periods`.")
    return [(label, baseline) for label in labels if label != baseline]
