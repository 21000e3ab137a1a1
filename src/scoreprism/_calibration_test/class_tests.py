"""Is the probability of one class calibrated? Two tests of its column, quick enough for a thousand classes."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.numerics import EDGE, REACHED, log_odds
from scoreprism._core.progress import track
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._kernels.holm import holm
from scoreprism._kernels.saddlepoint import sum_pvalue

#: Expected cases from which a class is judged by itself. Expected ones, as they do not depend on the outcomes: classes
#: chosen for few observed cases would seem to be predicted too often.
LEAST = 20


class ColumnTest(NamedTuple):
    """Whether outcomes of a class follow its probabilities."""

    pvalue: float  # of both tests, with Bonferroni's factor of 2
    level: float  # z of the number of cases: above 0 there were more than expected
    spread: float  # z of the trend in the log-odds: below 0 probabilities are too extreme

    @property
    def is_of_level(self) -> bool:
        """Whether the number of cases says more than the trend."""
        return abs(self.level) >= abs(self.spread)


class ClassTest(NamedTuple):
    """One class, or those that are too rare to be judged by themselves, against the rest."""

    codes: tuple[int, ...]
    is_rare: bool
    column: ColumnTest
    pvalue: float  # adjusted by Holm's method for all that are tested


def find_class_tests(
    law: FloatArray, y: IntArray, weight: FloatArray | None, groups: IntArray | None
) -> list[ClassTest]:
    """Tests of every class with enough expected cases, and of the others as one class."""
    is_common = law.shape[0] * np.average(law, axis=0, weights=weight) >= LEAST * REACHED
    each: list[tuple[int, ...]] = [(int(k),) for k in np.flatnonzero(is_common)]
    rare = tuple(np.flatnonzero(~is_common).tolist())
    each += [rare] if rare else []
    columns = []
    for codes in track(each, len(each), "classes"):
        column = np.minimum(law[:, list(codes)].sum(axis=1, dtype=np.float64), 1.0)
        columns.append(find_column_test(column, np.isin(y, codes), weight, groups))
    adjusted = holm([column.pvalue for column in columns])
    return [
        ClassTest(codes, codes == rare, column, p) for codes, column, p in zip(each, columns, adjusted, strict=True)
    ]


def find_column_test(
    law: FloatArray, event: NDArray[np.bool_], weight: FloatArray | None, groups: IntArray | None
) -> ColumnTest:
    """
    The score tests of P(Y = k | S) = σ(a + b·logit S_k) at a = 0 and at b = 1.

    Under the hypothesis outcomes are independent events of probability S_k, and the sums Σw(Y − S_k) and
    Σw(logit S_k − m)(Y − S_k), with m such that they are uncorrelated, have tails that a saddlepoint gives also for
    rare classes. Rows of one group may depend on each other: their sums are compared with a normal law.
    """
    happened = event.astype(np.float64)
    if bool((event & (law <= 0.0)).any() or (~event & (law >= 1.0)).any()):
        return ColumnTest(0.0, math.inf, 0.0)  # something of probability 0 happened
    inside = (law > 0.0) & (law < 1.0)
    if not inside.any():
        return ColumnTest(1.0, 0.0, 0.0)
    size = np.ones(law.size) if weight is None else weight / weight.mean()
    logit = np.where(inside, log_odds(np.clip(law, EDGE, 1.0 - EDGE)), 0.0)
    information = size**2 * law * (1.0 - law)
    away = logit - float(information @ logit) / float(information.sum())
    trend = size * np.where(inside & (np.ptp(logit[inside]) > 1e-9), away, 0.0)  # one score has no trend but rounding
    residual = happened - law
    if groups is not None:
        tests = [_test_groups(factor * residual, groups) for factor in (size, trend)]
    else:
        s, count = law[inside], weight is None
        tests = [
            sum_pvalue(size[inside], s, float(size @ residual), is_count=count),
            sum_pvalue(trend[inside], s, float(trend @ residual), is_count=False),
        ]
    (p_level, level), (p_spread, spread) = tests
    return ColumnTest(min(2.0 * min(p_level, p_spread), 1.0), level, spread)


def _test_groups(values: FloatArray, groups: IntArray) -> tuple[float, float]:
    """P-value and z of a sum over rows that come in groups."""
    sums = np.bincount(groups, values)
    error = math.sqrt(float((sums**2).sum()))
    z = float(sums.sum()) / error if error > 0.0 else 0.0
    return math.erfc(abs(z) / math.sqrt(2.0)), z
