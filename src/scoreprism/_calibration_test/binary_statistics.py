"""Statistics of miscalibration for two classes, each evaluated on a whole block of outcomes at once.

A statistic is prepared from scores and weights, then called with outcomes of shape (m, lines): the observed ones, or
m draws Y* ~ Bernoulli(S). A line is a row, or several rows of one score and weight, whose outcomes are added up.
Only the call sees outcomes, so Monte-Carlo p-values are exact. Statistics need not handle outcomes to which their
score gives probability 0: `simulate` makes every statistic infinite there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scoreprism._calibration_test.null_draws import Statistic
from scoreprism._calibration_test.score_lines import ScoreLines
from scoreprism._core.numerics import EDGE, REACHED, cube, log_odds, sigmoid, softplus
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._kernels.isotonic import isotonic_blocks, run_starts
from scoreprism._maps.spline_basis import HARRELL_KNOTS

#: Knots of the natural spline.
_KNOTS = 5
#: Newton steps at most. From the identity three or four are enough, unless the likelihood has no maximum.
_STEPS = 100
#: A fit ends where the Newton decrement is below this.
_ENOUGH = 1e-10
#: Ridge of whitened coefficients: nothing where a maximum exists, and keeps a separated fit from running away.
_RIDGE = 1e-10


# ── likelihood ratios ───────────────────────────────────────────────────────────────────────────────────


def whiten(design: FloatArray, variance: FloatArray) -> FloatArray:
    """The columns of a design made orthonormal in the information of the identity; dependent ones are dropped."""
    scale = np.sqrt(variance @ design**2)
    scaled = design[:, scale > 0] / scale[scale > 0]
    if scaled.shape[1] == 0:
        return np.zeros((design.shape[0], 0))
    _, size, turn = np.linalg.svd(scaled * np.sqrt(variance)[:, None], full_matrices=False)
    varying = size > 1e-7 * size[0]
    whitened: FloatArray = scaled @ (turn[varying].T / size[varying])
    return whitened


@dataclass(frozen=True)
class LikelihoodRatio:
    """
    2·[sup_θ ℓ(θ) − ℓ(0)] of P(Y=1 | S) = σ(logit S + x(S)·θ): the deviance that recalibration takes away in sample.

    Scores of exactly 0 or 1 stay where they are under every θ, so their rows add nothing; others are seen no closer
    than 1e-12 to them.
    """

    inside: IntArray
    offset: FloatArray
    weight: FloatArray  # of a row
    mass: FloatArray  # of all rows of a line
    design: FloatArray
    products: FloatArray

    def __call__(self, y: FloatArray) -> FloatArray:
        return 2.0 * self._gain(y if self.inside.size == y.shape[1] else y[:, self.inside])

    def _gain(self, y: FloatArray) -> FloatArray:
        """The largest gain in log-likelihood of every line, by Newton's method with halved steps."""
        m, p = y.shape[0], self.design.shape[1]
        if p == 0:
            return np.zeros(m)
        events = (y * self.weight) @ self.design
        base, expected, curvature = self._identity
        slope = events - expected
        step = np.linalg.solve(curvature, slope.T).T
        theta, best = np.zeros((m, p)), np.zeros(m)
        active = np.flatnonzero((step * slope).sum(axis=1) >= _ENOUGH)
        for _ in range(_STEPS):
            if active.size == 0:
                break
            trial = theta[active] + step[active]
            value, slope, curvature = self._look(trial, events[active], base)
            better = value >= best[active] - _ENOUGH
            moved = active[better]
            theta[moved], best[moved] = trial[better], np.maximum(best[moved], value[better])
            newton = np.linalg.solve(curvature[better], slope[better][..., None])[..., 0]
            promise = (newton * slope[better]).sum(axis=1)
            step[moved] = newton
            step[active[~better]] *= 0.5
            small = np.abs(step[active]).max(axis=1) < 1e-12
            small[better] |= promise < _ENOUGH
            active = active[~small]
        return best

    @cached_property
    def _identity(self) -> tuple[float, FloatArray, FloatArray]:
        """Where every fit starts, whatever the outcomes: the loss, the expected events and the negative curvature."""
        p, fitted = self.design.shape[1], sigmoid(self.offset)
        curvature = ((fitted * (1.0 - fitted)) @ self.products).reshape(p, p) + _RIDGE * np.eye(p)
        return float(self.mass @ softplus(self.offset)), (fitted * self.mass) @ self.design, curvature

    def _look(self, theta: FloatArray, events: FloatArray, base: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Gain over the identity, its slope and its negative curvature at θ."""
        m, p = theta.shape
        eta = theta @ self.design.T
        eta += self.offset
        decay = np.exp(-np.abs(eta))
        loss, fitted = softplus(eta, decay), sigmoid(eta, decay)
        value = (events * theta).sum(axis=1) - (loss @ self.mass - base) - 0.5 * _RIDGE * (theta**2).sum(axis=1)
        slope = events - (fitted * self.mass) @ self.design - _RIDGE * theta
        fitted *= 1.0 - fitted
        curvature = (fitted @ self.products).reshape(m, p, p) + _RIDGE * np.eye(p)
        return value, slope, curvature


def _likelihood_ratio(data: ScoreLines, *, bends: bool) -> LikelihoodRatio:
    inside = np.flatnonzero((data.law > 0.0) & (data.law < 1.0))
    s, weight, size = np.clip(data.law[inside], EDGE, 1.0 - EDGE), data.weight[inside], data.size[inside]
    mass = weight * size
    logit = log_odds(s)
    columns = [np.ones(inside.size), logit, *(_bends(logit, size) if bends else ())]
    information = mass * s * (1.0 - s)
    design = whiten(np.column_stack(columns), information)
    products = (design[:, :, None] * design[:, None, :]).reshape(inside.size, design.shape[1] ** 2) * mass[:, None]
    return LikelihoodRatio(inside, logit, weight, mass, design, products)


def _bends(x: FloatArray, size: FloatArray) -> list[FloatArray]:
    """What a natural cubic spline adds to a line: truncated cubes that are straight beyond the outer knots."""
    knots = np.unique(np.quantile(np.repeat(x, size.astype(np.intp)), HARRELL_KNOTS[_KNOTS])) if x.size else x
    if knots.size < 3 or np.ptp(knots) < 1e-9:
        return []
    t, knots = (x - knots[0]) / np.ptp(knots), (knots - knots[0]) / np.ptp(knots)

    def chord(j: int) -> FloatArray:
        cubes = cube(np.maximum(t - knots[j], 0.0)) - cube(np.maximum(t - knots[-1], 0.0))
        return np.asarray(cubes / (knots[-1] - knots[j]))

    return [chord(j) - chord(knots.size - 2) for j in range(knots.size - 2)]


def lr_platt(data: ScoreLines) -> LikelihoodRatio:
    """Identity against Platt's map σ(a + b·logit S)."""
    return _likelihood_ratio(data, bends=False)


def lr_spline(data: ScoreLines) -> LikelihoodRatio:
    """Identity against a natural cubic spline in the logit, with five knots."""
    return _likelihood_ratio(data, bends=True)


# ── isotonic ────────────────────────────────────────────────────────────────────────────────────────────


def corp(data: ScoreLines) -> Statistic:
    """In-sample CORP miscalibration under the log loss: mean loss of S minus that of the isotonic fit."""
    first, mass = run_starts(data.law), data.weight * data.size
    score, tied, total = data.law[first], np.add.reduceat(mass, first), mass.sum()

    def statistic(y: FloatArray) -> FloatArray:
        events = np.add.reduceat(y * data.weight, first, axis=1)
        values = np.empty(y.shape[0])
        for i, line in enumerate(events):
            blocks = isotonic_blocks(tied, line)
            fitted = _log_likelihood(blocks.weight, blocks.value * blocks.weight, blocks.value)
            values[i] = fitted - _log_likelihood(tied, line, score)
        return np.asarray(np.maximum(values / total, 0.0))

    return statistic


def _log_likelihood(weight: FloatArray, events: FloatArray, law: FloatArray) -> float:
    """Σ events·log p + (weight − events)·log(1 − p), where 0·log 0 = 0."""
    from scipy.special import xlog1py, xlogy

    missed = np.where(events >= weight * (1.0 - 1e-15), 0.0, weight - events)
    return float(np.sum(xlogy(events, law) + xlog1py(missed, -law)))


# ── cumulative differences and bins ─────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Walk:
    """Partial sums of w(Y − S) in increasing order of S, taken at the end of tied scores."""

    expected: FloatArray  # (lines,): sum of the scores of each line's rows, in order of score
    weight: FloatArray  # (lines,): weight of a row
    ends: IntArray  # number of lines up to the end of each distinct score, after a 0
    variance: FloatArray  # variance of the partial sums there

    @classmethod
    def of(cls, law: FloatArray, weight: FloatArray, size: FloatArray) -> Walk:
        """From sorted scores, and weight and number of their rows."""
        ends = np.append(run_starts(law), law.size)
        variance = np.concatenate([[0.0], np.cumsum(weight**2 * size * law * (1.0 - law))])
        return cls(law * size, weight, ends, variance[ends])

    def sums(self, y: FloatArray) -> FloatArray:
        """Partial sums at the ends, one line per line of outcomes."""
        path = np.zeros((y.shape[0], self.expected.size + 1))
        steps = y - self.expected
        steps *= self.weight
        np.cumsum(steps, axis=1, out=path[:, 1:])
        return path if self.ends.size == path.shape[1] else path[:, self.ends]

    def range(self, y: FloatArray) -> FloatArray:
        """Highest minus lowest partial sum, over its standard deviation: Kuiper's statistic, ECCE-R."""
        path = self.sums(y)
        deviation = float(np.sqrt(self.variance[-1]))
        return np.asarray((path.max(axis=1) - path.min(axis=1)) / (deviation if deviation > 0.0 else 1.0))

    def cuts(self, bins: int) -> IntArray:
        """Ends that divide the information Σ w²S(1−S) as evenly as ties allow into at most `bins` bins."""
        total = self.variance[-1]
        inner = np.searchsorted(self.variance, total * np.arange(1, bins) / bins * REACHED)
        cuts = np.unique(np.concatenate([[0], inner, [self.ends.size - 1]]))
        gained = np.diff(self.variance[cuts]) > 1e-12 * total
        starts = np.concatenate([[0], cuts[1:][gained]])
        starts[-1] = self.ends.size - 1
        return starts

    def excess(self, y: FloatArray, scales: tuple[int, ...]) -> FloatArray:
        """Σ over bins of D²/Var D − 1 over its null standard deviation √(2·bins), one column per number of bins."""
        excesses = np.zeros((y.shape[0], len(scales)))
        if self.variance[-1] <= 0.0:
            return excesses
        path = self.sums(y)
        for i, bins in enumerate(scales):
            cuts = self.cuts(bins)
            sums, variance = np.diff(path[:, cuts], axis=1), np.diff(self.variance[cuts])
            excesses[:, i] = (sums**2 / variance - 1.0).sum(axis=1) / np.sqrt(2.0 * variance.size)
        return excesses


def scales(law: FloatArray, size: FloatArray) -> tuple[int, ...]:
    """Numbers of bins: 8, 16, 32 … up to √n, but no more than leaves each bin a variance of 2."""
    room = max(1, int(np.sum(size * law * (1.0 - law)) / 2.0))
    most = max(8, int(np.sqrt(size.sum())))
    return tuple(min(1 << j, room) for j in range(3, most.bit_length()))


def kuiper(data: ScoreLines) -> Statistic:
    """Range of the cumulative differences Σ w(Y − S) in order of S, over the standard deviation of their total."""
    return Walk.of(data.law, data.weight, data.size).range


def bins(data: ScoreLines) -> Statistic:
    """
    Debiased squared deviations in bins, the largest over several numbers of bins.

    Bins hold equal shares of the information Σ w²S(1−S) rather than of the rows: no bin is nearly empty of events, so
    none can make the statistic explode.
    """
    walk, sizes = Walk.of(data.law, data.weight, data.size), scales(data.law, data.size)
    return lambda y: np.asarray(walk.excess(y, sizes).max(axis=1))
