"""Ensembles: pools and stacking, what aggregation costs, and models that grow stage by stage (paper, section 5)."""

from __future__ import annotations

from scoreprism.ensembles._actions import ACTIONS, Actions
from scoreprism.ensembles._aggregate import AGGREGATES
from scoreprism.ensembles._aggregation import AggregationDecomposition, aggregation_decomposition
from scoreprism.ensembles._combiner import Combiner
from scoreprism.ensembles._gap import AveragingGap, averaging_gap
from scoreprism.ensembles._learned import BetaTransformedPool, LinearPool, LogPool
from scoreprism.ensembles._pools import POOLS, average, beta_transformed_pool, log_pool, weighted_average
from scoreprism.ensembles._stacking import Stacking
from scoreprism.ensembles._sufficiency import SUFFICIENCY_TESTS, sufficiency_test

__all__ = [
    "ACTIONS",
    "AGGREGATES",
    "COMBINERS",
    "POOLS",
    "SUFFICIENCY_TESTS",
    "Actions",
    "AggregationDecomposition",
    "AveragingGap",
    "BetaTransformedPool",
    "Combiner",
    "LinearPool",
    "LogPool",
    "Stacking",
    "aggregation_decomposition",
    "average",
    "averaging_gap",
    "beta_transformed_pool",
    "log_pool",
    "sufficiency_test",
    "weighted_average",
]

#: Every combiner that is fitted to outcomes.
COMBINERS: dict[str, type[Combiner]] = {cls.name: cls for cls in (LinearPool, LogPool, BetaTransformedPool, Stacking)}
