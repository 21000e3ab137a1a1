"""Summaries as strict, versioned JSON: numbers that are not finite are strings, unknown fields are refused."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from scoreprism._core.checks import abbreviate, refuse
from scoreprism._core.strict_json import Reader
from scoreprism.exceptions import InputError

SCHEMA_VERSION = 4

_FIELDS = frozenset(
    {"schema_version", "loss", "form", "risk", "residual", "terms", "names", "roles", "signs", "levels", "n"}
    | {"n_classes", "clip", "findings", "population", "alternatives", "mean", "covariance", "ends", "muted"}
    | {"calibration_pvalue"}
)

#: What `scoreprism.scale` adds to a summary, in a field of its own that others pass over.
SCALE = "scale"

#: What only some summaries have: the same at a floor, where the loss is infinite; and there, how many rows it moved.
FLOORED, MOVED = "floored", "moved"

#: Bounds of what is read; the summary of a chain of a hundred levels takes a megabyte.
_READER = Reader("the JSON of a decomposition", "Pass the text that Decomposition.to_json() wrote.")

#: Fields that hold text, which is never a number.
_TEXTS = ("loss", "name", "names", "levels", "muted", "kind", "subject", "model", "term", "text")


def read_summary(text: str | bytes) -> dict[str, Any]:
    """Strict reading: this version, these fields, nothing else."""
    remedy = _READER.remedy
    data = _decode(_READER.read(text))
    if not isinstance(data, dict) or data.get("schema_version") != SCHEMA_VERSION:
        version = data.get("schema_version") if isinstance(data, dict) else None
        refuse(f"the JSON must have schema_version {SCHEMA_VERSION}", repr(version), remedy)
    given = set(data) - {SCALE, FLOORED, MOVED}
    if given != _FIELDS:
        odd = sorted(_FIELDS.symmetric_difference(given))
        refuse(
            "the JSON must have exactly the fields of a decomposition", f"unknown or missing: {abbreviate(odd)}", remedy
        )
    return data


@contextmanager
def fitting_together() -> Iterator[None]:
    """Refuse a summary whose parts are of other types or lengths than what was written."""
    try:
        yield
    except InputError:
        raise
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        found = f"{type(error).__name__}: {str(error)[:200]}"
        refuse("the parts of the summary must fit together", found, "Do not edit the JSON by hand.")


def require_kinds(data: dict[str, Any], kinds: dict[str, tuple[type, ...]]) -> None:
    """Fields of the types they should have; True and False are no numbers."""
    for name, kind in kinds.items():
        if type(data[name]) not in kind:
            raise TypeError(f"{name} of the type {type(data[name]).__name__}")


def encode(value: Any) -> Any:
    """Floats that JSON cannot write become strings."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, dict):
        return {key: encode(v) for key, v in value.items()}
    return [encode(v) for v in value] if isinstance(value, (list, tuple)) else value


def _decode(value: Any) -> Any:
    """The way back, for numbers only: the places that hold text hold no such words."""
    if isinstance(value, dict):
        return {key: v if key in _TEXTS else _decode(v) for key, v in value.items()}
    if isinstance(value, list):
        return [_decode(v) for v in value]
    return float(value) if value in ("nan", "inf", "-inf") else value
