"""Metrics of ranks: the area under the ROC curve, and its mean over classes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import refuse
from scoreprism._core.simplex import FloatArray, as_matrix
from scoreprism._kernels.estimate_intervals import Absent, Inference, Wald
from scoreprism.metrics._estimate import Estimate
from scoreprism.metrics._metric import ONE_CLASS, metric
from scoreprism.metrics._rows import Rows

#: A class whose rows weigh less than this many rows of equal weight has no variance of its own.
_SINGLE = 1.0 + 1e-9


@dataclass(frozen=True)
class _Placements:
    """The area, and what each row adds to its error."""

    area: float
    influence: FloatArray  # (n,): the variance is the sum of its squares
    spread: float  # variance of one placement of an event
    pairs: float  # of an event and a non-event, without a row in common; the size of the smaller class
    is_separated: bool  # whether all events lie on one side of all others, or all are tied
    is_tied: bool


@metric("The area.", ideal=math.inf, if_several=ONE_CLASS)
def auc(rows: Rows) -> Estimate:
    """
    Area under the ROC curve: P(S of an event > S of a non-event), ties counted half.

    It says how scores rank, not whether they are calibrated. The interval is DeLong's (1988), with weights
    Σw²(V − A)²/(Σw)² in each class, cut to [0, 1]. DeLong's variance of separated classes is 0; their interval ends
    where k pairs without a common row, k the size of the smaller class, would be ordered as they are with probability
    2.5 %: [0.025^(1/k), 1] at 95 %.

    Examples
    --------
    >>> area = auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    >>> float(area), round(area.std_error, 4)
    (0.75, 0.3536)
    """
    return _estimate_area(rows, "auc")


@metric("The mean area.", ideal=math.inf)
def macro_auc(rows: Rows) -> Estimate:
    """
    Area under the ROC curve of every class against the rest, averaged over the classes that occur.

    scikit-learn's ``roc_auc_score(y, p, multi_class="ovr")``, which refuses samples without rows of a class; here a
    class that is absent, which has no area, is left out and ``method`` counts the others. For two classes it is `auc`.
    The interval is DeLong's: each row's effect on every area is averaged before it is squared, so that the correlation
    of the areas is in it. A class with a single row is given the mean variance of the others. Where all classes are
    separated, it ends as that of `auc`, for the smallest class.

    Examples
    --------
    >>> y, s = [0, 1, 2, 0], [[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6], [0.4, 0.5, 0.1]]
    >>> round(macro_auc(y, s), 4)
    1.0
    """
    if rows.k == 2:
        return _estimate_area(rows, "macro_auc")
    law, present = as_matrix(rows.law), np.unique(rows.y)
    if present.size < 2:
        refuse("macro_auc must have rows of two classes", f"{rows.n} rows of one", "Pass rows of other classes too.")
    placed = [_place(law[:, k], rows.y == k, rows.share) for k in present]
    area = float(np.mean([one.area for one in placed]))
    absent = rows.k - present.size
    which = f"{present.size} of {rows.k} classes; {absent} without rows" if absent else f"{rows.k} classes"
    return Estimate(area, "macro_auc", f"mean area of one class against the rest, {which}", _infer(area, placed))


def _estimate_area(rows: Rows, name: str) -> Estimate:
    """The area of two classes, with its interval."""
    events = int(rows.y.sum())
    if events in (0, rows.n):
        rule = f"{name} must have events and non-events"
        refuse(rule, f"{events} events in {rows.n} rows", "Pass rows of both classes.")
    placed = _place(rows.law, rows.y == 1, rows.share)
    inference: Inference = Absent("one class has a single row", "Pass more rows of it.")
    if min(events, rows.n - events) > 1:
        inference = _infer(placed.area, [placed])
    return Estimate(placed.area, name, "area under the ROC curve, ties counted half", inference)


def _infer(area: float, placed: list[_Placements]) -> Inference:
    """
    The interval of a mean of areas: DeLong's, or where all classes are separated, what ordered pairs bound.

    k pairs without a common row are ordered alike with probability tail^(1/k) of one of them. A mean deficit of d means
    one of at least d somewhere, and the pairs of that class, at least as many as those of the smallest, were ordered.
    """
    if all(one.is_separated for one in placed):
        pairs = min(one.pairs for one in placed)
        most = 0.5 if all(one.is_tied for one in placed) else 1.0  # what a pair that differs counts; next to ties half
        label = "pairs without a common row"
        return Wald(area, 0.0, label, low=0.0, high=1.0, beyond=lambda tail: most * (1.0 - tail ** (1.0 / pairs)))
    known = [one.spread for one in placed if not math.isnan(one.spread)]
    if not known:
        return Absent("every class has a single row", "Pass more rows.")
    joint = np.sum([one.influence for one in placed], axis=0)
    variance = float((joint**2).sum()) + (len(placed) - len(known)) * float(np.mean(known))
    return Wald(area, math.sqrt(variance) / len(placed), "DeLong", low=0.0, high=1.0)


def _place(score: FloatArray, event: NDArray[np.bool_], weights: FloatArray) -> _Placements:
    """The area and its influence from the placements: the share of the other class that each row beats."""
    order = np.argsort(score, kind="stable")
    ranked, is_event, share = score[order], event[order], weights[order]
    first = np.append(True, np.diff(ranked) > 0.0)
    tie, starts = np.cumsum(first) - 1, np.flatnonzero(first)
    influence, area, sizes, spread = np.zeros(score.size), 0.0, [], 0.0
    for own, sign in ((~is_event, -1.0), (is_event, 1.0)):
        other = np.where(own, 0.0, share)
        others = np.add.reduceat(other, starts)
        placement = ((np.cumsum(others) - 0.5 * others) / other.sum())[tie][own]
        weight = share[own] / share[own].sum()
        area = min(max(float(weight @ placement), 0.0), 1.0)
        # with equal weights m/(m − 1) makes this DeLong's; (Σw)²/Σw² stands for m
        size = 1.0 / float((weight**2).sum())
        away = weight * (placement - area)
        scale = size / max(size - 1.0, 1e-9)
        influence[order[own]] = sign * math.sqrt(scale) * away
        spread = float((away**2).sum()) * scale * size if size > _SINGLE else math.nan
        sizes.append(size)
    low, high = ranked[~is_event], ranked[is_event]
    is_tied = bool(ranked[0] == ranked[-1])
    is_apart = high[0] > low[-1] or high[-1] < low[0]
    return _Placements(area, influence, spread, min(sizes), bool(is_tied or is_apart), is_tied)
