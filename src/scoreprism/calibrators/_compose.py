"""A binary calibrator for each class against the others."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from scoreprism._core.numerics import log_softmax
from scoreprism._maps.parts import Map
from scoreprism._maps.softmax_map import OneVsRestMap
from scoreprism._sample.fit_rows import FitRows
from scoreprism.calibrators._calibrator import Calibrator, get_calibrator, rules
from scoreprism.calibrators._stepwise import IsotonicCalibrator


def _parse_binary(value: str | Calibrator | None, _name: str) -> Calibrator:
    return (IsotonicCalibrator() if value is None else get_calibrator(value))._parsed()


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
    _rules = rules(calibrator=_parse_binary)

    def __init__(self, calibrator: str | Calibrator | None = None, *, kind: str = "probability") -> None:
        self.calibrator = calibrator
        self.kind = kind

    def _fit(self, data: FitRows) -> Map:
        if data.k == 2:
            return self._fit_binary(data)  # type: ignore[no-any-return]
        law = np.exp(log_softmax(data.score)) if data.kind == "logit" else data.score
        hits = [(data.codes == j).astype(np.intp) for j in range(data.k)]
        columns = [np.ascontiguousarray(law[:, j]) for j in range(data.k)]
        parts = [FitRows(s, y, data.weight, 2, "probability") for s, y in zip(columns, hits, strict=True)]
        return OneVsRestMap(data.kind, tuple(self._fit_binary(part) for part in parts))

    def _fit_binary(self, data: FitRows) -> Any:
        return clone(self.calibrator).set_params(kind=data.kind)._fit(data)
