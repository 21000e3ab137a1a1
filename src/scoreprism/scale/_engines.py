"""Engines: find the one that holds a frame, open files in it, fetch small results from it."""

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
from scoreprism._core.source_files import (
    SEPARATORS,
    doubt_file,
    find_files,
    find_hive_root,
    read_hive_columns,
    verify_files,
)
from scoreprism._findings.finding import Finding, announce
from scoreprism.exceptions import InputError, ScoreprismError

#: Rows of a CSV file that its types are inferred from; if that fails, all rows are used.
_GUESSED = 10_000


class EngineError(InputError):
    """An error of an engine, in one line."""


@dataclass(frozen=True)
class Engine:
    """An engine that can hold the data."""

    name: str  # as in ``--engine``
    module: str  # module that must be installed
    extra: str  # extra of scoreprism that installs it; empty if always installed
    scan: Callable[[list[str], str], Any] | None  # opens files of a format; None: only frames are taken

    def require(self) -> None:
        """Import the module, or raise an error that says what to install."""
        try:
            importlib.import_module(self.module)
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
        return pl.scan_parquet(paths, glob=False, hive_partitioning=read_hive_columns(paths[0]) != {})
    return pl.scan_csv(paths, separator=SEPARATORS[kind], glob=False, infer_schema_length=_GUESSED)


def _scan_duckdb(paths: list[str], kind: str) -> Any:
    _require_parquet("duckdb", kind)
    return _open_duckdb().read_parquet(
        [glob.escape(path) for path in paths], hive_partitioning=read_hive_columns(paths[0]) != {}
    )


@cache
def _open_duckdb() -> Any:
    """One lasting connection: DuckDB 1 closes that of a relation with the last reference to it."""
    import duckdb

    # there are few groups, so nothing needs to spill, and a killed run leaves no files behind
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
        root = find_hive_root(paths)
        reader = session.read if root is None else session.read.option("basePath", root)
        return reader.parquet(*escaped)
    return session.read.csv(escaped, header=True, inferSchema=True, sep=SEPARATORS[kind])


def _open_spark() -> Any:
    """Start a quiet session in UTC without a web page; options of spark-submit take precedence."""
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    if not (os.environ.get("JAVA_HOME") or shutil.which("java") or "SPARK_REMOTE" in os.environ):
        refuse(
            "`engine` 'spark' must have a Java runtime",
            "no java on the path and no JAVA_HOME",
            "Install Java 17 or newer, or use `engine`='polars'.",
        )
    configured, builder = SparkConf(), SparkSession.builder
    for name, value in _SPARK.items():
        if not configured.contains(name):
            builder = builder.config(name, value)
    return builder.getOrCreate()


#: Settings of a Spark session that is started here.
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


#: All engines; the first is built in. Frames of pandas and pyarrow are read directly.
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

#: Engines that narwhals calls by another name.
_CALLED = {"pyspark": "spark", "pyspark[connect]": "spark", "sqlframe": "spark"}


def scan(source: Any, *, engine: str | None = None, verify_checksums: bool = False) -> Any:
    """
    Open files in an engine, or check a frame; nothing is read yet.

    Parameters
    ----------
    source : path, glob, list of paths, or frame
        Parquet or CSV files; or a frame: polars (lazy or not), a DuckDB relation, a Dask dataframe, a Spark dataframe,
        an ibis table, pandas, pyarrow.
    engine : {"polars", "duckdb", "dask", "spark"}, optional
        Engine that opens files; polars by default. A frame already has one.
    verify_checksums : bool, default=False
        Whether to compare all pages of Parquet files with their checksums, where there are any. That reads the files
        once more; `aggregate` and `decompose` do it for the columns they use.

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
    """Open files, some of the `whole`, in an engine; its errors are translated."""
    assert engine.scan is not None  # noqa: S101 - checked by `scan`
    with translate_errors(
        "files must be readable by the engine", "Check the files, or read them with it and pass the frame."
    ):
        doubts = {path: doubt for path in paths if (doubt := doubt_file(path, kind))}
        frame = _cast_folder_names(engine.scan(paths, kind), whole or paths)
        wrap(frame).collect_schema()
    for path, doubt in doubts.items():
        announce(Finding("file_suspect", subject=path, facts={"reason": doubt}))
    return frame


def _cast_folder_names(frame: Any, paths: list[str]) -> Any:
    """Give columns that are folder names the same types in every engine: whole numbers, otherwise text."""
    names = read_hive_columns(paths[0])
    if not names:
        return frame
    values = {name: {read_hive_columns(path).get(name, "") for path in paths} for name in names}
    numbers = {name: all(re.fullmatch(r"-?\d{1,18}", value) for value in texts) for name, texts in values.items()}
    cast = {name: nw.col(name).cast(nw.Int64 if whole else nw.String) for name, whole in numbers.items()}
    return wrap(frame).with_columns(**cast).to_native()


@contextmanager
def translate_errors(rule: str, remedy: str) -> Iterator[None]:
    """Raise errors of an engine as an `EngineError` of one line; Ctrl-C stays a KeyboardInterrupt."""
    try:
        yield
    except (ScoreprismError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - every engine has errors of its own; those of Rust are no Exception
        line = first_line(error)
        if _INTERRUPTED.fullmatch(line):  # DuckDB after Ctrl-C
            raise KeyboardInterrupt from None
        raise EngineError(rule, f"an error of its own: {line.rstrip('.')}", remedy) from None


#: Messages of engines after Ctrl-C; other errors may contain the word in a name.
_INTERRUPTED = re.compile(r"(INTERRUPT Error: )?(Query )?interrupted[.!]*", re.IGNORECASE)


def first_line(error: BaseException) -> str:
    """Return the first line of an error, cut to a readable length."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]


@dataclass(frozen=True)
class SourcePart:
    """A frame to be summed, and the file it comes from."""

    frame: Any  # of any engine
    path: str = ""  # the file, if it is one of several
    again: Callable[[], Any] | None = None  # reopens a text file with types inferred from all rows


def list_parts(source: Any, engine: str | None) -> tuple[Iterator[SourcePart], int]:
    """Frames to be summed one by one, and their number: one per file in Polars, otherwise a single one."""
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
    """Wrap a frame in a lazy frame of narwhals."""
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
    """Return a lazy frame with column names that every engine takes literally, and the new name of each column."""
    lazy = wrap(frame)
    names = list(lazy.collect_schema())
    plain = dict(zip(names, (f"c{i}" for i in range(len(names))), strict=True))
    if find_engine(frame) == "spark":  # it reads a dot in a name as a field of a struct
        return wrap(frame.toDF(*plain.values())), plain
    if find_engine(frame) == "polars" and any(_is_pattern(name) for name in names):
        return wrap(lazy.to_native().rename(plain)), plain
    return lazy, {name: name for name in names}


def _is_pattern(name: str) -> bool:
    """Whether Polars reads a column name as a pattern, which could match other columns."""
    return name == "*" or (name.startswith("^") and name.endswith("$"))


def read_schema(lazy: Any) -> dict[str, Any]:
    """Read the types of the columns; errors in the plan of a lazy frame are translated."""
    with translate_errors("the engine must be able to read the data", "Check the frame."):
        return dict(lazy.collect_schema())


def to_arrow(frame: Any, columns: Iterable[str]) -> Any:
    """Convert a pandas frame with object or Arrow columns to Arrow, where dates, decimals and the like have types."""
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
    """Whether log 0 is −∞ in the engine of a frame, without an error or a warning."""
    return bool(frame.implementation.is_polars() or frame.implementation.is_duckdb())


def find_engine(frame: Any) -> str:
    """Name the engine that a frame belongs to."""
    try:
        name = str(nw.from_native(frame).implementation.value)
    except TypeError:
        return type(frame).__name__
    return _CALLED.get(name, name)


def fetch(query: Any) -> dict[str, NDArray[Any]]:
    """Fetch the columns of a small result, streaming where the engine can."""
    with translate_errors("the engine must be able to read the data", "Check the columns."):
        if query.implementation.is_polars():
            with _limit_row_groups():
                table = query.collect(engine="streaming")
        else:
            table = query.collect()
        return {name: _to_array(table[name]) for name in table.columns}


#: Number of Parquet row groups that Polars reads ahead; its default takes 80 MB more and is no faster here.
_AHEAD = "POLARS_ROW_GROUP_PREFETCH_SIZE"


@contextmanager
def _limit_row_groups() -> Iterator[None]:
    """Read few row groups ahead, unless the user set the variable."""
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
