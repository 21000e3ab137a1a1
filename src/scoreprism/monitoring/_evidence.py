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
from numpy.typing import NDArray

from scoreprism._core.numerics import TINY
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism.monitoring._alternatives import TREE_MOVES, TREES, Alternatives, clipped_logit

#: Prior chance that a score was off from the first period on.
FROM_THE_START = 0.25
#: A context tree is started in the first period, and again after so many.
_TREE_EVERY = 30
#: Prior standard deviation of what a bin departs by from the smooth part of the map of the baseline.
_ROUGH = 0.15
#: Knots of the smooth part of a map.
_HATS = 6
#: Steps of Newton's method.
_NEWTON = 8
#: Lengths of the windows, in periods, that are compared with all before them; long ones begin at every eighth part.
_WINDOWS, _OVERLAP = (2, 3, 4, 6, 9, 13, 19, 28, 42, 63, 94, 141, 211, 316, 474), 8
#: How much steeper than the identity a map is within a bin, in log-odds, at most.
_STEEP = 1.5
#: Share of the evidence of a change that is 1 whatever happens, so that its logarithm is finite.
_IDLE = 0.1


class Counts(NamedTuple):
    """Rows, events and summed scores of each period and bin, (…, T, G); and the summed squares of the scores."""

    rows: FloatArray
    events: FloatArray
    scores: FloatArray
    squares: FloatArray

    @property
    def rate(self) -> FloatArray:
        """Mean scores; one half where there are no rows."""
        return _divide(self.scores, self.rows)

    def part(self, periods: slice) -> Counts:
        """Some periods."""
        return Counts(*(one[..., periods, :] for one in self))

    def pool(self) -> Counts:
        """All periods together, (…, G)."""
        return Counts(*(one.sum(axis=-2) for one in self))


# ── likelihood ratios ───────────────────────────────────────────────────────────────────────────────


def move_rates(rate: FloatArray, moves: FloatArray) -> FloatArray:
    """Rates whose log-odds are moved."""
    odd = rate * np.exp(moves)
    return np.asarray(odd / (odd + (1.0 - rate)))  # never above 1


def log_likelihood(rows: FloatArray, events: FloatArray, rate: FloatArray, moves: FloatArray) -> FloatArray:
    """Log-likelihood ratio of bins whose log-odds are moved against bins at their rate."""
    return np.asarray(events * moves - rows * np.log1p(rate * np.expm1(moves)))


def sum_logs(logs: FloatArray) -> FloatArray:
    """Log of the sum of exponentials along the last axis (scipy's takes three times as long)."""
    most = logs.max(axis=-1, keepdims=True)
    return np.asarray(np.log(np.exp(logs - most).sum(axis=-1)) + most[..., 0])


def log_ratios(alternatives: Alternatives, rows: FloatArray, events: FloatArray, rate: FloatArray) -> FloatArray:
    """Log-likelihood ratios (…, J) of all lines and stretches against the rate, from counts (…, G)."""
    return _sum_ratios(alternatives, events, (rows, rate), (rows, rate))


def _sum_ratios(
    alternatives: Alternatives,
    events: FloatArray,
    up: tuple[FloatArray, FloatArray],
    down: tuple[FloatArray, FloatArray],
) -> FloatArray:
    """
    Moves times events, less rows·log(1 + rate·u), u = exp(move) − 1, summed over bins: (…, J).

    Rows and rate of the bins are those of `up` where a move is positive, otherwise those of `down`.
    """
    where, size, _ = alternatives.stretches
    lines = alternatives.line_moves
    linear = events @ lines.T
    for j, line in enumerate(lines):  # one at a time: no temporary of lines × periods × bins
        # a line changes its sign once, between one bin and the next
        for (rows, rate), bins in ((up, _slice(line > 0.0)), (down, _slice(line <= 0.0))):
            if bins is not None:
                logs = rate[..., bins] * np.expm1(line[bins])
                linear[..., j] -= np.einsum("...g,...g->...", rows[..., bins], np.log1p(logs, out=logs))
    used, code = np.unique(size, return_inverse=True)
    each = np.empty((*events.shape, used.size))
    for i, move in enumerate(used):
        rows, rate = up if move > 0.0 else down
        each[..., i] = events * move - rows * np.log1p(rate * np.expm1(move))
    summed = np.concatenate([np.zeros((*each.shape[:-2], 1, used.size)), each.cumsum(axis=-2)], axis=-2)
    local = summed[..., where[:, 1], code] - summed[..., where[:, 0], code]
    return np.concatenate([linear, local], axis=-1)


def _slice(is_in: NDArray[np.bool_]) -> slice | None:
    """Neighbours as a slice; None of none."""
    found = np.flatnonzero(is_in)
    return slice(int(found[0]), int(found[-1]) + 1) if found.size else None


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
        own = np.logaddexp(np.log(0.5), np.log(0.5 / level.shape[-1]) + sum_logs(level))
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
    return sum_logs(np.moveaxis(parts, 0, -1))


def _mix_over_starts(ratios: FloatArray, start: FloatArray, log_prior: FloatArray) -> FloatArray:
    """Log Σ_j π_j Σ_ν ω_ν Π_{t ≥ ν} LR_j(t) after every period."""
    out = np.empty(ratios.shape[:-1])
    running = np.full((*ratios.shape[:-2], ratios.shape[-1]), -np.inf)
    for t, log_start in enumerate(np.log(start + TINY)):
        running = np.logaddexp(running, log_start) + ratios[..., t, :]
        out[..., t] = sum_logs(running + log_prior)
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
    return sum_logs(suffixes + np.log(alternatives.prior))


def move_bins(counts: Counts) -> FloatArray:
    """Log-likelihood ratios of the moves of context trees, (…, T, G, H)."""
    return log_likelihood(counts.rows[..., None], counts.events[..., None], counts.rate[..., None], TREE_MOVES)


def mix_everything(simple: FloatArray, bins: FloatArray, alternatives: Alternatives) -> FloatArray:
    """Log of a mixture of a calibrated score (½) with lines and stretches, (…, J), and trees over bins, (…, G, H)."""
    tree = np.log(TREES) + log_trees(bins)
    off = np.logaddexp(sum_logs(simple + np.log(alternatives.prior)), tree)
    return np.asarray(np.logaddexp(np.log(0.5), np.log(0.5) + off))


# ── a map that was always the same ──────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class ChangeEvidence:
    """The evidence against a constant map, and the map of the baseline."""

    log_e: FloatArray  # (T,)
    map: FloatArray  # (G,): moves of the log-odds that the baseline shows


def follow_change(alternatives: Alternatives, counts: Counts, prior: StartPrior, baseline: int) -> ChangeEvidence:
    """
    Log E after every period: the evidence that the map from scores to chances has changed since the baseline.

    Windows of periods are compared with everything up to their end, bin by bin: e-values for a chance that is the same
    in both, whatever it is. E is the sum, with weights, of those that are known; it only grows, and in the end its mean
    is at most 1 if the map never changes. So it reaches 1/α with a chance of at most α (Markov's inequality).
    """
    periods = counts.rows.shape[-2]
    found = np.full(counts.rows.shape[:-1], -np.inf)
    starts = StartPrior(prior.hazard, prior.hazard)  # nothing extra on the first one
    for length in _WINDOWS:
        step = max(1, length // _OVERLAP)
        begin = np.arange(baseline, periods - length + 1, step)
        if begin.size:
            mass = starts.until(begin - baseline + step) - starts.until(begin - baseline)
            log_e = compare_windows(alternatives, counts, begin, begin + length)
            last = begin + length - 1
            share = np.log((1.0 - _IDLE) / len(_WINDOWS) * mass)
            found[..., last] = np.logaddexp(found[..., last], log_e + share)
    log_e = np.logaddexp(np.logaddexp.accumulate(found, axis=-1), np.log(_IDLE))
    basis = make_hats(alternatives)
    return ChangeEvidence(log_e, fit_rough_map(counts.part(slice(0, baseline)).pool(), basis))


def compare_windows(alternatives: Alternatives, counts: Counts, begin: IntArray, end: IntArray) -> FloatArray:
    """
    Log e-values (…, W) of windows of periods, each against all periods up to its end.

    Given how many rows and events a bin has in all, the events of the window are hypergeometric if the chance is the
    same throughout: a sum of independent indicators (Vatutin & Mikhailov 1982) whose chances have a known mean and a
    known variance. Where scores of the window are higher than those before, so may be the chance, by up to `_STEEP`
    times as much in log-odds; of all these, the e-value is the least.
    """
    upto, before = ([_sum_until(one, at) for one in counts[:3]] for at in (end, begin))
    rows, events, scores = (a - b for a, b in zip(upto, before, strict=True))
    earlier = before[0]
    shift = clipped_logit(_divide(scores, rows)) - clipped_logit(_divide(before[2], earlier))
    shift = np.where((rows > 0.0) & (earlier > 0.0), shift, 0.0)
    flat, steep = (_split_events(rows, earlier, upto[1], slope * shift) for slope in (0.0, _STEEP))
    high, low = np.maximum(flat[0], steep[0]), np.minimum(flat[0], steep[0])
    sampled = np.minimum(flat[1], steep[1])
    one, below = find_extreme_shares(high, high * (1.0 - high) * sampled)
    zero, rest = find_extreme_shares(1.0 - low, low * (1.0 - low) * sampled)
    # up: a share `one` of the indicators is certain to be 1, and their moves are taken off as events
    ratios = _sum_ratios(alternatives, events, (rows * (1.0 - one), below), (rows * (1.0 - zero), 1.0 - rest))
    ratios -= _sum_certain(alternatives, rows * one)
    return sum_logs(ratios + np.log(alternatives.prior / alternatives.prior.sum()))


def _split_events(
    rows: FloatArray, earlier: FloatArray, events: FloatArray, shift: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """
    The chance of the rows of a window, if all events are shared at this ratio of log-odds to earlier rows.

    And the variance of the chances of the indicators, as a part of chance·(1 − chance): Fisher's noncentral
    hypergeometric law, its mean by Cornfield and its variance by Levin; exact where the shift is 0.
    """
    ratio, everything = np.exp(shift), rows + earlier
    rest = everything - events
    half = 0.5 * (earlier + rows * ratio - events * (1.0 + ratio))
    root = np.sqrt(half * half + ratio * rest * events)
    # odds of earlier rows: the positive root of ratio·rest·o² + 2·half·o − events
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = np.where(half > 0.0, events / (half + root), (root - half) / (ratio * rest))
        chance, other = (np.where(np.isinf(one), 1.0, one / (1.0 + one)) for one in (odds * ratio, odds))
    chance, other = (np.where(rest > 0.0, np.where(events > 0.0, one, 0.0), 1.0) for one in (chance, other))
    own, past = rows * chance * (1.0 - chance), earlier * other * (1.0 - other)
    left = _divide(past, own + past) * everything / np.maximum(everything - 1.0, TINY)
    return np.asarray(chance), np.asarray(np.clip(1.0 - left, 0.0, 1.0))


def _sum_certain(alternatives: Alternatives, certain: FloatArray) -> FloatArray:
    """Positive moves times events that are certain, summed over bins: (…, J)."""
    return np.asarray(certain @ np.maximum(alternatives.moves, 0.0).T)


def find_extreme_shares(mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """
    The weight of 1, and the other value, of a distribution on [0, 1] of two values with a mean and a variance.

    It has the largest mean of every function whose third derivative is positive, as that of log(1 + s·u) is for u > 0,
    and the least if it is negative (Chebyshev and Markov; Karlin & Studden 1966).
    """
    rest = 1.0 - mean
    room = np.clip(variance, 0.0, mean * rest)
    one = np.asarray(room / np.maximum(room + rest * rest, TINY))
    below: FloatArray = np.maximum(mean - room / np.maximum(rest, TINY), 0.0)
    return one, below


def _sum_until(values: FloatArray, end: IntArray) -> FloatArray:
    """Sums of the first so many periods."""
    none = np.zeros((*values.shape[:-2], 1, values.shape[-1]))
    return np.asarray(np.concatenate([none, values.cumsum(axis=-2)], axis=-2)[..., end, :])


def _divide(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Shares; one half of nothing."""
    return np.asarray(np.divide(part, whole, out=np.full(part.shape, 0.5), where=whole > 0.0))


def make_hats(alternatives: Alternatives) -> FloatArray:
    """Columns of the smooth maps that a score may always have been off by: shift, slope, and bends, (G, d)."""
    bins = np.arange(alternatives.bins)
    knots = np.linspace(0.0, max(alternatives.bins - 1, 1), _HATS)
    bends = [np.interp(bins, knots, one) for one in np.eye(_HATS)[1:-1]]
    columns = np.stack([np.ones(alternatives.bins), alternatives.place, *bends], axis=1)
    rank = np.linalg.matrix_rank(columns)
    return columns if rank == columns.shape[1] else np.eye(alternatives.bins)


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
    return theta + np.clip(_solve(counts, basis, offset, theta, ridge), -1.0, 1.0)


def _solve(
    counts: Counts, basis: FloatArray, offset: FloatArray, theta: FloatArray, ridge: FloatArray | float
) -> FloatArray:
    """The step to the maximum of a parabola."""
    chance = move_rates(counts.rate, offset + theta @ basis.T)
    slope = (counts.events - counts.rows * chance) @ basis - ridge * theta
    weight = counts.rows * chance * (1.0 - chance)
    curvature = (basis.T * weight[..., None, :]) @ basis + np.eye(basis.shape[1]) * (np.asarray(ridge) + 1e-9)
    step = np.linalg.solve(curvature, slope[..., None])[..., 0]
    return np.asarray(step, dtype=np.float64)
