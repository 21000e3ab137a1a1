"""pipeline_bootstrap(): the sampling variation of a whole pipeline's terms (appendix C)."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from scoreprism._core.checks import parse_choice, parse_confidence, parse_count, parse_random_state, require_jobs
from scoreprism._core.frames import make_frame
from scoreprism._core.simplex import ArrayLike, FloatArray
from scoreprism._core.workers import limit_threads, run_all
from scoreprism._document.result import TermTable
from scoreprism._document.result_json import encode
from scoreprism._findings.finding import Finding, Noted
from scoreprism._fitting.chain_fit import decompose_each
from scoreprism._kernels.term_intervals import Interval, quantile
from scoreprism._parameters import described
from scoreprism.decomposition import Decomposition
from scoreprism.losses import ProperLoss, get_loss
from scoreprism.pipelines._checkpoint import Checkpoint, Store
from scoreprism.pipelines._pipeline import Pipeline
from scoreprism.pipelines._replicates import Setup, replicate
from scoreprism.pipelines._split_tables import find_deviation

#: How replicates become an interval; docs/pipelines.md has the measured coverage of each.
METHODS = ("normal", "percentile", "corrected", "basic")
#: Quantities besides the terms.
LOSS, RECALIBRATED, GAIN = "loss", "recalibrated loss", "gain"
#: Quantities that cannot be negative in the population, but can on fixed test rows.
_NONNEGATIVE = frozenset({"reliability", "grouping", "refinement", "irreducible", LOSS, RECALIBRATED})
#: Mean shift of replicates, in standard errors, above which a finding reports it.
_SHIFTED = 0.5
#: Replicates below which quantiles and standard errors are rough.
_FEW = 50


def get_coefficients(name: str, terms: tuple[str, ...]) -> dict[int, float]:
    """A quantity as a linear function of the columns: losses of the levels, then spreads of all but the first."""
    if name not in terms:
        return {LOSS: {0: 1.0}, RECALIBRATED: {1: 1.0}, GAIN: {0: 1.0, 1: -1.0}}[name]
    levels, t = len(terms), terms.index(name)
    coefficients = {t: 1.0} if t == levels - 1 else {t: 1.0, t + 1: -1.0, levels + t: 1.0}
    if t > 0:
        coefficients[levels + t - 1] = -1.0
    return coefficients


def combine_columns(columns: FloatArray, name: str, terms: tuple[str, ...]) -> FloatArray:
    """A quantity of every replicate; an infinite loss is never multiplied by zero."""
    parts = [coefficient * columns[..., i] for i, coefficient in get_coefficients(name, terms).items()]
    with np.errstate(invalid="ignore"):
        return np.asarray(sum(parts))


@dataclass(frozen=True, eq=False, repr=False)
class PipelineBootstrap(Noted, TermTable):
    """
    A pipeline's terms under resampling: made by `pipeline_bootstrap`.

    Attributes
    ----------
    names : tuple of str
        The terms, then "loss" of the classifier as it is, "recalibrated loss", and "gain", their difference.
    loss : ProperLoss
        The loss.
    refit : str
        "calibrator" or "all".
    resample_test : bool
        Whether standard errors and intervals include the sampling of the test rows.
    decomposition : Decomposition
        Of the pipeline as it is.
    n_redrawn : int
        Draws that held too few rows of a class and were drawn again.
    seed : int
        Seed derived from ``random_state``; to repeat a run, pass the same ``random_state``, not this number.
    findings : tuple of Finding
        Cautions about the replicates.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from scoreprism.pipelines import pipeline_bootstrap
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(900, 2))
    >>> y = (X[:, 0] + rng.logistic(size=900) > 0).astype(int)
    >>> parts = [(X[i : i + 300], y[i : i + 300]) for i in (0, 300, 600)]
    >>> result = pipeline_bootstrap(LogisticRegression(), *parts, calibrator="platt", n_resamples=20, random_state=0)
    >>> result.names
    ('reliability', 'refinement', 'loss', 'recalibrated loss', 'gain')
    >>> result.replicates.shape
    (20, 5)
    """

    loss: ProperLoss
    refit: str
    resample_test: bool
    decomposition: Decomposition
    n_redrawn: int
    seed: int
    findings: tuple[Finding, ...]
    _stages: tuple[str, ...]
    _original: FloatArray  # (columns,)
    _values: FloatArray  # (B, stages, columns)
    _by_loss: Mapping[str, PipelineBootstrap] = field(default_factory=dict)  # of all losses that share the refits

    # ── estimates ───────────────────────────────────────────────────────────────────────────────────

    @property
    def _terms(self) -> tuple[str, ...]:
        return self.names[:-3]

    def for_loss(self, loss: str | ProperLoss) -> PipelineBootstrap:
        """
        The same replicates under another loss of the call.

        Parameters
        ----------
        loss : str or ProperLoss
            One of the losses passed as ``loss``.

        Returns
        -------
        PipelineBootstrap
            From the same refits.
        """
        return self._by_loss[parse_choice(str(get_loss(loss)), self._by_loss, "loss")]

    @property
    def n_resamples(self) -> int:
        """Number of replicates."""
        return int(self._values.shape[0])

    @property
    def terms(self) -> dict[str, float]:
        """Estimate of each quantity for the pipeline as it is."""
        return {name: float(combine_columns(self._original, name, self._terms)) for name in self.names}

    def _get_draws(self, name: str, stage: str) -> FloatArray:
        """A quantity in all replicates, with everything up to a stage resampled."""
        return combine_columns(self._values[:, self._stages.index(stage)], name, self._terms)

    @property
    def _last(self) -> str:
        return self._stages[-1] if self.resample_test else [s for s in self._stages if s != "test"][-1]

    @property
    def replicates(self) -> FloatArray:
        """Every quantity in every replicate, shape (n_resamples, names)."""
        return np.stack([self._get_draws(name, self._last) for name in self.names], axis=1)

    @cached_property
    def std_error(self) -> dict[str, float]:
        """Standard deviation of the replicates of each quantity; NaN where a loss is infinite."""
        return {name: find_deviation(self._get_draws(name, self._last)) for name in self.names}

    @property
    def shift(self) -> dict[str, float]:
        """Mean of the replicates minus the estimate, in standard errors; large if resampling changes the pipeline."""
        return {
            name: self._find_shift(name) / self.std_error[name] if self.std_error[name] else 0.0 for name in self.names
        }

    def _find_shift(self, name: str) -> float:
        draws = self._get_draws(name, self._last)
        return float(draws.mean()) - self.terms[name] if np.isfinite(draws).all() else math.nan

    @property
    def variance(self) -> dict[str, dict[str, float]]:
        """
        Variance of each quantity by source: calibration rows, training rows (if refitted), test rows.

        Each replicate is measured with the calibration rows resampled, then the training rows too, then the test rows
        too; the parts are the variances of the steps. They do not add up to the variance of the whole, because the
        steps of a replicate are correlated (calibration and training negatively), and the part of a source depends on
        this order. Shares in the table are of the sum of the parts.
        """
        parts: dict[str, dict[str, float]] = {}
        for name in self.names:
            before: FloatArray = np.zeros(self.n_resamples)
            parts[name] = {}
            for stage in self._stages:
                now = self._get_draws(name, stage)
                with np.errstate(invalid="ignore"):  # infinite losses
                    parts[name][stage] = find_deviation(now - before) ** 2
                before = now
        return parts

    # ── intervals ───────────────────────────────────────────────────────────────────────────────────

    def interval(self, term: str, confidence_level: float = 0.95, method: str = "normal") -> Interval:
        """
        Confidence interval of a quantity.

        Parameters
        ----------
        term : str
            One of `names`.
        confidence_level : float, default=0.95
            Confidence level.
        method : {"normal", "percentile", "corrected", "basic"}, default="normal"
            "normal" is the estimate ± z standard errors; "corrected" the same after subtracting the shift of the
            replicates; "percentile" takes quantiles of the replicates, "basic" mirrors them at the estimate.
            docs/pipelines.md has the coverage of each, which is too low for the last two.

        Returns
        -------
        Interval
            Cut at 0 for quantities that cannot be negative in the population, unless the test rows are taken as
            fixed; NaN where a loss is infinite.
        """
        name, confidence = parse_choice(term, self.names, "term"), parse_confidence(confidence_level)
        chosen = parse_choice(method, METHODS, "method")
        draws = self._get_draws(name, self._last)
        if not np.isfinite(draws).all() or not math.isfinite(self.terms[name]):
            return Interval(math.nan, math.nan, confidence, chosen)
        low, high = self._find_ends(name, draws, confidence, chosen)
        floor = 0.0 if name in _NONNEGATIVE and self.resample_test else -math.inf
        return Interval(max(low, floor), max(high, floor), confidence, chosen)

    def _find_ends(self, name: str, draws: FloatArray, confidence_level: float, method: str) -> tuple[float, float]:
        estimate = self.terms[name]
        if method in ("percentile", "basic"):
            low, high = np.quantile(draws, [0.5 - confidence_level / 2, 0.5 + confidence_level / 2]).tolist()
            return (low, high) if method == "percentile" else (2 * estimate - high, 2 * estimate - low)
        margin = quantile(confidence_level, two_sided=True) * self.std_error[name]
        centre = estimate - (self._find_shift(name) if method == "corrected" else 0.0)
        return centre - margin, centre + margin

    # ── tables ──────────────────────────────────────────────────────────────────────────────────────

    @property
    def conclusion(self) -> Finding:
        """Whether recalibration pays, by the interval of the gain."""
        interval, facts = self.interval(GAIN), {"loss": str(self.loss)}
        if not math.isfinite(interval.low):
            return Finding("recalibration_undecided", facts=facts)
        kind = "recalibration_costs" if interval.high < 0.0 else "recalibration_undecided"
        kind = "recalibration_pays" if interval.low > 0.0 else kind
        gain = self.terms[GAIN]
        about: dict[str, Any] = {"value": gain, "low": interval.low, "high": interval.high, "confidence_level": 0.95}
        return Finding(kind, **about, facts=facts)

    @property
    def advice(self) -> str:
        """The conclusion as a sentence."""
        return self.conclusion.text

    @described()
    def replicates_frame(self, backend: str | None = None) -> Any:
        """
        All replicates: one row for each replicate, stage of resampling and quantity.

        Returns
        -------
        frame
            Columns replicate, loss, resampled, term, value.
        """
        columns: dict[str, list[Any]] = {key: [] for key in ("replicate", "loss", "resampled", "term", "value")}
        for number, stage in enumerate(self._stages):
            for name in self.names:
                columns["replicate"] += range(self.n_resamples)
                columns["loss"] += [str(self.loss)] * self.n_resamples
                columns["resampled"] += [", ".join(self._stages[: number + 1])] * self.n_resamples
                columns["term"] += [name] * self.n_resamples
                columns["value"] += self._get_draws(name, stage).tolist()
        return make_frame(columns, backend or self._backend)

    def to_dict(self) -> dict[str, Any]:
        """
        The result as plain Python objects.

        Returns
        -------
        dict
            Estimates, standard errors, intervals, variances, notes, and the replicates. Ready for JSON: numbers that
            are not finite are the words "nan", "inf" and "-inf".
        """
        intervals = {name: self.interval(name) for name in self.names}
        first = ("refit", "resample_test", "n_resamples", "n_redrawn", "seed", "terms", "std_error")
        content = {
            "loss": str(self.loss),
            **{name: getattr(self, name) for name in first},
            "intervals": {name: [one.low, one.high] for name, one in intervals.items()},
            "confidence_level": 0.95,
            "variance": self.variance,
            "advice": self.advice,
            "findings": [one.to_dict() for one in self._findings()],
            "replicates": {name: self._get_draws(name, self._last).tolist() for name in self.names},
        }
        encoded: dict[str, Any] = encode(content)
        return encoded

    def _columns(self) -> dict[str, list[Any]]:
        intervals = [self.interval(name) for name in self.names]
        columns: dict[str, list[Any]] = {
            "term": list(self.names),
            "estimate": [self.terms[name] for name in self.names],
            "std_error": [self.std_error[name] for name in self.names],
            "low": [one.low for one in intervals],
            "high": [one.high for one in intervals],
        }
        variance = self.variance
        total = {name: sum(parts.values()) for name, parts in variance.items()}
        for stage in self._stages:
            shares = [variance[name][stage] / total[name] if total[name] > 0.0 else math.nan for name in self.names]
            columns[f"from_{stage}"] = shares
        return columns

    def _kinds(self) -> Mapping[str, str]:
        return {f"from_{stage}": "share" for stage in self._stages}

    def _title(self) -> str:
        what = "calibrator refitted" if self.refit == "calibrator" else "classifier and calibrator refitted"
        test = "test rows resampled" if self.resample_test else "test rows as they are"
        return (
            f"Pipeline bootstrap of the {self.loss!s} loss: {self.n_resamples} replicates, {what}, {test}\n"
            f"Intervals at 95 %; shares of the variance by what was resampled."
        )

    def _findings(self) -> Sequence[Finding]:
        return (self.conclusion, *self.findings)


@described()
def pipeline_bootstrap(
    estimator: Any,
    train: Any,
    calibration: Any,
    test: Any,
    *,
    calibrator: object = "auto",
    refit: str = "calibrator",
    n_resamples: int = 200,
    loss: str | ProperLoss | Sequence[str | ProperLoss] = "log",
    reference: object = None,
    q: ArrayLike | None = None,
    groups: object = None,
    resample: str = "auto",
    resample_test: bool = True,
    clip: float | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    random_state: object = 0,
    n_jobs: int | None = None,
) -> PipelineBootstrap:
    """
    Bootstrap a pipeline: train a classifier, calibrate it on a second split, decompose its loss on a third.

    Every replicate draws rows with replacement, refits, and decomposes again, with the debiased estimate. Copies
    of a row share a block when the spread of the fitted map is measured, so that replicates centre on the estimate.

    Parameters
    ----------
    estimator : classifier
        Any classifier with ``predict_proba``, also a pipeline. If `train` is None, one that is already fitted,
        which needs only ``predict_proba`` and ``classes_``.
    train, calibration, test : (X, y) or (X, y, sample_weight)
        The three splits, in arrays or frames. `train` may be None with ``refit="calibrator"``.
    calibrator : str, Calibrator or classifier, default="auto"
        How C is fitted, as in `decompose`.
    refit : {"calibrator", "all"}, default="calibrator"
        "calibrator" keeps the classifier and resamples the calibration rows: uncertainty about *this* classifier.
        "all" resamples the training rows as well and fits both again: uncertainty about pipelines like this one.
    n_resamples : int, default=200
        Number of replicates. Replicate b does not depend on it.
    loss : str, ProperLoss or sequence of these, default="log"
        The loss; or several, which share the refits: the result is that of the first, and ``for_loss`` gives the
        others.
    reference : None, str, StackedReference or classifier, default=None
        How Q = P(Y | S, X) is fitted on the test rows, as in `decompose`: adds grouping and irreducible loss, and
        the time of three such fits to every replicate. None leaves refinement as it is.
    q : array-like of shape (n_test,) or (n_test, K), optional
        P(Y | X) of the test rows, where it is known.
    groups : tuple of array-like, optional
        Clusters of the rows of train, calibration and test (None for single rows): drawn instead of rows.
    resample : {"auto", "rows", "weights"}, default="auto"
        How resampled rows are passed to the classifier: repeated, or once, with counts as weights. "auto" repeats them,
        except for classifiers that hold out some of their rows for validation and take weights, where copies would
        leak.
    resample_test : bool, default=True
        Whether standard errors and intervals include the sampling of the test rows: True for statements about the
        population, False for statements about these test rows.
    checkpoint : path, optional
        A file for finished replicates: a run that was interrupted, or is repeated with more replicates,
        continues from it with the same result. A file of another problem is refused: other rows, options, parameters
        or functions, or a classifier that gives calibration and test rows other scores.
    random_state : int, Generator or None, default=0
        Seed. None draws one, or takes that of the checkpoint.
    n_jobs : int, optional
        Processes, as in joblib, whose ``parallel_config`` chooses other backends. The result does not depend on it.

    Returns
    -------
    PipelineBootstrap
        Estimates, replicates, intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from scoreprism.pipelines import pipeline_bootstrap
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1500, 1)) @ np.ones((1, 4)) + rng.normal(size=(1500, 4))  # naive Bayes is overconfident
    >>> y = (X[:, 0] + rng.logistic(size=1500) > 0).astype(int)
    >>> parts = [(X[i : i + 500], y[i : i + 500]) for i in (0, 500, 1000)]
    >>> result = pipeline_bootstrap(GaussianNB(), *parts, calibrator="platt", n_resamples=30, random_state=0)
    >>> result.advice[:19]
    'Recalibration pays:'
    """
    losses = list(loss) if isinstance(loss, Sequence) and not isinstance(loss, str) else [loss]
    count = parse_count(n_resamples, "n_resamples", 2)
    require_jobs(n_jobs)
    pipeline = Pipeline.of(
        estimator, calibrator, {"train": train, "calibration": calibration, "test": test}, refit=refit,
        losses=losses, reference=reference, q=q, groups=groups, resample=resample,
        resample_test=resample_test, clip=clip,
    )  # fmt: skip
    seed = None if random_state is None else int(parse_random_state(random_state).integers(2**62))
    store = Store(seed)
    if checkpoint is not None:
        store = Checkpoint(checkpoint, pipeline.identity, pipeline.digest_of_scores, seed)
    with store:
        setup = Setup.of(pipeline, store.seed)
        with limit_threads():
            clip = setup.pipeline.clip
            chain = setup.fit.fit(pipeline.losses.values(), clip)
            decompositions = decompose_each(chain, pipeline.losses, "debiased", clip)
            values = setup.measure(chain)
        store.require_shape((len(setup.stages), *values.shape))
        _run(setup, count, n_jobs, store)
    done = [store.done[b] for b in range(count)]
    replicates, redraws = np.stack([one[0] for one in done]), sum(one[1] for one in done)
    results: dict[str, PipelineBootstrap] = {}
    for i, (name, decomposition) in enumerate(decompositions.items()):
        result = _make_result(pipeline, setup, decomposition, values[i], replicates[:, :, i], redraws)
        results[name] = replace(result, _by_loss=results)
    return next(iter(results.values()))


def _run(setup: Setup, count: int, n_jobs: int | None, store: Store) -> None:
    """Run the missing replicates and store them as they finish."""
    missing = [b for b in range(count) if b not in store.done]

    def describe_progress() -> str:
        finished = sum(b in store.done for b in range(count))
        where = "kept in the checkpoint" if isinstance(store, Checkpoint) else "lost: there is no checkpoint="
        return f"{finished} of {count} replicates were finished and are {where}"

    results = run_all(
        partial(replicate, setup), missing, n_jobs, "pipeline bootstrap", ordered=False, kept=describe_progress
    )
    for one in results:
        store.add(*one)


def _make_result(
    pipeline: Pipeline, setup: Setup, original: Decomposition, values: FloatArray, replicates: FloatArray, redraws: int
) -> PipelineBootstrap:
    """The result for one loss."""
    result = PipelineBootstrap(
        names=(*original.names, LOSS, RECALIBRATED, GAIN),
        _backend=pipeline.test.backend,
        loss=original.loss,
        refit=pipeline.refit,
        resample_test=pipeline.resample_test,
        decomposition=original,
        n_redrawn=redraws,
        seed=setup.seed,
        findings=(*pipeline.findings, *original.findings),
        _stages=setup.stages,
        _original=values,
        _values=replicates,
    )
    return replace(
        result, findings=(*result.findings, *_find_cautions(result, reference=pipeline.reference is not None))
    )


def _find_cautions(result: PipelineBootstrap, *, reference: bool) -> Iterator[Finding]:
    """Cautions about the replicates."""
    if result.n_redrawn:
        yield Finding("redrawn", n=result.n_redrawn)
    if result.n_resamples < _FEW:
        yield Finding("few_resamples", n=result.n_resamples)
    if reference:
        yield Finding("reference_limit")
    shift = result.shift["reliability"]
    if result.refit == "all" and abs(shift) > _SHIFTED:
        yield Finding("shifted_replicates", value=float(shift))
