"""Smooth maps: P-splines, natural splines and monotone splines (paper, appendices E.2 and E.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from scoreprism._core.checks import parse_choice, parse_number
from scoreprism._core.numerics import EDGE, clipped_sigmoid, rate_log_odds, weighted_quantiles
from scoreprism._core.simplex import FloatArray
from scoreprism._kernels.kernel_regression import KERNELS, choose_bandwidth
from scoreprism._kernels.logistic import find_separation, fit_or_shrink
from scoreprism._learners.penalised_splines import KernelStep, Shape, SplineProblem, boxed, rising, unconstrained
from scoreprism._maps.binary_map import Affine, BinaryMap
from scoreprism._maps.parts import Map
from scoreprism._maps.spline_basis import HARRELL_KNOTS, natural_spline
from scoreprism._sample.batch import Batch, fit_lines
from scoreprism._sample.fit_rows import FitRows
from scoreprism.calibrators._calibrator import (
    Calibrator,
    Rule,
    at_least,
    number,
    one_of,
    optional,
    parse_distance,
    resolve_distance,
    rules,
    with_parameters,
)
from scoreprism.calibrators._kernel_smoothing import parse_bandwidth
from scoreprism.calibrators._parametric import fit_line


def _parse_knots(value: object, name: str) -> int:
    """A number of knots for which Harrell gives quantiles."""
    return int(parse_number(value, name, "a whole number from 3 to 7", lambda v: v in HARRELL_KNOTS))


@with_parameters
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

    n_knots: int = 5
    ridge: float = 0.1
    kind: str = "probability"

    name = "natural-spline"
    smooth = True
    _rules = rules(n_knots=_parse_knots, ridge=number("a number of at least 0", lambda v: v >= 0.0))

    def _fit(self, data: FitRows) -> Map:
        x = data.logit(data.score)
        knots = self._place_knots(x, data.weight)
        if knots.size < 3:
            return BinaryMap(data.logit, fit_line(data)[0], "logit").with_floor(data.score, data.distance)
        smooth = find_separation(x, data.y) != 0
        penalty = self.ridge * _curvature_penalty(knots)
        fit = fit_or_shrink(_evaluate_cardinals(x, knots), data.y, data.weight, smooth=smooth, penalty=penalty)
        curve = natural_spline(knots, fit.coefficients, tails="linear")
        return BinaryMap(data.logit, curve, "logit").with_floor(data.score, data.distance)

    def _fit_many(self, batch: Batch) -> FloatArray:
        return batch.once(f"natural-spline {self.n_knots} {self.ridge}", lambda: self._fit_together(batch))

    def _fit_together(self, batch: Batch) -> FloatArray:
        """Laws of all training sets with the knots of all rows."""
        whole = batch.everything
        x = whole.logit(whole.score)
        knots = self._place_knots(x, whole.weight)
        if knots.size < 3 or find_separation(x, whole.y) != 0:
            return super()._fit_many(batch)
        penalty = self.ridge * _curvature_penalty(knots)
        start = fit_or_shrink(_evaluate_cardinals(x, knots), whole.y, whole.weight, smooth=False, penalty=penalty)
        design = _evaluate_cardinals(whole.logit(batch.center), knots)
        beta = fit_lines(batch, design, start.coefficients, penalty)
        return batch.keep_inside(super()._fit_many(batch) if beta is None else clipped_sigmoid(beta @ design))

    def _place_knots(self, x: FloatArray, weight: FloatArray | None) -> FloatArray:
        """Knots at Harrell's quantiles, without those nearer than a hundredth of the range to the one before (ties)."""
        knots = weighted_quantiles(x, weight, HARRELL_KNOTS[self.n_knots])
        separate = [float(knots[0])]
        for knot in knots[1:].tolist():
            if knot - separate[-1] > 0.01 * float(knots[-1] - knots[0]):
                separate.append(knot)
        return np.array(separate)

    @property
    def knots_(self) -> FloatArray:
        """Knots."""
        return np.array(getattr(self._fitted.curve, "breaks", ()))

    @property
    def values_(self) -> FloatArray:
        """Log-odds at the knots."""
        return self._fitted.curve(self.knots_)  # type: ignore[no-any-return]


def _curvature_penalty(knots: FloatArray) -> FloatArray:
    """The projection that takes values at the knots to their deviations from a straight line."""
    line = np.column_stack([np.ones(knots.size), (knots - knots.mean()) / np.ptp(knots)])
    return np.asarray(np.eye(knots.size) - line @ np.linalg.pinv(line))


def _evaluate_cardinals(x: FloatArray, knots: FloatArray) -> FloatArray:
    """The natural splines that are 1 at one knot and 0 at the others, one row each, straight beyond the knots."""
    from scipy.interpolate import CubicSpline

    spline = CubicSpline(knots, np.eye(knots.size), bc_type="natural")
    inner = np.clip(x, knots[0], knots[-1])
    values = spline(inner)
    slopes = spline(knots[[0, -1]], 1)
    beyond = x - inner
    values += np.minimum(beyond, 0.0)[:, None] * slopes[0] + np.maximum(beyond, 0.0)[:, None] * slopes[1]
    return np.ascontiguousarray(values.T)


def _parse_penalty(value: object, name: str) -> str | float:
    if isinstance(value, str):
        return parse_choice(value, ("reml", "gcv", "cv"), name)
    return parse_number(value, name, "'reml', 'gcv', 'cv' or a number of at least 0", lambda v: v >= 0.0)


@dataclass(kw_only=True, eq=False, repr=False)
class _PenalisedSpline(Calibrator):
    """What the P-splines below share: parameters, and how the map is found for a shape."""

    link: str = "logit"
    n_basis: int = 20
    penalty: str | float = "reml"
    chart: str = "auto"
    cv: Any = 5
    random_state: object = 0
    clip: str | float = "auto"
    kind: str = "probability"

    smooth = True
    _kept: ClassVar[tuple[str, ...]] = ("penalty_",)
    _rules: ClassVar[Mapping[str, Rule]] = rules(
        link=one_of("logit", "identity"),
        n_basis=at_least(4),
        chart=one_of("auto", "logit", "probability"),
        penalty=_parse_penalty,
        clip=parse_distance,
    )

    @property
    def _deals_rows(self) -> bool:
        return self.penalty == "cv"

    def _solve(
        self,
        data: FitRows,
        shape: Shape,
        settle: Callable[[FloatArray], FloatArray] = np.asarray,
        step: KernelStep | None = None,
    ) -> BinaryMap:
        """The map of a shape; `settle` undoes what rounding did to the order of the coefficients."""
        natural = "logit" if self.link == "logit" and step is None else "probability"
        problem = SplineProblem(
            data,
            shape,
            clip=max(resolve_distance(self.clip, data), EDGE),
            hard=not isinstance(self.clip, str),
            link=self.link,
            k=self.n_basis,
            smoothing=self.penalty,
            space=natural if self.chart == "auto" else self.chart,
            cv=self.cv,
            random_state=self.random_state,
            kernel_step=step,
        )
        self.penalty_ = self.penalty if isinstance(self.penalty, float) else 0.0
        if problem.constant:  # one score says no more than the base rate
            return BinaryMap(data.logit, Affine(0.0, rate_log_odds(data.rate)), "logit")
        fit = problem.fit()
        self.penalty_ = fit.penalty
        return problem.map(settle(fit.beta))


@with_parameters
class SplineCalibrator(_PenalisedSpline):
    """
    Cubic P-spline with a second-difference penalty, not constrained to be monotone (paper, appendix E.2).

    With the logit link, the penalised likelihood of ``logit C = Σ β_j B_j``; as λ grows it goes to a straight line:
    Platt's map for a spline in the logit of the score. With the identity link, penalised least squares for C itself,
    cut (with a kink) where it would come too near to 0 or 1.

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
    clip : "auto" or float, default="auto"
        Smallest distance from 0 and 1, kept by cutting. "auto" cuts at 1/(2n) with the identity link; with the logit
        link it bends the map away from the ends instead (see `docs/calibrators.md`).

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

    def _fit(self, data: FitRows) -> Map:
        return self._solve(data, unconstrained if self.link == "identity" else boxed)


@with_parameters
class MonotoneSplineCalibrator(_PenalisedSpline):
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
    chart : {"auto", "logit", "probability"}, default="auto"
        In which coordinate knots are even: "auto" is that of the link, and the probability with Step A. In the logit
        they stand between the 0.5 % and 99.5 % quantiles with straight tails; as probabilities they cover [0, 1].
    cv : int, splitter or iterable, default=5
        Folds of ``penalty="cv"``: random ones, or splits of your own.
    clip : "auto" or float, default="auto"
        Smallest distance from 0 and 1, kept by cutting. "auto" cuts at 1/(2n) with the identity link; with the logit
        link it bends the map away from the ends instead (see `docs/calibrators.md`).
    bandwidth : None, "rule", "cv" or float, default=None
        Half-width h of the kernel of Step A, which replaces the rows by kernel estimates on an even grid, weighted
        with the kernel mass. None fits the rows themselves.
    grid_size : int, optional
        Points of that grid in [0, 1]; by default n_basis, as in the paper. Points without a row in reach are left out.
    kernel : {"triweight", "biweight", "epanechnikov"}, default="triweight"
        Kernel of Step A.
    strict : bool, default=False
        Whether coefficients must increase, by at least 0.001/(k−1), so that no two scores share a value.

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

    bandwidth: str | float | None = None
    grid_size: int | None = None
    kernel: str = "triweight"
    strict: bool = False

    name = "monotone-spline"
    monotone = True
    _kept = ("penalty_", "bandwidth_")
    _rules = rules(
        **_PenalisedSpline._rules,
        kernel=one_of(*KERNELS),
        bandwidth=optional(parse_bandwidth),
        grid_size=optional(at_least(2)),
    )

    def _fit(self, data: FitRows) -> Map:
        step = None
        if self.bandwidth is not None:
            kernel, x = KERNELS[self.kernel], data.chart("probability")(data.score)
            bandwidth = choose_bandwidth(self.bandwidth, x, data.y, data.weight, kernel)
            step = KernelStep(bandwidth, kernel, np.linspace(0.0, 1.0, self.grid_size or self.n_basis))
        self.bandwidth_ = None if step is None else step.bandwidth
        gap = 1e-3 / (self.n_basis - 1) if self.strict else 0.0
        ramp = gap * np.arange(self.n_basis)
        return self._solve(data, partial(rising, gap=gap), lambda beta: np.maximum.accumulate(beta - ramp) + ramp, step)
