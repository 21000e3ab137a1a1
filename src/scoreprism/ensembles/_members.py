"""The members of an ensemble, parsed from every form in which their probabilities may come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scoreprism._core.checks import (
    SUM_TOLERANCE,
    abbreviate,
    is_hard,
    parse_law,
    refuse,
    require_rows,
    warn_of_hard_labels,
    write_plain,
)
from scoreprism._core.frames import backend_of, column_names, columns_of, require_aligned
from scoreprism._core.simplex import ArrayLike, FloatArray, n_classes, unify
from scoreprism._findings.finding import Finding
from scoreprism._sample.models import Scored, apply_model, parse_models
from scoreprism._sample.sample import Sample

_FORMS = "Pass a mapping {'logistic': p1, 'forest': p2} or a list [p1, p2]."


@dataclass(frozen=True)
class Members:
    """Laws of the members of an ensemble, on the same rows and classes."""

    names: tuple[str, ...]  # one per member
    laws: FloatArray  # (M, n) or (M, n, K): probabilities; two classes have either shape
    classes: tuple[Any, ...] | None = None  # labels of the columns, where fitted classifiers or column names give them
    named: bool = False  # whether the names came from the user instead of positions
    backend: str | None = None  # the dataframe library they came in
    findings: tuple[Finding, ...] = ()  # about fitted classifiers

    def __len__(self) -> int:
        return len(self.names)

    @property
    def k(self) -> int:
        """Number of classes."""
        return n_classes(self.laws[0])

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.laws.shape[1])

    @property
    def scores(self) -> FloatArray:
        """Laws in one layout: P(Y=1) of two classes, (M, n); (M, n, K) of more."""
        return np.ascontiguousarray(self.laws[..., 1]) if self.laws.ndim == 3 and self.k == 2 else self.laws

    def reorder(self, names: Sequence[str]) -> Members:
        """The same members in another order."""
        place = [self.names.index(name) for name in names]
        return replace(self, names=tuple(names), laws=self.laws[place])


def parse_members(members: Any, X: ArrayLike | None = None, y: ArrayLike | None = None) -> Members:
    """Read the members of an ensemble."""
    if isinstance(members, Sample):
        return _read_sample(members)
    if is_ensemble(members):
        return _read_ensemble(members, X, y)
    parts, named = _split_members(members)
    if len(parts) < 2:
        refuse("an ensemble must have at least two members", f"{len(parts)}", _FORMS)
    laws: list[FloatArray] = []
    labels: list[tuple[Any, ...] | None] = []
    findings: list[Finding] = []
    for name, part in parts.items():
        law, columns, own_findings = _predict_member(part, name, X, y)
        laws.append(law)
        labels.append(columns)
        findings += [one.about(name) for one in own_findings]
    _require_alike(tuple(parts), laws)
    require_aligned({f"member {name!r}": part for name, part in parts.items()})
    if any(map(is_hard, laws)):
        warn_of_hard_labels("a member")
    backend = backend_of(members) or next(filter(None, map(backend_of, parts.values())), None)
    return Members(
        tuple(parts), np.stack(unify(laws)), _find_labels(tuple(parts), labels), named, backend, tuple(findings)
    )


def _read_sample(sample: Sample) -> Members:
    """The models of a sample, on the rows that have weight."""
    laws = sample.predictions
    if len(laws) < 2:
        refuse("an ensemble must have at least two members", f"{len(laws)}", "Pass a Sample of several models.")
    findings = tuple(one.about(name) for name in laws for one in sample.findings.get(name, ()))
    stacked = np.stack(unify(list(laws.values())))
    return Members(tuple(laws), stacked, named=True, backend=sample.backend, findings=findings)


def is_ensemble(model: Any) -> bool:
    """Whether an object is a fitted scikit-learn ensemble whose probabilities are the average of its members'."""
    if not hasattr(model, "estimators_") or not hasattr(model, "predict_proba"):
        return False
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, VotingClassifier

    return isinstance(model, (ExtraTreesClassifier, RandomForestClassifier, VotingClassifier))


def _read_ensemble(model: Any, X: ArrayLike | None, y: ArrayLike | None) -> Members:
    """The members of a forest or a vote, whose classes are numbers; the labels are those of the ensemble."""
    if X is None:
        refuse("a fitted ensemble must come with `X`", f"{type(model).__name__} and no X", "Pass the features.")
    _, columns, findings = apply_model(model, X, y=y)
    if hasattr(model, "named_estimators_"):
        parts = {str(name): part for name, part in model.named_estimators_.items() if part in model.estimators_}
        table: Any = X
    else:
        parts = {f"tree {i + 1}": part for i, part in enumerate(model.estimators_)}
        table = np.asarray(X, dtype=np.float32)  # trees do not know the names of columns
    if len(parts) < 2:
        refuse("an ensemble must have at least two members", f"{len(parts)}", _FORMS)
    laws = [parse_law(part.predict_proba(table), f"predict_proba of {name!r}") for name, part in parts.items()]
    return Members(tuple(parts), np.stack(laws), columns, named=True, backend=backend_of(X), findings=findings)


def _split_members(members: Any) -> tuple[dict[str, Any], bool]:
    """Members by name, and whether they came with names."""
    if isinstance(members, Mapping) or columns_of(members) is not None:
        parts = parse_models(members, "members")
        if not isinstance(members, Mapping):
            _refuse_classes(np.column_stack([parse_law(p, f"member {name!r}") for name, p in parts.items()]))
        return parts, isinstance(members, Mapping) or column_names(members) is not None
    if isinstance(members, (list, tuple)):
        return _number_members(_read_sequence(members)), False
    if hasattr(members, "predict_proba"):
        refuse("members must be those of an ensemble", f"one {type(members).__name__}", _FORMS)
    return _number_members(_read_array(members)), False


def _number_members(parts: Iterable[Any]) -> dict[str, Any]:
    return {f"member {i + 1}": part for i, part in enumerate(parts)}


def _read_sequence(members: Sequence[Any]) -> list[Any]:
    """Members in a list; a list of rows is refused where it has more rows than members."""
    if any(np.ndim(part) == 0 and not hasattr(part, "predict_proba") and columns_of(part) is None for part in members):
        refuse("a list of members must hold one array per member", abbreviate(map(write_plain, members), 3), _FORMS)
    are_lists = all(isinstance(part, (list, tuple)) and np.ndim(part) == 1 for part in members)
    if are_lists and len({len(part) for part in members}) == 1 and 1 < len(members[0]) < len(members):
        refuse(
            "a list of members must hold one array per member, each with all rows",
            f"{len(members)} lists of {len(members[0])} numbers",
            "Pass np.array(members), if these are rows, or arrays instead of lists, if these are members.",
        )
    return list(members)


def _read_array(members: Any) -> list[FloatArray]:
    """Members in an array with the rows first: (n, M) or (n, M, K)."""
    array = np.asarray(members)
    if array.ndim not in (2, 3):
        what = f"shape {array.shape}" if array.ndim else type(members).__name__
        refuse("an array of members must have shape (n, M) or (n, M, K)", what, _FORMS)
    n, m = array.shape[:2]
    if 1 < n < m:
        refuse(
            "an array of members must have the rows first and the members second",
            f"shape {array.shape}: more members than rows",
            "Pass list(members), if the members come first, or list(np.swapaxes(members, 0, 1)), if they do not.",
        )
    if array.ndim == 2 and array.dtype.kind in "fiub":
        _refuse_classes(array)
    return [array[:, j] for j in range(m)]


def _refuse_classes(columns: FloatArray) -> None:
    """Refuse columns that sum to one in every row: they are the classes of one model."""
    n, m = columns.shape
    if n < 2 or m < 2:
        return
    for width, what in ((m, f"{m} columns that sum"), (2, "pairs of columns that sum")):
        sums = columns.reshape(n, -1, width).sum(axis=2) if m % width == 0 else np.zeros((1, 1))
        if bool((np.abs(sums - 1.0) <= SUM_TOLERANCE).all()):
            refuse(
                "columns must be the members of an ensemble, P(Y=1) for two classes",
                f"{what} to 1 in every row, as the classes of one model do",
                "Pass a list or mapping of members.",
            )


def _predict_member(part: Any, name: str, X: ArrayLike | None, y: ArrayLike | None) -> Scored:
    """Probabilities of one member, the labels of their columns, and notes."""
    if not hasattr(part, "predict_proba"):
        law = parse_law(part, f"member {name!r}")
        return Scored(law, column_names(part) if law.ndim == 2 else None)
    if X is None:
        refuse(
            "fitted classifiers as members must come with `X`",
            f"{name!r}, a {type(part).__name__}, and no X",
            "Pass `X` where it is taken, or their predict_proba(X).",
        )
    return apply_model(part, X, y=y)


def _require_alike(names: tuple[str, ...], laws: list[FloatArray]) -> None:
    """Refuse members that differ in rows, in classes or in the layout of two classes."""
    for name, law in zip(names[1:], laws[1:], strict=True):
        require_rows(law.shape[0], laws[0].shape[0], f"member {name!r}", f"member {names[0]!r}")
        if n_classes(law) == n_classes(laws[0]) and law.ndim != laws[0].ndim:
            refuse(
                "members must all have one column or all have two",
                f"shape {laws[0].shape} for {names[0]!r} and {law.shape} for {name!r}",
                "Pass P(Y=1) of every member, for example predict_proba(X)[:, 1].",
            )
        if n_classes(law) != n_classes(laws[0]):
            refuse(
                "members must have the same classes",
                f"{n_classes(laws[0])} classes in {names[0]!r} and {n_classes(law)} in {name!r}",
                "Give every member one column per class.",
            )


def _find_labels(names: tuple[str, ...], labels: list[tuple[Any, ...] | None]) -> tuple[Any, ...] | None:
    """The labels of the columns, which must agree among the members that have them."""
    labelled = [(name, columns) for name, columns in zip(names, labels, strict=True) if columns is not None]
    if not labelled:
        return None
    first, expected = labelled[0]
    for name, columns in labelled[1:]:
        if [str(label) for label in columns] != [str(label) for label in expected]:
            one, other = (abbreviate(map(write_plain, labels)) for labels in (expected, columns))
            refuse(
                "members must have their classes in the same order",
                f"{one} in {first!r} and {other} in {name!r}",
                "Reorder the columns, or pass arrays if the names are no labels.",
            )
    return expected
