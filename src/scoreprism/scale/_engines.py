"""The engines: what a frame belongs to, how files are opened in each, and how a small result comes back."""

from __future__ import annotations

import glob
import importlib
import importlib.util
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import parse_choice, refuse
from scoreprism._core.source_files import SEPARATORS, doubt_about, find_files, hive, hive_root, verify_files
from scoreprism._findings.finding import Finding, announce
from scoreprism.exceptions import InputError, ScoreprismError

#: Rows of a CSV file that its types are guessed from; where the guess fails, all are read for it.
_GUESSED = 10_000


class EngineError(InputError):
    """What an engine could not do, in one line."""


@dataclass(frozen=True)
class Engine:
    """An engine that holds data."""

    name: str  # as in ``--engine``
    module: str  # the module that must be there
    extra: str  # the extra of scoreprism that installs it; empty if it is always there
    scan: Callable[[list[str], str], Any] | None  # opens files of a format; None where frames must be made by the user

    def require(self) -> Any:
        """The module, or what to install."""
        try:
            return importlib.import_module(self.module)
        except ImportError as error:
            raise InputError(
                f"`engine` {self.name!r} must be installed",
                first_line(error),
                f"Run: python -m pip install 'scoreprism[{self.extra}]', "
                "or use `engine`='polars', which is always there.",
            ) from None


def _scan_polars(paths: list[str], kind: str) -> Any:
    import polars as pl

    if kind == "parquet":
        return pl.scan_parquet(paths, glob=False, hive_partitioning=hive(paths[0]) != {})
    return pl.scan_csv(paths, separator=SEPARATORS[kind], glob=False, infer_schema_length=_GUESSED)


def _scan_duckdb(paths: list[str], kind: str) -> Any:
    _require_parquet("duckdb", kind)
    return _open_duckdb().read_parquet([glob.escape(path) for path in paths], hive_partitioning=hive(paths[0]) != {})


@cache
def _open_duckdb() -> Any:
    """One connection that lasts: that of a relation is closed with its last name in DuckDB 1."""
    import duckdb

    # Groups are few, so nothing needs to spill: a run that is killed leaves no files behind.
    session = duckdb.connect(config={"temp_directory": ""})
    session.execute("SET TimeZone = 'UTC'")
    return session


def _scan_dask(paths: list[str], kind: str) -> Any:
    import dask.dataframe as dd

    _require_parquet("dask", kind)
    return dd.read_parquet([glob.escape(path) for path in paths])


def _scan_spark(paths: list[str], kind: str) -> Any:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession() or _open_spark()
    paths = [os.path.abspath(path) for path in paths]  # noqa: PTH100 - Java keeps the folder it was started in
    escaped = [re.sub(r"([\[\]{}*?\\])", r"\\\1", path) for path in paths]
    if kind == "parquet":
        root = hive_root(paths)
        reader = session.read if root is None else session.read.option("basePath", root)
        return reader.parquet(*escaped)
    return session.read.csv(escaped, header=True, inferSchema=True, sep=SEPARATORS[kind])


def _open_spark() -> Any:
    """A session of our own: quiet, without pages, in UTC; options given to spark-submit win over these."""
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    if not (os.environ.get("JAVA_HOME") or shutil.which("java") or "SPARK_REMOTE" in os.environ):
        refuse(
            "`engine` 'spark' must have a Java runtime",
            "no java on the path and no JAVA_HOME",
            "Install Java 17 or newer, or use `engine`='polars'.",
        )
    given, builder = SparkConf(), SparkSession.builder
    for name, value in _SPARK.items():
        if not given.contains(name):
            builder = builder.config(name, value)
    return builder.getOrCreate()


#: Settings of a Spark session that is made here.
_SPARK = {
    "spark.app.name": "scoreprism",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # it looks up the line of every expression
}


def _require_parquet(engine: str, kind: str) -> None:
    if kind != "parquet":
        refuse(
            f"`engine` {engine!r} must get Parquet files",
            f"{kind.upper()}, whose types it guesses from the first rows",
            "Use `engine`='polars', or convert the files.",
        )


#: Every engine; the first is embedded. Frames of pandas and pyarrow are read as they are.
ENGINES: dict[str, Engine] = {
    engine.name: engine
    for engine in (
        Engine("polars", "polars", "", _scan_polars),
        Engine("duckdb", "duckdb", "duckdb", _scan_duckdb),
        Engine("dask", "dask.dataframe", "dask", _scan_dask),
        Engine("spark", "pyspark", "spark", _scan_spark),
        Engine("ibis", "ibis", "ibis", None),
    )
}

#: What narwhals calls the implementation of a frame, in our words.
_CALLED = {"pyspark": "spark", "pyspark[connect]": "spark", "sqlframe": "spark"}


def scan(source: Any, *, engine: str | None = None, verify_checksums: bool = False) -> Any:
    """
    Open files, or take a frame of an engine as it is; nothing is read yet.

    Parameters
    ----------
    source : path, glob, list of paths, or frame
        Parquet or CSV files; or a frame: polars (lazy or not), a DuckDB relation, a Dask dataframe, a Spark dataframe,
        an ibis table, pandas, pyarrow.
    engine : {"polars", "duckdb", "dask", "spark"}, optional
        What opens files; polars if not given. A frame has its engine already.
    verify_checksums : bool, default=False
        Whether all pages of Parquet files are compared with their checksums, where they have any, before. That reads
        the files once more; `aggregate` and `decompose` do it for the columns they use.

    Returns
    -------
    frame
        A frame of that engine; files of several parts are one frame.

    Examples
    --------
    >>> import polars as pl
    >>> from scoreprism import scale
    >>> frame = pl.LazyFrame({"default": [0, 1], "score": [0.1, 0.8]})
    >>> scale.scan(frame) is frame
    True
    """
    if verify_checksums:
        verify_files(source)
    if not isinstance(source, (str, Path, list, tuple)):
        if engine is not None and parse_choice(engine, ENGINES, "engine") != (own := find_engine(source)):
            refuse("`engine` must be left out for a frame", f"{engine!r} and a frame of {own}", "It has its own.")
        wrap(source)
        return source
    chosen = ENGINES[parse_choice(engine or "polars", ENGINES, "engine")]
    chosen.require()
    if chosen.scan is None:
        refuse(f"`engine` {chosen.name!r} must get a table", "files", "Make the table with ibis and pass it.")
    paths, kind = find_files(source)
    return open_files(chosen, paths, kind)


def open_files(engine: Engine, paths: list[str], kind: str, whole: list[str] | None = None) -> Any:
    """Files in an engine, some of the `whole`; whatever it cannot read is told in our words."""
    assert engine.scan is not None  # noqa: S101 - `scan` has looked
    with translate_errors(
        "files must be readable by the engine", "Check the files, or read them with it and pass the frame."
    ):
        doubts = {path: doubt for path in paths if (doubt := doubt_about(path, kind))}
        frame = _cast_folder_names(engine.scan(paths, kind), whole or paths)
        wrap(frame).collect_schema()
    for path, doubt in doubts.items():
        announce(Finding("file_suspect", subject=path, facts={"reason": doubt}))
    return frame


def _cast_folder_names(frame: Any, paths: list[str]) -> Any:
    """Columns that are written as folders, with the same types in every engine: whole numbers, else words."""
    names = hive(paths[0])
    if not names:
        return frame
    values = {name: {hive(path).get(name, "") for path in paths} for name in names}
    numbers = {name: all(re.fullmatch(r"-?\d{1,18}", value) for value in texts) for name, texts in values.items()}
    cast = {name: nw.col(name).cast(nw.Int64 if whole else nw.String) for name, whole in numbers.items()}
    return wrap(frame).with_columns(**cast).to_native()


@contextmanager
def translate_errors(rule: str, remedy: str) -> Iterator[None]:
    """Errors of an engine, in one line under a rule of ours; Ctrl-C stays what it is."""
    try:
        yield
    except (ScoreprismError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - every engine has errors of its own; those of Rust are no Exception
        line = first_line(error)
        if _INTERRUPTED.fullmatch(line):  # how DuckDB says it
            raise KeyboardInterrupt from None
        raise EngineError(rule, f"an error of its own: {line.rstrip('.')}", remedy) from None


#: What engines say after Ctrl-C; other errors may have the word in a name.
_INTERRUPTED = re.compile(r"(INTERRUPT Error: )?(Query )?interrupted[.!]*", re.IGNORECASE)


def first_line(error: BaseException) -> str:
    """The first line of an engine's error, cut to a readable length."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]


@dataclass(frozen=True)
class SourcePart:
    """A frame to be summed, and where it comes from."""

    frame: Any  # of any engine
    path: str = ""  # the file, where it is one of several; else empty
    again: Callable[[], Any] | None = None  # opens a file of text again, its types guessed from all of its rows


def list_parts(source: Any, engine: str | None) -> tuple[Iterator[SourcePart], int]:
    """Frames to be summed one after the other, and how many: files of the embedded engine, else all at once."""
    files = isinstance(source, (str, Path, list, tuple))
    if not files or parse_choice(engine or "polars", ENGINES, "engine") != "polars":
        return iter([SourcePart(scan(source, engine=engine))]), 1
    paths, kind = find_files(source)
    return (_open_part(path, paths, kind) for path in paths), len(paths)


def _open_part(path: str, paths: list[str], kind: str) -> SourcePart:
    frame = open_files(ENGINES["polars"], [path], kind, paths)
    return SourcePart(
        frame, path if len(paths) > 1 else "", None if kind == "parquet" else lambda: _scan_whole_text(path, kind)
    )


def _scan_whole_text(path: str, kind: str) -> Any:
    import polars as pl

    return pl.scan_csv(path, separator=SEPARATORS[kind], glob=False, infer_schema_length=None)


# ── frames ──────────────────────────────────────────────────────────────────────────────────────────


def wrap(frame: Any) -> Any:
    """A frame as narwhals sees it, lazy where the engine is."""
    try:
        return nw.from_native(frame).lazy()
    except TypeError:
        raise InputError(
            "`data` must be a path, or a frame of polars, DuckDB, Dask, Spark, ibis, pandas or pyarrow",
            type(frame).__name__,
            "For example 'scores/*.parquet'.",
        ) from None
    except nw.exceptions.DuplicateError as error:
        got = " ".join(str(error).split())
        raise InputError("columns must have names of their own", got, "Rename one of them.") from None


def rename_columns(frame: Any) -> tuple[Any, dict[str, str]]:
    """A lazy frame whose names every engine takes as they are, and the new name of each column."""
    lazy = wrap(frame)
    names = list(lazy.collect_schema())
    plain = dict(zip(names, (f"c{i}" for i in range(len(names))), strict=True))
    if find_engine(frame) == "spark":  # it reads a dot in a name as a field of a struct
        return wrap(frame.toDF(*plain.values())), plain
    if find_engine(frame) == "polars" and any(_is_pattern(name) for name in names):
        return wrap(lazy.to_native().rename(plain)), plain
    return lazy, {name: name for name in names}


def _is_pattern(name: str) -> bool:
    """Whether Polars reads a name as a pattern, and would take other columns for it."""
    return name == "*" or (name.startswith("^") and name.endswith("$"))


def read_schema(lazy: Any) -> dict[str, Any]:
    """The types of the columns of a frame; whatever its plan has wrong is told in our words."""
    with translate_errors("the engine must be able to read the data", "Check the frame."):
        return dict(lazy.collect_schema())


def to_arrow(frame: Any, columns: Iterable[str]) -> Any:
    """A pandas frame with columns of objects or of Arrow, as Arrow, where dates, decimals and the like have types."""
    if find_engine(frame) != "pandas" or importlib.util.find_spec("pyarrow") is None:
        return frame
    names = list(dict.fromkeys(columns))
    is_known = all(isinstance(name, str) and list(frame.columns).count(name) == 1 for name in names)
    if not is_known or not any(_has_no_type(frame.dtypes[name]) for name in names):
        return frame
    pa = importlib.import_module("pyarrow")

    with translate_errors("columns must hold values of one type", "Cast them first."):
        return pa.Table.from_pandas(frame[names], preserve_index=False)


def _has_no_type(kind: Any) -> bool:
    zoned = getattr(kind, "tz", None) is not None  # a type that narwhals does not know
    return str(kind) == "object" or type(kind).__name__ == "ArrowDtype" or zoned


def takes_log_of_zero(frame: Any) -> bool:
    """Whether the engine of a narwhals frame gives −∞, neither an error nor a warning."""
    return bool(frame.implementation.is_polars() or frame.implementation.is_duckdb())


def find_engine(frame: Any) -> str:
    """The name of the engine a frame belongs to."""
    try:
        name = str(nw.from_native(frame).implementation.value)
    except TypeError:
        return type(frame).__name__
    return _CALLED.get(name, name)


def fetch(query: Any) -> dict[str, NDArray[Any]]:
    """The columns of a small result, in this process; engines that can stream do."""
    with translate_errors("the engine must be able to read the data", "Check the columns."):
        if query.implementation.is_polars():
            with _limit_row_groups():
                table = query.collect(engine="streaming")
        else:
            table = query.collect()
        return {name: _to_array(table[name]) for name in table.columns}


#: Says how many row groups of Parquet Polars reads ahead; its own choice costs 80 MB more and is no faster here.
_AHEAD = "POLARS_ROW_GROUP_PREFETCH_SIZE"


@contextmanager
def _limit_row_groups() -> Iterator[None]:
    """Read few row groups ahead, unless the user said how many."""
    if _AHEAD in os.environ:
        yield
        return
    os.environ[_AHEAD] = str(max(1, (os.cpu_count() or 1) // 2))
    try:
        yield
    finally:
        os.environ.pop(_AHEAD, None)


def _to_array(series: Any) -> NDArray[Any]:
    if series.dtype.is_numeric() and not series.is_null().any():
        return np.asarray(series.to_numpy())
    labels = np.empty(len(series), dtype=object)
    labels[:] = series.to_list()
    return labels
