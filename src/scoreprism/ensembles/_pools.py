"""Pools, which combine members by a fixed rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from scoreprism._core.checks import abbreviate, parse_number, parse_numbers, refuse, write_plain
from scoreprism._core.numerics import log_odds, sigmoid
from scoreprism._core.simplex import ArrayLike, FloatArray, as_matrix
from scoreprism.ensembles._members import Members, parse_members


def average(y_proba: Any, *, X: ArrayLike | None = None) -> FloatArray:
    """
    The equally weighted linear pool: the mean of the members' probabilities.

    The average of calibrated members that differ is not calibrated but underconfident:
    ``E[S̄(Y − S̄)]`` is the mean of the variance among the members (Ranjan & Gneiting 2010; Gneiting & Ranjan 2013).

    Parameters
    ----------
    y_proba : mapping, frame, sequence or array
        Members: name → probabilities of shape (n,) or (n, K), or fitted classifiers; a frame with a column P(Y=1)
        for each; a list of probabilities; an array of shape (n, M) for two classes, or (n, M, K).
    X : array-like or frame of shape (n, p), optional
        Features for fitted classifiers.

    Returns
    -------
    array of shape (n,) or (n, K)
        The pooled probabilities, in the shape of the members.

    Examples
    --------
    >>> from scoreprism.ensembles import average
    >>> average({"a": [0.25, 0.75], "b": [0.25, 0.25]})
    array([0.25, 0.5 ])
    """
    members = parse_members(y_proba, X)
    mean: FloatArray = members.laws.mean(axis=0)
    return mean


def weighted_average(y_proba: Any, weights: ArrayLike, *, X: ArrayLike | None = None) -> FloatArray:
    """
    The linear pool: a weighted mean of the members' probabilities.

    Parameters
    ----------
    y_proba : mapping, frame, sequence or array
        Members, as in `average`.
    weights : array-like of shape (M,) or mapping of str to float
        Nonnegative; divided by their sum.
    X : array-like or frame of shape (n, p), optional
        Features for fitted classifiers.

    Returns
    -------
    array of shape (n,) or (n, K)
        The pooled probabilities.

    Examples
    --------
    >>> from scoreprism.ensembles import weighted_average
    >>> weighted_average({"a": [0.25, 0.75], "b": [0.25, 0.25]}, {"a": 3, "b": 1})
    array([0.25 , 0.625])
    """
    members = parse_members(y_proba, X)
    return pool_linearly(members.laws, parse_shares(weights, members))


def log_pool(y_proba: Any, weights: ArrayLike | None = None, *, X: ArrayLike | None = None) -> FloatArray:
    """
    The logarithmic pool: probabilities in proportion to ``Π_m p_m(k)^w_m``.

    Parameters
    ----------
    y_proba : mapping, frame, sequence or array
        Members, as in `average`.
    weights : array-like of shape (M,) or mapping of str to float, optional
        Nonnegative exponents, used as they are; 1/M each by default, the geometric mean.
    X : array-like or frame of shape (n, p), optional
        Features for fitted classifiers.

    Returns
    -------
    array of shape (n,) or (n, K)
        The pooled probabilities.

    Notes
    -----
    Weights need not sum to one. Those that do make the pool externally Bayesian: pooling and updating all members
    by the same likelihood commute (Genest 1984). A larger sum sharpens: members that are independent given the
    outcome, under equal base rates, are combined by Bayes' rule with weights of one. For two classes it is a
    weighted sum of logits.
    A member with positive weight that says 0 vetoes the class. Rows in which every class is vetoed are refused.

    Examples
    --------
    >>> from scoreprism.ensembles import log_pool
    >>> log_pool([[0.75, 0.9], [0.75, 0.1]], [1, 1]).round(3)
    array([0.9, 0.5])
    """
    members = parse_members(y_proba, X)
    return pool_logarithmically(members.laws, parse_exponents(weights, members))


def beta_transformed_pool(
    y_proba: Any,
    weights: ArrayLike | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    X: ArrayLike | None = None,
) -> FloatArray:
    """
    The beta-transformed linear pool: the beta(α, β) distribution function of a weighted average.

    With α = β > 1 it pushes the average away from ½, which an average of calibrated members needs
    (Ranjan & Gneiting 2010). `BetaTransformedPool` fits the parameters.

    Parameters
    ----------
    y_proba : mapping, frame, sequence or array
        Members, as in `average`; two classes.
    weights : array-like of shape (M,) or mapping of str to float, optional
        Nonnegative; divided by their sum. Equal by default.
    alpha, beta : float, default=1.0
        Positive parameters; 1 and 1 give the linear pool.
    X : array-like or frame of shape (n, p), optional
        Features for fitted classifiers.

    Returns
    -------
    array of shape (n,) or (n, 2)
        The pooled probabilities.

    Examples
    --------
    >>> from scoreprism.ensembles import beta_transformed_pool
    >>> beta_transformed_pool([[0.25, 0.5], [0.25, 0.5]], alpha=2, beta=2)
    array([0.15625, 0.5    ])
    """
    members = parse_members(y_proba, X)
    require_two(members.k, "a beta-transformed pool")
    a, b = (
        parse_number(v, name, "a positive number", lambda x: x > 0.0) for v, name in ((alpha, "alpha"), (beta, "beta"))
    )
    law = beta_cdf(pool_linearly(members.scores, parse_shares(weights, members)), a, b)
    return law if members.laws.ndim == 2 else as_matrix(law)


#: Every pool by a fixed rule.
POOLS: dict[str, Callable[..., FloatArray]] = {
    "average": average,
    "weighted-average": weighted_average,
    "log-pool": log_pool,
    "beta-transformed-pool": beta_transformed_pool,
}


# ── the rules on arrays, shared with the fitted combiners ───────────────────────────────────────────


def pool_linearly(laws: FloatArray, weights: FloatArray) -> FloatArray:
    """Σ w_m p_m, kept inside [0, 1] against rounding."""
    pooled: FloatArray = np.clip(np.tensordot(weights, laws, axes=1), 0.0, 1.0)
    return pooled


def pool_logarithmically(laws: FloatArray, weights: FloatArray) -> FloatArray:
    """Probabilities in proportion to Π p_m^w_m; refuses rows in which members exclude every class."""
    used = weights > 0.0  # the veto of a member without weight does not count
    with np.errstate(divide="ignore", invalid="ignore"):
        if laws.ndim == 2:
            logit = np.tensordot(weights[used], log_odds(laws[used]), axes=1)
            _refuse_vetoes(np.isnan(logit))
            return sigmoid(logit)
        logs = np.tensordot(weights[used], np.log(laws[used]), axes=1) if used.any() else np.zeros(laws.shape[1:])
    most = logs.max(axis=1, keepdims=True)
    _refuse_vetoes(np.isneginf(most[:, 0]))
    law = np.exp(logs - most)
    pooled: FloatArray = law / law.sum(axis=1, keepdims=True)
    return pooled


def _refuse_vetoes(rows: Any) -> None:
    bad = np.flatnonzero(rows)
    if bad.size:
        refuse(
            "a logarithmic pool must be left with a class that no member gives probability 0",
            f"{bad.size} of {rows.size} rows where members exclude every class (row {abbreviate(bad)})",
            "Clip the members, for example with np.clip(p, 1e-6, 1 - 1e-6), or use a linear pool.",
        )


def beta_cdf(p: FloatArray, a: float, b: float) -> FloatArray:
    """The beta(a, b) distribution function."""
    from scipy.special import betainc

    law: FloatArray = betainc(a, b, p)
    return law


def require_two(k: int, who: str) -> None:
    """Refuse more than two classes: a beta distribution function maps a single probability."""
    if k > 2:
        refuse(
            f"{who} must get two classes: a distribution function on [0, 1] has no counterpart on a simplex",
            f"{k} classes",
            "Use log_pool, LogPool or Stacking, or one class against the rest.",
        )


def parse_exponents(weights: ArrayLike | None, members: Members) -> FloatArray:
    """Nonnegative weights, one per member; equal by default."""
    if weights is None:
        return np.full(len(members), 1.0 / len(members))
    if isinstance(weights, Mapping):
        if set(weights) != set(members.names):
            refuse(
                f"`weights` must name every member once ({abbreviate(members.names)})",
                abbreviate(map(str, weights)) or "none",
                "Pass one weight per member.",
            )
        weights = [weights[name] for name in members.names]
    values = parse_numbers(weights, "weights")
    if values.shape != (len(members),):
        refuse(f"`weights` must hold {len(members)} numbers, one per member", f"shape {values.shape}", "Pass a list.")
    if (values < 0.0).any():
        refuse("`weights` must be nonnegative", write_plain(values.min()), "Use 0 to leave a member out.")
    return values


def parse_shares(weights: ArrayLike | None, members: Members) -> FloatArray:
    """Nonnegative weights, divided by their sum; equal by default."""
    values = parse_exponents(weights, members)
    if weights is None:
        return values
    total = float(values.sum())
    if not (total > 0.0 and np.isfinite(total)):
        refuse("`weights` must have a positive, finite sum", write_plain(total), "Give at least one member weight.")
    shares: FloatArray = values / total
    return shares
