"""The contract of every fitted combiner: a scikit-learn classifier whose features are the members' probabilities."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from scoreprism._core.arrays import parse_law, parse_weights
from scoreprism._core.checks import listed, plain, refuse, require_rows
from scoreprism._core.frames import column_names, columns_of, require_aligned
from scoreprism._core.labels import distinct
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray, as_matrix
from scoreprism._sample.fit_rows import Data
from scoreprism._sample.scores import class_labels, warn_of_reversed_scores
from scoreprism.ensembles._members import Members, parse_members
from scoreprism.exceptions import LabelError


class Combiner(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """
    A law fitted on the probabilities of several members and outcomes.

    A scikit-learn classifier that takes members in any form of `average`, and as the `final_estimator` of a
    scikit-learn ``StackingClassifier`` their columns side by side: (n, M) for two classes, (n, M·K) for more.

    Examples
    --------
    >>> from scoreprism.ensembles import Stacking
    >>> isinstance(Stacking(), Combiner)
    True
    """

    #: The name under which `COMBINERS` knows the combiner.
    name: ClassVar[str]

    classes_: NDArray[Any]
    member_names_: tuple[str, ...]
    n_features_in_: int

    @abstractmethod
    def _fit(self, laws: FloatArray, codes: IntArray, weight: FloatArray) -> None:
        """Set the fitted attributes; parameters are checked here."""

    @abstractmethod
    def _law(self, laws: FloatArray) -> FloatArray:
        """The pooled law, (n,) for two classes."""

    def fit(self, scores: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Combiner:
        """
        Fit the combiner.

        Parameters
        ----------
        scores : mapping, frame, sequence or array
            Members on held-out rows: name → probabilities of shape (n,) or (n, K); a list of them; an array of
            shape (n, M, K); or their columns side by side, (n, M) for two classes and (n, M·K) for more.
        y : array-like of shape (n,)
            Outcomes; any labels. One probability per member speaks of the label that sorts last.
        sample_weight : array-like of shape (n,), optional
            Nonnegative weights; a row of weight 2 counts as two rows. Weights whose sum is no number of rows (below
            2⁻⁵³ or above 2⁵³) are scaled to sum to it, with a warning.

        Returns
        -------
        Combiner
            The combiner itself.
        """
        self.__dict__.pop("classes_", None)  # a fit that fails must not leave the last one half in place
        labels = class_labels(y, type(self).__name__)
        require_aligned({"y": y, "scores": scores, "sample_weight": sample_weight} | _series(scores))
        weight = parse_weights(sample_weight, labels.shape[0], "y", as_rows=True)
        kept = np.arange(labels.shape[0]) if weight is None else np.flatnonzero(weight)
        classes, codes = distinct(labels[kept], "y")
        if classes.size < 2:
            refuse(
                "`y` must hold at least two classes", f"one class, {plain(classes[0])}", "Use other rows.", LabelError
            )
        members = _side_by_side(scores, classes.size) or parse_members(scores)
        require_rows(labels.shape[0], members.n, "y", "scores")
        _check_classes(members, classes)
        laws = self._laws(members)[:, kept]
        mass = np.ones(kept.size) if weight is None else weight[kept]
        if classes.size == 2:
            warn_of_reversed_scores(Data(laws.mean(axis=0), codes, mass, 2, "probability"), classes)
        self._fit(laws, codes, mass)
        self._remember(members)
        self.classes_ = classes
        return self

    def predict_proba(self, scores: ArrayLike) -> FloatArray:
        """
        Probabilities of the combined members.

        Parameters
        ----------
        scores : mapping, frame, sequence or array
            The members that were fitted: by name where they have names, else in the same order.

        Returns
        -------
        array of shape (n, K)
            One column per entry of ``classes_``.
        """
        check_is_fitted(self)
        members = _by_width(scores, len(self.member_names_), len(self.classes_)) or parse_members(scores)
        same = self._same(members)
        _check_classes(same, self.classes_)
        return as_matrix(self._law(self._laws(same)))

    def predict(self, scores: ArrayLike) -> NDArray[Any]:
        """
        The most probable class.

        Parameters
        ----------
        scores : mapping, frame, sequence or array
            The members that were fitted.

        Returns
        -------
        array of shape (n,)
            Labels.
        """
        best = self.predict_proba(scores).argmax(axis=1)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    # ── the border ──────────────────────────────────────────────────────────────────────────────────

    @staticmethod
    def _laws(members: Members) -> FloatArray:
        return members.vectors if members.k == 2 else members.laws

    def _remember(self, members: Members) -> None:
        self.member_names_ = members.names
        self.n_features_in_ = len(members) * (1 if members.k == 2 else members.k)
        self.__dict__.pop("feature_names_in_", None)
        self._named = members.named
        if members.named and members.k == 2:
            self.feature_names_in_ = np.array(members.names, dtype=object)

    def _same(self, members: Members) -> Members:
        """The members in the order of the fit."""
        if len(members) != len(self.member_names_):
            refuse(
                f"`scores` must have the {len(self.member_names_)} members of the fit",
                f"{len(members)}",
                f"Pass {listed(self.member_names_)}.",
            )
        if members.k != len(self.classes_):
            refuse(
                f"`scores` must have {len(self.classes_)} classes, as in fit", f"{members.k}", "Pass the same columns."
            )
        if not (members.named and self._named) or members.names == self.member_names_:
            return members
        if set(members.names) != set(self.member_names_):
            refuse(
                f"`scores` must have the members of the fit, {listed(self.member_names_)}",
                listed(members.names),
                "Name them alike, or pass a list in the same order.",
            )
        return members.ordered(self.member_names_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # as good as its members
        return tags


def _series(scores: Any) -> dict[str, Any]:
    """Members that may have an index of their own."""
    return {f"scores[{key!r}]": part for key, part in scores.items()} if isinstance(scores, Mapping) else {}


def _check_classes(members: Members, classes: NDArray[Any]) -> None:
    """One column per class, in sorted order where the columns have the names of the labels."""
    if members.k != classes.size:
        refuse(
            "members must have one probability per class in y",
            f"{members.k} classes in scores and {classes.size} in y: {listed(map(plain, classes))}",
            "Pass one column per class that occurs in y.",
            LabelError,
        )
    names = [str(label) for label in members.classes or ()]
    labels = [str(label) for label in classes.tolist()]
    if names != labels and sorted(names) == sorted(labels):
        refuse(
            "columns named after the labels must be in sorted order of the labels",
            f"the columns {listed(names)}",
            f"Pass scores[[{listed(map(repr, labels))}]].",
        )


def _columns(scores: Any) -> tuple[FloatArray, tuple[Any, ...] | None] | None:
    """A table of numbers and the names of its columns; None for mappings, lists and what is no table."""
    if isinstance(scores, (Mapping, list, tuple)) or hasattr(scores, "predict_proba"):
        return None
    columns = columns_of(scores)
    if columns is not None:
        table = np.column_stack([parse_law(column, f"scores[:, {j}]") for j, column in enumerate(columns)])
        return table, column_names(scores)
    table = np.asarray(scores)
    return (table, None) if table.ndim in (2, 3) and table.dtype.kind in "fiub" else None


def _side_by_side(scores: Any, k: int) -> Members | None:
    """Columns of members side by side, M·K of them, as scikit-learn's stacking has them for K ≥ 3 classes."""
    found = _columns(scores) if k > 2 else None
    if found is None or found[0].ndim != 2:
        return None
    width = found[0].shape[1]
    if width % k or width < 2 * k:
        refuse(
            f"a table of members must have {k} columns for each of at least two members",
            f"shape {found[0].shape} and {k} classes in y",
            "Pass the columns of all classes side by side, or a list of members.",
        )
    return _blocks(found[0], k)


def _blocks(table: FloatArray, k: int) -> Members:
    return parse_members([table[:, start : start + k] for start in range(0, table.shape[1], k)])


def _by_width(scores: Any, m: int, k: int) -> Members | None:
    """A table of the width that was fitted: nothing about it needs to be guessed, however few its rows."""
    found = _columns(scores)
    if found is None:
        return None
    table, names = found
    if table.ndim == 3:
        return parse_members(list(np.swapaxes(table, 0, 1)))
    width = m if k == 2 else m * k
    if table.shape[1] != width:
        refuse(f"`scores` must have {width} columns, as in fit", f"{table.shape[1]}", "Pass the members of the fit.")
    if k > 2:
        return _blocks(table, k)
    if names is None:
        return parse_members(list(table.T))
    return parse_members({str(name): column for name, column in zip(names, table.T, strict=True)})
