"""Parametric maps as M-estimators: their parameters, the equation they solve, and its sandwich."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from scoreprism._core.checks import abbreviate, refuse, write_plain
from scoreprism._core.numerics import TINY, log_pair, log_softmax
from scoreprism._core.simplex import FloatArray, IntArray, as_matrix, one_hot
from scoreprism._findings.finding import Finding
from scoreprism._kernels.logistic import shrink_targets
from scoreprism._maps.binary_map import Chart
from scoreprism._maps.softmax_map import FEATURES, log_law
from scoreprism._sample.fit_rows import FitRows
from scoreprism.calibrators import (
    BetaCalibrator,
    Calibrator,
    DirichletCalibrator,
    PlattCalibrator,
    TemperatureCalibrator,
    VectorScalingCalibrator,
)

#: Numbers of a design in memory at a time.
_HELD = 1 << 21
#: |log T| from which a temperature counts as at its bound.
_FARTHEST = np.log(0.99e6)


@dataclass(frozen=True)
class Design:
    """
    Log-odds η that are linear in the parameters, shape (n, K).

    Parameter `links[i, 2]` is the weight of feature `links[i, 0]` in class `links[i, 1]`.
    """

    features: Callable[[FloatArray], FloatArray]  # from scores to a table of shape (n, m)
    links: IntArray
    k: int

    def eta(self, score: FloatArray, theta: FloatArray) -> FloatArray:
        """Log-odds at these parameters."""
        z, (feature, k, parameter) = self.features(score), self.links.T
        weights = np.zeros((z.shape[1], self.k))
        weights[feature, k] = theta[parameter]
        eta: FloatArray = z @ weights
        return eta

    def gradient(self, score: FloatArray, count: int) -> FloatArray:
        """Derivatives of the log-odds with respect to `count` parameters, shape (n, K, p)."""
        z, (feature, k, parameter) = self.features(score), self.links.T
        derivatives = np.zeros((z.shape[0], self.k, count))
        derivatives[:, k, parameter] = z[:, feature]
        return derivatives


def _make_line_design(chart: Chart, columns: tuple[str, ...]) -> Design:
    """Two classes: functions of the logit of the score; the first class has η = 0."""
    number = np.arange(len(columns))
    return Design(partial(_line_features, chart, columns), np.stack([number, np.ones_like(number), number], axis=1), 2)


def _line_features(chart: Chart, columns: tuple[str, ...], score: FloatArray) -> FloatArray:
    x = chart(score)
    return np.column_stack([_COLUMNS[name](x) for name in columns])


#: Functions of a logit that enter the maps of two classes; those of the map through (½, ½) last.
_COLUMNS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "one": np.ones_like,
    "logit": lambda x: x,
    "log": lambda x: log_pair(x)[0],
    "log-rest": lambda x: log_pair(x)[1],
    "log-half": lambda x: log_pair(x)[0] + np.log(2.0),
    "log-rest-half": lambda x: log_pair(x)[1] - np.log(2.0),
}


def _make_tempered_design(low: float, k: int) -> Design:
    """Log-probabilities, all multiplied by one parameter."""
    number = np.arange(k)
    return Design(partial(_softmax_features, "log", low), np.stack([number, number, np.zeros_like(number)], axis=1), k)


def _make_softmax_design(features: str, low: float, shape: tuple[int, int], *, diagonal: bool) -> Design:
    """Features and a constant with weights for every class, or (diagonal) one feature for each class."""
    feature, k = np.indices(shape).reshape(2, -1)
    if diagonal:
        own = (feature == k) | (feature == shape[0] - 1)
        feature, k = feature[own], k[own]
    links = np.stack([feature, k, np.arange(k.size)], axis=1)
    return Design(partial(_softmax_features, features, low), links, shape[1])


def _softmax_features(features: str, low: float, score: FloatArray) -> FloatArray:
    logs = log_law(score, "probability", low)
    return np.column_stack([FEATURES[features](logs), np.ones(logs.shape[0])])


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
    findings: tuple[Finding, ...] = ()
    growing: bool = False

    def law(self, score: FloatArray, theta: FloatArray | None = None) -> FloatArray:
        """Recalibrated probabilities, shape (n, K)."""
        values = self.theta if theta is None else theta
        return np.exp(log_softmax(self.design.eta(score, np.exp(values) if self.log else values)))

    def blocks(self, score: FloatArray, theta: FloatArray) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
        """Rows, probabilities and ∂η at these parameters, in blocks that fit in memory."""
        k = 2 if score.ndim == 1 else score.shape[1]
        size = max(1, _HELD // (k * theta.size))
        scale = np.exp(theta) if self.log else np.ones(theta.size)
        for start in range(0, score.shape[0], size):
            rows = slice(start, start + size)
            design = self.design.gradient(score[rows], theta.size)
            design *= scale  # the derivative in −log T is the tempered logit itself
            eta = design.sum(axis=2) if self.log else design @ theta
            yield rows, np.exp(log_softmax(eta)), design


# ── from a fitted calibrator to its scheme ──────────────────────────────────────────────────────────


def make_scheme(calibrator: Calibrator, data: FitRows, labels: tuple[str, ...]) -> Scheme:
    """The scheme of a fitted calibrator, one of `PARAMETRIC`."""
    fitted: Any = calibrator.map_
    if isinstance(calibrator, PlattCalibrator):
        theta = np.array([calibrator.intercept_, calibrator.slope_])
        return _make_free_scheme(
            ("intercept", "slope"), theta, [0.0, 1.0], _make_line_design(fitted.chart, ("one", "logit"))
        )
    if isinstance(calibrator, TemperatureCalibrator):
        design = (
            _make_line_design(fitted.chart, ("logit",)) if data.k == 2 else _make_tempered_design(fitted.low, data.k)
        )
        theta = np.array([-np.log(calibrator.temperature_)])
        if not abs(theta[0]) < _FARTHEST:
            refuse(
                "a temperature with a standard error must be inside its bounds, 1e-6 to 1e6",
                write_plain(calibrator.temperature_),
                "Are these the scores of the other class? A map with a slope, such as Platt's, can turn them around.",
            )
        return _make_free_scheme(("temperature",), theta, [0.0], design, log=True)
    if isinstance(calibrator, BetaCalibrator):
        return _make_beta_scheme(calibrator, fitted)
    return _make_softmax_scheme(calibrator, fitted, data, labels)


#: Maps with standard errors by M-estimation.
PARAMETRIC = ("platt", "temperature", "beta", "vector-scaling", "matrix-scaling", "dirichlet", "polynomial")


def _make_free_scheme(
    names: tuple[str, ...],
    theta: FloatArray,
    identity: list[float],
    design: Design,
    *,
    log: bool = False,
    findings: tuple[Finding, ...] = (),
) -> Scheme:
    """A scheme without a ridge."""
    return Scheme(names, theta, np.array(identity), np.zeros(theta.size), design, log, findings)


def _make_beta_scheme(calibrator: BetaCalibrator, fitted: Any) -> Scheme:
    """The scheme of a beta map, without coefficients at their bound 0, which have no standard error."""
    curve = fitted.curve
    if calibrator.parameters == "am":
        table = {"a": ("logit", curve.a, 1.0), "c": ("one", curve.c, 0.0)}
    elif calibrator.parameters == "ab":
        table = {"a": ("log-half", curve.a, 1.0), "b": ("log-rest-half", curve.b, 1.0)}
    else:
        table = {"a": ("log", curve.a, 1.0), "b": ("log-rest", curve.b, 1.0), "c": ("one", curve.c, 0.0)}
    bound = [name for name, (_, value, _) in table.items() if name != "c" and value == 0.0]
    free = {name: entry for name, entry in table.items() if name not in bound}
    findings = (Finding("assumption", subject=abbreviate(bound), facts={"of": "at_bound"}),) if bound else ()
    columns, values, identity = zip(*free.values(), strict=True) if free else ((), (), ())
    if not free:
        refuse("a beta map must have a parameter inside its bounds", "all at 0", "Use Platt's map.")
    return _make_free_scheme(
        tuple(free), np.array(values), list(identity), _make_line_design(fitted.chart, columns), findings=findings
    )


def _make_softmax_scheme(calibrator: Any, fitted: Any, data: FitRows, labels: tuple[str, ...]) -> Scheme:
    """The scheme of vector, matrix, Dirichlet and polynomial maps, with a ridge around the identity."""
    weights: FloatArray = fitted.weights
    k = weights.shape[1]
    start = np.zeros(weights.shape)
    start[:k] = np.eye(k)
    ridged = (Finding("assumption", facts={"of": "ridge"}),)
    if isinstance(calibrator, VectorScalingCalibrator):
        theta = np.r_[np.diag(weights[:-1]), weights[-1]]
        names = tuple(f"{what} {label}" for what in ("slope", "intercept") for label in labels)
        ridge = np.full(theta.size, float(calibrator.ridge))
        design = _make_softmax_design(fitted.features, fitted.low, (k + 1, k), diagonal=True)
        return Scheme(names, theta, np.r_[np.ones(k), np.zeros(k)], ridge, design, findings=ridged)
    rows = [*(f"weight {i + 1}" for i in range(len(weights) - 1)), "intercept"]
    if len(weights) == k + 1:
        rows = [*(f"weight {label}" for label in labels), "intercept"]
    names = tuple(f"{row} → {label}" for row in rows for label in labels)
    ridge = calibrator._ridges(start, data).ravel()
    design = _make_softmax_design(fitted.features, fitted.low, weights.shape, diagonal=False)
    growing = isinstance(calibrator, DirichletCalibrator)
    return Scheme(names, weights.ravel(), start.ravel(), ridge, design, findings=ridged, growing=growing)


# ── the sandwich ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Sandwich:
    """Covariances of the parameters, the influence of every row on them, and the cluster of every row."""

    influence: FloatArray
    robust: FloatArray
    model: FloatArray
    factor: float
    clusters: IntArray | None


def sum_clusters(rows: FloatArray, clusters: IntArray | None) -> FloatArray:
    """Sums of rows within clusters; the rows themselves without clusters."""
    if clusters is None:
        return rows
    sums = np.zeros((int(clusters.max()) + 1, *rows.shape[1:]))
    np.add.at(sums, clusters, rows)
    return sums


def find_targets(calibrator: Calibrator, data: FitRows) -> tuple[FloatArray, FloatArray | None]:
    """Targets of the fit, shape (n, K), and the derivative of Platt's targets by the share of events."""
    if not getattr(calibrator, "smooth_targets", False):
        return one_hot(data.codes, data.k), None
    total = data.total
    events = data.rate * total
    slope = np.where(data.codes == 1, total / (events + 2.0) ** 2, total / (total - events + 2.0) ** 2)
    return as_matrix(shrink_targets(data.y, data.weight)), slope


def make_sandwich(
    scheme: Scheme, calibrator: Calibrator, data: FitRows, clusters: IntArray | None, *, small_sample: bool
) -> Sandwich:
    """A⁻¹ B A⁻¹, with B from the rows or clusters, and from the model; A includes the ridge."""
    weight = np.ones(data.codes.size) if data.weight is None else data.weight
    targets, moving = find_targets(calibrator, data)
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
    inverse = _invert(bread, data)
    _require_solved(inverse @ (rows.sum(axis=0) - scheme.ridge * (scheme.theta - scheme.identity)), inverse, calibrator)
    if scheme.growing:
        rows -= (weight / weight.sum())[:, None] * rows.sum(axis=0)
    if moving is not None:  # Platt's targets move with the share of events, which is estimated too
        rows += (weight * (data.y - data.rate) / data.total)[:, None] * drift
    by_row = rows @ inverse
    influence = sum_clusters(by_row, clusters)
    scale = np.sqrt(np.maximum(np.diag(meat), TINY))
    rank = int(np.linalg.matrix_rank(meat / np.outer(scale, scale), tol=1e-9, hermitian=True))  # some are redundant
    units = influence.shape[0]
    if units <= rank:  # too few to estimate the covariance of the parameters
        what = "rows" if clusters is None else "groups"
        refuse(f"{what} must be more than parameters", f"{units} {what} and {rank} parameters", "Pass more of them.")
    factor = _find_factor(weight.size, rank, None if clusters is None else units) if small_sample else 1.0
    return Sandwich(by_row, factor * influence.T @ influence, inverse @ meat @ inverse, factor, clusters)


def _find_factor(n: int, p: int, groups: int | None) -> float:
    """n/(n − p) for rows (HC1); G/(G − 1) · (n − 1)/(n − p) for G clusters."""
    return n / (n - p) if groups is None else groups / (groups - 1) * (n - 1) / (n - p)


def _invert(bread: FloatArray, data: FitRows) -> FloatArray:
    """The inverse; refused where the scores do not determine every parameter."""
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
    """Refuse a map that does not solve its equation on these rows: it was fitted on others."""
    far = float(np.max(np.abs(step) / np.sqrt(np.diag(inverse))))
    if far > 1e-3:
        refuse(
            "a fitted calibrator must come with the rows it was fitted on",
            f"a {type(calibrator).__name__} that is {write_plain(far)} standard errors away from its fit on these rows",
            "Pass those rows, or an unfitted calibrator.",
        )
