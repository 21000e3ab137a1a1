"""A fitted map inside an engine: `Calibrator.to_expr` and `scale.apply` give what `calibrate` gives."""

from __future__ import annotations

import sys

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
from scoreprism.exceptions import InputError
from scoreprism.scale import apply

#: Scores at the ends of the range and just inside, ties, and what is not a score.
INSIDE = [0.0, 1.0, 5e-324, 1e-300, 1 - 2**-53, 0.5, 0.5, 0.25, 0.999, 1e-9]
OUTSIDE = [None, float("nan"), -0.1, 1.5, float("inf"), -float("inf"), -5e-324, 1 + 2**-52]
LOGITS = [0.0, -800.0, 800.0, 1e308, -1e308, sys.float_info.max, 5e-324, -3.0, -3.0, 20.0]


def sample(n=400, seed=0):
    """Rounded scores: ties among them, and some that are exactly 0 or 1."""
    rng = np.random.default_rng(seed)
    s = np.round(rng.beta(1.0, 1.5, n), 2)
    return s, (rng.random(n) < 0.05 + 0.8 * s**1.5).astype(int)


def fitted(name, kind="probability"):
    s, y = sample()
    x = s if kind == "probability" else np.log((s + 0.01) / (1.01 - s))
    return get_calibrator(name, kind=kind).fit(x, y), x


def column(x, inside, outside):
    """Scores seen in the fit, special ones and strangers, as a list with None."""
    return [*np.unique(x).tolist(), *inside, *outside]


def check(found, values, calibrator, low, high, atol=1e-12):
    """Equal to calibrate() where there is a score, nothing elsewhere; brute force on the rows."""
    assert len(found) == len(values)
    for got, score in zip(found, values, strict=True):
        if score is None or not low <= score <= high:
            assert got is None or np.isnan(got), score
        else:
            # calibrate() refuses logits beyond 1e15, the map itself does not
            law = calibrator.calibrate([score]) if abs(score) <= 1e15 else calibrator.map_(np.array([score]))
            assert got == pytest.approx(law[0], rel=0, abs=atol), score


def as_duckdb(data):
    return duckdb.connect().from_arrow(pa.table({name: pa.array(v, pa.float64()) for name, v in data.items()}))


def as_ibis(data):
    import ibis

    return ibis.memtable(pa.table({name: pa.array(v, pa.float64()) for name, v in data.items()}))


def as_dask(data):
    import dask.dataframe as dd

    return dd.from_pandas(pd.DataFrame(data, dtype=float), npartitions=3)


#: How a frame of each engine is made, and a column of it read.
ENGINES = {
    "polars": (lambda d: pl.DataFrame(d, strict=False), lambda f, c: f[c].to_list()),
    "polars lazy": (lambda d: pl.LazyFrame(d, strict=False), lambda f, c: f.collect(engine="streaming")[c].to_list()),
    "duckdb": (as_duckdb, lambda f, c: f.to_arrow_table()[c].to_pylist()),
    "dask": (as_dask, lambda f, c: f.compute()[c].tolist()),
    "ibis": (as_ibis, lambda f, c: f.to_pyarrow()[c].to_pylist()),
    "pandas": (lambda d: pd.DataFrame(d, dtype=float), lambda f, c: f[c].tolist()),
    "pandas nullable": (lambda d: pd.DataFrame(d, dtype="Float64"), lambda f, c: f[c].tolist()),
    "pyarrow": (lambda d: pa.table(d), lambda f, c: f[c].to_pylist()),
}
each_engine = pytest.mark.parametrize("engine", ENGINES)


@pytest.mark.parametrize("name", CALIBRATORS)
@pytest.mark.parametrize("kind", ["probability", "logit"])
def test_every_map_gives_the_same_numbers_in_every_engine(name, kind):
    calibrator, x = fitted(name, kind)
    if kind == "probability":
        values, limits = column(x, INSIDE, OUTSIDE), (0.0, 1.0)
    else:
        values, limits = (
            column(x, LOGITS, [None, float("nan"), float("inf"), -float("inf")]),
            (-1.8e308, 1.7976931348623157e308),
        )
    for engine, (make, read) in ENGINES.items():
        if kind == "logit" and engine not in ("polars lazy", "duckdb"):
            continue
        frame = make({"s": values})
        made = apply(frame, calibrator, score="s")
        assert type(made) is type(frame), engine
        check(read(made, "calibrated"), values, calibrator, *limits)


@pytest.mark.parametrize("name", CALIBRATORS)
def test_expressions_give_the_same_numbers(name):
    calibrator, x = fitted(name)
    values = column(x[:20], INSIDE, OUTSIDE)
    expr = calibrator.to_expr("s")
    for engine in ("polars", "polars lazy", "duckdb", "pandas", "pyarrow"):
        make, read = ENGINES[engine]
        made = nw.from_native(make({"s": values})).with_columns(p=expr).to_native()
        check(read(made, "p"), values, calibrator, 0.0, 1.0)
