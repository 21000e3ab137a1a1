"""Figures in scikit-learn's Display style: a display holds data, its ``plot`` only draws."""

from scoreprism._document.colours import house_style
from scoreprism.displays._class_figures import ClasswiseReliabilityDisplay
from scoreprism.displays._decomposition_bars import DecompositionDisplay
from scoreprism.displays._display import CurveDisplay, Display, ResultDisplay
from scoreprism.displays._drift_panels import DriftDisplay
from scoreprism.displays._estimate_figures import (
    ContributionsDisplay,
    EstimatesDisplay,
    MetricsDisplay,
    SampleSizeDisplay,
    TestDisplay,
)
from scoreprism.displays._monitor_figures import MonitorDisplay
from scoreprism.displays._murphy_figures import MurphyDecompositionDisplay, MurphyDisplay
from scoreprism.displays._pipeline_figures import PairedDisplay, PipelineBootstrapDisplay, SplitsDisplay
from scoreprism.displays._reliability_figure import ReliabilityDisplay
from scoreprism.displays._resolution_figure import ResolutionPlaneDisplay
from scoreprism.displays._score_figures import (
    CalibrationMapDisplay,
    GroupingDisplay,
    NetBenefitDisplay,
    RocDisplay,
    ScoreDistributionDisplay,
)
from scoreprism.displays._stage_figures import StageRecalibrationDisplay, StageSelectionDisplay, StagewiseDisplay
from scoreprism.displays._triptych import TriptychDisplay

__all__ = [
    "DISPLAYS",
    "CalibrationMapDisplay",
    "ClasswiseReliabilityDisplay",
    "ContributionsDisplay",
    "CurveDisplay",
    "DecompositionDisplay",
    "Display",
    "DriftDisplay",
    "EstimatesDisplay",
    "GroupingDisplay",
    "MetricsDisplay",
    "MonitorDisplay",
    "MurphyDecompositionDisplay",
    "MurphyDisplay",
    "NetBenefitDisplay",
    "PairedDisplay",
    "PipelineBootstrapDisplay",
    "ReliabilityDisplay",
    "ResolutionPlaneDisplay",
    "ResultDisplay",
    "RocDisplay",
    "SampleSizeDisplay",
    "ScoreDistributionDisplay",
    "SplitsDisplay",
    "StageRecalibrationDisplay",
    "StageSelectionDisplay",
    "StagewiseDisplay",
    "TestDisplay",
    "TriptychDisplay",
    "house_style",
]

#: Every display by name: the one table that code, command line, report, documentation and tests iterate over.
DISPLAYS: dict[str, type[Display]] = {
    "reliability": ReliabilityDisplay,
    "classwise-reliability": ClasswiseReliabilityDisplay,
    "murphy": MurphyDisplay,
    "triptych": TriptychDisplay,
    "resolution-plane": ResolutionPlaneDisplay,
    "decomposition": DecompositionDisplay,
    "murphy-decomposition": MurphyDecompositionDisplay,
    "grouping": GroupingDisplay,
    "calibration-map": CalibrationMapDisplay,
    "roc": RocDisplay,
    "net-benefit": NetBenefitDisplay,
    "score-distribution": ScoreDistributionDisplay,
    "metrics": MetricsDisplay,
    "stagewise": StagewiseDisplay,
    "stage-selection": StageSelectionDisplay,
    "stage-recalibration": StageRecalibrationDisplay,
    "pipeline-bootstrap": PipelineBootstrapDisplay,
    "paired-comparison": PairedDisplay,
    "splits": SplitsDisplay,
    "drift": DriftDisplay,
    "monitor": MonitorDisplay,
    "estimates": EstimatesDisplay,
    "test": TestDisplay,
    "sample-size": SampleSizeDisplay,
    "contributions": ContributionsDisplay,
}
