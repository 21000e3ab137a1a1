"""Fitted calibrators as strict, versioned JSON and back; nothing here runs code from a file."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from scoreprism._validation import plain, refuse
from scoreprism.calibrators._base import Calibrator
from scoreprism.calibrators._compose import OneVsRestMap
from scoreprism.calibrators._data import Map, Reduction
from scoreprism.calibrators._maps import BinaryMap
from scoreprism.calibrators._multiclass import SoftmaxMap
from scoreprism.calibrators._parametric import Same, Tempered
from scoreprism.calibrators._parts import decode, encode, require_fields
from scoreprism.calibrators._venn_abers import VennAbersMap
from scoreprism.exceptions import InputError
from scoreprism.losses import LOSSES, ProperLoss

FORMAT, VERSION = "scoreprism.calibrator", 1
_FIELDS = {
    "format",
    "version",
    "calibrator",
    "parameters",
    "classes",
    "n_features_in",
    "feature_names_in",
    "reduction",
    "fitted",
    "map",
}
_REMEDY = "Write the file again with to_json()."


def to_dict(calibrator: Calibrator) -> dict[str, Any]:
    """A fitted calibrator as plain numbers and words."""
    names = getattr(calibrator, "feature_names_in_", None)
    return {
        "format": FORMAT,
        "version": VERSION,
        **_described(calibrator),
        "classes": _labels_out(calibrator.classes_),
        "n_features_in": int(calibrator.n_features_in_),
        "feature_names_in": None if names is None else [str(name) for name in names],
        "reduction": None if calibrator.reduction_ is None else encode(calibrator.reduction_),
        "map": encode(calibrator.map_),
    }


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
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        refuse(f"a calibrator file must have the format {FORMAT!r}", repr(_short(data)), "Pass what to_json() wrote.")
    if data.get("version") != VERSION or isinstance(data.get("version"), bool):
        refuse(
            f"this release reads version {VERSION} of the format",
            repr(data.get("version")),
            "Update scoreprism, or write the file again.",
        )
    found = require_fields(data, _FIELDS, "a calibrator file")
    calibrator = _from_described({name: found[name] for name in ("calibrator", "parameters", "fitted")})
    calibrator.classes_ = _labels_in(found["classes"])
    width, names = found["n_features_in"], found["feature_names_in"]
    if isinstance(width, bool) or not isinstance(width, int) or width < 1:
        refuse("n_features_in must be a whole number of at least 1", repr(width), _REMEDY)
    calibrator.n_features_in_ = width
    if names is not None:
        if not isinstance(names, list) or len(names) != width or not all(isinstance(name, str) for name in names):
            refuse("feature_names_in must be null or one name per column", repr(names), _REMEDY)
        calibrator.feature_names_in_ = np.array(names, dtype=object)
    reduction = None if found["reduction"] is None else decode(found["reduction"], "reduction")
    if reduction is not None and (not isinstance(reduction, Reduction) or len(reduction.weights) != width + 1):
        refuse("reduction must fit the number of columns", type(reduction).__name__, _REMEDY)
    calibrator.reduction_ = reduction
    calibrator.map_ = _map(decode(found["map"], "map"), len(calibrator.classes_))
    inner = getattr(calibrator, "calibrator_", None)
    if isinstance(inner, Calibrator):
        inner.map_, inner.classes_ = calibrator.map_, calibrator.classes_
        inner.n_features_in_, inner.reduction_ = calibrator.n_features_in_, calibrator.reduction_
    return calibrator


def from_json(text: str) -> Calibrator:
    """
    A fitted calibrator from strict JSON.

    Parameters
    ----------
    text : str
        What `Calibrator.to_json` wrote. NaN, repeated or unknown fields and other versions are refused.

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
    if not isinstance(text, (str, bytes)):
        refuse("from_json must get text", type(text).__name__, "Pass the contents of the file, not its name or handle.")
    try:
        data = json.loads(text, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_no_repeats)
    except InputError:
        raise
    except (ValueError, RecursionError) as error:  # not JSON, or numbers of thousands of digits
        refuse("a calibrator file must be JSON", f"{text[:40]!r} ({error})", "Pass what to_json() wrote.")
    return from_dict(data)


def _no_constant(name: str) -> NoReturn:
    refuse("a calibrator file must hold finite numbers", name, _REMEDY)


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        refuse("a calibrator file must not repeat a field", next(n for n in names if names.count(n) > 1), _REMEDY)
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not np.isfinite(number):
        refuse("a calibrator file must hold finite numbers", text, _REMEDY)
    return number


def _map(part: object, k: int) -> Map:
    """A map, tried on one score: parts that do not fit together show here."""
    if not isinstance(part, (BinaryMap, VennAbersMap, SoftmaxMap, Tempered, Same, OneVsRestMap)):
        refuse("map must be a map", type(part).__name__, _REMEDY)
    score = np.full(1, 0.5) if k == 2 else np.full((1, k), 1.0 / k)
    try:
        law = part(score)
        good = law.shape == score.shape and bool(((law >= 0.0) & (law <= 1.0)).all())
    except (ValueError, IndexError, TypeError, AttributeError, FloatingPointError):
        good = False
    if not good:
        refuse(f"map must give probabilities of {k} classes", type(part).__name__, _REMEDY)
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
        refuse("calibrator must be the name of one", repr(spec["calibrator"]), f"Known: {', '.join(CALIBRATORS)}.")
    made: Calibrator = cls()
    parameters = require_fields(spec["parameters"], set(made.get_params(deep=False)), "parameters")
    for name, value in parameters.items():
        setattr(made, name, _value_in(value))
    if not isinstance(spec["fitted"], dict) or not set(spec["fitted"]) <= set(cls._kept):
        refuse(f"fitted must hold {', '.join(cls._kept) or 'nothing'}", repr(spec["fitted"]), _REMEDY)
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

_KINDS = {"b": "bool", "i": "int64", "u": "uint64", "f": "float64", "U": "str"}


def _labels_out(classes: NDArray[Any]) -> dict[str, Any]:
    labels = classes.tolist()
    dtype = _KINDS.get(classes.dtype.kind)
    if dtype is None and all(isinstance(label, str) for label in labels):
        dtype = "object"
    if dtype is None:
        refuse(
            "labels must be numbers, booleans or strings to be written", plain(labels[0]), "Recode y before fitting."
        )
    return {"dtype": dtype if dtype in ("str", "object") else str(classes.dtype), "labels": labels}


def _labels_in(found: object) -> NDArray[Any]:
    spec = require_fields(found, {"dtype", "labels"}, "classes")
    try:
        classes = np.array(spec["labels"], dtype=np.dtype(spec["dtype"]))
        good = classes.ndim == 1 and classes.size > 1 and classes.tolist() == spec["labels"]
        good = good and (classes.dtype.kind in _KINDS or all(isinstance(v, str) for v in spec["labels"]))
        good = good and len(set(spec["labels"])) == classes.size
    except (TypeError, ValueError, OverflowError):
        good = False
    if not good:
        refuse("classes must list at least two labels of one kind", repr(spec), _REMEDY)
    return classes
