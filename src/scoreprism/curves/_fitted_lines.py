"""Lines over all decision thresholds of laws that were fitted in many partitions: means over all of their models."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from scoreprism._core.simplex import FloatArray, IntArray, as_vector
from scoreprism._fitting.fitted_laws import CellFits, LevelFits
from scoreprism._sample.level import Level
from scoreprism.curves._elementary import BrokenLine, mean_divergences, mean_entropies, mean_losses, mean_spreads
from scoreprism.decomposition import Chain


class Spread(NamedTuple):
    """Laws with outcomes and shares whose mean is that of a level."""

    law: FloatArray
    y: IntArray
    share: FloatArray

    @staticmethod
    def together(parts: list[Spread]) -> Spread:
        """All of them."""
        return Spread(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def level_lines(chain: Chain, share: FloatArray) -> list[BrokenLine]:
    """Mean loss of every level."""
    return [mean_losses(*_level(level, chain.sample.y, share)) for level in chain.levels]


def _level(level: Level, y: IntArray, share: FloatArray) -> Spread:
    """A level as laws and shares; one above C as C, with what it gains on C in the partitions it was fitted in."""
    fit = level.fits
    if fit is None:
        return Spread(as_vector(level.law), y, share)
    if not isinstance(fit, LevelFits):
        return _of_score(fit, y, share)
    parts = [_of_score(fit.base, y, share)]
    for part, below in zip(fit.parts, fit.below, strict=True):
        parts.append(Spread(as_vector(part.law), y, share / len(fit.parts)))
        parts.append(Spread(as_vector(below), y, -share / len(fit.parts)))
    return Spread.together(parts)


def _of_score(fit: Any, y: IntArray, share: FloatArray) -> Spread:
    if isinstance(fit, CellFits):
        law = np.broadcast_to(fit.law[:, :, None], fit.mass.shape)
        outcome = np.broadcast_to(np.arange(2)[:, None], fit.mass.shape)
        return Spread(law.ravel(), outcome.ravel(), fit.mass.ravel() / float(fit.mass.sum()))
    return Spread.together([Spread(as_vector(part.law), y, share / len(fit.parts)) for part in fit.parts])


def spread_line(level: Level, share: FloatArray) -> BrokenLine:
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
        return mean_divergences(np.zeros(1), np.zeros(1), np.zeros(1))
    flat = np.stack([as_vector(fold) for fold in level.folds])
    return mean_spreads(flat, flat.mean(axis=0), level.factor * share)


def divergence_lines(chain: Chain, share: FloatArray) -> list[BrokenLine]:
    """Mean of d_θ(P_t, P_{t+1}) for every step, and the mean entropy of the last level."""
    fits, laws = [level.fits for level in chain.levels], [as_vector(level.law) for level in chain.levels]
    lines = []
    for t in range(len(laws) - 1):
        coarse, fine = _pairs(fits[t], laws[t], fits[t + 1], laws[t + 1])
        lines.append(mean_divergences(coarse.ravel(), fine.ravel(), np.tile(share / len(fine), len(fine))))
    last = out_of_sample(fits[-1], laws[-1])
    return [*lines, mean_entropies(last.ravel(), np.tile(share / len(last), len(last)))]


def _pairs(below: Any, coarse: FloatArray, fit: Any, fine: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Two levels side by side, (partitions, rows) each."""
    found = out_of_sample(fit, fine)
    if isinstance(fit, LevelFits) and below is not None and not isinstance(below, LevelFits):
        return np.stack([as_vector(law) for law in fit.below]), found
    under = out_of_sample(below, coarse)
    size = max(len(under), len(found))
    return np.broadcast_to(under, (size, coarse.size)), np.broadcast_to(found, (size, coarse.size))


def out_of_sample(fit: Any, law: FloatArray) -> FloatArray:
    """The law of every row by models that did not see it, (partitions, rows)."""
    if fit is None:
        return law[None]
    if isinstance(fit, CellFits):
        assert fit.home is not None  # noqa: S101 - rows have folds
        return np.stack([table[home, fit.cells.cell] for table, home in zip(fit.law, fit.home, strict=True)])
    return np.stack([as_vector(part.law) for part in fit.parts])
