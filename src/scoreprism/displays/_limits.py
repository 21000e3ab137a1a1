"""How much of the axis from 0 to 1 is shown: all of it, unless everything happens near one end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from scoreprism._core.checks import listed, refuse
from scoreprism._core.simplex import FloatArray
from scoreprism.curves import ScoreDistribution

#: Scores that all lie closer to 0 or 1 than this are looked at closely.
_CORNER = 0.35
#: Share of rows that may be left out of sight on either side.
_RARE = 0.005


def zoomed(zoom: Any, low: float, high: float) -> tuple[float, float]:
    """Limits of an axis of probabilities."""
    if zoom is None:
        return 0.0, 1.0
    if isinstance(zoom, str) and zoom == "auto":
        if high < _CORNER:
            return 0.0, _nice(high)
        return (1.0 - _nice(1.0 - low), 1.0) if low > 1.0 - _CORNER else (0.0, 1.0)
    pair = np.asarray(zoom, dtype=object).ravel()
    numbers = all(isinstance(value, (int, float, np.number)) for value in pair)
    if pair.size != 2 or not numbers or not 0.0 <= float(pair[0]) < float(pair[1]) <= 1.0:
        refuse('`zoom` must be "auto", None or two ascending numbers from 0 to 1', repr(zoom), "For example (0, 0.1).")
    return float(pair[0]), float(pair[1])


def require_finite(losses: Mapping[str, float], beside: str = "Pass") -> None:
    """Refuse to draw an infinite loss."""
    wrong = [name or "the model" for name, value in losses.items() if not np.isfinite(value)]
    if wrong:
        remedy = f"{beside} `clip`=1e-6, or `loss`='brier': a score of 0 or 1 was wrong."
        refuse("a loss that is drawn must be finite", f"an infinite one of {listed(wrong)}", remedy)


def _nice(value: float) -> float:
    """A round number a little above a small one."""
    if value <= 0.0:
        return 0.01
    unit = 10.0 ** np.floor(np.log10(value))
    return float(
        next(step * unit for step in (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0) if step * unit > value)
    )


def bulk(distribution: ScoreDistribution) -> tuple[float, float]:
    """Where nearly all scores lie."""
    reached = np.cumsum(distribution.mass)
    first = int(np.searchsorted(reached, _RARE))
    last = int(np.searchsorted(reached, 1.0 - _RARE - 1e-12))
    return float(distribution.edges[first]), float(distribution.edges[min(last + 1, reached.size)])


def coarser(
    distribution: ScoreDistribution, limits: tuple[float, float], bins: int = 50
) -> tuple[FloatArray, FloatArray]:
    """The part of a fine histogram that is seen, in bins that can be seen."""
    size = distribution.events.size
    first, last = (round(limit * size) for limit in limits)
    step = max((last - first) // bins, 1)
    starts = np.arange(first, max(last, first + 1), step)
    both = np.stack([distribution.events, distribution.others])
    mass = np.add.reduceat(both[:, :last], starts, axis=1)
    return np.append(distribution.edges[starts], distribution.edges[last]), mass
