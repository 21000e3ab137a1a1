"""A classifier that looks up what a model said that was fitted before, so that protocols can share fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from scoreprism._core.simplex import FloatArray, IntArray


@dataclass(frozen=True)
class Record:
    """
    Scores of a model that was fitted before, in each of some splits.

    Attributes
    ----------
    scores : array of shape (splits, n)
        P(Y = 1) of every row.
    splits : dict of bytes to int
        Which split has these training rows.

    Examples
    --------
    >>> record = Record.of(np.array([[0.1, 0.2, 0.3]]), [np.array([2, 0])])
    >>> record.splits == {np.array([0, 2]).tobytes(): 0}
    True
    """

    scores: FloatArray
    splits: dict[bytes, int]

    @classmethod
    def of(cls, scores: FloatArray, train: list[IntArray]) -> Record:
        """
        From the training rows of each split.

        Parameters
        ----------
        scores : array of shape (splits, n)
            P(Y = 1).
        train : list of integer arrays
            Training rows.

        Returns
        -------
        Record
            For `Recorded`.
        """
        return cls(scores, {_key(rows): r for r, rows in enumerate(train)})


class Recorded(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """
    A classifier that looks up what a model said that was fitted on the same rows before.

    Its features are one column, the numbers of the rows.

    Parameters
    ----------
    record : Record
        What the model said.

    Examples
    --------
    >>> record = Record.of(np.array([[0.1, 0.2, 0.3]]), [np.array([2, 0])])
    >>> Recorded(record).fit([[0], [2]], [0, 1]).predict_proba([[1]])
    array([[0.8, 0.2]])
    """

    def __init__(self, record: Record) -> None:
        self.record = record

    def __sklearn_clone__(self) -> Recorded:
        return Recorded(self.record)  # the scores are not copied for every split

    def fit(self, X: Any, y: Any) -> Self:
        """
        Recognise the split by its training rows.

        Parameters
        ----------
        X : array-like of shape (n, 1)
            Numbers of rows.
        y : array-like of shape (n,)
            Labels.

        Returns
        -------
        Recorded
            Itself.
        """
        self.classes_ = np.unique(y)
        self.split_ = self.record.splits[_key(_numbers(X))]
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """
        What the model said.

        Parameters
        ----------
        X : array-like of shape (n, 1)
            Numbers of rows.

        Returns
        -------
        array of shape (n, 2)
            Probabilities.
        """
        p = self.record.scores[self.split_, _numbers(X)]
        return np.column_stack([1.0 - p, p])


def _numbers(X: Any) -> IntArray:
    return np.asarray(X)[:, 0].astype(np.intp)


def _key(rows: IntArray) -> bytes:
    return np.sort(rows).tobytes()
