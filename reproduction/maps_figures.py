"""Figures of appendix E: data and maps; ICI and LCS against the bandwidth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from reproduction.drawing import grid_figure, shared_legend
from scoreprism._core.simplex import FloatArray
from scoreprism.displays._style import MARKERS, Inks
from scoreprism.report import Figure
from scoreprism.report._model import Cell
from scoreprism.report._pieces import table, thinned

if TYPE_CHECKING:
    from reproduction.maps import Curves, Scored

_METRICS = {"ICI": "Integrated calibration index", "LCS": "Local calibration score"}
_TICKS = (0.02, 0.05, 0.1, 0.2, 0.5)
#: What each reading measures, and what its horizontal line is.
READINGS = {
    "formula": ("distance of the score from its own map (fig:simulation:logistic, right)", "exact, of the score"),
    "truth": ("distance of the recalibrated score from the exact C", "the raw score's distance"),
}


def data_figure(sample: Scored, maps: dict[str, tuple[FloatArray, FloatArray]]) -> Figure:
    """Outcomes with level lines of the fitted score, and the three maps beside the exact C."""

    def draw(axes: Any) -> None:
        draw_data(axes[0, 0], sample)
        draw_maps(axes[0, 1], maps)

    grid = maps["isotonic"][0]
    places = thinned(grid.size)
    rows = [(float(grid[i]), *(float(np.interp(grid[i], *line)) for line in maps.values())) for i in places]
    columns = [("s", "score", "short"), *((f"map{i}", name, "short") for i, name in enumerate(maps))]
    data = table("maps-data", "The maps and the truth", columns, rows)
    exact = np.interp(grid, *maps["truth"])
    off = {name: float(np.abs(g - exact).mean()) for name, (_, g) in maps.items() if name != "truth"}
    told = ", ".join(f"{name} {value:.3f}" for name, value in off.items())
    description = (
        f"{sample.y.size} outcomes and the fitted score, which lies between {sample.s.min():.2f} and "
        f"{sample.s.max():.2f}. Mean distance of each map from the exact C over that range: {told}."
    )
    title = "A plain logistic regression, and three recalibration maps of it (fig:simulation:logistic, left)"
    return grid_figure("maps-three", title, description, draw, data, size=(7.4, 3.7), shape=(1, 2))


def draw_data(ax: Any, sample: Scored) -> None:
    """Outcomes over the square, and level lines of the fitted score."""
    inks = Inks.of(ax)
    for outcome, mark in ((0, "x"), (1, "o")):  # as in the scatterplots of the synthetic data
        ax.scatter(*sample.X[sample.y == outcome].T, s=9, marker=mark, linewidths=0.8, alpha=0.5,
                   color=inks.model(1 - outcome)["color"], label=f"y = {outcome}")  # fmt: skip
    x1, x2 = np.meshgrid(np.linspace(0, 1, 101), np.linspace(0, 1, 101))
    values = sample.score(x1, x2)
    levels = np.arange(0.05, 1, 0.05)
    lines = ax.contour(x1, x2, values, levels=levels, colors=inks.ink, linewidths=1.0)
    middle = values[50]  # labels stand where lines cross x₂ = ½
    inside = levels[(levels > middle.min()) & (levels < middle.max())]
    places = [(float(x1[50, np.abs(middle - level).argmin()]), 0.5) for level in inside]
    for text in ax.clabel(lines, fontsize=8, manual=places):
        text.set_bbox({"facecolor": inks.paper, "alpha": 0.95, "pad": 0.8, "linewidth": 0})
    ax.set(xlabel="x₁", ylabel="x₂", title=f"Logistic regression, n = {sample.y.size}", aspect="equal")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    inks.dress(ax)


def draw_maps(ax: Any, maps: dict[str, tuple[FloatArray, FloatArray]]) -> None:
    """Each map over the range of the scores, the truth dashed."""
    inks = Inks.of(ax)
    grid = maps["isotonic"][0]
    ax.plot(grid, grid, color=inks.faint, linewidth=1)
    looks = {"isotonic": 2, "C² spline": 1, "monotone C² spline": 0}  # green, red and blue, as in the paper
    for name, index in looks.items():
        ax.plot(*maps[name], color=inks.model(index)["color"], label=name)
    ax.plot(*maps["truth"], color=inks.ink, linestyle=(0, (4, 2)), linewidth=1.3, label="exact C")
    ax.set(xlabel="score", ylabel="recalibrated score", title="Three maps", xlim=(grid[0], grid[-1]))
    ax.legend(loc="upper left")
    inks.dress(ax)


def distances_figure(found: Curves, reading: str) -> Figure:
    """ICI and LCS against h in one reading, with the exact value as a line."""
    from reproduction.maps import BANDWIDTHS, SIZES

    values, (what, line) = found.of(reading), READINGS[reading]

    def draw(axes: Any) -> None:
        for m, ax in enumerate(axes[0]):
            draw_distances(ax, values[..., m], float(found.exact[m]), list(_METRICS.values())[m], line)
        shared_legend(axes)

    names = [f"{metric}, k = {k}" for metric in _METRICS for k in SIZES]
    columns = [("h", "h", "text"), *((f"c{i}", name, "number") for i, name in enumerate(names))]
    rows: list[list[Cell]] = [[f"{h:g}", *values[:, j].T.ravel().tolist()] for j, h in enumerate(BANDWIDTHS)]
    exact = " and ".join(f"{name} {value:.5f}" for name, value in zip(_METRICS, found.exact, strict=True))
    data = table(f"bandwidth-{reading}-data", f"ICI and LCS: {what}", columns, rows, f"{line.capitalize()}: {exact}.")
    ends = values[..., 0]
    description = (
        f"Index against h: from {_span(ends[:, 0])} at h = {BANDWIDTHS[0]:g} over "
        f"a smallest value of {ends.min():.4f} at h = {BANDWIDTHS[int(ends.min(axis=0).argmin())]:g} to "
        f"{_span(ends[:, -1])} at h = {BANDWIDTHS[-1]:g}; horizontal line: {exact}."
    )
    title = f"ICI and LCS against the bandwidth: {what}"
    return grid_figure(f"bandwidth-{reading}", title, description, draw, data, size=(7.4, 3.1), shape=(1, 2))


def _span(values: FloatArray) -> str:
    """Smallest and largest, or one of them where they look the same."""
    low, high = f"{values.min():.4f}", f"{values.max():.4f}"
    return low if low == high else f"{low}–{high}"


def draw_distances(ax: Any, values: FloatArray, exact: float, title: str, line: str) -> None:
    """A distance against h, a line for each k, the smallest ringed."""
    from reproduction.maps import BANDWIDTHS, SIZES

    inks = Inks.of(ax)
    for i, (row, k) in enumerate(zip(values, SIZES, strict=True)):
        color = inks.model(i)["color"]
        ax.plot(BANDWIDTHS, row, marker=MARKERS[i], markersize=3.5, linewidth=1.3, color=color, label=f"k = {k}")
        low = int(row.argmin())
        ax.plot(BANDWIDTHS[low], row[low], "o", markersize=9, markerfacecolor="none", color=color)
    ax.axhline(exact, color=inks.ink, linestyle=(0, (4, 2)), linewidth=1.2, label=line)
    ax.set(xscale="log", xlabel="bandwidth h", title=title, ylim=(0, None))
    ax.set_xticks(_TICKS, [f"{h:g}" for h in _TICKS])
    ax.minorticks_off()
    inks.dress(ax)
