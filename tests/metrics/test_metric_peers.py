"""Numbers of the packages that define a metric, on the same data: recorded, and asked again where the package is installed.

The two-class data are those of the README of R's pmcalibration, made again with R 4.2.2 (tests/data/pmcalibration.csv), where
its printed numbers come out; the three-class data are a formula. Recorded with netcal 1.4.0, uncertainty-calibration 0.1.4,
mapie 1.6.0, statsmodels 0.15.0, relplot 1.0.3, scikit-learn 1.9.1, and R 4.2.2 with pROC 1.18.0 and locfit 1.5-9.7. netcal's metrics are
numpy, but it imports torch beside them; its numbers were recorded with a stub in place of torch.
"""

import warnings
from pathlib import Path

import numpy as np
import pytest

from scoreprism.calibrators import NaturalSplineCalibrator
from scoreprism.metrics import (
    METRICS,
    LocalRegression,
    ace,
    auc,
    calibration_in_the_large,
    calibration_intercept,
    calibration_slope,
    classwise_ece,
    classwise_rmsce,
    confidence_ece,
    confidence_smece,
    debiased_ece,
    debiased_rmsce,
    e50,
    e90,
    ece,
    emax,
    ici,
    lcs,
    mce,
    rmsce,
    smece,
    spiegelhalter_z,
    top_label_ece,
)

S, Y = np.loadtxt(Path(__file__).parents[1] / "data" / "pmcalibration.csv", delimiter=",", skiprows=2).T
Y = Y.astype(int)
W = 1 + np.arange(1000) % 4
#: Sums of a thousand numbers in another order.
ROUNDING = 1e-12


def three():
    """300 rows of three classes."""
    i = np.arange(300)
    law = np.exp(np.stack([np.sin(i), 1.5 * np.cos(2 * i), 0.5 + np.sin(3 * i)], axis=1))
    law = (law / law.sum(axis=1, keepdims=True)).round(6)
    law[:, 2] = (1 - law[:, 0] - law[:, 1]).round(6)
    sharper = law**1.3 / (law**1.3).sum(axis=1, keepdims=True)
    u = (i * 0.6180339887) % 1
    return (u[:, None] > sharper.cumsum(axis=1)[:, :2]).sum(axis=1), law


# ── R ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_loess_of_r():
    """pc <- predict(loess(y ~ p, control = loess.control(surface = "direct"))), then mean, median, max of |p − pc|."""
    # R leaves out weights below 1e-8 at the rim of a neighbourhood and rounds those near its centre to 1
    assert ici(Y, S) == pytest.approx(0.05140034870596, abs=1e-9)
    assert e50(Y, S) == pytest.approx(0.0534668425786576, abs=1e-9)
    assert emax(Y, S) == pytest.approx(0.114736526998866, abs=1e-9)
    assert lcs(Y, S) == pytest.approx(0.00344431393804327, abs=1e-9)
    # R interpolates its quantile between the rows number 900 and 901 by a tenth, we by half: scale and repetition of
    # weights then change nothing
    assert e90(Y, S) == pytest.approx(0.0891173147944872, abs=1e-4)


def test_loess_of_r_with_its_default_interpolation_is_near():
    """loess(y ~ p) without surface = "direct" interpolates between vertices: 0.0514641916 and 0.00343895344 above."""
    assert ici(Y, S) == pytest.approx(0.05146419162, abs=1e-4)
    assert lcs(Y, S) == pytest.approx(0.003438953449, abs=1e-5)


def test_loess_of_r_on_repeated_rows_and_ties():
    """The same with pp <- rep(p, k); yy <- rep(y, k), k = 1, 2, 3, 4, 1, …; and with round(p, 2)."""
    assert ici(Y, S, sample_weight=W) == pytest.approx(0.0528586289540914, abs=1e-9)
    assert e50(Y, S, sample_weight=W) == pytest.approx(0.0517041430923383, abs=1e-9)
    assert emax(Y, S, sample_weight=W) == pytest.approx(0.107744512346485, abs=1e-9)
    assert lcs(Y, S, sample_weight=W) == pytest.approx(0.00374465178571601, abs=1e-9)
    assert ici(Y, S.round(2)) == pytest.approx(0.0512576820109239, abs=1e-9)
    assert lcs(Y, S.round(2)) == pytest.approx(0.00342833132387769, abs=1e-9)


def test_rms_val_prob_in_the_readme():
    """Printed: Emax 0.145, E90 0.073, Eavg 0.044 by lowess(p, y, iter = 0); C 0.813; Intercept, Slope; S:z and S:p."""
    # 666 neighbours in R, 667 here: the numbers agree to the three digits printed
    found = [float(metric(Y, S, smoother="lowess")) for metric in (emax, e90, ici)]
    assert np.round(found, 3).tolist() == [0.145, 0.073, 0.044]
    assert round(auc(Y, S), 3) == 0.813
    assert (round(calibration_intercept(Y, S), 3), round(calibration_slope(Y, S), 3)) == (-0.076, 1.062)
    z = spiegelhalter_z(Y, S)
    assert (round(z, 3), round(z.pvalue, 3)) == (-2.238, 0.025)


def test_pmcalibration_in_the_readme():
    """Printed for smooth = "rcs", nk = 5, transf = "logit": Eavg, E50, E90, Emax, and ECI = 100·LCS; logistic_cal."""
    spline = NaturalSplineCalibrator(n_knots=5, ridge=0.0)
    found = [float(metric(Y, S, smoother=spline)) for metric in (ici, e50, e90, emax)]
    assert np.round(found, 3).tolist() == [0.054, 0.059, 0.083, 0.138]
    assert round(100 * lcs(Y, S, smoother=spline), 3) == 0.368
    # its calibration intercept has the slope held at 1; its standard errors are the model's, ours allow it to be wrong
    assert round(calibration_in_the_large(Y, S), 2) == -0.11
    assert round(calibration_in_the_large(Y, S).std_error, 2) == 0.08
    assert round(calibration_slope(Y, S), 2) == 1.06


def test_delong_of_proc():
    """roc <- pROC::roc(y, p, direction = "<"); auc(roc), sqrt(var(roc, method = "delong")), ci(roc)."""
    area = auc(Y, S)
    assert area == pytest.approx(0.813319720036832, rel=ROUNDING)
    assert area.std_error == pytest.approx(0.0157630800743301, rel=ROUNDING)
    interval = area.interval()
    assert (interval.low, interval.high) == pytest.approx((0.782424650805724, 0.84421478926794), rel=ROUNDING)


def test_density_weighted_local_calibration_score():
    """weighted.mean((x − ĝ(x))², density(p, from = 0, to = 1, n = 100)$y) over x in {0, 1/99, …, 1} within the scores."""
    # density() bins its data and uses a fast Fourier transform: the weights differ by some 1e-4 of themselves
    assert lcs(Y, S, over="density") == pytest.approx(0.00352584306012801, rel=2e-4)
    # the authors' earlier ĝ is locfit(y ~ lp(p, nn = 0.15, deg = 0), kern = "rect"): the mean of the nearest 15 %, which
    # by hand in R gives 0.003212; locfit itself, 0.003292, interpolates between vertices
    nearest = LocalRegression(degree=0, span=0.15, kernel="uniform")
    assert lcs(Y, S, over="density", smoother=nearest) == pytest.approx(0.003212014146749, rel=2e-4)
    assert lcs(Y, S, over="density", smoother=nearest) == pytest.approx(0.00329224032289953, rel=0.03)


# ── Python ──────────────────────────────────────────────────────────────────────────────────────────────


def test_lowess_of_statsmodels():
    recorded = {"ici": 0.043920467406610264, "lcs": 0.002693229036381993, "e50": 0.04301741645216321}
    smoother = LocalRegression(degree=1, span=0.666)  # statsmodels rounds 2/3 of 1000 neighbours down
    found = {f.__name__: float(f(Y, S, smoother=smoother)) for f in (ici, lcs, e50)}
    assert found == pytest.approx(recorded, rel=1e-10)  # the same arithmetic in another order
    statsmodels = pytest.importorskip("statsmodels.api")
    lowess = statsmodels.nonparametric.lowess(Y, S, frac=2 / 3, it=0, delta=0.0, return_sorted=False)
    assert found["ici"] == pytest.approx(np.abs(lowess - S).mean(), rel=1e-10)


def test_scikit_learn_on_several_classes():
    from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, roc_auc_score, top_k_accuracy_score

    rng = np.random.default_rng(0)
    p, w = rng.dirichlet(np.ones(8), 500), rng.random(500)
    y = (rng.random(500)[:, None] >= p.cumsum(axis=1)[:, :-1]).sum(axis=1)
    for weight in (None, w):
        ours = {name: METRICS[name](y, p, sample_weight=weight) for name in ("accuracy", "log_loss", "macro_auc")}
        theirs = {
            "accuracy": accuracy_score(y, p.argmax(axis=1), sample_weight=weight),
            "log_loss": log_loss(y, p, sample_weight=weight),
            "macro_auc": roc_auc_score(y, p, multi_class="ovr", sample_weight=weight),
        }
        assert ours == pytest.approx(theirs, rel=ROUNDING)
        for k in (1, 3, 5):
            top = top_k_accuracy_score(y, p, k=k, sample_weight=weight)
            assert METRICS["top_k_accuracy"](y, p, k=k, sample_weight=weight) == pytest.approx(top, rel=ROUNDING)
    # one column: scale_by_half is "auto" from 1.7, and two classes are halved in every version
    assert METRICS["brier_score"](Y, S) == pytest.approx(brier_score_loss(Y, S), rel=ROUNDING)


def test_netcal():
    # its bins are [a, b), ours (a, b]: no score of these data stands on an edge
    assert ece(Y, S, n_bins=10) == pytest.approx(0.0553932622895364, rel=ROUNDING)
    assert ace(Y, S, n_bins=10, strategy="uniform") == pytest.approx(0.05740805724146616, rel=ROUNDING)
    assert mce(Y, S, n_bins=10) == pytest.approx(0.16290951472199988, rel=ROUNDING)
    y, law = three()
    assert confidence_ece(y, law) == pytest.approx(0.0930399433333334, rel=ROUNDING)
    netcal = pytest.importorskip("netcal.metrics.confidence", exc_type=ImportError)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ece(Y, S, n_bins=10) == pytest.approx(netcal.ECE(10).measure(S, Y), rel=ROUNDING)


def test_netcal_at_an_edge_is_the_other_way():
    # 0.5 is in the upper of two bins for netcal: (|0 − 0.2| + |1 − 0.5|)/2; here both rows share the lower one
    assert ece([0, 1], [0.2, 0.5], n_bins=2) == pytest.approx(abs(1 / 2 - 0.35), rel=ROUNDING)
    netcal = pytest.importorskip("netcal.metrics.confidence", exc_type=ImportError)
    assert netcal.ECE(2).measure(np.array([0.2, 0.5]), np.array([0, 1])) == pytest.approx(0.35)


def test_uncertainty_calibration():
    """get_ece, get_ece_em, plugin_ce, unbiased_l2_ce, normal_debiased_ce; its bins are (a, b] too."""
    assert ece(Y, S) == pytest.approx(0.05319738132390638, rel=ROUNDING)
    assert rmsce(Y, S) == pytest.approx(0.06817446967037945, rel=ROUNDING)
    assert debiased_rmsce(Y, S) == pytest.approx(0.050128513910271906, rel=ROUNDING)
    # of equal mass they agree where the number of bins divides the rows: which bins get the rest is a matter of taste
    mass = {"n_bins": 10, "strategy": "quantile"}
    assert ece(Y, S, **mass) == pytest.approx(0.05760063494705836, rel=ROUNDING)
    assert debiased_rmsce(Y, S, **mass) == pytest.approx(0.057986368782635966, rel=ROUNDING)
    # by 400 000 draws there, whose mean has the error 2e-5
    assert debiased_ece(Y, S, **mass) == pytest.approx(0.0502025916491677, abs=6e-5)
    y, law = three()
    assert classwise_ece(y, law) == pytest.approx(0.06382656222222222, rel=ROUNDING)
    assert classwise_rmsce(y, law) == pytest.approx(0.07402150215942953, rel=ROUNDING)
    assert confidence_ece(y, law) == pytest.approx(0.09303994333333333, rel=ROUNDING)
    peer = pytest.importorskip("calibration")
    if not hasattr(peer, "get_ece"):
        pytest.skip("another package named calibration")
    assert ece(Y, S) == pytest.approx(peer.get_ece(S, Y, num_bins=15, mode="marginal"), rel=ROUNDING)
    assert classwise_ece(y, law) == pytest.approx(peer.get_ece(law, y, num_bins=15, mode="marginal"), rel=ROUNDING)


def test_mapie():
    """expected_calibration_error, spiegelhalter_statistic, top_label_ece."""
    # MAPIE's num_bins counts edges: 16 of them make 15 bins, and a score of exactly 0 has a bin to itself
    assert ece(Y, S) == pytest.approx(0.05319738132390637, rel=ROUNDING)
    # its p-value is one-sided, 0.9874
    z = spiegelhalter_z(Y, S)
    assert (z, z.pvalue) == pytest.approx((-2.23833097741537, 2 * (1 - 0.9874002602732926)), rel=1e-10)
    # its top-label ECE gives predicted classes equal weights, ours the weight of their rows (Gupta & Ramdas 2022)
    y, law = three()
    best = law.argmax(axis=1)
    each = [float(ece((y[best == k] == k).astype(int), law[best == k, k])) for k in range(3)]
    assert np.mean(each) == pytest.approx(0.10289173159885696, rel=ROUNDING)
    assert top_label_ece(y, law) == pytest.approx(np.bincount(best) / best.size @ each, rel=ROUNDING)
    peer = pytest.importorskip("mapie.metrics.calibration", exc_type=ImportError)
    again = peer.expected_calibration_error(Y, S, num_bins=16, split_strategy="uniform")
    assert ece(Y, S) == pytest.approx(again, rel=ROUNDING)


def test_relplot():
    """relplot 1.0.3: smECE_sigma(s, y, σ) and smECE(s, y) with relplot.config.smECE_mesh_pts = 20001, not its 200."""
    # it cuts the kernel off at ±½, adds 1e-4 to the density and takes a plain sum for an integral
    recorded = {0.02: 0.05242909983033565, 0.05: 0.04802304588454767, 0.1: 0.0392351496614358}
    for bandwidth, value in recorded.items():
        assert smece(Y, S, bandwidth=bandwidth) == pytest.approx(value, rel=5e-5)
    assert smece(Y, S, bandwidth=0.05, sample_weight=W) == pytest.approx(0.04969377483468332, rel=5e-5)  # repeated rows
    # its search of the bandwidth ends within 2⁻¹⁰ of it: 0.048828125, where it gives 0.048199286650892854
    assert smece(Y, S, bandwidth=0.048828125) == pytest.approx(0.048199286650892854, rel=5e-5)
    assert smece(Y, S) == pytest.approx(0.048199286650892854, abs=2**-10)
    assert smece(Y, S) == pytest.approx(0.04818141550295934, abs=2**-10)  # with its 200 points
    # multiclass_logits_to_confidences(law, y, probs=True), then the same
    y, law = three()
    assert confidence_smece(y, law, bandwidth=0.1) == pytest.approx(0.07536721193157923, rel=5e-5)
    assert confidence_smece(y, law) == pytest.approx(0.0754213566599707, abs=2**-10)
    peer = pytest.importorskip("relplot.metrics", exc_type=ImportError)
    assert smece(Y, S) == pytest.approx(peer.smECE(S, Y), abs=2**-10)


def test_smooth_ece_by_its_definition():
    """∫|Σ share·(y − s)·K(t, s)|dt with all images of a score under reflection at 0 and 1, on 1501 midpoints."""
    t = (np.arange(1501) + 0.5) / 1501
    images = np.concatenate([2 * k + sign * S for k in (-1, 0, 1) for sign in (1, -1)])

    def direct(width, weight):
        share = np.tile(weight * (Y - S) / weight.sum(), 6)
        kernel = np.exp(-0.5 * ((t[:, None] - images) / width) ** 2) / (width * np.sqrt(2 * np.pi))
        return np.abs(kernel @ share).mean()

    for weight in (np.ones(1000), W):
        found = float(smece(Y, S, sample_weight=weight))
        assert direct(found, weight) == pytest.approx(found, rel=1e-6)  # it is its own bandwidth
        for width in (0.02, 0.3):
            # rows are shared by two points of a grid of 4096 steps, which widens the kernel by h²/6 in variance
            assert smece(Y, S, bandwidth=width, sample_weight=weight) == pytest.approx(direct(width, weight), rel=2e-5)


def test_scikit_learn():
    from sklearn.metrics import roc_auc_score

    assert auc(Y, S) == pytest.approx(roc_auc_score(Y, S), rel=ROUNDING)
    assert auc(Y, S, sample_weight=W) == pytest.approx(roc_auc_score(Y, S, sample_weight=W), rel=ROUNDING)
    assert auc(Y, S.round(1), sample_weight=W) == pytest.approx(
        roc_auc_score(Y, S.round(1), sample_weight=W), rel=ROUNDING
    )


def test_bins_of_scikit_learn():
    from sklearn.calibration import calibration_curve

    rate, mean = calibration_curve(Y, S, n_bins=15)
    assert ace(Y, S, strategy="uniform") == pytest.approx(np.abs(rate - mean).mean(), rel=ROUNDING)


def test_glm_of_statsmodels():
    """GLM(y, [1, logit s], Binomial).fit(cov_type="HC0"), with an offset, and with freq_weights."""
    intercept, slope, large = (f(Y, S) for f in (calibration_intercept, calibration_slope, calibration_in_the_large))
    # its iterations stop at 1e-8 of the deviance
    assert [intercept, slope, large] == pytest.approx(
        [-0.07620200804477494, 1.0622894551033988, -0.10973478990070817], rel=1e-9
    )
    assert [value.std_error for value in (intercept, slope, large)] == pytest.approx(
        [0.08508601696170828, 0.08983059045624928, 0.07720509439091626], rel=1e-9
    )
    weighted = [calibration_intercept(Y, S, sample_weight=W), calibration_slope(Y, S, sample_weight=W)]
    assert weighted == pytest.approx([-0.06168614629215596, 1.10193665027141], rel=1e-9)
