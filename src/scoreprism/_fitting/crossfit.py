"""Laws fitted out of sample: splits, the models they ask for, and the laws of these models on every row.

Every level of a chain is fitted by the same *models*, each on its own training rows: the K models of a K-fold
cross-fit, or, for splits of another kind, each split's model with its delete-block refits. A row takes its law from
the model that did not see it; how far the models scatter there is the spread of the law.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import abbreviate, parse_count, parse_random_state, refuse
from scoreprism._core.lazy_laws import ClippedLaw, LazyLaw
from scoreprism._core.simplex import FloatArray, IntArray, clip_law
from scoreprism._fitting.model_laws import ClippedMaps, GatheredLaw, ModelLaws
from scoreprism._sample.fit_rows import FitRows
from scoreprism._sample.folds import parse_splits
from scoreprism.exceptions import InputError

#: Blocks a training part is cut into, where its spread must come from delete-block refits.
REFITS = 5
#: Draws of random folds before giving up on every class in every training part.
_DRAWS = 100


@dataclass(frozen=True)
class FittedLaw:
    """A law fitted out of sample."""

    law: Any  # (n,): prediction of the model that was not trained on the row; an array or a `LazyLaw`
    folds: Any  # (F, n): laws whose scatter measures the noise of `law`; an array or `ModelLaws`
    # factor of the sum of their divergences from their mean: 1 for the models of a cross-fit, each fitted on (K−1)/K of
    # the rows as `law` is; (F−1)/F for delete-block refits of a law fitted on all rows
    factor: float = 1.0

    def clip_at(self, distance: float) -> FittedLaw:
        """The same, kept away from 0 and 1."""
        if isinstance(self.law, LazyLaw):
            return FittedLaw(ClippedLaw(self.law, distance), ClippedMaps(self.folds, distance), self.factor)
        folds = np.stack([clip_law(fold, distance) for fold in self.folds])
        return FittedLaw(clip_law(self.law, distance), folds, self.factor)

    def rows(self, some: IntArray) -> FittedLaw:
        """The same for some of the rows."""
        if isinstance(self.law, LazyLaw):
            return FittedLaw(self.law.take(some), self.folds.take(some), self.factor)
        return FittedLaw(self.law[some], self.folds[:, some], self.factor)


@dataclass(frozen=True)
class CrossFit:
    """Which models to fit, and which of them predicts each row."""

    trains: tuple[IntArray, ...]  # training rows of each model
    home: IntArray  # (n,): the model that predicts a row out of sample; −1 for rows that no split tests
    members: IntArray  # (models, F): for each home model the models whose scatter is its spread
    factor: float  # see `FittedLaw`
    # for each model the rows that weights of a stack may be learned on, and the models that predict these rows without
    # having seen them
    mixing: tuple[tuple[IntArray, IntArray], ...]

    @property
    def tested(self) -> NDArray[np.bool_]:
        """Rows that some split tests."""
        return self.home >= 0

    @property
    def whole(self) -> bool:
        """Whether every row is tested."""
        return bool((self.home >= 0).all())

    def gather(self, laws: Any) -> FittedLaw:
        """The out-of-sample law of every row, and the laws its spread is measured by."""
        if isinstance(laws, ModelLaws):
            return FittedLaw(GatheredLaw(laws, self.home), laws, self.factor)
        law = self.gather_law(laws)
        if self.factor == 1.0:  # every model of a cross-fit predicts all rows
            return FittedLaw(law, laws, self.factor)
        folds = np.stack([laws[0]] * self.members.shape[1])
        for model, members in enumerate(self.members):
            rows = np.flatnonzero(self.home == model)
            folds[:, rows] = laws[np.ix_(members, rows)]
        return FittedLaw(law, folds, self.factor)

    def gather_law(self, laws: FloatArray) -> FloatArray:
        """The out-of-sample law of every row; the first where no split tests it."""
        return np.asarray(laws[np.maximum(self.home, 0), np.arange(self.home.size)])


@dataclass(frozen=True)
class Partitions:
    """Several random partitions of the same rows into folds, so that no single one matters."""

    home: IntArray  # (P, n): fold of each row in each partition
    held: IntArray  # rows that have weight, in an order that does not depend on how they came

    @property
    def folds(self) -> int:
        """Number of folds."""
        return int(self.home.max()) + 1

    def plan(self, p: int) -> CrossFit:
        """One partition as a cross-fit."""
        return from_folds(self.home[p].astype(np.intp), self.held)

    def first(self, count: int) -> Partitions:
        """The first few."""
        return Partitions(self.home[:count], self.held)


def make_partitions(
    cv: object,
    data: FitRows,
    groups: IntArray | None,
    random_state: object,
    count: int,
    ties: Sequence[NDArray[Any]] = (),
) -> tuple[CrossFit, Partitions | None]:
    """
    Random partitions of the rows into folds, and the first of them as a cross-fit; or user-defined splits.

    Rows are dealt in an order of their own (score, outcome, weight, features), groups in that of their rows, so that
    the folds do not depend on the order in which rows came.
    """
    if not (cv is None or isinstance(cv, (int, np.integer, str, float))):
        plan = _parse_crossfit(cv, data, groups, random_state)
        if plan.factor != 1.0 or not plan.whole:
            return plan, None
        return plan, Partitions(plan.home[None], _find_rows_with_weight(data))
    folds, rng = parse_count(cv, "cv", 2), parse_random_state(random_state)
    rank = _rank_rows(data, ties)
    weighted = _find_rows_with_weight(data)
    weighted = weighted[np.argsort(rank[weighted], kind="stable")]
    units = None if groups is None else _rank_groups(groups, rank)
    home = np.empty((count, data.codes.shape[0]), dtype=np.int16 if folds > 127 else np.int8)
    for line in home:
        line[:] = _random_folds(data, folds, units, weighted, rng)
    partitions = Partitions(home, weighted)
    return partitions.plan(0), partitions


def make_crossfit(cv: object, data: FitRows, groups: IntArray | None, random_state: object) -> CrossFit:
    """The models of one cross-fit."""
    return make_partitions(cv, data, groups, random_state, 1)[0]


def _find_rows_with_weight(data: FitRows) -> IntArray:
    return np.arange(data.codes.shape[0]) if data.weight is None else np.flatnonzero(data.weight > 0)


def _rank_rows(data: FitRows, ties: Sequence[NDArray[Any]]) -> IntArray:
    """Rank of each row by score, outcome, weight, and where these are tied by a hash of `ties`."""
    columns = [data.score] if data.score.ndim == 1 else (data.score[:, j] for j in range(data.score.shape[1]))
    weights = [] if data.weight is None else [data.weight]
    rank = rank_by(chain(columns, [data.codes], weights))
    if not ties or int(rank.max()) + 1 == rank.size:
        return rank
    mixed = np.zeros(rank.size, dtype=np.uint64)
    for column in ties:
        mixed = _mix_bits(mixed + _hash_column(column))
    return rank_by([rank, mixed])


def rank_by(keys: Iterable[NDArray[Any]]) -> IntArray:
    """Rank of each row by the first key, ties by the next, as far as needed; equal rows share a rank."""
    rank = np.zeros(0, dtype=np.intp)
    for key in keys:
        order = np.lexsort((key, rank)) if rank.size else np.argsort(key, kind="stable")
        ranked = key[order]
        new = ranked[1:] != ranked[:-1]
        if rank.size:
            new |= np.diff(rank[order]) > 0
        rank = np.empty(order.size, dtype=np.intp)
        rank[order] = np.concatenate([[0], np.cumsum(new)])
        if int(rank[order[-1]]) + 1 == rank.size:
            break
    return rank


def _hash_column(column: NDArray[Any]) -> NDArray[np.uint64]:
    """A number for every value of a column, the same for equal values."""
    if column.dtype.kind in "fiub":
        values = column.astype(np.float64)
        return np.where(np.isnan(values), 7.0, values + 0.0).view(np.uint64)
    return np.unique(column.astype(str), return_inverse=True)[1].reshape(-1).astype(np.uint64)


def _mix_bits(word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A fixed mixing of 64 bits (Steele, Lea & Flood 2014)."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


def _rank_groups(groups: IntArray, rank: IntArray) -> IntArray:
    """Groups numbered by their rows: the first of them, their number, and a hash of all."""
    present, inverse = np.unique(groups, return_inverse=True)
    first = np.full(present.size, rank.size)
    np.minimum.at(first, inverse, rank)
    size = np.bincount(inverse)
    mixed = np.zeros(present.size, dtype=np.uint64)
    np.add.at(mixed, inverse, _mix_bits(rank.astype(np.uint64) + np.uint64(1)))
    place = np.empty(present.size, dtype=np.intp)
    place[np.lexsort((mixed, size, first))] = np.arange(present.size)
    return place[inverse]


def _parse_crossfit(cv: object, data: FitRows, groups: IntArray | None, random_state: object) -> CrossFit:
    """The models that user-defined splits need."""
    held, rng = _find_rows_with_weight(data), parse_random_state(random_state)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The groups parameter is ignored")  # `_keep_together` looks itself
            came = groups if data.origin is None else data.origin.groups
            splits = parse_splits(cv, data, came, "cv must not test on rows it trains on")
    except InputError:
        raise
    except (TypeError, IndexError, ValueError) as error:
        refuse("`cv` must be a number of folds, a splitter or pairs of row numbers", f"{error}", "For example 5.")
    if not splits:
        refuse("`cv` must give at least one split", "none", "For example `cv`=5.")
    home = _find_homes(splits, data.codes.shape[0])
    if groups is not None:
        _keep_together(splits, groups)
    splits = [(np.intersect1d(train, held), test) for train, test in splits]
    for number, (train, _) in enumerate(splits):
        _require_classes(data, held, train, f"split {number}")
    if _is_partition(splits, held):
        return from_folds(home, held)
    return _from_splits(splits, home, data, groups, rng)


def no_crossfit(data: FitRows) -> CrossFit:
    """No models: every law was passed by the user or fitted on a separate split."""
    return CrossFit((), np.zeros(data.codes.shape[0], dtype=np.intp), np.zeros((0, 0), dtype=np.intp), 1.0, ())


def from_folds(fold: IntArray, held: IntArray) -> CrossFit:
    """K models, each fitted without its fold; stacks are mixed by the other folds' out-of-fold laws."""
    k = int(fold.max()) + 1
    trains = tuple(held[fold[held] != f] for f in range(k))
    members = np.tile(np.arange(k), (k, 1))
    return CrossFit(trains, fold, members, 1.0, tuple((train, fold[train]) for train in trains))


def _from_splits(
    splits: Sequence[tuple[IntArray, IntArray]],
    home: IntArray,
    data: FitRows,
    groups: IntArray | None,
    rng: np.random.Generator,
) -> CrossFit:
    """A model per split, followed by refits without one block of its training rows each."""
    trains: list[IntArray] = []
    mixing: list[tuple[IntArray, IntArray]] = []
    members = np.zeros((len(splits) * (REFITS + 1), REFITS), dtype=np.intp)
    for number, (train, _) in enumerate(splits):
        first = number * (REFITS + 1)
        part = data.part(train)
        inside = None if groups is None else np.unique(groups[train], return_inverse=True)[1]
        block = _random_folds(part, REFITS, inside, np.arange(train.size), rng)
        trains += [train, *(train[block != b] for b in range(REFITS))]
        members[first : first + REFITS + 1] = first + 1 + np.arange(REFITS)
        mixing += [(train, first + 1 + block)] * (REFITS + 1)
    place = np.where(home >= 0, home * (REFITS + 1), -1)
    return CrossFit(tuple(trains), place, members, (REFITS - 1) / REFITS, tuple(mixing))


def _random_folds(
    data: FitRows, cv: int, groups: IntArray | None, held: IntArray, rng: np.random.Generator
) -> IntArray:
    """The fold of every row: random, groups together, every class in every training part."""
    count = held.size if groups is None else np.unique(groups[held]).size
    counts = np.bincount(data.codes[held], minlength=data.k)
    enough = (counts >= 2).all() if data.k == 2 else (counts >= 2).sum() >= 2
    what = "rows" if groups is None else "groups"
    if count < cv:
        refuse(f"cross-fitting with {cv} folds must have at least {cv} {what}", f"{count}", "Use fewer folds.")
    if not enough:
        rare = int(np.argmin(counts))
        refuse(
            "cross-fitting must have at least two rows of each class",
            f"{counts[rare]} of class number {rare}, in {held.size} rows",
            ("Pass more rows", "`calibration`=(scores, y) with a split that has them"),
        )
    for _ in range(_DRAWS):
        fold = _deal(data.codes.shape[0], groups, held, cv, rng)
        if all(_has_classes(data, held, held[fold[held] != f]) for f in range(cv)):
            break
    else:
        refuse(
            "every class must be in the training part of every fold",
            f"{_DRAWS} random draws of {cv} folds without such a split; the rarest class has {counts.min()} rows",
            "Use more folds, or smaller groups.",
        )
    return fold


def _deal(n: int, groups: IntArray | None, held: IntArray, cv: int, rng: np.random.Generator) -> IntArray:
    """Random folds of rows or groups, of sizes as equal as they allow; rows without weight are dealt as well."""
    if groups is None:
        fold = np.arange(n) % cv  # of rows without weight, which no model learns from
        fold[held] = rng.permutation(np.arange(held.size) * cv // held.size)
        return fold
    present, inverse = np.unique(groups, return_inverse=True)
    order = rng.permutation(present.size)
    sizes = np.bincount(inverse, minlength=present.size)[order]
    middle = np.cumsum(sizes) - 0.5 * sizes
    of_unit = np.empty(present.size, dtype=np.intp)
    of_unit[order] = np.minimum((middle * cv / sizes.sum()).astype(np.intp), cv - 1)
    if np.unique(of_unit).size < cv:  # few large groups: one after the other
        of_unit[order] = np.arange(present.size) % cv
    return of_unit[inverse]


def _has_classes(data: FitRows, held: IntArray, train: IntArray) -> bool:
    """Both classes; of more classes, all that occur at least twice among the rows with weight."""
    counts = np.bincount(data.codes[train], minlength=data.k)
    if data.k == 2:
        return bool(counts.min() > 0)
    return bool((counts[np.bincount(data.codes[held], minlength=data.k) >= 2] > 0).all())


def _require_classes(data: FitRows, held: IntArray, train: IntArray, where: str) -> None:
    if not _has_classes(data, held, train):
        missing = np.flatnonzero(np.bincount(data.codes[train], minlength=data.k) == 0)
        refuse(
            "every class must be in the training part of every split",
            f"none of class number {missing[0]} in {where}",
            "Use other splits.",
        )


def _find_homes(splits: Sequence[tuple[IntArray, IntArray]], n: int) -> IntArray:
    """The split that tests each row, −1 for none."""
    home = np.full(n, -1, dtype=np.intp)
    for number, (_, test) in enumerate(splits):
        again = test[home[test] >= 0]
        if again.size:
            refuse(
                "`cv` must test each row at most once",
                f"{again.size} rows tested again in split {number} (row {abbreviate(again)})",
                "Use splits whose test parts do not overlap.",
            )
        home[test] = number
    if (home < 0).all():
        refuse("`cv` must test at least one row", "empty test parts", "Use other splits.")
    return home


def _keep_together(splits: Sequence[tuple[IntArray, IntArray]], groups: IntArray) -> None:
    for number, (train, test) in enumerate(splits):
        both = np.intersect1d(groups[train], groups[test])
        if both.size:
            refuse(
                "`cv` must keep the rows of a group together",
                f"{both.size} groups in both parts of split {number}",
                "Use a splitter such as GroupKFold, or leave groups out.",
            )


def _is_partition(splits: Sequence[tuple[IntArray, IntArray]], held: IntArray) -> bool:
    """Whether each model is trained on all rows but those it tests, and all are tested."""
    tested = np.concatenate([test for _, test in splits])
    whole = np.isin(held, tested).all() and len(splits) > 1
    return bool(whole and all(train.size + np.isin(held, test).sum() == held.size for train, test in splits))


def split_blocks(data: FitRows, random_state: object, groups: IntArray | None = None) -> list[IntArray]:
    """Rows without one block each, for the delete-block refits of a law fitted on a separate split."""
    rows = np.arange(data.codes.shape[0])
    block = _random_folds(data, REFITS, groups, rows, parse_random_state(random_state))
    return [np.flatnonzero(block != b) for b in range(REFITS)]
