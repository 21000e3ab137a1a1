"""
Laws of the models of a cross-fit, (models, n, K), of which only the parameters are kept.

They are computed a block of rows at a time, where the scores live. Arrays of the same shape take their place where they
are small.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.arrays import count_up, like, namespace, take, to_host, widen
from scoreprism._core.lazy_laws import ClassScores, LazyLaw, Rows, clip_block
from scoreprism._core.numerics import EDGE_OF_SHIFTS
from scoreprism._core.simplex import FloatArray, IntArray, pick
from scoreprism._maps.parts import Map
from scoreprism._maps.score_block import ScoreBlock


class ModelLaws(ABC):
    """Laws of several models on every row."""

    ndim = 3

    @property
    @abstractmethod
    def scores(self) -> ClassScores:
        """The scores they are functions of."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Number of models."""

    @abstractmethod
    def laws(self, block: ScoreBlock, models: Sequence[int]) -> list[Any]:
        """The laws of some models on a block of rows, in the precision of the scores."""

    @abstractmethod
    def take(self, rows: IntArray) -> ModelLaws:
        """Some of the rows."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Models, rows and classes."""
        return (self.count, *self.scores.shape)

    def read(self, rows: Rows) -> list[Any]:
        """The laws of all models on some rows in double precision, where the scores live."""
        return [widen(law) for law in self.laws(ScoreBlock(self.scores, rows), range(self.count))]

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, (int, np.integer)):
            return ModelLaw(self, int(key))
        if isinstance(key, tuple) and key[0] == slice(None):
            return np.stack([to_host(law) for law in self.read(key[1])])
        raise TypeError("laws of models are read by model, or by [:, rows]")

    def __iter__(self) -> Iterator[LazyLaw]:
        return (ModelLaw(self, m) for m in range(self.count))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(np.stack([law.whole for law in self]), dtype=dtype)


@dataclass(frozen=True, eq=False)
class ModelLaw(LazyLaw):
    """The law of one of several models on every row."""

    models: ModelLaws
    model: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.models.shape[1:]

    @property
    def place(self) -> Any:
        return self.models.scores.place

    def take(self, rows: IntArray) -> ModelLaw:
        return replace(self, models=self.models.take(rows))

    def block(self, rows: Rows) -> Any:
        return widen(self.models.laws(ScoreBlock(self.models.scores, rows), [self.model])[0])


@dataclass(frozen=True, eq=False)
class GatheredLaw(LazyLaw):
    """The law that each row has from its home model, which did not see it."""

    models: ModelLaws
    home: IntArray

    @property
    def shape(self) -> tuple[int, int]:
        return self.models.shape[1:]

    @property
    def place(self) -> Any:
        return self.models.scores.place

    def take(self, rows: IntArray) -> GatheredLaw:
        return GatheredLaw(self.models.take(rows), self.home[rows])

    def block(self, rows: Rows) -> Any:
        order, parts = zip(*((here, widen(law)) for here, law in self._read_by_home(rows)), strict=True)
        if len(parts) == 1:
            return parts[0]
        xp, places = namespace(parts[0]), np.concatenate(order)
        back = np.empty(places.size, dtype=np.int64)
        back[places] = np.arange(places.size)
        return xp.take(xp.concat(list(parts), axis=0), like(back, parts[0]), axis=0)

    def find_observed(self, codes: IntArray) -> FloatArray:
        """The probability of the class that occurred in each row."""
        observed = np.empty(self.home.size)
        for rows in self.blocks():
            for here, law in self._read_by_home(rows):
                places = rows.start + here
                observed[places] = to_host(widen(pick(law, like(codes[places], law))))
        return observed

    def _read_by_home(self, rows: Rows) -> Iterator[tuple[IntArray, Any]]:
        """For each home model which of these rows are its, and their laws in the precision of the scores."""
        some = np.arange(*rows.indices(self.shape[0])) if isinstance(rows, slice) else rows
        home = self.home[some]
        for model in (np.flatnonzero(np.bincount(home + 1)) - 1).tolist():  # −1: rows that no model leaves out
            here = np.flatnonzero(home == model)
            yield here, self.models.laws(ScoreBlock(self.models.scores, some[here]), [model])[0]


@dataclass(frozen=True, eq=False)
class FittedMaps(ModelLaws):
    """The map of each model, applied to the scores."""

    of: ClassScores
    maps: tuple[Map, ...]

    @property
    def scores(self) -> ClassScores:
        return self.of

    @property
    def count(self) -> int:
        return len(self.maps)

    def take(self, rows: IntArray) -> FittedMaps:
        return replace(self, of=self.of.take(rows))

    def laws(self, block: ScoreBlock, models: Sequence[int]) -> list[Any]:
        return [block.apply(self.maps[m]) for m in models]


@dataclass(frozen=True, eq=False)
class MixedMaps(ModelLaws):
    """Laws of candidates, mixed by the weights of each model."""

    candidates: tuple[ModelLaws, ...]
    shares: FloatArray  # (models, candidates)

    @property
    def scores(self) -> ClassScores:
        return self.candidates[0].scores

    @property
    def count(self) -> int:
        return self.candidates[0].count

    def take(self, rows: IntArray) -> MixedMaps:
        return replace(self, candidates=tuple(one.take(rows) for one in self.candidates))

    def laws(self, block: ScoreBlock, models: Sequence[int]) -> list[Any]:
        mixed = []
        for m in models:
            total: Any = None
            for candidate, share in zip(self.candidates, self.shares[m].tolist(), strict=True):
                if share > 1e-6:
                    part = share * candidate.laws(block, [m])[0]
                    total = part if total is None else total + part
            mixed.append(total / namespace(total).sum(total, axis=1, keepdims=True))
        return mixed


@dataclass(frozen=True, eq=False)
class ClassShifts(ModelLaws):
    """Laws whose log-odds of some classes are shifted, each by the cell of the row along the score of that class."""

    base: ModelLaws
    classes: IntArray  # (c,)
    place: IntArray  # (n, c): where the shift of each row and class is in the table
    factor: FloatArray  # (models, size): e to minus the shift
    floors: FloatArray  # (models,): how far laws are kept from 0

    @property
    def scores(self) -> ClassScores:
        return self.base.scores

    @property
    def count(self) -> int:
        return self.base.count

    def take(self, rows: IntArray) -> ClassShifts:
        return replace(self, base=self.base.take(rows), place=self.place[rows])

    def laws(self, block: ScoreBlock, models: Sequence[int]) -> list[Any]:
        laws = self.base.laws(block, models)
        where, shifted = self.place[block.rows], []
        for m, law in zip(models, laws, strict=True):
            xp = namespace(law)
            inside = xp.clip(law, EDGE_OF_SHIFTS, 1.0 - EDGE_OF_SHIFTS)
            factor = like(self._spread_out(self.factor[m][where], law.shape[1]), law, law.dtype)
            moved = inside / (inside + (1.0 - inside) * factor)
            moved = moved / xp.sum(moved, axis=1, keepdims=True)
            shifted.append(clip_block(moved, float(self.floors[m])))
        return shifted

    def _spread_out(self, factor: FloatArray, k: int) -> FloatArray:
        """Factors of some classes among those of all, the others unmoved."""
        if self.classes.size == k:
            return factor
        all_of_them = np.ones((factor.shape[0], k))
        all_of_them[:, self.classes] = factor
        return all_of_them


@dataclass(frozen=True, eq=False)
class TopShifts(ModelLaws):
    """Laws whose log-odds of the class with the largest score are shifted, by the cell of the row along that score."""

    base: ModelLaws
    top: IntArray  # (n,): the class
    cell: IntArray  # (n,)
    factor: FloatArray  # (models, cells): e to minus the shift

    @property
    def scores(self) -> ClassScores:
        return self.base.scores

    @property
    def count(self) -> int:
        return self.base.count

    def take(self, rows: IntArray) -> TopShifts:
        return replace(self, base=self.base.take(rows), top=self.top[rows], cell=self.cell[rows])

    def laws(self, block: ScoreBlock, models: Sequence[int]) -> list[Any]:
        laws, top, cell = self.base.laws(block, models), self.top[block.rows], self.cell[block.rows]
        shifted = []
        for m, law in zip(models, laws, strict=True):
            xp, code = namespace(law), like(top, law)
            inside = xp.clip(pick(law, code), EDGE_OF_SHIFTS, 1.0 - EDGE_OF_SHIFTS)
            moved = inside / (inside + (1.0 - inside) * like(self.factor[m][cell], law, law.dtype))
            rest = law * ((1.0 - moved) / (1.0 - inside))[:, None]
            shifted.append(_put(rest, code, moved))
        return shifted


def _put(law: Any, codes: Any, values: Any) -> Any:
    """A law with other values in one column of each row."""
    if isinstance(law, np.ndarray):
        law[np.arange(law.shape[0]), codes] = values
        return law
    xp = namespace(law)
    return xp.where(codes[:, None] == count_up(law.shape[1], law)[None, :], values[:, None], law)


@dataclass(frozen=True, eq=False)
class KeptLaws(ModelLaws):
    """Laws of few numbers, kept as they were computed first."""

    of: ClassScores
    kept: tuple[Any, ...]  # an array for each model, where the scores live

    @property
    def scores(self) -> ClassScores:
        return self.of

    @property
    def count(self) -> int:
        return len(self.kept)

    def take(self, rows: IntArray) -> KeptLaws:
        return KeptLaws(self.scores.take(rows), tuple(take(law, rows) for law in self.kept))

    def laws(self, block: ScoreBlock, models: Sequence[int]) -> list[Any]:
        return [take(self.kept[m], block.rows) for m in models]


#: Numbers of the laws of all models of a candidate up to which they are kept.
_KEPT = 1 << 24


def keep_small(models: ModelLaws, times: int) -> ModelLaws:
    """Laws that are computed now, if so many tables of them are small."""
    n, k = models.scores.shape
    if times * models.count * n * k > _KEPT:
        return models
    blocks = [ScoreBlock(models.scores, rows) for rows in models.scores.blocks()]
    columns = zip(*(models.laws(block, range(models.count)) for block in blocks), strict=True)
    kept = (parts[0] if len(parts) == 1 else namespace(parts[0]).concat(list(parts), axis=0) for parts in columns)
    return KeptLaws(models.scores, tuple(kept))


@dataclass(frozen=True, eq=False)
class ClippedMaps(ModelLaws):
    """Laws kept away from the boundary of the simplex."""

    base: ModelLaws
    distance: float

    @property
    def scores(self) -> ClassScores:
        return self.base.scores

    @property
    def count(self) -> int:
        return self.base.count

    def take(self, rows: IntArray) -> ClippedMaps:
        return replace(self, base=self.base.take(rows))

    def laws(self, block: ScoreBlock, models: Sequence[int]) -> list[Any]:
        return [clip_block(law, self.distance) for law in self.base.laws(block, models)]
