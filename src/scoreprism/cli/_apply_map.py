"""Recalibrated columns beside those of a file, and the file written back."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from scoreprism._core.atomic_files import system_error, write_with
from scoreprism._core.checks import listed, refuse
from scoreprism.cli._output import Voice, emit_bytes
from scoreprism.cli._words import quote

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scoreprism.calibrators import Calibrator
    from scoreprism.cli._read_sample import ReadTable

#: Cells that a spreadsheet takes for a formula, as in `scoreprism.report._tables`,
_RUN = r"^[=+\-@\t\r\n＝＋－＠]"
#: unless they are a sign alone, or a number as people write them: "-inf", "-5 %", "+1 234,5", "-1'000".
_NUMBER = (
    r"^[+-]$|^[+-]?(?i:inf|infinity|nan)$"
    r"|^[+-]?[.,]?[0-9][0-9.,'_ \u00a0\u202f]*([eE][+-]?[0-9]+)?[ \u00a0\u202f]?%?$"
)
_SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}


def require_ending(target: Path | None) -> str:
    """The ending of a table's name, seen before any work is done."""
    ending = ".csv" if target is None else target.suffix.lower()
    if ending not in (*_SEPARATORS, ".parquet"):
        refuse("output must end in .csv, .tsv, .txt or .parquet, or be -", repr(str(target)), "For example 'out.csv'.")
    return ending


def holds_text(table: pl.DataFrame) -> bool:
    """Whether a file held its numbers as text, so that what is added may be text too."""
    return all(dtype == pl.String for dtype in table.dtypes)


def add_recalibrated(
    map_: Calibrator, data: ReadTable, score: str, column: str | None, voice: Voice, *, decimal_comma: bool
) -> pl.DataFrame:
    """The rows of a file with recalibrated scores beside them."""
    if map_.kind != "probability":
        refuse("the map must be one of probabilities", f"kind {map_.kind!r}", "Apply it in Python, with calibrate().")
    given, labels = next(iter(data.scores.values())), _labels_of(map_)
    if isinstance(given, pl.DataFrame):
        if sorted(labels) != sorted(given.columns):
            refuse(f"scores must be those of the classes {listed(labels)}", listed(given.columns), "Correct --score.")
        law = _calibrate(map_, given.select(labels).to_numpy(), voice)
        new = {f"{column or _stem(score)}_{label}": law[:, j] for j, label in enumerate(labels)}
    else:
        if len(labels) > 2:
            got = f"one, for {len(labels)} classes"
            refuse("scores must have a column for each class of the map", got, "For example --score 'p_*'.")
        new = {column or f"{score}_recalibrated": _calibrate(map_, given, voice)}
    there = [name for name in new if name in data.table.columns]
    if there:
        refuse("new columns must have new names", f"{listed(map(repr, there))}, which exist", "Give --column NAME.")
    made = [pl.Series(name, values, nan_to_null=True) for name, values in new.items()]
    if decimal_comma:
        made = [pl.Series(s.name, [_with_comma(value) for value in s.to_list()], dtype=pl.String) for s in made]
    return data.table.with_columns(made)


def require_same_score(map_: Calibrator, data: ReadTable, voice: Voice, *, any_score: bool) -> None:
    """Refuse a score of another name than that of the map's."""
    found, labels = next(iter(data.scores.values())), _labels_of(map_)
    used = next(iter(data.origin.details["columns"]["scores"].values()))
    known = None if map_.provenance_ is None else map_.provenance_.score
    if known is None:
        voice.say(f"note: the map does not say which column it was fitted on; {listed(map(quote, used))} is believed")
        return
    if len(labels) == 2:  # of two columns the second says it all
        if isinstance(found, pl.DataFrame) and labels[1] in found.columns:
            used = [used[found.columns.index(labels[1])]]
        known = known[-1:]
    if sorted(used) == sorted(known):
        return
    fitted_on, got = listed(map(quote, known)), listed(map(quote, used))
    if any_score:
        voice.say(f"note: the map was fitted on {fitted_on} and is applied to {got}")
        return
    remedy = "Correct --score, or pass --any-score if it is the same score under another name."
    refuse(f"the map must be applied to the score it was fitted on, {fitted_on}", got, remedy)


def _labels_of(map_: Calibrator) -> list[str]:
    """Labels of the target, as text; a map of two classes may be one of their codes."""
    if map_.provenance_ is not None:
        return list(map_.provenance_.labels)
    return [str(label) for label in map_.classes_.tolist()]


def _calibrate(map_: Calibrator, scores: NDArray[Any], voice: Voice) -> NDArray[Any]:
    """Recalibrated probabilities in the shape of the scores, NaN where one of a row is missing."""
    two = len(map_.classes_) == 2
    seen = scores[:, 1] if two and scores.ndim == 2 else scores
    here = ~np.isnan(seen.reshape(len(seen), -1)).any(axis=1)
    law = np.full(seen.shape, np.nan)
    law[here] = map_.calibrate(seen[here]) if two else map_.predict_proba(_name_columns(map_, seen[here]))
    _tell_outside(map_, seen[here], voice)
    return np.column_stack([1.0 - law, law]) if scores.ndim > seen.ndim else law


def _tell_outside(map_: Calibrator, scores: NDArray[Any], voice: Voice) -> None:
    """Say how many scores the map extrapolates to."""
    if map_.provenance_ is None:
        return
    outside = int(map_.provenance_.outside(scores).sum())
    if outside:
        ranges = map_.provenance_.ranges
        seen = f", {ranges[0][0]:.6g} to {ranges[0][1]:.6g}" if len(ranges) == 1 else ""
        rows = "1 row has" if outside == 1 else f"{outside} of {len(scores)} rows have"
        voice.say(f"note: {rows} a score outside of the range that the map was fitted on{seen}; it extrapolates there")


def _with_comma(value: float | None) -> str | None:
    return None if value is None else repr(value).replace(".", ",")


def _stem(score: str) -> str:
    """What names of several new columns start with."""
    stem = score.replace("*", "").strip("_") if "," not in score else ""
    return f"{stem}_recalibrated" if stem else "recalibrated"


def _name_columns(map_: Calibrator, table: NDArray[Any]) -> Any:
    """Columns under the names the map was fitted with, if it was with any."""
    names = getattr(map_, "feature_names_in_", None)
    return table if names is None else pl.DataFrame(table, schema=names.tolist())


def write_frame(
    frame: pl.DataFrame, target: Path | None, separator: str | None, voice: Voice, *, overwrite: bool
) -> None:
    """Write rows, whole or not at all."""
    ending = require_ending(target)
    safe, count = (frame, 0) if ending == ".parquet" else neutralise_formulas(frame)
    if count:
        cells = "1 cell has" if count == 1 else f"{count} cells have"
        voice.say(f"note: {cells} an apostrophe in front: a spreadsheet would run what stands there")
    sign = "\t" if ending == ".tsv" or separator in ("\\t", "tab") else separator or _SEPARATORS.get(ending, ",")

    def write(where: Path) -> None:
        if ending != ".parquet":
            safe.write_csv(where, separator=sign)
            return
        try:
            safe.write_parquet(where)
        except pl.exceptions.PolarsError as error:  # a full disk too
            raise system_error(error) or error from None

    try:
        if target is None:
            emit_bytes(safe.write_csv(separator=sign))
        else:
            voice.say(f"wrote {write_with(target, write, overwrite=overwrite)}")
    except pl.exceptions.PolarsError as error:
        refuse("columns must be such that the format can hold them", str(error), "Write to a .parquet file.")


def neutralise_formulas(frame: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """A frame of which a spreadsheet runs nothing: formulas get an apostrophe."""
    columns, count = [], 0
    for series in frame.get_columns():
        text = series.cast(pl.String) if series.dtype in (pl.Categorical, pl.Enum) else series
        if text.dtype == pl.String:
            bad = (text.str.contains(_RUN) & ~text.str.contains(_NUMBER)).fill_null(value=False)
            if bad.any():
                count += int(bad.sum())
                text = text.zip_with(~bad, "'" + text)
        columns.append(text.alias(_neutralise_name(series.name)))
    return pl.DataFrame(columns), count


def _neutralise_name(name: str) -> str:
    return f"'{name}" if re.match(_RUN, name) and not re.match(_NUMBER, name) else name
