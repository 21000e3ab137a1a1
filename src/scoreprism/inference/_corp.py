"""The bootstrap of CORP, exact: every replicate refits the isotonic law, and none of them sorts again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import parse_choice, parse_confidence, parse_count, parse_random_state, refuse
from scoreprism._core.simplex import ArrayLike, FloatArray, as_vector, frozen
from scoreprism._core.workers import run_all, worker_count
from scoreprism._document.tables import TermTable
from scoreprism._kernels import compiled as _fast
from scoreprism._kernels.ranked import Kernel, Ranked, Stream, Sums, sums_of_draws
from scoreprism.decomposition import Decomposition
from scoreprism.decomposition._classical import in_sample, two_class_sheet
from scoreprism.decomposition._intervals import Interval
from scoreprism.decomposition._pools import corp_losses
from scoreprism.decomposition._rows import Question, Sheet
from scoreprism.losses import ProperLoss

#: Replicates a thread takes at a time.
_CHUNK = 16

_BIAS = (
    "the in-sample bias stays inside: every resample is fitted on itself, so replicates of miscalibration and "
    "discrimination lie above their estimates, which themselves lie above the truth"
)


@dataclass(frozen=True, eq=False, repr=False)
class CorpBootstrap(TermTable):
    """
    Bootstrap replicates of the terms of CORP.

    Made by `corp_bootstrap`.

    Attributes
    ----------
    names : tuple of str
        ``miscalibration``, ``discrimination`` and ``uncertainty``.
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

    def interval(self, term: str, level: float = 0.95) -> Interval:
        """
        Percentile interval of a term.

        It says how much the *estimate* varies from sample to sample. The in-sample bias of CORP stays inside, and
        resampling adds its own: replicates of miscalibration and discrimination lie above their estimates, which
        themselves lie above the truth. For an interval that should cover the truth, use laws fitted out of sample.

        Parameters
        ----------
        term : str
            One of `names`.
        level : float, default=0.95
            Confidence level.

        Returns
        -------
        Interval
            Quantiles of the replicates; NaN where the loss is infinite in some of them.
        """
        column = self.replicates[:, self.names.index(parse_choice(term, self.names, "term"))]
        confidence = parse_confidence(level)
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
        columns = self._columns()
        table = {name: {key: columns[key][i] for key in columns if key != "term"} for i, name in enumerate(self.names)}
        return {
            "loss": str(self.estimate.loss),
            "n": self.estimate.n,
            "n_resamples": self.replicates.shape[0],
            "clip": self.estimate.clip,
            "terms": table,
            "notes": self._footer(),
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
        sizes = f"{self.replicates.shape[0]} resamples of {self.estimate.n} rows"
        return f"CORP of the {self.estimate.loss!s} loss, bootstrap\n  [{sizes}; 95 % percentile intervals]"

    def _footer(self) -> list[str]:
        return [*self.estimate._footer(), _BIAS]


def corp_bootstrap(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    loss: str | ProperLoss = "log",
    n_resamples: int = 1000,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    clip: float | None = None,
    random_state: object = None,
    n_jobs: int | None = None,
) -> CorpBootstrap:
    """
    Bootstrap of CORP: rows are drawn with repetition and the isotonic law is refitted, exactly, every time.

    Rows are ranked once. A replicate is a vector of counts, under which isotonic regression pools a run of events
    followed by non-events in any case, so that it works on sums. With numba (``pip install "scoreprism[fast]"``)
    large problems run compiled; the numbers agree to rounding.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Two-class outcomes.
    y_proba : array-like of shape (n,) or (n, 2)
        Predicted probabilities.
    loss : str or ProperLoss, default="log"
        The loss.
    n_resamples : int, default=1000
        Number of replicates.
    sample_weight : array-like of shape (n,), optional
        Weights: a row that is drawn twice counts with twice its weight. Rows of weight zero are not drawn.
    pos_label : label, optional
        The label that 1-D probabilities speak of.
    classes : array-like of shape (2,), optional
        Labels in column order.
    clip : float, optional
        Keep laws at least this far from 0.
    random_state : int, Generator or None, optional
        Seed. Replicate b depends on it and on b alone, not on the number of replicates.
    n_jobs : int, optional
        Number of threads; results are the same for every choice.

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
    sheet = two_class_sheet(y_true, y_proba, sample_weight, pos_label, classes)
    asked = Question.of(loss, "difference", clip, 2)
    count = parse_count(n_resamples, "n_resamples", 2)
    entropy = parse_random_state(random_state).integers(2**63, size=2)
    estimate = in_sample(sheet, asked)
    ranked = _ranked(sheet, asked)
    compiled = _fast.available() and count * ranked.n >= _fast.WORTH_LOADING
    make = _fast.compiled_sums if compiled else _sums
    replicates = replicated(partial(_some, ranked, asked, make, entropy), count, n_jobs)
    return CorpBootstrap(estimate.names, estimate._backend, estimate, frozen(replicates))


def _ranked(sheet: Sheet, asked: Question) -> Ranked:
    """Rows in order of score; clipping moves the laws that are judged, not the order."""
    used = sheet.clipped(asked.clip)
    losses = asked.loss.evaluate(used.laws[0], used.y)
    return Ranked.of(as_vector(sheet.laws[0]), sheet.y, losses, sheet.weight)


def _sums(ranked: Ranked) -> Kernel:
    """The definition of the sums."""
    return partial(sums_of_draws, ranked)


def replicated(some: Callable[[range], FloatArray], count: int, n_jobs: int | None) -> FloatArray:
    """Replicates 0, …, count − 1, on one thread or several, or where joblib is configured to work."""
    if n_jobs is not None and (n_jobs == 0 or isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer))):
        remedy = "For example 2, or -1 for all processors."
        refuse("`n_jobs` must be a nonzero whole number or None", repr(n_jobs), remedy)
    if worker_count(n_jobs) == 1:
        return some(range(count))
    chunks = [range(start, min(start + _CHUNK, count)) for start in range(0, count, _CHUNK)]
    return np.concatenate(list(run_all(some, chunks, n_jobs, "replicates", threads=True)))


def _some(
    ranked: Ranked, asked: Question, make: Callable[[Ranked], Kernel], entropy: NDArray[np.int64], replicates: range
) -> FloatArray:
    """Some of the replicates; each has a stream of its own."""
    sums = make(ranked)
    return np.array([_terms(sums(stream_of(entropy, b)), asked) for b in replicates])


def stream_of(entropy: NDArray[np.int64], replicate: int) -> Stream:
    """The random stream of one replicate."""
    return Stream(np.random.SeedSequence(entropy.tolist(), spawn_key=(replicate,)))


def _terms(sums: Sums, asked: Question) -> tuple[float, float, float]:
    """Miscalibration, discrimination and uncertainty from the sums of a resample."""
    total, weight, events = sums
    isotonic, constant = corp_losses(asked.loss, weight, events, asked.clip)
    return total / float(weight.sum()) - isotonic, constant - isotonic, constant
