"""What is said of a decomposition: each sentence reached by an example, muted estimates, notes on few rows."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

from scoreprism import Chain, Decomposition, Level, decompose
from scoreprism.exceptions import OverfitWarning
from scoreprism.inference import calibration_test
from tests.chains import decompose_losses
from tests.findings import amount, select

AMOUNT = r"[0-9.e−]+ \([0-9.]+ %\)"


def part(value, risk):
    """A part of the loss, as sentences write it."""
    return f"{amount(value)} ({amount(100 * value / risk, 2)} %)"


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def calibrated(n, seed=0):
    rng = np.random.default_rng(seed)
    s = sigmoid(1.5 * rng.normal(size=n))
    return (rng.random(n) < s).astype(int), s, rng


def bold(n, seed=0):
    """The law "slope" of STATISTICS 8.9: C = σ(.7 logit S − .2)."""
    rng = np.random.default_rng(seed)
    s = sigmoid(1.5 * rng.normal(size=n))
    law = sigmoid(0.7 * np.log(s / (1 - s)) - 0.2)
    return (rng.random(n) < law).astype(int), s, rng


# ── reliability ─────────────────────────────────────────────────────────────────────────────────────


def test_a_gain_that_is_shown():
    y, s, _ = bold(3000)
    d = decompose(y, s, loss="brier")
    bound = d.lower_bound("reliability").value
    assert bound > 0
    first = d.summary().findings[0]
    assert (first.kind, first.low, first.value) == ("recalibrate", bound, d.risk)
    assert first.text == f"Recalibrate: this gains at least {part(bound, d.risk)} of the loss."


def test_miscalibration_that_is_shown_and_a_gain_that_is_not():
    """Never "no significant miscalibration" where the test rejects (STATISTICS 8.8)."""
    y, s, _ = bold(500)
    d = decompose(y, s, loss="brier")
    assert d.lower_bound("reliability").value == 0.0
    assert d.calibration_pvalue < 0.05
    most = d.interval("reliability").high
    first = d.summary().findings[0]
    assert (first.kind, first.low, first.high) == ("recalibrate_size_open", 0.0, most)
    assert first.pvalue == d.calibration_pvalue
    assert first.text == (
        f"The scores are miscalibrated (p = {d.calibration_pvalue:.2g}), but the size of the gain is open: recalibrating "
        f"gains between 0 and {part(most, d.risk)} of the loss."
    )
    again = Decomposition.from_json(d.to_json())
    assert again.summary().findings == d.summary().findings
    assert again.summary().advice == d.summary().advice


def test_nothing_that_is_shown_has_two_ends():
    y, s, _ = calibrated(2000)
    d = decompose(y, s, loss="brier")
    assert d.calibration_pvalue > 0.05
    smooth, whatever = d.interval("reliability", method="smooth").high, d.interval("reliability").high
    assert smooth < 0.9 * whatever
    (enough,) = select(d.summary().findings, "calibrated_enough")  # even the wider one is below 1 % of the loss
    assert (enough.high, enough.pvalue) == (whatever, d.calibration_pvalue)
    share = f"{100 * whatever / d.risk:.2g} %"
    assert (
        enough.text
        == f"No recalibration is needed (p = {enough.pvalue:.2g}): it would gain at most {share} of the loss."
    )
    first = d.summary(min_gain=0.0).findings[0]
    assert (first.kind, first.high) == ("no_miscalibration", whatever)
    assert first.facts["ends"] == [["smooth", smooth], ["any", whatever]]
    assert first.text == (
        f"No significant miscalibration was found: recalibrating gains at most {part(smooth, d.risk)} if the "
        f"calibration curve is smooth, and at most {part(whatever, d.risk)} whatever its shape."
    )


def test_ends_that_are_alike_are_said_as_one():
    """Within a tenth of each other."""
    rng = np.random.default_rng(0)  # one score in all: nothing that a shape could hide
    d = decompose((rng.random(400) < 0.3).astype(int), np.full(400, 0.3), loss="brier")
    smooth, whatever = d.interval("reliability", method="smooth").high, d.interval("reliability").high
    assert smooth >= 0.9 * whatever
    (found,) = select(d.summary().findings, "no_miscalibration")
    assert found.facts["ends"] == [["", whatever]]
    begin = f"No significant miscalibration was found: recalibrating gains at most {part(whatever, d.risk)}."
    assert found.text.startswith(begin)
    assert "smooth" not in found.text
    assert "shape" not in found.text


def test_a_loss_without_a_curvature_says_what_its_end_assumes():
    y, s, _ = calibrated(500)
    first = decompose(y, s, loss="elementary").summary().findings[0]
    assert first.kind == "no_miscalibration"
    assert [where for where, _ in first.facts["ends"]] == ["smooth"]
    assert first.facts["blind"]
    assert re.fullmatch(
        f"No significant miscalibration was found: recalibrating gains at most {AMOUNT} if the calibration curve is "
        r"smooth\.( It would take about [0-9,]+ rows to establish the estimated gain\.)? This loss does not see all miscalibration\.",
        first.text,
    )


def test_clusters_have_no_test_to_go_by():
    y, s, _ = bold(500)
    d = decompose(y, s, loss="brier", groups=np.arange(500) // 2)
    assert d.calibration_pvalue is None
    first = d.summary().findings[0]
    assert (first.kind, first.pvalue) == ("no_miscalibration", None)
    assert first.text.startswith("No significant miscalibration was found: recalibrating gains at most ")


def test_the_level_of_the_sentence_is_that_of_the_test():
    """At p = .02 the scores are called miscalibrated at 95 %, and at 99 % they are not."""
    y, s, _ = bold(500)
    d = decompose(y, s, loss="brier")
    assert d.conclusions(0.95, calibration_pvalue=0.02)[0].kind == "recalibrate_size_open"
    assert d.conclusions(0.99, calibration_pvalue=0.02)[0].kind == "no_miscalibration"


def test_laws_that_were_given_are_said_to_be_smooth_or_nothing():
    """A chain without fitted laws has no test and no end for any shape."""
    rng = np.random.default_rng(1)
    s = rng.random(400)
    y = (rng.random(400) < s).astype(int)
    d = Chain(y, [Level("S", s), Level("C", 0.01 + 0.98 * s)]).decompose("brier")
    assert d.calibration_pvalue is None
    (first,) = select(d.summary().findings, "no_miscalibration")
    assert "any" not in [where for where, _ in first.facts["ends"]]
    assert "whatever its shape" not in first.text


# ── the test behind the sentence ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("make", "n"), [(calibrated, 500), (bold, 400), (calibrated, 6000)])
def test_the_p_value_is_that_of_the_calibration_test(make, n):
    """399 draws instead of 999, and beyond 4096 rows cells of the score: p to its Monte-Carlo error of three sd."""
    y, s, _ = make(n, 3)
    p = calibration_test(y, s, random_state=0).pvalue
    found = decompose(y, s, loss="brier").calibration_pvalue
    assert found == pytest.approx(p, abs=3 * np.sqrt(p * (1 - p) * (1 / 399 + 1 / 999)) + 0.01)


def test_the_p_value_does_not_depend_on_the_order_of_rows_nor_on_the_loss():
    y, s, rng = calibrated(500)
    order = rng.permutation(500)
    both = decompose_losses(y, s, losses=["brier", "log"])
    assert both["brier"].calibration_pvalue == both["log"].calibration_pvalue
    assert decompose(y[order], s[order], loss="log").calibration_pvalue == both["log"].calibration_pvalue


def test_the_test_of_several_classes():
    rng = np.random.default_rng(0)
    law = rng.dirichlet(np.ones(3), 400)
    y = (rng.random(400)[:, None] > law.cumsum(axis=1)).sum(axis=1)
    assert decompose(y, law).calibration_pvalue > 0.05
    sharp = law**3 / (law**3).sum(axis=1, keepdims=True)
    assert decompose(y, sharp).calibration_pvalue < 0.05


# ── estimates that are mostly noise ─────────────────────────────────────────────────────────────────


def test_an_estimate_that_is_mostly_noise_is_muted_and_its_bound_is_not():
    """V_Q above a quarter of the estimate (STATISTICS 8.5): the estimates of both terms of Q are not shown."""
    y, s, rng = calibrated(500, 1)
    d = decompose(y, s, rng.normal(size=(500, 20)), loss="brier", repeats=1)
    assert d.level_spreads[:, 2].mean() > 0.25 * d.terms["grouping"]
    assert d.muted == ("grouping", "irreducible")
    table = d.summary().to_dict()["terms"]
    assert np.isnan([table[term][key] for term in d.muted for key in ("estimate", "share")]).all()
    assert table["reliability"]["estimate"] == d.terms["reliability"]
    assert table["grouping"]["low"] == max(d.lower_bound("grouping").value, 0.0)
    assert np.isnan(table["grouping"]["high"])
    assert d.lower_bound("grouping").value <= 0.0  # known, though muted
    assert not select(d.findings, "size_unknown")  # whether there is any is not known: "at least 0" says nothing
    assert Decomposition.from_json(d.to_json()).muted == d.muted


def test_a_muted_term_that_is_above_0_is_said_to_be_of_unknown_size():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(600, 20))
    y = (rng.random(600) < sigmoid(X[:, 0] + X[:, 1])).astype(int)
    d = decompose(y, sigmoid(X[:, 0]), X, loss="brier", repeats=1)
    assert d.muted == ("grouping", "irreducible")
    assert d.lower_bound("grouping").value > 0.0
    assert [one.term for one in select(d.findings, "size_unknown")] == ["grouping"]
    assert "There are too few rows to tell how large grouping is, only how large it is at least." in d.notes


def test_grouping_that_is_large_is_not_muted():
    """A third of the loss, n = 500: version 1 silenced its bound in all of 160 samples."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    y = (rng.random(500) < sigmoid(3 * X.sum(axis=1))).astype(int)
    d = decompose(y, sigmoid(1.4 * X[:, 0]), X, loss="brier")
    assert d.muted == ()
    bound = d.lower_bound("grouping").value
    assert bound > 0.05
    (found,) = select(d.summary().findings, "information_gain")
    assert (found.term, found.low) == ("grouping", bound)
    assert found.text == f"A better model of these features gains at least {part(bound, d.risk)} of the loss."


def test_a_reference_that_overfits_keeps_its_bound():
    from sklearn.ensemble import ExtraTreesClassifier

    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    y = (rng.random(500) < sigmoid(3 * X.sum(axis=1))).astype(int)
    text = (
        r"^The reference model of Q overfits: it differs between folds by [0-9.]+ % of its loss \(up to 5 % is "
        r"normal\)\. Its bounds hold; its estimates are unreliable\. Use a smaller model for reference=, or the default\.$"
    )
    with pytest.warns(OverfitWarning, match=text):
        d = decompose(y, sigmoid(1.4 * X[:, 0]), X, loss="brier", reference=ExtraTreesClassifier(30, random_state=0))
    assert d.muted == ("grouping", "irreducible")
    assert select(d.findings, "level_overfits", "overfit")
    (found,) = select(d.summary().findings, "information_gain")
    assert found.low == d.lower_bound("grouping").value


# ── few rows that carry the variance ────────────────────────────────────────────────────────────────


def test_few_rows_that_carry_the_variance_are_pointed_out():
    """Sharp scores, log loss (STATISTICS 8.9, sharp-tail): a few surprises in the tails are all of the variance."""
    rng = np.random.default_rng(0)
    s = np.clip(sigmoid(8 * rng.normal(size=2000)), 1e-12, 1 - 1e-12)
    y = (rng.random(2000) < 0.003 + 0.994 * s).astype(int)
    d = decompose(y, s, loss="log")
    assert 0 < d._ends.effective_rows < 10
    (found,) = select(d.findings, "few_effective_rows")
    assert found.value == pytest.approx(max(d._ends.effective_rows, 1.0))
    assert found.value < 1.5
    assert found.text == (
        "A single row carries most of the variance: intervals and bounds are less certain than stated."
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y, s, _ = bold(500)
        assert not select(decompose(y, s, loss="log").findings, "few_effective_rows")


# ── false sentences ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.statistical
def test_sentences_are_rarely_false():
    """Stairs and a calibrated score, Brier, n = 600, 40 samples each: at a rate of 5 % more than eight of 80 are false once in 50 runs."""
    false = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        s = 0.05 + 0.9 * rng.random(600)
        stairs = np.where(s < 0.4, 0.2, np.where(s < 0.6, 0.7, 0.35))
        for law, truth in ((stairs, None), (s, 0.0)):
            grid = np.linspace(0.05, 0.95, 20_001)
            steps = np.where(grid < 0.4, 0.2, np.where(grid < 0.6, 0.7, 0.35))
            gain = float(np.mean((grid - steps) ** 2)) if truth is None else truth
            d = decompose((rng.random(600) < law).astype(int), s, loss="brier")
            first = d.summary().findings[0]
            if first.kind == "recalibrate":
                false += first.low > gain
            else:
                false += first.high < gain or (first.low or 0.0) > gain
    assert false <= 8


def test_a_calibration_split_says_what_it_leaves_out():
    rng = np.random.default_rng(0)
    s = rng.dirichlet([1.0, 1.0, 1.0], 400)
    y = (rng.random((400, 1)) > s.cumsum(axis=1)[:, :-1]).sum(axis=1)
    d = decompose(y[:200], s[:200], calibrator="flexible", calibration=(s[200:], y[200:]))
    (found,) = select(d.findings, "candidates_left_out")
    assert list(found.facts["maps"]) == ["shifts", "boosting"]
    assert found.text == "Shifts and boosting are left out: they are fitted only in random folds of the rows."
