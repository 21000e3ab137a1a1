"""What people pass as stages, parsed: scores, laws, generators, checkpoints and fitted boosters."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.arrays import is_hard, parse_law
from scoreprism._core.checks import outside, refuse, require_rows
from scoreprism._core.frames import backend_of, column_names, require_aligned
from scoreprism._core.labels import GivenLaw, parse_labels
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray, as_vector, n_classes
from scoreprism._sample.models import double_use, predicted
from scoreprism.decomposition._chain import Level
from scoreprism.decomposition._rows import Sheet
from scoreprism.ensembles._staged_models import READERS, in_our_words, staged_model, transformed
from scoreprism.exceptions import HardLabelsWarning

_REMEDY = "For example list(model.staged_predict_proba(X)), or {1: p1, 10: p10}."


@dataclass(frozen=True)
class Stages:
    """Numbers of stages, ascending (integers where all are whole), and the law of each, parsed one by one."""

    numbers: NDArray[Any]
    laws: list[GivenLaw]
    labels: tuple[Any, ...] | None = None
    levels: tuple[Level, ...] = ()
    notes: tuple[str, ...] = ()
    backend: str | None = None
    rows: Mapping[str, Any] = field(default_factory=dict)  # what came in by the row, for its index

    @property
    def given(self) -> bool:
        """Whether these are laws, of which nothing has to be fitted."""
        return bool(self.levels)


@dataclass(frozen=True)
class Path:
    """The stages of a model on some rows: outcomes as codes, laws in one layout, (n,) for two classes."""

    numbers: NDArray[Any]
    laws: list[FloatArray]
    sheet: Sheet
    notes: tuple[str, ...]
    backend: str | None

    @property
    def codes(self) -> IntArray:
        """Outcomes, 0 … K−1."""
        return self.sheet.y

    @property
    def k(self) -> int:
        """Number of classes."""
        return n_classes(self.sheet.laws[0])

    def options(self) -> dict[str, Any]:
        """What `decompose` needs to know of these rows."""
        weight, groups = self.sheet.weight, self.sheet.groups
        return {"sample_weight": weight, "groups": groups, "classes": np.arange(self.k)}


def numbered(stages: Any) -> tuple[FloatArray, list[Any]]:
    """Numbers of stages, ascending, and what stands at each."""
    if isinstance(stages, Mapping):
        try:
            numbers = np.array([float(number) for number in stages])
        except (TypeError, ValueError):
            refuse("`stages` must be numbered", f"{list(stages)[:3]}", _REMEDY)
        found = list(stages.values())
    elif isinstance(stages, Sequence) and not isinstance(stages, str) and len(stages) and _is_stage(stages[0]):
        found = list(stages)
        numbers = np.arange(1.0, len(found) + 1.0)
    else:
        refuse("`stages` must be a mapping or a sequence of probabilities", type(stages).__name__, _REMEDY)
    if not found or not np.isfinite(numbers).all() or np.unique(numbers).size < numbers.size:
        refuse("`stages` must have different finite numbers, at least one", f"{numbers[:5].tolist()}", _REMEDY)
    order = np.argsort(numbers)
    return numbers[order], [found[i] for i in order]


def _is_stage(value: Any) -> bool:
    """Scores, a law, a checkpoint: not a single number."""
    return isinstance(value, (Level, list, tuple)) or _is_checkpoint(value) or np.ndim(value) > 0


def _is_checkpoint(value: Any) -> bool:
    return hasattr(value, "predict_proba") or callable(value)


def has_stages(model: Any) -> bool:
    """Whether an object is a fitted model, whose stages have to be read with features."""
    if isinstance(model, (Mapping, Sequence, np.ndarray)):
        return False
    return any(recognises(model) for recognises, _ in READERS) or hasattr(model, "predict_proba")


def read_stages(
    stages: Any, X: ArrayLike | None = None, y: ArrayLike | None = None, *, some: Collection[int] | None = None
) -> Stages:
    """Stages of any kind, parsed."""
    if has_stages(stages):
        return _of_model(stages, X, y, some)
    if isinstance(stages, Iterator):
        stages = list(stages)
        if not stages:
            refuse("`stages` must hold at least one", "no stages, from a generator that is used up", _REMEDY)
    if isinstance(stages, (Mapping, list, tuple)) and not stages:
        refuse("`stages` must hold at least one", "no stages", _REMEDY)
    numbers, found = numbered(stages)
    numbers = whole(numbers)
    if all(isinstance(one, Level) for one in found):
        laws = [one.given for one in found]
        return _alike(
            Stages(numbers, laws, None, tuple(found), (), next((v.backend for v in found if v.backend), None))
        )
    if any(isinstance(one, Level) for one in found):
        refuse(
            "`stages` must be scores or levels, not both", "a mixture", "Pass Level(name, law) for each, or for none."
        )
    if any(_is_checkpoint(one) for one in found):
        return _alike(_of_checkpoints(numbers, found, X, y))
    laws = [
        GivenLaw(f"stage {number:g}", parse_law(one, f"stage {number:g}"), None, column_names(one))
        for number, one in zip(numbers.tolist(), found, strict=True)
    ]
    rows = {law.name: one for law, one in zip(laws, found, strict=True)} | {"X": X}
    backend = next((b for b in map(backend_of, found) if b), None)
    return _alike(Stages(numbers, laws, backend=backend, rows=rows))


def whole(numbers: FloatArray) -> NDArray[Any]:
    """Numbers as integers where all are whole, so that a stage can be passed on as a number of rounds."""
    exact = np.abs(numbers) < 2.0**53  # beyond, floats skip integers
    return numbers.astype(np.int64) if (exact & (numbers == np.round(numbers))).all() else numbers


def _alike(stages: Stages) -> Stages:
    """Laws of the same rows and classes."""
    first = stages.laws[0]
    for law in stages.laws[1:]:
        require_rows(law.values.shape[0], first.values.shape[0], law.name, first.name)
        if n_classes(law.values) != n_classes(first.values):
            found = f"{n_classes(first.values)} in {first.name} and {n_classes(law.values)} in {law.name}"
            refuse("all stages must have the same number of classes", found, "Write all over the same outcome.")
    _warn_of_labels(stages)
    return stages


def _warn_of_labels(stages: Stages) -> None:
    """Say so if stages look like predicted labels; laws that are known may well be certain."""
    hard = [] if stages.given else [law.name for law in stages.laws if is_hard(law.values)]
    if hard:
        who = f"{hard[0]} holds" if len(hard) == 1 else f"{hard[0]} and {len(hard) - 1} more hold"
        note = f"{who} only 0 and 1: are these predicted labels? Probabilities come from predict_proba"
        warnings.warn(note, HardLabelsWarning, stacklevel=outside())


def _require_features(X: ArrayLike | None) -> None:
    if X is None:
        refuse("a model as stages must come with `X`", "no X", "Pass the features it should score.")


def _of_model(model: Any, X: ArrayLike | None, y: ArrayLike | None, some: Collection[int] | None) -> Stages:
    """Every stage of a fitted booster."""
    _require_features(X)
    reader, before = staged_model(model)
    inside = in_our_words(model, lambda: transformed(before, X))
    keep = None if some is None else set(some)

    def read() -> list[tuple[int, FloatArray]]:
        laws = enumerate(reader.laws(inside), start=1)
        return [(t, slim(np.asarray(law))) for t, law in laws if keep is None or t in keep]

    found = in_our_words(reader.model, read)
    if not found:
        refuse("a model with stages must have at least one", "none", "Fit it for more rounds.")
    laws = [GivenLaw(f"stage {t}", parse_law(law, f"stage {t}"), None, None) for t, law in found]
    labels = _labels(model, reader.labels, n_classes(laws[0].values))
    numbers = np.array([t for t, _ in found])
    notes, _ = double_use(model, X, y, None, "stages")
    return Stages(numbers, laws, labels, (), notes, backend_of(X), {"X": X})


def slim(law: FloatArray) -> FloatArray:
    """One column for two classes: hundreds of stages are kept at once."""
    return law[:, 1].copy() if law.ndim == 2 and law.shape[1] == 2 else law


def _labels(model: Any, inner: tuple[Any, ...] | None, k: int) -> tuple[Any, ...] | None:
    """Labels of the columns; those of a wrapper, which may encode its labels, come first."""
    own = getattr(model, "classes_", None)
    labels = tuple(np.asarray(own).tolist()) if own is not None else inner
    return labels if labels is None or len(labels) == k else None


def _of_checkpoints(numbers: FloatArray, found: list[Any], X: ArrayLike | None, y: ArrayLike | None) -> Stages:
    """Models or functions, one per stage, applied to the features."""
    _require_features(X)
    laws: list[GivenLaw] = []
    labels: tuple[Any, ...] | None = None
    notes: tuple[str, ...] = ()
    for number, one in zip(numbers.tolist(), found, strict=True):
        name = f"stage {number:g}"
        if hasattr(one, "predict_proba"):
            law, labels, said, _ = predicted(one, X, name, y=y)
            notes += tuple(note for note in said if note not in notes)
        elif callable(one):
            law = parse_law(_host(in_our_words(one, partial(one, X))), name)
        else:
            law = parse_law(one, name)
        laws.append(GivenLaw(name, law, None, None))
    return Stages(numbers, laws, labels, (), notes, backend_of(X), {"X": X})


def _host(value: Any) -> Any:
    """A tensor, torch's for instance, as an array."""
    value = value.detach() if hasattr(value, "detach") else value
    return value.cpu().numpy() if hasattr(value, "cpu") else value


def follow(
    stages: Stages,
    y_true: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> Path:
    """Stages beside the outcomes of their rows."""
    if classes is None and pos_label is None and stages.labels is not None:
        classes = list(stages.labels)
    require_aligned({"y_true": y_true, **stages.rows, "sample_weight": sample_weight, "groups": groups})
    first = stages.laws[0]
    require_rows(parse_labels(y_true, "y_true").shape[0], first.values.shape[0], "y_true", first.name)
    sheet = Sheet.of(
        y_true, stages.laws, sample_weight=sample_weight, groups=groups, pos_label=pos_label, classes=classes,
        backend=stages.backend,
    )  # fmt: skip
    k = n_classes(sheet.laws[0])
    laws = [np.ascontiguousarray(as_vector(law)) if k == 2 else law for law in sheet.laws]
    return Path(stages.numbers, laws, sheet, stages.notes, sheet.backend)


def geometric(count: int, most: int) -> IntArray:
    """Positions from the first to the last, closer at the beginning where most happens."""
    if count <= most:
        return np.arange(count)
    return np.unique(np.geomspace(1, count, most).round().astype(np.intp)) - 1
