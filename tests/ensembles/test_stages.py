"""Stages of boosters: readers, the chain of a filtration, selection by refinement, callbacks, recalibration."""

import json
import pickle
import re
import warnings

import matplotlib as mpl
import numpy as np
import pytest
from benchmarks.stages import NOISE, VARIANCES, exact_terms, gaussian_filtration
from scipy.special import expit, logit, ndtr
from sklearn.base import clone
from sklearn.datasets import load_digits, make_hastie_10_2
from sklearn.ensemble import AdaBoostClassifier, GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from scoreprism import FiniteModel, Level, Sample, decompose
from scoreprism._sample.staged_models import read_stages
from scoreprism.calibrators import IdentityCalibrator, PlattCalibrator, get_calibrator
from scoreprism.ensembles import (
    RefinedBoostingClassifier,
    lightgbm_refinement_stopping,
    recalibrate_stages,
    refinement_loss,
    select_stage,
    stagewise_decomposition,
    xgboost_refinement_stopping,
)
from scoreprism.exceptions import (
    DoubleUseWarning,
    HardLabelsWarning,
    InputError,
    LabelError,
    LostResolutionWarning,
    OverfitWarning,
    ScoreOrderWarning,
    ScoreprismWarning,
)
from scoreprism.losses import get_loss
from scoreprism.references import StackedReference
from tests.conftest import wrong_checks
from tests.findings import select

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")
mpl.use("Agg")

QUIET = {"n_jobs": 1, "verbose": -1}


@pytest.fixture(scope="module")
def hastie():
    X, y = make_hastie_10_2(1200, random_state=0)
    y = (y > 0).astype(int)
    return X[:600], y[:600], X[600:], y[600:]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(n_class=3, return_X_y=True)
    return X[:250], y[:250], X[250:], y[250:]


@pytest.fixture(scope="module")
def boosted(hastie):
    X, y, *_ = hastie
    return GradientBoostingClassifier(n_estimators=12, learning_rate=0.8, random_state=0).fit(X, y)


# ── reading stages ──────────────────────────────────────────────────────────────────────────────────────


def _laws(stages, X):
    return [law.values for law in read_stages(stages, X).laws]


def test_scikit_learn_models_and_what_wraps_them(hastie, boosted):
    X, y, X_new, _ = hastie
    truth = [p[:, 1] for p in boosted.staged_predict_proba(X_new)]
    pipeline = make_pipeline(StandardScaler(), HistGradientBoostingClassifier(max_iter=4, random_state=0)).fit(X, y)
    search = GridSearchCV(GradientBoostingClassifier(n_estimators=3), {"max_depth": [1, 2]}, cv=2).fit(X, y)
    ada = AdaBoostClassifier(n_estimators=3, random_state=0).fit(X, y)
    np.testing.assert_array_equal(_laws(boosted, X_new), truth)
    np.testing.assert_array_equal(
        _laws(boosted.staged_predict_proba(X_new), None), [*boosted.staged_predict_proba(X_new)]
    )
    for model, own, inside in (
        (pipeline, pipeline[-1], pipeline[:-1].transform(X_new)),
        (search, search.best_estimator_, X_new),
        (ada, ada, X_new),
    ):
        expected = [p[:, 1] for p in own.staged_predict_proba(inside)]
        np.testing.assert_array_equal(_laws(model, X_new), expected)


@pytest.mark.parametrize("data", ["hastie", "digits"])
def test_xgboost_stages_are_those_of_iteration_range(data, request):
    """Against xgboost's own predictions with iteration_range, which it sums in float32."""
    X, y, X_new, _ = request.getfixturevalue(data)
    model = xgboost.XGBClassifier(n_estimators=15, max_depth=3, n_jobs=1).fit(X, y)
    several = len(model.classes_) > 2
    for stages, features in (
        (model, X_new),
        (model.get_booster(), X_new),
        (model.get_booster(), xgboost.DMatrix(X_new)),
    ):
        found = _laws(stages, features)
        assert len(found) == 15
        for t in (1, 7, 15):
            expected = model.predict_proba(X_new, iteration_range=(0, t))
            np.testing.assert_allclose(found[t - 1], expected if several else expected[:, 1], rtol=0, atol=1e-6)


@pytest.mark.parametrize("data", ["hastie", "digits"])
def test_lightgbm_stages_are_those_of_num_iteration(data, request):
    """Against lightgbm's own predictions with num_iteration."""
    X, y, X_new, _ = request.getfixturevalue(data)
    model = lightgbm.LGBMClassifier(n_estimators=15, num_leaves=7, **QUIET).fit(X, y)
    several = len(model.classes_) > 2
    for stages in (model, model.booster_):
        found = _laws(stages, X_new)
        assert len(found) == 15
        for t in (1, 7, 15):
            expected = model.booster_.predict(X_new, num_iteration=t)
            np.testing.assert_allclose(found[t - 1], expected, rtol=0, atol=1e-12)
            assert found[t - 1].ndim == 1 + several


def test_trees_that_do_not_add_up_are_predicted_stage_by_stage(hastie):
    """Averaged (rf) and dropped (dart) trees: sums of rounds are not what the model says."""
    X, y, X_new, _ = hastie
    forest = lightgbm.LGBMClassifier(
        n_estimators=6, boosting_type="rf", subsample=0.7, subsample_freq=1, random_state=0, **QUIET
    ).fit(X, y)
    averaged = _laws(forest, X_new)
    assert len(averaged) == 6
    for t, law in enumerate(averaged, start=1):
        np.testing.assert_allclose(law, forest.booster_.predict(X_new, num_iteration=t), atol=1e-12)
    dart = xgboost.XGBClassifier(
        n_estimators=6, booster="dart", rate_drop=0.5, random_state=0, n_jobs=1, verbosity=0
    ).fit(X, y)
    for t, law in enumerate(_laws(dart, X_new), start=1):
        expected = dart.predict_proba(X_new, iteration_range=(0, t))[:, 1]
        np.testing.assert_allclose(law, expected, atol=1e-6)


def test_checkpoints_are_models_or_functions(hastie):
    X, y, X_new, y_new = hastie
    models = [LogisticRegression(C=c).fit(X[:, :5] ** 2, y) for c in (1e-4, 1e-2, 1.0)]
    direct = [model.predict_proba(X_new[:, :5] ** 2)[:, 1] for model in models]
    np.testing.assert_array_equal(
        _laws({1: models[0], 10: models[1]}, X_new[:, :5] ** 2),
        [m.predict_proba(X_new[:, :5] ** 2) for m in models[:2]],
    )
    functions = [lambda X, m=model: m.predict_proba(X[:, :5] ** 2)[:, 1] for model in models]
    found = stagewise_decomposition(y_new, functions, X_new, calibrator="platt", reference="logistic", random_state=0)
    same = stagewise_decomposition(y_new, direct, calibrator="platt", reference="logistic", random_state=0)
    assert found.terms == same.terms  # X scores the functions, and is no level


class Tensor:
    """Like torch's."""

    def __init__(self, values):
        self._values = values

    def detach(self):
        return self

    def cpu(self):
        return self

    def numpy(self):
        return self._values


def test_functions_may_return_tensors(hastie):
    _, _, X_new, _ = hastie
    found = read_stages([lambda X: Tensor(np.full(len(X), 0.25))], X_new)
    assert found.laws[0].values.tolist() == [0.25] * len(X_new)


def test_models_on_their_training_rows_are_found_out(hastie, boosted):
    X, y, X_new, _ = hastie
    with pytest.warns(DoubleUseWarning, match="GradientBoostingClassifier was trained on these rows"):
        read_stages(boosted, X)
    light = lightgbm.LGBMClassifier(n_estimators=3, **QUIET).fit(X, y)
    with pytest.warns(DoubleUseWarning, match="holds exactly as many of them as in training"):
        read_stages(light, X)
    read_stages(light, X_new)  # filterwarnings=error: nothing is said


@pytest.mark.filterwarnings("ignore:.*booster=gblinear. is deprecated")
def test_refusals_of_stages(hastie, boosted):
    X, y, _, y_new = hastie
    s = np.linspace(0.1, 0.9, y_new.size)
    linear = xgboost.XGBClassifier(n_estimators=2, booster="gblinear", n_jobs=1, verbosity=0).fit(X, y)
    counts = xgboost.train({"objective": "count:poisson"}, xgboost.DMatrix(X, y), 2)
    custom = lightgbm.train({"objective": "poisson", "verbose": -1}, lightgbm.Dataset(X, y), 2)
    cases = [
        ((boosted, None), "a model as stages must come with X; got no X. Pass the features it should score."),
        (([LogisticRegression()], None), "a model as stages must come with X; got no X. Pass the features it should score."),
        ((LogisticRegression().fit(X, y), X), "a model with stages must be a booster; got LogisticRegression."),
        ((GradientBoostingClassifier(), X), "a model with stages must be fitted; got This GradientBoostingClassifier"),
        ((boosted, X[:, :3]), "GradientBoostingClassifier must be able to score X; got its own error"),
        ((linear, X), "stages of xgboost must be trees; got booster='gblinear'."),
        ((counts, X), "the objective of xgboost must be one of binary:logistic, "),
        ((custom, X), "the objective of lightgbm must be binary, cross_entropy or multiclass; got poisson."),
        (([s, s[:-1]], None), "stage 2 and stage 1 must have the same number of rows; got 599 and 600."),
        (([s, np.column_stack([s, s, s]) / (3 * s[:, None])], None), "all stages must have the same number of classes"),
        (([Level("a", s), s], None), "stages must be scores or levels, not both"),
        (([s, s + 0.5], None), "stage 2 must hold probabilities between 0 and 1"),
        (([], None), "stages must hold at least one; got no stages."),
    ]  # fmt: skip
    for (stages, features), text in cases:
        with pytest.raises(InputError) as caught:
            read_stages(stages, features)
        assert text in str(caught.value)


# ── exact chains ────────────────────────────────────────────────────────────────────────────────────────


def population(k=2, seed=3):
    """16 states whose stages reveal one coin each, scores that say more at every stage."""
    rng = np.random.default_rng(seed)
    state = np.arange(16)
    prob = rng.dirichlet(np.full(16, 3.0))
    law = rng.dirichlet(np.ones(k), 16)
    model = FiniteModel(prob, law[:, 1] if k == 2 else law)
    revealed = [state >> (3 - t) for t in range(4)]
    tables = [rng.dirichlet(np.full(k, 2.0), 16) for _ in range(4)]
    scores = [table[cells] for table, cells in zip(tables, revealed, strict=True)]
    return model, [s[:, 1] if k == 2 else s for s in scores], revealed


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("loss", ["log", "brier", "spherical"])
def test_the_telescope_on_a_finite_population(loss, k):
    """Theorem boosting-telescope, every expectation summed by hand over the states."""
    model, scores, revealed = population(k)
    chosen = get_loss(loss)
    q = [model.level(cells) for cells in revealed]
    found = stagewise_decomposition(model, scores, loss=loss)
    expected = [model.prob @ chosen.divergence(scores[0], q[0])]
    expected += [model.prob @ chosen.divergence(a, b) for a, b in zip(q[:-1], q[1:], strict=True)]
    expected += [model.prob @ chosen.entropy(q[-1])]
    assert list(found.terms.values()) == pytest.approx(expected, abs=1e-13)
    assert sum(found.terms.values()) == pytest.approx(found.decomposition.risk, abs=1e-13)
    assert found.names[1:-1] == ("gain 1 → 2", "gain 2 → 3", "gain 3 → 4")
    for t, s in enumerate(scores):
        c = model.level(revealed[t])
        assert found.stages.reliability[t] == pytest.approx(model.prob @ chosen.divergence(s, c), abs=1e-13)
    assert found.compression.value == pytest.approx(0.0, abs=1e-13)  # the last score separates all states


def test_log_gains_are_conditional_information_and_brier_gains_squared_increments():
    """Corollaries filtration-logloss-info and boosting-brier, I(Y; F' | F) counted from the joint law."""
    model, scores, revealed = population()
    joint = np.stack([model.prob * (1 - model.law), model.prob * model.law], axis=1)
    found = stagewise_decomposition(model, scores)
    for t, gain in enumerate(found.gains.values()):
        entropy = []
        for cells in revealed[t : t + 2]:
            table = np.stack([np.bincount(cells, column) for column in joint.T], axis=1)
            table = table[table.sum(axis=1) > 0]
            entropy.append(-(table * np.log(table / table.sum(axis=1, keepdims=True))).sum())
        assert gain == pytest.approx(entropy[0] - entropy[1], abs=1e-13)
    assert "I(Y; F2 | F1) in nats" in repr(found)
    brier = stagewise_decomposition(model, scores, loss="brier")
    for key in ("gap", "drift", "tilt"):
        assert [amount.value for amount in brier.checks[key]] == pytest.approx([0.0] * 3, abs=1e-15)
    squares = [
        model.prob @ (model.level(b) - model.level(a)) ** 2 for a, b in zip(revealed[:-1], revealed[1:], strict=True)
    ]
    assert [amount.value for amount in brier.increments["square"]] == pytest.approx(squares, abs=1e-14)


def test_a_last_score_that_forgets_loses_what_the_path_knew():
    """XOR of two coins: the path of both tells Y, the last score alone tells nothing."""
    model = FiniteModel([0.25] * 4, [0.9, 0.1, 0.1, 0.9])
    found = stagewise_decomposition(model, [[0.4, 0.4, 0.6, 0.6], [0.4, 0.6, 0.4, 0.6]], loss="brier")
    assert found.terms["gain 1 → 2"] == pytest.approx(0.16)
    assert found.compression.value == pytest.approx(0.16)


def test_given_levels_are_taken_as_they_are():
    scores, y = gaussian_filtration(500, 0)
    levels = [Level(f"Q{t}", law) for t, law in enumerate(scores.T)]
    found = stagewise_decomposition(y, levels, loss="brier")
    risks = ((scores - y[:, None]) ** 2).mean(axis=0)
    assert found.terms["reliability"] == 0.0
    assert list(found.gains.values()) == pytest.approx(risks[:-1] - risks[1:], abs=1e-14)
    assert found.terms["remaining"] == pytest.approx(risks[-1], abs=1e-14)
    worse = stagewise_decomposition(y, levels, loss="brier", prediction=np.full(500, 0.3))
    assert worse.terms["reliability"] == pytest.approx(((0.3 - y) ** 2).mean() - risks[0], abs=1e-14)
    with pytest.raises(InputError, match="grid must be left out for levels"):
        stagewise_decomposition(y, levels, grid=3)


# ── estimated chains ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("loss", ["log", "brier"])
def test_gains_along_the_gaussian_filtration(loss):
    """Q_t = Φ(ΣZ/√rest) in closed form, gains by Gauss–Hermite quadrature (benchmarks.stages.exact_terms)."""
    scores, y = gaussian_filtration(2000, 7)
    found = stagewise_decomposition(y, list(scores.T), loss=loss, random_state=7)
    terms, errors = list(found.terms.values()), list(found.std_error.values())
    truth = np.append(0.0, exact_terms(loss))
    assert (np.abs(np.array(terms) - truth) < 3 * np.array(errors)).all()
    assert sum(terms) == pytest.approx(get_loss(loss).loss(scores[:, 0], y).mean(), abs=1e-12)
    for key in ("gap", "drift", "tilt"):
        for amount in found.checks.get(key, ()):
            assert abs(amount.value) < 4 * amount.std_error
    assert abs(found.compression.value) < 4 * found.compression.std_error  # S_T = Q_T: nothing is lost
    np.testing.assert_allclose(found.stages.reliability + found.stages.refinement, found.stages.loss, atol=1e-12)


@pytest.mark.statistical
def test_a_bold_first_stage_has_reliability():
    """S = σ(2 logit Q): the reliability of the first stage by quadrature."""
    scores, y = gaussian_filtration(4000, 1, bold=2.0)
    found = stagewise_decomposition(y, list(scores.T), random_state=0)
    x, w = np.polynomial.hermite_e.hermegauss(200)
    q = ndtr(x * np.sqrt(VARIANCES[0] / (VARIANCES[1:].sum() + NOISE))).clip(1e-7, 1 - 1e-7)  # far nodes weigh nothing
    truth = get_loss("log").divergence(expit(2 * logit(q)), q) @ (w / w.sum())
    assert abs(found.terms["reliability"] - truth) < 3 * found.std_error["reliability"]


@pytest.mark.filterwarnings("ignore::scoreprism.exceptions.OverfitWarning")  # 600 rows
def test_features_stand_above_the_path(hastie, boosted):
    _, _, X, y = hastie
    scores = {t: p for t, p in enumerate(boosted.staged_predict_proba(X), start=1) if t in (1, 4, 12)}
    found = stagewise_decomposition(y, scores, X, loss="brier", calibrator="platt", cv=2, random_state=0)
    assert found.names == ("reliability", "gain 1 → 4", "gain 4 → 12", "path → X", "irreducible")
    assert found.compression is None
    fits = [(one.facts["laws"], one.subject) for one in select(found.decomposition.findings, "law_fitted")]
    assert [laws for laws, _ in fits] == [["C = P(Y | S)"], ["stage 4", "stage 12"], ["Q"]]
    assert fits[2][1].startswith("a stack of ")
    model = stagewise_decomposition(
        y, boosted, X, calibrator="platt", reference="logistic", grid=[1, 4, 12], random_state=0
    )
    assert model.names[-1] == "remaining"
    assert model.grid == (1.0, 4.0, 12.0)
    assert model.stages.numbers.size == 12
    with_x = stagewise_decomposition(
        y, boosted, X, loss="brier", calibrator="platt", grid=[1, 4, 12], features=True, cv=2, random_state=0
    )
    assert with_x.terms == pytest.approx(found.terms)


def test_stages_are_decomposed_as_decompose_does(hastie, boosted):
    """Every line of the table is decompose() of that stage, in the same folds."""
    _, _, X, y = hastie
    found = stagewise_decomposition(y, boosted, X, grid=2, loss="brier", confidence_level=0.9, random_state=5)
    seed = int(np.random.default_rng(5).integers(2**62))
    for t in (0, 11):
        d = decompose(y, _laws(boosted, X)[t], loss="brier", random_state=seed)
        ends = d.interval("reliability", 0.9)
        assert found.stages.loss[t] == d.risk
        assert found.stages.reliability[t] == d.terms["reliability"]
        assert (found.stages.reliability_low[t], found.stages.reliability_high[t]) == (ends.low, ends.high)


def test_rows_of_any_kind(hastie):
    """Labels, weights, groups, frames and processes do not change what they should not."""
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    scores, y = gaussian_filtration(400, 3)
    stages = {t + 1: scores[:, t] for t in (0, 2, 5)}
    options = {"calibrator": "platt", "reference": "logistic", "random_state": 1}
    base = stagewise_decomposition(y, stages, **options)
    words = np.where(y == 1, "yes", "no")
    assert stagewise_decomposition(words, stages, pos_label="yes", **options).terms == base.terms
    assert stagewise_decomposition(y, stages, n_jobs=2, **options).to_dict() == base.to_dict()
    scaled = stagewise_decomposition(y, stages, sample_weight=np.full(400, 3.0), **options)
    assert scaled.terms == pytest.approx(base.terms, abs=1e-12)
    two = {t: pd.DataFrame({0: 1 - s, 1: s}) for t, s in stages.items()}
    framed = stagewise_decomposition(pd.Series(y), two, **options)
    assert framed.terms == pytest.approx(base.terms, abs=1e-12)
    assert type(framed.to_frame()).__module__.startswith("pandas")
    assert type(framed.stages.to_frame("polars")) is pl.DataFrame
    grouped = stagewise_decomposition(y, stages, groups=np.arange(400) // 4, **options)
    assert sum(grouped.terms.values()) == pytest.approx(grouped.decomposition.risk, abs=1e-12)
    split = KFold(4, shuffle=True, random_state=np.random.RandomState(0))  # draws anew at every call
    mine = stagewise_decomposition(y, stages, cv=split, **options)
    np.testing.assert_allclose(mine.stages.reliability + mine.stages.refinement, mine.stages.loss, atol=1e-12)
    json.dumps(base.to_dict(), allow_nan=False)


@pytest.mark.filterwarnings("ignore::scoreprism.exceptions.OverfitWarning")  # nearly certain outcomes
def test_three_classes(digits):
    X, y, X_new, y_new = digits
    model = HistGradientBoostingClassifier(max_iter=6, learning_rate=0.2, random_state=0).fit(X, y)
    labels = np.array(["a", "b", "c"])
    found = stagewise_decomposition(
        y_new, model, X_new, loss="brier", calibrator="temperature", grid=3, cv=2, random_state=0
    )  # fmt: skip
    assert sum(found.terms.values()) == pytest.approx(found.decomposition.risk, abs=1e-12)
    assert len(found.checks["gap"]) == 2
    named = model.fit(X, labels[y])
    again = stagewise_decomposition(
        labels[y_new], named, X_new, loss="brier", calibrator="temperature", grid=3, cv=2, random_state=0
    )
    assert again.terms == pytest.approx(found.terms)
    assert select_stage(labels[y_new], model, X_new, random_state=0).calibrator == "temperature"


def test_a_reference_of_ones_own_is_used_for_all_levels():
    scores, y = gaussian_filtration(300, 5)
    stages = list(scores[:, :3].T)
    lean = stagewise_decomposition(y, stages, calibrator="platt", random_state=0)
    same = stagewise_decomposition(
        y,
        stages,
        calibrator="platt",
        reference=StackedReference(("calibrated", "logistic", "polynomial")),
        random_state=0,
    )
    other = stagewise_decomposition(y, stages, calibrator="platt", reference="logistic", random_state=0)
    assert lean.terms == same.terms
    assert other.terms != lean.terms


def test_refusals_of_stagewise_decomposition():
    scores, y = gaussian_filtration(100, 0)
    stages = list(scores.T)
    cases = [
        ({"grid": [1, 9]}, "grid must be a number of stages, or numbers of existing stages; got [9.0]."),
        ({"grid": 0}, "grid must be a whole number of at least 1; got 0."),
        ({"grid": "all"}, "grid must be a number of stages, or numbers of existing stages; got 'all'."),
        ({"confidence_level": 2}, "confidence_level must be a confidence level between 0 and 1; got 2."),
        ({"prediction": y}, "prediction must come with levels; got scores, whose first stage is the prediction."),
        ({"cv": "five"}, "cv must be a whole number of at least 2; got 'five'."),
        ({"loss": "brie"}, "Did you mean 'brier'?"),
    ]
    for options, text in cases:
        with pytest.raises(InputError) as caught:
            stagewise_decomposition(y, stages, **options)
        assert text in str(caught.value)


# ── selection ───────────────────────────────────────────────────────────────────────────────────────────


def overconfident(n=600, seed=0):
    """Five stages that know more and more, and from the third on overstate it."""
    scores, y = gaussian_filtration(n, seed)
    logit = np.log(scores) - np.log1p(-scores)
    return [1 / (1 + np.exp(-k * logit[:, t])) for t, k in enumerate((1, 1, 1, 4, 8, 12))], y


def test_refinement_goes_on_where_the_raw_loss_stops():
    stages, y = overconfident()
    found = select_stage(y, stages, random_state=0)
    assert (found.stage, found.raw_stage) == (6.0, 3.0)
    assert found.gain.low > 0
    assert found.alike[-1] == 6.0
    table = found.stages  # nothing was chosen differently in any fold, so gains are those of the curves
    assert found.chosen == ((6.0, 3.0),) * 5
    assert found.gain_over_raw.value == pytest.approx(table.raw_loss[2] - table.recalibrated_loss[5], abs=1e-14)
    assert found.gain.value == pytest.approx(table.recalibrated_loss[2] - table.recalibrated_loss[5], abs=1e-14)
    others = [refinement_loss(y, stages[5], random_state=seed) for seed in range(10)]  # in other folds
    assert abs(found.terms["refined"] - np.mean(others)) < 4.0 * np.std(others, ddof=1) * np.sqrt(1.1)
    assert table.raw_loss == pytest.approx([get_loss("log").loss(s, y).mean() for s in stages], abs=1e-14)


def test_without_a_map_both_choices_are_the_same():
    stages, y = overconfident()
    found = select_stage(y, stages, calibrator=IdentityCalibrator(), random_state=0)
    assert found.stage == found.raw_stage
    assert found.gain.value == 0.0
    assert found.stages.raw_loss == pytest.approx(found.stages.recalibrated_loss, abs=1e-12)


def test_choices_do_not_see_the_fold_they_are_judged_on():
    """Turning the outcomes of a fold around changes the choices of the others, never its own."""
    rng = np.random.default_rng(0)
    q = rng.random(300)
    y = (rng.random(300) < q).astype(int)
    stages = [np.clip(q + 0.3 * rng.normal(size=300), 0.01, 0.99) for _ in range(30)]
    fold = np.arange(300) % 3
    cv = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(3)]
    for rule in ("best", "one-se", "guarded"):
        before = select_stage(y, stages, cv=cv, rule=rule)
        turned = select_stage(np.where(fold == 0, 1 - y, y), stages, cv=cv, rule=rule)
        assert turned.chosen[0] == before.chosen[0]
        assert turned.chosen[1:] != before.chosen[1:]


def test_the_gain_of_noise_is_not_flattered():
    """25 equally good stages: the apparent gain is positive by choice, the honest one has mean 0 (8 draws)."""
    honest, apparent = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        q = rng.random(300)
        y = (rng.random(300) < q).astype(int)
        stages = [np.clip(q + 0.2 * rng.normal(size=300), 0.02, 0.98) for _ in range(25)]
        found = select_stage(y, stages, cv=3, random_state=seed)
        honest.append(found.stages.recalibrated_loss.mean() - found.terms["refined"])
        apparent.append(found.gain.value)
    assert np.mean(honest) > 0.01  # what the minimum of the curve promises
    assert abs(np.mean(apparent)) < 3 * np.std(apparent) / np.sqrt(8) + 0.003


def test_one_standard_error_takes_an_earlier_stage_or_the_same():
    rng = np.random.default_rng(1)
    q = rng.random(400)
    y = (rng.random(400) < q).astype(int)
    stages = [np.clip(q + 0.2 * rng.normal(size=400), 0.02, 0.98) for t in range(20)]
    best, careful = (select_stage(y, stages, rule=rule, random_state=0) for rule in ("best", "one-se"))
    assert careful.stage < best.stage
    assert careful.stage in best.alike
    row = int(careful.stage) - 1
    assert best.stages.behind[row] <= best.stages.behind_std_error[row]


def test_selection_of_any_rows(hastie, boosted):
    pytest.importorskip("polars")
    _, _, X, y = hastie
    base = select_stage(y, boosted, X, random_state=0)
    assert select_stage(y, boosted, X, n_jobs=2, random_state=0).to_dict() == base.to_dict()
    words = np.where(y == 1, "yes", "no")
    stages = [p[:, 1] for p in boosted.staged_predict_proba(X)]
    assert select_stage(words, stages, pos_label="yes", random_state=0).to_dict()["gain"] == base.to_dict()["gain"]
    weighted = select_stage(y, boosted, X, sample_weight=np.full(y.size, 2.0), random_state=0)
    assert weighted.stage == base.stage
    assert weighted.gain.value == pytest.approx(base.gain.value, abs=1e-12)
    nothing = np.r_[np.ones(500), np.zeros(100)]  # rows without weight are not there
    light = select_stage(y, stages, sample_weight=nothing, random_state=0)
    other = select_stage(np.r_[y[:500], 1 - y[500:]], stages, sample_weight=nothing, random_state=0)
    assert light.stages.recalibrated_loss.tolist() == other.stages.recalibrated_loss.tolist()
    select_stage(y, stages, groups=np.arange(y.size) // 3, random_state=0)
    assert base.stages.to_frame("polars").shape == (12, 7)
    assert base.alike == (12.0,)
    assert "All other stages are significantly worse than the best, 12." in repr(base)
    assert "<table" in base._repr_html_()
    json.dumps(base.to_dict(), allow_nan=False)


def test_refusals_of_selection():
    stages, y = overconfident(100)
    cases = [
        ((y, stages), {"rule": "last"}, "rule must be one of best, one-se, guarded; got 'last'."),
        ((y, stages), {"calibrator": "plat"}, "calibrator must be one of"),
        ((np.ones(100), stages), {}, "y_true must hold at least two classes; got one."),
        ((y, [Level("a", stages[0])]), {}, "select_stage must have scores; got levels"),
        ((y, stages), {"cv": 2}, "cv must have at least 3 folds, for choices are nested in them; got 2."),
        ((y, stages), {"cv": [(np.arange(50), np.arange(50, 100))]}, "cv must put every row into one fold"),
        ((y[:-1], stages), {}, "y_true and stage 1 must have the same number of rows; got 99 and 100."),
    ]
    for arguments, options, text in cases:
        with pytest.raises(InputError) as caught:
            select_stage(*arguments, **options)
        assert text in str(caught.value)


def test_refinement_loss_is_a_scorer(hastie):
    X, y, X_new, y_new = hastie
    scorer = make_scorer(refinement_loss, response_method="predict_proba", greater_is_better=False)
    found = cross_val_score(LogisticRegression(), X[:, :5] ** 2, y, scoring=scorer, cv=3)
    assert (found < 0).all()
    law = LogisticRegression().fit(X[:, :5] ** 2, y).predict_proba(X_new[:, :5] ** 2)[:, 1]
    bolder = 1 / (1 + (1 / law - 1) ** 3)  # the same after Platt
    assert refinement_loss(y_new, bolder) == pytest.approx(refinement_loss(y_new, law), abs=1e-5)
    words = np.where(y_new == 1, "yes", "no")
    assert refinement_loss(words, law, pos_label="yes") == refinement_loss(y_new, law)


# ── the wrapper ─────────────────────────────────────────────────────────────────────────────────────────

BOOSTERS = {
    "scikit-learn": GradientBoostingClassifier(n_estimators=15, learning_rate=0.8, random_state=0),
    "hist": HistGradientBoostingClassifier(max_iter=15, learning_rate=0.5, random_state=0),
    "xgboost": xgboost.XGBClassifier(n_estimators=15, learning_rate=0.8, n_jobs=1),
    "lightgbm": lightgbm.LGBMClassifier(n_estimators=15, learning_rate=0.5, **QUIET),
    "pipeline": make_pipeline(StandardScaler(), GradientBoostingClassifier(n_estimators=8, random_state=0)),
}


@pytest.mark.parametrize("name", BOOSTERS)
def test_the_wrapper_predicts_the_chosen_stage_recalibrated(hastie, name):
    X, y, X_new, _ = hastie
    words = np.where(y == 1, "yes", "no")
    model = RefinedBoostingClassifier(BOOSTERS[name], random_state=3, validation_fraction=0.3).fit(X, words)
    assert list(model.classes_) == ["no", "yes"]
    assert model.selection_.stages.numbers[-1] == (8 if name == "pipeline" else 15)
    score = _laws(model.estimator_, X_new)[model.stage_ - 1]
    np.testing.assert_allclose(model.predict_proba(X_new), model.calibrator_.predict_proba(score), atol=1e-6)
    assert set(model.predict(X_new)) <= {"no", "yes"}
    again = clone(model).fit(X, words)
    np.testing.assert_array_equal(again.predict_proba(X_new), model.predict_proba(X_new))
    revived = pickle.loads(pickle.dumps(model))  # noqa: S301
    np.testing.assert_array_equal(revived.predict_proba(X_new), model.predict_proba(X_new))


def test_the_wrapper_among_scikit_learns_tools(hastie, digits):
    X, y, X_new, y_new = hastie
    booster = GradientBoostingClassifier(n_estimators=6, random_state=0)
    pipeline = make_pipeline(StandardScaler(), RefinedBoostingClassifier(booster, random_state=0)).fit(X, y)
    assert pipeline.predict_proba(X_new).shape == (600, 2)
    grid = {"estimator__learning_rate": [0.1, 1.0], "rule": ["best", "one-se"]}
    search = GridSearchCV(RefinedBoostingClassifier(booster, random_state=0), grid, cv=2, scoring="neg_log_loss")
    assert search.fit(X, y).best_params_["estimator__learning_rate"] == 1.0
    given = RefinedBoostingClassifier(booster, random_state=0).fit(X, y, eval_set=(X_new, y_new))
    direct = select_stage(y_new, booster.fit(X, y), X_new, random_state=0)
    assert given.selection_.stages.raw_loss == pytest.approx(direct.stages.raw_loss)
    weighted = RefinedBoostingClassifier(booster, random_state=0).fit(X, y, sample_weight=1.0 + X[:, 0] ** 2)
    assert weighted.selection_.stages.raw_loss[0] != given.selection_.stages.raw_loss[0]
    refit = RefinedBoostingClassifier(booster, refit=True, random_state=0).fit(X, y)
    assert refit.estimator_.n_estimators == refit.stage_
    X3, y3, X3_new, _ = digits
    three = RefinedBoostingClassifier(booster, "isotonic", random_state=0, cv=3).fit(X3, y3)  # one against the rest
    assert three.predict_proba(X3_new).sum(axis=1) == pytest.approx(np.ones(len(X3_new)))


def test_refusals_of_the_wrapper(hastie):
    X, y, X_new, y_new = hastie
    booster = GradientBoostingClassifier(n_estimators=3)
    cases = [
        (RefinedBoostingClassifier(LogisticRegression()), {}, "a model with stages must be a booster"),
        (RefinedBoostingClassifier(booster, validation_fraction=2), {}, "validation_fraction must be a share between 0 and 1"),
        (RefinedBoostingClassifier(booster), {"eval_set": X_new}, "eval_set must be (X, y) or (X, y, sample_weight)"),
        (RefinedBoostingClassifier(booster), {"eval_set": (X_new, y_new + 5)}, "eval_set must hold labels that were trained on; got"),
        (RefinedBoostingClassifier(booster, refit=True), {"eval_set": (X_new, y_new)}, "refit must be False with eval_set"),
        (RefinedBoostingClassifier(booster, rule="x"), {}, "rule must be one of best, one-se, guarded"),
    ]  # fmt: skip
    for model, options, text in cases:
        with pytest.raises(InputError) as caught:
            model.fit(X, y, **options)
        assert text in str(caught.value)
    with pytest.raises(LabelError, match="y must hold at least two classes; got one class, 1"):
        RefinedBoostingClassifier(booster).fit(X, np.ones(600, dtype=int))


#: Checks that cannot apply, with the reason.
HELD_OUT = {"check_fit2d_1feature": "ten rows are too few to hold two of each class out"} | dict.fromkeys(
    ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
    "rows are held out at random, so a row of weight 2 is not two rows",
)


@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks():
    booster = GradientBoostingClassifier(n_estimators=2, max_depth=1, random_state=0)
    wrapped = RefinedBoostingClassifier(booster, cv=3, validation_fraction=0.5, random_state=0)
    assert wrong_checks(wrapped, HELD_OUT) == {}


# ── callbacks ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("data", ["hastie", "digits"])
def test_xgboost_stops_where_its_own_early_stopping_stops(data, request):
    """The raw criterion against xgboost's EarlyStopping on its own logloss; theirs is computed in float32."""
    X, y, X_new, y_new = request.getfixturevalue(data)
    metric = "logloss" if data == "hastie" else "mlogloss"
    shape = {"n_estimators": 80, "learning_rate": 0.6, "max_depth": 4, "n_jobs": 1}
    theirs = xgboost.XGBClassifier(**shape, early_stopping_rounds=6, eval_metric=metric)
    theirs.fit(X, y, eval_set=[(X_new, y_new)], verbose=False)
    stop = xgboost_refinement_stopping(X_new, y_new, rounds=6, criterion="raw")
    ours = xgboost.XGBClassifier(**shape, callbacks=[stop]).fit(X, y)
    assert ours.best_iteration == theirs.best_iteration == stop.best_iteration
    assert len(stop.history) == ours.get_booster().num_boosted_rounds() == theirs.get_booster().num_boosted_rounds()
    expected = theirs.evals_result()["validation_0"][metric]
    np.testing.assert_allclose(stop.history, expected, atol=2e-6)
    np.testing.assert_allclose(ours.predict_proba(X_new), theirs.predict_proba(X_new), atol=1e-7)


@pytest.mark.parametrize("data", ["hastie", "digits"])
def test_lightgbm_stops_where_its_own_early_stopping_stops(data, request):
    """The raw criterion against lightgbm.early_stopping on its own log loss."""
    X, y, X_new, y_new = request.getfixturevalue(data)
    several = data == "digits"
    shape = {"objective": "multiclass" if several else "binary", "learning_rate": 0.6, "verbose": -1, "num_threads": 1}
    shape |= {"num_class": 3} if several else {}
    rows, seen = lightgbm.Dataset(X, y), {}
    watch = [lightgbm.early_stopping(6, verbose=False), lightgbm.record_evaluation(seen)]
    theirs = lightgbm.train(
        shape, rows, 80, valid_sets=[lightgbm.Dataset(X_new, y_new, reference=rows)], callbacks=watch
    )
    stop = lightgbm_refinement_stopping(X_new, y_new, rounds=6, criterion="raw")
    ours = lightgbm.train(shape, lightgbm.Dataset(X, y), 80, callbacks=[stop])
    assert ours.best_iteration == theirs.best_iteration == stop.best_iteration + 1
    expected = next(iter(seen["valid_0"].values()))
    np.testing.assert_allclose(stop.history, expected, atol=1e-9)
    np.testing.assert_array_equal(ours.predict(X_new), theirs.predict(X_new))


@pytest.mark.parametrize("name", ["platt", "isotonic", "auto"])
def test_scores_are_compared_in_the_same_folds(name):
    """Two models that rank rows differently: their losses after recalibration are those of the same folds, by hand."""
    rng = np.random.default_rng(4)
    s = rng.uniform(0.05, 0.95, (2, 300))
    y = (rng.random(300) < s[0]).astype(int)
    home = np.arange(300) // 60
    for score in s:
        law = np.empty(300)
        for k in range(5):
            map_ = get_calibrator(name).fit(score[home != k], y[home != k])
            law[home == k] = map_.calibrate(score[home == k])
        expected = get_loss("log").loss(law, y).mean()
        assert refinement_loss(y, score, calibrator=name, cv=KFold(5)) == pytest.approx(expected, rel=1e-9)


def test_folds_do_not_go_by_the_score():
    """Platt's map turns a reversed score round, and finds the same in the same folds."""
    rng = np.random.default_rng(4)
    s = rng.uniform(0.05, 0.95, 300)
    y = (rng.random(300) < s).astype(int)
    with pytest.warns(ScoreOrderWarning):
        turned = refinement_loss(y, 1 - s, calibrator="platt")
    assert turned == pytest.approx(refinement_loss(y, s, calibrator="platt"), rel=1e-9)


def test_callbacks_record_the_loss_after_recalibration(hastie):
    """Round by round what refinement_loss says of the stage, with the same seed."""
    X, y, X_new, y_new = hastie
    stop = xgboost_refinement_stopping(X_new, y_new, rounds=4, loss="brier", random_state=2)
    model = xgboost.train(
        {"objective": "binary:logistic", "eta": 0.8, "nthread": 1}, xgboost.DMatrix(X, y), 40, callbacks=[stop]
    )
    laws = _laws(model, X_new)
    expected = [refinement_loss(y_new, law, loss="brier", random_state=2) for law in laws]
    np.testing.assert_allclose(stop.history, expected, atol=1e-7)
    assert int(np.argmin(expected)) == model.best_iteration == len(laws) - 5
    light = lightgbm_refinement_stopping(X_new, np.where(y_new == 1, "yes", "no"), rounds=4, random_state=2)
    trained = lightgbm.LGBMClassifier(n_estimators=40, learning_rate=0.8, **QUIET)
    trained.fit(X, np.where(y == 1, "yes", "no"), callbacks=[light])
    expected = [refinement_loss(y_new, law, random_state=2) for law in _laws(trained, X_new)]
    assert len(expected) == light.best_iteration + 1 == len(light.history) - 4  # lightgbm keeps no more
    np.testing.assert_allclose(light.history[:-4], expected, atol=1e-9)
    before = list(light.history)
    trained.fit(X, np.where(y == 1, "yes", "no"), callbacks=[light])  # the same callback once more
    assert light.history == before


def test_callbacks_are_copied_pickled_and_cut(hastie):
    X, y, X_new, y_new = hastie
    stop = xgboost_refinement_stopping(X_new, y_new, rounds=2, save_best=True)
    model = xgboost.XGBClassifier(n_estimators=30, learning_rate=1.0, n_jobs=1, callbacks=[stop])
    twin = clone(model).fit(X, y)
    assert stop.history == []
    model.fit(X, y)
    assert model.get_booster().num_boosted_rounds() == stop.best_iteration + 1
    assert twin.best_iteration == model.best_iteration
    assert pickle.loads(pickle.dumps(stop)).history == []  # noqa: S301
    longer = xgboost.train({"objective": "binary:logistic", "nthread": 1}, xgboost.DMatrix(X, y), 5)
    more = xgboost_refinement_stopping(X_new, y_new, rounds=3)
    both = xgboost.train(
        {"objective": "binary:logistic", "nthread": 1, "eta": 1.0},
        xgboost.DMatrix(X, y),
        30,
        xgb_model=longer,
        callbacks=[more],
    )
    assert both.best_iteration == more.best_iteration >= 5


def test_refusals_of_callbacks(hastie):
    X, y, X_new, y_new = hastie
    for make in (xgboost_refinement_stopping, lightgbm_refinement_stopping):
        for options, text in (
            ({"rounds": 0}, "rounds must be a whole number of at least 1; got 0."),
            ({"criterion": "auc"}, "criterion must be one of refinement, raw; got 'auc'."),
            ({"min_delta": -1}, "min_delta must be a nonnegative number; got -1."),
        ):
            with pytest.raises(InputError) as caught:
                make(X_new, y_new, **options)
            assert text in str(caught.value)
    for X_val, y_val, text in (
        (X_new, y_new[:-1], "X_val and y_val must have the same number of rows; got 600 and 599."),
        (X_new, np.zeros(600), "y_val must hold every class of the booster; got 1 of 2."),
    ):
        with pytest.raises(InputError) as caught:
            xgboost.XGBClassifier(n_estimators=2, callbacks=[xgboost_refinement_stopping(X_val, y_val)]).fit(X, y)
        assert text in str(caught.value)
    with pytest.raises(InputError, match=r"must be used with lightgbm\.train or fit; got lightgbm\.cv"):
        lightgbm.cv(
            {"objective": "binary", "verbose": -1}, lightgbm.Dataset(X, y), 2,
            callbacks=[lightgbm_refinement_stopping(X_new, y_new)],
        )  # fmt: skip
    with pytest.raises(InputError, match=r"must be used with xgboost\.train or fit; got xgboost\.cv"):
        xgboost.cv(
            {"objective": "binary:logistic"}, xgboost.DMatrix(X, y), 2,
            callbacks=[xgboost_refinement_stopping(X_new, y_new)],
        )  # fmt: skip


# ── stagewise recalibration ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("loss", ["log", "brier"])
def test_recalibrated_stages_of_a_finite_population(loss):
    """E ℓ(S̃) = E d(S̃, S) + E ℓ(S), by hand; merging costs nothing at a stage but may along the path."""
    model, scores, revealed = population()
    chosen = get_loss(loss)
    found = recalibrate_stages(model, scores, loss=loss)
    for t, s in enumerate(scores):
        c = model.level(revealed[t])
        assert found.divergence[t] == pytest.approx(model.prob @ chosen.divergence(s, c), abs=1e-13)
        assert found.recalibrated_loss[t] == pytest.approx(model.prob @ chosen.entropy(c), abs=1e-13)
        assert found.laws[t] == pytest.approx(c, abs=1e-13)
    assert found.divergence + found.recalibrated_loss == pytest.approx(found.loss, abs=1e-13)
    assert found.merged.tolist() == [0.0] * 4
    assert found.path_cost == pytest.approx(np.zeros(4), abs=1e-14)


def test_merged_scores_lose_what_they_knew_together():
    """XOR: each coin alone says nothing, P(Y | S̃) = 1/2 for both its faces; together they say all (0.25 − 0.09)."""
    model = FiniteModel([0.25] * 4, [0.9, 0.1, 0.1, 0.9])
    text = r"P\(Y \| S\) makes 100\.0 % of the pairs of different scores equal at stage 1 \(more than 1 % at 2 of 2"
    with pytest.warns(LostResolutionWarning, match=text):
        found = recalibrate_stages(model, [[0.4, 0.4, 0.6, 0.6], [0.4, 0.6, 0.4, 0.6]], loss="brier")
    assert found.merged.tolist() == [1.0, 1.0]
    assert found.cost.tolist() == [0.0, 0.0]
    assert found.path_cost == pytest.approx([0.0, 0.16])


def test_recalibrated_stages_of_a_sample():
    stages, y = overconfident(800)
    found = recalibrate_stages(y, stages, calibrator="platt", clip=1e-6, random_state=0)
    assert found.divergence + found.recalibrated_loss == pytest.approx(found.loss, abs=1e-12)
    assert found.divergence[5] > 10 * abs(found.divergence[0])
    assert found.merged.max() == 0.0
    from scoreprism.calibrators import BinningCalibrator

    lost = pytest.warns(LostResolutionWarning, match=r"binning makes .* % of the pairs")
    with (
        lost,
        pytest.warns(OverfitWarning, match="^Stage 6: The calibration map C overfits: "),
    ):  # edges move from fold to fold
        coarse = recalibrate_stages(
            y, stages, calibrator=BinningCalibrator(n_bins=3), clip=1e-6, random_state=0, n_jobs=2
        )
    assert coarse.merged == pytest.approx(np.full(6, 1 / 3), abs=0.02)  # three bins of equal mass
    assert (coarse.cost[1:] > 2 * coarse.cost_std_error[1:]).all()
    assert coarse.to_frame("polars").shape[0] == 6
    with pytest.raises(InputError, match="stages to be recalibrated must be scores; got levels"):
        recalibrate_stages(y, [Level("a", stages[0])])


# ── figures ─────────────────────────────────────────────────────────────────────────────────────────────


def test_figures_of_stages(hastie, boosted):
    import matplotlib.pyplot as plt

    _, _, X, y = hastie
    found = stagewise_decomposition(y, boosted, X, calibrator="platt", reference="logistic", grid=4, random_state=0)
    display = found.plot()
    assert len(display.axes_) == 2
    assert [bar.get_height() for bar in display.bar_] == list(found.gains.values())
    assert found.plot(kind="gains").ax_.get_ylabel() == "information gained in nats"
    assert found.plot(kind="stages").ax_.get_ylabel() == "log loss"
    with pytest.raises(InputError, match="kind must be one of both, stages, gains"):
        found.plot(kind="pie")
    choice = select_stage(y, boosted, X, random_state=0)
    drawn = choice.plot()
    assert drawn.line_[1].get_ydata().tolist() == choice.stages.recalibrated_loss.tolist()
    _, ax = plt.subplots()
    assert choice.plot(ax=ax).ax_ is ax
    assert "<table" in found._repr_html_()
    plt.close("all")


def test_warnings_of_stages_are_said_once():
    """A score that ranks the wrong way round is warned of at every stage, and said once."""
    scores, y = gaussian_filtration(300, 0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        stagewise_decomposition(y, list(1 - scores.T), calibrator="platt", reference="logistic", random_state=0)
    kinds = [one.category.__name__ for one in caught]
    reversed_ = [one.message for one in caught if one.message.finding.kind == "reversed_scores"]
    assert [(one.finding.facts["stage"], one.finding.facts["others"]) for one in reversed_] == [(2, 4)]
    assert str(reversed_[0]).startswith("Stage 2 and 4 others: Scores are read as the probability of ")
    assert len(kinds) <= 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        flat = stagewise_decomposition(
            y, [np.full(300, 0.5), scores[:, 1]], calibrator=PlattCalibrator(), reference="logistic", random_state=0
        )
    assert flat.gains["gain 1 → 2"] > 0


# ── what a new user runs into ───────────────────────────────────────────────────────────────────────────


def probit(n, seed, test=4000):
    """Y = 1{x0 + N(0, 1) > 0} with five normal features."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + test, 5))
    y = (X[:, 0] + rng.normal(size=n + test) > 0).astype(int)
    return X[:n], y[:n], X[n:], y[n:]


SLOW_LEARNER = xgboost.XGBClassifier(n_estimators=30, learning_rate=0.1, max_depth=3, n_jobs=1)


@pytest.mark.parametrize("n", [60, 100])
def test_few_held_out_rows_are_not_recalibrated_by(n):
    """12 and 20 held-out rows: Platt's map on them multiplied the loss (benchmark of docs/stages.md)."""
    X, y, X_new, _ = probit(n, 0)
    with pytest.warns(ScoreprismWarning, match=r"held-out rows, \d+ of them outside the most frequent class, are too"):
        model = RefinedBoostingClassifier(SLOW_LEARNER, random_state=0).fit(X, y)
    assert not model.recalibrated_
    assert model.calibrator_.name == "identity"
    assert model.stage_ == model.selection_.raw_stage
    law = _laws(model.estimator_, X_new)[model.stage_ - 1]
    np.testing.assert_allclose(model.predict_proba(X_new)[:, 1], law, atol=1e-7)
    with pytest.warns(ScoreprismWarning):
        refit = RefinedBoostingClassifier(SLOW_LEARNER, random_state=0, refit=True).fit(X, y)
    assert refit.calibrator_.name == "identity"


def test_a_map_is_kept_only_where_it_pays(hastie):
    """The sign of the nested gain over the raw choice decides, for every seed."""
    kept = set()
    for seed in range(3):
        X, y, *_ = probit(300, seed, 1)
        model = RefinedBoostingClassifier(SLOW_LEARNER, random_state=seed).fit(X, y)
        assert model.recalibrated_ == (model.selection_.gain_over_raw.value > 0)
        assert model.stage_ == (model.selection_.stage if model.recalibrated_ else model.selection_.raw_stage)
        assert (model.calibrator_.name == "identity") == (not model.recalibrated_)
        kept.add(model.recalibrated_)
    assert False in kept  # a slow learner is calibrated already
    X, y, *_ = hastie
    bold = GradientBoostingClassifier(n_estimators=40, learning_rate=1.0, max_depth=4, random_state=0)
    assert RefinedBoostingClassifier(bold, validation_fraction=0.5, random_state=0).fit(X, y).recalibrated_


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore::scoreprism.exceptions.ScoreprismWarning")
def test_small_data_are_not_made_worse():
    """20 data sets each: not more than .02 above the same booster with all its rounds, where it was .1 at n = 60."""
    for n in (60, 100, 200, 400):
        gaps = []
        for seed in range(1000, 1020):
            X, y, X_new, y_new = probit(n, seed)
            model = RefinedBoostingClassifier(SLOW_LEARNER, random_state=seed).fit(X, y)
            ours, own = model.predict_proba(X_new)[:, 1], _laws(model.estimator_, X_new)[-1]
            gaps.append((get_loss("log").loss(ours, y_new) - get_loss("log").loss(own, y_new)).mean())
        assert np.mean(gaps) < 0.02, n


def test_rows_in_another_order_are_refused(hastie, boosted):
    pd = pytest.importorskip("pandas")
    stages, y = overconfident(200)
    order = np.random.default_rng(0).permutation(200)
    label = pd.Series(y)[order]
    series = [pd.Series(s) for s in stages]
    X = pd.DataFrame(hastie[2][:200], columns=[f"x{i}" for i in range(10)])
    plain = GradientBoostingClassifier(n_estimators=2, random_state=0)
    weight = pd.Series(np.ones(200))
    text = "must have their rows in the same order; got indexes with the same labels in another order."
    calls = {
        "select": lambda: select_stage(label, series),
        "model": lambda: select_stage(label, boosted, X.to_numpy(), sample_weight=weight),
        "features": lambda: select_stage(label, plain.fit(X[:50], y[:50]), X),
        "stagewise": lambda: stagewise_decomposition(label, series),
        "second": lambda: stagewise_decomposition(y, [series[0], series[1][order]]),
        "recalibrate": lambda: recalibrate_stages(label, series),
        "loss": lambda: refinement_loss(label, series[0]),
        "fit": lambda: RefinedBoostingClassifier(plain).fit(X, label),
        "eval_set": lambda: RefinedBoostingClassifier(plain).fit(X, y, eval_set=(X, label)),
        "xgboost": lambda: xgboost_refinement_stopping(X, label),
        "lightgbm": lambda: lightgbm_refinement_stopping(X, label),
    }
    for name, call in calls.items():
        with pytest.raises(InputError) as caught:
            call()
        assert text in str(caught.value), name
    assert "y_true and y_proba" in _said(lambda: refinement_loss(label, series[0]))
    assert "X_val and y_val" in _said(lambda: lightgbm_refinement_stopping(X, label))


def _said(call):
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


def test_pipelines_on_their_training_rows_are_found_out(hastie):
    pd = pytest.importorskip("pandas")
    X, y, X_new, _ = hastie
    for last in (GradientBoostingClassifier(n_estimators=3), lightgbm.LGBMClassifier(n_estimators=3, **QUIET)):
        model = make_pipeline(StandardScaler(), StandardScaler(), last).fit(X, y)
        with pytest.warns(DoubleUseWarning, match=f"{type(last).__name__} was trained on these rows"):
            read_stages(model, X)
        read_stages(model, X_new)
    framed = pd.DataFrame(X, columns=[f"x{i}" for i in range(10)])
    scaler = StandardScaler().set_output(transform="pandas")
    search = GridSearchCV(make_pipeline(scaler, DecisionTreeClassifier(max_depth=3)), {}, cv=2).fit(framed, y)
    with pytest.warns(DoubleUseWarning, match="DecisionTreeClassifier was trained on these rows"):
        decompose(y, search, framed, calibrator="platt", reference="logistic", random_state=0)


@pytest.mark.filterwarnings("ignore:Stage .*The calibration map C overfits")
def test_three_classes_are_recalibrated_by_default(digits):
    X, y, X_new, y_new = digits
    model = GradientBoostingClassifier(n_estimators=3, random_state=0).fit(X, y)
    found = recalibrate_stages(y_new, model, X_new, random_state=0)
    assert found.calibrator == "temperature"
    assert found.divergence + found.recalibrated_loss == pytest.approx(found.loss, abs=1e-12)
    same = recalibrate_stages(y_new, model, X_new, calibrator="temperature", random_state=0)
    assert same.to_dict()["loss"] == found.to_dict()["loss"]
    stages, y2 = overconfident(200)
    assert recalibrate_stages(y2, stages[:1], random_state=0).calibrator == "isotonic"


def test_equal_choices_and_a_gain_do_not_contradict_each_other():
    scores, y = gaussian_filtration(600, 0)
    stages = [expit(k * logit(scores[:, t])) for t, k in enumerate((1, 1, 1, 1.5, 2, 2))]
    found = select_stage(y, stages, random_state=0)
    assert found.stage == found.raw_stage == 6
    assert len(set(found.chosen)) > 1
    said = " ".join(repr(found).split())
    assert "On unseen rows, choosing the stage by the recalibrated loss gains 0.0" in said
    assert "Stages chosen with each of 5 folds left out: 6 by the recalibrated loss; 4, 6 by the raw loss." in said
    steady = select_stage(y, stages[:3], random_state=0)
    assert steady.gain.value == steady.gain.low == steady.gain.high == 0.0
    text = "Both rules choose the same stages (3), whichever of the 5 folds is left out: no difference."
    assert text in repr(steady)
    assert "gains" not in repr(steady)


def test_stages_are_whole_numbers_where_they_can_be(hastie, boosted):
    pytest.importorskip("polars")
    X, y, X_new, y_new = hastie
    found = select_stage(y_new, boosted, X_new, random_state=0)
    GradientBoostingClassifier(n_estimators=found.stage).fit(X[:50], y[:50])
    whole = [found.stage, found.raw_stage, *found.alike, *(number for pair in found.chosen for number in pair)]
    assert {type(number) for number in whole} == {int}
    assert str(found.stages.to_frame("polars")["stage"].dtype) == "Int64"
    assert json.dumps(found.to_dict()["stage"]) == "12"
    stages, labels = overconfident(200)
    halves = select_stage(labels, {0.5: stages[0], 1.0: stages[1]}, random_state=0)
    assert type(halves.stage) is float
    assert str(halves.stages.to_frame("polars")["stage"].dtype) == "Float64"
    chain = stagewise_decomposition(labels, stages[:2], calibrator="platt", reference="logistic", random_state=0)
    assert [type(number) for number in chain.grid] == [int, int]


def test_predicted_labels_are_found_out(hastie, boosted):
    _, _, X, y = hastie
    hard = list(boosted.staged_predict(X))
    calls = [
        lambda: select_stage(y, boosted.staged_predict(X), random_state=0),
        lambda: stagewise_decomposition(y, hard[:1], loss="brier", calibrator="platt", random_state=0),
        lambda: recalibrate_stages(y, hard[:1], loss="brier", calibrator="platt", random_state=0),
        lambda: refinement_loss(y, hard[0]),
    ]
    for call in calls:
        with pytest.warns(HardLabelsWarning, match=r"only 0 and 1: are these predicted labels\?"):
            call()
    with pytest.warns(HardLabelsWarning, match="stage 1 and 11 more hold only 0 and 1"):
        read_stages(hard)
    read_stages([Level("known", y)])  # a law that is known may be certain


def test_messages_speak_of_what_was_passed(hastie):
    X, y, X_new, y_new = hastie
    stages, labels = overconfident(100)
    used = iter(stages)
    list(used)
    cases = {
        "stages must hold at least one; got no stages.": lambda: select_stage(labels, []),
        "stages must hold at least one; got no stages. ": lambda: select_stage(labels, {}),
        "got no stages, from a generator that is used up.": lambda: select_stage(labels, used),
        "y_proba must hold probabilities between 0 and 1": lambda: refinement_loss(labels, stages[0] + 1),
        "y_true and y_proba must have the same number of rows": lambda: refinement_loss(labels[1:], stages[0]),
        "a model as stage 2 must be fitted": lambda: select_stage(
            y_new, [LogisticRegression().fit(X, y), LogisticRegression()], X_new
        ),
    }
    for text, call in cases.items():
        assert text in _said(call)
    one = stagewise_decomposition(labels, stages[:1], calibrator="platt", reference="logistic", random_state=0)
    for result in (select_stage(labels, stages[:1], random_state=0), one, one.stages):
        assert "1 stage" in repr(result)
        assert "1 stages" not in repr(result)


def test_a_path_of_one_stage_compresses_nothing():
    stages, y = overconfident(200)
    options = {"calibrator": "platt", "reference": "logistic", "random_state": 0}
    for grid in (1, [6], [1, 3]):  # one stage, or a path that does not end at the last score
        found = stagewise_decomposition(y, stages, grid=grid, **options)
        assert found.compression is None
        assert "the last score alone" not in repr(found)
    assert stagewise_decomposition(y, stages, grid=[1, 6], **options).compression is not None
    model, scores, _ = population()
    assert stagewise_decomposition(model, scores, grid=1).compression is None


def test_groups_are_held_out_as_a_whole(hastie):
    X, y, X_new, y_new = hastie
    groups = np.repeat(np.arange(120), 5)
    seen = []

    class Booster(GradientBoostingClassifier):
        def fit(self, X, y, sample_weight=None):
            seen.append(X)
            return super().fit(X, y, sample_weight)

    booster = Booster(n_estimators=4, random_state=0)
    model = RefinedBoostingClassifier(booster, random_state=0).fit(X, y, groups=groups)
    trained = {row.tobytes() for row in seen[0]}
    inside = np.array([row.tobytes() in trained for row in X]).reshape(120, 5)
    assert (inside.all(axis=1) | ~inside.any(axis=1)).all()
    assert model.selection_.n == 120  # a fifth of the groups
    pair = RefinedBoostingClassifier(booster, random_state=0).fit(X, y, eval_set=(X_new, y_new))
    listed = RefinedBoostingClassifier(booster, random_state=0).fit(X, y, eval_set=[(X_new, y_new)])
    assert listed.selection_.to_dict() == pair.selection_.to_dict()
    refined = RefinedBoostingClassifier(booster)
    cases = {
        "groups must be left out with eval_set; got both.": lambda: refined.fit(
            X, y, groups=groups, eval_set=(X_new, y_new)
        ),
        "eval_set must be (X, y) or (X, y, sample_weight); got 2 of them.": lambda: refined.fit(
            X, y, eval_set=[(X, y), (X_new, y_new)]
        ),
        "groups must be enough to hold some out; got 1.": lambda: refined.fit(X, y, groups=np.zeros(600)),
        "held-out groups must hold at least 2 of each class": lambda: refined.fit(
            X, y, groups=2 * y + (np.arange(600) < 60)
        ),
        "groups and y_true must have the same number of rows": lambda: refined.fit(X, y, groups=groups[1:]),
        "X of eval_set and y of eval_set must have the same number of rows": lambda: refined.fit(
            X, y, eval_set=(X_new, y_new[1:])
        ),
    }
    for text, call in cases.items():
        assert text in _said(call)


def test_tables_of_stages_show_themselves():
    stages, y = overconfident(300)
    found = recalibrate_stages(y, stages, calibrator="platt", clip=1e-6, random_state=0)
    lines = repr(found).splitlines()
    assert lines[0] == "StageRecalibration: log loss before and after platt; 6 stages, 1 to 6"
    assert lines[1].split() == [
        "stage",
        "loss",
        "reliability",
        "recalibrated",
        "cost",
        "cost",
        "std",
        "error",
        "merged",
    ]
    assert set(lines[2]) == {"─"}
    assert lines[3].split()[:2] == ["1", f"{found.loss[0]:.5f}"]
    assert "<table" in found._repr_html_()
    long = select_stage(y, [stages[t % 6] for t in range(40)], cv=3, random_state=0).stages
    assert len(repr(long).splitlines()) == 3 + 11
    assert "…" in repr(long)
    assert "<table" in long._repr_html_()
    chain = stagewise_decomposition(y, stages, calibrator="platt", reference="logistic", clip=1e-6, random_state=0)
    assert f"{chain.stages.refinement[3]:.5f}" in repr(chain.stages)


@pytest.mark.filterwarnings("ignore")
def test_infinite_losses_can_be_written_as_json():
    stages, y = overconfident(200)
    wrong = stages[1].copy()
    wrong[:5] = 1 - y[:5]
    for given in ([stages[0], wrong], [wrong, wrong]):
        choice = select_stage(y, given, random_state=0)
        recalibrated = recalibrate_stages(y, given, random_state=0)
        chain = stagewise_decomposition(y, given, calibrator="platt", reference="logistic", random_state=0)
        assert "inf" in choice.stages.to_dict()["raw_loss"]
        parts = (choice, choice.stages, choice.gain, choice.gain_over_raw, recalibrated, chain, chain.stages)
        for part in parts:
            assert "NaN" not in part.to_json()


@pytest.mark.filterwarnings("ignore::scoreprism.exceptions.LostResolutionWarning")
def test_figures_of_few_stages_and_on_small_axes():
    import matplotlib.pyplot as plt
    from matplotlib.colors import to_rgba

    stages, y = overconfident(300)
    options = {"calibrator": "platt", "clip": 1e-6, "random_state": 0}
    one, two, six = (stagewise_decomposition(y, stages[:t], reference="logistic", **options) for t in (1, 2, 6))
    alone = one.plot()
    assert len(alone.axes_) == 1  # no empty panel of gains
    assert [text.get_text() for text in alone.ax_.get_xticklabels()] == ["1"]
    assert "gains must be between two stages of the grid; got one stage." in _said(lambda: one.plot(kind="gains"))
    gains = two.plot(kind="gains").ax_
    low, high = gains.get_xlim()
    assert 0.7 / (high - low) < 0.25  # one bar is a bar
    fig, ax = plt.subplots(figsize=(3, 2))
    small = six.plot(ax=ax)
    assert len(small.axes_) == 1
    assert len(ax.get_legend().get_texts()) == 3
    plt.close(fig)
    choice = select_stage(y, stages[:3], random_state=0)
    ring, diamond = choice.plot().best_
    assert ring.get_fillstyle() == "none"
    assert ring.get_markersize() > diamond.get_markersize()
    with plt.style.context("dark_background"):
        band = choice.plot().ax_.collections[0]
    assert to_rgba(band.get_facecolor()[0])[3] >= 0.3
    found = recalibrate_stages(y, stages, **options)
    display = found.plot()
    assert display.line_[0].get_ydata().tolist() == found.loss.tolist()
    assert display.line_[1].get_ydata().tolist() == found.recalibrated_loss.tolist()
    plt.close("all")


# ── a Sample in place of arrays ─────────────────────────────────────────────────────────────────────────


def test_stages_are_numbered_sequences_of_probabilities():
    y, s = np.arange(60) % 2, np.linspace(0.1, 0.9, 60)
    remedy = "For example list(model.staged_predict_proba(X)), or {1: p1, 10: p10}."
    for stages, text in (
        (s, "stages must be a mapping or a sequence of probabilities; got ndarray."),
        (s.tolist(), "stages must be a mapping or a sequence of probabilities; got list."),
        ([], "stages must hold at least one; got no stages."),
        ({"first": s}, "stages must be numbered; got ['first']."),
        ({}, "stages must hold at least one; got no stages."),
        ({1: s, "1": s}, "stages must have different finite numbers, at least one; got [1.0, 1.0]."),
        ({np.nan: s}, "stages must have different finite numbers, at least one; got [nan]."),
    ):
        with pytest.raises(InputError) as caught:
            stagewise_decomposition(y, stages)
        assert str(caught.value) == f"{text} {remedy}"


def test_a_sample_holds_stages_by_number():
    """Models that are named by numbers are stages; rows of weight 0 are absent from them."""
    rng = np.random.default_rng(4)
    z = rng.normal(size=300)
    y, weight = (rng.random(300) < expit(z)).astype(int), np.repeat([1.0, 0.0, 2.0], 100)
    stages = {10: expit(2 * z), 1: expit(0.3 * z)}
    sample, options = Sample.of(y, stages, sample_weight=weight), {"loss": "brier", "cv": KFold(4)}
    assert stagewise_decomposition(sample, **options).grid == (1, 10)
    for function in (stagewise_decomposition, select_stage):
        assert repr(function(sample, **options)) == repr(function(y, stages, sample_weight=weight, **options))
    with pytest.raises(InputError, match="at least 3 folds, for choices are nested in them; got 2"):
        select_stage(sample, loss="brier", cv=KFold(3))  # one of them holds rows of weight 0 only
    found = recalibrate_stages(sample, calibrator="platt", **options)
    assert np.isnan(found.laws[0]).tolist() == (weight == 0).tolist()
    assert refinement_loss(sample.model("1")) == refinement_loss(y, stages[1], sample_weight=weight)
    with pytest.raises(InputError, match="Pass the Sample alone"):
        select_stage(sample, stages)
    with pytest.raises(InputError, match="stages must be given; got None"):
        select_stage(y)
    with pytest.raises(InputError, match="y_true must be given; got None"):
        select_stage(None, stages)
    with pytest.raises(InputError, match="stages must be numbered"):
        select_stage(Sample.of(y, {"a": stages[1], "b": stages[10]}))


@pytest.mark.parametrize("function", [stagewise_decomposition, select_stage, recalibrate_stages])
def test_the_old_order_of_arguments_is_refused_by_name(function):
    """Until 0.1 stages came before outcomes; whichever form they come in, the error names the order."""
    scores, y = gaussian_filtration(100, 0)
    stages = list(scores.T)
    model = GradientBoostingClassifier(n_estimators=2).fit(scores, y)
    for first in (stages, dict(enumerate(stages)), iter(stages), [Level("a", stages[0])], model):
        with pytest.raises(InputError, match=re.escape("got stages first. The order is (y_true, stages, X)")):
            function(first, y, scores)
    with pytest.raises(InputError, match="a Sample takes the place of y_true"):
        function(None, Sample.of(y, dict(enumerate(stages))))


def test_a_chain_of_stages_is_renamed_as_a_whole():
    """Terms that are muted, and the chain that other losses are decomposed by, have the names of the result."""
    rng = np.random.default_rng(5)
    z = rng.normal(size=200)
    found = stagewise_decomposition((rng.random(200) < expit(z)).astype(int), [expit(0.5 * z), expit(z)]).decomposition
    assert set(found.muted) <= set(found.names)
    assert found.chain.decompose("brier").names == found.names
