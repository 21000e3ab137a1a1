"""sufficiency_test: does the aggregate of an ensemble know all that its members know? (Proposition agg-preserve)."""

from __future__ import annotations

from typing import Any

import numpy as np

from scoreprism._calibration_test.calibration_test import TestResult
from scoreprism._core.checks import parse_choice, parse_random_state, refuse
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray, as_vector, one_hot
from scoreprism._learners.members import to_eta
from scoreprism.ensembles._aggregate import Ensemble, parse_ensemble
from scoreprism.inference._grouping import freed, grouping_test, score_basis

#: Tests of sufficiency: the score test of fixed directions, and the tests of `grouping_test` on the members.
SUFFICIENCY_TESTS = ("score", "projected-covariance", "bootstrap")

#: Rows for each direction of the score test; directions beyond are principal components of the disagreement.
_ROWS_PER_DIRECTION = 50
#: Rows that are looked at, at most.
_ROWS = 20_000
#: Clusters for each direction: their covariance is estimated from them alone.
_CLUSTERS_PER_DIRECTION = 10
#: A direction of which no more than this share is left is a function of the aggregate.
_DETERMINED = 1e-2

_HYPOTHESIS = "the members add nothing to the aggregate: P(Y | S¹, …, Sᴹ) = φ(S_ens)"


def sufficiency_test(
    y_true: ArrayLike,
    scores: Any,
    aggregate: Any = "mean",
    *,
    weights: ArrayLike | None = None,
    X: ArrayLike | None = None,
    method: str = "score",
    n_resamples: int = 199,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    random_state: object = 0,
    n_jobs: int | None = None,
) -> TestResult:
    r"""
    Test whether the aggregate is sufficient for its members: :math:`C_{\mathbf S} = \varphi(S^{ens})` for some φ.

    Sufficiency is not calibration: an aggregate may be sufficient and miscalibrated (recalibrate it), or calibrated
    and insufficient (its members know more). For calibration of the aggregate use `calibration_test`.

    ``"score"``: outcomes, and what members may know (their mean logit, what they disagree about, powers and products),
    are freed of everything that a smooth function of the aggregate explains; under the hypothesis what is left of
    both is uncorrelated (chi-squared, all rows are used). The other methods are those of
    `grouping_test`, with the members for features: they learn the direction, on half of the rows or by resampling.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes.
    scores : mapping, frame, sequence or array
        Members, as in `average`.
    aggregate : str, array, callable or combiner, default="mean"
        How members are combined, as in `aggregation_decomposition`.
    weights : array-like of shape (M,), optional
        Weights of the members.
    X : array-like or frame of shape (n, p), optional
        Features, for members that are fitted classifiers.
    method : {"score", "projected-covariance", "bootstrap"}, default="score"
        Which test.
    n_resamples : int, default=199
        Draws of ``"bootstrap"``.
    sample_weight : array-like of shape (n,), optional
        Weights.
    groups : array-like of shape (n,), optional
        Clusters of rows that are not independent, for ``"score"``.
    pos_label : label, optional
        The label that 1-D probabilities speak of.
    classes : array-like of shape (K,), optional
        Labels in column order.
    random_state : int, Generator or None, default=0
        Seed of the other methods, and of the folds of a combiner that must be fitted.
    n_jobs : int, optional
        Processes of ``"bootstrap"``.

    Returns
    -------
    TestResult
        Statistic and p-value.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.ensembles import sufficiency_test
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.uniform(0.1, 0.9, (2, 2000))
    >>> y = rng.random(2000) < (a + b) / 2
    >>> bool(sufficiency_test(y, [a, b]).pvalue > 0.05)                     # the mean says it all
    True
    >>> y = rng.random(2000) < 0.2 * a + 0.8 * b
    >>> bool(sufficiency_test(y, [a, b]).pvalue < 0.001)                    # b knows more than a
    True
    """
    chosen = parse_choice(method, SUFFICIENCY_TESTS, "method")
    seed = int(parse_random_state(random_state).integers(2**62))
    ensemble = parse_ensemble(
        y_true, scores, aggregate, weights=weights, X=X, sample_weight=sample_weight, groups=groups,
        pos_label=pos_label, classes=classes, seed=seed,
    )  # fmt: skip
    if chosen == "score":
        return score_test(ensemble)
    if groups is not None:
        refuse(f"`groups` must come with method 'score', not {chosen!r}", "groups", "Leave one of them out.")
    found = grouping_test(
        ensemble.y, ensemble.law, ensemble.table, method=chosen, n_resamples=n_resamples,
        sample_weight=ensemble.weight, random_state=seed, n_jobs=n_jobs,
    )  # fmt: skip
    return TestResult(
        found.statistic, found.pvalue, chosen, _HYPOTHESIS, found.n, found.n_resamples, about="Sufficiency"
    )


def score_test(ensemble: Ensemble) -> TestResult:
    """The score test of sufficiency."""
    held = _some(np.arange(ensemble.y.size) if ensemble.weight is None else np.flatnonzero(ensemble.weight), ensemble)
    clusters = None if ensemble.groups is None else np.unique(ensemble.groups[held], return_inverse=True)[1]
    units = held.size if clusters is None else int(clusters.max()) + 1
    _require_units(ensemble, held, units, clusters is not None)
    weight = np.ones(held.size) if ensemble.weight is None else ensemble.weight[held]
    law = ensemble.law[held]
    basis = score_basis(as_vector(law) if ensemble.k == 2 else law)
    left, reach = freed(one_hot(ensemble.y[held], ensemble.k)[:, 1:], basis, weight)
    per = _ROWS_PER_DIRECTION if clusters is None else _CLUSTERS_PER_DIRECTION
    right = _left_over(directions(ensemble, held, max(units // per // (ensemble.k - 1), 1)), basis, weight)
    products = np.concatenate([left[:, [j]] * right for j in range(left.shape[1])], axis=1) * weight[:, None]
    robust = products / np.sqrt(np.maximum(1.0 - reach, 0.1))[:, None]  # HC2: residuals of outcomes are too small
    if clusters is not None and robust.shape[1]:
        robust = np.stack([np.bincount(clusters, column) for column in robust.T], axis=1)
    statistic, df = _quadratic(products.sum(axis=0), robust.T @ robust)
    return _judged(statistic, df, None if clusters is None else units, held.size)


def _some(held: IntArray, ensemble: Ensemble) -> IntArray:
    """At most `_ROWS` rows, clusters whole: more have all the power there is, and only take time."""
    if held.size <= _ROWS:
        return held
    rng = np.random.default_rng(0)
    if ensemble.groups is None:
        return np.sort(rng.choice(held, _ROWS, replace=False))
    codes = np.unique(ensemble.groups[held], return_inverse=True)[1]
    order = rng.permutation(int(codes.max()) + 1)
    sizes = np.bincount(codes)[order]
    taken = order[: max(int(np.searchsorted(np.cumsum(sizes), _ROWS)), 1)]
    return held[np.isin(codes, taken)]


def _require_units(ensemble: Ensemble, held: IntArray, units: int, clustered: bool) -> None:
    """Rows, or clusters, and classes enough for a large-sample law."""
    least, what = (2 * _CLUSTERS_PER_DIRECTION, "clusters") if clustered else (2 * _ROWS_PER_DIRECTION, "rows")
    classes = np.unique(ensemble.y[held]).size
    if units < least or classes < 2:
        rule = f"a test of sufficiency must have {least} {what} and two classes"
        refuse(rule, f"{units} {what} of {classes} classes", f"Pass more {what}.")


def _left_over(columns: FloatArray, basis: FloatArray, weight: FloatArray) -> FloatArray:
    """Directions, freed of the basis; those that the aggregate determines, up to what a spline misses, are dropped."""
    right, _ = freed(columns, basis, weight)
    return right[:, np.square(right).mean(axis=0) > _DETERMINED * np.square(columns).mean(axis=0)]


def _judged(statistic: float, df: int, clusters: int | None, n: int) -> TestResult:
    """The p-value: chi-squared, or Hotelling's for a covariance from few clusters."""
    from scipy.special import chdtrc, fdtrc

    if df == 0:
        notes = ("the members say nothing that the aggregate does not determine",)
        return TestResult(0.0, 1.0, "score", _HYPOTHESIS, n, 0, {}, notes, "Sufficiency")
    if clusters is None:
        parts, p = {"chi-squared": {"df": float(df)}}, float(chdtrc(df, statistic))
    else:
        rest = clusters - df
        parts, p = (
            {"F": {"df": float(df), "rest": float(rest)}},
            float(fdtrc(df, rest, statistic * rest / (clusters * df))),
        )
    return TestResult(statistic, p, "score", _HYPOTHESIS, n, 0, parts, (), "Sufficiency")


def directions(ensemble: Ensemble, rows: IntArray, most: int) -> FloatArray:
    """What members may know beyond the aggregate: their level, and what they disagree about."""
    eta = np.stack([to_eta(law) for law in ensemble.members])[:, rows]
    eta = eta[..., 1:] - eta[..., :1] if eta.ndim == 3 else eta[..., None]
    mean = eta.mean(axis=0)
    level = _standard(mean)
    apart = np.moveaxis(eta - mean, 0, 1).reshape(eta.shape[1], -1)
    frame, size, _ = np.linalg.svd(apart - apart.mean(axis=0), full_matrices=False)
    kept = _standard(frame[:, size > 1e-10 * max(float(size[0]), 1e-300)] if size[0] > 1e-12 else frame[:, :0])
    parts = [level, level**2]
    for j in range(kept.shape[1]):
        d = kept[:, [j]]
        parts += [d, d**2, d**3, d * level[:, :1]]
    return _standard(np.concatenate(parts, axis=1)[:, :most])


def _standard(columns: FloatArray) -> FloatArray:
    """Columns of mean 0 and standard deviation 1, clipped at four; constant ones are zero."""
    centred = columns - columns.mean(axis=0)
    scale = centred.std(axis=0)
    return np.asarray(np.clip(centred / np.where(scale > 1e-12, scale, np.inf), -4.0, 4.0))


def _quadratic(total: FloatArray, covariance: FloatArray) -> tuple[float, int]:
    """The quadratic form of a sum in the inverse of its covariance, on the directions in which there is any."""
    if total.size == 0:
        return 0.0, 0
    scale = np.sqrt(np.diag(covariance))
    scale = np.where(scale > 1e-9 * max(float(scale.max()), 1e-300), scale, np.inf)
    value, vector = np.linalg.eigh(covariance / np.outer(scale, scale))
    kept = value > 1e-8 * max(float(value.max()), 1e-300)
    kept &= value > 0.0
    along = vector[:, kept].T @ (total / scale)
    return float((along**2 / value[kept]).sum()), int(kept.sum())
