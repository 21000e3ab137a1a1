"""What holds for every calibrator of the table: shapes, labels, order, smoothness, ends, hard cases, files and SQL."""

import hashlib
import json
import os
import pickle
import subprocess
import sys
from dataclasses import replace

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from scoreprism.calibrators import (
    CALIBRATORS,
    BinEffectsCalibrator,
    BinningCalibrator,
    Calibrator,
    DirichletCalibrator,
    IsotonicCalibrator,
    KernelCalibrator,
    MonotoneSplineCalibrator,
    OneVsRestCalibrator,
    PlattCalibrator,
    SelectedCalibrator,
    SplineCalibrator,
    VennAbersCalibrator,
    from_dict,
    from_json,
    get_calibrator,
)
from scoreprism.exceptions import InputError, LabelError, ScoreOrderWarning, WeightScaleWarning

#: Some laws here fall on purpose, and random ones may.
pytestmark = pytest.mark.filterwarnings("ignore::scoreprism.exceptions.ScoreOrderWarning")

#: Variants beside the defaults that take another way through the code.
VARIANTS = [
    PlattCalibrator(smooth_targets=True),
    IsotonicCalibrator(interpolation="step"),
    IsotonicCalibrator(interpolation="linear", shrink=False),
    IsotonicCalibrator(interpolation="centered", shrink=False),
    BinningCalibrator(strategy="uniform", n_bins=7),
    BinEffectsCalibrator(n_bins=5),
    KernelCalibrator(bandwidth=0.15, kernel="epanechnikov"),
    KernelCalibrator(bandwidth="rule", kernel="biweight"),
    SplineCalibrator(link="identity"),
    SplineCalibrator(chart="probability", penalty="gcv"),
    MonotoneSplineCalibrator(link="identity"),
    MonotoneSplineCalibrator(bandwidth=0.1),
    MonotoneSplineCalibrator(link="identity", bandwidth=0.1, penalty=1.0),
    MonotoneSplineCalibrator(penalty="cv", random_state=0),
    MonotoneSplineCalibrator(penalty="gcv", strict=True),
    MonotoneSplineCalibrator(chart="probability", penalty=0.0),
    VennAbersCalibrator(cv=3, random_state=0),
    VennAbersCalibrator(merge="brier"),
    SelectedCalibrator(candidates=["beta", MonotoneSplineCalibrator()], loss="brier", random_state=0),
]
BINARY = [get_calibrator(name) for name in CALIBRATORS] + VARIANTS
MULTICLASS = [cls() for cls in CALIBRATORS.values() if cls.multiclass]
SEEDED = {"selected": {"random_state": 0}}


def name_of(calibrator: Calibrator) -> str:
    return repr(calibrator).replace("Calibrator", "").replace("\n", "").replace(" ", "")


def seeded(calibrator: Calibrator) -> Calibrator:
    made = clone(calibrator)
    return made.set_params(**SEEDED.get(made.name, {}))


every_binary = pytest.mark.parametrize("calibrator", BINARY, ids=name_of)
every_multiclass = pytest.mark.parametrize("calibrator", MULTICLASS, ids=name_of)


def sample(n=600, seed=0):
    """Scores whose true probability is s^1.5: monotone, overestimating."""
    rng = np.random.default_rng(seed)
    s = rng.beta(1.2, 1.2, n)
    return s, (rng.random(n) < s**1.5).astype(int)


def three_classes(n=600, seed=0):
    """Overconfident scores of three classes."""
    rng = np.random.default_rng(seed)
    law = rng.dirichlet([1.0, 1.5, 2.0], n)
    y = (rng.random(n)[:, None] > law.cumsum(axis=1)).sum(axis=1)
    return law**1.5 / (law**1.5).sum(axis=1, keepdims=True), y


# ── shapes and kinds ────────────────────────────────────────────────────────────────────────────────


@every_binary
def test_shapes_of_binary_scores(calibrator):
    s, y = sample()
    one = seeded(calibrator).fit(s, y)
    column = seeded(calibrator).fit(s[:, None], y)
    two = seeded(calibrator).fit(np.column_stack([1 - s, s]), y)
    law = one.predict_proba(s)
    assert law.shape == (s.size, 2)
    np.testing.assert_allclose(law.sum(axis=1), 1.0, atol=1e-15)
    np.testing.assert_array_equal(one.calibrate(s), law[:, 1])
    np.testing.assert_array_equal(column.calibrate(s[:, None]), law[:, [1]])
    np.testing.assert_array_equal(two.calibrate(np.column_stack([1 - s, s])), law)
    np.testing.assert_array_equal(two.calibrate(s), law[:, 1])  # one dimension is always understood
    assert (one.n_features_in_, two.n_features_in_) == (1, 2)
    np.testing.assert_array_equal(one.predict(s), (law[:, 1] > 0.5).astype(int))


@every_multiclass
def test_shapes_of_multiclass_scores(calibrator):
    p, y = three_classes()
    fitted = seeded(calibrator).fit(p, y)
    law = fitted.predict_proba(p)
    assert law.shape == p.shape
    np.testing.assert_allclose(law.sum(axis=1), 1.0, atol=1e-12)
    assert (law > 0).all()
    np.testing.assert_array_equal(fitted.calibrate(p), law)
    np.testing.assert_array_equal(fitted.predict(p), law.argmax(axis=1))


@every_multiclass
def test_multiclass_maps_take_two_classes(calibrator):
    s, y = sample()
    law = seeded(calibrator).fit(np.column_stack([1 - s, s]), y).predict_proba(s)
    assert law.shape == (s.size, 2)
    assert (law > 0).all()


@every_binary
def test_logits_and_their_probabilities_give_the_same_map(calibrator):
    if isinstance(calibrator, BinningCalibrator) and calibrator.strategy == "uniform":
        pytest.skip("bins of equal width are others on the logit scale")
    s, y = sample()
    z = np.log(s / (1 - s))
    p = seeded(calibrator).fit(expit(z), y).calibrate(expit(z))
    q = seeded(calibrator).set_params(kind="logit").fit(z, y).calibrate(z)
    # centred and straight interpolation between blocks happen in the coordinate that came
    coordinate = isinstance(calibrator, IsotonicCalibrator) and calibrator.interpolation == "centered"
    coordinate |= calibrator.name == "one-vs-rest"  # whose binary map it is by default
    np.testing.assert_allclose(p, q, atol=0.02 if coordinate else 1e-9)  # 0.017 between the farthest centres here


@every_multiclass
def test_multiclass_logits_are_invariant_to_a_constant_per_row(calibrator):
    p, y = three_classes()
    z = np.log(p)
    shifted = z + np.random.default_rng(1).normal(size=(len(z), 1))
    fits = [seeded(calibrator).set_params(kind="logit").fit(v, y).predict_proba(v) for v in (z, shifted)]
    np.testing.assert_allclose(fits[0], fits[1], atol=1e-9)
    np.testing.assert_allclose(fits[0], seeded(calibrator).fit(p, y).predict_proba(p), atol=1e-9)


def test_other_widths_are_refused_as_probabilities_and_reduced_as_logits():
    rng = np.random.default_rng(0)
    table = rng.dirichlet([1, 1, 1, 1], 200)
    y = (rng.random(200) < table[:, 3]).astype(int)
    with pytest.raises(InputError) as error:
        PlattCalibrator().fit(table, y)
    assert str(error.value) == (
        "scores must have 1 or 2 columns for 2 classes; got shape (200, 4) and the classes 0, 1. "
        "Pass one column per class that occurs in y, in sorted order of the labels."
    )
    fitted = PlattCalibrator(kind="logit").fit(np.log(table), y)
    assert fitted.reduction_ is not None
    assert roc_auc_score(y, fitted.predict_proba(np.log(table))[:, 1]) > 0.6


# ── frames ──────────────────────────────────────────────────────────────────────────────────────────


def test_series_of_any_library(as_column):
    s, y = sample(200)
    expected = PlattCalibrator().fit(s, y, np.ones(200)).calibrate(s)
    fitted = PlattCalibrator().fit(as_column(s), as_column(y), as_column(np.ones(200)))
    np.testing.assert_array_equal(fitted.calibrate(as_column(s)), expected)


def test_frames_of_any_library(library):
    p, y = three_classes(300)
    columns = {f"p{j}": p[:, j] for j in range(3)}
    frame = library.frame(columns)
    expected = get_calibrator("temperature").fit(p, y).predict_proba(p)
    fitted = get_calibrator("temperature").fit(frame, y)
    np.testing.assert_array_equal(fitted.predict_proba(frame), expected)
    if library.name == "pandas":
        assert fitted.feature_names_in_.tolist() == ["p0", "p1", "p2"]
        with pytest.raises(ValueError, match="feature names"):
            fitted.predict_proba(frame[["p1", "p0", "p2"]])


# ── labels ──────────────────────────────────────────────────────────────────────────────────────────

CODINGS = [(0, 1), (1, 2), (0, 255), (-1, 1), ("bad", "good"), (False, True), (0.0, 1.0), (2, 1000)]


@every_binary
def test_label_coding_never_matters(calibrator):
    s, y = sample(300)
    expected = seeded(calibrator).fit(s, y)
    for coding in CODINGS:
        fitted = seeded(calibrator).fit(s, np.array(coding)[y])
        assert fitted.classes_.tolist() == list(coding)
        np.testing.assert_array_equal(fitted.predict_proba(s), expected.predict_proba(s))
        np.testing.assert_array_equal(fitted.predict(s), np.array(coding)[expected.predict(s)])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint64, object])
def test_label_dtypes(dtype):
    s, y = sample(200)
    labels = (np.array([-100, 100]) if dtype is np.int8 else np.array([0, 200]))[y].astype(dtype)
    expected = PlattCalibrator().fit(s, y).calibrate(s)
    fitted = PlattCalibrator().fit(s, labels)
    assert fitted.classes_.tolist() == sorted(set(labels.tolist()))
    np.testing.assert_array_equal(fitted.calibrate(s), expected)


@every_multiclass
def test_label_coding_never_matters_for_three_classes(calibrator):
    p, y = three_classes(300)
    expected = seeded(calibrator).fit(p, y).predict_proba(p)
    for coding in ((1, 2, 3), ("a", "b", "c"), (-5, 0, 255)):
        np.testing.assert_array_equal(seeded(calibrator).fit(p, np.array(coding)[y]).predict_proba(p), expected)


# ── order and smoothness ────────────────────────────────────────────────────────────────────────────

MONOTONE = [c for c in BINARY if c.monotone]


def dense_grid():
    """Even points, points near the ends, and runs of neighbouring floats."""
    rng = np.random.default_rng(7)
    runs = [x + np.arange(400) * np.spacing(x) for x in rng.random(50)]
    ends = np.concatenate([np.logspace(-300, -1, 2000), 1 - np.logspace(-16, -1, 2000)])
    return np.unique(np.concatenate([np.linspace(0, 1, 200_001), ends, *runs]))


@pytest.mark.parametrize("calibrator", MONOTONE, ids=name_of)
@pytest.mark.parametrize("n", [30, 2000])
def test_monotone_maps_never_fall(calibrator, n):
    s, y = sample(n)
    assert (np.diff(seeded(calibrator).fit(s, y).calibrate(dense_grid())) >= 0).all()


@pytest.mark.parametrize("calibrator", MONOTONE, ids=name_of)
def test_monotone_maps_never_fall_where_the_truth_does(calibrator):
    rng = np.random.default_rng(3)
    s = rng.random(400)
    y = (rng.random(400) < 1 - s).astype(int)
    assert (np.diff(seeded(calibrator).fit(s, y).calibrate(np.linspace(0, 1, 20_001))) >= 0).all()


@pytest.mark.parametrize("calibrator", MONOTONE, ids=name_of)
def test_threshold_rules_of_a_monotone_map_are_threshold_rules_of_the_score(calibrator):
    """Proposition 4.2 of the paper: {g(S) ≥ τ} = {S ≥ τ'} for every τ."""
    s, y = sample(500)
    fitted = seeded(calibrator).fit(s, y).calibrate(s)
    for tau in np.unique(fitted)[::25]:
        chosen = fitted >= tau
        np.testing.assert_array_equal(chosen, s >= s[chosen].min())


STRICT = [c for c in MONOTONE if c.strictly_increasing or getattr(c, "strict", False)]


@pytest.mark.parametrize("calibrator", STRICT, ids=name_of)
def test_strictly_increasing_maps_leave_roc_and_auc_exactly(calibrator):
    s, y = sample(500)
    fitted = seeded(calibrator).fit(s, y)
    new, outcome = sample(5000, seed=9)
    recalibrated = fitted.calibrate(new)
    assert len(np.unique(recalibrated)) == len(np.unique(new))
    assert roc_auc_score(outcome, recalibrated) == roc_auc_score(outcome, new)
    np.testing.assert_array_equal(np.argsort(recalibrated, kind="stable"), np.argsort(new, kind="stable"))


SMOOTH = [c for c in BINARY if c.smooth]


@pytest.mark.parametrize("calibrator", SMOOTH, ids=name_of)
def test_smooth_maps_have_two_continuous_derivatives(calibrator):
    """The second derivative left and right of a knot differs by a multiple of the step: it does not jump."""
    s, y = sample(400)
    fitted = seeded(calibrator).fit(s, y)
    breaks = getattr(fitted.map_.curve, "breaks", np.array([0.3, 0.5, 0.7]))
    at = expit(breaks) if fitted.map_.chart.space == "logit" and breaks.size > 3 else breaks
    at = at[(at > 0.02) & (at < 0.98)]
    assert at.size
    assert jump(fitted, at, 2e-5) <= 0.2 * jump(fitted, at, 2e-4) + 1e-3


def jump(fitted: Calibrator, at: np.ndarray, h: float) -> float:
    """Largest difference of second differences left and right of points."""
    sides = (at[:, None] + h * np.arange(*span) for span in ((-4, -1), (2, 5)))
    second = [np.diff(fitted.calibrate(x.ravel()).reshape(x.shape), 2, axis=1)[:, 0] / h**2 for x in sides]
    return float(np.abs(second[0] - second[1]).max())


def test_the_test_of_smoothness_can_fail():
    """A spline with one second derivative that jumps: natural pieces with straight tails, one end bent."""
    s, y = sample(400)
    fitted = get_calibrator("natural-spline").fit(s, y)
    curve = fitted.map_.curve
    bent = curve.coefficients.copy()
    bent[1, 1] += 0.05  # the slope no longer meets at the second knot
    fitted.map_ = replace(fitted.map_, curve=replace(curve, coefficients=bent))
    at = expit(curve.breaks[1:2])
    assert jump(fitted, at, 2e-5) > 0.2 * jump(fitted, at, 2e-4) + 1e-3


@pytest.mark.parametrize("interpolation", ["step"])
def test_isotonic_steps_are_invariant_under_increasing_maps_of_the_score(interpolation):
    s, y = sample(500)
    calibrator = IsotonicCalibrator(interpolation=interpolation)
    expected = calibrator.fit(s, y).calibrate(s)
    for change in (np.sqrt, lambda v: v**3, lambda v: np.exp(v) / 3):
        np.testing.assert_array_equal(calibrator.fit(change(s), y).calibrate(change(s)), expected)
    np.testing.assert_array_equal(
        clone(calibrator).set_params(kind="logit").fit(100 * s, y).calibrate(100 * s), expected
    )


# ── the ends ────────────────────────────────────────────────────────────────────────────────────────


def distance(calibrator: Calibrator, n: int) -> float:
    """The promised distance from 0 and 1 (docs/calibrators.md)."""
    if calibrator.name in ("isotonic", "binning", "kernel") or getattr(calibrator, "link", "") == "identity":
        return 1 / (2 * n)
    if calibrator.name == "venn-abers":
        return 1 / (2 * (n + 2))
    if calibrator.name in ("identity", "temperature"):
        return 0.0
    return 1 / (16 * n**2)


def leaves_scores(fitted):
    """Whether a fitted map is the identity, by itself or because it was chosen."""
    return "identity" in (fitted.name, getattr(fitted, "selected_", None))


@every_binary
@pytest.mark.parametrize("n", [20, 300, 6000])
def test_values_keep_the_promised_distance_from_the_ends(calibrator, n):
    if calibrator.name == "identity":
        pytest.skip("the identity gives scores back as they are")
    rng = np.random.default_rng(n)
    s = rng.beta(0.3, 0.3, n)
    y = (rng.random(n) < s).astype(int)
    y[:2] = 0, 1
    fitted = seeded(calibrator).fit(s, y)
    p = fitted.calibrate(np.concatenate([dense_grid()[::50], [0.0, 1.0, 5e-324]]))
    assert np.isfinite(p).all()
    if leaves_scores(fitted):
        pytest.skip("the identity was chosen")
    assert p.min() > 0.0
    assert p.max() < 1.0
    assert min(p.min(), 1 - p.max()) >= distance(calibrator, n) * (1 - 1e-9)


@every_multiclass
def test_multiclass_values_stay_off_the_ends(calibrator):
    if calibrator.name == "identity":
        pytest.skip("the identity gives scores back as they are")
    p, y = three_classes(300)
    corners = np.vstack([np.eye(3), [[1e-300, 0.5, 0.5]], [[0.0, 0.0, 1.0]]])
    law = seeded(calibrator).fit(p, y).predict_proba(corners)
    assert (law > 0).all()
    assert np.isfinite(np.log(law)).all()


def test_exact_zeros_and_ones_are_read_at_a_quarter_of_their_resolution():
    rng = np.random.default_rng(0)
    s = rng.integers(0, 11, 2000) / 10
    y = (rng.random(2000) < 0.1 + 0.8 * s).astype(int)
    with_ends = PlattCalibrator().fit(s, y)
    by_hand = PlattCalibrator().fit(np.clip(s, 0.025, 0.975), y)
    np.testing.assert_allclose(
        [with_ends.slope_, with_ends.intercept_], [by_hand.slope_, by_hand.intercept_], rtol=1e-9
    )


@pytest.mark.parametrize(
    "calibrator", [c for c in BINARY if c.strictly_increasing or getattr(c, "strict", False)], ids=name_of
)
def test_scores_of_exactly_0_and_1_do_not_tie_with_their_neighbours(calibrator):
    """A forest's scores: steps of 0.02 with both ends; between and beyond them new scores keep their order."""
    rng = np.random.default_rng(0)
    s = rng.integers(0, 51, 600) / 50
    fitted = seeded(calibrator).fit(s, (rng.random(600) < 0.1 + 0.8 * s).astype(int))
    assert (np.diff(fitted.calibrate(np.linspace(0, 1, 2001))) > 0).all()


@every_binary
def test_scores_beyond_those_seen_are_not_extrapolated_far(calibrator):
    """A score of 0 or 1 that did not occur in fit is not read as a logit of ±700."""
    s, y = sample(100)
    fitted = seeded(calibrator).fit(s, y)
    ends = fitted.calibrate([0.0, s.min(), s.max(), 1.0])
    if calibrator.name != "identity":
        limit = 8 * abs(np.log(ends[1:3] / (1 - ends[1:3]))).max() + 8
        assert (np.abs(np.log(ends / (1 - ends))) < limit).all()


# ── hard cases ──────────────────────────────────────────────────────────────────────────────────────

HARD = {
    "constant score": (np.full(40, 0.3), np.tile([0, 0, 0, 1], 10), None),
    "two scores": (np.repeat([0.2, 0.7], 20), np.tile([0, 0, 1, 0, 1], 8), None),
    "two scores, separated": (np.repeat([0.2, 0.7], 20), np.repeat([0, 1], 20), None),
    "four rows": (np.array([0.1, 0.4, 0.35, 0.8]), np.array([0, 1, 0, 1]), None),
    "separated": (np.linspace(0.01, 0.99, 60), (np.linspace(0.01, 0.99, 60) > 0.5).astype(int), None),
    "separated the wrong way": (np.linspace(0.01, 0.99, 60), (np.linspace(0.01, 0.99, 60) < 0.5).astype(int), None),
    "ties everywhere": (np.tile([0.1, 0.5, 0.5, 0.9], 25), np.tile([0, 0, 1, 1, 0], 20), None),
    "zeros and ones": (np.tile([0.0, 1.0], 30), np.tile([0, 1, 0, 1, 1, 0], 10), None),
    "narrow band": (0.46 + 1e-6 * np.arange(100), np.tile([0, 1, 1], 34)[:100], None),
    "very narrow band": (0.5 + 1e-13 * np.arange(100), np.tile([0, 1, 1], 34)[:100], None),
    "tiny weights": (*sample(100), np.full(100, 1e-12)),
    "huge weights": (*sample(100), np.full(100, 1e12)),
    "uneven weights": (*sample(100), np.tile([1e-12, 1.0, 1e12, 0.0], 25)),
    "rare events": (np.linspace(0, 0.01, 3000), (np.arange(3000) % 1000 == 999).astype(int), None),
    "denormal scores": (np.concatenate([np.full(5, 5e-324), np.linspace(0.1, 0.9, 15)]), np.tile([0, 1], 10), None),
}


@pytest.mark.filterwarnings("ignore::scoreprism.exceptions.ScoreprismWarning")  # weights and order are odd on purpose
@every_binary
@pytest.mark.parametrize("case", HARD)
def test_hard_cases_give_probabilities(calibrator, case):
    s, y, weight = HARD[case]
    if len(s) < 5 and getattr(calibrator, "penalty", None) == "cv":
        with pytest.raises(InputError, match="cross-validation with 5 folds must have at least 5 rows"):
            seeded(calibrator).fit(s, y)
        return
    fitted = seeded(calibrator).fit(s, y, sample_weight=weight)
    p = fitted.calibrate(np.concatenate([s, np.linspace(0, 1, 101)]))
    assert np.isfinite(p).all()
    if leaves_scores(fitted):
        return
    assert p.min() > 0.0
    assert p.max() < 1.0
    if case == "constant score" and calibrator.name not in ("temperature", "venn-abers"):
        ridged = calibrator.multiclass or getattr(calibrator, "smooth_targets", False)
        np.testing.assert_allclose(fitted.calibrate([0.3]), 0.25, atol=0.03 if ridged else 1e-9)


@every_binary
@pytest.mark.parametrize(
    ("y", "weight"),
    [(np.ones(20), None), (np.tile([0, 1], 10), np.tile([0, 1], 10))],
    ids=["one label", "one weighted"],
)
def test_one_class_is_refused(calibrator, y, weight):
    with pytest.raises(LabelError) as error:
        seeded(calibrator).fit(np.linspace(0.1, 0.9, 20), y, sample_weight=weight)
    assert str(error.value).startswith("y must hold at least two classes; got one class, 1")


@pytest.mark.parametrize("calibrator", [c for c in BINARY if not c.multiclass], ids=name_of)
def test_binary_maps_refuse_three_classes(calibrator):
    p, y = three_classes(60)
    with pytest.raises(LabelError) as error:
        seeded(calibrator).fit(p, y)
    kind = type(calibrator).__name__
    assert str(error.value) == (
        f"{kind} must get two classes (Only binary classification is supported); got 3 classes: 0, 1, 2. "
        f"Use OneVsRestCalibrator({kind}()), or a multiclass map such as TemperatureCalibrator."
    )


BAD = [
    (
        [0.2, 1.5],
        [0, 1],
        "scores must hold probabilities between 0 and 1; got 1.5 in row 1 (1 of 2 rows outside). If these ",
    ),
    (pd.Series(["a", "b"], dtype=object), [0, 1], "scores must hold real numbers; got strings. "),
    (
        pd.DataFrame({"b": [0.3, 0.4], "a": [0.7, 0.6]}),
        ["a", "b"],
        "columns named after the labels must be in sorted order ",
    ),
    (np.array([[1e300], [1.0]]), [0, 1], "scores must be at most 1e15 in size; got 1e+300. Rescale them."),
    ([0.2, np.nan], [0, 1], "scores must be finite; got nan in row 1 (1 of 2 rows with NaN or infinities). "),
    ([0.2, 0.4, 0.5], [0, 1], "y and scores must have the same number of rows; got 2 and 3. "),
    ([], [], "scores must not be empty; got 0 rows. Pass at least one row."),
    (0.3, [0], "scores must hold one row per case; got a single number. Pass [score] for one case."),
    ([[0.5, 0.4], [0.2, 0.8]], [0, 1], "scores must have rows that sum to 1 within 1e-06; got 0.9 in row 0"),
    (["a", "b"], [0, 1], "scores must hold real numbers; got strings. "),
    ([0.2, 0.4], None, "PlattCalibrator requires y to be passed, but the target y is None; got None. "),
    ([0.2, 0.4], ["a", 1], "y must hold labels of one sortable kind; got a mix of int, str. "),
]


@pytest.mark.parametrize(("scores", "y", "text"), BAD, ids=[b[2][:40] for b in BAD])
def test_bad_input_is_refused(scores, y, text):
    with pytest.raises(InputError) as error:
        PlattCalibrator().fit(scores, y)
    assert str(error.value).startswith(text)


def test_logits_that_were_not_declared():
    with pytest.raises(InputError) as error:
        PlattCalibrator().fit([-2.0, 0.4, 3.0], [0, 1, 1])
    assert str(error.value) == (
        "scores must hold probabilities between 0 and 1; got -2.0 in row 0 (2 of 3 rows outside). "
        'If these are logits, declare them with kind="logit".'
    )


def test_a_score_of_the_other_class_is_noticed():
    rng = np.random.default_rng(0)
    s = rng.random(1000)
    labels = np.where(rng.random(1000) < s, "bad", "good")
    with pytest.warns(ScoreOrderWarning) as caught:
        MonotoneSplineCalibrator().fit(s, labels)
    assert str(caught[0].message) == (
        "Scores are read as the probability of 'good', but they are lower where it occurs. If they are probabilities of "
        "'bad', pass 1 − scores (or −scores for logits), or one column per class."
    )
    MonotoneSplineCalibrator().fit(1 - s, labels)


def test_weights_that_sum_to_one_are_noticed():
    s, y = sample(100)
    with pytest.warns(WeightScaleWarning) as caught:
        IsotonicCalibrator().fit(s, y, sample_weight=np.full(100, 0.01))
    assert str(caught[0].message).startswith(
        "sample_weight sums to 1 over 100 rows: a weight counts as a number of rows, "
    )


def test_a_fit_that_fails_leaves_nothing_fitted():
    s, y = sample(100)
    fitted = IsotonicCalibrator().fit(s, y)
    with pytest.raises(InputError, match="interpolation must be one of"):
        fitted.set_params(interpolation="cubic").fit(s, np.array(["a", "b"])[y])
    with pytest.raises(ValueError, match="not fitted"):
        fitted.calibrate(s)


def test_attributes_before_fit():
    for calibrator, name in (
        (PlattCalibrator(), "slope_"),
        (get_calibrator("beta"), "a_"),
        (BinningCalibrator(), "edges_"),
    ):
        with pytest.raises(ValueError, match="not fitted"):
            getattr(calibrator, name)


PARAMETERS = [
    (get_calibrator("platt", kind="odds"), "kind must be one of probability, logit; got 'odds'. "),
    (IsotonicCalibrator(interpolation="cubic"), "interpolation must be one of centered, linear, step; got 'cubic'. "),
    (IsotonicCalibrator(clip=0.7), "clip must be 'auto' or a distance of at least 0 and below 1/2; got 0.7. "),
    (BinningCalibrator(n_bins=0), "n_bins must be a whole number of at least 1; got 0. "),
    (BinEffectsCalibrator(edges=[0.5, 0.2]), "edges must be increasing numbers; got [0.5, 0.2]. "),
    (KernelCalibrator(bandwidth=-1), "bandwidth must be 'cv', 'rule', 'under' or a positive number; got -1. "),
    (KernelCalibrator(kernel="box"), "kernel must be one of triweight, biweight, epanechnikov; got 'box'. "),
    (SplineCalibrator(n_basis=3), "n_basis must be a whole number of at least 4; got 3. "),
    (SplineCalibrator(penalty=-1.0), "penalty must be 'reml', 'gcv', 'cv' or a number of at least 0; got -1. "),
    (MonotoneSplineCalibrator(link="probit"), "link must be one of logit, identity; got 'probit'. "),
    (get_calibrator("natural-spline", n_knots=9), "n_knots must be a whole number from 3 to 7; got 9. "),
    (VennAbersCalibrator(cv=1), "cv must be a whole number of at least 2; got 1. "),
    (get_calibrator("vector-scaling", ridge=0), "ridge must be a positive number; got 0. "),
    (OneVsRestCalibrator("bta"), "calibrator must be one of identity, platt, "),
    (SelectedCalibrator(candidates=[]), "candidates must not be empty; got none. "),
    (SelectedCalibrator(candidates=["plat"]), "calibrator must be one of "),
    (SelectedCalibrator(loss="accuracy"), "loss must be one of "),
]


@pytest.mark.parametrize(("calibrator", "text"), PARAMETERS, ids=[p[1][:30] for p in PARAMETERS])
def test_bad_parameters_are_refused_in_fit(calibrator, text):
    with pytest.raises(InputError) as error:
        calibrator.fit(*sample(50))
    assert str(error.value).startswith(text)


def test_a_kernel_without_a_score_in_any_window_is_refused():
    s, y = 0.1337 + 1e-6 * np.arange(40), np.tile([0, 1], 20)
    with pytest.raises(InputError) as error:
        MonotoneSplineCalibrator(bandwidth=1e-4, grid_size=10).fit(s, y)
    assert str(error.value) == (
        "at least one window of the kernel must hold a score; got 10 windows of half-width 0.0001, all empty. "
        "Use a larger bandwidth, or more grid points."
    )


# ── weights ─────────────────────────────────────────────────────────────────────────────────────────

#: Cross-validation splits rows, so a row of weight 2 is not two rows there.
FOLDED = ("selected",)


@pytest.mark.parametrize(
    "calibrator",
    [
        c
        for c in BINARY
        if c.name not in FOLDED and getattr(c, "penalty", 0) != "cv" and getattr(c, "cv", 5) in (5, None)
    ],
    ids=name_of,
)
def test_integer_weights_are_repeated_rows(calibrator):
    s, y = sample(250)
    weight = np.random.default_rng(5).integers(0, 4, 250)
    repeated = seeded(calibrator).fit(np.repeat(s, weight), np.repeat(y, weight))
    weighted = seeded(calibrator).fit(s, y, sample_weight=weight)
    np.testing.assert_allclose(weighted.calibrate(s), repeated.calibrate(s), atol=2e-7)


# ── scikit-learn's manners ──────────────────────────────────────────────────────────────────────────


@every_binary
def test_cloning_and_pickling(calibrator):
    s, y = sample(200)
    fitted = seeded(calibrator).fit(s, y)
    again = pickle.loads(pickle.dumps(fitted))  # noqa: S301
    np.testing.assert_array_equal(again.calibrate(s), fitted.calibrate(s))
    assert clone(fitted).get_params().keys() == fitted.get_params().keys()
    assert not hasattr(clone(fitted), "classes_")


@every_binary
def test_rows_are_predicted_on_their_own(calibrator):
    """A row's value does not depend on the company it is in, to the last bit."""
    s, y = sample(400)
    fitted = seeded(calibrator).fit(s, y)
    together = fitted.calibrate(s)
    alone = [fitted.calibrate(s[i : i + 1])[0] for i in range(0, 400, 7)]
    np.testing.assert_allclose(alone, together[::7], rtol=1e-14 if calibrator.multiclass else 0)  # BLAS sums by blocks
    np.testing.assert_array_equal(fitted.calibrate(s[::-1])[::-1], together)


@every_binary
def test_inputs_are_not_changed(calibrator):
    s, y = sample(100)
    weight = np.ones(100)
    before = s.copy(), y.copy(), weight.copy()
    seeded(calibrator).fit(s, y, weight).calibrate(s)
    for array, copy in zip((s, y, weight), before, strict=True):
        np.testing.assert_array_equal(array, copy)


# ── files ───────────────────────────────────────────────────────────────────────────────────────────


@every_binary
@pytest.mark.parametrize("kind", ["probability", "logit"])
def test_json_is_exact(calibrator, kind):
    s, y = sample(300)
    x = s if kind == "probability" else np.log(s / (1 - s))
    fitted = seeded(calibrator).set_params(kind=kind).fit(x, np.array(["no", "yes"])[y])
    text = fitted.to_json()
    again = from_json(text)
    assert again.to_json() == text
    assert type(again) is type(fitted)
    np.testing.assert_array_equal(again.predict_proba(x), fitted.predict_proba(x))
    np.testing.assert_array_equal(again.predict(x), fitted.predict(x))
    assert from_dict(json.loads(text)).to_dict() == fitted.to_dict()
    assert "NaN" not in text
    assert "Infinity" not in text
    shown = [name for name in dir(fitted) if name.endswith("_") and not name.startswith("_")]
    assert [name for name in dir(again) if name.endswith("_") and not name.startswith("_")] == shown


@every_multiclass
def test_json_of_multiclass_maps_is_exact(calibrator):
    p, y = three_classes(200)
    frame = pd.DataFrame(p, columns=["a", "b", "c"])
    fitted = seeded(calibrator).fit(frame, y - 1)
    again = from_json(fitted.to_json(indent=2))
    assert again.to_json() == fitted.to_json()
    np.testing.assert_array_equal(again.predict_proba(frame), fitted.predict_proba(frame))
    assert again.feature_names_in_.tolist() == ["a", "b", "c"]


def test_json_of_reduced_logits():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(100, 5))
    fitted = PlattCalibrator(kind="logit").fit(table, table[:, 0] + rng.normal(size=100) > 0)
    again = from_json(fitted.to_json())
    np.testing.assert_array_equal(again.predict_proba(table), fitted.predict_proba(table))


def digest(content):
    """The SHA-256 that a file holds: of all other fields, sorted by name, without blanks."""
    rest = {name: value for name, value in content.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()


def damaged(change):
    """The text of a fitted map after a change to its dictionary, under a digest that fits."""
    data = IsotonicCalibrator().fit(*sample(60)).to_dict()
    change(data)
    return json.dumps(data | {"sha256": digest(data)})


DAMAGES = {
    "not json": (lambda: "{", "a calibrator file must be JSON; got '{'"),
    "nan": (
        lambda: damaged(lambda d: d["map"].update(clip=float("nan"))),
        "a calibrator file must hold finite numbers; got NaN. ",
    ),
    "version": (
        lambda: damaged(lambda d: d.update(version=1)),
        "this release reads version 2 of the format; got 1. Fit the map again, or use the release that wrote it.",
    ),
    "bool version": (
        lambda: damaged(lambda d: d.update(version=True)),
        "this release reads version 2 of the format; got True. ",
    ),
    "edited": (
        lambda: damaged(lambda d: d).replace('"kind": "probability"', '"kind": "logit"'),
        (
            "a calibrator file must be as it was written; got content that does not fit its digest (sha256): it was "
            "edited or damaged. Use the original, or fit the map again."
        ),
    ),
    "names of classes": (
        lambda: damaged(lambda d: d["map"].update(part="BinaryMap")),
        "map must name a part this version knows; got 'BinaryMap'. Read the file with the version that wrote it.",
    ),
    "wide labels": (
        lambda: damaged(lambda d: d.update(classes={"dtype": "U500000000", "labels": ["a", "b"]})),
        (
            "classes must list different labels of one kind; got {'dtype': 'U500000000', 'labels': ['a', 'b']}. "
            "Write the file again with to_json()."
        ),
    ),
    "a long label": (
        lambda: damaged(lambda d: d.update(classes={"dtype": "str", "labels": ["a" * 10_001, *map(str, range(999))]})),
        "labels must take at most 10000000 letters; got 1000 labels, one of 10001 letters. Use shorter labels.",
    ),
    "many labels": (
        lambda: damaged(lambda d: d.update(classes={"dtype": "int64", "labels": list(range(2_000_000))})),
        "classes must list 2 to 100000 labels; got 2000000. Write the file again with to_json().",
    ),
    "many products": (
        lambda: damaged(
            lambda d: d.update(
                classes={"dtype": "int64", "labels": list(range(100_000))},
                map={
                    "part": "softmax",
                    "kind": "probability",
                    "features": "squares",
                    "weights": [[1.0]],
                    "low": 0.1,
                    "floor": 0.0,
                },
            )
        ),
        (
            "map must give probabilities of 100000 classes; got weights of shape (1, 1). "
            "Write the file again with to_json()."
        ),
    ),
    "600 levels": (
        lambda: "[" * 600,
        (
            "a calibrator file must have at most 48 levels; got more lists or objects within one another. "
            "Write the file again with to_json()."
        ),
    ),
    "levels of parts": (
        lambda: '{"a":' * 600 + "1" + "}" * 600,
        "a calibrator file must have at most 48 levels; got more lists or objects within one another. ",
    ),
    "many values": (
        lambda: "[" + "0," * 10_000_000 + "0]",
        "a calibrator file must hold at most 10000000 values; got about 10000002. Write the file again with to_json().",
    ),
    "provenance": (
        lambda: damaged(lambda d: d["provenance"].update(rows=61)),
        "provenance must count the rows of 2 classes; got 61 rows, [",
    ),
    "counts of one class": (
        lambda: damaged(lambda d: d["provenance"].update(counts=[sum(d["provenance"]["counts"])])),
        "provenance must count the rows of 2 classes; got 60 rows, [60]. Write the file again with to_json().",
    ),
    "a class without rows": (
        lambda: damaged(lambda d: d["provenance"].update(counts=[d["provenance"]["rows"], 0])),
        "provenance must count the rows of 2 classes; got 60 rows, [60, 0]. Write the file again with to_json().",
    ),
    "counts that are no integers": (
        lambda: damaged(lambda d: d["provenance"].update(counts=[29.5, 30.5])),
        "provenance must count the rows of 2 classes; got 60 rows, [29.5, 30.5]. Write the file again with to_json().",
    ),
    "range": (
        lambda: damaged(lambda d: d["provenance"].update(ranges=[[0.5, 0.1]])),
        "provenance must have the range of 1 columns; got [[0.5, 0.1]]. Write the file again with to_json().",
    ),
    "target": (
        lambda: damaged(lambda d: d["provenance"].update(target=3)),
        "provenance must name the target or none; got 3. Write the file again with to_json().",
    ),
    "score": (
        lambda: damaged(lambda d: d["provenance"].update(score=[3])),
        "provenance must name columns and a version; got {",
    ),
    "format": (
        lambda: damaged(lambda d: d.update(format="x")),
        "a calibrator file must have the format 'scoreprism.calibrator'; got 'x'. ",
    ),
    "list": (lambda: "[]", "a calibrator file must have the format 'scoreprism.calibrator'; got 'list'. "),
    "extra field": (
        lambda: damaged(lambda d: d.update(more=1)),
        "a calibrator file must be an object with the fields ",
    ),
    "missing field": (lambda: damaged(lambda d: d.pop("map")), "a calibrator file must be an object with the fields "),
    "unknown map": (
        lambda: damaged(lambda d: d["map"].update(part="Evil")),
        "map must name a part this version knows; got 'Evil'. ",
    ),
    "extra in map": (lambda: damaged(lambda d: d["map"].update(more=1)), "map must be an object with the fields "),
    "word for number": (
        lambda: damaged(lambda d: d["map"].update(clip="0")),
        "map.clip must be a finite number; got '0'. ",
    ),
    "unsorted": (
        lambda: damaged(lambda d: d["map"]["curve"]["knots"].reverse()),
        "BrokenLine.knots must have increasing numbers; ",
    ),
    "lengths": (
        lambda: damaged(lambda d: d["map"]["curve"]["values"].pop()),
        "BrokenLine must have one value per knot; ",
    ),
    "unknown calibrator": (
        lambda: damaged(lambda d: d.update(calibrator="os.system")),
        "calibrator must be the name of one; got 'os.system'. ",
    ),
    "parameter": (
        lambda: damaged(lambda d: d["parameters"].update(n=3)),
        "parameters must be an object with the fields ",
    ),
    "classes": (
        lambda: damaged(lambda d: d["classes"].update(labels=[1])),
        "classes must list 2 to 100000 labels; got 1. ",
    ),
    "infinity": (
        lambda: damaged(lambda d: d).replace('"clip": "auto"', '"clip": 1e999'),
        "a calibrator file must hold finite numbers; got 1e999. ",
    ),
    "digits": (lambda: damaged(lambda d: d["map"].update(clip=10**400)), "map.clip must be a finite number; got 1000"),
    "bare curve": (
        lambda: damaged(lambda d: d.update(map={"part": "line", "slope": 5.0, "intercept": 3.0})),
        "map must be a map; got Affine. ",
    ),
    "wrong classes": (
        lambda: damaged(
            lambda d: d.update(
                map={"part": "tempered", "kind": "probability", "sharpness": 1.0, "low": 0.1, "floor": 0.0}
            )
        ),
        "map must give probabilities of 2 classes; got Tempered. ",
    ),
    "twice": (
        lambda: '{"format": "a", "format": "b"}',
        "a calibrator file must not repeat a field; got 'format' twice. ",
    ),
    "path": (lambda: 3, "a calibrator file must be read from text; got int. "),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_refused(damage):
    text, message = DAMAGES[damage]
    with pytest.raises(InputError) as error:
        from_json(text())
    assert str(error.value).startswith(message)


@given(st.data())
def test_random_damage_never_passes_unseen(data):
    """Any deleted or replaced leaf is refused with our own error, or is a value that a fit could have had."""
    original = MonotoneSplineCalibrator(n_basis=5).fit(*sample(60)).to_dict()
    path, node = [], original
    while isinstance(node, (dict, list)) and node:
        keys = list(node) if isinstance(node, dict) else range(len(node))
        key = data.draw(st.sampled_from(list(keys)))
        path.append(key)
        parent, node = node, node[key]
    parent[path[-1]] = data.draw(st.sampled_from([None, "x", -1, 1e400, [], {}, True, {"part": "steps"}]))
    original["sha256"] = digest(original)
    try:
        fitted = from_dict(original)
    except InputError:
        return
    p = fitted.calibrate([0.1, 0.5])
    assert p.shape == (2,)


def test_unfitted_maps_have_nothing_to_write():
    for call in (lambda c: c.to_json(), lambda c: c.to_dict(), lambda c: c.to_sql("s"), lambda c: c.calibrate([0.5])):
        with pytest.raises(ValueError, match="not fitted"):
            call(PlattCalibrator())


def test_what_json_cannot_hold_is_refused():
    s, y = sample(60)
    from sklearn.model_selection import KFold

    with pytest.raises(InputError, match="cv must be a number, a word or a calibrator to be written"):
        SelectedCalibrator(cv=KFold(3)).fit(s, y).to_json()
    with pytest.raises(InputError, match="labels must be numbers, booleans or strings to be written"):
        PlattCalibrator().fit(s, np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]")[y]).to_json()
    text = SelectedCalibrator(random_state=np.random.default_rng(0)).fit(s, y).to_json()
    assert json.loads(text)["parameters"]["random_state"] is None


# ── SQL ─────────────────────────────────────────────────────────────────────────────────────────────


def with_few_pieces(calibrator: Calibrator) -> Calibrator:
    """Splines of few pieces: DuckDB takes two seconds for the text of one of their default size."""
    made = seeded(calibrator)
    return made.set_params(n_basis=6) if "n_basis" in made.get_params() else made


@every_binary
@pytest.mark.parametrize("kind", ["probability", "logit"])
def test_sql_gives_the_same_numbers(calibrator, kind):
    """DuckDB evaluates the expression; the tolerance is the issue's."""
    s, y = sample(300)
    x = s if kind == "probability" else np.log(s / (1 - s))
    fitted = with_few_pieces(calibrator).set_params(kind=kind).fit(x, y)
    grid = np.concatenate([np.linspace(0, 1, 501), s[:50], [1e-300]])
    grid = grid if kind == "probability" else np.concatenate([np.linspace(-60, 60, 501), x[:50], [-1e4, 1e4]])
    rows = pa.table({"score": grid})  # noqa: F841
    found = duckdb.sql(f"SELECT {fitted.to_sql('score')} AS p FROM rows").fetchnumpy()["p"]
    np.testing.assert_allclose(found, fitted.calibrate(grid), rtol=0, atol=1e-12)


def test_sql_of_missing_and_foreign_scores_is_null():
    fitted = IsotonicCalibrator().fit(*sample(100))
    rows = '(VALUES (NULL), (1.5), (-0.1), (\'nan\'::DOUBLE), (0.5)) AS t("my ""score")'
    expression = fitted.to_sql('my "score')
    found = duckdb.sql(f"SELECT {expression} FROM {rows}")
    values = [row[0] for row in found.fetchall()]
    assert values[:4] == [None] * 4
    assert values[4] == pytest.approx(fitted.calibrate([0.5])[0], abs=1e-12)


def test_sql_names():
    fitted = PlattCalibrator().fit(*sample(100))
    assert '"t"."order"' in fitted.to_sql("t.order")
    assert "`order`" in fitted.to_sql("order", quote="`")
    with pytest.raises(InputError, match="column must be the name of a column"):
        fitted.to_sql("")


def test_sql_of_single_precision_columns_and_of_scores_0_and_1():
    rng = np.random.default_rng(0)
    s = rng.integers(0, 11, 300) / 10
    y = (rng.random(300) < 0.2 + 0.6 * s).astype(int)
    grid = np.array([0.0, 0.004, 0.05, 0.3, 0.77, 0.99, 1.0], dtype=np.float32)
    rows = pa.table({"score": grid})  # noqa: F841
    for name in CALIBRATORS:
        fitted = with_few_pieces(get_calibrator(name)).fit(s, y)
        found = duckdb.sql(f"SELECT {fitted.to_sql('score')} AS p FROM rows").fetchnumpy()["p"]
        np.testing.assert_allclose(found, fitted.calibrate(grid.astype(float)), rtol=0, atol=1e-12, err_msg=name)


def test_sql_is_for_one_score_and_two_classes():
    p, y = three_classes(100)
    with pytest.raises(InputError) as error:
        get_calibrator("temperature").fit(p, y).to_sql("s")
    assert str(error.value) == (
        "to_sql must be called on a map of one score and two classes; got 3 columns and 3 classes. "
        "Fit on one column, or apply the map in Python."
    )


class ByFunction(Calibrator):
    """What a user writes whose map is a function: docs/tutorials/plot_7_your_own.py."""

    name = "by-function"

    def __init__(self, kind="probability"):
        self.kind = kind

    def _fit(self, data):
        return np.sqrt


def test_a_map_that_is_a_function_is_not_written():
    fitted = ByFunction().fit(*sample(60))
    np.testing.assert_array_equal(fitted.calibrate([0.25, 0.81]), [0.5, 0.9])
    for write, message in [
        (fitted.to_json, "made of parts that the library knows; got a ufunc in ByFunction. Keep .* with pickle."),
        (lambda: fitted.to_sql("s"), "to_sql must be called on a map that has a formula; got a ufunc in ByFunction"),
        (lambda: fitted.to_expr("s"), "to_expr must be called on a map that has a formula"),
    ]:
        with pytest.raises(InputError, match=message):
            write()


@pytest.mark.parametrize("name", CALIBRATORS)
def test_weights_that_count_no_rows_are_scaled_to_the_number_of_rows(name):
    """Σw is the n of a map, so that w·1e-200 can only mean the ratios: the map of w·n/Σw."""
    s, y = sample(60)
    w = np.random.default_rng(0).uniform(0.5, 2, 60)
    w[:5] = 0.0
    expected = CALIBRATORS[name]().fit(s, y, sample_weight=w * (55 / w.sum())).calibrate(s)
    for factor in (1e-200, 1e-290, 2.0**-700, 1e20, 1e300):
        with pytest.warns(WeightScaleWarning) as caught:
            found = CALIBRATORS[name]().fit(s, y, sample_weight=factor * w).calibrate(s)
        assert str(caught[0].message) == (
            f"sample_weight sums to {(factor * w).sum():.3g}, which is not a number of rows: only the ratios of the "
            "weights are used, scaled to sum to the 55 rows that have weight."
        )
        np.testing.assert_allclose(found, expected, atol=1e-8)


def test_multiclass_scores_in_another_layout_give_the_same_bits():
    law = np.random.default_rng(0).dirichlet(np.ones(3), 90)
    y = np.arange(90) % 3
    plain, other = (DirichletCalibrator().fit(one, y).calibrate(law) for one in (law, np.asfortranarray(law)))
    assert np.array_equal(plain, other)


FITS_IN_THREADS = """
import threading
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from threadpoolctl import threadpool_info
from scoreprism.calibrators import IdentityCalibrator

begun, may_end = [threading.Event(), threading.Event()], [threading.Event(), threading.Event()]

class Slow(IdentityCalibrator):
    def _fit(self, data):
        begun[data.codes.size - 10].set()
        assert may_end[data.codes.size - 10].wait(30)
        return super()._fit(data)

def fit(which):
    Slow().fit(np.linspace(0.1, 0.9, 10 + which), np.arange(10 + which) % 2)

def count_threads():
    print(*{library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"})

count_threads()
with ThreadPoolExecutor(2) as pool:
    fits = []
    for which in (0, 1):
        fits.append(pool.submit(fit, which))
        assert begun[which].wait(30)
    count_threads()
    for which in (0, 1):  # the first to begin is the first to end
        may_end[which].set()
        fits[which].result()
count_threads()
"""


def test_fits_in_several_threads_leave_linear_algebra_its_threads():
    names = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
    environment = os.environ | dict.fromkeys(names, "2")
    done = subprocess.run(
        [sys.executable, "-c", FITS_IN_THREADS], env=environment, capture_output=True, text=True, check=True
    )
    if not done.stdout.strip():
        pytest.skip("threads of this linear algebra cannot be counted")
    assert done.stdout.split() == ["2", "1", "2"]


def test_what_maps_promise_by_their_definitions():
    """
    The tests above hold maps to what they promise; a promise that is withdrawn would escape them.

    Smooth: compositions of logits with lines or logarithms, and cubic splines. In order: lines of positive slope, beta
    maps with shapes of at least 0, and what pools or constrains. Every score apart: no slope of 0, no steps.
    """
    smooth = {"identity", "platt", "temperature", "beta", "spline", "natural-spline", "monotone-spline"}
    monotone = {"identity", "temperature", "beta", "isotonic", "monotone-spline", "venn-abers"}
    assert {name for name, cls in CALIBRATORS.items() if cls.smooth} == smooth
    assert {name for name, cls in CALIBRATORS.items() if cls.monotone} == monotone
    assert {name for name, cls in CALIBRATORS.items() if cls.strictly_increasing} == {"identity", "temperature"}
