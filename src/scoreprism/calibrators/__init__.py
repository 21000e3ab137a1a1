"""Recalibration maps C = P(Y | S) as scikit-learn estimators (paper, section 4 and appendix E).

A calibrator is a classifier whose features are scores. `CALIBRATORS` lists all of them by name;
`docs/calibrators.md` says which one to use when.
"""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from scoreprism._core.checks import listed, parse_choice, refuse
from scoreprism.calibrators._base import Calibrator
from scoreprism.calibrators._bins import BinEffectsCalibrator, BinningCalibrator
from scoreprism.calibrators._compose import OneVsRestCalibrator
from scoreprism.calibrators._files import from_dict, from_json
from scoreprism.calibrators._isotonic import IsotonicCalibrator
from scoreprism.calibrators._kernel import KernelCalibrator
from scoreprism.calibrators._multiclass import (
    DirichletCalibrator,
    MatrixScalingCalibrator,
    PolynomialCalibrator,
    VectorScalingCalibrator,
)
from scoreprism.calibrators._parametric import (
    BetaCalibrator,
    IdentityCalibrator,
    PlattCalibrator,
    TemperatureCalibrator,
)
from scoreprism.calibrators._provenance import Provenance
from scoreprism.calibrators._recalibrated import RecalibratedClassifier
from scoreprism.calibrators._selected import SelectedCalibrator
from scoreprism.calibrators._smooth import MonotoneSplineCalibrator, NaturalSplineCalibrator, SplineCalibrator
from scoreprism.calibrators._tree import TreeCalibrator
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
    "TemperatureCalibrator",
    "TreeCalibrator",
    "VectorScalingCalibrator",
    "VennAbersCalibrator",
    "from_dict",
    "from_json",
    "get_calibrator",
]

#: Every calibrator with a name: the one table that code, command line, documentation and tests iterate over.
CALIBRATORS: dict[str, type[Calibrator]] = {
    cls.name: cls
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
        DirichletCalibrator,
        PolynomialCalibrator,
        OneVsRestCalibrator,
        SelectedCalibrator,
    )
}


def get_calibrator(calibrator: str | Calibrator, **parameters: Any) -> Calibrator:
    """
    A calibrator by name.

    Parameters
    ----------
    calibrator : str or Calibrator
        A name in `CALIBRATORS`, or "auto" for `SelectedCalibrator`; a calibrator is returned as it is.
    **parameters : object
        Its parameters; with a calibrator, a copy that has them is returned.

    Returns
    -------
    Calibrator
        Not fitted, unless it came so.

    Examples
    --------
    >>> get_calibrator("isotonic", interpolation="step")
    IsotonicCalibrator(interpolation='step')
    """
    if isinstance(calibrator, Calibrator):
        return clone(calibrator).set_params(**parameters) if parameters else calibrator
    if isinstance(calibrator, type) and issubclass(calibrator, Calibrator):
        refuse("`calibrator` must be a calibrator or a name", calibrator.__name__, f"Pass {calibrator.__name__}().")
    name = "selected" if calibrator == "auto" else parse_choice(calibrator, CALIBRATORS, "calibrator")
    cls = CALIBRATORS[name]
    known = cls().get_params(deep=False)
    wrong = [word for word in parameters if word not in known]
    if wrong:
        refuse(f"{cls.__name__} takes the parameters {', '.join(known)}", listed(wrong), "Correct their names.")
    return cls(**parameters)
