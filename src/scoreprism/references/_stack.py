"""Reference laws Q̂ = P(Y | S, X): the default stack, and any classifier of scikit-learn's kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from scoreprism._core.checks import parse_choice, parse_law, parse_weights, refuse, require_rows
from scoreprism._core.labels import code_labels, parse_labels
from scoreprism._core.simplex import ArrayLike, FloatArray, as_matrix, as_vector, n_classes
from scoreprism._learners.members import (
    DEFAULT_MEMBERS,
    MEMBERS,
    Fitted,
    Task,
    boost_ahead,
    find_mixing_weights,
    mix_laws,
    observed_probabilities,
)
from scoreprism._sample.embeddings import FeatureEncoder
from scoreprism._sample.features import Features, parse_features, score_columns
from scoreprism._sample.fit_rows import FitRows
from scoreprism._sample.folds import Split, make_folds

#: From the features and the law to start from to the laws of all variants of all members.
Predict = Callable[[Features, FloatArray], list[FloatArray]]


class StackedReference(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """
    The default estimate of Q: a mixture of learners that start from the calibrated score.

    The members are the calibrated score itself; a ridge logistic regression on the features with the calibrated logit
    as its offset; the same with squares and products; small boosting started at the calibrated logit (after few and
    many trees); the same continued with trees that cut two columns at once, on pairs of columns whose interaction
    shows beyond chance (of three columns or more only what pairs show of it); small boosting from the base rate. The
    mixture minimises the out-of-fold log loss.

    More than 100 columns of numbers are taken for embeddings. Their members are the calibrated score; a ridge
    regression on all columns with the calibrated law as its offset, whose ridge the evidence chooses ("probe"; of 100
    classes or more its weights have a low rank); and the outcomes of the nearest rows against what the calibrated score
    expects of them ("neighbours").

    Features may be numbers, categories, times, with missing values; nothing has to be scaled or encoded.

    Parameters
    ----------
    members : "auto" or sequence of str, default="auto"
        Names in `MEMBERS`; "auto" is "probe" and "neighbours" beside "calibrated" for embeddings, all others else.
    cv : int, default=5
        Random folds that the weights of the mixture are learned on.
    random_state : int, Generator or None, default=0
        Seed of folds and of the boosting of many columns.

    Attributes
    ----------
    classes_ : array of shape (K,)
        Labels.
    weights_ : array
        Weights of the mixture, one per variant of each member.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.references import StackedReference
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((600, 2))
    >>> y = (rng.random(600) < X[:, 0]).astype(int)
    >>> reference = StackedReference().fit(X, y)
    >>> bool(np.abs(reference.predict_proba(X)[:, 1] - X[:, 0]).mean() < 0.1)
    True
    """

    def __init__(self, members: str | Sequence[str] = "auto", *, cv: int = 5, random_state: object = 0) -> None:
        self.members = members
        self.cv = cv
        self.random_state = random_state

    def name_members(self, features: Features) -> list[str]:
        """
        Names of the members for some features.

        Parameters
        ----------
        features : Features
            Few columns, or embeddings.

        Returns
        -------
        list of str
            Names in `MEMBERS`.
        """
        if isinstance(self.members, str):
            if self.members == "auto":
                return list(DEFAULT_MEMBERS[features.is_wide])
            return [parse_choice(self.members, MEMBERS, "members")]
        names = [parse_choice(name, MEMBERS, "members") for name in self.members]
        if not names:
            refuse("`members` must name at least one learner", "none", f"Choose among {', '.join(MEMBERS)}.")
        return names

    def boost_ahead(self, tasks: Sequence[Task]) -> None:
        """
        Fit what the members of several small tasks boost, all at once.

        Parameters
        ----------
        tasks : sequence of Task
            Tasks that `can_boost_ahead` allows; each keeps its fits.
        """
        boost_ahead(tasks, self.name_members(tasks[0].features))

    def fit_members(self, task: Task, rng: np.random.Generator) -> Predict:
        """
        Fit all members.

        Parameters
        ----------
        task : Task
            Rows to fit on.
        rng : Generator
            Source of randomness.

        Returns
        -------
        callable
            From features and start to the probabilities of all variants.
        """
        fitted: list[Fitted] = [MEMBERS[name](task, rng) for name in self.name_members(task.features)]
        return lambda features, base: [law for member in fitted for law in member(features, base)]

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, *, y_proba: ArrayLike | None = None
    ) -> StackedReference:
        """
        Fit the members, and mix them by their out-of-fold predictions.

        Parameters
        ----------
        X : array-like or frame of shape (n, p)
            Features.
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), optional
            Weights.
        y_proba : array-like of shape (n,) or (n, K), optional
            Probabilities to start from, columns in sorted order of the labels; by default the share of each class.

        Returns
        -------
        StackedReference
            Itself.
        """
        labels = parse_labels(y, "y")
        self.classes_, codes = code_labels(labels, "y")
        k = self.classes_.size
        if k < 2:
            refuse("`y` must hold at least two classes", "one", "Fit on rows in which each class occurs.")
        table = parse_features(X, codes.size)
        weight = parse_weights(sample_weight, codes.size, "y")
        weight = None if weight is None else weight * (weight.sum() / (weight @ weight))  # as many as they are worth
        share = np.bincount(codes, weight, minlength=k) / (codes.size if weight is None else weight.sum())
        self._share = share[1] if k == 2 else share
        base = self._parse_base(y_proba, codes.size)
        self._given = y_proba is not None
        score = self._read_score(base)
        self._encoder = FeatureEncoder.fit(table, score)
        whole = Task(self._encoder(table, score), base, codes, weight, k)
        rng = np.random.default_rng(self.random_state)  # type: ignore[arg-type]
        folds = make_folds(self.cv, FitRows(base, codes, weight, k, "probability"), rng)
        self.weights_ = find_mixing_weights(self._score_out_of_fold(whole, folds, rng), weight)
        self._predict = self.fit_members(whole, rng)
        self.n_features_in_ = len(table)
        return self

    def _score_out_of_fold(self, task: Task, folds: Sequence[Split], rng: np.random.Generator) -> FloatArray:
        """The probability of each row's outcome by members fitted without the row; 1 for rows in no test part."""
        by_fold = []
        for train, test in folds:
            test_task = task.part(test)
            laws = self.fit_members(task.part(train), rng)(test_task.features, test_task.base)
            by_fold.append(observed_probabilities(laws, test_task.codes))
        hits = np.ones((by_fold[0].shape[0], task.codes.shape[0]))
        for (_, test), rows in zip(folds, by_fold, strict=True):
            hits[:, test] = rows
        return hits

    def _parse_base(self, y_proba: ArrayLike | None, n: int) -> FloatArray:
        """The probabilities to start from: those given, or the share of each class."""
        if y_proba is None:
            return np.full(n, self._share) if np.ndim(self._share) == 0 else np.tile(self._share, (n, 1))
        law = parse_law(y_proba, "y_proba")
        require_rows(law.shape[0], n, "y_proba", "X")
        if n_classes(law) != self.classes_.size:
            got = f"{n_classes(law)} classes beside {self.classes_.size} labels"
            refuse("`y_proba` must have a column for each label", got, "Pass probabilities of the labels of y.")
        return as_vector(law) if n_classes(law) == 2 else law

    def _read_score(self, base: FloatArray) -> list[NDArray[Any]]:
        return score_columns(base) if self._given else []

    def predict_proba(self, X: ArrayLike, *, y_proba: ArrayLike | None = None) -> FloatArray:
        """
        Estimated probabilities.

        Parameters
        ----------
        X : array-like or frame of shape (n, p)
            Features.
        y_proba : array-like of shape (n,) or (n, K), optional
            Probabilities to start from, if `fit` had them.

        Returns
        -------
        array of shape (n, K)
            Probabilities, columns as in ``classes_``.
        """
        check_is_fitted(self, "weights_")
        if (y_proba is not None) != self._given:
            rule = "predict_proba must get `y_proba`" if self._given else "predict_proba must not get `y_proba`"
            refuse(f"{rule}, as fit did", "the opposite", "Call both the same way.")
        rows = getattr(X, "shape", (len(X),))[0]  # type: ignore[arg-type]
        table = parse_features(X, rows)
        if len(table) != self.n_features_in_:
            refuse(
                f"`X` must have {self.n_features_in_} columns, as in fit", f"{len(table)}", "Pass the same features."
            )
        base = self._parse_base(y_proba, rows)
        features = self._encoder(table, self._read_score(base))
        return as_matrix(mix_laws(self._predict(features, base), self.weights_))

    def predict(self, X: ArrayLike, *, y_proba: ArrayLike | None = None) -> NDArray[Any]:
        """
        The most probable class.

        Parameters
        ----------
        X : array-like or frame of shape (n, p)
            Features.
        y_proba : array-like, optional
            Probabilities to start from, if `fit` had them.

        Returns
        -------
        array of shape (n,)
            Labels.
        """
        best: NDArray[Any] = self.classes_[self.predict_proba(X, y_proba=y_proba).argmax(axis=1)]
        return best
