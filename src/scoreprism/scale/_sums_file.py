"""Files of sums: strict JSON, read back to the last bit and checked for impossible contents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import parse_clip, refuse
from scoreprism._core.simplex import FloatArray, clip_law
from scoreprism._core.strict_json import Reader
from scoreprism.exceptions import InputError
from scoreprism.scale._column_settings import Settings
from scoreprism.scale._expressions import find_cells, has_formula, parse_cells

if TYPE_CHECKING:
    from scoreprism.scale._sums import Sums

#: Version of the JSON of sums; those of version 2 were called partials.
SUMS_VERSION = 3
#: Columns that tell lines apart.
KEYS = ("segment", "fold", "key", "y")
#: Sums of powers of the weights; as many as rows where there are none.
WEIGHTS = ("w", "w2", "w3", "w4")

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


def _list_columns(settings: Settings, exact: object) -> set[str]:
    """Columns that the table of such sums has."""
    levels = range(len(settings.levels))
    names = {*KEYS, "n", *WEIGHTS} | {f"zero{t}" for t in levels if t > 0}
    names |= set() if exact else {"s", "s2", "lo", "hi"}
    if exact and len(levels) == 1:
        return names
    for i, loss in enumerate(settings.losses):
        if has_formula(loss):
            names |= {f"{kind}{i}{t}" for kind in "ab" for t in levels}
            names |= {f"d{i}{t}{u}" for t in levels for u in levels if u >= t}
    return names


def _is_consistent(table: Mapping[str, FloatArray], settings: Settings) -> bool:
    """Whether scores are in their cells, and mean scores and losses between those of the least and largest score."""
    low, high, w, y = table["lo"], table["hi"], table["w"], table["y"].astype(np.intp)
    good = (low >= 0.0) & (low <= high) & (high <= 1.0)
    if not good.all():
        return False
    good &= (find_cells(low, settings.cells) == table["key"]) & (find_cells(high, settings.cells) == table["key"])
    good &= _is_between(table["s"] / w, low, high)
    ends = [clip_law(end, settings.clip) for end in (low, high)]
    for i, loss in enumerate(settings.losses):
        if has_formula(loss):
            first, last = (loss.evaluate(end, y) for end in ends)
            good &= np.isinf(first) | np.isinf(last) | _is_between(table[f"a{i}0"] / w, first, last)
    return bool(good.all())


def _is_between(value: FloatArray, first: FloatArray, last: FloatArray) -> NDArray[np.bool_]:
    low, high = np.minimum(first, last), np.maximum(first, last)
    room = 1e-9 * (1.0 + np.abs(high))
    return (value >= low - room) & (value <= high + room)


def write_sums(sums: Sums) -> dict[str, Any]:
    """Sums as plain objects; columns that follow from others are left out."""
    whole = {"n", "y", "segment", "fold"} | {name for name in sums.table if name.startswith("zero")}
    whole |= set() if sums.exact else {"key"}
    repeated = {name for name in WEIGHTS if np.array_equal(sums.table[name], sums.table["n"])}
    repeated |= {f"b{name[1:]}" for name in sums.table if name[0] == "a" and not sums.settings.has_weights}
    columns = {name: column for name, column in sums.table.items() if name not in repeated}
    return {
        "kind": "sums",
        "version": SUMS_VERSION,
        "settings": sums.settings.to_dict(),
        "exact": sums.exact,
        "segments": [list(key) for key in sums.segments],
        "folds": list(sums.folds),
        "absent": sums.absent,
        "table": {name: (c.astype(np.int64) if name in whole else c).tolist() for name, c in columns.items()},
    }


def read_sums(text: str | bytes) -> dict[str, Any]:
    """The fields of `Sums` that `write_sums` wrote."""
    data = _READER.read(text)
    version = data.get("version", data.get("partial_version")) if isinstance(data, dict) else None
    if version is None:
        refuse("the sums must be JSON that `Sums.to_json` wrote", "something else", _READER.remedy)
    if version != SUMS_VERSION or data.get("kind") != "sums":
        rule = f"the sums must be of version {SUMS_VERSION}"
        refuse(rule, f"version {version!r}", "Sum the rows again, or use the scoreprism that wrote them.")
    try:
        return _read_fields(data)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        refuse("the parts of the sums must fit together", f"{type(error).__name__}: {error}", _READER.remedy)


def _read_fields(data: Mapping[str, Any]) -> dict[str, Any]:
    settings = Settings.from_dict(data["settings"])
    _check_settings(settings)
    table = {name: np.array(column, dtype=np.float64) for name, column in data["table"].items()}
    for name in WEIGHTS:
        table.setdefault(name, table["n"])
    if not settings.has_weights:
        table |= dict.fromkeys(WEIGHTS, table["n"])
        table |= {f"b{name[1:]}": column for name, column in table.items() if name[0] == "a"}
    exact, absent = data["exact"], data["absent"]
    segments, folds = tuple(tuple(key) for key in data["segments"]), tuple(data["folds"])
    shapes = {column.shape for column in table.values()}
    is_good = len(shapes) == 1 and len(next(iter(shapes))) == 1 and set(table) == _list_columns(settings, exact)
    is_good = is_good and len(set(segments)) == len(segments) and {len(key) for key in segments} <= {len(settings.keys)}
    is_good = is_good and len(set(folds)) == len(folds) and isinstance(absent, int) and absent >= 0
    if not (is_good and _can_be_sums(table, len(segments), len(folds), 1.0 if exact else settings.cells + 1.0)):
        raise ValueError("columns of different lengths, or numbers that cannot be sums")
    if not (exact or _is_consistent(table, settings)):
        raise ValueError("sums that are not those of scores in these cells")
    return {
        "settings": settings, "exact": bool(exact), "segments": segments, "folds": folds, "table": table,
        "absent": absent,
    }  # fmt: skip


def _can_be_sums(table: Mapping[str, FloatArray], segments: int, folds: int, most: float) -> bool:
    """Whether counts, weights and codes are in their ranges, and keys at most `most`."""
    n, w, key = table["n"], table["w"], table["key"]
    if not all(np.isfinite(column).all() for column in table.values()):
        return False
    return bool(
        (n % 1.0 == 0.0).all()
        and n.sum() < 2.0**62
        and (n > 0).all()
        and (w > 0).all()
        and np.isin(table["y"], (0.0, 1.0)).all()
        and np.isin(table["segment"], np.arange(segments)).all()
        and np.isin(table["fold"], np.arange(folds)).all()
        and key.min() >= 0.0
        and key.max() <= most
    )
