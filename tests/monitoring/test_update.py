"""What an update counts: the same whichever way rows come, once, in order of time; or it is refused by name."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit, logit
from scipy.stats import norm

from scoreprism import Sample, scale
from scoreprism.calibrators import from_json
from scoreprism.exceptions import InputError
from scoreprism.losses import get_loss
from scoreprism.monitoring import CalibrationMonitor, _alternatives, _lost_evidence
from tests.scale.test_scale_engines import cluster, every_engine, made, pytestmark, spark  # noqa: F401 - fixtures

PROCESSES = ("calibration", "change", "detector")
ROWS = 150


def make_days(days=40, n=ROWS, decimals=2, change=25):
    """A frame for each day; scores are calibrated until the change, and too low afterwards."""
    rng = np.random.default_rng(0)
    for day in range(days):
        p = rng.beta(2, 5, n).round(decimals).clip(0.01, 0.99)
        chance = expit(logit(p) + (0.6 if day >= change else 0.0))
        region = np.where(rng.random(n) < 0.3, "north", "south")
        y = (rng.random(n) < chance).astype(int)
        yield pl.DataFrame(
            {"y": y, "p": p, "region": region, "day": [dt.date(2026, 1, 1) + dt.timedelta(days=day)] * n}
        )


DAYS = list(make_days())


def by_rows(days=DAYS, **settings):
    monitor = CalibrationMonitor(**settings)
    for day in days:
        monitor.update(day["y"], day["p"], segments={"region": day["region"]}, period=day["day"][0])
    return monitor


def total(frame, **options):
    return scale.aggregate(frame, target="y", score="p", segments="region", **options)


def assert_same(monitor, other, places=1e-9):
    assert monitor.periods == other.periods
    assert monitor.segments == other.segments
    for segment in (None, *monitor.segments):
        for process in PROCESSES:
            found, wanted = (one.log_evidence(process, segment) for one in (monitor, other))
            np.testing.assert_allclose(found, wanted, rtol=0, atol=places)
        found, wanted = monitor.bounds(segment), other.bounds(segment)
        np.testing.assert_allclose([found.low, found.high], [wanted.low, wanted.high], rtol=0, atol=places)


@pytest.fixture(scope="module")
def whole():
    monitor = by_rows()
    assert monitor.log_evidence()[-1] > 20  # there is evidence to compare
    return monitor


# ── the same whichever way rows come ────────────────────────────────────────────────────────────────


@every_engine
def test_exact_sums_of_every_engine_are_as_good_as_rows(made):  # noqa: F811
    """In one pass over all days, with a time column; and a rerun by rows is known again."""
    frame = pl.concat(DAYS[:8])
    sums = total(made(frame), time="day", period="day")
    assert sums.exact
    monitor = CalibrationMonitor().update(sums)
    wanted = by_rows(DAYS[:8])
    assert_same(monitor, wanted)
    assert monitor.parts == wanted.parts
    before = monitor.to_json()
    for day in DAYS[:8]:
        monitor.update(day["y"], day["p"], segments={"region": day["region"]}, period=day["day"][0])
    assert monitor.to_json() == before


def test_sums_day_by_day(whole):
    monitor = CalibrationMonitor()
    for day in DAYS:
        monitor.update(total(day), period=day["day"][0])
    assert_same(monitor, whole)
    assert monitor.columns == {
        "target": "y", "score": "p", "pos_label": None, "sample_weight": None, "segments": ["region"]
    }  # fmt: skip


def test_rows_one_by_one():
    """Bins are made of typical scores beforehand; rows that are equal have names."""
    typical = np.linspace(0.01, 0.9, 500)
    monitor = CalibrationMonitor(scores=typical)
    for day in DAYS[:3]:
        for number, (y, p, region, period) in enumerate(day.iter_rows()):
            monitor.update([y], [p], segments={"region": [region]}, period=period, extend=f"row {number}")
    assert_same(monitor, by_rows(DAYS[:3], scores=typical))


def test_the_order_of_rows_and_their_clothes_do_not_matter(whole):
    monitor = CalibrationMonitor()
    for day in DAYS:
        turned = day.sample(fraction=1.0, shuffle=True, seed=1).to_pandas()
        sample = Sample.of(turned["y"] > 0, turned["p"], segments={"region": turned["region"]})
        monitor.update(sample, period=pd.Timestamp(day["day"][0]).date())
    assert_same(monitor, whole)
    assert monitor.parts == whole.parts


@pytest.mark.parametrize("cells", [1024, 2048])
def test_sums_by_cell_give_no_more_evidence_than_rows(cells):
    """Bins are made of cells, so that they give the same; and how much bins lose is reported (the next test)."""
    days = list(make_days(30, decimals=15, change=15))
    monitor, wanted = CalibrationMonitor(), by_rows(days)
    for day in days:
        sums = total(day, cells=cells).coarsen()
        assert not sums.exact
        monitor.update(sums, period=day["day"][0])
    assert_same(monitor, wanted)
    np.testing.assert_allclose(monitor.evidence_lost(), wanted.evidence_lost(), rtol=1e-6)


@pytest.mark.parametrize("change", [0, 40])
def test_the_evidence_that_is_lost_in_bins(change, monkeypatch):
    """Between 0 and what is reported: the evidence of single rows is computed here by their definition."""
    days = list(make_days(20, decimals=15, change=change))
    monitor = by_rows(days)
    reported = monitor.evidence_lost()
    stream = monitor._streams[None, "event"]
    bins = stream.alternatives.bins

    def lose(counts, ends, moves):
        found = np.zeros((len(days), bins))
        for t, day in enumerate(days):
            p = day["p"].to_numpy()
            home = stream.alternatives.find_bins(_alternatives.find_grid_cells(p))
            found[t] = -np.bincount(home, np.log1p(p * np.expm1(moves)[home]), bins)
        return found + counts.rows * np.log1p(counts.rate * np.expm1(moves))

    monkeypatch.setattr(_lost_evidence, "_bound_loss", lose)
    exact = _lost_evidence.bound_log_evidence(stream)
    counted = monitor.log_evidence()[-1]
    assert counted < exact <= counted + reported + 1e-9
    assert reported < 0.2  # nats


def test_a_day_may_come_in_parts(whole):
    monitor = by_rows(DAYS[:20])
    last = DAYS[20]
    for part in (last[:50], last[50:]):
        monitor.update(part["y"], part["p"], segments={"region": part["region"]}, period=last["day"][0], extend=True)
    for day in DAYS[21:]:
        monitor.update(day["y"], day["p"], segments={"region": day["region"]}, period=day["day"][0])
    assert_same(monitor, whole)
    assert len(monitor.parts["2026-01-21"]) == 2


def test_a_corrected_day_rebuilds_everything(whole):
    wrong = DAYS[7].with_columns(y=pl.when(pl.col("region") == "north").then(1).otherwise(pl.col("y")))
    monitor = by_rows([*DAYS[:7], wrong, *DAYS[8:]])
    assert monitor.log_evidence()[7] - whole.log_evidence()[7] > 1
    day = DAYS[7]
    monitor.update(day["y"], day["p"], segments={"region": day["region"]}, period="2026-01-08", replace=True)
    assert_same(monitor, whole)
    assert monitor.parts == whole.parts


def test_a_corrected_first_period_has_bins_of_its_own_scores():
    # a broken first file, of one score, must not decide for good what the monitor can see
    broken = DAYS[0].with_columns(p=pl.lit(0.5))
    monitor = CalibrationMonitor().update(broken["y"], broken["p"], period="2026-01-01")
    monitor.update(DAYS[0]["y"], DAYS[0]["p"], period="2026-01-01", replace=True)
    fresh = CalibrationMonitor().update(DAYS[0]["y"], DAYS[0]["p"], period="2026-01-01")
    assert monitor.to_json() == fresh.to_json()


def test_a_detector_is_about_calibrated_scores():
    with pytest.raises(InputError) as error:
        CalibrationMonitor(arl=365, alarm="change")
    assert str(error.value) == (
        "arl must come with alarm='calibration', since its detector is about calibrated scores; got 'change'. Leave one "
        "of them out."
    )


def test_a_segment_of_few_rows_has_the_bins_of_all():
    day, other = DAYS[0], DAYS[1].with_columns(region=pl.Series(["west", *DAYS[1]["region"][1:]]))
    monitor = by_rows([day, other])
    west, all_rows = monitor._streams["region=west", "event"], monitor._streams[None, "event"]
    assert west.alternatives.bins == all_rows.alternatives.bins
    assert [one.rows for one in west.sums] == [0, 1]
    assert monitor.log_evidence(segment="region=west")[0] == 0.0


# ── weights, groups, classes ────────────────────────────────────────────────────────────────────────


def test_frequencies_are_repeated_rows():
    rng = np.random.default_rng(1)
    monitor, wanted = CalibrationMonitor(weights="frequency"), CalibrationMonitor()
    for day in DAYS[:10]:
        w = rng.integers(0, 4, ROWS)
        y, p = day["y"].to_numpy(), day["p"].to_numpy()
        monitor.update(y, p, sample_weight=w, period=day["day"][0])
        wanted.update(np.repeat(y, w), np.repeat(p, w), period=day["day"][0])
    assert_same(monitor, wanted)
    assert monitor.parts == wanted.parts
    assert monitor.to_frame()["rows"].to_list() == wanted.to_frame()["rows"].to_list()
    sums = CalibrationMonitor(weights="frequency")
    rng = np.random.default_rng(1)
    for day in DAYS[:10]:
        frame = day.with_columns(w=pl.Series(rng.integers(0, 4, ROWS)))
        sums.update(scale.aggregate(frame, target="y", score="p", sample_weight="w"), period=day["day"][0])
    assert_same(sums, wanted)


def test_importance_is_the_power_of_a_factor():
    """A weight of 1 is a row; two rows of weight ½ that are equal are one row."""
    monitor, wanted = CalibrationMonitor(weights="importance"), CalibrationMonitor()
    for day in DAYS[:10]:
        y, p = day["y"].to_numpy(), day["p"].to_numpy()
        w = np.where(np.arange(2 * ROWS) % 3 == 0, 0.25, 0.5)
        monitor.update(np.repeat(y, 2), np.repeat(p, 2), sample_weight=np.full(2 * ROWS, 0.5), period=day["day"][0])
        wanted.update(y, p, period=day["day"][0])
    assert_same(monitor, wanted)
    monitor.update(np.repeat(y, 2), np.repeat(p, 2), sample_weight=w, period=day["day"][0], replace=True)
    assert abs(monitor.log_evidence()[-1] - wanted.log_evidence()[-1]) > 1e-3


def test_a_group_is_one_factor():
    """The geometric mean of the factors of its rows: a row that is written three times counts once."""
    monitor, wanted = CalibrationMonitor(), CalibrationMonitor()
    for day in DAYS[:10]:
        y, p = day["y"].to_numpy(), day["p"].to_numpy()
        groups = np.repeat(np.arange(ROWS), 3)
        monitor.update(np.repeat(y, 3), np.repeat(p, 3), groups=groups, period=day["day"][0])
        wanted.update(y, p, period=day["day"][0])
    assert_same(monitor, wanted)


@pytest.mark.parametrize("first", [True, False])
def test_groups_in_some_periods_only_are_refused(first):
    """Dependent rows that count as independent ones would ring falsely; a state that is read back knows it too."""
    y, p = DAYS[0]["y"], DAYS[0]["p"]
    with_groups, without = {"groups": np.arange(ROWS) // 2}, {}
    before, after = (with_groups, without) if first else (without, with_groups)
    monitor = CalibrationMonitor().update(y, p, period=0, **before)
    for one in (monitor, CalibrationMonitor.from_json(monitor.to_json())):
        with pytest.raises(InputError, match="all periods must have groups, or none; got"):
            one.update(y, p, period=1, **after)
        assert one.update(y, p, period=1, **before).periods == (0, 1)


def test_rows_without_a_segment_are_one_of_their_own():
    """They are not those whose segment is called None."""
    column = np.array(["None", None, "north"], dtype=object)[np.arange(ROWS) % 3]
    frame = DAYS[0].with_columns(pl.Series("region", column.tolist()))
    monitor = CalibrationMonitor().update(scale.aggregate(frame, target="y", score="p", segments="region"), period=0)
    assert monitor.segments == ("region is missing", "region=None", "region=north")


def test_a_group_with_frequencies_is_one_factor():
    """A row of frequency three is three rows of its group: by writing them three times."""
    monitor, wanted = CalibrationMonitor(weights="frequency"), CalibrationMonitor()
    for day in DAYS[:10]:
        y, p = day["y"].to_numpy(), day["p"].to_numpy()
        groups, often = np.arange(ROWS) // 2, np.arange(ROWS) % 3 + 1
        monitor.update(y, p, groups=groups, sample_weight=often, period=day["day"][0])
        outcome, score, group = (np.repeat(one, often) for one in (y, p, groups))
        wanted.update(outcome, score, groups=group, period=day["day"][0])
    assert_same(monitor, wanted)


@pytest.mark.parametrize(
    ("weights", "w", "said"),
    [
        (None, np.full(ROWS, 2.0), ("weights must say what they are: weights='frequency' (a row stands for so many) or "
         "'importance'; got weights alone. Pass weights to CalibrationMonitor.")),
        ("frequency", np.full(ROWS, 1.5), ("frequencies must be whole numbers; got 1.5 in 150 of 150 rows (0, 1, 2, …). "
         "Use weights='importance' for other weights.")),
        ("importance", np.full(ROWS, 1.5), ("importance weights must be at most 1, so that no row counts for more than "
         "one; got 1.5. Divide them by a bound that is fixed in advance.")),
    ],
)  # fmt: skip
def test_weights_of_the_wrong_kind(weights, w, said):
    day = DAYS[0]
    with pytest.raises(InputError) as error:
        CalibrationMonitor(weights=weights).update(day["y"], day["p"], sample_weight=w, period=1)
    assert str(error.value) == said


@pytest.mark.parametrize(
    ("weights", "w", "said"),
    [
        (None, 1.0, "weights in sums must be frequencies, and weights must say so; got weights alone."),
        ("importance", 1.0, "weights in sums must be frequencies, and weights must say so; got importance weights."),
        ("frequency", 0.3, "frequencies must be whole numbers; got "),
    ],
)
def test_sums_with_weights_of_the_wrong_kind(weights, w, said):
    sums = scale.aggregate(DAYS[0].with_columns(w=pl.lit(w)), target="y", score="p", sample_weight="w")
    with pytest.raises(InputError) as error:
        CalibrationMonitor(weights=weights).update(sums, period=1)
    assert str(error.value).startswith(said)


def make_classes(day, n=300, bold=1.0, labels=("a", "b", "c")):
    rng = np.random.default_rng(day)
    law = rng.dirichlet([2, 2, 1], n)
    true = law**bold / (law**bold).sum(axis=1, keepdims=True)
    return np.array(labels)[(rng.random(n)[:, None] > true.cumsum(axis=1)[:, :-1]).sum(axis=1)], law


def test_several_classes_the_most_likely_and_each():
    """The average of E of whether the most likely class is right (½) and of each class (½ together), by definition."""
    monitor = CalibrationMonitor()
    parts = [CalibrationMonitor() for _ in range(4)]
    for day in range(30):
        y, law = make_classes(day, bold=1.0 if day < 10 else 0.5)
        monitor.update(y, law, period=day)
        top = law.argmax(axis=1)
        parts[0].update(np.array(list("abc"))[top] == y, law.max(axis=1), period=day)
        for k, name in enumerate("abc"):
            parts[1 + k].update(y == name, law[:, k], period=day)
    share = np.array([1 / 2, 1 / 6, 1 / 6, 1 / 6])
    e = share @ np.exp([part.log_evidence() for part in parts])
    np.testing.assert_allclose(monitor.log_evidence(), np.log(e), rtol=1e-9)
    assert monitor.alarm is not None
    with pytest.raises(InputError, match="`?recalibrate`? must have two classes; got 3 classes"):
        monitor.recalibrate()


def test_typical_scores_of_several_classes():
    typical = make_classes(99)[1]
    one, two = CalibrationMonitor(scores=typical), CalibrationMonitor(scores=typical)
    for day in range(3):
        y, law = make_classes(day)
        one.update(y, law, period=day)
        two.update(y[:100], law[:100], period=day, extend=True)
        two.update(y[100:], law[100:], period=day, extend=True)
    assert_same(one, two)
    with pytest.raises(InputError, match="scores must have a column for each class; got 1 columns"):
        CalibrationMonitor(scores=typical[:, 0]).update(y, law, period=0)


def test_a_day_on_which_a_class_is_missing():
    monitor = CalibrationMonitor().update(*make_classes(0), period=0)
    y, law = make_classes(1)
    monitor.update(y[y != "c"], law[y != "c"], period=1)
    assert [one.rows for one in monitor._streams[None, "class c"].sums] == [300, (y != "c").sum()]
    assert monitor._streams[None, "class c"].counts.events.sum(axis=1)[1] == 0
    two = CalibrationMonitor(pos_label="yes").update(["no", "yes", "no", "yes"], [0.1, 0.8, 0.3, 0.6], period=0)
    two.update(["yes", "yes"], [0.7, 0.6], period=1).update(["no"], [0.7], period=2)
    assert two._streams[None, "event"].counts.events.sum(axis=1).tolist() == [2, 2, 0]
    two = CalibrationMonitor(pos_label="a").update(["b", "a"], [[0.8, 0.2], [0.3, 0.7]], period=0)
    two.update(["a"], [[0.6, 0.4]], period=1)  # columns are in the order of the labels
    np.testing.assert_allclose(two._streams[None, "event"].counts.scores.sum(axis=1), [0.8 + 0.3, 0.6])


@pytest.mark.parametrize(
    "again",
    [
        lambda m: m.update(*make_classes(1, labels=("a", "b", "d")), period=1),
        lambda m: m.update(DAYS[0]["y"], DAYS[0]["p"], period=1),
        lambda m: m.update(scale.aggregate(DAYS[0], target="y", score="p"), period=1),
    ],
)
def test_other_classes_than_before_are_refused(again):
    monitor = CalibrationMonitor().update(*make_classes(0), period=0)
    before = monitor.to_json()
    with pytest.raises(InputError, match="all periods must have the same classes; got "):
        again(monitor)
    assert monitor.to_json() == before


def test_days_without_events_and_without_rows_of_a_segment():
    """E only falls on a day without events if scores are too low there; nothing is NaN or infinite."""
    monitor = by_rows(DAYS[:3])
    monitor.update(np.zeros(20, int), np.full(20, 0.001), segments={"region": ["south"] * 20}, period="2026-02-01")
    monitor.update([0, 0], [0.0, 1.0], segments={"region": ["north", "north"]}, period="2026-02-02")
    for segment in (None, *monitor.segments):
        assert np.isfinite(monitor.log_evidence(segment=segment)).all()
        assert np.isfinite(monitor.log_evidence("change", segment)).all()
    assert monitor._streams["region=north", "event"].sums[3].rows == 0


# ── once, and in order of time ──────────────────────────────────────────────────────────────────────


def update(monitor, day, **options):
    return monitor.update(day["y"], day["p"], segments={"region": day["region"]}, **options)


def test_a_rerun_does_not_count_twice():
    monitor = by_rows(DAYS[:5])
    before = monitor.to_json()
    for day in (DAYS[4], DAYS[2]):
        update(monitor, day, period=day["day"][0])
    monitor.update(total(pl.concat(DAYS[:5]), time="day", period="day"))
    update(monitor, DAYS[2], period="2026-01-03", replace=True)
    assert monitor.to_json() == before
    monitor.update(total(pl.concat(DAYS[3:7]), time="day", period="day"))  # two of these four days are new
    assert_same(monitor, by_rows(DAYS[:7]))


def test_a_rerun_of_a_part():
    monitor = by_rows(DAYS[:2])
    first, second = DAYS[2][:70], DAYS[2][70:]
    update(monitor, first, period="2026-01-03")
    update(monitor, second, period="2026-01-03", extend="second")
    before = monitor.to_json()
    update(monitor, first, period="2026-01-03")
    update(monitor, second, period="2026-01-03", extend="second")
    assert monitor.to_json() == before
    update(monitor, second, period="2026-01-03", extend="third")  # equal rows that are others
    assert monitor.to_frame()["rows"].to_list() == [ROWS, ROWS, 70 + 80 + 80]


def test_after_a_restart_what_was_before_is_known():
    monitor = by_rows(DAYS[:5]).restart()
    assert (monitor.periods, monitor.past_periods[-1]) == ((), "2026-01-05")
    update(monitor, DAYS[4], period="2026-01-05")
    assert monitor.periods == ()
    update(monitor, DAYS[5], period="2026-01-06")
    assert_same(monitor, by_rows(DAYS[5:6]))


LAST = DAYS[4]
REFUSED = {
    "other rows of a known period": (
        lambda m: update(m, DAYS[9], period="2026-01-03"),
        "a period must not be counted twice; got other rows of '2026-01-03'. Pass replace=True for corrected rows.",
    ),
    "other rows of the last period": (
        lambda m: update(m, DAYS[9], period="2026-01-05"),
        ("a period must not be counted twice; got other rows of '2026-01-05'. Pass replace=True for corrected rows, "
        "extend=True for further rows."),
    ),
    "sums that overlap": (
        lambda m: m.update(total(pl.concat([DAYS[4][:90], *DAYS[5:7]]), time="day", period="day")),
        ("a period must not be counted twice; got other rows of '2026-01-05'. Pass replace=True for corrected rows, "
        "extend=True for further rows."),
    ),
    "further rows of an earlier period": (
        lambda m: update(m, DAYS[9], period="2026-01-03", extend=True),
        ("only the last period can be extended; got '2026-01-03'; the last is '2026-01-05'. Give late outcomes to the "
        "period in which they became known, or pass replace=True."),
    ),
    "further rows that are equal": (
        lambda m: update(m, LAST, period="2026-01-05", extend=True),
        ("further rows must be told from a rerun; got rows of '2026-01-05' equal to a part of it. Leave extend out for a "
        "rerun. To count equal rows again, give every part a name in Python."),
    ),
    "out of order": (
        lambda m: update(m, DAYS[9], period="2025-12-31"),
        ("periods must come in order of time; got '2025-12-31' after '2026-01-05'. Give late outcomes to the period in "
        "which they became known."),
    ),
    "a month beside days": (
        lambda m: update(m, DAYS[9], period="2026-02"),
        "periods must be of one kind, such as days or months; got '2026-02' beside '2026-01-05'. Name it like the others.",
    ),
    "a number beside days": (
        lambda m: update(m, DAYS[9], period=7),
        "periods must be of one kind, such as days or months; got 7 beside '2026-01-05'. Name it like the others.",
    ),
    "a correction of an unknown period": (
        lambda m: update(m, DAYS[9], period="2026-01-09", replace=True),
        ("replace must name a period that was counted; got '2026-01-09'. There are '2026-01-01', '2026-01-02', "
        "'2026-01-03', '2026-01-04', '2026-01-05'."),
    ),
    "both": (
        lambda m: update(m, DAYS[9], period="2026-01-09", replace=True, extend=True),
        "pass extend or replace; got both. A correction replaces a period as a whole.",
    ),
    "no period": (
        lambda m: update(m, DAYS[9]),
        "period must be a date, a whole number or a name; got None. For example '2026-11-15'.",
    ),
    "no time": (
        lambda m: update(m, DAYS[9], period=pd.NaT),
        "period must be a date, a whole number or a name; got NaT. For example '2026-11-15'.",
    ),
    "extend of nothing": (
        lambda m: update(m, DAYS[9], period="2026-01-06", extend=""),
        "extend must be True, False or the name of a part; got ''. For example 'part 2'.",
    ),
    "a period beside a time column": (
        lambda m: m.update(total(DAYS[5], time="day", period="day"), period="2026-01-06"),
        "sums with a time column hold their periods; got '2026-01-06'. Leave period out.",
    ),
    "rows beside sums": (
        lambda m: m.update(total(DAYS[5]), DAYS[5]["p"], period="2026-01-06"),
        "sums hold scores, weights and segments already; got further ones beside them. Pass the sums alone.",
    ),
    "rows beside a sample": (
        lambda m: m.update(Sample.of(DAYS[5]["y"], DAYS[5]["p"]), DAYS[5]["p"], period="2026-01-06"),
        "a Sample holds predictions and weights already; got further ones beside it. Pass the Sample alone.",
    ),
    "cells that do not fit": (
        lambda m: m.update(total(DAYS[5], cells=1000).coarsen(), period="2026-01-06"),
        ("sums by cell must have 1024 cells, or a multiple, to fit into the bins of a monitor; got 1000 cells. Pass "
        "cells=1024 to aggregate."),
    ),
    "a given law": (
        lambda m: m.update(total(DAYS[5].with_columns(q=pl.col("p")), q="q"), period="2026-01-06"),
        "sums for a monitor must have the score alone; got sums with `q` or `latent`. Sum without them.",
    ),
    "text that does not sort by time": (
        lambda m: m.update(total(DAYS[5].with_columns(pl.col("day").dt.to_string("%d/%m/%Y")), time="day")),
        ("'day' must hold dates, whole numbers or periods such as 2026-11 or 2026-W46, which sort by time; got "
        "'06/01/2026'. Cast it to dates."),
    ),
    "a row without a time": (
        lambda m: m.update(
            total(DAYS[5].with_columns(day=pl.Series([None, *DAYS[5]["day"][1:]])), time="day", period="day")
        ),
        "every row must have a period; got rows without 'day'. Drop these rows, or fill them in.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", REFUSED)
def test_what_is_refused_changes_nothing(how):
    call, said = REFUSED[how]
    monitor = by_rows(DAYS[:5])
    before = monitor.to_json()
    with pytest.raises(InputError) as error:
        call(monitor)
    assert str(error.value) == said
    assert monitor.to_json() == before


def test_a_part_of_the_same_name_with_other_rows():
    monitor = update(by_rows(DAYS[:2]), DAYS[2][:70], period="2026-01-03", extend="a.csv")
    with pytest.raises(
        InputError, match=r"a part must not be counted twice; got other rows of 'a\.csv' in '2026-01-03'"
    ):
        update(monitor, DAYS[2][70:], period="2026-01-03", extend="a.csv")


def test_the_first_period_must_come_at_once_unless_bins_are_known():
    with pytest.raises(InputError) as error:
        update(by_rows(DAYS[:1]), DAYS[1], period="2026-01-01", extend=True)
    assert str(error.value) == (
        "the first period must come at once, since bins are made of its scores; got further rows of it. Pass all its rows "
        "together, or pass scores of a typical period to CalibrationMonitor."
    )


@pytest.mark.parametrize("first", [1, 4])
def test_a_first_period_of_few_rows_does_not_blind_the_monitor(first):
    # scores are too bold by a slope of 0.6 about their mean; the truth by quadrature over 20,000 quantiles of the scores
    def law(x):
        return -1.0 + 0.6 * (x + 1.0)

    rng, monitor = np.random.default_rng(first), CalibrationMonitor()
    for day in range(40):
        x = rng.normal(-1.0, 1.2, 500 if day else first)
        monitor.update(rng.random(x.size) < expit(law(x)), expit(x), period=day)
    x = -1.0 + 1.2 * norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    truth = get_loss("log").divergence(expit(x), expit(law(x))).mean()
    bounds = monitor.bounds()
    assert 0.0 < bounds.low <= truth <= bounds.high
    assert monitor.alarm.period < 10


def test_periods_are_dates_numbers_and_names():
    y, p = DAYS[0]["y"], DAYS[0]["p"]
    day = dt.date(2026, 11, 15)
    kinds = {
        "2026-11-15": [day, np.datetime64("2026-11-15"), "2026-11-15", " 2026-11-15 "],
        "2026-11-15T06:00:00": [
            dt.datetime.fromisoformat("2026-11-15T06:00"), np.datetime64("2026-11-15T06:00", "ns"), pd.Timestamp("2026-11-15 06:00")
        ],
        7: [7, np.int32(7)],
        "release 7": ["release 7"],
    }  # fmt: skip
    for name, values in kinds.items():
        assert {CalibrationMonitor().update(y, p, period=value).periods for value in values} == {(name,)}
    with pytest.raises(InputError, match="Names sort as text: use dates or whole numbers"):
        CalibrationMonitor().update(y, p, period="release 9").update(p.round() > 0, p, period="release 10")


@pytest.mark.parametrize(
    ("column", "other"), [("target", "z"), ("score", "q"), ("pos_label", 1), ("segments", "region")]
)
def test_sums_of_other_columns_are_refused(column, other):
    frame = DAYS[0].with_columns(z=pl.col("y"), q=pl.col("p"))
    monitor = CalibrationMonitor().update(scale.aggregate(frame, target="y", score="p"), period=0)
    options = {"target": "y", "score": "p"} | {column: other}
    with pytest.raises(InputError) as error:
        monitor.update(scale.aggregate(frame.with_columns(y=1 - pl.col("y")), **options), period=1)
    rule = f"all periods must have the same columns; got {column} "
    assert str(error.value).startswith(rule)
    assert str(error.value).endswith(". Begin another monitor for other columns.")


# ── recalibration ───────────────────────────────────────────────────────────────────────────────────


def test_recalibrate_fits_the_rows_since_the_change_and_knows_them():
    monitor = CalibrationMonitor()
    for day in DAYS:
        monitor.update(total(day), period=day["day"][0])
    alarm = monitor.alarm
    since = monitor.periods.index(alarm.since)
    fitted = monitor.recalibrate()
    rows = pl.concat(DAYS[since:])
    seen = fitted.provenance_
    assert (seen.score, seen.target, seen.labels) == (("p",), "y", ("0", "1"))
    assert (seen.rows, seen.events) == (rows.height, rows["y"].sum()) == (alarm.rows, rows["y"].sum())
    assert seen.ranges == ((rows["p"].min(), rows["p"].max()),)
    assert from_json(fitted.to_json()).provenance_ == seen
    # the shift of the log-odds is 0.6 (`make_days`)
    np.testing.assert_allclose(logit(fitted.calibrate([0.2, 0.4])) - logit([0.2, 0.4]), 0.6, atol=0.15)
    assert (monitor.periods, monitor.columns, monitor.alarm) == ((), None, None)
    rng = np.random.default_rng(5)
    for day in range(20):  # recalibrated scores are quiet
        p = rng.beta(2, 5, ROWS)
        y = rng.random(ROWS) < expit(logit(p) + 0.6)
        monitor.update(y, fitted.calibrate(p), period=f"2026-03-{day + 1:02d}")
    assert monitor.alarm is None
