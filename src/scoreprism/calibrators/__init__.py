"""Recalibration maps C = P(Y | S) as scikit-learn estimators (paper, section 4 and appendix E).

A calibrator is a classifier whose features are scores. `CALIBRATORS` lists all of them by name;
`docs/calibrators.md` says which one to use when.
"""

from __future__ import annotations

from scoreprism.calibrators._calibrator import CALIBRATORS, Calibrator, from_dict, from_json, get_calibrator
from scoreprism.calibrators._kernel_smoothing import KernelCalibrator
from scoreprism.calibrators._parametric import (
    BetaCalibrator,
    IdentityCalibrator,
    PlattCalibrator,
    TemperatureCalibrator,
)
from scoreprism.calibrators._provenance import Provenance
from scoreprism.calibrators._recalibrated import RecalibratedClassifier
from scoreprism.calibrators._selected import SelectedCalibrator
from scoreprism.calibrators._softmax_maps import (
    DirichletCalibrator,
    MatrixScalingCalibrator,
    OneVsRestCalibrator,
    PolynomialCalibrator,
    StructuredMatrixCalibrator,
    VectorScalingCalibrator,
)
from scoreprism.calibrators._splines import MonotoneSplineCalibrator, NaturalSplineCalibrator, SplineCalibrator
from scoreprism.calibrators._stepwise import BinEffectsCalibrator, BinningCalibrator, IsotonicCalibrator, TreeCalibrator
from scoreprism.calibrators._venn_abers import VennAbersCalibrator

__all__ = [
    "CALIBRATORS",
    "BetaCalibrator",
    "BinEffectsCalibrator",
    "BinningCalibrator",
    "Calibrator",
    "DirichletCalibrator",
    "IdentityCalibrator",
    "IsotonicCalibrator",
    "KernelCalibrator",
    "MatrixScalingCalibrator",
    "MonotoneSplineCalibrator",
    "NaturalSplineCalibrator",
    "OneVsRestCalibrator",
    "PlattCalibrator",
    "PolynomialCalibrator",
    "Provenance",
    "RecalibratedClassifier",
    "SelectedCalibrator",
    "SplineCalibrator",
    "StructuredMatrixCalibrator",
    "TemperatureCalibrator",
    "TreeCalibrator",
    "VectorScalingCalibrator",
    "VennAbersCalibrator",
    "from_dict",
    "from_json",
    "get_calibrator",
]

CALIBRATORS.update(
    (cls.name, cls)
    for cls in (
        IdentityCalibrator,
        PlattCalibrator,
        TemperatureCalibrator,
        BetaCalibrator,
        IsotonicCalibrator,
        BinningCalibrator,
        BinEffectsCalibrator,
        KernelCalibrator,
        SplineCalibrator,
        NaturalSplineCalibrator,
        MonotoneSplineCalibrator,
        TreeCalibrator,
        VennAbersCalibrator,
        VectorScalingCalibrator,
        MatrixScalingCalibrator,
        StructuredMatrixCalibrator,
        DirichletCalibrator,
        PolynomialCalibrator,
        OneVsRestCalibrator,
        SelectedCalibrator,
    )
)
