"""Cases and records. A case is a function of nothing; what it returns is turned into plain values by path."""

from __future__ import annotations

import dataclasses
import gzip
import json
import math
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Plain = dict[str, Any]
CASES: dict[str, Callable[[], Any]] = {}
STORED = Path(__file__).parent / "stored.json.gz"


def case(name: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Give a function of nothing a name among the cases."""

    def keep(function: Callable[[], Any]) -> Callable[[], Any]:
        CASES[name] = function
        return function

    return keep


def paths(value: Any, at: str = "") -> Iterator[tuple[str, float | str | None]]:
    """Everything in a value, by path: numbers as floats, all else as text."""
    value = _opened(value)
    if isinstance(value, dict):
        for key, part in value.items():
            is_ours = key == "version" and isinstance(part, str)  # of the library, which every release changes
            if key != "sha256" and not is_ours:  # digests are of the last bits
                yield from paths(part, f"{at}/{key}")
    else:
        yield at, value


def _opened(value: Any) -> dict[Any, Any] | float | str | None:
    """A value as a number or a text, or as parts by name."""
    if isinstance(value, np.ndarray):
        value = _shortened(value) if value.dtype.kind in "fiub" else value.tolist()
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        numbers = len(value) > 40 and all(isinstance(one, (int, float)) for one in value)
        return dict(enumerate(_shortened(np.asarray(value, dtype=float)) if numbers else value))
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        return float(value)
    if value is None or isinstance(value, Mapping):
        return value if value is None else dict(value)
    return _fields(value) or str(value)


def _fields(value: Any) -> dict[str, Any]:
    """What a result says of itself; empty where it has no parts."""
    if hasattr(value, "to_dict"):
        return dict(value.to_dict())
    if hasattr(value, "_asdict"):
        return dict(value._asdict())
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value) if not field.name.startswith("_")]
        return {name: getattr(value, name) for name in names}
    return {}


def _shortened(values: np.ndarray) -> Any:
    """An array of more than 40 numbers as its size, moments and some of its entries: a change shows in one of them."""
    flat = np.asarray(values, dtype=float).ravel()
    if flat.size <= 40:
        return flat.tolist()
    finite = np.where(np.isfinite(flat), flat, 0.0)
    some = flat[np.linspace(0, flat.size - 1, 12).astype(int)]
    swing = float(np.cos(np.arange(flat.size)) @ finite) / flat.size  # depends on the order of the entries
    return [str(values.shape), float(finite.mean()), float((finite**2).mean()), swing, *some.tolist()]


def attempt(call: Callable[[], Any]) -> Any:
    """What a call returns, or its refusal."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - whatever is raised is the answer
        return f"{type(error).__name__}: {error}"


def recorded(only: tuple[str, ...] = ()) -> dict[str, Plain]:
    """All cases, by name."""
    from tests.golden import cases  # noqa: F401 - fills CASES

    found = {}
    for name, function in CASES.items():
        if not only or name.startswith(only):
            start = time.perf_counter()
            found[name] = record(function)
            print(f"{time.perf_counter() - start:6.2f} s  {len(found[name]):5}  {name}", file=sys.stderr)
    return found


def record(function: Callable[[], Any]) -> Plain:
    """One case as values by path, with the warnings it gave."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        value = function()
    found = dict(paths(value))
    said = sorted({f"{type(one.message).__name__}: {one.message}" for one in heard if _ours(one)})
    return found | {f"/warning {i}": text for i, text in enumerate(said)}


def _ours(one: warnings.WarningMessage) -> bool:
    return type(one.message).__module__.startswith("scoreprism")


def differences(old: Plain, new: Plain, tolerance: float) -> list[str]:
    """What differs between two records of a case."""
    found = [f"{path}: gone" for path in old if path not in new]
    found += [f"{path}: new, {new[path]!r}"[:160] for path in new if path not in old]
    for path in old.keys() & new.keys():
        a, b = old[path], new[path]
        if isinstance(a, float) and isinstance(b, float):
            if a != b and not (math.isnan(a) and math.isnan(b)) and not abs(a - b) <= tolerance * max(1.0, abs(a)):
                found.append(f"{path}: {a!r} → {b!r}")
        elif a != b and not _alike(str(a), str(b), tolerance):
            found.append(f"{path}: {_apart(str(a), str(b))}")
    return sorted(found)


_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def _alike(a: str, b: str, tolerance: float) -> bool:
    """Whether texts differ only in the last digit of numbers; where 1e-12 is asked for, they must be equal."""
    if tolerance <= 1e-12 or _NUMBER.sub("#", a) != _NUMBER.sub("#", b):
        return False
    pairs = zip(_NUMBER.findall(a), _NUMBER.findall(b), strict=True)
    return all(x == y or abs(float(x) - float(y)) <= max(1.01 * _unit(x, y), 1e-6 * float(x)) for x, y in pairs)


def _unit(a: str, b: str) -> float:
    """One unit of the last digit shown."""
    return max(10.0 ** (int(exponent or 0) - len(decimals)) for exponent, decimals in map(_digits, (a, b)))


def _digits(number: str) -> tuple[str, str]:
    mantissa, _, exponent = number.partition("e")
    return exponent, mantissa.partition(".")[2]


def _apart(a: str, b: str) -> str:
    """Where two texts part."""
    i = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return f"…{a[max(i - 30, 0) : i + 50]!r} → …{b[max(i - 30, 0) : i + 50]!r}"


def read(file: Path) -> dict[str, Plain]:
    found: dict[str, Plain] = json.loads(gzip.decompress(file.read_bytes()))
    return found


def write(file: Path, found: dict[str, Plain]) -> None:
    file.write_bytes(gzip.compress(json.dumps(found, ensure_ascii=False, indent=0).encode(), mtime=0))
