"""Checks of scores against outcomes: classes, sums, order; and columns that look like scores of other models."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scoreprism._core.checks import SUM_TOLERANCE, quote, refuse
from scoreprism.cli._casts import is_integer, match_label
from scoreprism.cli._column_roles import JOINTS, Score
from scoreprism.cli._words import list_names, name_row

#: An area under the curve this many standard errors below one half is no accident.
_NO_ACCIDENT = 4.0
#: Words that names of scores begin or end with.
WORDS = frozenset(
    ("hat", "model", "p", "pd", "phat", "pr", "pred", "predicted", "prediction", "preds", "prob", "proba",
     "probability", "probs", "score", "scores", "yhat")
)  # fmt: skip
_BETWEEN_WORDS = re.compile(f"[{re.escape(JOINTS)}]+")
#: A column ranks outcomes as well as the score if its area under the curve is above one half by this many standard
#: errors and by this share of the score's lead, and if its rank correlation with the score is this high; besides, it is
#: behind by at most this many standard errors of the difference, or forecasts better than the event rate. If such a
#: column was a feature after all, little is lost: the score knows nearly all that it does.
_SURE, _NEARLY, _TOGETHER, _NOISE = 4.0, 0.85, 0.7, 2.0
#: A column with a similar name must rank them at least half as well.
_HALF = 0.5
#: Rows that are compared; of more, every k-th.
_ROWS = 200_000
#: Sums of probabilities that were rounded to few digits.
_ROUNDED = 0.01

Floats = NDArray[np.float64]


def match_classes(score: Score, labels: Sequence[Any]) -> list[str]:
    """Find the label of each column of a model."""
    for classes in (score.classes, *score.other_classes):
        meant = [match_label(text, labels) for text in classes]
        final = [text if label is None else str(label) for text, label in zip(classes, meant, strict=True)]
        if set(labels) <= set(meant) and len(set(final)) == len(final) and _is_same_kind(final, labels):
            break
    else:
        rule = f"the columns of score {quote(score.name)} must be named after the labels of the target"
        got = f"columns for {list_names(score.classes)} beside the labels {list_names(labels)}"
        remedy = (
            "If each column is a model of its own, pass --models instead of --score; otherwise rename the columns, or"
        )
        refuse(rule, got, f"{remedy} list those of this model: --score 'p_a,p_b,p_c'.")
    return final


def _is_same_kind(final: Sequence[str], labels: Sequence[Any]) -> bool:
    """A class that never occurs must be a number where the labels are numbers."""
    return isinstance(labels[0], str) or all(match_label(t, labels) is not None or is_integer(t) for t in final)


def require_sums(frame: pl.DataFrame, role: str, rows: NDArray[np.intp]) -> None:
    """Refuse rows of probabilities that do not sum to one."""
    sums = frame.to_numpy().sum(axis=1)
    bad = np.flatnonzero(np.abs(sums - 1.0) > SUM_TOLERANCE)
    if bad.size:
        got = f"{float(sums[bad[0]]):.6g} in {name_row(rows[bad[0]])} ({bad.size} of {sums.size} rows)"
        remedy = "Check that the columns of all classes are named; round less, or divide each row by its sum."
        refuse(f"{role} must have rows that sum to 1 within {SUM_TOLERANCE:g}", got, remedy)


def require_order(score: Floats, event: Floats, count: Floats | None, role: str, other: str) -> None:
    """Refuse a score that is high where the positive label is rare: the classes may be swapped. `count` for cells."""
    _, place = np.unique(score, return_inverse=True)
    rows = np.bincount(place, count)
    events = np.bincount(place, event if count is None else count * event)
    n, ones = float(rows.sum()), float(events.sum())
    if not 0.0 < ones < n:
        return
    ranks = np.cumsum(rows) - 0.5 * rows - 0.5 * n  # from their mean; equal scores, or those of a cell, are ties
    # the sum of the ranks of a random draw of rows without replacement: exact under ties
    excess, spread = float(events @ ranks), float(np.sqrt(ones * (n - ones) / (n * (n - 1.0)) * (rows @ ranks**2)))
    if spread > 0 and excess < -_NO_ACCIDENT * spread:
        got = f"an area under the ROC curve of {0.5 + excess / (ones * (n - ones)):.3f}"
        remedy = f"If it predicts the other class, pass --pos-label {quote(other)}; if it is intended, pass --as-given."
        refuse(f"{role} must be higher where the positive label is more frequent", got, remedy)


# ── columns that look like scores: --all-features must not take other models for features ───────────


def find_score_like(
    columns: Mapping[str, pl.Series],
    scores: Mapping[str, Floats],
    event: NDArray[np.bool_] | None,
    classes: Iterable[Sequence[str]] = (),
) -> list[str]:
    """
    Columns that look like scores of the same target.

    They hold numbers in [0, 1], not only 0 and 1, and are named like a score or rank the outcomes as well as it does.
    """
    inside = {name: series for name, series in columns.items() if _is_inside(series)}
    others = [name for name in columns if name not in inside]
    similar = _find_families(inside, classes)
    if event is not None and scores:
        best = max(scores.values(), key=lambda score: float(_find_placements(score, event)[0].mean()))
        for name, series in inside.items():
            alike = {_compare_names(name, score, others) for score in scores}
            rank = _compare_ranks(series, best, event)
            if "score" in alike or rank == "as good" or (rank and "name" in alike):
                similar.add(name)
    return [name for name in inside if name in similar]


def _is_inside(series: pl.Series) -> bool:
    """Whether a column holds numbers in [0, 1], not only 0 and 1."""
    if not series.dtype.is_numeric() or series.null_count() * 2 > series.len():
        return False
    values = series.drop_nulls().to_numpy()
    return bool(((values >= 0.0) & (values <= 1.0)).all() and ((values > 0.0) & (values < 1.0)).any())


# ── names ───────────────────────────────────────────────────────────────────────────────────────────


def _compare_names(name: str, score: str, others: Iterable[str]) -> str:
    """
    How alike two names are: "score" by a word for scores, "name" by another word, "" not at all.

    A word does not count if a column that cannot be a score has it too: loan_pd, loan_ratio, loan_amount.
    """
    mine, its = _find_end_words(name), _find_end_words(score)
    if all(WORDS & {first, last} for first, last in (mine, its)):
        return "score"
    shared = [end for end in (0, 1) if mine[end] == its[end] and mine[end]]
    telling = [end for end in shared if all(_find_end_words(other)[end] != mine[end] for other in others)]
    return "name" if telling else ""


def _find_end_words(name: str) -> tuple[str, str]:
    """The first and the last word of a name, without numbers; of one word both."""
    words = [re.sub(r"\d+$", "", word) for word in _BETWEEN_WORDS.split(name.casefold()) if word]
    words = [word for word in words if word] or [""]
    return words[0], words[-1]


def _find_families(inside: Mapping[str, pl.Series], classes: Iterable[Sequence[str]]) -> set[str]:
    """Columns of other models with a column per class: the same classes in other names, and rows that sum to 1."""
    members = set[str]()
    for labels in classes:
        for name in inside:
            for place in (i for i in range(len(name)) if labels[0] and name.startswith(labels[0], i)):
                family = [name[:place] + label + name[place + len(labels[0]) :] for label in labels]
                if inside.keys() >= set(family) and _has_sums_of_one([inside[column] for column in family]):
                    members |= set(family)
    return members


def _has_sums_of_one(family: Sequence[pl.Series]) -> bool:
    sums = np.sum([series.to_numpy() for series in family], axis=0)
    return bool((np.abs(sums[~np.isnan(sums)] - 1.0) <= _ROUNDED).all())


# ── ranks ───────────────────────────────────────────────────────────────────────────────────────────


def _compare_ranks(series: pl.Series, score: Floats, event: NDArray[np.bool_]) -> str:
    """How well a column ranks the outcomes, on the rows that have it: "as good" as a score, "half as good" or ""."""
    there = np.flatnonzero(series.is_not_null().to_numpy())
    there = there[:: -(-there.size // _ROWS)]
    values, score, event = series.gather(there).to_numpy(), score[there], event[there]
    if not 0 < np.count_nonzero(event) < event.size:
        return ""
    mine, its = _find_placements(values, event), _find_placements(score, event)
    lead, best = float(mine[0].mean()) - 0.5, float(its[0].mean()) - 0.5  # areas above one half
    ranks = np.array([_rank(values), _rank(score)])
    together = 0.0 if (ranks.std(axis=1) == 0.0).any() else float(np.corrcoef(ranks)[0, 1])
    if lead > _SURE * _estimate_error(*mine) and lead >= _NEARLY * best and together >= _TOGETHER:
        behind = _NOISE * _estimate_error(mine[0] - its[0], mine[1] - its[1])
        forecasts = np.square(values - event).mean() < event.mean() * (1.0 - event.mean())
        if lead >= best - behind or forecasts:
            return "as good"
    return "half as good" if lead > _NOISE * _estimate_error(*mine) and lead >= _HALF * best else ""


def _find_placements(values: Floats, event: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """The share of non-events below each event, and of events above each non-event (DeLong et al. 1988)."""
    ranks, ones, zeros = _rank(values), int(event.sum()), int((~event).sum())
    below = (ranks[event] - _rank(values[event])) / zeros
    above = 1.0 - (ranks[~event] - _rank(values[~event])) / ones
    return below, above


def _estimate_error(*parts: Floats) -> float:
    return float(np.sqrt(sum(part.var() / part.size for part in parts)))


def _rank(values: Floats) -> Floats:
    return np.asarray(pl.Series(values).rank("average").to_numpy(), dtype=float)
