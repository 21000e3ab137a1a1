"""Folds that do not matter: rows dealt in an order of their own, many partitions, the same result in any order of rows."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from scoreprism import Sample, compare, decompose, decompose_by, make_report
from scoreprism.calibrators import (
    IsotonicCalibrator,
    MonotoneSplineCalibrator,
    OneVsRestCalibrator,
    PlattCalibrator,
    SelectedCalibrator,
    VennAbersCalibrator,
)
from scoreprism.ensembles import aggregation_decomposition, stagewise_decomposition
from scoreprism.exceptions import InputError
from scoreprism.inference import grouping_test


def rows(n=300, seed=0):
    """A score of the first of two features, too bold; the second is lost."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = (rng.random(n) < 1 / (1 + np.exp(-X.sum(axis=1)))).astype(int)
    return X, y, 1 / (1 + np.exp(-1.4 * X[:, 0])), rng


def classes(n=300, seed=0, *, tied=False):
    rng = np.random.default_rng(seed)
    law = rng.dirichlet([1.0, 2.0, 1.5], n)
    law = (np.round(law, 1) + 0.05) / 1.15 if tied else law
    law /= law.sum(axis=1, keepdims=True)
    y = (rng.random(n)[:, None] > law.cumsum(axis=1)).sum(axis=1)
    return rng.normal(size=(n, 2)), np.minimum(y, 2), law, rng


def partitions_of(y, s, X=None, **options):
    """The partitions in which decompose() fits C."""
    options = {"calibrator": "platt", "reference": "logistic", **options} if X is not None else options
    return decompose(y, s, X, **{"calibrator": "platt", **options}).chain.fit.partitions


# ── the partitions ──────────────────────────────────────────────────────────────────────────────────


def test_folds_belong_to_rows_and_not_to_their_places():
    _, y, s, rng = rows()
    order = rng.permutation(300)
    home = partitions_of(y, s).home
    assert home.shape == (20, 300)
    assert np.array_equal(partitions_of(y[order], s[order]).home, home[:, order])
    assert all(np.bincount(line).tolist() == [60] * 5 for line in home)
    assert len({line.tobytes() for line in home}) == 20  # no partition twice


def test_clusters_stay_together_in_any_order():
    _, y, s, rng = rows()
    groups, order = rng.integers(0, 70, 300), rng.permutation(300)
    home = partitions_of(y, s, groups=groups).home
    for line in home:
        assert all(np.unique(line[groups == g]).size == 1 for g in np.unique(groups))
    renamed = rng.permutation(70)[groups]  # what clusters are called does not matter either
    assert np.array_equal(partitions_of(y[order], s[order], groups=renamed[order]).home, home[:, order])


def test_rows_of_the_same_score_and_outcome_are_told_apart_by_their_features():
    rng = np.random.default_rng(1)
    s, y, x = np.repeat([0.3, 0.6], 50), np.tile([0, 1], 50), rng.normal(size=100)
    words, order = rng.permutation(np.repeat(["a", "b"], 50)), rng.permutation(100)

    def home(rows):
        return partitions_of(y[rows], s[rows], pd.DataFrame({"x": x[rows], "words": words[rows]})).home

    assert np.array_equal(home(order), home(np.arange(100))[:, order])


# ── the estimate, from partitions and public calibrators ────────────────────────────────────────────


def fitted_by_hand(y, s, home, make):
    """Laws of every model on every row, (P, K, n)."""
    return np.stack(
        [
            np.stack([make().fit(s[line != k], y[line != k]).calibrate(s) for k in range(int(line.max()) + 1)])
            for line in home
        ]
    )


def out_of_fold(laws, home):
    return np.take_along_axis(laws, home[:, None, :].astype(int), axis=1)[:, 0]


def brier_spread(folds):
    return ((folds - folds.mean(axis=1, keepdims=True)) ** 2).sum(axis=1).mean(axis=0)


def test_twenty_partitions_by_hand():
    """a = ℓ(S) − mean_p ℓ(Ĉ_p), v = mean_p Σ_k (Ĉ_p^(k) − mean)², terms LD + V and the rest (STATISTICS 8.1)."""
    _, y, s, _ = rows()
    home = partitions_of(y, s).home
    laws = fitted_by_hand(y, s, home, PlattCalibrator)
    after, v = ((out_of_fold(laws, home) - y) ** 2).mean(axis=0), brier_spread(laws)
    d = decompose(y, s, loss="brier", calibrator="platt")
    assert d.level_losses[:, 1] == pytest.approx(after, abs=1e-9)
    assert d.level_spreads[:, 1] == pytest.approx(v, abs=1e-9)
    assert d.terms["reliability"] == pytest.approx(np.mean((s - y) ** 2 - after + v), abs=1e-10)
    assert d.notes[0] == "C = P(Y | S) is platt, cross-fitted in 5 folds, 20 times."


def test_each_partition_mixes_its_own_maps():
    """The maps of a model in proportion to exp Σ log p(y) of the other folds of its partition."""
    _, y, s, _ = rows()
    home = partitions_of(y, s).home
    made = [fitted_by_hand(y, s, home, make) for make in (PlattCalibrator, IsotonicCalibrator)]
    logs = np.log([np.where(y == 1, out_of_fold(laws, home), 1 - out_of_fold(laws, home)) for laws in made])
    total = np.stack([[[one[p][home[p] != k].sum() for one in logs] for k in range(5)] for p in range(20)])
    share = np.exp(total - total.max(axis=2, keepdims=True))
    share /= share.sum(axis=2, keepdims=True)
    mixed = sum(share[:, :, c, None] * laws for c, laws in enumerate(made))
    mean = share.mean(axis=1, keepdims=True)
    damped = mean + np.sqrt(0.5) * (share - mean)
    folds = sum(damped[:, :, c, None] * laws for c, laws in enumerate(made))
    d = decompose(y, s, loss="brier", calibrator=SelectedCalibrator(candidates=["platt", "isotonic"]))
    assert d.level_losses[:, 1] == pytest.approx(((out_of_fold(mixed, home) - y) ** 2).mean(axis=0), abs=1e-8)
    assert d.level_spreads[:, 1] == pytest.approx(brier_spread(folds), abs=1e-8)
    assert f"platt {100 * share.mean(axis=(0, 1))[0]:.0f} %" in d.notes[0]


def test_rows_of_the_same_score_and_outcome_share_their_mean():
    """Which of them was in which fold is an accident: their row is the mean of theirs, over rows and partitions."""
    _, y, s, _ = rows()
    s = np.round(s, 1).clip(0.05, 0.95)
    order = np.lexsort((y, s))  # ties beyond that are dealt as they come
    y, s = y[order], s[order]
    home = partitions_of(y, s).home
    after = ((out_of_fold(fitted_by_hand(y, s, home, PlattCalibrator), home) - y) ** 2).mean(axis=0)
    d = decompose(y, s, loss="brier", calibrator="platt")
    for score in np.unique(s):
        for outcome in (0, 1):
            same = (s == score) & (y == outcome)
            if same.any():
                assert d.level_losses[same, 1] == pytest.approx(np.full(same.sum(), after[same].mean()), abs=1e-9)


def test_levels_above_are_fitted_in_the_first_partitions():
    """Rows of Q are those of C less the mean gain over C in its own partitions (STATISTICS 8.1)."""
    X, y, s, _ = rows()
    home, table = partitions_of(y, s).home, np.column_stack([X, s])
    laws = fitted_by_hand(y, s, home, PlattCalibrator)
    after = ((out_of_fold(laws, home) - y) ** 2).mean(axis=0)
    gains = []
    for p in range(2):
        finer = np.empty(300)
        for k in range(5):
            inside, held = home[p] != k, np.flatnonzero(home[p] == k)
            order = np.lexsort((y, s))  # rows are fitted in their own order
            train = order[inside[order]]
            finer[held] = LogisticRegression().fit(table[train], y[train]).predict_proba(table[held])[:, 1]
        gains.append((out_of_fold(laws, home)[p] - y) ** 2 - (finer - y) ** 2)
    options = {"loss": "brier", "calibrator": "platt", "reference": LogisticRegression(), "form": "difference"}
    d = decompose(y, s, X, repeats=2, **options)
    assert d.rows[:, 1] == pytest.approx(np.mean(gains, axis=0), abs=1e-8)
    assert d.level_losses[:, 1] == pytest.approx(after, abs=1e-9)
    one = decompose(y, s, X, **options)  # a classifier of another maker is fitted once
    assert one.rows[:, 1] == pytest.approx(gains[0], abs=1e-8)
    assert one.notes[1] == "Q = P(Y | S, X) is fitted by LogisticRegression, cross-fitted in 5 folds."
    assert d.notes[1] == "Q = P(Y | S, X) is fitted by LogisticRegression, cross-fitted in 5 folds, 2 times."


def test_how_often_laws_are_fitted_is_said():
    X, y, s, _ = rows()
    found = decompose(y, s, X, reference="logistic")
    notes, facts = found.notes, [one.facts for one in found.findings[:2]]
    assert [(one["folds"], one["times"]) for one in facts] == [(5, 20), (5, 3)]
    assert notes[0].endswith("cross-fitted in 5 folds, 20 times.")
    assert notes[1] == "Q = P(Y | S, X) is fitted by a stack of logistic, cross-fitted in 5 folds, 3 times."
    _, labels, law, _ = classes()
    assert decompose(labels, law).notes[0].endswith("cross-fitted in 5 folds, 4 times.")
    foreign = decompose(y, s, calibrator=LogisticRegression()).notes[0]
    assert foreign == "C = P(Y | S) is LogisticRegression, cross-fitted in 5 folds, 4 times."


def test_repeats_must_be_a_number():
    X, y, s, _ = rows(60)
    with pytest.raises(InputError) as caught:
        decompose(y, s, X, repeats=0)
    assert str(caught.value) == "repeats must be a whole number of at least 1; got 0. Pass an integer."


# ── the same rows in another order ──────────────────────────────────────────────────────────────────


def numbers(d):
    found = list(d.terms.values())
    for name in d.names:
        for method in ("auto", "smooth", "bracket"):
            interval = d.interval(name, method=method)
            found += [interval.low, interval.high]
    return np.array([*found, d.lower_bound("reliability").value, *d.std_error.values()])


def alike(first, second):
    assert numbers(second) == pytest.approx(numbers(first), abs=1e-12 * first.risk)


CASES = {
    "plain": (),
    "ties": ("ties",),
    "weights": ("weights",),
    "clusters": ("clusters",),
    "features": ("features",),
    "all": ("ties", "weights", "clusters", "features"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("k", [2, 3])
def test_permuted_rows_give_the_same_result(case, k):
    """To 1e-12 of the loss (STATISTICS 8.9, bar 1): only sums are rounded differently."""
    with_ = CASES[case]
    X, y, s, rng = rows(200) if k == 2 else classes(200, tied="ties" in with_)
    if k == 2 and "ties" in with_:
        s = np.round(s, 1).clip(0.05, 0.95)
    order = rng.permutation(200)
    by_row = {"sample_weight": rng.choice([1.0, 2.0, 3.5], 200)} if "weights" in with_ else {}
    by_row |= {"groups": rng.integers(0, 60, 200)} if "clusters" in with_ else {}
    words = rng.choice(["a", "b", "c"], 200)
    table = pd.DataFrame({"x": X[:, 0], "z": X[:, 1], "word": words}) if "features" in with_ else None

    def found(rows):
        frame = None if table is None else table.iloc[rows].reset_index(drop=True)
        options = {name: values[rows] for name, values in by_row.items()}
        return decompose(
            y[rows], s[rows], frame, loss="log", **({"repeats": 1} if frame is not None else {}), **options
        )

    alike(found(np.arange(200)), found(order))


def test_permuted_rows_of_segments_and_models():
    X, y, s, rng = rows(300)
    s = np.round(s, 2).clip(0.02, 0.98)
    order, segments = rng.permutation(300), np.where(X[:, 1] > 0, "up", "down")
    here = decompose_by(y, s, segments=segments, loss="brier")
    there = decompose_by(y[order], s[order], segments=segments[order], loss="brier")
    for name in ("up", "down"):
        alike(here[name], there[name])
    other = 0.1 + 0.8 * s
    first = compare(y, {"a": s, "b": other}, loss="brier")
    second = compare(y[order], {"a": s[order], "b": other[order]}, loss="brier")
    for name in ("a", "b"):
        alike(first[name], second[name])
    one, two = (found["a"].minus(found["b"]).interval("reliability") for found in (first, second))
    assert (two.low, two.high) == pytest.approx((one.low, one.high), abs=1e-12 * first["a"].risk)


# ── the seed ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "function", [decompose, compare, grouping_test, aggregation_decomposition, stagewise_decomposition]
)
def test_the_default_seed_is_fixed(function):
    assert inspect.signature(function).parameters["random_state"].default == 0


def test_no_seed_is_the_seed_zero_and_none_is_a_new_one():
    _, y, s, _ = rows()
    assert decompose(y, s).terms == decompose(y, s, random_state=0).terms
    assert decompose(y, s, random_state=None).terms != decompose(y, s, random_state=None).terms


def test_the_seed_hardly_matters():
    """Near calibration, sd over seeds at most .15 standard errors (bar 1): .11–.15 in the design; of one partition .5–.66."""
    ratios = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        s = 1 / (1 + np.exp(-1.5 * rng.normal(size=500)))
        y = (rng.random(500) < s).astype(int)
        found = [decompose(y, s, loss="brier", random_state=r) for r in range(8)]
        sd = np.std([d.terms["reliability"] for d in found], ddof=1)
        ratios.append(sd / found[0]._inference("reliability")._difference()[1])
    assert np.mean(ratios) < 0.25  # the mean of four samples and eight seeds is itself uncertain by a quarter


# ── cells ───────────────────────────────────────────────────────────────────────────────────────────


def test_few_scores_are_their_own_cells():
    s = np.round(np.random.default_rng(0).random(5000), 2)
    cells = decompose((s > 0.5).astype(int), s, calibrator="platt").chain.levels[1].fits.cells
    assert np.array_equal(cells.center, np.unique(s))
    assert np.array_equal(cells.center[cells.cell], s)
    assert cells.single
    assert cells.count.sum() == 5000


@pytest.mark.parametrize(("n", "most"), [(3000, 1024), (20_000, 2048 + 1022)])
def test_many_scores_are_pooled_and_ties_stay_together(n, most):
    """1024 cells of equal mass, 2048 from 8000 rows on (and cuts in the tails); a heavy score is a cell of its own."""
    rng = np.random.default_rng(0)
    s = np.where(rng.random(n) < 0.2, 0.25, rng.random(n))
    cells = decompose((s > 0.5).astype(int), s, calibrator="platt").chain.levels[1].fits.cells
    assert cells.center.size <= most + 4
    assert not cells.single
    heavy = np.unique(cells.cell[s == 0.25])
    assert heavy.size == 1
    assert cells.alone[heavy[0]]
    assert (s[cells.cell == heavy[0]] == 0.25).all()
    assert np.array_equal(np.argsort(cells.center), np.arange(cells.center.size))
    edges = np.sort(s)
    assert np.array_equal(cells.cell[np.argsort(s, kind="stable")], np.sort(cells.cell))
    assert edges[0] <= cells.center[0]


def test_pooling_moves_the_estimate_by_little(monkeypatch):
    """By less than .04 standard errors (STATISTICS 8.1)."""
    _, y, s, _ = rows(3000)
    pooled = decompose(y, s, loss="log")
    monkeypatch.setattr("scoreprism._fitting.fitted_laws._FEW", 1 << 20)
    exact = decompose(y, s, loss="log")
    assert pooled.chain.levels[1].fits.cells.center.size <= 1024 < exact.chain.levels[1].fits.cells.center.size == 3000
    assert pooled.terms["reliability"] == pytest.approx(
        exact.terms["reliability"], abs=0.04 * exact.std_error["reliability"]
    )


# ── maps that deal rows to folds of their own ───────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("calibrator", "weighted"),
    [
        (SelectedCalibrator(), False),
        (SelectedCalibrator(loss="brier", cv=3), True),
        (OneVsRestCalibrator(SelectedCalibrator(candidates=["identity", "platt"])), False),
        (VennAbersCalibrator(cv=5), True),
        (MonotoneSplineCalibrator(penalty="cv", n_basis=6), False),
    ],
    ids=repr,
)
def test_a_map_that_deals_rows_to_folds_sees_rows_not_scores(calibrator, weighted):
    """A tree with five leaves, far off. As cells of equal scores it has ten lines, too few to choose a map by."""
    rng = np.random.default_rng(3)
    score = rng.choice([0.05, 0.2, 0.45, 0.7, 0.95], 900)
    y = (rng.random(900) < 0.2 + 0.3 * score).astype(int)
    sample = Sample.of(y, score, sample_weight=rng.integers(1, 4, 900).astype(float) if weighted else None)
    data = sample.fit_rows()
    partitions = decompose(sample, calibrator="platt", cv=2).chain.fit.partitions
    home, held = partitions.home, partitions.held
    before, after = (-np.log(np.where(y == 1, score, 1.0 - score)), np.zeros(900))
    for line in home[:4]:  # as many as a report looks at
        for fold in range(2):
            train, test = held[line[held] != fold], line == fold
            weight = None if data.weight is None else data.weight[train]
            law = clone(calibrator).fit(score[train], y[train], weight).calibrate(score[test])
            after[test] -= np.log(np.where(y[test] == 1, law, 1.0 - law)) / 4
    how = {"loss": "log", "calibrators": [calibrator], "sections": ["recalibration"], "cv": 2}
    table = make_report(sample, **how).sections[0].blocks[0]
    gain = table.rows[1][-1].estimate
    assert gain == pytest.approx(np.average(before - after, weights=sample.weight), abs=1e-9)
    assert gain > 0.2  # the identity, which ten lines chose, gains nothing
