"""A decomposition is a matrix of rows: terms, residual, contributions, comparisons; CORP and the resolution form."""

from __future__ import annotations

from scoreprism.decomposition._advice import Summary
from scoreprism.decomposition._classical import corp_decomposition, resolution_decomposition
from scoreprism.decomposition._result import Decomposition, PairedDifference
from scoreprism.decomposition._table import Contributions

__all__ = [
    "Contributions",
    "Decomposition",
    "PairedDifference",
    "Summary",
    "corp_decomposition",
    "resolution_decomposition",
]
