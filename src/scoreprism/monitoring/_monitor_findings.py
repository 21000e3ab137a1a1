"""What a monitor concludes, as data: whether there is an alarm, since when, why, what to do, and what is guaranteed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp, xlogy

from scoreprism._core.numerics import TINY
from scoreprism._core.simplex import FloatArray
from scoreprism._findings.finding import MIN_GAIN, Finding, select
from scoreprism._findings.wording import name_unit
from scoreprism.losses import get_loss
from scoreprism.monitoring._alarm import Alarm, split_change
from scoreprism.monitoring._periods import EVENT, TOP

if TYPE_CHECKING:
    from scoreprism.monitoring._monitor import CalibrationMonitor
    from scoreprism.monitoring._stream import Stream

#: Classes of scores whose shares make up the case mix.
_MIX = 8
#: Periods that a case mix must have lasted, before a change and since: a weekend is none.
_LASTED = 7
#: Prior weight of a score in each of them (Krichevsky and Trofimov).
_SHARE = 0.5


class Means(NamedTuple):
    """Means over some periods."""

    rows: int
    event_rate: float
    mean_score: float
    loss: float


class Overview(NamedTuple):
    """What figures show of a monitor: what rings the alarm, what is followed, and means of every period."""

    process: str
    log10_needed: float
    view: str | None  # None: the event of two classes
    rows: FloatArray
    event_rate: FloatArray  # NaN where there are no rows
    mean_score: FloatArray


class MixChange(NamedTuple):
    """When the scores that arrive began to differ, and the parts of the change of the loss since then."""

    start: int
    change: float
    mix: float
    miscalibration: float
    refinement: float


def list_findings(monitor: CalibrationMonitor) -> tuple[Finding, ...]:
    """What a monitor concludes, the most important first."""
    return conclude(monitor, monitor.alarm)


def conclude(monitor: CalibrationMonitor, alarm: Alarm | None) -> tuple[Finding, ...]:
    """The findings of a monitor, whose alarm is known already."""
    if not monitor.periods:
        last = [restart.periods[-1].name for restart in monitor._restarts if restart.periods]
        facts = {"restart": last[-1]} if last else {}
        return Finding("monitor_quiet", n=0, facts=facts), find_guarantee(monitor)
    found = [_find_quiet(monitor)] if alarm is None else _find_alarm(monitor, alarm)
    found += _find_segments(monitor)
    found += _find_mix_cause(monitor) if alarm is None else _find_cause(monitor, alarm)
    if alarm is None and not select(found, "monitor_segments"):
        found.insert(1, Finding("monitor_idle", facts={"mix": bool(select(found, "monitor_cause"))}))
    return *found, find_guarantee(monitor)


def find_process(monitor: CalibrationMonitor) -> tuple[str, float]:
    """The process that rings the alarm, and the logarithm of what it must reach."""
    settings = monitor.settings
    if settings.arl is not None:
        return "detector", math.log(settings.arl)
    return settings.alarm, -math.log(settings.alpha)


def make_overview(monitor: CalibrationMonitor) -> Overview:
    """What figures show beside the evidence and the bounds."""
    process, needed = find_process(monitor)
    stream = main_stream(monitor)
    weight, events, scores = (one.sum(axis=1) for one in stream.counts[:3])
    blank = np.full(weight.size, math.nan)
    rates = [np.divide(one, weight, out=blank.copy(), where=weight > 0.0) for one in (events, scores)]
    rows = np.array([one.rows for one in stream.sums], dtype=np.float64)
    return Overview(process, needed / math.log(10.0), find_view(stream, monitor), rows, *rates)


def find_guarantee(monitor: CalibrationMonitor) -> Finding:
    """What is promised of the alarm."""
    process, needed = find_process(monitor)
    facts: dict[str, Any] = {"process": process, "log10_needed": needed / math.log(10.0)}
    facts |= {"alpha": monitor.settings.alpha, "arl": monitor.settings.arl, "unit": name_unit(monitor.periods)}
    return Finding("monitor_guarantee", facts=facts)


def find_view(stream: Stream, monitor: CalibrationMonitor) -> str | None:
    """What a stream of all rows follows, in words; None for the event of two classes."""
    name = next(what for (segment, what), one in monitor._streams.items() if segment is None and one is stream)
    if name == EVENT:
        return None
    return f"the {name}" if name == TOP else name


def main_stream(monitor: CalibrationMonitor, segment: str | None = None) -> Stream:
    """What the reliability is about: the event; of several classes whether the most likely one is right."""
    return monitor._find_streams(segment)[0][1]


def average(stream: Stream, start: int = 0, stop: int | None = None) -> Means:
    """Means over some periods of a stream."""
    part = slice(start, stop)
    pooled = stream.counts.part(part).pool()
    weight = float(pooled.rows.sum())
    if weight == 0.0:
        return Means(0, math.nan, math.nan, math.nan)
    sums = stream.sums[part]
    loss = sum(one.loss for one in sums) / weight
    event_rate, mean_score = (float(one.sum()) / weight for one in (pooled.events, pooled.scores))
    return Means(sum(one.rows for one in sums), event_rate, mean_score, loss)


# ── an alarm ────────────────────────────────────────────────────────────────────────────────────────


def _find_alarm(monitor: CalibrationMonitor, alarm: Alarm) -> list[Finding]:
    """The alarm, and what recalibrating gains."""
    start = monitor.periods.index(alarm.since)
    process, needed = find_process(monitor)
    rung = max(monitor._find_streams(None), key=lambda one: _last_log(one[1], process))[1]
    view = find_view(rung, monitor)
    facts = {
        "process": alarm.process,
        "since": alarm.since, "since_first": alarm.since_first, "since_last": alarm.since_last,
        "rung": alarm.period, "from_start": start == 0, "view": view,
        "direction": alarm.direction, "is_sure": _is_sure(alarm),
        "log10_e": float(monitor.log_evidence(process)[-1]) / math.log(10.0), "log10_needed": needed / math.log(10.0),
    }  # fmt: skip
    found = [Finding("monitor_alarm", n=alarm.rows, facts=facts)]
    low, high = alarm.reliability.low, alarm.reliability.high
    bounds: dict[str, Any] = {"low": low, "high": high if math.isfinite(high) else None}
    loss = average(rung, start).loss
    if view is None and math.isfinite(loss) and loss > 0.0:  # of several classes it is the loss of one of them
        bounds["value"] = loss
    bounds |= {"confidence_level": alarm.reliability.confidence_level, "n": alarm.rows}
    about = {"loss": monitor.settings.loss, "view": view, "since": alarm.since}
    if "value" in bounds and high < MIN_GAIN * loss:
        return [*found, Finding("monitor_minor", **bounds, facts=about | {"min_gain": MIN_GAIN})]
    kind = "monitor_pays" if low > 0.0 else "monitor_open"
    return [*found, Finding(kind, **bounds, facts=about)]


def _last_log(stream: Stream, process: str) -> float:
    """Log E of a stream at the last look."""
    logs = {"calibration": stream.log_calibration, "detector": stream.log_detector}
    return float(logs[process][-1] if process in logs else stream.change.log_e[-1])


def _is_sure(alarm: Alarm) -> bool:
    """Whether the interval of what the direction is read from is on one side of 0."""
    ends = alarm.shift if alarm.direction in ("too high", "too low") else alarm.slope
    return ends.low > 0.0 or ends.high < 0.0


def _find_cause(monitor: CalibrationMonitor, alarm: Alarm) -> list[Finding]:
    """What the change of the loss since an alarm is made of; unknown where there is no time before it."""
    stream, start = main_stream(monitor), monitor.periods.index(alarm.since)
    if not all(map(math.isfinite, (alarm.change, alarm.mix))) or find_view(stream, monitor) is not None:
        return []
    parts = {"case mix": alarm.mix, "reliability": alarm.miscalibration, "refinement": alarm.refinement}
    facts = {"alarm": True, "since": alarm.since, "parts": parts} | _compare(stream, start, monitor)
    return [Finding("monitor_cause", value=alarm.change, facts=facts)]


def _compare(stream: Stream, start: int, monitor: CalibrationMonitor) -> dict[str, Any]:
    """Losses and mean scores before and after."""
    before, after = average(stream, 0, start), average(stream, start)
    return {
        "loss": monitor.settings.loss, "loss_before": before.loss, "loss_after": after.loss,
        "score_before": before.mean_score, "score_after": after.mean_score,
    }  # fmt: skip


# ── no alarm ────────────────────────────────────────────────────────────────────────────────────────


def _find_quiet(monitor: CalibrationMonitor) -> Finding:
    process, needed = find_process(monitor)
    high = monitor.bounds().high
    facts = {
        "process": process, "unit": name_unit(monitor.periods), "baseline": monitor.settings.baseline,
        "log10_e": float(monitor.log_evidence(process)[-1]) / math.log(10.0), "log10_needed": needed / math.log(10.0),
        "view": find_view(main_stream(monitor), monitor),
    }  # fmt: skip
    return Finding(
        "monitor_quiet",
        n=len(monitor.periods),
        high=high if math.isfinite(high) else None,
        confidence_level=1.0 - monitor.settings.alpha,
        facts=facts,
    )


def _find_mix_cause(monitor: CalibrationMonitor) -> list[Finding]:
    found = find_mix_change(monitor)
    if found is None:
        return []
    stream = main_stream(monitor)
    parts = {"case mix": found.mix, "reliability": found.miscalibration, "refinement": found.refinement}
    facts = {"alarm": False, "since": monitor.periods[found.start], "parts": parts}
    return [Finding("monitor_cause", value=found.change, facts=facts | _compare(stream, found.start, monitor))]


def find_mix_change(monitor: CalibrationMonitor) -> MixChange | None:
    """When other scores began to arrive, where that changed the loss by a share that matters, more than all else."""
    stream = main_stream(monitor)
    if find_view(stream, monitor) is not None:  # parts of one class are not parts of the loss of all
        return None
    weight = stream.counts.rows
    if len(weight) < 2 * _LASTED:
        return None
    groups = np.add.reduceat(weight, np.unique(np.arange(_MIX) * weight.shape[1] // _MIX), axis=1)
    log_e, start = weigh_mixes(groups, stream.prior.each(len(groups)))
    if log_e < -math.log(monitor.settings.alpha):
        return None
    change, parts = split_change(stream, start, get_loss(monitor.settings.loss))
    found = MixChange(start, change, *parts)
    is_largest = abs(found.mix) >= max(abs(found.miscalibration), abs(found.refinement))
    is_material = abs(found.mix) >= MIN_GAIN * average(stream, 0, start).loss
    return found if math.isfinite(change) and is_largest and is_material else None


def weigh_mixes(groups: FloatArray, start: FloatArray) -> tuple[float, int]:
    """
    Log E against scores that always fall into classes with the same shares, from counts (T, k); the likeliest start.

    The numerator mixes Dirichlet-multinomial laws before and after each start; the denominator is the largest
    likelihood that shares which never change give (universal inference), so that E may be looked at at every time.
    """
    seen = np.concatenate([np.zeros((1, groups.shape[1])), groups.cumsum(axis=0)])
    total = seen[-1]
    # leaving out the first starts and the last ones only makes E smaller
    starts = np.arange(_LASTED, start.size - _LASTED + 1)
    each = np.log(start[starts] + TINY) + _log_dirichlet(seen[starts]) + _log_dirichlet(total - seen[starts])
    still = np.log(max(1.0 - float(start[1:].sum()), 0.0) + TINY) + _log_dirichlet(total)
    most = float(xlogy(total, total / max(float(total.sum()), TINY)).sum())
    return float(logsumexp(np.append(each, still))) - most, int(starts[each.argmax()])


def _log_dirichlet(counts: FloatArray) -> FloatArray:
    """Log-probability of a sequence with these counts, (…, k), mixed over all shares."""
    size = counts.shape[-1] * _SHARE
    own = gammaln(counts + _SHARE).sum(axis=-1) - counts.shape[-1] * gammaln(_SHARE)
    return np.asarray(own + gammaln(size) - gammaln(counts.sum(axis=-1) + size))


# ── segments ────────────────────────────────────────────────────────────────────────────────────────


def _find_segments(monitor: CalibrationMonitor) -> list[Finding]:
    flags = monitor.list_segments()
    if not flags:
        return []
    wrong = [name for name, is_off in flags.items() if is_off]
    if not wrong:
        return [Finding("monitor_segments_none", n=len(flags))]
    return [Finding("monitor_segments", n=len(flags), facts={"segments": wrong})]
