"""Ensembles: pools and stacking, what aggregation costs, and models that grow stage by stage (paper, section 5)."""

from __future__ import annotations

from scoreprism.ensembles._aggregation import (
    ACTIONS,
    Actions,
    AggregationDecomposition,
    aggregation_decomposition,
)
from scoreprism.ensembles._averaging_gap import AveragingGap, averaging_gap
from scoreprism.ensembles._combiners import BetaTransformedPool, Combiner, LinearPool, LogPool
from scoreprism.ensembles._ensemble import AGGREGATES, COMBINERS
from scoreprism.ensembles._pools import POOLS, average, beta_transformed_pool, log_pool, weighted_average
from scoreprism.ensembles._recalibrated_stages import StageRecalibration, recalibrate_stages
from scoreprism.ensembles._refined_boosting import RefinedBoostingClassifier
from scoreprism.ensembles._stacking import Stacking
from scoreprism.ensembles._stage_selection import SelectionTable, StageSelection, refinement_loss, select_stage
from scoreprism.ensembles._stage_tables import Amount
from scoreprism.ensembles._stagewise_chain import StageTable, StagewiseDecomposition, stagewise_decomposition
from scoreprism.ensembles._stopping import (
    LightgbmRefinementStopping,
    lightgbm_refinement_stopping,
    xgboost_refinement_stopping,
)
from scoreprism.ensembles._sufficiency_test import SUFFICIENCY_TESTS, sufficiency_test

__all__ = [
    "ACTIONS",
    "AGGREGATES",
    "COMBINERS",
    "POOLS",
    "SUFFICIENCY_TESTS",
    "Actions",
    "AggregationDecomposition",
    "Amount",
    "AveragingGap",
    "BetaTransformedPool",
    "Combiner",
    "LightgbmRefinementStopping",
    "LinearPool",
    "LogPool",
    "RefinedBoostingClassifier",
    "SelectionTable",
    "Stacking",
    "StageRecalibration",
    "StageSelection",
    "StageTable",
    "StagewiseDecomposition",
    "aggregation_decomposition",
    "average",
    "averaging_gap",
    "beta_transformed_pool",
    "lightgbm_refinement_stopping",
    "log_pool",
    "recalibrate_stages",
    "refinement_loss",
    "select_stage",
    "stagewise_decomposition",
    "sufficiency_test",
    "weighted_average",
    "xgboost_refinement_stopping",
]
