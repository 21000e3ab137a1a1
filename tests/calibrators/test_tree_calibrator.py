"""The tree of local shifts against its definition, against the prototype it was designed with, and as a map to keep."""

from __future__ import annotations

import json

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit

from scoreprism._kernels.local_shifts import local_shifts
from scoreprism._sample.batch import Batch
from scoreprism.calibrators import CALIBRATORS, NaturalSplineCalibrator, TreeCalibrator, from_json

VARIANCES = (0.01, 0.04, 0.16, 0.64, 2.56)
#: Shifts beyond this are modes of the likelihood, not of its parabola.
FAR = "scoreprism._kernels.local_shifts._FAR"


def stairs(s):
    """A law that jumps twice, up and down."""
    return np.where(s < 0.4, 0.2, np.where(s < 0.6, 0.7, 0.35))


# ── the definition, one node at a time ──────────────────────────────────────────────────────────────


def fit(u, i, c, v, far=np.inf):
    """
    Shift of a node with the prior variance v, and its evidence: by a parabola, or for shifts beyond .7 by the likelihood.

    The likelihood is that of n = I/(c(1 − c)) rows at the rate c whose gradient is U; Laplace's approximation at its mode.
    """
    shift = u / (i + 1 / v)
    if abs(shift) <= far:
        return shift, 0.5 * u * shift - 0.5 * np.log1p(v * i)
    n = i / (c * (1 - c))

    def log_posterior(d):
        return (u + n * c) * d - n * np.log(1 - c + c * np.exp(d)) - 0.5 * d * d / v

    mode = float(minimize_scalar(lambda d: -log_posterior(d), bounds=(-12, 12), options={"xatol": 1e-10}).x)
    law = expit(logit(c) + mode)
    return mode, log_posterior(mode) - 0.5 * np.log1p(v * n * law * (1 - law))


def of_node(u, i, c, far):
    """Λ and μ of a node: no shift at all has the weight of all variances together."""
    found = [fit(u, i, c, v, far) for v in VARIANCES]
    weights = np.array([0.5, *(np.exp([log for _, log in found]) / 10)])
    shifts = np.array([0.0, *(shift for shift, _ in found)])
    return np.log(weights.sum()), weights @ shifts / weights.sum()


def tree(sums, first, stop, far):
    """Log W of the node over leaves first … stop, and the mean shift of each of these leaves."""
    u, i, m, held = (one[first:stop].sum() for one in sums)
    leaf, mean = of_node(u, i, held / m if m else 0.5, far)
    if stop - first == 1:
        return leaf, np.array([mean])
    middle = (first + stop) // 2
    (left, low), (right, high) = tree(sums, first, middle, far), tree(sums, middle, stop, far)
    ended = expit(leaf - left - right)
    shift = ended * mean + (1 - ended) * np.concatenate([low, high])
    return np.logaddexp(leaf, left + right) - np.log(2), shift


def models_by_definition(s, residual, information, rate, everyone, total, *, atoms, far=np.inf):
    """Steps 1 to 5 of the definition for one training set: log weight and shifts of each model, the tree first."""
    depth = int(np.clip(np.floor(np.log2(total / 8)), 1, 13))
    reached = np.cumsum(everyone)
    edges = [s[np.argmax(reached >= j / 2**depth * reached[-1] - 1e-9)] for j in range(1, 2**depth)]
    cell = np.array([sum(edge <= one for edge in edges) for one in s])
    values = residual, information, everyone, everyone * rate
    log_tree, out = tree([np.bincount(cell, one, 2**depth) for one in values], 0, 2**depth, far)
    models = [(np.log(0.5) + log_tree, out[cell])]
    half = 0.25 if atoms else 0.5
    levels = [(cell >> (depth - d), half / (5 * (depth - 1))) for d in range(2, depth + 1)]
    levels += [(np.arange(s.size), 0.25 / 5)] if atoms else []
    for node, prior in levels:
        sums = np.stack([np.bincount(node, one) for one in values], axis=1)
        for v in VARIANCES:
            found = [fit(u, i, held / m if m else 0.5, v, far) for u, i, m, held in sums]
            models.append((sum(log for _, log in found) + np.log(prior), np.array([one for one, _ in found])[node]))
    return np.array([log for log, _ in models]), np.stack([shift for _, shift in models])


def averaged(sets):
    """The mean of the models of each training set; a level that has less than 1e-4 in all of them is left out."""
    shares = [np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum() for logs, _ in sets]
    kept = np.max(shares, axis=0) >= 1e-4
    kept[0] = True
    return [np.clip((kept * share) @ shifts, -6, 6) for share, (_, shifts) in zip(shares, sets, strict=True)]


def shift_by_definition(*data, **options):
    return averaged([models_by_definition(*data, **options)])[0]


@pytest.mark.parametrize(("far", "precision"), [(0.7, 2e-3), (np.inf, 1e-12)])
@pytest.mark.parametrize("n", [20, 100, 700])
def test_shifts_of_distinct_scores_are_those_of_the_definition(n, far, precision, monkeypatch):
    """With parabolas alone to rounding; modes are found by a few steps, to a thousandth of the log-odds."""
    rng = np.random.default_rng(n)
    s = np.sort(rng.random(n))
    y, c = (rng.random(n) < stairs(s)).astype(float), 0.25 + 0.3 * s
    data = y - c, c * (1 - c), c, np.ones(n), float(n)
    monkeypatch.setattr(FAR, far)
    found = local_shifts(data[0][None], data[1][None], *data[2:], single=True)
    assert found[0] == pytest.approx(shift_by_definition(s, *data, atoms=False, far=far), abs=precision)


@pytest.mark.parametrize(("far", "precision"), [(0.7, 2e-3), (np.inf, 1e-12)])
def test_shifts_of_tied_and_weighted_scores_are_those_of_the_definition(far, precision, monkeypatch):
    rng = np.random.default_rng(3)
    s, inverse = np.unique(np.round(0.1 + 0.8 * rng.random(600), 2), return_inverse=True)
    assert s.size <= 600 / 5
    y = rng.random(600) < s[inverse] + np.where(np.round(100 * s[inverse]) % 2, 0.2, -0.2)
    weight = rng.choice([0.5, 1.0, 2.0], 600)
    held = np.bincount(inverse, weight)
    data = np.bincount(inverse, weight * (y - s[inverse])), held * s * (1 - s), s, held, float(held.sum())
    monkeypatch.setattr(FAR, far)
    for atoms in (True, False):  # cells that pool several scores have no table of means
        found = local_shifts(data[0][None], data[1][None], *data[2:], single=atoms)
        assert found[0] == pytest.approx(shift_by_definition(s, *data, atoms=atoms, far=far), abs=precision)


def test_training_sets_share_the_cells_of_all_rows(monkeypatch):
    """M training sets at once: each by its own residuals, in nodes that are cut by the weight of all rows."""
    monkeypatch.setattr(FAR, np.inf)
    rng = np.random.default_rng(4)
    s, home = np.sort(rng.random(300)), rng.integers(0, 3, 300)
    y = (rng.random(300) < stairs(s)).astype(int)
    mass = np.stack([[(home != k) & (y == outcome) for k in range(3)] for outcome in (0, 1)]).astype(float)
    batch = Batch(s, mass, np.stack([y == 0, y == 1]).astype(float))
    smooth, found = NaturalSplineCalibrator()._fit_many(batch), TreeCalibrator()._fit_many(batch)
    total, rate = float(mass.sum(axis=(0, 2)).mean()), smooth.mean(axis=0)
    sets = []
    for k in range(3):
        held, c = home != k, smooth[k]
        sets.append(models_by_definition(s, held * (y - c), held * c * (1 - c), rate, np.ones(300), total, atoms=False))
    for law, c, shift in zip(found, smooth, averaged(sets), strict=True):
        assert law == pytest.approx(expit(logit(c) + shift), abs=1e-12)


def test_a_map_is_its_spline_with_shifted_log_odds(monkeypatch):
    monkeypatch.setattr(FAR, np.inf)
    rng = np.random.default_rng(5)
    s = np.sort(rng.random(800))
    y = (rng.random(800) < stairs(s)).astype(int)
    smooth = NaturalSplineCalibrator().fit(s, y).calibrate(s)
    shift = shift_by_definition(s, y - smooth, smooth * (1 - smooth), smooth, np.ones(800), 800, atoms=False)
    fitted = TreeCalibrator().fit(s, y)
    rough = logit(fitted.calibrate(s)) - logit(smooth)
    assert rough == pytest.approx(shift, abs=0.005 + 1e-9)  # steps below that are left out
    assert np.unique(rough.round(9)).size < np.unique(shift.round(9)).size
    monkeypatch.setattr("scoreprism._kernels.local_shifts._FLAT", 0.0)
    fitted = TreeCalibrator().fit(s, y)
    assert fitted.calibrate(s) == pytest.approx(expit(logit(smooth) + shift), abs=1e-10)
    assert fitted.starts_.size == fitted.shifts_.size > 2
    between = 0.5 * (logit(s[1:]) + logit(s[:-1]))  # a shift holds up to half the way to the next score
    assert all(np.abs(between - start).min() < 1e-9 for start in fitted.starts_[1:])
    assert np.abs(fitted.shifts_).max() <= 6.0


# ── the prototype that the figures of the design were measured with ─────────────────────────────────


def test_shifts_are_those_of_the_prototype(monkeypatch):
    """Source: tree() of the design's prototype rough.py (issue 20, STATISTICS section 8.2), which knows parabolas alone."""
    monkeypatch.setattr(FAR, np.inf)
    rng, n = np.random.default_rng(0), 240
    s = (np.arange(n) + 0.5) / n
    y = (rng.random(n) < stairs(s)).astype(float)
    c, home = 0.25 + 0.3 * s, rng.integers(0, 3, n)
    held = np.stack([(home != k).astype(float) for k in range(3)])
    found = local_shifts(held * (y - c), held * c * (1 - c), c, np.ones(n), float(held.sum(axis=1).mean()), single=True)
    expected = [
        [-0.0987900753, -0.146008105, -0.0163709667],
        [-0.2782928854, -0.1269194259, -0.0841914921],
        [0.1006587725, -0.1312173311, 0.0046826654],
        [0.6737366616, 0.1425228504, 0.1602893737],
        [-0.2907733924, -0.0223949068, -0.1082997874],
        [-0.1588855957, -0.2638369753, -0.2263159859],
        [-0.5994113605, -0.2600701321, -0.2414319514],
    ]
    some = found[:, [0, 60, 100, 120, 150, 200, 239]].T
    assert some == pytest.approx(np.array(expected), abs=1e-9)
    scores = np.sort(np.round(0.1 + 0.8 * rng.random(600), 2))  # tied, with tree(…, atoms=True)
    y = rng.random(600) < scores + np.where(np.round(100 * scores).astype(int) % 2, 0.07, -0.07)
    u, inverse = np.unique(scores, return_inverse=True)
    residual, count = np.bincount(inverse, y - scores), np.bincount(inverse).astype(float)
    tied = local_shifts(residual[None], (count * u * (1 - u))[None], u, count, 600.0, single=True)[0]
    start = [-0.0223090818, -0.0064375687, -0.0315616259, 0.0302629062, -0.0189317942, -0.0130700366]
    assert tied[:6] == pytest.approx(start, abs=1e-9)


# ── what it is for ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(6)
    s = rng.random(20_000)
    return TreeCalibrator().fit(s, rng.random(20_000) < stairs(s))


def test_it_finds_jumps_where_a_spline_does_not(fitted):
    """Between the two jumps, 125 rows from them at least, it is off by a third of what the spline is."""
    rng = np.random.default_rng(6)
    s = rng.random(20_000)
    spline = NaturalSplineCalibrator().fit(s, rng.random(20_000) < stairs(s))
    grid = (np.arange(80) + 0.5) / 80
    off, smooth = (np.sqrt(np.mean((one.calibrate(grid) - stairs(grid)) ** 2)) for one in (fitted, spline))
    assert off < 0.03 < 0.09 < smooth


def test_it_learns_a_table_of_means_from_tied_scores():
    """81 scores whose laws are .2 above and below in turn: no curve follows that, a table does."""
    rng = np.random.default_rng(7)

    def law(s):
        return np.clip(s + np.where(np.round(100 * s).astype(int) % 2, 0.2, -0.2), 0.02, 0.98)

    s = np.round(0.1 + 0.8 * rng.random(20_000), 2)
    y, u = rng.random(20_000) < law(s), np.unique(s)
    off, smooth = (
        np.sqrt(np.mean((one.fit(s, y).calibrate(u) - law(u)) ** 2))
        for one in (TreeCalibrator(), NaturalSplineCalibrator())
    )
    assert off < 0.05 < 0.15 < smooth


def test_it_leaves_a_smooth_law_alone():
    """Calibrated scores: hardly anything is shifted, beyond the spline's own noise."""
    rng = np.random.default_rng(8)
    s = expit(1.5 * rng.normal(size=4000))
    y = rng.random(4000) < s
    difference = TreeCalibrator().fit(s, y).calibrate(s) - NaturalSplineCalibrator().fit(s, y).calibrate(s)
    assert np.sqrt(np.mean(difference**2)) < 0.01


def test_it_is_in_the_table_and_not_monotone(fitted):
    assert CALIBRATORS["tree"] is TreeCalibrator
    assert not TreeCalibrator.monotone
    assert not TreeCalibrator.smooth
    assert not TreeCalibrator.multiclass
    assert (np.diff(fitted.calibrate(np.linspace(0.01, 0.99, 99))) < -0.1).any()


def test_json_gives_the_same_map(fitted):
    text = fitted.to_json()
    again = from_json(text)
    grid = np.concatenate([np.linspace(0, 1, 10_001), expit(fitted.starts_)])
    assert np.array_equal(again.calibrate(grid), fitted.calibrate(grid))
    assert again.to_json() == text
    assert json.loads(text)["calibrator"] == "tree"


@pytest.mark.parametrize("kind", ["probability", "logit"])
def test_sql_gives_the_same_map(kind):
    """In DuckDB, at the very scores where a shift begins and just before them too."""
    rng = np.random.default_rng(9)
    s = rng.random(400)
    score = logit(s) if kind == "logit" else s
    found = TreeCalibrator(kind=kind).fit(score, rng.random(400) < stairs(s))
    at = found.starts_[1:] if kind == "logit" else expit(found.starts_[1:])
    near = np.concatenate([at * (1 - 1e-9), at * (1 + 1e-9)])  # the start itself is rounded by either
    values = np.concatenate([score, near])
    rows = pa.table({"score": values})  # noqa: F841 - DuckDB reads it by name
    answer = duckdb.sql(f"SELECT {found.to_sql('score')} AS p FROM rows").fetchnumpy()["p"]
    assert answer == pytest.approx(found.calibrate(values), abs=1e-12)
