"""Many metrics of the same rows in one table, on one set of resamples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scoreprism._core.checks import abbreviate, parse_choice, parse_confidence, parse_count, parse_random_state, refuse
from scoreprism._core.frames import make_frame
from scoreprism._core.simplex import ArrayLike
from scoreprism._document.result import TermTable
from scoreprism._findings.finding import Finding, Noted
from scoreprism._findings.wording import write_count, write_percent, write_pvalue
from scoreprism._kernels.term_intervals import Interval
from scoreprism._parameters import described
from scoreprism._sample.sample import Sample
from scoreprism.exceptions import ScoreprismError, UnavailableError
from scoreprism.metrics import _gap_metrics as gap
from scoreprism.metrics import _mean_metrics as mean
from scoreprism.metrics import _moment_metrics as moment
from scoreprism.metrics import _rank_metrics as rank
from scoreprism.metrics import _recalibration_metrics as recalibration
from scoreprism.metrics._estimate import Estimate
from scoreprism.metrics._metric import Metric
from scoreprism.metrics._rows import parse_rows

#: Every metric by name: the one table that code, documentation and tests iterate over.
METRICS: dict[str, Metric] = {
    function.__name__: function
    for function in (
        gap.lcs,
        gap.ici,
        gap.e50,
        gap.e90,
        gap.emax,
        gap.ece,
        gap.ace,
        gap.mce,
        gap.rmsce,
        gap.debiased_ece,
        gap.debiased_rmsce,
        gap.smece,
        recalibration.calibration_intercept,
        recalibration.calibration_slope,
        recalibration.calibration_in_the_large,
        moment.observed_expected_ratio,
        moment.global_balance,
        moment.spiegelhalter_z,
        rank.auc,
        mean.accuracy,
        mean.log_loss,
        mean.brier_score,
        rank.macro_auc,
        mean.top_k_accuracy,
        gap.classwise_lcs,
        gap.classwise_ici,
        gap.classwise_ece,
        gap.classwise_ace,
        gap.classwise_rmsce,
        gap.confidence_ece,
        gap.confidence_smece,
        gap.top_label_ece,
    )
}

#: Metrics for any number of classes, and those mainly for three or more.
ANY_CLASSES = ("global_balance", "spiegelhalter_z", "accuracy", "log_loss", "brier_score")
SEVERAL_CLASSES = tuple(name for name in METRICS if name.startswith(("classwise", "confidence", "top_", "macro")))
#: Classes beyond which metrics that smooth the curve of every class, in every resample, have to be asked for.
_MANY = 50
_SMOOTHED = ("classwise_lcs", "classwise_ici")


@dataclass(frozen=True, eq=False, repr=False)
class MetricTable(Noted, TermTable):
    """
    Metrics of one prediction, with intervals.

    Made by `evaluate`.

    Attributes
    ----------
    names : tuple of str
        Metrics in order.
    estimates : dict of str to Estimate
        Each metric.
    intervals : dict of str to Interval
        Interval of each; NaN ends where there is none, and then its ``method`` says why.
    n : int
        Number of rows that have weight.
    confidence_level : float
        Confidence level.
    findings : tuple of Finding
        Metrics that could not be computed, and why.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(500)
    >>> table = evaluate(rng.random(500) < s, s, metrics=["auc", "ece"], random_state=0)
    >>> table.names, table.estimates["ece"].method
    (('auc', 'ece'), '15 bins of equal width')
    """

    estimates: dict[str, Estimate]
    intervals: dict[str, Interval]
    n: int
    confidence_level: float
    findings: tuple[Finding, ...]

    @property
    def terms(self) -> dict[str, float]:
        """Each metric as a number."""
        return {name: float(value) for name, value in self.estimates.items()}

    @property
    def std_error(self) -> dict[str, float]:
        """Standard error of each; NaN where there is none."""
        return {name: _find_error(value) for name, value in self.estimates.items()}

    def to_dict(self) -> dict[str, Any]:
        """
        The table as plain Python objects.

        Returns
        -------
        dict
            Sizes, and estimate, standard error, interval, p-value and method of each metric.
        """
        columns = self._columns()
        table = {
            name: {key: values[i] for key, values in columns.items() if key != "metric"} | self._describe(name)
            for i, name in enumerate(self.names)
        }
        return {
            "n": self.n,
            "confidence_level": self.confidence_level,
            "metrics": table,
            "findings": [one.to_dict() for one in self.findings],
        }

    @described()
    def to_frame(self, backend: str | None = None) -> Any:
        """
        The table as a dataframe.

        Returns
        -------
        frame
            One row per metric: its estimate, standard error, interval, p-value (NaN where there is no test) and method.
        """
        details = [self._describe(name) for name in self.names]
        pvalues = [np.nan if one["pvalue"] is None else one["pvalue"] for one in details]
        columns = self._columns() | {"pvalue": pvalues, "method": [one["method"] for one in details]}
        return make_frame(columns, backend or self._backend)

    def _describe(self, name: str) -> dict[str, Any]:
        return {"pvalue": self.estimates[name].pvalue, "method": self.estimates[name].method}

    def _columns(self) -> dict[str, list[Any]]:
        intervals = [self.intervals[name] for name in self.names]
        return {
            "metric": list(self.names),
            "estimate": list(self.terms.values()),
            "std_error": list(self.std_error.values()),
            "low": [interval.low for interval in intervals],
            "high": [interval.high for interval in intervals],
        }

    def _title(self) -> str:
        return f"Metrics of {write_count(self.n)} rows\n[{write_percent(self.confidence_level)} intervals]"

    def _footer(self) -> list[str]:
        lines = [f"{name}: {value.method}" for name, value in self.estimates.items()]
        tested = [
            f"{name}: {write_pvalue(value.pvalue)}"
            for name, value in self.estimates.items()
            if value.pvalue is not None
        ]
        return [*lines, *tested]

    def _findings(self) -> Sequence[Finding]:
        return self.findings


def _find_error(value: Estimate) -> float:
    try:
        return value.std_error
    except UnavailableError:
        return np.nan


def _parse_metrics(
    metrics: Iterable[str] | Mapping[str, Mapping[str, Any]] | None, k: int
) -> dict[str, dict[str, Any]]:
    """Names of metrics and their options; by default all that are made for this number of classes."""
    if metrics is None:
        several = [*ANY_CLASSES, *SEVERAL_CLASSES]
        left = ([] if k > 5 else ["top_k_accuracy"]) + (list(_SMOOTHED) if k > _MANY else [])
        chosen = [name for name in METRICS if (name not in SEVERAL_CLASSES if k == 2 else name in several)]
        return {name: {} for name in chosen if name not in left}
    if isinstance(metrics, str):
        metrics = [metrics]
    options = metrics if isinstance(metrics, Mapping) else {name: {} for name in metrics}
    if not options:
        refuse("`metrics` must name at least one metric", "none", "Leave it out for all of them.")
    parsed = {parse_choice(name, METRICS, "metrics"): dict(own) for name, own in options.items()}
    for name, own in parsed.items():
        if own:
            check_options(name, own)
    return parsed


@described()
def evaluate(
    y_true: ArrayLike | Sample,
    y_proba: ArrayLike | None = None,
    *,
    metrics: Iterable[str] | Mapping[str, Mapping[str, Any]] | None = None,
    confidence_level: float = 0.95,
    n_resamples: int = 1000,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    random_state: object = 0,
) -> MetricTable:
    """
    Many metrics of one prediction, with intervals from one set of resamples.

    Parameters
    ----------
    metrics : list of str or dict, optional
        Names in `METRICS`, or a mapping from names to options, for example ``{"ece": {"n_bins": 20}}``. By default all
        that are made for the number of classes; any of these that the data do not allow is left out with a note.
    n_resamples : int, default=1000
        Number of resamples.
    random_state : int, Generator or None, default=0
        Seed of the resamples: each metric sees the same ones, and `Estimate.interval` with this seed gives its
        interval.

    Returns
    -------
    MetricTable
        One line per metric.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> s = rng.random(400)
    >>> table = evaluate(rng.random(400) < s, s, metrics={"auc": {}, "ece": {"n_bins": 10}}, random_state=0)
    >>> sorted(table.to_dict()["metrics"]["ece"])
    ['estimate', 'high', 'low', 'method', 'pvalue', 'std_error']
    """
    rows = parse_rows(y_true, y_proba, sample_weight, pos_label, classes)
    confidence, count = parse_confidence(confidence_level), parse_count(n_resamples, "n_resamples", 2)
    rng = parse_random_state(random_state)
    whole = isinstance(random_state, (int, np.integer))
    seed = int(random_state) if whole else int(rng.integers(2**63))  # type: ignore[call-overload]
    estimates, findings = {}, list[Finding]()
    if metrics is None and rows.k > _MANY:
        reason = f"a curve for each of {rows.k} classes takes long. Name it in `metrics`."
        findings += [Finding("unavailable", subject=name, facts={"reason": reason}) for name in _SMOOTHED]
    for name, options in _parse_metrics(metrics, rows.k).items():
        try:
            estimates[name] = METRICS[name].of_rows(rows, **options)
        except ScoreprismError as error:
            if metrics is not None:
                raise
            findings.append(Finding("unavailable", subject=name, facts={"reason": str(error)}))
    intervals = {name: _find_interval(value, confidence, count, seed) for name, value in estimates.items()}
    return MetricTable(tuple(estimates), rows.backend, estimates, intervals, rows.n, confidence, tuple(findings))


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """Refuse options that a metric does not have."""
    wrong = [option for option in options if option not in METRICS[name].options]
    if wrong:
        known = ", ".join(METRICS[name].options) or "none"
        refuse(f"{name} takes the options {known}", abbreviate(wrong), "Correct their names.")


def _find_interval(value: Estimate, confidence_level: float, count: int, seed: int) -> Interval:
    try:
        return value._inference.interval(confidence_level, count, seed, None)
    except UnavailableError as error:
        return Interval(np.nan, np.nan, confidence_level, f"none: {error}")
