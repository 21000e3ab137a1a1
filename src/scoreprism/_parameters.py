"""Parameters that many public functions share: docstrings are completed from one table of their meanings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

#: Type and meaning of a parameter.
Meaning = tuple[str, str]

#: The meaning of a parameter where a docstring gives none; its default is read from the signature.
SHARED: dict[str, Meaning] = {
    "y_true": ("array-like of shape (n,), or Sample", "Outcomes, or a `Sample` of all arguments by row."),
    "y_proba": ("array-like of shape (n,) or (n, K)", "Predicted probabilities; omit with a Sample."),
    "X": ("array-like or frame of shape (n, p)", "Features."),
    "scores": ("array-like of shape (n,), (n, 1), (n, 2) or (n, K)", "Scores."),
    "sample_weight": ("array-like of shape (n,)", "Weights."),
    "groups": ("array-like of shape (n,)", "Groups of dependent rows."),
    "pos_label": ("label", "Positive class: 1-D `y_proba` is P(Y = pos_label)."),
    "classes": ("array-like of shape (K,)", "Labels in column order."),
    "name": ("str", "The model."),
    "loss": ("str or ProperLoss", "The loss."),
    "term": ("str", "One of `names`."),
    "confidence_level": ("float", "Confidence level."),
    "k": ("int", "Number of classes."),
    "kind": ('{"probability", "logit"}', "What scores are."),
    "clip": ("float", "Keep all probabilities at least this far from 0; none are clipped by default."),
    "random_state": ("int, Generator or None", "Seed of the folds."),
    "n_jobs": ("int", "Number of threads; results are the same for every choice."),
    "backend": ("str", '"polars", "pandas" or "pyarrow"; the library the data came in, else polars.'),
    "ax": ("matplotlib Axes", "Where to draw; a new figure by default."),
    "curve_kwargs": ("dict or list of dict", "Options of the lines, for all models or one dict each."),
}
#: The same for what is defined for two classes only.
OF_TWO: dict[str, Meaning] = {
    "y_true": (
        "array-like of shape (n,), or Sample",
        "Two-class outcomes, or a `Sample` of all arguments.",
    ),
    "y_proba": ("array-like of shape (n,) or (n, 2)", "Predicted probabilities; omit with a Sample."),
    "classes": ("array-like of shape (2,)", "Labels in column order."),
}

_HEAD = "Parameters\n----------\n"
_SECTION = re.compile(r"^[A-Z][A-Za-z ]+\n-{3,}$", re.MULTILINE)


def described(*, of_two: bool = False, **own: Meaning) -> Callable[[T], T]:
    """
    Complete the section "Parameters" of a docstring: what it leaves out comes from the table.

    Entries follow the order of the signature. `own` adds meanings to the table, for docstrings that are generated.
    """
    known = SHARED | (OF_TWO if of_two else {}) | own

    def complete(thing: T) -> T:
        target: Any = thing
        if target.__doc__ is not None:  # python -OO
            target.__doc__ = _complete(inspect.cleandoc(target.__doc__), inspect.signature(target), known)
        return thing

    return complete


def _complete(text: str, signature: inspect.Signature, known: dict[str, Meaning]) -> str:
    """A docstring that describes every parameter of a signature."""
    before, head, rest = text.partition(_HEAD)
    if not head:
        first = _SECTION.search(text)
        place = first.start() if first else len(text)
        before, rest = text[:place], text[place:]
    given: dict[str, str] = {}
    after = rest
    if head:
        section, gap, after = rest.partition("\n\n")  # an entry has no empty line
        after = after if gap else ""
        for entry in re.split(r"\n(?=\S)", section):
            given |= dict.fromkeys(entry.partition(" : ")[0].lstrip("*").split(", "), entry)
    names = [name for name in signature.parameters if name not in ("self", "cls")]
    entries = [given.get(name) or _write_entry(signature.parameters[name], known[name]) for name in names]
    return "\n" + (before + _HEAD + "\n".join(dict.fromkeys(entries)) + "\n\n" + after).rstrip() + "\n"


def _write_entry(parameter: inspect.Parameter, meaning: Meaning) -> str:
    """A parameter by its meaning and its default."""
    kind, words = meaning
    default = f'"{parameter.default}"' if isinstance(parameter.default, str) else parameter.default
    if default is not parameter.empty:
        kind += ", optional" if default is None else f", default={default}"
    return "\n".join([f"{parameter.name} : {kind}", *(f"    {line.strip()}" for line in words.splitlines())])
