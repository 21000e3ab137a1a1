"""Decompositions as a waterfall, and as stacked bars before and after recalibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from scoreprism._registry import draws
from scoreprism._validation import parse_choice, parse_random_state, refuse
from scoreprism.decomposition import Decomposition
from scoreprism.displays._base import Display, Part
from scoreprism.displays._labels import legend, wrapped
from scoreprism.displays._recalibrated import recalibrated
from scoreprism.displays._style import Canvas, Inks
from scoreprism.estimation import Comparison, SegmentDecompositions, decompose
from scoreprism.frames import make_frame
from scoreprism.intervals import Interval

#: Roles of terms that are what is left when all others are gone.
_LEFT = ("remaining", "uncertainty")


class DecompositionDisplay(Display[Any]):
    """
    The terms of a loss as bars, with intervals.

    One decomposition is drawn as a waterfall (``kind="waterfall"``): from the loss down, term by term, to what is
    left. Several, or a model before and after recalibration, as stacked bars (``kind="bars"``).

    Parameters
    ----------
    decompositions : Decomposition, or mapping of str to Decomposition
        One per model, with the same terms and the same loss.

    Attributes
    ----------
    decompositions : dict of str to Decomposition
        The numbers.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    bar_ : list of Rectangle
        The bars.
    interval_ : list of Line2D
        The intervals.
    label_ : list of Text
        What is written next to bars.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(300)
    >>> y = rng.random(300) < s**2
    >>> display = DecompositionDisplay.from_predictions(y, s, loss="brier", random_state=0)
    >>> list(display.decompositions.values())[0].names
    ('reliability', 'refinement')
    """

    figsize = (6.2, 2.6)
    features = True
    pools_folds = True

    def __init__(self, decompositions: Any) -> None:
        given = {"": decompositions} if isinstance(decompositions, Decomposition) else decompositions
        if not isinstance(given, Mapping) or not given or not all(isinstance(d, Decomposition) for d in given.values()):
            remedy = "Use decompose(y_true, y_proba), or from_predictions."
            refuse(
                "decompositions must be a Decomposition, or a mapping of them", type(decompositions).__name__, remedy
            )
        kinds = {(d.names, str(d.loss)) for d in given.values()}
        if len(kinds) > 1:
            shown = "; ".join(f"{loss}: {', '.join(names)}" for names, loss in sorted(kinds))
            refuse("decompositions of one figure must have the same loss and terms", shown, "Draw them one by one.")
        self.decompositions: dict[str, Decomposition] = dict(given)
        self.curves = tuple(given.values())

    @classmethod
    def _kind(cls) -> type[Any]:
        return Decomposition

    @classmethod
    def _curve(cls, part: Part) -> Decomposition:
        found: Decomposition = decompose(part.y_true, part.y_proba, **part.options)
        return found

    @classmethod
    def _made(cls, parts: Sequence[Part]) -> Self:
        found: dict[str, Decomposition] = {}
        for part in parts:
            options = dict(part.options)
            calibrator = options.pop("recalibrate", None)
            options["random_state"] = int(parse_random_state(options.get("random_state")).integers(2**62))
            mine = part._replace(options=options)
            found[part.name or ""] = cls._curve(mine)
            if calibrator is not None:
                found[f"{part.name}, recalibrated" if part.name else "recalibrated"] = cls._curve(
                    recalibrated(mine, calibrator)
                )
        if "" in found and len(found) > 1:
            found = {name or "as it is": d for name, d in found.items()}
        return cls(found)

    @property
    def names(self) -> list[str]:
        """Names of the models."""
        return [name or "model" for name in self.decompositions]

    def plot(
        self,
        ax: Any = None,
        *,
        curve_kwargs: Any = None,
        kind: str | None = None,
        terms: Sequence[str] | None = None,
        level: float = 0.95,
    ) -> Self:
        """
        Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        curve_kwargs : dict, optional
            Options of the bars.
        kind : {"waterfall", "bars"}, optional
            By default a waterfall for one decomposition, bars for several.
        terms : sequence of str, optional
            Terms that bars show, all by default; without the last term, the part that can be reduced is seen better.
        level : float, default=0.95
            Confidence level of the intervals.

        Returns
        -------
        display
            Itself, with ``ax_``, ``figure_`` and the artists.
        """
        usual = "waterfall" if len(self.decompositions) == 1 else "bars"
        chosen = parse_choice(kind or usual, ("waterfall", "bars"), "kind")
        if chosen == "waterfall" and len(self.decompositions) > 1:
            refuse("a waterfall is of one decomposition", f"{len(self.decompositions)}", 'Use kind="bars".')
        with self._canvas(ax, None) as (axes, inks, _):
            self.bar_: list[Any] = []
            self.interval_: list[Any] = []
            self.label_: list[Any] = []
            if chosen == "waterfall":
                self._waterfall(axes, inks, level, dict(curve_kwargs or {}))
            else:
                names = self.curves[0].names
                shown = names if terms is None else [parse_choice(term, names, "each term") for term in terms]
                self._bars(axes, inks, level, dict(curve_kwargs or {}), [name for name in names if name in shown])
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        return self

    def _size(self) -> tuple[float, float]:
        rows = len(self.decompositions)
        if rows == 1:
            return self.figsize[0], 0.9 + 0.42 * (len(self.curves[0].names) + 1)
        return self.figsize[0], 1.2 + 0.38 * rows

    def _waterfall(self, axes: Canvas, inks: Inks, level: float, style: dict[str, Any]) -> None:
        """From the loss down to what is left; a subtracted term goes up."""
        result = self.curves[0]
        base = {"height": 0.62, **style}
        self.bar_ += axes.barh(0, result.risk, **({"color": inks.quiet} | base))
        self._write(axes, inks, 0, result.risk, f"{result.risk:.4f}")
        position, edges = result.risk, [result.risk]
        for row, name in enumerate(result.names, start=1):
            value, sign = result.terms[name], result._signs[row - 1]
            following = position - sign * value
            fill = {"color": inks.term(name, result.names)} | base
            self.bar_ += axes.barh(row, following - position, left=position, **fill)
            interval = result._shown_interval(name, level)
            ends = [position - sign * end for end in (interval.low, interval.high)]
            if result._roles[row - 1] in _LEFT:  # its lower end is where the axis begins: the interval is of the upper
                ends = [following + sign * end for end in (interval.low, interval.high)]
            self._whisker(axes, inks, row, ends)
            axes.plot([position, position], [row - 1 + 0.31, row - 0.31], color=inks.quiet, linewidth=0.7)
            right = np.nanmax([position, following, *ends])
            self._write(axes, inks, row, right, _words(value, interval))
            position = following
            edges += [right, following]
        axes.set_xlim(min(0.0, *edges), 1.16 * max(edges))
        rows = ["loss", *result.names]
        axes.set_yticks(range(len(rows)), rows)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel(_unit(result))
        axes.set_title(wrapped(self._heading(), 60), color=inks.ink)

    def _heading(self) -> str:
        (name,) = self.decompositions
        return name

    def _bars(self, axes: Canvas, inks: Inks, level: float, style: dict[str, Any], terms: Sequence[str]) -> None:
        """One bar per model, what cannot be removed at the left, what recalibration removes at the right."""
        names, furthest = self.curves[0].names, 0.0
        for row, result in enumerate(self.curves):
            position = reached = 0.0
            for number, name in enumerate(reversed(terms)):
                sign = result._signs[names.index(name)]
                value = sign * result.terms[name]
                fill = {"color": inks.term(name, names), "height": 0.62, **style}
                self.bar_ += axes.barh(row, value, left=position, **fill)
                interval = result._shown_interval(name, level)
                place = row + 0.16 * (number - (len(terms) - 1) / 2)
                ends = [position + sign * end for end in (interval.low, interval.high)]
                self._whisker(axes, inks, place, ends)
                position += value
                reached = float(np.nanmax([reached, position, *ends]))
            self._write(axes, inks, row, reached, f"{position:.4f}")
            furthest = max(furthest, reached)
        axes.set_yticks(range(len(self.names)), [wrapped(name, 22) for name in self.names])
        axes.set_ylim(len(self.names) - 0.5, -0.5)
        axes.set_xlim(right=1.14 * furthest)
        axes.axvline(0, color=inks.quiet, linewidth=0.8)
        axes.set_xlabel(_unit(self.curves[0]))
        legend(axes, inks, self.bar_[: len(terms)], terms[::-1])

    def _whisker(self, axes: Canvas, inks: Inks, row: float, ends: Sequence[float]) -> None:
        if np.isfinite(ends).all():
            line = {"color": inks.ink, "linewidth": 1.0, "marker": "|", "markersize": 4, "solid_capstyle": "butt"}
            self.interval_ += axes.plot(ends, [row, row], **line)

    def _write(self, axes: Canvas, inks: Inks, row: float, x: float, text: str) -> None:
        word = {"textcoords": "offset points", "va": "center", "fontsize": 8, "color": inks.ink}
        self.label_.append(axes.annotate(text, (x, row), (5, 0), **word))

    def frame(self, backend: str | None = None) -> Any:
        """
        All terms as one dataframe.

        Parameters
        ----------
        backend : str, optional
            "polars", "pandas" or "pyarrow"; the library the data came in, else polars.

        Returns
        -------
        frame
            One row per model and term.
        """
        columns: dict[str, list[Any]] = {"model": []}
        for name, result in zip(self.names, self.curves, strict=True):
            table = result._columns()
            columns["model"] += [name] * len(result.names)
            for key, values in table.items():
                columns.setdefault(key, []).extend(values)
        return make_frame(columns, backend or self.curves[0]._backend)


def _words(value: float, interval: Interval) -> str:
    """An estimate and its interval, where there is one."""
    known = np.isfinite([interval.low, interval.high]).all()
    return f"{value:.4f}  [{interval.low:.4f}, {interval.high:.4f}]" if known else f"{value:.4f}"


def _unit(result: Decomposition) -> str:
    """What the axis shows."""
    return f"{result.loss!s} loss, {result.n} rows"


def _draw_one(result: Decomposition, **options: Any) -> DecompositionDisplay:
    return DecompositionDisplay(result).plot(**options)


def _draw_several(result: Any, **options: Any) -> DecompositionDisplay:
    return DecompositionDisplay({str(key): d for key, d in result.decompositions.items()}).plot(**options)


draws(Decomposition, _draw_one)
draws(Comparison, _draw_several)
draws(SegmentDecompositions, _draw_several)
