"""Fitted maps as strict, versioned JSON and back; nothing here runs code from a file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import refuse, write_plain
from scoreprism._core.strict_json import Reader
from scoreprism._maps.parts import REMEDY, MapPart, brief, decode, require_fields
from scoreprism._maps.softmax_map import SoftmaxMap
from scoreprism.losses import LOSSES, ProperLoss, get_loss

FORMAT, VERSION = "scoreprism.calibrator", 2
_FIELDS = {
    "format",
    "version",
    "provenance",
    "calibrator",
    "parameters",
    "classes",
    "n_features_in",
    "feature_names_in",
    "reduction",
    "fitted",
    "map",
    "sha256",
}
#: Bounds of what is read: the map of a million distinct scores has 30 MB and 1.5 million numbers.
READER = Reader("a calibrator file", REMEDY, megabytes=256, values=10_000_000)
#: Most labels of a map, and most letters of them all; numpy makes each label as long as the longest.
_MOST_LABELS, _MOST_LETTERS = 100_000, 10_000_000


def seal(content: dict[str, Any]) -> dict[str, Any]:
    """The content of a file with its format, its version and its digest."""
    content = {"format": FORMAT, "version": VERSION, **content}
    return content | {"sha256": digest(content)}


def digest(content: dict[str, Any]) -> str:
    """The SHA-256 of all fields but the digest itself, whatever their order and the blanks between them."""
    rest = {name: value for name, value in content.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()


def read(text: str | bytes) -> dict[str, Any]:
    """All fields of a file whose format, version and digest are right."""
    data = READER.read(text)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        got = data.get("format") if isinstance(data, dict) else type(data).__name__
        refuse(f"a calibrator file must have the format {FORMAT!r}", brief(got), "Pass what `to_json()` wrote.")
    if data.get("version") != VERSION or isinstance(data.get("version"), bool):
        refuse(
            f"this release reads version {VERSION} of the format",
            brief(data.get("version")),
            "Fit the map again, or use the release that wrote it.",
        )
    fields = require_fields(data, _FIELDS, "a calibrator file")
    if fields["sha256"] != digest(fields):
        refuse(
            "a calibrator file must be as it was written",
            "content that does not fit its digest (sha256): it was edited or damaged",
            "Use the original, or fit the map again.",
        )
    return fields


def decode_map(content: object, k: int) -> MapPart:
    """A map, tried on one score: parts that do not fit together show here."""
    part = decode(content, "map")
    if not isinstance(part, MapPart):
        refuse("map must be a map", type(part).__name__, REMEDY)
    score = np.full(1, 0.5) if k == 2 else np.full((1, k), 1.0 / k)
    if isinstance(part, SoftmaxMap) and part.weights.shape != part.shape(k):  # before K² features are made
        refuse(f"map must give probabilities of {k} classes", f"weights of shape {part.weights.shape}", REMEDY)
    try:
        law = part(score)
        good = law.shape == score.shape and bool(((law >= 0.0) & (law <= 1.0)).all())
    except (ValueError, IndexError, TypeError, AttributeError, FloatingPointError):
        good = False
    if not good:
        refuse(f"map must give probabilities of {k} classes", type(part).__name__, REMEDY)
    return part


# ── parameters and fitted attributes ────────────────────────────────────────────────────────────────


@runtime_checkable
class Describable(Protocol):
    """An estimator that a file describes: by its name, its parameters and the fitted attributes it keeps."""

    name: ClassVar[str]
    _kept: ClassVar[tuple[str, ...]]

    def get_params(self, deep: bool = True) -> dict[str, Any]: ...


def describe(estimator: Describable) -> dict[str, Any]:
    """Name, parameters and kept attributes."""
    parameters = estimator.get_params(deep=False)
    attributes = {name: getattr(estimator, name) for name in estimator._kept if hasattr(estimator, name)}
    return {
        "calibrator": estimator.name,
        "parameters": {name: _encode_value(value, name) for name, value in parameters.items()},
        "fitted": {name: _encode_value(value, name) for name, value in attributes.items()},
    }


def make_described(content: object, table: Mapping[str, type]) -> Any:
    """An estimator of a table, without its map."""
    spec = require_fields(content, {"calibrator", "parameters", "fitted"}, "a calibrator")
    cls: Any = table.get(spec["calibrator"]) if isinstance(spec["calibrator"], str) else None
    if cls is None:
        refuse("calibrator must be the name of one", brief(spec["calibrator"]), f"Known: {', '.join(table)}.")
    estimator = cls()
    parameters = require_fields(spec["parameters"], set(estimator.get_params(deep=False)), "parameters")
    for name, value in parameters.items():
        setattr(estimator, name, _decode_value(value, table))
    if not isinstance(spec["fitted"], dict) or not set(spec["fitted"]) <= set(cls._kept):
        refuse(f"fitted must hold {', '.join(cls._kept) or 'nothing'}", brief(spec["fitted"]), REMEDY)
    for name, value in spec["fitted"].items():
        setattr(estimator, name, _decode_value(value, table))
    return estimator


def _encode_value(value: object, name: str) -> Any:
    """A parameter or attribute as JSON."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):  # the loss of a candidate may be infinite
        return value if np.isfinite(value) else {"number": str(value)}
    if isinstance(value, Describable):
        return describe(value)
    if isinstance(value, ProperLoss) and LOSSES.get(value.name) is type(value):
        return {"loss": value.name, "parameters": {f.name: getattr(value, f.name) for f in fields(value)}}  # type: ignore[arg-type]
    if isinstance(value, np.ndarray):
        return [_encode_value(entry, name) for entry in value.tolist()]
    if isinstance(value, (list, tuple)):
        return [_encode_value(entry, name) for entry in value]
    if isinstance(value, dict):
        return {"entries": {str(key): _encode_value(entry, name) for key, entry in value.items()}}
    if name != "random_state":  # a generator has moved on, and predictions do not need it
        rule = f"{name} must be a number, a word or a calibrator to be written"
        refuse(rule, repr(value), f"Use set_params({name}=…).")
    return None


def _decode_value(value: Any, table: Mapping[str, type]) -> Any:
    """A parameter or attribute from JSON."""
    if isinstance(value, list):
        return [_decode_value(entry, table) for entry in value]
    if isinstance(value, dict):
        if set(value) == {"entries"} and isinstance(value["entries"], dict):
            return {key: _decode_value(entry, table) for key, entry in value["entries"].items()}
        if set(value) == {"number"} and value["number"] in ("inf", "-inf", "nan"):
            return float(value["number"])
        if set(value) == {"loss", "parameters"} and isinstance(value["parameters"], dict):
            return get_loss(value["loss"], **value["parameters"])
        return make_described(value, table)
    return value


# ── labels ──────────────────────────────────────────────────────────────────────────────────────────

#: The kinds of labels that a file may hold; text is "str" at any length.
_NUMBERS = (
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "float16",
    "float32",
    "float64",
)


def encode_labels(classes: NDArray[Any]) -> dict[str, Any]:
    """Labels of classes as JSON."""
    if classes.dtype == object and not any(isinstance(label, str) for label in classes.tolist()):
        classes = np.array(classes.tolist())  # numbers in a column of objects, as files of tables give them
    labels = classes.tolist()
    dtype = "str" if classes.dtype.kind == "U" else classes.dtype.name
    known = dtype in _NUMBERS or (dtype in ("str", "object") and all(isinstance(label, str) for label in labels))
    if not known:
        refuse(
            "labels must be numbers, booleans or strings to be written",
            write_plain(labels[0]),
            "Recode y before fitting.",
        )
    return {"dtype": dtype, "labels": labels}


def decode_labels(content: object) -> NDArray[Any]:
    """Labels of classes from JSON."""
    spec = require_fields(content, {"dtype", "labels"}, "classes")
    dtype, labels = spec["dtype"], spec["labels"]
    if not isinstance(labels, list) or not 2 <= len(labels) <= _MOST_LABELS:
        got = f"{len(labels)}" if isinstance(labels, list) else brief(labels)
        refuse(f"classes must list 2 to {_MOST_LABELS} labels", got, REMEDY)
    texts = all(isinstance(label, str) for label in labels)
    if texts and len(labels) * max(map(len, labels)) > _MOST_LETTERS:
        got = f"{len(labels)} labels, one of {max(map(len, labels))} letters"
        refuse(f"labels must take at most {_MOST_LETTERS} letters", got, "Use shorter labels.")
    try:
        good = (dtype in ("str", "object") and texts) or (dtype in _NUMBERS and not texts)
        classes = np.array(labels, dtype=dtype) if good else np.array([])
        good = good and classes.ndim == 1 and classes.tolist() == labels and len(set(labels)) == len(labels)
    except (TypeError, ValueError, OverflowError):
        good = False
    if not good:
        refuse("classes must list different labels of one kind", brief(spec), REMEDY)
    return classes
