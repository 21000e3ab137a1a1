"""Sums of rows as a table: added to those of other rows, cut into segments and periods, kept as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import listed, parse_choice, parse_clip, plain, refuse
from scoreprism._core.labels import key_order
from scoreprism._core.simplex import FloatArray, IntArray, clip_law
from scoreprism._core.strict_json import Reader
from scoreprism.exceptions import InputError
from scoreprism.scale._column_settings import Settings
from scoreprism.scale._expressions import by_row, cell_of, parse_cells

#: Columns that tell lines apart.
KEYS = ("segment", "fold", "key", "y")
#: Sums of powers of the weights; as many as rows where there are none.
WEIGHTS = ("w", "w2", "w3", "w4")
#: Columns that are not sums.
_ENDS = {"lo": np.minimum, "hi": np.maximum}
#: Version of the JSON of sums; those of version 2 were called partials.
SUMS_VERSION = 3


@dataclass(frozen=True, eq=False)
class SumTable:
    """The sums of some rows, by score, outcome, fold, segment and period; `Sums` is what users see of it."""

    settings: Settings
    exact: bool  # whether lines are distinct scores; else they are cells
    segments: tuple[tuple[Any, ...], ...]  # values of ``settings.keys`` for each segment and period
    folds: tuple[Any, ...]
    table: dict[str, FloatArray]  # a line for each combination that occurs
    absent: int = 0  # rows of weight zero

    @classmethod
    def from_groups(
        cls,
        settings: Settings,
        *,
        exact: bool,
        segments: Sequence[tuple[Any, ...]],
        folds: Sequence[Any],
        columns: Mapping[str, FloatArray],
        absent: int = 0,
    ) -> Self:
        """
        Sums of groups in canonical order, groups of the same key added up.

        Parameters
        ----------
        settings : Settings
            What was read.
        exact : bool
            Whether keys are scores or cells.
        segments, folds : sequence
            Segment and fold of each group.
        columns : mapping of str to array
            Key, outcome and sums.
        absent : int, default=0
            Rows without weight.

        Returns
        -------
        Sums
            With one line for each key that occurs.
        """
        names, codes = coded(segments)
        labels, folded = coded(folds)
        table = _merged({"segment": codes.astype(float), "fold": folded.astype(float), **columns})
        sums = cls(settings, exact, tuple(names), tuple(labels), table, absent)
        return sums.coarser() if exact and sums.n_keys > settings.cells else sums

    # ── what it holds ───────────────────────────────────────────────────────────────────────────────

    @property
    def n(self) -> int:
        """Number of rows, those of weight zero included."""
        return int(self.table["n"].sum()) + self.absent

    @property
    def n_keys(self) -> int:
        """Number of distinct scores, or of cells that are not empty."""
        return int(np.unique(self.table["key"]).size)

    @property
    def periods(self) -> tuple[Any, ...]:
        """Periods in order; empty without a time column."""
        if self.settings.time is None:
            return ()
        return tuple(sorted({key[-1] for key in self.segments}, key=key_order))

    def __repr__(self) -> str:
        what = "distinct scores" if self.exact else "cells"
        keys = f", {len(self.segments)} segments" if self.settings.keys else ""
        return f"{type(self).__name__}({self.n} rows, {self.n_keys} {what}{keys})"

    # ── addition ────────────────────────────────────────────────────────────────────────────────────

    def __add__(self, other: object) -> Self:
        if not isinstance(other, SumTable):
            return NotImplemented
        self.settings.require_like(other.settings)
        first, second = (self, other) if self.exact == other.exact else (self.coarser(), other.coarser())
        names = [name for name in first.table if name not in ("segment", "fold")]
        columns = {name: np.concatenate([first.table[name], second.table[name]]) for name in names}
        return self.from_groups(
            self.settings,
            exact=first.exact,
            segments=[*first._labelled("segment"), *second._labelled("segment")],
            folds=[*first._labelled("fold"), *second._labelled("fold")],
            columns=columns,
            absent=self.absent + other.absent,
        )

    def __radd__(self, other: object) -> Self:
        if other == 0:  # what sum() starts from
            return self
        return NotImplemented

    def _labelled(self, column: str) -> list[Any]:
        names = self.segments if column == "segment" else self.folds
        return [names[int(code)] for code in self.table[column]]

    def coarser(self) -> Self:
        """
        The same rows by cell.

        Returns
        -------
        Sums
            Itself, if it has cells already.
        """
        if not self.exact:
            return self
        s, w, w2 = self.table["key"], self.table["w"], self.table["w2"]
        table = {**self.table, "key": cell_of(s, self.settings.cells).astype(float)}
        table |= {"s": w * s, "s2": w * s * s, "lo": s, "hi": s}
        if len(self.settings.levels) == 1:
            table |= _constant_losses(self.settings, s, self.table["y"], w, w2)
        return replace(self, exact=False, table=_merged(table))

    # ── parts ───────────────────────────────────────────────────────────────────────────────────────

    def only(self, /, **labels: Any) -> Self:
        """
        The sums of some segments or periods.

        Parameters
        ----------
        **labels : object
            Value of a segment or time column, by its name.

        Returns
        -------
        Sums
            With these rows only.

        Examples
        --------
        >>> import polars as pl
        >>> from scoreprism import scale
        >>> rows = pl.DataFrame({"y": [0, 1, 0], "p": [0.1, 0.8, 0.3], "region": ["north", "north", "south"]})
        >>> scale.aggregate(rows, target="y", score="p", segments="region").only(region="north").n
        2
        """
        keys = self.settings.keys
        places = {keys.index(parse_choice(name, keys, "a segment column")): value for name, value in labels.items()}
        codes = [i for i, key in enumerate(self.segments) if all(key[j] == value for j, value in places.items())]
        if not codes:
            known = {keys[j]: listed(dict.fromkeys(plain(key[j]) for key in self.segments)) for j in places}
            found = ", ".join(f"{name}={plain(value)}" for name, value in labels.items())
            has = "; ".join(f"{name}: {values}" for name, values in known.items())
            refuse("labels must be those of some rows", found, f"There are {has}.")
        held = np.isin(self.table["segment"], codes)
        table = {name: column[held] for name, column in self.table.items()}
        table["segment"] = np.searchsorted(codes, table["segment"]).astype(np.float64)
        return replace(self, segments=tuple(self.segments[code] for code in codes), table=table, absent=0)

    def pooled(self) -> Self:
        """
        The same rows without segments and periods.

        Returns
        -------
        Sums
            With one segment.
        """
        settings = replace(self.settings, segments=(), time=None, period=None)
        table = _merged({**self.table, "segment": np.zeros(self.table["n"].size)})
        return replace(self, settings=settings, segments=((),), table=table)

    # ── files ───────────────────────────────────────────────────────────────────────────────────────

    def to_dict(self) -> dict[str, Any]:
        """
        Everything as plain objects.

        Returns
        -------
        dict
            What `to_json` writes.
        """
        whole = {"n", "y", "segment", "fold"} | {name for name in self.table if name.startswith("zero")}
        whole |= set() if self.exact else {"key"}
        table = {n: c.astype(np.int64).tolist() if n in whole else c.tolist() for n, c in self.table.items()}
        repeated = [name for name in WEIGHTS if np.array_equal(self.table[name], self.table["n"])]
        repeated += [f"b{n[1:]}" for n in self.table if n[0] == "a" and not self.settings.weighted]
        for name in repeated:  # they follow from the others
            table.pop(name, None)
        return {
            "kind": "sums",
            "version": SUMS_VERSION,
            "settings": self.settings.to_dict(),
            "exact": self.exact,
            "segments": [list(key) for key in self.segments],
            "folds": list(self.folds),
            "absent": self.absent,
            "table": table,
        }

    def to_json(self) -> str:
        """
        The sums as strict JSON.

        Returns
        -------
        str
            Text that `from_json` reads, to the last bit.
        """
        return json.dumps(self.to_dict(), allow_nan=False, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """
        Read sums back.

        Parameters
        ----------
        text : str or bytes
            What `to_json` wrote.

        Returns
        -------
        Sums
            The same sums.
        """
        remedy = _READER.remedy
        data = _READER.read(text)
        version = data.get("version", data.get("partial_version")) if isinstance(data, dict) else None
        if version is None:
            refuse("the sums must be JSON that `Sums.to_json` wrote", "something else", remedy)
        if version != SUMS_VERSION or data.get("kind") != "sums":
            rule = f"the sums must be of version {SUMS_VERSION}"
            refuse(rule, f"version {version!r}", "Sum the rows again, or use the scoreprism that wrote them.")
        try:
            return cls._read(data)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
            if isinstance(error, InputError):
                raise
            refuse("the parts of the sums must fit together", f"{type(error).__name__}: {error}", remedy)

    @classmethod
    def _read(cls, data: Mapping[str, Any]) -> Self:
        settings = Settings.from_dict(data["settings"])
        _check_settings(settings)
        table = {name: np.array(column, dtype=np.float64) for name, column in data["table"].items()}
        for name in WEIGHTS:
            table.setdefault(name, table["n"])
        if not settings.weighted:
            table |= dict.fromkeys(WEIGHTS, table["n"])
            table |= {f"b{name[1:]}": column for name, column in table.items() if name[0] == "a"}
        sizes = {column.shape for column in table.values()}
        segments = tuple(tuple(key) for key in data["segments"])
        folds = tuple(data["folds"])
        fit = len(sizes) == 1 and len(next(iter(sizes))) == 1 and set(table) == _columns_of(settings, data["exact"])
        fit = fit and len(set(segments)) == len(segments) and {len(key) for key in segments} <= {len(settings.keys)}
        fit = fit and len(set(folds)) == len(folds) and isinstance(data["absent"], int) and data["absent"] >= 0
        fit = fit and all(np.isfinite(column).all() for column in table.values())
        fit = fit and bool((table["n"] % 1.0 == 0.0).all() and table["n"].sum() < 2.0**62)
        fit = fit and bool((table["n"] > 0).all() and (table["w"] > 0).all() and np.isin(table["y"], (0.0, 1.0)).all())
        fit = fit and np.isin(table["segment"], np.arange(len(segments))).all() == 1
        fit = fit and np.isin(table["fold"], np.arange(len(folds))).all() == 1
        most = 1.0 if data["exact"] else settings.cells + 1.0
        if not fit or table["key"].min() < 0.0 or table["key"].max() > most:
            raise ValueError("columns of different lengths, or numbers that cannot be sums")
        if not (data["exact"] or _consistent(table, settings)):
            raise ValueError("sums that are not those of scores in these cells")
        return cls(settings, bool(data["exact"]), segments, folds, table, int(data["absent"]))


#: Bounds of what is read: 1024 cells of two labels in 1,000 segments have 30 million numbers.
_READER = Reader("the sums", "Pass the text that `Sums.to_json` wrote, unchanged.", megabytes=1000, values=50_000_000)


def _check_settings(settings: Settings) -> None:
    """Refuse settings that `aggregate` cannot have made."""
    names = [*settings.columns.values(), *([] if settings.period is None else [settings.period])]
    good = all(isinstance(name, str) for name in names) and settings.levels in (("S",), ("S", "Q"), ("S", "Q", "Π"))
    if not good:
        raise ValueError("settings that no call can have had")
    parse_cells(settings.cells)
    parse_clip(settings.clip, 2)


def _columns_of(settings: Settings, exact: object) -> set[str]:
    """Columns that the table of such sums has."""
    levels = range(len(settings.levels))
    names = {*KEYS, "n", *WEIGHTS} | {f"zero{t}" for t in levels if t > 0}
    names |= set() if exact else {"s", "s2", "lo", "hi"}
    if exact and len(levels) == 1:
        return names
    for i, loss in enumerate(settings.losses):
        if by_row(loss):
            names |= {f"{kind}{i}{t}" for kind in "ab" for t in levels}
            names |= {f"d{i}{t}{u}" for t in levels for u in levels if u >= t}
    return names


def _consistent(table: Mapping[str, FloatArray], settings: Settings) -> bool:
    """Whether scores are in their cells, and mean scores and losses between those of the least and largest score."""
    low, high, w, y = table["lo"], table["hi"], table["w"], table["y"].astype(np.intp)
    good = (low >= 0.0) & (low <= high) & (high <= 1.0)
    if not good.all():
        return False
    good &= (cell_of(low, settings.cells) == table["key"]) & (cell_of(high, settings.cells) == table["key"])
    good &= _between(table["s"] / w, low, high)
    ends = [end if settings.clip is None else clip_law(end, settings.clip) for end in (low, high)]
    for i, loss in enumerate(settings.losses):
        if by_row(loss):
            first, last = (loss.evaluate(end, y) for end in ends)
            good &= np.isinf(first) | np.isinf(last) | _between(table[f"a{i}0"] / w, first, last)
    return bool(good.all())


def _between(value: FloatArray, first: FloatArray, last: FloatArray) -> NDArray[np.bool_]:
    low, high = np.minimum(first, last), np.maximum(first, last)
    room = 1e-9 * (1.0 + np.abs(high))
    return (value >= low - room) & (value <= high + room)


def _constant_losses(
    settings: Settings, s: FloatArray, y: FloatArray, w: FloatArray, w2: FloatArray
) -> dict[str, FloatArray]:
    """Moments of the losses of distinct scores; infinite ones are not summed, as in the engines."""
    columns: dict[str, FloatArray] = {}
    law = s if settings.clip is None else clip_law(s, settings.clip)
    for i, loss in enumerate(settings.losses):
        if by_row(loss):
            value = loss.evaluate(law, y.astype(np.intp))
            value = np.where(np.isinf(value), 0.0, value)
            columns |= {f"a{i}0": w * value, f"b{i}0": w2 * value, f"d{i}00": w2 * value * value}
    return columns


# ── groups ──────────────────────────────────────────────────────────────────────────────────────────


def coded(labels: Sequence[Any]) -> tuple[list[Any], IntArray]:
    """Distinct labels in order, and the number of each."""
    names = sorted(set(labels), key=key_order)
    place = {name: i for i, name in enumerate(names)}
    return names, np.fromiter((place[label] for label in labels), dtype=np.intp, count=len(labels))


def _merged(table: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Lines in order of their keys, those of the same keys added up."""
    keys = [table[name] for name in KEYS]
    order = np.lexsort(keys[::-1])
    ordered = {name: column[order] for name, column in table.items()}
    changed = np.any([np.diff(ordered[name], prepend=-np.inf) != 0.0 for name in KEYS], axis=0)
    starts = np.flatnonzero(changed)
    return {
        name: column[starts] if name in KEYS else _ENDS.get(name, np.add).reduceat(column, starts)
        for name, column in ordered.items()
    }
