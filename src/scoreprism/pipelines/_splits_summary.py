"""splits_summary(): means over repeated splits by method and loss, with the noise floor beside the reliability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scoreprism._core.checks import listed, refuse
from scoreprism._core.simplex import FloatArray
from scoreprism._document.result_json import encode
from scoreprism._document.tables import Drawable, TermTable
from scoreprism.pipelines._split_frames import read_long

#: What is averaged.
MEASURES = ("raw", "recalibrated", "reliability_plugin", "noise_floor", "reliability", "lcs")


@dataclass(frozen=True, eq=False, repr=False)
class SplitsSummary(Drawable, TermTable):
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
            columns[f"{measure}_sd"] = [_sd(line) for line in lines]
        return columns

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        heads = ["method", "loss", *(measure.replace("_", " ") for measure in self.values)]
        rows = [
            [
                f"{method}{' *' if method in self.double_use else ''}",
                loss,
                *(f"{lines[i].mean():.4f} ± {_sd(lines[i]):.4f}".replace("-", "−") for lines in self.values.values()),
            ]
            for i, (method, loss) in enumerate(zip(self.methods, self.losses, strict=True))
        ]
        return heads, [[cell.replace("nan", "–") for cell in row] for row in rows]

    def _title(self) -> str:
        return f"Mean ± standard deviation over {max(self.n_splits)} splits"

    def _footer(self) -> list[str]:
        if not self.double_use:
            return []
        return ["* learned from the rows of its calibrator: its reliability is flattered, and may fall below the floor"]


def _sd(values: FloatArray) -> float:
    if values.size < 2 or not np.isfinite(values).all():
        return float("nan")
    return float(values.std(ddof=1))


def splits_summary(
    frame: Any, *, split: str = "split", method: str = "method", loss_column: str = "loss"
) -> SplitsSummary:
    """
    Average what `repeated_splits` found, by method and loss (the table of appendix D, with noise floors).

    Parameters
    ----------
    frame : frame
        What `repeated_splits` returns, or a frame with some of its columns of numbers.
    split, method, loss_column : str, default="split", "method" and "loss"
        What the columns are called.

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
    >>> frame = repeated_splits(model, X, y, n_splits=3, calibrator="platt", random_state=0)
    >>> splits_summary(frame).names
    ('logistic, log', 'logistic, brier')
    """
    table = read_long(frame, {"split": split, "method": method, "loss": loss_column})
    measures = [measure for measure in MEASURES if measure in table.columns]
    if not measures:
        refuse("`frame` must have some of the columns " + ", ".join(MEASURES), listed(table.columns), "Rename them.")
    pairs = [(name, loss) for loss in table.losses for name in table.methods]
    rows = {pair: np.flatnonzero((table.method == pair[0]) & (table.loss == pair[1])) for pair in pairs}
    kept = [pair for pair in pairs if rows[pair].size]
    columns = {measure: table.numbers(measure) for measure in measures}
    columns = {measure: column for measure, column in columns.items() if not np.isnan(column).all()}
    twice: tuple[str, ...] = ()
    if "double_use" in table.columns:
        used = table.numbers("double_use") > 0.0
        twice = tuple(name for name in table.methods if used[table.method == name].any())
    return SplitsSummary(
        names=tuple(f"{name}, {loss}" if loss else name for name, loss in kept),
        _backend=table.backend,
        methods=tuple(name for name, _ in kept),
        losses=tuple(loss for _, loss in kept),
        n_splits=tuple(int(rows[pair].size) for pair in kept),
        values={measure: tuple(column[rows[pair]] for pair in kept) for measure, column in columns.items()},
        double_use=twice,
    )
