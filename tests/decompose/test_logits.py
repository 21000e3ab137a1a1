"""Logits in the place of probabilities."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, log_softmax, softmax

from scoreprism import Level, Logits, Sample, calibration_test, compare, decompose, evaluate, get_loss, make_report
from scoreprism.calibrators import TemperatureCalibrator
from scoreprism.exceptions import InputError


@pytest.fixture(scope="module")
def drawn():
    """Logits of four classes, and outcomes drawn from their softmax."""
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(600, 4))
    return z, (z + rng.gumbel(size=z.shape)).argmax(axis=1)


def test_they_are_the_probabilities_that_scipy_gives(drawn):
    z, y = drawn
    assert Sample.of(y, Logits(z)).prediction == pytest.approx(softmax(z, axis=1), rel=1e-13)
    assert Sample.of(y == 0, Logits(z[:, 0])).prediction == pytest.approx(expit(z[:, 0]), rel=1e-13)
    two = Sample.of(y == 1, Logits(z[:, :2])).prediction
    assert two == pytest.approx(expit(z[:, 1] - z[:, 0]) if two.ndim == 1 else softmax(z[:, :2], axis=1), rel=1e-13)


@pytest.mark.parametrize(
    "call",
    [
        lambda y, p: decompose(y, p, random_state=0).to_dict()["terms"],
        lambda y, p: decompose(y, p, q=p, random_state=0).to_dict()["terms"],
        lambda y, p: evaluate(y, p, metrics=["confidence_ece", "global_balance"]).to_frame()["estimate"].to_list(),
        lambda y, p: calibration_test(y, p, random_state=0).pvalue,
        lambda y, p: compare(y, {"a": p, "b": p}, random_state=0)["a"].terms,
        lambda y, p: make_report(y, p, sections=["verdict"]).to_frame()["risk"].to_list(),
    ],
    ids=["decompose", "q", "evaluate", "test", "compare", "report"],
)
def test_every_function_takes_them(drawn, call):
    z, y = drawn
    ours, theirs = call(y, Logits(z)), call(y, softmax(z, axis=1))
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys()
        ours, theirs = ({k: v for k, v in one.items() if isinstance(v, float)} for one in (ours, theirs))
    assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-12)


def test_small_probabilities_are_exact_down_to_1e_300():
    z = np.array([[0.0, -690.0, -100.0], [3.0, -680.0, 2.0]])
    assert get_loss("log").loss(Logits(z), [1, 1]) == pytest.approx(-log_softmax(z, axis=1)[:, 1], rel=1e-14)
    assert get_loss("log").loss(Logits([[0.0, -5000.0]]), [1]) == pytest.approx(300 * np.log(10), rel=1e-14)
    assert get_loss("log").loss(Logits([[0.0, -np.inf]]), [1]) == np.inf  # a probability of 0, as given


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_numbers_of_low_precision_are_summed_in_double(drawn, dtype):
    z, y = drawn
    low = z.astype(dtype)
    low[0, (y[0] + 1) % 4] = -np.inf
    law = Sample.of(y, Logits(low)).prediction
    assert law.dtype == np.float64
    assert law == pytest.approx(softmax(low.astype(float), axis=1), rel=1e-13)
    assert np.abs(law.sum(axis=1) - 1).max() < 1e-14


def test_columns_of_a_frame_are_the_classes(drawn):
    z, y = drawn
    names = np.array(["d", "c", "b", "a"])
    frame = pd.DataFrame(z, columns=names)
    ours = decompose(names[y], Logits(frame), random_state=0)
    assert ours.terms == pytest.approx(decompose(y, Logits(z), random_state=0).terms, abs=1e-9)


@pytest.mark.parametrize(("value", "shown"), [(np.nan, "nan"), (np.inf, "inf")])
def test_what_is_no_logit_is_refused(drawn, value, shown):
    z, y = drawn
    wrong = z.copy()
    wrong[7, 2] = value
    rule = r"^the logits of y_proba must be numbers or −∞, not all of a row −∞; got .*" + shown
    with pytest.raises(InputError, match=rule + r".* in row 7 \(1 of 600 rows\)\. Correct these rows"):
        decompose(y, Logits(wrong))


def test_a_row_without_any_class_is_refused(drawn):
    z, y = drawn
    with pytest.raises(InputError, match="not all of a row −∞; got -inf, -inf, -inf, -inf in row 0"):
        decompose(y, Logits(np.full(z.shape, -np.inf)))


def test_logits_of_logits_are_the_same(drawn):
    z, y = drawn
    assert np.array_equal(Sample.of(y, Logits(Logits(z))).prediction, Sample.of(y, Logits(z)).prediction)


def test_as_a_level_they_are_declared_too(drawn):
    z, y = drawn
    given = decompose(y, Logits(z), levels={"finer": Level("finer", Logits(z))}, random_state=0)
    by_q = decompose(y, Logits(z), q=softmax(z, axis=1), random_state=0)
    assert list(given.terms.values()) == pytest.approx(list(by_q.terms.values()), abs=1e-12)
    for wrong in ({"levels": {"finer": Logits(z)}}, {"X": Logits(z)}):
        with pytest.raises(InputError, match=r"must be a table of features; got Logits, which stand for probabilities"):
            decompose(y, Logits(z), **wrong)


def test_they_are_not_guessed(drawn):
    z, y = drawn
    with pytest.raises(InputError, match="y_proba must"):
        decompose(y, z)


def test_calibrators_have_their_own_word_for_them(drawn):
    z, y = drawn
    with pytest.raises(InputError, match=r'told by kind what its scores are; got Logits. Pass kind="logit"'):
        TemperatureCalibrator().fit(Logits(z), y)


def test_repr_says_what_they_hold():
    assert repr(Logits(np.zeros((3, 2)))) == "Logits(ndarray of shape (3, 2))"
    assert repr(Logits([1.0])) == "Logits(list)"
