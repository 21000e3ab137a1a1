"""Ensembles: pools and stacking, what aggregation costs, and models that grow stage by stage (paper, section 5)."""

from __future__ import annotations

from scoreprism.ensembles._combiner import Combiner
from scoreprism.ensembles._learned import BetaTransformedPool, LinearPool, LogPool
from scoreprism.ensembles._pools import POOLS, average, beta_transformed_pool, log_pool, weighted_average
from scoreprism.ensembles._stacking import Stacking

__all__ = [
    "COMBINERS",
    "POOLS",
    "BetaTransformedPool",
    "Combiner",
    "LinearPool",
    "LogPool",
    "Stacking",
    "average",
    "beta_transformed_pool",
    "log_pool",
    "weighted_average",
]

#: Every combiner that is fitted to outcomes.
COMBINERS: dict[str, type[Combiner]] = {cls.name: cls for cls in (LinearPool, LogPool, BetaTransformedPool, Stacking)}
