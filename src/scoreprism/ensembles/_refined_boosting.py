"""A booster stopped at the stage with the least loss after recalibration, and recalibrated there."""

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

from scoreprism._core.checks import (
    parse_choice,
    parse_number,
    parse_random_state,
    parse_weights,
    refuse,
    require_rows,
    write_plain,
)
from scoreprism._core.frames import require_aligned, take_rows
from scoreprism._core.labels import code_labels, parse_groups, parse_labels
from scoreprism._core.simplex import ArrayLike, FloatArray
from scoreprism._findings.finding import Finding, announce
from scoreprism._fitting.parse_learners import find_weight_key
from scoreprism._sample.parse_scores import class_labels, count_rows, cut_rounding
from scoreprism._sample.sample import Sample
from scoreprism._sample.staged_models import (
    attach_outcomes,
    drop_first_class,
    find_reader,
    read_stages,
    transform_features,
)
from scoreprism.calibrators import Calibrator, OneVsRestCalibrator, get_calibrator
from scoreprism.ensembles._stage_selection import FAST, RULES, StageSelection, select_along
from scoreprism.exceptions import LabelError
from scoreprism.losses import ProperLoss, get_loss

#: Names of the number of rounds in the various boosters.
_ROUNDS = ("n_estimators", "max_iter", "iterations", "num_boost_round")
#: Held-out rows outside the most frequent class that a map needs: ten for each of Platt's two parameters. With fewer,
#: the classes are often separated by chance, and the map becomes a step.
_FEW = 20


class RefinedBoostingClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """
    A booster stopped at the stage with the least loss after recalibration, and recalibrated there.

    The booster is fitted on part of the rows. On the others its stages are compared by their loss after a cross-fitted
    recalibration (`select_stage`); predictions are those of the chosen stage, mapped by a calibrator that is fitted
    on the same held-out rows. The booster is trained on class codes 0, 1, … instead of the labels.

    The map is used only if it pays: where the nested loss after recalibration is not below the loss of the raw choice
    (``selection_.gain_over_raw``), the booster stops at the stage with the least raw loss, without a map. With
    fewer than 20 held-out rows outside the most frequent class no map is tried, and a warning is issued.

    Parameters
    ----------
    estimator : classifier, optional
        Anything whose stages can be read: scikit-learn's boosting, xgboost, lightgbm, alone or at the end of a
        pipeline. By default `HistGradientBoostingClassifier` without early stopping of its own.
    calibrator : str or Calibrator, default="fast"
        The map by which stages are compared and the chosen one is recalibrated. "fast" is Platt's for two classes,
        temperature scaling for more.
    loss : str or ProperLoss, default="log"
        The loss.
    rule : {"best", "one-se", "guarded"}, default="best"
        How the stage is taken, as in `select_stage`.
    validation_fraction : float, default=0.2
        Share of the rows (or groups) that are held out; not used with ``eval_set``.
    refit : bool, default=False
        Train the booster again on all rows, for as many rounds as were chosen; the map stays.
    cv : int or splitter, default=5
        Folds among the held-out rows.
    random_state : int, Generator or None, default=0
        Seed of the held-out rows and of the folds.
    n_jobs : int, optional
        Processes that evaluate the stages.

    Attributes
    ----------
    estimator_ : classifier
        The fitted booster.
    stage_ : int
        The stage that predictions come from: ``selection_.stage``, or ``selection_.raw_stage`` without a map.
    selection_ : StageSelection
        The selection behind it.
    calibrator_ : Calibrator
        The fitted map; an `IdentityCalibrator` if none is used.
    recalibrated_ : bool
        Whether predictions are recalibrated.
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
        random_state: object = 0,
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
            Features, in any form that the booster accepts.
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), optional
            Weights, for the booster, the choice and the map.
        eval_set : (X, y), (X, y, sample_weight) or [(X, y)], optional
            Held-out rows; the booster is then trained on all of `X`.
        groups : array-like of shape (n,), optional
            Clusters of rows that are not independent: each is held out as a whole, and stays in one fold.
        **fit_params : object
            Further arguments of the booster's ``fit``.

        Returns
        -------
        RefinedBoostingClassifier
            The estimator itself.
        """
        loss, rule = get_loss(self.loss), parse_choice(self.rule, RULES, "rule")
        require_aligned({"X": X, "y": y, "sample_weight": sample_weight, "groups": groups})
        labels = class_labels(y, type(self).__name__)
        X, labels, sample_weight = indexable(X, labels, sample_weight)
        labels = parse_labels(labels, "y")
        weight = parse_weights(sample_weight, labels.shape[0], "X")
        self.classes_, codes = code_labels(labels, "y")
        if self.classes_.size < 2:
            got = f"one class, {write_plain(self.classes_[0])}"
            refuse("`y` must hold at least two classes", got, "Pass rows of each class.", LabelError)
        rng = parse_random_state(self.random_state)
        clusters = parse_groups(groups, labels.shape[0])
        train, held_out = self._split(X, codes, weight, eval_set, None if clusters is None else clusters[1], rng)
        if get_config()["enable_metadata_routing"] and fit_params:
            fit_params = dict(process_routing(self, "fit", **fit_params).estimator.fit)
        self.estimator_ = self._fit_booster(self._get_estimator(), train[:3], fit_params)
        read, k = read_stages(self.estimator_, *held_out[:2]), self.classes_.size
        path = attach_outcomes(read, held_out[1], sample_weight=held_out[2], groups=held_out[3], classes=np.arange(k))
        chosen = select_along(path, loss, self.calibrator, rule, self.cv, 0.95, int(rng.integers(2**31)), self.n_jobs)
        self.selection_: StageSelection = chosen
        self.recalibrated_ = not _has_few(path.sample) and chosen.gain_over_raw.value > 0.0
        self.stage_ = int(chosen.stage if self.recalibrated_ else chosen.raw_stage)
        law = path.laws[int(np.flatnonzero(path.numbers == self.stage_)[0])]
        score = path.sample.by_given_row(law, 1.0 / self.classes_.size)  # a placeholder in rows without weight
        self.calibrator_ = self._fit_map(
            score, held_out[1], held_out[2], self.calibrator if self.recalibrated_ else "identity"
        )
        if self.refit:
            whole = _set_rounds(clone(self._get_estimator()), self.stage_)
            self.estimator_ = self._fit_booster(whole, (X, codes, weight), fit_params)
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
        reader, before = find_reader(self.estimator_)
        law = drop_first_class(np.asarray(reader.law(transform_features(before, X), self.stage_), dtype=np.float64))
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
        law = self.predict_proba(X)  # first, since it refuses a booster that is not fitted
        best: NDArray[Any] = self.classes_[law.argmax(axis=1)]
        return best

    # ── fitting ─────────────────────────────────────────────────────────────────────────────────────

    def _get_estimator(self) -> Any:
        if self.estimator is not None:
            return self.estimator
        from sklearn.ensemble import HistGradientBoostingClassifier

        seed = self.random_state if isinstance(self.random_state, (int, np.integer)) else None
        return HistGradientBoostingClassifier(early_stopping=False, random_state=seed)

    def _split(
        self, X: Any, codes: Any, weight: Any, eval_set: Any, groups: Any, rng: np.random.Generator
    ) -> tuple[Any, Any]:
        """Split into training and held-out rows: features, codes, weights, groups."""
        if eval_set is not None:
            if groups is not None:
                refuse("`groups` must be left out with `eval_set`", "both", "The rows are divided already.")
            return (X, codes, weight, None), self._parse_eval_set(eval_set)
        rule = "a share between 0 and 1"
        share = parse_number(self.validation_fraction, "validation_fraction", rule, lambda v: 0.0 < v < 1.0)
        counts = np.bincount(codes)
        least = 2 if counts.size == 2 else 1
        if np.floor(counts.min() * share) < least or counts.min() * (1.0 - share) < 1.0:
            rare = write_plain(self.classes_[int(counts.argmin())])
            got = f"{codes.size} samples, {counts.min()} of them of class {rare}, of which {share:g} are held out"
            rule = f"held-out rows must hold at least {least} of each class"
            refuse(rule, got, "Pass more rows, or `eval_set`=(X, y).")
        seed = int(rng.integers(2**31))
        parts = split_rows(codes, share, seed) if groups is None else _split_groups(codes, groups, share, least, seed)
        first, second = (
            (take_rows(X, p), codes[p], *(None if one is None else one[p] for one in (weight, groups))) for p in parts
        )
        return first, second

    def _parse_eval_set(self, eval_set: Any) -> tuple[Any, Any, Any, None]:
        """Parse `eval_set`."""
        if self.refit:
            refuse("`refit` must be False with `eval_set`", "True", "Fit on all rows, with `validation_fraction`.")
        rule = "`eval_set` must be (X, y) or (X, y, sample_weight)"
        pairs = isinstance(eval_set, list) and bool(eval_set) and all(isinstance(one, tuple) for one in eval_set)
        if pairs and len(eval_set) > 1:  # boosters would stop by the last one, which is easily overlooked
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
            refuse(rule, write_plain(strange[0]), "Pass rows with the same labels.", LabelError)
        codes = np.array([position[label] for label in labels.tolist()], dtype=np.intp)
        require_rows(count_rows(X), codes.size, "X of eval_set", "y of eval_set")
        return X, codes, parse_weights(rest[0] if rest else None, codes.size, "y of eval_set"), None

    def _fit_booster(self, estimator: Any, part: tuple[Any, Any, Any], fit_params: dict[str, Any]) -> Any:
        """Train a clone of the booster."""
        X, codes, weight = part
        return clone(estimator).fit(X, codes, **_name_weights(estimator, weight), **fit_params)

    def _fit_map(self, score: FloatArray, codes: Any, weight: Any, calibrator: Any) -> Calibrator:
        """Fit the map of the chosen stage."""
        two = self.classes_.size == 2
        fast = isinstance(calibrator, str) and calibrator == "fast"
        unfitted = get_calibrator(FAST[two] if fast else calibrator)
        if fast and two:  # predictions must keep the order of scores
            unfitted.set_params(increasing=True)
        unfitted = unfitted if two or unfitted.multiclass else OneVsRestCalibrator(unfitted)
        fitted: Calibrator = clone(unfitted).set_params(kind="probability").fit(score, codes, sample_weight=weight)
        return fitted

    # ── scikit-learn ────────────────────────────────────────────────────────────────────────────────

    def get_metadata_routing(self) -> MetadataRouter:
        """
        Route metadata to the booster's fit.

        Returns
        -------
        MetadataRouter
            The routing.
        """
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(estimator=self._get_estimator(), method_mapping=to_fit)
        )

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self._get_estimator())
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        return tags


# ── held-out rows, weights and rounds of boosters of all makers ─────────────────────────────────────


def _has_few(sample: Sample) -> bool:
    """Whether the held-out rows are too few for a map; warns if so."""
    rest = sample.n - int(np.bincount(sample.y).max())
    if rest >= _FEW:
        return False
    announce(Finding("few_held_out_rows", n=sample.n, facts={"rest": rest, "enough": _FEW}))
    return True


def split_rows(codes: Any, share: float, seed: int) -> list[NDArray[np.intp]]:
    """Row numbers to train on and to hold out, with the classes in proportion."""
    from sklearn.model_selection import train_test_split

    parts = train_test_split(np.arange(codes.size), test_size=share, stratify=codes, random_state=seed)
    return [np.sort(part) for part in parts]


def _split_groups(codes: Any, groups: Any, share: float, least: int, seed: int) -> list[NDArray[np.intp]]:
    """Split whole groups, drawing up to 20 times until both parts hold every class."""
    from sklearn.model_selection import GroupShuffleSplit

    count = np.unique(groups).size
    if count < 2 or not 1 <= round(count * share) < count:
        refuse("`groups` must be enough to hold some out", f"{count}", "Pass more of them, or `eval_set`=(X, y).")
    k = int(codes.max()) + 1
    draws = GroupShuffleSplit(20, test_size=round(count * share), random_state=seed).split(codes, codes, groups)
    rarest = (([np.bincount(codes[part], minlength=k).min() for part in parts], parts) for parts in draws)
    chosen = next((parts for (train, held_out), parts in rarest if train >= 1 and held_out >= least), None)
    if chosen is None:
        rule = f"held-out groups must hold at least {least} of each class, and the others every class"
        refuse(rule, f"{count} groups that do not", "Pass more groups, or `eval_set`=(X, y).")
    return [np.sort(part) for part in chosen]


def _name_weights(estimator: Any, weight: FloatArray | None) -> dict[str, Any]:
    """Weights under the name of the booster's fit parameter."""
    if weight is None:
        return {}
    key = find_weight_key(estimator)
    if key is None:
        rule, name = "a booster must take `sample_weight` in fit, where there are weights", type(_find_last(estimator))
        refuse(rule, f"{name.__name__}, which does not", "Use another one, or leave the weights out.")
    return {key: weight}


def _find_last(estimator: Any) -> Any:
    """The booster at the end of a pipeline, or itself."""
    while getattr(estimator, "steps", None):
        estimator = estimator.steps[-1][1]
    return estimator


def _set_rounds(estimator: Any, stage: int) -> Any:
    """Set the number of rounds of a booster."""
    inner = _find_last(estimator)
    known = inner.get_params(deep=False)
    name = next((word for word in _ROUNDS if word in known), None)
    if name is None:
        rule = "refit needs a booster with a number of rounds"
        refuse(rule, type(inner).__name__, f"One of {', '.join(_ROUNDS)}; or `refit`=False.")
    inner.set_params(**{name: stage})
    return estimator
