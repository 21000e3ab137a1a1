"""The map of a calibrator as a curve over all scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from scoreprism._core.checks import refuse
from scoreprism._core.simplex import ArrayLike, FloatArray, freeze
from scoreprism._parameters import described
from scoreprism._sample.sample import Sample
from scoreprism.calibrators import Calibrator, get_calibrator
from scoreprism.curves._curve import Curve, parse_binary

#: Points of a map.
_POINTS = 401


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CalibrationMap(Curve):
    """
    A recalibration map g over all scores.

    Made by `calibration_map`.

    Attributes
    ----------
    calibrator : Calibrator
        The fitted calibrator.
    x : array of shape (m,)
        Scores from 0 to 1.
    y : array of shape (m,)
        g(x).
    support : tuple of float
        Lowest and highest score of the data; outside it the map is extrapolated.

    Examples
    --------
    >>> calibration_map([0, 0, 1, 1, 0, 1], [0.1, 0.2, 0.4, 0.6, 0.7, 0.9], calibrator="isotonic").support
    (0.1, 0.9)
    """

    calibrator: Calibrator
    x: FloatArray
    y: FloatArray
    support: tuple[float, float]

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Which points lie within the scores of the data."""
        return (self.x >= self.support[0]) & (self.x <= self.support[1])

    def _points(self) -> dict[str, FloatArray]:
        return {"score": self.x, "calibrated": self.y}

    def _describe(self) -> str:
        return f"{type(self.calibrator).__name__}, scores from {self.support[0]:.4g} to {self.support[1]:.4g}"


@described(of_two=True)
def calibration_map(
    y_true: ArrayLike | Sample,
    y_proba: ArrayLike | None = None,
    *,
    calibrator: str | Calibrator = "monotone-spline",
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    name: str | None = None,
) -> CalibrationMap:
    """
    The map of a calibrator, as a curve over all scores.

    Parameters
    ----------
    calibrator : str or Calibrator, default="monotone-spline"
        A name in `CALIBRATORS`, or a calibrator; a fitted one is used as is, any other is fitted on these rows.
    name : str, optional
        Name of the curve; by default that of the calibrator.

    Returns
    -------
    CalibrationMap
        Points of the map.

    Examples
    --------
    >>> curve = calibration_map([0, 0, 1, 1, 0, 1], [0.1, 0.2, 0.4, 0.6, 0.7, 0.9], calibrator="platt")
    >>> bool((np.diff(curve.y) > 0).all())
    True
    """
    rows = parse_binary(y_true, y_proba, sample_weight, pos_label, classes)
    chosen = get_calibrator(calibrator)
    fitted = (
        chosen if chosen.__sklearn_is_fitted__() else clone(chosen).fit(rows.score, rows.y.astype(int), rows.weight)
    )
    x = np.unique(np.append(np.linspace(0.0, 1.0, _POINTS), [rows.score.min(), rows.score.max()]))
    y = np.asarray(fitted.calibrate(x))
    if y.ndim != 1:
        refuse("a map that can be drawn must be of two classes", f"{y.shape[1]} classes", "Fit it on two.")
    return CalibrationMap(
        name=chosen.name if name is None else name, n=rows.n, _backend=rows.backend, calibrator=fitted, x=freeze(x),
        y=freeze(y), support=(float(rows.score.min()), float(rows.score.max())),
    )  # fmt: skip
