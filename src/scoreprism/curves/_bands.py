"""Bands from redrawn curves: pointwise by order statistics, and for the whole curve by one factor for all scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from scoreprism.inference._corp import replicated, stream_of
from scoreprism.inference._ranked import Stream
from scoreprism.simplex import FloatArray

#: Share of redrawn curves beyond the curve that sets the scale of a uniform band, per (1 − level).
_SHARE = 0.1


@dataclass(frozen=True)
class Band:
    """A band and where it is given."""

    x: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True)
class Ask:
    """What is wanted of a band, parsed."""

    kind: str
    level: float
    uniform: bool
    n_resamples: int
    entropy: NDArray[np.int64]
    n_jobs: int | None
    interval: str = "mid-p"

    def draws(self, curve: Callable[[Stream], FloatArray]) -> FloatArray:
        """Redrawn curves, one a row; each has a stream of its own, so their number and `n_jobs` change none."""
        return replicated(partial(_some, curve, self.entropy), self.n_resamples, self.n_jobs)

    def around(self, curves: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The band that holds a further such curve: at each score, or at all of them."""
        return uniform_band(curves, self.level) if self.uniform else pointwise_band(curves, self.level)


def _some(curve: Callable[[Stream], FloatArray], entropy: NDArray[np.int64], replicates: range) -> FloatArray:
    return np.array([curve(stream_of(entropy, b)) for b in replicates])


def pointwise_band(curves: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """
    At every score the order statistics that hold one further curve with probability `level`.

    Of B + 1 exchangeable numbers each is as likely the k-th smallest, so k = ⌊(B + 1)(1 − level)/2⌋ on either side keeps
    the level exactly, whatever B, up to rounding and ties (which only add).

    Parameters
    ----------
    curves : array of shape (B, m)
        Redrawn curves.
    level : float
        Probability.

    Returns
    -------
    tuple of two arrays of shape (m,)
        Lower and upper ends.

    Examples
    --------
    >>> pointwise_band(np.arange(99.0)[:, None], 0.9)
    (array([4.]), array([94.]))
    """
    count = curves.shape[0]
    k = max(int((count + 1) * (1.0 - level) / 2.0 * (1.0 + 1e-12)), 1)
    ranked = np.partition(curves, (k - 1, count - k), axis=0)
    return ranked[k - 1], ranked[count - k]


def uniform_band(curves: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """
    A band that holds a further curve at all scores with probability `level`.

    Deviations from the median are measured in units of a far quantile, above and below apart, and the band is the median
    plus and minus c units, with c the `level` quantile of the largest deviation of a curve. Ranks would do without
    units, but a thousand curves have no ranks as far out as fifty nearly independent scores ask for.

    Parameters
    ----------
    curves : array of shape (B, m)
        Redrawn curves, in [0, 1].
    level : float
        Probability.

    Returns
    -------
    tuple of two arrays of shape (m,)
        Lower and upper ends, in [0, 1].

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> low, high = uniform_band(rng.random((500, 20)), 0.9)
    >>> bool(high.max() <= 1.0)
    True
    """
    far = _SHARE * (1.0 - level)
    middle = np.median(curves, axis=0)
    low, high = pointwise_band(curves, 1.0 - 2.0 * far)
    down, up = _unit(middle - low, middle - curves.min(axis=0)), _unit(high - middle, curves.max(axis=0) - middle)
    apart = curves - middle
    worst = np.maximum(apart / up, -apart / down).max(axis=1)
    count = worst.size
    c = np.sort(worst)[min(int(np.ceil((count + 1) * level)), count) - 1]
    return np.maximum(middle - c * down, 0.0), np.minimum(middle + c * up, 1.0)


def _unit(quantile: FloatArray, farthest: FloatArray) -> FloatArray:
    """The unit of deviations on one side: a quantile, or the farthest of all where that is no deviation yet."""
    return np.where(quantile > 0.0, quantile, np.where(farthest > 0.0, farthest, 1.0))
