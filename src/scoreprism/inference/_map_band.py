"""A recalibrated law with pointwise intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scoreprism._core.frames import make_frame
from scoreprism._core.simplex import FloatArray
from scoreprism._document.result_json import encode


@dataclass(frozen=True, eq=False, repr=False)
class MapBand:
    """
    A recalibrated law with pointwise intervals.

    Made by `MapInference.law`.

    Attributes
    ----------
    score : array of shape (m,) or (m, K)
        Scores.
    law : array of shape (m,) or (m, K)
        The recalibrated law.
    low, high : array of shape (m,) or (m, K)
        Ends of the intervals, normal on the logit scale.
    level : float
        Confidence level of each point.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.inference import map_inference
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(500)
    >>> band = map_inference("platt", rng.random(500) < s, s).law([0.2, 0.8])
    >>> bool(((band.low < [0.2, 0.8]) & (band.high > [0.2, 0.8])).all())
    True
    """

    score: FloatArray
    law: FloatArray
    low: FloatArray
    high: FloatArray
    level: float
    _backend: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """
        All fields as plain values.

        Returns
        -------
        dict
            Ready for JSON.
        """
        columns = {name: getattr(self, name).tolist() for name in ("score", "law", "low", "high")}
        found: dict[str, Any] = encode(columns | {"level": self.level})
        return found

    def to_frame(self, backend: str | None = None) -> Any:
        """
        The points as a dataframe.

        Parameters
        ----------
        backend : str, optional
            "polars", "pandas" or "pyarrow"; the library the data came in, else polars.

        Returns
        -------
        frame
            One row per score; columns are numbered by class where there are more than two.
        """
        columns: dict[str, Any] = {}
        for name in ("score", "law", "low", "high"):
            values = getattr(self, name)
            parts = {name: values} if values.ndim == 1 else {f"{name}_{j}": v for j, v in enumerate(values.T)}
            columns |= {key: value.tolist() for key, value in parts.items()}
        return make_frame(columns, backend or self._backend)

    def __repr__(self) -> str:
        return f"MapBand: {self.score.shape[0]} scores, pointwise {100 * self.level:g} % intervals"
