"""Fitted models that can say what they said after each stage: one table of readers, one per maker."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, softmax

from scoreprism._core.checks import refuse
from scoreprism._core.frames import backend_of, column_names
from scoreprism._core.simplex import FloatArray
from scoreprism.exceptions import ScoreprismError

#: Sums of single trees may differ from a whole prediction by rounding only; by more, and they are not used.
_ROUNDING = 1e-4


class StagedModel(ABC):
    """A fitted model whose stages can be read: the law after every stage, or after one."""

    def __init__(self, model: Any) -> None:
        self.model = model
        labels = getattr(model, "classes_", None)
        self.labels: tuple[Any, ...] | None = None if labels is None else tuple(np.asarray(labels).tolist())

    @abstractmethod
    def laws(self, X: Any) -> Iterator[FloatArray]:
        """The law after stage 1, 2, …."""

    @abstractmethod
    def law(self, X: Any, stage: int) -> FloatArray:
        """The law after one stage."""


class ScikitStages(StagedModel):
    """Anything with ``staged_predict_proba``: scikit-learn's boosting, CatBoost, models in their manner."""

    def laws(self, X: Any) -> Iterator[FloatArray]:
        yield from self.model.staged_predict_proba(X)

    def law(self, X: Any, stage: int) -> FloatArray:
        found: FloatArray = next(islice(self.laws(X), stage - 1, None))
        return found


class Additive(StagedModel):
    """A booster whose margins are sums over rounds: each stage adds the trees of one round to the last."""

    count: int
    _link: Callable[[FloatArray], FloatArray]

    @abstractmethod
    def whole(self, X: Any, stage: int) -> FloatArray:
        """The margin after a stage, predicted at once."""

    @abstractmethod
    def next(self, X: Any, stage: int, margin: FloatArray | None) -> FloatArray:
        """The margin after a stage, from that of the stage before (None before the first)."""

    def table(self, X: Any) -> Any:
        """The features as the library takes them, made once."""
        return X

    def linked(self, margin: FloatArray) -> FloatArray:
        """The law of a margin."""
        return self._link(np.asarray(margin, dtype=np.float64))

    def law(self, X: Any, stage: int) -> FloatArray:
        return self.linked(self.whole(self.table(X), stage))

    def laws(self, X: Any) -> Iterator[FloatArray]:
        """
        The law after every stage.

        One round at a time where the sum of rounds is what the model predicts, which the last stage shows; else (trees
        that are dropped or averaged) a prediction for each stage.
        """
        table = self.table(X)
        found: list[FloatArray] = []
        margin = None
        for stage in range(1, self.count + 1):
            margin = self.next(table, stage, margin)
            found.append(self.linked(margin))
        if np.allclose(found[-1], self.law(table, self.count), rtol=0.0, atol=_ROUNDING):
            yield from found
        else:
            yield from (self.law(table, stage) for stage in range(1, self.count + 1))

    def _require_rounds(self) -> None:
        if self.count < 1:
            refuse("a booster must have at least one round", "none", "Fit it first.")


def _row_softmax(margin: FloatArray) -> FloatArray:
    law: FloatArray = softmax(margin, axis=1)
    return law


class XgboostStages(Additive):
    """xgboost's Booster and XGBClassifier, by ``iteration_range``."""

    _links: ClassVar[dict[str, Callable[[FloatArray], FloatArray]]] = {
        "binary:logistic": expit,
        "binary:logitraw": expit,
        "reg:logistic": expit,
        "multi:softprob": _row_softmax,
        "multi:softmax": _row_softmax,
    }

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self._booster = model.get_booster() if hasattr(model, "get_booster") else model
        config = json.loads(self._booster.save_config())["learner"]
        self.grower = str(config["gradient_booster"]["name"])
        if self.grower == "gblinear":
            refuse("stages of xgboost must be trees", "booster='gblinear'", "Pass checkpoints as a list of models.")
        name = config["objective"]["name"]
        if name not in self._links:
            refuse(f"the objective of xgboost must be one of {', '.join(self._links)}", name, "Pass probabilities.")
        self._link = self._links[name]
        self.count = int(self._booster.num_boosted_rounds())
        self._require_rounds()

    def table(self, X: Any) -> Any:
        import xgboost

        if self._booster is not self.model or isinstance(X, xgboost.DMatrix):
            return X
        names = None if column_names(X) is not None else self._booster.feature_names
        return xgboost.DMatrix(X, feature_names=names, enable_categorical=True)

    def whole(self, X: Any, stage: int) -> FloatArray:
        return self._predict(X, (0, stage), None)

    def next(self, X: Any, stage: int, margin: FloatArray | None) -> FloatArray:
        return self._predict(X, (stage - 1, stage), margin)

    def _predict(self, table: Any, rounds: tuple[int, int], margin: FloatArray | None) -> FloatArray:
        if self._booster is not self.model:  # the classifier knows how it reads missing values and categories
            law = self.model.predict(table, output_margin=True, iteration_range=rounds, base_margin=margin)
            return np.asarray(law)
        kept = table.get_base_margin()
        if margin is not None:
            table.set_base_margin(margin)
        try:
            return np.asarray(self._booster.predict(table, output_margin=True, iteration_range=rounds))
        finally:
            if margin is not None:
                table.set_base_margin(kept)


class LightgbmStages(Additive):
    """lightgbm's Booster and LGBMClassifier, by ``num_iteration``."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self._booster = model.booster_ if hasattr(model, "booster_") else model
        self.count = int(self._booster.current_iteration())
        self._require_rounds()
        words = str(self._booster.dump_model(num_iteration=1).get("objective", "custom")).split()
        options = dict(word.partition(":")[::2] for word in words[1:])
        if words[0] in ("binary", "cross_entropy"):
            steep = float(options.get("sigmoid", 1.0))
            self._link = lambda margin: expit(steep * margin)
        elif words[0] == "multiclass":
            self._link = _row_softmax
        else:
            rule = "the objective of lightgbm must be binary, cross_entropy or multiclass"
            refuse(rule, words[0], "Pass probabilities.")

    def table(self, X: Any) -> Any:
        return X.to_numpy() if backend_of(X) == "polars" else X

    def whole(self, X: Any, stage: int) -> FloatArray:
        return np.asarray(self._booster.predict(X, num_iteration=stage, raw_score=True))

    def next(self, X: Any, stage: int, margin: FloatArray | None) -> FloatArray:
        more = np.asarray(self._booster.predict(X, start_iteration=stage - 1, num_iteration=1, raw_score=True))
        return more if margin is None else margin + more

    def law(self, X: Any, stage: int) -> FloatArray:  # lightgbm's own: raw scores of a random forest are not averaged
        return np.asarray(self._booster.predict(self.table(X), num_iteration=stage))


def _made_by(model: Any, maker: str) -> bool:
    """Whether a model is, or derives from, a class of a library."""
    return any(kind.__module__.partition(".")[0] == maker for kind in type(model).__mro__)


#: How the stages of a fitted model are read, tried in this order.
READERS: tuple[tuple[Callable[[Any], bool], type[StagedModel]], ...] = (
    (lambda model: hasattr(model, "staged_predict_proba"), ScikitStages),
    (lambda model: _made_by(model, "xgboost") and hasattr(model, "predict"), XgboostStages),
    (lambda model: _made_by(model, "lightgbm") and hasattr(model, "predict"), LightgbmStages),
)

#: What wraps a model that has stages: a search, a frozen estimator, a wrapper of our own.
_WRAPPERS = ("best_estimator_", "estimator_", "estimator")


def staged_model(model: Any, rule: str = "a model with stages must be a booster") -> tuple[StagedModel, Any]:
    """The reader of a model's stages, and what turns features into those the model takes."""
    before: list[Any] = []
    inner = model
    while (reader := next((kind for recognises, kind in READERS if recognises(inner)), None)) is None:
        if getattr(inner, "steps", None):
            before.append(inner[:-1])
            inner = inner.steps[-1][1]
            continue
        inner = next((getattr(inner, name) for name in _WRAPPERS if getattr(inner, name, None) is not None), None)
        if inner is None:
            remedy = (
                "It needs staged_predict_proba, or to be of xgboost or lightgbm; or pass the stages' probabilities."
            )
            refuse(rule, f"{type(model).__name__}", remedy)
    return in_our_words(inner, partial(reader, inner)), before


def transformed(before: list[Any], X: Any) -> Any:
    """The features after the first steps of pipelines."""
    for steps in before:
        X = steps.transform(X) if len(steps) else X
    return X


def in_our_words(model: Any, call: Callable[[], Any]) -> Any:
    """Call another maker's code; its errors are told in our words."""
    from sklearn.exceptions import NotFittedError

    name = type(model).__name__
    try:
        return call()
    except NotFittedError as error:
        refuse("a model with stages must be fitted", str(error).rstrip("."), "Fit it on other rows first.")
    except (ScoreprismError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever another maker's code raises is told in our words
        said = str(error).strip().partition("\n")[0].rstrip(".")
        if isinstance(error, TypeError):
            raise TypeError(f"{name} must be able to score X; {said}. Pass what it was fitted on.") from None
        refuse(f"{name} must be able to score `X`", f"its own error: {said}", "Pass what it was fitted on.")
