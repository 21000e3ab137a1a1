"""The bootstrap of a pipeline: how far each quantity moved, and the interval that follows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from scoreprism._core.checks import parse_choice, parse_confidence, refuse
from scoreprism._document.drawing import draws
from scoreprism.displays._inputs import check_axes
from scoreprism.displays._labels import inches, root_figure, wrapped
from scoreprism.displays._style import Canvas, Inks, house_style
from scoreprism.pipelines import PipelineBootstrap

#: Height of a ridge, of the row it stands on.
_RIDGE = 0.62


class PipelineBootstrapDisplay:
    """A ridge of replicates for each quantity, all on one axis of changes from the estimate, with intervals."""

    def __init__(self, result: PipelineBootstrap) -> None:
        self.result = result

    def plot(self, ax: Any = None, *, level: float = 0.95, terms: Any = None) -> Self:
        """Draw."""
        confidence, names = parse_confidence(level), self.result.names
        shown = list(names) if terms is None else [parse_choice(term, names, "each term") for term in terms]
        known = {name: self.result.interval(name, confidence) for name in shown}
        finite = [name for name in shown if np.isfinite(known[name].low)]
        if not finite:
            refuse("a figure must show a finite quantity", "infinite losses only", "Pass `clip`=1e-6 to the bootstrap.")
        with house_style():
            axes = self._new_axes(len(finite)) if ax is None else check_axes(ax)
            self.ax_, self.figure_ = axes, axes.figure
            inks = Inks.of(axes)
            self.ridge_: list[Any] = []
            self.interval_: list[Any] = []
            self.label_: list[Any] = []
            axes.axvline(0.0, color=inks.quiet, linewidth=0.9, zorder=1)
            for row, name in enumerate(finite):
                self._row(axes, inks, row, name, known[name])
            axes.set_yticks(range(len(finite)), [wrapped(name, 14) for name in finite])
            axes.set_ylim(len(finite) - 0.6, -0.85)
            self._words(axes, inks, finite, known)
            axes.set_xlabel(wrapped(self._unit(), max(int(inches(axes)[0] / 0.09), 20)))
            inks.dress(axes)
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        if root_figure(axes).get_layout_engine() is None:  # nothing makes room for words
            axes.tick_params(axis="y", labelsize=5.5, pad=1)
            axes.set_xlabel(self._unit(), fontsize=7)
        return self

    def _unit(self) -> str:
        what = "" if self.result.resample_test else ", test rows fixed"
        return f"{self.result.loss!s} loss, change from the estimate ({self.result.n_resamples} replicates{what})"

    def _new_axes(self, rows: int) -> Canvas:
        import matplotlib.pyplot as plt

        return plt.subplots(figsize=(6.4, 0.9 + 0.55 * rows), layout="constrained")[1]

    def _row(self, axes: Canvas, inks: Inks, row: int, name: str, known: Any) -> None:
        """The density of the replicates above its line, the interval on it, a tick where the quantity would be 0."""
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

    def _words(self, axes: Canvas, inks: Inks, names: list[str], known: dict[str, Any]) -> None:
        """What each row says, right of everything drawn; a letter of 8 points takes about 0.066 inches."""
        low, high = axes.get_xlim()
        digits = _digits(high - low)
        words = [
            f"{self.result.terms[name]:.{digits}f}  [{known[name].low:.{digits}f}, {known[name].high:.{digits}f}]"
            for name in names
        ]
        share = min((0.2 + 0.066 * max(map(len, words))) / inches(axes)[0], 0.6)
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


def _digits(span: float) -> int:
    """Decimals that tell a hundredth of the axis apart."""
    return int(np.clip(np.ceil(2.0 - np.log10(span)), 2, 7)) if span > 0.0 else 5


def _drawn(result: PipelineBootstrap, **options: Any) -> PipelineBootstrapDisplay:
    return PipelineBootstrapDisplay(result).plot(**options)


draws(PipelineBootstrap, _drawn)
