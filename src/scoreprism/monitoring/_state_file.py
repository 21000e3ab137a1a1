"""Files of monitors: strict JSON with a version and a digest, read back to the last bit; and the lock of a file."""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scoreprism._core.atomic_files import lock_file
from scoreprism._core.checks import refuse, write_plain
from scoreprism._core.labels import sort_key
from scoreprism._core.strict_json import Reader
from scoreprism._maps.map_files import digest
from scoreprism.exceptions import InputError
from scoreprism.monitoring._alternatives import Alternatives
from scoreprism.monitoring._evidence import Counts
from scoreprism.monitoring._periods import PeriodSums, find_kind

FORMAT, VERSION = "scoreprism.monitor", 1
_REMEDY = "Use the file as it was written, or a backup of it."
#: Bounds of what is read: ten years of days take 12 MB, and as much for each segment.
_READER = Reader("the state of a monitor", _REMEDY, megabytes=1000, values=50_000_000)
_FIELDS = {
    "format", "version", "settings", "columns", "classes", "grouped", "typical", "periods", "restarts", "streams",
    "sha256",
}  # fmt: skip
#: Attempts to lock a file that another process is about to remove.
_TRIES = 100


class PeriodPart(NamedTuple):
    """Rows that were counted at once: the name they were given, if any, and their digest."""

    name: str | None
    digest: str


class Period(NamedTuple):
    """A period that was counted: its name, its parts, rows, events, and the least and the largest score."""

    name: str | int
    parts: tuple[PeriodPart, ...]
    rows: int
    events: int
    low: float
    high: float


class StoredStream(NamedTuple):
    """A stream as it is stored: whose rows, what is followed, its bins, and the sums of every period."""

    segment: str | None
    what: str
    alternatives: Alternatives
    sums: tuple[PeriodSums, ...]


class State(NamedTuple):
    """All that a monitor knows."""

    settings: Mapping[str, Any]
    columns: Mapping[str, Any] | None
    classes: tuple[Any, ...] | None
    grouped: bool | None
    typical: tuple[Alternatives, ...]
    periods: tuple[Period, ...]
    restarts: tuple[tuple[Period, ...], ...]
    streams: tuple[StoredStream, ...]


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────


def write_state(state: State) -> dict[str, Any]:
    """A state as plain objects, with its digest."""
    labels = [state.settings["pos_label"], *(state.settings["classes"] or ()), *(state.classes or ())]
    for label in labels:
        if not (label is None or isinstance(label, (bool, int, float, str))):
            rule = "labels must be numbers, booleans or strings to be written"
            refuse(rule, write_plain(label), "Recode `y_true` first.")
    content = {
        "format": FORMAT,
        "version": VERSION,
        "settings": {name: list(v) if isinstance(v, tuple) else v for name, v in state.settings.items()},
        "columns": None if state.columns is None else dict(state.columns),
        "classes": None if state.classes is None else list(state.classes),
        "grouped": state.grouped,
        "typical": [one.to_dict() for one in state.typical],
        "periods": [_write_period(one) for one in state.periods],
        "restarts": [[_write_period(one) for one in past] for past in state.restarts],
        "streams": [
            {
                "segment": one.segment,
                "what": one.what,
                "alternatives": one.alternatives.to_dict(),
                "sums": [_write_sums(sums) for sums in one.sums],
            }
            for one in state.streams
        ],
    }
    return content | {"sha256": digest(content)}


def _write_period(period: Period) -> dict[str, Any]:
    return period._asdict() | {"parts": [list(part) for part in period.parts]}


def _write_sums(sums: PeriodSums) -> dict[str, Any]:
    """The sums of the bins that have rows."""
    held = np.flatnonzero(sums.counts.rows)
    columns = {name: _shorten(column[held].tolist()) for name, column in sums.counts._asdict().items()}
    return {"n": sums.rows, "loss": sums.loss, "bins": held.tolist(), **columns}


def _shorten(numbers: list[float]) -> list[float]:
    """Whole numbers without their decimals, which are read back the same."""
    return [int(x) if x.is_integer() and abs(x) < 2.0**53 else x for x in numbers]


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────


def read_state(text: str | bytes) -> State:
    """A state whose format, version, digest and parts are right."""
    data = _READER.read(text)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        got = write_plain(data.get("format")) if isinstance(data, dict) else type(data).__name__
        refuse(f"the state of a monitor must have the format {FORMAT!r}", got[:60], "Pass what `save` wrote.")
    if data.get("version") != VERSION or isinstance(data.get("version"), bool):
        got = write_plain(data.get("version"))[:60]
        remedy = "Use the scoreprism that wrote it, or a newer one."
        refuse(f"the state of a monitor must be of version {VERSION}", f"version {got}", remedy)
    if set(data) != _FIELDS:
        odd = ", ".join(sorted(map(str, set(data) ^ _FIELDS)))[:80]
        refuse("the state of a monitor must have the fields of its format", f"missing or unknown: {odd}", _REMEDY)
    if data["sha256"] != digest(data):
        got = "content that does not fit its digest (sha256): it was edited or damaged"
        refuse("the state of a monitor must be as it was written", got, _REMEDY)
    try:
        return _read_fields(data)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        got = f"{type(error).__name__}: {error}"[:200]
        refuse("the parts of the state of a monitor must fit together", got, _REMEDY)


def _read_fields(data: Mapping[str, Any]) -> State:
    periods = _read_periods(data["periods"])
    restarts = tuple(_read_periods(past) for past in data["restarts"])
    flat = [one.name for past in (*restarts, periods) for one in past]
    if any(sort_key(a) >= sort_key(b) for a, b in pairwise(flat)):
        raise ValueError("periods out of order")
    if len({find_kind(name) for name in flat}) > 1:
        raise ValueError("periods of several kinds")
    streams = tuple(_read_stream(one, len(periods)) for one in data["streams"])
    if len({(one.segment, one.what) for one in streams}) < len(streams) or bool(streams) != bool(periods):
        raise ValueError("streams that do not fit the periods")
    whole = [one for one in streams if one.segment is None]
    if streams and (not whole or [sums.rows for sums in whole[0].sums] != [one.rows for one in periods]):
        raise ValueError("sums that do not fit the periods")
    if not isinstance(data["settings"], dict) or not isinstance(data["columns"], (dict, type(None))):
        raise TypeError("settings that are no object")
    if not isinstance(data["grouped"], (bool, type(None))):
        raise TypeError("whether rows are grouped must be true, false or null")
    classes = data["classes"]
    return State(
        data["settings"],
        data["columns"],
        None if classes is None else tuple(classes),
        data["grouped"],
        tuple(map(Alternatives.from_dict, data["typical"])),
        periods,
        restarts,
        streams,
    )


def _read_periods(stored: Any) -> tuple[Period, ...]:
    found = []
    for one in stored:
        parts = tuple(PeriodPart(*part) for part in one["parts"])
        good = type(one["name"]) in (int, str) and 0 <= one["events"] <= one["rows"] and bool(parts)
        good = good and all(isinstance(part.digest, str) for part in parts) and set(one) == set(Period._fields)
        good = (
            good and all(type(one[name]) is int for name in ("rows", "events")) and 0 <= one["low"] <= one["high"] <= 1
        )
        if not good:
            raise ValueError("a period that cannot have been counted")
        found.append(Period(**(one | {"parts": parts})))
    return tuple(found)


def _read_stream(stored: Mapping[str, Any], periods: int) -> StoredStream:
    alternatives = Alternatives.from_dict(stored["alternatives"])
    sums = tuple(_read_sums(one, alternatives.bins) for one in stored["sums"])
    segment, what = stored["segment"], stored["what"]
    if len(sums) != periods or not isinstance(what, str) or not isinstance(segment, (str, type(None))):
        raise ValueError("a stream that does not fit the periods")
    return StoredStream(segment, what, alternatives, sums)


def _read_sums(stored: Mapping[str, Any], bins: int) -> PeriodSums:
    held = np.array(stored["bins"], dtype=np.intp)
    columns = {name: np.array(stored[name], dtype=np.float64) for name in Counts._fields}
    room = 1e-9 * (1.0 + columns["rows"])
    good = [
        type(stored["n"]) is int and stored["n"] >= 0 and math.isfinite(stored["loss"]),
        (np.diff(held, prepend=-1) > 0).all() and (held < bins).all(),
        {column.shape for column in columns.values()} == {held.shape},
        all(np.isfinite(column).all() and (column >= 0.0).all() for column in columns.values()),
    ]
    if not all(good) or any((columns[name] > columns["rows"] + room).any() for name in ("events", "scores", "squares")):
        raise ValueError("numbers that cannot be sums")
    whole = {name: np.zeros(bins) for name in columns}
    for name, column in columns.items():
        whole[name][held] = column
    return PeriodSums(Counts(**whole), stored["n"], float(stored["loss"]))


def read_bytes(path: str | os.PathLike[str]) -> bytes | None:
    """The content of a file; None where there is none."""
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        got = f"{error.strerror or error} for {os.fspath(path)!r}"
        refuse("the state of a monitor must be a readable file", got, "Check the path.")


def hash_bytes(content: bytes | None) -> str | None:
    """A digest of the content of a file, to see whether another process has changed it."""
    return None if content is None else hashlib.sha256(content).hexdigest()


# ── one job at a time ───────────────────────────────────────────────────────────────────────────────


@contextmanager
def hold_file(path: str | os.PathLike[str]) -> Iterator[None]:
    """
    Lock a file while it is read and replaced, by a file beside it.

    The state itself cannot carry the lock: it is replaced by a new file. The lock goes with its process, so that what
    a killed process leaves is no obstacle. Where there are no locks, `save` still sees that a file has changed.
    """
    target = Path(os.path.realpath(path))
    beside = target.parent / f".{target.name[:180]}.lock"
    descriptor = _open_lock(beside, os.fspath(path))
    try:
        yield
    finally:
        if descriptor is not None:
            with suppress(OSError):  # first removed, then unlocked: who waits for this one sees that it is gone
                beside.unlink()
            os.close(descriptor)


def _open_lock(beside: Path, shown: str) -> int | None:
    """A locked file; None where the file system has no locks."""
    tries = 0
    while True:
        try:
            descriptor = os.open(beside, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            rule = "the state of a monitor must be in a folder that exists and is writable"
            refuse(rule, f"{error.strerror or error} for {shown!r}", "Check the path.")
        is_locked = lock_file(descriptor)
        if is_locked and os.fstat(descriptor).st_nlink:
            return descriptor
        if is_locked is None:
            with suppress(OSError):
                beside.unlink()
        os.close(descriptor)
        if is_locked is None:
            return None
        tries += 1
        if is_locked is False or tries == _TRIES:
            rule, got = "a monitor must be updated by one job at a time", f"{shown!r}, in use by another process"
            refuse(rule, got, "Run the jobs one after the other.")
        time.sleep(0.001)  # the file was removed before it was locked
