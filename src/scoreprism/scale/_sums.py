"""Sums of rows that can be added, stored and decomposed: the whole, each segment and each period."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np

from scoreprism._core.checks import abbreviate, parse_choice, parse_random_state, refuse, write_plain
from scoreprism._core.labels import sort_key
from scoreprism._core.simplex import FloatArray, IntArray, clip_law
from scoreprism._document.result import Result
from scoreprism._fitting.chain_fit import parse_loss
from scoreprism._fitting.parse_learners import ForeignMap, parse_calibrator
from scoreprism._kernels.term_intervals import FORMS
from scoreprism._sample.fit_rows import FitRows, warn_of_reversed_scores
from scoreprism.losses import ProperLoss
from scoreprism.scale._column_settings import Settings, parse_count_of_folds
from scoreprism.scale._drift import Drift
from scoreprism.scale._expressions import find_cells, has_formula
from scoreprism.scale._scaled_result import ScaledDecomposition, SumChain, attach_parts, share_floor
from scoreprism.scale._sums_file import KEYS, read_sums, write_sums
from scoreprism.scale._sums_to_sample import Options, fit_sums

#: Columns that are not sums.
_ENDS = {"lo": np.minimum, "hi": np.maximum}


@dataclass(frozen=True, eq=False, repr=False)
class Sums(Result):
    """
    The sums of some rows, by score, outcome, fold, segment and period.

    Made by `aggregate`. Sums of different rows are added with ``+`` (or ``sum``), in any order: nightly jobs keep one
    file per day. With at most as many distinct scores as cells nothing is lost; otherwise rows are summed by cell.

    Attributes
    ----------
    settings : Settings
        Columns that were read, cells and losses.
    exact : bool
        Whether lines are distinct scores; otherwise they are cells.
    segments : tuple of tuple
        Values of ``settings.keys`` for each segment and period.
    folds : tuple
        Labels of folds; ``(None,)`` if they are drawn when C is fitted.
    table : dict of str to array
        The sums, a line for each combination that occurs.
    absent : int
        Rows of weight zero, which are in no sum.

    Examples
    --------
    >>> import polars as pl
    >>> from scoreprism import scale
    >>> monday = pl.DataFrame({"default": [0, 1, 0], "score": [0.1, 0.8, 0.3]})
    >>> tuesday = pl.DataFrame({"default": [1, 1], "score": [0.8, 0.6]})
    >>> total = sum(scale.aggregate(day, target="default", score="score") for day in (monday, tuesday))
    >>> total
    Sums(5 rows, 4 distinct scores)
    >>> scale.Sums.from_json(total.to_json()).n
    5
    """

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
        Put sums of groups in canonical order, and add up those of the same key.

        Parameters
        ----------
        settings : Settings
            What was read.
        exact : bool
            Whether keys are scores or cells.
        segments, folds : sequence
            Segment and fold of each group.
        columns : mapping of str to array
            Key, outcome and sums of each group.
        absent : int, default=0
            Rows without weight.

        Returns
        -------
        Sums
            With one line for each key that occurs.
        """
        names, codes = code_labels(segments)
        labels, folded = code_labels(folds)
        table = _merge({"segment": codes.astype(float), "fold": folded.astype(float), **columns})
        sums = cls(settings, exact, tuple(names), tuple(labels), table, absent)
        return sums.coarsen() if exact and sums.n_keys > settings.cells else sums

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
        return tuple(sorted({key[-1] for key in self.segments}, key=sort_key))

    def __repr__(self) -> str:
        what = "distinct scores" if self.exact else "cells"
        keys = f", {len(self.segments)} segments" if self.settings.keys else ""
        return f"{type(self).__name__}({self.n} rows, {self.n_keys} {what}{keys})"

    def _columns(self) -> dict[str, list[Any]]:
        """A row for each segment and period: rows, weight, events, mean score and summed losses."""
        table, place = self.table, self.table["segment"].astype(np.intp)

        def add_up(values: FloatArray) -> FloatArray:
            return np.bincount(place, values, len(self.segments)).astype(np.float64)

        weight, total = table["w"], add_up(table["w"])
        score = weight * table["key"] if self.exact else table["s"]
        numbers: dict[str, list[Any]] = {
            "rows": add_up(table["n"]).astype(np.intp).tolist(),
            "weight": total.tolist(),
            "events": add_up(weight * table["y"]).tolist(),
            "mean_score": (add_up(score) / total).tolist(),
        }
        for i, loss in enumerate(self.settings.losses):
            losses = _sum_loss(self, i, loss)
            numbers |= {} if losses is None else {f"sum_{loss}": add_up(losses).tolist()}
        labels = {
            f"{name}_segment" if name in numbers else name: [key[i] for key in self.segments]
            for i, name in enumerate(self.settings.keys)
        }
        return labels | numbers

    def _title(self) -> str:
        return "Sums of " + repr(self).partition("(")[2].rstrip(")")

    # ── addition ────────────────────────────────────────────────────────────────────────────────────

    def __add__(self, other: object) -> Self:
        if not isinstance(other, Sums):
            return NotImplemented
        self.settings.require_like(other.settings)
        first, second = (self, other) if self.exact == other.exact else (self.coarsen(), other.coarsen())
        names = [name for name in first.table if name not in ("segment", "fold")]
        columns = {name: np.concatenate([first.table[name], second.table[name]]) for name in names}
        return self.from_groups(
            self.settings,
            exact=first.exact,
            segments=[*first._label_lines("segment"), *second._label_lines("segment")],
            folds=[*first._label_lines("fold"), *second._label_lines("fold")],
            columns=columns,
            absent=self.absent + other.absent,
        )

    def __radd__(self, other: object) -> Self:
        if other == 0:  # what sum() starts from
            return self
        return NotImplemented

    def _label_lines(self, column: str) -> list[Any]:
        names = self.segments if column == "segment" else self.folds
        return [names[int(code)] for code in self.table[column]]

    def coarsen(self) -> Self:
        """
        Sum the same rows by cell.

        Returns
        -------
        Sums
            The same object, if rows are summed by cell already.
        """
        if not self.exact:
            return self
        s, w, w2 = self.table["key"], self.table["w"], self.table["w2"]
        table = {**self.table, "key": find_cells(s, self.settings.cells).astype(float)}
        table |= {"s": w * s, "s2": w * s * s, "lo": s, "hi": s}
        if len(self.settings.levels) == 1:
            table |= _sum_losses(self.settings, s, self.table["y"], w, w2)
        return replace(self, exact=False, table=_merge(table))

    # ── parts ───────────────────────────────────────────────────────────────────────────────────────

    def select(self, /, **labels: Any) -> Self:
        """
        Select some segments or periods.

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
        >>> scale.aggregate(rows, target="y", score="p", segments="region").select(region="north").n
        2
        """
        keys = self.settings.keys
        places = {keys.index(parse_choice(name, keys, "a segment column")): value for name, value in labels.items()}
        codes = [i for i, key in enumerate(self.segments) if all(key[j] == value for j, value in places.items())]
        if not codes:
            known = {keys[j]: abbreviate(dict.fromkeys(write_plain(key[j]) for key in self.segments)) for j in places}
            got = ", ".join(f"{name}={write_plain(value)}" for name, value in labels.items())
            has = "; ".join(f"{name}: {values}" for name, values in known.items())
            refuse("labels must be those of some rows", got, f"There are {has}.")
        mask = np.isin(self.table["segment"], codes)
        table = {name: column[mask] for name, column in self.table.items()}
        table["segment"] = np.searchsorted(codes, table["segment"]).astype(np.float64)
        return replace(self, segments=tuple(self.segments[code] for code in codes), table=table, absent=0)

    def pool(self) -> Self:
        """
        Add up all segments and periods.

        Returns
        -------
        Sums
            With one segment.
        """
        settings = replace(self.settings, segments=(), time=None, period=None)
        table = _merge({**self.table, "segment": np.zeros(self.table["n"].size)})
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
        return write_sums(self)

    def to_json(self, indent: int | None = None) -> str:
        """
        The sums as strict JSON.

        Parameters
        ----------
        indent : int, optional
            Spaces per level, for people.

        Returns
        -------
        str
            Text that `from_json` reads, to the last bit.
        """
        return json.dumps(self.to_dict(), allow_nan=False, ensure_ascii=False, indent=indent)

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
        return cls(**read_sums(text))

    # ── decompositions ──────────────────────────────────────────────────────────────────────────────

    def decompose(
        self,
        loss: str | ProperLoss = "log",
        *,
        calibrator: object = "auto",
        cv: int = 5,
        form: str = "debiased",
        random_state: object = 0,
        floor: float | None = None,
    ) -> ScaledDecomposition:
        """
        Fit C to the sums, and decompose one loss.

        Parameters
        ----------
        loss : str or ProperLoss, default="log"
            The loss. Losses that were not summed are evaluated at the scores of the lines; with `q` or `latent` only
            summed ones are known. ``d.chain.decompose("brier")`` decomposes another loss with the same C.
        calibrator, cv, form, random_state : object
            As for `scoreprism.scale.decompose`.
        floor : float, optional
            How far scores are kept from 0 and 1 in ``floored``; 1/(2n) by default, and only where the loss is infinite.
            Segments and periods have the floor of the whole.

        Returns
        -------
        ScaledDecomposition
            With ``segments`` and ``periods``, where the sums have any.
        """
        options = _parse(self, loss, calibrator, cv, form, random_state, floor)
        result = replace(_decompose(self.pool(), options), sums=self)
        options = replace(options, floors=share_floor(result))
        _warn_of_order(self)
        for kind, place in self.settings.parts.items():
            names = self.settings.keys[place]
            labels = sorted({key[place] for key in self.segments}, key=sort_key)
            parts = {label: dict(zip(names, label, strict=True)) for label in labels}

            def fit(part: dict[str, Any], options: Options = options) -> ScaledDecomposition:
                return _decompose(self.select(**part).pool(), options)

            result = attach_parts(result, kind, parts, fit, f"fits by {', '.join(names)}")
        return result

    def drift(self, baseline: Any = "previous", *, loss: str | ProperLoss = "log", **options: Any) -> Drift:
        """
        How the terms changed from period to period.

        Parameters
        ----------
        baseline : {"previous", "first"} or period, default="previous"
            What each period is compared with: the one before, the first, or one that is named.
        loss : str or ProperLoss, default="log"
            The loss.
        **options : object
            Options of `decompose`.

        Returns
        -------
        Drift
            Changes with intervals.
        """
        if self.settings.time is None:
            refuse("drift must have periods", "sums without a time column", "Pass `time`= to aggregate or decompose.")
        return self.decompose(loss, **options).drift(baseline)


def _warn_of_order(sums: Sums) -> None:
    """Warn if scores are lower where the event occurs, as for rows."""
    table, label = sums.table, sums.settings.pos_label
    score = table["key"] if sums.exact else table["s"] / table["w"]
    classes = np.array([0, 1] if label is None else [f"not {label}", label], dtype=object)
    data = FitRows(score, table["y"].astype(np.intp), table["w"], 2, "probability")
    warn_of_reversed_scores(data, classes, float(table["w"].sum()) ** 2 / float(table["w2"].sum()))


def _parse(
    sums: Sums, loss: Any, calibrator: object, cv: object, form: str, random_state: object, floor: float | None
) -> Options:
    chosen = parse_loss(loss)
    chosen.require_classes(sums.table["key"])
    maps = parse_calibrator(calibrator, 2)
    if any(isinstance(learner, ForeignMap) for learner in maps):
        refuse("`calibrator` must be one of scoreprism's maps, which take sums", f"{calibrator!r}"[:80], "Use 'auto'.")
    form, count = parse_choice(form, FORMS, "form"), parse_count_of_folds(cv)
    seed = int(parse_random_state(random_state).integers(2**62))
    return Options(chosen, maps, count, form, seed, None if floor is None else {str(chosen): floor})


def _decompose(sums: Sums, options: Options) -> ScaledDecomposition:
    """Decompose sums without segments."""
    chain = SumChain.of_sums(sums, *fit_sums(sums, options))
    floor = chain.fit.mixture.floors.get(str(options.loss))
    decomposition = chain.decompose_at(options.loss, options.form, sums.settings.clip, floor)
    return cast("ScaledDecomposition", decomposition)


# ── groups ──────────────────────────────────────────────────────────────────────────────────────────


def code_labels(labels: Sequence[Any]) -> tuple[list[Any], IntArray]:
    """Sort the distinct labels, and code each label by its place."""
    names = sorted(set(labels), key=sort_key)
    place = {name: i for i, name in enumerate(names)}
    return names, np.fromiter((place[label] for label in labels), dtype=np.intp, count=len(labels))


def _merge(table: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Sort lines by their keys, and add up those with the same keys."""
    keys = [table[name] for name in KEYS]
    order = np.lexsort(keys[::-1])
    ordered = {name: column[order] for name, column in table.items()}
    changed = np.any([np.diff(ordered[name], prepend=-np.inf) != 0.0 for name in KEYS], axis=0)
    starts = np.flatnonzero(changed)
    return {
        name: column[starts] if name in KEYS else _ENDS.get(name, np.add).reduceat(column, starts)
        for name, column in ordered.items()
    }


def _sum_loss(sums: Sums, index: int, loss: ProperLoss) -> FloatArray | None:
    """The loss of the score summed over each line; None where cells hold no sums of it."""
    table, settings = sums.table, sums.settings
    y = table["y"].astype(np.intp)

    def evaluate(score: FloatArray) -> FloatArray:
        return loss.evaluate(clip_law(score, settings.clip), y)

    if sums.exact:
        return table["w"] * evaluate(table["key"])
    if f"a{index}0" not in table:
        return None
    is_infinite = np.isinf(evaluate(table["lo"])) | np.isinf(evaluate(table["hi"]))  # those are in no sum
    return np.where(is_infinite, np.inf, table[f"a{index}0"])


def _sum_losses(
    settings: Settings, s: FloatArray, y: FloatArray, w: FloatArray, w2: FloatArray
) -> dict[str, FloatArray]:
    """Moments of the losses of distinct scores; as in the engines, infinite losses are not summed."""
    columns: dict[str, FloatArray] = {}
    law = clip_law(s, settings.clip)
    for i, loss in enumerate(settings.losses):
        if has_formula(loss):
            value = loss.evaluate(law, y.astype(np.intp))
            value = np.where(np.isinf(value), 0.0, value)
            columns |= {f"a{i}0": w * value, f"b{i}0": w2 * value, f"d{i}00": w2 * value * value}
    return columns
