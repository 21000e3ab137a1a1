"""Columns of scores: one column is a model of two classes, several that belong together one of many classes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import SUM_TOLERANCE, refuse
from scoreprism.cli._labels import match_label
from scoreprism.cli._words import at, count, refuse_column, several, shown

if TYPE_CHECKING:
    import polars as pl

#: How many standard errors below one half an area under the curve must be to be no accident.
_SURE = 4.0
_JOINTS = "_-. :/"


@dataclass(frozen=True)
class Score:
    """A model, as the user named it."""

    name: str  # what it is called
    columns: tuple[int, ...]  # positions in the file
    classes: tuple[str, ...] = ()  # what the columns speak of, as far as their names tell; empty for one column
    listed: bool = False  # whether the columns were listed, so that their common start is only a guess


def find_scores(given: Sequence[str], names: Sequence[str]) -> list[Score]:
    """Find the columns of each model."""
    found: list[Score] = []
    for word in given:
        score = _find(word, names)
        if any(other.columns == score.columns for other in found):
            refuse("a score must be named once", f"{shown(word)} twice", "Take one of them out.")
        if any(other.name == score.name for other in found):
            score = Score(word, score.columns, score.classes, score.listed)
        found.append(score)
    return found


def find_models(given: Sequence[str], names: Sequence[str], apart: Collection[int] = ()) -> list[Score]:
    """Find models of one column each."""
    found: dict[int, Score] = {}
    for word in given:
        if word in names or word.count("*") != 1:
            columns = _find(word, names, "--models").columns
        else:
            columns = tuple(i for i in _fitting(word, names)[0] if i not in apart)
        if not columns:
            got = f"{shown(word)}, which fits none without another role"
            refuse("--models must fit a column", got, f"The columns are {several(names)}.")
        found |= {i: Score(names[i], (i,)) for i in columns if i not in apart}
    return list(found.values())


def _find(word: str, names: Sequence[str], option: str = "--score") -> Score:
    if word in names:
        return Score(word, (names.index(word),))
    if word.count("*") == 1:
        return _matching(word, names)
    if "*" in word:
        refuse("a pattern of scores must have one *", shown(word), "For example 'p_*'.")
    parts = [part if part in names else part.strip() for part in word.split(",")]
    if len(parts) == 1:
        refuse_column(word, names, option)
    for part in parts:
        if part not in names:
            refuse_column(part, names, f"each name in {option}")
    if len(set(parts)) < len(parts):
        refuse("a list of scores must name each column once", shown(word), "Take the second one out.")
    common = _shared_start(parts)
    cut = max((common.rfind(joint) + 1 for joint in _JOINTS), default=0) or len(common)
    if any(len(part) == cut for part in parts):
        cut = 0
    columns = tuple(names.index(part) for part in parts)
    return Score(common[:cut].rstrip(_JOINTS) or word, columns, tuple(part[cut:] for part in parts), listed=True)


def _shared_start(texts: Sequence[str]) -> str:
    first, last = min(texts), max(texts)  # what these share, all between them do
    same = next((i for i, sign in enumerate(first) if i >= len(last) or last[i] != sign), len(first))
    return first[:same]


def _fitting(word: str, names: Sequence[str]) -> tuple[list[int], str, str]:
    """Positions of the columns that fit a pattern, and what stands before and after its star."""
    before, _, after = word.partition("*")
    least = len(before) + len(after)
    return (
        [i for i, n in enumerate(names) if n.startswith(before) and n.endswith(after) and len(n) > least],
        before,
        after,
    )


def _matching(word: str, names: Sequence[str]) -> Score:
    fits, before, after = _fitting(word, names)
    if len(fits) < 2:
        got = f"{shown(word)}, which fits {count(len(fits), 'column')}"
        hint = "If each column is a model of its own, pass --models. " if fits else ""
        refuse("a pattern of scores must fit a column of each class", got, f"{hint}The columns are {several(names)}.")
    classes = tuple(names[i][len(before) : len(names[i]) - len(after)] for i in fits)
    return Score(before.rstrip(_JOINTS) or after.lstrip(_JOINTS) or word, tuple(fits), classes)


def match_classes(score: Score, labels: Sequence[Any], names: Sequence[str]) -> list[str]:
    """The label that each column of a model speaks of."""
    for classes in _readings(score, names):
        meant = [match_label(text, labels) for text in classes]
        if set(labels) <= {label for label in meant if label is not None}:
            final = [text if label is None else str(label) for text, label in zip(classes, meant, strict=True)]
            if len(set(final)) == len(final) and _same_kind(final, labels):
                break
    else:
        _refuse_classes(score, labels)
    return final


def _refuse_classes(score: Score, labels: Sequence[Any]) -> NoReturn:
    refuse(
        f"the columns of score {shown(score.name)} must be named after the labels of the target",
        f"columns for {several(score.classes)} beside the labels {several(labels)}",
        "If each column is a model of its own, name them with --models instead of --score; else rename the columns, or "
        "list those of this model: --score 'p_a,p_b,p_c'.",
    )


def _readings(score: Score, names: Sequence[str]) -> list[tuple[str, ...]]:
    """What the names of listed columns may say: each start that they share may be the fixed part."""
    if not score.listed:
        return [score.classes]
    columns = [names[i] for i in score.columns]
    longest = len(_shared_start(columns))
    return [score.classes, *(tuple(name[cut:] for name in columns) for cut in range(longest + 1))]


def _same_kind(final: Sequence[str], labels: Sequence[Any]) -> bool:
    """A class that never occurs must be a number where the labels are numbers."""
    return isinstance(labels[0], str) or all(match_label(text, [*labels, *_whole(text)]) is not None for text in final)


def _whole(text: str) -> list[int]:
    return [int(text)] if text.isascii() and text.lstrip("+-").isdecimal() else []


def possible_classes(score: Score, names: Sequence[str]) -> set[str]:
    """Every text that a column of a model may speak of."""
    if len(score.columns) == 1:
        return set()
    return {text for classes in _readings(score, names) for text in classes if text.strip()}


def require_sums(frame: pl.DataFrame, role: str, rows: NDArray[np.intp]) -> None:
    """Refuse rows of probabilities that do not sum to one."""
    sums = frame.to_numpy().sum(axis=1)
    bad = np.flatnonzero(np.abs(sums - 1.0) > SUM_TOLERANCE)
    if bad.size:
        refuse(
            f"{role} must have rows that sum to 1 within {SUM_TOLERANCE:g}",
            f"{float(sums[bad[0]]):.6g} in {at(rows[bad[0]])} ({bad.size} of {sums.size} rows)",
            "Check that the columns of all classes are named; round less, or divide each row by its sum.",
        )


def require_order(score: pl.Series, positive: NDArray[np.bool_], role: str, other: str) -> None:
    """Refuse a score that is high where the positive label is rare: the classes may be swapped."""
    n, ones = positive.size, int(np.count_nonzero(positive))
    if not 0 < ones < n:
        return
    ranks = score.rank("average").to_numpy()
    zeros, middle = n - ones, (n + 1) / 2.0
    # the sum of the ranks of a random draw of rows without replacement: exact under ties
    spread = np.sqrt(ones * zeros / (n * (n - 1.0)) * np.square(ranks - middle).sum())
    excess = ranks[positive].sum() - ones * middle
    refuse_reversed(excess, spread, ones * zeros, role, other)


def refuse_reversed(excess: float, spread: float, pairs: float, role: str, other: str) -> None:
    """Refuse ranks of events that are too low to be an accident."""
    if spread > 0 and excess < -_SURE * spread:
        area = 0.5 + excess / pairs
        refuse(
            f"{role} must be higher where the positive label is more frequent",
            f"an area under the ROC curve of {area:.3f}",
            f"If it speaks of the other class, pass --pos-label {shown(other)}; if it is meant, pass --as-given.",
        )
