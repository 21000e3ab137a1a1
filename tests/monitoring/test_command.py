"""scoreprism monitor: a state that is updated from files, what it prints, and its exit codes."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scoreprism import report, scale
from scoreprism.calibrators import from_json
from scoreprism.cli import _monitoring
from scoreprism.datasets import iterate_credit_days
from scoreprism.monitoring import CalibrationMonitor, plan_monitoring
from tests.cli.test_cli import call
from tests.monitoring import monitor_sample as page_sample

COLUMNS = ("--target", "default", "--score", "score")
#: 29 days before the change and 31 after it; scores have two decimals, so that sums are exact.
FIRST = 183


@pytest.fixture(scope="module")
def days():
    found = list(iterate_credit_days(200, random_state=1))[FIRST : FIRST + 60]
    return {str(day): rows.drop("chance").with_columns(pl.col("score").round(2).clip(0.01)) for day, rows in found}


@pytest.fixture(scope="module")
def written(tmp_path_factory, days):
    """The files of the days."""
    folder = tmp_path_factory.mktemp("days") / "scores"
    folder.mkdir()
    for day, rows in days.items():
        rows.write_parquet(folder / f"{day}.parquet")
    return folder


@pytest.fixture
def here(tmp_path, monkeypatch, written):
    """A folder with the files of the days, which tests may replace."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(written, "scores")
    return tmp_path


@pytest.fixture(scope="module")
def of_a_week(written):
    """The state of a monitor that has seen the first seven days."""
    state = written.parent / "s.json"
    watch(state, "--add", written / "2025-07-0*.parquet", *COLUMNS)
    return state.read_bytes()


def watch(*args, code=0):
    return call("monitor", *args, code=code)


def line(*args, code=0):
    """The one line on stdout."""
    said = watch(*args, code=code).stdout
    assert said.count("\n") == 1
    return said.rstrip("\n")


def by_hand(days, **settings):
    monitor = CalibrationMonitor(**settings)
    for day, rows in days.items():
        monitor.update(rows["default"], rows["score"], segments={"channel": rows["channel"]}, period=day)
    return monitor


# ── adding ──────────────────────────────────────────────────────────────────────────────────────────


def test_day_by_day_until_the_alarm(here, days):
    """The numbers are those of the library; exit code 1 from the day of the alarm on."""
    names = list(days)
    wanted = by_hand(days)
    rang = names.index(wanted.alarm.period)
    first = line("s.json", "--add", f"scores/{names[0]}.parquet", *COLUMNS, "--segment", "channel")
    assert first.startswith(f"{names[0]} (period 1): no alarm; E = 0.")
    watch("s.json", "--add", "scores/2025-07-*.parquet")  # columns are remembered; the first day was counted
    for day in names[29 : rang - 1]:
        Path("few").mkdir(exist_ok=True)
        Path(f"scores/{day}.parquet").rename(f"few/{day}.parquet")
    assert "no alarm" in line("s.json", "--add", "few")
    for day in names[rang - 1 : rang + 2]:
        line("s.json", "--add", f"scores/{day}.parquet", code=int(day >= names[rang]))
    alarm = line("s.json", "--add", "scores", code=1)
    found = CalibrationMonitor.load("s.json")
    assert found.periods == wanted.periods
    np.testing.assert_allclose(found.log_evidence(), wanted.log_evidence(), rtol=0, atol=1e-9)
    a = wanted.alarm
    most = math.log10(math.exp(wanted.log_evidence().max()))
    assert alarm == (
        f"{names[-1]} (period 60): alarm of {a.period}; scores are too low since {a.since} (90 %: {a.since_first} to {a.since_last}); "
        f"E reached 10^{math.floor(most)}, needs 20; recalibration gains {a.reliability.low:.2g} to {a.reliability.high:.2g}; "
        "flagged: channel=online"
    )
    assert line("s.json", code=1) == alarm


def test_the_line_without_an_alarm(here, days):
    said = line("s.json", "--add", "scores/2025-07-0*.parquet", *COLUMNS)
    wanted = by_hand({day: rows for day, rows in days.items() if day < "2025-07-10"})
    e, bound = math.exp(wanted.log_evidence()[-1]), wanted.bounds().high
    assert said == f"2025-07-09 (period 7): no alarm; E = {e:.2g}, needs 20; reliability ≤ {bound:.2g}"


def test_a_rerun_changes_nothing(here):
    watch("s.json", "--add", "scores/2025-07-*.parquet", *COLUMNS)
    before = Path("s.json").read_bytes()
    found = watch("s.json", "--add", "scores/2025-07-31.parquet", *COLUMNS)
    assert found.stderr == "note: 2025-07-31 was counted before; it is left as it is\n"
    assert Path("s.json").read_bytes() == before


def test_json(here, days):
    found = json.loads(watch("s.json", "--add", "scores/2025-07-0*.parquet", *COLUMNS, "--json").stdout)
    wanted = by_hand({day: rows for day, rows in days.items() if day < "2025-07-10"})
    assert found["added"] == list(wanted.periods)
    assert (found["state"], found["period"], found["periods"], found["known"]) == ("s.json", "2025-07-09", 7, [])
    assert (found["alarm"], found["process"], found["segments"]) == (None, "calibration", {})
    assert found["log_e_needed"] == pytest.approx(math.log(20))
    for name, value in found["log_e"].items():
        assert value == pytest.approx(wanted.log_evidence(name)[-1], abs=1e-9)
    bounds = wanted.bounds()
    assert found["reliability"] == pytest.approx([bounds.low, bounds.high], abs=1e-9)
    found = json.loads(watch("s.json", "--add", "scores", "--json", code=1).stdout)
    assert (len(found["added"]), len(found["known"])) == (53, 7)
    assert found["alarm"]["direction"] == "too low"
    assert found["alarm"]["since"] in days


def test_a_time_column_and_periods(here, days):
    """All days in one file: the same as a file for each; weeks; a period that is named."""
    frame = pl.concat([rows.with_columns(day=pl.lit(day).str.to_date()) for day, rows in days.items()])
    frame.write_parquet("all.parquet")
    watch("a.json", "--add", "all.parquet", *COLUMNS, "--time", "day", code=1)
    watch("b.json", "--add", "scores", *COLUMNS, code=1)
    one, two = CalibrationMonitor.load("a.json"), CalibrationMonitor.load("b.json")
    assert one.periods == two.periods
    np.testing.assert_allclose(one.log_evidence(), two.log_evidence(), rtol=0, atol=1e-9)
    watch("w.json", "--add", "all.parquet", *COLUMNS, "--time", "day", "--period", "week", code=1)
    assert CalibrationMonitor.load("w.json").periods[:2] == ("2025-W27", "2025-W28")
    watch("p.json", "--add", "all.parquet", *COLUMNS, "--period", "release 7", code=1)
    assert CalibrationMonitor.load("p.json").periods == ("release 7",)
    frame.with_columns(day=pl.lit(7)).write_parquet("seven.parquet")
    watch("n.json", "--add", "seven.parquet", *COLUMNS, "--time", "day", code=1)
    assert CalibrationMonitor.load("n.json").periods == (7,)


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_engines_and_folders_of_hive(here, days, engine):
    for day in ("2025-07-03", "2025-07-04"):
        Path(f"hive/date={day}").mkdir(parents=True)
        days[day][:50].write_parquet(f"hive/date={day}/part-0.parquet")
        days[day][50:].write_parquet(f"hive/date={day}/part-1.parquet")
    watch("s.json", "--add", "hive", *COLUMNS, "--engine", engine, "--segment", "channel")
    wanted = by_hand({day: days[day] for day in ("2025-07-03", "2025-07-04")})
    found = CalibrationMonitor.load("s.json")
    assert found.parts == wanted.parts
    np.testing.assert_allclose(found.log_evidence(), wanted.log_evidence(), rtol=0, atol=1e-9)


def test_corrections_and_further_rows(here, days):
    watch("s.json", "--add", "scores/2025-07-0*.parquet", *COLUMNS)
    wrong = watch("s.json", "--add", "scores/2025-07-11.parquet", "--period", "2025-07-05", code=2)
    assert wrong.stderr == (
        "error: 2025-07-11.parquet: a period must not be counted twice; got other rows of '2025-07-05'. Pass --replace for "
        "corrected rows.\n"
    )
    watch("s.json", "--add", "scores/2025-07-11.parquet", "--period", "2025-07-05", "--replace")
    watch("s.json", "--add", "scores/2025-07-05.parquet", "--replace")
    before = Path("s.json").read_bytes()
    watch("t.json", "--add", "scores/2025-07-0*.parquet", *COLUMNS)
    assert Path("t.json").read_bytes() == before
    days["2025-07-11"].write_parquet("late-2025-07-09.parquet")
    for _ in range(2):  # the second time it is known
        watch("s.json", "--add", "late-2025-07-09.parquet", "--extend")
    rows = CalibrationMonitor.load("s.json").to_frame()["rows"]
    assert rows[-1] == days["2025-07-09"].height + days["2025-07-11"].height


def test_text_labels(here, days):
    words = {"default": pl.Series(["no", "yes"]).gather(pl.Series([0]))}
    for day in list(days)[:3]:
        rows = days[day].with_columns(
            default=pl.when(words["default"][0] == "no", pl.col("default") == 1)
            .then(pl.lit("yes"))
            .otherwise(pl.lit("no"))
        )
        rows.write_parquet(f"scores/{day}.parquet")
    watch("s.json", "--add", "scores/2025-07-0[3-5].parquet", *COLUMNS, "--pos-label", "yes")
    wanted = by_hand({day: days[day] for day in list(days)[:3]})
    np.testing.assert_allclose(CalibrationMonitor.load("s.json").log_evidence(), wanted.log_evidence(), atol=1e-9)


def test_rows_in_memory_classes_groups_and_importance(here, days):
    rng = np.random.default_rng(0)
    laws = {}
    for day in ("2025-07-03", "2025-07-04"):
        law = rng.dirichlet([2, 2, 1], 100).round(4)
        law[:, 2] = 1 - law[:, 0] - law[:, 1]
        y = np.array(list("abc"))[(rng.random(100)[:, None] > law.cumsum(axis=1)[:, :-1]).sum(axis=1)]
        laws[day] = y, law
        pl.DataFrame({"y": y, **{f"p_{k}": law[:, i] for i, k in enumerate("abc")}}).write_csv(f"{day}.csv")
    watch("k.json", "--add", "*.csv", "--target", "y", "--score", "p_*")
    wanted = CalibrationMonitor()
    for day, (y, law) in laws.items():
        wanted.update(y, law, period=day)
    np.testing.assert_allclose(CalibrationMonitor.load("k.json").log_evidence(), wanted.log_evidence(), atol=1e-9)
    rows = days["2025-07-03"].with_columns(customer=pl.Series(np.arange(days["2025-07-03"].height) // 2), w=pl.lit(0.5))
    rows.write_parquet("2025-07-03.parquet")
    watch("g.json", "--add", "2025-07-03.parquet", *COLUMNS, "--groups", "customer")
    wanted = CalibrationMonitor().update(rows["default"], rows["score"], groups=rows["customer"], period="2025-07-03")
    np.testing.assert_allclose(CalibrationMonitor.load("g.json").log_evidence(), wanted.log_evidence(), atol=1e-9)
    watch("i.json", "--add", "2025-07-03.parquet", *COLUMNS, "--weight", "w", "--weights", "importance")
    wanted = CalibrationMonitor(weights="importance")
    wanted.update(rows["default"], rows["score"], sample_weight=rows["w"], period="2025-07-03")
    np.testing.assert_allclose(CalibrationMonitor.load("i.json").log_evidence(), wanted.log_evidence(), atol=1e-9)
    assert (
        "--time is not for rows with several classes"
        in watch("k.json", "--add", "*.csv", "--target", "y", "--score", "p_*", "--time", "y", code=2).stderr
    )


def test_columns_of_rows_in_memory_are_remembered(here, days):
    # groups that are forgotten on the second day would make dependent rows count as independent ones
    wanted = CalibrationMonitor()
    for day, options in (("2025-07-03", (*COLUMNS, "--groups", "customer")), ("2025-07-04", ())):
        rows = days[day].with_columns(customer=pl.Series(np.arange(days[day].height) // 4))
        rows.write_parquet(f"{day}.parquet")
        watch("g.json", "--add", f"{day}.parquet", *options)
        wanted.update(rows["default"], rows["score"], groups=rows["customer"], period=day)
    np.testing.assert_allclose(CalibrationMonitor.load("g.json").log_evidence(), wanted.log_evidence(), atol=1e-9)
    rows.rename({"customer": "client"}).write_parquet("2025-07-05.parquet")
    found = watch("g.json", "--add", "2025-07-05.parquet", "--groups", "client", code=2)
    assert "all periods must have the same columns; got groups 'client'; before 'customer'." in found.stderr


def test_settings(here):
    watch("s.json", "--add", "scores/2025-07-0*.parquet", *COLUMNS, "--alpha", "0.01", "--alarm", "change", "--loss", "brier",
          "--baseline", "3")  # fmt: skip
    found = CalibrationMonitor.load("s.json").settings
    assert (found.alpha, found.alarm, found.loss, found.baseline, found.arl) == (0.01, "change", "brier", 3, None)
    assert "needs 100" in line("s.json", "--alpha", "0.01")
    watch("d.json", "--add", "scores/2025-07-0*.parquet", *COLUMNS, "--arl", "365")
    assert "needs 365" in line("d.json")


# ── recalibration ───────────────────────────────────────────────────────────────────────────────────


def test_recalibrate_saves_a_map_and_starts_again(here, days):
    watch("s.json", "--add", "scores", *COLUMNS, code=1)
    alarm = CalibrationMonitor.load("s.json").alarm
    found = watch("s.json", "--recalibrate", "map.json")
    assert found.stdout == "no periods since the restart after 2025-08-31\n"
    assert f"the map is fitted to {alarm.rows} rows since {alarm.since};" in found.stderr
    seen = from_json(Path("map.json").read_text()).provenance_
    assert (seen.score, seen.target, seen.rows) == (("score",), "default", alarm.rows)
    call("apply", "map.json", "scores/2025-08-31.parquet", "--score", "score", "-o", "new.csv")
    assert (
        "the file must" not in watch("s.json", "--add", "scores/2025-08-31.parquet", *COLUMNS).stderr
    )  # counted before
    again = watch("s.json", "--recalibrate", "map.json", code=2)
    assert "must not exist yet" in again.stderr
    assert "Pass --force" in again.stderr


def test_restart(here):
    watch("s.json", "--add", "scores", *COLUMNS, code=1)
    assert watch("s.json", "--restart").stdout == "no periods since the restart after 2025-08-31\n"
    empty = json.loads(watch("s.json", "--json").stdout)
    assert {name: value for name, value in empty.items() if value is not None} == {
        "state": "s.json", "periods": 0, "added": [], "known": []
    }  # fmt: skip
    watch("t.json", "--add", "scores/2025-07-03.parquet", *COLUMNS)
    assert list(empty) == list(json.loads(watch("t.json", "--json").stdout))  # a job finds the same fields


# ── what is refused ─────────────────────────────────────────────────────────────────────────────────

REFUSED = {
    "no state": ((), "Missing argument 'STATE'. For example 'scoreprism monitor state.json --add"),
    "no such state": (("x.json",), "STATE must exist unless --add begins it; got 'x.json', which does not. Pass --add FILES."),
    "no such state to correct": (("x.json", "--add", "scores", "--replace"), "STATE must exist; got 'x.json'"),
    "no such files": (("x.json", "--add", "nothing/*.csv"), "a path must name files that exist; got 'nothing/*.csv'"),
    "no target": (("x.json", "--add", "scores"), "--target must name a column; got none. Columns are not guessed."),
    "weights without a word": (
        ("x.json", "--add", "scores", *COLUMNS, "--weight", "channel"),
        "--weight must come with --weights, which says what it holds: frequency (a row stands for so many) or importance.",
    ),
    "a glob that the shell expanded": (
        ("x.json", "--add", "scores/2025-07-03.parquet", "scores/2025-07-04.parquet", *COLUMNS),
        ("--add takes one path each time, and the command one STATE; got 'scores/2025-07-04.parquet' too. Quote a glob, as "
        "in --add 'scores/*.parquet', or repeat --add."),
    ),
    "no day": (("x.json", "--add", "s.json", *COLUMNS), "a file must have its day in its name, as in 2026-11-15.parquet"),
    "no column": (("x.json", "--add", "scores", "--target", "nope", "--score", "score"), "2025-07-03.parquet: "),
    "another score": (
        ("s.json", "--add", "scores/2025-07-11.parquet", "--score", "default"),
        "every column must have one role; got 'default' in several.",
    ),
    "other settings": (("s.json", "--alpha", "0.1"), "--alpha must be what the monitor was made with; got 0.1; it has 0.05."),
    "columns without files": (("s.json", "--target", "y"), "--target is about rows to add; got no --add."),
    "an older day": (
        ("s.json", "--add", "scores/2025-07-11.parquet", "--period", "2025-07-01"),
        "periods must come in order of time; got '2025-07-01' after '2025-07-09'.",
    ),
    "half a plan": (("--plan", "--rows", "50"), "--plan needs --event-rate. For example 'scoreprism monitor --plan"),
    "a plan of a state": (("s.json", "--plan"), "--plan takes no STATE; got 's.json'. Leave it out."),
    "a plan and a demo": (("--plan", "--demo"), "--demo is not for --plan. Leave it out."),
    "a plan that cannot be": (
        ("--plan", "--rows", "50", "--event-rate", "0.1", "--reliability", "3"),
        "--reliability must be below what scores that are too low can cost; got 3; they can cost",
    ),
    "rows without a plan": (("s.json", "--rows", "50"), "--rows is for --plan. Leave it out, or pass --plan."),
    "a map over the state": (("s.json", "--recalibrate", "s.json"), "an input file must not be overwritten; got 's.json'."),
    "two ways to start again": (("s.json", "--restart", "--recalibrate", "m.json"), "--recalibrate starts again already"),
    "a length without time": (
        ("x.json", "--add", "scores", *COLUMNS, "--time", "default", "--period", "2025"),
        "--period must be the length of a period beside --time: day, week, month, quarter, year; got '2025'.",
    ),
    "a typo": (("s.json", "--recalibrat", "m.json"), "Did you mean --recalibrate?"),
    "no state at all": (("scores/2025-07-09.parquet",), "the state of a monitor must be JSON"),
}  # fmt: skip


@pytest.mark.parametrize("how", REFUSED)
def test_what_is_refused_leaves_the_state_as_it_was(here, of_a_week, how):
    before = of_a_week
    Path("s.json").write_bytes(before)
    args, said = REFUSED[how]
    found = watch(*args, code=2)
    assert said in found.stderr
    assert found.stderr.splitlines()[-1].startswith("error: ")
    assert found.stdout == ""
    assert Path("s.json").read_bytes() == before
    assert sorted(path.name for path in here.iterdir()) == ["s.json", "scores"]


def test_text_with_times_of_day_is_no_period(here):
    # a CSV file holds datetimes as text: each of them would be a period of one row
    rows = pl.DataFrame({"default": [0, 1], "score": [0.2, 0.3], "at": ["2025-07-03T09:30:00", "2025-07-03T10:00:00"]})
    rows.write_csv("rows.csv")
    found = watch("x.json", "--add", "rows.csv", *COLUMNS, "--time", "at", code=2)
    assert found.stderr.startswith(
        "error: rows.csv: --time must hold dates, datetimes or periods; got text with times of day, '2025-07-03T"
    )


def test_messages_of_other_commands_keep_their_alpha(here):
    found = call("losses", "--format", "json")
    assert found.exit_code == 0
    said = call("diagnose", "scores/2025-07-09.parquet", *COLUMNS, "--loss", "pseudo-spherical:alpha=0", code=2).stderr
    assert "alpha must be above 1" in said
    assert "--alpha" not in said


# ── pages, plans and the demonstration ──────────────────────────────────────────────────────────────


def test_a_page_is_written_by_the_report(here, monkeypatch):
    written = []

    def write(monitor, path, *, overwrite):
        written.append((monitor.periods[-1], str(path), overwrite))
        return path

    monkeypatch.setattr(report, "write_monitor_page", write, raising=False)
    found = watch("s.json", "--add", "scores/2025-07-0*.parquet", *COLUMNS, "--page", "m.html")
    assert written == [("2025-07-09", "m.html", False)] or written[0][1].endswith("m.html")
    assert "wrote " in found.stderr


def test_a_plan_says_what_the_library_says(tmp_path):
    args = ("--plan", "--rows", 400, "--event-rate", 0.2, "--reliability", 0.01, "--runs", 2, "--seed", 3)
    found = json.loads(watch(*args, "--json").stdout)["table"]
    wanted = plan_monitoring(400, 0.2, 0.01, n_runs=2, random_state=3)
    assert found == json.loads(wanted.to_json())["table"]
    assert found["scores_become"] == ["too low", "too high", "too bold", "too timid"]
    said = watch(*args)
    assert said.stderr == "seed: 3\n"
    assert "at most 0.05 false, ever" in said.stdout


def test_sizes_of_a_plan_cost_what_was_asked_for():
    """The mean Kullback-Leibler divergence over a normal law of log-odds, by a million draws of it."""
    from scipy.optimize import brentq
    from scipy.special import expit, rel_entr

    plan = plan_monitoring(400, 0.2, 0.01, n_runs=1)
    z = np.random.default_rng(0).normal(size=10**6)
    center = brentq(lambda m: expit(m + z).mean() - 0.2, -5, 5)
    score = expit(center + z)
    for name, size in plan.sizes.items():
        moved = expit(center + z + size) if name in ("too low", "too high") else expit(center + size * z)
        cost = (rel_entr(moved, score) + rel_entr(1 - moved, 1 - score)).mean()
        assert cost == pytest.approx(0.01, rel=0.02)


def test_larger_changes_are_noticed_sooner():
    slow, fast = (plan_monitoring(200, 0.2, cost, calm=5, n_runs=5).to_frame() for cost in (0.005, 0.02))
    assert (slow["median"] > 1.5 * fast["median"]).all()
    changed = plan_monitoring(200, 0.2, 0.02, alarm="change", n_runs=1, baseline=20, calm=30, horizon=100)
    assert changed.to_frame()["noticed"].max() == 1.0


def test_the_demo_shows_a_year_with_an_alarm(monkeypatch):
    """Five months of it, to be quick; the alarm comes after 1 August and points to the online channel."""
    monkeypatch.setattr("scoreprism.datasets.iterate_credit_days", lambda **o: list(iterate_credit_days(**o))[151:273])
    found = watch("--demo")
    lines = found.stdout.splitlines()
    quiet = [one for one in lines if ": no alarm; " in one]
    rang = [one for one in lines if ": alarm of 2025-08-" in one]
    assert quiet[0].startswith("2025-06-30 (period 30): no alarm; E = ")
    assert len(quiet) == 2
    assert rang[0] > "2025-08-01"
    assert "scores are too low since 2025-0" in rang[-1]
    assert "flagged: channel=online" in rang[-1]
    assert "  To do: scoreprism monitor STATE --recalibrate map.json" in lines
    assert lines[-1].startswith("recalibrated on the rows since then: 0.1 becomes 0.1")


def test_the_days_of_the_demo_can_be_saved(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert watch("--save-data", "days").stderr == "wrote 365 days to days\n"
    first = pl.read_parquet("days/2025-01-01.parquet")
    assert first.columns == ["default", "score", "channel"]
    assert len(list(Path("days").iterdir())) == 365
    assert "Pass --force" in watch("--save-data", "days", code=2).stderr


def test_the_credit_days_are_what_they_say():
    """Scores are calibrated up to 31 July; then online applicants have 0.5 more log-odds. Expected values: their law."""
    frames = list(iterate_credit_days(random_state=3))
    rows = pl.concat([frame.with_columns(day=pl.lit(day)) for day, frame in frames])
    assert len(frames) == 365
    assert rows.height == pytest.approx(365 * 300, rel=0.02)
    odds = rows.with_columns(
        gap=(pl.col("chance") / (1 - pl.col("chance"))).log() - (pl.col("score") / (1 - pl.col("score"))).log(),
        late=pl.col("day") >= pl.date(2025, 8, 1),
    )
    by = {(channel, late): part for (channel, late), part in odds.group_by("channel", "late")}
    for key, part in by.items():
        assert part["gap"].to_numpy() == pytest.approx(0.5 if key == ("online", True) else 0.0, abs=1e-6)
        error = math.sqrt((part["chance"] * (1 - part["chance"])).sum()) / part.height
        assert abs(part["default"].mean() - part["chance"].mean()) < 4 * error
    again = next(iterate_credit_days(random_state=3))[1]
    assert again.equals(frames[0][1])
    assert next(iterate_credit_days(10, backend="pandas"))[1].shape[1] == 4


def test_evidence_is_written_with_two_digits():
    wanted = {-20.0: "0", math.log(0.66): "0.66", math.log(20): "20", math.log(1234): "1234", 100.0: "10^43"}
    assert {log_e: _monitoring.write_evidence(log_e) for log_e in wanted} == wanted


def test_a_line_of_several_classes_says_what_it_is_about():
    quiet = CalibrationMonitor().update([0, 1, 2, 1], np.full((4, 3), 1 / 3), period=1)
    assert "; reliability of the most likely class ≤ " in _monitoring.describe(quiet)
    alarm = _monitoring.describe(page_sample.watch("classes"))
    assert "; probabilities of the most likely class are too high since 2025-03-0" in alarm
    assert "; their reliability is 0.0" in alarm


def test_numbers_of_the_line_have_no_powers_of_ten():
    wanted = {0.0: "0", 6.2e-05: "0.000062", 0.028: "0.028", 1.234: "1.2", math.inf: "inf"}
    assert {loss: _monitoring._write_loss(loss) for loss in wanted} == wanted


def test_the_choices_of_the_command_are_those_of_the_library():
    from scoreprism.monitoring import _monitor, _periods

    assert (_monitoring.ALARMS, _monitoring.WEIGHTS) == (_monitor.ALARMS, _periods.WEIGHTS)
    assert set(_monitoring.opt.ENGINES) <= set(scale.ENGINES)


def test_a_file_with_nothing_but_a_header_is_said_to_have_no_rows(here):
    """Its columns count as text, which is not what is wrong."""
    Path("2026-11-15.csv").write_text("default,score\n")
    said = watch("state.json", "--add", "2026-11-15.csv", *COLUMNS, code=2).stderr
    assert "a file must have at least one row; got only a header. Leave out days without rows." in said
    Path("2026-11-15.csv").write_text("default,score\n1,high\n")
    assert "must hold numbers" in watch("state.json", "--add", "2026-11-15.csv", *COLUMNS, code=2).stderr
