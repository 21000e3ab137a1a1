"""The border of scoreprism.scale: types, names and files of all kinds, and what is said when they cannot be read."""

from __future__ import annotations

import datetime as dt
import decimal
import importlib
import re

import polars as pl
import pytest

from scoreprism import scale
from scoreprism.exceptions import InputError, LabelError

pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword:Warning")  # Dask under pandas 3

BASE = pl.DataFrame(
    {"y": [0, 1, 0, 1, 1, 0], "s": [0.1, 0.8, 0.3, 0.6, 0.7, 0.2], "g": ["a", "b", None, "a", "b", "a"]}
)
ENGINES = ["polars", "pandas", "arrow-pandas", "pyarrow", "duckdb", "ibis", "dask"]


def brought(frame: pl.DataFrame, engine: str):
    if engine == "pyarrow":
        return frame.to_arrow()
    if engine == "duckdb":
        return pytest.importorskip("duckdb").from_arrow(frame.to_arrow())
    if engine == "ibis":
        return pytest.importorskip("ibis").memtable(frame.to_arrow())
    if engine == "polars":
        return frame.lazy()
    pytest.importorskip("pandas")
    if engine == "dask":
        return pytest.importorskip("dask.dataframe").from_pandas(frame.to_pandas(), npartitions=2)
    return frame.to_pandas(use_pyarrow_extension_array=engine == "arrow-pandas")


def changed(**columns) -> pl.DataFrame:
    return BASE.with_columns(**columns)


def message_of(data, kind: type[Exception] = InputError, **options) -> str:
    with pytest.raises(kind) as caught:
        scale.aggregate(data, **{"target": "y", "score": "s", **options})
    assert caught.value.__suppress_context__ or caught.value.__context__ is None  # no wall of an engine above it
    return str(caught.value)


# ── refusals, the same in every engine ──────────────────────────────────────────────────────────────

OUT = "If these are percentages, divide by 100; logits go through a sigmoid or a softmax first."
NAN, INF = float("nan"), float("inf")


def number_with(value: float | None) -> pl.Series:
    return pl.Series([0.1, value, 0.3, 0.4, 0.4, 0.4], dtype=pl.Float64)


REFUSED = {
    "score above": (
        changed(s=number_with(55.0)), {},
        f"score 's' must hold probabilities from 0 to 1; got 55 in 1 of 6 rows. {OUT}",
    ),
    "score inf": (
        changed(s=number_with(INF)), {},
        f"score 's' must hold probabilities from 0 to 1; got inf in 1 of 6 rows. {OUT}",
    ),
    "score NaN": (
        changed(s=number_with(NAN)), {},
        "score 's' must hold probabilities from 0 to 1; got missing in 1 of 6 rows. Drop these rows, or fill them.",
    ),
    "q missing": (
        changed(q=number_with(None)), {"q": "q"},
        "q 'q' must hold probabilities from 0 to 1; got missing in 1 of 6 rows. Drop these rows, or fill them.",
    ),
    "weight": (
        changed(w=number_with(-0.5)), {"sample_weight": "w"},
        ("sample_weight 'w' must be from 0 to 1e+70, whose fourth power can be summed; got -0.5 in 1 of 6 rows. "
        "Drop these rows, or multiply all weights by the same number."),
    ),
    "fold": (
        changed(f=pl.Series([1.0, NAN, 1, 2, 2, 2])), {"fold_column": "f"},
        "fold_column 'f' must not be missing; got 1 of 6 rows without one. Drop these rows, or give them a fold.",
    ),
    "key": (
        changed(f=pl.Series(["1"] * 6)), {"fold_key": "f"},
        ("fold_key must be a column of whole numbers, which every engine hashes alike; got 'f' of type String. "
         "Make a column of folds in the engine and pass it as fold_column."),
    ),
    "target missing": (
        changed(y=pl.Series([0.0, None, 0, 1, 1, 0])), {},
        ("target 'y' must be 0 or 1 (or −1 or 1, or boolean) in every row; got missing in 1 of 6 rows. "
         "Drop rows without an outcome."),
    ),
    "target 1 and 2": (
        changed(y=pl.col("y") + 1), {},
        ("target 'y' must be 0 or 1 (or −1 or 1, or boolean) in every row; got 2 in 3 of 6 rows. "
         "Pass pos_label= for other labels."),
    ),
    "three numbers": (
        changed(y=pl.Series([-1, 0, 1, 1, 0, 1])), {},
        "target 'y' must hold two labels; got 1, -1, 0. Filter the rows, or make a column of 0 and 1.",
    ),
    "three words": (
        changed(y=pl.Series(["no", "yes", "maybe", "yes", "no", "no"])), {"pos_label": "yes"},
        "target 'y' must hold two labels; got 'yes', 'maybe', 'no'. Filter the rows, or make a column of 0 and 1.",
    ),
    "words": (
        changed(y=pl.Series(["no", "yes"] * 3)), {},
        ("pos_label must name the positive class, unless labels are 0 and 1, −1 and 1, or booleans; "
         "got a target of type String. For example pos_label='yes'."),
    ),
    "text": (
        changed(s=pl.col("s").cast(pl.String)), {},
        "score must hold numbers; got column 's' of type String. Cast it to a number first.",
    ),
    "no such column": (
        BASE.rename({"s": "score_2026"}), {"score": "scores_2026"},
        "score must name a column of the data; got 'scores_2026'. Did you mean 'score_2026'? There are y, score_2026, g.",
    ),
    "two roles": (BASE, {"segments": "y"}, "every column must have one role; got 'y' in several. Name another column."),
    "no rows": (BASE.head(0), {}, "data must hold rows with weight; got 0 rows. Check the filter, or the weights."),
    "no weight": (
        changed(w=pl.lit(0.0)), {"sample_weight": "w"},
        "data must hold rows with weight; got 6 rows, all of weight 0. Check the filter, or the weights.",
    ),
    "identifiers": (
        pl.DataFrame({"y": [0, 1] * 10_500, "s": [0.5] * 21_000, "g": [f"c{i}" for i in range(21_000)]}), {"segments": "g"},
        ("segments, time and fold_column must make at most 20,000 groups; got more from 'g'. "
         "Use coarser columns; identifiers are no segments (fold_key= deals them to folds)."),
    ),
}  # fmt: skip


IN_DASK = {"score above", "fold", "target missing", "three words", "no such column"}  # each takes a second or two there


@pytest.mark.parametrize(
    ("engine", "case"), [(e, case) for e in ENGINES for case in REFUSED if e != "dask" or case in IN_DASK]
)
def test_refusals(engine, case):
    frame, options, text = REFUSED[case]
    kind = LabelError if "target '" in text else InputError
    assert message_of(brought(frame, engine), kind, **options) == text


# ── types and names ─────────────────────────────────────────────────────────────────────────────────

TYPES = {
    "float32": {"s": pl.col("s").cast(pl.Float32)},
    "int8": {"y": pl.col("y").cast(pl.Int8)},
    "uint8": {"y": pl.col("y").cast(pl.UInt8)},
    "boolean": {"y": pl.col("y") == 1},
    "minus": {"y": 2 * pl.col("y") - 1},
    "categorical": {"g": pl.col("g").cast(pl.Categorical)},
    "enum": {"g": pl.col("g").cast(pl.Enum(["a", "b", "unused"]))},
}


@pytest.mark.parametrize(
    ("engine", "case"), [(e, case) for e in ENGINES for case in TYPES if e != "dask" or case in ("boolean", "enum")]
)
def test_types(engine, case):
    found = scale.aggregate(brought(changed(**TYPES[case]), engine), target="y", score="s", segments="g")
    assert found.segments == (("a",), ("b",), (None,))
    assert {g: found.select(g=g).n for g in ("a", "b", None)} == {"a": 3, "b": 2, None: 1}
    assert found.table["n"][found.table["y"] == 1].sum() == 3
    assert sorted(found.table["key"]) == pytest.approx(sorted(BASE["s"]), rel=1e-6)  # float32 has seven digits


@pytest.mark.parametrize("label", ["yes", 2])
@pytest.mark.parametrize("engine", ENGINES)
def test_other_labels(engine, label):
    other = "no" if label == "yes" else 1
    frame = changed(y=pl.Series([label if y else other for y in BASE["y"]]))
    found = scale.aggregate(brought(frame, engine), target="y", score="s", pos_label=label)
    assert found.table["key"][found.table["y"] == 1].tolist() == [0.6, 0.7, 0.8]


def test_objects_of_pandas():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "y": pd.array([True, False, True], dtype=object),
            "s": [decimal.Decimal("0.25"), decimal.Decimal("0.5"), decimal.Decimal("0.5")],
            "g": pd.array(["a", None, "b"], dtype=object),
            "t": [dt.date(2026, 1, 31), dt.date(2026, 2, 1), None],
        }
    )
    found = scale.aggregate(frame, target="y", score="s", segments="g", time="t")
    assert found.segments == (("a", "2026-01"), ("b", None), (None, "2026-02"))
    mixed = frame.assign(g=pd.array(["a", 1, 2.5], dtype=object))
    assert message_of(mixed, segments="g").startswith("columns must hold values of one type; got an error of its own: ")


@pytest.mark.parametrize("engine", ENGINES)
def test_any_name_is_a_name(engine):
    names = ['a "quoted" name', "dots.in.it", "with space", "`ticks`", "ünï", "key", "law0"]
    if engine != "dask":
        names = ["sum_w", *names[:5], "key"]
    target, score, q, w, g, fold, t = names
    frame = pl.DataFrame({target: BASE["y"], score: BASE["s"], q: BASE["s"], w: [1.0, 2, 1, 1, 1, 1], g: BASE["g"]})
    frame = frame.with_columns(pl.Series(fold, [1, 1, 1, 2, 2, 2]), pl.Series(t, [1] * 6))
    found = scale.aggregate(
        brought(frame, engine), target=target, score=score, q=q, sample_weight=w, segments=g, fold_column=fold, time=t
    )
    assert (found.n, found.table["w"].sum(), len(found.segments), found.folds) == (6, 7.0, 3, (1, 2))


def test_one_class_is_refused_when_laws_are_fitted():
    one = BASE.with_columns(y=pl.lit(1))
    with pytest.raises(InputError, match=re.escape("the target must hold both outcomes; got only 1. Pass more rows.")):
        scale.decompose(one, target="y", score="s")


def test_a_list_is_no_label():
    frame = changed(g=pl.Series([[1], [2]] * 3))
    text = "segments must hold labels; got column 'g' of type List(Int64). Name another column."
    assert message_of(frame, segments="g") == text


# ── files ───────────────────────────────────────────────────────────────────────────────────────────


def test_paths_that_name_nothing(tmp_path):
    text = "a path must name files that exist; got 'nothing/*.parquet', which matches none. Check the path or the glob."
    assert message_of("nothing/*.parquet") == text
    text = f"a folder must hold files to read; got {str(tmp_path)!r}, which has none. They end in .parquet, .pq, .csv, .tsv."
    assert message_of(tmp_path) == text
    assert message_of([]) == "a path must name files that exist; got an empty list. Pass one path or more."


def test_endings_are_not_mixed(tmp_path):
    BASE.write_parquet(tmp_path / "a.parquet")
    BASE.write_csv(tmp_path / "b.csv")
    text = "files must all be of one kind, ending in .parquet, .pq, .csv, .tsv; got '.csv', '.parquet'. "
    assert message_of(tmp_path) == text + "Convert other files, or pass a frame."


def test_unfinished_files_are_passed_over(tmp_path):
    for name in ("part-0.parquet", "_temporary/0/part-1.parquet", ".part-2.parquet"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        BASE.write_parquet(tmp_path / name)
    assert scale.aggregate(tmp_path, target="y", score="s").n == 6


@pytest.mark.parametrize("engine", ["polars", "duckdb", "dask"])
def test_a_broken_file(tmp_path, engine):
    pytest.importorskip(engine)
    whole = tmp_path / "whole.parquet"
    BASE.write_parquet(whole)
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(whole.read_bytes()[:-20])
    text = message_of(broken, engine=engine)
    assert text.startswith("files must be readable by the engine; got an error of its own: ")
    assert text.endswith(" Check the files, or read them with it and pass the frame.")
    assert "\n" not in text


def test_files_that_differ_are_named(tmp_path):
    BASE.write_parquet(tmp_path / "a.parquet")
    BASE.drop("g").write_parquet(tmp_path / "b.parquet")
    text = f"segments must name a column of the data; got 'g'. There are y, s. This is about the file {str(tmp_path / 'b.parquet')!r}."
    assert message_of(tmp_path, segments="g") == text
    changed(g=pl.Series(range(6))).write_parquet(tmp_path / "b.parquet")
    text = "a column must have the same type in all files; got 'g' with words in some and numbers in others. "
    assert message_of(tmp_path, segments="g").startswith(text)
    changed(y=pl.Series(["no", "yes"] * 3)).write_parquet(tmp_path / "a.parquet")
    changed(y=pl.Series(["never", "yes"] * 3)).write_parquet(tmp_path / "b.parquet")
    text = "target 'y' must hold two labels; got 'yes', 'never', 'no'. "
    assert message_of(tmp_path, LabelError, pos_label="yes").startswith(text)


def test_text_whose_types_change_late(tmp_path):
    lines = [f"{i % 2},1,{i % 3}" for i in range(20_000)]
    file = tmp_path / "late.csv"
    file.write_text("\n".join(["y,s,g", *lines, "1,0.5,0", "0,0.25,0"]))
    found = scale.aggregate(file, target="y", score="s", segments="g")
    assert (found.n, sorted(set(found.table["key"]))) == (20_002, [0.25, 0.5, 1.0])
    file.write_text("\n".join(["y,s,g", *lines, "1,1,north", "1,high,0"]))
    text = "score must hold numbers; got column 's' of type String. Cast it to a number first."
    assert message_of(file) == text
    file.write_text("\n".join(["y,s,g", *lines, "1,1,north"]))
    assert scale.aggregate(file, target="y", score="s", segments="g").segments == (("0",), ("1",), ("2",), ("north",))


def test_tabs(tmp_path):
    BASE.write_csv(tmp_path / "a.tsv", separator="\t")
    assert scale.aggregate(tmp_path / "a.tsv", target="y", score="s", segments="g").segments == (
        ("a",),
        ("b",),
        (None,),
    )


@pytest.mark.parametrize("engine", ["duckdb", "dask"])
def test_engines_that_guess_types_get_no_text(tmp_path, engine):
    pytest.importorskip(engine)
    BASE.write_csv(tmp_path / "a.csv")
    text = f"engine '{engine}' must get Parquet files; got CSV, whose types it guesses from the first rows. "
    assert message_of(tmp_path, engine=engine) == text + "Use engine='polars', or convert the files."


@pytest.mark.parametrize("engine", ["polars", "duckdb", "dask"])
def test_columns_written_as_folders(tmp_path, engine):
    pytest.importorskip(engine)
    for year, month, region in ((2025, "12", "7"), (2026, "01", "east"), (2026, "02", "east")):
        folder = tmp_path / f"year={year}" / f"month={month}" / f"region={region}"
        folder.mkdir(parents=True)
        BASE.drop("g").write_parquet(folder / "part-0.parquet")
    found = scale.aggregate(tmp_path, target="y", score="s", segments=["year", "month", "region"], engine=engine)
    assert found.segments == ((2025, 12, "7"), (2026, 1, "east"), (2026, 2, "east"))
    assert found.n == 18


# ── engines that are not there ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("engine", "module"), [("spark", "pyspark"), ("dask", "dask"), ("duckdb", "duckdb")])
def test_a_missing_engine(monkeypatch, tmp_path, engine, module):
    BASE.write_parquet(tmp_path / "a.parquet")

    def without(name, *args, _import=importlib.import_module, **kwargs):
        if name.split(".")[0] == module:
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)
        return _import(name, *args, **kwargs)

    monkeypatch.setattr(importlib, "import_module", without)
    text = f"engine '{engine}' must be installed; got No module named '{module}'. "
    text += f"Run: python -m pip install 'scoreprism[{engine}]', or use engine='polars', which is always there."
    assert message_of(tmp_path / "a.parquet", engine=engine) == text


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
def test_spark_without_java(monkeypatch, tmp_path):
    sql = pytest.importorskip("pyspark.sql")
    BASE.write_parquet(tmp_path / "a.parquet")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr(sql.SparkSession, "getActiveSession", staticmethod(lambda: None))
    text = "engine 'spark' must have a Java runtime; got no java on the path and no JAVA_HOME. "
    assert (
        message_of(tmp_path / "a.parquet", engine="spark") == text + "Install Java 17 or newer, or use engine='polars'."
    )


def test_an_engine_for_a_frame():
    text = "engine must be left out for a frame; got 'duckdb' and a frame of polars. It has its own."
    assert message_of(BASE, engine="duckdb") == text
    text = "data must be a path, or a frame of polars, DuckDB, Dask, Spark, ibis, pandas or pyarrow; got dict. "
    assert message_of({"y": [1]}) == text + "For example 'scores/*.parquet'."
