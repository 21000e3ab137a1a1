"""The models of the German credit study: fitted once for each split, then looked up by every protocol."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from reproduction.printed import METHODS
from reproduction.recorded import Record, Recorded
from reproduction.work import Work
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism.calibrators import IsotonicCalibrator, MonotoneSplineCalibrator
from scoreprism.datasets import load_german_credit
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


def german_splits(count: int) -> list[tuple[IntArray, IntArray, IntArray]]:
    """
    The splits: the permutation of seed r, 600 rows to train, 200 to calibrate, 200 to test.

    Parameters
    ----------
    count : int
        How many.

    Returns
    -------
    list of triples
        Row numbers.

    Examples
    --------
    >>> [part.size for part in german_splits(1)[0]]
    [600, 200, 200]
    """
    orders = (np.random.default_rng(r).permutation(1000) for r in range(count))
    ends = (_TRAIN, _TRAIN + _CALIBRATION)
    return [(order[: ends[0]], order[ends[0] : ends[1]], order[ends[1] :]) for order in orders]


@cache
def german_features() -> dict[str, FloatArray]:
    """
    Features as each model gets them: categories are those of the whole file, so that no level is unknown.

    Returns
    -------
    dict of str to array of shape (1000, p)
        Dummies without the first level for the logistic regression, all of them for the forest; then the numbers.

    Examples
    --------
    >>> {name: X.shape for name, X in german_features().items()}
    {'glm': (1000, 48), 'forest': (1000, 61)}
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


def german_models(trees: int, seed: int) -> dict[str, Any]:
    """
    The paper's models.

    Parameters
    ----------
    trees : int
        Of the forest.
    seed : int
        Of the forest.

    Returns
    -------
    dict of str to classifier
        For `german_features`.

    Examples
    --------
    >>> list(german_models(10, 0))
    ['glm', 'forest']
    """
    from sklearn.ensemble import RandomForestClassifier

    from reproduction.glm import GLM

    return {"glm": GLM(), "forest": RandomForestClassifier(trees, min_samples_split=_SPLIT, random_state=seed)}


def fitted_scores(train: IntArray, trees: int, seed: int) -> dict[str, FloatArray]:
    """
    What both models say of all rows, fitted on some.

    Parameters
    ----------
    train : integer array
        Rows to learn from.
    trees, seed : int
        Of the forest.

    Returns
    -------
    dict of str to array of shape (1000,)
        Probabilities of a bad credit.
    """
    X, y = german_features(), load_german_credit().y
    models = german_models(trees, seed)
    fitted = {name: model.fit(X[name][train], y[train]) for name, model in models.items()}
    return {name: model.predict_proba(X[name])[:, 1] for name, model in fitted.items()}


def fit_split(task: dict[str, int]) -> dict[str, FloatArray]:
    """
    Both models, fitted on the training rows of a split.

    Parameters
    ----------
    task : dict
        "split", its number, and "trees".

    Returns
    -------
    dict of str to array of shape (1000,)
        Probabilities of a bad credit, of all rows.
    """
    return fitted_scores(german_splits(task["split"] + 1)[-1][0], task["trees"], task["split"])


def member_scores(work: Work) -> dict[str, FloatArray]:
    """
    What both models say of all rows, split by split.

    Parameters
    ----------
    work : Work
        Where it is computed, once.

    Returns
    -------
    dict of str to array of shape (splits, 1000)
        By model.
    """

    def made() -> dict[str, FloatArray]:
        tasks = [{"split": r, "trees": work.plan.trees} for r in range(work.plan.splits)]
        found = work.run("german-members", fit_split, tasks, "German credit: models")
        return {name: np.array([one[name] for one in found]) for name in ("glm", "forest")}

    kept: dict[str, FloatArray] = work.once("german-members", made)
    return kept


def german_frame(work: Work, *, calibrator: str = "isotonic", protocol: str = SAME, redraws: int = 0) -> Any:
    """
    The protocol of appendix D through `repeated_splits`.

    Parameters
    ----------
    work : Work
        Where it is computed, once.
    calibrator : str, default="isotonic"
        In `MAPS`.
    protocol : str, default="same rows"
        Which rows stack and calibrator learn from, in `PROTOCOLS`.
    redraws : int, default=0
        Behind the noise floor.

    Returns
    -------
    frame
        Of polars.
    """
    rows, halves = PROTOCOLS[protocol]

    def made() -> Any:
        splits = [(train, calibration[:rows], test) for train, calibration, test in german_splits(work.plan.splits)]
        train = [parts[0] for parts in splits]
        models = {name: Recorded(Record.of(scores, train)) for name, scores in member_scores(work).items()}
        return repeated_splits(
            models, np.arange(1000)[:, None], load_german_credit().y, splits=splits, calibrator=MAPS[calibrator](),
            clip=CLIP, independent_halves=halves, noise_floor=redraws, random_state=0, n_jobs=work.n_jobs,
        )  # fmt: skip

    return work.once(f"german-frame-{calibrator}-{protocol}-{redraws}", made)


def over_splits(frame: Any, loss: str, method: str, column: str) -> FloatArray:
    """
    A number of a method in every split.

    Parameters
    ----------
    frame : frame
        From `german_frame`.
    loss, method : str
        Which rows.
    column : str
        Of the frame, or "gain" for raw − recalibrated.

    Returns
    -------
    array of shape (splits,)
        In the order of the splits.
    """
    if column == "gain":
        return over_splits(frame, loss, method, "raw") - over_splits(frame, loss, method, "recalibrated")
    rows = frame.filter((frame["loss"] == loss) & (frame["method"] == method)).sort("split")
    return np.asarray(rows[column].to_numpy(), dtype=np.float64)


def german_main(work: Work) -> Any:
    """
    The paper's own protocol.

    Parameters
    ----------
    work : Work
        Where it is computed, once.

    Returns
    -------
    frame
        With the noise floor.
    """
    return german_frame(work, redraws=work.plan.redraws)


def std_error(values: FloatArray) -> float:
    """
    Standard error of a mean over splits, taken as independent, as in the paper.

    Parameters
    ----------
    values : array of shape (splits,)
        A number of each split.

    Returns
    -------
    float
        Their standard deviation over √splits.

    Examples
    --------
    >>> std_error(np.array([0.0, 2.0]))
    1.0
    """
    return float(values.std(ddof=1)) / sqrt(values.size)


class Laws(NamedTuple):
    """
    What the paper's protocol makes of one method in every split.

    Attributes
    ----------
    raw, recalibrated : array of shape (splits, 200)
        Scores of the test rows, before and after.
    y : integer array of shape (splits, 200)
        Their outcomes.

    Examples
    --------
    >>> Laws(np.zeros((1, 2)), np.zeros((1, 2)), np.zeros((1, 2), dtype=int)).y.shape
    (1, 2)
    """

    raw: FloatArray
    recalibrated: FloatArray
    y: IntArray


def german_laws(work: Work) -> dict[str, Laws]:
    """
    Scores of the test rows in every split, as behind `german_frame`.

    Parameters
    ----------
    work : Work
        Where it is computed, once.

    Returns
    -------
    dict of str to Laws
        By method, in the order of the paper.
    """

    def made() -> dict[str, Laws]:
        members, y = member_scores(work), load_german_credit().y
        splits = german_splits(work.plan.splits)
        shape = (len(splits), splits[0][2].size)
        found = {name: Laws(np.empty(shape), np.empty(shape), np.empty(shape, dtype=np.intp)) for name in METHODS}
        for r, (_, calibration, test) in enumerate(splits):
            given = {name: scores[r] for name, scores in members.items()}
            for name, (raw, recalibrated) in judged(given, y, calibration, test).items():
                found[name].raw[r], found[name].recalibrated[r], found[name].y[r] = raw, recalibrated, y[test]
        return found

    kept: dict[str, Laws] = work.once("german-laws", made)
    return kept


def judged(
    members: dict[str, FloatArray], y: IntArray, calibration: IntArray, test: IntArray
) -> dict[str, tuple[FloatArray, FloatArray]]:
    """
    Scores of the test rows by every method, raw and recalibrated as in the paper.

    Parameters
    ----------
    members : dict of str to array of shape (n,)
        Scores of both models.
    y : integer array of shape (n,)
        Outcomes.
    calibration, test : integer array
        Rows.

    Returns
    -------
    dict of str to pair of arrays
        By method.
    """
    found = {}
    for name, S in with_ensembles(members, y, calibration).items():
        fitted = MAPS["isotonic"]().fit(S[calibration], y[calibration])
        found[name] = (S[test], fitted.calibrate(S[test]))
    return found


def with_ensembles(members: dict[str, FloatArray], y: IntArray, rows: IntArray) -> dict[str, FloatArray]:
    """
    Scores of the members, of their average, and of a stack that learned from some rows.

    Parameters
    ----------
    members : dict of str to array of shape (n,)
        Scores.
    y : integer array of shape (n,)
        Outcomes.
    rows : integer array
        Rows that the stack learns from.

    Returns
    -------
    dict of str to array of shape (n,)
        In the order of the paper.

    Examples
    --------
    >>> glm, forest = np.array([0.2, 0.2, 0.6, 0.6, 0.5, 0.5]), np.array([0.4, 0.4, 0.3, 0.3, 0.8, 0.8])
    >>> found = with_ensembles({"glm": glm, "forest": forest}, np.array([0, 1, 0, 1, 0, 1]), np.arange(6))
    >>> found["average"].round(2)
    array([0.3 , 0.3 , 0.45, 0.45, 0.65, 0.65])
    """
    from scoreprism.ensembles import Stacking, average

    columns = np.column_stack([members["glm"], members["forest"]])
    stack = Stacking(on="probability").fit(columns[rows], y[rows])
    made = {"average": average(list(columns.T)), "stacking": stack.predict_proba(columns)[:, 1]} | members
    return {name: np.asarray(made[name], dtype=np.float64) for name in METHODS}
