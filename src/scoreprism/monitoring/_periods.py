"""What a monitor keeps of a period: sums of its rows by bin, and a digest by which the same rows are known again."""

from __future__ import annotations

import hashlib
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
#: Names of what is followed: the event of two classes; whether the most likely class is right, and single classes.
EVENT, TOP = "event", "most likely class"


class ScoredRows(NamedTuple):
    """Rows of one stream, or sums of rows of the same cell and outcome."""

    rows: FloatArray  # how many rows a line stands for
    weight: FloatArray
    event: FloatArray  # 0 or 1
    score: FloatArray  # summed scores, times their weights
    square: FloatArray
    loss: FloatArray

    @property
    def mean(self) -> FloatArray:
        """The mean score of each line."""
        return np.asarray(self.score / self.weight)

    def take(self, lines: Any) -> ScoredRows:
        """Some of the lines."""
        return ScoredRows(*(one[lines] for one in self))


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


def parse_period(value: object) -> str | int:
    """A period as it is stored: a whole number, or text; dates as ISO text, which sorts by time."""
    if isinstance(value, np.datetime64):
        value = value.item()
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    if not (isinstance(value, str) and value.strip()):
        refuse("`period` must be a date, a whole number or a name", write_plain(value), "For example '2026-11-15'.")
    return value


def digest_rows(lines: Mapping[tuple[str | None, str], ScoredRows]) -> str:
    """A digest of rows that does not depend on their order, to tell a rerun from new rows."""
    total = hashlib.sha256()
    for key in sorted(lines, key=str):
        one = lines[key]
        table = np.stack([one.mean, one.event, one.weight])
        keys, home = np.unique(table[:2], axis=1, return_inverse=True)
        mass = np.bincount(home.ravel(), one.weight)
        total.update(repr(key).encode())
        total.update(keys.round(12).tobytes() + np.array([float(f"{value:.9e}") for value in mass]).tobytes())
    return total.hexdigest()


# ── rows ────────────────────────────────────────────────────────────────────────────────────────────


def read_rows(sample: Sample, loss: ProperLoss, weights: str | None) -> dict[tuple[str | None, str], ScoredRows]:
    """Lines of every stream: all rows and each segment, by what is followed."""
    loss.require_classes(sample.scores)
    weight = _parse_weights(sample, weights)
    if sample.groups is not None:
        # the geometric mean of the ratios of dependent rows has a mean of at most 1 (Hölder)
        weight = weight / np.bincount(sample.groups)[sample.groups]
    losses = loss.evaluate(_keep_inside(sample.prediction), sample.y)
    segments = _name_segments(sample)
    streams = {}
    for what, part in _list_views(sample):
        score, event = as_vector(part.prediction), part.y.astype(np.float64)
        lines = ScoredRows(
            np.ones(score.size), weight, event, weight * score, weight * score * score, weight * np.asarray(losses)
        )
        for name, rows in segments.items():
            streams[name, what] = lines.take(rows)
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


def read_sums(sums: Sums, loss: ProperLoss, weights: str | None) -> dict[tuple[str | None, str], ScoredRows]:
    """The same from `scoreprism.scale`'s sums of one period."""
    settings, table = sums.settings, sums.table
    if len(settings.levels) > 1:
        refuse("sums for a monitor must have the score alone", "sums with `q` or `latent`", "Sum without them.")
    if not sums.exact and settings.cells % GRID:
        rule = f"sums by cell must have {GRID} cells, or a multiple, to fit into the bins of a monitor"
        refuse(rule, f"{settings.cells} cells", f"Pass `cells`={GRID} to aggregate.")
    if settings.has_weights and weights != "frequency":
        rule = "sums with weights must be of frequencies"
        refuse(rule, "weights of another kind, or not declared", "Use `weights`='frequency', or pass rows.")
    w, event = table["w"], table["y"].astype(np.float64)
    if sums.exact:
        score, square = w * table["key"], w * table["key"] ** 2
    else:
        score, square = table["s"], table["s2"]
    mean = np.clip(score / w, FLOOR, 1.0 - FLOOR)
    lines = ScoredRows(table["n"], w, event, score, square, w * loss.evaluate(mean, table["y"].astype(np.intp)))
    code = table["segment"].astype(np.intp)
    names = settings.segments
    streams: dict[tuple[str | None, str], ScoredRows] = {(None, EVENT): lines}
    for i, column in enumerate(names):
        labels = [key[i] for key in sums.segments]
        for label in sorted(set(labels), key=str):
            inside = np.isin(code, [c for c, one in enumerate(labels) if one == label])
            streams[f"{column}={label}", EVENT] = lines.take(inside)
    return streams
