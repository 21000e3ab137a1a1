"""Stacking: a logistic regression of the outcome on the members' probabilities or logits."""

from __future__ import annotations

from typing import Any

import numpy as np

from scoreprism._core.checks import parse_choice, parse_number
from scoreprism._core.numerics import center_logs, clipped_sigmoid, log_softmax
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._findings.finding import Finding, announce
from scoreprism._kernels.logistic import fit_logistic, shrink_targets
from scoreprism._kernels.softmax import SoftmaxProblem, fit_softmax
from scoreprism._maps.binary_map import Chart, logit_chart
from scoreprism._maps.softmax_map import log_law
from scoreprism._sample.fit_rows import FitRows, smallest
from scoreprism.ensembles._combiners import Combiner, is_vanishing, smooth_targets


class Stacking(Combiner):
    """
    Logistic regression of the outcome on the members, multinomial for more than two classes.

    The fitted probabilities use what the members know beyond their average (paper, section 5): they estimate
    C_S = P(Y | S¹, …, Sᴹ) if that is linear on the logit scale. Fit it on rows that neither the members nor a
    later calibrator saw.

    Parameters
    ----------
    on : {"logit", "probability"}, default="logit"
        Features of the regression: logits of the members (for K ≥ 3 log-probabilities minus their mean over the
        classes), or the probabilities themselves.
    C : float, default=np.inf
        Inverse strength of the ridge ``‖coef‖²/(2C)`` added to the summed log loss, as in scikit-learn; none by
        default. The intercept is free.

    Attributes
    ----------
    coef_ : array of shape (1, M) or (K, M·K)
        Coefficients; two classes have one row, that of ``classes_[1]``. Where columns are collinear (the classes of a
        member are), the solution nearest to zero in standardised columns.
    intercept_ : array of shape (1,) or (K,)
        Intercepts.
    separated_ : bool
        Whether smoothed targets were used because the members separate the classes.
    classes_ : array of shape (K,)
        Labels.
    member_names_ : tuple of str
        Members in the order of the columns.

    Notes
    -----
    Logits are finite by the rule of the calibrators: scores of exactly 0 (or 1) are read as a quarter of the smallest
    distance from it among the others, and scores nearer to it than those of the fit are bent towards them; for
    K ≥ 3, zeros as half the smallest positive probability.
    Where the members separate the classes, the likelihood has no maximum (if ``C=np.inf``). Then the fit is to Platt's
    targets, (N_k+1)/(N_k+K) and 1/(N_k+K), `separated_` is set, and a SeparationWarning says so.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.ensembles import Stacking
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(2, 5000))
    >>> y = (rng.random(5000) < 1 / (1 + np.exp(-z.sum(axis=0)))).astype(int)
    >>> stack = Stacking().fit({"a": 1 / (1 + np.exp(-z[0])), "b": 1 / (1 + np.exp(-z[1]))}, y)
    >>> stack.coef_.round(1)
    array([[1., 1.]])
    """

    name = "stacking"

    def __init__(self, *, on: str = "logit", C: float = np.inf) -> None:
        self.on = on
        self.C = C

    def _fit(self, laws: FloatArray, codes: IntArray, weight: FloatArray) -> None:
        on = parse_choice(self.on, ("logit", "probability"), "on")
        k = 2 if laws.ndim == 2 else laws.shape[2]
        self.charts_ = [_make_chart(law, codes, weight, k) for law in laws] if on == "logit" else None
        x = _make_features(laws, self.charts_)
        center = np.average(x, axis=0, weights=weight)
        spread = np.sqrt(np.average((x - center) ** 2, axis=0, weights=weight))
        spread = np.where(spread > 1e-14 * (1.0 + np.abs(center)), spread, np.inf)  # constant columns get coefficient 0
        design = np.column_stack([(x - center) / spread, np.ones(len(x))])
        ridge = np.r_[self._parse_ridge() / spread**2, 0.0]
        fit = _fit_binary if k == 2 else _fit_multinomial
        beta, self.separated_ = fit(design, codes, weight, ridge)
        slopes = beta[:-1] / spread[:, None]
        self.coef_ = slopes.T
        self.intercept_ = beta[-1] - center @ slopes
        if self.separated_:
            announce(Finding("separation", facts={"remedy": "stack"}))

    def _parse_ridge(self) -> float:
        if isinstance(self.C, float) and np.isposinf(self.C):
            return 0.0
        return 1.0 / parse_number(self.C, "C", "a positive number or np.inf", lambda v: v > 0.0)

    def _law(self, laws: FloatArray) -> FloatArray:
        eta = _make_features(laws, self.charts_) @ self.coef_.T + self.intercept_
        return clipped_sigmoid(eta[:, 0]) if eta.shape[1] == 1 else np.exp(log_softmax(eta))


def _make_chart(law: FloatArray, codes: IntArray, weight: FloatArray, k: int) -> Any:
    """What keeps the logits of a member finite: a chart for two classes, the smallest probability for more."""
    data = FitRows(law, codes, weight, k, "probability")
    return logit_chart(law, "probability", data.distance) if k == 2 else smallest(data)


def _make_features(laws: FloatArray, charts: list[Any] | None) -> FloatArray:
    """Features of the regression, shape (n, M) or (n, M·K)."""
    if charts is None:
        return laws.T if laws.ndim == 2 else np.concatenate(list(laws), axis=1)
    columns = [
        chart(law)[:, None] if isinstance(chart, Chart) else center_logs(log_law(law, "probability", chart))
        for law, chart in zip(laws, charts, strict=True)
    ]
    return np.concatenate(columns, axis=1)


def _fit_binary(design: FloatArray, codes: IntArray, weight: FloatArray, ridge: FloatArray) -> tuple[FloatArray, bool]:
    """Coefficients of shape (p, 1), and whether the classes were separated."""
    y = codes.astype(np.float64)
    penalty = np.diag(ridge)
    fit = fit_logistic(design.T, y, weight, penalty=penalty)
    curved = fit.problem.evaluate(fit.coefficients)[2]
    even = (design.T * (0.25 * weight)) @ design + penalty
    if fit.converged and not is_vanishing(curved, even):
        return fit.coefficients[:, None], False
    smooth = fit_logistic(design.T, shrink_targets(y, weight), weight, penalty=penalty)
    return smooth.coefficients[:, None], True


def _fit_multinomial(
    design: FloatArray, codes: IntArray, weight: FloatArray, ridge: FloatArray
) -> tuple[FloatArray, bool]:
    """The same for K classes, shape (p, K)."""
    k = int(codes.max()) + 1
    start = np.zeros((design.shape[1], k))
    ridges = np.broadcast_to(ridge[:, None], start.shape)
    problem = SoftmaxProblem(design, codes, weight, start, ridges)
    beta = fit_softmax(problem).theta
    curved, even = (problem.curvature(b) * problem.total for b in (beta, start))
    if not is_vanishing(curved, even):
        return beta, False
    rows, every, mass = smooth_targets(codes, weight, k)
    return fit_softmax(SoftmaxProblem(design[rows], every, mass, start, ridges)).theta, True
