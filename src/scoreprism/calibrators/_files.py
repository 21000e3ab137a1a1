"""Fitted calibrators as strict, versioned JSON and back; nothing here runs code from a file."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import plain, refuse
from scoreprism._core.strict_json import Reader
from scoreprism._maps.binary_map import BinaryMap
from scoreprism._maps.parts import REMEDY, Map, brief, decode, encode, require_fields
from scoreprism._maps.softmax_map import SoftmaxMap
from scoreprism._sample.fit_rows import Reduction
from scoreprism.calibrators._base import Calibrator
from scoreprism.calibrators._compose import OneVsRestMap
from scoreprism.calibrators._parametric import Same, Tempered
from scoreprism.calibrators._provenance import read_provenance
from scoreprism.calibrators._venn_abers import VennAbersMap
from scoreprism.losses import LOSSES, ProperLoss

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


def to_dict(calibrator: Calibrator) -> dict[str, Any]:
    """A fitted calibrator as plain numbers and words."""
    names = getattr(calibrator, "feature_names_in_", None)
    provenance = getattr(calibrator, "provenance_", None)
    content = {
        "format": FORMAT,
        "version": VERSION,
        "provenance": None if provenance is None else provenance.to_dict(),
        **_described(calibrator),
        "classes": _labels_out(calibrator.classes_),
        "n_features_in": int(calibrator.n_features_in_),
        "feature_names_in": None if names is None else [str(name) for name in names],
        "reduction": None if calibrator.reduction_ is None else encode(calibrator.reduction_),
        "map": encode(calibrator.map_),
    }
    return content | {"sha256": digest(content)}


def digest(content: dict[str, Any]) -> str:
    """The SHA-256 of all fields but the digest itself, whatever their order and the blanks between them."""
    rest = {name: value for name, value in content.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()


def from_dict(data: dict[str, Any]) -> Calibrator:
    """
    A fitted calibrator from what `Calibrator.to_dict` gave.

    Parameters
    ----------
    data : dict
        Numbers and words.

    Returns
    -------
    Calibrator
        Fitted; it predicts the same to the last bit.

    Examples
    --------
    >>> from scoreprism.calibrators import PlattCalibrator, from_dict
    >>> platt = PlattCalibrator().fit([0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1])
    >>> from_dict(platt.to_dict()).calibrate([0.3]) == platt.calibrate([0.3])
    array([ True])
    """
    try:
        text = json.dumps(data)
    except (TypeError, ValueError, RecursionError) as error:  # as long and as deep as Python can hold
        refuse("a calibrator must be read from numbers and words", f"{type(error).__name__}: {error}", REMEDY)
    return from_json(text)


def _from_data(data: Any) -> Calibrator:
    """A fitted calibrator from what the strict reader gave."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        refuse(
            f"a calibrator file must have the format {FORMAT!r}", brief(_short(data)), "Pass what `to_json()` wrote."
        )
    if data.get("version") != VERSION or isinstance(data.get("version"), bool):
        refuse(
            f"this release reads version {VERSION} of the format",
            brief(data.get("version")),
            "Fit the map again, or use the release that wrote it.",
        )
    found = require_fields(data, _FIELDS, "a calibrator file")
    if found["sha256"] != digest(found):
        refuse(
            "a calibrator file must be as it was written",
            "content that does not fit its digest (sha256): it was edited or damaged",
            "Use the original, or fit the map again.",
        )
    calibrator = _from_described({name: found[name] for name in ("calibrator", "parameters", "fitted")})
    calibrator.classes_ = _labels_in(found["classes"])
    width, names = found["n_features_in"], found["feature_names_in"]
    if isinstance(width, bool) or not isinstance(width, int) or width < 1:
        refuse("n_features_in must be a whole number of at least 1", brief(width), REMEDY)
    calibrator.n_features_in_ = width
    if names is not None:
        if not isinstance(names, list) or len(names) != width or not all(isinstance(name, str) for name in names):
            refuse("feature_names_in must be null or one name per column", repr(names), REMEDY)
        calibrator.feature_names_in_ = np.array(names, dtype=object)
    reduction = None if found["reduction"] is None else decode(found["reduction"], "reduction")
    if reduction is not None and (not isinstance(reduction, Reduction) or len(reduction.weights) != width + 1):
        refuse("reduction must fit the number of columns", type(reduction).__name__, REMEDY)
    calibrator.reduction_ = reduction
    calibrator.map_ = _map(decode(found["map"], "map"), len(calibrator.classes_))
    seen = 1 if len(calibrator.classes_) == 2 and reduction is None else width
    calibrator.provenance_ = read_provenance(found["provenance"], len(calibrator.classes_), seen)
    inner = getattr(calibrator, "calibrator_", None)
    if isinstance(inner, Calibrator):
        inner.map_, inner.classes_ = calibrator.map_, calibrator.classes_
        inner.n_features_in_, inner.reduction_ = calibrator.n_features_in_, calibrator.reduction_
        inner.provenance_ = calibrator.provenance_
    return calibrator


def from_json(text: str | bytes) -> Calibrator:
    """
    A fitted calibrator from strict JSON.

    Parameters
    ----------
    text : str or bytes
        What `Calibrator.to_json` wrote. NaN, repeated or unknown fields, other versions and content that does not fit
        its digest are refused.

    Returns
    -------
    Calibrator
        Fitted; it predicts the same to the last bit, and writes the same text.

    Examples
    --------
    >>> from scoreprism.calibrators import PlattCalibrator, from_json
    >>> text = PlattCalibrator().fit([0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1]).to_json()
    >>> from_json(text).to_json() == text
    True
    """
    return _from_data(READER.read(text))


def _map(part: object, k: int) -> Map:
    """A map, tried on one score: parts that do not fit together show here."""
    if not isinstance(part, (BinaryMap, VennAbersMap, SoftmaxMap, Tempered, Same, OneVsRestMap)):
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


def _short(data: object) -> object:
    return data.get("format") if isinstance(data, dict) else type(data).__name__


# ── parameters and fitted attributes ────────────────────────────────────────────────────────────────


def _described(calibrator: Calibrator) -> dict[str, Any]:
    """Name, parameters and kept attributes."""
    parameters = calibrator.get_params(deep=False)
    kept = {name: getattr(calibrator, name) for name in calibrator._kept if hasattr(calibrator, name)}
    return {
        "calibrator": calibrator.name,
        "parameters": {name: _value_out(value, name) for name, value in parameters.items()},
        "fitted": {name: _value_out(value, name) for name, value in kept.items()},
    }


def _from_described(found: object) -> Calibrator:
    """A calibrator without its map."""
    from scoreprism.calibrators import CALIBRATORS

    spec = require_fields(found, {"calibrator", "parameters", "fitted"}, "a calibrator")
    cls = CALIBRATORS.get(spec["calibrator"]) if isinstance(spec["calibrator"], str) else None
    if cls is None:
        refuse("calibrator must be the name of one", brief(spec["calibrator"]), f"Known: {', '.join(CALIBRATORS)}.")
    made: Calibrator = cls()
    parameters = require_fields(spec["parameters"], set(made.get_params(deep=False)), "parameters")
    for name, value in parameters.items():
        setattr(made, name, _value_in(value))
    if not isinstance(spec["fitted"], dict) or not set(spec["fitted"]) <= set(cls._kept):
        refuse(f"fitted must hold {', '.join(cls._kept) or 'nothing'}", brief(spec["fitted"]), REMEDY)
    for name, value in spec["fitted"].items():
        setattr(made, name, _value_in(value))
    return made


def _value_out(value: object, name: str) -> Any:
    """A parameter or attribute as JSON."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):  # the loss of a candidate may be infinite
        return value if np.isfinite(value) else {"number": str(value)}
    if isinstance(value, Calibrator):
        return _described(value)
    if isinstance(value, ProperLoss) and LOSSES.get(value.name) is type(value):
        return {"loss": value.name, "parameters": {f.name: getattr(value, f.name) for f in fields(value)}}  # type: ignore[arg-type]
    if isinstance(value, np.ndarray):
        return [_value_out(entry, name) for entry in value.tolist()]
    if isinstance(value, (list, tuple)):
        return [_value_out(entry, name) for entry in value]
    if isinstance(value, dict):
        return {"entries": {str(key): _value_out(entry, name) for key, entry in value.items()}}
    if name != "random_state":  # a generator has moved on, and predictions do not need it
        rule = f"{name} must be a number, a word or a calibrator to be written"
        refuse(rule, repr(value), f"Use set_params({name}=…).")
    return None


def _value_in(value: Any) -> Any:
    """A parameter or attribute from JSON."""
    if isinstance(value, list):
        return [_value_in(entry) for entry in value]
    if isinstance(value, dict):
        if set(value) == {"entries"} and isinstance(value["entries"], dict):
            return {key: _value_in(entry) for key, entry in value["entries"].items()}
        if set(value) == {"number"} and value["number"] in ("inf", "-inf", "nan"):
            return float(value["number"])
        if set(value) == {"loss", "parameters"} and isinstance(value["parameters"], dict):
            from scoreprism.losses import get_loss

            return get_loss(value["loss"], **value["parameters"])
        return _from_described(value)
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


def _labels_out(classes: NDArray[Any]) -> dict[str, Any]:
    if classes.dtype == object and not any(isinstance(label, str) for label in classes.tolist()):
        classes = np.array(classes.tolist())  # numbers in a column of objects, as files of tables give them
    labels = classes.tolist()
    dtype = "str" if classes.dtype.kind == "U" else classes.dtype.name
    known = dtype in _NUMBERS or (dtype in ("str", "object") and all(isinstance(label, str) for label in labels))
    if not known:
        refuse(
            "labels must be numbers, booleans or strings to be written", plain(labels[0]), "Recode y before fitting."
        )
    return {"dtype": dtype, "labels": labels}


def _labels_in(found: object) -> NDArray[Any]:
    spec = require_fields(found, {"dtype", "labels"}, "classes")
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
