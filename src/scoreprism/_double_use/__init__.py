"""
Whether a fitted model was trained on the rows that judge it, as far as it shows.

A model keeps traces of its training rows: the rows themselves, how many of them fell into each leaf, means, equations
that hold on them alone. Every trace has a chance of being found on other rows, which is bounded whatever the law of
the rows. A trace that chance does not explain is evidence; a comparison of losses is none, because models that were
trained on more rows are better on all.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from scoreprism._core.checks import outside
from scoreprism._core.simplex import IntArray
from scoreprism._double_use.chance import SEEN, SUSPECTED
from scoreprism._double_use.equations import holding
from scoreprism._double_use.leaves import agree
from scoreprism._double_use.model_parts import ModelPart, parts
from scoreprism._double_use.stored_rows import overlap
from scoreprism.exceptions import DoubleUseWarning

__all__ = ["Trace", "find_training_rows", "warn_of_training_rows"]

T = TypeVar("T")

#: Below this share of training rows among those that are judged, terms are still worth reading.
_SHARE = 0.1
#: A model has few parts; one that answers to every name would have no end.
_PARTS = 40


@dataclass(frozen=True)
class Trace:
    """What speaks for a model having been trained on the rows that judge it; if certain, terms say nothing."""

    words: str
    certain: bool
    other_outcomes: bool = False


def find_training_rows(model: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Trace | None:
    """Find out whether a model was trained on rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a model that is asked in ways it does not expect
        return _asked(lambda: _strongest(_whole(model, X, y, sample_weight)))


def _whole(model: Any, X: Any, y: Any, sample_weight: Any) -> ModelPart:
    """A model with all rows; what freezes it has no name of its own."""
    while type(model).__name__ == "FrozenEstimator":
        model = model.estimator
    labels = getattr(model, "classes_", None)
    k = len(labels) if labels is not None and np.ndim(labels) == 1 else 2
    X = X if hasattr(X, "shape") else np.asarray(X)
    weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    return ModelPart(type(model).__name__, model, X, _codes(y, labels), k, weight)


def warn_of_training_rows(model: Any, X: Any, y: Any, sample_weight: Any, consequence: str) -> None:
    """Say so if a model was certainly trained on rows, and what follows from that."""
    trace = find_training_rows(model, X, y, sample_weight)
    if trace is not None and trace.certain:
        warnings.warn(f"{trace.words}: {consequence}", DoubleUseWarning, stacklevel=outside())


def _strongest(whole: ModelPart) -> Trace | None:
    """The first trace that is certain; else a caution."""
    caution = features = None
    for part, trace in _traces(whole):
        if not trace.certain:
            caution = caution or trace
        elif part.step:  # it has seen these features; the model behind it may have seen other outcomes
            features = features or trace
        else:
            return trace
    return caution if caution is not None and caution.other_outcomes else features or caution


def _traces(whole: ModelPart) -> Iterator[tuple[ModelPart, Trace]]:
    """Traces of all kinds in all parts."""
    found = parts(whole)
    for _ in range(_PARTS):
        part = _asked(lambda: next(found, None))
        if part is None:
            return
        for look in (_of_stored_rows, _of_leaves, _of_equations):
            trace = _asked(partial(look, part))
            if trace is not None:
                yield part, trace


def _asked(question: Callable[[], T | None]) -> T | None:
    """An answer; None where a model of another maker, or of another version, has none."""
    try:
        return question()
    except Exception:  # noqa: BLE001 - whatever its code raises, a guard does not stop what it guards
        return None


def _codes(y: Any, labels: Any) -> IntArray | None:
    """Outcomes as codes of the model's classes; None if there are others among them."""
    if y is None or np.ndim(y) != 1 or labels is None or np.ndim(labels) != 1:
        return None
    known, given = np.asarray(labels), np.asarray(y)
    try:
        place = np.minimum(np.searchsorted(known, given), known.size - 1)
        return place.astype(np.intp) if bool(np.all(known[place] == given)) else None
    except TypeError:  # labels of different kinds have no order
        return None


def _trace(
    part: ModelPart, why: str, chance: float, *, share: float = 1.0, of: str = "", outcomes: bool = True
) -> Trace | None:
    """A trace in words: evidence, a caution, or nothing where chance explains it; `of` names the rows."""
    if chance > SUSPECTED:
        return None
    if not outcomes:
        words = f"{part.name} may have been trained on rows with these features, but other outcomes ({why})"
        return Trace(words, certain=False, other_outcomes=True)
    rows = "these rows" if share > 1.0 - 1e-9 else of or f"about {100.0 * share:.2g} % of these rows"
    certain = bool(chance <= SEEN and share >= _SHARE)
    return Trace(f"{part.name} {'was' if certain else 'may have been'} trained on {rows} ({why})", certain)


def _of_stored_rows(part: ModelPart) -> Trace | None:
    found = None if part.step else overlap(part)
    if found is None:
        return None
    why = "it keeps them" if found.outcomes else "it keeps rows with other outcomes"
    return _trace(part, why, found.chance, share=found.share, outcomes=found.outcomes)


#: How rows fill leaves, in words.
_LEAVES = {
    "equal": "they fill the leaves of its trees to the last row",
    "more": "each leaf of its trees holds all rows that it held in training",
    "fewer": "no leaf of its trees holds more rows than in training",
    "pure": "its leaves are pure on them, in spite of noise",
    "close": "they fill the leaves of its trees in proportions nearer to those of training than chance has it",
}


def _of_leaves(part: ModelPart) -> Trace | None:
    found = None if part.step else agree(part)
    if found is None:
        return None
    statistical = found.kind in ("pure", "close")  # good for independent rows of the same law: a caution, no evidence
    chance = max(found.chance, SEEN + 1e-9) if statistical else found.chance
    some = "some or all of these rows"  # a tree holds the rows that were drawn for it, its forest may have seen others
    return _trace(part, _LEAVES[found.kind], chance, share=found.share, of=some, outcomes=found.outcomes)


def _of_equations(part: ModelPart) -> Trace | None:
    found = holding(part)
    return None if found is None else _trace(part, found.what, found.chance)
