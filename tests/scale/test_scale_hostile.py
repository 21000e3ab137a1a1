"""What users do to scale: names that are patterns, files named twice, sums that were edited, times with zones."""

import json

import numpy as np
import polars as pl
import pytest

from scoreprism import scale
from scoreprism.exceptions import InputError, ScoreOrderWarning


def rows(n=600, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    hours = np.datetime64("2026-01-31T20:00:00", "us") + np.arange(n) * np.timedelta64(60, "s")
    return pl.DataFrame({
        "y": (rng.random(n) < p).astype(int), "p": p, "w": 1.0 + rng.random(n), "side": np.where(p < 0.4, "l", "r"),
        "at": pl.Series(hours).dt.replace_time_zone("UTC").dt.convert_time_zone("America/New_York"),
    })  # fmt: skip


ROWS = rows()


def summed(data, **options):
    return scale.aggregate(data, **{"target": "y", "score": "p", "cells": 16, **options})


def same(first, second):
    """Cells and counts to the last bit; sums as promised, because threads add in any order."""
    assert first.table.keys() == second.table.keys()
    for name, column in first.table.items():
        exact = name in ("key", "y", "n", "lo", "hi", "segment", "fold")
        np.testing.assert_allclose(column, second.table[name], rtol=0.0 if exact else 1e-9)


@pytest.mark.parametrize("name", ["*", "^p$", "^.*$", "^w.*$"])
def test_names_that_polars_reads_as_patterns_are_names(name):
    """^p$ beside p was read as p: a silent wrong number."""
    other = ROWS.with_columns(p=1.0 - pl.col("p")).with_columns(ROWS["p"].alias(name))
    same(summed(other, score=name), summed(ROWS))
    weighted = ROWS.with_columns(w=pl.lit(3.0)).with_columns(ROWS["w"].alias(name))
    same(summed(weighted, sample_weight=name), summed(ROWS, sample_weight="w"))
    parts = summed(ROWS.rename({"side": name}).lazy(), segments=name)
    assert parts.segments == (("l",), ("r",))


def test_a_segment_column_may_be_called_self():
    found = scale.decompose(ROWS.rename({"side": "self"}), target="y", score="p", segments="self", loss="brier")
    assert set(found.segments.decompositions) == {"l", "r"}


def test_words_are_no_labels_of_booleans():
    """'False' was taken for True."""
    data = ROWS.with_columns(y=pl.col("y") == 1)
    with pytest.raises(InputError, match=r"got 'False' for a column of booleans. Pass True or False"):
        summed(data, pos_label="False")
    same(summed(data, pos_label=True), summed(ROWS))


def test_a_label_of_numpy_goes_into_json():
    partial = summed(ROWS, pos_label=np.int64(1))
    assert scale.Sums.from_json(partial.to_json()).settings.pos_label == 1


def test_rows_of_a_file_that_is_named_twice_count_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ROWS.write_parquet("a.parquet")
    (tmp_path / "link.parquet").symlink_to("a.parquet")
    assert summed(["a.parquet", "./a.parquet", "*.parquet", str(tmp_path)]).n == ROWS.height


@pytest.mark.parametrize("path", ["", "x" * 5000])
def test_paths_that_name_nothing(path):
    with pytest.raises(InputError, match="must name files that exist|must hold paths"):
        summed(path)


def test_a_list_of_frames_is_refused():
    with pytest.raises(InputError, match="a list of data must hold paths; got DataFrame"):
        summed([ROWS, ROWS])


def test_a_plan_that_does_not_hold_is_told_in_our_words():
    with pytest.raises(
        InputError, match="the engine must be able to read the data; got an error of its own: unable to find column"
    ):
        summed(ROWS.lazy().with_columns(z=pl.col("nope")))


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (ValueError("unable to find column interrupt_flag"), InputError),
        (RuntimeError("INTERRUPT Error: Interrupted!"), KeyboardInterrupt),  # what DuckDB raises at Ctrl-C
        (RuntimeError("Query interrupted"), KeyboardInterrupt),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
    ids=repr,
)
def test_only_an_interruption_is_one(error, raised, monkeypatch):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(pl.LazyFrame, "collect", fail)
    with pytest.raises(raised, match="interrupt_flag" if raised is InputError else None):
        summed(ROWS.lazy())


def test_weights_without_a_fourth_power_are_refused():
    with pytest.raises(InputError, match="sample_weight 'w' must be 0, or large enough for a fourth power"):
        summed(ROWS.with_columns(w=pl.lit(1e-300)), sample_weight="w")


def test_clip_of_one_half_leaves_no_spread():
    found = scale.decompose(ROWS, target="y", score="p", clip=0.5, loss="brier", cells=16)
    assert found.terms["reliability"] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("year", [-5, 30000])
def test_weeks_of_any_year(year):
    data = ROWS.with_columns(at=pl.date(year, 1, 5))
    assert len(summed(data, time="at", period="week").periods) == 1


def test_infinite_segments_go_into_json():
    data = ROWS.with_columns(side=pl.when(pl.col("p") < 0.5).then(float("-inf")).otherwise(1.5))
    partial = summed(data, segments="side")
    assert scale.Sums.from_json(partial.to_json()).segments == partial.segments == ((1.5,), ("-inf",))


@pytest.mark.parametrize("engine", ["polars", "pandas", "arrow", "duckdb"])
def test_times_with_a_zone_are_in_utc_in_every_engine(tmp_path, engine):
    """Rows from 15:00 of 31 January in New York: 20:00 in UTC, so that February starts after four hours."""
    data = {"polars": lambda: ROWS, "pandas": ROWS.to_pandas, "arrow": ROWS.to_arrow}.get(engine)
    if data is None:
        pytest.importorskip("duckdb")
        ROWS.write_parquet(tmp_path / "zone.parquet")
        partial = summed(tmp_path / "zone.parquet", time="at", engine="duckdb")
    else:
        partial = summed(data(), time="at")
    assert {label: partial.select(at=label).n for label in partial.periods} == {"2026-01": 240, "2026-02": 360}


def edited(path, change):
    def edit(data):
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = change(data[path[-1]])

    return edit


EDITS = {
    "table": edited(["table"], lambda _: []),
    "absent": edited(["absent"], lambda _: -5),
    "absent infinite": edited(["absent"], lambda _: float("inf")),
    "cells": edited(["settings", "cells"], lambda _: 32),
    "clip": edited(["settings", "clip"], lambda _: "a"),
    "levels": edited(["settings", "levels"], lambda _: ["S", "Q"]),
    "no segments": edited(["settings", "segments"], lambda _: []),
    "losses": edited(["settings", "losses"], lambda losses: losses[::-1]),
    "weights": edited(["settings", "sample_weight"], lambda _: "w"),
    "one segment twice": edited(["segments"], lambda keys: [keys[0]] * len(keys)),
    "lists": edited(["segments"], lambda keys: [[["a"]] for _ in keys]),
    "counts": edited(["table", "n"], lambda n: [10 * k for k in n]),
    "parts of rows": edited(["table", "n"], lambda n: [k + 0.5 for k in n]),
    "too many rows": edited(["table", "n"], lambda n: [2**70 for _ in n]),
    "columns in columns": edited(["table", "n"], lambda n: [[k] for k in n]),
    "cells of others": edited(["table", "key"], lambda key: key[::-1]),
    "scores": edited(["table", "s"], lambda s: [-k for k in s]),
    "losses below 0": edited(["table", "a00"], lambda a: [-k for k in a]),
    "no second moments": lambda data: data["table"].pop("s2"),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_edited_sums_are_refused(edit):
    data = json.loads(summed(ROWS, segments="side").to_json())
    assert scale.Sums.from_json(json.dumps(data)).n == ROWS.height
    edit(data)
    with pytest.raises(InputError, match="the parts of the sums must fit together|must be|must hold finite numbers"):
        scale.Sums.from_json(json.dumps(data))


def test_json_that_is_too_deep():
    with pytest.raises(InputError, match="the sums must have at most 48 levels"):
        scale.Sums.from_json("[" * 200_000)


@pytest.mark.parametrize("cells", [16, 1024])
def test_a_score_of_the_other_class_is_said(cells):
    """As `decompose` says it of rows."""
    data = ROWS.with_columns(p=1.0 - pl.col("p"))
    with pytest.warns(ScoreOrderWarning, match="lower where it occurs"):
        scale.decompose(data, target="y", score="p", loss="brier", cells=cells)


def test_columns_of_one_name_are_refused():
    data = ROWS.to_pandas().rename(columns={"w": "p"})
    with pytest.raises(InputError, match="columns must have names of their own"):
        summed(data)
