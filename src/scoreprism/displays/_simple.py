"""ROC curves, decision curves and distributions of scores."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from scoreprism.curves import NetBenefit, RocCurve, ScoreDistribution, net_benefit, roc_curve, score_distribution
from scoreprism.displays._base import Display, Part, enters
from scoreprism.displays._labels import legend, thinned

#: Hulls and intervals of more models than this would only cover each other.
_FEW = 3


class RocDisplay(Display[RocCurve]):
    """
    True against false positives, with the convex hull that recalibration could reach.

    Parameters
    ----------
    curves : RocCurve or sequence of RocCurve
        One per model.

    Attributes
    ----------
    curves : tuple of RocCurve
        The numbers.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    line_ : list of Line2D
        The line of each model.
    hull_ : list of Line2D
        The convex hulls of up to three models.

    Examples
    --------
    >>> RocDisplay.from_predictions([0, 0, 1, 1], [0.1, 0.4, 0.3, 0.9]).curves[0].auc
    0.75
    """

    figsize = (4.2, 4.2)

    @classmethod
    def _kind(cls) -> type[RocCurve]:
        return RocCurve

    @classmethod
    def _curve(cls, part: Part) -> RocCurve:
        return roc_curve(part.y_true, part.y_proba, name=part.name, **part.options)

    def plot(self, ax: Any = None, *, curve_kwargs: Any = None) -> Self:
        with self._canvas(ax, curve_kwargs) as (axes, inks, styles):
            axes.plot([0, 1], [0, 1], color=inks.quiet, linewidth=0.9, zorder=1)
            self.hull_: list[Any] = []
            for curve, name, style in zip(self.curves, self.names, styles, strict=True):
                if len(self.curves) <= _FEW:
                    thin = {"color": style["color"], "linewidth": 0.8, "alpha": 0.6}
                    self.hull_ += axes.plot(*thinned(curve.hull_fpr, curve.hull_tpr), **thin)
                x, y = thinned(curve.fpr, curve.tpr)
                self.line_ += axes.plot(x, y, **({"label": name, "linewidth": 1.4} | style))
            axes.set(xlim=(0, 1), ylim=(0, 1), box_aspect=1)
            axes.set(xlabel="false positive rate", ylabel="true positive rate")
            areas = [f"{name}, {curve.auc:.3f}" for name, curve in zip(self.names, self.curves, strict=True)]
            if self._named:
                legend(axes, inks, self.line_, areas)
            else:
                axes.text(0.98, 0.03, f"area {self.curves[0].auc:.3f}", ha="right", va="bottom", color=inks.ink)
        return self


class NetBenefitDisplay(Display[NetBenefit]):
    """
    Decision curves: net benefit against the threshold above which one acts.

    Parameters
    ----------
    curves : NetBenefit or sequence of NetBenefit
        One per model.

    Attributes
    ----------
    curves : tuple of NetBenefit
        The numbers.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    line_ : list of Line2D
        The line of each model.
    band_ : list of artists
        Intervals of up to three models.

    Examples
    --------
    >>> display = NetBenefitDisplay.from_predictions([0, 0, 1, 1], [0.1, 0.4, 0.3, 0.9], name="logistic")
    >>> display.ax_.get_ylabel()
    'net benefit'
    """

    @classmethod
    def _kind(cls) -> type[NetBenefit]:
        return NetBenefit

    @classmethod
    def _curve(cls, part: Part) -> NetBenefit:
        return net_benefit(part.y_true, part.y_proba, name=part.name, **part.options)

    def plot(self, ax: Any = None, *, curve_kwargs: Any = None) -> Self:
        with self._canvas(ax, curve_kwargs) as (axes, inks, styles):
            self.band_: list[Any] = []
            first = self.curves[0]
            quiet = {"color": inks.quiet, "linewidth": 0.9, "zorder": 1}
            everyone = axes.plot(first.thresholds, first.act_on_all, **quiet)
            nobody = axes.plot([0, 1], [0, 0], **quiet, linestyle=(0, (1, 1.5)))
            for curve, name, style in zip(self.curves, self.names, styles, strict=True):
                if len(self.curves) <= _FEW:
                    fill = {"color": style["color"], "alpha": 0.15, "linewidth": 0}
                    self.band_.append(axes.fill_between(curve.thresholds, curve.low, curve.high, **fill))
                x, y = thinned(curve.thresholds, curve.benefit)
                self.line_ += axes.plot(x, y, **({"label": name} | style))
            top = max(float(np.nanmax(np.append(curve.benefit, curve.rate))) for curve in self.curves)
            axes.set(xlim=(0, 1), ylim=(-0.25 * top, 1.1 * top or 1.0), xlabel="threshold above which one acts")
            axes.set_ylabel("net benefit")
            names = self.names if self._named else ["model"]
            legend(axes, inks, [*self.line_, *everyone, *nobody], [*names, "act on all", "on none"])
        return self


class ScoreDistributionDisplay(Display[ScoreDistribution]):
    """
    Histograms of scores: events above the axis, non-events below it; several models as outlines.

    Parameters
    ----------
    curves : ScoreDistribution or sequence of ScoreDistribution
        One per model.

    Attributes
    ----------
    curves : tuple of ScoreDistribution
        The numbers.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    line_ : list of StepPatch
        The outline of the events of each model.

    Examples
    --------
    >>> display = ScoreDistributionDisplay.from_predictions([0, 0, 1, 1], [0.1, 0.4, 0.3, 0.9])
    >>> display.ax_.get_xlabel()
    'predicted probability'
    """

    figsize = (4.8, 3.2)

    @classmethod
    def _kind(cls) -> type[ScoreDistribution]:
        return ScoreDistribution

    @classmethod
    def _curve(cls, part: Part) -> ScoreDistribution:
        return score_distribution(part.y_true, part.y_proba, name=part.name, **part.options)

    def plot(self, ax: Any = None, *, curve_kwargs: Any = None) -> Self:
        alone = len(self.curves) == 1
        with self._canvas(ax, curve_kwargs) as (axes, inks, styles):
            for curve, style in zip(self.curves, styles, strict=True):
                kind: dict[str, Any] = {"fill": alone, "alpha": 0.85} if alone else {"linewidth": 1.2}
                upper = axes.stairs(curve.events, curve.edges, **(kind | style))
                lower = kind | style | ({"alpha": 0.4} if alone else {})
                axes.stairs(-curve.others, curve.edges, **lower)
                self.line_.append(upper)
            axes.axhline(0, color=inks.quiet, linewidth=0.8)
            axes.set(xlim=(0, 1), xlabel="predicted probability")
            axes.yaxis.set_major_formatter(lambda value, _: f"{abs(value):.3g}")
            axes.set_ylabel("non-events      events")
            if self._named:
                legend(axes, inks, self.line_, self.names)
        return self


for _display in (RocDisplay, NetBenefitDisplay, ScoreDistributionDisplay):
    enters(_display)
