"""German credit: the standard deviations that the paper prints, beside ours."""

from __future__ import annotations

from dataclasses import replace
from math import hypot, sqrt

import numpy as np

from reproduction.checks import Check, beside
from reproduction.members import german_main, over_splits
from reproduction.printed import PRINTED
from reproduction.work import Work
from scoreprism._core.simplex import FloatArray

_PREFIX = "spread/"


def spreads(work: Work) -> list[Check]:
    """
    Standard deviations of tab:robustness and of the paired differences.

    Parameters
    ----------
    work : Work
        Where it is computed.

    Returns
    -------
    list of Check
        In the order of the paper.
    """
    return [_spread(work, key) for key in PRINTED if key.startswith(_PREFIX)]


def relative_error(values: FloatArray, runs: int) -> float:
    """
    Standard error of a standard deviation over so many runs, as a share of it.

    Heavy tails make it larger: √((κ − 1)/4n), κ the kurtosis of the values that we have.

    Parameters
    ----------
    values : array of shape (splits,)
        Ours.
    runs : int
        Over how many the standard deviation is taken.

    Returns
    -------
    float
        About 1/√(2n) for normal values.

    Examples
    --------
    >>> round(relative_error(np.random.default_rng(0).normal(size=100_000), 100), 3)
    0.071
    """
    gap = values - values.mean()
    second = float((gap**2).mean())
    kurtosis = float((gap**4).mean()) / second**2 if second > 0 else 1.0
    return sqrt(max(kurtosis - 1.0, 0.0) / (4 * runs))


def _spread(work: Work, key: str) -> Check:
    values, printed = _values(work, key), PRINTED[key]
    ours = float(values.std(ddof=1))
    paper = relative_error(values, PRINTED[_mean_of(key)].runs) * printed.value
    check = beside(key, ours, hypot(paper, relative_error(values, values.size) * ours))
    return replace(check, why=_reason(work, check)) if check.verdict == "not reproduced" else check


def _mean_of(key: str) -> str:
    """The mean that a standard deviation belongs to."""
    mean = key.removeprefix(_PREFIX)
    return mean if mean.startswith("robustness/") else f"{mean}/mean"


def _values(work: Work, key: str) -> FloatArray:
    """A number of each split, or its difference from the average's."""
    frame, (kind, *parts) = german_main(work), key.removeprefix(_PREFIX).split("/")
    if kind == "robustness":
        loss, column, method = parts
        return over_splits(frame, loss, method, column)
    column, method = parts
    return over_splits(frame, "log", method, column) - over_splits(frame, "log", "average", column)


def _reason(work: Work, check: Check) -> str:
    told = f"Ours is {abs((check.ours or 0.0) - (check.paper or 0.0)) / (check.tolerance or 1.0):.2f} tolerances away."
    splits, runs = _values(work, check.key).size, PRINTED[_mean_of(check.key)].runs
    if splits < runs:
        told += f" From {splits} of the paper's {runs} splits: so few tell little of heavy tails, and of the tolerance."
    kind, column, *rest = check.key.removeprefix(_PREFIX).split("/")
    if kind != "tests":
        return told
    (method,) = rest
    one, base = (PRINTED[f"{_PREFIX}robustness/log/{column}/{name}"].value for name in (method, "average"))
    implied = (one**2 + base**2 - PRINTED[check.key].value ** 2) / (2 * one * base)
    frame = german_main(work)
    ours = float(np.corrcoef([over_splits(frame, "log", name, column) for name in (method, "average")])[0, 1])
    return (
        f"{told} With the standard deviations of tab:robustness it implies a correlation of {implied:+.2f} between "
        f"{method} and average; ours is {ours:+.2f}."
    ).replace("-", "−")
