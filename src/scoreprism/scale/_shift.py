"""Why a loss changed between periods: other scores or another P(Y | S); and what the baseline's map loses now."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from scoreprism._core.checks import parse_confidence
from scoreprism._core.simplex import FloatArray, IntArray, clip_law
from scoreprism._document.result import TermTable
from scoreprism._findings.finding import Finding
from scoreprism._findings.wording import write_percent
from scoreprism._fitting.fitted_laws import CellFits
from scoreprism._kernels.term_intervals import quantile
from scoreprism._sample.level import Level
from scoreprism.decomposition import Chain, Decomposition
from scoreprism.losses import ProperLoss
from scoreprism.scale._sums_to_sample import find_beyond

if TYPE_CHECKING:
    from scoreprism.scale._sums import Sums

#: Most strata of the baseline's scores, and fewest of its rows in each.
STRATA, STRATUM_ROWS = 200, 30
#: Share of scores beyond those of the baseline from which a finding reports it.
UNREACHED = 0.005


class LineTable(TermTable):
    """A table that is made, and written to JSON, line by line."""

    @abstractmethod
    def _lines(self) -> list[dict[str, Any]]:
        """The lines, with the same keys in each."""

    def _columns(self) -> dict[str, list[Any]]:
        lines = self._lines()
        return {key: [line[key] for line in lines] for key in lines[0]}


@dataclass(frozen=True, eq=False, repr=False)
class Shifts(LineTable):
    """
    Parts of a change between periods, each with an interval: a line for each period and part.

    Made by `Drift.mix` and `Drift.stale`.

    Attributes
    ----------
    names : tuple of str
        The parts.
    pairs : tuple of pairs
        Each period, and the one it is compared with.
    value, std_error, low, high : dict of str to array
        By part, an entry for each pair.
    confidence_level : float
        Confidence level of the intervals.
    findings : tuple of Finding
        Limits of the numbers.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> from scoreprism import scale
    >>> rng = np.random.default_rng(0)
    >>> late = np.arange(8000) >= 4000
    >>> p = np.where(late, rng.beta(1.0, 2.0, 8000), rng.beta(2.0, 2.0, 8000))
    >>> rows = pl.DataFrame({"y": (rng.random(8000) < p).astype(int), "p": p, "half": np.where(late, 2, 1)})
    >>> mix = scale.decompose(rows, target="y", score="p", time="half", loss="brier").drift().mix()
    >>> bool(mix.high["mix"][0] < 0), bool(mix.low["outcomes"][0] < 0 < mix.high["outcomes"][0])
    (True, True)
    """

    pairs: tuple[tuple[Any, Any], ...]
    value: dict[str, FloatArray]
    std_error: dict[str, FloatArray]
    low: dict[str, FloatArray]
    high: dict[str, FloatArray]
    confidence_level: float
    _heading: str
    findings: tuple[Finding, ...] = ()

    @property
    def terms(self) -> dict[str, float]:
        """Each part in the last period."""
        return {name: float(self.value[name][-1]) for name in self.names}

    def _lines(self) -> list[dict[str, Any]]:
        numbers = {"value": self.value, "low": self.low, "high": self.high}
        return [
            {"period": after, "baseline": before, "part": name}
            | {key: float(by_part[name][i]) for key, by_part in numbers.items()}
            for i, (after, before) in enumerate(self.pairs)
            for name in self.names
        ]

    def to_dict(self) -> dict[str, Any]:
        """
        Everything as plain Python objects.

        Returns
        -------
        dict
            The confidence level, one entry for each period and part, and findings.
        """
        return {
            "confidence_level": self.confidence_level,
            "parts": self._lines(),
            "findings": [one.to_dict() for one in self.findings],
        }

    def _title(self) -> str:
        return self._heading

    def _footer(self) -> list[str]:
        return [f"low, high: {write_percent(self.confidence_level)} intervals"]

    def _findings(self) -> Sequence[Finding]:
        return self.findings


def _make_shifts(
    first: Decomposition,
    what: str,
    pairs: Any,
    lines: Sequence[Mapping[str, tuple[float, ...]]],
    confidence_level: float,
    findings: tuple[Finding, ...] = (),
) -> Shifts:
    """Make columns of lines that hold (value, standard error, low, high) for each part; `first` is any period."""
    names, mark = tuple(lines[0]), f", {first._mark}" if first._mark else ""
    value, error, low, high = ({name: np.array([line[name][j] for line in lines]) for name in names} for j in range(4))
    heading = f"{first.loss!s} loss{what}{mark}"
    return Shifts(names, None, tuple(pairs), value, error, low, high, confidence_level, heading, findings)


# ── the mix of scores and the law ───────────────────────────────────────────────────────────────────


def split_change(periods: Any, pairs: Any, confidence_level: float) -> Shifts:
    """Split the change of the loss into that from other scores and that from another P(Y | S)."""
    confidence = parse_confidence(confidence_level)
    first = next(iter(periods.decompositions.values()))
    lines = [_split(periods[after], periods[before], first.loss, confidence) for after, before in pairs]
    findings = [
        Finding("unreached_scores", value=share, facts={"after": str(after), "before": str(before)})
        for after, before in pairs
        if (share := _measure_unreached(periods[after].sums.table, periods[before].sums.table)) > UNREACHED
    ]
    what = ", change from the mix of scores and from outcomes at the same score"
    return _make_shifts(first, what, pairs, lines, confidence, tuple(findings))


def _measure_unreached(now: Mapping[str, FloatArray], base: Mapping[str, FloatArray]) -> float:
    """Share of the weight at scores (or in cells) beyond those of the baseline."""
    beyond = (now["key"] < base["key"].min()) | (now["key"] > base["key"].max())
    return float(now["w"][beyond].sum() / now["w"].sum())


def _split(after: Any, before: Any, loss: ProperLoss, confidence_level: float) -> dict[str, tuple[float, ...]]:
    """Parts mix = Σ(p₁ − p₀)m₀ and outcomes = R₁ − Σp₁m₀, by shares p and mean losses m of strata (Kitagawa 1955)."""
    if not (np.isfinite(after.risk) and np.isfinite(before.risk)):
        return dict.fromkeys(("mix", "outcomes"), (np.nan,) * 4)
    edges = _cut_strata(before.sums.table["key"], before.sums.table["n"])
    old = Strata.of(before.sums, loss, edges, before.clip)
    new = Strata.of(after.sums, loss, edges, after.clip)
    ratio = new.share / old.share
    expected = float(new.share @ old.mean)
    outcomes = float(new.share @ new.mean) - expected
    mix = expected - float(old.share @ old.mean)
    change = new.mean - old.mean - outcomes
    own = new.within + new.square * change**2 + 2.0 * new.cross * change
    outcomes_variance = own.sum() / new.total**2 + (ratio**2 * old.within).sum() / old.total**2
    there = new.square * (old.mean - expected) ** 2
    tilt, above = ratio - 1.0, old.mean - float(old.share @ old.mean)
    here = tilt**2 * old.within + old.square * above**2 - 2.0 * tilt * above * old.cross
    mix_variance = there.sum() / new.total**2 + here.sum() / old.total**2
    return {
        "mix": _bracket(mix, mix_variance, confidence_level),
        "outcomes": _bracket(outcomes, outcomes_variance, confidence_level),
    }


def _bracket(value: float, variance: float, confidence_level: float) -> tuple[float, ...]:
    error = float(np.sqrt(variance))
    margin = quantile(confidence_level, two_sided=True) * error
    return value, error, value - margin, value + margin


def _cut_strata(key: FloatArray, counts: FloatArray) -> FloatArray:
    """Lower edges of strata that hold about the same number of rows of the baseline."""
    scores, group = np.unique(key, return_inverse=True)
    rows = np.bincount(group, counts)
    least = max(STRATUM_ROWS, float(rows.sum()) / STRATA)
    edges, size = [], np.inf
    for score, more in zip(scores.tolist(), rows.tolist(), strict=True):
        if size >= least:
            edges.append(score)
            size = 0.0
        size += more
    return np.array(edges if size >= least or len(edges) == 1 else edges[:-1])  # the last may be too small


@dataclass(frozen=True)
class Strata:
    """Moments of a loss by stratum: shares, means, Σw²(ℓ − mean)², Σw², Σw²(ℓ − mean)."""

    total: float
    share: FloatArray
    mean: FloatArray
    within: FloatArray
    square: FloatArray
    cross: FloatArray

    @staticmethod
    def of(sums: Sums, loss: ProperLoss, edges: FloatArray, clip: float | None) -> Strata:
        table = sums.table
        place: IntArray = np.clip(np.searchsorted(edges, table["key"], side="right") - 1, 0, None)

        def add_up(values: FloatArray) -> FloatArray:
            return np.bincount(place, values, edges.size).astype(np.float64)

        a, b, d = (add_up(values) for values in _find_loss_moments(sums, loss, clip))
        w, w2 = add_up(table["w"]), add_up(table["w2"])
        total = float(w.sum())
        mean = np.divide(a, w, out=np.zeros(edges.size), where=w > 0.0)
        cross = b - mean * w2
        within = np.maximum(d - 2.0 * mean * b + mean**2 * w2, 0.0)
        return Strata(total, w / total, mean, within, w2, cross)


def _find_loss_moments(sums: Sums, loss: ProperLoss, clip: float | None) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Σwℓ, Σw²ℓ and Σw²ℓ² of the score, by group; at the mean score if the engine did not sum them at this clip."""
    table, settings = sums.table, sums.settings
    known = {str(one): i for i, one in enumerate(settings.losses)}
    i = known.get(str(loss))
    summed = None if i is None or f"a{i}0" not in table else (table[f"a{i}0"], table[f"b{i}0"], table[f"d{i}00"])
    if summed is not None and clip == settings.clip:
        return summed
    score = table["key"] if sums.exact else np.clip(table["s"] / table["w"], table["lo"], table["hi"])
    value = loss.evaluate(clip_law(score, clip), table["y"].astype(np.intp))
    own = table["w"] * value, table["w2"] * value, table["w2"] * value**2
    if summed is None or clip is None:
        return own
    is_beyond = find_beyond(sums, clip)
    a, b, d = (np.where(is_beyond, at_score, by_engine) for at_score, by_engine in zip(own, summed, strict=True))
    return a, b, d


# ── a map that was fitted in the baseline ───────────────────────────────────────────────────────────


def assess_maps(periods: Any, pairs: Any, confidence_level: float) -> Shifts:
    """Find what the map of the baseline still gains, and what it loses to a map of this period."""
    confidence = parse_confidence(confidence_level)
    first = periods[pairs[0][0]]
    chains = [(periods[after].chain, periods[before].chain) for after, before in pairs]
    lines = [_assess_map(now, base, first.loss, first.clip, confidence) for now, base in chains]
    return _make_shifts(first, " of scores recalibrated by the map of the baseline", pairs, lines, confidence)


def _assess_map(
    now: Chain, base: Chain, loss: ProperLoss, clip: float | None, confidence_level: float
) -> dict[str, tuple[float, ...]]:
    """Treat the baseline's map, the mean of its fold models, as given probabilities at the scores of this period."""
    fits = base.levels[1].fits
    assert isinstance(fits, CellFits)  # noqa: S101 - sums have cells
    law = Level.of("B", fits.at(now.sample.prediction))
    loses = Chain.of(now.sample, (law, now.levels[1])).decompose(loss, "debiased", clip=clip)
    gains = Chain.of(now.sample, (now.levels[0], law)).decompose(loss, "difference", clip=clip)
    bracket = loses.interval("reliability", confidence_level)
    gain, error = gains.terms["reliability"], gains.std_error["reliability"]
    return {
        "gains": _bracket(gain, error**2, confidence_level),
        "loses": (loses.terms["reliability"], loses.std_error["reliability"], bracket.low, bracket.high),
    }
