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
    **grouping** (information lost from the features to the score) and **irreducible** loss. The laws C = P(Y | S) and
    Q = P(Y | S, X) are fitted out of sample; terms are debiased for their noise and add up to the observed loss.

    Parameters
    ----------
    y_true : array-like of shape (n,), or Sample
        Outcomes: any two (or K) sortable labels; or everything at once, parsed already.
    y_proba : array-like of shape (n,) or (n, K), or fitted classifier
        Predicted probabilities S of rows the model was not trained on; or the model itself, applied to `X`.
    X : array-like or frame of shape (n, p), optional
        Features: numbers, categories, times; missing values are fine.
    loss : str or ProperLoss, default="log"
        The loss. ``d.chain.decompose("brier")`` decomposes the next one by the same fitted probabilities.
    calibrator : str, Calibrator or classifier, default="auto"
        How C is fitted. "auto" mixes Platt's map, a natural spline, an isotonic map, a kernel map and a tree of local
        shifts by their likelihood out of fold; for more than two classes temperature, vector and matrix scaling, a
        polynomial map, and local shifts of their mixture. "flexible" adds to the latter boosting on ratios of the
        probabilities, at about three times the time.
    reference : str, StackedReference or classifier, default="auto"
        How Q is fitted: the default stack, one of its members, or any classifier with ``fit`` and ``predict_proba``
        (it gets the features and the score as its last columns).
    calibration : (scores, y), (scores, y, sample_weight) or Sample, optional
        A held-out split to fit C on, instead of cross-fitting.
    q : array-like of shape (n,) or (n, K), optional
        The law P(Y | X), where it is known, or reference predictions. They must be out of sample.
    latent : array-like of shape (n,) or (n, K), optional
        The law Π = P(Y | Z) of a latent state: four terms.
    levels : mapping of str to columns, features or Level, optional
        Further information levels between C and Q, coarse to fine: names of columns of `X`, features of their own
        (a group variable), or a `Level` with a given law. Each fitted level knows the score and all coarser blocks.
    cv : int, splitter or iterable, default=5
        Number of random folds (not stratified, groups together), or splits of your own, temporal ones for instance.
    form : {"debiased", "difference", "plugin"}, default="debiased"
        How rows are filled; see `Chain.decompose`.
    sample_weight : array-like of shape (n,), optional
        Weights.
    groups : array-like of shape (n,), optional
        Clusters of rows that are not independent: kept in one fold; standard errors are cluster-robust.
    pos_label : label, optional
        The label that 1-D probabilities speak of.
    classes : array-like of shape (K,), optional
        Labels in column order.
    clip : float, optional
        Keep all laws at least this far from 0; nothing is clipped unless asked for. A loss that is infinite is
        reported so, and its ``floored`` holds the terms with ``clip=1/(2n)``.
    random_state : int, Generator or None, default=0
        Seed of the folds. With the default the result depends on the rows alone, not on their order.
    n_jobs : int, optional
        Processes that fit the reference; the result does not depend on it.
    repeats : int, optional
        In how many random partitions of the rows into folds the levels above C are fitted: 3 unless said otherwise, 1
        for a classifier of another maker. (C itself is fitted in 20 partitions, in 4 for more than two classes.)

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
    parse_choice(form, FORMS, "form")
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
