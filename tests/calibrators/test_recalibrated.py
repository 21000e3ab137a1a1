"""RecalibratedClassifier: cross-fitted and prefit, weights and metadata, and never on the rows it was trained on."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GroupKFold, StratifiedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from scoreprism.calibrators import CALIBRATORS, IsotonicCalibrator, PlattCalibrator, RecalibratedClassifier
from scoreprism.datasets import CopulaLaw
from scoreprism.exceptions import ContradictedOrderWarning, InputError, LabelError


@pytest.fixture(scope="module")
def data():
    X, y, _ = CopulaLaw(rho=0.5).sample(1200, random_state=0)
    return X[:800], y[:800], X[800:], y[800:]


TEXTBOOK = IsotonicCalibrator(interpolation="linear", shrink=False, clip=0)


@pytest.mark.parametrize("ensemble", [True, False])
def test_equals_scikit_learn_with_the_same_map(data, ensemble):
    """CalibratedClassifierCV(method="isotonic") of scikit-learn is the same construction around its own PAV."""
    X, y, new, _ = data
    ours = RecalibratedClassifier(LinearSVC(), TEXTBOOK, cv=4, ensemble=ensemble).fit(X, y)
    theirs = CalibratedClassifierCV(LinearSVC(), method="isotonic", cv=4, ensemble=ensemble).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=1e-7)
    assert len(ours.calibrated_) == (4 if ensemble else 1)


def test_platt_on_decision_values_equals_scikit_learn_up_to_its_stopping_rule(data):
    X, y, new, _ = data
    ours = RecalibratedClassifier(LinearSVC(), PlattCalibrator(smooth_targets=True), cv=3).fit(X, y)
    theirs = CalibratedClassifierCV(LinearSVC(), method="sigmoid", cv=3).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=2e-4)


@pytest.mark.parametrize("name", CALIBRATORS)
def test_every_map_by_name(data, name):
    X, y, new, truth = data
    model = RecalibratedClassifier(GaussianNB(), name, cv=3, random_state=0).fit(X, y)
    law = model.predict_proba(new)
    np.testing.assert_allclose(law.sum(axis=1), 1.0, atol=1e-12)
    assert log_loss(truth, law) < 0.7


def test_recalibration_repairs_an_overconfident_forest(data):
    X, y, new, truth = data
    forest = RandomForestClassifier(100, random_state=0, min_samples_leaf=1)
    raw = forest.fit(X, y).predict_proba(new)
    model = RecalibratedClassifier(forest, random_state=0).fit(X, y)
    assert log_loss(truth, model.predict_proba(new)) < log_loss(truth, np.clip(raw, 1e-3, 1 - 1e-3)) - 0.05


def test_a_frozen_classifier_keeps_its_fit(data):
    X, y, new, _ = data
    base = LogisticRegression().fit(X[:400], y[:400])
    before = base.coef_.copy()
    model = RecalibratedClassifier(FrozenEstimator(base), "beta").fit(X[400:], y[400:])
    np.testing.assert_array_equal(base.coef_, before)
    scores = base.predict_proba(X[400:])[:, 1]
    expected = CALIBRATORS["beta"]().fit(scores, y[400:]).predict_proba(base.predict_proba(new)[:, 1])
    np.testing.assert_array_equal(model.predict_proba(new), expected)
    assert len(model.calibrated_) == 1


def test_splits_that_overlap_are_refused(data):
    X, y, _, _ = data
    everything = np.arange(len(y))
    with pytest.raises(InputError) as error:
        RecalibratedClassifier(GaussianNB(), "platt", cv=[(everything, everything[:50])]).fit(X, y)
    assert str(error.value) == (
        "the map must not be fitted on rows its classifier was trained on; got 50 rows in both parts of split 0 "
        "(row 0, 1, 2, 3, 4, …). Use splits whose parts do not overlap."
    )


def test_prefit_is_spelled_frozen(data):
    X, y, _, _ = data
    with pytest.raises(InputError) as error:
        RecalibratedClassifier(GaussianNB().fit(X, y), "platt", cv="prefit").fit(X, y)
    assert str(error.value) == (
        "cv must be a number of folds, a splitter or an iterable of splits; got 'prefit'. For a classifier that is "
        "already fitted, pass FrozenEstimator(classifier) and held-out rows."
    )


class Memory(ClassifierMixin, BaseEstimator):
    """A classifier that remembers its training rows and gives them away in its scores."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.seen_ = set(np.asarray(X)[:, 0].tolist())
        return self

    def predict_proba(self, X):
        seen = np.array([v in self.seen_ for v in np.asarray(X)[:, 0]])
        assert not seen.any(), "asked to score a row it was trained on"
        return np.column_stack([np.full(len(X), 0.4), np.full(len(X), 0.6)])


@pytest.mark.parametrize("ensemble", [True, False])
def test_no_row_is_scored_by_a_classifier_that_saw_it(ensemble):
    X = np.arange(100.0)[:, None]
    RecalibratedClassifier(Memory(), "platt", ensemble=ensemble).fit(X, np.tile([0, 1], 50))


def test_classes_a_frozen_classifier_does_not_know(data):
    X, y, _, _ = data
    base = FrozenEstimator(LogisticRegression().fit(X, y))
    with pytest.raises(LabelError) as error:
        RecalibratedClassifier(base, "platt").fit(X, y + 1)
    assert str(error.value) == (
        "a frozen classifier must know the classes in y, and y must hold all of them; got 1, 2 in y and 0, 1 in the "
        "classifier. Calibrate on rows with the labels it was trained on."
    )


def test_too_few_rows_of_a_class(data):
    X = data[0]
    labels = np.zeros(40, dtype=int)
    labels[:3] = 1
    with pytest.raises(InputError) as error:
        RecalibratedClassifier(GaussianNB()).fit(X[:40], labels)
    assert str(error.value) == (
        "Requesting 5-fold cross-validation must leave every class at least 5 rows; got 3 rows of class 1. Use fewer folds."
    )


def test_a_classifier_without_scores(data):
    from sklearn.neighbors import NearestCentroid

    class Bare(NearestCentroid):
        predict_proba = decision_function = property()

    X, y, _, _ = data
    with pytest.raises(InputError, match="estimator must have predict_proba or decision_function; got Bare"):
        RecalibratedClassifier(Bare(), "platt").fit(X, y)


@pytest.mark.parametrize("name", ["auto", "temperature", "isotonic", "dirichlet"])
def test_three_classes(name):
    X, y = make_classification(600, 6, n_informative=4, n_classes=3, random_state=0)
    labels = np.array(["x", "y", "z"])[y]
    model = RecalibratedClassifier(GaussianNB(), name, cv=3, random_state=0).fit(X, labels)
    assert model.predict_proba(X).shape == (600, 3)
    assert set(model.predict(X)) <= {"x", "y", "z"}
    assert log_loss(labels, model.predict_proba(X)) < log_loss(labels, GaussianNB().fit(X, labels).predict_proba(X))


def test_frames_and_sparse_rows(data):
    X, y, _, _ = data
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = RecalibratedClassifier(LogisticRegression(), "platt").fit(frame, pd.Series(y))
    assert model.feature_names_in_.tolist() == ["a", "b"]
    expected = RecalibratedClassifier(LogisticRegression(), "platt").fit(X, y).predict_proba(X)
    np.testing.assert_allclose(model.predict_proba(frame), expected, atol=1e-12)
    sparse = RecalibratedClassifier(LogisticRegression(), "platt").fit(csr_matrix(X), y).predict_proba(csr_matrix(X))
    np.testing.assert_allclose(sparse, expected, atol=1e-5)


def test_weights_reach_the_classifier_and_the_map(data):
    X, y, _, _ = data
    weight = np.random.default_rng(0).random(len(y)) + 0.1
    model = RecalibratedClassifier(LogisticRegression(), "platt", cv=2).fit(X, y, sample_weight=weight)
    (train, test), _ = StratifiedKFold(2).split(X, y)
    base = LogisticRegression().fit(X[train], y[train], sample_weight=weight[train])
    platt = PlattCalibrator().fit(base.predict_proba(X[test])[:, 1], y[test], sample_weight=weight[test])
    assert model.calibrated_[0].calibrator.slope_ == platt.slope_


def test_metadata_routing_carries_weights_and_groups(data):
    X, y, _, _ = data
    groups = np.arange(len(y)) // 10
    with sklearn.config_context(enable_metadata_routing=True):
        base = LogisticRegression().set_fit_request(sample_weight=True)
        model = RecalibratedClassifier(base, "platt", cv=GroupKFold(4))
        model.fit(X, y, sample_weight=np.ones(len(y)), groups=groups)
        plain = RecalibratedClassifier(base, "platt", cv=list(GroupKFold(4).split(X, y, groups))).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), atol=1e-12)


def test_inside_cross_validation_and_parallel(data):
    X, y, _, _ = data
    model = RecalibratedClassifier(GaussianNB(), "isotonic", random_state=0, n_jobs=2)
    assert cross_val_score(model, X, y, cv=2, scoring="neg_log_loss").mean() > -0.7
    one = RecalibratedClassifier(GaussianNB(), "isotonic", random_state=0).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(model.fit(X, y).predict_proba(X), one)


def test_one_vs_one_decision_values_are_not_logits():
    from sklearn.datasets import load_iris
    from sklearn.svm import SVC

    X, y = load_iris(return_X_y=True)
    model = RecalibratedClassifier(SVC(decision_function_shape="ovo"), "temperature", cv=3).fit(X, y)
    assert model.score(X, y) > 0.9


def test_classes_missing_from_a_part_are_refused():
    X, y = np.arange(60.0)[:, None], np.repeat([0, 1, 2], 20)
    with pytest.raises(InputError) as error:
        RecalibratedClassifier(GaussianNB(), "temperature", cv=[(np.arange(40), np.arange(20, 60))]).fit(X, y)
    assert str(error.value).startswith("the map must not be fitted on rows its classifier was trained on")
    with pytest.raises(InputError) as error:
        RecalibratedClassifier(GaussianNB(), "temperature", cv=[(np.arange(40), np.arange(40, 60))]).fit(X, y)
    assert str(error.value) == (
        "every class must be in both parts of every split; got no 2 in the training part of split 0. "
        "Use stratified or shuffled splits."
    )
    with pytest.raises(InputError, match="the map must not be fitted on rows"):  # rows counted from the end
        RecalibratedClassifier(GaussianNB(), "temperature", cv=[(np.arange(-60, 0), np.arange(60))]).fit(X, y)


def test_groups_reach_the_splitter_without_routing(data):
    X, y, _, _ = data
    groups = np.arange(len(y)) // 10
    ours = RecalibratedClassifier(GaussianNB(), "platt", cv=GroupKFold(4)).fit(X, y, groups=groups)
    plain = RecalibratedClassifier(GaussianNB(), "platt", cv=list(GroupKFold(4).split(X, y, groups))).fit(X, y)
    np.testing.assert_array_equal(ours.predict_proba(X), plain.predict_proba(X))


def test_weights_a_classifier_does_not_take_are_spoken_of(data):
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from scoreprism.exceptions import ScoreprismWarning

    X, y, _, _ = data
    model = RecalibratedClassifier(make_pipeline(StandardScaler(), LogisticRegression()), "platt")
    with pytest.warns(
        ScoreprismWarning, match="Pipeline.fit does not take sample_weight: the weights are used for the map only"
    ):
        model.fit(X, y, sample_weight=np.ones(len(y)))


def test_the_seed_reaches_maps_inside_maps():
    from scoreprism.calibrators import OneVsRestCalibrator, VennAbersCalibrator

    X, y = make_classification(300, 6, n_informative=4, n_classes=3, random_state=0)
    model = RecalibratedClassifier(
        GaussianNB(), OneVsRestCalibrator(VennAbersCalibrator(cv=3, random_state=None)), cv=3, random_state=0
    )
    np.testing.assert_array_equal(model.fit(X, y).predict_proba(X), model.fit(X, y).predict_proba(X))


def test_the_default_map_keeps_the_ranking_and_warns_once_where_the_data_contradict_it():
    """A frozen score whose C = P(Y | S) falls on a fifth of its range; AUC on fresh rows is that of the score."""
    from sklearn.metrics import roc_auc_score

    class Score(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.classes_ = np.unique(y)
            return self

        def predict_proba(self, X):
            return np.column_stack([1 - X[:, 0], X[:, 0]])

    rng = np.random.default_rng(0)
    X = rng.random((6000, 1))
    s = X[:, 0]
    y = (rng.random(6000) < np.where(np.abs(s - 0.5) < 0.1, 0.9, s)).astype(int)
    old, new = slice(0, 3000), slice(3000, None)
    for ensemble in (True, False):
        with pytest.warns(ContradictedOrderWarning) as caught:
            model = RecalibratedClassifier(Score(), ensemble=ensemble).fit(X[old], y[old])
        assert len(caught) == 1
        assert str(caught[0].message).startswith("The data contradict the order of the scores")
        assert (" of 5 folds; the figures are" in str(caught[0].message)) == ensemble
        assert "calibrator=SelectedCalibrator(order='any')" in str(caught[0].message)
        p = model.predict_proba(X[new])[:, 1]
        assert (np.diff(p[np.argsort(s[new])]) >= 0).all()
        assert roc_auc_score(y[new], p) == pytest.approx(roc_auc_score(y[new], s[new]), abs=0.01)  # ties only


@pytest.mark.parametrize("seed", [0, None])
def test_a_map_keeps_its_own_seed_where_the_model_has_none(data, seed):
    from scoreprism.calibrators import VennAbersCalibrator

    X, y = (rows[:300] for rows in data[:2])
    model = RecalibratedClassifier(GaussianNB(), VennAbersCalibrator(cv=3, random_state=7), cv=2, random_state=seed)
    seeds = {pair.calibrator.random_state for pair in model.fit(X, y).calibrated_}
    assert (seeds == {7}) == (seed is None)
