"""The material of a calibration test: scores, weights and outcomes, sorted, so that the order of rows is forgotten."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scoreprism._validation import GivenLaw, parse_law
from scoreprism.decomposition._rows import Sheet
from scoreprism.frames import column_names
from scoreprism.simplex import ArrayLike, FloatArray, IntArray, as_matrix, as_vector, n_classes, pick


@dataclass(frozen=True)
class Scored:
    """
    Rows that have weight, sorted by score.

    Attributes
    ----------
    law : array of shape (n,) or (n, K)
        Scores; two classes are always one column.
    weight : array of shape (n,)
        Weights with mean 1.
    y : integer array of shape (n,)
        Outcomes.
    impossible : bool
        Whether something happened to which its score gave probability 0.
    """

    law: FloatArray
    weight: FloatArray
    y: IntArray
    impossible: bool

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.y.shape[0])

    @property
    def k(self) -> int:
        """Number of classes."""
        return n_classes(self.law)

    def draw(self, rng: np.random.Generator, m: int) -> FloatArray | IntArray:
        """Outcomes Y* ~ Cat(S): zeros and ones for two classes, codes for more; m lines."""
        uniform = rng.random((m, self.n))  # in [0, 1): what has probability 0 is not drawn, what has 1 always is
        if self.law.ndim == 1:
            return (uniform < self.law).astype(np.float64)
        cumulative = np.cumsum(self.law, axis=1)
        cumulative /= cumulative[:, -1:]
        codes = np.zeros((m, self.n), dtype=np.intp)
        for k in range(self.k - 1):
            codes += uniform >= cumulative[:, k]
        return codes

    @property
    def observed(self) -> FloatArray | IntArray:
        """The outcomes in the shape of one draw."""
        return self.y[None].astype(np.float64) if self.law.ndim == 1 else self.y[None]


def parse_scored(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    sample_weight: ArrayLike | None,
    pos_label: object,
    classes: ArrayLike | None,
) -> Scored:
    """Parse at the border; rows without weight are absent, and the order of rows is forgotten."""
    given = GivenLaw("y_proba", parse_law(y_proba, "y_proba"), None, column_names(y_proba))
    sheet = Sheet.of(y_true, [given], sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    law, y = sheet.laws[0], sheet.y
    weight = np.ones(sheet.n) if sheet.weight is None else sheet.weight
    impossible = bool((pick(as_matrix(law), y)[weight > 0] == 0.0).any())
    if n_classes(law) == 2:
        law = as_vector(law)
    keys = (y, weight, *(law.T[::-1] if law.ndim == 2 else (law,)))
    order = np.lexsort(keys)
    order = order[weight[order] > 0]
    weight = weight[order] / weight[order].mean()
    return Scored(law[order], weight, y[order], impossible)
