"""decompose(): from scores, outcomes and features to an estimated decomposition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scoreprism._core.checks import parse_choice, parse_clip
from scoreprism._core.simplex import ArrayLike
from scoreprism._fitting.chain_fit import ChainFit, parse_loss
from scoreprism._kernels.term_intervals import FORMS
from scoreprism._sample.sample import Sample
from scoreprism.decomposition import Decomposition
from scoreprism.losses import ProperLoss


def decompose(
    y_true: ArrayLike | Sample,
    y_proba: Any = None,
    X: ArrayLike | None = None,
    *,
    loss: str | ProperLoss = "log",
    calibrator: object = "auto",
    reference: object = "auto",
    calibration: object = None,
    q: ArrayLike | None = None,
    latent: ArrayLike | None = None,
    levels: Mapping[str, object] | None = None,
    cv: object = 5,
    form: str = "debiased",
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    clip: float | None = None,
    random_state: object = 0,
    n_jobs: int | None = None,
    repeats: int | None = None,
) -> Decomposition:
    """
    Split the loss of predicted probabilities into what recalibration, a better model, or only better data can fix.

    Without features: **reliability** (miscalibration) and **refinement** (what is left after recalibration), and in
    ``result.resolution_form`` uncertainty − resolution + reliability. With features, refinement is split into
    **grouping** (information that the features have and the score has lost) and **irreducible** loss. C = P(Y | S) and
    Q = P(Y | S, X) are fitted out of sample; terms are corrected for the noise of the fits and add up to the observed
    loss.

    Parameters
    ----------
    y_true : array-like of shape (n,), or Sample
        Outcomes: any two (or K) sortable labels. A `Sample` stands for all arguments by row.
    y_proba : array-like of shape (n,) or (n, K), or fitted classifier
        Predicted probabilities S of rows that the model was not trained on, or the fitted model, to be applied to
        `X`.
    X : array-like or frame of shape (n, p), optional
        Features: numbers, categories, times; missing values are fine.
    loss : str or ProperLoss, default="log"
        The loss. ``d.chain.decompose("brier")`` decomposes the next one without fitting again.
    calibrator : str, Calibrator or classifier, default="auto"
        How C is fitted. "auto" mixes Platt's map, a natural spline, an isotonic map, a kernel map and a tree of local
        shifts by their out-of-fold likelihood; for more than two classes temperature, vector and matrix scaling, a
        polynomial map, and local shifts of their mixture. With more than two classes, "flexible" adds boosting on
        ratios of the probabilities, which takes about three times as long.
    reference : str, StackedReference or classifier, default="auto"
        How Q is fitted: the default stack, one of its members, or any classifier with ``fit`` and ``predict_proba``
        (it gets the features and the score as its last columns).
    calibration : (scores, y), (scores, y, sample_weight) or Sample, optional
        A held-out split to fit C on, instead of cross-fitting.
    q : array-like of shape (n,) or (n, K), optional
        P(Y | X) where it is known, or reference predictions made out of sample.
    latent : array-like of shape (n,) or (n, K), optional
        Π = P(Y | Z) of a latent state Z, which gives four terms.
    levels : mapping of str to columns, features or Level, optional
        Further information levels between C and Q, coarse to fine: names of columns of `X`, features of their own
        (a group variable), or a `Level` with given probabilities. Each fitted level uses the score and all coarser
        levels.
    cv : int, splitter or iterable, default=5
        Number of random folds (not stratified; groups stay together), or your own splits, for instance temporal ones.
    form : {"debiased", "difference", "plugin"}, default="debiased"
        How terms are estimated; see `Chain.decompose`.
    sample_weight : array-like of shape (n,), optional
        Weights.
    groups : array-like of shape (n,), optional
        Groups of dependent rows: each stays in one fold, and standard errors are cluster-robust.
    pos_label : label, optional
        Positive class: one-dimensional `y_proba` is P(Y = pos_label).
    classes : array-like of shape (K,), optional
        Labels in column order.
    clip : float, optional
        Keep all probabilities at least this far from 0; none are clipped by default. An infinite loss is reported as
        infinite, and ``floored`` holds the terms with ``clip=1/(2n)``.
    random_state : int, Generator or None, default=0
        Seed of the folds; None draws a new one. The result does not depend on the order of the rows.
    n_jobs : int, optional
        Processes that fit the reference; the result does not depend on it.
    repeats : int, optional
        Number of random partitions into folds in which the levels above C are fitted: 3 by default, 1 for a classifier
        from another library. (C itself is fitted in 20 partitions, in 4 for more than two classes.)

    Returns
    -------
    Decomposition
        Terms, intervals, bounds, advice.

    Examples
    --------
    >>> import numpy as np
    >>> import scoreprism
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(2000)
    >>> y = (rng.random(2000) < p).astype(int)
    >>> bold = 1 / (1 + (1 / p - 1) ** 2)                             # twice the log-odds: overconfident
    >>> d = scoreprism.decompose(y, bold, loss="brier", random_state=0)
    >>> d.names
    ('reliability', 'refinement')
    >>> interval = d.interval("reliability")
    >>> bool(interval.low > 0)
    True
    """
    chosen = parse_loss(loss)
    form = parse_choice(form, FORMS, "form")
    sample = Sample.of(
        y_true, y_proba, X, q=q, latent=latent, levels=levels, sample_weight=sample_weight, groups=groups,
        pos_label=pos_label, classes=classes,
    )  # fmt: skip
    fit = ChainFit.of(
        sample, calibrator=calibrator, reference=reference, calibration=calibration, cv=cv,
        random_state=random_state, n_jobs=n_jobs, repeats=repeats, pos_label=pos_label, classes=classes,
    )  # fmt: skip
    distance = parse_clip(clip, sample.k)
    return fit.fit([chosen], distance).decompose_at(chosen, form, distance)
