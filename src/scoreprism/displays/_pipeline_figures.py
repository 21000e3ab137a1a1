"""Figures of pipelines: the distribution of replicates, and a row of points for each method of repeated splits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self, TypeVar

import numpy as np

from scoreprism._core.checks import parse_choice, parse_confidence, refuse
from scoreprism._core.simplex import FloatArray
from scoreprism._findings.wording import plural, write_percent, write_pvalue
from scoreprism._parameters import described
from scoreprism.displays._display import ResultDisplay, register
from scoreprism.displays._figure_text import (
    count_margin_letters,
    draw_legend,
    has_layout,
    inches,
    root_figure,
    shorten,
    wrap,
    write_known,
)
from scoreprism.displays._style import Canvas, Inks
from scoreprism.pipelines import PairedComparison, PairedLine, PipelineBootstrap, SplitsSummary

#: Height of a ridge, as a share of its row.
_RIDGE = 0.62
#: The part of the axes that the numbers beside the rows may take.
_WORDS_SHARE = 0.6


class PipelineBootstrapDisplay(ResultDisplay[PipelineBootstrap]):
    """
    A ridge of replicates for each quantity, on one axis of changes from the estimate, with intervals.

    Made by ``PipelineBootstrap.plot()``. A dotted line marks where the quantity itself would be 0.

    Attributes
    ----------
    result : PipelineBootstrap
        The numbers.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    ridge_, interval_, label_ : list of artists
        Densities of the replicates, intervals, and the words beside them.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from scoreprism.pipelines import pipeline_bootstrap
    >>> X, y = make_classification(600, random_state=0)
    >>> parts = [(X[i::3], y[i::3]) for i in range(3)]
    >>> result = pipeline_bootstrap(GaussianNB(), *parts, calibrator="platt", loss="brier", n_resamples=20)
    >>> len(result.plot(terms=["reliability", "refinement"]).ridge_)
    2
    """

    @property
    def names(self) -> list[str]:
        """Names of the quantities."""
        return list(self.result.names)

    @described()
    def plot(self, ax: Any = None, *, confidence_level: float = 0.95, terms: Any = None) -> Self:
        """
        Draw.

        Parameters
        ----------
        terms : sequence of str, optional
            Quantities to show; all by default.

        Returns
        -------
        display
            Itself, with ``ax_``, ``figure_`` and the artists.
        """
        confidence, names = parse_confidence(confidence_level), self.result.names
        shown = list(names) if terms is None else [parse_choice(term, names, "each term") for term in terms]
        known = {name: self.result.interval(name, confidence) for name in shown}
        finite = [name for name in shown if np.isfinite(known[name].low)]
        if not finite:
            refuse("a figure must show a finite quantity", "infinite losses only", "Pass `clip`=1e-6 to the bootstrap.")
        self._rows = len(finite)
        with self._open_rows(ax) as (axes, inks):
            self.ridge_: list[Any] = []
            self.interval_: list[Any] = []
            self.label_: list[Any] = []
            axes.axvline(0.0, color=inks.quiet, linewidth=0.9, zorder=1)
            for row, name in enumerate(finite):
                self._draw_row(axes, inks, row, name, known[name])
            axes.set_yticks(range(len(finite)), [wrap(name, 14) for name in finite])
            axes.set_ylim(len(finite) - 0.6, -0.85)
            self._write_numbers(axes, inks, finite, known)
            axes.set_xlabel(wrap(self._write_unit(), max(int(inches(axes)[0] / 0.09), 20)))
        if not has_layout(axes):  # nothing makes room for words
            axes.tick_params(axis="y", labelsize=5.5, pad=1)
            axes.set_xlabel(self._write_unit(), fontsize=7)
        return self

    def _size(self) -> tuple[float, float]:
        return 6.4, 0.9 + 0.55 * self._rows

    def _write_unit(self) -> str:
        what = "" if self.result.resample_test else ", test rows fixed"
        return f"{self.result.loss!s} loss, change from the estimate ({self.result.n_resamples} replicates{what})"

    def _draw_row(self, axes: Canvas, inks: Inks, row: int, name: str, known: Any) -> None:
        """Draw the density of the replicates above the row's line, and the interval on it."""
        estimate = self.result.terms[name]
        moved = self.result.replicates[:, self.result.names.index(name)] - estimate
        terms = self.result.names[:-3]
        colour = inks.term(name, terms) if name in terms else inks.quiet
        if np.ptp(moved) > 1e-9 * (1.0 + abs(estimate)):
            from scipy.stats import gaussian_kde

            edge = 0.15 * np.ptp(moved)
            x = np.linspace(moved.min() - edge, moved.max() + edge, 200)
            height = gaussian_kde(moved)(x)
            top = row - _RIDGE * height / height.max()
            self.ridge_.append(axes.fill_between(x, row, top, color=colour, alpha=0.55, linewidth=0, zorder=2))
        ends = np.array([known.low, known.high]) - estimate
        line = {"color": inks.ink, "linewidth": 1.1, "marker": "|", "markersize": 6, "solid_capstyle": "butt"}
        self.interval_ += axes.plot(ends, [row, row], **line, zorder=4, path_effects=inks.casing)
        axes.plot(0.0, row, marker="o", markersize=3.5, color=inks.ink, zorder=5, linestyle="none")

    def _write_numbers(self, axes: Canvas, inks: Inks, names: list[str], known: dict[str, Any]) -> None:
        """Write the numbers of each row to the right; a letter of 8 points takes about 0.066 inches."""
        low, high = axes.get_xlim()
        digits = _count_digits(high - low)
        words = [write_known(self.result.terms[name], known[name].low, known[name].high, digits) for name in names]
        share = (0.2 + 0.066 * max(map(len, words))) / inches(axes)[0]
        if share > _WORDS_SHARE:  # an estimate below 0 stands on a line of its own
            words = [text.replace("; ", ";\n") for text in words]
            longest = max(len(line) for text in words for line in text.split("\n"))
            share = min((0.2 + 0.066 * longest) / inches(axes)[0], _WORDS_SHARE)
        right = (high - share * low) / (1.0 - share)
        for row, (name, text) in enumerate(zip(names, words, strict=True)):
            style = {"va": "center", "fontsize": 8, "color": inks.ink}
            self.label_.append(axes.annotate(text, (high, row), (4, 0), textcoords="offset points", **style))
            zero = -self.result.terms[name]
            if low <= zero < high:  # where the quantity itself would be 0
                axes.plot([zero, zero], [row + 0.12, row - _RIDGE], color=inks.ink, linewidth=0.9, linestyle=":")
                place = {"ha": "right", "va": "bottom", "fontsize": 7, "color": inks.ink, "textcoords": "offset points"}
                self.label_.append(axes.annotate("0", (zero, row - _RIDGE), (-2, -5), **place))
        axes.set_xlim(low, right)
        axes.set_xticks([tick for tick in axes.get_xticks() if low <= tick <= high])
        axes.spines["bottom"].set_bounds(low, high)


def _count_digits(span: float) -> int:
    """Decimals that resolve a hundredth of the axis."""
    return int(np.clip(np.ceil(2.0 - np.log10(span)), 2, 7)) if span > 0.0 else 5


# ── repeated splits ─────────────────────────────────────────────────────────────────────────────────

#: Columns of the frame in words.
_WORDS = {
    "raw": "raw loss",
    "recalibrated": "recalibrated loss",
    "reliability_plugin": "plug-in reliability",
    "reliability": "debiased reliability",
    "noise_floor": "noise floor",
    "lcs": "LCS",
}
#: Half the height of a cloud of points.
_CLOUD = 0.22
#: Inches that two lines of words take beside a row.
_TWO_LINES = 0.32
#: Points beyond the central quartiles by this many times their distance are drawn at the edge.
_FAR = 4.0


P = TypeVar("P", PairedComparison, SplitsSummary)


class Strips(ResultDisplay[P]):
    """Rows of points, one for each method."""

    cloud_: list[Any]

    @abstractmethod
    @described()
    def plot(self, ax: Any = None, *, loss: str | None = None) -> Self:
        """
        Draw.

        Parameters
        ----------
        loss : str, optional
            Which loss; the first whose numbers are finite by default.

        Returns
        -------
        display
            Itself, with ``ax_``, ``figure_`` and the artists.
        """

    @contextmanager
    def _open_strips(self, ax: Any, rows: int) -> Iterator[tuple[Canvas, Inks]]:
        """Axes in the house style with a line for each row."""
        self._rows, self.cloud_ = rows, []
        with self._open_rows(ax) as (axes, inks):
            yield axes, inks
            axes.set_ylim(rows - 0.5, -0.5)

    def _size(self) -> tuple[float, float]:
        return 5.6, 1.3 + 0.5 * self._rows

    def _scatter(self, axes: Canvas, row: int, values: FloatArray, limits: tuple[float, float], **look: Any) -> None:
        """Draw one point per split, at heights from a sequence that fills the row evenly."""
        height = row + _CLOUD * (2.0 * (0.618034 * np.arange(values.size) % 1.0) - 1.0)
        shown = np.clip(values, *limits)
        style = {"linestyle": "none", "marker": "o", "markersize": 2.6, "markeredgewidth": 0, "alpha": 0.55}
        self.cloud_ += axes.plot(shown, height, clip_on=False, **(style | look))

    def _write_names(self, axes: Canvas, names: Sequence[str], below: Sequence[str] | None = None) -> None:
        """Write the names of the rows, with a second line from `below`."""
        width = 24
        if not has_layout(axes):  # nothing makes room: use the existing margin
            width, below = max(count_margin_letters(axes), 8), None
        is_tight = inches(axes)[1] < _TWO_LINES * len(names)
        words = [shorten(name, width) if is_tight else wrap(name, width) for name in names]
        if below is not None and not is_tight:
            words = [f"{word}\n{more}" for word, more in zip(words, below, strict=True)]
        axes.set_yticks(range(len(words)), words)


def _find_limits(columns: Sequence[FloatArray], required: Sequence[float]) -> tuple[float, float, int]:
    """Limits that hold the values in `required` and all but extreme splits, and the number of the latter."""
    values = np.concatenate([column[np.isfinite(column)] for column in columns])
    ends = [np.quantile(column, (0.25, 0.75)) for column in columns if column.size]
    low = min(float(q[0] - _FAR * (q[1] - q[0])) for q in ends)
    high = max(float(q[1] + _FAR * (q[1] - q[0])) for q in ends)
    finite = [value for value in required if np.isfinite(value)]
    low, high = min(max(low, float(values.min())), *finite), max(min(high, float(values.max())), *finite)
    room = 0.03 * (high - low) or 0.01
    return low - room, high + room, int(np.sum((values < low - room) | (values > high + room)))


def _write_beyond(count: int) -> list[str]:
    return [f"{plural(count, 'split')} beyond the edges, drawn there"] if count else []


def _set_label(axes: Canvas, *lines: str) -> int:
    """Set the label of the axis on as many lines as it needs; returns how many beyond the first."""
    width = max(int(12 * root_figure(axes).get_size_inches()[0]) - 12, 20)
    text = "\n".join(wrap(line, width) for line in lines)
    axes.set_xlabel(text)
    return text.count("\n")


class PairedDisplay(Strips[PairedComparison]):
    """
    Differences from a baseline over the same splits: every split, the mean and its interval.

    Attributes
    ----------
    result : PairedComparison
        The numbers.
    mean_, interval_ : list of Line2D
        Means and intervals of the methods.
    zero_ : Line2D
        No difference.

    Examples
    --------
    >>> import polars as pl
    >>> from scoreprism.pipelines import paired_comparison
    >>> frame = pl.DataFrame({"split": [0, 0, 1, 1], "method": ["a", "b"] * 2, "raw": [0.5, 0.4, 0.6, 0.4]})
    >>> display = paired_comparison(frame, baseline="a", metric="raw", test_ratio=0.25).plot()
    >>> display.ax_.get_xlabel()
    'Δ raw loss: method − a'
    """

    mean_: list[Any]
    interval_: list[Any]
    zero_: Any

    @property
    def names(self) -> list[str]:
        """Names of the methods."""
        return list(dict.fromkeys(line.method for line in self.result.lines))

    def plot(self, ax: Any = None, *, loss: str | None = None) -> Self:
        known = list(dict.fromkeys(line.loss for line in self.result.lines))
        chosen = known[0] if loss is None else parse_choice(loss, known, "loss")
        lines = [line for line in self.result.lines if line.loss == chosen]
        deltas = [self.result.differences[line.label] for line in lines]
        required = [0.0, *(end for line in lines for end in (line.low, line.high, line.mean))]
        low, high, beyond = _find_limits(deltas, required)
        self.mean_, self.interval_ = [], []
        with self._open_strips(ax, len(lines)) as (axes, inks):
            self.zero_ = axes.axvline(0.0, color=inks.quiet, linewidth=0.9, zorder=1)
            for row, (line, delta) in enumerate(zip(lines, deltas, strict=True)):
                self._draw_row(axes, inks, row, line, delta, (low, high))
            axes.set_xlim(low, high)
            self._write_names(axes, [line.method for line in lines], [_write_verdict(line) for line in lines])
            of = f" ({chosen})" if chosen else ""
            what = f"Δ {_name_metric(self.result.metric)}{of}: method − {self.result.baseline}"
            more = _set_label(axes, what, *_write_beyond(beyond))
            parts = {f"{lines[0].n_splits} splits": self.cloud_, "mean": self.mean_}
            parts[f"{write_percent(self.result.confidence_level)} interval"] = self.interval_
            _explain(axes, inks, parts, more)
        return self

    def _draw_row(
        self, axes: Canvas, inks: Inks, row: int, line: PairedLine, delta: FloatArray, limits: tuple[float, float]
    ) -> None:
        self._scatter(axes, row, delta, limits, color=inks.model(0)["color"])
        if np.isfinite(line.low):
            look: dict[str, Any] = {"color": inks.ink, "linewidth": 1.3, "marker": "|", "markersize": 6}
            ends = axes.plot([line.low, line.high], [row, row], path_effects=inks.casing, **look)
            self.interval_ += ends
        dot: dict[str, Any] = {"linestyle": "none", "marker": "D", "markersize": 5, "color": inks.ink}
        self.mean_ += axes.plot(line.mean, row, markeredgecolor=inks.paper, markeredgewidth=0.8, zorder=5, **dot)


def _write_verdict(line: PairedLine) -> str:
    """Win rate and the corrected t-test in a few words."""
    wins = f"{100 * line.win_rate:.0f} % wins"
    return wins if np.isnan(line.t_p_holm) else f"{wins}, {write_pvalue(line.t_p_holm)}"


def _name_metric(metric: str) -> str:
    return _WORDS.get(metric, metric.replace("_", " "))


def _explain(axes: Canvas, inks: Inks, parts: Mapping[str, Sequence[Any]], more: int) -> None:
    """Draw the legend, lower if the label of the axis has further lines."""
    entries = {word: artists[0] for word, artists in parts.items() if artists}
    box = draw_legend(axes, inks, list(entries.values()), list(entries))
    if more and has_layout(axes):
        from matplotlib.transforms import ScaledTranslation

        down = ScaledTranslation(0.0, -(36.0 + 12.0 * more) / 72.0, root_figure(axes).dpi_scale_trans)
        box.set_bbox_to_anchor((0.0, 0.0), axes.transAxes + down)


class SplitsDisplay(Strips[SplitsSummary]):
    """
    Reliability of each method over repeated splits, against that of a calibrated score.

    Attributes
    ----------
    result : SplitsSummary
        The numbers.
    mean_, debiased_, floor_ : list of Line2D
        Mean plug-in reliability, mean debiased reliability and mean noise floor of the methods.

    Examples
    --------
    >>> import polars as pl
    >>> from scoreprism.pipelines import splits_summary
    >>> frame = pl.DataFrame({"split": [0, 1], "method": ["a", "a"], "reliability_plugin": [0.02, 0.03]})
    >>> splits_summary(frame).plot().ax_.get_xlabel()
    'reliability'
    """

    mean_: list[Any]
    debiased_: list[Any]
    floor_: list[Any]

    @property
    def names(self) -> list[str]:
        """Names of the methods."""
        return list(dict.fromkeys(self.result.methods))

    def plot(self, ax: Any = None, *, loss: str | None = None) -> Self:
        known = list(dict.fromkeys(self.result.losses))
        chosen = self._find_finite(known) if loss is None else parse_choice(loss, known, "loss")
        lines = [i for i, one in enumerate(self.result.losses) if one == chosen]
        plugin = self._get_column("reliability_plugin", lines)
        if plugin is None or not all(np.isfinite(column).all() for column in plugin):
            remedy = "Use the table of repeated_splits, with `clip`=1e-6 where losses are infinite."
            refuse("the figure shows reliability_plugin, which must be there and finite", "something else", remedy)
        debiased, floor = (self._get_column(name, lines) for name in ("reliability", "noise_floor"))
        means = [[float(column.mean()) for column in one] if one else [] for one in (plugin, debiased, floor)]
        low, high, beyond = _find_limits(plugin, [0.0, *(value for one in means for value in one)])
        self.mean_, self.debiased_, self.floor_ = [], [], []
        with self._open_strips(ax, len(lines)) as (axes, inks):
            axes.axvline(0.0, color=inks.faint, linewidth=0.8, zorder=0)
            for row, column in enumerate(plugin):
                self._draw_row(axes, inks, row, column, [one[row] if one else np.nan for one in means], (low, high))
            axes.set_xlim(low, high)
            names = [self.result.methods[i] for i in lines]
            self._write_names(axes, [f"{name} *" if name in self.result.double_use else name for name in names])
            count = max(self.result.n_splits[i] for i in lines)
            of = f" ({chosen})" if chosen else ""
            star = ["* learned from the rows of its calibrator"] * bool(set(names) & set(self.result.double_use))
            more = _set_label(axes, f"reliability{of}", *_write_beyond(beyond), *star)
            parts = {f"plug-in, {count} splits": self.cloud_, "mean plug-in": self.mean_}
            parts |= {"noise floor": self.floor_, "mean debiased": self.debiased_}
            _explain(axes, inks, parts, more)
        return self

    def _find_finite(self, losses: list[str]) -> str:
        """The first loss under which everything is finite, or else the first."""
        for loss in losses:
            lines = [i for i, one in enumerate(self.result.losses) if one == loss]
            columns = self._get_column("reliability_plugin", lines)
            if columns is not None and all(np.isfinite(column).all() for column in columns):
                return loss
        return losses[0]

    def _get_column(self, name: str, lines: Sequence[int]) -> list[FloatArray] | None:
        columns = self.result.values.get(name)
        return None if columns is None else [columns[i] for i in lines]

    def _draw_row(
        self,
        axes: Canvas,
        inks: Inks,
        row: int,
        column: FloatArray,
        means: Sequence[float],
        limits: tuple[float, float],
    ) -> None:
        colour = inks.term("reliability")
        self._scatter(axes, row, column, limits, color=colour)
        edge: dict[str, Any] = {"linestyle": "none", "markeredgecolor": inks.paper, "markeredgewidth": 0.8, "zorder": 5}
        strong = inks.line("reliability") if inks.mode == "light" else colour
        self.mean_ += axes.plot(means[0], row, marker="D", markersize=6, color=strong, **edge)
        if np.isfinite(means[1]):
            self.debiased_ += axes.plot(means[1], row, marker="o", markersize=6, color=inks.ink, **edge)
        if np.isfinite(means[2]):
            tick = {"color": inks.ink, "linewidth": 1.6, "solid_capstyle": "butt", "path_effects": inks.casing}
            self.floor_ += axes.plot([means[2], means[2]], [row - 0.36, row + 0.36], zorder=4, **tick)


register(PipelineBootstrapDisplay, PipelineBootstrap)
register(PairedDisplay, PairedComparison)
register(SplitsDisplay, SplitsSummary)
