"""Maps of several classes: softmaxes of log-probabilities, the identity, and a binary map for each class."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from scoreprism._core.arrays import like, multiply, namespace
from scoreprism._core.lazy_laws import clip_block
from scoreprism._core.numerics import BELOW_ONE, center_logs, log_pair, log_softmax
from scoreprism._core.simplex import FloatArray, as_matrix, clip_law
from scoreprism._maps.binary_map import Affine, BetaCurve, BinaryMap, Chart, Cubics, LogLine, MapCurve
from scoreprism._maps.formula import FormulaTerm
from scoreprism._maps.parts import MapPart, require

if TYPE_CHECKING:
    from scoreprism._maps.score_block import ScoreBlock


@dataclass(frozen=True)
class SoftmaxMap(MapPart):
    """softmax(features · weights), the last row of weights being the intercepts, at least `floor` from 0."""

    tag = "softmax"

    kind: str
    features: str
    weights: FloatArray
    low: float
    floor: float

    def check(self) -> None:
        require(self.features in FEATURES, "SoftmaxMap.features", f"one of the values {', '.join(FEATURES)}")
        require(
            self.weights.ndim == 2 and 0 <= self.floor < 0.5, "SoftmaxMap", "a table of weights and a floor below 1/2"
        )

    def shape(self, k: int) -> tuple[int, int]:
        """The shape of the weights for `k` classes."""
        return 1 + k + (k * (k + 1) // 2 if self.features == "squares" else 0), k

    def __call__(self, score: FloatArray) -> FloatArray:
        z = FEATURES[self.features](log_law(score, self.kind, self.low))
        law = np.exp(log_softmax(z @ self.weights[:-1] + self.weights[-1]))
        law = np.minimum(clip_law(law, self.floor), BELOW_ONE) if self.floor > 0.0 else law
        return law[:, 1].copy() if score.ndim == 1 else law

    @cached_property
    def _slopes(self) -> FloatArray | None:
        """The diagonal of the weights, where there is nothing else but intercepts."""
        square = self.weights[:-1]
        if square.shape[0] != square.shape[1] or np.count_nonzero(square) > np.count_nonzero(np.diag(square)):
            return None
        return np.diag(square).copy()

    def at_block(self, block: ScoreBlock) -> Any:
        """The law on a block of rows, where the scores live."""
        z = block.logs(self.low) if self.features == "log" else block.centered(self.low)
        if self._slopes is not None:
            eta = z * like(self._slopes, z, z.dtype)[None, :]
        elif self.features == "squares":
            eta = multiply(multiply_squares(z), like(self.weights[:-1], z, z.dtype))
        else:
            eta = multiply(z, like(self.weights[:-1], z, z.dtype))
        return floor_softmax(eta + like(self.weights[-1], z, z.dtype)[None, :], self.floor)

    def formula(self, score: FormulaTerm) -> FormulaTerm:
        """Two classes: the difference of the two lines, as a map of one score."""
        slopes = self.weights[:, 1] - self.weights[:, 0]
        if self.features == "log" and self.kind == "probability":
            line = LogLine(slopes[1], slopes[0], slopes[-1], self.low)
            return BinaryMap(Chart(self.kind, "probability"), line, "logit", clip=self.floor).formula(score)
        if self.features == "log":
            curve: MapCurve = BetaCurve(slopes[1], -slopes[0], slopes[-1])
        else:  # both centred log-probabilities are half the logit, one with a minus
            bend = (slopes[2] - slopes[3] + slopes[4]) / (4.0 * _FARTHEST) if self.features == "squares" else 0.0
            curve = _make_parabola(bend, 0.5 * (slopes[1] - slopes[0]), slopes[-1], cut=self.features == "squares")
        map_ = BinaryMap(Chart(self.kind, "logit"), curve, "logit", clip=self.floor)
        if self.kind == "logit":
            return map_.formula(score)
        cut = LogLine(1.0, -1.0, 0.0, self.low).formula(score)  # the logit, cut as the fit cut it
        return map_.formula(score, coordinate=cut)


def _make_parabola(bend: float, slope: float, intercept: float, *, cut: bool) -> MapCurve:
    """bend·x² + slope·x + intercept, constant beyond ±2·`_FARTHEST` if it is cut there."""
    if not cut:
        return Affine(slope, intercept)
    end = 2.0 * _FARTHEST
    first, last = ((bend * x + slope) * x + intercept for x in (-end, end))
    third = 2.0 * end / 3.0
    inner = first + third * (slope - 2.0 * bend * end), last - third * (slope + 2.0 * bend * end)
    return Cubics(np.array([-end, end]), np.array([[first, *inner, last]]), "constant")


def floor_softmax(eta: Any, floor: float) -> Any:
    """The softmax of each row of an array of any library, none below `floor`."""
    xp = namespace(eta)
    eta -= xp.max(eta, axis=1, keepdims=True)
    law = np.exp(eta, out=eta) if xp is np else xp.exp(eta)
    law /= xp.sum(law, axis=1, keepdims=True)
    return clip_block(law, floor) if floor > 0.0 else law


def multiply_squares(z: Any) -> Any:
    """As `squares`, of centred log-probabilities in an array of any library."""
    xp = namespace(z)
    z = xp.clip(z, -_FARTHEST, _FARTHEST)
    first, second = (like(side.astype(np.int64), z) for side in np.triu_indices(z.shape[1]))
    return xp.concat([z, xp.take(z, first, axis=1) * xp.take(z, second, axis=1) / _FARTHEST], axis=1)


def squares(logs: FloatArray) -> FloatArray:
    """Centred log-probabilities, their squares and products."""
    z = np.clip(center_logs(logs), -_FARTHEST, _FARTHEST)
    first, second = np.triu_indices(z.shape[1])
    return np.column_stack([z, z[:, first] * z[:, second] / _FARTHEST])


#: Log-ratios beyond this are cut before they are squared.
_FARTHEST = 10.0
#: Features that a softmax map may take from log-probabilities.
FEATURES = {"centered": center_logs, "log": lambda logs: logs, "squares": squares}


def log_law(score: FloatArray, kind: str, low: float) -> FloatArray:
    """Log-probabilities of all classes, finite: probabilities below `low` count as `low`."""
    if score.ndim == 2:
        return log_softmax(score) if kind == "logit" else np.log(np.maximum(score, low))
    if kind == "probability":
        return np.log(np.clip(as_matrix(score), low, 1.0 - low))
    return np.column_stack([-log_pair(score)[1], log_pair(score)[0]])


@dataclass(frozen=True)
class Same(MapPart):
    """The identity, with rows divided by their sum."""

    tag = "same"

    kind: str

    def __call__(self, score: FloatArray) -> FloatArray:
        law: FloatArray = score / score.sum(axis=1, keepdims=True)
        return law


@dataclass(frozen=True)
class Tempered(MapPart):
    """softmax(sharpness · log p), probabilities below `low` counted as `low`, and no result below `floor`."""

    tag = "tempered"

    kind: str
    sharpness: float
    low: float
    floor: float

    def check(self) -> None:
        require(self.sharpness > 0, "Tempered.sharpness", "a positive value")
        require(0 <= self.floor < 0.5, "Tempered.floor", "a value from 0 to 1/2")

    def __call__(self, score: FloatArray) -> FloatArray:
        law = np.exp(log_softmax(self.sharpness * log_law(score, self.kind, self.low)))
        return np.minimum(clip_law(law, self.floor), BELOW_ONE) if self.floor > 0.0 else law

    def at_block(self, block: ScoreBlock) -> Any:
        """The law on a block of rows, where the scores live."""
        return floor_softmax(self.sharpness * block.centered(self.low), self.floor)


@dataclass(frozen=True)
class OneVsRestMap(MapPart):
    """Binary maps of the columns, divided by their sum."""

    tag = "one-vs-rest"

    kind: str
    maps: tuple[MapPart, ...]

    def check(self) -> None:
        good = len(self.maps) > 2 and all(isinstance(m, MapPart) for m in self.maps)
        require(good, "OneVsRestMap.maps", "a map per class")

    def __call__(self, score: FloatArray) -> FloatArray:
        law = np.exp(log_softmax(score)) if self.kind == "logit" else score
        columns = [m(np.ascontiguousarray(law[:, j])) for j, m in enumerate(self.maps)]
        joined = np.column_stack(columns)
        total = joined.sum(axis=1, keepdims=True)
        law_of_all: FloatArray = np.full_like(joined, 1.0 / joined.shape[1])
        np.divide(joined, total, out=law_of_all, where=total > 0.0)
        return law_of_all
