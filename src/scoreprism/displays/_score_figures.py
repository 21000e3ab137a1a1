"""Figures over the score: grouping diagrams, recalibration maps, ROC and decision curves, histograms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from scoreprism._core.checks import refuse
from scoreprism._document.colours import house_style
from scoreprism._document.drawing import draws
from scoreprism._findings.wording import write_percent
from scoreprism.calibrators import Calibrator
from scoreprism.curves import (
    CalibrationMap,
    GroupingCurve,
    NetBenefit,
    RocCurve,
    ScoreDistribution,
    calibration_map,
    grouping_curve,
    net_benefit,
    roc_curve,
    score_distribution,
)
from scoreprism.displays._axes import coarsen, find_bulk
from scoreprism.displays._display import CurveDisplay, ShownModel, ZoomedDisplay, shows
from scoreprism.displays._figure_text import draw_legend, make_swatch, shorten, thin_out, wrap
from scoreprism.displays._style import Canvas, Inks
from scoreprism.inference import MapBand, MapInference
from scoreprism.scale import Sums

#: Hulls and intervals of more models than this would only cover each other.
_FEW = 3


@shows(RocCurve, roc_curve)
class RocDisplay(CurveDisplay[RocCurve]):
    """
    True against false positives, with the convex hull that recalibration could reach.

    Attributes
    ----------
    hull_ : list of Line2D
        The convex hulls of up to three models.
    chance_ : Line2D
        The diagonal of a score without information.

    Examples
    --------
    >>> RocDisplay.from_predictions([0, 0, 1, 1], [0.1, 0.4, 0.3, 0.9]).curves[0].auc
    0.75
    """

    figsize = (4.2, 4.2)

    def plot(self, ax: Any = None, *, curve_kwargs: Any = None) -> Self:
        with self._canvas(ax, curve_kwargs, len(self.curves)) as (axes, inks, styles):
            self.chance_ = self._draw_reference(axes, inks, [0, 1], [0, 1])
            self.hull_: list[Any] = []
            for curve, name, style in zip(self.curves, self.names, styles, strict=True):
                if len(self.curves) <= _FEW:
                    thin = {"color": style["color"], "linewidth": 0.8, "alpha": 0.6}
                    self.hull_ += axes.plot(*thin_out(curve.hull_fpr, curve.hull_tpr), **thin)
                x, y = thin_out(curve.fpr, curve.tpr)
                self.line_ += axes.plot(x, y, **({"label": name, "linewidth": 1.4} | style))
            axes.set(xlim=(0, 1), ylim=(0, 1), box_aspect=1)
            axes.set(xlabel="false positive rate", ylabel="true positive rate")
            if self._named:
                self._explain(axes, inks, keys=add_areas(self.names, self.curves))
            else:
                axes.text(0.98, 0.03, f"AUC {self.curves[0].auc:.3f}", ha="right", va="bottom", color=inks.ink)
        return self


def add_areas(names: Sequence[str], curves: Sequence[RocCurve]) -> list[str]:
    """Names of models, shortened if long, with the areas under their curves."""
    pairs = zip(names, curves, strict=True)
    return [f"{shorten(name, 28)}, AUC {curve.auc:.3f}" for name, curve in pairs]


@shows(NetBenefit, net_benefit)
class NetBenefitDisplay(ZoomedDisplay[NetBenefit]):
    """
    Decision curves: net benefit against the decision threshold.

    Attributes
    ----------
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

    def _draw(self, axes: Canvas, inks: Inks, styles: list[dict[str, Any]], limits: tuple[float, float]) -> None:
        first = self.curves[0]
        self.all_ = self._draw_reference(axes, inks, first.thresholds, first.act_on_all, label="act on all")
        self.none_ = self._draw_reference(axes, inks, [0, 1], [0, 0], label="act on none", linestyle=(0, (1, 1.5)))
        for curve, name, style in zip(self.curves, self.names, styles, strict=True):
            if len(self.curves) <= _FEW:
                self._fill(axes, curve.thresholds, curve.low, curve.high, style["color"], 0.15)
            x, y = thin_out(curve.thresholds, curve.benefit)
            self.line_ += axes.plot(x, y, **({"label": name} | style))
        top = max(float(np.nanmax(np.append(curve.benefit, curve.rate))) for curve in self.curves)
        axes.set(xlabel="decision threshold", ylabel="net benefit")
        axes.set_ylim(-0.25 * top, 1.1 * top or 1.0)
        more = {"act on all": self.all_, "act on none": self.none_}
        if self.band_:
            swatch = self.band_[0] if len(self.curves) == 1 else make_swatch(inks.quiet)
            more[f"{write_percent(first.confidence_level)} interval"] = swatch
        self._explain(axes, inks, more)

    def _find_range(self) -> tuple[float, float]:
        acted = [curve.thresholds[curve.benefit > 0.01 * curve.rate] for curve in self.curves]
        return 0.0, max((float(theta.max()) for theta in acted if theta.size), default=1.0)


@shows(ScoreDistribution, score_distribution)
class ScoreDistributionDisplay(ZoomedDisplay[ScoreDistribution]):
    """
    Histograms of scores: events above the axis, non-events below it; several models as outlines.

    Attributes
    ----------
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
    def _curve(cls, part: ShownModel) -> ScoreDistribution:
        """Compute fine bins, which the figure coarsens."""
        fine = {"n_bins": 1000} | part.options
        return score_distribution(part.sample, name=part.name, **fine)

    def _draw(self, axes: Canvas, inks: Inks, styles: list[dict[str, Any]], limits: tuple[float, float]) -> None:
        alone = len(self.curves) == 1
        for curve, style in zip(self.curves, styles, strict=True):
            edges, (events, others) = coarsen(curve, limits)
            look: dict[str, Any] = {"fill": True, "alpha": 0.85} if alone else {"linewidth": 1.2}
            self.line_.append(axes.stairs(events, edges, **(look | style)))
            pale = {"alpha": 0.4} if alone else {}
            axes.stairs(-others, edges, **(look | style | pale))
            width = float(edges[1] - edges[0])
        self._draw_reference(axes, inks, [0, 1], [0, 0], linewidth=0.8)
        axes.set(xlabel="predicted probability", ylabel=f"share of rows per {width:.2g}")
        axes.yaxis.set_major_formatter(lambda value, _: f"{abs(value):.3g}")
        word = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points", "rotation": 90}
        word |= {"ha": "left", "fontsize": 8, "color": inks.ink, "annotation_clip": False}
        axes.annotate("events", (1.0, 0.0), (3, 4), va="bottom", **word)
        axes.annotate("others", (1.0, 0.0), (3, -4), va="top", **word)
        if self._named:
            self._explain(axes, inks)

    def _find_range(self) -> tuple[float, float]:
        return find_bulk(self.curves)


@shows(GroupingCurve, grouping_curve)
class GroupingDisplay(ZoomedDisplay[GroupingCurve]):
    """
    Spread of P(Y | X) within level sets of the score.

    One model: quantiles of Q̂ in each bin of scores, around the calibrated score: how much rows of equal scores
    differ. Several models: the debiased standard deviation of Q against the score, hollow where it may be zero.

    Attributes
    ----------
    band_ : list of artists
        Bars of quantiles, or intervals.

    Examples
    --------
    >>> from scoreprism.datasets import CopulaLaw
    >>> X, y, q = CopulaLaw(rho=0.0).sample(500, random_state=0)
    >>> display = GroupingDisplay.from_predictions(y, X[:, 0], q=q, random_state=0)
    >>> display.ax_.get_ylabel()
    'P(Y = 1 | X)'
    """

    figsize = (4.2, 4.2)
    features = True

    @classmethod
    def _make(cls, parts: Sequence[ShownModel]) -> Self:
        """Compare several models in fewer bins, which are less noisy."""
        few = {} if len(parts) == 1 else {"n_bins": 5}
        return cls([cls._curve(part._replace(options=few | part.options)) for part in parts])

    def _draw(self, axes: Canvas, inks: Inks, styles: list[dict[str, Any]], limits: tuple[float, float]) -> None:
        axes.set_xlabel("predicted probability")
        if len(self.curves) == 1:
            self._draw_quantiles(axes, inks, styles[0] if self._styled else {})
            axes.set(ylim=limits, box_aspect=1)
        else:
            self._draw_spreads(axes, inks, styles)

    def _find_range(self) -> tuple[float, float]:
        values = np.concatenate([part for curve in self.curves for part in (curve.x, curve.quantiles.ravel())])
        return float(values.min()), float(values.max())

    def _draw_quantiles(self, axes: Canvas, inks: Inks, style: dict[str, Any]) -> None:
        """Bars from the 5 to the 95 % quantile, thick from 25 to 75, and the calibrated score across them."""
        curve = self.curves[0]
        q05, q25, q50, q75, q95 = curve.quantiles.T
        colour = inks.term("grouping")
        self.diagonal_ = self._draw_reference(axes, inks, [0, 1], [0, 1])
        wide = axes.vlines(curve.x, q05, q95, color=colour, linewidth=1.3)
        thick = axes.vlines(curve.x, q25, q75, color=colour, linewidth=5.0, alpha=0.45)
        (middle,) = axes.plot(curve.x, q50, linestyle="none", marker="o", markersize=3, color=colour)
        self.line_ = axes.plot(curve.x, curve.calibrated, zorder=3, **({"color": inks.line("reliability")} | style))
        self.band_ = [wide, thick, middle]
        axes.set_ylabel("P(Y = 1 | X)")
        axes.set_title(wrap(curve.name or "", 50), color=inks.ink)
        words = ["5–95 % of rows", "25–75 %", "median", "calibrated score"]
        draw_legend(axes, inks, [wide, thick, middle, self.line_[0]], words)

    def _draw_spreads(self, axes: Canvas, inks: Inks, styles: list[dict[str, Any]]) -> None:
        """Draw debiased standard deviations, hollow if possibly zero, with intervals of up to three models."""
        for curve, name, style in zip(self.curves, self.names, styles, strict=True):
            if len(self.curves) <= _FEW:
                low, high = (np.sqrt(np.maximum(end, 0.0)) for end in (curve.low, curve.high))
                self._fill(axes, curve.x, low, high, style["color"], 0.13)
            self.line_ += axes.plot(curve.x, curve.spread, **({"label": name} | style))
            faces = [style["color"] if low > 0.0 else inks.paper for low in curve.low]
            axes.scatter(curve.x, curve.spread, 14, c=faces, edgecolors=style["color"], linewidths=1.0, zorder=3)
        axes.set_ylabel("spread of P(Y = 1 | X)")
        axes.set_ylim(bottom=0)
        self._explain(axes, inks)


@shows(CalibrationMap, calibration_map, "One per calibrator or model.")
class CalibrationMapDisplay(ZoomedDisplay[CalibrationMap]):
    """
    Recalibration maps: g(s) against s.

    Beyond the scores of the data, where a map extrapolates, it is drawn thin.

    Attributes
    ----------
    line_ : list of Line2D
        The map of each calibrator or model, where there are data.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(300)
    >>> display = CalibrationMapDisplay.from_predictions(rng.random(300) < s**2, s, calibrator=["platt", "isotonic"])
    >>> display.names
    ['platt', 'isotonic']
    """

    figsize = (4.2, 4.2)

    @classmethod
    def _make(cls, parts: Sequence[ShownModel]) -> Self:
        curves = []
        for part in parts:
            options = dict(part.options)
            calibrators = options.pop(
                "calibrator", ("platt", "isotonic", "monotone-spline") if len(parts) == 1 else "monotone-spline"
            )
            each = [calibrators] if isinstance(calibrators, (str, Calibrator)) else list(calibrators)
            for one in each:
                name = part.name if len(each) == 1 else None
                if part.name is not None and len(each) > 1:
                    name = f"{part.name}, {one if isinstance(one, str) else one.name}"
                curves.append(cls._curve(part._replace(name=name, options=options | {"calibrator": one})))
        return cls(curves)

    def _draw(self, axes: Canvas, inks: Inks, styles: list[dict[str, Any]], limits: tuple[float, float]) -> None:
        self.diagonal_ = self._draw_reference(axes, inks, [0, 1], [0, 1])
        for curve, name, style in zip(self.curves, self.names, styles, strict=True):
            inside = curve.inside
            axes.plot(curve.x, curve.y, color=style["color"], linewidth=0.7, alpha=0.7)
            dot = {"marker": "o"} if inside.sum() == 1 else {}
            self.line_ += axes.plot(curve.x[inside], curve.y[inside], **({"label": name} | dot | style))
        axes.set(ylim=limits, xlabel="score", ylabel="recalibrated score", box_aspect=1)
        self._explain(axes, inks)

    def _find_range(self) -> tuple[float, float]:
        values = [value for curve in self.curves for value in (*curve.support, *curve.y[curve.inside])]
        return min(values), max(values)


def _draw_inference(
    result: MapInference, ax: Any = None, *, confidence_level: float | None = None, **options: Any
) -> CalibrationMapDisplay:
    """The map at all scores, and its pointwise intervals where there are data."""
    require_two(result.calibrator)
    x = np.unique(np.append(np.linspace(0.0, 1.0, 401), result.support))
    inner = np.clip(x, 1e-9, 1.0 - 1e-9)
    return _draw_band(replace(result.calibrate(inner, confidence_level=confidence_level), score=x), ax, **options)


def _draw_band(band: MapBand, ax: Any = None, **options: Any) -> CalibrationMapDisplay:
    """Recalibrated scores, and their pointwise intervals where there are data."""
    require_two(band.calibrator)
    order = np.argsort(band.score)
    x, y, low, high = (column[order] for column in (band.score, band.calibrated, band.low, band.high))
    name, support = band.calibrator.name, band._support
    curve = CalibrationMap(name=name, n=x.size, calibrator=band.calibrator, x=x, y=y, support=support)
    display = CalibrationMapDisplay(curve).plot(ax, **options)
    inside = curve.inside
    fill = {"color": display.line_[0].get_color(), "alpha": 0.18, "linewidth": 0}
    shade = display.ax_.fill_between(x[inside], low[inside], high[inside], **fill)
    words = [name, f"{write_percent(band.confidence_level)} at each score"]
    with house_style():
        draw_legend(display.ax_, Inks.of(display.ax_), [display.line_[0], shade], words)
    return display


def require_two(calibrator: Calibrator) -> None:
    """Refuse to draw a map of more than two classes."""
    if len(calibrator.classes_) > 2:
        what = f"{len(calibrator.classes_)} classes"
        refuse("a map that can be drawn must be of two classes", what, "Use calibrate() for its numbers.")


draws(MapInference, _draw_inference)
draws(MapBand, _draw_band)


def _draw_sums(result: Sums, **options: Any) -> ScoreDistributionDisplay:
    """The scores of all segments and periods, by outcome."""
    table = result.table
    score = table["key"] if result.exact else table["s"] / table["w"]
    share = table["w"] / table["w"].sum()
    events, edges = np.histogram(score, 50, (0.0, 1.0), weights=share * table["y"])
    others, _ = np.histogram(score, 50, (0.0, 1.0), weights=share * (1.0 - table["y"]))
    curve = ScoreDistribution(name=None, n=result.n, _backend=None, edges=edges, events=events, others=others)
    return ScoreDistributionDisplay(curve).plot(**options)


draws(Sums, _draw_sums)
