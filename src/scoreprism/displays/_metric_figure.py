"""Metrics of one prediction as points with intervals, on one axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from scoreprism._core.checks import parse_choice, refuse
from scoreprism._document.colours import house_style
from scoreprism._parameters import described
from scoreprism.displays._display import ResultDisplay, register
from scoreprism.displays._figure_text import draw_legend, root_figure
from scoreprism.displays._style import Inks
from scoreprism.metrics import METRICS, MetricTable

#: Metrics that do not measure a gap between scores and outcomes and have their own scale.
_OTHERS = ("calibration_", "observed_", "spiegelhalter", "auc", "global_")


class MetricsDisplay(ResultDisplay[MetricTable]):
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

    point_: list[Any]
    interval_: list[Any]

    @property
    def names(self) -> list[str]:
        """Names of the metrics."""
        return list(self.result.names)

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
        gaps = [name for name in self.names if not name.startswith(_OTHERS)] or self.names
        chosen = gaps if metrics is None else [parse_choice(name, self.names, "each metric") for name in metrics]
        if not chosen:
            refuse("a figure must show at least one metric", "none", f"Choose among {', '.join(METRICS)}.")
        self._rows = len(chosen)
        with house_style(), self._page(ax):
            axes, inks = self.ax_, Inks.of(self.ax_)
            self.point_, self.interval_ = [], []
            axes.axvline(0.0, color=inks.quiet, linewidth=0.9, zorder=1)
            for row, name in enumerate(chosen):
                interval = self.result.intervals[name]
                if np.isfinite(interval.low):
                    self.interval_ += axes.plot(
                        [interval.low, interval.high], [row, row], color=inks.ink, linewidth=1.1
                    )
                dot: dict[str, Any] = {"marker": "o", "markersize": 4.5, "linestyle": "none", "zorder": 4}
                self.point_ += axes.plot(float(self.result.estimates[name]), row, color=inks.model(0)["color"], **dot)
            is_loose = root_figure(axes).get_layout_engine() is None  # nothing makes room for words
            axes.set_yticks(range(len(chosen)), chosen, fontsize=6 if is_loose else None)
            axes.set_ylim(len(chosen) - 0.5, -0.5)
            axes.set_xlabel("value")
            handles, words = [*self.point_[:1], *self.interval_[:1]], ["estimate"]
            words += [f"{100 * self.result.confidence_level:g} % interval"] * bool(self.interval_)
            draw_legend(axes, inks, handles, words)
            inks.dress(axes)
        return self

    def _size(self) -> tuple[float, float]:
        return 4.8, 1.2 + 0.24 * self._rows


register(MetricsDisplay, MetricTable)
