"""Decompositions where the data lives: one pass in its engine, sums come back, laws are fitted to the sums.

Names are loaded when first used: looking at the columns of files is light, decomposing is not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scoreprism.scale._apply import apply
    from scoreprism.scale._decompose_columns import aggregate, decompose
    from scoreprism.scale._drift import Drift
    from scoreprism.scale._engines import ENGINES, scan
    from scoreprism.scale._scaled_result import ClassDecomposition, ScaledDecomposition
    from scoreprism.scale._shift import Shifts
    from scoreprism.scale._sums import Sums

__all__ = [
    "ENGINES",
    "ClassDecomposition",
    "Drift",
    "ScaledDecomposition",
    "Shifts",
    "Sums",
    "aggregate",
    "apply",
    "decompose",
    "scan",
]

_HOMES = {
    "ENGINES": "_engines",
    "ClassDecomposition": "_scaled_result",
    "Drift": "_drift",
    "Sums": "_sums",
    "ScaledDecomposition": "_scaled_result",
    "Shifts": "_shift",
    "apply": "_apply",
    "decompose": "_decompose_columns",
    "scan": "_engines",
    "aggregate": "_decompose_columns",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(f"scoreprism.scale.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'scoreprism.scale' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
