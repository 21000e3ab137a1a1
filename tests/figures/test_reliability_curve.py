"""Reliability curves against definitions and other packages; their bands against closed forms and by simulation."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import isotonic_regression

from scoreprism.calibrators import MonotoneSplineCalibrator
from scoreprism.curves import ReliabilityCurve, reliability_curve
from scoreprism.exceptions import InputError, RefutedShapeWarning

pytestmark = pytest.mark.filterwarnings(
    "ignore::scoreprism.exceptions.HardLabelsWarning"
)  # scores of 0 and 1 on purpose


METHODS = ["isotonic", "spline", "kernel", "bins"]
BANDS = ["consistency", "confidence"]


def sample(n, seed=0, law=lambda s: s):
    rng = np.random.default_rng(seed)
    s = rng.random(n)
    return (rng.random(n) < law(s)).astype(int), s


# ── the curve ───────────────────────────────────────────────────────────────────────────────────────


def test_isotonic_is_scipy_isotonic_regression():
    y, s = sample(300)
    s = s.round(2)  # ties
    curve = reliability_curve(y, s, band=None)
    values, index = np.unique(s, return_inverse=True)
    size = np.bincount(index)
    fitted = isotonic_regression(np.bincount(index, y) / size, weights=size).x
    np.testing.assert_allclose(np.interp(values, curve.x, curve.y), fitted, rtol=0, atol=1e-12)
    assert (np.diff(curve.x) > 0).all()


def test_bins_are_sklearn_calibration_curve():
    from sklearn.calibration import calibration_curve

    y, s = sample(1000)
    for strategy in ("quantile", "uniform"):
        curve = reliability_curve(y, s, method="bins", n_bins=8, strategy=strategy, band=None)
        rate, mean = calibration_curve(y, s, n_bins=8, strategy=strategy)
        np.testing.assert_allclose(curve.x, mean, rtol=1e-12)
        np.testing.assert_allclose(curve.y, rate, rtol=1e-12)
    assert curve.weight.sum() == pytest.approx(1.0, abs=1e-15)


def test_spline_is_the_calibrator():
    y, s = sample(500)
    curve = reliability_curve(y, s, method="spline", band=None)
    np.testing.assert_array_equal(curve.y, MonotoneSplineCalibrator().fit(s, y).calibrate(curve.x))


def test_kernel_is_a_weighted_mean():
    y, s = sample(200)
    curve = reliability_curve(y, s, method="kernel", band=None)
    u = (np.arange(200) + 0.5) / 200  # ranks of the sorted scores
    h = 0.5 * 0.9 * 2.978 * min(u.std(), 0.5 / 1.34) * 200**-0.2  # half of Silverman's rule, for the triweight kernel
    at = np.interp(curve.x, np.sort(s), u)
    k = np.maximum(1 - ((at[:, None] - u) / h) ** 2, 0) ** 3
    np.testing.assert_allclose(curve.y, k @ y[np.argsort(s)] / k.sum(axis=1), atol=1e-12)


def test_a_kernel_does_not_swing_in_a_sparse_tail():
    rng = np.random.default_rng(0)
    s = rng.beta(1.0, 12.0, 800)
    curve = reliability_curve(rng.random(800) < s, s, method="kernel", band=None)
    assert np.abs(np.diff(curve.y)).max() < 0.1  # over scores, windows of one row jump by 1


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("band", ["consistency", "confidence"])
def test_the_scale_of_weights_does_not_matter(method, band):
    y, s = sample(200)
    w = np.random.default_rng(1).gamma(2.0, size=200)
    one, other = (
        reliability_curve(y, s, method=method, band=band, sample_weight=k * w, n_resamples=40, random_state=0)
        for k in (1.0, 128.0)
    )
    for part in ("y", "low", "high"):
        np.testing.assert_allclose(getattr(one, part), getattr(other, part), rtol=1e-9)  # rounding of sums


@pytest.mark.parametrize("method", METHODS)
def test_integer_weights_give_the_curve_of_repeated_rows(method):
    """Smooth curves choose how smooth to be for (Σw)²/Σw² rows, not for Σw: they agree where weights are equal."""
    y, s = sample(200)
    w = np.random.default_rng(1).integers(0, 4 if method in ("isotonic", "bins") else 2, 200)
    weighted = reliability_curve(y, s, method=method, sample_weight=w, band=None)
    repeated = reliability_curve(np.repeat(y, w), np.repeat(s, w), method=method, band=None)
    at = np.linspace(s[w > 0].min(), s[w > 0].max(), 50)
    if method == "bins":
        np.testing.assert_allclose(weighted.x, repeated.x, atol=1e-12)
        np.testing.assert_allclose(weighted.y, repeated.y, atol=1e-12)
    else:  # grids of smooth curves follow the rows, so curves are compared between their points: to (step)²
        tolerance = 1e-10 if method == "isotonic" else 2e-3
        np.testing.assert_allclose(
            np.interp(at, weighted.x, weighted.y), np.interp(at, repeated.x, repeated.y), atol=tolerance
        )


# ── binomial intervals ──────────────────────────────────────────────────────────────────────────────


def rate_interval(k, n, interval="mid-p"):
    """The 90 % interval of an event rate: that of a bin with k events among n rows."""
    y = np.repeat([1, 0], [k, n - k])
    ask = {"method": "bins", "n_bins": 1, "band": "confidence", "interval": interval, "classes": [0, 1]}
    curve = reliability_curve(y, np.full(n, 0.4), confidence_level=0.9, **ask)
    return curve.low[0], curve.high[0]


def test_clopper_pearson_and_wilson_are_scipy():
    for k, n in [(0, 10), (3, 10), (10, 10), (1, 1), (17, 400)]:
        for ours, theirs in (("clopper-pearson", "exact"), ("wilson", "wilson")):
            expected = stats.binomtest(k, n).proportion_ci(0.9, theirs)
            np.testing.assert_allclose(rate_interval(k, n, ours), expected, atol=1e-10)


def test_mid_p_solves_its_equation_and_pure_bins_have_closed_forms():
    low, high = rate_interval(3, 12)
    for p, tail in ((low, stats.binom.sf(3, 12, low)), (high, stats.binom.cdf(2, 12, high))):
        assert tail + 0.5 * stats.binom.pmf(3, 12, p) == pytest.approx(0.05, abs=1e-12)
    # ½(1 − p)¹² = .05
    np.testing.assert_allclose(rate_interval(0, 12), [0.0, 1 - 0.1 ** (1 / 12)], atol=1e-12)
    np.testing.assert_allclose(rate_interval(12, 12), [0.1 ** (1 / 12), 1.0], atol=1e-12)


def test_the_consistency_band_of_a_bin_is_the_law_of_its_sum():
    """Quantiles of the number of events among rows with these probabilities, by enumeration and of the binomial law."""

    def ends(p):
        ask = {"method": "bins", "n_bins": 1, "band": "consistency", "interval": "clopper-pearson", "classes": [0, 1]}
        curve = reliability_curve(np.arange(p.size) % 2, p, confidence_level=0.9, **ask)
        return [curve.low[0] * p.size, curve.high[0] * p.size]

    p = np.array([0.1, 0.5, 0.9, 0.3])
    mass = np.zeros(5)
    for outcome in itertools.product((0, 1), repeat=4):
        mass[sum(outcome)] += np.prod(np.where(outcome, p, 1 - p))
    np.testing.assert_allclose(ends(p), np.searchsorted(np.cumsum(mass), [0.05, 0.95]), atol=1e-12)
    for n in (20, 500):
        np.testing.assert_allclose(ends(np.full(n, 0.3)), stats.binom.ppf([0.05, 0.95], n, 0.3), atol=1e-9)


def test_clopper_pearson_keeps_its_level_everywhere_and_mid_p_on_average():
    n, k = 10, np.arange(11)
    rates = np.linspace(0.005, 0.995, 199)
    cover = {}
    for interval in ("clopper-pearson", "mid-p"):
        low, high = np.transpose([rate_interval(events, n, interval) for events in k])
        covers = (low <= rates[:, None]) & (rates[:, None] <= high)
        cover[interval] = (stats.binom.pmf(k, n, rates[:, None]) * covers).sum(axis=1)
    assert cover["clopper-pearson"].min() >= 0.9
    assert 0.9 <= cover["mid-p"].mean() <= 0.93 < cover["clopper-pearson"].mean()


# ── bands ───────────────────────────────────────────────────────────────────────────────────────────


def test_likelihood_intervals_against_brute_force():
    """The ratio at a few scores from two constrained isotonic fits, and its cutoff taken from the result."""
    from scoreprism.curves._likelihood_band import Paths

    y, s = sample(40, 3)
    y = y[np.argsort(s)].astype(float)
    paths = Paths.of(np.ones(40), y)

    def likelihood(c):
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nansum(np.where(y == 1, np.log(c), np.log1p(-c)))

    free = likelihood(isotonic_regression(y).x)
    for j, theta in itertools.product((0, 7, 20, 39), (0.2, 0.5, 0.7)):
        left = np.minimum(isotonic_regression(y[:j]).x, theta) if j else np.empty(0)
        right = np.maximum(isotonic_regression(y[j + 1 :]).x, theta) if j < 39 else np.empty(0)
        expected = 2 * (free - likelihood(np.concatenate([left, [theta], right])))
        path = paths.events - theta * paths.weight
        low, high = np.array([path[: j + 1].argmin()]), np.array([j + 1 + path[j + 1 :].argmin()])
        assert paths.ratio(theta, low, high)[0] == pytest.approx(expected, abs=1e-9)


def test_consistency_band_of_one_score_is_binomial():
    y = sample(50)[0]
    curve = reliability_curve(y, np.full(50, 0.3), random_state=0, n_resamples=2000)
    low, high = stats.binom.ppf([0.05, 0.95], 50, 0.3) / 50
    assert abs(curve.low[0] - low) <= 0.02 + 1e-12  # one event: the Monte-Carlo error of a quantile
    assert abs(curve.high[0] - high) <= 0.02 + 1e-12
    assert curve.x.tolist() == [0.3]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("band", BANDS)
def test_bands_hold_the_curve_are_ordered_and_reproducible(method, band):
    y, s = sample(150)
    common = {"method": method, "band": band, "n_resamples": 60}
    pointwise = reliability_curve(y, s, random_state=1, **common)
    uniform = reliability_curve(y, s, random_state=1, uniform=True, **common)
    threads = reliability_curve(y, s, random_state=1, n_jobs=2, **common)
    np.testing.assert_array_equal(pointwise.low, threads.low)
    np.testing.assert_array_equal(pointwise.high, threads.high)
    for curve in (pointwise, uniform):
        assert (curve.low >= 0).all()
        assert (curve.high <= 1).all()
        assert (curve.low <= curve.high).all()
        assert curve.band_x.size == curve.low.size == curve.high.size <= 510
    assert (uniform.high - uniform.low).mean() > (pointwise.high - pointwise.low).mean()
    if band == "confidence":
        fit = np.interp(pointwise.band_x, pointwise.x, pointwise.y)
        assert ((pointwise.low <= fit + 1e-9) & (fit <= pointwise.high + 1e-9)).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("band", BANDS)
@pytest.mark.parametrize("uniform", [False, True])
def test_hard_cases(method, band, uniform):
    rng = np.random.default_rng(0)
    cases = [
        ([1], [0.3]),
        ([0, 1], [0.0, 1.0]),
        (np.zeros(30), rng.random(30)),
        (np.ones(30), rng.random(30)),
        (rng.integers(0, 2, 30), np.full(30, 0.4)),
        (rng.integers(0, 2, 30), np.repeat([0.0, 1.0], 15)),
        ((rng.random(30) < 0.5), np.linspace(0, 1, 30) ** 8),
    ]
    for y, s in cases:
        curve = reliability_curve(
            np.asarray(y, dtype=int), s, method=method, band=band, uniform=uniform, n_bins=1, n_resamples=20, random_state=0
        )  # fmt: skip
        for column in (curve.x, curve.y, curve.low, curve.high):
            assert np.isfinite(column).all()
        assert (curve.low <= curve.high).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("band", BANDS)
@pytest.mark.parametrize("uniform", [False, True])
def test_equal_weights_are_none_and_unequal_ones_widen_bands(method, band, uniform):
    y, s = sample(400)
    w = np.where(np.arange(400) % 2, 1.0, 9.0)  # worth 400 · 25/41 = 244 rows
    count = 190 if method == "bins" else 40  # ten weighted bins at once need 189
    common = {"method": method, "band": band, "uniform": uniform, "n_resamples": count, "random_state": 0}
    plain = reliability_curve(y, s, **common)
    for same in (1.0, 0.1):
        even = reliability_curve(y, s, sample_weight=np.full(400, same), **common)
        for part in ("x", "y", "low", "high"):
            np.testing.assert_array_equal(getattr(even, part), getattr(plain, part))
    uneven = reliability_curve(y, s, sample_weight=w, **common)
    assert (uneven.high - uneven.low).mean() > 1.08 * (plain.high - plain.low).mean()


EDGES = {
    "one row": ([1], [0.3]),
    "two rows": ([0, 1], [0.2, 0.7]),
    "two rows the other way": ([1, 0], [0.2, 0.7]),
    "one score": (np.arange(30) % 3 == 0, np.full(30, 0.4)),
    "no events": (np.zeros(40), np.linspace(0.0, 0.05, 40)),
    "events only": (np.ones(40), np.linspace(0.0, 1.0, 40)),
    "decreasing": (np.arange(60) < 30, np.linspace(0.0, 1.0, 60)),
    "separated": (np.arange(20) > 10, np.linspace(0.0, 1.0, 20)),
    "float32": (np.arange(50) % 7 > 3, np.linspace(0.0, 1.0, 50).astype(np.float32)),
    "imbalanced": (np.arange(300) % 150 == 149, np.linspace(0.0, 0.05, 300)),
    "more scores than points of a band": (np.arange(700) % 5 > 2, np.linspace(0.0, 1.0, 700)),
}


@pytest.mark.filterwarnings("ignore::scoreprism.exceptions.RefutedShapeWarning")
@pytest.mark.filterwarnings("ignore::scoreprism.exceptions.ScoreOrderWarning")
@pytest.mark.parametrize("case", EDGES)
@pytest.mark.parametrize(("level", "least"), [(0.5, 3), (0.96, 49)])
def test_a_uniform_band_contains_the_pointwise_one_and_both_their_curve(case, level, least):
    """With as few redraws as are allowed, 2/(1 − level) − 1."""
    y, s = EDGES[case]
    for method, band in itertools.product(METHODS, BANDS):
        pointwise, uniform = (
            reliability_curve(
                np.asarray(y, dtype=int), s, pos_label=1, classes=[0, 1], method=method, band=band, uniform=flag,
                confidence_level=level, n_bins=1, n_resamples=least, random_state=0,
            )
            for flag in (False, True)
        )  # fmt: skip
        np.testing.assert_array_equal(pointwise.band_x, uniform.band_x)
        assert (uniform.low <= pointwise.low + 1e-15).all()
        assert (uniform.high >= pointwise.high - 1e-15).all()
        if band == "confidence":
            assert (pointwise.low < pointwise.high).all()
            fit = np.interp(pointwise.band_x, pointwise.x, pointwise.y)
            assert (pointwise.low <= fit + 1e-12).all()
            assert (fit <= pointwise.high + 1e-12).all()


@pytest.mark.parametrize("n", [1, 10, 30, 300])
def test_no_events_at_one_score_give_the_exact_interval(n):
    """½(1 − p)ⁿ = .05 pointwise (mid-P), (1 − p)ⁿ = .05 uniformly (Clopper–Pearson); the mirror image of n events."""
    for uniform, tail in ((False, 0.1), (True, 0.05)):
        ends = []
        for outcome in (0, 1):
            y = np.full(n, outcome)
            curve = reliability_curve(
                y, np.full(n, 0.3), band="confidence", uniform=uniform, classes=[0, 1], pos_label=1
            )
            ends.append((curve.low[0], curve.high[0]))
        assert ends[0] == pytest.approx((0.0, 1.0 - tail ** (1 / n)), abs=1e-12)
        assert ends[1] == pytest.approx((tail ** (1 / n), 1.0), abs=1e-12)


@pytest.mark.parametrize("outcome", [0, 1])
def test_no_events_at_many_scores_give_the_exact_interval_of_the_rows_beyond(outcome):
    """With no events the rate at the r-th of n scores is bounded by the n − r + 1 rows from there on: mid-P of these."""
    n = 100
    s = np.linspace(0.1, 0.9, n)
    curve = reliability_curve(
        np.full(n, outcome), s, band="confidence", n_resamples=99, random_state=0, classes=[0, 1], pos_label=1
    )
    expected = 1.0 - 0.1 ** (1.0 / np.arange(n, 0, -1))
    found = curve.high if outcome == 0 else 1.0 - curve.low[::-1]
    np.testing.assert_allclose(found[:90], expected[:90], rtol=1e-4)  # θ is interpolated
    assert (found[90:] > 0.999 * expected[90:]).all()  # redraws may ask for more in the last few rows


def test_coverage_at_one_score_is_exact():
    """Sums of binomial probabilities: mid-P has the level on average over rates, Clopper–Pearson at every rate."""
    n, rates = 10, np.linspace(0.005, 0.995, 199)[:, None]
    for uniform in (False, True):
        curves = [
            reliability_curve(
                np.arange(n) < k, np.full(n, 0.3), band="confidence", uniform=uniform, classes=[False, True], pos_label=True
            )
            for k in range(n + 1)
        ]  # fmt: skip
        low, high = (np.array([getattr(curve, end)[0] for curve in curves]) for end in ("low", "high"))
        cover = (stats.binom.pmf(np.arange(n + 1), n, rates) * ((low <= rates) & (rates <= high))).sum(axis=1)
        assert cover.min() >= 0.9 if uniform else 0.9 <= cover.mean() <= 0.93


def test_rare_events_are_covered():
    """Rate .01, 100 rows, no event in a third of samples: .77 when redraws were like the data."""
    held = []
    for seed in range(50):
        rng = np.random.default_rng(seed)
        s, y = 0.05 * rng.random(100), (rng.random(100) < 0.01).astype(int)
        curve = reliability_curve(
            y, s, band="confidence", uniform=True, n_resamples=60, random_state=0, classes=[0, 1], pos_label=1
        )
        held.append(curve.low.max() <= 0.01 <= curve.high.min())
    assert np.mean(held) >= 0.88


@pytest.mark.filterwarnings("ignore::scoreprism.exceptions.ScoreOrderWarning")
def test_a_falling_event_rate_is_warned_of_and_has_a_band():
    rng = np.random.default_rng(0)
    s = rng.random(400)
    y = (rng.random(400) < 0.9 - 0.8 * s).astype(int)
    common = {"band": "confidence", "uniform": True, "n_resamples": 99, "random_state": 0}
    with pytest.warns(
        RefutedShapeWarning, match=r"^Somewhere the event rate falls.* Use method='bins' or 'kernel'"
    ) as caught:
        curve = reliability_curve(y, s, **common)
    assert caught[0].filename == __file__
    assert (curve.high - curve.low).min() > 0.02
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reliability_curve(1 - y, s, **common)


def test_bins_of_equal_width_hold_their_upper_edge_as_elsewhere():
    from sklearn.calibration import calibration_curve

    s = np.repeat(np.arange(101) / 100, 3)
    y = (np.random.default_rng(0).random(s.size) < s).astype(int)
    for n_bins in (4, 5, 8, 10):
        curve = reliability_curve(y, s, method="bins", n_bins=n_bins, strategy="uniform", band=None)
        rate, mean = calibration_curve(y, s, n_bins=n_bins, strategy="uniform")
        np.testing.assert_allclose(curve.x, mean, rtol=1e-12)
        np.testing.assert_allclose(curve.y, rate, rtol=1e-12)
        np.testing.assert_allclose(
            curve.weight,
            np.bincount(np.maximum(np.ceil(np.round(s * n_bins, 9)), 1).astype(int))[1:] / s.size,
            rtol=1e-12,
        )


@pytest.mark.parametrize("band", BANDS)
@pytest.mark.parametrize("method", METHODS)
def test_too_few_redraws_are_refused_where_they_are_used(method, band):
    y, s = sample(100)
    ask = {"method": method, "band": band, "confidence_level": 0.99, "uniform": True}
    if method == "bins":  # nothing is redrawn
        reliability_curve(y, s, n_resamples=2, **ask)
        return
    # 199 + 1 curves, and half of .01 of them beyond either end: one
    with pytest.raises(InputError, match=r"^n_resamples must be at least 199 for intervals of level 0\.99; got 198\."):
        reliability_curve(y, s, n_resamples=198, **ask)
    assert np.isfinite(reliability_curve(y, s, n_resamples=199, **ask).low).all()


def test_weighted_bins_say_how_many_redraws_they_need():
    y, s = sample(100)
    ask = {"method": "bins", "confidence_level": 0.99, "uniform": True, "sample_weight": np.arange(1.0, 101.0)}
    # 2 / (1 − .99^(1/10)) − 1 = 1989.0…
    with pytest.raises(
        InputError, match=r"^n_resamples must be at least 1990 for intervals of level 0\.998995; got 1000\."
    ):
        reliability_curve(y, s, **ask)
    assert np.isfinite(reliability_curve(y, s, n_resamples=1990, **ask).low).all()


def test_small_coverage_of_isotonic_bands():
    """Nominal .9; 25 samples of 100 rows tell .9 from .6, not from .87: the table is in docs/curves.md."""
    pointwise, uniform = [], []
    for seed in range(25):
        y, s = sample(100, seed, lambda s: s**2)
        for flag, out in ((False, pointwise), (True, uniform)):
            curve = reliability_curve(y, s, band="confidence", uniform=flag, n_resamples=60, random_state=seed)
            low, high = (np.interp(s, curve.band_x, end) for end in (curve.low, curve.high))
            held = (low <= s**2) & (s**2 <= high)
            out.append(held.all() if flag else held.mean())
    assert 0.8 <= np.mean(pointwise) <= 0.98
    assert np.mean(uniform) >= 0.8


@pytest.mark.statistical
@pytest.mark.parametrize("method", METHODS)
def test_coverage(method):
    """Pointwise within [.87, .93] and uniform at least .88, each give or take two Monte-Carlo errors."""
    from benchmarks.band_coverage import LAWS, Cell, simulate

    law = next(law for law in LAWS if law.name == "calibrated")
    for band, sims in (("confidence", 300), ("consistency", 20)):
        mean, error = simulate(Cell(law, 1000, method, band), sims, 300)
        assert 0.87 - 2 * error[0] <= mean[0] <= 0.93 + 2 * error[0]
        assert mean[2] >= 0.88 - 2 * error[2]


# ── the result ──────────────────────────────────────────────────────────────────────────────────────


def test_frames_dicts_and_words():
    y, s = sample(50)
    curve = reliability_curve(y, s, random_state=0, n_resamples=20, name="logit")
    assert isinstance(curve, ReliabilityCurve)
    assert curve.to_frame().columns == ["x", "y", "weight"]
    assert curve.band_frame("pandas").shape == (50, 3)
    assert repr(curve).startswith("ReliabilityCurve of logit: isotonic, pointwise 0.9 consistency band; ")
    told = curve.to_dict()
    assert (told["method"], told["confidence_level"], len(told["band_points"]["low"])) == ("isotonic", 0.9, 50)
    smooth = reliability_curve(y, s, method="spline", band="confidence", uniform=True, n_resamples=20)
    assert smooth.to_frame().columns == ["x", "y", "low", "high"]
    assert smooth._describe() == "spline, uniform 0.9 confidence band"
    none = reliability_curve(y, s, band=None)
    assert none.low is None
    with pytest.raises(InputError, match=r"^the curve must have a band; got band=None\. Ask for band='consistency'"):
        none.band_frame()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "isotone"}, "method must be one of isotonic, spline, kernel, bins; got 'isotone'. Did you mean 'isotonic'?"),
        ({"band": "sure"}, "band must be one of consistency, confidence; got 'sure'. Choose one of these."),
        ({"confidence_level": 90}, "confidence_level must be a confidence level between 0 and 1; got 90. Pass a number in that range."),
        ({"method": "bins", "n_bins": 0}, "n_bins must be a whole number of at least 1; got 0. Pass an integer."),
        ({"method": "bins", "n_bins": 9}, "n_bins must be at most the number of rows; got 9 bins for 4 rows. Use fewer bins."),
        ({"n_bins": 0}, "n_bins must be a whole number of at least 1; got 0. Pass an integer."),
        ({"strategy": "even"}, "strategy must be one of quantile, uniform; got 'even'. Choose one of these."),
        ({"uniform": 1}, "uniform must be True or False; got 1. True asks for a band that holds at all scores at once."),
        ({"n_jobs": 0, "band": None}, "n_jobs must be a number of processes, −1 for all cores, or None; got 0. For example 2."),
    ],
)  # fmt: skip
def test_refusals(options, message):
    with pytest.raises(InputError) as caught:
        reliability_curve([0, 1, 0, 1], [0.1, 0.4, 0.5, 0.9], **options)
    assert str(caught.value) == message


def test_redraws_in_cells_are_those_of_rows_up_to_noise(monkeypatch):
    """Two bands of 200 redraws differ as much by their seeds as by pooling: medians of |difference| / width."""
    rng = np.random.default_rng(0)
    for s in (rng.random(70_000), np.round(rng.random(70_000), 2), rng.beta(0.5, 4, 150_000)):
        y = rng.random(s.size) < s
        pooled = reliability_curve(y, s, n_resamples=200, random_state=0)
        monkeypatch.setattr("scoreprism.curves._isotonic_curve._WORTHWHILE", np.inf)
        exact, other = (reliability_curve(y, s, n_resamples=200, random_state=seed) for seed in (0, 1))
        monkeypatch.undo()
        width = exact.high - exact.low
        seen = width > 0

        def gap(band, end, exact=exact, width=width, seen=seen):
            return float(np.median(np.abs(getattr(band, end) - getattr(exact, end))[seen] / width[seen]))

        for end in ("low", "high"):
            assert gap(pooled, end) < 2 * gap(other, end)
            assert gap(pooled, end) > 0  # it is another way of drawing
