"""Ensembles: pools and stacking, what aggregation costs, and models that grow stage by stage (paper, section 5)."""

from __future__ import annotations

from scoreprism.ensembles._select import SelectionTable, StageSelection, refinement_loss, select_stage
from scoreprism.ensembles._stage_results import Amount, StageTable, StagewiseDecomposition
from scoreprism.ensembles._stagewise import stagewise_decomposition

__all__ = [
    "Amount",
    "SelectionTable",
    "StageSelection",
    "StageTable",
    "StagewiseDecomposition",
    "refinement_loss",
    "select_stage",
    "stagewise_decomposition",
]
