"""The Murphy decomposition: reliability, grouping and irreducible loss at every decision threshold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from scoreprism._core.checks import parse_choice, parse_confidence, refuse
from scoreprism._core.simplex import ArrayLike, FloatArray, as_vector, freeze
from scoreprism._findings.finding import Finding
from scoreprism._fitting.chain_fit import fit_chain
from scoreprism._kernels.term_intervals import FORMS, Moments, TermInference, coefficients
from scoreprism._sample.sample import Sample
from scoreprism.curves._curve import BinaryRows, Curve, drop_absent_rows, require_one_model, require_two_classes
from scoreprism.curves._decision_curves import PERCENTS, choose_thresholds
from scoreprism.curves._decision_loss import (
    DecisionCells,
    DecisionLoss,
    DecisionRows,
    find_largest_difference,
    find_largest_loss,
)
from scoreprism.curves._murphy_curve import charge_certainty, parse_thresholds, sum_sides
from scoreprism.curves._threshold_lines import (
    ZERO_LINE,
    ThresholdLine,
    divergence_lines,
    level_lines,
    spread_line,
    stack_out_of_sample,
)
from scoreprism.decomposition import Chain
from scoreprism.exceptions import InfiniteLossError
from scoreprism.losses import Elementary, ProperLoss, get_loss

#: Rows up to which errors are those of the mean over all partitions; beyond, those of the first, which are nearly
#: equal.
_BY_ROWS = 50_000


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MurphyDecomposition(Curve):
    """
    Terms of a decomposition as functions of the decision threshold θ.

    Made by `murphy_decomposition`. C and Q are the same at every θ, so integrating a term with the weight of a
    loss gives that term of the loss.

    Attributes
    ----------
    names : tuple of str
        Terms in order; under plug-in the last is the residual, so that terms always add up to the Murphy curve.
    theta : array of shape (m,)
        Thresholds of the values and intervals.
    values : array of shape (m, terms)
        Terms of the elementary loss.
    low, high : array of shape (m, terms)
        Ends of the pointwise interval of each term.
    confidence_level : float
        Confidence level of the intervals.
    form : str
        How rows are filled.
    findings : tuple of Finding
        Findings of the chain of levels behind the curve.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism import decompose
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(500)
    >>> y = rng.random(500) < s**2
    >>> curve = murphy_decomposition(y, s, random_state=1)
    >>> direct = decompose(y, s, loss="brier", random_state=1)
    >>> bool(abs(curve.integrate("brier")["reliability"] - direct.terms["reliability"]) < 1e-12)
    True
    """

    names: tuple[str, ...]
    theta: FloatArray
    values: FloatArray
    low: FloatArray
    high: FloatArray
    confidence_level: float
    form: str
    findings: tuple[Finding, ...] = ()
    _lines: tuple[ThresholdLine, ...] = ()
    _levels: tuple[str, ...] = ()
    _rate: float = 0.0
    _last_rate: float = 0.0
    _below: FloatArray | None = None
    _rows: DecisionRows | None = None

    def at(self, theta: ArrayLike) -> FloatArray:
        """
        Terms at any thresholds, exactly.

        Parameters
        ----------
        theta : array-like of shape (m,)
            Thresholds between 0 and 1.

        Returns
        -------
        array of shape (m, terms)
            Terms of the elementary losses.
        """
        return self._at(parse_thresholds(theta))

    def _at(self, points: FloatArray) -> FloatArray:
        """The terms at parsed thresholds."""
        return self._combine(np.stack([line(points) for line in self._lines], axis=1))

    def integrate(self, loss: str | ProperLoss) -> dict[str, float]:
        """
        Terms of a proper loss, as mixtures of those of elementary losses.

        Parameters
        ----------
        loss : str or ProperLoss
            A loss of two classes.

        Returns
        -------
        dict of str to float
            The terms that `decompose` returns for the loss with the same C and Q.
        """
        chosen = get_loss(loss)
        integrals = np.array([line.integrate(chosen) for line in self._lines])
        levels = len(self._levels)
        if self.form == "plugin":
            integrals[-1] += charge_certainty(chosen, self._last_rate)
        elif np.isinf(integrals[1:levels]).any():
            worst = self._levels[1 + int(np.argmax(integrals[1:levels]))]
            raise InfiniteLossError(
                f"level {worst!r} must have a finite {chosen!s} loss in every row; it gives probability 0 to what "
                "happened. Use form='plugin', or pass probabilities that are kept away from 0."
            )
        integrals[:levels] += charge_certainty(chosen, self._rate)
        terms = self._combine(integrals[None])[0]
        return dict(zip(self.names, terms.tolist(), strict=True))

    def decision_loss(
        self, baseline: MurphyDecomposition | None = None, *, confidence_level: float | None = None
    ) -> DecisionLoss:
        """
        The most that miscalibration costs at any decision threshold, and where.

        Parameters
        ----------
        baseline : MurphyDecomposition, optional
            Another model of the same rows at the same thresholds. Then: how much more than it this model loses.
        confidence_level : float, optional
            Confidence level of the upper bound; that of the curve by default.

        Returns
        -------
        DecisionLoss
            The largest estimate, its threshold, and an upper bound that holds at every threshold.
        """
        confidence = self.confidence_level if confidence_level is None else parse_confidence(confidence_level)
        if baseline is None:
            return find_largest_loss(self, confidence)
        if baseline.n != self.n or not np.array_equal(baseline.theta, self.theta):
            got = f"{self.n} rows, {self.theta.size} thresholds and {baseline.n} rows, {baseline.theta.size} thresholds"
            refuse(
                "`baseline` must be a curve of the same rows at the same thresholds",
                got,
                "Make both from one `y_true`.",
            )
        return find_largest_difference(self, baseline, confidence)

    @cached_property
    def _cells(self) -> DecisionCells | None:
        """The cells that bound the loss from miscalibration; None if the rows are the whole population."""
        return None if self._rows is None else self._rows.cells(self.theta)

    def _steps(self, components: FloatArray) -> FloatArray:
        """Replace the losses of levels by steps between them; spreads and divergences stay as they are."""
        levels = len(self._levels)
        steps = components.copy()
        with np.errstate(invalid="ignore"):  # under plug-in two infinite losses may follow each other
            steps[:, : levels - 1] -= components[:, 1:levels]
        return steps

    def _combine(self, components: FloatArray) -> FloatArray:
        """Terms from the means of losses, spreads and divergences, one row per threshold."""
        steps, levels = self._steps(components), len(self._levels)
        terms = [coefficients(self.form, t, levels) for t in range(len(self.names))]
        with np.errstate(invalid="ignore"):
            return np.stack([sum(c * steps[:, i] for i, c in term.items()) for term in terms], axis=1)

    def _points(self) -> dict[str, FloatArray]:
        columns = {"theta": self.theta}
        for t, name in enumerate(self.names):
            columns |= {name: self.values[:, t], f"{name}_low": self.low[:, t], f"{name}_high": self.high[:, t]}
        return columns

    def _describe(self) -> str:
        return f"{', '.join(self.names)} of the elementary loss, form {self.form}"

    @classmethod
    def from_chain(
        cls,
        chain: Chain,
        *,
        thresholds: ArrayLike | None = None,
        form: str = "debiased",
        confidence_level: float = 0.95,
        name: str | None = None,
    ) -> MurphyDecomposition:
        """
        The decomposition of a chain of levels.

        Parameters
        ----------
        chain : Chain
            Outcomes and levels of two classes.
        thresholds : array-like of shape (m,), optional
            Where to give values and intervals; 0.01, …, 0.99 by default.
        form : {"debiased", "difference", "plugin"}, default="debiased"
            How rows are filled.
        confidence_level : float, default=0.95
            Confidence level.
        name : str, optional
            The model.

        Returns
        -------
        MurphyDecomposition
            Terms as functions of θ.
        """
        require_two_classes(chain.k)
        form, confidence = parse_choice(form, FORMS, "form"), parse_confidence(confidence_level)
        theta = PERCENTS if thresholds is None else np.unique(parse_thresholds(thresholds))
        chain, weight = drop_absent_rows(chain)  # a row without weight must not put jumps into the lines
        sample, share = chain.sample, weight / weight.sum()
        first, last, residual = chain.levels[0], chain.levels[-1], ("residual",) if form == "plugin" else ()
        rows = None if chain.population else DecisionRows(as_vector(first.law), sample.y, share, sample.groups)
        curve = cls(
            name=name, n=sample.n, _backend=sample.backend, names=(*chain.names, *residual), theta=freeze(theta),
            values=np.empty(0), low=np.empty(0), high=np.empty(0), confidence_level=confidence, form=form,
            findings=chain.findings, _lines=tuple(_build_lines(chain, form, share)), _levels=chain.level_names,
            _rate=float(share @ sample.y),
            _last_rate=float(share @ stack_out_of_sample(last.fits, as_vector(last.law)).mean(axis=0)),
            _rows=rows,
        )  # fmt: skip
        ends, below = _intervals(chain, curve, (*(term.role for term in chain.terms), *residual), share)
        low, high = freeze(ends[..., 0]), freeze(ends[..., 1])
        return replace(curve, values=freeze(curve._at(theta)), low=low, high=high, _below=below)


def murphy_decomposition(
    y_true: ArrayLike | Sample,
    y_proba: ArrayLike | None = None,
    X: ArrayLike | None = None,
    *,
    thresholds: ArrayLike | None = None,
    form: str = "debiased",
    confidence_level: float = 0.95,
    name: str | None = None,
    **options: Any,
) -> MurphyDecomposition:
    """
    Reliability, grouping and irreducible loss as functions of the decision threshold: where each of them is lost.

    Every proper loss of two classes is a mixture of elementary losses, and C and Q do not depend on the loss.
    So the terms of any loss are integrals of these curves, which `MurphyDecomposition.integrate` computes exactly.

    Parameters
    ----------
    y_true : array-like of shape (n,), or Sample
        Two-class outcomes, or a Sample that holds everything.
    y_proba : array-like of shape (n,) or (n, 2), or fitted classifier
        Predicted probabilities, or a model that is applied to `X`.
    X : array-like or frame of shape (n, p), optional
        Features. Without them: reliability and refinement.
    thresholds : array-like of shape (m,), optional
        Where to give values and intervals; 0.01, …, 0.99 by default.
    form : {"debiased", "difference", "plugin"}, default="debiased"
        How rows are filled; see `Chain.decompose`.
    confidence_level : float, default=0.95
        Confidence level of the interval of each term at each threshold.
    name : str, optional
        The model.
    **options : object
        How C and Q are fitted, as in `decompose`: ``calibrator``, ``reference``, ``calibration``, ``q``, ``latent``,
        ``levels``, ``cv``, ``sample_weight``, ``groups``, ``pos_label``, ``classes``, ``random_state``, ``n_jobs``,
        ``repeats``.

    Returns
    -------
    MurphyDecomposition
        Values, intervals, and the exact curves behind them.

    Examples
    --------
    >>> from scoreprism.datasets import CopulaLaw
    >>> X, y, q = CopulaLaw(rho=0.0).sample(1000, random_state=0)
    >>> curve = murphy_decomposition(y, 0.1 + 0.8 * X[:, 0], q=q, random_state=0)
    >>> curve.names
    ('reliability', 'grouping', 'irreducible')
    """
    require_one_model(y_proba)
    chain = fit_chain(y_true, y_proba, X, options)
    return MurphyDecomposition.from_chain(
        chain, thresholds=thresholds, form=form, confidence_level=confidence_level, name=name
    )


def decision_loss(
    y_true: ArrayLike | Sample,
    y_proba: ArrayLike | None = None,
    *,
    baseline: ArrayLike | Sample | None = None,
    confidence_level: float = 0.95,
    name: str | None = None,
    baseline_name: str | None = None,
    **options: Any,
) -> DecisionLoss:
    r"""
    The most that miscalibration costs at any decision threshold, with an upper bound that holds at all of them.

    At the threshold θ a false alarm costs θ and a miss 1 − θ. The estimate is the largest reliability of
    `murphy_decomposition`. The upper bound allows any shape of C = P(Y|S) that does not cross a threshold within cells
    of √n neighbouring scores; scores that many rows share are cells of their own.

    Parameters
    ----------
    y_true : array-like of shape (n,), or Sample
        Two-class outcomes, or a Sample that holds everything.
    y_proba : array-like of shape (n,) or (n, 2)
        Predicted probabilities.
    baseline : array-like of shape (n,) or (n, 2), or Sample, optional
        Predicted probabilities of another model for the same rows. Then: how much more than it the model loses, at
        the worst threshold.
    confidence_level : float, default=0.95
        Confidence level of the upper bound, one-sided.
    name, baseline_name : str, optional
        The models.
    **options : object
        How C is fitted, as in `decompose`: ``calibrator``, ``calibration``, ``cv``, ``sample_weight``, ``groups``,
        ``pos_label``, ``classes``, ``random_state``, ``n_jobs``.

    Returns
    -------
    DecisionLoss
        The largest estimate, its threshold, the bound, and both for decisions with payoffs in [0, 1].

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(2000)
    >>> y = rng.random(2000) < s
    >>> decision_loss(y, 0.5 * s, baseline=s, random_state=0).bound > decision_loss(y, s, random_state=0).bound
    True
    """
    first = _decompose_at_usual(y_true, y_proba, None, confidence_level, name, options)
    if baseline is None:
        return first.decision_loss()
    rows = (baseline, None) if isinstance(baseline, Sample) else (y_true, baseline)
    other = _decompose_at_usual(*rows, first.theta, confidence_level, baseline_name, options)
    return first.decision_loss(other)


def _decompose_at_usual(
    y_true: ArrayLike | Sample,
    y_proba: ArrayLike | None,
    theta: FloatArray | None,
    confidence_level: float,
    name: str | None,
    options: dict[str, Any],
) -> MurphyDecomposition:
    """The decomposition at every percent; for rare events also at fine steps around their rate."""
    require_one_model(y_proba)
    chain = fit_chain(y_true, y_proba, None, options)
    require_two_classes(chain.k)
    rate = float(np.average(chain.sample.y, weights=chain.sample.weight))
    chosen = choose_thresholds(rate) if theta is None else theta
    return MurphyDecomposition.from_chain(chain, thresholds=chosen, confidence_level=confidence_level, name=name)


def _build_lines(chain: Chain, form: str, share: FloatArray) -> list[ThresholdLine]:
    """Mean loss and mean spread of every level, and under plug-in the divergences, as functions of θ."""
    spreads = [ZERO_LINE, *(spread_line(level, share) for level in chain.levels[1:])]  # the prediction has none
    divergences = divergence_lines(chain, share) if form == "plugin" else []
    return [*level_lines(chain, share), *spreads, *divergences]


def _intervals(
    chain: Chain, curve: MurphyDecomposition, roles: tuple[str, ...], share: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Intervals of terms at thresholds, (m, terms, 2); and mean and error of the first term's lower bound."""
    levels = len(curve._levels)
    means = curve._steps(np.stack([line(curve.theta) for line in curve._lines], axis=1))
    covariances = _covariances(chain, curve, share)
    ends, below = np.empty((curve.theta.size, len(roles), 2)), np.empty((curve.theta.size, 2))
    for i, mean in enumerate(means):
        moments = Moments(mean, covariances[i])
        for t, (term, role) in enumerate(zip(curve.names, roles, strict=True)):
            inference = TermInference(term, role, t, 1, levels, moments)
            interval = inference.bracket(curve.confidence_level)
            ends[i, t] = interval.low, interval.high
            if t == 0:
                below[i] = inference.lower_statistic()
    return ends, below


def _covariances(chain: Chain, curve: MurphyDecomposition, share: FloatArray) -> FloatArray:
    """Covariance of the mean components at every threshold; the spreads of fitted laws are treated as known."""
    levels, size = len(curve._levels), len(curve._lines)
    whole = np.zeros((curve.theta.size, size, size))
    if not chain.population:
        used = np.r_[0:levels, 2 * levels : size]
        fitted = any(level.fits is not None for level in chain.levels) and chain.sample.n <= _BY_ROWS
        by_rows = chain.sample.groups is not None or curve.form == "plugin" or fitted
        whole[:, used[:, None], used] = _covary_rows(chain, curve) if by_rows else _covary_counts(chain, curve, share)
    return whole


def _covary_rows(chain: Chain, curve: MurphyDecomposition) -> FloatArray:
    """Covariance of the steps between levels and, under plug-in, of divergences, from the rows at each threshold."""
    sample = chain.sample
    extras = np.empty((0, sample.n))
    covariances = []
    size = len(curve._levels) * (2 if curve.form == "plugin" else 1)
    for theta in curve.theta:
        if theta == 1.0:  # all elementary losses are 0 there
            covariances.append(np.zeros((size, size)))
            continue
        loss = Elementary.at(max(float(theta), 5e-324))  # at 0, only a prediction of 0 is below
        if curve.form == "plugin":
            extras = chain._divergences(loss)
        covariances.append(Moments.of(chain._losses(loss), extras, sample.weight, sample.groups).covariance)
    return np.stack(covariances)


def _covary_counts(chain: Chain, curve: MurphyDecomposition, share: FloatArray) -> FloatArray:
    """
    Covariance of the steps between levels at all thresholds, from one pass over the rows for each pair of levels.

    Two levels both miss an event where the larger of their predictions is at most θ, and both raise a false alarm where
    the smaller one exceeds it.
    """
    sample, laws, theta = chain.sample, [as_vector(level.law) for level in chain.levels], curve.theta
    y = sample.y.astype(np.float64)
    levels, total, costs = len(laws), float(share @ share), np.stack([1.0 - theta, theta])
    squares, unit = (None, sample.n**-2.0) if sample.weight is None else (share**2, 1.0)
    mean, first = np.stack([line(theta) for line in curve._lines[:levels]]), np.empty((levels, theta.size))
    covariance = np.empty((theta.size, levels, levels))
    for a, b in combinations_with_replacement(range(levels), 2):
        both = np.where(y == 1.0, np.maximum(laws[a], laws[b]), np.minimum(laws[a], laws[b]))
        mass = unit * sum_sides(BinaryRows(both, y), theta, squares)[0]
        covariance[:, a, b] = covariance[:, b, a] = (mass * costs**2).sum(axis=0)
        if a == b:
            first[a] = (mass * costs).sum(axis=0)
    cross = np.einsum("am,bm->mab", mean, first)
    covariance += total * np.einsum("am,bm->mab", mean, mean) - cross - cross.transpose(0, 2, 1)
    steps = np.eye(levels) - np.eye(levels, k=1)
    return steps @ covariance @ steps.T if sample.n > 1 else np.full_like(covariance, np.nan)
