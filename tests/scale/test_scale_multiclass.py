"""Several classes at scale: equal to plain decompose on the same folds, in every engine; samples; refusals."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np
import polars as pl
import pytest

import scoreprism
from scoreprism import scale
from scoreprism.calibrators import TemperatureCalibrator, VectorScalingCalibrator
from scoreprism.exceptions import (
    InfiniteLossError,
    InfiniteLossWarning,
    InputError,
    LabelError,
    ScoreprismError,
    UnavailableError,
)
from scoreprism.scale import ENGINES, ClassDecomposition
from scoreprism.scale._class_sample import SAMPLERS
from tests.conftest import spark_or_skip
from tests.findings import select

P = ["p_a", "p_b", "p_c"]
#: Where the fit of a scaling begins.
START = "scoreprism.scale._class_scaling.ScalingFit._find_start"
#: What is promised is 1e-6; both fits are exact to about 1e-11 (Newton to the end on either side).
NEAR = 1e-9


@functools.cache
def table(n: int = 2500, *, seed: int = 0, zeros: bool = False) -> pl.DataFrame:
    """Overconfident and shifted laws of three classes, with folds, weights, segments, periods and two finer laws."""
    rng = np.random.default_rng(seed)
    law = rng.dirichlet([1.0, 1.0, 1.0], n)
    y = (rng.random((n, 1)) > law.cumsum(axis=1)).sum(axis=1).clip(0, 2)
    s = law**1.6 * np.array([1.0, 1.2, 1.4])
    s = np.where(s < 0.01, 0.0, s) if zeros else s
    s /= s.sum(axis=1, keepdims=True)
    q = (0.5 * law + 0.5 * s) if not zeros else law
    columns = {f"p_{c}": s[:, k] for k, c in enumerate("abc")}
    columns |= {f"q_{c}": q[:, k] / q.sum(axis=1) for k, c in enumerate("abc")}
    columns |= {f"z_{c}": law[:, k] for k, c in enumerate("abc")}
    extra = {"y": np.array(list("abc"))[y], "fold": rng.integers(0, 3, n), "w": rng.gamma(2.0, 1.0, n).round(3)}
    extra |= {"g": np.where(rng.random(n) < 0.4, "north", "south"), "month": rng.integers(1, 4, n), "id": np.arange(n)}
    return pl.DataFrame({**columns, **extra})


def splits(fold: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Folds as plain decompose takes them."""
    labels = np.asarray(fold)
    return [(np.flatnonzero(labels != f), np.flatnonzero(labels == f)) for f in np.unique(labels)]


def plain(rows: pl.DataFrame, **options: Any) -> scoreprism.Decomposition:
    """Plain decompose on the rows in memory, with the folds of the column."""
    given = {name: rows[columns].to_numpy() for name, columns in options.pop("laws", {}).items()}
    found: Any = scoreprism.decompose(
        rows["y"].to_numpy(), rows[P].to_numpy(), cv=splits(rows["fold"]), classes=list("abc"), **given, **options
    )
    return found


def assert_same(found: Any, wanted: Any, tolerance: float = NEAR) -> None:
    """Terms, standard errors and brackets agree; what holds for any shape needs rows, or cells, and is not claimed."""
    assert found.names == wanted.names
    for name in wanted.names:
        assert found.terms[name] == pytest.approx(wanted.terms[name], abs=tolerance)
        assert found.std_error[name] == pytest.approx(wanted.std_error[name], abs=tolerance)
        one, two = found.interval(name), wanted.interval(name, method="bracket")
        assert (one.low, one.high, one.method) == (
            pytest.approx(two.low, abs=tolerance), pytest.approx(two.high, abs=tolerance), two.method
        )  # fmt: skip
    with pytest.raises(UnavailableError, match="'reliability' has no interval for any shape"):
        found.interval("reliability", method="any-shape")
    assert found.risk == pytest.approx(wanted.risk, abs=1e-12)
    assert found.n == wanted.n
    assert found.n_classes == wanted.n_classes


def _observed_bound(found: Any) -> float:
    """LD − 1.645 standard errors of its rows, by numpy."""
    steps = found.level_losses[:, 0] - found.level_losses[:, 1]
    weight = np.ones(found.n) if found.sample_weight is None else found.sample_weight
    mean = np.average(steps, weights=weight)
    error = np.sqrt((weight**2 * (steps - mean) ** 2).sum()) / weight.sum()
    return float(mean - 1.6448536269514722 * error)


# ── gradients: equal to plain decompose ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("calibrator", ["temperature", "vector"])
@pytest.mark.parametrize("loss", ["log", "brier", "spherical"])
def test_equal_to_plain_decompose(loss: str, calibrator: str, zeros: bool, weight: str | None) -> None:
    rows = table(zeros=zeros)
    clip = 1e-4 if zeros else None
    found: Any = scale.decompose(
        rows.lazy(), target="y", score=P, loss=loss, calibrator=calibrator, fold_column="fold", sample_weight=weight,
        clip=clip,
    )  # fmt: skip
    known = {"temperature": "temperature", "vector": "vector-scaling"}[calibrator]
    weights = None if weight is None else rows["w"].to_numpy()
    wanted = plain(rows, loss=loss, calibrator=known, sample_weight=weights, clip=clip)
    assert_same(found, wanted)
    assert_same(found.resolution_form, wanted.resolution_form)
    one, two = (d.interval("reliability", method="envelope") for d in (found, wanted))
    assert one.high == pytest.approx(two.high, abs=NEAR)
    bound = found.lower_bound("reliability").value  # by the observed error alone: no law of rows is summed
    assert bound == pytest.approx(_observed_bound(wanted), abs=NEAR)
    assert bound >= wanted.lower_bound("reliability").value - NEAR
    first, *_ = found.summary().findings
    assert (first.kind, first.low) == ("recalibrate", bound)


def test_given_laws_above_c() -> None:
    rows = table()
    laws = {"q": ["q_a", "q_b", "q_c"], "latent": ["z_a", "z_b", "z_c"]}
    for loss in ("log", "brier"):
        found = scale.decompose(rows, target="y", score=P, loss=loss, calibrator="vector", fold_column="fold", **laws)
        assert found.names == ("reliability", "grouping", "heterogeneity", "noise")
        assert_same(found, plain(rows, loss=loss, calibrator="vector-scaling", laws=laws))


def test_form_and_ridge_are_those_asked_for() -> None:
    rows = table(1500)
    stiff = VectorScalingCalibrator(ridge=50.0)
    found = scale.decompose(
        rows, target="y", score=P, loss="log", calibrator=stiff, fold_column="fold", form="difference"
    )
    assert_same(found, plain(rows, loss="log", calibrator=stiff, form="difference"))


def test_segments_and_periods_have_laws_of_their_own() -> None:
    rows = table(1200)
    found: Any = scale.decompose(
        rows, target="y", score=P, loss="log", calibrator="temperature", fold_column="fold", segments="g", time="month"
    )
    for kind, column in (("segments", "g"), ("periods", "month")):
        parts = getattr(found, kind)
        assert sorted(parts) == sorted(rows[column].unique())
        for label in parts:
            assert_same(parts[label], plain(rows.filter(pl.col(column) == label), loss="log", calibrator="temperature"))
    assert [after for after, _ in found.drift().pairs] == [2, 3]


def test_dates_are_brought_to_periods() -> None:
    rows = table(900).with_columns(day=pl.date(2026, pl.col("month"), 15))
    options: dict[str, Any] = {"target": "y", "score": P, "loss": "log", "calibrator": "temperature"}
    for every, label in (("month", "2026-02"), ("quarter", "2026-Q1"), ("year", "2026"), ("week", "2026-02-09")):
        found: Any = scale.decompose(rows, fold_column="fold", time="day", period=every, **options)
        part = rows if every in ("quarter", "year") else rows.filter(pl.col("month") == 2)
        assert_same(found.periods[label], plain(part, loss="log", calibrator="temperature"))


def test_infinite_losses_are_told_and_counted() -> None:
    rows = table(2000, zeros=True)
    hit = np.take_along_axis(rows[P].to_numpy(), (rows["y"].to_numpy()[:, None] == list("abc")).argmax(1)[:, None], 1)
    count = int((hit == 0.0).sum())
    assert count > 0
    with pytest.warns(InfiniteLossWarning, match=f"^The log loss is infinite: in {count} of 2,000 rows"):
        found: Any = scale.decompose(rows, target="y", score=P, loss="log", calibrator="vector", fold_column="fold")
    assert found.risk == np.inf
    assert np.isnan(found.std_error["reliability"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted: Any = plain(rows, loss="log", calibrator="vector-scaling")
    assert found.terms["refinement"] == pytest.approx(wanted.terms["refinement"], abs=NEAR)
    laws = {"q": ["q_a", "q_b", "q_c"]}
    never = table(2000).with_columns(q_a=pl.lit(0.0), q_b=pl.lit(0.5), q_c=pl.lit(0.5))
    with pytest.raises(InfiniteLossError, match="level 'Q' must have a finite log loss"):
        scale.decompose(never, target="y", score=P, loss="log", calibrator="temperature", fold_column="fold", **laws)


def test_any_order_and_any_start_give_the_same_fit() -> None:
    """Sorted by class, the first rows hold one class only: the fit starts from the identity."""
    rows = table(12_000)
    options: dict[str, Any] = {"target": "y", "score": P, "loss": "log", "calibrator": "vector", "fold_column": "fold"}
    one, two = scale.decompose(rows, **options), scale.decompose(rows.sort("y", "p_a"), **options)
    assert_same(one, two)


def test_a_bad_start_is_overcome(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, wanted = table(2000), plain(table(2000), loss="log", calibrator="vector-scaling")
    monkeypatch.setattr(START, lambda self: np.array([9.0, 0.1, 5.0, 3.0, -4.0, 2.0]))
    found = scale.decompose(rows, target="y", score=P, loss="log", calibrator="vector", fold_column="fold")
    assert_same(found, wanted)


def test_a_score_that_says_nothing_has_any_temperature() -> None:
    rows = table(400).with_columns(pl.lit(1.0 / 3.0).alias(name) for name in P)
    found: Any = scale.decompose(
        rows, target="y", score=P, loss="log", calibrator="temperature", fold_column="fold", classes=["a", "b", "c"]
    )
    assert found.terms == pytest.approx({"reliability": 0.0, "refinement": np.log(3.0)})


def test_parameters_are_those_of_a_fit_to_all_rows() -> None:
    rows = table()
    scores, y = rows[P].to_numpy(), rows["y"].to_numpy()
    options: dict[str, Any] = {"target": "y", "score": P, "loss": "log", "fold_column": "fold"}
    found: Any = scale.decompose(rows, calibrator="temperature", **options)
    temperature = TemperatureCalibrator().fit(scores, y).temperature_
    assert isinstance(found, ClassDecomposition)
    assert found.parameters["slopes"] == pytest.approx([1.0 / temperature] * 3, rel=1e-4)
    found = scale.decompose(rows, calibrator="vector", **options)
    vector = VectorScalingCalibrator().fit(scores, y)
    assert found.parameters["slopes"] == pytest.approx(vector.weights_.diagonal().tolist(), abs=2e-4)
    assert found.parameters["intercepts"] == pytest.approx(vector.intercepts_.tolist(), abs=2e-4)
    assert found.to_dict()["scale"]["rows_in_all"] == rows.height
    assert scale.ClassDecomposition.from_json(found.to_json()).parameters == found.parameters


def test_parameters_go_one_step_on_from_where_the_folds_began(monkeypatch: pytest.MonkeyPatch) -> None:
    """From a start so near that the passes end at once: a fifth of a standard error away, which the step mends."""
    rows, seen = table(), list[np.ndarray]()
    best = 1.0 / TemperatureCalibrator().fit(rows[P].to_numpy(), rows["y"].to_numpy()).temperature_

    def start(fit: Any) -> np.ndarray:
        seen.append(np.array([best + 0.003]))
        return seen[0]

    monkeypatch.setattr(START, start)
    found: Any = scale.decompose(rows, target="y", score=P, loss="log", calibrator="temperature", fold_column="fold")
    assert found.parameters["slopes"][0] == pytest.approx(best, abs=3e-5)
    assert abs(found.parameters["slopes"][0] - seen[0][0]) > 0.002


def test_rows_without_weight_are_absent() -> None:
    """Even those that would have an infinite loss."""
    gone = pl.col("id") % 5 == 0
    rows = table().with_columns(
        w=pl.when(gone).then(0.0).otherwise(pl.col("w")),
        **{name: pl.when(gone).then((pl.col("y") != name[-1]) / 2.0).otherwise(pl.col(name)).alias(name) for name in P},
    )
    options: dict[str, Any] = {"target": "y", "score": P, "loss": "log", "sample_weight": "w", "fold_column": "fold"}
    found: Any = scale.decompose(rows, calibrator="temperature", **options)
    held = scale.decompose(rows.filter(pl.col("w") > 0.0), calibrator="temperature", **options)
    assert found.terms == pytest.approx(held.terms, abs=NEAR)
    assert (found.rows_in_all, found.n, found.n_units) == (2500, 2000, 2000)
    assert [one.n for one in select(found.findings, "zero_weight")] == [500]
    assert "500 rows of weight 0 were left out." in found.notes


# ── engines ─────────────────────────────────────────────────────────────────────────────────────────


def _in_engine(rows: pl.DataFrame, engine: str) -> Any:
    if engine == "duckdb":
        return pytest.importorskip("duckdb").from_arrow(rows.to_arrow())
    if engine == "dask":
        return pytest.importorskip("dask.dataframe").from_pandas(rows.to_pandas(), npartitions=3)
    if engine == "spark":
        settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
        session = spark_or_skip().builder.master("local[2]").config(map=settings).getOrCreate()
        return session.createDataFrame(rows.to_dicts())
    return {"pandas": rows.to_pandas, "pyarrow": rows.to_arrow}[engine]()


_OPTIONS: Any = {"target": "y", "score": P, "sample_weight": "w", "fold_key": "id", "calibrator": "vector"}


@functools.cache
def _in_polars(loss: str) -> Any:
    return scale.decompose(table(1200), loss=loss, **_OPTIONS)


def _engines_agree(engine: str) -> None:
    for loss in ("log", "brier"):
        assert_same(scale.decompose(_in_engine(table(1200), engine), loss=loss, **_OPTIONS), _in_polars(loss))


@pytest.mark.parametrize("engine", ["duckdb", "pandas", "pyarrow"])
def test_engines_agree(engine: str) -> None:
    _engines_agree(engine)


@pytest.mark.engines
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("engine", ["dask", "spark"])
def test_heavy_engines_agree(engine: str) -> None:
    _engines_agree(engine)


# ── samples ─────────────────────────────────────────────────────────────────────────────────────────


def test_few_rows_are_all_used_as_plain_decompose_uses_them() -> None:
    rows = table(600)
    found: Any = scale.decompose(rows, target="y", score=P, loss="log", random_state=3)
    wanted = scoreprism.decompose(
        rows["y"].to_numpy(), rows[P].to_numpy(), loss="log", random_state=3, classes=list("abc")
    )
    assert found.terms == wanted.terms
    assert found.std_error == wanted.std_error
    assert (found.rows_in_all, found.n) == (600, 600)
    assert found.risk_in_all == pytest.approx(wanted.risk, abs=1e-12)
    assert (found.findings[0].kind, found.findings[0].n, found.findings[0].facts["total"]) == ("sampled", 600, 600)
    assert found.notes[0] == "All 600 rows were used."


@pytest.mark.parametrize("loss", ["log", "brier"])
@pytest.mark.parametrize("clip", [None, 0.2])
def test_a_sample_says_its_size_and_the_loss_of_all_rows(clip: float | None, loss: str) -> None:
    rows = table(4000)
    options: dict[str, Any] = {"target": "y", "score": P, "loss": loss, "sample_weight": "w", "clip": clip}
    options |= {"sample": 1000, "calibrator": "temperature"}
    d: Any = scale.decompose(rows, **options)
    again, other = scale.decompose(rows, **options), scale.decompose(rows, random_state=1, **options)
    whole = plain(rows, loss=loss, calibrator="identity", sample_weight=rows["w"].to_numpy(), clip=clip)
    assert (d.n, d.rows_in_all, d.passes) == (1000, 4000, 2)
    assert d.terms == again.terms != other.terms
    assert d.risk_in_all == pytest.approx(whole.risk, abs=1e-12)
    error = whole._moments.std_error({0: 1.0, 1: 1.0})  # S and the identity have the same loss
    assert d.risk_std_error == pytest.approx(error, abs=1e-12)
    drawn = d.findings[0]
    assert (drawn.kind, drawn.n, drawn.facts["total"]) == ("sampled", 1000, 4000)
    assert (drawn.value, drawn.facts["error"]) == (d.risk_in_all, d.risk_std_error)
    assert drawn.text.startswith("C is fitted to a sample of 1,000 of 4,000 rows, drawn at random by polars")
    assert f" The loss over all rows is {d.risk_in_all:.6g}, with a standard error of " in drawn.text


def test_a_key_draws_the_same_rows_in_every_engine() -> None:
    rows = table(4000)
    options: dict[str, Any] = {"target": "y", "score": P, "loss": "log", "calibrator": "temperature", "sample": 1000}
    here: Any = scale.decompose(rows, fold_key="id", **options)
    there = scale.decompose(_in_engine(rows, "duckdb"), fold_key="id", **options)
    assert here.n == there.n  # a share of the keys: about, not exactly, 1000
    assert abs(here.n - 1000) < 100
    assert here.terms == pytest.approx(there.terms, abs=1e-12)
    few: Any = scale.decompose(rows, fold_key="month", cv=2, **options)  # three keys make no sample
    assert few.n == 1000


def test_segments_of_a_sample() -> None:
    rows = table(4000).with_columns(day=pl.date(2026, pl.col("month"), 15))
    found: Any = scale.decompose(
        rows, target="y", score=P, loss="log", calibrator="temperature", sample=1500, segments="g", time="day"
    )
    assert sum(found.segments[label].n for label in found.segments) == 1500
    assert list(found.periods) == ["2026-01", "2026-02", "2026-03"]


@pytest.mark.parametrize("engine", ["polars", "duckdb", "pandas"])
def test_samples_are_uniform_and_of_their_size(engine: str) -> None:
    """Counts of ten parts of the rows against their binomial law, and pairs of neighbours: within 5 deviations."""
    n, size = 30_000, 6000
    ids = np.arange(n)
    p = 0.1 + 0.5 * ids / n  # which tells the row
    rows = pl.DataFrame({"p_a": p, "p_b": 0.6 - 0.5 * p, "p_c": 0.4 - 0.5 * p, "y": np.array(list("abc"))[ids % 3]})
    frame = rows.lazy() if engine == "polars" else _in_engine(rows, engine)
    found: Any = scale.decompose(frame, target="y", score=P, sample=size, calibrator="identity", random_state=11)
    drawn = np.sort(np.round((found.chain.sample.prediction[:, 0] - 0.1) * n / 0.5).astype(int))
    assert np.unique(drawn).size == drawn.size == size
    counts = np.bincount(drawn // (n // 10), minlength=10)
    share = size / n
    assert np.abs(counts - size / 10).max() < 5 * np.sqrt(size / 10 * (1 - share))
    pairs = int((np.diff(drawn) == 1).sum())
    assert abs(pairs - size * size / n) < 5 * np.sqrt(size * size / n)


def test_every_engine_has_a_sampler() -> None:
    assert set(SAMPLERS) == set(ENGINES)


# ── two columns, labels ─────────────────────────────────────────────────────────────────────────────


def test_two_columns_are_one_score() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(1000)
    rows = pl.DataFrame({"n_no": 1.0 - p, "n_yes": p, "y": np.where(rng.random(1000) < p, "yes", "no")})
    options: dict[str, Any] = {"target": "y", "loss": "log"}
    two = scale.decompose(rows, score=["n_no", "n_yes"], classes=["no", "yes"], **options)
    one = scale.decompose(rows, score="n_yes", pos_label="yes", **options)
    assert two.terms == one.terms
    named = scale.decompose(rows, score=["n_no", "n_yes"], **options)
    assert named.terms == one.terms
    with pytest.raises(InputError, match="must sum to 1"):
        scale.decompose(rows.with_columns(n_no=pl.lit(0.5)), score=["n_no", "n_yes"], **options)


def test_labels_come_from_the_names_of_the_columns() -> None:
    rows = table(1500).with_columns(pl.col("y").replace_strict({"a": 10, "b": 20, "c": 30}).alias("y"))
    rows = rows.rename({"p_a": "10", "p_b": "20", "p_c": "30"})
    options: dict[str, Any] = {"target": "y", "loss": "log", "calibrator": "temperature", "fold_column": "fold"}
    named = scale.decompose(rows, score=["30", "10", "20"], **options)
    given = scale.decompose(rows, score=["10", "20", "30"], classes=[10, 20, 30], **options)
    assert named.terms == pytest.approx(given.terms, abs=NEAR)
    with pytest.raises(LabelError, match="classes must give the labels in the order of the columns"):
        scale.decompose(rows.rename({"10": "x", "20": "y2", "30": "z"}), score=["x", "y2", "z"], **options)


# ── bad input ───────────────────────────────────────────────────────────────────────────────────────


def _spoiled(column: str, value: Any, rows: int = 7) -> pl.DataFrame:
    whole = table(400)
    return whole.with_columns(pl.when(pl.col("id") < rows).then(value).otherwise(pl.col(column)).alias(column))


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (_spoiled("p_b", None), {}, r"score\[1\] 'p_b' must hold probabilities from 0 to 1; got missing in 7 of 400"),
        (_spoiled("p_b", np.nan), {}, "got missing in 7 of 400 rows"),
        (_spoiled("p_b", 1.5), {}, "got 1.5 in 7 of 400 rows"),
        (_spoiled("p_b", -0.1), {}, "got -0.1 in 7 of 400 rows"),
        (_spoiled("p_b", 0.999), {}, "the columns of S must sum to 1 within 1e-06 in every row"),
        (_spoiled("y", pl.lit("d")), {"classes": ["a", "b", "c"]}, "target 'y' must hold one of the classes .* got 'd' in 7"),
        (_spoiled("y", None), {"classes": ["a", "b", "c"]}, "got missing in 7 of 400 rows"),
        (_spoiled("w", -1.0), {"sample_weight": "w"}, r"sample_weight 'w' must be from 0 to 1e\+70"),
        (_spoiled("w", 1e200), {"sample_weight": "w"}, "sample_weight 'w' must be from 0 to 1e[+]70, .* got 1e[+]200"),  # its fourth power is not
        (_spoiled("fold", None), {}, "fold_column 'fold' must not be missing"),
        (_spoiled("fold", np.nan), {}, "fold_column 'fold' must not be missing; got 7 of 400 rows without one"),
        (table(400).with_columns(fold=pl.date(2026, 1, pl.col("fold") + 1)), {}, "must hold words, whole numbers or"),
        (table(400), {"fold_column": "id"}, "must make from 2 to 20 folds; got 400"),
        (table(400), {"fold_column": None}, "must have folds, .* got neither fold_column nor fold_key"),
        (table(400), {"fold_column": "fold", "fold_key": "id"}, "fold_column or fold_key"),
        (table(400), {"classes": ["a", "b"]}, "classes must be the 3 labels"),
        (table(400), {"classes": "abc"}, "classes must be the 3 labels"),
        (table(400), {"classes": [1, 2, 3]}, "classes must be labels of column 'y'"),
        (table(400), {"score": ["p_a", "p_b", "p_d"]}, r"score\[2\] must name a column of the data; got 'p_d'. Did you mean"),
        (table(400), {"score": ["p_a", "p_b", "p_b"]}, "score must name each column once"),
        (table(400), {"score": ["p_a"]}, "score must name one column, or one for each class"),
        (table(400), {"score": ["p_a", "p_b", "g"]}, r"score\[2\] must hold numbers"),
        (table(400), {"score": 3}, "score must name one column, or one for each class"),
        (table(400), {"q": ["q_a", "q_b"]}, "q must have as many columns as score"),
        (table(400), {"latent": ["q_a", "q_b", "q_c"]}, "latent must stand above q"),
        (table(400), {"q": "q_a"}, "q must name one column, or one for each class"),
        (table(400), {"loss": "ranked-probability"}, "loss must be one that engines evaluate"),
        (table(400), {"form": "plugin"}, "form must be 'debiased' or 'difference'"),
        (table(400), {"pos_label": "a"}, "pos_label must be left out with several classes"),
        (table(400), {"sample": 10}, "sample must be"),
        (table(400), {"segments": "id"}, "segments and time must make at most 24 segments"),
        (table(400), {"segments": "p_a"}, "every column must have one role"),
        (table(400), {"target": None}, "target must be the name of a column"),
        (table(400).head(0), {"classes": ["a", "b", "c"]}, "data must hold rows with weight; got 0 rows"),
        (table(400).filter(pl.col("y") == "a"), {}, "at least two classes"),
        (table(400).with_columns(fold=(pl.col("y") == "a").cast(pl.Int64)), {}, "every class must be outside of every fold"),
        (table(400), {"score": "p_a", "classes": ["a", "b"], "pos_label": "a"}, "classes and sample must come with one score"),
        (table(400).with_columns(y=pl.struct(P).map_elements(lambda r: max(r, key=r.get)[-1], return_dtype=pl.String)),
         {}, "must have rows where the likeliest class did not occur"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(rows: pl.DataFrame, options: dict[str, Any], message: str) -> None:
    given = {"target": "y", "score": P, "loss": "log", "calibrator": "temperature", "fold_column": "fold", **options}
    with pytest.raises(ScoreprismError, match=message):
        scale.decompose(rows, **given)


def test_segments_of_a_sample_come_back_from_json():
    """They are decomposed by rows, and have no sums of their own."""
    rng = np.random.default_rng(0)
    law = rng.dirichlet([1.0, 1.0, 1.0], 600)
    y = (rng.random(600)[:, None] > law.cumsum(axis=1)).sum(axis=1)
    data = pl.DataFrame({"y": y, **{f"p{k}": law[:, k] for k in range(3)}, "g": np.arange(600) % 2})
    found = scale.decompose(data, target="y", score=["p0", "p1", "p2"], classes=[0, 1, 2], loss="log", segments="g")
    back = type(found).from_json(found.to_json())
    assert back.terms == found.terms
    assert {label: d.terms for label, d in back.segments.decompositions.items()} == {
        str(label): d.terms for label, d in found.segments.decompositions.items()
    }
