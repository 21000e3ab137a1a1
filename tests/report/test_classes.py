"""The section on classes: what it tests, what its tables add up to, and what it does with many and with rare classes."""

import json
import math
import warnings

import numpy as np
import pytest
from scipy.stats import binom

from scoreprism import make_report
from scoreprism.datasets import CopulaLaw

pytestmark = pytest.mark.usefixtures("few_draws")


def draw(n, k, temperature=1.0, seed=0, heaviest=1.0):
    """Scores of K classes, and outcomes from their law at another temperature."""
    rng = np.random.default_rng(seed)
    s = np.maximum(rng.dirichlet(np.linspace(0.3, heaviest, k), n), 1e-9)
    s /= s.sum(axis=1, keepdims=True)
    c = s ** (1 / temperature)
    c /= c.sum(axis=1, keepdims=True)
    return (rng.random(n)[:, None] >= c.cumsum(axis=1)[:, :-1]).sum(axis=1), s


def report_of(y, s, **options):
    classes = range(np.shape(next(iter(s.values())) if isinstance(s, dict) else s)[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_report(y, s, classes=classes, sections=["classes"], **options)


def table(report, key):
    return next(one for one in report["classes"].tables if one.key == key)


def column(report, key, name):
    found = table(report, key)
    place = [one.key for one in found.columns].index(name)
    return [row[place] for row in found.rows]


@pytest.fixture(scope="module")
def four():
    y, s = draw(2000, 4, temperature=1.5)
    return y, s, report_of(y, s)


# ── tests ───────────────────────────────────────────────────────────────────────────────────────────────


def first_pvalue(y, s):
    """The p-value of class 0: Holm's, of three classes, of which the others have a larger one."""
    found = report_of(y, s, loss="brier")
    values = dict(zip(column(found, "classes-1", "class"), column(found, "classes-1", "pvalue"), strict=True))
    assert values["0"] < min(values["1"], values["2"])
    return values["0"] / 3


@pytest.mark.parametrize("count", [2, 4, 36, 40, 50])
def test_tails_of_rare_cases_are_exact(count):
    """1000 rows of probability .02: a binomial count. Twice the smaller tail, twice again for the test of the trend."""
    y = np.repeat([0, 1, 2], [count, (1000 - count) // 2, 1000 - count - (1000 - count) // 2])
    s = np.tile([0.02, 0.49, 0.49], (1000, 1))
    law = binom(1000, 0.02)
    tail = law.cdf(count) if count < 20 else law.sf(count - 1)
    assert first_pvalue(y, s) == pytest.approx(4 * tail, rel=0.05)


def test_tails_of_a_trend_are_exact():
    """Two scores, too extreme: the weighted sum of two binomial counts, enumerated."""
    rows, score, events = np.array([1000, 500]), np.array([0.02, 0.2]), np.array([36, 82])
    information = rows * score * (1 - score)
    logit = np.log(score / (1 - score))
    size = logit - information @ logit / information.sum()
    values = (size[0] * (np.arange(1001) - 20))[:, None] + size[1] * (np.arange(501) - 100)
    law = binom(1000, 0.02).pmf(np.arange(1001))[:, None] * binom(500, 0.2).pmf(np.arange(501))
    tail = law[values <= size @ (events - rows * score) + 1e-9].sum()
    s = np.repeat(np.stack([score, (1 - score) / 2, (1 - score) / 2], axis=1), rows, axis=0)
    others = [np.arange(n - e) % 2 + 1 for n, e in zip(rows, events, strict=True)]
    y = np.concatenate([np.zeros(36, int), others[0], np.zeros(82, int), others[1]])
    # a sum on a lattice is treated as one that is not: some per cent
    assert first_pvalue(y, s) == pytest.approx(4 * tail, rel=0.1)


def test_a_temperature_is_too_extreme_in_every_class(four):
    _, _, report = four
    assert set(column(report, "classes-1", "direction")) == {"too extreme"}
    (found,) = [one for one in report.findings if one.kind == "class_miscalibrated"]
    assert sorted(found.facts["classes"]) == ["0", "1", "2", "3"]


def test_a_class_that_is_too_likely_is_named_with_its_excess():
    y, s = draw(4000, 3)
    wrong = s * [1.0, 1.0, 1.6]
    wrong /= wrong.sum(axis=1, keepdims=True)
    report = report_of(y, wrong)
    names, words = column(report, "classes-1", "class"), column(report, "classes-1", "direction")
    off = wrong[:, 2].mean() / np.mean(y == 2) - 1
    assert words[names.index("2")] == f"too high by {100 * off:.0f} %"
    assert names[0] == "2"  # the largest gain


def test_calibrated_classes_are_not_accused():
    report = report_of(*draw(2000, 5, seed=3))
    assert report["classes"].lead[0].kind == "classes_none"
    assert set(column(report, "classes-1", "direction")) == {"–"}


def test_something_impossible_has_probability_0():
    y, s = draw(400, 3)
    s[:30], y[:30] = [0.0, 0.5, 0.5], 0
    report = report_of(y, s)
    assert min(column(report, "classes-1", "pvalue")) == 0.0
    names, words = column(report, "classes-1", "class"), column(report, "classes-1", "direction")
    assert words[names.index("0")] == "0 or 1, and wrong"


def test_groups_are_allowed_for():
    """Every row ten times, in groups: as much evidence as once, and p-values as of so many rows."""
    y, s = draw(300, 3, temperature=1.4)
    once, often = np.arange(300), np.repeat(np.arange(300), 10)
    one = column(report_of(y, s, groups=once), "classes-1", "pvalue")
    other = column(report_of(y[often], s[often], groups=often), "classes-1", "pvalue")
    assert sorted(other) == pytest.approx(sorted(one), rel=1e-9)


# ── what adds up ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("loss", ["log", "brier"])
def test_gains_add_up_to_the_gain_of_recalibration(four, loss):
    y, s, _ = four
    report = report_of(y, s, loss=loss)
    law = report.models["model"].decompositions[loss].chain.levels[1].law
    rows = np.arange(y.size)
    losses = {
        "log": lambda p: -np.log(p[rows, y]),
        "brier": lambda p: ((p - np.eye(4)[y]) ** 2).sum(axis=1),
    }
    gains = column(report, "classes-1", "gain")
    assert sum(gains) == pytest.approx((losses[loss](s) - losses[loss](law)).mean(), rel=1e-9)
    assert gains == sorted(gains, reverse=True)


def test_confusions_hold_the_whole_loss(four):
    y, s, report = four
    shares, rows = column(report, "confusions-1", "share"), column(report, "confusions-1", "rows")
    assert sum(shares) == pytest.approx(1.0)
    assert sum(rows) == y.size
    loss, said = -np.log(s[np.arange(y.size), y]), s.argmax(axis=1)
    observed, predicted = (column(report, "confusions-1", key)[0] for key in ("observed", "predicted"))
    pair = (y == int(observed)) & (said == int(predicted))
    assert (rows[0], shares[0]) == (pair.sum(), pytest.approx(loss[pair].sum() / loss.sum()))
    assert column(report, "confusions-1", "given")[0] == pytest.approx(s[pair, int(observed)].mean())
    assert shares[-1] == pytest.approx(loss[said == y].sum() / loss.sum())


def test_terms_of_classes_add_up_and_say_what_they_are(four):
    _, _, report = four
    d = report.models["model"].decompositions["log"]
    for term in d.names:
        assert sum(column(report, "class-terms-1", term)) == pytest.approx(d.terms[term], rel=1e-9)
    assert "do not say whether a class is calibrated" in table(report, "class-terms-1").note


def test_weights_are_repeated_rows():
    y, s = draw(500, 3)
    w = np.random.default_rng(0).integers(1, 4, 500)
    weighted = report_of(y, s, sample_weight=w)
    shown = dict(zip(column(weighted, "classes-1", "class"), column(weighted, "classes-1", "observed"), strict=True))
    assert shown == pytest.approx({str(k): np.average(y == k, weights=w) for k in range(3)})


# ── many, rare, several ─────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def sixty():
    y, s = draw(1500, 60, temperature=1.3, heaviest=3.0)
    return y, s, report_of(y, s)


def test_many_classes_are_ten_lines_and_two_that_hold_the_rest(sixty):
    y, s, report = sixty
    names = column(report, "classes-1", "class")
    common = int((s.mean(axis=0) * y.size >= 20).sum())
    assert names[10:] == [f"{common - 10} other classes", f"{60 - common} classes with fewer than 20 expected cases"]
    for key, whole in (("cases", y.size), ("predicted", 1.0), ("observed", 1.0)):
        assert sum(column(report, "classes-1", key)) == pytest.approx(whole)
    assert column(report, "classes-1", "pvalue")[10] is None
    assert column(report, "class-terms-1", "class")[-1] == "50 other classes"
    assert len(column(report, "confusions-1", "rows")) == 12


def test_classes_are_chosen_by_what_was_expected():
    """Chosen by observed cases, the rare classes together would have fewer than predicted: a bias by selection."""
    ratios = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        s = rng.dirichlet(np.full(40, 0.5), 780)  # 19.5 expected cases each
        y = (rng.random(780)[:, None] >= s.cumsum(axis=1)[:, :-1]).sum(axis=1)
        few = np.bincount(y, minlength=40) < 20
        ratio = np.isin(y, np.flatnonzero(few)).mean() / s[:, few].mean(axis=0).sum()
        ratios.append(ratio)
    assert max(ratios) < 1.0  # this is the bias that a choice by outcomes has
    report = report_of(y, s)
    rare = [name for name in column(report, "classes-1", "class") if "expected" in name]
    expected = s.mean(axis=0) * 780
    assert rare == [f"{int((expected < 20).sum())} classes with fewer than 20 expected cases"]


def test_a_report_of_many_classes_is_small_and_drawn(sixty):
    *_, report = sixty
    page = report.to_html()
    assert len(page) < 300_000
    assert page.count("<svg") >= 1
    json.loads(report.to_json())


def test_several_models_have_a_table_each_and_two_classes_have_none(four):
    y, s, _ = four
    flat = 0.5 * s + 0.125
    report = report_of(y, {"sharp": s, "flat": flat})
    assert {"classes-1", "classes-2"} <= {one.key for one in report["classes"].tables}
    assert {one.model for one in report["classes"].lead} == {"sharp", "flat"}
    X, y, _ = CopulaLaw(rho=0.0).sample(300, random_state=0)
    assert "classes" not in [one.key for one in make_report(y, X[:, 0], sections=["classes", "method"]).sections]


def test_an_infinite_loss_is_shown_at_its_floor():
    y, s = draw(600, 3)
    s[0], y[0] = [0.0, 0.5, 0.5], 0
    report = report_of(y, s)
    assert all(math.isfinite(gain) for gain in column(report, "classes-1", "gain"))
    assert sum(column(report, "confusions-1", "share")) == pytest.approx(1.0)
