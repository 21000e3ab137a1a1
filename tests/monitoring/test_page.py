"""What people look at of a monitor: what it concludes, its document, its figure and its page."""

from __future__ import annotations

import html
import math
import re
from datetime import date, timedelta

import numpy as np
import pytest
from scipy.special import expit, logit

from scoreprism.displays import DISPLAYS
from scoreprism.exceptions import InputError
from scoreprism.monitoring import CalibrationMonitor, _monitor_document
from scoreprism.report import write_monitor_page
from tests.findings import select
from tests.monitoring.monitor_sample import CHANGES, FIRST, name_day, watch

KINDS = ("alarm", "quiet", "mix", "segments", "classes", "hostile")


def kinds_of(monitor):
    return [one.kind for one in monitor.document().findings]


def feed(monitor, periods, rows=300, moved=0.0, seed=0):
    """A stream whose log-odds are off by so much."""
    rng = np.random.default_rng(seed)
    for period in periods:
        p = rng.beta(2, 9, rows)
        monitor.update(rng.random(rows) < expit(logit(p) + moved), p, period=period)
    return monitor


# ── conclusions ─────────────────────────────────────────────────────────────────────────────────────


def test_an_alarm_says_since_when_and_what_recalibration_gains():
    """Numbers of the alarm itself; the change is 213 days after the first of January, on the second of August."""
    monitor = watch("alarm")
    alarm, found = monitor.alarm, monitor.document().findings
    (rung,) = select(found, "monitor_alarm")
    assert rung.facts["since_first"] <= name_day(CHANGES["alarm"]) <= rung.facts["since_last"]
    assert (rung.facts["since"], rung.facts["direction"], rung.n) == (alarm.since, "too high", alarm.rows)
    (pays,) = select(found, "monitor_pays")
    assert (pays.low, pays.high) == (alarm.reliability.low, alarm.reliability.high)
    frame = monitor.to_frame("pandas").set_index("period").loc[alarm.since :]
    assert pays.value == pytest.approx(np.average(frame["loss"], weights=frame["rows"]), abs=1e-12)  # rounding of sums
    (cause,) = select(found, "monitor_cause")
    assert cause.facts["parts"] == {
        "case mix": alarm.mix,
        "reliability": alarm.miscalibration,
        "refinement": alarm.refinement,
    }
    change = cause.facts["loss_after"] - cause.facts["loss_before"]
    assert change == pytest.approx(sum(cause.facts["parts"].values()), abs=1e-12)
    headline = monitor.document().headline
    assert headline.startswith("Scores have been too high since ")
    assert "August 2025" in headline
    assert "Recalibrating would gain" in headline


def test_no_alarm_says_how_far_off_one_is():
    monitor = watch("quiet")
    (quiet,) = select(monitor.document().findings, "monitor_quiet")
    assert quiet.n == 214
    assert 10 ** quiet.facts["log10_e"] == pytest.approx(monitor.to_frame("pandas")["e_calibration"].iloc[-1], rel=1e-9)
    assert 10 ** quiet.facts["log10_needed"] == pytest.approx(20.0, rel=1e-12)  # 1/0.05
    assert quiet.high == monitor.bounds().high
    assert re.fullmatch(
        r"No alarm after 214 days: E = 0\.\d+, and 20 are needed\. The reliability is at most 0\.00\d+\.", quiet.text
    )
    assert kinds_of(monitor) == ["monitor_idle", "monitor_quiet", "monitor_guarantee"]


def test_a_calibrated_stream_of_other_cases_says_case_mix():
    """Beta(2, 9) has the mean 2/11, Beta(4, 9) the mean 4/13; they change after 150 days."""
    monitor = watch("mix")
    assert monitor.alarm is None
    (cause,) = select(monitor.document().findings, "monitor_cause")
    assert (cause.facts["alarm"], cause.facts["since"]) == (False, name_day(CHANGES["mix"]))
    assert cause.facts["score_before"] == pytest.approx(2 / 11, abs=0.002)  # 4 standard errors of 45,000 scores
    assert cause.facts["score_after"] == pytest.approx(4 / 13, abs=0.0025)
    parts = cause.facts["parts"]
    assert parts["case mix"] > 10 * max(abs(parts["reliability"]), abs(parts["refinement"]))
    assert "The case mix has changed since 31 May 2025" in monitor.document().headline


def test_a_stable_stream_hardly_ever_says_case_mix():
    """The criterion is an e-process at the level alpha: at most one of 20 streams, but for chance (3 have p < 0.08)."""
    found = [feed(CalibrationMonitor(), range(40), rows=100, seed=i).document().findings for i in range(20)]
    assert sum(bool(select(one, "monitor_cause")) for one in found if not select(one, "monitor_alarm")) <= 2


def test_weekends_are_no_other_case_mix():
    """Other cases arrive on two days of seven, in every week alike."""
    rng, monitor = np.random.default_rng(0), CalibrationMonitor()
    for day in range(40):
        p = rng.beta(4 if day % 7 >= 5 else 2, 9, 300)
        monitor.update(rng.random(300) < p, p, period=day)
        if day % 7 in (4, 6):
            assert select(monitor.document().findings, "monitor_cause") == []


def test_the_segment_that_is_off_is_named():
    monitor = watch("segments")
    (off,) = select(monitor.document().findings, "monitor_segments")[:1]
    assert (off.facts["segments"], off.n) == (["region=south"], 4)
    rows = monitor.document().tables["segments"].rows
    assert rows[0][0] == "region=south"
    assert [row[1] for row in rows] == ["✗ off", "–", "–", "–"]
    assert sum(row[3] for row in rows) == 200 * 300


def test_a_small_segment_may_be_off_without_an_alarm():
    """One row in 40 is of a segment whose log-odds are off by 1, which all rows together do not show."""
    rng, monitor = np.random.default_rng(0), CalibrationMonitor()
    for day in range(60):
        p, is_small = rng.beta(2, 9, 400), rng.random(400) < 1 / 40
        names = np.where(is_small, "small", "rest")
        monitor.update(rng.random(400) < expit(logit(p) + is_small), p, period=day, segments={"size": names})
    assert monitor.alarm is None
    document = monitor.document()
    assert document.headline.endswith("But size=small is off.")
    assert [one.kind for one in document.sections[0].findings] == ["monitor_segments"]
    assert select(document.findings, "monitor_idle") == []


def test_of_several_classes_it_says_what_is_followed():
    """A monitor of classes follows the most likely one; its reliability is no part of the loss of all classes."""
    found = watch("classes").document().findings
    (rung,) = select(found, "monitor_alarm")
    assert rung.text.startswith("Probabilities of the most likely class have been too high since ")
    (pays,) = select(found, "monitor_pays")
    assert pays.value is None
    assert "%" not in pays.text
    assert select(found, "monitor_cause") == []


def test_a_detector_is_not_called_evidence(tmp_path):
    monitor = feed(CalibrationMonitor(arl=20), range(10), moved=-1.0)
    text = html.unescape(write_monitor_page(monitor, tmp_path / "page.html").read_text("utf-8"))
    assert "when it reached 20" in text
    assert "the sum of the detector stands at" in text
    assert "The detector weighs the outcomes" in text
    assert "E over time" not in text
    assert "E weighs" not in text


def test_no_end_of_a_range_is_a_row_of_zeros():
    cells = [_monitor_document._cell(low, 0.0101) for low in (0.0, 2e-5, 0.0002)]
    assert [cell.low for cell in cells] == [0.0, 0.0, 0.0002]  # a lower end that is lowered still holds


def test_what_cannot_be_said_is_not_said():
    empty = CalibrationMonitor()
    assert empty.document().headline == "No rows so far."
    with pytest.raises(InputError, match="a figure of a monitor must have periods and panels"):
        empty.plot()
    again = feed(CalibrationMonitor(), ["2025-01-01"]).restart()
    assert again.document().headline == "No rows since the restart after 1 January 2025."
    early = feed(CalibrationMonitor(alarm="change"), range(12))
    (quiet,) = select(early.document().findings, "monitor_quiet")
    assert quiet.text.startswith("No alarm yet: the first 30 periods are the baseline, and 12 periods have passed.")
    always = feed(CalibrationMonitor(loss="brier"), range(40), moved=0.6).document()
    assert always.headline.startswith("Scores have been too low from the beginning, period 0.")
    assert select(always.findings, "monitor_cause") == []  # there is no time before it
    detector = feed(CalibrationMonitor(arl=3650), range(20)).document()
    assert "the detector stands at" in detector.headline
    assert "3,650 are needed" in detector.headline


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([date(2026, 8, 2) + timedelta(i) for i in range(3)], "3 days"),
        ([date(2026, 8, 2) + timedelta(7 * i) for i in range(3)], "3 weeks"),
        (["2026-08", "2026-09", "2026-10"], "3 months"),
        (["2026-08-02T10:00", "2026-08-02T11:00", "2026-08-02T12:00"], "3 periods"),
        ([1, 2, 3], "3 periods"),
        (["a", "b", "c"], "3 periods"),
    ],
)
def test_periods_are_called_what_they_are(names, words):
    monitor = feed(CalibrationMonitor(), names)
    assert f"No alarm after {words}: " in monitor.document().headline
    assert len(monitor.plot().axes_) == 4


# ── document ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", KINDS)
def test_the_document_has_its_sections(kind):
    document = watch(kind).document()
    keys = [section.key for section in document.sections]
    assert keys[:3] == ["verdict", "evidence", "rates"]
    assert keys[-1] == "method"
    assert len(document.tables["periods"].rows) == 7
    assert ("segments" in keys) == (kind in ("segments", "hostile"))
    assert ("changed" in keys) == (kind in ("alarm", "mix", "segments", "hostile"))
    for table in document.tables.values():
        cells = [cell for row in table.shown() for cell in row]
        assert not any(re.search(r"nan|e[−-]\d|None|inf", cell) for cell in cells if "<" not in cell), table.key


def test_a_document_stays_what_it_was_when_the_monitor_goes_on():
    monitor = feed(CalibrationMonitor(), range(5))
    document = monitor.document()
    feed(monitor, range(5, 9), seed=1)
    figure = document.sections[1].blocks[0]
    line = figure.draw().axes[1].lines[0]
    assert line.get_xdata().tolist() == [0, 1, 2, 3, 4]


def test_text_and_notebook_show_it():
    monitor = watch("segments")
    assert "region=south" in repr(monitor)
    assert "Segments, by their evidence" in monitor._repr_html_()
    assert "monitor_alarm" in {finding.kind for finding in monitor.document().findings}


# ── figure ──────────────────────────────────────────────────────────────────────────────────────────


def test_the_figure_draws_the_numbers_of_the_monitor():
    monitor = watch("segments")
    display = monitor.plot()
    assert isinstance(display, DISPLAYS["monitor"])
    evidence, reliability, rates, rows = display.axes_
    days = [(FIRST - date(1970, 1, 1)).days + i for i in range(200)]
    for line, process in zip(display.line_[:2], ("calibration", "change"), strict=True):
        log10 = monitor.log_evidence(process) / math.log(10.0)
        bottom, top = evidence.get_ylim()
        inside = (log10 > bottom) & (log10 < top)
        assert inside.sum() > 20
        np.testing.assert_array_equal(line.get_xdata(), days)
        np.testing.assert_allclose(line.get_ydata()[inside], log10[inside], rtol=1e-12)
    threshold = next(line for line in evidence.lines if len(set(line.get_ydata())) == 1)
    assert threshold.get_ydata()[0] == pytest.approx(math.log10(20.0), rel=1e-12)
    since = (date.fromisoformat(monitor.alarm.since) - date(1970, 1, 1)).days
    for panel in display.axes_:
        assert any(set(line.get_xdata()) == {since} for line in panel.lines)
    upper = reliability.lines[0]
    for look in (60, 199):
        place = list(upper.get_xdata()).index(days[look]) if days[look] in upper.get_xdata() else None
        if place is not None:
            assert upper.get_ydata()[place] == monitor.bounds(until=look + 1).high
    assert days[199] in upper.get_xdata()
    frame = monitor.to_frame("pandas")
    dots = rates.lines[0].get_ydata()
    np.testing.assert_allclose(dots, frame["event_rate"], rtol=1e-12)
    week = [line for line in rates.lines if len(line.get_xdata()) == 200][2]
    last = frame.iloc[-28:]
    mean = np.average(last["mean_score"], weights=last["rows"])
    assert week.get_ydata()[-1] == pytest.approx(mean, rel=1e-9)  # means of 28 days, as of more than 120
    assert rows.get_ylim()[1] == pytest.approx(1.12 * 300)


def test_days_without_rows_are_gaps():
    """Dates keep their distance: ten days are missing, and nothing is drawn there."""
    days = [name_day(i) for i in range(60) if not 20 <= i < 30]
    display = feed(CalibrationMonitor(), days).plot(panels=["rows"])
    (area,) = display.axes_[0].collections
    x, height = area.get_paths()[0].vertices.T
    start = (FIRST - date(1970, 1, 1)).days
    inside = (x > start + 20) & (x < start + 29)
    assert not (height[inside] > 0).any()
    assert height[x < start + 19].max() == 300


def test_panels_are_chosen_by_name():
    display = watch("quiet").plot(panels=["rates", "rows"])
    assert len(display.axes_) == 2
    with pytest.raises(InputError, match="'volume'"):
        watch("quiet").plot(panels=["volume"])


# ── page ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", sorted({*KINDS} - {"mix"}))  # whose document has the parts of that of the alarm
def test_the_page_is_one_small_file(kind, page_of):
    path = page_of(kind)
    text = path.read_text(encoding="utf-8")
    assert path.stat().st_size < 500_000
    assert list(path.parent.iterdir()) == [path]
    assert "<h1>Credit &lt;scores&gt;</h1>" in text
    assert html.escape(watch(kind).document().headline, quote=False).split(" (")[0].replace(" %", "\u00a0%") in text
    assert not re.search(r"<script|<img|https?://(?!www\.w3\.org)", text)
    assert text.count('role="img"') == 4


def test_the_page_replaces_nothing_unless_asked(tmp_path):
    path = tmp_path / "monitor.html"
    path.write_text("kept")
    with pytest.raises(InputError, match="an output file must not exist yet"):
        write_monitor_page(watch("quiet"), path)
    assert path.read_text() == "kept"
    write_monitor_page(watch("quiet"), path, overwrite=True)
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_what_is_no_page_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"the name of a page must end in \.html; got 'monitor\.json'"):
        write_monitor_page(watch("quiet"), tmp_path / "monitor.json")
    with pytest.raises(InputError, match="monitor must be a CalibrationMonitor; got dict"):
        write_monitor_page({}, tmp_path / "monitor.html")
    assert list(tmp_path.iterdir()) == []
