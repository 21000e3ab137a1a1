"""The command line as its users meet it: every command, format, gate, exit code, signal, and hostile names."""

from __future__ import annotations

import csv
import inspect
import io
import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import scoreprism
from scoreprism import Finding, TestResult
from scoreprism.calibrators import CALIBRATORS, PlattCalibrator, from_json
from scoreprism.cli import COMMANDS, _output, main
from scoreprism.exceptions import InfiniteLossWarning
from scoreprism.losses import LOSSES
from scoreprism.report import Callout, Document, ModelResult, Report, Section, make_report
from tests.chains import decompose_losses

pytestmark = pytest.mark.usefixtures("few_draws")

ROOT = Path(__file__).parents[2]
MIXED = {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}  # click 8.1


def call(*args, code=0, stdin=None, env=None):
    """Run a command here; its outcome, once the exit code is what it should be."""
    found = CliRunner(**MIXED, env=env).invoke(main, [str(a) for a in args], input=stdin)
    assert found.exit_code == code, f"exit {found.exit_code}\n{found.stdout}\n{found.stderr}"
    assert "Traceback" not in found.stdout + found.stderr
    return found


def process(*args, code=0, **extra):
    """Run a command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "scoreprism", *map(str, args)], capture_output=True, text=True, check=False, **extra
    )
    assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def frame(n=400, seed=0):
    """Rows whose law is known: `good` is P(Y=1), in two digits, `bold` has three times its log-odds."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.05, 0.95, n).round(2)  # maps of few cells are fitted fast
    return pl.DataFrame({
        "y": (rng.random(n) < p).astype(int),
        "good": p,
        "bold": 1 / (1 + (1 / p - 1) ** 3),
        "x": p + rng.normal(0, 0.1, n),
        "side": np.where(np.arange(n) % 2, "left", "right"),
        "month": np.repeat(["2024-01-15", "2024-02-15"], n // 2),
        "w": rng.integers(1, 4, n),
    })  # fmt: skip


@pytest.fixture(scope="module")
def data():
    return frame()


@pytest.fixture
def file(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data.write_csv("scores.csv")
    return "scores.csv"


ONE = ("--target", "y", "--score", "bold")
TWO = (*ONE, "--score", "good")


@pytest.fixture(scope="module")
def saved(data, tmp_path_factory):
    """What `recalibrate` saved for the score `bold`."""
    scores, target = (tmp_path_factory.mktemp("map") / name for name in ("scores.csv", "map.json"))
    data.write_csv(scores)
    call("recalibrate", scores, *ONE, "--method", "platt", "--loss", "brier", "--save", target, "--quiet")
    return target.read_bytes()


@pytest.fixture
def map_file(file, saved):
    Path("map.json").write_bytes(saved)
    return "map.json"


# ── help, version, lists ────────────────────────────────────────────────────────────────────────────


def test_help_loads_click_and_nothing_else():
    code = "import json, sys\nfrom scoreprism.cli import main\ntry:\n main(['--help'])\nexcept SystemExit:\n pass\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = json.loads(done.stdout.splitlines()[-1])
    heavy = (
        "numpy",
        "scipy",
        "sklearn",
        "polars",
        "rich",
        "jinja2",
        "matplotlib",
        "scoreprism.report",
        "scoreprism.losses",
    )
    assert not [name for name in loaded if name.startswith(heavy)]
    for name, (_, what) in COMMANDS.items():
        assert re.search(rf"{name} +{what[:30]}", done.stdout)


REFUSED = """
import json, sys
from scoreprism.cli import main
for args in json.loads(sys.argv[1]):
    try:
        main(args)
    except SystemExit as end:
        assert end.code == 2, args
    heavy = [name for name in ("joblib", "matplotlib", "pandas", "scipy.stats", "sklearn") if name in sys.modules]
    assert not heavy, (args, heavy)
"""


def test_a_refused_call_loads_nothing_heavy(tmp_path):
    """What is not there is said before scikit-learn is loaded, which takes a second."""
    frame = pl.DataFrame({"y": [0, 1] * 10, "good": [0.25, 0.75] * 10})
    frame.write_csv(tmp_path / "d.csv")
    frame.write_parquet(tmp_path / "d.parquet")
    (tmp_path / "m.json").write_text("{}")
    calls = [
        "diagnose none.csv --target y --score good",
        "diagnose d.csv --target nope --score good",
        "diagnose d.parquet --target nope --score good",
        "diagnose d.csv --target nope --score good --engine polars",
        "report d.csv --target y --score nope",
        "compare d.csv --target y --models nope_*",
        "test d.csv --target y --score nope",
        "recalibrate d.csv --target y --score nope",
        "apply m.json d.csv --score nope -o o.csv",
        "diagnose d.csv --target y --score good --loss nope",
    ]
    run = [sys.executable, "-c", REFUSED, json.dumps([one.split() for one in calls])]
    done = subprocess.run(run, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = done.stderr.splitlines()
    assert [line.startswith("error: ") for line in said] == [True] * len(calls)
    assert not done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name):
    text = call(name, "--help").stdout
    assert text.startswith(f"Usage: main {name}")
    assert "-h, --help" in text


def test_version_and_module():
    done = process("--version")
    assert done.stdout == f"scoreprism {scoreprism.__version__}\n"


@pytest.mark.parametrize(("name", "known"), [("losses", LOSSES), ("calibrators", CALIBRATORS)])
def test_lists_hold_the_whole_table(name, known):
    found = json.loads(call(name, "--format", "json").stdout)
    assert found["kind"] == name
    assert [row["name"] for row in found["sections"][0]["tables"][0]["rows"]] == list(known)
    lines = list(csv.DictReader(io.StringIO(call(name, "--format", "csv").stdout)))
    assert [line["name"] for line in lines] == list(known)
    assert all(word in call(name).stdout for word in known)
    assert all(word in call(name, "--format", "md").stdout for word in known)


def test_promises_of_calibrators_are_those_of_the_classes():
    lines = {line["name"]: line for line in csv.DictReader(io.StringIO(call("calibrators", "--format", "csv").stdout))}
    assert (lines["isotonic"]["keeps_order"], lines["isotonic"]["smooth"]) == ("yes", "no")
    assert (lines["temperature"]["keeps_order"], lines["temperature"]["classes"]) == ("strictly", "any")


# ── numbers ─────────────────────────────────────────────────────────────────────────────────────────


def terms_of(found, model, loss):
    return found["models"][model]["losses"][loss]


def test_numbers_are_those_of_the_api_to_the_last_bit(file, data):
    found = json.loads(call("diagnose", file, *TWO, "--format", "json", "--seed", 3).stdout)
    assert (found["kind"], found["schema_version"], found["settings"]["seed"]) == ("diagnosis", 2, 3)
    y = data["y"].to_numpy()
    for model in ("bold", "good"):
        api = decompose_losses(y, data[model].to_numpy(), losses=("log", "brier"), random_state=3)
        for loss, one in api.items():
            rows = [row for row in _term_rows(found) if (row["model"], row["loss"]) == (model, loss)]
            assert {row["term"]: row["estimate"] for row in rows} == one.terms
    table = list(csv.DictReader(io.StringIO(call("diagnose", file, *TWO, "--format", "csv", "--seed", 3).stdout)))
    assert {float(row["estimate"]) for row in table} >= set(api["brier"].terms.values())


def _term_rows(found):
    """Terms of all models, from the part of the JSON that holds results."""
    for model, parts in found["models"].items():
        for loss, one in parts["losses"].items():
            for name, term in one["terms"].items():
                yield {
                    "model": model,
                    "loss": loss,
                    "term": name,
                    "estimate": term["estimate"] if isinstance(term, dict) else term,
                }


def test_tests_are_those_of_the_api(file, data):
    found = json.loads(call("test", file, *TWO, "--format", "json", "--resamples", 199, "--seed", 5).stdout)
    rows = found["sections"][0]["tables"][0]["rows"]
    assert found["kind"] == "tests"
    y = data["y"].to_numpy()
    raw = [
        scoreprism.calibration_test(y, data[m].to_numpy(), n_resamples=199, random_state=5).pvalue
        for m in ("bold", "good")
    ]
    assert [row["pvalue"] for row in rows] == raw
    # Holm (1979) for two hypotheses: the smaller p doubles, the other is at least that
    low, high = min(raw), max(raw)
    assert sorted(row["pvalue_holm"] for row in rows) == sorted([min(2 * low, 1), max(2 * low, high)])


def test_grouping_is_tested_with_features(file, data):
    out = json.loads(
        call("test", file, *ONE, "--features", "x", "--format", "json", "--method", "spiegelhalter").stdout
    )
    rows = {row["about"]: row for row in out["sections"][0]["tables"][0]["rows"]}
    X = data.select("x")
    api = scoreprism.grouping_test(data["y"].to_numpy(), data["bold"].to_numpy(), X, random_state=0)
    assert rows["grouping"]["pvalue"] == api.pvalue
    assert rows["calibration"]["n_resamples"] == 0  # a large-sample test


def test_weights_reach_the_numbers(file, data):
    found = json.loads(call("compare", file, *TWO, "--weight", "w", "--loss", "brier", "--format", "json").stdout)
    api = scoreprism.decompose(
        data["y"].to_numpy(), data["bold"].to_numpy(), loss="brier", sample_weight=data["w"].to_numpy(), random_state=0
    )
    assert {row["term"]: row["estimate"] for row in _term_rows(found) if row["model"] == "bold"} == api.terms


def test_losses_with_parameters(file):
    found = json.loads(call("compare", file, *TWO, "--loss", "tsallis:alpha=1.25", "--format", "json").stdout)
    assert list(found["models"]["bold"]["losses"]) == ["tsallis(alpha=1.25)"]


def test_compare_holds_paired_differences(file, data):
    found = json.loads(call("compare", file, *TWO, "--loss", "brier", "--format", "json").stdout)
    assert (found["kind"], [s["key"] for s in found["sections"]]) == ("comparison", ["models"])
    tables = {table["key"]: table["rows"] for table in found["sections"][0]["tables"]}
    y = data["y"].to_numpy()
    api = scoreprism.compare(
        y, {"bold": data["bold"].to_numpy(), "good": data["good"].to_numpy()}, loss="brier", random_state=0
    )
    assert [row["model"] for row in tables["glance"]] == list(api.ranking())
    assert {row["term"]: row["value"] for row in tables["differences"]} == {
        "loss": api.difference("bold", "good").risk, **api.difference("bold", "good").terms
    }  # fmt: skip
    lines = list(csv.DictReader(io.StringIO(call("compare", file, *TWO, "--loss", "brier", "--format", "csv").stdout)))
    assert [float(line["value"]) for line in lines] == [row["value"] for row in tables["differences"]]


def test_runs_are_identical_whatever_the_jobs(file):
    args = ("diagnose", file, *ONE, "--features", "x", "--loss", "brier", "--format", "json")
    first, second = call(*args), call(*args, "--jobs", "2")
    assert first.stdout == second.stdout
    assert first.stderr == second.stderr


def test_many_rows_give_the_numbers_of_the_api(monkeypatch):
    """Beyond 50 000 rows, here 1000, models share folds and let go of what nobody asks for; numbers must not know."""
    monkeypatch.setattr("scoreprism.report._subject.MANY", 1000)
    many = frame(1002, seed=1)
    y, scores = many["y"].to_numpy(), {name: many[name].to_numpy() for name in ("good", "bold")}
    found = make_report(y, scores, loss="brier", sections=["models"])
    api = scoreprism.compare(y, scores, loss="brier", random_state=0)
    assert len(api) == 2
    for name in scores:
        mine = found.models[name].decompositions["brier"]
        assert mine.terms == api[name].terms
        assert mine.resolution_form.terms == api[name].resolution_form.terms
        assert mine.interval("reliability") == api[name].interval("reliability")


def test_json_of_every_command_fits_the_schema(file):
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(schema)
    commands = {
        "diagnosis": ("diagnose", file, *ONE),
        "comparison": ("compare", file, *TWO),
        "tests": ("test", file, *ONE, "--method", "spiegelhalter"),
        "recalibration": ("recalibrate", file, *ONE, "--method", "platt"),
        "losses": ("losses",),
        "calibrators": ("calibrators",),
    }
    elsewhere = {"report"}  # tests/report/test_report_rendering.py
    assert {*elsewhere, *commands} == set(schema["properties"]["kind"]["enum"])
    for kind, command in commands.items():
        found = json.loads(call(*command, "--format", "json").stdout, parse_constant=pytest.fail)
        validator.validate(found)
        assert found["kind"] == kind


# ── files ───────────────────────────────────────────────────────────────────────────────────────────


def test_report_writes_every_format_and_prints_the_verdict(file):
    names = ["a.html", "a.json", "a.md", "a.csv", "a.txt"]
    flags = [part for name in names for part in ("-o", name)]
    found = call("report", file, *ONE, *flags, "--save-map", "map.json", "--title", "T <b>")
    assert all(Path(name).stat().st_size > 100 for name in names)
    assert "wrote" in found.stderr
    headline = json.loads(Path("a.json").read_text())["headline"]
    assert headline in " ".join(found.stdout.split())
    assert "Decisions" not in found.stdout
    assert "T &lt;b&gt;" in Path("a.html").read_text()
    assert json.loads(Path("a.json").read_text())["kind"] == "report"
    assert from_json(Path("map.json").read_text()).calibrate([0.5]).shape == (1,)
    again = Path("a.json").read_bytes()
    call("report", file, *ONE, "-o", "a.json", "--title", "T <b>", "--force", "--quiet")
    assert Path("a.json").read_bytes() == again


def test_report_has_a_default_name_and_spares_what_exists(file):
    Path("scores-report.html").write_text("old")
    found = call("report", file, *ONE, code=2)
    assert "must not exist" in found.stderr
    assert "--force" in found.stderr
    assert Path("scores-report.html").read_text() == "old"
    assert not found.stdout


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("-o", "report.pdf"), "must end in one of .html"),
        (("-o", "no/such/report.html"), "existing folder"),
        (("-o", "a.html", "-o", "a.html"), "which are the same"),
        (("-o", "a.html", "-o", "./a.html"), "which are the same"),
        (("-o", "a.html", "--save-map", "../{here}/a.html"), "which are the same"),
        (("-o", ""), "must not be empty"),
        (("--save-map", " "), "must not be empty"),
        (("--alpha", "nan"), "'nan' is not a finite number"),
        (("--max-reliability", "nan"), "'nan' is not a finite number"),
        (("--max-reliability", "inf"), "'inf' is not a finite number"),
        (("--max-gigabytes", "nan"), "'nan' is not a finite number"),
        (("--max-gigabytes", "inf"), "'inf' is not a finite number"),
        (("--clip", "nan"), "'nan' is not a finite number"),
        (("--confidence", "nan"), "'nan' is not a finite number"),
        (("--clip", "0.5"), "not in the range 0.0<x<0.5"),
        (("--jobs", "0"), "0 is not in the range 1<=x<="),
        (("--jobs", str(4 * os.cpu_count() + 1)), f"is not in the range 1<=x<={4 * os.cpu_count()}"),
        (("--q", "bold"), "--q must not be a score"),
        (("--loss", "focal"), "loss must be one of"),
        (("--loss", "tsallis:alpha=much"), "is not NAME=NUMBER"),
        (("--loss", "tsallis:beta=1"), "takes the parameters"),
        (("--confidence", "2"), "'--confidence': 2.0 is not in the range"),
        (("--seed", "-1"), "--seed"),
        (("--format", "xml"), "--format"),
        (("--score", "godo"), "godo"),
    ],
)
def test_wrong_calls_end_in_one_line(file, args, words):
    args = [arg.format(here=Path.cwd().name) for arg in args]
    found = call("report", file, *ONE, *args, code=2)
    assert words in found.stderr
    assert found.stderr.startswith("error: ") or "\nerror: " in found.stderr
    assert not found.stdout
    assert sorted(p.name for p in Path().iterdir()) == ["scores.csv"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("rport",), "Did you mean 'report'?"),
        (("xyzzy",), "Choose one of report"),
        (("report",), "Missing argument"),
        (("--nonsense",), "No such option"),
        (("compare", "scores.csv", *ONE), "at least two scores"),
        (("recalibrate", "scores.csv", *TWO), "takes one score"),
        (("recalibrate", "scores.csv", *ONE, "--method", "plat"), "'plat' is not one of 'identity', 'platt'"),
        (("apply", "none.json", "scores.csv", "--score", "bold", "-o", "o.csv"), "CALIBRATOR must exist"),
        (("apply", "scores.csv", "scores.csv", "--score", "bold", "-o", "o.csv"), "must be JSON"),
        (("export", "none.json"), "--sql or --csv"),
        (("export", "none.json", "--sql", "--csv"), "--sql or --csv, not both"),
        (("export", "none.json", "--sql", "--score-column", ""), "must not be empty"),
        (("export", "none.json", "--csv", "--points", "1000002"), "2<=x<=1000001"),
        (("export", "", "--sql"), "must not be empty"),
        (("diagnose", "", *ONE), "must not be empty"),
        (("apply", "", "scores.csv", "--score", "bold", "-o", "o.csv"), "must not be empty"),
        (("apply", "m.json", "scores.csv", "--score", "bold", "--column", "", "-o", "o.csv"), "must not be empty"),
        (("demo", "-o", "out.foo"), "must end in one of .html"),
        (("demo", "-o", ""), "must not be empty"),
        (("demo", "--save-data", "out.foo"), "the output file must end in .csv"),
        (("diagnose", "scores.csv", *ONE, "--group", "side"), "--segment"),
        (("diagnose", "scores.csv", *ONE, "--cluster", "side"), "--groups"),
        (("compare", "scores.csv", *ONE, "--level", "0.9"), "--confidence"),
        (("test", "scores.csv", *ONE, "--cluster", "side"), "No such option"),
        (("test", "scores.csv", *ONE, "--segment", "side"), "No such option"),
        (("test", "scores.csv", *ONE, "--q", "good"), "No such option"),
        (("test", "scores.csv", *ONE, "--time", "month"), "No such option"),
        (("recalibrate", "scores.csv", *ONE, "--features", "x"), "No such option"),
        (("recalibrate", "scores.csv", *ONE, "--segment", "side"), "No such option"),
        (("compare", "scores.csv", *TWO, "--segment", "side"), "No such option"),
        (("diagnose", "scores.csv", "--score", "bold"), "got no --target. The columns are 'y', 'good'"),
        (("test", "scores.csv", *ONE, "--method", "nose"), "'nose' is not one of 'min-p'"),
        (("diagnose", "none.csv", *ONE), "none.csv"),
        (("losses", "--format", "xml"), "--format"),
    ],
)
def test_other_wrong_calls(file, args, words):
    found = call(*args, code=2)
    assert words in found.stderr
    assert len(found.stderr.splitlines()) == 1
    assert not found.stdout


# ── maps ────────────────────────────────────────────────────────────────────────────────────────────


def test_recalibrate_apply_export(file, data):
    found = json.loads(
        call("recalibrate", file, *ONE, "--method", "platt", "--save", "map.json", "--format", "json").stdout
    )
    assert found["kind"] == "recalibration"
    map_ = from_json(Path("map.json").read_text())
    own = PlattCalibrator().fit(data["bold"].to_numpy(), data["y"].to_numpy())
    score = data["bold"].to_numpy()
    assert (map_.calibrate(score) == own.calibrate(score)).all()
    before, after = (row["log_loss"] for row in found["sections"][0]["tables"][0]["rows"])
    assert after < before
    y = data["y"].to_numpy()
    assert before == pytest.approx(-np.log(np.where(y == 1, score, 1 - score)).mean(), rel=1e-12)

    assert "must not exist" in call("recalibrate", file, *ONE, "--save", "map.json", code=2).stderr
    call("apply", "map.json", file, "--score", "bold", "-o", "out.csv")
    with Path("out.csv").open(newline="") as out, Path(file).open(newline="") as old:
        new_rows, old_rows = list(csv.reader(out)), list(csv.reader(old))
    assert [row[:-1] for row in new_rows] == old_rows  # as text
    assert [float(row[-1]) for row in new_rows[1:]] == map_.calibrate(score).tolist()
    assert new_rows[0][-1] == "bold_recalibrated"

    printed = call(
        "apply", "map.json", "-", "--score", "bold", "--column", "c", "-o", "-", stdin=Path(file).read_text()
    )
    assert printed.stdout.splitlines()[0].endswith(",c")
    assert len(printed.stdout.splitlines()) == len(data) + 1
    call("apply", "map.json", file, "--score", "bold", "-o", "out.parquet")
    assert pl.read_parquet("out.parquet")["bold_recalibrated"].to_list() == map_.calibrate(score).tolist()
    assert (
        "new names" in call("apply", "map.json", file, "--score", "bold", "--column", "w", "-o", "n.csv", code=2).stderr
    )
    assert "must end in" in call("apply", "map.json", file, "--score", "bold", "-o", "n.xlsx", code=2).stderr
    assert "must not exist" in call("apply", "map.json", file, "--score", "bold", "-o", "out.csv", code=2).stderr

    grid = list(csv.reader(io.StringIO(call("export", "map.json", "--csv", "--points", 11).stdout)))
    assert [float(row[1]) for row in grid[1:]] == map_.calibrate(np.linspace(0, 1, 11)).tolist()
    sql = call("export", "map.json", "--sql", "--score-column", 'a"b').stdout
    assert sql == map_.to_sql('a"b') + "\n"
    assert (
        "CAST(`s` AS FLOAT64)"
        in call("export", "map.json", "--sql", "--score-column", "s", "--dialect", "bigquery").stdout
    )
    call("export", "map.json", "--sql", "-o", "map.sql")
    assert Path("map.sql").read_text() == map_.to_sql("score") + "\n"


def test_sql_gives_what_apply_gives(file, data):
    duckdb = pytest.importorskip("duckdb")
    call("recalibrate", file, *ONE, "--method", "beta", "--save", "map.json")
    call("apply", "map.json", file, "--score", "bold", "-o", "out.csv")
    sql = call("export", "map.json", "--sql", "--score-column", "bold").stdout
    found = duckdb.sql(f"SELECT {sql} AS c, bold_recalibrated AS r FROM read_csv('out.csv')").fetchnumpy()
    assert np.abs(found["c"] - found["r"]).max() < 1e-14


def test_a_map_of_the_label_that_sorts_first(file, data):
    words = data.with_columns(pl.Series("y", np.where(data["y"].to_numpy() == 1, "bad", "good")))
    words.write_csv("words.csv")
    call("recalibrate", file, *ONE, "--method", "platt", "--save", "digits.json")
    call("recalibrate", "words.csv", *ONE, "--pos-label", "bad", "--method", "platt", "--save", "words.json")
    assert "pos-label" in call("recalibrate", "words.csv", *ONE, code=2).stderr
    digits, coded = (
        call("apply", f"{name}.json", file, "--score", "bold", "--column", "c", "-o", "-").stdout
        for name in ("digits", "words")
    )
    assert digits == coded


def test_maps_of_several_classes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    law = rng.dirichlet([1, 1, 1], 500)
    y = np.array(["a", "b", "c"])[(rng.random(500)[:, None] > law.cumsum(axis=1)).sum(axis=1)]
    sharp = law**2 / (law**2).sum(axis=1, keepdims=True)
    table = pl.DataFrame({"y": y, **{f"p_{k}": sharp[:, j] for j, k in enumerate("abc")}})
    table.write_csv("three.csv")
    args = ("three.csv", "--target", "y", "--score", "p_*")
    call("recalibrate", *args, "--method", "temperature", "--save", "map.json")
    call("apply", "map.json", "three.csv", "--score", "p_*", "-o", "out.csv")
    out = pl.read_csv("out.csv")
    new = out.select([c for c in out.columns if "recalibrated" in c]).to_numpy()
    own = CALIBRATORS["temperature"]().fit(sharp, y).predict_proba(sharp)
    assert new.shape == (500, 3)
    assert np.abs(new - own).max() < 1e-12
    assert "two classes" in call("export", "map.json", "--sql", code=2).stderr
    assert "one probability" in call("export", "map.json", "--csv", code=2).stderr
    assert "terms" in call("diagnose", *args, "--format", "json").stdout
    call("test", *args, "--method", "spiegelhalter")


def test_decimal_commas_go_in_and_out(tmp_path, monkeypatch, data):
    monkeypatch.chdir(tmp_path)
    rows = [
        ["y", "s", "name"],
        *([str(y), repr(s).replace(".", ","), "n;1"] for y, s in zip(data["y"], data["bold"], strict=True)),
    ]
    with Path("de.csv").open("w", newline="") as out:
        csv.writer(out, delimiter=";").writerows(rows)
    args = ("--score", "s", "--decimal-comma")
    call("recalibrate", "de.csv", "--target", "y", *args, "--method", "platt", "--save", "map.json")
    call("apply", "map.json", "de.csv", *args, "-o", "out.csv")
    with Path("out.csv").open(newline="") as out:
        found = list(csv.reader(out, delimiter=";"))
    assert [row[:3] for row in found] == rows
    assert re.fullmatch(r"0,\d+", found[1][3])


# ── gates ───────────────────────────────────────────────────────────────────────────────────────────


def test_gates(file):
    passed = call("compare", file, *TWO, "--max-reliability", "0.5", "--loss", "brier")
    assert "gate" not in passed.stderr
    failed = call("diagnose", file, *ONE, "--max-reliability", "0.001", "--loss", "brier", "--quiet", code=1)
    assert re.search(
        r"gate failed: The estimate of the reliability of bold \(brier loss\) is 0\.0\d+, above --max-reliability 0\.001 by 0\.0\d+\.\n",
        failed.stderr,
    )
    assert failed.stdout  # results all the same


def test_gates_on_bounds(file, data):
    d = scoreprism.decompose(data["y"].to_numpy(), data["bold"].to_numpy(), loss="brier", random_state=0)
    low, mid, high = d.lower_bound("reliability").value, d.terms["reliability"], d.upper_bound("reliability").value
    assert 0 < low < mid < high
    args = ("compare", file, *TWO, "--loss", "brier", "--max-reliability")
    call(*args, f"{low * 1.001}", "--gate-on", "lower")
    assert "The lower 95 % bound" in call(*args, f"{low * 0.999}", "--gate-on", "lower", code=1).stderr
    assert "The upper 95 % bound" in call(*args, f"{high * 0.999}", "--gate-on", "upper", code=1).stderr
    assert _gated(d, high * 1.001, "upper") is None
    assert _gated(d, mid, "estimate") is None
    failed = _gated(d, mid * 0.999, "estimate")
    assert (failed.model, failed.value, failed.facts["limit"]) == ("m", mid, mid * 0.999)


def _gated(result, limit, on):
    """The gate that a model fails, or None."""
    report = Report("report", "T", models={"m": ModelResult({"log": result})})
    found = report.failed_gates(max_reliability=limit, gate_on=on)
    assert all(one.kind == "gate_reliability" for one in found)
    return found[0] if found else None


def test_the_upper_gate_holds_for_any_shape():
    """Scores that stand for leaves of a tree: what smooth maps leave open must fail the gate, and does."""
    rng = np.random.default_rng(0)
    s = rng.uniform(0.1, 0.9, 3000).round(2)
    y = (rng.random(3000) < s + 0.04 * np.where(np.round(100 * s) % 2 == 0, 1.0, -1.0)).astype(int)
    d = scoreprism.decompose(y, s, loss="brier")
    smooth, widest = (d.interval("reliability", 0.9, method=how).high for how in ("smooth", "any-shape"))
    assert smooth < 0.9 * widest
    limit = 0.5 * (smooth + widest)
    assert _gated(d, limit, "upper").value == pytest.approx(widest, rel=1e-9)
    assert _gated(d, widest * 1.001, "upper") is None  # one-sided at 95 % is two-sided at 90 %
    cost = scoreprism.decompose(y, s, loss=scoreprism.get_loss("cost-weighted", fp=1.0, fn=3.0))
    assert _gated(cost, 10.0, "upper").facts["smooth_only"] is True
    assert "gate_on='lower'" in _gated(cost, 10.0, "upper").text
    assert _gated(cost, 10.0, "lower") is None


def test_gate_on_the_test_counts_models(file):
    failed = call("test", file, *TWO, "--fail-if-miscalibrated", "--resamples", "499", code=1)
    assert "gate failed: bold is not calibrated: p = 0.004 (Holm over 2 models)" in failed.stderr
    assert "good is" not in failed.stderr
    call("test", file, "--target", "y", "--score", "good", "--fail-if-miscalibrated")
    assert "bold" in call("compare", file, *TWO, "--loss", "brier", "--fail-if-miscalibrated", code=1).stderr
    assert "bold" in call("report", file, *ONE, "--fail-if-miscalibrated", "-o", "r.json", code=1).stderr
    assert Path("r.json").exists()


def test_a_gate_without_a_number_fails():
    def failed(**pvalues):
        tests = {name: TestResult(0.0, p, "min-p", "P(Y | S) = S", 100, 999) for name, p in pvalues.items()}
        models = {name: ModelResult({}, {"calibration": test}) for name, test in tests.items()}
        return Report("report", "T", models=models).failed_gates(max_pvalue=0.05)

    assert [(one.kind, one.model) for one in failed(a=math.nan, b=0.9)] == [("gate_unknown", "a")]
    # Holm by hand: 0.01 of two hypotheses is 0.02, whatever became of the other test
    one = failed(a=math.nan, b=0.01)[0]
    assert (one.kind, one.model, one.pvalue, one.n) == ("gate_calibration", "b", 0.02, 2)


@pytest.mark.parametrize("on", ["estimate", "lower", "upper"])
def test_a_gate_on_an_infinite_reliability_fails(on):
    y, p = np.array([1, 0] * 20), np.array([0.0, *[0.5] * 39])  # an outcome that had probability 0 came true
    with pytest.warns(InfiniteLossWarning):
        found = scoreprism.decompose(y, p, loss="log", random_state=0)
    assert _gated(found, 0.5, on).value == math.inf
    assert "of m (log loss) is infinite, above max_reliability=0.5" in _gated(found, 0.5, on).text


# ── files that are read and written ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("way", ["plain", "dots", "link", "hard"])
def test_force_does_not_replace_what_is_read(file, map_file, way):
    before = {path: Path(path).read_bytes() for path in (file, map_file)}
    for path in before:
        other = {"plain": path, "dots": f"../{Path.cwd().name}/{path}"}.get(way, f"other-{path}")
        if way in ("link", "hard"):
            (os.symlink if way == "link" else os.link)(path, other)
        said = "an input file must not be overwritten"
        if path == file:
            assert said in call("recalibrate", file, *ONE, "--save", other, "--force", code=2).stderr
        else:
            assert said in call("export", path, "--sql", "-o", other, "--force", code=2).stderr
        args = ("apply", "map.json", file, "--score", "bold", "-o", other)
        assert said in call(*args, "--force", code=2).stderr
        assert said in call(*args, code=2).stderr  # and --force is not advised
    assert {path: Path(path).read_bytes() for path in before} == before


def test_outputs_that_are_links_to_one_file(file):
    Path("b.html").symlink_to("a.html")
    found = call("report", file, *ONE, "-o", "a.html", "-o", "b.html", code=2)
    assert "got 'a.html' and 'b.html', which are the same" in found.stderr
    assert not Path("a.html").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_full_disk_says_to_make_room(map_file, ending):
    import resource

    pl.concat([frame(seed=i) for i in range(20)]).write_csv("many.csv")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)  # Python ignores the signal that goes with it
    resource.setrlimit(resource.RLIMIT_FSIZE, (20000, before[1]))
    try:
        said = call("apply", map_file, "many.csv", "--score", "bold", "-o", f"out.{ending}", code=2).stderr
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "File too large" in said  # what a limit on files says: EFBIG
    assert "Make room" in said
    assert sorted(p.name for p in Path().iterdir()) == ["many.csv", "map.json", "scores.csv"]


def test_decimal_commas_stay_in_text(tmp_path, monkeypatch, data):
    monkeypatch.chdir(tmp_path)
    text = "y;s\n" + "".join(f"{y};{s:.6f}\n".replace(".", ",") for y, s in data.select("y", "bold").iter_rows())
    Path("de.csv").write_text(text)
    data.select("y", s="bold").write_parquet("typed.parquet")
    args = ("--score", "s", "--decimal-comma")
    call("recalibrate", "de.csv", "--target", "y", *args, "--method", "platt", "--save", "map.json", "--quiet")
    call("apply", "map.json", "de.csv", *args, "-o", "out.parquet")
    assert pl.read_parquet("out.parquet").schema["s_recalibrated"] == pl.Float64
    call("apply", "map.json", "typed.parquet", *args, "-o", "out.csv")
    assert pl.read_csv("out.csv").schema["s_recalibrated"] == pl.Float64  # points and commas, as numbers are there
    call("apply", "map.json", "de.csv", *args, "--delimiter", ";", "-o", "out.tsv")
    assert Path("out.tsv").read_text().splitlines()[0] == "y\ts\ts_recalibrated"


def test_numbers_in_any_writing_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kept = [
        "-",
        "+",
        "-inf",
        "+Infinity",
        "-nan",
        "-5%",
        "-5 %",
        "+1 234,5",
        "-1'000",
        "-1_000",
        "-1e-5",
        "-.5",
        "-1\u202f000",
    ]
    run = ["=1+1", "-1+cmd", "+A1", "@x", "-inf()", "-5%*A1", "--1", "\t=1"]
    Path("map.json").write_text(PlattCalibrator().fit([0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1]).to_json())
    scores = np.linspace(0.2, 0.8, len(kept + run))
    pl.DataFrame({"s": scores, "-5%": kept + run, "=b": "a"}).write_parquet("a.parquet")
    told = call("apply", "map.json", "a.parquet", "--score", "s", "--any-score", "-o", "out.csv").stderr
    assert f"{len(run)} cells get a leading apostrophe" in told
    with Path("out.csv").open(newline="") as out:
        head, *rows = csv.reader(out)
    assert head == ["s", "-5%", "'=b", "s_recalibrated"]
    assert [row[1] for row in rows] == kept + [f"'{text}" for text in run]


# ── output ──────────────────────────────────────────────────────────────────────────────────────────


def test_seed_notes_and_warnings_go_to_stderr(file, data):
    found = call("compare", file, *TWO, "--seed", "7")
    assert "seed: 7" in found.stderr
    assert "seed: 7" not in found.stdout
    assert call("compare", file, *TWO, "--quiet").stderr == ""
    zero = data.with_columns(
        pl.when(pl.int_range(pl.len()) < 3).then(0.0).otherwise(pl.col("bold")).alias("bold"),
        y=pl.when(pl.int_range(pl.len()) < 3).then(1).otherwise(pl.col("y")),
    )
    zero.write_csv("zero.csv")
    out = call("diagnose", "zero.csv", *ONE, "--format", "json")
    assert "NaN" not in out.stdout
    assert json.loads(out.stdout, parse_constant=pytest.fail)


def test_stdin(file, data):
    text = Path(file).read_text()
    piped = json.loads(call("compare", "-", *TWO, "--format", "json", stdin=text).stdout)
    named = json.loads(call("compare", file, *TWO, "--format", "json").stdout)
    assert piped["models"] == named["models"]
    assert piped["origin"]["sha256"] == named["origin"]["sha256"]


def test_llm_columns(tmp_path, monkeypatch, data):
    monkeypatch.chdir(tmp_path)
    data.select(confidence="good", correct="y").write_csv("llm.csv")
    assert "confidence" in call("test", "llm.csv", "--method", "spiegelhalter").stderr


def test_no_colour_no_wide_lines(file, monkeypatch):
    text = call("diagnose", file, *ONE).stdout
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 100
    narrow = call("compare", file, *TWO, env={"COLUMNS": "60"}).stdout
    assert max(map(len, narrow.splitlines())) <= 60
    assert not any(line != line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize(("columns", "width"), [("0", 100), ("1", 40), ("1000000", 200), ("9" * 5000, 100), ("x", 100)])
def test_widths_have_limits(columns, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    assert _output._width() == width
    assert max(map(len, call("losses", env={"COLUMNS": columns}).stdout.splitlines())) <= width


class Terminal(io.TextIOWrapper):
    """A stdout that says it is a terminal."""

    def isatty(self):
        return True


def test_a_terminal_without_colours_gets_no_codes_at_all(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    section = Section("s", "Bold and dim", (), (Callout(Finding("recalibrate", low=0.1, value=1.0)),))
    for no_colour in ("", "1"):
        monkeypatch.setenv("NO_COLOR", no_colour)
        monkeypatch.setattr(sys, "stdout", Terminal(io.BytesIO(), encoding="utf-8"))
        _output.emit(Document("tests", "A title", sections=(section,)), "table")
        sys.stdout.flush()
        assert (b"\x1b" in sys.stdout.buffer.getvalue()) is not bool(no_colour)


def test_bytes_are_escaped_on_a_terminal_only(monkeypatch):
    text = "model,\x1b[31m\r\n\tä,1\n"
    for stream, seen in ((Terminal, "model,\\x1b[31m\n\tä,1\n"), (io.TextIOWrapper, text)):
        monkeypatch.setattr(sys, "stdout", stream(io.BytesIO(), encoding="utf-8"))
        _output.emit_bytes(text)
        assert sys.stdout.buffer.getvalue().decode() == seen


def test_groups_reach_the_numbers(file, data):
    wide = data.with_columns(c=pl.int_range(pl.len()) // 4)
    wide.write_csv("groups.csv")
    args = ("groups.csv", *TWO, "--loss", "brier", "--format", "json")
    found = json.loads(call("compare", *args, "--groups", "c").stdout)
    assert found["origin"]["details"]["columns"]["groups"] == "c"
    scores = {"bold": data["bold"].to_numpy(), "good": data["good"].to_numpy()}
    groups = wide["c"].cast(pl.String).to_numpy()
    there = make_report(data["y"].to_numpy(), scores, loss=["brier"], groups=groups, sections=["models"])
    assert _wordless(found["models"]) == _wordless(json.loads(there.to_json())["models"])  # words name options here
    assert found["models"] != json.loads(call("compare", *args).stdout)["models"]


def _wordless(value):
    """JSON without the sentences of findings."""
    if isinstance(value, dict):
        said = {"kind", "severity", "text"} <= value.keys()
        return {key: _wordless(one) for key, one in value.items() if not (said and key == "text")}
    return [_wordless(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("extra", "words"),
    [((), "at least 5 rows; got 4. Use more data"), (("--groups", "side"), "at least 5 groups; got 2")],
)
def test_few_rows_are_asked_for_more(file, data, extra, words):
    (data.head(4) if not extra else data).write_csv("few.csv")
    assert words in call("diagnose", "few.csv", *ONE, *extra, code=2).stderr


def test_formats_have_one_path(file):
    assert call("compare", file, *TWO, "--format", "md").stdout.startswith("# ")
    head = call("diagnose", file, *ONE, "--format", "csv").stdout.splitlines()[0]
    assert head.startswith("model,loss,term,estimate")


def test_groups_and_time(file):
    args = ("diagnose", file, *ONE, "--segment", "side", "--time", "month", "--loss", "brier", "--full")
    found = json.loads(call(*args, "--format", "json").stdout)
    text = json.dumps(next(s for s in found["sections"] if s["key"] == "segments"))
    assert "left" in text
    assert "2024" in text


HOSTILE = {
    "html": "<img src=x onerror=alert(1)>",
    "sql": "'; DROP TABLE scores; --",
    "markup": "[red]x[/red][/nothing]",
    "formula": "=1+1",
    "path": "../../etc/passwd",
    "regex": "^.*$",
    "option": "--score",
    "lines": "a\nb\x1b[31m",
    "unicode": "смета\u202e",
}


@pytest.fixture
def hostile(tmp_path, monkeypatch, data):
    """Target, scores, groups and labels under names that mean something to somebody."""
    monkeypatch.chdir(tmp_path)
    labels = ("[/red]no", "<b>=yes")
    rng = np.random.default_rng(0)
    columns = {"; DROP TABLE y": [labels[y] for y in data["y"]], "../../group": [f"^{side}$" for side in data["side"]]}
    for name in HOSTILE.values():
        columns[name] = np.clip(data["good"].to_numpy() + rng.normal(0, 0.02, len(data)), 0.01, 0.99).round(2).tolist()
    with Path("h.csv").open("w", newline="") as out:
        csv.writer(out).writerows([list(columns), *zip(*columns.values(), strict=True)])
    return ("h.csv", "--target=; DROP TABLE y", "--pos-label", labels[1])


def test_hostile_names_in_reports(hostile):
    scores = [f"--score={name}" for name in HOSTILE.values()]
    args = (*hostile, scores[0], scores[2], "--loss", "brier", "--segment", "../../group")
    flags = [part for name in ("h.html", "h.md", "h.json", "h.csv.csv", "h.txt") for part in ("-o", name)]
    found = call("report", *args, *flags)
    page = Path("h.html").read_text()
    assert "<img src=x" not in page
    assert "<b>=yes" not in page
    assert json.loads(Path("h.json").read_text())["models"].keys() == {HOSTILE["html"], HOSTILE["markup"]}
    cells = [cell for row in csv.reader(io.StringIO(Path("h.csv.csv").read_text())) for cell in row]
    assert not [cell for cell in cells if cell.startswith("=")]
    assert "[red]x[/red][/nothing]" in found.stdout
    for form in ("table", "md", "json"):
        text = call("compare", *hostile, *scores[3:], "--loss", "brier", "--format", form).stdout
        assert "\x1b" not in text
        assert "\u202e" not in text or form == "json"


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_hostile_names_of_maps_and_tests(name, hostile):
    args = (*hostile, f"--score={name}")
    call("test", *args, "--method", "spiegelhalter")
    call("recalibrate", *args, "--method", "platt", "--loss", "brier", "--save", "m.json")
    call("apply", "m.json", "h.csv", f"--score={name}", "-o", "out.csv")
    with Path("out.csv").open(newline="") as out:
        head = next(csv.reader(out))
    at = list(HOSTILE.values()).index(name) + 2
    assert head[at] in (name, f"'{name}")
    assert not [one for one in head if one.startswith(("=", "-", "+", "@"))]
    sql = call("export", "m.json", "--sql", f"--score-column={name}").stdout
    assert '"' + name.split(".")[0].replace('"', '""') + '"' in sql
    wrong = call("test", *hostile, f"--score=no {name}", code=2).stderr
    assert wrong.count("\n") == 1
    assert "\x1b" not in wrong


# ── the process ─────────────────────────────────────────────────────────────────────────────────────


BUG = """
import sys
import scoreprism.cli._maps as maps
def broken(path):
    raise KeyError("inside")
maps._read_map = broken
from scoreprism.cli import main
main(sys.argv[1:])
"""


def test_bugs_show_no_traceback_unless_asked():
    run = [sys.executable, "-c", BUG]
    done = subprocess.run([*run, "export", "m", "--sql"], capture_output=True, text=True, check=False)
    assert done.returncode == 70
    assert done.stderr.startswith("error: unexpected KeyError: 'inside'. This is a bug in scoreprism; please report it")
    assert done.stderr.count("\n") == 1
    asked = subprocess.run([*run, "--debug", "export", "m", "--sql"], capture_output=True, text=True, check=False)
    environment = subprocess.run(
        [*run, "export", "m", "--sql"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SCOREPRISM_DEBUG": "1"},
    )
    for loud in (asked, environment):
        assert loud.returncode == 70
        assert "Traceback" in loud.stderr


SLOW = """
import pathlib, sys, time
import scoreprism._core.atomic_files as files
whole, ready = files._sync, ["second", "first"]
def slow(temporary):
    whole(temporary)
    pathlib.Path(ready.pop()).touch()
    time.sleep(60)
files._sync = slow
from scoreprism.cli import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    print(end.code, sorted(path.name for path in pathlib.Path().iterdir()), flush=True)
main(sys.argv[1:])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_signals_while_writing_leave_the_old_file_and_nothing_else(file, map_file):
    """One process, as it takes a second to load: its first call is interrupted, its second is terminated."""
    Path("out.csv").write_text("old")
    args = ["apply", map_file, file, "--score", "bold", "-o", "out.csv", "--force"]
    running = subprocess.Popen(
        [sys.executable, "-c", SLOW, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 60
    for ready, sent in (("first", signal.SIGINT), ("second", signal.SIGTERM)):
        while not Path(ready).exists():
            assert time.monotonic() < until
            assert running.poll() is None
            time.sleep(0.02)
        assert Path("out.csv").read_text() == "old"
        running.send_signal(sent)
    printed, said = running.communicate(timeout=30)
    assert running.returncode == 143
    assert printed == "130 ['first', 'map.json', 'out.csv', 'scores.csv']\n"
    assert said.index("interrupted") < said.index("terminated")
    assert "Traceback" not in said
    assert Path("out.csv").read_text() == "old"
    assert sorted(p.name for p in Path().iterdir()) == ["first", "map.json", "out.csv", "scores.csv", "second"]


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of POSIX")
def test_a_closed_pipe_ends_quietly(map_file):
    command = [sys.executable, "-m", "scoreprism", "export", map_file, "--csv", "--points", "100000"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    running.stdout.close()  # before anything is written
    with running.stderr:
        assert running.stderr.read() == b""
    assert running.wait(timeout=30) == 141


SHELL = pytest.mark.skipif(sys.platform == "win32", reason="a shell of POSIX")


def shell(line, code):
    """Run a line of a shell, in which $s is the command."""
    s = f"{shlex.quote(sys.executable)} -m scoreprism"
    done = subprocess.run(["/bin/sh", "-c", line.replace("$s", s)], capture_output=True, text=True, check=False)
    assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    return done


@SHELL
@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("$s losses >&-", 2, "error: stdout is closed\n"),
        ("$s losses --format csv >&-", 2, "error: stdout is closed\n"),
        ("$s --help >&-", 2, "error: stdout is closed\n"),
        ("$s losses 2>&-", 0, ""),
        ("$s losses --format xml 2>&-", 2, ""),
        ("$s losses >&- 2>&-", 2, ""),
        ("$s diagnose - --target y --score s <&-", 2, "got a closed stdin"),
        ("$s losses <&- >&- 2>&-", 2, ""),
    ],
)
def test_closed_streams(line, code, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = shell(line, code)
    assert words in found.stderr
    assert ("brier" in found.stdout) == (code == 0)


@SHELL
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_full_streams(file):
    for form in ("table", "csv"):
        full = shell(f"$s losses --format {form} >/dev/full", 2)
        assert full.stderr == "error: No space left on device\n"
    # the seed is said on stderr; the exit code is that of the gate, where there is one
    run = f"$s test {file} --target y --score bold --method spiegelhalter 2>/dev/full"
    assert "bold" in shell(run, 0).stdout
    gate = "--method spiegelhalter --fail-if-miscalibrated --format json 2>/dev/full"
    failed = shell(f"$s test {file} --target y --score bold {gate}", 1)
    assert json.loads(failed.stdout)["kind"] == "tests"
    shell("$s losses --format xml 2>/dev/full", 2)


@SHELL
def test_what_feeds_stdin_is_not_replaced(file):
    before = Path(file).read_bytes()
    found = shell(f"$s recalibrate - --target y --score bold --save {file} --force < {file}", 2)
    assert "an input file must not be overwritten" in found.stderr
    assert Path(file).read_bytes() == before


def test_terminals_without_the_signs_do_not_crash(file):
    done = process("losses", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert "brier" in done.stdout
    done = process("losses", "--format", "json", env={**os.environ, "PYTHONIOENCODING": "ascii"}, encoding="utf-8")
    assert "−log p_y" in json.dumps(json.loads(done.stdout), ensure_ascii=False)


# ── the documentation ───────────────────────────────────────────────────────────────────────────────

PAGE = ROOT / "docs" / "cli.md"


def commands_of(page):
    """Every ``$ scoreprism …`` line of the console blocks, with the exit code and the lines the page promises."""
    for block in re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        for part in block.replace("\\\n", " ").split("$ ")[1:]:
            line, *promised = part.splitlines()
            if line.startswith("scoreprism"):
                command, _, promise = line.partition("# exit ")
                lines = [text.rstrip() for text in promised if text.strip() not in ("", "…")]
                yield shlex.split(command, comments=True)[1:], int(promise or 0), lines


@pytest.mark.pages
@pytest.mark.parametrize(
    "page", [PAGE, pytest.param(ROOT / "README.md", marks=pytest.mark.slow)], ids=["cli.md", "README"]
)
def test_the_commands_of_the_documentation_work(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seen = list(commands_of(page))
    for args, code, lines in seen:
        own = args[: min([args.index(sign) for sign in "<>" if sign in args], default=None)]
        stdin = Path(args[args.index("<") + 1]).read_text() if "<" in args else None
        found = call(*own, code=code, stdin=stdin)
        if ">" in args:
            Path(args[args.index(">") + 1]).write_text(found.stdout)
        said = found.stdout + found.stderr
        assert [line for line in lines if line not in said] == [], args
    assert {args[0] for args, _, _ in seen} >= ({"report", "apply"} if page != PAGE else COMMANDS.keys())


def test_recalibrate_keeps_the_order_where_the_best_flexible_map_is_not_monotone(file):
    """P(Y | S) rises, jumps to 0.9 between 0.4 and 0.6 and falls again: order kept, AUC up to ties, the map named."""
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(0)
    s = rng.random(3000).round(2)
    y = (rng.random(3000) < np.where(np.abs(s - 0.5) < 0.1, 0.9, s)).astype(int)
    pl.DataFrame({"y": y, "s": s}).write_csv("wavy.csv")
    args = ("recalibrate", "wavy.csv", "--target", "y", "--score", "s")
    text = call(*args, "--save", "map.json").stdout
    assert text.startswith("Recalibration of s by monotone-spline\n")
    assert "by selected" not in text
    for words in ("How the map was chosen", "identity", "platt", "beta", "isotonic", "standard error"):
        assert words in text
    assert "The data contradict the order of the scores: out of fold, kernel," in " ".join(text.split())
    map_ = from_json(Path("map.json").read_text())
    grid = np.linspace(0, 1, 10001)
    assert (np.diff(map_.calibrate(grid)) >= 0).all()
    before, after = roc_auc_score(y, s), roc_auc_score(y, map_.calibrate(s))
    assert f"AUC {before:.4f} before, {after:.4f} after" in " ".join(text.split())
    assert after == pytest.approx(before, abs=0.005)
    found = json.loads(call(*args, "--format", "json").stdout)["models"]["s"]["map"]
    assert found["name"] == map_.selected_
    assert found["chosen_by"] == "cross-validation"
    assert found["order_kept"] is True
    assert set(found["candidates"]) == {"identity", "platt", "beta", "monotone-spline", "isotonic"}
    assert found["contradiction"]["map"] == "kernel"
    assert found["contradiction"]["gain"] > 2 * found["contradiction"]["std_error"]
    free = json.loads(call(*args, "--order", "any", "--format", "json").stdout)["models"]["s"]["map"]
    assert (free["name"], free["order_kept"], free["contradiction"]) == ("kernel", False, None)


def test_recalibrate_leaves_calibrated_scores_alone_and_says_so(file):
    rng = np.random.default_rng(1)
    s = rng.random(1500).round(2)
    pl.DataFrame({"y": (rng.random(1500) < s).astype(int), "s": s}).write_csv("good.csv")
    done = call("recalibrate", "good.csv", "--target", "y", "--score", "s", "--save", "map.json")
    assert "note: the map is the identity: it leaves the scores unchanged" in done.stderr
    assert "leave its scores as they are." in " ".join(done.stdout.split())
    np.testing.assert_array_equal(from_json(Path("map.json").read_text()).calibrate(s), s)


def test_a_map_that_must_not_turn_a_score_around_is_told_to_be_constant(file):
    rng = np.random.default_rng(0)
    s = rng.random(1500).round(2)
    pl.DataFrame({"y": (rng.random(1500) < 1 - s).astype(int), "s": s}).write_csv("turned.csv")
    text = " ".join(call("recalibrate", "turned.csv", "--target", "y", "--score", "s", "--as-given").stdout.split())
    assert "it gives every row the same probability (AUC 0." in text
    assert "which may reverse it, has a log loss 0." in text
    assert "The order is kept; pass --order any to follow the data." in text


def test_order_is_for_a_map_that_is_chosen(file):
    done = call("recalibrate", file, *ONE, "--method", "kernel", "--order", "keep", code=2)
    assert "--order is for --method selected; got kernel" in done.stderr


def test_logits_are_declared_and_judged_as_in_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    z = (2.0 * rng.normal(size=(300, 3))).round(6)
    y = (z / 1.5 + rng.gumbel(size=z.shape)).argmax(axis=1)
    pl.DataFrame({"y": y, **{f"z_{k}": z[:, k] for k in range(3)}, "x": rng.normal(size=300)}).write_csv("logits.csv")
    args = ("logits.csv", "--target", "y", "--score", "z_*", "--logits")
    found = call("diagnose", *args, "--loss", "brier", "--format", "json")
    assert "note: Score 'z' was read as logits." in found.stderr
    made = json.loads(found.stdout)["models"]["z"]["losses"]["brier"]["terms"]
    terms = {name: term["estimate"] for name, term in made.items()}
    assert terms == pytest.approx(scoreprism.decompose(y, scoreprism.Logits(z), loss="brier").terms, rel=1e-12)
    assert "take them with --logits." in call("diagnose", *args[:-1], code=2).stderr
    for extra in (("--all-features",), ("--engine", "polars")):
        assert "--logits" in call("diagnose", *args, *extra, code=2).stderr
    refused = call("report", *args, "--save-map", "map.json", code=2).stderr
    assert "--save-map and --logits exclude each other; got both. A map of a file is one of probabilities" in refused
    assert not Path("map.json").exists()
