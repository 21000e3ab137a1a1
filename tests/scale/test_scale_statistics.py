"""What scale claims, by simulation: cells cost nothing, drawn folds are folds, drift covers (docs/scale_statistics.md)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from benchmarks.scale_statistics import simulate
from benchmarks.scale_statistics.__main__ import main
from benchmarks.scale_statistics.laws import LAWS, truth
from benchmarks.scale_statistics.studies import CELL_LAWS, cells
from benchmarks.scale_statistics.tables import Pairs

import scoreprism
from scoreprism import scale
from scoreprism.exceptions import InputError
from scoreprism.losses import get_loss

LOSSES = simulate.LOSSES


def generator(seed=0):
    return np.random.default_rng(seed)


# ── cells ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("law", ["b", "d", "ends", "rare 0.001"])
def test_cells_move_terms_by_less_than_the_bound_and_far_less_than_an_error(law):
    # the same fitted maps, evaluated at the score of every row
    found = simulate.quantisation(generator(), law, 30_000, 1024, plain=False)
    for loss in LOSSES:
        error = abs(found[f"{loss}/reliability/error"])
        assert 0.0 < error <= found[f"{loss}/bound"]
        assert error < 0.1 * found[f"{loss}/reliability/std_error"]
        assert found[f"{loss}/bound"] < 0.1 * found[f"{loss}/reliability/std_error"]


def test_few_cells_are_worse_and_the_bound_says_so():
    few, many = (simulate.quantisation(generator(), "b", 30_000, count, plain=False) for count in (8, 1024))
    assert few["log/bound"] > 100 * many["log/bound"]
    assert abs(few["log/reliability/error"]) > 100 * abs(many["log/reliability/error"])


def test_terms_are_those_of_the_rows_with_the_same_folds():
    found = simulate.quantisation(generator(), "e", 5000, 1024, plain=True)  # ten scores: nothing is quantised
    for loss in LOSSES:
        assert found[f"{loss}/bound"] == 0.0
        assert abs(found[f"{loss}/reliability/plain"]) < 1e-9


def test_maps_at_other_scores_are_the_fitted_ones():
    draw = LAWS["b"].sample(3000, generator())
    partial = scale.aggregate(simulate.frame(draw), target="y", score="s", loss=LOSSES)
    chain = partial.decompose("log").chain
    law, score = chain.levels[1], chain.sample.prediction
    fits = law.fits
    np.testing.assert_allclose(simulate.laws_at(chain, score, np.zeros(score.size, int))[1], law.folds, rtol=1e-12)
    np.testing.assert_allclose(fits.at(score), fits.law.mean(axis=(0, 1))[fits.cells.cell], rtol=1e-12)
    middle = 0.5 * (fits.cells.center[1:] + fits.cells.center[:-1])
    ends = fits.law.mean(axis=(0, 1))
    slack = 1e-9 * np.abs(np.diff(ends))  # neighbours may be equal: the map is flat there
    assert (fits.at(middle) >= np.minimum(ends[1:], ends[:-1]) - slack - 1e-15).all()
    assert (fits.at(middle) <= np.maximum(ends[1:], ends[:-1]) + slack + 1e-15).all()


# ── folds ───────────────────────────────────────────────────────────────────────────────────────────────


def test_drawn_folds_are_as_large_as_those_of_rows():
    rng = generator()
    rows = pl.DataFrame({"y": rng.integers(2, size=5000), "s": rng.random(5000).round(2)})
    sizes = scale.decompose(rows, target="y", score="s", loss="brier").chain.fit.pooling.mass.sum(axis=(2, 3))
    assert sizes.shape == (20, 5)
    np.testing.assert_allclose(sizes.sum(axis=1), 5000.0, rtol=1e-12)  # every row is in one fold
    # a fold is binomial(n, 1/5), with a standard deviation of √(5000 · 0.16) ≈ 28
    assert np.abs(sizes - 1000).max() < 150
    assert sizes.std(ddof=1) == pytest.approx(28.0, rel=0.3)  # of 20 partitions of 5: relative error of about 1/√160
    assert len({line.tobytes() for line in sizes}) == 20  # no partition twice


# ── the command ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_command_runs_and_continues(tmp_path, capsys):
    options = ["--only", "period/c/2000", "--jobs", "1", "--checkpoint", str(tmp_path)]
    assert main([*options, "--simulations", "2"]) == 0
    assert "Change of a term between two periods" in capsys.readouterr().out
    assert main([*options, "--simulations", "2"]) == 0
    assert "2/2" not in capsys.readouterr().err  # nothing left to do
    names = [cell.name for cell in cells()]
    assert len(set(names)) == len(names)


def test_truths_of_other_mixes_are_means_over_other_rows():
    # Monte Carlo with the law itself: E d(S, C), with C by the mean of Q in narrow strata of the score
    law, loss = LAWS["b, other mix"], simulate.scoreprism.get_loss("brier")
    draw = law.sample(400_000, generator())
    order = np.argsort(draw.s).reshape(1000, 400)
    c, s = draw.q[order].mean(axis=1), draw.s[order].mean(axis=1)
    assert truth("b, other mix", "brier").reliability == pytest.approx(loss.divergence(s, c).mean(), abs=1e-4)


# ── long ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.statistical
@pytest.mark.parametrize("law", CELL_LAWS)
def test_cells_at_a_million_rows(law):
    found = simulate.quantisation(generator(1), law, 1_000_000, 1024, plain=False)
    for loss in LOSSES:
        assert abs(found[f"{loss}/reliability/error"]) <= found[f"{loss}/bound"] + 1e-13
        assert found[f"{loss}/bound"] <= 0.1 * found[f"{loss}/reliability/std_error"]


@pytest.mark.statistical
@pytest.mark.parametrize(("law", "n"), [("b", 500), ("e", 2000), ("weights", 2000)])
def test_drawn_folds_are_like_folds_of_rows(law, n):
    samples = [simulate.terms(np.random.default_rng([7, i]), law, n, plain=True) for i in range(100)]
    for loss in LOSSES:
        ours, rows = (
            {end: np.array([one[f"{kind}/{loss}/reliability/{end}"] for one in samples]) for end in ("value", "down")}
            for kind in ("scale", "plain")
        )
        apart = ours["value"] - rows["value"]
        assert abs(apart.mean()) < 4.0 * apart.std() / 10.0
        assert ours["down"].mean() == pytest.approx(rows["down"].mean(), rel=0.15)


@pytest.mark.statistical
def test_a_calibrated_score_of_a_million_rows():
    found = [simulate.terms(np.random.default_rng([8, i]), "c", 1_000_000, plain=False) for i in range(20)]
    for loss in LOSSES:
        assert all(one[f"scale/{loss}/reliability/low"] == 0.0 for one in found)
        assert np.mean([one[f"scale/{loss}/reliability/high"] for one in found]) < 3e-5


@pytest.mark.statistical
@pytest.mark.parametrize(("before", "after"), [("c", "c"), ("b", "b"), ("c", "b"), ("b", "b, other mix")])
def test_intervals_of_a_change_cover(before, after):
    period = {law: _samples(law, 60) for law in {before, after}}
    for loss in LOSSES:
        for term in ("reliability", "refinement"):
            pairs = Pairs(period[before], period[after], f"scale/{loss}/{term}")
            change = _value(after, loss, term) - _value(before, loss, term)
            low, high = pairs.mover()
            assert np.mean((low <= change) & (change <= high)) > 0.89  # 60 samples of each: ± 0.03


def _samples(law, count):
    found = [simulate.terms(np.random.default_rng([9, i]), law, 2000, plain=False) for i in range(count)]
    return {"failed": np.zeros(count)} | {key: np.array([one[key] for one in found]) for key in found[0]}


def _value(law, loss, term):
    found = truth(law, loss)
    return found.reliability if term == "reliability" else found.grouping + found.irreducible


# ── against rows, by code of its own ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["log", "brier"])
def test_standard_errors_of_a_calibrated_score_are_those_of_rows(loss, weighted):
    """S, C and Q nearly agree: what is left is not the width of cells. Before: 1.6 to 11 times too large."""
    rng = np.random.default_rng(0)
    n = 200_000
    s = rng.beta(1.2, 3.0, n)
    q = np.clip(s + 0.0005 * rng.standard_normal(n), 1e-4, 1 - 1e-4)
    y, fold = (rng.random(n) < s).astype(int), rng.integers(0, 5, n)
    w = rng.uniform(0.5, 1.5, n) if weighted else np.ones(n)
    frame = pl.DataFrame({"y": y, "s": s, "q": q, "fold": fold, "w": w})
    options = {"target": "y", "score": "s", "q": "q", "fold_column": "fold", "cells": 64}
    d = scale.decompose(frame, loss=loss, sample_weight="w" if weighted else None, **options)
    c = simulate.laws_at(d.chain, s, fold)[0]
    hits = [np.where(y == 1, p, 1 - p) for p in (s, c, q)]
    losses = [-np.log(hit) if loss == "log" else (1 - hit) ** 2 for hit in hits]
    steps = np.stack([losses[0] - losses[1], losses[1] - losses[2], losses[2]])
    apart = (steps - np.average(steps, axis=1, weights=w)[:, None]) * w
    covariance = apart @ apart.T / w.sum() ** 2
    errors = np.sqrt(np.diag(covariance))
    found = (d._moments.covariance[:3, :3] - covariance) / np.outer(errors, errors)
    assert np.abs(found).max() < 0.03


@pytest.mark.parametrize("calibrator", ["isotonic", "venn-abers", "binning"])
def test_neighbouring_scores_of_many_rows_stay_apart_in_memory(calibrator):
    """Above 65 536 rows `decompose` pools rows; the mean of equal scores must be that score, to the last bit."""
    rng = np.random.default_rng(3)
    grid = np.linspace(0.05, 0.95, 50)
    s = rng.choice(np.concatenate([grid, np.nextafter(grid, 1.0)]), 70_000)
    y, fold = (rng.random(s.size) < s).astype(int), rng.integers(0, 3, s.size)
    folds = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(3)]
    rows = scoreprism.decompose(y, s, loss="brier", calibrator=calibrator, cv=folds)
    frame = pl.DataFrame({"y": y, "s": s, "fold": fold})
    sums = scale.decompose(frame, target="y", score="s", fold_column="fold", loss="brier", calibrator=calibrator)
    assert sums.terms["reliability"] == pytest.approx(rows.terms["reliability"], abs=1e-10)
    assert sums.std_error["reliability"] == pytest.approx(rows.std_error["reliability"], rel=1e-7)


def test_the_error_of_a_mix_is_that_of_rows_with_weights():
    """Infinitesimal jackknife on rows; weights that depend on the outcome tilt the strata."""
    rng = np.random.default_rng(2)
    n, first = 600, np.arange(1200) < 600
    s = np.round(np.where(first, rng.beta(2, 2, 2 * n), rng.beta(1, 2, 2 * n)), 1).clip(0.2, 0.8)
    y = (rng.random(2 * n) < s).astype(int)
    w = np.where(y == 1, 6.0, 1.0) * rng.uniform(0.2, 1.0, 2 * n)
    frame = pl.DataFrame({"y": y, "s": s, "w": w, "half": np.where(first, 1, 2)})
    options = {"target": "y", "score": "s", "sample_weight": "w", "time": "half", "loss": "brier"}
    mix = scale.decompose(frame, calibrator="platt", **options).drift().mix()
    stratum = np.unique(s, return_inverse=True)[1]
    assert np.bincount(stratum[first]).min() >= 30  # enough rows for every score to be a stratum
    loss = (y - s) ** 2

    def parts(w):
        old, new = (np.bincount(stratum[rows], w[rows], 12) for rows in (first, ~first))
        mean = np.bincount(stratum[first], (w * loss)[first], 12) / np.maximum(old, 1e-9)
        expected = new @ mean / new.sum()
        return np.array([expected - old @ mean / old.sum(), np.average(loss[~first], weights=w[~first]) - expected])

    moved = [(parts(w * (1 + 1e-5 * (np.arange(2 * n) == i))) - parts(w)) / 1e-5 for i in range(2 * n)]
    errors = np.sqrt(np.square(moved).sum(axis=0))
    assert [mix.std_error[name][0] for name in ("mix", "outcomes")] == pytest.approx(errors, rel=1e-4)


def test_a_standard_error_of_zero_is_no_crash():
    """C and S on the same side of θ everywhere: the reliability is 0, exactly."""
    rng = np.random.default_rng(0)
    s = rng.random(3000)
    frame = pl.DataFrame({"y": (rng.random(3000) < s).astype(int), "s": s})
    d = scale.decompose(frame, target="y", score="s", loss=get_loss("elementary", theta=0.3), calibrator="identity")
    assert d.std_error["reliability"] == 0.0
    assert "smallest standard error" not in d.notes[-1]


def test_cells_too_coarse_for_many_rows_stop_the_advice():
    """The quantisation error does not fall with n, the standard error does: at 10¹⁰ rows 16 cells are too few."""
    rng = np.random.default_rng(3)
    p = rng.beta(2, 3, 20_000)
    rows = pl.DataFrame({"y": (rng.random(20_000) < p).astype(int), "s": p**1.2 / (p**1.2 + (1 - p) ** 1.2)})
    partial = scale.aggregate(rows, target="y", score="s", cells=16)
    shown = partial.decompose(loss="log").summary(min_gain=0).findings[0]
    assert (shown.kind, shown.term) == ("recalibrate", "reliability")
    sums = {name for name in partial.table if name not in ("key", "y", "segment", "fold", "lo", "hi")}
    many = replace(partial, table={k: v * 5e5 if k in sums else v for k, v in partial.table.items()})
    found = many.decompose(loss="log")
    assert found.quantisation_error > 0.5 * found.std_error["reliability"]
    assert (found.findings[-1].kind, found.findings[-1].level) == ("cells_too_coarse", 1)
    first = found.summary(min_gain=0).findings[0]
    assert (first.kind, first.term, first.because) == ("term_doubtful", "reliability", found.findings[-1])
    assert first.text.startswith("The cells are too coarse for so many rows. Summing by cell moved the loss of C by ")
    assert first.text.endswith(" Reliability is not assessed.")


def test_many_folds_are_refused():
    rows = pl.DataFrame({"y": [0, 1] * 200, "s": [0.3, 0.6] * 200, "id": range(400)})
    with pytest.raises(InputError, match="cv must be at most 100 folds; got 4,001"):
        scale.decompose(rows, target="y", score="s", cv=4001)
    with pytest.raises(InputError, match="folds must be at least 2 and at most 100; got 400"):
        scale.decompose(rows, target="y", score="s", fold_column="id")


def test_a_calibrated_score_is_not_refuted_by_its_cells():
    """Skewed scores with more values than cells: events of a cell stand at other scores than its other rows."""
    pvalues = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        p = rng.beta(1, 9, 250_000)
        rows = pl.DataFrame({"y": (rng.random(p.size) < p).astype(int), "p": p})
        pvalues.append(scale.decompose(rows, target="y", score="p", loss="log").calibration_pvalue)
    assert min(pvalues) > 0.01  # of six uniform numbers 94 %; all were 0.005 where cells were cut between the lines
    assert np.mean(pvalues) > 0.2
