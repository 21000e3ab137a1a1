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
from functools import partial
from typing import Any, TypeVar

import numpy as np

from scoreprism._core.simplex import IntArray
from scoreprism._double_use.chance import SEEN, SUSPECTED
from scoreprism._double_use.equations import find_equations
from scoreprism._double_use.leaves import find_agreement
from scoreprism._double_use.model_parts import ModelPart, iterate_parts
from scoreprism._double_use.stored_rows import find_overlap
from scoreprism._findings.finding import Finding, announce

__all__ = ["find_training_rows", "warn_of_training_rows"]

T = TypeVar("T")

#: Below this share of training rows among those that are judged, terms are still worth reading.
_SHARE = 0.1
#: A model has few parts; one that answers to every name would have no end.
_PARTS = 40


def find_training_rows(model: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Finding | None:
    """Find evidence that a model was trained on these rows; None where there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the model may warn about how it is called here
        return _try(lambda: _find_strongest(_wrap_model(model, X, y, sample_weight)))


def _wrap_model(model: Any, X: Any, y: Any, sample_weight: Any) -> ModelPart:
    """A model with all rows; a frozen one goes by its own name."""
    while type(model).__name__ == "FrozenEstimator":
        model = model.estimator
    labels = getattr(model, "classes_", None)
    k = len(labels) if labels is not None and np.ndim(labels) == 1 else 2
    X = X if hasattr(X, "shape") else np.asarray(X)
    weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    return ModelPart(type(model).__name__, model, X, _code_outcomes(y, labels), k, weight)


def warn_of_training_rows(model: Any, X: Any, y: Any, sample_weight: Any) -> None:
    """Warn if a model was certainly trained on the rows that a map of its scores is fitted to."""
    finding = find_training_rows(model, X, y, sample_weight)
    if finding is not None and _is_certain(finding):
        announce(finding.with_facts(what="map"))


def _is_certain(finding: Finding) -> bool:
    return finding.kind == "trained_on_rows"


def _find_strongest(whole: ModelPart) -> Finding | None:
    """The first trace that is certain; else a caution."""
    caution = features = None
    for part, trace in _find_traces(whole):
        if not _is_certain(trace):
            caution = caution or trace
        elif part.step:  # it has seen these features; the model behind it may have seen other outcomes
            features = features or trace
        else:
            return trace
    return caution if caution is not None and caution.facts.get("other_outcomes") else features or caution


def _find_traces(whole: ModelPart) -> Iterator[tuple[ModelPart, Finding]]:
    """Traces of all kinds in all parts."""
    models = iterate_parts(whole)
    for _ in range(_PARTS):
        part = _try(lambda: next(models, None))
        if part is None:
            return
        for look in (_judge_stored_rows, _judge_leaves, _judge_equations):
            trace = _try(partial(look, part))
            if trace is not None:
                yield part, trace


def _try(question: Callable[[], T | None]) -> T | None:
    """Call a check; None where a foreign or newer model makes it fail."""
    try:
        return question()
    except Exception:  # noqa: BLE001 - a guard must not stop the call it guards
        return None


def _code_outcomes(y: Any, labels: Any) -> IntArray | None:
    """Outcomes as codes of the model's classes; None if there are others among them."""
    if y is None or np.ndim(y) != 1 or labels is None or np.ndim(labels) != 1:
        return None
    known, given = np.asarray(labels), np.asarray(y)
    try:
        place = np.minimum(np.searchsorted(known, given), known.size - 1)
        return place.astype(np.intp) if bool(np.all(known[place] == given)) else None
    except TypeError:  # labels of different kinds have no order
        return None


def _judge(
    part: ModelPart, evidence: str, chance: float, *, share: float = 1.0, some: bool = False, outcomes: bool = True
) -> Finding | None:
    """A trace: proof, a caution, or nothing where chance explains it; of `some` rows their share is not known."""
    if chance > SUSPECTED:
        return None
    facts: dict[str, Any] = {"evidence": evidence}
    if not outcomes:
        return Finding("may_be_trained_on_rows", subject=part.name, facts={**facts, "other_outcomes": True})
    certain = bool(chance <= SEEN and share >= _SHARE)
    facts |= {"share": min(float(share), 1.0), "some": some and share <= 1.0 - 1e-9}
    if certain:
        return Finding("trained_on_rows", level=0, subject=part.name, facts=facts)
    return Finding("may_be_trained_on_rows", subject=part.name, facts=facts)


def _judge_stored_rows(part: ModelPart) -> Finding | None:
    stored = None if part.step else find_overlap(part)
    if stored is None:
        return None
    evidence = "stored" if stored.outcomes else "stored_other_outcomes"
    return _judge(part, evidence, stored.chance, share=stored.share, outcomes=stored.outcomes)


def _judge_leaves(part: ModelPart) -> Finding | None:
    match = None if part.step else find_agreement(part)
    if match is None:
        return None
    # these two chances hold for independent rows of the same law only: they make a caution, not evidence
    statistical = match.kind in ("pure", "close")
    chance = max(match.chance, SEEN + 1e-9) if statistical else match.chance
    # a tree holds the rows that were drawn for it, its forest may have seen others
    return _judge(part, f"leaves_{match.kind}", chance, share=match.share, some=True, outcomes=match.outcomes)


def _judge_equations(part: ModelPart) -> Finding | None:
    equations = find_equations(part)
    return None if equations is None else _judge(part, equations.what, equations.chance)
