"""The document of a monitor: verdict and what to do, evidence and reliability over time, rates and rows, segments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from scoreprism._document.colours import house_style
from scoreprism._document.drawing import draw
from scoreprism._document.model import (
    Block,
    Callout,
    Cell,
    Document,
    Figure,
    Paragraph,
    Range,
    Section,
    Table,
    make_table,
    versions,
)
from scoreprism._findings.finding import Finding, select
from scoreprism._findings.sentences import say_monitor_headline
from scoreprism._findings.wording import (
    enumerate_words,
    name_unit,
    plural,
    write_amount,
    write_count,
    write_evidence,
    write_percent,
    write_period,
    write_span,
)
from scoreprism._kernels.term_intervals import Interval
from scoreprism.losses import get_loss
from scoreprism.monitoring._monitor_findings import (
    average,
    conclude,
    find_process,
    find_view,
    main_stream,
)

if TYPE_CHECKING:
    from scoreprism.monitoring._alarm import Alarm
    from scoreprism.monitoring._monitor import CalibrationMonitor

#: Periods that are recent; those that the last table shows, and segments.
_RECENT, _LAST, _SEGMENTS = 28, 7, 40
#: Width and height of a figure, in inches: two of them stand beside each other, and one fits on a phone.
_SIZE = (5.0, 3.0)
#: What each process is called.
_PROCESSES = {
    "calibration": "E against calibration",
    "change": "E against no change",
    "detector": "the sum of the detector",
}
#: What each part of a change of the loss is.
_PARTS = {
    "case mix": "other scores arrive than before",
    "reliability": "scores are farther from the event rates than before, or nearer",
    "refinement": "at equal scores, outcomes are harder to predict than before, or easier",
}
#: How settings are called.
_SETTINGS = {
    "alpha": "chance of a false alarm, ever",
    "loss": "loss",
    "alarm": "what rings the alarm",
    "baseline": "periods of the baseline",
    "hazard": "prior chance of a change in a period",
    "arl": "periods to a false alarm",
    "weights": "what weights are",
}


def make_document(monitor: CalibrationMonitor, title: str = "Calibration monitor") -> Document:
    """Everything that is shown of a monitor, as it is now."""
    monitor = monitor._copy()  # figures are drawn later, when it may have seen more
    alarm = monitor.alarm
    findings = conclude(monitor, alarm)
    sections = [_make_verdict(monitor, alarm, findings)]
    if monitor.periods:
        sections += [_make_evidence(monitor, alarm, findings), _make_rates(monitor)]
        sections += [_make_segments(monitor, findings)] if monitor.segments else []
        sections += [one for one in (_make_changed(monitor, findings),) if one is not None]
    sections.append(_make_method(monitor, findings))
    settings = {name: getattr(monitor.settings, name) for name in _SETTINGS}
    headline = say_monitor_headline(findings)
    return Document("monitor", title, headline, tuple(sections), settings=settings, versions=versions())


def list_facts(monitor: CalibrationMonitor) -> list[str]:
    """What stands above the title of a page."""
    facts = ["scoreprism monitor"]
    if monitor.periods:
        rows = average(main_stream(monitor)).rows
        facts += [f"{_count_periods(monitor)}, to {write_period(monitor.periods[-1])}", plural(rows, "row")]
    return facts


def _count_periods(monitor: CalibrationMonitor) -> str:
    return plural(len(monitor.periods), name_unit(monitor.periods))


# ── verdict ─────────────────────────────────────────────────────────────────────────────────────────


def _make_verdict(monitor: CalibrationMonitor, alarm: Alarm | None, findings: Sequence[Finding]) -> Section:
    """What to do, what is known, and the state in numbers."""
    kinds = ("monitor_segments", "monitor_pays", "monitor_open", "monitor_minor", "monitor_idle")
    blocks: list[Block] = [Callout(one) for kind in kinds for one in select(findings, kind)]
    if not monitor.periods:
        blocks += [Callout(one) for one in select(findings, "monitor_quiet")]
    else:
        blocks += [_tabulate_state(monitor, alarm), _tabulate_means(monitor, findings)]
    return Section("verdict", "Verdict", (), tuple(blocks))


def _tabulate_state(monitor: CalibrationMonitor, alarm: Alarm | None) -> Table:
    """Where the monitor stands."""
    process, needed = find_process(monitor)
    names = ("detector",) if process == "detector" else ("calibration", "change")
    first, last = monitor.periods[0], monitor.periods[-1]
    span = f"{_count_periods(monitor)}, {write_span(first, last)}" if first != last else write_period(first)
    rows: list[tuple[str, str]] = [("watched", span)]
    rows += [("rows", write_count(average(main_stream(monitor)).rows))]
    for name in names:
        log10 = float(monitor.log_evidence(name)[-1]) / math.log(10.0)
        more = f" ({write_evidence(needed / math.log(10.0))} needed)" if name == process else ""
        rows.append((_PROCESSES[name].removeprefix("the "), f"{write_evidence(log10)}{more}"))
    if alarm is not None:
        rows.append(("alarm", write_period(alarm.period)))
        since = write_period(alarm.since)
        if alarm.since_first != alarm.since_last:
            since += f" (with 90 %: {write_span(alarm.since_first, alarm.since_last, beside=alarm.since)})"
        rows.append(("off since", since))
    columns = [("what", "what", "text"), ("value", "value", "text")]
    return make_table("state", "Where the monitor stands", columns, rows)


def _tabulate_means(monitor: CalibrationMonitor, findings: Sequence[Finding]) -> Table:
    """Rates, loss and reliability: before a change and since then, or of all rows."""
    stream, loss = main_stream(monitor), f"{monitor.settings.loss} loss"
    is_class = find_view(stream, monitor) is not None
    since = [one.facts["since"] for one in select(findings, "monitor_alarm", "monitor_cause")]
    start = monitor.periods.index(since[0]) if since else 0
    unit, size = name_unit(monitor.periods), len(monitor.periods)
    parts: dict[str, tuple[int, int | None]] = {f"all {plural(size, unit)}" if size > 1 else "all rows": (0, None)}
    if size >= 2 * _RECENT:
        parts |= {f"the last {_RECENT}": (size - _RECENT, None)}
    if start:
        parts = {f"before {write_period(since[0])}": (0, start), "since then": (start, None)}
    means = [average(stream, *ends) for ends in parts.values()]
    divergence, alpha = get_loss(monitor.settings.loss), monitor.settings.alpha
    known = [_cell(*stream.bound(divergence, alpha, *ends)) for ends in parts.values()]
    names = {
        "event_rate": "share right" if is_class else "event rate",
        "mean_score": "mean probability" if is_class else "mean score",
        "loss": loss,
    }
    rows: list[tuple[Cell, ...]] = [("rows", *(write_count(one.rows) for one in means))]
    rows += [(words, *(getattr(one, name) for one in means)) for name, words in names.items()]
    rows.append((f"reliability ({write_percent(1.0 - monitor.settings.alpha)})", *known))
    columns = [("what", "what", "text"), *((f"part_{i}", name, "loss") for i, name in enumerate(parts))]
    title = "The most likely class" if is_class else "Scores and outcomes" if len(parts) > 1 else "So far"
    return make_table("means", title, columns, rows)


def _cell(low: float, high: float) -> Range:
    """Bounds as a cell."""
    if not math.isfinite(high):
        return Range(low, None)
    return Range(low if low >= 0.005 * high else 0.0, high)  # no 0.0000, which a lower end would be printed as


def _ends(known: Interval) -> tuple[float, float]:
    return known.low, known.high


# ── figures ─────────────────────────────────────────────────────────────────────────────────────────


def _make_figure(monitor: CalibrationMonitor, panel: str, title: str, description: str) -> Figure:
    """A panel of the monitor's figure, drawn when it is needed."""

    def drawn() -> Any:
        from matplotlib.figure import Figure as Canvas

        with house_style():
            canvas = Canvas(figsize=_SIZE, layout="constrained")
            draw(monitor, ax=canvas.subplots(), panels=[panel])
        return canvas

    return Figure(panel, title, description, drawn)


def _make_evidence(monitor: CalibrationMonitor, alarm: Alarm | None, findings: Sequence[Finding]) -> Section:
    process, log_needed = find_process(monitor)
    needed = log_needed / math.log(10.0)
    names = ("detector",) if process == "detector" else ("calibration", "change")
    last = {name: write_evidence(float(monitor.log_evidence(name)[-1]) / math.log(10.0)) for name in names}
    each = enumerate_words([f"{_PROCESSES[name]} stands at {value}" for name, value in last.items()])
    words = f"The axis is logarithmic, and cut where matters are beyond doubt: {each}."
    if alarm is None:
        words += f" An alarm rings at {write_evidence(needed)}."
    else:
        what = "it" if process == "detector" else "E"
        reached = f"{what} reached {write_evidence(needed)}"
        words += f" The diamond is the alarm of {write_period(alarm.period)}, when {reached}."
    title = "The detector over time" if process == "detector" else "E over time"
    evidence = _make_figure(monitor, "evidence", title, words)
    view = find_view(main_stream(monitor), monitor)
    ends, confidence = monitor.bounds(), write_percent(1.0 - monitor.settings.alpha)
    words = (
        f"Bounds of the reliability{f' of {view}' if view else ''} of all rows so far, which hold at every look with "
        f"{confidence}: {_write_bounds(ends.low, ends.high)} now."
    )
    if alarm is not None and math.isfinite(alarm.reliability.high):
        known = _write_bounds(alarm.reliability.low, alarm.reliability.high)
        words += f" Of the rows since {write_period(alarm.since)} it is {known}."
    reliability = _make_figure(monitor, "reliability", "Reliability over time", words)
    lead = select(findings, "monitor_alarm", "monitor_quiet")
    return Section("evidence", "Evidence and reliability", tuple(lead), (evidence, reliability))


def _write_bounds(low: float, high: float) -> str:
    if not math.isfinite(high):
        return "not known"
    ends = write_amount(low, 2) if low >= 1e-4 or low == 0.0 else "just above 0"
    return f"{ends} to {write_amount(high, 2)}"


def _make_rates(monitor: CalibrationMonitor) -> Section:
    stream = main_stream(monitor)
    means, view = average(stream), find_view(stream, monitor)
    if math.isfinite(means.event_rate):
        rate, score = write_amount(means.event_rate), write_amount(means.mean_score)
        words = (
            f"Over all rows, the event rate is {rate} and the mean score {score}. Calibrated scores follow the event "
            "rate wherever it moves."
        )
        if view is not None:
            words = (
                f"Over all rows, the most likely class is right in a share of {rate}, and its mean probability is "
                f"{score}. Where probabilities are calibrated, both move together."
            )
    else:
        words = "There are no rows."
    title = "Event rate and mean score" if view is None else "The most likely class: share right and mean probability"
    rates = _make_figure(monitor, "rates", title, words)
    counts = [one.rows for one in stream.sums]
    unit, empty = name_unit(monitor.periods), sum(one == 0 for one in counts)
    least, most = write_count(min(counts)), write_count(max(counts))
    words = f"Between {least} and {most} rows per {unit}." if least != most else f"{most} rows each {unit}."
    words += f" {plural(empty, unit)} without rows." if empty else ""
    rows = _make_figure(monitor, "rows", f"Rows per {unit}", words)
    last = [_tabulate_periods(monitor)] if len(monitor.periods) > 1 else []
    return Section("rates", "Outcomes, scores and rows", (), (rates, rows, *last))


def _tabulate_periods(monitor: CalibrationMonitor) -> Table:
    """The last periods, the newest first."""
    process, _ = find_process(monitor)
    overview, size = monitor._overview(), len(monitor.periods)
    e = {name: monitor.log_evidence(name) / math.log(10.0) for name in dict.fromkeys((process, "change"))}
    rows: list[tuple[Cell, ...]] = []
    for i in range(size - 1, max(size - 1 - _LAST, -1), -1):
        bounds = _cell(*_ends(monitor.bounds(until=i + 1)))
        numbers = [float(one[i]) for one in (overview.event_rate, overview.mean_score)]
        logs = [write_evidence(float(log[i])).replace("less than", "<") for log in e.values()]
        rows.append((write_period(monitor.periods[i]), int(overview.rows[i]), *numbers, *logs, bounds))
    is_class = overview.view is not None
    heads = {"calibration": "E", "change": "E, no change", "detector": "detector"}
    columns = [
        ("period", name_unit(monitor.periods), "text"), ("rows", "rows", "count"),
        ("event_rate", "share right" if is_class else "event rate", "short"),
        ("mean_score", "mean probability" if is_class else "mean score", "short"),
        *((f"e_{name}", heads[name], "digits") for name in e),
        ("reliability", "reliability so far", "loss"),
    ]  # fmt: skip
    unit = name_unit(monitor.periods)
    title = f"The last {len(rows)} of {plural(size, unit)}" if size > len(rows) else f"All {unit}s"
    return make_table("periods", title, columns, rows)


# ── segments ────────────────────────────────────────────────────────────────────────────────────────


def _make_segments(monitor: CalibrationMonitor, findings: Sequence[Finding]) -> Section:
    flags, process = monitor.list_segments(), monitor.settings.alarm
    logs = {name: float(monitor.log_evidence(process, name)[-1]) / math.log(10.0) for name in flags}
    rows: list[tuple[Cell, ...]] = []
    for name in sorted(flags, key=lambda one: -logs[one])[:_SEGMENTS]:
        means, ends = average(main_stream(monitor, name)), monitor.bounds(name)
        rows.append(
            (name, "✗ off" if flags[name] else "–", write_evidence(logs[name]), means.rows, means.event_rate,
             means.mean_score, _cell(*_ends(ends)))
        )  # fmt: skip
    columns = [
        ("segment", "segment", "text"), ("verdict", "verdict", "text"), ("e", "E", "digits"), ("rows", "rows", "count"),
        ("event_rate", "event rate", "short"), ("mean_score", "mean score", "short"),
        ("reliability", f"reliability ({write_percent(1.0 - monitor.settings.alpha)}, at every look)", "loss"),
    ]  # fmt: skip
    share = write_percent(monitor.settings.alpha)
    note = (
        f"Of the segments that are flagged, at most {share} are false on average, however often one looks (Benjamini "
        "and Hochberg's procedure, on e-values). Means and bounds are of all rows so far."
    )
    if len(flags) > _SEGMENTS:
        note += f" The {_SEGMENTS} with the most evidence, of {len(flags)}."
    lead = select(findings, "monitor_segments", "monitor_segments_none")
    table = make_table("segments", "Segments, by their evidence", columns, rows, note)
    return Section("segments", "Segments", tuple(lead), (table,))


# ── what changed ────────────────────────────────────────────────────────────────────────────────────


def _make_changed(monitor: CalibrationMonitor, findings: Sequence[Finding]) -> Section | None:
    """Before and after, and the parts of the change of the loss."""
    causes = select(findings, "monitor_cause")
    if not causes:
        return None
    (cause,) = causes
    loss = f"{monitor.settings.loss} loss"
    columns = [("part", "part", "text"), ("change", f"change of the {loss}", "signed"), ("what", "what it is", "text")]
    parts = [(name, cause.facts["parts"][name], what) for name, what in _PARTS.items()]
    rows = [*parts, ("together", sum(cause.facts["parts"].values()), "")]
    return Section(
        "changed", "What changed", (cause,), (make_table("parts", f"What changed the {loss}", columns, rows),)
    )


# ── how to read it ──────────────────────────────────────────────────────────────────────────────────


def _make_method(monitor: CalibrationMonitor, findings: Sequence[Finding]) -> Section:
    """The guarantee, how to read the page, and the settings."""
    confidence = write_percent(1.0 - monitor.settings.alpha)
    evidence = (
        "E weighs the outcomes under the scores against many other maps from scores to chances. It starts at 1, falls "
        "slowly while scores are calibrated, and grows by a factor every day once they are not. “Against no change” "
        "compares recent outcomes with earlier ones at equal scores: it starts at 0.1, never falls, and hardly grows "
        "while scores are off in one way only. "
    )
    if find_process(monitor)[0] == "detector":
        evidence = (
            "The detector weighs the outcomes under the scores against many other maps from scores to chances, and "
            "sums over all periods since when scores may be off. "
        )
    evidence += "An alarm stays until the monitor is restarted."
    reliability = (
        "Reliability is the part of the loss that recalibration removes. Its bounds hold at all looks together with "
        f"{confidence}, which makes them wider than those of a single test at the end."
    )
    since = (
        "The vertical line is the likeliest period since when scores have been off; the pale stripe holds that period "
        "with 90 % (a posterior probability, not a guarantee)."
    )
    words = [evidence, reliability, *([since] if select(findings, "monitor_alarm") else [])]
    columns = [("setting", "setting", "text"), ("value", "value", "text")]
    values = {name: getattr(monitor.settings, name) for name in _SETTINGS}
    values |= {"alpha": write_percent(monitor.settings.alpha), "hazard": write_amount(monitor.settings.hazard, 2)}
    rows = [(_SETTINGS[name], str(value)) for name, value in values.items() if value is not None]
    table = make_table("settings", "Settings", columns, rows)
    lead = tuple(select(findings, "monitor_guarantee"))
    return Section("method", "How to read this page", lead, (*map(Paragraph, words), table))
