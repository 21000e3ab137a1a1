"""Nearest neighbours by blocks of distances: no table of all pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.simplex import IntArray

Points = NDArray[np.float32]

#: Distances that are held at a time.
_BLOCK = 1 << 22


def find_nearest(points: Points, queries: Points, count: int, own: IntArray | None = None) -> NDArray[np.int32]:
    """
    Positions of the `count` nearest points of each query, nearest first, (queries, count).

    `own` is the position of each query among the points (−1 for none), which is no neighbour of itself.
    """
    count = min(count, points.shape[0] - (own is not None))
    found = np.empty((queries.shape[0], count), dtype=np.int32)
    squares = np.einsum("ij,ij->i", points, points)
    step = max(1, _BLOCK // points.shape[0])
    for first in range(0, queries.shape[0], step):
        rows = slice(first, first + step)
        distance = queries[rows] @ points.T  # that of a query from the origin is the same for all points
        distance *= -2.0
        distance += squares
        if own is not None:
            inside = np.flatnonzero(own[rows] >= 0)
            distance[inside, own[rows][inside]] = np.inf
        some = np.argpartition(distance, count - 1, axis=1)[:, :count]
        order = np.argsort(np.take_along_axis(distance, some, axis=1), axis=1, kind="stable")
        found[rows] = np.take_along_axis(some, order, axis=1)
    return found
