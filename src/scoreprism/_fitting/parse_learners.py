"""What a chain is fitted with: candidate maps for Ĉ and a reference for the levels above it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import has_fit_parameter

from scoreprism._core.checks import parse_choice, refuse
from scoreprism._core.simplex import FloatArray, IntArray, as_columns
from scoreprism._core.workers import limit_threads
from scoreprism._fitting.crossfit import Partitions
from scoreprism._learners.members import predict_foreign
from scoreprism._maps.parts import Map
from scoreprism._sample.batch import Batch
from scoreprism._sample.fit_rows import FitRows
from scoreprism._spelling import mark
from scoreprism.calibrators import (
    CALIBRATORS,
    Calibrator,
    IsotonicCalibrator,
    KernelCalibrator,
    MatrixScalingCalibrator,
    NaturalSplineCalibrator,
    PlattCalibrator,
    PolynomialCalibrator,
    SelectedCalibrator,
    StructuredMatrixCalibrator,
    TemperatureCalibrator,
    TreeCalibrator,
    VectorScalingCalibrator,
    get_calibrator,
)
from scoreprism.exceptions import ScoreprismError
from scoreprism.references import MEMBERS, StackedReference


@dataclass(frozen=True)
class OwnMap:
    """One of our calibrators, as cross-fitting sees it."""

    name: str
    calibrator: Calibrator

    def share(self, data: FitRows) -> OwnMap:
        """With what the folds of one data set share."""
        return OwnMap(self.name, self.calibrator._share_choices(data))

    def fit(self, data: FitRows) -> Map:
        """The map fitted on some rows."""
        with limit_threads():  # products of a fit are small: waking other threads costs more
            return copy(self.calibrator)._fit(data)

    def fit_many(self, batch: Batch, data: FitRows, partitions: Partitions | None) -> FloatArray:
        """The laws of many training sets at the centers of their cells, (M, G)."""
        with limit_threads():
            if partitions is None or not self.calibrator._deals_rows:  # of lines that are sums, rows are not known
                return self.calibrator._fit_many(batch)
            return self.calibrator._fit_many_rows(batch, _list_training_parts(data, partitions))


@dataclass(frozen=True)
class ForeignMap:
    """A classifier of scikit-learn's kind whose features are the score."""

    name: str
    estimator: Any

    def share(self, data: FitRows) -> ForeignMap:
        """Nothing is shared."""
        return self

    def fit(self, data: FitRows) -> Map:
        """The classifier fitted on some rows, as a map."""
        fitted = fit_foreign(self.estimator, as_columns(data.score), data.codes, data.weight, (0,))
        return lambda score: predict_foreign(fitted, as_columns(score), data.k, data.codes.shape[0])

    def fit_many(self, batch: Batch, data: FitRows, partitions: Partitions | None) -> FloatArray:
        """Fitted to rows, one training set after the other; evaluated at the centers."""
        assert partitions is not None  # noqa: S101 - sums refuse classifiers of other makers
        return np.stack([self.fit(part)(batch.center) for part in _list_training_parts(data, partitions)])


@dataclass(frozen=True)
class Refinement:
    """
    A candidate of several classes that starts from the mixture of the others, in random folds only.

    "shifts" moves it locally, class by class, because several classes need jumps too; "boosting" is started at it, on
    ratios of the probabilities.
    """

    name: str


def _list_training_parts(data: FitRows, partitions: Partitions) -> list[FitRows]:
    """The rows of every training set, partition by partition."""
    plans = [partitions.plan(p) for p in range(len(partitions.home))]
    return [data.part(rows) for plan in plans for rows in plan.trains]


#: What helps against a classifier that cannot read its features.
_ENCODED = "Encode them in a pipeline, or use reference='auto', which takes categories and missing values."


def fit_foreign(
    estimator: Any,
    table: Any,
    codes: IntArray,
    weight: FloatArray | None,
    seed: Sequence[int],
    remedy: str = _ENCODED,
) -> Any:
    """A copy of a classifier, fitted on class codes; whatever is random in it and has no seed gets one."""
    fitted = clone(estimator)
    open_ = [name for name, value in fitted.get_params().items() if name.endswith("random_state") and value is None]
    if open_:
        number = int(np.random.default_rng(seed).integers(2**31))
        fitted.set_params(**dict.fromkeys(open_, number))
    try:
        return _fit(fitted, table, codes, weight)
    except (ScoreprismError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - any error of a foreign estimator becomes an InputError
        refuse(
            f"{type(estimator).__name__} must be able to learn from these features",
            f"its own error: {error}",
            remedy,
        )


def _fit(fitted: Any, table: Any, codes: IntArray, weight: FloatArray | None) -> Any:
    if weight is None:
        return fitted.fit(table, codes)
    key = find_weight_key(fitted)
    if key is None:
        refuse(
            "a classifier must take `sample_weight` in fit, where there are weights",
            f"{type(fitted).__name__}, which does not",
            "Use another one, or leave the weights out.",
        )
    return fitted.fit(table, codes, **{key: weight})


def find_weight_key(estimator: Any) -> str | None:
    """The argument of ``fit`` that takes sample weights, also at the end of a pipeline and inside a search."""
    if getattr(estimator, "steps", None):
        name, last = estimator.steps[-1]
        inner = find_weight_key(last)
        return None if inner is None else f"{name}__{inner}"
    if has_fit_parameter(estimator, "sample_weight"):
        return "sample_weight"
    passes_on = any(p.kind is p.VAR_KEYWORD for p in signature(estimator.fit).parameters.values())
    return find_weight_key(estimator.estimator) if passes_on and hasattr(estimator, "estimator") else None


#: A learner of C.
MapLearner = OwnMap | ForeignMap

#: Maps that diagnosis mixes for Ĉ, by whether there are two classes. C may have any shape, so these may reverse the
#: order, as a map to deploy must not; and the identity is missing, for where it wins intervals collapse.
DIAGNOSIS: dict[bool, tuple[Calibrator, ...]] = {
    True: (
        PlattCalibrator(),
        NaturalSplineCalibrator(),
        IsotonicCalibrator(),
        KernelCalibrator(bandwidth="under"),
        TreeCalibrator(),
    ),
    False: (
        TemperatureCalibrator(),
        VectorScalingCalibrator(),
        MatrixScalingCalibrator(),
        StructuredMatrixCalibrator(),
        PolynomialCalibrator(),
    ),
}


#: Words for the candidates of diagnosis; "flexible" adds boosting for several classes.
AUTOMATIC = ("auto", "flexible")


def parse_calibrator(calibrator: object, k: int, n: int = sys.maxsize) -> list[MapLearner]:
    """Candidates for Ĉ of k classes: those of diagnosis that n rows support, of a chooser, or one map of the user."""
    automatic = isinstance(calibrator, str) and calibrator in AUTOMATIC
    if automatic:
        chosen = [one for one in DIAGNOSIS[k == 2] if one._is_tried(k, n)]
    elif isinstance(calibrator, SelectedCalibrator) or (isinstance(calibrator, str) and calibrator == "selected"):
        chooser = calibrator if isinstance(calibrator, SelectedCalibrator) else SelectedCalibrator()
        chosen = [one._parse_parameters() for one in chooser.named_candidates(k, n=n).values()]
        if isinstance(chooser.candidates, str) and chooser.candidates == "auto":
            chosen = [one for one in chosen if one.name != "identity"]  # for deployment only
    elif isinstance(calibrator, str):
        chosen = [
            get_calibrator(parse_choice(calibrator, (*AUTOMATIC, *CALIBRATORS), "calibrator"))._parse_parameters()
        ]
    elif isinstance(calibrator, Calibrator):
        chosen = [calibrator._parse_parameters()]
    else:
        return [ForeignMap(type(calibrator).__name__, _parse_classifier(calibrator, "calibrator", CALIBRATORS))]
    for one in chosen:
        if k > 2 and not one.multiclass:
            remedy = f"Use OneVsRestCalibrator({type(one).__name__}()), or leave it out."
            refuse(f"`calibrator` must take {k} classes", one.name, remedy)
    candidates: list[MapLearner] = []
    for one in chosen:
        twins = sum(1 for other in candidates if other.name.partition(" ")[0] == one.name)
        name = one.name if not twins else f"{one.name} {twins + 1}"
        candidates.append(OwnMap(name, clone(one).set_params(kind="probability")))
    if automatic and k > 2:
        names = ("shifts", "boosting") if calibrator == "flexible" else ("shifts",)
        candidates += [Refinement(name) for name in names]  # type: ignore[misc]
    return candidates


def _parse_classifier(value: object, name: str, table: dict[str, Any]) -> Any:
    """Parse a classifier: anything that can be cloned and fitted and predicts probabilities."""
    rule = f"{mark(name)} must be one of {', '.join(table)}, or a classifier with fit and predict_proba"
    if isinstance(value, type):
        refuse(rule, f"the class {value.__name__}", f"Pass {value.__name__}().")
    if not (hasattr(value, "fit") and hasattr(value, "predict_proba") and hasattr(value, "get_params")):
        refuse(rule, f"{value!r}"[:80], "For example 'auto'.")
    if hasattr(value, "__sklearn_tags__") and not is_classifier(value):
        refuse(rule, f"{type(value).__name__}, which is no classifier", "For example 'auto'.")
    return value


def parse_reference(reference: object) -> Any:
    """The stack, one of its members, or a classifier."""
    if isinstance(reference, StackedReference):
        return reference
    if isinstance(reference, str):
        if reference in ("auto", "stack"):
            return StackedReference()
        return StackedReference((parse_choice(reference, MEMBERS, "reference"),))
    return _parse_classifier(reference, "reference", {"auto": None, **MEMBERS})
