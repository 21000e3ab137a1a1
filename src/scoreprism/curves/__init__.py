"""The numbers behind every figure: reliability, Murphy, ROC, resolution, grouping and decision curves."""

from scoreprism.curves._calibration_map import CalibrationMap, calibration_map
from scoreprism.curves._curve import Curve
from scoreprism.curves._decision_curves import (
    NetBenefit,
    RocCurve,
    ScoreDistribution,
    net_benefit,
    roc_curve,
    score_distribution,
)
from scoreprism.curves._decision_loss import DecisionLoss
from scoreprism.curves._grouping_curve import GroupingCurve, grouping_curve
from scoreprism.curves._murphy_curve import MurphyCurve, murphy_curve
from scoreprism.curves._murphy_decomposition import MurphyDecomposition, decision_loss, murphy_decomposition
from scoreprism.curves._reliability_curve import ReliabilityCurve, reliability_curve
from scoreprism.curves._resolution_plane import ResolutionPlane, resolution_plane

__all__ = [
    "CalibrationMap",
    "Curve",
    "DecisionLoss",
    "GroupingCurve",
    "MurphyCurve",
    "MurphyDecomposition",
    "NetBenefit",
    "ReliabilityCurve",
    "ResolutionPlane",
    "RocCurve",
    "ScoreDistribution",
    "calibration_map",
    "decision_loss",
    "grouping_curve",
    "murphy_curve",
    "murphy_decomposition",
    "net_benefit",
    "reliability_curve",
    "resolution_plane",
    "roc_curve",
    "score_distribution",
]
