"""Every result of a public function can be shown, framed, written as JSON, and drawn where it has a figure."""

from __future__ import annotations

import importlib
import inspect
import json

import matplotlib as mpl
import numpy as np
import polars as pl
import pytest

import scoreprism
from scoreprism import curves, inference, metrics, references

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


#: Results that are not yet `Result`s; a name leaves when its package is done.
OPEN = {"Report", "Sums"}


@pytest.mark.parametrize("name", sorted(returned_classes().keys() - OPEN))
def test_every_result_has_the_same_ways_out(name):
    kind = returned_classes()[name]
    ways = ("to_frame", "to_dict", "to_json", "document")
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
        if hasattr(one, "plot"):
            assert one.plot().figure_ is not None, kind
