"""The simplex Δ(𝒴): shapes of laws, one-hot outcomes and the one clipping policy.

A *law* is an array of probabilities, one row a case: shape ``(n,)`` is P(Y=1), shape ``(n, K)`` a point
of the simplex. ``(n, 2)`` and ``(n,)`` are two forms of the same law.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.arrays import count_up, namespace

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
#: What users may pass where an array is wanted; `_core/checks.py` narrows it.
ArrayLike = object


def n_classes(law: FloatArray) -> int:
    """Number of classes of a law."""
    return 2 if law.ndim == 1 else law.shape[1]


def as_matrix(law: FloatArray) -> FloatArray:
    """Write a law with one column a class."""
    if law.ndim == 2:
        return law
    matrix = np.empty((law.shape[0], 2))
    np.subtract(1.0, law, out=matrix[:, 0])
    matrix[:, 1] = law
    return matrix


def as_vector(law: FloatArray) -> FloatArray:
    """Write a two-class law as P(Y=1)."""
    return law if law.ndim == 1 else law[:, 1]


def narrow_law(law: FloatArray) -> FloatArray:
    """Write a two-class law as P(Y=1), contiguous; others stay as they are."""
    return np.ascontiguousarray(as_vector(law)) if n_classes(law) == 2 else law


def as_columns(values: FloatArray) -> FloatArray:
    """A table with rows first: a vector becomes its only column."""
    return values[:, None] if values.ndim == 1 else values


def unify(laws: Sequence[FloatArray]) -> list[FloatArray]:
    """
    Give several laws of the same classes the same number of dimensions.

    Vectors are widened rather than matrices narrowed: the first column of a matrix may hold
    ``1e-300``, which 1 minus the second column would lose.
    """
    if all(law.ndim == 1 for law in laws):
        return list(laws)
    return [as_matrix(law) for law in laws]


def one_hot(y: IntArray, k: int) -> FloatArray:
    """One-hot encoding of outcomes."""
    encoded = np.zeros((y.shape[0], k))
    encoded[np.arange(y.shape[0]), y] = 1.0
    return encoded


def one_hot_like(y: IntArray, law: FloatArray) -> FloatArray:
    """One-hot encoding of outcomes, in the shape and the place of a law."""
    if isinstance(law, np.ndarray):
        return one_hot(y, law.shape[1])
    xp = namespace(law)  # an array of another library
    return xp.astype(y[:, None] == count_up(law.shape[1], law)[None, :], law.dtype)


@lru_cache(maxsize=4)
def _row_starts(n: int, k: int) -> IntArray:
    """Flat index of the first entry of each row; cached, because many blocks have the same shape."""
    return np.arange(0, n * k, k)


def pick(matrix: FloatArray, y: IntArray) -> FloatArray:
    """The entry of each row in the column of its outcome."""
    n, k = matrix.shape
    if not isinstance(matrix, np.ndarray):
        xp = namespace(matrix)
        return xp.take(xp.reshape(matrix, (-1,)), count_up(n, matrix) * k + y)
    if matrix.flags.c_contiguous:  # a flat take is three times faster than two index arrays
        picked: FloatArray = matrix.reshape(-1).take(_row_starts(n, k) + y)
        return picked
    return matrix[np.arange(n), y]


def clip_law(law: FloatArray, distance: float | None) -> FloatArray:
    """
    Keep a law away from the boundary of the simplex: the one clipping policy. A distance of None clips nothing.

    Probabilities below `distance` are raised to it; for K ≥ 3 classes what was added is taken from the
    others in proportion to their excess over `distance`, so that rows still sum to one and rows that
    needed no clipping are returned bit for bit.
    """
    if distance is None:
        return law
    if law.ndim == 1:
        return np.clip(law, distance, 1.0 - distance)
    below = law < distance
    if not below.any():  # far cheaper than to look row by row
        return law
    low = below.any(axis=1)
    clipped = law.copy()
    rows = np.maximum(law[low], distance)
    excess = rows - distance
    room = 1.0 - law.shape[1] * distance
    total = excess.sum(axis=1, keepdims=True)
    clipped[low] = distance + excess * (room / np.where(total > 0, total, 1.0))
    return clipped


def freeze(array: FloatArray) -> FloatArray:
    """Return a read-only view, so that callers cannot change stored arrays."""
    view = array.view()
    view.flags.writeable = False
    return view
