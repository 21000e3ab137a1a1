"""Fitted combiners: their base class, and pools whose parameters minimise the log loss."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from scoreprism._core.checks import (
    abbreviate,
    parse_law,
    parse_number,
    parse_weights,
    refuse,
    require_rows,
    write_plain,
)
from scoreprism._core.frames import column_names, columns_of, require_aligned
from scoreprism._core.labels import code_labels
from scoreprism._core.numerics import FINEST_EDGE, TINY, center_logs, log_softmax, scaled_axes
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray, as_matrix, one_hot
from scoreprism._core.workers import limit_threads
from scoreprism._findings.finding import Finding, announce
from scoreprism._maps.softmax_map import log_law
from scoreprism._sample.fit_rows import FitRows, smallest, warn_of_reversed_scores
from scoreprism._sample.parse_scores import check_column_names, class_labels
from scoreprism.ensembles._members import Members, parse_members
from scoreprism.ensembles._pools import beta_cdf, pool_linearly, require_two
from scoreprism.exceptions import InfiniteLossError, LabelError

#: Bounds on log α and log β of a beta-transformed pool, beyond which it is a step function.
_FARTHEST = 5.0
#: Rows of the rough first fit to many rows.
_FEW = 4096
#: Curvature below this share of that at even odds counts as zero: the likelihood has no maximum in that direction.
_FLAT = 1e-8


class Combiner(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """
    A model of the outcome given the probabilities of several members.

    A scikit-learn classifier that takes members in any form of `average`, and as the `final_estimator` of a
    scikit-learn ``StackingClassifier`` their columns side by side: (n, M) for two classes, (n, M·K) for more.

    Examples
    --------
    >>> from scoreprism.ensembles import Stacking
    >>> isinstance(Stacking(), Combiner)
    True
    """

    #: The name under which `COMBINERS` knows the combiner.
    name: ClassVar[str]

    classes_: NDArray[Any]
    member_names_: tuple[str, ...]
    n_features_in_: int

    @abstractmethod
    def _fit(self, laws: FloatArray, codes: IntArray, weight: FloatArray) -> None:
        """Set the fitted attributes; parameters are checked here."""

    @abstractmethod
    def _law(self, laws: FloatArray) -> FloatArray:
        """The pooled law, (n,) for two classes."""

    def fit(self, scores: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Combiner:
        """
        Fit the combiner.

        Parameters
        ----------
        scores : mapping, frame, sequence or array
            Members on held-out rows: name → probabilities of shape (n,) or (n, K); a list of them; an array of
            shape (n, M, K); or their columns side by side, (n, M) for two classes and (n, M·K) for more.
        y : array-like of shape (n,)
            Outcomes; any labels. One probability per member is that of the label that sorts last.
        sample_weight : array-like of shape (n,), optional
            Nonnegative weights; a row of weight 2 counts as two rows. Weights whose sum cannot be a number of rows
            (below 2⁻⁵³ or above 2⁵³) are scaled to sum to it, with a warning.

        Returns
        -------
        Combiner
            The combiner itself.
        """
        self.__dict__.pop("classes_", None)  # a failed fit must not leave parts of the previous one
        labels = class_labels(y, type(self).__name__)
        require_aligned({"y": y, "scores": scores, "sample_weight": sample_weight} | _name_parts(scores))
        weight = parse_weights(sample_weight, labels.shape[0], "y", as_rows=True)
        used = np.arange(labels.shape[0]) if weight is None else np.flatnonzero(weight)
        classes, codes = code_labels(labels[used], "y")
        if classes.size < 2:
            refuse(
                "`y` must hold at least two classes",
                f"one class, {write_plain(classes[0])}",
                "Use other rows.",
                LabelError,
            )
        members = _split_columns(scores, classes.size) or parse_members(scores)
        require_rows(labels.shape[0], members.n, "y", "scores")
        _check_classes(members, classes)
        laws = members.scores[:, used]
        mass = np.ones(used.size) if weight is None else weight[used]
        if classes.size == 2:
            warn_of_reversed_scores(FitRows(laws.mean(axis=0), codes, mass, 2, "probability"), classes)
        self._fit(laws, codes, mass)
        self.member_names_, self._named = members.names, members.named
        self.n_features_in_ = len(members) * (1 if members.k == 2 else members.k)
        self.__dict__.pop("feature_names_in_", None)
        if members.named and members.k == 2:
            self.feature_names_in_ = np.array(members.names, dtype=object)
        self.classes_ = classes
        return self

    def predict_proba(self, scores: ArrayLike) -> FloatArray:
        """
        Probabilities of the combined members.

        Parameters
        ----------
        scores : mapping, frame, sequence or array
            The members of the fit: by name if they have names, otherwise in the same order.

        Returns
        -------
        array of shape (n, K)
            One column per entry of ``classes_``.
        """
        check_is_fitted(self)
        members = _split_by_width(scores, len(self.member_names_), len(self.classes_)) or parse_members(scores)
        same = self._match_members(members)
        _check_classes(same, self.classes_)
        return as_matrix(self._law(same.scores))

    def predict(self, scores: ArrayLike) -> NDArray[Any]:
        """
        The most probable class.

        Parameters
        ----------
        scores : mapping, frame, sequence or array
            The members that were fitted.

        Returns
        -------
        array of shape (n,)
            Labels.
        """
        best = self.predict_proba(scores).argmax(axis=1)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    # ── the border ──────────────────────────────────────────────────────────────────────────────────

    def _match_members(self, members: Members) -> Members:
        """The members in the order of the fit."""
        if len(members) != len(self.member_names_):
            refuse(
                f"`scores` must have the {len(self.member_names_)} members of the fit",
                f"{len(members)}",
                f"Pass {abbreviate(self.member_names_)}.",
            )
        if members.k != len(self.classes_):
            refuse(
                f"`scores` must have {len(self.classes_)} classes, as in fit", f"{members.k}", "Pass the same columns."
            )
        if not (members.named and self._named) or members.names == self.member_names_:
            return members
        if set(members.names) != set(self.member_names_):
            refuse(
                f"`scores` must have the members of the fit, {abbreviate(self.member_names_)}",
                abbreviate(members.names),
                "Name them alike, or pass a list in the same order.",
            )
        return members.reorder(self.member_names_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # its score is limited by its members
        return tags


def _name_parts(scores: Any) -> dict[str, Any]:
    """Members that may have their own index."""
    return {f"scores[{key!r}]": part for key, part in scores.items()} if isinstance(scores, Mapping) else {}


def _check_classes(members: Members, classes: NDArray[Any]) -> None:
    """One column per class, in sorted order where the columns have the names of the labels."""
    if members.k != classes.size:
        refuse(
            "members must have one probability per class in y",
            f"{members.k} classes in scores and {classes.size} in y: {abbreviate(map(write_plain, classes))}",
            "Pass one column per class that occurs in y.",
            LabelError,
        )
    check_column_names(members.classes, classes)


def _read_table(scores: Any) -> tuple[FloatArray, tuple[Any, ...] | None] | None:
    """A table of numbers and the names of its columns; None for mappings, lists and anything else."""
    if isinstance(scores, (Mapping, list, tuple)) or hasattr(scores, "predict_proba"):
        return None
    columns = columns_of(scores)
    if columns is not None:
        table = np.column_stack([parse_law(column, f"scores[:, {j}]") for j, column in enumerate(columns)])
        return table, column_names(scores)
    table = np.asarray(scores)
    return (table, None) if table.ndim in (2, 3) and table.dtype.kind in "fiub" else None


def _split_columns(scores: Any, k: int) -> Members | None:
    """Columns of members side by side, M·K of them, as scikit-learn's stacking has them for K ≥ 3 classes."""
    parts = _read_table(scores) if k > 2 else None
    if parts is None or parts[0].ndim != 2:
        return None
    width = parts[0].shape[1]
    if width % k or width < 2 * k:
        refuse(
            f"a table of members must have {k} columns for each of at least two members",
            f"shape {parts[0].shape} and {k} classes in y",
            "Pass the columns of all classes side by side, or a list of members.",
        )
    return _split_blocks(parts[0], k)


def _split_blocks(table: FloatArray, k: int) -> Members:
    return parse_members([table[:, start : start + k] for start in range(0, table.shape[1], k)])


def _split_by_width(scores: Any, m: int, k: int) -> Members | None:
    """Members of a table as wide as the one in fit, so that nothing needs to be guessed from its rows."""
    parts = _read_table(scores)
    if parts is None:
        return None
    table, names = parts
    if table.ndim == 3:
        return parse_members(list(np.swapaxes(table, 0, 1)))
    width = m if k == 2 else m * k
    if table.shape[1] != width:
        refuse(f"`scores` must have {width} columns, as in fit", f"{table.shape[1]}", "Pass the members of the fit.")
    if k > 2:
        return _split_blocks(table, k)
    if names is None:
        return parse_members(list(table.T))
    return parse_members({str(name): column for name, column in zip(names, table.T, strict=True)})


# ── pools that are learned ──────────────────────────────────────────────────────────────────────────


class LinearPool(Combiner):
    """
    The linear pool with the weights of the smallest log loss.

    Attributes
    ----------
    weights_ : array of shape (M,)
        Nonnegative, sum one.
    classes_ : array of shape (K,)
        Labels.
    member_names_ : tuple of str
        Members in the order of the weights.

    Notes
    -----
    A convex problem. At its solution every member with weight has ``mean(p_m(y) / p_pool(y)) = 1`` on the rows of
    the fit, and no other member has more. A linear pool cannot be sharper than its sharpest member: where members are
    calibrated and differ, it stays underconfident, and `BetaTransformedPool`, `LogPool` or `Stacking` correct that.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.ensembles import LinearPool
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(2000)
    >>> y = (rng.random(2000) < p).astype(int)
    >>> LinearPool().fit({"good": p, "noise": rng.random(2000)}, y).weights_.round(1)
    array([1., 0.])
    """

    name = "fitted-linear-pool"

    def _fit(self, laws: FloatArray, codes: IntArray, weight: FloatArray) -> None:
        self.weights_ = find_best_shares(find_observed_probabilities(laws, codes), weight)

    def _law(self, laws: FloatArray) -> FloatArray:
        return pool_linearly(laws, self.weights_)


class LogPool(Combiner):
    """
    The logarithmic pool with the nonnegative weights of the smallest log loss.

    Attributes
    ----------
    weights_ : array of shape (M,)
        Nonnegative exponents with any sum; it exceeds one if the members together know more than each alone.
    separated_ : bool
        Whether smoothed targets were used because the members separate the classes.
    classes_ : array of shape (K,)
        Labels.
    member_names_ : tuple of str
        Members in the order of the weights.

    Notes
    -----
    A convex problem: `Stacking` on logits without intercept, one weight per member for all classes, none negative.
    Zeros do not veto: they count as half the smallest positive probability of the member. Where the members
    separate the classes, the fit uses Platt's targets and issues a SeparationWarning.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.ensembles import LogPool
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(2, 5000))
    >>> y = (rng.random(5000) < 1 / (1 + np.exp(-z.sum(axis=0)))).astype(int)
    >>> LogPool().fit(list(1 / (1 + np.exp(-z))), y).weights_.round(1)
    array([1., 1.])
    """

    name = "fitted-log-pool"

    def _fit(self, laws: FloatArray, codes: IntArray, weight: FloatArray) -> None:
        k = 2 if laws.ndim == 2 else laws.shape[2]
        self.lows_ = [smallest(FitRows(law, codes, weight, k, "probability")) for law in laws]
        logs = self._logs(laws)
        self.weights_, self.separated_ = _find_exponents(logs, one_hot(codes, k), weight)
        if self.separated_:
            mass = smooth_targets(codes, weight, k)[2]
            targets = mass.reshape(-1, k) / weight[:, None]
            self.weights_ = _find_exponents(logs, targets, weight)[0]
            announce(Finding("separation", facts={"remedy": "smoothed"}))

    def _logs(self, laws: FloatArray) -> FloatArray:
        """Centred log-probabilities, shape (M, n, K)."""
        pairs = zip(laws, self.lows_, strict=True)
        return np.stack([center_logs(log_law(as_matrix(law), "probability", low)) for law, low in pairs])

    def _law(self, laws: FloatArray) -> FloatArray:
        law = np.exp(log_softmax(np.tensordot(self.weights_, self._logs(laws), axes=1)))
        return law[:, 1] if laws.ndim == 2 else law


class BetaTransformedPool(Combiner):
    """
    The beta-transformed linear pool by maximum likelihood (Ranjan & Gneiting 2010); two classes.

    Parameters
    ----------
    alpha, beta : float, optional
        Fixed values; fitted by default. ``alpha=1, beta=1`` is `LinearPool`.

    Attributes
    ----------
    alpha_, beta_ : float
        Parameters of the beta distribution function; above 1 and similar if the members are calibrated and differ.
    weights_ : array of shape (M,)
        Weights of the linear pool inside; nonnegative, sum one.
    converged_ : bool
        Whether the best start ended in a maximum inside the bounds exp(±5) on α and β.
    classes_ : array of shape (2,)
        Labels.
    member_names_ : tuple of str
        Members in the order of the weights.

    Notes
    -----
    The likelihood is not concave. It is maximised from the best linear pool and from equal weights, each with α = β = 1
    and 2, and the best maximum is kept.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.ensembles import BetaTransformedPool
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 5000)
    >>> signals = np.where(rng.random((2, 5000)) < 0.75, y, 1 - y)       # two signals, right three times in four
    >>> pool = BetaTransformedPool().fit(list(0.25 + 0.5 * signals), y)
    >>> bool(pool.alpha_ > 2), pool.predict_proba([[0.75], [0.75]]).round(1)
    (True, array([[0.1, 0.9]]))
    """

    name = "fitted-beta-pool"

    def __init__(self, *, alpha: float | None = None, beta: float | None = None) -> None:
        self.alpha = alpha
        self.beta = beta

    def _fit(self, laws: FloatArray, codes: IntArray, weight: FloatArray) -> None:
        require_two(2 if laws.ndim == 2 else laws.shape[2], "BetaTransformedPool")
        fixed = [
            None if v is None else parse_number(v, name, "a positive number", lambda x: x > 0.0)
            for v, name in ((self.alpha, "alpha"), (self.beta, "beta"))
        ]
        shares = find_best_shares(find_observed_probabilities(laws, codes), weight)
        problem = _BetaLikelihood(laws, codes == 1, weight, fixed)
        starts = [problem.start(w, size) for w in (shares, np.full(len(laws), 1.0 / len(laws))) for size in (1.0, 2.0)]
        few = problem.subsample()
        best = min(map((few or problem).climb, starts), key=lambda end: end[0])
        if few is not None:
            best = problem.climb(best[1])
        (self.alpha_, self.beta_), self.weights_ = problem.parts(best[1])
        self.converged_ = best[2]
        if not self.converged_:
            announce(Finding("separation", facts={"alpha": float(self.alpha_), "beta": float(self.beta_)}))

    def _law(self, laws: FloatArray) -> FloatArray:
        return beta_cdf(pool_linearly(laws, self.weights_), self.alpha_, self.beta_)


# ── fits ────────────────────────────────────────────────────────────────────────────────────────────


def find_observed_probabilities(laws: FloatArray, codes: IntArray) -> FloatArray:
    """The probability each member gives to the outcome, shape (M, n); rows where all give 0 are refused."""
    if laws.ndim == 2:
        hits = np.where(codes == 1, laws, 1.0 - laws)
    else:
        hits = np.take_along_axis(laws, codes[None, :, None], axis=2)[:, :, 0]
    bad = np.flatnonzero(hits.max(axis=0) <= 0.0)
    if bad.size:
        note = f"a linear pool must have a finite log loss; got {bad.size} of {codes.size} rows where all members give "
        raise InfiniteLossError(
            f"{note}probability 0 to what happened (row {abbreviate(bad)}). Clip the members first, or use Stacking."
        )
    return hits


def find_best_shares(hits: FloatArray, weight: FloatArray) -> FloatArray:
    """Weights on the simplex that minimise −Σ w log(v · hits)."""
    # adding Σw·Σv to the objective over v ≥ 0 makes the sum of v one at the minimum
    total = float(weight.sum())

    def evaluate(v: FloatArray) -> tuple[float, FloatArray]:
        pooled = np.maximum(v @ hits, TINY)
        slope = 1.0 - hits @ (weight / pooled) / total
        return float(v.sum() - weight @ np.log(pooled) / total), slope

    def curvature(v: FloatArray) -> FloatArray:
        matrix: FloatArray = (hits * (weight / np.maximum(v @ hits, TINY) ** 2 / total)) @ hits.T
        return matrix

    v = _find_minimum(hits.shape[0], evaluate, curvature)
    shares: FloatArray = v / v.sum()
    return shares


def _find_minimum(
    m: int, evaluate: Callable[[FloatArray], tuple[float, FloatArray]], curvature: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    """The minimum over m nonnegative weights, polished by Newton steps in the positive ones."""
    from scipy.optimize import minimize

    options = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 2000, "maxcor": 20}
    bounds = [(0.0, None)] * m
    with limit_threads():  # as in fit_softmax: threads only cost in the small systems of L-BFGS
        solution = minimize(evaluate, np.full(m, 1.0 / m), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    v: FloatArray = solution.x
    used = np.flatnonzero(v > 1e-9)
    for _ in range(5):
        value, slope = evaluate(v)
        step = np.zeros(v.size)
        step[used] = np.linalg.lstsq(curvature(v)[np.ix_(used, used)], slope[used], rcond=1e-12)[0]
        after = v - step
        if (after < 0.0).any() or not evaluate(after)[0] <= value:
            break
        v = after
    return v


def _find_exponents(logs: FloatArray, targets: FloatArray, weight: FloatArray) -> tuple[FloatArray, bool]:
    """Nonnegative exponents of the smallest log loss, and whether the classes are separated, so that none exist."""
    total = float(weight.sum())

    def evaluate(v: FloatArray) -> tuple[float, FloatArray]:
        log_probabilities = log_softmax(np.tensordot(v, logs, axes=1))
        error = (np.exp(log_probabilities) - targets) * weight[:, None]
        slope = np.tensordot(logs, error, axes=2) / total
        return -float(weight @ (targets * log_probabilities).sum(axis=1)) / total, slope

    def curvature(v: FloatArray) -> FloatArray:
        p = np.exp(log_softmax(np.tensordot(v, logs, axes=1)))
        rest = logs - (p * logs).sum(axis=2, keepdims=True)
        matrix: FloatArray = np.einsum("anc,bnc,nc->ab", rest, rest, p * weight[:, None], optimize=True) / total
        return matrix

    m = logs.shape[0]
    v = _find_minimum(m, evaluate, curvature)
    used = np.flatnonzero(v > 1e-9)
    inside = np.ix_(used, used)
    return v, bool(used.size) and is_vanishing(curvature(v)[inside], curvature(np.zeros(m))[inside])


class _BetaLikelihood:
    """The log loss of a beta-transformed pool in (log α, log β, weights)."""

    def __init__(
        self, laws: FloatArray, event: NDArray[np.bool_], weight: FloatArray, fixed: list[float | None]
    ) -> None:
        self.laws, self.event, self.weight = laws, event, weight / weight.sum()
        self.fixed = fixed

    def parts(self, theta: FloatArray) -> tuple[tuple[float, float], FloatArray]:
        """(α, β) and the weights."""
        shares = np.maximum(theta[2:], 0.0)
        return (float(np.exp(theta[0])), float(np.exp(theta[1]))), shares / shares.sum()

    def loss(self, theta: FloatArray) -> float:
        """Mean log loss."""
        p = np.clip(theta[2:] @ self.laws, 0.0, 1.0)
        return -float(self.weight @ np.log(self._hits(theta, p)))

    def _hits(self, theta: FloatArray, p: FloatArray) -> FloatArray:
        """Probability of the outcome, each tail computed directly so that neither loses digits."""
        a, b = np.exp(theta[:2])
        hit = np.empty(p.size)
        hit[self.event] = beta_cdf(p[self.event], a, b)
        hit[~self.event] = beta_cdf(1.0 - p[~self.event], b, a)
        return np.maximum(hit, TINY)

    def subsample(self) -> _BetaLikelihood | None:
        """A random subsample for a rough first fit; None if there are not many more rows."""
        n = self.event.size
        if n <= 4 * _FEW:
            return None
        rows = np.random.default_rng(0).integers(0, n, _FEW)
        return _BetaLikelihood(self.laws[:, rows], self.event[rows], self.weight[rows], self.fixed)

    def slope(self, theta: FloatArray) -> FloatArray:
        """Gradient of the loss: closed form for the weights, central differences for α and β."""
        from scipy.special import betaln, xlog1py, xlogy

        a, b = np.exp(theta[:2])
        p = np.clip(theta[2:] @ self.laws, FINEST_EDGE, 1.0 - FINEST_EDGE)
        density = np.exp(xlogy(a - 1.0, p) + xlog1py(b - 1.0, -p) - betaln(a, b))
        rate = np.where(self.event, -1.0, 1.0) * density / self._hits(theta, p)
        slope = np.empty(theta.size)
        slope[2:] = self.laws @ (self.weight * rate)
        for j, step in enumerate(np.eye(theta.size)[:2] * 1e-5):
            slope[j] = (self.loss(theta + step) - self.loss(theta - step)) / 2e-5
        return slope

    def start(self, shares: FloatArray, size: float) -> FloatArray:
        """A starting point in which every member has weight."""
        inside = np.clip(shares, 1e-3, 1.0)
        start: FloatArray = np.r_[[np.log(v or size) for v in self.fixed], inside / inside.sum()]
        return start

    def climb(self, start: FloatArray) -> tuple[float, FloatArray, bool]:
        """Maximise the likelihood from one start; returns loss, parameters and success."""
        from scipy.optimize import minimize

        ends = [(-_FARTHEST, _FARTHEST) if v is None else (np.log(v), np.log(v)) for v in self.fixed]
        sums = {"type": "eq", "fun": lambda t: t[2:].sum() - 1.0, "jac": lambda t: np.r_[0.0, 0.0, np.ones(t.size - 2)]}
        solution = minimize(
            self.loss,
            start,
            jac=self.slope,
            method="SLSQP",
            bounds=[*ends, *[(0.0, 1.0)] * (start.size - 2)],
            constraints=[sums],
            options={"ftol": 1e-13, "maxiter": 500},
        )
        free = [t for t, v in zip(solution.x[:2], self.fixed, strict=True) if v is None]
        inside = all(abs(t) < _FARTHEST - 1e-3 for t in free)
        return float(solution.fun), solution.x, bool(solution.success and inside)


# ── classes that members separate ───────────────────────────────────────────────────────────────────


def smooth_targets(codes: IntArray, weight: FloatArray, k: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Platt's targets for K classes as weighted rows: positions, classes and weights."""
    count = np.bincount(codes, weights=weight, minlength=k)[codes]
    every = np.tile(np.arange(k), codes.size)
    rows = np.repeat(np.arange(codes.size), k)
    hit = every == codes[rows]
    return rows, every, weight[rows] * (hit * count[rows] + 1.0) / (count[rows] + k)


def is_vanishing(curved: FloatArray, even: FloatArray) -> bool:
    """Whether the curvature vanishes in a direction in which it does not at even odds."""
    scale, values, axes = scaled_axes(even, 1e-12)
    basis = axes / np.sqrt(values) / scale[:, None]
    return bool(values.size and np.linalg.eigvalsh(basis.T @ curved @ basis)[0] < _FLAT)
