"""One stream of scores over time: its bins, its sums by period, and what they say at every look."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from scoreprism._core.numerics import TINY
from scoreprism._core.simplex import FloatArray
from scoreprism.losses import ProperLoss
from scoreprism.monitoring._alternatives import Alternatives
from scoreprism.monitoring._bounds import bound_reliability
from scoreprism.monitoring._evidence import (
    ChangeEvidence,
    Counts,
    StartPrior,
    compare_windows,
    follow_calibration,
    follow_change,
    follow_detector,
    log_likelihood,
    log_ratios,
    mix_everything,
    mix_since,
    move_bins,
    move_rates,
)
from scoreprism.monitoring._periods import PeriodSums

#: Share of the error rate of bounds that is spent on those from the first period on; the rest is for later starts.
_FROM_FIRST = 0.5
#: Steps of Newton's method for a line.
_NEWTON = 20


class Since(NamedTuple):
    """When scores began to be off, by Bayes: the likeliest period, and the ends of a set of 90 %, by their numbers."""

    start: int
    first: int
    last: int


class Line(NamedTuple):
    """Shift and slope (per standard deviation of the logit) of a line in the log-odds, with ends for every look."""

    value: FloatArray
    low: FloatArray
    high: FloatArray
    weight: FloatArray  # how much each moves the log-odds of a row, root mean square


@dataclass(frozen=True, eq=False)
class Stream:
    """
    Scores that are followed: all rows or one segment; the event, or one class of several.

    Attributes
    ----------
    alternatives : Alternatives
        Bins, and the maps that calibration is weighed against.
    prior : StartPrior
        When scores may begin to be off.
    baseline : int
        Number of first periods that show how it always was.
    sums : tuple of PeriodSums
        A period each.
    """

    alternatives: Alternatives
    prior: StartPrior
    baseline: int
    sums: tuple[PeriodSums, ...] = field(default_factory=tuple)

    @cached_property
    def counts(self) -> Counts:
        """Counts of all periods, (T, G)."""
        return Counts(*(np.stack(column) for column in zip(*(one.counts for one in self.sums), strict=True)))

    @cached_property
    def log_calibration(self) -> FloatArray:
        """Log E after every period: evidence that not all scores were calibrated."""
        return follow_calibration(self.alternatives, self.counts, self.prior)

    @cached_property
    def log_detector(self) -> FloatArray:
        """The same for a detector with an average run length."""
        return follow_detector(self.alternatives, self.counts)

    @cached_property
    def change(self) -> ChangeEvidence:
        """Log E after every period: evidence that the map from scores to chances has changed since the baseline."""
        return follow_change(self.alternatives, self.counts, self.prior, self.baseline)

    @cached_property
    def _sums_of_ratios(self) -> tuple[FloatArray, FloatArray]:
        """Log-likelihood ratios summed over the first periods, none included: (T + 1, J) and (T + 1, G, H)."""
        ratios = log_ratios(self.alternatives, self.counts.rows, self.counts.events, self.counts.rate)
        both = (ratios, move_bins(self.counts))
        simple, bins = (np.concatenate([np.zeros((1, *one.shape[1:])), one.cumsum(axis=0)]) for one in both)
        return simple, bins

    def find_start(self, *, after_baseline: bool = False) -> Since:
        """When scores began to be off, or the map changed after the baseline, by the last look."""
        begin, periods = self.baseline if after_baseline else 0, len(self.sums)
        if after_baseline:
            starts = np.arange(begin, periods)
            logs = compare_windows(self.alternatives, self.counts, starts, np.full(starts.size, periods))
        else:
            ratios = log_ratios(self.alternatives, self.counts.rows, self.counts.events, self.counts.rate)
            logs = mix_since(ratios, self.alternatives) + np.log(self.prior.each(periods) + TINY)
        held = np.cumsum(np.exp(logs - logsumexp(logs)))
        first, last = (int(np.searchsorted(held, level)) for level in (0.05, 0.95))
        return Since(begin + int(logs.argmax()), begin + first, begin + min(last, logs.size - 1))

    def _need(self, alpha: float, start: int, until: int) -> float:
        """The log-likelihood that the true map has, but for a chance of α over all starts and looks."""
        simple, bins = (one[until] - one[start] for one in self._sums_of_ratios)
        share = _FROM_FIRST if start == 0 else (1.0 - _FROM_FIRST) * float(self.prior.each(start + 1)[-1])
        return float(mix_everything(simple, bins, self.alternatives)) + float(np.log(alpha * share))

    def bound(self, loss: ProperLoss, alpha: float, start: int = 0, until: int | None = None) -> tuple[float, float]:
        """Bounds of the reliability from a period on, that hold at every look and for every start at once."""
        end = len(self.sums) if until is None else until
        pooled = self.counts.part(slice(start, end)).pool()
        if not pooled.rows.any():
            return 0.0, float("inf")
        return bound_reliability(pooled, self._need(alpha, start, end), loss.divergence)

    def fit_line(self, alpha: float, start: int) -> Line:
        """The line that explains the periods from a start on."""
        pooled = self.counts.part(slice(start, None)).pool()
        basis = np.stack([np.ones(self.alternatives.bins), self.alternatives.place], axis=1)
        theta, curvature = np.zeros(2), np.eye(2)
        for _ in range(_NEWTON):
            chance = move_rates(pooled.rate, basis @ theta)
            weight = pooled.rows * chance * (1.0 - chance)
            curvature = (basis.T * weight) @ basis + 1e-9 * np.eye(2)
            theta = theta + np.clip(np.linalg.solve(curvature, (pooled.events - pooled.rows * chance) @ basis), -1, 1)
        reached = float(log_likelihood(pooled.rows, pooled.events, pooled.rate, basis @ theta).sum())
        room = max(reached - self._need(alpha, start, len(self.sums)), 0.0)
        reach = np.sqrt(2.0 * room * np.diag(np.linalg.inv(curvature)))
        moved = np.sqrt((pooled.rows @ basis**2) / pooled.rows.sum())
        return Line(theta, theta - reach, theta + reach, moved)
