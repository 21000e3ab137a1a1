"""The grouping curve: how far P(Y | X) spreads among rows that share a score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scoreprism._core.checks import parse_confidence, parse_count, refuse
from scoreprism._core.numerics import weighted_quantiles
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray, as_vector, freeze
from scoreprism._fitting.chain_fit import fit_chain
from scoreprism._sample.sample import Sample
from scoreprism.curves._curve import Curve, drop_absent_rows, require_one_model, require_two_classes
from scoreprism.decomposition import Chain
from scoreprism.losses import Brier

#: Quantiles of Q in every bin.
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class GroupingCurve(Curve):
    """
    Spread of Q̂ = P(Y | X) within level sets of the score.

    Made by `grouping_curve`. If rows of equal scores had equal chances, the spread would be zero and no better
    model could be made from these features. Quantiles are those of the fitted probabilities, noise included;
    `variance`, the grouping term of the Brier loss inside the bin, is corrected for that noise.

    Attributes
    ----------
    x : array of shape (bins,)
        Mean score of each bin.
    calibrated : array of shape (bins,)
        Mean of C = P(Y | S).
    quantiles : array of shape (bins, 5)
        5, 25, 50, 75 and 95 % quantiles of Q̂.
    variance : array of shape (bins,)
        Mean squared distance of Q from C, debiased; noise may make it negative.
    low, high : array of shape (bins,)
        Ends of its interval; NaN for a bin of one row.
    confidence_level : float
        Confidence level.
    mass : array of shape (bins,)
        Share of the weight.

    Examples
    --------
    >>> from scoreprism.datasets import CopulaLaw
    >>> X, y, q = CopulaLaw(rho=0.0).sample(2000, random_state=0)
    >>> curve = grouping_curve(y, X[:, 0], q=q, n_bins=5, random_state=0)
    >>> from scoreprism import decompose
    >>> whole = decompose(y, X[:, 0], q=q, loss="brier", random_state=0).terms["grouping"]
    >>> bool(abs(curve.mass @ curve.variance - whole) < 1e-12)       # bins add up to the grouping term
    True
    """

    x: FloatArray
    calibrated: FloatArray
    quantiles: FloatArray
    variance: FloatArray
    low: FloatArray
    high: FloatArray
    confidence_level: float
    mass: FloatArray

    @property
    def spread(self) -> FloatArray:
        """Standard deviation of Q around C, from the debiased variance; 0 where that is negative."""
        return np.sqrt(np.maximum(self.variance, 0.0))

    def _points(self) -> dict[str, FloatArray]:
        quantiles = {f"q{100 * level:02.0f}": self.quantiles[:, i] for i, level in enumerate(QUANTILES)}
        ends = {"variance": self.variance, "low": self.low, "high": self.high}
        return {"score": self.x, "calibrated": self.calibrated, **quantiles, **ends, "mass": self.mass}

    @classmethod
    def from_chain(
        cls, chain: Chain, *, n_bins: int = 10, confidence_level: float = 0.95, name: str | None = None
    ) -> GroupingCurve:
        """
        The curve of a chain, fitted or built from given probabilities.

        Parameters
        ----------
        chain : Chain
            Outcomes and the levels S, C and Q of two classes.
        n_bins : int, default=10
            Number of bins of scores of equal mass.
        confidence_level : float, default=0.95
            Confidence level.
        name : str, optional
            The model.

        Returns
        -------
        GroupingCurve
            Quantiles of Q̂ and the debiased grouping of the Brier loss, bin by bin.
        """
        count, confidence = parse_count(n_bins, "n_bins", 1), parse_confidence(confidence_level)
        require_two_classes(chain.k)
        chain.sample.require_rows("a grouping curve")
        if len(chain.levels) != 3:
            rule = "a grouping curve must have the levels S, C and Q"
            refuse(rule, ", ".join(chain.level_names), "Pass `X` or `q`=, and no further levels.")
        chain, weight = drop_absent_rows(chain)
        cell = _assign_bins(as_vector(chain.levels[0].law), weight, count)
        cells = [_summarise_bin(chain, np.flatnonzero(cell == k), confidence) for k in np.unique(cell)]
        x, calibrated, mass, variance, low, high = np.array([line for line, _ in cells]).T
        return cls(
            name=name, n=chain.sample.n, _backend=chain.sample.backend, x=freeze(x),
            calibrated=freeze(calibrated), quantiles=freeze(np.array([line for _, line in cells])),
            variance=freeze(variance), low=freeze(low), high=freeze(high), confidence_level=confidence,
            mass=freeze(mass / mass.sum()),
        )  # fmt: skip

    def _describe(self) -> str:
        return "spread of P(Y | X) among rows of similar scores"


def grouping_curve(
    y_true: ArrayLike | Sample,
    y_proba: ArrayLike | None = None,
    X: ArrayLike | None = None,
    *,
    n_bins: int = 10,
    confidence_level: float = 0.95,
    name: str | None = None,
    **options: Any,
) -> GroupingCurve:
    """
    How far P(Y | X) spreads among rows of similar scores: what the score misses in the features.

    Parameters
    ----------
    y_true : array-like of shape (n,), or Sample
        Two-class outcomes, or a Sample that holds everything.
    y_proba : array-like of shape (n,) or (n, 2), or fitted classifier
        Predicted probabilities, or a model that is applied to `X`.
    X : array-like or frame of shape (n, p), optional
        Features; or pass ``q=``, P(Y | X) itself.
    n_bins : int, default=10
        Number of bins of scores of equal mass; equal scores stay together.
    confidence_level : float, default=0.95
        Confidence level of the interval in each bin.
    name : str, optional
        The model.
    **options : object
        How C and Q are fitted, as in `decompose`: ``q``, ``reference``, ``cv``, ``sample_weight``, ``random_state`` …

    Returns
    -------
    GroupingCurve
        Quantiles of Q̂ and the debiased grouping of the Brier loss, bin by bin.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> q = rng.random(3000)
    >>> y = rng.random(3000) < q
    >>> grouping_curve(y, np.full(3000, 0.5), q=q, random_state=0).spread.round(1)     # a uniform q has 0.29
    array([0.3])
    """
    # parsed before anything is fitted
    count, confidence = parse_count(n_bins, "n_bins", 1), parse_confidence(confidence_level)
    require_one_model(y_proba)
    chain = fit_chain(y_true, y_proba, X, options)
    return GroupingCurve.from_chain(chain, n_bins=count, confidence_level=confidence, name=name)


def _assign_bins(score: FloatArray, weight: FloatArray, count: int) -> IntArray:
    """Assign rows to bins of equal mass, by the middle of the mass of each distinct score."""
    codes = np.unique(score, return_inverse=True)[1]
    mass = np.bincount(codes, weight)
    reached = np.cumsum(mass)
    bins: IntArray = np.minimum(((reached - 0.5 * mass) / reached[-1] * count).astype(np.intp), count - 1)
    return bins[codes]


def _summarise_bin(chain: Chain, rows: IntArray, confidence_level: float) -> tuple[list[float], FloatArray]:
    """Mean score, mean of C, mass, debiased variance and its interval in one bin; then quantiles of Q."""
    part = chain._take_checked(rows)
    score, calibrated, fine = (as_vector(level.law) for level in part.levels)
    weight = np.ones(rows.size) if part.sample.weight is None else part.sample.weight
    grouping = part.decompose_at(Brier(), "debiased", None)
    interval = grouping._interval(part.names[1], confidence_level)
    means = [float(np.average(law, weights=weight)) for law in (score, calibrated)]
    line = [*means, float(weight.sum()), grouping.terms[part.names[1]], interval.low, interval.high]
    return line, weighted_quantiles(fine, weight, QUANTILES)
