"""A booster that stops where recalibration leaves least, and is recalibrated there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_is_fitted

from scoreprism._core.arrays import parse_weights
from scoreprism._core.checks import parse_choice, parse_number, parse_random_state, plain, refuse, require_rows
from scoreprism._core.frames import require_aligned, take_rows
from scoreprism._core.labels import distinct, parse_groups, parse_labels
from scoreprism._core.simplex import ArrayLike, FloatArray
from scoreprism._sample.scores import class_labels, cut_rounding
from scoreprism.calibrators import OneVsRestCalibrator, get_calibrator
from scoreprism.calibrators._base import Calibrator
from scoreprism.ensembles._refined_parts import divided, too_few, weighted, whole_groups, with_rounds
from scoreprism.ensembles._select import RULES, selected
from scoreprism.ensembles._selection import StageSelection
from scoreprism.ensembles._stage_inputs import Path, follow, read_stages, slim
from scoreprism.ensembles._stage_maps import FAST
from scoreprism.ensembles._staged_models import staged_model, transformed
from scoreprism.exceptions import LabelError
from scoreprism.losses import ProperLoss, get_loss


class RefinedBoostingClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """
    A booster stopped at the stage with the least loss after recalibration, and recalibrated there.

    The booster is fitted on part of the rows. On the others its stages are compared by their loss after a cross-fitted
    recalibration (`select_stage`); predictions are those of the chosen stage, mapped by a calibrator that is fitted
    on the same held-out rows. The booster is trained on class codes 0, 1, …, whatever the labels are.

    The map is kept only if it pays: where the nested loss after recalibration is not below the loss of the raw choice
    (``selection_.gain_over_raw``), the booster stops at the stage with the least raw loss and is left as it is. With
    fewer than 20 held-out rows outside the most frequent class no map is tried, and a warning says so.

    Parameters
    ----------
    estimator : classifier, optional
        Anything whose stages can be read: scikit-learn's boosting, xgboost, lightgbm, alone or at the end of a
        pipeline. By default `HistGradientBoostingClassifier` without early stopping of its own.
    calibrator : str or Calibrator, default="fast"
        The map that stages are compared by and that recalibrates the chosen one. "fast" is Platt's for two classes,
        temperature scaling for more.
    loss : str or ProperLoss, default="log"
        The loss.
    rule : {"best", "one-se", "guarded"}, default="best"
        How the stage is taken, as in `select_stage`.
    validation_fraction : float, default=0.2
        Share of the rows (of the groups, where there are any) that are held out; not used with ``eval_set``.
    refit : bool, default=False
        Train the booster again on all rows, for as many rounds as were chosen; the map stays.
    cv : int or splitter, default=5
        Folds among the held-out rows.
    random_state : int, Generator or None, default=None
        Seed of the held-out rows and of the folds.
    n_jobs : int, optional
        Processes that stages are judged in.

    Attributes
    ----------
    estimator_ : classifier
        The fitted booster.
    stage_ : int
        The stage that predictions come from: ``selection_.stage``, or ``selection_.raw_stage`` without a map.
    selection_ : StageSelection
        What it was chosen by.
    calibrator_ : Calibrator
        The fitted map; an `IdentityCalibrator` where there is none.
    recalibrated_ : bool
        Whether there is a map.
    classes_ : array
        Labels.

    Examples
    --------
    >>> from sklearn.datasets import make_hastie_10_2
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> from scoreprism.ensembles import RefinedBoostingClassifier
    >>> X, y = make_hastie_10_2(1200, random_state=0)
    >>> fast = HistGradientBoostingClassifier(learning_rate=0.5, early_stopping=False, random_state=0)
    >>> model = RefinedBoostingClassifier(fast, random_state=0).fit(X[:800], y[:800])
    >>> model.predict_proba(X[800:]).shape, model.recalibrated_
    ((400, 2), True)
    """

    def __init__(
        self,
        estimator: Any = None,
        calibrator: str | Calibrator = "fast",
        *,
        loss: str | ProperLoss = "log",
        rule: str = "best",
        validation_fraction: float = 0.2,
        refit: bool = False,
        cv: Any = 5,
        random_state: object = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.calibrator = calibrator
        self.loss = loss
        self.rule = rule
        self.validation_fraction = validation_fraction
        self.refit = refit
        self.cv = cv
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        eval_set: Sequence[Any] | None = None,
        groups: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Self:
        """
        Fit the booster, choose its stage and fit the map.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features; whatever the booster accepts.
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), optional
            Weights, for the booster, the choice and the map.
        eval_set : (X, y), (X, y, sample_weight) or [(X, y)], optional
            Held-out rows of one's own; all of `X` is then trained on.
        groups : array-like of shape (n,), optional
            Clusters of rows that are not independent: each is held out as a whole, and stays in one fold.
        **fit_params : object
            More for the booster's ``fit``.

        Returns
        -------
        RefinedBoostingClassifier
            The estimator itself.
        """
        loss, rule = get_loss(self.loss), parse_choice(self.rule, RULES, "rule")
        require_aligned({"X": X, "y": y, "sample_weight": sample_weight, "groups": groups})
        given = class_labels(y, type(self).__name__)
        X, given, sample_weight = indexable(X, given, sample_weight)
        labels = parse_labels(given, "y")
        weight = parse_weights(sample_weight, labels.shape[0], "X")
        self.classes_, codes = distinct(labels, "y")
        if self.classes_.size < 2:
            found = f"one class, {plain(self.classes_[0])}"
            refuse("`y` must hold at least two classes", found, "Pass rows of each class.", LabelError)
        rng = parse_random_state(self.random_state)
        clusters = parse_groups(groups, labels.shape[0])
        train, held = self._parts(X, codes, weight, eval_set, None if clusters is None else clusters[1], rng)
        fit_params = self._routed(fit_params)
        self.estimator_ = self._fitted(self._estimator(), train[:3], fit_params)
        path = self._path(*held)
        chosen = selected(path, loss, self.calibrator, rule, self.cv, 0.95, int(rng.integers(2**31)), self.n_jobs)
        self.selection_: StageSelection = chosen
        self.recalibrated_ = not too_few(path) and chosen.gain_over_raw.value > 0.0
        self.stage_ = int(chosen.stage if self.recalibrated_ else chosen.raw_stage)
        score = path.laws[int(np.flatnonzero(path.numbers == self.stage_)[0])]
        self.calibrator_ = self._map(score, held[1], held[2], self.calibrator if self.recalibrated_ else "identity")
        if self.refit:
            whole = with_rounds(clone(self._estimator()), self.stage_)
            self.estimator_ = self._fitted(whole, (X, codes, weight), fit_params)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """
        Probabilities of the chosen stage, recalibrated where that pays (``recalibrated_``).

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.

        Returns
        -------
        array of shape (n, K)
            One column per entry of ``classes_``.
        """
        check_is_fitted(self, "calibrator_")
        reader, before = staged_model(self.estimator_)
        law = slim(np.asarray(reader.law(transformed(before, X), self.stage_), dtype=np.float64))
        name = f"stage {self.stage_:g} of {type(self.estimator_).__name__}"
        return self.calibrator_.predict_proba(cut_rounding(law, name))

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
        law = self.predict_proba(X)
        best: NDArray[Any] = self.classes_[law.argmax(axis=1)]
        return best

    # ── fitting ─────────────────────────────────────────────────────────────────────────────────────

    def _estimator(self) -> Any:
        if self.estimator is not None:
            return self.estimator
        from sklearn.ensemble import HistGradientBoostingClassifier

        seed = self.random_state if isinstance(self.random_state, (int, np.integer)) else None
        return HistGradientBoostingClassifier(early_stopping=False, random_state=seed)

    def _parts(
        self, X: Any, codes: Any, weight: Any, eval_set: Any, groups: Any, rng: np.random.Generator
    ) -> tuple[Any, Any]:
        """Rows that are trained on, and rows that are held out: features, codes, weights, groups."""
        if eval_set is not None:
            if groups is not None:
                refuse("`groups` must be left out with `eval_set`", "both", "The rows are divided already.")
            return (X, codes, weight, None), self._given(eval_set)
        rule = "a share between 0 and 1"
        share = parse_number(self.validation_fraction, "validation_fraction", rule, lambda v: 0.0 < v < 1.0)
        counts = np.bincount(codes)
        least = 2 if counts.size == 2 else 1
        if np.floor(counts.min() * share) < least or counts.min() * (1.0 - share) < 1.0:
            rare = plain(self.classes_[int(counts.argmin())])
            found = f"{codes.size} samples, {counts.min()} of them of class {rare}, of which {share:g} are held out"
            rule = f"held-out rows must hold at least {least} of each class"
            refuse(rule, found, "Pass more rows, or `eval_set`=(X, y).")
        seed = int(rng.integers(2**31))
        parts = divided(codes, share, seed) if groups is None else whole_groups(codes, groups, share, least, seed)
        first, second = (
            (take_rows(X, p), codes[p], *(None if one is None else one[p] for one in (weight, groups))) for p in parts
        )
        return first, second

    def _given(self, eval_set: Any) -> tuple[Any, Any, Any, None]:
        """Held-out rows that came with the call."""
        if self.refit:
            refuse("`refit` must be False with `eval_set`", "True", "Fit on all rows, with `validation_fraction`.")
        rule = "`eval_set` must be (X, y) or (X, y, sample_weight)"
        pairs = isinstance(eval_set, list) and bool(eval_set) and all(isinstance(one, tuple) for one in eval_set)
        if pairs and len(eval_set) > 1:  # boosters stop by the last of several, which is easily overlooked
            refuse(rule, f"{len(eval_set)} of them", "Pass the one to choose the stage on.")
        eval_set = eval_set[0] if pairs else eval_set
        if not isinstance(eval_set, (tuple, list)) or len(eval_set) not in (2, 3):
            refuse(rule, type(eval_set).__name__, "Pass a tuple.")
        X, y, *rest = eval_set
        names = ("X of eval_set", "y of eval_set", "sample_weight of eval_set")
        require_aligned(dict(zip(names, eval_set, strict=False)))
        labels = parse_labels(y, "y of eval_set")
        position = {label: code for code, label in enumerate(self.classes_.tolist())}
        strange = [label for label in labels.tolist() if label not in position]
        if strange:
            rule = "`eval_set` must hold labels that were trained on"
            refuse(rule, plain(strange[0]), "Pass rows with the same labels.", LabelError)
        codes = np.array([position[label] for label in labels.tolist()], dtype=np.intp)
        rows = X.shape[0] if hasattr(X, "shape") else len(X)
        require_rows(rows, codes.size, "X of eval_set", "y of eval_set")
        return X, codes, parse_weights(rest[0] if rest else None, codes.size, "y of eval_set"), None

    def _routed(self, fit_params: dict[str, Any]) -> dict[str, Any]:
        """Parameters for the booster's fit."""
        if get_config()["enable_metadata_routing"] and fit_params:
            return dict(process_routing(self, "fit", **fit_params).estimator.fit)
        return fit_params

    def _fitted(self, estimator: Any, part: tuple[Any, Any, Any], fit_params: dict[str, Any]) -> Any:
        """The booster trained on some rows."""
        X, codes, weight = part
        return clone(estimator).fit(X, codes, **weighted(estimator, weight), **fit_params)

    def _path(self, X: Any, codes: Any, weight: Any, groups: Any) -> Path:
        """The stages of the booster on the held-out rows."""
        read = read_stages(self.estimator_, X, codes)
        return follow(read, codes, sample_weight=weight, groups=groups, classes=np.arange(self.classes_.size))

    def _map(self, score: FloatArray, codes: Any, weight: Any, calibrator: Any) -> Calibrator:
        """The map of the chosen stage."""
        two = self.classes_.size == 2
        fast = isinstance(calibrator, str) and calibrator == "fast"
        made = get_calibrator(FAST[two] if fast else calibrator)
        if fast and two:  # what is deployed keeps the order of scores
            made.set_params(increasing=True)
        made = clone(made if two or made.multiclass else OneVsRestCalibrator(made)).set_params(kind="probability")
        fitted: Calibrator = made.fit(score, codes, sample_weight=weight)
        return fitted

    # ── scikit-learn ────────────────────────────────────────────────────────────────────────────────

    def get_metadata_routing(self) -> MetadataRouter:
        """
        Where metadata go: to the booster's fit.

        Returns
        -------
        MetadataRouter
            The routing.
        """
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        return MetadataRouter(owner=self).add_self_request(self).add(estimator=self._estimator(), method_mapping=to_fit)

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self._estimator())
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        return tags
