"""report and diagnose at scale: the same numbers as the library's, from any engine, from files or from kept sums."""

import json
import math
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import scoreprism
from scoreprism import inference, metrics, scale
from scoreprism.calibrators import CALIBRATORS
from scoreprism.cli import _maps, _tests, main
from scoreprism.exceptions import InputError, ScoreOrderWarning
from scoreprism.inference import CALIBRATION_TESTS, calibration_test
from scoreprism.report import make_report
from scoreprism.report._score_sums import ScoreSums
from scoreprism.report._subject import run_test_of_many
from tests.conftest import spark_or_skip

ROOT = Path(__file__).parents[2]
ONE = ("--target", "y", "--score", "p")


def call(*args, code=0):
    """Run a command here; its outcome, once the exit code is what it should be."""
    found = CliRunner().invoke(main, [str(a) for a in args])
    assert found.exit_code == code, f"exit {found.exit_code}\n{found.stdout}\n{found.stderr}"
    assert "Traceback" not in found.stdout + found.stderr
    return found


def rows(n=6000, seed=0):
    """A score with 1.5 times the log-odds of the law `q`; `grade` is it in steps of 0.05."""
    rng = np.random.default_rng(seed)
    q = rng.beta(1.5, 4, n)
    p = 1 / (1 + (1 / q - 1) ** 1.5)
    days = np.datetime64("2026-01-01") + rng.integers(0, 120, n)
    return pl.DataFrame({
        "y": (rng.random(n) < q).astype(np.int8),
        "p": p,
        "mild": 0.5 * (p + q),
        "grade": np.round(p * 20) / 20,
        "q": q,
        "w": rng.uniform(0.5, 2, n),
        "side": np.where(rng.random(n) < 0.4, "left", "right"),
        "day": days,
        "fold": np.arange(n) % 5,
        "id": np.arange(n),
        "word": np.where(rng.random(n) < 0.5, "yes", "no"),
    })  # fmt: skip


@pytest.fixture(scope="module")
def table():
    return rows()


@pytest.fixture(scope="module")
def plain(table, tmp_path_factory):
    """The terms of the table in one file."""
    path = tmp_path_factory.mktemp("plain") / "a.parquet"
    table.write_parquet(path)
    return terms(answer(path, *ONE, "--engine", "polars"))


@pytest.fixture
def data(tmp_path, monkeypatch, table):
    """Three Parquet files in the folder ``data`` of the working folder."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "data"
    folder.mkdir()
    for i, start in enumerate((0, 2500, 4000)):
        table.slice(start, (2500, 1500, 2000)[i]).write_parquet(folder / f"part{i}.parquet")
    return folder


def answer(*args):
    return json.loads(call("diagnose", *args, "--format", "json", "--quiet").stdout)


def terms(found, score="p", loss="log"):
    return {
        name: (t["estimate"], t["low"], t["high"])
        for name, t in found["models"][score]["losses"][loss]["terms"].items()
    }


def close(a, b, tolerance=1e-9):
    assert a.keys() == b.keys()
    for name in a:
        assert np.allclose(a[name], b[name], rtol=0, atol=tolerance), name


# ── the numbers ─────────────────────────────────────────────────────────────────────────────────────


def test_the_command_gives_the_numbers_of_the_library(data):
    sums = scale.aggregate("data/*.parquet", target="y", score="p", sample_weight="w")
    d = {loss: sums.decompose(loss) for loss in ("log", "brier")}
    found = answer("data/*.parquet", *ONE, "--weight", "w")
    for loss in ("log", "brier"):
        mine = terms(found, loss=loss)
        close({name: value[0] for name, value in mine.items()}, d[loss].terms)
        interval = d[loss].interval("reliability")
        assert mine["reliability"][1:] == pytest.approx((interval.low, interval.high), abs=1e-9)
        moved = found["models"]["p"]["losses"][loss]["decomposition"]["scale"]["quantisation_error"]
        assert moved == pytest.approx(d[loss].quantisation_error, rel=1e-6)
        assert 0 < moved < 0.1 * d[loss].std_error["reliability"]


def test_few_scores_and_given_folds_equal_the_report_on_rows(data, table):
    y, s, fold = (table[name].to_numpy() for name in ("y", "grade", "fold"))
    splits = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(5)]
    d = scoreprism.decompose(y, s, loss="brier", cv=splits)
    found = answer("data", "--target", "y", "--score", "grade", "--fold-column", "fold", "--loss", "brier")
    close({n: v[0] for n, v in terms(found, "grade", "brier").items()}, d.terms)
    assert found["models"]["grade"]["losses"]["brier"]["decomposition"]["scale"]["quantisation_error"] == 0.0


def test_a_glob_a_folder_and_a_list_are_the_same(data):
    glob = answer("data/*.parquet", *ONE)
    listed = answer(*sorted(data.glob("*.parquet")), *ONE)
    folder = answer("data", *ONE, "--engine", "polars")
    close(terms(glob), terms(listed))
    close(terms(glob), terms(folder))
    assert listed["origin"]["name"] == "part0.parquet and 2 more"


@pytest.mark.parametrize("engine", ["duckdb", "dask", pytest.param("spark", marks=pytest.mark.engines)])
def test_engines_agree(data, engine):
    spark_or_skip() if engine == "spark" else pytest.importorskip(engine)
    args = ("data/*.parquet", *ONE, "--weight", "w", "--fold-column", "fold", "--segment", "side")
    mine, other = answer(*args), answer(*args, "--engine", engine)
    close(terms(mine), terms(other))
    assert other["origin"]["details"]["engine"] == engine


def test_groups_keep_their_meaning(data, table):
    """Each --segment column by itself, as for rows; and --time by its periods."""
    found = answer(
        "data", *ONE, "--segment", "side", "--segment", "word", "--time", "day", "--period", "month", "--full"
    )
    section = next(s for s in found["sections"] if s["key"] == "segments")
    tables = {t["key"]: t for t in (*section["tables"], *(f["data"] for f in section["figures"] if f["data"]))}
    counts = {
        key: {row["segment"]: row["rows"] for row in tables[key]["rows"]}
        for key in tables
        if key.startswith("segments-")
    }
    for key, column in zip(counts, ("side", "word"), strict=False):
        assert counts[key] == dict(table[column].value_counts().iter_rows())
    months = table.group_by(pl.col("day").dt.strftime("%Y-%m")).len().rows()
    assert counts["segments-1-3"] == dict(months)
    assert [row["period"] for row in tables["drift-1-3"]["rows"]] == ["2026-02", "2026-03", "2026-04"]
    assert {row["baseline"] for row in tables["drift-1-3"]["rows"]} == {"2026-01"}
    part = table.filter(pl.col("side") == "left")
    left = scale.decompose(part, target="y", score="p", loss="log")
    row = tables["segments-1-1"]["rows"][0]
    assert row["reliability"]["estimate"] == pytest.approx(left.terms["reliability"], abs=1e-12)
    assert row["observed"] == pytest.approx(part["y"].mean(), rel=1e-12)
    assert row["expected"] == pytest.approx(part["p"].mean(), rel=1e-9)


def test_reference_splits_the_loss_in_three(data):
    found = answer("data", *ONE, "--q", "q")
    assert list(terms(found)) == ["reliability", "grouping", "irreducible"]


@pytest.mark.parametrize("column", ["p", "grade"])
def test_summaries_from_cells_are_those_of_rows(table, column):
    """Source: scoreprism.metrics and calibration_test on the rows; distinct scores lose nothing, cells a little."""
    y, s, w = table["y"].to_numpy(), table[column].to_numpy(), table["w"].to_numpy()
    inside = (s > 0) & (s < 1)
    frame = table.filter(pl.Series(inside))
    partial = scale.aggregate(frame, target="y", score=column, sample_weight="w")
    tolerance = 1e-9 if partial.exact else 2e-4
    assert partial.exact == (column == "grade")
    found = make_report(partial, sections=["calibration"]).models[column].metrics
    y, s, w = y[inside], s[inside], w[inside]
    for name in ("calibration_slope", "auc"):
        truth = getattr(metrics, name)(y, s, sample_weight=w)
        assert float(found.estimates[name]) == pytest.approx(float(truth), abs=tolerance)
    slope = metrics.calibration_slope(y, s, sample_weight=w).interval(0.95)
    assert found.intervals["calibration_slope"].low == pytest.approx(slope.low, abs=10 * tolerance)
    area = metrics.auc(y, s).std_error
    plain = make_report(scale.aggregate(frame, target="y", score=column), sections=["calibration"]).models[column]
    assert plain.metrics.std_error["auc"] == pytest.approx(area, rel=0.02)
    ratio = metrics.observed_expected_ratio(y, s, sample_weight=w)
    assert float(found.estimates["observed_expected_ratio"]) == pytest.approx(float(ratio), rel=1e-12)
    z = calibration_test(y, s, method="spiegelhalter").statistic
    own = plain.tests["calibration"].components["spiegelhalter"]["statistic"]
    assert abs(own) == pytest.approx(abs(z), rel=1e-9 if partial.exact else 1e-4)


def grades(sums):
    """Rows of the table of grades, by the keys of its columns."""
    table = make_report(sums, sections=["calibration"]).tables["grades-1"]
    return [dict(zip((column.key for column in table.columns), row, strict=True)) for row in table.rows]


def test_curves_and_grades_hold_every_row(table):
    sums = scale.aggregate(table, target="y", score="p")
    y, s = table["y"].to_numpy(), table["p"].to_numpy()
    found = grades(sums)
    assert sum(g["rows"] for g in found) == len(y)
    assert sum(g["rows"] * g["observed"] for g in found) == pytest.approx(y.sum())
    assert len(found) == 10
    cells = ScoreSums.of_sums(sums)
    curve = cells.curve(0.95, "p")
    assert curve.weight @ curve.y == pytest.approx(y.mean())
    assert curve.weight @ curve.x == pytest.approx(s.mean())
    assert (curve.weight * len(y) >= 50 - 1e-6).all()
    assert (curve.low <= curve.y).all()
    assert (curve.y <= curve.high).all()
    spread = cells.distribution("p")
    truth = np.histogram(s[y == 1], spread.edges)[0].cumsum() / len(y)
    assert np.abs(spread.events.cumsum() - truth).max() < 2e-3  # rows are spread over their cell
    assert (spread.events.sum(), spread.others.sum()) == pytest.approx((y.mean(), 1 - y.mean()))


def test_every_distinct_score_is_a_grade(table):
    few = table.with_columns(step=(pl.col("p") * 4).round() / 4)
    found = grades(scale.aggregate(few, target="y", score="step"))
    values = few.group_by("step").agg(pl.col("y").mean()).sort("step")
    assert [g["predicted"] for g in found] == pytest.approx(values["step"].to_list(), abs=1e-15)
    assert [g["observed"] for g in found] == pytest.approx(values["y"].to_list())


# ── sums that are kept ──────────────────────────────────────────────────────────────────────────────


def test_sums_of_days_add_up_to_the_whole(data):
    args = (*ONE, "--segment", "side", "--time", "day", "--fold-key", "id")
    call("report", "data/part0.parquet", *args, "--save-sums", "day0.json", "-o", "day0.txt")
    how = {"target": "y", "score": "p", "segments": "side", "time": "day", "fold_key": "id"}
    for i in (1, 2):  # what the library sums, the command adds
        Path(f"day{i}.json").write_text(scale.aggregate(f"data/part{i}.parquet", **how).to_json())
    kept = json.loads(call("report", "--sums", "day*.json", "--format", "json", "-q", "-o", "days.txt").stdout)
    whole = answer("data", *args)
    close(terms(kept), terms(whole), 1e-12)
    assert kept["origin"]["details"] == {"files of sums": 3}
    assert scale.Sums.from_json(Path("day0.json").read_text()).settings.keys == ("side", "day")
    call("report", "--sums", "day*.json", "--save-sums", "all.json", "-o", "all.txt", "-q")
    assert terms(answer("--sums", "all.json")) == terms(kept)
    assert set(answer("--sums", "all.json", "--loss", "spherical")["models"]["p"]["losses"]) == {"spherical"}


def test_a_kept_sum_is_not_replaced_without_force(data):
    args = ("report", "data", *ONE, "--save-sums", "sums.json", "-o", "r.txt")
    Path("sums.json").write_text("mine")
    assert "must not exist yet" in call(*args, code=2).stderr
    assert Path("sums.json").read_text() == "mine"
    assert not Path("r.txt").exists()
    call(*args, "--force")
    again = call("report", "--sums", "sums.json", "--save-sums", "sums.json", "--force", code=2)
    assert "an input file must not be overwritten" in again.stderr


def test_sums_that_do_not_fit_are_named(data):
    call("report", "data", *ONE, "--save-sums", "a.json", "-o", "a.txt")
    call("report", "data", *ONE, "--cells", "64", "--save-sums", "b.json", "-o", "b.txt")
    found = call("report", "--sums", "?.json", code=2)
    assert "b.json: sums must have the same cells to be added; got 1024 and 64." in found.stderr
    Path("b.json").write_text(Path("a.json").read_text()[:-40])
    assert "error: b.json: the sums must be JSON; got " in call("diagnose", "--sums", "?.json", code=2).stderr
    Path("b.json").write_text('{"partial_version": 99}')
    assert (
        "b.json: the sums must be of version 3; got version 99" in call("diagnose", "--sums", "?.json", code=2).stderr
    )
    assert "which matches none" in call("diagnose", "--sums", "none/*.json", code=2).stderr


# ── refusals ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--features", "q"), "--features needs rows in memory"),
        (("--all-features",), "--all-features needs rows in memory"),
        (("--groups", "id"), "--fold-key or --fold-column keep rows together"),
        (("--drop-missing",), "--drop-missing needs rows"),
        (("--jobs", "2"), "the engine has threads of its own"),
        (("--time", "word", "--period", "month"), "--period must come with a column of dates"),
        (("--period", "month"), "--period needs --time"),
        (("--fold-column", "fold", "--fold-key", "id"), "folds must come from --fold-column or --fold-key; got both"),
        (("--weight", "wt"), "--weight must be a column of the file; got 'wt'. Did you mean 'w'?"),
        (("--segment", "sides"), "--segment must be a column of the file; got 'sides'. Did you mean 'side'?"),
        (("--q", "word"), "--q must hold numbers"),
        (("--fold-key", "word"), "must be a column of whole numbers"),
        (("--engine", "sparkle"), "'sparkle' is not one of"),
        (("--cells", "4"), "4 is not in the range"),
        (("--sums", "a.json"), "FILE and --sums exclude each other; got both"),
    ],
)
def test_what_sums_cannot_do_is_refused_in_one_line(data, args, words):
    found = call("report", "data/*.parquet", *ONE, *args, code=2)
    assert words in found.stderr
    assert found.stderr.splitlines()[-1].startswith("error: ")
    assert not found.stdout
    assert sorted(p.name for p in Path().iterdir()) == ["data"]  # nothing is left


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("data",), "at scale --target must name a column"),
        (("data", "--target", "y"), "at scale --score must name a column"),
        (("data", "--target", "word", "--score", "p"), "--pos-label must name the positive class"),
        (("data", "--target", "word", "--score", "p", "--pos-label", "maybe"), "must hold two labels"),
        (("none/*.parquet", *ONE), "'none/*.parquet', which matches none"),
        (("-", "data", *ONE), "got - (stdin)"),
        (("--sums", "a.json", "--target", "y"), "--target is already fixed by the sums"),
        (("--sums", "a.json", "--segment", "side"), "--segment is already fixed by the sums"),
        ((), "Missing argument 'FILE...'"),
    ],
)
def test_wrong_calls(data, args, words):
    assert words in call("diagnose", *args, code=2).stderr
    assert words in call("report", *args, code=2).stderr


def test_scores_that_rank_the_wrong_way_round(data, table):
    table.with_columns(p=1 - pl.col("p")).write_parquet("data/part0.parquet")
    Path("data/part1.parquet").unlink()
    Path("data/part2.parquet").unlink()
    found = call("diagnose", "data", *ONE, code=2)
    with pytest.warns(ScoreOrderWarning):
        area = metrics.auc(table["y"].to_numpy(), 1 - table["p"].to_numpy())
    assert f"an area under the ROC curve of {area:.3f}" in found.stderr
    call("diagnose", "data", *ONE, "--as-given")


@pytest.mark.parametrize(("column", "label"), [("word", "yes"), ("flag", "True"), ("two", "2")])
def test_labels_of_every_type(data, table, plain, column, label):
    y = table["y"]
    made = {"word": y.replace_strict({0: "no", 1: "yes"}), "flag": y == 1, "two": y + 1}
    for path in data.iterdir():
        path.unlink()
    table.with_columns(**made).write_parquet("data/a.parquet")
    found = answer("data", "--target", column, "--score", "p", "--pos-label", label)
    close(terms(found), plain)


def test_bad_rows_leave_no_file(data, table):
    table.head(50).with_columns(p=pl.lit(1.5)).write_parquet("data/part9.parquet")
    found = call("report", "data", *ONE, "-o", "r.html", "--save-sums", "s.json", code=2)
    assert "--score 'p' must hold probabilities from 0 to 1; got 1.5" in found.stderr
    assert sorted(p.name for p in Path().iterdir()) == ["data"]


def test_names_in_quotes_are_not_respelled(data, table):
    for path in data.iterdir():
        path.unlink()
    table.with_columns(pos_label=pl.col("p")).write_parquet("data/a.parquet")
    found = call("diagnose", "data", "--target", "y", "--score", "pos_labels", code=2)
    assert "got 'pos_labels'. Did you mean 'pos_label'?" in found.stderr


@pytest.mark.slow
def test_a_run_that_is_terminated_leaves_nothing(data):
    args = [sys.executable, "-m", "scoreprism", "report", "data", *ONE, "-o", "r.html", "--save-sums", "s.json"]
    for wait in (1.0, 4.0):
        running = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(wait)
        running.send_signal(signal.SIGTERM)
        running.communicate()
        left = [path.name for path in Path().iterdir() if path.name != "data"]
        assert running.returncode in (0, 143, -15)
        assert running.returncode == 0 or not [name for name in left if name.endswith(".tmp")]
        for name in left:
            Path(name).unlink()


# ── what is written ─────────────────────────────────────────────────────────────────────────────────


def test_every_format(data):
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8"))
    args = ("--score", "mild", "--segment", "side", "--time", "day", "--title", "A title")
    files = [f"r.{ending}" for ending in ("html", "json", "md", "csv", "txt")]
    found = call("report", "data/*.parquet", *ONE, *args, *(x for f in files for x in ("-o", f)))
    assert "A title" in found.stdout
    assert "read 4 times, by side, day for each score" in found.stderr
    plain = json.loads(Path("r.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(plain)
    assert plain["kind"] == "report"
    tables = {t["key"]: t["rows"] for s in plain["sections"] for t in s["tables"]}
    for number in (1, 2):  # both models
        assert {row["segment"] for row in tables[f"segments-{number}-1"]} == {"left", "right"}
        periods = [row["segment"] for row in tables[f"segments-{number}-2"]]
        assert periods == ["2026-01", "2026-02", "2026-03", "2026-04"]
    assert {"engine": "polars", "files": 3}.items() <= plain["origin"]["details"].items()
    page = Path("r.html").read_text(encoding="utf-8")
    for words in ("What is exact, and what is quantised", "data/*.parquet", "Reliability of all models", "<svg"):
        assert words in page
    assert "Changes of the terms of the log loss" in Path("r.md").read_text(encoding="utf-8")
    jsonschema.Draft202012Validator(schema).validate(answer("data", *ONE))


def test_names_of_reports(data):
    Path("data-report.html").touch()
    assert "got 'data-report.html'" in call("report", "data/*.parquet", *ONE, "-q", code=2).stderr
    call("report", "data/part0.parquet", *ONE, "--engine", "polars", "-q")
    assert {path.name for path in Path().iterdir()} == {"data", "data-report.html", "part0-report.html"}


def test_gates_at_scale(data):
    found = call("diagnose", "data", *ONE, "--max-reliability", "1e-6", "--fail-if-miscalibrated", "-q", code=1)
    assert "above --max-reliability 1e-06" in found.stderr
    assert "p is not calibrated: p < 0.001, at or below --alpha 0.05" in found.stderr


def test_the_last_of_many_periods_are_shown(table, monkeypatch):
    monkeypatch.setattr("scoreprism.report._segment_section.MOST_PERIODS", 2)
    report = make_report(scale.aggregate(table, target="y", score="p", time="day"), sections=["segments"])
    assert [row[0] for row in report.tables["segments-1-1"].rows] == ["2026-03", "2026-04"]
    (said,) = left_out(report)
    assert (said.n, said.facts["reason"], said.facts["total"]) == (2, "last", 4)


def left_out(report):
    """What was left out, as findings."""
    return [one for one in report["segments"].findings if one.kind == "left_out"]


def test_the_largest_segments_with_enough_of_both_outcomes_are_shown(table, monkeypatch):
    monkeypatch.setattr("scoreprism.report._segment_section.MOST", 1)
    calm = table.filter((pl.col("side") == "right") & (pl.col("y") == 0)).with_columns(side=pl.lit("calm"))
    rows = pl.concat([table, calm])  # a third segment, of one outcome only
    report = make_report(scale.aggregate(rows, target="y", score="p", segments="side"), sections=["segments"])
    assert [row[0] for row in report.tables["segments-1-1"].rows] == ["right"]
    found = {one.facts["reason"]: one for one in left_out(report)}
    assert (found["most"].n, found["most"].facts["total"]) == (1, 2)
    assert found["small"].facts["names"] == [f"calm ({calm.height:,})"]
    assert (found["small"].n, found["small"].facts["rarer"]) == (100, 10)


def test_sums_are_tested_as_rows_are():
    """Outcomes drawn for cells, and for rows: p-values of calibrated scores that go together, with 399 draws each."""
    found, rows = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        p = rng.random(3000)
        y = (rng.random(3000) < p).astype(int)
        sums = scale.aggregate(pl.DataFrame({"y": y, "p": p}), target="y", score="p", loss="brier")
        test = make_report(sums, sections=["verdict"]).models["p"].tests["calibration"]
        assert test.method == "min-p of cells"
        assert test.pvalue == test.components["min-p of cells"]["pvalue"]
        found.append(test.pvalue)
        rows.append(calibration_test(y, p, n_resamples=399, random_state=0).pvalue)
    assert np.corrcoef(found, rows)[0, 1] > 0.7
    assert (np.array(found) <= 0.05).sum() == (np.array(rows) <= 0.05).sum()


@pytest.mark.parametrize(("cells", "expected"), [(None, 0.04), (math.nan, 0.04), (0.3, 0.3), (1 / 400, 1 / 400)])
def test_which_p_value_is_told(cells, expected, monkeypatch):
    """Without the test of cells, two large-sample tests are adjusted for being two; with it they only go on beyond it."""
    result = SimpleNamespace(calibration_pvalue=cells, n_classes=2, n=1000)
    bounds = [SimpleNamespace(statistic=2.0, pvalue=0.02), SimpleNamespace(statistic=9.0, pvalue=1e-12)]
    beyond = 2e-12 if cells is None or not cells > 1 / 400 else cells
    for bound, pvalue in zip(bounds, (expected, beyond), strict=True):
        monkeypatch.setattr("scoreprism.report._subject.from_bound", lambda *_, bound=bound: bound)
        assert run_test_of_many(result, 0.1, 0.9).pvalue == pytest.approx(pvalue)


def test_infinite_losses_are_counted(table):
    sure = table.with_columns(p=pl.when(pl.col("p") < 0.05).then(0.0).when(pl.col("p") > 0.7).then(1.0).otherwise("p"))
    sums = scale.aggregate(sure, target="y", score="p", segments="side", time="day")
    report = make_report(sums, sections=["verdict", "segments"])
    wrong = sure.filter((pl.col("p") - pl.col("y")).abs() == 1).height
    assert sure.filter((pl.col("p") == 1) & (pl.col("y") == 0)).height > 0
    (said,) = (one for one in report["verdict"].findings if one.kind == "infinite_loss")
    assert said.n == wrong
    mark = report.models["p"].decompositions["log"].floored._mark  # parts are judged at the floor of the whole
    for key in ("segments-1-1", "segments-1-2"):
        assert mark in [column.title for column in report.tables[key].columns]
        assert mark in report.tables[key].note
    assert mark in report.tables["drift-1-2"].title


def test_many_segments_and_rare_ones(table):
    many = table.with_columns(cell=pl.col("id") % 37, rare=pl.when(pl.col("id") < 5).then(pl.lit("few")))
    sums = scale.aggregate(many, target="y", score="p", segments=["cell", "rare"])
    section = make_report(sums, loss="brier", sections=["segments"])["segments"]
    found = {one.facts["reason"]: one for one in section.findings if one.kind == "left_out"}
    assert (found["most"].n, found["most"].facts["total"]) == (24, 37)
    assert found["small"].facts["names"] == ["few (5)"]
    labels = [row[0] for t in section.tables if t.key == "segments-1-1" for row in t.rows]
    assert [int(label) for label in labels] == sorted(int(label) for label in labels)
    assert [row[0] for t in section.tables if t.key == "segments-1-2" for row in t.rows] == ["(missing)"]


def test_periods_that_are_numbers_are_in_their_order(table):
    late = table.with_columns(week=8 + pl.col("id") // 1500)
    sums = scale.aggregate(late, target="y", score="p", time="week")
    section = make_report(sums, loss="brier", sections=["segments"])["segments"]
    tables = {t.key: [row[:2] for row in t.rows] for t in section.tables}
    assert [str(row[0]) for row in tables["segments-1-1"]] == ["8", "9", "10", "11"]
    assert tables["drift-1-1"] == [("9", "8"), ("10", "8"), ("11", "8")]


# ── vocabulary and documentation ────────────────────────────────────────────────────────────────────


def test_the_vocabulary_is_that_of_scale():
    choices = {one.name: getattr(one.type, "choices", None) for one in main.get_command(None, "report").params}
    assert set(choices["engine"]) == {name for name, engine in scale.ENGINES.items() if engine.scan is not None}
    with pytest.raises(InputError, match=f"period must be one of {', '.join(choices['period'])}; got 'none'"):
        scale.aggregate(rows(50), target="y", score="p", time="day", period="none")


def test_the_methods_are_those_of_the_library():
    assert tuple(CALIBRATORS) == _maps.METHODS
    assert sorted(_tests.METHODS) == sorted(CALIBRATION_TESTS)
    with pytest.raises(InputError, match=f"must be one of {', '.join(_tests.GROUPING_METHODS)}; got"):
        inference.grouping_test([0, 1] * 10, [0.25, 0.75] * 10, [[0.0]] * 20, method="none")


def test_the_page_names_every_option():
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8").partition("## At scale")[2]
    own = {o.opts[0] for o in main.get_command(None, "report").params if getattr(o, "section", "") == "At scale"} | {
        "--save-sums"
    }
    assert len(own) > 1
    assert own == set(re.findall(r"^\| `(--[a-z-]+)`", page, re.MULTILINE))


def test_when_a_call_is_at_scale(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("odd[1].csv").write_text("y,p\n")
    answers = {
        ("odd[1].csv",): "FILE must have at least one row; got only a header in 'odd[1].csv'.",
        ("odd[12].csv",): "a path must name files that exist; got 'odd[12].csv', which matches none.",
        ("odd[1].csv", "odd[1].csv", "--groups", "g"): "--groups needs rows in memory",
        (".", "--groups", "g"): "--groups needs rows in memory",
        ("odd[1].csv", "--engine", "polars", "--groups", "g"): "--groups needs rows in memory",
        ("-",): "FILE must not be empty; got 0 bytes in 'stdin'.",
    }
    for args, words in answers.items():
        assert words in call("diagnose", *args, *ONE, code=2).stderr
    assert "got 'a.json', which matches none." in call("diagnose", "--sums", "a.json", code=2).stderr


# ── what a page says ────────────────────────────────────────────────────────────────────────────────


def _rare(rows: int, periods: int):
    rng = np.random.default_rng(5)
    odds = rng.normal(-7.6, 1.2, rows)
    y = (rng.random(rows) < 1 / (1 + np.exp(-odds))).astype(int)
    month = np.datetime64("2025-01", "M") + rng.integers(0, periods, rows).astype("timedelta64[M]")
    return pl.DataFrame({"y": y, "s": 1 / (1 + np.exp(-1.2 * odds)), "day": pl.Series(month.astype("datetime64[D]"))})


def test_rare_events_are_shown_with_digits_that_say_something():
    partial = scale.aggregate(_rare(200_000, 1), target="y", score="s")
    report = make_report(partial, sections=["calibration"])
    bins = next(t for section in report.sections for t in section.tables if t.key == "grades-1")
    assert bins.title == "Bins of s"  # cells near 0 hold too many rows for equal ones
    assert not any(set(cell) <= set("0.") for row in bins.shown() for cell in row)
    text = repr(partial.decompose(loss="brier"))
    assert "0.00000 " not in text
    assert "200,000 rows" in text
    drawn = ScoreSums.of_sums(partial)
    assert drawn.distribution("s").events.size == 20_000


def test_a_page_on_periods_reads_well():
    report = make_report(scale.aggregate(_rare(60_000, 2), target="y", score="s", time="day"))
    section = next(section for section in report.sections if section.key == "segments")
    assert "in months 2025" not in section.meaning  # "day 2025-01", not the heading of a table
    (change,) = (one for one in section.findings if one.kind == "changed")
    assert (change.facts["before"], change.facts["after"], change.facts["periods"]) == ("2025-01", "2025-02", [])
    assert "from 2025-01 to 2025-02 (p ≥ 0.05)" in change.text
    assert "1 periods" not in next(t for t in section.tables if t.key == "drift-1-1").note
    sources = next(t for s in report.sections for t in s.tables if t.key == "references").rows
    assert not any("net benefit" in row[0] or "ICI" in row[0] for row in sources)
    assert any("Zou" in row[0] for row in sources)


def test_advice_at_scale_asks_for_a_column():
    found = scale.decompose(_rare(20_000, 1), target="y", score="s", loss="log")
    (rest,) = (one for one in found.summary().findings if one.kind == "rest_unsplit")
    assert rest.subject == "q"
    assert "pass q, a column of P(event | features)" in rest.text
