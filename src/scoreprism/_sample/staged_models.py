"""Stages of a model in every form they may come in: scores, laws, generators, checkpoints, fitted boosters."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from scoreprism._core.checks import is_hard, parse_law, refuse, require_rows
from scoreprism._core.frames import backend_of, column_names, require_aligned
from scoreprism._core.labels import GivenLaw, parse_labels
from scoreprism._core.numerics import softmax
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray, n_classes, narrow_law
from scoreprism._findings.finding import Finding, announce, collect_findings
from scoreprism._sample.fit_rows import warn_of_reversed_scores
from scoreprism._sample.level import Level
from scoreprism._sample.models import apply_model, find_double_use
from scoreprism._sample.sample import Sample
from scoreprism.exceptions import ScoreprismError

#: Sums of single trees may differ from a whole prediction by rounding only; by more, and they are not used.
_ROUNDING = 1e-4
_REMEDY = "For example list(model.staged_predict_proba(X)), or {1: p1, 10: p10}."


# ── stages, as they come ────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Stages:
    """Numbers of stages, ascending (integers where all are whole), and the law of each, parsed one by one."""

    numbers: NDArray[Any]
    laws: list[GivenLaw]
    labels: tuple[Any, ...] | None = None
    levels: tuple[Level, ...] = ()
    findings: tuple[Finding, ...] = ()
    backend: str | None = None
    rows: Mapping[str, Any] = field(default_factory=dict)  # what came in by the row, for its index
    sample: Sample | None = None  # where stages came as the predictions of one

    @property
    def is_known(self) -> bool:
        """Whether these are laws, of which nothing has to be fitted."""
        return bool(self.levels)


@dataclass(frozen=True)
class StagePath:
    """The stages of a model on the rows of a sample, whose predictions they are: (n,) for two classes."""

    numbers: NDArray[Any]
    sample: Sample
    findings: tuple[Finding, ...] = ()

    @property
    def laws(self) -> list[FloatArray]:
        """The law of each stage."""
        return list(self.sample.predictions.values())

    @property
    def stages(self) -> list[Sample]:
        """Each stage by itself."""
        alone = replace(self.sample, X=None, levels=())
        return [alone.model(name) for name in self.sample.predictions]


def number_stages(stages: Any) -> tuple[FloatArray, list[Any]]:
    """Numbers of stages, ascending, and the stage that belongs to each."""
    if isinstance(stages, Mapping):
        try:
            numbers = np.array([float(number) for number in stages])
        except (TypeError, ValueError):
            refuse("`stages` must be numbered", f"{list(stages)[:3]}", _REMEDY)
        parts = list(stages.values())
    elif isinstance(stages, Sequence) and not isinstance(stages, str) and len(stages) and _is_stage(stages[0]):
        parts = list(stages)
        numbers = np.arange(1.0, len(parts) + 1.0)
    else:
        refuse("`stages` must be a mapping or a sequence of probabilities", type(stages).__name__, _REMEDY)
    if not parts or not np.isfinite(numbers).all() or np.unique(numbers).size < numbers.size:
        refuse("`stages` must have different finite numbers, at least one", f"{numbers[:5].tolist()}", _REMEDY)
    order = np.argsort(numbers)
    return numbers[order], [parts[i] for i in order]


def _is_stage(value: Any) -> bool:
    """Scores, a law, a checkpoint: not a single number."""
    return isinstance(value, (Level, list, tuple)) or _is_checkpoint(value) or np.ndim(value) > 0


def _is_checkpoint(value: Any) -> bool:
    return hasattr(value, "predict_proba") or callable(value)


def has_stages(model: Any) -> bool:
    """Whether an object is a fitted model, whose stages have to be read with features."""
    if isinstance(model, (Mapping, Sequence, np.ndarray)):
        return False
    return any(recognises(model) for recognises, _ in READERS) or hasattr(model, "predict_proba")


def parse_stages(y_true: Any, stages: Any, X: ArrayLike | None = None) -> Stages:
    """The stages beside outcomes, or those that a Sample in place of the outcomes holds."""
    if isinstance(y_true, Sample):
        if stages is not None:
            refuse("a Sample holds its stages already", "`stages` beside it", "Pass the Sample alone.")
        return _read_sample(y_true)
    is_sequence = isinstance(y_true, (list, tuple)) and len(y_true) > 0 and _is_stage(y_true[0])
    if is_sequence or isinstance(y_true, (Mapping, Iterator)) or has_stages(y_true) or isinstance(stages, Sample):
        remedy = "The order is (y_true, stages, X); a Sample takes the place of `y_true`."
        refuse("outcomes must come first and stages second", "stages first", remedy)
    if y_true is None or stages is None:
        missing = "`y_true`" if y_true is None else "`stages`"
        refuse(f"{missing} must be given", "None", "Pass (y_true, stages, X), or a Sample in place of `y_true`.")
    return read_stages(stages, X, y_true)


def read_stages(stages: Any, X: ArrayLike | None = None, y: ArrayLike | None = None) -> Stages:
    """Stages of any kind, parsed."""
    if has_stages(stages):
        return _read_model(stages, X, y)
    if isinstance(stages, Iterator):
        stages = list(stages)
        if not stages:
            refuse("`stages` must hold at least one", "no stages, from a generator that is used up", _REMEDY)
    if isinstance(stages, (Mapping, list, tuple)) and not stages:
        refuse("`stages` must hold at least one", "no stages", _REMEDY)
    numbers, parts = number_stages(stages)
    numbers = as_integers(numbers)
    if all(isinstance(one, Level) for one in parts):
        backend = next((one.backend for one in parts if one.backend), None)
        return _require_alike(Stages(numbers, [one.given for one in parts], levels=tuple(parts), backend=backend))
    if any(isinstance(one, Level) for one in parts):
        refuse(
            "`stages` must be scores or levels, not both", "a mixture", "Pass Level(name, law) for each, or for none."
        )
    if any(_is_checkpoint(one) for one in parts):
        return _require_alike(_read_checkpoints(numbers, parts, X, y))
    laws = [
        GivenLaw(f"stage {number:g}", parse_law(one, f"stage {number:g}"), None, column_names(one))
        for number, one in zip(numbers.tolist(), parts, strict=True)
    ]
    rows = {law.name: one for law, one in zip(laws, parts, strict=True)} | {"X": X}
    backend = next((b for b in map(backend_of, parts) if b), None)
    return _require_alike(Stages(numbers, laws, backend=backend, rows=rows))


def as_integers(numbers: FloatArray) -> NDArray[Any]:
    """Numbers as integers where all are whole, so that a stage can be passed on as a number of rounds."""
    exact = np.abs(numbers) < 2.0**53  # beyond, floats skip integers
    return numbers.astype(np.int64) if (exact & (numbers == np.round(numbers))).all() else numbers


def _require_alike(stages: Stages) -> Stages:
    """Laws of the same rows and classes."""
    first = stages.laws[0]
    for law in stages.laws[1:]:
        require_rows(law.values.shape[0], first.values.shape[0], law.name, first.name)
        if n_classes(law.values) != n_classes(first.values):
            got = f"{n_classes(first.values)} in {first.name} and {n_classes(law.values)} in {law.name}"
            refuse("all stages must have the same number of classes", got, "Write all over the same outcome.")
    _warn_of_labels(stages)
    return stages


def _warn_of_labels(stages: Stages) -> None:
    """Warn where stages look like predicted labels; known probabilities may well be certain."""
    hard = [] if stages.is_known else [law.name for law in stages.laws if is_hard(law.values)]
    if hard:
        announce(Finding("hard_labels", subject=hard[0], n=len(hard) - 1))


def _require_features(X: ArrayLike | None) -> None:
    if X is None:
        refuse("a model as stages must come with `X`", "no X", "Pass the features it should score.")


def _read_sample(sample: Sample) -> Stages:
    """Predictions whose names are numbers."""
    numbers, names = number_stages({name: [name] for name in sample.predictions})
    predictions = {name: sample.predictions[name] for (name,) in names}
    laws = [GivenLaw(f"stage {number:g}", law) for number, law in zip(numbers, predictions.values(), strict=True)]
    ordered = replace(sample, predictions=predictions)
    return Stages(as_integers(numbers), laws, backend=sample.backend, sample=ordered)


def _read_model(model: Any, X: ArrayLike | None, y: ArrayLike | None) -> Stages:
    """Every stage of a fitted booster."""
    _require_features(X)
    reader, before = find_reader(model)
    inside = translate_errors(model, lambda: transform_features(before, X))
    predictions = translate_errors(
        reader.model, lambda: [drop_first_class(np.asarray(law)) for law in reader.laws(inside)]
    )
    if not predictions:
        refuse("a model with stages must have at least one", "none", "Fit it for more rounds.")
    laws = [GivenLaw(f"stage {t}", parse_law(law, f"stage {t}")) for t, law in enumerate(predictions, start=1)]
    labels = _find_labels(model, reader.labels, n_classes(laws[0].values))
    findings = find_double_use(model, X, y, None, "stages")
    numbers = np.arange(1, len(laws) + 1)
    return Stages(numbers, laws, labels, findings=findings, backend=backend_of(X), rows={"X": X})


def drop_first_class(law: FloatArray) -> FloatArray:
    """One column for two classes: hundreds of stages are kept at once."""
    return law[:, 1].copy() if law.ndim == 2 and law.shape[1] == 2 else law


def _find_labels(model: Any, inner: tuple[Any, ...] | None, k: int) -> tuple[Any, ...] | None:
    """Labels of the columns; those of a wrapper, which may encode its labels, come first."""
    own = getattr(model, "classes_", None)
    labels = tuple(np.asarray(own).tolist()) if own is not None else inner
    return labels if labels is None or len(labels) == k else None


def _read_checkpoints(numbers: FloatArray, parts: list[Any], X: ArrayLike | None, y: ArrayLike | None) -> Stages:
    """Models or functions, one per stage, applied to the features."""
    _require_features(X)
    laws: list[GivenLaw] = []
    labels: tuple[Any, ...] | None = None
    findings: tuple[Finding, ...] = ()
    for number, one in zip(numbers.tolist(), parts, strict=True):
        name = f"stage {number:g}"
        if hasattr(one, "predict_proba"):
            law, labels, own_findings = apply_model(one, X, name, y=y)
            findings += tuple(finding for finding in own_findings if finding not in findings)
        elif callable(one):
            law = parse_law(_to_host_array(translate_errors(one, partial(one, X))), name)
        else:
            law = parse_law(one, name)
        laws.append(GivenLaw(name, law))
    return Stages(numbers, laws, labels, findings=findings, backend=backend_of(X), rows={"X": X})


def _to_host_array(value: Any) -> Any:
    """A tensor, torch's for instance, as an array."""
    value = value.detach() if hasattr(value, "detach") else value
    return value.cpu().numpy() if hasattr(value, "cpu") else value


def attach_outcomes(
    stages: Stages,
    y_true: ArrayLike | Sample,
    X: ArrayLike | None = None,
    **rows: Any,
) -> StagePath:
    """Stages beside the outcomes of their rows, features a level above; `rows` are arguments of `Sample.of`."""
    if stages.sample is not None:
        sample = Sample.of(stages.sample, X=X, **rows)
    else:
        if rows.get("classes") is None and rows.get("pos_label") is None and stages.labels is not None:
            rows["classes"] = list(stages.labels)
        require_aligned(
            {"y_true": y_true, **stages.rows, **{key: rows.get(key) for key in ("sample_weight", "groups")}}
        )
        first = stages.laws[0]
        require_rows(parse_labels(y_true, "y_true").shape[0], first.values.shape[0], "y_true", first.name)
        sample = Sample.of(y_true, {law.name: law for law in stages.laws}, X, **rows)
    laws = {name: narrow_law(law) for name, law in sample.predictions.items()}
    sample = replace(sample, predictions=laws, backend=sample.backend or stages.backend)
    path = StagePath(stages.numbers, sample, stages.findings)
    if stages.sample is None:
        _warn_of_order(path)
    return path


def _warn_of_order(path: StagePath) -> None:
    """Warn of reversed stages."""
    sample, by_stage = path.sample, []
    if sample.classes is None or np.unique(sample.y).size < 2:
        return
    rows = path.stages[0].fit_rows()
    for law in path.laws:
        with collect_findings() as findings:
            warn_of_reversed_scores(replace(rows, score=law), sample.classes)
        by_stage.append(findings)
    announce_by_stage(path, by_stage)


def announce_by_stage(path: StagePath, by_stage: Sequence[Sequence[Finding]]) -> None:
    """Announce once for each kind of finding what stages found, and how many did."""
    by_kind: dict[str, dict[float, Finding]] = {}
    for number, findings in zip(path.numbers.tolist(), by_stage, strict=True):
        for one in findings:
            by_kind.setdefault(one.kind, {}).setdefault(number, one)
    for of_kind in by_kind.values():
        number, first = next(iter(of_kind.items()))
        announce(first.with_facts(stage=number, others=len(of_kind) - 1))


def choose_positions(count: int, most: int) -> IntArray:
    """Positions from the first to the last, closer at the beginning where most happens."""
    if count <= most:
        return np.arange(count)
    return np.unique(np.geomspace(1, count, most).round().astype(np.intp)) - 1


# ── fitted models, one reader for each maker ────────────────────────────────────────────────────────


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
        prediction: FloatArray = next(islice(self.laws(X), stage - 1, None))
        return prediction


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

    def link(self, margin: FloatArray) -> FloatArray:
        """The law of a margin."""
        return self._link(np.asarray(margin, dtype=np.float64))

    def law(self, X: Any, stage: int) -> FloatArray:
        return self.link(self.whole(self.table(X), stage))

    def laws(self, X: Any) -> Iterator[FloatArray]:
        """The law after every stage."""
        # one round at a time where the sum of rounds is what the model predicts, which the last stage shows; else
        # (trees that are dropped or averaged) a prediction for each stage
        table = self.table(X)
        predictions: list[FloatArray] = []
        margin = None
        for stage in range(1, self.count + 1):
            margin = self.next(table, stage, margin)
            predictions.append(self.link(margin))
        if np.allclose(predictions[-1], self.law(table, self.count), rtol=0.0, atol=_ROUNDING):
            yield from predictions
        else:
            yield from (self.law(table, stage) for stage in range(1, self.count + 1))

    def _require_rounds(self) -> None:
        if self.count < 1:
            refuse("a booster must have at least one round", "none", "Fit it first.")


class XgboostStages(Additive):
    """xgboost's Booster and XGBClassifier, by ``iteration_range``."""

    _links: ClassVar[dict[str, Callable[[FloatArray], FloatArray]]] = {
        "binary:logistic": expit,
        "binary:logitraw": expit,
        "reg:logistic": expit,
        "multi:softprob": softmax,
        "multi:softmax": softmax,
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
            self._link = softmax
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


def _is_made_by(model: Any, maker: str) -> bool:
    """Whether a model is, or derives from, a class of a library."""
    return any(kind.__module__.partition(".")[0] == maker for kind in type(model).__mro__)


#: How the stages of a fitted model are read, tried in this order.
READERS: tuple[tuple[Callable[[Any], bool], type[StagedModel]], ...] = (
    (lambda model: hasattr(model, "staged_predict_proba"), ScikitStages),
    (lambda model: _is_made_by(model, "xgboost") and hasattr(model, "predict"), XgboostStages),
    (lambda model: _is_made_by(model, "lightgbm") and hasattr(model, "predict"), LightgbmStages),
)

#: What wraps a model that has stages: a search, a frozen estimator, a wrapper of our own.
_WRAPPERS = ("best_estimator_", "estimator_", "estimator")


def find_reader(model: Any) -> tuple[StagedModel, Any]:
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
            refuse("a model with stages must be a booster", type(model).__name__, remedy)
    return translate_errors(inner, partial(reader, inner)), before


def transform_features(before: list[Any], X: Any) -> Any:
    """The features after the first steps of pipelines."""
    for steps in before:
        X = steps.transform(X) if len(steps) else X
    return X


def translate_errors(model: Any, call: Callable[[], Any]) -> Any:
    """Call foreign code; its errors become refusals."""
    from sklearn.exceptions import NotFittedError

    name = type(model).__name__
    try:
        return call()
    except NotFittedError as error:
        refuse("a model with stages must be fitted", str(error).rstrip("."), "Fit it on other rows first.")
    except (ScoreprismError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever foreign code raises becomes a refusal
        words = str(error).strip().partition("\n")[0].rstrip(".")
        if isinstance(error, TypeError):
            raise TypeError(f"{name} must be able to score X; {words}. Pass what it was fitted on.") from None
        refuse(f"{name} must be able to score `X`", f"its own error: {words}", "Pass what it was fitted on.")
