"""Parsing of the arguments of `pipeline_bootstrap`: three splits of rows, a classifier, a calibrator, options."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import parse_choice, parse_flag, parse_law, parse_weights, refuse, require_rows
from scoreprism._core.frames import backend_of, require_aligned, take_rows
from scoreprism._core.labels import code_labels, parse_groups, parse_labels
from scoreprism._core.resampling import count_grouped_rows
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._core.workers import limit_threads
from scoreprism._findings.finding import Finding, announce
from scoreprism._fitting.chain_fit import parse_losses
from scoreprism._fitting.crossfit import REFITS
from scoreprism._fitting.parse_learners import find_weight_key
from scoreprism._sample.models import apply_model
from scoreprism._sample.parse_scores import count_rows
from scoreprism._sample.sample import Sample, drop_absent_rows
from scoreprism._spelling import mark
from scoreprism.exceptions import ScoreprismError
from scoreprism.losses import ProperLoss
from scoreprism.pipelines._checkpoint import digest, digest_of_scores

#: What is refitted.
REFIT = ("calibrator", "all")
#: Remedy for features that a classifier cannot read.
ENCODE = "Encode categories and missing values in a pipeline, or use another model."
#: Attempts to draw one resample.
_DRAWS = 1000
#: Rows above which ``early_stopping="auto"`` of scikit-learn's histogram boosting holds out some of them.
_STOPS_EARLY = 10_000


@dataclass(frozen=True)
class Pipeline:
    """The arguments of `pipeline_bootstrap`, parsed. Splits hold features and outcomes, no predictions yet."""

    estimator: Any
    calibrator: object
    train: Sample | None
    calibration: Sample
    test: Sample
    refit: str
    losses: dict[str, ProperLoss]
    reference: object
    q: Any
    counts: str  # "rows" repeats training rows, "weights" passes counts as weights
    resample_test: bool
    clip: float | None
    findings: tuple[Finding, ...]

    @classmethod
    def of(
        cls,
        estimator: Any,
        calibrator: object,
        splits: Mapping[str, Any],
        *,
        refit: str,
        losses: Any,
        reference: object,
        q: Any,
        groups: object,
        resample: str,
        resample_test: object,
        clip: float | None,
    ) -> Pipeline:
        """Parse; `splits` are those of train (or None), calibration and test."""
        refit = parse_choice(refit, REFIT, "refit")
        resample = parse_choice(resample, ("auto", "rows", "weights"), "resample")
        draws_test = parse_flag(resample_test, "resample_test")
        if q is not None and reference is not None:
            refuse("pass `reference`, to have Q fitted, or `q`, where it is known", "both", "Leave one of them out.")
        parts = _parse_splits(splits, refit, groups)
        train, test = parts.get("train"), parts["test"]
        _require_classifier(estimator, fitted=train is None)
        counts, findings = _choose_resampling(estimator, train, resample, refit)
        if q is not None:
            require_aligned({"test y": splits["test"][1], "q": q})
            require_rows(parse_law(q, "q").shape[0], test.n_given, "q", "test y")
            q = q if test.kept is None else take_rows(q, test.kept)
        return cls(
            estimator, calibrator, train, parts["calibration"], test, refit, parse_losses(losses), reference, q,
            counts, draws_test, clip, (*_find_double_use(parts), *findings),
        )  # fmt: skip

    # ── scores ──────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def _score_cache(self) -> dict[int, tuple[Sample, Sample]]:
        """Scored samples by seed."""
        return {}

    def score_samples(self, seed: int) -> tuple[Sample, Sample]:
        """Calibration and test rows with the predictions of the classifier as it is, or trained with this seed."""
        if seed not in self._score_cache:
            model = self.estimator if self.train is None else self._train(self.train, seed)
            self._score_cache[seed] = self._score(model)
        return self._score_cache[seed]

    def _train(self, train: Sample, seed: int) -> Any:
        copy = reseed(self.estimator, np.random.default_rng(seed))
        with limit_threads():
            return fit_estimator(copy, train.X, get_labels(train), train.weight, "")

    def _score(self, model: Any) -> tuple[Sample, Sample]:
        """Score the samples; warns of a classifier that was trained on their rows."""
        y, test_y = get_labels(self.calibration), get_labels(self.test)
        law, classes, *_ = apply_model(model, self.calibration.X, y=y)
        test_law = apply_model(model, self.test.X, y=test_y).law
        if classes is None:
            rule = "a classifier must tell the labels of its probabilities in classes_"
            refuse(rule, f"{type(model).__name__}, which does not", "Wrap it in a class that does.")
        present = {*np.unique(y).tolist(), *np.unique(test_y).tolist()}
        if not present <= set(classes):
            rule = "`calibration` and `test` must hold labels the classifier was trained on"
            got = f"{sorted(map(str, present))} beside the classes {list(map(str, classes))} of the classifier"
            refuse(rule, got, "Correct the labels.")
        place = {label: code for code, label in enumerate(classes)}
        codes, labels = np.array([place[label] for label in y.tolist()], dtype=np.intp), np.asarray(classes)
        test = Sample.of(
            test_y, test_law, None if self.reference is None else self.test.X, q=self.q,
            sample_weight=self.test.weight, groups=self.test.groups, classes=labels,
        )  # fmt: skip
        calibration = replace(self.calibration, y=codes, classes=labels, predictions={test.name: law})
        return calibration, replace(test, X=self.test.X)

    # ── what a checkpoint must belong to ────────────────────────────────────────────────────────────

    def digest_of_scores(self, seed: int) -> str:
        """A hash of the scores, which differs for classifiers with equal parameters and code but other fits."""
        return digest_of_scores([sample.prediction for sample in self.score_samples(seed)])

    @cached_property
    def identity(self) -> dict[str, str]:
        """Hashes that identify the problem, part by part; that of the scores, which need a fit, is added later."""
        packages = ("scoreprism", "numpy", "scipy", "scikit-learn")
        parts = {"train": self.train, "calibration": self.calibration, "test": self.test}
        digests = {name: _hash_rows(part) for name, part in parts.items() if part is not None}
        return digests | {
            "estimator": digest(type(self.estimator) if self.train is None else self.estimator),
            "calibrator": digest(self.calibrator),
            "loss": digest([[name, loss] for name, loss in self.losses.items()]),
            "refit": self.refit,
            "reference": digest([self.reference, self.q, self.reference is not None and self.resample_test]),
            "resample": self.counts,
            "clip": repr(self.clip),
            "versions": ", ".join(f"{name} {version(name)}" for name in packages),
        }


# ── splits ──────────────────────────────────────────────────────────────────────────────────────────


def _parse_splits(splits: Mapping[str, Any], refit: str, groups: Any) -> dict[str, Sample]:
    """Parse the splits that were passed, with their clusters."""
    names = [name for name in splits if name != "train" or splits[name] is not None]
    if "train" not in names and refit == "all":
        refuse("`refit`='all' must have training rows", "train=None", "Pass `train`=(X, y), or `refit`='calibrator'.")
    clusters = [None] * len(names) if groups is None else groups
    if isinstance(clusters, (tuple, list)) and len(clusters) == len(splits):
        clusters = clusters[len(splits) - len(names) :]
    if not isinstance(clusters, (tuple, list)) or len(clusters) != len(names):
        rule = f"`groups` must be a tuple with the clusters of {', '.join(names)}, None for single rows"
        refuse(rule, type(groups).__name__, "For example `groups`=(None, clinic_of_calibration, clinic_of_test).")
    return {name: parse_split(splits[name], name, group) for name, group in zip(names, clusters, strict=True)}


def parse_split(value: object, name: str, groups: Any) -> Sample:
    """Parse the rows of one split that have weight, without predictions; its classes are the labels passed."""
    if not isinstance(value, (tuple, list)) or len(value) not in (2, 3):
        size = f" of {len(value)}" if isinstance(value, (tuple, list)) else ""
        rule = f"{mark(name)} must be (X, y) or (X, y, sample_weight)"
        refuse(rule, f"{type(value).__name__}{size}", "Pass a tuple of features and outcomes.")
    X, y, weight = (*value, None)[:3]
    by_row = {f"{name} X": X, f"{name} y": y, f"{name} sample_weight": weight, f"groups of {name}": groups}
    require_aligned(by_row)
    labels = parse_labels(y, f"{name} y")
    classes, codes = code_labels(labels, f"{name} y")
    if not hasattr(X, "shape") and not hasattr(X, "__len__"):
        refuse(f"the features of {name} must be an array, a frame or a list", type(X).__name__, "Pass a table.")
    require_rows(count_rows(X), codes.size, f"{name} X", f"{name} y")
    clusters = parse_groups(groups, codes.size, f"groups of {name}")
    sample = Sample(
        codes,
        {},
        classes=classes,
        weight=parse_weights(weight, codes.size, f"{name} y"),
        groups=None if clusters is None else clusters[1],
        X=lay_out(X),
        backend=backend_of(y) or backend_of(X),
    )
    return drop_absent_rows(sample)


def lay_out(X: Any) -> Any:
    """Convert features once, in the memory layout that pickling produces, as last bits of results depend on it."""
    if hasattr(X, "tocsr"):
        return X.tocsr()
    if type(X) is np.ndarray and not (X.flags.c_contiguous or X.flags.f_contiguous):
        return np.ascontiguousarray(X)
    return X.copy() if backend_of(X) == "pandas" else X  # a copy makes the blocks of pandas contiguous


def get_labels(sample: Sample) -> NDArray[Any]:
    """Outcomes as passed by the user, on which classifiers are trained."""
    assert sample.classes is not None  # noqa: S101 - a split has them
    return np.asarray(sample.classes[sample.y])


def _hash_rows(sample: Sample) -> str:
    return digest([sample.X, get_labels(sample), sample.weight, sample.groups])


def _find_double_use(parts: Mapping[str, Sample]) -> Iterator[Finding]:
    """Splits that are the same rows."""
    for one, other in combinations(parts, 2):
        if parts[one].n == parts[other].n and _hash_rows(parts[one]) == _hash_rows(parts[other]):
            yield announce(Finding("parts_share_rows", level=0, facts={"parts": [one, other]}))


# ── draws ───────────────────────────────────────────────────────────────────────────────────────────

#: Whether the counts of a draw are acceptable.
Accepts = Callable[[FloatArray], bool]


def number_units(sample: Sample) -> IntArray:
    """Number of the unit, a row or a cluster, with which each row is drawn."""
    if sample.groups is None:
        return np.arange(sample.n)
    return np.unique(sample.groups, return_inverse=True)[1].astype(np.intp)


def draw(sample: Sample, name: str, rng: np.random.Generator, accepts: Accepts, needs: str) -> tuple[FloatArray, int]:
    """Counts of the rows, drawn in whole units, and the number of rejected draws."""
    units = number_units(sample)
    count, thrown = int(units.max()) + 1, 0
    rows = count_grouped_rows(rng, units, count)
    while not accepts(rows):
        thrown += 1
        if thrown == _DRAWS:
            remedy = "Pass more rows of each class."
            refuse(f"a resample of {name} must hold {needs}", f"none in {_DRAWS} draws", remedy)
        rows = count_grouped_rows(rng, units, count)
    return rows, thrown


def make_class_check(sample: Sample) -> Accepts:
    """A check that every class that occurs is drawn."""
    codes = np.unique(sample.y, return_inverse=True)[1]
    return lambda counts: bool((np.bincount(codes, counts) > 0).all())


def make_pair_check(sample: Sample) -> Accepts:
    """A check that delete-block refits of a map have rows or groups of at least two classes."""
    codes, all_units = np.unique(sample.y, return_inverse=True)[1], number_units(sample)
    k = int(codes.max()) + 1
    first = np.unique(np.stack([all_units, codes]), axis=1, return_index=True)[1]  # a row for every unit and class

    def accepts(counts: FloatArray) -> bool:
        occurs = counts[first] > 0
        enough = np.bincount(codes[first][occurs], minlength=k) >= 2
        units = np.unique(all_units[first][occurs]).size
        return units >= REFITS and bool(enough.all() if k == 2 else enough.sum() >= 2)

    return accepts


# ── classifiers ─────────────────────────────────────────────────────────────────────────────────────


def _require_classifier(estimator: Any, *, fitted: bool) -> None:
    """Refuse what is not a classifier; a fitted one only needs to score rows."""
    rule = f"`estimator` must be a classifier with {'' if fitted else 'fit and '}predict_proba"
    if isinstance(estimator, type):
        refuse(rule, f"the class {estimator.__name__}", f"Pass {estimator.__name__}().")
    needed = ("predict_proba",) if fitted else ("fit", "predict_proba", "get_params")
    missing = [word for word in needed if not hasattr(estimator, word)]
    if missing:
        remedy = "Wrap it in scikit-learn's CalibratedClassifierCV."
        refuse(rule, f"{type(estimator).__name__} without {missing[0]}", remedy)


def _choose_resampling(
    estimator: Any, train: Sample | None, resample: str, refit: str
) -> tuple[str, tuple[Finding, ...]]:
    """Whether the classifier gets repeated rows or counts as weights, and findings about it."""
    if train is None:
        return "rows", ()
    key, name = find_weight_key(estimator), type(estimator).__name__
    if train.weight is not None and key is None:
        rule = "a classifier must take `sample_weight` in fit, where there are weights"
        refuse(rule, f"{name}, which does not", "Use another one, or leave the weights out.")
    if refit != "all":
        return "rows", ()
    if resample == "weights" and key is None:
        refuse("`resample`='weights' must have a classifier that takes `sample_weight`", name, "Use `resample`='rows'.")
    inner = find_inner_validation(estimator, train.n)
    chosen = resample if resample != "auto" else "weights" if inner is not None and key is not None else "rows"
    if inner is None or chosen == "weights":
        return chosen, ()
    return chosen, (Finding("inner_validation", subject=name, facts={"how": inner, "weights": key is not None}),)


def find_inner_validation(estimator: Any, n: int) -> str | None:
    """The parameter that makes a classifier hold out training rows for validation."""
    parameters: Mapping[str, Any] = estimator.get_params(deep=True)
    for name, value in parameters.items():
        owner, _, last = name.rpartition("__")
        stops = parameters.get(f"{owner}__early_stopping" if owner else "early_stopping", None)
        if (
            (last == "cv" and not (isinstance(value, str) and value == "prefit"))
            or (last == "early_stopping" and (value is True or (value == "auto" and n > _STOPS_EARLY)))
            or (last == "n_iter_no_change" and value is not None and stops is None)
            or (last == "probability" and value is True)  # cross-validated Platt scaling of a support vector machine
        ):
            return name
    return None


def reseed(estimator: Any, rng: np.random.Generator) -> Any:
    """A copy in which all seeds that are not fixed numbers, nested ones too, are drawn."""
    from sklearn.base import clone

    copy = clone(estimator)
    parameters = copy.get_params(deep=True)
    names = [name for name in sorted(parameters) if name.rpartition("__")[2] == "random_state"]
    seeds = {name: int(rng.integers(2**31)) for name in names}
    return copy.set_params(**{k: v for k, v in seeds.items() if not isinstance(parameters[k], (int, np.integer))})


def fit_estimator(estimator: Any, X: Any, y: NDArray[Any], weight: FloatArray | None, where: str) -> Any:
    """Fit in place; errors of the classifier are raised as ours."""
    weights = {} if weight is None else {str(find_weight_key(estimator)): weight}
    try:
        return estimator.fit(X, y, **weights)
    except (ScoreprismError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - see above
        name = type(estimator).__name__
        refuse(f"{name} must be able to learn from the rows of train", f"its own error{where}: {error}", "Correct it.")


def score_rows(model: Any, X: Any, classes: NDArray[Any], name: str, where: str = "") -> FloatArray:
    """Probabilities of all classes, a column for each in their order."""
    try:
        law = parse_law(model.predict_proba(X), f"predict_proba of {name}")
    except (ScoreprismError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - see above
        refuse(f"{name} must be able to score rows it was not fitted on", f"its own error{where}: {error}", ENCODE)
    if law.shape[0] != count_rows(X):
        got = f"{law.shape[0]} rows for {count_rows(X)}{where}"
        refuse(f"predict_proba of {name} must give one row per case", got, "Use another model.")
    columns = np.asarray(getattr(model, "classes_", np.sort(classes))).tolist()
    if law.ndim == 1:
        law = np.column_stack([1.0 - law, law])
    if law.shape[1] != len(columns) or set(columns) != set(classes.tolist()):
        got = f"shape {law.shape} for the classes {columns}{where}"
        remedy = "Pass more rows of each class, or use another model."
        refuse(f"predict_proba of {name} must give a column for each class of {classes.tolist()}", got, remedy)
    return law[:, [columns.index(label) for label in classes.tolist()]]
