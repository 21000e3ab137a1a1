"""Adding recalibrated columns to a file, and writing it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from scoreprism._core.atomic_files import find_system_error, write_with
from scoreprism._core.checks import abbreviate, quote, refuse
from scoreprism._document.csv_text import FORMULA_SIGNS
from scoreprism.cli._output import emit_bytes, say

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scoreprism.calibrators import Calibrator
    from scoreprism.cli._read_sample import ReadTable

#: Cells that a spreadsheet takes for a formula,
_RUN = rf"^[{re.escape(''.join(FORMULA_SIGNS))}\t\r\n]"
#: unless they are a sign alone, or a number as people write them: "-inf", "-5 %", "+1 234,5", "-1'000".
_NUMBER = (
    r"^[+-]$|^[+-]?(?i:inf|infinity|nan)$"
    r"|^[+-]?[.,]?[0-9][0-9.,'_ \u00a0\u202f]*([eE][+-]?[0-9]+)?[ \u00a0\u202f]?%?$"
)
_SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}


def require_ending(target: Path | None) -> str:
    """The ending of a table's name; others are refused, before any work is done."""
    ending = ".csv" if target is None else target.suffix.lower()
    if ending not in (*_SEPARATORS, ".parquet"):
        refuse(
            "the output file must end in .csv, .tsv, .txt or .parquet, or be -",
            repr(str(target)),
            "For example 'out.csv'.",
        )
    return ending


def holds_text(table: pl.DataFrame) -> bool:
    """Whether all columns are text, so that new ones may be text too."""
    return all(dtype == pl.String for dtype in table.dtypes)


def add_recalibrated(
    map_: Calibrator, data: ReadTable, score: str, column: str | None, *, decimal_comma: bool
) -> pl.DataFrame:
    """Add recalibrated scores to the rows of a file."""
    if map_.kind != "probability":
        refuse("the map must be one of probabilities", f"kind {map_.kind!r}", "Apply it in Python, with calibrate().")
    given, labels = next(iter(data.scores.values())), _labels_of(map_)
    if isinstance(given, pl.DataFrame):
        if sorted(labels) != sorted(given.columns):
            refuse(
                f"--score must name the classes of the map, {abbreviate(labels)}",
                abbreviate(given.columns),
                "Correct --score.",
            )
        law = _calibrate(map_, given.select(labels).to_numpy())
        start = "" if "," in score else score.replace("*", "").strip("_")
        start = column or (f"{start}_recalibrated" if start else "recalibrated")
        new = {f"{start}_{label}": law[:, j] for j, label in enumerate(labels)}
    elif len(labels) > 2:
        got = f"one column for {len(labels)} classes"
        refuse("--score must name a column for each class of the map", got, "For example --score 'p_*'.")
    else:
        new = {column or f"{score}_recalibrated": _calibrate(map_, given)}
    taken = [name for name in new if name in data.table.columns]
    if taken:
        refuse("new columns must have new names", f"{abbreviate(map(repr, taken))}, which exist", "Pass --column NAME.")
    columns = [pl.Series(name, values, nan_to_null=True) for name, values in new.items()]
    if decimal_comma:
        columns = [column.cast(pl.String).str.replace(".", ",", literal=True) for column in columns]
    return data.table.with_columns(columns)


def require_same_score(map_: Calibrator, data: ReadTable, *, any_score: bool) -> None:
    """Refuse a score with another name than the one the map was fitted on."""
    scores, labels = next(iter(data.scores.values())), _labels_of(map_)
    used = next(iter(data.origin.details["columns"]["scores"].values()))
    known = None if map_.provenance_ is None else map_.provenance_.score
    if known is None:
        say(f"note: the map does not say which column it was fitted on; {abbreviate(map(quote, used))} is assumed")
        return
    if len(labels) == 2:  # the second of two columns is enough
        if isinstance(scores, pl.DataFrame) and labels[1] in scores.columns:
            used = [used[scores.columns.index(labels[1])]]
        known = known[-1:]
    if sorted(used) == sorted(known):
        return
    fitted_on, got = abbreviate(map(quote, known)), abbreviate(map(quote, used))
    if not any_score:
        remedy = "Correct --score, or pass --any-score if it is the same score under another name."
        refuse(f"the map must be applied to the score it was fitted on, {fitted_on}", got, remedy)
    say(f"note: the map was fitted on {fitted_on} and is applied to {got}")


def _labels_of(map_: Calibrator) -> list[str]:
    """Labels of the target, as text; a map of two classes may be one of their codes."""
    if map_.provenance_ is not None:
        return list(map_.provenance_.labels)
    return [str(label) for label in map_.classes_.tolist()]


def _calibrate(map_: Calibrator, scores: NDArray[Any]) -> NDArray[Any]:
    """Recalibrated probabilities in the shape of the scores, NaN where one of a row is missing."""
    two = len(map_.classes_) == 2
    seen = scores[:, 1] if two and scores.ndim == 2 else scores
    here = ~np.isnan(seen.reshape(len(seen), -1)).any(axis=1)
    law, there = np.full(seen.shape, np.nan), seen[here]
    if two:
        law[here] = map_.calibrate(there)
    else:
        names = getattr(map_, "feature_names_in_", None)  # those of the fit, if it had any
        law[here] = map_.predict_proba(there if names is None else pl.DataFrame(there, schema=names.tolist()))
    if map_.provenance_ is not None:
        _say_outside(map_.provenance_, there)
    return np.column_stack([1.0 - law, law]) if scores.ndim > seen.ndim else law


def _say_outside(provenance: Any, scores: NDArray[Any]) -> None:
    """Print how many scores the map extrapolates to."""
    outside, ranges = int(provenance.outside(scores).sum()), provenance.ranges
    if outside:
        seen = f", {ranges[0][0]:.6g} to {ranges[0][1]:.6g}" if len(ranges) == 1 else ""
        rows = "1 row has" if outside == 1 else f"{outside} of {len(scores)} rows have"
        say(f"note: {rows} a score outside the range that the map was fitted on{seen}; it extrapolates there")


def write_frame(frame: pl.DataFrame, target: Path | None, separator: str | None, *, overwrite: bool) -> None:
    """Write rows, whole or not at all."""
    ending = require_ending(target)
    safe, count = (frame, 0) if ending == ".parquet" else neutralise_formulas(frame)
    if count:
        cells = "1 cell gets" if count == 1 else f"{count} cells get"
        say(f"note: {cells} a leading apostrophe, because a spreadsheet would run the content as a formula")
    sign = "\t" if ending == ".tsv" or separator in ("\\t", "tab") else separator or _SEPARATORS.get(ending, ",")

    def write(where: Path) -> None:
        try:
            if ending == ".parquet":
                safe.write_parquet(where)
            else:
                safe.write_csv(where, separator=sign)
        except pl.exceptions.PolarsError as error:  # a full disk too
            raise find_system_error(error) or error from None

    try:
        if target is None:
            emit_bytes(safe.write_csv(separator=sign))
        else:
            say(f"wrote {write_with(target, write, overwrite=overwrite)}")
    except pl.exceptions.PolarsError as error:
        refuse("the format must be able to hold every column", str(error), "Write to a .parquet file.")


def neutralise_formulas(frame: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Put an apostrophe before every cell and name that a spreadsheet would run; returns the number of cells too."""
    columns, count = [], 0
    for series in frame.get_columns():
        text = series.cast(pl.String) if series.dtype in (pl.Categorical, pl.Enum) else series
        if text.dtype == pl.String:
            bad = (text.str.contains(_RUN) & ~text.str.contains(_NUMBER)).fill_null(value=False)
            if bad.any():
                count += int(bad.sum())
                text = text.zip_with(~bad, "'" + text)
        is_formula = re.match(_RUN, series.name) and not re.match(_NUMBER, series.name)
        columns.append(text.alias(f"'{series.name}" if is_formula else series.name))
    return pl.DataFrame(columns), count
