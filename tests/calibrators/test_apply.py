"""A fitted map inside an engine: `Calibrator.to_expr` and `scale.apply` give what `calibrate` gives."""

from __future__ import annotations

import importlib
import sys
import warnings
from functools import cache

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from scoreprism.calibrators import (
    CALIBRATORS,
    BinningCalibrator,
    IsotonicCalibrator,
    PlattCalibrator,
    TemperatureCalibrator,
    VennAbersCalibrator,
    get_calibrator,
)
from scoreprism.exceptions import InputError, ScoreprismWarning
from scoreprism.scale import apply
from tests.conftest import spark_or_skip

#: Most tests here go beyond the scores that a map has seen.
pytestmark = pytest.mark.filterwarnings("ignore:.*outside the range that the map was fitted on")

#: Scores at the ends of the range and just inside, ties, and what is not a score.
INSIDE = [0.0, 1.0, 5e-324, 1e-300, 1 - 2**-53, 0.5, 0.5, 0.25, 0.999, 1e-9]
OUTSIDE = [None, float("nan"), -0.1, 1.5, float("inf"), -float("inf"), -5e-324, 1 + 2**-52]
LOGITS = [0.0, -800.0, 800.0, 1e308, -1e308, sys.float_info.max, 5e-324, -3.0, -3.0, 20.0]


STRANGERS = [None, float("nan"), float("inf"), -float("inf")]
RANGE = {"probability": (0.0, 1.0), "logit": (-sys.float_info.max, sys.float_info.max)}


def sample(n=400, seed=0):
    """Rounded scores: ties among them, and some that are exactly 0 or 1."""
    rng = np.random.default_rng(seed)
    s = np.round(rng.beta(1.0, 1.5, n), 2)
    return s, (rng.random(n) < 0.05 + 0.8 * s**1.5).astype(int)


@cache
def fitted(name, kind="probability"):
    s, y = sample()
    x = s if kind == "probability" else np.log((s + 0.01) / (1.01 - s))
    made = get_calibrator(name, kind=kind)
    if "n_basis" in made.get_params():
        made.set_params(n_basis=6)  # expressions of many pieces take engines seconds
    return made.fit(x, y), x


def scores_of(kind, x):
    """Scores seen in the fit, special ones and strangers, as a list with None."""
    inside, outside = (INSIDE, OUTSIDE) if kind == "probability" else (LOGITS, STRANGERS)
    return [*np.unique(x).tolist(), *inside, *outside]


def expected(calibrator, values):
    """What calibrate() says of each score in the range, NaN for the others; beyond 1e15 it refuses, the map does not."""
    low, high = RANGE[calibrator.kind]
    x = np.array([np.nan if v is None else v for v in values])
    good = (x >= low) & (x <= high)
    law = np.full(x.shape, np.nan)
    with np.errstate(over="ignore"):
        far = good & (np.abs(x) > 1e15)
        law[far] = calibrator.map_(x[far])
    law[good & ~far] = calibrator.calibrate(x[good & ~far])
    return law


def check(found, law, *, nulls=True):
    """Equal to 1e-12; nothing is null where the engine has nulls, and never a NaN."""
    assert [v is None for v in found] == [bool(np.isnan(v)) and nulls for v in law]
    np.testing.assert_allclose([np.nan if v is None else v for v in found], law, rtol=0, atol=1e-12)


def as_duckdb(data):
    return duckdb.from_arrow(pa.table({name: pa.array(v, pa.float64()) for name, v in data.items()}))


def as_ibis(data):
    return pytest.importorskip("ibis").memtable(pa.table({name: pa.array(v, pa.float64()) for name, v in data.items()}))


def as_dask(data):
    return pytest.importorskip("dask.dataframe").from_pandas(pd.DataFrame(data, dtype=float), npartitions=3)


#: How a frame of each engine is made, and a column of it read.
ENGINES = {
    "polars": (lambda d: pl.DataFrame(d, strict=False), lambda f, c: f[c].to_list()),
    "polars lazy": (lambda d: pl.LazyFrame(d, strict=False), lambda f, c: f.collect(engine="streaming")[c].to_list()),
    "duckdb": (as_duckdb, lambda f, c: f.to_arrow_table()[c].to_pylist()),
    "dask": (as_dask, lambda f, c: f.compute()[c].tolist()),
    "ibis": (as_ibis, lambda f, c: f.to_pyarrow()[c].to_pylist()),
    "pandas": (lambda d: pd.DataFrame(d, dtype=float), lambda f, c: f[c].tolist()),
    "pandas nullable": (lambda d: pd.DataFrame(d, dtype="Float64"), lambda f, c: f[c].tolist()),
    "pyarrow": (pa.table, lambda f, c: f[c].to_pylist()),
}
each_engine = pytest.mark.parametrize("engine", ENGINES)


def installed(engine):
    """Loops over engines pass over those that are not there; parametrized tests are skipped."""
    try:
        importlib.import_module({"dask": "dask.dataframe", "ibis": "ibis"}.get(engine, "polars"))
    except ImportError:
        return False
    return True


def has_nulls(engine):
    return engine not in ("pandas", "pandas nullable", "dask")


@pytest.mark.parametrize("name", CALIBRATORS)
@pytest.mark.parametrize("kind", ["probability", "logit"])
def test_every_map_gives_the_same_numbers_in_every_engine(name, kind):
    calibrator, x = fitted(name, kind)
    values = scores_of(kind, x)
    law = expected(calibrator, values)
    engines = ENGINES if kind == "probability" else {e: ENGINES[e] for e in ("polars lazy", "duckdb")}
    for engine in filter(installed, engines):
        make, read = ENGINES[engine]
        frame = make({"s": values})
        made = apply(frame, calibrator, score="s")
        assert type(made) is type(frame), engine
        check(read(made, "calibrated"), law, nulls=has_nulls(engine))


@pytest.mark.parametrize("name", CALIBRATORS)
@pytest.mark.parametrize("kind", ["probability", "logit"])
def test_expressions_give_the_same_numbers(name, kind):
    calibrator, x = fitted(name, kind)
    values = scores_of(kind, x[:20])
    law = expected(calibrator, values)
    expr = calibrator.to_expr("s")
    few = ("platt", "beta", "binning", "identity", "matrix-scaling")  # narwhals takes a second for maps of many pieces
    others = ("polars", "duckdb", "ibis", "pandas", "pyarrow") if name in few else ()
    for engine in filter(installed, ("polars lazy", *others)):
        make, read = ENGINES[engine]
        made = nw.from_native(make({"s": values})).with_columns(p=expr).to_native()
        check(read(made, "p"), law, nulls=has_nulls(engine))


# ── names and refusals ──────────────────────────────────────────────────────────────────────────────

NAMES = ['a"b', "a.b", "a b", "ß→é", "*", "^a.*$", "a`b", "a'b", "select", "a{b}", "a\\b", "%s"]


@each_engine
def test_names_are_data(engine):
    calibrator, _ = fitted("platt")
    make, read = ENGINES[engine]
    frame = make({name: [0.1 + i / 20] for i, name in enumerate(NAMES)})
    for i, name in enumerate(NAMES):
        made = apply(frame, calibrator, score=name, name=f"{name} new")
        assert nw.from_native(made).collect_schema().names() == [*NAMES, f"{name} new"]
        check(read(made, f"{name} new"), calibrator.calibrate([0.1 + i / 20]))


def test_names_in_expressions_are_data():
    calibrator, _ = fitted("platt")
    for engine in ("polars lazy", "duckdb", "pandas"):
        make, read = ENGINES[engine]
        frame = nw.from_native(make({n: [0.1 + j / 20] for j, n in enumerate(NAMES)}))
        for i, name in enumerate(NAMES):
            if (engine, name) == ("duckdb", "*"):  # narwhals takes it for all columns; apply() does not
                continue
            made = frame.select(calibrator.to_expr(name).alias("p")).to_native()
            check(read(made, "p"), calibrator.calibrate([0.1 + i / 20]))


@each_engine
def test_other_columns_and_order_stay(engine):
    """Names that the intermediate columns would take, and rows out of order."""
    calibrator, _ = fitted("isotonic")
    make, read = ENGINES[engine]
    rows = {"scoreprism_0": [3.0, 1.0, 2.0], "s": [0.9, 0.1, 0.5], "Scoreprism_1": [6.0, 5.0, 4.0]}
    made = apply(make(rows), calibrator, score="s")
    for name, values in rows.items():
        assert read(made, name) == values
    check(read(made, "calibrated"), calibrator.calibrate(rows["s"]))


def test_integers_single_precision_and_index():
    calibrator, _ = fitted("isotonic")
    frame = pd.DataFrame({"s": np.array([0, 1, 1], dtype="int8")}, index=[7, 7, 3])
    made = apply(frame, calibrator, score="s")
    assert made.index.tolist() == [7, 7, 3]
    assert "calibrated" not in frame
    np.testing.assert_allclose(made["calibrated"], calibrator.calibrate([0.0, 1.0, 1.0]), rtol=0)
    half = np.array([0.1, 0.7], dtype=np.float32)
    for frame in (pl.LazyFrame({"s": half}), duckdb.from_arrow(pa.table({"s": half}))):
        found = nw.from_native(apply(frame, calibrator, score="s")).collect("pyarrow")["calibrated"].to_numpy()
        np.testing.assert_allclose(found, calibrator.calibrate(half.astype(float)), rtol=0, atol=1e-12)


@each_engine
def test_no_rows(engine):
    make, read = ENGINES[engine]
    frame = nw.from_native(make({"s": [0.5]})).filter(nw.col("s") > 1).to_native()
    assert read(apply(frame, fitted("platt")[0], score="s"), "calibrated") == []


def test_many_steps_at_their_edges():
    """Every cut, and the floats beside it: a search through lists finds the piece that numpy finds."""
    rng = np.random.default_rng(1)
    s = rng.random(2000)
    calibrator = VennAbersCalibrator().fit(s, rng.random(2000) < s)
    starts = calibrator.map_.merged.curve.starts
    assert starts.size > 64
    values = np.concatenate([starts, np.nextafter(starts, 0), np.nextafter(starts, 1)]).clip(0, 1)
    make, read = ENGINES["duckdb"]
    found = read(apply(make({"s": values.tolist()}), calibrator, score="s"), "calibrated")
    np.testing.assert_array_equal(found, calibrator.calibrate(values))


def test_neighbouring_floats_as_knots():
    """A slope between them would be infinite: to_sql could not write it."""
    calibrator = IsotonicCalibrator(interpolation="linear").fit([0.0, 5e-324, 0.5, 1.0] * 9, [0, 1, 1, 1] * 9)
    values = [0.0, 5e-324, 1e-323, 0.3]
    frame = as_duckdb({"s": values})
    found = frame.project(f"{calibrator.to_sql('s')} AS p").to_arrow_table()["p"].to_pylist()
    check(found, calibrator.calibrate(values))


@each_engine
def test_refusals(engine):
    make, _ = ENGINES[engine]
    frame, (calibrator, _) = make({"score": [0.5], "Calibrated": [0.5]}), fitted("platt")
    cases = [
        ({"score": "scor"}, "score must name a column of the data; got 'scor'. Did you mean 'score'? There are score, Calibrated."),
        ({"score": "score", "name": "score"}, "name must be new to the frame; got 'score' beside the column 'score'. Pass another name=."),
        ({"score": "score"}, "name must be new to the frame; got 'calibrated' beside the column 'Calibrated'. Pass another name=."),
        ({"score": "score", "name": ""}, "name must be the name of the new column; got ''. For example 'calibrated'."),
    ]  # fmt: skip
    for options, message in cases:
        with pytest.raises(InputError) as error:
            apply(frame, calibrator, **options)
        assert str(error.value) == message


def test_what_cannot_be_applied():
    frame = pl.LazyFrame({"s": [0.5], "word": ["0.5"]})
    calibrator, _ = fitted("platt")
    with pytest.raises(
        InputError, match=r"^score must hold numbers; got column 'word' of type String\. Cast it to a number"
    ):
        apply(frame, calibrator, score="word")
    with pytest.raises(InputError, match=r"^frame must be a dataframe narwhals knows; got list\."):
        apply([0.5], calibrator, score="s")
    with pytest.raises(InputError, match=r"^calibrator must be a fitted calibrator; got str\."):
        apply(frame, "platt", score="s")
    with pytest.raises(ValueError, match="not fitted"):
        apply(frame, PlattCalibrator(), score="s")
    rng = np.random.default_rng(0)
    law = rng.dirichlet([1, 1, 1], 60)
    three = TemperatureCalibrator().fit(law, np.arange(60) % 3)
    rule = "must be called on a map of one score and two classes; got 3 columns and 3 classes. "
    for who, call in (("apply", lambda: apply(frame, three, score="s")), ("to_expr", lambda: three.to_expr("s"))):
        with pytest.raises(InputError) as error:
            call()
        assert str(error.value) == f"{who} {rule}Fit on one column, or apply the map in Python."
    with pytest.raises(InputError, match="column must be the name of a column; got ''"):
        calibrator.to_expr("")


def test_narwhals_frames_come_back_as_such():
    calibrator, _ = fitted("platt")
    for frame in (nw.from_native(pl.LazyFrame({"s": [0.5]})), nw.from_native(pl.DataFrame({"s": [0.5]}))):
        assert type(apply(frame, calibrator, score="s")) is type(frame)


def test_polars_streams():
    """The plan of a lazy frame stays elementwise: nothing in it needs all rows at once."""
    calibrator = BinningCalibrator().fit(*sample())
    plan = apply(pl.LazyFrame({"s": [0.5] * 10}), calibrator, score="s").filter(pl.col("s") > 0.4)
    # a predicate is pushed below an elementwise column only
    assert plan.explain().index("WITH_COLUMNS") < plan.explain().index("FILTER")


@pytest.mark.engines
def test_spark():
    """Spark for real, local[2]: every map in one plan each; names with dots and backticks, too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark 4.3 warns of pandas 3
        settings = {
            "spark.ui.enabled": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
        }
        spark = spark_or_skip().builder.master("local[2]").config(map=settings).getOrCreate()
        try:
            for name in CALIBRATORS:
                calibrator, x = fitted(name)
                values = scores_of("probability", x)
                frame = spark.createDataFrame([(v,) for v in values], "`a.b``c d` double")
                made = apply(frame, calibrator, score="a.b`c d", name="new.`one")
                assert made.columns == ["a.b`c d", "new.`one"]
                check([row[1] for row in made.collect()], expected(calibrator, values))
            with pytest.raises(InputError, match="beside the column"):
                apply(frame, calibrator, score="a.b`c d", name="A.B`C D")
        finally:
            spark.stop()


# ── where a map comes from ──────────────────────────────────────────────────────────────────────────


def named_map():
    s, y = sample()
    return PlattCalibrator().fit(pl.Series("p", s), y)


@pytest.mark.parametrize("engine", ["polars", "polars lazy", "duckdb", "pandas"])
def test_a_score_of_another_name_is_refused(engine):
    make, read = ENGINES[engine]
    frame = make({"p": [0.5], "other": [0.5]})
    assert read(apply(frame, named_map(), score="p"), "calibrated") == [named_map().calibrate([0.5])[0]]
    with pytest.raises(InputError) as error:
        apply(frame, named_map(), score="other")
    assert str(error.value) == (
        "the map must be applied to the score it was fitted on, 'p'; got 'other'. Correct score=, or pass any_score=True "
        "if it is the same score under another name."
    )
    found = read(apply(frame, named_map(), score="other", any_score=True), "calibrated")
    assert found == pytest.approx(named_map().calibrate([0.5]), abs=1e-12)
    with pytest.raises(InputError, match="any_score must be True or False; got 1. Pass one of them."):
        apply(frame, named_map(), score="p", any_score=1)


@pytest.mark.filterwarnings("error")
def test_scores_outside_of_the_range_are_counted():
    """Of the six, 0.1 and 0.9 are beyond the scores of the fit; None and 1.5 are no scores at all."""
    fitted = PlattCalibrator().fit([0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1])
    frame = pl.DataFrame({"p": [0.1, 0.2, 0.8, 0.9, None, 1.5]})
    with pytest.warns(ScoreprismWarning) as caught:
        apply(frame, fitted, score="p")
    assert [str(one.message) for one in caught] == [
        "2 of 6 scores are outside the range that the map was fitted on, 0.2 to 0.8: it extrapolates."
    ]
    assert caught[0].filename == __file__
    apply(frame.head(3).tail(2), fitted, score="p")
    apply(frame.lazy(), fitted, score="p")
