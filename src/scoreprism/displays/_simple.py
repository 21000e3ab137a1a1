"""ROC curves, decision curves and distributions of scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from scoreprism.curves import NetBenefit, RocCurve, ScoreDistribution, net_benefit, roc_curve, score_distribution
from scoreprism.displays._base import Display, enters
from scoreprism.displays._inputs import Part
from scoreprism.displays._labels import patch, shortened, thinned
from scoreprism.displays._limits import bulk, coarser, zoomed

#: Hulls and intervals of more models than this would only cover each other.
_FEW = 3


class RocDisplay(Display[RocCurve]):
    """
    True against false positives, with the convex hull that recalibration could reach.

    `from_predictions` takes the options of `roc_curve` and of `plot`.

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
    chance_ : Line2D
        What a score that knows nothing has.

    Examples
    --------
    >>> RocDisplay.from_predictions([0, 0, 1, 1], [0.1, 0.4, 0.3, 0.9]).curves[0].auc
    0.75
    """

    figsize = (4.2, 4.2)

    _computes = staticmethod(roc_curve)
    _shows = RocCurve

    def plot(self, ax: Any = None, *, curve_kwargs: Any = None) -> Self:
        with self._canvas(ax, curve_kwargs) as (axes, inks, styles):
            self.chance_ = self._reference(axes, inks, [0, 1], [0, 1])
            self.hull_: list[Any] = []
            for curve, name, style in zip(self.curves, self.names, styles, strict=True):
                if len(self.curves) <= _FEW:
                    thin = {"color": style["color"], "linewidth": 0.8, "alpha": 0.6}
                    self.hull_ += axes.plot(*thinned(curve.hull_fpr, curve.hull_tpr), **thin)
                x, y = thinned(curve.fpr, curve.tpr)
                self.line_ += axes.plot(x, y, **({"label": name, "linewidth": 1.4} | style))
            axes.set(xlim=(0, 1), ylim=(0, 1), box_aspect=1)
            axes.set(xlabel="false positive rate", ylabel="true positive rate")
            if self._named:
                self._explain(axes, inks, keys=with_area(self.names, self.curves))
            else:
                axes.text(0.98, 0.03, f"AUC {self.curves[0].auc:.3f}", ha="right", va="bottom", color=inks.ink)
        return self


def with_area(names: Sequence[str], curves: Sequence[RocCurve]) -> list[str]:
    """Names of models with the areas under their curves; long names lose their middle, numbers stay."""
    pairs = zip(names, curves, strict=True)
    return [f"{shortened(name, 28)}, AUC {curve.auc:.3f}" for name, curve in pairs]


class NetBenefitDisplay(Display[NetBenefit]):
    """
    Decision curves: net benefit against the threshold above which one acts.

    `from_predictions` takes the options of `net_benefit` and of `plot`.

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
    all_, none_ : Line2D
        Acting on everyone, and on no one.

    Examples
    --------
    >>> display = NetBenefitDisplay.from_predictions([0, 0, 1, 1], [0.1, 0.4, 0.3, 0.9], name="logistic")
    >>> display.ax_.get_ylabel()
    'net benefit'
    """

    _computes = staticmethod(net_benefit)
    _shows = NetBenefit

    def plot(self, ax: Any = None, *, curve_kwargs: Any = None, zoom: Any = "auto") -> Self:
        """
        Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        curve_kwargs : dict or list of dict, optional
            Options of the lines, for all models or one dict each.
        zoom : "auto", None or pair of numbers, default="auto"
            Limits of the thresholds; None for 0 to 1.

        Returns
        -------
        display
            Itself, with ``ax_``, ``figure_`` and the artists.
        """
        limits = zoomed(zoom, *self._seen())
        with self._canvas(ax, curve_kwargs) as (axes, inks, styles):
            self.band_: list[Any] = []
            first = self.curves[0]
            self.all_ = self._reference(axes, inks, first.thresholds, first.act_on_all, label="act on all")
            self.none_ = self._reference(axes, inks, [0, 1], [0, 0], label="on none", linestyle=(0, (1, 1.5)))
            for curve, name, style in zip(self.curves, self.names, styles, strict=True):
                if len(self.curves) <= _FEW:
                    fill = {"color": style["color"], "alpha": 0.15, "linewidth": 0}
                    self.band_.append(axes.fill_between(curve.thresholds, curve.low, curve.high, **fill))
                x, y = thinned(curve.thresholds, curve.benefit)
                self.line_ += axes.plot(x, y, **({"label": name} | style))
            top = max(float(np.nanmax(np.append(curve.benefit, curve.rate))) for curve in self.curves)
            axes.set(xlim=limits, ylim=(-0.25 * top, 1.1 * top or 1.0), xlabel="threshold above which one acts")
            axes.set_ylabel("net benefit")
            more = {"act on all": self.all_, "on none": self.none_}
            if self.band_:
                swatch = self.band_[0] if len(self.curves) == 1 else patch(inks.quiet)
                more[f"{100 * first.level:g} % interval"] = swatch
            self._explain(axes, inks, more)
        return self

    def _seen(self) -> tuple[float, float]:
        """Thresholds at which any model acts."""
        acted = [curve.thresholds[np.abs(curve.benefit) > 0.01 * curve.rate] for curve in self.curves]
        return 0.0, max((float(theta.max()) for theta in acted if theta.size), default=1.0)


class ScoreDistributionDisplay(Display[ScoreDistribution]):
    """
    Histograms of scores: events above the axis, non-events below it; several models as outlines.

    `from_predictions` takes the options of `score_distribution` and of `plot`.

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

    _computes = staticmethod(score_distribution)
    _shows = ScoreDistribution

    @classmethod
    def _curve(cls, part: Part) -> ScoreDistribution:
        """Fine bins, which the figure brings together to what can be seen."""
        fine = {"n_bins": 1000} | part.options
        return score_distribution(part.sample, name=part.name, **fine)

    def plot(self, ax: Any = None, *, curve_kwargs: Any = None, zoom: Any = "auto") -> Self:
        """
        Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        curve_kwargs : dict or list of dict, optional
            Options of the lines, for all models or one dict each.
        zoom : "auto", None or pair of numbers, default="auto"
            Limits of the scores; None for 0 to 1.

        Returns
        -------
        display
            Itself, with ``ax_``, ``figure_`` and the artists.
        """
        alone = len(self.curves) == 1
        ends = [bulk(curve) for curve in self.curves]
        limits = zoomed(zoom, min(low for low, _ in ends), max(high for _, high in ends))
        with self._canvas(ax, curve_kwargs) as (axes, inks, styles):
            for curve, style in zip(self.curves, styles, strict=True):
                edges, (events, others) = coarser(curve, limits)
                look: dict[str, Any] = {"fill": True, "alpha": 0.85} if alone else {"linewidth": 1.2}
                self.line_.append(axes.stairs(events, edges, **(look | style)))
                pale = {"alpha": 0.4} if alone else {}
                axes.stairs(-others, edges, **(look | style | pale))
                width = float(edges[1] - edges[0])
            self._reference(axes, inks, [0, 1], [0, 0], linewidth=0.8)
            axes.set(xlim=limits, xlabel="predicted probability", ylabel=f"share of rows per {width:.2g}")
            axes.yaxis.set_major_formatter(lambda value, _: f"{abs(value):.3g}")
            word = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points", "rotation": 90}
            word |= {"ha": "left", "fontsize": 8, "color": inks.ink, "annotation_clip": False}
            axes.annotate("events", (1.0, 0.0), (3, 4), va="bottom", **word)
            axes.annotate("others", (1.0, 0.0), (3, -4), va="top", **word)
            if self._named:
                self._explain(axes, inks)
        return self


for _display in (RocDisplay, NetBenefitDisplay, ScoreDistributionDisplay):
    enters(_display)
