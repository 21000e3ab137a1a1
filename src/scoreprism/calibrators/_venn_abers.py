"""Venn–Abers prediction: two isotonic fits per score, one with each outcome added, all from one pass."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from scoreprism._core.checks import refuse
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray
from scoreprism._kernels.isotonic import isotonic_blocks, pool_ties
from scoreprism._maps.binary_map import BinaryMap, Chart, Steps
from scoreprism._maps.formula import FormulaTerm
from scoreprism._maps.parts import Map, MapPart, Part, require
from scoreprism._sample.fit_rows import FitRows
from scoreprism._sample.folds import make_folds
from scoreprism.calibrators._calibrator import Calibrator, one_of, rules, with_parameters

#: Weights that differ by more than this factor are handled one place at a time, for up to so many different scores.
_SPAN, _MOST = 1e8, 4000


class _Bridges(NamedTuple):
    """For some places: where they are, and the value and the two ends of their bridge."""

    place: IntArray
    value: FloatArray
    left: IntArray
    right: IntArray


def venn_abers_values(weight: FloatArray, events: FloatArray) -> tuple[FloatArray, FloatArray]:
    """
    p₀ and p₁ for every place a new score can take among m different ones: 2m + 1 values each.

    Place 2i lies between the i-th score and the next, place 2i − 1 is a tie with the i-th. p₁ is the isotonic fit at a
    new event of weight 1. With P_i the cumulated weight and events, it is the slope of the bridge, the common lower
    tangent, between the points up to the place and those after it moved by (1, 1). Slopes and both ends of the bridge
    move one way as the place does, so places are solved coarse to fine, all of a level at once, between the bridges
    of their neighbours. p₀ is the same with scores and outcomes turned around, solved along with it.
    """
    last = 2 * weight.size
    path = _Path.of([(weight, events), (weight[::-1], (weight - events)[::-1])])
    whole = np.array([0, last, last + 1, 2 * last + 1])
    known = path.solve(whole, np.zeros(4), np.ones(4), path.begin(whole), path.end(whole))
    stride = 1 << max(last - 1, 1).bit_length()
    while stride > 1:
        stride //= 2
        place = np.arange(stride, last, 2 * stride)
        place = np.concatenate([place, place + last + 1])
        high = np.searchsorted(known.place, place)
        low = high - 1
        new = _Bridges(place, known.value[low], known.left[low], known.right[high])
        open_ = np.flatnonzero(known.value[low] != known.value[high])
        if open_.size:
            a, b = low[open_], high[open_]
            limits = known.left[a], known.right[b], known.right[a], known.left[b]
            solved = path.solve(place[open_], known.value[a], known.value[b], *limits)
            for column, values in zip(new[1:], solved[1:], strict=True):
                column[open_] = values
        known = _merge(known, new)
    return 1.0 - known.value[last + 1 :][::-1], known.value[: last + 1]


def _merge(known: _Bridges, new: _Bridges) -> _Bridges:
    """Bridges of old and new places in order."""
    order = np.argsort(np.concatenate([known.place, new.place]), kind="stable")
    return _Bridges(*(np.concatenate(pair)[order] for pair in zip(known, new, strict=True)))


class _Path(NamedTuple):
    """Cumulated weight and events of several paths of m steps laid end to end, and the corners where they turn up."""

    w: FloatArray
    k: FloatArray
    corner: IntArray
    m: int

    @staticmethod
    def of(steps: list[tuple[FloatArray, FloatArray]]) -> _Path:
        """Paths of the same number of steps."""
        m = steps[0][0].size
        w, k = (np.concatenate([np.concatenate([[0.0], np.cumsum(s[i])]) for s in steps]) for i in (0, 1))
        # between 0 and 1, K − vW has its least value at a corner where the path turns up, or at an end of the range
        corners = []
        for number, (weight, events) in enumerate(steps):
            slope = events / weight
            inner = np.flatnonzero(slope[1:] > slope[:-1]) + 1
            corners.append(np.concatenate([[0], inner, [m]]) + number * (m + 1))
        return _Path(w, k, np.concatenate(corners), m)

    def begin(self, place: IntArray) -> IntArray:
        """First point of the path a place belongs to."""
        return place // (2 * self.m + 1) * (self.m + 1)

    def end(self, place: IntArray) -> IntArray:
        """Last point of that path."""
        return self.begin(place) + self.m

    def solve(
        self,
        place: IntArray,
        low: FloatArray,
        high: FloatArray,
        left_from: IntArray,
        right_to: IntArray,
        right_from: IntArray | None = None,
        left_to: IntArray | None = None,
    ) -> _Bridges:
        """Bridges at places whose values lie between `low` and `high`: Newton on the gap of intercepts, bracketed."""
        local = place % (2 * self.m + 1)
        split_left, split_right = self.begin(place) + local // 2, self.begin(place) + (local + 1) // 2
        to = split_left if left_to is None else np.minimum(split_left, left_to)
        from_ = split_right if right_from is None else np.maximum(split_right, right_from)
        left = _Windows.of(self, left_from, to, split_left)
        right = _Windows.of(self, from_, right_to, split_right)
        value = low
        for step in range(100):
            a, b = left.lowest(self, value), right.lowest(self, value)
            newton = (self.k[b] + 1.0 - self.k[a]) / (self.w[b] + 1.0 - self.w[a])
            open_ = np.flatnonzero(np.abs(newton - value) > 1e-14)
            if open_.size == 0:
                break
            low, high = np.where(newton >= value, value, low), np.where(newton <= value, value, high)
            inside = (newton >= low - 1e-14) & (newton <= high + 1e-14)
            value = np.where(inside, newton, 0.5 * (low + high))
            if step > 2 and 2 * open_.size < place.size:  # go on with the few that need it
                limits = (limit[open_] for limit in (left_from, right_to, from_, to))
                solved = self.solve(place[open_], low[open_], high[open_], *limits)
                newton[open_], a[open_], b[open_] = solved[1:]
                break
        return _Bridges(place, newton, a, b)


class _Windows(NamedTuple):
    """For each place the corners it may use and the point at the place itself, laid end to end."""

    points: IntArray
    start: IntArray
    owner: IntArray

    @staticmethod
    def of(path: _Path, first: IntArray, last: IntArray, own: IntArray) -> _Windows:
        """Corners between `first` and `last`, and the place's own point."""
        begin = np.searchsorted(path.corner, first, side="left")
        size = np.maximum(np.searchsorted(path.corner, last, side="right") - begin, 0) + 1
        start = np.concatenate([[0], np.cumsum(size)[:-1]])
        owner = np.repeat(np.arange(first.size), size)
        at = np.arange(int(size.sum())) - start[owner]
        points = path.corner[np.minimum(begin[owner] + at, path.corner.size - 1)]
        points[start + size - 1] = own
        return _Windows(points, start, owner)

    def lowest(self, path: _Path, value: FloatArray) -> IntArray:
        """The point of each window with the least K − vW."""
        height = path.k[self.points] - value[self.owner] * path.w[self.points]
        least = np.minimum.reduceat(height, self.start)
        hits = np.flatnonzero(height == least[self.owner])[::-1]
        lowest = np.empty(self.start.size, dtype=np.intp)
        lowest[self.owner[hits]] = self.points[hits]
        return lowest


@dataclass(frozen=True)
class VennAbersSums(Part):
    """Different scores of one calibration set in increasing order, with weight and events."""

    tag = "venn-abers-sums"

    score: FloatArray
    weight: FloatArray
    events: FloatArray

    def check(self) -> None:
        require(
            self.score.shape == self.weight.shape == self.events.shape, "VennAbersSums", "three lists of one length"
        )
        require((np.diff(self.score) > 0).all(), "VennAbersSums.score", "increasing numbers")
        good = (self.weight > 0) & (self.events >= 0) & (self.events <= self.weight)
        require(good.all(), "VennAbersSums", "positive weights with events between 0 and the weight")

    @cached_property
    def bounds(self) -> tuple[Steps, Steps]:
        """p₀ and p₁ as functions of the score: the fits with a non-event and with an event added."""
        even = self.weight.max() <= _SPAN * self.weight.min()
        lower, upper = (venn_abers_values if even else _fit_one_by_one)(self.weight, self.events)
        lower, upper = np.clip(lower, 0.0, 1.0), np.clip(upper, 0.0, 1.0)
        starts = np.column_stack([self.score, np.nextafter(self.score, np.inf)]).ravel()
        starts = np.concatenate([[self.score[0] - 1.0], starts])
        keep = np.append(np.diff(starts) > 0.0, True)  # no room between neighbouring floats
        return _compress(starts[keep], lower[keep]), _compress(starts[keep], upper[keep])


def _fit_one_by_one(weight: FloatArray, events: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The same values by an isotonic fit for every place: for weights that cumulated sums cannot hold side by side."""
    m = weight.size
    values = np.empty((2, 2 * m + 1))
    for place in range(2 * m + 1):
        at, tie = (place + 1) // 2, place % 2
        for outcome in (0.0, 1.0):
            if tie:
                w, k = weight.copy(), events.copy()
                w[at - 1], k[at - 1] = w[at - 1] + 1.0, k[at - 1] + outcome
                own = at - 1
            else:
                w, k, own = np.insert(weight, at, 1.0), np.insert(events, at, outcome), at
            blocks = isotonic_blocks(w, k)
            values[int(outcome), place] = blocks.value[np.searchsorted(blocks.start, own, side="right") - 1]
    return values[0], values[1]


def _compress(starts: FloatArray, values: FloatArray) -> Steps:
    """Steps without those that do not step."""
    values = np.maximum.accumulate(values)
    keep = np.concatenate([[True], np.diff(values) > 0.0])
    return Steps(starts[keep], values[keep])


@dataclass(frozen=True)
class VennAbersMap(MapPart):
    """The merged probability of one inductive predictor, or of several on parts of the data (cross Venn–Abers)."""

    tag = "venn-abers"

    chart: Chart
    folds: tuple[VennAbersSums, ...]
    merge: str

    def interval(self, score: FloatArray) -> tuple[FloatArray, FloatArray]:
        """p₀ and p₁; over several parts, geometric means of 1 − p₀ and p₁ (Vovk, Petej & Fedorova 2015)."""
        pairs = [(low(score), high(score)) for low, high in (fold.bounds for fold in self.folds)]
        if len(pairs) == 1:
            return pairs[0]
        lows, highs = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
        if self.merge == "brier":
            return lows.mean(axis=0), highs.mean(axis=0)
        return 1.0 - np.exp(np.log1p(-lows).mean(axis=0)), np.exp(np.log(highs).mean(axis=0))

    @cached_property
    def merged(self) -> BinaryMap:
        """The merged probability, a step function that does not fall."""
        starts = np.unique(np.concatenate([steps.starts for fold in self.folds for steps in fold.bounds]))
        pairs = [(low(starts), high(starts)) for low, high in (fold.bounds for fold in self.folds)]
        if self.merge == "brier":
            value = np.mean([high + 0.5 * (low**2 - high**2) for low, high in pairs], axis=0)
        else:
            low, high = self.interval(starts)
            value = high / (1.0 - low + high)
        return BinaryMap(self.chart, _compress(starts, value), "identity")

    def __call__(self, score: FloatArray) -> FloatArray:
        return self.merged(score)

    def formula(self, score: FormulaTerm) -> FormulaTerm:
        """The merged probability as one choice among all steps."""
        return self.merged.formula(score)


@with_parameters
class VennAbersCalibrator(Calibrator):
    """
    Inductive or cross Venn–Abers prediction (Vovk & Petej 2014; Vovk, Petej & Fedorova 2015).

    For a new score, isotonic regression is fitted with the score added once as a non-event and once as an event; the
    two fitted values p₀ ≤ p₁ are a probability interval that is calibrated in finite samples under exchangeability
    alone. The guarantee belongs to the interval; `predict_proba` merges it into one number.

    Parameters
    ----------
    cv : int, splitter or iterable, optional
        None is inductive: one predictor from all rows. A number K is cross: the rows are split at random, one
        predictor is made from each part, and they are merged by geometric means. Scores must be out of sample.
    merge : {"log", "brier"}, default="log"
        p₁/(1 − p₀ + p₁), minimax for the log loss, or p₁ + (p₀² − p₁²)/2, for the Brier loss.
    random_state : int, Generator or None, default=0
        Seed of the split.
    kind : {"probability", "logit"}, default="probability"
        What scores are; only their order matters.

    Notes
    -----
    Merged probabilities are at least about 1/(n + 2) from 0 and 1. p₀, p₁ and the merged value are nondecreasing in
    the score. The steps are worked out when they are first asked for, not in `fit`.

    Examples
    --------
    >>> from scoreprism.calibrators import VennAbersCalibrator
    >>> va = VennAbersCalibrator().fit([0.1, 0.3, 0.6, 0.9], [0, 0, 1, 1])
    >>> va.predict_interval([0.5]).round(3)
    array([[0., 1.]])
    >>> va.calibrate([0.1, 0.5, 0.9]).round(3)
    array([0.25, 0.5 , 0.75])
    """

    cv: Any = None
    merge: str = "log"
    random_state: object = 0
    kind: str = "probability"

    name = "venn-abers"
    monotone = True
    _rules = rules(merge=one_of("log", "brier"))

    @property
    def _deals_rows(self) -> bool:
        return self.cv is not None

    def _fit(self, data: FitRows) -> Map:
        parts = [data]
        if self.cv is not None:
            folds = make_folds(self.cv, data, self.random_state)
            parts = [data.part(test) for _, test in folds]
        sums = [pool_ties(part.score, part.y, part.weight) for part in parts]
        for pooled in sums:
            span = float(pooled.weight.max() / pooled.weight.min())
            if span > _SPAN and pooled.weight.size > _MOST:
                refuse(
                    f"weights of more than {_MOST} different scores must not differ by more than a factor of {_SPAN:g}",
                    f"a factor of {span:.2g}",
                    "Drop rows of negligible weight.",
                )
        return VennAbersMap(data.chart("score"), tuple(VennAbersSums(*s) for s in sums), self.merge)

    def predict_interval(self, scores: ArrayLike) -> FloatArray:
        """
        The two fitted values for each score.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1) or (n, 2)
            Scores.

        Returns
        -------
        array of shape (n, 2)
            The values p₀ and p₁, bounds on the probability of ``classes_[1]``.
        """
        fitted = self._fitted
        return np.column_stack(fitted.interval(self._score(self._read(scores, reset=False), 2)))
