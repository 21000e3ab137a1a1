"""Exact intervals for a binomial rate, and quantiles of the number of events among unequal probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.numerics import TINY, halve
from scoreprism._core.simplex import FloatArray

#: Methods for the interval of a rate.
INTERVALS = ("mid-p", "clopper-pearson", "wilson", "jeffreys")
#: Up to this many events their sum is built one by one; above, two halves are convolved by a Fourier transform.
_FEW = 64
#: Halvings of [0, 1]: to the last bit of a double near 1, and 1e-18 near 0.
_HALVINGS = 60


def rate_interval(
    events: FloatArray, size: FloatArray, confidence_level: FloatArray | float, interval: str = "mid-p"
) -> tuple[FloatArray, FloatArray]:
    """
    Two-sided intervals for event rates, from counts that weights may have made fractional.

    "clopper-pearson" keeps the level for every rate and every size, and therefore exceeds it, by .06 with ten rows and
    a level of .9. "mid-p" counts half of the probability of the observed count in either tail, and keeps the level on
    average over rates. "wilson" inverts the normal test. "jeffreys" has the tails of the law
    Beta(½ + events, ½ + others), and reaches 0 or 1 in pure bins (Brown, Cai & DasGupta 2001).
    """
    from scipy.special import betaincinv, ndtri

    tail = np.broadcast_to((1.0 - np.asarray(confidence_level)) / 2.0, events.shape)
    rest = np.maximum(size - events, 0.0)
    if interval == "wilson":
        z2 = ndtri(tail) ** 2
        center = (events + z2 / 2.0) / (size + z2)
        half = np.sqrt(z2 * (events * rest / size + z2 / 4.0)) / (size + z2)
        # algebra gives exactly 0 and 1 for pure bins, rounding only nearly so
        low = np.where(events > 0.0, np.maximum(center - half, 0.0), 0.0)
        return low, np.where(rest > 0.0, np.minimum(center + half, 1.0), 1.0)
    if interval == "clopper-pearson":
        low = np.where(events > 0.0, betaincinv(np.maximum(events, TINY), rest + 1.0, tail), 0.0)
        high = np.where(rest > 0.0, 1.0 - betaincinv(np.maximum(rest, TINY), events + 1.0, tail), 1.0)
        return low, high
    if interval == "jeffreys":
        low = np.where(events > 0.0, betaincinv(events + 0.5, rest + 0.5, tail), 0.0)
        return low, np.where(rest > 0.0, 1.0 - betaincinv(rest + 0.5, events + 0.5, tail), 1.0)
    return _find_mid_low(events, rest, tail), 1.0 - _find_mid_low(rest, events, tail)


def _find_mid_low(events: FloatArray, rest: FloatArray, tail: FloatArray) -> FloatArray:
    """The rate p at which P(more events) + ½ P(as many) is `tail`; 0 where there are none."""
    from scipy.special import betainc

    some = np.maximum(events, TINY)

    def below(p: FloatArray) -> NDArray[np.bool_]:
        # P(X ≥ k) = I_p(k, n−k+1); with k or n−k at 0 one of the two is certain
        more = np.where(rest > 0.0, betainc(events + 1.0, np.maximum(rest, TINY), p), 0.0)
        return np.asarray(0.5 * (more + betainc(some, rest + 1.0, p)) < tail)

    low, _ = halve(below, np.zeros(events.shape), np.ones(events.shape), _HALVINGS)
    return np.where(events > 0.0, low, 0.0)


def sum_law(p: FloatArray) -> FloatArray:
    """Probabilities of 0, …, n events among independent ones with these probabilities (Poisson–binomial)."""
    if p.size <= _FEW:
        law = np.ones(1)
        for one in p:
            law = np.convolve(law, [1.0 - one, one])
        return law
    from scipy.fft import irfft, next_fast_len, rfft

    left, right = sum_law(p[: p.size // 2]), sum_law(p[p.size // 2 :])
    size = next_fast_len(p.size + 1, real=True)
    joined: FloatArray = irfft(rfft(left, size) * rfft(right, size), size)[: p.size + 1]
    return np.maximum(joined, 0.0)


def sum_interval(p: FloatArray, confidence_level: float, interval: str = "mid-p") -> tuple[int, int]:
    """Smallest and largest count of events whose two tails both exceed (1 − level)/2."""
    law = sum_law(p)
    own = 1.0 if interval == "clopper-pearson" else 0.5
    upto = np.cumsum(law)
    above = np.cumsum(law[::-1])[::-1]
    tail = (1.0 - confidence_level) / 2.0
    plausible = (upto - (1.0 - own) * law > tail) & (above - (1.0 - own) * law > tail)
    (at,) = np.nonzero(plausible)
    if at.size == 0:  # a level below the probability of the median alone
        middle = int(np.searchsorted(upto, 0.5))
        return middle, middle
    return int(at[0]), int(at[-1])
