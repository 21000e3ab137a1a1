"""The numbers behind every figure: reliability, Murphy, ROC, resolution, grouping and decision curves."""

from scoreprism.curves._base import Curve
from scoreprism.curves._reliability import ReliabilityCurve, reliability_curve

__all__ = ["Curve", "ReliabilityCurve", "reliability_curve"]
