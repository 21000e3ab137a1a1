"""RecalibratedClassifier at its border: what a classifier returns, labels of every dtype, weights of every size."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from scoreprism.calibrators import RecalibratedClassifier
from scoreprism.datasets import CopulaLaw
from scoreprism.exceptions import InputError, WeightScaleWarning


class Scores(ClassifierMixin, BaseEstimator):
    """Returns what it is told, of labels of any kind."""

    def __init__(self, spoil=None):
        self.spoil = spoil

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.center_ = X[np.asarray(y) == self.classes_[1]].mean()
        return self

    def predict_proba(self, X):
        p = 1 / (1 + np.exp(-(X[:, 0] - self.center_)))
        law = np.column_stack([1 - p, p])
        return law if self.spoil is None else self.spoil(law)


LOGITS = "If these are logits, apply scipy.special.expit (softmax for several classes) first."


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda law: 0 * law + [10.0, 90.0],
            (
                "Scores.predict_proba must hold probabilities between 0 and 1; got 90.0 in row 0 (60 of 60 rows outside). "
                "If these are percentages, divide by 100."
            ),
        ),
        (
            lambda law: 0 * law + [-2.0, 2.0],
            f"Scores.predict_proba must hold probabilities between 0 and 1; got -2.0 in row 0 (60 of 60 rows outside). {LOGITS}",
        ),
        (
            lambda law: 0 * law + [0.5, np.inf],
            (
                "Scores.predict_proba must be finite; got inf in row 0 (60 of 60 rows with NaN or infinities). "
                "Drop or impute these rows first."
            ),
        ),
        (
            lambda law: 0 * law + [0.3, 0.3],
            (
                "Scores.predict_proba must have rows that sum to 1 within 1e-06; got 0.6 in row 0 (60 of 60 rows). "
                f"Divide each row by its sum if that is what you mean. {LOGITS}"
            ),
        ),
        (
            lambda law: 0 * law + [-2e-6, 1 + 2e-6],
            "Scores.predict_proba must hold probabilities between 0 and 1; got 1.000002 in row 0 (60 of 60 rows outside). "
            + LOGITS,
        ),
        (
            lambda law: law[:, 1:],
            (
                "Scores.predict_proba must give one row per case and one column per class; "
                "got shape (60, 1) for 60 rows and 2 classes. Correct the classifier."
            ),
        ),
        (
            lambda law: law[1:],
            (
                "Scores.predict_proba must give one row per case and one column per class; "
                "got shape (59, 2) for 60 rows and 2 classes. Correct the classifier."
            ),
        ),
    ],
)
def test_what_is_no_probability_is_refused_in_fit_and_in_predict_proba(spoil, message):
    X, y = np.linspace(-2, 2, 60)[:, None], np.arange(60) % 3 % 2
    frozen = Scores(spoil).fit(X, y)
    with pytest.raises(InputError) as caught:
        RecalibratedClassifier(FrozenEstimator(frozen), "platt").fit(X, y)
    assert str(caught.value) == message
    model = RecalibratedClassifier(FrozenEstimator(frozen.set_params(spoil=None)), "platt").fit(X, y)
    model.calibrated_[0].estimator.estimator.spoil = spoil
    with pytest.raises(InputError) as caught:
        model.predict_proba(X)
    assert str(caught.value) == message


def test_excursions_of_the_size_of_rounding_are_cut():
    X, y = np.linspace(-2, 2, 60)[:, None], np.arange(60) % 3 % 2
    model = RecalibratedClassifier(FrozenEstimator(Scores().fit(X, y)), "identity").fit(X, y)
    model.calibrated_[0].estimator.estimator.spoil = lambda law: 0 * law + [-9e-7, 1 + 9e-7]
    assert (model.predict_proba(X) == [0.0, 1.0]).all()


def test_folds_do_not_depend_on_the_dtype_of_labels():
    """Stratified folds for labels of every dtype; scikit-learn calls integers of dtype object "unknown"."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 1))
    y = np.sort((rng.random(80) < 1 / (1 + np.exp(-X[:, 0]))).astype(int))
    found = [
        RecalibratedClassifier(Scores(), "platt", cv=4).fit(X, labels).predict_proba(X)
        for labels in (y, y.astype(object), y.astype(float), np.array(["a", "b"])[y], np.array(["a", "b"], object)[y])
    ]
    for other in found[1:]:
        assert np.array_equal(other, found[0])
    stratified = RecalibratedClassifier(Scores(), "platt", cv=StratifiedKFold(4)).fit(X, y.astype(object))
    assert np.array_equal(stratified.predict_proba(X), found[0])


def test_weights_that_count_no_rows_are_proportions():
    X, y, _ = CopulaLaw(rho=0.5).sample(300, random_state=0)
    w = np.random.default_rng(0).uniform(0.5, 2, len(y))
    scaled = RecalibratedClassifier(LogisticRegression(), "isotonic").fit(X, y, sample_weight=w * (len(y) / w.sum()))
    for factor in (1e-200, 1e300):
        with pytest.warns(WeightScaleWarning) as caught:
            model = RecalibratedClassifier(LogisticRegression(), "isotonic").fit(X, y, sample_weight=factor * w)
        assert len(caught) == 1  # not once more for each fold
        np.testing.assert_allclose(model.predict_proba(X), scaled.predict_proba(X), atol=1e-8)
