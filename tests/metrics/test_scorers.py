"""Scorers: the number of the metric, the loss or the term with its sign, as scikit-learn calls, clones and routes it."""

import math
import pickle

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.feature_selection import RFECV
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score, cross_validate
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from scoreprism import decompose
from scoreprism.exceptions import InputError
from scoreprism.losses import LOSSES, Brier, Tsallis, get_loss
from scoreprism.metrics import METRICS, SCORERS, evaluate, ici, scorer


@pytest.fixture(scope="module")
def two():
    """A fitted model of two classes called by words, and further rows."""
    X, y = make_classification(900, 6, flip_y=0.2, random_state=0)
    y = np.where(y == 1, "yes", "no")
    return LogisticRegression().fit(X[:300], y[:300]), X[300:], y[300:]


@pytest.fixture(scope="module")
def seven():
    """A fitted model of seven classes, and further rows."""
    X, y = make_classification(900, 8, n_classes=7, n_informative=6, random_state=0)
    return LogisticRegression().fit(X[:300], y[:300]), X[300:], y[300:]


@pytest.fixture(scope="module")
def three():
    """A fitted model of three classes, and further rows."""
    X, y = make_classification(900, 8, n_classes=3, n_informative=5, random_state=0)
    return LogisticRegression().fit(X[:300], y[:300]), X[300:], y[300:]


class TestNumbers:
    @pytest.mark.parametrize("name", METRICS)
    def test_a_metric_is_the_metric_with_a_sign(self, name, two, seven):
        model, X, y = seven if name == "top_k_accuracy" else two
        value = float(METRICS[name](y, model.predict_proba(X), classes=model.classes_))
        away = {
            "calibration_slope": value - 1.0,
            "observed_expected_ratio": math.log(abs(value)),
        }  # from the best value
        wanted = value if METRICS[name].ideal == math.inf else -abs(away.get(name, value))
        assert SCORERS[name](model, X, y) == wanted
        assert type(SCORERS[name](model, X, y)) is float

    @pytest.mark.parametrize("name", METRICS)
    def test_what_is_best_by_definition(self, name):
        """Ranks as large as can be, a slope and a ratio of 1, and no gap, balance or z at all."""
        best = dict.fromkeys(("auc", "macro_auc", "accuracy", "top_k_accuracy"), math.inf)
        best |= {"calibration_slope": 1.0, "observed_expected_ratio": 1.0}
        assert METRICS[name].ideal == best.get(name, 0.0)

    def test_probabilities_of_0_and_1_are_not_called_labels(self, two):
        """The scorer asked for probabilities itself; warnings are errors in this suite."""
        _, X, y = two
        tree = DecisionTreeClassifier(random_state=0).fit(X, y)
        assert set(np.unique(tree.predict_proba(X))) == {0.0, 1.0}
        assert SCORERS["brier"](tree, X, y) == 0.0
        assert SCORERS["ece"](tree, X, y) == 0.0

    @pytest.mark.parametrize("name", LOSSES)
    def test_a_loss_is_minus_the_mean_loss(self, name, two):
        model, X, y = two
        assert SCORERS[name](model, X, y) == pytest.approx(
            -get_loss(name).evaluate(model.predict_proba(X), (y == "yes").astype(int)).mean(), rel=1e-12
        )

    def test_the_log_loss_is_that_of_scikit_learn(self, three):
        model, X, y = three
        assert SCORERS["log"](model, X, y) == pytest.approx(-log_loss(y, model.predict_proba(X)), rel=1e-12)

    @pytest.mark.parametrize("loss", ["log", "brier"])
    def test_terms_are_those_of_decompose(self, loss, two):
        model, X, y = two
        d = decompose(y, model.predict_proba(X), classes=model.classes_, loss=loss)
        for name in ("reliability", "refinement"):
            assert scorer(name, loss=loss)(model, X, y) == -d.terms[name]
        assert scorer("resolution", loss=loss)(model, X, y) == d.resolution_form.terms["resolution"]

    def test_reliability_and_refinement_add_up_to_the_loss(self, three):
        model, X, y = three
        parts = [
            scorer(name, loss=Brier(), calibrator="temperature")(model, X, y) for name in SCORERS if name[:3] == "ref"
        ]
        parts += [scorer("reliability", loss="brier", calibrator="temperature")(model, X, y)]
        assert sum(parts) == pytest.approx(SCORERS["brier"](model, X, y), rel=1e-12)

    def test_options_reach_the_metric_and_the_loss(self, two):
        model, X, y = two
        p = model.predict_proba(X)[:, 1]
        ten = evaluate(y == "yes", p, metrics={"ece": {"n_bins": 10}}, n_resamples=2).estimates["ece"]
        assert scorer("ece", n_bins=10)(model, X, y) == -ten
        assert scorer("tsallis", alpha=1.5)(model, X, y) == pytest.approx(
            -Tsallis(alpha=1.5).evaluate(p, (y == "yes").astype(int)).mean()
        )

    def test_classes_are_those_of_the_estimator_even_where_a_fold_lacks_one(self, three):
        model, X, y = three
        some = y != 1  # columns 0 and 2 must not be read as 0 and 1
        hit = model.predict_proba(X[some])[np.arange(some.sum()), y[some]]
        assert SCORERS["log"](model, X[some], y[some]) == pytest.approx(np.log(hit).mean(), rel=1e-12)

    def test_weights_are_repetitions(self, two):
        model, X, y = two
        times = np.random.default_rng(0).integers(0, 3, y.size)
        repeated = SCORERS["ici"](model, np.repeat(X, times, axis=0), np.repeat(y, times))
        assert SCORERS["ici"](model, X, y, sample_weight=times) == pytest.approx(repeated, rel=1e-9)

    def test_no_event_expected_or_observed_is_as_bad_as_can_be(self):
        model = DummyClassifier(strategy="prior").fit(np.zeros((4, 1)), [0, 1, 1, 1])
        assert SCORERS["observed_expected_ratio"](model, np.zeros((9, 1)), np.zeros(9, int)) == -math.inf


class TestScikitLearn:
    def test_a_grid_search_finds_the_calibrated_model(self):
        X, y = make_classification(1200, 6, flip_y=0.2, random_state=1)
        search = GridSearchCV(
            LogisticRegression(),
            {"C": [1e-4, 1.0]},
            scoring={"r": scorer("reliability"), "i": scorer("ici")},
            refit="r",
        ).fit(X, y)
        assert search.best_params_ == {"C": 1.0}  # heavy shrinkage pulls all probabilities to the middle
        assert (np.diff(search.cv_results_["mean_test_i"]) > 0).all()

    def test_features_are_eliminated_by_a_scorer(self):
        X, y = make_classification(800, 6, n_informative=2, n_redundant=0, shuffle=False, random_state=0)
        ours, theirs = (RFECV(LogisticRegression(), scoring=one).fit(X, y) for one in (SCORERS["log"], "neg_log_loss"))
        assert ours.ranking_.tolist() == theirs.ranking_.tolist()

    def test_workers_get_it_pickled(self, two):
        _, X, y = two
        alone = cross_val_score(LogisticRegression(), X, y, scoring=SCORERS["ece"])
        assert cross_val_score(LogisticRegression(), X, y, scoring=SCORERS["ece"], n_jobs=2).tolist() == alone.tolist()

    def test_weights_are_routed_to_whoever_asked_for_them(self, two):
        _, X, y = two
        weight = np.random.default_rng(0).integers(1, 5, y.size).astype(float)
        folds = list(StratifiedKFold(3).split(X, y))
        with sklearn.config_context(enable_metadata_routing=True):
            scoring = {
                "with": scorer("ici").set_score_request(sample_weight=True),
                "without": scorer("ici").set_score_request(sample_weight=False),
                "renamed": scorer("ici").set_score_request(sample_weight="other"),
            }
            model = LogisticRegression().set_fit_request(sample_weight=False)
            given = {"sample_weight": weight, "other": weight[::-1]}
            found = cross_validate(model, X, y, scoring=scoring, params=given, cv=folds)
        for i, (train, test) in enumerate(folds):
            p = LogisticRegression().fit(X[train], y[train]).predict_proba(X[test])
            by_hand = [
                ici(y[test], p, classes=["no", "yes"], sample_weight=w)
                for w in (weight[test], None, weight[::-1][test])
            ]
            assert [found[f"test_{key}"][i] for key in scoring] == [-value for value in by_hand]

    def test_weights_nobody_spoke_of_are_refused(self, two):
        _, X, y = two
        with (
            sklearn.config_context(enable_metadata_routing=True),
            pytest.raises(sklearn.exceptions.UnsetMetadataPassedError),
        ):
            cross_validate(
                LogisticRegression().set_fit_request(sample_weight=True),
                X,
                y,
                scoring=scorer("ici"),
                params={"sample_weight": np.ones(y.size)},
            )

    @pytest.mark.parametrize(
        "one", [*SCORERS.values(), scorer("reliability", loss=Brier(), calibrator="platt")], ids=str
    )
    def test_clones_and_pickles_are_the_same_scorer(self, one):
        for copy in (clone(one), pickle.loads(pickle.dumps(one))):  # noqa: S301
            assert repr(copy) == repr(one)
            assert copy.get_params() == one.get_params()

    def test_requests_survive_cloning(self):
        with sklearn.config_context(enable_metadata_routing=True):
            one = clone(scorer("ece").set_score_request(sample_weight=True))
            assert one.get_metadata_routing().score.requests == {"sample_weight": True}

    def test_the_repr_is_the_call(self):
        one = scorer("reliability", loss="brier", calibrator="platt")
        assert repr(one) == "scorer('reliability', loss='brier', calibrator='platt')"


class TestRefusals:
    def test_an_unknown_name_is_answered_with_the_nearest(self):
        with pytest.raises(InputError, match="Did you mean 'reliability'") as error:
            scorer("reliabilty")
        assert all(name in str(error.value) for name in SCORERS)

    @pytest.mark.parametrize(
        ("call", "words"),
        [
            (lambda: scorer("ici", loss="log"), "loss must go with a term"),
            (lambda: scorer("ece", bins=5), "ece takes the options n_bins, strategy; got bins"),
            (lambda: scorer("reliability", n_bins=5), "reliability takes the options calibrator, cv, random_state"),
            (lambda: scorer("reliability", loss="brior"), "Did you mean 'brier'"),
            (lambda: scorer("tsallis", beta=2), "takes the parameters: alpha"),
        ],
    )
    def test_options_are_checked_when_the_scorer_is_made(self, call, words):
        with pytest.raises(InputError, match=words):
            call()

    def test_a_model_without_probabilities_is_refused(self, two):
        _, X, y = two
        with pytest.raises(InputError, match="must have predict_proba; got LinearSVC"):
            SCORERS["ici"](LinearSVC().fit(X, y), X, y)

    def test_an_unfitted_model_is_refused(self, two):
        _, X, y = two
        with pytest.raises(InputError, match="must be fitted"):
            SCORERS["ici"](LogisticRegression(), X, y)

    def test_metrics_of_two_classes_say_what_to_use_for_three(self, three):
        model, X, y = three
        with pytest.raises(InputError, match="classwise_ici"):
            SCORERS["ici"](model, X, y)
