"""The numbers behind every figure: reliability, Murphy, ROC, resolution, grouping and decision curves."""

from scoreprism.curves._base import Curve
from scoreprism.curves._murphy import MurphyCurve, murphy_curve
from scoreprism.curves._murphy_decomposition import MurphyDecomposition, murphy_decomposition

__all__ = ["Curve", "MurphyCurve", "MurphyDecomposition", "murphy_curve", "murphy_decomposition"]
