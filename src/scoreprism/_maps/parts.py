"""Fitted maps as frozen parts, encoded as JSON without loss and decoded strictly."""

from __future__ import annotations

import reprlib
import sys
from abc import abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol

import numpy as np

from scoreprism._core.checks import abbreviate, refuse
from scoreprism._core.simplex import FloatArray

REMEDY = "Write the file again with `to_json()`."
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60


def brief(value: object) -> str:
    """Shorten a value from a file for a message."""
    return _SHORT.repr(value)


@dataclass(frozen=True)
class Part:
    """A piece of a fitted map: a frozen dataclass of numbers, words, arrays and other parts."""

    #: Every part by its tag: what a file may contain.
    known: ClassVar[dict[str, type[Part]]] = {}
    #: The word that a file has for this part. It stays when the class is renamed or moved, and is never reused.
    tag: ClassVar[str]

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        tag = cls.__dict__.get("tag")  # none where others derive from it
        if tag is not None:
            assert tag not in Part.known, f"two parts with the tag {tag!r}"  # noqa: S101 - a slip of ours
            Part.known[tag] = cls

    def check(self) -> None:
        """Refuse numbers that cannot have come from a fit; called on parts that are read from a file."""


@dataclass(frozen=True)
class MapPart(Part):
    """A part that is a whole map: from scores, (n,) for two classes and (n, K) for more, to a law of that shape."""

    @abstractmethod
    def __call__(self, score: FloatArray) -> FloatArray: ...


def encode(value: object) -> Any:
    """A part, array, number or word as what JSON can hold; floats keep every bit."""
    if isinstance(value, Part):
        return {"part": value.tag} | {f.name: encode(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple):
        return [encode(entry) for entry in value]
    return value.item() if isinstance(value, np.generic) else value


def require_fields(content: object, wanted: set[str], where: str) -> dict[str, Any]:
    """A JSON object with exactly the fields it should have."""
    if not isinstance(content, dict) or set(content) != wanted:
        got = (
            f"the fields {abbreviate(sorted(map(str, content)), 12)}"
            if isinstance(content, dict)
            else type(content).__name__
        )
        refuse(f"{where} must be an object with the fields {abbreviate(sorted(wanted), 12)}", got, REMEDY)
    return content


def decode(content: object, where: str) -> Part:
    """The part a JSON object describes; unknown names, fields and non-numbers are refused."""
    tag = content.get("part") if isinstance(content, dict) else None
    cls = Part.known.get(tag) if isinstance(tag, str) else None
    if cls is None:
        refuse(
            f"{where} must name a part this version knows", brief(tag), "Read the file with the version that wrote it."
        )
    kinds = {f.name: str(f.type) for f in fields(cls)}
    values = require_fields(content, {"part", *kinds}, where)
    part = cls(**{name: _decode(values[name], kind, f"{where}.{name}") for name, kind in kinds.items()})
    part.check()
    return part


def _decode(value: object, kind: str, where: str) -> object:
    """A field of the type its class declares."""
    if kind == "FloatArray":
        return _decode_array(value, where)
    if kind == "float":
        return _decode_number(value, where)
    if kind == "str":
        return value if isinstance(value, str) else refuse(f"{where} must be a word", brief(value), REMEDY)
    if kind.startswith("tuple"):
        entries = (
            value if isinstance(value, list) and value else refuse(f"{where} must be a list", brief(value), REMEDY)
        )
        return tuple(decode(entry, f"{where}[{i}]") for i, entry in enumerate(entries))
    return decode(value, where)


def _decode_number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= sys.float_info.max:
        refuse(f"{where} must be a finite number", brief(value), REMEDY)
    return float(value)


def _decode_array(value: object, where: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    entries = (
        value
        if isinstance(value, list) and value
        else refuse(f"{where} must be a list of numbers", brief(value), REMEDY)
    )
    if isinstance(entries[0], list):
        rows = [_decode_array(row, f"{where}[{i}]") for i, row in enumerate(entries)]
        if len({row.shape for row in rows}) > 1:
            refuse(f"{where} must have rows of one length", abbreviate(row.size for row in rows), REMEDY)
        return np.stack(rows)
    return np.array([_decode_number(entry, f"{where}[{i}]") for i, entry in enumerate(entries)])


def require(holds: object, where: str, rule: str) -> None:
    """Refuse numbers from a file that do not meet a condition."""
    if not holds:
        refuse(f"{where} must have {rule}", "something else", REMEDY)


class Map(Protocol):
    """A fitted map: from the score, (n,) for two classes and (n, K) for more, to a law of the same shape."""

    def __call__(self, score: FloatArray) -> FloatArray: ...
