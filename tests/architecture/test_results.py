"""Every result of a public function can be shown, framed, written as JSON and drawn."""

from __future__ import annotations

import importlib
import inspect
import json

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import scoreprism
from scoreprism import curves, ensembles, inference, metrics, references, scale
from scoreprism.exceptions import UnavailableError

#: What public functions return that is no result: tools, rows, files.
TOOLS = {
    "Calibrator", "Chain", "Document", "ExactExample", "GermanCredit", "LightgbmRefinementStopping", "ProperLoss",
    "Scorer",
}  # fmt: skip


def public_classes():
    for package in scoreprism.PUBLIC_PACKAGES:
        module = importlib.import_module(f"scoreprism.{package}")
        yield from ((name, getattr(module, name)) for name in module.__all__ if inspect.isclass(getattr(module, name)))


def returned_classes():
    """Classes that the annotations of public functions and of methods of results name."""
    classes = dict(public_classes())
    functions = [getattr(scoreprism, name) for name in scoreprism.__all__]
    for package in scoreprism.PUBLIC_PACKAGES:
        module = importlib.import_module(f"scoreprism.{package}")
        functions += [getattr(module, name) for name in module.__all__]
    functions += [scoreprism.Decomposition.interval, scoreprism.Decomposition.lower_bound]
    functions += [scoreprism.Decomposition.summary, scoreprism.Decomposition.minus]
    functions += [scoreprism.Decomposition.contributions, scoreprism.Decomposition.known]
    named = {f.__annotations__.get("return", "") for f in functions if inspect.isfunction(f)}
    return {name: classes[name] for name in sorted(named) if name in classes and name not in TOOLS}


#: Results without a figure: they know too little to draw, and say what to draw instead (docs/decisions/0013).
NO_FIGURE = {"Bound"}


@pytest.mark.parametrize("name", sorted(returned_classes()))
def test_every_result_has_the_same_ways_out(name):
    kind = returned_classes()[name]
    ways = ("to_frame", "to_dict", "to_json", "plot", "document")
    assert [way for way in ways if not callable(getattr(kind, way, None))] == []


@pytest.fixture(scope="module")
def results():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    p = 1 / (1 + np.exp(-X[:, 0]))
    y = (rng.random(400) < 1 / (1 + np.exp(-X.sum(axis=1)))).astype(int)
    models = {"a": p, "b": p**2}
    d = scoreprism.decompose(y, p, loss="brier")
    mapped = inference.map_inference(y, p, calibrator="platt")
    both = scoreprism.compare(y, models, loss="brier")
    return [
        d,
        d.summary(0.9),
        d.interval("reliability"),
        d.known("refinement"),
        d.lower_bound("reliability"),
        d.contributions(X[:, 1] > 0),
        both,
        both.difference("a", "b"),
        scoreprism.decompose_by(y, p, segments=X[:, 1] > 0, loss="brier"),
        scoreprism.corp_decomposition(y, p, loss="brier"),
        scoreprism.calibration_test(y, p, n_resamples=99),
        scoreprism.grouping_test(y, p, X),
        scoreprism.required_sample_size(reliability=0.01, loss="brier", y_proba=p),
        inference.corp_bootstrap(y, p, loss="brier", n_resamples=50),
        references.partition_lower_bound(y, p, X, loss="brier"),
        mapped,
        mapped.calibrate([0.2, 0.7]),
        mapped.summary("ici"),
        metrics.evaluate(y, p, n_resamples=20),
        metrics.ece(y, p),
        curves.reliability_curve(y, p, n_resamples=20),
        curves.murphy_curve(y, p),
        curves.murphy_decomposition(y, p),
        curves.decision_loss(y, p),
        curves.roc_curve(y, p),
        curves.net_benefit(y, p),
        curves.score_distribution(y, p),
        curves.calibration_map(y, p),
        curves.resolution_plane(y, models),
        curves.grouping_curve(y, p, X),
        ensembles.averaging_gap(y, list(models.values())),
        scale.aggregate(pl.DataFrame({"y": y, "p": p, "half": X[:, 1] > 0}), target="y", score="p", segments="half"),
    ]


def test_results_of_this_test_are_all_there_are(results):
    ours = ("decomposition", "inference", "references", "metrics", "curves")
    known = {name for package in ours for name in importlib.import_module(f"scoreprism.{package}").__all__}
    wanted = {name for name in returned_classes() if name in known}
    assert wanted <= {type(one).__name__ for one in results}


def test_results_are_framed_written_shown_and_drawn(results):
    mpl.use("agg")
    for one in results:
        kind = type(one).__name__
        frame = one.to_frame("polars")
        assert isinstance(frame, pl.DataFrame), kind
        assert frame.height > 0, kind
        assert list(one.to_frame("pandas").columns) == frame.columns, kind
        assert json.loads(one.to_json()).keys() == {str(key) for key in one.to_dict()}, kind
        table = one.document().sections[0].blocks[0]
        assert table.rows, kind
        assert table.title, kind
        assert table.title.split()[0] in one._repr_html_(), kind
        if kind not in NO_FIGURE:
            assert one.plot().figure_ is not None, kind
            plt.close("all")


def test_a_result_without_a_figure_says_what_to_draw_instead(results):
    (bound,) = [one for one in results if type(one).__name__ in NO_FIGURE]
    with pytest.raises(UnavailableError) as refusal:
        bound.plot()
    assert str(refusal.value) == (
        "Bound has no figure. A bound does not know its estimate: plot the result it was asked of."
    )


# ── sums and reports ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("is_coarse", [False, True])
def test_the_frame_of_sums_holds_what_the_rows_add_up_to(is_coarse):
    """Expected: polars' own group_by over the rows."""
    rng = np.random.default_rng(0)
    rows = pl.DataFrame({"y": rng.integers(0, 2, 50), "p": rng.random(50), "rows": rng.integers(0, 2, 50)})
    sums = scale.aggregate(
        rows.with_columns(w=1.0 + pl.col("p")), target="y", score="p", segments="rows", sample_weight="w"
    )
    frame = (sums.coarsen() if is_coarse else sums).to_frame("polars")
    w, y, p = 1.0 + pl.col("p"), pl.col("y"), pl.col("p")
    expected = rows.group_by(pl.col("rows").alias("rows_segment")).agg(
        rows=pl.len(),
        weight=w.sum(),
        events=(w * y).sum(),
        mean_score=(w * p).sum() / w.sum(),
        sum_log=-(w * pl.when(y == 1).then(p).otherwise(1.0 - p).log()).sum(),
        sum_brier=(w * (p - y) ** 2).sum(),
    )
    assert_frame_equal(frame, expected.sort("rows_segment"), check_dtypes=False)


def test_an_infinite_loss_is_infinite_in_the_frame_of_sums():
    sums = scale.aggregate(pl.DataFrame({"y": [1, 0], "p": [0.0, 0.3]}), target="y", score="p")
    assert sums.to_frame("polars")["sum_log"].to_list() == [np.inf]
    assert sums.coarsen().to_frame("polars")["sum_log"].to_list() == [np.inf]


def test_the_frame_of_a_report_holds_a_row_for_each_model_and_loss():
    """Expected: the decompositions that the report holds."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.95, 300)
    data = pd.DataFrame({"y": rng.random(300) < p, "a": p, "b": p**2})
    report = scoreprism.make_report(data["y"], {"a": data["a"], "b": data["b"]}, sections=["verdict"])
    frame = report.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert list(zip(frame["model"], frame["loss"], strict=True)) == [
        (model, loss) for model in ("a", "b") for loss in ("log", "brier")
    ]
    found = report.models["b"].decompositions["brier"]
    line = frame.iloc[3]
    assert (line["n"], line["risk"], line["reliability"]) == (300, found.risk, found.terms["reliability"])
    interval = found.interval("reliability")
    assert (line["reliability_low"], line["reliability_high"]) == (interval.low, interval.high)
    assert report.plot(loss="brier").decompositions["b"] is found
    assert report.document() is report
    plt.close("all")


def test_a_report_of_an_infinite_loss_has_a_row_at_the_floor_and_draws_it():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.95, 300)
    y = (rng.random(300) < p).astype(int)
    p[np.flatnonzero(y)[0]] = 0.0
    report = scoreprism.make_report(y, p, sections=["verdict"], loss="log")
    frame = report.to_frame("polars")
    assert frame.height == 2
    assert np.isinf(frame["risk"][0])
    assert np.isfinite(frame["risk"][1])
    assert report.plot().curves[0].risk == frame["risk"][1]
    plt.close("all")


def test_a_difference_that_is_rounding_does_not_ask_for_decimals():
    """The laws C of both models are equal up to the last bit, so that the refinement differs by 1e-17; five decimals are enough."""
    rng = np.random.default_rng(0)
    c = rng.uniform(0.1, 0.9, 200)
    y = (rng.random(200) < c).astype(int)
    good, bad = (
        scoreprism.Chain(y, [scoreprism.Level("S", s), scoreprism.Level("C", law)]).decompose("brier")
        for s, law in ((c**1.1, c), (c**2, np.nextafter(c, 1)))
    )
    difference = bad.minus(good)
    assert 0 < difference.std_error["refinement"] < 1e-15
    numbers = [cell for line in repr(difference).splitlines()[3:5] for cell in line.split()[1:3]]
    assert [len(number.split(".")[1]) for number in numbers] == [5] * 4
