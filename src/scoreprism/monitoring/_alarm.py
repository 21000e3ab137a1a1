"""Alarm: since when a score is off, in which direction, what it costs, and why the loss changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scoreprism._core.simplex import FloatArray
from scoreprism._document.result import Record
from scoreprism._kernels.term_intervals import Interval
from scoreprism.losses import ProperLoss, get_loss
from scoreprism.monitoring._evidence import Counts, fit_rough_map, make_hats, move_rates

if TYPE_CHECKING:
    from scoreprism.monitoring._monitor import CalibrationMonitor
    from scoreprism.monitoring._stream import Stream

#: What a score is, by whether its shift or its slope matters more, and by the sign of what it lacks.
DIRECTIONS = {("shift", 1): "too low", ("shift", -1): "too high", ("slope", 1): "too timid", ("slope", -1): "too bold"}


@dataclass(frozen=True)
class Alarm(Record):
    """
    An alarm of a `CalibrationMonitor`, as it looks at the last period.

    Attributes
    ----------
    process : str
        What rang it: "calibration", "change" or "detector".
    period : str or int
        The period in which it rang.
    since, since_first, since_last : str or int
        The likeliest first period that was off, and the ends of a set that holds it with 90 % (Bayes).
    direction : str
        "too high", "too low", "too bold" or "too timid".
    shift, slope : Interval
        What the log-odds lack: everywhere, and per standard deviation of the logit. They hold at every look, where the
        departure is a line in the log-odds.
    reliability : Interval
        Since then: what recalibration would gain. It holds at every look.
    change : float
        Change of the mean loss since then.
    mix, miscalibration, refinement : float
        Parts of that change: other scores; a larger reliability; less certain chances given the score. NaN if it was
        so from the start.
    rows : int
        Rows since then.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.monitoring import CalibrationMonitor
    >>> rng = np.random.default_rng(0)
    >>> monitor = CalibrationMonitor()
    >>> for day in range(1, 61):                                      # from day 31 on, a fifth of the events is missing
    ...     score = rng.beta(2, 5, 500)
    ...     happens = rng.random(500) < (score if day <= 30 else 0.8 * score)
    ...     monitor = monitor.update(happens, score, period=day)
    >>> alarm = monitor.alarm
    >>> alarm.period, alarm.direction
    (33, 'too high')
    >>> alarm.since_first, alarm.since, alarm.since_last
    (28, 32, 32)
    """

    process: str
    period: str | int
    since: str | int
    since_first: str | int
    since_last: str | int
    direction: str
    shift: Interval
    slope: Interval
    reliability: Interval
    change: float
    mix: float
    miscalibration: float
    refinement: float
    rows: int

    def _columns(self) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = {}
        for name, value in self._fields().items():
            if isinstance(value, Interval):
                columns |= {f"{name}_low": [value.low], f"{name}_high": [value.high]}
            else:
                columns[name] = [value]
        return columns

    def to_dict(self) -> dict[str, Any]:
        """
        All fields as plain Python objects.

        Returns
        -------
        dict
            Field → value; intervals as [low, high].
        """
        found = self._fields().items()
        return {name: [value.low, value.high] if isinstance(value, Interval) else value for name, value in found}

    def _title(self) -> str:
        return f"Alarm in {self.period}: scores are {self.direction} since {self.since}"


def diagnose(monitor: CalibrationMonitor, stream: Stream, process: str, rung: int) -> Alarm:
    """What is known at the last look."""
    alpha, loss, names = monitor.settings.alpha, get_loss(monitor.settings.loss), monitor.periods
    since = stream.find_start(after_baseline=process == "change")
    line = stream.fit_line(alpha, since.start)
    value = line.value * line.weight
    which = "shift" if abs(value[0]) >= abs(value[1]) else "slope"
    sign = 1 if line.value[0 if which == "shift" else 1] > 0.0 else -1
    confidence = 1.0 - alpha
    ends = [
        Interval(float(low), float(high), confidence, "at every look")
        for low, high in zip(line.low, line.high, strict=True)
    ]
    low, high = stream.bound(loss, alpha, since.start)
    change, parts = split_change(stream, since.start, loss)
    return Alarm(
        process,
        names[rung],
        names[since.start],
        names[since.first],
        names[since.last],
        DIRECTIONS[which, sign],
        shift=ends[0],
        slope=ends[1],
        reliability=Interval(low, high, confidence, "at every look"),
        change=change,
        mix=parts[0],
        miscalibration=parts[1],
        refinement=parts[2],
        rows=sum(one.rows for one in stream.sums[since.start :]),
    )


def split_change(stream: Stream, start: int, loss: ProperLoss) -> tuple[float, tuple[float, float, float]]:
    """The change of the mean loss from before a start to after it: by case mix, reliability and refinement."""
    before, after = (stream.counts.part(part).pool() for part in (slice(0, start), slice(start, None)))
    if not before.rows.any() or not after.rows.any():
        return float("nan"), (float("nan"),) * 3
    basis = make_hats(stream.alternatives)
    risk = [sum(one.loss for one in stream.sums[part]) for part in (slice(0, start), slice(start, None))]
    change = risk[1] / float(after.rows.sum()) - risk[0] / float(before.rows.sum())
    old, new = fit_rough_map(before, basis), fit_rough_map(after, basis)
    share = [one.rows / one.rows.sum() for one in (before, after)]
    miss = _describe(after, new, loss), _describe(after, old, loss), _describe(before, old, loss)
    miscalibration = float(share[1] @ (miss[0][0] - miss[1][0]))
    refinement = float(share[1] @ (miss[0][1] - miss[1][1]))
    return change, (change - miscalibration - refinement, miscalibration, refinement)


def _describe(counts: Counts, moves: FloatArray, loss: ProperLoss) -> tuple[FloatArray, FloatArray]:
    """Divergence and entropy of each bin, if its chance is its mean score moved."""
    chance = move_rates(counts.rate, moves)
    return loss.divergence(counts.rate, chance), loss.entropy(chance)
