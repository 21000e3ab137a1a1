"""German credit: the paper's models, fitted once for each split, then looked up by every protocol."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from reproduction.population import fit_isotonic
from reproduction.statements import METHODS
from reproduction.work import Work, once
from scoreprism.calibrators import IsotonicCalibrator, MonotoneSplineCalibrator
from scoreprism.datasets import load_german_credit
from scoreprism.ensembles import Stacking, average
from scoreprism.pipelines import repeated_splits

#: Rows that train; as many of the others calibrate as test.
_TRAIN, _CALIBRATION = 600, 200
#: How far both arguments of a loss are kept from 0 and 1.
CLIP = 1e-6
#: A node of the forest is split if it has more than ten rows, as in R's ``ranger`` for probabilities.
_SPLIT = 11

SAME, HALF, APART = "same rows", "the same half", "independent halves"
#: How many calibration rows there are for stack and calibrator, and whether each of them gets a half of its own.
PROTOCOLS = {SAME: (_CALIBRATION, False), HALF: (_CALIBRATION // 2, False), APART: (_CALIBRATION, True)}

#: Calibrators by name. The first is the paper's: isotonic regression with straight lines between its points.
MAPS: dict[str, Callable[[], Any]] = {
    "isotonic": lambda: IsotonicCalibrator(interpolation="linear", shrink=False, clip=0),
    "platt": lambda: "platt",
    "spline": MonotoneSplineCalibrator,
    "auto": lambda: "auto",
}

# ── models ──────────────────────────────────────────────────────────────────────────────────────────


class GLM(ClassifierMixin, BaseEstimator):
    """
    Logistic regression as R's ``glm``: no penalty, Fisher scoring from μ = (y + ½)/2, at most 25 steps.

    Where a category has one outcome only, the maximum of the likelihood lies at infinity. Solvers then differ in where
    they stop, and with it in the probabilities that they give to such rows.
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Fit; tolerances are those of ``glm.control``, and a thousandth for columns that count as dependent."""
        self.classes_ = np.unique(y)
        design = _add_intercept(X)
        outcome = (np.asarray(y) == self.classes_[1]).astype(np.float64)
        mu = (outcome + 0.5) / 2.0
        eta, before = np.log(mu / (1.0 - mu)), np.inf
        for step in range(1, 26):
            weight = np.sqrt(mu * (1.0 - mu))
            target = eta + (outcome - mu) / weight**2
            self.coef_ = np.linalg.lstsq(design * weight[:, None], target * weight, rcond=1e-11)[0]
            self.n_iter_ = step
            eta = design @ self.coef_
            mu = expit(eta)
            deviance = -2.0 * float(np.sum(np.log(np.where(outcome > 0, mu, 1.0 - mu))))
            if abs(deviance - before) / (abs(deviance) + 0.1) < 1e-8:
                break
            before = deviance
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict probabilities of both classes."""
        p = expit(_add_intercept(X) @ self.coef_)
        return np.column_stack([1.0 - p, p])


def expit(eta: np.ndarray) -> np.ndarray:
    """Invert the logit as R does, which stays a rounding error away from 0 and 1."""
    eps = float(np.finfo(np.float64).eps)
    return np.clip(1.0 / (1.0 + np.exp(-np.clip(eta, -700.0, 700.0))), eps, 1.0 - eps)


def _add_intercept(X: Any) -> np.ndarray:
    rows = np.asarray(X, dtype=np.float64)
    return np.column_stack([np.ones(len(rows)), rows])


class Recorded(ClassifierMixin, BaseEstimator):
    """A classifier that looks up what a model said that was fitted on the same rows; X has the numbers of the rows."""

    def __init__(self, record: dict[bytes, np.ndarray]) -> None:
        self.record = record

    def __sklearn_clone__(self) -> Recorded:
        return Recorded(self.record)  # the scores are not copied for every split

    def fit(self, X: Any, y: Any) -> Self:
        """Recognise the split by its training rows."""
        self.classes_ = np.unique(y)
        self.scores_ = self.record[name_rows(np.asarray(X)[:, 0])]
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Look up what the model said."""
        p = self.scores_[np.asarray(X)[:, 0].astype(np.intp)]
        return np.column_stack([1.0 - p, p])


def name_rows(rows: np.ndarray) -> bytes:
    """Name a set of rows."""
    return np.sort(rows.astype(np.intp)).tobytes()


# ── splits and scores ───────────────────────────────────────────────────────────────────────────────


def make_splits(count: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Split the rows by the permutation of seed r: 600 to train, 200 to calibrate, 200 to test."""
    orders = (np.random.default_rng(r).permutation(1000) for r in range(count))
    return [tuple(np.split(order, (_TRAIN, _TRAIN + _CALIBRATION))) for order in orders]


@cache
def encode_features() -> dict[str, np.ndarray]:
    """
    Encode features as each model gets them; categories are those of the whole file, so that no level is unknown.

    Dummies without the first level for the logistic regression, all of them for the forest; then the numbers.
    """
    from sklearn.compose import make_column_transformer
    from sklearn.preprocessing import OneHotEncoder

    X = load_german_credit().X
    words = [name for name in X.columns if not X[name].dtype.is_numeric()]
    found = {}
    for name, drop in (("glm", "first"), ("forest", None)):
        encoder = OneHotEncoder(drop=drop, sparse_output=False)
        columns = make_column_transformer((encoder, words), remainder="passthrough")
        found[name] = np.asarray(columns.fit_transform(X), dtype=np.float64)
    return found


def make_models(trees: int, seed: int) -> dict[str, Any]:
    """Make the paper's models."""
    from sklearn.ensemble import RandomForestClassifier

    return {"glm": GLM(), "forest": RandomForestClassifier(trees, min_samples_split=_SPLIT, random_state=seed)}


def fit_members(train: np.ndarray, trees: int, seed: int) -> dict[str, np.ndarray]:
    """Fit both models on some rows, and predict a bad credit for all rows."""
    X, y = encode_features(), load_german_credit().y
    fitted = {name: model.fit(X[name][train], y[train]) for name, model in make_models(trees, seed).items()}
    return {name: model.predict_proba(X[name])[:, 1] for name, model in fitted.items()}


def fit_split(task: dict[str, int]) -> dict[str, np.ndarray]:
    """Fit both models on the training rows of a split."""
    return fit_members(make_splits(task["split"] + 1)[-1][0], task["trees"], task["split"])


@once
def collect_scores(work: Work) -> dict[str, np.ndarray]:
    """Collect what both models say of all rows, split by split: an array (splits, 1000) each."""
    tasks = [{"split": r, "trees": work.plan.trees} for r in range(work.plan.splits)]
    found = work.run("german-members", fit_split, tasks, "German credit: models")
    return {name: np.array([one[name] for one in found]) for name in ("glm", "forest")}


@once
def run_protocol(work: Work, calibrator: str = "isotonic", protocol: str = SAME) -> Any:
    """Run the protocol of appendix D through `repeated_splits`; the paper's calibrator with its noise floor."""
    rows, halves = PROTOCOLS[protocol]
    splits = [(train, calibration[:rows], test) for train, calibration, test in make_splits(work.plan.splits)]
    models = {
        name: Recorded({name_rows(train): row for (train, _, _), row in zip(splits, scores, strict=True)})
        for name, scores in collect_scores(work).items()
    }
    table = repeated_splits(
        models,
        np.arange(1000)[:, None],
        load_german_credit().y,
        splits=splits,
        calibrator=MAPS[calibrator](),
        clip=CLIP,
        independent_halves=halves,
        noise_floor=work.plan.redraws if calibrator == "isotonic" else 0,
        random_state=0,
        n_jobs=work.n_jobs,
    )
    return table.to_frame()


def take_values(frame: Any, loss: str, method: str, column: str, baseline: str | None = None) -> np.ndarray:
    """Take a number of a method in every split, or its difference from a baseline's; a gain is raw − recalibrated."""
    if baseline is not None:
        return take_values(frame, loss, method, column) - take_values(frame, loss, baseline, column)
    if column == "gain":
        return take_values(frame, loss, method, "raw") - take_values(frame, loss, method, "recalibrated")
    rows = frame.filter((frame["loss"] == loss) & (frame["method"] == method)).sort("split")
    return np.asarray(rows[column].to_numpy(), dtype=np.float64)


# ── scores of the test rows ─────────────────────────────────────────────────────────────────────────


class Laws(NamedTuple):
    """Scores of the test rows before and after recalibration, and their outcomes: arrays (splits, 200)."""

    raw: np.ndarray
    recalibrated: np.ndarray
    y: np.ndarray


@once
def collect_laws(work: Work) -> dict[str, Laws]:
    """Collect scores of the test rows by method, as behind `run_protocol`."""
    members, y = collect_scores(work), load_german_credit().y
    found: dict[str, list[Any]] = {method: [] for method in METHODS}
    for r, (_, calibration, test) in enumerate(make_splits(work.plan.splits)):
        pairs = recalibrate_methods({name: scores[r] for name, scores in members.items()}, y, calibration, test)
        for method, pair in pairs.items():
            found[method].append((*pair, y[test]))
    return {method: Laws(*map(np.array, zip(*rows, strict=True))) for method, rows in found.items()}


def recalibrate_methods(
    members: dict[str, np.ndarray], y: np.ndarray, calibration: np.ndarray, test: np.ndarray
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Score the test rows by every method, raw and recalibrated as in the paper."""
    found = {}
    for name, S in add_ensembles(members, y, calibration).items():
        found[name] = (S[test], fit_isotonic(S[calibration], y[calibration]).calibrate(S[test]))
    return found


def add_ensembles(members: dict[str, np.ndarray], y: np.ndarray, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Add the average of the members and a stack that learned from some rows, in the order of the paper."""
    columns = np.column_stack([members["glm"], members["forest"]])
    stack = Stacking(on="probability").fit(columns[rows], y[rows])
    made = {"average": average(list(columns.T)), "stacking": stack.predict_proba(columns)[:, 1]} | members
    return {name: np.asarray(made[name], dtype=np.float64) for name in METHODS}
