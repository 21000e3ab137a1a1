"""Norms of gaps: ECE, ICI, Emax and the like of a curve.

All of them are homogeneous: twice the gaps, twice the metric.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.simplex import FloatArray

#: Rows of each outcome that the interval of a median gap needs.
_MEDIAN = 5


@dataclass(frozen=True)
class Norm:
    """A function of gaps, one or many rows of them, and masses that returns the metric of each row."""

    size: Callable[[FloatArray, FloatArray], FloatArray]
    #: p of a mean of |g|^p; 0 for anything else.
    order: int = 0
    #: Rows of each outcome without which there is no interval.
    least: int = 1
    #: Bound on the change of the metric when Σ m|change of g| ≤ a number and no gap changes by more than 1; None: no
    #: bound.
    reach: Callable[[float, FloatArray], float] | None = None
    #: Whether the metric of each row is at most a number, where that is faster than computing the metric.
    at_most: Callable[[FloatArray, FloatArray, float], NDArray[np.bool_]] | None = None

    def __call__(self, gap: FloatArray, mass: FloatArray) -> FloatArray:
        return np.asarray(self.size(gap, mass))

    def is_within(self, gap: FloatArray, mass: FloatArray, limit: float) -> NDArray[np.bool_]:
        """Whether the metric of each line is at most `limit`."""
        return self(gap, mass) <= limit if self.at_most is None else self.at_most(gap, mass, limit)


#: Σ m|g|.
mean_absolute = Norm(lambda gap, mass: np.abs(gap) @ mass, 1, reach=lambda moved, _: moved)
#: √Σ m g²; the square of a change is at most the change.
root_mean_square = Norm(lambda gap, mass: np.sqrt(gap**2 @ mass), 2, reach=lambda moved, _: math.sqrt(moved))
#: Largest |g|.
largest = Norm(lambda gap, _: np.abs(gap).max(axis=-1))


def plain_mean(parts: int = 1) -> Norm:
    """Mean of |g| over places with mass, each counted once; averaged over `parts` of equally many places."""

    def counts(mass: FloatArray) -> FloatArray:
        has_mass = (mass > 0.0).reshape(parts, -1)
        return np.asarray((has_mass / (parts * has_mass.sum(axis=1, keepdims=True))).ravel())

    def reach(moved: float, mass: FloatArray) -> float:
        has_mass = mass > 0.0
        return min(moved * float((counts(mass)[has_mass] / mass[has_mass]).max()), 1.0)

    return Norm(lambda gap, mass: np.abs(gap) @ counts(mass), reach=reach)


def quantile_norm(q: float) -> Norm:
    """The q-quantile of |g|: where the mass of smaller ones reaches q; the middle of two where it is exactly q."""

    def size(gap: FloatArray, mass: FloatArray) -> FloatArray:
        lines = np.atleast_2d(np.abs(gap))
        order = np.argsort(lines, axis=1)
        reached = np.cumsum(mass[order], axis=1)
        ranked = np.take_along_axis(lines, order, axis=1)
        at = (reached < q - 1e-12).sum(axis=1)
        after = np.minimum((reached < q + 1e-12).sum(axis=1), mass.size - 1)
        line = np.arange(lines.shape[0])
        middle = 0.5 * (ranked[line, at] + ranked[line, after])
        return np.asarray(middle if gap.ndim == 2 else middle[0])

    def at_most(gap: FloatArray, mass: FloatArray, limit: float) -> NDArray[np.bool_]:
        """Compare the mass of smaller gaps with q, without sorting; rows with exactly q are computed."""
        mass_within = (np.abs(gap) <= limit) @ mass
        within, exactly = mass_within > q, np.abs(mass_within - q) < 1e-11
        if exactly.any():
            within[exactly] = size(gap[exactly], mass) <= limit
        return np.asarray(within)

    # with one to three events the median gap is nearly that without events: docs/metrics.md
    return Norm(size, least=_MEDIAN if q <= 0.5 else 1, at_most=at_most)
