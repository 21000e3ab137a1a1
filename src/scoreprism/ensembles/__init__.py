"""Ensembles: pools and stacking, what aggregation costs, and models that grow stage by stage (paper, section 5)."""

from __future__ import annotations

from scoreprism.ensembles._callbacks import (
    LightgbmRefinementStopping,
    lightgbm_refinement_stopping,
    xgboost_refinement_stopping,
)
from scoreprism.ensembles._recalibrate_stages import StageRecalibration, recalibrate_stages
from scoreprism.ensembles._refined import RefinedBoostingClassifier
from scoreprism.ensembles._select import refinement_loss, select_stage
from scoreprism.ensembles._selection import SelectionTable, StageSelection
from scoreprism.ensembles._stage_results import Amount, StageTable, StagewiseDecomposition
from scoreprism.ensembles._stagewise import stagewise_decomposition

__all__ = [
    "Amount",
    "LightgbmRefinementStopping",
    "RefinedBoostingClassifier",
    "SelectionTable",
    "StageRecalibration",
    "StageSelection",
    "StageTable",
    "StagewiseDecomposition",
    "lightgbm_refinement_stopping",
    "recalibrate_stages",
    "refinement_loss",
    "select_stage",
    "stagewise_decomposition",
    "xgboost_refinement_stopping",
]
