"""Maps of several classes at once: vector, matrix, Dirichlet and polynomial maps of log-probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scoreprism._core.numerics import BELOW_ONE
from scoreprism._core.simplex import FloatArray, as_matrix, clip_law
from scoreprism._kernels.softmax import fit_softmax, log_softmax
from scoreprism._maps.binary_map import Affine, BetaCurve, BinaryMap, Chart, Cubics, Curve, LogLine
from scoreprism._maps.formula import Term
from scoreprism._maps.parts import Part, require
from scoreprism._validation import parse_count, parse_number
from scoreprism.calibrators._base import Calibrator
from scoreprism.calibrators._data import Data, Map, log_law, smallest


def centered(logs: FloatArray) -> FloatArray:
    """Log-probabilities minus their mean over classes: what a softmax can see of them."""
    rest: FloatArray = logs - logs.mean(axis=1, keepdims=True)
    return rest


@dataclass(frozen=True)
class SoftmaxMap(Part):
    """softmax(features · weights), the last row of weights being the intercepts, at least `floor` from 0."""

    tag = "softmax"

    kind: str
    features: str
    weights: FloatArray
    low: float
    floor: float

    def check(self) -> None:
        require(self.features in FEATURES, "SoftmaxMap.features", f"one of the values {', '.join(FEATURES)}")
        require(
            self.weights.ndim == 2 and 0 <= self.floor < 0.5, "SoftmaxMap", "a table of weights and a floor below 1/2"
        )

    def shape(self, k: int) -> tuple[int, int]:
        """The shape of the weights for so many classes."""
        return 1 + k + (k * (k + 1) // 2 if self.features == "squares" else 0), k

    def logs(self, score: FloatArray) -> FloatArray:
        """Fitted log-probabilities."""
        z = FEATURES[self.features](log_law(score, self.kind, self.low))
        return log_softmax(z @ self.weights[:-1] + self.weights[-1])

    def __call__(self, score: FloatArray) -> FloatArray:
        law = np.exp(self.logs(score))
        law = np.minimum(clip_law(law, self.floor), BELOW_ONE) if self.floor > 0.0 else law
        return law[:, 1].copy() if score.ndim == 1 else law

    def formula(self, score: Term) -> Term:
        """Two classes: the difference of the two lines, as a map of one score."""
        slopes = self.weights[:, 1] - self.weights[:, 0]
        if self.features == "log" and self.kind == "probability":
            line = LogLine(slopes[1], slopes[0], slopes[-1], self.low)
            return BinaryMap(Chart(self.kind, "probability"), line, "logit", clip=self.floor).formula(score)
        if self.features == "log":
            curve: Curve = BetaCurve(slopes[1], -slopes[0], slopes[-1])
        else:  # both centred log-probabilities are half the logit, one with a minus
            bend = (slopes[2] - slopes[3] + slopes[4]) / (4.0 * _FARTHEST) if self.features == "squares" else 0.0
            curve = _parabola(bend, 0.5 * (slopes[1] - slopes[0]), slopes[-1], cut=self.features == "squares")
        map_ = BinaryMap(Chart(self.kind, "logit"), curve, "logit", clip=self.floor)
        if self.kind == "logit":
            return map_.formula(score)
        cut = LogLine(1.0, -1.0, 0.0, self.low).formula(score)  # the logit, cut as the fit cut it
        return map_.formula(score, coordinate=cut)


def _parabola(bend: float, slope: float, intercept: float, *, cut: bool) -> Curve:
    """bend·x² + slope·x + intercept, constant beyond ±2·`_FARTHEST` if it is cut there."""
    if not cut:
        return Affine(slope, intercept)
    end = 2.0 * _FARTHEST
    first, last = ((bend * x + slope) * x + intercept for x in (-end, end))
    third = 2.0 * end / 3.0
    inner = first + third * (slope - 2.0 * bend * end), last - third * (slope + 2.0 * bend * end)
    return Cubics(np.array([-end, end]), np.array([[first, *inner, last]]), "constant")


def squares(logs: FloatArray) -> FloatArray:
    """Centred log-probabilities, their squares and products."""
    z = np.clip(centered(logs), -_FARTHEST, _FARTHEST)
    first, second = np.triu_indices(z.shape[1])
    return np.column_stack([z, z[:, first] * z[:, second] / _FARTHEST])


#: Log-ratios beyond this are cut before they are squared.
_FARTHEST = 10.0
#: What a softmax map may see of log-probabilities.
FEATURES = {"centered": centered, "log": lambda logs: logs, "squares": squares}


def _floor(law: FloatArray, total: float) -> float:
    """As `BinaryMap.floored`: 1/(2n), or the smallest fitted probability where it is smaller, but not below 1/(2n)²."""
    most = min(0.5 / total, 0.5 / law.shape[1])
    return float(min(most, max(law.min(), most**2)))


class _SoftmaxCalibrator(Calibrator):
    """What the maps below share: features, a ridge around the identity, one convex fit."""

    multiclass = True
    _features = "centered"

    ridge: float

    def _fit(self, data: Data) -> Map:
        parse_number(self.ridge, "ridge", "a positive number", lambda v: v > 0.0)
        low = smallest(data)
        logs = log_law(data.score, data.kind, low)
        design = np.column_stack([FEATURES[self._features](logs), np.ones(len(logs))])
        start = np.zeros((design.shape[1], data.k))
        start[: data.k] = np.eye(data.k)
        weights = fit_softmax(design, data.codes, data.weight, start, self._ridges(start, data))
        made = SoftmaxMap(data.kind, self._features, weights, low, 0.0)
        return SoftmaxMap(data.kind, self._features, weights, low, _floor(as_matrix(made(data.score)), data.total))

    def _ridges(self, start: FloatArray, data: Data) -> FloatArray:
        """Penalty of every weight."""
        return np.full(start.shape, self.ridge)

    @property
    def weights_(self) -> FloatArray:
        """Weights of the features, one column per class."""
        return np.array(self._fitted.weights[:-1])

    @property
    def intercepts_(self) -> FloatArray:
        """Intercepts, one per class."""
        return np.array(self._fitted.weights[-1])


class VectorScalingCalibrator(_SoftmaxCalibrator):
    """
    A slope and an intercept for every class: softmax(a_k · z_k + b_k) (Guo et al. 2017).

    z are log-probabilities minus their mean over the classes, which is all that logits and a softmax have in common.

    Parameters
    ----------
    ridge : float, default=0.01
        ½·ridge·Σ[(a_k − 1)² + b_k²] is added to the negative log-likelihood, which keeps the fit finite.
    kind : {"probability", "logit"}, default="probability"
        What scores are.

    Attributes
    ----------
    weights_ : array of shape (K, K)
        Slopes, on the diagonal.
    intercepts_ : array of shape (K,)
        Intercepts.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.calibrators import VectorScalingCalibrator
    >>> rng = np.random.default_rng(0)
    >>> law = rng.dirichlet([1, 1, 1], 4000)
    >>> y = (rng.random(4000)[:, None] > law.cumsum(axis=1)).sum(axis=1)
    >>> sharp = law**2 / (law**2).sum(axis=1, keepdims=True)          # twice too confident
    >>> VectorScalingCalibrator().fit(sharp, y).weights_.diagonal().round(1)
    array([0.5, 0.5, 0.5])
    """

    name = "vector-scaling"

    def __init__(self, *, ridge: float = 0.01, kind: str = "probability") -> None:
        self.ridge = ridge
        self.kind = kind

    def _fit(self, data: Data) -> Map:
        ridge = parse_number(self.ridge, "ridge", "a positive number", lambda v: v > 0.0)
        low = smallest(data)
        z = centered(log_law(data.score, data.kind, low))
        start = np.stack([np.ones(data.k), np.zeros(data.k)])
        fit = fit_softmax(z, data.codes, data.weight, start, np.full(start.shape, ridge), diagonal=True)
        weights = np.vstack([np.diag(fit[0]), fit[1]])
        made = SoftmaxMap(data.kind, "centered", weights, low, 0.0)
        return SoftmaxMap(data.kind, "centered", weights, low, _floor(as_matrix(made(data.score)), data.total))


class MatrixScalingCalibrator(_SoftmaxCalibrator):
    """
    A full matrix on the log-ratios: softmax(W z + b), with a ridge that pulls W to the identity (Guo et al. 2017).

    z are log-probabilities minus their mean, so nothing depends on a reference class or on the constant of a softmax.

    Parameters
    ----------
    ridge : float, default=1.0
        ½·ridge·(‖W − I‖² + ‖b‖²) is added to the negative log-likelihood.
    kind : {"probability", "logit"}, default="probability"
        What scores are.

    Attributes
    ----------
    weights_ : array of shape (K, K)
        Wᵀ: one column per class.
    intercepts_ : array of shape (K,)
        Intercepts.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.calibrators import MatrixScalingCalibrator
    >>> rng = np.random.default_rng(0)
    >>> law = rng.dirichlet([1, 1, 1], 4000)
    >>> y = (rng.random(4000)[:, None] > law.cumsum(axis=1)).sum(axis=1)
    >>> swapped = law[:, [1, 0, 2]]                                   # two columns in the wrong order
    >>> matrix = MatrixScalingCalibrator().fit(swapped, y)
    >>> bool(np.abs(matrix.predict_proba(swapped) - law).mean() < 0.02)
    True
    """

    name = "matrix-scaling"

    def __init__(self, *, ridge: float = 1.0, kind: str = "probability") -> None:
        self.ridge = ridge
        self.kind = kind


class DirichletCalibrator(_SoftmaxCalibrator):
    """
    Dirichlet calibration: softmax(W log p + b), off-diagonal weights and intercepts shrunken (Kull et al. 2019).

    The map if scores are Dirichlet distributed within each class. The penalty is theirs (ODIR): on the mean log loss,
    ``ridge·mean(W_ij², i ≠ j) + ridge_intercept·mean(b_j²)``; the diagonal is free up to a trace.

    Parameters
    ----------
    ridge : float, default=0.001
        Penalty of the off-diagonal weights.
    ridge_intercept : float, default=0.001
        Penalty of the intercepts.
    kind : {"probability", "logit"}, default="probability"
        What scores are.

    Attributes
    ----------
    weights_ : array of shape (K, K)
        Wᵀ: one column per class.
    intercepts_ : array of shape (K,)
        Intercepts.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.calibrators import DirichletCalibrator
    >>> rng = np.random.default_rng(0)
    >>> law = rng.dirichlet([1, 1, 1], 4000)
    >>> y = (rng.random(4000)[:, None] > law.cumsum(axis=1)).sum(axis=1)
    >>> sharp = law**2 / (law**2).sum(axis=1, keepdims=True)
    >>> bool(np.abs(DirichletCalibrator().fit(sharp, y).predict_proba(sharp) - law).mean() < 0.02)
    True
    """

    name = "dirichlet"
    _features = "log"

    def __init__(self, *, ridge: float = 0.001, ridge_intercept: float = 0.001, kind: str = "probability") -> None:
        self.ridge = ridge
        self.ridge_intercept = ridge_intercept
        self.kind = kind

    def _ridges(self, start: FloatArray, data: Data) -> FloatArray:
        other = parse_number(self.ridge_intercept, "ridge_intercept", "a positive number", lambda v: v > 0.0)
        k, total = data.k, data.total
        ridges = np.full(start.shape, 2.0 * total * self.ridge / (k * (k - 1)))
        ridges[:k][np.diag_indices(k)] = 1e-6
        ridges[-1] = 2.0 * total * other / k
        return ridges


class PolynomialCalibrator(_SoftmaxCalibrator):
    """
    Multinomial logistic regression on log-ratios, their squares and products, shrunken to the identity.

    The flexible end of the multiclass maps: it can bend each log-odds. Log-ratios are taken to the mean over classes
    and cut at ±10, so that squares cannot run away.

    Parameters
    ----------
    ridge : float, default=1.0
        ½·ridge·‖weights − identity‖² is added to the negative log-likelihood.
    degree : int, default=2
        1 leaves the squares and products out (then it is matrix scaling).
    kind : {"probability", "logit"}, default="probability"
        What scores are.

    Attributes
    ----------
    weights_ : array of shape (p, K)
        Weights of the log-ratios, then of their squares and products divided by 10.
    intercepts_ : array of shape (K,)
        Intercepts.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.calibrators import PolynomialCalibrator
    >>> rng = np.random.default_rng(0)
    >>> law = rng.dirichlet([1, 1, 1], 4000)
    >>> y = (rng.random(4000)[:, None] > law.cumsum(axis=1)).sum(axis=1)
    >>> bool(np.abs(PolynomialCalibrator().fit(law, y).predict_proba(law) - law).mean() < 0.03)
    True
    """

    name = "polynomial"

    def __init__(self, *, ridge: float = 1.0, degree: int = 2, kind: str = "probability") -> None:
        self.ridge = ridge
        self.degree = degree
        self.kind = kind

    @property
    def _features(self) -> str:  # type: ignore[override]
        return "squares" if parse_count(self.degree, "degree", 1) > 1 else "centered"

    def _fit(self, data: Data) -> Map:
        parse_number(self.degree, "degree", "1 or 2", lambda v: v in (1.0, 2.0))
        return super()._fit(data)
