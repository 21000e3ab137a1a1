"""Appendix E through `reproduction`: maps, distances in both readings, and the statements about them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from reproduction import PLANS, Work
from reproduction import maps as _maps
from reproduction.maps import BANDWIDTHS, PENALTIES, SIZES, draw_sample, measure_sample

TINY = replace(PLANS["quick"], samples=2)


@cache
def outcome():
    return _maps.run(Work(TINY))


@cache
def curves():
    return measure_sample({"seed": 3, "rows": 300})["curves"]


def test_scores_are_those_of_an_unpenalised_logistic_regression():
    """First-order conditions of maximum likelihood: residuals are orthogonal to 1, x₁, x₂."""
    sample = draw_sample(400, seed=5)
    design = np.column_stack([np.ones(400), sample.X])
    assert design.T @ (sample.y - sample.s) == pytest.approx(np.zeros(3), abs=0.05)
    assert sample.score(*sample.X.T) == pytest.approx(sample.s, abs=1e-15)


def test_exact_law_against_simulation():
    """C by quadrature against the mean outcome of 400,000 fresh rows in a narrow band of scores."""
    sample = draw_sample(400, seed=5)
    X, _, q = _maps.LAW.sample(400_000, random_state=1)
    s = sample.score(*X.T)
    for low in (0.6, 0.7):
        inside = (s > low) & (s < low + 0.02)
        c = np.interp(s[inside], sample.nodes.score, sample.nodes.calibrated)
        assert q[inside].mean() == pytest.approx(c.mean(), abs=5 * q[inside].std() / np.sqrt(inside.sum()) + 1e-6)


def test_exact_errors_against_simulation():
    sample = draw_sample(300, seed=3)
    X, _, _ = _maps.LAW.sample(200_000, random_state=2)
    s = sample.score(*X.T)
    gap = s - np.interp(s, sample.nodes.score, sample.nodes.calibrated)
    ici, lcs = measure_sample({"seed": 3, "rows": 300})["exact"]
    assert np.abs(gap).mean() == pytest.approx(ici, rel=0.01)
    assert (gap**2).mean() == pytest.approx(lcs, rel=0.02)


def test_distances_by_hand():
    """One k and h, fold by fold: the formulas of the paper with the map fitted on the other four folds."""
    from sklearn.model_selection import KFold

    from scoreprism.calibrators import MonotoneSplineCalibrator

    sample, i, j = draw_sample(300, seed=3), 1, 6
    g = np.full(300, np.nan)
    for train, test in KFold(5, shuffle=True, random_state=3).split(sample.s):
        spline = MonotoneSplineCalibrator(link="identity", n_basis=SIZES[i], bandwidth=BANDWIDTHS[j], penalty=1e-3)
        g[test] = spline.fit(sample.s[train], sample.y[train]).calibrate(sample.s[test])
    expected = [np.mean(abs(sample.s - g)), np.mean((sample.s - g) ** 2), np.mean(abs(g - sample.c)),
                np.mean((g - sample.c) ** 2)]  # fmt: skip
    assert curves()[i, j] == pytest.approx(expected, abs=1e-14)


def test_a_flat_map_leaves_the_spread_of_the_scores():
    """Much smoothing: the formula comes close to mean |s − mean y|, whatever k; little smoothing: k matters."""
    sample = draw_sample(300, seed=3)
    spread = np.abs(sample.s - sample.y.mean()).mean()
    assert curves()[:, -1, 0] == pytest.approx([spread] * 3, rel=0.12)
    assert np.ptp(curves()[:, -1, 0]) < 0.1 * np.ptp(curves()[:, 0, 0])


def test_three_maps():
    found = _maps.fit_maps(draw_sample(500, seed=1))
    assert list(found) == ["truth", "isotonic", "C² spline", "monotone C² spline"]
    assert (np.diff(found["isotonic"][1]) >= 0).all()
    assert np.unique(found["isotonic"][1]).size < 30  # steps
    assert (np.diff(found["monotone C² spline"][1]) >= -1e-12).all()
    assert (np.diff(found["C² spline"][1]) < 0).any()


def test_claims():
    checks = {check.key: check for check in outcome().checks}
    assert {key: check.verdict for key, check in checks.items()} == {
        "maps-monotone": "reproduced", "large-penalty": "reproduced",
    }  # fmt: skip
    assert checks["maps-monotone"].why.count("the constrained one in none.") == 1


def test_claims_can_fail():
    straight = [0.05, 0.06, 0.05, 0.03, 0.02, 0.005, 0.0005]  # may grow where λ is small
    shapes = [{"falls": {"C² spline": 0.1, "monotone C² spline": 0.0}, "bends": straight}]
    assert {check.verdict for check in _maps.judge_shapes(shapes)} == {"reproduced"}
    fallen = [shapes[0] | {"falls": {"C² spline": 0.1, "monotone C² spline": 0.01}}]
    assert _maps.judge_shapes(fallen)[0].verdict == "not reproduced"
    assert "in 1, by up to 0.01." in _maps.judge_shapes(fallen)[0].why
    never = [shapes[0] | {"falls": {"C² spline": 0.0, "monotone C² spline": 0.0}}]  # "need not be": it never falls
    assert _maps.judge_shapes(never)[0].verdict == "not reproduced"
    for ends in ([0.02, 0.005, 0.002], [0.0012, 0.0011, 0.0005], [0.0003, 0.0002, 0.00015]):  # too far, or too slow
        bent = [shapes[0], shapes[0] | {"bends": [*straight[:-3], *ends]}]
        assert _maps.judge_shapes(bent)[1].verdict == "not reproduced"


def test_section_is_drawn_and_written():
    from scoreprism.report import Figure, Origin, Report

    section = outcome().section
    figures = [block for block in section.blocks if isinstance(block, Figure)]
    assert [figure.key for figure in figures] == ["maps-three", "bandwidth-formula", "bandwidth-truth"]
    for figure in figures:
        assert len(figure.draw().axes) == 2
        assert figure.data is not None
    assert section.title in Report("T", "H.", (section,), {}, Origin(), {}, {}).to_html()
    assert len(outcome().numbers) == 2 + 4 * len(SIZES) * len(BANDWIDTHS) + 2 + len(PENALTIES)
    assert all(np.isfinite(value) for value in outcome().numbers.values())


def test_the_bandwidth_figure_holds_its_numbers():
    table = next(t for t in outcome().section.tables if t.key == "bandwidth-truth-data")
    row = table.rows[6]
    assert row[0] == "0.1"
    assert row[1] == outcome().numbers["maps/truth/ici/k=10/h=0.1"]
    assert row[6] == outcome().numbers["maps/truth/lcs/k=40/h=0.1"]


def test_bends_are_distances_from_a_straight_line():
    """By least squares on the grid, for the smallest penalty."""
    from scoreprism.calibrators import MonotoneSplineCalibrator

    sample = draw_sample(300, seed=4)
    grid = np.linspace(sample.s.min(), sample.s.max(), 1001)
    spline = MonotoneSplineCalibrator(link="identity", bandwidth=0.1, penalty=PENALTIES[0])
    g, design = spline.fit(sample.s, sample.y).calibrate(grid), np.column_stack([np.ones(1001), grid])
    line = design @ np.linalg.lstsq(design, g)[0]
    assert _maps.measure_shapes({"seed": 4, "rows": 300})["bends"][0] == pytest.approx(np.abs(g - line).max(), rel=1e-9)
