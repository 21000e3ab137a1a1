"""Cubic spline bases on even knots with straight tails, their penalties, and penalised fits with a chosen λ."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scoreprism._core.numerics import EDGE_OF_WEIGHTS, FAR, TINY, clipped_sigmoid, cube, rate_log_odds, softplus
from scoreprism._core.simplex import FloatArray
from scoreprism._kernels.logistic import fit_logistic
from scoreprism._kernels.quadratic_program import solve_qp
from scoreprism._maps.binary_map import Cubics

#: Knots of natural splines as quantiles, by their number (Harrell 2015, table 2.3).
HARRELL_KNOTS = {
    3: (0.1, 0.5, 0.9),
    4: (0.05, 0.35, 0.65, 0.95),
    5: (0.05, 0.275, 0.5, 0.725, 0.95),
    6: (0.05, 0.23, 0.41, 0.59, 0.77, 0.95),
    7: (0.025, 0.1833, 0.3417, 0.5, 0.6583, 0.8167, 0.975),
}
#: Steps of IRLS at most, and those in which λ is still chosen.
_STEPS, _CHOICES = 60, 6
#: B-spline coefficients c₀…c₃ of one interval to its Bernstein coefficients.
_TO_BERNSTEIN = np.array([[1, 4, 1, 0], [0, 4, 2, 0], [0, 2, 4, 0], [0, 1, 4, 1]]) / 6.0


@dataclass(frozen=True)
class Basis:
    """
    k cubic B-splines on even knots over [left, right]; beyond, coefficients go on in a straight line.

    Four coefficients on a line make a straight piece, so three more intervals on either side lead every spline into
    a straight tail without a break in its second derivative.
    """

    left: float
    right: float
    k: int

    @property
    def width(self) -> float:
        """Distance of knots."""
        return (self.right - self.left) / (self.k - 3)

    @cached_property
    def greville(self) -> FloatArray:
        """Where coefficients equal to it give the identity."""
        return self.left + self.width * np.arange(-1.0, self.k - 1.0)

    @cached_property
    def _extension(self) -> FloatArray:
        """From k coefficients to k + 6, three more on a line at either end."""
        matrix = np.zeros((self.k + 6, self.k))
        matrix[3:-3] = np.eye(self.k)
        for step in (1.0, 2.0, 3.0):
            matrix[int(3 - step), :2] = 1.0 + step, -step
            matrix[int(self.k + 2 + step), -2:] = -step, 1.0 + step
        return matrix

    def design(self, x: FloatArray) -> FloatArray:
        """Values of the k functions at x, straight on outside."""
        inner = np.clip(x, self.left - 3 * self.width, self.right + 3 * self.width)
        place = (inner - self.left) / self.width + 3.0
        cell = np.clip(np.floor(place).astype(np.intp), 0, self.k + 2)
        t = place - cell
        wide = np.zeros((x.size, self.k + 6))
        rows = np.arange(x.size)
        s = 1.0 - t
        low, high = cube(s), cube(t)
        for j, value in enumerate((low, 4.0 - 6.0 * t**2 + 3.0 * high, 4.0 - 6.0 * s**2 + 3.0 * low, high)):
            wide[rows, cell + j] = value / 6.0
        tails = (x - inner) / self.width
        if tails.any():
            below, above = np.minimum(tails, 0.0), np.maximum(tails, 0.0)
            wide[:, 0] -= below
            wide[:, 1] += below
            wide[:, -2] -= above
            wide[:, -1] += above
        return wide @ self._extension

    def curve(self, beta: FloatArray, *, tails: bool) -> Cubics:
        """The spline with these coefficients; with `tails` it goes on beyond [left, right]."""
        c = self._extension @ beta if tails else beta
        first = self.left - 3 * self.width if tails else self.left
        pieces = np.lib.stride_tricks.sliding_window_view(c, 4) @ _TO_BERNSTEIN.T
        pieces[1:, 0] = pieces[:-1, 3]  # one number where two pieces meet
        breaks = first + self.width * np.arange(pieces.shape[0] + 1)
        if not tails:
            breaks[-1] = self.right
        if (np.diff(beta) >= 0).all():  # rounding must not break the order of the coefficients
            pieces = np.maximum.accumulate(pieces.ravel()).reshape(pieces.shape)
        return Cubics(breaks, pieces, "linear" if tails else "constant")

    @cached_property
    def penalty(self) -> FloatArray:
        """DᵀD of second differences: zero for straight lines only."""
        second = np.diff(np.eye(self.k), 2, axis=0)
        return second.T @ second


def natural_spline(knots: FloatArray, values: FloatArray, tails: str) -> Cubics:
    """The natural cubic spline through points."""
    from scipy.interpolate import CubicSpline

    power = CubicSpline(knots, values, bc_type="natural").c
    width = np.diff(knots)
    slope, bend = power[2] * width / 3.0, power[1] * width**2 / 3.0
    ends = values[:-1], values[:-1] + slope, values[:-1] + 2.0 * slope + bend, values[1:]
    return Cubics(knots, np.column_stack(ends), tails)


@dataclass(frozen=True)
class FitPoints:
    """Data of a penalised fit: basis functions at each point, weight and events there, and Σ w y² of all rows."""

    design: FloatArray
    weight: FloatArray
    events: FloatArray
    square: float
    count: float


@dataclass(frozen=True)
class Quadratic:
    """The local problem ½ βᵀHβ − rᵀβ of a fit, and its sum of squares zᵀWz."""

    curvature: FloatArray
    pull: FloatArray
    square: float


def local_problem(cells: FitPoints, beta: FloatArray, link: str) -> Quadratic:
    """Least squares for the identity link; the working model of IRLS at `beta` for the logit link."""
    b = cells.design
    if link == "identity":
        return Quadratic((b.T * cells.weight) @ b, b.T @ cells.events, cells.square)
    eta = np.clip(b @ beta, -FAR, FAR)
    p = np.clip(clipped_sigmoid(eta), EDGE_OF_WEIGHTS, 1.0 - EDGE_OF_WEIGHTS)
    v = p * (1.0 - p)
    gap = cells.events - cells.weight * p
    curvature = (b.T * (cells.weight * v)) @ b
    rest = cells.events * (1.0 - p) ** 2 + (cells.weight - cells.events) * p**2
    square = float((cells.weight * v * eta**2 + 2.0 * eta * gap + rest / v).sum())
    return Quadratic(curvature, curvature @ beta + b.T @ gap, square)


def deviance(cells: FitPoints, beta: FloatArray) -> float:
    """The negative log-likelihood of the logit link."""
    eta = cells.design @ beta
    return float(cells.weight @ softplus(eta) - cells.events @ eta)


def rising_line(basis: Basis, cells: FitPoints, edge: float, *, flat: bool = False) -> FloatArray:
    """Coefficients of Platt's line; of the base rate, `edge` from 0 and 1, if `flat` or where it would not rise."""
    place = (basis.greville - basis.left) / (basis.right - basis.left)
    rate = cells.events / np.where(cells.weight > 0, cells.weight, 1.0)
    fit = fit_logistic(np.stack([cells.design @ place, np.ones(rate.size)]), rate, cells.weight)
    slope, intercept = fit.coefficients
    if flat or slope <= 0.0 or not fit.converged:
        mean = float(cells.events.sum() / cells.weight.sum())
        slope, intercept = 0.0, rate_log_odds(min(max(mean, edge), 1.0 - edge))
    line: FloatArray = slope * place + intercept
    return line


@dataclass(frozen=True)
class Constraint:
    """rows · β ≥ least."""

    rows: FloatArray
    least: FloatArray

    def solve(self, curvature: FloatArray, pull: FloatArray) -> FloatArray:
        """The constrained minimum of ½ βᵀGβ − pullᵀβ."""
        return solve_qp(curvature, pull, self.rows, self.least)


def choose_penalty(problem: Quadratic, penalty: FloatArray, criterion: str, link: str, count: float) -> float:
    """
    λ by generalised cross-validation or restricted maximum likelihood of the local problem.

    All λ share one eigendecomposition. In the metric H + uP, with u such that both weigh about the same, P has shares
    d and H shares e = 1 − d, and H + λP is e + (λ/u)d: accurate for small λ and for large ones.
    """
    k = penalty.shape[0]
    unit = float(np.trace(problem.curvature)) / float(np.trace(penalty))
    metric = problem.curvature + unit * penalty
    metric[np.diag_indices(k)] += 1e-12 * float(np.trace(metric)) / k
    lower = np.linalg.cholesky(metric)
    half = np.linalg.solve(lower, unit * penalty)
    d, axes = np.linalg.eigh(np.linalg.solve(lower, half.T))
    d = np.clip(d, 0.0, 1.0)
    d[:2] = 0.0  # straight lines
    e, tries = 1.0 - d, 10.0 ** np.linspace(-6.0, 5.0, 111)
    q = axes.T @ np.linalg.solve(lower, problem.pull)
    grown = e + np.outer(tries, d)
    a = q / grown
    if criterion == "gcv":
        squares = problem.square - 2.0 * (a @ q) + (a**2) @ e
        freedom = (e / grown).sum(axis=1)
        score = count * np.log(np.maximum(squares, TINY) / np.maximum(count - freedom, 1e-3) ** 2)
    else:
        fit = problem.square - a @ q
        logs = np.log(grown).sum(axis=1) - (k - 2) * np.log(tries)
        score = fit + logs if link == "logit" else (count - 2.0) * np.log(np.maximum(fit, TINY)) + logs
    # where the criterion is flat, as on the way to a straight line, rounding must not decide: the smoothest wins
    return unit * float(tries[np.flatnonzero(score <= score.min() + 1e-6)[-1]])


@dataclass(frozen=True)
class SplineFit:
    """Coefficients and the penalty they were found with."""

    beta: FloatArray
    penalty: float


def fit_penalised(
    cells: FitPoints, penalty: FloatArray, smoothing: str | float, link: str, constraint: Constraint, beta: FloatArray
) -> SplineFit:
    """
    Penalised spline under linear constraints: least squares, or constrained IRLS for the logit link.

    Solves local problems until convergence, halving steps that raise the penalised deviance. With "gcv" or
    "reml", λ is chosen anew in each of the first steps and then kept.
    """
    unit = float(np.trace(local_problem(cells, beta, link).curvature)) / float(np.trace(penalty))
    # beyond 1e8 units a spline is as straight as it can be, and the numbers only get worse
    chosen = min(smoothing, 1e8 * unit) if isinstance(smoothing, float) else 0.0
    for step in range(_STEPS):
        problem = local_problem(cells, beta, link)
        if isinstance(smoothing, str) and step < _CHOICES:
            chosen = choose_penalty(problem, penalty, smoothing, link, cells.count)
        curvature = problem.curvature + chosen * penalty
        curvature[np.diag_indices(beta.size)] += 1e-10 * float(np.trace(problem.curvature)) / beta.size
        new = constraint.solve(curvature, problem.pull)
        if link == "identity":
            return SplineFit(new, chosen)
        new = _damp_step(cells, penalty, chosen, beta, new)
        change = float(np.abs(new - beta).max())
        beta = new
        if change <= 1e-9 * (1.0 + float(np.abs(beta).max())):
            break
    return SplineFit(beta, chosen)


def _damp_step(cells: FitPoints, penalty: FloatArray, smoothing: float, old: FloatArray, new: FloatArray) -> FloatArray:
    """The new coefficients, or a point on the way to them that is no worse than the old."""

    def objective(beta: FloatArray) -> float:
        return deviance(cells, beta) + 0.5 * smoothing * float(beta @ penalty @ beta)

    before, share = objective(old), 1.0
    while share > 1e-4 and objective(old + share * (new - old)) > before + 1e-10 * (1.0 + abs(before)):
        share *= 0.5
    return old + share * (new - old)
