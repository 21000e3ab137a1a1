"""Numbers that other packages give for the same data: recorded, and asked again where the package is installed.

probmetrics 1.3.0 (Berta et al. 2025): ``MetricsWithCalibration`` fits a calibrator on each training part of a
StratifiedKFold (shuffled) and reports the mean loss of the scores minus that of the out-of-fold calibrated scores, rows of
all folds pooled: our difference form. glest 0.0.1 (Perez-Lebel et al. 2023): the grouping loss over regions of
(score bin, region of the features), minus its sampling bias, minus what the binning itself induces. Its Brier score is that
of both classes, twice ours.
"""

import warnings

import numpy as np
import pytest
from scipy.special import expit

from scoreprism import Chain, Level, decompose
from scoreprism.calibrators import PlattCalibrator
from scoreprism.datasets import CopulaLaw
from scoreprism.references import partition_lower_bound

#: On `example()`: glest 0.0.1 with `PARTITION`, by (bins, strategy), its Brier score halved; probmetrics 1.3.0 with our
#: Platt map, five folds and random state 3.
GLEST = {
    (15, "uniform"): {"GL_uncorrected": 0.012838803792982991, "GL_bias": 0.003511761135167061},
    (10, "quantile"): {"GL_uncorrected": 0.013040359642764374, "GL_bias": 0.0028773055156573095},
}
PROBMETRICS = {"log": 0.0031512615998067206, "brier": 0.0012332045842646244}


def example(n=2000, seed=0):
    X, y, q = CopulaLaw(rho=0.0).sample(n, seed)
    return X, y, expit(1.25 * (-1.5436 + 3.1505 * X[:, 0]) + 0.1), q


# ── glest ───────────────────────────────────────────────────────────────────────────────────────────────


def quarters(X):
    """The partition: quarters of the second feature."""
    return np.digitize(X[:, 1], [0.25, 0.5, 0.75])


def glest_parts(X, y, s, partition, n_bins, strategy):
    """Its grouping loss with a partition given by hand, before and after its corrections, on our Brier scale."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        glest = pytest.importorskip("glest")
    partitioner = glest.Partitioner.from_name(None, n_bins=n_bins, strategy=strategy)
    fitted = glest.GLEstimator(s, partitioner=partitioner).fit(X, y, partition=partition)
    return {name: value / 2 for name, value in fitted.metrics("brier").items() if name != "psr"}


def by_hand(y, s, partition, edges):
    """The same from its source: regions are (bin, label); a region of one row is left out."""
    bins = np.minimum(np.digitize(s, edges) - 1, len(edges) - 2)
    _, region = np.unique(np.stack([bins, partition]), axis=1, return_inverse=True)
    kept = np.bincount(region)[region] > 1
    region, bins_kept, outcome = region[kept], bins[kept], y[kept].astype(float)
    count, count_bin = np.bincount(region), np.bincount(bins_kept)
    f = np.bincount(region, outcome) / np.maximum(count, 1)
    p = np.bincount(bins_kept, outcome) / np.maximum(count_bin, 1)
    uncorrected = np.mean((f[region] - p[bins_kept]) ** 2)
    noise = (f * (1 - f) / np.maximum(count - 1, 1))[region] - (p * (1 - p) / np.maximum(count_bin - 1, 1))[bins_kept]
    return {"GL_uncorrected": uncorrected, "GL_bias": noise.mean()}


@pytest.mark.parametrize(("n_bins", "strategy"), list(GLEST))
def test_glest_says_what_was_recorded(n_bins, strategy):
    X, y, s, _ = example()
    theirs = glest_parts(X, y, s, quarters(X), n_bins, strategy)
    for name, recorded in GLEST[n_bins, strategy].items():
        assert theirs[name] == pytest.approx(recorded, rel=1e-9)


@pytest.mark.parametrize(("n_bins", "strategy"), list(GLEST))
def test_glest_by_hand(n_bins, strategy):
    X, y, s, _ = example()
    edges = np.linspace(0, 1, n_bins + 1)
    if strategy == "quantile":
        edges = np.r_[0.0, np.percentile(s, 100 * edges[1:-1]), 1.0]
    ours = by_hand(y, s, quarters(X), edges)
    assert ours == pytest.approx(GLEST[n_bins, strategy], rel=1e-9)


def test_glest_before_corrections_is_a_chain_of_in_sample_laws():
    """Bin means and region means are exact laws of these rows, so that all forms give its uncorrected value."""
    X, y, s, _ = example()
    bins = np.minimum((15 * s).astype(int), 14)
    region = 4 * bins + quarters(X)
    assert np.bincount(region)[region].min() > 1
    c = (np.bincount(bins, y) / np.maximum(np.bincount(bins), 1))[bins]
    q = (np.bincount(region, y) / np.maximum(np.bincount(region), 1))[region]
    for form in ("plugin", "difference", "debiased"):
        found = Chain(y, [Level("S", s), Level("C", c), Level("Q", q)]).decompose("brier", form)
        assert found.terms["grouping"] == pytest.approx(GLEST[15, "uniform"]["GL_uncorrected"], rel=1e-9)


def test_partition_lower_bound_is_glest_before_what_bins_induce():
    """Its bias by the jackknife, which is exact for Brier; what bins induce is by another map than theirs."""
    X, y, s, _ = example()
    found = partition_lower_bound(y, s, partition=quarters(X), loss="brier", n_bins=15, strategy="uniform")
    assert found.explained == pytest.approx(GLEST[15, "uniform"]["GL_uncorrected"], rel=1e-9)
    assert found.bias == pytest.approx(GLEST[15, "uniform"]["GL_bias"], rel=1e-9)


# ── probmetrics ─────────────────────────────────────────────────────────────────────────────────────────


def probmetrics_error(y, s, calibrator, seed, folds=5):
    """Its cross-validated calibration errors: log loss, and Brier of the positive class."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch = pytest.importorskip("torch")
        metrics = pytest.importorskip("probmetrics.metrics")
        from probmetrics.splitters import CVSplitter

        wanted = metrics.CombinedMetrics([metrics.LogLoss(), metrics.BrierLoss(binary_as_multiclass=True)])
        law = torch.tensor(np.column_stack([1 - s, s]))
        judge = metrics.MetricsWithCalibration(wanted, calibrator, CVSplitter(folds), "c", seed)
        found = judge.compute_all_from_labels_probs(torch.tensor(y), law)
    suffix = f"_c_cv-{folds}"
    return {
        "log": float(found[f"calib-err_logloss{suffix}"]),
        "brier": float(found[f"calib-err_brier{suffix}"]) / 2,
    }


def stratified(y, seed, folds=5):
    from sklearn.model_selection import StratifiedKFold

    return list(StratifiedKFold(folds, shuffle=True, random_state=seed).split(np.zeros(len(y)), y))


def test_probmetrics_says_what_was_recorded():
    _, y, s, _ = example()
    assert probmetrics_error(y, s, PlattCalibrator(), 3) == pytest.approx(PROBMETRICS, abs=1e-9)


@pytest.mark.parametrize("loss", list(PROBMETRICS))
def test_probmetrics_is_the_difference_form_of_a_chain(loss):
    _, y, s, _ = example()
    law = np.empty_like(s)
    for train, test in stratified(y, 3):
        law[test] = PlattCalibrator().fit(s[train], y[train]).calibrate(s[test])
    found = Chain(y, [Level("S", s), Level("C", law)]).decompose(loss, "difference")
    assert found.terms["reliability"] == pytest.approx(PROBMETRICS[loss], abs=1e-9)


@pytest.mark.parametrize("loss", list(PROBMETRICS))
def test_probmetrics_is_decompose_with_its_folds(loss, monkeypatch):
    """Row by row to rounding; with rows pooled into cells of the score to .04 standard errors (docs/statistics.md)."""
    _, y, s, _ = example()
    options = {"calibrator": PlattCalibrator(), "cv": stratified(y, 3), "form": "difference"}
    pooled = decompose(y, s, loss=loss, **options)
    assert pooled.terms["reliability"] == pytest.approx(PROBMETRICS[loss], abs=0.04 * pooled.std_error["reliability"])
    monkeypatch.setattr("scoreprism._fitting.fitted_laws._FEW", y.size)
    found = decompose(y, s, loss=loss, **options)
    assert found.terms["reliability"] == pytest.approx(PROBMETRICS[loss], abs=1e-9)
