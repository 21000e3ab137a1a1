"""Figures of the German credit section: calibration curves of one split, and what all splits say."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from reproduction.german_robustness import layout
from reproduction.members import german_laws, german_main, over_splits
from reproduction.printed import LOSSES, METHODS, PRINTED
from reproduction.work import Work
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism.calibrators import MonotoneSplineCalibrator
from scoreprism.displays._style import Canvas, Inks, house_style
from scoreprism.report import Figure
from scoreprism.report._model import Cell
from scoreprism.report._pieces import table, thinned

#: The split whose curves are drawn.
SHOWN = 0
#: Before and after recalibration, and the colour of each: the paper's green and red, told apart by everyone.
SIDES = {"raw": 2, "recalibrated": 1}
#: The panels of the summary: loss, column of its paper's table, heading.
_PANELS = (("brier", "lcs", "LCS"), ("brier", "raw", "Brier"), ("log", "raw", "log loss"))
_POINTS = 101


class Smooth(NamedTuple):
    """
    A calibration curve, smooth and monotone, fitted to test rows.

    Attributes
    ----------
    s, g : array
        Scores between the smallest and the largest, and how often the outcome is 1 there.
    distance : float
        Mean |g(S) − S| over the rows.

    Examples
    --------
    >>> Smooth(np.array([0.1]), np.array([0.2]), 0.1).distance
    0.1
    """

    s: FloatArray
    g: FloatArray
    distance: float


def smooth(S: FloatArray, y: IntArray) -> Smooth:
    """
    The monotone spline of outcomes on scores.

    Parameters
    ----------
    S : array of shape (n,)
        Scores.
    y : integer array of shape (n,)
        Outcomes.

    Returns
    -------
    Smooth
        The curve.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> S = rng.random(500)
    >>> smooth(S, (rng.random(500) < S).astype(int)).distance < 0.05
    True
    """
    fitted = MonotoneSplineCalibrator().fit(S, y)
    s = np.linspace(S.min(), S.max(), _POINTS)
    return Smooth(s, fitted.calibrate(s), float(np.abs(fitted.calibrate(S) - S).mean()))


def distances(work: Work) -> dict[tuple[str, str], FloatArray]:
    """
    How far curves are from the diagonal, in every split.

    Parameters
    ----------
    work : Work
        Where it is computed, once.

    Returns
    -------
    dict of (method, side) to array of shape (splits,)
        Mean distance over test rows.
    """

    def made() -> dict[tuple[str, str], FloatArray]:
        return {
            (method, side): np.array([smooth(S, y).distance for S, y in zip(getattr(laws, side), laws.y, strict=True)])
            for method, laws in german_laws(work).items()
            for side in SIDES
        }

    kept: dict[tuple[str, str], FloatArray] = work.once("german-distances", made)
    return kept


def curves(work: Work) -> dict[tuple[str, str], Smooth]:
    """
    The curves of the split that is drawn.

    Parameters
    ----------
    work : Work
        Where it is computed.

    Returns
    -------
    dict of (method, side) to Smooth
        Four methods, before and after.
    """
    laws = german_laws(work)
    return {(m, side): smooth(getattr(laws[m], side)[SHOWN], laws[m].y[SHOWN]) for m in METHODS for side in SIDES}


def curves_figure(work: Work) -> Figure:
    """
    Calibration curves on the test rows of one split (fig:germancredit:reliability).

    Parameters
    ----------
    work : Work
        Where it is computed.

    Returns
    -------
    Figure
        Four panels.
    """
    found, raw = curves(work), {method: laws.raw[SHOWN] for method, laws in german_laws(work).items()}

    def draw() -> Any:
        from matplotlib.figure import Figure as Sheet

        with house_style():
            sheet = Sheet(figsize=(6.8, 6.6), layout="constrained")
            axes = sheet.subplots(2, 2, sharex=True, sharey=True)
            for ax, method in zip(axes.flat, METHODS, strict=True):
                _curve_panel(ax, method, {side: found[method, side] for side in SIDES}, raw[method])
            for below, left in zip(axes[1], axes[:, 0], strict=True):
                below.set_xlabel("score")
                left.set_ylabel("share of bad credits")
            _key(sheet)
        return sheet

    rows: list[list[Cell]] = [
        [method, side, float(curve.s[i]), float(curve.g[i])]
        for (method, side), curve in found.items()
        for i in thinned(_POINTS, 6)
    ]
    heads = [("method", "method", "text"), ("side", "score", "text"), ("s", "s", "short"), ("g", "curve", "short")]
    nearer = [method for method in METHODS if found[method, "recalibrated"].distance < found[method, "raw"].distance]
    told = "; ".join(
        f"{m}: {found[m, 'raw'].distance:.3f} and {found[m, 'recalibrated'].distance:.3f}" for m in METHODS
    )
    description = (
        f"Monotone splines of the outcomes of 200 test rows on the scores. Mean distance from the diagonal before and "
        f"after recalibration: {told}. It is smaller after recalibration for {len(nearer)} of {len(METHODS)}."
    )
    title = f"Calibration curves on the test rows of the split of seed {SHOWN} (fig:germancredit:reliability)"
    return Figure("german-calibration-curves", title, description, draw,
                  table("german-curves", "Calibration curves", heads, rows))  # fmt: skip


def _curve_panel(ax: Canvas, method: str, pair: dict[str, Smooth], raw: FloatArray) -> None:
    inks = Inks.of(ax)
    ax.plot([0, 1], [0, 1], color=inks.quiet, linewidth=0.9, linestyle=(0, (4, 2)), zorder=1)
    for side, curve in pair.items():
        style = {"color": inks.model(SIDES[side])["color"], "linewidth": 2.0, "label": side}
        ax.plot(curve.s, curve.g, linestyle="-" if side == "raw" else (0, (5, 1.5)), **style)
    ax.plot(raw, np.full(raw.size, -0.025), linestyle="none", marker="|", markersize=4, color=inks.quiet, alpha=0.5)
    ax.set(xlim=(0, 1), ylim=(-0.05, 1), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    ax.set_title(method, loc="left", color=inks.ink)
    ax.set_aspect("equal")
    inks.dress(ax)


def _key(sheet: Any) -> None:
    """One legend for all panels."""
    handles, labels = sheet.axes[0].get_legend_handles_labels()
    sheet.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)


def summary_figure(work: Work) -> Figure:
    """
    LCS, Brier score and log loss over all splits, with the paper's one split (fig:germancredit:summary).

    Parameters
    ----------
    work : Work
        Where it is computed.

    Returns
    -------
    Figure
        Three panels.
    """
    frame = german_main(work)

    def draw() -> Any:
        from matplotlib.figure import Figure as Sheet

        with house_style():
            sheet = Sheet(figsize=(7.4, 3.7), layout="constrained")
            for ax, (loss, column, title) in zip(sheet.subplots(1, 3, sharey=True), _PANELS, strict=True):
                _summary_panel(ax, frame, loss, column)
                ax.set_title(title, loc="left", color=Inks.of(ax).ink)
            _summary_key(sheet)
        return sheet

    means = {m: [float(over_splits(frame, loss, m, side).mean()) for loss in LOSSES for side in SIDES] for m in METHODS}
    worse = sum(means[m][2 * i + 1] > means[m][2 * i] for m in METHODS for i in range(2))
    description = (
        f"For every method the middle half and the middle 90 % of {work.plan.splits} splits, the mean as a dot, and "
        f"the paper's single split as a diamond. In the mean recalibration makes {worse} of {2 * len(METHODS)} losses "
        "worse."
    )
    title = "LCS and proper losses before and after recalibration (fig:germancredit:summary)"
    return Figure("german-summary-metrics", title, description, draw, layout(work))


def _summary_panel(ax: Canvas, frame: Any, loss: str, column: str) -> None:
    inks = Inks.of(ax)
    sides = {"lcs": None} if column == "lcs" else dict.fromkeys(SIDES)
    for row, method in enumerate(METHODS):
        for i, side in enumerate(sides):
            y = row + (0.17 * (2 * i - 1) if len(sides) > 1 else 0.0)
            colour = inks.model(0 if side == "lcs" else SIDES[side])["color"]
            values = over_splits(frame, loss, method, side)
            _strip(ax, inks, y, values, colour)
            paper = PRINTED[f"gains/{loss}/{side}/{method}"].value
            ax.plot(paper, y, marker="D", markersize=4.5, color=inks.paper, markeredgecolor=inks.ink, zorder=6)
    ax.set_yticks(range(len(METHODS)), METHODS)
    ax.set_ylim(len(METHODS) - 0.5, -0.5)
    ax.locator_params(axis="x", nbins=4)
    inks.dress(ax)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)


def _strip(ax: Canvas, inks: Inks, y: float, values: FloatArray, colour: str) -> None:
    """The middle half, the middle 90 %, and the mean."""
    outer, quarter, three, far = np.quantile(values, (0.05, 0.25, 0.75, 0.95))
    ax.plot([outer, far], [y, y], color=colour, linewidth=1.2, solid_capstyle="butt")
    ax.plot([quarter, three], [y, y], color=colour, linewidth=5.0, solid_capstyle="butt", alpha=0.55)
    ax.plot(values.mean(), y, marker="o", markersize=4.5, color=colour, markeredgecolor=inks.paper, zorder=5)


def _summary_key(sheet: Any) -> None:
    from matplotlib.lines import Line2D

    inks = Inks.of(sheet.axes[0])
    dot: dict[str, Any] = {"marker": "o", "markersize": 5, "linewidth": 5}
    handles = [Line2D([], [], color=inks.model(SIDES[side])["color"], **dot) for side in SIDES]
    handles.append(
        Line2D([], [], linestyle="none", marker="D", color=inks.paper, markeredgecolor=inks.ink, markersize=5)
    )
    labels = [*SIDES, "the paper's split"]
    sheet.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
