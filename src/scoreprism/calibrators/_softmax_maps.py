"""Maps of several classes: vector, matrix, Dirichlet and polynomial maps of log-probabilities; one against the rest."""

from __future__ import annotations

from copy import copy
from dataclasses import field, replace
from typing import Any, cast

import numpy as np

from scoreprism._core.checks import parse_count, parse_number
from scoreprism._core.lazy_laws import ClassScores
from scoreprism._core.numerics import log_softmax
from scoreprism._core.simplex import FloatArray
from scoreprism._kernels.softmax import SoftmaxFit, SoftmaxProblem, fit_softmax
from scoreprism._maps.parts import Map
from scoreprism._maps.score_block import ScoreFeatures, find_least_law
from scoreprism._maps.softmax_map import FEATURES, OneVsRestMap, SoftmaxMap, log_law
from scoreprism._sample.fit_rows import FitRows, smallest
from scoreprism.calibrators._calibrator import Calibrator, FittedPart, get_calibrator, number, rules, with_parameters
from scoreprism.calibrators._parametric import TemperatureCalibrator, read_sharpness
from scoreprism.calibrators._stepwise import IsotonicCalibrator

_POSITIVE = number("a positive number", lambda v: v > 0.0)


def _limit_floor(least: float, total: float, k: int) -> float:
    """As `BinaryMap.with_floor`: 1/(2n), or the smallest fitted probability if less, but at least 1/(2n)²."""
    most = min(0.5 / total, 0.5 / k)
    return min(most, max(least, most**2))


def _list_features(data: FitRows, features: str, low: float, *, constant: bool) -> Any:
    """The columns that a map is fitted to: an array, or columns that are computed by blocks."""
    if isinstance(data.score, ClassScores):
        return ScoreFeatures(data.score, low, features, constant)
    columns = FEATURES[features](log_law(data.score, data.kind, low))
    # columns are contiguous: each step of a fit reads all rows of a column
    return np.asfortranarray(np.column_stack([columns, np.ones(len(columns))]) if constant else columns)


class _SoftmaxCalibrator(Calibrator):
    """What the maps below share: features, a ridge around the identity, one convex fit."""

    multiclass = reads_blocks = True
    _rules = rules(ridge=_POSITIVE)
    _features = "centered"
    weights_ = FittedPart("weights", lambda w: np.array(w[:-1]), "Weights of the features, one column per class.")
    intercepts_ = FittedPart("weights", lambda w: np.array(w[-1]), "Intercepts, one per class.")

    ridge: float
    _near: SoftmaxFit | None = None  # a fit to almost the same rows

    def _fit(self, data: FitRows) -> Map:
        low = smallest(data)
        problem = self._problem(data, low)
        theta = fit_softmax(problem, self._near).theta
        fitted = SoftmaxMap(data.kind, self._features, self._spread_out(theta), low, 0.0)
        blockwise = isinstance(data.score, ClassScores)
        least = find_least_law(fitted, data.score) if blockwise else problem.find_least(theta)
        return replace(fitted, floor=_limit_floor(least, data.total, data.k))

    def _share_choices(self, data: FitRows) -> Calibrator:
        """Folds start at the fit to all rows: the minimum is unique, so that only speed depends on where they start."""
        shared = copy(self)
        shared._near = fit_softmax(self._problem(data, smallest(data)))
        return shared

    def _problem(self, data: FitRows, low: float) -> SoftmaxProblem:
        """The loss to be minimised, over weights of the features and, below them, intercepts: a column per class."""
        design = _list_features(data, self._features, low, constant=True)
        start = np.zeros((design.shape[1], data.k))
        start[: data.k] = np.eye(data.k)
        return SoftmaxProblem(design, data.codes, data.weight, start, self._ridges(start, data))

    def _spread_out(self, theta: FloatArray) -> FloatArray:
        """The weights of all features, from those that were fitted."""
        return theta

    def _ridges(self, start: FloatArray, data: FitRows) -> FloatArray:
        """Penalty of every weight."""
        return np.full(start.shape, self.ridge)


@with_parameters
class VectorScalingCalibrator(_SoftmaxCalibrator):
    """
    A slope and an intercept for every class: softmax(a_k · z_k + b_k) (Guo et al. 2017).

    Vector scaling. z are log-probabilities minus their mean over the classes, which is all that logits and a softmax
    have in common.

    Parameters
    ----------
    ridge : float, default=0.01
        ½·ridge·Σ[(a_k − 1)² + b_k²] is added to the negative log-likelihood, which keeps the fit finite.

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

    ridge: float = 0.01
    kind: str = "probability"

    name = "vector-scaling"

    def _problem(self, data: FitRows, low: float) -> SoftmaxProblem:
        features = _list_features(data, self._features, low, constant=False)
        start = np.stack([np.ones(data.k), np.zeros(data.k)])
        return SoftmaxProblem(features, data.codes, data.weight, start, self._ridges(start, data), diagonal=True)

    def _spread_out(self, theta: FloatArray) -> FloatArray:
        return np.vstack([np.diag(theta[0]), theta[1]])


@with_parameters
class MatrixScalingCalibrator(_SoftmaxCalibrator):
    """
    A full matrix on the log-ratios: softmax(W z + b), with a ridge that pulls W to the identity (Guo et al. 2017).

    Matrix scaling. z are log-probabilities minus their mean, so nothing depends on a reference class or on the constant
    of a softmax.

    Parameters
    ----------
    ridge : float, default=1.0
        ½·ridge·(‖W − I‖² + ‖b‖²) is added to the negative log-likelihood.

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

    ridge: float = 1.0
    kind: str = "probability"

    name = "matrix-scaling"
    most_classes = 20


@with_parameters
class StructuredMatrixCalibrator(_SoftmaxCalibrator):
    """
    A full matrix near one temperature, the more so the more classes there are (Berta, Holzmüller, Jordan & Bach 2026).

    softmax(W z + b) as in matrix scaling, with a ridge towards the map of temperature scaling, W = I / T. Weights off
    the diagonal are drawn to 0 by as much as there are pairs of classes, the others by as much as there are classes, so
    that hundreds of classes need no more rows than a few.

    Parameters
    ----------
    ridge : float, default=1.0
        ridge·[K·Σ_k (T·W_kk − 1)² + K(K − 1)·Σ_jk (T·W_jk)² + K·‖b‖²], j ≠ k, is added to the negative log-likelihood.

    Attributes
    ----------
    weights_ : array of shape (K, K)
        Wᵀ: one column per class.
    intercepts_ : array of shape (K,)
        Intercepts.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.calibrators import StructuredMatrixCalibrator
    >>> rng = np.random.default_rng(0)
    >>> law = rng.dirichlet([1, 1, 1], 4000)
    >>> y = (rng.random(4000)[:, None] > law.cumsum(axis=1)).sum(axis=1)
    >>> sharp = law**2 / (law**2).sum(axis=1, keepdims=True)          # twice too confident
    >>> StructuredMatrixCalibrator().fit(sharp, y).weights_.diagonal().round(1)
    array([0.5, 0.5, 0.5])
    """

    ridge: float = 1.0
    kind: str = "probability"

    name = "structured-matrix"
    fewest_classes, most_classes = 21, 256
    rows_per_pair = 0.25  # with fewer there is next to nothing to gain (docs/calibrators.md)

    def _problem(self, data: FitRows, low: float) -> SoftmaxProblem:
        sharpness = read_sharpness(TemperatureCalibrator(kind=data.kind)._fit(data))
        problem, k = super()._problem(data, low), data.k
        each, pairs = 2.0 * self.ridge * k, 2.0 * self.ridge * k * (k - 1)
        ridges = np.full(problem.start.shape, pairs / sharpness**2)
        ridges[:k][np.diag_indices(k)] = each / sharpness**2
        ridges[-1] = each
        return replace(problem, start=sharpness * problem.start, ridge=ridges, is_stiff=True)


@with_parameters
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

    ridge: float = 0.001
    ridge_intercept: float = 0.001
    kind: str = "probability"

    name = "dirichlet"
    _rules = rules(ridge=_POSITIVE, ridge_intercept=_POSITIVE)
    _features = "log"

    def _ridges(self, start: FloatArray, data: FitRows) -> FloatArray:
        k, total = data.k, data.total
        ridges = np.full(start.shape, 2.0 * total * self.ridge / (k * (k - 1)))
        ridges[:k][np.diag_indices(k)] = 1e-6
        ridges[-1] = 2.0 * total * self.ridge_intercept / k
        return ridges


def _parse_degree(value: object, name: str) -> int:
    parse_number(value, name, "1 or 2", lambda v: v in (1.0, 2.0))
    return parse_count(value, name, 1)


@with_parameters
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

    ridge: float = 1.0
    degree: int = 2
    kind: str = "probability"

    name = "polynomial"
    most_classes = 8
    _rules = rules(degree=_parse_degree, ridge=_POSITIVE)

    @property
    def _features(self) -> str:  # type: ignore[override]
        return "squares" if self.degree > 1 else "centered"


def _parse_binary(value: str | Calibrator | None, _name: str) -> Calibrator:
    return (IsotonicCalibrator() if value is None else get_calibrator(value))._parse_parameters()


@with_parameters
class OneVsRestCalibrator(Calibrator):
    """
    A binary map for each class against the others, then divided by the sum.

    Parameters
    ----------
    calibrator : str or Calibrator, optional
        The binary calibrator or its name, copied for each class; by default `IsotonicCalibrator`.

    Notes
    -----
    Dividing by the sum leaves the class-wise calibration that the binary maps achieved only approximately
    intact. With two classes it is the binary calibrator itself.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.calibrators import BetaCalibrator, OneVsRestCalibrator
    >>> rng = np.random.default_rng(0)
    >>> law = rng.dirichlet([1, 1, 1], 4000)
    >>> y = (rng.random(4000)[:, None] > law.cumsum(axis=1)).sum(axis=1)
    >>> rest = OneVsRestCalibrator(BetaCalibrator()).fit(law, y)
    >>> bool(np.abs(rest.predict_proba(law) - law).mean() < 0.02)
    True
    """

    calibrator: str | Calibrator | None = field(default=None, kw_only=False)
    kind: str = "probability"

    name = "one-vs-rest"
    multiclass = True
    _rules = rules(calibrator=_parse_binary)

    @property
    def _deals_rows(self) -> bool:
        return isinstance(self.calibrator, Calibrator) and self.calibrator._deals_rows

    def _fit(self, data: FitRows) -> Map:
        if data.k == 2:
            return self._fit_binary(data)  # type: ignore[no-any-return]
        law = np.exp(log_softmax(data.score)) if data.kind == "logit" else data.score
        hits = [(data.codes == j).astype(np.intp) for j in range(data.k)]
        columns = [np.ascontiguousarray(law[:, j]) for j in range(data.k)]
        parts = [FitRows(s, y, data.weight, 2, "probability") for s, y in zip(columns, hits, strict=True)]
        return OneVsRestMap(data.kind, tuple(self._fit_binary(part) for part in parts))

    def _fit_binary(self, data: FitRows) -> Any:
        return copy(cast("Calibrator", self.calibrator)).set_params(kind=data.kind)._fit(data)
