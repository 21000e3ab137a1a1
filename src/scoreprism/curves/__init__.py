"""The numbers behind every figure: reliability, Murphy, ROC, resolution, grouping and decision curves."""

from scoreprism.curves._base import Curve
from scoreprism.curves._decision_loss import DecisionLoss
from scoreprism.curves._decisions import NetBenefit, net_benefit
from scoreprism.curves._distribution import ScoreDistribution, score_distribution
from scoreprism.curves._grouping import GroupingCurve, grouping_curve
from scoreprism.curves._maps import CalibrationMap, calibration_map
from scoreprism.curves._murphy import MurphyCurve, murphy_curve
from scoreprism.curves._murphy_decomposition import MurphyDecomposition, decision_loss, murphy_decomposition
from scoreprism.curves._plane import ResolutionPlane, resolution_plane
from scoreprism.curves._reliability import ReliabilityCurve, reliability_curve
from scoreprism.curves._roc import RocCurve, roc_curve
from scoreprism.curves._stagewise import StagewiseCurve, stagewise_curve

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
    "StagewiseCurve",
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
    "stagewise_curve",
]
