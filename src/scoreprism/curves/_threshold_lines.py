"""Means over rows as exact, piecewise linear functions of the decision threshold, of arrays and of fitted levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from scoreprism._core.simplex import FloatArray, IntArray, as_vector
from scoreprism._fitting.fitted_laws import CellFits, LevelFits
from scoreprism._kernels.isotonic import run_starts
from scoreprism._sample.level import Level
from scoreprism.decomposition import Chain
from scoreprism.losses import ProperLoss


@dataclass(frozen=True)
class ThresholdLine:
    r"""
    A function of θ in [0, 1] that is :math:`u_j(1-\theta) + v_j\theta` on :math:`[t_j, t_{j+1})`.

    Means of elementary losses, divergences and entropies are of this kind: they jump and bend at the laws and nowhere
    else. :math:`u` is summed from the left and :math:`v` from the right, so that each is exactly zero where it
    must be: :math:`u` before the first law, :math:`v` after the last. Log loss has infinite weight at 0 and 1.
    """

    at: FloatArray  # (m,): where it may jump or bend, ascending; the first is 0
    u: FloatArray  # (m,): coefficients of 1 − θ from there to the next point
    v: FloatArray  # (m,): coefficients of θ

    def __call__(self, theta: FloatArray) -> FloatArray:
        """Values at thresholds; where it jumps, the value after the jump (a prediction equal to θ is below it)."""
        j = np.searchsorted(self.at, theta, side="right") - 1
        return self.u[j] * (1.0 - theta) + self.v[j] * theta

    def before(self, theta: FloatArray) -> FloatArray:
        """Limits from the left; at 0 the value itself."""
        j = np.maximum(np.searchsorted(self.at, theta, side="left") - 1, 0)
        return self.u[j] * (1.0 - theta) + self.v[j] * theta

    def integrate(self, loss: ProperLoss) -> float:
        r"""
        The integral over θ with the weight of a loss.

        :math:`\int_a^b (1-c)w = \ell(a,1)-\ell(b,1)` and :math:`\int_a^b c\,w = \ell(b,0)-\ell(a,0)`: exact for every
        loss of two classes, without quadrature.
        """
        ends = np.append(self.at, 1.0)
        miss = loss.loss(ends, np.ones(ends.shape[0], dtype=np.intp))
        alarm = loss.loss(ends, np.zeros(ends.shape[0], dtype=np.intp))
        with np.errstate(invalid="ignore"):
            left = np.where(self.u == 0.0, 0.0, self.u * (miss[:-1] - miss[1:]))
            right = np.where(self.v == 0.0, 0.0, self.v * (alarm[1:] - alarm[:-1]))
        return float(left.sum() + right.sum())


#: The line that is 0 everywhere.
ZERO_LINE = ThresholdLine(np.zeros(1), np.zeros(1), np.zeros(1))


def pool_rows(at: FloatArray, *columns: FloatArray) -> tuple[FloatArray, list[FloatArray]]:
    """
    Sums of columns over equal points.

    A 16-bit radix sort comes first, so that the merge sort finds nearly everything in place; both take a third of
    the time of an argsort.
    """
    order = (at * 65535.0).astype(np.uint16).argsort(kind="stable")
    order = order.take(at.take(order).argsort(kind="stable"))
    ranked = at.take(order)
    first = run_starts(ranked)
    return ranked.take(first), [np.add.reduceat(column.take(order), first) for column in columns]


def sum_lines(points: FloatArray, du: FloatArray, dv: FloatArray) -> ThresholdLine:
    """The line whose coefficients change by `du` from each point on and by `dv` up to it."""
    u = np.cumsum(du)
    v = np.cumsum(dv[::-1])[::-1]
    after = np.append(v[1:], 0.0)
    if points[0] > 0.0:
        return ThresholdLine(np.append(0.0, points), np.append(0.0, u), np.append(v[0], after))
    return ThresholdLine(points, u, after)


def mean_losses(p: FloatArray, y: IntArray | FloatArray, share: FloatArray) -> ThresholdLine:
    """
    Σ share · ℓ_θ(p, y): (1 − θ) where p ≤ θ and y = 1, θ where p > θ and y = 0.

    With y = p it is the mean entropy Σ share · ℰ_θ(p): the smaller of θ(1 − p) and (1 − θ)p.
    """
    points, (du, dv) = pool_rows(p, share * y, share * (1 - y))
    return sum_lines(points, du, dv)


def mean_divergences(p: FloatArray, q: FloatArray, share: FloatArray) -> ThresholdLine:
    """Σ share · d_θ(p, q): |q − θ| where θ lies between p and q."""
    return mean_spreads(p[None], q, share)


def mean_spreads(p: FloatArray, q: FloatArray, share: FloatArray) -> ThresholdLine:
    """Σ share · Σ_k d_θ(p_k, q): several predictions per row, judged against the same law."""
    moved = p != q  # equal pairs add nothing, so they need not be sorted
    times = moved.sum(axis=0)
    ends = np.flatnonzero(times)
    if not ends.size:
        return ZERO_LINE
    rows = np.nonzero(moved)[1]
    up, down, back = share * q, share * (1.0 - q), -times[ends]
    points, (du, dv) = pool_rows(
        np.concatenate([p[moved], q[ends]]),
        np.concatenate([up[rows], back * up[ends]]),
        np.concatenate([down[rows], back * down[ends]]),
    )
    return sum_lines(points, du, dv)


# ── lines of fitted levels ────────────────────────────────────────────────────────────────────────


class WeightedLaws(NamedTuple):
    """Laws, outcomes and shares whose weighted mean loss is that of a level."""

    law: FloatArray
    y: IntArray
    share: FloatArray

    @staticmethod
    def concatenate(parts: list[WeightedLaws]) -> WeightedLaws:
        """Concatenate several."""
        return WeightedLaws(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def level_lines(chain: Chain, share: FloatArray) -> list[ThresholdLine]:
    """Mean loss of every level."""
    return [mean_losses(*_weigh_level(level, chain.sample.y, share)) for level in chain.levels]


def _weigh_level(level: Level, y: IntArray, share: FloatArray) -> WeightedLaws:
    """A level as laws and shares; a level above C is C plus its gain over C in the partitions it was fitted in."""
    fit = level.fits
    if fit is None:
        return WeightedLaws(as_vector(level.law), y, share)
    if not isinstance(fit, LevelFits):
        return _weigh_score_level(fit, y, share)
    parts = [_weigh_score_level(fit.base, y, share)]
    for part, below in zip(fit.parts, fit.below, strict=True):
        parts.append(WeightedLaws(as_vector(part.law), y, share / len(fit.parts)))
        parts.append(WeightedLaws(as_vector(below), y, -share / len(fit.parts)))
    return WeightedLaws.concatenate(parts)


def _weigh_score_level(fit: Any, y: IntArray, share: FloatArray) -> WeightedLaws:
    if isinstance(fit, CellFits):
        law = np.broadcast_to(fit.law[:, :, None], fit.mass.shape)
        outcome = np.broadcast_to(np.arange(2)[:, None], fit.mass.shape)
        return WeightedLaws(law.ravel(), outcome.ravel(), fit.mass.ravel() / float(fit.mass.sum()))
    return WeightedLaws.concatenate(
        [WeightedLaws(as_vector(part.law), y, share / len(fit.parts)) for part in fit.parts]
    )


def spread_line(level: Level, share: FloatArray) -> ThresholdLine:
    """Mean of ``factor · Σ_k d_θ(fold law k, mean of the fold laws)`` over the partitions of a level."""
    fit = level.fits
    if isinstance(fit, CellFits):
        folds = np.moveaxis(fit.damped, 1, 0).reshape(fit.damped.shape[1], -1)
        mass = fit.mass.sum(axis=(1, 2)).ravel()
        return mean_spreads(folds, folds.mean(axis=0), mass / float(mass.sum()))
    if fit is not None:
        parts = [(np.stack([as_vector(fold) for fold in part.folds]), part.factor) for part in fit.parts]
        folds = np.concatenate([part for part, _ in parts], axis=1)
        shares = np.concatenate([factor / len(parts) * share for _, factor in parts])
        return mean_spreads(folds, folds.mean(axis=0), shares)
    if level.folds is None:
        return ZERO_LINE
    flat = np.stack([as_vector(fold) for fold in level.folds])
    return mean_spreads(flat, flat.mean(axis=0), level.factor * share)


def divergence_lines(chain: Chain, share: FloatArray) -> list[ThresholdLine]:
    """Mean of d_θ(P_t, P_{t+1}) for every step, and the mean entropy of the last level."""
    fits, laws = [level.fits for level in chain.levels], [as_vector(level.law) for level in chain.levels]
    lines = []
    for t in range(len(laws) - 1):
        coarse, fine = _pairs(fits[t], laws[t], fits[t + 1], laws[t + 1])
        lines.append(mean_divergences(coarse.ravel(), fine.ravel(), np.tile(share / len(fine), len(fine))))
    last = stack_out_of_sample(fits[-1], laws[-1])
    return [*lines, mean_losses(last.ravel(), last.ravel(), np.tile(share / len(last), len(last)))]


def _pairs(below: Any, coarse: FloatArray, fit: Any, fine: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Two levels side by side, (partitions, rows) each."""
    line = stack_out_of_sample(fit, fine)
    if isinstance(fit, LevelFits) and below is not None and not isinstance(below, LevelFits):
        return np.stack([as_vector(law) for law in fit.below]), line
    under = stack_out_of_sample(below, coarse)
    size = max(len(under), len(line))
    return np.broadcast_to(under, (size, coarse.size)), np.broadcast_to(line, (size, coarse.size))


def stack_out_of_sample(fit: Any, law: FloatArray) -> FloatArray:
    """The law of every row from models not fitted on it, (partitions, rows)."""
    if fit is None:
        return law[None]
    if isinstance(fit, CellFits):
        assert fit.home is not None  # noqa: S101 - rows have folds
        return np.stack([table[home, fit.cells.cell] for table, home in zip(fit.law, fit.home, strict=True)])
    return np.stack([as_vector(part.law) for part in fit.parts])
