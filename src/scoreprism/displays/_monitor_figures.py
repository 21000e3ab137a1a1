"""CalibrationMonitor over time: evidence, reliability, event rate and mean score, and rows, a panel for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from scoreprism._core.checks import parse_choice, refuse
from scoreprism._core.simplex import FloatArray
from scoreprism._document.colours import house_style
from scoreprism._findings.wording import (
    MONTHS,
    name_unit,
    read_date,
    write_count,
    write_evidence,
    write_percent,
    write_period,
)
from scoreprism._kernels.term_intervals import Interval
from scoreprism._parameters import described
from scoreprism.displays._axes import check_axes, take_grid
from scoreprism.displays._display import ResultDisplay, register
from scoreprism.displays._figure_text import draw_legend, has_layout, inches, root_figure, shorten
from scoreprism.displays._style import Canvas, Inks
from scoreprism.monitoring import Alarm, CalibrationMonitor

#: Places of dates are days since then, as matplotlib counts them.
_EPOCH = datetime.fromisoformat("1970-01-01")
#: With more periods than this, lines are means of several periods, and single ones are dots.
_SMOOTH = 40
#: Periods that a mean holds, of days and of others; the larger number where there are more periods than this.
_MEANS, _OTHER_MEANS, _LONG = (7, 28), (4, 12), 120
#: Looks at which the bounds of the reliability are computed.
_LOOKS = 120
#: Orders of magnitude of E that are shown beyond what is needed, and below 1.
_ABOVE, _BELOW = 2.0, 3.0
#: Panels lower than this, in inches, get small letters.
_LOW = 0.9
#: Inches of a letter below an axis with a gap between two labels; letters of a label.
_LETTER, _GAP, _LETTERS = 0.062, 0.16, 14
#: Width of a bar, where there are few.
_BAR = 0.84
#: Up to so many days, ticks are at days; beyond, at the first of a month.
_DAYS = 75
#: Share of the first periods whose upper bounds may lie outside the panel.
_FIRST = 0.2


class Marks(NamedTuple):
    """Where an alarm stands on the axis of periods: since when, the set that holds it with 90 %, when it rang."""

    since: float
    first: float
    last: float
    rung: float


class MonitorDisplay(ResultDisplay[CalibrationMonitor]):
    """
    What a monitor saw over time: evidence, reliability, event rate and mean score, and rows.

    Made by ``CalibrationMonitor.plot()``. The evidence E against both hypotheses is shown on a logarithmic axis, cut
    where it is beyond doubt. A diamond is the alarm; the vertical line is since when scores have been off, and the
    pale stripe holds that period with 90 %.

    Parameters
    ----------
    result : CalibrationMonitor
        The numbers.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        The lowest panel, and the figure.
    axes_ : list of Axes
        All panels.
    line_, band_ : list of artists
        Lines of the panels, and bands of the reliability.
    alarm_ : list of artists
        Marks of the alarm.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.monitoring import CalibrationMonitor
    >>> rng, monitor = np.random.default_rng(0), CalibrationMonitor()
    >>> for day in range(5):
    ...     p = rng.beta(2, 5, 200)
    ...     _ = monitor.update(rng.random(200) < p, p, period=day)
    >>> [ax.get_title("left") for ax in monitor.plot().axes_]
    ['evidence E', 'reliability (log loss)', 'event rate and mean score', 'rows']
    """

    axes_: list[Canvas]
    alarm_: list[Any]
    _is_low: bool  # whether panels are too low for letters of the usual size
    _is_single: bool  # whether there is one panel, whose title stands elsewhere
    _key: tuple[list[Any], list[str]]  # entries of the legend below the lowest panel

    #: Panels, from top to bottom.
    PANELS = ("evidence", "reliability", "rates", "rows")

    @property
    def names(self) -> list[str]:
        """Names of the panels."""
        return list(self.PANELS)

    @described()
    def plot(self, ax: Any = None, *, panels: Sequence[str] | None = None) -> Self:
        """
        Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw: it is divided into panels; a new figure by default.
        panels : sequence of {"evidence", "reliability", "rates", "rows"}, optional
            What to show; everything by default.

        Returns
        -------
        display
            Itself, with ``axes_``, ``figure_`` and the artists.
        """
        chosen = self.names if panels is None else [parse_choice(one, self.PANELS, "each panel") for one in panels]
        if not self.result.periods or not chosen:
            refuse("a figure of a monitor must have periods and panels", "none", "Call update() first.")
        draws: dict[str, Callable[[Canvas, Inks], None]] = {
            "evidence": self._draw_evidence,
            "reliability": self._draw_reliability,
            "rates": self._draw_rates,
            "rows": self._draw_rows,
        }
        with house_style():
            self.axes_ = self._make_panels(ax, len(chosen))
            self.ax_, self.figure_ = self.axes_[-1], self.axes_[-1].figure
            self.line_, self.band_, self.alarm_ = [], [], []
            root_figure(self.ax_).draw_without_rendering()  # the layout decides how large the axes are
            self._is_low, self._is_single = inches(self.ax_)[1] < _LOW, len(chosen) == 1
            self._key = ([], [])
            inks = Inks.of(self.ax_)
            for panel, name in zip(self.axes_, chosen, strict=True):
                draws[name](panel, inks)
                self._mark_since(panel, inks)
                inks.dress(panel)
                self._shrink(panel)
            self._label_periods(inks)
            self._explain(inks)
        return self

    # ── numbers ─────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def _alarm(self) -> Alarm | None:
        return self.result.alarm

    @cached_property
    def _overview(self) -> Any:
        return self.result._overview()

    @cached_property
    def _place(self) -> FloatArray:
        """Where the periods stand: by date or number, if all have one; otherwise one after another."""
        names = self.result.periods
        dates = [read_date(name) for name in names]
        if all(one is not None for one in dates):
            return np.array([(one - _EPOCH) / timedelta(days=1) for one in dates if one is not None])
        if all(isinstance(name, int) for name in names):
            return np.array(names, dtype=np.float64)
        return np.arange(len(names), dtype=np.float64)

    @property
    def _is_dated(self) -> bool:
        return all(read_date(name) is not None for name in self.result.periods)

    @property
    def _step(self) -> float:
        """Usual distance between two periods."""
        return float(np.median(np.diff(self._place))) if self._place.size > 1 else 1.0

    @cached_property
    def _marks(self) -> Marks | None:
        alarm = self._alarm
        if alarm is None:
            return None
        at = dict(zip(self.result.periods, self._place.tolist(), strict=True))
        return Marks(at[alarm.since], at[alarm.since_first], at[alarm.since_last], at[alarm.period])

    # ── panels ──────────────────────────────────────────────────────────────────────────────────────

    def _make_panels(self, ax: Any, count: int) -> list[Canvas]:
        """Panels below each other that share the axis of periods."""
        import matplotlib.pyplot as plt

        if ax is None:
            size = (6.4, 1.0 + 1.45 * count)
            panels = plt.subplots(count, 1, figsize=size, sharex=True, squeeze=False, layout="constrained")[1]
            return list(panels[:, 0])
        spec = take_grid(check_axes(ax))
        loose = {} if has_layout(ax) else {"hspace": 0.7}
        grid, paper = spec.subgridspec(count, 1, **loose), ax.get_facecolor()
        first = ax.figure.add_subplot(grid[0, 0], facecolor=paper)
        others = [ax.figure.add_subplot(grid[i, 0], facecolor=paper, sharex=first) for i in range(1, count)]
        return [first, *others]

    def _draw_evidence(self, axes: Canvas, inks: Inks) -> None:
        """E of both processes (or the detector's sum), the threshold, and the alarm."""
        process, needed = self._overview.process, self._overview.log10_needed
        shown = {"calibration": "against calibration", "change": "against no change"}
        if process == "detector":
            shown = {"detector": "detector"}
        logs = {name: self.result.log_evidence(name) / math.log(10.0) for name in shown}
        highest = max(float(log.max()) for log in logs.values())
        top = float(np.clip(highest, needed + 0.5, needed + _ABOVE)) + 0.15
        low = min(float(log.min()) for log in logs.values())
        bottom = max(min(low, -0.5), -_BELOW) - 0.15
        handles, words = [], []
        for i, (name, log) in enumerate(logs.items()):
            look = inks.model(i) | {"linewidth": 1.6 if name == process else 1.0, "zorder": 3 if name == process else 2}
            (line,) = axes.plot(self._place, np.clip(log, bottom - 1.0, top + 1.0), **look, **self._marker())
            self.line_.append(line)
            handles.append(line)
            words.append(name if self._is_low else f"{shown[name]}: {_write_short(float(log[-1]))}")
        limit = axes.axhline(needed, color=inks.ink, linewidth=0.9, linestyle=(0, (4, 2)), zorder=1)
        axes.set_ylim(bottom, top)
        step = 1 if top - bottom < 5.6 and not self._is_low else 2
        ticks = np.arange(math.ceil(bottom / step) * step, top, step)
        axes.set_yticks(ticks, [_write_power(int(tick)) for tick in ticks])
        if self._marks is not None:
            height = float(np.interp(self._marks.rung, self._place, logs[process]))
            look = {"markersize": 6.0, "color": inks.ink, "markeredgecolor": inks.paper, "markeredgewidth": 0.8}
            self.alarm_ += axes.plot(self._marks.rung, min(height, top - 0.25), "D", zorder=5, **look)
        title = "E" if self._is_low else "evidence E"
        self._title(axes, inks, title, [*handles, limit], [*words, f"needed: {write_evidence(needed)}"])

    def _draw_reliability(self, axes: Canvas, inks: Inks) -> None:
        """Bounds at every look of all rows so far, and of those since the alarm."""
        size = self._place.size
        looks = np.unique(np.linspace(0, size - 1, min(size, _LOOKS)).round().astype(int))
        ends = [self.result.bounds(until=int(look) + 1) for look in looks]
        low, high = (np.array([getattr(one, side) for one in ends]) for side in ("low", "high"))
        colour, alpha = inks.line("reliability"), 0.22 if inks.mode == "light" else 0.35
        since = None if self._alarm is None else self._alarm.reliability
        settled = high[looks >= _FIRST * size]
        finite = settled[np.isfinite(settled)]
        top = 1.15 * max(float(finite.max()) if finite.size else 1.0, _find_end(since), 1e-9)
        x = self._place[looks]
        if size == 1:  # a bar, as a point has no band
            x, low, high = x + self._step * np.array([-0.4, 0.4]), low.repeat(2), high.repeat(2)
        upper = np.minimum(np.where(np.isfinite(high), high, 2.0 * top), 2.0 * top)
        self.band_.append(axes.fill_between(x, low, upper, color=colour, alpha=alpha, linewidth=0))
        self.line_ += axes.plot(x, upper, color=colour, linewidth=1.2)
        self.line_ += axes.plot(x, low, color=colour, linewidth=1.2)
        handles, words = [self.band_[-1]], ["all rows so far"]
        if since is not None and self._marks is not None and math.isfinite(since.high):
            ink = inks.model(3)["color"]
            span = (self._marks.since, self._place[-1] + 0.5 * self._step)
            box = axes.fill_between(span, since.low, since.high, color=ink, alpha=alpha, linewidth=0, zorder=2.5)
            edges = axes.hlines([since.low, since.high], *span, color=ink, linewidth=1.2, zorder=3)
            self.band_ += [box, edges]
            handles.append(box)
            words.append("rows since then")
        axes.set_ylim(-0.02 * top, top)
        axes.locator_params(axis="y", nbins=3 if self._is_low else 4)
        axes.axhline(0.0, color=inks.faint, linewidth=0.8, zorder=0)
        level = write_percent(1.0 - self.result.settings.alpha)
        title = f"reliability ({self.result.settings.loss} loss)" if not self._is_low else "reliability"
        if not self._is_single:
            words[0] += f" ({level})"
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.6f}".rstrip("0").rstrip(".") or "0")
        self._title(axes, inks, title, handles, words)

    def _draw_rates(self, axes: Canvas, inks: Inks) -> None:
        """The event rate and the mean score; where there are many periods, means of several."""
        size, overview = self._place.size, self._overview
        unit = name_unit(self.result.periods)
        wide = 1 if size <= _SMOOTH else (_MEANS if unit == "day" else _OTHER_MEANS)[size > _LONG]
        names = {"event_rate": "event rate", "mean_score": "mean score"}
        if overview.view is not None:
            names = {"event_rate": "share right", "mean_score": "mean probability"}
        handles, words = [], list(names.values())
        for i, name in enumerate(names):
            look, value = inks.model(i), getattr(overview, name)
            if wide > 1 and i == 0:
                dots = {"markersize": 1.8, "alpha": 0.45, "markeredgewidth": 0, "zorder": 1, "linestyle": "none"}
                single = axes.plot(self._place, value, marker="o", color=look["color"], **dots)
            look |= {"linewidth": 1.3} | (self._marker() if wide == 1 else {})
            handles += axes.plot(self._place, _smooth(value, overview.rows, wide), zorder=3 - i, **look)
        self.line_ += handles[:2]
        axes.margins(y=0.1)
        axes.locator_params(axis="y", nbins=3 if self._is_low else 4)
        title = "most likely class" if overview.view is not None else "event rate and mean score"
        if wide > 1 and not self._is_low:
            if self._is_single:
                words = [f"{word}, mean of {wide} {unit}s" for word in words] + [f"{words[0]} of each {unit}"]
                handles += single
            else:
                title += f", mean of {wide} {unit}s"
        self._title(axes, inks, "rates" if self._is_low else title, handles, words)

    def _draw_rows(self, axes: Canvas, inks: Inks) -> None:
        """How many rows each period has."""
        rows, few = self._overview.rows, self._place.size <= _SMOOTH
        half = 0.5 * self._step * (_BAR if few else 1.0)
        # bars that touch are one shape: single ones would show seams
        apart = np.concatenate([[True], (np.diff(self._place) > 1.5 * self._step) | few, [True]])
        x = (self._place[:, None] + half * np.array([-1.0, -1.0, 1.0, 1.0])).ravel()
        heights = np.repeat(rows, 4)
        heights[0::4][apart[:-1]] = 0.0
        heights[3::4][apart[1:]] = 0.0
        bars = {"color": inks.quiet, "alpha": 0.55, "linewidth": 0}
        self.band_.append(axes.fill_between(x, heights, **bars))
        axes.set_ylim(0.0, 1.12 * max(float(rows.max()), 1.0))
        axes.locator_params(axis="y", nbins=3, integer=True)
        axes.yaxis.set_major_formatter(lambda value, _: write_count(value))
        self._title(axes, inks, "rows", [], [])

    # ── words ───────────────────────────────────────────────────────────────────────────────────────

    def _marker(self) -> dict[str, Any]:
        """Points on lines of few periods."""
        return {"marker": "o", "markersize": 3.0} if self._place.size <= 12 else {}

    def _title(self, axes: Canvas, inks: Inks, title: str, handles: Sequence[Any], words: Sequence[str]) -> None:
        """The title of a panel at the left, what its lines are at the right of the same line, or below a single one."""
        if self._is_single and not self._is_low:
            self._key[0].extend(handles)
            self._key[1].extend(words)
            return
        small = {"fontsize": 6.5 if self._is_low else 7.5, "ncols": max(len(words), 1), "borderpad": 0.15}
        axes.set_title(title, loc="left", color=inks.ink, **({"fontsize": 7.5, "pad": 3} if self._is_low else {}))
        if words:
            place = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "labelcolor": inks.ink}
            loose = {"handlelength": 1.2, "handletextpad": 0.4, "columnspacing": 0.9}
            axes.legend(handles, words, **place, **loose, **small)

    def _mark_since(self, axes: Canvas, inks: Inks) -> None:
        """The period since when scores have been off, and the stripe that holds it with 90 %."""
        if self._marks is None:
            return
        half = 0.5 * self._step
        stripe = {"color": inks.faint, "alpha": 0.5, "linewidth": 0, "zorder": 0}
        self.alarm_.append(axes.axvspan(self._marks.first - half, self._marks.last + half, **stripe))
        self.alarm_.append(axes.axvline(self._marks.since, color=inks.ink, linewidth=0.8, zorder=1))

    def _shrink(self, axes: Canvas) -> None:
        if self._is_low:
            axes.tick_params(labelsize=6.5)

    def _label_periods(self, inks: Inks) -> None:
        """Dates as dates, as many as there is room for; numbers as numbers; other names where they stand."""
        last, names = self.axes_[-1], self.result.periods
        unit = name_unit(names)
        ends = float(self._place[0]), float(self._place[-1])
        last.set_xlim(ends[0] - 0.6 * self._step, ends[1] + 0.6 * self._step)
        room = max(int(inches(last)[0] / 0.62), 2)
        if self._is_dated:
            places, words, years = _list_dates(*ends, room)
            last.set_xticks(places, words)
            label = f"{unit}, {years}" if unit != "period" else f"time, {years}"
        elif isinstance(names[0], int) and (self._place == np.array(names, dtype=np.float64)).all():
            from matplotlib.ticker import MaxNLocator

            last.xaxis.set_major_locator(MaxNLocator(room, integer=True, steps=[1, 2, 5, 10]))
            label = unit
        else:
            words = [shorten(str(name), _LETTERS) for name in names]
            least = len(words) * (_LETTER * max(map(len, words)) + _GAP) / inches(last)[0]
            step = max(math.ceil(least), 1)
            last.set_xticks(self._place[::step], words[::step])
            label = unit
        last.set_xlabel(label, fontsize=7 if self._is_low else None)
        for panel in self.axes_[:-1]:
            panel.tick_params(axis="x", which="both", labelbottom=False, length=0)

    def _explain(self, inks: Inks) -> None:
        """The legend below the lowest panel: what the marks of an alarm are."""
        from matplotlib.lines import Line2D

        handles, words = self._key
        if self._alarm is not None and not self._is_low:
            handles.append(Line2D([], [], color=inks.ink, linewidth=0.8))
            words.append(f"off since {write_period(self._alarm.since)}")
            diamonds = [one for one in self.alarm_ if isinstance(one, Line2D) and one.get_marker() == "D"]
            if diamonds:
                handles.append(diamonds[0])
                words.append(f"alarm, {write_period(self._alarm.period)}")
        if words:
            draw_legend(self.axes_[-1], inks, handles, words)


def _list_dates(first: float, last: float, room: int) -> tuple[list[float], list[str], str]:
    """Places and names of as many dates as there is room for; and the years, which the names leave out."""
    start, end = (_EPOCH + timedelta(days=one) for one in (first, last))
    years = f"{start.year}" if start.year == end.year else f"{start.year} to {end.year}"
    days = end.toordinal() - start.toordinal() + 1
    if days <= 2 and end > start:
        step = next((one for one in (1, 2, 3, 6, 12) if 24.0 * (last - first) / one <= room), 12)
        begin = start.replace(hour=start.hour // step * step, minute=0, second=0, microsecond=0)
        times = [begin + timedelta(hours=i) for i in range(0, 24 * days + 1, step)]
        times = [one for one in times if start <= one <= end]
        return [_count_days(one) for one in times], [f"{one:%H:%M}" for one in times], _name_days(start, end)
    if days <= _DAYS:
        step = next((one for one in (1, 2, 7, 14) if days / one <= room), 28)
        dates = [start.replace(hour=0, minute=0, second=0) + timedelta(days=i) for i in range(0, days, step)]
        return [_count_days(one) for one in dates], [f"{one.day} {MONTHS[one.month - 1][:3]}" for one in dates], years
    months = range(12 * start.year + start.month - (start.day == 1), 12 * end.year + end.month)
    step = next((one for one in (1, 2, 3, 6, 12, 24, 60, 120) if len(months) / one <= room), 240)
    dates = [datetime.fromisoformat(f"{i // 12:04d}-{i % 12 + 1:02d}-01") for i in months if i % step == 0]
    if step >= 12:
        return [_count_days(one) for one in dates], [str(one.year) for one in dates], years
    names = [MONTHS[one.month - 1][:3] for one in dates]
    if start.year != end.year:
        seen = [None, *(one.year for one in dates)]
        names = [
            f"{name} {one.year}" if one.year != before else name
            for name, one, before in zip(names, dates, seen, strict=False)
        ]
    return [_count_days(one) for one in dates], names, years


def _name_days(start: datetime, end: datetime) -> str:
    """One day or two, in words."""
    names = [write_period(f"{one:%Y-%m-%d}") for one in (start, end)]
    return names[0] if names[0] == names[1] else f"{names[0]} and {names[1]}"


def _count_days(date: datetime) -> float:
    return (date - _EPOCH) / timedelta(days=1)


def _find_end(since: Interval | None) -> float:
    """The upper end of an interval, if it has one."""
    return since.high if since is not None and math.isfinite(since.high) else 0.0


def _write_short(log10: float) -> str:
    """Evidence in a legend."""
    return write_evidence(log10).replace("less than", "<")


def _write_power(power: int) -> str:
    """A power of ten at an axis."""
    return write_count(10.0**power) if power >= 0 else f"{10.0**power:.{-power}f}"


def _smooth(value: FloatArray, rows: FloatArray, wide: int) -> FloatArray:
    """Means of so many periods up to each one, weighted by rows."""
    if wide == 1:
        return value
    weight = np.where(np.isfinite(value), rows, 0.0)
    sums = np.stack([np.cumsum(np.where(weight > 0.0, value, 0.0) * weight), np.cumsum(weight)])
    before = np.concatenate([np.zeros((2, wide)), sums], axis=1)[:, : value.size]
    total, mass = sums - before
    mean = np.divide(total, mass, out=np.full(value.size, np.nan), where=mass > 0.0)
    mean[: min(wide, value.size) - 1] = np.nan  # fewer periods are not comparable
    return np.asarray(mean)


register(MonitorDisplay, CalibrationMonitor)
