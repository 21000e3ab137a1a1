"""CalibrationMonitor: is the score still calibrated? A guarantee that holds however often one looks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from dataclasses import replace as replace_field
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from scipy.special import logsumexp

from scoreprism._core.checks import (
    abbreviate,
    parse_choice,
    parse_count,
    parse_flag,
    parse_law,
    parse_share,
    refuse,
    write_plain,
)
from scoreprism._core.labels import sort_key
from scoreprism._core.simplex import ArrayLike, FloatArray
from scoreprism._document.result import Result
from scoreprism._kernels.term_intervals import Interval
from scoreprism._parameters import described
from scoreprism._sample.sample import Sample
from scoreprism.calibrators import Calibrator, get_calibrator
from scoreprism.losses import LOSSES, ProperLoss, get_loss
from scoreprism.monitoring._alarm import Alarm, diagnose
from scoreprism.monitoring._alternatives import Alternatives
from scoreprism.monitoring._evidence import StartPrior
from scoreprism.monitoring._periods import (
    EVENT,
    TOP,
    WEIGHTS,
    PeriodSums,
    ScoredRows,
    digest_rows,
    parse_period,
    read_rows,
    read_sums,
)
from scoreprism.monitoring._stream import Stream

if TYPE_CHECKING:
    from scoreprism.scale import Sums

#: What may ring the alarm.
ALARMS = ("calibration", "change")
#: A segment (None: all rows), and what is followed in it.
StreamKey = tuple[str | None, str]


@dataclass(frozen=True)
class Settings:
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


class Period(NamedTuple):
    """A period that was counted: its name, the digests of the parts it came in, and its rows."""

    name: str | int
    parts: tuple[str, ...]
    rows: int


class Restart(NamedTuple):
    """A restart: the periods before it."""

    periods: tuple[Period, ...]


class CalibrationMonitor(Result):
    """
    Watch whether a score stays calibrated, with a guarantee that holds at every look.

    Periods (days, weeks) are added in order of time. Two hypotheses are tested. "calibration": every score so far was
    calibrated. "change": scores may always have been off, but by the same map. Where a hypothesis holds, the chance
    that the evidence E against it ever reaches 1/alpha is at most alpha, however often one looks. An alarm stays until
    `recalibrate` or `restart`.

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
    hazard : float, default=1/365
        Prior chance that a change begins in a period; a quarter is on a score that was off from the start.
    arl : int, optional
        Ask for a detector with this average number of periods to a false alarm instead (Shiryaev and Roberts).
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
        self.settings = Settings(
            alpha=parse_share(alpha, "alpha"),
            loss=_name_loss(loss),
            alarm=parse_choice(alarm, ALARMS, "alarm"),
            baseline=parse_count(baseline, "baseline", 1),
            hazard=parse_share(hazard, "hazard"),
            arl=None if arl is None else parse_count(arl, "arl", 2),
            weights=None if weights is None else parse_choice(weights, WEIGHTS, "weights"),
            pos_label=pos_label,
            classes=None if classes is None else tuple(np.asarray(classes).tolist()),
        )
        self._typical = None if scores is None else parse_law(scores, "scores")
        self._periods: tuple[Period, ...] = ()
        self._streams: dict[StreamKey, Stream] = {}
        self._restarts: tuple[Restart, ...] = ()

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
        extend: bool = False,
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
            Dependent rows of the period: each group counts as one factor.
        segments : array-like, frame or mapping of str to array-like, optional
            Segments that are followed on their own, too.
        extend : bool, default=False
            Add further rows to the last period.
        replace : bool, default=False
            Put corrected rows in the place of those of a known period.

        Returns
        -------
        CalibrationMonitor
            The monitor itself.
        """
        parse_flag(extend, "extend")
        parse_flag(replace, "replace")
        if extend and replace:
            refuse("pass `extend` or `replace`", "both", "A correction replaces a period as a whole.")
        loss = get_loss(self.settings.loss)
        after = self._copy()
        for name, lines in self._read(y_true, y_proba, period, sample_weight, groups, segments, loss):
            after._count(name, lines, extend=extend, replace=replace)
        self.__dict__.clear()
        self.__dict__.update(after.__dict__)
        return self

    def _copy(self) -> Self:
        twin = copy(self)
        twin._streams = dict(self._streams)
        return twin

    def _read(
        self, y_true: Any, y_proba: Any, period: Any, sample_weight: Any, groups: Any, segments: Any, loss: ProperLoss
    ) -> list[tuple[str | int, dict[StreamKey, ScoredRows]]]:
        """Lines of every stream of every period, in order of time."""
        if hasattr(y_true, "settings") and hasattr(y_true, "table"):
            if any(value is not None for value in (y_proba, sample_weight, groups, segments)):
                refuse(
                    "sums hold scores, weights and segments already", "further ones beside them", "Pass the sums alone."
                )
            parts = _split_periods(y_true, period)
            return [(name, read_sums(part, loss, self.settings.weights)) for name, part in parts]
        options = {"pos_label": self.settings.pos_label, "classes": self.settings.classes}
        given = {} if isinstance(y_true, Sample) else options
        sample = Sample.of(y_true, y_proba, sample_weight=sample_weight, groups=groups, segments=segments, **given)
        return [(parse_period(period), read_rows(sample, loss, self.settings.weights))]

    def _count(self, name: str | int, lines: dict[StreamKey, ScoredRows], *, extend: bool, replace: bool) -> None:
        """Count the rows of one period, once."""
        digest = digest_rows(lines)
        names = self.periods
        place = names.index(name) if name in names else len(names)
        known = self._periods[place] if place < len(names) else None
        past = {one.name: one.parts for restart in self._restarts for one in restart.periods}
        if digest in past.get(name, ()) or (known is not None and digest in known.parts and not replace):
            return
        self._require_order(name, past)
        self._require_new(name, known, extend=extend, replace=replace)
        is_added = known is not None and extend
        rows = int(lines[next(iter(lines))].rows.sum())
        before = known if is_added else None
        record = Period(name, (*(before.parts if before else ()), digest), rows + (before.rows if before else 0))
        self._periods = (*self._periods[:place], record, *self._periods[place + 1 :])
        for key, rows_of_key in lines.items():
            if key not in self._streams:
                self._streams[key] = self._open_stream(rows_of_key, key, len(names))
        for key, stream in self._streams.items():
            sums = PeriodSums.empty(stream.alternatives.bins)
            if key in lines:
                sums = PeriodSums.of(lines[key], stream.alternatives)
            if is_added and place < len(stream.sums):
                sums = stream.sums[place] + sums
            all_sums = (*stream.sums[:place], sums, *stream.sums[place + 1 :])
            self._streams[key] = replace_field(stream, sums=all_sums)

    def _require_order(self, name: str | int, past: Mapping[str | int, object]) -> None:
        """Refuse a new period that is not later than all others."""
        if past and sort_key(name) <= max(map(sort_key, past)):
            rule = "periods must come after the last restart"
            refuse(rule, write_plain(name), "Rows from before it are no longer kept.")
        if name not in self.periods and self._periods and sort_key(name) <= sort_key(self.periods[-1]):
            got = f"{write_plain(name)} after {write_plain(self.periods[-1])}"
            remedy = "Give late outcomes to the period in which they became known."
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
        remedy = "Pass `replace`=True for corrected rows"
        remedy += ", `extend`=True for further rows." if is_last else "."
        refuse("a period must not be counted twice", f"other rows of {write_plain(name)}", remedy)

    def _open_stream(self, lines: ScoredRows, key: StreamKey, past: int) -> Stream:
        """A stream that has no rows in the periods before."""
        settings = self.settings
        if self._typical is not None and key[1] == EVENT:
            alternatives = Alternatives.of(self._typical)
        else:
            alternatives = Alternatives.of(lines.mean, lines.weight)
        prior = StartPrior(settings.hazard)
        empty = PeriodSums.empty(alternatives.bins)
        return Stream(alternatives, prior, settings.baseline, (empty,) * past)

    # ── what it says ────────────────────────────────────────────────────────────────────────────────

    @property
    def periods(self) -> tuple[str | int, ...]:
        """Names of the periods, in order."""
        return tuple(one.name for one in self._periods)

    @property
    def segments(self) -> tuple[str, ...]:
        """Names of the segments that are followed."""
        return tuple(dict.fromkeys(name for name, _ in self._streams if name is not None))

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
            Of the mean reliability, where the calibration curve is the same in all periods and varies slowly within a
            32nd of the rows.
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
        self.restart()
        return fitted

    def restart(self) -> Self:
        """
        Forget the rows so far and start again, for a score that has been recalibrated or replaced.

        Returns
        -------
        CalibrationMonitor
            The monitor itself, with its settings; the periods before remain known, so that they are not counted again.
        """
        self._restarts = (*self._restarts, Restart(self._periods))
        self._periods, self._streams, self._typical = (), {}, None
        return self

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


def _split_periods(sums: Sums, period: Any) -> list[tuple[str | int, Sums]]:
    """Sums of single periods, in order of time."""
    if sums.settings.time is None:
        return [(parse_period(period), sums)]
    if period is not None:
        refuse("sums with a time column hold their periods", f"`period`={write_plain(period)}", "Leave `period` out.")
    column = sums.settings.time
    return [(parse_period(one), sums.select(**{column: one})) for one in sums.periods if one is not None]
