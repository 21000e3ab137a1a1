"""From a file to predictions: columns found by name, cast strictly, rows with missing values refused or dropped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from scoreprism._validation import refuse
from scoreprism.cli._binary import Binary, read_binary
from scoreprism.cli._casts import require_probabilities, require_weights, to_feature, to_numbers
from scoreprism.cli._labels import find_label, to_array, to_groups, to_outcomes, to_times
from scoreprism.cli._predictions import Predictions
from scoreprism.cli._scores import Score, find_scores, match_classes, require_order, require_sums
from scoreprism.cli._sources import Source, open_source
from scoreprism.cli._text import Text, read_text
from scoreprism.cli._words import at, count, refuse_column, several, shown
from scoreprism.report import Origin

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Roles:
    """
    Which columns are what, as the user named them.

    Attributes
    ----------
    target : str or None
        Outcomes.
    scores : tuple of str
        Models: a column each, or "p_*" or "p_a,p_b,p_c" for one of several classes.
    features : tuple of str or None
        Features.
    all_features : bool
        Whether every column without another role is a feature.
    reference, latent : str or None
        P(Y=1 | X) and P(Y=1 | Z).
    groups : tuple of str
        Columns that split the rows into segments.
    time, weight : str or None
        Times and weights.
    pos_label : str or None
        The label that scores of one column speak of.
    """

    target: str | None = None
    scores: tuple[str, ...] = ()
    features: tuple[str, ...] | None = None
    all_features: bool = False
    reference: str | None = None
    latent: str | None = None
    groups: tuple[str, ...] = ()
    time: str | None = None
    weight: str | None = None
    pos_label: str | None = None


@dataclass(frozen=True)
class Reading:
    """
    How a file is read.

    Attributes
    ----------
    delimiter : str or None
        Between fields; None looks at the first lines.
    decimal_comma : bool
        Whether "0,5" is a half.
    encoding : str
        Of text.
    drop_missing : bool
        Whether rows with missing values in the columns named are dropped.
    as_given : bool
        Whether a score that falls with its class is taken as it is.
    max_gigabytes : float
        More than this is refused.
    time_format : str or None
        How times are written, as in `datetime.strptime`; None for ISO 8601.
    whole : bool
        Whether nothing need be named, and every column is kept in `Predictions.table`.
    """

    delimiter: str | None = None
    decimal_comma: bool = False
    encoding: str = "utf-8"
    drop_missing: bool = False
    as_given: bool = False
    max_gigabytes: float = 8.0
    time_format: str | None = None
    whole: bool = False


@dataclass
class _Work:
    """A file on its way to predictions."""

    roles: Roles
    reading: Reading
    names: list[str]
    notes: list[str]
    scores: list[Score] = field(default_factory=list)
    features: list[int] = field(default_factory=list)
    columns: dict[int, pl.Series] = field(default_factory=dict)
    labels: list[Any] = field(default_factory=list)

    def at(self, name: str, role: str) -> int:
        """Position of a column; its name must be there, once."""
        if name not in self.names:
            refuse_column(name, self.names, role)
        if self.names.count(name) > 1:
            refuse("a column that is used must have a name of its own", f"{shown(name)} twice", "Rename one of them.")
        return self.names.index(name)

    def cast(self, name: str | None) -> pl.Series | None:
        """A column that was cast."""
        return None if name is None else self.columns[self.names.index(name)]


def read_predictions(source: str, roles: Roles, reading: Reading) -> Predictions:
    """
    Read predictions from a file.

    Parameters
    ----------
    source : str
        Path of a CSV, TSV, Parquet or Arrow file, also packed with gzip; or "-" for stdin.
    roles : Roles
        Which columns are what. `Predictions.table` keeps every column if there is no target, else those used.
    reading : Reading
        How to read it.

    Returns
    -------
    Predictions
        Arrays, notes on what was done, and where they came from.
    """
    opened = open_source(source, reading.max_gigabytes)
    table = _table(opened, reading)
    work = _Work(roles, reading, table.names, [])
    work.roles = _assumed(work)
    used, whole = _positions(work), work.roles.target is None or reading.whole
    frame = table.take(range(len(table.names)) if whole else used)
    del table
    read = frame.height
    if whole:
        _require_names(work.names)
    frame = _without_missing(frame, work, _required(work))
    result = _cast_all(frame, work)
    names = {column: work.names[int(column)] for column in frame.columns}
    origin = Origin(opened.name, opened.sha256, _details(work, read, frame.height))
    return replace(result, table=frame.rename(names), origin=origin, notes=tuple(work.notes))


def _table(opened: Source, reading: Reading) -> Text | Binary:
    if opened.kind != "text" or opened.content is None:
        return read_binary(opened, reading.max_gigabytes)
    return read_text(
        opened.content,
        opened.name,
        encoding=reading.encoding,
        delimiter=reading.delimiter,
        decimal_comma=reading.decimal_comma,
    )


def _assumed(work: _Work) -> Roles:
    """What was named; where nothing was, the columns that language models are judged by."""
    roles = work.roles
    if work.reading.whole or (roles.scores and roles.target is None):
        return roles
    if roles.target is None and not roles.scores and {"confidence", "correct"} <= set(work.names):
        work.notes.append("Columns 'confidence' and 'correct' are taken for score and target.")
        return replace(roles, target="correct", scores=("confidence",))
    if roles.target is None or not roles.scores:
        missing = "--target and --score" if roles.target is None else "--score"
        refuse(
            "a target and a score must be named",
            f"no {missing}",
            f"The columns are {several(work.names)}.",
        )
    return roles


def _positions(work: _Work) -> list[int]:
    """Find every column that was named."""
    roles, found = work.roles, []
    work.scores = find_scores(roles.scores, work.names)
    for score in work.scores:
        found += [work.at(work.names[i], "--score") for i in score.columns]
    single = {"--target": roles.target, "--reference": roles.reference, "--latent": roles.latent}
    single |= {"--time": roles.time, "--weight": roles.weight}
    found += [work.at(name, option) for option, name in single.items() if name is not None]
    found += [work.at(name, "--group") for name in roles.groups]
    for role, name in (("target", roles.target), ("time", roles.time)):
        if name is not None and found.count(work.names.index(name)) > 1:
            refuse(f"the {role} must have no other role", shown(name), "Name another column.")
    taken = set(found)
    work.features = [work.at(name, "--features") for name in dict.fromkeys(roles.features or ())]
    if roles.target in (roles.features or ()):
        refuse("the target must not be a feature", shown(roles.target), "Take it out of --features.")
    if roles.all_features:
        rest = [i for i in range(len(work.names)) if i not in taken and i not in work.features]
        work.features += [work.at(work.names[i], "--all-features") for i in rest]
    judged = {i for score in work.scores for i in score.columns} & set(work.features)
    if judged:
        which = several(work.names[i] for i in sorted(judged))
        work.notes.append(f"A score is among the features, which changes nothing: the reference knows it ({which}).")
    return sorted(taken | set(work.features))


def _require_names(names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        refuse("columns that are written again must have names of their own", f"{several(twice)} twice", "Rename one.")


def _required(work: _Work) -> dict[int, str]:
    """Columns in which no value may be missing, and what they are called in messages; they are cast on the way."""
    roles = work.roles
    required: dict[int, str] = {}
    for score in work.scores:
        required |= {i: f"score {shown(work.names[i])}" for i in score.columns}
    for role in ("target", "reference", "latent", "weight", "time"):
        name = getattr(roles, role)
        if name is not None:
            required[work.names.index(name)] = f"{role} {shown(name)}"
    return required


def _without_missing(frame: pl.DataFrame, work: _Work, required: dict[int, str]) -> pl.DataFrame:
    """Cast what must be there, and refuse or drop rows where it is not."""
    import polars as pl

    keep = np.ones(frame.height, dtype=bool)
    gaps: dict[str, int] = {}
    for i, role in required.items():
        series = _cast(frame.get_column(str(i)), i, role, work)
        if series.null_count():
            missing = series.is_null().to_numpy()
            gaps[role] = int(missing.sum())
            if not work.reading.drop_missing:
                _refuse_missing(role, missing)
            keep &= ~missing
        work.columns[i] = series
    if not gaps:
        return frame
    dropped, mask = int(frame.height - keep.sum()), pl.Series(keep)
    if dropped == frame.height:
        refuse("some row must have no missing value", f"{several(gaps)} missing in all", "Name other columns.")
    places = "; ".join(f"{k} missing in {role}" for role, k in gaps.items())
    work.notes.append(f"{count(dropped, 'row')} of {frame.height} dropped: {places}.")
    work.columns = {i: series.filter(mask) for i, series in work.columns.items()}
    return frame.filter(mask)


def _refuse_missing(role: str, missing: NDArray[np.bool_]) -> None:
    refuse(
        f"{role} must have no missing values",
        f"{int(missing.sum())} of {missing.size} missing, first in {at(np.argmax(missing))}",
        "Fill them in, or pass --drop-missing to leave these rows out.",
    )


def _cast(series: pl.Series, i: int, role: str, work: _Work) -> pl.Series:
    roles = work.roles
    if work.names[i] == roles.target:
        outcomes, work.labels = to_outcomes(series, role)
        return outcomes
    if work.names[i] == roles.time:
        return to_times(series, role, work.reading.time_format)
    return to_numbers(series, role, decimal_comma=work.reading.decimal_comma)


def _cast_all(frame: pl.DataFrame, work: _Work) -> Predictions:
    roles = work.roles
    for kind, name in (("reference", roles.reference), ("latent", roles.latent)):
        if name is not None:
            require_probabilities(work.columns[work.names.index(name)], f"{kind} {shown(name)}")
    if roles.weight is not None:
        require_weights(work.columns[work.names.index(roles.weight)], f"weight {shown(roles.weight)}")
    target = work.cast(roles.target)
    pos_label = _positive(work, target)
    return Predictions(
        table=frame,
        origin=Origin(),
        y=_array(target),
        scores={score.name: _score(score, work, target, pos_label) for score in work.scores},
        X=_features(frame, work),
        reference=_array(work.cast(roles.reference)),
        latent=_array(work.cast(roles.latent)),
        weight=_array(work.cast(roles.weight)),
        segments={
            name: to_groups(frame.get_column(str(work.names.index(name))), f"group {shown(name)}")
            for name in roles.groups
        },
        time=_array(work.cast(roles.time)),
        pos_label=pos_label,
    )


def _array(series: pl.Series | None) -> NDArray[Any] | None:
    import polars as pl

    if series is None:
        return None
    return to_array(series) if series.dtype == pl.String else series.to_numpy()


def _positive(work: _Work, target: pl.Series | None) -> Any:
    """The label that scores of one column speak of; None where there is no doubt, or no such score."""
    given = work.roles.pos_label
    if target is None:
        return given
    labels = target.unique().sort().to_list() if work.reading.drop_missing else work.labels
    role = f"target {shown(work.roles.target)}"
    if len(labels) < 2:
        rule = f"{role} must hold at least two labels"
        refuse(rule, f"{several(labels)} in all {count(len(target), 'row')}", "Nothing can be said of one class alone.")
    work.labels = labels
    alone = [score.name for score in work.scores if len(score.columns) == 1]
    if alone and len(labels) > 2:
        rule = f"{role} must hold two labels for a score of one column"
        refuse(rule, several(labels), "Name a column per class, for example --score 'p_*'.")
    if given is not None:
        return find_label(given, labels, "--pos-label")
    if alone and set(labels) not in ({0, 1}, {-1, 1}):
        rule = f"the label that score {shown(alone[0])} speaks of must be named"
        refuse(rule, f"the labels {several(labels)}", f"Pass --pos-label {shown(labels[-1])}, or the other one.")
    return None


def _score(score: Score, work: _Work, target: pl.Series | None, pos_label: Any) -> Any:
    """Probabilities of one model: an array, or a frame with a column per class."""
    import polars as pl

    role = f"score {shown(score.name)}"
    for i in score.columns:
        require_probabilities(work.columns[i], f"score {shown(work.names[i])}")
    if len(score.columns) > 1:
        classes = list(score.classes) if target is None else match_classes(score, work.labels, work.names)
        frame = pl.DataFrame([work.columns[i].alias(c) for i, c in zip(score.columns, classes, strict=True)])
        require_sums(frame, role)
        return frame
    series = work.columns[score.columns[0]]
    if target is not None and not work.reading.as_given:
        positive = work.labels[-1] if pos_label is None else pos_label
        other = next(label for label in work.labels if label != positive)
        require_order(series, (target == positive).to_numpy(), role, str(other))
    return series.to_numpy()


def _features(frame: pl.DataFrame, work: _Work) -> pl.DataFrame | None:
    import polars as pl

    if not work.features:
        return None
    named, kept = set(work.roles.features or ()), []
    for i in work.features:
        name = work.names[i]
        series, note = to_feature(frame.get_column(str(i)), name, decimal_comma=work.reading.decimal_comma)
        text = series.dtype == pl.String
        if name not in named and text and frame.height > 1 and series.n_unique() == frame.height:
            work.notes.append(f"Column {shown(name)} is left out of the features: its texts all differ, as names do.")
            continue
        if note is not None:
            work.notes.append(note)
        kept.append(series.alias(name))
    work.features = [work.names.index(series.name) for series in kept]
    return pl.DataFrame(kept) if kept else None


def _details(work: _Work, read: int, kept: int) -> dict[str, Any]:
    """What a report says of the file; plain values only."""
    roles = work.roles
    columns: dict[str, Any] = {
        role: getattr(roles, role)
        for role in ("target", "reference", "latent", "time", "weight")
        if getattr(roles, role) is not None
    }
    columns["scores"] = {score.name: _names(work, score.columns) for score in work.scores}
    if work.features:
        columns["features"] = _names(work, work.features)
    if roles.groups:
        columns["groups"] = list(roles.groups)
    return {"rows_read": read, "rows_dropped": read - kept, "rows": kept, "columns": columns}


def _names(work: _Work, positions: Iterable[int]) -> list[str]:
    return [work.names[i] for i in positions]
