"""repeated_splits(): train, calibrate and test models and ensembles over many splits of one data set (appendix D)."""

from __future__ import annotations

import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import (
    abbreviate,
    parse_choice,
    parse_clip,
    parse_count,
    parse_flag,
    parse_law,
    parse_random_state,
    refuse,
    require_jobs,
    require_rows,
    write_plain,
)
from scoreprism._core.frames import backend_of, require_aligned, take_rows
from scoreprism._core.labels import code_labels, parse_labels
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray, narrow_law
from scoreprism._core.workers import run_all
from scoreprism._findings.finding import Finding, announce
from scoreprism._fitting.chain_fit import parse_losses
from scoreprism._fitting.crossfit import REFITS
from scoreprism._fitting.parse_learners import fit_foreign
from scoreprism._parameters import described
from scoreprism._sample.parse_scores import count_rows
from scoreprism._sample.sample import Sample
from scoreprism.ensembles import COMBINERS, Combiner, Stacking, average, log_pool
from scoreprism.exceptions import LabelError, ScoreprismWarning
from scoreprism.losses import ProperLoss
from scoreprism.pipelines._pipeline import ENCODE, lay_out, score_rows
from scoreprism.pipelines._split_measures import Judge, parse_maps
from scoreprism.pipelines._split_plan import Split, draw_split, parse_sizes, parse_splits
from scoreprism.pipelines._split_tables import SplitTable

#: Named ensembles: pools by a fixed rule, and factories of combiners; stacking is the paper's, on probabilities.
ENSEMBLES: dict[str, Callable[..., Any]] = {
    "average": average,
    "log-pool": log_pool,
    **COMBINERS,
    "stacking": partial(Stacking, on="probability"),
}
_FIXED = ("average", "log-pool")

#: A function from the scores of the members, (n, M) or (n, M, K), to a law.
Pool = Callable[[FloatArray], FloatArray]

#: Columns of the table, in order.
COLUMNS = (
    "split",
    "method",
    "loss",
    "raw",
    "recalibrated",
    "reliability_plugin",
    "reliability",
    "lcs",
    "noise_floor",
    "n_train",
    "n_calibration",
    "n_test",
    "double_use",
    "redraws",
)


@described()
def repeated_splits(
    models: object,
    X: ArrayLike,
    y: ArrayLike,
    *,
    n_splits: int = 100,
    sizes: Sequence[float] = (0.6, 0.2, 0.2),
    calibrator: object = "auto",
    loss: str | ProperLoss | Sequence[str | ProperLoss] = ("log", "brier"),
    ensembles: object = ("average", "stacking"),
    independent_halves: bool = False,
    stratify: bool = False,
    clip: float | None = None,
    noise_floor: int = 5,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    random_state: object = 0,
    n_jobs: int | None = None,
    splits: object = None,
) -> SplitTable:
    """
    Train, calibrate and test models and their ensembles over many random splits (paper, appendix D).

    In each split the models are fitted on the training rows, ensembles that learn and the calibrator on the
    calibration rows, and all numbers are computed on the test rows. Splits overlap, so lines of the table are not
    independent: `paired_comparison` takes that into account.

    Parameters
    ----------
    models : mapping of str to classifier
        Not fitted; copies are fitted on `X` and on `y` as they come. A ``random_state`` that is None gets a seed that
        depends on `random_state`, the split and the name of the model.
    X : array-like, frame or sparse matrix of shape (n, p)
        Features.
    y : array-like of shape (n,)
        Outcomes: any two (or K) sortable labels.
    n_splits : int, default=100
        Number of random splits; not used where `splits` are given.
    sizes : three numbers, default=(0.6, 0.2, 0.2)
        Shares, or numbers of rows, that train, calibrate and test; not used where `splits` are given.
    calibrator : str, Calibrator, classifier or regressor, default="auto"
        How C = P(Y | S) is fitted, as in `decompose`; of two classes also by a regression such as scikit-learn's
        ``IsotonicRegression(out_of_bounds="clip")``, which
        ``IsotonicCalibrator(interpolation="linear", shrink=False, clip=0)`` equals.
    loss : str, ProperLoss or sequence of these, default=("log", "brier")
        The loss, or several, which share all fits.
    ensembles : sequence of str, or mapping, default=("average", "stacking")
        "average", the mean of the probabilities; "stacking", a logistic regression on them without a penalty;
        "log-pool", and the other names of ``ensembles.COMBINERS``. In a mapping from names also functions from scores
        of shape (n, M) or (n, M, K) to probabilities, and classifiers that learn from the scores. Left out if there
        is one model.
    independent_halves : bool, default=False
        Whether ensembles that learn do so on one random half of the calibration rows, and the calibrator of *every*
        method on the other one. Otherwise both learn from the same rows, which flatters these ensembles.
    stratify : bool, default=False
        Whether all parts have the same shares of classes; not used where `splits` are given.
    noise_floor : int, default=5
        Number of redraws behind the noise floor; 0 leaves it out.
    sample_weight : array-like of shape (n,), optional
        Weights, for models, calibrator and means; rows of weight 0 are absent.
    groups : array-like of shape (n,), optional
        Clusters: rows of a group stay in one part, and together when the spread of the calibrator is measured. The
        noise floor still treats rows as independent, and is too low if outcomes within a group are correlated.
    pos_label : label, optional
        The label that counts as 1; only losses that treat the two classes differently need it.
    random_state : int, Generator or None, default=0
        Seed. Split r depends on it and on r alone.
    n_jobs : int, optional
        Processes, as in joblib; the result does not depend on it.
    splits : iterable of triples, optional
        Row numbers (or masks) of training, calibration and test rows, instead of random splits.

    Returns
    -------
    SplitTable
        One line per split, method and loss; its ``to_frame`` is in the library of `X`, else polars. Columns: `raw`
        loss and `recalibrated` loss; `reliability_plugin`, mean d(S, Ĉ) as in the paper; `reliability`, debiased as by
        ``decompose(y, S, calibration=…)``; `lcs`, mean (S − Ĉ)²; `noise_floor`, the plug-in reliability that a
        perfectly calibrated score would show at these sizes; numbers of rows of the three parts (the calibrator gets
        half of `n_calibration` under `independent_halves`); `double_use`, whether ensemble and calibrator learned
        from the same rows; `redraws`, how many random splits were rejected because a part lacked a class.

    See Also
    --------
    paired_comparison : Methods against a baseline, split by split.
    splits_summary : Means and standard deviations by method, and their figure.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from scoreprism.pipelines import repeated_splits
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> y = (X.sum(axis=1) + rng.normal(size=300) > 0).astype(int)
    >>> models = {"logistic": LogisticRegression(), "bayes": GaussianNB()}
    >>> table = repeated_splits(models, X, y, n_splits=2, calibrator="platt", random_state=0)
    >>> table.to_frame().shape, table.methods
    ((16, 14), ('logistic', 'bayes', 'average', 'stacking'))
    """
    estimators = parse_estimators(models)
    require_jobs(n_jobs)
    require_aligned({"X": X, "y": y, "sample_weight": sample_weight, "groups": groups})
    chosen = parse_losses([loss] if isinstance(loss, (str, ProperLoss)) else list(loss))
    labels, sample = _parse_rows(y, pos_label, classes, groups, sample_weight)
    require_rows(count_rows(X), labels.size, "X", "y")
    _require_direction(labels, sample.k, chosen.values(), is_known=pos_label is not None or classes is not None)
    weighted_rows = np.arange(sample.n) if sample.kept is None else sample.kept
    study = Study(
        X=lay_out(X if sample.kept is None else take_rows(X, weighted_rows)),
        labels=labels[weighted_rows],
        sample=sample,
        models=estimators,
        ensembles=parse_ensembles(ensembles, list(estimators)),
        judge=Judge(
            parse_maps(calibrator, sample.k, sample.n),
            chosen,
            parse_clip(clip, sample.k),
            parse_count(noise_floor, "noise_floor", 0),
        ),
        halves=parse_flag(independent_halves, "independent_halves"),
        seed=int(parse_random_state(random_state).integers(2**62)),
    )
    count, counts = parse_count(n_splits, "n_splits", 1), parse_sizes(sizes, sample.n)
    if parse_flag(stratify, "stratify") and groups is not None:
        refuse("`stratify` must be False where there are groups", "both", "Leave one of them out.")
    if splits is None:
        options = {"stratify": stratify, "halves": study.halves}
        plan = [draw_split(sample, counts, **options, seed=(study.seed, r)) for r in range(count)]
    else:
        plan = parse_splits(splits, sample, study.seed, halves=study.halves)
    _require_enough(plan, sample)
    lines = [line for part in run_all(study.run, list(enumerate(plan)), n_jobs, "splits") for line in part]
    _warn_of_infinities(lines)
    return SplitTable({column: [line[column] for line in lines] for column in COLUMNS}, backend_of(X))


def _parse_rows(
    y: ArrayLike, pos_label: object, classes: ArrayLike | None, groups: ArrayLike | None, weight: ArrayLike | None
) -> tuple[NDArray[Any], Sample]:
    """Labels as passed, and a sample with equal probabilities as placeholders for predictions."""
    labels = parse_labels(y, "y")
    present, _ = code_labels(labels, "y")
    if present.size < 2:
        refuse(
            "`y` must hold at least two classes", f"one class, {write_plain(present[0])}", "Pass more rows.", LabelError
        )
    k = present.size if classes is None else max(int(parse_labels(classes, "classes").size), 2)
    law = np.full((labels.size, k), 1.0 / k)
    return labels, Sample.of(y, law, sample_weight=weight, groups=groups, pos_label=pos_label, classes=classes)


def _require_direction(labels: NDArray[Any], k: int, losses: Iterable[ProperLoss], *, is_known: bool) -> None:
    """Require the positive class where a loss treats the two classes differently."""
    lopsided = [str(loss) for loss in losses if not loss.symmetric]
    present = np.unique(labels)
    if k == 2 and lopsided and not is_known and set(present.tolist()) not in ({0, 1}, {-1, 1}):
        rule = f"`pos_label` must be given where a loss treats the classes differently ({lopsided[0]})"
        refuse(
            rule,
            f"the labels {abbreviate(map(write_plain, present))}",
            f"Pass `pos_label`={write_plain(present[1])}.",
            LabelError,
        )


def _require_enough(plan: Sequence[Split], sample: Sample) -> None:
    """Refuse too few calibration rows or groups for the calibrator's delete-block refits."""
    least = min(sample.take(split.calibration).n_units for split in plan)
    if least < REFITS:
        what = "rows" if sample.groups is None else "groups"
        rule = f"the calibrator must have at least {REFITS} {what} in every split"
        refuse(rule, f"{least}", "Pass more rows, or a larger part for it in sizes.")


@dataclass(frozen=True)
class Study:
    """The parsed arguments that every split needs."""

    X: Any
    labels: NDArray[Any]  # as passed, to train the models on
    sample: Sample  # the same rows, without features
    models: dict[str, Any]
    ensembles: dict[str, EnsembleRecipe]
    judge: Judge
    halves: bool
    seed: int

    def run(self, task: tuple[int, Split]) -> list[dict[str, Any]]:
        """All numbers of one split: models are fitted once, and all methods and losses share them."""
        r, split = task
        lines = []
        for name, (calibrating, testing) in self._predict(r, split).items():
            twice = name in self.ensembles and self.ensembles[name].learns and not self.halves
            fixed = {
                "split": r,
                "method": name,
                "n_train": int(split.train.size),
                "n_calibration": int(split.calibration.size + self.halves * split.combining.size),
                "n_test": int(split.test.size),
                "double_use": twice,
                "redraws": split.redraws,
            }
            calibration = replace(self.sample.take(split.calibration), predictions={name: calibrating})
            test = replace(self.sample.take(split.test), predictions={name: testing})
            with warnings.catch_warnings():
                # they concern a single split, whose numbers are in the table
                warnings.simplefilter("ignore", ScoreprismWarning)
                lines += [fixed | numbers for numbers in self.judge.measure(calibration, test, (self.seed, r))]
        return lines

    def _predict(self, r: int, split: Split) -> dict[str, tuple[FloatArray, FloatArray]]:
        """Predictions of every method for the calibrator's rows and for the test rows."""
        parts = (*((split.combining,) if self.halves else ()), split.calibration, split.test)
        scores: dict[str, list[FloatArray]] = {}
        for name, model in self.models.items():
            seed, train = (self.seed, r, hash_name(name)), split.train
            X, weight = take_rows(self.X, train), self._get_weights(train)
            fitted = fit_foreign(model, X, self.labels[train], weight, seed, ENCODE)
            scores[name] = [self._score(fitted, part, name) for part in parts]
        members = [np.stack(column, axis=1) for column in zip(*scores.values(), strict=True)]
        laws = {name: (parts[-2], parts[-1]) for name, parts in scores.items()}
        for name, ensemble in self.ensembles.items():
            codes, weight = self.sample.y[split.combining], self._get_weights(split.combining)
            seeded = int(np.random.default_rng((self.seed, r)).integers(2**31))
            pool = ensemble.fit(members[0], codes, weight, self.sample.k, seeded)
            laws[name] = (pool(members[-2]), pool(members[-1]))
        return laws

    def _score(self, fitted: Any, part: IntArray, name: str) -> FloatArray:
        assert self.sample.classes is not None  # noqa: S101 - parsed labels
        law = score_rows(fitted, take_rows(self.X, part), self.sample.classes, repr(name))
        return narrow_law(np.ascontiguousarray(law))  # columns in another order are not; last bits depend on it

    def _get_weights(self, part: IntArray) -> FloatArray | None:
        return None if self.sample.weight is None else self.sample.weight[part]


def _warn_of_infinities(lines: Sequence[dict[str, Any]]) -> None:
    """Warn once of infinite losses, and where they are."""
    columns = ("raw", "recalibrated", "reliability_plugin")
    infinite = [(line, column) for line in lines for column in columns if np.isinf(line[column])]
    if infinite:
        counts = Counter(f"{column} ({line['loss']}) of {line['method']}" for line, column in infinite)
        facts = {"where": dict(counts), "total": len({line["split"] for line in lines})}
        announce(Finding("infinite_splits", facts=facts))


# ── models and ensembles ────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class EnsembleRecipe:
    """How an ensemble is made: a fixed pool, or a classifier that learns from the members' scores."""

    name: str
    pool: Pool | None
    learner: Any = None

    @property
    def learns(self) -> bool:
        """Whether it is fitted to outcomes."""
        return self.learner is not None

    def fit(self, scores: FloatArray, codes: IntArray, weight: FloatArray | None, k: int, seed: int) -> Pool:
        """The pool, fitted on the rows set aside for it."""
        if self.pool is not None:
            return self._check_pool(self.pool, k)
        columns = partial(stack_features, self.learner)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ScoreprismWarning)  # they concern a single split
            member = fit_foreign(self.learner, columns(scores), codes, weight, (seed, hash_name(self.name)), ENCODE)
        score = partial(score_rows, member, classes=np.arange(k), name=repr(self.name))
        return lambda new: narrow_law(np.ascontiguousarray(score(columns(new))))

    def _check_pool(self, pool: Pool, k: int) -> Pool:
        def apply(scores: FloatArray) -> FloatArray:
            law = parse_law(pool(scores), f"the ensemble {self.name!r}")
            shape = (scores.shape[0],) if k == 2 else (scores.shape[0], k)
            if k == 2 and law.shape == (scores.shape[0], 2):
                law = law[:, 1]
            if law.shape != shape:
                refuse(f"the ensemble {self.name!r} must return shape {shape}", f"{law.shape}", "Correct the function.")
            return law

        return apply


def apply_pool(rule: Callable[..., FloatArray], scores: FloatArray) -> FloatArray:
    """Apply a pool to scores with the rows first and the members second."""
    return rule(list(np.moveaxis(scores, 1, 0)))


def stack_features(learner: Any, scores: FloatArray) -> FloatArray:
    """Members' scores as columns: all classes for our combiners, for others without the first, which is redundant."""
    first = 0 if isinstance(learner, Combiner) else 1
    return scores if scores.ndim == 2 else scores[:, :, first:].reshape(scores.shape[0], -1)


def hash_name(name: str) -> int:
    """A number for a name, so that the seed of a method depends neither on its position nor on other methods."""
    return zlib.crc32(name.encode())


def parse_estimators(models: object) -> dict[str, Any]:
    """Classifiers by name, not fitted."""
    remedy = "For example {'logistic': LogisticRegression(), 'forest': RandomForestClassifier()}."
    if not isinstance(models, Mapping) or not models:
        refuse("`models` must be a mapping from names to classifiers, at least one", write_plain(models)[:80], remedy)
    for name, model in models.items():
        if not isinstance(name, str) or not name:
            refuse("the name of a model must be a word", write_plain(name), remedy)
        rule = f"model {name!r} must be a classifier with fit, predict_proba and get_params"
        if isinstance(model, type):
            refuse(rule, f"the class {model.__name__}", f"Pass {model.__name__}().")
        if not all(hasattr(model, method) for method in ("fit", "predict_proba", "get_params")):
            refuse(rule, f"{model!r}"[:80], remedy)
    return dict(models)


def parse_ensembles(ensembles: object, models: Sequence[str]) -> dict[str, EnsembleRecipe]:
    """Ensembles by name."""
    if isinstance(ensembles, str):
        ensembles = (ensembles,)
    if not isinstance(ensembles, (Mapping, Sequence)):
        remedy = "For example ('average', 'stacking')."
        refuse("`ensembles` must be names, or a mapping from names to ensembles", write_plain(ensembles)[:80], remedy)
    by_name = dict(ensembles) if isinstance(ensembles, Mapping) else {one: one for one in map(_parse_name, ensembles)}
    repeated = [name for name in by_name if name in models]
    if repeated:
        refuse(
            "`ensembles` and `models` must have different names", abbreviate(map(repr, repeated)), "Rename the model."
        )
    return {name: _parse_ensemble(name, kind) for name, kind in by_name.items()} if len(models) > 1 else {}


def _parse_name(ensemble: object) -> str:
    return parse_choice(ensemble, ENSEMBLES, "each of ensembles")


def _parse_ensemble(name: object, kind: Any) -> EnsembleRecipe:
    if not isinstance(name, str) or not name:
        refuse("the name of an ensemble must be a word", write_plain(name), "For example {'mean': 'average'}.")
    if isinstance(kind, str):
        entry = ENSEMBLES[_parse_name(kind)]
        return (
            EnsembleRecipe(name, partial(apply_pool, entry)) if kind in _FIXED else EnsembleRecipe(name, None, entry())
        )
    if all(hasattr(kind, method) for method in ("fit", "predict_proba", "get_params")):
        return EnsembleRecipe(name, None, kind)
    if not callable(kind) or isinstance(kind, type):
        rule = f"ensemble {name!r} must be one of {', '.join(ENSEMBLES)}, a function of scores, or a classifier"
        refuse(rule, f"{kind!r}"[:80], "For example 'stacking'.")
    return EnsembleRecipe(name, kind)
