"""Elementary functions that keep the order of their arguments to the last bit: what a monotone map is built from."""

from __future__ import annotations

import numpy as np

from scoreprism._core.simplex import FloatArray

Numbers = FloatArray | float
#: Log-odds beyond this are cut: exp(±700) is still a normal number, and σ has long been 0 or 1.
FAR = 700.0
#: The largest number below 1.
BELOW_ONE = 1.0 - 2.0**-53


def rising_sigmoid(x: FloatArray) -> FloatArray:
    """
    σ(x) = 1 / (1 + exp(−x)), nondecreasing in floating point and inside (0, 1).

    Sums and quotients of this form cannot be put in the wrong order by rounding; the usual exp(x) / (1 + exp(x))
    for negative x can.
    """
    return np.minimum(1.0 / (1.0 + np.exp(-np.clip(x, -FAR, FAR))), BELOW_ONE)


def rising_cubic(t: FloatArray, b0: Numbers, b1: Numbers, b2: Numbers, b3: Numbers) -> FloatArray:
    """
    The cubic on [0, 1] with these Bernstein coefficients.

    With δ₀, δ₁, δ₂ their differences it is ``b₀ + δ₀(1−(1−t)³) + δ₁(3t²−2t³) + δ₂t³``: if none is negative, a sum of
    functions that rise in floating point.
    """
    rest = 1.0 - t
    value = b0 + (b1 - b0) * (1.0 - rest * rest * rest)
    value += (b2 - b1) * smoothstep(t)
    value += (b3 - b2) * (t * t * t)
    return value


def raised(distance: FloatArray, floor: float) -> FloatArray:
    """A distance from 0 below f = `floor`, bent up to f·h(distance/f) with h(r) = r + (1 − r)³/4: from f/4 to f."""
    return floor * rising_cubic(np.clip(distance / floor, 0.0, 1.0), 0.25, 1 / 3, 2 / 3, 1.0)


def soft_floor(p: FloatArray, floor: float) -> FloatArray:
    """
    Probabilities kept a quarter of `floor` away from 0 and 1, without a break or a tie.

    Below f = floor, p becomes ``p + f(1 − p/f)³/4``, which meets p at f with two derivatives and rises from f/4; the
    same near 1. Everything between f and 1 − f stays bit for bit.
    """
    low, high = p < floor, p > 1.0 - floor
    if low.any():
        p = np.where(low, raised(p, floor), p)
    if high.any():
        p = np.where(high, 1.0 - raised(1.0 - p, floor), p)
    return p


def smoothstep(t: FloatArray) -> FloatArray:
    """
    3t² − 2t³ for t in [0, 1], nondecreasing in floating point.

    The factors t² and 3 − 2t move against each other, so the product is carried to twice the working precision
    (Dekker): its error, 1e-31, is below the difference of any two values that round differently.
    """
    square, square_rest = _product(t, t)
    falling = 3.0 - 2.0 * t
    falling_rest = (3.0 - falling) - 2.0 * t  # what the subtraction rounded away, exactly
    high, low = _product(square, falling)
    return high + (low + (square * falling_rest + square_rest * falling))


def _product(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A product as a rounded number and its exact rounding error."""
    product = a * b
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return product, error


def _halves(a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A number as the sum of two with half the digits each (Veltkamp)."""
    scaled = 134217729.0 * a  # 2²⁷ + 1
    high = scaled - (scaled - a)
    return high, a - high
