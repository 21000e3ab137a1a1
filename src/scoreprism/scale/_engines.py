"""The engines: what a frame belongs to, how files are opened in each, and how a small result comes back."""

from __future__ import annotations

import glob
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._validation import parse_choice, refuse
from scoreprism.exceptions import InputError

#: Endings of files that can be scanned, and what they are.
FORMATS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv"}


@dataclass(frozen=True)
class Engine:
    """
    An engine that holds data.

    Attributes
    ----------
    name : str
        As in ``--engine``.
    module : str
        The module that must be there.
    extra : str
        The extra of scoreprism that installs it; empty if it is always there.
    scan : callable or None
        Opens files of a format; None where frames must be made by the user.
    """

    name: str
    module: str
    extra: str
    scan: Callable[[list[str], str], Any] | None

    def require(self) -> Any:
        """The module, or what to install."""
        try:
            return importlib.import_module(self.module)
        except ImportError:
            refuse(
                f"engine {self.name!r} must be installed",
                f"no module named {self.module!r}",
                f'Run: python -m pip install "scoreprism[{self.extra}]", or use "polars", which is always there.',
            )


def _polars(paths: list[str], kind: str) -> Any:
    import polars as pl

    if kind == "parquet":
        return pl.scan_parquet(paths, glob=False)
    separator = "\t" if paths[0].endswith(".tsv") else ","
    return pl.scan_csv(paths, separator=separator, glob=False, infer_schema_length=10_000)


def _duckdb(paths: list[str], kind: str) -> Any:
    import duckdb

    if kind != "parquet":
        refuse(
            "engine 'duckdb' must get Parquet files",
            "CSV, whose types it guesses from the first rows",
            "Use engine='polars', or convert the files.",
        )
    return duckdb.connect().read_parquet(paths)


def _dask(paths: list[str], kind: str) -> Any:
    import dask.dataframe as dd

    if kind == "parquet":
        return dd.read_parquet(paths)
    return dd.read_csv(paths, sep="\t" if paths[0].endswith(".tsv") else ",")


def _spark(paths: list[str], kind: str) -> Any:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    if kind == "parquet":
        return session.read.parquet(*paths)
    separator = "\t" if paths[0].endswith(".tsv") else ","
    return session.read.csv(paths, header=True, inferSchema=True, sep=separator)


#: Every engine; the first is embedded. Frames of pandas and pyarrow are read as they are.
ENGINES: dict[str, Engine] = {
    engine.name: engine
    for engine in (
        Engine("polars", "polars", "", _polars),
        Engine("duckdb", "duckdb", "duckdb", _duckdb),
        Engine("dask", "dask.dataframe", "dask", _dask),
        Engine("spark", "pyspark", "spark", _spark),
        Engine("ibis", "ibis", "ibis", None),
    )
}

#: What narwhals calls the implementation of a frame, in our words.
_CALLED = {"pyspark": "spark", "pyspark[connect]": "spark", "sqlframe": "spark"}


def scan(source: Any, *, engine: str | None = None) -> Any:
    """
    Open files, or take a frame of an engine as it is; nothing is read yet.

    Parameters
    ----------
    source : path, glob, list of paths, or frame
        Parquet or CSV files; or a frame: polars (lazy or not), a DuckDB relation, a Dask dataframe, a Spark dataframe,
        an ibis table, pandas, pyarrow.
    engine : {"polars", "duckdb", "dask", "spark"}, optional
        What opens files; polars if not given. A frame has its engine already.

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
    if not isinstance(source, (str, Path, list, tuple)):
        if engine is not None and parse_choice(engine, ENGINES, "engine") != (found := engine_of(source)):
            refuse("engine must be left out for a frame", f"{engine!r} and a frame of {found}", "It has its own.")
        wrap(source)
        return source
    chosen = ENGINES[parse_choice(engine or "polars", ENGINES, "engine")]
    chosen.require()
    if chosen.scan is None:
        refuse(f"engine {chosen.name!r} must get a table", "files", "Make the table with ibis and pass it.")
    paths, kind = find_files(source)
    return opened(chosen, paths, kind)


def opened(engine: Engine, paths: list[str], kind: str) -> Any:
    """Files in an engine; whatever it cannot read is told in our words."""
    assert engine.scan is not None  # noqa: S101 - `scan` has looked
    try:
        frame = engine.scan(paths, kind)
        wrap(frame).collect_schema()
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001 - every engine has errors of its own
        refuse("files must be readable by the engine", f"{engine.name} says: {first_line(error)}", "Check the files.")
    return frame


def first_line(error: BaseException) -> str:
    """The first line of an engine's error, cut to a readable length."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]


def find_files(source: Any) -> tuple[list[str], str]:
    """Files of one format, by path, glob or folder, in order."""
    given = [str(path) for path in (source if isinstance(source, (list, tuple)) else [source])]
    found: list[str] = []
    for path in given:
        here = Path(path).expanduser()
        if here.is_dir():
            some = sorted(str(p) for p in here.rglob("*") if p.suffix.lower() in FORMATS and p.is_file())
        elif here.is_file():
            some = [str(here)]
        else:
            some = sorted(p for p in glob.glob(str(here), recursive=True) if Path(p).is_file())  # noqa: PTH207 - absolute too
        if not some:
            refuse("a path must name files that exist", f"{path!r}, which matches none", "Check the path or the glob.")
        found += some
    kinds = {FORMATS.get(Path(path).suffix.lower()) for path in found}
    if None in kinds or len(kinds) != 1:
        endings = sorted({Path(path).suffix for path in found})
        refuse(
            f"files must all be of one kind, ending in {', '.join(FORMATS)}",
            ", ".join(repr(ending) for ending in endings),
            "Convert other files, or pass a frame.",
        )
    return found, str(kinds.pop())


def wrap(frame: Any) -> Any:
    """A frame as narwhals sees it, lazy where the engine is."""
    import narwhals as nw

    try:
        return nw.from_native(frame).lazy()
    except TypeError:
        refuse(
            "data must be a path, or a frame of polars, DuckDB, Dask, Spark, ibis, pandas or pyarrow",
            type(frame).__name__,
            "For example 'scores/*.parquet'.",
        )


def plainly_named(frame: Any) -> tuple[Any, dict[str, str]]:
    """A lazy frame whose names every engine takes as they are, and the new name of each column."""
    lazy = wrap(frame)
    names = list(lazy.collect_schema())
    if engine_of(frame) != "spark":
        return lazy, {name: name for name in names}
    plain = [f"c{i}" for i in range(len(names))]  # Spark reads a dot in a name as a field of a struct
    return wrap(frame.toDF(*plain)), dict(zip(names, plain, strict=True))


def engine_of(frame: Any) -> str:
    """The name of the engine a frame belongs to."""
    import narwhals as nw

    try:
        name = str(nw.from_native(frame).implementation.value)
    except TypeError:
        return type(frame).__name__
    return _CALLED.get(name, name)


def fetched(query: Any) -> dict[str, NDArray[Any]]:
    """The columns of a small result, in this process; engines that can stream do."""
    table = query.collect(engine="streaming") if query.implementation.is_polars() else query.collect()
    return {name: _column(table[name]) for name in table.columns}


def _column(series: Any) -> NDArray[Any]:
    if series.dtype.is_numeric() and not series.is_null().any():
        return np.asarray(series.to_numpy())
    labels = np.empty(len(series), dtype=object)
    labels[:] = series.to_list()
    return labels
