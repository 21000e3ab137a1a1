"""Norms of gaps: ECE, ICI, Emax and the like of a curve.

All of them are homogeneous: twice the gaps, twice the metric.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from scoreprism._core.simplex import FloatArray

#: Rows of each outcome that the interval of a median gap needs.
_MEDIAN = 5


class Norm(ABC):
    """From gaps, one or many lines of them, and masses to the metric."""

    #: p of a mean of |g|^p; 0 for anything else.
    order = 0
    #: Rows of each outcome without which there is no interval.
    least = 1

    @abstractmethod
    def __call__(self, gap: FloatArray, mass: FloatArray) -> FloatArray:
        """The metric of each line."""

    def reach(self, moved: float, mass: FloatArray) -> float | None:
        """How far the metric can go when Σ m|change of g| ≤ `moved` and no gap moves by more than 1; None: anywhere."""
        return None


class _MeanAbsolute(Norm):
    """Σ m|g|."""

    order = 1

    def __call__(self, gap: FloatArray, mass: FloatArray) -> FloatArray:
        return np.asarray(np.abs(gap) @ mass)

    def reach(self, moved: float, mass: FloatArray) -> float | None:
        return moved


class _RootMeanSquare(Norm):
    """√Σ m g²."""

    order = 2

    def __call__(self, gap: FloatArray, mass: FloatArray) -> FloatArray:
        return np.asarray(np.sqrt(gap**2 @ mass))

    def reach(self, moved: float, mass: FloatArray) -> float | None:
        return math.sqrt(moved)  # the square of a change is at most the change


class _Largest(Norm):
    """Largest |g|."""

    def __call__(self, gap: FloatArray, mass: FloatArray) -> FloatArray:
        return np.asarray(np.abs(gap).max(axis=-1))


@dataclass(frozen=True)
class PlainMean(Norm):
    """Mean of |g| over places that have mass, each counted once; of `parts` of as many places, the mean of theirs."""

    parts: int = 1

    def _counts(self, mass: FloatArray) -> FloatArray:
        held = (mass > 0.0).reshape(self.parts, -1)
        return np.asarray((held / (self.parts * held.sum(axis=1, keepdims=True))).ravel())

    def __call__(self, gap: FloatArray, mass: FloatArray) -> FloatArray:
        return np.asarray(np.abs(gap) @ self._counts(mass))

    def reach(self, moved: float, mass: FloatArray) -> float | None:
        held = mass > 0.0
        return min(moved * float((self._counts(mass)[held] / mass[held]).max()), 1.0)


mean_absolute, root_mean_square, largest, plain_mean = _MeanAbsolute(), _RootMeanSquare(), _Largest(), PlainMean()


@dataclass(frozen=True)
class QuantileNorm(Norm):
    """The q-quantile of |g|: where the mass of smaller ones reaches q; the middle of two where it is exactly q."""

    q: float

    @property
    def least(self) -> int:  # type: ignore[override]
        """The median of a curve through one to three events is nearly that of none: docs/metrics.md."""
        return _MEDIAN if self.q <= 0.5 else 1

    def __call__(self, gap: FloatArray, mass: FloatArray) -> FloatArray:
        lines = np.atleast_2d(np.abs(gap))
        order = np.argsort(lines, axis=1)
        reached = np.cumsum(mass[order], axis=1)
        ranked = np.take_along_axis(lines, order, axis=1)
        at = (reached < self.q - 1e-12).sum(axis=1)
        after = np.minimum((reached < self.q + 1e-12).sum(axis=1), mass.size - 1)
        line = np.arange(lines.shape[0])
        found = 0.5 * (ranked[line, at] + ranked[line, after])
        return np.asarray(found if gap.ndim == 2 else found[0])
