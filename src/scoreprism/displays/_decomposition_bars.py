"""Decompositions as a waterfall, and as stacked bars before and after recalibration."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold

from scoreprism._core.checks import abbreviate, parse_choice, parse_confidence, refuse
from scoreprism._core.simplex import FloatArray
from scoreprism._document.drawing import draws
from scoreprism._estimation.decompose import decompose
from scoreprism._findings.wording import write_count, write_fixed, write_percent
from scoreprism._fitting.chain_fit import parse_calibration
from scoreprism._parameters import described
from scoreprism._sample.sample import Sample
from scoreprism.calibrators import get_calibrator
from scoreprism.decomposition import Comparison, Decomposition, PairedDifference, SegmentDecompositions
from scoreprism.displays._axes import require_finite
from scoreprism.displays._display import CurveDisplay, ShownModel, register, stack_frames
from scoreprism.displays._figure_text import (
    count_margin_letters,
    draw_legend,
    has_layout,
    inches,
    shorten,
    wrap,
    write_known,
)
from scoreprism.displays._style import Canvas, Inks
from scoreprism.ensembles import AggregationDecomposition

#: Inches of a line beside a bar.
_LINE = 0.135
#: A bar at least this many times as long as all others is cut at this many times the longest of them.
_LONG, _SHOWN = 4.0, 1.6
#: Roles of the term that remains after all others.
_LEFT = ("remaining", "uncertainty")


class DecompositionDisplay(CurveDisplay[Any]):
    """
    The terms of a loss as bars, with intervals.

    One decomposition is drawn as a waterfall (``kind="waterfall"``): from the loss down, term by term, to what
    remains. Several, or a model before and after recalibration, as stacked bars (``kind="bars"``).

    `from_predictions` takes the options of `decompose` and of `plot`; ``recalibrate=``, a calibrator or its name,
    adds each model after recalibration.

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
        The text next to bars.

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
        by_name = {"": decompositions} if isinstance(decompositions, Decomposition) else decompositions
        is_mapping = isinstance(by_name, Mapping) and bool(by_name)
        if not is_mapping or not all(isinstance(d, Decomposition) for d in by_name.values()):
            remedy = "Use decompose(y_true, y_proba), or from_predictions."
            refuse(
                "`decompositions` must be a Decomposition, or a mapping of them", type(decompositions).__name__, remedy
            )
        kinds = {(d.names, str(d.loss)) for d in by_name.values()}
        if len(kinds) > 1:
            got = "; ".join(f"{loss}: {', '.join(names)}" for names, loss in sorted(kinds))
            refuse("decompositions of one figure must have the same loss and terms", got, "Draw them one by one.")
        self.decompositions: dict[str, Decomposition] = dict(by_name)
        self._skipped: tuple[str, ...] = ()
        self.curves = tuple(by_name.values())

    _computes = staticmethod(decompose)
    _shows = Decomposition
    _extra = ("recalibrate",)
    _of_two_classes = False

    @classmethod
    def _curve(cls, part: ShownModel) -> Decomposition:
        decomposition: Decomposition = decompose(part.sample, **part.options)
        return decomposition

    @classmethod
    def _make(cls, parts: Sequence[ShownModel]) -> Self:
        decompositions: dict[str, Decomposition] = {}
        for part in parts:
            options = dict(part.options)
            calibrator = options.pop("recalibrate", None)
            own_part = part._replace(options=options)
            pair = {part.name or ("" if calibrator is None else "as it is"): own_part}
            if calibrator is not None:
                pair[f"{part.name}, recalibrated" if part.name else "recalibrated"] = _recalibrate(own_part, calibrator)
            if pair.keys() & decompositions.keys():
                refuse(
                    "models must have different names", abbreviate(pair.keys() & decompositions.keys()), "Rename them."
                )
            decompositions |= {name: cls._curve(one) for name, one in pair.items()}
        return cls(decompositions)

    @property
    def names(self) -> list[str]:
        """Names of the models."""
        return [name or "model" for name in self.decompositions]

    @described()
    def plot(
        self,
        ax: Any = None,
        *,
        curve_kwargs: Any = None,
        kind: str | None = None,
        terms: Sequence[str] | None = None,
        confidence_level: float = 0.95,
        cut: bool = False,
    ) -> Self:
        """
        Draw.

        Parameters
        ----------
        curve_kwargs : dict, optional
            Options of the bars.
        kind : {"waterfall", "bars"}, optional
            By default a waterfall for one decomposition, bars for several.
        terms : sequence of str, optional
            Terms that bars show, all by default; without the last term, the reducible part is easier to see.
        cut : bool, default=False
            Whether a waterfall may omit the beginning of its axis if the last term dwarfs the others; bars
            that are cut are drawn torn, and the label of the axis says where it begins.

        Returns
        -------
        display
            Itself, with ``ax_``, ``figure_`` and the artists.
        """
        usual = "waterfall" if len(self.decompositions) == 1 and terms is None else "bars"
        chosen = parse_choice(kind or usual, ("waterfall", "bars"), "kind")
        names = self.curves[0].names
        shown = list(names) if terms is None else [parse_choice(term, names, "each term") for term in terms]
        self._whole = len(shown) == len(names)
        if chosen == "waterfall" and not self._whole:
            refuse("a waterfall shows all terms", f"terms={shown}", 'Use `kind`="bars".')
        if chosen == "waterfall" and len(self.decompositions) > 1:
            refuse("a waterfall is of one decomposition", f"{len(self.decompositions)}", 'Use `kind`="bars".')
        beside = "Draw its floored, or pass" if all(d.floored is not None for d in self.curves) else "Pass"
        require_finite({name: d.risk for name, d in self.decompositions.items()}, beside)
        style = parse_bar(curve_kwargs)
        with self._canvas(ax, None, len(self.curves)) as (axes, inks, _):
            self.bar_: list[Any] = []
            self.interval_: list[Any] = []
            self.label_: list[Any] = []
            level, keys = parse_confidence(confidence_level), {}
            if chosen == "waterfall":
                self._draw_waterfall(axes, inks, level, style, cut=cut)
            else:
                keys = self._draw_bars(axes, inks, level, style, [name for name in names if name in shown])
            start = axes.get_xlim()[0]
            axes.set_xlabel(self._write_unit(confidence_level) + (f", from {start:g}" if start > 0.0 else ""))
            if keys:
                draw_legend(axes, inks, list(keys.values()), list(keys))
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        return self

    def _size(self) -> tuple[float, float]:
        rows = len(self.decompositions)
        if rows == 1:
            return self.figsize[0], 0.9 + 0.42 * (len(self.curves[0].names) + 1)
        return self.figsize[0], 1.4 + 0.38 * rows

    def _write_unit(self, confidence_level: float) -> str:
        """Label of the axis, with the number of rows if it is the same for all."""
        sizes = {d.n for d in self.curves}
        rows = f", {write_count(sizes.pop())} rows" if len(sizes) == 1 else ""
        if all(d._population for d in self.curves):
            rows = ", exact"
        known = f", intervals at {write_percent(confidence_level)}" if self.interval_ else ""
        part = "" if self._whole else "part of the "
        mark = f"\n{self.curves[0]._mark}" if self.curves[0]._mark else ""
        note = f"\nleft out: {abbreviate(self._skipped)}" if self._skipped else ""
        return f"{part}{self.curves[0].loss!s} loss{rows}{known}{mark}{note}"

    def _draw_waterfall(
        self, axes: Canvas, inks: Inks, confidence_level: float, style: dict[str, Any], *, cut: bool
    ) -> None:
        """Draw from the loss down to the last term; a subtracted term goes up."""
        result = self.curves[0]
        base = {"height": 0.62, **style}
        digits = _count_digits(result)
        self.bar_ += axes.barh(0, result.risk, **({"color": inks.quiet} | base))
        self._write(axes, inks, 0, result.risk, write_fixed(result.risk, digits))
        position, edges, lengths = result.risk, [0.0, result.risk], measure_lengths(result, confidence_level)
        for row, name in enumerate(result.names, start=1):
            value, sign = lengths[name], result._signs[row - 1]
            following = position - sign * value
            look = {"color": inks.term(name, result.names)} | base
            look = _hatch(look) if name in result.muted else look
            self.bar_ += axes.barh(row, following - position, left=position, **look)
            known = result._known(name, confidence_level)
            left = result._roles[row - 1] in _LEFT  # its bar begins at the axis, so its interval is at the upper end
            base_end, side = (following, sign) if left else (position, -sign)
            ends = [base_end + side * end for end in (known.low, known.high)]
            self._draw_whisker(axes, inks, row, base_end + side * value, ends)
            axes.plot([position, position], [row - 1 + 0.31, row - 0.31], color=inks.quiet, linewidth=0.7)
            reached = [position, following, *(end for end in ends if np.isfinite(end))]
            estimate = math.nan if name in result.muted else value
            self._write(axes, inks, row, max(reached), write_known(estimate, known.low, known.high, digits))
            position = following
            edges += reached
        rows = ["loss", *result.names]
        axes.set_yticks(range(len(rows)), rows)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        start = _find_beginning(result.risk, edges) if cut and min(edges) > -1e-9 * result.risk else 0.0
        self._make_room(axes, start or min(edges))
        if start > 0.0:
            self._draw_tear(axes, inks, [0, len(result.names)])
        (name,) = self.decompositions
        axes.set_title(wrap(name, 60), color=inks.ink)

    def _cut_long(self, axes: Canvas, inks: Inks) -> None:
        """Cut a bar that would dwarf all others; its number gives the size."""
        *others, label = sorted(self.label_, key=lambda one: float(one.xy[0]))
        parts = [bar for bar in self.bar_ if abs(bar.get_y() + 0.5 * bar.get_height() - label.xy[1]) < 0.5]
        length = max((bar.get_x() + bar.get_width() for bar in parts), default=0.0)
        longest = max((float(one.xy[0]) for one in others), default=0.0)
        if not length > _LONG * longest > 0.0:
            return
        limit, row = _SHOWN * longest, label.xy[1]
        label.xy, scale = (limit, row), limit / length
        for bar in parts:  # they keep their shares
            bar.set_x(bar.get_x() * scale)
            bar.set_width(bar.get_width() * scale)
        for line in [line for line in self.interval_ if abs(float(np.mean(line.get_ydata())) - row) < 0.5]:
            line.set_visible(False)  # on another scale it would be misleading
        for place in (0.93, 0.955):
            x = limit * np.array([place - 0.008, place + 0.008])
            axes.plot(x, [row + 0.4, row - 0.4], color=inks.paper, linewidth=1.6, solid_capstyle="butt", zorder=5)

    def _draw_tear(self, axes: Canvas, inks: Inks, rows: Sequence[int]) -> None:
        """Draw two strokes in the paper's colour through bars that begin before the axis does."""
        left, right = axes.get_xlim()
        for row in rows:
            for place in (0.018, 0.034):
                x = left + np.array([place - 0.006, place + 0.006]) * (right - left)
                axes.plot(x, [row + 0.4, row - 0.4], color=inks.paper, linewidth=1.6, solid_capstyle="butt")

    def _draw_bars(
        self, axes: Canvas, inks: Inks, confidence_level: float, style: dict[str, Any], terms: Sequence[str]
    ) -> dict[str, Any]:
        """
        Draw one bar per model, with the irreducible part on the left and what recalibration removes on the right.

        What is returned goes into a legend.

        A subtracted term goes to the left of zero; the loss is then marked, and is not the right end. A term whose
        estimate is negative, or muted, is hatched; a muted one that may be 0 is not drawn.
        """
        names, least = self.curves[0].names, 0.0
        terms_drawn: dict[str, None] = {}
        digits = max(_count_digits(result) for result in self.curves)
        for row, result in enumerate(self.curves):
            position = reached = total = 0.0
            lengths = measure_lengths(result, confidence_level)
            if not self._whole:  # the terms need not add up: a negative estimate is 0, as tables say
                lengths = {name: max(length, 0.0) for name, length in lengths.items()}
            visible = [name for name in reversed(terms) if name not in result.muted or lengths[name] > 0.0]
            terms_drawn |= dict.fromkeys(visible)
            for number, name in enumerate(visible):
                sign = result._signs[names.index(name)]
                start, value = (position if sign > 0 else 0.0), sign * lengths[name]
                look = {"color": inks.term(name, names), "height": 0.62, **style}
                if lengths[name] < 0.0 or name in result.muted:  # a negative bar overlaps the one before it
                    look = _hatch(look)
                self.bar_ += axes.barh(row, value, left=start, **look)
                known = result._known(name, confidence_level)
                ends = [start + sign * end for end in (known.low, known.high)]
                self._draw_whisker(axes, inks, row + 0.16 * (number - (len(visible) - 1) / 2), start + value, ends)
                position += value if sign > 0 else 0.0
                total += value
                finite = [end for end in ends if np.isfinite(end)]
                reached, least = max(reached, position, *finite), min(least, start + value, *finite)
            if min(result._signs) < 0:
                axes.plot(total, row, marker="D", markersize=4, color=inks.ink, path_effects=inks.casing)
            more = " or more" if not self._whole and set(visible) & set(result.muted) else ""
            self._write(axes, inks, row, reached, (write_fixed(total, digits) if total else "0") + more)
        axes.set_yticks(range(len(self.names)), self._write_rows())
        axes.set_ylim(len(self.names) - 0.5, -0.5)
        axes.axvline(0, color=inks.quiet, linewidth=0.8)
        self._cut_long(axes, inks)
        self._make_room(axes, least)
        from matplotlib.patches import Patch  # not the first bars: a negative term is hatched there

        return {name: Patch(color=inks.term(name, names)) for name in reversed(terms) if name in terms_drawn}

    def _write_rows(self) -> list[str]:
        """Names of the bars, with their numbers of rows if these differ."""
        width = 22
        if not has_layout(self.ax_):  # nothing makes room: use the existing margin
            width = max(count_margin_letters(self.ax_), 5)
        same = len({d.n for d in self.curves}) == 1
        tails = ["" if same else f"n = {write_count(d.n)}" for d in self.curves]
        lines = max(int(inches(self.ax_)[1] / len(tails) / _LINE), 1)
        return [_write_row(name, tail, width, lines) for name, tail in zip(self.names, tails, strict=True)]

    def _draw_whisker(self, axes: Canvas, inks: Inks, row: float, end: float, known: Sequence[float]) -> None:
        """Draw the interval; an open end starts at the end of the bar."""
        caps = [bool(np.isfinite(value)) for value in known]
        if not any(caps):
            return
        points = [value if cap else end for value, cap in zip(known, caps, strict=True)]
        line = {"color": inks.ink, "linewidth": 1.0, "marker": "|", "markersize": 4, "solid_capstyle": "butt"}
        line["markevery"] = caps
        self.interval_ += axes.plot(points, [row, row], **line)

    def _write(self, axes: Canvas, inks: Inks, row: float, x: float, text: str) -> None:
        word = {"textcoords": "offset points", "va": "center", "fontsize": 8, "color": inks.ink}
        self.label_.append(axes.annotate(text, (x, row), (5, 0), annotation_clip=False, **word))

    def _make_room(self, axes: Canvas, left: float) -> None:
        """Set limits that keep all words inside the axes: a letter of 8 points takes about 0.066 inches."""
        width, right = inches(axes)[0], left
        for label in self.label_:
            share = min((0.12 + 0.066 * len(label.get_text())) / width, 0.6)
            right = max(right, (label.xy[0] - share * left) / (1.0 - share))
        axes.set_xlim(left, right if right > left else left + 1.0)

    @described()
    def to_frame(self, backend: str | None = None) -> Any:
        """
        All terms as one dataframe.

        Returns
        -------
        frame
            One row per model and term.
        """
        parts = [
            (name, d._columns() | {"loss": [d.risk] * len(d.names)})
            for name, d in zip(self.names, self.curves, strict=True)
        ]
        return stack_frames(parts, backend or self.curves[0]._backend)


# ── recalibration ───────────────────────────────────────────────────────────────────────────────────

#: Number of folds of the recalibration.
_FOLDS = 5


def _recalibrate(part: ShownModel, calibrator: Any) -> ShownModel:
    """The same model, recalibrated out of fold, or on the calibration split if there is one."""
    chosen, sample, options = get_calibrator(calibrator), part.sample, dict(part.options)
    if options.get("calibration") is None:
        fresh = _recalibrate_out_of_fold(chosen, sample, options.get("random_state"))
    else:
        split = parse_calibration(options["calibration"], sample)
        fitted = clone(chosen).fit(split.prediction, split.y, split.weight)
        options["calibration"] = replace(split, predictions={split.name: fitted.calibrate(split.prediction)})
        fresh = fitted.calibrate(sample.prediction)
    return part._replace(sample=replace(sample, predictions={sample.name: fresh}), options=options)


def _recalibrate_out_of_fold(calibrator: Any, sample: Sample, seed: Any) -> FloatArray:
    """Recalibrate every row by a map fitted on the other folds; groups stay together."""
    score, weight = sample.prediction, sample.weight
    fresh = np.empty_like(score)
    if sample.groups is None:
        splits = KFold(_FOLDS, shuffle=True, random_state=None if seed is None else int(seed) % 2**32).split(score)
    else:
        splits = GroupKFold(_FOLDS).split(score, groups=sample.groups)
    for train, test in splits:
        train_weight = None if weight is None else weight[train]
        fresh[test] = clone(calibrator).fit(score[train], sample.y[train], train_weight).calibrate(score[test])
    return fresh


# ── bars and words ──────────────────────────────────────────────────────────────────────────────────


def _write_row(name: str, tail: str, width: int, lines: int) -> str:
    """Name of a bar and its number of rows, on as many lines as fit beside the bar."""
    whole = f"{name}, {tail}" if tail else name
    if (words := wrap(whole, width)).count("\n") < lines and words.replace("\n", " ") == whole:
        return words
    cut = shorten(name, width)
    return f"{cut}\n{tail}" if tail and lines > 1 else f"{cut}, {tail}" if tail else cut


def parse_bar(curve_kwargs: Any) -> dict[str, Any]:
    """Options of bars."""
    if curve_kwargs is not None and not isinstance(curve_kwargs, Mapping):
        refuse("`curve_kwargs` of bars must be a dict", repr(curve_kwargs), "For example {'height': 0.4}.")
    return dict(curve_kwargs or {})


def _find_beginning(risk: float, edges: Sequence[float]) -> float:
    """Where the axis may begin so that short bars stay visible; 0 if none is dwarfed."""
    positive = [edge for edge in edges if edge > 1e-9 * risk]  # the last bar ends at 0 but for rounding
    low, high = min(positive, default=0.0), max(positive, default=0.0)
    if low < 0.6 * risk:
        return 0.0
    start, step = low - 0.8 * (high - low), 10.0 ** math.floor(math.log10(max(high - low, 1e-9)))
    return max(round(math.floor(start / step) * step, 12), 0.0)


def _count_digits(result: Decomposition) -> int:
    """Decimals that show two digits of the smallest standard error."""
    errors = [error for error in result.std_error.values() if np.isfinite(error) and error > 0]
    return int(np.clip(1 - np.floor(np.log10(min(errors))), 2, 6)) if errors else 4


def measure_lengths(result: Decomposition, confidence_level: float) -> dict[str, float]:
    """
    Length of the bar of each term: its estimate or, if that is muted, its lower bound.

    The sum of several muted terms is known, because only the border between them is noisy: the
    last of them takes the rest.
    """
    lengths, rest = dict(result.terms), 0.0
    for name, following in zip(result.names, (*result.names[1:], None), strict=True):
        if name not in result.muted:
            continue
        rest += result.terms[name]
        if following in result.muted:
            least = result._known(name, confidence_level).low
            lengths[name] = min(max(least, 0.0), max(rest, 0.0)) if np.isfinite(least) else 0.0
            rest -= lengths[name]
        else:
            lengths[name], rest = rest, 0.0
    return lengths


def _hatch(look: dict[str, Any]) -> dict[str, Any]:
    """The style of a bar that does not show a part of the loss."""
    plain = {key: value for key, value in look.items() if key != "color"}
    return plain | {"fill": False, "edgecolor": look["color"], "hatch": "/////", "linewidth": 0.8}


def _draw_several(result: Any, **options: Any) -> DecompositionDisplay:
    display = DecompositionDisplay({str(key): d for key, d in result.decompositions.items()})
    display._skipped = tuple(map(str, getattr(result, "skipped", ())))
    return display.plot(**options)


def _draw_pair(result: PairedDifference, **options: Any) -> DecompositionDisplay:
    return DecompositionDisplay({"first": result.first, "second": result.second}).plot(**options)


def _draw_ensemble(result: AggregationDecomposition, **options: Any) -> DecompositionDisplay:
    """Draw the aggregate and its members, without the remaining loss, which is the same for all."""
    return _draw_several(
        result.comparison, **({"terms": result.names[: len(result.decomposition.level_names) - 1]} | options)
    )


register(DecompositionDisplay, Decomposition)
draws(Comparison, _draw_several)
draws(SegmentDecompositions, _draw_several)
draws(PairedDifference, _draw_pair)
draws(AggregationDecomposition, _draw_ensemble)
