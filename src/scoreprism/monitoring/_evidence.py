"""
E-processes: evidence against calibration, and against a map that stays as it is, that may be looked at at every time.

All of them are likelihood ratios, computed from counts by bin: rows, events, and the sum of the scores. Where the
scores of a bin differ, the ratio of the counts is below that of the rows (log(1 + s·u) is concave in s), so that counts
never say more than rows would, and guarantees hold for them too (Ville's inequality).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from scoreprism._core.numerics import TINY
from scoreprism._core.simplex import FloatArray
from scoreprism.monitoring._alternatives import TREE_MOVES, TREES, Alternatives

#: Prior chance that a score was off from the first period on.
FROM_THE_START = 0.25
#: A context tree is started in the first period, and again after so many.
_TREE_EVERY = 30
#: Prior standard deviation of what a bin departs by from the smooth part of the map of the baseline.
_ROUGH = 0.15
#: Bends of the maps that a score may always have been off by, and the largest of their weights.
_HATS, _FARTHEST = 6, 6.0
#: Steps of Newton's method.
_NEWTON = 8


class Counts(NamedTuple):
    """Rows, events and summed scores of each period and bin, (…, T, G); and the summed squares of the scores."""

    rows: FloatArray
    events: FloatArray
    scores: FloatArray
    squares: FloatArray

    @property
    def rate(self) -> FloatArray:
        """Mean scores; one half where there are no rows."""
        half = np.full(self.rows.shape, 0.5)
        return np.asarray(np.divide(self.scores, self.rows, out=half, where=self.rows > 0.0))

    def part(self, periods: slice) -> Counts:
        """Some periods."""
        return Counts(*(one[..., periods, :] for one in self))

    def pool(self) -> Counts:
        """All periods together, (…, G)."""
        return Counts(*(one.sum(axis=-2) for one in self))


# ── likelihood ratios ───────────────────────────────────────────────────────────────────────────────


def move_rates(rate: FloatArray, moves: FloatArray) -> FloatArray:
    """Rates whose log-odds are moved."""
    return np.asarray(rate * np.exp(moves) / (1.0 + rate * np.expm1(moves)))


def log_likelihood(rows: FloatArray, events: FloatArray, rate: FloatArray, moves: FloatArray) -> FloatArray:
    """Log-likelihood ratio of bins whose log-odds are moved against bins at their rate."""
    return np.asarray(events * moves - rows * np.log1p(rate * np.expm1(moves)))


def log_ratios(alternatives: Alternatives, rows: FloatArray, events: FloatArray, rate: FloatArray) -> FloatArray:
    """Log-likelihood ratios (…, J) of all lines and stretches against the rate, from counts (…, G)."""
    where, size, _ = alternatives.stretches
    lines = alternatives.line_moves
    linear = events @ lines.T
    for j, line in enumerate(lines):  # one at a time: no temporary of lines × periods × bins
        linear[..., j] -= (rows * np.log1p(rate * np.expm1(line))).sum(axis=-1)
    used, code = np.unique(size, return_inverse=True)
    each = log_likelihood(rows[..., None], events[..., None], rate[..., None], used)
    summed = np.concatenate([np.zeros((*each.shape[:-2], 1, used.size)), each.cumsum(axis=-2)], axis=-2)
    local = summed[..., where[:, 1], code] - summed[..., where[:, 0], code]
    return np.concatenate([linear, local], axis=-1)


def log_trees(each: FloatArray) -> FloatArray:
    """
    Log of a mixture over all context trees, from the ratios of each bin and move, (…, G, H).

    A node moves by a common amount (or not at all) with probability ½, and is split with probability ½: Bayes over all
    maps that are constant on dyadic stretches of bins.
    """
    width = 1 << max(each.shape[-2] - 1, 0).bit_length()
    empty = np.zeros((*each.shape[:-2], width - each.shape[-2], each.shape[-1]))
    level = np.concatenate([each, empty], axis=-2)
    tree: FloatArray | None = None
    while True:
        own = np.logaddexp(np.log(0.5), np.log(0.5 / level.shape[-1]) + logsumexp(level, axis=-1))
        halves = own if tree is None else tree[..., ::2] + tree[..., 1::2]
        tree = own if tree is None else np.logaddexp(own, halves) + np.log(0.5)
        if level.shape[-2] == 1:
            return np.asarray(tree[..., 0])
        level = level[..., ::2, :] + level[..., 1::2, :]


# ── a score that was always calibrated ──────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class StartPrior:
    """The prior on when scores begin to be off: at once, or in each later period with a constant hazard."""

    hazard: float
    first: float = FROM_THE_START

    def until(self, periods: Any) -> FloatArray:
        """The mass of the first so many periods."""
        later = 1.0 - (1.0 - self.hazard) ** np.maximum(np.asarray(periods, dtype=np.float64) - 1.0, 0.0)
        return np.where(np.asarray(periods) > 0, self.first + (1.0 - self.first) * later, 0.0)

    def each(self, periods: int) -> FloatArray:
        """The mass of each of the first periods."""
        return np.diff(self.until(np.arange(periods + 1)))


def follow_calibration(alternatives: Alternatives, counts: Counts, prior: StartPrior) -> FloatArray:
    """
    Log E after every period, (…, T): the evidence that the scores were not all calibrated.

    A mixture of likelihood ratios over what changed and when. Where every score is calibrated given what was known
    before, E is at most a martingale that starts at 1, so that the chance that it ever reaches 1/α is at most α.
    """
    periods = counts.rows.shape[-2]
    ratios = log_ratios(alternatives, counts.rows, counts.events, counts.rate)
    simple = _mix_over_starts(ratios, prior.each(periods), np.log(alternatives.prior))
    begun = np.arange(1, periods + 1)
    blocks = np.minimum(-(-begun // _TREE_EVERY) * _TREE_EVERY, np.iinfo(np.int32).max)
    # what has not begun yet counts as calibrated
    unused = np.log((1.0 - TREES) * (1.0 - prior.until(begun)) + TREES * (1.0 - prior.until(blocks)) + TINY)
    parts = np.stack([simple, _follow_trees(counts, prior), np.broadcast_to(unused, simple.shape)])
    return np.asarray(logsumexp(parts, axis=0))


def _mix_over_starts(ratios: FloatArray, start: FloatArray, log_prior: FloatArray) -> FloatArray:
    """Log Σ_j π_j Σ_ν ω_ν Π_{t ≥ ν} LR_j(t) after every period."""
    out = np.empty(ratios.shape[:-1])
    running = np.full((*ratios.shape[:-2], ratios.shape[-1]), -np.inf)
    for t, log_start in enumerate(np.log(start + TINY)):
        running = np.logaddexp(running, log_start) + ratios[..., t, :]
        out[..., t] = logsumexp(running + log_prior, axis=-1)
    return out


def _follow_trees(counts: Counts, prior: StartPrior) -> FloatArray:
    """The same for context trees, one for each block of periods in which a change may begin."""
    periods = counts.rows.shape[-2]
    total = np.full(counts.rows.shape[:-1], -np.inf)
    for first in range(0, periods, _TREE_EVERY):
        later = counts.part(slice(first, None))
        mass = prior.until(first + _TREE_EVERY) - prior.until(first)
        log_e = np.log(TREES * mass) + log_trees(np.cumsum(move_bins(later), axis=-3))
        total[..., first:] = np.logaddexp(total[..., first:], log_e)
    return total


def follow_detector(alternatives: Alternatives, counts: Counts) -> FloatArray:
    """
    Log of the Shiryaev–Roberts sum after every period, (…, T): each start counts as 1.

    For calibrated scores its mean after t periods is at most t, so that the average number of periods until it first
    reaches c is at least c (e-detectors, Shin, Ramdas & Rinaldo 2024).
    """
    ratios = log_ratios(alternatives, counts.rows, counts.events, counts.rate)
    return _mix_over_starts(ratios, np.ones(ratios.shape[-2]), np.log(alternatives.prior / alternatives.prior.sum()))


def mix_since(ratios: FloatArray, alternatives: Alternatives) -> FloatArray:
    """Log Σ_j π_j Π_{t ≥ ν} LR_j(t) for every start ν, (T,), from the ratios of every period, (T, J)."""
    suffixes = np.cumsum(ratios[::-1], axis=0)[::-1]
    return np.asarray(logsumexp(suffixes + np.log(alternatives.prior), axis=-1))


def move_bins(counts: Counts) -> FloatArray:
    """Log-likelihood ratios of the moves of context trees, (…, T, G, H)."""
    return log_likelihood(counts.rows[..., None], counts.events[..., None], counts.rate[..., None], TREE_MOVES)


def mix_everything(simple: FloatArray, bins: FloatArray, alternatives: Alternatives) -> FloatArray:
    """Log of a mixture of a calibrated score (½) with lines and stretches, (…, J), and trees over bins, (…, G, H)."""
    tree = np.log(TREES) + log_trees(bins)
    off = np.logaddexp(logsumexp(simple + np.log(alternatives.prior), axis=-1), tree)
    return np.asarray(np.logaddexp(np.log(0.5), np.log(0.5) + off))


# ── a map that was always the same ──────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class ChangeEvidence:
    """The evidence against a constant map, and the map of the baseline."""

    log_e: FloatArray  # (T,): 0 during the baseline
    map: FloatArray  # (G,): moves of the log-odds that the baseline shows


def make_hats(alternatives: Alternatives) -> FloatArray:
    """Columns of the smooth maps that a score may always have been off by: shift, slope, and bends, (G, d)."""
    bins = np.arange(alternatives.bins)
    knots = np.linspace(0.0, max(alternatives.bins - 1, 1), _HATS)
    bends = [np.interp(bins, knots, one) for one in np.eye(_HATS)[1:-1]]
    columns = np.stack([np.ones(alternatives.bins), alternatives.place, *bends], axis=1)
    rank = np.linalg.matrix_rank(columns)
    return columns if rank == columns.shape[1] else np.eye(alternatives.bins)


def follow_change(alternatives: Alternatives, counts: Counts, prior: StartPrior, baseline: int) -> ChangeEvidence:
    """
    Log E after every period: the evidence that the map from scores to chances has changed since the baseline.

    The numerator predicts every period from those before it: by the map fitted so far until a change, then by a mixture
    of moves away from the map of the baseline. The denominator is the largest likelihood that one fixed map gives to
    all periods after the baseline, over a smooth family around that map. So the ratio is at most a likelihood ratio
    against the true map, where that is fixed and in the family (universal inference, Wasserman, Ramdas & Balakrishnan
    2020).
    """
    periods = counts.rows.shape[-2]
    log_e = np.zeros(counts.rows.shape[:-1])
    basis = make_hats(alternatives)
    first = counts.part(slice(0, baseline)).pool()
    rough = fit_rough_map(first, basis)
    if periods <= baseline:
        return ChangeEvidence(log_e, rough)
    later = counts.part(slice(baseline, None))
    rate = move_rates(later.rate, rough[..., None, :])
    ratios = log_ratios(alternatives, later.rows, later.events, rate)
    log_prior = np.log(alternatives.prior / alternatives.prior.sum())
    start = prior.each(periods - baseline)
    still = np.log(1.0 - prior.until(np.arange(1, start.size + 1)) + TINY)
    running = np.full((*ratios.shape[:-2], ratios.shape[-1]), -np.inf)
    steady = np.zeros(ratios.shape[:-2])  # log-likelihood of the maps fitted so far, against the baseline's
    known = np.zeros(steady.shape)  # log-likelihood ratio of the baseline's map
    guess, best = np.zeros((*steady.shape, basis.shape[1])), np.zeros((*steady.shape, basis.shape[1]))
    seen = Counts(*(np.zeros(one.shape) for one in first))
    base = Counts(*first)
    for t in range(start.size):
        now = Counts(*(one[..., t, :] for one in later))
        own = log_likelihood(now.rows, now.events, rate[..., t, :], guess @ basis.T).sum(axis=-1)
        known = known + log_likelihood(now.rows, now.events, now.rate, rough).sum(axis=-1)
        running = np.logaddexp(running, (np.log(start[t] + TINY) + steady)[..., None]) + ratios[..., t, :]
        steady = steady + own
        seen = Counts(*(a + b for a, b in zip(seen, now, strict=True)))
        best, most = _maximise(seen, basis, rough, best)
        numerator = np.logaddexp(logsumexp(running + log_prior, axis=-1), still[t] + steady)
        log_e[..., baseline + t] = known + numerator - most
        together = Counts(*(a + b for a, b in zip(seen, base, strict=True)))
        guess = _step(together, basis, rough, guess, ridge=1.0)
    return ChangeEvidence(log_e, rough)


def fit_rough_map(counts: Counts, basis: FloatArray) -> FloatArray:
    """Moves of the bins, (…, G): smooth ones, and departures of single bins that are shrunken towards them."""
    both = np.concatenate([basis, np.eye(basis.shape[0])], axis=1)
    ridge = np.concatenate([np.full(basis.shape[1], 1.0), np.full(basis.shape[0], _ROUGH**-2)])
    theta = np.zeros((*counts.rows.shape[:-1], both.shape[1]))
    for _ in range(_NEWTON):
        theta = _step(counts, both, np.zeros(counts.rows.shape), theta, ridge)
    return np.asarray(theta @ both.T)


def _step(
    counts: Counts, basis: FloatArray, offset: FloatArray, theta: FloatArray, ridge: FloatArray | float
) -> FloatArray:
    """One step of Newton's method, no longer than 1 in any weight."""
    return theta + np.clip(_solve(counts, basis, offset, theta, ridge)[0], -1.0, 1.0)


def _solve(
    counts: Counts, basis: FloatArray, offset: FloatArray, theta: FloatArray, ridge: FloatArray | float
) -> tuple[FloatArray, FloatArray]:
    """The step to the maximum of a parabola, and how much higher that is."""
    chance = move_rates(counts.rate, offset + theta @ basis.T)
    slope = (counts.events - counts.rows * chance) @ basis - ridge * theta
    weight = counts.rows * chance * (1.0 - chance)
    curvature = (basis.T * weight[..., None, :]) @ basis + np.eye(basis.shape[1]) * (np.asarray(ridge) + 1e-9)
    step = np.linalg.solve(curvature, slope[..., None])[..., 0]
    return step, 0.5 * (step * slope).sum(axis=-1)


def _maximise(
    counts: Counts, basis: FloatArray, offset: FloatArray, theta: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The largest log-likelihood ratio of a family of maps, from above, whatever the scores in a bin."""
    for _ in range(_NEWTON):
        step, gap = _solve(counts, basis, offset, theta, 0.0)
        theta = np.clip(theta + np.clip(step, -1.0, 1.0), -_FARTHEST, _FARTHEST)
        if float(np.max(gap, initial=0.0)) < 1e-9:
            break
    moves = offset + theta @ basis.T
    most = log_likelihood(counts.rows, counts.events, counts.rate, moves)
    spread = np.maximum(counts.squares - counts.rows * counts.rate**2, 0.0)
    u = np.expm1(moves)
    bent = (u / np.minimum(1.0, 1.0 + u)) ** 2  # at least the curvature of log(1 + s·u) for every s
    return np.asarray(theta, dtype=np.float64), np.asarray(
        (most + 0.5 * bent * spread).sum(axis=-1) + np.maximum(gap, 0.0)
    )
