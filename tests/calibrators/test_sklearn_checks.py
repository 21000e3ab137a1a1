"""scikit-learn's own checks of estimators, on every calibrator and on RecalibratedClassifier."""

import pytest
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.utils.fixes import parse_version

from scoreprism.calibrators import (
    CALIBRATORS,
    MonotoneSplineCalibrator,
    RecalibratedClassifier,
    SelectedCalibrator,
    VennAbersCalibrator,
)
from tests.conftest import wrong_checks

#: Checks that cannot apply, with the reason.
ONE_DIMENSION = {
    "check_fit1d": "one-dimensional scores are taken as one column, on purpose; the check wants them refused"
}
OWN_FOLDS = dict.fromkeys(
    ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
    "the calibrator inside draws its own folds of rows, so a row of weight 2 is not two rows",
)

CALIBRATORS_AS_LOGITS = [
    *(cls(kind="logit") for cls in CALIBRATORS.values() if cls is not SelectedCalibrator),
    SelectedCalibrator(cv=2, kind="logit"),
    MonotoneSplineCalibrator(link="identity", bandwidth=0.2, kind="logit"),
    VennAbersCalibrator(cv=2, kind="logit"),
]
RECALIBRATED = [
    RecalibratedClassifier(LogisticRegression(), "platt", cv=2),
    RecalibratedClassifier(LogisticRegression(), "isotonic", cv=2, ensemble=False),
    # four seconds; its own map is judged by its numbers in test_recalibrated.py
    pytest.param(RecalibratedClassifier(LogisticRegression(), cv=3), marks=pytest.mark.slow),
]


def expected(estimator):
    if isinstance(estimator, RecalibratedClassifier):
        return OWN_FOLDS if estimator.calibrator == "auto" else {}
    return ONE_DIMENSION


#: Up to here the check of weights labels weighted and repeated rows apart for two classes, and wants sparse input too.
OLD = parse_version(sklearn.__version__) < parse_version("1.8")


@pytest.mark.filterwarnings("ignore")  # the checks provoke warnings to see them
@pytest.mark.parametrize("estimator", CALIBRATORS_AS_LOGITS + RECALIBRATED, ids=repr)
def test_scikit_learn_checks(estimator):
    wrong = wrong_checks(estimator, expected(estimator))
    unfair = {name for name in wrong if OLD and name.startswith("check_sample_weight_equivalence")}
    assert {name: wrong[name] for name in wrong if name not in unfair} == {}
