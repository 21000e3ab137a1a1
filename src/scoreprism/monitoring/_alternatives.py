"""What a calibrated score is weighed against: maps that move the log-odds of bins of the score, with a fixed prior."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from scoreprism._core.simplex import FloatArray, IntArray

#: Bins of equal mass, of the scores that a monitor sees first.
BINS = 64
#: Scores are kept this far from 0 and 1: an event at the score 0 is evidence, but not more than that.
FLOOR = 1e-6
#: Cells between 0 and 1 that the ends of bins lie between, so that sums by cell fit into bins (`scale` has as many).
GRID = 1024
#: Share of the prior for lines in the log-odds, for moves of one stretch of scores, and for context trees.
LINES, STRETCHES, TREES = 0.45, 0.45, 0.10
#: Directions of a line in the plane of shift and slope; half of the prior is on pure shifts and pure slopes.
_DIRECTIONS, _PURE = 16, 0.5
#: Width of a stretch and step between stretches, in 64ths of the rows.
_WIDTHS = ((12, 4), (3, 1), (2, 1))
#: The smallest move is one that this many periods show, at so much evidence (in nats); moves double up to the largest.
_PERIODS, _SHOWN, _LARGEST, _MOST_MOVES = 30, 9.0, 2.0, 16
#: Moves of a bin in a context tree.
TREE_MOVES = np.array([-1.6, -0.8, -0.4, -0.2, -0.1, 0.1, 0.2, 0.4, 0.8, 1.6])
#: Lines are cut at this many log-odds.
_FARTHEST = 4.0


def find_grid_cells(score: FloatArray, cells: int = GRID) -> IntArray:
    """The cell of each score between 0 and 1: the cells of `scale`, equal steps of √s, mirrored above one half."""
    low = score < 0.5
    steps = np.ceil(np.sqrt(2.0 * np.where(low, score, 1.0 - score)) * (cells / 2)).astype(np.intp)
    return np.asarray(np.where(low, steps, cells + 1 - steps))


def _double(least: float) -> FloatArray:
    """Moves from the least to the largest, each twice the one before; two at least."""
    count = int(np.clip(np.floor(np.log2(_LARGEST / least)) + 1, 2, _MOST_MOVES))
    return np.asarray(_LARGEST * 2.0 ** -np.arange(count, dtype=np.float64)[::-1])


@dataclass(frozen=True, eq=False)
class Alternatives:
    """
    Maps that recalibrate a score, ``logit C = logit S + move`` with one move for each bin, and their prior weights.

    They are fixed by the scores that a monitor sees first, without their outcomes, and by nothing else.

    Attributes
    ----------
    ends : array of shape (G − 1,)
        The last cell of each bin but the last.
    center, spread : float
        Mean and standard deviation of the logit of these scores.
    place : array of shape (G,)
        Mean logit of the scores in each bin, standardised.
    information : float
        Σ s(1 − s) of one period: how much it tells of a common shift.
    """

    ends: IntArray
    center: float
    spread: float
    place: FloatArray
    information: float

    @classmethod
    def of(cls, score: FloatArray, weight: FloatArray | None = None) -> Alternatives:
        """Bins and moves that suit these scores."""
        mass = np.ones(score.size) if weight is None else weight
        order = np.argsort(score, kind="stable")
        cell, held = find_grid_cells(score[order]), np.cumsum(mass[order])
        targets = held[-1] * np.arange(1, BINS) / BINS
        ends = np.unique(cell[np.minimum(np.searchsorted(held, targets * (1.0 - 1e-12)), cell.size - 1)])
        ends = ends[ends < cell[-1]]
        x = clipped_logit(score)
        center = float(np.average(x, weights=mass))
        spread = float(np.sqrt(np.average((x - center) ** 2, weights=mass))) or 1.0
        home = np.searchsorted(ends, find_grid_cells(score))
        total = np.bincount(home, mass, ends.size + 1)
        place = (np.bincount(home, mass * x, ends.size + 1) / total - center) / spread
        return cls(ends.astype(np.intp), center, spread, place, float(mass @ (score * (1.0 - score))))

    @property
    def bins(self) -> int:
        """Number of bins."""
        return self.place.size

    def find_bins(self, cell: IntArray) -> IntArray:
        """The bin of each cell."""
        return np.asarray(np.searchsorted(self.ends, cell))

    @cached_property
    def least_move(self) -> float:
        """The smallest common shift that is looked for."""
        return float(np.sqrt(2.0 * _SHOWN / (_PERIODS * max(self.information, 1e-12))))

    @cached_property
    def lines(self) -> tuple[FloatArray, FloatArray]:
        """Shift and slope (per standard deviation of the logit) of each line, (L, 2), and their prior weights."""
        angle = 2.0 * np.pi * np.arange(_DIRECTIONS) / _DIRECTIONS
        share = np.full(_DIRECTIONS, (1.0 - _PURE) / (_DIRECTIONS - 4))
        share[:: _DIRECTIONS // 4] = _PURE / 4.0
        size = _double(min(self.least_move, 0.5 * _LARGEST))
        pairs = size[:, None, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        weights = np.broadcast_to(share / size.size, (size.size, _DIRECTIONS))
        return pairs.reshape(-1, 2), LINES * weights.ravel()

    @cached_property
    def line_moves(self) -> FloatArray:
        """Moves of the bins under each line, (L, G)."""
        pairs, _ = self.lines
        return np.clip(pairs[:, :1] + pairs[:, 1:] * self.place, -_FARTHEST, _FARTHEST)

    @cached_property
    def stretches(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """First and last bin (exclusive) of each stretch that may move, (M, 2), its move, and the prior weights."""
        where, moves, weights = [], [], []
        for width, step in _WIDTHS:
            wide = max(1, round(width * self.bins / BINS))
            starts = np.arange(0, self.bins - wide + 1, step)
            size = _double(min(self.least_move / np.sqrt(wide / self.bins), 0.5 * _LARGEST))
            signed = np.concatenate([-size, size])
            where.append(np.repeat(np.stack([starts, starts + wide], axis=1), signed.size, axis=0))
            moves.append(np.tile(signed, starts.size))
            count = starts.size * signed.size
            weights.append(np.full(count, STRETCHES / (len(_WIDTHS) * count)))
        return np.concatenate(where), np.concatenate(moves), np.concatenate(weights)

    @cached_property
    def prior(self) -> FloatArray:
        """Prior weights of lines, then of stretches."""
        return np.concatenate([self.lines[1], self.stretches[2]])

    @cached_property
    def moves(self) -> FloatArray:
        """Moves of the bins under each line and each stretch, (J, G)."""
        where, size, _ = self.stretches
        bins = np.arange(self.bins)
        inside = (bins >= where[:, :1]) & (bins < where[:, 1:])
        return np.concatenate([self.line_moves, np.where(inside, size[:, None], 0.0)])

    def to_dict(self) -> dict[str, Any]:
        """What they follow from."""
        return {
            "ends": self.ends.tolist(),
            "center": self.center,
            "spread": self.spread,
            "place": self.place.tolist(),
            "information": self.information,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Alternatives:
        """Read what `to_dict` gave."""
        ends, place = np.array(data["ends"], dtype=np.intp), np.array(data["place"], dtype=np.float64)
        numbers = np.array([data["center"], data["spread"], data["information"]], dtype=np.float64)
        good = place.size == ends.size + 1 and (np.diff(ends) > 0).all() and np.isfinite([*place, *numbers]).all()
        if not good or numbers[1] <= 0.0 or numbers[2] < 0.0:
            raise ValueError("bins that no scores can have given")
        return cls(ends, float(numbers[0]), float(numbers[1]), place, float(numbers[2]))


def clipped_logit(score: FloatArray) -> FloatArray:
    """The logit of scores, kept `FLOOR` from 0 and 1."""
    inside = np.clip(score, FLOOR, 1.0 - FLOOR)
    return np.asarray(np.log(inside) - np.log1p(-inside))
