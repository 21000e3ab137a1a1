"""Rows as points: coordinates of all of them, and who is near whom, found once for all folds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.simplex import IntArray
from scoreprism._kernels.nearest import find_nearest

Points = NDArray[np.float32]

#: Coordinates that distances are taken in, those of most variance, and neighbours that are kept of each row.
_NEAR, _KEPT = 64, 64
#: Rows that neighbours are sought among, drawn at random from more.
_CANDIDATES = 20_000


@dataclass(frozen=True, eq=False)
class PointCloud:
    """The coordinates of rows; outcomes play no part in them."""

    coordinates: Points  # (n, r)

    @cached_property
    def _axes(self) -> IntArray:
        """The coordinates that distances are taken in."""
        return np.sort(np.argsort(-self.coordinates.var(axis=0), kind="stable")[:_NEAR])

    @cached_property
    def _near(self) -> Points:
        return np.ascontiguousarray(self.coordinates[:, self._axes])

    @cached_property
    def _nearest(self) -> NDArray[np.int32]:
        """The rows nearest to each row, itself not among them."""
        rows = np.arange(self._near.shape[0])
        if rows.size > _CANDIDATES:
            rows = np.sort(np.random.default_rng(0).choice(rows.size, _CANDIDATES, replace=False))
        own = np.full(self._near.shape[0], -1)
        own[rows] = np.arange(rows.size)
        return rows.astype(np.int32)[find_nearest(self._near[rows], self._near, _KEPT, own)]

    def find_neighbours(self, rows: IntArray, other: PointCloud, queries: IntArray, count: int) -> IntArray:
        """
        Positions among `rows` of the nearest of them, for some rows of another cloud (or of this); −1 for none.

        No row is a neighbour of itself. Where `rows` are most of the cloud, they are picked from one search in all.
        """
        place = np.full(self._near.shape[0], -1)
        place[rows] = np.arange(rows.size)
        if other is self and 2 * rows.size >= place.size:
            found = place[self._nearest[queries]]
            known_first = np.argsort(found < 0, axis=1, kind="stable")[:, :count]
            return np.take_along_axis(found, known_first, axis=1)
        some = rows
        if rows.size > _CANDIDATES:
            some = np.sort(np.random.default_rng(0).choice(rows, _CANDIDATES, replace=False))
        points = np.ascontiguousarray(other.coordinates[queries][:, self._axes])
        own = None
        if other is self:
            position = np.full(place.size, -1)
            position[some] = np.arange(some.size)
            own = position[queries]
        return place[some][find_nearest(self._near[some], points, count, own)]
