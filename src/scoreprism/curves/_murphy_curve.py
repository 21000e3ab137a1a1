"""Murphy diagrams: the mean elementary loss at every decision threshold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scoreprism._core.checks import parse_numbers, refuse
from scoreprism._core.simplex import ArrayLike, FloatArray, freeze
from scoreprism._kernels.isotonic import locate, pool_ties
from scoreprism._parameters import described
from scoreprism._sample.sample import Sample
from scoreprism.curves._curve import BinaryRows, Curve, parse_binary
from scoreprism.curves._threshold_lines import ThresholdLine, pool_rows, sum_lines
from scoreprism.losses import ProperLoss, get_loss


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MurphyCurve(Curve):
    r"""
    Mean elementary loss of a model as a function of the decision threshold θ.

    Made by `murphy_curve`. At θ the loss counts θ for a false alarm (p > θ and nothing happened) and 1 − θ for a miss.
    Every proper loss of two classes is a mixture of these, so a curve that lies below another everywhere
    belongs to a model that is better under all of them.

    Attributes
    ----------
    theta : array of shape (m,)
        Thresholds, ascending. By default all points where the curve jumps or bends, each
        twice: before the jump and after it.
    loss : array of shape (m,)
        Mean elementary loss.
    std_error : array of shape (m,)
        Its standard error; NaN for a single row.
    rate : float
        Share of events.

    Examples
    --------
    >>> curve = murphy_curve([0, 0, 1], [0.2, 0.6, 0.7])
    >>> curve.at([0.5]).round(4), round(curve.integrate("brier"), 4)
    (array([0.1667]), 0.1633)
    """

    theta: FloatArray
    loss: FloatArray
    std_error: FloatArray
    rate: float
    _line: ThresholdLine | None = None

    def at(self, theta: ArrayLike) -> FloatArray:
        """
        Mean elementary loss at any thresholds, exactly.

        Parameters
        ----------
        theta : array-like
            Thresholds between 0 and 1.

        Returns
        -------
        array
            Losses.
        """
        return self._exact()(parse_thresholds(theta))

    def integrate(self, loss: str | ProperLoss) -> float:
        """
        The mean of a proper loss, which is a mixture of elementary losses.

        Parameters
        ----------
        loss : str or ProperLoss
            A loss of two classes.

        Returns
        -------
        float
            The mean of the loss over these rows.
        """
        chosen = get_loss(loss)
        return self._exact().integrate(chosen) + charge_certainty(chosen, self.rate)

    def _exact(self) -> ThresholdLine:
        if self._line is None:
            rule = "only a curve that knows every jump has values elsewhere"
            refuse(rule, "a curve made with thresholds=", "Make it with `thresholds`=None.")
        return self._line

    def _points(self) -> dict[str, FloatArray]:
        return {"theta": self.theta, "loss": self.loss, "std_error": self.std_error}

    def _describe(self) -> str:
        return "mean elementary loss at every threshold" if self._line is not None else "mean elementary loss"


def parse_thresholds(theta: ArrayLike) -> FloatArray:
    """Thresholds between 0 and 1, as a column of numbers."""
    numbers = np.atleast_1d(parse_numbers(theta, "thresholds"))
    if numbers.ndim != 1 or not numbers.size or numbers.min() < 0.0 or numbers.max() > 1.0:
        rule = "`thresholds` must be a column of numbers between 0 and 1"
        shape = f"shape {numbers.shape}"
        got = shape if numbers.ndim != 1 or not numbers.size else f"{numbers.min():g} to {numbers.max():g}"
        refuse(rule, got, "For example np.arange(1, 100) / 100.")
    return numbers


def charge_certainty(loss: ProperLoss, rate: float) -> float:
    """The loss of certain and correct predictions, for which elementary losses are 0."""
    miss, alarm = (float(loss.loss(np.array([p]), np.array([y]))[0]) for p, y in ((1.0, 1), (0.0, 0)))
    return rate * miss + (1.0 - rate) * alarm


@described(of_two=True)
def murphy_curve(
    y_true: ArrayLike | Sample,
    y_proba: ArrayLike | None = None,
    *,
    thresholds: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    name: str | None = None,
) -> MurphyCurve:
    """
    Mean elementary loss at every decision threshold (Murphy diagram), exact at every jump.

    Parameters
    ----------
    thresholds : array-like of shape (m,), optional
        Where to evaluate it. By default at all points where it jumps or bends, which takes one sort; given
        thresholds take none.

    Returns
    -------
    MurphyCurve
        Thresholds, losses and standard errors.

    Examples
    --------
    >>> import numpy as np
    >>> curve = murphy_curve([0, 1, 1, 0], [0.1, 0.4, 0.8, 0.3], thresholds=[0.25, 0.5])
    >>> curve.loss
    array([0.0625, 0.125 ])
    """
    rows = parse_binary(y_true, y_proba, sample_weight, pos_label, classes)
    if thresholds is None:
        line, mass, squares = _find_exact_line(rows)
        theta = np.repeat(line.at if line.at[-1] == 1.0 else np.append(line.at, 1.0), 2)
    else:
        line, theta = None, np.unique(parse_thresholds(thresholds))
        mass, squares = sum_sides_and_squares(rows, theta)
    loss = mass[0] * (1.0 - theta) + mass[1] * theta
    error = _std_error(rows, theta, loss, squares) if rows.n > 1 else np.full(theta.shape, np.nan)
    return MurphyCurve(
        name=name, n=rows.n, _backend=rows.backend, theta=freeze(theta), loss=freeze(loss), std_error=freeze(error),
        _line=line, rate=rows.rate,
    )  # fmt: skip


def _find_exact_line(rows: BinaryRows) -> tuple[ThresholdLine, FloatArray, FloatArray]:
    """The exact line; then mass and squared shares of misses and false alarms on both sides of every jump."""
    if rows.weight is None:  # counts are exact, and sorting packed words is faster than an argsort
        score, weight, events = pool_ties(rows.score, rows.y)
        counts = sum_lines(score, events, weight - events)
        line = ThresholdLine(counts.at, counts.u / rows.n, counts.v / rows.n)
        mass = _list_jumps(line)
        return line, mass, mass / rows.n
    share = rows.weight / rows.total
    miss, alarm = share * rows.y, share * (1.0 - rows.y)
    points, (u, v, uu, vv) = pool_rows(rows.score, miss, alarm, share * miss, share * alarm)
    line = sum_lines(points, u, v)
    return line, _list_jumps(line), _list_jumps(sum_lines(points, uu, vv))


def _std_error(rows: BinaryRows, theta: FloatArray, loss: FloatArray, squares: FloatArray) -> FloatArray:
    """
    Standard errors: Σ share²(r − r̄)², where r is 1 − θ for a miss, θ for a false alarm and 0 for all others.

    A sum of squares does not cancel: where all rows have the same loss it is zero, not the root of a rounding error.
    """
    whole = 1.0 / rows.n if rows.weight is None else float(((rows.weight / rows.total) ** 2).sum())
    rest = np.maximum(whole - squares[0] - squares[1], 0.0)
    variance = squares[0] * (1.0 - theta - loss) ** 2 + squares[1] * (theta - loss) ** 2 + rest * loss**2
    return np.asarray(np.sqrt(variance))


def _list_jumps(line: ThresholdLine) -> FloatArray:
    """Both coefficients before and after every point of the line, and at 1."""
    u, v = line.u, line.v
    at_end = line.at[-1] == 1.0
    parts = []
    for side in (u, v):
        before = np.append(side[0], side[:-1] if at_end else side)
        after = side if at_end else np.append(side, side[-1])
        parts.append(np.stack([before, after], axis=1).ravel())
    return np.stack(parts)


def sum_sides_and_squares(rows: BinaryRows, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Misses and false alarms at each threshold: their share of the weight, and the sums of squared shares."""
    if rows.weight is None:
        mass = sum_sides(rows, theta, None)[0] / rows.n
        return mass, mass / rows.n
    share = rows.weight / rows.total
    mass, squares = sum_sides(rows, theta, share, share**2)
    return mass, squares


def sum_sides(rows: BinaryRows, theta: FloatArray, *shares: FloatArray | None) -> list[FloatArray]:
    """Mass of events at or below each threshold and of non-events above it, without a sort."""
    cell = 2 * locate(np.nextafter(theta, np.inf), rows.score)  # thresholds below the score
    cell += rows.y == 1.0
    losses = []
    for share in shares:
        split = np.bincount(cell, share, 2 * theta.shape[0] + 2).astype(np.float64)
        others, events = split[::2], split[1::2]
        losses.append(np.stack([np.cumsum(events[:-1]), np.cumsum(others[::-1])[-2::-1]]))
    return losses
