"""The training, calibration and test rows of each repeated split, drawn at random or passed by the user."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple, NoReturn

import numpy as np

from scoreprism._core.checks import abbreviate, refuse, write_plain
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._sample.sample import Sample

#: Names of the parts of a split.
PARTS = ("train", "calibration", "test")
#: Attempts to draw a split with every class in every part.
_DRAWS = 100
#: Rows of each class that a calibrator needs, as its refits omit some.
PAIR = 2
#: Purposes of random numbers within one split.
ROWS, HALVES, LABELS = 0, 1, 2


class Split(NamedTuple):
    """Row numbers of one split; combiners learn on the calibration part, or on one half of it."""

    train: IntArray
    combining: IntArray
    calibration: IntArray
    test: IntArray
    redraws: int


def _find_lacking(sample: Sample, rows: IntArray, least: int = 1) -> IntArray:
    """Codes of classes with fewer than `least` rows (groups, if there are any) among some rows."""
    codes, k = sample.y[rows], sample.k
    if sample.groups is not None:
        codes = np.unique(sample.groups[rows] * k + codes) % k  # one for each group and class
    return np.flatnonzero(np.bincount(codes, minlength=k) < least)


def parse_sizes(sizes: object, n: int) -> tuple[int, int, int]:
    """The numbers of rows that train, calibrate and test."""
    rule = "`sizes` must be three shares that sum to at most 1, or three numbers of rows: train, calibration, test"
    remedy = "For example (0.6, 0.2, 0.2)."
    values = list(sizes) if isinstance(sizes, (tuple, list, np.ndarray)) else []
    number = (int, float, np.integer, np.floating)
    if len(values) != 3 or any(isinstance(v, bool) or not isinstance(v, number) or not v > 0 for v in values):
        refuse(rule, write_plain(sizes), remedy)
    if all(isinstance(v, (int, np.integer)) for v in values):
        counts = [int(v) for v in values]
    else:
        if not sum(values) <= 1.0 + 1e-9:
            refuse(rule, f"shares that sum to {write_plain(float(sum(values)))}", remedy)
        ends = [0, *(int(np.floor(share * n + 0.5)) for share in np.cumsum(np.asarray(values, dtype=np.float64)))]
        counts = np.diff(ends).tolist()
    if min(counts) < 1 or sum(counts) > n:
        refuse("`sizes` must give each part at least one row", f"{counts} of {n} rows", "Pass more rows.")
    train, calibration, test = counts
    return train, calibration, test


def draw_split(
    sample: Sample, sizes: tuple[int, int, int], *, stratify: bool, halves: bool, seed: Sequence[int]
) -> Split:
    """One random split with every class in every part."""
    rng = np.random.default_rng([*seed, ROWS])
    for redraws in range(_DRAWS):
        train, calibration, test = _cut(sample, np.arange(sample.n), sizes, rng, stratify=stratify)
        parts = ((train, 1), (calibration, PAIR), (test, 1))
        if any(_find_lacking(sample, part, least).size for part, least in parts):
            continue
        halved = _halve(sample, calibration, seed, stratify=stratify) if halves else (calibration, calibration)
        if halved is not None:
            return Split(train, *halved, test, redraws)
    return _refuse_rare(sample, None, f"{_DRAWS} random draws without such a split")


def _halve(
    sample: Sample, calibration: IntArray, seed: Sequence[int], *, stratify: bool
) -> tuple[IntArray, IntArray] | None:
    """The calibration rows in two random halves that hold every class: for the combiner, and for the calibrator."""
    rng = np.random.default_rng([*seed, HALVES])
    half = calibration.size // 2
    for _ in range(_DRAWS):
        first, second = _cut(sample, calibration, (half, calibration.size - half), rng, stratify=stratify)
        if not _find_lacking(sample, first).size and not _find_lacking(sample, second, PAIR).size:
            return first, second
    return None


def _cut(
    sample: Sample, among: IntArray, sizes: Sequence[int], rng: np.random.Generator, *, stratify: bool
) -> list[IntArray]:
    """Cut into parts of about these sizes; exactly these without groups."""
    ends = np.cumsum(sizes)
    if sample.groups is not None:
        present, inverse = np.unique(sample.groups[among], return_inverse=True)
        order = rng.permutation(present.size)
        counts = np.bincount(inverse, minlength=present.size)[order]
        part = np.empty(present.size, dtype=np.intp)
        part[order] = np.searchsorted(ends, np.cumsum(counts) - 0.5 * counts)
        return [among[part[inverse] == number] for number in range(len(sizes))]
    order = among[rng.permutation(among.size)]
    if stratify:
        order = order[np.argsort(_rank_rows(sample.y[order], rng), kind="stable")]
    return [order[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def _rank_rows(codes: IntArray, rng: np.random.Generator) -> FloatArray:
    """Rank of each row within its class, from 0 to 1: a cut at any rank takes the same share of every class."""
    rank = np.empty(codes.size)
    for code in np.unique(codes):
        members = np.flatnonzero(codes == code)
        rank[members] = (np.arange(members.size) + rng.random()) / members.size
    return rank


def parse_splits(splits: object, sample: Sample, seed: int, *, halves: bool) -> list[Split]:
    """Parse splits given as row numbers of the data as passed; calibration parts are halved on request."""
    rule = "`splits` must hold (train, calibration, test) triples of row numbers"
    if not isinstance(splits, Iterable) or isinstance(splits, str):
        refuse(rule, type(splits).__name__, "Pass a list of three arrays for each split.")
    place = np.full(sample.n_given, -1)
    place[np.arange(sample.n) if sample.kept is None else sample.kept] = np.arange(sample.n)
    plan = []
    for number, triple in enumerate(splits):
        if not isinstance(triple, (tuple, list)) or len(triple) != 3:
            refuse(rule, f"{type(triple).__name__} as split {number}", "Pass three arrays for each split.")
        where = [f"{name} of split {number}" for name in PARTS]
        parts = [place[_parse_row_numbers(part, place.size, name)] for part, name in zip(triple, where, strict=True)]
        train, calibration, test = (part[part >= 0] for part in parts)
        _require_apart((train, calibration, test), number, sample.groups)
        for name, part, least in zip(where, (train, calibration, test), (1, PAIR, 1), strict=True):
            lacking = _find_lacking(sample, part, least)
            if lacking.size:
                _refuse_rare(sample, int(lacking[0]), f"fewer than {least} in {name}")
        halved: tuple[IntArray, IntArray] | None = (calibration, calibration)
        if halves:
            halved = _halve(sample, calibration, (seed, number), stratify=False)
        if halved is None:
            _refuse_rare(sample, None, f"{_DRAWS} random halves of {calibration.size} calibration rows without")
        plan.append(Split(train, *halved, test, 0))
    if not plan:
        refuse(rule, "no split", "Pass at least one.")
    return plan


def _parse_row_numbers(value: object, n: int, name: str) -> IntArray:
    part = np.asarray(value)
    if part.dtype == bool and part.shape == (n,):
        part = np.flatnonzero(part)
    if part.ndim != 1 or part.size == 0 or part.dtype.kind not in "iu" or part.min() < 0 or part.max() >= n:
        what = f"dtype {part.dtype}, shape {part.shape}"
        if part.dtype.kind in "iu" and part.size:
            what = f"numbers from {part.min()} to {part.max()}"
        refuse(f"{name} must hold row numbers from 0 to {n - 1}, at least one", what, "Pass whole numbers or a mask.")
    return part.astype(np.intp)


def _require_apart(parts: Sequence[IntArray], number: int, groups: IntArray | None) -> None:
    """Refuse a row or group that is in two parts."""
    members = {"rows": parts} | ({} if groups is None else {"groups": [groups[part] for part in parts]})
    for what, inside in members.items():
        for i, j in combinations(range(len(PARTS)), 2):
            both = np.intersect1d(inside[i], inside[j])
            if both.size:
                refuse(
                    f"the parts of a split must have no {what} in common",
                    f"{both.size} {what} in {PARTS[i]} and {PARTS[j]} of split {number} ({abbreviate(both)})",
                    "Correct the splits.",
                )


def _refuse_rare(sample: Sample, code: int | None, what: str) -> NoReturn:
    """Refuse a class that is too rare to be in every part: the rarest, unless one is known to be missing."""
    assert sample.classes is not None  # noqa: S101 - parsed labels
    counts = np.bincount(sample.y, minlength=sample.k)
    rare = int(np.argmin(counts)) if code is None else code
    refuse(
        "every class must be in the training and test rows of every split, and twice in those of the calibrator",
        f"{what}, with {counts[rare]} rows of class {write_plain(sample.classes[rare])}",
        "Pass more rows, larger parts, `stratify`=True, or fewer classes.",
    )
