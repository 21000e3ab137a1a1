"""The double-use guard: traces of training rows in every kind of model, and none in honest ones."""

import itertools
import pickle
from unittest.mock import MagicMock

import lightgbm
import numpy as np
import pytest
import xgboost
from scipy import stats
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from scoreprism import decompose
from scoreprism._double_use import chance, find_training_rows
from scoreprism.calibrators import RecalibratedClassifier
from scoreprism.exceptions import DoubleUseWarning
from tests.findings import select

FILL = "each leaf of its trees holds exactly as many of them as in training"
KEEP = "it stores them"
SCORES = "its score equations hold on them"
MEANS = "their class means are exactly those it learned"

#: A model, what its trace is on its training rows, and what is seen (2) or cautioned of (1) where these rows are
#: shuffled, halved, or stand among as many others.
KINDS = {
    "DecisionTree": (DecisionTreeClassifier(random_state=0), FILL, (2, 1, 0)),
    "RandomForest": (RandomForestClassifier(5, random_state=0), FILL, (2, 0, 0)),
    "weighted forest": (RandomForestClassifier(5, class_weight="balanced", random_state=0), FILL, (2, 0, 0)),
    "ExtraTrees": (ExtraTreesClassifier(5, random_state=0), FILL, (2, 2, 2)),
    "GradientBoosting": (GradientBoostingClassifier(n_estimators=5, random_state=0), FILL, (2, 0, 0)),
    "GradientBoosting that stops": (
        GradientBoostingClassifier(n_estimators=5, n_iter_no_change=2, random_state=0), FILL, (0, 0, 0)),
    "HistGradientBoosting": (HistGradientBoostingClassifier(max_iter=5, random_state=0), FILL, (2, 0, 0)),
    "HistGradientBoosting that stops": (
        HistGradientBoostingClassifier(max_iter=5, early_stopping=True, random_state=0), FILL, (1, 0, 0)),
    "AdaBoost": (
        AdaBoostClassifier(n_estimators=10, random_state=0), "the errors of its rounds are exactly those on them", (2, 0, 0)),
    "Bagging": (BaggingClassifier(n_estimators=5, random_state=0), FILL, (2, 0, 0)),
    "Bagging of neighbours": (
        BaggingClassifier(KNeighborsClassifier(), max_features=0.7, random_state=0), KEEP, (0, 0, 0)),
    "kNN": (KNeighborsClassifier(), KEEP, (2, 2, 2)),
    "GaussianNB": (GaussianNB(), MEANS, (2, 0, 0)),
    "LogisticRegression": (LogisticRegression(), SCORES, (2, 0, 0)),
    "balanced LogisticRegression": (LogisticRegression(class_weight="balanced", C=0.01), SCORES, (2, 0, 0)),
    "liblinear": (LogisticRegression(solver="liblinear", tol=1e-8), SCORES, (2, 0, 0)),
    "lasso": (LogisticRegression(solver="saga", l1_ratio=1.0, C=0.05, tol=1e-8, max_iter=5000), SCORES, (2, 0, 0)),
    "SVC": (CalibratedClassifierCV(SVC(), ensemble=False), KEEP, (2, 2, 2)),
    "SVC in folds": (CalibratedClassifierCV(SVC(), cv=3), KEEP, (2, 2, 2)),
    "LogisticRegression in folds": (CalibratedClassifierCV(LogisticRegression(), cv=3), SCORES, (0, 0, 0)),
    "MLP": (
        MLPClassifier((10,), solver="lbfgs", alpha=0.1, max_iter=3000, random_state=0),
        "the gradient of its last layer nearly vanishes on them", (2, 0, 0)),
    "GaussianProcess": (GaussianProcessClassifier(optimizer=None), KEEP, (2, 2, 2)),
    "LightGBM": (lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1), FILL, (2, 0, 0)),
    "XGBoost": (xgboost.XGBClassifier(n_estimators=5, n_jobs=1), FILL, (2, 0, 0)),
    "pipeline": (make_pipeline(StandardScaler(), LogisticRegression()), SCORES, (2, 0, 0)),
    "pipeline of columns": (
        make_pipeline(
            make_column_transformer((StandardScaler(), [0, 1, 2, 3])), MLPClassifier((3,), max_iter=5, random_state=0)
        ),
        "their means are exactly those of its StandardScaler", (2, 0, 0)),
    "search": (GridSearchCV(HistGradientBoostingClassifier(max_iter=5), {"max_depth": [3]}, cv=2), FILL, (2, 0, 0)),
    "vote": (
        VotingClassifier([("a", GaussianNB()), ("b", DecisionTreeClassifier(max_depth=3))], voting="soft"),
        MEANS, (2, 0, 0)),
    "stack": (StackingClassifier([("a", RandomForestClassifier(5, random_state=0))], cv=2), FILL, (2, 0, 0)),
    "frozen": (FrozenEstimator(LogisticRegression()), SCORES, (2, 0, 0)),
}  # fmt: skip
#: Models that keep neither outcomes nor anything that depends on them but their parameters.
NO_OUTCOMES = {"pipeline of columns"}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def law(n, seed, k=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    score = X[:, 0] + X[:, 1] * X[:, 2]
    if k == 2:
        return X, (rng.random(n) < 1 / (1 + np.exp(-score))).astype(int)
    return X, np.digitize(score + rng.logistic(size=n), [-1.0, 1.0])


@pytest.fixture(scope="module")
def fitted():
    """Every kind of model, fitted to the same 1,000 rows; those that take long to 200."""
    X, y = law(1000, 0)
    models = {}
    for name, (model, _, _) in KINDS.items():
        n = 200 if name == "GaussianProcess" else 1000
        if name == "frozen":
            model.estimator.fit(X, y)
        models[name] = model if name == "frozen" else model.fit(X[:n], y[:n]), X[:n], y[:n]
    return models


def level(model, X, y):
    found = find_training_rows(model, X, y)
    return 0 if found is None else 1 + (found.kind == "trained_on_rows")


@pytest.mark.parametrize("name", KINDS)
def test_training_rows_leave_a_trace(fitted, name):
    model, X, y = fitted[name]
    found = find_training_rows(model, X, y)
    assert (found.kind, found.severity, found.level) == ("trained_on_rows", "doubt", 0)
    assert f" was trained on these rows ({KINDS[name][1]}): " in found.text


@pytest.mark.parametrize("name", KINDS)
def test_parts_of_training_rows(fitted, name):
    model, X, y = fitted[name]
    order = np.random.default_rng(1).permutation(y.size)
    half = order[: y.size // 2]
    Z, z = law(y.size, 2)
    rows = ((X[order], y[order]), (X[half], y[half]), (np.concatenate([X, Z]), np.concatenate([y, z])))
    assert tuple(level(model, *one) for one in rows) == KINDS[name][2]


@pytest.mark.parametrize("name", KINDS)
def test_honest_models_are_not_accused(fitted, name):
    model, _, y = fitted[name]
    for seed in range(3, 8):
        assert find_training_rows(model, *law(y.size, seed)) is None


@pytest.mark.parametrize("name", [name for name in KINDS if name not in NO_OUTCOMES])
def test_fresh_outcomes_of_the_same_features_are_no_training_rows(fitted, name):
    model, X, _ = fitted[name]
    _, y = law(len(X), 0)
    fresh = (np.random.default_rng(9).random(y.size) < 1 / (1 + np.exp(-X[:, 0] - X[:, 1] * X[:, 2]))).astype(int)
    found = find_training_rows(model, X, fresh)
    if name == "pipeline":  # its scaler has seen these rows, and a regression that did not converge looks the same
        assert (found.kind, found.subject) == ("trained_on_rows", "Pipeline")
        assert found.facts["evidence"] == "means:StandardScaler"
    else:
        assert found is None or found.kind == "may_be_trained_on_rows"


MANY = {
    "DecisionTree", "RandomForest", "ExtraTrees", "GradientBoosting", "HistGradientBoosting", "AdaBoost", "Bagging",
    "kNN", "GaussianNB", "LogisticRegression", "LightGBM", "XGBoost", "pipeline of columns", "vote",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(MANY))
@pytest.mark.parametrize("values", ["continuous", "whole numbers"])
def test_honest_models_of_a_hundred_times_more_rows_are_not_accused(name, values):
    """Where features are whole numbers, each row that judges occurs among those of training."""
    from sklearn.base import clone

    (X, y), (Z, z) = law(10_000, 10), law(100, 11)
    if values == "whole numbers":
        X, Z = np.round(X[:, :3]), np.round(Z[:, :3])
        X, Z = np.column_stack([X, X[:, 0] > 0]), np.column_stack([Z, Z[:, 0] > 0])
    assert find_training_rows(clone(KINDS[name][0]).fit(X, y), Z, z) is None


@pytest.mark.parametrize("name", ["DecisionTree", "kNN", "GaussianNB", "LogisticRegression", "SVC"])
def test_rows_of_few_values(name):
    """Sixteen different rows: equal counts of all are evidence, a common row is none."""
    from sklearn.base import clone

    (X, y), (Z, z) = law(1000, 0), law(1000, 1)
    X, Z = (X > 0).astype(float), (Z > 0).astype(float)
    model = clone(KINDS[name][0]).fit(X, y)
    assert level(model, Z, z) == 0
    assert level(model, X, y) == (0 if name == "SVC" else 2)  # support vectors are some rows, of which others have all


def test_a_stump_is_no_evidence():
    """Two leaves that hold as many rows as in training: one chance in thirty, at best."""
    X, y = law(200, 0)
    assert find_training_rows(DecisionTreeClassifier(max_depth=1).fit(X, y), X) is None


def test_three_classes_labels_frames_and_weights():
    pd = pytest.importorskip("pandas")
    X, y = law(600, 0, k=3)
    Z, z = law(600, 1, k=3)
    names = np.array(["low", "middle", "top"])
    frame, other = (pd.DataFrame(x, columns=list("abcd")) for x in (X, Z))
    models = (
        RandomForestClassifier(5, random_state=0), HistGradientBoostingClassifier(max_iter=5), LogisticRegression(),
        GradientBoostingClassifier(n_estimators=5), GaussianNB(), KNeighborsClassifier(),
        lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1),
    )  # fmt: skip
    for model in models:
        model.fit(frame, names[y])
        assert level(model, frame, names[y]) == 2, model
        assert level(model, other, names[z]) == 0, model
    weight = np.random.default_rng(3).uniform(0.5, 2.0, 600)
    weighted = LogisticRegression().fit(X, y, sample_weight=weight)
    assert find_training_rows(weighted, X, y) is None
    assert find_training_rows(weighted, X, y, weight).kind == "trained_on_rows"


def test_words_say_which_rows(fitted):
    X, y = law(1000, 0)
    Z, z = law(1000, 2)
    order = np.random.default_rng(1).permutation(y.size)
    found = find_training_rows(fitted["kNN"][0], np.concatenate([X, Z]), np.concatenate([y, z]))
    assert (found.kind, found.facts["share"]) == ("trained_on_rows", 0.5)
    assert found.text == (
        "KNeighborsClassifier was trained on about 50 % of these rows (it stores them): terms of a model on its own "
        "training rows say nothing about new rows."
    )
    few = find_training_rows(fitted["kNN"][0], np.concatenate([X[:50], Z]), np.concatenate([y[:50], z]))
    assert (few.kind, few.facts["share"]) == ("may_be_trained_on_rows", pytest.approx(50 / 1050))
    assert few.text == (
        "KNeighborsClassifier may have been trained on about 4.8 % of these rows (it stores them): if so, its terms say "
        "nothing about new rows."
    )
    drawn = find_training_rows(fitted["RandomForest"][0], X[order], y[order])
    assert (drawn.kind, drawn.facts["some"], drawn.facts["evidence"]) == ("trained_on_rows", True, "leaves_more")
    assert drawn.text == (
        "RandomForestClassifier was trained on some or all of these rows (each leaf of its trees holds all the rows that "
        "it held in training): terms of a model on its own training rows say nothing about new rows."
    )
    fresh = find_training_rows(fitted["kNN"][0], X, 1 - y)
    assert (fresh.kind, fresh.facts["other_outcomes"]) == ("may_be_trained_on_rows", True)
    assert fresh.text == (
        "KNeighborsClassifier may have been trained on rows with these features, but other outcomes (it stores them "
        "with other outcomes): if so, its terms say nothing about new rows."
    )


def test_catboost():
    catboost = pytest.importorskip("catboost")
    X, y = law(1000, 0)
    model = catboost.CatBoostClassifier(iterations=5, verbose=0, allow_writing_files=False).fit(X, y)
    found = find_training_rows(model, X, y)
    assert (found.kind, found.subject, found.facts["evidence"]) == (
        "trained_on_rows",
        "CatBoostClassifier",
        "leaves_equal",
    )
    assert find_training_rows(model, *law(1000, 1)) is None


def test_sparse_rows():
    from scipy.sparse import csr_matrix

    X, y = law(400, 0)
    Z, z = law(400, 1)
    X, Z = csr_matrix(np.maximum(X, 0.0)), csr_matrix(np.maximum(Z, 0.0))
    for model in (KNeighborsClassifier(), SVC(), DecisionTreeClassifier(), LogisticRegression(), BernoulliNB()):
        model.fit(X, y)
        expected = 0 if isinstance(model, BernoulliNB) else 2  # sixteen patterns of signs, whose means may recur
        assert level(model, X, y) >= expected, model
        assert level(model, Z, z) == 0, model


class Strange:
    """A model that breaks whatever asks it for more than probabilities."""

    def predict_proba(self, X):
        return np.full((len(X), 2), 0.5)

    def __getattr__(self, name):
        raise LookupError(name)


@pytest.mark.parametrize("make", [Strange, MagicMock, object, lambda: None])
def test_foreign_models_are_never_an_error(make):
    assert find_training_rows(make(), *law(50, 0)) is None


@pytest.mark.parametrize("name", ["RandomForest", "HistGradientBoosting", "AdaBoost", "Bagging", "MLP", "kNN"])
def test_a_model_is_left_as_it_was(fitted, name):
    model, X, y = fitted[name]
    before = pickle.dumps(model)
    find_training_rows(model, X, y)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("name", ["RandomForest", "HistGradientBoosting", "LightGBM"])
def test_terms_on_training_rows_are_not_acted_on(fitted, name):
    model, X, y = fitted[name]
    with pytest.warns(DoubleUseWarning, match="was trained on these rows"):
        found = decompose(y, model, X, loss="brier", calibrator="platt", reference="logistic", random_state=0)
    (only,) = found.summary().findings
    assert only.kind == "do_not_act"
    assert only.because in found.findings
    assert (only.because.kind, only.because.level) == ("trained_on_rows", 0)
    words = "terms of a model on its own training rows say nothing about new rows. Do not act on them."
    assert only.text == f"{type(model).__name__} was trained on these rows ({FILL}): {words}"


def test_a_suspicion_is_a_note_and_silences_nothing():
    """Bagging of a fixed share of the rows: LightGBM keeps how many fell into each leaf, not which."""
    X, y = law(2000, 0)
    model = lightgbm.LGBMClassifier(n_estimators=5, subsample=0.9, subsample_freq=1, verbose=-1, n_jobs=1).fit(X, y)
    found = decompose(y, model, X, loss="brier", calibrator="platt", reference="logistic", random_state=0)
    assert (found.findings[0].kind, found.findings[0].severity) == ("may_be_trained_on_rows", "caution")
    assert found.notes[0] == (
        "LGBMClassifier may have been trained on these rows (they fill the leaves of its trees more like training "
        "rows than chance allows): if so, its terms say nothing about new rows."
    )
    assert not select(found.summary().findings, "do_not_act", "term_doubtful")


def test_a_frozen_classifier_is_recalibrated_on_rows_it_has_not_seen():
    X, y = law(800, 0)
    forest = RandomForestClassifier(5, random_state=0).fit(X[:400], y[:400])
    words = f"RandomForestClassifier was trained on these rows ({FILL}): a map fitted to them does not fit other rows."
    with pytest.warns(DoubleUseWarning) as caught:
        RecalibratedClassifier(FrozenEstimator(forest), "platt").fit(X[:400], y[:400])
    assert [str(one.message) for one in caught] == [words]
    assert caught[0].filename == __file__
    model = RecalibratedClassifier(FrozenEstimator(forest), "platt").fit(X[400:], y[400:])  # not a word
    assert level(model, X[:400], y[:400]) == 2


def test_our_own_recalibrated_classifiers_are_looked_into():
    X, y = law(600, 0)
    model = RecalibratedClassifier(GaussianNB(), "platt").fit(X, y)
    found = find_training_rows(model, X, y)
    assert (found.kind, found.subject) == ("trained_on_rows", "RecalibratedClassifier")
    assert found.facts["evidence"] == "class_means"
    assert find_training_rows(model, *law(600, 1)) is None


# ── chances ─────────────────────────────────────────────────────────────────────────────────────────


def test_equal_counts_are_at_most_as_likely_as_the_mode_of_a_multinomial_law():
    counts = np.array([3, 0, 5, 2])
    assert chance.log_equal(counts) == pytest.approx(stats.multinomial(10, counts / 10).logpmf(counts), rel=1e-12)


@pytest.mark.parametrize("least", [True, False])
@pytest.mark.parametrize("counts", [(1, 1, 1), (2, 1, 0), (2, 2, 2), (3, 2, 2), (0, 0, 4), (6, 3, 0)])
def test_bounds_hold_for_every_law_of_three_cells(counts, least):
    """The chance under each law of a grid, by enumeration of all counts of six rows."""
    rows = 6
    every = [c for c in itertools.product(range(rows + 1), repeat=3) if sum(c) == rows]
    compare = np.greater_equal if least else np.less_equal
    inside = [c for c in every if compare(c, counts).all()]
    grid = [p for p in itertools.product(np.linspace(0, 1, 21), repeat=3) if abs(sum(p) - 1) < 1e-9]
    largest = max(stats.multinomial(rows, p).pmf(inside).sum() if inside else 0.0 for p in grid)
    bound = np.exp(chance.log_bounded(np.array(counts), rows, least=least))
    assert largest <= bound * (1 + 1e-9) + 1e-12


def test_bounds_where_cells_are_many():
    """A thousand cells alike: the product of binomial tails, at most, and 0 where rows abound."""
    tails = 1000 * stats.binom(1000, 1e-3).logsf(0)
    assert tails <= chance.log_bounded(np.ones(1000), 1000, least=True) <= 0.995 * tails
    assert chance.log_bounded(np.ones(1000), 100_000, least=True) == pytest.approx(0.0, abs=1e-6)
    assert chance.log_bounded(np.full(1000, 100), 1000, least=False) == pytest.approx(0.0, abs=1e-6)
    assert chance.log_bounded(np.array([7]), 5, least=True) == -np.inf


def test_sums_near_zero():
    """Normal scores: a χ² with two degrees of freedom, P(χ² < r) = 1 − exp(−r/2); coins: a binomial law at its mode."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(4000, 2))
    for total in (np.array([30.0, -20.0]), np.array([0.1, 0.2])):
        expected = np.log(-np.expm1(-0.5 * total @ np.linalg.solve(scores.T @ scores, total)))
        assert chance.log_near_zero(scores, total, scores, 4000) == pytest.approx(expected, rel=1e-6)
    coins = rng.choice([-1.0, 1.0], size=(4000, 1))
    lattice = chance.log_near_zero(coins, np.zeros(1), coins, 4000)
    assert lattice == pytest.approx(stats.binom(4000, 0.5).logpmf(2000), rel=1e-3)
    assert chance.log_near_zero(np.zeros((5, 1)), np.zeros(1), np.zeros((5, 1)), 5) == 0.0


def test_steps_and_proportions():
    assert chance.least_step(np.array([0.1 + 0.2, 0.3, 1.3])) == pytest.approx(1.0)
    assert chance.least_step(np.ones(3)) == 1.0
    kept = np.array([40.0, 60.0, 100.0])
    assert chance.log_too_close(np.array([22.0, 28.0, 50.0]), kept) == pytest.approx(
        stats.chi2(2).logcdf(4 / 20 + 4 / 30), rel=1e-9
    )
    assert chance.log_too_close(np.array([1.0, 1.0]), np.array([1.0, 1.0])) == 0.0


def test_a_frozen_model_is_called_by_its_own_name():
    """The cold reader saw "FrozenEstimator was trained on these rows"."""
    from sklearn.frozen import FrozenEstimator
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng(0)
    X, y = rng.random((400, 3)), rng.integers(2, size=400)
    frozen = FrozenEstimator(DecisionTreeClassifier(random_state=0).fit(X, y))
    assert find_training_rows(frozen, X, y).subject == "DecisionTreeClassifier"
