"""decompose(): laws fitted out of sample, terms that add up, intervals, levels, borders."""

import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, TimeSeriesSplit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import scoreprism
from scoreprism import Chain, Decomposition, Level, Sample, compare, decompose, decompose_by
from scoreprism.calibrators import (
    IsotonicCalibrator,
    KernelCalibrator,
    NaturalSplineCalibrator,
    PlattCalibrator,
    SelectedCalibrator,
)
from scoreprism.datasets import CopulaLaw
from scoreprism.exceptions import (
    DoubleUseWarning,
    HardLabelsWarning,
    InputError,
    LabelError,
    OverfitWarning,
    ScoreOrderWarning,
    UnavailableError,
)
from scoreprism.losses import LOSSES, get_loss
from tests.chains import decompose_losses
from tests.findings import select

PARAMETERS = {"pseudo-spherical": {"alpha": 3.0}, "tsallis": {"alpha": 1.5}, "beta": {"a": 0.5, "b": 1.0}}
PARAMETERS |= {"elementary": {"theta": 0.3}, "cost-weighted": {"fp": 1.0, "fn": 3.0}}


def losses(k=2):
    made = [get_loss(name, **PARAMETERS.get(name, {})) for name in LOSSES]
    return [loss for loss in made if k == 2 or not loss.binary_only]


def example(n=400, seed=0):
    """Scores of the first feature of the paper's law, too bold (STATISTICS, scenario b)."""
    X, y, q = CopulaLaw(rho=0.0).sample(n, seed)
    return X, y, expit(1.25 * (-1.5436 + 3.1505 * X[:, 0]) + 0.1), q


def three_classes(n=300, seed=0):
    rng = np.random.default_rng(seed)
    law = rng.dirichlet([1, 2, 1.5], n)
    y = (rng.random(n)[:, None] > law.cumsum(axis=1)).sum(axis=1)
    return rng.random((n, 2)), y, law


def splits(n, k=4, seed=1):
    return list(KFold(k, shuffle=True, random_state=seed).split(np.zeros(n)))


# ── the identity ────────────────────────────────────────────────────────────────────────────────────────


def total(d):
    return sum(sign * value for sign, value in zip(d._signs, d.terms.values(), strict=True))


@pytest.mark.parametrize("form", ["debiased", "difference", "plugin"])
@pytest.mark.parametrize("weighted", [False, True])
def test_terms_add_up_for_every_loss(form, weighted):
    X, y, s, _ = example(200)
    weight = np.random.default_rng(1).random(200) if weighted else None
    found = decompose_losses(
        y, s, X, losses=losses(), form=form, sample_weight=weight, random_state=0, reference="logistic"
    )
    for loss in losses():
        d = found[str(loss)]
        expected = np.average(loss.loss(s, y), weights=weight)
        assert d.risk == pytest.approx(expected, abs=1e-12)
        assert total(d) == pytest.approx(expected, abs=1e-12)
        assert total(d.resolution_form) == pytest.approx(expected, abs=1e-12)
        assert np.average(d.rows, axis=0, weights=weight) == pytest.approx(list(d.terms.values()), abs=1e-12)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_terms_of_any_laws_add_up_for_every_loss_form_and_weights(data):
    k = data.draw(st.sampled_from([2, 2, 3]))
    n, folds = data.draw(st.integers(2, 30)), data.draw(st.integers(2, 5))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    form = data.draw(st.sampled_from(["debiased", "difference", "plugin"]))
    weight = rng.exponential(size=n) * 10.0 ** data.draw(st.integers(-6, 6)) if data.draw(st.booleans()) else None
    draw = (lambda *shape: rng.random(shape)) if k == 2 else (lambda *shape: rng.dirichlet(np.ones(k), shape))
    levels = [Level("S", draw(n)), Level("C", draw(n), draw(folds, n)), Level("Q", draw(n), draw(folds, n))]
    y = rng.integers(0, k, n)
    for loss in losses(k):
        d = Chain(y, levels, sample_weight=weight, classes=range(k)).decompose(loss, form)
        size = 1.0 + np.abs(d.level_losses).max() + np.abs(list(d.terms.values())).max()
        assert total(d) == pytest.approx(d.risk, abs=1e-12 * size)


def test_terms_add_up_for_several_classes():
    X, y, law = three_classes()
    for loss, d in decompose_losses(y, law, X, losses=losses(3), random_state=0, reference="logistic").items():
        assert total(d) == pytest.approx(d.risk, abs=1e-12), loss


# ── the laws ────────────────────────────────────────────────────────────────────────────────────────────


def by_hand(y, s, folds, make=PlattCalibrator):
    """Out-of-fold law and the laws of the fold models on every row, by the public calibrator alone."""
    laws = np.stack([make().fit(s[train], y[train]).calibrate(s) for train, _ in folds])
    law = np.empty_like(s)
    for model, (_, test) in enumerate(folds):
        law[test] = laws[model][test]
    return law, laws


@pytest.mark.parametrize("loss", ["log", "brier"])
@pytest.mark.parametrize("form", ["debiased", "difference", "plugin"])
def test_cross_fit_by_hand(loss, form):
    _, y, s, q = example()
    folds = splits(400)
    law, laws = by_hand(y, s, folds)
    ours = decompose(y, s, q=q, loss=loss, form=form, calibrator="platt", cv=folds)
    chain = Chain(y, [Level("S", s), Level("C", law, laws), Level("Q", q)]).decompose(loss, form)
    assert ours.terms == pytest.approx(chain.terms, abs=1e-12)
    mine, theirs = (d.interval("reliability", method="bracket") for d in (ours, chain))
    assert (mine.low, mine.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


@pytest.mark.parametrize("ridge", [0.1, 10.0, 1000.0])
def test_a_ridge_pulls_the_fits_of_all_folds_as_it_pulls_each(ridge):
    """Five scores, which are the knots in every fold: splines fitted together are those fitted one by one."""
    rng = np.random.default_rng(0)
    s = np.tile([0.1, 0.3, 0.5, 0.7, 0.9], 80)
    y = (rng.random(400) < np.tile([0.4, 0.1, 0.6, 0.5, 0.9], 80)).astype(int)
    folds, spline = splits(400), NaturalSplineCalibrator(ridge=ridge)
    law, _ = by_hand(y, s, folds, lambda: spline)
    d = decompose(y, s, loss="brier", form="difference", calibrator=spline, cv=folds)
    assert d.terms["refinement"] == pytest.approx(np.mean((law - y) ** 2), abs=1e-9)


def test_boosting_finds_what_no_class_by_itself_shows():
    """Classes change places where the largest probability is above 0.55, whichever it is: "flexible" sees more of it."""
    rng = np.random.default_rng(0)
    s = rng.dirichlet([2.0, 2.0, 2.0], 1000)
    law = np.where(s.max(axis=1, keepdims=True) > 0.55, np.roll(s, 1, axis=1), s)
    y = (rng.random((1000, 1)) > law.cumsum(axis=1)).sum(axis=1).clip(0, 2)
    auto, flexible = (
        decompose(y, s, loss="brier", calibrator=words, cv=splits(1000, 3)) for words in ("auto", "flexible")
    )
    assert flexible.level_losses[:, 1].mean() < auto.level_losses[:, 1].mean()
    truth = np.mean(((s - law) ** 2).sum(axis=1))
    assert auto.terms["reliability"] < flexible.terms["reliability"] < truth


def test_debiased_reliability_is_the_difference_plus_the_spread():
    """STATISTICS section 1: rel = LD + V, V = mean Σ_k d(fold k, mean of folds); for Brier d is the squared distance."""
    _, y, s, _ = example()
    folds = splits(400)
    law, laws = by_hand(y, s, folds)
    difference = np.mean((s - y) ** 2 - (law - y) ** 2)
    v = np.mean(((laws - laws.mean(axis=0)) ** 2).sum(axis=0))
    d = decompose(y, s, loss="brier", calibrator="platt", cv=folds)
    assert d.terms["reliability"] == pytest.approx(difference + v, abs=1e-12)  # fits of a batch end at 1e-8 of a row
    se = np.std((s - y) ** 2 - (law - y) ** 2) / 20
    z = 1.959963984540054  # scipy.stats.norm.ppf(.975)
    interval = d.interval("reliability", method="bracket")
    assert interval.high == pytest.approx(difference + 2 * v + z * se, abs=1e-12)
    assert interval.low == pytest.approx(max(0, difference - z * se), abs=1e-12)
    assert d.interval("reliability").high > interval.high  # that for any shape reaches further


def test_maps_are_mixed_by_the_likelihood_of_the_other_folds():
    """The maps of fold k in proportion to exp Σ log p(y) of the other folds, each predicted out of fold."""
    _, y, s, _ = example()
    folds = splits(400)
    made = [by_hand(y, s, folds, make) for make in (PlattCalibrator, IsotonicCalibrator)]
    hits = [np.log(np.where(y == 1, law, 1 - law)) for law, _ in made]
    expected = np.empty(400)
    shares = []
    for model, (train, test) in enumerate(folds):
        logs = np.array([hit[train].sum() for hit in hits])
        share = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
        expected[test] = sum(w * laws[model][test] for w, (_, laws) in zip(share, made, strict=True))
        shares.append(share)
    chosen = SelectedCalibrator(candidates=["platt", "isotonic"])
    d = decompose(y, s, loss="brier", calibrator=chosen, cv=folds)
    assert d.level_losses[:, 1] == pytest.approx((expected - y) ** 2, abs=1e-12)
    platt = 100 * np.mean(shares, axis=0)[0]
    assert d.notes[0].startswith("C = P(Y | S) mixes ")
    assert f"platt {platt:.0f} %" in d.notes[0]
    # the spread sees weights that are drawn towards their mean by the root of a half
    mean = np.mean(shares, axis=0)
    damped = [mean + np.sqrt(0.5) * (share - mean) for share in shares]
    laws = np.stack([sum(w * one[1][k] for w, one in zip(damped[k], made, strict=True)) for k in range(4)])
    spread = ((laws - laws.mean(axis=0)) ** 2).sum(axis=0)
    assert d.level_spreads[:, 1] == pytest.approx(spread, abs=1e-12)
    assert {other.name: other.loss for other in d._alternatives} == pytest.approx(
        {name: np.mean((law - y) ** 2) for name, (law, _) in zip(("platt", "isotonic"), made, strict=True)}, abs=1e-12
    )


def test_a_map_that_has_learned_noise_is_left_out():
    """1-nearest-neighbour bins: the spread of 200 bins on 200 rows is far above 5 % of the loss."""
    from scoreprism.calibrators import BinningCalibrator

    _, y, s, _ = example(200)
    chosen = SelectedCalibrator(candidates=[PlattCalibrator(), BinningCalibrator(n_bins=100)], order="any")
    d = decompose(y, s, loss="brier", calibrator=chosen, random_state=0)
    assert d.findings[0].facts["shares"] == {"platt": 1.0}
    assert d.notes[0].startswith("C = P(Y | S) is platt, cross-fitted in 5 folds")
    with pytest.warns(OverfitWarning, match="^The calibration map C overfits: ") as caught:
        binned = decompose(y, s, loss="brier", calibrator=BinningCalibrator(n_bins=100), random_state=0)
    (found,) = select(binned.findings, "overfit")
    assert [one.message.finding for one in caught] == [found]
    assert (found.level, found.severity) == (1, "doubt")
    spread = binned.level_spreads[:, 1].mean() / binned.level_losses[:, 1].mean()
    assert found.value == pytest.approx(spread, rel=0.05)
    assert found.value > found.facts["usual"] == 0.05


def test_diagnosis_and_deployment_do_not_share_a_default():
    """C may have any shape; a map to deploy keeps the order, and decompose takes an explicit one as it is."""
    _, y, s, _ = example(300)
    mixed = {
        name: [other.name for other in decompose(y, s, calibrator=calibrator, random_state=0)._alternatives]
        for name, calibrator in {
            "auto": "auto",
            "any": SelectedCalibrator(order="any"),
            "keep": SelectedCalibrator(),
            "selected": "selected",
        }.items()
    }
    assert mixed["auto"] == ["platt", "natural-spline", "isotonic", "kernel", "tree"]
    assert mixed["any"] == ["platt", "natural-spline", "isotonic", "kernel"]
    assert mixed["keep"] == mixed["selected"] == ["platt", "beta", "monotone-spline", "isotonic"]
    five = ["platt", "natural-spline", "isotonic", KernelCalibrator(bandwidth="under"), "tree"]
    default, explicit = (
        decompose(y, s, calibrator=c, random_state=0)
        for c in ("auto", SelectedCalibrator(candidates=five, order="any"))
    )
    assert default.terms == explicit.terms


def test_twins_among_candidates_are_told_apart():
    _, y, s, _ = example(150)
    chosen = SelectedCalibrator(
        candidates=[KernelCalibrator(bandwidth=0.05), KernelCalibrator(bandwidth=0.4)], order="any"
    )
    d = decompose(y, s, loss="brier", calibrator=chosen, random_state=0)
    assert [other.name for other in d._alternatives] == ["kernel", "kernel 2"]
    assert d.chain.fit.refit_term(0, np.ones(150), d) == pytest.approx(d.terms["reliability"], abs=1e-9)


def test_calibration_split_by_hand():
    """Its spread: (K−1)/K Σ_k d(refit without block k, mean of the refits)."""
    _, y, s, _ = example(600)
    held, rows = slice(0, 250), slice(250, None)
    d = decompose(y[rows], s[rows], loss="brier", calibrator="platt", calibration=(s[held], y[held]), random_state=3)
    law = PlattCalibrator().fit(s[held], y[held]).calibrate(s[rows])
    assert d.level_losses[:, 1] == pytest.approx((law - y[rows]) ** 2, abs=1e-12)
    refits = d.chain.levels[1].folds
    count = refits.shape[0]
    spread = (count - 1) / count * ((refits - refits.mean(axis=0)) ** 2).sum(axis=0)
    assert d.level_spreads[:, 1] == pytest.approx(spread, abs=1e-12)
    assert count > 1
    assert not (refits == law).all(axis=1).any()
    assert (d.findings[0].kind, d.findings[0].subject, d.findings[0].level) == ("law_fitted", "platt", 1)
    assert d.notes[0] == "C = P(Y | S) is platt, fitted on the calibration split."


def test_calibration_split_needs_no_folds():
    """One class here, both in the split; four rows here."""
    _, y, s, _ = example(300)
    d = decompose(np.zeros(100, dtype=int), s[:100], calibration=(s[100:], y[100:]), loss="brier")
    assert total(d) == pytest.approx(np.mean(s[:100] ** 2), abs=1e-12)
    assert decompose(y[:4], s[:4], calibration=(s[100:], y[100:]), loss="brier").n == 4
    with pytest.raises(InputError, match="calibration must hold at least two classes; got one class in 50 rows."):
        decompose(y[:100], s[:100], calibration=(s[:50], np.ones(50, dtype=int)))


def test_two_columns_of_a_calibration_split_go_by_the_labels_too():
    _, y, s, _ = example(400)
    label, wide = np.where(y == 1, "a", "b"), np.column_stack([s, 1 - s])  # sorted labels: a is the event
    here, there = slice(0, 200), slice(200, None)
    plain = decompose(y[here], s[here], calibration=(s[there], y[there]), random_state=0).terms
    for scores in (wide, s):
        for split in (wide, s):
            options = {"pos_label": "a", "calibration": (split[there], label[there]), "random_state": 0}
            assert decompose(label[here], scores[here], **options).terms == pytest.approx(plain, abs=1e-12)


def test_calibration_split_speaks_the_labels_of_the_rows():
    _, y, s, _ = example(300)
    named = np.where(y == 1, "bad", "good")
    plain = decompose(y[:200], s[:200], calibration=(s[200:], y[200:]), random_state=0)
    words = decompose(named[:200], s[:200], pos_label="bad", calibration=(s[200:], named[200:]), random_state=0)
    assert words.terms == pytest.approx(plain.terms, abs=1e-14)
    wide = np.column_stack([1 - s, s])
    columns = decompose(y[:200], wide[:200], calibration=(wide[200:], y[200:]), random_state=0)
    assert columns.terms == pytest.approx(plain.terms, abs=1e-14)


def test_folds_do_not_look_at_outcomes():
    rng = np.random.default_rng(0)
    s = rng.random(60)
    fits = [decompose(rng.integers(0, 2, 60), s, calibrator="platt", random_state=7).chain.fit for _ in range(5)]
    homes = [fit.partitions.home[0] for fit in fits]
    assert all(np.array_equal(homes[0], home) for home in homes)
    assert np.bincount(homes[0]).tolist() == [12] * 5


def test_an_oracle_law_is_what_it_is():
    _X, y, s, q = example()
    d = decompose(y, s, q=q, loss="brier", random_state=0)
    assert d.level_losses[:, 2] == pytest.approx((q - y) ** 2, abs=1e-15)
    assert not d.level_spreads[:, 2].any()
    four = decompose(y, s, q=q, latent=np.clip(q + 0.01, 0, 1), loss="brier", random_state=0)
    assert four.names == ("reliability", "grouping", "heterogeneity", "noise")


@pytest.mark.filterwarnings("ignore::scoreprism.exceptions.InfiniteLossWarning")
@pytest.mark.parametrize("form", ["debiased", "difference", "plugin"])
def test_the_chain_of_one_loss_decomposes_the_next_to_the_last_bit(form):
    """As `decompose` with that loss does: terms, errors, intervals (of candidate maps too) and the JSON."""
    X, y, s, _ = example()
    s[np.flatnonzero(y)[:2]] = 0.0  # log loss: infinite, with a floor
    options = {"form": form, "random_state": 5, "reference": "polynomial"}
    brier = decompose(y, s, X, loss="brier", **options)
    log = decompose(y, s, X, **options)
    for first, second in ((brier, log), (log, brier)):
        again = first.chain.decompose(second.loss, form)
        assert again.to_json() == second.to_json()
        assert again.rows.tobytes() == second.rows.tobytes()
        assert repr(again) == repr(second)


def test_words_are_read_in_any_case():
    """A form in capitals is that form, not the one that no branch of the code names."""
    rng = np.random.default_rng(0)
    p = rng.random(300)
    y, half = (rng.random(300) < p).astype(int), np.arange(300) % 2
    plain, loud = ({"form": form, "calibrator": "platt"} for form in ("plugin", "PLUGIN"))
    assert decompose(y, p, **loud).terms == decompose(y, p, **plain).terms
    two = {"a": p, "b": p**2}
    assert compare(y, two, **loud)["b"].terms == compare(y, two, **plain)["b"].terms
    by_half = decompose_by(y, p, segments=half, **loud)
    assert by_half[1].terms == decompose_by(y, p, segments=half, **plain)[1].terms


def test_several_losses_are_refused_with_the_way_to_get_them():
    _, y, s, _ = example()
    both = ["log", "brier"]
    for call in (
        lambda: decompose(y, s, loss=both),
        lambda: scoreprism.compare(y, {"a": s}, loss=both),
        lambda: scoreprism.decompose_by(y, s, segments=y, loss=both),
    ):
        with pytest.raises(InputError, match=r"loss must be one loss; got a list of 2\. .*d\.chain\.decompose"):
            call()


def test_the_order_of_arguments_is_named_to_those_who_mix_it_up():
    _, y, s, _ = example()
    with pytest.raises(
        InputError, match=r"compare takes outcomes, then models; got a mapping first\. Call compare\(y_true"
    ):
        scoreprism.compare({"a": s}, y)
    with pytest.raises(InputError, match=r"by keyword; got None\. Call decompose_by\(y_true, y_proba, X, segments="):
        scoreprism.decompose_by(y, y, s)
    with pytest.raises(TypeError):
        Chain(y, [Level("S", s), Level("C", s)], np.ones(y.size))


def test_the_same_for_every_n_jobs_and_seed():
    X, y, s, _ = example(300)
    found = [decompose(y, s, X, random_state=3, n_jobs=n_jobs, loss="brier", cv=2).terms for n_jobs in (1, 2)]
    assert found[0] == found[1]
    options = {"loss": "brier", "reference": "logistic", "cv": 2}
    seeds = [decompose(y, s, X, random_state=seed, **options).terms for seed in (3, 4)]
    assert seeds[0] != seeds[1]
    rng = np.random.default_rng(3)
    assert decompose(y, s, random_state=rng).terms == decompose(y, s, random_state=np.random.default_rng(3)).terms


def test_default_reference_finds_what_the_score_lost():
    """Truth: grouping 0.01223, irreducible 0.19635 (STATISTICS section 7); RMSE at n = 4000 is about 0.0015."""
    X, y, s, _ = example(4000)
    d = decompose(y, s, X, loss="brier", random_state=0)
    assert d.terms["grouping"] == pytest.approx(0.01223, abs=0.006)
    assert d.lower_bound("grouping").value > 0.004
    assert d.upper_bound("irreducible").value > 0.19


def test_many_rows_are_fitted_on_cells(monkeypatch):
    """2048 cells and more in the tails: by .04 standard errors at most the terms differ from those of rows (8.1)."""
    _, y, s, _ = example(20_000)
    many = decompose_losses(y, s, losses=("log", "brier"))
    monkeypatch.setattr("scoreprism._fitting.fitted_laws._FEW", 1 << 20)
    exact = decompose_losses(y, s, losses=("log", "brier"))
    assert (
        many["log"].chain.levels[1].fits.cells.center.size < 4000 < exact["log"].chain.levels[1].fits.cells.center.size
    )
    for loss in many:
        moved = abs(many[loss].terms["reliability"] - exact[loss].terms["reliability"])
        assert moved <= 0.04 * exact[loss].std_error["reliability"]


# ── weights and groups ──────────────────────────────────────────────────────────────────────────────────


def test_terms_do_not_depend_on_the_scale_of_weights():
    X, y, s, _ = example(200)
    weight = np.random.default_rng(2).random(200) + 0.2
    options = {"reference": "logistic", "random_state": 0}
    terms = [decompose(y, s, X, sample_weight=c * weight, **options).terms for c in (1.0, 1e-3, 1e4)]
    assert terms[1] == pytest.approx(terms[0], abs=1e-9)
    assert terms[2] == pytest.approx(terms[0], abs=1e-9)
    ones = decompose(y, s, sample_weight=np.full(200, 0.5), random_state=0).terms
    assert ones == pytest.approx(decompose(y, s, random_state=0).terms, abs=1e-9)


def test_whole_weights_are_repeated_rows_for_a_map_without_an_n():
    """A row of weight 2 in the same fold as its twin: the same as the row twice."""
    _, y, s, _ = example(120)
    weight = np.random.default_rng(2).integers(1, 4, 120)
    folds = splits(120)
    twice = np.repeat(np.arange(120), weight)
    long = [(np.flatnonzero(np.isin(twice, train)), np.flatnonzero(np.isin(twice, test))) for train, test in folds]
    once = decompose(y, s, sample_weight=weight, cv=folds, calibrator="platt")
    repeated = decompose(y[twice], s[twice], cv=long, calibrator="platt")
    assert once.terms == pytest.approx(repeated.terms, abs=1e-9)


def test_weights_in_the_thousands_leave_shrinkage_alone():
    """Survey weights, whole or not: isotonic blocks are shrunken by the effective number of rows."""
    _, y, s, _ = example(200)
    weight = np.random.default_rng(0).lognormal(size=200)
    options = {"calibrator": "isotonic", "random_state": 0}
    small = decompose(y, s, sample_weight=weight, **options).terms
    large = decompose(y, s, sample_weight=np.round(1e6 * weight), **options).terms
    assert large == pytest.approx(small, abs=1e-5)


def test_kish():
    sample = Sample.of([0, 1, 1], [0.2, 0.6, 0.7], sample_weight=[0.5, 1.5, 1.0])
    assert sample.fit_rows().weight.sum() == pytest.approx(9 / 3.5)  # (Σw)²/Σw²


def test_rows_without_weight_are_absent():
    X, y, s, _ = example(200)
    weight = np.ones(200)
    weight[150:] = 0
    folds = [(train, test) for train, test in splits(200)]
    held = [(train[train < 150], test[test < 150]) for train, test in folds]
    short = decompose(y[:150], s[:150], X[:150, :1], cv=held, calibrator="platt", reference="logistic", loss="brier")
    long = decompose(
        y, s, X[:, :1], cv=folds, calibrator="platt", reference="logistic", loss="brier", sample_weight=weight
    )
    assert long.terms["reliability"] == pytest.approx(short.terms["reliability"], abs=1e-12)


def test_groups_stay_together_and_widen_errors():
    _X, y, s, _ = example(100)
    thrice = np.repeat(np.arange(100), 3)
    home = decompose(y[thrice], s[thrice], groups=thrice, calibrator="platt").chain.fit.partitions.home[0]
    assert all(np.unique(home[thrice == g]).size == 1 for g in range(100))
    folds = [(np.flatnonzero(home != f), np.flatnonzero(home == f)) for f in range(5)]
    clustered, plain = (
        decompose(y[thrice], s[thrice], cv=folds, groups=groups, calibrator="platt") for groups in (thrice, None)
    )
    for term, error in plain.std_error.items():  # three copies of every row are one row
        assert clustered.std_error[term] == pytest.approx(np.sqrt(3) * error, rel=1e-9)


# ── splits of one's own ─────────────────────────────────────────────────────────────────────────────────


def test_temporal_splits():
    X, y, s, _ = example(300)
    d = decompose(
        y, s, X, cv=TimeSeriesSplit(4), loss="brier", calibrator="platt", reference="logistic", random_state=0
    )
    tested = np.concatenate([test for _, test in TimeSeriesSplit(4).split(s)])
    assert d.sample_weight.tolist() == np.isin(np.arange(300), tested).astype(float).tolist()
    assert (d.findings[0].kind, d.findings[0].n, d.findings[0].facts["total"]) == ("partial_cv", 240, 300)
    assert d.notes[0] == "cv tests 240 of 300 rows: the terms are those of these rows; the others have weight 0."
    assert total(d) == pytest.approx(np.mean((s - y)[tested] ** 2), abs=1e-12)
    train, test = next(iter(TimeSeriesSplit(4).split(s)))
    law = PlattCalibrator().fit(s[train], y[train]).calibrate(s[test])
    assert d.level_losses[test, 1] == pytest.approx((law - y[test]) ** 2, abs=1e-12)
    assert (d.level_spreads[test, 1] > 0).all()


MESSAGES = {
    "jobs": ({"n_jobs": 0}, "n_jobs must be a number of processes, −1 for all cores, or None; got 0."),
    "many jobs": ({"n_jobs": 10**6}, "n_jobs must be a number of processes, −1 for all cores, or None; got 1000000."),
    "reference alone": (
        {"reference": "logistic"},
        "reference must come with features to learn from; got no X and no levels. Pass X, or leave it out.",
    ),
    "group splitter": (
        {"cv": GroupKFold(5)},
        "cv must be a number of folds, a splitter or pairs of row numbers; got ",
    ),
    "level columns": (
        {"X": pd.DataFrame({"a": np.zeros(100)}), "levels": {"b": ["z"]}},
        "level 'b' must name columns of X; got 'z'. Correct the names.",
    ),
    "level word": (
        {"levels": {"b": "z"}},
        "level 'b' must name columns of X; got 'z'. Pass X as a frame that has them.",
    ),
    "cv=1": ({"cv": 1}, "cv must be a whole number of at least 2; got 1. Pass an integer."),
    "shuffle": ({"cv": ShuffleSplit(4, random_state=0)}, "cv must test each row at most once; got "),
    "overlap": (
        {"cv": [(np.arange(60), np.arange(50, 100))]},
        (
            "cv must not test on rows it trains on; got 10 rows in both parts of split 0 (row 50, 51, 52, 53, 54, …). "
            "Use splits whose parts do not overlap."
        ),
    ),
    "leak": (
        {"cv": KFold(5), "groups": np.arange(100) % 10},
        (
            "cv must keep the rows of a group together; got 10 groups in both parts of split 0. "
            "Use a splitter such as GroupKFold, or leave groups out."
        ),
    ),
    "no splits": ({"cv": []}, "cv must give at least one split; got none. For example cv=5."),
    "few groups": (
        {"groups": np.arange(100) % 3},
        "cross-fitting with 5 folds must have at least 5 groups; got 3. Use fewer folds.",
    ),
    "both": (
        {"q": np.full(100, 0.5), "X": np.zeros((100, 1))},
        "pass X, to have Q fitted, or q, where it is known; got both.",
    ),
    "latent": ({"latent": np.full(100, 0.5)}, "latent must stand above a feature level; got neither X, q nor levels."),
    "reference": (
        {"X": np.zeros((100, 1)), "reference": 3},
        (
            "reference must be one of auto, calibrated, logistic, polynomial, offset-boosting, interactions, boosting, probe, neighbours, or a classifier with "
            "fit and predict_proba; got 3. For example 'auto'."
        ),
    ),
    "class": ({"calibrator": LogisticRegression}, "got the class LogisticRegression. Pass LogisticRegression()."),
    "weights": (
        {"X": np.arange(100.0)[:, None], "reference": KNeighborsClassifier(), "sample_weight": np.ones(100)},
        (
            "a classifier must take sample_weight in fit, where there are weights; got KNeighborsClassifier, which does not. "
            "Use another one, or leave the weights out."
        ),
    ),
    "rows": ({"X": np.zeros((9, 1))}, "X and y_true must have the same number of rows; got 9 and 100."),
    "sparse": ({"X": __import__("scipy.sparse").sparse.eye(100)}, "X must be a dense table; got a sparse "),
    "no columns": ({"X": np.zeros((100, 0))}, "X must have at least one column; got none."),
    "calibration": (
        {"calibration": np.zeros(5)},
        "calibration must be (scores, y) or (scores, y, sample_weight) of a held-out split; got ndarray of length 5.",
    ),
    "levels": ({"levels": {}}, "levels must be a mapping from names to columns, features or a Level; got {}."),
    "level name": (
        {"levels": {"C": np.zeros(100)}},
        "the name of a level must be a word other than S, C, Q and Π; got 'C'.",
    ),
    "losses": ({"loss": ["log"]}, "loss must be one loss; got a list of 1."),
    "form": ({"form": "naive"}, "form must be one of debiased, difference, plugin; got 'naive'."),
    "model": ({"y_proba": LogisticRegression(), "X": np.zeros((100, 1))}, "a model as y_proba must be fitted; got "),
    "model alone": (
        {"y_proba": LogisticRegression().fit([[0], [1]], [0, 1])},
        "a model as y_proba must come with X; got no X. Pass the features it should score.",
    ),
    "lists": ({"X": [[[1]]] * 100}, "X must have one row per case; got shape (100, 1, 1)."),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_bad_input(case):
    _, y, s, _ = example(100)
    options, text = MESSAGES[case]
    pattern = text if case == "few groups" else re.escape(text)
    pattern = (
        pattern.replace("(calibration=, q=)", re.escape("(calibration=, q=)")) if case == "few groups" else pattern
    )
    with pytest.raises(InputError, match=pattern):
        decompose(y, **{"y_proba": s, **options})


def test_one_class_teaches_nothing():
    text = "y_true must hold at least two classes, for C = P(Y | S) to be fitted; got one class in 20 rows."
    with pytest.raises(InputError, match=re.escape(text)):
        decompose(np.zeros(20, dtype=int), np.linspace(0.1, 0.9, 20))


def test_reversed_scores_are_pointed_out():
    _, y, s, _ = example(400)
    with pytest.warns(ScoreOrderWarning):
        decompose(y, 1 - s, loss="brier", random_state=0)


# ── levels ──────────────────────────────────────────────────────────────────────────────────────────────


def test_levels_by_columns_arrays_and_laws():
    X, y, s, q = example(300)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    options = {"loss": "brier", "random_state": 0, "reference": "logistic"}
    named = decompose(y, s, frame, levels={"first": ["a"]}, **options)
    assert named.names == ("reliability", "C → first", "first → Q", "irreducible")
    as_text = decompose(y, s, frame, levels={"first": "a"}, **options)
    arrays = decompose(y, s, levels={"first": X[:, :1], "all": X}, **options)
    assert arrays.names == ("reliability", "C → first", "first → all", "irreducible")
    assert list(named.terms.values()) == pytest.approx(list(as_text.terms.values()), abs=1e-15)
    assert list(named.terms.values()) == pytest.approx(list(arrays.terms.values()), abs=1e-12)
    covered = decompose(y, s, frame, levels={"first": "a", "second": ["a", "b"]}, **options)
    assert covered.level_names == ("S", "C", "first", "second")
    given_law = decompose(y, s, X, levels={"oracle": Level("q", q)}, **options)
    assert given_law.level_names == ("S", "C", "oracle", "Q")
    assert given_law.level_losses[:, 2] == pytest.approx((q - y) ** 2, abs=1e-15)
    with pytest.raises(InputError, match="level 'first' must name columns of X; got 'c'. Correct the names."):
        decompose(y, s, frame, levels={"first": ["a", "c"]})


def test_a_group_as_a_level_is_calibration_within_groups():
    """S is calibrated overall and wrong by ±0.2 in two groups: for Brier the level is worth 0.04."""
    rng = np.random.default_rng(0)
    s, group = 0.3 + 0.4 * rng.random(4000), rng.choice(["x", "y"], 4000)
    y = (rng.random(4000) < s + np.where(group == "x", 0.2, -0.2)).astype(int)
    d = decompose(y, s, levels={"group": group}, loss="brier", random_state=0)
    assert d.terms["C → group"] == pytest.approx(0.04, abs=4 * d.std_error["C → group"])
    assert d.lower_bound("C → group").value > 0.03
    assert d.interval("reliability").low == 0.0


# ── features and classifiers of other makers ────────────────────────────────────────────────────────────


def mixed_frame(n, seed=0):
    rng = np.random.default_rng(seed)
    age, job = rng.normal(50, 10, n), rng.choice(["a", "b", "c"], n)
    shift = np.select([job == "a", job == "b"], [1.0, -1.0], 0.0)
    y = (rng.random(n) < expit((age - 50) / 10 + shift)).astype(int)
    frame = pd.DataFrame(
        {"age": age, "job": job, "when": pd.date_range("2020", periods=n), "id": np.arange(n).astype(str)}
    )
    frame.loc[::17, "age"] = np.nan
    frame.loc[::13, "job"] = None
    return frame, y, expit((age - 50) / 10)


def test_mixed_features_of_any_frame():
    frame, y, s = mixed_frame(800)
    options = {"loss": "brier", "random_state": 0, "cv": 2}
    found = [
        decompose(y, s, frame, **options),
        decompose(pl.Series(y), pl.Series(s), pl.from_pandas(frame), **options),
        decompose(y, s, pl.from_pandas(frame).to_arrow(), **options),
    ]
    for d in found[1:]:
        assert d.terms == pytest.approx(found[0].terms, abs=1e-12)
    assert found[0].lower_bound("grouping").value > 0.01  # the job is worth about 0.03
    assert type(found[0].to_frame()).__module__.startswith("pandas")  # X came so
    assert type(found[1].to_frame()).__module__.startswith("polars")


@pytest.mark.parametrize(
    "reference",
    [
        LogisticRegression(),
        make_pipeline(StandardScaler(), LogisticRegression()),
        HistGradientBoostingClassifier(max_iter=10, max_depth=2),
    ],
    ids=["logistic", "pipeline", "boosting"],
)
def test_any_classifier_as_reference_and_calibrator(reference):
    X, y, s, _ = example(300)
    d = decompose(y, s, X, reference=reference, calibrator=LogisticRegression(), loss="brier", random_state=0)
    assert total(d) == pytest.approx(d.risk, abs=1e-12)
    laws = [(one.level, one.subject, one.facts["folds"]) for one in select(d.findings, "law_fitted")]
    assert laws == [(1, "LogisticRegression", 5), (2, type(reference).__name__, 5)]
    assert f"Q = P(Y | S, X) is fitted by {type(reference).__name__}, cross-fitted in 5 folds." in d.notes
    options = {"reference": reference, "calibrator": LogisticRegression(), "loss": "brier", "random_state": 0}
    framed = decompose(y, s, pd.DataFrame(X, columns=["a", "b"]), **options)
    assert framed.terms["grouping"] == pytest.approx(d.terms["grouping"], abs=1e-9)


def test_a_classifier_by_hand():
    """The reference sees the features and, last, the score."""
    X, y, s, _ = example(300)
    folds = splits(300)
    d = decompose(y, s, X, reference=LogisticRegression(), cv=folds, loss="brier")
    table = np.column_stack([X, s])
    train, test = folds[2]
    law = LogisticRegression().fit(table[train], y[train]).predict_proba(table[test])[:, 1]
    assert d.level_losses[test, 2] == pytest.approx((law - y[test]) ** 2, abs=1e-12)


def test_errors_of_a_classifier_say_whose_they_are():
    frame, y, s = mixed_frame(200)
    text = "LogisticRegression must be able to learn from these features; got its own error: "
    with pytest.raises(InputError, match=re.escape(text)):
        decompose(y, s, frame[["age", "job"]], reference=LogisticRegression())


def test_overfit_guard():
    X, y, s, _ = example(400)
    with pytest.warns(
        OverfitWarning, match="^The reference model of Q overfits: it differs between folds by "
    ) as caught:
        d = decompose(y, s, X, reference=ExtraTreesClassifier(10, random_state=0), loss="brier", random_state=0)
    (found,) = select(d.findings, "level_overfits")
    assert [one.message.finding for one in caught] == [found]
    assert (found.level, found.facts["remedy"]) == (2, "reference")
    assert found.value > found.facts["usual"] == 0.05
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decompose(y, s, X, loss="brier", random_state=0)


def test_a_model_in_place_of_scores():
    X, y, _, _ = example(400)
    labels = np.where(y == 1, "bad", "good")
    model = LogisticRegression().fit(X[:200, :1], labels[:200])
    options = {"pos_label": "bad", "loss": "brier", "reference": "logistic", "random_state": 0}
    d = decompose(labels[200:], model, X[200:, :1], **options)
    law = model.predict_proba(X[200:, :1])
    same = decompose(labels[200:], law, X[200:, :1], classes=model.classes_, **options)
    assert d.terms == pytest.approx(same.terms, abs=1e-12)
    assert d.risk == pytest.approx(np.mean((law[:, 0] - y[200:]) ** 2), abs=1e-12)


def test_double_use_is_said():
    X, y, s, _ = example(300)
    forest = ExtraTreesClassifier(20, min_samples_leaf=20, random_state=0).fit(X, y)
    note = "ExtraTreesClassifier was trained on these rows (each leaf of its trees holds exactly as many of them as in training): "
    with pytest.warns(DoubleUseWarning, match=re.escape(note)):
        d = decompose(y, forest, X, repeats=1, reference="logistic", random_state=0)
    (only,) = d.summary().findings
    assert (only.kind, only.because.kind, only.because.subject) == (
        "do_not_act",
        "trained_on_rows",
        "ExtraTreesClassifier",
    )
    assert only.text.startswith(note)
    assert only.text.endswith(" Do not act on them.")
    near = make_pipeline(KNeighborsClassifier(50)).fit(X, y)
    with pytest.warns(
        DoubleUseWarning, match=re.escape("KNeighborsClassifier was trained on these rows (it stores them)")
    ):
        decompose(y, near, X, loss="brier", repeats=1, reference="logistic", random_state=0)
    with pytest.warns(DoubleUseWarning, match="calibration= holds these very rows"):
        reused = decompose(y, s, calibration=(s, y), random_state=0)
    assert [(one.kind, one.because.kind) for one in reused.summary().findings] == [("do_not_act", "calibration_reused")]
    fresh, outcome, _, _ = example(300, seed=1)  # as many rows, but others
    honest = decompose(outcome, forest, fresh, reference="logistic", random_state=0)
    assert not select(honest.findings, "trained_on_rows", "may_be_trained_on_rows")


def test_a_reference_that_knows_less_is_said():
    X, y, s, _ = example(600)
    d = decompose(y, s, X, reference=DummyClassifier(), loss="brier", random_state=0)
    note = "Level Q predicts significantly worse than C. Did a pipeline drop the score, its last column?"
    assert note in d.notes
    (found,) = select(d.summary().findings, "term_doubtful")
    assert (found.term, found.because.kind, found.because.level) == ("grouping", "worse_than_coarser", 2)
    assert found.text == f"{note} Grouping is not assessed."


def test_random_parts_of_other_makers_get_seeds():
    X, y, s, _ = example(300)
    forest = make_pipeline(ExtraTreesClassifier(10, min_samples_leaf=30))
    pair = [
        decompose(y, s, X, reference=forest, calibrator=forest, loss="brier", cv=2, random_state=3).terms
        for _ in range(2)
    ]
    assert pair[0] == pair[1]


def test_pipelines_take_weights():
    X, y, s, _ = example(300)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    weight = np.random.default_rng(0).random(300)
    d = decompose(y, s, X, reference=pipeline, sample_weight=weight, loss="brier", random_state=0)
    assert total(d) == pytest.approx(d.risk, abs=1e-12)


def test_labels_of_a_model_must_be_those_of_the_outcomes():
    X, y, _, _ = example(100)
    model = LogisticRegression().fit(X, y)
    with pytest.raises(LabelError, match=re.escape("y_true must hold labels the model was fitted on; got ['a', 'b']")):
        decompose(np.where(y == 1, "b", "a"), model, X)


def test_rows_in_another_order_are_refused():
    _, y, s, _ = example(100)
    shuffled = pd.Series(s).sample(frac=1, random_state=0)
    with pytest.raises(InputError, match="y_true and y_proba must have their rows in the same order"):
        decompose(pd.Series(y), shuffled)


# ── intervals ───────────────────────────────────────────────────────────────────────────────────────────


def test_envelope_reaches_as_far_as_any_map():
    _, y, s, _ = example(400)
    d = decompose(y, s, loss="brier", random_state=0)
    envelope, bracket = (d.interval("reliability", method=method) for method in ("envelope", "bracket"))
    assert envelope.low == bracket.low
    assert envelope.method == "envelope"
    z = 1.959963984540054  # scipy.stats.norm.ppf(.975)
    reach = [a.difference + 2 * a.spread + z * a.std_error for a in d._alternatives]
    assert envelope.high == pytest.approx(max(bracket.high, *reach), abs=1e-15)
    again = Decomposition.from_json(d.to_json())
    assert again.interval("reliability", method="envelope") == envelope
    with pytest.raises(
        UnavailableError, match="an envelope compares candidate maps for C; 'refinement' has none here."
    ):
        d.interval("refinement", method="envelope")


def test_bca_refits_with_the_folds_of_the_rows():
    _, y, s, _ = example(200)
    d = decompose(y, s, loss="brier", calibrator="platt", random_state=0)
    interval = d.interval("reliability", method="bca", n_resamples=99)
    assert interval == d.interval("reliability", method="bca", n_resamples=99)
    assert interval.low < d.terms["reliability"] < interval.high
    for counts in (np.ones(200), np.full(200, 2.0)):  # every row twice, in its fold: the same map, as Platt's has no n
        again = [d.chain.fit.refit_term(i, counts, d) for i in (0, 1)]
        assert again == pytest.approx(list(d.terms.values()), abs=1e-9)
    split = decompose(y[:100], s[:100], calibration=(s[100:], y[100:]), loss="brier")
    with pytest.raises(UnavailableError, match="a bootstrap refits C and Q on resampled rows"):
        split.interval("reliability", method="bca")


def test_resolution_form():
    """Uncertainty is the entropy of the base rate, ȳ(1−ȳ) for Brier; refinement is uncertainty − resolution."""
    _, y, s, _ = example(400)
    d = decompose(y, s, loss="brier", random_state=0)
    form = d.resolution_form
    assert form.terms["uncertainty"] == pytest.approx(y.mean() * (1 - y.mean()), abs=1e-14)
    assert form.terms["reliability"] == pytest.approx(d.terms["reliability"], abs=1e-14)
    assert form.terms["uncertainty"] - form.terms["resolution"] == pytest.approx(d.terms["refinement"], abs=1e-14)
    with pytest.raises(UnavailableError, match="this decomposition has no resolution form"):
        _ = form.resolution_form


# ── hard cases ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("n", [5, 10, 50])
def test_few_rows(n):
    rng = np.random.default_rng(0)
    s = rng.random(n)
    y = np.arange(n) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        d = decompose(y, s, rng.random((n, 2)), loss="log", repeats=1, random_state=0)
    assert total(d) == pytest.approx(d.risk, abs=1e-12)
    assert [one.n for one in select(d.findings, "few_units")] == ([] if n >= 30 else [n])


def test_rare_events():
    rng = np.random.default_rng(0)
    s = rng.beta(1, 999, 20_000)
    y = (rng.random(20_000) < s).astype(int)
    d = decompose(y, s, loss="log", random_state=0)
    assert d.interval("reliability").low == 0.0
    assert abs(d.terms["reliability"]) < 0.002
    assert total(d) == pytest.approx(d.risk, abs=1e-12)


def test_scores_of_zero_and_one():
    _, y, s, _ = example(300)
    s = s.copy()
    s[np.flatnonzero(y == 1)[:2]] = 0.0
    with pytest.warns(scoreprism.exceptions.InfiniteLossWarning, match=r"^The log loss is infinite: in 2 of 300 rows"):
        d = decompose(y, s, loss="log", random_state=0)
    assert d.risk == np.inf
    assert d.terms["reliability"] == np.inf
    assert np.isfinite(d.terms["refinement"])
    first = d.summary().findings[0]
    assert (first.kind, first.n, first.facts["total"]) == ("infinite_loss", 2, 300)
    assert first.facts["rows"] == np.flatnonzero(y == 1)[:2].tolist()
    assert np.isfinite(decompose(y, s, loss="log", clip=1e-6, random_state=0).risk)


@pytest.mark.parametrize("score", [np.full(200, 0.3), np.repeat([0.0, 1.0], 100), np.round(np.linspace(0, 1, 200), 1)])
def test_scores_with_few_values(score):
    rng = np.random.default_rng(0)
    y = (rng.random(200) < 0.2 + 0.5 * score).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverfitWarning)  # so few rows may say so
        warnings.simplefilter("ignore", HardLabelsWarning)  # scores of 0 and 1 alone look like labels
        d = decompose(y, score, rng.random((200, 2)), loss="brier", repeats=1, random_state=0)
    assert total(d) == pytest.approx(d.risk, abs=1e-12)


@pytest.mark.parametrize("X", [np.zeros((200, 2)), np.full((200, 2), np.nan), np.repeat([[np.inf, 1.0]], 200, axis=0)])
def test_features_that_say_nothing(X):
    _, y, s, _ = example(200)
    d = decompose(y, s, X, loss="brier", repeats=1, random_state=0)
    assert d.lower_bound("grouping").value <= 0.0
    assert total(d) == pytest.approx(d.risk, abs=1e-12)


def test_classes_that_never_occur():
    rng = np.random.default_rng(0)
    law = np.column_stack([rng.dirichlet(np.ones(4), 300), np.zeros(300)])
    y = (rng.random(300)[:, None] > law.cumsum(axis=1)).sum(axis=1)
    d = decompose(y, law, rng.random((300, 2)), classes=range(5), repeats=1, cv=2, random_state=0)
    assert total(d) == pytest.approx(d.risk, abs=1e-12)


def test_interrupted_work_leaves_nothing_behind():
    """Ctrl-C inside a user's classifier goes through, and the next call works."""

    class Slow(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            raise KeyboardInterrupt

    X, y, s, _ = example(100)
    with pytest.raises(KeyboardInterrupt):
        decompose(y, s, X, reference=Slow())
    assert decompose(y, s, random_state=0).n == 100


def test_nearly_certain_outcomes_are_pointed_out():
    """600 of 600 as predicted: rows do not vary, so that no normal interval can be trusted."""
    y = np.repeat([0, 1], 300)
    d = decompose(y, np.where(y == 1, 0.99, 0.01), random_state=0)
    (found,) = select(d.findings, "few_surprises")
    assert 0 < found.value < 10
    assert found.text == (
        f"Only about {found.value:.1f} outcomes are expected to differ from the most likely class: intervals and bounds "
        "are too optimistic."
    )
    _, y, s, _ = example(300)
    assert not select(decompose(y, s, random_state=0).findings, "few_surprises")


# ── what a candidate map says of the reliability ────────────────────────────────────────────────────────


def test_a_candidate_is_judged_by_its_rows():
    """
    Of the rows r = ℓ(S,y) − ℓ(C,y): mean, and se² = Σ(r−r̄)²/n²; beside them the loss of C and its spread.

    The Brier spread of F fold laws is Σ(p_f − p̄)² (docs/statistics.md).
    """
    _, y, s, _ = example()
    folds = splits(400)
    d = decompose(y, s, loss="brier", calibrator=SelectedCalibrator(candidates=["platt", "isotonic"]), cv=folds)
    for make, found in zip((PlattCalibrator, IsotonicCalibrator), d.to_dict()["alternatives"], strict=True):
        law, laws = by_hand(y, s, folds, make)
        rows = (s - y) ** 2 - (law - y) ** 2
        assert found["difference"] == pytest.approx(rows.mean(), abs=1e-12)
        assert found["loss"] == pytest.approx(np.mean((law - y) ** 2), abs=1e-12)
        assert found["std_error"] == pytest.approx(rows.std() / 20, rel=1e-9)
        assert found["spread"] == pytest.approx(((laws - laws.mean(axis=0)) ** 2).sum(axis=0).mean(), abs=1e-12)


def test_two_columns_of_a_law_between_levels_are_the_law_of_their_second():
    """A level that is fitted above a given law starts from P(Y=1), in whichever layout that law came."""
    X, y, s, q = example(200)
    options = {"loss": "brier", "random_state": 0, "reference": "logistic"}
    one = decompose(y, s, X, levels={"oracle": Level("q", q)}, **options)
    two = decompose(
        y, np.column_stack([1 - s, s]), X, levels={"oracle": Level("q", np.column_stack([1 - q, q]))}, **options
    )
    assert two.terms == pytest.approx(one.terms, abs=1e-12)


def test_a_resample_of_every_row_once_gives_the_terms_of_a_mixture():
    """Maps with less than half a percent in every fold are left out and the others' shares scaled up."""
    _, y, s, _ = example(200)
    d = decompose(y, s, loss="brier", random_state=0)
    again = [d.chain.fit.refit_term(i, np.ones(d.n), d) for i in (0, 1)]
    assert again == pytest.approx(list(d.terms.values()), abs=2e-4)


def test_a_column_that_a_coarser_level_has_is_taken_once():
    """A level's features contain those of the levels before, so repeating a column, missing values too, adds nothing."""
    X, y, s, _ = example(200)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    frame.loc[::7, "a"] = np.nan
    options = {"loss": "brier", "random_state": 0, "reference": "logistic"}
    repeated = decompose(y, s, frame, levels={"first": "a", "second": ["a", "b"]}, **options)
    once = decompose(y, s, frame, levels={"first": "a", "second": "b"}, **options)
    assert repeated.terms == pytest.approx(once.terms, abs=1e-14)


def test_nearly_certain_outcomes_of_several_classes_are_pointed_out():
    """The expected surprises are Σ(1 − max_k C_k): about one in 300 rows of which C says 99.7 %."""
    y = np.repeat([0, 1, 2], 100)
    law = np.full((300, 3), 0.0015)
    law[np.arange(300), y] = 0.997
    d = decompose(y, law, random_state=0)
    (found,) = select(d.findings, "few_surprises")
    assert 0 < found.value < 10
    _, y, law = three_classes(300)
    assert not select(decompose(y, law, random_state=0).findings, "few_surprises")


def test_a_resample_of_every_row_once_keeps_the_weights():
    """Counts of one multiply the weights of fit and terms by one; counts of zero and weights of zero both drop a row."""
    _, y, s, _ = example(200)
    weight = np.random.default_rng(3).integers(0, 4, 200).astype(float)
    d = decompose(y, s, loss="brier", calibrator="platt", sample_weight=weight, random_state=0)
    again = [d.chain.fit.refit_term(i, np.ones(d.n), d) for i in (0, 1)]
    assert again == pytest.approx(list(d.terms.values()), abs=1e-9)
    counts = np.arange(d.n) % 3
    fit = d.chain.fit.reweight(counts.astype(float))
    held = np.flatnonzero(counts > 0)
    assert fit.sample.weight == pytest.approx(counts * weight[weight > 0], abs=1e-15)
    assert np.flatnonzero(fit.rows.weight).tolist() == held.tolist()
    assert all(np.isin(train, held).all() for train in fit.plan.trains)
    assert all(np.isin(rows, held).all() and rows.size == models.size for rows, models in fit.plan.mixing)


@pytest.mark.filterwarnings("ignore:Determining the column names of a LazyFrame")
@pytest.mark.parametrize("levels", [None, {"first": "a"}])
def test_a_lazy_frame_is_refused_whole_or_by_columns(levels):
    X, y, s, _ = example(50)
    with pytest.raises(InputError) as caught:
        decompose(y, s, pl.DataFrame({"a": X[:, 0], "b": X[:, 1]}).lazy(), levels=levels)
    assert str(caught.value) == "scoreprism reads eager frames here; got a lazy LazyFrame. Call .collect() first."


def test_a_reference_that_is_none_is_shown_by_eighty_characters():
    X, y, s, _ = example(50)
    with pytest.raises(InputError) as caught:
        decompose(y, s, X, reference=[0] * 50)
    assert str(caught.value) == (
        "reference must be one of auto, calibrated, logistic, polynomial, offset-boosting, interactions, boosting, probe, neighbours, or a classifier with "
        f"fit and predict_proba; got [{'0, ' * 26}0. For example 'auto'."
    )


class _Weighed(LogisticRegression):
    """Notes whether the weights of its fits differ from row to row."""

    seen: list = []  # noqa: RUF012 - clones share it

    def fit(self, X, y, sample_weight=None):
        self.seen.append(sample_weight is not None and np.ptp(sample_weight) > 0.0)
        return super().fit(X, y, sample_weight)


def test_weights_reach_the_last_step_of_nested_pipelines():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = (rng.random(200) < 1 / (1 + np.exp(-X.sum(axis=1)))).astype(int)
    inner = make_pipeline(StandardScaler(), _Weighed())
    _Weighed.seen.clear()
    weight = np.where(X[:, 1] > 0, 2.0, 1.0)
    score = 1 / (1 + np.exp(-X[:, 0]))
    decompose(y, score, X, sample_weight=weight, reference=make_pipeline(StandardScaler(), inner), cv=2, repeats=1)
    assert _Weighed.seen == [True, True]
