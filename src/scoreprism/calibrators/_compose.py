"""A binary calibrator for each class against the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.base import clone

from scoreprism._core.numerics import log_softmax
from scoreprism._core.simplex import FloatArray
from scoreprism._maps.parts import Map, Part, require
from scoreprism._sample.fit_rows import Data
from scoreprism.calibrators._base import Calibrator
from scoreprism.calibrators._isotonic import IsotonicCalibrator


@dataclass(frozen=True)
class OneVsRestMap(Part):
    """Binary maps of the columns, divided by their sum."""

    tag = "one-vs-rest"

    kind: str
    maps: tuple[Part, ...]

    def check(self) -> None:
        require(all(callable(m) for m in self.maps) and len(self.maps) > 2, "OneVsRestMap.maps", "a map per class")

    def __call__(self, score: FloatArray) -> FloatArray:
        law = np.exp(log_softmax(score)) if self.kind == "logit" else score
        columns = [m(np.ascontiguousarray(law[:, j])) for j, m in enumerate(self.maps)]  # type: ignore[operator]
        joined = np.column_stack(columns)
        total = joined.sum(axis=1, keepdims=True)
        law_of_all: FloatArray = np.full_like(joined, 1.0 / joined.shape[1])
        np.divide(joined, total, out=law_of_all, where=total > 0.0)
        return law_of_all


class OneVsRestCalibrator(Calibrator):
    """
    A binary map for each class against the others, then divided by the sum.

    Parameters
    ----------
    calibrator : str or Calibrator, optional
        The binary calibrator or its name, copied for each class; by default `IsotonicCalibrator`.
    kind : {"probability", "logit"}, default="probability"
        What scores are.

    Notes
    -----
    Dividing by the sum leaves the class-wise calibration that the binary maps achieved only approximately
    intact. With two classes it is the binary calibrator itself.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.calibrators import BetaCalibrator, OneVsRestCalibrator
    >>> rng = np.random.default_rng(0)
    >>> law = rng.dirichlet([1, 1, 1], 4000)
    >>> y = (rng.random(4000)[:, None] > law.cumsum(axis=1)).sum(axis=1)
    >>> rest = OneVsRestCalibrator(BetaCalibrator()).fit(law, y)
    >>> bool(np.abs(rest.predict_proba(law) - law).mean() < 0.02)
    True
    """

    name = "one-vs-rest"
    multiclass = True

    def __init__(self, calibrator: str | Calibrator | None = None, *, kind: str = "probability") -> None:
        self.calibrator = calibrator
        self.kind = kind

    def _fit(self, data: Data) -> Map:
        from scoreprism.calibrators import get_calibrator

        binary = IsotonicCalibrator() if self.calibrator is None else get_calibrator(self.calibrator)
        if data.k == 2:
            return clone(binary).set_params(kind=data.kind)._fit(data)  # type: ignore[no-any-return]
        law = np.exp(log_softmax(data.score)) if data.kind == "logit" else data.score
        maps = []
        for j in range(data.k):
            column = Data(
                np.ascontiguousarray(law[:, j]), (data.codes == j).astype(np.intp), data.weight, 2, "probability"
            )
            maps.append(clone(binary).set_params(kind="probability")._fit(column))
        return OneVsRestMap(data.kind, tuple(maps))
