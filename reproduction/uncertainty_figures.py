"""Figures of appendix C: the bias of reliability estimates, and intervals with and without refitting the model."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from reproduction.drawing import grid_figure, shared_legend
from reproduction.printed import LOSSES
from scoreprism.displays._style import MARKERS, Inks
from scoreprism.report import Figure
from scoreprism.report._pieces import table

_WAYS = {"in sample": "the calibrator's own rows", "split": "fresh rows", "debiased": "debiased"}


def bias_figure(rows: list[dict[str, Any]]) -> Figure:
    """Estimates of reliability minus the truth, for two scores and two losses."""
    shown = [row for row in rows if row["quantity"] == "reliability"]
    shifts = [(row, way, row["means"][way][0] - row["truth"], row["means"][way][1]) for row in shown for way in _WAYS]

    def draw(axes: Any) -> None:
        for ax, loss in zip(axes[0], LOSSES, strict=True):
            _draw_bias(ax, [shift for shift in shifts if shift[0]["loss"] == loss], LOSSES[loss])
        shared_legend(axes)

    columns = [("score", "score", "text"), ("loss", "loss", "text"), ("way", "judged on", "text"),
               ("bias", "estimate − truth", "signed"), ("error", "standard error", "loss")]  # fmt: skip
    cells = [(row["score"], LOSSES[row["loss"]], _WAYS[way], bias, error) for row, way, bias, error in shifts]
    data = table("reliability-bias-data", "Bias of estimates of reliability", columns, cells)
    means = {way: [bias for _, which, bias, _ in shifts if which == way] for way in _WAYS}
    told = "; ".join(f"{_WAYS[way]}: {min(values):+.4f} to {max(values):+.4f}" for way, values in means.items())
    description = f"Mean estimate of reliability minus the truth: on {told}.".replace("-0.", "−0.")
    title = "How far estimates of reliability are from the truth, on average"
    return grid_figure("reliability-bias", title, description, draw, data, size=(7.4, 2.7), shape=(1, 2))


def _draw_bias(ax: Any, shifts: list[Any], title: str) -> None:
    inks = Inks.of(ax)
    names = list(dict.fromkeys(row["score"] for row, *_ in shifts))
    ax.axvline(0, color=inks.faint, linewidth=1)
    for i, way in enumerate(_WAYS):
        mine = [(names.index(row["score"]), bias, error) for row, which, bias, error in shifts if which == way]
        place, bias, error = (np.array(column) for column in zip(*mine, strict=True))
        ax.errorbar(bias, place + 0.22 * (i - 1), xerr=2 * error, fmt=MARKERS[i], markersize=5, linewidth=1.2,
                    color=inks.model(i)["color"], label=_WAYS[way])  # fmt: skip
    ax.set_yticks(range(len(names)), names)
    ax.set(title=title, xlabel="estimate − truth", ylim=(len(names) - 0.5, -0.5))
    inks.dress(ax)


def widths_figure(rows: list[dict[str, Any]]) -> Figure:
    """Intervals of both bootstraps, sample by sample."""
    quantities = ("reliability", "loss")
    refits = list(dict.fromkeys(row["refit"] for row in rows))

    def draw(axes: Any) -> None:
        for ax, quantity in zip(axes[0], quantities, strict=True):
            _draw_intervals(ax, [row for row in rows if row["quantity"] == quantity], refits, quantity)
        shared_legend(axes)

    shown = [row for row in rows if row["quantity"] in quantities]
    columns = [("sample", "sample", "count"), ("quantity", "quantity", "text"), ("refit", "refitted", "text"),
               ("estimate", "estimate", "loss"), ("low", "low", "loss"), ("high", "high", "loss")]  # fmt: skip
    cells = [
        (row["sample"] + 1, row["quantity"], row["refit"], row["estimate"], row["estimate"] - row["half"],
         row["estimate"] + row["half"])
        for row in shown
    ]  # fmt: skip
    data = table("interval-widths-data", "95 % intervals, before they are cut at 0", columns, cells)
    told = []
    for quantity, refit in product(quantities, refits):
        halves = [row["half"] for row in rows if (row["quantity"], row["refit"]) == (quantity, refit)]
        told.append(f"{quantity}, {refit}: ± {np.mean(halves):.4f}")
    description = f"95 % intervals of {len({row['sample'] for row in rows})} samples; on average {'; '.join(told)}."
    title = "Intervals that refit the calibrator only, and the whole pipeline"
    return grid_figure("interval-widths-figure", title, description, draw, data, size=(7.4, 3.0), shape=(1, 2))


def _draw_intervals(ax: Any, rows: list[dict[str, Any]], refits: list[str], quantity: str) -> None:
    inks = Inks.of(ax)
    if quantity == "reliability":
        ax.axvline(0, color=inks.faint, linewidth=1)
    for i, refit in enumerate(refits):
        mine = [row for row in rows if row["refit"] == refit]
        place = [row["sample"] + 1 + 0.24 * (i - 0.5) for row in mine]
        estimates, halves = ([row[key] for row in mine] for key in ("estimate", "half"))
        ax.errorbar(estimates, place, xerr=halves, fmt=MARKERS[i], markersize=4, linewidth=1.6,
                    color=inks.model(i)["color"], label=refit)  # fmt: skip
    count = max(row["sample"] for row in rows) + 1
    ax.set_yticks(range(1, count + 1))
    ax.set(title=f"{quantity.capitalize()} (Brier)", xlabel="95 % interval", ylabel="sample", ylim=(count + 0.5, 0.5))
    inks.dress(ax)
