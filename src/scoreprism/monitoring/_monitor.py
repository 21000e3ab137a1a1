"""CalibrationMonitor: is the score still calibrated? A guarantee that holds however often one looks."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import asdict, dataclass, fields
from dataclasses import replace as replace_field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from scipy.special import logsumexp

from scoreprism._core.atomic_files import write_text
from scoreprism._core.checks import (
    abbreviate,
    parse_choice,
    parse_count,
    parse_flag,
    parse_law,
    parse_number,
    refuse,
    write_plain,
)
from scoreprism._core.labels import parse_labels, sort_key
from scoreprism._core.simplex import ArrayLike, FloatArray, as_vector
from scoreprism._document.model import Document
from scoreprism._document.result import Result
from scoreprism._findings.finding import Finding
from scoreprism._kernels.term_intervals import Interval
from scoreprism._parameters import described
from scoreprism._sample.sample import Sample
from scoreprism._spelling import mark
from scoreprism.calibrators import Calibrator, Provenance, get_calibrator
from scoreprism.losses import LOSSES, ProperLoss, get_loss
from scoreprism.monitoring._alarm import Alarm, diagnose
from scoreprism.monitoring._alternatives import Alternatives
from scoreprism.monitoring._evidence import StartPrior
from scoreprism.monitoring._lost_evidence import bound_log_evidence
from scoreprism.monitoring._monitor_document import list_facts, make_document
from scoreprism.monitoring._monitor_findings import Overview, list_findings, make_overview
from scoreprism.monitoring._periods import (
    TOP,
    WEIGHTS,
    Lines,
    PeriodSums,
    ScoredRows,
    StreamKey,
    digest_rows,
    find_kind,
    make_bins,
    parse_period,
    read_rows,
    read_sums,
)
from scoreprism.monitoring._state_file import (
    Period,
    PeriodPart,
    State,
    StoredStream,
    hash_bytes,
    hold_file,
    read_bytes,
    read_state,
    write_state,
)
from scoreprism.monitoring._stream import Stream

if TYPE_CHECKING:
    from scoreprism.scale import Sums

#: What may ring the alarm.
ALARMS = ("calibration", "change")
#: Rows of a segment in its first period up to which it has the bins of all rows: so few do not show how it is spread.
_ENOUGH = 128


@dataclass(frozen=True)
class MonitorSettings:
    """What a monitor was made with."""

    alpha: float
    loss: str
    alarm: str
    baseline: int
    hazard: float
    arl: int | None
    weights: str | None
    pos_label: Any
    classes: tuple[Any, ...] | None


class Restart(NamedTuple):
    """A restart: the periods before it."""

    periods: tuple[Period, ...]


class CalibrationMonitor(Result):
    """
    Watch whether a score stays calibrated, with a guarantee that holds at every look.

    Periods (days, weeks) are added in order of time, by `update`; `open` keeps the monitor in a file. Two hypotheses
    are tested. "calibration": every score so far was calibrated. "change": scores may always have been off, but by the
    same map. Where a hypothesis holds, the chance that the evidence E against it ever reaches 1/alpha is at most alpha,
    however often one looks. An alarm stays until `recalibrate` or `restart`.

    Parameters
    ----------
    alpha : float, default=0.05
        The chance of a false alarm, ever.
    loss : str or ProperLoss, default="log"
        The loss whose reliability is bounded: a loss by name.
    alarm : {"calibration", "change"}, default="calibration"
        Which of both rings the alarm; the other is shown as well.
    baseline : int, default=30
        The first periods, which show how the score always was: "change" looks for departures after them.
    hazard : float
        Prior chance that a change begins in a period, 1/365 by default; a quarter is on a score that was off from the
        start.
    arl : int, optional
        Ask for a detector instead: while scores are calibrated, it takes at least so many periods on average until a
        false alarm (Shiryaev and Roberts).
    weights : {"frequency", "importance"}, optional
        What `sample_weight` is: a row stands for so many rows, or counts for at most one.
    scores : array-like of shape (n,), optional
        Scores of a typical period, which bins are made from; those of the first period by default.
    pos_label : label, optional
        Positive class: one-dimensional probabilities are P(Y = pos_label).
    classes : array-like of shape (K,), optional
        Labels in column order.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.monitoring import CalibrationMonitor
    >>> rng = np.random.default_rng(0)
    >>> monitor = CalibrationMonitor()
    >>> for day in range(60):
    ...     p = rng.beta(2, 5, 500)
    ...     chance = p if day < 40 else p**1.2
    ...     _ = monitor.update(rng.random(500) < chance, p, period=day)
    >>> monitor.alarm.period, monitor.alarm.since
    (42, 40)
    """

    def __init__(
        self,
        *,
        alpha: float = 0.05,
        loss: str | ProperLoss = "log",
        alarm: str = "calibration",
        baseline: int = 30,
        hazard: float = 1 / 365,
        arl: int | None = None,
        weights: str | None = None,
        scores: ArrayLike | None = None,
        pos_label: object = None,
        classes: ArrayLike | None = None,
    ) -> None:
        self.settings = MonitorSettings(
            alpha=_parse_chance(alpha, "alpha"),
            loss=_name_loss(loss),
            alarm=parse_choice(alarm, ALARMS, "alarm"),
            baseline=parse_count(baseline, "baseline", 1),
            hazard=_parse_chance(hazard, "hazard"),
            arl=None if arl is None else parse_count(arl, "arl", 2),
            weights=None if weights is None else parse_choice(weights, WEIGHTS, "weights"),
            pos_label=pos_label,
            classes=None if classes is None else tuple(np.asarray(classes).tolist()),
        )
        if arl is not None and alarm == "change":
            rule = "`arl` must come with `alarm`='calibration', since its detector is about calibrated scores"
            refuse(rule, "'change'", "Leave one of them out.")
        self._typical = () if scores is None else _read_typical(parse_law(scores, "scores"))
        self._classes: tuple[Any, ...] | None = None
        self._grouped: bool | None = None
        self._periods: tuple[Period, ...] = ()
        self._streams: dict[StreamKey, Stream] = {}
        self._restarts: tuple[Restart, ...] = ()
        self._file: tuple[str, str | None] | None = None  # where it was last read or saved, and the digest of that file
        #: Columns that its rows came from, where that is known: of sums, and of files.
        self.columns: dict[str, Any] | None = None

    # ── periods ─────────────────────────────────────────────────────────────────────────────────────

    @described()
    def update(
        self,
        y_true: ArrayLike | Sample | Sums,
        y_proba: ArrayLike | None = None,
        *,
        period: object = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        segments: object = None,
        extend: bool | str = False,
        replace: bool = False,
    ) -> Self:
        """
        Add the rows of a period whose outcomes are known, or the sums of one or several.

        Rows that were counted already are not counted again. Outcomes that arrive late belong to the period in which
        they became known.

        Parameters
        ----------
        y_true : array-like of shape (n,), Sample, or Sums
            Outcomes; or what `scoreprism.scale.aggregate` gave, with a time column or for one `period`.
        period : date, int or str
            The period; later ones must sort after it.
        groups : array-like of shape (n,), optional
            Dependent rows of the period: each group counts as one factor. Groups must not be spread over several calls.
            All periods must have them, or none.
        segments : array-like, frame or mapping of str to array-like, optional
            Segments that are followed on their own, too.
        extend : bool or str, default=False
            Add further rows to the last period. The name of a part, such as a file, tells a rerun from other rows that
            are equal.
        replace : bool, default=False
            Put corrected rows in the place of those of a known period.

        Returns
        -------
        CalibrationMonitor
            The monitor itself.
        """
        part = _parse_part(extend)
        parse_flag(replace, "replace")
        if extend and replace:
            refuse("pass `extend` or `replace`", "both", "A correction replaces a period as a whole.")
        after = self._copy()
        for name, lines in after._read(y_true, y_proba, period, sample_weight, groups, segments):
            after._count(name, lines, part, extend=bool(extend), replace=replace)
        if after._periods != self._periods:  # a rerun changes nothing at all
            self.__dict__.clear()
            self.__dict__.update(after.__dict__)
        return self

    def _copy(self) -> Self:
        twin = copy(self)
        twin._streams = dict(self._streams)
        return twin

    def _read(
        self, y_true: Any, y_proba: Any, period: Any, sample_weight: Any, groups: Any, segments: Any
    ) -> list[tuple[str | int, Lines]]:
        """Lines of every stream of every period, in order of time."""
        loss = get_loss(self.settings.loss)
        if hasattr(y_true, "settings") and hasattr(y_true, "table"):
            if any(value is not None for value in (y_proba, sample_weight, groups, segments)):
                refuse(
                    "sums hold scores, weights and segments already", "further ones beside them", "Pass the sums alone."
                )
            self._require_columns(y_true)
            self._require_grouping(grouped=False)
            parts = _split_periods(y_true, period)
            return [(name, read_sums(part, loss, self.settings.weights)) for name, part in parts]
        name = parse_period(period)
        sample = y_true
        if not isinstance(y_true, Sample):
            options = {"sample_weight": sample_weight, "groups": groups, "segments": segments}
            sample = Sample.of(y_true, y_proba, **options, **self._name_labels(y_true))
        elif any(value is not None for value in (y_proba, sample_weight, groups, segments)):
            refuse("a Sample holds predictions and weights already", "further ones beside it", "Pass the Sample alone.")
        self._remember_labels(sample)
        self._require_grouping(grouped=sample.groups is not None)
        return [(name, read_rows(sample, loss, self.settings.weights))]

    def _name_labels(self, y_true: Any) -> dict[str, Any]:
        """Which label is which: as the user said, or as the rows so far had them, if some are missing."""
        settings = self.settings
        classes = settings.classes
        if classes is None and self._classes is not None:
            present = set(parse_labels(y_true, "y_true").tolist())
            # with a positive class, columns without names are in the order of the labels
            known = self._classes if settings.pos_label is None else tuple(sorted(self._classes))
            classes = known if present < set(known) else None
        return {"pos_label": settings.pos_label, "classes": classes}

    def _remember_labels(self, sample: Sample) -> None:
        """Refuse other classes than before; keep them once all were seen."""
        if sample.classes is None:
            return
        classes = tuple(np.asarray(sample.classes).tolist())
        if self._classes is not None and classes != self._classes:
            was, now = (abbreviate(map(write_plain, one)) for one in (self._classes, classes))
            refuse("all periods must have the same classes", f"{now}; before {was}", "Pass `classes` in column order.")
        if np.unique(sample.y).size == len(classes):
            self._classes = classes

    def _require_grouping(self, *, grouped: bool) -> None:
        """Refuse groups in some periods only: dependent rows that count as independent ones ring falsely."""
        if self._grouped is not None and grouped != self._grouped:
            got = "groups; before none" if grouped else "none; before groups"
            refuse("all periods must have `groups`, or none", got, "Pass them for every period.")
        self._grouped = grouped

    def _require_columns(self, sums: Sums) -> None:
        """Refuse sums of other columns than before."""
        settings = sums.settings
        columns = {
            "target": settings.target, "score": settings.score, "pos_label": settings.pos_label,
            "sample_weight": settings.columns.get("sample_weight"), "segments": list(settings.segments),
        }  # fmt: skip
        if self.settings.pos_label is not None and settings.pos_label != self.settings.pos_label:
            got = f"{write_plain(settings.pos_label)}; the monitor has {write_plain(self.settings.pos_label)}"
            refuse("sums must have the `pos_label` of the monitor", got, "Pass it to aggregate.")
        self._keep_columns(columns)

    def _keep_columns(self, columns: dict[str, Any]) -> None:
        """Refuse other columns than before; keep them."""
        before = self.columns or columns
        odd = [name for name in {**before, **columns} if columns.get(name) != before.get(name)]
        if odd:
            got = f"{odd[0]} {write_plain(columns.get(odd[0]))}; before {write_plain(before.get(odd[0]))}"
            refuse("all periods must have the same columns", got, "Begin another monitor for other columns.")
        self.columns = columns

    def _count(self, name: str | int, lines: Lines, part: str | None, *, extend: bool, replace: bool) -> None:
        """Count the rows of one period, once."""
        now = PeriodPart(part, digest_rows(lines))
        names = self.periods
        place = names.index(name) if name in names else len(names)
        known = self._periods[place] if place < len(names) else None
        past = {one.name: one.parts for restart in self._restarts for one in restart.periods}
        if not replace and self._is_rerun(name, now, known.parts if known else past.get(name, ()), extend=extend):
            return
        self._require_order(name, past)
        self._require_new(name, known, extend=extend, replace=replace)
        self._require_streams(lines)
        is_added = known is not None and extend
        if replace and len(names) == 1:  # nothing else is in the bins of its old scores
            self._streams = {}
        if is_added and place == 0 and not self._typical:
            rule = "the first period must come at once, since bins are made of its scores"
            remedy = "Pass all its rows together", "pass `scores` of a typical period to CalibrationMonitor"
            refuse(rule, "further rows of it", remedy)
        self._periods = (
            *self._periods[:place],
            _record(name, now, lines, known if is_added else None),
            *self._periods[place + 1 :],
        )
        for number, (key, rows_of_key) in enumerate(lines.items()):
            if key not in self._streams:
                self._streams[key] = self._open_stream(rows_of_key, key, number, len(names))
        for key, stream in self._streams.items():
            sums = PeriodSums.empty(stream.alternatives.bins)
            if key in lines:
                sums = PeriodSums.of(lines[key], stream.alternatives)
            if is_added and place < len(stream.sums):
                sums = stream.sums[place] + sums
            all_sums = (*stream.sums[:place], sums, *stream.sums[place + 1 :])
            self._streams[key] = replace_field(stream, sums=all_sums)

    def _is_rerun(self, name: str | int, now: PeriodPart, known: tuple[PeriodPart, ...], *, extend: bool) -> bool:
        """Whether these rows were counted in this period already."""
        same = [one for one in known if one.digest == now.digest]
        named = [one for one in known if one.name is not None and one.name == now.name]
        if named and now not in named:
            rule, got = "a part must not be counted twice", f"other rows of {now.name!r} in {write_plain(name)}"
            refuse(rule, got, "Pass `replace`=True and all rows of the period.")
        if same and extend and not named and None in (now.name, *(one.name for one in same)):
            rule, got = "further rows must be told from a rerun", f"rows of {write_plain(name)} equal to a part of it"
            remedy = "Leave `extend` out for a rerun. To count equal rows again, give every part a name in Python."
            refuse(rule, got, remedy)
        return bool(named or (same and not extend))

    def _require_order(self, name: str | int, past: Mapping[str | int, object]) -> None:
        """Refuse a new period that is not later than all others, or of another kind."""
        known = [*past, *self.periods]
        if known and find_kind(known[-1]) != find_kind(name):
            got = f"{write_plain(name)} beside {write_plain(known[-1])}"
            refuse("periods must be of one kind, such as days or months", got, "Name it like the others.")
        if past and sort_key(name) <= max(map(sort_key, past)):
            rule = "periods must come after the last restart"
            refuse(rule, write_plain(name), "Rows from before it are no longer kept.")
        if name not in self.periods and self._periods and sort_key(name) <= sort_key(self.periods[-1]):
            got = f"{write_plain(name)} after {write_plain(self.periods[-1])}"
            remedy = "Give late outcomes to the period in which they became known."
            if find_kind(name) == "names":
                remedy = "Names sort as text: use dates or whole numbers."
            refuse("periods must come in order of time", got, remedy)

    def _require_new(self, name: str | int, known: Period | None, *, extend: bool, replace: bool) -> None:
        """Refuse other rows of a known period, unless they extend or replace it."""
        if known is None and replace:
            known_names = abbreviate(map(write_plain, self.periods)) or "none"
            remedy = f"There are {known_names}." if self._periods else "There is none yet."
            refuse("`replace` must name a period that was counted", write_plain(name), remedy)
        is_last = bool(self._periods) and name == self.periods[-1]
        if known is None or replace or (extend and is_last):
            return
        if extend:
            rule, got = "only the last period can be extended", f"{write_plain(name)}; the last is {self.periods[-1]!r}"
            refuse(rule, got, "Give late outcomes to the period in which they became known, or pass `replace`=True.")
        remedy = "Pass `replace`=True for corrected rows"
        remedy += ", `extend`=True for further rows." if is_last else "."
        refuse("a period must not be counted twice", f"other rows of {write_plain(name)}", remedy)

    def _require_streams(self, lines: Lines) -> None:
        """Refuse rows of another number of classes than before."""
        was = [what for name, what in self._streams if name is None]
        now = [what for name, what in lines if name is None]
        if was and set(was) != set(now):
            counted = [f"{max(len(one) - 1, 2)} classes" for one in (now, was)]
            refuse("all periods must have the same classes", f"{counted[0]}; before {counted[1]}", "Pass them all.")

    def _open_stream(self, lines: ScoredRows, key: StreamKey, number: int, past: int) -> Stream:
        """A stream that has no rows in the periods before; `number` is its place among those of all rows."""
        settings = self.settings
        views = [what for name, what in self._streams if name is None]
        if self._typical:
            place = views.index(key[1]) if key[0] is not None else number
            if key[0] is None and len(self._typical) <= place:
                got = f"{len(self._typical)} columns"
                refuse("`scores` must have a column for each class", got, "Pass scores as in the periods.")
            alternatives = self._typical[place]
        else:
            alternatives = make_bins(lines.mean, lines.weight)
            if key[0] is not None and lines.rows.sum() < _ENOUGH:  # so few do not show how scores are spread
                whole = self._streams[None, key[1]].alternatives
                alternatives = replace_field(whole, information=alternatives.information)
        prior = StartPrior(settings.hazard)
        empty = PeriodSums.empty(alternatives.bins)
        return Stream(alternatives, prior, settings.baseline, (empty,) * past)

    # ── what it says ────────────────────────────────────────────────────────────────────────────────

    @property
    def periods(self) -> tuple[str | int, ...]:
        """Names of the periods, in order."""
        return tuple(one.name for one in self._periods)

    @property
    def past_periods(self) -> tuple[str | int, ...]:
        """Names of the periods before the last restart, in order."""
        return tuple(one.name for restart in self._restarts for one in restart.periods)

    @property
    def parts(self) -> dict[str | int, tuple[str, ...]]:
        """Digests of the parts that each period came in."""
        return {one.name: tuple(part.digest for part in one.parts) for one in self._periods}

    @property
    def segments(self) -> tuple[str, ...]:
        """Names of the segments that are followed, in order."""
        return tuple(sorted({name for name, _ in self._streams if name is not None}))

    def log_evidence(self, process: str = "calibration", segment: str | None = None) -> FloatArray:
        """
        Log E after every period.

        Parameters
        ----------
        process : {"calibration", "change", "detector"}, default="calibration"
            Which hypothesis it is evidence against; "detector" is the sum that `arl` is about.
        segment : str, optional
            A segment; all rows by default.

        Returns
        -------
        array of shape (periods,)
            Evidence in nats.
        """
        parse_choice(process, ("calibration", "change", "detector"), "process")
        streams = self._find_streams(segment)
        logs = [_LOGS[process](stream) + math.log(share) for share, stream in streams]
        return np.asarray(logsumexp(np.stack(logs), axis=0)) if logs else np.zeros(0)

    def _find_streams(self, segment: str | None) -> list[tuple[float, Stream]]:
        """The streams of a segment, and the weights by which their evidence is averaged."""
        views = {what: stream for (name, what), stream in self._streams.items() if name == segment}
        if segment is not None and not views:
            refuse(f"`segment` must be one of {abbreviate(self.segments)}", write_plain(segment), "Write it as there.")
        if TOP not in views:
            return [(1.0, stream) for stream in views.values()]
        classes = len(views) - 1
        each = 0.5 / classes if classes else 0.0
        top = 0.5 if classes else 1.0
        return [(top if what == TOP else each, stream) for what, stream in views.items()]

    def evidence_lost(self, segment: str | None = None) -> float:
        """
        At most so much of log E is lost because scores are counted by bin: what single rows would add to it.

        Sums by cell lose no more than rows do, since bins are made of cells.

        Parameters
        ----------
        segment : str, optional
            A segment; all rows by default.

        Returns
        -------
        float
            Nats, of the evidence against calibration at the last look.
        """
        streams = [(math.log(share), stream) for share, stream in self._find_streams(segment)]
        if not streams or not self._periods:
            return 0.0
        least = logsumexp([share + float(stream.log_calibration[-1]) for share, stream in streams])
        most = logsumexp([share + bound_log_evidence(stream) for share, stream in streams])
        return max(float(most - least), 0.0)

    def bounds(self, segment: str | None = None, until: int | None = None) -> Interval:
        """
        Bounds of the reliability of all rows so far, which hold at every look.

        Parameters
        ----------
        segment : str, optional
            A segment; all rows by default.
        until : int, optional
            Number of periods to look at; all by default.

        Returns
        -------
        Interval
            Of the mean reliability, where the calibration curve is the same in all periods and moves the log-odds of
            a bin, a 64th of the rows, by one amount.
        """
        _, stream = self._find_streams(segment)[0]
        low, high = stream.bound(get_loss(self.settings.loss), self.settings.alpha, 0, until)
        return Interval(low, high, 1.0 - self.settings.alpha, "at every look")

    @property
    def alarm(self) -> Alarm | None:
        """The alarm, if it has rung since the last restart."""
        if not self._periods:
            return None
        settings = self.settings
        if settings.arl is not None:
            process, needed = "detector", math.log(settings.arl)
        else:
            process, needed = settings.alarm, -math.log(settings.alpha)
        rung = np.flatnonzero(self.log_evidence(process) >= needed)
        if not rung.size:
            return None
        _, stream = max(self._find_streams(None), key=lambda one: _LOGS[process](one[1])[-1])
        return diagnose(self, stream, process, int(rung[0]))

    def list_segments(self) -> dict[str, bool]:
        """
        Which segments are flagged, with at most a share `alpha` of false ones on average, at every look (e-BH).

        Returns
        -------
        dict
            Segment → whether it is flagged.
        """
        process = self.settings.alarm
        e = {name: float(self.log_evidence(process, name)[-1]) for name in self.segments}
        ordered = sorted(e, key=lambda name: -e[name])
        count = 0
        for rank, name in enumerate(ordered, 1):
            if e[name] >= math.log(len(ordered) / (self.settings.alpha * rank)):
                count = rank
        return {name: name in ordered[:count] for name in self.segments}

    # ── starting again ──────────────────────────────────────────────────────────────────────────────

    def recalibrate(self, calibrator: str | Calibrator = "platt") -> Calibrator:
        """
        Fit a map to the rows since the change, and restart the monitor.

        The map is fitted to the sums of the rows in each bin. Scores that are passed from now on should be recalibrated
        ones.

        Parameters
        ----------
        calibrator : str or Calibrator, default="platt"
            A map for two classes.

        Returns
        -------
        Calibrator
            Fitted.
        """
        alarm = self.alarm
        start = 0 if alarm is None else self.periods.index(alarm.since)
        streams = self._find_streams(None)
        if len(streams) != 1:
            refuse(
                "`recalibrate` must have two classes", f"{len(streams) - 1} classes", "Fit a calibrator to the rows."
            )
        counts = streams[0][1].counts.part(slice(start, None)).pool()
        held = counts.rows > 0.0
        score = np.concatenate([counts.rate[held]] * 2)
        weight = np.concatenate([counts.rows[held] - counts.events[held], counts.events[held]])
        outcome = np.repeat([0, 1], int(held.sum()))
        fitted = get_calibrator(calibrator).fit(score, outcome, sample_weight=np.maximum(weight, 0.0))
        fitted.provenance_ = self._describe_rows(fitted.provenance_, self._periods[start:])
        self.restart()
        return fitted

    def _describe_rows(self, provenance: Provenance | None, periods: tuple[Period, ...]) -> Provenance | None:
        """The provenance of a map that was fitted to the sums of these periods: that of their rows."""
        if provenance is None:
            return None
        rows, events = (sum(getattr(one, name) for one in periods) for name in ("rows", "events"))
        columns = self.columns or {}
        return replace_field(
            provenance,
            score=None if self.columns is None else (columns["score"],),
            target=columns.get("target"),
            labels=provenance.labels if self._classes is None else tuple(map(str, self._classes)),
            rows=rows,
            counts=(rows - events, events),
            ranges=((min(one.low for one in periods), max(one.high for one in periods)),),
        )

    def restart(self) -> Self:
        """
        Forget the rows so far and start again, for a score that has been recalibrated or replaced.

        Returns
        -------
        CalibrationMonitor
            The monitor itself, with its settings; the periods before remain known, so that they are not counted again.
        """
        self._restarts = (*self._restarts, Restart(self._periods))
        self._periods, self._streams, self._typical, self.columns = (), {}, (), None
        return self

    # ── files ───────────────────────────────────────────────────────────────────────────────────────

    def to_dict(self) -> dict[str, Any]:
        """
        Everything as plain objects.

        Returns
        -------
        dict
            What `to_json` writes.
        """
        streams = tuple(
            StoredStream(name, what, one.alternatives, one.sums) for (name, what), one in self._streams.items()
        )
        restarts = tuple(restart.periods for restart in self._restarts)
        parts = self.columns, self._classes, self._grouped, self._typical, self._periods, restarts, streams
        return write_state(State(asdict(self.settings), *parts))

    def to_json(self, indent: int | None = None) -> str:
        """
        The monitor as strict JSON, with a digest.

        Parameters
        ----------
        indent : int, optional
            Spaces per level, for people.

        Returns
        -------
        str
            Text that `from_json` reads, to the last bit.
        """
        return json.dumps(self.to_dict(), allow_nan=False, indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """
        Read a monitor back.

        Parameters
        ----------
        text : str or bytes
            What `to_json` wrote; anything else, damaged or edited, is refused.

        Returns
        -------
        CalibrationMonitor
            The same monitor.
        """
        state = read_state(text)
        unknown = set(state.settings) ^ {field.name for field in fields(MonitorSettings)}
        if unknown:
            got = f"missing or unknown: {', '.join(sorted(unknown))}"[:120]
            refuse("the state of a monitor must have all settings", got, "Use the file as it was written.")
        monitor = cls(**state.settings)
        prior, baseline = StartPrior(monitor.settings.hazard), monitor.settings.baseline
        monitor._typical, monitor._classes, monitor._grouped = state.typical, state.classes, state.grouped
        monitor._periods, monitor._restarts = state.periods, tuple(map(Restart, state.restarts))
        monitor.columns = None if state.columns is None else dict(state.columns)
        monitor._streams = {
            (one.segment, one.what): Stream(one.alternatives, prior, baseline, one.sums) for one in state.streams
        }
        return monitor

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """
        Read a monitor from a file.

        Parameters
        ----------
        path : path
            What `save` or `open` wrote.

        Returns
        -------
        CalibrationMonitor
            The same monitor.
        """
        content = read_bytes(path)
        if content is None:
            got, remedy = f"{os.fspath(path)!r}, which does not exist", "Check the path, or begin one with `open`."
            refuse("the state of a monitor must be a file", got, remedy)
        monitor = cls.from_json(content)
        monitor._file = (os.path.realpath(path), hash_bytes(content))
        return monitor

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """
        Write the monitor to a file, whole or not at all.

        The file that it was loaded from, or last saved to, is replaced, unless another process has changed it
        meanwhile. Use `open` to lock it from reading to writing.

        Parameters
        ----------
        path : path
            The file.
        overwrite : bool, default=False
            Whether another file may be replaced.

        Returns
        -------
        Path
            The file.
        """
        parse_flag(overwrite, "overwrite")
        with hold_file(path):
            return self._save_held(path, self.to_json(), overwrite=overwrite)

    def _save_held(self, path: str | os.PathLike[str], text: str, *, overwrite: bool = False) -> Path:
        """The same while the file is locked."""
        place = os.path.realpath(path)
        is_known = self._file is not None and self._file[0] == place
        found = hash_bytes(read_bytes(path)) if is_known else None
        if is_known and self._file is not None and found not in (None, self._file[1]) and not overwrite:
            rule = "the state of a monitor must not be changed by two jobs"
            got = f"{os.fspath(path)!r}, which another process has written since it was read"
            refuse(rule, got, "Load it again, and repeat the update.")
        written = write_text(path, lambda: text, overwrite=overwrite or is_known)
        self._file = (place, hash_bytes(text.encode("utf-8")))
        return written

    @classmethod
    @contextmanager
    def open(cls, path: str | os.PathLike[str], **settings: Any) -> Iterator[Self]:
        """
        Read a monitor from a file, or begin one; save it at the end, unless there was an error.

        The file is locked meanwhile, so that two jobs cannot update it at once, and replaced as a whole: a crash leaves
        the old state or the new one.

        Parameters
        ----------
        path : path
            The file.
        **settings : object
            Parameters of CalibrationMonitor. Those of a file that exists must not differ.

        Yields
        ------
        CalibrationMonitor
            The monitor.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> from scoreprism.monitoring import CalibrationMonitor
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for day in ("2026-11-14", "2026-11-15"):
        ...         with CalibrationMonitor.open(Path(folder) / "state.json") as monitor:
        ...             monitor = monitor.update([0, 1, 0, 0], [0.2, 0.7, 0.4, 0.1], period=day)
        ...     CalibrationMonitor.load(Path(folder) / "state.json").periods
        ('2026-11-14', '2026-11-15')
        """
        asked = cls(**settings)
        with hold_file(path):
            content = read_bytes(path)
            monitor = asked if content is None else cls.from_json(content)
            if content is not None:
                monitor._require_settings(asked, settings)
            monitor._file = (os.path.realpath(path), hash_bytes(content))
            yield monitor
            text = monitor.to_json()
            if content is None or text.encode("utf-8") != content:
                monitor._save_held(path, text)

    def _require_settings(self, asked: Self, names: Iterable[str]) -> None:
        """Refuse settings that differ from those the monitor was made with."""
        for name in names:
            if name == "scores":
                was, now = ([one.to_dict() for one in monitor._typical] for monitor in (self, asked))
                text = "other scores"
            else:
                was, now = getattr(self.settings, name), getattr(asked.settings, name)
                text = f"{write_plain(now)}; it has {write_plain(was)}"
            if was != now:
                rule = f"{mark(name)} must be what the monitor was made with"
                refuse(rule, text, "Leave it out, or begin another monitor.")

    # ── tables ──────────────────────────────────────────────────────────────────────────────────────

    def _columns(self) -> dict[str, list[Any]]:
        streams = self._find_streams(None)
        if not streams:
            return {"period": []}
        stream = streams[0][1]
        ends = [self.bounds(until=t + 1) for t in range(len(self._periods))]
        rows, events, scores = (one.sum(axis=1) for one in stream.counts[:3])
        held = np.maximum(rows, 1e-300)
        with np.errstate(over="ignore"):
            e = {name: np.exp(self.log_evidence(name)) for name in ALARMS}
        return {
            "period": list(self.periods),
            "rows": [one.rows for one in self._periods],
            "event_rate": (events / held).tolist(),
            "mean_score": (scores / held).tolist(),
            "loss": (np.array([one.loss for one in stream.sums]) / held).tolist(),
            "e_calibration": e["calibration"].tolist(),
            "e_change": e["change"].tolist(),
            "reliability_low": [one.low for one in ends],
            "reliability_high": [one.high for one in ends],
        }

    def _title(self) -> str:
        return f"Calibration monitor, {len(self._periods)} periods"

    def _findings(self) -> tuple[Finding, ...]:
        return list_findings(self)

    def _overview(self) -> Overview:
        """What figures show beside the evidence and the bounds."""
        return make_overview(self)

    def document(self) -> Document:
        """
        What is concluded, with figures and tables.

        Returns
        -------
        Document
            Verdict, evidence and reliability, event rates and rows, segments, what changed, the last periods, and how
            to read it.
        """
        return make_document(self)

    def _facts(self) -> list[str]:
        """What stands above the title of its page."""
        return list_facts(self)


_LOGS: dict[str, Callable[[Stream], FloatArray]] = {
    "calibration": lambda stream: stream.log_calibration,
    "change": lambda stream: stream.change.log_e,
    "detector": lambda stream: stream.log_detector,
}


def _name_loss(loss: str | ProperLoss) -> str:
    """The name of a loss that has no parameters."""
    chosen = get_loss(loss)
    if chosen.name not in LOSSES or get_loss(chosen.name) != chosen:
        refuse(
            "`loss` must be one of `LOSSES`, with its default parameters", repr(chosen), "For example 'log' or 'brier'."
        )
    return chosen.name


def _parse_chance(value: object, name: str) -> float:
    """A probability that is neither 0 nor 1."""
    return parse_number(value, name, "a number between 0 and 1", lambda v: 0.0 < v < 1.0)


def _parse_part(value: object) -> str | None:
    """The name of a part; None where there is none."""
    if isinstance(value, (bool, np.bool_)):
        return None
    if not (isinstance(value, str) and value.strip()):
        refuse("`extend` must be True, False or the name of a part", write_plain(value), "For example 'part 2'.")
    return value


def _read_typical(law: FloatArray) -> tuple[Alternatives, ...]:
    """Bins of typical scores: of the event; of several classes those of the most likely one, and of each class."""
    if law.ndim == 1 or law.shape[1] == 2:
        return (make_bins(as_vector(law), np.ones(law.shape[0])),)
    ones = np.ones(law.shape[0])
    return tuple(make_bins(column, ones) for column in (law.max(axis=1), *law.T))


def _record(name: str | int, now: PeriodPart, lines: Lines, before: Period | None) -> Period:
    """What is kept of a period beside its sums, from the lines of all rows."""
    first = lines[next(iter(lines))]
    rows, events = round(first.rows.sum()), round((first.rows * first.event).sum())
    low, high = float(first.low.min()), float(first.high.max())
    if before is None:
        return Period(name, (now,), rows, events, low, high)
    ends = min(low, before.low), max(high, before.high)
    return Period(name, (*before.parts, now), rows + before.rows, events + before.events, *ends)


def _split_periods(sums: Sums, period: Any) -> list[tuple[str | int, Sums]]:
    """Sums of single periods, in order of time."""
    if sums.settings.time is None:
        return [(parse_period(period), sums)]
    if period is not None:
        refuse("sums with a time column hold their periods", write_plain(period), "Leave `period` out.")
    column = sums.settings.time
    if None in sums.periods:
        refuse("every row must have a period", f"rows without {column!r}", "Drop these rows, or fill them in.")
    names = {one: parse_period(one) for one in sums.periods}
    if sums.settings.period == "week":  # named by their Mondays there, which would look like days
        names = {one: date.fromisoformat(one).strftime("%G-W%V") for one in sums.periods}
    unsorted = [one for one in names.values() if find_kind(one) == "names"]
    if unsorted:
        rule = f"{column!r} must hold dates, whole numbers or periods such as 2026-11 or 2026-W46, which sort by time"
        refuse(rule, write_plain(unsorted[0]), "Cast it to dates.")
    return [(names[one], sums.select(**{column: one})) for one in sums.periods]
