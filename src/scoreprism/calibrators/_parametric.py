"""Maps with one to three parameters: identity, Platt, temperature, beta."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.arrays import like, namespace, to_host
from scoreprism._core.lazy_laws import ClassScores
from scoreprism._core.numerics import (
    TINY,
    TURNED,
    clipped_sigmoid,
    log_pair,
    log_softmax,
    rate_log_odds,
    rising_sigmoid,
    row_blocks,
)
from scoreprism._core.simplex import FloatArray, IntArray, one_hot, pick
from scoreprism._kernels.logistic import Likelihood, find_separation, fit_or_shrink, shrink_targets
from scoreprism._maps.binary_map import Affine, BetaCurve, BinaryMap
from scoreprism._maps.parts import Map
from scoreprism._maps.score_block import ScoreFeatures, find_least_law
from scoreprism._maps.softmax_map import Same, Tempered, log_law
from scoreprism._sample.batch import Batch, fit_lines
from scoreprism._sample.fit_rows import FitRows, smallest
from scoreprism.calibrators._calibrator import Calibrator, FittedPart, one_of, rules, with_parameters

#: Bounds on 1/T: beyond them a score is noise, or the classes are separated.
_SHARPEST, _FLATTEST = 1e6, 1e-6


@with_parameters
class IdentityCalibrator(Calibrator):
    """
    No recalibration: the score itself.

    Scores come back as they are (softmax for logits), with 0 and 1 kept: the one map that does not move them.

    Examples
    --------
    >>> from scoreprism.calibrators import IdentityCalibrator
    >>> IdentityCalibrator().fit([0.2, 0.7], [0, 1]).calibrate([0.2, 1.0])
    array([0.2, 1. ])
    """

    kind: str = "probability"

    name = "identity"
    monotone = strictly_increasing = smooth = multiclass = True

    def _fit(self, data: FitRows) -> Map:
        if data.k > 2:
            return Tempered(data.kind, 1.0, 0.0, 0.0) if data.kind == "logit" else Same("probability")
        return BinaryMap(data.chart("probability"), Affine(1.0, 0.0), "identity")


@with_parameters
class PlattCalibrator(Calibrator):
    """
    Logistic regression on the logit of the score: ``logit C = slope · logit S + intercept``.

    Platt scaling: the maximum-likelihood fit, by Newton's method. Slope 1 and intercept 0 mean calibrated; a slope
    below 1 means overconfident. The slope may be negative: a reversed score is turned around unless `increasing`
    forbids it.

    Parameters
    ----------
    increasing : bool, default=False
        Keep the order of the scores: where the best slope is negative, take 0, the constant map at the base rate.
    smooth_targets : bool, default=False
        Fit to Platt's targets (N₁+1)/(N₁+2) and 1/(N₀+2) instead of 1 and 0. Done in any case where the classes
        are separated by the score, and the likelihood has no maximum.

    Attributes
    ----------
    slope_, intercept_ : float
        The fitted line.
    separated_ : bool
        Whether smoothed targets were used because the classes are separated.

    Notes
    -----
    Platt (1999) writes the map as 1/(1 + exp(A·f + B)): A = −slope, B = −intercept. Beyond the scores it was fitted on,
    values within 1/(2n) of 0 or 1 are bent away from them (see `docs/calibrators.md`).

    Examples
    --------
    >>> from scoreprism.calibrators import PlattCalibrator
    >>> platt = PlattCalibrator(smooth_targets=True, kind="logit").fit([5, -4, 1], [1, -1, -1])
    >>> round(-platt.slope_, 8), round(-platt.intercept_, 8)
    (-0.20261449, 0.65236664)
    """

    increasing: bool = False
    smooth_targets: bool = False
    kind: str = "probability"

    name = "platt"
    smooth = True
    slope_ = FittedPart("curve.slope", float, "Slope on the logit scale.")
    intercept_ = FittedPart("curve.intercept", float, "Intercept on the logit scale.")
    _kept = ("separated_",)

    @property
    def _keeps_order(self) -> bool:
        return bool(self.increasing)

    def _fit(self, data: FitRows) -> Map:
        line, self.separated_ = fit_line(data, smooth=self.smooth_targets)
        if self.increasing and line.slope < 0.0:  # concave in the slope: the best is on the edge
            line = Affine(0.0, rate_log_odds(data.rate))
        return BinaryMap(data.logit, line, "logit").with_floor(data.score, data.distance)

    def _fit_many(self, batch: Batch) -> FloatArray:
        whole = batch.everything
        line, odd = fit_line(whole, smooth=self.smooth_targets)
        if odd or self.smooth_targets or self.increasing:
            return super()._fit_many(batch)
        x = whole.logit(batch.center)
        design = np.stack([x, np.ones(x.size)])
        beta = fit_lines(batch, design, np.array([line.slope, line.intercept]), None)
        return super()._fit_many(batch) if beta is None else batch.keep_inside(clipped_sigmoid(beta @ design))


def fit_line(data: FitRows, *, smooth: bool = False) -> tuple[Affine, bool]:
    """Platt's line in the logit, and whether the classes were separated."""
    x = data.logit(data.score)
    center = float(np.average(x, weights=data.weight))
    spread = float(np.sqrt(np.average((x - center) ** 2, weights=data.weight)))
    design = np.stack([(x - center) / (spread or 1.0), np.ones(x.size)])
    if spread <= 1e-14 * max(1.0, abs(center)):  # a constant score: only the base rate can be fitted
        design[0] = 0.0
    apart = find_separation(x, data.y) != 0 and bool(design[0].any())
    fit = fit_or_shrink(design, data.y, data.weight, smooth=smooth or apart)
    if not fit.converged:  # weights that rounding cannot hold side by side
        fit = fit_or_shrink(design, data.y, data.weight, smooth=True)
    slope = float(fit.coefficients[0]) / (spread or 1.0)
    return Affine(slope, float(fit.coefficients[1]) - slope * center), apart


@with_parameters
class TemperatureCalibrator(Calibrator):
    """
    Logits divided by one temperature T > 0: softmax(logits / T).

    Temperature scaling (Guo et al. 2017): the maximum-likelihood T, between 1e-6 and 1e6. The most probable class stays
    the most probable, and, for scores inside (0, 1), the log loss on the rows it was fitted on is never above that of
    the scores.

    Attributes
    ----------
    temperature_ : float
        T: above 1 for overconfident scores.
    separated_ : bool
        Whether smoothed targets were used because the largest score is right in every row.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.calibrators import TemperatureCalibrator
    >>> s, y = np.repeat([0.1, 0.9], 10), np.tile([0, 0, 0, 0, 1], 4)
    >>> y[10:] = 1 - y[10:]
    >>> TemperatureCalibrator().fit(s, y).calibrate([0.1, 0.9]).round(6)
    array([0.2, 0.8])
    """

    kind: str = "probability"

    name = "temperature"
    monotone = strictly_increasing = smooth = multiclass = reads_blocks = True
    _kept = ("separated_",)

    def _fit(self, data: FitRows) -> Map:
        if data.k == 2:
            beta, self.separated_ = _find_sharpness(data.logit(data.score), data)
            tempered = BinaryMap(data.logit, Affine(beta, 0.0), "logit")
            raw = rising_sigmoid(data.logit(data.score))
            # a floor no nearer to the middle than the nearest score cannot raise the loss of a fitted row
            least = min(float(np.minimum(raw, 1.0 - raw).min()), data.distance**2)
            return tempered.with_floor(data.score, data.distance, least=least)
        low = smallest(data)
        if isinstance(data.score, ClassScores):
            return self._fit_by_block(ScoreFeatures(data.score, low), data)
        logs = log_law(data.score, data.kind, low)
        beta, self.separated_ = _find_sharpness(logs, data)
        least = float(np.exp(log_softmax(beta * logs).min()))
        most = min(data.distance, 0.5 / data.k)
        return Tempered(data.kind, beta, low, min(most, max(least, TINY)))  # fitted rows stay

    def _fit_by_block(self, logs: ScoreFeatures, data: FitRows) -> Map:
        """The same for scores of several classes that stay where they are."""
        if _is_separated(logs, data.codes):
            return self._fit(replace(data, score=data.score.whole))
        self.separated_ = False
        n = data.codes.size
        start, step = 1.0, max(1, n // 2048)
        if step > 3:  # some rows say nearly where the optimum is
            some = np.arange(0, n, step)
            weight = None if data.weight is None else data.weight[some]
            start = _minimise(_make_block_derivatives(logs.take(some), data.codes[some], weight), tolerance=1e-4)
        tolerance = 1e-6 if data.score.is_single else 1e-9
        beta = _minimise(_make_block_derivatives(logs, data.codes, data.weight), start, tolerance)
        tempered = Tempered(data.kind, beta, logs.low, 0.0)
        return replace(
            tempered, floor=min(data.distance, 0.5 / data.k, max(find_least_law(tempered, data.score), TINY))
        )

    @property
    def temperature_(self) -> float:
        """The temperature."""
        return 1.0 / read_sharpness(self._fitted)


def read_sharpness(fitted: Any) -> float:
    """What a fitted temperature map multiplies log-probabilities by."""
    return float(fitted.sharpness if isinstance(fitted, Tempered) else fitted.curve.slope)


#: Classes from which on some of the rows say where to start.
_MANY_CLASSES = 20
#: From 1/T to the first and second derivative of the log loss there.
_Derivatives = Callable[[float], tuple[float, float]]


def _make_binary_derivatives(x: FloatArray, y: FloatArray, weight: FloatArray | None) -> _Derivatives:
    """The derivatives of the log loss of two classes."""
    problem = Likelihood(x[None], y, weight)

    def evaluate(beta: float) -> tuple[float, float]:
        _, slope, curve = problem.evaluate(np.array([beta]), loss=False)
        return float(slope[0]), float(curve[0, 0])

    return evaluate


def _make_class_derivatives(logs: FloatArray, targets: NDArray[Any], weight: FloatArray | None) -> _Derivatives:
    """The same for K classes; `targets` are codes, or a table of probabilities."""
    mass = np.ones(logs.shape[0]) if weight is None else weight
    observed = float(mass @ (pick(logs, targets) if targets.ndim == 1 else (targets * logs).sum(axis=1)))
    turn = logs.shape[1] <= TURNED  # numpy sums a few long lines faster than many short ones
    table, axis = (np.ascontiguousarray(logs.T), 0) if turn else (logs, 1)

    def evaluate(beta: float) -> tuple[float, float]:
        slope, curve = -observed, 0.0
        for rows in row_blocks(*logs.shape):
            z = table[:, rows] if turn else table[rows]
            p = beta * z
            p -= p.max(axis=axis, keepdims=True)
            np.exp(p, out=p)
            total = p.sum(axis=axis)
            p *= z
            mean = p.sum(axis=axis) / total
            p *= z
            slope += float(mass[rows] @ mean)
            curve += float(mass[rows] @ (p.sum(axis=axis) / total - mean**2))
        return slope, curve

    return evaluate


def _make_block_derivatives(logs: ScoreFeatures, codes: IntArray, weight: FloatArray | None) -> _Derivatives:
    """The same for K classes, a block of rows at a time, where the scores live; sums are in double precision."""
    mass = np.ones(codes.size) if weight is None else weight

    def evaluate(beta: float) -> tuple[float, float]:
        slope, curve = 0.0, 0.0
        for rows in logs.blocks():
            z = logs.read(rows)
            xp = namespace(z)
            p = beta * z
            p -= xp.max(p, axis=1, keepdims=True)
            p = np.exp(p, out=p) if xp is np else xp.exp(p)
            total = xp.sum(p, axis=1)
            p *= z
            mean = xp.sum(p, axis=1) / total
            p *= z
            spread = xp.sum(p, axis=1) / total - mean**2
            gap = mean - pick(z, like(codes[rows], z))
            slope += float(mass[rows] @ to_host(gap))
            curve += float(mass[rows] @ to_host(spread))
        return slope, curve

    return evaluate


def _is_separated(logs: ScoreFeatures, codes: IntArray) -> bool:
    """As `_has_no_optimum`, but for ties: whether the largest score is always that of the class that occurred."""
    for rows in (slice(0, min(1024, codes.size)), *logs.blocks()):
        z = logs.read(rows)
        xp = namespace(z)
        if bool(xp.any(pick(z, like(codes[rows], z)) < xp.max(z, axis=1))):
            return False
    return True


def _find_sharpness(x: FloatArray, data: FitRows) -> tuple[float, bool]:
    """The best 1/T, and whether the scores separate the classes, where smoothed targets keep it finite."""
    make: Callable[..., _Derivatives] = _make_binary_derivatives if data.k == 2 else _make_class_derivatives
    hit = data.y if data.k == 2 else data.codes
    if _has_no_optimum(x, data):
        smooth = shrink_targets(data.y, data.weight) if data.k == 2 else _shrink_rows(one_hot(data.codes, data.k), data)
        return max(_minimise(make(x, smooth, data.weight)), 1.0), True  # never flatter: that would worsen the loss
    start, step = 1.0, min(x.size // 4096, len(x) // 1024)  # some rows say nearly where the optimum is
    if step > 16 or (step > 3 and data.k > _MANY_CLASSES):
        start = _minimise(make(x[::step], hit[::step], None if data.weight is None else data.weight[::step]))
    return _minimise(make(x, hit, data.weight), start), False


def _has_no_optimum(x: FloatArray, data: FitRows) -> bool:
    """Whether no class ever had a larger score than the one that occurred, so that sharper is always better."""
    if data.k == 2:
        few = slice(0, 1024)  # most scores show it at once
        if (np.where(data.codes[few] == 1, x[few], -x[few]) < 0.0).any():
            return False
        return bool((np.where(data.codes == 1, x, -x) >= 0.0).all() and x.any())
    few = slice(0, 1024)
    if (pick(x[few], data.codes[few]) < x[few].max(axis=1)).any():
        return False
    others = np.where(one_hot(data.codes, data.k) > 0.0, -np.inf, x)
    gaps = pick(x, data.codes) - others.max(axis=1)
    return bool((gaps >= 0.0).all() and gaps.any())


def _shrink_rows(targets: FloatArray, data: FitRows) -> FloatArray:
    """Platt's targets for K classes: (N_k+1)/(N_k+K) for the class that occurred, 1/(N_k+K) for the others."""
    count = np.bincount(data.codes, weights=data.weight, minlength=data.k)[data.codes][:, None]
    return (targets * count + 1.0) / (count + data.k)


def _minimise(evaluate: _Derivatives, beta: float = 1.0, tolerance: float = 1e-9) -> float:
    """Minimise a convex function of one positive variable: Newton, kept inside a shrinking bracket."""
    low, high = _FLATTEST, _SHARPEST
    for _ in range(200):
        slope, curve = evaluate(beta)
        if slope == 0.0:
            return beta
        low, high = (low, beta) if slope > 0.0 else (beta, high)
        new = beta - slope / curve if curve > 0.0 else 0.0
        if abs(new - beta) <= tolerance * beta:  # the next step would be its square
            return new
        beta = new if low < new < high else float(np.sqrt(low * high))
    return beta


@with_parameters
class BetaCalibrator(Calibrator):
    """
    Beta calibration: ``logit C = a·log S − b·log(1 − S) + c`` with a, b ≥ 0 (Kull, Silva Filho & Flach 2017).

    The map if scores are beta distributed within each class. It contains the identity, and bends the two ends
    separately. Maximum likelihood; where a coefficient would be negative, the best fit with a coefficient at zero.

    Parameters
    ----------
    parameters : {"abm", "am", "ab"}, default="abm"
        Three parameters, a = b (Platt's map), or the map through (½, ½).

    Attributes
    ----------
    a_, b_, c_ : float
        The coefficients.
    separated_ : bool
        Whether smoothed targets were used because the classes are separated.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.calibrators import BetaCalibrator
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(100000)
    >>> beta = BetaCalibrator().fit(s, rng.random(100000) < s**2 / (s**2 + (1 - s)))
    >>> bool(abs(beta.a_ - 2) < 0.1), bool(abs(beta.b_ - 1) < 0.1), bool(abs(beta.c_) < 0.1)
    (True, True, True)
    """

    parameters: str = "abm"
    kind: str = "probability"

    name = "beta"
    monotone = smooth = True
    a_ = FittedPart("curve.a", float, "Coefficient of log s.")
    b_ = FittedPart("curve.b", float, "Coefficient of −log(1 − s).")
    c_ = FittedPart("curve.c", float, "Intercept.")
    _kept = ("separated_",)
    _rules = rules(parameters=one_of("abm", "am", "ab"))

    def _fit(self, data: FitRows) -> Map:
        variant = self.parameters
        x = data.logit(data.score)
        columns = np.empty((3, x.size))
        columns[2] = 1.0
        for start in range(0, x.size, 1 << 14):  # in blocks that stay in cache
            rows = slice(start, start + (1 << 14))
            columns[0, rows], columns[1, rows] = log_pair(x[rows])
        if variant == "ab":  # through (½, ½): log 2s and −log 2(1−s)
            columns[:2] += np.array([[np.log(2.0)], [-np.log(2.0)]])
        self.separated_ = find_separation(x, data.y) == 1 and bool(np.ptp(x) > 0.0)
        shape = {"through_half": variant == "ab", "tied": variant == "am"}
        a, b, c = _fit_nonnegative(columns, data, smooth=self.separated_, **shape)
        if variant == "ab":
            c = (a - b) * np.log(2.0)
        return BinaryMap(data.logit, BetaCurve(float(a), float(b), float(c)), "logit").with_floor(
            data.score, data.distance
        )


def _fit_nonnegative(columns: FloatArray, data: FitRows, *, through_half: bool, tied: bool, smooth: bool) -> FloatArray:
    """(a, b, c) of the best fit with a, b ≥ 0: the free one, or the best with one or both at zero."""
    ones = columns[2:2] if through_half else columns[2:]
    free = np.array([[1.0, 1.0]]) if tied else np.eye(2)
    bounded = [np.zeros((0, 2))] if tied else [np.eye(2)[:1], np.eye(2)[1:], np.zeros((0, 2))]
    solutions: list[tuple[float, FloatArray]] = []
    for use in (free, *bounded):
        whole = columns if use is free and not tied and not through_half else np.vstack([use @ columns[:2], ones])
        fit = fit_or_shrink(whole, data.y, data.weight, smooth=smooth)
        slopes = fit.coefficients[: len(use)]
        if (fit.converged and (slopes >= 0).all()) or not len(use):
            answer: FloatArray = np.r_[slopes @ use, fit.coefficients[-1] if ones.size else 0.0]
            if use is free:  # convex: a free minimum inside the quadrant is the minimum
                return answer
            solutions.append((fit.loss, answer))
    return min(solutions, key=lambda solution: solution[0])[1]
