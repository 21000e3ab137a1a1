"""pipeline_bootstrap: terms, reproducibility, checkpoints that survive anything, and workers that leave nothing."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from joblib import parallel_config
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from scoreprism import Sample, decompose
from scoreprism.exceptions import DoubleUseWarning, InputError, LostWorkerError, ScoreprismError
from scoreprism.pipelines import PipelineBootstrap, pipeline_bootstrap
from scoreprism.pipelines._checkpoint import digest


def rows(n, seed, columns=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 1)) @ np.ones((1, columns)) + rng.normal(size=(n, columns))
    return X, (X[:, 0] + rng.logistic(size=n) > 0).astype(int)


@pytest.fixture(scope="module")
def splits():
    return [rows(n, seed) for n, seed in ((150, 0), (140, 1), (160, 2))]


def boot(splits, estimator=None, calibrator="platt", **options):
    options = {"n_resamples": 6, "random_state": 0, "loss": "brier"} | options
    return pipeline_bootstrap(estimator or GaussianNB(), *splits, calibrator=calibrator, **options)


def same(a, b):
    return np.array_equal(a._values, b._values) and np.array_equal(a._original, b._original)


# ── the numbers ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("calibrator", ["platt", "isotonic", "auto"])
def test_estimates_are_those_of_decompose_with_the_calibration_split(calibrator):
    splits = train, calibration, test = [rows(500, seed) for seed in range(3)]
    result = boot(splits, calibrator=calibrator, n_resamples=2)
    model = GaussianNB().fit(*train)
    scores = [model.predict_proba(X)[:, 1] for X, _ in (calibration, test)]
    expected = decompose(
        test[1], scores[1], loss="brier", calibrator=calibrator, calibration=(scores[0], calibration[1]),
        random_state=result.seed,
    )  # fmt: skip
    for name, value in expected.terms.items():
        assert result.terms[name] == pytest.approx(value, abs=1e-12)
    assert result.terms["loss"] == pytest.approx(expected.risk, abs=1e-12)
    law = expected.level_losses.mean(axis=0)
    assert result.terms["recalibrated loss"] == pytest.approx(law[1], abs=1e-12)
    assert result.terms["gain"] == pytest.approx(law[0] - law[1], abs=1e-12)


def test_a_calibration_split_may_be_a_sample_whose_groups_stay_together():
    rng = np.random.default_rng(0)
    s, t = rng.random(300), rng.random(200)
    y, z = (rng.random(300) < s).astype(int), (rng.random(200) < t).astype(int)
    plain = decompose(z, t, calibration=(s, y), calibrator="platt")
    assert decompose(z, t, calibration=Sample.of(y, s), calibrator="platt").terms == plain.terms
    grouped = decompose(z, t, calibration=Sample.of(y, s, groups=np.arange(300) // 3), calibrator="platt")
    assert grouped.terms["reliability"] != plain.terms["reliability"]


@pytest.mark.parametrize("calibrator", ["platt", "isotonic"])
def test_a_replicate_is_the_decomposition_of_its_draw_made_by_hand(calibrator):
    """Maps depend on rows by weighted sums: repeated rows give the same map as counts. Isotonic regression shrinks by
    the number of rows, which Kish's effective number would halve."""
    splits = train, (X, y), test = [rows(400, seed) for seed in range(3)]
    result = boot(splits, resample_test=False, calibrator=calibrator)
    rng = np.random.default_rng(np.random.SeedSequence(result.seed, spawn_key=(3, 0)))
    drawn = np.sort(rng.integers(0, len(y), len(y)))
    model = GaussianNB().fit(*train)
    s, t = model.predict_proba(X)[:, 1], model.predict_proba(test[0])[:, 1]
    again = decompose(test[1], t, loss="brier", calibrator=calibrator, calibration=(s[drawn], y[drawn]))
    names = list(result.names)
    assert result.replicates[3, names.index("gain")] == pytest.approx(
        again.level_losses.mean(axis=0) @ [1, -1], abs=1e-7
    )


def test_terms_add_up_to_the_loss_in_every_replicate(splits):
    q = 1 / (1 + np.exp(-splits[2][0][:, 0]))
    result = boot(splits, refit="all", q=q)
    assert result.names[:3] == ("reliability", "grouping", "irreducible")
    assert np.allclose(result.replicates[:, :3].sum(axis=1), result.replicates[:, 3], atol=1e-14)
    assert np.allclose(result.replicates[:, 3] - result.replicates[:, 4], result.replicates[:, 5], atol=1e-14)


def test_copies_of_a_row_share_a_block(splits):
    """The spread of the map, reliability − gain, counts a row that was drawn twice as one: Σ counts² = 2n makes it twice
    that of the pipeline (1.2 times if copies were in different blocks), which centres replicates on the estimate."""
    result = boot(splits, resample_test=False, n_resamples=40)
    reliability, gain = (result.replicates[:, result.names.index(name)] for name in ("reliability", "gain"))
    spread = result.terms["reliability"] - result.terms["gain"]
    assert np.mean(reliability - gain) == pytest.approx(2 * spread, rel=0.3)
    assert abs(result.shift["reliability"]) < 0.25 < abs(result.shift["gain"])


def test_refit_all_sees_the_training_rows_and_the_parts_of_the_variance_say_so(splits):
    one, both = boot(splits, n_resamples=40), boot(splits, refit="all", n_resamples=40)
    assert np.array_equal(one._values[:, 0], both._values[:, 0])  # the same calibration draws
    assert set(one.variance["loss"]) == {"calibration", "test"}
    assert set(both.variance["loss"]) == {"calibration", "training", "test"}
    assert one.variance["loss"]["calibration"] == 0.0  # the classifier's loss does not know the calibrator
    assert both.variance["loss"]["training"] > 0.0
    for result in (one, both):
        for name in result.names:
            assert sum(result.variance[name].values()) == pytest.approx(result.std_error[name] ** 2, rel=0.6)
    # the variance of a mean over test rows, from the losses of the rows
    rows_ = one.decomposition.level_losses[:, 0]
    assert one.std_error["loss"] == pytest.approx(rows_.std() / np.sqrt(rows_.size), rel=0.35)


def test_fixed_test_rows_give_the_smaller_standard_errors(splits):
    result = boot(splits, n_resamples=30)
    fixed = boot(splits, n_resamples=30, resample_test=False)
    assert fixed.std_error["refinement"] < 0.5 * result.std_error["refinement"]
    assert np.array_equal(fixed.replicates, replace(result, resample_test=False).replicates)


def test_a_fitted_estimator_needs_no_training_rows(splits):
    model = GaussianNB().fit(*splits[0])
    assert same(boot([None, *splits[1:]], model), boot(splits))


def test_a_fitted_estimator_has_only_to_score_rows(splits, tmp_path):
    class Served:
        def __init__(self, model):
            self._model, self.classes_ = model, model.classes_

        def predict_proba(self, X):
            return self._model.predict_proba(X)

    model, rest = GaussianNB().fit(*splits[0]), [None, *splits[1:]]
    assert same(boot(rest, Served(model)), boot(rest, model))
    boot(rest, Served(model), n_resamples=2, checkpoint=tmp_path / "run")
    assert same(boot(rest, Served(model), checkpoint=tmp_path / "run"), boot(rest, model))
    with pytest.raises(InputError, match="a classifier with fit and predict_proba; got Served without fit"):
        boot(splits, Served(model))
    with pytest.raises(InputError, match="a classifier with predict_proba; got object without predict_proba"):
        boot(rest, object())


def test_several_losses_share_their_refits(splits):
    both = boot(splits, loss=["log", "brier"])
    assert same(both.for_loss("brier"), boot(splits))
    assert str(both.loss) == "log"
    assert both.for_loss("log").terms == both.terms
    assert pickle.loads(pickle.dumps(both)).for_loss("brier").terms == both.for_loss("brier").terms  # noqa: S301 - our own
    with pytest.raises(InputError, match="loss must be one of log, brier; got 'spherical'"):
        both.for_loss("spherical")


def test_fitted_reference_gives_three_terms(splits):
    result = boot(splits, reference="logistic", n_resamples=3, refit="all")
    assert result.names[:3] == ("reliability", "grouping", "irreducible")
    assert np.allclose(result.replicates[:, :3].sum(axis=1), result.replicates[:, 3])
    assert any("a better one would find more grouping" in note for note in result.notes)
    short = boot(splits, reference="logistic", n_resamples=2, resample_test=False)
    assert short._stages == ("calibration",)
    assert np.isfinite(short.replicates).all()


@pytest.mark.parametrize("method", ["normal", "percentile", "corrected", "basic"])
def test_intervals_hold_their_estimate_and_stay_nonnegative(splits, method):
    result = boot(splits, n_resamples=40)
    for name in result.names:
        known = result.interval(name, 0.9, method)
        assert known.low <= known.high
        assert known.method == method
        assert name == "gain" or known.low >= 0.0
        wider = result.interval(name, 0.99, method)
        assert wider.low <= known.low
        assert wider.high >= known.high


def test_over_given_test_rows_reliability_may_be_negative(splits):
    result = boot(splits, LogisticRegression(), n_resamples=20, resample_test=False)
    assert result.interval("reliability").low < 0.0  # a loss difference of these rows, not a divergence
    assert replace(result, resample_test=True).interval("reliability").low >= 0.0


def test_intervals_by_hand(splits):
    result = boot(splits, n_resamples=40)
    draws, estimate = result.replicates[:, 4], result.terms["gain"]
    low, high = np.quantile(draws, [0.05, 0.95])
    percentile = result.interval("gain", 0.9, "percentile")
    assert (percentile.low, percentile.high) == pytest.approx((low, high))
    basic = result.interval("gain", 0.9, "basic")
    assert (basic.low, basic.high) == pytest.approx((2 * estimate - high, 2 * estimate - low))
    normal = result.interval("gain", 0.9, "normal")
    assert normal.high - estimate == pytest.approx(1.6448536 * draws.std(ddof=1), rel=1e-6)  # normal quantile


def test_an_infinite_loss_has_no_interval():
    class Sure(ClassifierMixin, BaseEstimator):
        classes_ = np.array([0, 1])

        def fit(self, X, y):
            return self

        def predict_proba(self, X):
            p = np.clip(0.5 + X[:, 0] / 3, 0, 1)
            return np.column_stack([1 - p, p])

    splits = [None, rows(150, 1), rows(150, 2)]
    with pytest.warns(UserWarning, match="infinite"):
        result = boot(splits, Sure(), loss="log")
    assert np.isinf(result.terms["loss"])
    assert np.isnan(result.interval("reliability").low)
    assert np.isnan(result.std_error["gain"])
    assert "Whether recalibration pays cannot be determined: the loss is infinite." in " ".join(repr(result).split())
    plain = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert plain["terms"]["loss"] == "inf"
    assert plain["intervals"]["reliability"] == ["nan", "nan"]
    assert np.isfinite(boot(splits, Sure(), loss="log", clip=1e-3).std_error["gain"])


# ── input ───────────────────────────────────────────────────────────────────────────────────────────


def test_labels_frames_and_sparse_rows_do_not_matter(splits):
    plain = boot(splits, LogisticRegression(), refit="all")
    words = np.array(["good", "bad"], dtype=object)  # "good" comes second in the order of labels
    frames = [(pl.DataFrame(X, schema=list("abcd")), pl.Series(words[1 - y])) for X, y in splits]
    named = boot(frames, LogisticRegression(), refit="all")
    assert np.allclose(plain._values, named._values)
    assert isinstance(named.to_frame(), pl.DataFrame)
    pandas = [(pd.DataFrame(X, columns=list("abcd")), pd.Series(y)) for X, y in splits]
    framed = boot(pandas, LogisticRegression(), refit="all")
    assert np.allclose(plain._values, framed._values, atol=1e-12)  # columns lie in another order in memory
    assert isinstance(framed.to_frame(), pd.DataFrame)
    for kind in (scipy.sparse.csr_matrix, scipy.sparse.coo_matrix, scipy.sparse.coo_array):
        sparse = [(kind(X), y) for X, y in splits]
        assert np.allclose(boot(sparse, LogisticRegression(), refit="all")._values, plain._values, atol=1e-5)


class Table:
    """Neither an array nor a list: numpy would make an object of it."""

    def __init__(self, data):
        self.data, self.shape = data, data.shape

    def __getitem__(self, rows):
        return Table(self.data[rows])


@pytest.mark.parametrize(
    "make",
    [
        np.asarray,
        np.ndarray.tolist,
        lambda X: pd.DataFrame(X, index=list("cab")),
        pl.DataFrame,
        lambda X: pl.DataFrame(X).to_arrow(),
        scipy.sparse.csr_matrix,
        scipy.sparse.csc_array,
        scipy.sparse.coo_matrix,
        scipy.sparse.lil_array,
        Table,
    ],
)
def test_some_rows_of_anything_tabular(make):
    X = np.arange(6.0).reshape(3, 2)
    table = make(X)
    found = replace(Sample.of([0, 1, 1], [0.2, 0.5, 0.7]), X=table).take(np.array([2, 0])).X
    assert isinstance(found, type(table)) or scipy.sparse.issparse(table)
    dense = found.toarray() if scipy.sparse.issparse(found) else np.asarray(getattr(found, "data", found))
    assert np.array_equal(found.to_pandas() if hasattr(found, "to_pandas") else dense, X[[2, 0]])


def test_the_law_that_is_known_loses_the_rows_without_weight(splits):
    train, calibration, (X, y) = splits
    q = 1 / (1 + np.exp(-X[:, 0]))
    weight = np.where(np.arange(160) < 100, 1.0, 0.0)
    short = boot([train, calibration, (X[:100], y[:100])], q=q[:100])
    for law in (q, pd.DataFrame({0: 1 - q, 1: q}), pl.Series(q)):
        assert np.allclose(boot([train, calibration, (X, y, weight)], q=law)._values, short._values)
    with pytest.raises(InputError, match="q and test y must have the same number of rows; got 159 and 160"):
        boot([train, calibration, (X, y, weight)], q=q[:159])


def test_rows_in_another_order_are_refused(splits):
    train, calibration, (X, y) = splits
    outcome, turned = pd.Series(y), np.arange(160)[::-1]
    for change in ({"q": pd.Series(np.full(160, 0.5), index=turned)}, {"groups": (None, None, pd.Series(y, turned))}):
        with pytest.raises(InputError, match="must have their rows in the same order"):
            boot([train, calibration, (X, outcome)], **change)


def test_three_classes(splits):
    rng = np.random.default_rng(3)
    three = [(X, np.where(rng.random(len(y)) < 0.2, 2, y)) for X, y in splits]
    result = boot(three, GaussianNB(), "temperature", refit="all", loss="log")
    assert np.isfinite(result.replicates).all()
    assert result.decomposition.n_classes == 3


def test_weights_weigh_and_rows_without_weight_are_absent(splits):
    weighted = [(X, y, np.where(np.arange(len(y)) < 100, 2.0, 0.0)) for X, y in splits]
    short = [(X[:100], y[:100]) for X, y in splits]
    assert np.allclose(boot(weighted, refit="all")._values, boot(short, refit="all")._values)
    with pytest.raises(InputError, match="KNeighborsClassifier, which does not"):
        boot(weighted, KNeighborsClassifier(), refit="all")


def test_clusters_are_drawn_whole(splits):
    X, y = splits[1]
    groups = np.arange(len(y)) // 10
    drawn = []

    class Recorder(GaussianNB):
        def fit(self, X, y):
            drawn.append(X[:, 0])
            return super().fit(X, y)

    boot(splits, Recorder(), refit="all", groups=(np.arange(150) // 10, None, None))
    for taken in drawn:
        counts = np.array([np.sum(taken == value) for value in splits[0][0][:, 0]]).reshape(15, 10)
        assert (counts == counts[:, :1]).all()
    assert len({tuple(taken) for taken in drawn}) == 7  # the pipeline as it is, and six replicates
    result = boot(splits, groups=(None, groups, np.arange(160) // 8), n_resamples=30)
    assert np.isfinite(result.replicates).all()
    copied = [splits[0], (np.repeat(X, 4, axis=0), np.repeat(y, 4)), splits[2]]
    clusters = (None, np.repeat(np.arange(len(y)), 4), None)
    errors = [boot(copied, groups=g, n_resamples=60, resample_test=False).std_error["gain"] for g in (clusters, None)]
    assert errors[0] > 1.5 * errors[1]  # four copies of each row hold no more than one: √4 for large n


def test_rare_classes_are_drawn_again_and_counted():
    (X, y), test = rows(30, 0), rows(100, 1)
    y[:] = 0
    y[:3] = 1
    model = GaussianNB().fit(*rows(100, 2))
    result = boot([None, (X, y), test], model, n_resamples=40)
    # a draw holds none, or one distinct row, of three positives with probability (27/30)³⁰ + 3((28/30)³⁰ − (27/30)³⁰) = .29
    assert 5 <= result.n_redrawn <= 35  # 40 · .29/.71 = 16 expected, standard deviation 4.8
    assert np.isfinite(result.replicates).all()
    assert any("drawn again" in note for note in result.notes)


def bad(**change):
    base = {"estimator": GaussianNB(), "calibrator": "platt"} | {"refit": "calibrator", "n_resamples": 3}
    return base | change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"refit": "nothing"}, "refit must be one of calibrator, all"),
        ({"resample": "columns"}, "resample must be one of auto, rows, weights"),
        ({"n_resamples": 1}, "n_resamples must be a whole number of at least 2"),
        ({"resample_test": 1}, "resample_test must be True or False"),
        ({"estimator": GaussianNB}, "Pass GaussianNB()."),
        ({"estimator": "logistic"}, "estimator must be a classifier with fit and predict_proba"),
        ({"train": None, "refit": "all"}, "refit='all' must have training rows"),
        ({"train": None, "refit": "ALL"}, "refit='all' must have training rows"),
        ({"train": None}, "must be fitted"),
        ({"calibration": (np.ones((5, 1)), [0, 1])}, "calibration X"),
        ({"calibration": np.ones((5, 2))}, "calibration must be (X, y) or (X, y, sample_weight)"),
        ({"calibrator": "plat"}, "calibrator must be one of"),
        ({"reference": "auto", "q": np.full(160, 0.5)}, "pass reference, to have Q fitted, or q, where it is known"),
        ({"groups": [1, 2]}, "groups must be a tuple with the clusters of train, calibration, test"),
        ({"n_jobs": 0}, "n_jobs must be a number of processes"),
        ({"estimator": KNeighborsClassifier(), "refit": "all", "resample": "weights"}, "takes sample_weight"),
        ({"random_state": "x"}, "random_state must be"),
        ({"checkpoint": 3}, "checkpoint must be the path of a file"),
        ({"checkpoint": "no/such/folder/file"}, "in a folder that does not exist"),
        ({"calibration": (np.ones((8, 4)), [0] * 7 + [1])}, "at least two rows of each class"),
        ({"calibration": (np.ones((8, 4)), [0, 1] * 3 + [2, 2])}, "labels the classifier was trained on"),
    ],
)
def test_what_cannot_be_done_is_refused(splits, change, message):
    options = dict(zip(("train", "calibration", "test"), splits, strict=True)) | bad(**change)
    with pytest.raises(InputError) as error:
        pipeline_bootstrap(**options)
    assert message in str(error.value)


def test_an_estimator_that_fails_is_named(splits):
    class Picky(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            if np.unique(X[:, 0]).size < len(X):
                raise RuntimeError("no copies, please")
            return super().fit(X, y)

    with pytest.raises(InputError, match="its own error in replicate 0: no copies, please"):
        boot(splits, Picky(), refit="all")


def test_the_same_rows_twice_are_told(splits):
    with pytest.warns(DoubleUseWarning) as caught:
        result = boot([splits[0], splits[0], splits[2]])
    assert [str(one.message).partition(":")[0] for one in caught] == [
        "Train and calibration are the same rows",
        "GaussianNB was trained on these rows (their class means are exactly those it learned)",
    ]
    found = [one.message.finding for one in caught]
    assert [(one.kind, one.level) for one in found] == [("parts_share_rows", 0), ("trained_on_rows", 0)]
    assert found[0] in result.findings


# ── classifiers inside ──────────────────────────────────────────────────────────────────────────────


def test_seeds_that_were_left_open_are_drawn_per_replicate(splits):
    forest = make_pipeline(StandardScaler(), RandomForestClassifier(5, min_samples_leaf=5))
    a, b = boot(splits, forest, refit="all"), boot(splits, forest, refit="all")
    assert same(a, b)
    assert not same(a, boot(splits, forest, refit="all", random_state=1))


@pytest.mark.parametrize(
    ("estimator", "n", "resample", "how"),
    [
        (LogisticRegression(), 100, "rows", None),
        (CalibratedClassifierCV(GaussianNB(), cv=2), 100, "weights", None),
        (GridSearchCV(DecisionTreeClassifier(), {"max_depth": [1, 2]}), 100, "weights", None),
        (GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [5, 9]}), 100, "rows", "cv"),
        (HistGradientBoostingClassifier(max_iter=2), 100, "rows", None),
        (HistGradientBoostingClassifier(max_iter=2), 10_001, "weights", None),
        (make_pipeline(StandardScaler(), CalibratedClassifierCV(GaussianNB(), cv=2)), 100, "weights", None),
        (make_pipeline(StandardScaler(), GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [5]})), 100, "rows", "gridsearchcv__cv"),
    ],
)  # fmt: skip
def test_inner_validation_is_seen(splits, tmp_path, estimator, n, resample, how):
    """Copies of a row would leak into it: counts are weights where the classifier takes them, else a finding says so."""
    path = tmp_path / "run"
    result = boot([rows(n, 0), *splits[1:]], estimator, refit="all", n_resamples=2, clip=1e-6, checkpoint=path)
    header = json.loads(path.read_text().splitlines()[0].partition(" ")[2])
    assert header["identity"]["resample"] == resample
    assert [one.facts["how"] for one in result.findings if one.kind == "inner_validation"] == ([how] if how else [])


def test_repeated_rows_and_counts_as_weights_agree_where_both_are_exact(splits):
    a = boot(splits, refit="all", resample="rows")
    b = boot(splits, refit="all", resample="weights")
    assert np.allclose(a._values, b._values, atol=1e-6)  # Gaussian naive Bayes knows only weighted moments


def test_inner_folds_get_weights_or_a_note(splits):
    tree = GridSearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [1, 3, 9]}, cv=3)
    auto, leaky = (boot(splits, tree, refit="all", n_resamples=3, resample=r) for r in ("auto", "rows"))
    assert not any("validates itself" in note for note in auto.notes)
    assert any("validates itself on part of its training rows (cv)" in note for note in leaky.notes)
    assert not same(auto, leaky)


# ── randomness and workers ──────────────────────────────────────────────────────────────────────────


def test_replicates_do_not_depend_on_their_number_nor_on_workers(splits):
    six, three = boot(splits, refit="all"), boot(splits, refit="all", n_resamples=3)
    assert np.array_equal(six._values[:3], three._values)
    assert same(six, boot(splits, refit="all", n_jobs=2))
    with parallel_config(backend="threading", n_jobs=2):
        assert same(six, boot(splits, refit="all"))
    with parallel_config(backend="multiprocessing", n_jobs=2):  # has no generators
        assert same(six, boot(splits, refit="all"))
    assert not same(six, boot(splits, refit="all", random_state=1))


# ── checkpoints ─────────────────────────────────────────────────────────────────────────────────────


def test_a_checkpoint_continues_and_grows(splits, tmp_path):
    path = tmp_path / "run"
    whole = boot(splits)
    boot(splits, n_resamples=3, checkpoint=path)
    assert same(boot(splits, checkpoint=path), whole)
    size = path.stat().st_size
    assert same(boot(splits, checkpoint=path), whole)
    assert path.stat().st_size == size  # nothing was left to do
    assert np.array_equal(boot(splits, n_resamples=2, checkpoint=path)._values, whole._values[:2])


def test_every_torn_end_of_a_checkpoint_is_mended(splits, tmp_path):
    path = tmp_path / "run"
    whole = boot(splits, n_resamples=2, checkpoint=path)
    content = path.read_bytes()
    last = content[:-1].rfind(b"\n") + 1
    header = content.find(b"\n")
    named = content.find(b"bootstrap 2") + len(b"bootstrap 2") + 1  # up to here a first line may be anyone's
    for end in [0, named, header // 2, header, last, last + 1, last + 20, len(content) - 1]:
        path.write_bytes(content[:end])
        assert same(boot(splits, n_resamples=2, checkpoint=path), whole), end
        assert path.read_bytes() == content
    path.write_bytes(content[: last + 30] + b"\0" * 50)  # what a power failure leaves
    assert same(boot(splits, n_resamples=2, checkpoint=path), whole)


def test_a_checkpoint_of_another_version_is_refused_as_such(splits, tmp_path):
    path = tmp_path / "run"
    boot(splits, n_resamples=2, checkpoint=path)
    header = path.read_text().splitlines()[0].partition(" ")[2].replace("bootstrap 2", "bootstrap 1")
    path.write_text(f"{hashlib.sha256(header.encode()).hexdigest()[:16]} {header}\n")
    with pytest.raises(InputError, match=r"of another version of scoreprism \(format 1\)\. Use another path"):
        boot(splits, checkpoint=path)


def test_random_state_none_continues_with_the_seed_of_the_file(splits, tmp_path):
    path = tmp_path / "run"
    first = boot(splits, random_state=None, n_resamples=3, checkpoint=path)
    again = boot(splits, random_state=None, checkpoint=path)
    assert again.seed == first.seed
    assert np.array_equal(again._values[:3], first._values)
    assert same(again, boot(splits, random_state=None, checkpoint=path))


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"random_state": 1}, "random_state"),
        ({"calibrator": "isotonic"}, "calibrator"),
        ({"estimator": GaussianNB(var_smoothing=1e-3)}, "estimator"),
        ({"refit": "all"}, "refit"),
        ({"loss": "log"}, "loss"),
        ({"clip": 0.01}, "clip"),
        ({"q": np.full(160, 0.5)}, "reference"),
    ],
)
def test_a_checkpoint_of_another_problem_is_refused_and_left_alone(splits, tmp_path, change, part):
    path = tmp_path / "run"
    boot(splits, n_resamples=2, checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(InputError) as error:
        boot(splits, **({"n_resamples": 2, "checkpoint": path} | change))
    assert f"of another one: {part} differ. Use another path; the file is left as it is." in str(error.value)
    assert path.read_bytes() == before


def test_a_checkpoint_of_other_rows_is_refused(splits, tmp_path):
    path = tmp_path / "run"
    boot(splits, n_resamples=2, checkpoint=path)
    X = splits[1][0].copy()
    X[5, 1] = np.nextafter(X[5, 1], 9)
    with pytest.raises(InputError, match="another one: calibration differ"):
        boot([splits[0], (X, splits[1][1]), splits[2]], n_resamples=2, checkpoint=path)
    other = GaussianNB().fit(*rows(99, 9))
    mine = tmp_path / "fitted"
    boot([None, *splits[1:]], GaussianNB().fit(*splits[0]), n_resamples=2, checkpoint=mine)
    with pytest.raises(InputError, match="another one: scores of the classifier differ"):
        boot([None, *splits[1:]], other, n_resamples=2, checkpoint=mine)


def test_files_of_others_and_damaged_ones_are_refused(splits, tmp_path):
    path = tmp_path / "thesis.txt"
    path.write_text("a thesis\n")
    with pytest.raises(InputError, match="which is something else"):
        boot(splits, checkpoint=path)
    assert path.read_text() == "a thesis\n"
    path.write_text("a thesis without an end of line")
    with pytest.raises(InputError, match="which is something else"):
        boot(splits, checkpoint=path)
    with pytest.raises(InputError, match="a folder"):
        boot(splits, checkpoint=tmp_path)
    run = tmp_path / "run"
    boot(splits, checkpoint=run)
    lines = run.read_bytes().splitlines(keepends=True)
    run.write_bytes(b"".join([*lines[:2], lines[2][:-9] + b"\n", *lines[3:]]))
    with pytest.raises(InputError, match="damaged in line 3"):
        boot(splits, checkpoint=run)


@pytest.mark.parametrize("content", [b"abc", b"42", b"\n", b"0123456789abcdef", b'0123456789abcdef {"format": "some'])
def test_short_files_of_others_are_left_alone(splits, tmp_path, content):
    path = tmp_path / "notes"
    path.write_bytes(content)
    with pytest.raises(InputError, match="which is something else"):
        boot(splits, n_resamples=2, checkpoint=path)
    assert path.read_bytes() == content


def column(number):
    return make_pipeline(FunctionTransformer(lambda X: X[:, [number]]), GaussianNB())


COLUMN = 0


def global_column(X):
    return X[:, [COLUMN]]


@pytest.mark.parametrize("refit", ["calibrator", "all"])
def test_functions_that_differ_in_what_they_enclose_or_read_are_other_problems(splits, tmp_path, refit, monkeypatch):
    options = {"refit": refit, "n_resamples": 2, "checkpoint": tmp_path / "run"}
    boot(splits, column(0), **options)
    boot(splits, column(0), **options)
    with pytest.raises(InputError, match="another one: estimator differ"):
        boot(splits, column(1), **options)
    reading = make_pipeline(FunctionTransformer(global_column), GaussianNB())
    options["checkpoint"] = tmp_path / "global"
    boot(splits, reading, **options)
    monkeypatch.setitem(globals(), "COLUMN", 1)  # which no hash of the function shows
    with pytest.raises(InputError, match="another one: scores of the classifier differ"):
        boot(splits, reading, **options)


class Changed:
    """A fitted classifier whose scores are changed a little."""

    classes_ = np.array([0, 1])

    def __init__(self, change):
        self.change = change

    def predict_proba(self, X):
        p = self.change(1 / (1 + np.exp(-X[:, 0])))
        return np.column_stack([1 - p, p])


@pytest.mark.parametrize(
    ("change", "is_other"),
    [
        (lambda p: p * (1 + 2e-16), False),
        (lambda p: p * (1 - 1e-6), True),
        (lambda p: np.where(p > 0.5, 1 - 1e-9 * (1 - p), p), True),
    ],
)
def test_sums_over_threads_are_no_other_problem(splits, tmp_path, change, is_other):
    """Last bits of scores depend on the order in which threads finish; everything else counts, near 1 as well."""
    options = {"n_resamples": 2, "checkpoint": tmp_path / "run"}
    boot([None, *splits[1:]], Changed(lambda p: np.where((p > 0.5) & is_other, 1 - 1e-10 * (1 - p), p)), **options)
    if is_other:
        with pytest.raises(InputError, match="scores of the classifier differ"):
            boot([None, *splits[1:]], Changed(change), **options)
    else:
        boot([None, *splits[1:]], Changed(change), **options)


def test_a_checkpoint_is_plain_text_and_used_by_one_run(splits, tmp_path):
    path = tmp_path / "run"
    boot(splits, n_resamples=2, checkpoint=path)
    lines = [json.loads(line.partition(" ")[2]) for line in path.read_text().splitlines()]
    assert [line.get("replicate") for line in lines] == [None, 0, 1]
    refusals = []

    class Nosy(GaussianNB):
        def fit(self, X, y):
            if path.exists():
                with pytest.raises(InputError, match="in use by another process") as caught:
                    boot(splits, checkpoint=path)
                refusals.append(caught)
            return super().fit(X, y)

    path.unlink()
    boot(splits, Nosy(), refit="all", n_resamples=2, checkpoint=path)
    assert len(refusals) >= 2  # one for each replicate


def enclosing(array):
    return lambda x: x @ array


class Method:
    def __init__(self, array):
        self.array = array

    def call(self, x):
        return x @ self.array


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


def test_digests_see_contents_not_containers():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", None]})
    assert digest(frame) == digest(frame.copy())
    assert digest(frame) != digest(frame.assign(b=["x", "y"]))
    assert digest(np.arange(4).reshape(2, 2)) != digest(np.arange(4))
    assert digest(scipy.sparse.eye(3).tocsr()) != digest(2 * scipy.sparse.eye(3).tocsr())
    assert digest(LogisticRegression(C=1)) != digest(LogisticRegression(C=2))
    assert digest(np.random.RandomState(1)) == digest(np.random.RandomState(1)) != digest(np.random.RandomState(2))
    assert digest({"a", "b"}) == digest({"b", "a"})
    assert digest(lambda x: x + 1) != digest(lambda x: x * 2)
    held = [1]
    held.append([held, held])
    assert digest(held)
    long = np.arange(5000)
    other = np.where(long == 2500, 0, long)  # which numpy does not print
    pairs = [
        (lambda x: x + 1, lambda x: x + 2),
        (lambda x: [lambda z: z + 1, x], lambda x: [lambda z: z + 2, x]),
        (lambda x: x.real, lambda x: x.imag),
        (lambda x=1: x, lambda x=2: x),
        (lambda *, x=1: x, lambda *, x=2: x),
        (enclosing(long), enclosing(other)),
        (partial(enclosing, long), partial(enclosing, other)),
        (partial(sorted, reverse=True), partial(sorted, reverse=False)),
        (partial(sorted, []), partial(list, [])),
        (Method(long).call, Method(other).call),
        (Slotted(1), Slotted(2)),
        (np.array([long, "a"], dtype=object), np.array([other, "a"], dtype=object)),
        (frozenset({(1, 2)}), frozenset({(1, 3)})),
    ]
    for one, another in pairs:
        assert digest(one) != digest(another), one
        assert digest(one) == digest(copy.copy(one)), one
    assert digest(pl.DataFrame({"a": [1, 2]})) != digest(pl.DataFrame({"b": [1, 2]}))


# ── processes that die ──────────────────────────────────────────────────────────────────────────────

SCRIPT = """
import os, signal, sys, time
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from scoreprism.pipelines import pipeline_bootstrap

class Slow(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        flag = os.environ.get("DIE")
        if flag and str(os.getpid()) != os.environ["MAIN"]:
            with open(flag, "a") as file:
                file.write("x")
            if os.path.getsize(flag) >= 5:
                os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(float(os.environ["PAUSE"]))
        self.model_ = LogisticRegression().fit(X, y)
        self.classes_ = self.model_.classes_
        return self
    def predict_proba(self, X):
        return self.model_.predict_proba(X)

if __name__ == "__main__":
    os.environ["MAIN"] = str(os.getpid())
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150000, 3))  # more than a megabyte each: joblib puts them in files
    y = (X[:, 0] + rng.logistic(size=150000) > 0).astype(int)
    parts = [(X[i : i + 50000], y[i : i + 50000]) for i in (0, 50000, 100000)]
    print("started", flush=True)
    try:
        result = pipeline_bootstrap(Slow(), *parts, calibrator="platt", refit="all", n_resamples=int(sys.argv[2]),
                                    random_state=0, n_jobs=2, checkpoint=sys.argv[1])
        print("result", result._values.tobytes().hex()[-64:], result._values.sum().hex())
    except BaseException as error:
        print(type(error).__name__, error)
    own = f"/proc/{os.getpid()}/task/{os.getpid()}/children"
    for child in open(own).read().split():
        words = open(f"/proc/{child}/cmdline").read().replace(chr(0), " ")
        print("child", "tracker" if "resource_tracker" in words else words)
    print("folders", os.listdir(os.environ["JOBLIB_TEMP_FOLDER"]))
"""
pytestmark_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")


@pytest.fixture
def script(tmp_path):
    folder = tmp_path / "joblib"
    folder.mkdir()
    (tmp_path / "run.py").write_text(SCRIPT)

    def start(count, **more):
        source = str(Path(pipeline_bootstrap.__code__.co_filename).parents[2])
        environment = os.environ | {"JOBLIB_TEMP_FOLDER": str(folder), "PAUSE": "0", "PYTHONPATH": source} | more
        command = [sys.executable, str(tmp_path / "run.py"), str(tmp_path / "checkpoint"), str(count)]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    start.folder, start.checkpoint = folder, tmp_path / "checkpoint"
    return start


def finished(checkpoint):
    return checkpoint.read_bytes().count(b"\n") - 1 if checkpoint.exists() else 0


def of_folder(folder):
    """Processes whose environment names this folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


def wait_for(condition, seconds=40):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


@pytestmark_proc
@pytest.mark.slow
def test_a_killed_worker_is_told_and_leaves_nothing_behind(script, tmp_path):
    out = script(12, DIE=str(tmp_path / "flag")).communicate(timeout=120)[0]
    assert "LostWorkerError a worker process died" in out
    kept = finished(script.checkpoint)
    assert f"{kept} of 12 replicates were finished and are kept in the checkpoint" in out
    assert [line for line in out.splitlines() if line.startswith("child")] == ["child tracker"] * out.count(
        "child tracker"
    )
    assert "folders []" in out
    assert wait_for(lambda: not of_folder(script.folder))


@pytestmark_proc
@pytest.mark.slow
@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_a_killed_run_continues_and_leaves_nothing_behind(script, how):
    how, process = signal.Signals[how], script(8, PAUSE="0.3")
    assert wait_for(lambda: finished(script.checkpoint) >= 3)
    process.send_signal(how)
    out = process.communicate(timeout=60)[0]
    assert process.returncode == (0 if how is signal.SIGINT else -how), out
    if how is signal.SIGINT:
        assert "KeyboardInterrupt" in out
        assert "child /" not in out
        assert "folders []" in out
    assert wait_for(lambda: not of_folder(script.folder))
    assert wait_for(lambda: not list(script.folder.iterdir()))
    assert 3 <= finished(script.checkpoint) < 8
    again = script(8).communicate(timeout=120)[0]
    script.checkpoint.unlink()
    whole = script(8).communicate(timeout=120)[0]
    assert "result" in whole
    assert again.partition("result")[2].split()[:2] == whole.partition("result")[2].split()[:2]


def test_the_error_for_a_lost_worker_is_one_of_ours():
    assert issubclass(LostWorkerError, ScoreprismError)


# ── the result ──────────────────────────────────────────────────────────────────────────────────────


def test_tables_frames_and_dictionaries(splits):
    result = boot(splits, refit="all", n_resamples=20)
    assert isinstance(result, PipelineBootstrap)
    frame = result.to_frame("pandas")
    assert list(frame["term"]) == list(result.names)
    shares = frame[["from_calibration", "from_training", "from_test"]].sum(axis=1)
    assert np.allclose(shares, 1.0)
    long = result.replicates_frame("polars")
    assert long.shape == (20 * 3 * 5, 5)
    value = long.filter(pl.col("resampled") == "calibration, training, test", pl.col("term") == "gain")["value"]
    assert np.array_equal(value.to_numpy(), result.replicates[:, 4])
    json.dumps(result.to_dict())
    text = repr(result)
    assert "20 replicates, classifier and calibrator refitted, test rows resampled" in text
    assert "ecalibration pays" in text
    assert " %" in text
    assert "<table" in result._repr_html_()


def test_the_figure_draws_every_quantity(splits):
    result = boot(splits, n_resamples=20)
    display = result.plot()
    assert len(display.ridge_) == len(display.interval_) == 5
    low, high = display.interval_[4].get_xdata() + result.terms["gain"]
    known = result.interval("gain")
    assert (low, high) == pytest.approx((known.low, known.high))
    figure, ax = plt.subplots(figsize=(4, 3))
    assert result.plot(ax=ax, terms=["reliability", "gain"], confidence_level=0.8).figure_ is figure
    with pytest.raises(InputError, match="each term must be one of"):
        result.plot(terms=["bias"])
    plt.close("all")


def test_a_full_disk_is_said_and_the_run_goes_on_from_there(splits, tmp_path):
    resource = pytest.importorskip("resource")
    options = {"n_resamples": 60, "checkpoint": tmp_path / "run.checkpoint"}
    before = resource.getrlimit(resource.RLIMIT_FSIZE)  # Python ignores the signal that goes with it
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, before[1]))
    try:
        with pytest.raises(InputError) as caught:
            boot(splits, **options)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    said = str(caught.value)
    assert said.startswith("a checkpoint must be writable to the end; got File too large, after ")
    assert said.endswith("Free some disk space and run it again: it resumes from there.")
    assert same(boot(splits, **options), boot(splits, n_resamples=60))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in this file system")
def test_a_pipe_or_a_device_is_no_checkpoint(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    parts = [(np.arange(8.0)[:, None] + i, [0, 1] * 4) for i in range(3)]
    with pytest.raises(
        InputError, match="checkpoint must be the path of a file in an existing folder; got .*which is no plain file"
    ):
        pipeline_bootstrap(GaussianNB(), *parts, calibrator="platt", checkpoint=tmp_path / "pipe")
