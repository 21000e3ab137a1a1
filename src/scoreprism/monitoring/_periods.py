"""What a monitor keeps of a period: sums of its rows by bin, and a digest by which the same rows are known again."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scoreprism._core.checks import refuse, write_plain
from scoreprism._core.simplex import FloatArray, as_vector
from scoreprism._sample.sample import Sample
from scoreprism.losses import ProperLoss
from scoreprism.monitoring._alternatives import FLOOR, GRID, Alternatives, find_grid_cells
from scoreprism.monitoring._evidence import Counts

if TYPE_CHECKING:
    from scoreprism.scale import Sums

#: What the weights of rows may be.
WEIGHTS = ("frequency", "importance")
#: Classes up to which each class is followed beside the most likely one.
_MOST_CLASSES = 20
#: So many rows, or cells, show how scores are spread. Fewer are joined by as many spread over log-odds.
_ENOUGH = 16
_EVENLY = 1.0 / (1.0 + np.exp(-np.linspace(-8.0, 8.0, 64)))
#: Names of what is followed: the event of two classes; whether the most likely class is right, and single classes.
EVENT, TOP = "event", "most likely class"


#: A segment (None: all rows), and what is followed in it.
StreamKey = tuple[str | None, str]


class ScoredRows(NamedTuple):
    """Rows of one stream, or sums of rows of the same cell and outcome."""

    rows: FloatArray  # how many rows a line stands for
    weight: FloatArray
    event: FloatArray  # 0 or 1
    mean: FloatArray  # the score, or the mean of the scores
    low: FloatArray  # the least and the largest of them
    high: FloatArray
    score: FloatArray  # summed scores, times their weights
    square: FloatArray
    loss: FloatArray

    def take(self, lines: Any) -> ScoredRows:
        """Some of the lines."""
        return ScoredRows(*(one[lines] for one in self))


#: The lines of every stream.
Lines = Mapping[StreamKey, ScoredRows]


def make_bins(score: FloatArray, weight: FloatArray) -> Alternatives:
    """Bins and moves that suit these scores; the same from rows and from sums by cell."""
    cell = find_grid_cells(score)
    mass, total = (np.bincount(cell, one).astype(np.float64) for one in (weight, weight * score))
    mass, total = mass[mass > 0.0], total[mass > 0.0]
    means = total / mass
    if max(mass.size, mass.sum()) < _ENOUGH:  # a bin or two would hide most maps, for good
        means = np.concatenate([means, _EVENLY])
        mass = np.concatenate([mass, np.full(_EVENLY.size, _ENOUGH / _EVENLY.size)])
    return Alternatives.of(means, mass)


@dataclass(frozen=True, eq=False)
class PeriodSums:
    """Sums of one stream in one period: by bin, and of the loss."""

    counts: Counts  # (G,) each
    rows: int
    loss: float  # summed, with weights

    def __add__(self, other: PeriodSums) -> PeriodSums:
        counts = Counts(*(a + b for a, b in zip(self.counts, other.counts, strict=True)))
        return PeriodSums(counts, self.rows + other.rows, self.loss + other.loss)

    @classmethod
    def of(cls, lines: ScoredRows, alternatives: Alternatives) -> PeriodSums:
        """Put lines into bins."""
        home = alternatives.find_bins(find_grid_cells(lines.mean))
        sums = (lines.weight, lines.weight * lines.event, lines.score, lines.square)
        counts = Counts(*(np.bincount(home, one, alternatives.bins).astype(np.float64) for one in sums))
        return cls(counts, int(lines.rows.sum()), float(lines.loss.sum()))

    @classmethod
    def empty(cls, bins: int) -> PeriodSums:
        """Of no rows."""
        return cls(Counts(*(np.zeros(bins) for _ in range(4))), 0, 0.0)


# ── periods ─────────────────────────────────────────────────────────────────────────────────────────

#: Names of periods that sort by time, and what they are: periods of one monitor are of one kind.
_KINDS = {
    "days": re.compile(r"\d{4}-\d{2}-\d{2}"),
    "weeks": re.compile(r"\d{4}-W\d{2}"),
    "months": re.compile(r"\d{4}-\d{2}"),
    "quarters": re.compile(r"\d{4}-Q[1-4]"),
    "years": re.compile(r"\d{4}"),
    "times": re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}.*"),
}


def parse_period(value: object) -> str | int:
    """A period as it is stored: a whole number, or text; dates as ISO text, which sorts by time."""
    if isinstance(value, np.datetime64):
        value = (value if value.dtype.str.endswith("[D]") else value.astype("datetime64[us]")).item()
    if isinstance(value, (date, datetime)) and value == value:  # pandas' NaT is a datetime that equals nothing
        return value.isoformat()
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    if not (isinstance(value, str) and value.strip()):
        refuse("`period` must be a date, a whole number or a name", write_plain(value), "For example '2026-11-15'.")
    return value.strip()


def find_kind(name: str | int) -> str:
    """What a period is by its name: days, months, whole numbers …"""
    if isinstance(name, int):
        return "whole numbers"
    return next((kind for kind, form in _KINDS.items() if form.fullmatch(name)), "names")


def digest_rows(lines: Lines) -> str:
    """
    A digest of rows by which a rerun is told from new rows.

    It does not depend on the order of the rows, nor on whether they came as rows or as exact sums of any engine: scores
    and weights are rounded to nine digits, since sums differ in their last bits.
    """
    total = hashlib.sha256()
    for key in sorted(lines, key=str):
        one = lines[key]
        keys, home = np.unique(np.stack([one.mean.round(9), one.event]), axis=1, return_inverse=True)
        mass = np.bincount(home.ravel(), one.weight)
        total.update(repr(key).encode())
        total.update(keys.tobytes() + np.array([float(f"{value:.8e}") for value in mass]).tobytes())
    return total.hexdigest()


# ── rows ────────────────────────────────────────────────────────────────────────────────────────────


def read_rows(sample: Sample, loss: ProperLoss, weights: str | None) -> dict[StreamKey, ScoredRows]:
    """Lines of every stream: all rows and each segment, by what is followed."""
    loss.require_classes(sample.scores)
    weight = _parse_weights(sample, weights)
    rows = weight if weights == "frequency" else np.ones(sample.n)
    if sample.groups is not None:
        # the geometric mean of the ratios of dependent rows has a mean of at most 1 (Hölder); frequencies count
        weight = weight / np.bincount(sample.groups, rows)[sample.groups]
    losses = loss.evaluate(_keep_inside(sample.prediction), sample.y)
    segments = _name_segments(sample)
    streams = {}
    for what, part in _list_views(sample):
        score, event = as_vector(part.prediction), part.y.astype(np.float64)
        sums = weight * score, weight * score * score, weight * np.asarray(losses)
        lines = ScoredRows(rows, weight, event, score, score, score, *sums)
        for name, some in segments.items():
            streams[name, what] = lines.take(some)
    return streams


def _keep_inside(law: FloatArray) -> FloatArray:
    """Probabilities at least `FLOOR` from 0 and 1."""
    if law.ndim == 1:
        return np.clip(law, FLOOR, 1.0 - FLOOR)
    inside = np.clip(law, FLOOR, None)
    return np.asarray(inside / inside.sum(axis=1, keepdims=True))


def _list_views(sample: Sample) -> Iterator[tuple[str, Sample]]:
    """What is followed: the event; of several classes whether the most likely one is right, and each class."""
    if sample.k == 2:
        yield EVENT, sample
        return
    yield TOP, sample.top_label()
    if sample.k <= _MOST_CLASSES:
        labels = range(sample.k) if sample.classes is None else sample.classes
        for code, label in enumerate(labels):
            yield f"class {label}", sample.one_vs_rest(code)


def _name_segments(sample: Sample) -> dict[str | None, Any]:
    """All rows under None, and the rows of each segment by name."""
    parts: dict[str | None, Any] = {None: slice(None)}
    for column, labels in sample.segments.items():
        for label in np.unique(labels).tolist():
            parts[f"{column}={label}"] = np.flatnonzero(labels == label)
    return parts


def _parse_weights(sample: Sample, weights: str | None) -> FloatArray:
    if sample.weight is None:
        return np.ones(sample.n)
    if weights is None:
        rule = "weights must say what they are: `weights`='frequency' (a row stands for so many) or 'importance'"
        refuse(rule, "weights alone", "Pass `weights` to CalibrationMonitor.")
    if weights == "frequency":
        bad = sample.weight != np.round(sample.weight)
        if bad.any():
            got = f"{sample.weight[bad][0]:g} in {sample.describe(bad)}"
            refuse("frequencies must be whole numbers", got, "Use `weights`='importance' for other weights.")
    elif float(sample.weight.max()) > 1.0:
        rule = "importance weights must be at most 1, so that no row counts for more than one"
        refuse(rule, f"{float(sample.weight.max()):g}", "Divide them by a bound that is fixed in advance.")
    return np.asarray(sample.weight)


# ── sums ────────────────────────────────────────────────────────────────────────────────────────────


def read_sums(sums: Sums, loss: ProperLoss, weights: str | None) -> dict[StreamKey, ScoredRows]:
    """The same from `scoreprism.scale`'s sums of one period."""
    settings, table = sums.settings, sums.table
    if len(settings.levels) > 1:
        refuse("sums for a monitor must have the score alone", "sums with `q` or `latent`", "Sum without them.")
    if not sums.exact and settings.cells % GRID:
        rule = f"sums by cell must have {GRID} cells, or a multiple, to fit into the bins of a monitor"
        refuse(rule, f"{settings.cells} cells", f"Pass `cells`={GRID} to aggregate.")
    w, event = table["w"], table["y"].astype(np.float64)
    if settings.has_weights:
        if weights != "frequency":
            rule = "weights in sums must be frequencies, and `weights` must say so"
            got = "importance weights" if weights else "weights alone"
            refuse(rule, got, "Use `weights`='frequency', or pass rows with 'importance'.")
        if (w != np.round(w)).any():
            got = f"{w[w != np.round(w)][0]:g} as a sum of some"
            refuse("frequencies must be whole numbers", got, "Pass rows, with `weights`='importance'.")
    if sums.exact:
        score, square, mean = w * table["key"], w * table["key"] ** 2, table["key"]
        low = high = mean
    else:
        score, square, mean = table["s"], table["s2"], table["s"] / w
        low, high = table["lo"], table["hi"]
    rows = w if settings.has_weights else table["n"]
    lines = ScoredRows(rows, w, event, mean, low, high, score, square, _sum_losses(sums, loss, mean, low, high))
    code = table["segment"].astype(np.intp)
    names = settings.segments
    streams: dict[StreamKey, ScoredRows] = {(None, EVENT): lines}
    for i, column in enumerate(names):
        labels = [key[i] for key in sums.segments]
        for label in sorted(set(labels), key=str):
            inside = np.isin(code, [c for c, one in enumerate(labels) if one == label])
            # the text "None" is a label like others
            streams[f"{column} is missing" if label is None else f"{column}={label}", EVENT] = lines.take(inside)
    return streams


def _sum_losses(sums: Sums, loss: ProperLoss, mean: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """The loss of each line: as it was summed, where it was; else that of the mean score, which is smaller."""
    table, y = sums.table, sums.table["y"].astype(np.intp)
    at_mean = table["w"] * loss.evaluate(_keep_inside(mean), y)
    names = [str(one) for one in sums.settings.losses]
    column = f"a{names.index(str(loss))}0" if str(loss) in names else ""
    if column not in table:
        return np.asarray(at_mean)
    inside = (low >= FLOOR) & (high <= 1.0 - FLOOR)  # others are kept at this distance from 0 and 1
    return np.where(inside, table[column], at_mean)
