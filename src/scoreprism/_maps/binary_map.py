"""Fitted binary maps, chart → curve → link: evaluated, stored and written as formulas in one way."""

from __future__ import annotations

import sys
from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from scoreprism._core.numerics import (
    BELOW_ONE,
    FAR,
    LAST_BIT,
    SMALLEST_SCORE,
    bend_up,
    halve,
    log_odds,
    log_pair,
    rising_cubic,
    rising_sigmoid,
    soft_floor,
)
from scoreprism._core.simplex import FloatArray
from scoreprism._kernels.isotonic import locate
from scoreprism._maps.formula import FormulaTerm, sigmoid
from scoreprism._maps.parts import MapPart, Part, require

#: Rows evaluated at a time, so that temporaries stay in cache.
_BLOCK = 1 << 14
#: The range of the scores of each kind; a calibrator refuses others, a formula has no value for them.
RANGES = {"probability": (0.0, 1.0), "logit": (-sys.float_info.max, sys.float_info.max)}


# ── charts: in which coordinate a curve sees the score ──────────────────────────────────────────────


@dataclass(frozen=True)
class Chart(Part):
    """
    From the score as it came (``kind``: probability or logit) to the coordinate of a curve (``space``).

    A probability below ``low`` is read as low·h(s/low), h(r) = r + (1 − r)³/4, and one within ``high`` of 1 likewise
    (`soft_floor`): logits are finite, and still strictly increasing and smooth in the score.
    """

    tag = "chart"

    kind: str
    space: str
    low: float = SMALLEST_SCORE
    high: float = LAST_BIT

    def check(self) -> None:
        require(self.kind in ("probability", "logit"), "kind", "the value probability or logit")
        require(self.space in ("score", "probability", "logit"), "space", "the value score, probability or logit")
        require(0 < self.low < 1 and 0 < self.high < 1, "low and high", "values between 0 and 1")

    def __call__(self, score: FloatArray) -> FloatArray:
        if self.space in ("score", self.kind):
            return score
        out = np.empty(score.shape)
        for start in range(0, score.shape[0], _BLOCK):
            rows = slice(start, start + _BLOCK)
            out[rows] = rising_sigmoid(score[rows]) if self.space == "probability" else self._logit(score[rows])
        return out

    def _logit(self, score: FloatArray) -> FloatArray:
        """The logit of probabilities, bent near 0 and 1."""
        rest = 1.0 - score
        logit = np.log(np.maximum(score, self.low)) - np.log(np.maximum(rest, self.high))
        for near, floor, sign in ((score, self.low, 1.0), (rest, self.high, -1.0)):
            bent = np.flatnonzero(near < floor)
            if bent.size:
                logit[bent] = sign * log_odds(bend_up(near[bent], floor))
        return logit

    def places(self, x: FloatArray) -> FloatArray:
        """The smallest scores whose coordinates reach these, by halving: the coordinate rises with the score."""
        if self.space in ("score", self.kind):
            return x
        low, high = (np.full(x.shape, end) for end in ((0.0, 1.0) if self.kind == "probability" else (-FAR, FAR)))
        return halve(lambda score: self(score) >= x, high, low, 80)[0]

    def formula(self, score: FormulaTerm) -> FormulaTerm:
        """The coordinate as a formula."""
        if self.space in ("score", self.kind):
            return score
        if self.space == "probability":
            return sigmoid(score)
        rest = 1 - score
        low, high = _lift(score, self.low).reuse(), _lift(rest, self.high).reuse()
        return (score + low - high).ln() - (rest - low + high).ln()


def _lift(near: FormulaTerm, floor: float) -> FormulaTerm:
    """What `bend_up` adds to a distance from an end: nothing from the floor on, where SQL need not compute it."""
    return near.below(floor, floor / 4 * (1 - near / floor).cut(low=0).cube(), near.constant(0.0))


def logit_chart(score: FloatArray, kind: str, distance: float) -> Chart:
    """
    The logit of the score, bent towards the scores that were seen.

    With m the smallest score above 0, those below `low` are read between low/4 and low: `low` is m where scores of
    exactly 0 occur (a forest of 100 trees that says 0 is read as 0.0025: its resolution is 0.01), else m or 1/(2n),
    whichever is less. So nothing moves within the scores seen, and nothing is extrapolated far beyond them.
    """
    if kind == "logit":
        return Chart(kind, "logit")
    touches_ends = bool(score.min() == 0.0), bool(score.max() == 1.0)
    inside = score[(score > 0.0) & (score < 1.0)] if any(touches_ends) else score
    nearest = (float(inside.min()), 1.0 - float(inside.max())) if inside.size else (0.25, 0.25)
    low, high = (near if end else min(near, distance) for near, end in zip(nearest, touches_ends, strict=True))
    return Chart(kind, "logit", max(low, SMALLEST_SCORE), max(high, LAST_BIT))


# ── curves ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class MapCurve(Part):
    """A real function of one coordinate."""

    @abstractmethod
    def __call__(self, x: FloatArray) -> FloatArray: ...

    @abstractmethod
    def formula(self, x: FormulaTerm) -> FormulaTerm:
        """The same function as a formula."""


@dataclass(frozen=True)
class Affine(MapCurve):
    """slope · x + intercept."""

    tag = "line"

    slope: float
    intercept: float

    def __call__(self, x: FloatArray) -> FloatArray:
        return self.slope * x + self.intercept

    def formula(self, x: FormulaTerm) -> FormulaTerm:
        return self.slope * x + self.intercept


@dataclass(frozen=True)
class BetaCurve(MapCurve):
    """a·log s − b·log(1 − s) + c at the logit x of s."""

    tag = "beta"

    a: float
    b: float
    c: float

    def __call__(self, x: FloatArray) -> FloatArray:
        log_s, minus_log_rest = log_pair(x)
        return self.a * log_s + self.b * minus_log_rest + self.c

    def formula(self, x: FormulaTerm) -> FormulaTerm:
        tail = (1 + (0 - x.abs()).exp()).ln()
        up, down = x.cut(low=0) + tail, (0 - x).cut(low=0) + tail
        return self.b * up - self.a * down + self.c


@dataclass(frozen=True)
class LogLine(MapCurve):
    """a·log s + b·log(1 − s) + c at a probability s cut at `low` from 0 and 1."""

    tag = "log-line"

    a: float
    b: float
    c: float
    low: float

    def __call__(self, x: FloatArray) -> FloatArray:
        inside = np.clip(x, self.low, 1.0 - self.low), np.clip(1.0 - x, self.low, 1.0 - self.low)
        return self.a * np.log(inside[0]) + self.b * np.log(inside[1]) + self.c

    def formula(self, x: FormulaTerm) -> FormulaTerm:
        s, rest = (value.cut(self.low, 1.0 - self.low).ln() for value in (x, 1 - x))
        return self.a * s + self.b * rest + self.c


@dataclass(frozen=True)
class Steps(MapCurve):
    """``values[i]`` from ``starts[i]`` on; the first value also before."""

    tag = "steps"

    starts: FloatArray
    values: FloatArray

    def check(self) -> None:
        require(self.starts.shape == self.values.shape and self.starts.ndim == 1, "Steps", "one value per start")
        require((np.diff(self.starts) > 0).all(), "Steps.starts", "increasing numbers")

    def __call__(self, x: FloatArray) -> FloatArray:
        steps: FloatArray = self.values[locate(self.starts[1:], x)]
        return steps

    def formula(self, x: FormulaTerm) -> FormulaTerm:
        return x.pieces(self.starts[1:].tolist(), self.values[:, None].tolist(), lambda _, value: value)


@dataclass(frozen=True)
class BrokenLine(MapCurve):
    """Straight lines between (knots, values), constant outside."""

    tag = "broken-line"

    knots: FloatArray
    values: FloatArray

    def check(self) -> None:
        require(self.knots.shape == self.values.shape and self.knots.ndim == 1, "BrokenLine", "one value per knot")
        require((np.diff(self.knots) > 0).all(), "BrokenLine.knots", "increasing numbers")

    def __call__(self, x: FloatArray) -> FloatArray:
        if self.knots.size == 1:
            return np.full(x.shape, self.values[0])
        i = locate(self.knots[1:-1], x)
        left, right = self.values[i], self.values[i + 1]
        share = np.clip((x - self.knots[i]) / (self.knots[i + 1] - self.knots[i]), 0.0, 1.0)
        line = left + share * (right - left)
        # rounding may carry a line past its right end, where the next one starts
        return np.clip(line, np.minimum(left, right), np.maximum(left, right))

    def formula(self, x: FormulaTerm) -> FormulaTerm:
        left, right = self.values[:-1], self.values[1:]
        lines = np.column_stack([self.knots[:-1], np.diff(self.knots), left, right - left])
        before, after = ((float(self.knots[i]), 1.0, float(self.values[i]), 0.0) for i in (0, -1))
        return x.pieces(self.knots.tolist(), [before, *lines.tolist(), after], _write_line)


def _write_line(x: FormulaTerm, start: float, width: float, value: float, rise: float) -> FormulaTerm | float:
    """A line by a share of its rise; its slope is infinite between neighbouring floats."""
    return value if isinstance(rise, float) and rise == 0.0 else value + (x - start) / width * rise


@dataclass(frozen=True)
class Cubics(MapCurve):
    """
    Cubic pieces between `breaks`, each by its four Bernstein coefficients; outside, straight on (or constant).

    Coefficients that do not fall make a piece that rises to the last bit (`rising_cubic`).
    """

    tag = "cubics"

    breaks: FloatArray
    coefficients: FloatArray
    tails: str = "linear"

    def check(self) -> None:
        require(
            self.coefficients.shape == (self.breaks.size - 1, 4), "Cubics.coefficients", "four columns, a row per piece"
        )
        require((np.diff(self.breaks) > 0).all(), "Cubics.breaks", "increasing numbers")
        require(self.tails in ("linear", "constant"), "Cubics.tails", "the value linear or constant")

    def __call__(self, x: FloatArray) -> FloatArray:
        i = locate(self.breaks[1:-1], x)
        left, b = self.breaks[i], self.coefficients[i]
        t = np.clip((x - left) / (self.breaks[i + 1] - left), 0.0, 1.0)
        value = rising_cubic(t, *b.T)
        rising = (b[:, 1:] >= b[:, :-1]).all(axis=1)
        value = np.where(rising, np.minimum(value, b[:, 3]), value)
        if self.tails == "linear":
            low, high = self._slopes()
            value = value + low * np.minimum(x - self.breaks[0], 0.0) + high * np.maximum(x - self.breaks[-1], 0.0)
        return value

    def _slopes(self) -> tuple[float, float]:
        """Slopes at the two ends."""
        b, widths = self.coefficients, np.diff(self.breaks)
        return 3.0 * float(b[0, 1] - b[0, 0]) / float(widths[0]), 3.0 * float(b[-1, 3] - b[-1, 2]) / float(widths[-1])

    def formula(self, x: FormulaTerm) -> FormulaTerm:
        b0, b1, b2, b3 = self.coefficients.T
        powers = [3 * (b1 - b0), 3 * (b2 - 2 * b1 + b0), b3 - 3 * b2 + 3 * b1 - b0]
        inner = np.column_stack([self.breaks[:-1], np.diff(self.breaks), b0, *powers])
        low, high = self._slopes() if self.tails == "linear" else (0.0, 0.0)
        before = [float(self.breaks[0]), 1.0, float(b0[0]), low, 0.0, 0.0]
        after = [float(self.breaks[-1]), 1.0, float(b3[-1]), high, 0.0, 0.0]
        return x.pieces(self.breaks.tolist(), [before, *inner.tolist(), after], _write_cubic)


def _write_cubic(
    x: FormulaTerm, start: float, width: float, b0: float, first: float, second: float, third: float
) -> FormulaTerm | float:
    """A cubic piece by its powers; numbers or terms."""
    t = (x - start) / width
    return b0 + t * (first + t * (second + t * third))


@dataclass(frozen=True)
class Sum(MapCurve):
    """The sum of two curves."""

    tag = "sum"

    first: MapCurve
    second: MapCurve

    def check(self) -> None:
        require(isinstance(self.first, MapCurve) and isinstance(self.second, MapCurve), "Sum", "two curves")

    def __call__(self, x: FloatArray) -> FloatArray:
        return self.first(x) + self.second(x)

    def formula(self, x: FormulaTerm) -> FormulaTerm:
        return self.first.formula(x) + self.second.formula(x)


# ── the map ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class BinaryMap(MapPart):
    """
    From a score to P(Y = 1): link⁻¹(curve(chart(score))).

    `clip` cuts at a distance from 0 and 1; `floor` bends smoothly instead, within that distance (`soft_floor`).
    """

    tag = "binary"

    chart: Chart
    curve: MapCurve
    link: str
    clip: float = 0.0
    floor: float = 0.0

    def check(self) -> None:
        require(isinstance(self.chart, Chart) and isinstance(self.curve, MapCurve), "BinaryMap", "a chart and a curve")
        require(self.link in ("identity", "logit"), "BinaryMap.link", "the value identity or logit")
        require(0 <= self.clip < 0.5 and 0 <= self.floor < 0.5, "BinaryMap", "clip and floor from 0 to 1/2")

    def __call__(self, score: FloatArray) -> FloatArray:
        out = np.empty(score.shape)
        for start in range(0, score.shape[0], _BLOCK):
            rows = slice(start, start + _BLOCK)
            value = self.curve(self.chart(score[rows]))
            p = rising_sigmoid(value) if self.link == "logit" else value
            out[rows] = soft_floor(p, self.floor) if self.floor > 0.0 else p
        if self.clip > 0.0:
            np.clip(out, self.clip, 1.0 - self.clip, out=out)
        return out

    def with_floor(self, score: FloatArray, most: float, *, least: float | None = None) -> BinaryMap:
        """
        The same map, bent away from 0 and 1 beyond what the rows it was fitted on support.

        The floor is `most`, 1/(2n), or where fitted values of these rows (the outermost and about a thousand others)
        are nearer to 0 or 1, the nearest of them, but not below its square (or `least`).
        """
        ends = score[[int(score.argmin()), int(score.argmax())]]
        p = self(np.concatenate([ends, score[:: max(1, score.size // 1024)]]))
        nearest = float(np.minimum(p, 1.0 - p).min())
        return replace(self, floor=min(most, max(nearest, most**2 if least is None else least)))

    def formula(self, score: FormulaTerm, *, coordinate: FormulaTerm | None = None) -> FormulaTerm:
        """The map as a formula, without a value where the score is missing or not of its kind."""
        limits = RANGES[self.chart.kind]
        inside = score.guard(*limits)
        x = self.chart.formula(inside) if coordinate is None else coordinate
        steps = self.curve.second if isinstance(self.curve, Sum) and isinstance(self.curve.second, Steps) else None
        if steps is None or coordinate is not None:
            value = self.curve.formula(x.reuse())
        else:  # steps at scores: comparing the coordinate would write it again for each of them
            at = Steps(self.chart.places(steps.starts), steps.values)
            value = self.curve.first.formula(x.reuse()) + at.formula(inside)  # type: ignore[attr-defined]
        if self.link == "logit":
            value = sigmoid(value).cut(high=BELOW_ONE)
        if self.floor > 0.0:
            value = value.reuse()
            low, high = ((1 - p / self.floor).cut(low=0).cube() for p in (value, 1 - value))
            value = value + self.floor / 4 * (low - high)
        if self.clip > 0.0:
            value = value.cut(self.clip, 1.0 - self.clip)
        return score.only_within(*limits, value)
