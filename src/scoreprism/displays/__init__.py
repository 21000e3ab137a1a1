"""Figures in scikit-learn's Display style: a display holds data, its ``plot`` only draws."""

from typing import Any

from scoreprism._document.colours import house_style
from scoreprism.displays import _drift_panels, _pipeline_figures  # noqa: F401 - figures of results enter themselves
from scoreprism.displays._decomposition_bars import DecompositionDisplay
from scoreprism.displays._display import Display
from scoreprism.displays._murphy_figures import MurphyDecompositionDisplay, MurphyDisplay
from scoreprism.displays._reliability_figure import ReliabilityDisplay
from scoreprism.displays._resolution_figure import ResolutionPlaneDisplay
from scoreprism.displays._score_figures import (
    CalibrationMapDisplay,
    GroupingDisplay,
    NetBenefitDisplay,
    RocDisplay,
    ScoreDistributionDisplay,
)
from scoreprism.displays._stage_figures import StagewiseDisplay
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
