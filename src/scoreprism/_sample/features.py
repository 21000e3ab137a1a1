"""Features as numbers: bins for boosting, standardised columns for regressions; and as other classifiers take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.arrays import is_foreign, to_host
from scoreprism._core.checks import abbreviate, is_missing, refuse, require_rows
from scoreprism._core.frames import backend_of, column_names, columns_of, unwrap
from scoreprism._core.logits import Logits
from scoreprism._core.numerics import law_logits
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray
from scoreprism._sample.point_cloud import PointCloud, Points
from scoreprism._sample.wide_columns import WideColumns
from scoreprism._spelling import mark

#: Bins of a numeric feature, and levels of a categorical one that are distinguished; code 0 is "missing" or "other".
BINS = 31
#: A category seen less often than this is "other".
RARE = 5
#: Rows that quantiles are taken from.
_QUANTILE_ROWS = 50_000
#: Standardised values are cut here: a ridge must not be led by one outlier.
FAR = 4.0

Codes = NDArray[np.uint8]


@dataclass(frozen=True)
class Features:
    """Encoded features of some rows."""

    codes: Codes  # (p, n): bins of each feature; 0 is missing or other
    categorical: tuple[bool, ...]  # which features have no order of their own
    # (q, n): standardised numeric columns, indicators of missing values and of categories; a row is a variable
    design: FloatArray
    n_score: int = 0  # how many of the first columns are the score
    whole: Features | None = None  # all rows, of which these are some
    places: IntArray | None = None  # where they stand among all rows

    #: Whether these are embeddings.
    is_wide = False

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.codes.shape[1])

    @property
    def rows(self) -> IntArray:
        """Where the rows stand among all."""
        return np.arange(self.n) if self.places is None else self.places

    def part(self, rows: NDArray[Any]) -> Features:
        """Some of the rows."""
        return Features(
            self.codes[:, rows],
            self.categorical,
            self.design[:, rows],
            self.n_score,
            self.whole or self,
            self.rows[rows],
        )

    def beside(self, other: Features) -> Features:
        """The columns of both."""
        if other.is_wide:
            return other.after(self)
        return Features(
            np.concatenate([self.codes, other.codes]),
            (*self.categorical, *other.categorical),
            np.concatenate([self.design, other.design]),
            self.n_score,
        )

    def after(self, few: Features) -> Features:
        """The same with few columns before them."""
        return few.beside(self)

    @cached_property
    def cloud(self) -> PointCloud:
        """The coordinates of all rows, without the score, and who is near whom."""
        if self.whole is not None:
            return self.whole.cloud
        return PointCloud(self.design[self.n_score :].T.astype(np.float32))

    @property
    def coordinates(self) -> Points:
        """The coordinates of these rows."""
        points = self.cloud.coordinates
        return points if self.places is None else points[self.places]


@dataclass(frozen=True)
class Numeric:
    """A numeric column: cuts between its bins, and its centre and scale."""

    cuts: FloatArray
    center: float
    scale: float
    missing: bool

    @staticmethod
    def fit(values: FloatArray) -> Numeric:
        known = np.sort(values[np.isfinite(values)])  # independent of the order of rows
        step = max(1, known.size // _QUANTILE_ROWS)
        some = known[::step]
        if some.size == 0:
            return Numeric(np.zeros(0), 0.0, 1.0, missing=False)
        grid = np.quantile(some, np.arange(1, BINS) / BINS, method="inverted_cdf")
        low, center, high = np.quantile(some, [0.05, 0.5, 0.95])
        scale = float(high - low) / 3.29 or float(some.std()) or 1.0
        cuts = np.unique(grid[grid < some.max()])
        return Numeric(cuts, float(center), scale, missing=bool(np.isnan(values).any()))

    def codes(self, values: FloatArray) -> Codes:
        bins = np.searchsorted(self.cuts, values, side="left") + 1
        return np.where(np.isnan(values), 0, bins).astype(np.uint8)

    def design(self, values: FloatArray) -> list[FloatArray]:
        gone = np.isnan(values)
        z = np.where(gone, 0.0, np.clip((values - self.center) / self.scale, -FAR, FAR))
        return [z, gone.astype(np.float64)] if self.missing else [z]


@dataclass(frozen=True)
class Categorical:
    """A column without an order: the levels that are frequent enough to be told apart, most frequent first."""

    levels: tuple[Any, ...]
    contrast: bool  # two levels and nothing else are one contrast

    @staticmethod
    def fit(values: NDArray[Any]) -> Categorical:
        labels, counts = np.unique(values, return_counts=True)
        frequent = np.argsort(-counts, kind="stable")[:BINS]
        levels = tuple(labels[i] for i in frequent if counts[i] >= min(RARE, max(1, values.size // 20)))
        return Categorical(levels, len(levels) == labels.size == 2)

    def codes(self, values: NDArray[Any]) -> Codes:
        table = {level: code for code, level in enumerate(self.levels, start=1)}
        labels, inverse = np.unique(values, return_inverse=True)
        return np.array([table.get(level, 0) for level in labels], dtype=np.uint8)[inverse]

    def design(self, values: NDArray[Any]) -> list[FloatArray]:
        codes = self.codes(values)
        if self.contrast:
            return [np.choose(codes, [0.0, 0.5, -0.5])]
        return [(codes == code).astype(np.float64) for code in range(1, len(self.levels) + 1)]


@dataclass(frozen=True)
class Encoder:
    """How each column of a table becomes codes and design columns; outcomes play no part in it."""

    columns: tuple[Numeric | Categorical, ...]

    @staticmethod
    def fit(table: Sequence[NDArray[Any]]) -> Encoder:
        kinds = (Numeric.fit(c) if c.dtype.kind == "f" else Categorical.fit(c) for c in table)
        return Encoder(tuple(kinds))

    def __call__(self, table: Sequence[NDArray[Any]]) -> Features:
        n = table[0].shape[0]
        codes = np.empty((len(table), n), dtype=np.uint8)
        design: list[FloatArray] = []
        for j, (column, values) in enumerate(zip(self.columns, table, strict=True)):
            codes[j] = column.codes(values)
            design += column.design(values)
        shape = np.stack(design) if design else np.zeros((0, n))
        return Features(codes, tuple(isinstance(c, Categorical) for c in self.columns), shape)


def parse_features(value: ArrayLike, n: int, name: str = "X") -> Sequence[NDArray[Any]]:
    """
    Columns of a frame or an array: float64 with NaN for missing, or strings for categories ("" for missing).

    A one-dimensional array is one column. Many columns of numbers stay one array, of float32 if they came so.
    """
    if isinstance(value, Logits):
        remedy = "Pass them as `y_proba` or `q`, in Level(name, Logits(z)), or z itself as features."
        refuse(f"{mark(name)} must be a table of features", "Logits, which stand for probabilities", remedy)
    if hasattr(value, "toarray") and hasattr(value, "nnz"):
        refuse(f"{mark(name)} must be a dense table", f"a sparse {type(value).__name__}", "Call .toarray() first.")
    if backend_of(value) is not None:
        raw = columns_of(value)
        columns = [unwrap(column).values for column in raw] if raw is not None else [unwrap(value).values]
        names = [repr(v) for v in column_names(value) or range(len(columns))]
    else:
        array = _make_table(value, name)
        wide = WideColumns.of_array(array)
        if wide is not None:
            require_rows(array.shape[0], n, name, "y_true")
            return wide
        columns = list(array.T)
        names = [str(j) for j in range(len(columns))]
    if not columns:
        refuse(f"{mark(name)} must have at least one column", "none", "Pass the features, or leave it out.")
    parsed = [_read_column(np.asarray(c), label, name) for c, label in zip(columns, names, strict=True)]
    nested = [label for column, label in zip(parsed, names, strict=True) if column.ndim != 1]
    if nested:
        refuse(
            f"columns of {mark(name)} must hold one value per row",
            f"nested values in {nested[0]}",
            "Unnest or drop it.",
        )
    require_rows(parsed[0].shape[0], n, name, "y_true")
    return WideColumns.of(parsed)


def _make_table(value: ArrayLike, name: str) -> NDArray[Any]:
    """A two-dimensional array; rows of mixed kinds keep their objects."""
    try:
        array = to_host(value) if is_foreign(value) else np.asarray(value)
        if array.dtype.kind in "US" and isinstance(value, (list, tuple)):
            array = np.array(value, dtype=object)  # numbers among words are numbers
    except (ValueError, TypeError) as error:
        refuse(f"{mark(name)} must be a rectangular table", f"{error}", "Give every row the same length.")
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        refuse(f"{mark(name)} must have one row per case", f"shape {array.shape}", "Pass a table of shape (n, p).")
    return array


def _read_column(values: NDArray[Any], label: str, name: str) -> NDArray[Any]:
    """Numbers as float64, times as seconds, anything else as text."""
    if values.dtype.kind in "fiub":
        return values.astype(np.float64)
    if values.dtype.kind in "mM":
        gone = np.isnat(values)
        kind = "datetime64[us]" if values.dtype.kind == "M" else "timedelta64[us]"
        return np.where(gone, np.nan, values.astype(kind).astype(np.int64) / 1e6)
    if values.dtype.kind == "O":
        return _read_objects(values, label, name)
    if values.dtype.kind not in "US":
        rule = f"column {label} of {mark(name)} must hold numbers, times or categories"
        refuse(rule, f"dtype {values.dtype}", "Convert or drop it.")
    return values.astype(str)


def _read_objects(values: NDArray[Any], label: str, name: str) -> NDArray[Any]:
    """Python objects: numbers if all are, else text."""
    gone = np.array([is_missing(v) for v in values], dtype=bool)
    kinds = {type(v) for v in values[~gone]}
    if any(issubclass(kind, (list, tuple, dict, set, np.ndarray)) for kind in kinds):
        odd = [kind.__name__ for kind in kinds]
        rule = f"column {label} of {mark(name)} must hold one value per row"
        refuse(rule, f"objects of type {abbreviate(odd)}", "Convert or drop it.")
    numbers = np.full(values.shape[0], np.nan)
    if not kinds or all(issubclass(kind, (int, float, Decimal, np.number, np.bool_)) for kind in kinds):
        numbers[~gone] = values[~gone].astype(np.float64)
        return numbers
    if all(issubclass(kind, date) or kind.__name__ == "Period" for kind in kinds):
        moments = [v.to_timestamp() if hasattr(v, "to_timestamp") else v for v in values[~gone]]
        numbers[~gone] = [_count_seconds(moment) for moment in moments]
        return numbers
    text = np.array([str(v) for v in values], dtype=str)
    text[gone] = ""
    return text


def _count_seconds(moment: Any) -> float:
    """Seconds since 1970 of a date or a time, as it reads on the clock."""
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)  # noqa: DTZ001 - clocks, not instants
    return float((moment.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds())  # noqa: DTZ001


def score_columns(score: FloatArray) -> list[NDArray[Any]]:
    """The score as features: its logit, or its log-probabilities, kept finite."""
    logits = law_logits(score)
    return [logits] if score.ndim == 1 else list(logits.T)


# ── features in the container they came in ──────────────────────────────────────────────────────────

#: How the columns of the score are called in a frame.
SCORE_COLUMN = "scoreprism_score"


@dataclass(frozen=True)
class JoinedFeatures:
    """What a classifier of another maker is fed: a narwhals frame or an array, whose last columns are the score."""

    frame: Any

    def all(self) -> Any:
        """Every row, in the library it came in."""
        return self.frame if isinstance(self.frame, np.ndarray) else self.frame.to_native()

    def rows(self, rows: IntArray) -> Any:
        """Some rows."""
        return self.frame[rows] if isinstance(self.frame, np.ndarray) else self.frame[rows.tolist(), :].to_native()


def join_blocks(
    blocks: Sequence[ArrayLike], parsed: Sequence[Sequence[NDArray[Any]]], score: FloatArray
) -> JoinedFeatures:
    """
    Blocks side by side, and the score.

    Frames of one library stay frames (a column that an earlier block already has is left out); anything else
    becomes an array, which must be numeric.
    """
    backends = {backend_of(block) for block in blocks}
    if len(backends) == 1 and None not in backends and all(hasattr(block, "columns") for block in blocks):
        return JoinedFeatures(_join_frames(blocks, score))
    for columns in parsed:
        for j, column in enumerate(columns):
            if column.dtype.kind != "f":
                refuse(
                    "features for a classifier from another library must be numbers, or a frame that it can read",
                    f"text in column {j}",
                    "Pass a frame and a pipeline that encodes it, or `reference`='auto', which takes categories.",
                )
    features = [columns.array if isinstance(columns, WideColumns) else np.column_stack(columns) for columns in parsed]
    return JoinedFeatures(np.column_stack([*features, score]))


def _join_frames(blocks: Sequence[ArrayLike], score: FloatArray) -> Any:
    import narwhals as nw

    for block in blocks:
        names = column_names(block) or ()
        if len(set(names)) < len(names):
            refuse("columns of `X` must have different names", "a repeated one", "Rename them.")
    whole: Any = nw.from_native(blocks[0], eager_only=True)
    for block in blocks[1:]:
        more: Any = nw.from_native(block, eager_only=True)
        for name in more.columns:
            if name not in whole.columns:
                whole = whole.with_columns(more[name])
            elif not (whole[name].to_numpy() == more[name].to_numpy()).all():
                refuse(
                    "columns of the same name must be the same in all levels",
                    f"different values under {name!r}",
                    "Rename one of them.",
                )
    columns = score[:, None] if score.ndim == 1 else score
    for j, column in enumerate(columns.T):
        name = SCORE_COLUMN if columns.shape[1] == 1 else f"{SCORE_COLUMN}_{j}"
        series = nw.new_series(name, column.copy(), backend=whole.implementation)
        whole = whole.with_columns(series)
    return whole
