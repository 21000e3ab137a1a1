"""Figures of the synthetic experiment: the surface and its data, calibration maps, LCS by ρ, Brier terms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scoreprism._core.numerics import sigmoid
from scoreprism._core.simplex import FloatArray
from scoreprism.datasets import CopulaLaw
from scoreprism.displays._style import MARKERS, Inks
from scoreprism.paper._drawing import grid_figure
from scoreprism.paper._population import exceeds, signed
from scoreprism.paper._synthetic_runs import POOLED, SCORES, MapCurve
from scoreprism.paper._synthetic_scores import NAMES, generator
from scoreprism.report import Figure, Table

#: Correlations of the scatterplots, and how many rows each shows.
SCATTERED, SHOWN = (-0.7, 0.0, 0.7), 350
_LEVELS = np.round(np.arange(0.1, 0.95, 0.1), 1)


def panels(
    key: str,
    words: tuple[str, str],
    draw: Callable[[Any], None],
    data: Table,
    *,
    size: tuple[float, float],
    shape: tuple[int, int] = (1, 1),
) -> Figure:
    """
    A figure of several panels, drawn when it is needed.

    Parameters
    ----------
    key : str
        Its name.
    words : tuple of str
        Title and description.
    draw : callable
        Gets an array of axes.
    data : Table
        The numbers behind it.
    size : tuple of float
        In inches.
    shape : tuple of int, default=(1, 1)
        Rows and columns.

    Returns
    -------
    Figure
        In the house style.
    """

    def dressed(axes: Any) -> None:
        for ax in axes.flat:
            Inks.of(ax).dress(ax)
        draw(axes.ravel())

    return grid_figure(key, *words, dressed, data, size=size, shape=shape)


def surface(axes: Any) -> None:
    """
    Q with labelled contours, and simulated rows at three correlations.

    Parameters
    ----------
    axes : array of four matplotlib Axes
        Where to draw.
    """
    _contours(axes[0])
    for ax, rho in zip(axes[1:], SCATTERED, strict=True):
        _scatter(ax, rho)
    for ax in axes:
        ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
        ax.set(xlabel="x₁", ylabel="x₂")


def _contours(ax: Any) -> None:
    from matplotlib.colors import to_rgba

    inks, grid = Inks.of(ax), np.linspace(0.0, 1.0, 161)
    q = sigmoid(CopulaLaw().logit(grid[None, :], grid[:, None]))
    # One colour, ever stronger: the page exchanges it on dark paper, as it could not do with a colour map.
    blue = inks.model(0)["color"]
    fills = [to_rgba(blue, 0.04 + 0.66 * i / _LEVELS.size) for i in range(_LEVELS.size + 1)]
    ax.contourf(grid, grid, q, [0.0, *_LEVELS, 1.0], colors=fills)
    lines = ax.contour(grid, grid, q, _LEVELS, colors=inks.ink, linewidths=0.7)
    # Labels stand where lines cross x₂ = ½, away from the frame, which would cut them.
    middle = q[grid.size // 2]
    inside = [level for level in _LEVELS[::2] if middle[12] < level < middle[-12]]
    places = [(float(grid[np.abs(middle - level).argmin()]), 0.5) for level in inside]
    ax.clabel(lines, fmt="%.1f", fontsize=8, manual=places)  # some levels alone confuse matplotlib 3.8
    ax.set_title("Q(x₁, x₂)", pad=16)


def _scatter(ax: Any, rho: float) -> None:
    inks = Inks.of(ax)
    drawn = CopulaLaw(rho).sample(SHOWN, generator(rho, 0, 4))
    for label, marker in ((0, "x"), (1, "o")):
        rows = drawn.X[drawn.y == label].T
        colour = inks.model(1 - label)["color"]
        ax.scatter(*rows, s=9, marker=marker, color=colour, linewidths=0.8, alpha=0.75, label=f"y = {label}")
    ax.set_title(f"ρ = {signed(rho)}", pad=16)
    ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.01), ncols=2, columnspacing=1.0, handletextpad=0.1)


def maps(ax: Any, curves: dict[str, MapCurve]) -> None:
    """
    Fitted calibration maps, the exact ones as thin dashed lines, and the diagonal.

    Parameters
    ----------
    ax : matplotlib Axes
        Where to draw.
    curves : dict of str to MapCurve
        By score.
    """
    inks = Inks.of(ax)
    ax.plot([0, 1], [0, 1], color=inks.faint, linewidth=1.0, zorder=0)
    for i, (key, curve) in enumerate(curves.items()):
        ax.plot(curve.score, curve.fitted, color=_colour(inks, i), label=f"ĝ of {NAMES[key]}")
        ax.plot(curve.score, curve.exact, color=inks.ink, linewidth=0.9, linestyle=(0, (4, 2)))
    ax.plot([], [], color=inks.ink, linewidth=0.9, linestyle=(0, (4, 2)), label="C, exactly")
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="score S", ylabel="calibrated probability")
    ax.legend(loc="upper left", bbox_to_anchor=(0.02, 0.99))


def _colour(inks: Inks, index: int) -> str:
    """The paper's colours: green and blue for the two models, red for their average."""
    return str(inks.model((2, 0, 1)[index])["color"])


def lcs_by_rho(ax: Any, runs: dict[str, FloatArray], exact: Sequence[dict[str, float]]) -> None:
    """
    LCS against ρ: means of runs with two standard errors as points, exact values as lines.

    Parameters
    ----------
    ax : matplotlib Axes
        Where to draw.
    runs : dict of str to array of shape (correlations, runs)
        By score.
    exact : sequence of dict
        Of `population`.
    """
    inks, rho = Inks.of(ax), np.array([row["rho"] for row in exact])
    fails = [row["rho"] for row in exact if not exceeds(row)]
    half = 0.5 * float(rho[1] - rho[0])
    for i, place in enumerate(fails):
        label = "exactly: average not above both" if i == 0 else None
        ax.axvspan(place - half, place + half, color=inks.faint, alpha=0.35, linewidth=0, zorder=0, label=label)
    for i, key in enumerate(POOLED):
        colour, (mean, error) = _colour(inks, i), mean_and_error(runs[key])
        ax.plot(rho, [row[f"lcs/{key}"] for row in exact], color=colour, label=f"{NAMES[key]}, exact")
        ax.errorbar(rho, mean, 2 * error, color=colour, fmt=MARKERS[i], markersize=3.5, elinewidth=0.9)
    ax.errorbar([], [], [], color=inks.quiet, fmt="o", markersize=3.5, elinewidth=0.9, label="estimated ± 2 se")
    ax.set(xlabel="ρ", ylabel="LCS", ylim=(0, None), xlim=(rho[0] - half, rho[-1] + half))
    ticks = np.linspace(-0.9, 0.9, 7).round(1) + 0.0
    ax.set_xticks(ticks, [signed(tick) for tick in ticks])
    ax.legend(loc="upper right")


def mean_and_error(runs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """
    Mean over the last axis and its standard error.

    Parameters
    ----------
    runs : array
        At least one run.

    Returns
    -------
    tuple of array
        The error is zero where there is one run.

    Examples
    --------
    >>> [float(part) for part in mean_and_error(np.array([1.0, 3.0]))]
    [2.0, 1.0]
    """
    count = runs.shape[-1]
    spread = runs.std(axis=-1, ddof=1) if count > 1 else np.zeros(runs.shape[:-1])
    return runs.mean(axis=-1), spread / np.sqrt(count)


def components(axes: Any, terms: dict[str, FloatArray]) -> None:
    """
    Brier reliability and grouping before and after recalibration, estimated as bars and exact as marks.

    Parameters
    ----------
    axes : array of two matplotlib Axes
        Where to draw.
    terms : dict of str to array of shape (runs,)
        Of `terms_runs`.
    """
    for ax, term in zip(axes, ("reliability", "grouping"), strict=True):
        _bars(ax, term, terms)
    handles = dict(zip(*axes[0].get_legend_handles_labels()[::-1], strict=True))
    order = ("before", "after", "exact")
    axes[0].legend([handles[name] for name in order], order, loc="upper left", bbox_to_anchor=(0.02, 1.0))
    axes[0].set_ylim(0, 1.35 * axes[0].get_ylim()[1])


def _bars(ax: Any, term: str, terms: dict[str, FloatArray]) -> None:
    inks, place = Inks.of(ax), np.arange(len(SCORES))
    for shift, when, way, strength in ((-0.2, "before", "paper", 1.0), (0.2, "after", "fresh", 0.45)):
        height, error = mean_and_error(np.stack([terms[f"{key}/{when}/{way}/{term}"] for key in SCORES]))
        exact = [terms[f"{key}/{when}/exact/{term}"].mean() for key in SCORES]
        ax.bar(place + shift, height, 0.36, color=inks.term(term), alpha=strength, label=when)
        ax.errorbar(place + shift, height, 2 * error, fmt="none", ecolor=inks.quiet, elinewidth=0.9)
        marks = {"marker": "D", "s": 18, "color": inks.ink, "edgecolors": inks.paper, "linewidths": 0.7, "zorder": 3}
        ax.scatter(place + shift, exact, **marks, label="exact" if when == "after" else None)
    ax.set_xticks(place, [NAMES[key].replace(" ", "\n") for key in SCORES])
    ax.set_title(term.capitalize())
    ax.set_ylabel(f"{term} (Brier)")


def claims_figure(
    rows: Sequence[dict[str, float]], held: Sequence[dict[str, bool]], description: str, data: Table
) -> Figure:
    """
    Grouping against ρ, and below it a mark for each statement and correlation: filled where it holds.

    Parameters
    ----------
    rows : sequence of dict
        Of `population`.
    held : sequence of dict of str to bool
        Whether each statement holds there.
    description : str
        In words.
    data : Table
        In numbers.

    Returns
    -------
    Figure
        Two panels on one axis.
    """

    def draw(axes: Any) -> None:
        _grouping_lines(axes[0], rows)
        _claims_grid(axes[1], [row["rho"] for row in rows], held)
        ticks = np.linspace(-0.9, 0.9, 7).round(1) + 0.0
        for ax in axes:
            ax.set(xlim=(-0.95, 0.95), xticks=ticks, xticklabels=[signed(tick) for tick in ticks])
        axes[1].set_xlabel("ρ")

    words = ("What holds at which ρ in the population", description)
    return panels("population-claims", words, draw, data, size=(7.0, 5.0), shape=(2, 1))


def _grouping_lines(ax: Any, rows: Sequence[dict[str, float]]) -> None:
    inks, rho = Inks.of(ax), [row["rho"] for row in rows]
    lines = {"x1": "-", "x12": (0, (5, 1.5)), "x12-rounded": (0, (1, 1.2))}
    for key, style in lines.items():
        ax.plot(rho, [row[f"grouping/{key}"] for row in rows], color=inks.line("grouping"), linestyle=style,
                label=NAMES[key])  # fmt: skip
    ax.set(ylabel="grouping (Brier)", ylim=(0, None))
    ax.legend(loc="upper left", bbox_to_anchor=(0.02, 1.0))


def _claims_grid(ax: Any, rho: Sequence[float], held: Sequence[dict[str, bool]]) -> None:
    inks, names = Inks.of(ax), list(held[0])
    for i, name in enumerate(names):
        yes = [r for r, holds in zip(rho, held, strict=True) if holds[name]]
        no = [r for r, holds in zip(rho, held, strict=True) if not holds[name]]
        ax.plot(yes, [i] * len(yes), "o", color=inks.ink, markersize=5, label="holds" if i == 0 else None)
        ax.plot(no, [i] * len(no), "x", color=inks.model(1)["color"], markersize=6, markeredgewidth=1.6,
                label="does not hold" if i == 0 else None)  # fmt: skip
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=2)
