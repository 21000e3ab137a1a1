"""Figures in scikit-learn's Display style: a display holds data, its ``plot`` only draws."""

from typing import Any

from scoreprism.displays import _drift_panels, _pipeline, _splits, _stages  # noqa: F401 - figures of results, which enter themselves
from scoreprism.displays._base import Display
from scoreprism.displays._decomposition import DecompositionDisplay
from scoreprism.displays._grouping import GroupingDisplay
from scoreprism.displays._maps import CalibrationMapDisplay
from scoreprism.displays._murphy import MurphyDecompositionDisplay, MurphyDisplay
from scoreprism.displays._plane import ResolutionPlaneDisplay
from scoreprism.displays._reliability import ReliabilityDisplay
from scoreprism.displays._simple import NetBenefitDisplay, RocDisplay, ScoreDistributionDisplay
from scoreprism.displays._stagewise import StagewiseDisplay
from scoreprism.displays._style import house_style
from scoreprism.displays._triptych import TriptychDisplay

__all__ = [
    "DISPLAYS",
    "CalibrationMapDisplay",
    "DecompositionDisplay",
    "Display",
    "GroupingDisplay",
    "MurphyDecompositionDisplay",
    "MurphyDisplay",
    "NetBenefitDisplay",
    "ReliabilityDisplay",
    "ResolutionPlaneDisplay",
    "RocDisplay",
    "ScoreDistributionDisplay",
    "StagewiseDisplay",
    "TriptychDisplay",
    "house_style",
]

#: Every display by name: the one table that code, command line, report, documentation and tests iterate over.
DISPLAYS: dict[str, type[Display[Any]]] = {
    "reliability": ReliabilityDisplay,
    "murphy": MurphyDisplay,
    "triptych": TriptychDisplay,
    "resolution-plane": ResolutionPlaneDisplay,
    "decomposition": DecompositionDisplay,
    "murphy-decomposition": MurphyDecompositionDisplay,
    "grouping": GroupingDisplay,
    "calibration-map": CalibrationMapDisplay,
    "stagewise": StagewiseDisplay,
    "roc": RocDisplay,
    "net-benefit": NetBenefitDisplay,
    "score-distribution": ScoreDistributionDisplay,
}
