"""Small results: estimates and metrics with intervals, tests, power over sample sizes, contributions of segments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import singledispatch
from typing import Any, NamedTuple, Self

import numpy as np

from scoreprism._core.checks import parse_choice, refuse
from scoreprism._document.result import Contributions
from scoreprism._findings.wording import plural, write_count, write_fixed, write_percent, write_pvalue
from scoreprism._kernels.term_intervals import Interval, quantile
from scoreprism._parameters import described
from scoreprism.curves import DecisionLoss
from scoreprism.displays._display import ResultDisplay, register
from scoreprism.displays._figure_text import draw_legend, has_layout, root_figure, wrap, write_known
from scoreprism.displays._style import Canvas, Inks
from scoreprism.ensembles import Actions, Amount, AveragingGap
from scoreprism.exceptions import UnavailableError
from scoreprism.inference import CorpBootstrap, MapSummary, SampleSize, TestResult
from scoreprism.metrics import METRICS, Estimate, MetricTable
from scoreprism.references import PartitionBound

#: A reference further from the estimates than so many times their span would squeeze them, and is left out.
_NEAR = 4.0
#: What a calibrated (for areas an uninformed, for accuracies a perfect) score would have, where it is not 0.
_REFERENCES = {
    "calibration_slope": 1.0, "observed_expected_ratio": 1.0, "auc": 0.5, "macro_auc": 0.5, "accuracy": 1.0,
    "top_k_accuracy": 1.0,
}  # fmt: skip
#: Smaller p-values are drawn at this one.
_LEAST_PVALUE = 1e-4
#: The usual significance level.
_SIGNIFICANT = 0.05
#: P-values that the axis names.
_PVALUE_TICKS = (0.0001, 0.001, 0.01, _SIGNIFICANT, 0.3, 1.0)


class EstimateRow(NamedTuple):
    """A row of the figure; NaN where there is no estimate, an infinite end where a bound is one-sided."""

    name: str
    value: float
    low: float = math.nan
    high: float = math.nan


class EstimateRows(NamedTuple):
    """What is drawn of a result, the label of the axis, and what to compare with."""

    rows: list[EstimateRow]
    label: str
    reference: float = 0.0


@singledispatch
def read_rows(result: Any) -> EstimateRows:
    """What an `EstimatesDisplay` draws of a result: each type it draws has an entry."""
    raise NotImplementedError(type(result).__name__)


@read_rows.register
def _(result: Interval) -> EstimateRows:
    row = EstimateRow("interval", math.nan, result.low, result.high)
    return EstimateRows([row], f"{write_percent(result.confidence_level)} interval ({result.method})")


@read_rows.register
def _(result: Estimate) -> EstimateRows:
    reference = _REFERENCES.get(result.name, 0.0)
    name = result.name.replace("_", " ")
    try:
        interval = result.interval()
    except UnavailableError:
        return EstimateRows([EstimateRow(name, float(result))], "estimate", reference)
    label = f"{write_percent(interval.confidence_level)} interval ({interval.method})"
    return EstimateRows([EstimateRow(name, float(result), interval.low, interval.high)], label, reference)


@read_rows.register
def _(result: MetricTable) -> EstimateRows:
    ends = {name: result.intervals[name] for name in result.names}
    rows = [EstimateRow(name, float(result.estimates[name]), ends[name].low, ends[name].high) for name in result.names]
    has_intervals = any(math.isfinite(row.low) for row in rows)
    return EstimateRows(rows, f"{write_percent(result.confidence_level)} interval" if has_intervals else "estimate")


@read_rows.register
def _(result: MapSummary) -> EstimateRows:
    row = EstimateRow(result.kind, result.value, result.interval.low, result.interval.high)
    return EstimateRows([row], f"{write_percent(result.interval.confidence_level)} interval")


@read_rows.register
def _(result: Amount) -> EstimateRows:
    row = EstimateRow("estimate", result.value, result.low, result.high)
    return EstimateRows([row], f"{write_percent(result.confidence_level)} interval")


@read_rows.register
def _(result: CorpBootstrap) -> EstimateRows:
    names = [name for name in result.names if name != "uncertainty"]  # that of the outcomes, many times as large
    ends = {name: result.interval(name) for name in names}
    rows = [EstimateRow(name, result.terms[name], ends[name].low, ends[name].high) for name in names]
    draws = plural(result.replicates.shape[0], "resample")
    return EstimateRows(rows, f"{result.estimate.loss!s} loss, 95 % interval, {draws}")


@read_rows.register
def _(result: PartitionBound) -> EstimateRows:
    row = EstimateRow("grouping", result.estimate, result.lower_bound().value, math.inf)
    return EstimateRows([row], "lower bound at 95 %")


@read_rows.register
def _(result: DecisionLoss) -> EstimateRows:
    rows = [
        EstimateRow(f"threshold {write_fixed(result.threshold, 2)}", result.value, 0.0, result.bound),
        EstimateRow("any decision", result.cdl, 0.0, result.cdl_bound),
    ]
    return EstimateRows(rows, f"loss from miscalibration, upper bound at {write_percent(result.confidence_level)}")


@read_rows.register
def _(result: AveragingGap) -> EstimateRows:
    z = quantile(0.95, two_sided=True)
    values = {name: (getattr(result, name), z * getattr(result, f"{name}_std_error")) for name in _GAPS}
    rows = [EstimateRow(name, value, value - half, value + half) for name, (value, half) in values.items()]
    return EstimateRows(rows, "calibration gap of the average, 95 % interval")


@read_rows.register
def _(result: Actions) -> EstimateRows:
    gains = [result.gain(name) for name in result.names[1:]]
    loss = result.terms
    rows = [
        EstimateRow(name, loss[result.names[0]] - loss[name], gain.low, gain.high)
        for name, gain in zip(result.names[1:], gains, strict=True)
    ]
    level = write_percent(result.confidence_level)
    return EstimateRows(rows, f"gain over leaving it, {level} interval")


#: What is drawn of the gap of an average.
_GAPS = ("predicted", "observed", "excess")


class EstimatesDisplay(ResultDisplay[Any]):
    """
    Estimates with their intervals, a row for each, and the value to compare them with.

    Made by ``plot()`` of results that hold one or a few numbers: `Interval`, `Estimate`, `CorpBootstrap`,
    `PartitionBound`, `DecisionLoss`, `AveragingGap`. A one-sided bound is drawn with an arrow.

    Attributes
    ----------
    result : Result
        The numbers.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    point_, interval_ : list of Line2D
        Estimates and intervals.
    reference_ : Line2D or None
        The value to compare with; None where it is too far away.
    label_ : list of Text
        The numbers beside the rows.

    Examples
    --------
    >>> from scoreprism.metrics import global_balance
    >>> display = global_balance([0, 1, 1, 1], [0.2, 0.6, 0.7, 0.9]).plot()
    >>> display.label_[0].get_text()
    '0.15  [−0.11, 0.26]'
    """

    def __init__(self, result: Any) -> None:
        super().__init__(result)
        self._shown = read_rows(result)

    point_: list[Any]
    interval_: list[Any]
    label_: list[Any]
    reference_: Any

    @property
    def names(self) -> list[str]:
        """Names of the rows."""
        return [row.name for row in self._shown.rows]

    def plot(self, ax: Any = None) -> Self:
        numbers = [end for row in self._shown.rows for end in row[1:] if math.isfinite(end)]
        if not numbers:
            raise UnavailableError("a figure needs a finite number, and this result has none. Pass `clip`=1e-6.")
        low, high, has_reference = self._find_limits(numbers)
        decimals = _find_decimals(self._shown.rows)
        with self._open_rows(ax) as (axes, inks):
            self.point_, self.interval_, self.label_, self.reference_ = [], [], [], None
            if has_reference:
                self.reference_ = axes.axvline(self._shown.reference, color=inks.quiet, linewidth=0.9, zorder=1)
            axes.set_xlim(low, high)
            for place, row in enumerate(self._shown.rows):
                self._draw_row(axes, inks, place, row, decimals)
            _name_rows(axes, self.names)
            axes.set_xlabel(wrap(self._shown.label, int(8 * root_figure(axes).get_size_inches()[0])))
            axes.locator_params(axis="x", nbins=5)
        return self

    def _find_limits(self, numbers: list[float]) -> tuple[float, float, bool]:
        """Limits of the axis, and whether the reference lies within them."""
        low, high, reference = min(numbers), max(numbers), self._shown.reference
        span = high - low or abs(high - reference) or 0.1
        is_near = low - _NEAR * span <= reference <= high + _NEAR * span
        if is_near:
            low, high = min(low, reference), max(high, reference)
        is_open = any(row.high == math.inf for row in self._shown.rows)
        room = 0.06 * (high - low or span)
        return low - room, high + room * (2.5 if is_open else 1.0), is_near

    def _draw_row(self, axes: Canvas, inks: Inks, place: int, row: EstimateRow, decimals: int) -> None:
        colour, ends = inks.model(0)["color"], axes.get_xlim()
        if not math.isnan(row.low):
            seen = np.clip([row.low, row.high], *ends)
            self.interval_ += axes.plot(seen, [place, place], color=colour, linewidth=2.0, solid_capstyle="butt")
            look: dict[str, Any] = {"color": colour, "clip_on": False, "markeredgewidth": 1.6}
            axes.plot(row.low, place, marker="|", markersize=9, **look)
            open_end = {"marker": ">", "markersize": 5} if row.high == math.inf else {"marker": "|", "markersize": 9}
            axes.plot(seen[1], place, **look, **open_end)
        if math.isfinite(row.value):
            dot: dict[str, Any] = {"marker": "o", "markersize": 6, "linestyle": "none", "zorder": 4}
            self.point_ += axes.plot(row.value, place, color=inks.ink, markeredgecolor=inks.paper, **dot)
        self.label_.append(_write_beside(axes, inks, place, write_known(*row[1:], decimals)))

    def _size(self) -> tuple[float, float]:
        return 5.6, 0.75 + 0.34 * len(self._shown.rows) + 0.15 * (len(self._shown.label) > 44)


class MetricsDisplay(EstimatesDisplay):
    """
    Metrics with their intervals, a row for each.

    Made by ``evaluate(…).plot()``. By default the metrics that measure gaps between scores and outcomes, which share a
    scale; 0 is calibrated.

    Attributes
    ----------
    result : MetricTable
        The numbers.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    point_, interval_ : list of Line2D
        Estimates and intervals.
    reference_ : Line2D or None
        The value 0; None where it is too far away.
    label_ : list of Text
        The numbers beside the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.metrics import evaluate
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(300)
    >>> display = evaluate(rng.random(300) < s, s, metrics=["ece", "auc"], n_resamples=50).plot()
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['ece']
    """

    @described()
    def plot(self, ax: Any = None, *, metrics: Sequence[str] | None = None) -> Self:
        """
        Draw.

        Parameters
        ----------
        metrics : sequence of str, optional
            Metrics to show; by default those that measure gaps, or all if none does.

        Returns
        -------
        display
            Itself, with ``ax_``, ``figure_`` and the artists.
        """
        known = self.result.names
        gaps = [name for name in known if METRICS[name].is_gap] or known
        chosen = gaps if metrics is None else [parse_choice(name, known, "each metric") for name in metrics]
        if not chosen:
            refuse("a figure must show at least one metric", "none", f"Choose among {', '.join(METRICS)}.")
        every = {row.name: row for row in read_rows(self.result).rows}
        self._shown = self._shown._replace(rows=[every[name] for name in chosen])
        return super().plot(ax)


def _find_decimals(rows: list[EstimateRow]) -> int:
    """Decimals that show two digits of the narrowest interval."""
    widths = [row.high - row.low for row in rows if math.isfinite(row.high - row.low) and row.high > row.low]
    ends = [abs(end) for row in rows for end in row[1:] if math.isfinite(end) and end]
    unit = min(widths, default=0.0) or min(ends, default=1.0)
    return int(np.clip(1 - math.floor(math.log10(unit)), 0, 8))


def _write_short(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")


def _write_beside(axes: Canvas, inks: Inks, place: int, text: str) -> Any:
    """Words right of the axes, on the height of a row; above the row where no layout makes room beside it."""
    style = {"fontsize": 8, "color": inks.ink, "annotation_clip": False, "textcoords": "offset points"}
    offset = {"xytext": (8, 0), "va": "center"} if has_layout(axes) else {"xytext": (0, 5), "ha": "right"}
    return axes.annotate(text, (1.0, place), xycoords=("axes fraction", "data"), **offset, **style)


def _name_rows(axes: Canvas, names: list[str]) -> None:
    axes.set_yticks(range(len(names)), [wrap(name, 24) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)


# ── tests ───────────────────────────────────────────────────────────────────────────────────────────


class TestDisplay(ResultDisplay[TestResult]):
    """
    P-values of a test and of its parts, on a logarithmic axis, with the statistics beside them.

    Made by ``calibration_test(…).plot()`` and its kin. The further a line reaches to the left, the stronger the
    evidence against the hypothesis.

    Attributes
    ----------
    result : TestResult
        The numbers.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    point_ : list of Line2D
        P-values; hollow above 0.05.
    reference_ : Line2D
        The significance level 0.05.
    label_ : list of Text
        P-value and statistic of each row.

    Examples
    --------
    >>> from scoreprism import calibration_test
    >>> display = calibration_test([0, 1, 0, 1], [0.2, 0.6, 0.7, 0.9], method="kuiper", n_resamples=99).plot()
    >>> display.names
    ['kuiper']
    """

    __test__ = False  # not a test to be collected by pytest

    point_: list[Any]
    label_: list[Any]
    reference_: Any

    @property
    def names(self) -> list[str]:
        """Names of the test and of its parts."""
        return list(self.result._columns()["test"])

    def plot(self, ax: Any = None) -> Self:
        columns = self.result._columns()
        pvalues = np.clip(columns["pvalue"], _LEAST_PVALUE, 1.0)
        with self._open_rows(ax) as (axes, inks):
            self.point_, self.label_ = [], []
            axes.set_xscale("log")
            axes.set_xlim(0.6 * min(pvalues.min(), _SIGNIFICANT), 1.15)
            self.reference_ = axes.axvline(_SIGNIFICANT, color=inks.quiet, linewidth=0.9, linestyle=":", zorder=1)
            for place, pvalue in enumerate(pvalues):
                self._draw_row(axes, inks, place, float(pvalue), columns["pvalue"][place], columns["statistic"][place])
            _name_rows(axes, self.names)
            draws = self.result.n_resamples
            how = f"{write_count(draws)} draws" if draws else "large-sample distribution"
            axes.set_xlabel(f"p-value ({how}, {plural(self.result.n, 'row')})")
            ticks = [tick for tick in _PVALUE_TICKS if tick > axes.get_xlim()[0]]
            axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axes.set_xticks([], minor=True)
        return self

    def _draw_row(self, axes: Canvas, inks: Inks, place: int, at: float, pvalue: float, statistic: float) -> None:
        colour, is_significant = inks.model(0)["color"], at <= _SIGNIFICANT
        axes.plot([at, 1.0], [place, place], color=colour, linewidth=2.0 if is_significant else 1.0, zorder=2)
        dot: dict[str, Any] = {"marker": "o", "markersize": 6.5, "linestyle": "none", "zorder": 4}
        face = colour if is_significant else inks.paper
        self.point_ += axes.plot(at, place, color=colour, markerfacecolor=face, **dot)
        text = f"{write_pvalue(pvalue)}, statistic {_write_short(statistic)}"
        self.label_.append(_write_beside(axes, inks, place, text))

    def _size(self) -> tuple[float, float]:
        return 5.6, 0.75 + 0.34 * len(self.names)


# ── sample sizes ────────────────────────────────────────────────────────────────────────────────────


class SampleSizeDisplay(ResultDisplay[SampleSize]):
    """
    The probability of detecting a miscalibration, over the number of rows.

    Made by ``required_sample_size(…).plot()``.

    Attributes
    ----------
    result : SampleSize
        The numbers.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    line_ : list of Line2D
        The probability.
    point_ : list of Line2D
        The required number of rows.
    label_ : list of Text
        What it is.

    Examples
    --------
    >>> from scoreprism import required_sample_size
    >>> required_sample_size(reliability=0.005).plot().label_[0].get_text()
    '2,474 rows'
    """

    figsize = (4.8, 3.0)

    point_: list[Any]
    label_: list[Any]

    @property
    def names(self) -> list[str]:
        """The loss."""
        return [self.result.loss]

    def plot(self, ax: Any = None) -> Self:
        size = self.result
        rows = np.unique(np.geomspace(max(size.n / 30.0, 1.0), 6.0 * size.n, 200).round())
        with self._canvas(ax, None, 1) as (axes, inks, (style,)):
            axes.set_xscale("log")
            self.line_ += axes.plot(rows, [size.power_at(int(n)) for n in rows], **style)
            guide = {"color": inks.quiet, "linewidth": 0.9, "linestyle": ":", "zorder": 1}
            axes.plot([size.n, size.n, rows[0]], [0.0, size.power, size.power], **guide)
            dot: dict[str, Any] = {"marker": "o", "markersize": 6.5, "linestyle": "none", "zorder": 4}
            self.point_ = axes.plot(size.n, size.power, markeredgecolor=inks.paper, **style | dot)
            text = {"va": "top", "fontsize": 8, "color": inks.ink, "textcoords": "offset points"}
            self.label_ = [axes.annotate(f"{write_count(size.n)} rows", (size.n, size.power), (7, -5), **text)]
            axes.set_xlim(rows[0], rows[-1])
            axes.set_ylim(0.0, 1.02)
            axes.set_xlabel("rows")
            axes.set_ylabel(f"P(lower bound > 0), {write_percent(size.confidence_level)}")
            _set_row_ticks(axes)
            axes.set_title(f"reliability {_write_short(size.reliability)}, {size.loss} loss", color=inks.ink)
        return self


def _set_row_ticks(axes: Canvas) -> None:
    """Counts of rows in words on a logarithmic axis: 100, 1,000, and 300 between them where there is room."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    high = axes.get_xlim()[1]
    steps = (1.0, 3.0) if high < 1e6 else (1.0,)
    axes.xaxis.set_major_locator(LogLocator(subs=steps))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: write_count(value)))
    axes.xaxis.set_minor_locator(NullLocator())


# ── contributions ───────────────────────────────────────────────────────────────────────────────────


class ContributionsDisplay(ResultDisplay[Contributions]):
    """
    What each segment contributes to the terms of the whole, as stacked bars.

    Made by ``Decomposition.contributions(…).plot()``.

    Attributes
    ----------
    result : Contributions
        The numbers.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    bar_ : list of Rectangle
        The bars, segment by segment, the last term first.

    Examples
    --------
    >>> from scoreprism import Chain, Level
    >>> chain = Chain([0, 1, 0, 1], [Level("S", [0.2, 0.7, 0.3, 0.8]), Level("C", [0.1, 0.7, 0.3, 0.9])])
    >>> display = chain.decompose("brier").contributions(["a", "a", "b", "b"]).plot()
    >>> len(display.bar_)
    4
    """

    bar_: list[Any]

    @property
    def names(self) -> list[str]:
        """Names of the segments."""
        return list(map(str, self.result.segments))

    def plot(self, ax: Any = None) -> Self:
        terms = self.result.names
        if not np.isfinite(self.result.values).all():
            raise UnavailableError("contributions that are drawn must be finite. Pass `clip`=1e-6 to `decompose`.")
        with self._open_rows(ax) as (axes, inks):
            self.bar_, handles = [], {}
            axes.axvline(0.0, color=inks.quiet, linewidth=0.9, zorder=1)
            for place, line in enumerate(self.result.values):
                ends = [0.0, 0.0]  # of what goes to the left, and to the right
                for term, value in reversed(list(zip(terms, line.tolist(), strict=True))):
                    side = int(value >= 0.0)
                    self.bar_ += axes.barh(place, value, left=ends[side], height=0.62, color=inks.term(term, terms))
                    ends[side] += value
                    handles[term] = self.bar_[-1]
            _name_rows(axes, self.names)
            axes.set_xlabel("contribution to the loss of the whole")
            draw_legend(axes, inks, [handles[term] for term in terms], list(terms))
        return self

    def _size(self) -> tuple[float, float]:
        return 5.6, 1.2 + 0.3 * len(self.names)


for _kind in read_rows.registry:
    if _kind is not object:
        register(EstimatesDisplay, _kind)
register(MetricsDisplay, MetricTable)
register(TestDisplay, TestResult)
register(SampleSizeDisplay, SampleSize)
register(ContributionsDisplay, Contributions)
