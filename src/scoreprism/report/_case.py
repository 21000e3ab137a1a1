"""The material of a report: everything the user passed, parsed once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.arrays import parse_weights
from scoreprism._core.checks import parse_confidence, plain, refuse
from scoreprism._core.frames import take_rows
from scoreprism._core.labels import parse_groups, parse_labels
from scoreprism._core.progress import tracked
from scoreprism._core.simplex import ArrayLike, IntArray
from scoreprism._fitting.candidates import find_floors
from scoreprism._fitting.chain_fit import Request, in_same_folds, parse_losses
from scoreprism.calibrators import Calibrator, get_calibrator
from scoreprism.losses import ProperLoss
from scoreprism.report._fit import Asked, Model, asked, fitted
from scoreprism.report._judged import Matter
from scoreprism.report._periods import sortable

#: A date, or a date and a time, without a zone.
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?$")


@dataclass(frozen=True, eq=False)
class Case(Matter):
    """What a report is about."""

    models: dict[str, Model]  # each with its laws
    losses: dict[str, ProperLoss]  # the first is the one that single-loss sections speak of
    X: Any  # features
    segments: dict[str, NDArray[Any]]  # labels of each row, by grouping column
    time: NDArray[Any] | None  # times or periods of the rows
    level: float  # confidence level
    seed: int  # seed of everything random
    n_jobs: int | None  # processes
    clip: float | None  # how far laws are kept from 0
    maps: tuple[str | Calibrator, ...]  # calibrators to try; empty for those that fit the number of classes
    # how far laws are kept from 0 and 1, beside what was asked for, by each loss that is infinite for some model
    floors: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # what was done to the data before
    warnings: tuple[str, ...] = ()  # what was warned of while sections were made

    @property
    def first(self) -> Model:
        """The model that single-model figures show."""
        return next(iter(self.models.values()))

    @property
    def binary(self) -> bool:
        """Whether there are two classes."""
        return self.first.k == 2


def parse_case(
    y_true: ArrayLike,
    y_proba: Any,
    X: Any,
    *,
    loss: Any,
    segments: Any,
    time: Any,
    level: float,
    random_state: object,
    clip: float | None,
    calibrators: Any,
    notes: tuple[str, ...],
    options: Mapping[str, Any],
) -> Case:
    """Parse everything, and fit the laws of every model on the same folds."""
    if isinstance(random_state, bool) or not isinstance(random_state, (int, np.integer)) or random_state < 0:
        remedy = "It is printed in the report, so that anybody can make it again."
        refuse("`random_state` of a report must be a whole number", plain(random_state), remedy)
    seed, confidence = int(random_state), parse_confidence(level)
    losses = parse_losses(loss if isinstance(loss, (list, tuple)) else [loss])
    maps = tuple(calibrators or ())
    for name in maps:
        get_calibrator(name)
    n = parse_labels(y_true, "y_true").shape[0]
    given = _models(y_proba)
    rows = _weighted(options.get("sample_weight"), n)
    if rows is not None:
        notes = (*notes, f"{n - rows.size:,} rows of weight 0 were left out.")
        y_true, X, time = (part if part is None else take_rows(part, rows) for part in (y_true, X, time))
        given = {name: one if hasattr(one, "predict_proba") else take_rows(one, rows) for name, one in given.items()}
        segments = {name: take_rows(labels, rows) for name, labels in _named(segments).items()}
        by_row = {key: take_rows(options[key], rows) for key in _BY_ROW if options.get(key) is not None}
        options, n = {**options, **by_row}, rows.size
    ready = {str(name): _labels(labels, n, str(name)) for name, labels in _named(segments).items()}
    moments = None if time is None else _labels(time, n, "time", keep=True)
    every: dict[str, Asked] = {}
    for name, score in given.items():
        before = next((one.problem for one in every.values()), None)
        every[name] = asked(Request(y_true, score, X, random_state=seed, **options), before)
    problems = in_same_folds([one.problem for one in every.values()])
    every = {name: one._replace(problem=own) for (name, one), own in zip(every.items(), problems, strict=True)}
    floors = find_floors([one.problem.sheet for one in every.values()], losses, clip)
    models: dict[str, Model] = {}
    for name, one in tracked(every.items(), len(every), "models"):
        models[name] = fitted(name, one, losses, clip, floors, confidence, seed, maps)
    jobs = options.get("n_jobs")
    return Case(models, losses, X, ready, moments, confidence, seed, jobs, clip, maps, floors, tuple(notes))


#: Options that hold one entry per row.
_BY_ROW = ("q", "latent", "sample_weight", "groups")


def _weighted(weight: Any, n: int) -> IntArray | None:
    """Rows that have weight, where some have none: the others would only blur folds and halves."""
    parsed = None if weight is None else parse_weights(weight, n)
    return None if parsed is None or (parsed > 0).all() else np.flatnonzero(parsed)


def _models(y_proba: Any) -> dict[str, Any]:
    """Models by name; one that has none is called so."""
    if not isinstance(y_proba, Mapping):
        name = getattr(y_proba, "name", None)
        classifier = hasattr(y_proba, "predict_proba")
        return {type(y_proba).__name__ if classifier else name if isinstance(name, str) and name else "model": y_proba}
    if not y_proba:
        refuse("`y_proba` must hold at least one model", "an empty mapping", "For example {'forest': p}.")
    named = {str(name): score for name, score in y_proba.items()}
    if len(named) < len(y_proba):
        refuse("models must have different names", f"{list(y_proba)}", "Rename one of them.")
    return named


def _named(segments: Any) -> Mapping[Any, Any]:
    """Columns of labels by name."""
    if segments is None:
        return {}
    if isinstance(segments, Mapping):
        return segments
    from scoreprism._core.frames import column_names, columns_of

    columns, names = columns_of(segments), column_names(segments)
    if columns is not None and names is not None:
        return dict(zip(names, columns, strict=True))
    return {"group": segments}


def _labels(values: Any, n: int, name: str, *, keep: bool = False) -> NDArray[Any]:
    """One label per row, as text unless times are meant."""
    parsed = parse_groups(values, n, name)
    if parsed is None:
        refuse(f"{name} must hold one label per row", "None", "Leave it out.")
    labels, codes = parsed
    return _moments(labels)[codes] if keep else sortable(labels)[codes]


def _moments(labels: NDArray[Any]) -> NDArray[Any]:
    """Dates and times, also those that came as objects or as ISO text; other labels stay as they are."""
    if labels.dtype.kind == "M":
        return labels
    texts = [str(label) for label in labels.tolist()]
    if labels.dtype.kind in "OUS" and all(_ISO.match(text) for text in texts):
        return np.array([text.replace(" ", "T")[:26] for text in texts], dtype="datetime64[us]")
    return labels
