"""repeated_splits(): train, calibrate and test models and ensembles over many splits of one data set (appendix D)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.arrays import parse_weights
from scoreprism._core.checks import (
    listed,
    outside,
    parse_clip,
    parse_count,
    parse_random_state,
    plain,
    refuse,
    require_rows,
)
from scoreprism._core.frames import backend_of, make_frame, require_aligned, take_rows
from scoreprism._core.labels import GivenLaw, distinct, parse_groups, parse_labels, parse_outcomes
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray
from scoreprism._core.workers import run_all
from scoreprism._fitting.chain_fit import parse_losses, require_jobs
from scoreprism._fitting.crossfit import REFITS
from scoreprism._spelling import mark
from scoreprism.exceptions import InfiniteLossWarning, LabelError, ScoreprismWarning
from scoreprism.losses import ProperLoss
from scoreprism.pipelines._material import settled
from scoreprism.pipelines._split_methods import (
    Combining,
    fit_model,
    key_of,
    parse_ensembles,
    parse_estimators,
    read_law,
)
from scoreprism.pipelines._split_numbers import Judge, Scored, parse_maps
from scoreprism.pipelines._split_rows import Rows, Split, draw_split, given_split, parse_sizes, parse_splits

#: Columns of the frame, in order.
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


def repeated_splits(
    models: object,
    X: ArrayLike,
    y: ArrayLike,
    *,
    n_splits: int = 100,
    sizes: Sequence[float] = (0.6, 0.2, 0.2),
    calibrator: object = "auto",
    losses: Sequence[str | ProperLoss] = ("log", "brier"),
    ensembles: object = ("average", "stacking"),
    independent_halves: bool = False,
    stratify: bool = False,
    clip: float | None = None,
    noise_floor: int = 5,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    random_state: object = None,
    n_jobs: int | None = None,
    splits: object = None,
) -> Any:
    """
    Train, calibrate and test models and their ensembles over many random splits (paper, appendix D).

    In each split the models are fitted on the training rows, ensembles that learn and the calibrator on the
    calibration rows, and all numbers are computed on the test rows. Splits overlap, so rows of the frame are not
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
    losses : sequence of str or ProperLoss, default=("log", "brier")
        Losses; they share all that is fitted.
    ensembles : sequence of str, or mapping, default=("average", "stacking")
        "average", the mean of the probabilities; "stacking", a logistic regression on them without a penalty;
        "log-pool", and the other names of ``ensembles.COMBINERS``. In a mapping from names also
        functions from scores of shape (n, M) or (n, M, K) to a law, and classifiers that learn from the scores. Left
        out where there is one model.
    independent_halves : bool, default=False
        Whether ensembles that learn do so on one random half of the calibration rows, and the calibrator of *every*
        method on the other one. Otherwise both learn from the same rows, which flatters these ensembles.
    stratify : bool, default=False
        Whether all parts have the same shares of classes; not used where `splits` are given.
    clip : float, optional
        Keep all laws at least this far from 0 before a loss is taken; nothing is clipped unless asked for.
    noise_floor : int, default=5
        Number of redraws behind the noise floor; 0 leaves it out.
    sample_weight : array-like of shape (n,), optional
        Weights, for models, calibrator and means.
    groups : array-like of shape (n,), optional
        Clusters: rows of a group stay in one part, and together where the spread of the calibrator is measured. The
        noise floor takes rows as independent all the same, and is too low where outcomes in a group are alike.
    pos_label : label, optional
        The label that counts as 1; only losses that treat the two classes differently need it.
    classes : array-like of shape (K,), optional
        Labels in order.
    random_state : int, Generator or None, default=None
        Seed. Split r depends on it and on r alone.
    n_jobs : int, optional
        Processes, as in joblib; the result does not depend on it.
    splits : iterable of triples, optional
        Row numbers (or masks) of training, calibration and test rows, for protocols of your own.

    Returns
    -------
    frame
        In the library of `X`, else polars. One row per split, method and loss: `raw` loss and `recalibrated` loss;
        `reliability_plugin`, mean d(S, Ĉ) as in the paper; `reliability`, debiased as by
        ``decompose(y, S, calibration=…)``; `lcs`, mean (S − Ĉ)²; `noise_floor`, the plug-in reliability that a
        perfectly calibrated score would show at these sizes; numbers of rows of the three parts (the calibrator gets
        half of `n_calibration` under `independent_halves`); `double_use`, whether ensemble and calibrator learned
        from the same rows; `redraws`, how many random splits were thrown away because a part lacked a class.

    See Also
    --------
    paired_comparison : Methods against a reference, split by split.
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
    >>> frame = repeated_splits(models, X, y, n_splits=2, calibrator="platt", random_state=0)
    >>> frame.shape, frame["method"].unique(maintain_order=True).to_list()
    ((16, 14), ['logistic', 'bayes', 'average', 'stacking'])
    """
    estimators = parse_estimators(models)
    require_jobs(n_jobs)
    require_aligned({"X": X, "y": y, "sample_weight": sample_weight, "groups": groups})
    chosen = parse_losses([losses] if isinstance(losses, (str, ProperLoss)) else list(losses))
    labels, rows = _rows(y, pos_label, classes, groups, sample_weight, list(chosen.values()))
    require_rows(_length(X), rows.n, "X", "y")
    k = len(rows.classes)
    redraws = parse_count(noise_floor, "noise_floor", 0)
    study = Study(
        X=settled(X),
        labels=labels,
        rows=rows,
        weight=parse_weights(sample_weight, rows.n, "y"),
        models=estimators,
        ensembles=parse_ensembles(ensembles, list(estimators)),
        judge=Judge(parse_maps(calibrator, k), chosen, parse_clip(clip, k), redraws, k),
        halves=_flag(independent_halves, "independent_halves"),
        seed=int(parse_random_state(random_state).integers(2**62)),
    )
    count, counts = parse_count(n_splits, "n_splits", 1), parse_sizes(sizes, rows.n)
    if _flag(stratify, "stratify") and groups is not None:
        refuse("`stratify` must be False where there are groups", "both", "Leave one of them out.")
    if splits is None:
        draw = partial(_random_part, study, counts, stratify)
        tasks = [(r, draw(r)) for r in range(count)]
    else:
        triples = parse_splits(splits, rows)
        tasks = [
            (r, given_split(rows, parts, study.seed_of(r), halves=study.halves)) for r, parts in enumerate(triples)
        ]
    _require_enough(tasks, rows)
    found = [line for lines in run_all(study.run, tasks, n_jobs, "splits") for line in lines]
    _warn_of_infinities(found)
    return make_frame({column: [line[column] for line in found] for column in COLUMNS}, backend_of(X))


@dataclass(frozen=True)
class Study:
    """Everything that one split needs, parsed."""

    X: Any
    labels: NDArray[Any]
    rows: Rows
    weight: FloatArray | None
    models: dict[str, Any]
    ensembles: dict[str, Combining]
    judge: Judge
    halves: bool
    seed: int

    def seed_of(self, r: int) -> tuple[int, int]:
        """The seed of a split."""
        return self.seed, r

    def run(self, task: tuple[int, Split]) -> list[dict[str, Any]]:
        """All numbers of one split: models are fitted once, and all methods and losses share them."""
        r, split = task
        laws = self._laws(r, split)
        lines = []
        for name, (calibrating, testing) in laws.items():
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
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ScoreprismWarning)  # of a single split; the frame shows what it is
                found = self.judge.numbers(
                    self._scored(calibrating, split.calibration),
                    self._scored(testing, split.test),
                    self.seed_of(r),
                )
            lines += [fixed | numbers for numbers in found]
        return lines

    def _laws(self, r: int, split: Split) -> dict[str, tuple[FloatArray, FloatArray]]:
        """What every method says of the calibrator's rows and of the test rows."""
        parts = (*((split.combining,) if self.halves else ()), split.calibration, split.test)
        scores: dict[str, list[FloatArray]] = {}
        for name, model in self.models.items():
            seed = (*self.seed_of(r), key_of(name))
            train = split.train
            fitted = fit_model(model, self._features(train), self.labels[train], self._weights(train), seed)
            scores[name] = [read_law(fitted, self._features(part), self.rows.classes, name) for part in parts]
        members = [np.stack(column, axis=1) for column in zip(*scores.values(), strict=True)]
        laws = {name: (found[-2], found[-1]) for name, found in scores.items()}
        for name, ensemble in self.ensembles.items():
            codes, weight = self.rows.codes[split.combining], self._weights(split.combining)
            seeded = int(np.random.default_rng(self.seed_of(r)).integers(2**31))
            pool = ensemble.fitted(members[0], codes, weight, self.judge.k, seeded)
            laws[name] = (pool(members[-2]), pool(members[-1]))
        return laws

    def _scored(self, law: FloatArray, part: IntArray) -> Scored:
        groups = None if self.rows.groups is None else self.rows.groups[part]
        return Scored(law, self.rows.codes[part], self._weights(part), groups)

    def _features(self, part: IntArray) -> Any:
        return take_rows(self.X, part)

    def _weights(self, part: IntArray) -> FloatArray | None:
        return None if self.weight is None else self.weight[part]


def _rows(
    y: ArrayLike,
    pos_label: object,
    classes: ArrayLike | None,
    groups: ArrayLike | None,
    sample_weight: ArrayLike | None,
    losses: Sequence[ProperLoss],
) -> tuple[NDArray[Any], Rows]:
    """Labels as they came, and what splits must respect."""
    labels = parse_labels(y, "y")
    present, _ = distinct(labels, "y")
    if present.size < 2:
        refuse("`y` must hold at least two classes", f"one class, {plain(present[0])}", "Pass more rows.", LabelError)
    n = labels.shape[0]
    k = present.size if classes is None else max(int(parse_labels(classes, "classes").size), 2)
    law = GivenLaw("models", np.full((n, k), 1.0 / k))
    outcomes = parse_outcomes(y, [law], pos_label=pos_label, classes=classes)
    lopsided = [str(loss) for loss in losses if not loss.symmetric]
    told = pos_label is not None or classes is not None or set(present.tolist()) in ({0, 1}, {-1, 1})
    if k == 2 and lopsided and not told:
        rule = f"`pos_label` must be given where a loss treats the classes differently ({lopsided[0]})"
        refuse(rule, f"the labels {listed(map(plain, present))}", f"Pass `pos_label`={plain(present[1])}.", LabelError)
    weight = parse_weights(sample_weight, n, "y")
    held = np.ones(n, dtype=bool) if weight is None else weight > 0
    clusters = parse_groups(groups, n)
    return labels, Rows(outcomes.codes, outcomes.classes, held, None if clusters is None else clusters[1])


def _random_part(study: Study, counts: tuple[int, int, int], stratify: bool, r: int) -> Split:
    return draw_split(study.rows, counts, stratify=stratify, halves=study.halves, seed=study.seed_of(r))


def _require_enough(tasks: Sequence[tuple[int, Split]], rows: Rows) -> None:
    """The calibrator is refitted without each of some blocks of its rows, or groups."""
    held = (split.calibration[rows.held[split.calibration]] for _, split in tasks)
    least = min(part.size if rows.groups is None else np.unique(rows.groups[part]).size for part in held)
    if least < REFITS:
        what = "rows" if rows.groups is None else "groups"
        rule = f"the calibrator must have at least {REFITS} {what} in every split"
        refuse(rule, f"{least}", "Pass more rows, or a larger part for it in sizes.")


def _length(X: Any) -> int:
    return int(np.shape(X)[0]) if hasattr(X, "shape") else len(X)


def _flag(value: object, name: str) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        refuse(f"{mark(name)} must be True or False", repr(value), "Pass one of them.")
    return bool(value)


def _warn_of_infinities(lines: Sequence[dict[str, Any]]) -> None:
    """Infinite losses are reported as such; say where, once."""
    found: dict[str, int] = {}
    for line in lines:
        for column in ("raw", "recalibrated", "reliability_plugin"):
            if np.isinf(line[column]):
                key = f"{column} ({line['loss']}) of {line['method']}"
                found[key] = found.get(key, 0) + 1
    if found:
        total = len({line["split"] for line in lines})
        where = listed((f"{key} in {count} of {total} splits" for key, count in found.items()), 6)
        note = f"a law gives probability 0 to what happened, or may happen: infinite {where}. Pass clip=1e-6"
        warnings.warn(note, InfiniteLossWarning, stacklevel=outside())
