"""sufficiency_test: whether an ensemble's aggregate holds all information of its members (Prop. agg-preserve)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from scoreprism._core.checks import parse_choice, parse_random_state, refuse
from scoreprism._core.numerics import TINY, law_logits, scaled_axes
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray, as_vector, one_hot
from scoreprism._findings.finding import Finding
from scoreprism._fitting.score_basis import regress_out, score_basis
from scoreprism._parameters import described
from scoreprism._sample.sample import Sample
from scoreprism.ensembles._ensemble import Ensemble, parse_ensemble
from scoreprism.inference import TestResult, grouping_test

#: Tests of sufficiency: the score test of fixed directions, and the tests of `grouping_test` on the members.
SUFFICIENCY_TESTS = ("score", "projected-covariance", "bootstrap")

#: Rows for each direction of the score test; directions beyond are principal components of the disagreement.
_ROWS_PER_DIRECTION = 50
#: At most this many rows are used.
_ROWS = 20_000
#: Clusters for each direction, from which alone the covariance is estimated.
_CLUSTERS_PER_DIRECTION = 10
#: A direction with at most this share of its variance left is a function of the aggregate.
_DETERMINED = 1e-2

_HYPOTHESIS = "the members add nothing to the aggregate: P(Y | S¹, …, Sᴹ) = φ(S_ens)"


@described()
def sufficiency_test(
    y_true: ArrayLike | Sample,
    y_proba: Any = None,
    X: ArrayLike | None = None,
    *,
    aggregate: Any = "mean",
    weights: ArrayLike | None = None,
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

    ``"score"``: outcomes, and what members may know (their mean logit, their disagreement, powers and products),
    are cleared of everything that a smooth function of the aggregate explains; under the hypothesis the residuals of
    both are uncorrelated (chi-squared, all rows are used). The other methods are those of
    `grouping_test`, with the members for features: they learn the direction, on half of the rows or by resampling.

    Parameters
    ----------
    y_true : array-like of shape (n,), or Sample
        Outcomes, or everything at once, its models the members.
    y_proba : mapping, frame, sequence or array
        Members, as in `average`.
    X : array-like or frame of shape (n, p), optional
        Features, for members that are fitted classifiers.
    aggregate : str, array, callable or combiner, default="mean"
        How members are combined, as in `aggregation_decomposition`.
    weights : array-like of shape (M,), optional
        Weights of the members.
    method : {"score", "projected-covariance", "bootstrap"}, default="score"
        Which test.
    n_resamples : int, default=199
        Draws of ``"bootstrap"``.
    groups : array-like of shape (n,), optional
        Clusters of rows that are not independent, for ``"score"``.
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
    rows = {"sample_weight": sample_weight, "groups": groups, "pos_label": pos_label, "classes": classes}
    ensemble = parse_ensemble(y_true, y_proba, X, aggregate, rows, weights=weights, seed=seed)
    if chosen == "score":
        return run_score_test(ensemble)
    if ensemble.sample.groups is not None:
        refuse(f"`groups` must come with method 'score', not {chosen!r}", "groups", "Leave one of them out.")
    sample = replace(ensemble.alone, levels=(ensemble.block,))
    test = grouping_test(sample, method=chosen, n_resamples=n_resamples, random_state=seed, n_jobs=n_jobs)
    return TestResult(test.statistic, test.pvalue, chosen, _HYPOTHESIS, test.n, test.n_resamples, about="Sufficiency")


def run_score_test(ensemble: Ensemble) -> TestResult:
    """The score test of sufficiency."""
    rows = _subsample(ensemble.sample)
    sample, law = ensemble.sample.take(rows), ensemble.law[rows]
    clusters = None if sample.groups is None else np.unique(sample.groups, return_inverse=True)[1]
    units = sample.n if clusters is None else int(clusters.max()) + 1
    _require_units(sample, units)
    weight = np.ones(sample.n) if sample.weight is None else sample.weight
    basis = score_basis(as_vector(law) if sample.k == 2 else law)
    left, reach = regress_out(one_hot(sample.y, sample.k)[:, 1:], basis, weight)
    per = _ROWS_PER_DIRECTION if clusters is None else _CLUSTERS_PER_DIRECTION
    right = _drop_determined(_make_directions(sample, max(units // per // (sample.k - 1), 1)), basis, weight)
    products = np.concatenate([left[:, [j]] * right for j in range(left.shape[1])], axis=1) * weight[:, None]
    robust = products / np.sqrt(np.maximum(1.0 - reach, 0.1))[:, None]  # HC2: residuals of outcomes are too small
    if clusters is not None and robust.shape[1]:
        robust = np.stack([np.bincount(clusters, column) for column in robust.T], axis=1)
    statistic, df = _quadratic_form(products.sum(axis=0), robust.T @ robust)
    return _make_result(statistic, df, None if clusters is None else units, sample.n)


def _subsample(sample: Sample) -> IntArray:
    """At most `_ROWS` rows, in whole clusters: more would add time but hardly any power."""
    if sample.n <= _ROWS:
        return np.arange(sample.n)
    rng = np.random.default_rng(0)
    if sample.groups is None:
        return np.sort(rng.choice(sample.n, _ROWS, replace=False))
    codes = np.unique(sample.groups, return_inverse=True)[1]
    order = rng.permutation(int(codes.max()) + 1)
    sizes = np.bincount(codes)[order]
    chosen = order[: max(int(np.searchsorted(np.cumsum(sizes), _ROWS)), 1)]
    return np.flatnonzero(np.isin(codes, chosen))


def _require_units(sample: Sample, units: int) -> None:
    """Refuse too few rows, clusters or classes for a large-sample test."""
    least, what = 2 * _ROWS_PER_DIRECTION, "rows"
    if sample.groups is not None:
        least, what = 2 * _CLUSTERS_PER_DIRECTION, "clusters"
    classes = np.unique(sample.y).size
    if units < least or classes < 2:
        rule = f"a test of sufficiency must have {least} {what} and two classes"
        refuse(rule, f"{units} {what} of {classes} classes", f"Pass more {what}.")


def _drop_determined(columns: FloatArray, basis: FloatArray, weight: FloatArray) -> FloatArray:
    """Residuals of the directions; those that the aggregate determines, up to what a spline misses, are dropped."""
    right, _ = regress_out(columns, basis, weight)
    return right[:, np.square(right).mean(axis=0) > _DETERMINED * np.square(columns).mean(axis=0)]


def _make_result(statistic: float, df: int, clusters: int | None, n: int) -> TestResult:
    """The p-value: chi-squared, or Hotelling's for a covariance from few clusters."""
    from scipy.special import chdtrc, fdtrc

    if df == 0:
        nothing = (Finding("members_add_nothing", facts={"determined": True}),)
        return TestResult(0.0, 1.0, "score", _HYPOTHESIS, n, 0, {}, nothing, "Sufficiency")
    if clusters is None:
        parts, p = {"chi-squared": {"df": float(df)}}, float(chdtrc(df, statistic))
    else:
        rest = clusters - df
        parts, p = (
            {"F": {"df": float(df), "rest": float(rest)}},
            float(fdtrc(df, rest, statistic * rest / (clusters * df))),
        )
    return TestResult(statistic, p, "score", _HYPOTHESIS, n, 0, parts, (), "Sufficiency")


def _make_directions(sample: Sample, most: int) -> FloatArray:
    """What members may know beyond the aggregate: their level and their disagreement."""
    eta = np.stack([law_logits(law) for law in sample.predictions.values()])
    eta = eta[..., 1:] - eta[..., :1] if eta.ndim == 3 else eta[..., None]
    mean = eta.mean(axis=0)
    level = _standardize(mean)
    apart = np.moveaxis(eta - mean, 0, 1).reshape(eta.shape[1], -1)
    frame, size, _ = np.linalg.svd(apart - apart.mean(axis=0), full_matrices=False)
    disagreement = _standardize(frame[:, size > 1e-10 * max(float(size[0]), TINY)] if size[0] > 1e-12 else frame[:, :0])
    parts = [level, level**2]
    for j in range(disagreement.shape[1]):
        d = disagreement[:, [j]]
        parts += [d, d**2, d**3, d * level[:, :1]]
    return _standardize(np.concatenate(parts, axis=1)[:, :most])


def _standardize(columns: FloatArray) -> FloatArray:
    """Columns of mean 0 and standard deviation 1, clipped at four; constant ones are zero."""
    centred = columns - columns.mean(axis=0)
    scale = centred.std(axis=0)
    return np.asarray(np.clip(centred / np.where(scale > 1e-12, scale, np.inf), -4.0, 4.0))


def _quadratic_form(total: FloatArray, covariance: FloatArray) -> tuple[float, int]:
    """The quadratic form of a sum in the inverse of its covariance, in the directions with variance."""
    if total.size == 0:
        return 0.0, 0
    scale, values, axes = scaled_axes(covariance, 1e-8, 1e-9)
    return float(((axes.T @ (total / scale)) ** 2 / values).sum()), values.size
