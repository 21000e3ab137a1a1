"""What is compared over repeated splits: models as they are, and ensembles made of them."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.arrays import parse_law
from scoreprism._core.checks import listed, parse_choice, plain, refuse
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._fitting.learners import fit_foreign
from scoreprism._sample.scores import count_rows
from scoreprism.ensembles import COMBINERS, Combiner, Stacking, average, log_pool
from scoreprism.exceptions import ScoreprismError, ScoreprismWarning

#: Ensembles with a name: pools by a fixed rule, and what makes a combiner; stacking is the paper's, on probabilities.
ENSEMBLES: dict[str, Callable[..., Any]] = {
    "average": average,
    "log-pool": log_pool,
    **COMBINERS,
    "stacking": partial(Stacking, on="probability"),
}
_FIXED = ("average", "log-pool")

#: From the scores of the members, (n, M) or (n, M, K), to a law.
Pool = Callable[[FloatArray], FloatArray]

_ENCODE = "Encode categories and missing values in a pipeline, or use another model."


@dataclass(frozen=True)
class Combining:
    """How an ensemble is made: a pool that learns nothing, or a classifier that learns from the members' scores."""

    name: str
    pool: Pool | None
    learner: Any = None

    @property
    def learns(self) -> bool:
        """Whether it has to see outcomes."""
        return self.learner is not None

    def fitted(self, scores: FloatArray, codes: IntArray, weight: FloatArray | None, k: int, seed: int) -> Pool:
        """The pool, after it has learned from the rows set aside for it."""
        if self.pool is not None:
            return self._checked(self.pool, k)
        columns = partial(as_features, self.learner)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ScoreprismWarning)  # of a single split
            member = fit_foreign(self.learner, columns(scores), codes, weight, (seed, key_of(self.name)), _ENCODE)
        return lambda new: read_law(member, columns(new), np.arange(k), self.name)

    def _checked(self, pool: Pool, k: int) -> Pool:
        def law_of(scores: FloatArray) -> FloatArray:
            law = parse_law(pool(scores), f"the ensemble {self.name!r}")
            wanted = (scores.shape[0],) if k == 2 else (scores.shape[0], k)
            if k == 2 and law.shape == (scores.shape[0], 2):
                law = law[:, 1]
            if law.shape != wanted:
                refuse(
                    f"the ensemble {self.name!r} must return shape {wanted}", f"{law.shape}", "Correct the function."
                )
            return law

        return law_of


def pooled(rule: Callable[..., FloatArray], scores: FloatArray) -> FloatArray:
    """A pool of scikit-learn-like columns: members come second."""
    return rule(list(np.moveaxis(scores, 1, 0)))


def as_features(learner: Any, scores: FloatArray) -> FloatArray:
    """Members' scores as columns: all classes for our own combiners, else all but the first, which the others imply."""
    first = 0 if isinstance(learner, Combiner) else 1
    return scores if scores.ndim == 2 else scores[:, :, first:].reshape(scores.shape[0], -1)


def key_of(name: str) -> int:
    """A number for a name, so that what is random in a method depends neither on its place nor on the others."""
    return zlib.crc32(name.encode())


def parse_estimators(models: object) -> dict[str, Any]:
    """Classifiers by name, not fitted."""
    remedy = "For example {'logistic': LogisticRegression(), 'forest': RandomForestClassifier()}."
    if not isinstance(models, Mapping) or not models:
        refuse("`models` must be a mapping from names to classifiers, at least one", plain(models)[:80], remedy)
    for name, model in models.items():
        if not isinstance(name, str) or not name:
            refuse("the name of a model must be a word", plain(name), remedy)
        rule = f"model {name!r} must be a classifier with fit, predict_proba and get_params"
        if isinstance(model, type):
            refuse(rule, f"the class {model.__name__}", f"Pass {model.__name__}().")
        if not all(hasattr(model, method) for method in ("fit", "predict_proba", "get_params")):
            refuse(rule, f"{model!r}"[:80], remedy)
    return dict(models)


def parse_ensembles(ensembles: object, models: Sequence[str]) -> dict[str, Combining]:
    """Ensembles by name."""
    if isinstance(ensembles, str):
        ensembles = (ensembles,)
    if not isinstance(ensembles, (Mapping, Sequence)):
        remedy = "For example ('average', 'stacking')."
        refuse("`ensembles` must be names, or a mapping from names to ensembles", plain(ensembles)[:80], remedy)
    asked = dict(ensembles) if isinstance(ensembles, Mapping) else {one: one for one in map(_named, ensembles)}
    taken = [name for name in asked if name in models]
    if taken:
        refuse("`ensembles` and `models` must have different names", listed(map(repr, taken)), "Rename the model.")
    return {name: _combining(name, kind) for name, kind in asked.items()} if len(models) > 1 else {}


def _named(ensemble: object) -> str:
    return parse_choice(ensemble, ENSEMBLES, "each of ensembles")


def _combining(name: object, kind: Any) -> Combining:
    if not isinstance(name, str) or not name:
        refuse("the name of an ensemble must be a word", plain(name), "For example {'mean': 'average'}.")
    if isinstance(kind, str):
        made = ENSEMBLES[_named(kind)]
        return Combining(name, partial(pooled, made)) if kind in _FIXED else Combining(name, None, made())
    if all(hasattr(kind, method) for method in ("fit", "predict_proba", "get_params")):
        return Combining(name, None, kind)
    if not callable(kind) or isinstance(kind, type):
        rule = f"ensemble {name!r} must be one of {', '.join(ENSEMBLES)}, a function of scores, or a classifier"
        refuse(rule, f"{kind!r}"[:80], "For example 'stacking'.")
    return Combining(name, kind)


def fit_model(model: Any, X: Any, labels: NDArray[Any], weight: FloatArray | None, seed: Sequence[int]) -> Any:
    """A copy of a model, fitted on labels as they came; what is random in it and has no seed gets one."""
    return fit_foreign(model, X, labels, weight, seed, _ENCODE)


def read_law(fitted: Any, X: Any, classes: NDArray[Any], name: str) -> FloatArray:
    """Probabilities of all classes in order, (n,) for two."""
    try:
        law = parse_law(fitted.predict_proba(X), f"predict_proba of {name!r}")
    except (ScoreprismError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever another maker's code raises is told in our words
        refuse(f"{name!r} must be able to score rows it was not fitted on", f"its own error: {error}", _ENCODE)
    if law.shape[0] != count_rows(X):
        found = f"{law.shape[0]} rows for {count_rows(X)}"
        refuse(f"predict_proba of {name!r} must give one row per case", found, "Use another model.")
    columns = np.asarray(getattr(fitted, "classes_", np.sort(classes))).tolist()
    if law.ndim == 1 and len(classes) == 2:
        law = np.column_stack([1.0 - law, law])
    if law.ndim != 2 or law.shape[1] != len(columns) or set(columns) != set(classes.tolist()):
        found = f"shape {law.shape} for the classes {columns}"
        refuse(f"predict_proba of {name!r} must give a column for each class", found, "Use another model.")
    ordered = law[:, [columns.index(label) for label in classes.tolist()]]
    return np.ascontiguousarray(ordered[:, 1]) if len(classes) == 2 else np.ascontiguousarray(ordered)
