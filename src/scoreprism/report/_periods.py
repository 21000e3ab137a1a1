"""Times as periods: days, weeks, months, quarters or years, whichever leaves enough rows in each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Periods at most, and rows that half of them should have.
MOST, ENOUGH = 24, 200


def _days(moments: NDArray[Any]) -> NDArray[Any]:
    return moments.astype("datetime64[D]").astype(str)


def _weeks(moments: NDArray[Any]) -> NDArray[Any]:
    days = moments.astype("datetime64[D]").astype(np.int64)
    monday = days - (days + 3) % 7  # 1970-01-01 was a Thursday
    return np.char.add("week of ", monday.astype("datetime64[D]").astype(str))


def _months(moments: NDArray[Any]) -> NDArray[Any]:
    return moments.astype("datetime64[M]").astype(str)


def _quarters(moments: NDArray[Any]) -> NDArray[Any]:
    months = moments.astype("datetime64[M]").astype(np.int64)
    year, quarter = 1970 + months // 12, 1 + (months % 12) // 3
    return np.array([f"{y}-Q{q}" for y, q in zip(year.tolist(), quarter.tolist(), strict=True)])


def _years(moments: NDArray[Any]) -> NDArray[Any]:
    return moments.astype("datetime64[Y]").astype(str)


#: From fine to coarse: the labels of each sort in the order of time.
CALENDAR: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "days": _days,
    "weeks": _weeks,
    "months": _months,
    "quarters": _quarters,
    "years": _years,
}


def periods(time: NDArray[Any]) -> tuple[str, NDArray[Any]]:
    """The period of each row."""
    if time.dtype.kind == "M":
        return _calendar(time)
    if np.unique(time).size <= MOST or time.dtype.kind not in "iuf":
        return "periods", sortable(time)
    cuts = np.quantile(time, np.arange(1, 10) / 10, method="inverted_cdf")
    part = np.searchsorted(np.unique(cuts), time, side="left")
    names = []
    for p in range(int(part.max()) + 1):
        inside = time[part == p]
        names.append(f"{p + 1:02d}: {inside.min()} to {inside.max()}" if inside.size else "")
    return "ranges of equal size", np.array(names)[part]


def _calendar(time: NDArray[Any]) -> tuple[str, NDArray[Any]]:
    best = None
    for what, labelled in CALENDAR.items():
        labels = labelled(time)
        _, counts = np.unique(labels, return_counts=True)
        if counts.size == 1:
            break  # coarser ones are one period too
        best = (what, labels)
        if counts.size <= MOST and np.median(counts) >= ENOUGH:
            break
    return best if best is not None else ("days", _days(time))


def sortable(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels as text; whole numbers of equal length, so that they sort as numbers do."""
    if labels.dtype.kind not in "iu":
        return labels.astype(str)
    width = max(len(str(value)) for value in (labels.min(), labels.max()))
    return np.array([f"{value:>{width}}" for value in labels.tolist()])
