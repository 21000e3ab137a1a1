"""Parametric maps as M-estimators: their parameters, the equation they solve, and its sandwich."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from scoreprism._core.checks import listed, plain, refuse
from scoreprism._core.numerics import TINY, log_pair, log_softmax
from scoreprism._core.simplex import FloatArray, IntArray, as_matrix, as_vector, one_hot
from scoreprism._kernels.logistic import smoothed_targets
from scoreprism._maps.binary_map import Chart
from scoreprism._maps.softmax_map import FEATURES, log_law
from scoreprism._sample.fit_rows import Data
from scoreprism._sample.sample import Sample
from scoreprism.calibrators import (
    BetaCalibrator,
    Calibrator,
    DirichletCalibrator,
    PlattCalibrator,
    TemperatureCalibrator,
    VectorScalingCalibrator,
)

#: Numbers of a design that are held at a time.
_HELD = 1 << 21
#: |log T| of a temperature that is at its bound.
_FARTHEST = np.log(0.99e6)


class Design(ABC):
    """Derivatives of the log-odds η with respect to the parameters, shape (n, K, p): η = design · parameters."""

    @abstractmethod
    def __call__(self, score: FloatArray) -> FloatArray: ...

    def eta(self, score: FloatArray, theta: FloatArray) -> FloatArray:
        """Log-odds of shape (n, K), where the design itself is not wanted."""
        found: FloatArray = self(score) @ theta
        return found


@dataclass(frozen=True)
class LineDesign(Design):
    """Two classes: functions of the logit of the score; the first class has η = 0."""

    chart: Chart
    columns: tuple[str, ...]

    def __call__(self, score: FloatArray) -> FloatArray:
        x = self.chart(score)
        design = np.zeros((x.size, 2, len(self.columns)))
        for j, name in enumerate(self.columns):
            design[:, 1, j] = _COLUMNS[name](x)
        return design

    def eta(self, score: FloatArray, theta: FloatArray) -> FloatArray:
        x = self.chart(score)
        found = np.zeros((x.size, 2))
        for name, value in zip(self.columns, theta, strict=True):
            found[:, 1] += value * _COLUMNS[name](x)
        return found


#: Functions of a logit that enter the maps of two classes; those of the map through (½, ½) last.
_COLUMNS: dict[str, Callable[[FloatArray], FloatArray | float]] = {
    "one": lambda _: 1.0,
    "logit": lambda x: x,
    "log": lambda x: log_pair(x)[0],
    "log-rest": lambda x: log_pair(x)[1],
    "log-half": lambda x: log_pair(x)[0] + np.log(2.0),
    "log-rest-half": lambda x: log_pair(x)[1] - np.log(2.0),
}


@dataclass(frozen=True)
class TemperedDesign(Design):
    """Log-probabilities, all multiplied by one number."""

    low: float

    def __call__(self, score: FloatArray) -> FloatArray:
        return log_law(score, "probability", self.low)[:, :, None]


@dataclass(frozen=True)
class SoftmaxDesign(Design):
    """Features with a weight for every class, or (diagonal) each class its own."""

    features: str
    low: float
    diagonal: bool

    def __call__(self, score: FloatArray) -> FloatArray:
        logs = log_law(score, "probability", self.low)
        z = FEATURES[self.features](logs)
        n, k = logs.shape
        if self.diagonal:
            design = np.zeros((n, k, 2 * k))
            design[:, np.arange(k), np.arange(k)] = z
            design[:, np.arange(k), k + np.arange(k)] = 1.0
            return design
        wide = np.column_stack([z, np.ones(n)])
        full = np.zeros((n, k, wide.shape[1], k))
        full[:, np.arange(k), :, np.arange(k)] = wide
        return full.reshape(n, k, -1)

    def eta(self, score: FloatArray, theta: FloatArray) -> FloatArray:
        logs = log_law(score, "probability", self.low)
        z, k = FEATURES[self.features](logs), logs.shape[1]
        if self.diagonal:
            lines: FloatArray = z * theta[:k] + theta[k:]
            return lines
        weights = theta.reshape(-1, k)
        found: FloatArray = z @ weights[:-1] + weights[-1]
        return found


@dataclass(frozen=True)
class Scheme:
    """
    The parameters of a map and how they enter it.

    The map is softmax(η) with η = design · parameters (· e^parameter for a temperature, whose parameter is −log T);
    the parameters solve Σ w (target − law) · ∂η = ridge · (parameters − identity). A `growing` ridge is in proportion
    to the weight of all rows, so that every row carries its share.
    """

    names: tuple[str, ...]
    theta: FloatArray
    identity: FloatArray
    ridge: FloatArray
    design: Design
    log: bool = False
    notes: tuple[str, ...] = ()
    growing: bool = False

    def law(self, score: FloatArray, theta: FloatArray | None = None) -> FloatArray:
        """The recalibrated law, shape (n, K)."""
        values = self.theta if theta is None else theta
        return np.exp(log_softmax(self.design.eta(score, np.exp(values) if self.log else values)))

    def blocks(self, score: FloatArray, theta: FloatArray) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
        """Rows, law and ∂η at these parameters, in blocks that fit in memory."""
        k = 2 if score.ndim == 1 else score.shape[1]
        size = max(1, _HELD // (k * theta.size))
        scale = np.exp(theta) if self.log else np.ones(theta.size)
        for start in range(0, score.shape[0], size):
            rows = slice(start, start + size)
            design = self.design(score[rows])
            design *= scale  # the derivative in −log T is the tempered logit itself
            eta = design.sum(axis=2) if self.log else design @ theta
            yield rows, np.exp(log_softmax(eta)), design


# ── from a fitted calibrator to its scheme ──────────────────────────────────────────────────────────


def scheme_of(calibrator: Calibrator, data: Data, labels: tuple[str, ...]) -> Scheme:
    """The scheme of a fitted calibrator, one of `PARAMETRIC`."""
    fitted: Any = calibrator.map_
    if isinstance(calibrator, PlattCalibrator):
        theta = np.array([calibrator.intercept_, calibrator.slope_])
        return _free(("intercept", "slope"), theta, [0.0, 1.0], LineDesign(fitted.chart, ("one", "logit")))
    if isinstance(calibrator, TemperatureCalibrator):
        design = LineDesign(fitted.chart, ("logit",)) if data.k == 2 else TemperedDesign(fitted.low)
        theta = np.array([-np.log(calibrator.temperature_)])
        if not abs(theta[0]) < _FARTHEST:
            refuse(
                "a temperature with a standard error must be inside its bounds, 1e-6 to 1e6",
                plain(calibrator.temperature_),
                "Are these the scores of the other class? A map with a slope, such as Platt's, can turn them around.",
            )
        return _free(("temperature",), theta, [0.0], design, log=True)
    if isinstance(calibrator, BetaCalibrator):
        return _beta(calibrator, fitted)
    return _softmax(calibrator, fitted, data, labels)


#: Maps with standard errors by M-estimation.
PARAMETRIC = (
    "platt",
    "temperature",
    "beta",
    "vector-scaling",
    "matrix-scaling",
    "dirichlet",
    "polynomial",
)


def _free(
    names: tuple[str, ...],
    theta: FloatArray,
    identity: list[float],
    design: Design,
    *,
    log: bool = False,
    notes: tuple[str, ...] = (),
) -> Scheme:
    """A scheme without a ridge."""
    return Scheme(names, theta, np.array(identity), np.zeros(theta.size), design, log, notes)


def _beta(calibrator: BetaCalibrator, fitted: Any) -> Scheme:
    """Coefficients at their bound 0 are left out: they have no standard error."""
    curve = fitted.curve
    if calibrator.parameters == "am":
        table = {"a": ("logit", curve.a, 1.0), "c": ("one", curve.c, 0.0)}
    elif calibrator.parameters == "ab":
        table = {"a": ("log-half", curve.a, 1.0), "b": ("log-rest-half", curve.b, 1.0)}
    else:
        table = {"a": ("log", curve.a, 1.0), "b": ("log-rest", curve.b, 1.0), "c": ("one", curve.c, 0.0)}
    bound = [name for name, (_, value, _) in table.items() if name != "c" and value == 0.0]
    free = {name: entry for name, entry in table.items() if name not in bound}
    notes = (f"{listed(bound)} at the bound 0: the rest is conditional on that",) if bound else ()
    columns, values, identity = zip(*free.values(), strict=True) if free else ((), (), ())
    if not free:
        refuse("a beta map must have a parameter inside its bounds", "all at 0", "Use Platt's map.")
    return _free(tuple(free), np.array(values), list(identity), LineDesign(fitted.chart, columns), notes=notes)


def _softmax(calibrator: Any, fitted: Any, data: Data, labels: tuple[str, ...]) -> Scheme:
    """Vector, matrix, Dirichlet and polynomial maps: a ridge around the identity."""
    weights: FloatArray = fitted.weights
    k = weights.shape[1]
    start = np.zeros(weights.shape)
    start[:k] = np.eye(k)
    note = ("the ridge is part of the equation: intervals are of the penalised parameters",)
    if isinstance(calibrator, VectorScalingCalibrator):
        theta = np.r_[np.diag(weights[:-1]), weights[-1]]
        names = tuple(f"{what} {label}" for what in ("slope", "intercept") for label in labels)
        ridge = np.full(theta.size, float(calibrator.ridge))
        design = SoftmaxDesign(fitted.features, fitted.low, diagonal=True)
        return Scheme(names, theta, np.r_[np.ones(k), np.zeros(k)], ridge, design, notes=note)
    rows = [*(f"weight {i + 1}" for i in range(len(weights) - 1)), "intercept"]
    if len(weights) == k + 1:
        rows = [*(f"weight {label}" for label in labels), "intercept"]
    names = tuple(f"{row} → {label}" for row in rows for label in labels)
    ridge = calibrator._ridges(start, data).ravel()
    design = SoftmaxDesign(fitted.features, fitted.low, diagonal=False)
    growing = isinstance(calibrator, DirichletCalibrator)
    return Scheme(names, weights.ravel(), start.ravel(), ridge, design, notes=note, growing=growing)


# ── the sandwich ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Sandwich:
    """Covariances of the parameters, and the influence of every cluster (a row, without groups) on them."""

    influence: FloatArray
    robust: FloatArray
    model: FloatArray
    factor: float
    clusters: IntArray | None

    def gather(self, rows: FloatArray) -> FloatArray:
        """Sums of rows within clusters."""
        if self.clusters is None:
            return rows
        sums = np.zeros((int(self.clusters.max()) + 1, *rows.shape[1:]))
        np.add.at(sums, self.clusters, rows)
        return sums


def targets_of(calibrator: Calibrator, data: Data) -> tuple[FloatArray, FloatArray | None]:
    """What the map was fitted to, shape (n, K), and the derivative of Platt's targets by the share of events."""
    if not getattr(calibrator, "smooth_targets", False):
        return one_hot(data.codes, data.k), None
    total = data.total
    events = data.rate * total
    slope = np.where(data.codes == 1, total / (events + 2.0) ** 2, total / (total - events + 2.0) ** 2)
    return as_matrix(smoothed_targets(data.y, data.weight)), slope


def sandwich(
    scheme: Scheme, calibrator: Calibrator, data: Data, clusters: IntArray | None, *, small_sample: bool
) -> Sandwich:
    """A⁻¹ B A⁻¹, with B from the rows or clusters, and from the model; A has the ridge in it."""
    weight = np.ones(data.codes.size) if data.weight is None else data.weight
    targets, moving = targets_of(calibrator, data)
    p = scheme.theta.size
    rows, bread, meat, drift = np.empty((weight.size, p)), np.diag(scheme.ridge), np.zeros((p, p)), np.zeros(p)
    for part, law, design in scheme.blocks(data.score, scheme.theta):
        w = weight[part]
        rows[part] = w[:, None] * np.einsum("nk,nkp->np", targets[part] - law, design)
        rest = design - np.einsum("nk,nkp->np", law, design)[:, None]
        flat = rest.reshape(-1, p)
        bread = bread + (flat * (w[:, None] * law).reshape(-1, 1)).T @ flat
        meat += (flat * (w[:, None] ** 2 * law).reshape(-1, 1)).T @ flat
        if moving is not None:
            drift += (w * moving[part]) @ design[:, 1]
    inverse = _inverse(bread, data)
    _require_solved(inverse @ (rows.sum(axis=0) - scheme.ridge * (scheme.theta - scheme.identity)), inverse, calibrator)
    if scheme.growing:
        rows -= (weight / weight.sum())[:, None] * rows.sum(axis=0)
    if moving is not None:  # Platt's targets move with the share of events, which is estimated too
        rows += (weight * (data.y - data.rate) / data.total)[:, None] * drift
    made = Sandwich(rows @ inverse, inverse, inverse @ meat @ inverse, 1.0, clusters)
    influence = made.gather(made.influence)
    scale = np.sqrt(np.maximum(np.diag(meat), TINY))
    seen = int(np.linalg.matrix_rank(meat / np.outer(scale, scale), tol=1e-9, hermitian=True))  # of redundant ones
    units = influence.shape[0]
    if units <= seen:  # fewer than that cannot show how the parameters vary together
        what = "rows" if clusters is None else "groups"
        refuse(f"{what} must be more than parameters", f"{units} {what} and {seen} parameters", "Pass more of them.")
    factor = _factor(weight.size, seen, None if clusters is None else units) if small_sample else 1.0
    return Sandwich(made.influence, factor * influence.T @ influence, made.model, factor, clusters)


def _factor(n: int, p: int, groups: int | None) -> float:
    """n/(n − p) for rows (HC1); G/(G − 1) · (n − 1)/(n − p) for G clusters."""
    return n / (n - p) if groups is None else groups / (groups - 1) * (n - 1) / (n - p)


def _inverse(bread: FloatArray, data: Data) -> FloatArray:
    scale = np.sqrt(np.maximum(np.diag(bread), TINY))
    values, vectors = np.linalg.eigh(bread / np.outer(scale, scale))
    if not values[0] > 1e-12 * values[-1]:
        refuse(
            "the scores must determine every parameter of the map",
            f"{data.codes.size} rows with {np.unique(data.score, axis=0).shape[0]} different scores",
            "Use a map with fewer parameters.",
        )
    inverse: FloatArray = ((vectors / values) @ vectors.T) / np.outer(scale, scale)
    return inverse


def _require_solved(step: FloatArray, inverse: FloatArray, calibrator: Calibrator) -> None:
    """A map must solve its equation on the rows at hand: otherwise it was fitted on others."""
    far = float(np.max(np.abs(step) / np.sqrt(np.diag(inverse))))
    if far > 1e-3:
        refuse(
            "a fitted calibrator must come with the rows it was fitted on",
            f"a {type(calibrator).__name__} that is {plain(far)} standard errors away from its fit on these rows",
            "Pass those rows, or an unfitted calibrator.",
        )


def require_overlap(calibrator: Calibrator) -> None:
    """Separated classes have no maximum, and no standard errors."""
    if getattr(calibrator, "separated_", False):
        refuse(
            "standard errors of a map must have classes that overlap, because parameters are infinite otherwise",
            "scores that separate the classes",
            "Pass more rows.",
        )


# ── the border ──────────────────────────────────────────────────────────────────────────────────────


def require_parametric(chosen: Calibrator) -> None:
    """Refuse what has no standard errors by M-estimation."""
    if chosen.name not in PARAMETRIC:
        refuse(
            f"`calibrator` must be a smooth parametric map, one of {', '.join(PARAMETRIC)}",
            chosen.name,
            "Use a bootstrap for the others.",
        )
    if getattr(chosen, "kind", "probability") != "probability":
        refuse("`calibrator` must take probabilities", "kind='logit'", "Apply scipy.special.expit or softmax first.")


def rows_of_sample(sample: Sample) -> tuple[Data, Any]:
    """The rows, two classes as a vector, with weights that count as rows; and the groups among them."""
    law, groups = sample.prediction, sample.groups
    if groups is not None:
        groups = np.unique(groups, return_inverse=True)[1]
        if groups.max() < 1:
            refuse("`groups` must be at least two", "one group", "Leave groups out, if rows are independent.")
    score = as_vector(law) if sample.k == 2 else law
    return Data(score, sample.y, sample.weight, sample.k, "probability"), groups
