"""Tables of repeated splits: reading any such frame, aligning splits, and means by method and loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import abbreviate, parse_choice, refuse, write_plain
from scoreprism._core.frames import backend_of, column_names, columns_of, unwrap
from scoreprism._core.labels import parse_labels
from scoreprism._core.simplex import FloatArray
from scoreprism._document.model import show
from scoreprism._document.result import Result, TermTable, shorten
from scoreprism._document.result_json import encode
from scoreprism._findings.wording import plural

#: Columns that are averaged.
MEASURES = ("raw", "recalibrated", "reliability_plugin", "noise_floor", "reliability", "lcs")
#: Columns of a table of splits in print.
_SHOWN = ("split", "method", "loss", "raw", "recalibrated", "reliability", "noise_floor")


class LongTable(NamedTuple):
    """A long table: one entry per row in every array."""

    split: NDArray[Any]
    method: NDArray[Any]
    loss: NDArray[Any]
    columns: dict[str, Any]
    backend: str | None

    @property
    def methods(self) -> list[str]:
        """Methods in order of appearance."""
        return list(dict.fromkeys(self.method.tolist()))

    @property
    def losses(self) -> list[str]:
        """Losses in order of appearance; one without a name if there is no such column."""
        return list(dict.fromkeys(self.loss.tolist()))

    def parse_metric(self, name: str) -> str:
        """The name of a column of numbers."""
        if name in self.columns:
            return name
        return parse_choice(name, [key for key in self.columns if key not in ("split", "method", "loss")], "metric")

    def get_numbers(self, name: str) -> FloatArray:
        """A column of numbers; NaN where one is missing."""
        column = unwrap(self.columns[name])
        try:
            values = np.asarray(column.values).astype(np.float64)
        except (TypeError, ValueError):
            refuse(f"column {name!r} must hold numbers", "something else", "Convert it first.")
        return values if column.missing is None else np.where(column.missing, np.nan, values)

    def find_double_use(self) -> list[str]:
        """Methods that were fitted on the rows of their calibrator."""
        if "double_use" not in self.columns:
            return []
        twice = self.get_numbers("double_use") > 0.0
        return [name for name in self.methods if twice[self.method == name].any()]

    def select_losses(self, loss: str | None) -> list[str]:
        """The requested losses: one, or all by default."""
        return self.losses if loss is None else [parse_choice(loss, self.losses, "loss")]


def read_long(frame: Any, names: dict[str, str]) -> LongTable:
    """Parse a table with columns for splits, methods and, optionally, losses."""
    frame = frame.to_frame() if isinstance(frame, SplitTable) else frame
    parts = columns_of(frame) if backend_of(frame) is not None else None
    if parts is None:
        remedy = "Pass what repeated_splits returns, or a frame like it."
        refuse("`frame` must be a dataframe of pandas, polars or pyarrow", type(frame).__name__, remedy)
    heads = [str(name) for name in column_names(frame) or range(len(parts))]
    if len(set(heads)) < len(heads):
        refuse("`frame` must have columns of different names", "a repeated one", "Rename them.")
    columns = dict(zip(heads, parts, strict=True))
    missing = [name for key, name in names.items() if name not in columns and key != "loss"]
    if missing:
        remedy = "Say what they are called, for example split='seed'."
        refuse(
            f"`frame` must have the columns {abbreviate(map(repr, missing))}",
            f"the columns {abbreviate(heads, 20)}",
            remedy,
        )
    split, method = (parse_labels(columns[names[key]], f"column {names[key]!r}") for key in ("split", "method"))
    loss = np.full(split.shape, "", dtype=object)
    if names["loss"] in columns:
        loss = _read_words(parse_labels(columns[names["loss"]], f"column {names['loss']!r}"))
    return LongTable(split, _read_words(method), loss, columns, backend_of(frame))


def make_label(method: str, loss: str) -> str:
    """Method and loss, if there are losses."""
    return f"{method}, {loss}" if loss else method


def _read_words(labels: NDArray[Any]) -> NDArray[Any]:
    return np.array([str(label) for label in labels.tolist()], dtype=object)


def align_splits(
    table: LongTable, metric: str, loss: str, methods: Sequence[str], *, infinite: bool = False
) -> dict[str, FloatArray]:
    """A metric of several methods on the same splits, each split once."""
    values, inside = table.get_numbers(metric), table.loss == loss
    where = f" of the {loss} loss" if loss else ""
    splits = list(dict.fromkeys(table.split[inside].tolist()))
    by_method = {}
    for method in methods:
        rows = np.flatnonzero(inside & (table.method == method))
        place = {split: row for row, split in zip(rows.tolist(), table.split[rows].tolist(), strict=True)}
        if len(place) < rows.size:
            what = f"{rows.size} rows for {len(place)} splits of {method!r}{where}"
            refuse("`frame` must hold every split, method and loss once", what, "Pass one run of repeated_splits.")
        absent = [split for split in splits if split not in place]
        if absent:
            what = f"{len(absent)} of {len(splits)} splits missing for {method!r}{where} ({abbreviate(absent)})"
            refuse("every method must have every split", what, "Drop these splits, or the method.")
        column = values[[place[split] for split in splits]]
        if infinite and np.isinf(column).any() and not np.isnan(column).any():
            continue
        bad = np.flatnonzero(~np.isfinite(column))
        if bad.size:
            what = f"{write_plain(column[bad[0]])} in {bad.size} of {column.size} splits of {method!r}{where}"
            remedy = "Pass `clip`=1e-6 to repeated_splits, choose another `loss`= or metric, or drop these splits."
            refuse(f"{metric} must be finite", what, remedy)
        by_method[method] = column
    return by_method


@dataclass(frozen=True, eq=False, repr=False)
class SplitTable(Result):
    """
    The measures of methods on every split: one line for each split, method and loss.

    Made by `repeated_splits`, which documents the columns.

    Attributes
    ----------
    columns : dict of str to list
        The table, column by column.

    Examples
    --------
    >>> from scoreprism.pipelines import SplitTable
    >>> table = SplitTable({"split": [0, 1], "method": ["a", "a"], "loss": ["log"] * 2, "raw": [0.5, 0.7]}, None)
    >>> table.methods, table.summary().terms
    (('a',), {'a, log': 0.6})
    """

    columns: dict[str, list[Any]]
    _backend: str | None

    @property
    def methods(self) -> tuple[str, ...]:
        """Methods in order: models, then ensembles."""
        return tuple(dict.fromkeys(self.columns["method"]))

    @property
    def losses(self) -> tuple[str, ...]:
        """Losses in order."""
        return tuple(dict.fromkeys(self.columns["loss"]))

    @property
    def n_splits(self) -> int:
        """Number of splits."""
        return len(set(self.columns["split"]))

    def summary(self) -> SplitsSummary:
        """
        Means and standard deviations by method and loss.

        Returns
        -------
        SplitsSummary
            As from `splits_summary`.
        """
        return splits_summary(self)

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """
        Draw the reliability of every method against its noise floor.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        **options : object
            Options of ``SplitsSummary.plot``.

        Returns
        -------
        display
            With its axes and artists.
        """
        return self.summary().plot(ax=ax, **options)

    def _columns(self) -> dict[str, list[Any]]:
        return self.columns

    def _shown_columns(self) -> dict[str, list[Any]]:
        return shorten({name: self.columns[name] for name in _SHOWN if name in self.columns})

    def _title(self) -> str:
        losses = f"the {self.losses[0]} loss" if len(self.losses) == 1 else f"{len(self.losses)} losses"
        return f"{plural(self.n_splits, 'split')} of {plural(len(self.methods), 'method')} under {losses}"


@dataclass(frozen=True, eq=False, repr=False)
class SplitsSummary(TermTable):
    """
    Means and standard deviations over repeated splits.

    Made by `splits_summary`.

    Attributes
    ----------
    names : tuple of str
        Methods with their losses, one for each line.
    methods, losses : tuple of str
        Method and loss of each line.
    n_splits : tuple of int
        Number of splits of each line.
    values : dict of str to tuple of arrays
        For each measure the numbers of all splits, line by line.
    double_use : tuple of str
        Methods that learned from the rows of their calibrator.

    Examples
    --------
    >>> import polars as pl
    >>> from scoreprism.pipelines import splits_summary
    >>> frame = pl.DataFrame({"split": [0, 1], "method": ["a", "a"], "loss": ["log", "log"], "raw": [0.5, 0.7]})
    >>> splits_summary(frame).to_frame().select("method", "raw", "raw_sd").rows()
    [('a', 0.6, 0.14142135623730948)]
    """

    methods: tuple[str, ...]
    losses: tuple[str, ...]
    n_splits: tuple[int, ...]
    values: dict[str, tuple[FloatArray, ...]]
    double_use: tuple[str, ...]

    @property
    def terms(self) -> dict[str, float]:
        """Means of the first measure by name."""
        first = next(iter(self.values.values()))
        return {name: float(column.mean()) for name, column in zip(self.names, first, strict=True)}

    def to_dict(self) -> dict[str, Any]:
        """
        The table as plain Python objects.

        Returns
        -------
        dict
            Name → means and standard deviations. Ready for JSON: numbers that are not known are None, infinite ones
            the word "inf".
        """
        columns = self._columns()
        lines = zip(*columns.values(), strict=True)
        return {
            name: {key: None if value != value else encode(value) for key, value in zip(columns, line, strict=True)}
            for name, line in zip(self.names, lines, strict=True)
        }

    def _columns(self) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = {"method": list(self.methods), "loss": list(self.losses)}
        columns["n_splits"] = list(self.n_splits)
        for measure, lines in self.values.items():
            columns[measure] = [float(line.mean()) for line in lines]
            columns[f"{measure}_sd"] = [find_deviation(line) for line in lines]
        return columns

    def _shown_columns(self) -> dict[str, list[Any]]:
        starred = [f"{method}{' *' if method in self.double_use else ''}" for method in self.methods]
        columns: dict[str, list[Any]] = {"method": starred, "loss": list(self.losses)}
        for measure, lines in self.values.items():
            columns[measure] = [f"{show(line.mean(), 'loss')} ± {show(find_deviation(line), 'loss')}" for line in lines]
        return columns

    def _title(self) -> str:
        return f"Mean ± standard deviation over {max(self.n_splits)} splits"

    def _footer(self) -> list[str]:
        if not self.double_use:
            return []
        return ["* learned from the rows of its calibrator: its reliability is flattered, and may fall below the floor"]


def find_deviation(values: FloatArray) -> float:
    """Standard deviation of some numbers; NaN for a single one, or where some are not finite."""
    return float(values.std(ddof=1)) if values.size > 1 and np.isfinite(values).all() else math.nan


def splits_summary(
    frame: Any, *, split: str = "split", method: str = "method", loss_column: str = "loss"
) -> SplitsSummary:
    """
    Average the results of `repeated_splits` by method and loss (the table of appendix D, with noise floors).

    Parameters
    ----------
    frame : SplitTable or frame
        The result of `repeated_splits`, or a frame with some of its columns of numbers.
    split, method, loss_column : str, default="split", "method" and "loss"
        Names of the columns.

    Returns
    -------
    SplitsSummary
        A line for each method and loss; its ``plot`` shows reliability against the noise floor.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from scoreprism.pipelines import repeated_splits, splits_summary
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 1))
    >>> y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
    >>> model = {"logistic": LogisticRegression()}
    >>> table = repeated_splits(model, X, y, n_splits=3, calibrator="platt", random_state=0)
    >>> splits_summary(table).names
    ('logistic, log', 'logistic, brier')
    """
    table = read_long(frame, {"split": split, "method": method, "loss": loss_column})
    measures = [measure for measure in MEASURES if measure in table.columns]
    if not measures:
        refuse(
            "`frame` must have some of the columns " + ", ".join(MEASURES), abbreviate(table.columns), "Rename them."
        )
    pairs = [(name, loss) for loss in table.losses for name in table.methods]
    rows = {pair: np.flatnonzero((table.method == pair[0]) & (table.loss == pair[1])) for pair in pairs}
    nonempty = [pair for pair in pairs if rows[pair].size]
    columns = {measure: table.get_numbers(measure) for measure in measures}
    columns = {measure: column for measure, column in columns.items() if not np.isnan(column).all()}
    return SplitsSummary(
        names=tuple(make_label(name, loss) for name, loss in nonempty),
        _backend=table.backend,
        methods=tuple(name for name, _ in nonempty),
        losses=tuple(loss for _, loss in nonempty),
        n_splits=tuple(int(rows[pair].size) for pair in nonempty),
        values={measure: tuple(column[rows[pair]] for pair in nonempty) for measure, column in columns.items()},
        double_use=tuple(table.find_double_use()),
    )
