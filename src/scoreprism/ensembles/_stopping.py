"""Callbacks of xgboost and lightgbm that stop when the loss after recalibration no longer falls."""

from __future__ import annotations

from functools import cache
from typing import Any

from scoreprism._core.checks import (
    parse_choice,
    parse_count,
    parse_law,
    parse_number,
    parse_weights,
    refuse,
    require_rows,
)
from scoreprism._core.frames import require_aligned
from scoreprism._core.labels import code_labels, parse_labels
from scoreprism._core.simplex import FloatArray, n_classes
from scoreprism._parameters import Meaning, described
from scoreprism._sample.sample import Sample, drop_absent_rows
from scoreprism._sample.staged_models import LightgbmStages, XgboostStages
from scoreprism.ensembles._stage_selection import Folds, parse_map
from scoreprism.losses import get_loss

#: What a callback watches: the loss after recalibration, or the loss as it is.
CRITERIA = ("refinement", "raw")
#: Options of both callbacks.
_OPTIONS: dict[str, Meaning] = {
    "X_val": ("array-like or frame", "Features of validation rows."),
    "y_val": ("array-like of shape (n,)", "Their labels; all classes must be among them."),
    "rounds": ("int", "Rounds without improvement before stopping."),
    "criterion": ('{"refinement", "raw"}', "Loss after recalibration, or the loss as it is, for comparison."),
    "calibrator": ("str, Calibrator or classifier", "The map, as for `select_stage`."),
    "cv": ("int or splitter", "Folds of the map."),
    "min_delta": ("float", "What counts as improvement."),
    "sample_weight": ("array-like of shape (n,)", "Weights of validation rows."),
}


class Monitor:
    """Common part of both callbacks: evaluate validation rows after each round and decide when to stop."""

    def __init__(self, X_val: Any, y_val: Any, options: dict[str, Any]) -> None:
        super().__init__()
        require_aligned({"X_val": X_val, "y_val": y_val, "sample_weight": options["sample_weight"]})
        self.X_val, self.y_val, self.options = X_val, y_val, options
        self._labels, self._codes = code_labels(parse_labels(y_val, "y_val"), "y_val")
        self._rounds = parse_count(options["rounds"], "rounds", 1)
        self._least = parse_number(options["min_delta"], "min_delta", "a nonnegative number", lambda v: v >= 0.0)
        self._raw = parse_choice(options["criterion"], CRITERIA, "criterion") == "raw"
        self._loss = get_loss(options["loss"])
        self._begin()

    def _begin(self, first: int = 0) -> None:
        """Reset the state before training."""
        self.history: list[float] = []  # the criterion after every round
        self._first, self._best, self._done = first, -1, 0
        self._folds: Folds | None = None
        self._end()

    def _end(self) -> None:
        """Release the model after training; the history stays."""
        self._reader: Any = None
        self._table: Any = None
        self._margin: FloatArray | None = None

    @property
    def best_iteration(self) -> int:
        """The best round, counted from 0."""
        return self._first + self._best

    def _read(self, reader: Any) -> None:
        """Read the rounds of a model, on the validation rows."""
        self._reader, self._table = reader, reader.table(self.X_val)

    def _evaluate(self, done: int, *, adds: bool) -> bool:
        """Evaluate the model after `done` rounds; models that drop or average trees are predicted from scratch."""
        reader = self._reader
        if not adds:
            return self._judge(reader.law(self._table, done))
        if self._margin is None:
            self._margin = reader.whole(self._table, done)
        elif done > self._done:  # lightgbm keeps counting rounds when no tree can be grown any more
            self._margin = reader.next(self._table, done, self._margin)
        self._done = done
        return self._judge(reader.link(self._margin))

    def _judge(self, law: FloatArray) -> bool:
        """Record the loss of the next round; True if the best is `rounds` rounds old."""
        law = parse_law(law, "the booster's prediction of X_val")
        folds = self._folds = self._folds or self._deal(law)
        law = law[self._used]
        used = law if self._raw else folds.recalibrate(law, self._learner)
        value = folds.mean(self._loss.loss(used, folds.codes))
        if self._best < 0 or value < self.history[self._best] - self._least:
            self._best = len(self.history)
        self.history.append(value)
        return len(self.history) - 1 - self._best >= self._rounds

    def _deal(self, law: FloatArray) -> Folds:
        """Deal folds, once the number of classes is known from the booster."""
        n, k = law.shape[0], n_classes(law)
        require_rows(n, self._codes.size, "X_val", "y_val")
        if self._labels.size != k:
            remedy = "Validate on rows in which each class occurs."
            refuse("`y_val` must hold every class of the booster", f"{self._labels.size} of {k}", remedy)
        weight = parse_weights(self.options["sample_weight"], n)
        sample = drop_absent_rows(Sample(self._codes, {"booster": law}, self._labels, weight))
        self._used = slice(None) if sample.kept is None else sample.kept
        self._learner = parse_map(self.options["calibrator"], k)
        return Folds.of(sample, None, self.options["cv"], self.options["random_state"])


class XgboostMonitor(Monitor):
    """The hooks of xgboost's TrainingCallback, from which the callback class derives once xgboost is imported."""

    def before_training(self, model: Any) -> Any:
        self._begin()
        return model

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        if type(model).__name__ != "Booster":
            refuse("refinement stopping must be used with xgboost.train or fit", "xgboost.cv", "Use train.")
        done = int(model.num_boosted_rounds())
        if self._reader is None:
            reader = XgboostStages(model)
            self._read(reader)
            self._adds = reader.grower != "dart"
            self._first = done - 1
        stop = self._evaluate(done, adds=self._adds)
        self._note(model)
        return stop

    def _note(self, model: Any) -> None:
        """Set the booster attributes that xgboost's own early stopping sets."""
        model.set_attr(best_score=str(self.history[self._best]), best_iteration=str(self.best_iteration))

    def after_training(self, model: Any) -> Any:
        self._end()
        if not self.options["save_best"]:
            return model
        best = model[: self.best_iteration + 1]  # a slice loses the attributes
        self._note(best)
        return best

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.X_val, self.y_val, self.options)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return _restore(self.X_val, self.y_val, self.options)


@cache
def _make_xgboost_class() -> Any:
    """The callback class, created when xgboost can be imported."""
    from xgboost.callback import TrainingCallback

    return type("XgboostRefinementStopping", (XgboostMonitor, TrainingCallback), {"__module__": __name__})


def _restore(X_val: Any, y_val: Any, options: dict[str, Any]) -> Any:
    """Restore a callback from its pickle, in its initial state."""
    return _make_xgboost_class()(X_val, y_val, options)


@described(of_two=False, **_OPTIONS)
def xgboost_refinement_stopping(
    X_val: Any,
    y_val: Any,
    *,
    rounds: int = 10,
    criterion: str = "refinement",
    loss: Any = "log",
    calibrator: object = "fast",
    cv: object = 5,
    min_delta: float = 0.0,
    sample_weight: Any = None,
    save_best: bool = False,
    random_state: object = 0,
) -> Any:
    """
    Early stopping of xgboost by the loss after recalibration.

    The callback predicts the validation rows after every round (one round's trees at a time), recalibrates them by
    cross-fitting, and stops when the loss has not improved for `rounds` rounds. It sets ``best_iteration`` and
    ``best_score`` of the booster, as xgboost's own early stopping does, so that ``XGBClassifier`` predicts with it.
    The model is left uncalibrated: fit a map on the validation rows next, for example `PlattCalibrator`.

    Parameters
    ----------
    X_val : array-like, frame or DMatrix
        Features of validation rows.
    save_best : bool, default=False
        Cut the booster off after the best round.

    Returns
    -------
    xgboost.callback.TrainingCallback
        With ``history`` and ``best_iteration``.

    Examples
    --------
    >>> from sklearn.datasets import make_hastie_10_2
    >>> X, y = make_hastie_10_2(1000, random_state=0)
    >>> y = (y > 0).astype(int)
    >>> stop = xgboost_refinement_stopping(X[500:], y[500:], rounds=5)
    >>> import xgboost
    >>> model = xgboost.XGBClassifier(n_estimators=50, learning_rate=0.5, callbacks=[stop]).fit(X[:500], y[:500])
    >>> model.best_iteration == stop.best_iteration
    True
    """
    if not isinstance(save_best, bool):
        refuse("`save_best` must be True or False", repr(save_best), "Pass one of these.")
    options = {
        "rounds": rounds, "criterion": criterion, "loss": loss, "calibrator": calibrator, "cv": cv,
        "min_delta": min_delta, "sample_weight": sample_weight, "save_best": save_best, "random_state": random_state,
    }  # fmt: skip
    return _make_xgboost_class()(X_val, y_val, options)


class LightgbmRefinementStopping(Monitor):
    """
    Stops training of lightgbm when the loss after recalibration has not improved for some rounds.

    Made by `lightgbm_refinement_stopping`.

    Parameters
    ----------
    X_val : array-like or frame
        Features of validation rows.
    y_val : array-like of shape (n,)
        Their labels.
    options : dict
        Options of `lightgbm_refinement_stopping`.

    Attributes
    ----------
    history : list of float
        The criterion after every round.
    best_iteration : int
        The best round, counted from 0.

    Examples
    --------
    >>> lightgbm_refinement_stopping([[0.0], [1.0]], [0, 1], rounds=3).history
    []
    """

    order = 30
    before_iteration = False

    def __call__(self, env: Any) -> None:
        """Evaluate the model after a round."""
        from lightgbm.callback import EarlyStopException

        if type(env.model).__name__ == "CVBooster":
            refuse("refinement stopping must be used with lightgbm.train or fit", "lightgbm.cv", "Use train.")
        if env.iteration == env.begin_iteration:
            self._begin(env.iteration)
            self._read(LightgbmStages(env.model))
        kind = env.params.get("boosting", env.params.get("boosting_type", "gbdt"))
        stop = self._evaluate(int(env.model.current_iteration()), adds=kind == "gbdt")
        if stop or env.iteration == env.end_iteration - 1:
            self._end()
            raise EarlyStopException(self.best_iteration, env.evaluation_result_list or [])


@described(of_two=False, **_OPTIONS)
def lightgbm_refinement_stopping(
    X_val: Any,
    y_val: Any,
    *,
    rounds: int = 10,
    criterion: str = "refinement",
    loss: Any = "log",
    calibrator: object = "fast",
    cv: object = 5,
    min_delta: float = 0.0,
    sample_weight: Any = None,
    random_state: object = 0,
) -> LightgbmRefinementStopping:
    """
    Early stopping of lightgbm by the loss after recalibration.

    As `xgboost_refinement_stopping`; it sets ``best_iteration`` as lightgbm's own ``early_stopping`` does, and leaves
    the model uncalibrated.

    Returns
    -------
    callable
        For ``callbacks=[…]`` of ``lightgbm.train`` or ``LGBMClassifier.fit``; with ``history`` and
        ``best_iteration``.

    Examples
    --------
    >>> from sklearn.datasets import make_hastie_10_2
    >>> X, y = make_hastie_10_2(1000, random_state=0)
    >>> stop = lightgbm_refinement_stopping(X[500:], y[500:], rounds=5)
    >>> import lightgbm
    >>> model = lightgbm.LGBMClassifier(n_estimators=50, learning_rate=0.5, verbose=-1)
    >>> model.fit(X[:500], y[:500], callbacks=[stop]).best_iteration_ == stop.best_iteration + 1
    True
    """
    options = {
        "rounds": rounds, "criterion": criterion, "loss": loss, "calibrator": calibrator, "cv": cv,
        "min_delta": min_delta, "sample_weight": sample_weight, "random_state": random_state,
    }  # fmt: skip
    return LightgbmRefinementStopping(X_val, y_val, options)
