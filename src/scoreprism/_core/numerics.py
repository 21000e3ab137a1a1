"""Log-odds, sigmoids, softmax and monotone pieces: each formula once, with the constants that keep it finite.

Variants that differ in the last bits, or in the tails, have names that say how.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.simplex import FloatArray

Numbers = FloatArray | float
#: Whether something holds, element by element.
Condition = Callable[[FloatArray], NDArray[np.bool_]]
#: Log-odds beyond this are cut: exp(±700) is still a normal number, and σ has long been 0 or 1.
FAR = 700.0
#: The same for laws of learners: σ(40) rounds to 1, and σ(−40) is 4e-18.
FAR_LAW = 40.0
#: The same within boosting: σ(±30) is 1e-13 from 0 and 1, of which 1 − p keeps three digits.
FAR_BOOSTED = 30.0
#: Half the distance from 1 to the next float, and the largest float below 1.
LAST_BIT = 2.0**-53
BELOW_ONE = 1.0 - LAST_BIT
#: Stands for 0 in a divisor or a logarithm: a normal number whose reciprocal is finite.
TINY = 1e-300
#: Smallest score that a map tells from 0: what `bend_up` makes of it is still a normal number.
SMALLEST_SCORE = 1e-290
#: How far probabilities are kept from 0 and 1 where their log-odds start a fit or are features.
EDGE = 1e-12
#: The same where values nearer to the ends must stay distinct: 1 − p resolves little less than this.
FINEST_EDGE = 1e-15
#: The same for working weights 1 / (p(1 − p)) of least squares, which stay below 1e10.
EDGE_OF_WEIGHTS = 1e-10
#: The same for laws that are shifted by their own gradients: 1 − p keeps seven digits of the distance.
EDGE_OF_SHIFTS = 1e-9
#: A running sum that is this share of a goal has reached it, so that rounding does not move a cut.
REACHED = 1.0 - 1e-12
#: A number up to this share of a limit is within it.
WITHIN = 1.0 + 1e-12


def least_distance(total: float) -> float:
    """1/(2n): how near to 0 or 1 a law fitted on rows of this weight may come."""
    return min(0.5 / total, 0.25)


def cube(x: FloatArray) -> FloatArray:
    """x³; numpy's power takes up to a hundred times as long."""
    return np.asarray(x * x * x)


def log_odds(p: FloatArray, edge: float = 0.0) -> FloatArray:
    """log(p / (1 − p)), accurate near 0, of probabilities kept `edge` from 0 and 1."""
    inside = np.clip(p, edge, 1.0 - edge) if edge > 0.0 else p
    return np.asarray(np.log(inside) - np.log1p(-inside))


def rate_log_odds(rate: float) -> float:
    """Log-odds of one rate in (0, 1) as the log of a quotient: the intercept of a constant map."""
    return float(np.log(rate / (1.0 - rate)))


def law_logits(law: FloatArray) -> FloatArray:
    """Log-odds of two classes, log-probabilities of more, kept finite."""
    return log_odds(law, EDGE) if law.ndim == 1 else np.log(np.maximum(law, EDGE))


def law_of_logits(eta: FloatArray) -> FloatArray:
    """The law of log-odds, or of log-probabilities up to a constant of each row."""
    return clipped_sigmoid(eta, FAR_LAW) if eta.ndim == 1 else np.exp(log_softmax(eta))


def log_pair(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The pair log s, −log(1 − s) at the logit x of s, both nondecreasing in floating point."""
    near = np.clip(x, -FAR, FAR)
    beyond = x - near
    return np.minimum(beyond, 0.0) - np.log1p(np.exp(-near)), np.maximum(beyond, 0.0) + np.log1p(np.exp(near))


def softplus(x: FloatArray, decay: FloatArray | None = None) -> FloatArray:
    """log(1 + e^x), without overflow; `decay` is exp(−|x|) where that is known."""
    value: FloatArray = np.log1p(np.exp(-np.abs(x)) if decay is None else decay)
    value += np.maximum(x, 0.0)
    return value


def sigmoid(x: FloatArray, decay: FloatArray | None = None) -> FloatArray:
    """σ(x) = 1 / (1 + exp(−x)), to 0 and 1 at the ends; `decay` is exp(−|x|) where that is known."""
    e = np.exp(-np.abs(x)) if decay is None else decay
    return np.where(x >= 0, 1.0, e) / (1.0 + e)


def clipped_sigmoid(x: FloatArray, far: float = FAR) -> FloatArray:
    """1 / (1 + exp(−x)) with x cut at ±`far`, so never 0; allocates one array."""
    p = np.exp(-np.clip(x, -far, far))
    p += 1.0
    return np.divide(1.0, p, out=p)


def rising_sigmoid(x: FloatArray) -> FloatArray:
    """
    σ(x) = 1 / (1 + exp(−x)), nondecreasing in floating point and inside (0, 1).

    Sums and quotients of this form cannot be put in the wrong order by rounding; the usual exp(x) / (1 + exp(x))
    for negative x can.
    """
    return np.minimum(clipped_sigmoid(x), BELOW_ONE)


#: Numbers in a block of rows that stays in the cache; and classes up to which a block is turned, classes first.
_BLOCK, TURNED = 1 << 16, 256


def row_blocks(n: int, width: int) -> Iterator[slice]:
    """Blocks of rows of so many numbers that stay in the cache while they are exponentiated and summed."""
    step = max(32, _BLOCK // max(width, 1))
    return (slice(first, min(first + step, n)) for first in range(0, n, step))


def log_softmax(eta: FloatArray) -> FloatArray:
    """log(e^η / Σ e^η) of each row, without overflow."""
    logs = np.empty(eta.shape)
    for rows in row_blocks(*eta.shape):
        if eta.shape[1] <= TURNED:  # numpy sums a few long lines faster than many short ones
            part = np.ascontiguousarray(eta[rows].T, dtype=np.float64)
            part -= part.max(axis=0)
            part -= np.log(np.exp(part).sum(axis=0))
            logs[rows] = part.T
        else:
            np.subtract(eta[rows], eta[rows].max(axis=1, keepdims=True), out=logs[rows])
            logs[rows] -= np.log(np.exp(logs[rows]).sum(axis=1, keepdims=True))
    return logs


def sum_classes(law: FloatArray) -> FloatArray:
    """Sums over the last axis, which stays; for few classes several times faster than ``sum``."""
    return np.asarray(np.einsum("...k->...", law)[..., None])


def center_logs(logs: FloatArray) -> FloatArray:
    """Log-probabilities minus their mean over classes: a softmax depends on nothing else."""
    rest: FloatArray = logs - sum_classes(logs) / logs.shape[1]
    return rest


def softmax(eta: FloatArray) -> FloatArray:
    """e^η / Σ e^η of each row by the quotient; exp of `log_softmax` differs in the last bits."""
    e = np.exp(eta - eta.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def scaled_axes(matrix: FloatArray, least: float, constant: float = 0.0) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Scales that bring a diagonal to ones (∞ where it is `constant`), then eigenvalues and axes above `least`."""
    scale = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    scale = np.where(scale > constant * max(float(scale.max()), TINY), scale, np.inf)
    values, axes = np.linalg.eigh(matrix / np.outer(scale, scale))
    kept = values > least * max(float(values[-1]), TINY)
    return scale, values[kept], axes[:, kept]


def halve(holds: Condition, inside: FloatArray, outside: FloatArray, times: int) -> tuple[FloatArray, FloatArray]:
    """Bisect, this many times, between points where conditions hold (`inside`) and fail (`outside`)."""
    for _ in range(times):
        middle = 0.5 * (inside + outside)
        holding = holds(middle)
        inside, outside = np.where(holding, middle, inside), np.where(holding, outside, middle)
    return inside, outside


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


def bend_up(distance: FloatArray, floor: float) -> FloatArray:
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
        p = np.where(low, bend_up(p, floor), p)
    if high.any():
        p = np.where(high, 1.0 - bend_up(1.0 - p, floor), p)
    return p


def smoothstep(t: FloatArray) -> FloatArray:
    """
    3t² − 2t³ for t in [0, 1], nondecreasing in floating point.

    The factors t² and 3 − 2t move against each other, so the product is carried to twice the working precision
    (Dekker): its error, 1e-31, is below the difference of any two values that round differently.
    """
    square, square_rest = _product(t, t)
    falling = 3.0 - 2.0 * t
    falling_rest = (3.0 - falling) - 2.0 * t  # the exact rounding error of the subtraction
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


def weighted_quantiles(x: FloatArray, weight: FloatArray | None, shares: tuple[float, ...]) -> FloatArray:
    """Values of x below which these shares of the weight lie; rows of weight 2 count as two rows."""
    if weight is None:
        ranks = np.ceil(np.array(shares) * x.size * REACHED).astype(np.intp) - 1
        return np.partition(x, np.maximum(ranks, 0))[np.maximum(ranks, 0)]
    order = np.argsort(x)
    upto = np.cumsum(weight[order])
    at = np.searchsorted(upto, np.array(shares) * upto[-1] * REACHED)
    quantiles: FloatArray = x[order][np.minimum(at, x.size - 1)]
    return quantiles
