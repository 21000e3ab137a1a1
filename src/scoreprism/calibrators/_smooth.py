"""Smooth maps: P-splines, natural splines and monotone splines (paper, appendices E.2 and E.3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from scoreprism._validation import parse_choice, parse_count, parse_number
from scoreprism.calibrators._base import Calibrator, Data, Map
from scoreprism.calibrators._folds import make_folds
from scoreprism.calibrators._isotonic import parse_distance
from scoreprism.calibrators._kernel import KERNELS, kernel_estimate, linear_bins, parse_bandwidth
from scoreprism.calibrators._logistic import fit_logistic, fit_or_smooth
from scoreprism.calibrators._maps import Affine, BinaryMap, Chart
from scoreprism.calibrators._parametric import fit_line
from scoreprism.calibrators._splines import Basis, Cells, Constraint, SplineFit, fit_penalised, natural_spline
from scoreprism.simplex import FloatArray

LINKS = ("logit", "identity")
#: From this many rows on they are shared among this many even points (see `linear_bins`).
_MANY, _POINTS = 4096, 2048
#: Quantiles between which the knots of a spline in the logit stand; its tails are straight.
_OUTER = (0.005, 0.995)
#: Knots of natural splines as quantiles (Harrell 2015, table 2.3).
_KNOTS = {
    3: (0.1, 0.5, 0.9),
    4: (0.05, 0.35, 0.65, 0.95),
    5: (0.05, 0.275, 0.5, 0.725, 0.95),
    6: (0.05, 0.23, 0.41, 0.59, 0.77, 0.95),
    7: (0.025, 0.1833, 0.3417, 0.5, 0.6583, 0.8167, 0.975),
}


def quantiles(x: FloatArray, weight: FloatArray | None, shares: tuple[float, ...]) -> FloatArray:
    """Values of x below which these shares of the weight lie; rows of weight 2 count as two rows."""
    if weight is None:
        ranks = np.ceil(np.array(shares) * x.size * (1.0 - 1e-12)).astype(np.intp) - 1
        return np.partition(x, np.maximum(ranks, 0))[np.maximum(ranks, 0)]
    order = np.argsort(x)
    upto = np.cumsum(weight[order])
    at = np.searchsorted(upto, np.array(shares) * upto[-1] * (1.0 - 1e-12))
    found: FloatArray = x[order][np.minimum(at, x.size - 1)]
    return found


class NaturalSplineCalibrator(Calibrator):
    """
    Logistic regression on a natural cubic spline in the logit of the score, with a light ridge.

    Straight beyond the outer knots. The ridge pulls towards a straight line, Platt's map, and is felt only
    where data are few. Not monotone by construction.

    Parameters
    ----------
    n_knots : int, default=5
        Knots, between 3 and 7, at the quantiles of Harrell (2015).
    ridge : float, default=0.1
        ½·ridge·Σ(deviation of the knots' log-odds from a line)² is added to the negative log-likelihood.
    kind : {"probability", "logit"}, default="probability"
        What scores are.

    Attributes
    ----------
    knots_ : array
        Knots on the logit scale; fewer than asked for where scores are tied.
    values_ : array
        Fitted log-odds at the knots.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.calibrators import NaturalSplineCalibrator
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(5000)
    >>> NaturalSplineCalibrator().fit(s, rng.random(5000) < s**2).calibrate([0.3, 0.6]).round(2)
    array([0.09, 0.38])
    """

    name = "natural-spline"
    smooth = True

    def __init__(self, *, n_knots: int = 5, ridge: float = 0.1, kind: str = "probability") -> None:
        self.n_knots = n_knots
        self.ridge = ridge
        self.kind = kind

    def _fit(self, data: Data) -> Map:
        parse_number(self.n_knots, "n_knots", "a whole number from 3 to 7", lambda v: v in _KNOTS)
        ridge = parse_number(self.ridge, "ridge", "a number of at least 0", lambda v: v >= 0.0)
        x = data.logit(data.score)
        knots = np.unique(quantiles(x, data.weight, _KNOTS[int(self.n_knots)]))
        if knots.size < 3:
            return BinaryMap(data.logit, fit_line(data)[0], "logit").floored(data.score, data.total)
        line = np.column_stack([np.ones(knots.size), (knots - knots.mean()) / np.ptp(knots)])
        bent = np.eye(knots.size) - line @ np.linalg.pinv(line)
        fit, _ = fit_or_smooth(_cardinal(x, knots), data.y, data.weight, ridge * bent)
        curve = natural_spline(knots, fit.coefficients, tails="linear")
        return BinaryMap(data.logit, curve, "logit").floored(data.score, data.total)

    @property
    def knots_(self) -> FloatArray:
        """Knots."""
        return np.array(getattr(self.map_.curve, "breaks", ()))  # type: ignore[attr-defined]

    @property
    def values_(self) -> FloatArray:
        """Log-odds at the knots."""
        return self.map_.curve(self.knots_)  # type: ignore[attr-defined,no-any-return]


def _cardinal(x: FloatArray, knots: FloatArray) -> FloatArray:
    """The natural splines that are 1 at one knot and 0 at the others, one row each, straight beyond the knots."""
    from scipy.interpolate import CubicSpline

    spline = CubicSpline(knots, np.eye(knots.size), bc_type="natural")
    inner = np.clip(x, knots[0], knots[-1])
    values = spline(inner)
    slopes = spline(knots[[0, -1]], 1)
    beyond = x - inner
    values += np.minimum(beyond, 0.0)[:, None] * slopes[0] + np.maximum(beyond, 0.0)[:, None] * slopes[1]
    return np.ascontiguousarray(values.T)


class SplineCalibrator(Calibrator):
    """
    Cubic P-spline with a second-difference penalty, not constrained to be monotone (paper, appendix E.2).

    With the logit link, the penalised likelihood of ``logit C = Σ β_j B_j``; as λ grows it goes to a straight line:
    Platt's map for a spline in the logit of the score. With the identity link, penalised least squares for C itself.

    Parameters
    ----------
    link : {"logit", "identity"}, default="logit"
        What the spline is equated to.
    n_basis : int, default=20
        Number k of B-splines, at least 4.
    penalty : {"reml", "gcv", "cv"} or float, default="reml"
        λ, or how it is chosen: restricted maximum likelihood, generalised cross-validation, or K-fold
        cross-validation of the loss that belongs to the link.
    chart : {"auto", "logit", "probability"}, default="auto"
        In which coordinate knots are even: "auto" is that of the link. In the logit they stand between the
        0.5 % and 99.5 % quantiles with straight tails; on the probability scale they cover [0, 1].
    cv : int, splitter or iterable, default=5
        Folds of ``penalty="cv"``: random ones, or splits of your own.
    random_state : int, Generator or None, default=None
        Seed of the folds.
    clip : "auto" or float, default="auto"
        Smallest distance from 0 and 1 that coefficients may stand for; "auto" is 1/(2n).
    kind : {"probability", "logit"}, default="probability"
        What scores are.

    Attributes
    ----------
    penalty_ : float
        The λ used.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.calibrators import SplineCalibrator
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(5000)
    >>> SplineCalibrator().fit(s, rng.random(5000) < s**2).calibrate([0.3, 0.6]).round(2)
    array([0.09, 0.38])
    """

    name = "spline"
    smooth = True
    _kept = ("penalty_",)

    def __init__(
        self,
        *,
        link: str = "logit",
        n_basis: int = 20,
        penalty: str | float = "reml",
        chart: str = "auto",
        cv: Any = 5,
        random_state: object = None,
        clip: str | float = "auto",
        kind: str = "probability",
    ) -> None:
        self.link = link
        self.n_basis = n_basis
        self.penalty = penalty
        self.chart = chart
        self.cv = cv
        self.random_state = random_state
        self.clip = clip
        self.kind = kind

    def _fit(self, data: Data) -> Map:
        problem = _Problem.of(self, data)
        if problem is None:
            return _constant(data)
        if problem.link == "identity":  # least squares as it is; the map cuts what leaves [clip, 1 − clip]
            fit = problem.fit(data, Constraint(np.zeros((0, problem.basis.k)), np.zeros(0)))
        else:
            fit = problem.fit(data, _boxed(problem.basis.k, problem.lowest, problem.highest))
        self.penalty_ = fit.penalty
        return problem.map(fit.beta)


class MonotoneSplineCalibrator(Calibrator):
    """
    Monotone C² spline: cubic B-splines with nondecreasing coefficients (paper, appendix E.3).

    With the logit link (the default), constrained IRLS: every step is the convex program of the paper, with
    working responses and weights. With the identity link, one such program, with the first and last
    coefficient bounded so that values stay inside [0, 1] without clamping. As λ grows the map becomes a straight
    line: Platt's for a spline in the logit of the score, and never a decreasing one.

    Parameters
    ----------
    link : {"logit", "identity"}, default="logit"
        What the spline is equated to.
    n_basis : int, default=20
        Number k of B-splines, at least 4.
    penalty : {"reml", "gcv", "cv"} or float, default="reml"
        λ of the second-difference penalty, or how it is chosen: restricted maximum likelihood or generalised
        cross-validation of the unconstrained spline, or K-fold cross-validation of the constrained one.
    bandwidth : None, "rule", "cv" or float, default=None
        Half-width h of the kernel of Step A, which replaces the rows by kernel estimates on an even grid, weighted
        with the kernel mass. None fits the rows themselves.
    grid_size : int, optional
        Points of that grid in [0, 1]; by default n_basis, as in the paper. Points without a row in reach are left out.
    kernel : {"triweight", "biweight", "epanechnikov"}, default="triweight"
        Kernel of Step A.
    strict : bool, default=False
        Whether coefficients must increase, by at least 0.001/(k−1), so that no two scores share a value.
    chart : {"auto", "logit", "probability"}, default="auto"
        In which coordinate knots are even: "auto" is that of the link, and the probability with Step A. In the logit
        they stand between the 0.5 % and 99.5 % quantiles with straight tails; as probabilities they cover [0, 1].
    cv : int, splitter or iterable, default=5
        Folds of ``penalty="cv"``: random ones, or splits of your own.
    random_state : int, Generator or None, default=None
        Seed of the folds.
    clip : "auto" or float, default="auto"
        Smallest distance from 0 and 1 that coefficients may stand for; "auto" is 1/(2n).
    kind : {"probability", "logit"}, default="probability"
        What scores are.

    Attributes
    ----------
    penalty_ : float
        The λ used.
    bandwidth_ : float or None
        The bandwidth used.

    Notes
    -----
    Nondecreasing coefficients make every piece a sum of functions that rise in floating point too: the map is
    nondecreasing to the last bit. More than 4096 rows are shared among 2048 even points, each between its two
    neighbours, which moves the map by less than 1e-5.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.calibrators import MonotoneSplineCalibrator
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(5000)
    >>> spline = MonotoneSplineCalibrator().fit(s, rng.random(5000) < s**2)
    >>> spline.calibrate([0.3, 0.6]).round(2)
    array([0.09, 0.38])
    >>> bool((np.diff(spline.calibrate(np.linspace(0, 1, 1001))) >= 0).all())
    True
    """

    name = "monotone-spline"
    monotone = smooth = True
    _kept = ("penalty_", "bandwidth_")

    def __init__(
        self,
        *,
        link: str = "logit",
        n_basis: int = 20,
        penalty: str | float = "reml",
        bandwidth: str | float | None = None,
        grid_size: int | None = None,
        kernel: str = "triweight",
        strict: bool = False,
        chart: str = "auto",
        cv: Any = 5,
        random_state: object = None,
        clip: str | float = "auto",
        kind: str = "probability",
    ) -> None:
        self.link = link
        self.n_basis = n_basis
        self.penalty = penalty
        self.bandwidth = bandwidth
        self.grid_size = grid_size
        self.kernel = kernel
        self.strict = strict
        self.chart = chart
        self.cv = cv
        self.random_state = random_state
        self.clip = clip
        self.kind = kind

    def _fit(self, data: Data) -> Map:
        problem = _Problem.of(self, data)
        self.bandwidth_ = None if problem is None else problem.bandwidth
        if problem is None:
            return _constant(data)
        gap = 1e-3 / (problem.basis.k - 1) if self.strict else 0.0
        fit = problem.fit(data, _rising(problem.basis, problem.lowest, problem.highest, gap))
        self.penalty_ = fit.penalty
        ramp = gap * np.arange(problem.basis.k)  # differences are exact, whatever rounding did to them
        return problem.map(np.maximum.accumulate(fit.beta - ramp) + ramp)


def _constant(data: Data) -> BinaryMap:
    """The base rate: what a constant score says."""
    return BinaryMap(data.logit, Affine(0.0, float(np.log(data.rate / (1.0 - data.rate)))), "logit")


def _boxed(k: int, lowest: float, highest: float) -> Constraint:
    """Coefficients between two bounds, which the curve then keeps."""
    return Constraint(np.vstack([np.eye(k), -np.eye(k)]), np.concatenate([np.full(k, lowest), np.full(k, -highest)]))


def _rising(basis: Basis, lowest: float, highest: float, gap: float) -> Constraint:
    """Coefficients that do not fall (or rise by a gap), with the values at the outer knots between two bounds."""
    first, last = basis.design(np.array([basis.left, basis.right]))
    rows = np.vstack([np.diff(np.eye(basis.k), axis=0), first, -last])
    return Constraint(rows, np.concatenate([np.full(basis.k - 1, gap), [lowest, -highest]]))


class _Problem:
    """What both spline calibrators set up: chart, basis, data on cells, bounds and the choice of λ."""

    def __init__(self, owner: SplineCalibrator | MonotoneSplineCalibrator, data: Data) -> None:
        self.link = parse_choice(owner.link, LINKS, "link")
        self.k = parse_count(owner.n_basis, "n_basis", 4)
        self.clip = max(parse_distance(owner.clip, data.total), 1e-12)
        self.bound = float(np.log((1.0 - self.clip) / self.clip))
        self.lowest, self.highest = (-self.bound, self.bound) if self.link == "logit" else (self.clip, 1.0 - self.clip)
        self.smoothing = _parse_penalty(owner.penalty)
        self.cv = owner.cv
        self.random_state = owner.random_state
        given = getattr(owner, "bandwidth", None)
        space = parse_choice(owner.chart, ("auto", "logit", "probability"), "chart")
        if space == "auto":
            space = "probability" if self.link == "identity" or given is not None else "logit"
        self.chart: Chart = data.chart(space)
        self.kernel = KERNELS[parse_choice(getattr(owner, "kernel", "triweight"), KERNELS, "kernel")]
        self.bandwidth: float | None = None
        if given is not None:
            p = data.chart("probability")(data.score)
            self.bandwidth = parse_bandwidth(given, p, data, self.kernel)
        size = getattr(owner, "grid_size", None)
        self.grid = np.linspace(0.0, 1.0, self.k if size is None else parse_count(size, "grid_size", 2))
        self.basis = Basis(0.0, 1.0, self.k)
        self._seen: tuple[Data, FloatArray] | None = None

    @classmethod
    def of(cls, owner: SplineCalibrator | MonotoneSplineCalibrator, data: Data) -> _Problem | None:
        """The problem, or None where the score is constant and there is nothing to fit."""
        problem = cls(owner, data)
        x = problem.coordinate(data)
        if not float(np.ptp(x)) > 1e-12 * (1.0 + float(np.abs(x).max())):
            owner.penalty_ = problem.smoothing if isinstance(problem.smoothing, float) else 0.0
            return None
        if problem.tails:
            left, right = quantiles(x, data.weight, _OUTER)
            if not right - left > 1e-3 * np.ptp(x):
                left, right = x.min(), x.max()
            problem.basis = Basis(float(left), float(right), problem.k)
        return problem

    @property
    def tails(self) -> bool:
        """Whether scores may lie beyond the knots."""
        return self.chart.space == "logit"

    def coordinate(self, data: Data) -> FloatArray:
        """The scores on the chart, computed once for the data at hand."""
        if self._seen is None or self._seen[0] is not data:
            self._seen = data, self.chart(data.score)
        return self._seen[1]

    def cells(self, data: Data) -> Cells:
        """Rows, points they are shared among, or the kernel estimates of Step A, with the basis there."""
        x = self.coordinate(data)
        if self.bandwidth is not None:
            p = data.chart("probability")(data.score)
            grid, rate, mass = kernel_estimate(p, data, self.grid, self.bandwidth, self.kernel)
            at = grid if self.chart.space == "probability" else Chart("probability", "logit", 1e-9, 1e-9)(grid)
            return Cells(self.basis.design(at), mass, mass * rate, float(mass @ rate**2), float(grid.size))
        weight = np.ones(x.size) if data.weight is None else data.weight
        events = weight * data.y
        total, square = data.total, float(events.sum())
        if x.size > _MANY:
            low, high = self._reach(x)
            if float(np.ptp(x)) <= 2.0 * (high - low):  # points a little further apart reach all rows
                low, high = float(x.min()), float(x.max())
            step, count = (high - low) / _POINTS, _POINTS + 1
            inside = None if (low, high) == (x.min(), x.max()) else (x >= low) & (x <= high)
            near = data if inside is None else data.part(inside)
            outcome = near.codes if near.weight is None else near.y
            shared = linear_bins(x if inside is None else x[inside], outcome, near.weight, low, step, count)
            points = low + step * np.arange(count)
            if inside is None:
                x, (weight, events) = np.asarray(points), shared
            else:
                x = np.concatenate([points, x[~inside]])
                rest = weight[~inside], events[~inside]
                weight, events = (np.concatenate(pair) for pair in zip(shared, rest, strict=True))
        return Cells(self.basis.design(x), weight, events, square, total)

    def _reach(self, x: FloatArray) -> tuple[float, float]:
        """Where rows are shared among points: the knots and a margin, but no further than the scores."""
        margin = 3.0 * self.basis.width
        return max(float(x.min()), self.basis.left - margin), min(float(x.max()), self.basis.right + margin)

    def start(self, cells: Cells) -> FloatArray:
        """Coefficients of the best straight line that does not fall, inside the bounds."""
        rate = cells.events / np.where(cells.weight > 0, cells.weight, 1.0)
        mean = float(cells.events.sum() / cells.weight.sum())
        if self.link == "identity":
            return np.full(self.k, np.clip(mean, self.lowest, self.highest))
        place = (self.basis.greville - self.basis.left) / (self.basis.right - self.basis.left)
        fit = fit_logistic(np.stack([cells.design @ place, np.ones(rate.size)]), rate, cells.weight)
        slope, intercept = fit.coefficients
        if slope <= 0.0 or not fit.converged:
            slope, intercept = 0.0, np.log(mean / (1.0 - mean))
        line: FloatArray = np.clip(slope * place + intercept, self.lowest, self.highest)
        return line

    def fit(self, data: Data, constraint: Constraint) -> SplineFit:
        """The penalised fit, with λ by cross-validation if that was asked for."""
        smoothing = self._cross_validated(data, constraint) if self.smoothing == "cv" else self.smoothing
        cells = self.cells(data)
        return fit_penalised(cells, self.basis.penalty, smoothing, self.link, constraint, self.start(cells))

    def _cross_validated(self, data: Data, constraint: Constraint) -> float:
        """The λ with the smallest pooled out-of-fold loss: log loss for the logit link, squared error otherwise."""
        whole = self.cells(data)
        unit = float((whole.weight @ (whole.design**2).sum(axis=1)) / np.trace(self.basis.penalty))
        tries = unit * 10.0 ** np.arange(-4.0, 5.01, 1.0)
        loss = np.zeros(tries.size)
        start = self.start(whole)
        for train, test in make_folds(self.cv, data, self.random_state):
            cells, held = self.cells(data.part(train)), data.part(test)
            design = self.basis.design(self.chart(held.score))
            weight = np.ones(held.y.size) if held.weight is None else held.weight
            for i, smoothing in enumerate(tries):
                fit = fit_penalised(cells, self.basis.penalty, float(smoothing), self.link, constraint, start)
                eta = design @ np.clip(fit.beta, self.lowest, self.highest)
                rows = np.logaddexp(0.0, eta) - held.y * eta if self.link == "logit" else (held.y - eta) ** 2
                loss[i] += float(weight @ rows)
        return float(tries[int(np.argmin(loss))])

    def map(self, beta: FloatArray) -> BinaryMap:
        """The map with these coefficients; values stay `clip` away from 0 and 1, in straight tails a quarter of it."""
        curve = self.basis.curve(beta, tails=self.tails)
        if self.link == "logit":
            return BinaryMap(self.chart, curve, self.link, floor=self.clip if self.tails else 0.0)
        return BinaryMap(self.chart, curve, self.link, clip=self.clip)


def _parse_penalty(value: object) -> str | float:
    if isinstance(value, str):
        return parse_choice(value, ("reml", "gcv", "cv"), "penalty")
    return parse_number(value, "penalty", "'reml', 'gcv', 'cv' or a number of at least 0", lambda v: v >= 0.0)
