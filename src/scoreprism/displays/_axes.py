"""Checks of axes, limits of axes of probabilities, and panels in place of one axes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from scoreprism._core.checks import abbreviate, refuse
from scoreprism._core.simplex import FloatArray
from scoreprism.curves import ScoreDistribution
from scoreprism.displays._figure_text import inches, wrap
from scoreprism.displays._style import Canvas, Inks

# ── where to draw ───────────────────────────────────────────────────────────────────────────────────


def check_axes(ax: Any) -> Canvas:
    """Refuse anything but rectilinear matplotlib Axes."""
    from matplotlib.axes import Axes

    remedy = "For example fig, ax = plt.subplots(layout='constrained')."
    if not isinstance(ax, Axes):
        refuse("`ax` must be matplotlib Axes", type(ax).__name__, remedy)
    if ax.name != "rectilinear":
        refuse("`ax` must have straight axes", f"the projection {ax.name!r}", remedy)
    return ax


@contextmanager
def open_axes(ax: Any, size: tuple[float, float]) -> Iterator[Canvas]:
    """The user's axes, or new ones that are closed if drawing fails."""
    import matplotlib.pyplot as plt

    axes: Canvas = plt.subplots(figsize=size, layout="constrained")[1] if ax is None else check_axes(ax)
    try:
        yield axes
    except BaseException:
        if ax is None:
            plt.close(axes.figure)
        raise


# ── how much of an axis is shown ────────────────────────────────────────────────────────────────────

#: Axes are zoomed if nearly all scores lie within this distance of 0 or 1.
_CORNER = 0.35
#: Share of rows that may lie outside the limits on either side.
_RARE = 0.005


def parse_zoom(zoom: Any, low: float, high: float) -> tuple[float, float]:
    """Limits of an axis of probabilities."""
    if zoom is None:
        return 0.0, 1.0
    if isinstance(zoom, str) and zoom == "auto":
        if high < _CORNER:
            return 0.0, _round_up(high)
        return (1.0 - _round_up(1.0 - low), 1.0) if low > 1.0 - _CORNER else (0.0, 1.0)
    pair = np.asarray(zoom, dtype=object).ravel()
    numbers = all(isinstance(value, (int, float, np.number)) for value in pair)
    if pair.size != 2 or not numbers or not 0.0 <= float(pair[0]) < float(pair[1]) <= 1.0:
        refuse('`zoom` must be "auto", None or two ascending numbers from 0 to 1', repr(zoom), "For example (0, 0.1).")
    return float(pair[0]), float(pair[1])


def require_finite(losses: Mapping[str, float], beside: str = "Pass") -> None:
    """Refuse to draw an infinite loss."""
    wrong = [name or "the model" for name, value in losses.items() if not np.isfinite(value)]
    if wrong:
        remedy = f"{beside} `clip`=1e-6, or `loss`='brier': a score of 0 or 1 was wrong."
        refuse("a loss that is drawn must be finite", f"an infinite one of {abbreviate(wrong)}", remedy)


def _round_up(value: float) -> float:
    """A round number a little above a small one."""
    if value <= 0.0:
        return 0.01
    unit = 10.0 ** np.floor(np.log10(value))
    return float(
        next(step * unit for step in (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0) if step * unit > value)
    )


def find_bulk(distributions: Iterable[ScoreDistribution]) -> tuple[float, float]:
    """The range that holds nearly all scores of every model."""
    ends = []
    for one in distributions:
        first, last = np.searchsorted(np.cumsum(one.mass), (_RARE, 1.0 - _RARE - 1e-12))
        ends.append((float(one.edges[first]), float(one.edges[min(last + 1, one.mass.size)])))
    return min(low for low, _ in ends), max(high for _, high in ends)


def coarsen(
    distribution: ScoreDistribution, limits: tuple[float, float], bins: int = 50
) -> tuple[FloatArray, FloatArray]:
    """The part of a fine histogram within limits, in bins wide enough to see."""
    size = distribution.events.size
    first, last = (round(limit * size) for limit in limits)
    step = max((last - first) // bins, 1)
    starts = np.arange(first, max(last, first + 1), step)
    both = np.stack([distribution.events, distribution.others])
    mass = np.add.reduceat(both[:, :last], starts, axis=1)
    return np.append(distribution.edges[starts], distribution.edges[last]), mass


# ── panels ──────────────────────────────────────────────────────────────────────────────────────────

#: Width in inches of a letter of a legend, and of its line with the gaps.
_LETTER, _KEY = 0.066, 0.55
#: Panels narrower than this, in inches, get short words and small letters.
_NARROW = 1.5
#: Abbreviations in narrow panels.
_SHORT = {
    "decision threshold θ": "θ",
    "mean elementary loss": "loss",
    "predicted probability": "probability",
    "false positive rate": "FPR",
    "true positive rate": "TPR",
}


def take_grid(ax: Canvas) -> Any:
    """The grid cell of axes, in which to put panels; the axes stay as an invisible frame."""
    spec = ax.get_subplotspec()
    if spec is None:
        rule = "a figure of several panels must have axes of a grid to divide"
        refuse(rule, "axes placed by hand", "Make them with plt.subplots().")
    ax.set_axis_off()
    return spec


def split_axes(ax: Canvas, count: int, names: Sequence[str] = ()) -> tuple[list[Canvas], Canvas | None]:
    """Put panels side by side in place of axes; with names also axes for their common legend."""
    spec = take_grid(ax)
    figure, paper = ax.figure, ax.get_facecolor()
    width, height = inches(ax)
    if not names:
        grid = spec.subgridspec(1, count)
        return [figure.add_subplot(grid[0, i], facecolor=paper) for i in range(count)], None
    margin = _KEY + _LETTER * max(len(line) for name in names for line in wrap(name, 34).split("\n"))
    if len(names) > 6 and (width - margin) / count > _NARROW:
        grid = spec.subgridspec(1, count + 1, width_ratios=[(width - margin) / count] * count + [margin])
        place = figure.add_subplot(grid[0, count])
    else:
        foot = 0.04 + 0.175 * -(-len(names) // _count_columns(names, width))
        grid = spec.subgridspec(2, count, height_ratios=[max(height - foot, 0.3), foot])
        place = figure.add_subplot(grid[1, :])
    place.set_axis_off()
    return [figure.add_subplot(grid[0, i], facecolor=paper) for i in range(count)], place


def _count_columns(names: Sequence[str], width: float) -> int:
    widest = max(len(name) for name in names)
    return min(len(names), max(int(width / (_KEY + _LETTER * widest)), 1))


def draw_shared_legend(place: Canvas, inks: Inks, handles: Sequence[Any], names: Sequence[str]) -> Any:
    """Draw the legend of all panels on its axes."""
    width, height = inches(place)
    if height > width:
        words, columns = [wrap(name, 34) for name in names], 1
    else:
        words, columns = list(names), _count_columns(names, width)
    small = {"fontsize": 8, "labelspacing": 0.3, "columnspacing": 1.2, "borderpad": 0.0}
    return place.legend(handles, words, loc="upper left", ncols=columns, labelcolor=inks.ink, **small)


def compact(panels: Sequence[Canvas]) -> None:
    """Use short words, few ticks and small letters in narrow panels."""
    if inches(panels[0])[0] >= _NARROW:
        return
    for ax in panels:
        for axis in (ax.xaxis, ax.yaxis):
            text = axis.label.get_text()
            axis.set_label_text(_SHORT.get(text, text), fontsize=7)
        ax.set_title(ax.get_title("left"), loc="left", fontsize=7.5)
        ax.locator_params(nbins=3)
        ax.tick_params(labelsize=6.5)
