"""The numbers behind every figure: reliability, Murphy, ROC, resolution, grouping and decision curves."""

from scoreprism.curves._base import Curve

__all__ = ["Curve"]
