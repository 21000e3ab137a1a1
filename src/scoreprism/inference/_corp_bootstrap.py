"""The bootstrap of CORP: every replicate refits the isotonic regression exactly, without another sort."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from scoreprism._core.checks import parse_choice, parse_confidence, parse_count, require_jobs
from scoreprism._core.resampling import Streams, replicate
from scoreprism._core.simplex import ArrayLike, FloatArray, as_vector, clip_law, freeze
from scoreprism._document.result import TermTable
from scoreprism._findings.finding import Finding
from scoreprism._findings.wording import write_count
from scoreprism._kernels import ranked as _ranked
from scoreprism._kernels.ranked import Kernel, Ranked, Sums, sums_of_draws
from scoreprism._kernels.term_intervals import Interval
from scoreprism._parameters import described
from scoreprism._sample.cells import block_losses
from scoreprism._sample.sample import Sample
from scoreprism.decomposition import Decomposition, corp_decomposition
from scoreprism.losses import ProperLoss


@dataclass(frozen=True, eq=False, repr=False)
class CorpBootstrap(TermTable):
    """
    Bootstrap replicates of the terms of CORP.

    Made by `corp_bootstrap`.

    Attributes
    ----------
    names : tuple of str
        ``reliability``, ``resolution`` and ``uncertainty``.
    estimate : Decomposition
        CORP of the rows themselves.
    replicates : array of shape (n_resamples, 3)
        The terms of each resample, in the order of `names`.

    Examples
    --------
    >>> result = corp_bootstrap([0, 0, 0, 1, 1, 1], [0.4, 0.3, 0.2, 0.1, 0.5, 0.9], loss="brier", random_state=0)
    >>> result.replicates.shape
    (1000, 3)
    >>> round(result.terms["uncertainty"], 4)
    0.25
    """

    estimate: Decomposition
    replicates: FloatArray

    @property
    def terms(self) -> dict[str, float]:
        """Estimate of each term, from the rows themselves."""
        return self.estimate.terms

    @property
    def std_error(self) -> dict[str, float]:
        """Standard deviation of the replicates of each term; NaN where the loss is infinite."""
        with np.errstate(invalid="ignore"):
            return dict(zip(self.names, self.replicates.std(axis=0, ddof=1).tolist(), strict=True))

    @described()
    def interval(self, term: str, confidence_level: float = 0.95) -> Interval:
        """
        Percentile interval of a term.

        It says how much the *estimate* varies from sample to sample. The in-sample bias of CORP stays inside, and
        resampling adds its own: replicates of reliability and resolution lie above their estimates, which
        themselves lie above the truth. For an interval that covers the truth, use `decompose`, which fits out of
        sample.

        Returns
        -------
        Interval
            Quantiles of the replicates; NaN where the loss is infinite in some of them.
        """
        column = self.replicates[:, self.names.index(parse_choice(term, self.names, "term"))]
        confidence = parse_confidence(confidence_level)
        tail = (1.0 - confidence) / 2.0
        with np.errstate(invalid="ignore"):
            low, high = np.quantile(column, [tail, 1.0 - tail]) if np.isfinite(column).all() else (np.nan, np.nan)
        return Interval(float(low), float(high), confidence, "bootstrap, percentile")

    def to_dict(self) -> dict[str, Any]:
        """
        The summary, without replicates, as plain Python objects.

        Returns
        -------
        dict
            Loss, sizes, and estimate, standard error and 95 % interval of each term.
        """
        return {
            "loss": str(self.estimate.loss),
            "n": self.estimate.n,
            "n_resamples": self.replicates.shape[0],
            "clip": self.estimate.clip,
            "terms": self._by_term(),
            "findings": [one.to_dict() for one in self._findings()],
        }

    def _columns(self) -> dict[str, list[Any]]:
        intervals = [self.interval(name) for name in self.names]
        return {
            "term": list(self.names),
            "estimate": list(self.terms.values()),
            "std_error": list(self.std_error.values()),
            "low": [interval.low for interval in intervals],
            "high": [interval.high for interval in intervals],
        }

    def _title(self) -> str:
        sizes = f"{write_count(self.replicates.shape[0])} resamples of {write_count(self.estimate.n)} rows"
        return f"CORP of the {self.estimate.loss!s} loss, bootstrap\n[{sizes}; 95 % percentile intervals]"

    def _findings(self) -> Sequence[Finding]:
        return (*self.estimate._findings(), Finding("in_sample_bias", facts={"bootstrap": True}))


@described(of_two=True)
def corp_bootstrap(
    y_true: ArrayLike | Sample,
    y_proba: ArrayLike | None = None,
    *,
    loss: str | ProperLoss = "log",
    n_resamples: int = 1000,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    clip: float | None = None,
    random_state: object = 0,
    n_jobs: int | None = None,
) -> CorpBootstrap:
    """
    Bootstrap of CORP: rows are drawn with replacement, and the isotonic regression is refitted exactly each time.

    Rows are ranked once. A replicate is a vector of counts, under which isotonic regression pools a run of events
    followed by non-events in any case, so that it works on sums. With numba (``pip install "scoreprism[fast]"``)
    large problems run compiled; the numbers agree to rounding.

    Parameters
    ----------
    n_resamples : int, default=1000
        Number of replicates.
    sample_weight : array-like of shape (n,), optional
        Weights: a row that is drawn twice counts with twice its weight. Rows of weight zero are not drawn.
    clip : float, optional
        Keep probabilities at least this far from 0.
    random_state : int, Generator or None, default=0
        Seed. Replicate b depends on it and on b alone, not on the number of replicates.

    Returns
    -------
    CorpBootstrap
        Estimates, replicates and percentile intervals.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(500)
    >>> result = corp_bootstrap(rng.random(500) < s, s, loss="brier", n_resamples=200, random_state=1)
    >>> interval = result.interval("uncertainty")
    >>> interval.low < result.terms["uncertainty"] < interval.high
    True
    """
    require_jobs(n_jobs)
    sample = Sample.of(y_true, y_proba, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    estimate = corp_decomposition(sample, loss=loss, clip=clip)
    count = parse_count(n_resamples, "n_resamples", 2)
    streams = Streams.of(random_state)
    score = as_vector(sample.prediction)  # clipping moves the evaluated probabilities, not their order
    losses = estimate.loss.evaluate(score if estimate.clip is None else clip_law(score, estimate.clip), sample.y)
    ranked = Ranked.of(score, sample.y, losses, sample.weight)
    compiled = _ranked.has_numba() and count * ranked.n >= _ranked.WORTH_LOADING

    def evaluate(block: range) -> FloatArray:  # every thread needs its own workspace of compiled sums
        sums: Kernel = _ranked.compiled_sums(ranked) if compiled else partial(sums_of_draws, ranked)
        return np.array([_find_terms(sums(streams(b)), estimate) for b in block])

    replicates = replicate(evaluate, count, n_jobs)
    return CorpBootstrap(estimate.names, estimate._backend, estimate, freeze(replicates))


def _find_terms(sums: Sums, estimate: Decomposition) -> tuple[float, float, float]:
    """Reliability, resolution and uncertainty from the sums of a resample."""
    total, weight, events = sums
    isotonic, constant = block_losses(estimate.loss, weight, events, estimate.clip)
    return total / float(weight.sum()) - isotonic, constant - isotonic, constant
