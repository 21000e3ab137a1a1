"""Holm's adjustment for several tests."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np

_Key = TypeVar("_Key", bound=Hashable)
#: Adjusted p-values below this are marked in tables and figures.
MARKED = 0.05


def holm(pvalues: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment."""
    p = np.asarray(pvalues, dtype=np.float64)
    adjusted = np.full(p.size, np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    steps = p[order] * np.arange(order.size, 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return [float(value) for value in adjusted]


def holm_by_name(pvalues: Mapping[_Key, float]) -> dict[_Key, float]:
    """Holm's step-down adjustment of p-values that have names."""
    return dict(zip(pvalues, holm(list(pvalues.values())), strict=True))
