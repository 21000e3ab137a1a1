"""A classifier and its recalibration map in one estimator; the map is fitted on rows the classifier has not seen."""

from __future__ import annotations

import warnings
from dataclasses import field
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import check_cv
from sklearn.utils import get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from scoreprism._core.checks import abbreviate, parse_random_state, parse_weights, refuse, write_plain
from scoreprism._core.frames import take_rows
from scoreprism._core.labels import code_labels
from scoreprism._core.simplex import ArrayLike, FloatArray
from scoreprism._double_use import warn_of_training_rows
from scoreprism._findings.finding import Finding, announce
from scoreprism._sample.folds import require_disjoint
from scoreprism._sample.parse_scores import class_labels, count_rows, parse_decision, parse_prediction
from scoreprism.calibrators._calibrator import Calibrator, get_calibrator, with_parameters
from scoreprism.calibrators._selected import SelectedCalibrator
from scoreprism.calibrators._softmax_maps import OneVsRestCalibrator
from scoreprism.exceptions import ContradictedOrderWarning, LabelError


class Pair(NamedTuple):
    """A fitted classifier and the map of its scores."""

    estimator: Any
    calibrator: Calibrator


@with_parameters
class RecalibratedClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """
    A classifier with recalibrated probabilities.

    The map is fitted on scores of rows that the classifier was not trained on: out-of-fold rows, or, for a
    `sklearn.frozen.FrozenEstimator`, the rows passed to `fit`, which must then be held-out ones. Where a frozen
    classifier shows that they are its training rows, there is a `DoubleUseWarning`.

    Parameters
    ----------
    estimator : classifier, optional
        Anything with `predict_proba` or, failing that, `decision_function`; by default a logistic regression. Wrap a
        classifier that is already fitted in ``FrozenEstimator``.
    calibrator : str or Calibrator, default="auto"
        A map or its name in `CALIBRATORS`; "auto" is `SelectedCalibrator`, which chooses by cross-validation among maps
        that keep the order of scores. A binary map is applied one against the rest to more classes.
    cv : int, splitter or iterable, default=5
        How rows are split, as in scikit-learn; not used for a frozen classifier.
    ensemble : "auto" or bool, default="auto"
        True: a classifier and a map per fold, whose probabilities are averaged. False: one map of all out-of-fold
        scores, and one classifier trained on all rows. "auto" is False for a frozen classifier, else True.
    n_jobs : int, optional
        Folds fitted at the same time.
    random_state : int, Generator or None, default=None
        Seed of calibrators that draw folds of their own; None leaves them as they are.

    Attributes
    ----------
    calibrated_ : list of (estimator, calibrator)
        The fitted pairs.
    classes_ : array
        Labels.

    Notes
    -----
    What the classifier returns is checked in `fit` and in `predict_proba`: as many rows as it was given, one column per
    class, numbers between 0 and 1, rows that sum to 1, each within 1e-6 (a softmax in single precision is off by 1e-7).
    Within that, numbers are cut to [0, 1]; percentages, logits, NaN and infinities are refused.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from scoreprism.calibrators import RecalibratedClassifier
    >>> from scoreprism.datasets import CopulaLaw
    >>> X, y, q = CopulaLaw().sample(600, random_state=0)
    >>> forest = RandomForestClassifier(50, random_state=0)
    >>> model = RecalibratedClassifier(forest, "monotone-spline").fit(X[:400], y[:400])
    >>> model.predict_proba(X[400:]).shape
    (200, 2)
    """

    estimator: Any = field(default=None, kw_only=False)
    calibrator: str | Calibrator = field(default="auto", kw_only=False)
    cv: Any = 5
    ensemble: str | bool = "auto"
    n_jobs: int | None = None
    random_state: object = None

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, **fit_params: Any
    ) -> RecalibratedClassifier:
        """
        Fit the classifier and the map.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features; whatever the classifier accepts.
        y : array-like of shape (n,)
            Labels. The classifier gets them as they came: most of scikit-learn's refuse integers of dtype object.
        sample_weight : array-like of shape (n,), optional
            Weights of rows, for the map and, if it takes them, for the classifier. A row of weight 2 counts as two;
            weights whose sum is no number of rows (below 2⁻⁵³ or above 2⁵³) are scaled to sum to it, with a warning.
        **fit_params : object
            More for the classifier's `fit`; arrays with one entry per row are split along.

        Returns
        -------
        RecalibratedClassifier
            The estimator itself.
        """
        given = class_labels(y, type(self).__name__)
        X, given, sample_weight = indexable(X, given, sample_weight)
        self.classes_, codes = code_labels(given, "y")
        self._check_classes()
        sample_weight = parse_weights(sample_weight, len(codes), "y", as_rows=True)
        estimator = self._estimator()
        routed = self._route(estimator, sample_weight, fit_params)
        self._rng = parse_random_state(self.random_state)
        labels = self.classes_[codes]
        if isinstance(estimator, FrozenEstimator):
            self._check_frozen(estimator)
            warn_of_training_rows(estimator, X, labels, sample_weight)
            scored = score_rows(estimator, X, self.classes_)
            self.calibrated_ = [Pair(estimator, self._fit_map(scored, labels, sample_weight))]
        else:
            self.calibrated_ = self._cross_fit(estimator, X, labels, codes, sample_weight, routed)
        del self._rng
        self._warn_of_contradictions()
        first = self.calibrated_[0].estimator
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(first, name):
                setattr(self, name, getattr(first, name))
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """
        Recalibrated probabilities.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.

        Returns
        -------
        array of shape (n, K)
            One column per entry of ``classes_``.
        """
        check_is_fitted(self)
        laws = [
            pair.calibrator.predict_proba(score_rows(pair.estimator, X, self.classes_)[0]) for pair in self.calibrated_
        ]
        mean: FloatArray = np.mean(laws, axis=0)
        return mean

    def predict(self, X: Any) -> NDArray[Any]:
        """
        The most probable class.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.

        Returns
        -------
        array of shape (n,)
            Labels.
        """
        check_is_fitted(self)
        best: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return best

    # ── fitting ─────────────────────────────────────────────────────────────────────────────────────

    def _estimator(self) -> Any:
        """The classifier, a logistic regression by default."""
        return LogisticRegression() if self.estimator is None else self.estimator

    def _check_classes(self) -> None:
        if len(self.classes_) < 2:
            refuse(
                "`y` must hold at least two classes",
                f"one class, {write_plain(self.classes_[0])}",
                "Pass rows of each class.",
                LabelError,
            )

    def _check_frozen(self, estimator: Any) -> None:
        known = getattr(estimator, "classes_", None)
        theirs = "no classes" if known is None else abbreviate(map(write_plain, known))
        if known is None or list(known) != list(self.classes_):
            refuse(
                "a frozen classifier must know the classes in y, and y must hold all of them",
                f"{abbreviate(map(write_plain, self.classes_))} in y and {theirs} in the classifier",
                "Fit it before freezing it."
                if known is None
                else "Calibrate on rows with the labels it was trained on.",
                LabelError,
            )

    def _route(self, estimator: Any, sample_weight: ArrayLike | None, fit_params: dict[str, Any]) -> Any:
        """Parameters for the classifier's fit and the splitter's split: by routing, or by scikit-learn's old rule."""
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", sample_weight=sample_weight, **fit_params)
            return dict(routed.estimator.fit), dict(routed.splitter.split)
        params, accepted = dict(fit_params), signature(estimator.fit).parameters
        split = {"groups": params.pop("groups")} if "groups" in params and "groups" not in accepted else {}
        if sample_weight is not None and "sample_weight" in accepted:
            params["sample_weight"] = sample_weight
        elif sample_weight is not None and not isinstance(estimator, FrozenEstimator):
            announce(Finding("weights_unused", subject=type(estimator).__name__))
        return params, split

    def _make_splits(
        self, X: Any, labels: NDArray[Any], codes: NDArray[Any], split_params: dict[str, Any]
    ) -> list[Any]:
        """Folds that never test on a row they trained on, with each class on both sides."""
        if isinstance(self.cv, str):
            refuse(
                "`cv` must be a number of folds, a splitter or an iterable of splits",
                repr(self.cv),
                "For a classifier that is already fitted, pass FrozenEstimator(classifier) and held-out rows.",
            )
        counts = np.bincount(codes)
        folds = self.cv if isinstance(self.cv, int) else getattr(self.cv, "n_splits", 2)
        if counts.min() < folds:
            refuse(
                f"Requesting {folds}-fold cross-validation must leave every class at least {folds} rows",
                f"{counts.min()} rows of class {write_plain(self.classes_[int(counts.argmin())])}",
                "Use fewer folds.",
            )
        # codes for labels of dtype object, whose kind scikit-learn does not look at: folds would not be stratified
        target = codes if labels.dtype == object else labels
        drawn = check_cv(self.cv, target, classifier=True).split(X, target, **split_params)
        splits = require_disjoint(drawn, len(codes), "the map must not be fitted on rows its classifier was trained on")
        for number, parts in enumerate(splits):
            for part, rows in zip(("training", "test"), parts, strict=True):
                missing = np.flatnonzero(np.bincount(codes[rows], minlength=counts.size) == 0)
                if missing.size:
                    refuse(
                        "every class must be in both parts of every split",
                        f"no {write_plain(self.classes_[missing[0]])} in the {part} part of split {number}",
                        "Use stratified or shuffled splits.",
                    )
        return splits

    def _cross_fit(
        self, estimator: Any, X: Any, labels: NDArray[Any], codes: NDArray[Any], weight: ArrayLike | None, routed: Any
    ) -> list[Pair]:
        """A pair per fold, or one map of all out-of-fold scores."""
        fit_params, split_params = routed
        splits = self._make_splits(X, labels, codes, split_params)
        fitted = Parallel(n_jobs=self.n_jobs)(
            delayed(_fit_fold)(clone(estimator), X, labels, train, fit_params) for train, _ in splits
        )
        out_of_fold = [
            score_rows(model, take_rows(X, test), self.classes_)
            for model, (_, test) in zip(fitted, splits, strict=True)
        ]
        tests = [test for _, test in splits]
        weights = [None if weight is None else np.asarray(weight)[test] for test in tests]
        if self.ensemble is True or self.ensemble == "auto":
            parts = zip(fitted, out_of_fold, tests, weights, strict=True)
            return [Pair(model, self._fit_map(score, labels[test], w)) for model, score, test, w in parts]
        if self.ensemble is not False:
            refuse("`ensemble` must be 'auto', True or False", repr(self.ensemble), "Pass one of these.")
        pooled = np.concatenate([score for score, _ in out_of_fold]), out_of_fold[0][1]
        rows = np.concatenate(tests)
        mapped = self._fit_map(pooled, labels[rows], None if weight is None else np.asarray(weight)[rows])
        return [Pair(clone(estimator).fit(X, labels, **fit_params), mapped)]

    def _fit_map(self, scored: tuple[FloatArray, str], labels: NDArray[Any], weight: ArrayLike | None) -> Calibrator:
        """The fitted map of scores of one kind."""
        score, kind = scored
        calibrator: Calibrator = clone(get_calibrator(self.calibrator))
        if len(self.classes_) > 2 and not calibrator.multiclass:
            calibrator = OneVsRestCalibrator(calibrator)
        seeds = [name for name in calibrator.get_params() if name.rpartition("__")[2] == "random_state"]
        if seeds and self.random_state is not None:
            calibrator.set_params(**dict.fromkeys(seeds, int(self._rng.integers(2**31))))
        calibrator.set_params(kind=kind)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ContradictedOrderWarning)  # said once, for all folds
            return calibrator.fit(score, labels, sample_weight=weight)

    def _warn_of_contradictions(self) -> None:
        """Say once that the data contradict the order that the maps keep."""
        maps = [pair.calibrator for pair in self.calibrated_]
        contradictions = [fitted.contradiction for fitted in maps if isinstance(fitted, SelectedCalibrator)]
        findings = [finding for finding in contradictions if finding is not None]
        if findings:
            worst = max(findings, key=lambda finding: finding.value or 0.0)
            folds = {"folds": [len(findings), len(maps)]} if len(maps) > 1 else {}
            announce(worst.with_facts(remedy="calibrator", **folds))

    # ── scikit-learn ────────────────────────────────────────────────────────────────────────────────

    def get_metadata_routing(self) -> MetadataRouter:
        """
        Where metadata go: to the classifier's fit and to the splitter.

        Returns
        -------
        MetadataRouter
            The routing.
        """
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        to_split = MethodMapping().add(caller="fit", callee="split")
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(estimator=self._estimator(), method_mapping=to_fit)
            .add(splitter=self.cv, method_mapping=to_split)
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = get_tags(self._estimator()).input_tags.sparse
        return tags


def score_rows(estimator: Any, X: Any, classes: NDArray[Any]) -> tuple[FloatArray, str]:
    """Scores of a classifier and their kind: probabilities, or decision values as logits."""
    n = count_rows(X)
    inner = type(getattr(estimator, "estimator", None) if isinstance(estimator, FrozenEstimator) else estimator)
    if hasattr(estimator, "predict_proba"):
        law = parse_prediction(estimator.predict_proba(X), f"{inner.__name__}.predict_proba", n, len(classes))
        return (law[:, 1] if len(classes) == 2 else law), "probability"
    if not hasattr(estimator, "decision_function"):
        refuse(
            "`estimator` must have predict_proba or decision_function",
            inner.__name__,
            "Use a classifier that scores rows.",
        )
    values = parse_decision(estimator.decision_function(X), f"{inner.__name__}.decision_function", n)
    pairwise = getattr(estimator, "decision_function_shape", None) == "ovo"
    if pairwise and len(classes) > 2 and values.shape[1] == len(classes):
        # three classes have three pairs: one more column tells a calibrator that these are not one logit per class
        values = np.column_stack([values, np.zeros(len(values))])
    return values, "logit"


def _fit_fold(estimator: Any, X: Any, labels: NDArray[Any], train: NDArray[Any], params: dict[str, Any]) -> Any:
    """A classifier trained on one part."""
    sized = {name: take_rows(value, train) if _per_row(value, len(labels)) else value for name, value in params.items()}
    return estimator.fit(take_rows(X, train), labels[train], **sized)


def _per_row(value: object, n: int) -> bool:
    """Whether a parameter has one entry per row."""
    return hasattr(value, "__len__") and not isinstance(value, (str, bytes, dict)) and len(value) == n
