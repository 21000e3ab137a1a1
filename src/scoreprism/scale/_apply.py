"""Apply a fitted binary map to a column of any dataframe, in the engine that holds it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw
import numpy as np
from sklearn.utils.validation import check_is_fitted

from scoreprism._core.checks import parse_flag, refuse
from scoreprism._core.simplex import FloatArray
from scoreprism._findings.finding import Finding, announce
from scoreprism._maps.binary_map import RANGES
from scoreprism._maps.formula import ExprTerm, Form, FormulaTerm, SqlTerm, column_expression, literal
from scoreprism.calibrators import Calibrator
from scoreprism.scale._column_settings import require_column

#: Up to this many pieces, nested CASEs are as fast as a search through lists, also to compile in Spark.
_FEW = 8


def apply(frame: Any, calibrator: Calibrator, *, score: str, name: str = "calibrated", any_score: bool = False) -> Any:
    """
    Add the recalibrated probability of ``calibrator.classes_[1]`` to a dataframe, where the data lives.

    Parameters
    ----------
    frame : dataframe
        A frame of any library narwhals knows: Polars (eager or lazy), DuckDB, Dask, Spark, ibis, pandas, pyarrow.
    calibrator : Calibrator
        A fitted map of one score and two classes.
    score : str
        The column of scores, of the kind the map was fitted on. Where the map knows the name of its score
        (``calibrator.provenance_``), another one is refused.
    name : str, default="calibrated"
        The new column, which the frame must not have yet.
    any_score : bool, default=False
        Whether a score of another name than the map's is accepted.

    Returns
    -------
    dataframe
        A frame of the same library, lazy where it was lazy, with one more column: null (in pandas and Dask NaN)
        where the score is missing, NaN or not of its kind.

    Notes
    -----
    Polars, Dask, pandas and pyarrow run the numpy map in batches, so workers of a Dask cluster need scoreprism; DuckDB,
    Spark and the engines of ibis compute a formula and need nothing. In an eager frame, scores outside of the range
    that the map was fitted on are counted, and a warning says how many; a lazy one is not read for that.

    Examples
    --------
    >>> import polars as pl
    >>> from scoreprism.calibrators import BinningCalibrator
    >>> fitted = BinningCalibrator(n_bins=2).fit([0.1, 0.2, 0.3, 0.4], [0, 1, 1, 1])
    >>> rows = pl.LazyFrame({"p": [0.2, 0.3, None, 1.5]})
    >>> apply(rows, fitted, score="p").collect()["calibrated"].to_list()
    [0.5, 0.875, None, None]
    """
    _check_map(calibrator)
    lazy = _open(frame)
    _check_names(lazy, score, name)
    _check_score(calibrator, score, any_score)
    eager = isinstance(lazy, nw.DataFrame)
    engine = "eager" if eager else str(lazy.implementation.value)
    result = _ENGINES.get(engine, _apply_narwhals)(lazy.to_native(), calibrator, score, name)
    return nw.from_native(result) if isinstance(frame, (nw.DataFrame, nw.LazyFrame)) else result


# ── the border ──────────────────────────────────────────────────────────────────────────────────────


def _check_map(calibrator: object) -> None:
    """Require a fitted map that has a formula."""
    if not isinstance(calibrator, Calibrator):
        refuse(
            "`calibrator` must be a fitted calibrator",
            type(calibrator).__name__,
            "Pass one of scoreprism.calibrators; that of a RecalibratedClassifier is in calibrated_.",
        )
    check_is_fitted(calibrator)
    calibrator._formula("apply", SqlTerm("s"))


def _open(frame: Any) -> Any:
    """Wrap a frame in one of narwhals."""
    try:
        return nw.from_native(frame)
    except TypeError:
        refuse(
            "`frame` must be a dataframe narwhals knows",
            type(frame).__name__,
            "Pass a frame of Polars, DuckDB, Dask, Spark, ibis, pandas or pyarrow.",
        )


def _check_names(frame: Any, score: object, name: object) -> None:
    """Require a numeric column and a new name; SQL engines ignore case."""
    schema = frame.collect_schema()
    require_column(schema, "score", score, numeric=True)
    if not isinstance(name, str) or not name:
        refuse("`name` must be the name of the new column", repr(name), "For example 'calibrated'.")
    same = [column for column in schema if str(column).casefold() == name.casefold()]
    if same:
        refuse("`name` must be new to the frame", f"{name!r} beside the column {same[0]!r}", "Pass another `name`=.")


def _check_score(calibrator: Calibrator, score: str, any_score: object) -> None:
    """Require the score that the map was fitted on, if known; of two columns the second."""
    is_any = parse_flag(any_score, "any_score")
    known = None if calibrator.provenance_ is None else calibrator.provenance_.score
    if known is not None and known[-1] != score and not is_any:
        refuse(
            f"the map must be applied to the score it was fitted on, {known[-1]!r}",
            repr(score),
            "Correct `score`=, or pass `any_score`=True if it is the same score under another name.",
        )


def _warn_outside(calibrator: Calibrator, scores: FloatArray) -> None:
    """Warn of scores that the map extrapolates to."""
    low, high = RANGES[calibrator.kind]
    usable = scores[(scores >= low) & (scores <= high)]  # others have no value
    outside = 0 if calibrator.provenance_ is None else int(calibrator.provenance_.outside(usable).sum())
    if outside:
        least, most = calibrator.provenance_.ranges[0]  # type: ignore[union-attr]
        facts = {"total": int(scores.size), "range": [float(least), float(most)]}
        announce(Finding("extrapolated", n=outside, facts=facts))


# ── engines that run Python ─────────────────────────────────────────────────────────────────────────


def _apply_map(scores: FloatArray, calibrator: Calibrator) -> FloatArray:
    """Apply the numpy map; NaN where the score is missing or not of its kind."""
    low, high = RANGES[calibrator.kind]
    good = (scores >= low) & (scores <= high)
    values = np.full(scores.shape, np.nan)
    with np.errstate(over="ignore"):  # logits near the largest float; the probability is 0 or 1 anyway
        values[good] = calibrator.map_(scores[good])
    return values


def _apply_eager(frame: Any, calibrator: Calibrator, score: str, name: str) -> Any:
    opened = nw.from_native(frame, eager_only=True)
    scores = opened.get_column(score).cast(nw.Float64).to_numpy()
    _warn_outside(calibrator, scores)
    values = _apply_map(scores, calibrator)
    column = nw.new_series(name, values, nw.Float64, backend=opened.implementation)
    if not opened.implementation.is_pandas_like():
        column = column.fill_nan(None)
    return opened.with_columns(column).to_native()


def _apply_polars(frame: Any, calibrator: Calibrator, score: str, name: str) -> Any:
    import polars as pl
    import polars.selectors as cs

    def batch(scores: pl.Series) -> pl.Series:
        # without a name, which methods of a series would read as a pattern
        return pl.Series(_apply_map(scores.to_numpy(), calibrator)).fill_nan(None)

    # by_name, because pl.col reads "*" and "^…$" as patterns; elementwise, so that it streams
    column = cs.by_name(score).as_expr().cast(pl.Float64)
    mapped = column.map_batches(batch, return_dtype=pl.Float64, is_elementwise=True)
    return frame.with_columns(mapped.alias(name))


def _apply_dask(frame: Any, calibrator: Calibrator, score: str, name: str) -> Any:
    column = frame[score].map_partitions(_apply_to_part, calibrator, name, meta=(name, "f8"))
    return frame.assign(**{name: column})


def _apply_to_part(column: Any, calibrator: Calibrator, name: str) -> Any:
    """Apply the map to one partition of Dask, a pandas series."""
    values = _apply_map(column.to_numpy(dtype=np.float64, na_value=np.nan), calibrator)
    return type(column)(values, index=column.index, name=name)


# ── engines that run a formula ──────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _SearchTerm(SqlTerm):
    """SQL that finds the piece of a curve by a search through lists, a comparison per row and level."""

    item: Callable[[str, str], str] = field(kw_only=True)

    def pieces(self, cuts: Sequence[float], rows: Sequence[Sequence[float]], form: Form) -> FormulaTerm:
        if len(rows) <= _FEW:
            return super().pieces(cuts, rows, form)
        depth = len(cuts).bit_length()
        index = self._search([*cuts, *[sys.float_info.max] * ((1 << depth) - 1 - len(cuts))], depth)
        padded = [*rows, *[rows[-1]] * ((1 << depth) - len(rows))]
        return self.constant(0) + form(self, *(self._item(column, index) for column in zip(*padded, strict=True)))

    def _search(self, cuts: Sequence[float], depth: int) -> str:
        """How many of 2^depth − 1 cuts are at most this term, by bisection with one list of cuts per level."""
        index = "0"
        for level in range(depth):
            stride = 1 << (depth - 1 - level)
            cut = self._item(cuts[stride - 1 :: 2 * stride], index)
            step = f"CASE WHEN {self.text} >= {cut.text} THEN 1 ELSE 0 END"
            index = self._with(f"(2 * {index} + {step})").reuse().text
        return index

    def _item(self, values: Sequence[float], index: str) -> SqlTerm:
        return self._with(self.item(", ".join(map(literal, values)), index))


class _StagedFrame:
    """A frame that grows by a column for each intermediate value, which `add` adds to it under a name."""

    def __init__(self, frame: Any, columns: Sequence[str], add: Callable[[Any, Any, str], Any]) -> None:
        self.frame, self._add = frame, add
        self.made: list[str] = []
        self._prefix = "scoreprism_"
        while any(str(column).casefold().startswith(self._prefix) for column in columns):
            self._prefix += "_"

    def __call__(self, value: Any) -> str:
        name = f"{self._prefix}{len(self.made)}"
        self.frame = self._add(self.frame, value, name)
        self.made.append(name)
        return name


def _quote(name: str, quote: str = '"') -> str:
    """A name of a column in SQL."""
    return f"{quote}{name.replace(quote, 2 * quote)}{quote}"


def _apply_duckdb(frame: Any, calibrator: Calibrator, score: str, name: str) -> Any:
    stages = _StagedFrame(frame, frame.columns, lambda frame, text, column: frame.project(f"*, {text} AS {column}"))
    source = _SearchTerm(
        f"CAST({_quote(score)} AS DOUBLE)", stages, item=lambda values, index: f"[{values}][{index} + 1]"
    )
    text = calibrator._formula("apply", source).text
    rest = f"* EXCLUDE ({', '.join(stages.made)})" if stages.made else "*"
    return stages.frame.project(f"{rest}, {text} AS {_quote(name)}")


def _apply_spark(frame: Any, calibrator: Calibrator, score: str, name: str) -> Any:
    from pyspark.sql.functions import expr

    stages = _StagedFrame(frame, frame.columns, lambda frame, text, column: frame.withColumn(column, expr(text)))
    source = _SearchTerm(
        f"CAST({_quote(score, '`')} AS DOUBLE)", stages, item=lambda values, index: f"array({values})[{index}]"
    )
    text = calibrator._formula("apply", source).text
    return stages.frame.withColumn(name, expr(text)).drop(*stages.made)


def _apply_narwhals(frame: Any, calibrator: Calibrator, score: str, name: str) -> Any:
    opened: Any = nw.from_native(frame)
    columns = opened.collect_schema().names()
    stages = _StagedFrame(opened, columns, lambda frame, expr, column: frame.with_columns(expr.alias(column)))
    term = calibrator._formula("apply", ExprTerm(column_expression(score), lambda expr: nw.col(stages(expr))))
    return stages.frame.with_columns(term.expr.alias(name)).drop(stages.made).to_native()


#: How each engine applies a map; others that narwhals knows use `_apply_narwhals`.
_ENGINES: dict[str, Callable[[Any, Calibrator, str, str], Any]] = {
    "eager": _apply_eager,
    "polars": _apply_polars,
    "dask": _apply_dask,
    "duckdb": _apply_duckdb,
    "pyspark": _apply_spark,
    "pyspark[connect]": _apply_spark,
}
