"""Drift: the loss and its terms over the periods, a panel for each, with intervals and marks where they changed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from scoreprism._core.checks import parse_choice, parse_confidence, refuse
from scoreprism._core.labels import sort_key
from scoreprism._core.simplex import FloatArray
from scoreprism._document.colours import house_style
from scoreprism._findings.wording import write_percent
from scoreprism._kernels.holm import MARKED
from scoreprism._kernels.term_intervals import Interval, quantile
from scoreprism._parameters import described
from scoreprism.displays._axes import check_axes, take_grid
from scoreprism.displays._display import ResultDisplay, register
from scoreprism.displays._figure_text import draw_legend, has_layout, inches, root_figure, shorten
from scoreprism.displays._style import Canvas, Inks
from scoreprism.scale import Drift, Shifts

#: With more periods than this, intervals are a band instead of bars and markers are small.
_BARS = 26
#: Inches of a letter below an axis, and between two labels; letters of a label.
_LETTER, _GAP, _LETTERS = 0.062, 0.16, 14
#: Possible distances between labelled periods.
_STEPS = (1, 2, 3, 4, 6, 12, 24, 60, 120)
#: Panels lower than this, in inches, get small letters and explain only what is rare.
_LOW = 0.9


class Track(NamedTuple):
    """One panel: a term in every period, its interval, and in which periods it changed."""

    name: str
    value: FloatArray
    low: FloatArray
    high: FloatArray
    changed: FloatArray


class DriftDisplay(ResultDisplay[Drift]):
    """
    The loss and its terms over the periods, each in its own panel.

    Made by ``Drift.plot()``. Points with the interval of each period, a diamond where the change is significant after
    Holm's adjustment, a dotted line at the baseline where all periods have the same one, a cross below periods that
    were left out.

    Parameters
    ----------
    result : Drift
        The numbers.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        The lowest panel, and the figure.
    axes_ : list of Axes
        All panels.
    line_, interval_, changed_ : list of artists
        Estimates, intervals (bars, or a band where there are many periods) and marks of the panels.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> from scoreprism import scale
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(3000)
    >>> rows = pl.DataFrame({"y": (rng.random(3000) < p).astype(int), "p": p, "year": np.arange(3000) // 1000})
    >>> display = scale.decompose(rows, target="y", score="p", time="year", loss="brier").drift().plot()
    >>> [ax.get_title("left") for ax in display.axes_]
    ['brier loss', 'reliability', 'refinement']
    """

    axes_: list[Canvas]
    interval_: list[Any]
    changed_: list[Any]
    skipped_: list[Any]
    _is_low: bool  # whether panels are too low for letters of the usual size

    def __init__(self, result: Drift) -> None:
        super().__init__(result)
        self._skipped: Collection[Any] = result.periods.skipped
        labels = [*result.periods.decompositions, *self._skipped]
        self._labels = sorted((label for label in labels if label is not None), key=sort_key)

    @property
    def names(self) -> list[str]:
        """Names of the panels."""
        return [Drift.LOSS, *self.result.names]

    @described()
    def plot(self, ax: Any = None, *, confidence_level: float = 0.95, terms: Sequence[str] | None = None) -> Self:
        """
        Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw: it is divided into panels; a new figure by default.
        terms : sequence of str, optional
            Terms to show, "loss" among them; all by default.

        Returns
        -------
        display
            Itself, with ``axes_``, ``figure_`` and the artists.
        """
        known, confidence = self.names, parse_confidence(confidence_level)
        chosen = known if terms is None else [parse_choice(term, known, "each term") for term in terms]
        tracks = [self._make_track(name, confidence) for name in chosen]
        if not tracks or not all(np.isfinite(track.value).any() for track in tracks):
            refuse("a figure must show a finite term", "infinite losses only", "Pass `clip`=1e-6 to decompose.")
        with house_style():
            self.axes_ = self._make_panels(ax, len(tracks))
            self.ax_, self.figure_ = self.axes_[-1], self.axes_[-1].figure
            self.line_, self.interval_, self.changed_ = [], [], []
            inks = Inks.of(self.ax_)
            for panel, track in zip(self.axes_, tracks, strict=True):
                self._draw(panel, inks, track)
                inks.dress(panel)
            self._label_periods(inks)
            self._explain(inks, confidence)
        return self

    # ── numbers ─────────────────────────────────────────────────────────────────────────────────────

    def _make_track(self, name: str, confidence_level: float) -> Track:
        drift, size = self.result, len(self._labels)
        value, low, high, changed = (np.full(size, np.nan) for _ in range(4))
        tests = drift.pvalues(name)
        for i, label in enumerate(self._labels):
            period = drift.periods.decompositions.get(label)
            if period is None:
                continue
            estimate, interval = _find_estimate(period, name, confidence_level)
            if np.isfinite(estimate):
                value[i], low[i], high[i] = estimate, interval.low, interval.high
                changed[i] = estimate if tests.get(label, 1.0) < MARKED else np.nan
        return Track(name, value, low, high, changed)

    # ── drawing ─────────────────────────────────────────────────────────────────────────────────────

    def _make_panels(self, ax: Any, count: int) -> list[Canvas]:
        """Panels below each other that share the axis of periods."""
        import matplotlib.pyplot as plt

        if ax is None:
            size = (float(np.clip(3.4 + 0.3 * len(self._labels), 4.8, 8.4)), 1.0 + 1.25 * count)
            panels = plt.subplots(count, 1, figsize=size, sharex=True, squeeze=False, layout="constrained")[1]
            return list(panels[:, 0])
        spec = take_grid(check_axes(ax))
        loose = {} if has_layout(ax) else {"hspace": 0.7}
        grid, paper = spec.subgridspec(count, 1, **loose), ax.get_facecolor()
        first = ax.figure.add_subplot(grid[0, 0], facecolor=paper)
        others = [ax.figure.add_subplot(grid[i, 0], facecolor=paper, sharex=first) for i in range(1, count)]
        return [first, *others]

    def _draw(self, axes: Canvas, inks: Inks, track: Track) -> None:
        x, names = np.arange(len(self._labels)), self.result.names
        colour = inks.ink if track.name == Drift.LOSS else inks.line(track.name, names)
        many = len(self._labels) > _BARS
        if many:
            band = {"color": colour, "alpha": 0.22 if inks.mode == "light" else 0.35, "linewidth": 0}
            self.interval_.append(axes.fill_between(x, track.low, track.high, **band))
        else:
            bars = {"color": colour, "linewidth": 1.1, "alpha": 0.75}
            self.interval_.append(axes.vlines(x, track.low, track.high, **bars))
        marker = {"marker": "o", "markersize": 2.2 if many else 3.8, "linewidth": 0.9, "zorder": 3}
        self.line_ += axes.plot(x, track.value, color=colour, **marker)
        mark = {"marker": "D", "linestyle": "none", "markersize": 4.6 if many else 6.0, "zorder": 4}
        edge = {"markeredgecolor": inks.paper, "markeredgewidth": 0.8}
        self.changed_ += axes.plot(x, track.changed, color=colour, **mark, **edge)
        self.changed_[-1].set_in_layout(False)  # without a change it would be placed at the corner of the figure
        self._draw_baseline(axes, inks, track)
        axes.set_title(self._loss if track.name == Drift.LOSS else track.name, loc="left", color=inks.ink)
        self._set_limits(axes, inks, track)

    def _draw_baseline(self, axes: Canvas, inks: Inks, track: Track) -> None:
        """Draw a line at the baseline if all periods have the same one."""
        bases = {before for _, before in self.result.pairs}
        if len(bases) == 1 and len(self.result.pairs) > 1:
            height = track.value[self._labels.index(bases.pop())]
            axes.axhline(height, color=inks.quiet, linewidth=0.9, linestyle=(0, (1.2, 1.6)), zorder=1)

    def _set_limits(self, axes: Canvas, inks: Inks, track: Track) -> None:
        """Set limits that hold everything; 0 is included, with a line, if it is near."""
        ends = np.concatenate([track.value, track.low, track.high])
        low, high = float(np.nanmin(ends)), float(np.nanmax(ends))
        if low > 0.0 and low < 0.5 * (high - low):
            low = 0.0
        room = 0.08 * (high - low) or 0.05 * abs(high) or 0.01
        axes.set_ylim(low - room, high + room)
        axes.locator_params(axis="y", nbins=4)
        if low <= 0.0 <= high:
            axes.axhline(0.0, color=inks.faint, linewidth=0.8, zorder=0)

    def _label_periods(self, inks: Inks) -> None:
        """Label as many periods as there is room for, and draw crosses for those that were left out."""
        last, size = self.axes_[-1], len(self._labels)
        words = [shorten(str(label), _LETTERS) for label in self._labels]
        root_figure(last).draw_without_rendering()  # the layout decides how large the axes are
        width, height = inches(last)
        self._is_low = height < _LOW
        least = size * (_LETTER * max(map(len, words)) + _GAP) / width
        step = next((step for step in _STEPS if step >= least), size)
        last.set_xlim(-0.6, size - 0.4)
        last.set_xticks(range(0, size, step), words[::step])
        last.set_xticks(range(size), minor=True)
        last.tick_params(axis="x", which="minor", length=1.5, color=inks.quiet)
        last.set_xlabel("period", fontsize=7 if self._is_low else None)
        for panel in self.axes_[:-1]:
            panel.tick_params(axis="x", which="both", labelbottom=False, length=0)
        skipped = [i for i, label in enumerate(self._labels) if label in self._skipped]
        look = {"color": inks.quiet, "markersize": 5, "clip_on": False, "transform": last.get_xaxis_transform()}
        # even an empty line would take part in the layout
        self.skipped_ = last.plot(skipped, [0.0] * len(skipped), "x", **look) if skipped else []
        if self._is_low:
            for panel in self.axes_:
                panel.set_title(panel.get_title("left"), loc="left", fontsize=7.5, color=inks.ink, pad=2)
                panel.tick_params(labelsize=6.5)

    def _explain(self, inks: Inks, confidence_level: float) -> None:
        handles, words = [self.line_[0], self.interval_[0]], ["estimate", f"{write_percent(confidence_level)} interval"]
        if self._is_low:
            handles, words = [], []
        if any(np.isfinite(mark.get_ydata()).any() for mark in self.changed_):
            handles.append(self.changed_[0])
            words.append("changed" if self._is_low else f"changed from {self._baseline_name} (Holm p < {MARKED:g})")
        if self.skipped_:
            handles.append(self.skipped_[0])
            words.append("left out")
        if words and self._is_low:
            place = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "fontsize": 6.5, "ncols": 2, "borderpad": 0.2}
            self.axes_[0].legend(handles, words, labelcolor=inks.ink, **place)
        elif words:
            draw_legend(self.axes_[-1], inks, handles, words)

    @property
    def _baseline_name(self) -> str:
        baseline = self.result.baseline
        return {"previous": "the period before", "first": "the first period"}.get(baseline, str(baseline))

    @property
    def _loss(self) -> str:
        return f"{next(iter(self.result.periods.decompositions.values())).loss!s} loss"


def _find_estimate(found: Any, name: str, confidence_level: float) -> tuple[float, Interval]:
    """A term of one period with its interval; that of the loss is the interval of a mean."""
    if name != Drift.LOSS:
        return found.terms[name], found.interval(name, confidence_level)
    error = found._moments.std_error(dict.fromkeys(range(len(found.level_names)), 1.0))
    margin = quantile(confidence_level, two_sided=True) * error
    return found.risk, Interval(found.risk - margin, found.risk + margin, confidence_level, "clt")


class ShiftDisplay(DriftDisplay):
    """The parts of a change over the periods, each in its own panel; made by ``Shifts.plot()``."""

    result: Any

    def __init__(self, result: Shifts) -> None:
        ResultDisplay.__init__(self, result)  # type: ignore[misc]
        self._skipped = ()
        self._labels = [after for after, _ in result.pairs]

    @property
    def names(self) -> list[str]:
        """Names of the panels."""
        return list(self.result.names)

    def _make_track(self, name: str, confidence_level: float) -> Track:
        parts = self.result
        return Track(name, parts.value[name], parts.low[name], parts.high[name], np.full(len(self._labels), np.nan))

    def _draw_baseline(self, axes: Canvas, inks: Inks, track: Track) -> None:
        """The parts of a baseline are 0, which has a line already."""

    def _explain(self, inks: Inks, confidence_level: float) -> None:
        super()._explain(inks, self.result.confidence_level)


register(DriftDisplay, Drift)
register(ShiftDisplay, Shifts)
